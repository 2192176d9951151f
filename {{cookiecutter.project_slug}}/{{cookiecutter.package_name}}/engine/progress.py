"""State passed from step to step in addition to variables: sums, skipped steps, loss scale."""

from __future__ import annotations

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from .loss_scale import LossScale, LossScaling


class Sums(NamedTuple):
    """What the mean losses are computed from.

    Attributes:
        counts: int64 (losses,), the sums of the global counts.
        losses: float64 (losses,), the sum of each loss times its step's global count.
    """

    counts: tf.Tensor
    losses: tf.Tensor

    @classmethod
    def zero(cls, num_losses: int) -> Sums:
        """Nothing added yet."""
        return cls(tf.zeros(num_losses, tf.int64), tf.zeros(num_losses, tf.float64))

    def means(self) -> np.ndarray:
        """The mean losses, float64 (losses,); NaN if nothing was added."""
        return mean_losses(self.counts.numpy(), self.losses.numpy())

    def add(self, counts: tf.Tensor, losses: tf.Tensor) -> Sums:
        """The sums with one more step: counts int (losses,), losses float (losses,)."""
        # Where nothing counts, a loss that divides by something else may be 0 / 0.
        weighted = tf.math.multiply_no_nan(tf.cast(losses, tf.float64), tf.cast(counts, tf.float64))
        return Sums(self.counts + tf.cast(counts, tf.int64), self.losses + weighted)


def mean_losses(counts: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Sums of losses times counts -> mean losses, float64 (losses,); NaN where nothing counts."""
    return losses / np.where(counts, counts, np.nan)


class LatestStep(NamedTuple):
    """What the latest step gave.

    Attributes:
        losses: float (losses,).
        gradient_norm: float scalar, global norm before clipping.
    """

    losses: tf.Tensor
    gradient_norm: tf.Tensor


class Skips(NamedTuple):
    """Steps that were dropped because a loss or gradient was not finite.

    Attributes:
        total: int64 scalar.
        in_a_row: int64 scalar, up to the latest step.
        last_step: int64 scalar, the step that was last dropped, -1 for none.
        last_losses: float (losses,), what the losses were at that step.
        overflows: int64 scalar, float16 steps dropped for a smaller loss scale; not in `total`.
    """

    total: tf.Tensor
    in_a_row: tf.Tensor
    last_step: tf.Tensor
    last_losses: tf.Tensor
    overflows: tf.Tensor


class Progress(NamedTuple):
    """How far training has come.

    Attributes:
        step: int64 scalar, train steps made.
        sums: over the steps since the last validation.
        latest: the latest step.
        skips: the dropped steps.
        loss_scale: of float16 training.
    """

    step: tf.Tensor
    sums: Sums
    latest: LatestStep
    skips: Skips
    loss_scale: LossScale

    def after(
        self,
        *,
        losses: tf.Tensor,
        counts: tf.Tensor,
        gradient_norm: tf.Tensor,
        gradients_finite: tf.Tensor,
        losses_finite: tf.Tensor,
        finite: tf.Tensor,
        loss_scaling: LossScaling,
    ) -> Progress:
        """The progress after one more step.

        Args:
            losses: float (losses,).
            counts: int64 (losses,), the step's global counts.
            gradient_norm: float scalar.
            gradients_finite: bool scalar, whether all gradients are.
            losses_finite: bool scalar, whether all that is trained on is.
            finite: bool scalar, whether the step was committed.
            loss_scaling: adapts the loss scale.
        """
        # Not `finite`: no loss scale mends a learning rate that is no number.
        overflow = loss_scaling.is_overflow(losses_finite, gradients_finite, self.loss_scale)
        dropped = ~finite & ~overflow
        one = tf.ones((), tf.int64)
        counted = self.sums.add(tf.where(finite, counts, 0), tf.where(finite, losses, 0.0))
        skips = Skips(
            total=self.skips.total + tf.cast(dropped, tf.int64),
            in_a_row=tf.where(dropped, self.skips.in_a_row + one, 0),
            last_step=tf.where(dropped, self.step, self.skips.last_step),
            last_losses=tf.where(dropped, losses, self.skips.last_losses),
            overflows=self.skips.overflows + tf.cast(overflow, tf.int64),
        )
        return Progress(
            step=self.step + one,
            sums=counted,
            latest=LatestStep(losses, gradient_norm),
            skips=skips,
            loss_scale=loss_scaling.update(self.loss_scale, finite, overflow),
        )


def start(num_losses: int, loss_scaling: LossScaling) -> Progress:
    """The progress of a run that has made no step."""
    zero, losses = tf.zeros((), tf.int64), tf.zeros(num_losses, keras.config.floatx())
    return Progress(
        step=zero,
        sums=Sums.zero(num_losses),
        latest=LatestStep(losses, tf.zeros((), keras.config.floatx())),
        skips=Skips(zero, zero, zero - 1, losses, zero),
        loss_scale=loss_scaling.start(),
    )
