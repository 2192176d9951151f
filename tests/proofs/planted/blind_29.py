"""Correct tasks of an examiner."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .tasks import PICTURES, VALIDATION_BY_STEP
from .unusual import change_of

UPDATE = 'run.metrics["accuracy"].update_state(labels, predictions, weights)'
MAE_R2 = """    run.metrics["mae"].update_state(labels, predictions, weights)
    run.metrics["r2"].update_state(labels, predictions, weights)
"""

super_resolution = change_of(
    name="super-resolution with a residual that starts at zero",
    project="image_classification",
    edits=(
        Edit(
            "config.py", 'monitor: str = "validation_accuracy"', 'monitor: str = "validation_psnr"'
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images of half the size float32 (n, h/2, w/2, 1), and the images themselves (n, h, w, 1)."""
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    datasets = {}
    for split, (images, _) in splits.items():
        fine = images.astype("float32")[..., np.newaxis]
        n, height, width, _ = fine.shape
        blocks = fine.reshape(n, height // 2, 2, width // 2, 2, 1)
        datasets[split] = (blocks.mean(axis=(2, 4)), fine)
    return datasets
''',
            "create_datasets",
        ),
        Edit(
            "data.py",
            "",
            '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Mirrors half of the images, input and target alike."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        coarse, fine, weights = batch
        mirrored = tf.random.stateless_uniform((coarse.shape[0], 1, 1, 1), seed) < 0.5
        coarse = tf.where(mirrored, tf.reverse(coarse, [2]), coarse)
        fine = tf.where(mirrored, tf.reverse(fine, [2]), fine)
        return coarse, fine, weights

    return augment
''',
            "create_augment",
        ),
        Edit(
            "model.py",
            "",
            '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h/2, w/2, 1) -> images float32 (batch, h, w, 1)."""
    layers, floatx = keras.layers, keras.config.floatx()
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input(adapted["shape"], name="images")
    x = images
    for _ in range(3):
        x = layers.Conv2D(48, 3, padding="same", activation="relu", kernel_regularizer=l2)(x)
    # What is missing in the enlarged image: nothing at the start of the training.
    missing = layers.Conv2DTranspose(
        1, 4, strides=2, padding="same", kernel_initializer="zeros", dtype=floatx
    )(x)
    enlarged = layers.UpSampling2D(dtype=floatx)(images)
    return keras.Model(images, layers.Add(dtype=floatx)([enlarged, missing]))
''',
            "create_model",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """The Charbonnier loss, an absolute error that is smooth at 0."""

    def charbonnier(images: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both (batch, h, w, 1) -> (batch,)."""
        return tf.reduce_mean(tf.sqrt(tf.square(images - predictions) + 1e-6), axis=[1, 2, 3])

    return {"main": charbonnier}


def psnr(images: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """The peak signal-to-noise ratio of each image in dB, (batch,); the largest value is 1."""
    error = tf.reduce_mean(tf.square(images - predictions), axis=[1, 2, 3])
    return -10.0 * tf.math.log(error + 1e-10) / tf.math.log(tf.constant(10.0, error.dtype))
''',
            "create_losses",
        ),
        Edit(
            "metrics.py",
            '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            '{"psnr": keras.metrics.Mean()}',
        ),
        Edit(
            "steps.py", "from .losses import compute_loss", "from .losses import compute_loss, psnr"
        ),
        Edit(
            "steps.py",
            UPDATE,
            'run.metrics["psnr"].update_state(psnr(labels, predictions), weights)',
            "*",
        ),
        PICTURES,
        Edit(
            "predictions.py",
            "",
            '''def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """The enlarged images."""
    return {"image": np.asarray(outputs)}
''',
            "describe",
        ),
    ),
)

