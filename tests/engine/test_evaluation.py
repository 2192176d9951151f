"""Evaluation by micro-batches: it takes no more memory than training, and no number changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import pytest
import tensorflow as tf
from proof.engine.evaluation import Evaluation
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .toys import BATCH, CLASSES, FEATURES, Toy, build
from .worked import parts

layers = keras.layers


def regularized_model() -> keras.Model:
    """(batch, 5) -> logits (batch, 3)."""
    l2 = keras.regularizers.L2(0.1)
    return keras.Sequential(
        [keras.Input((FEATURES,)), layers.Dense(CLASSES, kernel_regularizer=l2)]
    )


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_micro_batches_are_evaluated_like_whole_batches(replicas: int) -> None:
    rows: list[int] = []

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        rows.append(inputs.shape[0])
        run.metrics["accuracy"].update_state(labels, run.model(inputs), weights)
        losses = toy.train_steps[0](run, batch, replica)
        penalty = tf.nn.scale_regularization_loss(replica.regularization(run.model))
        return losses | {"main": losses["main"] + penalty}

    # Each term of the loss has a denominator of its own, so micro-batches alone would have others.
    toy = replace(
        parts(2 * BATCH - 7),
        model=regularized_model,
        metrics=lambda: {"accuracy": keras.metrics.SparseCategoricalAccuracy()},
    )
    for num_batches in (0, 1):
        found = []
        for number, accumulate in ((1, 1), (replicas, 3)):
            rows.clear()
            built = build(replace(toy, validation_step=step), number, accumulate=accumulate)
            evaluation = Evaluation(built.run, {"validation": toy.data}, built.steps.layout)
            found.append(evaluation.evaluate("validation", num_batches))
            assert set(rows) == {BATCH // number // accumulate}
        # Losses with weights are rounded to float32 (TF 2.21); the first batch has no class 0.
        assert found[1] == pytest.approx(found[0], rel=1e-6, nan_ok=True)


@pytest.mark.quick
def test_micro_batches_of_an_evaluation_draw_the_same_on_any_number_of_replicas() -> None:
    def noisy_model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        noisy = layers.GaussianNoise(1.0)(inputs, training=True)
        return keras.Model(inputs, layers.Dense(CLASSES)(noisy))

    toy, results = Toy(noisy_model), []
    for replicas in (1, 2):
        built = build(toy, replicas, accumulate=2, randomness="global_batch")
        evaluation = Evaluation(built.run, {"validation": toy.data}, built.steps.layout)
        results.append(evaluation.evaluate("validation"))
    assert results[1] == pytest.approx(results[0], rel=1e-6)


@pytest.mark.quick
def test_each_micro_batch_of_an_evaluation_draws_its_own_numbers() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        drawn = tf.random.stateless_uniform((), replica.seed)
        run.metrics["drawn"].update_state(drawn)
        run.metrics["squared"].update_state(drawn**2)
        per_example = run.losses["main"](labels, run.model(inputs))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    metrics = "drawn", "squared"
    toy = Toy(train_steps=(step,), metrics=lambda: {n: keras.metrics.Mean() for n in metrics})
    built = build(toy, accumulate=2)
    evaluation = Evaluation(built.run, {"validation": toy.data}, built.steps.layout)
    found = evaluation.evaluate("validation", num_batches=1)
    assert found["validation_squared"] - found["validation_drawn"] ** 2 > 1e-6
