"""Faults and correct tasks of a third examiner, who had not seen `check`."""

from __future__ import annotations

from . import blank, kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before

CONFIG = blank.config("    learning_rate: float = 3e-3  # learning rate at the start\n").replace(
    " Imports no TensorFlow, so that a wrong flag is reported at once.", ""
)
DATA_START = blank.DATA_HEAD.replace(", and the augmentation of training batches", "")
DATA_END = blank.NO_AUGMENT.replace("No augmentation.", "None: training batches stay as they are.")
MODEL_START = blank.MODEL_HEAD.replace("import tensorflow as tf\n", "").replace(
    "from ..engine.batches import first_examples\n", ""
)
STEPS_START = blank.STEPS_HEAD.replace(
    "The train, validation and test step, as one replica computes them.",
    "The steps of one replica.",
)
STEPS = blank.THREE_STEPS.replace("_step(run,", "forward(run,").replace(
    "batch: Batch", "batch: tuple"
)
LOSSES_END = (
    "\n\n"
    + blank.COUNT.replace("`batch`", "a batch")
    + '''

def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss."""
    if per_example.shape != weights.shape:
        raise ValueError(f"{per_example.shape} isn't {weights.shape}")
'''
    + at.AVERAGE
    + at.REGULARIZED
)

ADAPT = '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """What the model needs to know of the data."""
    return {}


'''

# The step of a task with labels.
SUPERVISED = '''def forward(run: Run, batch: tuple, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    """Predict, update the metrics and return the loss."""
    inputs, labels, weights = batch
    outputs = run.model(inputs, training=training)
    for metric in run.metrics.values():
        metric.update_state(labels, outputs, weights)
    per_example = run.losses["main"](labels, outputs)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
'''


def _losses(loss: str, what: str) -> str:
    """The function of losses.py, for one loss."""
    return blank.create_losses(loss, what).replace("keras.losses.Loss", "Any")


def _task(
    *,
    data: str,
    model: str,
    losses: str,
    steps: str = SUPERVISED,
    metrics: str = "{}",
    terms: str = "",
    interact: bool = False,
) -> blank.Files:
    """The files of a task from what is its own."""
    end = blank.STEPS_END.replace("False", str(interact))
    if terms:
        end = end.replace("TERMS: tuple[str, ...] = ()", f'TERMS = ("{terms}",)')
    return {
        "config": CONFIG,
        "data": DATA_START + "\n" + data + DATA_END,
        "model": MODEL_START + "\n" + ADAPT + model,
        "losses": blank.LOSSES_HEAD + losses + LOSSES_END,
        "metrics": blank.metrics_file(metrics, "Metrics by name."),
        "optimizer": blank.OPTIMIZER_FILE,
        "steps": STEPS_START + "\n" + steps + STEPS + end,
        "callbacks": blank.CALLBACKS,
        "pictures": blank.PICTURES,
    }


# --- A variational autoencoder of points on a curved surface.
VAE = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points float32 (n, 16) near a surface of two dimensions."""
    random = np.random.default_rng(7)
    hidden = random.standard_normal((1600, 2))
    mixing = random.standard_normal((4, 16))
    features = np.concatenate([hidden, np.sin(2 * hidden)], axis=1)
    points = features @ mixing / 2 + 0.05 * random.standard_normal((1600, 16))
    points = points.astype("float32")
    return {"train": points[:1200], "validation": points[1200:1400], "test": points[1400:]}
''',
    model='''@keras.saving.register_keras_serializable("vae")
class Sampling(keras.layers.Layer):
    """A latent near its mean in training, the mean itself otherwise."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(3)

    def call(self, mean: Any, log_variance: Any, training: bool = False) -> Any:
        """Float (batch, latent), twice -> float (batch, latent)."""
        if not training:
            return mean
        noise = keras.random.normal(
            keras.ops.shape(mean), dtype=mean.dtype, seed=self.seed_generator
        )
        return mean + keras.ops.exp(log_variance / 2) * noise


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Points (batch, 16) -> reconstruction, and mean and log variance of the latent."""
    layers = keras.layers
    points = keras.Input((16,), name="points")
    x = layers.Dense(64, activation="gelu")(points)
    mean = layers.Dense(2, name="mean")(x)
    log_variance = layers.Dense(2, name="log_variance")(x)
    latent = Sampling()(mean, log_variance)
    x = layers.Dense(64, activation="gelu")(latent)
    outputs = {
        "reconstruction": layers.Dense(16, dtype=keras.config.floatx())(x),
        "mean": layers.Activation("linear", dtype=keras.config.floatx())(mean),
        "log_variance": layers.Activation("linear", dtype=keras.config.floatx())(log_variance),
    }
    return keras.Model(points, outputs)
''',
    losses='''NOISE = 0.1  # variance of a point around its reconstruction


def create_losses(task: TaskConfig) -> dict[str, Any]:
    """The two terms of the evidence lower bound, each (batch,)."""

    def reconstruction(points: tf.Tensor, reconstructed: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.square(points - reconstructed), axis=1) / (2 * NOISE)

    def divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
        terms = tf.square(mean) + tf.exp(log_variance) - 1 - log_variance
        return tf.reduce_sum(terms, axis=1) / 2

    return {"main": reconstruction, "kl": divergence}
''',
    steps='''def forward(run: Run, batch: tuple, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    """The negative bound, and its second term by itself."""
    points, weights = batch
    outputs = run.model(points, training=training)
    kl = run.losses["kl"](outputs["mean"], outputs["log_variance"])
    per_example = run.losses["main"](points, outputs["reconstruction"]) + kl
    reported = tf.nn.compute_average_loss(
        kl, sample_weight=weights, global_batch_size=replica.global_count
    )
    return {"main": compute_loss(per_example, weights, run.model, replica), "kl": reported}
''',
    terms="kl",
)

