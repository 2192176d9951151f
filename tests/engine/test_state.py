"""What differs between replicas, what must not, and what a skipped step leaves alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.callbacks import Callback, Event, at_step
from proof.engine.checkpoints import BestWeights, Checkpoints
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.outside import SMALL, Outside
from proof.engine.types import Replica, Run

from .test_loop import loop
from .toys import (
    BATCH,
    CLASSES,
    FEATURES,
    Toy,
    Trained,
    assert_parity,
    build,
    plain_data,
    plain_step,
    step_of_task,
    train,
)

layers = keras.layers


def model_with(*middle: Callable[[], keras.layers.Layer]) -> Callable[[], keras.Model]:
    """The default toy with layers in its middle."""

    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        x = layers.Dense(4, activation="tanh")(x)
        for layer in middle:
            x = layer()(x)
        return keras.Model(inputs, layers.Dense(CLASSES)(x))

    return model


NORMALIZED = Toy(model_with(layers.BatchNormalization), lambda: keras.optimizers.Adam(0.01))
DROPOUT = Toy(model_with(lambda: layers.Dropout(0.5)))


@pytest.mark.quick
def test_batch_normalization_takes_its_statistics_over_all_replicas() -> None:
    one = assert_parity(NORMALIZED)  # on full batches
    assert any(np.any(v != v.round()) for v in one.state)  # the moving statistics moved


def test_moving_statistics_are_the_same_on_every_replica() -> None:
    trained = train(NORMALIZED, 4)
    for variable in trained.run.model.non_trainable_variables:
        copies = [v.numpy() for v in variable.value.values]
        for copy in copies[1:]:
            np.testing.assert_array_equal(copy, copies[0])


def test_batch_normalization_with_a_mask_takes_its_statistics_over_all_replicas() -> None:
    """Of the words of sentences that are more or less padded, so that replicas have fewer."""

    def model() -> keras.Model:
        x = words = keras.Input((6,))
        x = layers.Embedding(9, 4, mask_zero=True)(x)
        x = layers.GlobalAveragePooling1D()(layers.BatchNormalization()(x))
        return keras.Model(words, layers.Dense(CLASSES)(x))

    random = np.random.default_rng(0)
    lengths = np.sort(random.integers(1, 7, 48))
    words = np.where(np.arange(6) < lengths[:, np.newaxis], random.integers(1, 9, (48, 6)), 0)
    assert_parity(Toy(model, data=(words, lengths % CLASSES)))


def test_batch_normalization_of_a_mean_far_above_the_spread_is_that_of_one_replica() -> None:
    """As of air pressure in Pa: in float32 its square has no digits left for the spread."""

    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, layers.Dense(CLASSES)(layers.BatchNormalization(momentum=0.5)(x)))

    inputs, labels = plain_data()
    pressures = 1e5 + 30 * (inputs - inputs.mean(0)) / inputs.std(0)
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    toy = Toy(model, data=(pressures, labels))
    one, two = (train(toy, n, precision="float32", steps=5) for n in (1, 2))
    for a, b in zip(one.state, two.state, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4)
    for a, b in zip(one.weights, two.weights, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-3)


def test_batch_normalization_of_one_channel_along_another_axis() -> None:
    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        x = layers.BatchNormalization(axis=1)(layers.Reshape((1, FEATURES))(x))
        return keras.Model(inputs, layers.Dense(CLASSES)(layers.Flatten()(x)))

    assert_parity(Toy(model), (2,))


def test_synchronized_batch_normalization_works_outside_of_replicas_too() -> None:
    """As where a callback calls the model."""
    one, two, (inputs, _) = build(NORMALIZED).run, build(NORMALIZED, 2).run, plain_data()
    with two.strategy.scope():
        outputs = two.model(inputs, training=True)
    np.testing.assert_allclose(outputs, one.model(inputs, training=True))


class Small(layers.Layer):  # type: ignore[misc]
    """Adds a loss of its outputs."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.add_loss(tf.reduce_mean(tf.square(x)))
        return x


