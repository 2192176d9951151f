"""What has a graph or a gradient of its own inside a step trains as if it had none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from proof.engine.evaluation import Evaluation

from .toys import CLASSES, FEATURES, Toy, differences, plain_data, plain_step, train

layers = keras.layers


class Block(layers.Layer):
    """(batch, 5) -> (batch, 4), with weights, statistics and dropout."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        super().__init__(name="block")
        self.dense, self.normalize = layers.Dense(4, "tanh"), layers.BatchNormalization()
        self.drop = layers.Dropout(0.3, seed=1)
        self.inner = wrapped(self.compute)

    def build(self, shape: tuple[Any, ...]) -> None:
        self.dense.build(shape)
        self.normalize.build((*shape[:-1], 4))
        self.built = True

    def compute(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        x = self.normalize(self.dense(x), training=training)
        return self.drop(x, training=training)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.inner(x, training=training)

    def compute_output_shape(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*shape[:-1], 4)


class Subclassed(keras.Model):
    """One that is compiled as a whole."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        super().__init__(name="subclassed")
        self.block, self.logits = Block(lambda call: call), layers.Dense(CLASSES)
        self.inner = wrapped(self.compute)

    def compute(self, x: tf.Tensor, training: bool) -> tf.Tensor:
        return self.logits(self.block(x, training=training))

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        return self.inner(x, training=training)


def functional(wrapped: Callable[[Any], Any]) -> keras.Model:
    x = keras.Input((FEATURES,))
    return keras.Model(x, layers.Dense(CLASSES)(Block(wrapped)(x)))


def subclassed(wrapped: Callable[[Any], Any]) -> keras.Model:
    model = Subclassed(wrapped)
    model(tf.zeros((2, FEATURES), keras.config.floatx()))
    return model


@pytest.mark.parametrize("model", [functional, subclassed])
@pytest.mark.parametrize("wrapped", [tf.function, keras.remat, tf.recompute_grad])
@pytest.mark.parametrize(
    ("replicas", "flags"),
    [(1, {}), (2, {}), (2, {"accumulate": 2}), (1, {"jit": "on"})],
    ids=["one", "two", "accumulate", "jit"],
)
def test_it_trains_and_evaluates_like_plain_code(
    model: Callable[..., keras.Model],
    wrapped: Callable[[Any], Any],
    replicas: int,
    flags: dict[str, Any],
) -> None:
    found = []
    for each in (lambda call: call, wrapped):
        trained = train(Toy(lambda each=each: model(each)), replicas, **flags)  # type: ignore[misc]
        validation = Evaluation(trained.run, {"validation": plain_data()}, trained.steps.layout)
        found.append((trained, validation.evaluate("validation")))
    (plain, expected), (inner, evaluated) = found
    assert max(differences(plain, inner).values()) < 1e-12
    assert evaluated == pytest.approx(expected, rel=1e-12)
    assert not tf.config.functions_run_eagerly()


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_decorated(replicas: int) -> None:
    plain = train(Toy(), replicas)
    decorated = train(Toy(train_steps=(tf.function(plain_step),)), replicas)
    assert max(differences(plain, decorated).values()) == 0


@pytest.mark.quick
def test_recomputing_outside_of_a_step_is_tensorflows() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tf.recompute_grad(lambda factor: factor * x * x)(tf.constant(2.0))
    assert float(tape.gradient(y, x)) == 12


def test_many_derivatives_at_once_inside_a_step() -> None:
    def step(run: Any, batch: Any, replica: Any) -> Any:
        inputs, _, _ = batch
        squares = tf.vectorized_map(lambda row: tf.reduce_sum(row * row), inputs)
        losses = plain_step(run, batch, replica)
        return {"main": losses["main"] + 0 * tf.reduce_sum(squares)}

    one, two = (train(Toy(train_steps=(step,)), replicas) for replicas in (1, 2))
    assert max(differences(one, two).values()) < 1e-12