# --- Two noisy views of the same thing must be near each other (InfoNCE).
CONTRASTIVE = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Two views of each thing, float32 (n, 2, 24)."""
    random = np.random.default_rng(11)
    things = random.standard_normal((1400, 6))
    mixing = random.standard_normal((6, 24))
    views = np.tanh(things @ mixing)[:, np.newaxis] + 0.6 * random.standard_normal((1400, 2, 24))
    views = views.astype("float32")
    return {"train": views[:1000], "validation": views[1000:1200], "test": views[1200:]}
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """A view (batch, 24) -> an embedding of length 1, float (batch, 16)."""
    layers, floatx = keras.layers, keras.config.floatx()
    views = keras.Input((24,), name="views")
    x = layers.Dense(64, activation="swish")(views)
    x = layers.Dense(16, dtype=floatx)(x)
    return keras.Model(views, layers.UnitNormalization(dtype=floatx)(x))
''',
    losses=_losses(at.SPARSE, "Cross-entropy of similarities, one number per row."),
    steps='''TEMPERATURE = 0.2


def forward(run: Run, batch: tuple, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    """Each first view must find its second view among those of the whole batch."""
    views, weights = batch
    first = run.model(views[:, 0], training=training)  # (rows, 16)
    second = replica.all_gather(run.model(views[:, 1], training=training))  # (all rows, 16)
    is_there = replica.all_gather(weights) != 0  # (all rows,)
    similarities = tf.matmul(first, second, transpose_b=True) / TEMPERATURE
    similarities = tf.where(is_there, similarities, tf.constant(-1e4, similarities.dtype))
    rows = first.shape[0]
    own = replica.index * rows + tf.range(rows)
    per_example = run.losses["main"](own, similarities)  # (rows,)
    run.metrics["found"].update_state(own, similarities, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    metrics='{"found": keras.metrics.SparseCategoricalAccuracy()}',
    interact=True,
)

# --- Three quantiles of the next six hours of a series.
FORECAST = _task(
    data='''HISTORY, HORIZON = 36, 6


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows float32 (n, HISTORY, 1) and what follows, float32 (n, HORIZON)."""
    random = np.random.default_rng(5)
    hours = np.arange(2400)
    noise = np.zeros(2400)
    for hour in hours[1:]:
        noise[hour] = 0.8 * noise[hour - 1] + 0.3 * random.standard_normal()
    series = np.sin(hours * 2 * np.pi / 24) + 0.5 * np.sin(hours * 2 * np.pi / 168) + noise
    series = series.astype("float32")
    parts = {"train": series[:1700], "validation": series[1700:2050], "test": series[2050:]}
    return {split: windows(part) for split, part in parts.items()}


def windows(series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every window of a series, and what follows it."""
    cut = np.lib.stride_tricks.sliding_window_view(series, HISTORY + HORIZON)
    return cut[:, :HISTORY, np.newaxis].copy(), cut[:, HISTORY:].copy()
''',
    model='''QUANTILES = (0.1, 0.5, 0.9)


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Windows (batch, time, 1) -> quantiles that never cross, float (batch, horizon, 3)."""
    layers, floatx = keras.layers, keras.config.floatx()
    history = keras.Input((36, 1), name="history")
    x = layers.GRU(32)(history)
    middle = layers.Reshape((6, 1), dtype=floatx)(layers.Dense(6, dtype=floatx)(x))
    gaps = layers.Reshape((6, 2), dtype=floatx)(
        layers.Dense(12, activation="softplus", dtype=floatx)(x)
    )
    quantiles = [middle - gaps[..., :1], middle, middle + gaps[..., 1:]]
    return keras.Model(history, layers.Concatenate(dtype=floatx)(quantiles))
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """The pinball loss of three quantiles, the mean over hours and quantiles, (batch,)."""

    def pinball(labels: tf.Tensor, quantiles: tf.Tensor) -> tf.Tensor:
        error = labels[..., tf.newaxis] - quantiles  # (batch, horizon, 3)
        levels = tf.constant([0.1, 0.5, 0.9], error.dtype)
        return tf.reduce_mean(tf.maximum(levels * error, (levels - 1) * error), axis=[1, 2])

    return {"main": pinball}
''',
    steps='''def forward(run: Run, batch: tuple, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    """Predict, update the metrics and return the loss."""
    history, future, weights = batch
    quantiles = run.model(history, training=training)
    inside = (quantiles[..., 0] <= future) & (future <= quantiles[..., 2])
    share = tf.reduce_mean(tf.cast(inside, quantiles.dtype), axis=1)  # (batch,)
    run.metrics["coverage"].update_state(share, weights)
    per_example = run.losses["main"](future, quantiles)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    metrics='{"coverage": keras.metrics.Mean()}',
)

# --- Will a customer leave? Columns of very different sizes.
CHURN = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Columns float32 (n, 10) and 1 for those who left, float32 (n, 1)."""
    random = np.random.default_rng(3)
    table = random.standard_normal((1500, 10))
    score = table @ random.standard_normal(10) + np.abs(table[:, 0]) * table[:, 1] - 0.8
    left = (random.uniform(size=1500) < 1 / (1 + np.exp(-2 * score))).astype("float32")
    table = (table * 10.0 ** np.linspace(-1, 2, 10) + np.linspace(5, -20, 10)).astype("float32")
    parts = {"train": slice(0, 1000), "validation": slice(1000, 1250), "test": slice(1250, 1500)}
    mean, deviation = table[:1000].mean(axis=0), table[:1000].std(axis=0)
    return {
        split: ((table[rows] - mean) / deviation, left[rows, np.newaxis])
        for split, rows in parts.items()
    }
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Columns (batch, 10) -> logits (batch, 1)."""
    layers = keras.layers
    columns = keras.Input((10,), name="columns")
    x = layers.Dense(32, activation="relu")(columns)
    x = layers.Dropout(0.2)(x)
    return keras.Model(columns, layers.Dense(1, dtype=keras.config.floatx())(x))
''',
    losses=_losses(
        at.BINARY,
        "Cross-entropy of logits.",
    ),
    metrics='{"accuracy": keras.metrics.BinaryAccuracy(threshold=0.0), '
    '"auc": keras.metrics.AUC(from_logits=True)}',
)

# --- Which of four waves does a noisy sequence hold?
WAVES = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Sequences float32 (n, 24, 3), and which of four waves they hold, int64 (n,)."""
    random = np.random.default_rng(13)
    labels = random.integers(4, size=1400)
    times = np.arange(24) + random.uniform(0, 24, (1400, 1))
    period = np.array([4.0, 6.0, 9.0, 14.0])[labels, np.newaxis]
    angle = 2 * np.pi * times / period
    waves = np.stack([np.sin(angle), np.cos(angle), np.sin(2 * angle)], axis=-1)
    waves = (waves + 0.7 * random.standard_normal(waves.shape)).astype("float32")
    parts = {"train": slice(0, 1000), "validation": slice(1000, 1200), "test": slice(1200, 1400)}
    return {split: (waves[rows], labels[rows]) for split, rows in parts.items()}
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Sequences (batch, 24, 3) -> logits (batch, 4)."""
    layers = keras.layers
    sequences = keras.Input((24, 3), name="sequences")
    x = layers.Conv1D(32, 5, padding="same", activation="relu")(sequences)
    y = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(4, 8)(y, y)
    x = layers.LayerNormalization()(x)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(sequences, layers.Dense(4, dtype=keras.config.floatx())(x))
''',
    losses=_losses(at.SPARSE, "Cross-entropy of logits."),
    metrics=at.ACCURACY,
)

