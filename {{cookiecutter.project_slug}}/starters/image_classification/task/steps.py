"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


# TODO(11): one train step; default: predicts, updates the accuracy and returns the loss.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    images, labels, weights = batch
    predictions = run.model(images, training=True)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    # The engine (engine/distributed_steps.py) computes the gradients of this loss, sums them over
    # all replicas, clips them if --clip-norm says so, and updates the weights.
    return {"main": compute_loss(per_example, weights, run.model, replica)}


# TODO(13): one validation step; default: the same with training=False.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    images, labels, weights = batch
    predictions = run.model(images, training=False)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


# TODO(14): one test step; default: the same as in validation.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss or metric depends on others of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
