"""Callbacks run at exactly their step, logging changes nothing, runs stop when they should."""

from __future__ import annotations

import csv
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import files
from proof.engine.callbacks import (
    Callback,
    Event,
    at_step,
    every_epochs,
    every_secs,
    every_steps,
    learning_rates,
)
from proof.engine.checkpoints import BestWeights
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.loop import Loop, Schedule
from proof.engine.run_directory import RunDirectory
from proof.engine.run_files import read_csv
from proof.engine.types import Run

from .toys import (
    BATCH,
    CLASSES,
    FEATURES,
    Toy,
    build,
    plain_data,
    plain_model,
    plain_step,
    several_samples_step,
)

COSINE = keras.optimizers.schedules.CosineDecay(0.1, decay_steps=14)
TOY = Toy(data=plain_data(7 * BATCH))  # seven steps an epoch


def loop(
    path: Path,
    callbacks: Sequence[Callback] = (),
    replicas: int = 1,
    toy: Toy = TOY,
    *,
    epochs: int = 2,
    flags: dict[str, Any] | None = None,
    resume: bool = False,
    monitor: str = "train_loss",
    larger_is_better: bool = False,
    **schedule: Any,
) -> Loop:
    """A started run, with up to 20 steps in a call."""
    built = build(toy, replicas, **flags or {})
    path.mkdir(exist_ok=True)
    defaults = {"num_steps": 7 * epochs, "steps_per_call": 20, "max_stop_secs": 1e9}
    run = Loop(
        *built,
        Evaluation(built.run, toy.splits, built.steps.layout),
        RunDirectory(path),
        Schedule(**defaults | schedule),
        callbacks=callbacks,
        monitor=monitor,
        larger_is_better=larger_is_better,
    )
    run.start(resume=resume)
    return run


def _steps_at(when: Callable[[Callable[[Event], None]], Callback], path: Path) -> list[int]:
    seen: list[int] = []
    loop(path, [when(lambda event: seen.append(event.step))]).train()
    return seen


@pytest.mark.quick
@pytest.mark.parametrize(
    ("when", "steps"),
    [
        (lambda f: every_steps(3, f), [3, 6, 9, 12]),
        (lambda f: every_steps(1, f), list(range(1, 15))),
        (lambda f: at_step(5, f), [5]),
        (lambda f: at_step(0, f), [0]),
        (lambda f: every_epochs(1, f), [7, 14]),
        (lambda f: every_epochs(2, f), [14]),
        (lambda f: every_secs(1e-9, f), [1, 7, 14]),  # where a graph call ends
        (lambda f: every_secs(1e9, f), []),
    ],
    ids=["3", "1", "at 5", "at 0", "epoch", "2 epochs", "secs", "never"],
)
def test_a_callback_is_called_at_exactly_its_step(
    when: Any, steps: list[int], tmp_path: Path
) -> None:
    found = _steps_at(when, tmp_path)
    assert [step for step in found if step or steps[:1] == [0]] == steps


@pytest.mark.quick
@pytest.mark.parametrize(
    ("make", "number"),
    [(every_steps, 0), (every_steps, 2.5), (every_epochs, -1), (at_step, -1), (every_secs, 0)],
)
def test_a_callback_that_is_never_due_is_refused(make: Any, number: float) -> None:
    with pytest.raises(UsageError, match=rf"^{make.__name__} got {number}; it must be "):
        make(number, print)


@pytest.mark.quick
def test_a_quotient_is_a_number_of_steps(tmp_path: Path) -> None:
    assert _steps_at(lambda f: every_steps(10 / 2, f), tmp_path) == [5, 10]


@pytest.mark.quick
def test_a_long_call_of_many_steps_stops_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loop(tmp_path, steps_per_call=7, max_stop_secs=1e-9)
    calls: list[int] = []
    make = run._train_call
    monkeypatch.setattr(run, "_train_call", lambda steps: calls.append(steps) or make(steps))
    run.train()
    assert set(calls) == {1}