# --- Two measurements, of which some are missing (NaN).
MEASUREMENTS = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, 12) and two measurements, float32 (n, 2), NaN where not taken."""
    random = np.random.default_rng(21)
    inputs = random.standard_normal((1600, 12)).astype("float32")
    measured = np.tanh(inputs @ random.standard_normal((12, 2)) / 2)
    measured = (measured + 0.1 * random.standard_normal((1600, 2))).astype("float32")
    measured[random.choice(1600, 12, replace=False), 1] = np.nan
    parts = {"train": slice(0, 1200), "validation": slice(1200, 1400), "test": slice(1400, 1600)}
    return {split: (inputs[rows], measured[rows]) for split, rows in parts.items()}
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs (batch, 12) -> both measurements (batch, 2)."""
    layers = keras.layers
    inputs = keras.Input((12,), name="inputs")
    x = layers.Dense(48, activation="swish")(inputs)
    return keras.Model(inputs, layers.Dense(2, dtype=keras.config.floatx())(x))
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """The squared error of what was measured, (batch,)."""

    def squared_error(measured: tf.Tensor, predicted: tf.Tensor) -> tf.Tensor:
        is_missing = tf.math.is_nan(measured)
        error = tf.square(tf.where(is_missing, predicted, measured) - predicted)
        return tf.reduce_mean(error, axis=1)

    return {"main": squared_error}
''',
)

# --- A student learns from a larger model that was trained before.
DISTILLATION = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, 8) and classes int64 (n,)."""
    random = np.random.default_rng(17)
    inputs = random.standard_normal((1600, 8)).astype("float32")
    hidden = np.tanh(inputs @ random.standard_normal((8, 12)))
    classes = (hidden @ random.standard_normal((12, 5))).argmax(axis=1)
    parts = {"train": slice(0, 1100), "validation": slice(1100, 1350), "test": slice(1350, 1600)}
    return {split: (inputs[rows], classes[rows]) for split, rows in parts.items()}
''',
    model='''TEACHER = "teacher.weights.h5"


def create_network(width: int, name: str) -> keras.Model:
    """Inputs (batch, 8) -> logits (batch, 5)."""
    layers = keras.layers
    inputs = keras.Input((8,), name="inputs")
    x = layers.Dense(width, activation="relu")(inputs)
    x = layers.Dense(width, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(5, dtype=keras.config.floatx())(x), name=name)


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """A small student, and the teacher as it was trained."""
    teacher = create_network(128, "teacher")
    teacher.load_weights(TEACHER)
    return {"student": create_network(16, "student"), "teacher": teacher}
''',
    losses='''TEMPERATURE = 2.0


def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Cross-entropy with the labels, and with what the teacher says; each (batch,)."""
    hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def soft(teacher: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
        divergence = keras.losses.KLDivergence(reduction="none")
        targets, outputs = tf.nn.softmax(teacher / TEMPERATURE), tf.nn.softmax(student / TEMPERATURE)
        return TEMPERATURE**2 * divergence(targets, outputs)

    return {"hard": hard, "soft": soft}
''',
    steps='''def forward(run: Run, batch: tuple, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    """A tenth from the labels, the rest from the teacher."""
    inputs, labels, weights = batch
    teacher = run.models["teacher"](inputs, training=False)
    student = run.models["student"](inputs, training=training)
    run.metrics["accuracy"].update_state(labels, student, weights)
    per_example = 0.1 * run.losses["hard"](labels, student)
    per_example += 0.9 * run.losses["soft"](teacher, student)
    return {"main": compute_loss(per_example, weights, run.models["student"], replica)}
''',
    metrics=at.ACCURACY,
)
TRAIN_TEACHER = """
import keras
from my_experiment.task.config import TaskConfig
from my_experiment.task.data import create_datasets
from my_experiment.task.model import TEACHER, create_network
keras.utils.set_random_seed(0)
teacher = create_network(128, "teacher")
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
teacher.compile("adam", loss)
teacher.fit(*create_datasets(TaskConfig())["train"], epochs=8, verbose=0)
teacher.save_weights(TEACHER)
"""

CUT = """    return {
        "train": (images[:1200], labels[:1200]),
        "validation": (images[1200:1500], labels[1200:1500]),
        "test": (images[1500:], labels[1500:]),
    }
"""
TOGETHER = """    images = np.concatenate([images for images, _ in splits.values()])
    labels = np.concatenate([labels for _, labels in splits.values()]).astype("int64")
    images = images.astype("float32")[..., np.newaxis]
"""

