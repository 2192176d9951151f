"""A metric may give several numbers: what history.csv, steps.csv, pictures and lines make of it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine import records as records_of_run
from proof.engine.bad_examples import BadExamples
from proof.engine.callbacks import Event, every_epochs
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.loop import Loop, Schedule
from proof.engine.records import Records
from proof.engine.run_directory import RunDirectory
from proof.engine.run_files import read_csv
from proof.engine.types import Replica, Run
from tensorflow.python.summary.summary_iterator import summary_iterator

from .toys import BATCH, CLASSES, Toy, build, plain_data, plain_step


class Recall(keras.metrics.Metric):
    """Of each class, and of the classes together."""

    def __init__(self) -> None:
        super().__init__()
        self.hits = self.add_weight(shape=(CLASSES,), initializer="zeros", name="hits")
        self.rows = self.add_weight(shape=(CLASSES,), initializer="zeros", name="rows")

    def update_state(self, labels: Any, logits: Any, weights: Any) -> None:
        """Labels (batch,), logits (batch, classes)."""
        hit = tf.cast(tf.argmax(logits, axis=1) == labels, weights.dtype) * weights
        of_class = tf.one_hot(labels, CLASSES, dtype=weights.dtype)
        self.hits.assign_add(tf.linalg.matvec(of_class, hit, transpose_a=True))
        self.rows.assign_add(tf.linalg.matvec(of_class, weights, transpose_a=True))

    def result(self) -> Any:
        """(classes,) and a scalar."""
        hits, rows = map(tf.convert_to_tensor, (self.hits.value, self.rows.value))
        return {"class": hits / rows, "all": tf.reduce_sum(hits) / tf.reduce_sum(rows)}


def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The plain step, and the F1 score of each class."""
    inputs, labels, weights = batch
    one_hot = tf.one_hot(labels, CLASSES, dtype=weights.dtype)
    run.metrics["f1"].update_state(one_hot, tf.nn.softmax(run.model(inputs)), weights)
    others = {name: metric for name, metric in run.metrics.items() if name != "f1"}
    return plain_step(replace(run, metrics=others), batch, replica)


def create_metrics() -> dict[str, keras.metrics.Metric]:
    f1 = keras.metrics.F1Score(average=None)
    f1.update_state(np.zeros((1, CLASSES)), np.zeros((1, CLASSES)))
    f1.reset_state()
    return {"f1": f1, "recall": Recall()}


TOY = Toy(
    data=plain_data(2 * BATCH - 7), train_steps=(step,), metrics=create_metrics,
    others={"validation": plain_data(BATCH + 5)},
)  # fmt: skip
NAMES = [*(f"f1/{i}" for i in range(CLASSES)), *(f"recall/class/{i}" for i in range(CLASSES)),
         "recall/all"]  # fmt: skip


