"""Every additive Keras metric is exact on padded batches, in training and in evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.evaluation import Evaluation
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .toys import BATCH, CLASSES, Toy, build, cross_entropy, plain_data, train

metrics = keras.metrics
ROWS = 29  # the last batch of 24 has 5 examples: on four replicas 5, 0, 0 and 0


def built(metric: keras.metrics.Metric) -> keras.metrics.Metric:
    """A metric that makes its variables on first use, after it."""
    metric.update_state(np.zeros((1, CLASSES)), np.zeros((1, CLASSES)))
    metric.reset_state()
    return metric


def one_hot(y: Any, p: Any) -> tuple[Any, Any]:
    """One-hot labels and probabilities."""
    return tf.one_hot(y, CLASSES, dtype=p.dtype), tf.nn.softmax(p)


def binary(y: Any, p: Any) -> tuple[Any, Any]:
    """Class 0 against the others: labels and probabilities."""
    return tf.cast(y == 0, p.dtype), tf.nn.sigmoid(p[:, 0])


def classes(y: Any, p: Any) -> tuple[Any, Any]:
    """Labels and predicted classes."""
    return y, tf.argmax(p, axis=1)


def logits(y: Any, p: Any) -> tuple[Any, Any]:
    """Labels and logits, unchanged."""
    return y, p


METRICS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], tuple[Any, Any]]]] = {
    "SparseCategoricalAccuracy": (metrics.SparseCategoricalAccuracy, logits),
    "SparseTopKCategoricalAccuracy": (
        lambda: metrics.SparseTopKCategoricalAccuracy(2),
        lambda y, p: (y, tf.cast(p, "float32")),  # the only dtype that its operation takes
    ),
    "SparseCategoricalCrossentropy": (
        lambda: metrics.SparseCategoricalCrossentropy(from_logits=True), logits,
    ),
    "CategoricalAccuracy": (metrics.CategoricalAccuracy, one_hot),
    "KLDivergence": (metrics.KLDivergence, one_hot),
    "CosineSimilarity": (metrics.CosineSimilarity, one_hot),
    "MeanSquaredError": (metrics.MeanSquaredError, one_hot),
    "RootMeanSquaredError": (metrics.RootMeanSquaredError, one_hot),
    "MeanAbsoluteError": (metrics.MeanAbsoluteError, one_hot),
    "F1Score": (lambda: built(metrics.F1Score("macro")), one_hot),
    "R2Score": (lambda: built(metrics.R2Score()), one_hot),
    "OneHotIoU": (lambda: metrics.OneHotIoU(CLASSES, [0, 1], dtype="float64"), one_hot),
    "AUC": (metrics.AUC, binary),
    "Precision": (metrics.Precision, binary),
    "Recall": (metrics.Recall, binary),
    "BinaryAccuracy": (metrics.BinaryAccuracy, binary),
    "FalsePositives": (metrics.FalsePositives, binary),
    "PrecisionAtRecall": (lambda: metrics.PrecisionAtRecall(0.5), binary),
    "Hinge": (metrics.Hinge, lambda y, p: (binary(y, p)[0][:, None], p[:, :1])),
    "MeanIoU": (lambda: metrics.MeanIoU(CLASSES, dtype="float64"), classes),
}  # fmt: skip


def toy_with(names: list[str], weighted: bool = False) -> Toy:
    """The default toy with these metrics."""

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        predictions = run.model(inputs, training=True)
        for name in names:
            run.metrics[name].update_state(*METRICS[name][1](labels, predictions), weights)
        per_example = run.losses["main"](labels, predictions)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    data = plain_data(ROWS)
    if weighted:
        data = (*data, np.random.default_rng(3).choice([0.0, 0.5, 2.0], ROWS))
    return Toy(data=data, train_steps=(step,), metrics=lambda: {n: METRICS[n][0]() for n in names})


def evaluate(toy: Toy, replicas: int) -> tuple[dict[str, float], float, Any]:
    """Metrics and mean loss over all examples, and the model."""
    built = build(toy, replicas)
    evaluation = Evaluation(built.run, {"test": toy.data}, built.steps.layout)
    values = {name.removeprefix("test_"): v for name, v in evaluation.evaluate("test").items()}
    return values, values.pop("loss"), built.run.model


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_evaluation_is_exact(replicas: int, weighted: bool) -> None:
    results, loss, model = evaluate(toy_with(list(METRICS), weighted), replicas)
    inputs, labels, *weights = toy_with([], weighted).data
    predictions = model(inputs)
    for name, (metric, shown) in METRICS.items():
        whole = metric()  # all examples at once, no padding, one device
        whole.update_state(*shown(tf.constant(labels), predictions), *weights)
        np.testing.assert_allclose(results[name], whole.result(), rtol=2e-6, err_msg=name)
    values = cross_entropy()["main"](labels, predictions).numpy()
    of = np.ones(ROWS) if not weights else weights[0]
    # compute_average_loss multiplies by weights in float32, whatever it gets (TF 2.21).
    assert loss == pytest.approx(np.sum(values * of) / np.count_nonzero(of), rel=1e-7)


@pytest.mark.quick
@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_constant_denominator_is_for_training_only(replicas: int, split: str) -> None:
    toy = toy_with(["SparseCategoricalAccuracy"])
    built = build(toy, replicas, denominator="global_batch")
    evaluation = Evaluation(built.run, {split: toy.data}, built.steps.layout)
    inputs, labels = toy.data
    values = cross_entropy()["main"](labels, built.run.model(inputs)).numpy()
    assert len(values) % BATCH, "no short batch"
    assert evaluation.evaluate(split)[f"{split}_loss"] == pytest.approx(values.mean(), rel=1e-7)


@pytest.mark.quick
def test_training_metrics_are_the_same_on_every_number_of_replicas() -> None:
    one, two = (train(toy_with(list(METRICS)), n, steps=4, steps_per_call=4) for n in (1, 2))
    for name in METRICS:
        a, b = (np.asarray(t.run.metrics[name].result()) for t in (one, two))
        np.testing.assert_allclose(a, b, rtol=2e-6, err_msg=name)


def test_evaluation_passes_over_a_batch_in_which_nothing_counts() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=False))
        total = tf.reduce_sum(per_example * weights)
        return {"main": total / tf.cast(replica.global_count, total.dtype)}  # 0 / 0 without any

    inputs, labels = plain_data(3 * BATCH)
    weights = np.repeat([1.0, 1.0, 0.0], BATCH)
    toy = Toy(train_steps=(step,), data=(inputs, labels, weights), metrics=dict)
    built = build(toy)
    some = [part[: 2 * BATCH] for part in (inputs, labels, weights)]
    whole, counted = (
        Evaluation(built.run, {"test": tuple(data)}, built.steps.layout).evaluate("test")
        for data in (toy.data, some)
    )
    assert whole["test_loss"] == pytest.approx(counted["test_loss"], rel=1e-12)
