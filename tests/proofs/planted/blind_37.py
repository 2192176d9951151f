"""Correct tasks of an examiner."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import change_of

# --- the blank project -------------------------------------------------------------------------

_HEAD = "from __future__ import annotations\n"
_IMPORT = "from .next_todo import TodoError\n"

_OPTIMIZER = '''def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam, its learning rate decayed along a cosine over `steps`."""
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
'''
_PROCESS = '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """As they are."""
    return gradients
'''
_COUNT = '''def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
'''


def _config(title: str, learning_rate: str, monitor: str, larger: bool) -> Edit:
    text = f'''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

{_HEAD}
from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{title}."""

    learning_rate: float = {learning_rate}  # learning rate at the start; decays to 0 along a cosine
    width: int = 32  # units of the hidden layer
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
    return Edit("config.py", "", text)


def _data(text: str) -> Edit:
    return Edit(
        "data.py",
        "",
        f'''"""The examples of each split, and the augmentation of training batches."""

{_HEAD}
from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig
{text}

def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: batches stay as they are."""
    return None
''',
    )


def _model(text: str) -> Edit:
    return Edit(
        "model.py",
        "",
        f'''"""The model."""

{_HEAD}
from typing import Any

import keras
import numpy as np

from .config import TaskConfig
{text}''',
    )


def _metrics(text: str) -> Edit:
    return Edit(
        "metrics.py",
        "",
        f'''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name."""
    return {text}
''',
        "create_metrics",
    )


def _steps(text: str, imports: str = "compute_loss") -> Edit:
    return Edit(
        "steps.py",
        "",
        f'''"""The train, validation and test step, as one replica computes them."""

{_HEAD}
import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import {imports}

Batch = tuple[tf.Tensor, ...]  # inputs, labels, weights (batch,)


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
{text}    return {{"main": compute_loss(per_example, weights, run.model, replica)}}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
    )


def _losses(text: str) -> tuple[Edit, ...]:
    return (
        Edit("losses.py", _IMPORT, ""),
        Edit("losses.py", "", text, "create_losses"),
        Edit("losses.py", "", _COUNT, "count"),
    )


_REST = (
    Edit("metrics.py", _IMPORT, ""),
    Edit("optimizer.py", _IMPORT, ""),
    Edit("optimizer.py", "", _OPTIMIZER, "create_optimizer"),
    Edit("optimizer.py", "", _PROCESS, "process_gradients"),
    Edit("callbacks.py", _IMPORT, ""),
    Edit(
        "callbacks.py",
        "",
        '''def create_callbacks(task: TaskConfig) -> list[Callback]:
    """No callbacks."""
    return []
''',
        "create_callbacks",
    ),
    Edit("pictures.py", _IMPORT, ""),
    Edit(
        "pictures.py",
        "",
        '''def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
''',
        "draw_samples",
    ),
    Edit(
        "pictures.py",
        "",
        '''def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
''',
        "draw_predictions",
    ),
)

