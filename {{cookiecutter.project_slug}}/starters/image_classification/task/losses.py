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
    """Losses by name: (labels, predictions) -> one number per example."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


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
