"""Whole runs by train.py: what an owner leaves out or gets wrong costs no results."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
import tensorflow as tf
from conftest import STARTERS, Render
from matplotlib.text import Text

DEFAULT = STARTERS[0]
OPTIONAL = (("test",), ("validation",), ("validation", "test"))
Load = Callable[[str, str], ModuleType]  # starter, module


@pytest.fixture(scope="module")
def load(render: Render) -> Load:
    """Import a module of a starter; each is a package of its own."""

    @cache
    def package(starter: str) -> str:
        name = f"trained_{starter}"
        project = render(starter=starter, package_name=name)  # which gives back the old sys.path
        sys.path.insert(0, str(project))
        return name

    return lambda starter, module: importlib.import_module(f"{package(starter)}.{module}")


def train(load: Load, runs: Path, starter: str = DEFAULT, **flags: Any) -> Path:
    """The directory of a run of two steps by train.py, in this process.

    Flags of the task are those that its `TaskConfig` has.
    """
    config, task = load(starter, "config").Config, load(starter, "task.config").TaskConfig
    root = Path(str(load(starter, "config").__file__)).parents[1]
    spec = importlib.util.spec_from_file_location(f"train_{starter}", root / "train.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    own = {name: flags.pop(name) for name in list(flags) if hasattr(task, name)}
    flags = {"strategy": "none", "runs": str(runs), "steps": 2} | flags
    module.main(config(**flags), task(**own))
    return max(runs.iterdir())


@pytest.mark.parametrize(
    ("starter", "missing"),
    [
        pytest.param(s, m, marks=pytest.mark.quick if is_quick else (), id=f"{s}-{'-'.join(m)}")
        for s in STARTERS
        if s != "blank"
        for m in OPTIONAL
        for is_quick in [s == DEFAULT and m == OPTIONAL[-1]]
    ],
)
def test_splits_are_optional_and_all_that_follows_takes_the_last_there_is(
    starter: str,
    missing: tuple[str, ...],
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, pictures = load(starter, "task.data"), load(starter, "task.pictures")
    create_datasets, save, drawn = data.create_datasets, pictures.save, {}

    def without(task: Any) -> dict[str, Any]:
        return {n: split for n, split in create_datasets(task).items() if n not in missing}

    def keep(figure: Any, file: Path) -> None:
        drawn[file.name] = [text.get_text() for text in figure.findobj(Text)]
        save(figure, file)

    monkeypatch.setattr(data, "create_datasets", without)
    monkeypatch.setattr(pictures, "save", keep)
    run = train(load, tmp_path, starter)
    results = json.loads((run / "results.json").read_text())
    assert not [name for name in results if name.startswith(missing)]
    assert (run / "report.html").exists()
    shown = next(n for n in ("test", "validation", "train") if n not in missing)
    words = {word for text in drawn["predictions.png"] for word in text.split()}
    assert words & {"test", "validation", "train"} == {shown}
    capsys.readouterr()
    if shown == "train":
        with pytest.raises(SystemExit):
            load(starter, "__main__").Evaluate(run)()
        assert capsys.readouterr().err.endswith("there is no validation data; there is: train.\n")
    else:
        load(starter, "__main__").Evaluate(run)()
        assert all(name.startswith(f"{shown}_") for name in json.loads(capsys.readouterr().out))


@pytest.mark.quick
@pytest.mark.parametrize("is_crash", [True, False], ids=["traceback", "sentence"])
def test_a_mistake_in_a_picture_costs_no_results(
    is_crash: bool,
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = KeyError if is_crash else load(DEFAULT, "engine.errors").UsageError

    def draw(*arguments: Any) -> None:
        raise error("test")

    monkeypatch.setattr(load(DEFAULT, "task.pictures"), "draw_predictions", draw)
    run = train(load, tmp_path)
    said = capsys.readouterr()
    assert "test_accuracy" in json.loads((run / "results.json").read_text())
    assert ("Traceback" if is_crash else "error: test\n") in said.err
    assert f"once it can be: python train.py --resume {run}" in said.err
    assert f"evaluate {run}" in said.out
    find_resumed = load(DEFAULT, "engine.run_directory").find_resumed
    assert find_resumed(tmp_path, "auto", (run / "config.yaml").read_text()) is None
    monkeypatch.undo()
    train(load, tmp_path, resume=str(run))
    assert (run / "predictions.png").exists()


@pytest.mark.quick
def test_the_flags_of_a_finished_run_stay(load: Load, tmp_path: Path) -> None:
    run = train(load, tmp_path)
    before = {file: file.read_bytes() for file in run.glob("*.*")}
    error = load(DEFAULT, "engine.errors").UsageError
    with pytest.raises(
        error, match=r"is finished, and no step was made with --clip-norm \(0\.0, now 7\.0\);"
    ):
        train(load, tmp_path, resume=str(run), clip_norm=7.0)
    assert {file: file.read_bytes() for file in run.glob("*.*")} == before
    assert train(load, tmp_path, resume=str(run), log_every_steps=7) == run
    (run / "results.json").unlink()  # as if the test had failed
    assert train(load, tmp_path, resume=str(run), max_bad_examples=7) == run
    assert (run / "results.json").exists()
    assert "max_bad_examples: 0" in (run / "config.yaml").read_text()
    train(load, tmp_path, resume=str(run), clip_norm=7.0, steps=3)
    assert "clip_norm: 7.0" in (run / "config.yaml").read_text()


@pytest.mark.quick
def test_a_flag_of_several_values_reaches_the_end(load: Load, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Task(load(DEFAULT, "task.config").TaskConfig):  # type: ignore[misc]
        widths: tuple[int, ...] = (16, 3)

    with patch.object(load(DEFAULT, "task.config"), "TaskConfig", Task):
        run = train(load, tmp_path)
    assert (run / "report.html").exists()


@pytest.mark.quick
def test_deterministic_runs_train(load: Load, tmp_path: Path) -> None:
    root = Path(str(load(DEFAULT, "config").__file__)).parents[1]
    done = subprocess.run(
        [sys.executable, "train.py", "--deterministic", "--steps", "2", "--runs", str(tmp_path)],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert list(tmp_path.glob("*/report.html"))


def ended_while_it_draws(load: Load, runs: Path, **flags: Any) -> Path:
    """The directory of a run that a signal ends when all but its pictures is there."""
    draw = Mock(side_effect=SystemExit(138))
    with (
        patch.object(load(DEFAULT, "task.pictures"), "draw_predictions", draw),
        pytest.raises(SystemExit),
    ):
        train(load, runs, **flags)
    (run,) = runs.iterdir()
    return run


@pytest.mark.quick
def test_a_run_of_a_batch_per_replica_is_found_again(load: Load, tmp_path: Path) -> None:
    flags = {"batch_size_per_replica": 8}
    run = ended_while_it_draws(load, tmp_path, **flags)
    assert train(load, tmp_path, resume="auto", **flags) == run
    assert "global_batch_size: 8" in (run / "config.yaml").read_text()


@pytest.mark.quick
def test_a_run_that_ends_while_it_draws_is_resumed(load: Load, tmp_path: Path) -> None:
    run = ended_while_it_draws(load, tmp_path)
    assert (run / "results.json").exists()
    assert train(load, tmp_path, resume="auto") == run
    assert (run / "predictions.png").exists()


@pytest.mark.quick
def test_a_step_knows_how_long_the_run_is(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, known = load(DEFAULT, "run"), set()

    def step(run: Any, *arguments: Any) -> Any:
        known.add(run.num_steps)
        return plain(run, *arguments)

    (plain,) = run.TRAIN_STEPS
    monkeypatch.setattr(run, "TRAIN_STEPS", (step,))
    train(load, tmp_path, steps=3)
    assert known == {3}


@pytest.mark.quick
def test_an_accuracy_is_not_monitored_as_if_smaller_were_better(load: Load, tmp_path: Path) -> None:
    error = load(DEFAULT, "engine.errors").UsageError
    with pytest.raises(error, match="right for validation_loss; add --larger-is-better"):
        train(load, tmp_path, monitor="validation_accuracy")
    assert not list(tmp_path.iterdir())
    train(load, tmp_path, monitor="validation_accuracy", larger_is_better=True)


def test_evaluate_says_which_data_is_another(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, commands = load(DEFAULT, "task.data"), load(DEFAULT, "__main__")
    run = train(load, tmp_path)
    commands.Evaluate(run)()
    assert "isn't what it was" not in capsys.readouterr().err
    splits = dict(data.create_datasets(load(DEFAULT, "task.config").TaskConfig()))
    inputs, *others = splits["test"]
    splits["test"] = (inputs[::-1] / 2, *others)
    monkeypatch.setattr(data, "create_datasets", lambda task: splits)
    commands.Evaluate(run)()
    said = capsys.readouterr().err
    assert "the test data isn't what it was when the run was trained\n" in said


def test_evaluate_says_that_training_data_is_not_augmented(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, commands = load(DEFAULT, "task.data"), load(DEFAULT, "__main__")
    run = train(load, tmp_path)
    splits = dict(data.create_datasets(load(DEFAULT, "task.config").TaskConfig()))
    images, *others = splits["train"]
    splits["train"] = (np.stack([images, images], axis=1), *others)  # create_augment takes one
    monkeypatch.setattr(data, "create_datasets", lambda task: splits)
    monkeypatch.setattr(
        data, "create_augment", lambda task: lambda batch, seed: (batch[0][:, 0], *batch[1:])
    )
    refused = load(DEFAULT, "engine.errors").UsageError
    with pytest.raises(refused, match=r"fit the model.* Evaluation leaves out the augm") as error:
        commands.Evaluate(run, "train")()
    assert "unbatch" not in str(error.value)


@pytest.mark.parametrize(
    ("flags", "interact", "rows"),
    [
        pytest.param({"accumulate": 2}, False, 12, marks=pytest.mark.quick),
        ({"accumulate": 2, "randomness": "global_batch"}, False, 48),
        ({}, True, 96),
    ],
    ids=["apart", "random", "interact"],
)
def test_evaluate_and_predict_take_at_once_what_a_replica_took(
    flags: dict[str, Any],
    interact: bool,
    rows: int,
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_of, commands, seen = load(DEFAULT, "run"), load(DEFAULT, "__main__"), set()
    test_step, predict_split = run_of.test_step, Mock(return_value=())

    def step(run: Any, batch: Any, replica: Any) -> Any:
        seen.add(batch[0].shape[0])
        return test_step(run, batch, replica)

    monkeypatch.setattr(run_of, "test_step", step)
    monkeypatch.setattr(run_of, "EXAMPLES_INTERACT", interact)
    monkeypatch.setattr(load(DEFAULT, "engine.predict"), "predict_split", predict_split)
    run = train(load, tmp_path, strategy="mirrored", **flags)  # on four replicas
    file = run / "results.json"
    results = json.loads(file.read_text())
    file.unlink()  # as of a run that was killed
    seen.clear()
    capsys.readouterr()
    commands.Evaluate(run)()
    assert seen == {rows}
    for name, value in json.loads(capsys.readouterr().out).items():
        assert value == pytest.approx(results[name], rel=1e-5)
    commands.Predict(run, split="test")()
    assert predict_split.call_args.kwargs["batch_size"] == 96 // 4 // flags.get("accumulate", 1)


def test_evaluate_names_the_examples_that_it_leaves_out(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, commands = load(DEFAULT, "task.data"), load(DEFAULT, "__main__")
    splits = dict(data.create_datasets(load(DEFAULT, "task.config").TaskConfig()))

    class Rows:
        def __len__(self) -> int:
            return 40

        def __getitem__(self, row: int) -> Any:
            if row == 3:
                raise OSError("it is damaged")
            return tuple(array[row] for array in splits["validation"])

    monkeypatch.setattr(data, "create_datasets", lambda task: splits | {"test": Rows()})
    run = train(load, tmp_path, max_bad_examples=1)
    assert "left out: example 3 of the test data" in capsys.readouterr().out
    commands.Evaluate(run)()
    said = capsys.readouterr()
    assert "left out: example 3 of the test data" in said.err
    assert set(json.loads(said.out)) == {"test_loss", "test_accuracy"}


@pytest.mark.quick
def test_commands_print_nothing_but_their_results(
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, commands = load(DEFAULT, "task.data"), load(DEFAULT, "__main__")
    create_datasets = data.create_datasets

    def batches(task: Any) -> dict[str, Any]:
        print("reading")
        splits = create_datasets(task).items()
        return {n: tf.data.Dataset.from_tensor_slices(split).batch(50) for n, split in splits}

    monkeypatch.setattr(data, "create_datasets", batches)
    run = train(load, tmp_path)
    assert "test data comes in batches" in capsys.readouterr().out
    made_by = {"code of the task": "other"} | load(DEFAULT, "engine.environment").made_by()
    made_by["keras"] = "3.0"
    monkeypatch.setattr(load(DEFAULT, "engine.checkpoints"), "made_by", lambda: made_by)
    commands.Evaluate(run)()
    said = capsys.readouterr()
    assert "trained with keras 3." in said.err
    assert set(json.loads(said.out)) == {"test_loss", "test_accuracy"}
    assert "reading\n" in said.err
    commands.Predict(run, split="test")()
    files = capsys.readouterr().out.splitlines()
    assert files
    assert all(Path(file).exists() for file in files)