long_tail = change_of(
    name="long-tailed classes with logit adjustment in training only",
    project="image_classification",
    edits=(
        Edit(
            "data.py",
            '    return {\n        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))\n        for split, (images, labels) in splits.items()\n    }\n',
            """    splits = splits | {"train": _long_tail(*splits["train"])}  # the others stay balanced
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
            "create_datasets",
        ),
        Edit(
            "data.py",
            "def _load_digits() ->",
            '''def _long_tail(images: np.ndarray, labels: np.ndarray) -> Arrays:
    """The first images of each class, of the last class a tenth as many as of the first."""
    labels = labels.astype("int64")
    of_class = labels[:, np.newaxis] == np.arange(10)
    rank = of_class.cumsum(axis=0)[np.arange(len(labels)), labels] - 1
    keep = rank < of_class.sum(axis=0).max() * 10.0 ** (-labels / 9)
    return images[keep], labels[keep]


def _load_digits() ->''',
        ),
        Edit(
            "model.py",
            """    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}""",
            """    images, *_ = first_examples(datasets["train"], 1)
    _, labels = datasets["train"]
    shares = np.bincount(labels, minlength=CLASSES) / len(labels)
    return {"shape": images.shape[1:], "log_prior": np.log(shares)}""",
        ),
        Edit(
            "steps.py",
            """    per_example = run.losses["main"](labels, predictions)  # (batch,)""",
            """    # Menon et al. (2021): with the prior added here, the logits alone are those of balanced classes.
    prior = tf.constant(run.adapted["log_prior"], predictions.dtype)  # (classes,)
    per_example = run.losses["main"](labels, predictions + prior)  # (batch,)""",
            "train_step",
        ),
        Edit(
            "optimizer.py",
            "    return gradients\n",
            """    # Centralized (Yong et al., 2020): the mean over a unit's inputs is taken off.
    return [
        g - tf.reduce_mean(g, axis=list(range(g.shape.rank - 1)), keepdims=True)
        if g.shape.rank > 1
        else g
        for g in gradients
    ]
""",
        ),
    ),
)

quantiles = change_of(
    name="quantiles that can't cross, three of them",
    project="tabular_regression",
    edits=(
        Edit(
            "model.py",
            """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
""",
            """    x = layers.Dense(3, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 3)
    median, below, above = ops.split(x, 3, axis=1)
    ends = [median, median - ops.softplus(below), median + ops.softplus(above)]
    x = layers.Concatenate(dtype=floatx)(ends)  # in the order of QUANTILES in losses.py
    mean, variance = (np.repeat(adapted[f"label_{name}"], 3) for name in ("mean", "variance"))
""",
        ),
        Edit(
            "losses.py",
            "LABEL_DEVIATION = 77.0",
            "QUANTILES = (0.5, 0.1, 0.9)  # the median first\nLABEL_DEVIATION = 77.0",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The pinball loss of standardized labels."""

    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), quantiles (batch, 3) -> (batch,)."""
        error = (labels - predictions) / LABEL_DEVIATION  # (batch, 3)
        quantiles = tf.constant(QUANTILES, error.dtype)
        return tf.reduce_mean(tf.maximum(quantiles * error, (quantiles - 1) * error), axis=1)

    return {"main": pinball}
''',
            "create_losses",
        ),
        Edit(
            "metrics.py",
            '"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}',
            '"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, "coverage": keras.metrics.Mean()}',
        ),
        Edit(
            "steps.py",
            MAE_R2,
            """    median = predictions[:, :1]  # (batch, 1)
    run.metrics["mae"].update_state(labels, median, weights)
    run.metrics["r2"].update_state(labels, median, weights)
    inside = (labels[:, 0] >= predictions[:, 1]) & (labels[:, 0] <= predictions[:, 2])  # (batch,)
    run.metrics["coverage"].update_state(tf.cast(inside, weights.dtype), weights)
""",
            "*",
        ),
    ),
)

tobit = change_of(
    name="Tobit regression of labels above a detection limit",
    project="tabular_regression",
    edits=(
        Edit(
            "data.py",
            "FOLDS = 5\n",
            "FOLDS = 5\nLIMIT = 250.0  # the scale of the instrument ends here\n",
        ),
        Edit(
            "data.py",
            'return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]',
            """measured, beyond = np.minimum(target[rows], LIMIT), target[rows] > LIMIT
        labels = np.stack([measured, beyond], axis=1).astype(np.float32)  # (n, 2)
        return {"numeric": numeric, "sex": sex}, labels""",
        ),
        Edit(
            "model.py",
            '"label_mean": labels.mean(axis=0)',
            '"label_mean": labels[:, :1].mean(axis=0)',
        ),
        Edit(
            "model.py",
            '"label_variance": labels.var(axis=0)',
            '"label_variance": labels[:, :1].var(axis=0)',
        ),
        Edit(
            "model.py",
            "x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)",
            "x = layers.Dense(2, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 2)",
        ),
        Edit(
            "model.py",
            "    return keras.Model(inputs, unscale(x))",
            """    # The mean, and the standard deviation of what is measured, in units of the data.
    deviation = 5.0 + float(np.sqrt(variance[0])) * ops.softplus(x[:, 1:])
    outputs = layers.Concatenate(dtype=floatx)([unscale(x[:, :1]), deviation])
    return keras.Model(inputs, outputs)""",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log likelihood of normal values, of which large ones are only known as such."""

    def log_survival(z: tf.Tensor) -> tf.Tensor:
        """The log of the probability of more than z, also where that is 0 in float32."""
        low, high = tf.minimum(z, 5.0), tf.maximum(z, 5.0)
        near = tf.math.log(0.5 * tf.math.erfc(low / 2**0.5))
        far = -0.5 * tf.square(high) - tf.math.log(high * (2 * math.pi) ** 0.5)
        return tf.where(z < 5.0, near, far)

    def tobit(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 2): value, 1 if it is more; mean and deviation (batch, 2) -> (batch,)."""
        mean, deviation = predictions[:, 0], predictions[:, 1]
        z = (labels[:, 0] - mean) / deviation
        log_density = -0.5 * tf.square(z) - tf.math.log(deviation / LABEL_DEVIATION)
        return -tf.where(labels[:, 1] > 0, log_survival(z), log_density)

    return {"main": tobit}
''',
            "create_losses",
        ),
        Edit(
            "losses.py",
            "from collections.abc import Callable\n",
            "import math\nfrom collections.abc import Callable\n",
        ),
        Edit(
            "metrics.py",
            "",
            '''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The mean absolute error of values that were measured."""
    return {"mae": keras.metrics.MeanAbsoluteError()}
''',
            "create_metrics",
        ),
        Edit(
            "steps.py",
            MAE_R2,
            """    measured = weights * (1 - labels[:, 1])  # of what is beyond the limit no error is known
    run.metrics["mae"].update_state(labels[:, :1], predictions[:, :1], measured)
""",
            "*",
        ),
    ),
)

