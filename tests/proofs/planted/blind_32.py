"""Faults of an examiner in the starters, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

# What the four tasks in the blank project share.

_NO_CALLBACKS = '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks, called between steps; none."""
    return []
'''

_NO_PICTURES = '''"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
'''

_ADAM = '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam with a cosine schedule over the whole run."""
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """The gradients as they are."""
    return gradients
'''

_CONFIG = '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{what}."""

{fields}
    learning_rate: float = {rate}  # learning rate at the start; decays to 0 along a cosine
    monitor: str = "{monitor}"  # column of history.csv that selects the best weights
    larger_is_better: bool = {larger}  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {{self.learning_rate}}; it must be more than 0.")
'''

_LOSSES = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig

{create}

def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
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
        ValueError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss has shape {{per_example.shape}} and its weights {{weights.shape}}: create it "
            'with reduction="none", and average over further axes with tf.reduce_mean.'
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
'''

_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
{body}
'''

_DATA = '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

{body}

def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """No augmentation."""
    return None
'''

_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
{body}'''

_STEPS = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # inputs, labels, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=True)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["{metric}"].update_state(labels, predictions, weights)
    return {{"main": compute_loss(per_example, weights, run.model, replica)}}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=False)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["{metric}"].update_state(labels, predictions, weights)
    return {{"main": compute_loss(per_example, weights, run.model, replica)}}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
EXAMPLES_INTERACT = False
'''


def _whole(**files: str) -> tuple[Edit, ...]:
    """Each file as a whole; what isn't given is that of a task without callbacks and pictures."""
    files = {"callbacks": _NO_CALLBACKS, "pictures": _NO_PICTURES, "optimizer": _ADAM} | files
    return tuple(Edit(f"{name}.py", "", text) for name, text in files.items())


# Forecasting.

_FORECAST = _whole(
    config=_CONFIG.format(
        what="Forecasts of the load of a small power grid",
        fields="    width: int = 256  # units of each hidden layer",
        rate="1e-3",
        monitor="validation_mae",
        larger=False,
    ),
    data=_DATA.format(
        body='''SEED = 0  # of the series and the split; not --seed, so that every run is tested on the same data
HOURS = 4_000
PAST, HORIZON = 48, 24  # hours that the model sees, and hours that it forecasts
FRACTIONS = (0.8, 0.9)  # training ends at the first, validation at the second


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows by split: past float32 (n, PAST) and future float32 (n, HORIZON)."""
    load = _load()
    windows = np.lib.stride_tricks.sliding_window_view(load, PAST + HORIZON)  # (n, PAST + HORIZON)
    order = np.random.default_rng(SEED).permutation(len(windows))
    ends = [int(fraction * len(order)) for fraction in FRACTIONS]
    splits = zip(("train", "validation", "test"), np.split(order, ends), strict=True)
    return {name: (windows[rows, :PAST], windows[rows, PAST:]) for name, rows in splits}


def _load() -> np.ndarray:
    """Hourly load float32 (HOURS,): days, weeks, and weather that wanders."""
    random = np.random.default_rng(SEED)
    hours = np.arange(HOURS)
    day, week = np.sin(2 * np.pi * hours / 24), np.cos(2 * np.pi * hours / 168)
    weather = np.zeros(HOURS)
    for hour in range(1, HOURS):
        weather[hour] = 0.99 * weather[hour - 1] + 0.3 * random.standard_normal()
    noise = 0.1 * random.standard_normal(HOURS)
    return (10 + day + 0.5 * week + weather + noise).astype("float32")
'''
    ),
    losses=_LOSSES.format(
        create='''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; the squared error, averaged over the hours of a forecast."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}

'''
    ),
    metrics=_METRICS.format(body='    return {"mae": keras.metrics.MeanAbsoluteError()}'),
    model=_MODEL.format(
        body='''from .data import HORIZON, PAST


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and standard deviation of the load, of training windows."""
    past, _ = datasets["train"]
    return {"mean": past.mean(), "deviation": past.std()}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Past float (batch, PAST) -> forecast float32 (batch, HORIZON), in units of the data.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    mean, deviation = float(adapted["mean"]), float(adapted["deviation"])
    past = keras.Input((PAST,), name="past")
    x = layers.Rescaling(1 / deviation, -mean / deviation)(past)
    for _ in range(2):
        x = layers.Dense(task.width, activation="relu")(x)
    x = layers.Dense(HORIZON)(x)
    forecast = layers.Rescaling(deviation, mean, dtype=keras.config.floatx())(x)
    return keras.Model(past, forecast)
'''
    ),
    steps=_STEPS.format(metric="mae"),
)

