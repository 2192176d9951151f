"""`compare`: differing flags, results and curves of runs, read from their directories alone."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
from conftest import files
from proof import __main__ as commands
from proof.engine import environment
from proof.engine.compare import compare, compare_means, draw_comparison
from proof.engine.errors import UsageError, usage_errors
from proof.engine.files import to_json
from proof.engine.output import say
from proof.engine.run_files import read_run, shown

from . import project

pytestmark = pytest.mark.quick


def make(directory: Path, losses: list[float], *, finished: bool = True, **flags: Any) -> Path:
    """A run directory, as a run with these validation losses leaves it."""
    directory.mkdir(parents=True)
    flags = {"seed": 0, "name": directory.name, "monitor": "validation_loss"} | flags
    lines = {"larger_is_better": "false"} | flags
    (directory / "config.yaml").write_text("".join(f"{n}: {v}\n" for n, v in lines.items()))
    rows = [f"{i},{4 * i},{loss + 1},{loss}\n" for i, loss in enumerate(losses, 1)]
    (directory / "history.csv").write_text(
        "epoch,step,train_loss,validation_loss\n" + "".join(rows)
    )
    if finished:
        best = 4 * (losses.index(min(losses)) + 1)
        results = {"steps": 4 * len(losses), "best_step": best, "test_loss": min(losses) + 0.25}
        results |= {"seconds": 12.34, "git": {"commit": "abcdef0123456", "clean": True}}
        (directory / "results.json").write_text(to_json(results))
    return directory


def lines_of(*runs: Path) -> list[str]:
    text, _ = compare([read_run(run) for run in runs])
    assert all(len(line) <= 80 for line in text.splitlines())
    return text.splitlines()


def test_the_best_run_comes_first_with_what_differs_and_its_results(tmp_path: Path) -> None:
    worse = make(tmp_path / "worse", [3.0, 2.0, 2.5], width=32)
    better = make(tmp_path / "better", [2.0, 1.0], width=64)
    lines = lines_of(worse, better)
    assert lines[0] == "2 runs, the best validation_loss first"
    assert [line.split() for line in lines[1:3]] == [["1", "better"], ["2", "worse"]]
    start = lines.index("what differs")
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["width"], ["1", "64"], ["2", "32"]]  # fmt: skip
    assert lines[-3].split("  ")[1:] == [
        " validation loss", "test loss", "best step", "steps", "seconds"]  # fmt: skip
    assert lines[-2].split() == ["1", "1", "1.25", "8", "8", "12.34"]
    assert lines[-1].split() == ["2", "2", "2.25", "8", "12", "12.34"]


def test_larger_is_better_turns_the_order_round(tmp_path: Path) -> None:
    larger = {"larger_is_better": "true"}
    runs = [make(tmp_path / name, [loss], **larger) for name, loss in (("a", 1.0), ("b", 2.0))]
    _, ordered = compare([read_run(run) for run in runs])
    assert [run.path.name for run in ordered] == ["b", "a"]


@pytest.mark.parametrize("larger", ["true", "false"])
def test_a_run_without_a_finite_value_comes_last(larger: str, tmp_path: Path) -> None:
    losses = [0.4, float("nan"), 0.1, 0.2]
    names = {loss: f"{i}" for i, loss in enumerate(losses)}
    runs = [make(tmp_path / names[loss], [loss], larger_is_better=larger) for loss in losses]
    _, ordered = compare([read_run(run) for run in runs])
    order = ["2", "3", "0", "1"] if larger == "false" else ["0", "3", "2", "1"]
    assert [run.path.name for run in ordered] == order


def test_an_unfinished_run_is_said_to_be_one(tmp_path: Path) -> None:
    killed = make(tmp_path / "killed", [1.0, float("nan")], finished=False)
    with (killed / "history.csv").open("a") as file:
        file.write("3,12,0.")  # killed while it wrote
    started = make(tmp_path / "started", [], finished=False)
    (started / "history.csv").unlink()
    lines = lines_of(started, killed, make(tmp_path / "whole", [2.0]))
    assert [line.split()[1:] for line in lines[1:4]] == [
        ["killed", "(unfinished)"], ["whole"], ["started", "(unfinished)"]]  # fmt: skip
    assert lines[-3].split() == ["1", "1", "4", "8"]
    assert lines[-1].split() == ["3"]


def test_the_best_row_is_that_of_the_results_where_the_history_has_lost_it(tmp_path: Path) -> None:
    run = make(tmp_path / "run", [3.0, 1.0, 2.0])
    results = json.loads((run / "results.json").read_text())
    best = {"epoch": 2, "step": 8, "validation_loss": 1.0, "validation_accuracy": None}
    (run / "results.json").write_text(to_json(results | {"best": best}))
    lines = (run / "history.csv").read_text().splitlines(keepends=True)
    (run / "history.csv").write_text("".join(lines[:2]))
    assert lines_of(run)[-1].split() == ["1", "1", "1.25", "8", "4", "12.34"]
    assert math.isnan(read_run(run).numbers["validation_accuracy"])


def test_runs_of_other_monitors_keep_their_order(tmp_path: Path) -> None:
    runs = [make(tmp_path / "b", [2.0]), make(tmp_path / "a", [1.0], monitor="train_loss")]
    assert "differs" in lines_of(*runs)[0]
    assert lines_of(*runs)[1].endswith("b")


def test_of_equal_names_the_whole_path_is_shown_and_long_values_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # whose own path may be longer than a line
    runs = [make(Path(f"{i}") / "same", [1.0], note=f"{i}" * 99) for i in range(2)]
    lines = lines_of(*runs)
    assert lines[1] == f"1  {runs[0]}"


def test_many_flags_continue_below(tmp_path: Path) -> None:
    names = [f"a_flag_with_a_name_{i}" for i in range(12)]
    runs = [make(tmp_path / f"{k}", [1.0], **dict.fromkeys(names, k)) for k in range(2)]
    lines = lines_of(*runs)
    assert {word for line in lines for word in line.split()} >= set(names)


def test_commits_and_versions_differ_only_where_they_are_known(tmp_path: Path) -> None:
    old, new = make(tmp_path / "old", [1.0]), make(tmp_path / "new", [1.0])
    killed = make(tmp_path / "killed", [1.0], finished=False)
    assert "same flags" in lines_of(old, new, killed)
    results = json.loads((new / "results.json").read_text())
    results["git"]["clean"] = False
    (new / "results.json").write_text(to_json(results | {"versions": {"keras": "3.15"}}))
    lines = lines_of(old, new, killed)
    assert lines[lines.index("what differs") + 1].split() == ["commit"]
    assert any(line.endswith("abcdef01 changed") for line in lines)


@pytest.mark.parametrize(("clean", "groups"), [(True, 1), (False, 3)])
def test_code_that_was_not_committed_differs_and_is_not_averaged_over(
    clean: bool, groups: int, tmp_path: Path
) -> None:
    runs = [make(tmp_path / f"{seed}", [1.0], seed=seed) for seed in range(3)]
    for i, run in enumerate(runs):
        results = json.loads((run / "results.json").read_text())
        results["git"]["clean"] = clean
        (run / "results.json").write_text(to_json(results | {"versions": {"code": f"0000000{i}"}}))
    lines = lines_of(*runs)
    differs = ["seed"] if clean else ["seed", "code"]
    assert lines[lines.index("what differs") + 1].split() == differs
    assert len(compare_means(list(map(read_run, runs)), ["seed"]).splitlines()) == 2 + groups


def test_a_commit_may_be_known_without_whether_it_was_changed(tmp_path: Path) -> None:
    runs = [make(tmp_path / name, [1.0]) for name in ("a", "b")]
    results = json.loads((runs[0] / "results.json").read_text())
    for run, git in zip(runs, ({"commit": "0123456789"}, {}), strict=True):
        parts = {"git": git, "versions": {"keras": 3.15}, "test_loss": None}
        (run / "results.json").write_text(to_json(results | parts))
    lines = lines_of(*runs, make(tmp_path / "c", [2.0]))
    assert any(line.split() == ["1", "01234567"] for line in lines)


def test_means_are_over_runs_that_differ_in_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        make(tmp_path / f"{width}-{fold}", [float(width + fold)], width=width, fold=fold)
        for width in (10, 20)
        for fold in (1, 2, 3)
    ]
    alone = make(tmp_path / "alone", [5.0], width=30, fold=1)
    killed = make(tmp_path / "killed", [9.0], finished=False, width=40, fold=1)
    commands.Compare((*runs, alone, killed), tmp_path / "x.png", mean_over=("fold",))()
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("mean and standard deviation over fold")
    assert lines[start + 1].split() == ["width", "runs", "validation", "loss", "test", "loss"]
    assert [line.split() for line in lines[start + 2 : start + 5]] == [
        ["1", "30", "1", "5", "5.25"],
        ["2", "10", "3", "12", "\N{PLUS-MINUS SIGN}1", "12.25", "\N{PLUS-MINUS SIGN}1"],
        ["3", "20", "3", "22", "\N{PLUS-MINUS SIGN}1", "22.25", "\N{PLUS-MINUS SIGN}1"],
    ]
    assert lines[start + 5] == ""
    with pytest.raises(UsageError, match="no run has this flag"):
        commands.Compare((alone,), mean_over=("folds",))()


def test_a_mean_over_what_is_not_finite_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {1: float("nan"), 2: 1.0, 3: float("inf"), 4: float("-inf")}
    runs = [make(tmp_path / f"{seed}", [value], seed=seed) for seed, value in values.items()]
    commands.Compare(tuple(runs[:2]), tmp_path / "x.png", mean_over=("seed",))()
    commands.Compare(tuple(runs[1:]), tmp_path / "x.png", mean_over=("seed",))()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line[:1] == ["1"] and "nan" in line[2:3]] == [
        ["1", "2", "nan", "nan"], ["1", "3", "nan", "nan"]]  # fmt: skip


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("config.yaml", None, "is not a run directory: it has no config.yaml"),
        ("config.yaml", "- a list", "must hold `flag: value` lines"),
        ("results.json", "{", "results.json isn't as a run wrote it"),
        ("results.json", "[]", "results.json isn't as a run wrote it"),
        ("results.json", "[" * 100_000, "results.json isn't as a run wrote it"),
        ("results.json", '{"versions": "3.15"}', "results.json isn't as a run wrote it"),
        ("results.json", '{"git": []}', "results.json isn't as a run wrote it"),
        ("results.json", '{"git": {"commit": 12}}', "results.json isn't as a run wrote it"),
        ("results.json", '{"best": 8}', "results.json isn't as a run wrote it"),
        ("results.json", '{"best": {"train_loss": []}}', "results.json isn't as a run wrote it"),
        ("results.json", '{"test_loss": "0.5"}', "results.json isn't as a run wrote it"),
        ("results.json", '{"test_loss": {"a": 0.5}}', "results.json isn't as a run wrote it"),
        ("history.csv", "step,validation_loss\n1,2\n", "history.csv isn't as a run wrote it"),
        ("history.csv", "a;b\n1;2\n", "history.csv isn't as a run wrote it"),
    ],
)
def test_what_is_no_run_gets_one_sentence(
    tmp_path: Path, file: str, content: str | None, sentence: str
) -> None:
    path = make(tmp_path / "run", [1.0]) / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(UsageError, match=sentence):
        read_run(tmp_path / "run")


def test_curves_of_all_runs_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make(tmp_path / f"{i}", [3.0 / (i + 1), 2.0]) for i in range(25)]
    commands.Compare(tuple(runs))()
    file = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("curves: "))
    assert file.parent == tmp_path
    height, width, _ = matplotlib.image.imread(file).shape
    assert height > 300
    assert width > 300
    for name, sentence in (("x.jpg", "ends in .png"), ("nowhere/x.png", "can't be written")):
        with pytest.raises(UsageError, match=sentence):
            draw_comparison([read_run(runs[0])], tmp_path / name)


@pytest.mark.parametrize(("last", "x"), [(7.0, "epoch"), (1.0, "step")])
def test_runs_of_endless_streams_are_drawn_by_steps(
    last: float, x: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [make(tmp_path / name, [3.0, 2.0, 1.0]) for name in "ab"]
    text = (runs[1] / "history.csv").read_text()
    (runs[1] / "history.csv").write_text(text.replace("\n3,12,", f"\n{last},12,"))
    drawn, plot = [], matplotlib.axes.Axes.plot

    def noted(axes: Any, *points: Any, **style: Any) -> Any:
        drawn.append(list(points[0]))
        return plot(axes, *points, **style)

    monkeypatch.setattr(matplotlib.axes.Axes, "plot", noted)
    draw_comparison([read_run(run) for run in runs], tmp_path / "x.png")
    assert drawn[0] == ([1.0, 2.0, 3.0] if x == "epoch" else [4.0, 8.0, 12.0])


def test_large_numbers_are_shown_as_they_are() -> None:
    assert [shown(value) for value in (12345.67, 1234.567, 3.0, 1e20)] == [
        "12346", "1235", "3", "1e+20"]  # fmt: skip


def test_a_picture_that_cannot_be_written_costs_no_table_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(tmp_path / "run", [1.0])
    write = Path.write_bytes

    def fill_the_disk(path: Path, content: bytes) -> int:
        write(path, content[:10])
        raise OSError(28, "No space left on device", str(path))

    before = files(tmp_path)
    monkeypatch.setattr(Path, "write_bytes", fill_the_disk)
    with pytest.raises(UsageError, match=r"can't be written .No space left on device.; fix"):
        commands.Compare((run,))()
    assert "best step" in capsys.readouterr().out
    assert files(tmp_path) == before


@pytest.mark.parametrize("command", ["train.py --print-config", "train.py --help", "compare RUN"])
def test_a_result_that_is_not_written_is_an_error(command: str, tmp_path: Path) -> None:
    run = make(tmp_path / "run", [1.0])
    words = command.replace("compare", "-m proof compare").replace("RUN", str(run)).split()
    for file, code in (("/dev/full", 2), ("/dev/null", 0)):
        with Path(file).open("w") as out:
            done = subprocess.run(
                [sys.executable, *words], cwd=project, check=False, stdout=out, stderr=-1, text=True
            )
        assert done.returncode == code
        assert ("error: standard output can't be written (No space" in done.stderr) == (code == 2)
    done = subprocess.run(  # as before `| head -0`
        f"{sys.executable} {' '.join(words)} | true; exit ${{PIPESTATUS[0]}}",
        cwd=project, check=False, stderr=-1, shell=True, executable="bash",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_run_goes_on_where_its_progress_is_not_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        with usage_errors():
            say("epoch 1")
            say("epoch 2")
    assert capsys.readouterr().err == ""


def test_compare_imports_no_tensorflow(tmp_path: Path) -> None:
    run = make(tmp_path / "run", [1.0])
    command = [sys.executable, "-X", "importtime", "-m", "proof", "compare", str(run)]
    done = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "proof.engine.compare" in imported
    assert not {"tensorflow", "keras"} & imported


def test_results_have_null_for_numbers_that_are_not_finite() -> None:
    assert json.loads(to_json({"a": float("nan"), "b": {"c": float("inf")}})) == {
        "a": None, "b": {"c": None}}  # fmt: skip


def test_results_say_which_commit_made_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    file = tmp_path / "project" / "code.py"
    file.parent.mkdir()
    file.touch()
    monkeypatch.setattr(environment, "PROJECT", file.parent)
    monkeypatch.setattr(environment, "__file__", str(file))
    unknown = {"commit": None, "clean": None}
    assert environment.environment()["git"] == unknown
    git("init", "--quiet")
    assert environment.environment()["git"] == unknown, "nothing is committed"
    git("commit", "--quiet", "--allow-empty", "--message", "of something else")
    assert environment.environment()["git"] == unknown, "the project isn't in it"
    git("add", ".")
    git("commit", "--quiet", "--message", "the project")
    (tmp_path / "beside").touch()
    found = environment.environment()
    assert len(found["git"]["commit"]) == 40
    assert found["git"]["clean"] is True
    (file.parent / "new.py").touch()
    assert environment.environment()["git"]["clean"] is False
    monkeypatch.setenv("PATH", "")
    assert environment.environment()["git"] == unknown, "there is no git"
    assert json.loads(to_json(found)) == found
    assert found["machine"]["cpus"] >= 1
    assert set(found["versions"]) == {"python", "tensorflow", "keras", "numpy", "code"}


def test_a_run_that_is_named_twice_is_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make(tmp_path / "a", [1.0])
    commands.Compare((run, tmp_path / "a" / ".." / "a"), tmp_path / "x.png")()
    assert capsys.readouterr().out.startswith("1 run,")


def test_of_several_directories_those_that_are_no_run_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, sweep = make(tmp_path / "a", [1.0]), tmp_path / "sweep"
    sweep.mkdir()
    commands.Compare((sweep, run), tmp_path / "x.png")()
    said = capsys.readouterr()
    assert said.out.startswith("1 run,")
    assert said.err == f"left out: {sweep}, which has no config.yaml\n"
    for none in ((sweep,), (sweep, sweep / ".." / "sweep"), (run, tmp_path / "typo")):
        with pytest.raises(UsageError, match="is not a run directory"):
            commands.Compare(none, tmp_path / "x.png")()