def test_losses_of_layers_before_a_synchronized_one_count_on_every_replica() -> None:
    assert_parity(Toy(model_with(Small, layers.BatchNormalization)), (2,))


class Remembers(layers.Layer):  # type: ignore[misc]
    """Keeps its outputs as an attribute, as layers of attention maps or of a KL term do."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.made = x
        return x


def test_what_a_layer_keeps_is_that_of_its_own_replica() -> None:
    """A synchronized layer behind it waits until the other replicas are traced up to there."""

    line = "predictions *= tf.reduce_sum(run.model.get_layer('own').made ** 2, 1, keepdims=True)"
    step = step_of_task(line)
    own = partial(Remembers, name="own")
    toy = Toy(model_with(own, layers.BatchNormalization), train_steps=(step,))
    assert_parity(toy, (2, 4))


def test_batch_normalization_is_synchronized_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    build(NORMALIZED, 2)
    assert "synchronized over the replicas: batch_normalization" in capsys.readouterr().out
    build(NORMALIZED, 1)
    assert capsys.readouterr().out == ""


def test_padding_in_statistics_is_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    for last_batch, toy, is_mentioned in (
        ("pad", NORMALIZED, True), ("span", NORMALIZED, False), ("pad", DROPOUT, False)
    ):  # fmt: skip
        build(replace(toy, data=plain_data(BATCH + 7)), last_batch=last_batch)
        said = f"last batch has {BATCH - 7} rows of padding" in capsys.readouterr().out
        assert said == is_mentioned


def test_random_numbers_of_each_replica_are_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    for replicas, randomness, is_mentioned in (
        (1, "replica", False), (2, "replica", True), (2, "global_batch", False)
    ):  # fmt: skip
        build(DROPOUT, replicas, randomness=randomness)
        assert ("differ between replicas" in capsys.readouterr().out) == is_mentioned


def _masks(replicas: int, step: int, accumulate: int = 1) -> list[float]:
    """A number for each replica's dropout mask in a step; those of its micro-batches are added."""

    def model() -> keras.Model:
        x = keras.Input((64,))
        return keras.Model(x, layers.Dense(1)(layers.Dropout(0.5, name="dropout")(x)))

    def step_function(run: Any, batch: Any, replica: Any) -> dict[str, tf.Tensor]:
        del replica
        masked = run.model.get_layer("dropout")(tf.ones_like(batch[0]), training=True)
        # A sum of different numbers, one for each feature that was not left out.
        numbers = 2.0 ** tf.range(0.0, 32.0, 0.5, tf.float64)
        run.metrics["mask"].update_state(tf.reduce_sum(tf.sign(masked[0]) * numbers))
        return {"main": tf.reduce_mean(run.model(batch[0]) * 0.0)}

    toy = Toy(
        model, data=(np.ones((48, 64)), np.zeros(48)), train_steps=(step_function,), losses=dict,
        metrics=lambda: {"mask": keras.metrics.Mean()},
    )  # fmt: skip
    built = build(toy, replicas, accumulate=accumulate)
    progress = built.steps.start()._replace(step=tf.constant(step, tf.int64))
    progress = built.steps.distributed_train_step(built.iterator(0, 1), 1, progress)
    return [copy.numpy() for copy in built.run.metrics["mask"].total.value.values]


def test_dropout_masks_differ_between_replicas_and_steps() -> None:
    masks = [*_masks(4, step=0), *_masks(4, step=1)]
    assert len(set(masks)) == 8


def test_dropout_masks_differ_between_micro_batches() -> None:
    first, second, third, fourth = _masks(4, step=0)
    assert _masks(2, step=0, accumulate=2) == [first + second, third + fourth]


def test_dropout_masks_can_be_made_again_from_the_step_alone() -> None:
    assert _masks(2, step=7) == _masks(2, step=7)


