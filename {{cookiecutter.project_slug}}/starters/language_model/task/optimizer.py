"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


# TODO(7): your optimizer, or a dict with one for each model;
# default: Adam, its learning rate warmed up, then decayed along a cosine.
def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

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


# TODO(12): a change to the gradients, after their sum over all replicas and before clipping;
# default: no change.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