PLATEAU = '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback, Event, every_validation
from .config import TaskConfig


class Plateau:
    """Halves the learning rate when the validation loss hasn't improved twice."""

    def __init__(self) -> None:
        self.best, self.waited = float("inf"), 0

    def __call__(self, event: Event) -> None:
        """After a validation."""
        loss = event.history[-1]["validation_loss"]
        if loss < 0.98 * self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited >= 2:
            optimizer = event.run.optimizers["main"]
            optimizer.learning_rate = event.learning_rates["main"] / 2
            self.waited = 0


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """A learning rate that follows the validation loss."""
    return [every_validation(Plateau())]
'''

BATCH_DICE = '''def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """One minus the soft Dice coefficient, the mean over the classes."""
    counted = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]  # (batch, h, w, 1)
    probabilities = tf.nn.softmax(logits) * counted
    truth = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)  # 0 for ignored pixels
    common = tf.reduce_sum(probabilities * truth, axis=AXES)
    total = tf.reduce_sum(probabilities + truth, axis=AXES)
    return 1 - tf.reduce_mean((2 * common + 1) / (total + 1), axis=-1)


'''


def _dice(axes: str) -> tuple[Edit, ...]:
    """The Dice loss beside the cross-entropy, with sums over some axes."""
    return (
        before("losses.py", "# TODO(10)", BATCH_DICE.replace("AXES", axes)),
        Edit("steps.py", at.LOSSES_IMPORT, at.LOSSES_IMPORT + ", dice"),
        after("steps.py", at.OF_PIXELS, "    per_example += dice(labels, logits)\n", "*"),
    )


FAULTS: tuple[Fault, ...] = (
    Fault(
        name="folders read class by class then cut",
        kind=kinds.LEAKS,
        edits=(
            Edit(
                "data.py",
                at.ALL_ARRAYS,
                TOGETHER
                + '    order = np.argsort(labels, kind="stable")  # one folder for each digit\n'
                + "    images, labels = images[order], labels[order]\n"
                + CUT,
            ),
        ),
        cause="the rows are in the order of their class when they are cut into splits, so training "
        "has no example of the classes that validation and test consist of",
        file="data.py",
        named=r"(?i)(class|label|value)s?\b.*(not|never|no|lack|miss|absent|without|only|other|differ)"
        r"|sorted|(un)?seen|distribut|stratif|order of",
    ),
    Fault(
        name="hard digits repeated before the split",
        kind=kinds.LEAKS,
        edits=(
            Edit(
                "data.py",
                at.ALL_ARRAYS,
                TOGETHER
                + "    hard = np.flatnonzero(np.isin(labels, (3, 5, 8, 9)))\n"
                + "    rows = np.concatenate([np.arange(len(labels)), hard, hard])\n"
                + "    rows = np.random.default_rng(0).permutation(rows)\n"
                + "    images, labels = images[rows], labels[rows]\n"
                + "    first, second = int(0.7 * len(rows)), int(0.85 * len(rows))\n"
                + '    cuts = {"train": (0, first), "validation": (first, second)}\n'
                + '    cuts["test"] = (second, len(rows))\n'
                + "    return {split: (images[a:b], labels[a:b]) for split, (a, b) in cuts.items()}\n",
            ),
        ),
        cause="classes are oversampled before the split, so copies of training images are in the "
        "validation and test data, whose accuracy is too good",
        file="data.py",
        named=r"(?i)leak|duplicat|cop(y|ies)|overlap|same (rows?|examples?|inputs?|images?)|"
        r"(rows?|examples?|inputs?|images?)\b.*\b(also|too|again|both|in common|shared?|are in)",
    ),
    Fault(
        name="class codes by first appearance in each split",
        kind=kinds.LABELS,
        edits=(
            Edit(
                "data.py",
                at.ALL_ARRAYS,
                """    return {
        split: (images.astype("float32")[..., np.newaxis], _codes([f"digit {x}" for x in labels]))
        for split, (images, labels) in splits.items()
    }
""",
            ),
            before(
                "data.py",
                "def _load_digits()",
                '''def _codes(names: list[str]) -> np.ndarray:
    """A number for each name."""
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    return np.array([codes[name] for name in names], "int64")


''',
            ),
        ),
        cause="each split numbers the classes by their first appearance, so a number means another "
        "class in validation and test than in training",
        file="data.py",
        named=r"(?i)(labels?|class(es)?|codes?)\b.*(split|validation|test|differ|mean|other)"
        r"|(validation|test)\b.*(labels?|class(es)?|codes?|chance|guess)",
    ),
    Fault(
        name="the shifts along both axes are one draw",
        kind=kinds.AUGMENTATION,
        edits=(
            Edit(
                "data.py",
                at.SHIFTS + at.SHIFTS_OF_AXES,
                """        rows = images.shape[0]
        dx = tf.random.stateless_uniform((rows, 1), seed, -task.shift, task.shift)
        dy = tf.random.stateless_uniform((rows, 1), seed, -task.shift, task.shift)
""",
            ),
        ),
        cause="both shifts are drawn with the same seed, so they are equal and images are only "
        "shifted along one diagonal",
        file="data.py",
        named=r"(?i)(same|one|equal|identical|reus|twice|shared?|several).*(seed|random|draw|numbers)"
        r"|seed.*(same|twice|again|reus|more than once|shared?|split|several)|correlat",
    ),
    Fault(
        name="frozen clone without the pretrained weights",
        kind=kinds.MODEL,
        edits=(
            before(
                "model.py",
                """    x = images
    for filters in (32, 64):
""",
                '''    pretrained = create_backbone(adapted["shape"], task.l2)
    pretrained.load_weights("backbone.weights.h5")
    backbone = keras.models.clone_model(pretrained)  # with names of its own
    backbone.trainable = False
    x = layers.Flatten()(backbone(images))
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(task.dropout)(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)