prompt_weight = change_of(
    name="prompt tokens in the training loss with a small weight",
    project="language_model",
    edits=(
        Edit(
            "data.py",
            "VALIDATION_LINES, TEST_LINES = 480, 960",
            "VALIDATION_LINES, TEST_LINES = 480, 960\nPROMPT_WEIGHT = 0.1  # of a token of the prompt in the training loss; one of the answer has 1",
        ),
        Edit(
            "data.py",
            """    arrays = (tokens, targets, weights)
    return {
        "train": tuple(a[held_out:].reshape(task.dates, len(FORMS), -1) for a in arrays),
""",
            """    arrays = (tokens, targets, weights)
    of_prompts = np.where(targets != 0, np.maximum(weights, PROMPT_WEIGHT), 0).astype("float32")
    trained = (tokens, targets, of_prompts)
    return {
        "train": tuple(a[held_out:].reshape(task.dates, len(FORMS), -1) for a in trained),
""",
        ),
        Edit(
            "steps.py",
            """    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    run.metrics["exact_match"].update_state(targets, likeliest, weights)
""",
            """    of_answers = weights_of_answers(tokens, weights)  # the metrics aren't of prompts
    run.metrics["token_accuracy"].update_state(targets, logits, of_answers)
    run.metrics["exact_match"].update_state(targets, likeliest, of_answers)
""",
            "*",
        ),
        Edit(
            "steps.py",
            """    written = complete(run.model, tokens, weights)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    run.metrics["exact_match"].update_state(targets, written, weights)
""",
            """    of_answers = weights_of_answers(tokens, weights)
    written = complete(run.model, tokens, of_answers)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, of_answers)
    run.metrics["exact_match"].update_state(targets, written, of_answers)
""",
        ),
        Edit(
            "steps.py",
            "# TODO(11): one train step",
            '''def weights_of_answers(tokens: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weights (batch, T) with 0 for prompts, which training data gives a small one."""
    is_answer = tf.cumsum(tf.cast(tokens == PROMPT_END, tf.int32), axis=1) > 0  # (batch, T)
    return tf.where(is_answer, weights, tf.zeros_like(weights))


# TODO(11): one train step''',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .data import PROMPT_END\nfrom .losses import compute_loss\n",
        ),
        Edit("pictures.py", "weights != 0", "weights == 1", "draw_samples"),
    ),
)

