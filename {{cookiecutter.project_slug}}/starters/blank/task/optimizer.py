"""The optimizer, and what is done to gradients before it gets them."""

from __future__ import annotations

import keras
import tensorflow as tf

from ..engine.errors import TodoError
from .config import TaskConfig


# TODO(7): your optimizer, or a dict of them by the names of the models.
def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """An optimizer without clipping of its own (--clip-norm does that over all replicas).

    Args:
        task: the knobs.
        steps: train steps in the whole run, for schedules.
    """
    raise TodoError(
        7,
        "create_optimizer in task/optimizer.py must return an optimizer, such as "
        "keras.optimizers.Adam(1e-3)",
    )


# TODO(12): what happens to the gradients after they are summed over all replicas and before they
# are clipped and applied.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, on every replica the same."""
    raise TodoError(
        12,
        "process_gradients in task/optimizer.py must return a gradient for each variable; "
        "`return gradients` leaves them as they are",
    )
