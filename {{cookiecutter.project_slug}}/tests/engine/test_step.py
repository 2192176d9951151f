"""The train step on a tiny model: faults that the tests of your task may not reveal."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from {{ cookiecutter.package_name }}.engine.batches import create_layout
from {{ cookiecutter.package_name }}.engine.check import relative_difference
from {{ cookiecutter.package_name }}.engine.distributed_steps import DistributedSteps
from {{ cookiecutter.package_name }}.engine.types import Replica, Run

from ..replicas import dry_run
from .toys import BATCH, INPUTS, create_batches, create_run, step, train


def build(
    replicas: int, layer: keras.layers.Layer | None = None, **settings: Any
) -> DistributedSteps:
    run = create_run(replicas, layer)
    return DistributedSteps(run, create_layout(run.strategy, BATCH), **settings)


def variables(replicas: int, layer: keras.layers.Layer | None = None, **settings: Any) -> list[Any]:
    """All variables after three steps."""
    return train(build(replicas, layer, **settings), 3)[0]


def test_gradients_are_summed_once_over_the_replicas() -> None:
    difference = relative_difference(variables(1), variables(2))
    assert difference < 1e-9, f"{difference:.0e}: the optimizer sums the gradients a second time?"


def test_gradients_are_clipped_after_they_are_summed() -> None:
    one, two = variables(1, clip_norm=1e-7), variables(2, clip_norm=1e-7)
    assert relative_difference(one, two) < 1e-9, "gradients are clipped before they are summed"


def test_batch_normalization_computes_its_statistics_over_all_replicas() -> None:
    one, two = (variables(n, keras.layers.BatchNormalization()) for n in (1, 2))
    assert relative_difference(one, two) < 1e-9, "normalization statistics aren't synchronized"


def test_dropout_differs_between_replicas_and_steps_and_can_be_repeated() -> None:
    def record_mask(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        losses = step(run, batch, replica)
        dropped = tf.reshape(run.model(batch[0], training=True) == 0, [-1])
        bits = tf.where(dropped, tf.constant(2.0 ** np.arange(dropped.shape[0])), 0.0)
        run.metrics["mean"].reset_state()
        run.metrics["mean"].update_state(tf.reduce_sum(bits))  # a number for each mask
        return losses

    def masks() -> list[float]:
        run = create_run(2, keras.layers.Dropout(0.5), record_mask)
        steps = DistributedSteps(run, create_layout(run.strategy, BATCH))
        iterator, progress = iter(create_batches(run).dataset(0, 2)), steps.start()
        found = []
        for _ in range(2):
            progress = steps.distributed_train_step(iterator, 1, progress)
            found += [float(copy) for copy in run.metrics["mean"].total.value.values]
        return found

    first = masks()
    assert first[0] != first[1], "replicas draw the same dropout mask"
    assert len(set(first)) == 4, "steps draw the same dropout mask"
    assert masks() == first, "a run can't be repeated"


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_not_finite_changes_nothing(replicas: int) -> None:
    bad = INPUTS.copy()
    bad[-1] = np.inf
    steps = build(replicas, keras.layers.BatchNormalization(), max_skipped_steps=9)
    before, _ = train(steps, 0)
    after, progress = train(steps, 3, bad)
    for a, b in zip(before, after, strict=True):
        assert np.array_equal(a, b), "a skipped step has changed a variable"
    assert steps.run.metrics["mean"].count.numpy() == 0
    assert (int(progress.step), int(progress.skips.total)) == (3, 3)
    assert progress.sums.counts.numpy().tolist() == [0]


@pytest.mark.parametrize("_precision", ["mixed_float16"], indirect=True)
def test_float16_losses_are_scaled_so_that_small_gradients_survive() -> None:
    found = []
    for policy in ("float32", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        steps = build(2)
        batches = create_batches(steps.run).dataset(0, 1)
        (reduced,) = dry_run(steps, iter(batches), steps.start())
        found.append([gradient.numpy() for gradient in reduced.gradients["main"]])
    difference = relative_difference(*found)
    assert difference < 0.01, (
        f"float16 gradients are {difference:.0%} off: the loss must be scaled before the gradients "
        "are taken, and the gradients divided by the same scale after they are summed"
    )
