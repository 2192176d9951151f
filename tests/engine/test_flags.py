"""Flags: invalid ones give a one-line error and exit code 2; valid ones take effect."""

from __future__ import annotations

import enum
import io
import sys
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import numpy as np
import pytest
import tyro
from conftest import run
from proof.config import Config
from proof.engine.batches import BatchLayout, TrainingBatches
from proof.engine.command_line import parse, to_yaml
from proof.engine.errors import UsageError
from proof.run import create_schedule, global_batch_size

from . import project

pytestmark = pytest.mark.quick


# Four steps an epoch.
BATCHES = TrainingBatches(np.zeros(48), BatchLayout(12, 1, 0, 1))


def parsed(*arguments: str) -> Config:
    (config,) = parse(arguments, training=Config)
    return config


def error(capsys: pytest.CaptureFixture[str], *arguments: str, **forms: type) -> str:
    """The message of a bad command line, or of dataclasses that can't be flags."""
    with pytest.raises(SystemExit) as end:
        parse(arguments, training=Config, **forms)
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    return message


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--epochz", "3"], "; perhaps you meant --epochs. "),
        (["--epochs", "many"], "many"),
        (["--epochs", "0"], "--epochs is 0"),
        (["--steps", "0"], "--steps is 0"),
        (["--epochs", "3", "--steps", "5"], "not both"),
        (["--validate-every-steps", "-1"], "--validate-every-steps is -1"),
        (["--strategy", "horovod"], "--strategy is horovod; it must be one of: auto, none, "),
        (["--strategy", "mirored"], "; perhaps you meant mirrored. "),
        (["--jit", "onn"], "--jit is onn; it must be one of: auto, on, off; perhaps you meant on."),
        (["--strategy", "parameter_server"], "lose updates"),
        (["--strategy=parameter_server"], "--strategy multi_worker"),
        (["--global-batch-size", "96", "--batch-size-per-replica", "12"], "not both"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--resume", "nowhere"], "not a run directory"),
        (["--resume", "x" * 300], "not a run directory"),
        (["--config"], "--config needs a value"),
        (["--epochs"], "--epochs needs a value. "),
        (["--config", "no\nfile\x1b[2J"], "no file"),
        (["--seed", str(2**32)], "at most"),
        (["--epochs", str(2**62)], "at most"),
        (["--save-every-secs", "inf"], "finite"),
        (["--clip-norm", "nan"], "finite"),
        (["--epochs", "2020-13-45"], "--epochs is 2020-13-45; it must be a whole number"),
        (["--strategy", "none", "--virtual-replicas", "2"], "none trains on one replica"),
        (["--strategy", "one_device", "--virtual-replicas", "2"], "use --strategy mirrored, or"),
        (["--virtual-replicas", "100000"], "--virtual-replicas is 100000; it must be at most 256"),
        (["--profile", "5"], "--profile is '5'; it is FIRST:LAST"),
        (["--profile", "0:9"], "--profile is '0:9'; it is FIRST:LAST"),
        (["--profile", "9:5"], "--profile is '9:5'; it is FIRST:LAST"),
        (["--name", "../x"], "--name is '../x'"),
        (["--runs", "gs://bucket/runs"], "'gs://bucket/runs'; it must be a directory of this"),
        (["--name", ""], "--name is ''"),
        (["--resume", ""], "--resume is empty, as by a shell's variable that isn't set; give it"),
        (["--resume="], "--resume is empty"),
        (["--config", "", "--seed", "1"], "--config is empty"),
        (["--config="], "--config is empty"),
        (["--runs", ""], "--runs is empty"),
        (["--name", "\udcff"], "'\\udcff' holds what isn't UTF-8"),
        (["--runs=z\udcff"], "'--runs=z\\udcff' holds what isn't UTF-8"),
        (["--runs", "z\0"], "'z\\x00' holds what isn't UTF-8, or a NUL character"),
        (["--resume", "z\0"], "'z\\x00' holds what isn't UTF-8, or a NUL character"),
        (["--config", "\udcff"], "'\\udcff' holds what isn't UTF-8"),
    ],
)
def test_bad_flags_get_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], part: str
) -> None:
    assert part in error(capsys, *arguments)