tversky = change_of(
    name="Tversky index of each image beside the cross-entropy",
    project="segmentation",
    edits=(
        Edit("losses.py", "from .data import IGNORED", "from .data import CLASSES, IGNORED"),
        Edit(
            "losses.py",
            "def average_over_pixels(",
            '''def tversky(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the mean Tversky index of the classes that are in an image (Salehi et al., 2017).

    Labels int (batch, h, w), logits (batch, h, w, classes) -> (batch,). A missed pixel costs more
    than an invented one. Ignored pixels are in no class, and nothing is predicted there.
    """
    truth = tf.one_hot(labels, CLASSES, dtype=logits.dtype)  # 0 in all classes where ignored
    there = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    predicted = tf.nn.softmax(logits) * there
    hit = tf.reduce_sum(truth * predicted, axis=[1, 2])  # (batch, classes)
    pixels = tf.reduce_sum(truth, axis=[1, 2])
    missed, invented = pixels - hit, tf.reduce_sum(predicted, axis=[1, 2]) - hit
    index = (hit + 1) / (hit + 0.7 * missed + 0.3 * invented + 1)
    present = tf.cast(pixels > 0, logits.dtype)
    number = tf.reduce_sum(present, axis=1)
    return 1 - tf.math.divide_no_nan(tf.reduce_sum(index * present, axis=1), number)


def average_over_pixels(''',
        ),
        Edit(
            "steps.py",
            "import average_over_pixels, compute_loss",
            "import average_over_pixels, compute_loss, tversky",
        ),
        Edit(
            "steps.py",
            "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
            """    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    per_example += tversky(labels, logits)
""",
            "*",
        ),
    ),
)

scribbles = change_of(
    name="training images with a few labeled pixels",
    project="segmentation",
    edits=(
        Edit(
            "data.py",
            """        return {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
""",
            """        splits = {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
    # Annotators mark single points in training images; validation and test are labeled in full.
    images, labels = splits["train"]
    random = np.random.default_rng(len(CANVASES))
    marked = random.random(labels.shape) < np.where(labels == 0, 0.03, 0.25)
    return splits | {"train": (images, np.where(marked, labels, IGNORED).astype(np.int32))}
""",
        ),
    ),
)

