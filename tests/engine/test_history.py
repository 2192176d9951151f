"""The loop: rows of history.csv and steps.csv, callbacks, resumed runs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.callbacks import Event, at_step, every_steps
from proof.engine.loop import Loop
from proof.engine.types import Replica, Run

from .one_layer import create_loop, run_loop
from .test_loop import loop
from .toys import BATCH, Toy, compute_loss, plain_data

pytestmark = pytest.mark.quick


def column(file: Path, name: str) -> list[float]:
    with file.open(newline="") as lines:
        return [float(row[name]) for row in csv.DictReader(lines)]


@pytest.mark.parametrize(
    ("schedule", "validated", "epochs"),
    [
        ({}, [4, 8], [1, 2]),
        ({"num_steps": 6}, [4, 6], [1, 1.5]),
        ({"validate_every_steps": 3}, [3, 6, 8], [0.75, 1.5, 2]),
        ({"num_steps": 2}, [2], [0.5]),
    ],
    ids=["epochs", "steps", "every 3", "less than an epoch"],
)
def test_history_has_a_row_for_each_validation(
    schedule: dict[str, Any], validated: list[int], epochs: list[float], tmp_path: Path
) -> None:
    run_loop(tmp_path, **schedule)
    assert column(tmp_path / "history.csv", "step") == validated
    assert column(tmp_path / "history.csv", "epoch") == epochs


@pytest.mark.parametrize(
    ("schedule", "logged"),
    [
        ({"log_every_steps": 2}, [2, 4, 6, 8]),
        ({"log_every_steps": 3}, [3, 4, 6, 8]),  # and where a validation starts new sums
        ({"log_every_steps": 5, "validate_every_steps": 8}, [5, 8]),
    ],
    ids=["2", "3", "5"],
)
def test_steps_csv_has_a_row_for_each_log_point_and_validation(
    schedule: dict[str, Any], logged: list[int], tmp_path: Path
) -> None:
    run_loop(tmp_path, **schedule)
    assert column(tmp_path / "steps.csv", "step") == logged


@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.full), 2])
def test_a_row_holds_the_means_since_the_row_before(replicas: int, tmp_path: Path) -> None:
    run_loop(tmp_path / "each", replicas, log_every_steps=1)
    run_loop(tmp_path / "some", replicas, log_every_steps=3, validate_every_steps=5)
    for name in ("loss", "mean"):
        each = column(tmp_path / "each" / "steps.csv", name)
        means = [np.mean(each[a:b]) for a, b in ((0, 5), (5, 8))]
        found = column(tmp_path / "some" / "history.csv", f"train_{name}")
        assert found == pytest.approx(means, rel=1e-9)
        means = [np.mean(each[a:b]) for a, b in ((0, 3), (3, 5), (5, 6), (6, 8))]
        assert column(tmp_path / "some" / "steps.csv", name) == pytest.approx(means, rel=1e-9)


@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.full), 2])
def test_validating_more_often_changes_nothing_that_training_records(
    replicas: int, tmp_path: Path
) -> None:
    rare = run_loop(tmp_path / "rare", replicas, log_every_steps=1, validate_every_steps=8)
    often = run_loop(tmp_path / "often", replicas, log_every_steps=1, validate_every_steps=1)
    for name in ("loss", "mean", "gradient_norm"):
        wanted, found = (column(tmp_path / n / "steps.csv", name) for n in ("rare", "often"))
        assert found == pytest.approx(wanted, rel=1e-9)  # rounded: differences of longer sums
    pairs = zip(rare.run.model.get_weights(), often.run.model.get_weights(), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


def test_a_validation_takes_as_many_batches_as_asked(tmp_path: Path) -> None:
    loop = run_loop(tmp_path, validation_steps=2)
    assert loop.records.latest["validation_loss"] == pytest.approx(
        loop.evaluation.evaluate("validation", num_batches=2)["validation_loss"]
    )
    assert loop.records.latest["validation_loss"] != pytest.approx(
        loop.evaluation.evaluate("validation")["validation_loss"]
    )


@pytest.mark.parametrize("replicas", [pytest.param(1, marks=pytest.mark.full), 2])
def test_a_metric_that_the_step_of_another_split_updates_is_nan(
    replicas: int, tmp_path: Path
) -> None:
    def updates(name: str) -> Any:
        def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            predictions = run.model(inputs)
            run.metrics[name].update_state(tf.ones_like(weights), weights)
            per_example = run.losses["main"](labels, predictions)
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return step

    toy = Toy(
        metrics=lambda: {name: keras.metrics.Mean() for name in ("mine", "tested")},
        train_steps=(updates("mine"),),
        test_step=updates("tested"),
        others=dict.fromkeys(("validation", "test"), plain_data(BATCH)),
    )
    run = loop(tmp_path, toy=toy, replicas=replicas, epochs=1)
    run.evaluation.trace()
    run.train()
    assert set(column(tmp_path / "history.csv", "validation_mine")) == {1}
    assert np.isnan(column(tmp_path / "history.csv", "validation_tested")).all()
    tested = run.evaluation.evaluate("test")
    assert tested["test_tested"] == 1
    assert np.isnan(tested["test_mine"])
    assert np.isnan(run.evaluation.evaluate("validation")["validation_tested"])


@pytest.mark.parametrize(
    ("killed", "replicas"),
    [
        pytest.param(4, 1, marks=pytest.mark.full),
        pytest.param(7, 1, marks=pytest.mark.full),
        (7, 2),
    ],
)
def test_a_run_killed_between_two_validations_records_the_same_when_resumed(
    killed: int, replicas: int, tmp_path: Path
) -> None:
    def kill(event: Event) -> None:
        raise KeyboardInterrupt

    schedule: dict[str, Any] = {"validate_every_steps": 5, "log_every_steps": 3}
    schedule["save_every_steps"] = 2
    run_loop(tmp_path / "whole", replicas, **schedule)
    with pytest.raises(KeyboardInterrupt):
        run_loop(tmp_path / "killed", replicas, [at_step(killed, kill)], **schedule)
    run_loop(tmp_path / "killed", replicas, resume=True, **schedule)
    whole, killed_run = (tmp_path / name for name in ("whole", "killed"))
    assert (killed_run / "history.csv").read_text() == (whole / "history.csv").read_text()
    for name in ("step", "epoch", "loss", "mean", "learning_rate", "gradient_norm"):
        assert column(killed_run / "steps.csv", name) == column(whole / "steps.csv", name)


@pytest.mark.parametrize("changed", ["keras", "code"])
def test_a_run_that_other_code_continues_says_so(
    changed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    origin: dict[str, Any] = {"versions": {"keras": "3.10", "code": "a"}, "git": {"commit": None}}
    now = origin | {"versions": origin["versions"] | {changed: "b"}}
    loops = []
    for steps, each in ((4, origin), (6, origin), (8, now), (8, now)):
        run = create_loop(tmp_path, num_steps=steps)
        run._origin = each
        run.start(resume=bool(loops))
        run.train()
        loops.append(run)
        said = f"{changed} {origin['versions'][changed]} (now b)" in capsys.readouterr().out
        assert said == (len(loops) == 3)
    assert [len(run.earlier) for run in loops] == [0, 0, 1, 1]
    assert loops[-1].earlier == [origin]


def test_other_validations_select_the_best_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_loop(tmp_path, num_steps=4, validation_steps=1)
    same = run_loop(tmp_path, num_steps=8, validation_steps=1, resume=True)
    assert "selects the best weights anew" not in capsys.readouterr().out
    other = create_loop(tmp_path, num_steps=12, validation_steps=2)
    other.start(resume=True)
    assert "selects the best weights anew" in capsys.readouterr().out
    assert same.best.value is not None
    assert other.best.value is None


@pytest.mark.parametrize("changed", ["train", "validation"])
def test_a_resumed_run_says_which_data_is_another(
    changed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def resumed(steps: int, other: str = "") -> Loop:
        loop = create_loop(tmp_path, num_steps=steps)
        splits = loop.evaluation.splits
        splits["train"] = loop.batches.split.copy()  # type: ignore[index]
        if other:
            splits[other][[0, -1]] *= 1.5
        loop.start(resume=steps > 4)
        loop.train()
        return loop

    resumed(4)
    resumed(6)
    out = capsys.readouterr().out
    assert "isn't what it was" not in out
    assert "other examples" not in out
    assert resumed(8, changed).step == 8
    out = capsys.readouterr().out
    assert ("training data isn't what it was" in out) == (changed == "train")
    assert ("validation takes other examples now" in out) == (changed == "validation")


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_run_in_which_nothing_counts_says_so(
    weight: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, labels = plain_data(7 * BATCH)
    weights = np.full(len(labels), weight)
    loop(tmp_path, toy=Toy(data=(inputs, labels, weights)), epochs=1).train()
    assert ("no example counted" in capsys.readouterr().out) == (weight == 0)


def test_overflows_of_an_earlier_epoch_do_not_hide_that_nothing_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, labels = plain_data(7 * BATCH)
    no_weights = Toy(data=(inputs, labels, np.zeros(len(labels))))
    trained = loop(tmp_path, toy=no_weights, epochs=2)
    skips = trained.progress.skips._replace(overflows=tf.constant(3, tf.int64))
    trained.progress = trained.progress._replace(skips=skips)
    trained.train()
    assert capsys.readouterr().out.count("no example counted") == 1  # in the second epoch


def test_what_callbacks_asked_for_holds_after_a_resume(tmp_path: Path) -> None:
    class Seen:
        """A callback with state."""

        def __init__(self) -> None:
            self.steps: list[int] = []

        def __call__(self, event: Event) -> None:
            self.steps.append(event.step)

        def get_state(self) -> list[int]:
            return self.steps

        def set_state(self, state: list[int]) -> None:
            self.steps = state

    def save_and_stop(event: Event) -> None:
        event.save()
        event.stop()

    def callbacks(seen: Seen) -> list[Any]:
        return [at_step(2, save_and_stop), every_steps(1, seen)]  # called after the save is asked

    run_loop(tmp_path, 1, callbacks(Seen()))
    seen = Seen()
    loop = run_loop(tmp_path, 1, callbacks(seen), resume=True)
    assert seen.steps == [1, 2]
    assert loop.step == 2


def test_a_layer_frozen_by_a_callback_stays_frozen_after_a_resume(tmp_path: Path) -> None:
    def freeze(event: Event) -> None:
        event.run.model.layers[0].trainable = False

    callbacks = [at_step(3, freeze)]
    run_loop(tmp_path, 1, callbacks, num_steps=4)
    loop = create_loop(tmp_path, 1, callbacks)
    loop.start(resume=True)
    assert not loop.run.trainable_variables