def test_a_hint_is_the_same_however_long_the_path_of_the_program(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    sentences = set()
    for length in range(35, 65):  # the last line of Tyro's box, "see PROGRAM --help", breaks
        monkeypatch.setattr(sys, "argv", ["p" * length])
        sentences.add(error(capsys, "--epochz", "3"))
    assert len(sentences) == 1


@pytest.mark.parametrize("arguments", [["--epoch", "3"], ["--jit", "maybe"], ["--epochs"]])
def test_the_sentence_is_the_same_in_any_encoding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    sentences = set()
    for encoding in ("utf-8", "ascii"):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        sentences.add(error(capsys, *arguments))
    assert len(sentences) == 1


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("arguments", [["--epoch", "3"], ["--jit", "maybe"], ["--seed", "x"]])
def test_on_a_terminal_the_sentence_is_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    elsewhere = error(capsys, *arguments)
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert error(capsys, *arguments) == elsewhere


def test_help_has_no_color_and_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "argv", ["train.py"])  # which the first line names
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        parsed("--help")
    text = terminal.getvalue()
    assert "--epochs" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.skipif(tyro.__version__.startswith("0."), reason="older ones show a single group")
def test_help_shows_flags_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--help")
    text = capsys.readouterr().out
    parts = ["How long to train, and the seed.", "--epochs "]
    parts += ["Where and how to compute.", "--strategy "]
    parts += ["Run directory and checkpoints.", "--resume "]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_flags_override_a_file_which_overrides_defaults(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("epochs: 7\nseed: 3\n")
    config = parsed("--config", str(file), "--seed", "5")
    assert (config.epochs, config.seed, config.strategy) == (7, 5, "auto")


PARTNERS = [("epochs", "steps"), ("global_batch_size", "batch_size_per_replica")]


@pytest.mark.parametrize(("one", "other"), [*PARTNERS, *((b, a) for a, b in PARTNERS)])
def test_a_flag_that_is_typed_instead_of_one_in_a_file_replaces_it(
    one: str, other: str, tmp_path: Path
) -> None:
    file, flag = tmp_path / "config.yaml", f"--{one.replace('_', '-')}"
    file.write_text(f"seed: 0\n{one}: null\n{other}: 48\n")
    for typed in ([flag, "4"], [f"--{one}=4"]):
        for option in (["--config", str(file)], ["--resume", str(tmp_path)]):
            config = parsed(*option, *typed)
            assert (getattr(config, one), getattr(config, other)) == (4, None)
    assert getattr(parsed("--config", str(file), flag, "None"), other) == 48


def test_none_in_quotes_or_typed_is_a_text_where_null_is_none(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("name: 'None'\nepochs: null\n")
    config = parsed("--config", str(file))
    assert (config.name, config.epochs) == ("None", None)
    file.write_text(to_yaml(parsed("--name", "None")))
    assert parsed("--config", str(file)).name == "None"


def test_a_file_replaces_what_the_resumed_run_has_instead(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(to_yaml(Config(steps=48)))
    file = tmp_path / "more.yaml"
    file.write_text(f"epochs: 4\nresume: {tmp_path}\n")
    for option in ([], ["--resume", str(tmp_path)]):
        config = parsed("--config", str(file), *option)
        assert (config.epochs, config.steps) == (4, None)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("epochs: many", "--epochs is many; it must be a whole number"),
        ("epochs: 0", "--epochs is 0; it must be at least 1"),
        ("name: null", "--name is null, and must be a text; write '' for an empty one"),
        ("runs:", "--runs is null, and must be a text"),
        ("clip_norm: .nan", "--clip-norm is nan; it must be a finite number"),
        ("jit: onn", "--jit is onn; it must be one of"),
        ("quiet: nope", "--quiet is nope; it must be True or False. (--help"),
        ("epochs: 3\nsteps: 5", "give --epochs or --steps, not both"),
        (
            "epoch: 7",
            "Unrecognized options: --epoch=7; perhaps you meant --epochs; put the flag back, or",
        ),
        ("strategy: parameter_server", "--strategy parameter_server: "),
        ('runs: "z\\0"', "'--runs=z\\x00' holds what isn't UTF-8"),
    ],
)
def test_a_sentence_about_a_value_in_a_file_names_the_file(
    content: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"seed: 3\n{content}\n")
    for option in (["--config", str(file)], ["--resume", str(tmp_path)]):
        assert error(capsys, *option).startswith(f"error: {file}: {part}")
    file.write_text("epochs: 7\n")
    assert error(capsys, "--config", str(file), "--epochs", "0").startswith("error: --epochs is 0")


def test_a_run_that_a_file_says_to_resume_must_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("resume: nowhere\n")
    message = error(capsys, "--config", str(file))
    assert message == "error: nowhere is not a run directory: it has no config.yaml.\n"


@pytest.mark.parametrize("word", ["on", "off", "On", "OFF"])
def test_on_and_off_in_a_file_are_words_and_need_no_quotes(word: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"jit: {word.lower()}\ndeterministic: {word}\nname: {word}\n")
    config = parsed("--config", str(file))
    assert (config.jit, config.name) == (word.lower(), word)
    assert config.deterministic is (word.lower() == "on")


@pytest.mark.parametrize(
    ("word", "fast"), [("true", True), ("False", False), ("yes", True), ("no", False)]
)
def test_a_switch_in_a_file_is_on_or_off(word: str, fast: bool, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"fast: {word}\n")
    assert parse(["--config", str(file)], task=Flags) == (Flags(fast=fast),)


def test_an_unknown_name_in_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("epoch: 7\n")
    assert "--epoch" in error(capsys, "--config", str(file))


@pytest.mark.parametrize(
    "content",
    [
        b"epochs: [[1]]",
        b"- epochs",
        b"epochs: " + b"[" * 2000,
        b"seed: " + b"9" * 5000,
        b"epochs: 2020-13-45",
        b"a: &a [x, x]\nepochs: [*a, *a]",
        b"epochs: &a [*a]",
        b'runs: "z\\0"',
        b'runs: "z\\ud800"',
        b"\xff\xfe",
        b"epochs: !!python/object/apply:os.system [ls]",
        b"#" * 2_000_000,
    ],
)
def test_a_file_that_holds_something_else_gets_one_sentence(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(content)
    assert error(capsys, "--config", str(file))


def test_a_flag_that_a_file_has_twice_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("clip-norm: 1\nseed: 3\nclip_norm: 2\n")
    message = error(capsys, "--config", str(file))
    assert message == f"error: {file} has `clip_norm` twice; delete one of them.\n"


class Color(enum.Enum):
    """A choice."""

    RED = 1
    BLUE = 2


@pytest.mark.quick
def test_a_list_for_one_value_in_a_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "flags.yaml"
    file.write_text("epochs: [1, 2]\n")
    with pytest.raises(SystemExit):
        parse(["--config", str(file)], training=Config, task=Flags)
    assert capsys.readouterr().err == f"error: {file}: --epochs takes one value, not a list.\n"


@pytest.mark.quick
def test_values_with_commas_are_told_how_to_be_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        parse(["--layers", "8,4"], training=Config, task=Flags)
    assert "error: --layers is 8,4; separate its values by blanks." in capsys.readouterr().err


@dataclass
class Required:
    """A task with a flag that has no default."""

    data: str


class Plain:
    """No dataclass."""

    data: str = "data"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (Required, "Required in test_flags.py has the field data without a default; give it one."),
        (Plain, "Plain in test_flags.py is no dataclass; write @dataclass(frozen=True) above it."),
    ],
)
def test_a_task_without_defaults_is_one_sentence(
    form: type, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error(capsys, "--data", "x", task=form) == f"error: {sentence}\n"


@dataclass
class Named:
    """A task whose flag has the name of one of training."""

    seed: int = 1


@dataclass
class Counted:
    """A task with a constant of the name of a flag, which is none."""

    epochs: ClassVar[int] = 7
    width: int = 1


@pytest.mark.quick
def test_a_constant_of_the_task_may_have_the_name_of_a_flag() -> None:
    _, task = parse([], training=Config, task=Counted)
    assert task.width == 1


@pytest.mark.quick
def test_a_flag_of_the_task_with_the_name_of_another_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = error(capsys, task=Named)
    assert "Named in test_flags.py has the field seed, but --seed is a flag of" in said
    assert " in config.py already; call it otherwise." in said


@dataclass
class Listing:
    """A task with a flag that `check` has."""

    list: Path = Path("files.txt")


@dataclass
class Rates:
    """Two dicts with an entry of the same name, each of which is a flag."""

    rates: dict[str, float] = field(default_factory=lambda: {"encoder": 1e-4})
    decays: dict[str, float] = field(default_factory=lambda: {"encoder": 0.1})


@dataclass(frozen=True)
class Stage:
    """A part of a model."""

    width: int = 1


@dataclass(frozen=True)
class Stages:
    """Several parts, whose flags would have the same name."""

    stages: tuple[Stage, ...] = (Stage(1), Stage(2))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        (Listing, "has the field list, which is a flag of the commands; rename it."),
        (Rates, "has the field encoder, but --encoder is a flag of Rates in"),
        (Stages, "TaskConfig makes two flags of one name"),
    ],
)
def test_names_of_flags_that_collide_are_one_sentence(
    form: type, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in error(capsys, task=form)


@dataclass(frozen=True)
class Flags:
    """Of all types that a task may have."""

    data: Path = Path("data")
    layers: tuple[int, ...] = (64, 64)
    betas: tuple[float, float] = (0.9, 0.999)
    color: Color = Color.RED
    note: str | None = None
    steps_of: dict[str, int] = field(default_factory=lambda: {"head": 1})
    fast: bool = False
    careful: bool | None = None
    blocks: tuple[tuple[int, int], ...] = ((32, 1), (64, 1))
    longest: float = float("inf")
    rate: float = 0  # as Python takes it
    pair: tuple[float, float] = (0, 1)
    noise: float = np.sqrt(0.5)
    names: frozenset[str] = frozenset({"cat", "dog", "bird", "cow"})
    of_class: dict[int, float] = field(default_factory=dict)


@pytest.mark.parametrize(
    "flags",
    [
        Flags(),
        Flags(
            Path("a b/[c]"), (), (-1.0, 1e-20), Color.BLUE, "010", {"head": 3}, True, longest=2.0
        ),
        Flags(note="yes: no # 2020-01-01", careful=True, blocks=((1, 2),)),
        Flags(careful=False, blocks=()),
        Flags(rate=3, noise=np.float64(1e-4), of_class={0: 1.0, 7: 0.5}, names=frozenset()),
    ],
)
def test_flags_of_any_type_can_be_read_back(flags: Flags, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(flags))
    assert parse(["--config", str(file)], task=Flags) == (flags,)


def test_whole_numbers_for_floats_and_sets_are_written_in_one_way() -> None:
    lines = to_yaml(Flags()).splitlines()
    assert {"rate: 0.0", "- 1.0", "of_class: []"} <= set(lines)
    start = lines.index("names:") + 1
    assert lines[start : start + 4] == ["- bird", "- cat", "- cow", "- dog"]


@dataclass(frozen=True)
class Unreadable:
    """What the command line takes, and config.yaml wouldn't give back."""

    words: tuple[str, ...] = ()
    note: str | None = None
    size: int | str = 3


@pytest.mark.parametrize(
    ("value", "flag"),
    [({"words": ("-c",)}, "words"), ({"note": "None"}, "note"), ({"size": "5"}, "size")],
)
def test_a_value_that_a_run_could_not_give_back_is_refused(
    value: dict[str, Any], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    form = make_dataclass("Form", [(n, t, value.get(n, getattr(Unreadable, n)))
                                   for n, t in get_type_hints(Unreadable).items()])  # fmt: skip
    with pytest.raises(SystemExit) as end:
        parse([], task=form)
    assert end.value.code == 2
    assert f"error: --{flag} is " in (said := capsys.readouterr().err)
    assert "which a run's config.yaml can't hold" in said


@pytest.mark.parametrize("flags", [["--epochs", "3"], ["--steps", "3"], []])
def test_a_printed_configuration_can_be_read_back(flags: list[str], tmp_path: Path) -> None:
    first = parsed(*flags, "--deterministic", "--global-batch-size", "48")
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(first))
    assert parsed("--config", str(file)) == first


@pytest.mark.parametrize(
    ("flags", "steps"), [([], 160), (["--epochs", "2"], 8), (["--steps", "7"], 7)]
)
def test_a_run_lasts_so_many_epochs_or_steps(flags: list[str], steps: int) -> None:
    assert create_schedule(parsed(*flags), BATCHES).num_steps == steps


@pytest.mark.parametrize(
    "name",
    [
        "validate_every_steps",
        "validation_steps",
        "log_every_steps",
        "save_every_epochs",
        "save_every_steps",
        "save_every_secs",
        "keep_checkpoints",
        "steps_per_call",
        "max_stop_secs",
    ],
)
def test_a_flag_reaches_the_schedule(name: str) -> None:
    config = parsed(f"--{name.replace('_', '-')}", "3")
    assert getattr(create_schedule(config, BATCHES), name) == 3


def test_a_batch_that_the_replicas_cannot_divide_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="96 or 100"):
        global_batch_size(Config(global_batch_size=97), 4)
    with pytest.raises(UsageError, match="96 or 104"):
        global_batch_size(Config(global_batch_size=97, accumulate=2), 4)


@pytest.mark.quick
def test_windows_gets_a_sentence() -> None:
    code = "import sys; sys.platform = 'win32'; import proof.engine.command_line"
    ended = run(sys.executable, "-c", code, cwd=Path(project), status=2)
    assert ended.stderr == "error: Windows isn't supported: use its Linux subsystem, WSL 2.\n"