_CLAIMS = change_of(
    name="claim counts of contracts of different lengths",
    project="blank",
    edits=(
        _config("Counts of claims", "5e-3", "validation_deviance", False),
        _data('''
COLUMNS = 6
SPLITS = {"train": 4_800, "validation": 1_200, "test": 1_200}  # contracts


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"contract": (n, COLUMNS), "years": (n, 1)}, labels (n, 1): claims; all float32."""
    random = np.random.default_rng(0)
    datasets = {}
    for split, rows in SPLITS.items():
        x = random.standard_normal((rows, COLUMNS))
        years = random.uniform(0.1, 1, rows)  # how long the contract ran
        rate = np.exp(-1.2 + 0.7 * x[:, 0] - 0.5 * x[:, 1] + 0.5 * np.sin(2 * x[:, 2]))  # a year
        claims = random.poisson(years * rate)
        arrays = {"contract": x, "years": years[:, np.newaxis]}
        inputs = {name: array.astype("float32") for name, array in arrays.items()}
        datasets[split] = inputs, claims[:, np.newaxis].astype("float32")
    return datasets

'''),
        _model('''from .data import COLUMNS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The logarithm of the claims in a year, over all contracts."""
    inputs, claims = datasets["train"]
    return {"log_rate": np.log((claims.sum() + 1) / inputs["years"].sum())}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Contracts -> logarithm of the claims to expect, (batch, 1)."""
    layers, floatx = keras.layers, keras.config.floatx()
    contract = keras.Input((COLUMNS,), name="contract")
    years = keras.Input((1,), name="years")
    x = layers.Dense(task.width, activation="relu")(contract)
    start = keras.initializers.Constant(float(adapted["log_rate"]))
    log_rate = layers.Dense(1, bias_initializer=start, dtype=floatx)(x)
    # Twice as long gives twice as many, so the factor of this logarithm is 1 and isn't learned.
    expected = log_rate + keras.ops.log(years)
    return keras.Model({"contract": contract, "years": years}, expected)
'''),
        *_losses('''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def poisson(claims: tf.Tensor, log_expected: tf.Tensor) -> tf.Tensor:
        """Both (batch, 1) -> (batch,); without log(claims!), which doesn't depend on the model."""
        return tf.squeeze(tf.exp(log_expected) - claims * log_expected, axis=1)

    return {"main": poisson}


def deviance(claims: tf.Tensor, log_expected: tf.Tensor) -> tf.Tensor:
    """Twice the loss above the least that is possible, 0 for a perfect prediction; (batch,)."""
    least = claims - tf.math.xlogy(claims, claims)
    each = tf.exp(log_expected) - claims * log_expected - least
    return 2.0 * tf.squeeze(each, axis=1)
'''),
        _metrics('{"deviance": keras.metrics.Mean()}'),
        _steps(
            '''    """The Poisson likelihood of the claims."""
    inputs, claims, weights = batch
    log_expected = run.model(inputs, training=training)  # (batch, 1)
    per_example = run.losses["main"](claims, log_expected)  # (batch,)
    run.metrics["deviance"].update_state(deviance(claims, log_expected), weights)
''',
            "compute_loss, deviance",
        ),
        *_REST,
    ),
)

_SURVIVAL = change_of(
    name="time to failure with cut off observations",
    project="blank",
    edits=(
        _config("Survival of machines", "3e-3", "validation_auc", True),
        _data('''
COLUMNS, MONTHS = 5, 12
SPLITS = {"train": 2_400, "validation": 600, "test": 600}  # machines


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, COLUMNS), labels int32 (n, 2): last month seen, 1 if it failed then."""
    random = np.random.default_rng(0)
    datasets = {}
    for split, rows in SPLITS.items():
        x = random.standard_normal((rows, COLUMNS))
        score = -2.8 + 1.2 * x[:, 0] - 0.9 * x[:, 1] + 0.6 * x[:, 2] * x[:, 3]
        hazard = 1 / (1 + np.exp(-score[:, np.newaxis] - 0.1 * np.arange(MONTHS)))
        fails = random.random((rows, MONTHS)) < hazard
        failed = np.where(fails.any(axis=1), fails.argmax(axis=1), MONTHS)
        end = random.integers(MONTHS, size=rows)  # observation ends after this month
        labels = np.stack([np.minimum(failed, end), failed <= end], axis=1)
        datasets[split] = x.astype("float32"), labels.astype("int32")
    return datasets

'''),
        _model('''from .data import COLUMNS, MONTHS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: the inputs have mean 0 and variance 1."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Machines (batch, COLUMNS) -> logits (batch, MONTHS) of failing in a month reached."""
    machine = keras.Input((COLUMNS,), name="machine")
    x = keras.layers.Dense(task.width, activation="relu")(machine)
    return keras.Model(machine, keras.layers.Dense(MONTHS, dtype=keras.config.floatx())(x))
'''),
        *_losses('''def months(labels: tf.Tensor, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Whether it was seen, and failed, in each month: 0 or 1, (batch, MONTHS) like logits."""
    last, has_failed = labels[:, :1], labels[:, 1:]  # (batch, 1)
    month = tf.range(logits.shape[1])
    fails = (month == last) & (has_failed == 1)
    return tf.cast(month <= last, logits.dtype), tf.cast(fails, logits.dtype)


def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def likelihood(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Minus the log likelihood of all months in which a machine was seen, (batch,)."""
        seen, fails = months(labels, logits)
        each = tf.nn.sigmoid_cross_entropy_with_logits(fails, logits)
        return tf.reduce_sum(seen * each, axis=1)

    return {"main": likelihood}
'''),
        _metrics('{"auc": keras.metrics.AUC(from_logits=True)}'),
        _steps(
            '''    """The likelihood of the months that were seen."""
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)  # (batch, MONTHS)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    seen, fails = months(labels, logits)
    run.metrics["auc"].update_state(fails, logits, weights[:, tf.newaxis] * seen)
''',
            "compute_loss, months",
        ),
        *_REST,
    ),
)

