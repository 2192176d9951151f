"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import average_over_pixels, compute_loss
from .metrics import pixel_weights

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch, h, w), weights (batch,)


# TODO(11): one train step; default: predicts, updates the metric and returns the loss.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    images, labels, weights = batch
    logits = run.model(images, training=True)  # (batch, h, w, classes)
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    # The engine (engine/distributed_steps.py) computes the gradients of this loss, sums them over
    # all replicas, clips them if --clip-norm says so, and updates the weights.
    return {"main": compute_loss(per_example, weights, run.model, replica)}


# TODO(13): one validation step; default: the same with training=False, which uses the moving
# averages of batch normalization.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    images, labels, weights = batch
    logits = run.model(images, training=False)  # (batch, h, w, classes)
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


# TODO(14): one test step; default: the same as in validation.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss or metric depends on others of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
