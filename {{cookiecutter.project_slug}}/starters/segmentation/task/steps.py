"""The train, validation and test step, as one replica computes them.

A step gets this replica's part of a batch, updates the metrics and returns the loss that each
optimizer minimizes, by the optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import average_over_pixels, compute_loss
from .metrics import pixel_weights

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch, h, w), weights (batch,)


# TODO(11): one train step; predicts, updates the metric and returns the loss.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The training loss of this replica's part of a batch."""
    images, labels, weights = batch
    logits = run.model(images, training=True)  # (batch, h, w, classes)
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    # From this loss, engine/distributed_steps.py does the backward pass, sums the gradients over
    # all replicas, clips them and updates the weights.
    return {"main": compute_loss(per_example, weights, run.model, replica)}


# TODO(13): one validation step; the same with the moving averages of batch normalization.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The validation loss of this replica's part of a batch."""
    images, labels, weights = batch
    logits = run.model(images, training=False)  # (batch, h, w, classes)
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


# TODO(14): one test step; the same as in validation.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The test loss of this replica's part of a batch."""
    images, labels, weights = batch
    logits = run.model(images, training=False)  # (batch, h, w, classes)
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order in every step; a GAN has two
TERMS: tuple[str, ...] = ()  # names of further numbers that steps return, to be reported
# True if an example's loss depends on the others of its batch, as with negatives from the batch.
EXAMPLES_INTERACT = False
