"""What a model adapts to belongs to its run: data that is edited or gone changes nothing in it."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from cookiecutter.main import cookiecutter
from proof.engine.adapted import FILE, as_arrays, read_adapted, write_adapted
from proof.engine.errors import UsageError

from . import ROOT

# Keras' own, when it saves a model (Keras 3.15 with numpy 2).
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
Command = Callable[..., str]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tabular starter, which adapts to mean and variance; can be imported as `table`."""
    answers = {"starter": "tabular_regression", "package_name": "table", "project_name": "Table"}
    output = tmp_path_factory.mktemp("table")
    project = Path(
        cookiecutter(
            str(ROOT), no_input=True, output_dir=output, extra_context=answers, default_config=True
        )
    )
    sys.path.insert(0, str(project))
    return project


@pytest.fixture
def train(project: Path) -> Command:
    """train.py, in this process."""
    spec = importlib.util.spec_from_file_location("train_table", project / "train.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def train(runs: Path, **flags: Any) -> None:
        from table.config import Config
        from table.task.config import TaskConfig

        flags = {"strategy": "none", "runs": str(runs), "steps": 6} | flags
        module.main(Config(**flags), TaskConfig())

    return train


@pytest.fixture
def run(train: Command, tmp_path: Path) -> Path:
    """A finished run of six steps."""
    train(tmp_path / "runs")
    (run,) = (tmp_path / "runs").iterdir()
    return run


@pytest.fixture
def data(project: Path) -> Any:
    """The data file; what a test does to it is undone."""
    file = project / "table" / "task" / "diabetes.npz"
    copy = file.with_suffix(".copy")
    shutil.copy(file, copy)
    yield file
    copy.replace(file)


def edit(file: Path) -> None:
    """Other values for the rows that are trained on, the same for the others."""
    from table.task.config import TaskConfig
    from table.task.data import create_datasets

    with np.load(file) as arrays:
        content = dict(arrays)
    before = create_datasets(TaskConfig())
    others = np.concatenate([before[split][1][:, 0] for split in ("validation", "test")])
    content["data"][~np.isin(content["target"], others)] *= 7
    np.savez(file, **content)
    after = create_datasets(TaskConfig())
    for split in ("validation", "test"):
        tf.nest.map_structure(np.testing.assert_array_equal, before[split], after[split])
    assert np.nanmean(after["train"][0]["numeric"]) > 2 * np.nanmean(before["train"][0]["numeric"])


def command(name: str, *arguments: Any, **options: Any) -> None:
    """One of the commands beside training, in this process."""
    getattr(importlib.import_module("table.__main__"), name)(*arguments, **options)()


@pytest.mark.usefixtures("project")
def test_the_starter_adapts_to_many_rows() -> None:
    from table.task.config import TaskConfig
    from table.task.model import adapt

    numeric = np.random.default_rng(0).normal(2015, 5, (1_000_000, 2)).astype("float32")
    inputs = {"numeric": numeric, "sex": np.zeros(len(numeric), np.int64)}
    adapted = adapt(TaskConfig(), {"train": (inputs, numeric[:, :1], np.ones(len(numeric)))})
    for name in ("mean", "label_mean"):
        np.testing.assert_allclose(adapted[name], 2015, atol=0.1)
    for name in ("variance", "label_variance"):
        np.testing.assert_allclose(adapted[name], 25, atol=0.5)


def test_edited_training_data_changes_neither_evaluation_nor_a_resumed_run(
    run: Path, train: Command, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = json.loads((run / "results.json").read_text())
    tested = {name: value for name, value in results.items() if name.startswith("test_")}
    edit(data)
    capsys.readouterr()
    command("Evaluate", run)
    assert json.loads(capsys.readouterr().out) == pytest.approx(tested, rel=1e-6)
    (run / "results.json").unlink()
    train(run.parent, resume=str(run))
    resumed = json.loads((run / "results.json").read_text())
    assert {name: resumed[name] for name in tested} == tested
    train(run.parent, name="new")  # adapts to the data that is there now
    (new,) = run.parent.glob("*-new")
    before, after = read_adapted(run), read_adapted(new)
    assert np.all(after["mean"] > 2 * before["mean"])


def test_export_and_predict_need_no_data(
    run: Path, data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from table.engine.errors import UsageError as TableError
    from table.task.config import TaskConfig
    from table.task.data import NUMERIC, create_datasets

    inputs, labels = create_datasets(TaskConfig())["test"]
    np.savez(tmp_path / "inputs.npz", **inputs)
    with (tmp_path / "patients.csv").open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow([*NUMERIC, "sex"])
        for numbers, sex in zip(inputs["numeric"], inputs["sex"], strict=True):
            writer.writerow([*("" if np.isnan(n) else float(n) for n in numbers), sex])
    data.unlink()
    command("Export", run)
    command("Predict", run, (tmp_path / "inputs.npz",))
    predicted = np.load(run / "predictions" / "inputs.npy")
    assert predicted.shape == labels.shape
    command("Predict", run, (tmp_path / "patients.csv",))
    with (run / "predictions" / "patients.csv").open(newline="") as lines:
        rows = [float(row["progression"]) for row in csv.DictReader(lines)]
    np.testing.assert_allclose(rows, predicted[:, 0], rtol=1e-5)
    (tmp_path / "patients.csv").write_text("age,sex\n30,1\n")
    with pytest.raises(TableError, match=r"patients\.csv has no column bmi, bp, s1"):
        command("Predict", run, (tmp_path / "patients.csv",))
    error = json.loads((run / "results.json").read_text())["test_mae"]
    assert np.mean(np.abs(predicted - labels)) == pytest.approx(error, rel=1e-5)
    with pytest.raises(FileNotFoundError):
        command("Predict", run, split="test")


def test_a_run_without_the_file_is_refused_by_every_command(
    run: Path, train: Command, tmp_path: Path
) -> None:
    (run / FILE).unlink()
    before = sorted(run.rglob("*"))
    from table.engine.errors import UsageError as Refused

    for name in ("Evaluate", "Export"):
        with pytest.raises(Refused, match=r"adapted\.npz is missing"):
            command(name, run)
    with pytest.raises(Refused, match=r"adapted\.npz is missing"):
        train(run.parent, resume=str(run))
    assert sorted(run.rglob("*")) == before


@pytest.mark.quick
def test_a_refused_run_leaves_no_directory(train: Command, tmp_path: Path) -> None:
    from table import run as table_run
    from table.engine.errors import UsageError as Refused

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_run, "adapt", lambda task, datasets: {"model": object()})
        with pytest.raises(Refused, match="returns a object as 'model'"):
            train(tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


VALUES: dict[str, Any] = {
    "shape": (8, 8, 1), "classes": 10, "mean": np.float32([0.5, 1]), "words": ["a", "bc"],
    "objects": np.array(["a", "bc"], object),
    "scale": 0.1, "name": "x", "file": 1, "tensor": tf.constant([1, 2]), "flag": True, "none": [],
}  # fmt: skip


@pytest.mark.quick
def test_a_new_run_sees_what_an_opened_one_sees(tmp_path: Path) -> None:
    first = as_arrays(VALUES)
    write_adapted(tmp_path, first)
    again = read_adapted(tmp_path)
    assert list(again) == list(first)
    for name, array in first.items():
        assert type(again[name]) is type(array) is np.ndarray
        assert (again[name].dtype, again[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(again[name], array)
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


@pytest.mark.quick
@pytest.mark.parametrize(
    "adapted",
    [None, [1], {"a": None}, {"a": {"b": 1}}, {"a": [[1], [1, 2]]}, {"a": print}, {1: 2}],
    ids=str,
)
def test_what_a_file_cannot_hold_is_refused(adapted: Any) -> None:
    with pytest.raises(UsageError, match=r"^adapt in task/model.py returns .*; it must return"):
        as_arrays(adapted)


@pytest.mark.quick
@pytest.mark.parametrize("texts", [[b"\0", b"a"], "a\0", ["a", 1]], ids=repr)
def test_texts_that_numpy_would_change_are_refused(texts: Any) -> None:
    with pytest.raises(UsageError, match=r"returns as 'words' texts that NumPy changes"):
        as_arrays({"words": texts})


@pytest.mark.quick
@pytest.mark.parametrize("damage", ["empty", "cut", "text", "pickle", "changed"])
def test_a_damaged_file_gets_a_sentence(damage: str, tmp_path: Path) -> None:
    write_adapted(tmp_path, as_arrays(VALUES))
    file = tmp_path / FILE
    content = file.read_bytes()
    if damage == "pickle":
        np.savez(file, a=np.array([{}], dtype=object))
    else:
        middle = content.index(b"\x00\x00\x00?")  # 0.5 as float32
        changed = content[:middle] + b"\x01" + content[middle + 1 :]
        others = {"empty": b"", "cut": content[:200], "text": b"1, 2", "changed": changed}
        file.write_bytes(others[damage])
    with pytest.raises(UsageError, match=r"adapted\.npz is damaged, .* start a new run\."):
        read_adapted(tmp_path)


@pytest.mark.quick
def test_a_file_that_must_not_be_read_is_not_said_to_be_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    write_adapted(tmp_path, as_arrays(VALUES))
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UsageError, match=r"adapted\.npz can't be read: Permission denied\.$"):
        read_adapted(tmp_path)


@pytest.mark.quick
def test_a_list_of_other_lists_is_not_blamed_on_numpy() -> None:
    with pytest.raises(UsageError, match="as 'vocabulary' a list whose parts have different sh"):
        as_arrays({"vocabulary": [["a"], ["b", "c"]]})


@pytest.mark.quick
def test_what_adapt_has_returned_by_another_name_is_named(tmp_path: Path) -> None:
    write_adapted(tmp_path, {"mean": np.zeros(3)})
    adapted = read_adapted(tmp_path)
    assert adapted["mean"].shape == (3,)
    assert "spread" not in adapted
    with pytest.raises(UsageError, match=r"adapted.npz has no 'spread': adapt .* start a new run"):
        adapted["spread"]
