"""The train, validation and test step, as one replica computes them.

A step gets this replica's part of a batch, updates the metrics and returns the loss that each
optimizer minimizes, by the optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .next_todo import TodoError

Batch = tuple[tf.Tensor, ...]  # the parts of an example in create_datasets, then weights (batch,)


# TODO(11): one train step.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The training loss of this replica's part of a batch."""
    # From this loss, engine/distributed_steps.py does the backward pass, sums the gradients over
    # all replicas, clips them and updates the weights.
    raise TodoError(
        11,
        "train_step in task/steps.py must predict with run.model(..., training=True), update "
        'run.metrics, and return {"main": compute_loss(...)} of run.losses["main"](...)',
    )


# TODO(13): one validation step.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The validation loss of this replica's part of a batch."""
    raise TodoError(
        13, "validation_step in task/steps.py must do the same as train_step with training=False"
    )


# TODO(14): one test step.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The test loss of this replica's part of a batch."""
    raise TodoError(
        14, "test_step in task/steps.py may `return validation_step(run, batch, replica)`"
    )


TRAIN_STEPS = (train_step,)  # called in this order in every step; a GAN has two
TERMS: tuple[str, ...] = ()  # names of further numbers that steps return, to be reported
# True if an example's loss depends on the others of its batch, as with negatives from the batch.
EXAMPLES_INTERACT = False
