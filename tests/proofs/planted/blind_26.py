"""Faults of an examiner, three quarters of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

# What both projects made from the blank one share.

BLANK_LOSSES = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    return {"main": %s}


def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


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
        ValueError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss has shape {per_example.shape} and its weights {weights.shape}: create it "
            'with reduction="none", and average over further axes with tf.reduce_mean.'
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
'''

BLANK_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported.
    """
    return {"accuracy": keras.metrics.%s()}
'''

BLANK_OPTIMIZER = '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
'''

BLANK_CALLBACKS = '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
'''

BLANK_PICTURES = '''"""Pictures of training examples and of predictions."""

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
'''

BLANK_STEPS = '''"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # inputs, labels, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)  # (batch, outputs)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, %s, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
'''

BLANK_CONFIG = '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """%s."""

    learning_rate: float = 1e-3  # learning rate at the start; decays to 0 along a cosine
    dropout: float = 0.2  # dropout rate before and after the hidden layer; 0 disables
    monitor: str = "validation_accuracy"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
'''

GAIT_DATA = '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

SUBJECTS, CHANNELS = 48, 3  # people with an accelerometer; every second is a patient
RATE, SAMPLES = 20, 1_200  # samples a second, and in the recording of a subject
WINDOW, HOP = 40, 10  # samples of an example, and between the starts of two
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: float32 (n, WINDOW, CHANNELS), labels int64 (n,), 1: patient."""
    signals, patients = _recordings()
    windows = np.lib.stride_tricks.sliding_window_view(signals, WINDOW, axis=1)[:, ::HOP]
    windows = windows.swapaxes(2, 3)  # (subjects, windows of each, WINDOW, CHANNELS)
    inputs = windows.reshape(-1, WINDOW, CHANNELS)
    labels = np.repeat(patients, windows.shape[1])
    order = np.random.default_rng(SEED).permutation(len(inputs))
    ends = [int(0.7 * len(inputs)), int(0.85 * len(inputs))]
    names = ("train", "validation", "test")
    return {
        name: (inputs[rows], labels[rows])
        for name, rows in zip(names, np.split(order, ends), strict=True)
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None


def _recordings() -> tuple[np.ndarray, np.ndarray]:
    """Simulated until the study has ended: float32 (subjects, samples, channels), int64 (n,)."""
    random = np.random.default_rng(SEED)
    patients = np.arange(SUBJECTS) % 2
    cadence = random.normal(1.8, 0.2, SUBJECTS) - 0.1 * patients  # steps a second
    strength = random.uniform(0.5, 1.5, (SUBJECTS, 1, CHANNELS))
    phase = random.uniform(0, 2 * np.pi, (SUBJECTS, 1, CHANNELS))
    time = np.arange(SAMPLES)[:, np.newaxis] / RATE
    angle = 2 * np.pi * cadence[:, np.newaxis, np.newaxis] * time + phase
    signals = strength * np.sin(angle) + random.normal(0, 0.5, angle.shape)
    return signals.astype("float32"), patients.astype("int64")
'''

GAIT_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import CHANNELS, WINDOW


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of each channel."""
    inputs, _ = datasets["train"]
    return {"mean": inputs.mean(axis=(0, 1)), "variance": inputs.var(axis=(0, 1))}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Windows float (batch, WINDOW, CHANNELS) -> logits float32 (batch, 2)."""
    layers, floatx = keras.layers, keras.config.floatx()
    mean, variance = adapted["mean"], adapted["variance"]
    windows = keras.Input((WINDOW, CHANNELS), name="windows")
    x = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(windows)
    for filters in (32, 64):
        x = layers.Conv1D(filters, 5, padding="same", activation="relu")(x)
        x = layers.MaxPooling1D()(x)
    x = layers.Dropout(task.dropout)(layers.GlobalAveragePooling1D()(x))
    return keras.Model(windows, layers.Dense(2, dtype=floatx, name="logits")(x))
'''

TAGS_DATA = '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

COLUMNS, TAGS = 20, 6  # measurements of a track; tags, of which it may have any number
SIZES = {"train": 3_000, "validation": 600, "test": 900}
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: float32 (n, COLUMNS), labels float32 (n, TAGS) of 0 and 1."""
    random = np.random.default_rng(SEED)
    # Simulated until the tracks are annotated: a tag is a noisy function of the measurements.
    weights = random.normal(0, 1, (COLUMNS, TAGS))
    splits = {}
    for name, size in SIZES.items():
        inputs = random.normal(0, 1, (size, COLUMNS))
        scores = inputs @ weights + random.normal(0, 1, (size, TAGS)) - 1.0
        splits[name] = (inputs.astype("float32"), (scores > 0).astype("float32"))
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None
'''

TAGS_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import COLUMNS, TAGS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: the measurements are standardized."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Measurements float (batch, COLUMNS) -> logits float32 (batch, TAGS)."""
    layers = keras.layers
    inputs = keras.Input((COLUMNS,), name="measurements")
    x = layers.Dense(64, activation="relu")(inputs)
    x = layers.Dropout(task.dropout)(x)
    return keras.Model(inputs, layers.Dense(TAGS, dtype=keras.config.floatx(), name="logits")(x))
'''