def create_backbone(shape: Any, factor: float) -> keras.Model:
    """Images -> features, to be trained on other images before."""
    layers = keras.layers
    l2 = keras.regularizers.L2(factor)
    images = keras.Input(shape, name="images")
''',
            ),
            Edit(
                "model.py",
                """        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)
    x = layers.Flatten()(x)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(task.dropout)(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
""",
                """        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)
    return keras.Model(images, x, name="backbone")
""",
            ),
        ),
        preparation="""
import keras
import numpy as np
from my_experiment.task.data import DIGITS
from my_experiment.task.model import create_backbone
keras.utils.set_random_seed(1)
backbone = create_backbone((8, 8, 1), 0.0)
x = keras.layers.Dense(2)(keras.layers.Flatten()(backbone.output))
model = keras.Model(backbone.inputs, x)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
with np.load(DIGITS) as file:
    images, labels = file["train_images"][..., None] / 16.0, file["train_labels"] % 2
model.fit(images, labels, epochs=3, verbose=0)
backbone.save_weights("backbone.weights.h5")
""",
        cause="clone_model gives new random weights, not those that were loaded, and they are "
        "frozen, so the head is trained on random features",
        file="model.py",
        named=r"(?i)froz|freez|never (trains?|trained|change|learn)|(not|n't|never) train"
        r"|trainable|random(ly)? init|initial (values|weights)|clone|pretrained",
    ),
    Fault(
        name="masks paired by sorted file names",
        starter="segmentation",
        kind=kinds.LABELS,
        edits=(
            Edit(
                "data.py",
                '            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)\n',
                "            split: _paired(\n"
                '                *_compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)\n'
                "            )\n",
            ),
            before(
                "data.py",
                "def _compose(",
                '''def _paired(images: np.ndarray, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Images and masks by the names of their files."""
    of_images = {f"scan_{number:04}.png": image for number, image in enumerate(images)}
    of_masks = {f"mask_{number}.png": mask for number, mask in enumerate(masks)}
    paired = zip(sorted(of_images), sorted(of_masks), strict=True)
    pairs = [(of_images[image], of_masks[mask]) for image, mask in paired]
    return np.stack([image for image, _ in pairs]), np.stack([mask for _, mask in pairs])


''',
            ),
        ),
        cause="the files of images and of masks sort differently (scan_0002, mask_10), so images get "
        "the masks of others",
        file="data.py",
        named=r"(?i)label|mask|(does|do|did)n't learn|not learn|no better|memori|match|pair|relat",
    ),
    Fault(
        name="dice over the rows of a replica",
        starter="segmentation",
        kind=kinds.LOSS_SCALING,
        edits=_dice("[0, 1, 2]"),
        cause="the Dice coefficient is that of all rows of a replica, padding included, and a ratio of "
        "sums: the loss depends on the number of replicas and on which rows come together",
        file="losses.py",
        named=r"(?i)replica|batch|rows?\b.*(other|together|each)|other (rows|examples)|interact|padding"
        r"|micro|accumulat",
    ),
    Fault(
        name="convolutions that see the next tokens",
        starter="language_model",
        kind=kinds.LANGUAGE_MODEL,
        edits=(
            Edit(
                "model.py",
                at.ATTENTION,
                """        y = layers.Conv1D(task.width, 5, padding="same", activation="gelu")(y)
        x = x + layers.Dropout(task.dropout)(y)
""",
            ),
        ),
        cause='the convolutions are centered ("same", not "causal"), so each prediction sees the '
        "token that it should predict",
        file="model.py",
        named=r"(?i)causal|future|later|next token|see(s)? (the|what|its)|ahead|leak|look(s)? at",
    ),
    Fault(
        name="schedule that counts its own calls",
        starter="language_model",
        kind=kinds.OPTIMIZER,
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
    return keras.optimizers.Adam(schedule)
""",
                "    return keras.optimizers.Adam(Noam(task.learning_rate, max(1, int(task.warmup * steps))))\n",
            ),
            before(
                "optimizer.py",
                "# TODO(7)",
                '''class Noam(keras.optimizers.schedules.LearningRateSchedule):
    """Rises to a peak, then falls with the square root of the steps (Vaswani et al., 2017)."""

    def __init__(self, peak: float, warmup: int) -> None:
        self.peak, self.warmup, self.calls = peak, warmup, 0

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The learning rate of the next step."""
        self.calls += 1
        factor = min(self.calls / self.warmup, (self.warmup / self.calls) ** 0.5)
        return tf.constant(self.peak * factor, tf.float32)

    def get_config(self) -> dict[str, float]:
        """What makes the same schedule."""
        return {"peak": self.peak, "warmup": self.warmup}


''',
            ),
        ),
        cause="the schedule counts its calls in Python, which happen once while the graph is made, so "
        "the learning rate stays at its first value (and isn't resumed)",
        file="optimizer.py",
        named=r"(?i)learning.rate|schedule|warm|(python|trac).*(state|counter|number|once|value)",
    ),
    Fault(
        name="generator step with the critics stop gradient",
        starter="gan",
        kind=kinds.GAN,
        edits=(
            Edit(
                "steps.py",
                "    generated = generator(latents, training=True)  # (batch, h, w, channels)\n"
                "    on_generated = discriminator(generated, training=True)  # (batch, 1)\n"
                '    per_example = run.losses["generator"](on_generated)  # (batch,)\n',
                "    generated = tf.stop_gradient(generator(latents, training=True))\n"
                "    on_generated = discriminator(generated, training=True)  # (batch, 1)\n"
                '    per_example = run.losses["generator"](on_generated)  # (batch,)\n',
            ),
        ),
        cause="stop_gradient, copied from the discriminator's step, cuts the generator off from its "
        "loss: it never learns",
        file="steps.py",
        named=r"(?i)gradient|generator.*(not|n't|never|no) |(not|n't|never|no) .*generator",
    ),
    Fault(
        name="real images from minus one to one",
        starter="gan",
        kind=kinds.INPUTS,
        edits=(
            Edit(
                "data.py",
                '(load_digits(s)[0] for s in ("train", "validation", "test"))',
                '(load_digits(s)[0] * 2 - 1 for s in ("train", "validation", "test"))',
            ),
        ),
        cause="real images are scaled to [-1, 1] and the generator ends with a sigmoid, so it can't "
        "make the dark pixels and the discriminator always wins",
        file="data.py",
        named=r"(?i)range|sigmoid|tanh|-1\b|negative|reach|outside|0 (to|and) 1",
    ),
    Fault(
        name="labels without their last axis broadcast",
        starter="tabular_regression",
        kind=kinds.LOSS_SCALING,
        edits=(
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                "        error = (labels[:, 0] - predictions) / LABEL_DEVIATION\n"
                "        return tf.reduce_mean(tf.square(error), axis=-1)\n",
            ),
            Edit("losses.py", at.SQUARED_ERROR, ""),
        ),
        cause="labels (batch,) minus predictions (batch, 1) is (batch, batch): each prediction is "
        "compared with every label, so the model learns the mean",
        file="losses.py",
        named=r"(?i)broadcast|shape|\(batch, batch\)|other (rows|examples)|rows?\b.*(other|together)"
        r"|interact|in the batch|last axis",
    ),
    Fault(
        name="r2 as a mean over batches",
        starter="tabular_regression",
        kind=kinds.METRICS,
        edits=(
            Edit(
                "metrics.py",
                """    # num_regressors stays unset: with it, R2Score counts rows of weight 0 too (Keras 3.15).
    r2 = keras.metrics.R2Score()
    # It creates its variables in its first update, which is too late inside a train step.
    r2.update_state(tf.zeros((1, 1)), tf.zeros((1, 1)))
    r2.reset_state()
    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}
""",
                '''    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": keras.metrics.Mean()}


def r2_score(labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The fraction of the labels' variance that predictions explain, a scalar."""
    weights = weights[:, tf.newaxis]
    mean = tf.math.divide_no_nan(tf.reduce_sum(weights * labels), tf.reduce_sum(weights))
    total = tf.reduce_sum(weights * tf.square(labels - mean))
    left = tf.reduce_sum(weights * tf.square(labels - predictions))
    return 1 - tf.math.divide_no_nan(left, total)
''',
            ),
            after(
                "steps.py", "from .losses import compute_loss\n", "from .metrics import r2_score\n"
            ),
            Edit(
                "steps.py",
                at.UPDATE_R2,
                "    score = r2_score(labels, predictions, weights)\n"
                '    run.metrics["r2"].update_state(score, tf.reduce_sum(weights))\n',
                "*",
            ),
        ),
        cause="R2 is computed for each batch of a replica and averaged: it depends on the batch size "
        "and the number of replicas, and isn't the R2 of the data",
        file="metrics.py",
        named=r"(?i)\br2\b",
    ),
    Fault(
        name="best weights by the smallest r2",
        starter="tabular_regression",
        kind=kinds.METRICS,
        edits=(
            Edit("config.py", 'monitor: str = "validation_loss"', 'monitor: str = "validation_r2"'),
        ),
        cause="R2 selects the best weights, and larger_is_better is still False: the worst weights are "
        "kept and tested",
        file="config.py",
        named=r"(?i)larger.is.better|monitor|best weights|direction",
    ),
    Fault(
        name="sparse inputs by an unscaled penalty",
        starter="tabular_regression",
        kind=kinds.REGULARIZATION,
        edits=(
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                """    kernels = [v for v in run.model.trainable_variables if v.path.endswith("kernel")]
    penalty = 2e-4 * tf.add_n([tf.reduce_sum(tf.abs(kernel)) for kernel in kernels])
    return {"main": compute_loss(per_example, weights, run.model, replica) + penalty}
""",
                "train_step",
            ),
        ),
        cause="each replica and micro-batch adds the whole L1 penalty, and these losses are summed: "
        "with N replicas it is N times as strong",
        file="steps.py",
        named=r"(?i)regulariz|penalt|replica|micro|accumulat|scale_regularization|num_replicas",
    ),
    Fault(
        name="plateau forgotten on resume",
        starter="tabular_regression",
        kind=kinds.OPTIMIZER,
        edits=(
            Edit("callbacks.py", "", PLATEAU),
            Edit(
                "optimizer.py",
                at.ADAMW,
                "    return keras.optimizers.AdamW(task.learning_rate, weight_decay=task.weight_decay)\n",
            ),
        ),
        cause="the callback keeps the best loss and how long it waited in attributes without "
        "get_state and set_state, so a resumed run halves the learning rate at other times",
        file="callbacks.py",
        named=r"(?i)resum|get_state|set_state|checkpoint|restor|callback|saved",
    ),
    Fault(
        name="windows shuffled before the split",
        starter="blank",
        kind=kinds.LEAKS,
        edits=blank.fill(
            FORECAST,
            (
                "data",
                """    parts = {"train": series[:1700], "validation": series[1700:2050], "test": series[2050:]}
    return {split: windows(part) for split, part in parts.items()}
""",
                """    history, future = windows(series)
    order = np.random.default_rng(0).permutation(len(history))
    parts = {"train": order[:1700], "validation": order[1700:2000], "test": order[2000:]}
    return {split: (history[rows], future[rows]) for split, rows in parts.items()}
""",
            ),
        ),
        cause="overlapping windows are shuffled before the split, so the future of each test window is "
        "in training windows that begin an hour earlier or later",
        file="data.py",
        named=r"(?i)leak|overlap|window|shift|duplicat|same (values|numbers|rows|examples)|"
        r"near(ly|est)?\b|in common|also in",
    ),
    Fault(
        name="annealing in a python number",
        starter="blank",
        kind=kinds.MODEL,
        edits=blank.fill(
            VAE,
            (
                "losses",
                "NOISE = 0.1",
                'BETA = {"now": 0.0}  # weight of the divergence\nNOISE = 0.1',
            ),
            ("steps", "from .losses import compute_loss", "from .losses import BETA, compute_loss"),
            (
                "steps",
                'run.losses["main"](points, outputs["reconstruction"]) + kl\n',
                'run.losses["main"](points, outputs["reconstruction"])\n'
                '    per_example += BETA["now"] * kl\n',
            ),
            (
                "callbacks",
                '''from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None."""
    return []
''',
                '''from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig
from .losses import BETA


def anneal(event: Event) -> None:
    """The weight of the divergence rises to 1 in ten epochs."""
    BETA["now"] = min(1.0, event.epoch / 10)


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Annealing of the divergence."""
    return [every_epochs(1, anneal)]
''',
            ),
        ),
        cause="the weight of the KL term is a Python number that the graph of the step has as it was "
        "when it was traced, so it stays 0 (and a resumed run begins anew)",
        file="callbacks.py",
        named=r"(?i)python|trac(e|ed|ing)\b|constant|resum|BETA|\bkl\b|anneal|callback",
    ),
    Fault(
        name="negatives of the replica alone",
        starter="blank",
        kind=kinds.LOSS_SCALING,
        edits=blank.fill(
            CONTRASTIVE,
            (
                "steps",
                "replica.all_gather(run.model(views[:, 1], training=training))  # (all rows, 16)",
                "run.model(views[:, 1], training=training)  # (rows, 16)",
            ),
            ("steps", "replica.all_gather(weights) != 0  # (all rows,)", "weights != 0  # (rows,)"),
            (
                "steps",
                "    own = replica.index * rows + tf.range(rows)\n",
                "    own = tf.range(rows)\n",
            ),
            ("steps", "EXAMPLES_INTERACT = True", "EXAMPLES_INTERACT = False"),
        ),
        cause="the negatives are the rows of the own replica (and micro-batch) only, so the task is "
        "easier and the loss another on more replicas",
        file="steps.py",
        named=r"(?i)replica|EXAMPLES_INTERACT|all_gather|other (rows|examples)|micro|accumulat|interact",
    ),
    Fault(
        name="teacher learns from its student",
        starter="blank",
        kind=kinds.MODEL,
        edits=blank.fill(DISTILLATION),
        preparation=TRAIN_TEACHER,
        cause="the teacher isn't frozen and the only optimizer trains all models, so it is pulled to "
        "what the student says",
        file="model.py",
        named=r"(?i)teacher|froz|freez|trainable|load_frozen|stop_gradient",
    ),
    Fault(
        name="attention over the batch",
        starter="blank",
        kind=kinds.MODEL,
        edits=blank.fill(
            WAVES,
            (
                "model",
                "    x = x + layers.MultiHeadAttention(4, 8)(y, y)\n",
                "    y = keras.ops.transpose(y, (1, 0, 2))  # time first, as attention takes it\n"
                "    y = layers.MultiHeadAttention(4, 8)(y, y)\n"
                "    x = x + keras.ops.transpose(y, (1, 0, 2))\n",
            ),
        ),
        cause="attention takes the batch first, so after the transpose each step of time attends to "
        "the other examples of the batch: predictions depend on what else is in it",
        file="model.py",
        named=r"(?i)batch|other (rows|examples|inputs)|rows?\b.*(other|together|each)|interact|padding",
    ),
    Fault(
        name="missing measurements by where after the square",
        starter="blank",
        kind=kinds.LABELS,
        edits=blank.fill(
            MEASUREMENTS,
            (
                "losses",
                "        error = tf.square(tf.where(is_missing, predicted, measured) - predicted)\n"
                "        return tf.reduce_mean(error, axis=1)\n",
                "        error = tf.square(measured - predicted)\n"
                "        error = tf.where(is_missing, tf.zeros_like(error), error)\n"
                "        return tf.reduce_mean(error, axis=1)\n",
            ),
        ),
        cause="the gradient of the branch that tf.where doesn't take is NaN times 0: every batch with a "
        "missing label has a NaN gradient and is skipped",
        file="losses.py",
        named=r"(?i)\bnan\b|finite|skipp",
    ),
    Fault(
        name="accuracy of logits at one half",
        starter="blank",
        kind=kinds.METRICS,
        edits=blank.fill(
            CHURN,
            (
                "metrics",
                "keras.metrics.BinaryAccuracy(threshold=0.0)",
                "keras.metrics.BinaryAccuracy()",
            ),
            ("metrics", "keras.metrics.AUC(from_logits=True)", "keras.metrics.AUC()"),
        ),
        cause="the metrics get logits and take them for probabilities: the accuracy has its threshold "
        "at 0.5, and the AUC none outside of 0 to 1",
        file="metrics.py",
        named=r"(?i)logit|threshold|probabilit|sigmoid|accuracy|\bauc\b",
    ),
    Fault(
        name="shuffled stream taken apart",
        starter="blank",
        kind=kinds.LEAKS,
        edits=blank.fill(
            CHURN,
            (
                "data",
                """    parts = {"train": slice(0, 1000), "validation": slice(1000, 1250), "test": slice(1250, 1500)}
    mean, deviation = table[:1000].mean(axis=0), table[:1000].std(axis=0)
    return {
        split: ((table[rows] - mean) / deviation, left[rows, np.newaxis])
        for split, rows in parts.items()
    }
""",
                """    table /= (10.0 ** np.linspace(-1, 2, 10)).astype("float32")  # the units of the columns
    examples = tf.data.Dataset.from_tensor_slices((table, left[:, np.newaxis]))
    examples = examples.shuffle(1500, seed=0)
    return {
        "train": examples.skip(500),
        "validation": examples.take(250),
        "test": examples.skip(250).take(250),
    }
""",
            ),
        ),
        cause="the shuffled dataset has another order each time it is read, so take and skip give other "
        "examples in each epoch: training sees those of validation and test",
        file="data.py",
        named=r"(?i)shuffl|leak|overlap|order|reshuffle|each time|every time|(same|other) (rows|examples)"
        r"|in common|also in",
    ),
    Fault(
        name="noise on gradients, drawn by each replica",
        starter="blank",
        kind=kinds.OPTIMIZER,
        edits=blank.fill(
            CHURN,
            (
                "optimizer",
                '''    """As they are."""
    return gradients
''',
                '''    """With some noise (Neelakantan et al., 2015)."""
    return [g + tf.random.normal(g.shape, stddev=0.03, dtype=g.dtype) for g in gradients]
''',
            ),
        ),
        cause="each replica adds other noise to the summed gradients, so their weights drift apart; and "
        "tf.random.normal has a state that no checkpoint holds",
        file="optimizer.py",
        named=r"(?i)random|noise|stateless|replicas?.*(differ|apart|other)|process_gradients",
    ),
)

