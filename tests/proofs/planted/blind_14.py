"""Faults and correct tasks of a sixteenth examiner; blind to `check`."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit, Fault


def changed(edits: tuple[Edit, ...], file: str, *pairs: tuple[str, str]) -> tuple[Edit, ...]:
    """The edits of a task of our own, with a fault planted in one of its files."""
    for old, new in pairs:
        (place,) = (i for i, e in enumerate(edits) if e.file == file and e.other.count(old) == 1)
        edit = edits[place]._replace(other=edits[place].other.replace(old, new))
        edits = (*edits[:place], edit, *edits[place + 1 :])
    return edits


COMMON = (
    Edit("losses.py", "from .next_todo import TodoError\n", ""),
    Edit("losses.py", "# TODO(10): the number that the loss of a batch is divided by.\n", ""),
    Edit("losses.py", "", blank.COUNT, "count"),
    Edit("optimizer.py", "", blank.OPTIMIZER_FILE),
    Edit("callbacks.py", "", blank.CALLBACKS),
    Edit("pictures.py", "", blank.PICTURES),
)

# ---------------------------------------------------------------------------------------------
# blank, 1: the next hour's level at river gauges, with gaps in the records, as three quantiles.
# ---------------------------------------------------------------------------------------------
GAUGES = (
    Edit(
        "config.py",
        "",
        '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Levels of rivers, an hour ahead."""

    learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine
    filters: int = 32  # channels of the convolutions
    l2: float = 3e-4  # factor of the squared kernels in the loss; 0 disables
    monitor: str = "validation_mae"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if self.filters < 1:
            raise ValueError(f"--filters is {self.filters}; it must be at least 1.")
        if not self.l2 >= 0:
            raise ValueError(f"--l2 is {self.l2}; it must be at least 0.")
''',
    ),
    Edit(
        "data.py",
        "",
        '''"""The examples of each split: four days at a gauge, hour by hour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

HOURS = 96
GAUGES = {"train": 1200, "validation": 240, "test": 360}  # each gauge in one split only
GAPS = 0.1  # fraction of the hours without a record
TREND = 5  # hours of which the trend is the mean


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, HOURS, 3); labels {"level", "observed"}, each float32 (n, HOURS).

    Channels are the level (0 where there is no record), whether there is a record, and the trend.
    The label of an hour is the level of the next hour, and whether that was recorded.
    """
    return {
        split: _examples(np.random.default_rng(seed), gauges)
        for seed, (split, gauges) in enumerate(GAUGES.items())
    }


def _examples(random: np.random.Generator, gauges: int) -> tuple[np.ndarray, dict[str, Any]]:
    level = _simulate(random, gauges)  # (n, HOURS + 1)
    observed = (random.random(level.shape) >= GAPS).astype("float32")
    level = level * observed
    trend = np.apply_along_axis(_trend, 1, level)
    inputs = np.stack([level, observed, trend], axis=-1)[:, :-1]
    labels = {"level": level[:, 1:], "observed": observed[:, 1:]}
    return inputs.astype("float32"), {n: a.astype("float32") for n, a in labels.items()}


def _simulate(random: np.random.Generator, gauges: int) -> np.ndarray:
    """Levels in standard units: tides of each gauge's own phase and size, and persistent noise."""
    hours = np.arange(HOURS + 1)
    phase = random.uniform(0, 2 * np.pi, (gauges, 1))
    size = random.uniform(0.3, 1.2, (gauges, 1))
    noise = random.normal(0, 0.3, (gauges, HOURS + 1))
    for hour in hours[1:]:
        noise[:, hour] += 0.85 * noise[:, hour - 1]
    return size * np.sin(2 * np.pi * hours / 12 + phase) + noise


