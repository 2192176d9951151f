"""Correct tasks of a fourteenth examiner, of sixteen kinds; blind to `check`."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit

FAULTS = ()

# ------------------------------------------------------------------ what the tasks in `blank` share

FUTURE = "from __future__ import annotations\n\n"

CALLBACKS = blank.CALLBACKS

PICTURES = blank.PICTURES

DATA_HEAD = '''"""The examples of each split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

'''

NO_AUGMENT = blank.NO_AUGMENT

MODEL_HEAD = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
'''

NO_ADAPT = '''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: the scales of the data are known."""
    return {}
'''

LOSSES_HEAD = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
'''

COUNT = "\n\n" + blank.COUNT

METRICS_HEAD = '''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig

'''

STEPS_HEAD = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[Any, ...]

'''

STEPS_TAIL = blank.THREE_STEPS + blank.STEPS_END


def config_file(
    title: str,
    fields: str,
    positive: tuple[str, ...],
    monitor: str = "validation_loss",
    larger: bool = False,
) -> str:
    """config.py, whose fields `positive` must be so."""
    return f'''"""The flags of the task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{title}"""

{fields}    monitor: str = "{monitor}"  # column of history.csv that selects the best weights
    larger_is_better: bool = {larger}  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in {positive!r}:
            if not getattr(self, name) > 0:
                flag = f"--{{name.replace('_', '-')}}"
                raise ValueError(f"{{flag}} is {{getattr(self, name)}}; it must be more than 0.")
'''


def optimizer_file(body: str) -> str:
    """optimizer.py, whose function has this body."""
    return f'''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """An optimizer that doesn't clip.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
{body}

def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, as they are."""
    return gradients
'''


def task(
    name: str,
    *,
    config: str,
    data: str,
    model: str,
    losses: str,
    metrics: str,
    optimizer: str,
    steps: str,
    flags: tuple[str, ...] = (),
) -> Change:
    """A task of its own: each file of a blank project filled in."""
    files = {
        "config.py": config,
        "data.py": data,
        "model.py": model,
        "losses.py": LOSSES_HEAD + losses + blank.COMPUTE_LOSS,
        "metrics.py": METRICS_HEAD + metrics,
        "optimizer.py": optimizer_file(optimizer),
        "steps.py": steps,
        "callbacks.py": CALLBACKS,
        "pictures.py": PICTURES,
    }
    edits = tuple(Edit(file, "", text) for file, text in files.items())
    return Change(name=name, starter="blank", edits=edits, flags=flags)


# --------------------------------------- 1: an inverse problem, physics-informed, second derivatives

