"""Tasks of an examiner, of three kinds that no starter is, and eight faults in each."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit, Fault
from .unusual import change_of, fault_in


def whole(**files: str) -> tuple[Edit, ...]:
    """Edits that replace files of task/, by their names without .py."""
    return blank.fill({name: text.lstrip("\n") for name, text in files.items()})


# ------------------------------------------------------------------------------------------------
# Time series of several lengths, of persons, with rare classes.

SERIES = whole(
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Movements: which of four a person made, from three channels of a sensor."""

    learning_rate: float = 3e-3  # the largest learning rate, after the warmup
    warmup: float = 0.1  # part of the run in which the learning rate rises
    dropout: float = 0.2  # rate of dropout
    noise: float = 0.05  # deviation of the noise added in training, in deviations of a channel
    monitor: str = "validation_balanced"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better
''',
    data='''
"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

CLASSES, LENGTH, CHANNELS = 4, 60, 3
PEOPLE, PER_PERSON = 60, 30
SHARES = (0.5, 0.25, 0.15, 0.1)
SCALES = np.array([10.0, 1.0, 0.1])
OFFSETS = np.array([50.0, -3.0, 0.5])


def _record(rng: np.random.Generator, label: int, person: np.ndarray) -> tuple[np.ndarray, int]:
    """A series (LENGTH, CHANNELS) padded with zeros, and its length."""
    length = int(rng.integers(30, LENGTH + 1))
    t = np.arange(length)
    phase = rng.uniform(0, 2 * np.pi, CHANNELS)
    pace = rng.uniform(0.9, 1.1) * (0.25, 0.45, 0.45, 0.35)[label]
    angle = pace * t[:, None] + phase
    wave = np.sin(angle)
    if label == 1:
        wave = np.sign(wave)
    if label == 3:
        wave = wave * np.exp(-t / 15)[:, None] * 1.6
    wave = wave * (1 + person[:3]) + person[3:] + rng.normal(0, 0.35, wave.shape)
    series = np.zeros((LENGTH, CHANNELS))
    series[:length] = wave * SCALES + OFFSETS
    return series, length


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Series and lengths by name, labels int64 (n,), for training weights float32 (n,).

    Nobody is in two splits. The weights of the training balance the classes; their mean is 1.
    """
    rng = np.random.default_rng(7)
    signals, lengths, labels, people = [], [], [], []
    for person in range(PEOPLE):
        traits = rng.normal(0, 0.3, 6)
        for _ in range(PER_PERSON):
            label = int(rng.choice(CLASSES, p=SHARES))
            series, length = _record(rng, label, traits)
            signals.append(series)
            lengths.append(length)
            labels.append(label)
            people.append(person)
    signal = np.stack(signals).astype("float32")
    length_ = np.array(lengths, "int32")
    label_ = np.array(labels, "int64")
    person_ = np.array(people)
    splits = {}
    for name, first, last in (("train", 0, 40), ("validation", 40, 50), ("test", 50, 60)):
        rows = (person_ >= first) & (person_ < last)
        splits[name] = ({"signal": signal[rows], "length": length_[rows]}, label_[rows])
    inputs, train_labels = splits["train"]
    counts = np.bincount(train_labels, minlength=CLASSES)
    weights = (len(train_labels) / (CLASSES * counts))[train_labels].astype("float32")
    splits["train"] = (inputs, train_labels, weights)
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Scales each series and adds noise; the padding stays zero."""

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, labels, weights = batch
        signal, length = inputs["signal"], inputs["length"]
        seeds = tf.random.split(seed, 2)
        there = tf.cast(tf.sequence_mask(length, LENGTH), signal.dtype)[..., tf.newaxis]
        offsets = tf.constant(OFFSETS, signal.dtype)
        scales = tf.constant(SCALES, signal.dtype)
        gain = tf.random.stateless_uniform(
            (signal.shape[0], 1, 1), seeds[0], 0.9, 1.1, signal.dtype
        )
        noise = tf.random.stateless_normal(signal.shape, seeds[1], dtype=signal.dtype)
        changed = (signal - offsets) * gain + offsets + task.noise * scales * noise
        return {"signal": changed * there, "length": length}, labels, weights

    return augment
''',
    model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import CHANNELS, CLASSES, LENGTH


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and deviation of each channel where there is a signal, in training."""
    inputs = datasets["train"][0]
    there = np.arange(LENGTH) < inputs["length"][:, None]
    values = inputs["signal"][there]
    return {"mean": values.mean(axis=0), "deviation": values.std(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Signal (batch, LENGTH, CHANNELS) and length (batch,) -> logits (batch, CLASSES)."""
    layers, ops = keras.layers, keras.ops
    signal = keras.Input((LENGTH, CHANNELS), name="signal")
    length = keras.Input((), dtype="int32", name="length")
    there = length[:, None] > ops.arange(LENGTH)[None, :]  # (batch, LENGTH)
    mask = ops.cast(there, signal.dtype)[..., None]  # (batch, LENGTH, 1)
    x = (signal - adapted["mean"]) / adapted["deviation"] * mask
    x = layers.Conv1D(24, 5, padding="same", activation="relu", name="conv1")(x) * mask
    x = layers.Conv1D(24, 5, padding="same", activation="relu", name="conv2")(x) * mask
    x = layers.Dropout(task.dropout)(x)
    x = layers.GRU(32, return_sequences=True, name="gru")(x, mask=there)
    x = ops.sum(x * mask, axis=1) / ops.sum(mask, axis=1)  # the mean over what is there
    x = layers.Dropout(task.dropout)(x)
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model({"signal": signal, "length": length}, logits)
''',
    losses='''
"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, int32."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Args:
        per_example: float (batch,).
        weights: float (batch,), 0 for padding.
        model: the model whose regularization losses are added.
        replica: `replica.global_count` is `count` summed over all replicas.

    Raises:
        ValueError: `per_example` isn't one number per weight, or `count` returns several numbers.
    """
    if isinstance(replica.global_count, dict):
        raise ValueError(
            "count returns several numbers: divide each term by its own, "
            "replica.global_count[name], with tf.nn.compute_average_loss."
        )
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss has shape {per_example.shape} and its weights {weights.shape}: create it "
            'with reduction="none", and average over further axes with tf.reduce_mean.'
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
''',
    metrics='''
"""The metrics."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from .config import TaskConfig
from .data import CLASSES


class BalancedAccuracy(keras.metrics.Metric):
    """The mean over classes of the part of their examples that is found."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.right = self.add_weight(shape=(CLASSES,), initializer="zeros", name="right")
        self.all = self.add_weight(shape=(CLASSES,), initializer="zeros", name="all")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Labels (batch,), logits (batch, CLASSES)."""
        dtype = self.right.dtype
        label = ops.one_hot(ops.cast(y_true, "int32"), CLASSES, dtype=dtype)  # (batch, CLASSES)
        found = ops.cast(ops.argmax(y_pred, axis=-1) == ops.cast(y_true, "int32"), dtype)
        if sample_weight is not None:
            label = label * ops.cast(sample_weight, dtype)[:, None]
        self.right.assign_add(ops.sum(label * found[:, None], axis=0))
        self.all.assign_add(ops.sum(label, axis=0))

    def result(self) -> Any:
        """A number from 0 to 1."""
        return ops.mean(ops.divide_no_nan(self.right.value, self.all.value))


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name."""
    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "balanced": BalancedAccuracy(),
    }
''',
    optimizer='''
"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """AdamW; the learning rate rises, then falls to 0 along a cosine at the last step."""
    warmup = max(1, int(task.warmup * steps))
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, max(1, steps - warmup), warmup_target=task.learning_rate, warmup_steps=warmup
    )
    return keras.optimizers.AdamW(rate, weight_decay=1e-3)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
    steps='''