@pytest.mark.quick
def test_dropout_resumes_with_the_same_masks() -> None:
    whole = train(DROPOUT, 2, steps=6, steps_per_call=3)
    halves = train(DROPOUT, 2, steps=3, steps_per_call=3)
    other = build(DROPOUT, 2)  # like a new process: new variables, new random states
    for new, old in zip(
        other.run.model.trainable_variables, halves.run.model.trainable_variables, strict=True
    ):
        new.assign(old.numpy())
    progress = other.steps.distributed_train_step(other.iterator(3, 6), 3, halves.progress)
    np.testing.assert_array_equal(progress.latest.losses, whole.progress.latest.losses)
    for new, value in zip(other.run.model.trainable_variables, whole.weights, strict=True):
        np.testing.assert_array_equal(new.numpy(), value)


def test_with_dropout_replicas_are_not_one() -> None:
    """If they were, the other tests of dropout would prove nothing."""
    assert train(DROPOUT, 1).weights[0].sum() != train(DROPOUT, 2).weights[0].sum()


def poisoned(row: int = 7) -> tuple[np.ndarray, ...]:
    """The default data with one example that isn't finite."""
    inputs, labels = plain_data()
    inputs[row] = np.nan
    return inputs, labels


BAD = Toy(model_with(layers.BatchNormalization), lambda: keras.optimizers.Adam(0.01), poisoned())


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_not_finite_leaves_everything_as_it_was(replicas: int) -> None:
    built = build(BAD, replicas)
    iterator = built.iterator(0, 2)
    progress, skipped = built.steps.start(), 0
    for step in range(2):  # the bad example is in one of the two batches
        before = Trained(built, progress, []).everything()
        progress = built.steps.distributed_train_step(iterator, 1, progress)
        after = Trained(built, progress, []).everything()
        same = all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        assert same == (int(progress.skips.total) > skipped)
        if same:
            assert int(progress.skips.last_step) == step
            assert not np.isfinite(progress.skips.last_losses).any()
        skipped = int(progress.skips.total)
    assert (int(progress.step), skipped, int(progress.sums.counts[0])) == (2, 1, 24)


def test_skipped_steps_are_the_same_on_any_number_of_replicas() -> None:
    one = assert_parity(BAD, steps=8, steps_per_call=4)
    assert int(one.progress.skips.total) == 4


@pytest.mark.parametrize("allowed", [0, 3])
def test_a_call_ends_after_more_than_max_skipped_steps_in_a_row(allowed: int) -> None:
    toy = Toy(data=(np.full((48, FEATURES), np.nan), np.zeros(48, int)))
    for replicas in (1, 2):
        trained = train(toy, replicas, steps=20, steps_per_call=20, max_skipped_steps=allowed)
        assert int(trained.progress.step) == allowed + 1
        assert int(trained.progress.skips.in_a_row) == allowed + 1


def test_a_good_step_starts_the_row_anew() -> None:
    trained = train(BAD, 2, steps=20, steps_per_call=20, max_skipped_steps=2)
    assert int(trained.progress.step) == 20