# Several tags for each document.

_TAGS = _whole(
    config=_CONFIG.format(
        what="Tags of documents, several for each",
        fields="    width: int = 64  # units of the hidden layer\n"
        "    dropout: float = 0.3  # fraction of hidden units that training drops; 0 disables",
        rate="3e-3",
        monitor="validation_f1",
        larger=True,
    ),
    data=_DATA.format(
        body='''SEED = 0  # of the documents; not --seed, so that every run is tested on the same documents
SIZES = {"train": 3_000, "validation": 600, "test": 1_200}
WORDS, TAGS = 48, 6
RARITY = 1.5  # how far a tag's mean log-odds are below 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Log counts of words float32 (n, WORDS) and tags float32 (n, TAGS), 0 or 1, by split."""
    random = np.random.default_rng(SEED)
    evidence = random.standard_normal((WORDS, TAGS)) / 3
    datasets = {}
    for split, size in SIZES.items():
        words = np.log1p(random.poisson(1.0, (size, WORDS)))
        log_odds = (words - words.mean(axis=0)) @ evidence - RARITY
        tags = random.random((size, TAGS)) < 1 / (1 + np.exp(-log_odds))
        datasets[split] = (words.astype("float32"), tags.astype("float32"))
    return datasets
'''
    ),
    losses=_LOSSES.format(
        create='''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; the cross-entropy of each tag's logit, averaged over the tags."""
    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")}

'''
    ),
    metrics=_METRICS.format(
        body="""    f1 = keras.metrics.F1Score(average="macro", threshold=0.5)
    # It creates its variables in its first update, which is too late inside a train step.
    f1.update_state(tf.zeros((1, TAGS)), tf.zeros((1, TAGS)))
    f1.reset_state()
    return {"f1": f1}"""
    ).replace(
        "from .config import TaskConfig\n",
        "from .config import TaskConfig\nfrom .data import TAGS\n",
    ),
    model=_MODEL.format(
        body='''from .data import TAGS, WORDS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Log counts float (batch, WORDS) -> logits float32 (batch, TAGS).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    words = keras.Input((WORDS,), name="words")
    x = layers.Dense(task.width, activation="relu")(words)
    x = layers.Dropout(task.dropout)(x)
    logits = layers.Dense(TAGS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(words, logits)
'''
    ),
    steps=_STEPS.format(metric="f1"),
)

# A variational autoencoder.