"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[Any, ...]  # the parts of an example in create_datasets, then weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    inputs, labels, weights = batch
    logits = run.model(inputs, training=True)  # (batch, CLASSES)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    run.metrics["balanced"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    inputs, labels, weights = batch
    logits = run.model(inputs, training=False)  # (batch, CLASSES)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    run.metrics["balanced"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
''',
    callbacks='''
"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None."""
    return []
''',
    pictures='''
"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """None."""
    return


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """None."""
    return
''',
)


# ------------------------------------------------------------------------------------------------
# Points in an image, of which some can't be seen.

POINTS = whole(
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Keypoints: where the left end, the right end and the tail of an object are."""

    learning_rate: float = 3e-3  # the learning rate at the start
    l2: float = 1e-5  # weight of the L2 penalty of the kernels
    patience: int = 4  # validations without a better one, after which the learning rate halves
    flip: bool = True  # whether half of the training images are mirrored
    monitor: str = "validation_distance"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better
''',
    data='''
"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

SIZE, POINTS = 24, 3
LEFT, RIGHT, TAIL = 0, 1, 2
COUNTS = {"train": 1500, "validation": 300, "test": 300}


def _draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image (SIZE, SIZE, 1) from 0 to 255, points (POINTS, 2) as x, y in pixels, visible or not."""
    center = rng.uniform(9, 15, 2)
    turn, span = rng.uniform(-0.6, 0.6), rng.uniform(5, 8)
    across = np.array([np.cos(turn), np.sin(turn)])
    down = np.array([-np.sin(turn), np.cos(turn)])
    points = np.stack([center - across * span, center + across * span, center + down * span])
    points = np.clip(points, 0, SIZE - 1)
    visible = rng.random(POINTS) > 0.2
    y, x = np.mgrid[:SIZE, :SIZE]
    image = np.zeros((SIZE, SIZE))
    body = np.linspace(0, 1, 12)
    for t in body:  # a thin body joins the points
        for a, b in ((0, 1), (2, None)):
            end = center if b is None else points[b]
            place = points[a] * (1 - t) + end * t
            image += 25 * np.exp(-((x - place[0]) ** 2 + (y - place[1]) ** 2) / 1.0)
    for i, radius in enumerate((1.2, 1.2, 2.0)):
        if visible[i]:
            away = (x - points[i, 0]) ** 2 + (y - points[i, 1]) ** 2
            image += 180 * np.exp(-away / (2 * radius**2))
    image = image + rng.normal(0, 12, image.shape)
    points[~visible] = -1.0  # unknown
    return np.clip(image, 0, 255)[..., None], points, visible


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, SIZE, SIZE, 1) from 0 to 255; labels by name.

    "points" are float32 (n, POINTS, 2), x and y from 0 to 1, -1 where unknown; "visible" is float32
    (n, POINTS), 1 where the point can be seen.
    """
    splits = {}
    for seed, (name, number) in enumerate(COUNTS.items()):
        rng = np.random.default_rng(100 + seed)
        images, points, visible = map(np.stack, zip(*[_draw(rng) for _ in range(number)]))
        scaled = np.where(visible[..., None], points / (SIZE - 1), -1.0)
        labels = {"points": scaled.astype("float32"), "visible": visible.astype("float32")}
        splits[name] = (images.astype("float32"), labels)
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Mirrors half of the images: left and right change places; a little brighter or darker."""
    if not task.flip:
        return None

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        images, labels, weights = batch
        rows = images.shape[0]
        seeds = tf.random.split(seed, 2)
        mirrored = tf.random.stateless_uniform((rows,), seeds[0]) < 0.5  # (rows,)
        gain = tf.random.stateless_uniform((rows, 1, 1, 1), seeds[1], 0.8, 1.2, images.dtype)
        images = tf.where(mirrored[:, None, None, None], images[:, :, ::-1], images) * gain
        points, visible = labels["points"], labels["visible"]
        x, y = points[..., 0], points[..., 1]
        other = tf.stack([tf.where(visible > 0, 1 - x, x), y], axis=-1)
        other = tf.gather(other, [RIGHT, LEFT, TAIL], axis=1)
        points = tf.where(mirrored[:, None, None], other, points)
        seen = tf.gather(visible, [RIGHT, LEFT, TAIL], axis=1)
        visible = tf.where(mirrored[:, None], seen, visible)
        return images, {"points": points, "visible": visible}, weights

    return augment
''',
    model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import POINTS, SIZE


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and deviation of the pixels in training."""
    images = datasets["train"][0]
    return {"mean": images.mean(), "deviation": images.std()}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images (batch, SIZE, SIZE, 1) -> points (batch, POINTS, 2), visible (batch, POINTS) logits."""
    layers, floatx = keras.layers, keras.config.floatx()
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input((SIZE, SIZE, 1), name="image")
    mean, deviation = float(adapted["mean"]), float(adapted["deviation"])
    x = layers.Rescaling(1 / deviation, -mean / deviation)(images)
    for number, filters in enumerate((16, 32)):
        x = layers.Conv2D(
            filters, 3, padding="same", use_bias=False, kernel_regularizer=l2, name=f"conv{number}"
        )(x)
        x = layers.BatchNormalization(momentum=0.9, name=f"norm{number}")(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Flatten()(x)
    x = layers.Dense(96, activation="relu", kernel_regularizer=l2, name="hidden")(x)
    points = layers.Dense(POINTS * 2, activation="sigmoid", dtype=floatx, name="where")(x)
    points = layers.Reshape((POINTS, 2), dtype=floatx, name="points")(points)
    visible = layers.Dense(POINTS, dtype=floatx, name="visible")(x)
    return keras.Model(images, {"points": points, "visible": visible})
''',
    losses='''
"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from .config import TaskConfig
from .data import POINTS


BETA = 0.05  # errors below are squared, larger ones count as they are


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; each gives a number for each point, (batch, POINTS)."""
    huber = keras.losses.Huber(delta=BETA, reduction="none")
    binary = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")
    return {
        "points": lambda labels, points: huber(labels, points) / BETA,
        "visible": lambda labels, logits: binary(labels[..., None], logits[..., None]),
    }


