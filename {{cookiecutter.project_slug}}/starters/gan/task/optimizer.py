"""The optimizers, and what happens to the gradients before they apply them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


# TODO(7): your optimizer, or a dict with one for each model;
# default: Adam with a cosine schedule for both.
def create_optimizer(task: TaskConfig, steps: int) -> dict[str, keras.optimizers.Optimizer]:
    """The optimizers. Don't set their clipnorm: --clip-norm clips after the sum over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    # Little momentum, because each model's task changes with the other (Radford et al., 2015).
    return {
        "generator": keras.optimizers.Adam(schedule, beta_1=0.5),
        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),
    }


# TODO(12): a change to the gradients, after their sum over all replicas and before clipping;
# default: no change.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
