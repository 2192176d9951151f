"""With `--randomness global_batch` N replicas draw the random numbers that one draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.evaluation import Evaluation
from proof.engine.randomness import Place, drawing_for
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .toys import (
    BATCH,
    CLASSES,
    FEATURES,
    Toy,
    assert_parity,
    differences,
    plain_step,
    several_samples_step,
    train,
)

layers = keras.layers
SIDE = 4


def noisy_model() -> keras.Model:
    """Every kind of layer that draws: a mask, one a channel, noise, a generator of one's own."""

    class Sampling(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.generator = keras.random.SeedGenerator(3)

        def call(self, x: Any) -> Any:
            shape = keras.ops.shape(x)
            drawn = keras.random.gamma(shape, 2.0, seed=self.generator)
            return x + drawn * keras.random.truncated_normal(shape, seed=self.generator)

    x = inputs = keras.Input((FEATURES,))
    x = layers.Dropout(0.3)(layers.Dense(SIDE * SIDE, activation="tanh")(x))
    x = layers.SpatialDropout1D(0.3)(layers.Reshape((SIDE, SIDE))(x))
    x = layers.Flatten()(layers.GaussianNoise(0.5)(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(Sampling()(x)))


def noisy_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Noise from `replica.seed`, and a model that is called with two batches in one."""
    inputs, labels, weights = batch
    noise = tf.random.stateless_normal(inputs.shape, replica.seed, dtype=inputs.dtype)
    both = run.model(tf.concat([inputs, inputs + noise], axis=0), training=True)
    plain, noisy = tf.split(both, 2)
    per_example = run.losses["main"](labels, plain) + run.losses["main"](labels, noisy)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def step_of_frames(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Three frames of each example, merged with the axis of the batch for layers with dropout."""
    inputs, labels, weights = batch
    frames = tf.stack([inputs, 2 * inputs, -inputs], axis=1)  # (batch, frames, features)
    logits = run.model(tf.reshape(frames, (-1, FEATURES)), training=True)
    logits = tf.reduce_mean(tf.reshape(logits, (-1, 3, CLASSES)), axis=1)
    per_example = run.losses["main"](labels, logits)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def forgetful_model(axis: int) -> keras.Model:
    """One that draws for a tensor whose number of rows or columns only a step knows."""

    class Forgetful(layers.Layer):
        def call(self, x: Any) -> Any:
            shape = [None if i == axis else size for i, size in enumerate(x.shape)]
            return tf.compat.v1.placeholder_with_default(x, shape)

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor(x.shape, dtype=x.dtype)

    inputs = keras.Input((FEATURES,))
    x = layers.Dropout(0.3)(Forgetful()(layers.Dense(SIDE, activation="tanh")(inputs)))
    x = layers.GaussianNoise(0.5)(Forgetful()(x))
    return keras.Model(inputs, layers.Dense(CLASSES)(layers.Reshape((SIDE,))(x)))


TASKS = {
    "layers": Toy(noisy_model, metrics=dict),
    "step": Toy(noisy_model, train_steps=(noisy_step,), metrics=dict),
    "frames": Toy(
        lambda: keras.Sequential(
            [
                keras.Input((FEATURES,)),
                layers.Dense(8, activation="tanh"),
                layers.Dropout(0.3),
                layers.Dense(8, activation="tanh"),
                layers.Dropout(0.3),
                layers.Dense(CLASSES),
            ]
        ),
        train_steps=(step_of_frames,),
        metrics=dict,
    ),
    "forgotten rows": Toy(lambda: forgetful_model(0), metrics=dict),
    "forgotten columns": Toy(lambda: forgetful_model(1), metrics=dict),
}
SLOW = ("forgotten rows", "forgotten columns")  # to be traced


@pytest.mark.parametrize(
    ("name", "accumulate"),
    [pytest.param(name, 2, marks=() if name in SLOW else pytest.mark.quick) for name in TASKS]
    + [(name, 1) for name in TASKS],
)
def test_n_replicas_train_like_one_with_random_numbers(name: str, accumulate: int) -> None:
    assert_parity(TASKS[name], steps=6, accumulate=accumulate, randomness="global_batch")


@pytest.mark.parametrize("name", ["step", "frames"])
def test_one_or_two_rows_on_each_replica_draw_like_four_on_one(name: str) -> None:
    """As many as a seed has numbers, and as parts that the step makes of a batch."""
    flags: dict[str, Any] = {"steps": 2, "steps_per_call": 2, "global_batch_size": 4}
    assert_parity(TASKS[name], (2, 4), randomness="global_batch", **flags)


@pytest.mark.quick
def test_two_rows_get_the_same_numbers_though_a_seed_has_two() -> None:
    with drawing_for(Place(2, tf.constant(0), 1, "same_rows")):
        one, other = tf.random.stateless_normal((2, 3), tf.constant([1, 2]))
    np.testing.assert_array_equal(one, other)


def test_otherwise_each_replica_draws_numbers_of_its_own() -> None:
    one, two = (train(TASKS["layers"], n, steps=2, steps_per_call=1) for n in (1, 2))
    assert differences(one, two)["losses"] > 1e-3


def test_numbers_that_are_not_for_rows_are_the_same_on_every_replica() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        scale = 1 + tf.random.stateless_uniform((FEATURES,), replica.seed, dtype=inputs.dtype)
        return plain_step(run, (inputs * scale, labels, weights), replica)

    assert_parity(Toy(train_steps=(step,)), steps=6, randomness="global_batch")


SHAPES = {
    "numbers": lambda x: (4, 3),
    "a tuple": lambda x: (tf.shape(x)[0], 3),
    "a stack": lambda x: tf.stack([tf.shape(x)[0], 3]),
    "parts": lambda x: tf.concat([tf.shape(x)[:-1], [3]], axis=0),
    "a whole shape": tf.shape,
}


@pytest.mark.quick
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_rows_are_seen_in_a_shape_made_from_the_batch(shape: Callable[..., Any]) -> None:
    @tf.function(autograph=False)
    def draw(x: tf.Tensor) -> tf.Tensor:
        with drawing_for(Place(4, tf.constant(1), 2, "global_batch")):
            return tf.random.stateless_uniform(shape(x), [1, 2])

    of_both = tf.random.stateless_uniform((8, 3), [1, 2])
    np.testing.assert_array_equal(draw(tf.zeros((4, 3))), of_both[4:])


@pytest.mark.quick
@pytest.mark.parametrize("shape", [SHAPES["a tuple"], SHAPES["a stack"], SHAPES["a whole shape"]])
def test_rows_whose_number_only_the_step_knows_are_those_of_the_batch_if_they_are_as_many(
    shape: Callable[..., Any],
) -> None:
    @tf.function(autograph=False, input_signature=[tf.TensorSpec((None, 3))])
    def draw(x: tf.Tensor) -> tf.Tensor:
        with drawing_for(Place(4, tf.constant(1), 2, "global_batch")):
            return tf.random.stateless_uniform(shape(x), [1, 2])

    of_both = tf.random.stateless_uniform((8, 3), [1, 2])
    np.testing.assert_array_equal(draw(tf.zeros((4, 3))), of_both[4:])
    of_others = tf.random.stateless_uniform((5, 3), [1, 2])
    np.testing.assert_array_equal(draw(tf.zeros((5, 3))), of_others)


class DropConnect(layers.Layer):
    """Dropout of weights, whose first axis is as long as a batch of several replicas."""

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], CLASSES))
        self.generator = keras.random.SeedGenerator(3)

    def call(self, x: Any) -> Any:
        return x @ keras.random.dropout(2 * self.kernel, 0.3, seed=self.generator)


