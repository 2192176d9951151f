"""The losses, and what they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
from .data import IGNORED


# TODO(5): your losses, each with reduction="none"; cross-entropy of logits, averaged over the
# pixels of each example.
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; called with labels and predictions they give one number an example."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels int (batch, h, w), logits float (batch, h, w, classes) -> float (batch,).

        Averaged here and not left (batch, h, w), which tf.nn.compute_average_loss would sum up.
        """
        known = labels != IGNORED  # (batch, h, w)
        per_pixel = cross_entropy(tf.where(known, labels, 0), logits)  # (batch, h, w)
        known = tf.cast(known, per_pixel.dtype)
        weights = tf.where(labels == 0, known, task.foreground_weight * known)
        total = tf.reduce_sum(weights * per_pixel, axis=[1, 2])  # (batch,)
        # Zero, not NaN, for an example all of whose pixels are ignored.
        return tf.math.divide_no_nan(total, tf.reduce_sum(known, axis=[1, 2]))

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
