"""Your data: a step sees the same examples in every run, and evaluation counts each one once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.batches import (
    BatchLayout,
    TrainingBatches,
    evaluation_batches,
)
from {{ cookiecutter.package_name }}.engine.distributed_steps import loss_counts
from {{ cookiecutter.package_name }}.engine.evaluation import Evaluation
from {{ cookiecutter.package_name }}.engine.progress import Sums
from {{ cookiecutter.package_name }}.run import create_run
from {{ cookiecutter.package_name }}.task.config import TaskConfig
from {{ cookiecutter.package_name }}.task.data import create_augment

from .replicas import create_small_datasets
from .scenarios import BATCH, ROWS

SHORT = ROWS["short"]  # the second batch of these is short


@pytest.fixture(scope="module")
def datasets() -> dict[str, Any]:
    """A few examples of each split; a stream stays a stream."""
    return create_small_datasets(SHORT)


@pytest.fixture(scope="module")
def evaluation(datasets: dict[str, Any]) -> Callable[..., Evaluation]:
    """The evaluation of these splits on so many replicas, with so many flags."""

    @cache
    def evaluation(replicas: int, **flags: Any) -> Evaluation:
        strategy = tf.distribute.get_strategy()
        if replicas > 1:
            devices = [f"CPU:{i}" for i in range(replicas)]
            strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
        config = Config(global_batch_size=BATCH, **flags)
        run, steps, _ = create_run(strategy, datasets, config, TaskConfig())
        return Evaluation(run, datasets, steps.layout)

    return evaluation


def flat(batch: Any) -> list[np.ndarray]:
    """The rows of all replicas."""
    return [np.reshape(t, (-1, *t.shape[2:])) for t in tf.nest.flatten(batch)]


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_a_batch_depends_on_neither_the_number_of_replicas_nor_the_first_step(
    datasets: dict[str, Any], replicas: int
) -> None:
    def batches(replicas: int, first: int) -> list[list[np.ndarray]]:
        layout, augment = BatchLayout(BATCH, replicas, 0, replicas), create_augment(TaskConfig())
        training = TrainingBatches(
            datasets["train"], layout, seed=1, last_batch="pad", augment=augment
        )
        return [flat(batch) for batch in training.dataset(first, 4)]

    wanted, found = batches(1, 0)[1:], batches(replicas, 1)
    tf.nest.map_structure(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_short_batch_counts_every_example_once(
    evaluation: Callable[..., Evaluation], datasets: dict[str, Any], split: str
) -> None:
    two = evaluation(2)
    if split not in datasets:
        pytest.skip(f"there is no {split} data")
    step = two.distributed_test_step if split == "test" else two.distributed_validation_step
    batches, number = evaluation_batches(datasets[split], two.layout)
    sums = step(iter(batches), number, Sums.zero(len(two.run.returned)))
    together, _ = evaluation_batches(datasets[split], BatchLayout(SHORT, 1, 0, 1))
    (batch,) = (tf.nest.map_structure(lambda t: t[0], batch) for batch in together)
    wanted = loss_counts(two.run, two.run.functions.count(batch))
    np.testing.assert_array_equal(sums.counts, wanted)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("split", ["validation", "test"])
def test_evaluation_divides_by_the_examples_in_a_short_batch(
    evaluation: Callable[..., Evaluation], datasets: dict[str, Any], split: str, replicas: int
) -> None:
    if split not in datasets:
        pytest.skip(f"there is no {split} data")
    wanted = evaluation(replicas).evaluate(split)
    found = evaluation(replicas, denominator="global_batch").evaluate(split)
    assert found == wanted, "--denominator global_batch is about training only"