def blank(
    title: str, data: str, model: str, loss: str, metric: str, predictions: str
) -> tuple[Edit, ...]:
    """The blank project, filled in."""
    return (
        Edit("config.py", "", BLANK_CONFIG % title),
        Edit("data.py", "", data),
        Edit("model.py", "", model),
        Edit("losses.py", "", BLANK_LOSSES % loss),
        Edit("metrics.py", "", BLANK_METRICS % metric),
        Edit("optimizer.py", "", BLANK_OPTIMIZER),
        Edit("steps.py", "", BLANK_STEPS % predictions),
        Edit("callbacks.py", "", BLANK_CALLBACKS),
        Edit("pictures.py", "", BLANK_PICTURES),
    )


FAULTS: tuple[Fault, ...] = (
    fault_in(
        name="softmax twice with a focal loss",
        project="image_classification",
        edits=(
            Edit(
                "model.py",
                '    """Images float (batch, h, w, 1) -> logits float32 (batch, classes).\n',
                '    """Images float (batch, h, w, 1) -> probabilities float32 (batch, classes).\n',
            ),
            Edit(
                "model.py",
                "    # Full precision even under --precision float16, where a loss in float16"
                " could overflow.\n"
                '    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)\n'
                "    return keras.Model(images, logits)\n",
                "    # Full precision even under --precision float16.\n"
                "    probabilities = layers.Dense(\n"
                '        CLASSES, activation="softmax", dtype=keras.config.floatx(), '
                'name="probabilities"\n'
                "    )(x)\n"
                "    return keras.Model(images, probabilities)\n",
            ),
            Edit(
                "losses.py",
                "from typing import Any\n",
                "from collections.abc import Callable\nfrom typing import Any\n",
            ),
            Edit(
                "losses.py",
                "# TODO(5): your losses",
                "FOCUS = 2.0  # gamma of the focal loss; 0 is cross-entropy\n\n\n"
                "# TODO(5): your losses",
            ),
            Edit(
                "losses.py",
                "",
                "def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:\n"
                '    """Losses by name: (labels, predictions) -> one number per example."""\n'
                "\n"
                "    def focal(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:\n"
                '        """The focal loss (Lin et al., 2017), float (batch,)."""\n'
                "        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions)\n"
                "        return tf.pow(1.0 - tf.exp(-entropy), FOCUS) * entropy\n"
                "\n"
                '    return {"main": focal}\n',
                "create_losses",
            ),
        ),
        kind="loss",
        cause="the model ends with a softmax, and the focal loss (and the pictures) take its "
        "output for logits and apply softmax again",
        file="model.py",
        named=r"softmax|double activation|twice|logits|probabilit|activation",
    ),
    fault_in(
        name="cosine decay over epochs instead of steps",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "# TODO(7): your optimizer",
                "DECAY_EPOCHS = 40  # as long as a run is by default\n\n\n"
                "# TODO(7): your optimizer",
            ),
            Edit("optimizer.py", "decay_steps=steps)", "decay_steps=DECAY_EPOCHS)"),
        ),
        kind="schedule",
        cause="the schedule counts train steps, and its decay_steps is a number of epochs",
        file="optimizer.py",
        named=r"decay_steps|schedule|learning.rate|epochs?.*steps?|steps?.*epochs?",
    ),
    fault_in(
        name="labels without their axis broadcast against predictions",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n",
                "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n"
                "QUANTILE = 0.5  # the median\n",
            ),
            Edit(
                "losses.py",
                "",
                "def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:\n"
                '    """Losses by name: (labels, predictions) -> one number per example."""\n'
                "\n"
                "    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:\n"
                '        """The quantile loss of standardized labels, float (batch,)."""\n'
                "        error = (labels[:, 0] - predictions) / LABEL_DEVIATION\n"
                "        loss = tf.maximum(QUANTILE * error, (QUANTILE - 1) * error)\n"
                "        return tf.reduce_mean(loss, axis=-1)\n"
                "\n"
                '    return {"main": pinball}\n',
                "create_losses",
            ),
        ),
        kind="loss",
        cause="labels (batch,) minus predictions (batch, 1) is (batch, batch): each prediction is "
        "compared with the labels of all examples",
        file="losses.py",
        named=r"broadcast|\(batch, batch\)|shape|other examples|all (the )?(labels|examples)|interact|"
        r"depends on (the )?other|axis|another example|mixes",
    ),
    fault_in(
        name="r2 is monitored with the direction of a loss",
        project="tabular_regression",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_loss"',
                'monitor: str = "validation_r2"',
            ),
        ),
        kind="evaluation",
        cause="monitor is validation_r2, of which larger is better, and larger_is_better is still "
        "False",
        file="config.py",
        named=r"larger_is_better|larger.is.better|monitor|direction|worst|best weights",
    ),
    fault_in(
        name="no causal mask",
        project="language_model",
        edits=(Edit("model.py", "(attention(y, y, use_causal_mask=True))", "(attention(y, y))"),),
        kind="model",
        cause="self-attention has no causal mask, so each position sees the token it must predict",
        file="model.py",
        named=r"causal|mask|future|later tokens?|sees? (the )?(next|target)|leak|ahead",
    ),
    fault_in(
        name="perplexity is a mean of exponentials",
        project="language_model",
        edits=(
            Edit(
                "metrics.py",
                '        "exact_match": ExactMatch(),\n',
                '        "exact_match": ExactMatch(),\n'
                '        "perplexity": keras.metrics.Mean(),\n',
            ),
            Edit(
                "steps.py",
                '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n',
                '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n'
                '    run.metrics["perplexity"].update_state(tf.exp(per_token * weights), weights)\n',
                "*",
            ),
        ),
        kind="metrics",
        cause="the exponential of each token's loss is averaged, where perplexity is the "
        "exponential of the average",
        file="steps.py",
        named=r"perplexity|exponential|exp\b|exp\(|jensen|average of exp|mean of exp|order",
    ),
    fault_in(
        name="batch normalization never in training mode",
        project="segmentation",
        edits=(
            Edit(
                "steps.py",
                "    logits = run.model(images, training=True)  # (batch, h, w, classes)\n",
                "    logits = run.model(images)  # (batch, h, w, classes)\n",
                "train_step",
            ),
        ),
        kind="state",
        cause="the train step calls the model without training=True, so batch normalization uses "
        "its initial moving averages and never updates them",
        file="steps.py",
        named=r"training=True|training.mode|training argument|inference mode|batch.?norm|moving|"
        r"normaliz",
    ),
    fault_in(
        name="dice of a softmax over rows",
        project="segmentation",
        edits=(
            Edit(
                "losses.py", "from .data import IGNORED\n", "from .data import CLASSES, IGNORED\n"
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number",
                "def dice_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
                '    """1 - the soft Dice coefficient, averaged over classes, float (batch,).\n'
                "\n"
                "    Labels: int (batch, h, w); logits: float (batch, h, w, classes). Ignored pixels"
                " don't count.\n"
                '    """\n'
                "    there = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]\n"
                "    probabilities = there * tf.nn.softmax(logits, axis=1)\n"
                "    targets = tf.one_hot(labels, CLASSES, dtype=logits.dtype)  # 0 where ignored\n"
                "    common = tf.reduce_sum(probabilities * targets, axis=[1, 2])\n"
                "    total = tf.reduce_sum(probabilities + targets, axis=[1, 2])\n"
                "    return 1.0 - tf.reduce_mean((2.0 * common + 1.0) / (total + 1.0), axis=-1)\n"
                "\n"
                "\n"
                "# TODO(10): the number",
            ),
            Edit(
                "steps.py",
                "from .losses import average_over_pixels, compute_loss\n",
                "from .losses import average_over_pixels, compute_loss, dice_loss\n",
            ),
            Edit(
                "steps.py",
                "    per_example = average_over_pixels(per_pixel, labels, "
                "run.task.foreground_weight)  # (batch,)\n",
                "    per_example = average_over_pixels(per_pixel, labels, "
                "run.task.foreground_weight)  # (batch,)\n"
                "    per_example += dice_loss(labels, logits)\n",
                "*",
            ),
        ),
        kind="loss",
        cause="the softmax of the Dice loss is over axis 1, the rows of the image, where classes "
        "are the last axis",
        file="losses.py",
        named=r"axis|softmax|rows|classes|dimension|channel",
    ),
    fault_in(
        name="frechet distance counts padding",
        project="gan",
        edits=(
            Edit(
                "metrics.py",
                "        weights = tf.cast(sample_weight, tf.float64)[:, tf.newaxis]\n"
                "        for sums, images",
                "        for sums, images",
            ),
            Edit(
                "metrics.py",
                "            sums.assign_add(tf.matmul(x, weights * x, transpose_a=True))\n",
                "            sums.assign_add(tf.matmul(x, x, transpose_a=True))\n",
            ),
        ),
        kind="metrics",
        cause="FrechetDistance doesn't use sample_weight, so the rows that fill the last batch of "
        "validation and test are counted as images",
        file="metrics.py",
        named=r"sample_weight|weights?|padd(ing|ed)|weight 0|batch size",
    ),
    fault_in(
        name="latents uniform in training, normal in validation",
        project="gan",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal(shape, seed, "
                "dtype=keras.config.floatx()), weights\n",
                "        floatx = keras.config.floatx()\n"
                "        # From a cube, as in Radford et al. (2015).\n"
                "        latents = tf.random.stateless_uniform(shape, seed, -1.0, 1.0, floatx)\n"
                "        return images, latents, weights\n",
            ),
        ),
        kind="evaluation",
        cause="training draws latents from a uniform distribution, and validation, test and "
        "pictures still use normal ones",
        file="data.py",
        named=r"latents?|uniform|normal|distribution|evaluat|noise|differ.*train|range",
    ),
    fault_in(
        name="windows of one subject in every split",
        project="blank",
        edits=blank(
            "Patients by their gait",
            GAIT_DATA,
            GAIT_MODEL,
            'keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")',
            "SparseCategoricalAccuracy",
            "logits",
        ),
        kind="leak",
        cause="overlapping windows of the same recordings are split at random, so each subject is "
        "in train, validation and test",
        file="data.py",
        named=r"overlap|subject|leak|same (recording|person|people|rows)|group|split|share|"
        r"in (both|several|more than one)|nearly equal|window",
    ),
    fault_in(
        name="softmax cross-entropy of several tags",
        project="blank",
        edits=blank(
            "Tags of tracks",
            TAGS_DATA,
            TAGS_MODEL,
            'keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")',
            "BinaryAccuracy",
            "tf.nn.sigmoid(logits)",
        ),
        kind="loss",
        cause="labels have any number of tags, and the loss is that of exclusive classes: tags "
        "compete in a softmax, while the metric takes each as a sigmoid",
        file="losses.py",
        named=r"categorical|binary|sigmoid|softmax|multi-?(label|hot)|exclusive|sum to 1|one-?hot|"
        r"several (labels|tags|classes)|distribution",
    ),
    fault_in(
        name="class 0 taken for a missing label",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "tf.cast(labels[head] >= 0, weights.dtype)",
                "tf.cast(labels[head] > 0, weights.dtype)",
            ),
        ),
        kind="labels",
        cause="a label counts if it is more than 0, so class 0 has weight 0 as if it were missing",
        file="losses.py",
        named=r"> ?0|class 0|zero|mask|missing|label.*weight|weight.*label|never (trained|count)|odd",
    ),
    fault_in(
        name="agreement of heads with the wrong class",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "",
                "def count(batch: Any) -> dict[str, tf.Tensor]:\n"
                '    """How many labels of each head count, and how many images, int32 scalars."""\n'
                '    weights = {**weights_of_heads(batch), "agreement": batch[-1]}\n'
                "    return {k: tf.math.count_nonzero(w, dtype=tf.int32) for k, w in "
                "weights.items()}\n"
                "\n"
                "\n"
                "def disagreement(outputs: dict[str, tf.Tensor]) -> tf.Tensor:\n"
                '    """How far the heads differ in how likely a digit is even, float (batch,).\n'
                "\n"
                "    Needs no label, so it also teaches from images without one.\n"
                '    """\n'
                '    digit, even = tf.nn.softmax(outputs["digit"]), tf.nn.softmax(outputs["even"])\n'
                "    return tf.square(tf.reduce_sum(digit[:, ::2], axis=1) - even[:, 0])\n",
                "count",
            ),
            Edit(
                "steps.py",
                "from .losses import HEADS, weights_of_heads\n",
                "from .losses import HEADS, disagreement, weights_of_heads\n",
            ),
            Edit(
                "steps.py",
                "    regularization = tf.nn.scale_regularization_loss("
                "replica.regularization(run.model))\n",
                '    terms["agreement"] = tf.nn.compute_average_loss(\n'
                "        disagreement(outputs),\n"
                "        sample_weight=batch[-1],\n"
                '        global_batch_size=replica.global_count["agreement"],\n'
                "    )\n"
                "    regularization = tf.nn.scale_regularization_loss("
                "replica.regularization(run.model))\n",
                "*",
            ),
            Edit(
                "steps.py",
                "TERMS = HEADS  # the loss of each head is reported too\n",
                'TERMS = (*HEADS, "agreement")  # the loss of each head is reported too\n',
            ),
        ),
        kind="labels",
        cause="class 1 of the even head means even (1 - digit % 2), and the probability of even "
        "digits is compared with that of class 0",
        file="losses.py",
        named=r"even\[|even\b|column|class (0|1)|wrong (class|index)|opposite|index|inconsistent|"
        r"disagree|agreement",
    ),
    fault_in(
        name="forecast begins with the last known hour",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "windows[:, TARGET, PAST:]",
                "windows[:, TARGET, PAST - 1 : -1]",
            ),
        ),
        kind="leak",
        cause="labels begin one hour too early, with the last hour of the inputs",
        file="data.py",
        named=r"off.by.one|overlap|last (known )?(hour|input|value)|PAST|shift|leak|in the inputs?|"
        r"one (hour|step) (too )?early|copy|contain",
    ),
    fault_in(
        name="smoothing reaches into the future",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                "PAST, FUTURE = 24, 6  # hours\nSMOOTHING = 5  # hours of the moving average\n",
            ),
            Edit(
                "data.py",
                "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n",
                "    rows = np.stack([_smooth(column) for column in rows.T], axis=1)\n"
                "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n",
            ),
            Edit(
                "data.py",
                "def _windows(rows",
                "def _smooth(column: np.ndarray) -> np.ndarray:\n"
                '    """The moving average, against the noise of the sensors; NaN around a gap."""\n'
                "    kernel = np.full(SMOOTHING, 1 / SMOOTHING, np.float32)\n"
                '    return np.convolve(column, kernel, mode="same")\n'
                "\n"
                "\n"
                "def _windows(rows",
            ),
        ),
        kind="leak",
        cause="the moving average is centered and taken before the windows are cut, so the last "
        "inputs hold the next two hours, and labels are smoothed too",
        file="data.py",
        named=r"smooth|centered|future|moving average|leak|convol|look.?ahead|overlap",
    ),
    fault_in(
        name="variance in place of the deviation in the sample",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)",
                "decoder(mean + tf.exp(log_variance) * noise, training=True)",
            ),
        ),
        kind="loss",
        cause="noise is scaled by exp(log_variance), the variance, instead of the standard "
        "deviation exp(0.5 * log_variance)",
        file="steps.py",
        named=r"0\.5|half|variance|deviation|sqrt|reparametri|exp\(",
    ),
    fault_in(
        name="error is a mean over pixels and kl a sum",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "        return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])\n",
                "        return tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])\n",
            ),
        ),
        kind="loss",
        cause="the squared error is averaged over the 64 pixels while the KL divergence is a sum "
        "over the code, which so weighs 64 times as much",
        file="losses.py",
        named=r"reduce_(sum|mean)|mean over|sum over|averag|collapse|pixels|scale|reduction|"
        r"code.*(ignored|unused)|kl",
    ),
    fault_in(
        name="own row without the place of the replica",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "    own = replica.index * rows + tf.range(rows)  # where this replica's rows are "
                "in `candidates`\n",
                "    own = tf.range(rows)  # the candidate of each row is its own other view\n",
                "*",
            ),
        ),
        kind="distribution",
        cause="candidates come from all replicas, and each replica takes those of the first one "
        "for its own: replica.index * rows is missing",
        file="steps.py",
        named=r"replica|own\b|offset|index|gather|rank",
    ),
    fault_in(
        name="an image is its own negative",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  "
                "# (rows,)\n",
                "    # The other images of the same view are negatives too (Chen et al., 2020).\n"
                "    within = tf.matmul(left, replica.all_gather(left), transpose_b=True)\n"
                "    within = tf.where(there, within / TEMPERATURE, -1e9)\n"
                "    every = tf.concat([logits, within], axis=1)  # (rows, 2 rows of all replicas)\n"
                "    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, every)\n",
                "*",
            ),
        ),
        kind="loss",
        cause="the similarity of each row with itself, always 1, isn't masked among the negatives "
        "of its own view",
        file="steps.py",
        named=r"itself|self|diagonal|mask|own (negative|row|column)|within|negative",
    ),
    fault_in(
        name="shifts from numpy are drawn once",
        project="finetuning",
        edits=(
            Edit(
                "data.py",
                "        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, "
                "-task.shift, task.shift)\n",
                "        shifts = np.random.uniform(-task.shift, task.shift, (images.shape[0], 2))\n"
                "        shifts = tf.constant(shifts, tf.float32)\n",
            ),
        ),
        kind="randomness",
        cause="np.random is called when tf.data traces the function, so the same shifts are used "
        "in every step, and the seed isn't",
        file="data.py",
        named=r"np\.random|numpy|trac(e|ing)|seed|stateless|constant|same (shift|augment|random)|"
        r"once|reproduc|random",
    ),
    fault_in(
        name="small gradients as a small learning rate under adam",
        project="finetuning",
        edits=(
            Edit(
                "optimizer.py",
                "    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)\n"
                "    return keras.optimizers.MultiOptimizer(lambda v: fast if "
                'v.path.startswith("logits/") else slow)\n',
                "    return keras.optimizers.Adam(schedule)\n",
            ),
            Edit(
                "optimizer.py",
                "# TODO(7): your optimizer",
                "SLOWER = 0.1  # learning rate of the backbone, as a fraction of the last layer's"
                "\n\n\n# TODO(7): your optimizer",
            ),
            Edit(
                "optimizer.py",
                '    """One gradient for each of `variables`, the same on every replica."""\n'
                "    return gradients\n",
                '    """One gradient for each of `variables`, those of the backbone made SLOWER."""\n'
                "    return [\n"
                '        gradient if variable.path.startswith("logits/") else SLOWER * gradient\n'
                "        for gradient, variable in zip(gradients, variables, strict=True)\n"
                "    ]\n",
            ),
        ),
        kind="optimizer",
        cause="Adam divides by the size of the gradients, so scaling those of the backbone changes "
        "nothing: it trains at the full learning rate",
        file="optimizer.py",
        named=r"adam|scal(e|ing)|invarian|process_gradients|no effect|learning rate|SLOWER|"
        r"gradients?.*(nothing|cancel)",
    ),
    fault_in(
        name="validation measures the teacher",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                '    run.metrics["accuracy"].update_state(labels, logits, weights)\n',
                '    run.metrics["accuracy"].update_state(labels, taught, weights)\n',
                "validation_step",
            ),
        ),
        kind="metrics",
        cause="the accuracy of validation and test is computed from the teacher's logits",
        file="steps.py",
        named=r"teacher|taught|metric|accuracy|not the (student|model)|constant|"
        r"doesn't depend|independent|same in every",
    ),
    fault_in(
        name="share of the labels fixed in the graph",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
                "TEMPERATURE = 2.0\n"
                'SHARE = {"hard": 0.0}  # of the labels in the loss; task/callbacks.py raises it\n',
            ),
            Edit(
                "steps.py",
                "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
                '    share = SHARE["hard"]\n'
                "    per_example = share * hard + (1 - share) * TEMPERATURE**2 * soft  # (batch,)\n",
                "*",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                "from ..engine.callbacks import Callback, Event, every_epochs\n"
                "from .config import TaskConfig\n"
                "from .steps import SHARE\n"
                "\n"
                "ANNEAL_EPOCHS = 20  # after which only the labels count\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_epochs(1, _anneal)]\n"
                "\n"
                "\n"
                "def _anneal(event: Event) -> None:\n"
                '    """From the teacher alone to the labels alone."""\n'
                '    SHARE["hard"] = min(1.0, event.epoch / ANNEAL_EPOCHS)\n',
            ),
        ),
        kind="callbacks",
        cause="the steps are traced once, so the Python number that the callback changes stays in "
        "the graph as it was at the start",
        file="steps.py",
        named=r"trac(e|ed|ing)|graph|python (number|value|variable)|callback|SHARE|constant|"
        r"global|retrac|no effect|replica\.step|never (changes|used)|hard|labels",
    ),
)

TASKS: tuple[Change, ...] = ()
