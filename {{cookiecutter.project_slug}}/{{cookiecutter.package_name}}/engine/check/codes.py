"""Relations of latent codes that are drawn at random, as in a variational autoencoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .explain import COARSE
from .findings import Finding, look, ok, relation, wrong
from .graph import multiplies_by
from .laboratory import Laboratory
from .numbers import TOLERANCE

BATCHES = 6  # that show which terms a loss is the sum of
LEAST_NUMBERS = 8  # of an example, so that a mean differs clearly from a sum
# Of a deviation: its variance, and what is used instead with a factor of 0.5 too few or too many.
POWERS = (2, 1, 4)


@relation("drawn codes", after="the same step again")
def drawn_codes(lab: Laboratory) -> Finding:
    """The KL divergence of a latent code fits its deviation and the scale of the error."""
    if not len(lab.base.codes) == len(lab.base.calls) == len(lab.run.optimizers) == 1:
        return ok("not looked at: there are none")
    mean, deviation = lab.base.codes[0]
    cut = [a.min() == least and np.mean(a == least) > 0.1
           for a, least in ((mean, 0), (deviation, 1))]  # fmt: skip
    # For rates, as of a Poisson distribution, the deviation follows from the mean.
    if all(cut) and not np.array_equal(mean == 0, deviation == 1):
        return wrong(
            "the mean of a latent code is never below 0, and its standard deviation never below 1",
            "an activation clips the mean and the deviation that the code is drawn with",
            "remove the activation from the last layer of the encoder",
        )
    weights, (call,) = tf.nest.flatten(lab.batch[-1]), lab.base.calls.values()
    values = call[-1]
    if len(weights) != 1 or weights[0].shape.rank != 2 or not lab.base.finite:
        return ok("not looked at: an example has several weights")
    if values is None or not np.size(values) or np.size(values) % lab.rows:
        return ok("not looked at: a loss does not give one number per example")
    rows = [_parts(lab, batch) for batch in lab.batches.dataset(0, BATCHES)]
    loss, error, *divergences = np.array(rows).T
    fits, size = [], np.abs(loss).max()
    for power, divergence in zip(POWERS, divergences, strict=True):
        parts = np.stack([error, divergence, np.ones_like(error)], axis=1)  # 1: regularization
        factors = np.linalg.lstsq(parts, loss, rcond=None)[0]
        rest = float(np.abs(loss - parts @ factors).max() / size)
        fits.append((rest, power, factors, divergence))
    rest, power, (of_error, of_divergence, more), divergence = min(fits, key=lambda fit: fit[0])
    if rest > TOLERANCE / 10 or abs(of_divergence) * np.ptp(divergence) < 10 * rest * size:
        return ok("not looked at: the loss is not the sum of one error and the divergence")
    if power != POWERS[0] and fits[0][0] > 10 * rest:
        return wrong(
            "the noise of a latent code is multiplied by the "
            f"{'variance' if power == 1 else 'root of the standard deviation'} of the "
            "distribution whose KL divergence is in the loss",
            "the log-variance is used as that of the standard deviation, or the reverse",
            "multiply the noise by tf.exp(0.5 * log_variance), or by tf.exp(log_deviation)",
        )
    # The distance from a capacity may be added instead (Burgess et al., 2018).
    least = 0.1 * abs(of_divergence) * divergence.mean()
    is_apart = abs(more - lab.total_regularization) > least
    if of_divergence < 0 and not is_apart:
        return wrong("the KL divergence of a latent code is subtracted from the error")
    numbers = _averages_over(*call)
    if numbers >= LEAST_NUMBERS and abs(of_divergence / of_error - 1) < COARSE:
        # A division by that number elsewhere may be a chosen factor, as in a beta-VAE.
        is_chosen = multiplies_by(lab.traced.ops, {float(numbers), 1 / numbers})
        return (look if is_chosen else wrong)(
            f"the error of an example is a mean over its {numbers} numbers, but the KL divergence "
            "of its latent code is a sum, and the loss adds them without a factor",
            f"the divergence weighs {numbers} times as much as in the evidence lower bound "
            "(ELBO), so the code collapses and carries no information (posterior collapse)",
            "sum the error over the example with tf.reduce_sum",
        )
    return ok()


def _parts(lab: Laboratory, batch: Any) -> list[float]:
    """The loss of a batch in the last step, its mean error, and its divergence for each of POWERS.

    The divergences are from the standard normal distribution (Kingma & Welling, 2014, appendix B).
    """
    seen, weights = lab.look(batch, step=lab.num_steps - 1), np.ravel(*tf.nest.flatten(batch[-1]))
    ((mean, deviation),), ((_, _, values),) = seen.codes, seen.calls.values()
    of_examples = [np.reshape(values, (len(weights), -1)).mean(axis=1)]
    for power in POWERS:
        variance = deviation.astype("f8") ** power
        of_examples.append(0.5 * np.sum(mean**2 + variance - np.log(variance) - 1, axis=1))
    (loss,) = (seen.losses[name] for name in lab.run.optimizers)
    return [loss, *(float(weights @ each) / seen.counted for each in of_examples)]


def _averages_over(labels: Any, predictions: Any, values: Any) -> int:
    """How many numbers an error is the mean of, if it is one of the usual errors; 0 if not."""
    if labels is None or predictions is None or np.shape(labels) != np.shape(predictions):
        return 0
    y, p = (np.reshape(a, (len(a), -1)).astype("f8") for a in (labels, predictions))
    errors = [(y - p) ** 2, np.abs(y - p)]
    if min(y.min(), p.min()) >= 0 and max(y.max(), p.max()) <= 1:
        p = np.clip(p, 1e-7, 1 - 1e-7)
        p = np.log(p / (1 - p))
    errors.append(np.logaddexp(0, p) - y * p)  # of logits
    of_examples = np.reshape(values, (len(y), -1)).mean(axis=1)
    for error in errors:
        ratios = of_examples / np.maximum(error.mean(axis=1), 1e-9)
        if 0.4 < ratios.mean() < 1.1 and np.ptp(ratios) < COARSE:
            return y.shape[1]
    return 0