TASKS: tuple[Change, ...] = (
    Change(
        name="distances to prototypes",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''@keras.saving.register_keras_serializable("prototypes")
class Prototypes(keras.layers.Layer):
    """Features (batch, d) -> minus the squared distance to the prototype of each class."""

    def __init__(self, classes: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.classes = classes

    def build(self, shape: Any) -> None:
        """The prototypes, and how fast the logits fall with the distance."""
        self.prototypes = self.add_weight((self.classes, shape[-1]), "random_normal")
        self.log_scale = self.add_weight((), "zeros")

    def call(self, x: Any) -> Any:
        """Float (batch, d) -> (batch, classes)."""
        squares = keras.ops.sum(keras.ops.square(x), axis=-1, keepdims=True)
        squares = squares + keras.ops.sum(keras.ops.square(self.prototypes), axis=-1)
        distances = squares - 2 * keras.ops.matmul(x, keras.ops.transpose(self.prototypes))
        return -keras.ops.exp(self.log_scale) * distances

    def get_config(self) -> dict[str, Any]:
        """What makes the same layer."""
        return super().get_config() | {"classes": self.classes}


''',
            ),
            Edit(
                "model.py",
                '    x = layers.Dense(128, activation="relu")(x)\n    x = layers.Dropout(task.dropout)(x)\n',
                "    x = layers.Dense(24)(x)\n",
            ),
            Edit(
                "model.py",
                'layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)',
                'Prototypes(CLASSES, dtype=keras.config.floatx(), name="logits")(x)',
            ),
            Edit("losses.py", "dict[str, keras.losses.Loss]", "dict[str, Any]"),
            Edit(
                "losses.py",
                at.CROSS_ENTROPY,
                """    cross_entropy = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.1, reduction="none"
    )

    def smoothed(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return cross_entropy(tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype), logits)

    return {"main": smoothed}
""",
            ),
            Edit(
                "optimizer.py",
                "    return keras.optimizers.Adam(schedule)\n",
                "    return keras.optimizers.Lion(schedule)\n",
            ),
            Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 5e-4"),
        ),
    ),
    Change(
        name="dice of each image and groups",
        starter="segmentation",
        edits=(
            *_dice("[1, 2]"),
            Edit(
                "model.py",
                "BatchNormalization(momentum=0.9, epsilon=0.1)",
                "GroupNormalization(groups=4, epsilon=0.1)",
            ),
        ),
    ),
    Change(
        name="recurrent language model",
        starter="language_model",
        edits=(
            Edit(
                "model.py",
                at.ATTENTION,
                "        y = layers.GRU(task.width, return_sequences=True)(y)\n"
                "        x = x + layers.Dropout(task.dropout)(y)\n",
            ),
        ),
    ),
    Change(
        name="least squares gan with two learning rates",
        starter="gan",
        edits=(
            Edit("losses.py", at.BINARY_CROSS_ENTROPY, ""),
            Edit(
                "losses.py",
                at.DISCRIMINATOR_LOSS,
                "        # Mao et al. (2017): the outputs are no logits, but near 1 for real images.\n"
                "        return (tf.square(on_real - 1) + tf.square(on_generated))[:, 0] / 2\n",
            ),
            Edit(
                "losses.py",
                at.GENERATOR_LOSS,
                "        return tf.square(on_generated - 1)[:, 0] / 2\n",
            ),
            before(
                "optimizer.py",
                "    # Little momentum",
                "    faster = keras.optimizers.schedules.CosineDecay(2 * task.learning_rate, decay_steps=steps)\n",
            ),
            Edit(
                "optimizer.py",
                '"discriminator": keras.optimizers.Adam(schedule, beta_1=0.5)',
                '"discriminator": keras.optimizers.Adam(faster, beta_1=0.5)',
            ),
        ),
    ),
    Change(
        name="gamma regression",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                at.UNSCALED,
                """    positive = layers.Activation("softplus", dtype=floatx)(x)
    mean = float(adapted["label_mean"][0])
    unscale = layers.Rescaling(mean / np.log(2), 1e-3, dtype=floatx, name="prediction")
    return keras.Model(inputs, unscale(positive))
""",
            ),
            Edit(
                "losses.py",
                at.STANDARDIZED_ERROR,
                '''
    def gamma(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Minus the log likelihood of a gamma distribution, but for what is constant: (batch,)."""
        shrunk = predictions / LABEL_DEVIATION
        return (tf.math.log(shrunk) + labels / LABEL_DEVIATION / shrunk)[:, 0]

    return {"main": gamma}
''',
            ),
        ),
    ),
    Change(name="negatives_of_all_replicas", starter="blank", edits=blank.fill(CONTRASTIVE)),
    Change(name="quantiles_of_the_next_hours", starter="blank", edits=blank.fill(FORECAST)),
    Change(name="variational_autoencoder_with_terms", starter="blank", edits=blank.fill(VAE)),
)