def clipping_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A train step of a Wasserstein critic."""
    for variable in run.model.trainable_variables:
        variable.assign(keras.ops.clip(variable, -0.05, 0.05))
    return plain_step(run, batch, replica)


@pytest.mark.parametrize(
    "flags", [{}, pytest.param({"accumulate": 2}, marks=pytest.mark.quick), {"jit": "on"}]
)
def test_what_a_step_assigns_to_trained_weights_stays(flags: dict[str, Any]) -> None:
    still = Toy(optimizer=lambda: keras.optimizers.SGD(0.0), train_steps=(clipping_step,))
    for replicas in (1, 2):
        largest = max(np.abs(w).max() for w in train(still, replicas, steps=5, **flags).weights)
        assert largest == pytest.approx(0.05)
    moved = assert_parity(Toy(train_steps=(clipping_step,)), **flags)
    assert max(np.abs(w).max() for w in moved.weights) > 0.05  # by the update after it


def test_spectral_normalization_divides_the_weights_that_are_kept() -> None:
    toy = Toy(
        model_with(lambda: layers.SpectralNormalization(layers.Dense(4), power_iterations=9)),
        lambda: keras.optimizers.SGD(1e-3),
    )
    kernel = assert_parity(toy).run.model.layers[2].layer.kernel
    assert np.linalg.norm(kernel.numpy(), 2) == pytest.approx(1, abs=0.01)


def test_evaluation_assigns_no_weights() -> None:
    toy = Toy(train_steps=(clipping_step,), others={"validation": plain_data()})
    built = build(toy)
    before = [v.numpy() for v in built.run.trainable_variables]
    Evaluation(built.run, toy.splits, built.steps.layout).evaluate("validation")
    for a, b in zip(before, built.run.trainable_variables, strict=True):
        np.testing.assert_array_equal(a, b.numpy())


def test_a_frozen_layer_stays_put_and_the_others_go_on() -> None:
    for replicas in (1, 2):
        trained = train(Toy(), replicas, steps=5)
        model = trained.run.model
        model.get_layer("hidden").trainable = False
        frozen, free = model.get_layer("hidden").get_weights(), model.get_layer("logits")
        before = free.get_weights()
        iterator = trained.built.iterator(5, 9)
        progress = trained.steps.distributed_train_step(iterator, 2, trained.progress)
        for a, b in zip(frozen, model.get_layer("hidden").get_weights(), strict=True):
            np.testing.assert_array_equal(a, b)
        assert not np.array_equal(before[0], free.get_weights()[0])
        assert trained.steps.num_traces() == 2
        model.get_layer("hidden").trainable = True
        trained.steps.distributed_train_step(iterator, 2, progress)
        assert not np.array_equal(frozen[0], model.get_layer("hidden").get_weights()[0])
        assert trained.steps.num_traces() == 2  # this set of variables was traced before


@pytest.mark.parametrize("jit", ["off", "on"])
def test_freezing_one_layer_and_then_its_twin_trains_the_right_one(jit: str) -> None:
    """The two sets of trainable variables have the same shapes: a trace must not be mixed up."""

    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        for name in ("first", "second"):
            x = layers.Dense(FEATURES, activation="tanh", name=name)(x)
        return keras.Model(inputs, layers.Dense(CLASSES)(x))

    toy = Toy(model)
    after = []
    for once in (False, True):
        built = build(toy, 1, jit=jit)
        iterator, progress = built.iterator(0, 2), built.steps.start()
        layer = built.run.model.get_layer
        if not once:
            layer("first").trainable = False
            built.steps.distributed_train_step(iterator, 1, progress)
            layer("first").trainable = True
            built.run.model.set_weights(build(toy, 1).run.model.get_weights())
            iterator = built.iterator(0, 2)
        layer("second").trainable = False
        built.steps.distributed_train_step(iterator, 1, progress)
        after.append(built.run.model.get_weights())
    for a, b in zip(*after, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def _statistics() -> keras.Model:
    x = keras.Input((FEATURES,))
    normal = layers.BatchNormalization(center=False, scale=False, name="normal")
    return keras.Model(x, layers.Dense(CLASSES)(normal(x)))


@pytest.mark.parametrize("jit", ["off", "on"])
def test_a_frozen_layer_without_trainable_variables_stays_put(jit: str) -> None:
    trained = train(Toy(_statistics), steps=2, steps_per_call=1, jit=jit)
    layer = trained.run.model.get_layer("normal")
    layer.trainable = False
    before = layer.get_weights()
    trained.steps.distributed_train_step(trained.built.iterator(2, 3), 1, trained.progress)
    for a, b in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_layer_that_writes_to_its_weights_can_be_frozen() -> None:
    normalized = model_with(lambda: layers.SpectralNormalization(layers.Dense(4), name="spectral"))
    for replicas in (1, 2):
        trained = train(Toy(normalized), replicas, steps=2, steps_per_call=1)
        trained.run.model.get_layer("spectral").trainable = False
        iterator = trained.built.iterator(2, 3)
        progress = trained.steps.distributed_train_step(iterator, 1, trained.progress)
        assert int(progress.step) == 3


def assert_resumed_alike(
    path: Path,
    first: int,
    last: int,
    made: Callable[[], tuple[Toy, list[Callback]]],
    replicas: int,
    flags: dict[str, int] | None = None,
) -> None:
    """Train to the last step at once, and in two parts: the same bits."""
    ends = []
    for name, stops in (("whole", [last]), ("parts", [first, last])):
        for i, steps in enumerate(stops):
            toy, callbacks = made()
            settings: dict[str, Any] = {"flags": flags, "num_steps": steps, "resume": i > 0}
            run = loop(path / name, callbacks, replicas, toy, **settings)
            run.train()
        ends.append(run.run.model.get_weights())
    for a, b in zip(*ends, strict=True):
        np.testing.assert_array_equal(a, b)


class Average(keras.layers.Layer):
    """Keeps a moving mean of what it sees, and takes it off."""

    def __init__(self, over_replicas: bool) -> None:
        super().__init__(name="average")
        self.over_replicas = over_replicas

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.ema = self.add_weight(
            shape=shape[1:], initializer="zeros", trainable=False, name="ema"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        mean = tf.reduce_mean(x, axis=0)
        if self.over_replicas and context is not None:
            mean = context.all_reduce("mean", tf.stop_gradient(mean))
        self.ema.assign(0.9 * self.ema + 0.1 * mean)
        return x - self.ema


@pytest.mark.parametrize(("replicas", "accumulate"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("over_replicas", [False, True])
def test_what_each_replica_assigns_otherwise_is_named_and_resumed(
    over_replicas: bool,
    replicas: int,
    accumulate: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    toy = Toy(model_with(lambda: Average(over_replicas)))
    assert_resumed_alike(tmp_path, 4, 8, lambda: (toy, []), replicas, {"accumulate": accumulate})
    said = "average/ema: each replica assigns other values" in capsys.readouterr().out
    assert said == (replicas > 1 and not over_replicas)


def test_what_replicas_assign_almost_alike_is_resumed_to_the_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Drifting(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: tuple[int | None, ...]) -> None:
            self.drift = self.add_weight(
                shape=shape[1:], initializer="ones", trainable=False, name="drift"
            )

        def call(self, x: tf.Tensor) -> tf.Tensor:
            self.drift.assign_add(1e-7 * tf.reduce_mean(x, axis=0))
            return x * self.drift

    toy = Toy(model_with(lambda: Drifting(name="drifting")))
    assert_resumed_alike(tmp_path, 4, 9, lambda: (toy, []), 2)
    assert "each replica assigns other values" not in capsys.readouterr().out


def test_what_replicas_assign_alike_is_neither_copied_nor_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, by_replica = [], Checkpoints._by_replica

    def recorded(self: Any, variables: Any) -> Any:
        asked.extend(variable.path for variable in variables)
        return by_replica(self, variables)

    monkeypatch.setattr(Checkpoints, "_by_replica", recorded)
    for over_replicas in (True, False):
        toy = Toy(model_with(lambda over=over_replicas: Average(over)))
        loop(tmp_path / str(over_replicas), replicas=2, toy=toy, num_steps=2).train()
        assert ("average/ema" in asked) == (not over_replicas)


def _outside(kind: str) -> tuple[Toy, Callable[[float], None]]:
    """A toy whose steps read a variable that no model has, made anew, and a function to set it."""
    make = keras.Variable if kind == "keras" else tf.Variable
    made: list[Any] = [make(1.0)]  # outside of the strategy's scope

    class Schedule(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        def __init__(self) -> None:
            self.factor = make(1.0)  # of the same name
            made.append(self.factor)

        def __call__(self, step: Any) -> tf.Tensor:
            return 0.1 * tf.cast(self.factor, tf.float32)

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        losses = plain_step(run, batch, replica)
        return {name: loss * tf.cast(made[0], loss.dtype) for name, loss in losses.items()}

    def set_all(value: float) -> None:
        for i, variable in enumerate(made):
            variable.assign(value + i)

    toy = Toy(optimizer=lambda: keras.optimizers.SGD(Schedule()), train_steps=(step,))
    return toy, set_all


@pytest.mark.parametrize("kind", ["keras", "tf"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_what_callbacks_change_outside_of_models_is_resumed(
    replicas: int, kind: str, tmp_path: Path
) -> None:
    def made() -> tuple[Toy, list[Callback]]:
        toy, set_all = _outside(kind)
        return toy, [at_step(2, lambda event: set_all(0.25))]  # in the first part alone

    assert_resumed_alike(tmp_path, 4, 9, made, replicas)


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_callbacks_set_before_the_first_trace_is_resumed(
    replicas: int, tmp_path: Path
) -> None:
    def made() -> tuple[Toy, list[Callback]]:
        toy, set_all = _outside("tf")
        return toy, [at_step(0, lambda event: set_all(0.25))]  # not called again on resume

    assert_resumed_alike(tmp_path, 4, 9, made, replicas)


def test_a_table_that_a_callback_sets_before_the_first_trace_is_resumed(tmp_path: Path) -> None:
    def made() -> tuple[Toy, list[Callback]]:
        table = tf.Variable(tf.zeros(2 * SMALL), trainable=False)

        def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            losses = plain_step(run, batch, replica)
            return {name: loss * tf.cast(table[7], loss.dtype) for name, loss in losses.items()}

        set_table = at_step(0, lambda event: table.assign(tf.ones_like(table)))
        return Toy(train_steps=(step,)), [set_table]

    assert_resumed_alike(tmp_path, 4, 9, made, 1)


def test_what_callbacks_set_before_a_checkpoint_of_no_step_is_resumed(tmp_path: Path) -> None:
    ends = []
    for name, stops in (("whole", [9]), ("parts", [0, 9])):
        for i, steps in enumerate(stops):
            toy, set_all = _outside("tf")

            def set_and_save(event: Event, set_all: Callable[[float], None] = set_all) -> None:
                set_all(0.25)
                event.save()

            callbacks = [at_step(0, set_and_save)]
            run = loop(tmp_path / name, callbacks, toy=toy, num_steps=steps or 9, resume=i > 0)
            if steps:
                run.train()
        ends.append([v.numpy() for v in run.run.trainable_variables])
    for a, b in zip(*ends, strict=True):
        np.testing.assert_array_equal(a, b)


class Annealing(keras.regularizers.Regularizer):
    """L2 whose strength a callback lowers."""

    def __init__(self) -> None:
        self.strength = tf.Variable(1e-2, trainable=False)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return tf.cast(self.strength, x.dtype) * tf.reduce_sum(tf.square(x))


@pytest.mark.parametrize("frozen_at", [0, 2])
def test_what_a_frozen_layer_is_regularized_by_is_resumed(frozen_at: int, tmp_path: Path) -> None:
    def made() -> tuple[Toy, list[Callback]]:
        annealing = Annealing()

        def model() -> keras.Model:
            x = keras.Input((FEATURES,))
            hidden = keras.layers.Dense(4, kernel_regularizer=annealing, name="hidden")(x)
            return keras.Model(x, keras.layers.Dense(CLASSES, name="logits")(hidden))

        def freeze(event: Event) -> None:
            event.run.model.get_layer("hidden").trainable = False

        def anneal(event: Event) -> None:
            annealing.strength.assign(0.5)

        def unfreeze(event: Event) -> None:
            event.run.model.get_layer("hidden").trainable = True

        callbacks = [at_step(frozen_at, freeze), at_step(3, anneal), at_step(6, unfreeze)]
        return Toy(model), callbacks

    assert_resumed_alike(tmp_path, 4, 9, made, 1)


def _annealed() -> tuple[Toy, list[Callback]]:
    """A toy whose validation and test steps read what its train steps don't."""
    # Unlike in a train step alone, both have the same name.
    sharpness, cut = tf.Variable(1.0), tf.Variable(1.0)

    def scaled(*factors: tf.Variable) -> Callable[..., dict[str, tf.Tensor]]:
        def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            losses = plain_step(run, batch, replica)
            for factor in factors:
                losses = {n: loss * tf.cast(factor, loss.dtype) for n, loss in losses.items()}
            return losses

        return step

    def set_both(event: Event) -> None:
        del event
        sharpness.assign(0.5)
        cut.assign(0.25)

    toy = Toy(
        train_steps=(scaled(sharpness),),
        validation_step=scaled(cut, sharpness),
        others={"validation": plain_data(), "test": plain_data()},
    )
    return toy, [at_step(2, set_both)]


