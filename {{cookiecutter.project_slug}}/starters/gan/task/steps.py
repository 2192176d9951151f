"""One replica's share of a step: plain Keras, nothing applied, no word about other replicas.

What a step returns, such as {"generator": loss}, names the optimizer that makes the loss smaller,
and the model that changes. Metrics are updated as usual. The engine takes the gradients, sums them,
and commits everything or nothing.
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents and weights of one replica


# TODO(11): one train step, here in two halves; the discriminator learns to tell real images from
# generated ones, then the generator learns to mislead it.
def discriminator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The discriminator's loss of this replica's share in training."""
    images, latents, weights = batch
    generated = run.models["generator"](latents, training=True)  # (batch, h, w, channels)
    _update_metrics(run, images, generated, weights)
    return _discriminator_loss(run, images, generated, weights, replica, training=True)


def generator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The generator's loss of this replica's share, against the discriminator as it now is."""
    _, latents, weights = batch
    generated = run.models["generator"](latents, training=True)  # (batch, h, w, channels)
    return _generator_loss(run, generated, weights, replica, training=True)


# TODO(13): one validation step; both losses without dropout.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The losses of this replica's share of validation data."""
    images, latents, weights = batch
    generated = run.models["generator"](latents, training=False)  # (batch, h, w, channels)
    _update_metrics(run, images, generated, weights)
    return {
        **_discriminator_loss(run, images, generated, weights, replica, training=False),
        **_generator_loss(run, generated, weights, replica, training=False),
    }


# TODO(14): one test step; the same as in validation.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The losses of this replica's share of test data."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (discriminator_step, generator_step)  # run one after the other in every step


def _discriminator_loss(
    run: Run,
    real: tf.Tensor,
    generated: tf.Tensor,
    weights: tf.Tensor,
    replica: Replica,
    *,
    training: bool,
) -> dict[str, tf.Tensor]:
    model, loss = run.models["discriminator"], run.losses["main"]
    on_real, on_generated = (model(x, training=training) for x in (real, generated))  # (batch, 1)
    errors = loss(tf.ones_like(on_real), on_real)  # (batch,)
    errors += loss(tf.zeros_like(on_generated), on_generated)
    return {"discriminator": compute_loss(errors / 2, weights, model, replica)}


def _generator_loss(
    run: Run, generated: tf.Tensor, weights: tf.Tensor, replica: Replica, *, training: bool
) -> dict[str, tf.Tensor]:
    logits = run.models["discriminator"](generated, training=training)  # (batch, 1)
    # "Real" is the label, and not the discriminator's loss with another sign, which would give no
    # gradient where the discriminator is sure (Goodfellow et al., 2014).
    errors = run.losses["main"](tf.ones_like(logits), logits)  # (batch,)
    return {"generator": compute_loss(errors, weights, run.models["generator"], replica)}


def _update_metrics(run: Run, real: tf.Tensor, generated: tf.Tensor, weights: tf.Tensor) -> None:
    run.metrics["frechet"].update_state(real, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