def weights_of_points(batch: Any) -> tf.Tensor:
    """The weight of each point, (batch, POINTS): 0 where it can't be seen, and in padding."""
    _, labels, weights = batch
    return labels["visible"] * weights[:, None]


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many points can be seen, and how many there are: int32."""
    return {
        "points": tf.math.count_nonzero(weights_of_points(batch), dtype=tf.int32),
        "visible": POINTS * tf.math.count_nonzero(batch[-1], dtype=tf.int32),
    }
''',
    metrics='''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Means over visible points: distance in pixels, part that is near; accuracy of visible."""
    return {
        "distance": keras.metrics.Mean(),
        "near": keras.metrics.Mean(),
        "visible_accuracy": keras.metrics.Mean(),
    }
''',
    optimizer='''
"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam; a callback halves its learning rate on a plateau."""
    return keras.optimizers.Adam(task.learning_rate)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
    steps='''
"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import SIZE
from .losses import weights_of_points

Batch = tuple[Any, ...]  # the parts of an example in create_datasets, then weights (batch,)


NEAR = 2.0  # pixels


def _loss(run: Run, batch: Batch, replica: Replica, outputs: Any) -> dict[str, tf.Tensor]:
    """Updates the metrics; the loss and its two terms."""
    _, labels, weights = batch
    of_points = weights_of_points(batch)  # (batch, POINTS)
    of_visible = tf.ones_like(of_points) * weights[:, None]  # (batch, POINTS)
    points = tf.nn.compute_average_loss(
        run.losses["points"](labels["points"], outputs["points"]),
        sample_weight=of_points,
        global_batch_size=replica.global_count["points"],
    )
    visible = tf.nn.compute_average_loss(
        run.losses["visible"](labels["visible"], outputs["visible"]),
        sample_weight=of_visible,
        global_batch_size=replica.global_count["visible"],
    )
    pixels = (outputs["points"] - labels["points"]) * (SIZE - 1)
    distance = tf.norm(pixels, axis=-1)  # (batch, POINTS)
    run.metrics["distance"].update_state(distance, of_points)
    run.metrics["near"].update_state(tf.cast(distance < NEAR, tf.float32), of_points)
    right = tf.equal(outputs["visible"] > 0, labels["visible"] > 0)
    run.metrics["visible_accuracy"].update_state(tf.cast(right, tf.float32), of_visible)
    penalty = tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": points + 0.3 * visible + penalty, "points": points, "visible": visible}


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    outputs = run.model(batch[0], training=True)
    return _loss(run, batch, replica, outputs)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    outputs = run.model(batch[0], training=False)
    return _loss(run, batch, replica, outputs)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ("points", "visible")  # names of other scalars that steps return, summed over replicas
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
''',
    callbacks='''
"""Functions that are called during training."""

from __future__ import annotations

from typing import Any

from ..engine.callbacks import Callback, Event, every_validation
from .config import TaskConfig


class Halve:
    """Halves the learning rate after `patience` validations without a better one."""

    def __init__(self, column: str, patience: int) -> None:
        self.column = column
        self.patience = patience
        self.best = float("inf")
        self.waited = 0

    def __call__(self, event: Event) -> None:
        """Look at the latest validation."""
        value = event.history[-1][self.column]
        if value < self.best:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            optimizer = event.run.optimizers["main"]
            optimizer.learning_rate = optimizer.learning_rate / 2
            self.waited = 0

    def get_state(self) -> dict[str, Any]:
        """What a resumed run continues from."""
        return {"best": self.best, "waited": self.waited}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue."""
        self.best, self.waited = state["best"], state["waited"]


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """A smaller learning rate on a plateau."""
    return [every_validation(Halve("validation_distance", task.patience))]
''',
    pictures='''
"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """None."""
    return


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """None."""
    return
''',
)


# ------------------------------------------------------------------------------------------------
# Items for users, found among those of the batch by two towers.

