"""The six tasks of docs/unusual-tasks.md: whole tasks, each far from the starters."""

from __future__ import annotations

from typing import Any

from . import blank
from . import places as at
from .edits import PACKAGE, Change, Edit, Fault, after, before
from .tasks import ADAM, LABELS, LOWEST_LOSS, PICTURES, SUM_OF_SQUARES, in_losses, in_model

LOADED = "from ..engine.batches import first_examples\n"
TASK = f"{PACKAGE}/task"


def steps(train: str, validation: str) -> tuple[Edit, ...]:
    """Bodies of the train and the validation step; the test step is the latter."""
    bodies = {
        "train": f'    """This replica\'s contribution to the training loss."""\n{train}',
        "validation": f'    """This replica\'s contribution to the validation loss."""\n{validation}',
        "test": '    """The same as in validation."""\n    return validation_step(run, batch, replica)\n',
    }
    header = "def {}_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:\n"
    return tuple(
        Edit("steps.py", "", header.format(name) + body, f"{name}_step")
        for name, body in bodies.items()
    )


VIEWS = """\
    arrays = {s: images.astype("float32")[..., np.newaxis] for s, (images, _) in splits.items()}
    random = np.random.default_rng(0)

    def noisy(images: np.ndarray) -> np.ndarray:
        noise = random.normal(0, 0.4, images.shape)
        return np.clip(images + noise, 0, 1).astype("float32")

    return {split: (images, noisy(images)) for split, images in arrays.items()}
"""

CONTRASTIVE = """\
    left, right, weights = batch
    left = tf.math.l2_normalize(run.model(left, training=True), axis=1)  # (rows, features)
    right = tf.math.l2_normalize(run.model(right, training=True), axis=1)  # (rows, features)
    candidates = replica.all_gather(right)  # (rows of all replicas, features)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)
    run.metrics["accuracy"].update_state(own, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""

VAE_MODELS = '''\
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Images -> mean and log variance of the code (batch, 2 * CODE); code -> images."""
    layers, floatx = keras.layers, keras.config.floatx()
    images = keras.Input(adapted["shape"], name="images")
    shape = images.shape[1:]  # (h, w, 1)
    x = layers.Dense(128, activation="relu")(layers.Flatten()(images))
    x = layers.Dropout(task.dropout)(x)
    encoder = keras.Model(images, layers.Dense(2 * CODE, dtype=floatx)(x), name="encoder")
    code = keras.Input((CODE,), name="code")
    x = layers.Dense(128, activation="relu")(code)
    l2 = keras.regularizers.L2(task.l2)
    pixels = int(np.prod(shape))
    x = layers.Dense(pixels, activation="sigmoid", kernel_regularizer=l2, dtype=floatx)(x)
    decoder = keras.Model(code, layers.Reshape(shape, dtype=floatx)(x), name="decoder")
    return {"encoder": encoder, "decoder": decoder}
'''

KL_DIVERGENCE = '''\
def kl_divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """From the code to a standard normal distribution, (batch, code) -> (batch,)."""
    each = tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0
    return 0.5 * tf.reduce_sum(each, axis=1)


def means(
    per_example: dict[str, tf.Tensor], weights: tf.Tensor, replica: Replica
) -> dict[str, tf.Tensor]:
    """This replica's part of each mean, (batch,) -> scalars."""
    return {
        name: tf.nn.compute_average_loss(
            values, sample_weight=weights, global_batch_size=replica.global_count
        )
        for name, values in per_example.items()
    }


