"""The optimizers, and what is done to gradients before they get them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


# TODO(7): your optimizer, or a dict of them by the names of the models; Adam along a cosine.
def create_optimizer(task: TaskConfig, steps: int) -> dict[str, keras.optimizers.Optimizer]:
    """Optimizers without clipping of their own (--clip-norm does that over all replicas).

    Args:
        task: the knobs.
        steps: train steps in the whole run, for schedules.
    """
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    # A short memory, since each model's task changes with the other (Radford et al., 2015).
    return {
        name: keras.optimizers.Adam(schedule, beta_1=0.5) for name in ("generator", "discriminator")
    }


# TODO(12): what happens to the gradients after they are summed over all replicas and before they
# are clipped and applied; nothing.
def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, on every replica the same."""
    del variables
    return gradients
