"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.errors import UsageError
from ..engine.types import Replica
from .config import TaskConfig
from .next_todo import TodoError


# TODO(5): your losses, each with reduction="none".
def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses of Keras or functions by name: (labels, predictions) -> one number per example.

    {} if your steps compute their losses themselves.
    """
    raise TodoError(
        5,
        "create_losses in task/losses.py must return losses by name, such as "
        '{"main": keras.losses.MeanSquaredError(reduction="none")}',
    )


# TODO(10): the number that the loss of a batch is divided by.
def count(batch: Any) -> tf.Tensor:
    """The number of examples (or tokens, pixels) in a per-replica batch, an int32 scalar.

    Count the weights that aren't 0, don't add them up; scale your weights to a mean of about 1.

    If parts of the loss have denominators of their own, return a dict of such scalars. Then
    `replica.global_count` is a dict too, and a loss or term (TERMS in steps.py) is averaged over
    batches by the count of its name: see docs/losses.md of the template.
    """
    raise TodoError(
        10,
        "count in task/losses.py must return how many examples (tokens, pixels) of a batch count, "
        "such as tf.math.count_nonzero(batch[-1], dtype=tf.int32), where batch[-1] are the weights",
    )


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Args:
        per_example: float (batch,), or (batch, ...) with a weight for each number of an example.
        weights: float, of the same shape, 0 for padding.
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
            "and give each number of it one weight."
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
