"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss by the name of the model
and optimizer that it is for.
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)


# TODO(11): one train step; default: trains the discriminator to tell real images from generated
# ones, then the generator to mislead it.
def discriminator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the discriminator's training loss."""
    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    # The engine (engine/distributed_steps.py) computes the gradients of this loss, sums them over
    # all replicas, clips them if --clip-norm says so, and updates the discriminator.
    return {"discriminator": compute_loss(per_example, weights, discriminator, replica)}


def generator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same for the generator, judged by the discriminator that was just updated."""
    _, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["generator"](on_generated)  # (batch,)
    return {"generator": compute_loss(per_example, weights, generator, replica)}


# TODO(13): one validation step; default: both losses with training=False.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contributions to both validation losses."""
    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=False)  # (batch, h, w, channels)
    on_real = discriminator(images, training=False)  # (batch, 1)
    on_generated = discriminator(generated, training=False)  # (batch, 1)
    discriminator_losses = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    generator_losses = run.losses["generator"](on_generated)  # (batch,)
    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    return {
        "discriminator": compute_loss(discriminator_losses, weights, discriminator, replica),
        "generator": compute_loss(generator_losses, weights, generator, replica),
    }


# TODO(14): one test step; default: the same as in validation.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contributions to both test losses."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (discriminator_step, generator_step)  # called in this order on the same batch
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss or metric depends on others of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
