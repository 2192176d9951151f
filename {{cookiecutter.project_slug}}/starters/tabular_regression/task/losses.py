"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.errors import UsageError
from ..engine.types import Replica
from .config import TaskConfig

LABEL_DEVIATION = 77.0  # standard deviation of the training labels; set it to that of yours


# TODO(5): your losses, each with reduction="none";
# default: the squared error of standardized labels.
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""
    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)

    return {"main": standardized_error}


# TODO(10): the number that the loss of a batch is divided by; default: the number of
# examples whose weight isn't 0.
def count(batch: Any) -> tf.Tensor:
    """The number of examples in a per-replica batch whose weight isn't 0, an int32 scalar.

    Count tokens or pixels instead if the loss is a mean over these.
    """
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Args:
        per_example: float (batch,).
        weights: float (batch,), 0 for padding.
        model: the model whose regularization losses are added.
        replica: `replica.global_count` is what the loss is divided by: `count` summed over all
            replicas, or the global batch size with `--denominator global_batch`.

    Raises:
        UsageError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise UsageError(
            f"The loss has shape {per_example.shape} and its weights {weights.shape}: create it "
            'with reduction="none", and average over further axes with tf.reduce_mean; '
            "and give each example one weight."
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
