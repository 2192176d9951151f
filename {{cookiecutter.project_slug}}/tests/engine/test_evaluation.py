"""Evaluation: exact means over all examples, and no change to the training state."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from {{ cookiecutter.package_name }}.engine.batches import create_layout
from {{ cookiecutter.package_name }}.engine.distributed_steps import DistributedSteps
from {{ cookiecutter.package_name }}.engine.evaluation import Evaluation
from {{ cookiecutter.package_name }}.engine.types import Run

from .toys import BATCH, FEATURES, create_run, train

# The last batch has 5 rows: on two replicas the first gets 4 of them, the second 1.
ROWS = np.random.default_rng(1).normal(size=(3 * BATCH + 5, FEATURES))

on_one_and_two_replicas = pytest.mark.parametrize("replicas", [1, 2])


def create_evaluation(run: Run) -> Evaluation:
    return Evaluation(
        run, {"validation": ROWS, "test": ROWS}, create_layout(run.strategy, run.global_batch_size)
    )


@on_one_and_two_replicas
@pytest.mark.parametrize("split", ["validation", "test"])
def test_an_example_counts_the_same_in_a_short_last_batch(split: str, replicas: int) -> None:
    run = create_run(replicas)
    mean = 1e-7 * np.mean(np.square(np.asarray(run.model(ROWS))))
    results = create_evaluation(run).evaluate(split)
    assert results == pytest.approx({f"{split}_loss": mean, f"{split}_mean": mean}, rel=1e-12)


@on_one_and_two_replicas
def test_some_batches_are_the_first_ones(replicas: int) -> None:
    run = create_run(replicas)
    mean = 1e-7 * np.mean(np.square(np.asarray(run.model(ROWS[: 2 * BATCH]))))
    results = create_evaluation(run).evaluate("validation", num_batches=2)
    assert results["validation_loss"] == pytest.approx(mean, rel=1e-12)


@on_one_and_two_replicas
def test_evaluating_moves_nothing_that_training_uses(replicas: int) -> None:
    run = create_run(replicas, keras.layers.BatchNormalization())
    steps = DistributedSteps(run, create_layout(run.strategy, run.global_batch_size))
    variables, _ = train(steps, 3)
    metrics = [v.numpy() for metric in run.metrics.values() for v in metric.variables]
    create_evaluation(run).evaluate("validation")
    after, _ = train(steps, 0)
    assert all(map(np.array_equal, variables, after))
    assert metrics == [v.numpy() for metric in run.metrics.values() for v in metric.variables]


@on_one_and_two_replicas
def test_evaluating_twice_gives_the_same_also_with_random_numbers(replicas: int) -> None:
    evaluation = create_evaluation(create_run(replicas, keras.layers.Dropout(0.5)))
    assert evaluation.evaluate("validation") == evaluation.evaluate("validation")
