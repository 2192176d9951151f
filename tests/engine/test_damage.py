"""Run directories that something has changed, and names that mean something elsewhere."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import math
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import proof
import pytest
import tensorflow as tf
from filelock import FileLock
from proof.config import Config
from proof.engine import checkpoints, link
from proof.engine.callbacks import Event, at_step
from proof.engine.checkpoints import BestWeights
from proof.engine.command_line import parse, to_yaml
from proof.engine.errors import UsageError, code_of, usage_errors
from proof.engine.files import replace_file, to_json
from proof.engine.interrupts import Interrupts
from proof.engine.locks import is_locked
from proof.engine.run_directory import RunDirectory, find_resumed
from proof.engine.run_files import read_run
from proof.engine.tf_log_filter import filtered_tf_import
from proof.task.config import TaskConfig

from . import project
from .test_loop import loop
from .toys import BATCH, Toy, build, plain_data

TOY = Toy(data=plain_data(2 * BATCH), others={"validation": plain_data(BATCH + 5)})
SETTINGS: dict[str, Any] = {"toy": TOY, "num_steps": 8, "save_every_steps": 3}


def resumed(path: Path) -> list[np.ndarray]:
    """The best weights of a run, resumed from its latest checkpoint and trained to the end."""
    run = loop(path, resume=True, **SETTINGS)
    run.train()
    run.test()
    return [v.numpy() for v in run.run.model.trainable_variables]


@pytest.fixture(scope="module")
def best(tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    """The best weights of a run that nothing happened to."""
    run = loop(tmp_path_factory.mktemp("whole"), **SETTINGS)
    run.train()
    run.test()
    return [v.numpy() for v in run.run.model.trainable_variables]


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """The directory of a run that was stopped after four of its eight steps."""
    loop(tmp_path, **SETTINGS | {"num_steps": 4}).train()
    return tmp_path


NAMES = ["lr[0.1]", "a*b?", "a\\b", "{a}", "a b", "ü~'$"]


@pytest.mark.parametrize("name", [pytest.param(NAMES[0], marks=pytest.mark.quick), *NAMES[1:]])
def test_a_run_of_any_name_is_resumed(name: str, tmp_path: Path, best: Any) -> None:
    loop(tmp_path / name, **SETTINGS | {"num_steps": 4}).train()
    for a, b in zip(resumed(tmp_path / name), best, strict=True):
        np.testing.assert_array_equal(a, b)


def truncate(path: Path) -> None:
    for file in path.iterdir():
        file.write_bytes(file.read_bytes()[:50])


def remove(path: Path) -> None:
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


def remove_data(path: Path) -> None:
    for file in path.glob("*.data*"):
        file.unlink()


@pytest.mark.quick
@pytest.mark.parametrize("damage", [truncate, remove, remove_data])
def test_without_its_best_weights_a_run_selects_anew(
    damage: Callable[[Path], None], half: Path, best: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(half / "checkpoints" / "best")
    for a, b in zip(resumed(half), best, strict=True):  # the last ones are the best of this toy
        np.testing.assert_array_equal(a, b)
    assert "the next validation selects anew" in capsys.readouterr().out


@pytest.mark.quick
def test_damaged_best_weights_are_replaced_by_the_latest(
    half: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = loop(half, resume=True, **SETTINGS)
    latest = [v.numpy() for v in run.run.model.trainable_variables]
    truncate(half / "checkpoints" / "best")
    run.run.model.set_weights([0 * w for w in run.run.model.get_weights()])
    assert run.best.restore()
    for a, b in zip(latest, run.run.model.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b.numpy())
    assert "no best weights to read; those of step 4 are used" in capsys.readouterr().err


@pytest.mark.quick
@pytest.mark.parametrize("moment", ["after the listing", "before the reading", "in the listing"])
def test_best_weights_are_restored_while_a_run_replaces_them(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training, opened = build(TOY).run, build(TOY).run
    best, latest = tmp_path / "best", tmp_path / "latest"
    BestWeights(best, training).save(1)
    BestWeights(latest, training).save(1)
    value = training.trainable_variables[0]
    value.assign_add(tf.ones_like(value.value))
    steps, read, replaced = checkpoints._steps, tf.train.Checkpoint.read, []

    def replace() -> None:
        if not replaced:
            replaced.append(True)
            BestWeights(best, training).save(2)

    def list_then_replace(directory: Path) -> list[int]:
        found = steps(directory)
        if directory == best and moment != "before the reading" and not replaced:
            replace()
            return [] if moment == "in the listing" else found
        return found

    def replace_then_read(*arguments: Any) -> Any:
        replace()
        return read(*arguments)

    monkeypatch.setattr(checkpoints, "_steps", list_then_replace)
    monkeypatch.setattr(tf.train.Checkpoint, "read", replace_then_read)
    assert BestWeights(best, opened).restore()
    assert replaced
    np.testing.assert_array_equal(opened.trainable_variables[0].numpy(), value.numpy())
    assert capsys.readouterr().err == ""


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["latest", "best"])
@pytest.mark.parametrize(
    ("method", "part", "number", "mend"),
    [
        ("open", "ckpt-4.data", errno.EACCES, "let this user"),
        ("open", "ckpt-4.data", errno.ESTALE, "look at the disk"),
        ("iterdir", "", errno.EACCES, "let this user"),
        ("iterdir", "", errno.EIO, "look at the disk"),
    ],
)
def test_checkpoints_that_cannot_be_read_now_are_not_taken_for_damaged(
    kind: str,
    method: str,
    part: str,
    number: int,
    mend: str,
    half: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = loop(half, resume=True, **SETTINGS)
    unreadable, before = str(half / "checkpoints" / kind / part), getattr(Path, method)

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if str(path).startswith(unreadable):  # root may read what nobody else may
            raise OSError(number, os.strerror(number), str(path))
        return before(path, *arguments, **options)

    monkeypatch.setattr(Path, method, refuse)
    sentence = rf"^{re.escape(unreadable)}\S* can't be read: {os.strerror(number)}; {mend}"
    with pytest.raises(UsageError, match=sentence):
        loop(half, resume=True, **SETTINGS)
    if kind == "best":
        with pytest.raises(UsageError, match=sentence):
            run.best.restore()


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["latest", "best"])
@pytest.mark.parametrize(
    ("error", "reason", "mend"),
    [
        (tf.errors.OpError(None, None, "a; Input/output error", 2), "Input/output error", "look"),
        (tf.errors.UnknownError(None, None, "a; Remote I/O error"), "Remote I/O error", "look"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset"), "Connection reset", "look"),
        (tf.errors.ResourceExhaustedError(None, None, "OOM when reading"), "OOM when", "free some"),
        (MemoryError("Unable to allocate 9 GiB"), "Unable to allocate", "free some memory"),
    ],
    ids=["disk", "file server", "connection", "memory of tensorflow", "memory"],
)
def test_a_disk_that_fails_tensorflow_is_no_damage(
    error: Exception, reason: str, mend: str, kind: str, half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = tf.train.load_checkpoint

    def fail(path: str) -> Any:
        if Path(path).parent.name == kind:
            raise error
        return load(path)

    monkeypatch.setattr(tf.train, "load_checkpoint", fail)
    with pytest.raises(UsageError, match=f"{kind}/ckpt-4 can't be read: {reason}.*; {mend}"):
        loop(half, resume=True, **SETTINGS)


@pytest.mark.quick
def test_a_checkpoint_that_is_replaced_while_it_is_read_is_no_failing_disk(
    half: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(path: str) -> Any:  # as NFS does
        for file in Path(path).parent.glob("ckpt-4.*"):
            file.unlink()
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(tf.train, "load_checkpoint", fail)
    assert not checkpoints._is_readable(half / "checkpoints" / "latest", 4)
    assert capsys.readouterr().err == ""


@pytest.mark.quick
def test_what_a_killed_run_was_writing_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", Mock(side_effect=KeyboardInterrupt))
        killed.setattr(Path, "unlink", Mock())  # SIGKILL leaves no time for it
        with pytest.raises(KeyboardInterrupt):
            replace_file(tmp_path / "results.json", "{}")
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "my.new").touch()
    with RunDirectory.open(tmp_path, "", tmp_path, ""):
        assert {path.name for path in tmp_path.iterdir()} == {"lock", "my.new"}


def test_files_beside_the_checkpoints_stay_and_do_not_matter(half: Path, best: Any) -> None:
    strays = [
        half / "checkpoints" / kind / name
        for kind in ("latest", "best")
        for name in ("ckpt-9 (copy).index", "ckpt-9.sync-conflict-20260101.index", "notes.txt")
    ]
    for file in strays:
        file.write_text("mine")
    for a, b in zip(resumed(half), best, strict=True):
        np.testing.assert_array_equal(a, b)
    assert all(file.read_text() == "mine" for file in strays)


@pytest.mark.quick
def test_a_mark_before_the_history_is_read_over(half: Path) -> None:
    file = half / "history.csv"
    rows = file.read_text().splitlines()
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    resumed(half)
    assert file.read_text().splitlines()[: len(rows)] == rows


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b",", b";"),
        lambda text: text.replace(b".", b","),
        lambda text: text + b"note,this,is,good\n",
        lambda text: b"\xff\xfe" + text.decode().encode("utf-16-le"),
        lambda text: b"a,b\n1,2\n",
    ],
)
def test_a_changed_history_is_kept_and_a_new_one_begins(
    change: Callable[[bytes], bytes], half: Path, best: Any
) -> None:
    file = half / "history.csv"
    changed = change(file.read_bytes())
    file.write_bytes(changed)
    for a, b in zip(resumed(half), best, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (half / "history-changed.csv").read_bytes() == changed
    assert [line.split(",")[1] for line in file.read_text().splitlines()] == ["step", "6", "8"]


@pytest.mark.quick
@pytest.mark.parametrize("number", [errno.ESTALE, errno.EMFILE, errno.EACCES])
def test_a_history_that_cannot_be_read_now_is_not_changed(
    number: int, half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_text

    def fail(path: Path, *arguments: Any, **options: Any) -> str:
        if path.name == "history.csv":
            raise OSError(number, os.strerror(number), str(path))
        return read(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", fail)
        sentence = rf"history\.csv can't be read: {os.strerror(number)}"
        with pytest.raises(UsageError, match=sentence):
            loop(half, resume=True, **SETTINGS)
    assert (half / "history.csv").read_text().count("\n") == 3
    assert not (half / "history-changed.csv").exists()


@pytest.mark.quick
@pytest.mark.parametrize("rows", [None, 0, 1], ids=["missing", "empty", "shortened"])
def test_a_lost_history_is_said_and_the_best_and_latest_rows_are_known(
    rows: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The best validation is the second of four.
    settings = SETTINGS | {"validate_every_steps": 2, "save_every_epochs": 0}
    whole = loop(tmp_path, **settings)
    whole.best.is_best = lambda row: row["step"] == 4  # type: ignore[method-assign]
    whole.train()
    file = tmp_path / "history.csv"
    lines = file.read_text().splitlines(keepends=True)
    file.unlink()
    if rows is not None:
        file.write_text("".join(lines[: rows + 1]) if rows else "")
    capsys.readouterr()
    again = loop(tmp_path, resume=True, **settings)
    lost = f"{file} has {rows or 0} rows up to step 8, and had 4: others are lost\n"
    assert lost in capsys.readouterr().out
    again.train()
    again.test()
    assert again.best_row == whole.best_row
    assert again.best_row["step"] == 4
    assert again.records.latest == whole.records.latest
    assert again.records.latest_row["step"] == 8
    assert "best *      step 4, chosen by" in again.closing_lines(1.0)


@pytest.mark.quick
def test_a_history_with_all_rows_is_taken_without_a_word(
    half: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    loop(half, resume=True, **SETTINGS)
    assert "lost" not in capsys.readouterr().out


@pytest.mark.quick
@pytest.mark.parametrize(
    "neighbor",
    [b"seed: 2020-13-45\n", b"\xff\xfe", b"[" * 2000, b"a: &a [*a]\n", b"x" * 2_000_000, None],
    ids=["date", "not UTF-8", "levels", "itself", "large", "directory"],
)
def test_a_damaged_neighbor_does_not_matter(neighbor: bytes | None, tmp_path: Path) -> None:
    config = to_yaml(Config())
    for name, content in (("1", config.encode()), ("2", neighbor)):
        run = tmp_path / name
        (run / "checkpoints" / "latest").mkdir(parents=True)
        (run / "checkpoints" / "latest" / "ckpt-1.index").touch()
        if content is None:
            (run / "config.yaml").mkdir()
        else:
            (run / "config.yaml").write_bytes(content)
    assert find_resumed(tmp_path, "auto", config) == tmp_path / "1"


@pytest.mark.quick
@pytest.mark.parametrize("part", ["", "1/config.yaml", "1/checkpoints/latest"])
@pytest.mark.parametrize("number", [errno.ESTALE, errno.ECONNRESET, errno.EBADMSG, errno.EACCES])
def test_a_run_that_cannot_be_read_now_is_not_begun_anew(
    number: int, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, run = to_yaml(Config()), tmp_path / "1"
    (run / "checkpoints" / "latest").mkdir(parents=True)
    (run / "checkpoints" / "latest" / "ckpt-1.index").touch()
    (run / "config.yaml").write_text(config)

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def fail(path: Path, *arguments: Any) -> Any:
            if Path(path) == tmp_path / part:
                raise OSError(number, os.strerror(number), str(path))
            return function(path, *arguments)

        return fail

    for owner, name in ((Path, "iterdir"), (os, "scandir"), (Path, "open")):
        monkeypatch.setattr(owner, name, failing(getattr(owner, name)))
    if number == errno.EACCES and part:  # somebody else's
        assert find_resumed(tmp_path, "auto", config) is None
        return
    sentence = f"{tmp_path}.* can't be read: {os.strerror(number)}"
    with pytest.raises(UsageError, match=sentence) as refused:
        find_resumed(tmp_path, "auto", config)
    assert code_of(refused.value) == (2 if number in (errno.EACCES, errno.EBADMSG) else 138)


@pytest.mark.quick
def test_a_moved_run_is_found(tmp_path: Path) -> None:
    run = tmp_path / "1"
    (run / "checkpoints" / "latest").mkdir(parents=True)
    (run / "checkpoints" / "latest" / "ckpt-1.index").touch()
    (run / "config.yaml").write_text(to_yaml(Config(runs="/elsewhere/", quiet=True)))
    assert find_resumed(tmp_path, "auto", to_yaml(Config(runs=str(tmp_path)))) == run


@pytest.mark.quick
def test_a_copy_of_a_run_is_not_resumed_in_its_place(tmp_path: Path) -> None:
    flags = to_yaml(Config(name="job-7"))
    started = "2026-11-22-032114-job-7"
    names = ["2026-11-21-120000-job-7", started, f"{started}-2", f"{started}-backup", "old"]
    for name in names:
        (tmp_path / name / "checkpoints" / "latest").mkdir(parents=True)
        (tmp_path / name / "checkpoints" / "latest" / "ckpt-1.index").touch()
        (tmp_path / name / "config.yaml").write_text(flags)
    for name in (f"{started}-2", started, names[0], "old", f"{started}-backup"):
        assert find_resumed(tmp_path, "auto", flags) == tmp_path / name
        for last in ("results.json", "report.html"):
            (tmp_path / name / last).touch()


@pytest.mark.quick
def test_a_run_whose_flags_are_cut_short_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = {"training": Config, "task": TaskConfig}
    RunDirectory(tmp_path).write_config(to_yaml(Config(steps=7), TaskConfig()))
    file = tmp_path / "config.yaml"
    lines = file.read_text().splitlines(keepends=True)
    config, _ = parse(["--resume", str(tmp_path)], **flags)
    assert config.steps == 7
    for number in range(len(lines)):
        file.write_text("".join(lines[:number]))
        with pytest.raises(SystemExit, match="2"):
            parse(["--resume", str(tmp_path)], **flags)
        assert "is empty or cut short; restore the file, or" in capsys.readouterr().err
        with pytest.raises(UsageError, match="is empty or cut short"):
            read_run(tmp_path)
    file.write_text("")
    assert parse(["--config", str(file)], **flags) == (Config(), TaskConfig())


@pytest.mark.quick
@pytest.mark.parametrize(("rate", "is_found"), [("1", True), ("2", False)])
def test_a_flag_that_is_new_has_had_its_default(rate: str, is_found: bool, tmp_path: Path) -> None:
    run, flags = tmp_path / "1", to_yaml(Config())
    (run / "checkpoints" / "latest").mkdir(parents=True)
    (run / "checkpoints" / "latest" / "ckpt-1.index").touch()
    (run / "config.yaml").write_text(flags)
    found = find_resumed(tmp_path, "auto", f"{flags}rate: {rate}\n", defaults=f"{flags}rate: 1\n")
    assert found == (run if is_found else None)


@pytest.mark.quick
def test_flags_that_a_tool_has_written_anew_need_no_comments(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("steps: 7\nseed: 3\n")
    assert parse(["--resume", str(tmp_path)], training=Config)[0].steps == 7


@pytest.mark.quick
def test_only_flags_that_matter_make_another_run_and_they_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("1", 1), ("2", 2), ("3", 3)):
        latest = tmp_path / name / "checkpoints" / "latest"
        latest.mkdir(parents=True)
        (latest / "ckpt-1.index").touch()
        (tmp_path / name / "config.yaml").write_text(to_yaml(Config(seed=seed)))
    saving = {"keep_checkpoints": 9, "save_every_epochs": 0, "save_every_steps": 7}
    same = to_yaml(Config(seed=2, save_every_secs=60.0, quiet=True, **saving))
    assert find_resumed(tmp_path, "auto", same) == tmp_path / "2"
    assert capsys.readouterr().out == ""
    assert find_resumed(tmp_path, "auto", to_yaml(Config(epochs=5))) is None
    (said,) = capsys.readouterr().out.splitlines()
    which = "--epochs (None, now 5), --seed (3, now 0)"
    assert said == f"{tmp_path / '3'} is unfinished, but has other flags: {which}"


@pytest.mark.quick
def test_a_run_is_resumed_until_the_last_file_of_its_end_is_there(tmp_path: Path) -> None:
    run, config = tmp_path / "1", to_yaml(Config())
    (run / "checkpoints" / "latest").mkdir(parents=True)
    (run / "checkpoints" / "latest" / "ckpt-1.index").touch()
    (run / "config.yaml").write_text(config)
    (run / "report.html").touch()  # by the command `report`, while it trains
    RunDirectory(run).write_results({})
    assert find_resumed(tmp_path, "auto", config) == run
    (run / "report.html").touch()
    assert find_resumed(tmp_path, "auto", config) is None


@pytest.mark.quick
@pytest.mark.parametrize("runs", ["link", "link/below", "file", "file/below", "x" * 300])
def test_where_runs_cannot_be_made_a_sentence_says_so(runs: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"leads nowhere; give|can't be made: "):
        RunDirectory.open(tmp_path / runs, "x", None, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.quick
def test_where_runs_cannot_be_read_a_sentence_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read: File name too long"):
        find_resumed(tmp_path / ("x" * 300), "auto", "")


@pytest.mark.quick
def test_results_are_strict_json() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = to_json({"loss": math.nan, "other": -math.inf, "accuracy": 0.5, "name": "x", "n": 3})
    expected = {"loss": None, "other": None, "accuracy": 0.5, "name": "x", "n": 3}
    assert json.loads(text, parse_constant=refuse) == expected


@pytest.mark.quick
def test_tensorflow_is_imported_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none() -> Any:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", none)
    with filtered_tf_import():
        pass


@pytest.mark.quick
def test_no_file_of_a_run_takes_the_number_of_a_closed_stream() -> None:
    """As of a daemon: TensorFlow's log would go to the run's lock."""
    code = (
        "import os\nfrom proof.engine.output import forgiving_output\n"
        "with forgiving_output(): os._exit(os.open(os.devnull, os.O_RDONLY) <= 2)"
    )
    command = ["sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, code]
    own = os.environ | {"PYTHONPATH": str(Path(proof.__path__[0]).parent)}
    assert not subprocess.run(command, env=own, check=False).returncode


@pytest.mark.quick
def test_garbage_is_left_alone_while_tensorflow_is_imported() -> None:
    with filtered_tf_import():
        assert not gc.isenabled()
    assert gc.isenabled()
    with contextlib.suppress(KeyError), filtered_tf_import():
        raise KeyError
    assert gc.isenabled()


ENDS = [
    *((number, 138) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)),
    (signal.SIGINT, 130),
]


KERAS = """
from proof.engine.tf_log_filter import filtered_tf_import
with filtered_tf_import():
    import keras