_RATINGS = change_of(
    name="film ratings of known users",
    project="blank",
    edits=(
        Edit(
            "config.py",
            "",
            _config("Ratings of films", "1e-2", "validation_rmse", False).other.replace(
                "    width: int = 32  # units of the hidden layer\n",
                "    width: int = 6  # length of the vector of a user or film\n"
                "    l2: float = 2e-5  # factor of the squared vectors in the loss\n",
            ),
        ),
        _data('''
USERS, FILMS = 200, 120
SPLITS = {"train": 7_200, "validation": 1_200, "test": 1_200}  # ratings


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"user": int32 (n,), "film": int32 (n,)}, labels float32 (n, 1); no pair twice."""
    random = np.random.default_rng(0)
    tastes, kinds = random.standard_normal((USERS, 3)), random.standard_normal((FILMS, 3))
    mild, good = random.normal(0, 0.4, (USERS, 1)), random.normal(0, 0.5, FILMS)
    ratings = 3 + 0.5 * tastes @ kinds.T + mild + good + random.normal(0, 0.3, (USERS, FILMS))
    ratings = np.clip(ratings, 1, 5).astype("float32")
    pairs = random.permutation(USERS * FILMS)[: sum(SPLITS.values())]
    parts = np.split(pairs, np.cumsum(list(SPLITS.values()))[:-1])
    datasets = {}
    for split, part in zip(SPLITS, parts, strict=True):
        user, film = np.divmod(part, FILMS)
        inputs = {"user": user.astype("int32"), "film": film.astype("int32")}
        datasets[split] = inputs, ratings[user, film][:, np.newaxis]
    return datasets

'''),
        _model('''from .data import FILMS, USERS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The mean rating."""
    _, ratings = datasets["train"]
    return {"mean": ratings.mean()}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Users and films int32 (batch,) -> ratings (batch, 1)."""
    floatx = keras.config.floatx()
    inputs = {n: keras.Input((), dtype="int32", name=n) for n in ("user", "film")}

    def look_up(name: str, rows: int, width: int) -> keras.KerasTensor:
        l2 = keras.regularizers.L2(task.l2)
        table = keras.layers.Embedding(rows, width, embeddings_regularizer=l2, dtype=floatx)
        return table(inputs[name])  # (batch, width)

    sizes = {"user": USERS, "film": FILMS}
    user, film = (look_up(name, rows, task.width) for name, rows in sizes.items())
    mild, good = (look_up(name, rows, 1) for name, rows in sizes.items())
    match = keras.ops.sum(user * film, axis=1, keepdims=True)  # (batch, 1)
    return keras.Model(inputs, match + mild + good + float(adapted["mean"]))
'''),
        *_losses('''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
'''),
        _metrics('{"rmse": keras.metrics.RootMeanSquaredError()}'),
        _steps('''    """The squared error of ratings."""
    inputs, ratings, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, 1)
    per_example = run.losses["main"](ratings, predictions)  # (batch,)
    run.metrics["rmse"].update_state(ratings, predictions, weights)
'''),
        *_REST,
    ),
)

# --- images ------------------------------------------------------------------------------------

