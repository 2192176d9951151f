"""The losses, and what they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


# TODO(5): your losses, each with reduction="none"; cross-entropy of logits.
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Loss objects by name; called with targets and logits they give one number a token."""
    del task
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


# TODO(10): what the loss is an average of, as an int32 scalar; tokens whose weight isn't zero.
def count(batch: Any) -> tf.Tensor:
    """How much of `batch` counts: the tokens of answers, however they are spread over the lines."""
    weights = batch[-1]  # (batch, T), zero for prompts and padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_token: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss; the parts of all replicas add up to the loss.

    Args:
        per_token: float (batch, T).
        weights: float (batch, T), zero for prompts and padding.
        model: for its regularization losses.
        replica: its `count` is that of all replicas, in tokens.

    Raises:
        ValueError: `per_token` isn't one number for each weight.
    """
    if per_token.shape != weights.shape:
        raise ValueError(
            f"The loss per token has shape {per_token.shape}, its weights {weights.shape}: create "
            'the loss with reduction="none".'
        )
    # Not divided by the lines: those with long answers would weigh less in each of their tokens.
    loss = tf.nn.compute_average_loss(
        per_token, sample_weight=weights, global_batch_size=replica.count
    )
    parts = [tf.cast(part, loss.dtype) for part in model.losses]
    regularization = sum(parts, tf.zeros_like(loss))
    return loss + tf.nn.scale_regularization_loss(regularization) / replica.microbatches
