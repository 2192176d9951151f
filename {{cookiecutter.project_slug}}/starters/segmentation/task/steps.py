"""One replica's share of a step: plain Keras, nothing applied, no word about other replicas.

What a step returns, {"main": loss} here, names the optimizer that makes the loss smaller. Metrics
are updated as usual. The engine takes the gradients, sums them, and commits everything or nothing.
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
from .metrics import pixel_weights

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels and weights of this replica's share


# TODO(11): one train step; predicts, computes the loss and updates the metrics.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share in training."""
    return _step(run, batch, replica, training=True)


# TODO(13): one validation step; the same with the moving averages of batch normalization.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share of validation data."""
    return _step(run, batch, replica, training=False)


# TODO(14): one test step; the same as in validation.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share of test data."""
    return _step(run, batch, replica, training=False)


TRAIN_STEPS = (train_step,)  # run one after the other in every step; a GAN has two


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    images, labels, weights = batch
    predictions = run.model(images, training=training)  # (batch, h, w, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["mean_iou"].update_state(labels, predictions, pixel_weights(labels, weights))
    return {"main": compute_loss(per_example, weights, run.model, replica)}
