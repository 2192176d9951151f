"""The losses, and what they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


# TODO(5): your losses, each with reduction="none"; cross-entropy of logits.
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Loss objects by name; called with labels (batch, 1) and logits they give (batch,)."""
    del task
    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")}


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
        model: the one this loss is for, for its regularization losses.
        replica: its `count` is that of all replicas.

    Raises:
        ValueError: `per_example` isn't one number for each weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss per example has shape {per_example.shape}, its weights {weights.shape}: "
            'create the loss with reduction="none", and average over further axes with '
            "tf.reduce_mean first."
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.count
    )
    parts = [tf.cast(part, loss.dtype) for part in model.losses]
    regularization = sum(parts, tf.zeros_like(loss))
    return loss + tf.nn.scale_regularization_loss(regularization) / replica.microbatches