_CODES = change_of(
    name="digits as words of fifteen bits",
    project="image_classification",
    edits=(
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels\n",
            """# The word of each class, (classes, bits): any two of them differ in 8 of 15 bits.
CODES = np.array([[(i & j).bit_count() % 2 for j in range(1, 16)] for i in range(1, 11)], "float32")

Arrays = tuple[np.ndarray, np.ndarray]  # images and labels
""",
        ),
        Edit(
            "losses.py",
            "from typing import Any\n",
            "from collections.abc import Callable\nfrom typing import Any\n",
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import CODES\n",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def of_bits(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Classes (batch,) and logits of their bits (batch, bits) -> (batch,)."""
        words = tf.gather(tf.constant(CODES, logits.dtype), labels)  # (batch, bits)
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(words, logits), axis=1)

    return {"main": of_bits}


def scores(logits: tf.Tensor) -> tf.Tensor:
    """Logits of bits (batch, bits) -> log likelihoods of the classes but for a constant."""
    return tf.matmul(logits, tf.constant(CODES, logits.dtype), transpose_b=True)
''',
            "create_losses",
        ),
        Edit("model.py", "CLASSES = 10\n", "BITS = CODES.shape[1]\n"),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import CODES\n",
        ),
        Edit("model.py", "layers.Dense(CLASSES,", "layers.Dense(BITS,"),
        Edit(
            "model.py",
            "-> logits float32 (batch, classes).",
            "-> logits of bits float32 (batch, bits).",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss, scores\n",
        ),
        Edit(
            "steps.py",
            "update_state(labels, predictions, weights)",
            "update_state(labels, scores(predictions), weights)",
            "*",
        ),
        Edit("steps.py", "# (batch, classes)", "# (batch, bits)", "*"),
        Edit(
            "pictures.py",
            "keras.ops.softmax(predict_in_parts(run.model, images))",
            "keras.ops.softmax(predict_in_parts(run.model, images) @ CODES.T)",
        ),
        Edit(
            "pictures.py",
            "from .data import create_augment\n",
            "from .data import CODES, create_augment\n",
        ),
        Edit(
            "predictions.py",
            "tf.nn.softmax(outputs)",
            "tf.nn.softmax(np.asarray(outputs) @ CODES.T)",
        ),
        Edit(
            "predictions.py",
            "from ..engine.errors import UsageError\n",
            "from ..engine.errors import UsageError\nfrom .data import CODES\n",
        ),
    ),
)

_DARK_BRIGHT = change_of(
    name="bright and dark digits",
    project="image_classification",
    edits=(
        Edit(
            "data.py",
            """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }


# TODO(3)""",
            """    arrays = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    for split in ("validation", "test"):  # both kinds; training draws one in each step
        images, labels = arrays[split]
        arrays[split] = np.concatenate([images, 1 - images]), np.concatenate([labels, labels])
    return arrays


# TODO(3)""",
        ),
        Edit(
            "data.py",
            """    if not task.shift:
        return None

    def augment""",
            """
    def augment""",
        ),
        Edit(
            "data.py",
            """        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
""",
            """        rows = images.shape[0]
        to_shift, to_invert = tf.unstack(tf.random.experimental.stateless_split(seed, 2), 2)
        shifts = tf.random.stateless_uniform((rows, 2), to_shift, -task.shift, task.shift)
""",
        ),
        Edit(
            "data.py",
            "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
            """        images = keras.ops.image.affine_transform(images, transforms)
        # After the shift, which fills in black: the frame of an inverted image is white.
        is_dark = tf.random.stateless_uniform((rows, 1, 1, 1), to_invert) < 0.5
        return tf.where(is_dark, 1 - images, images), labels, weights
""",
        ),
    ),
)

_PAIRS = """    similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)
"""

_SIGMOID = change_of(
    name="every pair judged by itself",
    project="contrastive",
    edits=(
        Edit(
            "steps.py",
            "TEMPERATURE = 0.1\n",
            "SCALE, OFFSET = 10.0, 5.0  # a pair belongs together above a similarity of 0.5\n",
        ),
        Edit(
            "steps.py",
            _PAIRS,
            """    similarity = SCALE * tf.matmul(left, candidates, transpose_b=True) - OFFSET
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    is_pair = own[:, tf.newaxis] == tf.range(tf.shape(candidates)[0])
    answers = tf.cast(is_pair, similarity.dtype)
    per_pair = tf.nn.sigmoid_cross_entropy_with_logits(answers, similarity)
    per_example = tf.reduce_sum(tf.where(there, per_pair, 0.0), axis=1)  # (rows,)
""",
            "*",
        ),
    ),
)

_NOISY = change_of(
    name="teacher sees clean images",
    project="distillation",
    edits=(
        Edit(
            "steps.py",
            "TEMPERATURE, HARD = 2.0, 0.5",
            "NOISE = 0.25  # deviation of what is added to a pixel that the student sees\nTEMPERATURE, HARD = 2.0, 0.5",
        ),
        Edit(
            "steps.py",
            "    logits = run.model(images, training=True)  # (batch, classes)\n",
            """    noise = tf.random.stateless_normal(images.shape, replica.seed, dtype=images.dtype)
    logits = run.model(images + NOISE * noise, training=True)  # (batch, classes)
""",
        ),
    ),
)

_LOGITS_OLD = """    hard = run.losses["hard"](labels, logits)  # (batch,)
    soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)
"""

_LOGITS = change_of(
    name="student copies logits without labels",
    project="distillation",
    edits=(
        Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 5e-3"),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name; logits of teacher and student give one number per example."""
    squares = keras.losses.MeanSquaredError(reduction="none")

    def of_logits(taught: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Both (batch, classes) -> (batch,); adding a number to a row's logits changes nothing."""
        taught -= tf.reduce_mean(taught, axis=1, keepdims=True)
        return squares(taught, logits - tf.reduce_mean(logits, axis=1, keepdims=True))

    return {"main": of_logits}
''',
            "create_losses",
        ),
        Edit(
            "steps.py",
            "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
            "",
        ),
        Edit(
            "steps.py",
            _LOGITS_OLD,
            '    per_example = run.losses["main"](taught, logits)  # (batch,)\n',
            "*",
        ),
        Edit(
            "steps.py",
            "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
            "",
            "*",
        ),
    ),
)

