"""The optimizer, and what is done to gradients before it gets them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


# TODO(7): your optimizer, or a dict of them by the names of the models; Adam, warmed up, along a
# cosine.
def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """An optimizer without clipping of its own (--clip-norm does that over all replicas).

    Args:
        task: the knobs.
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


# TODO(12): what happens to the gradients after they are summed over all replicas and before they
# are clipped and applied; nothing.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, on every replica the same."""
    del variables
    return gradients