@pytest.mark.parametrize("last", [4, 8])
def test_what_evaluation_alone_reads_is_resumed_too(last: int, tmp_path: Path) -> None:
    # With 4 the run was killed in its test: no step is left to make.
    results = []
    for name, stops in (("whole", [last]), ("parts", [4, last])):
        for i, steps in enumerate(stops):
            toy, callbacks = _annealed()
            run = loop(tmp_path / name, callbacks, toy=toy, num_steps=steps, resume=i > 0)
            run.train()
        results.append(run.test()["test_loss"])
    assert results[0] == results[1]


def test_the_best_weights_come_with_what_evaluation_read_then(tmp_path: Path) -> None:
    # `evaluate` gives what the test of train.py gave, though a callback changed it afterwards.
    toy, callbacks = _annealed()
    run = loop(tmp_path, callbacks, toy=toy, num_steps=4, monitor="validation_loss")
    run.train()
    tested = run.test()["test_loss"]
    toy, _ = _annealed()
    built, outside = build(toy), Outside()
    assert BestWeights(run.best.directory, built.run, outside).restore()
    assert outside.is_waiting
    evaluation = Evaluation(built.run, toy.splits, built.steps.layout)
    evaluation.trace()
    graph = built.steps.graph(built.iterator(0, 0), built.steps.start())
    outside.find(built.run, [graph, *evaluation.graphs])
    assert not outside.is_waiting
    assert evaluation.evaluate("test")["test_loss"] == tested