@pytest.mark.quick
def test_what_callbacks_wrote_is_kept_after_an_error(tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        (event.directory / "mine").touch()
        raise ConnectionError

    directory = RunDirectory.open(tmp_path, "name", None, "")
    run = loop(directory.path, [every_steps(5, fail)])
    run.directory = directory
    with pytest.raises(ConnectionError), directory:
        run.train()
    assert (directory.path / "mine").exists()


def test_graph_calls_are_cut_at_due_steps_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loop(tmp_path, [every_steps(5, print), at_step(6, print)])
    calls: list[int] = []
    step = run.steps.distributed_train_step

    def record(iterator: Any, steps: int, progress: Any) -> Any:
        calls.append(steps)
        return step(iterator, steps, progress)

    monkeypatch.setattr(run.steps, "distributed_train_step", record)
    run.train()
    assert calls == [1, 4, 1, 1, 3, 4]  # one to be timed, then to 5, 6, 7 (an epoch), 10, 14
    assert run.steps.num_traces() == 1


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_logging_changes_no_bit_of_what_is_learned(
    replicas: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated = Toy(data=TOY.data, others={"validation": plain_data(BATCH + 5)})
    logged = loop(tmp_path / "a", (), replicas, validated, log_every_steps=1)
    silent = loop(tmp_path / "b", (), replicas, validated)
    monkeypatch.setattr(silent._log, "write", lambda progress: None)
    for run in (logged, silent):
        run.train()
    lines = (tmp_path / "a" / "steps.csv").read_text().splitlines()
    assert len(lines) == 1 + 14
    assert not (tmp_path / "b" / "steps.csv").exists()
    histories = [(tmp_path / name / "history.csv").read_bytes() for name in "ab"]
    assert histories[0] == histories[1]
    for a, b in zip(_bits(logged), _bits(silent), strict=True):
        np.testing.assert_array_equal(a, b)


def _bits(run: Loop) -> list[np.ndarray]:
    optimizers = run.run.optimizers.values()
    return [*run.run.model.get_weights(), *(v.numpy() for o in optimizers for v in o.variables)]


@pytest.mark.parametrize("replicas", [1, 2])
def test_log_points_and_validations_within_an_epoch_add_up(replicas: int, tmp_path: Path) -> None:
    whole = loop(tmp_path / "a", (), replicas)
    parts = loop(tmp_path / "b", (), replicas, validate_every_steps=3, log_every_steps=2)
    for run in (whole, parts):
        run.train()
    rows, steps = (_columns(tmp_path / "b" / f"{name}.csv") for name in ("history", "steps"))
    assert rows["step"].tolist() == [3, 6, 9, 12, 14]
    np.testing.assert_allclose(rows["epoch"], rows["step"] / 7)
    # A log point at each validation too: its window ends where the validation resets the metrics.
    assert steps["step"].tolist() == [2, 3, 4, 6, 8, 9, 10, 12, 14]
    wholes = _columns(tmp_path / "a" / "history.csv")
    for name in ("loss", "accuracy"):  # all batches are full: means weigh as their steps do
        for column, table in ((f"train_{name}", rows), (name, steps)):
            made = np.diff(table["step"], prepend=0)
            total = np.sum(made * table[column])
            np.testing.assert_allclose(total, 7 * np.sum(wholes[f"train_{name}"]), rtol=1e-9)


def _columns(file: Path) -> dict[str, np.ndarray]:
    with file.open(newline="") as lines:
        names, *rows = csv.reader(lines)
    return dict(zip(names, np.array(rows, float).T, strict=True))


def test_callbacks_do_not_change_what_is_learned(tmp_path: Path) -> None:
    plain, watched = loop(tmp_path / "a"), loop(tmp_path / "b", [every_steps(2, lambda e: None)])
    for run in (plain, watched):
        run.train()
    pairs = zip(plain.run.model.get_weights(), watched.run.model.get_weights(), strict=True)
    for a, b in pairs:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_callback_receives_all_it_may_need(replicas: int, tmp_path: Path) -> None:
    seen: list[Event] = []

    def look(event: Event) -> None:
        seen.append(event)
        inputs, labels, weights = event.batch
        assert inputs.shape == (BATCH, FEATURES)
        assert labels.shape == weights.shape == (BATCH,)
        assert event.outputs.shape == (BATCH, CLASSES)
        assert event.learning_rates == {"main": pytest.approx(0.1)}
        event.save()

    loop(tmp_path, [at_step(9, look)], replicas).train()
    (event,) = seen
    assert (event.step, event.epoch) == (9, 1)
    assert np.isfinite(event.losses["loss"])
    assert event.gradient_norm > 0
    assert 0 <= event.metrics["accuracy"] <= 1
    assert event.directory == tmp_path
    assert (tmp_path / "checkpoints" / "latest" / "ckpt-9.index").exists()


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_callback_can_change_the_learning_rate(replicas: int, tmp_path: Path) -> None:
    weights: list[list[np.ndarray]] = []

    def stand_still(event: Event) -> None:
        event.run.optimizers["main"].learning_rate = 0.0
        assert event.learning_rates == {"main": 0.0}
        weights.append(event.run.model.get_weights())

    run = loop(tmp_path, [at_step(5, stand_still)], replicas)
    run.train()
    for a, b in zip(weights[0], run.run.model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def with_rates(*rates: Any) -> Toy:
    """TOY with a rate for its optimizer, or with two for those inside a MultiOptimizer."""

    def optimizer() -> keras.optimizers.Optimizer:
        made = [keras.optimizers.SGD(rate) for rate in rates]
        if len(made) == 1:
            return made[0]
        return keras.optimizers.MultiOptimizer(lambda v: made["hidden" not in v.path])

    return replace(TOY, optimizer=optimizer)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ((0.1,), (0.2,), "learning rate of main was 0.1, and now it is 0.2;"),
        ((0.1, 0.3), (0.1, 0.4), "learning rate of main/1 was 0.3, and now it is 0.4;"),
    ],
)
def test_a_rate_that_would_be_ignored_is_refused_and_one_that_a_callback_set_is_kept(
    before: tuple[float, ...], after: tuple[float, ...], sentence: str, tmp_path: Path
) -> None:
    def halve(event: Event) -> None:
        for optimizer in event.run.optimizers.values():
            for each in getattr(optimizer, "optimizers", [optimizer]):
                each.learning_rate = each.learning_rate / 2

    callbacks = [at_step(5, halve)]
    loop(tmp_path, callbacks, toy=with_rates(*before), num_steps=7).train()
    with pytest.raises(UsageError, match=sentence):
        loop(tmp_path, callbacks, toy=with_rates(*after), resume=True)
    run = loop(tmp_path, callbacks, toy=with_rates(*before), resume=True)
    run.train()
    assert list(learning_rates(run.run).values()) == pytest.approx([r / 2 for r in before])


@pytest.mark.quick
def test_another_schedule_is_resumed(tmp_path: Path) -> None:
    for path, start in (("a", 0.1), ("b", 0.2)):
        schedule = keras.optimizers.schedules.CosineDecay(start, decay_steps=14)
        loop(tmp_path / path, toy=with_rates(schedule), num_steps=7).train()
    loop(tmp_path / "a", toy=with_rates(schedule), resume=True).train()


@dataclass(frozen=True)
class Larger:
    """The flags of a task that monitors its accuracy by default."""

    monitor: str = "validation_accuracy"
    larger_is_better: bool = True


@pytest.mark.quick
def test_a_direction_is_refused_only_where_it_was_left_at_that_of_another_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = {
        "accuracy": keras.metrics.SparseCategoricalAccuracy,
        "error": keras.metrics.MeanSquaredError,
        "reward": keras.metrics.Mean,
    }
    smaller = build(replace(TOY, metrics=lambda: {name: m() for name, m in metrics.items()})).run
    run = replace(smaller, task=Larger())

    def monitor(column: str, larger: bool, run: Run = run, validated: bool = True) -> str:
        best = BestWeights(tmp_path, run)
        best.monitor(column, larger_is_better=larger, validated=validated)
        return capsys.readouterr().out

    for column in ("validation_loss", "validation_error", "train_loss"):
        for validated in (True, column == "train_loss"):
            with pytest.raises(UsageError, match=f"largest {column} .* add --no-larger-is-better,"):
                monitor(column, True, validated=validated)
        assert monitor(column, False) == ""
    assert monitor("validation_accuracy", True) == ""
    assert monitor("validation_reward", True) == monitor("validation_reward", False) == ""
    # Meant so: said by a flag, or by the task.
    assert "with the smallest validation_accuracy are kept" in monitor("validation_accuracy", False)
    assert smaller.task.monitor == "validation_loss"
    assert "with the largest validation_loss are kept" in monitor("validation_loss", True, smaller)
    with pytest.raises(UsageError, match="right for validation_loss; add --larger-is-better,"):
        monitor("validation_accuracy", False, smaller)
    # A generator makes its critic's loss larger.
    optimizers = dict.fromkeys(("critic", "generator"), run.optimizers["main"])
    adversarial = replace(run, optimizers=optimizers)
    assert "largest validation_critic_loss" in monitor("validation_critic_loss", True, adversarial)
    with pytest.raises(UsageError, match="and the history has no column"):
        monitor("validation_f1", True)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_callback_can_freeze_a_layer(replicas: int, tmp_path: Path) -> None:
    frozen: list[list[np.ndarray]] = []

    def freeze(event: Event) -> None:
        layer = event.run.model.get_layer("hidden")
        layer.trainable = False
        frozen.append(layer.get_weights())

    run = loop(tmp_path, [at_step(5, freeze)], replicas)
    run.train()
    for a, b in zip(frozen[0], run.run.model.get_layer("hidden").get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("step", [7, 10], ids=["at a validation", "in mid-epoch"])
def test_a_run_that_a_callback_stops_ends_like_a_complete_one(step: int, tmp_path: Path) -> None:
    toy = Toy(data=TOY.data, others={"validation": plain_data(BATCH + 5)})
    stop = at_step(step, lambda event: event.stop())
    stopped = loop(tmp_path / "a", [stop], toy=toy, save_every_steps=step)
    complete = loop(tmp_path / "b", toy=toy, num_steps=step)
    for run in (stopped, complete):
        run.train()
        assert run.step == step
    rows = [(tmp_path / name / "history.csv").read_text() for name in "ab"]
    assert rows[0] == rows[1]
    assert float(rows[0].splitlines()[-1].split(",")[1]) == step
    logged = [_columns(tmp_path / name / "steps.csv")["step"].tolist() for name in "ab"]
    assert logged[0][-1] == step
    assert len(set(logged[0])) == len(logged[0])  # no row twice
    # The checkpoint of that step, too, is the one after the validation.
    assert stopped.best.value == complete.best.value
    for a, b in zip(_bits(stopped), _bits(complete), strict=True):
        np.testing.assert_array_equal(a, b)
    again = loop(tmp_path / "a", [stop], toy=toy, resume=True)
    again.train()
    assert (again.step, again.best.value) == (step, stopped.best.value)
    assert (tmp_path / "a" / "history.csv").read_text() == rows[0]
    assert int(again.progress.sums.counts[0]) == 0


@pytest.mark.quick
def test_a_run_is_not_resumed_with_fewer_steps_than_it_has_made(tmp_path: Path) -> None:
    loop(tmp_path, num_steps=8).train()
    before = files(tmp_path)
    with pytest.raises(UsageError, match=r"^The run has made 8 steps already; .* with 7: give"):
        loop(tmp_path, num_steps=7, resume=True)
    assert files(tmp_path) == before
    loop(tmp_path, num_steps=8, resume=True).train()


def test_a_run_killed_before_it_is_stopped_is_stopped_alike(tmp_path: Path) -> None:
    stop = at_step(10, lambda event: event.stop())
    whole, killed = (loop(tmp_path / name, [stop], save_every_steps=4) for name in "ab")
    whole.train()
    killed.train()
    for file in (tmp_path / "b" / "checkpoints" / "latest").glob("ckpt-10.*"):
        file.unlink()
    resumed = loop(tmp_path / "b", [stop], resume=True)
    assert resumed.step == 8
    resumed.train()
    assert [(tmp_path / n / "history.csv").read_text() for n in "ab"] == [
        (tmp_path / "a" / "history.csv").read_text()
    ] * 2
    for a, b in zip(_bits(whole), _bits(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


def test_seconds_are_those_of_all_processes_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1e-6
        return now[0]

    def later(event: Event) -> None:
        now[0] += 10.0

    monkeypatch.setattr("proof.engine.loop.time.perf_counter", clock)
    callbacks = [every_steps(1, later)]
    whole = loop(tmp_path, callbacks, num_steps=3)
    whole.train()
    assert whole.seconds == pytest.approx(30, abs=0.1)
    now[0] += 1000.0  # between two processes
    resumed = loop(tmp_path, callbacks, num_steps=5, resume=True)
    resumed.train()
    assert resumed.seconds == pytest.approx(50, abs=0.1)


@pytest.mark.quick
@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_makes_no_hours_of_waiting(
    hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loop(tmp_path, num_steps=2, steps_per_call=1, log_every_steps=1)
    monkeypatch.setattr(run, "_secs_waited", lambda: 3600.0 * hours)
    run.train()
    assert run._seconds["waiting for data"] + run._seconds["training"] < 3600
    assert min(run._seconds.values()) >= 0
    rows = read_csv(tmp_path / "steps.csv")
    assert [row["waiting_for_data"] for row in rows] == [max(hours, 0)] * 2


def test_speed_is_that_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[dict[str, float]] = []
    run = loop(tmp_path)
    monkeypatch.setattr(run.records, "add_log", rows.append)
    run._log.add_time(2, 4.0, 1.0)  # of a window that began with eight more steps, before a resume
    run._log.write(run.progress._replace(step=tf.constant(10, tf.int64)))
    run._log.add_time(3, 1.0, 0.0)
    run._log.write(run.progress._replace(step=tf.constant(13, tf.int64)))
    assert [row["examples_per_second"] for row in rows] == [2 * BATCH / 4.0, 3 * BATCH / 1.0]
    assert [row["waiting_for_data"] for row in rows] == [0.25, 0.0]


def _bad(first: int = 0) -> Toy:
    inputs, labels = plain_data(7 * BATCH)
    inputs[first:] = np.nan
    return Toy(data=(inputs, labels))


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_too_many_skipped_steps_in_a_row_stop_the_run(replicas: int, tmp_path: Path) -> None:
    run = loop(tmp_path, replicas=replicas, toy=_bad(), flags={"max_skipped_steps": 3})
    with pytest.raises(UsageError, match=r"Stopped at step 4: 4 steps in a row .*loss nan"):
        run.train()


def test_non_finite_stop_stops_at_the_first(tmp_path: Path) -> None:
    run = loop(tmp_path, toy=_bad(), flags={"non_finite": "stop"})
    with pytest.raises(UsageError, match="Stopped at step 1: 1 step"):
        run.train()


def test_a_skipped_step_is_reported_with_step_and_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop(tmp_path, toy=_bad(7 * BATCH - 1), epochs=1).train()
    assert "skipped, not finite: loss nan (1 skipped so far)" in capsys.readouterr().out


def test_every_optimizer_has_its_learning_rate(tmp_path: Path) -> None:
    schedule = keras.optimizers.schedules.CosineDecay(0.1, decay_steps=14)
    rates: list[float] = []
    toy = Toy(data=TOY.data, optimizer=lambda: keras.optimizers.SGD(schedule))
    callback = every_steps(7, lambda event: rates.append(event.learning_rates["main"]))
    loop(tmp_path, [callback], 2, toy).train()
    assert rates == pytest.approx([0.05, 0.0], abs=1e-6)


def _two_rates() -> keras.optimizers.Optimizer:
    """A schedule for one layer, a constant for the other."""
    fast, slow = keras.optimizers.Adam(COSINE), keras.optimizers.SGD(0.25)
    return keras.optimizers.MultiOptimizer(lambda v: slow if "hidden" in v.path else fast)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize(
    ("optimizer", "column"),
    [
        (lambda: keras.optimizers.SGD(COSINE), "learning_rate"),
        pytest.param(
            _two_rates,
            "learning_rate_main/1",
            marks=pytest.mark.skipif(
                not hasattr(keras.optimizers, "MultiOptimizer"), reason="not in this Keras"
            ),
        ),
    ],
    ids=["one", "two"],
)
def test_the_learning_rate_of_a_row_is_the_one_that_its_step_used(
    optimizer: Any,
    column: str,
    replicas: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    toy = Toy(data=TOY.data, optimizer=optimizer)
    loop(tmp_path, (), replicas, toy, log_every_steps=1).train()
    used = [float(COSINE(step)) for step in range(14)]
    logged = _columns(tmp_path / "steps.csv")
    np.testing.assert_allclose(logged[column], used, rtol=1e-6)
    if column != "learning_rate":
        assert set(logged["learning_rate_main/0"]) == {0.25}
    assert f"{used[-1]:.4g}" in capsys.readouterr().out.splitlines()[-1].split()


def test_a_variable_that_is_frozen_by_itself_stays_frozen_after_a_resume(tmp_path: Path) -> None:
    def freeze(event: Event) -> None:
        event.run.model.get_layer("logits").bias.trainable = False

    def run(name: str, steps: int, replicas: int, *, resume: bool = False) -> list[np.ndarray]:
        trained = loop(
            tmp_path / name, [at_step(2, freeze)], replicas, num_steps=steps, resume=resume
        )
        trained.train()
        return [v.numpy() for v in trained.run.model.variables]

    for replicas in (1, 2):
        whole = run(f"whole {replicas}", 6, replicas)
        run(f"parts {replicas}", 4, replicas)
        for a, b in zip(whole, run(f"parts {replicas}", 6, replicas, resume=True), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.quick
def test_a_layer_without_weights_that_was_added_is_refused(tmp_path: Path) -> None:
    def added() -> keras.Model:
        model = plain_model()
        return keras.Model(model.input, keras.layers.Dropout(0.0)(model.output))

    loop(tmp_path, num_steps=2).train()
    with pytest.raises(UsageError, match=r"had \d+ layers and variables when .* start a new run"):
        loop(tmp_path, num_steps=3, toy=replace(TOY, model=added), resume=True)


@pytest.mark.parametrize("is_link", [False, True])
def test_best_weights_of_steps_that_are_made_again_are_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_link: bool
) -> None:
    if is_link:  # to another disk
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "checkpoints" / "best").symlink_to(tmp_path / "elsewhere")
    schedule = {"validate_every_steps": 2, "num_steps": 6, "save_every_steps": 4}
    loop(tmp_path, **schedule).train()
    saved = tmp_path / "checkpoints"
    for file in (saved / "latest").glob("ckpt-6.*"):  # as if killed before it was written
        file.unlink()
    assert list((saved / "best").glob("ckpt-6.*"))
    rows = (tmp_path / "steps.csv").read_text()

    def refuse(run: Run, batch: Any, replica: Any) -> Any:
        raise UsageError("refused")

    with pytest.raises(UsageError, match="refused"):
        loop(tmp_path, toy=replace(TOY, train_steps=(refuse,)), resume=True, **schedule)
    assert list((saved / "best").glob("ckpt-6.*"))  # nothing was lost
    assert (tmp_path / "steps.csv").read_text() == rows
    run = loop(tmp_path, **schedule, resume=True)
    assert "the best weights so far are of a later step" in capsys.readouterr().out
    assert run.best.value is None
    assert not list((saved / "best").glob("*"))
    run.train()
    assert list((saved / "best").glob("ckpt-6.*"))


@pytest.mark.quick
def test_another_column_is_monitored_from_a_resume_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop(tmp_path, num_steps=7).train()
    run = loop(tmp_path, num_steps=14, resume=True, monitor="train_accuracy", larger_is_better=True)
    assert "train_accuracy is monitored now: that of the best weights so" in capsys.readouterr().out
    assert run.best.value == run.best.row["train_accuracy"]
    run.train()
    assert run.best.value == max(row["train_accuracy"] for row in run.records.history)


@pytest.mark.quick
def test_best_weights_that_are_lost_before_the_test_are_in_no_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = loop(tmp_path, replicas=2, validate_every_steps=2, larger_is_better=True)
    run.train()
    assert run.results(run.test())["best_step"] == 2
    assert run.best.replicas == 2
    shutil.rmtree(tmp_path / "checkpoints" / "best")
    run.best.replicas = 1
    results = run.results(run.test())
    assert "no best weights to read; those of step 14 are used" in capsys.readouterr().err
    assert (results["best_step"], results["best"], run.best.replicas) == (14, {}, 2)


@pytest.mark.quick
def test_a_killed_run_keeps_the_best_weights_that_its_latest_checkpoint_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(event: Event) -> None:
        raise RuntimeError("killed")

    schedule = {"validate_every_steps": 2, "num_steps": 14, "save_every_steps": 2}
    first = loop(tmp_path, **schedule | {"num_steps": 2})
    first.train()
    weights = [v.numpy() for v in first.run.model.trainable_variables]
    best = tmp_path / "checkpoints" / "best"
    killed = loop(
        tmp_path, [every_steps(4, end)], resume=True, **schedule | {"save_every_steps": 0}
    )
    with pytest.raises(RuntimeError, match="killed"):
        killed.train()
    assert killed.best.row["step"] == 4
    assert {file.name.split(".")[0] for file in best.iterdir()} == {"ckpt-2", "ckpt-4"}
    # Saved in the validation of step 4, before its row was there.
    killed.best.resume(first.best.value, first.best.row, 4)
    assert killed.best.row == first.best.row
    run = loop(tmp_path, resume=True, **schedule)
    assert "the best weights so far" not in capsys.readouterr().out
    assert run.best.row["step"] == 2
    assert run.best.restore()
    for a, b in zip(weights, run.run.model.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b.numpy())
    run = loop(tmp_path, resume=True, **schedule)
    run.train()
    assert {file.name.split(".")[0] for file in best.iterdir()} == {
        f"ckpt-{run.best.row['step']:.0f}"
    }


@pytest.mark.quick
@pytest.mark.parametrize(
    ("rate", "precision"), [(math.nan, "float32"), (math.inf, "float32"), (math.nan, "float16")]
)
def test_a_rate_that_is_no_number_changes_no_weight_and_ends_the_run(
    rate: float, precision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = replace(TOY, optimizer=lambda: keras.optimizers.SGD(rate))
    run = loop(tmp_path, toy=toy, flags={"precision": precision})
    before = [v.numpy() for v in run.run.model.variables]
    with pytest.raises(UsageError, match="Nothing was learned: none of the 14 steps was finite"):
        run.train()
    for value, v in zip(before, run.run.model.variables, strict=True):
        np.testing.assert_array_equal(value, v.numpy())
    assert f"the learning rate of 'main' is {rate}" in capsys.readouterr().out


@pytest.mark.quick
def test_what_a_callback_sets_in_python_is_said_where_it_does_not_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        x = keras.layers.Dropout(0.25, name="drop")(x)
        return keras.Model(inputs, keras.layers.Dense(CLASSES, name="logits")(x))

    def leave_out(event: Event) -> None:
        event.run.layers[2].rate = 0.5

    toy = replace(TOY, model=model)
    loop(tmp_path, [at_step(7, leave_out)], toy=toy, num_steps=7).train()
    capsys.readouterr()
    run = loop(tmp_path, [at_step(7, leave_out)], toy=toy, resume=True)
    assert "so far trained with drop.rate 0.5 (now 0.25)" in capsys.readouterr().out
    assert run.best.restore()
    assert "trained" not in capsys.readouterr().err  # the best row came before the callback


@pytest.mark.quick
def test_what_a_callback_sets_again_is_no_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Rate:
        def on_train_begin(self, loop: Loop) -> None:
            loop.run.layers[2].rate = 0.5

        def __call__(self, event: Event) -> None:
            pass

    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        x = keras.layers.Dropout(0.25)(keras.layers.BatchNormalization()(x))
        return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))

    toy = replace(TOY, model=model)
    callbacks = [at_step(7, Rate())]
    loop(tmp_path, callbacks, replicas=2, toy=toy, num_steps=7).train()
    run = loop(tmp_path, callbacks, replicas=1, toy=toy, resume=True)
    assert run.best.restore()
    said = capsys.readouterr()
    assert "trained with" not in said.out + said.err


@pytest.mark.quick
def test_a_rate_that_is_a_whole_number_trains(tmp_path: Path) -> None:
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([5], [1, 0])
    toy = replace(TOY, optimizer=lambda: keras.optimizers.SGD(rate))
    run = loop(tmp_path, toy=toy, num_steps=7)
    run.train()
    assert not int(run.progress.skips.total)


@pytest.mark.quick
def test_a_mistake_of_a_callback_is_refused_before_it_is_saved(tmp_path: Path) -> None:
    def other(event: Event) -> None:
        event.run.optimizers["main"].learning_rate = COSINE

    run = loop(tmp_path, [every_steps(4, other)], save_every_steps=2)
    with pytest.raises(UsageError, match="given another schedule after create_optimizer"):
        run.train()
    assert run.checkpoints.saved_step == 2


@pytest.mark.quick
def test_a_run_that_is_resumed_with_fewer_steps_forgets_what_came_later(tmp_path: Path) -> None:
    run = loop(tmp_path, num_steps=14, save_every_epochs=0, save_every_steps=7)
    run.train()
    for file in (tmp_path / "checkpoints" / "latest").glob("ckpt-14.*"):
        file.unlink()
    run = loop(tmp_path, num_steps=7, resume=True)
    run.train()
    run.test()
    assert run.best.restored_step == run.results({})["best_step"] == 7
    assert [row["step"] for row in read_csv(tmp_path / "history.csv")] == [7]


@pytest.mark.quick
def test_the_best_weights_are_selected_anew_where_other_values_are_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop(tmp_path, num_steps=7).train()
    run = loop(tmp_path, resume=True, larger_is_better=True)
    assert "other values are better now: the next validation selects" in capsys.readouterr().out
    assert run.best.row == {}
    assert [*(tmp_path / "checkpoints" / "best").glob("*.index")]  # until there are better ones


@pytest.mark.quick
def test_a_run_that_is_only_tested_keeps_its_best_row_with_other_validation_steps(
    tmp_path: Path,
) -> None:
    toy = replace(TOY, others={"validation": TOY.data})
    first = loop(tmp_path, toy=toy, monitor="validation_loss")
    first.train()
    run = loop(tmp_path, toy=toy, monitor="validation_loss", resume=True, validation_steps=1)
    run.train()
    assert run.best_row == first.best_row


@pytest.mark.quick
def test_a_metric_that_a_callback_updates_has_its_value(tmp_path: Path) -> None:
    toy = replace(TOY, train_steps=(several_samples_step,))
    update = every_steps(
        2, lambda event: event.run.metrics["accuracy"].update_state([1], [[0.0, 1.0, 0.0]])
    )
    run = loop(tmp_path, [update], toy=toy, epochs=1)
    run.train()
    assert run.records.history[-1]["train_accuracy"] == 1


@pytest.mark.quick
def test_callbacks_that_are_no_list_or_take_no_event(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"task/callbacks.py returns a NoneType; it must return a"):
        loop(tmp_path, None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"a callback calls must be a function of \(event\): too"):
        every_steps(2, lambda: None)  # type: ignore[arg-type, misc]


@pytest.mark.quick
@pytest.mark.parametrize("updated_in", ["train", "validation"])
def test_a_metric_that_a_step_leaves_alone_has_no_value_there(
    updated_in: str, tmp_path: Path
) -> None:
    steps = {"train": several_samples_step, "validation": several_samples_step}
    steps[updated_in] = plain_step
    data = TOY.data
    toy = replace(
        TOY,
        train_steps=(steps["train"],),
        validation_step=steps["validation"],
        others={"validation": data},
    )
    run = loop(tmp_path, toy=toy, epochs=1)
    run.train()
    (row,) = run.records.history
    found = {split: np.isfinite(row[f"{split}_accuracy"]) for split in steps}
    assert found == {split: split == updated_in for split in steps}
    assert np.isfinite(row["train_loss"])
    assert np.isfinite(row["validation_loss"])


@pytest.mark.quick
def test_a_column_that_was_not_finite_at_the_best_selects_anew(tmp_path: Path) -> None:
    first = loop(tmp_path, num_steps=7)
    consider = first.best.consider
    first.best.consider = lambda row: consider(  # type: ignore[method-assign]
        row | {"train_accuracy": float("nan")}
    )
    first.train()
    run = loop(tmp_path, num_steps=14, resume=True, monitor="train_accuracy", larger_is_better=True)
    run.train()
    assert run.best.value == run.best_row["train_accuracy"]


@pytest.mark.quick
def test_a_run_that_a_callback_stopped_says_why_it_makes_no_more_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop(tmp_path, [at_step(3, lambda event: event.stop())]).train()
    ended = "a callback ended the run after step 3 of "
    assert ended in capsys.readouterr().out
    (tmp_path / "results.json").touch()
    run = loop(tmp_path, epochs=3, resume=True)
    run.train()
    assert run.step == 3
    printed = capsys.readouterr().out
    assert "a callback had stopped the run there" in printed
    assert ended not in printed
    assert (tmp_path / "results.json").exists()


@pytest.mark.quick
def test_a_finished_run_that_goes_on_is_unfinished(tmp_path: Path) -> None:
    loop(tmp_path, num_steps=7).train()
    files = [tmp_path / name for name in ("results.json", "report.html")]
    for file in files:
        file.touch()
    loop(tmp_path, num_steps=7, resume=True)
    assert all(file.exists() for file in files)
    loop(tmp_path, num_steps=14, resume=True)
    assert not any(file.exists() for file in files)


class Calls(keras.metrics.Metric):
    """How often it was updated, an integer."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.add_variable((), "zeros", dtype="int32", name="calls")

    def update_state(self, *_: Any) -> None:
        """Count."""
        self.calls.assign(self.calls + 1)

    def result(self) -> Any:
        """All of them."""
        return self.calls.value


def test_integers_of_metrics_stay_whole_on_another_number_of_replicas(tmp_path: Path) -> None:
    toy = Toy(data=plain_data(30), metrics=lambda: {"calls": Calls()})
    settings: dict[str, Any] = {"toy": toy, "flags": {"global_batch_size": 3}, "num_steps": 8}
    loop(tmp_path, **settings, save_every_steps=4, validate_every_steps=8).train()
    for file in (tmp_path / "checkpoints" / "latest").glob("ckpt-8.*"):
        file.unlink()
    resumed = loop(tmp_path, replicas=3, **settings, resume=True)
    assert resumed.run.metric_results() == {"calls": 4.0}


@pytest.mark.parametrize(
    ("metrics", "sentence"),
    [
        (dict, r"in its list of metrics accuracy \S+ \(\) is missing"),
        (lambda: {"accuracy": keras.metrics.Mean()}, r"is accuracy Mean \(\) now"),
        (lambda: {**TOY.metrics(), "mean": keras.metrics.Mean()}, r"mean Mean \(\) is new"),
    ],
    ids=["none", "another", "one more"],
)
def test_a_run_with_other_metrics_is_not_resumed(
    metrics: Callable[[], dict[str, Any]], sentence: str, tmp_path: Path
) -> None:
    loop(tmp_path, num_steps=1).train()
    with pytest.raises(UsageError, match=sentence):
        loop(tmp_path, toy=replace(TOY, metrics=metrics), num_steps=2, resume=True)


def test_layers_in_another_order_are_named(tmp_path: Path) -> None:
    def model(first: str, second: str) -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        for name in (first, second):
            x = keras.layers.Dense(FEATURES, name=name)(x)
        return keras.Model(inputs, keras.layers.Dense(CLASSES, name="logits")(x))

    loop(tmp_path, toy=replace(TOY, model=lambda: model("a", "b")), num_steps=1).train()
    with pytest.raises(UsageError, match=r"in its model main a/kernel \S+ \S+ is b/kernel .* now"):
        loop(tmp_path, toy=replace(TOY, model=lambda: model("b", "a")), num_steps=2, resume=True)


class Counter:
    """A callback's function with a state."""

    def __init__(self, start: Any) -> None:
        self.count = start

    def __call__(self, event: Event) -> None:
        """Count."""
        self.count = self.count + 1

    def get_state(self) -> Any:
        """The count."""
        return self.count

    def set_state(self, state: Any) -> None:
        """Go on from there."""
        self.count = state


class Other(Counter):
    """Another one."""


def test_states_of_callbacks_are_given_to_the_same_ones(tmp_path: Path) -> None:
    before = [every_steps(1, Counter(np.float32(0))), every_steps(1, Other(10))]
    loop(tmp_path, before, num_steps=2).train()
    after = [Counter(0), Other(0)]
    loop(tmp_path, [every_steps(1, f) for f in after], num_steps=3, resume=True)
    assert [function.count for function in after] == [2, 12]
    swapped = [every_steps(1, f) for f in reversed(after)]
    with pytest.raises(UsageError, match="other callbacks than before, or in another order"):
        loop(tmp_path, swapped, num_steps=3, resume=True)


@pytest.mark.quick
def test_a_method_has_the_state_of_its_object(tmp_path: Path) -> None:
    class Several(Counter):
        def on_train_begin(self, loop: Any) -> None:
            self.begun = getattr(self, "begun", 0) + 1

        def add(self, number: int, event: Event) -> None:
            self.count = self.count + number

        def callbacks(self) -> list[Callback]:
            return [every_steps(1, partial(self.add, 10)), every_steps(2, self.__call__)]

    before, after = Several(0), Several(0)
    loop(tmp_path, before.callbacks(), num_steps=2).train()
    assert before.count == 21
    assert before.begun == 1
    loop(tmp_path, after.callbacks(), num_steps=3, resume=True).train()
    assert after.count == 31


@pytest.mark.quick
@pytest.mark.parametrize("state", [1j, np.zeros(100_001)])
def test_a_state_that_no_checkpoint_can_hold_is_named(state: Any, tmp_path: Path) -> None:
    counts = [every_steps(1, Counter(state))]
    with pytest.raises(UsageError, match=r"Counter\.get_state\(\) returns what a checkpoint can't"):
        loop(tmp_path, counts, num_steps=1).train()


@pytest.mark.quick
def test_weights_changed_in_the_end_are_said_to_be_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Average:
        def __init__(self, changes: bool) -> None:
            self.changes = changes

        def __call__(self, event: Event) -> None: ...

        def on_train_end(self, loop: Loop) -> None:
            if self.changes:
                loop.run.model.set_weights([0 * w for w in loop.run.model.get_weights()])

    for changes in (True, False):
        run = loop(tmp_path / str(changes), [every_epochs(1, Average(changes))], num_steps=9)
        run.train()
        assert ("on_train_end of a callback changes w" in capsys.readouterr().out) == changes
    zeroed, kept = (
        loop(tmp_path / str(changes), [every_epochs(1, Average(False))], resume=True, epochs=3)
        for changes in (True, False)
    )
    for a, b in zip(zeroed.run.model.get_weights(), kept.run.model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.quick
def test_sums_in_float32_over_too_many_steps_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.engine.loop.LONG", 7)
    loop(tmp_path / "long", validate_every_steps=8)
    assert "in 8 steps between validations they lose digits" in capsys.readouterr().out
    loop(tmp_path / "short", validate_every_steps=7)
    assert "lose digits" not in capsys.readouterr().out


@pytest.mark.quick
def test_variables_that_keras_does_not_know_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Factor(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="factor")
            self.by = tf.Variable(1.0, dtype=tf.float64)

        def call(self, x: Any) -> Any:
            return x * self.by

    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, Factor()(keras.layers.Dense(CLASSES)(x)))

    loop(tmp_path, toy=replace(TOY, model=model))
    assert "neither trained nor in the saved weights: factor.by, made by" in capsys.readouterr().out
