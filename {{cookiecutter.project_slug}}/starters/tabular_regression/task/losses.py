"""The losses, and what they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig

SPREAD = 77.0  # standard deviation of the labels


# TODO(5): your losses, each with reduction="none"; the squared error in spreads of the labels.
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; called with labels and predictions they give one number an example."""
    del task
    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        In units of the data its gradients would overflow in float16.
        """
        return squared_error(labels / SPREAD, predictions / SPREAD)

    return {"main": loss}


# TODO(10): what the loss is an average of, as an int32 scalar; examples whose weight isn't zero.
def count(batch: Any) -> tf.Tensor:
    """How much of `batch` counts: examples here; tokens or pixels in other tasks."""
    weights = batch[-1]  # (batch,), zero for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss; the parts of all replicas add up to the loss.

    Args:
        per_example: float (batch,).
        weights: float (batch,), zero for padding.
        model: for its regularization losses.
        replica: its `count` is that of all replicas.

    Raises:
        ValueError: `per_example` isn't one number for each weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss has shape {per_example.shape} and its weights {weights.shape}: create it "
            'with reduction="none", and average over further axes with tf.reduce_mean.'
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.count
    )
    parts = [tf.cast(part, loss.dtype) for part in model.losses]
    regularization = sum(parts, tf.zeros_like(loss))
    return loss + tf.nn.scale_regularization_loss(regularization) / replica.microbatches