HEAT = task(
    "the diffusivity of a heat equation",
    config=config_file(
        "Temperature of a rod, and how fast it conducts heat, from noisy measurements.",
        """    learning_rate: float = 4e-3  # learning rate at the start; decays to 0 along a cosine
    width: int = 32  # units of each hidden layer
    physics: float = 0.02  # weight of the squared residual of the heat equation
""",
        ("learning_rate", "width", "physics"),
    ),
    data=DATA_HEAD
    + '''
POINTS = {"train": 1_920, "validation": 384, "test": 480}
DIFFUSIVITY = 0.1  # of the simulated rod; the model must find it
NOISE = 0.02  # standard deviation of a measurement


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points (x, t) float32 (n, 2) in the unit square, measured temperatures float32 (n, 1)."""
    return {split: _measure(n, seed) for seed, (split, n) in enumerate(POINTS.items())}


def _measure(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x, t = random.uniform(size=(2, n))
    decay = np.exp(-DIFFUSIVITY * np.pi**2 * t)
    u = np.sin(np.pi * x) * decay + 0.5 * np.sin(2 * np.pi * x) * decay**4
    u += NOISE * random.standard_normal(n)
    return np.stack([x, t], axis=1).astype("float32"), u[:, np.newaxis].astype("float32")
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + '''

@keras.saving.register_keras_serializable("heat")
class Diffusivity(keras.layers.Layer):
    """One positive number that is learned, for each row (batch, 1)."""

    def build(self, shape: Any) -> None:
        """Start at three times the simulated value."""
        start = keras.initializers.Constant(float(np.log(0.3)))
        self.log_value = self.add_weight(shape=(), initializer=start, name="log_value")

    def call(self, u: Any) -> Any:
        """Temperatures (batch, 1), of which only the shape matters."""
        return keras.ops.ones_like(u) * keras.ops.exp(self.log_value)
'''
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Points float (batch, 2) -> temperature and diffusivity, float32 (batch, 2)."""
    layers, floatx = keras.layers, keras.config.floatx()
    points = keras.Input((2,), name="points")
    x = layers.Rescaling(2.0, offset=-1.0)(points)
    for _ in range(3):
        x = layers.Dense(task.width, activation="tanh")(x)  # smooth: it is derived twice
    u = layers.Dense(1, dtype=floatx, name="temperature")(x)
    diffusivity = Diffusivity(dtype=floatx, name="diffusivity")(u)
    return keras.Model(points, layers.Concatenate(dtype=floatx)([u, diffusivity]))
''',
    losses='''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Squared error of measurements and squared residual of the equation, (batch,)."""
    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def of_residual(residual: tf.Tensor) -> tf.Tensor:
        return task.physics * tf.square(residual[:, 0])

    return {"data": squared_error, "physics": of_residual}
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The error of the temperature, and the diffusivity as it is learned (0.1 is right)."""
    return {"mae": keras.metrics.MeanAbsoluteError(), "diffusivity": keras.metrics.Mean()}
''',
    optimizer="""    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
    steps=STEPS_HEAD
    + """
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    points, labels, weights = batch
    with tf.GradientTape() as second:
        second.watch(points)
        with tf.GradientTape() as first:
            first.watch(points)
            outputs = run.model(points, training=training)  # (batch, 2)
            u = outputs[:, :1]
        slopes = first.gradient(u, points)  # (batch, 2): du/dx, du/dt
        u_x = slopes[:, :1]
    u_xx = second.gradient(u_x, points)[:, :1]
    diffusivity = outputs[:, 1:]
    residual = slopes[:, 1:] - diffusivity * u_xx  # (batch, 1)
    per_example = run.losses["data"](labels, u) + run.losses["physics"](residual)
    run.metrics["mae"].update_state(labels, u, weights)
    run.metrics["diffusivity"].update_state(diffusivity[:, 0], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# ------------------------------------------------- 2: a point process; density as loss, ragged rows

EVENTS = task(
    "times of events as a mixture of log-normals",
    config=config_file(
        "When the next event comes, after those so far: a mixture of log-normal intervals.",
        """    learning_rate: float = 4e-3  # learning rate
    width: int = 32  # units of the recurrent layer
    components: int = 3  # of the mixture
""",
        ("learning_rate", "width", "components"),
    ),
    data=DATA_HEAD
    + '''
SEQUENCES = {"train": 960, "validation": 192, "test": 288}
LONGEST, SHORTEST = 40, 12  # intervals of a sequence that are predicted
STAY = 0.9  # probability that the next interval is of the same regime
REGIMES = ((-1.8, 0.5), (1.0, 0.7))  # mean and deviation of the log of hours: bursts and quiet
NOTHING = 1.0  # hours that stand where a sequence has ended; their weight is 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Hours between events (n, T), those that follow (n, T), weights (n, T); float32."""
    return {split: _simulate(n, seed) for seed, (split, n) in enumerate(SEQUENCES.items())}


def _simulate(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, 7])
    regime = random.integers(2, size=n)
    hours = np.zeros((n, LONGEST + 1))
    for i in range(LONGEST + 1):
        mean, deviation = np.array(REGIMES)[regime].T
        hours[:, i] = np.exp(mean + deviation * random.standard_normal(n))
        regime = np.where(random.uniform(size=n) < STAY, regime, 1 - regime)
    length = random.integers(SHORTEST, LONGEST + 1, size=(n, 1))
    hours = np.where(np.arange(LONGEST + 1) <= length, hours, NOTHING).astype("float32")
    weights = (np.arange(LONGEST) < length).astype("float32")
    return hours[:, :-1], hours[:, 1:], weights
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Hours float (batch, T) -> logits, means and raw scales, float32 (batch, T, 3 components)."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    hours = keras.Input((None,), name="hours")
    x = ops.expand_dims(ops.log(ops.maximum(hours, 1e-4)), -1)
    # Causal, and padding comes last: no mask is needed.
    x = layers.GRU(task.width, return_sequences=True)(x)
    x = layers.Dense(3 * task.components, dtype=floatx, name="mixture")(x)
    return keras.Model(hours, x)
''',
    losses='''
LOG_2_PI = 1.8378770664093453


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log density of the next interval, per hour: it may be negative."""

    def negative_log_density(hours: tf.Tensor, mixture: tf.Tensor) -> tf.Tensor:
        """Hours (batch, T), all positive, and what the model gives -> (batch, T)."""
        logits, means, raw = tf.split(mixture, 3, axis=-1)
        scales = 0.05 + tf.nn.softplus(raw)
        log_hours = tf.math.log(hours)
        z = (log_hours[..., tf.newaxis] - means) / scales
        log_normal = -0.5 * tf.square(z) - tf.math.log(scales) - 0.5 * LOG_2_PI
        log_mixture = tf.reduce_logsumexp(tf.nn.log_softmax(logits) + log_normal, axis=-1)
        return log_hours - log_mixture  # the density of hours has a factor 1 / hours

    return {"main": negative_log_density}


def expected_log(mixture: tf.Tensor) -> tf.Tensor:
    """The mean of the log of the interval, (batch, T)."""
    logits, means, _ = tf.split(mixture, 3, axis=-1)
    return tf.reduce_sum(tf.nn.softmax(logits) * means, axis=-1)
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How far the log of an interval is from its expectation."""
    return {"log_error": keras.metrics.Mean()}
''',
    optimizer="    return keras.optimizers.RMSprop(task.learning_rate)\n",
    steps=STEPS_HEAD.replace("import compute_loss", "import compute_loss, expected_log")
    + """
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    hours, following, weights = batch  # each (batch, T)
    # The rows that fill up a last batch hold anything; a log needs positive numbers there too.
    following = tf.where(weights > 0, following, tf.ones_like(following))
    mixture = run.model(hours, training=training)
    per_event = run.losses["main"](following, mixture)  # (batch, T)
    error = tf.abs(tf.math.log(following) - expected_log(mixture))
    run.metrics["log_error"].update_state(error, weights)
    return {"main": compute_loss(per_event, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# --------------------------------------------------------- 3: positive and unlabeled, risk below 0

PU = task(
    "positive and unlabeled examples",
    config=config_file(
        "Classification where only some positives are labeled, and negatives never are.",
        """    learning_rate: float = 0.1  # of SGD with momentum: the gradients of a bounded loss are small
    width: int = 32  # units of the hidden layer
    l2: float = 1e-3  # factor of the squared weights in the loss
""",
        ("learning_rate", "width", "l2"),
    ),
    data=DATA_HEAD
    + '''
LABELED = {"train": 960, "validation": 96, "test": 96}
UNLABELED_PER_LABELED = 6  # in each split
PRIOR = 0.4  # fraction of positives among the unlabeled; known from a survey
FEATURES = 10


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Features float32 (n, 10), labels {"labeled", "truth"} int32 (n,).

    The truth about unlabeled examples is known here because they are simulated; the loss doesn't
    see it, only the accuracy does.
    """
    return {split: _draw(n, seed) for seed, (split, n) in enumerate(LABELED.items())}


def _draw(labeled: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    random = np.random.default_rng([seed, 11])
    unlabeled = UNLABELED_PER_LABELED * labeled
    truth = np.concatenate([np.ones(labeled), random.uniform(size=unlabeled) < PRIOR])
    is_labeled = np.arange(labeled + unlabeled) < labeled
    features = random.standard_normal((len(truth), FEATURES))
    # Positives lie on two sides of the negatives.
    side = np.where(random.uniform(size=len(truth)) < 0.5, -1, 1)
    features[:, 0] += 2.2 * side * truth
    features[:, 1] += 1.2 * truth
    order = random.permutation(len(truth))
    labels = {"labeled": is_labeled[order].astype("int32"), "truth": truth[order].astype("int32")}
    return features[order].astype("float32"), labels
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + "from .data import FEATURES\n"
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Features float (batch, 10) -> logits float32 (batch, 1), positive for positives."""
    layers = keras.layers
    l2 = keras.regularizers.L2(task.l2)
    features = keras.Input((FEATURES,), name="features")
    x = layers.Dense(task.width, activation="relu", kernel_regularizer=l2)(features)
    x = layers.Dense(task.width, activation="relu", kernel_regularizer=l2)(x)
    return keras.Model(features, layers.Dense(1, dtype=keras.config.floatx(), name="logit")(x))
''',
    losses='''from .data import PRIOR, UNLABELED_PER_LABELED


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """An unbiased estimate of the risk (du Plessis et al., 2014); it may be negative."""

    def risk(labeled: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Int (batch,) and float (batch, 1) -> (batch,), whose mean over all examples is the risk.

        With l(z) = sigmoid(-z) it is PRIOR E[l(z) - l(-z) | labeled] + E[l(-z) | unlabeled].
        """
        positive = tf.sigmoid(logits[:, 0])
        share = 1 / (1 + UNLABELED_PER_LABELED)  # of labeled examples
        of_labeled = PRIOR / share * (1 - 2 * positive)
        return tf.where(labeled == 1, of_labeled, positive / (1 - share))

    return {"main": risk}
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Accuracy on the unlabeled, and the fraction of labeled examples that are found."""
    return {
        "accuracy": keras.metrics.BinaryAccuracy(),
        "recall_of_labeled": keras.metrics.BinaryAccuracy(),
    }
''',
    optimizer="""    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
""",
    steps=STEPS_HEAD
    + """
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    features, labels, weights = batch
    logits = run.model(features, training=training)  # (batch, 1)
    per_example = run.losses["main"](labels["labeled"], logits)  # (batch,)
    is_labeled = tf.cast(labels["labeled"], weights.dtype)
    truth, probabilities = labels["truth"][:, tf.newaxis], tf.sigmoid(logits)
    run.metrics["accuracy"].update_state(truth, probabilities, weights * (1 - is_labeled))
    run.metrics["recall_of_labeled"].update_state(truth, probabilities, weights * is_labeled)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# ------------------------------------------------------------------------------------------ 4: CTC

CTC = task(
    "symbols in sound by CTC",
    config=config_file(
        "Symbols that are spoken, without knowing when: connectionist temporal classification.",
        """    learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine
    width: int = 48  # filters of each convolution
""",
        ("learning_rate", "width"),
    ),
    data=DATA_HEAD
    + '''
UTTERANCES = {"train": 1_152, "validation": 192, "test": 288}
SYMBOLS, BANDS = 6, 12  # symbols are 1 to 6; 0 is the blank, and fills up the labels
FRAMES, MOST = 56, 5  # of an utterance, and its symbols at most
NOISE = 0.4


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Energies float32 (n, FRAMES, BANDS) and symbols int32 (n, MOST), 0 after the last."""
    spectra = np.random.default_rng(100).standard_normal((SYMBOLS + 1, BANDS))
    spectra[0] = 0  # silence
    return {
        split: _speak(spectra, n, seed) for seed, (split, n) in enumerate(UTTERANCES.items())
    }


def _speak(spectra: np.ndarray, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, 13])
    spoken, symbols = np.zeros((n, FRAMES), int), np.zeros((n, MOST), "int32")
    for row, written in zip(spoken, symbols, strict=True):
        time = 0
        for i in range(random.integers(2, MOST + 1)):
            written[i] = random.integers(1, SYMBOLS + 1)
            time += random.integers(1, 4)  # silence, between equal symbols too
            frames = random.integers(4, 8)
            row[time : time + frames] = written[i]
            time += frames
    sound = spectra[spoken] + NOISE * random.standard_normal((n, FRAMES, BANDS))
    return sound.astype("float32"), symbols
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + "from .data import BANDS, FRAMES, SYMBOLS\n"
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Energies float (batch, FRAMES, BANDS) -> logits float32 (batch, FRAMES, 1 + SYMBOLS)."""
    layers = keras.layers
    sound = keras.Input((FRAMES, BANDS), name="sound")
    x = layers.Conv1D(task.width, 5, padding="same", activation="relu")(sound)
    x = layers.LayerNormalization()(x)
    x = layers.Conv1D(task.width, 5, padding="same", activation="relu")(x)
    logits = layers.Dense(1 + SYMBOLS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(sound, logits)
''',
    losses='''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log probability of all ways to speak the symbols, one number per utterance."""

    def ctc(symbols: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Int (batch, MOST) and float (batch, FRAMES, 1 + SYMBOLS) -> (batch,)."""
        rows = tf.shape(logits)[0]
        return tf.nn.ctc_loss(
            labels=symbols,
            logits=logits,
            label_length=tf.math.count_nonzero(symbols, axis=1, dtype=tf.int32),
            logit_length=tf.fill((rows,), logits.shape[1]),  # silence at the end is heard, too
            logits_time_major=False,
            blank_index=0,
        )

    return {"main": ctc}
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The fraction of utterances whose symbols are all right."""
    return {"exact_match": keras.metrics.Mean()}
''',
    optimizer="""    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.AdamW(schedule, weight_decay=1e-3)
""",
    steps=STEPS_HEAD
    + '''
def all_right(symbols: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Whether the best path, without repetitions and blanks, is `symbols` (batch, MOST): bool."""
    path = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, FRAMES)
    before = tf.pad(path[:, :-1], [[0, 0], [1, 0]])
    is_new = (path != before) & (path != 0)
    numbers = tf.cumsum(tf.cast(is_new, tf.int32), axis=1)  # of new symbols so far
    place = tf.where(is_new, numbers - 1, -1)
    there = tf.one_hot(place, symbols.shape[1], dtype=tf.int32)  # (batch, FRAMES, MOST)
    written = tf.reduce_sum(there * path[..., tf.newaxis], axis=1)  # (batch, MOST)
    as_many = numbers[:, -1] == tf.math.count_nonzero(symbols, axis=1, dtype=tf.int32)
    return as_many & tf.reduce_all(written == symbols, axis=1)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    sound, symbols, weights = batch
    logits = run.model(sound, training=training)
    per_example = run.losses["main"](symbols, logits)  # (batch,)
    run.metrics["exact_match"].update_state(all_right(symbols, logits), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
'''
    + STEPS_TAIL,
)

# ----------------------------------- 5: two towers of texts; the other rows of the batch are negatives

TOWERS = task(
    "two towers of texts",
    config=config_file(
        "Recommendation: which item a user takes, against the other items of the batch.",
        """    learning_rate: float = 0.1  # of Adagrad, which rare users and items need
    width: int = 16  # numbers that stand for a user or an item
    temperature: float = 0.15  # what similarities from -1 to 1 are divided by
""",
        ("learning_rate", "width", "temperature"),
        monitor="validation_top_10",
        larger=True,
    ),
    data=DATA_HEAD
    + '''
USERS, ITEMS, CATEGORIES, OCCUPATIONS = 288, 160, 8, 6
TAKEN = {"train": 12, "validation": 2, "test": 2}  # different items by each user


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs: texts (n,) by name; "labels": the log of how often the item is taken, float32 (n,).

    Every user is in every split, as those of a shop are, but never with the same item twice. How
    often an item is taken is counted in the training data only.
    """
    random = np.random.default_rng(17)
    occupation = random.integers(OCCUPATIONS, size=USERS)
    category = random.integers(CATEGORIES, size=ITEMS)
    likes = random.standard_normal((OCCUPATIONS, CATEGORIES))
    taste, kind = random.standard_normal((USERS, 4)), random.standard_normal((ITEMS, 4))
    popularity = random.standard_normal(ITEMS)
    scores = 2 * likes[occupation][:, category] + 0.7 * taste @ kind.T + 0.5 * popularity
    scores += random.gumbel(size=scores.shape)
    taken = np.argsort(-scores, axis=1)[:, : sum(TAKEN.values())]  # (users, taken)
    taken = random.permuted(taken, axis=1)
    parts = np.split(taken, np.cumsum(list(TAKEN.values()))[:-1], axis=1)
    counts = 1 + np.bincount(parts[0].ravel(), minlength=ITEMS)
    log_share = np.log(counts / counts.sum()).astype("float32")

    def examples(items: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        user = np.repeat(np.arange(USERS), items.shape[1])
        order = random.permutation(len(user))  # a user's rows are no neighbors
        user, item = user[order], items.ravel()[order]
        inputs = {
            "user": np.array([f"user-{u}" for u in user]),
            "occupation": np.array([f"works as {occupation[u]}" for u in user]),
            "item": np.array([f"item-{i}" for i in item]),
            "category": np.array([f"in category {category[i]}" for i in item]),
        }
        return inputs, log_share[item]

    return {split: examples(items) for split, items in zip(TAKEN, parts, strict=True)}
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + """
BINS = 4_096  # of hashed texts; a few that meet do no harm
"""
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Texts (batch,) by name -> unit vectors of users and items, float32 (batch, 2, width)."""
    layers, floatx = keras.layers, keras.config.floatx()
    names = ("user", "occupation", "item", "category")
    inputs = {name: keras.Input((), dtype="string", name=name) for name in names}

    def tower(*names: str) -> Any:
        vectors = []
        for name in names:
            hashed = layers.Hashing(BINS)(inputs[name])
            vectors.append(layers.Embedding(BINS, task.width)(hashed))
        x = layers.Dense(2 * task.width, activation="relu")(layers.Concatenate()(vectors))
        x = layers.Dense(task.width, dtype=floatx)(x)
        return layers.UnitNormalization(dtype=floatx)(x)  # (batch, width)

    users, items = tower("user", "occupation"), tower("item", "category")
    return keras.Model(inputs, keras.ops.stack([users, items], axis=1))
''',
    losses='''

def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Cross-entropy over the items of the global batch; one number per example."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How often the right item is among the ten best of the global batch."""
    return {"top_10": keras.metrics.SparseTopKCategoricalAccuracy(k=10)}
''',
    optimizer="    return keras.optimizers.Adagrad(task.learning_rate)\n",
    steps=STEPS_HEAD
    + """FORBIDDEN = -1e9  # the logit of an item that is no candidate


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, log_share, weights = batch
    vectors = run.model(inputs, training=training)  # (batch, 2, width)
    users, items = vectors[:, 0], vectors[:, 1]
    ids = tf.strings.to_hash_bucket_fast(inputs["item"], 2**30)  # int64 (batch,)
    all_items = replica.all_gather(items)  # (global batch, width)
    all_ids, all_log_share = replica.all_gather(ids), replica.all_gather(log_share)
    is_there = replica.all_gather(weights) > 0
    logits = tf.matmul(users, all_items, transpose_b=True) / run.task.temperature
    # Frequent items are negatives more often (Yi et al., 2019).
    logits -= all_log_share
    columns = replica.index * ids.shape[0] + tf.range(ids.shape[0])  # each row's own item
    is_own = tf.range(tf.shape(all_ids)[0]) == columns[:, tf.newaxis]
    # The same item in another row is no negative, and padding isn't one either.
    candidates = is_own | ((ids[:, tf.newaxis] != all_ids) & is_there)
    logits = tf.where(candidates, logits, FORBIDDEN)
    per_example = run.losses["main"](columns, logits)  # (batch,)
    run.metrics["top_10"].update_state(columns, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL.replace("EXAMPLES_INTERACT = False", "EXAMPLES_INTERACT = True"),
)

# ------------------------------------------- 6: a normalizing flow that has only seen what is normal

FLOW = task(
    "a normalizing flow of normal examples",
    config=config_file(
        "Anomalies among sensor readings, found by a flow that is trained on normal ones only.",
        """    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine
    width: int = 48  # units of the hidden layer in each coupling
    couplings: int = 6  # couplings of the flow
""",
        ("learning_rate", "width", "couplings"),
    ),
    data=DATA_HEAD
    + '''
NORMAL = {"train": 2_400, "validation": 384, "test": 480}
ANOMALOUS = {"train": 0, "validation": 96, "test": 120}  # nobody has any to train with
SENSORS = 6


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Readings float32 (n, SENSORS), and whether they are anomalous, int32 (n,)."""
    return {split: _read(NORMAL[split], ANOMALOUS[split], i) for i, split in enumerate(NORMAL)}


def _read(normal: int, anomalous: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, 19])
    x = _readings(random, normal)
    # Each sensor by itself shows usual values; they don't belong together.
    wrong = random.permuted(_readings(random, anomalous), axis=0)
    order = random.permutation(normal + anomalous)
    labels = (np.arange(normal + anomalous) >= normal).astype("int32")
    return np.concatenate([x, wrong])[order].astype("float32"), labels[order]


def _readings(random: np.random.Generator, n: int) -> np.ndarray:
    a, b, c = random.standard_normal((3, n))
    columns = [a, 0.7 * a**2 - 0.7, b, np.sin(2 * b), 0.8 * a * b, c + a]
    return np.stack(columns, axis=1) + 0.1 * random.standard_normal((n, SENSORS))
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + '''from .data import SENSORS

ORDER = (3, 0, 4, 1, 5, 2)  # of the columns after each coupling


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of the normal readings."""
    readings, _ = datasets["train"]
    return {"mean": readings.mean(axis=0), "variance": readings.var(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Readings float (batch, SENSORS) -> latents and log determinant, float32 (batch, SENSORS + 1).

    Couplings as in RealNVP (Dinh et al., 2017). The determinant is that of the couplings, so that
    densities are those of standardized readings.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    half = SENSORS // 2
    readings = keras.Input((SENSORS,), name="readings")
    scale = layers.Normalization(mean=adapted["mean"], variance=adapted["variance"], dtype=floatx)
    x = scale(readings)
    log_determinant = ops.zeros_like(x[:, :1])
    for _ in range(task.couplings):
        kept, changed = x[:, :half], x[:, half:]
        hidden = layers.Dense(task.width, activation="swish")(kept)
        # Zeros at first: the flow starts as the identity.
        stretch = layers.Dense(half, "tanh", kernel_initializer="zeros", dtype=floatx)(hidden)
        shift = layers.Dense(half, kernel_initializer="zeros", dtype=floatx)(hidden)
        changed = changed * ops.exp(stretch) + shift
        log_determinant = log_determinant + ops.sum(stretch, axis=-1, keepdims=True)
        x = layers.Concatenate(dtype=floatx)([kept, changed])
        x = ops.take(x, ORDER, axis=1)
    return keras.Model(readings, layers.Concatenate(dtype=floatx)([x, log_determinant]))
''',
    losses='''from .data import SENSORS

LOG_2_PI = 1.8378770664093453


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log density, which needs no labels; it is negative where density is high."""

    def negative_log_density(outputs: tf.Tensor) -> tf.Tensor:
        """What the model gives -> (batch,)."""
        latents, log_determinant = outputs[:, :SENSORS], outputs[:, SENSORS]
        squares = tf.reduce_sum(tf.square(latents), axis=1)
        return 0.5 * (squares + SENSORS * LOG_2_PI) - log_determinant

    return {"main": negative_log_density}


def is_normal(labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weights (batch,), 0 for anomalies: the loss is that of normal readings in each split."""
    return tf.where(labels == 0, weights, tf.zeros_like(weights))


def count(batch: Any) -> tf.Tensor:
    """How many normal readings `batch` has, an int32 scalar."""
    _, labels, weights = batch
    return tf.math.count_nonzero(is_normal(labels, weights), dtype=tf.int32)
''',
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How well anomalies are told apart, in evaluation only; and the latents' mean square.

    Training has no anomalies, so that it has nothing to add to the AUC.
    """
    return {"auc": keras.metrics.AUC(num_thresholds=1_000), "latent_square": keras.metrics.Mean()}
''',
    optimizer="""    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
    steps=STEPS_HEAD.replace("import compute_loss", "import compute_loss, is_normal")
    + """
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    readings, labels, weights = batch
    outputs = run.model(readings, training=training)  # (batch, SENSORS + 1)
    per_example = run.losses["main"](outputs)  # (batch,)
    normal = is_normal(labels, weights)
    squares = tf.reduce_sum(tf.square(outputs[:, :-1]), axis=1)  # (batch,)
    dimensions = outputs.shape[1] - 1
    run.metrics["latent_square"].update_state(squares / dimensions, normal)
    if not training:
        # From 0 to 1, uniform for normal readings: the probability of a smaller square.
        score = tf.math.igamma(tf.fill(tf.shape(squares), dimensions / 2), squares / 2)
        run.metrics["auc"].update_state(labels, score, weights)
    return {"main": compute_loss(per_example, normal, run.model, replica)}
"""
    + STEPS_TAIL,
)

# ---------------------------------------------- 7: forty spectra, one batch an epoch, dead detectors

SPECTRA = task(
    "forty spectra",
    flags=("--global-batch-size", "40", "--epochs", "400", "--validate-every-steps", "20"),
    config=config_file(
        "Moisture from near-infrared spectra, of which there are few: a calibration.",
        """    learning_rate: float = 1e-2  # learning rate at the start; decays to 0 along a cosine
    factors: int = 4  # linear combinations of wavelengths that the prediction is made of
    l2: float = 1e-2  # factor of the squared loadings in the loss
""",
        ("learning_rate", "factors", "l2"),
    ),
    data=DATA_HEAD
    + '''
SAMPLES = {"train": 40, "validation": 24, "test": 40}
WAVELENGTHS = 180
DEAD = (3, 47, 48, 112, 166)  # detectors that always show the same


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Absorbances float32 (n, WAVELENGTHS) and moisture in percent, float32 (n, 1)."""
    return {split: _measure(n, seed) for seed, (split, n) in enumerate(SAMPLES.items())}


def _measure(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([seed, 23])
    wavelength = np.linspace(0, 1, WAVELENGTHS)
    peaks = [(0.35, 0.05), (0.8, 0.08), (0.42, 0.1), (0.6, 0.06), (0.15, 0.09)]
    shapes = np.stack([np.exp(-(((wavelength - p) / w) ** 2) / 2) for p, w in peaks])
    moisture = random.uniform(5, 25, n)
    others = random.uniform(0, 1, (n, 3))  # fat, protein, starch
    amounts = np.column_stack([moisture / 25, 0.6 * moisture / 25, others])
    scatter = random.normal(1, 0.03, (n, 1))
    spectra = scatter * (0.4 + amounts @ shapes) + random.normal(0, 0.03, (n, 1))
    spectra += random.normal(0, 0.005, spectra.shape)
    spectra[:, DEAD] = 4.0
    return spectra.astype("float32"), np.round(moisture, 1).astype("float32")[:, np.newaxis]
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + '''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Means and variances of absorbances and labels in the training data."""
    spectra, labels = datasets["train"]
    variance = spectra.var(axis=0)
    return {
        "mean": spectra.mean(axis=0),
        # A dead detector shows 0 once its mean is taken off; any divisor will do.
        "variance": np.where(variance > 1e-8, variance, 1).astype("float32"),
        "label_mean": labels.mean(axis=0),
        "label_variance": labels.var(axis=0),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Absorbances float (batch, WAVELENGTHS) -> moisture in percent, float32 (batch, 1)."""
    layers, floatx = keras.layers, keras.config.floatx()
    spectra = keras.Input(adapted["mean"].shape, name="spectra")
    mean, variance = adapted["mean"], adapted["variance"]
    x = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(spectra)
    # All linear, as calibrations are; few factors stand for many neighbors that are alike.
    l2 = keras.regularizers.L2(task.l2)
    x = layers.Dense(task.factors, use_bias=False, kernel_regularizer=l2, name="factors")(x)
    x = layers.Dense(1, dtype=floatx)(x)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(mean=mean, variance=variance, invert=True, dtype=floatx)
    return keras.Model(spectra, unscale(x))
''',
    losses='''

def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Squared errors, in squared percent; one number per example."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The root mean square error, in percent of moisture."""
    return {"rmse": keras.metrics.RootMeanSquaredError()}
''',
    optimizer="""    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
    steps=STEPS_HEAD
    + """
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    spectra, labels, weights = batch
    predictions = run.model(spectra, training=training)  # (batch, 1)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["rmse"].update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# ---------------------------------------------- 8: reinforcement from logged steps; a target that lags

LOGGED = task(
    "double Q-learning from logs",
    config=config_file(
        "How to walk to a goal, learned from the logged steps of somebody who walked at random.",
        """    learning_rate: float = 3e-3  # learning rate
    width: int = 64  # units of each hidden layer
    discount: float = 0.8  # of the reward one step later
    target_rate: float = 0.02  # part of the way to the Q network that its target goes in a step
""",
        ("learning_rate", "width", "discount", "target_rate"),
        monitor="validation_nearer",
        larger=True,
    ),
    data=DATA_HEAD
    + '''
STEPS = {"train": 4_800, "validation": 768, "test": 960}
GOAL, NEAR = np.array([0.7, 0.6]), 0.12  # in the unit square; an episode ends so near to it
MOVES = 0.15 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Places float32 (n, 2), and what was done there and what came of it.

    "nearer", float32 (n, 4), says which moves lead nearer to the goal: for the metric only.
    """
    return {split: _log(n, seed) for seed, (split, n) in enumerate(STEPS.items())}


def _distance(places: np.ndarray) -> np.ndarray:
    return np.linalg.norm(places - GOAL, axis=-1)


def _log(n: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    random = np.random.default_rng([seed, 29])
    places = random.uniform(size=(3 * n, 2))
    places = places[_distance(places) > NEAR][:n]
    action = random.integers(len(MOVES), size=n)
    noise = 0.02 * random.standard_normal((n, 2))
    following = np.clip(places + MOVES[action] + noise, 0, 1)
    every = np.clip(places[:, np.newaxis] + MOVES, 0, 1)  # (n, 4, 2)
    return places.astype("float32"), {
        "action": action.astype("int32"),
        "reward": -_distance(following).astype("float32"),
        "next": following.astype("float32"),
        "goes_on": (_distance(following) > NEAR).astype("float32"),
        "nearer": (_distance(every) < _distance(places)[:, np.newaxis]).astype("float32"),
    }
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Places float (batch, 2) -> values of the four moves, float32 (batch, 4).

    The target has no gradient: the train step moves it towards the other. Both start equal.
    """
    target = _create_network(task, "target")
    target.trainable = False
    return {"q": _create_network(task, "q"), "target": target}


def _create_network(task: TaskConfig, name: str) -> keras.Model:
    layers = keras.layers
    initial = [keras.initializers.GlorotUniform(seed=seed) for seed in range(3)]
    places = keras.Input((2,), name="places")
    x = layers.Rescaling(4.0, offset=-2.0)(places)
    for i in range(2):
        x = layers.Dense(task.width, activation="relu", kernel_initializer=initial[i])(x)
    x = layers.Dense(4, kernel_initializer=initial[2], dtype=keras.config.floatx())(x)
    return keras.Model(places, x, name=name)
''',
    losses='''

def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Squared temporal differences (batch, 1), linear from 1 on; one number per step."""
    return {"q": keras.losses.Huber(reduction="none")}
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How often the move of the largest value leads nearer to the goal; and that value."""
    return {"nearer": keras.metrics.Mean(), "value": keras.metrics.Mean()}
''',
    optimizer='    return {"q": keras.optimizers.Adam(task.learning_rate)}\n',
    steps=STEPS_HEAD
    + '''
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    places, log, weights = batch
    q, target = run.models["q"], run.models["target"]
    values = q(places, training=training)  # (batch, 4)
    taken = tf.gather(values, log["action"], axis=1, batch_dims=1)  # (batch,)
    # The network chooses, the target judges (van Hasselt et al., 2016).
    best = tf.argmax(q(log["next"], training=training), axis=1)
    later = tf.gather(target(log["next"], training=False), best, axis=1, batch_dims=1)
    aim = tf.stop_gradient(log["reward"] + run.task.discount * log["goes_on"] * later)
    per_example = run.losses["q"](aim[:, tf.newaxis], taken[:, tf.newaxis])  # (batch,)
    greedy = tf.argmax(values, axis=1)
    nearer = tf.gather(log["nearer"], greedy, axis=1, batch_dims=1)
    run.metrics["nearer"].update_state(nearer, weights)
    run.metrics["value"].update_state(tf.reduce_max(values, axis=1), weights)
    return {"q": compute_loss(per_example, weights, q, replica)}


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss; the target follows a little."""
    losses = _step(run, batch, replica, training=True)
    # Both have the same values on every replica, and so has the result.
    rate = run.task.target_rate / replica.num_microbatches
    q, target = run.models["q"], run.models["target"]
    for ahead, behind in zip(q.weights, target.weights, strict=True):
        now = tf.convert_to_tensor(behind.value)
        behind.assign(now + rate * (tf.stop_gradient(ahead.value) - now))
    return losses


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return _step(run, batch, replica, training=False)


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
)

# ---------------------------------------- 9: learning to learn; a regression inside of the model

META = task(
    "a regression within each example",
    config=config_file(
        "Curves from a few of their points: each example is a regression of its own.",
        """    learning_rate: float = 2e-3  # learning rate
    width: int = 64  # units of each hidden layer
    features: int = 32  # that the regression inside of the model combines
""",
        ("learning_rate", "width", "features"),
    ),
    data=DATA_HEAD
    + '''
CURVES = {"train": 1_440, "validation": 192, "test": 288}
SUPPORT, QUERY = 8, 12  # points of a curve that are given, and others that are asked for
NOISE = 0.05


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs: x and y of the given points, x of the others; labels: y of the others (n, QUERY, 1).

    No curve is in two splits.
    """
    return {split: _draw(n, seed) for seed, (split, n) in enumerate(CURVES.items())}


def _draw(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng([seed, 31])
    amplitude = random.uniform(0.5, 2.0, (n, 1, 1))
    phase = random.uniform(0, 2 * np.pi, (n, 1, 1))
    x = random.uniform(-3, 3, (n, SUPPORT + QUERY, 1))
    y = amplitude * np.sin(x + phase) + NOISE * random.standard_normal(x.shape)
    x, y = x.astype("float32"), y.astype("float32")
    given, asked = np.s_[:, :SUPPORT], np.s_[:, SUPPORT:]
    return {"given_x": x[given], "given_y": y[given], "asked_x": x[asked]}, y[asked]
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + '''from .data import QUERY, SUPPORT


@keras.saving.register_keras_serializable("meta")
class Ridge(keras.layers.Layer):
    """Ridge regression for each example, differentiable in all it gets (Bertinetto et al., 2019).

    Its penalty is learned, too.
    """

    def build(self, given_shape: Any, labels_shape: Any, asked_shape: Any) -> None:
        """One number, the log of the penalty."""
        self.log_penalty = self.add_weight(shape=(), initializer="zeros", name="log_penalty")

    def call(self, given: Any, labels: Any, asked: Any) -> Any:
        """Features (n, s, f), labels (n, s, 1), features (n, q, f) -> predictions (n, q, 1)."""
        ops = keras.ops
        given_t = ops.transpose(given, (0, 2, 1))
        penalty = 1e-3 + ops.exp(self.log_penalty)
        kernel = ops.matmul(given, given_t)  # (n, s, s)
        kernel = kernel + penalty * ops.eye(given.shape[1], dtype=kernel.dtype)
        return ops.matmul(ops.matmul(asked, given_t), ops.solve(kernel, labels))

    def compute_output_shape(self, given_shape: Any, labels_shape: Any, asked_shape: Any) -> Any:
        """(n, q, 1)."""
        return (*asked_shape[:2], 1)
'''
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Given points and x of others, by name -> y of the others, float32 (batch, QUERY, 1)."""
    layers, floatx = keras.layers, keras.config.floatx()
    inputs = {
        "given_x": keras.Input((SUPPORT, 1), name="given_x"),
        "given_y": keras.Input((SUPPORT, 1), name="given_y"),
        "asked_x": keras.Input((QUERY, 1), name="asked_x"),
    }
    network = keras.Sequential(
        [
            keras.Input((None, 1)),
            layers.Dense(task.width, activation="swish"),
            layers.Dense(task.width, activation="swish"),
            layers.Dense(task.features, dtype=floatx),
        ],
        name="features",
    )
    given, asked = network(inputs["given_x"]), network(inputs["asked_x"])
    ridge = Ridge(dtype=floatx, name="ridge")
    return keras.Model(inputs, ridge(given, inputs["given_y"], asked))
''',
    losses='''

def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Squared errors, one number per point: (batch, QUERY)."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
'''
    + COUNT,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The mean absolute error at the points that are asked for."""
    return {"mae": keras.metrics.MeanAbsoluteError()}
''',
    optimizer="    return keras.optimizers.Adam(task.learning_rate)\n",
    steps=STEPS_HEAD
    + """
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, QUERY, 1)
    per_example = tf.reduce_mean(run.losses["main"](labels, predictions), axis=1)  # (batch,)
    run.metrics["mae"].update_state(labels[..., 0], predictions[..., 0], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# ----------------------------------- 10: graphs, most labels missing, tasks weighted by uncertainty

ASSAYS = task(
    "graphs of which most labels are missing",
    config=config_file(
        "Six assays of molecules; of each molecule only some are known.",
        """    learning_rate: float = 3e-3  # learning rate at the start; decays to 0 along a cosine
    width: int = 32  # numbers that stand for an atom
    rounds: int = 3  # in which atoms hear of their neighbors
""",
        ("learning_rate", "width", "rounds"),
        monitor="validation_auc",
        larger=True,
    ),
    data=DATA_HEAD
    + '''
MOLECULES = {"train": 2_400, "validation": 480, "test": 480}
ATOMS, ELEMENTS = 9, 5  # atoms at most; elements are 1 to 5, and 0 is no atom
ASSAYS = 6
KNOWN, UNKNOWN = 0.3, -1  # fraction of the assays that were made; the label of those that weren't


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"atoms": int32 (n, ATOMS), "bonds": float32 (n, ATOMS, ATOMS)}, labels int32 (n, 6).

    A label is 0, 1 or UNKNOWN.
    """
    return {split: _make(n, seed) for seed, (split, n) in enumerate(MOLECULES.items())}


def _make(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng([seed, 37])
    size = random.integers(6, ATOMS + 1, size=(n, 1))
    atoms = random.integers(1, ELEMENTS + 1, size=(n, ATOMS)) * (np.arange(ATOMS) < size)
    bonds = np.zeros((n, ATOMS, ATOMS))
    rows = np.arange(n)
    for atom in range(1, ATOMS):  # a tree: each is bound to one before it
        other = random.integers(atom, size=n)
        bonds[rows, atom, other] = bonds[rows, other, atom] = atom < size[:, 0]

    def bound(a: int, b: int) -> np.ndarray:
        """How often element a is bound to element b."""
        return np.einsum("ni,nij,nj->n", atoms == a, bonds, atoms == b)

    active = np.stack(
        [
            bound(1, 2) > 0,
            bound(3, 4) + bound(3, 5) > 0,
            (atoms == 5).sum(axis=1) >= 2,
            bonds.sum(axis=2).max(axis=1) >= 4,
            bound(1, 1) + bound(2, 2) > 0,
            (bound(4, 5) > 0) & (bound(1, 3) > 0) & ((atoms == 2).sum(axis=1) == 0),  # rare
        ],
        axis=1,
    )
    active ^= random.uniform(size=active.shape) < 0.01  # an assay errs
    known = random.uniform(size=active.shape) < KNOWN
    known[rows, random.integers(ASSAYS, size=n)] = True  # at least one
    inputs = {"atoms": atoms.astype("int32"), "bonds": bonds.astype("float32")}
    return inputs, np.where(known, active, UNKNOWN).astype("int32")
'''
    + NO_AUGMENT,
    model=MODEL_HEAD
    + '''from .data import ASSAYS, ATOMS, ELEMENTS


@keras.saving.register_keras_serializable("assays")
class LogVariance(keras.layers.Layer):
    """A number for each assay that is learned, beside the logits: (n, k) -> (n, k, 2)."""

    def build(self, shape: Any) -> None:
        """Zeros: all assays count the same at first."""
        self.values = self.add_weight(shape=(shape[-1],), initializer="zeros", name="values")

    def call(self, logits: Any) -> Any:
        """Logits (n, k)."""
        values = keras.ops.broadcast_to(self.values, keras.ops.shape(logits))
        return keras.ops.stack([logits, values], axis=-1)

    def compute_output_shape(self, shape: Any) -> Any:
        """(n, k, 2)."""
        return (*shape, 2)
'''
    + NO_ADAPT
    + '''

def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Atoms and bonds by name -> logits and log variances, float32 (batch, ASSAYS, 2)."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    inputs = {
        "atoms": keras.Input((ATOMS,), dtype="int32", name="atoms"),
        "bonds": keras.Input((ATOMS, ATOMS), name="bonds"),
    }
    is_atom = ops.expand_dims(ops.cast(inputs["atoms"] > 0, floatx), -1)  # (batch, ATOMS, 1)
    x = layers.Embedding(1 + ELEMENTS, task.width)(inputs["atoms"])
    for _ in range(task.rounds):
        heard = layers.Dense(task.width)(ops.matmul(inputs["bonds"], x))
        own = layers.Dense(task.width)(x)
        x = x + ops.relu(own + heard)
    whole = ops.sum(x * is_atom, axis=1) / 3.0  # (batch, width); the places without an atom are out
    whole = layers.Dense(2 * task.width, activation="relu")(whole)
    logits = layers.Dense(ASSAYS, dtype=floatx, name="logits")(whole)
    return keras.Model(inputs, LogVariance(dtype=floatx, name="log_variance")(logits))
''',
    losses='''from .data import UNKNOWN


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Cross-entropy of each assay, weighted by its learned uncertainty (Kendall et al., 2018)."""

    def weighted(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Int (batch, ASSAYS) and float (batch, ASSAYS, 2) -> (batch, ASSAYS)."""
        logits, log_variances = outputs[..., 0], outputs[..., 1]
        labels = tf.cast(tf.maximum(labels, 0), logits.dtype)  # the unknown ones get weight 0
        cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        return tf.exp(-log_variances) * cross_entropy + log_variances / 2

    return {"main": weighted}


def known(labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weights of examples (batch,) for each of their assays (batch, ASSAYS), 0 if unknown."""
    return tf.where(labels == UNKNOWN, tf.zeros_like(weights)[:, tf.newaxis], weights[:, tf.newaxis])


def count(batch: Any) -> tf.Tensor:
    """How many known assays `batch` has, an int32 scalar."""
    _, labels, weights = batch
    return tf.math.count_nonzero(known(labels, weights), dtype=tf.int32)
''',
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Area under the ROC curve and accuracy, over all assays that are known."""
    return {"auc": keras.metrics.AUC(), "accuracy": keras.metrics.Mean()}
''',
    optimizer="""    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Nadam(schedule)
""",
    steps=STEPS_HEAD.replace("import compute_loss", "import compute_loss, known")
    + """
def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    outputs = run.model(inputs, training=training)  # (batch, ASSAYS, 2)
    per_assay = run.losses["main"](labels, outputs)  # (batch, ASSAYS)
    weights = known(labels, weights)  # (batch, ASSAYS)
    active, logits = labels == 1, outputs[..., 0]
    flat = [tf.reshape(t, [-1]) for t in (active, tf.sigmoid(logits), weights)]
    run.metrics["auc"].update_state(*flat)
    run.metrics["accuracy"].update_state(active == (logits > 0), weights)
    return {"main": compute_loss(per_assay, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# --------------------------------------------------------------- 11: sharpness-aware minimization

SAM_STEP = '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of this replica's part of a batch, at the worst weights in the neighborhood.

    Sharpness-aware minimization (Foret et al., 2021): the gradient is that of weights which are
    --rho further up the gradient; the optimizer applies it to the weights where they were.
    """
    images, labels, weights = batch
    variables = run.model.trainable_variables
    values = [tf.convert_to_tensor(variable.value) for variable in variables]
    with tf.GradientTape() as tape:
        tape.watch(values)
        predictions = run.model(images, training=True)  # (batch, classes)
        per_example = run.losses["main"](labels, predictions)  # (batch,)
        loss = compute_loss(per_example, weights, run.model, replica)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    # The same way up on every replica: that of the global batch.
    up = tape.gradient(loss, values)
    up = [tf.reduce_sum(replica.all_gather(g[tf.newaxis]), axis=0) for g in up]
    scale = run.task.rho / (tf.linalg.global_norm(up) + 1e-12)
    for variable, value, gradient in zip(variables, values, up, strict=True):
        variable.assign(value + tf.stop_gradient(scale * gradient))
    per_example = run.losses["main"](labels, run.model(images, training=True))  # (batch,)
    loss = compute_loss(per_example, weights, run.model, replica)
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    return {"main": loss}
'''

SAM = Change(
    name="gradients taken up the loss",
    starter="image_classification",
    edits=(
        Edit(
            "config.py",
            "    monitor: str =",
            "    rho: float = 0.05  # how far up the loss the gradient is taken\n    monitor: str =",
        ),
        Edit("config.py", '("l2", "shift")', '("l2", "shift", "rho")'),
        Edit("steps.py", "", SAM_STEP, "train_step"),
    ),
)

# ------------------------------------- 12: a last layer that is never trained, Lion with a small rate

ETF_LAYER = '''CLASSES = 10
FEATURES, SHARPNESS = 64, 12.0


@keras.saving.register_keras_serializable("simplex")
class SimplexFrame(keras.layers.Layer):
    """Logits from the angles to fixed vectors, one for each class, as far apart as they can be.

    A simplex equiangular tight frame that isn't trained (Yang et al., 2022, arXiv:2203.09081).
    """

    def build(self, shape: Any) -> None:
        """The same frame in each run."""

        def frame(shape: Any, dtype: Any = None) -> Any:
            random = np.random.default_rng(0)
            basis, _ = np.linalg.qr(random.standard_normal(shape))  # (features, classes)
            vectors = basis @ (np.eye(CLASSES) - 1 / CLASSES) * np.sqrt(CLASSES / (CLASSES - 1))
            return keras.ops.cast(vectors, dtype)

        self.frame = self.add_weight(
            shape=(shape[-1], CLASSES), initializer=frame, trainable=False, name="frame"
        )

    def call(self, x: Any) -> Any:
        """Unit vectors (batch, features) -> (batch, classes)."""
        return SHARPNESS * keras.ops.matmul(x, self.frame)

    def compute_output_shape(self, shape: Any) -> Any:
        """(batch, classes)."""
        return (shape[0], CLASSES)
'''

ETF = Change(
    name="a last layer that is a fixed frame",
    starter="image_classification",
    edits=(
        Edit("model.py", "CLASSES = 10\n", ETF_LAYER),
        Edit(
            "model.py",
            '    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)\n',
            "    floatx = keras.config.floatx()\n"
            '    x = layers.Dense(FEATURES, dtype=floatx, name="features")(x)\n'
            "    x = layers.UnitNormalization(dtype=floatx)(x)\n"
            '    logits = SimplexFrame(dtype=floatx, name="logits")(x)\n',
        ),
        Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 3e-4"),
        Edit(
            "optimizer.py",
            "keras.optimizers.Adam(schedule)",
            "keras.optimizers.Lion(schedule, weight_decay=1e-2)",
        ),
    ),
)

# --------------------------------------------------------- 13: segmentation from annotated points

POINTS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int32 (n, h, w).

    In training only some points of each image are annotated, as a person clicks them; all others
    are IGNORED. Validation and test compare with whole masks.
    """
    with np.load(DIGITS) as file:
        datasets = {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
    images, masks = datasets["train"]
    datasets["train"] = images, _click(masks)
    return datasets


def _click(masks: np.ndarray) -> np.ndarray:
    """Masks int32 (n, h, w) -> the same at a few random points of each class, else IGNORED."""
    random = np.random.default_rng(len(CANVASES))
    clicked = np.full_like(masks, IGNORED)
    for mask, points in zip(masks, clicked, strict=True):
        for label in np.unique(mask[mask != IGNORED]):
            places = np.flatnonzero(mask == label)
            number = min(len(places), BACKGROUND_CLICKS if label == 0 else DIGIT_CLICKS)
            points.flat[random.choice(places, number, replace=False)] = label
    return clicked
'''

CLICKS = Change(
    name="masks of a few clicks",
    starter="segmentation",
    edits=(
        Edit("data.py", "", POINTS, "create_datasets"),
        Edit(
            "data.py",
            "FAINT, DARK = 0.375, 0.5",
            "BACKGROUND_CLICKS, DIGIT_CLICKS = 40, 10  # of 1,024 pixels, in training\n"
            "FAINT, DARK = 0.375, 0.5",
        ),
        Edit("config.py", "foreground_weight: float = 2.0", "foreground_weight: float = 1.0"),
    ),
)

# ------------------------------------------- 14: a relativistic GAN with zero-centered penalties

R3_LOSSES = '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name, of pairs of a real and a generated image; one number per pair.

    Relativistic (Jolicoeur-Martineau, 2019), with penalties on the slope at both images (Huang et
    al., 2024, arXiv:2501.05441).
    """

    def discriminator_loss(
        on_real: tf.Tensor, on_generated: tf.Tensor, slopes: tf.Tensor
    ) -> tf.Tensor:
        """Low if the logits are higher on real images than on generated ones, and slopes small."""
        return tf.nn.softplus(on_generated - on_real)[:, 0] + task.penalty / 2 * slopes

    def generator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are higher on generated images than on real ones."""
        return tf.nn.softplus(on_real - on_generated)[:, 0]

    return {"discriminator": discriminator_loss, "generator": generator_loss}
'''

R3_DISCRIMINATOR = '''def discriminator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the discriminator's training loss."""
    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = tf.stop_gradient(generator(latents, training=True))  # (batch, h, w, channels)
    on_real, slopes_at_real = _with_slopes(discriminator, images, training=True)
    on_generated, slopes_at_generated = _with_slopes(discriminator, generated, training=True)
    slopes = slopes_at_real + slopes_at_generated
    per_example = run.losses["discriminator"](on_real, on_generated, slopes)  # (batch,)
    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    # The engine (engine/distributed_steps.py) computes the gradients of this loss, sums them over
    # all replicas, clips them and updates the discriminator.
    return {"discriminator": compute_loss(per_example, weights, discriminator, replica)}


def _with_slopes(
    discriminator: keras.Model, images: tf.Tensor, training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """The logits (batch, 1), and the squared norms of their gradients at the images (batch,)."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        logits = discriminator(images, training=training)
    gradients = tape.gradient(logits, images)  # a row's logit depends on its own image only
    return logits, tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3])
'''

R3_GENERATOR = '''def generator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same for the generator, judged by the discriminator that was just updated."""
    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["generator"](on_real, on_generated)  # (batch,)
    return {"generator": compute_loss(per_example, weights, generator, replica)}
'''

R3_VALIDATION = '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contributions to both validation losses."""
    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=False)  # (batch, h, w, channels)
    on_real, slopes_at_real = _with_slopes(discriminator, images, training=False)
    on_generated, slopes_at_generated = _with_slopes(discriminator, generated, training=False)
    slopes = slopes_at_real + slopes_at_generated
    discriminator_losses = run.losses["discriminator"](on_real, on_generated, slopes)  # (batch,)
    generator_losses = run.losses["generator"](on_real, on_generated)  # (batch,)
    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    return {
        "discriminator": compute_loss(discriminator_losses, weights, discriminator, replica),
        "generator": compute_loss(generator_losses, weights, generator, replica),
    }
'''

R3 = Change(
    name="relativistic adversaries with penalties",
    starter="gan",
    edits=(
        Edit(
            "config.py",
            "    dropout: float = 0.3  #",
            "    penalty: float = 0.3  # factor of the squared slopes of the discriminator\n"
            "    dropout: float = 0.0  #",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:",
            "        if not self.penalty >= 0:\n"
            '            raise ValueError(f"--penalty is {self.penalty}; it must be at least 0.")\n'
            "        if not self.learning_rate > 0:",
        ),
        Edit("losses.py", "", R3_LOSSES, "create_losses"),
        Edit("steps.py", "import tensorflow as tf\n", "import keras\nimport tensorflow as tf\n"),
        Edit("steps.py", "", R3_DISCRIMINATOR, "discriminator_step"),
        Edit("steps.py", "", R3_GENERATOR, "generator_step"),
        Edit("steps.py", "", R3_VALIDATION, "validation_step"),
    ),
)

# -------------------------------- 15: hidden letters in prompts, and gradients that are centralized

HIDE = '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    The batch has the parts that a train step gets, weights last; the seed is int64 (2,), different
    in each step. Some letters of each prompt become "?", digits never do: August can be told
    without its g, and 3 can't be told without the 3. Rarely that leaves two answers, as J?n does.
    Answers stay as they are.
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows, forms, _ = batch[0].shape
        for_form, for_hiding = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        form = tf.random.stateless_uniform((rows,), for_form, 0, forms, tf.int32)
        picked = (tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)
        tokens, targets, weights = picked
        is_prompt = tf.cumsum(tf.cast(tokens == PROMPT_END, tf.int32), axis=1) == 0
        lower = tokens | 32  # of a letter, its small one
        is_letter = (lower >= ord("a")) & (lower <= ord("z"))
        drawn = tf.random.stateless_uniform(tokens.shape, for_hiding) < task.hidden
        tokens = tf.where(is_prompt & is_letter & drawn, HIDDEN, tokens)
        return tokens, targets, weights

    return augment
'''

CENTRALIZE = '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica.

    Those of kernels without their mean over the inputs (Yong et al., 2020, arXiv:2004.01461), in
    which an output's weights keep their sum. Not those of embeddings, where a row is a token.
    """

    def centralized(gradient: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
        if variable.name != "kernel" or len(gradient.shape) != 2:
            return gradient
        return gradient - tf.reduce_mean(gradient, axis=0, keepdims=True)

    return [centralized(g, v) for g, v in zip(gradients, variables, strict=True)]
'''

HIDDEN = Change(
    name="prompts with hidden letters",
    starter="language_model",
    edits=(
        Edit("data.py", "", HIDE, "create_augment"),
        Edit(
            "data.py",
            "ANSWER_LENGTH = len(",
            'HIDDEN = ord("?")  # stands for a letter of a training prompt that is hidden\n'
            "ANSWER_LENGTH = len(",
        ),
        Edit(
            "config.py",
            "    monitor: str =",
            "    hidden: float = 0.05  # fraction of a training prompt's letters that are hidden\n"
            "    monitor: str =",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:",
            "        if not 0 <= self.hidden < 1:\n"
            '            raise ValueError(f"--hidden is {self.hidden}; it must be in [0, 1).")\n'
            "        if not self.learning_rate > 0:",
        ),
        Edit("optimizer.py", "", CENTRALIZE, "process_gradients"),
    ),
)

# ----------------------------------------- 16: regression as a distribution over bins (HL-Gauss)

HISTOGRAM_LOSS = '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Cross-entropy between a label's blurred histogram and the predicted one."""
    edges = tf.constant(EDGES, keras.config.floatx())

    def histogram_loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Float (batch, 1) in units of the data and float (batch, 1 + BINS) -> float (batch,).

        A label is a normal distribution around it, cut into bins (Imani & White, 2018): its
        entropy is the smallest loss there can be, and that isn't 0.
        """
        below = 0.5 * (1 + tf.math.erf((edges - labels) / (BLUR * 2**0.5)))  # (batch, BINS + 1)
        shares = below[:, 1:] - below[:, :-1]
        shares /= tf.reduce_sum(shares, axis=1, keepdims=True)
        return tf.nn.softmax_cross_entropy_with_logits(shares, predictions[:, 1:])

    return {"main": histogram_loss}
'''

EXPECTATION = '''from .data import EDGES


@keras.saving.register_keras_serializable("histogram")
class Expectation(keras.layers.Layer):
    """The mean of a histogram, before its logits: (batch, BINS) -> (batch, 1 + BINS)."""

    def call(self, logits: Any) -> Any:
        """Logits of the bins."""
        ops = keras.ops
        centers = ops.convert_to_tensor((EDGES[1:] + EDGES[:-1]) / 2, dtype=logits.dtype)
        mean = ops.sum(ops.softmax(logits) * centers, axis=-1, keepdims=True)
        return ops.concatenate([mean, logits], axis=-1)
'''

HISTOGRAM = Change(
    name="regression as blurred histograms",
    starter="tabular_regression",
    edits=(
        Edit(
            "data.py",
            "FOLDS = 5\n",
            "FOLDS = 5\nBINS = 20\n"
            'EDGES = np.linspace(0, 400, BINS + 1, dtype="float32")  # points; labels lie within\n',
        ),
        Edit("losses.py", "", HISTOGRAM_LOSS, "create_losses"),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n\n"
            "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n",
            "from .config import TaskConfig\nfrom .data import EDGES\n\n"
            "BLUR = 20.0  # points, the standard deviation around a label\n",
        ),
        Edit("losses.py", "the squared error of standardized labels.", "of histograms."),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n" + EXPECTATION,
        ),
        Edit(
            "model.py",
            '    inputs, labels, _ = datasets["train"]',
            '    inputs, *_ = datasets["train"]',
        ),
        Edit(
            "model.py",
            '        "label_mean": labels.mean(axis=0),\n'
            '        "label_variance": labels.var(axis=0),\n',
            "",
        ),
        Edit(
            "model.py",
            "-> float32 (batch, 1).",
            "-> mean and logits, float32 (batch, 1 + BINS).",
        ),
        Edit(
            "model.py",
            "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n"
            '    mean, variance = adapted["label_mean"], adapted["label_variance"]\n'
            "    unscale = layers.Normalization(\n"
            '        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"\n'
            "    )\n"
            "    return keras.Model(inputs, unscale(x))\n",
            "    bins = len(EDGES) - 1\n"
            "    logits = layers.Dense(bins, dtype=floatx)(layers.Concatenate()([x, hidden]))\n"
            '    return keras.Model(inputs, Expectation(dtype=floatx, name="prediction")(logits))\n',
        ),
        Edit(
            "steps.py",
            "update_state(labels, predictions, weights)",
            "update_state(labels, predictions[:, :1], weights)",
            "*",
        ),
        Edit("steps.py", "# (batch, 1)\n", "# (batch, 1 + BINS)\n", "*"),
    ),
)

TASKS: tuple[Change, ...] = (
    HEAT,
    EVENTS,
    PU,
    CTC,
    TOWERS,
    FLOW,
    SPECTRA,
    LOGGED,
    META,
    ASSAYS,
    SAM,
    ETF,
    CLICKS,
    R3,
    HIDDEN,
    HISTOGRAM,
)