_THAW = change_of(
    name="thaw from the last layer to the first",
    project="finetuning",
    edits=(
        Edit(
            "callbacks.py",
            "",
            '''def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Train the last layer alone, then one convolution more after every --frozen-steps steps."""

    def thaw(event: Event, number: int) -> None:
        """Let the last `number` convolutions train, and no others."""
        layers = event.run.model.get_layer("backbone").layers
        convolutions = [layer for layer in layers if isinstance(layer, keras.layers.Conv2D)]
        for i, layer in enumerate(reversed(convolutions)):
            layer.trainable = i < number

    return [
        at_step(number * task.frozen_steps, lambda event, number=number: thaw(event, number))
        for number in range(3)  # the backbone has two convolutions
    ]
''',
            "create_callbacks",
        ),
        Edit(
            "config.py",
            "frozen_steps: int = 7  # steps in which the last layer trains alone",
            "frozen_steps: int = 12  # steps after which one layer more trains, from last to first",
        ),
    ),
)

# --- series, tables ----------------------------------------------------------------------------

_QUANTILES = change_of(
    name="forecast of three quantiles",
    project="forecasting",
    edits=(
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            "PAST, FUTURE = 24, 6  # hours\nQUANTILES = (0.1, 0.5, 0.9)  # that are forecast; the median is in the middle\n",
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
            """    median = layers.Dense(FUTURE, dtype=floatx)(x)
    below = layers.Dense(FUTURE, activation="softplus", dtype=floatx)(x)
    above = layers.Dense(FUTURE, activation="softplus", dtype=floatx)(x)
    x = ops.stack([median - below, median, median + above], axis=2)  # (batch, FUTURE, 3)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
        ),
        Edit(
            "model.py",
            "-> forecast (batch, FUTURE), in units",
            "-> forecast (batch, FUTURE, 3), in units",
        ),
        Edit("steps.py", "from .data import FUTURE\n", "from .data import FUTURE, QUANTILES\n"),
        Edit(
            "steps.py",
            '"""The mean squared error of the values that are there."""',
            '"""The mean quantile loss of the values that are there."""',
        ),
        Edit(
            "steps.py",
            """training=training)  # (batch, FUTURE)
    weights = weights_of_values(batch)  # (batch, FUTURE)
    error = tf.where(weights > 0, future, forecast) - forecast  # without NaN: 0 x NaN is NaN
""",
            """training=training)  # (batch, FUTURE, 3)
    weights = weights_of_values(batch)  # (batch, FUTURE)
    known = tf.where(weights > 0, future, tf.zeros_like(future))  # without NaN: 0 x NaN is NaN
    errors = known[..., tf.newaxis] - forecast  # (batch, FUTURE, 3)
    error = errors[..., 1]  # of the median
    share = tf.constant(QUANTILES, errors.dtype)
    per_value = tf.reduce_mean(tf.maximum(share * errors, (share - 1) * errors), axis=2)
""",
        ),
        Edit(
            "steps.py",
            "compute_loss(tf.square(error), weights,",
            "compute_loss(per_value, weights,",
        ),
    ),
)

_OWN_SCALE = change_of(
    name="each window on its own scale",
    project="forecasting",
    edits=(
        Edit(
            "model.py",
            "",
            '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: each window has a mean and deviation of its own."""
    return {}