'''

VAE = """\
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=True), 2, axis=1)  # (batch, CODE)
    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)
    decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
    error = run.losses["main"](images, decoded)  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "kl": kl}, weights, replica)}
"""

VAE_EVALUATION = """\
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=False), 2, axis=1)  # (batch, CODE)
    error = run.losses["main"](images, decoder(mean, training=False))  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    loss = compute_loss(error + kl, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "kl": kl}, weights, replica)}
"""

# The guide is deleted after the last TODO, as the README says.
SERIES = f"""\
from pathlib import Path

import numpy as np

Path("conftest.py").unlink()
Path("{TASK}/next_todo.py").unlink()
random, hours = np.random.default_rng(0), np.arange(900)
noise = np.convolve(random.normal(size=(920,)), np.full(20, 0.2), "valid")[:900]
temperature = 12 + 6 * np.sin(2 * np.pi * hours / 24) + noise
wind = 4 + np.cos(2 * np.pi * hours / 24) + 0.5 * noise + random.normal(size=900)
columns = [[f"{{value:.1f}}" for value in column] for column in (temperature, wind)]
for column in columns:
    for missing in np.flatnonzero(random.random(900) < 0.03):
        column[missing] = ""
rows = [",".join(map(str, row)) for row in zip(hours, *columns)]
file = Path("{TASK}/series.csv")
file.write_text("\\n".join(["hour,temperature,wind", *rows]) + "\\n")
"""

FORECAST_CONFIG = (
    before("config.py", '    monitor: str = "validation_loss"', "    learning_rate: float = 1e-3  # learning rate at the start; decays to 0 along a cosine\n"
"    units: int = 32  # units of the hidden layer\n"),
    Edit(
        "config.py",
        """\
        raise TodoError(
            1,
            "TaskConfig in task/config.py needs the settings of your task and the column of "
            "history.csv that selects the best weights; then delete this error",
        )
""",
        """\
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
""",
    ),
    Edit("config.py", '"""The task."""', '"""Forecasting."""'),
    Edit("config.py", "from .next_todo import TodoError\n\n\n# TODO(1): the settings of your task, each with a default; every field becomes a flag of train.py.\n", "\n"),
)  # fmt: skip

FORECAST_DATA = '''\
"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .config import TaskConfig

# A header, then a row for each hour: hour, temperature, wind; empty where missing.
SERIES = Path(__file__).with_name("series.csv")
COLUMNS, TARGET = (1, 2), 0  # what is read of a row; which of these to forecast
PAST, FUTURE = 24, 6  # hours


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing."""
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None


def _windows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every window of consecutive rows: len(rows) - PAST - FUTURE + 1 of them."""
    windows = np.lib.stride_tricks.sliding_window_view(rows, PAST + FUTURE, axis=0)
    return windows[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]
'''

FORECAST_MODEL = '''\
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import COLUMNS, FUTURE, PAST


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Means and variances of what is there: of each column, and of what to forecast."""
    inputs, labels = datasets["train"]
    return {
        "mean": np.nanmean(inputs, axis=(0, 1)),
        "variance": np.nanvar(inputs, axis=(0, 1)),
        "label_mean": np.nanmean(labels),
        "label_std": np.nanstd(labels),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Past float (batch, PAST, columns) -> forecast (batch, FUTURE), in units of the data."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    mean, variance = adapted["mean"], adapted["variance"]
    past = keras.Input((PAST, len(COLUMNS)), name="past")
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(past)
    missing = ops.isnan(scaled)
    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
'''

FORECAST_LOSSES = (
    Edit("losses.py", "# TODO(5): your losses, each with reduction=\"none\".\n", ""),
    Edit(
        "losses.py",
        "",
        '''\
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """None by name: the step squares the errors itself."""
    return {}


def weights_of_values(batch: Any) -> tf.Tensor:
    """The weight of each value to forecast, float (batch, FUTURE): 0 where it is missing."""
    _, labels, weights = batch
    there = tf.cast(~tf.math.is_nan(labels), weights.dtype)  # (batch, FUTURE)
    return there * weights[:, tf.newaxis]
''',
        "create_losses",
    ),
    Edit("losses.py", "# TODO(10): the number that the loss of a batch is divided by.\n", ""),
    Edit(
        "losses.py",
        "",
        '''\
def count(batch: Any) -> tf.Tensor:
    """How many values there are to forecast, an int32 scalar."""
    return tf.math.count_nonzero(weights_of_values(batch), dtype=tf.int32)
''',
        "count",
    ),
    Edit("losses.py", "        per_example: float (batch,), or (batch, ...) with a weight for each number of an example.\n        weights: float, of the same shape, 0 for padding.\n", "        per_example: float (batch, FUTURE).\n        weights: float (batch, FUTURE), 0 for padding and where the label is missing.\n"),
    Edit("losses.py", "from .next_todo import TodoError\n", ""),
)  # fmt: skip

FORECAST_METRICS = '''\
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig
from .data import FUTURE


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The mean absolute error of each hour of the forecast."""
    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