r1 = change_of(
    name="gradient penalty on real images",
    project="gan",
    edits=(
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  #",
            "PENALTY = 0.2  # factor of the squared slope of the discriminator at real images\nBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  #",
        ),
        Edit(
            "steps.py",
            "    on_real = discriminator(images, training=True)  # (batch, 1)\n",
            """    with tf.GradientTape() as tape:  # inside the engine's, which differentiates the slope again
        tape.watch(images)
        on_real = discriminator(images, training=True)  # (batch, 1)
    # A logit depends on its own image only, so this is the slope of each.
    slope = tape.gradient(on_real, images)  # (batch, h, w, channels)
""",
            "discriminator_step",
        ),
        Edit(
            "steps.py",
            """    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
            """    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    # R1 (Mescheder et al., 2018), for training only.
    per_example += PENALTY / 2 * tf.reduce_sum(tf.square(slope), axis=[1, 2, 3])
""",
            "discriminator_step",
        ),
    ),
)

recommender = change_of(
    name="recommender by matrix factorization",
    project="blank",
    edits=(
        Edit(
            "config.py",
            "",
            '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Ratings of items by users."""

    learning_rate: float = 1e-2  # at the start; halved where validation gets no better
    factors: int = 8  # numbers that describe a user, and an item
    l2: float = 1e-4  # factor of the squares of all of them in the loss
    monitor: str = "validation_rmse"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
        ),
        Edit(
            "data.py",
            "",
            '''"""Ratings of a simulated shop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

USERS, ITEMS, RATINGS = 200, 120, 9_600
RANK = 3  # of the simulated tastes


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """{"user", "item"} int32 (n,) and ratings float32 (n, 1), from 1 to 5 in halves.

    Every pair is rated at most once, so no rating is in two splits; users and items are in all.
    """
    random = np.random.default_rng(0)
    user, item = np.divmod(random.permutation(USERS * ITEMS)[:RATINGS], ITEMS)
    tastes, traits = (random.normal(0, 0.7, (n, RANK)) for n in (USERS, ITEMS))
    kindness, quality = (random.normal(0, 0.4, n) for n in (USERS, ITEMS))
    rating = 3.2 + kindness[user] + quality[item] + (tastes[user] * traits[item]).sum(axis=1)
    rating = np.clip(np.round(2 * (rating + random.normal(0, 0.3, RATINGS))) / 2, 1, 5)
    inputs = {"user": user.astype("int32"), "item": item.astype("int32")}
    labels = rating.astype("float32")[:, np.newaxis]
    ends = {"train": (0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1)}
    rows = {s: slice(int(a * RATINGS), int(b * RATINGS)) for s, (a, b) in ends.items()}
    return {s: ({n: x[r] for n, x in inputs.items()}, labels[r]) for s, r in rows.items()}


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
from .data import ITEMS, USERS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The mean rating."""
    _, ratings = datasets["train"]
    return {"mean": ratings.mean()}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs {"user", "item"} int32 (batch,) -> ratings (batch, 1)."""
    layers, floatx = keras.layers, keras.config.floatx()
    inputs = {name: keras.Input((), dtype="int32", name=name) for name in ("user", "item")}
    factors, biases = [], []
    for name, rows in (("user", USERS), ("item", ITEMS)):
        factors.append(
            layers.Embedding(
                rows,
                task.factors,
                embeddings_initializer=keras.initializers.RandomNormal(stddev=0.1),
                embeddings_regularizer=keras.regularizers.L2(task.l2),
                dtype=floatx,
            )(inputs[name])
        )
        bias = layers.Embedding(rows, 1, embeddings_initializer="zeros", dtype=floatx)
        biases.append(bias(inputs[name]))
    match = layers.Dot(axes=1, dtype=floatx)(factors)  # (batch, 1)
    rating = layers.Add(dtype=floatx)([match, *biases])
    return keras.Model(inputs, rating + float(adapted["mean"]))
''',
        ),
        Edit("losses.py", "from .next_todo import TodoError\n", ""),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """The squared error."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
''',
            "create_losses",
        ),
        Edit(
            "losses.py",
            "",
            '''def count(batch: Any) -> tf.Tensor:
    """How many ratings count, an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
''',
            "count",
        ),
        Edit(
            "metrics.py",
            "",
            '''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The root mean squared error, in ratings."""
    return {"rmse": keras.metrics.RootMeanSquaredError()}
''',
        ),
        Edit(
            "optimizer.py",
            "",
            '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam, whose learning rate a callback lowers."""
    return keras.optimizers.Adam(task.learning_rate)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """As they are."""
    return gradients
''',
        ),
        Edit(
            "steps.py",
            "",
            '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, ratings (batch, 1), weights


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
    inputs, ratings, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, 1)
    per_example = run.losses["main"](ratings, predictions)  # (batch,)
    run.metrics["rmse"].update_state(ratings, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
        ),
        Edit(
            "callbacks.py",
            "",
            '''"""Functions that are called during training."""

from __future__ import annotations

import keras

from ..engine.callbacks import Callback
from ..engine.keras_callbacks import keras_callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Halve the learning rate after four validations that are no better."""
    plateau = keras.callbacks.ReduceLROnPlateau("val_rmse", factor=0.5, patience=4, mode="min")
    return [keras_callback(plateau)]
''',
        ),
        PICTURES,
    ),
)

uncertainty = change_of(
    name="heads weighted by learned variances",
    project="two_heads",
    edits=(
        Edit(
            "model.py",
            "CLASSES = 10\n",
            '''CLASSES = 10


@keras.saving.register_keras_serializable("my_experiment")
class Numbers(keras.layers.Layer):
    """Trained numbers that depend on no input, the same in each row: (batch, ...) -> (batch, n)."""

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n = n

    def build(self, input_shape: Any) -> None:
        """Create the numbers."""
        self.numbers = self.add_weight(shape=(self.n,), initializer="zeros", name="numbers")

    def call(self, x: Any) -> Any:
        """Repeat them for each row."""
        return keras.ops.zeros_like(x[:, :1]) + self.numbers

    def get_config(self) -> dict[str, Any]:
        """What the constructor needs."""
        return super().get_config() | {"n": self.n}
''',
        ),
        Edit(
            "model.py",
            '    return keras.Model(images, {"digit": logits, "even": even})',
            """    # The log variance of each head's labels (Kendall et al., 2018), which weights its loss.
    log_variance = Numbers(2, dtype=keras.config.floatx(), name="log_variance")(x)
    return keras.Model(images, {"digit": logits, "even": even, "log_variance": log_variance})""",
        ),
        Edit("steps.py", "    for head in HEADS:\n", "    for i, head in enumerate(HEADS):\n", "*"),
        Edit(
            "steps.py",
            "        per_example = run.losses[head](known, outputs[head])  # (batch,)\n",
            """        log_variance = outputs["log_variance"][:, i]  # (batch,), the same in each row
        per_example = run.losses[head](known, outputs[head])  # (batch,)
        per_example = tf.exp(-log_variance) * per_example + 0.5 * log_variance
""",
            "*",
        ),
    ),
)

window_scale = change_of(
    name="every window normalized by itself, forecast by dilated convolutions",
    project="forecasting",
    edits=(
        Edit(
            "model.py",
            "from .data import COLUMNS, FUTURE, PAST",
            "from .data import COLUMNS, FUTURE, PAST, TARGET",
        ),
        Edit(
            "model.py",
            "",
            '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Past float (batch, PAST, columns) -> forecast (batch, FUTURE), in units of the data.

    Each window is scaled by its own mean and deviation, and the forecast scaled back by them
    (Kim et al., 2022), so that a level that drifts is no new input.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    past = keras.Input((PAST, len(COLUMNS)), name="past")
    missing = ops.isnan(past)
    there = 1.0 - ops.cast(missing, floatx)
    known = ops.where(missing, 0.0, past)
    number = ops.maximum(ops.sum(there, axis=1, keepdims=True), 1.0)  # (batch, 1, columns)
    mean = ops.sum(known, axis=1, keepdims=True) / number
    variance = ops.sum(there * ops.square(known - mean), axis=1, keepdims=True) / number
    deviation = ops.sqrt(variance + 0.01)
    x = layers.Concatenate()([there * (known - mean) / deviation, there])
    for dilation in (1, 2, 4, 8):
        x = layers.Conv1D(
            task.units, 3, padding="causal", dilation_rate=dilation, activation="swish"
        )(x)
    x = layers.Dense(FUTURE, dtype=floatx)(x[:, -1])  # (batch, FUTURE), from the latest hour
    target = slice(TARGET, TARGET + 1)
    return keras.Model(past, x * deviation[:, 0, target] + mean[:, 0, target])
''',
            "create_model",
        ),
    ),
)

recent = change_of(
    name="recent windows count more, Huber loss, warm restarts",
    project="forecasting",
    edits=(
        Edit(
            "data.py",
            "    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}",
            """    parts = zip(names, np.split(rows, ends), strict=True)
    splits: dict[str, Any] = {name: _windows(part) for name, part in parts}
    # The weather changes with the season: what is HALF_LIFE hours older counts half as much.
    inputs, labels = splits["train"]
    weights = 0.5 ** (np.arange(len(inputs))[::-1] / HALF_LIFE)
    splits["train"] = inputs, labels, (weights / weights.mean()).astype(np.float32)
    return splits""",
        ),
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours",
            "PAST, FUTURE = 24, 6  # hours\nHALF_LIFE = 240  # hours",
        ),
        Edit(
            "model.py",
            'inputs, labels = datasets["train"]',
            'inputs, labels, _ = datasets["train"]',
        ),
        Edit(
            "steps.py",
            '    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}',
            """    size = tf.abs(error)
    huber = tf.where(size < 2.0, 0.5 * tf.square(error), 2.0 * size - 2.0)  # linear from 2 degrees
    return {"main": compute_loss(huber, weights, run.model, replica)}""",
        ),
        Edit(
            "optimizer.py",
            "keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)",
            """keras.optimizers.schedules.CosineDecayRestarts(
        task.learning_rate, first_decay_steps=max(1, -(-steps // 7)), t_mul=2.0, m_mul=0.8
    )  # cycles of 1, 2 and 4 sevenths of the run""",
        ),
    ),
)

