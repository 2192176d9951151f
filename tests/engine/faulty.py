"""Toys that each have one fault, and what `check` says of it."""

from __future__ import annotations

import csv
import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from proof.engine.callbacks import (
    Callback,
    Event,
    at_step,
    every_epochs,
    every_secs,
    every_steps,
    every_validation,
)
from proof.engine.keras_callbacks import keras_callback
from proof.engine.random_access import RandomAccess
from proof.engine.types import Replica, Run
from proof.task.config import TaskConfig
from proof.task.losses import compute_loss

from .toys import BATCH, CLASSES, FEATURES, Toy, laboratory, step_of
from .worked import CONTRASTIVE, GAN, tokens

layers, losses, metrics = keras.layers, keras.losses, keras.metrics
ROWS = 4 * BATCH
SEEDS = itertools.count()


def examples(rows: int = ROWS, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (rows, 5) that show the labels (rows,); of another seed, other examples."""
    numbers = np.random.default_rng(seed)
    labels = numbers.integers(0, CLASSES, rows)
    inputs = numbers.normal(size=(rows, FEATURES)) + labels[:, np.newaxis]
    return inputs.astype("float32"), labels


def step(
    *,
    loss: Callable[..., tf.Tensor] = compute_loss,
    update: Callable[..., Any] = lambda metric, labels, predictions, weights: metric.update_state(
        labels, predictions, weights
    ),
    training: bool = True,
    mean: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A step of one model, of a loss (per example, weights, model, replica) -> scalar.

    `mean` is a metric's update with the loss alone, instead of `update`.
    """

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        predictions = run.model(inputs, training=training)
        total = loss(run.losses["main"](labels, predictions), weights, run.model, replica)
        for metric in run.metrics.values():
            if mean:
                mean(metric, total)
            else:
                update(metric, labels, predictions, weights)
        return {"main": total}

    return one_step


def one_hot_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A step whose loss gets zeros and ones for the numbers of classes."""
    inputs, labels, weights = batch
    return step()(run, (inputs, tf.one_hot(labels, CLASSES), weights), replica)


def called_twice(again: Callable[..., tf.Tensor]) -> Toy:
    """A loss of probabilities is called with them, and then as (run, labels, logits) asks for."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        per_example = run.losses["main"](labels, tf.nn.softmax(logits))
        per_example += 0.5 * again(run, labels, logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        train_steps=(own,), validation_step=own, metrics=dict,
        losses=lambda: {"main": losses.SparseCategoricalCrossentropy(reduction="none")},
    )  # fmt: skip


def centered_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A step that takes away the mean that the task adapted to."""
    inputs, *rest = batch
    return step()(run, (inputs - run.adapted["mean"], *rest), replica)  # type: ignore[no-any-return]


def squared_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A step that computes its loss by itself."""
    inputs, labels, weights = batch
    per_example = tf.square(run.model(inputs, training=True)[:, 0] - labels)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def sound(**changes: Any) -> Toy:
    """A toy with validation and test data, and no fault but those in `changes`."""
    parts: dict[str, Any] = {
        "data": examples(),
        "others": {"validation": examples(60, 2), "test": examples(40, 3)},
        "train_steps": (step(),),
        "validation_step": step(training=False),
    }
    return Toy(**parts | changes)


def with_loss(loss: Callable[..., tf.Tensor], **changes: Any) -> Toy:
    """A toy that computes another loss, in training and in evaluation."""
    return sound(
        train_steps=(step(loss=loss),),
        validation_step=step(loss=loss, training=False),
        **changes,
    )


def model(*hidden: Any, last: Any = None) -> Callable[[], keras.Model]:
    """A model of the layers that these functions make, and one that gives logits."""

    def create() -> keras.Model:
        made = [create_layer() for create_layer in (*hidden, last or (lambda: dense(CLASSES)))]
        return keras.Sequential([keras.Input((FEATURES,)), *made])

    return create


def dense(units: int = 4, **arguments: Any) -> keras.layers.Layer:
    """A layer of a few weights."""
    return layers.Dense(units, **arguments)


def regression(last: Callable[[], Any] | None = None, **changes: Any) -> Toy:
    """A number to predict for each example, below 0 as often as above."""

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        inputs -= 1
        return inputs, inputs.sum(axis=1)

    parts: dict[str, Any] = {
        "model": model(last=last or (lambda: dense(1))),
        "data": labeled(ROWS, 1),
        "others": {"validation": labeled(60, 2)},
        "losses": lambda: {"main": lambda y, p: tf.square(p[:, 0] - y)},
        "metrics": dict,
        "optimizer": lambda: keras.optimizers.Adam(0.05),
    }
    return sound(**parts | changes)


class Slope(keras.Model):
    """The derivatives by the inputs of what two layers make of them."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        self.layers_of_energy = [dense(8, activation=activation), dense(1, use_bias=False)]

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Of (batch, n): (batch, n)."""
        with tf.GradientTape() as tape:
            tape.watch(x)
            energy = x
            for layer in self.layers_of_energy:
                energy = layer(energy)
        return tape.gradient(energy, x)


def slopes(activation: str) -> Toy:
    """Forces, as the derivatives of an energy that is learned."""

    def made() -> keras.Model:
        model = Slope(activation)
        model(tf.zeros((1, FEATURES)))
        return model

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        return inputs, np.sin(inputs)

    return regression(
        model=made, data=labeled(ROWS, 1), others={"validation": labeled(60, 2)},
        losses=lambda: {"main": lambda y, p: tf.reduce_mean(tf.square(p - y), axis=1)},
    )  # fmt: skip


def lowered(function: Callable[..., float]) -> list[Any]:
    """A callback that sets the learning rate of each epoch."""
    return [keras_callback(keras.callbacks.LearningRateScheduler(function))]


def judged_by(number: Callable[[Any, Any], Any], name: str) -> Toy:
    """A regression with a mean of a number that is made of labels and predictions (rows,)."""

    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        metric.update_state(tf.cast(number(labels, predictions[:, 0]), tf.float32), weights)

    return regression(
        metrics=lambda: {name: metrics.Mean()}, train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )  # fmt: skip


def of_logarithm() -> Toy:
    """A positive number for each example, of which the model gives the logarithm."""
    made = regression().data
    numbers = {"train": made, "validation": regression().others["validation"]}
    exponents = {name: (x, np.exp(y / 4).astype("float32")) for name, (x, y) in numbers.items()}

    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        metric.update_state(tf.abs(tf.exp(predictions[:, 0]) - labels) / labels, weights)

    return regression(
        data=exponents["train"], others={"validation": exponents["validation"]},
        losses=lambda: {"main": lambda y, p: tf.square(p[:, 0] - tf.math.log(y))},
        metrics=lambda: {"relative": metrics.Mean()}, train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )  # fmt: skip


def within(labels: Any, predictions: Any) -> Any:
    """Whether predictions are near."""
    return tf.abs(labels - predictions) < 1


def shares_or_unknown(left_out: bool) -> Toy:
    """Three shares of 0 to 1 for each example, a third of them -1: unknown, and left out or not."""

    def labels_of(inputs: np.ndarray) -> np.ndarray:
        unknown = np.random.default_rng(4).random((len(inputs), 3)) < 1 / 3
        return np.where(unknown, -1, 1 / (1 + np.exp(-inputs[:, :3]))).astype("float32")

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        losses = run.losses["main"](labels, run.model(inputs, training=True))
        known = tf.cast(labels >= 0, losses.dtype) if left_out else tf.ones_like(losses)
        per_example = tf.reduce_mean(losses * known, axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return several_numbers(
        labels_of, model=model(last=lambda: dense(3, activation="sigmoid")),
        train_steps=(one_step,), validation_step=one_step,
        losses=lambda: {"main": lambda y, p: tf.square(p - tf.cast(y, p.dtype))},
    )  # fmt: skip


def several_numbers(labels_of: Callable[[np.ndarray], np.ndarray], **changes: Any) -> Toy:
    """Several numbers to predict for each example, that are made of its inputs."""
    splits = [(x, labels_of(x)) for x, _ in (examples(), examples(60, 2))]
    parts: dict[str, Any] = {
        "model": model(last=lambda: dense(splits[0][1].shape[1])),
        "data": splits[0],
        "others": {"validation": splits[1]},
        "losses": lambda: {"main": losses.MeanSquaredError(reduction="none")},
        "metrics": dict,
    }
    return sound(**parts | changes)


def binary(**changes: Any) -> Toy:
    """Two classes and one logit."""
    inputs, labels = examples()
    parts: dict[str, Any] = {
        "model": model(last=lambda: dense(1)),
        "data": (inputs, (labels > 0).astype("float32")[:, np.newaxis]),
        "losses": lambda: {"main": losses.BinaryCrossentropy(from_logits=True, reduction="none")},
        "metrics": lambda: {"accuracy": metrics.BinaryAccuracy()},
        "others": {},
    }
    return sound(**parts | changes)


def scored(score: Callable[[Any], Any]) -> Toy:
    """Two classes, and the AUC of a score that is made of the logit."""

    class OfLogits(metrics.AUC):
        def update_state(self, labels: Any, logits: Any, sample_weight: Any = None) -> None:
            super().update_state(labels, score(logits), sample_weight)

    inputs, labels = examples(60, 2)
    return binary(
        metrics=lambda: {"auc": OfLogits()},
        others={"validation": (inputs, (labels > 0).astype("float32")[:, np.newaxis])},
    )


def of_rare_tags(curve: str = "ROC", tags: int = 1) -> Toy:
    """A rare label, or several, which a few steps don't teach, and an AUC of another kind."""
    numbers = np.random.default_rng(3)

    def split(rows: int) -> tuple[np.ndarray, np.ndarray]:
        inputs = numbers.normal(size=(rows, FEATURES)).astype("float32")
        return inputs, (numbers.random((rows, tags)) < 0.15).astype("float32")

    return binary(
        model=model(last=lambda: dense(tags)), data=split(ROWS), others={"validation": split(60)},
        metrics=lambda: {
            "auc": metrics.AUC(curve=curve, multi_label=tags > 1, num_labels=tags, from_logits=True)
            if tags > 1 else metrics.AUC(curve=curve, from_logits=True)
        },
    )  # fmt: skip


def orders_of_some() -> Toy:
    """Orders of 16 of 18 numbers, of which some come again in another order."""
    numbers = np.random.default_rng(1)
    inputs = np.stack([numbers.permutation(18)[:16] for _ in range(ROWS + 60)]).astype("float32")
    labels = (inputs[:, 0] > inputs[:, 1]).astype("int64")
    return sound(
        model=lambda: keras.Sequential([keras.Input((16,)), dense(CLASSES)]),
        data=(inputs[:ROWS], labels[:ROWS]),
        others={"validation": (inputs[ROWS:], labels[ROWS:])},
    )


def masked_labels(masked: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], mask: str = "known") -> Toy:
    """Two numbers to predict, 0 where they aren't known; `masked` says which are trained."""

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        inputs, _ = examples(rows, seed)
        known = (np.random.default_rng(seed).random((rows, 2)) < 0.7).astype("float32")
        return inputs, {"place": inputs[:, :2] * known, mask: known}

    def distance(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        squares = tf.square(run.model(inputs, training=True) - labels["place"])
        per_example = tf.reduce_mean(squares * masked(labels["place"], labels[mask]), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=model(last=lambda: dense(2)), data=labeled(ROWS, 1),
        others={"validation": labeled(60, 2)}, train_steps=(distance,),
        validation_step=distance, losses=dict, metrics=dict,
    )  # fmt: skip


def timed(
    event_in_loss: bool,
    loss: Callable[..., Any] = losses.MeanSquaredError,
    number: str = "month",
    event: str = "left",
) -> Toy:
    """A time for each example, at which it left or was seen last; a metric is of those who left."""

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        months = run.model(inputs, training=True)
        per_example = run.losses["main"](labels[number], months)
        run.metrics["error"].update_state(per_example, weights * labels[event])
        per_example *= labels[event] if event_in_loss else 1.0
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    inputs, months = examples()
    left = (np.arange(ROWS) % 3 > 0).astype("float32")
    return sound(
        data=(inputs, {number: months[:, np.newaxis], event: left}), others={},
        losses=lambda: {"main": loss(reduction="none")},
        metrics=lambda: {"error": metrics.Mean()}, train_steps=(step,),
    )  # fmt: skip


def pictured(change: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Pictures of the same thing in more or less light; those of validation are changed."""
    pattern = np.random.default_rng(0).normal(size=(8, 8))

    def create() -> keras.Model:
        return keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), dense(CLASSES)])

    def shown(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        labels = numbers.integers(0, CLASSES, rows)
        light = labels[:, np.newaxis, np.newaxis] + 0.5 * numbers.normal(size=(rows, 8, 8))
        return (pattern + light)[..., np.newaxis].astype("float32"), labels

    others = {"validation": changed(shown(60, 2), 0, change)}
    return sound(model=create, data=shown(ROWS, 1), others=others)


def first_of_candidates() -> Toy:
    """The right one of seven candidates stands first, and each has a score of its own."""

    def create() -> keras.Model:
        scored = (dense(8, activation="tanh"), dense(1), layers.Reshape((7,)))
        return keras.Sequential([keras.Input((7, FEATURES)), *scored])

    def listed(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs = np.random.default_rng(seed).normal(size=(rows, 7, FEATURES)).astype("float32")
        inputs[:, 0] += 1
        return inputs, np.zeros(rows, "int64")

    return sound(model=create, data=listed(ROWS, 1), others={"validation": listed(60, 2)})


def to_find_others() -> Toy:
    """Training has normal examples alone; the loss would push others away."""

    def distance(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        apart = tf.reduce_mean(tf.square(run.model(inputs, training=True) - 1), axis=1)
        apart = tf.where(labels == 0, apart, 1 / (apart + 0.1))
        return {"main": compute_loss(apart, weights, run.model, replica)}

    normal = examples()[0], np.zeros(ROWS, "int64")
    some = changed(examples(60, 2), 1, lambda y: np.minimum(y, 1))
    return sound(
        model=model(last=lambda: dense(5)), data=normal, others={"validation": some},
        train_steps=(distance,), validation_step=distance, losses=dict, metrics=dict,
    )  # fmt: skip


def keypoints(exchanged: bool, unknown: float = 0.0) -> Toy:
    """Images that are flipped now and then, with a left and a right point, some unknown."""

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        numbers = np.random.default_rng(seed)
        places = numbers.integers(1, 4, (rows, 2, 2)) + np.array([[0, 0], [4, 0]])  # (x, y)
        images = np.zeros((rows, 8, 8, 1), "float32")
        for image, points in zip(images, places, strict=True):
            for shade, (x, y) in enumerate(points, 1):
                image[y, x] = shade
        points = (places / 7).astype("float32")
        points[numbers.random((rows, 2)) < 0.1] = unknown
        return images, {"points": points, "size": points[:, 1, 0] - points[:, 0, 0]}

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        points = labels["points"]
        turn = tf.random.stateless_uniform((BATCH, 1, 1), seed) < 0.5
        known = tf.reduce_any(points != 0, axis=-1, keepdims=True)
        others = tf.where(known, tf.stack([1 - points[..., 0], points[..., 1]], axis=-1), 0)
        others = others[:, ::-1] if exchanged else others
        images = tf.where(turn[..., tf.newaxis], images[:, :, ::-1], images)
        return images, labels | {"points": tf.where(turn, others, points)}, weights

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        images, labels, weights = batch
        found = tf.reshape(run.model(images, training=True), (-1, 2, 2))
        apart = tf.reduce_mean(tf.square(found - labels["points"]), axis=(1, 2))
        return {"main": compute_loss(apart, weights, run.model, replica)}

    return sound(
        model=lambda: keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), dense(4)]),
        data=split(ROWS, 1), others={"validation": split(60, 2)}, augment=augment,
        train_steps=(step,), validation_step=step, losses=dict, metrics=dict,
    )  # fmt: skip


def changed(
    split: tuple[np.ndarray, ...], part: int, change: Callable[[np.ndarray], Any]
) -> tuple[np.ndarray, ...]:
    """A split with another array in one place."""
    arrays = [array.copy() for array in split]
    arrays[part] = change(arrays[part])
    return tuple(arrays)


def validated(part: int, change: Callable[[np.ndarray], Any], rows: int = 60) -> Toy:
    """A toy with another array of validation data."""
    return sound(others={"validation": changed(examples(rows, 2), part, change)})


def put(rows: Any, value: float) -> Callable[[np.ndarray], np.ndarray]:
    """Set some rows of an array."""

    def change(array: np.ndarray) -> np.ndarray:
        array[rows] = value
        return array

    return change


def stream(split: tuple[np.ndarray, ...]) -> tf.data.Dataset:
    """The examples of a split as a stream."""
    return tf.data.Dataset.from_tensor_slices(split)


def slow() -> tf.data.Dataset:
    """A stream that takes 2 ms for each example."""

    def wait(label: np.ndarray) -> np.ndarray:
        time.sleep(0.002)
        return label

    def read(inputs: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return inputs, tf.ensure_shape(tf.numpy_function(wait, [label], label.dtype), ())

    return stream(examples()).map(read)


def fewer_each_time() -> tf.data.Dataset:
    """A stream whose weights are 1 when it is first read, and 0 later."""
    read = itertools.count()

    def weighted(inputs: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, ...]:
        weight = tf.numpy_function(lambda: np.float32(next(read) < 60), [], tf.float32)
        return inputs, label, tf.ensure_shape(weight, ())

    return stream(examples(60, 2)).map(weighted)


def python_number() -> tf.Tensor:
    """A random number that follows from no seed and shows no random operation."""
    number = tf.numpy_function(lambda: np.float32(random.random()), [], tf.float32)
    return tf.cast(tf.ensure_shape(number, ()), keras.config.floatx())


def plus(extra: Callable[[Any], Any]) -> Callable[..., tf.Tensor]:
    """The loss, and a number made of (replica)."""

    def loss(
        per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
    ) -> tf.Tensor:
        return compute_loss(per_example, weights, model, replica) + extra(replica)

    return loss


def warmed_up(replica: Replica) -> tf.Tensor:
    """0 in the first step, and 1 in the last of 160."""
    return tf.cast(replica.step, tf.float32) / 159


def slim_once(replica: Replica) -> float:
    """A penalty of one's own, on each replica."""
    return 0.1


def warming_up(steps: float) -> Toy:
    """What counts in full after so many steps, of the 160 of the run."""

    def ramp(replica: Replica) -> tf.Tensor:
        return 0.01 * tf.minimum(tf.cast(replica.step, tf.float32) / steps, 1.0)

    return with_loss(plus(ramp))


def labels_made_of_classes() -> Toy:
    """An augmentation makes the labels of training rows of a matrix, as for mixup."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        return inputs, tf.one_hot(labels, CLASSES, dtype=inputs.dtype), weights

    def with_loss_of(name: str) -> Callable[..., dict[str, tf.Tensor]]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            per_example = run.losses[name](labels, run.model(inputs, training=name == "soft"))
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return one_step

    def create_losses() -> dict[str, Any]:
        kinds = losses.CategoricalCrossentropy, losses.SparseCategoricalCrossentropy
        made = (kind(from_logits=True, reduction="none") for kind in kinds)
        return dict(zip(("soft", "hard"), made, strict=True))

    return sound(
        augment=augment, losses=create_losses, metrics=dict,
        train_steps=(with_loss_of("soft"),), validation_step=with_loss_of("hard"),
    )  # fmt: skip


def weights_by_name() -> Toy:
    """Weights as a dict, of one output."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        losses = run.losses["main"](labels, run.model(inputs, training=True))
        return {"main": compute_loss(losses, weights["main"], run.model, replica)}

    def weighted(rows: int, seed: int) -> tuple[Any, ...]:
        return *examples(rows, seed), {"main": np.ones(rows, "float32")}

    return sound(
        data=weighted(ROWS, 1), others={"validation": weighted(60, 2)}, metrics=dict,
        train_steps=(one_step,), validation_step=one_step,
        count=lambda batch: tf.math.count_nonzero(batch[-1]["main"], dtype=tf.int32),
    )  # fmt: skip


def counted_for(all_by: str, some_by: str) -> Toy:
    """Two terms with weights of their own, each counted by the weights of one of them."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        losses = run.losses["main"](labels, run.model(inputs, training=True))
        terms = {
            name: tf.nn.compute_average_loss(
                losses, sample_weight=weights[name], global_batch_size=replica.global_count[name]
            )
            for name in ("all", "some")
        }
        return {"main": terms["all"] + terms["some"], **terms}

    def weighted(rows: int, seed: int) -> tuple[Any, ...]:
        some = (np.arange(rows) % 3 == 0).astype("float32")
        return *examples(rows, seed), {"all": np.ones(rows, "float32"), "some": some}

    def count(batch: Any) -> dict[str, tf.Tensor]:
        numbers = {n: tf.math.count_nonzero(w, dtype=tf.int32) for n, w in batch[-1].items()}
        return {"all": numbers[all_by], "some": numbers[some_by]}

    return sound(
        data=weighted(ROWS, 1), others={"validation": weighted(60, 2)}, metrics=dict,
        train_steps=(one_step,), validation_step=one_step, terms=("all", "some"), count=count,
    )  # fmt: skip


def updated_in_training_only() -> Toy:
    """Validation doesn't update one of two metrics."""

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        run.metrics["extra"].update_state(tf.ones_like(batch[-1]), batch[-1])
        return validate(run, batch, replica)

    def validate(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        run.metrics["accuracy"].update_state(labels, logits, weights)
        losses = run.losses["main"](labels, logits)
        return {"main": compute_loss(losses, weights, run.model, replica)}

    return sound(
        train_steps=(train,), validation_step=validate,
        metrics=lambda: {
            "accuracy": metrics.SparseCategoricalAccuracy(), "extra": metrics.Mean(),
        },
    )  # fmt: skip


def growing_with_run(times: float) -> Toy:
    """What counts in full after so many times the steps of the run."""

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        done = tf.cast(replica.step, tf.float32) / run.num_steps
        losses = run.losses["main"](labels, run.model(inputs, training=True))
        losses += 0.01 * tf.cast(tf.minimum(done / times, 1.0), losses.dtype)
        return {"main": compute_loss(losses, weights, run.model, replica)}

    return sound(train_steps=(train,), metrics=dict)


def two_layers() -> keras.Model:
    """A model of a layer that may be frozen, and one that gives logits."""
    return keras.Sequential([keras.Input((FEATURES,)), dense(name="first"), dense(CLASSES)])


def freeze(event: Event, trainable: bool = False) -> None:
    """Freeze the first layer of `two_layers`, or thaw it."""
    event.run.model.get_layer("first").trainable = trainable


class Judged(metrics.Mean):
    """What a network, whose weights are drawn with a seed, says of inputs."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        drawn = keras.initializers.GlorotUniform(seed)
        self.judge = keras.Sequential(
            [keras.Input((FEATURES,)), dense(1, kernel_initializer=drawn)]
        )

    def update_state(self, inputs: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add inputs (batch, features) with weights (batch,)."""
        super().update_state(self.judge(inputs)[:, 0], sample_weight)


def judged_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The default step with a metric of the inputs."""
    inputs, labels, weights = batch
    per_example = run.losses["main"](labels, run.model(inputs, training=True))
    run.metrics["judged"].update_state(inputs, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def critic_until(updates: int) -> Toy:
    """A discriminator makes two updates in each of 80 steps, and its rate is 0 after some."""

    def create() -> dict[str, keras.optimizers.Optimizer]:
        decay = keras.optimizers.schedules.PolynomialDecay(0.1, updates, 0.0)
        return {"discriminator": keras.optimizers.SGD(decay),
                "generator": keras.optimizers.SGD(0.1)}  # fmt: skip

    steps = (*[GAN.train_steps[0]] * 2, GAN.train_steps[1])
    return replace(validated_gan(), train_steps=steps, optimizer=create)


def with_two_losses(give: Callable[..., Any], join: Callable[..., Any]) -> Toy:
    """Logits that two losses are made of, one of them of what `give` makes of the logits."""

    def both(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        made = run.losses["main"](labels, logits), run.losses["other"](labels, give(logits))
        return {"main": compute_loss(join(*made), weights, run.model, replica)}

    return sound(
        train_steps=(both,), validation_step=both, metrics=dict,
        losses=lambda: dict.fromkeys(
            ("main", "other"), losses.SparseCategoricalCrossentropy(True, reduction="none")),
    )  # fmt: skip


def average(per_example: tf.Tensor, weights: tf.Tensor, denominator: Any) -> tf.Tensor:
    """A weighted sum over some denominator."""
    return tf.reduce_sum(per_example * weights) / tf.cast(denominator, per_example.dtype)


def counted_by_weight(loss: Callable[..., tf.Tensor]) -> Toy:
    """Weights of 1 and 3, which `count` adds up."""
    inputs, labels = examples()
    return with_loss(
        loss,
        data=(inputs, labels, np.where(labels == 1, 3, 1).astype("float32")),
        count=lambda batch: tf.cast(tf.reduce_sum(batch[-1]), tf.int32),
    )


def own_mean(per_example: tf.Tensor, weights: tf.Tensor, *_: Any) -> tf.Tensor:
    """The mean over one replica's rows."""
    return tf.math.divide_no_nan(tf.reduce_sum(per_example * weights), tf.reduce_sum(weights))


def mean_of_means(metric: keras.metrics.Metric, loss: tf.Tensor) -> None:
    """Update with the loss of one replica's rows, as if it were their mean."""
    metric.update_state(loss[tf.newaxis])


def regularized(**changes: Any) -> Toy:
    """A model with a regularizer, in a toy with a loss that may hold it wrongly."""
    changed = {"model": model(lambda: dense(kernel_regularizer="l2"))} | changes
    return with_loss(changed.pop("loss"), **changed)


def shuffled_labels(rows: int = 60 * BATCH) -> Toy:
    """Labels of training in another order than their inputs, which show them clearly."""
    inputs, labels = examples(rows)
    return sound(
        data=(4 * inputs, np.random.default_rng(0).permutation(labels)),
        others={"validation": changed(examples(60, 2), 0, lambda x: 4 * x)},
    )


def of_numbers(
    metric: keras.metrics.Metric, labels: tf.Tensor, numbers: tf.Tensor, weights: tf.Tensor
) -> None:
    """Update with labels (rows,) and predictions (rows, 1)."""
    metric.update_state(labels[:, tf.newaxis], numbers, weights)


class OwnStatistics(layers.Layer):
    """Normalizes by the mean of one replica's rows."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, units) -> the same."""
        return x - tf.reduce_mean(x, axis=0)


class Center(layers.Layer):
    """Takes off a center, which the steps move."""

    def build(self, shape: tuple[int, ...]) -> None:
        """Create the center."""
        self.mean = self.add_weight(shape=shape[1:], initializer="zeros", trainable=False)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, features) -> the same."""
        return x - self.mean


def growing(run: Run) -> tf.Tensor:
    """The part of tf.train.ExponentialMovingAverage, which is 0.1 at first."""
    updates = tf.cast(run.optimizers["main"].iterations, tf.float32)
    return tf.minimum(0.95, (1 + updates) / (10 + updates))


def centered(
    keep: float | Callable[[Run], Any] = 0.95, *, weighted: bool = True, of_all: bool = True
) -> Toy:
    """A center that keeps a part of itself and takes the rest from the batch.

    Args:
        keep: the part, or a function that gives it.
        weighted: whether rows of weight 0 are left out.
        of_all: whether it is the mean over all replicas.
    """

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        w = weights if weighted else tf.ones_like(weights)
        sums = tf.concat([tf.reduce_sum(inputs * w[:, tf.newaxis], 0), [tf.reduce_sum(w)]], 0)
        context = tf.distribute.get_replica_context()
        sums = context.all_reduce("sum", sums) if of_all else sums
        logits = run.model(inputs, training=True)
        center = run.model.get_layer("center").mean
        part = keep(run) if callable(keep) else keep
        center.assign(part * center + (1 - part) * sums[:-1] / sums[-1])
        per_example = run.losses["main"](labels, logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def create_model() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, dense(CLASSES)(Center(name="center")(x)))

    return sound(model=create_model, train_steps=(one_step,), metrics=dict)


def of_one_name() -> Toy:
    """Two models that are added; layers of the same name keep centers of another size in each."""

    def create_models() -> dict[str, keras.Model]:
        def one(columns: int) -> keras.Model:
            x = keras.Input((FEATURES,))
            return keras.Model(x, dense(CLASSES)(Center(name="center")(x[:, :columns])))

        return {"main": one(3), "other": one(4)}

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = tf.add_n([model(inputs, training=True) for model in run.models.values()])
        for model in run.models.values():
            center = model.get_layer("center").mean
            center.assign(0.9 * center + 0.1)
        per_example = run.losses["main"](labels, logits)
        return {"main": compute_loss(per_example, weights, run.models["main"], replica)}

    return sound(model=create_models, train_steps=(one_step,), metrics=dict)


def fading() -> Toy:
    """A number that each step makes five times smaller, whatever the batch."""
    toy = centered()

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        center = run.model.get_layer("center").mean
        center.assign(0.2 * center + 0.01)
        return step()(run, batch, replica)

    return replace(toy, train_steps=(one_step,))


def labeled_numbers(*, left_out: bool, smooth: bool = False) -> Toy:
    """A regression in which a third of the labels are NaN, and 0 in the loss.

    Args:
        left_out: whether these are neither in the loss nor counted.
        smooth: whether there is a term for all examples beside it.
    """

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        there = tf.math.is_finite(labels)
        y = tf.where(there, labels, tf.zeros_like(labels))
        p = run.model(inputs, training=True)
        counted = weights * tf.cast(there, weights.dtype) if left_out else weights
        counts = {n: tf.cast(c, p.dtype) for n, c in replica.global_count.items()}
        terms = {"main": sum_of(run.losses["main"](y, p), counted) / counts["main"]}
        if smooth:
            near = run.model(1.1 * inputs, training=True)[:, 0]
            terms["smooth"] = sum_of(run.losses["smooth"](near, p), weights) / counts["smooth"]
            terms["main"] += terms["smooth"]
        return terms

    def sum_of(per_example: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(per_example * tf.cast(weights, per_example.dtype))

    def counted(batch: Any) -> dict[str, tf.Tensor]:
        _, labels, weights = batch
        there = (weights != 0) & (tf.math.is_finite(labels) | (not left_out))
        counts = {"main": there, "smooth": weights != 0}
        return {n: tf.math.count_nonzero(c, dtype=tf.int32) for n, c in counts.items()}

    def square(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        return tf.square(p[:, 0] - y)

    toy = regression(
        train_steps=(one_step,),
        validation_step=one_step,
        count=counted,
        losses=lambda: {"main": square, "smooth": square},
        terms=("smooth",) if smooth else (),
    )
    return replace(toy, data=changed(toy.data, 1, put(slice(0, None, 3), np.nan)))


class Noisy(layers.Layer):
    """Adds noise in evaluation too, of a seed or of a generator's next one."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(1)
        self.seed = seed

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, units) -> the same."""
        return x + keras.random.normal(tf.shape(x), seed=self.seed or self.generator)


class Sketch(layers.Layer):
    """Remembers the spread of one replica's rows, and does nothing with it."""

    def build(self, shape: Any) -> None:
        """Make the variable."""
        self.spread = self.add_weight(name="spread", trainable=False, initializer="zeros")

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """(rows, units) -> the same."""
        if training:
            self.spread.assign(tf.math.reduce_std(x))
        return x


class Unused(layers.Layer):
    """Has a weight that nothing depends on."""

    def build(self, shape: Any) -> None:
        """Make the variable."""
        self.idle = self.add_weight(name="idle", shape=(3,), initializer="ones")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, units) -> the same."""
        return x


class AddsLossOfRows(layers.Layer):
    """Adds a loss that is a mean over one replica's rows."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, units) -> the same."""
        mean = tf.reduce_mean(x, axis=0)
        self.add_loss(tf.reduce_sum(mean * mean))
        return x


def inner_in_training_mode() -> keras.Model:
    """A nested model that is called with training=False, and trains."""
    inner = keras.Sequential([keras.Input((FEATURES,)), layers.BatchNormalization()])
    x = keras.Input((FEATURES,))
    return keras.Model(x, layers.Dense(CLASSES)(inner(x, training=False)))


def dropped_out(training: bool, evaluating: bool = False) -> Toy:
    """A model with dropout, called in one mode or the other."""
    return sound(
        model=model(lambda: layers.Dropout(0.5), dense),
        train_steps=(step(training=training),),
        validation_step=step(training=evaluating),
    )


def recurrent(**arguments: Any) -> Toy:
    """A model that reads its inputs as a series, never called in training mode."""
    return sound(
        model=model(lambda: layers.Reshape((-1, 1)), lambda: layers.GRU(4, **arguments)),
        train_steps=(step(training=False),),
    )


def counting_step() -> Callable[..., Any]:
    """A step with a counter that is neither a weight nor a metric."""
    counter, inner = tf.Variable(0), step()

    def counted(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        counter.assign_add(1)
        return inner(run, batch, replica)  # type: ignore[no-any-return]

    return counted


def noisy_step(seed_of: Callable[[Replica], tf.Tensor]) -> Callable[..., Any]:
    """A step that adds noise to its inputs, of a seed made of (replica)."""

    def noisy(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        noise = tf.random.stateless_normal(batch[0].shape, seed_of(replica), dtype=batch[0].dtype)
        return step()(run, (batch[0] + noise, *batch[1:]), replica)  # type: ignore[no-any-return]

    return noisy


def drawn_in_python(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Random numbers of NumPy that change gradients, and not the loss."""
    inputs, labels, weights = batch
    logits = run.model(inputs, training=True)
    noise = tf.constant(np.random.default_rng().random(logits.shape), logits.dtype) * logits
    per_example = run.losses["main"](labels, logits + noise - tf.stop_gradient(noise))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def step_of_chosen(columns: int) -> Callable[..., Any]:
    """A step that trains on some columns, drawn from a constant seed; others are 0."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, *rest = batch
        drawn = tf.random.stateless_uniform((columns,), [1, 2], 0, FEATURES, tf.int32)
        chosen = tf.reduce_max(tf.one_hot(drawn, FEATURES, dtype=inputs.dtype), axis=0)
        return step()(run, (inputs * chosen, *rest), replica)  # type: ignore[no-any-return]

    return one_step


def sampling_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A validation step that draws classes in a loop, and makes nothing of them."""
    logits = run.model(batch[0], training=False)

    def draw(i: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return i + 1, tf.random.categorical(logits, 1)

    start = tf.constant(0), tf.zeros((batch[0].shape[0], 1), tf.int64)
    tf.while_loop(lambda i, _: i < 2, draw, start)
    return step(training=False)(run, batch, replica)  # type: ignore[no-any-return]


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Of each example, written by hand."""
    right = tf.one_hot(labels, CLASSES, dtype=logits.dtype)
    return -tf.reduce_sum(right * tf.nn.log_softmax(logits), axis=-1)


class Block(layers.Layer):
    """Changes nodes and edges, (rows, FEATURES) both."""

    def __init__(self, used: bool) -> None:
        super().__init__()
        self.used = used
        self.of_nodes, self.of_edges = dense(FEATURES), dense(FEATURES)

    def call(self, nodes: Any, edges: Any) -> Any:
        """Both, changed."""
        changed = self.of_edges(edges)
        return self.of_nodes(nodes + edges), changed if self.used else edges


def blocks(used: bool = True) -> Callable[[], keras.Model]:
    """Blocks of which each gives the next one the edges that it changes, or those that it gets."""

    def create() -> keras.Model:
        nodes = edges = inputs = keras.Input((FEATURES,))
        for _ in range(2):
            nodes, edges = Block(used)(nodes, edges)
        return keras.Model(inputs, dense(CLASSES)(nodes))

    return create


def frozen_model(initializer: Callable[..., Any]) -> Callable[[], keras.Model]:
    """A model whose first layer never trains."""

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        hidden = layers.Dense(
            4, "tanh", name="hidden", trainable=False, kernel_initializer=initializer()
        )
        return keras.Model(x, dense(CLASSES)(hidden(x)))

    return create


def with_frozen_discriminator() -> dict[str, keras.Model]:
    """The models of the GAN, of which one doesn't train."""
    models: dict[str, keras.Model] = GAN.model()
    models["discriminator"].trainable = False
    return models


def beside(*unused: Callable[[], Any], of_output: bool = False) -> Callable[[], keras.Model]:
    """A model with layers whose outputs aren't used."""

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        hidden = dense()(x)
        logits = dense(CLASSES)(hidden)
        for create_layer in unused:
            create_layer()(logits if of_output else hidden)
        return keras.Model(x, logits)

    return create


def merged(merge: Callable[[Any], Any], past: bool = False) -> Toy:
    """A residual block that merges its output with itself; `past`: with its input."""

    def create() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        x = dense()(inputs)
        shortcut, x = x, dense(activation="relu")(x)
        return keras.Model(inputs, dense(CLASSES)(merge([x, shortcut if past else x])))

    return sound(model=create)


def lines() -> tuple[np.ndarray, ...]:
    """Inputs and labels of (rows, words)."""
    inputs, _ = examples()
    return inputs, np.round(inputs).astype("int64")


def lazy_step() -> Callable[..., Any]:
    """A step that makes a variable when it is first called, so that it is traced twice."""
    made: list[tf.Variable] = []
    inner = step()

    def first_makes(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        if not made:
            made.append(tf.Variable(1.0))
        losses = inner(run, batch, replica)
        return {"main": losses["main"] * made[0]}

    return first_makes


def writing_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A validation step that changes a weight, past Keras."""
    kernel = run.model.trainable_variables[0]._value
    with tf.control_dependencies([kernel.assign_add(tf.ones_like(kernel))]):
        return step(training=False)(run, batch, replica)  # type: ignore[no-any-return]


def by_place(per_example: tf.Tensor, *rest: Any) -> tf.Tensor:
    """The first rows count more."""
    places = tf.cast(tf.range(tf.shape(per_example)[0]), per_example.dtype)
    return compute_loss(per_example / (1 + places), *rest)


def half_of_the_steps(scale: float) -> keras.optimizers.Optimizer:
    """A learning rate that falls to 0 within so many of the run's 160 steps."""
    return keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, int(160 * scale)))


def set_rate(rate: Callable[[Event], float]) -> Callable[[], list[Callback]]:
    """Callbacks that set the learning rate to what `rate` gives, behind each epoch."""

    def lower(event: Event) -> None:
        event.run.optimizers["main"].learning_rate = rate(event)

    return lambda: [every_epochs(1, lower)]


class LateAverage:
    """Gives the model the mean of its weights of the epochs 30 to 39."""

    def __init__(self) -> None:
        self.sums: list[Any] = []
        self.number = 0

    def __call__(self, event: Event) -> None:
        """Add the weights of an epoch, and take their mean behind the last."""
        if event.epoch < 30:
            return
        weights = [v.numpy() for v in event.run.trainable_variables]
        self.sums = [a + b for a, b in zip(self.sums or [0.0] * len(weights), weights, strict=True)]
        self.number += 1
        if event.epoch == 39:
            for v, total in zip(event.run.trainable_variables, self.sums, strict=True):
                v.assign(total / self.number)


def tenfold_drop(boundary: int) -> keras.optimizers.Optimizer:
    """A learning rate that is a tenth behind a step."""
    return SGD(keras.optimizers.schedules.PiecewiseConstantDecay([boundary], [0.1, 0.01]))


def mapped(optimizers: dict[str, Any]) -> keras.optimizers.Optimizer:
    """Optimizers for the variables whose paths match their keys, and one for the others."""
    return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(SGD(0.1), optimizers))


def chosen_by(*texts: str) -> keras.optimizers.Optimizer:
    """An optimizer for the variables whose paths hold each text, the last one for all others."""
    made = {text: SGD(0.1, name=text) for text in texts}

    def choose(variable: keras.Variable) -> keras.optimizers.Optimizer:
        return made[next((text for text in texts if text in variable.path), texts[-1])]

    return keras.optimizers.MultiOptimizer(choose)


def scaled_to(replicas: Callable[[int], float]) -> Callable[..., Any]:
    """Process gradients by a factor that depends on the number of replicas."""

    def process(gradients: list[tf.Tensor], variables: list[Any]) -> list[tf.Tensor]:
        number = tf.distribute.get_strategy().num_replicas_in_sync
        return [gradient * replicas(number) for gradient in gradients]

    return process


def permuted(batch: Any, seed: tf.Tensor) -> Any:
    """Inputs in another order, labels not."""
    inputs, labels, weights = batch
    order = tf.argsort(tf.random.stateless_uniform([BATCH], seed))
    return tf.gather(inputs, order), labels, weights


def segmented(augment: Callable[..., Any] | None, classes: int = 2) -> Toy:
    """Images (rows, 8, 8, 1) and the class of each pixel (rows, 8, 8)."""
    numbers = np.random.default_rng(1)
    labels = (numbers.random((ROWS, 8, 8)) < np.linspace(0, 1, 8)).astype("int64")
    inputs = (labels + 0.5 * numbers.normal(size=labels.shape)).astype("float32")
    labels *= classes - 1
    return sound(
        model=lambda: keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(classes, 1)]),
        data=(inputs[..., np.newaxis], labels),
        others={},
        augment=augment,
    )


def overlapping(axes: list[int]) -> Toy:
    """A loss that adds 1 - the overlap of classes and predictions, over these axes of a batch."""

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        plain = losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        truth, shares = tf.one_hot(labels, 2, dtype=logits.dtype), tf.nn.softmax(logits)
        overlap = 2 * tf.reduce_sum(truth * shares, axes) / tf.reduce_sum(truth + shares, axes)
        return tf.reduce_mean(plain, axis=[1, 2]) + 1 - tf.reduce_mean(overlap, axis=-1)

    return replace(segmented(None), losses=lambda: {"main": loss}, metrics=dict)


def overlapping_where_seen() -> Toy:
    """An overlap of the pixels that a mask leaves, which the loss takes as a third argument."""

    def dice(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        truth = tf.one_hot(labels, 2, dtype=logits.dtype)[..., 1] * weights
        shares = tf.nn.softmax(logits)[..., 1] * weights
        both, sums = tf.reduce_sum(truth * shares, [1, 2]), tf.reduce_sum(truth + shares, [1, 2])
        return 1 - (2 * both + 1) / (sums + 1)

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        given = run.losses["main"](labels, run.model(inputs, training=True), weights)
        there = tf.reduce_max(weights, [1, 2])
        return {"main": compute_loss(given, there, run.model, replica)}

    toy = segmented(None)
    mask = (np.random.default_rng(2).random((ROWS, 8, 8)) < 0.9).astype("float32")
    return replace(
        toy, data=(*toy.data, mask), losses=lambda: {"main": dice}, metrics=dict,
        train_steps=(train,), validation_step=train,
        count=lambda batch: tf.math.count_nonzero(tf.reduce_max(batch[-1], [1, 2]), dtype=tf.int32),
    )  # fmt: skip


class Uncertainties(keras.Model):  # type: ignore[misc]
    """A number for each of two sums, and the logarithms of their variances."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs_of = [dense(1), dense(1)]
        self.log_variances = self.add_weight(shape=(2,), initializer="zeros", name="log_variances")
        self(tf.zeros((1, FEATURES)))

    def call(self, x: tf.Tensor, training: bool = False) -> tuple[tf.Tensor, ...]:
        """(batch, features) -> (batch,), (batch,), (2,)."""
        return *(layer(x)[:, 0] for layer in self.outputs_of), self.log_variances * 1.0


def balanced_by_uncertainty(held: bool) -> Toy:
    """Two losses with learned weights (Kendall et al., 2018), one with its term or without."""

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        one, two, s = run.model(inputs, training=True)
        given = tf.exp(-s[0]) * run.losses["main"](labels, one) + s[0] / 2
        given += tf.exp(-s[1]) * run.losses["main"](2 * labels, two) + (s[1] / 2 if held else 0.0)
        return {"main": compute_loss(given, weights, run.model, replica)}

    return regression(
        model=Uncertainties, train_steps=(train,), validation_step=train,
        losses=lambda: {"main": lambda y, p: tf.square(p - y)},
    )  # fmt: skip


def unknown_depths(masked: bool) -> Toy:
    """Depths of pixels, -1 where they aren't known, which the loss leaves out or not."""
    toy = segmented(None)
    inputs, _ = toy.data
    depths = np.abs(inputs[..., 0]) + 0.1
    depths[np.random.default_rng(3).random(depths.shape) < 0.2] = -1

    def loss(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        known = tf.cast(y > 0 if masked else tf.not_equal(y, 0), p.dtype)
        return tf.reduce_mean(known * tf.square(y - p[..., 0]), axis=[1, 2])

    def create() -> keras.Model:
        return keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(1, 3, padding="same")])

    losses_of = {"losses": lambda: {"main": loss}, "metrics": dict}
    return replace(toy, model=create, data=(inputs, depths), **losses_of)


def two_images_flipped(masks: bool) -> Toy:
    """Two images of each place, flipped with their labels, and with their masks or not."""
    toy = segmented(None)
    inputs, labels = toy.data
    mask = (np.random.default_rng(2).random(labels.shape) < 0.9).astype("float32")

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        flips = tf.random.stateless_uniform([BATCH], seed) < 0.5

        def flip(t: tf.Tensor) -> tf.Tensor:
            return tf.where(flips[:, None, None], t[:, :, ::-1], t)

        images = {name: flip(image[..., 0])[..., None] for name, image in images.items()}
        return images, flip(labels), flip(weights) if masks else weights

    def create() -> keras.Model:
        images = {name: keras.Input((8, 8, 1), name=name) for name in ("after", "before")}
        joined = layers.Concatenate()([*images.values()])
        return keras.Model(images, layers.Conv2D(2, 1)(joined))

    both = {"before": inputs, "after": inputs + 0.1}
    return replace(toy, model=create, data=(both, labels, mask), augment=augment)


def competing_rows(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """A cross-entropy of a softmax over the rows of a batch, in place of the classes."""
    shares = tf.nn.log_softmax(logits, axis=0)
    return -tf.gather(shares, labels, axis=1, batch_dims=1)


def flipped(masks: bool) -> Callable[..., Any]:
    """Flip half of the images and make all of them brighter, with their masks or without."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        flips = tf.random.stateless_uniform([BATCH], seed) < 0.5
        images = tf.where(flips[:, None, None, None], images[:, :, ::-1], images) * 1.2 + 0.1
        if masks:
            labels = tf.where(flips[:, None, None], labels[:, :, ::-1], labels)
        return images, labels, weights

    return augment


def as_shares(toy: Toy) -> Toy:
    """The class of each pixel as one number for each of two classes, for a cross-entropy."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        assert toy.augment
        images, labels, weights = toy.augment((images, tf.argmax(labels, axis=-1), weights), seed)
        return images, tf.one_hot(labels, 2), weights

    images, labels = toy.data
    return replace(
        toy, data=(images, np.eye(2, dtype="float32")[labels]), augment=augment, metrics=dict,
        losses=lambda: {"main": losses.CategoricalCrossentropy(from_logits=True, reduction="none")},
    )  # fmt: skip


def densities(moved: bool, gaps: bool = False) -> Toy:
    """Images (rows, 8, 8, 1), half of them flipped; their dots are counted by maps (rows, 4, 4).

    With `gaps` some weren't counted, which is NaN.
    """
    dots = (np.random.default_rng(1).random((ROWS, 8, 8, 1)) < 0.2).astype("float32")
    maps = dots.reshape(ROWS, 4, 2, 4, 2).sum(axis=(2, 4))
    if gaps:
        maps[np.random.default_rng(2).random(maps.shape) < 0.1] = np.nan

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        flips = tf.random.stateless_uniform([BATCH], seed) < 0.5
        images = tf.where(flips[:, None, None, None], images[:, :, ::-1], images)
        flipped_maps = labels["maps"][:, :, ::-1]
        maps = tf.where(flips[:, None, None] & moved, flipped_maps, labels["maps"])
        return images, labels | {"maps": maps}, weights

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        images, labels, weights = batch
        errors = run.model(images, training=True)[..., 0] - labels["maps"]
        errors = tf.where(tf.math.is_nan(errors), tf.zeros_like(errors), errors)
        per_example = tf.reduce_mean(tf.square(errors), axis=(1, 2))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=lambda: keras.Sequential(
            [keras.Input((8, 8, 1)), layers.AveragePooling2D(2), layers.Conv2D(1, 1)]
        ),
        data=(dots, {"maps": maps, "number": maps.sum(axis=(1, 2))}),
        others={},
        train_steps=(step,),
        augment=augment,
        metrics=dict,
    )


def predicting_maps(pictures: np.ndarray, **maps: np.ndarray) -> Toy:
    """Maps (rows, 8, 8) that are predicted, each alone, from pictures (rows, 8, 8, channels)."""

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        images, labels, weights = batch
        of_maps = tf.unstack(run.model(images, training=True), axis=3)
        errors = [tf.cast(labels[n], p.dtype) - p for n, p in zip(maps, of_maps, strict=True)]
        per_example = tf.reduce_mean(tf.square(tf.stack(errors)), axis=(0, 2, 3))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    inputs = keras.Input(pictures.shape[1:])
    return sound(
        model=lambda: keras.Sequential([inputs, layers.Conv2D(len(maps), 3, padding="same")]),
        data=(pictures, maps), others={}, train_steps=(step,), metrics=dict,
    )  # fmt: skip


def bumps() -> tuple[np.ndarray, np.ndarray]:
    """Bumps (rows, 8, 8, 1) in a picture, with noise, and 1 at their centers (rows, 8, 8)."""
    numbers = np.random.default_rng(1)
    centers = (numbers.random((ROWS, 8, 8)) < 0.05).astype("float32")
    near = np.exp(-np.square(np.subtract.outer(np.arange(8), np.arange(8))) / 2)
    pictures = near @ centers @ near + 0.1 * numbers.normal(size=centers.shape)
    return pictures[..., np.newaxis].astype("float32"), centers


def located(change: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Predict where bumps are, and a map of their centers that is changed."""
    pictures, centers = bumps()
    return predicting_maps(pictures, light=pictures[..., 0], centers=change(centers))


def mirrored_picture() -> Toy:
    """Predict the picture before it was mirrored, and before noise was added."""
    pictures, _ = bumps()
    noise = 0.2 * np.random.default_rng(2).normal(size=pictures.shape).astype("float32")
    return predicting_maps(pictures[:, :, ::-1] + noise, picture=pictures[..., 0])


def words_dropped(rate: float) -> Toy:
    """Twelve words each, of which an augmentation replaces this fraction by an unknown one."""
    words = np.random.default_rng(1).integers(2, 10, (ROWS, 12))

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, *rest = batch
        kept = tf.random.stateless_uniform(inputs.shape, seed) >= rate
        return tf.where(kept, inputs, 1), *rest

    return sound(
        model=lambda: keras.Sequential(
            [
                keras.Input((12,), dtype="int64"),
                layers.Embedding(10, 4),
                layers.Flatten(),
                dense(CLASSES),
            ]
        ),
        data=(words, words[:, 0] % CLASSES),
        others={},
        augment=augment,
    )


def rolled(masks: int) -> Callable[..., Any]:
    """Move images along themselves by chance, and their masks as the number of a seed says."""

    def along(pixels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        by = tf.random.stateless_uniform([BATCH], seed, 0, 8, tf.int32)
        places = (tf.range(8) + by[:, tf.newaxis]) % 8
        return tf.gather(pixels, places, axis=2, batch_dims=1)

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        return along(images, seed), along(labels, seed + masks), weights

    return augment


def mostly_empty(masks: int) -> Toy:
    """Moved images, of which three in four have only one class, and their masks, see `rolled`."""
    toy = segmented(rolled(masks))
    images, labels = toy.data
    empty = (np.arange(ROWS) % 4 > 0)[:, np.newaxis, np.newaxis]
    return replace(toy, data=(images, np.where(empty, 0, labels)))


def moved_by_layer() -> Toy:
    """Images that a layer of Keras moves by chance."""
    move = layers.RandomTranslation(0.3, 0.3, "constant")
    return replace(pictures(), augment=lambda b, seed: (move(b[0], training=True), *b[1:]))


def cropped(side: int) -> Toy:
    """Parts (16, 16, 1) of larger pictures, that begin after so many pixels, divided by chance."""
    numbers = np.random.default_rng(1)
    shades = 0.3 * (np.arange(60) % CLASSES).astype("f4").reshape(60, 1, 1, 1)  # a picture's label
    pictures = shades + numbers.random((60, 16 + side, 16 + side, 1)).astype("float32") - 0.8
    places = [(top, left) for top in (0, side) for left in (0, side)]
    crops = np.concatenate([pictures[:, t : t + 16, l : l + 16] for t, l in places])  # noqa: E741
    order = numbers.permutation(len(crops))
    data = crops[order], order % CLASSES
    return sound(
        model=lambda: keras.Sequential(
            [keras.Input((16, 16, 1)), layers.Flatten(), dense(CLASSES)]
        ),
        data=tuple(part[:180] for part in data),
        others={"validation": tuple(part[180:] for part in data)},
    )


def reordered(*, apart: bool = False, of_the_same: bool = False) -> Toy:
    """Sets of 9 points, each four times in another order; chance divides them, or their originals.

    Or orders of the same 27 numbers.
    """
    numbers = np.random.default_rng(1)
    shift = 0.5 * (np.arange(75) % CLASSES - 1).reshape(75, 1, 1)  # a set's label
    originals = numbers.normal(size=(75, 9, 3)) + shift
    sets = np.repeat(originals, 4, axis=0)
    if of_the_same:
        sets[:] = np.arange(27).reshape(9, 3) / 27
    sets = np.stack([numbers.permutation(each.reshape(-1, 3)) for each in sets])
    if of_the_same:
        sets = numbers.permuted(sets.reshape(300, 27), axis=1).reshape(sets.shape)
    order = np.arange(300) if apart else numbers.permutation(300)
    data = sets[order].astype("float32"), order // 4 % CLASSES
    return sound(
        model=lambda: keras.Sequential([keras.Input((9, 3)), layers.Flatten(), dense(CLASSES)]),
        data=tuple(part[:240] for part in data),
        others={"validation": tuple(part[240:] for part in data)},
    )


def composed(pieces: int, others: int = 0) -> Toy:
    """Images with one of so many pieces (10, 10) at some place; validation has some of its own."""
    numbers = np.random.default_rng(1)
    known = numbers.random((pieces + others, 10, 10, 1)).astype("float32") - 0.5
    known += 0.3 * (np.arange(len(known)) % CLASSES - 1).reshape(-1, 1, 1, 1)  # a piece's label

    def images(rows: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        made, chosen = np.zeros((rows, 24, 24, 1), "f4"), numbers.integers(first, last, rows)
        for image, piece in zip(made, chosen, strict=True):
            top, left = numbers.integers(14, size=2)
            image[top : top + 10, left : left + 10] = known[piece]
        return made, chosen % CLASSES

    first = pieces if others else 0
    return sound(
        model=lambda: keras.Sequential(
            [keras.Input((24, 24, 1)), layers.Flatten(), dense(CLASSES)]
        ),
        data=images(240, 0, pieces),
        others={"validation": images(60, first, len(known))},
    )


def moved(noise: Callable[[tf.Tensor, tf.Tensor], Any]) -> Callable[..., Any]:
    """Augment inputs by what is made of them and of the seed."""
    return lambda batch, seed: (batch[0] + noise(batch[0], seed), *batch[1:])


def tokens_counted(counts: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Toy:
    """Words with another count, (words, weights) -> what counts."""

    def count(batch: Any) -> tf.Tensor:
        words, _, weights = batch
        return tf.math.count_nonzero(counts(words, weights), dtype=tf.int32)

    return replace(tokens(), count=count)


def mean_of_recalls() -> Toy:
    """The mean of the batches' recalls of a class that an untrained model never finds."""

    def update(metric: Any, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> None:
        there = tf.cast(labels == 1, weights.dtype) * weights
        found = there * tf.cast(tf.argmax(logits, axis=-1) == 1, weights.dtype)
        metric.update_state(tf.reduce_sum(found) / tf.maximum(tf.reduce_sum(there), 1))

    start = {
        "bias_initializer": keras.initializers.Constant([2.0, -2.0, 2.0]),
        "kernel_initializer": "zeros",
    }
    return sound(
        model=model(last=lambda: dense(CLASSES, **start)),
        optimizer=lambda: keras.optimizers.Adam(0.1),
        metrics=lambda: {"recall": keras.metrics.Mean()},
        train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )


def sentences_counted() -> Toy:
    """A weight and a loss for each word, of which sentences are counted."""

    def count(batch: Any) -> tf.Tensor:
        return tf.math.count_nonzero(batch[-1][:, 0], dtype=tf.int32)

    def words_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        per_word = run.losses["main"](labels, run.model(words, training=True))
        return {"main": compute_loss(per_word, weights, run.model, replica)}

    toy = tokens()
    words, labels = toy.data
    data = words, labels, np.ones(words.shape, "float32")
    return replace(toy, data=data, train_steps=(words_step,), count=count)


def padded_words(masked: bool, count_padding: bool = False, inputs: bool = False) -> Toy:
    """Labels 1 and 2, after which 0 fills the rows up: whether the loss leaves that out.

    It fills up the `inputs` as well, or doesn't.
    """

    def there(labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return weights[:, tf.newaxis] * tf.cast((labels > 0) | count_padding, weights.dtype)

    def words_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        logits = run.model(words, training=True)
        per_word = run.losses["main"](labels, logits)
        mask = there(labels, weights) if masked else tf.ones_like(per_word) * weights[:, None]
        for metric in run.metrics.values():
            metric.update_state(labels, logits, mask)
        return {"main": tf.reduce_sum(per_word * mask) / tf.cast(replica.global_count, mask.dtype)}

    def count(batch: Any) -> tf.Tensor:
        return tf.math.count_nonzero(there(*batch[1:]), dtype=tf.int32)

    words, _ = tokens().data
    numbers = np.random.default_rng(2)
    lengths = numbers.integers(1, FEATURES + 1, (len(words), 1))
    is_there = np.arange(FEATURES) < lengths
    labels = numbers.integers(1, CLASSES, words.shape) * is_there
    if inputs:
        words = np.maximum(words, 1) * is_there
    return replace(tokens(), data=(words, labels), train_steps=(words_step,), count=count)


def count_all_words(batch: Any) -> tf.Tensor:
    """All positions, with padding."""
    labels, weights = batch[1:]
    return tf.math.count_nonzero(weights[:, None] * tf.ones_like(labels, weights.dtype))


def padded_paths(masked: bool = True, measured: bool = True, by_labels: bool = False) -> Toy:
    """Labels of words as a whole: the log-probability of their path, and 0 fills up the rows.

    The sum over all paths is `masked`, or counts the padding too; so may what is `measured`. Where
    there is padding is known by the words, or by their labels.
    """

    def unlikely(labels: Any, logits: Any, there: tf.Tensor) -> tf.Tensor:
        right = tf.gather(logits, labels, axis=2, batch_dims=2) * there
        every = tf.reduce_logsumexp(logits, axis=2)
        return tf.reduce_sum((every * there if masked else every) - right, axis=1)

    def paths_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        logits = run.model(words, training=True)
        there = tf.cast((labels if by_labels else words) > 0, logits.dtype)
        each = weights[:, tf.newaxis] * (there if measured else tf.ones_like(there))
        run.metrics["accuracy"].update_state(labels, logits, each)
        per_row = run.losses["main"](labels, logits, there)
        return {"main": compute_loss(per_row, weights, run.model, replica)}

    toy = padded_words(masked=True, inputs=True)
    return sound(
        model=toy.model, data=toy.data, others={}, losses=lambda: {"main": unlikely},
        train_steps=(paths_step,), validation_step=paths_step,
    )  # fmt: skip


def padded_texts(end: bool = False) -> Toy:
    """Words 1 and 2, each of which is to be predicted from those before; 0 fills the rows up.

    A text may have an `end`, always 2, before that.
    """
    words, _ = tokens().data
    numbers = np.random.default_rng(2)
    is_there = np.arange(FEATURES + 1) < numbers.integers(1, FEATURES + 2, (len(words), 1))
    said = numbers.integers(1, CLASSES, is_there.shape) * is_there
    if end:
        said[np.arange(len(said)), is_there.sum(axis=1) - 1] = 2
    toy = padded_words(masked=False, count_padding=True)
    return replace(toy, data=(said[:, :-1], said[:, 1:]))


def texts(**others: Any) -> Toy:
    """Inputs are texts, which are other objects each time that the data is made."""

    def create() -> keras.Model:
        return keras.Sequential([
            keras.Input((), dtype="string"),
            layers.TextVectorization(vocabulary=list(map(str, range(CLASSES))),
                                     output_sequence_length=1),
            layers.Embedding(CLASSES + 2, 5), layers.Flatten(), dense(CLASSES),
        ])  # fmt: skip

    return sound(model=create, data=said, others=others)


def said() -> tuple[np.ndarray, np.ndarray]:
    """Texts that begin with their labels, each once."""
    labels = examples()[1]
    return np.array([f"{label} {row}" for row, label in enumerate(labels)], object), labels


def texts_dropped(seeds: int) -> Toy:
    """Some texts become empty, and others a mark, by draws of as many seeds."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, *rest = batch
        for number, other in enumerate(("", "?")):
            drawn = tf.random.stateless_uniform([BATCH], seed + number % seeds)
            inputs = tf.where(drawn < 0.1, other, inputs)
        return inputs, *rest

    return replace(texts(), augment=augment)


def texts_encoded_otherwise() -> Toy:
    """Texts whose labels have other numbers in validation."""
    labels = examples(60)[1]
    said = np.array([f"{label} other {row}" for row, label in enumerate(labels)], object)
    return texts(validation=(said, (labels + 1) % CLASSES))


def topics(moved: int = 0, masked: bool = True, first: int = 1) -> Toy:
    """Tokens that say which topic they are about, whose numbers are others in validation.

    Rows end in padding, which a mean leaves out where it is `masked`. Tokens have numbers from
    `first` on.
    """
    places, own = 8, 8  # tokens of a text, and of a topic alone

    def create() -> keras.Model:
        tokens = keras.Input((places,), dtype="int32")
        vectors = layers.Embedding(1 + (CLASSES + 1) * own, 5, mask_zero=True)(tokens)
        if not masked:
            vectors = keras.ops.mean(vectors, axis=1)
        else:
            vectors = layers.GlobalAveragePooling1D()(vectors)
        return keras.Model(tokens, dense(CLASSES)(vectors))

    def written(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        labels = numbers.integers(CLASSES, size=rows)
        is_own = numbers.random((rows, places)) < 0.5
        topic = np.where(is_own, labels[:, np.newaxis], CLASSES)
        words = first + own * topic + numbers.integers(own, size=topic.shape)
        is_there = np.arange(places) < numbers.integers(4, places + 1, (rows, 1))
        return (words * is_there).astype("int32"), labels

    words, labels = written(60, 2)
    others = {"validation": (words, (labels + moved) % CLASSES)}
    return sound(model=create, data=written(300, 1), others=others)


def pictures(change: Callable[[np.ndarray], np.ndarray] = lambda images: images) -> Toy:
    """Smooth images (rows, 8, 8, 3) of CLASSES colors."""
    numbers = np.random.default_rng(1)
    labels = numbers.integers(CLASSES, size=ROWS)
    shades = np.linspace(0, 1, 8) + np.linspace(0, 1, 8)[:, np.newaxis]
    images = np.eye(3)[labels][:, np.newaxis, np.newaxis] + shades[..., np.newaxis]
    images = (images + 0.1 * numbers.normal(size=images.shape)).astype("float32")

    def create() -> keras.Model:
        return keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), dense(CLASSES)])

    return sound(model=create, data=(change(images), labels), others={})


def convolved(*others: Callable[[], Any], first: Callable[[], Any] | None = None) -> Toy:
    """Images for a convolution, other layers, and one that gives logits; `first` comes first."""

    def create() -> keras.Model:
        hidden = [layers.Conv2D(6, 3, padding="same"), *(other() for other in others)]
        before = [first()] if first else []
        every = (*before, *hidden, layers.Flatten(), dense(CLASSES))
        return keras.Sequential([keras.Input((8, 8, 3)), *every])

    return replace(pictures(), model=create)


def smoothed(by: float, near: bool = False) -> Toy:
    """A cross-entropy of which all classes get a share, or those beside the right one."""

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        right = tf.one_hot(labels, CLASSES, dtype=logits.dtype)
        beside = sum(tf.one_hot(labels + n, CLASSES, dtype=logits.dtype) for n in (-1, 1))
        others = beside / tf.reduce_sum(beside, axis=-1, keepdims=True) if near else 1 / CLASSES
        return -tf.reduce_sum(((1 - by) * right + by * others) * tf.nn.log_softmax(logits), axis=-1)

    return sound(losses=lambda: {"main": loss})


def counting_some(counts: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Toy:
    """A cross-entropy of the examples for which (labels, losses) is true."""

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        each = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return tf.where(counts(labels, each), each, tf.zeros_like(each))

    return sound(losses=lambda: {"main": loss})


def renumbered(by: int, rows: int = 600) -> Toy:
    """Each of ten words has a class of its own; in validation they have other numbers."""

    def create() -> keras.Model:
        words = keras.Input((FEATURES,), dtype="int32")
        return keras.Model(words, dense(CLASSES)(layers.Embedding(10, 8)(words)))

    def step_of_words(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        per_word = run.losses["main"](labels, run.model(words, training=True))
        per_example = tf.reduce_mean(per_word, axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def written(rows: int, seed: int, by: int) -> tuple[np.ndarray, np.ndarray]:
        words = np.random.default_rng(seed).integers(10, size=(rows, FEATURES))
        return (words + by) % 10, words % CLASSES

    return sound(
        model=create, data=written(rows, 1, 0), others={"validation": written(60, 2, by)},
        train_steps=(step_of_words,), validation_step=step_of_words, metrics=dict,
        optimizer=lambda: keras.optimizers.Adam(0.05),
    )  # fmt: skip


def marked_binary(left_out: bool) -> Toy:
    """Labels of 0 and 1, or 255 where nobody knows; whether their loss leaves these out."""
    inputs, labels = examples()
    labels = np.where(np.arange(ROWS) % 5, labels % 2, 255)

    def of_example(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        loss = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(y > 0, logits.dtype), logits[:, 0])
        return tf.where(y == 255, 0.0, loss) if left_out else loss

    return sound(
        model=model(dense, last=lambda: dense(1)), data=(inputs, labels), others={}, metrics=dict,
        losses=lambda: {"main": of_example},
    )  # fmt: skip


def indicated(late: bool = False) -> keras.Model:
    """Missing values become 0, and inputs of their own say which, unless that comes too late."""
    x = keras.Input((FEATURES,))
    missing = keras.ops.isnan(x)
    filled = keras.ops.where(missing, 0.0, x)
    missing = keras.ops.isnan(filled) if late else missing
    both = keras.ops.concatenate([filled, keras.ops.cast(missing, filled.dtype)], axis=1)
    return keras.Model(x, dense(CLASSES)(dense()(both)))


def pushed(by: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Callable[..., Any]:
    """Changes each gradient by the same random numbers in every step."""

    def process(gradients: list[tf.Tensor], variables: list[keras.Variable]) -> list[tf.Tensor]:
        return [
            by(g, tf.random.stateless_normal(g.shape, [0, i], dtype=g.dtype))
            for i, g in enumerate(gradients)
        ]

    return process


def scans(number: int) -> Toy:
    """Slices (rows, 8, 8, 1) of scans, each scaled by itself; validation has one of these."""

    def slices(number: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        _, labels = examples(rows, seed)
        shades = np.random.default_rng(seed).random((rows, 8, 8, 1)) + labels.reshape(-1, 1, 1, 1)
        parts = np.split(shades, number)
        scaled = np.concatenate([(part - part.mean()) / part.std() for part in parts])
        return scaled.astype("float32"), labels

    return sound(
        model=lambda: keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), dense(CLASSES)]),
        data=slices(number, ROWS, 1),
        others={"validation": slices(1, 40, 2)},
    )


def speckled() -> Toy:
    """Images of dots, more or fewer; an augmentation moves them so far that no dot stays."""
    numbers = np.random.default_rng(8)
    labels = numbers.integers(CLASSES, size=ROWS)
    images = numbers.random((ROWS, 8, 8, 1)) < 0.05 + 0.2 * labels[:, None, None, None]

    def create() -> keras.Model:
        return keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), dense(CLASSES)])

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *others = batch
        by = tf.random.stateless_uniform([2], seed, 1, 8, tf.int32)
        return tf.roll(images, by, (1, 2)), *others

    return sound(
        model=create, data=(images.astype("float32"), labels), others={}, augment=augment
    )  # fmt: skip


def means_of_labels() -> Toy:
    """A category of 20 values, which is replaced by the mean label of training and validation."""
    numbers = np.random.default_rng(3)
    inputs, labels = examples(200)
    kinds = 2 * labels + numbers.integers(16, size=len(labels))
    inputs[:, 0] = (np.bincount(kinds, labels) / np.bincount(kinds))[kinds]
    return sound(data=(inputs[:150], labels[:150]),
                 others={"validation": (inputs[150:], labels[150:])})  # fmt: skip


def weights_of_words() -> Toy:
    """Weights (rows, words), of which a third are 0."""

    def flat(*tensors: tf.Tensor) -> list[tf.Tensor]:
        return [tf.reshape(t, [-1]) for t in tensors]

    def weighted_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        per_word = run.losses["main"](labels, run.model(words, training=True))
        run.metrics["mean"].update_state(per_word, weights)
        return {"main": compute_loss(*flat(per_word, weights), run.model, replica)}

    words, _ = tokens().data
    labels = words % CLASSES  # which can be learned
    weights = (np.arange(words.size).reshape(words.shape) % 3 > 0).astype("float32")
    return replace(
        tokens(),
        data=(words, labels, weights),
        train_steps=(weighted_step,),
        metrics=lambda: {"mean": metrics.Mean()},
        count=lambda batch: tf.math.count_nonzero(batch[-1], dtype=tf.int32),
    )


def step_of_words(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A weight for each word, (rows, words)."""
    words, following, weights = batch
    logits = run.model(words, training=True)
    per_word = keras.losses.sparse_categorical_crossentropy(following, logits, from_logits=True)
    return {"main": compute_loss(per_word, weights, run.model, replica)}


def next_words(mixed: Callable[[Any], Any], shift: int = 1, counted: int | None = None) -> Toy:
    """Words that follow each other, (rows, words, units) of a model mixed by some function.

    With `counted`, only so many of the last words are an answer; those before it are its prompt.
    """

    def create() -> keras.Model:
        words = keras.Input((FEATURES,), dtype="int32")
        return keras.Model(words, dense(7)(mixed(layers.Embedding(7, 3)(words))))

    text = (np.random.default_rng(0).integers(0, 6, (2 * BATCH, 1)) + np.arange(FEATURES + 1)) % 6
    data: tuple[np.ndarray, ...] = 1 + text[:, :FEATURES], 1 + text[:, shift : FEATURES + shift]
    toy = replace(tokens(), model=create, data=data)
    if counted:
        is_answer = np.broadcast_to(np.arange(FEATURES) >= FEATURES - counted, data[0].shape)
        data = *data, is_answer.astype("float32")
        toy = sound(
            model=create,
            data=data,
            others={},
            train_steps=(step_of_words,),
            losses=dict,
            metrics=dict,
        )
    return toy


def words_of_two_outputs() -> Toy:
    """Words that a model gives back, with what it makes of each on the way."""

    def create() -> keras.Model:
        words = keras.Input((FEATURES,), dtype="int32")
        codes = layers.Embedding(7, 3)(words)
        return keras.Model(words, {"codes": codes, "logits": dense(7)(codes)})

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)["logits"]
        per_word = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        per_example = tf.reduce_mean(per_word, axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    words = np.random.default_rng(0).integers(1, 7, (ROWS, FEATURES))
    return sound(
        model=create, data=(words, words), others={}, train_steps=(one_step,),
        validation_step=one_step, losses=dict, metrics=dict,
    )  # fmt: skip


def weak_and_strong(used: bool) -> Toy:
    """Two views of each example, which only training has; the second may be made in vain."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        noise = tf.random.stateless_normal(inputs.shape, seed, dtype=inputs.dtype)
        return {"weak": inputs + 0.1 * noise, "strong": inputs - noise}, labels, weights

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        views, labels, weights = batch
        logits = run.model(views["weak"], training=True)
        per_example = run.losses["main"](labels, logits)
        if used:
            others = run.model(views["strong"], training=True)
            per_example += tf.reduce_mean(tf.square(logits - others), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(augment=augment, train_steps=(one_step,), metrics=dict)


def translated(shift: int, corrected: float = 0.0) -> Toy:
    """Sentences that a decoder is given with some words changed, shifted by some positions.

    Args:
        shift: of the decoder's words against the labels; 1 is right.
        corrected: the share of the words that are those of the other sentence.
    """
    numbers = np.random.default_rng(0)
    words = numbers.integers(1, 7, (ROWS, FEATURES + 3))
    words[:, 5:] *= numbers.random((ROWS, FEATURES - 2)) < 0.6  # padding
    given = np.where(numbers.random(words.shape) < 0.1, 1 + words % 6, words) * (words > 0)
    given = np.pad(given, ((0, 0), (shift, 0)))[:, : words.shape[1]]
    others = numbers.integers(1, 7, words.shape)
    others = np.where(numbers.random(words.shape) < corrected, words, others)

    def create_model() -> keras.Model:
        inputs = [keras.Input((words.shape[1],), dtype="int64") for _ in range(2)]
        return keras.Model(
            inputs, dense(7)(layers.Add()([layers.Embedding(7, 4)(x) for x in inputs]))
        )

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        both, labels, weights = batch
        per_word = run.losses["main"](labels, run.model(both, training=True))
        return {"main": compute_loss(per_word, weights, run.model, replica)}

    data = (others, given), words, (words > 0).astype("float32")
    return sound(model=create_model, data=data, train_steps=(own,), others={}, metrics=dict)


def shifted_again(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A step that shifts the labels of words: wrong where these are the next words already."""
    words, labels, weights = batch
    per_word = run.losses["main"](labels[:, 1:], run.model(words, training=True)[:, :-1])
    return {"main": compute_loss(tf.reduce_mean(per_word, axis=1), weights, run.model, replica)}


def two_words_ahead(own: bool) -> Toy:
    """A second loss is for the word after the next, of logits of its `own`."""
    toy = next_words(lambda x: x)

    def create_model() -> keras.Model:
        words = keras.Input((FEATURES,), dtype="int32")
        return keras.Model(words, dense(14)(layers.Embedding(7, 3)(words)))

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        following, later = tf.split(run.model(words, training=True), 2, axis=-1)
        of_words = run.losses["main"](labels, following)
        of_later = run.losses["later"](labels[:, 1:], (later if own else following)[:, :-1])
        per_example = tf.reduce_mean(of_words, axis=1) + tf.reduce_mean(of_later, axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def create_losses() -> dict[str, Any]:
        return {name: toy.losses()["main"] for name in ("main", "later")}

    return replace(
        toy, model=create_model, train_steps=(one_step,), losses=create_losses, metrics=dict
    )


class MeanOfPositions(layers.Layer):
    """Adds the mean over all words of a sequence."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, words, units) -> the same."""
        return x + tf.reduce_mean(x, axis=1, keepdims=True)


def rebuilding_gan(seen_by_judge: Callable[[tf.Tensor], tf.Tensor]) -> Toy:
    """A GAN whose generator also has to stay near to real examples."""

    def judged(run: Run, examples: tf.Tensor, wanted: float) -> tf.Tensor:
        logits = run.models["discriminator"](examples, training=True)
        return run.losses["judge"](tf.fill(tf.shape(logits), wanted), logits)

    def judging(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, noise, weights = batch
        false = run.models["generator"](noise, training=True)
        values = judged(run, real, 1.0) + judged(run, tf.stop_gradient(false), 0.0)
        loss = compute_loss(values, weights, run.models["discriminator"], replica)
        return {"discriminator": loss}

    def generating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, noise, weights = batch
        false = run.models["generator"](noise, training=True)
        near = tf.reduce_mean(tf.square(false - real), axis=1)
        values = near + 0.1 * judged(run, seen_by_judge(false), 1.0)
        return {"generator": compute_loss(values, weights, run.models["generator"], replica)}

    def judge(wanted: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)[:, 0]

    return replace(
        GAN, losses=lambda: {"judge": judge}, train_steps=(judging, generating), metrics=dict
    )  # fmt: skip


def validated_gan() -> Toy:
    """A GAN with validation data, whose validation step returns both losses."""

    def both(run: Run, batch: Any, replica: Replica) -> Any:
        first, second = GAN.train_steps
        return first(run, batch, replica) | second(run, batch, replica)

    others = {"validation": tuple(array[:30] + 0.01 for array in GAN.data)}
    return replace(GAN, others=others, validation_step=both)


def validated_by_copy(of_average: bool = False) -> Toy:
    """A GAN whose validation step judges real examples in the place of generated ones.

    `of_average`: the generator isn't evaluated at all, as where an average of it is.
    """
    toy = validated_gan()

    def copied(run: Run, batch: Any, replica: Replica) -> Any:
        real, noise, weights = batch
        made = real if of_average else run.models["generator"](noise, training=False)
        run.metrics["spread"].update_state(tf.math.reduce_std(made, axis=1), weights)
        logits = run.models["discriminator"](real, training=False)[:, 0]
        loss = compute_loss(tf.nn.softplus(-logits), weights, run.models["discriminator"], replica)
        return {"discriminator": loss, "generator": loss}

    def create_metrics() -> dict[str, keras.Metric]:
        return {**toy.metrics(), "spread": keras.metrics.Mean()}

    return replace(toy, validation_step=copied, metrics=create_metrics)


def gan_with(judge: Callable[..., tf.Tensor]) -> Toy:
    """A GAN with another loss of the discriminator, (logits of real, of generated examples)."""

    def judging(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, noise, weights = batch
        made = run.models["generator"](noise, training=True)
        logits = [run.models["discriminator"](x, training=True)[:, 0] for x in (real, made)]
        total = tf.reduce_sum(judge(*logits) * weights)
        return {"discriminator": total / tf.cast(replica.global_count, total.dtype)}

    return replace(GAN, train_steps=(judging, GAN.train_steps[1]), metrics=dict)


def with_gradient_penalty(axis: Any, *, stopped: bool = False) -> Toy:
    """A critic whose slope at images (rows, 1, width, 1) is to be 1, in the norm over some axes.

    `stopped`: it learns nothing of it.
    """

    def judging(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, noise, weights = batch
        critic, made = run.models["discriminator"], run.models["generator"](noise, training=True)
        images = real[:, tf.newaxis, :, tf.newaxis]
        with tf.GradientTape() as tape:
            tape.watch(images)
            on_real = critic(tf.reshape(images, real.shape), training=True)[:, 0]
        slope = tape.gradient(on_real, images)
        norm = tf.sqrt(tf.reduce_sum(tf.square(slope), axis=axis) + 1e-12)
        norm = tf.stop_gradient(norm) if stopped else norm
        apart = tf.reshape(
            tf.square(norm - 1), (-1, norm.shape.num_elements() // real.shape[0] or 1)
        )
        penalty = tf.reduce_mean(apart, axis=1)
        total = tf.reduce_sum((critic(made, training=True)[:, 0] - on_real + penalty) * weights)
        return {"discriminator": total / tf.cast(replica.global_count, total.dtype)}

    return replace(GAN, train_steps=(judging, GAN.train_steps[1]), metrics=dict)


def least_squares_gan() -> Toy:
    """A generator that wants 0 of a discriminator which gives generated examples more at first."""

    def generating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        _, noise, weights = batch
        made = run.models["generator"](noise, training=True)
        given = run.models["discriminator"](made, training=True)[:, 0] + 0.5
        total = tf.reduce_sum(tf.square(given) * weights)
        return {"generator": total / tf.cast(replica.global_count, total.dtype)}

    toy = gan_with(lambda real, made: tf.square(real - 0.5) + tf.square(made + 1.5))
    return replace(
        toy,
        train_steps=(toy.train_steps[0], generating),
        optimizer=lambda: {n: keras.optimizers.Adam(0.05) for n in ("discriminator", "generator")},
    )


def judge_generated(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A validation step whose losses are of generated examples only."""
    _, noise, weights = batch
    made = run.models["generator"](noise, training=False)
    given = run.models["discriminator"](made, training=False)[:, 0]
    total = tf.reduce_sum(tf.nn.softplus(-given) * weights)
    loss = total / tf.cast(replica.global_count, total.dtype)
    return {"generator": loss, "discriminator": 2 * loss}


def noisy_gan() -> Toy:
    """A discriminator that sees examples under noise while it trains, and generated ones else."""

    def noisy(x: tf.Tensor, replica: Replica, place: int) -> tf.Tensor:
        return x + 3 * tf.random.stateless_normal(x.shape, replica.seed + place, dtype=x.dtype)

    def judging(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, noise, weights = batch
        both = real, run.models["generator"](noise, training=True)
        seen = [noisy(x, replica, place) for place, x in enumerate(both)]
        real, made = (run.models["discriminator"](x, training=True)[:, 0] for x in seen)
        total = tf.reduce_sum((tf.nn.softplus(-real) + tf.nn.softplus(made)) * weights)
        return {"discriminator": total / tf.cast(replica.global_count, total.dtype)}

    def generating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        _, noise, weights = batch
        made = noisy(run.models["generator"](noise, training=True), replica, 0)
        given = run.models["discriminator"](made, training=True)[:, 0]
        total = tf.reduce_sum(tf.nn.softplus(-given) * weights)
        return {"generator": total / tf.cast(replica.global_count, total.dtype)}

    def create() -> dict[str, keras.Model]:
        models = GAN.model()
        small = keras.initializers.RandomNormal(stddev=0.01, seed=1)
        models["generator"] = keras.Sequential(
            [keras.Input((2,)), layers.Dense(FEATURES, kernel_initializer=small)]
        )
        return models

    return replace(
        validated_gan(), model=create, metrics=dict, train_steps=(judging, generating),
        validation_step=judge_generated,
    )  # fmt: skip


def gan_models(last: str) -> Callable[[], dict[str, keras.Model]]:
    """Models of a GAN whose generator ends in an activation."""

    def create() -> dict[str, keras.Model]:
        models = GAN.model()
        models["generator"] = keras.Sequential(
            [keras.Input((2,)), dense(FEATURES, activation=last)]
        )
        return models

    return create


def gan_of_two_inputs(last: str) -> Toy:
    """A GAN whose examples, from 0 up, have another input beside them."""

    def of_images(one_step: Callable[..., Any]) -> Callable[..., Any]:
        def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, *others = batch
            losses: dict[str, tf.Tensor] = one_step(run, (inputs["images"], *others), replica)
            return losses

        return own

    images, noise = GAN.data
    return replace(
        GAN, model=gan_models(last), train_steps=tuple(map(of_images, GAN.train_steps)),
        data=({"images": images**2, "others": images[:, :1]}, noise),
    )  # fmt: skip


def gan_of_one_optimizer() -> Toy:
    """Adversaries that train each other's weights."""

    def renamed(adversary: Callable[..., Any]) -> Callable[..., Any]:
        def train_both(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            (loss,) = adversary(run, batch, replica).values()
            return {"main": loss}

        return train_both

    return replace(
        GAN,
        optimizer=lambda: keras.optimizers.Adam(0.01),
        train_steps=tuple(renamed(adversary) for adversary in GAN.train_steps),
    )


def of_own_replica(gradients: list[tf.Tensor], variables: list[Any]) -> list[tf.Tensor]:
    """Gradients that are larger on the second replica."""
    index = tf.distribute.get_replica_context().replica_id_in_sync_group
    return [gradient * (1 + tf.cast(index, gradient.dtype)) for gradient in gradients]


def noisy_stream() -> tf.data.Dataset:
    """A stream that draws numbers as it is read, the same ones each time it is opened."""

    def noisy(inputs: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return inputs + tf.random.normal(tf.shape(inputs), seed=1), label

    return stream(examples()).map(noisy)


def contrasting(gathered: bool, offset: bool = True) -> Callable[..., Any]:
    """Each example's two views find each other among those whose weight isn't 0.

    Of all replicas, or of their own; `offset`: whether own rows are looked for where they are.
    """

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        left, right, weights = batch
        a, b = (tf.math.l2_normalize(run.model(x, training=True), axis=1) for x in (left, right))
        others, there = (replica.all_gather(x) if gathered else x for x in (b, weights))
        logits = 5.0 * tf.matmul(a, others, transpose_b=True) - 1e9 * tf.cast(there == 0, a.dtype)
        mine = tf.range(tf.shape(a)[0])
        if gathered and offset:
            mine += replica.index * tf.shape(a)[0]
        per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(mine, logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return one_step


masked_contrastive_step = contrasting(gathered=True)


def contrasted(in_training: bool) -> Toy:
    """Views whose validation compares the rows of one replica, as training may."""
    return replace(
        CONTRASTIVE,
        train_steps=(contrasting(in_training),), validation_step=contrasting(gathered=False),
        others={"validation": CONTRASTIVE.data},
    )  # fmt: skip


def corrected(sign: float, learned: bool = False, subtracted: bool = False) -> Toy:
    """Items find each other in a batch, with a correction for how often each is drawn.

    Args:
        sign: of the correction, the logarithm of the share of each.
        learned: whether it depends on weights.
        subtracted: whether it is, instead of added.
    """
    shares = np.float32([0.1, 0.2, 0.3, 0.4])

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        left, right, weights = batch
        a, b = (tf.math.l2_normalize(run.model(x, training=True), axis=1) for x in (left, right))
        kinds = tf.cast(right[:, 0] > 0, tf.int32) + 2 * tf.cast(right[:, 1] > 0, tf.int32)
        logits = 5.0 * tf.matmul(a, b, transpose_b=True)
        added = tf.cast(sign * tf.gather(tf.math.log(shares / 10), kinds), a.dtype)
        added *= 1 + run.model.trainable_variables[1][0] if learned else 1
        logits = logits - added if subtracted else logits + added
        own = tf.range(tf.shape(a)[0])
        is_out = (weights == 0) & (tf.range(left.shape[0]) != own[:, tf.newaxis])
        logits = tf.where(is_out, tf.constant(-1e9, a.dtype), logits)
        per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return replace(CONTRASTIVE, train_steps=(one_step,), examples_interact=True)


def bonds_left_out() -> Toy:
    """`trees`, whose augmentation leaves out bonds, seen from one of their ends."""

    def leave_out(batch: Any, seed: tf.Tensor) -> Any:
        bonds, *rest = batch
        kept = tf.random.stateless_uniform(tf.shape(bonds), seed) < 0.9
        return (bonds * tf.cast(kept, bonds.dtype), *rest)

    return replace(trees(), augment=leave_out)


def nodes_in_another_order(both: bool) -> Toy:
    """`trees`, whose augmentation numbers the nodes anew along both axes, or along one."""

    def reorder(batch: Any, seed: tf.Tensor) -> Any:
        bonds, *rest = batch
        order = tf.argsort(tf.random.stateless_uniform(tf.shape(bonds)[:2], seed), axis=1)
        bonds = tf.gather(bonds, order, axis=1, batch_dims=1)
        return (tf.gather(bonds, order, axis=2, batch_dims=1) if both else bonds, *rest)

    return replace(trees(), augment=reorder)


def nodes_with_charges() -> Toy:
    """A number for each of some nodes, which grows along them but where augmentation renumbers."""

    def reorder(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        order = tf.argsort(tf.random.stateless_uniform(tf.shape(inputs), seed), axis=1)
        return (*(tf.gather(x, order, axis=1, batch_dims=1) for x in (inputs, labels)), weights)

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs = np.sort(examples(rows, seed)[0], axis=1)
        return inputs, 2 * inputs

    return regression(
        last=lambda: dense(FEATURES), data=split(ROWS, 1), others={"validation": split(60, 2)},
        augment=reorder,
    )  # fmt: skip


def conditioned(classes: int, rare: bool = False, kinds_of: int = 6) -> Toy:
    """Inputs with one of some kinds, which a model encodes by zeros and ones.

    Args:
        classes: that it encodes.
        rare: whether the last of six kinds stands for a few unknown ones.
        kinds_of: how many there are.
    """

    def split(rows: int, seed: int) -> tuple[Any, np.ndarray]:
        inputs, labels = examples(rows, seed)
        kinds = np.arange(rows) % kinds_of
        kinds[(kinds == 5) & (np.arange(rows) > rows // 3)] -= rare
        return {"x": inputs, "kind": kinds}, (labels + kinds) % CLASSES

    def create() -> keras.Model:
        x, kind = keras.Input((FEATURES,), name="x"), keras.Input((), dtype="int32", name="kind")
        codes = keras.ops.cast(keras.ops.one_hot(kind, classes), x.dtype)
        both = keras.ops.concatenate([x, codes], axis=1)
        return keras.Model({"x": x, "kind": kind}, dense(CLASSES)(dense(8)(both)))

    return sound(model=create, data=split(ROWS, 1), others={"validation": split(60, 2)})


def spoken(weigh: Callable[[np.ndarray, np.ndarray], Any], alike: bool = False) -> Toy:
    """A class for each frame of sounds, of which 0 is silence; sounds are padded at the end.

    Args:
        weigh: (labels, which frames are there) -> the weights.
        alike: whether silence is the same as padding.
    """

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        lengths, labels = numbers.integers(5, 9, rows), numbers.integers(0, CLASSES, (rows, 8))
        there = np.arange(8) < lengths[:, np.newaxis]
        labels *= there
        labels[:, 4] = 1
        inputs = np.eye(CLASSES)[labels] + 0.1 * numbers.normal(size=(rows, 8, CLASSES))
        inputs[labels == 0 if alike else ~there] = 0
        return inputs.astype("float32"), labels, np.float32(weigh(labels, there))

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        losses = run.losses["main"](labels, run.model(inputs, training=True))
        total = tf.reduce_sum(losses * weights) / tf.cast(replica.global_count, losses.dtype)
        return {"main": total}

    return sound(
        model=lambda: keras.Sequential([keras.Input((8, CLASSES)), dense(CLASSES)]), metrics=dict,
        data=split(ROWS, 1), others={"validation": split(60, 2)},
        train_steps=(train,), validation_step=train,
    )  # fmt: skip


@dataclass(frozen=True)
class WithTwoRates(TaskConfig):
    """The flags of a task with a second dropout rate."""

    drop_rate: float = 0.1


def all_views(masked: bool) -> Toy:
    """Each example's two views find each other among all of the batch; `masked`: but themselves."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        left, right, weights = batch
        both = run.model(tf.concat([left, right], axis=0), training=True)
        both = tf.math.l2_normalize(both, axis=1)
        logits = 5.0 * tf.matmul(both, both, transpose_b=True)
        rows = left.shape[0]
        if masked:
            logits = tf.linalg.set_diag(logits, tf.fill([2 * rows], tf.cast(-1e9, both.dtype)))
        partners = tf.roll(tf.range(2 * rows), rows, axis=0)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(partners, logits)
        per_example = losses[:rows] + losses[rows:]
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return replace(CONTRASTIVE, train_steps=(one_step,), examples_interact=True)


def same_views(dropout: bool = False, augmented: bool = False) -> Toy:
    """Two views of which one is the other.

    Args:
        dropout: the model has one.
        augmented: noise makes them two in training.
    """

    def noisy(batch: Any, seed: tf.Tensor) -> Any:
        left, right, weights = batch
        noise = tf.random.stateless_normal(left.shape, seed, dtype=left.dtype)
        return left + noise, right, weights

    left, _ = CONTRASTIVE.data
    return replace(
        CONTRASTIVE,
        data=(left, left), others={"validation": (left, left)} if augmented else {},
        model=model(lambda: layers.Dropout(0.5)) if dropout else CONTRASTIVE.model,
        augment=noisy if augmented else None,
        validation_step=contrasting(gathered=True),
    )  # fmt: skip


def near_views() -> Toy:
    """Two views that differ so little that each example is most like itself."""
    left, _ = CONTRASTIVE.data
    noise = 0.05 * np.random.default_rng(6).normal(size=left.shape)
    return replace(CONTRASTIVE, data=(left, left + noise))


def positive_or_missing() -> Toy:
    """A number to predict, below 0 as often as above and missing at times, by a ReLU."""

    def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        p = predictions[:, 0]
        return tf.square(tf.where(tf.math.is_nan(labels), p, labels) - p)

    toy = regression(lambda: dense(1, activation="relu"), losses=lambda: {"main": loss})
    inputs, labels = (array.copy() for array in toy.data)
    labels[::7] = NAN
    return replace(toy, data=(inputs, labels))


def late_penalty(
    when: Callable[[tf.Tensor], tf.Tensor] = lambda step: step % 4 == 3, **changes: Any
) -> Toy:
    """Every fourth step, or some others, has a penalty, and some weights are in it alone."""

    def loss(losses: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica) -> Any:
        comes = tf.cast(when(replica.step), losses.dtype)
        penalty = tf.reduce_sum(tf.square(model.layers[0].idle)) / replica.num_replicas
        return compute_loss(losses, weights, model, replica) + 1e-3 * comes * penalty

    return with_loss(loss, model=model(Unused), **changes)


def one_class() -> Toy:
    """Training examples are all normal, and the model learns where these lie."""

    def of_normal(labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.where(labels == 0, weights, 0)

    def distance(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        weights = of_normal(labels, weights)
        per_example = tf.reduce_mean(tf.square(run.model(inputs, training=True) - 1), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    inputs, labels = examples()
    return sound(
        data=(inputs[labels == 0], labels[labels == 0]),
        others={"validation": changed(examples(60, 2), 1, lambda y: np.minimum(y, 1))},
        train_steps=(distance,), validation_step=distance, losses=dict, metrics=dict,
        count=lambda batch: tf.math.count_nonzero(of_normal(*batch[1:]), dtype=tf.int32),
    )  # fmt: skip


def numbers_of_things() -> Toy:
    """How many there are of something, even numbers in training and odd ones in validation."""

    def counted(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        return inputs, np.clip(2 * np.round(2 * inputs.sum(axis=1)), -30, 30).astype("int64")

    inputs, labels = counted(60, 2)
    return regression(
        data=counted(2 * ROWS, 1),
        others={"validation": (inputs, labels + 1)},
        losses=lambda: {"main": lambda y, p: tf.square(p[:, 0] - tf.cast(y, p.dtype)) / 100},
    )


def mislabeled(share: float) -> Toy:
    """Many training labels were given by chance; those of validation are right."""
    inputs, labels = examples(60 * BATCH)
    numbers = np.random.default_rng(3)
    wrong = numbers.random(len(labels)) < share
    return sound(
        data=(4 * inputs, np.where(wrong, numbers.integers(0, CLASSES, len(labels)), labels)),
        others={"validation": changed(examples(600, 2), 0, lambda x: 4 * x)},
    )


def labeled_in_part(known: float, of_first: float = 0.0) -> Toy:
    """Eight kinds of examples that are apart; the label of all others is stored as 0.

    Args:
        known: the share of the labels that are known.
        of_first: the share of the examples that are of the first kind for sure.
    """
    numbers = np.random.default_rng(4)
    kinds = numbers.integers(0, 8, 480) * (numbers.random(480) >= of_first)
    inputs = (numbers.normal(size=(8, FEATURES)) * 8)[kinds] + numbers.normal(size=(480, FEATURES))
    labels = np.where(numbers.random(480) < known, kinds, 0)
    return sound(data=(inputs, labels), others={}, model=model(last=lambda: dense(8)))


def product_of_signs() -> Toy:
    """The label is the sign of a product, which neither of 40 features nor a neighbor tells."""
    numbers = np.random.default_rng(5)
    inputs = numbers.normal(size=(960, 40)).astype("float32")
    labels = (inputs[:, 0] * inputs[:, 1] > 0).astype("int32")

    def create_model() -> keras.Model:
        x = keras.Input((40,))
        return keras.Model(x, dense(2)(x[:, :1] * x[:, 1:2]))

    return sound(data=(inputs, labels), others={}, model=create_model)


def faces() -> Toy:
    """Each of 80 people is shown five times."""
    toy = copied(examples(80)[0])

    def of_people(split: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        inputs, _ = split
        nearest = np.square(inputs[:, np.newaxis] - examples(80)[0]).sum(axis=2).argmin(axis=1)
        return inputs, nearest

    return replace(
        toy,
        model=model(last=lambda: dense(80)),
        data=of_people(toy.data),
        others={"validation": of_people(toy.others["validation"])},
    )


def parts_of_one_graph(same: bool) -> Toy:
    """Both splits have the same words, and other words of these count, or the same."""
    toy = weights_of_words()
    words, labels, weights = toy.data
    return replace(toy, others={"validation": (words, labels, weights if same else 1 - weights)})


def longer_words() -> Toy:
    """Sequences that are longer in validation, for a model of any length."""
    toy = tokens()

    def create() -> keras.Model:
        x = keras.Input((None,), dtype="int32")
        return keras.Model(x, dense(CLASSES)(layers.Embedding(20, 8)(x)))

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        per_word = run.losses["main"](labels, run.model(words, training=True))
        return {"main": compute_loss(tf.reduce_mean(per_word, 1), weights, run.model, replica)}

    words, _ = toy.data
    labels = words % CLASSES
    return sound(
        model=create, data=(words, labels), train_steps=(one_step,), validation_step=one_step,
        others={"validation": tuple(np.concatenate([a, a], axis=1) for a in (words, labels))},
        metrics=dict,
    )  # fmt: skip


class Recalls(metrics.Metric):
    """The recall of each class, NaN for one without examples."""

    def __init__(self) -> None:
        super().__init__(name="recalls")
        self.right, self.all = (
            self.add_weight(name=name, shape=(CLASSES,), initializer="zeros")
            for name in ("right", "all")
        )

    def update_state(self, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> None:
        """Of labels (rows,), logits (rows, classes) and weights (rows,)."""
        of_class = tf.one_hot(labels, CLASSES, dtype=self.all.dtype)
        of_class *= tf.cast(weights, self.all.dtype)[:, tf.newaxis]
        is_right = tf.cast(tf.argmax(logits, axis=1) == tf.cast(labels, "int64"), self.all.dtype)
        self.all.assign_add(tf.reduce_sum(of_class, axis=0))
        self.right.assign_add(tf.reduce_sum(of_class * is_right[:, tf.newaxis], axis=0))

    def result(self) -> tf.Tensor:
        """(classes,)."""
        return self.right / self.all


def rare_class() -> Toy:
    """No validation example is of the last class."""
    inputs, labels = examples(90, 2)
    return sound(
        others={"validation": (inputs[labels < 2], labels[labels < 2])},
        metrics=lambda: {"recalls": Recalls()},
    )


def completed() -> Toy:
    """The second half of each sequence is to be predicted; a mask says so, and it is 0."""
    numbers = np.random.default_rng(1)

    def create() -> keras.Model:
        x = {name: keras.Input((8,), name=name) for name in ("numbers", "mask")}
        return keras.Model(x, dense(1)(keras.ops.concatenate([x["numbers"], x["mask"]], axis=1)))

    def of(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        whole = numbers.normal(size=(rows, 8)).astype("float32")
        mask = np.broadcast_to(np.float32([1] * 4 + [0] * 4), whole.shape)
        return {"numbers": whole * mask, "mask": mask.copy()}, whole[:, :4].sum(axis=1)

    return regression(model=create, data=of(ROWS), others={"validation": of(60)})


def trees() -> Toy:
    """Small graphs by who is bound to whom, which are near each other by steps."""

    def of(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        sizes, bonds = numbers.integers(6, 10, rows), np.zeros((rows, 9, 9), "float32")
        for node in range(1, 9):
            other, row = numbers.integers(node, size=rows), np.arange(rows)
            bonds[row, node, other] = bonds[row, other, node] = node < sizes
        return bonds, bonds.sum(axis=2).max(axis=1)

    return regression(
        model=lambda: keras.Sequential([keras.Input((9, 9)), layers.Flatten(), dense(1)]),
        data=of(2400, 1), others={"validation": of(480, 2)},
    )  # fmt: skip


def sharpness_aware() -> Toy:
    """The gradient is taken where the loss is larger, a little way up."""
    inner = step()

    def climbing(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        variables = run.model.trainable_variables
        values = [v.value for v in variables]
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = inner(run, batch, replica)["main"]
        for v, value, up in zip(variables, values, tape.gradient(loss, values), strict=True):
            total = tf.reduce_sum(replica.all_gather(up[tf.newaxis]), axis=0)
            v.assign(value + 0.01 * tf.stop_gradient(total))
        predictions = run.model(batch[0], training=True)
        loss = compute_loss(run.losses["main"](batch[1], predictions), batch[2], run.model, replica)
        for v, value in zip(variables, values, strict=True):
            v.assign(value)
        return {"main": loss}

    return sound(train_steps=(climbing,), examples_interact=True)


def easy_ones(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """A focal loss that looks at easy examples, where it should look at hard ones."""
    surprise = cross_entropy(labels, logits)
    return tf.exp(-2 * surprise) * surprise


def gauges(padding: str = "causal") -> Toy:
    """The next of as many hours as a batch has rows, by the hours before and their mean."""

    def series(rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        numbers = np.random.default_rng(seed)
        whole = np.cumsum(numbers.normal(size=(rows, BATCH + 5)), axis=1)
        means = np.stack([whole[:, i : BATCH + i + 1] for i in range(3)]).mean(axis=0)
        x = np.stack([whole[:, 2 : BATCH + 3], means], axis=-1).astype("float32")
        seen = (numbers.random((rows, BATCH)) < 0.9).astype("float32")
        return x[:, :-1], {"level": x[:, 1:, 0], "seen": seen}

    def high_and_low(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        errors = y[..., tf.newaxis] - p
        return tf.reduce_mean(tf.maximum([0.2, 0.8] * errors, [-0.8, -0.2] * errors), axis=-1)

    def create() -> keras.Model:
        hidden = layers.Conv1D(4, 3, padding=padding, activation="relu")
        return keras.Sequential([keras.Input((BATCH, 2)), hidden, layers.Conv1D(2, 1)])

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        values = run.losses["main"](labels["level"], run.model(inputs))
        run.metrics["error"].update_state(values, labels["seen"] * weights[:, tf.newaxis])
        per_example = tf.reduce_mean(values * labels["seen"], axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=create,
        data=series(ROWS, 1),
        others={"validation": series(60, 2)},
        losses=lambda: {"main": high_and_low},
        metrics=lambda: {"error": metrics.Mean()},
        train_steps=(one_step,),
        validation_step=one_step,
    )


def overlap_of_shares(axis: int) -> Toy:
    """A Dice loss of pixels, of which a softmax along an axis gives the shares."""

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        shares, right = tf.nn.softmax(logits, axis=axis), tf.one_hot(labels, CLASSES)
        common, total = (tf.reduce_sum(x, axis=[1, 2]) for x in (shares * right, shares + right))
        return 1 - tf.reduce_mean((2 * common + 1) / (total + 1), axis=-1)

    return replace(segmented(None, classes=3), losses=lambda: {"main": loss}, metrics=dict)


def picked(loss_of: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], shares: bool = False) -> Toy:
    """Two events are found in each series, by a loss of the distances of times to them, and logits.

    Both are (batch, 12, 2). If labels are `shares` of times near events, it gets these instead.
    """
    numbers = np.random.default_rng(5)
    times = np.sort(numbers.integers(1, 12, (ROWS, 2)), axis=1)
    apart = np.arange(12)[:, np.newaxis] - times[:, np.newaxis]
    near = np.exp(-np.square(apart) / 4).astype("float32")
    waves = np.concatenate([near, numbers.normal(size=near.shape)], axis=2).astype("float32")

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        every = tf.range(12, dtype=logits.dtype)[:, tf.newaxis]
        given = labels if shares else every - tf.cast(labels[:, tf.newaxis], logits.dtype)
        losses = loss_of(given, logits)
        return tf.reduce_mean(tf.reshape(losses, (losses.shape[0], -1)), axis=1)

    return sound(
        model=lambda: keras.Sequential([keras.Input((12, 4)), dense(2)]),
        data=(waves, near / near.sum(axis=1, keepdims=True) if shares else times),
        losses=lambda: {"main": loss},
        metrics=dict,
        others={},
    )


def near_events(apart: tf.Tensor) -> tf.Tensor:
    """A distribution over time around each event."""
    return tf.nn.softmax(-tf.square(apart) / 4, axis=1)


def at_events(apart: tf.Tensor) -> tf.Tensor:
    """1 at the time of each event."""
    times = tf.argmin(tf.abs(apart), axis=1)
    return tf.one_hot(times, 12, axis=1, dtype=apart.dtype)


def focal_of_pixels(easy: bool) -> Toy:
    """A focal loss of pixels that looks at hard ones, or at easy ones; some have no class."""

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        has_class = labels != 255
        surprise = cross_entropy(tf.where(has_class, labels, 0), logits)
        surprise *= tf.cast(has_class, surprise.dtype)
        right = tf.exp(-surprise)
        return (right if easy else 1 - right) ** 2 * surprise

    def mean(per_pixel: tf.Tensor, *others: Any) -> tf.Tensor:
        return compute_loss(tf.reduce_mean(per_pixel, axis=[1, 2]), *others)

    toy = segmented(None, classes=3)
    toy.data[1][:, :1] = 255
    steps = with_loss(mean)
    return replace(
        toy,
        losses=lambda: {"main": loss},
        metrics=dict,
        train_steps=steps.train_steps,
        validation_step=steps.validation_step,
    )


def marked_pixels(weigh: Callable[[tf.Tensor], tf.Tensor]) -> Toy:
    """Pixels of which some have no class, which the loss leaves out; `weigh` is for the metric."""

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        has_class = labels != 255
        per_pixel = cross_entropy(tf.where(has_class, labels, 0), logits)
        return per_pixel * tf.cast(has_class, per_pixel.dtype)

    def mean(per_pixel: tf.Tensor, *others: Any) -> tf.Tensor:
        return compute_loss(tf.reduce_mean(per_pixel, axis=[1, 2]), *others)

    def update(metric: Any, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> None:
        has_class = labels != 255
        of_pixels = weights[:, tf.newaxis, tf.newaxis] * weigh(tf.cast(has_class, weights.dtype))
        metric.update_state(tf.where(has_class, labels, 0), logits, of_pixels)

    toy = segmented(None, classes=3)
    toy.data[1][:, :1] = 255
    return replace(
        toy, losses=lambda: {"main": loss},
        metrics=lambda: {"accuracy": metrics.SparseCategoricalAccuracy()},
        train_steps=(step(loss=mean, update=update),),
        validation_step=step(loss=mean, update=update, training=False),
    )  # fmt: skip


def with_perplexity(update: Callable[..., Any], metric: Callable[[], Any] = metrics.Mean) -> Toy:
    """A toy with a perplexity."""
    return sound(
        metrics=lambda: {"perplexity": metric()},
        train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )


def mean_of_exponentials(metric: Any, labels: Any, logits: Any, weights: Any) -> None:
    """The mean of what is the exponential of a mean."""
    metric.update_state(tf.exp(cross_entropy(labels, logits)), weights)


def mean_of_masked_exponentials(metric: Any, labels: Any, logits: Any, weights: Any) -> None:
    """The same, where what has no weight is 0 before."""
    metric.update_state(tf.exp(weights * cross_entropy(labels, logits)), weights)


class Turned(metrics.SparseCategoricalAccuracy):
    """An accuracy that is turned around."""

    def result(self) -> Any:
        """The share that is wrong."""
        return 1 - super().result()


class Perplexity(metrics.Mean):
    """The exponential of the mean of what it gets."""

    def result(self) -> tf.Tensor:
        """One number."""
        return tf.exp(super().result())


def noisy_views(seeds: int) -> Toy:
    """Predictions should be the same for two noisy views, whose noise is of as many seeds."""

    def consistent(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        both = tf.random.split(tf.cast(replica.seed, "int32"), 2)
        a, b = (
            run.model(inputs + tf.random.stateless_normal(
                inputs.shape, both[i % seeds], dtype=inputs.dtype
            ), training=True)
            for i in range(2)
        )  # fmt: skip
        apart = tf.reduce_mean(tf.square(a - b), axis=1)
        per_example = run.losses["main"](labels, a) + apart
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(train_steps=(consistent,), metrics=dict)


class Matches(metrics.SparseCategoricalAccuracy):
    """A metric whose name alone says that more is better."""


def slow_down(event: Event) -> None:
    """Halve the learning rate."""
    event.run.optimizers["main"].learning_rate = 0.5 * event.learning_rates["main"]


def compounded(event: Event) -> None:
    """A decay of the epoch, applied to what is left of the learning rate."""
    slower = event.learning_rates["main"] * 0.95**event.epoch
    event.run.optimizers["main"].learning_rate = slower


def slow_down_late(event: Event) -> None:
    """Halve the learning rate, and not before it is time to."""
    if event.step >= 5_000:
        slow_down(event)


def start_anew(event: Event) -> None:
    """Make a training metric one of the latest steps."""
    event.run.metrics["accuracy"].reset_state()


def judge_again(event: Event) -> None:
    """Give a training metric the latest batch once more, without dropout."""
    event.run.metrics["accuracy"].update_state(event.batch[1], event.outputs)


def print_confidence(event: Event) -> None:
    """Call a model as the train step does."""
    print(float(tf.reduce_max(event.run.model(event.batch[0], training=True))))


class Clocked:
    """Lowers the learning rate once a second has passed."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Look at the clock."""
        if time.monotonic() - self._started > 1000:
            event.run.optimizers["main"].learning_rate = 1e-3


def parts_of_series() -> Toy:
    """Windows of the parts of a series, all of them scaled by the training part."""
    noise = np.random.default_rng(1).normal(size=504)
    parts = np.split(np.convolve(noise, np.ones(5), "valid"), [300])
    splits = []
    for part in parts:
        scaled = (part - parts[0].mean()) / parts[0].std()
        cut = np.lib.stride_tricks.sliding_window_view(scaled, FEATURES + 1)
        splits.append((cut[:, :-1].astype("float32"), cut[:, -1].astype("float32")))
    return regression(data=splits[0], others={"validation": splits[1]})


def smoothed_windows(centered: bool, rough: float = 1.0, over: int = 5, answers: int = 1) -> Toy:
    """Windows of means over some positions, around each or before it; labels are single ones."""
    noise = np.random.default_rng(1).normal(size=400)
    series = np.sin(np.arange(400) / 5) + rough * noise
    means = np.convolve(series, np.ones(over) / over, "same" if centered else "full")[:400]
    cut = np.lib.stride_tricks.sliding_window_view
    inputs = cut(means, FEATURES + answers)[4:-4, :FEATURES].astype("float32")
    labels = cut(series, FEATURES + answers)[4:-4, FEATURES:].astype("float32")
    if answers == 1:
        return regression(data=(inputs, labels[:, 0]), others={})
    mean: Any = {"main": lambda y, p: tf.reduce_mean(tf.square(p - y), axis=1)}
    return regression(lambda: dense(answers), data=(inputs, labels), others={}, losses=lambda: mean)


def smoothed_beside(centered: bool) -> Toy:
    """Windows, some positions apart, of a series and of its mean over five; three labels each."""
    numbers = np.random.default_rng(1)
    series = np.cumsum(numbers.normal(size=1200)) / 5 + numbers.normal(size=1200)
    means = np.convolve(series, np.ones(5) / 5, "same" if centered else "full")[:1200]
    both = np.stack([series, means], axis=1).astype("float32")
    windows = np.lib.stride_tricks.sliding_window_view(both, 11, axis=0)[5:-5:7].swapaxes(1, 2)

    def create() -> keras.Model:
        return keras.Sequential([keras.Input((8, 2)), layers.Flatten(), dense(3)])

    return regression(
        model=create, data=(windows[:, :8], {"next": windows[:, 8:, 0]}), others={},
        losses=lambda: {"main": lambda y, p: tf.reduce_mean(tf.square(p - y["next"]), axis=1)},
    )  # fmt: skip


def interpolated_windows(digits: int | None = None, gaps: float = 0.05) -> Toy:
    """Windows of a series whose gaps are filled by lines, measured to so many digits or exactly."""
    numbers, places = np.random.default_rng(1), np.arange(800)
    series = np.sin(places / 5) + 0.3 * numbers.normal(size=800)
    series = series if digits is None else np.round(series, digits)
    gone = numbers.random(800) < gaps
    series[gone] = np.interp(places[gone], places[~gone], series[~gone])
    cut = np.lib.stride_tricks.sliding_window_view(series, FEATURES + 1).astype("float32")
    return regression(data=(cut[:, :-1], cut[:, -1]), others={})


class OfCounts(metrics.Metric):
    """The mean over classes of a share of a confusion matrix, of right ones along an axis."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.counts = self.add_weight((CLASSES, CLASSES), "zeros", name="counts")

    def update_state(self, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> None:
        """Of labels (rows,), logits (rows, classes) and weights (rows,)."""
        hot = tf.one_hot(labels, CLASSES, dtype=self.dtype) * tf.cast(weights, self.dtype)[:, None]
        chosen = tf.one_hot(tf.argmax(logits, axis=1), CLASSES, dtype=self.dtype)
        self.counts.assign_add(tf.matmul(hot, chosen, transpose_a=True))

    def result(self) -> tf.Tensor:
        """The mean of those shares."""
        counts = tf.convert_to_tensor(self.counts)
        shares = tf.linalg.diag_part(counts) / (tf.reduce_sum(counts, axis=self.axis) + 1e-9)
        return tf.reduce_mean(shares)


class OfExponentials(metrics.Mean):
    """The mean of exponentials of losses, or the exponential of their mean."""

    def __init__(self, of_mean: bool) -> None:
        super().__init__()
        self.of_mean = of_mean

    def update_state(self, losses: tf.Tensor, weights: tf.Tensor) -> None:
        """Of losses and weights (rows,)."""
        super().update_state(losses if self.of_mean else tf.exp(losses), weights)

    def result(self) -> tf.Tensor:
        """The number."""
        return tf.exp(super().result()) if self.of_mean else super().result()


def perplexed(of_mean: bool) -> Toy:
    """A perplexity of the losses."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True))
        run.metrics["perplexity"].update_state(per_example, weights)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        train_steps=(one_step,), validation_step=one_step,
        metrics=lambda: {"perplexity": OfExponentials(of_mean)},
    )  # fmt: skip


def monitoring(kind: Any, column: str, **parts: Any) -> Toy:
    """A callback of Keras that decides by a column."""
    return sound(callbacks=lambda: [keras_callback(kind(column, patience=3))], **parts)


def times_of_day() -> Toy:
    """Windows of the hour of the day, as a sine, which is on a straight line where it is 0."""
    hours = np.sin(2 * np.pi * np.arange(800, dtype="float64") / 24)
    cut = np.lib.stride_tricks.sliding_window_view(hours, FEATURES + 1).astype("float32")
    return regression(data=(cut[:, :-1], cut[:, -1]), others={})


class Least(metrics.Mean):
    """How often the smallest logit is that of the label; or one more of two classes is found."""

    def __init__(self, absent: bool = False, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.absent = absent

    def update_state(self, labels: tf.Tensor, logits: tf.Tensor, weights: Any = None) -> None:
        """Of labels (rows,) and logits (rows, classes)."""
        if self.absent:
            is_right = tf.cast(tf.argmax(logits, axis=1) == tf.cast(labels, "int64"), "float32")
            super().update_state((1 + is_right) / 2, weights)
        else:
            least = tf.cast(tf.argmin(logits, axis=1), labels.dtype)
            super().update_state(tf.cast(least == labels, "float32"), weights)


def with_mask(value: float) -> Toy:
    """Two inputs, of which one is a mask that leaves nothing out."""

    def create() -> keras.Model:
        inputs = {name: keras.Input((FEATURES,), name=name) for name in ("x", "mask")}
        return keras.Model(inputs, dense(CLASSES)(inputs["x"] * inputs["mask"]))

    inputs, labels = examples()
    data = {"x": inputs, "mask": np.full_like(inputs, value)}, labels
    return sound(model=create, data=data, others={})


def with_one_number() -> Toy:
    """Two inputs, of which one is a number for each example."""

    def create() -> keras.Model:
        inputs = {"x": keras.Input((FEATURES,), name="x"), "age": keras.Input((), name="age")}
        columns = [inputs["x"], inputs["age"][:, None]]
        return keras.Model(inputs, dense(CLASSES)(layers.Concatenate()(columns)))

    inputs, labels = examples()
    age = np.random.default_rng(0).random(len(labels)).astype("float32")
    return sound(model=create, data=({"x": inputs, "age": age}, labels), others={})


def with_unused_mask(share: float = 0.0) -> Toy:
    """Two inputs, of which one is a mask that nothing applies, or hardly anything yet."""

    def create() -> keras.Model:
        inputs = {name: keras.Input((FEATURES,), name=name) for name in ("x", "mask")}
        return keras.Model(inputs, dense(CLASSES)(inputs["x"] + share * inputs["mask"]))

    inputs, labels = examples()
    mask = (np.random.default_rng(0).random(inputs.shape) < 0.8).astype("float32")
    return sound(model=create, data=({"x": inputs * mask, "mask": mask}, labels), others={})


def labeled_twice(metric_of: str, in_training: bool = True, in_validation: bool = True) -> Toy:
    """Two labels, of which a loss uses the class and a metric one of both.

    Args:
        metric_of: the name of the labels that the metric gets.
        in_training: whether the train step updates the metric.
        in_validation: whether the validation step does.
    """

    def headed(training: bool) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            logits = run.model(inputs, training=training)
            if in_training if training else in_validation:
                run.metrics["accuracy"].update_state(labels[metric_of], logits, weights)
            per_example = run.losses["main"](labels["class"], logits)
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return one_step

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        inputs, labels = examples(rows, seed)
        return inputs, {"class": labels, "near": (labels + (labels % 2)) % CLASSES}

    return sound(
        data=split(ROWS, 1), others={"validation": split(60, 2)},
        train_steps=(headed(True),), validation_step=headed(False),
    )  # fmt: skip


class AlwaysOne(metrics.Mean):
    """A metric that is 1, whatever it gets."""

    def update_state(self, labels: Any, predictions: Any, sample_weight: Any) -> None:
        """Add labels (batch,), predictions (batch, ...) and weights (batch,)."""
        super().update_state(tf.ones_like(sample_weight), sample_weight)


def mean_and_deviation() -> Toy:
    """A model that returns a dict, of which a loss takes both parts and a metric takes one."""

    def create() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        x = dense()(inputs)
        deviation = dense(1, activation="softplus")(x)
        return keras.Model(inputs, {"mean": dense(1)(x), "deviation": deviation})

    def likelihood(labels: Any, predicted: Any) -> Any:
        mean, deviation = predicted["mean"][:, 0], predicted["deviation"][:, 0] + 0.1
        return tf.math.log(deviation) + tf.square((labels - mean) / deviation) / 2

    def update(metric: Any, labels: Any, predicted: Any, weights: Any) -> None:
        metric.update_state(labels[:, tf.newaxis], predicted["mean"], weights)

    return regression(
        model=create, losses=lambda: {"main": likelihood},
        metrics=lambda: {"mae": metrics.MeanAbsoluteError()},
        train_steps=(step(update=update),), validation_step=step(update=update, training=False),
    )  # fmt: skip


def ranked(interact: bool = True) -> Toy:
    """Numbers of which each is compared with each, by pairs of differences."""

    def compare(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        scores = run.model(inputs, training=True)[:, 0]
        apart, wanted = (x[:, tf.newaxis] - x for x in (scores, labels))
        both = weights[:, tf.newaxis] * tf.cast(wanted > 0, scores.dtype)
        per_example = tf.reduce_sum(both * tf.nn.softplus(-apart), axis=1) / BATCH
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return regression(
        train_steps=(compare,), validation_step=compare, losses=dict, others={},
        examples_interact=interact,
    )  # fmt: skip


def high_quantile(name: str = "error") -> Toy:
    """Predictions above nearly all labels, of which a mean error knows nothing."""

    def pinball(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        error = y - p[:, 0]
        return tf.maximum(0.99 * error, -0.01 * error)

    rows, numbers = 10 * BATCH, np.random.default_rng(1)
    inputs = 0.1 * numbers.normal(size=(rows, FEATURES))
    update = step(update=of_numbers)
    return regression(
        data=(inputs.astype("f4"), numbers.standard_exponential(rows).astype("f4")),
        losses=lambda: {"main": pinball},
        metrics=lambda: {name: metrics.MeanAbsoluteError()},
        train_steps=(update,), validation_step=update, others={},
        optimizer=lambda: keras.optimizers.Adam(0.1),
    )  # fmt: skip


@tf.custom_gradient
def _with_clipped_gradient(x: tf.Tensor) -> Any:
    return x, lambda upstream: tf.clip_by_norm(upstream, 1e-3)


@dataclass
class Fault:
    """A toy, and what one relation must say of it.

    Attributes:
        relation: its name.
        toy: makes the toy.
        says: some words of the finding.
        verdict: the finding's.
        flags: of Config, and `task` for those of the task.
    """

    relation: str
    toy: Callable[[], Toy]
    says: str
    verdict: str = "WRONG"
    flags: dict[str, Any] = field(default_factory=dict)


LOOK = "look"
SGD = keras.optimizers.SGD
NAN = float("nan")


def scaled_together(scaled: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Data that is scaled before it is divided."""
    inputs, labels = examples(ROWS + 100)
    inputs = scaled(inputs)
    bounds = {"validation": slice(ROWS, ROWS + 60), "test": slice(ROWS + 60, None)}
    return sound(
        data=(inputs[:ROWS], labels[:ROWS]),
        others={name: (inputs[rows], labels[rows]) for name, rows in bounds.items()},
    )


def with_gaps(x: np.ndarray) -> np.ndarray:
    """Standardized, with missing values that the statistics leave out."""
    x = x.copy()
    x[::7, 0] = x[::5, 2] = np.nan
    return (x - np.nanmean(x, axis=0)) / np.nanstd(x, axis=0, ddof=1)


def drawn_with_replacement() -> Toy:
    """Splits of rows that were drawn from a few, each of them several times."""
    toy = regression()
    drawn = np.random.default_rng(4).integers(0, ROWS, 3 * BATCH + 30)
    rows = tuple(array[drawn] for array in toy.data)
    return replace(
        toy,
        data=tuple(array[: 3 * BATCH] for array in rows),
        others={"validation": tuple(array[3 * BATCH :] for array in rows)},
    )


def relabeled(several: bool = False) -> Toy:
    """Inputs of many numbers, or `several` of fewer, that are in both splits, with other labels."""
    inputs = np.random.default_rng(5).normal(size=(ROWS, 16)).astype("float32")
    labels = np.arange(ROWS) % CLASSES

    def create() -> keras.Model:
        if not several:
            return keras.Sequential([keras.Input((16,)), dense(CLASSES)])
        x = {name: keras.Input((8,), name=name) for name in "ab"}
        return keras.Model(x, dense(CLASSES)(layers.Concatenate()([x["a"], x["b"]])))

    def given(rows: int) -> Any:
        some = inputs[:rows]
        return {"a": some[:, :8], "b": some[:, 8:]} if several else some

    return sound(
        model=create, data=(given(ROWS), labels),
        others={"validation": (given(60), (labels[:60] + 1) % CLASSES)},
    )  # fmt: skip


def series_that_drops(to: float, masked: bool = False, at_once: int = 1) -> Toy:
    """Windows (rows, 12, 1) of a slow wave that is another number at some places, some at once."""
    numbers = np.random.default_rng(7)
    starts = numbers.uniform(0, 6, ROWS + 60)
    waves = 3 + np.sin(starts[:, np.newaxis] + np.arange(12) / 4)
    labels = np.digitize(waves[:, -1], (2.5, 3.5))
    if at_once > 1:
        waves[::4, 4 : 4 + at_once] = to
    else:
        waves[numbers.random(waves.shape) < 0.05] = to
    inputs = waves[..., np.newaxis].astype("float32")

    def create() -> keras.Model:
        x = seen = keras.Input((12, 1))
        if masked:
            known = keras.ops.cast(keras.ops.not_equal(x, to), x.dtype)
            x = keras.ops.concatenate([x * known, known], axis=-1)
        return keras.Model(seen, dense(CLASSES)(layers.Flatten()(x)))

    splits = [(inputs[part], labels[part]) for part in (slice(ROWS), slice(ROWS, None))]
    return sound(model=create, data=splits[0], others={"validation": splits[1]})


def series_of_channels(layout: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Three slow series of 12 steps, (rows, 3, 12), in another layout."""
    starts = np.random.default_rng(7).uniform(0, 6, (ROWS + 60, 3, 1))
    waves = np.array([[5.0], [0.0], [-3.0]]) + np.sin(starts + np.arange(12) / 6)
    return flattened(layout(waves), np.digitize(waves[:, 1, -1], (-0.5, 0.5)))


def colored(layout: Callable[[np.ndarray], np.ndarray], saturation: float = 0.5) -> Toy:
    """Images (rows, 3, 12, 10) of a few colored spots, in another layout."""
    numbers = np.random.default_rng(7)
    rows, places = ROWS + 60, np.stack(np.indices((12, 10)))
    centers = numbers.uniform(2, 8, (rows, 4, 2, 1, 1))
    spots = np.exp(-np.sum(np.square(places - centers), axis=2) / 6)  # (rows, 4, 12, 10)
    colors = 1 - saturation * numbers.random((rows, 4, 3))
    images = layout(np.einsum("nsij,nsc->ncij", spots, colors))
    return flattened(images, np.argmax(colors.sum(axis=1), axis=-1))


def flattened(inputs: np.ndarray, labels: np.ndarray) -> Toy:
    """A model of all numbers of an example. The first ROWS are for training."""
    inputs = inputs.astype("float32")

    def create() -> keras.Model:
        return keras.Sequential([keras.Input(inputs.shape[1:]), layers.Flatten(), dense(CLASSES)])

    splits = [(inputs[part], labels[part]) for part in (slice(ROWS), slice(ROWS, None))]
    return sound(model=create, data=splits[0], others={"validation": splits[1]})


def forecast_with_drops(by: Callable[[np.ndarray], np.ndarray], answers: int = 3) -> Toy:
    """Windows of a slow wave, which is 0 where `by` says so of its hours; the next are forecast."""
    hours = np.arange(ROWS + 60 + FEATURES)
    series = np.where(by(hours), 0, 3 + np.sin(hours / 6)).astype("float32")
    cut = np.lib.stride_tricks.sliding_window_view(series, FEATURES + answers)
    inputs, labels = cut[:, :FEATURES], cut[:, FEATURES:]
    splits = [(inputs[part], labels[part, 0] if answers == 1 else labels[part])
              for part in (slice(ROWS), slice(ROWS, None))]  # fmt: skip
    mean: Any = {"main": lambda y, p: tf.reduce_mean(tf.square(p - tf.reshape(y, p.shape)), axis=1)}
    return regression(
        lambda: dense(answers), data=splits[0], others={"validation": splits[1]},
        losses=lambda: mean,
    )  # fmt: skip


def filled_with_zero(before: bool, *, masked: bool = False) -> Toy:
    """Numbers around 50, some missing, which become 0 `before` they are normalized, or after it.

    `masked`: what the model makes of them is multiplied by 0.
    """

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        inputs = inputs + 50
        inputs[np.arange(rows) % 5 == 0, 2] = NAN
        return inputs.astype("float32"), labels

    def create() -> keras.Model:
        scaled = layers.Normalization(mean=[50.0] * FEATURES, variance=[2.0] * FEATURES)
        x = keras.Input((FEATURES,))
        known = keras.ops.logical_not(keras.ops.isnan(x))
        y = scaled(keras.ops.where(known, x, 0.0)) if before else scaled(x)
        y = keras.ops.where(known, y, 0.0) if masked or not before else y
        return keras.Model(x, dense(CLASSES)(y))

    return sound(model=create, data=split(ROWS, 1), others={"validation": split(60, 2)})


def forecast_from(first: int, backward: bool = False, missing: int = 0) -> Toy:
    """The numbers of a series from `first` steps behind the last known one, or the known ones.

    Of some of the rows the first label is missing, and weighs nothing.
    """
    series = np.random.default_rng(7).normal(size=(ROWS + 60, 12)).cumsum(axis=1).astype("float32")
    known = series[:, :8]
    wanted = (known[:, ::-1] if backward else series[:, 7 + first :][:, :3]).copy()
    wanted[:missing, 0] = np.nan

    def squared(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        gone = tf.math.is_nan(y)
        return tf.reduce_mean(tf.where(gone, 0 * p, tf.square(tf.where(gone, p, y) - p)), axis=1)

    return regression(
        model=lambda: keras.Sequential([keras.Input((8,)), dense(wanted.shape[1])]),
        data=(known[:ROWS], wanted[:ROWS]), others={"validation": (known[ROWS:], wanted[ROWS:])},
        losses=lambda: {"main": squared}, metrics=dict,
    )  # fmt: skip


def by_chance(hours: np.ndarray) -> np.ndarray:
    """One hour in twenty."""
    return np.random.default_rng(7).random(len(hours)) < 0.05


def judged_by_inputs(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A validation step whose metric gets what no trained weight has changed."""
    inputs, labels, weights = batch
    run.metrics["accuracy"].update_state(labels, inputs[:, :CLASSES], weights)
    per_example = run.losses["main"](labels, run.model(inputs, training=False))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def judged_by_labels(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A validation step whose metric is a mean of labels, as of the rewards that a log has."""
    inputs, labels, weights = batch
    run.metrics["accuracy"].update_state(labels, tf.one_hot(labels // 2, CLASSES), weights)
    per_example = run.losses["main"](labels, run.model(inputs, training=False))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def adapted_to(statistic: Callable[..., np.ndarray]) -> Toy:
    """A toy whose columns are on scales of their own, with a layer that scales them."""
    scales = np.array([1, 10, 100, 0.1, 30], "float32")
    mean, variance = examples()[0].mean(0) * scales, statistic(examples()[0] * scales, axis=0)
    scaled = {n: changed(examples(60, i), 0, lambda x: x * scales)
              for i, n in enumerate(("validation", "test"), 2)}  # fmt: skip
    return sound(
        model=model(lambda: layers.Normalization(mean=mean, variance=variance), dense),
        data=changed(examples(), 0, lambda x: x * scales), others=scaled,
    )  # fmt: skip


def prices(
    adapted: Callable[[np.ndarray], np.ndarray],
    scaled: Callable[[Any], Any],
    by_layer: bool,
    in_order: bool = False,
) -> Toy:
    """Prices, scaled by the statistics of what `adapted` makes of those of the training data.

    They come from an array, or `in_order` from a stream.
    """
    of_splits = (np.exp(examples(rows, seed)[0] / 2 + 3) for rows, seed in ((96, 1), (60, 2)))
    train, validation = ((x, np.floor(np.log(x[:, 0])).astype("int64") % 3) for x in of_splits)
    numbers = adapted(train[0])
    statistics = {"price_mean": numbers.mean(0), "price_deviation": numbers.std(0)}

    def scale(x: Any) -> Any:
        mean, deviation = statistics.values()
        if by_layer:
            return layers.Normalization(mean=mean, variance=deviation**2)(scaled(x))
        return (scaled(x) - mean) / deviation

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, dense(CLASSES)(scale(x)))

    adapt = {name: array.astype("float32") for name, array in statistics.items()}
    return sound(
        data=stream(train) if in_order else train,
        others={"validation": validation}, model=create, adapt=lambda datasets: adapt,
    )  # fmt: skip


def reading_statistics() -> Toy:
    """A toy that adapts to a file with its training inputs, which it reads by itself."""
    toy = sound()
    file = toy.splits["train"][0]
    statistics = {"mean": file.mean(axis=0), "variance": file.var(axis=0)}
    return replace(
        toy, adapt=lambda datasets: statistics,
        model=model(lambda: layers.Normalization(**statistics)),
    )  # fmt: skip


def zeros_for_missing(told: bool = False) -> Toy:
    """Two labels, of which the second is missing, 0, in some rows, and counts; or a third says."""

    def labels_of(x: np.ndarray) -> np.ndarray:
        gone = np.arange(len(x)) % 8 == 3
        second = np.where(gone, 0, 60 + x[:, 1] + x[:, 2])
        return np.stack([x.sum(axis=1), second, *[~gone] * told], axis=1).astype("float32")

    def known(labels: Any, predictions: Any) -> Any:
        first, second, *there = tf.unstack(tf.square(predictions - labels), axis=1)
        return first + second * (labels[:, 2] if there else 1)

    return several_numbers(labels_of, losses=lambda: {"main": known})


def of_one_seed(seed: Callable[[int], None]) -> Callable[[], keras.Model]:
    """A model that is created after `seed` got a constant."""

    def create_model() -> keras.Model:
        seed(1)
        return model(lambda: dense(16))()

    return create_model


def whole_of_file() -> Callable[[], keras.Model]:
    """A model whose weights are all loaded, the same under every seed."""

    def create_model() -> keras.Model:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "whole.keras"
            of_one_seed(keras.utils.set_random_seed)().save(file)
            return keras.models.load_model(file)

    return create_model


def model_of_file(copy: Callable[[keras.Model], keras.Model]) -> Callable[[], keras.Model]:
    """A model of what `copy` makes of one that was saved."""

    def create_model() -> keras.Model:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "body.keras"
            keras.Sequential([keras.Input((FEATURES,)), dense(16, activation="tanh")]).save(file)
            body = copy(keras.models.load_model(file))
        inputs = keras.Input((FEATURES,))
        return keras.Model(inputs, dense(CLASSES)(body(inputs)))

    return create_model


def model_of_arrays(of_body: bool) -> Callable[[], keras.Model]:
    """A model whose body gets arrays as its weights, or another body of the same layers."""

    def create_model() -> keras.Model:
        body, other = (
            keras.Sequential([keras.Input((FEATURES,)), dense(16, activation="tanh")])
            for _ in range(2)
        )
        arrays = [np.random.default_rng(1).normal(size=v.shape) for v in body.weights]
        (body if of_body else other).set_weights(arrays)
        inputs = keras.Input((FEATURES,))
        return keras.Model(inputs, dense(CLASSES)(body(inputs)))

    return create_model


def weighted_by_class() -> tuple[np.ndarray, ...]:
    """Classes of other sizes, of which rare ones weigh more: (inputs, labels, weights)."""
    inputs, labels = examples(3 * ROWS)
    order = np.concatenate([np.flatnonzero(labels == c)[:n] for c, n in enumerate((60, 30, 6))])
    inputs, labels = inputs[order], labels[order]
    times = np.bincount(labels)
    return inputs, labels, (times.mean() / times)[labels].astype("float32")


def weighted_labels(weigh: Callable[[np.ndarray], np.ndarray], one_hot: bool = False) -> Toy:
    """Rare and frequent classes, weighed in the loss by a function of their frequencies.

    Labels may be `one_hot` in the data.
    """
    inputs, labels, _ = weighted_by_class()
    of_classes = tf.constant(weigh(np.bincount(labels) / len(labels)), tf.float32)

    def weighted(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        numbers = y if len(y.shape) == 1 else tf.argmax(y, axis=1)
        plain = tf.nn.sparse_softmax_cross_entropy_with_logits(numbers, p)
        return plain * tf.cast(tf.gather(of_classes, numbers), p.dtype)

    given = np.eye(CLASSES, dtype="float32")[labels] if one_hot else labels
    return sound(
        data=(inputs, given), others={}, losses=lambda: {"main": weighted}, metrics=dict
    )  # fmt: skip


def weighted_pixels(weigh: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Bright pixels are a rare class, weighed in the loss by a function of the frequencies."""
    images, _ = segmented(None).data
    labels = (images[..., 0] > 1).astype("int64")
    of_classes = tf.constant(weigh(np.bincount(labels.ravel()) / labels.size), tf.float32)

    def weighted(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        plain = tf.nn.sparse_softmax_cross_entropy_with_logits(y, p)
        each = plain * tf.cast(tf.gather(of_classes, y), p.dtype)
        return tf.reduce_mean(each, axis=(1, 2))

    return replace(
        segmented(None), data=(images, labels), losses=lambda: {"main": weighted}, metrics=dict
    )  # fmt: skip


def weighted_outside(label: int, weight: float) -> Toy:
    """Pixels, of which bright ones are rare: a step weighs the losses of one class, as a mean."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_pixel = run.losses["main"](labels, run.model(inputs, training=True))
        factors = tf.cast(tf.where(labels == label, weight, 1.0), per_pixel.dtype)
        total, whole = (tf.reduce_sum(x, axis=(1, 2)) for x in (factors * per_pixel, factors))
        return {"main": compute_loss(total / whole, weights, run.model, replica)}

    images, _ = segmented(None).data
    return replace(
        segmented(None), data=(images, (images[..., 0] > 1).astype("int64")), train_steps=(own,),
        validation_step=own, metrics=dict,
    )  # fmt: skip


def weighted_binary(
    weigh: Callable[[float], float], *, by_data: bool = False, beside: bool = False
) -> Toy:
    """A rare label of 0 or 1 for each example, whose ones are weighed by how often they are.

    Args:
        weigh: the fraction of ones -> their weight beside that of zeros.
        by_data: whether the data has these weights, and not the loss.
        beside: whether the data has the opposite label, too.
    """
    inputs, _ = examples()
    labels = (inputs[:, 0] > 2).astype("int64")
    of_ones = weigh(float(labels.mean()))

    def weighted(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        y = tf.cast(y, p.dtype)[:, tf.newaxis]
        of = 1.0 if by_data else of_ones
        return tf.nn.weighted_cross_entropy_with_logits(y, p, of)[:, 0]

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        rare = labels["rare"] if beside else labels
        per_example = run.losses["main"](rare, run.model(inputs, training=True))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    given = {"rare": labels, "usual": 1 - labels} if beside else labels
    weights = np.where(labels, of_ones if by_data else 1, 1).astype("float32")
    return sound(
        model=model(last=lambda: dense(1)), data=(inputs, given, weights), others={},
        train_steps=(own,), validation_step=own, losses=lambda: {"main": weighted}, metrics=dict,
    )  # fmt: skip


def valued(until: Callable[[tf.Tensor], Any]) -> Toy:
    """The value of a state is to be its reward and, `until` the end, that of the next state."""
    inputs, labels = examples()
    done = (np.arange(ROWS) % 5 == 4).astype("float32")

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        value, later = (run.model(inputs[name], training=True)[:, 0] for name in ("now", "next"))
        aim = labels["reward"] + 0.9 * until(labels["done"]) * tf.stop_gradient(later)
        return {"main": compute_loss(tf.square(value - aim), weights, run.model, replica)}

    return sound(
        model=model(last=lambda: dense(1)), train_steps=(own,), validation_step=own,
        data=({"now": inputs, "next": np.roll(inputs, -1, axis=0)},
              {"reward": labels.astype("float32"), "done": done}),
        others={}, losses=dict, metrics=dict,
    )  # fmt: skip


def several_labels(
    weigh: Callable[[np.ndarray], np.ndarray],
    above: tuple[float, ...] = (1.0, 2.0, 2.5),
    counts: Callable[[tf.Tensor], tf.Tensor] = tf.ones_like,
) -> Toy:
    """Some labels of 0 or 1, whose ones are weighed by a function of their frequencies.

    Of labels, only those that `counts` are in the loss.
    """

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        return inputs, (inputs[:, : len(above)] > np.array(above)).astype("float32")

    data = labeled(ROWS, 1)
    weights = tf.constant(weigh(data[1].mean(axis=0)), tf.float32)

    def weighted(y: tf.Tensor, p: tf.Tensor, of_ones: tf.Tensor) -> tf.Tensor:
        each = tf.nn.weighted_cross_entropy_with_logits(y, p, tf.cast(of_ones, p.dtype))
        return tf.reduce_mean(each * counts(y), axis=1)

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, row_weights = batch
        losses = run.losses["main"](labels, run.model(inputs, training=True), weights)
        return {"main": compute_loss(losses, row_weights, run.model, replica)}

    return sound(
        data=data, others={"validation": labeled(60, 2)}, losses=lambda: {"main": weighted},
        metrics=dict, train_steps=(train,), validation_step=train,
        model=model(last=lambda: dense(len(above))),
    )  # fmt: skip


LEVELS = (0.1, 0.5, 0.8)  # a list that `check` finds in this module


def of_levels(levels: tuple[float, ...], sign: float = 1.0) -> Toy:
    """A regression of quantiles; with another sign, those of one minus that."""

    def pinball(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        error, weights = sign * (y[:, tf.newaxis] - p), tf.constant(levels, p.dtype)
        return tf.reduce_mean(tf.maximum(weights * error, (weights - 1) * error), axis=1)

    return regression(lambda: dense(len(levels)), losses=lambda: {"main": pinball})


def centralized(axes: Callable[[tf.Tensor], range]) -> Callable[..., list[tf.Tensor]]:
    """Takes off the mean of each gradient of a matrix along axes that follow from it."""

    def process(gradients: list[tf.Tensor], _: Any) -> list[tf.Tensor]:
        return [
            g - tf.reduce_mean(g, [*axes(g)], keepdims=True) if g.shape.rank > 1 else g
            for g in gradients
        ]

    return process


def judged_at(place: int, name: str = "mae") -> Toy:
    """A regression of quantiles whose metric gets the one at a place."""

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        predictions = run.model(inputs, training=True)
        judged = predictions[:, place : place + 1]
        run.metrics[name].update_state(labels[:, tf.newaxis], judged, weights)
        losses = run.losses["main"](labels, predictions)
        return {"main": compute_loss(losses, weights, run.model, replica)}

    return replace(
        of_levels(LEVELS), train_steps=(train,), validation_step=train,
        metrics=lambda: {name: metrics.MeanAbsoluteError()},
    )  # fmt: skip


def of_normal(form: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Toy:
    """A regression of a mean and a logarithm; the loss is `form` of the error and the latter."""

    def likelihood(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        return form(y - p[:, 0], p[:, 1])

    return regression(lambda: dense(2), losses=lambda: {"main": likelihood}, metrics=dict)


def rebuilt_without_logarithm() -> Toy:
    """Means and variances of the inputs, without labels; a logarithm is missing in the loss."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, weights = batch
        mean, s = tf.split(run.model(inputs, training=True), 2, axis=1)
        per_example = tf.reduce_sum(tf.square(inputs - mean) * tf.exp(-s), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=model(last=lambda: dense(2 * FEATURES)), data=(examples()[0],), train_steps=(own,),
        others={}, losses=dict, metrics=dict,
    )  # fmt: skip


def kept_apart() -> Toy:
    """Logits whose distances within a batch are a part of the loss."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        x = run.model(inputs, training=True)
        squares = tf.reduce_sum(x * x, axis=1, keepdims=True) + tf.reduce_sum(x * x, axis=1)
        near = weights * tf.exp(-(squares - 2 * tf.matmul(x, x, transpose_b=True)))
        per_example = run.losses["main"](labels, x) + tf.reduce_mean(near, axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(train_steps=(one_step,), validation_step=one_step, metrics=dict)


def of_mixture(normalize: Callable[[tf.Tensor], tf.Tensor]) -> Toy:
    """A regression by a mixture of three normal distributions of deviation 1."""

    def likelihood(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        squares = tf.square(y[:, tf.newaxis] - p[:, 3:])
        return -tf.reduce_logsumexp(normalize(p[:, :3]) - 0.5 * squares, axis=1)

    return regression(lambda: dense(6), losses=lambda: {"main": likelihood}, metrics=dict)


def overlap_alone(with_sum: bool) -> Toy:
    """Masks of four pixels whose loss is a share of the labels, or of labels and predictions."""

    def loss(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        both, right = tf.reduce_sum(y * p, axis=1), tf.reduce_sum(y, axis=1)
        whole = right + tf.reduce_sum(p, axis=1) - both if with_sum else right
        return 1 - (both + 1e-3) / (whole + 1e-3)

    numbers = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype("float32")
    return sound(
        model=model(last=lambda: dense(4, activation="sigmoid")), others={}, metrics=dict,
        data=(numbers, (numbers[:, :4] > 0).astype("float32")), losses=lambda: {"main": loss},
    )  # fmt: skip


def reshaped(before: tuple[int, ...], after: tuple[int, ...]) -> Toy:
    """A model that gives features another shape."""
    sizes = int(np.prod(before)), before, after
    of_size, first, second = (
        partial(layer, size)
        for layer, size in zip((dense, layers.Reshape, layers.Reshape), sizes, strict=True)
    )
    return sound(model=model(of_size, first, second, layers.Flatten))


def described(describe: Callable[..., dict[str, Any]], **parts: Any) -> Toy:
    """A table of predictions, made by a function (model, inputs, outputs)."""
    return sound(describe=describe, others={"validation": examples(60, 2)}, **parts)


def of_distances() -> Toy:
    """A model of the distances to the centers of classes, of which the smallest one is right."""

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        losses = run.losses["main"](labels, -run.model(inputs, training=True))
        return {"main": compute_loss(losses, weights, run.model, replica)}

    return described(
        lambda model, x, y: {"class": np.argmin(y, axis=1)}, metrics=dict, train_steps=(train,),
        validation_step=train, model=model(last=lambda: dense(CLASSES, activation="softplus")),
    )  # fmt: skip


def in_units(undone: bool, name: str = "price", missing: int = 0, *, by_step: bool = False) -> Toy:
    """Prices whose step divides them by 1,000 for the loss, which `describe` may undo.

    With `missing` ones, which are filled, and have the scale of the others. `by_step`: it divides
    what the model gives as well.
    """
    thousand = 1 if missing else 1000

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        labels = tf.where(tf.math.is_nan(labels), tf.zeros_like(labels), labels / thousand)
        outputs = run.model(inputs, training=True)[:, 0]
        losses = run.losses["main"](labels, outputs / thousand if by_step else outputs)
        return {"main": compute_loss(losses, weights, run.model, replica)}

    def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
        return {name: np.asarray(outputs)[:, 0] * (thousand if undone else 1)}

    def priced(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        prices = thousand * inputs.sum(axis=1)
        prices[:missing] = np.nan
        return inputs, prices

    def squared(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        return tf.square(y - p)

    return regression(
        data=priced(ROWS, 1), others={"validation": priced(60, 2)}, train_steps=(train,),
        validation_step=train, losses=lambda: {"main": squared}, metrics=dict, describe=describe,
    )  # fmt: skip


def counted(column: Callable[[Any], Any], name: str = "expected") -> Toy:
    """Counts of which a model gives the logarithm, and a table with a function of its outputs."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        return inputs, np.random.default_rng(seed).poisson(np.exp(inputs[:, 0])).astype("float32")

    def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
        return {name: column(np.asarray(outputs)[:, 0])}

    return regression(
        data=split(ROWS, 1), others={"validation": split(60, 2)}, describe=describe,
        losses=lambda: {"main": lambda y, p: tf.exp(p[:, 0]) - tf.cast(y, p.dtype) * p[:, 0]},
    )  # fmt: skip


def sorted_stream() -> Toy:
    """A stream in the order of its labels, that is longer than the engine shuffles."""
    inputs, labels = examples(24_000)
    order = np.argsort(labels, kind="stable")
    return sound(data=stream((inputs[order], labels[order])))


def two_labels(
    even: Callable[[np.ndarray, np.ndarray], Any] = lambda masked, labels: labels % 2,
    weigh: Callable[[Any, Any], Any] = lambda weights, there: weights * there,
) -> Toy:
    """Two heads; a third of the labels of one are missing, -1, and the other is made of it.

    Args:
        even: (labels that are masked, all) -> the labels of the other head.
        weigh: (weights, which labels are there) -> the weights of the metric.
    """

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        inputs, labels = examples(rows, seed)
        masked = np.where(np.arange(rows) % 3 == 0, -1, labels)
        return inputs, {"class": masked, "even": even(masked, labels)}

    def create_model() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, {"class": dense(CLASSES)(x), "even": dense(2)(x)})

    def headed(training: bool) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            logits, terms = run.model(inputs, training=training), {}
            for head in ("class", "even"):
                there = tf.cast(labels[head] >= 0, weights.dtype)
                known = tf.maximum(labels[head], 0)
                per_example = run.losses["main"](known, logits[head]) * there * weights
                count = tf.cast(replica.global_count, per_example.dtype)
                terms[f"of_{head}"] = tf.reduce_sum(per_example) / count
                run.metrics[head].update_state(known, logits[head], weigh(weights, there))
            return {"main": tf.add_n([*terms.values()]), **terms}

        return one_step

    return sound(
        model=create_model, data=split(96, 1), others={"validation": split(60, 2)},
        train_steps=(headed(training=True),), validation_step=headed(training=False),
        terms=("of_class", "of_even"), metrics=lambda: {
            head: metrics.SparseCategoricalAccuracy() for head in ("class", "even")},
    )  # fmt: skip


def two_heads(
    divided: Callable[..., Any] = lambda total, count: total / count,
    decay: Callable[[Replica], Any] = lambda replica: 1.0,
    counted: Callable[[Any], Any] = lambda labels: labels >= 0,
    by: Callable[[str], str] = lambda name: name,
) -> Toy:
    """`two_labels`, each head with a count of its own, and a regularizer.

    Args:
        divided: (sum of the losses of the second head, its count) -> its term.
        decay: what the regularization is multiplied by, 0 or more.
        counted: which labels count.
        by: whose count divides the term of a head.
    """
    names = ("class", "even")

    def create_model() -> keras.Model:
        x = keras.Input((FEATURES,))
        hidden = dense(4, activation="tanh", kernel_regularizer="l2")(x)
        return keras.Model(x, {"class": dense(CLASSES)(hidden), "even": dense(2)(hidden)})

    def weights_of(batch: Any) -> dict[str, tf.Tensor]:
        _, labels, weights = batch
        return {n: weights * tf.cast(labels[n] >= 0, weights.dtype) for n in names}

    def count(batch: Any) -> dict[str, tf.Tensor]:
        _, labels, weights = batch
        there = {n: (weights != 0) & counted(labels[n]) for n in names}
        return {n: tf.math.count_nonzero(there[n], dtype=tf.int32) for n in names}

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, _ = batch
        logits, weights, terms = run.model(inputs), weights_of(batch), {}
        for name in names:
            per_example = run.losses["main"](tf.maximum(labels[name], 0), logits[name])
            total = tf.reduce_sum(weights[name] * per_example)
            divide = divided if name == "even" else tf.divide
            terms[name] = divide(total, tf.cast(replica.global_count[by(name)], total.dtype))
        own = tf.nn.scale_regularization_loss(replica.regularization(run.model))
        return {"main": tf.add_n([*terms.values()]) + decay(replica) * own, **terms}

    return replace(
        two_labels(), model=create_model, train_steps=(one_step,), validation_step=one_step,
        count=count, terms=names, metrics=dict,
    )  # fmt: skip


def two_heads_of(change: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Two heads that are easy to learn, of which the labels of one are changed."""
    inputs, labels = examples(ROWS)
    is_large = (inputs.sum(axis=1) > 0).astype("int64")
    heads = {"class": labels, "even": change(is_large)}
    return replace(two_heads(), data=(inputs, heads), optimizer=lambda: keras.optimizers.Adam(0.01))


def heads_by(change: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Two heads, of which the labels of validation are changed."""
    inputs, labels = examples(300, 2)
    heads = {"class": change(labels), "even": change(labels % 2)}
    toy = two_labels()
    return replace(toy, data=(3 * toy.data[0], toy.data[1]), others={
        "validation": (3 * inputs, heads)})  # fmt: skip


def headed_by(numbers_of: Callable[[np.ndarray], dict[str, np.ndarray]]) -> Toy:
    """A head for each of some numbers, which are made of the inputs of all heads."""

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        inputs, _ = examples(rows, seed)
        return inputs, numbers_of(inputs)

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, {name: dense(1)(x) for name in split(1, 1)[1]})

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made = run.model(inputs, training=True)
        squares = [run.losses["main"](labels[name], made[name]) for name in labels]
        return {"main": compute_loss(tf.add_n(squares), weights, run.model, replica)}

    return sound(
        model=create, data=split(ROWS, 1), others={"validation": split(60, 2)},
        train_steps=(own,), validation_step=own, metrics=dict,
        losses=lambda: {"main": lambda y, p: tf.square(p[:, 0] - y)},
    )  # fmt: skip


def unrelated_pictures() -> Toy:
    """Labels that have nothing to do with their pictures."""
    numbers = np.random.default_rng(1)

    def create() -> keras.Model:
        convolved = layers.Conv2D(2, 3), layers.GlobalAveragePooling2D()
        return keras.Sequential([keras.Input((8, 8, 1)), *convolved, dense(CLASSES)])

    data = numbers.normal(size=(1200, 8, 8, 1)), numbers.integers(0, CLASSES, 1200)
    return sound(model=create, data=data, others={}, optimizer=lambda: keras.optimizers.Adam(0.01))


def moved_images(
    changed: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], *, divided_by: float = 1.0
) -> Toy:
    """Images of 0 to 16 that an augmentation moves and changes, (images, seed) -> images.

    The train step divides them.
    """

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        _, labels = examples(rows, seed)
        images = np.random.default_rng(seed).integers(0, 8, (rows, 8, 8, 1))
        return (images + 4 * labels[:, None, None, None]).astype("float32"), labels

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *rest = batch
        by = tf.random.stateless_uniform((2,), seed, 0, 8, tf.int32)
        return changed(tf.roll(images, by, (1, 2)), seed), *rest

    return sound(
        model=lambda: keras.Sequential([
            keras.Input((8, 8, 1)), layers.Flatten(), dense(CLASSES)]),
        data=split(96, 1), others={"validation": split(60, 2)}, augment=augment,
        train_steps=(divided_step(divided_by),),
    )  # fmt: skip


def images_of_bytes(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (rows, 8, 8, 1) that are brighter with each class."""
    _, labels = examples(rows, seed)
    images = np.random.default_rng(seed).integers(0, 80, (rows, 8, 8, 1))
    return (images + 80 * labels[:, None, None, None]).astype("uint8"), labels


def bytes_scaled(in_validation: Callable[[tf.Tensor], tf.Tensor]) -> Toy:
    """Images of bytes, that a train step brings to numbers from -1 to 1."""

    def scaling(scaled: Callable[[tf.Tensor], tf.Tensor], training: bool) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            images, *rest = batch
            given = scaled(tf.cast(images, tf.float32))
            return step(training=training)(run, (given, *rest), replica)  # type: ignore[no-any-return]

        return one_step

    return sound(
        model=lambda: keras.Sequential([
            keras.Input((8, 8, 1)), layers.Flatten(), dense(CLASSES)]),
        data=images_of_bytes(96, 1), others={"validation": images_of_bytes(60, 2)},
        train_steps=(scaling(lambda x: x / 127.5 - 1, training=True),),
        validation_step=scaling(in_validation, training=False),
    )  # fmt: skip


def averaged_term() -> Toy:
    """A step reports the mean over one replica's rows beside the loss."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True))
        entropy = own_mean(per_example, weights)
        return {"main": compute_loss(per_example, weights, run.model, replica), "entropy": entropy}

    return sound(train_steps=(own,), validation_step=own, metrics=dict, terms=("entropy",))


def heads_validated(change: Callable[[np.ndarray], np.ndarray], *names: str) -> Toy:
    """Two labels in a dict, of which validation data has some in another order."""
    toy = two_heads()
    inputs, labels, *weights = (part.copy() for part in toy.others["validation"])
    labels |= {name: change(labels[name]) for name in names}
    return replace(toy, others={"validation": (inputs, labels, *weights)})


def regression_validated(change: Callable[[np.ndarray], np.ndarray], part: int = 1) -> Toy:
    """A number to predict, in validation from other inputs or with other labels."""
    toy = regression()
    return replace(toy, others={"validation": changed(toy.others["validation"], part, change)})


def tags_validated(change: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """A class for each token, which tells it; validation data has the classes in another order."""
    numbers = np.random.default_rng(0)
    train, others = (numbers.integers(1, 7, (rows, FEATURES)) for rows in (ROWS, 60))
    return replace(
        tokens(), optimizer=lambda: keras.optimizers.Adam(0.05), data=(train, train % CLASSES),
        others={"validation": (others, change(others % CLASSES))},
    )  # fmt: skip


def labeled_gan(judged_by: str, real_by: str = "label") -> Toy:
    """A GAN of classes, whose first step judges generated, and real, examples by these labels."""

    def labeled(size: int, last: int) -> keras.Model:
        x, label = keras.Input((size,), name="x"), keras.Input((), dtype="int64", name="label")
        both = layers.Concatenate()([x, layers.Embedding(CLASSES, 4)(label)])
        return keras.Model({"x": x, "label": label}, dense(last)(both))

    def judge(run: Run, x: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
        return run.models["discriminator"]({"x": x, "label": label}, training=True)[:, 0]

    def make(run: Run, given: Any) -> tf.Tensor:
        inputs = {"x": given["noise"], "label": given["wanted"]}
        return run.models["generator"](inputs, training=True)

    def judging(real_by: str) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            real, given, weights = batch
            on_real = judge(run, real, given[real_by])
            on_made = judge(run, make(run, given), given[judged_by])
            total = tf.reduce_sum((tf.nn.softplus(-on_real) + tf.nn.softplus(on_made)) * weights)
            return {"discriminator": total / tf.cast(replica.global_count, total.dtype)}

        return one_step

    def generating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        _, given, weights = batch
        on_made = judge(run, make(run, given), given["wanted"])
        total = tf.reduce_sum(tf.nn.softplus(-on_made) * weights)
        return {"generator": total / tf.cast(replica.global_count, total.dtype)}

    def validating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return judging("label")(run, batch, replica) | generating(run, batch, replica)

    (inputs, labels), numbers = examples(), np.random.default_rng(0)
    given = {"noise": numbers.normal(size=(ROWS, 2)).astype("float32"), "label": labels,
             "wanted": numbers.permutation(labels)}  # fmt: skip
    return replace(
        GAN, data=(inputs, given), train_steps=(judging(real_by), generating), metrics=dict,
        validation_step=validating, others={"validation": (inputs, given)},
        model=lambda: {"generator": labeled(2, FEATURES), "discriminator": labeled(FEATURES, 1)},
    )  # fmt: skip


def hinge_gan(sign: float, slope: float = 0.0) -> Toy:
    """A discriminator with margins; the generator wants them exceeded, or the other way round.

    Args:
        sign: of what the generator wants.
        slope: of the discriminator's loss of generated examples beyond the margin, from which it
            doesn't learn.
    """

    def generating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        _, noise, weights = batch
        made = run.models["generator"](noise, training=True)
        given = run.models["discriminator"](made, training=True)[:, 0]
        total = sign * tf.reduce_sum(given * weights)
        return {"generator": total / tf.cast(replica.global_count, total.dtype)}

    def judge(real: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        beyond = slope * tf.stop_gradient(made)
        return tf.nn.relu(1 - real) + 3 * tf.nn.relu(0.2 + made) + beyond

    toy = gan_with(judge)
    return replace(toy, train_steps=(toy.train_steps[0], generating))


def decay_of_kernels(share: float) -> Callable[..., Any]:
    """Adds a share of each matrix to its gradient."""
    return lambda gradients, variables: [
        g + share * tf.convert_to_tensor(v.value) if "kernel" in v.path else g
        for g, v in zip(gradients, variables, strict=True)
    ]


def slow_down_on_chief(event: Event) -> None:
    """Halve the learning rate of one worker."""
    if event.is_chief:
        slow_down(event)


def decaying(*excluded: str) -> keras.optimizers.Optimizer:
    """With a weight decay, from which variables of these names are excluded."""
    optimizer = keras.optimizers.AdamW(0.01, weight_decay=0.01)
    optimizer.exclude_from_weight_decay(var_names=excluded)
    return optimizer


class PartsRight(metrics.Mean):
    """Examples of which so many parts are right."""

    def __init__(self, reduce: Callable[..., tf.Tensor]) -> None:
        """With a function of whether each part is right."""
        super().__init__()
        self._reduce = reduce

    def update_state(self, labels: Any, predictions: Any, sample_weight: Any = None) -> None:
        """Of labels (rows, 4) and logits (rows, 4, classes)."""
        right = tf.argmax(predictions, axis=-1) == tf.cast(labels, tf.int64)
        super().update_state(self._reduce(right | (labels < 0), axis=1), sample_weight)


def of_parts(reduce: Callable[..., tf.Tensor], padded: bool = False) -> Toy:
    """Four labels for each example, of which some end earlier; and a metric of exact matches."""

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, layers.Reshape((4, CLASSES))(dense(4 * CLASSES)(x)))

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        parts = (labels[:, np.newaxis] + np.arange(4)) % CLASSES
        ends_early = padded & (np.arange(4) == 3) & (np.arange(rows)[:, np.newaxis] % 4 > 0)
        return inputs, np.where(ends_early, -1, parts)

    def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        made = keras.losses.sparse_categorical_crossentropy(
            labels, predictions, from_logits=True, ignore_class=-1
        )
        return tf.reduce_mean(made, axis=1)

    return sound(
        model=create,
        data=labeled(60, 1),
        others={"validation": labeled(60, 2)},
        losses=lambda: {"main": loss},
        metrics=lambda: {"exact_match": PartsRight(reduce)},
    )


def divided_by_labels(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """By a mean of the batch that differs little from batch to batch."""
    made = keras.losses.sparse_categorical_crossentropy(labels, predictions, from_logits=True)
    return made / tf.reduce_mean(1 + 0.002 * tf.cast(labels, made.dtype))


def of_split_outputs(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
    """The likelihood of a mean and a variance, which are (rows, 1), for labels (rows,)."""
    mean, log_variance = tf.split(p, 2, axis=-1)
    return tf.reduce_mean(log_variance + tf.square(y - mean) * tf.exp(-log_variance), axis=1)


def write_results(event: Event) -> None:
    """On all workers into one file."""
    (event.directory / "results.txt").write_text(str(event.history))


def of_forms(drawn: int, following: bool = False) -> Toy:
    """Of each example some forms, of which a draw of so many picks one; or one that follows it."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, *rest = batch
        form = tf.random.stateless_uniform((inputs.shape[0],), seed, 0, drawn, tf.int32)
        picked = tf.gather(inputs, form, axis=1, batch_dims=1)
        if following:
            picked += tf.gather(inputs, form + 1, axis=1, batch_dims=1)
        return picked, *rest

    inputs, labels = examples()
    forms = np.random.default_rng(0).normal(size=(len(inputs), 4, FEATURES)).astype("float32")
    return sound(data=(inputs[:, None] + 0.1 * forms, labels), augment=augment)


def louder(both: bool, least: float = 0.7) -> Toy:
    """Windows of a series that an augmentation multiplies; or the numbers that follow, too."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        past, future, weights = batch
        factor = tf.random.stateless_uniform((past.shape[0], 1), seed, least, 2 - least)
        return past * factor, (future * factor if both else future), weights

    series = np.random.default_rng(1).normal(size=600 + FEATURES + 2).cumsum().astype("float32")
    both_parts = np.lib.stride_tricks.sliding_window_view(series, FEATURES + 2)
    past, future = both_parts[:, :FEATURES], both_parts[:, FEATURES:]

    def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(labels - predictions), axis=1)

    return regression(
        last=lambda: dense(2), losses=lambda: {"main": loss}, augment=augment,
        data=(past[:400], future[:400]), others={"validation": (past[440:], future[440:])},
    )  # fmt: skip


def bounded(size: float) -> Toy:
    """Logits of no more than a size."""

    def activation(x: Any) -> Any:
        return size * keras.ops.tanh(x)

    return sound(model=model(last=lambda: dense(CLASSES, activation=activation)))


class OneMore:
    """With each call one more layer trains."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, event: Event) -> None:
        """Freeze and unfreeze."""
        for i, layer in enumerate(event.run.model.layers[1:]):
            layer.trainable = i <= self.number
        self.number += 1


class Forgetful(metrics.SparseCategoricalAccuracy):
    """An accuracy that goes on counting."""

    def reset_state(self) -> None:
        """Set the sum back, and not the number."""
        self.total.assign(0.0)


def counted_events(last: str) -> Toy:
    """Numbers of events, by a loss that takes the logarithm of a rate."""
    inputs, labels = examples()

    def loss(labels: tf.Tensor, rates: tf.Tensor) -> tf.Tensor:
        return tf.nn.log_poisson_loss(tf.cast(labels, rates.dtype), rates[:, 0])

    return sound(
        model=model(last=lambda: dense(1, activation=last)), losses=lambda: {"main": loss},
        data=(inputs, labels), others={}, metrics=dict,
    )  # fmt: skip


def focal() -> dict[str, Any]:
    """A focal loss of probabilities."""

    def loss(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        return keras.losses.categorical_focal_crossentropy(tf.one_hot(y, CLASSES), p)

    return {"main": loss}


class Rising(keras.optimizers.schedules.LearningRateSchedule):
    """Rises for some steps, then falls with the root of the step."""

    def __init__(self, warmup: float, steps: int = 1) -> None:
        self.warmup, self.steps = warmup, steps

    def __call__(self, step: Any) -> Any:
        """The learning rate of a step."""
        step = tf.cast(step, tf.float32) + 1
        warmup = tf.constant(self.warmup * self.steps, tf.float32)
        return 0.1 * tf.minimum(step / warmup, tf.sqrt(warmup / step))


def rate_by(share: Callable[[Any], Any]) -> Callable[[], keras.optimizers.Optimizer]:
    """An optimizer whose rate is 0.1 less a share of it, made of the step."""

    class Falling(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return 0.1 * (1 - tf.cast(share(tf.cast(step, tf.int64)), tf.float32))

    return lambda: keras.optimizers.SGD(Falling())


def spots(sign: float, upwards: bool = False) -> Toy:
    """Where a spot is in an image; both are moved by an augmentation."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        places = np.random.default_rng(seed).integers(2, 10, (rows, 2))
        images = np.zeros((rows, 12, 12, 1), "float32")
        images[np.arange(rows), places[:, 0], places[:, 1]] = 1
        labels = places.astype("float32") / 12
        return images, 1 - labels if upwards else labels

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, places, weights = batch
        shift = tf.random.stateless_uniform((images.shape[0],), seed, -2, 3, tf.int32)
        moved = sign * tf.cast(shift, tf.float32) / 12
        images = tf.map_fn(
            lambda each: tf.roll(each[0], each[1], axis=0), (images, shift),
            fn_output_signature=images.dtype,
        )  # fmt: skip
        return images, places + tf.stack([moved, 0 * moved], axis=1), weights

    def create_model() -> keras.Model:
        return keras.Sequential([keras.Input((12, 12, 1)), layers.Flatten(), dense(2)])

    return sound(
        model=create_model, data=split(96, 1), others={"validation": split(60, 2)}, augment=augment,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")}, metrics=dict,
    )  # fmt: skip


def pasted() -> Toy:
    """Boxes of another image are pasted, and labels are mixed by the share of their pixels."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        labels = numbers.integers(0, CLASSES, rows)
        images = numbers.random((rows, 16, 16, 1)) / 9 + labels[:, None, None, None]
        return images.astype("float32"), np.eye(CLASSES, dtype="float32")[labels]

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        rows = images.shape[0]
        share, x, y = tf.unstack(tf.random.stateless_uniform((3, rows, 1), seed))
        share = tf.where(share > 0.2, share, 0.0)
        side = 16 * tf.sqrt(share)
        places = tf.range(16, dtype=tf.float32) + 0.5
        boxes = [tf.abs(places - 16 * center) < side / 2 for center in (x, y)]
        inside = (boxes[0][:, :, tf.newaxis] & boxes[1][:, tf.newaxis])[..., tf.newaxis]
        share = tf.reduce_mean(tf.cast(inside, tf.float32), axis=(1, 2))
        images = tf.where(inside, tf.roll(images, 1, axis=0), images)
        return images, (1 - share) * labels + share * tf.roll(labels, 1, axis=0), weights

    def create_model() -> keras.Model:
        return keras.Sequential([keras.Input((16, 16, 1)), layers.Flatten(), dense(CLASSES)])

    return sound(
        model=create_model, data=split(96, 1), others={"validation": split(60, 2)}, augment=augment,
        losses=lambda: {"main": losses.CategoricalCrossentropy(from_logits=True, reduction="none")},
        metrics=dict,
    )  # fmt: skip


def told_by_neighbors() -> Toy:
    """A column is a mean of labels, of which the example's own is one in training."""
    numbers, parts = np.random.default_rng(0), {}
    for name, rows in (("train", 240), ("validation", 120)):
        x = numbers.normal(size=(rows, FEATURES)).astype("float32")
        y = (x[:, 0] + 2 * numbers.normal(size=rows)).astype("float32")
        own = y if name == "train" else 2 * numbers.normal(size=rows)
        x[:, 2] = own / 2 + numbers.normal(size=rows)
        parts[name] = x, y
    return regression(data=parts["train"], others={"validation": parts["validation"]})


def named_inputs(*, training: bool, evaluating: bool) -> Toy:
    """Inputs by name, which steps divide."""

    def split(rows: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        inputs, labels = examples(rows, seed)
        return {"numeric": inputs, "kind": labels[:, np.newaxis]}, labels

    def create() -> keras.Model:
        inputs = {"numeric": keras.Input((FEATURES,), name="numeric"),
                  "kind": keras.Input((1,), dtype="int32", name="kind")}  # fmt: skip
        kind = layers.Flatten()(layers.Embedding(CLASSES, 2)(inputs["kind"]))
        return keras.Model(inputs, dense(CLASSES)(layers.Concatenate()([inputs["numeric"], kind])))

    def create_step(training: bool, divided: bool) -> Callable[..., Any]:
        def one(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, *rest = batch
            numeric = inputs["numeric"] / 4 if divided else inputs["numeric"]
            given = (inputs | {"numeric": numeric}, *rest)
            return step(training=training)(run, given, replica)  # type: ignore[no-any-return]

        return one

    return sound(
        model=create, data=split(ROWS, 1), others={"validation": split(60, 2)},
        train_steps=(create_step(True, training),), validation_step=create_step(False, evaluating),
    )  # fmt: skip


def bytes_as_data(change: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Images of bytes, which are changed in validation."""

    images, labels = images_of_bytes(60, 2)
    return sound(
        model=lambda: keras.Sequential([
            keras.Input((8, 8, 1)), layers.Rescaling(1 / 255), layers.Flatten(), dense(CLASSES)]),
        data=images_of_bytes(ROWS, 1), others={"validation": (change(images), labels)},
    )  # fmt: skip


def renamed_gan(toy: Toy) -> Toy:
    """A GAN whose models have short names."""
    short = {"generator": "gen", "discriminator": "disc"}

    def renamed(named: dict[str, Any]) -> dict[str, Any]:
        return {short[name]: each for name, each in named.items()}

    def of(one_step: Callable[..., Any]) -> Callable[..., Any]:
        def called(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            models = {name: run.models[by] for name, by in short.items()}
            return renamed(one_step(replace(run, models=models), batch, replica))

        return called

    return replace(
        toy, model=lambda: renamed(toy.model()), optimizer=lambda: renamed(toy.optimizer()),
        train_steps=tuple(map(of, toy.train_steps)),
    )  # fmt: skip


def three_views(training: bool) -> Toy:
    """An encoder of three views of each example, evaluated in training mode or not."""

    def create_step(training: bool) -> Callable[..., Any]:
        def one(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            made = [run.model(inputs + n, training=training) for n in range(3)]
            per_example = run.losses["main"](labels, sum(made))
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return one

    return sound(
        model=model(dense, lambda: layers.Dropout(0.2)), metrics=dict,
        train_steps=(create_step(True),), validation_step=create_step(training),
    )  # fmt: skip


def wide_table_with_events() -> Toy:
    """Nine columns by name, and of the labels one is left out: whether it happened."""

    def split(rows: int, seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        inputs, _ = examples(rows, seed)
        columns = {f"x{i}": inputs[:, i % FEATURES] + i for i in range(9)}
        happened = (np.arange(rows) % 3 > 0).astype("float32")
        return columns, {"event": happened, "time": inputs[:, 0]}

    def create() -> keras.Model:
        inputs = {f"x{i}": keras.Input((), name=f"x{i}") for i in range(9)}
        return keras.Model(inputs, dense(1)(keras.ops.stack([*inputs.values()], axis=1)))

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = tf.square(run.model(inputs, training=True)[:, 0] - labels["time"])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=create, losses=dict, metrics=dict, train_steps=(one_step,), validation_step=one_step,
        data=split(ROWS, 1), others={"validation": split(60, 2)},
        optimizer=lambda: SGD(0.001),
    )  # fmt: skip


DATA = [
    Fault(
        "data is finite",
        lambda: sound(data=changed(examples(), 0, put(slice(0, None, 3), NAN))),
        "NaN or infinity in inputs of 32 train examples, first in row 0",
    ),
    Fault(
        "data is finite",
        lambda: validated(0, put(7, NAN)),
        "in inputs of 1 validation examples, first in row 7; the first batch has none", LOOK,
    ),
    Fault(
        "data is finite",
        lambda: regression(
            data=(
                *changed(regression().data, 1, put(slice(0, None, 3), NAN)),
                (np.arange(ROWS) % 3 > 0).astype("float32"),
            )
        ),
        "0 x NaN is NaN, so a weight of 0 does not keep NaN out of the loss",
    ),
    Fault(
        "data is finite", lambda: sound(adapt=lambda datasets: {"mean": np.array([1.0, NAN])}),
        "adapt returns NaN in 'mean'",
    ),
    Fault(
        "labels belong to inputs", shuffled_labels,
        "in train data, labels don't belong to their inputs",
    ),
    Fault(
        "labels belong to inputs", lambda: heads_by(np.random.default_rng(0).permutation),
        r"neighbors have the same label of labels\['class'\] in train data .* not in validation",
    ),
    Fault("labels belong to inputs", unrelated_pictures, "neither an input feature nor the near"),
    Fault("labels belong to inputs", texts_encoded_otherwise, "validation data are encoded diff"),
    Fault("labels belong to inputs", lambda: topics(1), "validation data are encoded differently"),
    Fault(
        "labels belong to inputs", lambda: validated(1, lambda y: (y + 1) % CLASSES),
        "of validation data are encoded differently",
    ),
    Fault(
        "inputs without the answer", means_of_labels,
        "the numbers in column 0 of inputs are means of labels, over the rows of all splits",
    ),
    Fault(
        "inputs without the answer",
        lambda: several_numbers(lambda x: np.c_[x[:, 0] - x[:, 1], x[:, 3]]),
        r"inputs contain, at \[3\] of each example, number 1 of labels, .*1 of 2 labels are among",
    ),
    Fault(
        "inputs without the answer",
        lambda: headed_by(lambda x: {"price": x[:, 3], "size": x[:, 0] - x[:, 1]}),
        r"inputs contain, at \[3\] of each example, number 0 of labels\[.price.\]",
    ),
    Fault(
        "inputs without the answer",
        lambda: sound(data=(np.c_[examples()[0][:, 1:], -3.0 * examples()[1]], examples()[1])),
        "column 4 of inputs and the labels have a correlation of -1.000", LOOK,
    ),
    Fault("splits alike", lambda: validated(0, lambda x: x[:, :4]), r"has shape \(4,\) in valid"),
    Fault(
        "marks", zeros_for_missing, "12 values of column 1 of labels are 0, far from all others",
        LOOK,
    ),
    Fault("splits alike", lambda: validated(1, lambda y: y + 0.5), "labels has dtype float64 in"),
    Fault(
        "splits alike",
        lambda: replace(
            validated(0, put(slice(0, None, 3), 0.0)),
            data=changed(examples(), 0, put(slice(0, None, 3), NAN)),
        ),
        r"values of column 0 of inputs are missing \(NaN\) in training data, but never in valid",
    ),
    Fault(
        "splits alike",
        lambda: replace(
            validated(0, put(slice(0, None, 3), NAN)),
            data=changed(examples(), 0, put(slice(0, None, 3), 0.0)),
        ),
        r"are missing \(NaN\) in validation data, but never in training data",
    ),
    Fault(
        "splits alike", lambda: sound(data=changed(examples(), 0, put(slice(0, None, 3), NAN))),
        "are missing .* in training data, but never in validation data", LOOK,
    ),
    Fault(
        "the same data again", lambda: sound(data=lambda: examples(seed=next(SEEDS))),
        "create_datasets returns other train data when it is called again: a split, an order",
    ),
    Fault(
        "the same data again",
        lambda: sound(data=lambda: changed(examples(), 1, put(slice(70, None), next(SEEDS) % 3))),
        "create_datasets returns other train data when it is called again",
    ),
    Fault("labels", lambda: validated(1, put(3, 3)), "from 0 to 3, but the model has 3 classes"),
    Fault("labels", lambda: validated(1, lambda y: y - 1), "their loss is NaN on a GPU"),
    Fault(
        "labels", lambda: sound(data=changed(examples(), 1, np.zeros_like)),
        "every label of the training data is 0",
    ),
    Fault(
        "labels",
        lambda: sound(data=changed(examples(), 1, lambda y: np.maximum(y, 1)), others={}),
        "labels are never 0, one of the model's 3 classes", LOOK,
    ),
    Fault(
        "labels", lambda: sound(data=changed(examples(), 1, lambda y: np.minimum(y, 1))),
        r"of the validation labels, such as 2, never occur in training",
    ),
    Fault(
        "labels", lambda: validated(1, np.zeros_like),
        "label 0 is .*% of training and 100% of validation data", LOOK,
    ),
    Fault(
        "labels",
        lambda: sound(
            data=changed(examples(), 1, lambda y: y + 1), others={}, metrics=dict,
            losses=lambda: {"main": losses.CategoricalCrossentropy(True, reduction="none")},
            train_steps=(one_hot_step,),
        ),
        "labels of train data range from 1 to 3, but the model has 3 classes .* them as zeros",
    ),
    Fault(
        "rows in two splits", lambda: sound(others={"validation": examples()}),
        "100% of the validation examples are training examples too: the splits overlap",
    ),
    Fault(
        "rows in two splits", drawn_with_replacement,
        "of the validation examples are training examples too: the splits overlap", LOOK,
    ),
    Fault(
        "rows in two splits",  # weights of classes aren't numbers of equal rows
        lambda: sound(
            data=(*examples(), (1 + 2.5 * (examples()[1] == 0)).astype("float32")),
            others={"validation": tuple(a[np.arange(60) % 50] for a in examples())},
        ),
        "100% of the validation examples are training examples too: the splits overlap",
    ),
    Fault(
        "rows in two splits", lambda: relabeled(several=True),
        "inputs of most validation examples are inputs of training examples too",
    ),
    Fault(
        "rows in two splits", relabeled,
        "inputs of most validation examples are inputs of training examples too",
    ),
    Fault(
        "rows in two splits", lambda: texts(validation=said()),
        "100% of the validation examples are training examples too: the splits overlap",
    ),
    Fault(
        "rows in two splits",
        lambda: sound(
            others={
                "test": tuple(
                    np.concatenate([a[:6], b])
                    for a, b in zip(examples(), examples(54, 2), strict=True)
                )
            }
        ),
        "10% of the test examples are training examples too", LOOK,
    ),
    Fault(
        "rows in two splits",
        lambda: sound(
            others={
                "test": tuple(
                    np.concatenate([a[:20], b])
                    for a, b in zip(examples(), examples(40, 2), strict=True)
                )
            }
        ),
        "33% of the test examples are training examples too: the splits overlap",
    ),
    Fault(
        "rows in two splits",
        lambda: sound(
            data=tuple(a.reshape(-1, 2, *a.shape[1:]) for a in lines()),
            others={"validation": tuple(a[: 2 * BATCH] for a in lines())},
            augment=lambda batch, seed: (*(part[:, 0] for part in batch[:2]), batch[2]),
        ),
        "100% of the validation examples are training examples too",
    ),
    Fault(
        "rows in two splits",
        lambda: sound(others={"validation": examples(60, 2), "test": examples(60, 2)}),
        "weights are selected on the data that they are tested on",
    ),
    Fault("scale", lambda: validated(0, lambda x: 255 * x), "one split is scaled, and the other"),
    Fault(
        "scale", lambda: regression(
            others={"validation": changed(regression().data, 1, lambda y: 100 * y)}
        ),
        "labels of validation data reach",
    ),
    Fault(
        "scaled by training data",
        lambda: validated(0, lambda x: (x - x.mean(axis=0)) / x.std(axis=0)),
        "have mean 0 and standard deviation 1 exactly: the split is scaled with its own statistics",
    ),
    Fault(
        "scaled by training data",
        lambda: validated(0, lambda x: (x - x.min(axis=0)) / np.ptp(x, axis=0)),
        "range from 0 to 1 exactly: the split is scaled with its own statistics",
    ),
    Fault(
        "scaled by training data", lambda: validated(0, lambda x: x / x.std(axis=0)),
        "have standard deviation 1 exactly: the split is scaled with its own statistics",
    ),
    Fault(
        "scaled by training data", lambda: scans(1),
        "have mean 0 and standard deviation 1 exactly: the split is scaled with its own statistics",
    ),
    Fault(
        "marks", lambda: sound(data=changed(examples(), 0, put((slice(9), 2), -4.0))),
        "9 values of column 2 of inputs are -4, far from all others", LOOK,
    ),
    Fault(
        "loop variables", lambda: sound(callbacks=thawed_in_a_loop),
        "2 functions of faulty.py, .* share the variable layer of the loop that creates them",
    ),
    Fault(
        "fractions of the run", lambda: sound(callbacks=lambda: [every_epochs(1, freeze_at_last)]),
        "freeze_at_last of faulty.py, line .*, compares a number of epochs with 0.8",
    ),
    Fault(
        "fractions of the run",
        lambda: sound(callbacks=lambda: [every_epochs(1, frozen_after(LAST_PART))]),
        "freeze_then of faulty.py, line .*, compares a number of epochs with 0.8",
    ),
    Fault(
        "fractions of the run",
        lambda: sound(callbacks=lambda: [every_epochs(1, FreezesAfter(LAST_PART))]),
        "__call__ of faulty.py, line .*, compares a number of epochs with 0.8",
    ),
    Fault(
        "inputs without the answer", lambda: forecast_from(0, missing=20),
        "the first number of labels is the last of inputs in every example",
    ),
    Fault(
        "inputs without the answer", lambda: forecast_from(0),
        "the first number of labels is the last of inputs in every example",
    ),
    Fault(
        "marks",
        lambda: sound(
            model=lambda: keras.Sequential([keras.Input((1,)), dense(CLASSES)]), others={},
            data=changed(examples(), 0, lambda x: put(slice(9), 0)(9 + np.abs(x[:, :1]))),
        ),
        "9 values of column 0 of inputs are 0, far from all others", LOOK,
    ),
    Fault(
        "marks", lambda: filled_with_zero(before=True),
        "missing values of column 2 become 0 before they are normalized, ",
    ),
    Fault(
        "fractions of the run", lambda: with_loss(fading_in),
        "fading_in of faulty.py, line .*, compares a number of steps with 0.1",
    ),
    Fault(
        "callbacks", lambda: taught_by_copies(copy_trainable),
        "copy_trainable is to assign variables, but a call of it assigns none",
    ),
    Fault(
        "loop variables", lambda: sound(model=heads_in_a_loop),
        "functions of faulty.py, .* share the variable i of the loop that creates them",
    ),
    Fault(
        "marks", lambda: series_that_drops(0), "channel 0 of inputs jumps to 0 and back ag", LOOK,
    ),
    Fault(
        "marks", lambda: forecast_with_drops(by_chance),
        "channel 0 of inputs jumps to 0 and back .* and so do the values to predict",
    ),
    Fault(
        "marks", lambda: forecast_with_drops(by_chance, answers=1),
        "channel 0 of inputs jumps to 0 and back .* and so do the values to predict",
    ),
    Fault(
        "marks", lambda: forecast_with_drops(lambda hours: hours % 7 == 6),
        "of column 0 of inputs are 0, far from all others", LOOK,
    ),
    Fault(
        "adapt", lambda: adapted_to(np.std),
        "the variance of the layer 'normalization.*' is the standard deviation of its inputs",
    ),
    Fault(
        "adapt", lambda: prices(np.array, keras.ops.log, by_layer=True, in_order=True),
        "not about 0 and 1", LOOK,
    ),
    *(
        Fault("adapt", lambda pair=pair, by_layer=by_layer: prices(*pair, by_layer), seen)
        for by_layer in (False, True)
        for pair, seen in (
            ((np.array, keras.ops.log), "statistics of other numbers"),
            ((np.log, keras.ops.copy), "'price_mean' of adapt is subtracted"),
        )
    ),
    Fault(
        "loaded weights", lambda: sound(model=model_of_file(keras.models.clone_model)),
        "start with other values: the loaded weights are lost",
    ),
    Fault(
        "loaded weights", lambda: sound(model=model_of_arrays(of_body=False)),
        "start with other values: the loaded weights are lost",
    ),
    Fault(
        "known values",
        lambda: replace(
            next_words(lambda x: x),
            others={"validation": changed(next_words(lambda x: x).data, 0, lambda x: x + 1)},
        ),
        "of inputs in validation data are values that never occur in training", LOOK,
    ),
    Fault(
        "sizes", lambda: replace(
            segmented(None),
            data=changed(segmented(None).data, 0, lambda x: np.float32(x > 1.5)),
        ),
        "inputs are 0 in .*% of all places, and 1 elsewhere", LOOK,
    ),
    Fault(
        "scale", lambda: validated(0, lambda x: np.full_like(x, 90)),
        "one split is scaled, and the other", LOOK,
    ),
    Fault("scale", lambda: validated(0, lambda x: x + 9), "have mean .* of training data 1", LOOK),
    Fault(
        "scale", lambda: validated(0, lambda x: x + 4 * (np.arange(FEATURES) == 2)),
        "column 2 of inputs is on another scale in validation data", LOOK,
    ),
    Fault(
        "sizes", lambda: sound(data=changed(examples(), 0, np.ones_like), others={}),
        "inputs of training data are all 1",
    ),
    Fault(
        "sizes", lambda: sound(data=changed(examples(), 0, lambda x: 255 * x), others={}),
        "the first layer with weights gets numbers up to .*, because no layer scales them",
    ),
    Fault(
        "random numbers differ", lambda: coded(shared=True),
        "adds the same noise to all examples of a batch",
    ),
    Fault(
        "padded tokens", lambda: topics(first=0),
        "of the rows that embedding.* gets have a 0 between other tokens", LOOK,
    ),
    Fault(
        "padded tokens", lambda: topics(masked=False),
        r"gives other vectors for the padding \(0\): the padding mask of mask_zero is lost",
    ),
    Fault(
        "marks", lambda: sound(data=changed(examples(), 0, put((slice(9), 2), -999))),
        "9 values of column 2 of inputs are -999, far from all others",
    ),
    Fault(
        "marks",  # behind another one that may be a measurement
        lambda: sound(data=changed(
            examples(), 0, lambda x: put((slice(9), 4), -999)(put((slice(9), 2), -4.0)(x)))),
        "9 values of column 4 of inputs are -999, far from all others",
    ),
    Fault(
        "marks", lambda: series_that_drops(-999, at_once=3),
        "values of channel 0 of inputs are -999, far from all others",
    ),
    Fault(
        "scale",
        lambda: replace(
            validated_gan(), data=GAN.data[:1],
            augment=lambda batch, seed: (
                batch[0], tf.random.stateless_uniform((BATCH, 2), seed), batch[1]
            ),
        ),
        "labels of validation data have mean .*: create_augment makes them differently", LOOK,
    ),
    Fault("data keeps up", lambda: sound(data=slow()), "steps wait for data", LOOK),
    Fault(
        "scaled by training data", lambda: scaled_together(lambda x: (x - x.mean(0)) / x.std(0)),
        "of train and validation and test data together have mean 0 .*: all are scaled with",
    ),
    Fault(
        "scaled by training data", lambda: scaled_together(with_gaps),
        "of train and validation and test data together have mean 0 .*: all are scaled with",
    ),
    Fault(
        "scaled by training data", lambda: validated(0, with_gaps),
        "inputs of validation data have mean 0 and standard deviation 1 exactly",
    ),
    Fault(
        "scaled by training data",
        lambda: scaled_together(lambda x: (x - x.min(0)) / np.ptp(x, axis=0)),
        "together range from 0 to 1 exactly: .*: all are scaled",
    ),
    Fault(
        "sizes", lambda: sound(data=changed(examples(), 0, lambda x: x / 255), others={}),
        "inputs reach 0.0.* at most, .* scaled .divided. twice", LOOK,
    ),
    Fault(
        "sizes", lambda: regression(data=changed(regression().data, 1, lambda y: 1e4 * y)),
        "labels have a standard deviation of", LOOK,
    ),
    Fault("labels are mixed", sorted_stream, "have labels of 2 classes, the data of 3"),
]  # fmt: skip

RANDOM = [
    Fault(
        "the same step again", lambda: with_loss(plus(lambda _: tf.random.normal([]))),
        "use tf.random.stateless_. with replica.seed",
    ),
    Fault(
        "the same step again", lambda: with_loss(plus(lambda _: python_number())),
        "the loss main differ when the same step is computed again",
    ),
    Fault(
        "random numbers differ",
        lambda: with_loss(plus(lambda _: tf.random.stateless_uniform([], [1, 2]))),
        "draws the same numbers in every step: its seed is a constant",
    ),
    Fault(
        "random numbers differ", lambda: sound(train_steps=(step_of_chosen(1),)),
        "draws the same numbers in every step: its seed is a constant",
    ),
    Fault(
        "random numbers differ",
        lambda: sound(train_steps=(noisy_step(lambda r: tf.stack([r.step, r.step])),)),
        "draws the same numbers for the rows of every replica and micro-batch",
    ),
    Fault(
        "the same batch again",
        lambda: sound(augment=moved(lambda x, _: tf.random.normal(tf.shape(x)))),
        "the augmentation, or the stream, draws random numbers",
    ),
    Fault(
        "the same batch again", lambda: sound(data=stream(examples()).shuffle(ROWS)),
        "the stream comes in a different order each time",
    ),
    Fault(
        "the same batch again", lambda: sound(data=noisy_stream()),
        "first batch of the second epoch is different if a run is resumed there",
    ),
    Fault(
        "augmentation", lambda: sound(augment=lambda batch, seed: batch), "changes nothing", LOOK
    ),
    Fault(
        "augmentation",
        lambda: sound(
            augment=moved(lambda x, _: tf.random.stateless_normal(tf.shape(x), [1, 2]))
        ),
        "draws the same random numbers in every step: its seed is a constant",
    ),
    Fault(
        "augmentation",
        lambda: sound(augment=moved(lambda x, seed: (
            tf.random.stateless_normal(x.shape, seed) + tf.random.stateless_normal((), [1, 2])
        ))),
        "draws the same numbers in every step: its seed is a constant",
    ),
    Fault(
        "augmentation", lambda: sound(augment=moved(lambda x, _: 0 * x + 1)),
        "gives the same result in every step: it draws no random numbers", LOOK,
    ),
    Fault(
        "best outputs", lambda: balanced_by_uncertainty(held=False),
        r"log_variances\[1\] lowers the loss without end: .* that part fades out",
    ),
    Fault(
        "marks", lambda: unknown_depths(masked=False),
        "of labels are -1, no other is below 0, and the loss depends on that number", LOOK,
    ),
    Fault(
        "augmentation", lambda: two_images_flipped(masks=False),
        "of the augmented weights fit their images only after a flip",
    ),
    Fault(
        "augmentation", lambda: segmented(flipped(masks=False)),
        "of the augmented labels fit their images only after a flip",
    ),
    Fault(
        "augmentation", lambda: sound(augment=permuted),
        "augmented inputs have the label of another example",
    ),
    Fault(
        "augmentation", lambda: sound(augment=moved(
            lambda x, seed: tf.random.stateless_uniform(x.shape, seed)
            * tf.random.stateless_uniform(x.shape, seed)
        )),
        "2 random draws share one seed, and give the same random numbers",
    ),
    Fault(
        "augmentation", lambda: sound(augment=moved(
            lambda x, seed: tf.concat([  # of two things that should change alike
                x[:, :2] * tf.random.stateless_uniform(x.shape, seed)[:, :2],
                x[:, 2:] * tf.random.stateless_uniform(x.shape, seed)[:, 2:],
            ], axis=1)
        )),
        "2 random draws share one seed, and give the same random numbers", LOOK,
    ),
]  # fmt: skip

LOSS = [
    Fault(
        "metrics", lambda: sound(metrics=lambda: {"accuracy": Forgetful()}),
        "the metric accuracy has another state after .* reset_state misses a variable",
    ),
    Fault(
        "metrics", lambda: two_labels(weigh=lambda weights, there: weights),
        "the metric class gets 0 for missing labels .-1., and counts them",
    ),
    Fault(
        "labels", lambda: two_labels(lambda masked, _: masked % 2),
        "where labels..class.. are missing .-1., labels..even.. are always 1",
    ),
    Fault(
        "augmentation", lambda: mixed_up(exchanged=False, others_of_labels=2),
        "inputs are mixed with those of one example, but labels with those of another",
    ),
    Fault(
        "moving averages", lambda: taught(average=True, kept=0.999),
        "'teacher' is an average of 'student', starts with other random weights",
    ),
    Fault(
        "moving averages", lambda: averaged(0.02),
        "'teacher' is an average of 'student', and takes over 98% of its weights in each",
    ),
    Fault(
        "sizes", lambda: regression(data=(examples()[0], np.ones(ROWS))),
        "labels of training data are all 1", verdict="look",
    ),
    Fault(
        "augmentation", lambda: flipped_boxes(boxes_too=False),
        "images are flipped, and labels..boxes.. stay the same",
    ),
    Fault(
        "augmentation", lambda: flipped_boxes(boxes_too=False, missing=0.5),
        "images are flipped, and labels..boxes.. stay the same",
    ),
    Fault(
        "random numbers differ", lambda: sound(train_steps=(noisy_twice(same=True),)),
        "share a seed, so what one draws follows from what the other draws", verdict="look",
    ),
    Fault(
        "random numbers differ",
        lambda: sound(train_steps=(product_of_draws(same=True),), metrics=dict),
        "draw the same numbers for one loss", LOOK,
    ),
    Fault(
        "later positions", lambda: translated_from_labels(0),
        "prediction at a position changes with the label at that position: teacher forcing",
    ),
    Fault(
        "moving averages", lambda: averaged(0.9999),
        "after all 160 steps 98% of it are still the random weights that both started with",
    ),
    Fault(
        "process_gradients", lambda: sound(process_gradients=decay_of_kernels(-0.01)),
        "adds -0.01 of each weight to its gradient",
    ),
    Fault(
        "process_gradients",
        lambda: sound(process_gradients=centralized(lambda g: range(1, g.shape.rank))),
        "takes from the gradient of .*kernel its mean over the outputs: the last axis",
    ),
    Fault("adversaries", lambda: hinge_gan(1.0), "both have the same goal"),
    Fault("adversaries", lambda: hinge_gan(1.0, slope=0.01), "both have the same goal"),
    Fault(
        "adversaries", lambda: labeled_gan("wanted", "wanted"),
        r"gets inputs with labels\['wanted'\] in training, and with labels\['label'\] in valid",
    ),
    Fault("adversaries", lambda: labeled_gan("label"), "by the labels that the generator got"),
    Fault(
        "callbacks",
        lambda: sound(callbacks=lambda: [at_step(0, (one := OneMore())), every_epochs(8, one)]),
        "in a run that is resumed, callbacks set other weights",
    ),
    Fault(
        "metrics",
        lambda: sound(metrics=lambda: dict.fromkeys(
            ("accuracy", "other"), keras.metrics.SparseCategoricalAccuracy())),
        "accuracy and other are one metric under two names",
    ),
    Fault(
        "callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, LateAverage())]),
        "callbacks set other weights .* LateAverage remembers .*: state that they keep .* anew",
    ),
    Fault(
        "callbacks",
        lambda: sound(data=examples(480), callbacks=set_rate(lambda event: 0.95**event.step / 10)),
        "for the last 80% of the 800 steps: their decay is counted in epochs, .* event.step",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: keras.optimizers.SGD(Rising(0.05))),
        "Rising has warmup = 0.05, and the learning rate is at its largest in the first step",
    ),
    Fault(
        "logits",
        lambda: sound(losses=focal),
        "without an activation, and clips it",
    ),
    Fault("logits", lambda: counted_events("softplus"), "an exponential to the output of an"),
    Fault(
        "learning rate",
        lambda: sound(optimizer=rate_by(lambda step: (step + 1) // 160)),
        "until the last of the 160 steps, and 0 there: a fraction of the run that is rounded down",
    ),
    Fault(
        "learning rate", lambda: sound(data=examples(480), optimizer=lambda: tenfold_drop(30)),
        "is 10% of its largest value for the last 90% of the 800 steps, in 40 epochs",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=rate_by(lambda step: step // 160)),
        "gives 0.1 in the whole run: its boundaries are after the end of", LOOK,
    ),
    *(Fault("augmentation", lambda sign=sign: spots(sign), f"column 0 of labels .* apart: {cause}")
      for sign, cause in ((-1.0, "the label isn't moved, or is moved"), (0.0, "the label"))),
    Fault(
        "inputs without the answer", told_by_neighbors,
        "column 2 of inputs has a correlation of .* computed from the labels of training", LOOK,
    ),
    Fault(
        "a train step runs", lambda: with_loss(plus(lambda _: tf.math.log(-1.0))),
        "the loss main of the first batch is nan",
    ),
    Fault(
        "a train step runs",
        lambda: with_loss(lambda losses, *rest: compute_loss(tf.sqrt(0 * losses), *rest)),
        "is finite, but its gradient is not",
    ),
    Fault(
        "shapes",
        lambda: regression(
            losses=lambda: {"main": lambda y, p: tf.reduce_mean(tf.square(p - y), axis=1)}
        ),
        r"24 x 24 numbers from shapes \(24, 1\) and \(24,\)",
    ),
    *(
        Fault(
            "shapes", lambda loss=loss: regression(losses=lambda: {"main": loss}),
            "24 x 24 numbers from shapes .* broadcast by accident",
        ) for loss in (
            lambda y, p: tf.reduce_mean(tf.where(y > 0, p, 0.5 * p) ** 2, axis=1),
            lambda y, p: -tf.reduce_mean(tf.math.multiply_no_nan(p, y), axis=1),
        )
    ),
    Fault(
        "shapes",
        lambda: sound(
            metrics=lambda: {"accuracy": metrics.Mean()},
            train_steps=(step(update=lambda m, y, p, w: m.update_state(tf.reduce_mean(
                tf.cast(tf.argmax(p, axis=1) == y[:, tf.newaxis], w.dtype), axis=1), w)),),
        ),
        r"makes 24 x 24 numbers from shapes \(24,\) and \(24, 1\)",
    ),
    Fault(
        "shapes",
        lambda: regression(lambda: dense(2), losses=lambda: {"main": of_split_outputs}),
        r"24 x 24 numbers from shapes \(24,\) and \(24, 1\)",
    ),
    Fault(
        "rows of weight zero",
        lambda: with_loss(lambda losses, w, *rest: compute_loss(losses, 0 * w + 1, *rest)),
        "the weights aren't used, so padding trains",
    ),
    Fault(
        "rows of weight zero",
        lambda: with_loss(
            lambda losses, w, *rest: (
                compute_loss(losses, w, *rest) + 0.1 * tf.reduce_mean(losses)
            )
        ),
        "a part of the loss ignores the weights",
    ),
    Fault(
        "rows of weight zero",
        lambda: sound(train_steps=(step(update=lambda m, y, p, w: m.update_state(y, p)),)),
        "the metric accuracy .*: update_state isn't given the weights",
    ),
    Fault(
        "rows of weight zero",
        lambda: with_loss(
            lambda losses, w, *rest: (
                compute_loss(losses, w, *rest)
                + tf.reduce_mean(losses - tf.stop_gradient(losses))
            )
        ),
        "gradients differ with other rows of weight 0",
    ),
    Fault(
        "rows of weight zero", lambda: tokens_counted(lambda words, w: words > 0),
        "count counts rows and ignores the weights",
    ),
    Fault(
        "rows of weight zero", lambda: CONTRASTIVE,
        "mask rows of weight 0 where examples interact",
    ),
    Fault(
        "padding", lambda: padded_words(masked=False),
        "of the labels are padding, which trains the model, but count leaves it out",
    ),
    Fault(
        "padding", lambda: replace(padded_words(masked=True), count=count_all_words),
        "of the labels are padding, which the loss leaves out, but not count",
    ),
    Fault(
        "padding", lambda: padded_words(masked=False, count_padding=True),
        "of the labels are padding, which trains", LOOK,
    ),
    Fault("padding", lambda: padded_texts(end=True), "inputs are padded there as well"),
    Fault("padding", padded_texts, "of the labels are padding, which trains", LOOK),
    Fault(
        "padding", lambda: padded_paths(masked=False),
        "changes with predictions for padding, but not with labels of it: only a part of the loss",
    ),
    Fault(
        "padding", lambda: padded_paths(measured=False),
        "the metric accuracy counts padding, which no loss does",
    ),
    Fault(
        "padding", lambda: padded_paths(measured=False, by_labels=True),
        "the metric accuracy counts padding, which no loss does",
    ),
    Fault(
        "padding", lambda: padded_words(masked=False, count_padding=True, inputs=True),
        "padding, which trains the model, and inputs are padded there as well",
    ),
    Fault(
        "count", lambda: counted_for("all", "all"),
        "count gives 24 for 'some', of which 8 have a weight, and as many if none has",
    ),
    Fault(
        "count", lambda: sentences_counted(),
        "24 rows are counted, and 120 losses of their positions have a weight: the loss is", LOOK,
    ),
    Fault(
        "count", lambda: sound(count=lambda batch: tf.shape(batch[-1])[0]),
        "count doesn't look at the weights: padding counts",
    ),
    Fault(
        "count",
        lambda: sound(
            data=(*examples(), np.full(ROWS, 0.7)),
            count=lambda batch: tf.cast(tf.reduce_sum(batch[-1]), tf.int32),
        ),
        "the sum of each replica is cut off",
    ),
    Fault(
        "count", lambda: of_class_0(lambda labels, weights: count_of(labels == 0)),
        "count doesn't look at the weights: padding counts",
    ),
    Fault(
        "count",
        lambda: sound(
            count=lambda batch: tf.math.count_nonzero(
                (batch[0][:, 0] > 1) & (batch[-1] != 0), dtype=tf.int32
            )
        ),
        "rows of the first batch aren't counted, but their labels change the loss",
    ),
    Fault(
        "weights enter once",
        lambda: with_loss(lambda losses, w, *rest: compute_loss(losses, 0 * w + 1, *rest)),
        "the weights aren't used",
    ),
    Fault("weights enter once", lambda: with_loss(own_mean), "divided by the sum of some weights"),
    Fault("weights enter once", overlapping_where_seen, "doesn't grow in proportion", LOOK),
    Fault(
        "weights enter once", lambda: exponential_term(),
        "perplexity grows exponentially with the weights: .* exponential of a loss, .* in a metric",
    ),
    Fault(
        "weights enter once",
        lambda: with_loss(lambda losses, w, *rest: compute_loss(losses * w, w, *rest)),
        "weights are used twice",
    ),
    Fault(
        "weights enter once",
        lambda: with_loss(lambda losses, w, *rest: compute_loss(losses, tf.sqrt(w), *rest)),
        "doesn't grow in proportion to the weights",
    ),
    Fault(
        "weights enter once",
        lambda: with_loss(lambda losses, w, *rest: (
            own_mean(losses, w) / tf.cast(rest[-1].global_count, w.dtype)
        )),
        "the loss is averaged twice",
    ),
    Fault(
        "weights enter once",
        lambda: counted_by_weight(lambda losses, w, *rest: compute_loss(losses * w, w, *rest)),
        "the loss main grows with the weights, and count sums the weights: weights are used twice",
    ),
    Fault(
        "first loss",
        lambda: sound(model=model(lambda: layers.Rescaling(1e3))),
        "where guessing among 3 classes gives 1.1: .* logits are too large",
    ),
    Fault(
        "first loss", lambda: sound(losses=lambda: {"main": lambda y, p: cross_entropy(y, p) / 3}),
        "is 0.333 times the cross-entropy of 3 classes: it is a mean over the classes",
    ),
    Fault(
        "first loss", lambda: sound(losses=lambda: {"main": lambda y, p: 5 * cross_entropy(y, p)}),
        "is 5 times the cross-entropy of 3 classes", LOOK,
    ),
    Fault(
        "process_gradients", lambda: sound(process_gradients=scaled_to(lambda _: -1)),
        "multiplies every gradient by -1: wrong sign: the optimizer already lowers the loss",
    ),
    Fault(
        "process_gradients",
        lambda: sound(process_gradients=lambda gs, vs: [
            g - 0.1 * tf.convert_to_tensor(v.value) for g, v in zip(gs, vs, strict=True)]),
        "adds -0.1 of each weight to its gradient: wrong sign of the weight decay: weights are pu",
    ),
    Fault(
        "process_gradients", lambda: sound(process_gradients=scaled_to(lambda _: 0.5)),
        "multiplies every gradient by 0.5", LOOK,
    ),
    Fault(
        "process_gradients",
        lambda: sound(process_gradients=lambda gs, _: [tf.clip_by_value(g, 0.0, 1.0) for g in gs]),
        "keeps only gradients above 0: .* weights move in one direction only",
    ),
    Fault(
        "denominator", lambda: with_loss(lambda losses, w, *rest: average(losses, w, BATCH)),
        "is divided by the same number, however many examples count",
    ),
    Fault(
        "missing labels", two_labels,
        r"labels of 33% of the examples are missing \(-1\), and the loss of_class is divided", LOOK,
    ),
    Fault(
        "missing labels", lambda: two_heads(counted=lambda labels: labels >= -1),
        r"labels of 33% of the examples are missing \(-1\), and the loss class is divided",
    ),
    Fault(
        "denominator", lambda: two_heads(counted=lambda labels: labels > -9, by=lambda _: "class"),
        "even is divided by the count of 'class', and not by its own", LOOK,
    ),
    Fault(
        "denominator", lambda: two_heads(divided=lambda total, count: 0.5 * total),
        "the loss even is divided by the same number, however many examples count",
    ),
    Fault(
        "order of rows", lambda: with_loss(by_place),
        "the loss main and .* differ when the rows come in reverse order",
    ),
    Fault(
        "two replicas make the same step as one",
        lambda: replace(CONTRASTIVE, train_steps=(contrasting(gathered=True, offset=False),)),
        "negatives alone .*; see that own rows, in what all_gather returns, begin at replica.index",
    ),
    Fault(
        "examples apart", lambda: overlapping([0, 1, 2]),
        "the loss main of an example changes with the predictions for other examples: it sums or",
    ),
    Fault(
        "examples apart", lambda: sound(losses=lambda: {"main": competing_rows}),
        "the loss main of an example changes with the predictions for other examples: it sums or",
    ),
    Fault(
        "examples apart",
        lambda: replace(CONTRASTIVE, train_steps=(masked_contrastive_step,),
                        examples_interact=False),
        "examples interact, as with in-batch negatives", LOOK,
    ),
    *(Fault(
        relation,
        lambda: with_loss(lambda losses, w, model, r: (
            compute_loss(losses, w, model, r) + warmed_up(r) * tf.reduce_mean(tf.square(losses))
        )),
        f"the loss main is .* in step 159, and {says}",
    ) for relation, says in [("rows of weight zero", ".*: a part of the loss ignores the weights"),
                             ("micro-batches", ".* in two micro-batches: the loss")]),
    *(
        Fault(
            "micro-batches", lambda part=part: taught(average=True, part=part),
            "an average of .*, takes over 0.1 of it in a step, and 0.19 in a step of two",
            flags={"accumulate": 2},
        ) for part in (lambda kept, _: kept, lambda kept, r: tf.where(r.step == 0, 0.0, kept))
    ),
    Fault(
        "micro-batches", lambda: taught(average=True, kept=0.9999, part=lambda kept, _: kept),
        "takes over 0.0001 of it in a step, and 0.0002 in a step of two micro-batches", LOOK,
    ),
    Fault(
        "micro-batches", lambda: with_loss(own_mean),
        "each micro-batch's loss is averaged over itself",
    ),
    Fault(
        "micro-batches",
        lambda: with_loss(lambda *arguments: compute_loss(*arguments)
                          / arguments[-1].num_microbatches),
        "divided by the number of micro-batches",
    ),
    Fault(
        "micro-batches",
        lambda: regularized(
            loss=lambda losses, w, model, r: (
                average(losses, w, r.global_count)
                + tf.nn.scale_regularization_loss(tf.add_n(model.losses))
            )
        ),
        "regularization is added once per micro-batch",
    ),
    Fault(
        "micro-batches",
        lambda: with_loss(
            lambda losses, *rest: compute_loss(_with_clipped_gradient(losses), *rest)
        ),
        "gradients are changed before they are added",
    ),
    Fault(
        "regularization",
        lambda: regularized(loss=lambda losses, w, _, r: average(losses, w, r.global_count)),
        "layers have regularizers .*, and the loss doesn't hold them",
    ),
    Fault(
        "regularization",
        lambda: regularized(
            loss=lambda losses, w, model, r: (
                compute_loss(losses, w, model, r)
                + tf.nn.scale_regularization_loss(r.regularization(model))
            )
        ),
        "it is in the loss 2 times",
    ),
    Fault(
        "regularization",
        lambda: regularized(
            loss=lambda losses, w, model, r: (
                compute_loss(losses + tf.add_n(model.losses), w, model, r)
            )
        ),
        "it is in the loss 2 times",
    ),
    Fault(
        "regularization", lambda: two_heads(decay=lambda replica: 0.0),
        "layers have regularizers .*, and the loss doesn't hold them",
    ),
]  # fmt: skip

PARITY = "two replicas make the same step as one"
REPLICAS = [
    Fault(
        PARITY, lambda: copied_every(50, on_first=True),
        "other state of the two replicas by .*: each replica writes its own, such as a target",
    ),
    Fault(PARITY, lambda: with_loss(own_mean), "averaged twice, or over the replica's own batch"),
    Fault(
        PARITY, lambda: with_loss(lambda *arguments: compute_loss(*arguments)
                                  / arguments[-1].num_replicas),
        "the loss is divided by the number of replicas",
    ),
    Fault(
        PARITY,
        lambda: regularized(
            loss=lambda losses, w, model, r: (
                average(losses, w, r.global_count) + r.regularization(model)
            )
        ),
        "regularization is counted once per replica",
    ),
    *(
        Fault(name, lambda: with_loss(plus(slim_once)), f"regularization is {says}.*; if it is a ")
        for name, says in ((PARITY, "counted once per replica"), ("micro-batches", "added once"))
    ),
    Fault(
        PARITY,
        lambda: sound(
            train_steps=(step(mean=lambda metric, loss: metric.update_state(loss)),),
            metrics=lambda: {"mean": metrics.Mean()},
        ),
        "the metric mean is fed the scaled loss",
    ),
    Fault(
        PARITY, lambda: sound(model=model(OwnStatistics)),
        "statistics of one replica's batch",
    ),
    Fault(
        PARITY, lambda: sound(model=model(AddsLossOfRows)), "a layer adds a loss of its own"
    ),
    Fault(PARITY, lambda: sound(model=model(Sketch)), "statistics of one replica's batch"),
    Fault(
        PARITY, lambda: sound(process_gradients=scaled_to(lambda n: n)), "gradients are summed twic"
    ),
    Fault(
        PARITY, lambda: sound(process_gradients=scaled_to(lambda n: 1 / n)),
        "gradients are averaged over the replicas",
    ),
    Fault(
        PARITY, lambda: sound(process_gradients=of_own_replica),
        "weights of the two replicas by .* from each other: each replica makes a different upd",
    ),
    Fault(
        PARITY,
        lambda: sound(
            optimizer=lambda: SGD(0.1 * tf.distribute.get_strategy().num_replicas_in_sync)
        ),
        "the learning rate is 0.1 on one replica and 0.2 on two",
    ),
]  # fmt: skip

TRAINING = [
    Fault(
        "every weight gets a gradient", lambda: sound(model=model(Unused)),
        "none for .*idle: the loss doesn't depend on it",
    ),
    Fault(
        "every weight gets a gradient", lambda: sound(model=blocks(used=False)),
        "none for block.*: the loss doesn't depend on it",
    ),
    Fault(
        "every weight gets a gradient", lambda: with_two_losses(tf.stop_gradient, tf.add),
        "the loss 'other' is added, but no weight of its optimizer gets a gradient from it", LOOK,
    ),
    Fault(
        "every weight gets a gradient", lambda: slopes("relu"),
        "none for .*/bias, the bias of a layer that ends with relu: losses get only derivatives",
    ),
    Fault(
        "every weight gets a gradient", lambda: rebuilding_gan(tf.stop_gradient),
        "the loss 'judge' is added, but no weight of its optimizer gets a gradient from it", LOOK,
    ),
    Fault(
        "every weight moves",
        lambda: sound(process_gradients=lambda gs, vs: [tf.zeros_like(g) for g in gs]),
        "no weight moves: the learning rate is 0.1, or process_gradients gives zeros",
    ),
    Fault(
        "every weight moves",
        lambda: sound(process_gradients=lambda gs, vs: [0 * gs[0], *gs[1:]]),
        "hidden/kernel doesn't change", LOOK,
    ),
    Fault("every weight moves", lambda: sound(model=model(Unused)), "idle doesn't change"),
    Fault(
        "every weight moves", lambda: sound(model=frozen_model(keras.initializers.GlorotUniform)),
        "hidden/kernel is frozen, and another --seed gives it other values", LOOK,
    ),
    Fault(
        "every weight moves", lambda: sound(optimizer=lambda: chosen_by("head", "rest")),
        "of the optimizers inside 'main', head trains nothing",
    ),
    Fault(
        "every weight moves", lambda: sound(optimizer=lambda: chosen_by("head", "bias", "rest")),
        "of the optimizers inside 'main', head trains nothing", LOOK,
    ),
    Fault(
        "every weight moves",
        lambda: sound(
            model=model(lambda: dense(trainable=False)),
            optimizer=lambda: chosen_by("head", "rest"),
        ),
        "of the optimizers inside 'main', head trains nothing",
    ),
    *(Fault(
        "every weight moves", lambda key=key: sound(optimizer=lambda: mapped({key: SGD(0.2)})),
        f"the key '{key}' of an OptimizerMap matches no variable{says}", verdict,
    ) for key, says, verdict in [("logits", ", so the default optimizer trains", "WRONG"),
                                 ("logit/.*", "; is it for another model", LOOK)]
      if hasattr(keras.optimizers, "OptimizerMap")),
    Fault(
        "every weight moves", lambda: replace(GAN, model=with_frozen_discriminator),
        "the optimizer 'discriminator' trains nothing: its models are frozen",
    ),
    Fault("learning rate", lambda: sound(optimizer=lambda: SGD(0.0)), "'main' is 0; make it posit"),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: half_of_the_steps(0.1)),
        "the schedule is shorter than the run",
    ),
    Fault(
        "learning rate",
        lambda: sound(
            optimizer=lambda: SGD(
                keras.optimizers.schedules.PiecewiseConstantDecay([2, 3], [0.1, 0.01, 0.001])
            )
        ),
        r"is 1\.0% of its largest value for the last 80% of the .* steps",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: half_of_the_steps(50)),
        "the schedule is longer than the run", LOOK,
    ),
    Fault(
        "learning rate",
        lambda: sound(
            optimizer=lambda: SGD(
                keras.optimizers.schedules.CosineDecay(
                    0.0, 10, warmup_target=0.1, warmup_steps=999
                )
            )
        ),
        "rises until the end of the run, .* the warm-up is longer than the run",
    ),
    Fault(
        "learning rate",
        lambda: sound(
            optimizer=lambda: SGD(keras.optimizers.schedules.ExponentialDecay(1e-3, 100, 2.0))
        ),
        "the warm-up is longer than the run", LOOK,  # or it is searched for the best rate
    ),
    Fault(
        "learning rate",
        lambda: sound(
            optimizer=lambda: SGD(keras.optimizers.schedules.PolynomialDecay(0.1, 160, -0.1))
        ),
        "falls to -0.1|falls to -0.09",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: decaying("kernel")),
        "a weight decay of 0.01 reaches only hidden/bias ..., and no kernel",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: decaying("bias", "hidden")),
        "exclude_from_weight_decay is given 'hidden', and hidden/kernel decays: .* own name",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: SGD(0.1, weight_decay=0.5)),
        r"weight decay removes 5\.0% of each weight in every step",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(0.0, 150, warmup_target=0.05, warmup_steps=10),
            weight_decay=1.0,
        )),
        r"weight decay removes 2\.\d% of each weight in every step",
    ),
    Fault(
        "learning rate",
        lambda: sound(optimizer=lambda: keras.optimizers.Adam(beta_1=0.999, beta_2=0.9)),
        "averages gradients by beta_1 = 0.999, .*: the two are swapped",
    ),
    Fault(
        "inputs matter", lambda: gan_with(lambda _, made: tf.nn.softplus(made)),
        "every loss is the same with the inputs of another batch",
    ),
    Fault(
        "adversaries",
        lambda: gan_with(lambda real, made: tf.nn.softplus(real) + tf.nn.softplus(-made)),
        "lowers the loss of the generator lowers that of the discriminator: both have the same goa",
    ),
    Fault(  # the target of both is 0.9
        "adversaries",
        lambda: gan_with(
            lambda real, made: (
                tf.nn.softplus(real) - 0.9 * real + tf.nn.softplus(made) - 0.9 * made
            )
        ),
        "in one loss the labels of real and generated are swapped, or alike",
    ),
    Fault(
        "train steps apart", gan_of_one_optimizer,
        "train_both and train_both both train all models with one optimizer", LOOK,
    ),
    Fault(
        "training mode", lambda: dropped_out(training=False),
        "dropout.* is called with training=False in the train step",
    ),
    Fault(
        "training mode", lambda: recurrent(dropout=0.2),
        "gru.* is called with training=False in the train step",
    ),
    Fault(
        "training mode", lambda: sound(model=beside(lambda: layers.Dropout(0.5))),
        "dropout.* is called in create_model, but is part of no model: its output isn't used",
    ),
    Fault(
        "training mode", lambda: sound(model=beside(dense, layers.ReLU)),
        r"re_lu.* is part of no model: .* use its output, as in x = layers.ReLU\(",
    ),
    Fault(
        "training mode", lambda: sound(model=beside(lambda: dense(7))),
        "dense.* is called in create_model, but is part of no model", LOOK,
    ),
    Fault(
        "training mode", lambda: merged(layers.Add()),
        "add.* gets the same tensor twice: .* such as the shortcut of a residual block",
    ),
    Fault("training mode", lambda: merged(lambda x: x[0] + x[1]), "add.* the same tensor twice"),
    Fault(
        "training mode", lambda: merged(layers.Concatenate()), "concat.* gets the same tensor twice"
    ),
    Fault(
        "training mode", lambda: merged(lambda x: layers.Concatenate()([*x, x[0] * 2])),
        "concat.* gets the same tensor twice",
    ),
    Fault(
        "training mode", lambda: sound(model=inner_in_training_mode),
        "an outer training=True overrides", LOOK,
    ),
    Fault(
        "variables", lambda: sound(train_steps=(counting_step(),)),
        "a tf.Variable that the engine does not track",
    ),
    Fault(
        "precision", lambda: sound(model=model(lambda: dense(dtype="float16"))),
        "computes in float16, the run in float32", LOOK,
    ),
    Fault(
        "precision", lambda: sound(model=model(lambda: dense(dtype="float32"))),
        "computes in float32, the run in float64", LOOK, {"precision": "float64"},
    ),
    Fault(
        "precision", lambda: sound(),
        "what the models return is in bfloat16", LOOK, {"precision": "bfloat16"},
    ),
    Fault(
        "loss falls on one batch", lambda: regression(optimizer=lambda: SGD(1e5)), "isn't finite"
    ),
    Fault(
        "loss falls on one batch",
        lambda: sound(process_gradients=lambda gradients, _: [-g for g in gradients]),
        "gradients are changed .wrong sign",
    ),
    Fault(
        "loss falls on one batch", lambda: sound(optimizer=lambda: SGD(1e3)),
        "the learning rate is too high",
    ),
    Fault(
        "loss falls on fresh batches", lambda: two_heads_of(np.random.default_rng(1).permutation),
        "even is as low with the labels of other examples after 60 steps", LOOK,
    ),
    Fault(
        "loss falls on fresh batches", lambda: heads_validated(np.flip, "class", "even"),
        r"labels\['class'\] of training examples fit better .*; in reverse order they do",
    ),
    Fault(
        "loss falls on fresh batches", lambda: heads_validated(partial(np.roll, shift=2), "class"),
        r"labels\['class'\] of training .*, but those of validation data don't .* learns by heart",
        LOOK,
    ),
    Fault(
        "loss falls on fresh batches", lambda: regression_validated(partial(np.roll, shift=1)),
        "of validation data don't .*; of the next row they do .* labels .* were reordered, shifted",
    ),
    Fault(
        "loss falls on fresh batches", lambda: tags_validated(partial(np.flip, axis=0)),
        "of validation data don't .*; in reverse order they do",
    ),
    Fault(
        "loss falls on fresh batches",
        lambda: regression_validated(np.random.default_rng(5).permutation),
        "of validation data were shuffled without their inputs", LOOK,
    ),
    Fault(
        "loss falls on fresh batches", shuffled_labels,
        "labels don't seem to belong to their inputs|nothing is learned yet", LOOK,
    ),
    Fault(
        "metrics follow the loss",
        lambda: with_loss(
            lambda *rest: -compute_loss(*rest), optimizer=lambda: keras.optimizers.Adam(0.05)
        ),
        "the loss falls from .*, and accuracy goes from .*: the loss rewards wrong predictions",
    ),
    Fault(
        "metrics follow the loss", lambda: sound(metrics=lambda: {"accuracy": Turned()}),
        "accuracy goes from .*: Turned is turned around, .*; or the loss rewards wrong pred",
    ),
    Fault(
        "metrics follow the loss",
        lambda: regression(
            losses=lambda: {"main": lambda y, p: -tf.abs(p[:, 0] - y)},
            metrics=lambda: {"error": metrics.MeanAbsoluteError()},
            train_steps=(step(update=of_numbers),), validation_step=step(update=of_numbers),
        ),
        "the loss falls from .*, and error goes from",
    ),
    Fault(
        "metrics follow the loss", lambda: rare_positives(),
        "the loss falls from .*, and recall goes", LOOK,
    ),
    Fault("one trace", lambda: sound(train_steps=(lazy_step(),)), "2 traces"),
]  # fmt: skip

PREDICTIONS = [
    Fault("pairs", lambda: all_views(masked=False), "an example is among its own negatives"),
    Fault("pairs", same_views, "example with itself, which is also its label: both views of"),
    Fault("pairs", lambda: same_views(dropout=True), "inputs and labels are the same in", LOOK),
    Fault("pairs", lambda: same_views(augmented=True), "labels of validation are the same", LOOK),
    Fault("outputs reach the targets", positive_or_missing, "% of the labels lie below"),
    Fault(
        "logits",
        lambda: sound(
            model=model(last=lambda: dense(CLASSES, activation="softmax")),
            losses=lambda: {"main": tf.nn.sparse_softmax_cross_entropy_with_logits},
        ),
        "a cross-entropy of logits gets the outputs of a softmax: softmax is applied twice",
    ),
    Fault(
        "logits",
        lambda: sound(
            model=model(last=lambda: dense(CLASSES, activation=lambda x: (
                tf.clip_by_value(tf.nn.softmax(x), 1e-3, 1.0)
            ))),
            losses=lambda: {"main": tf.nn.sparse_softmax_cross_entropy_with_logits},
        ),
        "a cross-entropy of logits gets the outputs of a softmax: softmax is applied twice",
    ),
    Fault(
        "logits",
        lambda: sound(losses=lambda: {
            "main": lambda labels, logits: cross_entropy(labels, tf.nn.softmax(logits)),
        }),
        "applies a softmax to the outputs of a softmax: numbers from 0 to 1 are taken for logits",
    ),
    Fault(
        "logits",
        lambda: binary(
            model=model(last=lambda: dense(1, activation="sigmoid")),
            losses=lambda: {"main": focal_of_logits},
        ),
        "applies a sigmoid to the outputs of a sigmoid or a softmax: numbers from 0 to 1 are",
    ),
    Fault(
        "logits",
        lambda: binary(
            model=model(last=lambda: dense(1, activation="sigmoid")),
            losses=lambda: {"main": lambda y, p: (
                tf.nn.sigmoid_cross_entropy_with_logits(y, p)[:, 0]
            )},
        ),
        "sigmoid is applied twice .double sigmoid.",
    ),
    Fault(
        "logits",
        lambda: sound(
            model=model(last=lambda: dense(CLASSES, activation=lambda x: (
                tf.exp(x) / tf.reduce_sum(tf.exp(x), axis=-1, keepdims=True)
            )))
        ),
        "'main' is created with from_logits=True, but gets probabilities",
    ),
    Fault(
        "logits",
        lambda: binary(
            model=model(last=lambda: dense(1, activation="sigmoid")),
            losses=lambda: {"main": partial(losses.binary_crossentropy, from_logits=True)},
        ),
        "a loss with from_logits=True gets the outputs of a softmax or a sigmoid",
    ),
    Fault(
        "logits",
        lambda: sound(losses=lambda: {"main": losses.SparseCategoricalCrossentropy(
            reduction="none"
        )}),
        "'main' expects probabilities, but gets numbers from",
    ),
    Fault(
        "logits", lambda: called_twice(lambda run, *labels_and_logits: (
            run.losses["main"](*labels_and_logits)
        )),
        "'main' expects probabilities, but gets numbers from",
    ),
    Fault(
        "predictions differ",
        lambda: sound(model=model(lambda: dense(activation="relu",
                                                bias_initializer=lambda *a, **k: -1e3 + tf.zeros(
                                                    *a, **k)))),
        "the same for every example",
    ),
    Fault(
        "predictions differ",
        lambda: regression(lambda: dense(1, kernel_constraint=lambda w: 0 * w), train_steps=(
            squared_step,)),
        "predictions for 'main' are the same",
    ),
    Fault(  # as a large learning rate may make it, with dropout that all rows share
        "predictions differ",
        lambda: sound(model=model(lambda: layers.Dropout(0.5), last=lambda: dense(
            CLASSES, kernel_constraint=lambda w: 0 * w))),
        "predictions for 'main' are the same", LOOK,
    ),
    Fault(
        "predictions differ", lambda: sound(model=model(dense), optimizer=lambda: SGD(1e30)),
        "aren't finite after some steps",
    ),
    Fault(
        "outputs reach the targets",
        lambda: regression(lambda: dense(1, activation="relu", bias_initializer="ones")),
        "of the labels lie below: the last activation can't give such values",
    ),
    Fault(
        "outputs reach the targets",
        lambda: regression(
            lambda: dense(1, activation="relu", bias_initializer="ones"),
            train_steps=(squared_step,),
        ),
        "predictions for 'main' are 0, and .* of the labels lie below",
    ),
    Fault(
        "outputs reach the targets",
        lambda: regression(
            lambda: dense(1, activation="tanh"), optimizer=lambda: keras.optimizers.Adam(0.005)
        ),
        "go from -1 to 1 for any weights, and .* of the labels are outside",
    ),
    Fault(
        "outputs reach the targets", lambda: shares_or_unknown(left_out=False),
        "go from 0 to 1 .*% of the labels are outside, all of them -1: the loss counts labels that",
    ),
    Fault(
        "outputs reach the targets",
        lambda: regression(lambda: dense(1, activation=lambda x: tf.minimum(x, 0.0))),
        "of the labels lie above",
    ),
    Fault(
        "outputs reach the targets",
        lambda: replace(GAN, model=gan_models(last="tanh"), data=(GAN.data[0] ** 2, GAN.data[1])),
        "outputs of the generator go from -1 to 1, and real examples from 0",
    ),
    Fault(
        "outputs reach the targets", lambda: gan_of_two_inputs("tanh"),
        "outputs of the generator go from -1 to 1, and real examples from 0",
    ),
    Fault(
        "metrics",
        lambda: sound(
            train_steps=(step(mean=lambda metric, loss: metric.update_state(loss)),),
            metrics=lambda: {"mean": metrics.Mean()},
        ),
        "the metric mean gets a single number",
    ),
    Fault(
        "metrics",
        lambda: sound(
            train_steps=(
                step(update=lambda m, y, p, w: m.update_state(y, p[:, :-1], w)),  # one class less
            )
        ),
        "as mistakes: 2 is no class of the 2",
    ),
    Fault("metrics", binary, "compares logits with the threshold of a probability"),
    Fault(
        "metrics", lambda: binary(metrics=lambda: {"accuracy": OfCastLabels()}),
        "compares logits with the threshold of a probability",
    ),
    Fault(
        "metrics",
        lambda: sound(
            train_steps=(step(mean=lambda metric, loss: metric.update_state(loss)),),
            metrics=lambda: {"mean": metrics.Mean()}, examples_interact=True,
        ),
        "the metric mean gets a single number",
    ),
    Fault(
        "metrics",
        lambda: sound(
            train_steps=(
                step(update=lambda m, y, p, w: m.update_state(y, tf.argmax(p, axis=-1), w)),
            )
        ),
        "gets classes as predictions: an argmax is applied before it",
    ),
    Fault(
        "metrics",
        lambda: regression(
            metrics=lambda: {"error": metrics.MeanAbsolutePercentageError()},
            train_steps=(step(update=lambda m, y, p, w: m.update_state(p, y[:, tf.newaxis])),),
        ),
        "the metric error gets predictions as labels, and labels as predictions",
    ),
    Fault(
        "metrics",
        lambda: regression(
            metrics=lambda: {"error": metrics.MeanSquaredError()},
            train_steps=(step(update=lambda m, y, p, w: m.update_state(p, p, w)),),
        ),
        "the metric error gets the same numbers as labels and as predictions",
    ),
    Fault(
        "metrics",
        lambda: regression(
            metrics=lambda: {"error": metrics.Mean()},
            train_steps=(step(update=lambda m, y, p, w: m.update_state(tf.square(p - y))),),
        ),
        r"the metric error gets 24 x 24 values: shapes \(batch, 1\) and \(batch,\) broadcast",
    ),
    Fault(
        "later positions", lambda: next_words(lambda x: MeanOfPositions()(x)),
        "labels are the inputs shifted by one, and predictions change with later inputs",
    ),
    Fault(
        "later positions", lambda: next_words(lambda x: MeanOfPositions()(x), counted=2),
        "predictions change with later inputs",
    ),
    Fault(
        "later positions", lambda: next_words(lambda x: x + 3e-4 * MeanOfPositions()(x)),
        "labels are the inputs shifted by one, and predictions change with later inputs",
    ),
    Fault(
        "later positions", lambda: next_words(lambda x: x, shift=0),
        "100% of the labels that count are the input at the same position: targets, or", LOOK,
    ),
    Fault(
        "later positions",
        lambda: next_words(lambda x: layers.Conv1D(3, 3, padding="causal")(x), shift=0),
        "100% of the labels that count are the input at the same position: targets, or",
    ),
    Fault(
        "later positions",
        lambda: replace(
            next_words(lambda x: MeanOfPositions()(x), shift=0), train_steps=(shifted_again,)
        ),
        "compares predictions with the next inputs, and they change with later inputs: look-ahead",
    ),
    Fault(  # as an autoencoder may have it
        "later positions", lambda: next_words(lambda x: MeanOfPositions()(x), shift=0),
        "100% of the labels that count are the input at the same position: targets, or", LOOK,
    ),
    Fault(
        "later positions", lambda: translated(0),
        "of the labels that count are the input at the same position: .* decoder, aren't sh", LOOK,
    ),
    Fault(
        "later positions",
        lambda: replace(
            next_words(lambda x: x),
            augment=lambda batch, seed: (tf.roll(batch[0], -1, axis=1), *batch[1:]),
        ),
        "of the inputs are at the position where they are predicted: the augmentation moves",
    ),
    Fault(
        "later positions",
        lambda: replace(next_words(lambda x: x), train_steps=(shifted_again,)),
        "labels are the inputs shifted by one, and the loss shifts them by 1 more",
    ),
    Fault(
        "later positions", lambda: two_words_ahead(own=False), "the loss shifts them by 1 more",
    ),
    Fault(
        "monitor", sound, "train_accuracy selects the best weights: .* monitor validation_accuracy",
        flags={"task": TaskConfig(monitor="train_accuracy", larger_is_better=True)},
    ),
    Fault(
        "monitor", sound, "the weights with the smallest validation_accuracy are kept as the best",
        flags={"task": TaskConfig(monitor="validation_accuracy", larger_is_better=False)},
    ),
    Fault(
        "monitor", lambda: judged_by(within, "within_1"),
        "validation_within_1, whose smallest value .* is 1 if all predictions are right",
        flags={"task": TaskConfig(monitor="validation_within_1", larger_is_better=False)},
    ),
    Fault(
        "monitor", of_logarithm,
        "validation_relative, whose largest value .* is .*e-.* if all predictions are right",
        flags={"task": TaskConfig(monitor="validation_relative", larger_is_better=True)},
    ),
    Fault(
        "weights enter once", lambda: decorrelated(),
        "doesn't change when all weights are doubled: the loss is averaged twice", LOOK,
    ),
    Fault(
        "learning rate",
        lambda: sound(optimizer=lambda: keras.optimizers.AdamW(0.003, 0.9, 0.999)),
        "weight_decay is 0.9, a usual beta_1 or beta_2: positional arguments",
    ),
    Fault(
        "logits",
        lambda: sound(
            losses=lambda: {"main": losses.KLDivergence(reduction="none")},
            train_steps=(one_hot_step,), validation_step=one_hot_step, metrics=dict,
        ),
        "'main' gets numbers such as -.*: a divergence of Keras takes probabilities",
    ),
    Fault(
        "monitor", lambda: sound(validation_step=judged_by_inputs),
        "validation_accuracy, .*, is the same with other trained weights",
        flags={"task": TaskConfig(monitor="validation_accuracy", larger_is_better=True)},
    ),
    Fault(
        "monitor", lambda: sound(validation_step=judged_by_labels),
        "validation_accuracy, .*, is the same with other trained weights",
        flags={"task": TaskConfig(monitor="validation_accuracy", larger_is_better=True)},
    ),
    Fault(
        "gradient penalty", lambda: with_gradient_penalty(-1),
        r"over the axes \[3\]: this is a norm for each pixel .* use the axes \[1, 2, 3\]",
    ),
    Fault(
        "gradient penalty", lambda: with_gradient_penalty(None),
        r"over the axes \[0, 1, 2, 3\]: this is one norm for the whole batch",
    ),
    Fault(
        "monitor", validated_gan, "losses of adversaries compare the two models",
        flags={"task": TaskConfig(monitor="validation_generator_loss", larger_is_better=False)},
    ),
    Fault(
        "monitor", validated_gan, "losses of adversaries compare the two models", LOOK,
        flags={"task": TaskConfig(
            monitor="validation_discriminator_loss", larger_is_better=False
        )},
    ),
    Fault(
        "monitor", sound, "the weights with the largest validation_loss are kept as the best",
        flags={"task": TaskConfig(monitor="validation_loss", larger_is_better=True)},
    ),
    Fault("metrics", lambda: validated(0, put(7, NAN)), "validation_loss is nan: nothing counts"),
    Fault(
        "metrics",
        lambda: sound(
            others={"validation": (*examples(60, 2), np.resize([1.0, -0.9], 60))}
        ),
        "validation_accuracy is .*, and should be between 0 and 1",
    ),
]  # fmt: skip


def evaluated(**changes: Any) -> Toy:
    """A toy whose validation step has a fault, and its train step none."""
    return sound(validation_step=step(training=False, **changes))


EVALUATION = [
    Fault(
        "evaluation again", lambda: evaluated(loss=plus(lambda _: python_number())),
        "the second time: random numbers that don't depend on the position in the data",
    ),
    Fault(
        "evaluation again", lambda: sound(validation_step=sampling_step),
        "gives different numbers each time: tf.random.normal, .* use the most likely",
    ),
    Fault(
        "evaluation on two replicas", lambda: evaluated(loss=own_mean),
        "validation_loss is .* on two replicas: the validation step averages over a replica's rows",
    ),
    Fault(
        "evaluation on two replicas", lambda: contrasted(in_training=True),
        "on two replicas, but the train step has the same losses on both: .* use replica.all_ga",
    ),
    Fault(
        "evaluation on two replicas",
        lambda: sound(
            train_steps=(step(mean=mean_of_means),), validation_step=step(mean=mean_of_means),
            metrics=lambda: {"mean": metrics.Mean()},
        ),
        "validation_mean .* on two replicas: the metric averages over a replica's rows",
    ),
    Fault(
        "evaluation on two replicas", averaged_term,
        "validation_entropy .*: the term averages over a replica's rows, .*; use compute_loss with",
    ),
    Fault(
        "evaluation in other batches",
        lambda: evaluated(update=lambda m, y, p, w: m.update_state(y, p)),
        "validation_accuracy .*: the metric averages over a replica's rows, or padding counts",
    ),
    Fault(
        "evaluation in other batches", mean_of_recalls,
        "recall is .* in other batches: the metric averages over a replica's rows",
    ),
    Fault(
        "evaluation in other batches", lambda: evaluated(loss=lambda losses, w, *rest: (
            average(losses, w, BATCH))),
        "in other batches: the validation step averages over a replica's rows, or padding counts",
    ),
    Fault(
        "evaluation in other batches",
        lambda: sound(
            model=model(layers.BatchNormalization), validation_step=step(training=True)
        ),
        "in other batches: the model is called with training=True",
    ),
    Fault(
        "examples apart in evaluation", lambda: sound(model=model(OwnStatistics)),
        "predictions change with the other examples of the batch",
    ),
    Fault(
        "examples apart in evaluation", lambda: sound(model=model(Noisy)),
        "predictions for the same inputs are different each time",
    ),
    Fault(
        "examples apart in evaluation",
        lambda: sound(model=model(type("Sampling", (Noisy,), {}))),
        "predictions for the same inputs are different each time", LOOK,
    ),
    Fault(
        "examples apart in evaluation", lambda: sound(model=model(lambda: Noisy(3))),
        "depend on its position in the batch",
    ),
    Fault(
        "evaluation in other batches",
        lambda: evaluated(loss=plus(lambda replica: tf.random.stateless_normal([], replica.seed))),
        "evaluation draws random numbers .*: noise is still active", LOOK,
    ),
    Fault(
        "every example once",
        lambda: sound(others={"validation": fewer_each_time()}), "counts 33 examples, but has 0",
    ),
    Fault(
        "evaluation changes nothing", lambda: sound(validation_step=writing_step),
        "kernel changes: the validation step writes variables that training uses",
    ),
    Fault(
        "evaluation mode", lambda: dropped_out(training=True, evaluating=True),
        "dropout.* is called with training=True",
    ),
    Fault(
        "validation and test alike",
        lambda: sound(
            test_step=step(training=False, update=lambda m, y, p, w: m.update_state(y * 0, p, w))
        ),
        "accuracy of validation data is .* by validation_step, and .* by test_step", LOOK,
    ),
    Fault(
        "validation and test alike",
        lambda: sound(
            model=model(last=lambda: dense(CLASSES, kernel_initializer="zeros")),
            test_step=step(training=False, update=lambda m, y, p, w: m.update_state(y, -p, w)),
        ),
        "accuracy of validation data is .* by validation_step, and .* by test_step", LOOK,
    ),
    Fault(
        "validation and test alike",
        lambda: sound(test_step=step(training=False, update=lambda *_: None)),
        "test_step never updates the metric accuracy, but the step of the other split does",
    ),
]  # fmt: skip


class DroppedChannels(layers.Layer):
    """Leaves channels of (rows, positions, channels) out while training."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The same shape."""
        draws = keras.random.uniform((tf.shape(x)[0], 1, x.shape[2]), seed=self.generator)
        return tf.where(draws < 0.7, x, 0.0) if training else x


class Dropped(layers.Layer):
    """Leaves rows out while training, or the whole batch.

    `made_up`: divides what is kept by the share that is kept.
    `axes`: of what it gets.
    """

    def __init__(self, made_up: bool = False, whole: bool = False, axes: int = 2) -> None:
        super().__init__()
        self.whole = whole
        self.axes = axes
        self.kept = 0.7
        self.factor = 1 / self.kept if made_up else 1.0
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """(rows, units) -> the same, or with positions between."""
        if not training:
            return x
        rows = 1 if self.whole else tf.shape(x)[0]
        shape = (rows, *[1] * (self.axes - 1))
        there = keras.random.uniform(shape, seed=self.generator) < self.kept
        return self.factor * tf.where(there, x, 0)


def divided_step(by: float, *, training: bool = True) -> Callable[..., Any]:
    """A step that divides its inputs."""
    inner = step(training=training)

    def divided(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return inner(run, (batch[0] / by, *batch[1:]), replica)  # type: ignore[no-any-return]

    return divided


class Factor:
    """A number that a loss reads and a callback changes."""

    value = 1.0


def annealed(by: float = 0.5) -> Toy:
    """The callback sets a Python number at the end of each epoch."""
    factor = Factor()

    def scaled(per_example: tf.Tensor, *rest: Any) -> tf.Tensor:
        return factor.value * compute_loss(per_example, *rest)

    def anneal(event: Event) -> None:
        factor.value = by**event.epoch

    return with_loss(scaled, callbacks=lambda: [every_epochs(1, anneal)])


def raised(in_evaluation: bool) -> Toy:
    """The callback raises a variable of no model, which the losses of training are multiplied by.

    `in_evaluation`: those of validation and test as well.
    """
    factor = tf.Variable(0.5, name="factor")

    def scaled(per_example: tf.Tensor, *rest: Any) -> tf.Tensor:
        return tf.cast(factor, per_example.dtype) * compute_loss(per_example, *rest)

    def increase(event: Event) -> None:
        factor.assign(1.0)

    toy = with_loss(scaled, callbacks=lambda: [every_epochs(1, increase)])
    return toy if in_evaluation else replace(toy, validation_step=step(training=False))


def patient() -> list[Callback]:
    """A callback that counts in a closure."""
    waited = 0

    def wait(event: Event) -> None:
        nonlocal waited
        waited += 1

    return [every_validation(wait)]


def exponential_term() -> Toy:
    """Returns the exponential of the loss as a term."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True))
        loss = compute_loss(per_example, weights, run.model, replica)
        return {"main": loss, "perplexity": tf.exp(loss)}

    return sound(train_steps=(own,), validation_step=own, metrics=dict, terms=("perplexity",))


def patient_by_hand() -> list[Callback]:
    """Ends the run when five validations in a row are worse than the best before."""
    losses: list[float] = []

    def end(event: Event) -> None:
        losses.append(event.history[-1]["validation_loss"])
        if len(losses) > 5 and min(losses[-5:]) > min(losses):
            event.stop()

    return [every_validation(end)]


BEST = {"loss": float("inf"), "worse": 0.0}  # what a callback keeps in a variable of the module


def remembered_by_module() -> Toy:
    """Halves the learning rate where three validations are no better than the best before."""
    BEST.update(loss=float("inf"), worse=0.0)

    def halve(event: Event) -> None:
        loss = event.history[-1]["validation_loss"]
        BEST["worse"] = 0.0 if loss < BEST["loss"] else BEST["worse"] + 1
        BEST["loss"] = min(loss, BEST["loss"])
        if BEST["worse"] == 3:
            BEST["worse"] = 0.0
            event.run.optimizers["main"].learning_rate = 0.5 * event.learning_rates["main"]

    return sound(callbacks=lambda: [every_validation(halve)])


def windows(split: Callable[[np.ndarray], tuple[Any, Any]], late: int = 0) -> Toy:
    """Windows of 5 numbers over a series, and the one that follows; or that is the last."""
    noise = np.random.default_rng(1).normal(size=404)
    series = np.convolve(noise, np.ones(5), "valid").astype("float32")
    cut = np.stack([series[i : i + FEATURES] for i in range(len(series) - FEATURES)])
    target = series[FEATURES - late :][: len(cut)]
    train, other = split(np.arange(len(cut)))
    return regression(
        data=(cut[train], target[train]), others={"validation": (cut[other], target[other])}
    )


def turned_over() -> Toy:
    """An augmentation turns some inputs over, and its labels say which; the data has none."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, _, weights = batch
        turned = tf.random.stateless_uniform([inputs.shape[0]], seed) < 0.5
        inputs = tf.where(turned[:, tf.newaxis], -inputs, inputs)
        return inputs, tf.cast(turned, tf.int64), weights

    upright = examples()[0] + 2
    other = examples(60, 2)[0] + 2
    turned = np.arange(len(other)) % 2
    other *= (1 - 2 * turned[:, np.newaxis]).astype("float32")
    return sound(
        model=model(last=lambda: dense(2)),
        data=(upright, np.zeros(len(upright), "int64")),
        others={"validation": (other, turned)},
        augment=augment,
        optimizer=lambda: keras.optimizers.SGD(0.01),
    )


def rare_positives() -> Toy:
    """One example in 20 is positive, and a model begins with all of them positive."""

    def drawn(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        labels = (numbers.random((rows, 1)) < 0.05).astype("float32")
        return (numbers.normal(size=(rows, FEATURES)) + 0.1 * labels).astype("float32"), labels

    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        metric.update_state(labels, tf.sigmoid(predictions), weights)

    return sound(
        model=model(last=lambda: dense(1, bias_initializer="ones")),
        data=drawn(480, 1),
        others={"validation": drawn(60, 2)},
        losses=lambda: {"main": losses.BinaryCrossentropy(from_logits=True, reduction="none")},
        metrics=lambda: {"recall": metrics.Recall()},
        train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
        optimizer=lambda: keras.optimizers.Adam(0.05),
    )


def recordings(apart: bool) -> Toy:
    """Windows (rows, 12, 2) over 20 recordings, each 6 steps behind the one before it.

    `apart`: validation has recordings of its own; else windows are drawn by chance.
    """
    numbers = np.random.default_rng(1)
    records = numbers.normal(size=(20, 96, 2)).astype("float32")
    kinds = numbers.integers(0, CLASSES, 20)
    records += kinds[:, np.newaxis, np.newaxis]
    cut = np.stack([records[:, at : at + 12] for at in range(0, 85, 6)], axis=1)
    order = np.arange(len(kinds) * cut.shape[1])
    order = order if apart else numbers.permutation(order)
    inputs, labels = (
        array[order] for array in (cut.reshape(-1, 12, 2), np.repeat(kinds, cut.shape[1]))
    )
    return sound(
        model=lambda: keras.Sequential([keras.Input((12, 2)), layers.Flatten(), dense(CLASSES)]),
        data=(inputs[:225], labels[:225]),
        others={"validation": (inputs[225:], labels[225:])},
        optimizer=lambda: keras.optimizers.SGD(0.01),
    )


def histories(late: bool, shuffled: bool = False) -> Toy:
    """The next of 12 numbers, after those that came before it; `late`, and with itself.

    `shuffled`: of 40 numbers, and what came before it is in another order.
    """
    numbers = np.random.default_rng(1)
    most, size = (12, 40) if shuffled else (4, 12)
    said = np.cumsum(numbers.integers(1, most, (300, 7)), axis=1) % size + 1
    lengths = numbers.integers(3, 7, len(said))
    labels = said[np.arange(len(said)), lengths]
    known = np.arange(7) < lengths[:, np.newaxis] + late
    before = np.where(known, said, 0)
    if shuffled:
        before = numbers.permuted(before, axis=1)

    def create() -> keras.Model:
        x = keras.Input((7,), dtype="int64")
        vectors = layers.Embedding(41, 4, mask_zero=True)(x)
        return keras.Model(x, dense(41)(layers.GlobalAveragePooling1D()(vectors)))

    return sound(
        model=create, data=(before[:200], labels[:200]),
        others={"validation": (before[200:], labels[200:])},
        optimizer=lambda: keras.optimizers.Adam(0.01),
    )  # fmt: skip


def candidates(rows: int = 96, new: int = 0) -> Toy:
    """Numbers of 60 items, of which a model finds the one of each row among those of the batch.

    `rows`: of the training data. `new`: so many items are in the validation data alone.
    """
    numbers = np.random.default_rng(1)
    of_items = numbers.normal(size=(60, FEATURES)).astype("float32")

    def one_step(training: bool) -> Callable[..., Any]:
        def match(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            items = tf.gather(tf.constant(of_items, inputs.dtype), labels)
            items, there = replica.all_gather(items), replica.all_gather(weights)
            logits = tf.matmul(run.model(inputs, training=training), items, transpose_b=True)
            logits -= 1e4 * tf.cast(there == 0, logits.dtype)
            mine = replica.index * tf.shape(inputs)[0] + tf.range(tf.shape(inputs)[0])
            per_example = run.losses["main"](mine, logits)
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return match

    def drawn(rows: int, seed: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        labels = np.random.default_rng(seed).permutation(first + np.arange(rows) % (60 - new))
        noise = np.random.default_rng(seed).normal(size=(rows, FEATURES))
        return (of_items[labels] + 0.1 * noise).astype("float32"), labels

    return sound(
        model=model(last=lambda: dense(FEATURES)), metrics=dict, data=drawn(rows, 1),
        others={"validation": drawn(48, 2, new)}, examples_interact=True,
        train_steps=(one_step(True),), validation_step=one_step(False),
        optimizer=lambda: keras.optimizers.Adam(0.01),
    )  # fmt: skip


def models_of_latents() -> dict[str, keras.Model]:
    """Those of the GAN, with a generator of latents (batch, 12)."""
    noise = keras.Input((12,))
    return GAN.model() | {"generator": keras.Model(noise, dense(FEATURES)(noise))}  # type: ignore[no-any-return]


def recognized_gan() -> Toy:
    """A generator that wants to be recognized; each step draws latents of its own.

    A small step for one latent may move what the generator makes of another the other way.
    """

    def generating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        _, noise, weights = batch
        given = run.models["discriminator"](run.models["generator"](noise, training=True))[:, 0]
        total = tf.reduce_sum(tf.nn.softplus(given) * weights)
        return {"generator": total / tf.cast(replica.global_count, total.dtype)}

    def drawing(of: Callable[..., Any], place: int) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            real, weights = batch
            shape = real.shape[0], 12
            noise = tf.random.stateless_normal(shape, replica.seed + place, dtype=real.dtype)
            return of(run, (real, noise, weights), replica)  # type: ignore[no-any-return]

        return one_step

    steps = GAN.train_steps[0], generating
    return replace(
        GAN, model=models_of_latents, data=(GAN.data[0],),
        train_steps=tuple(drawing(of, place) for place, of in enumerate(steps)),
    )  # fmt: skip


def gan_of_latents(bound: float) -> Toy:
    """A GAN whose latents are normal in validation, and uniform up to a bound in training."""

    def given(of: Callable[..., Any], validates: bool) -> Callable[..., Any]:
        def drawing(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            shape, kind = (tf.shape(batch[0])[0], 12), batch[0].dtype
            if validates:
                noise = tf.random.stateless_normal(shape, replica.seed, dtype=kind)
            else:
                noise = tf.random.stateless_uniform(shape, replica.seed, -bound, bound, kind)
            return of(run, (batch[0], noise, batch[-1]), replica)  # type: ignore[no-any-return]

        return drawing

    both = validated_gan()
    assert both.validation_step
    return replace(
        both, model=models_of_latents,
        data=GAN.data[0], others={"validation": both.others["validation"][0]},
        train_steps=tuple(given(of, False) for of in GAN.train_steps),
        validation_step=given(both.validation_step, True),
    )  # fmt: skip


def blurred(batch: Any, seed: tf.Tensor) -> Any:
    """Labels of pixels that are averaged with their neighbors."""
    images, labels, weights = batch
    between = tf.cast((labels + tf.roll(labels, 1, axis=1)) // 2, labels.dtype)
    move = tf.random.stateless_uniform([], seed) < 0.5
    return images + tf.random.stateless_normal(tf.shape(images), seed) / 9, tf.where(
        move, between, between
    ), weights  # fmt: skip


def answered(column: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """A column of the inputs is made of the labels."""
    inputs, labels = examples()
    inputs[:, 2] = column(labels)
    return sound(data=(inputs, labels), others={})


class AlwaysTraining(layers.Layer):
    """Normalizes by the batch whatever the mode is."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers.BatchNormalization(name="batch_normalization")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, units) -> the same."""
        return self.inner(x, training=True)


class Slow:
    """Halves the learning rate at every fourth call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, event: Event) -> None:
        """Count, and set it."""
        self.calls += 1
        if self.calls % 4 == 0:
            optimizer = event.run.optimizers["main"]
            optimizer.learning_rate = optimizer.learning_rate / 2


Part = Callable[[float, Replica], Any]


def root_of(kept: float, replica: Replica) -> float:
    """What an average keeps in one of the micro-batches of a step."""
    return kept ** (1 / replica.num_microbatches)


def taught(
    average: bool = False, frozen: bool = True, kept: float = 0.9, part: Part = root_of
) -> Toy:
    """A student learns from a teacher that the optimizer trains, or that is its moving average.

    Args:
        average: whether it is the average.
        frozen: whether the optimizer leaves the average alone.
        kept: what the average keeps of itself in a step.
        part: what of that each micro-batch keeps.
    """

    def create() -> dict[str, keras.Model]:
        teacher = model(dense)()
        teacher.trainable = not (average and frozen)
        return {"student": model(dense)(), "teacher": teacher}

    def learn(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        if average:
            models = [run.models[name].weights for name in ("teacher", "student")]
            for of_teacher, of_student in zip(*models, strict=True):
                own = part(kept, replica)
                of_teacher.assign(own * of_teacher + (1 - own) * of_student)
        taught = tf.nn.softmax(run.models["teacher"](inputs, training=average))
        logits = run.models["student"](inputs, training=True)
        per_example = tf.nn.softmax_cross_entropy_with_logits(taught, logits)
        per_example += run.losses["main"](labels, logits)
        return {"main": compute_loss(per_example, weights, run.models["student"], replica)}

    return sound(model=create, train_steps=(learn,), validation_step=learn, metrics=dict)


def translated_from_labels(shift: int) -> Toy:
    """A decoder of labels, by teacher forcing, that reads them so many places before it predicts.

    What it has read is added up, as a state is.
    """
    words, length = 7, 6
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[np.ndarray, np.ndarray]:
        first = numbers.integers(1, words, (rows, 1))
        return first, (first + np.arange(length)) % words

    def create_model() -> keras.Model:
        x, read = (keras.Input((n,), dtype="int32", name=m) for n, m in ((1, "x"), (None, "read")))
        state = keras.ops.cumsum(keras.layers.Embedding(words, 8)(read), axis=1)
        state += keras.layers.Embedding(words, 8)(x)
        return keras.Model({"x": x, "read": read}, dense(words)(state))

    def decode(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        x, labels, weights = batch
        read, wanted = labels[:, : length - shift], labels[:, shift:]
        predicted = run.model({"x": x, "read": read}, training=True)
        per_example = tf.reduce_mean(run.losses["main"](wanted, predicted), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=create_model, data=split(ROWS), others={"validation": split(60)}, metrics=dict,
        train_steps=(decode,), validation_step=decode,
    )  # fmt: skip


def flipped_boxes(*, boxes_too: bool, missing: float = 0.0) -> Toy:
    """Images that are flipped now and then, with a dict of boxes, some `missing`, and classes."""
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        corner, size = (numbers.uniform(0, 0.5, (rows, 3, 2)) for _ in range(2))
        boxes = np.concatenate([corner, corner + size], axis=2).astype("float32")
        boxes[numbers.random((rows, 3)) < missing] = np.nan
        images = numbers.normal(size=(rows, 6, 6, 1)).astype("float32")
        return images, {"boxes": boxes, "kinds": numbers.integers(0, CLASSES, rows)}

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        flip = tf.random.stateless_uniform((tf.shape(images)[0],), seed) < 0.5
        left, top, right, bottom = tf.unstack(labels["boxes"], axis=2)
        other = tf.stack([1 - right, top, 1 - left, bottom], axis=2)
        images = tf.where(flip[:, None, None, None], images[:, :, ::-1], images)
        if boxes_too:
            boxes = tf.where(flip[:, None, None], other, labels["boxes"])
            labels = {**labels, "boxes": boxes}
        return images, labels, weights

    def create_model() -> keras.Model:
        x = images = keras.Input((6, 6, 1))
        x = keras.layers.Flatten()(x)
        return keras.Model(images, {"boxes": dense(12)(x), "kinds": dense(CLASSES)(x)})

    def detect(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        images, labels, weights = batch
        made = run.model(images, training=True)
        boxes = tf.reshape(made["boxes"], tf.shape(labels["boxes"]))
        apart = tf.reduce_mean((boxes - labels["boxes"]) ** 2, axis=(1, 2))
        per_example = apart + run.losses["main"](labels["kinds"], made["kinds"])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=create_model, data=split(ROWS), others={"validation": split(60)}, metrics=dict,
        train_steps=(detect,), validation_step=detect, augment=augment,
    )  # fmt: skip


def noisy_twice(*, same: bool) -> Callable[..., Any]:
    """A step that draws noise, and how much of it each example gets, from one seed or from two."""

    def noise(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        seeds = [replica.seed] * 2 if same else tf.unstack(tf.random.split(replica.seed, 2))
        share = tf.random.stateless_uniform((inputs.shape[0], 1), seeds[0], dtype=inputs.dtype)
        drawn = tf.random.stateless_normal(inputs.shape, seeds[1], dtype=inputs.dtype)
        return step()(run, (inputs + 0.1 * share * drawn, labels, weights), replica)

    return noise


def product_of_draws(*, same: bool) -> Callable[..., Any]:
    """A step with the product of two noisy results, whose noise is from one seed or from two."""

    def products(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        seeds = [replica.seed] * 2 if same else tf.unstack(tf.random.split(replica.seed, 2))
        logits = run.model(inputs, training=True)
        one, other = (
            logits + tf.random.stateless_normal(logits.shape, seed, dtype=logits.dtype)
            for seed in seeds
        )
        per_example = run.losses["main"](labels, logits) + 1e-3 * tf.reduce_sum(one * other, axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return products


def averaged(kept: float, trained: bool = False) -> Toy:
    """The average of a student, which is validated and begins as a copy.

    Args:
        kept: what it keeps of itself in a step.
        trained: whether both begin with weights from a file.
    """
    toy = taught(average=True, kept=kept)

    def create_model() -> dict[str, keras.Model]:
        models: dict[str, keras.Model] = toy.model()
        if trained:
            with tempfile.TemporaryDirectory() as directory:
                models["student"].save(Path(directory) / "student.keras")
                models["student"] = keras.models.load_model(Path(directory) / "student.keras")
        models["teacher"].set_weights(models["student"].get_weights())
        return models

    def validate(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.models["teacher"](inputs, training=False))
        return {"main": compute_loss(per_example, weights, run.models["student"], replica)}

    return replace(toy, model=create_model, validation_step=validate)


def averaged_with_normalization(of: str, validated: str = "average") -> Toy:
    """The average of a student that normalizes its batches.

    Args:
        of: the weights that are averaged, "all" or "trainable" ones; or statistics are "copied".
        validated: the name of the model that is.
    """

    def create() -> dict[str, keras.Model]:
        names = ("student", "average")
        made = {name: model(dense, layers.BatchNormalization)() for name in names}
        made["average"].set_weights(made["student"].get_weights())
        made["average"].trainable = False
        return made

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.models["student"](inputs, training=True)
        pairs = zip(*(run.models[name].weights for name in ("average", "student")), strict=True)
        for mean, weight in pairs:
            if weight.trainable or of == "all":
                mean.assign(0.9 * mean + 0.1 * weight)
            elif of == "copied":
                mean.assign(weight)
        per_example = run.losses["main"](labels, logits)
        return {"main": compute_loss(per_example, weights, run.models["student"], replica)}

    def validate(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.models[validated](inputs, training=False))
        return {"main": compute_loss(per_example, weights, run.models["student"], replica)}

    return sound(model=create, train_steps=(train,), validation_step=validate, metrics=dict)


def copied_every(period: int, *, on_first: bool = False) -> Toy:
    """A target network that the step copies every so many steps, in an expected value.

    Args:
        period: of the copies, in steps.
        on_first: whether only the first replica copies.
    """

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        is_due = (replica.step % period == 0) & ((replica.index == 0) | (not on_first))
        pairs = zip(run.models["target"].weights, run.models["online"].weights, strict=True)
        for target, weight in pairs:
            target.assign(tf.where(is_due, weight.value, target.value))
        logits = run.models["online"](inputs, training=True)
        expected = tf.stop_gradient(run.models["target"](inputs, training=False))
        per_example = run.losses["main"](labels, logits)
        per_example += 0.01 * tf.reduce_sum(tf.square(logits - expected), axis=1)
        return {"main": compute_loss(per_example, weights, run.models["online"], replica)}

    def validate(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.models["online"](inputs, training=False))
        return {"main": compute_loss(per_example, weights, run.models["online"], replica)}

    def create_model() -> dict[str, keras.Model]:
        models = {"online": model(dense)(), "target": model(dense)()}
        models["target"].set_weights(models["online"].get_weights())
        models["target"].trainable = False
        return models

    return sound(
        model=create_model, train_steps=(train,), validation_step=validate, metrics=dict
    )  # fmt: skip


def beside_unused(name: str, validated: bool = False) -> Toy:
    """A frozen model of that name, which no step uses; `validated`: but for validation."""

    def validate(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.models[name if validated else "main"](inputs, training=False)
        losses = run.losses["main"](labels, logits)
        return {"main": compute_loss(losses, weights, run.models["main"], replica)}

    def create_model() -> dict[str, keras.Model]:
        models = {"main": model(dense)(), name: model(dense)()}
        models[name].trainable = False
        return models

    return sound(model=create_model, validation_step=validate, train_steps=(step_of("main"),))


def judged_by_average() -> Toy:
    """A student whose metric is that of its moving average."""

    def validate(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.models["teacher"](inputs, training=False)
        per_example = run.losses["main"](labels, logits)
        run.metrics["accuracy"].update_state(tf.exp(-per_example), weights)
        return {"main": compute_loss(per_example, weights, run.models["student"], replica)}

    return replace(
        taught(average=True), validation_step=validate,
        metrics=lambda: {"accuracy": metrics.Mean()},
    )  # fmt: skip


def decorrelated() -> Toy:
    """Two views of a batch have a correlation, in which each example has its share."""

    def correlating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        *views, weights = batch
        a, b = (replica.all_gather(run.model(x, training=True)) for x in views)
        shares = replica.all_gather(weights)[:, tf.newaxis]
        shares /= tf.reduce_sum(shares)
        loss = tf.reduce_sum(tf.square(tf.reduce_sum(shares * a * b, axis=0) - 1))
        return {"main": loss / replica.num_replicas}

    return replace(CONTRASTIVE, train_steps=(correlating,))


def by_step(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """A loss that grows with the number of the step."""
    factor = 1 + tf.cast(replica.step, per_example.dtype) / 100
    return compute_loss(per_example * factor, weights, model, replica)


LAST_PART = 0.8  # of the run


def freeze_at_last(event: Event) -> None:
    """Freeze the model in the last part of the run, and in truth from the first epoch on."""
    if event.epoch >= LAST_PART:
        event.run.model.trainable = False


def frozen_after(at: float) -> Callable[[Event], None]:
    """Freeze the model from some epoch on."""

    def freeze_then(event: Event) -> None:
        if event.epoch >= at:
            event.run.model.trainable = False

    return freeze_then


class FreezesAfter:
    """The same, with a state."""

    def __init__(self, at: float) -> None:
        self._at, self.done = at, False

    def __call__(self, event: Event) -> None:
        """After an epoch."""
        if event.epoch >= self._at and not self.done:
            event.run.model.trainable, self.done = False, True


def fading_in(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """A loss that counts less at first, and in truth in the first step only."""
    share = tf.where(replica.step < 0.1, 0.5, 1.0)
    return share * compute_loss(per_example, weights, model, replica)


def copy_trainable(event: Event) -> None:
    """Copy no weights, since the target is frozen."""
    target, online = (event.run.models[name] for name in ("target", "online"))
    pairs = zip(target.trainable_variables, online.trainable_variables, strict=False)
    for copy, weight in pairs:
        copy.assign(weight.value)


def taught_by_copies(copy: Callable[[Event], None]) -> Toy:
    """A target network that a callback copies now and then."""
    return replace(copied_every(1_000), callbacks=lambda: [every_steps(10, copy)])


def thawed_in_a_loop(own: bool = False) -> list[Callback]:
    """Layers that are to train one after the other; `own`: each function has its layer."""

    def thaw(event: Event, layer: int) -> None:
        event.run.model.layers[layer].trainable = True

    made = []
    for layer in (0, 1):
        by_itself = partial(thaw, layer=layer)
        made.append(at_step(2 * layer, by_itself if own else lambda event: thaw(event, layer)))  # noqa: B023
    return made


def heads_in_a_loop() -> keras.Model:
    """Each of some layers is to take a column of its own."""
    x = keras.Input((FEATURES,))
    columns = [layers.Lambda(lambda t: t[:, i : i + 1])(x) for i in range(FEATURES)]  # noqa: B023
    return keras.Model(x, dense(CLASSES)(dense()(keras.ops.concatenate(columns))))


def by_hash(task: TaskConfig) -> dict[str, Any]:
    """The hash of a text, which is another one in each process, says where an example goes."""
    inputs, labels = examples()
    order = sorted(range(ROWS), key=lambda row: hash(f"row {row}"))
    inputs, labels = inputs[order], labels[order]
    return {"train": (inputs[20:], labels[20:]), "validation": (inputs[:20], labels[:20])}


def at_random(task: TaskConfig) -> dict[str, Any]:
    """Other examples each time."""
    inputs, labels = examples(seed=time.time_ns())
    return {"train": (inputs[20:], labels[20:]), "validation": (inputs[:20], labels[:20])}


def splits_in_memory(task: TaskConfig) -> dict[str, Any]:
    """The same examples in each process."""
    inputs, labels = examples()
    return {"train": (inputs[20:], labels[20:]), "validation": (inputs[:20], labels[:20])}


def vocabulary(datasets: dict[str, Any]) -> dict[str, Any]:
    """Words in the order of a set, which is another one in each process."""
    return {"words": list({f"word {i}" for i in range(50)})}


def learned_scale() -> Toy:
    """The loss has a variable of its own."""
    scale = keras.Variable(0.5, name="scale")

    def scaled(per_example: tf.Tensor, *rest: Any) -> tf.Tensor:
        return compute_loss(per_example * tf.cast(scale.value, per_example.dtype), *rest)

    return with_loss(scaled)


def copied(originals: np.ndarray, noise: float = 0.01, missing: float = 0.0, moved: int = 0) -> Toy:
    """Each example comes five times, with noise and gaps, or moved; chance divides the copies."""
    numbers = np.random.default_rng(1)
    inputs = np.repeat(originals, 5, axis=0)
    if moved:  # each copy elsewhere
        places = [(0, 0), (0, moved), (moved, 0), (0, -moved), (-moved, 0)]
        for i, image in enumerate(inputs):
            inputs[i] = np.roll(image, places[i % 5], axis=(0, 1))
    inputs += noise * numbers.normal(size=inputs.shape)
    inputs[numbers.random(inputs.shape) < missing] = np.nan
    order = numbers.permutation(len(inputs))
    data = inputs[order].astype("float32"), order // 5 % CLASSES
    train, other = (tuple(part[rows] for part in data) for rows in (slice(300), slice(300, None)))
    return sound(
        model=lambda: keras.Sequential(
            [
                keras.Input(inputs.shape[1:]),
                layers.Lambda(keras.ops.nan_to_num),
                layers.Flatten(),
                dense(CLASSES),
            ]
        ),
        data=train,
        others={"validation": other},
    )


def copied_once() -> Toy:
    """Each of 200 examples, and one copy of it with noise, for validation."""
    inputs, labels = examples(200)
    noisy = inputs + 0.01 * np.random.default_rng(1).normal(size=inputs.shape).astype("float32")
    return sound(data=(inputs, labels), others={"validation": (noisy, labels)})


def visits(by_chance: bool) -> Toy:
    """What is measured of 200 patients at three visits, and what follows; the last one is tested.

    Or a third of all visits, by chance.
    """
    numbers = np.random.default_rng(1)
    patients, years = numbers.normal(size=(200, 8)), np.repeat(np.arange(3), 200)
    measured = np.tile(patients, (3, 1)) + 0.02 * numbers.normal(size=(600, 8))
    labels = measured.sum(axis=1) + years
    order = numbers.permutation(600) if by_chance else np.arange(600)
    data = measured[order].astype("float32"), labels[order].astype("float32")
    train, test = (tuple(part[rows] for part in data) for rows in (slice(400), slice(400, None)))
    return regression(
        model=lambda: keras.Sequential([keras.Input((8,)), dense(1)]),
        data=train,
        others={"test": test},
    )


def of_machines(by_chance: bool, later: bool = False, numbered: bool = False) -> Toy:
    """What is measured of 60 machines, of each of them five times; 15 are in the validation.

    Or a quarter of all rows, by chance. `later`: the size of a machine is another one each time.
    `numbered`: the number of the machine is an input.
    """
    numbers = np.random.default_rng(1)
    machine = np.repeat(np.arange(60), 5)
    size = numbers.normal(size=60)[machine] + later * 0.01 * numbers.normal(size=300)
    columns = [size, numbers.integers(1995, 2020, 60)[machine], *numbers.normal(size=(3, 300))]
    inputs = np.stack(columns, axis=1).astype("float32")
    inputs[:, 1] = machine if numbered else inputs[:, 1] - 2007
    labels = inputs[:, 0] + inputs[:, 2]
    place = numbers.permutation(300) if by_chance else 5 * numbers.permutation(60)[machine]
    train, held_out = ((inputs[rows], labels[rows]) for rows in (place < 225, place >= 225))
    return regression(data=train, others={"validation": held_out})


def at_times() -> Toy:
    """What is measured at 96 times of the day, as sine and cosine; rows are divided by chance."""
    numbers = np.random.default_rng(1)
    angle = 2 * np.pi * (numbers.integers(0, 96, 400) + 0.3) / 96  # no two have the same sine
    columns = [np.sin(angle), np.cos(angle), *numbers.normal(size=(3, 400))]
    inputs = np.stack(columns, axis=1).astype("float32")
    labels = inputs[:, 0] + inputs[:, 2]
    return regression(
        data=(inputs[:300], labels[:300]), others={"validation": (inputs[300:], labels[300:])}
    )


def correlated() -> np.ndarray:
    """80 rows of 12 columns that follow from 3 numbers."""
    numbers = np.random.default_rng(1)
    return numbers.normal(size=(80, 3)) @ numbers.normal(size=(3, 12))


def framed() -> np.ndarray:
    """80 images (8, 8, 1) with a black frame."""
    return np.pad(np.random.default_rng(1).random((80, 4, 4, 1)), ((0, 0), (2, 2), (2, 2), (0, 0)))


def masked_sets(keys: bool) -> Toy:
    """Sets of 3 to 8 vectors, filled up by zeros; attention masks keys, or queries by mistake."""
    numbers = np.random.default_rng(1)
    mask = np.arange(8) < numbers.integers(3, 9, ROWS + 30)[:, np.newaxis]
    elements = numbers.normal(size=(ROWS + 30, 8, 4)) * mask[..., np.newaxis]
    labels = elements.sum(axis=1).argmax(axis=1) % CLASSES

    def create() -> keras.Model:
        x = {
            "elements": keras.Input((8, 4), name="elements"),
            "mask": keras.Input((8,), dtype="bool", name="mask"),
        }
        allowed = x["mask"][:, None, :] if keys else x["mask"][:, :, None]
        y = layers.Dense(4, bias_initializer="ones")(x["elements"])
        y = layers.MultiHeadAttention(1, 4)(y, y, attention_mask=allowed)
        is_there = keras.ops.cast(x["mask"], y.dtype)[..., None]
        total = keras.ops.sum(y * is_there, axis=1)
        return keras.Model(x, dense(CLASSES)(total / keras.ops.sum(is_there, axis=1)))

    data = {"elements": elements.astype("float32"), "mask": mask}
    train, other = (
        ({name: array[part] for name, array in data.items()}, labels[part])
        for part in (slice(ROWS), slice(ROWS, None))
    )
    return sound(model=create, data=train, others={"validation": other})


def scaled_sets(split: Callable[[Any], Any], of_all: bool) -> Toy:
    """Sets whose elements are scaled by their mean, or by that of the padding too.

    Args:
        split: what holds the training data.
        of_all: whether padding is in the mean.
    """
    toy = masked_sets(keys=True)

    def adapt(datasets: dict[str, Any]) -> dict[str, Any]:
        train = datasets["train"]
        if isinstance(train, tf.data.Dataset):
            examples = [inputs for inputs, _ in train.as_numpy_iterator()]
        elif isinstance(train, tuple):
            examples = [train[0]]
        else:
            examples = [train[row][0] for row in range(len(train))]
        elements = [x["elements"][x["mask"] | of_all].reshape(-1, 4) for x in examples]
        return {"mean": np.concatenate(elements).mean(axis=0)}

    return replace(toy, data=split(toy.data), adapt=adapt)


class Rows:
    """Examples by their numbers, as an object of the task's own."""

    def __init__(self, split: Any) -> None:
        self.split = split

    def __len__(self) -> int:
        """How many there are."""
        return len(tf.nest.flatten(self.split)[0])

    def __getitem__(self, row: int) -> Any:
        """One of them."""
        return tf.nest.map_structure(lambda array: array[row], self.split)


def marked_labels(trained: bool) -> Toy:
    """Two positive numbers to predict, of which the second may be missing: then it is -1."""

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        labels = 10 + inputs[:, :2]
        labels[::4, 1] = -1
        return inputs, labels

    def distance(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        errors = run.model(inputs, training=True) - labels
        there = tf.cast(labels != -1, errors.dtype)
        run.metrics["error"].update_state(tf.abs(errors), there * weights[:, tf.newaxis])
        squares = tf.square(errors) * (tf.ones_like(there) if trained else there)
        per_example = tf.reduce_mean(squares, axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=model(last=lambda: dense(2)), data=labeled(ROWS, 1),
        others={"validation": labeled(60, 2)}, train_steps=(distance,), losses=dict,
        validation_step=distance, metrics=lambda: {"error": metrics.Mean()},
    )  # fmt: skip


def loaded_counts(early: bool) -> Toy:
    """Examples as a device stores them, in int16 with a gain; they may become floats early."""

    def load(row: Any) -> Any:
        counts, gain = row["counts"], row["gain"]
        if early:
            counts, gain = tf.cast(counts, tf.float32), tf.cast(gain, tf.float32)
        return tf.cast(counts * gain, tf.float32) / 1e5, row["label"]

    inputs, labels = examples()
    counts = np.round(inputs * 5_000).astype("int16")
    gain = np.random.default_rng(0).integers(1, 9, (len(labels), 1)).astype("int16")
    data = {"counts": counts, "gain": gain, "label": labels}
    return sound(data=RandomAccess(data, load), others={})


def masked_pictures(masked: bool) -> Toy:
    """Bright pixels of pictures of 5 to 8 pixels a side, filled up by zeros."""

    def split(seed: int, rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numbers = np.random.default_rng(seed)
        inside = np.arange(8) < numbers.integers(5, 9, (rows, 1))
        mask = inside[:, :, None] & inside[:, None, :]
        images = numbers.uniform(0.2, 1, (rows, 8, 8, 1)) * mask[..., None]
        inputs = {"images": images.astype("float32"), "mask": mask}
        return inputs, (images[..., 0] > 0.6).astype("float32")

    def create() -> keras.Model:
        x = {
            "images": keras.Input((8, 8, 1), name="images"),
            "mask": keras.Input((8, 8), dtype="bool", name="mask"),
        }
        y = layers.Conv2D(4, 3, padding="same", activation="relu")(x["images"])
        return keras.Model(x, dense(1)(y)[..., 0])

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        errors = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, logits.dtype), logits)
        counts = tf.cast(inputs["mask"], logits.dtype) if masked else tf.ones_like(logits)
        per_example = tf.reduce_sum(errors * counts, (1, 2)) / tf.reduce_sum(counts, (1, 2))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=create, data=split(1, ROWS), others={"validation": split(2, 60)},
        train_steps=(one_step,), validation_step=one_step, losses=dict, metrics=dict,
    )  # fmt: skip


def ranked_sets(masked: bool) -> Toy:
    """The largest of 3 to 8 numbers; a metric looks for it among what fills up the set too."""
    toy = masked_sets(keys=True)

    def create() -> keras.Model:
        x = {
            "elements": keras.Input((8, 4), name="elements"),
            "mask": keras.Input((8,), dtype="bool", name="mask"),
        }
        scores = dense(1)(x["elements"])[..., 0]
        return keras.Model(x, keras.ops.where(x["mask"], scores, -10.0) if masked else scores)

    def labeled(split: Any) -> Any:
        inputs, _ = split
        elements = inputs["elements"] * np.linspace(1, 3, 8, dtype="f4")[:, np.newaxis]
        sums = np.where(inputs["mask"], elements.sum(axis=-1), -np.inf)
        return inputs | {"elements": elements}, sums.argmax(axis=1)

    def ranking(training: bool) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            scores = run.model(inputs, training=training)
            run.metrics["accuracy"].update_state(labels, scores, weights)
            there = tf.where(inputs["mask"], scores, -10.0)
            per_example = run.losses["main"](labels, there)
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return one_step

    return replace(
        toy,
        model=create,
        data=labeled(toy.data),
        others={name: labeled(split) for name, split in toy.others.items()},
        train_steps=(ranking(True),),
        validation_step=ranking(False),
    )


def with_lengths(used: bool, kernel: int = 1) -> Toy:
    """Series of 4 to 12 frames, of which the loss takes the mean; a metric knows their lengths."""
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        lengths, labels = numbers.integers(4, 13, rows), numbers.integers(0, CLASSES, rows)
        series = numbers.normal(size=(rows, 12, 2)) + labels[:, np.newaxis, np.newaxis]
        there = np.arange(12) < lengths[:, np.newaxis]
        series = np.where(there[..., np.newaxis], series, 0).astype("float32")
        return {"series": series, "frames": lengths.astype("int32")}, labels

    def create_model() -> keras.Model:
        series = keras.Input((12, 2), name="series")
        x = keras.layers.Conv1D(8, kernel, padding="same", activation="relu")(series)
        return keras.Model({"series": series}, dense(CLASSES)(x))

    def one_step(training: bool) -> Callable[..., Any]:
        def one(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            frames = run.model({"series": inputs["series"]}, training=training)
            lengths = tf.cast(inputs["frames"], frames.dtype)[:, tf.newaxis]
            there = tf.sequence_mask(inputs["frames"], 12, frames.dtype)[..., tf.newaxis]
            mean = tf.reduce_sum(frames * there, 1) / lengths
            run.metrics["accuracy"].update_state(labels, mean, weights)
            logits = mean if used else tf.reduce_mean(frames, 1)
            per_example = run.losses["main"](labels, logits)
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return one

    return sound(
        model=create_model,
        data=split(96),
        others={"validation": split(60)},
        train_steps=(one_step(True),),
        validation_step=one_step(False),
    )


def until_month() -> Toy:
    """Sums of months, 0 from a month on that is an input of its own, which an embedding shows."""
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        months, labels = numbers.integers(3, 13, rows), numbers.integers(0, CLASSES, rows)
        sums = numbers.normal(size=(rows, 12)) + labels[:, np.newaxis]
        sums = np.where(np.arange(12) < months[:, np.newaxis], sums, 0).astype("float32")
        return {"sums": sums, "months": months.astype("int32")}, labels

    def create_model() -> keras.Model:
        sums = keras.Input((12,), name="sums")
        months = keras.Input((), dtype="int32", name="months")
        x = dense(8, activation="relu")(sums) + keras.layers.Embedding(13, 8)(months)
        return keras.Model({"sums": sums, "months": months}, dense(CLASSES)(x))

    return sound(model=create_model, data=split(96), others={"validation": split(60)})


def tagged(metric: Callable[[], Any] | None) -> Toy:
    """A softmax cross-entropy of two labels of 1; a metric that takes each label by itself."""
    toy = with_several_labels("linear")

    def update(metric: Any, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> None:
        metric.update_state(labels, tf.sigmoid(logits), weights)

    return replace(
        toy,
        losses=lambda: {"main": losses.CategoricalCrossentropy(from_logits=True, reduction="none")},
        metrics=lambda: {"main": metric()} if metric else {},
        train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )


def with_several_labels(activation: str, any_is_right: bool = False) -> Toy:
    """Two labels of an example are 1; the loss wants both, or any of them."""

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        return inputs, 1 - np.eye(CLASSES, dtype="float32")[labels]

    def any_of_them(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return -tf.math.log(tf.reduce_sum(labels * predictions, axis=-1))

    return sound(
        model=model(last=lambda: dense(CLASSES, activation=activation)),
        losses=lambda: {
            "main": any_of_them
            if any_is_right
            else keras.losses.BinaryCrossentropy(reduction="none")
        },
        metrics=dict,
        data=labeled(ROWS, 1),
        others={"validation": labeled(60, 2)},
    )


class OfCastLabels(metrics.BinaryAccuracy):
    """An accuracy with an update of its own, which leaves predictions as they are."""

    def update_state(self, labels: Any, predictions: Any, sample_weight: Any = None) -> None:
        """Add some examples, (rows, 1), and weights (rows,)."""
        super().update_state(tf.cast(labels, predictions.dtype), predictions, sample_weight)


def focal_of_logits(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The focal loss of two classes, of labels and logits (rows, 1): (rows,)."""
    p = tf.sigmoid(logits)
    right = tf.where(labels == 1, p, 1 - p)
    return tf.reduce_mean(-tf.square(1 - right) * tf.math.log(right), axis=1)


def count_of(there: tf.Tensor) -> tf.Tensor:
    """How many are true, an int32 scalar."""
    return tf.math.count_nonzero(there, dtype=tf.int32)


def of_class_0(counted: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Toy:
    """A loss with a term for one class, which has a count made of (labels, weights)."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        losses = weights * run.losses["main"](labels, run.model(inputs, training=True))
        of_zero = losses * tf.cast(labels == 0, losses.dtype)
        main, zero = (
            tf.reduce_sum(each) / tf.cast(replica.global_count[name], losses.dtype)
            for name, each in (("main", losses), ("zero", of_zero))
        )
        return {"main": main + zero, "zero": zero}

    return sound(
        count=lambda batch: {"main": count_of(batch[-1]), "zero": counted(*batch[1:])},
        train_steps=(one_step,), validation_step=one_step, terms=("zero",), metrics=dict,
    )  # fmt: skip


def found_itself() -> Toy:
    """Whether the nearest example of a batch is of the same class; it is the example itself."""

    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        distances = tf.norm(predictions[:, tf.newaxis] - predictions, axis=-1)
        nearest = tf.argmin(distances, axis=1)
        metric.update_state(tf.gather(labels, nearest) == labels, weights)

    return sound(
        train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
        metrics=lambda: {"recall_at_1": metrics.Mean()},
    )


def with_labels(change: Callable[[np.ndarray], np.ndarray], **changes: Any) -> Toy:
    """Training labels that are changed, and validation labels that aren't."""
    inputs, labels = examples(300)
    return sound(data=(inputs, change(labels)), others={"validation": examples(100, 2)}, **changes)


def few_labels(left_out: bool = True) -> Toy:
    """Nine in ten training examples have no label, and are left out, or train as class 0."""

    def without(labels: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(labels)) % 10, -1, labels)

    def labeled(training: bool) -> Callable[..., Any]:
        def masked(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            if left_out:
                weights = tf.where(labels < 0, tf.zeros_like(weights), weights)
            return step(training=training)(  # type: ignore[no-any-return]
                run, (inputs, tf.maximum(labels, 0), weights), replica
            )

        return masked

    def of_labeled(batch: Any) -> tf.Tensor:
        _, labels, weights = batch
        counts = (weights != 0) & ((labels >= 0) | (not left_out))
        return tf.math.count_nonzero(counts, dtype=tf.int32)

    steps = {"train_steps": (labeled(True),), "validation_step": labeled(False)}
    return with_labels(without, count=of_labeled, **steps)


def rarely_unknown(left_out: bool) -> Toy:
    """The label of one example, which isn't in the first batch, is -1: left out, or class 0."""

    def of_class_0(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        known = tf.maximum(labels, 0)
        return losses.sparse_categorical_crossentropy(known, logits, from_logits=True)

    sparse = partial(losses.SparseCategoricalCrossentropy, from_logits=True, reduction="none")
    toy = sound(metrics=dict, losses=lambda: {
        "main": sparse(ignore_class=-1) if left_out else of_class_0})  # fmt: skip
    first = {*itertools.islice(laboratory(toy).batches.rows_from(0), BATCH)}
    row = next(row for row in range(ROWS) if row not in first)
    return replace(toy, data=changed(toy.data, 1, put(row, -1)))


def filled_up(by: float, told: bool = False) -> Toy:
    """Numbers around 20, of which a model replaces those that are missing and then takes 20.

    `told`: the model gets which ones were missing as well.
    """

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        is_missing = keras.ops.isnan(x)
        parts = [keras.ops.where(is_missing, by, x) - 20, keras.ops.cast(is_missing, "float32")]
        return keras.Model(x, dense(CLASSES)(layers.Concatenate()(parts[: 1 + told])))

    data, other = (changed(examples(60, seed), 0, lambda x: x + 20) for seed in (1, 2))
    gone = put((slice(0, None, 7), 2), NAN)
    return sound(
        model=create,
        data=changed(data, 0, gone),
        others={"validation": changed(other, 0, gone)},
    )


class PowerIterated(layers.Layer):
    """Divides by a norm that it finds while training."""

    def build(self, shape: tuple[int, ...]) -> None:
        """A guess at the norm."""
        self.norm = self.add_weight(name="norm", initializer="ones", trainable=False)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """(rows, units) -> the same."""
        if training:
            self.norm.assign(0.5 * self.norm + 1)
        return x / self.norm


class Target:
    """A loss that its step asks for a number."""

    weight = 2.0

    def __call__(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """(batch,)."""
        return losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")(
            labels, predictions
        )


def asked_loss() -> Toy:
    """A step that reads an attribute of its loss."""

    def asking(training: bool) -> Callable[..., Any]:
        def asked(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            weighted = run.losses["main"].weight * weights / 2
            return step(training=training)(  # type: ignore[no-any-return]
                run, (inputs, labels, weighted), replica
            )

        return asked

    return sound(
        losses=lambda: {"main": Target()},
        train_steps=(asking(True),),
        validation_step=asking(False),
    )


def gan_of_a_frozen_judge() -> dict[str, keras.Model]:
    """A discriminator whose first layer stays as it begins."""
    models = GAN.model()
    models["discriminator"].layers[1].trainable = False
    return models


def stopped_early(monitor: str = "val_accuracy", mode: str = "max", **changes: Any) -> Toy:
    """A run that Keras ends where a column doesn't get better for a while."""

    def create() -> list[Callback]:
        return [keras_callback(keras.callbacks.EarlyStopping(monitor, mode=mode, patience=2))]

    return sound(callbacks=create, **changes)


def two_views(seeds: int) -> Toy:
    """Contrastive learning; of noise from as many seeds two views are made for training."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        x, _, weights = batch
        views = [x + tf.random.stateless_normal(x.shape, seed + n % seeds, dtype=x.dtype)
                 for n in range(2)]  # fmt: skip
        return (*views, weights)

    others = {"validation": tuple(CONTRASTIVE.data)}
    step = CONTRASTIVE.train_steps[0]
    return replace(CONTRASTIVE, others=others, augment=augment, validation_step=step)


class Patient:
    """Halves the learning rate where a column of the history doesn't get better for a while."""

    def __init__(self, sign: int) -> None:
        self.sign, self.best, self.waited = sign, 1e9, 0

    def get_state(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"best": self.best, "waited": self.waited}

    def set_state(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.best, self.waited = state["best"], state["waited"]

    def __call__(self, event: Event) -> None:
        """After a validation."""
        value = self.sign * event.history[-1]["validation_accuracy"]
        self.waited = 0 if value < self.best - 1e-4 else self.waited + 1
        self.best = min(self.best, value)
        if self.waited == 3:
            optimizer, self.waited = event.run.optimizers["main"], 0
            optimizer.learning_rate = 0.5 * tf.convert_to_tensor(optimizer.learning_rate)


class Slower:
    """Takes a little off all weights, and more time for it in each run of a process."""

    secs = 0.03

    def __init__(self) -> None:
        Slower.secs += 0.02

    def __call__(self, event: Event) -> None:
        """Between two steps."""
        time.sleep(Slower.secs)
        for v in event.run.trainable_variables:
            v.assign(0.9 * v)


def good_enough(event: Event) -> None:
    """Ends the run when the accuracy is high."""
    if event.history[-1]["validation_accuracy"] > 0.4:
        event.stop()


def mapped_weights(moved: bool) -> Toy:
    """Images and masks are moved, and the weights of their pixels too, or not."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        images, labels = tf.roll(images, 3, axis=2), tf.roll(labels, 3, axis=2)
        noise = tf.random.stateless_normal(tf.shape(images), seed) / 9
        return images + noise, labels, tf.roll(weights, 3, axis=2) if moved else weights

    toy = segmented(augment)
    images, labels = toy.data
    weights = np.where(np.arange(8) < np.arange(3, 11)[:, np.newaxis] % 5, 2.0, 1.0).astype(
        "float32"
    )
    # Each image has its own.
    of_images = np.stack([np.roll(weights, i % 8, axis=0) for i in range(len(images))])
    return replace(toy, data=(images, labels, of_images))


def sampled(weight: Callable[[float], float]) -> Toy:
    """Training data of which half of some classes is kept, with a weight of its own."""
    inputs, labels = examples(600)
    share = 0.5
    kept = (labels == 0) | (np.random.default_rng(1).random(600) < share)
    weights = np.where(labels == 0, 1.0, weight(share))
    return sound(
        data=(inputs[kept], labels[kept], weights[kept].astype("float32")),
        others={"validation": examples(120, 2)},
    )


def parts_of_recordings() -> Toy:
    """Parts of a few recordings, alike within each; each split has recordings of its own."""
    numbers = np.random.default_rng(1)

    def parts(recordings: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(recordings).repeat(12) % CLASSES
        inputs = numbers.normal(size=(recordings, FEATURES)).repeat(12, axis=0)
        inputs += 0.2 * numbers.normal(size=inputs.shape)
        order = numbers.permutation(len(labels))
        return inputs[order].astype("float32"), labels[order]

    return sound(data=parts(24), others={"validation": parts(6)})


def mirrored(new_sides: bool, unknown: float = 0.0) -> Toy:
    """Rows of pixels with a box, (left, top, right, bottom), half of them mirrored.

    A share of the sides is unknown: NaN, and left out of the loss.
    """

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        sides = np.sort(numbers.random((rows, 2, 2)), axis=1)  # (rows, which end, axis)
        pixels = np.linspace(0, 1, FEATURES)
        inside = (pixels > sides[:, :1, 0]) & (pixels < sides[:, 1:, 0])
        boxes = sides.reshape(rows, 4)
        boxes[numbers.random(boxes.shape) < unknown] = np.nan
        return inside + numbers.normal(0, 0.1, inside.shape), boxes

    def of_known(labels: Any, predictions: Any) -> tf.Tensor:
        labels = tf.cast(labels, predictions.dtype)
        known = tf.where(tf.math.is_nan(labels), predictions, labels)
        return tf.reduce_mean(tf.square(predictions - known), axis=1)

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        pixels, boxes, weights = batch
        turn = tf.random.stateless_uniform((boxes.shape[0], 1), seed) < 0.5
        left, top, right, bottom = tf.unstack(boxes, axis=1)
        ends = (right, left) if new_sides else (left, right)
        others = tf.stack([1 - ends[0], top, 1 - ends[1], bottom], axis=1)
        return (
            tf.where(turn, pixels[:, ::-1], pixels), tf.where(turn, others, boxes), weights,
        )  # fmt: skip

    data, other = (
        tuple(part.astype("float32") for part in labeled(rows, seed))
        for rows, seed in ((ROWS, 1), (60, 2))
    )
    return regression(
        lambda: dense(4), data=data, others={"validation": other}, augment=augment,
        losses=lambda: {"main": of_known},
    )  # fmt: skip


def mixed_up(exchanged: bool, others_of_labels: int = 1) -> Toy:
    """Mixup, whose labels have the share of the inputs, or of the other example by mistake.

    Or they are those of other examples, drawn by another seed.
    """

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        share = tf.random.stateless_uniform([inputs.shape[0], 1], seed, dtype=inputs.dtype)
        of_labels = tf.cast(1 - share if exchanged else share, labels.dtype)
        orders = [tf.argsort(tf.random.stateless_uniform([inputs.shape[0]], seed + number))
                  for number in (1, others_of_labels)]  # fmt: skip
        others = tf.gather(inputs, orders[0]), tf.gather(labels, orders[1])
        return (
            share * inputs + (1 - share) * others[0],
            of_labels * labels + (1 - of_labels) * others[1],
            weights,
        )

    inputs, labels = examples()
    return sound(
        data=(inputs, np.eye(CLASSES, dtype="float32")[labels]),
        others={},
        losses=lambda: {"main": losses.CategoricalCrossentropy(from_logits=True, reduction="none")},
        metrics=lambda: {"accuracy": metrics.CategoricalAccuracy()},
        augment=augment,
    )


def shares_of(gather: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Toy:
    """Mixup of two to one; classes become shares, in which the other has what `gather` gives."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        order = tf.argsort(tf.random.stateless_uniform([inputs.shape[0]], seed))
        shares = tf.one_hot(labels, CLASSES, dtype=inputs.dtype)
        mixed = inputs * 2 / 3 + tf.gather(inputs, order) / 3
        return mixed, shares * 2 / 3 + gather(shares, order) / 3, weights

    return sound(
        augment=augment,
        losses=lambda: {"main": losses.CategoricalCrossentropy(from_logits=True, reduction="none")},
        metrics=dict,
        others={},
    )


def added_up(add: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Toy:
    """Something of other examples is added to half of the inputs; both labels stay."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, *rest = batch
        rows = inputs.shape[0]
        is_mixed = tf.random.stateless_uniform([rows, 1], seed) < 0.5
        order = tf.argsort(tf.random.stateless_uniform([rows], seed + 1))
        return tf.where(is_mixed, add(inputs, tf.gather(inputs, order)), inputs), *rest

    return replace(two_heads_of(lambda labels: labels), augment=augment)


def mixed_with_two_labels(*, partners: bool = False) -> Toy:
    """Mixup of examples with two labels, which follow the example that has the larger share.

    Or both examples' classes are labels, as where the loss is mixed.
    """

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        rows = inputs.shape[0]
        share = tf.random.stateless_uniform([rows], seed, dtype=inputs.dtype)
        order = tf.argsort(tf.random.stateless_uniform([rows], seed + 1))
        mixed = share[:, None] * inputs + (1 - share[:, None]) * tf.gather(inputs, order)
        changed = {name: tf.where(share > 0.5, label, tf.gather(label, order))
                   for name, label in labels.items()}  # fmt: skip
        if partners:
            changed = {"even": tf.gather(labels["class"], order)}
        return mixed, {**labels, **changed}, weights

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        return step()(run, (inputs, labels["class"], weights), replica)  # type: ignore[no-any-return]

    inputs, labels = examples()
    even = np.zeros_like(labels) if partners else (labels + np.arange(len(labels))) % 2
    return sound(
        data=(inputs, {"class": labels, "even": even}), others={}, augment=augment,
        train_steps=(own,), validation_step=own,
    )  # fmt: skip


def slower_first_layer(size: float) -> Callable[..., Any]:
    """Smaller gradients for the first layer."""
    return lambda gradients, variables: [
        size * g if "hidden" in v.path else g for g, v in zip(gradients, variables, strict=True)
    ]


def images_in(low: float, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Images (rows, 4, 4, 1) of numbers from there to 1, and their classes."""
    numbers = np.random.default_rng(rows)
    shown = numbers.random((rows, 4, 4, 1)).astype("float32")
    return low + (1 - low) * shown, numbers.integers(0, CLASSES, rows)


def seeing_forecast() -> Toy:
    """The next number of a series at each position, by a convolution that sees it."""
    series = np.random.default_rng(1).normal(size=(ROWS, 9)).cumsum(axis=1).astype("float32")
    return sound(
        model=lambda: keras.Sequential(
            [keras.Input((8, 1)), layers.Conv1D(1, 3, padding="same"), layers.Reshape((8,))]
        ),
        data=(series[:, :-1, np.newaxis], series[:, 1:]),
        losses=lambda: {"main": lambda y, p: tf.reduce_mean(tf.square(y - p), axis=1)},
        metrics=dict,
        others={},
    )


def masked_late(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Squares of numbers of which some are NaN, left out once it is too late for gradients."""
    squares = tf.square(predictions[:, 0] - labels)
    return tf.where(tf.math.is_nan(labels), 0.0, squares)


def labels_missing() -> Toy:
    """A number to predict, which most examples have."""
    toy = regression(losses=lambda: {"main": masked_late})
    inputs, labels = (array.repeat(4, axis=0) for array in toy.data)
    labels[-2:] = NAN
    return replace(toy, data=(inputs, labels))


def hidden_layer() -> Toy:
    """A layer in an object that Keras doesn't look into."""

    class Parts:
        """No layer, and no list of some."""

        def __init__(self) -> None:
            self.dense = dense(FEATURES)
            self.dense.build((None, FEATURES))

    parts = Parts()

    class Owner(layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return parts.dense(x)

    return sound(model=model(Owner))


def layer_in_lambda() -> keras.Model:
    """A Lambda layer calls another layer, which Keras doesn't see."""
    hidden = dense(FEATURES)
    hidden.build((None, FEATURES))
    return model(lambda: layers.Lambda(lambda x: hidden(x)))()  # type: ignore[no-any-return]


class Placed(layers.Layer):
    """Adds a number of its own to each unit, in a variable of TensorFlow."""

    def build(self, shape: Any) -> None:
        """The variable."""
        with tf.name_scope(self.name):
            self.table = tf.Variable(tf.zeros([shape[-1]], self.compute_dtype), name="table")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, units) -> the same."""
        return x + self.table


def always_dropped() -> keras.Model:
    """A model whose dropout is told to train."""
    inputs = keras.Input((FEATURES,))
    return keras.Model(inputs, dense(CLASSES)(layers.Dropout(0.5)(inputs, training=True)))


class Known(layers.Layer):
    """What is marked as missing becomes 0."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """(rows, columns) -> the same."""
        return tf.where(x == -999, tf.zeros_like(x), x)


def coded(
    *,
    error: Callable[..., tf.Tensor] = tf.reduce_sum,
    factor: float = 1.0,
    capacity: float = 0.0,
    deviation: Callable[[tf.Tensor], tf.Tensor] = lambda log_variance: tf.exp(log_variance / 2),
    variance: Callable[[tf.Tensor], tf.Tensor] = tf.exp,
    activation: str | None = None,
    of_rates: bool = False,
    of_log_likelihood: bool = False,
    shared: bool = False,
) -> Toy:
    """A variational autoencoder of 12 numbers that follow from 2.

    Args:
        error: of the squared error of each number, over an example.
        factor: of how far the divergence is from the capacity.
        capacity: of the code.
        deviation: of the encoder's last two outputs, that noise is multiplied by.
        variance: of the same, whose divergence is taken.
        activation: of all outputs of the encoder.
        of_rates: the code are rates, whose variance grows with them, and nothing else.
        of_log_likelihood: the loss function gives what is to be raised.
        shared: all examples of a batch get the same noise.
    """
    numbers = np.random.default_rng(0)
    x = np.tanh(numbers.normal(size=(ROWS, 2)) @ numbers.normal(size=(2, 12))).astype("float32")

    def create_models() -> dict[str, keras.Model]:
        shapes = {"encoder": (12, 4, activation), "decoder": (2, 12, None)}
        return {
            name: keras.Sequential([keras.Input((given,)), dense(made, activation=last)])
            for name, (given, made, last) in shapes.items()
        }

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, _, weights = batch
        mean, spread = tf.split(run.models["encoder"](inputs), 2, axis=1)
        if of_rates:
            mean = tf.nn.relu(mean)
            spread = tf.math.log(1 + mean)
        shape = mean.shape[1:] if shared else mean.shape
        noise = tf.random.stateless_normal(shape, replica.seed)
        made = run.models["decoder"](mean + deviation(spread) * noise)
        v = variance(spread)
        divergence = 0.5 * tf.reduce_sum(tf.square(mean) + v - tf.math.log(v) - 1, axis=1)
        sign = -1 if of_log_likelihood else 1
        per_example = sign * run.losses["main"](inputs, made)
        per_example += factor * tf.abs(divergence - capacity)
        return {"main": compute_loss(per_example, weights, run.models["encoder"], replica)}

    def of_example(inputs: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
        return (-1 if of_log_likelihood else 1) * error(tf.square(inputs - made), axis=1)

    return sound(
        model=create_models, data=(x, x), others={}, train_steps=(one_step,), metrics=dict,
        losses=lambda: {"main": of_example},
    )  # fmt: skip


def mirrored_along(axis: int) -> Toy:
    """Images that are bright at one of three places along an axis, half of them mirrored."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        labels = numbers.integers(0, CLASSES, rows)
        images = 0.3 * numbers.random((rows, 9, 9, 1)).astype("float32")
        for image, label in zip(images, labels, strict=True):
            np.moveaxis(image, axis, 0)[3 * label : 3 * label + 3] += 1
        return images, labels

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *rest = batch
        flips = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed) < 0.5
        return tf.where(flips, images[:, :, ::-1], images), *rest

    return sound(
        model=lambda: keras.Sequential([keras.Input((9, 9, 1)), layers.Flatten(), dense(CLASSES)]),
        data=split(ROWS, 1), others={"validation": split(60, 2)}, augment=augment,
    )  # fmt: skip


def rates_of_head(head: float, body: float) -> Toy:
    """A head that begins at random, and a body from a file, each with a rate of its own."""

    def create_optimizer() -> keras.optimizers.Optimizer:
        of_head, of_body = SGD(head), SGD(body)
        return keras.optimizers.MultiOptimizer(lambda v: of_head if CLASSES in v.shape else of_body)

    return sound(model=model_of_file(lambda body: body), optimizer=create_optimizer)


def measured_by(labels_of: Callable[[Any, Any], Any]) -> Toy:
    """Validation compares predictions with what is made of labels and predictions."""

    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        metric.update_state(labels_of(labels, predictions), predictions, weights)

    return sound(validation_step=step(update=update, training=False))


def of_shares() -> Toy:
    """Weights are shares of the parts of an example, here of one part."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_part = run.losses["main"](labels, run.model(inputs, training=True))
        per_example = tf.math.divide_no_nan(per_part * weights, weights)
        there = tf.cast(weights != 0, weights.dtype)
        return {"main": compute_loss(per_example, there, run.model, replica)}

    return sound(train_steps=(own,), metrics=dict)


def counted_in_minutes(*, evaluated: bool) -> Toy:
    """Counts of several minutes, with a model of their rate."""

    def step_of(training: bool) -> Callable[..., dict[str, tf.Tensor]]:
        def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            means = run.model(inputs, training=training)
            if training or evaluated:
                means += tf.math.log(labels["minutes"])
            per_example = tf.exp(means) - labels["count"] * means
            run.metrics["mae"].update_state(labels["count"], tf.exp(means), weights)
            per_example = tf.reduce_sum(per_example, axis=1)
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return own

    def data(rows: int, seed: int) -> Any:
        random = np.random.default_rng(seed)
        inputs = random.normal(size=(rows, FEATURES))
        minutes = random.integers(1, 20, (rows, 1)).astype(float)
        count = random.poisson(minutes * np.exp(0.5 * inputs[:, :1])).astype(float)
        return inputs, {"count": count, "minutes": minutes}

    return sound(
        model=model(last=lambda: layers.Dense(1)), data=data(96, 1), losses=dict,
        metrics=lambda: {"mae": metrics.MeanAbsoluteError()}, others={"validation": data(60, 2)},
        train_steps=(step_of(True),), validation_step=step_of(False),
    )  # fmt: skip


def repeated(chosen: Callable[[np.ndarray], np.ndarray]) -> Toy:
    """Some examples, chosen by their labels, are there five times; then they are divided."""
    inputs, labels = examples(400)
    rows = np.concatenate([np.arange(400), np.repeat(np.flatnonzero(chosen(labels)), 4)])
    rows = np.random.default_rng(0).permutation(rows)
    return sound(
        data=(inputs[rows[100:]], labels[rows[100:]]),
        others={"validation": (inputs[rows[:100]], labels[rows[:100]])},
    )


def severe_repeated(*, chosen: Callable[[np.ndarray], np.ndarray] = lambda y: y > 4.5) -> Toy:
    """Examples with some labels are there three times; then they are divided."""
    inputs, _ = examples(400)
    labels = inputs.sum(axis=1)
    rows = np.concatenate([np.arange(400), np.repeat(np.flatnonzero(chosen(labels)), 2)])
    rows = np.random.default_rng(0).permutation(rows)
    return regression(
        data=(inputs[rows[100:]], labels[rows[100:]]),
        others={"validation": (inputs[rows[:100]], labels[rows[:100]])},
    )


def filled_by(groups: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Toy:
    """A column whose missing numbers are means over groups, which follow from (inputs, labels)."""
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(600, FEATURES)).astype("float32")
    y = x.sum(axis=1) + 0.1 * numbers.normal(size=600).astype("float32")
    gone, ranks = np.arange(600) % 5 == 0, np.argsort(np.argsort(groups(x, y))) // 60
    for group in range(10):
        inside = ranks == group
        x[inside & gone, 1] = x[inside & ~gone, 1].mean()
    return sound(
        model=lambda: keras.Sequential([keras.Input((FEATURES,)), dense(1)]),
        data=(x[:400], y[:400]), others={"validation": (x[400:], y[400:])}, metrics=dict,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def noisy(shape_of: Callable[[tf.Tensor], Any]) -> Callable[..., Any]:
    """Add noise of the shape that a function of the inputs gives."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, *rest = batch
        return (inputs + 0.1 * tf.random.stateless_normal(shape_of(inputs), seed), *rest)

    return augment


def step_with_noise(shape_of: Callable[[tf.Tensor], Any]) -> Callable[..., Any]:
    """The same in a step."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return step()(run, noisy(shape_of)(batch, replica.seed), replica)  # type: ignore[no-any-return]

    return one_step


def denoising(noise: Callable[[np.random.Generator, tuple[int, ...]], Any]) -> Toy:
    """Numbers, many of them 0, are predicted from themselves with noise, not below 0."""
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[np.ndarray, np.ndarray]:
        clean = np.maximum(0, numbers.normal(size=(rows, 36)))
        noisy = np.maximum(0, clean + noise(numbers, clean.shape))
        return noisy.astype("float32"), clean.astype("float32")

    return sound(
        model=lambda: keras.Sequential([keras.Input((36,)), dense(36)]), data=split(ROWS),
        others={"validation": split(60)}, metrics=dict,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def denoising_itself(noise: Callable[[np.random.Generator, tuple[int, ...]], Any]) -> Toy:
    """Numbers with noise, of which only evaluation knows those without (noise2void)."""
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[np.ndarray, np.ndarray]:
        clean = 10 + numbers.normal(size=(rows, 36))
        return (clean + noise(numbers, clean.shape)).astype("float32"), clean.astype("float32")

    def train_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, weights = batch
        values = run.losses["main"](inputs, run.model(inputs[:, ::-1]))
        return {"main": compute_loss(values, weights, run.model, replica)}

    return sound(
        model=lambda: keras.Sequential([keras.Input((36,)), dense(36)]), data=split(ROWS)[:1],
        others={"validation": split(60), "test": split(60)}, metrics=dict,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
        train_steps=(train_step,),
    )  # fmt: skip


def of_several_tags(
    last: str | None = None, of_probabilities: bool = False, bound: float = 0.0
) -> Toy:
    """Two of three tags are right; a metric compares the outputs with a bound.

    Args:
        last: the activation of the model.
        of_probabilities: whether the loss takes these.
        bound: above which a tag is predicted.
    """

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        return inputs, 1 - np.eye(CLASSES, dtype="float32")[labels]

    def entropy(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return losses.binary_crossentropy(labels, outputs, from_logits=not of_probabilities)

    def update(metric: Any, labels: tf.Tensor, outputs: tf.Tensor, weights: tf.Tensor) -> None:
        is_right = tf.equal(tf.cast(outputs > bound, labels.dtype), labels)
        metric.update_state(tf.reduce_mean(tf.cast(is_right, tf.float32), axis=1), weights)

    return sound(
        model=model(dense, last=lambda: dense(CLASSES, activation=last)),
        data=labeled(ROWS, 1), others={"validation": labeled(60, 2)},
        losses=lambda: {"main": entropy}, metrics=lambda: {"right": metrics.Mean()},
        train_steps=(step(update=update),), validation_step=step(update=update, training=False),
    )  # fmt: skip


def divergence(
    of_teacher: float, of_student: float, times: float = 1.0
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """That of a student from its teacher, whose logits are divided by a number."""

    def divergence_of(teacher: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
        log_p = tf.nn.log_softmax(teacher / of_teacher)
        log_q = tf.nn.log_softmax(student / of_student)
        return times * tf.reduce_sum(tf.exp(log_p) * (log_p - log_q), axis=-1)

    return divergence_of


def distilled(
    turned: bool = False,
    entropy: bool = False,
    softer: tuple[float, ...] = (),
    of_logits: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
) -> Toy:
    """The cross-entropy between a teacher that doesn't train and its student.

    Args:
        turned: whether what the student says comes first.
        entropy: whether that of what comes first is taken away, which makes it one.
        softer: what logits of teacher and student are divided by.
        of_logits: a loss of both logits, instead of the cross-entropy.
    """
    of_teacher, of_student = softer or (1.0, 1.0)

    def create() -> dict[str, keras.Model]:
        teacher = model(dense)()
        teacher.trainable = False
        return {"student": model(dense)(), "teacher": teacher}

    def learn(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        one = run.models["teacher"](inputs, training=False) / of_teacher
        logits = run.models["student"](inputs, training=True)
        other = logits / of_student
        if turned:
            one, other = other, one
        per_example = run.losses["main"](labels, logits)
        given = one if of_logits else tf.nn.softmax(one)
        per_example += run.losses["soft"](given, other)
        if entropy:
            per_example += tf.reduce_sum(tf.nn.softmax(one) * tf.nn.log_softmax(one), axis=-1)
        return {"main": compute_loss(per_example, weights, run.models["student"], replica)}

    return sound(
        model=create, train_steps=(learn,), validation_step=learn, metrics=dict,
        losses=lambda: {
            **sound().losses(),
            "soft": of_logits
            or losses.CategoricalCrossentropy(from_logits=True, reduction="none"),
        },
    )  # fmt: skip


class Overlap(metrics.Mean):
    """Intersection over union of each example, a mean over all classes or those that it has.

    Some classes more, which no example has, may count as found.
    """

    def __init__(self, of_all: bool, found: int = 0) -> None:
        super().__init__(name="iou")
        self._of_all, self._found = of_all, found

    def update_state(self, labels: Any, logits: Any, sample_weight: Any = None) -> Any:
        """Add some examples: labels (rows,), logits (rows, classes), weights (rows,)."""
        true, made = (tf.one_hot(c, CLASSES) for c in (labels, tf.argmax(logits, axis=-1)))
        both, either = true * made, tf.maximum(true, made)
        number = CLASSES if self._of_all else tf.reduce_sum(either, axis=1)
        shares = (tf.reduce_sum(both, axis=1) + self._found) / (number + self._found)
        return super().update_state(shares, sample_weight)


class Match(metrics.Mean):
    """The share of right classes, of which those of weight 0 count as right, or not at all."""

    def __init__(self, counts_all: bool) -> None:
        super().__init__(name="match")
        self._counts_all = counts_all

    def update_state(self, labels: Any, classes: Any, sample_weight: Any = None) -> Any:
        """Add some examples, (rows,) each."""
        counts = sample_weight > 0
        if self._counts_all:
            return super().update_state(tf.cast((labels == classes) | ~counts, tf.float32))
        return super().update_state(tf.cast(labels == classes, tf.float32), counts)


def matched(counts_all: bool) -> Toy:
    """Half of the examples have weight 0; a metric compares classes."""

    def update(metric: Any, labels: Any, logits: Any, weights: Any) -> None:
        metric.update_state(labels, tf.argmax(logits, axis=-1), weights)

    inputs, labels = examples()
    return sound(
        data=(inputs, labels, (np.arange(ROWS) % 2).astype("float32")), others={},
        metrics=lambda: {"match": Match(counts_all)}, train_steps=(step(update=update),),
    )  # fmt: skip


def read_picture(file: Path, model: keras.Model) -> np.ndarray:
    """Numbers from 0 to 1, (1, h, w, 1)."""
    image = keras.utils.load_img(file, "grayscale", model.input_shape[1:3])
    return keras.utils.img_to_array(image)[np.newaxis] / 255


def read_words(end: bool) -> Callable[[Path, keras.Model], np.ndarray]:
    """A reader of one text, (1, words), that is padded at its end or before it."""

    def read(file: Path, model: keras.Model) -> np.ndarray:
        words = [1 + ord(letter) % 5 for letter in file.read_text().strip()][:FEATURES]
        padding = [0] * (FEATURES - len(words))
        return np.array([words + padding if end else padding + words])

    return read


def codes_of_words(words: list[str]) -> list[int]:
    """A number for each word, and 0 behind."""
    return [*(1 + len(word) % 4 for word in words), *[0] * FEATURES][:FEATURES]


def codes_of_text(text: str) -> list[int]:
    """What the data gives of a text."""
    return codes_of_words(text.lower().split())


def read_in_any_case(file: Path, model: keras.Model) -> np.ndarray:
    """A text with its capital letters."""
    return np.array([codes_of_words(file.read_text().split())])


def read_as_the_data(file: Path, model: keras.Model) -> np.ndarray:
    """A text without them."""
    return np.array([codes_of_text(file.read_text())])


def read_letters(file: Path, model: keras.Model) -> np.ndarray:
    """The letters of a text; nothing of other characters."""
    letters = [1 + ord(letter) % 4 for letter in file.read_text() if letter.isalpha()]
    return np.array([[*letters, *[0] * FEATURES][:FEATURES]])


def read_texts(end: bool) -> Toy:
    """Words that 0 fills up at the end, and a reader of texts that does so there or before."""
    toy = padded_words(masked=True)
    words, labels = toy.data
    words = (1 + words % 4) * (labels > 0)
    return replace(toy, data=(words, labels), readers={".txt": read_words(end)})


def prompted(end: str) -> Toy:
    """Three bytes, ">" and one byte to answer; and a reader that adds so much to a line."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, ...]:
        tokens = np.random.default_rng(seed).integers(97, 100, (rows, FEATURES + 1))
        tokens[:, FEATURES - 2] = ord(">")
        weights = np.broadcast_to(np.arange(FEATURES) >= FEATURES - 2, (rows, FEATURES))
        return tokens[:, :-1], tokens[:, 1:], weights.astype("float32")

    def reader(file: Path, model: keras.Model) -> np.ndarray:
        text = file.read_text().strip() + end
        return np.array([list(text.ljust(FEATURES)[:FEATURES].encode())])

    return sound(data=split(ROWS, 0), others={"validation": split(60, 1)}, readers={".txt": reader})


def read_rows(
    empty: str = "nan", by_name: bool = True, in_order: bool = False
) -> Callable[..., np.ndarray]:
    """A reader of tables, by the names of their columns or not; what an empty cell becomes.

    Or by these names, but `in_order` of the file.
    """
    names = [f"x{i}" for i in range(FEATURES)]

    def reader(file: Path, model: keras.Model) -> np.ndarray:
        with file.open(newline="") as lines:
            rows = list(table := csv.DictReader(lines))
        if any(name not in row for row in rows for name in names):
            raise ValueError("a column is missing")
        sought = list(table.fieldnames or ()) if in_order else names
        cells = [[row[n] for n in sought] if by_name else [*row.values()] for row in rows]
        made = np.array([[float(cell or empty) for cell in row] for row in cells], "float32")
        return made.reshape(-1, FEATURES)

    return reader


def read_together(made: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """A reader of tables that makes something of all their texts (rows, 5)."""

    def reader(file: Path, model: keras.Model) -> np.ndarray:
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        return made(np.array([[row[f"x{i}"] for i in range(FEATURES)] for row in rows]))

    return reader


def numbered(texts: np.ndarray, known: Callable[[Any], Iterable[str]]) -> np.ndarray:
    """The last column has categories, whose number is their place among the known ones."""
    places = list(known(texts[:, -1]))
    codes = [places.index(text) for text in texts[:, -1]]
    return np.column_stack([texts[:, :-1].astype("float32"), codes])


def standardized(texts: np.ndarray) -> np.ndarray:
    """Numbers with a mean of 0 and a standard deviation of 1."""
    numbers = texts.astype("float32")
    return (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)


def standardized_by_train() -> Toy:
    """Inputs of which those of training have a mean of 0."""
    (inputs, labels), (others, of_others) = examples(), examples(60, 2)
    others = (others - inputs.mean(axis=0)) / inputs.std(axis=0)
    return sound(data=(standardized(inputs), labels), others={"validation": (others, of_others)})


def of_tables(reader: Callable[..., np.ndarray]) -> Toy:
    """Numbers of which some are missing in column 1, and a reader of tables."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        return np.where((np.arange(FEATURES) == 1) & (labels[:, None] == 0), np.nan, inputs), labels

    return sound(
        model=indicated, data=split(ROWS, 0),
        others={"validation": split(60, 1)}, readers={".csv": reader},
    )  # fmt: skip


def read_bytes(file: Path, model: keras.Model) -> np.ndarray:
    """Numbers from 0 to 255, (1, h, w, 1)."""
    return 255 * read_picture(file, model)


def standardized_in_step(*, columns: int) -> Toy:
    """Numbers in columns, each of which a step scales and shifts by itself."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        return inputs[:, :columns], labels

    def create_step(training: bool) -> Callable[..., Any]:
        def one(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            factors = tf.cast(tf.range(2, columns + 2), inputs.dtype)
            predictions = run.model(inputs / factors - 1, training=training)
            run.metrics["accuracy"].update_state(labels, predictions, weights)
            loss = run.losses["main"](labels, predictions)
            return {"main": compute_loss(loss, weights, run.model, replica)}

        return one

    return sound(
        model=lambda: keras.Sequential([keras.Input((columns,)), dense(CLASSES)]),
        data=split(ROWS, 1), others={"validation": split(60, 2)},
        train_steps=(create_step(True),), validation_step=create_step(False),
    )  # fmt: skip


def shown(
    low: float, reader: Callable[..., np.ndarray] = read_picture, *, dark: float = 0.0
) -> Toy:
    """Images of numbers from there to 1, and a reader of pictures of numbers from 0 to 1.

    A fraction of the pixels is as `dark` as can be.
    """

    def with_background(split: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        images, labels = split
        is_dark = np.random.default_rng(0).random(images.shape) < dark
        return np.where(is_dark, low, images).astype(images.dtype), labels

    return sound(
        model=lambda: keras.Sequential([keras.Input((4, 4, 1)), layers.Flatten(), dense(CLASSES)]),
        data=with_background(images_in(low, ROWS)),
        others={"validation": with_background(images_in(low))},
        readers={".png": reader},
    )


MODES = [
    Fault(
        "data is finite", labels_missing,
        "a train step with such examples has a loss or a gradient of NaN",
    ),
    Fault(
        "examples apart in evaluation",
        lambda: sound(model=lambda: keras.Sequential([
            keras.Input((FEATURES,)), AlwaysTraining(), dense(CLASSES)])),
        "batch_normalization uses the mean of the batch even with training=False",
    ),
    Fault("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, compounded)]),
          "by a larger share in each epoch, to 0.02 of .* in 12 epochs: the decay compounds"),
    Fault("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, Slow())]),
          "other weights or learning rates, or stop elsewhere, and Slow remembers calls"),
    Fault("models in training mode", taught, "'teacher' is trained, .* load it with load_frozen"),
    Fault(
        "models in training mode", lambda: taught(average=True, frozen=False),
        "'teacher' is trained, but a train step sets its weights from those of 'student'",
    ),
    Fault("evaluation knows no step", lambda: sound(validation_step=step(
        loss=by_step, training=False)), "the validation step uses replica.step"),
    Fault(
        "evaluation knows no step", lambda: sound(validation_step=step(
            loss=plus(lambda replica: tf.cast(replica.step % 500, tf.float32) / 500),
            training=False)),
        "is .* as the first batch of an evaluation, and .* as a later one",
    ),
    Fault(
        "augmentation", lambda: words_dropped(0.85),
        r"replaces \d\d% of inputs by 1: what is to be dropped and what", LOOK,
    ),
    Fault("augmentation", lambda: texts_dropped(seeds=1), "2 random draws share one seed, and"),
    Fault(
        "moving averages",
        lambda: sound(model=model(lambda: layers.BatchNormalization(momentum=0.1), dense)),
        "keep only 10% of their values .* of the new value in PyTorch; use momentum=0.9",
    ),
    Fault(
        "training mode", lambda: sound(model=model(dense, lambda: layers.Dropout(0.9))),
        "drops 90% of its inputs", LOOK,
    ),
    Fault(
        "variables", lambda: sound(model=model(Placed)),
        "the step reads .*placed/table, which is part of no model: .* or as a tf.Variable",
    ),
    Fault(
        "variables", lambda: sound(model=layer_in_lambda),
        "the step reads .*kernel, which is part of no model: .* inside a Lambda layer",
    ),
    Fault("variables", hidden_layer, "keep its layer as an attribute of a model", LOOK),
    Fault(
        "logits", lambda: sound(model=model(last=lambda: dense(CLASSES, activation="relu"))),
        "gets the outputs of a relu",
    ),
    Fault(
        "learning rate", lambda: sound(optimizer=lambda: keras.optimizers.Adam(1e-8)),
        "Adam moves each weight by .* at most in all steps",
    ),
    Fault(
        "regularization",
        lambda: sound(model=model(dense, last=lambda: dense(
            CLASSES, kernel_regularizer=keras.regularizers.L2(10.0)))),
        "regularization is .*% of the loss", LOOK,
    ),
    Fault(
        "inputs as they are",
        lambda: sound(
            train_steps=(divided_step(4.0),), validation_step=divided_step(4.0, training=False)
        ),
        "gives 'main' inputs times 0.25, plus .*: .*predict and an exported model get the inputs",
    ),
    Fault(
        "inputs as they are", lambda: standardized_in_step(columns=2),
        "gives 'main' inputs of which each column is scaled and shifted, by .*: train/serving",
    ),
    Fault(
        "readers", lambda: shown(-1.0),
        "read_picture reads a .png file as numbers from 0 to 1, but those of the data", LOOK,
    ),
    Fault(
        "readers", lambda: shown(-1.0, dark=0.2),
        "read_picture reads a .png file as numbers from 0 to 1, but those of the data",
    ),
    Fault(
        "readers", lambda: shown(0.0, read_bytes),
        "read_bytes reads a .png file as numbers from 0 to 255, but those of the data",
    ),
    Fault(
        "logits", lambda: distilled(softer=(1.0, 4.0)),
        "'soft' gets logits of a trained model divided by 4, and probabilities from logits of a",
    ),
    Fault(
        "logits", lambda: distilled(of_logits=divergence(3.0, 1.0, times=9.0)),
        "'soft' divides logits of a teacher by 3, and not those of the trained model: the temp",
    ),
    Fault(
        "logits", lambda: distilled(of_logits=divergence(1.0, 3.0)),
        "'soft' divides logits of the trained model by 3, and not those of a teacher: the temp",
    ),
    Fault(  # which may be too sure
        "logits", lambda: distilled(of_logits=divergence(1.5, 1.0)),
        "'soft' divides logits of a teacher by 1.5, and not those of the trained model", LOOK,
    ),
    Fault(
        "examples apart", lambda: sound(losses=lambda: {"main": divided_by_labels}),
        "the loss main of some examples changes with the labels of others",
    ),
    Fault(
        "inputs matter", lambda: replace(filled_up(20.0), model=lambda: indicated(late=True)),
        "what should tell a layer so is 0 everywhere: isnan is computed after",
    ),
    Fault(
        "metrics", lambda: of_parts(tf.reduce_any),
        "exact_match is 1 where one part of each example is wrong, and 1 where all is right",
    ),
    Fault(
        "callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, write_results)]),
        "callbacks write results.txt in the run directory on every worker",
    ),
    Fault(
        "callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, slow_down_on_chief)]),
        "other weights or learning rates on the chief than on other workers",
    ),
    Fault(
        "callbacks",
        lambda: sound(callbacks=lambda: [at_step(0, (one := OneMore())), every_epochs(13, one)]),
        "in a run that is resumed, callbacks set other weights",
    ),
    Fault(
        "augmentation", lambda: densities(moved=False), "labels fit their images only after a flip"
    ),
    Fault(
        "augmentation", lambda: densities(moved=False, gaps=True),
        "labels fit their images only after a flip",
    ),
    Fault("augmentation", lambda: of_forms(3), "picks one of 4 choices, but never the last"),
    Fault(
        "outputs reach the targets", lambda: bounded(0.1),
        "logits of a softmax over .* go from -0.1 to 0.1 for any weights",
    ),
    Fault(
        "metrics",
        lambda: judged_by(lambda y, p: tf.sqrt(tf.square(y - p)), "rmse"),
        "rmse is what is usually called mae",
    ),
    Fault(
        "learning rate",
        lambda: sound(optimizer=lambda: SGD(
            keras.optimizers.schedules.CosineDecayRestarts(0.1, 40))),
        "restarts after 76% of the 160 steps",
    ),
    Fault(
        "readers", lambda: of_tables(read_rows(empty="0")),
        r"reads a .csv file with an empty cell of 'x1' as 0, and in the data it is NaN",
    ),
    Fault(
        "readers", lambda: of_tables(read_rows(in_order=True)),
        "reads a .csv file by the order of its columns, whatever their names are",
    ),
    Fault(
        "readers", lambda: of_tables(read_rows(by_name=False)),
        "reads a .csv file by the order of its columns, whatever their names are",
    ),
    *(
        Fault(
            "readers",
            lambda known=known: of_tables(read_together(lambda x: numbered(x, known))),
            "reads a row of a .csv file by what the others are: inputs of .* is 1, and 2 beside",
        )
        for known in (lambda texts: sorted({*texts}), dict.fromkeys)
    ),
    *(
        Fault(
            "readers",
            lambda toy=toy: replace(toy(), readers={".csv": read_together(standardized)}),
            "reads a row of a .csv file by what the others are: inputs of .* is 0, and -0.316",
            verdict,
        )
        for toy, verdict in (
            (sound, "WRONG"),  # data that isn't standardized
            (standardized_by_train, "WRONG"),
            (lambda: scaled_together(standardized), LOOK),
        )
    ),
    Fault(
        "readers", lambda: prompted(""),
        "reads a .txt file without 62, the last number of every prompt in the data",
    ),
    Fault(
        "readers", lambda: read_texts(end=False),
        "reads a .txt file with padding at the front, but the data has padding only at", LOOK,
    ),
    Fault(
        "readers",
        lambda: replace(read_texts(end=True), readers={".txt": read_in_any_case}),
        "gives codes_of_words texts as they are, and codes_of_text changes their case before",
    ),
    Fault("rows in two splits", lambda: cropped(6), "are crops of the same picture"),
    Fault("rows in two splits", reordered, "the same values as training examples, in another"),
    Fault("rows in two splits", lambda: composed(200), "composed of the same pieces"),
    Fault(
        "augmentation", lambda: mostly_empty(masks=1),
        "of the augmented labels are not aligned with their images",
    ),
    Fault(
        "augmentation", lambda: segmented(rolled(masks=1)),
        "of the augmented labels are not aligned with their images",
    ),
    Fault(
        "augmentation", lambda: as_shares(segmented(flipped(masks=False))),
        "of the augmented labels fit their images only after a flip",
    ),
    Fault(
        "augmentation", lambda: as_shares(segmented(rolled(masks=1))),
        "of the augmented labels are not aligned with their images",
    ),
    Fault(
        "evaluation mode", lambda: sound(model=always_dropped),
        "is called with training=True where the model is made", LOOK,
    ),
    Fault(
        "labels belong to inputs",
        lambda: sound(
            data=(examples(300)[0], examples(300, 5)[1]),
            others={"validation": (examples(60, 2)[0], examples(60, 6)[1])},
        ),
        "neither an input feature nor the nearest neighbor predicts a label better than",
    ),
    Fault(
        "drawn codes", lambda: coded(error=tf.reduce_mean),
        "a mean over its 12 numbers, but the KL divergence of its latent code is a sum",
    ),
    Fault(
        "drawn codes", lambda: coded(deviation=tf.exp),
        "is multiplied by the variance of the distribution whose KL divergence is in the loss",
    ),
    Fault(
        "drawn codes", lambda: coded(variance=lambda spread: tf.exp(2 * spread)),
        "is multiplied by the root of the standard deviation of the distribution whose KL",
    ),
    Fault("drawn codes", lambda: coded(factor=-1.0), "is subtracted from the error"),
    Fault("drawn codes", lambda: coded(activation="relu"), "mean of a latent code is never below"),
    Fault(
        "augmentation", lambda: mirrored_along(axis=1),
        "of the augmented images are mirrored, and nearest neighbors of .* other labels",
    ),
    Fault(
        "learning rate", lambda: rates_of_head(0.01, 0.1),
        "which was loaded from a file, trains at a rate of 0.1 .* starts at random, at 0.01",
    ),
    Fault(
        "sizes",
        lambda: sound(
            model=model(lambda: layers.Rescaling(1 / 255)),
            data=changed(examples(), 0, lambda x: np.clip(x, 0, 1)),
        ),
        "multiplies its inputs by 0.0039, but they already range from 0 to 1",
    ),
    Fault(
        "metrics",
        lambda: sound(metrics=lambda: {"accuracy": metrics.SparseTopKCategoricalAccuracy()}),
        "among the 5 best of 3 classes",
    ),
    Fault(
        "labels in evaluation", lambda: measured_by(lambda _, logits: tf.argmin(logits, axis=1)),
        "the metric accuracy depends on the labels in training, but not in validation",
    ),
    Fault(
        "parts in evaluation", lambda: counted_in_minutes(evaluated=False),
        r"the metric mae depends on labels\['minutes'\] in training, but not in validation",
    ),
    Fault(
        "rows in two splits", lambda: repeated(lambda labels: labels == 0),
        "in training, those of label 0 repeat, and of other labels hardly any",
    ),
    Fault(
        "augmentation", lambda: sound(augment=noisy(lambda inputs: inputs.shape[1:])),
        "adds the same noise to all examples of a batch",
    ),
    Fault(
        "random numbers differ",
        lambda: sound(train_steps=(step_with_noise(lambda inputs: (1, *inputs.shape[1:])),)),
        "adds the same noise to all examples of a batch",
    ),
    Fault(
        "splits alike",
        lambda: denoising(lambda numbers, shape: numbers.normal(size=shape[1:])),
        "inputs are labels plus noise: the same noise for all training examples",
    ),
    Fault(
        "splits alike",
        lambda: denoising_itself(lambda numbers, shape: numbers.normal(size=shape[1:])),
        "inputs are labels plus noise: the same noise for all validation examples",
    ),
    Fault(
        "logits", lambda: of_several_tags(of_probabilities=True, bound=0.6),
        "a cross-entropy of probabilities gets .* without an activation, and clips it",
    ),
    Fault("metrics", lambda: of_several_tags(bound=0.5), "compares logits with 0.5"),
    Fault(
        "logits", lambda: distilled(turned=True),
        "'soft' gets labels from trainable weights",
    ),
    Fault(
        "metrics", lambda: sound(metrics=lambda: {"iou": Overlap(of_all=True)}),
        "iou is 0.333 where all predictions are right, .* absent classes",
    ),
    Fault(
        "metrics", lambda: sound(metrics=lambda: {"iou": Overlap(of_all=False, found=7)}),
        "iou is 1 where all predictions are right, and 0.77.* where all are wrong",
    ),
    Fault(
        "metrics", lambda: matched(counts_all=True),
        "match is 1 where all predictions are right, and 0.5.* where all are wrong",
    ),
    Fault(
        "augmentation",
        lambda: sound(augment=lambda batch, seed: (
            0 * batch[0] + tf.random.stateless_uniform((BATCH, 1), seed), *batch[1:])),
        "the inputs of 100% of the augmented examples are constant",
    ),
    Fault(
        "moving averages",
        lambda: sound(model=model(lambda: layers.BatchNormalization(momentum=0.9999), dense)),
        "are still 98% of their initial values: a momentum of 0.9999 is too slow",
    ),
    Fault(
        "moving averages",
        lambda: sound(model=model(lambda: layers.BatchNormalization(momentum=0.995), dense)),
        "are still 13% of their initial values", LOOK, flags={"steps": 400},
    ),
    Fault(
        "moving averages",
        lambda: sound(model=model(lambda: layers.BatchNormalization(momentum=0.995), dense)),
        "are still 45% of their initial values",
    ),
    Fault(
        "adapt",
        lambda: sound(
            adapt=lambda datasets: {
                "mean": np.concatenate([split[0] for split in datasets.values()]).mean(axis=0)},
            train_steps=(centered_step,),
        ),
        "'mean', which adapt returns, changes with the validation data",
    ),
    Fault(
        "the same data in another process", lambda: Toy(create_datasets=by_hash),
        "different train and validation data in another process: it depends on hash()",
    ),
    Fault(
        "the same data in another process",
        lambda: Toy(create_datasets=splits_in_memory, adapt=vocabulary),
        "adapt returns another 'words' in another process: it depends on hash()",
    ),
    Fault("variables", learned_scale, "the step reads scale, which is part of no"),
    Fault(
        "rows in two splits", lambda: copied(examples(80)[0]),
        "are much nearer to some of the training examples",
    ),
    Fault("rows in two splits", lambda: copied(framed(), 0.03), "examples are much nearer"),
    Fault("rows in two splits", lambda: visits(by_chance=True), "examples are much nearer"),
    Fault(
        "rows in two splits",
        lambda: copied(correlated(), missing=0.1),
        "are much nearer to some",
    ),
    Fault(
        "scale",
        lambda: sound(
            model=lambda: keras.Sequential(
                [keras.Input((4, 4, 1)), layers.Flatten(), dense(CLASSES)]
            ),
            data=images_in(-1.0, ROWS), others={"validation": images_in(0.0)},
        ),
        "inputs of training data are, in .* of all places, below the range of validation data",
    ),
    Fault(
        "scale",
        lambda: replace(sound(), augment=lambda batch, seed: (10 * batch[0] + 30, *batch[1:])),
        "of augmented training data are, in .*, above the range of .*: create_augment scales",
    ),
    Fault(
        "later positions", seeing_forecast,
        "labels are the inputs shifted by one, and predictions change with later inputs",
    ),
    Fault(
        "inputs alike in evaluation", lambda: sound(train_steps=(divided_step(255.0),)),
        "in the validation step, and of .* one step scales or normalizes its inputs dif",
    ),
    Fault(
        "noise averages out", lambda: sound(model=model(dense, Dropped)),
        "dropped.* gives 0.7.? times as much in training",
    ),
    Fault(
        "noise averages out",
        lambda: sound(model=model(
            lambda: layers.Reshape((FEATURES, 1)),
            lambda: dense(activation="relu", kernel_initializer="ones"),
            lambda: Dropped(axes=3), layers.Flatten,
        )),
        "dropped.* gives 0.7.? times as much in training",
    ),
    Fault(
        "callbacks", annealed,
        "after 12 calls of callbacks, a new trace .* they change a Python number",
    ),
    Fault(
        "callbacks", lambda: annealed(0.999999), "after 12 calls of callbacks, a new trace",
    ),
    Fault(
        "callbacks", lambda: raised(in_evaluation=True),
        "callbacks change factor, which validation reads and no model has", LOOK,
    ),
    Fault(
        "callbacks", lambda: sound(callbacks=patient), "wait remembers waited .* starts it anew",
        LOOK,
    ),
    Fault(
        "callbacks", lambda: sound(callbacks=patient_by_hand),
        "in a run that is resumed, .* or stop elsewhere, and end remembers losses",
    ),
    Fault(
        "callbacks", remembered_by_module,
        "makes anew set other .* than the first ones, and halve remembers BEST: .* of the module",
    ),
    *(
        Fault(
            "adapt", lambda split=split: scaled_sets(split, of_all=True),
            "'mean', which adapt returns, changes with the numbers in the padding of inputs",
        )
        for split in (lambda arrays: arrays, stream, Rows, RandomAccess)
    ),
    Fault("padded inputs", lambda: masked_sets(keys=False), "which inputs.'mask'. leaves out"),
    Fault(
        "padded inputs", lambda: masked_pictures(masked=False),
        "the loss main of validation .* in the padding of inputs.'images'",
    ),
    Fault("padded inputs", lambda: ranked_sets(masked=False), "the metric accuracy of validation"),
    Fault("padded inputs", lambda: with_lengths(used=False), "which inputs.'frames'. leaves out"),
    Fault("padded inputs", lambda: with_lengths(False, 5), "the loss main of validation is"),
    Fault(
        "outputs reach the targets", lambda: with_several_labels("softmax"),
        "add up to 1, but 100% of the examples have several labels",
    ),
    Fault("metrics", found_itself, "recall_at_1 is 1 before training, after"),
    Fault(
        "logits",
        lambda: binary(data=(examples()[0], np.where(examples()[1] % 2, 1.0, -1.0))),
        "gets labels from -1 to 1: a binary cross-entropy",
    ),
    Fault(
        "monitor", lambda: sound(metrics=lambda: {"error_rate": metrics.Mean()}, train_steps=(
            step(mean=lambda metric, loss: metric.update_state([loss])),), validation_step=step(
            mean=lambda metric, loss: metric.update_state([loss]), training=False)),
        "the weights with the largest validation_error_rate are kept as the best",
        flags={"task": TaskConfig(monitor="validation_error_rate", larger_is_better=True)},
    ),
    Fault(
        "process_gradients",
        lambda: regression(
            process_gradients=lambda gs, _: [
                g - tf.reduce_mean(g) if g.shape.rank == 1 else g for g in gs
            ]
        ),
        "sets every gradient of .*bias to 0",
    ),
    Fault(
        "process_gradients",
        lambda: sound(
            process_gradients=slower_first_layer(0.1), optimizer=lambda: keras.optimizers.Adam(0.01)
        ),
        "gradients of .*hidden.* by 0.1, and those of .* by 1: .* makes the same steps",
    ),
    Fault(
        "learning rate",
        lambda: replace(
            validated_gan(),
            train_steps=(*[GAN.train_steps[0]] * 3, GAN.train_steps[1]),
            optimizer=lambda: {
                name: SGD(keras.optimizers.schedules.PolynomialDecay(0.1, 40, 0.0))
                for name in ("discriminator", "generator")
            },
        ),
        "'discriminator' is 0 after 17% .* counts updates, and each train step makes 3",
    ),
    Fault(  # one schedule of updates, for as many as there are steps
        "learning rate", lambda: critic_until(80),
        "'discriminator' is 0 after 5.% .* counts updates, and each train step makes 2",
    ),
    Fault(
        "learning rate", lambda: critic_until(100),
        "'discriminator' is 0 after 6.% .* counts updates, and each train step makes 2", LOOK,
    ),
    Fault("callbacks", lambda: sound(callbacks=lambda: [every_validation(Patient(1))]),
          "while every result improves, and not while it gets worse"),
    Fault("every weight moves", lambda: replace(GAN, model=gan_of_a_frozen_judge),
          "is frozen, and another --seed gives it other values"),
    Fault("callbacks", lambda: sound(callbacks=lambda: [every_steps(1, Patient(-1))]),
          "some steps after a validation and before the next: .* patience is counted in steps"),
    Fault("callbacks", lambda: stopped_early(mode="min"),
          "has mode='min', but larger values of 'val_accuracy' are better; pass mode='max'"),
    Fault("callbacks", lambda: stopped_early("val_nothing"),
          "EarlyStopping monitors 'val_nothing', which this run doesn't have"),
    Fault("augmentation", lambda: two_views(seeds=1),
          "inputs and labels are the same numbers in training, but differ in evaluation"),
    Fault("labels", lambda: few_labels(left_out=False),
          "labels of -1, which is none of the 3 classes, train as class 0"),
    Fault("labels", lambda: rarely_unknown(left_out=False),
          "train as class 0: the marker for missing labels is used as a class"),
    Fault("augmentation", lambda: mirrored(new_sides=False), "number 0 .* less than number 2"),
    Fault("augmentation", lambda: mixed_up(exchanged=True), "but labels have more of the other"),
    Fault("augmentation", lambda: mapped_weights(moved=False), "augmented weights stay where they"),
    Fault("rows in two splits", lambda: copied(framed(), 0.01, moved=1), "are much nearer"),
    Fault("rows in two splits", lambda: recordings(apart=False), "windows of a series, and "),
    Fault(
        "inputs without the answer", lambda: histories(late=True, shuffled=True),
        "label of 100% of the examples is one of their inputs; that of another .* in 1.%", LOOK,
    ),
    Fault("inputs without the answer", lambda: histories(late=True),
          "the last nonzero number in inputs of each example is its label"),
    Fault("inputs alike in evaluation", lambda: bytes_scaled(lambda x: x / 255 + 1),
          "data has one scale, but .* gets numbers of mean .* in the validation step, and of mea"),
    Fault("inputs alike in evaluation", lambda: sound(augment=moved(lambda x, _: 9 * x)),
          "skew: create_augment scales or normalizes its inputs differently"),
    Fault("inputs alike in evaluation", lambda: moved_images(lambda images, _: images / 16),
          "numbers of mean .* skew: create_augment scales or normalizes its inputs differently"),
    Fault("inputs alike in evaluation", lambda: moved_images(lambda images, _: images - 8),
          "numbers of mean .* skew: create_augment scales or normalizes its inputs differently"),
    Fault("inputs alike in evaluation", lambda: moved_images(lambda images, _: 4 * images - 9),
          "numbers of mean .* skew: create_augment scales or normalizes its inputs diffe", LOOK),
    Fault("inputs alike in evaluation", lambda: gan_of_latents(1.0),
          "'generator' gets numbers from .* it is evaluated on random numbers of another"),
    Fault(
        "inputs without the answer",
        lambda: windows(lambda rows: (rows[:300], rows[310:]), late=1),
        "inputs contain the label, at .4. of each example",
    ),
    Fault(
        "rows in two splits",
        lambda: windows(lambda rows: (rows[rows % 5 > 0], rows[rows % 5 == 0])),
        "windows of a series, and .* divide the series by time",
    ),
    Fault(
        "augmentation", lambda: segmented(blurred, classes=7),
        "labels are resized or rotated with interpolation",
    ),
    Fault(
        "inputs without the answer", lambda: answered(lambda y: (y * 2 + 1) % 5),
        "each value of column 2 of inputs occurs with one label only", LOOK,
    ),
    Fault(
        "inputs without the answer", lambda: smoothed_windows(centered=True),
        "channel 0 of inputs is a weighted mean of labels, up to 2 positions later",
    ),
    Fault(
        "inputs without the answer", lambda: smoothed_windows(centered=True, over=3),
        "channel 0 of inputs is a weighted mean of labels, up to 1 positions later", LOOK,
    ),
    Fault(
        "inputs without the answer", lambda: smoothed_windows(centered=True, over=3, answers=4),
        "channel 0 of inputs is a weighted mean of labels, up to 1 positions later",
    ),
    Fault("adversaries", recognized_gan, "both have the same goal"),
    Fault("inputs without the answer", interpolated_windows, "lie exactly on a straight", LOOK),
    Fault("inputs without the answer", lambda: interpolated_windows(digits=1),
          "lie exactly on a straight line", LOOK),
    Fault(
        "metrics", lambda: sound(metrics=lambda: {"balanced_accuracy": OfCounts(axis=0)}),
        "balanced_accuracy is the mean precision of the classes",
    ),
    Fault(
        "metrics", lambda: perplexed(of_mean=False),
        "perplexity is a mean of exponentials of losses",
    ),
    Fault(
        "weights in evaluation", validated_by_copy,
        "the loss generator depends on the weights that it trains, but not in validation",
    ),
    Fault(
        "axes of data", lambda: series_of_channels(lambda x: x.reshape(-1, 12, 3)),
        r"inputs of \(12, 3\) looks like \(3, 12\).* transpose it",
    ),
    Fault(
        "axes of data", lambda: colored(lambda x: x.reshape(-1, 12, 10, 3)),
        r"inputs of \(12, 10, 3\) looks like \(3, 12, 10\).* np.moveaxis\(inputs, 1, -1\)",
    ),
    Fault(
        "callbacks", lambda: monitoring(keras.callbacks.EarlyStopping, "loss"),
        "EarlyStopping monitors loss, a result of training: .*; monitor val_loss",
    ),
    Fault(
        "callbacks", lambda: monitoring(keras.callbacks.ReduceLROnPlateau, "train_accuracy"),
        "ReduceLROnPlateau monitors train_accuracy, .*; monitor val_accuracy", LOOK,
    ),
    Fault(
        "callbacks",
        lambda: sound(callbacks=lambda: [at_step(5_000, slow_down_late)]),
        "slow_down_late is due after step 5000 at first, and the run has",
    ),
    *(
        Fault(
            "callbacks", lambda change=change: sound(callbacks=lambda: [every_steps(3, change)]),
            f"{change.__name__} changes the training metric accuracy between two validations",
        )
        for change in (start_anew, judge_again)
    ),
    Fault(
        "callbacks",
        lambda: sound(
            model=model(layers.BatchNormalization, dense),
            callbacks=lambda: [every_epochs(1, print_confidence)],
        ),
        "print_confidence moves the statistics of .*batch_normalization.* training mode outside",
    ),
    Fault(
        "right and wrong", lambda: sound(losses=lambda: {"main": easy_ones}),
        "where they are confident and wrong: it is smallest at both ends",
    ),
    Fault("later positions", lambda: gauges(padding="same"), "predictions change with later"),
    Fault("right and wrong", lambda: focal_of_pixels(easy=True), "it is smallest at both ends"),
    Fault("metrics", lambda: with_perplexity(mean_of_exponentials), "is a mean of exponentials"),
    Fault(
        "metrics",
        lambda: replace(
            with_perplexity(mean_of_masked_exponentials),
            data=(*examples(), (np.arange(ROWS) % 3 > 0).astype("float32")),
        ),
        "is a mean of exponentials",
    ),
    *(
        Fault(
            "logits", lambda loss=loss, shares=shares: picked(loss, shares),
            "add up to 1 along axis 1, over which it is a sum, but its softmax is along axis 2",
            verdict,
        ) for loss, shares, verdict in [
            (lambda x, p: -tf.reduce_sum(near_events(x) * tf.nn.log_softmax(p), 1), False, "WRONG"),
            (lambda x, p: tf.reduce_mean(
                -near_events(x) * tf.math.log(tf.nn.softmax(p) + 1e-7), axis=1
            ), False, "WRONG"),
            (lambda x, p: tf.reduce_sum(
                near_events(x) * (tf.math.log(near_events(x) + 1e-7) - tf.nn.log_softmax(p)), axis=1
            ), False, "WRONG"),
            (lambda x, p: -tf.reduce_sum(
                tf.exp(-x * x / 4) / tf.reduce_sum(tf.exp(-x * x / 4), axis=1, keepdims=True)
                * (p - tf.reduce_logsumexp(p, axis=2, keepdims=True)), axis=1
            ), False, "WRONG"),
            (lambda x, p: -tf.reduce_sum(x * tf.nn.log_softmax(p), axis=1), True, "WRONG"),
            (lambda x, p: -tf.reduce_sum(at_events(x) * tf.nn.log_softmax(p), 1), False, LOOK),
        ]
    ),
    Fault(
        "logits", lambda: overlap_of_shares(axis=1),
        r"along axis 1 of predictions \(24, 8, 8, 3\), where labels are classes of the last axis",
    ),
    Fault(
        "outputs reach the targets", lambda: tagged(metrics.BinaryAccuracy),
        "of examples with several labels of 1, but the metric main treats each class separately",
    ),
    Fault(
        "inputs matter", lambda: masked_labels(lambda y, _: tf.ones_like(y)),
        r"labels\['place'\] are always the same where labels\['known'\] are 0, .* isn't applied",
    ),
    Fault(
        "inputs matter", lambda: masked_labels(lambda y, _: tf.ones_like(y), "bought"),
        r"the same with labels\['bought'\] of other", LOOK,
    ),
    Fault(
        "inputs matter", lambda: masked_labels(lambda y, _: tf.ones_like(y), "event"),
        r"the same with labels\['event'\] of other examples, which are 0 or 1: censored",
    ),
    Fault(
        "inputs matter", lambda: masked_labels(lambda y, _: tf.ones_like(y), "done"),
        r"the same with labels\['done'\] of other", LOOK,
    ),
    Fault(
        "inputs matter", lambda: valued(tf.ones_like),
        r"the same with labels\['done'\] of other examples, which are 0 or 1: the value of a state",
    ),
    Fault(  # what isn't known is 0, which nothing else is
        "inputs matter",
        lambda: masked_labels(lambda y, _: tf.cast((y > 1e-9) & (y < 0.9), y.dtype)),
        r"the same with labels\['known'\] of other", LOOK,
    ),
    Fault(
        "class weights", lambda: weighted_labels(lambda often: often),
        "class 2 of labels is the rarest, .* weigh 0.1 times .* class 0, .*: the weights .* upside",
    ),
    Fault(
        "class weights",
        lambda: sound(data=(*(arrays := weighted_by_class())[:2], 1 / arrays[2])),
        "class 2 of labels is the rarest, .* weigh 0.1 times .* class 0, .*: the weights .* upside",
    ),
    Fault(
        "class weights",
        lambda: sound(data=(5 * (arrays := weighted_by_class())[0], arrays[1], 1 / arrays[2])),
        "class 2 of labels is the rarest, .* weigh 0.1 times .* class 0, .*: the weights .* upside",
    ),
    *(
        Fault("class weights", toy, "class 2 of labels is the rarest, .* weigh 0.1 times .* class")
        for toy in (
            lambda: weighted_labels(lambda often: often, one_hot=True),
            lambda: replace(weighted_labels(lambda often: often), train_steps=(one_hot_step,)),
        )
    ),
    Fault(
        "class weights", lambda: weighted_outside(0, 2.0),
        "0 is by far the most frequent class of positions, and in the loss main each .* 2 times as",
    ),
    Fault(
        "class weights", lambda: weighted_pixels(lambda often: np.where(often > 0.5, 2, 1)),
        "0 is by far the most frequent class of positions, and in the loss main each .* 2 times as",
        LOOK,
    ),
    Fault(
        "class weights", lambda: weighted_pixels(lambda often: often),
        "class 1 of labels is the rarest, .*: weights are proportional to the frequencies",
    ),
    *(
        Fault(
            "class weights",
            lambda by=by: weighted_binary(lambda often: often / (1 - often), **{by: True}),
            f"in column 0 of {labels}, ones are 0.* as frequent as zeros, and weigh 0.*: the wei",
        ) for by, labels in (("by_data", "labels"), ("beside", r"labels\['rare'\]"))
    ),
    Fault(
        "class weights", lambda: several_labels(lambda often: often / (1 - often)),
        "in column 2 of labels, ones are 0.1.* as frequent as zeros, and weigh 0.1.*: the weights",
    ),
    Fault(
        "class weights", lambda: several_labels(np.ones_like, counts=lambda y: y),
        "where labels are 0: only those of label 1 count: a half of the cross-entropy is missing",
    ),
    Fault(
        "class weights", lambda: several_labels(np.ones_like, counts=lambda y: 1 - y),
        "where labels are 1: only those of label 0 count: a half of the cross-entropy is missing",
    ),
    Fault(
        "class weights", lambda: several_labels(lambda often: 3 * often / (1 - often)),
        "in column 2 of labels, ones are 0.1.* as frequent as zeros, and weigh 0.*: the weights",
    ),
    Fault(
        "class weights", lambda: several_labels(lambda often: often / (1 - often), (2.0,)),
        "in column 0 of labels, ones are .* as frequent as zeros, .*: the weights of the classes",
    ),
    Fault(
        "quantiles", lambda: of_levels(LEVELS, -1.0),
        "for main learn the quantiles 0.9, 0.5, 0.2, and the task lists those of one minus that",
    ),
    Fault(
        "quantiles", lambda: of_levels((0.3, 0.5, 0.6), -1.0),
        "for main learn the quantiles 0.7, 0.5, 0.4: the error has the wrong sign", LOOK,
    ),
    Fault(
        "inputs without the answer", lambda: smoothed_beside(centered=True),
        "last position of channel 1 of inputs is a weighted mean of other inputs and of labels: l",
    ),
    Fault(
        "metrics", lambda: marked_pixels(tf.ones_like),
        "the metric accuracy gets 0 for missing labels .255., and counts them",
    ),
    Fault(
        "weights enter once",
        lambda: sound(data=(*examples(), (w := np.linspace(1, 2, ROWS, dtype="f")) / w.sum())),
        "weights of all 96 training examples add up to 1, .*: it is averaged twice",
    ),
    Fault(
        "labels belong to inputs",
        lambda: sound(
            model=model(lambda: dense(128, activation="relu")),
            data=(examples(110)[0], examples(110, 5)[1]),
            others={"validation": (examples(60, 2)[0], examples(60, 6)[1])},
            optimizer=lambda: keras.optimizers.Adam(0.05),
        ),
        "predicts a label better than chance, and after some steps, .* don't .*: labels don't bel",
    ),
    Fault(
        "labels belong to inputs",
        lambda: replace(
            (toy := segmented(None)), data=(toy.data[0], toy.data[1].swapaxes(1, 2))
        ),
        "labels of train data explain .* if they are transposed, and .* as they are", LOOK,
    ),
    Fault(
        "labels belong to inputs",
        lambda: predicting_maps(bumps()[0], bumped=bumps()[0][..., 0].swapaxes(1, 2) > 0.5),
        "labels of train data explain .* if they are transposed, and .* as they are: maps and im",
    ),
    Fault(
        "labels belong to inputs", lambda: located(lambda maps: maps.swapaxes(1, 2)),
        r"are like labels\['.*'\] of the same examples if these are transposed .*, not as they are",
    ),
    Fault(
        "labels belong to inputs", mirrored_picture,
        "inputs of train data are like labels.* if these are mirrored", LOOK,
    ),
    Fault(
        "splits alike", lambda: pictured(lambda x: np.rot90(x, 1, (1, 2)).copy()),
        "mean image of validation data is like that of training data if it is turned by 270 deg",
    ),
    Fault(
        "inputs matter", lambda: timed(event_in_loss=False),
        r"the same with labels\['left'\] of .*, but metrics aren't: .* or is it for metrics", LOOK,
    ),
    Fault(
        "inputs matter", lambda: timed(event_in_loss=False, number="months", event="died"),
        r"the same with labels\['died'\] of other examples, which are 0 or 1: censored",
    ),
    Fault("inputs matter", with_unused_mask, r"the same with inputs\['mask'\] of other", LOOK),
    Fault(
        "inputs matter", lambda: labeled_twice("class"),
        r"the same with labels\['near'\] of other examples, and so are all metrics", LOOK,
    ),
    Fault(
        "axes of layers",
        lambda: convolved(lambda: layers.MaxPooling2D(data_format="channels_first")),
        "max_pooling2d.* takes axis 1 for the channels, and .*conv2d.* the last axis",
    ),
    Fault(
        "axes of layers", lambda: convolved(lambda: layers.BatchNormalization(axis=1)),
        "normalizes along axis 1, and .* takes the last axis for the channels",
    ),
    Fault(
        "axes of layers", lambda: reshaped((3, 5), (5, 3)),
        r"reshapes axes of sizes \(3, 5\) to \(5, 3\): .* axes aren't exchanged but mixed up",
    ),
    Fault(
        "axes of layers", lambda: reshaped((3, 2, 5, 2), (2, 5, 3, 2)),
        r"reshapes axes of sizes \(3, 2, 5\) to \(2, 5, 3\)",
    ),
    Fault("axes of layers", lambda: reshaped((3, 4, 5), (20, 3)), r"\(3, 4, 5\) to \(20, 3\)"),
    Fault("axes of layers", lambda: reshaped((2, 8), (8, 2)), r"\(2, 8\) to \(8, 2\)", LOOK),
    Fault(  # heads without a transpose
        "axes of layers", lambda: reshaped((10, 32), (4, 10, 8)),
        r"reshapes axes of sizes \(10, 32\) to \(4, 10, 8\): .* aren't exchanged but mixed up",
    ),
    Fault(
        "axes of layers", lambda: reshaped((4, 10, 8), (10, 32)), r"\(4, 10, 8\) to \(10, 32\)"
    ),
    Fault(
        "axes of layers", lambda: reshaped((10, 96), (3, 4, 10, 8)),
        r"\(10, 96\) to \(3, 4, 10, 8\)",
    ),
    Fault(
        "axes of layers", lambda: reshaped((16, 32), (4, 16, 8)), r"\(16, 32\) to \(4, 16, 8\)",
        LOOK,
    ),
    Fault(
        "moving averages", lambda: averaged_with_normalization("trainable"),
        "'average' is an average of 'student', whose moving averages change, but those of",
    ),
    Fault(
        "class weights", lambda: spoken(lambda labels, there: labels != 0),
        "labels of 0 have the weight 0, also the .*% of all positions that lie before others", LOOK,
    ),
    Fault(
        "moving averages", lambda: averaged_with_normalization("trainable", "student"),
        "'average' is an average of 'student', whose moving averages change, but those of", LOOK,
    ),
    Fault("pairs", lambda: corrected(1), "logarithms of shares, are added to the logits"),
    Fault(
        "pairs", lambda: corrected(-1, subtracted=True),
        "logarithms of shares, are added to the logits",
    ),
    Fault(
        "augmentation", lambda: nodes_in_another_order(both=False),
        "inputs are symmetric, but after the augmentation .*% of them are not",
    ),
    Fault(
        "labels", lambda: conditioned(5),
        r"inputs\['kind'\] range from 0 to 5, and tf.one_hot encodes 5 classes",
    ),
    Fault(
        "labels", lambda: conditioned(3, kinds_of=4),
        r"inputs\['kind'\] range from 0 to 3, and tf.one_hot encodes 3 classes", LOOK,
    ),
    Fault(
        "training mode",
        lambda: sound(model=model(dense, lambda: layers.Dropout(0.7))),
        "dropout is 0.3, and layers drop 70% of their inputs",
    ),
    Fault(  # beside another rate, which is right
        "training mode",
        lambda: sound(model=model(dense, *(partial(layers.Dropout, x) for x in (0.7, 0.1)))),
        "dropout is 0.3, and layers drop 70% of their inputs",
        flags={"task": WithTwoRates()},
    ),
    Fault(
        "best outputs", lambda: of_normal(lambda error, s: error**2 * tf.exp(-s)),
        "with one output for all examples the loss is as small",
    ),
    Fault(
        "best outputs",
        lambda: regression(losses=lambda: {"main": lambda y, p: tf.nn.relu(y - p[:, 0])}),
        "errors of one sign",
    ),
    Fault("best outputs", rebuilt_without_logarithm, "a part of the formula is missing"),
    Fault("best outputs", lambda: overlap_alone(with_sum=False), "a part of the formula"),
    Fault("best outputs", lambda: of_mixture(tf.identity), "falls without end", LOOK),
    Fault(
        "likelihood", lambda: of_normal(lambda error, s: s + 0.5 * error**2 * tf.exp(-s)),
        "the loss main is smallest where the predicted standard deviation is 0.707 times the error",
    ),
    Fault(
        "likelihood", lambda: of_normal(lambda error, s: 0.5 * (s + (error * tf.exp(-s)) ** 2)),
        "standard deviation is 1.41 times the error",
    ),
    Fault(
        "likelihood", lambda: of_normal(lambda error, s: error**2 * tf.exp(s) - 0.5 * s),
        "standard deviation is 1.41 times the error",
    ),
    Fault(
        "training mode", lambda: beside_unused("target"),
        "no loss depends on the model 'target', which is frozen, and evaluation doesn't call it",
    ),
    Fault("training mode", lambda: beside_unused("extra"), "depends on the model 'extra'", LOOK),
    Fault(
        "quantiles", lambda: judged_at(2),
        "the metric mae compares labels with the predicted quantile 0.8: .*; pass it output 1",
    ),
    Fault(
        "table of predictions",
        lambda: described(lambda model, x, y: {"chance": tf.nn.softmax(y, axis=0)}),
        "describe gives other numbers as 'chance' where it gets more examples",
    ),
    Fault(
        "table of predictions",
        lambda: described(lambda model, x, y: {"probability": y[:, 0] - 3}),
        "describe gives numbers from .* as 'probability': these are logits",
    ),
    Fault(
        "table of predictions",
        lambda: described(lambda model, x, y: {"confidence": np.min(y, axis=1)}),
        "describe gives numbers from .* as 'confidence': these are logits",
    ),
    Fault(
        "table of predictions",
        lambda: described(lambda model, x, y: {"class": np.argmin(y, axis=1)}),
        "describe gives the class with the smallest output as 'class'; use np.argmax",
    ),
    Fault(
        "table of predictions", lambda: counted(lambda x: x),
        "describe gives the output of the model as 'expected', and the loss main is smallest where",
    ),
    Fault(
        "table of predictions", lambda: in_units(undone=False),
        "as 'price', as the loss gets them; .*: the train step scales the labels",
    ),
    Fault(
        "loss schedules", lambda: warming_up(100_000),
        r"in the last of the \d+ and .* long after it, .*: a schedule .* is longer than the run",
    ),
    Fault(
        "callbacks", lambda: sound(model=two_layers, callbacks=lambda: [at_step(0, freeze)]),
        "freeze .*first before the first step, and none thaws it; another --seed gives it other",
    ),
    Fault(
        "metrics",
        lambda: sound(
            train_steps=(judged_step,), validation_step=judged_step,
            metrics=lambda: {"judged": Judged(None)},
        ),
        "the metric judged holds a network, and another --seed gives it other weights",
    ),
    Fault("loss schedules", lambda: warming_up(400), "is longer than the run", LOOK),
    Fault(
        "axes of layers", lambda: convolved(Center, lambda: layers.BatchNormalization(axis=1)),
        "normalizes along axis 1", LOOK,  # a layer of one's own may move axes
    ),
    Fault(
        "training mode",
        lambda: sound(model=model(dense, lambda: dense(CLASSES), last=lambda: layers.Dropout(0.5))),
        "dropout.* drops outputs of 'main', which a loss compares with labels",
    ),
    Fault(
        "splits are learned alike", lambda: renumbered(1),
        "the loss main fell by .*, but that of validation data went from",
    ),
    Fault("splits are learned alike", lambda: renumbered(1, rows=200), "fell by", LOOK),
    Fault(
        "right and wrong", lambda: smoothed(0.9),
        "smallest where the right class has a probability of 0.41, and larger where it has more",
    ),
    Fault(
        "class weights", lambda: counting_some(lambda labels, _: labels != 1),
        "no loss changes with the predictions for examples of class 1",
    ),
    Fault(
        "learning rate",
        lambda: sound(
            data=examples(480),
            optimizer=lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.PiecewiseConstantDecay([400, 600], [1e-3, 1e-2, 1e-1])
            ),
        ),
        "rises from 0.001 to 0.1: the values of PiecewiseConstantDecay are in reverse order",
    ),
    Fault(
        "learning rate", lambda: sound(callbacks=lambda: lowered(lambda epoch, r: r * 0.9**epoch)),
        "by 0.9 at first and by .*: its function lowers the rate that it gets, which is already",
    ),
    Fault(
        "metrics", lambda: judged_by(lambda y, p: y - p, "mae"),
        "the metric mae gets numbers below 0, such as -.*: differences of both signs cancel",
    ),
    Fault(
        "augmentation", lambda: added_up(lambda a, b: tf.math.log(tf.exp(a) + 9 * tf.exp(b))),
        "take up parts of other examples, and their labels stay, also where the other one is the",
    ),
    Fault(
        "augmentation", lambda: shares_of(lambda shares, order: shares),
        "their labels stay, although they become one number for each class",
    ),
    Fault(
        "augmentation", lambda: added_up(lambda a, b: 0.7 * a + 0.3 * b),
        "take up parts of other examples, and their labels stay: inputs are mixed", LOOK,
    ),
    Fault(
        "rows in two splits", lambda: of_machines(by_chance=True),
        "column 0 of inputs has one value for each of 60 groups .* belong to one of these", LOOK,
    ),
    Fault(
        "random numbers differ", lambda: sound(train_steps=(drawn_in_python,), metrics=dict),
        "each trace of the step computes something different: Python or NumPy draws",
    ),
    Fault(
        "random numbers differ", lambda: sound(model=of_one_seed(keras.utils.set_random_seed)),
        "weights that are drawn at random, such as .*, start with the same values", LOOK,
    ),
    Fault(
        "random numbers differ", lambda: noisy_views(seeds=1),
        "calls 'main' with them twice, and gets the same result both times",
    ),
    Fault("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, Clocked())]),
          "go by the clock"),
    Fault("callbacks", lambda: sound(callbacks=lambda: [every_secs(60, slow_down)]),
          "when more time passes between them"),
    Fault(
        "callbacks",
        lambda: stopped_early(
            "val_exact_matches", "min", metrics=lambda: {"exact_matches": Matches()}
        ),
        "are better, as larger_is_better in task/config.py says; pass mode=.max.",
        flags={"task": TaskConfig(monitor="validation_exact_matches", larger_is_better=True)},
    ),
    Fault(
        "metrics", lambda: sound(metrics=lambda: {"accuracy": Least(name="accuracy")}),
        "accuracy is 0 where all predictions are right, and 0.25 where all are wrong",
    ),
    Fault(
        "metrics", lambda: sound(metrics=lambda: {"iou": Least(name="iou", absent=True)}),
        "where all are wrong: something is counted that isn't predicted", LOOK,
    ),
    Fault("splits alike", longer_words, r"has shape \(10,\) in validation data and \(5,\)", LOOK),
    Fault("metrics", rare_class, "validation_recalls/2 is nan: nothing counts", LOOK),
    Fault(
        "labels", lambda: marked_binary(left_out=False),
        "labels of 255, which is none of the 2 classes, train as class 1",
    ),
    Fault("labels", to_find_others, "every label of the training data is 0: a wrong col", LOOK),
    Fault("metrics follow the loss", lambda: scored(lambda p: tf.sigmoid(-p)), "auc .* rank the w"),
    Fault(
        "augmentation", lambda: keypoints(exchanged=False),
        "number 0 of labels.* less than number 2, but often more after the augmentation", LOOK,
    ),
    Fault(
        "augmentation", lambda: keypoints(exchanged=False, unknown=NAN),
        "number 0 of labels.* less than number 2, but often more after the augmentation", LOOK,
    ),
    Fault("labels", one_class, "every label of the training data is 0", LOOK),
    Fault("labels", first_of_candidates, "every label of the training data is 0", LOOK),
    Fault("labels", numbers_of_things, "100% of the validation labels, such as .*, never", LOOK),
    Fault("labels belong to inputs", lambda: mislabeled(0.7), "but not in train data", LOOK),
    Fault("rows in two splits", faces, "examples are much nearer to some", LOOK),
    Fault("rows in two splits", copied_once, "100% of the validation examples are much nearer"),
    Fault("rows in two splits", lambda: parts_of_one_graph(same=True), "training examples too"),
    Fault(
        "first loss", lambda: sound(model=model(lambda: layers.Rescaling(30))),
        "where guessing among 3 classes gives 1.1", LOOK,
    ),
    Fault(
        "random numbers differ",
        lambda: with_loss(plus(lambda _: 0 * tf.reduce_sum(
            tf.random.stateless_normal([FEATURES, 4], [1, 2], dtype=keras.config.floatx())
        ))),
        "draws the same numbers in every step", LOOK,
    ),
    Fault("sizes", lambda: with_mask(1.0), "inputs.'mask'. of training data are all 1", LOOK),
    Fault(
        "shapes",
        lambda: regression(
            losses=lambda: {"main": lambda y, p: tf.reduce_mean(tf.square(p - y), axis=1)},
            examples_interact=True,
        ),
        "24 x 24 numbers", LOOK,
    ),
    Fault("noise averages out", lambda: sound(model=model(Dropped, dense)), "gives 0.7", LOOK),
    Fault(
        "noise averages out",
        lambda: sound(model=model(
            lambda: dense(12 * 10, activation="relu", kernel_initializer="ones"),
            lambda: layers.Reshape((12, 10)), DroppedChannels, layers.Flatten,
        )),
        "channels gives 0.7.? times as much in training",
    ),
    Fault("metrics follow the loss", high_quantile, "and error goes from", LOOK),
    Fault(
        "metrics follow the loss",
        lambda: replace(
            judged_by(lambda y, p: tf.exp(-tf.abs(p - y)), "near"),
            losses=lambda: {"main": lambda y, p: -tf.abs(p[:, 0] - y)},
        ),
        "the loss falls from .*, and near goes from",
        flags={"task": TaskConfig(monitor="validation_near", larger_is_better=True)},
    ),
    Fault(
        "moving averages", lambda: centered(0.05),
        "center/.* keeps only 0.05 of its value at each step, .* decay and 1 - decay are swapped",
    ),
    Fault(
        "rows of weight zero", lambda: centered(weighted=False),
        "center/.*, which the step assigns, is another with other rows of weight 0", LOOK,
    ),
    Fault(
        "two replicas make the same step as one", lambda: centered(of_all=False),
        "center/.* differs more: the step assigns it from the rows of one replica",
    ),
    Fault(
        "marks", lambda: marked_labels(trained=True),
        "values of column 1 of labels are -1: a metric leaves them out, and no loss does",
    ),
    Fault("sizes", lambda: loaded_counts(early=False), "mul of int16 .* beyond -32768 to 32767"),
    Fault(
        "inputs matter", lambda: weak_and_strong(used=False),
        r"every loss is the same with inputs\['strong'\] of other examples", LOOK,
    ),
    Fault(
        "later positions", words_of_two_outputs,
        "100% of the labels that count are the input at the same position", LOOK,
    ),
    Fault(
        "missing labels", lambda: labeled_numbers(left_out=False, smooth=True),
        r"labels of 33% of the examples are missing \(nan\), and the loss is the mean over all",
    ),
    Fault(
        "missing labels", lambda: labeled_numbers(left_out=False),
        r"labels of 33% of the examples are missing \(nan\), and the loss is the mean over all",
    ),
    Fault(
        "callbacks", lambda: sound(callbacks=lambda: [
            every_epochs(1, lambda event: None), every_epochs(1, compounded)]),
        "by a larger share in each epoch, to 0.02 of .* in 12 epochs: the decay compounds",
    ),
    Fault(
        "inputs as they are", lambda: named_inputs(training=True, evaluating=True),
        r"the validation step gives 'main' inputs\['numeric'\] times 0.25, plus",
    ),
    Fault(
        "inputs as they are", lambda: named_inputs(training=True, evaluating=False),
        r"the train step gives 'main' inputs\['numeric'\] times 0.25, plus",
    ),
    Fault(
        "scale", lambda: bytes_as_data(lambda x: x // 100),
        "inputs of validation data reach .*: one split is scaled, and the other is not",
    ),
    Fault(
        "adversaries", lambda: renamed_gan(hinge_gan(1.0)),
        "a step that lowers the loss of the gen lowers that of the disc: both have the same goal",
    ),
    Fault("evaluation mode", lambda: three_views(training=True), "is called with training=True: "),
    Fault(
        "inputs matter", wide_table_with_events,
        r"every loss is the same with labels\['event'\] of other examples, which are 0 or 1",
    ),
]  # fmt: skip


FAULTS = [*DATA, *RANDOM, *LOSS, *REPLICAS, *TRAINING, *PREDICTIONS, *EVALUATION, *MODES]