''',
            "adapt",
        ),
        Edit(
            "model.py",
            "from .data import COLUMNS, FUTURE, PAST\n",
            "from .data import COLUMNS, FUTURE, PAST, TARGET\n",
        ),
        Edit(
            "model.py",
            """    mean, variance = adapted["mean"], adapted["variance"]
    past = keras.Input((PAST, len(COLUMNS)), name="past")
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(past)
    missing = ops.isnan(scaled)
    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
""",
            """    past = keras.Input((PAST, len(COLUMNS)), name="past")
    missing = ops.isnan(past)
    absent = ops.cast(missing, floatx)
    number = ops.maximum(ops.sum(1.0 - absent, axis=1, keepdims=True), 1.0)  # (batch, 1, columns)
    mean = ops.sum(ops.where(missing, 0.0, past), axis=1, keepdims=True) / number
    above = ops.where(missing, 0.0, past - mean)  # (batch, PAST, columns)
    deviation = ops.sqrt(ops.sum(ops.square(above), axis=1, keepdims=True) / number + 0.01)
    x = layers.Concatenate()([above / deviation, absent])
""",
        ),
        Edit(
            "model.py",
            """    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
            """    scale, center = ops.take(deviation, TARGET, axis=2), ops.take(mean, TARGET, axis=2)
    return keras.Model(past, x * scale + center)
""",
        ),
    ),
)

_SPREAD = change_of(
    name="progression with a spread of its own",
    project="tabular_regression",
    edits=(
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Minus the log likelihood of a normal distribution but for a constant, (batch,).

        Labels float (batch, 1) in units of the data; predictions float (batch, 2): the mean in
        these units, and the logarithm of the deviation in LABEL_DEVIATION.
        """
        mean, log_deviation = tf.split(predictions, 2, axis=1)
        error = (labels - mean) / LABEL_DEVIATION * tf.exp(-log_deviation)
        return tf.squeeze(log_deviation + 0.5 * tf.square(error), axis=1)

    return {"main": likelihood}
''',
            "create_losses",
        ),
        Edit(
            "model.py",
            "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n",
            """    together = layers.Concatenate()([x, hidden])
    x = layers.Dense(1, dtype=floatx)(together)  # (batch, 1)
    # Between -1 and 1: an example can be e times as sure, or as unsure, as the labels are spread.
    spread = layers.Dense(1, activation="tanh", dtype=floatx)(together)  # (batch, 1)
""",
        ),
        Edit(
            "model.py",
            "    return keras.Model(inputs, unscale(x))\n",
            "    return keras.Model(inputs, layers.Concatenate(dtype=floatx)([unscale(x), spread]))\n",
        ),
        Edit("model.py", "-> float32 (batch, 1).\n", "-> float32 (batch, 2).\n"),
        Edit(
            "steps.py",
            "update_state(labels, predictions, weights)",
            "update_state(labels, predictions[:, :1], weights)",
            "*",
        ),
        Edit("steps.py", "# (batch, 1)\n", "# (batch, 2): mean, spread\n", "*"),
        Edit(
            "predictions.py",
            '    return {"progression": np.asarray(outputs)[:, 0]}\n',
            """    mean, spread = np.asarray(outputs).T
    return {"progression": mean, "deviation": LABEL_DEVIATION * np.exp(spread)}
""",
        ),
        Edit(
            "predictions.py",
            "from .data import CATEGORY\n",
            "from .data import CATEGORY\nfrom .losses import LABEL_DEVIATION\n",
        ),
    ),
)

_RANDOM_WAVES = change_of(
    name="random waves that never train",
    project="tabular_regression",
    edits=(
        Edit(
            "model.py",
            '    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)\n',
            """    waves = layers.Dense(
        task.width,
        kernel_initializer=keras.initializers.RandomNormal(stddev=0.2, seed=0),
        bias_initializer=keras.initializers.RandomUniform(0.0, 2 * np.pi, seed=1),
        trainable=False,  # for good: what is linear in the features needs no hidden layer to learn
        dtype=floatx,
        name="waves",
    )
    hidden = ops.cos(waves(x))  # (batch, width)
""",
        ),
        Edit(
            "config.py",
            "width: int = 32  # units of the hidden layer",
            "width: int = 128  # random features beside the columns",
        ),
    ),
)

# --- gan, language, segmentation, heads, vae ---------------------------------------------------

_SLOPE = change_of(
    name="flat discriminator at real images",
    project="gan",
    edits=(
        Edit(
            "steps.py",
            """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
            """    with tf.GradientTape() as tape:
        tape.watch(images)
        on_real = discriminator(images, training=True)  # (batch, 1)
    # A logit depends on its own image only, so the gradient of their sum holds that of each.
    slopes = tape.gradient(on_real, images)  # (batch, h, w, channels)
    steepness = tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3])  # (batch,)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    per_example += PENALTY * steepness
""",
        ),
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]",
            "PENALTY = 0.1  # factor of the squared gradient at real images\nBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]",
        ),
    ),
)

_ONE_BLOCK = change_of(
    name="one block used three times",
    project="language_model",
    edits=(
        Edit(
            "config.py",
            "layers: int = 2  # layers of the transformer",
            "layers: int = 3  # passes through the one block of the transformer",
        ),
        Edit(
            "model.py",
            """    for _ in range(task.layers):
        # Padding needs no mask: it comes last, and no token attends to a later one.
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))
        y = layers.LayerNormalization()(x)
        y = layers.Dense(4 * task.width, activation="gelu")(y)
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
""",
            """    # One block, whose weights all passes share.
    attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
    before_attention, before_dense = layers.LayerNormalization(), layers.LayerNormalization()
    wide, narrow = layers.Dense(4 * task.width, activation="gelu"), layers.Dense(task.width)
    for _ in range(task.layers):
        # Padding needs no mask: it comes last, and no token attends to a later one.
        y = before_attention(x)
        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))
        x = x + layers.Dropout(task.dropout)(narrow(wide(before_dense(x))))
