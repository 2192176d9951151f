"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
from .model import complete

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, targets and weights, each (batch, T)


# TODO(11): one train step; default: predicts, updates the metrics and returns the loss.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    tokens, targets, weights = batch
    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    run.metrics["exact_match"].update_state(targets, likeliest, weights)
    # The engine (engine/distributed_steps.py) computes the gradients of this loss, sums them over
    # all replicas, clips them if --clip-norm says so, and updates the weights.
    return {"main": compute_loss(per_token, weights, run.model, replica)}


# TODO(13): one validation step; default: the same with training=False.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    tokens, targets, weights = batch
    logits = run.model(tokens, training=False)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    # One pass shows whether greedy decoding gives the whole answer: it does if each token is the
    # likeliest after the right ones before it.
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    run.metrics["exact_match"].update_state(targets, likeliest, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}


# TODO(14): one test step; default: lets the model write every answer, given the prompt alone.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    tokens, targets, weights = batch
    logits = run.model(tokens, training=False)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    written = complete(run.model, tokens, weights)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    run.metrics["exact_match"].update_state(targets, written, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss or metric depends on others of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