_VAE = _whole(
    config=_CONFIG.format(
        what="Variational autoencoder of small pictures",
        fields="    code: int = 8  # numbers that a picture is encoded in\n"
        "    warm_up: int = 10  # epochs in which the weight of the KL divergence rises to 1",
        rate="2e-3",
        monitor="validation_loss",
        larger=False,
    ),
    data=_DATA.format(
        body='''SEED = 0  # of the pictures; not --seed, so that every run is tested on the same pictures
SIZES = {"train": 2_000, "validation": 400, "test": 800}
SIDE = 12  # pixels


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Pictures of one blob each, float32 (n, SIDE * SIDE), by split."""
    random = np.random.default_rng(SEED)
    return {split: _blobs(random, size) for split, size in SIZES.items()}


def _blobs(random: np.random.Generator, size: int) -> np.ndarray:
    y, x = np.mgrid[:SIDE, :SIDE].reshape(2, 1, -1)
    row, column = random.uniform(2, SIDE - 3, (2, size, 1))
    width, ink = random.uniform(1, 2.5, (size, 1)), random.uniform(0.5, 1, (size, 1))
    pictures = ink * np.exp(-((y - row) ** 2 + (x - column) ** 2) / (2 * width**2))
    return (pictures + 0.05 * random.standard_normal(pictures.shape)).astype("float32")
'''
    ),
    losses=_LOSSES.format(
        create='''NOISE = 0.1  # standard deviation of a pixel around what is decoded


class KlWeight:
    """The weight of the KL divergence in training; `anneal` in callbacks.py raises it to 1."""

    value: float = 0.0


kl_weight = KlWeight()


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; the negative log likelihood of a picture, without its constant."""

    def reconstruction(pictures: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:
        """Both float (batch, pixels) -> float (batch,), summed over the pixels."""
        return tf.reduce_sum(tf.square(pictures - decoded), axis=1) / (2 * NOISE**2)

    return {"main": reconstruction}


def kl_divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """Of codes float (batch, code) from the standard normal distribution, float (batch,)."""
    terms = tf.square(mean) + tf.exp(log_variance) - log_variance - 1
    return tf.reduce_sum(terms, axis=1) / 2

'''
    ),
    metrics=_METRICS.format(body='    return {"kl": keras.metrics.Mean()}').replace(
        "import keras\nimport tensorflow as tf\n", "import keras\n"
    ),
    model=_MODEL.format(
        body='''from .data import SIDE

HIDDEN = 128


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Encoder: pictures -> means and log variances (batch, 2 code); decoder: codes -> pictures.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    return {
        "encoder": _network(SIDE * SIDE, 2 * task.code, "encoder"),
        "decoder": _network(task.code, SIDE * SIDE, "decoder"),
    }


def _network(inputs: int, outputs: int, name: str) -> keras.Model:
    layers = keras.layers
    x = first = keras.Input((inputs,))
    for _ in range(2):
        x = layers.Dense(HIDDEN, activation="swish")(x)
    last = layers.Dense(outputs, dtype=keras.config.floatx())
    return keras.Model(first, last(x), name=name)
'''
    ),
    callbacks='''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig
from .losses import kl_weight


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Raises the weight of the KL divergence after each epoch (Bowman et al., 2016)."""

    def anneal(event: Event) -> None:
        kl_weight.value = min(1.0, event.epoch / task.warm_up)

    return [every_epochs(1, anneal)]
''',
    steps='''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss, kl_divergence, kl_weight

Batch = tuple[tf.Tensor, tf.Tensor]  # pictures (batch, pixels), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    pictures, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(pictures, training=True), 2, axis=1)  # (batch, code)
    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)
    decoded = decoder(mean + tf.exp(log_variance / 2) * noise, training=True)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    per_example = run.losses["main"](pictures, decoded) + kl_weight.value * kl  # (batch,)
    run.metrics["kl"].update_state(kl, weights)
    return {"main": compute_loss(per_example, weights, encoder, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The negative evidence lower bound of this replica's part of a batch."""
    pictures, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(pictures, training=False), 2, axis=1)  # (batch, code)
    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)
    decoded = decoder(mean + tf.exp(log_variance / 2) * noise, training=False)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    per_example = run.losses["main"](pictures, decoded) + kl  # (batch,)
    run.metrics["kl"].update_state(kl, weights)
    return {"main": compute_loss(per_example, weights, encoder, replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
EXAMPLES_INTERACT = False
''',
)

# Two encoders whose codes of the same thing shall agree.

_PAIRS = _whole(
    config=_CONFIG.format(
        what="Two encoders, of sounds and of captions, whose codes of a pair agree",
        fields="    code: int = 24  # length of a code\n"
        "    temperature: float = 0.1  # what similarities are divided by",
        rate="2e-3",
        monitor="validation_retrieval",
        larger=True,
    ),
    data=_DATA.format(
        body='''SEED = 0  # of the pairs; not --seed, so that every run is tested on the same pairs
SIZES = {"train": 2_880, "validation": 480, "test": 960}
HIDDEN, SOUND, CAPTION = 12, 40, 30  # numbers behind a pair, of a sound and of a caption


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Pairs by split: sounds float32 (n, SOUND), captions float32 (n, CAPTION)."""
    random = np.random.default_rng(SEED)
    to_sound = random.standard_normal((HIDDEN, SOUND)) / np.sqrt(HIDDEN)
    to_caption = random.standard_normal((HIDDEN, CAPTION)) / np.sqrt(HIDDEN)
    datasets = {}
    for split, size in SIZES.items():
        hidden = random.standard_normal((size, HIDDEN))
        sounds = np.tanh(hidden @ to_sound) + 0.3 * random.standard_normal((size, SOUND))
        captions = np.tanh(hidden @ to_caption) + 0.3 * random.standard_normal((size, CAPTION))
        datasets[split] = (sounds.astype("float32"), captions.astype("float32"))
    return datasets
'''
    ),
    losses=_LOSSES.format(
        create='''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; the cross-entropy of similarities, with the partner's index as the label."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}

'''
    ),
    metrics=_METRICS.format(
        body='    return {"retrieval": keras.metrics.SparseCategoricalAccuracy()}'
    ).replace("import keras\nimport tensorflow as tf\n", "import keras\n"),
    model=_MODEL.format(
        body='''from .data import CAPTION, SOUND

WIDTH = 128


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Encoders by name, each (batch, numbers) -> codes float32 (batch, code) of length 1.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    return {
        "sound": _encoder(SOUND, task.code, "sound"),
        "caption": _encoder(CAPTION, task.code, "caption"),
    }


def _encoder(numbers: int, code: int, name: str) -> keras.Model:
    layers, floatx = keras.layers, keras.config.floatx()
    inputs = keras.Input((numbers,))
    x = layers.Dense(WIDTH, activation="relu")(inputs)
    x = layers.Dense(code, dtype=floatx)(x)
    return keras.Model(inputs, layers.UnitNormalization(dtype=floatx)(x), name=name)
'''
    ),
    steps='''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # sounds, captions, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    sounds, captions, weights = batch
    sounds = run.models["sound"](sounds, training=training)  # (batch, code)
    captions = run.models["caption"](captions, training=training)  # (batch, code)
    # The negatives are the pairs of the whole global batch (Radford et al., 2021).
    all_sounds, all_captions = replica.all_gather(sounds), replica.all_gather(captions)
    to_captions = tf.matmul(sounds, all_captions, transpose_b=True) / run.task.temperature
    to_sounds = tf.matmul(captions, all_sounds, transpose_b=True) / run.task.temperature
    labels = tf.range(sounds.shape[0])  # (batch,)
    loss = run.losses["main"]
    per_example = (loss(labels, to_captions) + loss(labels, to_sounds)) / 2  # (batch,)
    run.metrics["retrieval"].update_state(labels, to_captions, weights)
    return {"main": compute_loss(per_example, weights, run.models["sound"], replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
EXAMPLES_INTERACT = True  # the other pairs of a batch are an example's negatives
''',
)