""",
        ),
    ),
)

_SLIPS = change_of(
    name="own earlier digits may be wrong",
    project="language_model",
    edits=(
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .data import PROMPT_END\nfrom .losses import compute_loss\n",
        ),
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  #",
            "SLIPS = 0.1  # fraction of the answer's characters that training replaces in the input\nBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  #",
        ),
        Edit(
            "steps.py",
            "    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)\n",
            """    logits = run.model(with_slips(tokens, weights, replica), training=True)  # (batch, T, TOKENS)
""",
        ),
        Edit(
            "steps.py",
            "# TODO(11): one train step;",
            '''def with_slips(tokens: tf.Tensor, weights: tf.Tensor, replica: Replica) -> tf.Tensor:
    """Tokens (batch, T), some of those of the answer replaced by random digits."""
    number = tf.random.stateless_uniform(tokens.shape, replica.seed)
    # Where it is less than SLIPS, its place between 0 and SLIPS says by which digit.
    digit = tf.minimum(tf.cast(number * (10 / SLIPS), tf.int32), 9)
    is_written = (weights > 0) & (tokens != PROMPT_END)  # its first character comes after ">"
    return tf.where(is_written & (number < SLIPS), ord("0") + digit, tokens)


# TODO(11): one train step;''',
        ),
    ),
)

_POINTS = change_of(
    name="few labeled pixels in training",
    project="segmentation",
    edits=(
        Edit(
            "data.py",
            "FAINT, DARK = 0.375, 0.5  #",
            "LABELED = 0.1  # fraction of the pixels whose label training knows; in evaluation all\nFAINT, DARK = 0.375, 0.5  #",
        ),
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
    images, labels = splits["train"]
    labels[np.random.default_rng(len(CANVASES)).random(labels.shape) >= LABELED] = IGNORED
    return splits | {"train": (images, labels)}
""",
        ),
    ),
)

_FREQUENCY = change_of(
    name="rare classes weigh more by counting pixels",
    project="segmentation",
    edits=(
        Edit(
            "config.py",
            "    foreground_weight: float = 2.0  # weight of a digit's pixel in the loss; the background's is 1\n",
            "",
        ),
        Edit(
            "config.py",
            'for name in ("learning_rate", "width", "foreground_weight"):',
            'for name in ("learning_rate", "width"):',
        ),
        Edit("model.py", "from .data import CLASSES\n", "from .data import CLASSES, IGNORED\n"),
        Edit(
            "model.py",
            '    return {"shape": images.shape[1:]}\n',
            """    labels = datasets["train"][1]  # int (n, h, w)
    pixels = np.bincount(labels[labels != IGNORED], minlength=CLASSES) + 1.0  # never 0
    weights = pixels**-0.5
    # Their mean over all pixels is 1, so the loss can be divided by the number of pixels.
    weights *= pixels.sum() / (weights * pixels).sum()
    return {"shape": images.shape[1:], "class_weights": weights}
""",
        ),
        Edit(
            "losses.py",
            "per_pixel: tf.Tensor, labels: tf.Tensor, foreground_weight: float\n",
            "per_pixel: tf.Tensor, labels: tf.Tensor, class_weights: Any\n",
        ),
        Edit(
            "losses.py",
            "    weighted = tf.where(labels == 0, per_pixel, foreground_weight * per_pixel)  # (batch, h, w)\n",
            """    classes = tf.where(labels == IGNORED, 0, labels)  # any will do where the loss is 0
    weighted = tf.gather(tf.constant(class_weights, per_pixel.dtype), classes) * per_pixel
""",
        ),
        Edit(
            "steps.py",
            "average_over_pixels(per_pixel, labels, run.task.foreground_weight)",
            'average_over_pixels(per_pixel, labels, run.adapted["class_weights"])',
            "*",
        ),
    ),
)