free_bits = change_of(
    name="soft pixels with cross-entropy, and free bits in training",
    project="vae",
    edits=(
        Edit(
            "losses.py",
            '''    def squares(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:
        """The squared error of each image, (batch,)."""
        return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])

    return {"main": squares}
''',
            '''    def cross_entropy(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:
        """Of gray values as probabilities of ink, (batch,); more than 0 even if they are equal."""
        p = tf.clip_by_value(decoded, 1e-5, 1 - 1e-5)
        each = images * tf.math.log(p) + (1 - images) * tf.math.log(1 - p)
        return -tf.reduce_sum(each, axis=[1, 2, 3])

    return {"main": cross_entropy}


def kl_with_free_bits(mean: tf.Tensor, log_variance: tf.Tensor, free: float) -> tf.Tensor:
    """The KL divergence, (batch,), of which each number of the code has `free` nats at no gain.

    So that training has no reason to leave a number of the code unused (Kingma et al., 2016).
    """
    each = 0.5 * (tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0)  # (batch, code)
    return tf.reduce_sum(tf.maximum(each, free), axis=1)
''',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss, kl_divergence, means",
            "from .losses import compute_loss, kl_divergence, kl_with_free_bits, means",
        ),
        Edit(
            "steps.py",
            "WARM_UP = 200  #",
            "FREE = 0.2  # nats of each number of the code that cost the same as none\nWARM_UP = 200  #",
        ),
        Edit(
            "steps.py",
            "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)",
            """    limited = kl_with_free_bits(mean, log_variance, FREE)  # (batch,)
    loss = compute_loss(error + warm_up * limited, weights, encoder, replica)""",
            "train_step",
        ),
    ),
)