def test_weights_as_long_as_the_batch_are_not_taken_for_its_rows() -> None:
    def model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        return keras.Model(inputs, DropConnect()(layers.Dense(BATCH, activation="tanh")(inputs)))

    assert_parity(Toy(model), randomness="global_batch")


class Queries(layers.Layer):
    """Learned queries, repeated for each row, with dropout, such as those of a decoder."""

    def build(self, shape: Any) -> None:
        self.queries = self.add_weight(name="queries", shape=(CLASSES,))
        self.generator = keras.random.SeedGenerator(3)

    def call(self, x: Any) -> Any:
        repeated = tf.tile(self.queries[tf.newaxis], [tf.shape(x)[0], 1])
        return x + keras.random.dropout(repeated, 0.3, seed=self.generator)


def test_a_weight_that_is_repeated_for_each_row_has_rows() -> None:
    def model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        return keras.Model(inputs, Queries()(layers.Dense(CLASSES)(inputs)))

    assert_parity(Toy(model), randomness="global_batch")


@pytest.mark.quick
def test_the_rows_may_be_along_another_axis() -> None:
    @tf.function(autograph=False)
    def draw(shape: Any) -> tf.Tensor:
        with drawing_for(Place(4, tf.constant(1), 2, "global_batch")):
            return tf.random.stateless_normal(shape, [1, 2])

    of_both = tf.random.stateless_normal((8, 5, 3), [1, 2])
    samples = draw((5, 4, 3))  # five for each row
    np.testing.assert_array_equal(samples, tf.transpose(of_both[4:], [1, 0, 2]))
    # Not those of a distribution for each number, which may be for anything.
    with drawing_for(Place(4, tf.constant(1), 2, "global_batch")):
        spread = tf.random.stateless_normal((5, 4), [1, 2], stddev=tf.ones(4))
    np.testing.assert_array_equal(spread, tf.random.stateless_normal((5, 4), [1, 2]))