@pytest.mark.parametrize("sequential", [True, False])
@pytest.mark.parametrize("in_model", [True, False])
def test_a_model_that_reads_what_is_no_weight_is_not_predicted_without_its_steps(
    in_model: bool, sequential: bool, tmp_path: Path
) -> None:
    gain = tf.Variable(1.0)

    class Gained(layers.Layer):  # type: ignore[misc]
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return x * tf.cast(gain, x.dtype)

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        losses = plain_step(run, batch, replica)
        return {name: loss * tf.cast(gain, loss.dtype) for name, loss in losses.items()}

    def model() -> keras.Model:
        made = model_with(Gained if in_model else layers.Identity)()
        return keras.Sequential([keras.Input((FEATURES,)), made]) if sequential else made

    toy = Toy(model) if in_model else Toy(model, train_steps=(step,))
    run = loop(tmp_path, [at_step(1, lambda event: gain.assign(0.5))], toy=toy, num_steps=4)
    run.train()
    built, outside = build(toy), Outside()
    assert BestWeights(run.best.directory, built.run, outside).restore()
    outside.require_weights(built.run)  # its value is still that of training
    gain.assign(1.0)  # as in another process; another one that was saved may have this value
    outside.restore(outside._restored | {"other": 1.0})
    refused = pytest.raises(UsageError, match="reads the variable Variable, which")
    with refused if in_model else contextlib.nullcontext():
        outside.require_weights(built.run)


def test_variables_of_every_kind_of_number_are_kept(tmp_path: Path) -> None:
    kinds = [tf.int8, tf.uint8, tf.uint64, tf.bfloat16, tf.bool]

    def made() -> tuple[Toy, list[Callback]]:
        variables = [tf.Variable(tf.cast(0, kind)) for kind in kinds]

        def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            losses = plain_step(run, batch, replica)
            factor = tf.add_n([tf.cast(v, losses["main"].dtype) for v in variables])
            return {name: loss * factor for name, loss in losses.items()}

        def set_all(event: Event) -> None:
            del event
            for variable in variables:
                variable.assign(tf.cast(1, variable.dtype))

        return Toy(train_steps=(step,)), [at_step(0, set_all)]

    assert_resumed_alike(tmp_path, 4, 9, made, 1)