'''

FORECAST_OPTIMIZER = (
    Edit("optimizer.py", "# TODO(7): your optimizer, or a dict with one for each model.\n", ""),
    Edit(
        "optimizer.py",
        """\
    raise TodoError(
        7,
        "create_optimizer in task/optimizer.py must return an optimizer, such as "
        "keras.optimizers.Adam(1e-3)",
    )
""",
        at.ADAM,
    ),
    Edit(
        "optimizer.py",
        "# TODO(12): a change to the gradients, after their sum over all replicas and before clipping.\n",
        "",
    ),
    Edit(
        "optimizer.py",
        """\
    raise TodoError(
        12,
        "process_gradients in task/optimizer.py must return a gradient for each variable; "
        "`return gradients` leaves them as they are",
    )
""",
        "    return gradients\n",
    ),
    Edit("optimizer.py", "from .next_todo import TodoError\n", ""),
)

FORECAST_CALLBACKS = blank.CALLBACKS.replace(
    '"""None."""',
    '"""Functions called between steps: '
    'they can save, stop, freeze layers or set learning rates."""',
)

FORECAST_STEPS = (
    '''\
"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import FUTURE
from .losses import compute_loss, weights_of_values

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # past, future (batch, FUTURE), weights (batch,)
'''
    + blank.THREE_STEPS.replace(
        "This replica's contribution to the test loss.", "The same as in validation."
    )
    + '''

def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The mean squared error of the values that are there."""
    past, future, _ = batch
    forecast = run.model(past, training=training)  # (batch, FUTURE)
    weights = weights_of_values(batch)  # (batch, FUTURE)
    error = tf.where(weights > 0, future, forecast) - forecast  # without NaN: 0 x NaN is NaN
    for hour in range(1, FUTURE + 1):
        absolute = tf.abs(error[:, hour - 1])  # (batch,)
        run.metrics[f"mae_{hour}"].update_state(absolute, weights[:, hour - 1])
    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
'''
)

BACKBONE = f"""\
import keras
import numpy as np

keras.utils.set_random_seed(0)
file = np.load("{TASK}/digits.npz")
images, labels = file["train_images"][..., np.newaxis] / 16, file["train_labels"]
few = labels < 5  # the others are new when it is fine-tuned
images, labels = images[few], labels[few]
backbone = keras.Sequential([keras.Input(images.shape[1:])])
for filters in (32, 64):
    backbone.add(keras.layers.Conv2D(filters, 3, padding="same", use_bias=False))
    backbone.add(keras.layers.BatchNormalization())
    backbone.add(keras.layers.Activation("relu"))
    backbone.add(keras.layers.MaxPooling2D())