TOWERS = whole(
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Recommendations: which item a user takes next, by two towers."""

    learning_rate: float = 1e-2  # the learning rate at the start; it falls to 0 along a cosine
    size: int = 16  # numbers in the vector of a user or an item
    dropout: float = 0.1  # part of a user's history that is left out in training
    temperature: float = 0.1  # what similarities are divided by
    monitor: str = "validation_mrr"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better
''',
    data='''
"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

USERS, ITEMS, KINDS = 892, 150, 12
HISTORY, TAKES = 6, 4  # items of the history that are looked at; examples of each user
PARTS = {"train": (0, 700), "validation": (700, 796), "test": (796, 892)}  # of the users


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs by name: a user's history and age, an item's id, kind and price; labels are the ids.

    Ids of items are from 1 to ITEMS; 0 fills up a history that is short. No user is in two splits.
    """
    rng = np.random.default_rng(11)
    kinds = rng.integers(1, KINDS + 1, ITEMS + 1)  # of items; that of item 0 isn't used
    prices = rng.lognormal(3, 0.6, ITEMS + 1)
    popularity = 1 / np.arange(1, ITEMS + 1) ** 0.6
    tastes = rng.normal(0, 1.0, (4, KINDS + 1))
    user_groups = rng.integers(0, 4, USERS)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("history", "age", "item", "kind", "price", "user")
    }
    for user in range(USERS):
        age = 20 + 12 * user_groups[user] + rng.normal(0, 3)
        liked = tastes[user_groups[user]] * 2.0 + rng.normal(0, 0.5, KINDS + 1)
        score = 1.5 * liked[kinds[1:]] - 0.8 * np.log(prices[1:]) * (age < 40)
        chance = popularity * np.exp(score)
        items = 1 + rng.choice(ITEMS, HISTORY + TAKES, replace=False, p=chance / chance.sum())
        known = int(rng.integers(2, HISTORY + 1))
        history = np.zeros(HISTORY, "int32")
        history[:known] = items[:known]
        for item in items[HISTORY:]:
            columns["history"].append(history)
            columns["age"].append(age)
            columns["item"].append(item)
            columns["kind"].append(kinds[item])
            columns["price"].append(prices[item])
            columns["user"].append(user)
    dtypes = {"age": "float32", "price": "float32"}
    arrays = {name: np.array(rows, dtypes.get(name, "int32")) for name, rows in columns.items()}
    users = arrays.pop("user")
    splits = {}
    for name, (first, last) in PARTS.items():
        rows = (users >= first) & (users < last)
        splits[name] = ({key: value[rows] for key, value in arrays.items()}, arrays["item"][rows])
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Leaves out some items of each history."""
    if not task.dropout:
        return None

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, labels, weights = batch
        history = inputs["history"]  # (batch, HISTORY)
        left_out = tf.random.stateless_uniform(history.shape, seed) < task.dropout
        first = tf.range(HISTORY)[tf.newaxis] == 0  # one item stays
        kept = tf.where(left_out & ~first, tf.zeros_like(history), history)
        return {**inputs, "history": kept}, labels, weights

    return augment
''',
    model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import HISTORY, ITEMS, KINDS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Means and deviations in training, and how often each item is taken there."""
    inputs, items = datasets["train"]
    price = np.log(inputs["price"])
    counts = np.bincount(items, minlength=ITEMS + 1) + 1.0
    return {
        "age_mean": inputs["age"].mean(),
        "age_deviation": inputs["age"].std(),
        "price_mean": price.mean(),
        "price_deviation": price.std(),
        "log_share": np.log(counts / counts.sum()).astype("float32"),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Two towers: each gives unit vectors float32 (batch, size)."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()

    history = keras.Input((HISTORY,), dtype="int32", name="history")
    age = keras.Input((), name="age")
    there = ops.cast(history > 0, floatx)[..., None]  # (batch, HISTORY, 1)
    x = layers.Embedding(ITEMS + 1, task.size, name="taken")(history)  # (batch, HISTORY, size)
    x = ops.sum(x * there, axis=1) / ops.maximum(ops.sum(there, axis=1), 1.0)
    scaled = (age - float(adapted["age_mean"])) / float(adapted["age_deviation"])
    x = layers.Concatenate()([x, scaled[:, None]])
    x = layers.Dense(48, activation="relu", name="user_hidden")(x)
    x = layers.Dense(task.size, dtype=floatx, name="user_vector")(x)
    users = keras.Model(
        {"history": history, "age": age}, layers.UnitNormalization(dtype=floatx)(x), name="user"
    )

    item = keras.Input((), dtype="int32", name="item")
    kind = keras.Input((), dtype="int32", name="kind")
    price = keras.Input((), name="price")
    scaled = (ops.log(price) - float(adapted["price_mean"])) / float(adapted["price_deviation"])
    x = layers.Concatenate()(
        [
            layers.Embedding(ITEMS + 1, task.size, name="id")(item),
            layers.Embedding(KINDS + 1, 8, name="kind_vector")(kind),
            scaled[:, None],
        ]
    )
    x = layers.Dense(48, activation="relu", name="item_hidden")(x)
    x = layers.Dense(task.size, dtype=floatx, name="item_vector")(x)
    items = keras.Model(
        {"item": item, "kind": kind, "price": price},
        layers.UnitNormalization(dtype=floatx)(x),
        name="item",
    )
    return {"user": users, "item": items}
''',
    losses='''
"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name; labels and logits give one number per example."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, int32."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, models: dict[str, keras.Model], replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas."""
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    penalty = tf.add_n([replica.regularization(model) for model in models.values()])
    return loss + tf.nn.scale_regularization_loss(penalty)
''',
    metrics='''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Mean of 1 / rank, and how often the item is among the first five."""
    return {"mrr": keras.metrics.Mean(), "hit5": keras.metrics.Mean()}
''',
    optimizer='''
"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam with a learning rate that falls to 0 along a cosine."""
    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(task.learning_rate, steps))


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
    steps='''
"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[Any, ...]  # the parts of an example in create_datasets, then weights (batch,)


LARGE = 1e9


def _loss(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Each user must find the item among those of the whole batch."""
    inputs, items, weights = batch
    users = run.models["user"](
        {"history": inputs["history"], "age": inputs["age"]}, training=training
    )  # (rows, size)
    vectors = run.models["item"](
        {"item": inputs["item"], "kind": inputs["kind"], "price": inputs["price"]},
        training=training,
    )  # (rows, size)
    candidates = replica.all_gather(vectors)  # (all rows, size)
    ids = replica.all_gather(items)  # (all rows,)
    there = replica.all_gather(weights) > 0  # (all rows,), False for padding
    rows = users.shape[0]
    own = replica.index * rows + tf.range(rows)  # (rows,), where this replica's rows are
    logits = tf.matmul(users, candidates, transpose_b=True) / run.task.temperature
    is_own = tf.one_hot(own, candidates.shape[0], True, False, dtype=tf.bool)
    # The same item in another row is no negative.
    same = tf.equal(items[:, tf.newaxis], ids[tf.newaxis]) & ~is_own
    usable = there[tf.newaxis] & ~same  # (rows, all rows)
    # Popular items are negatives more often: the correction of sampled softmax.
    share = tf.gather(tf.constant(run.adapted["log_share"], logits.dtype), ids)
    corrected = tf.where(usable, logits - share[tf.newaxis], -LARGE)
    per_example = run.losses["main"](own, corrected)  # (rows,)
    plain = tf.where(usable, logits, -LARGE)
    of_own = tf.reduce_sum(tf.where(is_own, plain, 0.0), axis=1, keepdims=True)
    rank = 1 + tf.math.count_nonzero(plain > of_own, axis=1)  # (rows,)
    run.metrics["mrr"].update_state(1 / tf.cast(rank, logits.dtype), weights)
    run.metrics["hit5"].update_state(tf.cast(rank <= 5, logits.dtype), weights)
    return {"main": compute_loss(per_example, weights, run.models, replica)}


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _loss(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _loss(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = True
''',
    callbacks='''
"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None."""
    return []
''',
    pictures='''
"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """None."""
    return


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """None."""
    return
''',
)


POINTS_LINEAR = (
    *POINTS,
    Edit(
        "model.py",
        '    points = layers.Dense(POINTS * 2, activation="sigmoid", dtype=floatx, name="where")(x)\n',
        '    points = layers.Dense(POINTS * 2, dtype=floatx, name="where")(x)\n',
    ),
)


