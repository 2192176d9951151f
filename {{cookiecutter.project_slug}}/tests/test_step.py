"""The engine's train step on models of a few weights: what your task may not happen to show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from {{ cookiecutter.package_name }}.engine.batches import create_layout, training_batches
from {{ cookiecutter.package_name }}.engine.check import relative_difference
from {{ cookiecutter.package_name }}.engine.distribution import Distribution, Progress
from {{ cookiecutter.package_name }}.engine.types import Replica, Run, Task

BATCH, FEATURES = 8, 6
INPUTS = np.random.default_rng(0).normal(size=(BATCH, FEATURES)) + np.arange(BATCH)[:, np.newaxis]


@pytest.fixture(params=["float64"], autouse=True)
def _precision(request: pytest.FixtureRequest) -> Iterator[None]:
    """Float64, or what a test is parametrized with."""
    keras.config.set_floatx("float64" if request.param == "float64" else "float32")
    keras.config.set_dtype_policy(request.param)
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")


def count(batch: Any) -> tf.Tensor:
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)


def train_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    outputs = tf.cast(run.model(inputs, training=True), weights.dtype)  # (batch, features)
    zeros = tf.reshape(tf.cast(outputs == 0, weights.dtype), [-1])
    bits = tf.constant(2.0 ** np.arange(zeros.shape[0]), weights.dtype)
    run.metrics["zeros"].update_state(tf.reduce_sum(zeros * bits))  # a number for each pattern
    per_example = 1e-7 * tf.reduce_mean(tf.square(outputs - labels), axis=1)
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.count
    )
    return {"main": loss}


def build(
    replicas: int,
    layer: keras.layers.Layer | None = None,
    inputs: np.ndarray = INPUTS,
    **knobs: Any,
) -> tuple[Distribution, Iterator[Any]]:
    """A dense layer, `layer` on top of it, and batches without end of the same examples."""
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        devices = [f"CPU:{i}" for i in range(replicas)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
    keras.utils.set_random_seed(0)
    with strategy.scope():
        layers = [keras.layers.Dense(FEATURES), *([layer] if layer else [])]
        model = keras.Sequential([keras.Input((FEATURES,)), *layers])
        optimizer = keras.optimizers.SGD(1e5, momentum=0.9)
        optimizer.build(model.trainable_variables)
        metrics = {"zeros": keras.metrics.Mean()}
    task = Task((train_step,), train_step, train_step, count, lambda gradients, _: gradients)
    run = Run(strategy, {"main": model}, {}, metrics, {"main": optimizer}, task, BATCH)
    distribution = Distribution(run, create_layout(strategy, BATCH), **knobs)
    data = (inputs.astype(keras.config.floatx()), np.zeros_like(inputs, keras.config.floatx()))
    batches = training_batches(data, distribution.layout, seed=0, first_step=0, last_step=4)
    return distribution, iter(batches)


def train(
    replicas: int, steps: int, *arguments: Any, **knobs: Any
) -> tuple[list[np.ndarray], Progress, Distribution]:
    """All variables of a model and its optimizer after `steps` steps."""
    distribution, batches = build(replicas, *arguments, **knobs)
    progress = distribution.distributed_train_step(batches, steps, distribution.start())
    run = distribution.run
    variables = [*run.model.variables, *run.optimizers["main"].variables]
    return [v.numpy() for v in variables if v.dtype != "uint32"], progress, distribution


def test_gradients_are_summed_once_over_the_replicas() -> None:
    one, two = train(1, 3)[0], train(2, 3)[0]
    difference = relative_difference(one, two)
    assert difference < 1e-9, f"{difference:.0e}: the optimizer sums the gradients a second time?"


def test_gradients_are_clipped_after_they_are_summed() -> None:
    one, two = train(1, 3, clip_norm=1e-7)[0], train(2, 3, clip_norm=1e-7)[0]
    assert relative_difference(one, two) < 1e-9, "gradients are clipped before they are summed"


def test_batch_normalization_takes_its_statistics_over_all_replicas() -> None:
    one, two = (train(n, 3, keras.layers.BatchNormalization())[0] for n in (1, 2))
    assert relative_difference(one, two) < 1e-9, "normalization statistics aren't synchronized"


def test_dropout_differs_between_replicas_and_steps_and_can_be_repeated() -> None:
    def masks() -> list[float]:
        distribution, batches = build(2, keras.layers.Dropout(0.5))
        found, progress = [], distribution.start()
        for _ in range(2):
            progress = distribution.distributed_train_step(batches, 1, progress)
            found += [float(copy) for copy in distribution.run.metrics["zeros"].total.value.values]
            distribution.run.metrics["zeros"].reset_state()
        return found

    first = masks()
    assert first[0] != first[1], "replicas draw the same dropout mask"
    assert len(set(first)) == 4, "steps draw the same dropout mask"
    assert masks() == first, "a run can't be repeated"


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_not_finite_leaves_everything_as_it_was(replicas: int) -> None:
    bad = INPUTS.copy()
    bad[-1] = np.inf
    before = train(replicas, 0, keras.layers.BatchNormalization())[0]
    knobs = {"max_skipped_steps": 9}
    after, progress, distribution = train(
        replicas, 3, keras.layers.BatchNormalization(), bad, **knobs
    )
    for a, b in zip(before, after, strict=True):
        assert np.array_equal(a, b), "a skipped step has changed a variable"
    assert distribution.run.metrics["zeros"].count.numpy() == 0
    assert (int(progress.step), int(progress.skipped), int(progress.examples)) == (3, 3, 0)


@pytest.mark.parametrize("_precision", ["mixed_float16"], indirect=True)
def test_float16_losses_are_scaled_so_that_small_gradients_survive() -> None:
    found = []
    for policy in ("float32", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        distribution, batches = build(2)
        (outcome,) = distribution.probe(batches, distribution.start())
        found.append([gradient.numpy() for gradient in outcome.gradients["main"]])
    difference = relative_difference(*found)
    assert difference < 0.01, (
        f"float16 gradients are {difference:.0%} off: the loss must be scaled before the gradients "
        "are taken, and the gradients divided by the same scale after they are summed"
    )
