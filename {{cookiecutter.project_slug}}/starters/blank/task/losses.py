"""The losses, and what they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.errors import TodoError
from ..engine.types import Replica
from .config import TaskConfig


# TODO(5): your losses, each with reduction="none".
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Loss objects by name; called with labels and predictions they give one number an example."""
    raise TodoError(
        5,
        "create_losses in task/losses.py must return loss objects by name, such as "
        '{"main": keras.losses.MeanSquaredError(reduction="none")}',
    )


# TODO(10): what the loss is an average of, as an int32 scalar.
def count(batch: Any) -> tf.Tensor:
    """How much of `batch` counts: examples, tokens, pixels, ..."""
    raise TodoError(
        10,
        "count in task/losses.py must return how many examples (tokens, pixels) of a batch count, "
        "such as tf.math.count_nonzero(batch[-1], dtype=tf.int32), whose last part is the weights",
    )


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