def _trend(level: np.ndarray) -> np.ndarray:
    """The mean of this and the four hours before, (hours,) -> (hours,)."""
    return np.convolve(level, np.full(TREND, 1 / TREND))[: len(level)]


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None."""
    return None
''',
    ),
    Edit(
        "model.py",
        "",
        '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .losses import QUANTILES


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The shape of an input."""
    inputs, _ = datasets["train"]
    return {"shape": inputs.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs float (batch, hours, 3) -> quantiles of the next level (batch, hours, 3)."""
    layers = keras.layers
    l2 = keras.regularizers.L2(task.l2)
    inputs = keras.Input(tuple(map(int, adapted["shape"])), name="levels")
    x = layers.Dense(task.filters, kernel_regularizer=l2)(inputs)
    # Dilated convolutions (van den Oord et al., 2016): an hour sees the 31 hours up to it.
    for dilation in (1, 2, 4, 8):
        y = layers.Conv1D(
            task.filters,
            3,
            padding="causal",
            dilation_rate=dilation,
            activation="relu",
            kernel_regularizer=l2,
        )(x)
        x = x + layers.Dense(task.filters, kernel_regularizer=l2)(y)
    quantiles = layers.Dense(
        len(QUANTILES), kernel_regularizer=l2, dtype=keras.config.floatx(), name="quantiles"
    )(x)
    return keras.Model(inputs, quantiles)
''',
    ),
    Edit(
        "losses.py",
        '# TODO(5): your losses, each with reduction="none".\n',
        "QUANTILES = (0.1, 0.5, 0.9)\n\n\n",
    ),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name; levels (batch, hours) and quantiles give one number per hour."""

    def pinball(level: tf.Tensor, quantiles: tf.Tensor) -> tf.Tensor:
        """The loss that is least at the quantiles (Koenker & Bassett, 1978): (batch, hours)."""
        q = tf.constant(QUANTILES, quantiles.dtype)
        error = level[..., tf.newaxis] - quantiles  # (batch, hours, quantiles)
        return tf.reduce_mean(tf.maximum(q * error, (q - 1) * error), axis=-1)

    return {"main": pinball}


def average_over_hours(per_hour: tf.Tensor, observed: tf.Tensor) -> tf.Tensor:
    """The loss of each example (batch,): the mean over the hours that have a record."""
    total = tf.reduce_sum(per_hour * observed, axis=1)
    return tf.math.divide_no_nan(total, tf.reduce_sum(observed, axis=1))
''',
        "create_losses",
    ),
    Edit(
        "metrics.py",
        "",
        '''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The error of the median, and how often the level is between the outer quantiles."""
    return {"mae": keras.metrics.Mean(), "coverage": keras.metrics.Mean()}
''',
    ),
    *COMMON,
    Edit(
        "steps.py",
        "",
        '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import average_over_hours, compute_loss

Batch = tuple[Any, ...]  # inputs, labels by name (batch, hours), weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    level, observed = labels["level"], labels["observed"]
    quantiles = run.model(inputs, training=training)  # (batch, hours, 3)
    per_example = average_over_hours(run.losses["main"](level, quantiles), observed)  # (batch,)
    hour_weights = observed * weights[:, tf.newaxis]  # (batch, hours)
    inside = (level >= quantiles[..., 0]) & (level <= quantiles[..., 2])
    run.metrics["mae"].update_state(tf.abs(level - quantiles[..., 1]), hour_weights)
    run.metrics["coverage"].update_state(tf.cast(inside, weights.dtype), hour_weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
'''
        + blank.THREE_STEPS
        + blank.STEPS_END,
    ),
)

# ---------------------------------------------------------------------------------------------
# blank, 2: survival of patients in discrete time, censored at the end of the study.
# ---------------------------------------------------------------------------------------------
SURVIVAL = (
    Edit(
        "config.py",
        "",
        '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Survival of patients, by quarters."""

    learning_rate: float = 3e-3  # learning rate at the start; decays to 0 along a cosine
    width: int = 32  # units of each hidden layer
    dropout: float = 0.2  # fraction of hidden units that training drops; 0 disables
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
''',
    ),
    Edit(
        "data.py",
        "",
        '''"""The examples of each split: what is known of a patient at admission, and how long they lived.

Patients are admitted over three years. The study ends five years after the first was admitted, so
that each is followed for 8 to 20 quarters; who lives then is censored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

QUARTERS = 20
HORIZON = 8  # quarters; every patient is followed for as long, unless they die before
PATIENTS = {"train": 2400, "validation": 480, "test": 720}
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, columns), labels {"quarter", "died"}, each int32 (n,).

    The quarter is that of death, or for a survivor the number of quarters that he or she has been
    followed for.
    """
    random = np.random.default_rng(SEED)
    patients = sum(PATIENTS.values())
    age = random.normal(62, 11, patients)
    pressure = random.normal(135, 18, patients)
    marker = random.lognormal(0, 0.6, patients)
    smoker = random.random(patients) < 0.3
    albumin = random.normal(40, 5, patients)
    others = random.normal(0, 1, (3, patients))  # of no importance

    a, p = (age - 62) / 11, (pressure - 135) / 18
    risk = -3.4 + 0.7 * a + 0.5 * np.log(marker) / 0.6 + 0.6 * smoker * (1 + p)
    risk = risk - 0.6 * (albumin - 40) / 5
    hazard = 1 / (1 + np.exp(-(risk[:, np.newaxis] + 0.03 * np.arange(QUARTERS))))
    dies = random.random((patients, QUARTERS)) < hazard
    death = np.where(dies.any(axis=1), dies.argmax(axis=1), QUARTERS)
    followed = random.integers(HORIZON, QUARTERS + 1, patients)
    died = death < followed
    quarter = np.minimum(death, followed)

    columns = [age, pressure, marker, smoker, albumin, *others]
    inputs = np.stack(columns, axis=1).astype("float32")
    labels = {"quarter": quarter.astype("int32"), "died": died.astype("int32")}
    ends = np.cumsum(list(PATIENTS.values()))
    return {
        split: (inputs[end - n : end], {k: v[end - n : end] for k, v in labels.items()})
        for (split, n), end in zip(PATIENTS.items(), ends, strict=True)
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None."""
    return None
''',
    ),
    Edit(
        "model.py",
        "",
        '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import QUARTERS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of the columns."""
    inputs, _ = datasets["train"]
    return {"mean": inputs.mean(axis=0), "variance": inputs.var(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs float (batch, columns) -> logits of the hazard of each quarter (batch, QUARTERS)."""
    layers, floatx = keras.layers, keras.config.floatx()
    inputs = keras.Input(adapted["mean"].shape, name="patients")
    scale = layers.Normalization(mean=adapted["mean"], variance=adapted["variance"], dtype=floatx)
    x = scale(inputs)
    for _ in range(2):
        x = layers.Dense(task.width, activation="swish")(x)
        x = layers.Dropout(task.dropout)(x)
    rare = keras.initializers.Constant(-3.0)  # few die in any one quarter
    logits = layers.Dense(QUARTERS, bias_initializer=rare, dtype=floatx, name="hazards")(x)
    return keras.Model(inputs, logits)
''',
    ),
    Edit("losses.py", '# TODO(5): your losses, each with reduction="none".\n', ""),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name; labels and logits of hazards give one number per patient."""

    def likelihood(labels: dict[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
        """Minus the log likelihood of what was observed of each patient, float (batch,).

        Of a patient who died: to live through the quarters before, then to die. Of a survivor: to
        live through all quarters that he or she was followed for.
        """
        quarters = tf.range(logits.shape[1])
        quarter = labels["quarter"][:, tf.newaxis]
        lived = tf.cast(quarters < quarter, logits.dtype)  # (batch, quarters)
        died = tf.cast((quarters == quarter) & (labels["died"][:, tf.newaxis] == 1), logits.dtype)
        terms = lived * tf.nn.softplus(logits) + died * tf.nn.softplus(-logits)
        return tf.reduce_sum(terms, axis=1)

    return {"main": likelihood}
''',
        "create_losses",
    ),
    Edit(
        "metrics.py",
        "",
        '''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Of the risk to die within HORIZON quarters, which is known of every patient."""
    return {"auc": keras.metrics.AUC(num_thresholds=500), "brier": keras.metrics.Mean()}
''',
    ),
    *COMMON,
    Edit(
        "steps.py",
        "",
        '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import HORIZON
from .losses import compute_loss

Batch = tuple[Any, ...]  # inputs, labels by name (batch,), weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)  # (batch, quarters)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    risk = 1 - tf.exp(-tf.reduce_sum(tf.nn.softplus(logits[:, :HORIZON]), axis=1))  # (batch,)
    dead = tf.cast((labels["died"] == 1) & (labels["quarter"] < HORIZON), risk.dtype)
    run.metrics["auc"].update_state(dead, risk, weights)
    run.metrics["brier"].update_state(tf.square(dead - risk), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
'''
        + blank.THREE_STEPS
        + blank.STEPS_END,
    ),
)

FAULTS: tuple[Fault, ...] = (
    # ---- image_classification
    Fault(
        name="digits flipped both ways",
        kind="augmentation",
        cause="Random flips, left to right and upside down, are no augmentation of digits: together "
        "they turn a 6 into a 9 and mirror 2, 5 and 7, while the label stays.",
        file="data.py",
        named=r"flip",
        edits=(
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        flips = tf.random.stateless_uniform((images.shape[0], 2, 1, 1, 1), seed + 1) < 0.5\n"
                "        images = tf.where(flips[:, 0], images[:, :, ::-1], images)\n"
                "        images = tf.where(flips[:, 1], images[:, ::-1], images)\n"
                "        return images, labels, weights\n",
            ),
        ),
    ),
    Fault(
        name="slower convolutions under Adam",
        kind="optimizer",
        cause="Adam divides by the size of the gradients, so multiplying those of the convolutions "
        "by 0.1 doesn't give them a smaller learning rate; scale the updates, or use an optimizer "
        "of their own.",
        file="optimizer.py",
        named=r"divides gradients by their size",
        edits=(
            Edit(
                "optimizer.py",
                '    """One gradient for each of `variables`, the same on every replica."""\n'
                "    return gradients\n",
                '    """One gradient for each of `variables`, the same on every replica.\n\n'
                "    The convolutions are to learn ten times more slowly than the layers above.\n"
                '    """\n'
                "    return [\n"
                '        0.1 * gradient if "conv" in variable.path else gradient\n'
                "        for gradient, variable in zip(gradients, variables, strict=True)\n"
                "    ]\n",
            ),
        ),
    ),
    Fault(
        name="dropout that never stops",
        kind="model architecture",
        cause="The dropout layers are called with training=True when the model is built, so they "
        "drop features in validation, test and the exported model as well.",
        file="model.py",
        named=r"training=True where the model is made",
        edits=(
            Edit(
                "model.py",
                "layers.Dropout(task.dropout)(x)",
                "layers.Dropout(task.dropout)(x, training=True)",
                "*",
            ),
        ),
    ),
    Fault(
        name="average of weights put back into training",
        kind="state",
        cause="After each epoch the callback overwrites the trained weights with their moving "
        "average and never restores them: with a decay of 0.999 and 12 steps per epoch training "
        "is thrown back to near the initial weights again and again (and the average isn't in the "
        "checkpoint).",
        file="callbacks.py",
        named=r"starts it anew",
        edits=(
            Edit(
                "callbacks.py",
                "",
                '''"""Functions that are called during training."""

from __future__ import annotations

import numpy as np

from ..engine.callbacks import Callback, Event, every_epochs, every_steps
from .config import TaskConfig

DECAY = 0.999


class _Average:
    """A moving average of the weights, which classifies better than the latest ones."""

    def __init__(self) -> None:
        self._weights: list[np.ndarray] = []

    def update(self, event: Event) -> None:
        """After each step."""
        latest = event.run.model.get_weights()
        if not self._weights:
            self._weights = latest
        pairs = zip(self._weights, latest, strict=True)
        self._weights = [DECAY * a + (1 - DECAY) * w for a, w in pairs]

    def use(self, event: Event) -> None:
        """Before each validation."""
        event.run.model.set_weights(self._weights)


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks: validate and save the average of the weights."""
    average = _Average()
    return [every_steps(1, average.update), every_epochs(1, average.use)]
''',
            ),
        ),
    ),
    # ---- segmentation
    Fault(
        name="canvases from the digits of all splits",
        kind="data leak",
        cause="All digits are put together before the canvases are composed, so validation and test "
        "canvases show the very digits that the model was trained on.",
        file="data.py",
        named=r"parts",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int32 (n, h, w)."""
    with np.load(DIGITS) as file:
        # All 1,797 digits, for more variety.
        digits = np.concatenate([file[f"{split}_images"] for split in CANVASES])
        classes = np.concatenate([file[f"{split}_labels"] for split in CANVASES])
    return {
        split: _compose(digits, classes, canvases, seed)
        for seed, (split, canvases) in enumerate(CANVASES.items())
    }
''',
                "create_datasets",
            ),
        ),
    ),
    Fault(
        name="IoU of 1 for absent classes",
        kind="metrics",
        cause="The IoU is taken per image with a small number added above and below, so each class "
        "that is neither in an image nor predicted counts as 1; most of the eleven classes are "
        "absent from a canvas, and the mean is far too high.",
        file="metrics.py",
        named=r"absent classes",
        starter="segmentation",
        edits=(
            Edit(
                "metrics.py",
                "# TODO(6): your metrics",
                '''class ImageIoU(keras.metrics.Mean):
    """Intersection over union, averaged over classes and images."""

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add images: labels int (batch, h, w), logits (batch, h, w, classes)."""
        counts = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
        true = tf.one_hot(labels, CLASSES, dtype=logits.dtype) * counts
        predicted = tf.one_hot(tf.argmax(logits, axis=-1), CLASSES, dtype=logits.dtype) * counts
        intersection = tf.reduce_sum(true * predicted, axis=[1, 2])  # (batch, classes)
        union = tf.reduce_sum(tf.maximum(true, predicted), axis=[1, 2])
        iou = (intersection + keras.config.epsilon()) / (union + keras.config.epsilon())
        super().update_state(tf.reduce_mean(iou, axis=1), sample_weight[:, 0, 0])


# TODO(6): your metrics''',
            ),
            Edit(
                "metrics.py",
                """    mean_iou = keras.metrics.MeanIoU(
        CLASSES,
        ignore_class=IGNORED,
        sparse_y_pred=False,
        dtype=keras.config.floatx(),  # the default is an int, which rounds a weight of 0.5 to 0
    )
    return {"mean_iou": mean_iou}
""",
                """    return {"mean_iou": ImageIoU()}
""",
            ),
        ),
    ),
    Fault(
        name="focal loss for easy pixels",
        kind="loss",
        cause="The focal factor is p^2 instead of (1 - p)^2 with p the probability of the true "
        "class: sure pixels count most and those that are predicted wrongly get hardly a gradient.",
        file="losses.py",
        named=r"p where 1 - p",
        starter="segmentation",
        edits=(
            Edit(
                "losses.py",
                '    return {"main": cross_entropy}\n',
                '''
    def focal(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Cross-entropy that hard pixels dominate (Lin et al., 2017): (batch, h, w)."""
        loss = cross_entropy(labels, logits)
        probability = tf.exp(-loss)  # of the true class
        return tf.square(probability) * loss

    return {"main": focal}
''',
            ),
        ),
    ),
    # ---- gan
    Fault(
        name="Frechet distance per batch",
        kind="metrics",
        cause="The Frechet distance is computed for each batch and then averaged: it is no mean, and "
        "from the covariances of a hundred or (in the last batch) nine images it is biased and "
        "depends on the batch size and the number of replicas; sums must be gathered over the split.",
        file="metrics.py",
        named=r"depends on how the batch is split",
        starter="gan",
        edits=(
            Edit(
                "metrics.py",
                """        # The sum over images of x x', x = (1, features): it holds the count, sums and products.
        # Such sums can be added over batches and replicas, and distances can't. Float64, because a
        # covariance is a small difference between large sums.
        shape = (size + 1, size + 1)
        self._real = self.add_variable(shape, "zeros", "float64", name="real")
        self._generated = self.add_variable(shape, "zeros", "float64", name="generated")
""",
                """        self._size = size
        self._total = self.add_variable((), "zeros", "float64", name="total")
        self._batches = self.add_variable((), "zeros", "float64", name="batches")
""",
            ),
            Edit(
                "metrics.py",
                "        for sums, images in ((self._real, real), (self._generated, generated)):\n",
                "        moments = []\n        for images in (real, generated):\n",
            ),
            Edit(
                "metrics.py",
                "            sums.assign_add(tf.matmul(x, weights * x, transpose_a=True))\n",
                "            # The sum over images of x x', x = (1, features).\n"
                "            moments += _moments(tf.matmul(x, weights * x, transpose_a=True))\n"
                "        self._total.assign_add(self._distance(*moments))\n"
                "        self._batches.assign_add(1.0)\n",
            ),
            Edit(
                "metrics.py",
                '''        """The distance, a float64 scalar; 0 before the first image."""
        mean, covariance = _moments(self._real)
        other_mean, other_covariance = _moments(self._generated)
''',
                '''        """The mean distance, a float64 scalar; 0 before the first image."""
        return tf.math.divide_no_nan(
            tf.convert_to_tensor(self._total), tf.convert_to_tensor(self._batches)
        )

    def _distance(
        self,
        mean: tf.Tensor,
        covariance: tf.Tensor,
        other_mean: tf.Tensor,
        other_covariance: tf.Tensor,
    ) -> tf.Tensor:
''',
            ),
        ),
    ),
    Fault(
        name="the generator's noise is the same in every step",
        kind="randomness",
        cause="generator_step draws its latents with a seed that never changes, so the generator is "
        "trained on the same latents in every step (and on every replica); use the batch's, or "
        "replica.seed.",
        file="steps.py",
        named=r"draws the same numbers",
        starter="gan",
        edits=(
            Edit(
                "steps.py",
                "    _, latents, weights = batch\n",
                "    _, latents, weights = batch\n"
                "    # Other images than the discriminator has just been trained on.\n"
                "    latents = tf.random.stateless_normal(latents.shape, (run.seed, 1))\n",
            ),
        ),
    ),
    # ---- language_model
    Fault(
        name="perplexity as a mean of exponentials",
        kind="metrics",
        cause="The perplexity is the exponential of the mean loss; here the exponential of each "
        "token's loss is averaged, which a few unlikely tokens dominate.",
        file="steps.py",
        named=r"exponentials of the loss",
        starter="language_model",
        edits=(
            Edit(
                "metrics.py",
                '        "exact_match": ExactMatch(),\n',
                '        "exact_match": ExactMatch(),\n        "perplexity": keras.metrics.Mean(),\n',
            ),
            *(
                Edit(
                    "steps.py",
                    '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n',
                    '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n'
                    '    run.metrics["perplexity"].update_state(tf.exp(per_token), weights)\n',
                    step,
                )
                for step in ("train_step", "validation_step", "test_step")
            ),
        ),
    ),
    Fault(
        name="decay of an epoch in every step",
        kind="schedule",
        cause="decay_steps=1 takes 5% off the learning rate in every step, not in every epoch: "
        "after 100 of 1,000 steps it is less than a hundredth, and training stands still.",
        file="optimizer.py",
        named=r"counts train steps, not epochs",
        starter="language_model",
        edits=(
            Edit(
                "optimizer.py",
                """    warmup = int(task.warmup * steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else task.learning_rate,
        decay_steps=steps - warmup,
        warmup_target=task.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
""",
                """    # 5% lower after each epoch.
    schedule = keras.optimizers.schedules.ExponentialDecay(
        task.learning_rate, decay_steps=1, decay_rate=0.95
    )
""",
            ),
        ),
    ),
    Fault(
        name="seed from hash of a text",
        kind="randomness",
        cause="Python salts hash() of a text anew in each process, so every run, every worker and "
        "every resumed run gets other dates: results can't be compared, and after a resume the "
        "test has dates that were trained on.",
        file="data.py",
        named=r"hash\(\)",
        starter="language_model",
        edits=(
            Edit(
                "data.py",
                "SEED = 0  # of the lines;",
                'SEED = hash("dates, version 2")  # of the lines;',
            ),
        ),
    ),
    Fault(
        name="patience counted in steps",
        kind="callbacks",
        cause="The callback is called after every step but looks at the latest validation, so its "
        "patience of 20 validations is used up 20 steps after the first one, within the second "
        "epoch; it must be called by every_validation.",
        file="callbacks.py",
        named=r"patience is counted in steps",
        starter="language_model",
        edits=(
            Edit(
                "callbacks.py",
                "",
                '''"""Functions that are called during training."""

from __future__ import annotations

from typing import Any

from ..engine.callbacks import Callback, Event, every_steps
from .config import TaskConfig


class _EarlyStop:
    """Ends the run when `patience` validations in a row were no better than the best."""

    def __init__(self, column: str, patience: int) -> None:
        self._column, self._patience = column, patience
        self._best, self._waited = -1.0, 0

    def __call__(self, event: Event) -> None:
        if not event.history:
            return
        value = event.history[-1][self._column]
        if value > self._best:
            self._best, self._waited = value, 0
        else:
            self._waited += 1
            if self._waited >= self._patience:
                event.stop()

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": self._best, "waited": self._waited}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._best, self._waited = state["best"], state["waited"]


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks: stop early."""
    return [every_steps(1, _EarlyStop("validation_exact_match", patience=20))]
''',
            ),
        ),
    ),
    # ---- tabular_regression
    Fault(
        name="errors of every label with every prediction",
        kind="loss",
        cause="Labels (batch,) minus predictions (batch, 1) broadcast to (batch, batch): each "
        "prediction is compared with all labels of the batch, and the model learns their mean.",
        file="losses.py",
        named=r"broadcast by accident",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def huber(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,); outliers count less."""
        labels = tf.squeeze(labels, axis=-1)
        error = tf.abs(labels - predictions) / LABEL_DEVIATION
        loss = tf.where(error < 1, tf.square(error) / 2, error - 0.5)
        return tf.reduce_mean(loss, axis=-1)

    return {"main": huber}
''',
                "create_losses",
            ),
        ),
    ),
    Fault(
        name="ReLU on a standardized prediction",
        kind="model architecture",
        cause="The last layer predicts the standardized label, which is negative for half of the "
        "patients; with ReLU before the scaling is undone the model can't predict anything below "
        "the mean.",
        file="model.py",
        named=r"last activation",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n",
                "    # Progression is never negative.\n"
                '    last = layers.Dense(1, activation="relu", dtype=floatx)\n'
                "    x = last(layers.Concatenate()([x, hidden]))  # (batch, 1)\n",
            ),
        ),
    ),
    # ---- blank: gauges
    Fault(
        name="convolutions that see the next hour",
        kind="model architecture",
        cause='The convolutions use padding="same" and look as far forward as back, so that each '
        "hour's output sees the next hour's level, which it is to predict; they must be causal.",
        file="model.py",
        named=r"predictions change with later",
        starter="blank",
        edits=changed(GAUGES, "model.py", ('padding="causal"', 'padding="same"')),
    ),
    Fault(
        name="trend centered on the hour",
        kind="data leak",
        cause='np.convolve(..., mode="same") gives a mean centered on the hour, which contains the '
        "two hours after it and so the label; the trend must be of this and earlier hours only.",
        file="data.py",
        named=r"later positions",
        starter="blank",
        edits=changed(
            GAUGES,
            "data.py",
            (
                "np.convolve(level, np.full(TREND, 1 / TREND))[: len(level)]",
                'np.convolve(level, np.full(TREND, 1 / TREND), mode="same")',
            ),
            (
                "The mean of this and the four hours before, ",
                "The level without its fast changes, ",
            ),
        ),
    ),
    Fault(
        name="loss divided by hours twice",
        kind="loss scaling",
        cause="The loss of an example is a mean over its hours already, and count returns the hours "
        "again: the loss is some 86 times too small beside the L2 term, which then keeps the "
        "kernels near 0.",
        file="losses.py",
        named=r"regularization is|outweigh",
        starter="blank",
        edits=changed(
            GAUGES,
            "losses.py",
            (
                '    """How many examples of `batch` count, an int32 scalar."""\n'
                "    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)\n",
                '    """How many hours of `batch` count, those with a record; an int32 scalar."""\n'
                "    _, labels, weights = batch\n"
                '    hours = labels["observed"] * weights[:, tf.newaxis]  # (batch, hours)\n'
                "    return tf.math.count_nonzero(hours, dtype=tf.int32)\n",
            ),
        ),
    ),
    # ---- blank: survival
    Fault(
        name="survivors counted as dead",
        kind="labels",
        cause="The loss takes the last quarter of every patient for that of death and never looks at "
        '"died": who lived at the end of the study counts as having died then, and the hazards '
        "become much too large.",
        file="losses.py",
        named=r"labels\['died'\]",
        starter="blank",
        edits=changed(
            SURVIVAL,
            "losses.py",
            (
                '        died = tf.cast((quarters == quarter) & (labels["died"][:, tf.newaxis] == 1), logits.dtype)\n',
                "        died = tf.cast(quarters == quarter, logits.dtype)\n",
            ),
            (
                "        Of a patient who died: to live through the quarters before, then to die. Of a survivor: to\n"
                "        live through all quarters that he or she was followed for.\n",
                "        To live through the quarters before the last, then to die.\n",
            ),
        ),
    ),
    Fault(
        name="visits during the follow-up as an input",
        kind="data leak",
        cause="The number of visits is counted over the whole follow-up, so it says how long the "
        "patient lived; it isn't known at admission, and must not be an input.",
        file="data.py",
        named=r"known only afterwards",
        starter="blank",
        edits=changed(
            SURVIVAL,
            "data.py",
            (
                "    columns = [age, pressure, marker, smoker, albumin, *others]\n",
                "    visits = random.poisson(1.5 * (quarter + 1))  # to the clinic, from its records\n"
                "    columns = [age, pressure, marker, smoker, albumin, visits, *others]\n",
            ),
        ),
    ),
)

TASKS: tuple[Change, ...] = (
    Change(name="levels of rivers, an hour ahead", starter="blank", edits=GAUGES),
    Change(name="survival in discrete time", starter="blank", edits=SURVIVAL),
    Change(
        name="long-tailed digits with adjusted logits",
        edits=(
            Edit(
                "data.py",
                """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
                '''    splits["train"] = _long_tail(*splits["train"])
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }


def _long_tail(images: np.ndarray, labels: np.ndarray) -> Arrays:
    """Ever fewer images of each class, of the last one an eighth; the other splits stay balanced."""
    random = np.random.default_rng(0)
    kept = []
    for digit in range(10):
        rows = random.permutation(np.flatnonzero(labels == digit))
        kept.append(rows[: round(len(rows) * 8 ** (-digit / 9))])
    rows = np.sort(np.concatenate(kept))
    return images[rows], labels[rows]
''',
            ),
            Edit(
                "model.py",
                '    images, *_ = first_examples(datasets["train"], 1)\n'
                '    return {"shape": images.shape[1:]}\n',
                '    images, *_ = first_examples(datasets["train"], 1)\n'
                '    counts = np.bincount(datasets["train"][1], minlength=CLASSES)\n'
                '    log_prior = np.log(counts / counts.sum()).astype("float32")\n'
                '    return {"shape": images.shape[1:], "log_prior": log_prior}\n',
            ),
            Edit(
                "steps.py",
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n',
                "    # Logit adjustment (Menon et al., 2021): the model learns what remains to be said when\n"
                "    # the frequency of a class in training is known; all classes are equal in the test.\n"
                '    prior = tf.constant(run.adapted["log_prior"], predictions.dtype)  # (classes,)\n'
                '    per_example = run.losses["main"](labels, predictions + prior)  # (batch,)\n',
                "train_step",
            ),
        ),
    ),
    Change(
        name="noisy prompts and small normalizers",
        starter="language_model",
        edits=(
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .data import PROMPT_END\nfrom .losses import compute_loss\n",
            ),
            Edit(
                "steps.py",
                "    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)\n"
                '    per_token = run.losses["main"](targets, logits)  # (batch, T)\n',
                "    # Some characters of the prompt are made unreadable, none of the answer.\n"
                "    is_end = tf.cast(tokens == PROMPT_END, tf.int32)\n"
                "    in_prompt = tf.cumsum(is_end, axis=1) == 0  # (batch, T)\n"
                "    unreadable = tf.random.stateless_uniform(tokens.shape, replica.seed) < 0.02\n"
                '    seen = tf.where(in_prompt & unreadable, ord("?"), tokens)\n'
                "    logits = run.model(seen, training=True)  # (batch, T, TOKENS)\n"
                '    per_token = run.losses["main"](targets, logits)  # (batch, T)\n'
                "    # Keeps the logits from drifting (Chowdhery et al., 2022); only in training.\n"
                "    per_token += 1e-4 * tf.square(tf.reduce_logsumexp(logits, axis=-1))\n",
                "train_step",
            ),
        ),
    ),
    Change(
        name="hinge losses and a penalty on the gradient of real images",
        starter="gan",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example (Lim & Ye, 2017)."""

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """0 if the logits are above 1 on real images and below -1 on generated ones."""
        return (tf.nn.relu(1 - on_real) + tf.nn.relu(1 + on_generated))[:, 0] / 2  # (batch,)

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low, below 0 too, if the logits are high on generated images."""
        return -on_generated[:, 0]  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
                "create_losses",
            ),
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n",
                "    with tf.GradientTape() as tape:\n"
                "        tape.watch(images)\n"
                "        on_real = discriminator(images, training=True)  # (batch, 1)\n"
                "    # R1 (Mescheder et al., 2018). A row's logit depends on its own image only.\n"
                "    slopes = tape.gradient(on_real, images)  # (batch, h, w, channels)\n"
                "    penalty = tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3])  # (batch,)\n",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
                '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n'
                "    per_example += 0.1 * penalty\n",
                "discriminator_step",
            ),
        ),
    ),
    Change(
        name="random features that are never trained",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                '    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)\n',
                "    # Random features (Rahimi & Recht, 2008): only the layer above them is trained.\n"
                "    initializers = keras.initializers\n"
                "    hidden = layers.Dense(\n"
                "        4 * task.width,\n"
                '        activation="tanh",\n'
                "        kernel_initializer=initializers.RandomNormal(stddev=0.2, seed=1),\n"
                "        bias_initializer=initializers.RandomUniform(-1.0, 1.0, seed=2),\n"
                "        trainable=False,\n"
                '        name="random_features",\n'
                "    )(x)  # (batch, 4 width)\n",
            ),
        ),
    ),
)