def loop(path: Path, replicas: int, monitor: str, callbacks: Any = ()) -> Loop:
    built = build(TOY, replicas)
    return Loop(
        *built,
        Evaluation(built.run, TOY.splits, built.steps.layout),
        RunDirectory(path),
        Schedule(num_steps=4, log_every_steps=2),
        callbacks=callbacks,
        monitor=monitor,
        larger_is_better=True,
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_each_number_of_a_metric_is_a_column(
    replicas: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Event] = []
    run = loop(tmp_path, replicas, "validation_recall/class/1", [every_epochs(1, seen.append)])
    run.start(resume=False)
    run.train()
    with (tmp_path / "history.csv").open(newline="") as lines:
        history = list(csv.DictReader(lines))
    with (tmp_path / "steps.csv").open(newline="") as lines:
        assert set(NAMES) <= set(next(csv.DictReader(lines)))
    assert [n.removeprefix("train_") for n in history[0] if n.startswith("train_")][1:] == NAMES
    assert list(seen[0].metrics) == NAMES
    logits = run.run.model(plain_data(BATCH + 5)[0]).numpy()
    labels = plain_data(BATCH + 5)[1]
    for i in range(CLASSES):
        wanted = (logits.argmax(axis=1) == i)[labels == i].mean()
        assert float(history[-1][f"validation_recall/class/{i}"]) == pytest.approx(wanted)
    assert run.best.value == max(float(row["validation_recall/class/1"]) for row in history)
    (file,) = (tmp_path / "log" / "validation").glob("*")
    tags = {value.tag for e in summary_iterator(str(file)) for value in e.summary.value}
    assert set(NAMES) <= tags
    assert "recall/class/1" in capsys.readouterr().out
    assert json.loads(json.dumps(run.records.latest)) == run.records.latest
    run.records.draw_curves({}, {})
    assert (tmp_path / "curves.png").stat().st_size > 0


def test_a_metric_of_several_numbers_is_no_column_itself(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'validation_f1'; it has: .*validation_f1/0"):
        loop(tmp_path, 1, "validation_f1")


@pytest.mark.quick
def test_names_of_any_kind_can_be_read_back(tmp_path: Path) -> None:
    row = {"epoch": 1.0, "step": 4.0, 'f1/bird, "small"': 0.5, "train_loss": 2.0}
    records = Records(tmp_path)
    records.add_validation(row)
    records.add_log(row)
    records.add_log(row | {"step": 5.0})
    assert read_csv(tmp_path / "history.csv") == [row]
    assert read_csv(tmp_path / "steps.csv") == [row, row | {"step": 5.0}]
    again = Records(tmp_path)
    again.resume(4, 1, row)
    assert again.history == [row]
    assert read_csv(tmp_path / "steps.csv") == [row]


@pytest.mark.quick
def test_a_row_of_the_same_columns_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write = [], records_of_run._write_csv

    def noted(file: Path, rows: Any) -> Any:
        written.append(len(rows))
        return write(file, rows)

    monkeypatch.setattr(records_of_run, "_write_csv", noted)
    records, file = Records(tmp_path), tmp_path / "history.csv"
    rows: list[dict[str, float]] = [{"epoch": i, "step": 4 * i, "loss": 1 / i} for i in range(1, 6)]
    rows[3]["more"] = 1.0
    for row in rows:
        records.add_validation(row)
    assert read_csv(file) == rows
    assert written == [1, 4, 5]
    text = file.read_text()
    again = Records(tmp_path)
    again.resume(16, 4, rows[3])
    again.add_validation(rows[3] | {"epoch": 5, "step": 20, "loss": 0.2})
    assert written[3:] == [4]
    file.write_text(file.read_text().rstrip())  # somebody has changed it
    again.add_validation(rows[3] | {"epoch": 6, "step": 24})
    assert len(read_csv(file)) == 6
    file.unlink()
    again.add_validation(rows[4])
    assert len(read_csv(file)) == 7
    assert text.splitlines()[:5] == file.read_text().splitlines()[:5]


@pytest.mark.quick
def test_numbers_are_as_short_as_they_can_be_read_back(tmp_path: Path) -> None:
    row = {"epoch": 2.0, "step": 48, "loss": 0.6127946376800537, "large": 1e16, "no": float("nan")}
    Records(tmp_path).add_validation(row | {"float": np.float64(0.1)})
    text = (tmp_path / "history.csv").read_text().splitlines()[1]
    assert text == "2,48,0.6127946376800537,10000000000000000,nan,0.1"


@pytest.mark.quick
def test_examples_that_an_earlier_process_left_out_count() -> None:
    before = BadExamples(1)
    assert before.add("training data", 3, "is cut short")
    after = BadExamples(1)
    after.set_state(json.loads(json.dumps(before.get_state())))
    assert after.news() == []
    assert after.add("training data", 3, "is cut short")
    assert not after.add("training data", 5, "is cut short")
    again = BadExamples(1)
    again.set_state(after.get_state())  # without the one that was too many, and is mended
    assert again.add("training data", 3, "is cut short")


@pytest.mark.quick
def test_examples_may_be_found_while_others_are_counted() -> None:
    class Label(str):
        def __format__(self, form: str) -> str:
            bad.add("training data", 5, "is cut short")  # as by a thread that reads ahead
            return str(self)

    bad = BadExamples(2)
    bad.add(Label("training data"), 3, "is cut short")
    assert len(bad.numbers()) == 1
    assert len(bad.numbers()) == 2
