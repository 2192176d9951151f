"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


# TODO(7): your optimizer, or a dict with one for each model; Adam with a cosine schedule.
def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """An optimizer that doesn't clip: --clip-norm clips the gradients summed over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)


# TODO(12): a change to the gradients after they are summed over all replicas and before they are
# clipped and applied; none.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