POINTS_GAUSS = (
    *POINTS,
    Edit(
        "data.py",
        "    points[~visible] = -1.0  # unknown\n",
        "    points[~visible] = np.nan  # unknown\n",
    ),
    Edit(
        "data.py",
        '    "points" are float32 (n, POINTS, 2), x and y from 0 to 1, -1 where unknown; "visible" is float32\n',
        '    "points" are float32 (n, POINTS, 2), x and y from 0 to 1, NaN where unknown; "visible" is float32\n',
    ),
    Edit(
        "data.py",
        "        scaled = np.where(visible[..., None], points / (SIZE - 1), -1.0)\n",
        "        scaled = np.where(visible[..., None], points / (SIZE - 1), np.nan)\n",
    ),
    Edit(
        "model.py",
        '    visible = layers.Dense(POINTS, dtype=floatx, name="visible")(x)\n    return keras.Model(images, {"points": points, "visible": visible})\n',
        '    spread = layers.Dense(POINTS, dtype=floatx, name="spread")(x)  # log variances\n    visible = layers.Dense(POINTS, dtype=floatx, name="visible")(x)\n    return keras.Model(images, {"points": points, "visible": visible, "spread": spread})\n',
    ),
    Edit(
        "losses.py",
        '    huber = keras.losses.Huber(delta=BETA, reduction="none")\n    binary = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")\n    return {\n        "points": lambda labels, points: huber(labels, points) / BETA,\n',
        '\n    def gauss(labels: tf.Tensor, points: tf.Tensor, spread: tf.Tensor) -> tf.Tensor:\n        """Negative log likelihood of a Gaussian with its own variance; may be below 0."""\n        log_variance = 2 * tf.math.log(BETA) + 3 * tf.tanh(spread / 3)\n        squared = tf.reduce_sum(tf.square(labels - points), axis=-1)  # (batch, POINTS)\n        likelihood = 0.5 * squared * tf.exp(-log_variance) + log_variance\n        # Points far off would be given up: beta-NLL (Seitzer et al., 2022), with beta = 1.\n        scale = tf.stop_gradient(tf.exp(log_variance)) / BETA**2\n        return likelihood * scale\n\n    binary = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")\n    return {\n        "points": gauss,\n',
    ),
    Edit("steps.py", "from .data import SIZE\n", "from .data import LEFT, RIGHT, SIZE, TAIL\n"),
    Edit(
        "steps.py",
        '    of_visible = tf.ones_like(of_points) * weights[:, None]  # (batch, POINTS)\n    points = tf.nn.compute_average_loss(\n        run.losses["points"](labels["points"], outputs["points"]),\n',
        '    # NaN is replaced before the loss, since 0 x NaN is NaN.\n    known = tf.where(of_points[..., None] > 0, labels["points"], 0.5)\n    of_visible = tf.ones_like(of_points) * weights[:, None]  # (batch, POINTS)\n    points = tf.nn.compute_average_loss(\n        run.losses["points"](known, outputs["points"], outputs["spread"]),\n',
    ),
    Edit(
        "steps.py",
        '    pixels = (outputs["points"] - labels["points"]) * (SIZE - 1)\n',
        '    pixels = (outputs["points"] - known) * (SIZE - 1)\n',
    ),
    Edit(
        "steps.py",
        '    return {"main": points + 0.3 * visible + penalty, "points": points, "visible": visible}\n',
        '    return {"main": 0.1 * points + 0.3 * visible + penalty, "points": points, "visible": visible}\n',
    ),
    Edit(
        "steps.py",
        "    outputs = run.model(batch[0], training=False)\n",
        '    # The mean of the image\'s predictions and of its mirror image\'s, as it is used later.\n    images = batch[0]\n    outputs = run.model(images, training=False)\n    mirrored = run.model(images[:, :, ::-1], training=False)\n    back = [RIGHT, LEFT, TAIL]\n    x, y = mirrored["points"][..., 0], mirrored["points"][..., 1]\n    mirrored["points"] = tf.stack([1 - x, y], axis=-1)\n    outputs = {\n        name: (value + tf.gather(mirrored[name], back, axis=1)) / 2\n        for name, value in outputs.items()\n    }\n',
    ),
)


SERIES_MIXUP = (
    *SERIES,
    Edit(
        "data.py",
        '    """Series and lengths by name, labels int64 (n,), for training weights float32 (n,).\n',
        '    """Series and lengths by name, labels float32 (n, CLASSES), one-hot, for training weights float32 (n,).\n',
    ),
    Edit(
        "data.py",
        '    return splits\n\n\ndef create_augment(task: TaskConfig) -> Callable[..., Any] | None:\n    """Scales each series and adds noise; the padding stays zero."""\n',
        '    one_hot = np.eye(CLASSES, dtype="float32")\n    return {name: (parts[0], one_hot[parts[1]], *parts[2:]) for name, parts in splits.items()}\n\n\ndef create_augment(task: TaskConfig) -> Callable[..., Any] | None:\n    """Mixup (Zhang et al., 2018): each series is mixed with another one, and so are the labels."""\n',
    ),
    Edit(
        "data.py",
        '        changed = (signal - offsets) * gain + offsets + task.noise * scales * noise\n        return {"signal": changed * there, "length": length}, labels, weights\n',
        '        changed = ((signal - offsets) * gain + offsets + task.noise * scales * noise) * there\n        rows = signal.shape[0]\n        u = tf.random.stateless_uniform((rows, 1), tf.random.split(seed, 3)[2])\n        part = 1 - 0.4 * u**3  # (rows, 1), of itself: 0.6 to 1, mostly near 1\n        other = tf.roll(tf.range(rows), 1, 0)\n        values = (changed - offsets) * there  # around 0, so that padding stays 0\n        mixed = part[:, None] * values + (1 - part[:, None]) * tf.gather(values, other)\n        length = tf.maximum(length, tf.gather(length, other))\n        there = tf.cast(tf.sequence_mask(length, LENGTH), signal.dtype)[..., tf.newaxis]\n        labels = part * labels + (1 - part) * tf.gather(labels, other)\n        return {"signal": (mixed + offsets) * there, "length": length}, labels, weights\n',
    ),
    Edit(
        "losses.py",
        '    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}\n',
        '    return {"main": keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.05, reduction="none")}\n',
    ),
    Edit(
        "metrics.py",
        '        """Labels (batch,), logits (batch, CLASSES)."""\n        dtype = self.right.dtype\n        label = ops.one_hot(ops.cast(y_true, "int32"), CLASSES, dtype=dtype)  # (batch, CLASSES)\n        found = ops.cast(ops.argmax(y_pred, axis=-1) == ops.cast(y_true, "int32"), dtype)\n',
        '        """Labels (batch, CLASSES), logits (batch, CLASSES)."""\n        dtype = self.right.dtype\n        most = ops.argmax(y_true, axis=-1)  # (batch,)\n        label = ops.one_hot(most, CLASSES, dtype=dtype)  # (batch, CLASSES)\n        found = ops.cast(ops.argmax(y_pred, axis=-1) == most, dtype)\n',
    ),
    Edit(
        "metrics.py",
        '        "accuracy": keras.metrics.SparseCategoricalAccuracy(),\n',
        '        "accuracy": keras.metrics.CategoricalAccuracy(),\n',
    ),
)