backbone.add(keras.layers.Flatten())
model = keras.Sequential([backbone, keras.layers.Dense(5)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, epochs=3, verbose=0)
backbone.save("{TASK}/backbone.keras")
"""

FINE_TUNED = '''\
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes)."""
    backbone = load_in_precision(BACKBONE)
    backbone.name = "backbone"
    for layer in backbone.layers:
        # Normalization stays as it was for good; the others are trainable until step 0.
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
    images = keras.Input(adapted["shape"], name="images")
    features = keras.layers.Dropout(task.dropout)(backbone(images))
    l2 = keras.regularizers.L2(task.l2)
    logits = keras.layers.Dense(
        CLASSES, kernel_regularizer=l2, dtype=keras.config.floatx(), name="logits"
    )
    return keras.Model(images, logits(features))
'''

UNFREEZE = '''\
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Train the last layer alone for --frozen-steps steps, then everything."""

    def set_trainable(event: Event, trainable: bool) -> None:
        for layer in event.run.model.get_layer("backbone").layers:
            if not isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = trainable

    return [
        at_step(0, lambda event: set_trainable(event, False)),
        at_step(task.frozen_steps, lambda event: set_trainable(event, True)),
    ]
'''

TWO_LABELS = '''\
def _two_labels(digits: np.ndarray) -> dict[str, np.ndarray]:
    """What is known of an image, int64 (n,): most digits, and of a fifth whether they are even."""
    rows = np.arange(len(digits))
    digits = digits.astype("int64")
    return {
        "digit": np.where(rows % 6 == 5, -1, digits),
        "even": np.where(rows % 5 == 0, 1 - digits % 2, -1),
    }


'''

HEADS_COUNT = '''\
def weights_of_heads(batch: Any) -> dict[str, tf.Tensor]:
    """The weight of each example for each head, float (batch,): 0 where the label is missing."""
    _, labels, weights = batch
    return {head: weights * tf.cast(labels[head] >= 0, weights.dtype) for head in HEADS}


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many labels of each head count, int32 scalars."""
    weights = weights_of_heads(batch)
    return {head: tf.math.count_nonzero(weights[head], dtype=tf.int32) for head in HEADS}
'''

HEADS = """\
    images, labels, _ = batch
    outputs = run.model(images, training=True)  # {head: (batch, classes)}
    weights = weights_of_heads(batch)
    terms = {}
    for head in HEADS:
        known = tf.maximum(labels[head], 0)  # any class will do where the weight is 0
        per_example = run.losses[head](known, outputs[head])  # (batch,)
        terms[head] = tf.nn.compute_average_loss(
            per_example, sample_weight=weights[head], global_batch_size=replica.global_count[head]
        )
        run.metrics[f"{head}_accuracy"].update_state(known, outputs[head], weights[head])
    regularization = tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": tf.add_n(list(terms.values())) + regularization, **terms}
"""

TEACHER = f"""\
import keras
import numpy as np

keras.utils.set_random_seed(0)
file = np.load("{TASK}/digits.npz")
images, labels = file["train_images"][..., np.newaxis] / 16, file["train_labels"]
teacher = keras.Sequential([keras.Input(images.shape[1:])])
for filters in (32, 64):
    teacher.add(keras.layers.Conv2D(filters, 3, padding="same", activation="relu"))
    teacher.add(keras.layers.BatchNormalization())
    teacher.add(keras.layers.MaxPooling2D())
teacher.add(keras.layers.Flatten())
teacher.add(keras.layers.Dropout(0.3))
teacher.add(keras.layers.Dense(10))
teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
teacher.fit(images, labels, epochs=5, verbose=0)
teacher.save("{TASK}/teacher.keras")
"""

STUDENT = '''\
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """A small student, images -> logits, and the teacher that it learns from."""
    layers = keras.layers
    images = keras.Input(adapted["shape"], name="images")
    x = layers.Dense(32, activation="relu")(layers.Flatten()(images))
    x = layers.Dropout(task.dropout)(x)
    l2 = keras.regularizers.L2(task.l2)
    x = layers.Dense(CLASSES, kernel_regularizer=l2, dtype=keras.config.floatx(), name="logits")(x)
    return {"student": keras.Model(images, x), "teacher": load_frozen(TEACHER)}
'''

DISTILLED = """\
    images, labels, weights = batch
    logits = run.model(images, training=True)  # (batch, classes)
    taught = tf.cast(run.models["teacher"](images, training=False), logits.dtype)
    hard = run.losses["hard"](labels, logits)  # (batch,)
    soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""


def evaluated(step: str) -> str:
    """The same step without dropout."""
    return step.replace("training=True", "training=False")


UNUSUAL = (
    Change(
        name="contrastive learning with negatives from all replicas",
        edits=(
            Edit("data.py", at.ALL_ARRAYS, VIEWS),
            Edit(
                "data.py",
                "images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).",
                "images float32 (n, h, w, 1) in [0, 1], and with noise.",
            ),
            *in_model(
                ("CLASSES = 10", "FEATURES = 32"),
                (at.CLASS_LOGITS, at.CLASS_LOGITS.replace("logits", "features").replace("CLASSES", "FEATURES")),
                ("keras.Model(images, logits)", "keras.Model(images, features)"),
                ("logits float32 (batch, classes)", "features float32 (batch, FEATURES)"),
            ),
            in_losses("    return {}  # the step calls TensorFlow's cross-entropy itself\n"),
            *steps(CONTRASTIVE, evaluated(CONTRASTIVE)),
            Edit("steps.py", "\nBatch = ", "\nTEMPERATURE = 0.1\nBatch = "),
            Edit("steps.py", "# images, labels (batch,), weights", "# images, the same with noise, weights"),
            Edit("steps.py", "EXAMPLES_INTERACT = False", "EXAMPLES_INTERACT = True"),
            # With dropout in both views nothing is learned: all features become equal.
            Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
            PICTURES,
        ),
    ),
    Change(
        name="variational autoencoder",
        edits=(
            *in_model(("CLASSES = 10", "CODE = 8  # numbers that an image is coded by")),
            Edit("model.py", "", VAE_MODELS, "create_model"),
            in_losses("\n" + SUM_OF_SQUARES),
            before("losses.py", "# TODO(10)", KL_DIVERGENCE),
            Edit("metrics.py", at.ACCURACY, "{}"),
            Edit(
                "steps.py",
                "import compute_loss\n",
                "import compute_loss, kl_divergence, means\n\n"
                "WARM_UP = 200  # steps until the KL divergence counts in full\n",
            ),
            *steps(VAE, VAE_EVALUATION),
            Edit("steps.py", at.NO_TERMS, 'TERMS = ("error", "kl")  # reported beside the loss\n'),
            *LOWEST_LOSS,
            PICTURES,
        ),
    ),
    Change(
        name="forecasting from windows of a CSV file, values missing",
        starter="blank",
        edits=(
            *FORECAST_CONFIG,
            Edit("data.py", "", FORECAST_DATA),
            Edit("model.py", "", FORECAST_MODEL),
            *FORECAST_LOSSES,
            Edit("metrics.py", "", FORECAST_METRICS),
            *FORECAST_OPTIMIZER,
            PICTURES,
            Edit("callbacks.py", "", FORECAST_CALLBACKS),
            Edit("steps.py", "", FORECAST_STEPS),
        ),
        preparation=SERIES,
    ),
    Change(
        # Tests resume from step 6: the steps before freezing, between and after are all there.
        name="fine-tuning: frozen BatchNormalization, convolutions unfrozen later, two rates",
        edits=(
            before("config.py", "    monitor: str", "    frozen_steps: int = 7  # steps in which the last layer trains alone\n"),
            Edit("model.py", "", FINE_TUNED, "create_model"),
            *in_model(
                ("from typing import Any\n", "from pathlib import Path\nfrom typing import Any\n"),
                (LOADED, f"from ..engine.auxiliary import load_in_precision\n{LOADED}"),
                ("CLASSES = 10\n", 'CLASSES = 10\nBACKBONE = Path(__file__).with_name("backbone.keras")\n'),
            ),
            Edit("callbacks.py", "", UNFREEZE, "create_callbacks"),
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "import keras\n\nfrom ..engine.callbacks import Callback, Event, at_step\n",
            ),
            Edit(
                "optimizer.py",
                ADAM,
                "slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)\n"
                '    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)',
            ),
        ),
        preparation=BACKBONE,
    ),
    Change(
        name="two heads, most labels of one missing",
        edits=(
            Edit("data.py", LABELS, "_two_labels(labels)"),
            Edit("data.py", "labels int64 (n,).", "labels by head."),
            before("data.py", "def _load_digits(", TWO_LABELS),
            *in_model(
                (at.CLASS_LOGITS, at.CLASS_LOGITS + '\n    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)'),
                ("keras.Model(images, logits)", 'keras.Model(images, {"digit": logits, "even": even})'),
                ("logits float32 (batch, classes)", "logits of each head float32 (batch, classes)"),
            ),
            in_losses(
                f"    entropy = {at.SPARSE}\n"
                "    return dict.fromkeys(HEADS, entropy)\n"
            ),
            after("losses.py", "import TaskConfig\n", '\n'
'HEADS = ("digit", "even")  # outputs of the model and labels; a label of -1 is missing\n'),
            Edit("losses.py", "", HEADS_COUNT, "count"),
            Edit("metrics.py", at.ACCURACY, '{f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}'),
            after("metrics.py", "import TaskConfig\n", 'from .losses import HEADS\n'),
            Edit("steps.py", "import compute_loss", "import HEADS, weights_of_heads"),
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)",
                "Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # images, labels, weights (batch,)",
            ),
            *steps(HEADS, evaluated(HEADS)),
            Edit("steps.py", at.NO_TERMS, "TERMS = HEADS  # the loss of each head is reported too\n"),
            Edit(
                "config.py",
                '    monitor: str = "validation_accuracy"  # column of history.csv that selects the best weights\n',
                "    # column of history.csv that selects the best weights\n"
                '    monitor: str = "validation_digit_accuracy"\n',
            ),
            PICTURES,
        ),
    ),
    Change(
        name="distillation from a frozen teacher",
        edits=(
            Edit("model.py", "", STUDENT, "create_model"),
            *in_model(
                ("from typing import Any\n", "from pathlib import Path\nfrom typing import Any\n"),
                (LOADED, f"from ..engine.auxiliary import load_frozen\n{LOADED}"),
                ("CLASSES = 10\n", 'CLASSES = 10\nTEACHER = Path(__file__).with_name("teacher.keras")\n'),
            ),
            in_losses(
                f"    hard = {at.SPARSE}\n"
                f"    soft = {at.SPARSE.replace('Sparse', '')}\n"
                '    return {"hard": hard, "soft": soft}\n'
            ),
            Edit(
                "steps.py",
                "\nBatch = ",
                "\nTEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\nBatch = ",
            ),
            *steps(DISTILLED, evaluated(DISTILLED)),
        ),
        preparation=TEACHER,
    ),
)  # fmt: skip

# Tasks that examiners make changes in, by a short name.
OF_OWNERS = dict(
    zip(
        ("contrastive", "vae", "forecasting", "finetuning", "two_heads", "distillation"),
        UNUSUAL,
        strict=True,
    )
)


def fault_in(project: str, **parts: Any) -> Fault:
    """A fault in a starter, or in the task of an owner; the other fields of it by name."""
    if project not in OF_OWNERS:
        return Fault(starter=project, **parts)
    return Fault(**_within(OF_OWNERS[project], project, **parts))


def change_of(project: str, **parts: Any) -> Change:
    """A change of a starter, or of the task of an owner."""
    if project not in OF_OWNERS:
        return Change(starter=project, **parts)
    return Change(**_within(OF_OWNERS[project], project, **parts))


def _within(
    task: Change, project: str, *, name: str, edits: tuple[Edit, ...], **parts: Any
) -> dict[str, Any]:
    """What is planted behind the edits of a task, under the name of its project."""
    return parts | {
        "name": f"{project}, {name}",
        "starter": task.starter,
        "edits": (*task.edits, *edits),
        "flags": task.flags,
        "preparation": task.preparation,
    }
