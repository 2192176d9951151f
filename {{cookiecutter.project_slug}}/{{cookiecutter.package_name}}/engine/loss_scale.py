"""The loss scale of float16 training: keeps small gradients from becoming zero.

Dynamic loss scaling as in Micikevicius et al. (2018), "Mixed Precision Training", section 3.2.
Keras' LossScaleOptimizer looks for overflow on replica 0 only (keras #19891, Keras 3.15); this
one is told what the gradients summed over all replicas look like.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

FIRST_VALUE = 2.0**15
GROWTH_INTERVAL = 2000  # good steps after which the scale is doubled
LARGEST = 2.0**127  # in float32; nothing overflows where all that is trained is in float32


class LossScale(NamedTuple):
    """The state that a step hands to the next.

    Attributes:
        value: float32 scalar that losses are multiplied by.
        good_steps: int64 scalar, finite steps since the value last changed.
    """

    value: tf.Tensor
    good_steps: tf.Tensor


class LossScaling:
    """Scales losses, unscales gradients, and adapts the scale.

    Args:
        enabled: False for every precision but float16; then nothing is scaled, at no cost.
    """

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def start(self) -> LossScale:
        """The state before the first step."""
        return LossScale(tf.constant(FIRST_VALUE if self.enabled else 1.0), tf.zeros((), tf.int64))

    def scale(self, loss: tf.Tensor, state: LossScale) -> tf.Tensor:
        """The loss to take gradients of."""
        return loss * tf.cast(state.value, loss.dtype) if self.enabled else loss

    def unscale(self, gradients: list[tf.Tensor], state: LossScale) -> list[tf.Tensor]:
        """The gradients of the unscaled loss; float32 for those of float16 variables.

        In float16 a scale of 2**16 is infinite, and small gradients are 0 once they are divided.
        """
        if not self.enabled:
            return gradients
        wide = [tf.cast(g, tf.float32) if g.dtype == tf.float16 else g for g in gradients]
        return [gradient / tf.cast(state.value, gradient.dtype) for gradient in wide]

    def is_overflow(
        self, losses_finite: tf.Tensor, gradients_finite: tf.Tensor, state: LossScale
    ) -> tf.Tensor:
        """Whether a smaller scale may help: gradients overflow, the losses don't; bool scalar."""
        if not self.enabled:
            return tf.constant(False)
        return losses_finite & ~gradients_finite & (state.value > 1.0)

    def update(self, state: LossScale, finite: tf.Tensor, overflow: tf.Tensor) -> LossScale:
        """The state after a step: halved by an overflow, doubled by enough good steps in a row."""
        if not self.enabled:
            return state
        zero = tf.zeros((), tf.int64)
        good_steps = tf.where(overflow, zero, state.good_steps + tf.cast(finite, tf.int64))
        grow = good_steps >= GROWTH_INTERVAL
        value = tf.where(grow, tf.minimum(state.value, LARGEST / 2) * 2.0, state.value)
        value = tf.where(overflow, tf.maximum(state.value / 2.0, 1.0), value)
        return LossScale(value, tf.where(grow, zero, good_steps))
