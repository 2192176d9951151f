"""Callbacks of Keras decide as in `fit`, on N replicas as on one, and after a resume as without."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.callbacks import (
    at_step,
    every_epochs,
    every_steps,
    every_validation,
    learning_rates,
    restore_state,
    state_of,
    tell,
)
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.keras_callbacks import _attributes, _logs, keras_callback
from proof.engine.loop import Loop, Schedule
from proof.engine.run_directory import RunDirectory
from proof.engine.types import Replica, Run
from tensorflow.python.summary.summary_iterator import summary_iterator

from .test_loop import _bits
from .toys import BATCH, Toy, build, plain_data, plain_model, plain_step

# Keras 3.15 reads variables in a way that NumPy 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

VALIDATED = Toy(data=plain_data(3 * BATCH), others={"validation": plain_data(BATCH + 5)})
EPOCHS = 8  # of three steps


def loop(
    path: Path,
    callbacks: Any = (),
    replicas: int = 1,
    toy: Toy = VALIDATED,
    *,
    resume: bool = False,
    monitor: str = "validation_loss",
    **schedule: Any,
) -> Loop:
    """A started run of eight epochs of three steps."""
    built = build(toy, replicas)
    path.mkdir(exist_ok=True)
    run = Loop(
        *built,
        Evaluation(built.run, toy.splits, built.steps.layout),
        RunDirectory(path),
        Schedule(**{"num_steps": 3 * EPOCHS, "max_stop_secs": 1e9} | schedule),
        callbacks=callbacks,
        monitor=monitor,
        larger_is_better=False,
    )
    run.start(resume=resume)
    return run


class Noting(keras.callbacks.Callback):
    """Notes when its hooks are called."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[Any] = []

    def note(self, *what: Any) -> None:
        self.notes.append(list(what))

    def on_train_begin(self, logs: Any = None) -> None:
        self.note("train begin")

    def on_train_end(self, logs: Any = None) -> None:
        self.note("train end", sorted(logs))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.note("begin", epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.note("end", epoch, sorted(logs))

    def on_test_end(self, logs: Any = None) -> None:
        self.note("test", sorted(logs))


class NotingBatches(Noting):
    """Notes batches too."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.note("batch", batch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.note("batch end", batch, sorted(logs))


@pytest.mark.quick
def test_hooks_are_called_in_the_order_of_fit(tmp_path: Path) -> None:
    own, theirs = NotingBatches(), NotingBatches()
    loop(tmp_path, [keras_callback(own)], num_steps=6).train()
    model = plain_model()
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    data, (inputs, labels) = plain_data(3 * BATCH), plain_data(BATCH + 5)
    model.fit(
        *data, batch_size=BATCH, epochs=2, verbose=0, callbacks=[theirs],
        validation_data=(inputs, labels),
    )  # fmt: skip
    assert own.notes == theirs.notes
    assert own.params == {"verbose": 0, "epochs": 2, "steps": 3}


def replayed(callbacks: list[Any], rows: list[dict[str, float]]) -> tuple[list[float], int]:
    """Learning rates and the number of epochs if `fit` had measured these rows."""
    model = plain_model()
    model.compile("sgd", "mse")
    model.optimizer.learning_rate = 0.1
    listed = keras.callbacks.CallbackList(callbacks, model=model)
    listed.on_train_begin()
    model.stop_training, rates = False, []
    for epoch, row in enumerate(rows):
        listed.on_epoch_begin(epoch, {})
        listed.on_epoch_end(epoch, dict(row))
        rates.append(float(model.optimizer.learning_rate.numpy()))
        if model.stop_training:
            break
    return rates, len(rates)


class Own(keras.callbacks.Callback):
    """One that an owner wrote, with a state of several types."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.losses: list[float] = []
        self.worst = np.float32(0.0)
        self.by_epoch: dict[str, float] = {"none": float("inf")}
        self.file = path / "own.txt"  # no state

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.losses.append(logs["loss"])
        self.worst = max(self.worst, np.float32(logs["loss"]))
        self.by_epoch[str(epoch)] = logs["val_loss"]


class Rates(keras.callbacks.Callback):
    """Notes the learning rate at the end of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[float] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.notes.append(float(self.model.optimizer.learning_rate.numpy()))


def everything(path: Path) -> dict[str, Any]:
    """Every kind at once, with settings by which they act."""
    given = keras.callbacks
    return {
        "own": Own(path),
        "schedule": given.LearningRateScheduler(lambda epoch, rate: rate * 0.95 - 1e-3 * epoch),
        "plateau": given.ReduceLROnPlateau(
            "val_loss", factor=0.5, patience=1, min_delta=0.06, cooldown=1, min_lr=0.01
        ),
        "checkpoint": given.ModelCheckpoint(
            "models/{epoch:02d}.keras", "val_accuracy", save_best_only=True
        ),
        "steps": given.ModelCheckpoint("steps.weights.h5", save_weights_only=True, save_freq=5),
        "csv": given.CSVLogger("log.csv"),
        "tensorboard": given.TensorBoard("board"),
        "nan": given.TerminateOnNaN(),
        "history": given.History(),
        "rates": Rates(),
        # Last, as its end is that of the run.
        "early": given.EarlyStopping(
            "val_loss", min_delta=0.05, patience=2, restore_best_weights=True
        ),
    }


def trained(path: Path, replicas: int, **more: Any) -> tuple[Loop, dict[str, Any]]:
    """A run with all of them, which saves every four steps."""
    kinds = everything(path)
    run = loop(
        path, [keras_callback(c) for c in kinds.values()], replicas,
        save_every_steps=4, keep_checkpoints=99, **more,
    )  # fmt: skip
    run.train()
    return run, kinds


@pytest.mark.quick
def test_a_log_that_somebody_has_moved_does_not_stop_a_save(tmp_path: Path) -> None:
    log, moved = tmp_path / "log.csv", tmp_path / "old.csv"
    callbacks = [
        keras_callback(keras.callbacks.CSVLogger("log.csv")),
        at_step(5, lambda event: log.rename(moved)),
    ]
    loop(tmp_path, callbacks, num_steps=8, validate_every_steps=4, save_every_steps=4).train()
    assert len(moved.read_text().splitlines()) == 3
    assert (tmp_path / "checkpoints" / "latest" / "ckpt-8.index").exists()


@pytest.mark.quick
def test_what_begins_an_epoch_may_note_what_no_checkpoint_holds(tmp_path: Path) -> None:
    found = list[float]()

    class Moved(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.before = tf.constant(self.model.get_weights()[0])

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            found.append(float(tf.norm(self.model.get_weights()[0] - self.before)))

    schedule = {"validate_every_steps": 4, "save_every_steps": 4}
    loop(tmp_path, [keras_callback(Moved())], num_steps=4, **schedule).train()
    loop(tmp_path, [keras_callback(Moved())], num_steps=8, resume=True, **schedule).train()
    assert len(found) == 2
    assert min(found) > 0


@pytest.mark.quick
def test_what_begins_an_epoch_changes_the_model_once(tmp_path: Path) -> None:
    class Decay(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.optimizer = self.model.optimizer  # which no checkpoint holds
            self.optimizer.learning_rate.assign(self.optimizer.learning_rate * 0.5)

    schedule: dict[str, Any] = {"num_steps": 8, "validate_every_steps": 4, "save_every_steps": 2}
    whole = loop(tmp_path, [keras_callback(Decay())], keep_checkpoints=99, **schedule)
    whole.train()
    forget_after(tmp_path, 6)
    run = loop(tmp_path, [keras_callback(Decay())], resume=True, **schedule)
    run.train()
    assert learning_rates(run.run) == learning_rates(whole.run)
    for a, b in zip(_bits(run), _bits(whole), strict=True):
        np.testing.assert_array_equal(a, b)


def forget_after(path: Path, step: int) -> None:
    """Leave what a run that was killed after `step` would leave, and files of later steps."""
    for file in (path / "checkpoints" / "latest").glob("ckpt-*"):
        if int(file.name.partition(".")[0].removeprefix("ckpt-")) > step:
            file.unlink()


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.quick)])
def test_a_resumed_run_decides_as_one_never_stopped_and_as_fit(
    replicas: int, tmp_path: Path
) -> None:
    keras.utils.set_random_seed(0)
    whole, kinds = trained(tmp_path / "a", replicas)
    rows = [_logs(row) for row in whole.records.history]
    # It was stopped by EarlyStopping, on the epoch on which `fit` would have ended.
    assert 2 < len(rows) < EPOCHS
    assert replayed([everything(tmp_path)["early"]], rows)[1] == len(rows)
    assert whole.step == 3 * len(rows)
    # Its learning rates are those of `fit`.
    wanted_rates, _ = replayed(
        [everything(tmp_path)[kind] for kind in ("schedule", "plateau")], rows
    )
    np.testing.assert_allclose(kinds["rates"].notes, wanted_rates, rtol=1e-6)
    assert wanted_rates[-1] < 0.5 * wanted_rates[0]  # the plateau was found
    for step in (12, 8):  # at the end of an epoch, and in its middle
        path = tmp_path / "b"
        if step == 12:
            trained(path, replicas)
        forget_after(path, step)
        run, again = trained(path, replicas, resume=True)
        for a, b in zip(_bits(whole), _bits(run), strict=True):
            np.testing.assert_array_equal(a, b)
        for name in kinds.keys() - {"csv"}:  # its file says all
            state, wanted = (str(_attributes(one[name])) for one in (again, kinds))
            assert state.replace(str(path), str(tmp_path / "a")) == wanted
        for name in ("log.csv", "history.csv"):
            assert (path / name).read_text() == (tmp_path / "a" / name).read_text()
        assert _saved(path) == _saved(tmp_path / "a")
    header, *lines = (tmp_path / "a" / "log.csv").read_text().splitlines()
    assert header == "epoch,accuracy,loss,val_accuracy,val_loss"
    assert [float(line.split(",")[4]) for line in lines] == [row["val_loss"] for row in rows]
    assert kinds["history"].history["val_loss"] == [row["val_loss"] for row in rows]
    assert _tags(tmp_path / "a" / "board" / "validation") >= {"epoch_loss", "epoch_accuracy"}
    best = min(range(len(rows)), key=lambda i: rows[i]["val_loss"])
    assert whole.best_row["step"] == 3 * (best + 1)


def _saved(path: Path) -> dict[str, list[bytes]]:
    """The weights in every file of ModelCheckpoint."""
    files = sorted((path / "models").glob("*.keras"))
    found = {file.name: keras.models.load_model(file).get_weights() for file in files}
    model = plain_model()
    model.load_weights(path / "steps.weights.h5")
    assert len(found) > 1
    found["steps"] = model.get_weights()
    return {name: [w.tobytes() for w in weights] for name, weights in found.items()}


def _tags(path: Path) -> set[str]:
    return {
        v.tag for f in path.glob("*") for e in summary_iterator(str(f)) for v in e.summary.value
    }


def test_an_extended_run_continues_where_a_shorter_one_ended(tmp_path: Path) -> None:
    rates = {}
    for name, ends in (("a", (4,)), ("b", (2, 4))):
        for i, epochs in enumerate(ends):
            schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / (epoch + 2))
            run = loop(
                tmp_path / name, [keras_callback(schedule)], num_steps=3 * epochs, resume=i > 0
            )
            run.train()
        rates[name] = learning_rates(run.run)["main"]
    assert rates["a"] == rates["b"] == pytest.approx(0.1 / 120)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_hook_for_batches_stops_the_run_and_the_epoch_still_ends(
    replicas: int, tmp_path: Path
) -> None:
    class Stop(NotingBatches):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            super().on_train_batch_end(batch, logs)
            self.model.stop_training = ["end", 0] in [note[:2] for note in self.notes]

    stop = Stop()
    run = loop(tmp_path, [keras_callback(stop)], replicas)
    run.train()
    assert run.step == run.records.history[-1]["step"] == 4
    assert [note[:2] for note in stop.notes if note[0] in ("batch end", "end")] == [
        ["batch end", 0], ["batch end", 1], ["batch end", 2], ["end", 0],
        ["batch end", 0], ["end", 1],
    ]  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize(
    ("callback", "each_step"),
    [
        (lambda: keras.callbacks.EarlyStopping(), False),
        (lambda: keras.callbacks.TensorBoard("board"), False),
        (lambda: keras.callbacks.TensorBoard("board", update_freq=10), True),
        (lambda: keras.callbacks.ModelCheckpoint("a.keras"), False),
        (lambda: keras.callbacks.ModelCheckpoint("a.keras", save_freq=5), True),
        (lambda: keras.callbacks.TerminateOnNaN(), True),
        (lambda: keras.callbacks.LambdaCallback(on_epoch_end=print), False),
        (lambda: keras.callbacks.LambdaCallback(on_train_batch_end=print), True),
        (Noting, False),
        (NotingBatches, True),
    ],
)
def test_graph_calls_make_one_step_where_a_hook_needs_it(
    callback: Callable[[], Any], each_step: bool
) -> None:
    assert keras_callback(callback()).next_step(5, 10) == (6 if each_step else None)


def test_an_epoch_of_keras_ends_with_each_validation(tmp_path: Path) -> None:
    noting = Noting()
    loop(tmp_path, [keras_callback(noting)], num_steps=7, validate_every_steps=3).train()
    assert [note[1] for note in noting.notes if note[0] == "end"] == [0, 1, 2]
    assert noting.params == {"verbose": 0, "epochs": 3, "steps": 3}


@pytest.mark.quick
@pytest.mark.parametrize(
    ("callback", "sentence"),
    [
        (
            lambda: keras.callbacks.BackupAndRestore("x"),
            "BackupAndRestore can't work here: the run",
        ),
        (lambda: keras.callbacks.SwapEMAWeights(), "SwapEMAWeights can't work here: the average"),
        (lambda: keras.callbacks.TensorBoard(profile_batch=2), "use --profile FIRST:LAST"),
        (lambda: keras.callbacks.EarlyStopping, "needs a keras.callbacks.Callback, not <class"),
    ],
)
def test_what_can_never_work_is_refused_by_name(
    callback: Callable[[], Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=sentence):
        keras_callback(callback())


@pytest.mark.quick
def test_what_this_run_lacks_is_refused_before_training(tmp_path: Path) -> None:
    given, run = keras.callbacks, loop(tmp_path, monitor="train_loss")

    def begin(callback: Any, **options: Any) -> Any:
        keras_callback(callback, **options).function.on_train_begin(run)
        return callback

    # It decides by the name of the metric, and says "mode" of nothing.
    of_keras_3_10 = given.ModelCheckpoint("a.keras", "val_accuracy", save_best_only=True)
    of_keras_3_10.monitor_op = np.less
    vars(of_keras_3_10).pop("mode", None)

    for callback, sentence in (
        (given.EarlyStopping("val_acuracy"), "'val_acuracy', which this run doesn't have; there "
         "are: loss, accuracy, val_loss, val_accuracy"),
        (given.ModelCheckpoint("a.keras", "acc", save_best_only=True), "monitors 'acc'"),
        (given.ReduceLROnPlateau("lr"), "monitors 'lr'"),
        (given.EarlyStopping(restore_best_weights=True), "by 'val_loss', and the run tests those "
         "by 'train_loss'"),
        (of_keras_3_10, "has mode='min', but larger values of 'val_accuracy' are better; pass"),
        (given.EarlyStopping("loss", start_from_epoch=3, restore_best_weights=True),
         "EarlyStopping would leave out the first 3 epochs when it restores the best weights"),
        (given.EarlyStopping("val_accuracy", mode="min"), "has mode='min', but larger values of "
         "'val_accuracy' are better; pass mode='max'"),
        (given.ModelCheckpoint("a.keras", "loss", save_best_only=True, mode="max"), "smaller "
         "values of 'loss' are better, as larger_is_better in task/config.py says; pass mode="),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=sentence):
            begin(callback)
    with pytest.raises(UsageError, match="which model to show: pass model='main'"):
        begin(Noting(), model="generator")
    # Larger is better for accuracy and not for a loss, as `fit` finds out by itself.
    assert begin(given.EarlyStopping("val_accuracy")).mode == "max"
    assert begin(given.ReduceLROnPlateau("val_loss")).mode == "min"
    assert begin(given.ModelCheckpoint("a.keras", "nothing")).mode == "min"
    run.run.metrics["accuracy"]._direction = None
    with pytest.raises(
        UsageError, match="whether larger values of 'accuracy' are better; pass mod"
    ):
        begin(given.EarlyStopping("accuracy"))
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10)
    run.run.optimizers["main"] = keras.optimizers.SGD(schedule)
    for callback in (given.ReduceLROnPlateau(), given.LearningRateScheduler(lambda epoch: 0.1)):
        with pytest.raises(UsageError, match="can't set the learning rate of a schedule"):
            begin(callback)
    with pytest.raises(UsageError, match="which isn't a callback: use every_steps"):
        loop(tmp_path / "b", [given.EarlyStopping()])


def test_of_several_models_one_is_shown(tmp_path: Path) -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return plain_step(
            dataclasses.replace(run, models={"main": run.models["b"]}), batch, replica
        )

    toy = Toy(
        train_steps=(step,),
        model=lambda: {"a": plain_model(), "b": plain_model()},
        others={"validation": plain_data(BATCH + 5)},
    )
    with pytest.raises(UsageError, match="pass model='a' or model='b'"):
        loop(tmp_path / "a", [keras_callback(Noting())], toy=toy)
    noting = Noting()
    run = loop(tmp_path / "b", [keras_callback(noting, model="b")], toy=toy)
    assert noting.model is run.run.models["b"]
    assert noting.model.optimizer is run.run.optimizers["main"]


KEPT: list[Any] = [
    {0: "a", 1: {2: [3.5, {None: True}]}},
    {"a": 1, "b": [{(1, "x"): (2, [3])}]},
    {np.int64(4): np.float32(0.5)},
    {"pairs of a dict": [[1, 2]]},
    {"items of a tuple": 1},
    {},
    [(), [()]],
    {1, (2, 3)},
    [frozenset("a"), deque([1, {2}])],
    {"items of a set": [1]},
    {"numbers of an array": 1},
    {"number of NumPy": [1, 2]},
    deque([1, 2], maxlen=2),
    [np.float16(0.1), np.float64(0.1), np.int8(3), np.bool_(True), np.zeros(())],
    np.uint64(2**64 - 1),
]


class Keeping(keras.callbacks.Callback):
    """Changes attributes of many kinds when an epoch ends."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.seen: Any = {}
        self.circular: list[Any] = []
        self.counts: Counter[str] = Counter()
        self.latest: deque[int] = deque(maxlen=1)
        self.mean = np.zeros(0)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen[epoch] = KEPT
        self.circular.append(self.circular)  # is left out
        self.counts["epochs"] += 1
        self.latest.append(epoch)
        self.mean = np.full((2, 3), epoch / 3, np.float32)


@pytest.mark.quick
def test_attributes_come_back_with_their_keys_and_tuples(tmp_path: Path) -> None:
    keeping = Keeping()
    loop(tmp_path, [keras_callback(keeping)], num_steps=6).train()
    again = Keeping()
    loop(tmp_path, [keras_callback(again)], num_steps=6, resume=True)
    assert again.seen == keeping.seen == {0: KEPT, 1: KEPT}
    assert repr(again.seen[0][:2]) == repr(KEPT[:2])
    assert again.circular == []
    again.on_epoch_end(2)
    assert (again.counts, again.latest) == (Counter(epochs=3), deque([2]))


@pytest.mark.quick
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_arrays_of_a_callback_come_back_to_the_bit(dtype: str) -> None:
    array = (np.random.default_rng(0).normal(size=(2, 3, 1)) * 3).astype(dtype)
    given: list[Any] = []
    function = SimpleNamespace(get_state=lambda: [array, array[:0]], set_state=given.append)
    restore_state(function, json.loads(json.dumps(state_of(function))))
    for a, b in zip((array, array[:0]), given[0], strict=True):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.quick
def test_a_callback_may_hold_more_data_than_a_checkpoint_should() -> None:
    callback = keras.callbacks.Callback()
    callback.images = np.zeros(100_001)
    assert "images" not in _attributes(callback)


class Halving(keras.callbacks.Callback):
    """Halves the learning rate that it finds at the start, epoch by epoch."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.base = float(self.model.optimizer.learning_rate)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = self.base * 0.5**epoch

    def get_state(self) -> float:
        return self.base

    def set_state(self, state: float) -> None:
        self.base = state


@pytest.mark.quick
def test_what_on_train_begin_notes_comes_back_by_its_own_state(tmp_path: Path) -> None:
    rates = []
    for name, stops in (("whole", [12]), ("parts", [6, 12])):
        for i, steps in enumerate(stops):
            callbacks = [keras_callback(Halving())]
            run = loop(tmp_path / name, callbacks, num_steps=steps, resume=i > 0)
            run.train()
        rates.append(float(next(iter(run.run.optimizers.values())).learning_rate))
    assert rates[0] == rates[1] < 0.1


@pytest.mark.quick
def test_the_own_state_of_a_callback_of_the_chief_is_nothing_to_others(tmp_path: Path) -> None:
    run = loop(tmp_path, num_steps=3)
    run.workers.index = 1
    adapter: Any = keras_callback(Halving(), chief_only=True).function
    adapter.set_state({"kept": {"own": 0.1}, "attributes": {}})
    adapter.on_train_begin(run)


@pytest.mark.quick
@pytest.mark.parametrize("state", [*KEPT, KEPT])
def test_the_state_of_a_callback_comes_back_with_its_keys_and_tuples(state: Any) -> None:
    given: list[Any] = []
    function = SimpleNamespace(get_state=lambda: state, set_state=given.append)
    restore_state(function, json.loads(json.dumps(state_of(function))))
    assert repr(given) == repr([state])  # which tells types and lengths, too


class Point(NamedTuple):
    """Something that a callback may keep."""

    x: float


class Phase(IntEnum):
    """Something else."""

    WARM_UP = 1


@pytest.mark.quick
@pytest.mark.parametrize(
    "part",
    [Point(1.0), Phase.WARM_UP, Counter("a"), defaultdict(int), np.str_("a"), np.ma.ones(1)],
    ids=lambda part: type(part).__name__,
)
def test_a_state_that_would_come_back_as_another_type_is_refused(part: Any) -> None:
    function = SimpleNamespace(get_state=lambda: {"a": [part]})
    sentence = rf"a checkpoint can't hold: an instance of {type(part).__name__}; return numbers, "
    with pytest.raises(UsageError, match=sentence):
        state_of(function)
    # An attribute of a Keras callback comes back as something, or as what it was made.
    callback = keras.callbacks.Callback()
    callback.kept = part
    assert "kept" in _attributes(callback)


def test_a_run_is_not_resumed_with_other_callbacks(tmp_path: Path) -> None:
    given = keras.callbacks
    loop(tmp_path, [keras_callback(given.EarlyStopping())], num_steps=3).train()
    for other, sentence in (
        ([keras_callback(given.ReduceLROnPlateau())], "returns other callbacks than before"),
        ([], "1 of its callbacks had a state, and now 0 have one"),
    ):
        with pytest.raises(UsageError, match=sentence):
            loop(tmp_path, other, resume=True)


def test_workers_but_the_chief_write_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    given, noting, run = keras.callbacks, Noting(), loop(tmp_path)
    monkeypatch.setattr(type(run.workers), "is_chief", False)
    writers = given.CSVLogger("a.csv"), given.TensorBoard("board"), given.ModelCheckpoint("a.keras")
    run.callbacks = [keras_callback(callback) for callback in (*writers, noting)]
    tell(run.callbacks, "on_train_begin", run)
    run.train()
    assert not {"a.csv", "board", "a.keras"} & {file.name for file in tmp_path.rglob("*")}
    assert len(noting.notes) > EPOCHS


def told_to_stop(run: Loop, validation: int) -> Loop:
    """The run, to which a SIGTERM comes after the first batch of a validation, from 0 on."""
    step = run.evaluation.distributed_validation_step

    def interrupted(iterator: Any, steps: int, sums: Any, first: int = 0) -> Any:
        sums = step(iterator, steps, sums, first)
        if steps and len(run.records.history) == validation:
            assert first == 0  # it must not come to a second batch
            os.kill(os.getpid(), signal.SIGTERM)
        return sums

    run.evaluation.distributed_validation_step = interrupted
    return run


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(
    ("validation", "replicas"),
    [pytest.param(2, 1, marks=pytest.mark.quick), (2, 2), (0, 1), (EPOCHS - 1, 1)],
)
def test_a_validation_that_a_signal_stopped_is_made_again(
    validation: int, replicas: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"replicas": replicas, "max_stop_secs": 1e-9, "log_every_steps": 2}
    whole, rest = NotingBatches(), NotingBatches()
    expected = loop(tmp_path / "whole", [keras_callback(whole)], **settings)
    expected.train()
    run = told_to_stop(
        loop(tmp_path / "run", [keras_callback(NotingBatches())], **settings), validation
    )
    with pytest.raises(SystemExit, match="138"):
        run.train()
    step = 3 * validation + 3
    assert f"interrupted in the validation after step {step}; to" in capsys.readouterr().out
    again = loop(tmp_path / "run", [keras_callback(rest)], resume=True, **settings)
    again.train()
    assert again.records.history == expected.records.history
    assert again.best.row == expected.best.row
    assert again.test() == expected.test()
    for a, b in zip(_bits(again), _bits(expected), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in ("history.csv", "checkpoints/best/ckpt-24.index"):
        assert files_equal(tmp_path / "whole" / name, tmp_path / "run" / name)
    assert rest.notes == whole.notes  # they are in the checkpoint, too
    again.directory.write_results({})
    if again.step == 3 * validation + 3:  # its checkpoint is of before the validation
        third = loop(tmp_path / "run", [keras_callback(NotingBatches())], resume=True, **settings)
        assert not third.makes_steps
        assert not third._under_way  # it was saved again
        assert (tmp_path / "run" / "results.json").exists()


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("keep", [1, 2])
def test_a_kill_while_a_checkpoint_is_replaced_leaves_one(
    keep: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"max_stop_secs": 1e-9, "keep_checkpoints": keep}
    expected = loop(tmp_path / "whole", **settings)
    expected.train()
    with pytest.raises(SystemExit, match="138"):
        told_to_stop(loop(tmp_path / "run", **settings), EPOCHS - 1).train()
    replace, latest = Path.replace, tmp_path / "run" / "checkpoints" / "latest"

    def kill(file: Path, target: Path) -> None:
        if target.parent == latest:
            raise KeyboardInterrupt
        replace(file, target)

    killed = loop(tmp_path / "run", resume=True, **settings)
    monkeypatch.setattr(Path, "replace", kill)
    with pytest.raises(KeyboardInterrupt) if keep > 1 else contextlib.nullcontext():
        killed.train()  # keeps the only one as it is
    monkeypatch.undo()
    again = loop(tmp_path / "run", resume=True, **settings)
    again.train()
    assert again.records.history == expected.records.history
    for a, b in zip(_bits(again), _bits(expected), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("handlers")
def test_a_validation_that_is_made_again_after_a_kill_has_one_row(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_stop_secs": 1e-9}
    expected = loop(tmp_path / "whole", **settings)
    expected.train()
    with pytest.raises(SystemExit, match="138"):
        told_to_stop(loop(tmp_path / "run", **settings), 2).train()
    killed = loop(tmp_path / "run", resume=True, **settings)
    with (
        patch.object(killed, "_run_callbacks", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        killed.train()
    again = loop(tmp_path / "run", resume=True, **settings)
    # Those of step 9 belong to the row that is made again; the checkpoint names the ones before.
    assert again.best.row["step"] == 6
    again.train()
    assert again.best.row == expected.best.row
    assert again.records.history == expected.records.history
    assert files_equal(tmp_path / "whole/history.csv", tmp_path / "run/history.csv")


@pytest.mark.usefixtures("handlers")
def test_other_callbacks_are_called_after_a_validation_that_is_made_again(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_stop_secs": 1e-9}
    called, rarely = list[int](), list[int]()
    often = every_epochs(1, lambda event: called.append(event.step))
    with pytest.raises(SystemExit, match="138"):
        told_to_stop(loop(tmp_path, [often], save_every_epochs=3, **settings), 1).train()
    other = [every_epochs(5, lambda event: rarely.append(event.step)), often]
    loop(tmp_path, other, resume=True, **settings).train()
    assert (called, rarely) == ([3, 6, 9, 12, 15, 18, 21, 24], [15])


def files_equal(one: Path, other: Path) -> bool:
    """Whether two files hold the same, or none of them is there."""
    if not one.exists():
        return not other.exists()
    return one.read_bytes() == other.read_bytes()


@pytest.mark.usefixtures("handlers")
def test_a_stopped_validation_of_a_run_that_a_callback_stopped_is_made_again(
    tmp_path: Path,
) -> None:
    def callbacks(called: list[int]) -> list[Any]:
        return [
            at_step(5, lambda event: event.stop()),
            every_steps(5, lambda event: called.append(event.step)),
            every_validation(lambda event: called.append(-event.step)),
        ]

    whole, first, rest = list[int](), list[int](), list[int]()
    expected = loop(tmp_path / "whole", callbacks(whole), max_stop_secs=1e-9)
    expected.train()
    run = told_to_stop(loop(tmp_path / "run", callbacks(first), max_stop_secs=1e-9), 1)
    with pytest.raises(SystemExit, match="138"):
        run.train()
    again = loop(tmp_path / "run", callbacks(rest), resume=True, max_stop_secs=1e-9)
    again.train()
    assert (whole, first, rest) == ([-3, 5, -5], [-3, 5], [-5])
    assert again.records.history == expected.records.history
    assert again.step == 5