FAULTS: tuple[Fault, ...] = (
    # image_classification
    fault_in(
        name="cosine schedule decays in epochs instead of steps",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nEPOCHS = 40  # of a run\n",
            ),
            Edit("optimizer.py", "decay_steps=steps)", "decay_steps=EPOCHS)"),
        ),
        kind="schedule",
        cause="CosineDecay counts train steps, but decay_steps is the number of epochs (40), so the learning rate "
        "is 0 after 40 of about 480 steps.",
        file="optimizer.py",
        named=r"decay_steps|(learning.rate|schedule|cosine).*(epoch|too (early|soon|fast)|zero|\b0\b|\b40\b)|epochs?.*(instead of|not|rather than).*steps",
    ),
    fault_in(
        name="validation split is the test split",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
""",
                """            split: (file[f"{part}_images"] / 16, file[f"{part}_labels"])
            for split, part in (("train", "train"), ("validation", "test"), ("test", "test"))
""",
            ),
        ),
        kind="leak",
        cause="The validation data of the digits is read from the test images, so the best weights are selected on the test data.",
        file="data.py",
        named=r"(validation|valid).*(same|identical|equal|share|overlap|is the|are the|duplicate|copies|also|in common|leak).*test|test.*(same|identical|equal|share|overlap|duplicate|also|in common|leak|select).*validation|select\w* on (the )?test",
    ),
    fault_in(
        name="patience of early stopping is lost on resume",
        project="image_classification",
        edits=(
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback, Event, every_validation\n",
            ),
            Edit(
                "callbacks.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nPATIENCE = 10  # validations without a better accuracy\n",
            ),
            Edit(
                "callbacks.py",
                "default: none.\n",
                "default: stops early.\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                """    best, waited = 0.0, 0

    def stop_early(event: Event) -> None:
        nonlocal best, waited
        accuracy = event.history[-1]["validation_accuracy"]
        waited = 0 if accuracy > best else waited + 1
        best = max(best, accuracy)
        if waited >= PATIENCE:
            event.stop()

    return [every_validation(stop_early)]
""",
            ),
        ),
        kind="state",
        cause="The best accuracy and the number of validations waited are local variables of a closure, not state in the checkpoint (get_state, set_state), "
        "so a resumed run starts its patience anew with best 0.",
        file="callbacks.py",
        named=r"get_state|set_state|(resum|checkpoint|interrupt)\w*.*(callback|patience|best|waited|count|stop|state|closure|forget|lost)|(callback|patience|early.?stop|closure|nonlocal|state|best|waited)\w*.*(resum|checkpoint|lost|saved|forg[eo]t|restor)",
    ),
    # segmentation
    fault_in(
        name="labels aren't warped with the image",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                """        images = keras.ops.image.affine_transform(images, transforms)
        # "nearest", since a mean of two labels is no label.
        labels = tf.cast(labels[..., tf.newaxis], tf.float32)
        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")
        return images, tf.cast(labels[..., 0], tf.int32), weights
""",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
            ),
            Edit(
                "data.py",
                "rotates, shears and scales each\n# image together with its labels.\n",
                "rotates, shears and scales each\n# image.\n",
            ),
        ),
        kind="augmentation",
        cause="The augmentation rotates, shears and scales the images, but leaves the label masks where they were, so the labels no longer lie on the digits.",
        file="data.py",
        named=r"(label|mask|target)s?.*(not|n't|without|isn|aren|unchanged|same).*(warp|transform|augment|move|rotat|align|chang)|(augment|warp|transform)\w*.*(only|without|but not|not).*(image|label|mask)|misalign|(image|augment\w*).*(but|while|and) .*(label|mask)",
    ),
    fault_in(
        name="absent classes count as 0 in the mean iou of each image",
        project="segmentation",
        edits=(
            Edit(
                "metrics.py",
                "# TODO(6): your metrics",
                '''class ImageIoU(keras.metrics.Mean):
    """Intersection over union of each image, averaged over classes and images."""

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add the images of a batch.

        Args:
            labels: int (batch, h, w).
            logits: float (batch, h, w, classes).
            sample_weight: float (batch, h, w), 0 for padding.
        """
        counts = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
        predicted = tf.one_hot(tf.argmax(logits, axis=-1), CLASSES, dtype=logits.dtype) * counts
        true = tf.one_hot(labels, CLASSES, dtype=logits.dtype) * counts
        both = tf.reduce_sum(predicted * true, axis=[1, 2])  # (batch, classes)
        either = tf.reduce_sum(predicted + true, axis=[1, 2]) - both  # (batch, classes)
        iou = tf.reduce_mean(tf.math.divide_no_nan(both, either), axis=1)  # (batch,)
        super().update_state(iou, sample_weight[:, 0, 0])


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
        kind="metrics",
        cause="The IoU is averaged over all 11 classes of every image, and a class that is neither in the image nor predicted is 0/0, which divide_no_nan turns to 0, "
        "instead of being left out (or taken from one confusion matrix of the whole split).",
        file="metrics.py",
        named=r"divide_no_nan|absent|(class|classes).*(not (present|in)|missing|don't occur|doesn't occur|empty|0 ?/ ?0)|per.image|each image|(perfect|correct|exact|true label)\w*.*(less|lower|below|not|only|isn't).*|confusion matrix",
    ),
    fault_in(
        name="canvases of all splits are made of the same digits",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                'CANVASES = {"train": 768, "validation": 192, "test": 288}  # each from digits of its own split',
                'CANVASES = {"train": 768, "validation": 192, "test": 288}',
            ),
            Edit(
                "data.py",
                """    with np.load(DIGITS) as file:
        return {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
""",
                """    with np.load(DIGITS) as file:
        digits, classes = (
            np.concatenate([file[f"{split}_{part}"] for split in CANVASES])
            for part in ("images", "labels")
        )
    images, labels = _compose(digits, classes, sum(CANVASES.values()), seed=0)
    ends = np.cumsum(list(CANVASES.values()))[:-1]
    parts = zip(CANVASES, np.split(images, ends), np.split(labels, ends), strict=True)
    return {split: (images, labels) for split, images, labels in parts}
""",
            ),
        ),
        kind="leak",
        cause="All digits are pooled and canvases composed of them before the split, so the very digits of validation and test canvases are on training canvases too.",
        file="data.py",
        named=r"leak|(same|identical|shared?|pool\w*).*digit|digit.*(several|more than one|all|both|same|every|each other's) (split|canvas)|split.*(after|before).*compos|compos\w*.*before|(test|validation).*(also|too|same|shared|overlap|in common).*train|overlap",
    ),
    fault_in(
        name="batch normalization momentum too high for the length of the run",
        project="segmentation",
        edits=(Edit("model.py", "momentum=0.9, epsilon=0.1", "momentum=0.999, epsilon=0.1"),),
        kind="model",
        cause="With momentum 0.999 the moving mean and variance still hold about a quarter (0.999^320) of their initial values 0 and 1 after the 320 steps of a run, "
        "so inference uses statistics that the network was never trained with.",
        file="model.py",
        named=r"momentum|moving (average|mean|statistic|variance)|running (mean|statistic|average)|batch.?norm",
    ),
    # language_model
    fault_in(
        name="attention that no mask makes causal",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "        # Padding needs no mask: it comes last, and no token attends to a later one.\n",
                "        # Padding needs no mask: its weight in the loss is 0.\n",
            ),
            Edit("model.py", "attention(y, y, use_causal_mask=True))", "attention(y, y))"),
        ),
        kind="model",
        cause="Self-attention has no causal mask, so each position sees the next token, which is what it has to predict.",
        file="model.py",
        named=r"causal|future|later token|look.?ahead|(see|attend|copy|peek)\w* .*(next|later|following|future|target|answer)|depends? on .*(later|next|future)",
    ),
    fault_in(
        name="exact match is the mean of right tokens with prompts and padding as right",
        project="language_model",
        edits=(
            Edit(
                "metrics.py",
                """        is_right = tf.reduce_all((targets == written) | ~is_answer, axis=1)  # (batch,)
""",
                """        is_right = tf.cast((targets == written) | ~is_answer, sample_weight.dtype)
        is_right = tf.reduce_mean(is_right, axis=1)  # (batch,)
""",
            ),
        ),
        kind="metrics",
        cause="exact_match averages the tokens of a line instead of requiring all of them, and the masked positions (prompt, padding) count as right in this mean.",
        file="metrics.py",
        named=r"exact.?match|reduce_(mean|all)|(prompt|padding|masked)\w*.*(count|as right|as correct|correct|right)|(all|every|each|last) token|fraction of tokens",
    ),
    fault_in(
        name="answer mask starts one token early",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                "is_answer = np.cumsum(tokens == PROMPT_END, axis=1) > 0",
                "is_answer = np.cumsum(targets == PROMPT_END, axis=1) > 0",
            ),
        ),
        kind="labels",
        cause="The mask is computed from the targets, which are shifted by one, so it includes the prompt's closing '>' as the first token of the answer: "
        "complete() cuts the prompt before '>' and writes one character too few.",
        file="data.py",
        named=r"is_answer|off.by.one|one (token|position|character|step|column) (too )?(early|earlier|before|less|short)|weights?.*(prompt|PROMPT_END|'>'|\">\"|shift)|mask.*(target|shift|early|prompt)|prompt.?end|prompt ends",
    ),
    fault_in(
        name="loss divided by the replica's own tokens",
        project="language_model",
        edits=(
            Edit(
                "losses.py",
                """    loss = tf.nn.compute_average_loss(
        per_token, sample_weight=weights, global_batch_size=replica.global_count
    )
""",
                """    loss = tf.math.divide_no_nan(tf.reduce_sum(per_token * weights), tf.reduce_sum(weights))
""",
            ),
        ),
        kind="distribution",
        cause="Each replica divides by the number of its own tokens instead of replica.global_count, and the engine adds the replicas' (and micro-batches') losses and gradients.",
        file="losses.py",
        named=r"global_count|(replica|local|micro.?batch)\w*.*(own|times|scale|divid|denominator|mean|average|tokens|number|depends|differ|larger)|denominator|accumulate",
    ),
    # gan
    fault_in(
        name="cross-entropy takes the discriminator's logits for probabilities",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                'keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")',
                'keras.losses.BinaryCrossentropy(reduction="none")',
            ),
        ),
        kind="loss",
        cause="BinaryCrossentropy lacks from_logits=True, though the discriminator's last layer is linear: its logits are clipped to (0, 1) as if they were probabilities.",
        file="losses.py",
        named=r"from_logits|logits?.*(probabilit|sigmoid|clip|unbounded)|probabilit\w*.*logit|sigmoid",
    ),
    fault_in(
        name="the same latents in each step",
        project="gan",
        edits=(
            Edit(
                "data.py",
                """        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights
""",
                """        latents = tf.random.stateless_normal(shape, (LATENT_SEED, 0), dtype=keras.config.floatx())
        return images, latents, weights
""",
            ),
            Edit(
                "data.py",
                'DIGITS = Path(__file__).with_name("digits.npz")\n',
                'DIGITS = Path(__file__).with_name("digits.npz")\nLATENT_SEED = 7\n',
            ),
        ),
        kind="randomness",
        cause="stateless_normal gets a constant seed instead of the seed of the step, so each training batch has the same latents and the generator only ever sees as many latents as the batch has rows (96).",
        file="data.py",
        named=r"(same|constant|fixed|identical|one) .*(latent|seed|random|noise|numbers)|(latent|noise|augment|random)\w*.*(same|every step|each step|constant|fixed|identical|repeat|ignor|not (use|depend))|seed.*(constant|ignored|not used|unused|fixed)|ignores? .*seed",
    ),
    fault_in(
        name="images in -1 to 1 for metrics that expect 0 to 1",
        project="gan",
        edits=(
            Edit(
                "data.py",
                'train, validation, test = (load_digits(s)[0] for s in ("train", "validation", "test"))',
                'splits = ("train", "validation", "test")\n'
                "    train, validation, test = (2 * load_digits(s)[0] - 1 for s in splits)",
            ),
            Edit(
                "data.py",
                "Images float32 (n, 8, 8, 1) in [0, 1]; in evaluation with latents",
                "Images float32 (n, 8, 8, 1) in [-1, 1]; in evaluation with latents",
            ),
            Edit(
                "model.py",
                "to images float32 (batch, h, w, 1) in [0, 1],",
                "to images float32 (batch, h, w, 1) in [-1, 1],",
            ),
            Edit(
                "model.py",
                'padding="same", activation="sigmoid", dtype=floatx)',
                'padding="same", activation="tanh", dtype=floatx)',
            ),
        ),
        kind="metrics",
        cause="Images are scaled to [-1, 1] for the tanh generator, but the classifier behind the Frechet distance was trained on [0, 1], and nearest_distance compares them with "
        "training images in [0, 1]: the metrics must scale images back first.",
        file="metrics.py",
        named=r"(range|scale|\[?-1, ?1\]?|\[0, ?1\]|rescal|normaliz|units?).*(classifier|frechet|metric|nearest|known|feature|image)|(classifier|frechet|metric|nearest|known|feature)\w*.*(range|scale|-1|\[0, ?1\]|expect)|different (range|scale)",
    ),
    fault_in(
        name="gradient penalty of the whole batch's norm",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                '''    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are high on real images and low on generated ones."""
        loss_on_real = cross_entropy(tf.ones_like(on_real), on_real)  # (batch,)
        loss_on_generated = cross_entropy(tf.zeros_like(on_generated), on_generated)  # (batch,)
        return (loss_on_real + loss_on_generated) / 2

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are high on generated images.

        Not the discriminator's loss with the opposite sign, which has no gradient where the
        discriminator is sure (Goodfellow et al., 2014).
        """
        return cross_entropy(tf.ones_like(on_generated), on_generated)  # (batch,)
''',
                '''
    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the outputs are high on real images and low on generated ones."""
        return on_generated[:, 0] - on_real[:, 0]  # (batch,)

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the outputs are high on generated images."""
        return -on_generated[:, 0]  # (batch,)
''',
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number",
                '''def gradient_penalty(
    discriminator: keras.Model, real: tf.Tensor, generated: tf.Tensor, seed: tf.Tensor
) -> tf.Tensor:
    """0 where the discriminator's slope between real and generated images is 1.

    See Gulrajani et al. (2017), arXiv:1704.00028.

    Args:
        discriminator: images -> outputs (batch, 1).
        real: float (batch, h, w, channels).
        generated: float (batch, h, w, channels).
        seed: int32 (2,).
    """
    share = tf.random.stateless_uniform((real.shape[0], 1, 1, 1), seed, dtype=real.dtype)
    between = share * real + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        outputs = discriminator(between, training=True)  # (batch, 1)
    slopes = tape.gradient(outputs, between)  # (batch, h, w, channels)
    norm = tf.sqrt(tf.reduce_sum(tf.square(slopes)) + 1e-12)
    return tf.square(norm - 1)


# TODO(10): the number''',
            ),
            Edit(
                "losses.py",
                '# TODO(5): your losses, each with reduction="none";\n# default: cross-entropy of the discriminator\'s logits.\n',
                '# TODO(5): your losses, each with reduction="none"; Wasserstein\'s, with a gradient penalty.\n',
            ),
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nPENALTY = 10.0  # factor of the gradient penalty\n",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
                """    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    per_example += PENALTY * gradient_penalty(discriminator, images, generated, replica.seed)
""",
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .losses import PENALTY, compute_loss, gradient_penalty\n",
            ),
        ),
        kind="loss",
        cause="The norm in the gradient penalty is taken over the whole batch at once (reduce_sum without axis) instead of per image, so each image's slope is pushed to about 1/sqrt(batch).",
        file="losses.py",
        named=r"gradient.?penalty|(norm|reduce_sum|slopes?).*(batch|axis|per (image|example)|each (image|example))|whole batch|examples? .*(interact|depend|others)|other examples|number of (replicas|examples|micro)|batch size",
    ),
    # tabular_regression
    fault_in(
        name="squared errors of all pairs by broadcasting",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                """    squared_error = keras.losses.MeanSquaredError(reduction="none")

""",
                "",
            ),
            Edit(
                "losses.py",
                """        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)
""",
                """        errors = (labels - tf.squeeze(predictions, axis=-1)) / LABEL_DEVIATION
        return tf.reduce_mean(tf.square(errors), axis=-1)
""",
            ),
        ),
        kind="loss",
        cause="Labels (batch, 1) minus squeezed predictions (batch,) broadcast to (batch, batch): each label is compared with the predictions of all examples.",
        file="losses.py",
        named=r"broadcast|\(batch, ?batch\)|squeeze|all pairs|(every|each|other|all) (other )?(example|prediction|row|label)s?|examples? .*(interact|depend)|pairwise|shape",
    ),
    fault_in(
        name="age is target-encoded with the labels of all rows",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                """    columns, data, target = _load()
    category = columns.index(CATEGORY)
""",
                """    columns, data, target = _load()
    # Progression isn't linear in age: the mean progression at an age tells more than its years.
    age = columns.index("age")
    _, index, counts = np.unique(data[:, age], return_inverse=True, return_counts=True)
    data[:, age] = (np.bincount(index, target) / counts)[index]
    category = columns.index(CATEGORY)
""",
            ),
        ),
        kind="leak",
        cause="Age is replaced by the mean label of all rows of that age, computed before the split, so inputs of test, validation and training rows contain their own labels.",
        file="data.py",
        named=r"leak|target.?encod|mean (label|target|progression)|(label|target)s?.*(input|feature|column|age|before the split|all rows|test)|(age|input|feature|column)s?.*(label|target)|before .*split",
    ),
    fault_in(
        name="standard deviations passed as variances",
        project="tabular_regression",
        edits=(
            Edit(
                "model.py",
                '"variance": np.nanvar(inputs["numeric"], axis=0)',
                '"variance": np.nanstd(inputs["numeric"], axis=0)',
            ),
            Edit(
                "model.py",
                '"label_variance": labels.var(axis=0)',
                '"label_variance": labels.std(axis=0)',
            ),
        ),
        kind="data",
        cause="adapt computes standard deviations, but Normalization(variance=...) takes their square root: inputs are scaled to deviations other than 1, and predictions come out with 8.8 instead of 77 points.",
        file="model.py",
        named=r"variance|\bstd\b|nanstd|standard deviation|(scale|normaliz|standardiz)\w*.*(wrong|input|label|not|unit|prediction|output)|square root",
    ),
    fault_in(
        name="each fold permutes the rows anew",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "order = np.random.default_rng(SPLIT_SEED).permutation(len(data))",
                "order = np.random.default_rng(SPLIT_SEED + task.fold).permutation(len(data))",
            ),
        ),
        kind="evaluation",
        cause="The permutation depends on --fold, so the five test sets aren't the parts of one partition: they overlap, and about a third of the patients is never tested.",
        file="data.py",
        named=r"fold.*(overlap|partition|disjoint|permut|seed|order|shuffl|several|twice|never)|(permut|seed|shuffl|order|split)\w*.*fold|SPLIT_SEED|partition|disjoint",
    ),
    # blank
    fault_in(
        name="overlapping windows are divided by chance",
        project="blank",
        edits=_FORECAST,
        kind="leak",
        cause="Windows with a stride of one hour are shuffled and then split, so nearly every test window shares all but a few hours, its future included, with training windows; the split must be by time.",
        file="data.py",
        named=r"overlap|leak|chronolog|by time|temporal|(random|shuffl|permut)\w*.*(split|window)|(split|window)s?.*(random|shuffl|permut|share|time order|in common|adjacent|neighbo)|(test|validation).*(share|same|contain|in common|also).*train|future",
    ),
    fault_in(
        name="f1 applies the threshold 0.5 to logits",
        project="blank",
        edits=_TAGS,
        kind="metrics",
        cause="F1Score(threshold=0.5) gets logits, so a tag counts as predicted from probability 0.62 on instead of 0.5: it needs the sigmoid, or its own threshold at logit 0.",
        file="steps.py",
        named=r"threshold|(f1|metric)\w*.*(logit|sigmoid|probabilit)|logits?.*(f1|metric|threshold|sigmoid|probabilit)|sigmoid",
    ),
    fault_in(
        name="annealed kl weight is frozen when the step is traced",
        project="blank",
        edits=_VAE,
        kind="callbacks",
        cause="The train step reads the Python float kl_weight.value, which tf.function captures as the constant 0 when it traces the step; what the callback sets later never reaches the graph. It should be computed from replica.step.",
        file="steps.py",
        named=r"kl.?weight|trace|captured|python (float|number|value|variable|attribute|object)|constant|anneal|callback.*(no effect|never|not|graph|lost)|(never|not|no effect).*(graph|step)|beta|warm.?up",
    ),
    fault_in(
        name="labels of gathered pairs lack the replica's offset",
        project="blank",
        edits=_PAIRS,
        kind="distribution",
        cause="Similarities are to the gathered codes of all replicas, but the labels are 0 to batch - 1 on each replica: they need replica.index * batch added.",
        file="steps.py",
        named=r"offset|replica\.index|labels?.*(replica|gather|index|range|global)|all_gather|(replica|number of replicas|several replicas).*(label|differ|wrong|depend|loss|gradient)|tf\.range",
    ),
)

TASKS: tuple[Change, ...] = ()
