"""Faults and correct tasks of a twelfth examiner: tags, clicks, sensors, speech; blind to `check`."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit, Fault

# ------------------------------------------------------------------ what all own tasks share

CALLBACKS = blank.CALLBACKS

PICTURES = blank.PICTURES

OPTIMIZER = blank.OPTIMIZER_FILE

COMPUTE_LOSS = '''

def compute_loss(
    losses: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Args:
        losses: float, one number for each weight.
        weights: float, 0 for what doesn't count.
        model: the model whose regularization losses are added.
        replica: `replica.global_count` is `count` summed over all replicas.

    Raises:
        ValueError: `losses` isn't one number per weight.
    """
    if losses.shape != weights.shape:
        raise ValueError(f"The loss has shape {losses.shape} and its weights {weights.shape}.")
    loss = tf.nn.compute_average_loss(
        losses, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
'''

COUNT_EXAMPLES = '''

def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
'''


def config(title: str, monitor: str, larger: bool, rate: float) -> str:
    """The flags of a task."""
    return f'''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{title}"""

    learning_rate: float = {rate}  # learning rate at the start; decays to 0 along a cosine
    width: int = 64  # units of the hidden layers
    dropout: float = 0.1  # dropout rate before and after the hidden layer; 0 disables
    monitor: str = "{monitor}"  # column of history.csv that selects the best weights
    larger_is_better: bool = {larger}  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {{self.dropout}}; it must be at least 0 and less than 1.")
        for name in ("learning_rate", "width"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{{name}} is {{getattr(self, name)}}; it must be more than 0.")
'''


def own(**files: str) -> tuple[Edit, ...]:
    """Whole files of a task, by their names."""
    files = {"callbacks": CALLBACKS, "pictures": PICTURES, "optimizer": OPTIMIZER, **files}
    return tuple(Edit(f"{name}.py", "", text) for name, text in files.items())


# ------------------------------------------------------------------ A: tags of articles

TAGS = own(
    config=config("Tags of short articles, several to each.", "validation_pr_auc", True, 3e-3),
    data='''"""Articles made of words, each with any number of tags, and their augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

SUBJECTS = (
    *("art", "climate", "cooking", "cycling", "economy", "films"),
    *("gardens", "health", "history", "music", "physics", "travel"),
)
SHARES = np.linspace(0.25, 0.05, len(SUBJECTS))  # of the articles, for each subject
WORDS, LENGTH = 500, 48  # word 0 is padding
ARTICLES = {"train": 2_400, "validation": 480, "test": 600}
LOOKED_AT = 0.45  # fraction of the tags of a training article that somebody decided on
UNKNOWN = -1.0  # nobody decided whether the article has the tag

Article = tuple[np.ndarray, list[str]]  # words, tags


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Words int32 (n, LENGTH) and tags float32 (n, tags): 1, 0, or in training UNKNOWN."""
    random = np.random.default_rng(7)
    talk = random.dirichlet(np.full(WORDS - 1, 1.0))
    of_subject = dict(zip(SUBJECTS, random.dirichlet(np.full(WORDS - 1, 0.04), len(SUBJECTS))))
    articles = {
        split: [_write(random, talk, of_subject) for _ in range(number)]
        for split, number in ARTICLES.items()
    }
    names = sorted({name for written in articles.values() for _, tags in written for name in tags})
    column = {name: i for i, name in enumerate(names)}
    datasets = {}
    for split, written in articles.items():
        words = np.zeros((len(written), LENGTH), np.int32)
        tags = np.zeros((len(written), len(names)), np.float32)
        for row, (text, given) in enumerate(written):
            words[row, : len(text)] = text
            tags[row, [column[name] for name in given]] = 1
        if split == "train":
            is_known = random.random(tags.shape) < LOOKED_AT
            tags = np.where(is_known, tags, np.float32(UNKNOWN))
        datasets[split] = words, tags
    return datasets


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: training batches stay as they are."""
    return None


def _write(
    random: np.random.Generator, talk: np.ndarray, of_subject: dict[str, np.ndarray]
) -> Article:
    """An article: half of its words are talk, the others are of its subjects."""
    chosen = [name for name, share in zip(SUBJECTS, SHARES) if random.random() < share]
    words = random.choice(WORDS - 1, random.integers(20, LENGTH + 1), p=talk)
    for i in range(len(words)):
        if chosen and random.random() < 0.5:
            words[i] = random.choice(WORDS - 1, p=of_subject[random.choice(chosen)])
    return words + 1, chosen
''',
    model='''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import WORDS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    words, tags = datasets["train"]
    return {"length": words.shape[1], "tags": tags.shape[1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Words int32 (batch, length) -> logits float32 (batch, tags)."""
    layers, ops = keras.layers, keras.ops
    words = keras.Input((int(adapted["length"]),), dtype="int32", name="words")
    x = layers.Embedding(WORDS, task.width)(words)  # (batch, length, width)
    there = ops.cast(ops.expand_dims(words != 0, -1), x.dtype)
    x = ops.sum(x * there, axis=1) / ops.maximum(ops.sum(there, axis=1), 1)
    x = layers.Dense(task.width, activation="relu")(x)
    x = layers.Dropout(task.dropout)(x)
    floatx = keras.config.floatx()
    logits = layers.Dense(int(adapted["tags"]), dtype=floatx, name="logits")(x)
    return keras.Model(words, logits)
''',
    losses='''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; tags and logits, both (batch, tags), give one number per tag."""

    def cross_entropy(tags: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(tf.maximum(tags, 0), logits)

    return {"main": cross_entropy}


def known(tags: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weight of each tag, float (batch, tags): 0 where it is UNKNOWN, or in padding."""
    return tf.cast(tags >= 0, weights.dtype) * weights[:, tf.newaxis]


def count(batch: Any) -> tf.Tensor:
    """How many tags of `batch` are known, an int32 scalar."""
    _, tags, weights = batch
    return tf.math.count_nonzero(known(tags, weights), dtype=tf.int32)
'''
    + COMPUTE_LOSS,
    metrics='''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class TagF1(keras.metrics.Metric):
    """The F1 score of all tags together, where a tag is given if its logit is above 0."""

    def __init__(self) -> None:
        super().__init__(name="tag_f1")
        self._right = self.add_variable((), "zeros", name="right")
        self._wrong = self.add_variable((), "zeros", name="wrong")

    def update_state(self, tags: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add tags, logits and weights, each (batch, tags)."""
        has, given = tags > 0.5, logits > 0
        weigh = lambda which: tf.reduce_sum(tf.cast(which, sample_weight.dtype) * sample_weight)
        self._right.assign_add(weigh(has & given))
        self._wrong.assign_add(weigh(has != given))

    def result(self) -> tf.Tensor:
        """2 TP / (2 TP + FP + FN)."""
        right, wrong = tf.convert_to_tensor(self._right), tf.convert_to_tensor(self._wrong)
        return tf.math.divide_no_nan(2 * right, 2 * right + wrong)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The area under the precision-recall curve, and the F1 score, of all known tags together."""
    return {"pr_auc": keras.metrics.AUC(curve="PR", from_logits=True), "tag_f1": TagF1()}
''',
    steps='''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss, known

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # words, tags (batch, tags), weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    words, tags, weights = batch
    logits = run.model(words, training=training)  # (batch, tags)
    per_tag = run.losses["main"](tags, logits)  # (batch, tags)
    tag_weights = known(tags, weights)  # (batch, tags)
    for metric in run.metrics.values():
        metric.update_state(tf.maximum(tags, 0), logits, tag_weights)
    return {"main": compute_loss(per_tag, tag_weights, run.model, replica)}


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return _step(run, batch, replica, training=False)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
''',
)

# ------------------------------------------------------------------ B: the next item of a shop

SHOP = own(
    config=config("The next item that a visitor clicks.", "validation_recall_at_10", True, 5e-3),
    data='''"""Clicks that a shop has logged, and their augmentation.

The shop shows popular items further up, and what is further down is seen less often: the log of
training clicks is biased. Validation and test are clicks of visitors that saw a random order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

ITEMS, GENRES = 200, 10  # items are numbered from 1; 0 is no item
VISITORS, CLICKS = 240, 15  # the last but one click is for validation, the last for the test
HISTORY = 8  # clicks that are known of a visitor
POSITIONS = 10
SEEN = (1 + np.arange(POSITIONS)) ** -0.7  # how often what stands at a position is seen, measured


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """({"history": int32 (n, HISTORY)}, {"item": int32 (n,), "position": int32 (n,)}) by split.

    A history ends with the click before the item. Position 0 is seen by everybody.
    """
    random = np.random.default_rng(3)
    genre = random.integers(GENRES, size=ITEMS)
    popularity = 1 / (1 + random.permutation(ITEMS)) ** 0.8
    in_genre = np.stack([np.where(genre == g, popularity, 0) for g in range(GENRES)])
    in_genre /= in_genre.sum(axis=1, keepdims=True)
    rank = np.argsort(np.argsort(-popularity))  # 0 is the most popular item
    follows = random.permutation(GENRES)  # the genre that a visitor turns to after another
    rows: dict[str, list[Any]] = {"train": [], "validation": [], "test": []}
    for _ in range(VISITORS):
        taste = random.dirichlet(np.full(GENRES, 0.3))
        clicks = np.zeros(HISTORY + CLICKS, np.int32)
        now = random.choice(GENRES, p=taste)
        for t in range(HISTORY, HISTORY + CLICKS):
            left = HISTORY + CLICKS - t
            split = {1: "test", 2: "validation"}.get(left, "train")
            goes_on = random.random() < 0.6
            now = follows[now] if goes_on else random.choice(GENRES, p=taste)
            item, position = _click(random, in_genre[now], rank, biased=split == "train")
            clicks[t] = item + 1
            rows[split].append((clicks[t - HISTORY : t].copy(), clicks[t], position))
    datasets = {}
    for split, found in rows.items():
        history, items, positions = (np.array(part, np.int32) for part in zip(*found))
        datasets[split] = {"history": history}, {"item": items, "position": positions}
    return datasets


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: training batches stay as they are."""
    return None


def _click(
    random: np.random.Generator, wanted: np.ndarray, rank: np.ndarray, biased: bool
) -> tuple[int, int]:
    """An item and the position at which it was clicked; an unbiased one counts as position 0."""
    while True:
        item = random.choice(ITEMS, p=wanted)
        if not biased:
            return item, 0
        about = rank[item] * POSITIONS / ITEMS + random.normal(0, 1.5)
        position = int(np.clip(round(about), 0, POSITIONS - 1))
        if random.random() < SEEN[position]:
            return item, position
''',
    model='''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import HISTORY, ITEMS, SEEN


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How likely each item is in the training log, and the mean of the clicks' inverse propensity."""
    _, labels = datasets["train"]
    counts = np.bincount(labels["item"], minlength=ITEMS + 1)[1:] + 0.5
    return {
        "log_share": np.log(counts / counts.sum()).astype("float32"),  # (ITEMS,)
        "mean_weight": np.mean(1 / SEEN[labels["position"]]),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"history": int32 (batch, HISTORY)} -> scores float32 (batch, ITEMS), of items from 1 on."""
    layers = keras.layers
    history = keras.Input((HISTORY,), dtype="int32", name="history")
    clicked = layers.Embedding(ITEMS + 1, task.width, name="clicked")(history)
    latest = clicked[:, -1]
    visitor = layers.Concatenate()([keras.ops.mean(clicked, axis=1), latest])
    visitor = layers.Dense(task.width, activation="relu")(visitor)
    visitor = layers.Dropout(task.dropout)(visitor)
    scores = layers.Dense(ITEMS, use_bias=True, dtype=keras.config.floatx(), name="items")(visitor)
    return keras.Model({"history": history}, scores)
''',
    losses='''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name; the number of the right column and logits give one number per example."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''
    + COUNT_EXAMPLES
    + COMPUTE_LOSS,
    metrics='''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How often the clicked item is one of the ten with the highest scores in the whole shop."""
    return {"recall_at_10": keras.metrics.SparseTopKCategoricalAccuracy(k=10)}
''',
    steps='''"""The train, validation and test step, as one replica computes them.

Training compares the clicked item with those that were clicked in the other rows of the batch, as
in a shop of millions; evaluation compares it with all.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import SEEN
from .losses import compute_loss

Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]  # inputs, labels, weights
NEVER = -1e9


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    inputs, labels, weights = batch
    scores = run.model(inputs, training=True)  # (batch, ITEMS)
    item = labels["item"] - 1
    candidates = replica.all_gather(item)  # those of all replicas, (global batch,)
    is_there = replica.all_gather(weights) > 0  # padding is no candidate
    logits = tf.gather(scores, candidates, axis=1)  # (batch, global batch)
    # What is clicked often is a candidate often (Yi et al., 2019).
    logits -= tf.gather(tf.constant(run.adapted["log_share"], logits.dtype), candidates)
    own = replica.index * tf.size(item) + tf.range(tf.size(item))  # the column of the own item
    others = tf.range(tf.size(candidates)) != own[:, tf.newaxis]
    is_same = candidates == item[:, tf.newaxis]  # another visitor's click on the same item
    logits = tf.where(others & (is_same | ~is_there), tf.cast(NEVER, logits.dtype), logits)
    per_example = run.losses["main"](own, logits)  # (batch,)
    run.metrics["recall_at_10"].update_state(item, scores, weights)
    clicks = weights * inverse_propensity(run, labels["position"])
    return {"main": compute_loss(per_example, clicks, run.model, replica)}


def inverse_propensity(run: Run, position: tf.Tensor) -> tf.Tensor:
    """Weights float (batch,) of clicks, 1 on average over the training data."""
    inverse = tf.gather(tf.constant(1 / SEEN, tf.float32), position)
    return inverse / tf.cast(run.adapted["mean_weight"], tf.float32)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    inputs, labels, weights = batch
    scores = run.model(inputs, training=False)  # (batch, ITEMS)
    item = labels["item"] - 1
    per_example = run.losses["main"](item, scores)
    run.metrics["recall_at_10"].update_state(item, scores, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = True
''',
)

# ------------------------------------------------------------------ C: what a sensor's wearer does

CLASSIFY_STEPS = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # windows, labels (batch,), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    windows, labels, weights = batch
    logits = run.model(windows, training=True)  # (batch, classes)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    windows, labels, weights = batch
    logits = run.model(windows, training=False)  # (batch, classes)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
'''

CROSS_ENTROPY = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name; labels and logits give one number per example (or token)."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''

SENSOR = own(
    config=config("What the wearer of an accelerometer does.", "validation_accuracy", True, 2e-3),
    data='''"""Windows of accelerometer recordings, and their augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

ACTIVITIES = ("still", "walking", "running", "crouching", "jumping up", "cycling")
PEOPLE = {"train": range(16), "validation": range(16, 20), "test": range(20, 24)}
RATE, SAMPLES = 25, 560  # samples in a second, and in a recording
WINDOW, HOP = 96, 32  # samples in a window, and from its start to that of the next one


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows float32 (n, WINDOW, 3) in g and activities int64 (n,); nobody is in two splits."""
    return {split: _windows(people) for split, people in PEOPLE.items()}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs: stronger or weaker."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        windows, labels, weights = batch
        shape = (windows.shape[0], 1, 1)
        windows *= tf.random.stateless_uniform(shape, seed, 0.9, 1.1, windows.dtype)
        return windows, labels, weights

    return augment


def _windows(people: range) -> tuple[np.ndarray, np.ndarray]:
    windows, labels = [], []
    for person in people:
        for activity in range(len(ACTIVITIES)):
            recording = _record(person, activity)
            for start in range(0, SAMPLES - WINDOW + 1, HOP):
                windows.append(recording[start : start + WINDOW])
                labels.append(activity)
    return np.stack(windows).astype("float32"), np.array(labels, "int64")


def _record(person: int, activity: int) -> np.ndarray:
    """A recording float (SAMPLES, 3), with the habits of a person."""
    body, noise = np.random.default_rng((1, person)), np.random.default_rng((2, person, activity))
    pace, strength = body.uniform(0.75, 1.35), body.uniform(0.5, 1.6)
    tilt, turn = body.uniform(-0.6, 0.6, 2)  # how the sensor is worn
    habit = body.normal(0, 0.35, (len(ACTIVITIES), 3))
    time = pace * np.arange(SAMPLES) / RATE + noise.uniform(0, 10)
    wave = lambda hertz, shift=0.0: np.sin(2 * np.pi * (hertz * time + shift))
    saw = 2 * (0.8 * time % 1) - 1  # rises slowly and falls at once
    still = np.zeros(SAMPLES)
    up, forward, aside = {
        "still": (still, still, still),
        "walking": (wave(1.7), 0.5 * wave(0.85), 0.4 * wave(0.85, 0.25)),
        "running": (1.6 * wave(2.4), 0.8 * wave(1.2), 0.4 * wave(1.2, 0.25)),
        "crouching": (saw, 0.2 * saw, still),
        "jumping up": (-saw, -0.2 * saw, still),  # falls slowly and rises at once
        "cycling": (0.4 * wave(1.3), 0.9 * wave(1.3, 0.25), 0.3 * wave(0.65)),
    }[ACTIVITIES[activity]]
    axes = strength * (np.stack([up, forward, aside], axis=1) + 0.5 * habit[activity])
    axes[:, 0] += 1  # gravity
    c, s = np.cos(tilt), np.sin(tilt)
    axes = axes @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    c, s = np.cos(turn), np.sin(turn)
    axes = axes @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return axes + noise.normal(0, 0.35, axes.shape)
''',
    model='''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import ACTIVITIES


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of each axis over the training windows."""
    windows, _ = datasets["train"]
    shape = windows.shape[1:]
    return {"shape": shape, "mean": windows.mean((0, 1)), "variance": windows.var((0, 1))}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Windows float (batch, WINDOW, 3) -> logits float32 (batch, activities)."""
    layers, floatx = keras.layers, keras.config.floatx()
    windows = keras.Input(adapted["shape"], name="windows")
    x = layers.Normalization(mean=adapted["mean"], variance=adapted["variance"])(windows)
    for filters in (task.width // 2, task.width, task.width):
        x = layers.Conv1D(filters, 5, strides=2, padding="same")(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("relu")(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dropout(task.dropout)(x)
    return keras.Model(windows, layers.Dense(len(ACTIVITIES), dtype=floatx, name="logits")(x))
''',
    losses=CROSS_ENTROPY + COUNT_EXAMPLES + COMPUTE_LOSS,
    metrics='''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Accuracy."""
    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
''',
    steps=CLASSIFY_STEPS,
)

# ------------------------------------------------------------------ D: how words are pronounced

SPEECH = own(
    config=config("Letters to sounds.", "validation_exact_match", True, 4e-3),
    data='''"""Words of an invented language and how they are pronounced, and their augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

LETTERS = "abdefgiklmnoprstu"
VOWELS = "aeiou"
SHORTEST, LONGEST = 4, 9  # letters of a word
PAD, START, END, HIDDEN = 0, 1, 2, 3  # tokens that are no sounds; HIDDEN replaces some in training
FIRST_SOUND = 4
SOUNDS = FIRST_SOUND + 2 * len(LETTERS) + 1
WORDS = {"train": 2_400, "validation": 480, "test": 600}  # each word is in one split only
LENGTH = 2 * LONGEST + 1  # sounds of the longest pronunciation, with START or END


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """({"letters": (n, LONGEST), "written": (n, LENGTH)}, sounds (n, LENGTH), weights (n, LENGTH)).

    "written" are the sounds one place later, START before them. Weights are 0 for padding.
    """
    random = np.random.default_rng(5)
    words: dict[str, None] = {}
    while len(words) < sum(WORDS.values()):
        letters = random.choice(list(LETTERS), random.integers(SHORTEST, LONGEST + 1))
        words["".join(letters)] = None
    every, first, datasets = list(words), 0, {}
    for split, number in WORDS.items():
        letters = np.zeros((number, LONGEST), np.int32)
        sounds = np.zeros((number, LENGTH), np.int32)
        for row, word in enumerate(every[first : first + number]):
            letters[row, : len(word)] = [1 + LETTERS.index(letter) for letter in word]
            spoken = [*pronounce(word), END]
            sounds[row, : len(spoken)] = spoken
        written = np.pad(sounds[:, :-1], [(0, 0), (1, 0)], constant_values=START)
        weights = (sounds != PAD).astype("float32")
        datasets[split] = {"letters": letters, "written": written}, sounds, weights
        first += number
    return datasets


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: training batches stay as they are."""
    return None


def pronounce(word: str) -> list[int]:
    """A consonant sounds softer before "e" and "i"; a vowel after a vowel starts with a stop."""
    sounds = []
    for before, letter, after in zip(" " + word, word, word[1:] + " "):
        place = LETTERS.index(letter)
        if letter in VOWELS:
            stop = [SOUNDS - 1] if before in VOWELS else []
            sounds += [*stop, FIRST_SOUND + 2 * place]
        else:
            sounds.append(FIRST_SOUND + 2 * place + (after in "ei"))
    return sounds
''',
    model='''"""The model, and how it pronounces a word."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import TaskConfig
from .data import LENGTH, LETTERS, LONGEST, SOUNDS, START


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: all that the model needs to know is constant."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Letters (batch, LONGEST), sounds so far (batch, LENGTH) -> logits of each next sound."""
    layers, ops, width = keras.layers, keras.ops, task.width
    letters = keras.Input((LONGEST,), dtype="int32", name="letters")
    written = keras.Input((LENGTH,), dtype="int32", name="written")
    x = layers.Embedding(len(LETTERS) + 1, width)(letters)
    x = layers.Bidirectional(layers.GRU(width // 2, return_sequences=True))(x)
    word = layers.Dropout(task.dropout)(x)  # (batch, LONGEST, width)
    y = layers.Embedding(SOUNDS, width)(written)
    y = layers.GRU(width, return_sequences=True)(y)  # (batch, LENGTH, width)
    is_letter = ops.expand_dims(letters != 0, 1)  # (batch, 1, LONGEST)
    heard = layers.MultiHeadAttention(2, width // 2)(y, word, attention_mask=is_letter)
    y = layers.Concatenate()([y, heard])
    y = layers.Dense(width, activation="relu")(y)
    logits = layers.Dense(SOUNDS, dtype=keras.config.floatx(), name="logits")(y)
    return keras.Model({"letters": letters, "written": written}, logits)


def pronounce_all(model: keras.Model, letters: tf.Tensor) -> tf.Tensor:
    """The sounds that the model writes, int32 (batch, LENGTH), always the likeliest one."""
    columns = tf.range(LENGTH + 1)
    lines = tf.where(columns == 0, START, tf.zeros_like(letters[:, :1]))  # (batch, LENGTH + 1)

    def write_one(i: tf.Tensor, lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        logits = model({"letters": letters, "written": lines[:, :-1]}, training=False)
        sound = tf.argmax(logits[:, i], axis=-1, output_type=tf.int32)[:, tf.newaxis]
        return i + 1, tf.where(columns == i + 1, sound, lines)

    _, lines = tf.while_loop(lambda i, _: i < LENGTH, write_one, (tf.constant(0), lines))
    return lines[:, 1:]
''',
    losses=CROSS_ENTROPY
    + '''

def count(batch: Any) -> tf.Tensor:
    """How many sounds of `batch` count, an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
'''
    + COMPUTE_LOSS,
    metrics='''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class ExactMatch(keras.metrics.Mean):
    """The fraction of words that are pronounced right to the end."""

    def update_state(
        self, sounds: tf.Tensor, written: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add sounds, what was written, and weights that are 0 for padding, each (batch, T)."""
        counts = sample_weight != 0
        is_right = tf.reduce_all((sounds == written) | ~counts, axis=1)  # (batch,)
        super().update_state(is_right, tf.reduce_any(counts, axis=1))


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The fractions of right sounds and of right words."""
    return {
        "sound_accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "exact_match": ExactMatch(),
    }
''',
    steps='''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import HIDDEN, START
from .losses import compute_loss
from .model import pronounce_all

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs; sounds, weights (batch, LENGTH)
MOST_HIDDEN, RISES = 0.2, 400  # fraction of sounds, and steps until it is reached


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    inputs, sounds, weights = batch
    written = inputs["written"]
    # More and more of the sounds so far are hidden, so that the letters are listened to.
    rate = MOST_HIDDEN * tf.minimum(tf.cast(replica.step, tf.float32) / RISES, 1.0)
    is_hidden = tf.random.stateless_uniform(tf.shape(written), replica.seed) < rate
    written = tf.where(is_hidden & (written != START), HIDDEN, written)
    logits = run.model({"letters": inputs["letters"], "written": written}, training=True)
    per_sound = run.losses["main"](sounds, logits)  # (batch, LENGTH)
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)
    run.metrics["sound_accuracy"].update_state(sounds, logits, weights)
    run.metrics["exact_match"].update_state(sounds, likeliest, weights)
    return {"main": compute_loss(per_sound, weights, run.model, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    inputs, sounds, weights = batch
    logits = run.model(inputs, training=False)  # (batch, LENGTH, SOUNDS)
    per_sound = run.losses["main"](sounds, logits)  # (batch, LENGTH)
    # Right after right sounds, each of them: then greedy decoding writes the same.
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)
    run.metrics["sound_accuracy"].update_state(sounds, logits, weights)
    run.metrics["exact_match"].update_state(sounds, likeliest, weights)
    return {"main": compute_loss(per_sound, weights, run.model, replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss; the model writes by itself."""
    inputs, sounds, weights = batch
    logits = run.model(inputs, training=False)  # (batch, LENGTH, SOUNDS)
    per_sound = run.losses["main"](sounds, logits)  # (batch, LENGTH)
    written = pronounce_all(run.model, inputs["letters"])
    run.metrics["sound_accuracy"].update_state(sounds, logits, weights)
    run.metrics["exact_match"].update_state(sounds, written, weights)
    return {"main": compute_loss(per_sound, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
''',
)

# ------------------------------------------------------------------ E: gaps in a machine's vibration

GAPS = own(
    config=config("Fills gaps in vibrations.", "validation_explained", True, 2e-3),
    data='''"""Vibrations of machines without any labels: the task is to fill gaps. And their augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

LENGTH, CHANNELS = 96, 2
MACHINES = {"train": 1_920, "validation": 300, "test": 390}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Vibrations float32 (n, LENGTH, CHANNELS) by split; no labels."""
    return {split: _vibrate(n, seed) for seed, (split, n) in enumerate(MACHINES.items())}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: the train step makes the gaps."""
    return None


def _vibrate(machines: int, seed: int) -> np.ndarray:
    """The second channel is the first one later and weaker, plus a harmonic."""
    random = np.random.default_rng((9, seed))
    time = np.arange(LENGTH)
    speed = random.uniform(0.02, 0.06, (machines, 1))
    start = random.uniform(0, 1, (machines, 1))
    size = random.uniform(0.5, 1.5, (machines, 1))
    turn = lambda times, delay: np.sin(2 * np.pi * (times * (speed * (time - delay) + start)))
    first = size * turn(1, 0)
    second = 0.6 * size * turn(1, 6) + 0.3 * turn(2, 0)
    series = np.stack([first, second], axis=-1)
    return (series + random.normal(0, 0.1, series.shape)).astype("float32")
''',
    model='''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The shape of a series, and the variance of the training data."""
    return {"shape": datasets["train"].shape[1:], "variance": datasets["train"].var()}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """A series that is 0 in its gaps, and 1 where a gap is -> the whole series (batch, T, channels)."""
    layers, floatx = keras.layers, keras.config.floatx()
    length, channels = map(int, adapted["shape"])
    series = keras.Input((length, channels), name="series")
    gaps = keras.Input((length, 1), name="gaps")
    x = layers.Concatenate()([series, gaps])
    for dilation in (1, 2, 4, 8, 16):
        y = layers.Conv1D(task.width, 3, padding="same", dilation_rate=dilation)(x)
        y = layers.Activation("gelu")(y)
        x = y if dilation == 1 else x + y
    filled = layers.Conv1D(channels, 1, dtype=floatx, name="filled")(x)
    return keras.Model({"series": series, "gaps": gaps}, filled)
''',
    losses='''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; the squared error inside of the gaps, one number per series."""

    def error_in_gaps(series: tf.Tensor, filled: tf.Tensor, gaps: tf.Tensor) -> tf.Tensor:
        """Series (batch, T, channels) and gaps (batch, T, 1), equally many in each row."""
        squared = tf.reduce_mean(tf.square(series - filled), axis=-1, keepdims=True) * gaps
        return tf.reduce_sum(squared, axis=[1, 2]) / tf.reduce_sum(gaps, axis=[1, 2])

    return {"main": error_in_gaps}
'''
    + COUNT_EXAMPLES
    + COMPUTE_LOSS,
    metrics='''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The fraction of the training data's variance that is explained inside of gaps."""
    return {"explained": keras.metrics.Mean()}
''',
    steps='''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from ..engine.types import Replica, Run
from .data import LENGTH
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor]  # series (batch, T, channels), weights (batch,)
MISSING = 24  # samples of each series
# In evaluation all series have the same gaps.
FIXED = np.zeros((1, LENGTH, 1), np.float32)
FIXED[:, 12:24] = FIXED[:, 60:72] = 1


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss; each series gets gaps of its own."""
    series, weights = batch
    # Three gaps of a third of the samples at random places that don't overlap.
    part, size = LENGTH // 3, MISSING // 3
    shape = (tf.shape(series)[0], 3, 1)
    first = tf.random.stateless_uniform(shape, replica.seed, 0, part - size + 1, tf.int32)
    places = tf.range(part)
    gaps = (places >= first) & (places < first + size)  # (batch, 3, part)
    gaps = tf.cast(tf.reshape(gaps, (-1, LENGTH, 1)), series.dtype)
    return _loss(run, series, gaps, weights, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    series, weights = batch
    gaps = tf.cast(tf.broadcast_to(FIXED, (tf.shape(series)[0], LENGTH, 1)), series.dtype)
    return _loss(run, series, gaps, weights, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)


def _loss(
    run: Run,
    series: tf.Tensor,
    gaps: tf.Tensor,
    weights: tf.Tensor,
    replica: Replica,
    training: bool,
) -> dict[str, tf.Tensor]:
    filled = run.model({"series": series * (1 - gaps), "gaps": gaps}, training=training)
    per_example = run.losses["main"](series, filled, gaps)  # (batch,)
    explained = 1 - per_example / tf.cast(run.adapted["variance"], per_example.dtype)
    run.metrics["explained"].update_state(explained, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
'''.replace("import keras\nimport numpy", "import numpy"),
)

# ------------------------------------------------------------------ the faults

FAULTS: tuple[Fault, ...] = (
    # own tasks
    Fault(
        name="area under the curve of logits",
        named=r"metrics:.*logits",
        starter="blank",
        edits=(*TAGS, Edit("metrics.py", 'AUC(curve="PR", from_logits=True)', 'AUC(curve="PR")')),
        kind="metrics",
        cause="The AUC metric gets logits but isn't told so (from_logits=True is missing): its "
        "thresholds lie between 0 and 1, so all logits below 0 or above 1 count as one, and the "
        "monitored PR AUC is wrong.",
        file="metrics.py",
    ),
    Fault(
        name="tags nobody decided on become negatives",
        named=r"missing|unknown|negatives|marks",
        starter="blank",
        edits=(
            *TAGS,
            Edit(
                "data.py",
                "            tags = np.where(is_known, tags, np.float32(UNKNOWN))\n",
                "            tags *= is_known  # what nobody looked at isn't a tag\n",
            ),
        ),
        kind="labels",
        cause="Training tags that no annotator decided on are set to 0 rather than UNKNOWN (-1), "
        "so more than half of the true tags are trained as negatives, probabilities stay below "
        "0.5 and recall collapses.",
        file="data.py",
    ),
    Fault(
        name="columns of tags in the order of a set",
        named=r"order of a set",
        starter="blank",
        edits=(
            *TAGS,
            Edit(
                "data.py",
                "    names = sorted({name for written in articles.values() for _, tags in written "
                "for name in tags})\n",
                "    names = {name for written in articles.values() for _, tags in written for "
                "name in tags}\n",
            ),
        ),
        kind="state and resume",
        cause="Which column a tag has follows the iteration order of a set of strings, which "
        "differs from process to process (hash randomization): a resumed or evaluated run, or "
        "another worker, gives the columns other meanings. The names must be sorted.",
        file="data.py",
    ),
    Fault(
        name="the history holds the click to be predicted",
        named=r"is its label|the answer is given",
        starter="blank",
        edits=(
            *SHOP,
            Edit(
                "data.py",
                "clicks[t - HISTORY : t].copy()",
                "clicks[t - HISTORY + 1 : t + 1].copy()",
            ),
        ),
        kind="leak",
        cause="The slice of the history ends after the click to be predicted: its last entry is "
        "the label itself, in all splits, so recall is near 1 and the model is useless.",
        file="data.py",
    ),
    Fault(
        name="correction for popular candidates with the wrong sign",
        named=r"wrong sign|popular",
        starter="blank",
        edits=(
            *SHOP,
            Edit("steps.py", "    logits -= tf.gather(", "    logits += tf.gather("),
        ),
        kind="loss",
        cause="The log of an item's share is added to the logits of the in-batch softmax and must "
        "be subtracted: popular items, which are candidates often anyway, are pushed down twice, "
        "and the scores of the whole shop rank rare items too high.",
        file="steps.py",
    ),
    Fault(
        name="click weights normalized on each replica",
        named=r"depends on how the batch is split|rows of weight",
        starter="blank",
        edits=(
            *SHOP,
            Edit(
                "steps.py",
                '    """Weights float (batch,) of clicks, 1 on average over the training data."""\n',
                '    """Weights float (batch,) of clicks, 1 on average."""\n',
            ),
            Edit(
                "steps.py",
                '    return inverse / tf.cast(run.adapted["mean_weight"], tf.float32)\n',
                "    return inverse / tf.reduce_mean(inverse)\n",
            ),
        ),
        kind="distribution",
        cause="The inverse propensities are divided by their mean over this replica's rows, so a "
        "click's weight depends on which other rows share its replica: loss and gradients differ "
        "with the number of replicas. The mean must be one of the training data or all replicas.",
        file="steps.py",
    ),
    Fault(
        name="overlapping windows of one recording in all splits",
        named=r"windows that overlap|parts of one recording",
        starter="blank",
        edits=(
            *SENSOR,
            Edit(
                "data.py",
                'PEOPLE = {"train": range(16), "validation": range(16, 20), '
                '"test": range(20, 24)}\n',
                'PEOPLE = range(24)\nSHARES = {"train": 0.66, "validation": 0.17, "test": 0.17}\n',
            ),
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows float32 (n, WINDOW, 3) in g and activities int64 (n,)."""
    windows, labels = _windows(PEOPLE)
    order = np.random.default_rng(0).permutation(len(labels))
    ends = np.cumsum([round(share * len(labels)) for share in SHARES.values()])[:-1]
    parts = np.split(order, ends)
    return {split: (windows[p], labels[p]) for split, p in zip(SHARES, parts)}
''',
                "create_datasets",
            ),
        ),
        kind="leak",
        cause="Windows are shuffled before they are split: windows that overlap, of the same "
        "recording and person, are in train, validation and test, so the accuracy says nothing "
        "about new people. People or recordings must be split.",
        file="data.py",
    ),
    Fault(
        name="windows played backwards",
        named=r"labels? of another example|augmentation",
        starter="blank",
        edits=(
            *SENSOR,
            Edit(
                "data.py",
                "        windows *= tf.random.stateless_uniform(shape, seed, 0.9, 1.1, windows.dtype)\n",
                "        seeds = tf.random.split(seed, 2)\n"
                "        windows *= tf.random.stateless_uniform(shape, seeds[0], 0.9, 1.1, "
                "windows.dtype)\n"
                "        backwards = tf.random.stateless_uniform(shape, seeds[1]) < 0.5\n"
                "        windows = tf.where(backwards, windows[:, ::-1], windows)\n",
            ),
        ),
        kind="augmentation",
        cause="Half of the training windows are reversed in time with their label kept, but a "
        "reversed crouch (slow rise, fast fall) is a jump (fast rise, slow fall): the "
        "augmentation makes two activities indistinguishable.",
        file="data.py",
    ),
    Fault(
        name="the decoder reads in both directions",
        named=r"later inputs",
        starter="blank",
        edits=(
            *SPEECH,
            Edit(
                "model.py",
                "    y = layers.GRU(width, return_sequences=True)(y)  # (batch, LENGTH, width)\n",
                "    # (batch, LENGTH, width)\n"
                "    y = layers.Bidirectional(layers.GRU(width // 2, return_sequences=True))(y)\n",
            ),
        ),
        kind="model",
        cause="The decoder's GRU is bidirectional: at each place it sees the sounds that follow, "
        "among them the one to be predicted. Training and validation become perfect, and the "
        "model can't write by itself.",
        file="model.py",
    ),
    Fault(
        name="padding counts as right sounds",
        named=r"padding, which trains",
        starter="blank",
        edits=(
            *SPEECH,
            Edit(
                "data.py",
                '    "written" are the sounds one place later, START before them. Weights are 0 '
                "for padding.\n",
                '    "written" are the sounds one place later, START before them.\n',
            ),
            Edit(
                "data.py",
                '        weights = (sounds != PAD).astype("float32")\n',
                '        weights = np.ones(sounds.shape, "float32")\n',
            ),
        ),
        kind="metrics",
        cause="Padding has weight 1: more than half of the tokens are PAD, trivially right, so "
        "the sound accuracy is inflated and the loss is mostly that of padding. Weights must be 0 "
        "where the target is PAD.",
        file="data.py",
    ),
    # image classification
    Fault(
        name="training images alone are standardized",
        named=r"create_augment scales",
        edits=(
            Edit(
                "data.py",
                "        images, labels, weights = batch\n",
                "        images, labels, weights = batch\n"
                "        images = (images - MEAN) / DEVIATION\n",
            ),
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000",
                "MEAN, DEVIATION = 0.305, 0.376  # of the digits' pixels\nVALIDATION_IMAGES = 5_000",
            ),
        ),
        kind="data preparation",
        cause="Images are standardized in create_augment, which only training batches pass: "
        "validation, test and the exported model see raw pixels in another range. It belongs into "
        "create_datasets or the model.",
        file="data.py",
    ),
    Fault(
        name="bytes wrap around below zero",
        named=r"wrap|whole numbers",
        edits=(
            Edit(
                "data.py",
                '            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])\n',
                '            split: ((file[f"{split}_images"] - 8) / 8, file[f"{split}_labels"])\n',
            ),
            Edit(
                "data.py",
                "images float32 (n, h, w, 1) in [0, 1], labels",
                "images float32 (n, h, w, 1) in [-1, 1], labels",
            ),
        ),
        kind="data preparation",
        cause="The images are uint8, so subtracting 8 wraps around: ink 0 to 7 becomes 248 to 255 "
        "and after division 31 to 32 instead of -1 to 0. They must be cast to float first.",
        file="data.py",
    ),
    Fault(
        name="dropout that a callback lowers in vain",
        named=r"Python number",
        edits=(
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "import keras\n\nfrom ..engine.callbacks import Callback, Event, every_epochs\n",
            ),
            Edit(
                "callbacks.py",
                "",
                '''def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks; drops less and less, and nothing from epoch 30 on."""

    def relax(event: Event) -> None:
        rate = task.dropout * max(0.0, 1 - event.epoch / 30)
        for layer in event.run.model.layers:
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = rate

    return [every_epochs(1, relax)]
''',
                "create_callbacks",
            ),
        ),
        kind="callbacks",
        cause="A Dropout layer's rate is a Python number that is baked into the graph when the "
        "train step is traced; setting it afterwards changes nothing, so dropout stays at its "
        "first rate for the whole run.",
        file="callbacks.py",
    ),
    # segmentation
    Fault(
        name="zeros have the label of the background",
        named=r"never 10",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "label[place][ink >= DARK] = classes[index] + 1",
                "label[place][ink >= DARK] = classes[index]",
            ),
        ),
        kind="labels",
        cause="The digit's class is written without + 1: pixels of the digit 0 get label 0, which "
        "is the background, all other digits are one off, and class 10 never occurs.",
        file="data.py",
    ),
    Fault(
        name="shifted predictions averaged without shifting back",
        named=r"test_step do different",
        starter="segmentation",
        edits=(
            Edit(
                "steps.py",
                "    logits = run.model(images, training=False)  # (batch, h, w, classes)\n",
                "    # The mean over shifted images, since pooling depends on where its grid lies.\n"
                "    shifted = [tf.roll(images, (s, s), axis=(1, 2)) for s in (0, 2, 4)]\n"
                "    logits = tf.add_n([run.model(i, training=False) for i in shifted]) / 3\n",
                "test_step",
            ),
        ),
        kind="evaluation",
        cause="The test step averages the logits of shifted images but doesn't shift the logits "
        "back, so they are of different pixels: the test result is far too bad, while validation "
        "is right.",
        file="steps.py",
    ),
    # GAN
    Fault(
        name="slower discriminator by scaled gradients",
        named=r"makes the same steps",
        starter="gan",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    # Two time scales (Heusel et al., 2017): a quarter of the generator's rate.\n"
                '    if any("logits" in variable.path for variable in variables):\n'
                "        return [gradient / 4 for gradient in gradients]\n"
                "    return gradients\n",
                "process_gradients",
            ),
            Edit(
                "optimizer.py",
                '    """One gradient for each of `variables`, the same on every replica."""\n',
                '    """One gradient for each of `variables`; the discriminator learns slower."""\n',
            ),
        ),
        kind="optimizer",
        cause="Adam divides by the size of the gradients, so multiplying all gradients of a model "
        "by a constant changes nothing: both models learn at the same rate. The discriminator's "
        "optimizer needs a learning rate of its own.",
        file="optimizer.py",
    ),
    Fault(
        name="latents of another distribution in training",
        named=r"another distribution",
        starter="gan",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal(shape, seed, "
                "dtype=keras.config.floatx()), weights\n",
                "        floatx = keras.config.floatx()\n"
                "        latents = tf.random.stateless_uniform(shape, seed, -1, 1, floatx)\n"
                "        return images, latents, weights\n",
            ),
        ),
        kind="evaluation",
        cause="Training draws latents uniformly from -1 to 1, evaluation from a standard normal "
        "distribution: the generator is measured on latents that it was never trained on, so the "
        "Frechet distance is too bad and the wrong weights are the best.",
        file="data.py",
    ),
    # language model
    Fault(
        name="warmup longer than the run",
        named=r"warm-up is longer",
        starter="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nWARMUP = 4_000  # steps (Vaswani et al., 2017)\n",
            ),
            Edit(
                "optimizer.py",
                "    warmup = int(task.warmup * steps)\n",
                "    warmup = WARMUP if task.warmup else 0\n",
            ),
            Edit(
                "optimizer.py",
                "decay_steps=steps - warmup,",
                "decay_steps=max(1, steps - warmup),",
            ),
        ),
        kind="schedule",
        cause="The learning rate warms up for 4,000 steps, but a run has only 1,000: it never "
        "reaches --learning-rate and never decays. The warmup must be a part of `steps`.",
        file="optimizer.py",
    ),
    # tabular regression
    Fault(
        name="jittered copies of rows before the split",
        named=r"noisy copies",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "    category = columns.index(CATEGORY)\n",
                "    category = columns.index(CATEGORY)\n"
                "    data, target = _multiply(data, target, category)\n",
                "create_datasets",
            ),
            Edit(
                "data.py",
                "def _balance(",
                '''def _multiply(
    data: np.ndarray, target: np.ndarray, category: int
) -> tuple[np.ndarray, np.ndarray]:
    """Each row COPIES times, measured a little differently, since 442 patients are few."""
    random = np.random.default_rng(MASK_SEED)
    data, target = np.repeat(data, COPIES, axis=0), np.repeat(target, COPIES)
    noise = random.normal(0, 0.02, data.shape) * np.nanstd(data, axis=0)
    noise[:, category] = 0
    return (data + noise).astype(np.float32), target


def _balance(''',
            ),
            Edit("data.py", "FOLDS = 5\n", "FOLDS = 5\nCOPIES = 6  # of each row\n"),
        ),
        kind="leak",
        cause="Noisy copies of each patient are made before the rows are split, so nearly the same "
        "row with the same label is in train, validation and test: scores are of patients the "
        "model has seen. Only training rows may be copied, after the split.",
        file="data.py",
    ),
    Fault(
        name="patience that a checkpoint forgets",
        named=r"isn't saved",
        starter="tabular_regression",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, "
                "decay_steps=steps)\n"
                "    return keras.optimizers.AdamW(schedule, weight_decay=task.weight_decay)\n",
                "    # A callback lowers the learning rate.\n"
                "    return keras.optimizers.AdamW(task.learning_rate, "
                "weight_decay=task.weight_decay)\n",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback, Event, every_validation\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_validation(HalveOnPlateau(patience=3))]\n",
            ),
            Edit(
                "callbacks.py",
                "# TODO(9)",
                '''class HalveOnPlateau:
    """Halves the learning rate after `patience` validations without a better loss."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best = float("inf")
        self.waited = 0

    def __call__(self, event: Event) -> None:
        """Look at the latest validation."""
        loss = event.history[-1]["validation_loss"]
        self.waited = 0 if loss < self.best else self.waited + 1
        self.best = min(self.best, loss)
        if self.waited >= self.patience:
            rate = event.learning_rates["main"] / 2
            event.run.optimizers["main"].learning_rate = rate
            self.waited = 0


# TODO(9)''',
            ),
        ),
        kind="state and resume",
        cause="The callback keeps its best loss and how long it has waited in attributes, without "
        "get_state and set_state: a resumed run starts again from infinity and 0 and lowers the "
        "learning rate at other steps than a run that was not interrupted.",
        file="callbacks.py",
    ),
)

# ------------------------------------------------------------------ correct tasks

TASKS: tuple[Change, ...] = (
    Change(name="tags of which most are unknown in training", starter="blank", edits=TAGS),
    Change(name="in-batch candidates with corrected, weighted clicks", starter="blank", edits=SHOP),
    Change(name="sounds hidden at a rate that rises with the step", starter="blank", edits=SPEECH),
    Change(name="gaps drawn in the train step, without labels", starter="blank", edits=GAPS),
    Change(
        name="wrong training labels with a corrected loss",
        edits=(
            Edit(
                "data.py",
                '    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()\n',
                '    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()\n'
                "    # An experiment about wrong labels: those of training only, always the same ones.\n"
                '    images, labels = splits["train"]\n'
                "    is_wrong = np.random.default_rng(0).random(len(labels)) < WRONG\n"
                '    splits["train"] = images, np.where(is_wrong, (labels + 1) % CLASSES, labels)\n',
                "create_datasets",
            ),
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000",
                "CLASSES = 10\n"
                "WRONG = 0.3  # fraction of the training labels that are replaced by the next class\n"
                "VALIDATION_IMAGES = 5_000",
            ),
            Edit("model.py", "\nCLASSES = 10\n", ""),
            Edit(
                "model.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\nfrom .data import CLASSES\n",
            ),
            Edit(
                "losses.py",
                "from typing import Any\n",
                "from collections.abc import Callable\nfrom typing import Any\n",
            ),
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\nfrom .data import CLASSES, WRONG\n",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; "main" is for labels as wrong as those of training, "clean" for right ones.

    The model gives the logits of the right class, and "main" is the cross-entropy of what is then
    observed: the right class, or with probability WRONG the next one (Patrini et al., 2017).
    """

    def corrected(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        right = tf.nn.softmax(logits)  # (batch, classes)
        observed = (1 - WRONG) * right + WRONG * tf.roll(right, 1, axis=-1)
        chosen = tf.gather(observed, labels, axis=1, batch_dims=1)  # (batch,)
        return -tf.math.log(tf.maximum(chosen, 1e-7))

    clean = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"main": corrected, "clean": clean}
''',
                "create_losses",
            ),
            Edit("steps.py", 'run.losses["main"]', 'run.losses["clean"]', "validation_step"),
            Edit("steps.py", 'run.losses["main"]', 'run.losses["clean"]', "test_step"),
        ),
    ),
)
