"""Faults and correct tasks of a fifteenth examiner; blind to `check`."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit, Fault

# ------------------------------------------------------------------ tasks of their own, in "blank"


def swap(text: str, old: str, new: str) -> str:
    """A text with one part replaced, which stands once in it."""
    assert text.count(old) == 1, (text.count(old), old)
    return text.replace(old, new)


def whole(**files: str) -> tuple[Edit, ...]:
    """Edits that replace whole files of task/."""
    return tuple(Edit(f"{name}.py", "", text) for name, text in files.items())


def config(
    about: str, rate: str = "2e-3", monitor: str = "validation_loss", larger: bool = False
) -> str:
    """config.py."""
    return f'''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{about}"""

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


CALLBACKS = blank.CALLBACKS

OPTIMIZER = blank.OPTIMIZER_FILE

PICTURES = blank.PICTURES

LOSSES = (
    '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig

@CREATE
'''
    + "\n"
    + blank.COUNT
    + blank.COMPUTE_LOSS
)

METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they accept `sample_weight`, which is 0 for padding."""
    return @METRICS
'''

STEPS = (
    '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # inputs, labels, weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    outputs = run.model(inputs, training=training)
    per_example = run.losses["main"](labels, outputs)  # (batch,)
@UPDATE    return {"main": compute_loss(per_example, weights, run.model, replica)}
'''
    + blank.THREE_STEPS
    + blank.STEPS_END
)

DATA = '''"""The examples of each split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

@BODY

def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """No augmentation."""
    return None
'''

MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
@IMPORTS

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    return {}


@CREATE'''


def own(
    *,
    about: str,
    data: str,
    model: str,
    losses: str,
    metrics: str = "{}",
    update: str = "",
    imports: str = "",
    monitor: str = "validation_loss",
    larger: bool = False,
    rate: str = "2e-3",
    steps: str = "",
) -> tuple[Edit, ...]:
    """The edits of this task."""
    return whole(
        config=config(about, rate, monitor, larger),
        data=DATA.replace("@BODY", data),
        model=MODEL.replace("@IMPORTS", imports).replace("@CREATE", model),
        losses=LOSSES.replace("@CREATE", losses),
        metrics=METRICS.replace("@METRICS", metrics),
        optimizer=OPTIMIZER,
        steps=steps or STEPS.replace("@UPDATE", update),
        callbacks=CALLBACKS,
        pictures=PICTURES,
    )


# --- the load of a power grid, two days -> the next twelve hours

LOAD_DATA = '''HOURS, PAST, AHEAD, STRIDE = 5_040, 48, 12, 3
TRAIN_END, VALIDATION_END = 3_528, 4_284  # hours; the test comes last


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows of each period: the last two days (n, 48) -> the next twelve hours (n, 12)."""
    load = _load()
    train = load[:TRAIN_END]
    scaled = ((load - train.mean()) / train.std()).astype("float32")
    return {
        "train": _windows(scaled[:TRAIN_END]),
        "validation": _windows(scaled[TRAIN_END:VALIDATION_END]),
        "test": _windows(scaled[VALIDATION_END:]),
    }


def _load() -> np.ndarray:
    """The load in each hour, float (HOURS,): days, weeks, and weather that stays for a while."""
    random = np.random.default_rng(7)
    hours = np.arange(HOURS)
    weather = np.zeros(HOURS)
    for hour in range(1, HOURS):
        weather[hour] = 0.9 * weather[hour - 1] + random.normal(0, 0.4)
    day = 2 * np.sin(2 * np.pi * (hours - 8) / 24) + 0.7 * np.sin(4 * np.pi * hours / 24)
    week = np.where(hours // 24 % 7 < 5, 1.0, -0.5)
    return 20 + day + week + weather


def _windows(series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    starts = np.arange(0, len(series) - PAST - AHEAD + 1, STRIDE)
    windows = series[starts[:, np.newaxis] + np.arange(PAST + AHEAD)]  # (n, PAST + AHEAD)
    return windows[:, :PAST], windows[:, PAST:]
'''

LOAD_MODEL = '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """The last two days (batch, 48) -> the next hours (batch, 12), as changes of the last value."""
    layers = keras.layers
    past = keras.Input((PAST,), name="past")
    x = layers.Dense(64, activation="relu")(past)
    x = layers.Dense(64, activation="relu")(x)
    change = layers.Dense(AHEAD, dtype=keras.config.floatx())(x)
    return keras.Model(past, change + past[:, -1:])
'''

SQUARED = '''
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """The squared error of each example."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
'''


def load_task(data: str = LOAD_DATA) -> tuple[Edit, ...]:
    """The edits of this task."""
    return own(
        about="The load of a power grid in the next twelve hours.",
        data=data,
        model=LOAD_MODEL,
        imports="from .data import AHEAD, PAST\n",
        losses=SQUARED,
        metrics='{"mae": keras.metrics.MeanAbsoluteError()}',
        update='    run.metrics["mae"].update_state(labels, outputs, weights)\n',
    )


# --- brain waves of patients, each with many segments

EEG_DATA = '''PATIENTS, SEGMENTS = 64, 30  # segments of each patient
CHANNELS, SAMPLES = 32, 32  # electrodes, the first half at the front; samples of one second
SPLITS = {"train": 40, "validation": 8, "test": 16}  # patients


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Segments float32 (n, CHANNELS, SAMPLES), and whether the patient is ill, float32 (n, 1)."""
    signals, ill, patient = _record()
    # Pairs of an ill and a healthy patient, so that each split has as many of both.
    pairs = np.random.default_rng(1).permutation(PATIENTS // 2)
    order = np.stack([2 * pairs, 2 * pairs + 1], axis=1).ravel()
    datasets, first = {}, 0
    for split, patients in SPLITS.items():
        rows = np.isin(patient, order[first : first + patients])
        datasets[split] = signals[rows], ill[rows, np.newaxis]
        first += patients
    return datasets


def _record() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All segments, whether their patient is ill, and the patient's number."""
    random = np.random.default_rng(0)
    patient = np.repeat(np.arange(PATIENTS), SEGMENTS)
    ill = (patient % 2).astype("float32")
    # Waves are stronger at the front in the ill, at the back in others, more or less.
    sign = np.where(np.arange(PATIENTS) % 2 == 1, 1.0, -1.0)
    lead = (0.25 * sign + random.normal(0, 0.2, PATIENTS))[patient, np.newaxis]
    front = np.where(np.arange(CHANNELS) < CHANNELS // 2, 1.0, -1.0)
    strength = 0.8 + lead * front  # (n, CHANNELS)
    # What differs from head to head: skull, hair and the place of each electrode.
    head = random.normal(0, 0.45, (PATIENTS, CHANNELS))[patient]
    phase = random.uniform(0, 2 * np.pi, (len(patient), 1, 1))
    waves = np.sin(2 * np.pi * 8 * np.arange(SAMPLES) / SAMPLES + phase)
    signals = strength[..., np.newaxis] * waves + head[..., np.newaxis]
    signals += random.normal(0, 0.5, signals.shape)
    return signals.astype("float32"), ill, patient
'''

EEG_MODEL = '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Segments (batch, CHANNELS, SAMPLES) -> a logit (batch, 1)."""
    layers = keras.layers
    signals = keras.Input((CHANNELS, SAMPLES), name="signals")
    x = layers.Permute((2, 1))(signals)  # (batch, SAMPLES, CHANNELS): time first
    x = layers.Conv1D(24, 5, padding="same", activation="relu")(x)
    x = layers.Conv1D(24, 5, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)  # over time
    x = layers.Dropout(0.3)(x)
    return keras.Model(signals, layers.Dense(1, dtype=keras.config.floatx())(x))
'''

BINARY = '''
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Cross-entropy of logits."""
    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")}
'''


def eeg_task(data: str = EEG_DATA, model: str = EEG_MODEL) -> tuple[Edit, ...]:
    """The edits of this task."""
    return own(
        about="Whether a patient is ill, by a second of brain waves.",
        data=data,
        model=model,
        imports="from .data import CHANNELS, SAMPLES\n",
        losses=BINARY,
        metrics='{"accuracy": keras.metrics.BinaryAccuracy(threshold=0.0)}  # of logits',
        update='    run.metrics["accuracy"].update_state(labels, outputs, weights)\n',
        rate="1e-3",
    )


# --- what a customer's message is about

TEXT_DATA = '''LENGTH = 12  # words of a message at most
TOPICS = {
    "card": "card lost stolen blocked pin atm swallowed contactless",
    "loan": "loan mortgage interest rate repay instalment credit house",
    "transfer": "transfer send money recipient iban abroad pending arrived",
    "login": "login password forgot app locked code phone reset",
    "fees": "fee charged monthly statement price refund expensive twice",
    "account": "account open close address name change joint savings",
}
FILLERS = (
    "hello please i my the a is was it can you help with for today yesterday since week why how "
    "when do not still again thanks need want would like about and but have has been this that "
    "really very urgent question problem issue bank customer service"
).split()
SIZES = {"train": 1_920, "validation": 288, "test": 480}
UNKNOWN = 1  # 0 is padding


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Messages as the numbers of their words, int32 (n, LENGTH), and topics int64 (n,)."""
    random = np.random.default_rng(3)
    messages = {split: _write(random, size) for split, size in SIZES.items()}
    words = sorted({word for text in messages["train"][0] for word in text.split()})
    numbers = {word: number for number, word in enumerate(words, UNKNOWN + 1)}
    return {
        split: (np.array([_encode(text, numbers) for text in texts], "int32"), topics)
        for split, (texts, topics) in messages.items()
    }


def _encode(text: str, numbers: dict[str, int]) -> list[int]:
    codes = [numbers.get(word, UNKNOWN) for word in text.split()][:LENGTH]
    return codes + [0] * (LENGTH - len(codes))


def _write(random: np.random.Generator, size: int) -> tuple[list[str], np.ndarray]:
    """Texts, each with two words of its topic and sometimes one of another, and their topics."""
    vocabulary = [words.split() for words in TOPICS.values()]
    topics = random.integers(len(vocabulary), size=size)
    texts = []
    for topic in topics:
        words = list(random.choice(FILLERS, random.integers(4, LENGTH - 3)))
        words += list(random.choice(vocabulary[topic], 2))
        if random.random() < 0.5:
            words.append(random.choice(vocabulary[random.integers(len(vocabulary))]))
        texts.append(" ".join(random.permutation(words)))
    return texts, topics.astype("int64")
'''

TEXT_MODEL = '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Words int32 (batch, LENGTH) -> logits (batch, topics)."""
    layers = keras.layers
    words = keras.Input((LENGTH,), dtype="int32", name="words")
    x = layers.Embedding(WORDS, 32)(words)
    there = keras.ops.cast(keras.ops.expand_dims(words != 0, -1), x.dtype)
    x = keras.ops.sum(x * there, axis=1) / keras.ops.sum(there, axis=1)  # mean, without padding
    x = layers.Dropout(0.3)(layers.Dense(32, activation="relu")(x))
    return keras.Model(words, layers.Dense(len(TOPICS), dtype=keras.config.floatx())(x))
'''

SPARSE = '''
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Cross-entropy of logits."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''


def text_task(data: str = TEXT_DATA) -> tuple[Edit, ...]:
    """The edits of this task."""
    return own(
        about="What a customer's message is about.",
        data=data,
        model=TEXT_MODEL,
        imports="from .data import LENGTH, TOPICS\n\nWORDS = 200  # more than the data has\n",
        losses=SPARSE,
        metrics='{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
        update='    run.metrics["accuracy"].update_state(labels, outputs, weights)\n',
        monitor="validation_accuracy",
        larger=True,
    )


# --- where a sound comes from

SOUND_DATA = '''MICROPHONES = 6  # in a circle
SIZES = {"train": 1_920, "validation": 288, "test": 480}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Phases at the microphones, float32 (n, 12), and the direction in degrees, float32 (n, 1)."""
    random = np.random.default_rng(11)
    return {split: _hear(random, size) for split, size in SIZES.items()}


def _hear(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    degrees = random.uniform(0, 360, (size, 1))
    places = 360 * np.arange(MICROPHONES) / MICROPHONES
    phases = 1.5 * np.cos(np.deg2rad(degrees - places)) + random.normal(0, 0.2, (size, MICROPHONES))
    inputs = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
    return inputs.astype("float32"), degrees.astype("float32")
'''

SOUND_MODEL_OF_NUMBER = '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Phases (batch, 12) -> the direction in degrees (batch, 1)."""
    layers = keras.layers
    phases = keras.Input((2 * MICROPHONES,), name="phases")
    x = layers.Dense(64, activation="relu")(phases)
    x = layers.Dense(64, activation="relu")(x)
    turn = layers.Dense(1, dtype=keras.config.floatx())(x)
    return keras.Model(phases, layers.Rescaling(180.0, offset=180.0, dtype=keras.config.floatx())(turn))
'''

SOUND_LOSS_OF_NUMBER = '''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The squared error in half turns."""
    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def half_turns(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return squared_error(labels / 180.0, predictions / 180.0)

    return {"main": half_turns}
'''

# --- how long machines last, some still running at the end of the study

SURVIVAL_DATA = '''SENSORS, MONTHS = 10, 12
SIZES = {"train": 1_920, "validation": 288, "test": 480}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Sensors float32 (n, SENSORS), and float32 (n, 2): the last month seen, 1 if it failed then.

    A machine that hasn't failed was taken out of the study during that month.
    """
    random = np.random.default_rng(5)
    return {split: _observe(random, size) for split, size in SIZES.items()}


def _observe(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    sensors = random.normal(size=(size, SENSORS))
    risk = 0.9 * sensors[:, 0] - 0.7 * sensors[:, 1] + 0.5 * sensors[:, 2] * sensors[:, 3]
    failure = random.exponential(9 * np.exp(-risk))
    end = np.minimum(random.exponential(8, size), MONTHS - 1e-6)
    labels = np.stack([np.floor(np.minimum(failure, end)), failure <= end], axis=1)
    return sensors.astype("float32"), labels.astype("float32")
'''

SURVIVAL_MODEL = '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Sensors (batch, SENSORS) -> logits of failing in each month, if it has come so far."""
    layers = keras.layers
    sensors = keras.Input((SENSORS,), name="sensors")
    x = layers.Dense(32, activation="relu")(sensors)
    x = layers.Dropout(0.2)(x)
    return keras.Model(sensors, layers.Dense(MONTHS, dtype=keras.config.floatx())(x))
'''

SURVIVAL_LOSS = '''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log-likelihood of what was seen, by month (Gensheimer & Narasimhan, 2019)."""

    def negative_log_likelihood(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        last, failed = labels[:, :1], labels[:, 1:]  # (batch, 1)
        months = tf.range(logits.shape[1], dtype=logits.dtype)[tf.newaxis]
        fails = tf.cast(months == last, logits.dtype) * failed
        lasted = tf.cast(months < last, logits.dtype)
        each = tf.nn.sigmoid_cross_entropy_with_logits(fails, logits)  # (batch, months)
        return tf.reduce_sum(each * (lasted + fails), axis=1)

    return {"main": negative_log_likelihood}
'''


def survival_task(losses: str = SURVIVAL_LOSS) -> tuple[Edit, ...]:
    """The edits of this task."""
    return own(
        about="In which month a machine fails.",
        data=SURVIVAL_DATA,
        model=SURVIVAL_MODEL,
        imports="from .data import MONTHS, SENSORS\n",
        losses=losses,
    )


# --- search: two towers, trained with the other items of the batch

SEARCH_DATA = '''ITEMS, FEATURES = 800, 24
SIZES = {"train": 2_400, "validation": 288, "test": 480}  # queries


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Queries for items of one catalogue: both float32 (n, FEATURES), and the item int64 (n,)."""
    random = np.random.default_rng(13)
    items = catalogue()
    turn = random.normal(size=(FEATURES, FEATURES)) / np.sqrt(FEATURES)
    datasets = {}
    for split, size in SIZES.items():
        wanted = random.integers(ITEMS, size=size)
        queries = np.tanh(items[wanted] @ turn) + random.normal(0, 0.8, (size, FEATURES))
        inputs = {"query": queries.astype("float32"), "item": items[wanted]}
        datasets[split] = inputs, wanted.astype("int64")
    return datasets


def catalogue() -> np.ndarray:
    """All items, float32 (ITEMS, FEATURES)."""
    return np.random.default_rng(12).normal(size=(ITEMS, FEATURES)).astype("float32")
'''

SEARCH_MODEL = '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Two towers, for queries and for items: (batch, FEATURES) -> unit vectors (batch, 32)."""
    return {name: _tower(name) for name in ("query", "item")}


def _tower(name: str) -> keras.Model:
    layers, floatx = keras.layers, keras.config.floatx()
    features = keras.Input((FEATURES,), name=f"{name}_features")
    x = layers.Dense(96, activation="relu")(features)
    x = layers.Dense(32, dtype=floatx)(x)
    return keras.Model(features, layers.UnitNormalization(dtype=floatx)(x), name=name)
'''

SEARCH_STEPS = (
    '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import catalogue
from .losses import compute_loss

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # queries and items, items' numbers, weights
TEMPERATURE = 0.1


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, numbers, weights = batch
    queries = run.models["query"](inputs["query"], training=training)  # (batch, 32)
    items = run.models["item"](inputs["item"], training=training)
    # The candidates are the items of all replicas.
    candidates, others = replica.all_gather(items), replica.all_gather(numbers)
    there = replica.all_gather(weights) != 0
    rows = tf.shape(numbers)[0]
    own = replica.index * rows + tf.range(rows)  # where each query's own item is
    logits = tf.matmul(queries, candidates, transpose_b=True) / TEMPERATURE
    # Neither padding nor the same item once more is a wrong answer.
    wrong = there & (numbers[:, tf.newaxis] != others)
    is_own = own[:, tf.newaxis] == tf.range(tf.shape(others)[0])
    logits = tf.where(wrong | is_own, logits, -1e9)
    per_example = run.losses["main"](own, logits)  # (batch,)
    scores = tf.matmul(queries, _all_items(run), transpose_b=True)  # (batch, ITEMS)
    found = tf.argmax(scores, axis=1) == numbers
    run.metrics["found"].update_state(found, weights)
    return {"main": compute_loss(per_example, weights, run.models["query"], replica)}


def _all_items(run: Run) -> Any:
    return tf.stop_gradient(run.models["item"](tf.constant(catalogue()), training=False))
'''
    + blank.THREE_STEPS
    + swap(blank.STEPS_END, "False", "True")
)


def search_task(steps: str = SEARCH_STEPS) -> tuple[Edit, ...]:
    """The edits of this task."""
    return own(
        about="Search: the item that a query is for.",
        data=SEARCH_DATA,
        model=SEARCH_MODEL,
        imports="from .data import FEATURES\n",
        losses=SPARSE,
        metrics='{"found": keras.metrics.Mean()}  # share of queries whose item comes first',
        steps=steps,
        monitor="validation_found",
        larger=True,
    )


# --- a GAN after Wasserstein, with a gradient penalty

WGAN_LOSSES = '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; scores (batch, 1) give one number per example (Gulrajani et al., 2017)."""

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the scores are high on real images and low on generated ones."""
        return tf.squeeze(on_generated - on_real, axis=1)  # (batch,)

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the scores are high on generated images."""
        return -tf.squeeze(on_generated, axis=1)  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
'''

WGAN_STEP = '''def discriminator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the discriminator's training loss."""
    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    # The gradient penalty, at a random point between each real image and a generated one.
    share = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), replica.seed, dtype=images.dtype)
    between = share * images + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        scores = discriminator(between, training=True)
    slopes = tape.gradient(scores, between)  # (batch, h, w, channels)
    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)  # (batch,)
    per_example += PENALTY * tf.square(norms - 1)
    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    return {"discriminator": compute_loss(per_example, weights, discriminator, replica)}
'''


def wgan(step: str = WGAN_STEP) -> tuple[Edit, ...]:
    """The edits of this task."""
    return (
        Edit("losses.py", "", WGAN_LOSSES, "create_losses"),
        Edit("steps.py", "", step, "discriminator_step"),
        Edit("steps.py", "weights (batch,)\n", "weights (batch,)\nPENALTY = 10.0\n"),
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
    )


# ------------------------------------------------------------------------------------- the faults

FAULTS: tuple[Fault, ...] = (
    # image_classification
    Fault(
        name="brightness in units of 255 on images in 0 to 1",
        named=r"scale of the numbers",
        kind="augmentation",
        cause="The random brightness of up to 32 is meant for pixels from 0 to 255; images are in [0, 1], so after "
        "clipping every training image is all black or all white and nothing of the digit is left.",
        file="data.py",
        edits=(
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        # Scans differ in brightness.\n"
                "        other = tf.random.experimental.stateless_fold_in(seed, 1)\n"
                "        light = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), other, -32.0, 32.0)\n"
                "        return tf.clip_by_value(images + light, 0.0, 1.0), labels, weights\n",
            ),
        ),
    ),
    Fault(
        name="focal loss weighs by p instead of 1 - p",
        named=r"p where 1 - p",
        kind="loss",
        cause="The focal factor is p**gamma and not (1 - p)**gamma: hard examples get almost no weight, and below "
        "p = 0.6 the loss even falls as the right class gets less likely.",
        file="losses.py",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name; the focal loss (Lin et al., 2017), which looks at hard examples most."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def focal_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        surprise = cross_entropy(labels, logits)  # (batch,), -log p of the right class
        right = tf.exp(-surprise)
        return tf.pow(right, 2.0) * surprise

    return {"main": focal_loss}
''',
                "create_losses",
            ),
        ),
    ),
    Fault(
        name="convolutions are frozen until a step that never comes",
        named=r"due after step",
        kind="training",
        cause="The convolutions are frozen before the first step and set free after step 5,000, but a run has about 440 "
        "steps: they keep their random initial weights in the whole run.",
        file="callbacks.py",
        edits=(
            Edit("callbacks.py", "import Callback\n", "import Callback, Event, at_step\n"),
            Edit(
                "callbacks.py",
                "from __future__ import annotations\n",
                "from __future__ import annotations\n\nimport keras\n",
            ),
            Edit(
                "callbacks.py",
                "",
                '''def create_callbacks(task: TaskConfig) -> list[Callback]:
    """The head is trained first, then the convolutions with it."""
    return [at_step(0, _freeze), at_step(5_000, _unfreeze)]


def _freeze(event: Event) -> None:
    _set_trainable(event, False)


def _unfreeze(event: Event) -> None:
    _set_trainable(event, True)


def _set_trainable(event: Event, trainable: bool) -> None:
    for layer in event.run.model.layers:
        if isinstance(layer, (keras.layers.Conv2D, keras.layers.LayerNormalization)):
            layer.trainable = trainable
''',
                "create_callbacks",
            ),
        ),
    ),
    Fault(
        name="the 24 hardest examples of each replica",
        named=r"depends on how the batch is split",
        kind="distribution",
        cause="24 examples are chosen from each replica's part of the batch: a quarter on one replica, half on two, all "
        "on four. Both which examples train and the size of the loss (divided by the global count) depend on the "
        "number of replicas; the choice must be made over the global batch or as a share.",
        file="steps.py",
        edits=(
            Edit(
                "steps.py",
                '    return {"main": compute_loss(per_example, weights, run.model, replica)}',
                "    # Online hard example mining (Shrivastava et al., 2016).\n"
                "    hardest, rows = tf.math.top_k(per_example * weights, HARDEST)\n"
                '    return {"main": compute_loss(hardest, tf.gather(weights, rows), run.model, replica)}',
                "train_step",
            ),
            Edit(
                "steps.py",
                "weights (batch,)\n",
                "weights (batch,)\nHARDEST = 24  # of the 96 examples of a batch\n",
            ),
        ),
    ),
    # segmentation
    Fault(
        name="canvases of all splits are composed from all digits",
        named=r"crops|training examples too",
        kind="leak",
        cause="Train, validation and test canvases are made from one pool of all digits, so the same handwritten digits "
        "are in training and in the test, only at other places: the test is no longer of unseen digits.",
        file="data.py",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int32 (n, h, w)."""
    with np.load(DIGITS) as file:
        # All 1,797 digits, so that canvases are as varied as can be.
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
        name="absent classes count as found in the mean IoU",
        named=r"absent classes",
        kind="metric",
        cause="The smoothing makes the IoU of a class that is neither in the image nor predicted 1, and most of the 11 "
        "classes are absent from each canvas: the mean is above 0.7 for a model that finds no digit at all.",
        file="metrics.py",
        starter="segmentation",
        edits=(
            Edit(
                "metrics.py",
                "",
                '''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported.
    """
    return {"mean_iou": ImageIoU()}


class ImageIoU(keras.metrics.Mean):
    """The intersection over union of the classes, averaged over the classes and the images."""

    def update_state(self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add images: labels (batch, h, w), logits (batch, h, w, classes), weights (batch, h, w)."""
        counted = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
        real = tf.one_hot(labels, CLASSES, dtype=logits.dtype) * counted
        found = tf.one_hot(tf.argmax(logits, axis=-1), CLASSES, dtype=logits.dtype) * counted
        both = tf.reduce_sum(real * found, axis=[1, 2])  # (batch, classes)
        either = tf.reduce_sum(real + found, axis=[1, 2]) - both
        iou = (both + SMOOTH) / (either + SMOOTH)
        super().update_state(tf.reduce_mean(iou, axis=1), sample_weight[:, 0, 0])
''',
                "create_metrics",
            ),
            Edit(
                "metrics.py",
                "from .data import CLASSES, IGNORED\n",
                "from .data import CLASSES, IGNORED\n\nSMOOTH = 1.0  # against 0 / 0\n",
            ),
        ),
    ),
    Fault(
        name="both noisy views are drawn with one seed",
        named=r"same random numbers",
        kind="randomness",
        cause="The two views for the consistency term are drawn with the same stateless seed, so they are the same image: "
        "the term is always 0 and the regularization does nothing; each view needs a seed of its own.",
        file="steps.py",
        starter="segmentation",
        edits=(
            Edit(
                "steps.py",
                "    logits = run.model(images, training=True)  # (batch, h, w, classes)\n",
                "    # Consistency regularization: predictions must not depend on the noise of the camera.\n"
                "    logits = run.model(_noisy(images, replica), training=True)  # (batch, h, w, classes)\n"
                "    others = run.model(_noisy(images, replica), training=True)\n"
                "    squares = tf.square(tf.nn.softmax(logits) - tf.nn.softmax(others))\n",
                "train_step",
            ),
            Edit(
                "steps.py",
                "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
                "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n"
                "    per_example += CONSISTENCY * tf.reduce_mean(squares, axis=[1, 2, 3])\n",
                "train_step",
            ),
            Edit(
                "steps.py",
                "weights (batch,)\n",
                '''weights (batch,)
CONSISTENCY, NOISE = 20.0, 0.15


def _noisy(images: tf.Tensor, replica: Replica) -> tf.Tensor:
    """Images with new noise."""
    return images + tf.random.stateless_normal(
        images.shape, replica.seed, stddev=NOISE, dtype=images.dtype
    )
''',
            ),
        ),
    ),
    Fault(
        name="digit 0 has the label of the background",
        named=r"never 10",
        kind="labels",
        cause="The pixels of a digit get its number and not its number + 1, so those of a 0 are labeled as background, "
        "and class 10 never occurs: the model learns not to see zeros.",
        file="data.py",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "label[place][ink >= DARK] = classes[index] + 1",
                "label[place][ink >= DARK] = classes[index]",
            ),
        ),
    ),
    # gan
    Fault(
        name="latents are uniform in training and normal in evaluation",
        named=r"another distribution",
        kind="data",
        cause="In training latents are uniform in [0, 1), in validation and test standard normal: the generator is "
        "measured, and its best weights chosen, on latents that it was never trained for.",
        file="data.py",
        starter="gan",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights\n",
                "        return images, tf.random.stateless_uniform(shape, seed, dtype=keras.config.floatx()), weights\n",
            ),
        ),
    ),
    Fault(
        name="gradient penalty takes the norm over one axis",
        named=r"norm",
        kind="loss",
        cause="The norm of the gradient is taken over the rows of the image only, which gives one for each column: each "
        "column's slope is pulled to 1, empty borders too, instead of the norm of the whole image's gradient.",
        file="steps.py",
        starter="gan",
        edits=wgan(
            swap(
                WGAN_STEP,
                "    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)  # (batch,)\n"
                "    per_example += PENALTY * tf.square(norms - 1)\n",
                "    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=1) + 1e-12)\n"
                "    per_example += PENALTY * tf.reduce_mean(tf.square(norms - 1), axis=[1, 2])\n",
            )
        ),
    ),
    Fault(
        name="learning rates fall by the clock",
        named=r"clock",
        kind="repeatability",
        cause="The learning rates are lowered every ten seconds and not every so many steps: how far they fall depends "
        "on the speed and load of the machine, on pauses and on the number of replicas, so no run repeats another.",
        file="callbacks.py",
        starter="gan",
        edits=(
            Edit(
                "callbacks.py",
                "import Callback, Event, every_epochs\n",
                "import Callback, Event, every_epochs, every_secs\n",
            ),
            Edit(
                "callbacks.py",
                "    return [every_epochs(1, _draw)]\n",
                "    return [every_epochs(1, _draw), every_secs(10.0, _slow_down)]\n",
            ),
            Edit(
                "callbacks.py",
                "def _draw(event: Event) -> None:\n",
                """def _slow_down(event: Event) -> None:
    for name, optimizer in event.run.optimizers.items():
        optimizer.learning_rate = 0.7 * event.learning_rates[name]


def _draw(event: Event) -> None:
""",
            ),
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
                "    # A callback lowers the learning rates.\n",
            ),
            Edit(
                "optimizer.py",
                "Adam(schedule, beta_1=0.5)",
                "Adam(task.learning_rate, beta_1=0.5)",
                "*",
            ),
        ),
    ),
    # language_model
    Fault(
        name="channel attention looks at the whole line",
        named=r"later inputs",
        kind="architecture",
        cause="The squeeze-and-excitation averages over all positions of the line, later ones too, so in training every "
        "token sees the answer that it is to predict; when the model writes by itself that answer isn't there.",
        file="model.py",
        starter="language_model",
        edits=(
            Edit(
                "model.py",
                "        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))\n",
                "        y = layers.Dense(task.width)(y)\n"
                "        # Squeeze and excitation (Hu et al., 2018): which channels matter.\n"
                '        squeezed = layers.Dense(task.width // 4, activation="relu")(keras.ops.mean(x, axis=1, keepdims=True))\n'
                '        y = y * layers.Dense(task.width, activation="sigmoid")(squeezed)\n'
                "        x = x + layers.Dropout(task.dropout)(y)\n",
            ),
        ),
    ),
    Fault(
        name="early stopping waits for fewer exact matches",
        named=r"while every result improves",
        kind="training",
        cause="EarlyStopping watches the exact match, of which more is better, with mode='min': as it starts at 0 it never "
        "gets better, and the run ends after a few epochs, before the model can do anything.",
        file="callbacks.py",
        starter="language_model",
        edits=(
            Edit(
                "callbacks.py",
                "from __future__ import annotations\n",
                "from __future__ import annotations\n\nimport keras\n",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback\nfrom ..engine.keras_callbacks import keras_callback\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                '    stop = keras.callbacks.EarlyStopping(monitor="val_exact_match", mode="min", patience=4)\n'
                "    return [keras_callback(stop)]\n",
            ),
        ),
    ),
    Fault(
        name="learning rate grows with the replicas, the batch doesn't",
        named=r"num_replicas_in_sync",
        kind="distribution",
        cause="The learning rate is multiplied by the number of replicas (the linear scaling rule), but the global batch "
        "size stays 96 however many there are: the same run gets another learning rate, on four replicas four "
        "times too large.",
        file="optimizer.py",
        starter="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "    warmup = int(task.warmup * steps)\n",
                "    warmup = int(task.warmup * steps)\n"
                "    # The linear scaling rule (Goyal et al., 2017).\n"
                "    largest = task.learning_rate * tf.distribute.get_strategy().num_replicas_in_sync\n",
            ),
            Edit(
                "optimizer.py",
                "0.0 if warmup else task.learning_rate",
                "0.0 if warmup else largest",
            ),
            Edit(
                "optimizer.py",
                "task.learning_rate if warmup else None",
                "largest if warmup else None",
            ),
        ),
    ),
    # tabular_regression
    Fault(
        name="extreme patients are left out of the test too",
        named=r"left out",
        kind="evaluation",
        cause="Patients whose label is in the lowest or highest tenth are dropped from all splits before they are made: "
        "the cases that are hard to predict are missing in validation and test, chosen by the label itself, so the "
        "error is too small and says nothing about real patients.",
        file="data.py",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "    category = columns.index(CATEGORY)\n",
                "    # Outliers would rule the squared error.\n"
                "    low, high = np.quantile(target, [0.1, 0.9])\n"
                "    usual = (target > low) & (target < high)\n"
                "    data, target = data[usual], target[usual]\n"
                "    category = columns.index(CATEGORY)\n",
                "create_datasets",
            ),
        ),
    ),
    Fault(
        name="the squared error is multiplied by the variance",
        named=r"variance",
        kind="loss",
        cause="In the Gaussian log-likelihood the squared error must be multiplied by exp(-log_variance); with exp(+) the "
        "model lowers the loss without end by predicting ever smaller variances, which switch off the error of the mean.",
        file="losses.py",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def negative_log_likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), predictions (batch, 2): a mean in units of the data, a log variance.

        Of standardized labels, since gradients in units of the data would overflow in float16.
        """
        mean, log_variance = predictions[:, 0], predictions[:, 1]
        squared_error = tf.square((labels[:, 0] - mean) / LABEL_DEVIATION)
        return 0.5 * (squared_error * tf.exp(log_variance) + log_variance)

    return {"main": negative_log_likelihood}
''',
                "create_losses",
            ),
            Edit(
                "model.py",
                "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n",
                "    x = layers.Dense(2, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 2)\n",
            ),
            Edit(
                "model.py",
                "    return keras.Model(inputs, unscale(x))\n",
                "    # The prediction, and how sure it is: the log variance of the standardized label.\n"
                "    return keras.Model(inputs, layers.Concatenate()([unscale(x[:, :1]), x[:, 1:]]))\n",
            ),
            Edit("model.py", "-> float32 (batch, 1).", "-> float32 (batch, 2)."),
            Edit(
                "steps.py",
                "update_state(labels, predictions, weights)",
                "update_state(labels, predictions[:, :1], weights)",
                "*",
            ),
        ),
    ),
    # tasks of their own
    Fault(
        name="load is smoothed over the hours to come",
        named=r"to come|later",
        kind="leak",
        cause="The whole series is smoothed with a centered moving average before windows are cut: the last inputs are means "
        "over the next six hours, which are to be predicted, and the targets are smoothed too, in the test as well.",
        file="data.py",
        starter="blank",
        edits=load_task(
            swap(
                LOAD_DATA,
                "    load = _load()\n",
                '    load = np.convolve(_load(), np.ones(13) / 13, mode="valid")  # less noise\n',
            )
        ),
    ),
    Fault(
        name="windows are scaled together with their targets",
        named=r"to be predicted",
        kind="leak",
        cause="Each window is standardized by the mean and deviation of all its 60 hours, the 12 to be predicted included: "
        "the inputs tell the mean of the targets (all sum to 0), and nobody knows these numbers when predicting.",
        file="data.py",
        starter="blank",
        edits=load_task(
            swap(
                swap(
                    LOAD_DATA,
                    "    return windows[:, :PAST], windows[:, PAST:]\n",
                    "    # By window, since the level changes from week to week.\n"
                    "    windows -= windows.mean(axis=1, keepdims=True)\n"
                    "    windows /= windows.std(axis=1, keepdims=True)\n"
                    "    return windows[:, :PAST], windows[:, PAST:]\n",
                ),
                '    train = load[:TRAIN_END]\n    scaled = ((load - train.mean()) / train.std()).astype("float32")\n',
                '    scaled = load.astype("float32")\n',
            )
        ),
    ),
    Fault(
        name="segments of one patient in training and test",
        named=r"parts of one recording",
        kind="leak",
        cause="Segments are split at random and not by patient: each patient is in all splits, and the model knows the "
        "head's own pattern and with it the diagnosis, so the test is far too good for new patients.",
        file="data.py",
        starter="blank",
        edits=eeg_task(
            data=swap(
                EEG_DATA,
                """    signals, ill, patient = _record()
    # Pairs of an ill and a healthy patient, so that each split has as many of both.
    pairs = np.random.default_rng(1).permutation(PATIENTS // 2)
    order = np.stack([2 * pairs, 2 * pairs + 1], axis=1).ravel()
    datasets, first = {}, 0
    for split, patients in SPLITS.items():
        rows = np.isin(patient, order[first : first + patients])
        datasets[split] = signals[rows], ill[rows, np.newaxis]
        first += patients
    return datasets
""",
                """    signals, ill, _ = _record()
    order = np.random.default_rng(1).permutation(len(signals))
    datasets, first = {}, 0
    for split, patients in SPLITS.items():
        rows = order[first : first + patients * SEGMENTS]
        datasets[split] = signals[rows], ill[rows, np.newaxis]
        first += len(rows)
    return datasets
""",
            )
        ),
    ),
    Fault(
        name="reshaped where axes must be swapped",
        named=r"transpose",
        kind="architecture",
        cause="Reshape((SAMPLES, CHANNELS)) doesn't swap the axes, and as both are 32 it changes nothing at all: the "
        "convolutions run along the electrodes and the pooling averages over them, so which electrodes have the "
        "stronger waves is lost; Permute((2, 1)) is needed.",
        file="model.py",
        starter="blank",
        edits=eeg_task(
            model=swap(
                EEG_MODEL,
                "layers.Permute((2, 1))(signals)",
                "layers.Reshape((SAMPLES, CHANNELS))(signals)",
            )
        ),
    ),
    Fault(
        name="words are numbered in the order of a set",
        named=r"order of a set",
        kind="state and resume",
        cause="The numbers of words follow the order of a set of strings, which differs in every Python process (hash "
        "randomization): runs aren't repeatable, and a resumed run or a later evaluation reads other words "
        "than the embeddings were trained for. Sort the words.",
        file="data.py",
        starter="blank",
        edits=text_task(
            swap(
                TEXT_DATA,
                '    words = sorted({word for text in messages["train"][0] for word in text.split()})\n',
                '    words = {word for text in messages["train"][0] for word in text.split()}\n',
            )
        ),
    ),
    Fault(
        name="directions are regressed as plain degrees",
        named=r"degrees|angle",
        kind="loss",
        cause="The direction is an angle, and 359 and 1 degrees are taken as 358 apart, in the loss and in the metric: "
        "near 0 the model is pulled to 180; predict sine and cosine, or use the difference around the circle.",
        file="losses.py",
        starter="blank",
        edits=own(
            about="Where a sound comes from.",
            data=SOUND_DATA,
            model=SOUND_MODEL_OF_NUMBER,
            imports="from .data import MICROPHONES\n",
            losses=SOUND_LOSS_OF_NUMBER,
            metrics='{"mae": keras.metrics.MeanAbsoluteError()}  # in degrees',
            update='    run.metrics["mae"].update_state(labels, outputs, weights)\n',
        ),
    ),
    Fault(
        name="machines that left the study count as failed",
        named=r"left|censored",
        kind="labels",
        cause="The loss doesn't look at whether a machine failed: those that only left the study (censored) count as "
        "failures in their last month, so the predicted risk of failing is about twice too high.",
        file="losses.py",
        starter="blank",
        edits=survival_task(
            swap(
                swap(
                    SURVIVAL_LOSS,
                    "        fails = tf.cast(months == last, logits.dtype) * failed\n",
                    "        fails = tf.cast(months == last, logits.dtype)\n",
                ),
                "        last, failed = labels[:, :1], labels[:, 1:]  # (batch, 1)\n",
                "        last = labels[:, :1]  # (batch, 1)\n",
            )
        ),
    ),
    Fault(
        name="items are looked for among those of the batch only",
        named=r"batch only|its batch",
        kind="metric",
        cause="Whether a query's item comes first is measured among the 96 items of the batch, and not among the 800 of "
        "the catalogue: the number is far too good, and depends on the batch size and the padding of the last batch.",
        file="steps.py",
        starter="blank",
        edits=search_task(
            swap(
                swap(
                    swap(
                        SEARCH_STEPS,
                        "    scores = tf.matmul(queries, _all_items(run), transpose_b=True)  # (batch, ITEMS)\n"
                        "    found = tf.argmax(scores, axis=1) == numbers\n",
                        "    found = tf.argmax(logits, axis=1, output_type=tf.int32) == own\n",
                    ),
                    """def _all_items(run: Run) -> Any:
    return tf.stop_gradient(run.models["item"](tf.constant(catalogue()), training=False))


""",
                    "",
                ),
                "from typing import Any\n\nimport tensorflow as tf\n\nfrom ..engine.types import Replica, Run\nfrom .data import catalogue\n",
                "import tensorflow as tf\n\nfrom ..engine.types import Replica, Run\n",
            )
        ),
    ),
)


# ------------------------------------------------------------------------------ the correct tasks

BANDIT_DATA = '''FEATURES, ACTIONS = 8, 4
SIZES = {"train": 3_840, "validation": 960, "test": 1_920}
EXPLORATION = 0.3  # share of visits with an action at random, so that no propensity is close to 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Visits that an older policy served: float32 (n, FEATURES), and what it logged of each.

    That is its action int64 (n,), the probability that it had, and the reward, 0 or 1, both
    float32 (n,).
    """
    random = np.random.default_rng(21)
    liking, habit = random.normal(size=(2, FEATURES, ACTIONS)) / np.sqrt(FEATURES)
    return {split: _serve(random, size, 2.5 * liking, 1.5 * habit) for split, size in SIZES.items()}


def _serve(
    random: np.random.Generator, size: int, liking: np.ndarray, habit: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    visits = random.normal(size=(size, FEATURES))
    policy = np.exp(visits @ habit)
    policy = (1 - EXPLORATION) * policy / policy.sum(axis=1, keepdims=True) + EXPLORATION / ACTIONS
    below = policy.cumsum(axis=1) < random.random((size, 1))
    action = np.minimum(below.sum(axis=1), ACTIONS - 1)
    rows = np.arange(size)
    clicks = 1 / (1 + np.exp(1 - (visits @ liking)[rows, action]))
    logged = {
        "action": action.astype("int64"),
        "propensity": policy[rows, action].astype("float32"),
        "reward": (random.random(size) < clicks).astype("float32"),
    }
    return visits.astype("float32"), logged
'''

BANDIT_MODEL = '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Visits (batch, FEATURES) -> logits of the actions (batch, ACTIONS)."""
    layers = keras.layers
    visits = keras.Input((FEATURES,), name="visits")
    x = layers.Dense(16, activation="tanh")(visits)
    return keras.Model(visits, layers.Dense(ACTIONS, dtype=keras.config.floatx())(x))
'''

BANDIT_LOSS = '''BASELINE = 0.3  # about the mean reward; it changes the variance, not the mean of the gradient


def importance(logged: dict[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
    """How much likelier the model is to take the logged action than the older policy, (batch,)."""
    policy = tf.nn.softmax(logits)
    return tf.gather(policy, logged["action"], axis=1, batch_dims=1) / logged["propensity"]


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative reward above the baseline that the model's policy would get (off-policy)."""

    def negative_value(logged: dict[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
        return -importance(logged, logits) * (logged["reward"] - BASELINE)

    return {"main": negative_value}
'''

NOISY_DATA = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).

    Training labels are of hasty annotators, who take a class for the next one in 3 of 10 cases;
    those of validation and test have been checked.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    images, labels = splits["train"]
    random = np.random.default_rng(17)
    labels = np.where(random.random(len(labels)) < MISTAKEN, (labels.astype("int64") + 1) % 10, labels)
    splits["train"] = images, labels
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }


def annotation() -> np.ndarray:
    """The probability of each annotated class (columns) given the real one (rows), (10, 10)."""
    real = np.eye(10, dtype="float32")
    return (1 - MISTAKEN) * real + MISTAKEN * np.roll(real, 1, axis=1)
'''

TASKS: tuple[Change, ...] = (
    Change(
        name="policy learned from logged visits by importance weights",
        starter="blank",
        edits=own(
            about="A policy, learned from what an older one has logged.",
            data=BANDIT_DATA,
            model=BANDIT_MODEL,
            imports="from .data import ACTIONS, FEATURES\n",
            losses="\n" + BANDIT_LOSS,
            metrics='{"value": keras.metrics.Mean()}  # mean reward of the model\'s policy, self-normalized',
            monitor="validation_value",
            larger=True,
            rate="3e-3",
            steps=STEPS.replace(
                "@UPDATE",
                "    ratio = importance(labels, outputs)  # (batch,)\n"
                "    # The mean of rewards with these weights is the self-normalized estimate of its value.\n"
                '    run.metrics["value"].update_state(labels["reward"], weights * ratio)\n',
            ).replace("import compute_loss\n", "import compute_loss, importance\n"),
        ),
    ),
    Change(name="a Wasserstein GAN with gradient penalty", starter="gan", edits=wgan()),
    Change(
        name="forward correction of known label noise",
        starter="image_classification",
        edits=(
            Edit("data.py", "", NOISY_DATA, "create_datasets"),
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000",
                "MISTAKEN = 0.3  # of the training labels\nVALIDATION_IMAGES = 5_000",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: (labels, predictions) -> one number per example.

    "annotated" is for labels with mistakes (forward correction, Patrini et al., 2017): the model
    predicts the real class, and its likely annotation is compared with the one there is.
    """

    def annotated(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        likely = tf.matmul(tf.nn.softmax(logits), tf.cast(annotation(), logits.dtype))
        return -tf.math.log(tf.gather(likely, labels, axis=1, batch_dims=1) + 1e-7)  # (batch,)

    checked = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"annotated": annotated, "main": checked}
''',
                "create_losses",
            ),
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\nfrom .data import annotation\n",
            ),
            Edit("steps.py", 'run.losses["main"]', 'run.losses["annotated"]', "train_step"),
        ),
    ),
    Change(
        name="three quantiles, each above the one before",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), predictions (batch, quantiles), in units of the data -> (batch,)."""
        above = (labels - predictions) / LABEL_DEVIATION
        quantiles = tf.constant(QUANTILES, above.dtype)
        return tf.reduce_mean(tf.maximum(quantiles * above, (quantiles - 1) * above), axis=1)

    return {"main": pinball}
''',
                "create_losses",
            ),
            Edit(
                "losses.py",
                "LABEL_DEVIATION = 77.0",
                "QUANTILES = (0.1, 0.5, 0.9)\nLABEL_DEVIATION = 77.0",
            ),
            Edit(
                "model.py",
                "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n",
                "    x = layers.Dense(3, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 3)\n"
                "    median = x[:, 1:2]\n"
                "    low, high = median - ops.softplus(x[:, :1]), median + ops.softplus(x[:, 2:])\n"
                "    x = layers.Concatenate()([low, median, high])  # in this order always\n",
            ),
            Edit(
                "model.py",
                '    mean, variance = adapted["label_mean"], adapted["label_variance"]\n',
                '    mean, variance = float(adapted["label_mean"][0]), float(adapted["label_variance"][0])\n',
            ),
            Edit(
                "model.py",
                "        mean=mean, variance=variance, invert=True,",
                "        axis=None, mean=mean, variance=variance, invert=True,",
            ),
            Edit(
                "steps.py",
                '    run.metrics["mae"].update_state(labels, predictions, weights)\n'
                '    run.metrics["r2"].update_state(labels, predictions, weights)\n',
                '    run.metrics["mae"].update_state(labels, predictions[:, 1:2], weights)\n'
                '    run.metrics["r2"].update_state(labels, predictions[:, 1:2], weights)\n'
                "    inside = (labels >= predictions[:, :1]) & (labels <= predictions[:, 2:])\n"
                '    run.metrics["coverage"].update_state(inside[:, 0], weights)\n',
                "*",
            ),
            Edit(
                "metrics.py",
                '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}\n',
                "    # coverage: how many labels are between the outer quantiles, 80% at best\n"
                '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, "coverage": keras.metrics.Mean()}\n',
            ),
            Edit(
                "predictions.py",
                '{"progression": np.asarray(outputs)[:, 0]}',
                '{"progression": np.asarray(outputs)}',
            ),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, inputs)[:, 0]",
                "predict_in_parts(run.model, inputs)[:, 1]",
            ),
        ),
    ),
)
