"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one). A train step that trains nothing, such as one that
only moves an average, returns {}.

Steps are traced once, without AutoGraph: use tf.where, not `if`, for what depends on a tensor.
`run` has models, losses, metrics, and your flags in `run.task`; `replica` has global_count, step,
seed and all_gather(tensor), the rows of all replicas: see engine/types.py.
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .next_todo import TodoError

Batch = tuple[tf.Tensor, ...]  # as in create_datasets, with weights last also if it gives none


# TODO(11): one train step.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    # The engine (engine/distributed_steps.py) computes the gradients of this loss, sums them over
    # all replicas, clips them if --clip-norm says so, and updates the weights.
    raise TodoError(
        11,
        "train_step in task/steps.py must predict with run.model(inputs, training=True), update "
        'run.metrics, and return {"main": compute_loss(per_example, weights, run.model, replica)}, '
        'where per_example is run.losses["main"](labels, predictions), and compute_loss is in '
        "task/losses.py",
    )


# TODO(13): one validation step.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    raise TodoError(
        13, "validation_step in task/steps.py must do the same as train_step with training=False"
    )


# TODO(14): one test step.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    raise TodoError(
        14, "test_step in task/steps.py may `return validation_step(run, batch, replica)`"
    )


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss or metric depends on others of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