SERIES_RANDOM = (
    *SERIES,
    Edit(
        "model.py",
        '    x = layers.Conv1D(24, 5, padding="same", activation="relu", name="conv1")(x) * mask\n    x = layers.Conv1D(24, 5, padding="same", activation="relu", name="conv2")(x) * mask\n    x = layers.Dropout(task.dropout)(x)\n    x = layers.GRU(32, return_sequences=True, name="gru")(x, mask=there)\n    x = ops.sum(x * mask, axis=1) / ops.sum(mask, axis=1)  # the mean over what is there\n',
        '    # As ROCKET (Dempster et al., 2020): random kernels that never train, two statistics of each.\n    parts = []\n    for dilation in (1, 2, 4, 8):\n        kernels = layers.Conv1D(\n            64,\n            7,\n            padding="same",\n            dilation_rate=dilation,\n            kernel_initializer=keras.initializers.RandomNormal(stddev=0.4, seed=dilation),\n            bias_initializer=keras.initializers.RandomUniform(-1, 1, seed=dilation),\n            trainable=False,\n            name=f"random{dilation}",\n        )\n        y = kernels(x)\n        above = ops.cast(y > 0, y.dtype) * mask  # the part of the time that is positive\n        parts.append(ops.sum(above, axis=1) / ops.sum(mask, axis=1))\n        parts.append(ops.max(ops.where(mask > 0, y, -10.0), axis=1) / 4)\n    x = layers.Concatenate()(parts)\n',
    ),
    Edit(
        "optimizer.py",
        '    """AdamW; the learning rate rises, then falls to 0 along a cosine at the last step."""\n    warmup = max(1, int(task.warmup * steps))\n    rate = keras.optimizers.schedules.CosineDecay(\n        0.0, max(1, steps - warmup), warmup_target=task.learning_rate, warmup_steps=warmup\n    )\n    return keras.optimizers.AdamW(rate, weight_decay=1e-3)\n',
        '    """SGD with momentum; warm restarts of the learning rate (Loshchilov & Hutter, 2017)."""\n    rate = keras.optimizers.schedules.CosineDecayRestarts(\n        10 * task.learning_rate, max(1, steps // 7), t_mul=2.0, m_mul=0.8\n    )\n    return keras.optimizers.SGD(rate, momentum=0.9, nesterov=True)\n',
    ),
)


TOWERS_CATALOGUE = (
    *TOWERS,
    Edit(
        "data.py",
        '        splits[name] = ({key: value[rows] for key, value in arrays.items()}, arrays["item"][rows])\n    return splits\n',
        '        inputs = {key: value[rows] for key, value in arrays.items()}\n        if name != "train":  # the whole catalogue is looked at: inputs know nothing of the item\n            inputs["item"] = inputs["item"] * 0 + 1\n            inputs["kind"] = inputs["kind"] * 0 + kinds[1].astype("int32")\n            inputs["price"] = inputs["price"] * 0 + prices[1].astype("float32")\n        splits[name] = (inputs, arrays["item"][rows])\n    return splits\n\n\ndef catalogue() -> dict[str, np.ndarray]:\n    """Id, kind and price of each item, (ITEMS,)."""\n    rng = np.random.default_rng(11)\n    kinds = rng.integers(1, KINDS + 1, ITEMS + 1)\n    prices = rng.lognormal(3, 0.6, ITEMS + 1)\n    return {\n        "item": np.arange(1, ITEMS + 1, dtype="int32"),\n        "kind": kinds[1:].astype("int32"),\n        "price": prices[1:].astype("float32"),\n    }\n',
    ),
    Edit(
        "model.py",
        "from .data import HISTORY, ITEMS, KINDS\n",
        "from .data import HISTORY, ITEMS, KINDS, catalogue\n",
    ),
    Edit(
        "model.py",
        '    return {\n        "age_mean": inputs["age"].mean(),\n',
        '    return {\n        **{f"all_{name}": values for name, values in catalogue().items()},\n        "age_mean": inputs["age"].mean(),\n',
    ),
    Edit(
        "steps.py",
        '    """This replica\'s contribution to the validation loss."""\n    return _loss(run, batch, replica, training=False)\n',
        '    """How well each user finds the item in the whole catalogue."""\n    inputs, items, weights = batch\n    users = run.models["user"](\n        {"history": inputs["history"], "age": inputs["age"]}, training=False\n    )  # (rows, size)\n    names = ("item", "kind", "price")\n    vectors = run.models["item"](\n        {name: tf.constant(run.adapted[f"all_{name}"]) for name in names}, training=False\n    )  # (ITEMS, size)\n    logits = tf.matmul(users, vectors, transpose_b=True) / run.task.temperature\n    own = items - 1  # (rows,), ids begin with 1\n    per_example = run.losses["main"](own, logits)  # (rows,)\n    of_own = tf.gather(logits, own, axis=1, batch_dims=1)[:, tf.newaxis]\n    rank = 1 + tf.math.count_nonzero(logits > of_own, axis=1)  # (rows,)\n    run.metrics["mrr"].update_state(1 / tf.cast(rank, logits.dtype), weights)\n    run.metrics["hit5"].update_state(tf.cast(rank <= 5, logits.dtype), weights)\n    return {"main": compute_loss(per_example, weights, run.models, replica)}\n',
    ),
)


TASKS: tuple[Change, ...] = (
    change_of(name="series, correct", project="blank", edits=SERIES),
    change_of(name="points, correct", project="blank", edits=POINTS),
    change_of(name="towers, correct", project="blank", edits=TOWERS),
    change_of(name="points, without a last activation", project="blank", edits=POINTS_LINEAR),
    change_of(
        name="points, unknown ones NaN, with a variance", project="blank", edits=POINTS_GAUSS
    ),
    change_of(name="series, mixed in pairs, with soft labels", project="blank", edits=SERIES_MIXUP),
    change_of(name="series, in other parts each time", project="blank", edits=SERIES_RANDOM),
    change_of(
        name="towers, validated on the whole catalog", project="blank", edits=TOWERS_CATALOGUE
    ),
)


