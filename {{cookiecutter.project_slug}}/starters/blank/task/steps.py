"""One replica's share of a step: plain Keras, nothing applied, no word about other replicas.

What a step returns, such as {"main": loss}, names the optimizer that makes the loss smaller.
Metrics are updated as usual. The engine takes the gradients, sums them, and commits everything or
nothing.
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.errors import TodoError
from ..engine.types import Replica, Run

Batch = tuple[tf.Tensor, ...]  # what create_datasets gives and, last, weights, of this replica


# TODO(11): one train step.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share in training."""
    raise TodoError(
        11,
        "train_step in task/steps.py must predict with run.model(..., training=True), update "
        'run.metrics, and return {"main": compute_loss(...)} of run.losses["main"]',
    )


# TODO(13): one validation step.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share of validation data."""
    raise TodoError(
        13, "validation_step in task/steps.py must do what train_step does with training=False"
    )


# TODO(14): one test step.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share of test data."""
    raise TodoError(
        14, "test_step in task/steps.py may `return validation_step(run, batch, replica)`"
    )


TRAIN_STEPS = (train_step,)  # run one after the other in every step; a GAN has two
