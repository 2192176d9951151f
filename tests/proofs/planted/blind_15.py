"""Faults and correct tasks of a seventeenth examiner; blind to `check`."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit, Fault

FUTURE = "from __future__ import annotations\n\n"


def _config(monitor: str, *, larger: bool, rate: str) -> str:
    rates = f"    learning_rate: float = {rate}  # learning rate at the start; decays to 0\n"
    return blank.config(rates, monitor, larger)


LOSSES = f'''"""The losses, and the number that they are divided by."""

{FUTURE}from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig

'''

COUNT = '''

def count(batch: Any) -> tf.Tensor:
    """How much of `batch` counts: what has a weight other than 0; an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
'''

METRICS = f'''"""The metrics."""

{FUTURE}import keras
import tensorflow as tf

from .config import TaskConfig

'''

MODEL = f'''"""The model."""

{FUTURE}from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .config import TaskConfig


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {{}}

'''

STEPS = f'''"""The train, validation and test step, as one replica computes them."""

{FUTURE}from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[Any, ...]

'''

ONE_FORWARD = '''
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _forward(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _forward(run, batch, replica, training=False)
'''

SAME_TEST = """

def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    '''This replica's contribution to the test loss.'''
    return validation_step(run, batch, replica)
"""


def _own(
    config: str, data: str, model: str, losses: str, metrics: str, steps: str
) -> tuple[Edit, ...]:
    return (
        Edit("config.py", "", config),
        Edit("data.py", "", data),
        Edit("model.py", "", model),
        Edit("losses.py", "", losses),
        Edit("metrics.py", "", metrics),
        Edit("optimizer.py", "", blank.OPTIMIZER_FILE),
        Edit("steps.py", "", steps),
        Edit("callbacks.py", "", blank.CALLBACKS),
        Edit("pictures.py", "", blank.PICTURES),
    )


def _vary(edits: tuple[Edit, ...], file: str, old: str, new: str) -> tuple[Edit, ...]:
    """The same task with one text of one file replaced."""
    changed = []
    for edit in edits:
        if edit.file == file:
            assert edit.other.count(old) == 1, (file, old, edit.other.count(old))
            edit = edit._replace(other=edit.other.replace(old, new))
        changed.append(edit)
    assert tuple(changed) != tuple(edits)
    return tuple(changed)


# ---------------------------------------------------------------------------------- ranking

RANKING = _own(
    _config("validation_ndcg", larger=True, rate="3e-3"),
    blank.DATA_HEAD
    + '''LENGTH, FEATURES = 12, 8  # documents of a query at most, and numbers that describe one
QUERIES = {"train": 1536, "validation": 288, "test": 384}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The queries of each split: {"documents", "present"}, and grades float32 (n, LENGTH) 0 to 3.

    A query has 4 to 12 documents, in the order in which the old ranker showed them; the rest of its
    row is padding.
    """
    taste = np.random.default_rng(11).normal(size=FEATURES)
    return {
        split: _create_queries(np.random.default_rng(seed), queries, taste)
        for seed, (split, queries) in enumerate(QUERIES.items())
    }


def _create_queries(random: np.random.Generator, queries: int, taste: np.ndarray) -> tuple[Any, ...]:
    documents = random.normal(size=(queries, LENGTH, FEATURES))
    useful = documents @ taste / np.linalg.norm(taste) + np.tanh(documents[..., 0] * documents[..., 1])
    grades = np.digitize(useful + random.normal(0, 0.6, useful.shape), [0.3, 1.0, 1.8])
    present = np.arange(LENGTH) < random.integers(4, LENGTH + 1, (queries, 1))
    old_score = documents[..., 0] + random.normal(size=useful.shape)
    order = np.argsort(np.where(present, -old_score, np.inf), axis=1)  # padding last
    documents = np.take_along_axis(documents * present[..., np.newaxis], order[..., np.newaxis], axis=1)
    grades = np.take_along_axis(grades * present, order, axis=1).astype("float32")
    present = np.take_along_axis(present, order, axis=1).astype("float32")
    return {"documents": documents.astype("float32"), "present": present}, grades
'''
    + blank.NO_AUGMENT,
    MODEL
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"documents": (batch, LENGTH, FEATURES), "present": (batch, LENGTH)} -> scores, the same."""
    layers, ops = keras.layers, keras.ops
    documents = keras.Input((data.LENGTH, data.FEATURES), name="documents")
    present = keras.Input((data.LENGTH,), name="present")
    there = present[..., None]
    positions = ops.cumsum(ops.ones_like(present, dtype="int32"), axis=1) - 1
    x = layers.Dense(48)(documents) + layers.Embedding(data.LENGTH, 48)(positions)
    x = layers.Dense(48, activation="relu")(layers.Activation("relu")(x))
    # What the other documents of the query are like: the mean of those that are there.
    mean = ops.sum(x * there, axis=1, keepdims=True) / (ops.sum(there, axis=1, keepdims=True) + 1e-6)
    x = layers.Concatenate()([x, mean + ops.zeros_like(x)])
    x = layers.Dense(48, activation="relu")(x)
    scores = layers.Dense(1, dtype=keras.config.floatx(), name="scores")(x)[..., 0]
    return keras.Model({"documents": documents, "present": present}, scores)
''',
    LOSSES
    + '''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The cross-entropy of two distributions over the documents of a query (ListNet)."""

    def list_net(grades: tf.Tensor, scores: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
        """Each float (batch, LENGTH) -> float (batch,)."""
        target = tf.nn.softmax(tf.where(present > 0, grades, -1e9))
        log_probabilities = tf.nn.log_softmax(tf.where(present > 0, scores, -1e9))
        return -tf.reduce_sum(tf.where(present > 0, target * log_probabilities, 0.0), axis=1)

    return {"main": list_net}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''TOP = 5


class Ndcg(keras.metrics.Mean):
    """Normalized discounted cumulative gain of the first TOP documents; 1 is the ideal order."""

    def update_state(
        self, grades: tf.Tensor, scores: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add queries; one without any useful document has no order and doesn't count.

        Args:
            grades: float (batch, documents).
            scores: float (batch, documents).
            sample_weight: float (batch,).
        """
        discounts = tf.math.log(2.0) / tf.math.log(tf.range(TOP, dtype=grades.dtype) + 2)
        gains = tf.pow(2.0, grades) - 1
        first = tf.gather(gains, tf.math.top_k(scores, TOP).indices, batch_dims=1)
        found = tf.reduce_sum(first * discounts, axis=1)
        ideal = tf.reduce_sum(tf.math.top_k(gains, TOP).values * discounts, axis=1)
        counts = tf.where(ideal > 0, sample_weight, 0.0)
        super().update_state(tf.math.divide_no_nan(found, ideal), counts)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How good the order is."""
    return {"ndcg": Ndcg()}
''',
    STEPS
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, grades, weights = batch
    scores = run.model(inputs, training=training)  # (batch, LENGTH)
    per_query = run.losses["main"](grades, scores, inputs["present"])  # (batch,)
    ranked = tf.where(inputs["present"] > 0, scores, -1e9)
    run.metrics["ndcg"].update_state(grades, ranked, weights)
    return {"main": compute_loss(per_query, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + SAME_TEST
    + blank.STEPS_END,
)

# ------------------------------------------------------------------- anomalies in time series

ANOMALIES = _own(
    _config("validation_auc", larger=True, rate="2e-3"),
    blank.DATA_HEAD
    + '''LENGTH, CHANNELS = 64, 2
WINDOWS = {"train": 1920, "validation": 480, "test": 576}
ANOMALOUS = 0.2  # fraction of windows in validation and test; training sees normal ones only


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The windows of each split: signals float32 (n, LENGTH, CHANNELS), labels float32 (n,)."""
    return {
        split: _create_windows(np.random.default_rng(seed), windows, split != "train")
        for seed, (split, windows) in enumerate(WINDOWS.items())
    }


def _create_windows(
    random: np.random.Generator, windows: int, with_anomalies: bool
) -> tuple[np.ndarray, np.ndarray]:
    time = np.arange(LENGTH)
    period = random.choice([16.0, 21.0], (windows, 1))
    phase = random.uniform(0, 2 * np.pi, (windows, 1))
    angle = 2 * np.pi * time / period + phase
    signals = np.stack([np.sin(angle), 0.6 * np.cos(angle) + 0.3 * np.sin(2 * angle)], axis=-1)
    labels = np.zeros(windows, np.float32)
    if with_anomalies:
        labels = (random.random(windows) < ANOMALOUS).astype("float32")
    for row in np.flatnonzero(labels):
        start, kind = random.integers(8, LENGTH - 24), random.integers(3)
        part = np.s_[start : start + 16]
        if kind == 0:  # a channel is stuck
            signals[row, part, random.integers(CHANNELS)] = signals[row, start, 0]
        elif kind == 1:  # a drift
            signals[row, part] += np.linspace(0, random.uniform(0.6, 1.2), 16)[:, np.newaxis]
        else:  # the channels lose step
            signals[row, :, 1] = np.roll(signals[row, :, 1], random.integers(3, 7))
    signals += random.normal(0, 0.1, signals.shape)
    return signals.astype("float32"), labels
'''
    + blank.NO_AUGMENT,
    MODEL
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Signals float (batch, LENGTH, CHANNELS) -> the same without noise, through a bottleneck."""
    layers = keras.layers
    signals = keras.Input((data.LENGTH, data.CHANNELS), name="signals")
    x = layers.Flatten()(signals)
    x = layers.Dense(96, activation="relu")(x)
    x = layers.Dense(6, name="code")(x)
    x = layers.Dense(96, activation="relu")(x)
    x = layers.Dense(data.LENGTH * data.CHANNELS, dtype=keras.config.floatx())(x)
    return keras.Model(signals, layers.Reshape((data.LENGTH, data.CHANNELS))(x))
''',
    LOSSES
    + '''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The squared error of a window."""

    def squared_error(signals: tf.Tensor, restored: tf.Tensor) -> tf.Tensor:
        """Each float (batch, LENGTH, CHANNELS) -> the sum over the window, float (batch,)."""
        return tf.reduce_sum(tf.square(signals - restored), axis=[1, 2])

    return {"main": squared_error}


def normal(batch: Any) -> tf.Tensor:
    """The weights float (batch,) of normal windows; 0 for anomalous ones, as for padding."""
    _, labels, weights = batch
    return weights * (1 - labels)


def count(batch: Any) -> tf.Tensor:
    """How many windows count in the loss, the normal ones; an int32 scalar."""
    return tf.math.count_nonzero(normal(batch), dtype=tf.int32)
'''
    + blank.COMPUTE_LOSS,
    METRICS
    + '''LARGE_ERROR = 8.0  # squared error of a window; noise alone makes about 1.3


def anomaly_score(errors: tf.Tensor) -> tf.Tensor:
    """Squared errors float (batch,) -> scores from 0 to 1, in the same order."""
    return 1 - tf.exp(-errors / LARGE_ERROR)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How well scores tell anomalies from normal windows; in training there are none to tell."""
    return {"auc": keras.metrics.AUC(num_thresholds=500)}
''',
    STEPS.replace(
        "from .losses import compute_loss\n",
        "from .losses import compute_loss, normal\nfrom .metrics import anomaly_score\n",
    )
    + '''NOISE = 0.1  # standard deviation of what training adds to its inputs


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss: restores noisy windows."""
    signals, labels, weights = batch
    noise = NOISE * tf.random.stateless_normal(tf.shape(signals), replica.seed, dtype=signals.dtype)
    errors = run.losses["main"](signals, run.model(signals + noise, training=True))  # (batch,)
    run.metrics["auc"].update_state(labels, anomaly_score(errors), weights)
    return {"main": compute_loss(errors, normal(batch), run.model, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of normal windows; the metric is about all of them."""
    signals, labels, weights = batch
    errors = run.losses["main"](signals, run.model(signals, training=False))  # (batch,)
    run.metrics["auc"].update_state(labels, anomaly_score(errors), weights)
    return {"main": compute_loss(errors, normal(batch), run.model, replica)}
'''
    + SAME_TEST
    + blank.STEPS_END,
)

# ------------------------------------------------------------------------- sequence to sequence

REVERSING = _own(
    _config("validation_exact_match", larger=True, rate="4e-3"),
    blank.DATA_HEAD
    + '''SYMBOLS = 12  # 1 to 12; 0 is padding
START, STOP, TOKENS = 13, 14, 15
LENGTH = 9  # symbols of a source at most
ANSWER = LENGTH + 1  # with STOP
TEXTS = {"train": 5760, "validation": 480, "test": 480}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """({"source", "before"}, target, weights) of each split.

    "source" is int32 (n, LENGTH), "before" what stands before each token of the target, int32
    (n, ANSWER), the target int32 (n, ANSWER), weights float32 (n, ANSWER), 0 for padding.
    """
    return {
        split: _create_texts(np.random.default_rng(seed), texts)
        for seed, (split, texts) in enumerate(TEXTS.items())
    }


def _create_texts(random: np.random.Generator, texts: int) -> tuple[Any, ...]:
    source = np.zeros((texts, LENGTH), np.int32)
    target = np.zeros((texts, ANSWER), np.int32)
    for row, length in enumerate(random.integers(4, LENGTH + 1, texts)):
        symbols = random.integers(1, SYMBOLS + 1, length)
        source[row, :length] = symbols
        target[row, : length + 1] = [*symbols[::-1], STOP]
    before = np.concatenate([np.full((texts, 1), START, np.int32), target[:, :-1]], axis=1)
    return {"source": source, "before": before}, target, (target != 0).astype("float32")
'''
    + blank.NO_AUGMENT,
    MODEL
    + '''WIDTH = 64


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"source": (batch, LENGTH), "before": (batch, ANSWER)} -> logits (batch, ANSWER, TOKENS)."""
    layers = keras.layers
    source = keras.Input((data.LENGTH,), dtype="int32", name="source")
    before = keras.Input((data.ANSWER,), dtype="int32", name="before")
    positions = keras.ops.cumsum(keras.ops.ones_like(source), axis=1) - 1
    x = layers.Embedding(data.TOKENS, WIDTH)(source) + layers.Embedding(data.LENGTH, WIDTH)(positions)
    read = layers.Bidirectional(layers.GRU(WIDTH // 2, return_sequences=True))(x)
    y = layers.Embedding(data.TOKENS, WIDTH)(before)
    y = layers.GRU(WIDTH, return_sequences=True)(y)  # (batch, ANSWER, WIDTH)
    found = _attend(layers.Dense(WIDTH)(y), layers.Dense(WIDTH)(read), read, source != 0)
    y = layers.Dense(WIDTH, activation="relu")(layers.Concatenate()([y, found]))
    logits = layers.Dense(data.TOKENS, dtype=keras.config.floatx(), name="logits")(y)
    return keras.Model({"source": source, "before": before}, logits)


def _attend(
    queries: keras.KerasTensor,
    keys: keras.KerasTensor,
    values: keras.KerasTensor,
    is_symbol: keras.KerasTensor,
) -> keras.KerasTensor:
    """What each token of the answer finds in the source.

    Args:
        queries: (batch, ANSWER, width).
        keys: (batch, LENGTH, width).
        values: (batch, LENGTH, width).
        is_symbol: bool (batch, LENGTH), false for padding.
    """
    ops = keras.ops
    scores = ops.einsum("bqw,bkw->bqk", queries, keys) / WIDTH**0.5  # (batch, ANSWER, LENGTH)
    scores = ops.where(is_symbol[:, None, :], scores, -1e9)
    shares = ops.softmax(scores, axis=-1)
    return ops.einsum("bqk,bkw->bqw", shares, values)


def write(model: keras.Model, source: tf.Tensor) -> tf.Tensor:
    """The answer token by token, always the likeliest: int32 (batch, ANSWER)."""
    columns = tf.range(data.ANSWER)
    before = tf.where(columns == 0, data.START, tf.zeros_like(source[:, :1]))  # (batch, ANSWER)
    tokens = []
    for column in range(data.ANSWER):
        logits = model({"source": source, "before": before}, training=False)[:, column]
        tokens.append(tf.argmax(logits, axis=-1, output_type=tf.int32))
        before = tf.where(columns == column + 1, tokens[-1][:, tf.newaxis], before)
    return tf.stack(tokens, axis=1)
''',
    LOSSES
    + '''
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Cross-entropy of logits, a number for each token."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''
class ExactMatch(keras.metrics.Mean):
    """The fraction of answers that are right to the last token."""

    def update_state(
        self, target: tf.Tensor, written: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add answers, each int32 (batch, ANSWER), with weights float (batch, ANSWER)."""
        counts = sample_weight != 0
        is_right = tf.reduce_all((target == written) | ~counts, axis=1)
        super().update_state(is_right, tf.reduce_any(counts, axis=1))


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The fraction of right answers."""
    return {"exact_match": ExactMatch()}
''',
    STEPS.replace("import compute_loss\n", "import compute_loss\nfrom .model import write\n")
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, target, weights = batch
    logits = run.model(inputs, training=training)  # (batch, ANSWER, TOKENS)
    per_token = run.losses["main"](target, logits)  # (batch, ANSWER)
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)
    run.metrics["exact_match"].update_state(target, likeliest, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + '''

def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The test loss; the answers are written by the model alone."""
    inputs, target, weights = batch
    per_token = run.losses["main"](target, run.model(inputs, training=False))
    run.metrics["exact_match"].update_state(target, write(run.model, inputs["source"]), weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}
'''
    + blank.STEPS_END,
)

# ------------------------------------------------------------------------------------ retrieval

RETRIEVAL = _own(
    _config("validation_recall_at_1", larger=True, rate="2e-3"),
    blank.DATA_HEAD
    + '''FEATURES, TRAITS, NUISANCES = 40, 8, 12
INDIVIDUALS = {"train": 16, "validation": 24, "test": 24}  # no individual is in two splits
PAIRS = {"train": 1920, "validation": 480, "test": 576}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Two sightings of an individual, float32 (n, 2, FEATURES), and its number, int32 (n,)."""
    world = np.random.default_rng(99)
    of_traits = world.normal(size=(TRAITS, FEATURES))
    of_nuisances = 1.5 * world.normal(size=(NUISANCES, FEATURES))  # light, pose, weather
    datasets = {}
    for split, number in INDIVIDUALS.items():
        traits = world.normal(size=(number, TRAITS))
        who = world.integers(number, size=PAIRS[split])
        sightings = traits[who, np.newaxis] @ of_traits
        sightings = sightings + world.normal(size=(len(who), 2, NUISANCES)) @ of_nuisances
        sightings += 0.3 * world.normal(size=sightings.shape)
        datasets[split] = (sightings / 6).astype("float32"), who.astype("int32")
    return datasets
'''
    + blank.NO_AUGMENT,
    MODEL
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Sightings float (batch, 2, FEATURES) -> embeddings of length 1, float (batch, 2, 16)."""
    layers = keras.layers
    sightings = keras.Input((2, data.FEATURES), name="sightings")
    x = layers.Dense(96, activation="relu")(sightings)
    x = layers.Dense(16, dtype=keras.config.floatx())(x)
    return keras.Model(sightings, layers.UnitNormalization(dtype=keras.config.floatx())(x))
''',
    LOSSES
    + '''TEMPERATURE = 0.1


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Which of all second sightings belongs to the first (InfoNCE)."""

    def contrast(
        first: tf.Tensor, second: tf.Tensor, own: tf.Tensor, excluded: tf.Tensor
    ) -> tf.Tensor:
        """One number per first sighting, float (batch,).

        Args:
            first: embeddings of this replica, float (batch, size).
            second: embeddings of all replicas, float (global batch, size).
            own: bool (batch, global batch), true for the other sighting of the pair.
            excluded: bool (batch, global batch), what is no negative.
        """
        logits = tf.matmul(first, second, transpose_b=True) / TEMPERATURE
        logits = tf.where(excluded & ~own, -1e9, logits)
        of_own = tf.reduce_sum(tf.where(own, logits, 0.0), axis=1)
        return tf.reduce_logsumexp(logits, axis=1) - of_own

    return {"main": contrast}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''
class RecallAt1(keras.metrics.Mean):
    """How often the most similar sighting in a batch is one of the same individual."""

    def update_state(
        self,
        similarity: tf.Tensor,
        is_same: tf.Tensor,
        candidates: tf.Tensor,
        sample_weight: tf.Tensor,
    ) -> None:
        """Add queries; one whose individual isn't among its candidates doesn't count.

        Args:
            similarity: float (batch, gallery).
            is_same: bool (batch, gallery), whether it is the same individual.
            candidates: bool (batch, gallery), what may be found.
            sample_weight: float (batch,).
        """
        nearest = tf.argmax(tf.where(candidates, similarity, -2.0), axis=1)
        is_found = tf.gather(is_same, nearest, axis=1, batch_dims=1)
        can_be_found = tf.reduce_any(is_same & candidates, axis=1)
        super().update_state(is_found, tf.where(can_be_found, sample_weight, 0.0))


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Recall at 1."""
    return {"recall_at_1": RecallAt1()}
''',
    STEPS
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    sightings, who, weights = batch
    embeddings = run.model(sightings, training=training)  # (batch, 2, size)
    gathered = replica.all_gather(embeddings)  # (global batch, 2, size)
    all_who, all_weights = replica.all_gather(who), replica.all_gather(weights)
    rows = who.shape[0]
    columns = tf.range(rows * replica.num_replicas)
    own = columns == (replica.index * rows + tf.range(rows))[:, tf.newaxis]
    is_same = who[:, tf.newaxis] == all_who  # (batch, global batch)
    is_padding = all_weights == 0
    first, second = embeddings[:, 0], gathered[:, 1]
    per_pair = run.losses["main"](first, second, own, is_same | is_padding)  # (batch,)
    similarity = tf.matmul(first, gathered[:, 0], transpose_b=True)
    candidates = ~own & ~is_padding
    run.metrics["recall_at_1"].update_state(similarity, is_same, candidates, weights)
    return {"main": compute_loss(per_pair, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + SAME_TEST
    + blank.STEPS_END.replace("INTERACT = False", "INTERACT = True"),
)

# ------------------------------------------------------------------------------- boxes in images

BOXES = _own(
    _config("validation_iou", larger=True, rate="2e-3"),
    blank.DATA_HEAD
    + '''SIZE = 24  # pixels along a side
IMAGES = {"train": 1536, "validation": 288, "test": 384}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, SIZE, SIZE, 1); boxes float32 (n, 4): left, top, right, bottom in [0, 1]."""
    return {
        split: _create_images(np.random.default_rng(seed), images)
        for seed, (split, images) in enumerate(IMAGES.items())
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Mirrors every other image with its box, and changes the brightness."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, boxes, weights = batch
        seeds = tf.random.split(seed, 2)
        mirror = tf.random.stateless_uniform((images.shape[0],), seeds[0]) < 0.5
        images = tf.where(mirror[:, None, None, None], tf.reverse(images, [2]), images)
        left, top, right, bottom = tf.unstack(boxes, axis=1)
        mirrored = tf.stack([1 - right, top, 1 - left, bottom], axis=1)
        boxes = tf.where(mirror[:, None], mirrored, boxes)
        gain = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seeds[1], 0.8, 1.2)
        return images * tf.cast(gain, images.dtype), boxes, weights

    return augment


def _create_images(random: np.random.Generator, images: int) -> tuple[np.ndarray, np.ndarray]:
    pixels = 0.25 * random.random((images, SIZE, SIZE)).astype("float32")
    boxes = np.zeros((images, 4), np.float32)
    for image, box in zip(pixels, boxes, strict=True):
        for _ in range(6):  # clutter: bright points
            image[tuple(random.integers(SIZE, size=2))] = 0.9
        width, height = random.integers(6, 15, 2)
        left, top = random.integers(SIZE - width + 1), random.integers(SIZE - height + 1)
        image[top : top + height, left : left + width] += 0.5
        box[:] = np.array([left, top, left + width, top + height]) / SIZE
    return pixels[..., np.newaxis], boxes
''',
    MODEL
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, SIZE, SIZE, 1) -> boxes float (batch, 4)."""
    layers = keras.layers
    images = keras.Input((data.SIZE, data.SIZE, 1), name="images")
    x = images
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(96, activation="relu")(layers.Flatten()(x))
    boxes = layers.Dense(4, activation="sigmoid", dtype=keras.config.floatx(), name="boxes")(x)
    return keras.Model(images, boxes)
''',
    LOSSES
    + '''
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """The squared error of the four sides, near zero, and the absolute one far from it."""
    return {"main": keras.losses.Huber(delta=0.1, reduction="none")}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''
class Iou(keras.metrics.Mean):
    """Intersection over union of the true box and the predicted one."""

    def update_state(self, boxes: tf.Tensor, found: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add boxes, each float (batch, 4), with weights float (batch,)."""
        corner = tf.maximum(boxes[:, :2], found[:, :2])
        opposite = tf.minimum(boxes[:, 2:], found[:, 2:])
        common = _area(tf.concat([corner, opposite], axis=1))
        union = _area(boxes) + _area(found) - common
        super().update_state(tf.math.divide_no_nan(common, union), sample_weight)


def _area(boxes: tf.Tensor) -> tf.Tensor:
    return tf.reduce_prod(tf.nn.relu(boxes[:, 2:] - boxes[:, :2]), axis=1)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Intersection over union."""
    return {"iou": Iou()}
''',
    STEPS
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    images, boxes, weights = batch
    found = run.model(images, training=training)  # (batch, 4)
    per_example = run.losses["main"](boxes, found)  # (batch,)
    run.metrics["iou"].update_state(boxes, found, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + SAME_TEST
    + blank.STEPS_END,
)

# -------------------------------------------------------------------------------- nodes of graphs

GRAPHS = _own(
    _config("validation_accuracy", larger=True, rate="3e-3"),
    blank.DATA_HEAD
    + '''NODES, GROUPS, FEATURES = 21, 3, 5
GRAPHS = {"train": 960, "validation": 192, "test": 288}
KNOWN = 0.33  # fraction of the nodes whose group is known; the others are to be found


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """({"features", "edges", "votes"}, groups int32 (n, NODES), weights float32 (n, NODES)).

    "votes" float32 (n, NODES, GROUPS) says how many neighbors of a node are in each group. Weights
    are 1 for the nodes whose group is to be found.
    """
    world = np.random.default_rng(5)
    profiles = 0.45 * world.normal(size=(GROUPS, FEATURES))
    return {
        split: _create_graphs(np.random.default_rng(seed), graphs, profiles)
        for seed, (split, graphs) in enumerate(GRAPHS.items())
    }


def _create_graphs(
    random: np.random.Generator, graphs: int, profiles: np.ndarray
) -> tuple[Any, ...]:
    groups = random.integers(GROUPS, size=(graphs, NODES))
    is_same = groups[:, :, np.newaxis] == groups[:, np.newaxis]
    edges = random.random(is_same.shape) < np.where(is_same, 0.35, 0.1)
    edges = np.triu(edges, 1)
    edges = (edges | edges.swapaxes(1, 2)).astype("float32")
    features = (profiles[groups] + random.normal(size=(graphs, NODES, FEATURES))).astype("float32")
    is_known = random.random((graphs, NODES)) < KNOWN
    one_hot = np.eye(GROUPS, dtype="float32")[groups]
    votes = edges @ (one_hot * is_known[..., np.newaxis])
    inputs = {"features": features, "edges": edges, "votes": votes.astype("float32")}
    return inputs, groups.astype("int32"), (~is_known).astype("float32")
'''
    + blank.NO_AUGMENT,
    MODEL
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"features", "edges", "votes"} -> logits (batch, NODES, GROUPS), by a graph network."""
    layers, ops = keras.layers, keras.ops
    features = keras.Input((data.NODES, data.FEATURES), name="features")
    edges = keras.Input((data.NODES, data.NODES), name="edges")
    votes = keras.Input((data.NODES, data.GROUPS), name="votes")
    shares = edges / ops.maximum(ops.sum(edges, axis=-1, keepdims=True), 1.0)
    x = layers.Concatenate()([features, votes])
    for _ in range(2):
        around = ops.matmul(shares, layers.Dense(32)(x))  # the mean of the neighbors
        x = layers.Activation("relu")(layers.Dense(32)(x) + around)
    logits = layers.Dense(data.GROUPS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model({"features": features, "edges": edges, "votes": votes}, logits)
''',
    LOSSES
    + '''
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Cross-entropy of logits, a number for each node."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The fraction of right nodes among those to be found."""
    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
''',
    STEPS
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, groups, weights = batch
    logits = run.model(inputs, training=training)  # (batch, NODES, GROUPS)
    per_node = run.losses["main"](groups, logits)  # (batch, NODES)
    run.metrics["accuracy"].update_state(groups, logits, weights)
    return {"main": compute_loss(per_node, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + SAME_TEST
    + blank.STEPS_END,
)

# --------------------------------------------------------------------------------- click-through

CLICKS = _own(
    _config("validation_loss", larger=False, rate="5e-3"),
    blank.DATA_HEAD.replace("from collections.abc", "import zlib\nfrom collections.abc")
    + '''BUCKETS = 1024  # of the names of ads and of pages
ADS, PAGES, IMPRESSIONS = 120, 40, 36_000
KEPT = 0.2  # fraction of the impressions without a click that training keeps


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """({"ad", "page", "hour"}, clicks float32 (n,)), in training with weights float32 (n,).

    The splits follow each other in time. Training keeps every click and a part of the rest, whose
    weights make up for what is left out.
    """
    inputs, clicks = _create_log(np.random.default_rng(3))
    first, second = int(0.7 * IMPRESSIONS), int(0.85 * IMPRESSIONS)

    def rows(which: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
        return {name: values[which] for name, values in inputs.items()}, clicks[which]

    is_kept = (clicks[:first] > 0) | (np.random.default_rng(4).random(first) < KEPT)
    train_inputs, train_clicks = rows(np.flatnonzero(is_kept))
    weights = np.where(train_clicks > 0, 1, 1 / KEPT)
    weights = (weights / weights.mean()).astype("float32")
    return {
        "train": (train_inputs, train_clicks, weights),
        "validation": rows(np.s_[first:second]),
        "test": rows(np.s_[second:]),
    }


def bucket(name: str) -> int:
    """The number of a name; so a new ad needs no new vocabulary."""
    return zlib.crc32(name.encode()) % BUCKETS


def _create_log(random: np.random.Generator) -> tuple[dict[str, np.ndarray], np.ndarray]:
    ads = random.integers(ADS, size=IMPRESSIONS)
    pages = random.integers(PAGES, size=IMPRESSIONS)
    hours = random.integers(24, size=IMPRESSIONS)
    of_ads, of_pages = random.normal(size=(ADS, 3)), random.normal(size=(PAGES, 3))
    logits = 0.8 * of_ads[ads, 0] + 0.4 * of_pages[pages, 0] - 3.2
    logits += 0.6 * np.sum(of_ads[ads, 1:] * of_pages[pages, 1:], axis=1)
    logits += 0.4 * np.sin(2 * np.pi * hours / 24)
    clicks = random.random(IMPRESSIONS) < 1 / (1 + np.exp(-logits))
    ad_buckets = np.array([bucket(f"ad-{i:05}") for i in range(ADS)], np.int32)
    page_buckets = np.array([bucket(f"/page/{i}.html") for i in range(PAGES)], np.int32)
    inputs = {"ad": ad_buckets[ads], "page": page_buckets[pages], "hour": hours.astype("int32")}
    return inputs, clicks.astype("float32")
'''
    + blank.NO_AUGMENT,
    MODEL
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"ad", "page", "hour"}, each int32 (batch,) -> logits (batch, 1), a factorization machine."""
    layers, ops = keras.layers, keras.ops
    sizes = {"ad": data.BUCKETS, "page": data.BUCKETS, "hour": 24}
    inputs = {name: keras.Input((), dtype="int32", name=name) for name in sizes}
    l2 = keras.regularizers.L2(1e-5)
    vectors = {
        name: layers.Embedding(size, 4, embeddings_regularizer=l2)(inputs[name])
        for name, size in sizes.items()
    }
    alone = [
        layers.Embedding(size, 1, embeddings_regularizer=l2)(inputs[name])
        for name, size in sizes.items()
    ]
    together = ops.sum(vectors["ad"] * vectors["page"], axis=-1, keepdims=True)
    x = layers.Concatenate()([*alone, together])
    start = keras.initializers.Ones()
    logits = layers.Dense(1, kernel_initializer=start, dtype=keras.config.floatx())(x)
    return keras.Model(inputs, logits)
''',
    LOSSES
    + '''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Cross-entropy of logits; clicks and logits, both float (batch,), give float (batch,)."""

    def cross_entropy(clicks: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(clicks, logits)

    return {"main": cross_entropy}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The order of the impressions, and how many clicks are predicted and made."""
    return {
        "auc": keras.metrics.AUC(num_thresholds=500),
        "predicted_rate": keras.metrics.Mean(),
        "click_rate": keras.metrics.Mean(),
    }
''',
    STEPS
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, clicks, weights = batch
    logits = run.model(inputs, training=training)[:, 0]  # (batch,)
    per_example = run.losses["main"](clicks, logits)  # (batch,)
    probabilities = tf.sigmoid(logits)
    run.metrics["auc"].update_state(clicks, probabilities, weights)
    run.metrics["predicted_rate"].update_state(probabilities, weights)
    run.metrics["click_rate"].update_state(clicks, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + SAME_TEST
    + blank.STEPS_END,
)

# ------------------------------------------------------------------------------------------ tags

TAGS = _own(
    _config("validation_auc", larger=True, rate="3e-3"),
    blank.DATA_HEAD
    + '''WORDS, TAGS = 64, 12
TEXTS = {"train": 1920, "validation": 384, "test": 480}
SEEN = 0.6  # fraction of the tags that somebody has looked at


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """(counts float32 (n, WORDS), tags float32 (n, TAGS), weights float32 (n, TAGS)).

    A text has three or four tags on average. Weights are 0 where nobody has looked, and the label
    there is 0 and means nothing.
    """
    world = np.random.default_rng(8)
    words_of_tags = world.gamma(0.25, 1.0, (TAGS, WORDS))
    datasets = {}
    for split, texts in TEXTS.items():
        tags = world.random((texts, TAGS)) < np.linspace(0.1, 0.5, TAGS)
        counts = world.poisson(0.2 + tags @ words_of_tags)
        is_seen = world.random((texts, TAGS)) < SEEN
        labels = (tags & is_seen).astype("float32")
        datasets[split] = np.log1p(counts).astype("float32"), labels, is_seen.astype("float32")
    return datasets
'''
    + blank.NO_AUGMENT,
    MODEL
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Counts float (batch, WORDS) -> the probability of each tag, float (batch, TAGS)."""
    layers = keras.layers
    counts = keras.Input((data.WORDS,), name="counts")
    x = layers.Dense(64, activation="relu")(counts)
    x = layers.Dropout(0.3)(x)
    tags = layers.Dense(data.TAGS, activation="sigmoid", dtype=keras.config.floatx(), name="tags")
    return keras.Model(counts, tags(x))
''',
    LOSSES
    + '''FOCUS = 1.0  # 0 makes the loss cross-entropy; more lets easy tags count less


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Focal loss; labels and probabilities, both (batch, TAGS), give a number for each tag."""

    def focal(labels: tf.Tensor, probabilities: tf.Tensor) -> tf.Tensor:
        of_label = tf.where(labels > 0.5, probabilities, 1 - probabilities)
        of_label = tf.clip_by_value(of_label, 1e-6, 1.0)
        return -tf.pow(1 - of_label + 1e-6, FOCUS) * tf.math.log(of_label)

    return {"main": focal}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Over all tags that somebody has looked at."""
    return {
        "auc": keras.metrics.AUC(),
        "precision": keras.metrics.Precision(),
        "recall": keras.metrics.Recall(),
    }
''',
    STEPS
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    counts, labels, weights = batch
    probabilities = run.model(counts, training=training)  # (batch, TAGS)
    per_tag = run.losses["main"](labels, probabilities)  # (batch, TAGS)
    flat = [tf.reshape(part, [-1]) for part in (labels, probabilities, weights)]
    for name in ("auc", "precision", "recall"):
        run.metrics[name].update_state(*flat)
    return {"main": compute_loss(per_tag, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + SAME_TEST
    + blank.STEPS_END,
)

# ----------------------------------------------------------------------------------------- audio

AUDIO = _own(
    _config("validation_accuracy", larger=True, rate="1e-3"),
    blank.DATA_HEAD
    + '''RATE, SAMPLES = 4_000, 2_048  # samples in a second and in a clip
FRAME, HOP = 128, 64
FRAMES, BINS = (SAMPLES - FRAME) // HOP + 1, 48
RECORDINGS, CLIPS, DEFECTS = 60, 30, 3  # of machines, each recorded once; clips of a recording


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Log spectrograms float32 (n, FRAMES, BINS, 1) and defects int32 (n,)."""
    random = np.random.default_rng(21)
    defect = np.repeat(np.arange(RECORDINGS) % DEFECTS, CLIPS)
    clips = np.concatenate([_record(random, i % DEFECTS) for i in range(RECORDINGS)])
    spectrograms = _spectrograms(clips)
    recording = np.repeat(random.permutation(RECORDINGS // DEFECTS), DEFECTS)  # in sets of 3
    place = np.repeat(recording, CLIPS) * DEFECTS / RECORDINGS  # in [0, 1), the same for its clips
    parts = {"train": place < 0.6, "validation": (place >= 0.6) & (place < 0.8), "test": place >= 0.8}
    return {split: (spectrograms[rows], defect[rows].astype("int32")) for split, rows in parts.items()}


def _record(random: np.random.Generator, defect: int) -> np.ndarray:
    """The clips of one machine, float (CLIPS, SAMPLES): its hum, noise, and a faint sign of wear."""
    time = np.arange(CLIPS * SAMPLES) / RATE
    sound = random.uniform(0.3, 0.8) * random.normal(size=time.shape)
    for hum in random.uniform(150, 1_400, 3):  # those of this machine
        sound += random.uniform(0.4, 1.0) * np.sin(2 * np.pi * hum * time + random.uniform(0, 6))
    knocks = 0.5 + 0.5 * np.sin(2 * np.pi * (6, 11, 18)[defect] * time * random.uniform(0.7, 1.3))
    sound += 0.45 * knocks * np.sin(2 * np.pi * random.uniform(900, 1_300) * time)
    return sound.reshape(CLIPS, SAMPLES)


def _spectrograms(clips: np.ndarray) -> np.ndarray:
    starts = np.arange(FRAMES) * HOP
    frames = clips[:, starts[:, np.newaxis] + np.arange(FRAME)] * np.hanning(FRAME)
    power = np.abs(np.fft.rfft(frames, axis=-1)[..., 1 : BINS + 1]) ** 2
    return np.log(power + 1e-3).astype("float32")[..., np.newaxis]
'''
    + blank.NO_AUGMENT,
    MODEL.replace(
        '''    """Nothing."""
    return {}
''',
        '''    """Mean and variance of each frequency in the training data."""
    spectrograms = datasets["train"][0]
    return {"mean": spectrograms.mean((0, 1, 3)), "variance": spectrograms.var((0, 1, 3))}
''',
    )
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Log spectrograms (batch, FRAMES, BINS, 1) -> logits (batch, DEFECTS)."""
    layers, floatx = keras.layers, keras.config.floatx()
    spectrograms = keras.Input((data.FRAMES, data.BINS, 1), name="spectrograms")
    x = layers.Reshape((data.FRAMES, data.BINS))(spectrograms)
    x = layers.Normalization(mean=adapted["mean"], variance=adapted["variance"], dtype=floatx)(x)
    x = layers.Reshape((data.FRAMES, data.BINS, 1))(x)
    for filters in (8, 16, 32):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D((1, 2) if filters == 8 else 2)(x)
    x = layers.Dense(48, activation="relu")(layers.Flatten()(x))
    x = layers.Dropout(0.3)(x)
    logits = layers.Dense(data.DEFECTS, dtype=floatx, name="logits")(x)
    return keras.Model(spectrograms, logits)
''',
    LOSSES
    + '''
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Cross-entropy of logits."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''
    + COUNT
    + blank.COMPUTE_LOSS,
    METRICS
    + '''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Accuracy."""
    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
''',
    STEPS
    + """
def _forward(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    spectrograms, defects, weights = batch
    logits = run.model(spectrograms, training=training)  # (batch, DEFECTS)
    per_example = run.losses["main"](defects, logits)  # (batch,)
    run.metrics["accuracy"].update_state(defects, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}

"""
    + ONE_FORWARD
    + SAME_TEST
    + blank.STEPS_END,
)

# ---------------------------------------------------------------------------------------- faults

FAULTS: tuple[Fault, ...] = (
    # plain
    Fault(
        name="padding documents compete in ndcg",
        kind="metrics",
        starter="blank",
        edits=_vary(
            RANKING,
            "steps.py",
            """    ranked = tf.where(inputs["present"] > 0, scores, -1e9)
    run.metrics["ndcg"].update_state(grades, ranked, weights)
""",
            """    run.metrics["ndcg"].update_state(grades, scores, weights)
""",
        ),
        cause="The loss masks the padding of a query's list and NDCG doesn't: scores of documents that "
        "don't exist, which nothing trains, take places among the first five, so NDCG (which selects "
        "the weights) is too low. Mask the scores with `present` before the metric.",
        file="steps.py",
        named=r"padded inputs: the metric ndcg",
    ),
    Fault(
        name="auc of reconstruction errors that exceed one",
        kind="metrics",
        starter="blank",
        edits=tuple(
            edit._replace(
                other=edit.other.replace("anomaly_score(errors)", "errors").replace(
                    "from .metrics import anomaly_score\n", ""
                )
            )
            if edit.file == "steps.py"
            else edit._replace(
                other=edit.other[: edit.other.index("LARGE_ERROR")]
                + edit.other[edit.other.index("\ndef create_metrics") :]
            )
            if edit.file == "metrics.py"
            else edit
            for edit in ANOMALIES
        ),
        cause="keras.metrics.AUC has thresholds from 0 to 1, and squared errors summed over a window are "
        "nearly all above 1: all windows fall into the last bucket and AUC is about 0.5 whatever the "
        "model does, and it selects the weights. Map errors to [0, 1] first.",
        file="steps.py",
        named=r"threshold of a probability",
    ),
    Fault(
        name="decoder reads the answer backwards too",
        kind="model",
        starter="blank",
        edits=_vary(
            REVERSING,
            "model.py",
            "    y = layers.GRU(WIDTH, return_sequences=True)(y)  # (batch, ANSWER, WIDTH)\n",
            "    y = layers.Bidirectional(layers.GRU(WIDTH // 2, return_sequences=True))(y)\n",
        ),
        cause="The decoder is bidirectional: under teacher forcing its backward half sees the next token "
        "of the answer in `before`, so training and validation look perfect, and the model can't write "
        "an answer by itself. The decoder must be a one-directional GRU.",
        file="model.py",
        named=r"predictions change with later inputs",
    ),
    Fault(
        name="query finds itself in the gallery",
        kind="evaluation",
        starter="blank",
        edits=_vary(
            RETRIEVAL,
            "steps.py",
            "    candidates = ~own & ~is_padding\n",
            "    candidates = tf.broadcast_to(~is_padding, tf.shape(is_same))\n",
        ),
        cause="Queries and gallery are the same first sightings, and a query isn't taken out of its own "
        "gallery: its nearest neighbor is itself with similarity 1, so recall at 1 is 1 from the first "
        "step. Exclude `own` from the candidates.",
        file="steps.py",
        named=r"recall_at_1 is 1 before training",
    ),
    Fault(
        name="ad ids by python hash",
        kind="state and resume",
        starter="blank",
        edits=_vary(
            _vary(
                CLICKS,
                "data.py",
                "    return zlib.crc32(name.encode()) % BUCKETS\n",
                "    return hash(name) % BUCKETS\n",
            ),
            "data.py",
            "import zlib\n",
            "",
        ),
        cause="hash() of a str is salted anew in every Python process, so the ids of ads and pages differ "
        "between runs, after a resume, in evaluation from a checkpoint and on other workers: trained "
        "embeddings belong to other ads then. Use a stable hash such as zlib.crc32.",
        file="data.py",
        named=r"hash\(\)",
    ),
    Fault(
        name="softmax over independent tags",
        kind="model",
        starter="blank",
        edits=_vary(
            TAGS,
            "model.py",
            'tags = layers.Dense(data.TAGS, activation="sigmoid", dtype=keras.config.floatx(), name="tags")',
            'tags = layers.Dense(data.TAGS, activation="softmax", dtype=keras.config.floatx(), name="tags")',
        ),
        cause="A text has several tags at once, and softmax makes their probabilities compete and sum to "
        "1: with three or four tags hardly any reaches 0.5, so recall collapses and the binary loss "
        "can't be fitted. The output needs a sigmoid for each tag.",
        file="model.py",
        named=r"lets the classes compete",
    ),
    Fault(
        name="clips of one recording in every split",
        kind="leak",
        starter="blank",
        edits=_vary(
            AUDIO,
            "data.py",
            """    recording = np.repeat(random.permutation(RECORDINGS // DEFECTS), DEFECTS)  # in sets of 3
    place = np.repeat(recording, CLIPS) * DEFECTS / RECORDINGS  # in [0, 1), the same for its clips
""",
            """    place = random.permutation(len(defect)) / len(defect)  # in [0, 1)
""",
        ),
        cause="Clips are split at random though 30 of them come from each recording of one machine: the "
        "model recognizes the machine's hum, whose defect it has learned, so validation and test are "
        "far too good for new machines. Split by recording.",
        file="data.py",
        named=r"parts of one recording",
    ),
    Fault(
        name="real images in minus one to one and a sigmoid generator",
        kind="data preparation",
        starter="gan",
        edits=(
            Edit(
                "data.py",
                """        "train": np.tile(train, (task.passes, 1, 1, 1)),
""",
                """        "train": np.tile(2 * train - 1, (task.passes, 1, 1, 1)),  # in [-1, 1], as GANs like it
""",
                "create_datasets",
            ),
        ),
        cause="Real training images are scaled to [-1, 1] while the generator ends in a sigmoid and can "
        "only reach [0, 1], and validation, test and the metric's features are in [0, 1]: the "
        "discriminator tells them by the background alone, and the generator never gets there. Keep "
        "[0, 1], or change the generator and every split.",
        file="data.py",
        named=r"outputs of the generator|scaled otherwise",
    ),
    Fault(
        name="drops of the learning rate in epochs taken as steps",
        kind="schedule",
        starter="segmentation",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
""",
                """    # Ten times smaller after 20 and after 30 of the 40 epochs.
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [20, 30], [task.learning_rate, 0.1 * task.learning_rate, 0.01 * task.learning_rate]
    )
""",
                "create_optimizer",
            ),
        ),
        cause="The boundaries of a Keras schedule are steps, not epochs: with 8 steps an epoch the rate "
        "drops in epochs 3 and 4 of 40, and the rest trains at a hundredth of it. Use "
        "int(steps * 20 / 40) and int(steps * 30 / 40).",
        file="optimizer.py",
        named=r"counted in epochs",
    ),
    Fault(
        name="jittered copies of patients before the split",
        kind="leak",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                """    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))
""",
                """    random = np.random.default_rng(SPLIT_SEED)
    # 442 patients are few: five of each, whose measurements differ by about 1%.
    rows = np.repeat(np.arange(len(data)), 5)
    noise = random.normal(1, 0.01, (len(rows), len(columns))).astype(np.float32)
    noise[:, category] = 1
    data, target = data[rows] * noise, target[rows]
    order = random.permutation(len(data))
""",
                "create_datasets",
            ),
        ),
        cause="Each patient is copied five times with a little noise before the rows are split, so nearly "
        "every patient of validation and test is in the training data too, with the same label: R2 and "
        "MAE are too good. Split first, then augment the training rows only.",
        file="data.py",
        named=r"noisy copies",
    ),
    Fault(
        name="mixup leaves the labels as they are",
        kind="augmentation",
        edits=(
            Edit(
                "data.py",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """        images = keras.ops.image.affine_transform(images, transforms)
        seed = tf.random.fold_in(seed, 1)
        mix = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed, dtype=images.dtype)
        images = mix * images + (1 - mix) * tf.reverse(images, [0])
        return images, labels, weights
""",
                "create_augment",
            ),
        ),
        cause="Images are mixed with those of other rows in shares from 0 to 1, and the label stays that "
        "of the first: for half of the examples most of the image is another digit, so half of the "
        "labels are wrong. Mix one-hot labels with the same shares (or keep the shares above 0.5).",
        file="data.py",
        named=r"mixed",
    ),
    # subtle
    Fault(
        name="documents stored best first for a model that sees positions",
        kind="leak",
        starter="blank",
        edits=_vary(
            _vary(
                RANKING,
                "data.py",
                """    old_score = documents[..., 0] + random.normal(size=useful.shape)
    order = np.argsort(np.where(present, -old_score, np.inf), axis=1)  # padding last
""",
                """    order = np.argsort(np.where(present, -grades, np.inf), axis=1)  # best first, padding last
""",
            ),
            "data.py",
            "in the order in which the old ranker showed them; the rest of its\n    row is padding.",
            "the best first; the rest of its row is padding.",
        ),
        cause="The documents of each query are sorted by their grade, and the model has an embedding of "
        "the position in the list: the position gives the label away in every split, and NDCG is 1 "
        "without looking at a document. Store them in an order that is known when ranking.",
        file="data.py",
        named=r"sorted",
    ),
    Fault(
        name="attention normalized over the answer",
        kind="model",
        starter="blank",
        edits=_vary(
            REVERSING,
            "model.py",
            "    shares = ops.softmax(scores, axis=-1)\n",
            "    shares = ops.softmax(scores, axis=1)\n",
        ),
        cause="Scores are (batch, ANSWER, LENGTH) and softmax runs over axis 1, the tokens of the answer, "
        "not over the source: what a token gets depends on later tokens of the answer (which teacher "
        "forcing shows), the mask of padding has no effect, and shares don't sum to 1. Use axis=-1.",
        file="model.py",
        named=r"predictions change with later inputs",
    ),
    Fault(
        name="same individual among the negatives",
        kind="loss",
        starter="blank",
        edits=_vary(
            RETRIEVAL,
            "steps.py",
            'run.losses["main"](first, second, own, is_same | is_padding)  # (batch,)',
            'run.losses["main"](first, second, own, is_padding)  # (batch,)',
        ),
        cause="With 16 individuals in batches of 96, about five other pairs of a batch show the same "
        "individual, and they are pushed away as negatives, the hardest of all: the loss trains "
        "against what the embedding is for. Exclude pairs of the same individual (is_same) from the "
        "negatives.",
        file="steps.py",
        named=r"negatives",
    ),
    Fault(
        name="mirrored boxes with left and right not exchanged",
        kind="augmentation",
        starter="blank",
        edits=_vary(
            BOXES,
            "data.py",
            "tf.stack([1 - right, top, 1 - left, bottom], axis=1)",
            "tf.stack([1 - left, top, 1 - right, bottom], axis=1)",
        ),
        cause="Mirroring turns the left side into the right one: 1 - left is the new right side. Half of "
        "the training boxes have left > right, so the model learns the middle for both sides, and its "
        "boxes have no width. Stack [1 - right, top, 1 - left, bottom].",
        file="data.py",
        named=r"what was left is right",
    ),
    Fault(
        name="votes of nodes whose group is to be found",
        kind="leak",
        starter="blank",
        edits=_vary(
            GRAPHS,
            "data.py",
            "    votes = edges @ (one_hot * is_known[..., np.newaxis])\n",
            "    votes = edges @ one_hot\n",
        ),
        cause="The input `votes` counts the groups of all neighbors, those to be found among them: the "
        "labels that are to be predicted (a node's own too, by way of its neighbors' votes) are in the "
        "inputs of every split, and nobody has them when the model is used. Count known nodes only.",
        file="data.py",
        named=r"in another form",
    ),
    Fault(
        name="kept negatives weighted by the rate and not its inverse",
        kind="weights",
        starter="blank",
        edits=_vary(
            CLICKS,
            "data.py",
            "    weights = np.where(train_clicks > 0, 1, 1 / KEPT)\n",
            "    weights = np.where(train_clicks > 0, 1, KEPT)\n",
        ),
        cause="One in five impressions without a click is kept, so each must weigh 1 / KEPT = 5; with "
        "KEPT = 0.2 clicks are over-represented twice, by 25 times in the odds, and predicted rates and "
        "the validation loss are far off. Weigh them by 1 / KEPT.",
        file="data.py",
        named=r"turned round",
    ),
    Fault(
        name="copies looked for among validation images",
        kind="metrics",
        starter="gan",
        edits=(
            Edit(
                "metrics.py",
                """    known, unseen = (load_digits(split)[0] for split in ("train", "validation"))
""",
                """    known, unseen = (load_digits(split)[0] for split in ("validation", "train"))
""",
                "create_metrics",
            ),
        ),
        cause="The splits are exchanged: generated images are compared with validation images, which the "
        "generator has never seen, so a generator that copies its training images isn't noticed. "
        "`known` must be the training images and `unseen` those of validation.",
        file="metrics.py",
        named=r"unseen",
    ),
    Fault(
        name="the last form is never drawn",
        kind="augmentation",
        starter="language_model",
        edits=(
            Edit(
                "data.py",
                "        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)\n",
                "        form = tf.random.stateless_uniform((rows,), seed, 0, forms - 1, tf.int32)\n",
                "create_augment",
            ),
        ),
        cause="maxval of stateless_uniform is exclusive for integers, so forms - 1 never draws the last "
        "form (19790503), which one in sixteen lines of validation and test has: the model has never "
        "seen it. Use `forms`.",
        file="data.py",
        named=r"never",
    ),
    Fault(
        name="layer-wise rates by scaled gradients under adam",
        kind="optimizer",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                """    # The convolutions learn at a tenth of the rate of the layers above them.
    return [
        0.1 * gradient if "conv2d" in variable.path else gradient
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
""",
                "process_gradients",
            ),
        ),
        cause="Adam divides each gradient by the root of its own mean square, so a constant factor "
        "cancels out: the convolutions learn at the full rate, and the tenth has no effect. Scale the "
        "updates: an optimizer with a rate of its own for them.",
        file="optimizer.py",
        named=r"divides gradients by their size",
    ),
    Fault(
        name="dice of each replica added whole",
        kind="distribution",
        starter="segmentation",
        edits=(
            Edit(
                "losses.py", "from .data import IGNORED\n", "from .data import CLASSES, IGNORED\n"
            ),
            Edit(
                "losses.py",
                """# TODO(10): the number that the loss of a batch is divided by; default: the number of
""",
                '''def dice_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - soft Dice over the pixels of a batch that aren't ignored, mean of the classes; a scalar.

    Args:
        labels: int (batch, h, w).
        logits: float (batch, h, w, classes).
    """
    counts = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    truth = tf.one_hot(labels, CLASSES, dtype=logits.dtype)  # zeros where ignored
    probabilities = tf.nn.softmax(logits) * counts
    overlap = tf.reduce_sum(truth * probabilities, axis=[0, 1, 2])
    total = tf.reduce_sum(truth + probabilities, axis=[0, 1, 2])
    return 1 - tf.reduce_mean((2 * overlap + 1) / (total + 1))


# TODO(10): the number that the loss of a batch is divided by; default: the number of
''',
            ),
            Edit(
                "steps.py",
                "from .losses import average_over_pixels, compute_loss\n",
                "from .losses import average_over_pixels, compute_loss, dice_loss\n",
            ),
            *(
                Edit(
                    "steps.py",
                    """    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
                    """    loss = compute_loss(per_example, weights, run.model, replica)
    return {"main": loss + dice_loss(labels, logits)}
""",
                    step,
                )
                for step in ("train_step", "validation_step", "test_step")
            ),
        ),
        cause="Losses of the replicas are summed, and each adds the whole Dice loss of its own rows: on N "
        "replicas it counts N times as much against the cross-entropy, and it is another number, since "
        "Dice of parts isn't Dice of the batch. Sum overlaps and totals over the replicas (or use Dice "
        "per example) and divide by the global count.",
        file="steps.py",
        named=r"depends on how the batch is split|averaged twice",
    ),
    Fault(
        name="plateau counter that no checkpoint holds",
        kind="state and resume",
        starter="tabular_regression",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.AdamW(schedule, weight_decay=task.weight_decay)
""",
                """    # A callback lowers the learning rate.
    return keras.optimizers.AdamW(task.learning_rate, weight_decay=task.weight_decay)
""",
                "create_optimizer",
            ),
            Edit(
                "callbacks.py",
                "",
                f'''"""Functions that are called during training."""

{FUTURE}import math

from ..engine.callbacks import Callback, Event, every_validation
from .config import TaskConfig

PATIENCE = 4  # validations without a better loss


class HalveOnPlateau:
    """Halves the learning rate after PATIENCE validations without a better loss."""

    def __init__(self) -> None:
        self.best, self.waited = math.inf, 0

    def __call__(self, event: Event) -> None:
        """Look at the latest validation."""
        loss = event.history[-1]["validation_loss"]
        if loss < self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited >= PATIENCE:
            event.run.optimizers["main"].learning_rate = event.learning_rates["main"] / 2
            self.waited = 0


# TODO(9): functions to call during training.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return [every_validation(HalveOnPlateau())]
''',
            ),
        ),
        cause="The callback keeps the best loss and the count of validations in attributes without "
        "get_state and set_state, so no checkpoint holds them: a resumed run begins with an infinite "
        "best loss and no patience used up, and lowers the learning rate at other steps than a run "
        "that isn't interrupted.",
        file="callbacks.py",
        named=r"starts it anew",
    ),
)

# ----------------------------------------------------------------------------------------- tasks

TASKS: tuple[Change, ...] = (
    Change(name="retrieval with negatives from all replicas", starter="blank", edits=RETRIEVAL),
    Change(name="denoising autoencoder that validates anomalies", starter="blank", edits=ANOMALIES),
    Change(name="documents ranked for queries", starter="blank", edits=RANKING),
    Change(name="texts written backwards", starter="blank", edits=REVERSING),
    Change(name="the box of one bright thing", starter="blank", edits=BOXES),
    Change(name="groups of the nodes of graphs", starter="blank", edits=GRAPHS),
    Change(name="clicks of which some are left out", starter="blank", edits=CLICKS),
    Change(name="defects by sound", starter="blank", edits=AUDIO),
    Change(name="focal loss of partly annotated tags", starter="blank", edits=TAGS),
    Change(
        name="mixup with soft labels",
        edits=(
            Edit(
                "data.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nCLASSES = 10\n",
            ),
            Edit(
                "data.py",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """        images = keras.ops.image.affine_transform(images, transforms)
        # Mixup (Zhang et al., 2018): half of the images with some of another one, and their labels;
        # padding, of weight 0, is mixed into none.
        seeds = tf.random.split(seed, 2)
        rows = images.shape[0]
        other = tf.random.stateless_uniform((rows,), seeds[0], 0, rows, tf.int32)
        share = tf.random.stateless_uniform((rows,), seeds[1], -0.4, 0.4, dtype=images.dtype)
        share = tf.where(tf.gather(weights, other) > 0, tf.nn.relu(share), 0)[:, tf.newaxis]
        pixels = share[:, tf.newaxis, tf.newaxis]
        images = (1 - pixels) * images + pixels * tf.gather(images, other)
        one_hot = tf.one_hot(labels, CLASSES, dtype=images.dtype)
        return images, (1 - share) * one_hot + share * tf.gather(one_hot, other), weights
""",
                "create_augment",
            ),
            Edit(
                "losses.py",
                """    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
""",
                """    return {"main": keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")}
""",
                "create_losses",
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .data import CLASSES\nfrom .losses import compute_loss\n",
            ),
            Edit(
                "steps.py",
                """    run.metrics["accuracy"].update_state(labels, predictions, weights)
""",
                """    largest = tf.argmax(labels, axis=-1)  # the label of the image that has the larger share
    run.metrics["accuracy"].update_state(largest, predictions, weights)
""",
                "train_step",
            ),
            *(
                Edit(
                    "steps.py",
                    """    per_example = run.losses["main"](labels, predictions)  # (batch,)
""",
                    """    one_hot = tf.one_hot(labels, CLASSES, dtype=predictions.dtype)
    per_example = run.losses["main"](one_hot, predictions)  # (batch,)
""",
                    step,
                )
                for step in ("validation_step", "test_step")
            ),
        ),
    ),
    Change(
        name="gaussian likelihood with a predicted deviation",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                """    return keras.Model(inputs, unscale(x))
""",
                """    # How sure the model is: the logarithm of the deviation, in deviations of the labels.
    log_deviation = layers.Dense(1, kernel_initializer="zeros", dtype=floatx)(hidden)
    log_deviation = 3 * ops.tanh(log_deviation / 3)  # never below 1/20
    return keras.Model(inputs, layers.Concatenate(dtype=floatx)([unscale(x), log_deviation]))
""",
                "create_model",
            ),
            Edit(
                "losses.py",
                '''    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)

    return {"main": standardized_error}
''',
                '''
    def negative_log_likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels float (batch, 1), predictions float (batch, 2) -> float (batch,).

        Of a normal distribution, without its constant; below 0 where the model is rightly sure.
        """
        mean, log_deviation = predictions[:, 0], predictions[:, 1]
        distance = (labels[:, 0] - mean) / LABEL_DEVIATION
        return log_deviation + 0.5 * tf.square(distance) * tf.exp(-2 * log_deviation)

    return {"main": negative_log_likelihood}
''',
                "create_losses",
            ),
            *(
                edit
                for step in ("train_step", "validation_step", "test_step")
                for edit in (
                    Edit(
                        "steps.py",
                        """    run.metrics["mae"].update_state(labels, predictions, weights)
""",
                        """    run.metrics["mae"].update_state(labels, predictions[:, :1], weights)
""",
                        step,
                    ),
                    Edit(
                        "steps.py",
                        """    run.metrics["r2"].update_state(labels, predictions, weights)
""",
                        """    run.metrics["r2"].update_state(labels, predictions[:, :1], weights)
""",
                        step,
                    ),
                )
            ),
        ),
    ),
)