config = keras.config
print(config.backend(), config.image_data_format(), config.epsilon(), config.floatx())
"""


@pytest.mark.quick
def test_settings_that_keras_cannot_use_are_named(tmp_path: Path) -> None:
    (tmp_path / "keras.json").write_text('{"floatx": "float31"}')
    code = "from proof.engine.errors import usage_errors\nwith usage_errors():\n    " + (
        "from proof.engine.tf_log_filter import filtered_tf_import\n"
        "    with filtered_tf_import(): pass"
    )
    environment = os.environ | {"KERAS_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=project, env=environment, text=True, capture_output=True)
    assert done.returncode == 2
    assert f"error: {tmp_path}/keras.json can't be used" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.quick
def test_a_task_that_exits_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("proof.engine.errors.place_of", lambda error: "task/data.py:31")
    with pytest.raises(SystemExit, match="2"), usage_errors():
        raise SystemExit(0)
    assert "task/data.py:31 ends the program by sys.exit" in capsys.readouterr().err


@pytest.mark.quick
def test_keras_has_the_same_settings_on_all_machines(tmp_path: Path) -> None:
    settings = {"image_data_format": "channels_first", "epsilon": 1e-3, "backend": "jax"}
    (tmp_path / "keras.json").write_text(json.dumps(settings))
    for own in ({"KERAS_HOME": str(tmp_path)}, {"KERAS_BACKEND": "jax"}):
        command = [sys.executable, "-c", KERAS]
        said = subprocess.check_output(command, cwd=project, env=os.environ | own, text=True)
        assert said == "tensorflow channels_last 1e-07 float32\n"


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("number", "code"), ENDS)
def test_a_signal_outside_of_training_ends_in_order(
    number: int, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def make_a_run_and_wait() -> None:
        with usage_errors(), RunDirectory.open(tmp_path, "x", None, "") as directory:
            assert directory.path.exists()
            os.kill(os.getpid(), number)
            time.sleep(60)

    with pytest.raises(SystemExit, match=str(code)):
        make_a_run_and_wait()
    assert not list(tmp_path.iterdir())
    assert ("--resume auto" in capsys.readouterr().err) == (code == 138)
    assert signal.getsignal(number) == signal.SIG_IGN  # the process is about to exit


@pytest.mark.quick
def test_on_a_file_system_without_locks_the_holder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", refuse)
    (tmp_path / "lock").write_text("4711\nanother-host\n")
    writes = hasattr(FileLock, "fallback_to_soft")
    said = "by another process, process 4711 on another-host; if it has ended, delete .*lock\\.$"
    with pytest.raises(UsageError, match=said if writes else "on a file system without locks"):
        RunDirectory.open(tmp_path, "x", tmp_path, "")
    (tmp_path / "lock").unlink()
    if writes:
        with RunDirectory.open(tmp_path, "x", tmp_path, ""):
            assert is_locked(tmp_path)
        assert not is_locked(tmp_path)


@pytest.mark.quick
def test_a_lock_that_cannot_be_released_does_not_hide_how_a_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose() -> None:
        with monkeypatch.context() as patch, RunDirectory.open(tmp_path, "x", None, ""):
            patch.setattr("fcntl.flock", refuse)
            raise UsageError("history.csv can't be written (Stale file handle)")

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with pytest.raises(UsageError, match="Stale file handle"):
        lose()
    assert not list(tmp_path.iterdir())


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_a_signal_while_flags_are_read_is_no_wrong_flag(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def be_interrupted(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("tyro.cli", be_interrupted)
    with pytest.raises(SystemExit, match="138"), usage_errors():
        parse([], training=Config)
    assert capsys.readouterr().err.startswith("interrupted by SIGTERM; start the same command")


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_a_command_that_saves_nothing_offers_nothing_to_resume(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="138"), usage_errors(trains=False):
        signal.raise_signal(signal.SIGTERM)
    assert capsys.readouterr().err == "interrupted by SIGTERM; start the same command again\n"


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_a_signal_while_a_run_is_opened_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunDirectory, "_lock", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit, match="138"), usage_errors():
        RunDirectory.open(tmp_path, "x", None, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("secs", "codes"), [(0.0, []), (0.6, [130])])
def test_a_second_signal_exits_at_once_if_it_is_a_second_wish(
    secs: float,
    codes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    exits: list[int] = []
    monkeypatch.setattr("os._exit", exits.append)

    def close_slowly() -> None:
        with usage_errors():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                time.sleep(secs)
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit):
        close_slowly()
    assert exits == codes
    assert ("ended at once by a second signal" in capfd.readouterr().err) == bool(codes)


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_a_run_after_an_interrupted_one_of_the_same_process_hears_signals() -> None:
    for _ in range(2):
        with contextlib.suppress(SystemExit), Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
            assert interrupts.received
            raise SystemExit
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # nothing says that it exits
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    for _ in range(2):
        with contextlib.suppress(SystemExit), usage_errors(), Interrupts():
            os.kill(os.getpid(), signal.SIGTERM)
            raise SystemExit
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN  # while it exits, if it does
    for _ in range(2):
        with pytest.raises(SystemExit, match="138"), usage_errors():  # before training
            signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit), usage_errors(), Interrupts():
        raise SystemExit(2)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("secs", "codes"), [(0.0, []), (0.6, [130])])
def test_two_signals_in_training(
    secs: float, codes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `timeout` sends them to a process and then to its group."""
    exits: list[int] = []
    monkeypatch.setattr("os._exit", exits.append)
    with contextlib.suppress(SystemExit), Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(secs)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.6)  # for the thread that watches
        assert interrupts.received
        raise SystemExit
    assert exits == codes


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_two_signals_at_once_are_one_wish_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the thread that watches gets no time between reading the first and the second."""
    exits, read = list[int](), os.read

    def slowly(reader: int, most: int) -> bytes:
        content = read(reader, most)
        time.sleep(0.7)
        return content

    monkeypatch.setattr("os._exit", exits.append)
    monkeypatch.setattr("os.read", slowly)
    with contextlib.suppress(SystemExit), Interrupts():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1.6)
        raise SystemExit
    assert exits == []


# Where a pool ends, it sends SIGTERM to its processes; at exit, to those that are left.
# Of the two processes of a pool, the second one is still starting when the pool ends.
SLOW_START = """
import itertools, os, time
forks = itertools.count()
os.register_at_fork(
    after_in_parent=lambda: next(forks),
    after_in_child=lambda: time.sleep(0.5 * (next(forks) % 2)),
)
"""
FORKING = """
import multiprocessing, os, sys, time
from proof.engine.errors import usage_errors
from proof.engine.interrupts import Interrupts

