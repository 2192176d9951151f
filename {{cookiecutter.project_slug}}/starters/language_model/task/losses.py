"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.errors import UsageError
from ..engine.types import Replica
from .config import TaskConfig


# TODO(5): your losses, each with reduction="none"; default: cross-entropy of logits.
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (targets, logits) -> one number per token."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


# TODO(10): the number that the loss of a batch is divided by; default: the number of
# tokens whose weight isn't 0.
def count(batch: Any) -> tf.Tensor:
    """The number of tokens in a per-replica batch that belong to answers, an int32 scalar."""
    weights = batch[-1]  # (batch, T), 0 for prompts and padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_token: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Args:
        per_token: float (batch, T).
        weights: float (batch, T), 0 for prompts and padding.
        model: the model whose regularization losses are added.
        replica: `replica.global_count` is what the loss is divided by: `count` summed over all
            replicas, or the global batch size with `--denominator global_batch`.

    Raises:
        UsageError: `per_token` isn't one number per weight.
    """
    if per_token.shape != weights.shape:
        raise UsageError(
            f"The loss has shape {per_token.shape} and its weights {weights.shape}: create it with "
            'reduction="none", and give each token one weight.'
        )
    # Divided by tokens, not lines: a token weighs the same in short answers as in long ones.
    loss = tf.nn.compute_average_loss(
        per_token, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