_BALANCE = change_of(
    name="heads that find their own weights",
    project="two_heads",
    edits=(
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .losses import HEADS\n",
        ),
        Edit(
            "model.py",
            "# TODO(4): what your model",
            '''@keras.saving.register_keras_serializable("my_experiment")
class TrainedNumbers(keras.layers.Layer):
    """Numbers that are trained and depend on no input: (batch, ...) -> (batch, number)."""

    def __init__(self, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def build(self, input_shape: Any) -> None:
        """Start at 0."""
        self.numbers = self.add_weight(shape=(self.number,), initializer="zeros", name="numbers")

    def call(self, x: Any) -> Any:
        """The same numbers in each row."""
        return keras.ops.zeros_like(x[:, :1]) + self.numbers

    def compute_output_shape(self, input_shape: Any) -> Any:
        """A row for each of the input."""
        return (input_shape[0], self.number)

    def get_config(self) -> dict[str, Any]:
        """What __init__ takes."""
        return {**super().get_config(), "number": self.number}


# TODO(4): what your model''',
        ),
        Edit(
            "model.py",
            '    return keras.Model(images, {"digit": logits, "even": even})\n',
            """    log_scales = TrainedNumbers(len(HEADS), dtype=keras.config.floatx(), name="log_scales")(x)
    return keras.Model(images, {"digit": logits, "even": even, "log_scales": log_scales})
""",
        ),
        Edit(
            "steps.py",
            "    terms = {}\n    for head in HEADS:\n",
            """    terms, parts = {}, []
    for i, head in enumerate(HEADS):
        log_scale = outputs["log_scales"][:, i]  # (batch,), the same in each row
""",
            "*",
        ),
        Edit(
            "steps.py",
            """        run.metrics[f"{head}_accuracy"].update_state(known, outputs[head], weights[head])
""",
            """        part = tf.nn.compute_average_loss(
            tf.exp(-log_scale) * per_example + log_scale,
            sample_weight=weights[head],
            global_batch_size=replica.global_count[head],
        )
        parts.append(part)
        run.metrics[f"{head}_accuracy"].update_state(known, outputs[head], weights[head])
""",
            "*",
        ),
        Edit(
            "steps.py",
            "tf.add_n(list(terms.values())) + regularization",
            "tf.add_n(parts) + regularization",
            "*",
        ),
        Edit("predictions.py", "tf.nn.softmax(outputs)", 'tf.nn.softmax(outputs["digit"])'),
    ),
)

_SAMPLES = change_of(
    name="five codes for each image",
    project="vae",
    edits=(
        Edit("steps.py", "import tensorflow as tf\n", "import math\n\nimport tensorflow as tf\n"),
        Edit(
            "steps.py",
            "WARM_UP = 200  # steps until the KL divergence counts in full\n",
            "WARM_UP = 200  # steps until the probability of a code counts in full\nSAMPLES = 5  # codes that training draws for an image\n",
        ),
        Edit(
            "steps.py",
            """    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)
    decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
    error = run.losses["main"](images, decoded)  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
""",
            """    rows, size = mean.shape
    noise = tf.random.stateless_normal((rows, SAMPLES, size), replica.seed, dtype=mean.dtype)
    spread = log_variance[:, tf.newaxis]  # (batch, 1, CODE)
    codes = mean[:, tf.newaxis] + tf.exp(0.5 * spread) * noise  # (batch, SAMPLES, CODE)
    decoded = decoder(tf.reshape(codes, (rows * SAMPLES, size)), training=True)
    errors = run.losses["main"](tf.repeat(images, SAMPLES, axis=0), decoded)  # (batch * SAMPLES,)
    errors = tf.reshape(errors, (rows, SAMPLES))
    # log p(code) - log q(code | image), in which the constants of both cancel
    ratios = 0.5 * tf.reduce_sum(tf.square(noise) + spread - tf.square(codes), axis=2)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    bound = tf.reduce_logsumexp(warm_up * ratios - errors, axis=1) - math.log(SAMPLES)  # (batch,)
    error = tf.reduce_mean(errors, axis=1)  # (batch,)
    loss = compute_loss(-bound, weights, encoder, replica)
""",
        ),
    ),
)

TASKS: tuple[Change, ...] = (
    _CLAIMS,
    _SURVIVAL,
    _RATINGS,
    _CODES,
    _DARK_BRIGHT,
    _SIGMOID,
    _NOISY,
    _LOGITS,
    _THAW,
    _QUANTILES,
    _OWN_SCALE,
    _SPREAD,
    _RANDOM_WAVES,
    _SLOPE,
    _ONE_BLOCK,
    _SLIPS,
    _POINTS,
    _FREQUENCY,
    _BALANCE,
    _SAMPLES,
)

FAULTS: tuple[Fault, ...] = ()
