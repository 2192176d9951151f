"""`check` names the fault of a toy that has one, and finds none in a sound one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.check import RELATIONS, check, select
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .faulty import (
    FAULTS,
    Fault,
    dense,
    dropped_out,
    examples,
    masked_contrastive_step,
    model,
    regression,
    regularized,
    sound,
    stream,
)
from .toys import FEATURES, Toy, laboratory
from .worked import CONTRASTIVE, GAN, parts, tokens

# Keras warns of some of these faults.
pytestmark = pytest.mark.filterwarnings("ignore:.*does not represent logits")


@pytest.mark.parametrize("name", RELATIONS)
def test_every_relation_has_a_faulty_toy(name: str) -> None:
    assert name in {fault.relation for fault in FAULTS}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.relation}: {fault.says}")
def test_a_fault_is_named(fault: Fault) -> None:
    finding = RELATIONS[fault.relation].observe(laboratory(fault.toy(), **fault.flags))
    assert finding.verdict == fault.verdict, finding
    assert re.search(fault.says, str(finding)), finding


def findings(toy: Toy, **flags: object) -> dict[str, str]:
    """The findings that aren't "ok", by relation; not that of time, which depends on the machine."""
    found = check(laboratory(toy, **flags), [n for n in select(()) if n != "data keeps up"])
    return {name: str(finding) for name, finding in found if finding.verdict != "ok"}


class AddsLoss(keras.layers.Layer):
    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(name="scale", shape=(shape[-1],), initializer="ones")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.add_loss(0.1 * tf.reduce_sum(tf.square(self.scale)))
        return x * self.scale


def counted_for_each_optimizer(batch: Any) -> dict[str, tf.Tensor]:
    counted = tf.math.count_nonzero(batch[-1], dtype=tf.int32)
    return {"discriminator": counted, "generator": 2 * counted}


def autoencoder() -> Toy:
    def rebuild(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, weights = batch
        per_example = tf.reduce_mean(tf.square(run.model(inputs) - inputs), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=model(dense, last=lambda: dense(FEATURES)),
        data=examples()[:1],
        others={"validation": examples(60, 2)[:1]},
        train_steps=(rebuild,),
        validation_step=rebuild,
        losses=dict,
        metrics=dict,
    )


def weights_of_words() -> Toy:
    """Weights (rows, words), a third of them 0."""

    def weighted_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        per_word = run.losses["main"](labels, run.model(words, training=True))
        return {"main": compute_loss(*flat(per_word, weights), run.model, replica)}

    def flat(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return [tf.reshape(t, [-1]) for t in tensors]

    words, labels = tokens().data
    weights = (np.arange(words.size).reshape(words.shape) % 3 > 0).astype("float32")
    return replace(
        tokens(),
        data=(words, labels, weights),
        train_steps=(weighted_step,),
        count=lambda batch: tf.math.count_nonzero(batch[-1], dtype=tf.int32),
    )


def unusual_augment(batch: Any, seed: tf.Tensor) -> Any:
    inputs, *others = batch
    return (inputs + 0.1 * tf.random.stateless_normal(tf.shape(inputs), seed), *others)


SOUND: dict[str, tuple[Callable[[], Toy], dict[str, Any]]] = {
    "plain": (sound, {}),
    "dropout": (lambda: dropped_out(training=True), {}),
    "batch normalization": (lambda: sound(model=model(keras.layers.BatchNormalization)), {}),
    "add_loss": (lambda: sound(model=model(AddsLoss)), {}),
    "regularizers": (lambda: regularized(loss=compute_loss), {}),
    "numbers to predict": (regression, {}),
    "parts that count, and terms": (lambda: parts(96), {}),
    "two models and optimizers": (lambda: GAN, {}),
    "a count for each optimizer": (lambda: replace(GAN, count=counted_for_each_optimizer), {}),
    "words that count": (tokens, {}),
    "weights of several axes": (weights_of_words, {}),
    "streams": (
        lambda: sound(data=stream(examples()), others={"validation": stream(examples(60, 2))}),
        {},
    ),
    "no validation data": (lambda: sound(others={}), {}),
    "no labels": (autoencoder, {}),
    "an odd batch size": (sound, {"global_batch_size": 23}),
    "one row": (sound, {"global_batch_size": 1}),
    "one batch for each replica": (sound, {"global_batch_size": None, "batch_size_per_replica": 7}),
    "padded batches": (sound, {"global_batch_size": 36, "last_batch": "pad"}),
    "a batch larger than the data": (sound, {"global_batch_size": 100, "last_batch": "pad"}),
    "augmentation": (lambda: sound(augment=unusual_augment), {}),
    "interacting examples": (
        lambda: replace(CONTRASTIVE, train_steps=(masked_contrastive_step,)),
        {},
    ),
    "all flags of a step": (
        sound,
        {"accumulate": 2, "clip_norm": 1.0, "precision": "bfloat16", "denominator": "global_batch"},
    ),
}


@pytest.mark.parametrize(("toy", "flags"), SOUND.values(), ids=SOUND)
def test_a_sound_toy_is_not_accused(toy: Callable[[], Toy], flags: dict[str, Any]) -> None:
    assert not findings(toy(), **flags)
