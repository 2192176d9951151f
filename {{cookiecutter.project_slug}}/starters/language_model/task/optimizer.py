"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


# TODO(7): your optimizer, or a dict with one for each model; Adam, its learning rate warmed up,
# then decayed along a cosine.
def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """An optimizer that doesn't clip: --clip-norm clips the gradients summed over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    warmup = int(task.warmup * steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else task.learning_rate,
        decay_steps=steps - warmup,
        warmup_target=task.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
    return keras.optimizers.Adam(schedule)


# TODO(12): a change to the gradients after they are summed over all replicas and before they are
# clipped and applied; none.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