def test_n_replicas_train_like_one_with_several_samples_of_each_row() -> None:
    toy = Toy(train_steps=(several_samples_step,), metrics=dict)
    assert_parity(toy, steps=6, randomness="global_batch")


def drawn(name: str, dtype: str) -> tf.Tensor:
    """Numbers for a batch of 4 rows, or a batch of ones with dropout, float64 (4, 8)."""
    with drawing_for(Place(4, tf.constant(0), 1, "global_batch")):
        if name == "dropout":
            numbers = keras.random.dropout(tf.ones((4, 8), dtype), 0.5, seed=1)
        else:
            numbers = getattr(keras.random, name)((4, 8), dtype=dtype, seed=1)
    assert numbers.dtype == dtype
    return tf.cast(numbers, tf.float64)


@pytest.mark.quick
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal", "dropout"])
def test_in_16_bits_the_same_numbers_are_drawn(name: str, half: str) -> None:
    wanted = tf.cast(tf.cast(drawn(name, "float32"), half), tf.float64)
    tf.debugging.assert_equal(drawn(name, half), wanted)


class NoisyCell(layers.Layer):
    """What an RNN calls once for each position: adds noise to the inputs, and a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 1
        self.generator = keras.random.SeedGenerator(3)

    def call(self, x: Any, states: Any) -> Any:
        noise = keras.random.normal(keras.ops.shape(x), seed=self.generator)
        return x + noise + keras.random.normal(keras.ops.shape(x), seed=self.generator), states


class NoisyMap(layers.Layer):
    """Adds noise to each position in turn; unlike an RNN it isn't called outside of its loop."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(3)

    def call(self, x: Any) -> Any:
        def noisy(position: tf.Tensor) -> tf.Tensor:
            return position + keras.random.normal(keras.ops.shape(position), seed=self.generator)

        return tf.transpose(tf.map_fn(noisy, tf.transpose(x, (1, 0, 2))), (1, 0, 2))

    def compute_output_shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return shape


def looping_model() -> keras.Model:
    """(batch, FEATURES) -> logits, and the noise of each position by two layers called twice."""
    inputs = keras.Input((FEATURES,))
    x = layers.Reshape((FEATURES, 1))(0.0 * inputs)
    rnn, each = layers.RNN(NoisyCell(), return_sequences=True), NoisyMap()
    noise = layers.Concatenate(axis=-1)([rnn(x), rnn(x), each(x), each(x)])  # (batch, positions, 4)
    logits = layers.Dense(CLASSES)(layers.Flatten()(noise))
    return keras.Model(inputs, {"logits": logits, "noise": noise})


def looping_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    outputs = run.model(inputs, training=True)
    numbers = tf.reshape(outputs["noise"], (inputs.shape[0], -1))
    alike = tf.abs(numbers[:, :, tf.newaxis] - numbers[:, tf.newaxis]) < 1e-6
    # How many of an example's numbers each is equal to: only to itself.
    run.metrics["alike"].update_state(tf.reduce_sum(tf.cast(alike, tf.float64), -1), weights)
    per_example = run.losses["main"](labels, outputs["logits"])
    return {"main": compute_loss(per_example, weights, run.model, replica)}


LOOPING = Toy(
    looping_model,
    train_steps=(looping_step,),
    metrics=lambda: {"alike": keras.metrics.Mean()},
)


@pytest.mark.quick
@pytest.mark.parametrize("jit", ["off", "on"])
def test_each_round_of_a_loop_draws_its_own_numbers(jit: str) -> None:
    trained = train(LOOPING, jit=jit)
    assert trained.run.metric_results()["alike"] == 1
    results = Evaluation(trained.run, LOOPING.splits, trained.steps.layout).evaluate("train")
    assert results["train_alike"] == 1


@pytest.mark.quick
def test_loops_draw_the_same_on_one_replica_and_on_two() -> None:
    assert_parity(LOOPING, randomness="global_batch")
