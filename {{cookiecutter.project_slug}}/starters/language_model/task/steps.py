"""One replica's share of a step: plain Keras, nothing applied, no word about other replicas.

What a step returns, {"main": loss} here, names the optimizer that makes the loss smaller. Metrics
are updated as usual. The engine takes the gradients, sums them, and commits everything or nothing.
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
from .model import complete

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, targets and weights, each (batch, T)


# TODO(11): one train step; predicts, computes the loss and updates the metrics.
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share in training."""
    logits, loss = _predict(run, batch, replica, training=True)
    _count_matches(run, batch, tf.argmax(logits, axis=-1, output_type=tf.int32))
    return loss


# TODO(13): one validation step; the same without dropout.
def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share of validation data."""
    logits, loss = _predict(run, batch, replica, training=False)
    # One pass finds what writing token by token would: greedy decoding gives the whole answer just
    # where each token is the likeliest after the right ones before it.
    _count_matches(run, batch, tf.argmax(logits, axis=-1, output_type=tf.int32))
    return loss


# TODO(14): one test step; lets the model write every answer, from the prompt alone.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's share of test data."""
    tokens, _, weights = batch
    _, loss = _predict(run, batch, replica, training=False)
    _count_matches(run, batch, complete(run.model, tokens, weights))
    return loss


TRAIN_STEPS = (train_step,)  # run one after the other in every step; a GAN has two


def _predict(
    run: Run, batch: Batch, replica: Replica, *, training: bool
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    tokens, targets, weights = batch
    logits = run.model(tokens, training=training)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    return logits, {"main": compute_loss(per_token, weights, run.model, replica)}


def _count_matches(run: Run, batch: Batch, written: tf.Tensor) -> None:
    _, targets, weights = batch
    run.metrics["exact_match"].update_state(targets, written, weights)
