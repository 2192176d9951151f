"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.errors import UsageError
from ..engine.types import Replica
from .config import TaskConfig


# TODO(5): your losses, each with reduction="none";
# default: cross-entropy of the discriminator's logits.
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example."""
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are high on real images and low on generated ones."""
        loss_on_real = cross_entropy(tf.ones_like(on_real), on_real)  # (batch,)
        loss_on_generated = cross_entropy(tf.zeros_like(on_generated), on_generated)  # (batch,)
        return (loss_on_real + loss_on_generated) / 2

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are high on generated images.

        Not the discriminator's loss with the opposite sign, which has no gradient where the
        discriminator is sure (Goodfellow et al., 2014).
        """
        return cross_entropy(tf.ones_like(on_generated), on_generated)  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}


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
        model: the model that this loss trains, whose regularization losses are added.
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