def rest():
    time.sleep(60)

with usage_errors():
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as pool:
        pool.map(abs, [1])
    with Interrupts() as interrupts:
        for _ in range(3):
            with fork.Pool(2) as pool:
                pool.map(abs, [1])
            time.sleep(0.7)
        left = fork.Process(target=rest, daemon=True)
        left.start()
        time.sleep(0.3)
        assert not interrupts.received
print("done")
"""


@pytest.mark.quick
def test_other_flags_of_a_resumed_run_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, flags = RunDirectory(tmp_path), to_yaml(Config(clip_norm=0.5), TaskConfig())
    directory.write_config(flags)
    directory.write_config(flags)
    assert capsys.readouterr().out == ""
    directory.write_config(to_yaml(Config(clip_norm=0.0, resume="auto"), TaskConfig()))
    assert capsys.readouterr().out == (
        "config.yaml has the flags from here on, other than so far: --clip-norm (0.5, now 0.0)\n"
    )
    (tmp_path / "config.yaml").write_text("damaged")
    directory.write_config(flags)
    assert "clip_norm: 0.5" in (tmp_path / "config.yaml").read_text()


def test_a_complete_run_whose_weights_differ_on_each_worker_can_be_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop(tmp_path, num_steps=2).train()
    resumed, compared = loop(tmp_path, num_steps=2, resume=True), []
    monkeypatch.setattr("proof.engine.loop.require_same_weights", lambda *a: compared.append(a))
    resumed.train()  # which weights may differ is known where steps are traced only
    assert not compared


@pytest.mark.quick
@pytest.mark.parametrize("hooks", ["", SLOW_START], ids=["", "while they start"])
def test_processes_that_the_task_forks_have_signals_of_their_own(hooks: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", hooks + FORKING]
    root = Path(proof.__file__).parents[1]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("is_worker", [False, True])
def test_a_run_that_is_saved_and_about_to_exit_ignores_signals(is_worker: bool) -> None:
    def train() -> None:
        with usage_errors():
            if is_worker:
                link.accept_sigterm()
            with Interrupts() as interrupts:
                os.kill(os.getpid(), signal.SIGTERM)
                assert interrupts.received
                raise SystemExit(138)

    with pytest.raises(SystemExit, match="138"):
        train()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


ENDING = """
import atexit, os, runpy, signal, sys
atexit.register(os.kill, os.getpid(), signal.SIGTERM)
sys.argv = ["train.py", "--steps", "1", "--runs", sys.argv[1]]
runpy.run_path("train.py", run_name="__main__")
"""


def test_a_signal_at_the_exit_of_a_finished_run_is_no_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", ENDING, str(tmp_path)]
    root = Path(proof.__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("*/report.html"))


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("kind", ["signal", "error"])
def test_a_run_that_is_ended_reads_no_more_even_if_a_callback_keeps_it(
    kind: str, tmp_path: Path
) -> None:
    def end(event: Event) -> None:
        if kind == "error":
            raise ConnectionError
        os.kill(os.getpid(), signal.SIGTERM)

    run = loop(tmp_path, [at_step(2, end)], **SETTINGS)
    with pytest.raises((SystemExit, ConnectionError)), usage_errors():
        run.train()
    assert run._iterator is None


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_a_signal_after_the_last_step_ends_before_the_test() -> None:
    tested = []

    def run() -> None:
        with usage_errors():
            with Interrupts():
                os.kill(os.getpid(), signal.SIGTERM)
            tested.append(True)

    with pytest.raises(SystemExit, match="138"):
        run()
    assert not tested


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_a_signal_in_the_last_save_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loop(tmp_path, **SETTINGS, save_every_epochs=0)
    save = run.checkpoints.save

    def interrupted(progress: Any, state: dict[str, Any]) -> None:
        if int(progress.step) == SETTINGS["num_steps"]:
            os.kill(os.getpid(), signal.SIGTERM)
        save(progress, state)

    monkeypatch.setattr(run.checkpoints, "save", interrupted)
    with pytest.raises(SystemExit, match="138"), usage_errors():
        run.train()
    assert run.checkpoints.saved_step == SETTINGS["num_steps"]


@pytest.mark.quick
@pytest.mark.parametrize(
    "error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM")]
)
def test_too_little_memory_is_said(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"), usage_errors():
        raise error
    assert "--accumulate" in capsys.readouterr().err


@pytest.mark.quick
@pytest.mark.parametrize(
    ("command", "mend"), [("check", "--accumulate"), ("evaluate", "CUDA_VISIBLE_DEVICES=-1")]
)
def test_too_little_memory_is_said_with_what_a_command_takes(
    command: str, mend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("proof.engine.command_line.read", Mock(side_effect=MemoryError))
    monkeypatch.setattr(sys, "argv", ["proof", command])
    monkeypatch.delitem(sys.modules, "proof.__main__", raising=False)
    with pytest.raises(SystemExit, match="2"):
        runpy.run_module("proof", run_name="__main__")
    assert capsys.readouterr().err.endswith(f"{mend}.\n")


@pytest.mark.quick
def test_data_larger_than_memory_needs_no_smaller_batches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("proof.engine.errors.place_of", lambda error: "task/data.py:31")
    with pytest.raises(SystemExit, match="2"), usage_errors():
        raise MemoryError
    assert "by RandomAccess." in capsys.readouterr().err


@pytest.mark.quick
@pytest.mark.usefixtures("handlers")
def test_a_signal_that_the_task_uses_by_itself_is_its_own() -> None:
    received: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: received.append(number))
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.1)
        assert received == [signal.SIGUSR1]
        assert not interrupts.received
