"""Toys for several tests: tokens and parts that count, a GAN, a loss that crosses replicas."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .toys import BATCH, CLASSES, FEATURES, Toy, plain_data

layers = keras.layers


def _tokens_model() -> keras.Model:
    words = keras.Input((FEATURES,), dtype="int32")
    return keras.Model(words, layers.Dense(CLASSES)(layers.Embedding(7, 3)(words)))


def _tokens_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    words, labels, weights = batch
    weights = weights[:, tf.newaxis] * tf.cast(words > 0, weights.dtype)  # (batch, words)
    per_token = run.losses["main"](labels, run.model(words, training=True))  # (batch, words)
    flat = [tf.reshape(t, [-1]) for t in (per_token, weights)]
    return {"main": compute_loss(*flat, run.model, replica)}


def _count_tokens(batch: Any) -> tf.Tensor:
    words, _, weights = batch
    return tf.math.count_nonzero((words > 0) & (weights[:, tf.newaxis] > 0), dtype=tf.int32)


def tokens(rows: int = 48) -> Toy:
    """Token 0 is padding; the loss is a mean over the others."""
    random = np.random.default_rng(0)
    data = random.integers(0, 7, (rows, FEATURES)), random.integers(0, CLASSES, (rows, FEATURES))
    return Toy(
        _tokens_model, lambda: keras.optimizers.Adam(0.01), data, (_tokens_step,),
        metrics=dict, count=_count_tokens,
    )  # fmt: skip


def _parts_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    logits = run.model(inputs, training=True)
    of_class_0 = weights * tf.cast(labels == 0, weights.dtype)
    parts = {
        "all": (run.losses["main"](labels, logits), weights),
        "class 0": (tf.square(logits[:, 0]), of_class_0),
    }
    terms = {
        name: tf.nn.compute_average_loss(
            per_example, sample_weight=weights, global_batch_size=replica.global_count[name]
        )
        for name, (per_example, weights) in parts.items()
    }
    return {"main": tf.add_n(terms.values()), **terms}


def _count_parts(batch: Any) -> dict[str, tf.Tensor]:
    _, labels, weights = batch
    return {
        "all": tf.math.count_nonzero(weights, dtype=tf.int32),
        "class 0": tf.math.count_nonzero((weights > 0) & (labels == 0), dtype=tf.int32),
    }


def parts(rows: int = BATCH + 1) -> Toy:
    """A loss of two parts, each with a denominator of its own; the second is often 0."""
    inputs, labels = plain_data(rows)
    labels[:-3] = np.maximum(labels[:-3], 1)
    labels[-3:] = 0
    return Toy(
        optimizer=lambda: keras.optimizers.Adam(0.01), data=(inputs, labels),
        train_steps=(_parts_step,), terms=("all", "class 0"), count=_count_parts, metrics=dict,
    )  # fmt: skip


def _gan_models() -> dict[str, keras.Model]:
    noise, real = keras.Input((2,)), keras.Input((FEATURES,))
    hidden = layers.Dense(4, activation="tanh")
    return {
        "discriminator": keras.Model(real, layers.Dense(1)(layers.Dense(4, "tanh")(real))),
        "generator": keras.Model(noise, layers.Dense(FEATURES)(hidden(noise))),
    }


def _adversary(wanted: float) -> Any:
    def loss(run: Run, inputs: tf.Tensor, weights: tf.Tensor, replica: Replica) -> tf.Tensor:
        logits = run.models["discriminator"](inputs, training=True)[:, 0]
        labels = tf.fill(tf.shape(logits), tf.constant(wanted, logits.dtype))
        per_example = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        return compute_loss(per_example, weights, run.models["discriminator"], replica)

    return loss


_looks_real, _looks_false = _adversary(1.0), _adversary(0.0)


def _discriminator_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    real, noise, weights = batch
    false = run.models["generator"](noise, training=True)
    loss = _looks_real(run, real, weights, replica) + _looks_false(run, false, weights, replica)
    run.metrics["discriminator"].update_state(weights * 0 + 1, weights)
    return {"discriminator": loss}


def _generator_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    _, noise, weights = batch
    false = run.models["generator"](noise, training=True)
    return {"generator": _looks_real(run, false, weights, replica)}


_random = np.random.default_rng(0)
GAN = Toy(
    _gan_models,
    lambda: {
        "discriminator": keras.optimizers.Adam(0.01),
        "generator": keras.optimizers.SGD(0.1, momentum=0.9),
    },
    # The noise is data here, so that it doesn't depend on the number of replicas.
    (_random.normal(size=(48, FEATURES)), _random.normal(size=(48, 2))),
    (_discriminator_step, _generator_step),
    losses=dict,
    metrics=lambda: {"discriminator": keras.metrics.Mean()},
)


def _contrastive_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Each example's two views find each other among those of all replicas (InfoNCE)."""
    left, right, weights = batch
    a, b = (tf.math.l2_normalize(run.model(x, training=True), axis=1) for x in (left, right))
    everyone = replica.all_gather(b)  # (rows of all replicas, features)
    logits = 5.0 * tf.matmul(a, everyone, transpose_b=True)
    first = tf.distribute.get_replica_context().replica_id_in_sync_group * tf.shape(a)[0]
    mine = first + tf.range(tf.shape(a)[0])
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(mine, logits)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


_views = _random.normal(size=(48, FEATURES))
CONTRASTIVE = Toy(
    lambda: keras.Sequential([keras.Input((FEATURES,)), layers.Dense(4, "tanh"), layers.Dense(3)]),
    lambda: keras.optimizers.Adam(0.01),
    (_views, _views + 0.1 * _random.normal(size=_views.shape)),
    (_contrastive_step,),
    losses=dict,
    metrics=dict,
    examples_interact=True,
)