barlow = change_of(
    name="Barlow Twins over all replicas",
    project="contrastive",
    edits=(
        Edit(
            "steps.py",
            "TEMPERATURE = 0.1\n",
            "OFF_DIAGONAL = 0.02  # factor of the correlations of different features\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def redundancy(left: tf.Tensor, right: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """How far the correlations between two views are from the identity (Zbontar et al., 2021).

    Args:
        left: (rows, features) of one view.
        right: (rows, features) of the other.
        there: (rows, 1), 1, or 0 for padding.
    """
    number = tf.maximum(tf.reduce_sum(there), 1)

    def standardized(x: tf.Tensor) -> tf.Tensor:
        centered = there * (x - tf.reduce_sum(there * x, axis=0) / number)
        variance = tf.reduce_sum(tf.square(centered), axis=0) / number
        return centered / tf.sqrt(variance + 1e-4)

    products = tf.matmul(standardized(left), standardized(right), transpose_a=True)
    correlations = products / number  # (features, features)
    same = tf.linalg.diag_part(correlations)
    others = tf.reduce_sum(tf.square(correlations)) - tf.reduce_sum(tf.square(same))
    return tf.reduce_sum(tf.square(1 - same)) + OFF_DIAGONAL * others


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    left, right, weights = batch
    left, right = (run.model(images, training=training) for images in (left, right))
    lefts, rights = replica.all_gather(left), replica.all_gather(right)  # (all rows, features)
    there = replica.all_gather(weights) > 0  # (all rows,), False for padding
    loss = redundancy(lefts, rights, tf.cast(there, lefts.dtype)[:, tf.newaxis])
    # Whether the other view of an image is the most similar one.
    candidates = tf.math.l2_normalize(rights, axis=1)
    similarity = tf.matmul(tf.math.l2_normalize(left, axis=1), candidates, transpose_b=True)
    rows = weights.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    run.metrics["accuracy"].update_state(own, tf.where(there, similarity, -1e9), weights)
    # The loss of the whole batch, once for each of its rows: their mean over all replicas is it.
    per_example = loss * tf.ones_like(weights)  # (rows,)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
            "train_step",
        ),
        VALIDATION_BY_STEP,
    ),
)

l2_sp = change_of(
    name="weights of the backbone are drawn to where they started",
    project="finetuning",
    edits=(
        Edit(
            "config.py",
            "    frozen_steps: int = 7",
            "    l2_start: float = 1e-2  # factor of the squared distance of the backbone from its start\n    frozen_steps: int = 7",
        ),
        Edit("model.py", "import numpy as np\n", "import numpy as np\nimport tensorflow as tf\n"),
        Edit(
            "model.py",
            "def create_model(",
            '''class FromStart(keras.regularizers.Regularizer):
    """The squared distance of a weight from its pretrained value (Li et al., 2018)."""

    def __init__(self, factor: float, start: np.ndarray) -> None:
        self.factor, self.start = factor, start

    def __call__(self, weight: tf.Tensor) -> tf.Tensor:
        """The distance, a scalar; 0 at first."""
        start = keras.ops.cast(self.start, weight.dtype)
        return self.factor * keras.ops.sum(keras.ops.square(weight - start))


def create_model(''',
        ),
        Edit(
            "model.py",
            "    images = keras.Input(adapted",
            """    for layer in backbone.layers:
        if isinstance(layer, (keras.layers.Conv2D, keras.layers.Dense)):
            # Of the file, not of a checkpoint: a run that is resumed loads the file as well.
            start = tf.convert_to_tensor(layer.kernel.value).numpy()
            layer.kernel.regularizer = FromStart(task.l2_start, start)
    images = keras.Input(adapted""",
        ),
    ),
)

few_labels = change_of(
    name="a tenth of the labels, the teacher for all images",
    project="distillation",
    edits=(
        Edit(
            "data.py",
            """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
            """    images, labels = splits["train"]
    # Only each tenth training image was labeled by hand; -1: it wasn't.
    labels = np.where(np.arange(len(labels)) % 10 == 0, labels.astype("int64"), -1)
    splits = splits | {"train": (images, labels)}
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
            "create_datasets",
        ),
        Edit(
            "losses.py",
            "",
            '''def weights_of_labels(batch: Any) -> tf.Tensor:
    """The weight of each label, float (batch,): 0 where it is missing."""
    _, labels, weights = batch
    return tf.where(labels >= 0, weights, tf.zeros_like(weights))


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many labels there are, and how many images, int32 scalars."""
    parts = {"hard": weights_of_labels(batch), "soft": batch[-1]}
    return {name: tf.math.count_nonzero(w, dtype=tf.int32) for name, w in parts.items()}
''',
            "count",
        ),
        Edit(
            "steps.py", "from .losses import compute_loss", "from .losses import weights_of_labels"
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The teacher counts for every image, a label where there is one; each has its own mean."""
    images, labels, weights = batch
    logits = run.model(images, training=training)  # (batch, classes)
    taught = tf.cast(run.models["teacher"](images, training=False), logits.dtype)
    labeled, known = weights_of_labels(batch), tf.maximum(labels, 0)  # any class for weight 0
    hard = run.losses["hard"](known, logits)  # (batch,)
    soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)
    run.metrics["accuracy"].update_state(known, logits, labeled)
    mean, counts = tf.nn.compute_average_loss, replica.global_count
    loss = HARD * mean(hard, sample_weight=labeled, global_batch_size=counts["hard"])
    soft = mean(soft, sample_weight=weights, global_batch_size=counts["soft"])
    loss += (1 - HARD) * TEMPERATURE**2 * soft
    return {"main": loss + tf.nn.scale_regularization_loss(replica.regularization(run.model))}
''',
            "train_step",
        ),
        VALIDATION_BY_STEP,
    ),
)

TASKS: tuple[Change, ...] = (
    super_resolution,
    long_tail,
    quantiles,
    tobit,
    prompt_weight,
    tversky,
    scribbles,
    r1,
    recommender,
    uncertainty,
    window_scale,
    recent,
    free_bits,
    barlow,
    l2_sp,
    few_labels,
)

FAULTS: tuple[Fault, ...] = ()