FAULTS: tuple[Fault, ...] = (
    fault_in(
        name="series, adapt takes mean and deviation from the test split",
        project="blank",
        edits=(
            *SERIES,
            Edit("model.py", 'inputs = datasets["train"][0]', 'inputs = datasets["test"][0]'),
        ),
        kind="plain",
        cause="Adapt takes mean and deviation from the test split.",
        file="model.py",
        named=r"(test|other) (data|split|examples).*(statistic|mean|normali|scal)|adapt.*(test|only.*train)|scaled by.*test",
    ),
    fault_in(
        name="series, rows are split at random, so every person is in all three splits",
        project="blank",
        edits=(
            *SERIES,
            Edit(
                "data.py",
                "        rows = (person_ >= first) & (person_ < last)",
                "        rows = (order >= first * PER_PERSON) & (order < last * PER_PERSON)",
            ),
            Edit(
                "data.py",
                "    person_ = np.array(people)",
                "    order = rng.permutation(len(people))",
            ),
        ),
        kind="subtle",
        cause="Rows are split at random, so every person is in all three splits (leak).",
        file="data.py",
        named=r"same (person|group|source)|group|splits? (share|overlap)|leak|in two splits|near.?duplicat",
    ),
    fault_in(
        name="series, the schedule gets the number of epochs",
        project="blank",
        edits=(
            *SERIES,
            Edit(
                "optimizer.py",
                "    warmup = max(1, int(task.warmup * steps))",
                "    steps = 40  # epochs\n    warmup = max(1, int(task.warmup * steps))",
            ),
        ),
        kind="plain",
        cause="The schedule gets the number of epochs (40) where steps are meant: rate is 0 after 40 steps.",
        file="optimizer.py",
        named=r"learning rate.*(0|zero|ends|falls|early)|schedule.*(epoch|steps|ends)|epochs.*steps",
    ),
    fault_in(
        name="series, softmax in the last layer and from_logits=True",
        project="blank",
        edits=(
            *SERIES,
            Edit(
                "model.py",
                "layers.Dense(CLASSES, dtype",
                'layers.Dense(CLASSES, activation="softmax", dtype',
            ),
        ),
        kind="plain",
        cause="Softmax in the last layer and from_logits=True: double softmax.",
        file="model.py",
        named=r"softmax|from_logits|last (layer|activation)|not logits|probabilit",
    ),
    fault_in(
        name="series, validation and test call the model with training=True",
        project="blank",
        edits=(
            *SERIES,
            Edit(
                "steps.py",
                "logits = run.model(inputs, training=False)",
                "logits = run.model(inputs, training=True)",
            ),
        ),
        kind="plain",
        cause="Validation and test call the model with training=True: dropout left on.",
        file="steps.py",
        named=r"training=True|dropout|training mode|training=False",
    ),
    fault_in(
        name="series, pooling sums over the features",
        project="blank",
        edits=(
            *SERIES,
            Edit(
                "model.py",
                "x = ops.sum(x * mask, axis=1) / ops.sum(mask, axis=1)",
                "x = ops.sum(x * mask, axis=2) / ops.sum(mask, axis=1)",
            ),
        ),
        kind="plain",
        cause="Pooling sums over the features (axis 2) instead of the time (axis 1).",
        file="model.py",
        named=r"axis|axes|reduc|over (the )?(features|channels|time)|position",
    ),
    fault_in(
        name="series, class weights are the shares of the classes, not their inverses",
        project="blank",
        edits=(
            *SERIES,
            Edit(
                "data.py",
                '(len(train_labels) / (CLASSES * counts))[train_labels].astype("float32")',
                '(CLASSES * counts / len(train_labels))[train_labels].astype("float32")',
            ),
        ),
        kind="subtle",
        cause="Class weights are the shares of the classes, not their inverses: common classes weigh most.",
        file="data.py",
        named=r"weight.*(class|label|common|frequent|rare|balanc|invers)|(class|label).*weight",
    ),
    fault_in(
        name="series, balanced accuracy divides by the predictions of each class",
        project="blank",
        edits=(
            *SERIES,
            Edit(
                "metrics.py",
                'label = ops.one_hot(ops.cast(y_true, "int32"), CLASSES, dtype=dtype)',
                "label = ops.one_hot(ops.argmax(y_pred, axis=-1), CLASSES, dtype=dtype)",
            ),
        ),
        kind="subtle",
        cause="Balanced accuracy divides by the predictions of each class (precision), not by its labels.",
        file="metrics.py",
        named=r"balanced.*(predict|label|precision|not follow|perfect|counts|worse|better|wrong)|metric.*(predicted|precision|constant)",
    ),
    fault_in(
        name="points, mirrored images keep left and right",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "data.py",
                "other = tf.gather(other, [RIGHT, LEFT, TAIL], axis=1)",
                "other = tf.gather(other, [LEFT, RIGHT, TAIL], axis=1)",
            ),
            Edit(
                "data.py",
                "seen = tf.gather(visible, [RIGHT, LEFT, TAIL], axis=1)",
                "seen = tf.gather(visible, [LEFT, RIGHT, TAIL], axis=1)",
            ),
        ),
        kind="plain",
        cause="Mirrored images keep left and right: the labels aren't exchanged.",
        file="data.py",
        named=r"(flip|mirror|augment).*(label|point|left|right|swap|exchang)|label.*(flip|mirror|augment)",
    ),
    fault_in(
        name="points, the loss of the points counts invisible ones",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "steps.py",
                "sample_weight=of_points,\n        global",
                "sample_weight=of_visible,\n        global",
            ),
        ),
        kind="plain",
        cause="The loss of the points counts invisible ones (labels -1) too.",
        file="steps.py",
        named=r"(missing|unknown|invisible|ignored|sentinel|-1).*(label|loss|count|mask|weight)|label.*(missing|unknown|-1)|mask|not (masked|left out)",
    ),
    fault_in(
        name="points, the train step calls the model with training=False",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "steps.py",
                "outputs = run.model(batch[0], training=True)",
                "outputs = run.model(batch[0], training=False)",
            ),
        ),
        kind="plain",
        cause="The train step calls the model with training=False: BatchNormalization never learns its statistics.",
        file="steps.py",
        named=r"training=(True|False)|training mode|moving (mean|statistic|average)|batchnorm|norm0|evaluation mode",
    ),
    fault_in(
        name="points, the metric distance gets no weights",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "steps.py",
                'run.metrics["distance"].update_state(distance, of_points)',
                'run.metrics["distance"].update_state(distance)',
            ),
        ),
        kind="plain",
        cause="The metric distance gets no weights: invisible points (-1) and padding count.",
        file="steps.py",
        named=r"distance.*(weight|padding|missing|mask)|metric.*(weight|padding|mask)",
    ),
    fault_in(
        name="points, convolutions and normalizations stay frozen",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "model.py",
                '    return keras.Model(images, {"points": points, "visible": visible})',
                '    model = keras.Model(images, {"points": points, "visible": visible})\n    for layer in model.layers:\n        if layer.name.startswith(("conv", "norm")):\n            layer.trainable = False\n    return model',
            ),
        ),
        kind="plain",
        cause="Convolutions and normalizations stay frozen (trainable=False left over from fine-tuning).",
        file="model.py",
        named=r"frozen|trainable|no gradient|never (move|train)|do(es)?n.t (move|train)|random weights|initial",
    ),
    fault_in(
        name="points, the loss of visible is the mean over the replica's rows",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "steps.py",
                '    visible = tf.nn.compute_average_loss(\n        run.losses["visible"](labels["visible"], outputs["visible"]),\n        sample_weight=of_visible,\n        global_batch_size=replica.global_count["visible"],\n    )',
                '    visible = tf.reduce_mean(\n        run.losses["visible"](labels["visible"], outputs["visible"]) * of_visible\n    )',
            ),
        ),
        kind="plain",
        cause="The loss of visible is the mean over the replica's rows: N times too large on N replicas, padding counts.",
        file="steps.py",
        named=r"replica|padding|rows? of weight|denominator|count|reduce_mean|divid",
    ),
    fault_in(
        name="points, the callback's state doesn't keep `best`",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "callbacks.py",
                'return {"best": self.best, "waited": self.waited}',
                'return {"waited": self.waited}',
            ),
            Edit(
                "callbacks.py",
                'self.best, self.waited = state["best"], state["waited"]',
                'self.waited = state["waited"]',
            ),
        ),
        kind="subtle",
        cause="The callback's state doesn't keep `best`: a resumed run takes any value for the best.",
        file="callbacks.py",
        named=r"state|resum|checkpoint|get_state|best",
    ),
    fault_in(
        name="points, mirroring exchanges the points but not `visible`",
        project="blank",
        edits=(
            *POINTS,
            Edit(
                "data.py",
                "visible = tf.where(mirrored[:, None], seen, visible)",
                "visible = tf.where(mirrored[:, None], visible, visible)",
            ),
        ),
        kind="subtle",
        cause="Mirroring exchanges the points but not `visible`: labels of -1 count as visible.",
        file="data.py",
        named=r"(flip|mirror|augment).*(visible|label|weight)|visible.*(augment|flip|mirror|swap)|(-1|missing|unknown)",
    ),
    fault_in(
        name="towers, negatives are only those of the replica",
        project="blank",
        edits=(
            *TOWERS,
            Edit("steps.py", "replica.all_gather(vectors)", "vectors"),
            Edit("steps.py", "replica.all_gather(items)", "items"),
            Edit("steps.py", "replica.all_gather(weights) > 0", "weights > 0"),
            Edit("steps.py", "own = replica.index * rows + tf.range(rows)", "own = tf.range(rows)"),
        ),
        kind="plain",
        cause="Negatives are only those of the replica: no all_gather, so the loss depends on the number of replicas.",
        file="steps.py",
        named=r"replica|all_gather|gather|negatives",
    ),
    fault_in(
        name="towers, similarities are multiplied by the temperature instead of divided",
        project="blank",
        edits=(
            *TOWERS,
            Edit("steps.py", "/ run.task.temperature", "* run.task.temperature"),
        ),
        kind="plain",
        cause="Similarities are multiplied by the temperature instead of divided.",
        file="steps.py",
        named=r"temperature|logits.*(small|range|scale|between)|scale|confident|never sure|saturat|flat|can.t (be|give|get|fall)",
    ),
    fault_in(
        name="towers, the mask of the history is inverted",
        project="blank",
        edits=(
            *TOWERS,
            Edit(
                "model.py",
                "there = ops.cast(history > 0, floatx)",
                "there = ops.cast(ops.equal(history, 0), floatx)",
            ),
        ),
        kind="plain",
        cause="The mask of the history is inverted: only the fill (id 0) is averaged.",
        file="model.py",
        named=r"mask|history|padding|padded|token|input.*(no|ignored|matter)",
    ),
    fault_in(
        name="towers, the history contains the very item that is to be found",
        project="blank",
        edits=(
            *TOWERS,
            Edit("data.py", "history[:known] = items[:known]", "history[:known] = items[-known:]"),
        ),
        kind="plain",
        cause="The history contains the very item that is to be found (target leak).",
        file="data.py",
        named=r"history.*(label|answer|leak|item)|answer|leak",
    ),
    fault_in(
        name="towers, stop_gradient around the candidates",
        project="blank",
        edits=(
            *TOWERS,
            Edit(
                "steps.py",
                "candidates = replica.all_gather(vectors)",
                "candidates = replica.all_gather(tf.stop_gradient(vectors))",
            ),
        ),
        kind="plain",
        cause="Stop_gradient around the candidates: the item tower never trains.",
        file="steps.py",
        named=r"gradient|never (move|train)|not (move|train)|item.*(train|move|learn)|stop_gradient",
    ),
    fault_in(
        name="towers, the same item in other rows is a negative",
        project="blank",
        edits=(
            *TOWERS,
            Edit(
                "steps.py",
                "usable = there[tf.newaxis] & ~same",
                "usable = there[tf.newaxis] & (is_own | ~is_own)",
            ),
        ),
        kind="subtle",
        cause="The same item in other rows is a negative: accidental hits not masked.",
        file="steps.py",
        named=r"same (item|label)|negative|accidental|positive|duplicate|equal (label|item)",
    ),
    fault_in(
        name="towers, the correction of popularity has the wrong sign",
        project="blank",
        edits=(
            *TOWERS,
            Edit("steps.py", "logits - share[tf.newaxis]", "logits + share[tf.newaxis]"),
        ),
        kind="subtle",
        cause="The correction of popularity has the wrong sign.",
        file="steps.py",
        named=r"popular|frequen|correction|sign|log_share|share|prior",
    ),
    fault_in(
        name="towers, adapt takes mean and deviation of the raw price, the model subtracts them from its logarithm",
        project="blank",
        edits=(
            *TOWERS,
            Edit("model.py", 'price = np.log(inputs["price"])', 'price = inputs["price"]'),
        ),
        kind="subtle",
        cause="Adapt takes mean and deviation of the raw price, the model subtracts them from its logarithm: price is almost constant.",
        file="model.py",
        named=r"price.*(scale|constant|range|deviation|normali|matter|mean|small)|(scale|normali|constant).*price",
    ),
)
