"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .next_todo import TodoError


# TODO(7): your optimizer, or a dict with one for each model.
def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    raise TodoError(
        7,
        "create_optimizer in task/optimizer.py must return an optimizer, such as "
        "keras.optimizers.Adam(1e-3)",
    )


# TODO(12): a change to the gradients, after their sum over all replicas and before clipping.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    raise TodoError(
        12,
        "process_gradients in task/optimizer.py must return a gradient for each variable; "
        "`return gradients` leaves them as they are",
    )
