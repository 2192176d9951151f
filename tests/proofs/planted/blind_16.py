"""Correct tasks of an eighteenth examiner, who wrote no faults; blind to `check`."""

from __future__ import annotations

from . import blank as files
from .edits import Change, Edit, Fault

FAULTS: tuple[Fault, ...] = ()

# ---------------------------------------------------------------- what all tasks in `blank` share

DATA_HEAD = '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

'''

MODEL_HEAD = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
'''

LOSSES_HEAD = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
'''

COUNT = "\n\n" + files.COUNT

METRICS_HEAD = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig

'''

OPTIMIZER_HEAD = '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig

'''

AS_THEY_ARE = '''

def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """The gradients as they are."""
    return gradients
'''

STEPS_HEAD = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
'''

THREE_STEPS = '''

def train_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return _step(run, batch, replica, training=False)


TRAIN_STEPS = (train_step,)
'''

END = """TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
"""


def _config(doc: str, rate: str, monitor: str, larger: bool = False, more: str = "") -> str:
    return f'''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{doc}"""

    learning_rate: float = {rate}  # learning rate at the start
{more}    monitor: str = "{monitor}"  # column of history.csv that selects the best weights
    larger_is_better: bool = {larger}  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {{self.learning_rate}}; it must be more than 0.")
'''


def _optimizer(create: str, process: str = AS_THEY_ARE) -> str:
    return (
        OPTIMIZER_HEAD
        + f'''
def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """An optimizer that doesn't clip."""
{create}'''
        + process
    )


def _blank(
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
    return Change(
        name=name,
        starter="blank",
        flags=flags,
        edits=(
            Edit("config.py", "", config),
            Edit("data.py", "", DATA_HEAD + data + files.NO_AUGMENT),
            Edit("model.py", "", MODEL_HEAD + model),
            Edit("losses.py", "", losses),
            Edit("metrics.py", "", METRICS_HEAD + metrics),
            Edit("optimizer.py", "", optimizer),
            Edit("steps.py", "", steps),
            Edit("callbacks.py", "", files.CALLBACKS),
            Edit("pictures.py", "", files.PICTURES),
        ),
    )


COSINE = """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
"""

# ---------------------------------------------------------------- 1. CTC

ctc = _blank(
    "ctc phone recognition with gradient centralization",
    config=_config("Phone recognition by CTC.", "2e-3", "validation_phone_error_rate"),
    data='''PHONES, FEATURES = 16, 12  # phones are 1 to PHONES; 0 is the blank, and pads labels
FRAMES, LONGEST = 64, 9  # frames of the longest utterance, and its phones
SIZES = {"train": 2_400, "validation": 288, "test": 480}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"frames": float32 (n, FRAMES, FEATURES), "length": int32 (n,)}, labels int32.

    Both are padded with zeros: frames after "length", labels (n, LONGEST) after the last phone.
    Where each phone begins is unknown: that is what CTC is for.
    """
    means = np.random.default_rng(0).standard_normal((PHONES + 1, FEATURES))
    means[0] = 0  # silence
    return {
        split: _utterances(np.random.default_rng(seed), number, means)
        for seed, (split, number) in enumerate(SIZES.items(), 1)
    }


def _utterances(
    random: np.random.Generator, number: int, means: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    frames = np.zeros((number, FRAMES, FEATURES), np.float32)
    lengths = np.zeros(number, np.int32)
    labels = np.zeros((number, LONGEST), np.int32)
    for i in range(number):
        phones = random.integers(4, LONGEST + 1)
        # Steps of 1 to PHONES - 1 in a circle: no phone follows itself.
        spoken = np.cumsum(random.integers(1, PHONES, size=phones)) % PHONES + 1
        lasting = np.repeat(spoken, random.integers(3, 7, size=phones))  # at most 54 frames
        before, after = random.integers(1, 5, size=2)
        track = np.pad(lasting, (before, after))  # silence around
        voice = 0.3 * random.standard_normal(FEATURES)  # the speaker's
        noise = 0.7 * random.standard_normal((len(track), FEATURES))
        frames[i, : len(track)] = means[track] + voice + noise
        lengths[i], labels[i, :phones] = len(track), spoken
    return {"frames": frames, "length": lengths}, labels
''',
    model='''from .data import FEATURES, FRAMES, PHONES


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: the features have a spread of about 1 as they are."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"frames", "length"} -> logits float32 (batch, FRAMES, 1 + PHONES), the blank first."""
    layers, ops = keras.layers, keras.ops
    inputs = {
        "frames": keras.Input((FRAMES, FEATURES), name="frames"),
        "length": keras.Input((), dtype="int32", name="length"),
    }
    there = ops.less(np.arange(FRAMES, dtype="int32"), ops.expand_dims(inputs["length"], -1))
    there = ops.expand_dims(ops.cast(there, keras.config.floatx()), -1)
    x = inputs["frames"]
    for _ in range(3):
        x = layers.Conv1D(64, 5, padding="same")(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("swish")(x)
        x = layers.Multiply()([x, there])  # what comes after the end stays 0
    logits = layers.Dense(1 + PHONES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(inputs, logits)
''',
    losses=LOSSES_HEAD
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log-likelihood of an utterance's phones, summed over all alignments."""

    def ctc(labels: tf.Tensor, logits: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Labels int32 (batch, LONGEST), logits (batch, FRAMES, 1 + PHONES) -> (batch,)."""
        return tf.nn.ctc_loss(
            labels=labels,
            logits=tf.transpose(logits, (1, 0, 2)),
            label_length=tf.math.count_nonzero(labels, axis=1, dtype=tf.int32),
            logit_length=lengths,
            blank_index=0,
        )

    return {"main": ctc}
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
class PhoneErrorRate(keras.metrics.Mean):
    """Insertions, deletions and substitutions of greedy decoding, per spoken phone."""

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, lengths: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add utterances: labels (batch, longest), logits (batch, frames, classes)."""
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, frames)
        before = tf.pad(best[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
        frames = best.shape[1]
        there = tf.range(frames) < lengths[:, tf.newaxis]
        kept = there & (best != before) & (best != 0)
        written = tf.ragged.boolean_mask(best, kept).to_tensor(shape=(None, frames))
        edits = tf.edit_distance(
            tf.sparse.from_dense(written), tf.sparse.from_dense(labels), normalize=False
        )
        spoken = tf.cast(tf.math.count_nonzero(labels, axis=1), sample_weight.dtype)
        rates = tf.math.divide_no_nan(tf.cast(edits, sample_weight.dtype), spoken)
        super().update_state(rates, sample_weight * spoken)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The phone error rate, which may be more than 1."""
    return {"phone_error_rate": PhoneErrorRate()}
''',
    optimizer=_optimizer(
        COSINE
        + """    return keras.optimizers.Adam(schedule)
""",
        '''

def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """Gradient centralization (Yong et al., 2020): of a kernel, each unit's gradient less its mean.

    Biases and the scales of normalization, which have one axis, keep theirs.
    """
    return [
        g - tf.reduce_mean(g, axis=list(range(g.shape.rank - 1)), keepdims=True)
        if g.shape.rank > 1
        else g
        for g in gradients
    ]
''',
    ),
    steps=STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)
    per_example = run.losses["main"](labels, logits, inputs["length"])  # (batch,)
    run.metrics["phone_error_rate"].update_state(labels, logits, inputs["length"], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 2. PINN

pinn = _blank(
    "physics-informed family of logistic growth, labels only measured",
    config=_config(
        "Logistic growth, learned from its differential equation.",
        "3e-3",
        "validation_rmse",
        more="""    width: int = 48  # units of a hidden layer
""",
    ),
    data='''END = 4.0  # of time
SIZES = {"train": 3_840, "validation": 480, "test": 960}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points float32 (n, 3), (t, r, u at t = 0), and the exact solution there, float32 (n, 1).

    Training minimizes the residual of u' = r u (1 - u) at the points and never looks at the
    solution, which is there to measure how far the network is from it.
    """
    return {
        split: _points(np.random.default_rng(seed), number)
        for seed, (split, number) in enumerate(SIZES.items())
    }


def _points(random: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    t = random.uniform(0, END, number)
    rate = random.uniform(0.5, 2.0, number)
    start = random.uniform(0.05, 0.5, number)
    exact = start / (start + (1 - start) * np.exp(-rate * t))
    points = np.stack([t, rate, start], axis=1)
    return points.astype(np.float32), exact[:, np.newaxis].astype(np.float32)
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of the collocation points."""
    points, _ = datasets["train"]
    return {"mean": points.mean(axis=0), "variance": points.var(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Points (batch, 3) -> u float (batch, 1), which is exactly the start at t = 0."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    points = keras.Input((3,), name="points")
    t, start = points[:, :1], points[:, 2:]
    x = layers.Normalization(mean=adapted["mean"], variance=adapted["variance"])(points)
    for _ in range(3):
        # Smooth: ReLU has no second derivative for the loss's gradient to use.
        x = layers.Dense(task.width, activation="tanh")(x)
    change = layers.Dense(1, dtype=floatx)(x)
    # The initial condition is built in, so that the loss needs no term for it.
    return keras.Model(points, start + (1 - ops.exp(-t)) * change)
''',
    losses=LOSSES_HEAD
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The squared residual of the differential equation."""

    def residual(points: tf.Tensor, u: tf.Tensor, du: tf.Tensor) -> tf.Tensor:
        """Points (batch, 3), u and du/dt (batch, 1) -> (batch,)."""
        rate = points[:, 1:2]
        return tf.square(du - rate * u * (1 - u))[:, 0]

    return {"main": residual}
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The distance to the exact solution."""
    return {"rmse": keras.metrics.RootMeanSquaredError()}
''',
    optimizer=_optimizer(
        COSINE
        + """    return keras.optimizers.Adam(schedule)
"""
    ),
    steps=STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    points, exact, weights = batch
    t, others = points[:, :1], points[:, 1:]
    with tf.GradientTape() as tape:
        tape.watch(t)
        u = run.model(tf.concat([t, others], axis=1), training=training)  # (batch, 1)
    # Each u depends on the t of its own row only, so the gradient of their sum is du/dt.
    du = tape.gradient(u, t)  # (batch, 1)
    per_example = run.losses["main"](points, u, du)  # (batch,)
    run.metrics["rmse"].update_state(exact, u, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 3. survival

survival = _blank(
    "weibull survival with censoring and a dead column",
    config=_config("Time to failure, often censored.", "5e-3", "validation_loss"),
    data='''FEATURES = 8  # the last one, the site, is the same for all
STUDY = 5.0  # years, after which nobody is followed
SIZES = {"train": 1_920, "validation": 384, "test": 576}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, FEATURES), labels {"time": float32 (n,), "event": float32 (n,)}.

    "time" in years until the failure (event 1), or until it was last seen intact (event 0).
    """
    return {
        split: _machines(np.random.default_rng(seed), number)
        for seed, (split, number) in enumerate(SIZES.items())
    }


def _machines(
    random: np.random.Generator, number: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    x = random.standard_normal((number, FEATURES))
    x[:, 3] = random.random(number) < 0.3  # has been repaired before
    x[:, -1] = 1.0
    scale = np.exp(0.7 + 0.6 * x[:, 0] - 0.5 * x[:, 3] + 0.4 * x[:, 1] * x[:, 2])
    shape = np.where(x[:, 4] > 0, 2.0, 1.1)
    failure = scale * random.weibull(shape)
    lost = np.minimum(random.exponential(6.0, number), STUDY)
    labels = {
        "time": np.minimum(failure, lost).astype(np.float32),
        "event": (failure <= lost).astype(np.float32),
    }
    return x.astype(np.float32), labels
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of the features; a column that never changes keeps a variance of 1."""
    x = datasets["train"][0].astype(np.float64)
    variance = x.var(axis=0)
    return {"mean": x.mean(axis=0), "variance": np.where(variance > 1e-9, variance, 1.0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Features -> float32 (batch, 2), the logarithms of a Weibull's scale and shape."""
    layers = keras.layers
    features = keras.Input(adapted["mean"].shape, name="features")
    x = layers.Normalization(mean=adapted["mean"], variance=adapted["variance"])(features)
    x = layers.Dense(32, activation="swish", kernel_regularizer=keras.regularizers.L2(1e-4))(x)
    x = layers.Dropout(0.1)(x)
    return keras.Model(features, layers.Dense(2, dtype=keras.config.floatx())(x))
''',
    losses=LOSSES_HEAD
    + '''
SHORTEST = 1e-3  # years, nine hours: what is known as 0 has no logarithm


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log-likelihood of what was seen: a failure's density, or survival so far."""

    def censored_likelihood(labels: dict[str, tf.Tensor], outputs: tf.Tensor) -> tf.Tensor:
        """Labels {"time", "event"} (batch,), outputs (batch, 2) -> (batch,)."""
        log_scale, log_shape = outputs[:, 0], outputs[:, 1]
        log_time = tf.math.log(tf.maximum(labels["time"], SHORTEST))
        hazard = cumulative_hazard(labels["time"], outputs)
        shape = tf.exp(log_shape)
        log_rate = log_shape - log_scale + (shape - 1) * (log_time - log_scale)
        return hazard - labels["event"] * log_rate

    return {"main": censored_likelihood}


def cumulative_hazard(time: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """How many failures were to be expected until `time`, float (batch,)."""
    log_time = tf.math.log(tf.maximum(time, SHORTEST))
    return tf.exp(tf.exp(outputs[:, 1]) * (log_time - outputs[:, 0]))
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Failures that were seen over those that were to be expected; 1 is ideal."""
    return {"observed_over_expected": keras.metrics.Mean()}
''',
    optimizer=_optimizer(
        COSINE
        + """    return keras.optimizers.AdamW(schedule, weight_decay=1e-3)
"""
    ),
    steps=STEPS_HEAD.replace("import compute_loss", "import compute_loss, cumulative_hazard")
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    features, labels, weights = batch
    outputs = run.model(features, training=training)  # (batch, 2)
    per_example = run.losses["main"](labels, outputs)  # (batch,)
    expected = cumulative_hazard(labels["time"], outputs)
    # Weighted by what is expected, the mean of quotients is the quotient of the sums.
    ratio = tf.math.divide_no_nan(labels["event"], expected)
    run.metrics["observed_over_expected"].update_state(ratio, weights * expected)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 4. flow

flow = _blank(
    "real nvp density, no labels, coupling layers start at zero",
    config=_config(
        "Density of detector readings by a normalizing flow.",
        "2e-3",
        "validation_loss",
        more="""    couplings: int = 6  # coupling layers
""",
    ),
    data='''SIZES = {"train": 2_880, "validation": 480, "test": 960}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Readings float32 (n, 6) of one detector; there are no labels."""
    return {
        split: _readings(np.random.default_rng(seed), number)
        for seed, (split, number) in enumerate(SIZES.items())
    }


def _readings(random: np.random.Generator, number: int) -> np.ndarray:
    a, b, c, d, e, f = random.standard_normal((6, number))
    side = np.where(random.random(number) < 0.4, -1.5, 1.5) + 0.3 * d
    bent = 0.5 * a**2 + 0.3 * b
    columns = [a, bent, np.sin(2 * a) + 0.2 * c, side, 0.5 * side * bent + 0.3 * e, np.exp(0.3 * f)]
    units = np.array([1.0, 2.0, 1.0, 10.0, 5.0, 0.1])
    return (np.stack(columns, axis=1) * units).astype(np.float32)
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of the readings."""
    readings = datasets["train"]
    return {"mean": readings.mean(axis=0), "variance": readings.var(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Readings (batch, 6) -> z (batch, 6) and the log-determinant of its Jacobian (batch, 1)."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    mean, variance = adapted["mean"], adapted["variance"]
    half = len(mean) // 2
    readings = keras.Input(mean.shape, name="readings")
    x = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(readings)
    # Standardizing is part of the flow, so that the density is one in the units of the data.
    log_det = ops.zeros_like(x[:, :1]) - float(0.5 * np.log(variance).sum())
    for _ in range(task.couplings):
        kept, changed = x[:, :half], x[:, half:]
        h = layers.Dense(48, activation="tanh", dtype=floatx)(kept)
        h = layers.Dense(48, activation="tanh", dtype=floatx)(h)
        # Zeros make each coupling begin as the identity (Kingma & Dhariwal, 2018).
        h = layers.Dense(2 * half, kernel_initializer="zeros", dtype=floatx)(h)
        log_scale = 2 * ops.tanh(h[:, :half] / 2)
        changed = changed * ops.exp(log_scale) + h[:, half:]
        log_det = log_det + ops.sum(log_scale, axis=-1, keepdims=True)
        x = ops.concatenate([changed, kept], axis=-1)  # the next one changes the other half
    return keras.Model(readings, ops.concatenate([x, log_det], axis=-1))
''',
    losses=LOSSES_HEAD
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log-density of a reading, in nats; below 0 where the density is above 1."""

    def negative_log_density(outputs: tf.Tensor) -> tf.Tensor:
        """z and the log-determinant, (batch, 7) -> (batch,)."""
        z, log_det = outputs[:, :-1], outputs[:, -1]
        normal = 0.5 * tf.reduce_sum(tf.square(z) + math.log(2 * math.pi), axis=-1)
        return normal - log_det

    return {"main": negative_log_density}
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The mean square of z, which is 1 for a standard normal distribution."""
    return {"mean_square_z": keras.metrics.Mean()}
''',
    optimizer=_optimizer("""    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [steps // 2, steps * 4 // 5],
        [task.learning_rate, task.learning_rate / 4, task.learning_rate / 20],
    )
    return keras.optimizers.Adam(schedule)
"""),
    steps=STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    readings, weights = batch
    outputs = run.model(readings, training=training)  # (batch, 7)
    per_example = run.losses["main"](outputs)  # (batch,)
    squares = tf.reduce_mean(tf.square(outputs[:, :-1]), axis=-1)  # (batch,)
    run.metrics["mean_square_z"].update_state(squares, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 5. one class

one_class = _blank(
    "one-class autoencoder of a turbine, every training label 0",
    config=_config(
        "Faults of a turbine that it never had while it was recorded.",
        "1e-2",
        "validation_loss",
        more="""    code: int = 4  # numbers that describe a healthy state
""",
    ),
    data='''SENSORS, FACTORS, DEAD = 24, 4, 7  # sensor DEAD always reads 20
SIZES = {"train": (2_400, 0.0), "validation": (576, 0.1), "test": (960, 0.1)}  # share of faults


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Readings float32 (n, SENSORS), labels int32 (n,): 1 for a fault, of which training has none.

    Where there is a fault, two sensors show values of another moment: each by itself is plausible.
    """
    plant = np.random.default_rng(0)
    mix, offset = plant.standard_normal((FACTORS, SENSORS)), plant.standard_normal(SENSORS)
    return {
        split: _readings(np.random.default_rng(seed), number, share, mix, offset)
        for seed, (split, (number, share)) in enumerate(SIZES.items(), 1)
    }


def _readings(
    random: np.random.Generator, number: int, share: float, mix: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    def moments() -> np.ndarray:
        state = random.standard_normal((number, FACTORS))
        noise = 0.1 * random.standard_normal((number, SENSORS))
        return np.tanh(state @ mix / 2 + offset / 2) + noise

    readings, others = moments(), moments()
    labels = (random.random(number) < share).astype(np.int32)
    for row in np.flatnonzero(labels):
        broken = random.choice(np.delete(np.arange(SENSORS), DEAD), 2, replace=False)
        readings[row, broken] = others[row, broken]
    readings = readings * 5 + 50
    readings[:, DEAD] = 20
    return readings.astype(np.float32), labels
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of each sensor; one that never changes keeps a variance of 1."""
    readings = datasets["train"][0].astype(np.float64)
    variance = readings.var(axis=0)
    return {"mean": readings.mean(axis=0), "variance": np.where(variance > 1e-9, variance, 1.0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Readings (batch, SENSORS) -> what is left of them after the bottleneck, standardized."""
    layers, floatx = keras.layers, keras.config.floatx()
    readings = keras.Input(adapted["mean"].shape, name="readings")
    scaled = layers.Normalization(
        mean=adapted["mean"], variance=adapted["variance"], dtype=floatx
    )(readings)
    x = layers.Dense(48, activation="gelu")(scaled)
    code = layers.Dense(task.code, name="code")(x)
    x = layers.Dense(48, activation="gelu")(code)
    again = layers.Dense(len(adapted["mean"]), dtype=floatx)(x)
    return keras.Model(readings, layers.Subtract(dtype=floatx)([scaled, again]))
''',
    losses=LOSSES_HEAD
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The mean squared residual of a moment, which is its score too."""
    return {"main": lambda residuals: tf.reduce_mean(tf.square(residuals), axis=-1)}


def healthy(labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Weights (batch,) that are 0 for faults: the loss is that of healthy moments, in all splits."""
    return tf.where(labels == 0, weights, tf.zeros_like(weights))


def count(batch: Any) -> tf.Tensor:
    """How many healthy moments `batch` has, an int32 scalar."""
    _, labels, weights = batch
    return tf.math.count_nonzero(healthy(labels, weights), dtype=tf.int32)
'''
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How well the score tells faults; 0 in training, which has one class only."""
    return {"auc": keras.metrics.AUC(num_thresholds=1_000)}
''',
    optimizer=_optimizer(
        COSINE
        + """    return keras.optimizers.Lamb(schedule)
"""
    ),
    steps=STEPS_HEAD.replace("import compute_loss", "import compute_loss, healthy")
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    readings, labels, weights = batch
    residuals = run.model(readings, training=training)  # (batch, sensors)
    scores = run.losses["main"](residuals)  # (batch,)
    # AUC wants numbers from 0 to 1; any that rise with the score give the same.
    run.metrics["auc"].update_state(labels, 1 - tf.exp(-scores), weights)
    return {"main": compute_loss(scores, healthy(labels, weights), run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 6. positive-unlabelled

pu = _blank(
    "positive-unlabelled risk that may be negative",
    config=_config("Disease genes, of which few are known.", "0.1", "validation_loss"),
    data='''FEATURES = 20
PRIOR = 0.3  # share of disease genes in the genome, known from pedigrees
KNOWN = 0.2  # share of a split's rows that are known disease genes; the others are any genes
SIZES = {"train": 2_880, "validation": 480, "test": 960}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs float32 (n, FEATURES), labels {"known": int32 (n,), "truth": int32 (n,)}.

    "known" is all that training and its loss use; genes that aren't known may be of either kind.
    "truth" came from later screens and is only reported.
    """
    shift = np.random.default_rng(0).standard_normal(FEATURES) * 0.25
    return {
        split: _genes(np.random.default_rng(seed), number, shift)
        for seed, (split, number) in enumerate(SIZES.items(), 1)
    }


def _genes(
    random: np.random.Generator, number: int, shift: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    known = random.permutation(number) < round(KNOWN * number)
    truth = known | (random.random(number) < PRIOR)
    x = random.standard_normal((number, FEATURES)) + np.where(truth[:, np.newaxis], shift, -shift)
    labels = {"known": known.astype(np.int32), "truth": truth.astype(np.int32)}
    return x.astype(np.float32), labels
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How many features there are."""
    return {"features": datasets["train"][0].shape[1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Features -> logits float32 (batch, 1); linear, since an unbounded risk is easily overfitted."""
    layers = keras.layers
    features = keras.Input((int(adapted["features"]),), name="features")
    l2 = keras.regularizers.L2(1e-3)
    logits = layers.Dense(1, kernel_regularizer=l2, dtype=keras.config.floatx())(features)
    return keras.Model(features, logits)
''',
    losses=LOSSES_HEAD.replace(
        "from .config import TaskConfig\n",
        "from .config import TaskConfig\nfrom .data import KNOWN, PRIOR\n",
    )
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The unbiased risk of positive and unlabelled examples (du Plessis et al., 2015).

    PRIOR * mean of (l(g) - l(-g)) over known genes + mean of l(-g) over the others, where
    l(g) = softplus(-g), so that l(g) - l(-g) = -g. It estimates the logistic loss of all genes as
    if each were labelled, and may be less than 0.
    """

    def risk(known: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Known int32 (batch,), logits (batch, 1) -> (batch,), whose mean is the risk."""
        logits = logits[:, 0]
        # Divided by the share of each kind: the mean over all rows is the sum of both means.
        of_known = -PRIOR / KNOWN * logits
        of_others = tf.nn.softplus(logits) / (1 - KNOWN)
        return tf.where(known == 1, of_known, of_others)

    return {"main": risk}
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Of genes that weren't known: what the ranking is worth, and how many are called."""
    return {"auc": keras.metrics.AUC(from_logits=True), "called": keras.metrics.Mean()}
''',
    optimizer=_optimizer(
        COSINE
        + """    return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
"""
    ),
    steps=STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    features, labels, weights = batch
    logits = run.model(features, training=training)  # (batch, 1)
    per_example = run.losses["main"](labels["known"], logits)  # (batch,)
    unknown = weights * tf.cast(labels["known"] == 0, weights.dtype)
    run.metrics["auc"].update_state(labels["truth"][:, tf.newaxis], logits, unknown)
    run.metrics["called"].update_state(logits[:, 0] > 0, unknown)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 7. prototypes

prototypes = _blank(
    "prototypical episodes, the same labels in each, unseen classes in the test",
    config=_config(
        "Species from three photos each, by prototypes.", "3e-4", "validation_accuracy", True
    ),
    data='''WAYS, SHOTS, QUERIES = 5, 3, 4  # classes of an episode, and photos of each that are shown and asked
TRAITS, FEATURES, PHOTOS = 6, 24, 40  # PHOTOS of each species
SPECIES = {"train": 100, "validation": 24, "test": 32}  # no species is in two splits
EPISODES = {"train": 1_920, "validation": 288, "test": 480}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """An example is an episode: features float32 (n, WAYS * (SHOTS + QUERIES), FEATURES).

    First all photos that are shown, class by class, then all that are asked for. Which species is
    called 0 is drawn anew for each episode, so the labels int32 (n, WAYS * QUERIES) are always
    0 0 0 0 1 1 1 1 ...; the model sees each photo by itself and can't know its place.
    """
    mix, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((FEATURES, FEATURES)))
    datasets = {}
    for seed, split in enumerate(SPECIES, 1):
        random = np.random.default_rng(seed)
        photos = _photos(random, SPECIES[split], mix)
        episodes = np.stack([_episode(random, photos) for _ in range(EPISODES[split])])
        labels = np.repeat(np.arange(WAYS, dtype=np.int32), QUERIES)
        datasets[split] = (episodes, np.tile(labels, (len(episodes), 1)))
    return datasets


def _photos(random: np.random.Generator, species: int, mix: np.ndarray) -> np.ndarray:
    """Float32 (species, PHOTOS, FEATURES): a few traits, and light and pose that vary more."""
    traits = random.standard_normal((species, 1, TRAITS))
    traits = traits + 0.4 * random.standard_normal((species, PHOTOS, TRAITS))
    others = 1.2 * random.standard_normal((species, PHOTOS, FEATURES - TRAITS))
    return (np.concatenate([traits, others], axis=-1) @ mix).astype(np.float32)


def _episode(random: np.random.Generator, photos: np.ndarray) -> np.ndarray:
    chosen = random.choice(len(photos), WAYS, replace=False)
    drawn = np.stack([photos[c, random.permutation(PHOTOS)[: SHOTS + QUERIES]] for c in chosen])
    shown, asked = drawn[:, :SHOTS], drawn[:, SHOTS:]
    return np.concatenate([shown.reshape(-1, FEATURES), asked.reshape(-1, FEATURES)])
''',
    model='''from .data import FEATURES, QUERIES, SHOTS, WAYS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: the features have a mean of 0 and a spread of about 1."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Episodes -> logits float32 (batch, WAYS * QUERIES, WAYS): minus squared distances."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    episodes = keras.Input((WAYS * (SHOTS + QUERIES), FEATURES), name="episodes")
    x = layers.Dense(64, activation="relu")(episodes)  # of each photo by itself
    x = layers.Dense(16, use_bias=False, dtype=floatx)(x)  # a bias would cancel in distances
    shown = ops.reshape(x[:, : WAYS * SHOTS], (-1, WAYS, SHOTS, 16))
    prototypes = ops.mean(shown, axis=2)  # (batch, WAYS, 16)
    asked = x[:, WAYS * SHOTS :]  # (batch, WAYS * QUERIES, 16)
    difference = ops.expand_dims(asked, 2) - ops.expand_dims(prototypes, 1)
    return keras.Model(episodes, -ops.sum(ops.square(difference), axis=-1))
''',
    losses=LOSSES_HEAD
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The mean cross-entropy of an episode's questions."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def of_episode(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels (batch, asked), logits (batch, asked, WAYS) -> (batch,)."""
        return tf.reduce_mean(cross_entropy(labels, logits), axis=1)

    return {"main": of_episode}
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The fraction of questions that are answered right."""
    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
''',
    optimizer=_optimizer(
        """    # Lion takes signs, hence the small learning rate (Chen et al., 2023).
"""
        + COSINE
        + """    return keras.optimizers.Lion(schedule, beta_1=0.95, beta_2=0.98, weight_decay=0.1)
"""
    ),
    steps=STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    episodes, labels, weights = batch
    logits = run.model(episodes, training=training)  # (batch, asked, WAYS)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    of_questions = tf.broadcast_to(weights[:, tf.newaxis], tf.shape(labels))
    run.metrics["accuracy"].update_state(labels, logits, of_questions)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 8. logged bandit

bandit = _blank(
    "policy from logged bandit data, inverse propensities",
    config=_config(
        "Which banner to show, learned from the log of another policy.",
        "5e-3",
        "validation_value",
        True,
        """    entropy: float = 0.01  # weight of the policy's entropy in the loss; 0 disables
""",
    ),
    data='''FEATURES, ACTIONS = 10, 6
EXPLORED = 0.3  # share of decisions that were made at random, so no propensity is below 0.05
SIZES = {"train": 5_760, "validation": 1_440, "test": 2_880}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Contexts float32 (n, FEATURES), the first one always 1, and what the log says of each.

    Labels {"action": int32 (n,), "propensity": float32 (n,), "reward": float32 (n,)}: what was
    shown, how likely the old policy was to show it, and whether it was clicked. What would have
    come of other actions isn't known.
    """
    world = np.random.default_rng(0)
    taste = world.standard_normal((FEATURES, ACTIONS)) * 0.7
    old = 0.3 * taste + 0.3 * world.standard_normal((FEATURES, ACTIONS))
    return {
        split: _log(np.random.default_rng(seed), number, taste, old)
        for seed, (split, number) in enumerate(SIZES.items(), 1)
    }


def _log(
    random: np.random.Generator, number: int, taste: np.ndarray, old: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    x = random.standard_normal((number, FEATURES))
    x[:, 0] = 1.0
    greedy = np.exp(x @ old)
    greedy /= greedy.sum(axis=1, keepdims=True)
    policy = (1 - EXPLORED) * greedy + EXPLORED / ACTIONS
    action = (policy.cumsum(axis=1) < random.random((number, 1))).sum(axis=1)
    action = np.minimum(action, ACTIONS - 1)  # a sum may be a little less than 1
    rows = np.arange(number)
    clicked = 1 / (1 + np.exp(1.0 - (x @ taste)[rows, action]))
    labels = {
        "action": action.astype(np.int32),
        "propensity": policy[rows, action].astype(np.float32),
        "reward": (random.random(number) < clicked).astype(np.float32),
    }
    return x.astype(np.float32), labels
''',
    model='''from .data import ACTIONS, FEATURES


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The mean reward of the log, the baseline."""
    _, labels = datasets["train"]
    return {"baseline": labels["reward"].mean()}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Contexts -> logits float32 (batch, ACTIONS) of the new policy."""
    contexts = keras.Input((FEATURES,), name="contexts")
    l2 = keras.regularizers.L2(1e-4)
    # Contexts begin with a 1, so no bias.
    logits = keras.layers.Dense(
        ACTIONS, use_bias=False, kernel_regularizer=l2, dtype=keras.config.floatx()
    )
    return keras.Model(contexts, logits(contexts))
''',
    losses=LOSSES_HEAD
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Minus what the policy gains over the baseline, by inverse propensities."""

    def loss(labels: dict[str, tf.Tensor], logits: tf.Tensor, baseline: tf.Tensor) -> tf.Tensor:
        """Labels (batch,), logits (batch, ACTIONS) -> (batch,), usually negative."""
        gained = (labels["reward"] - baseline) * importance(labels, logits)
        return -gained - task.entropy * entropy(logits)

    return {"main": loss}


def importance(labels: dict[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
    """How much likelier the policy takes the logged action than the old one did, (batch,)."""
    probabilities = tf.nn.softmax(logits)
    chosen = tf.gather(probabilities, labels["action"], axis=1, batch_dims=1)
    return chosen / labels["propensity"]


def entropy(logits: tf.Tensor) -> tf.Tensor:
    """Of the policy, in nats, (batch,)."""
    return -tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), axis=-1)
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The policy's mean reward, self-normalized: its weights are importances."""
    return {"value": keras.metrics.Mean()}
''',
    optimizer=_optimizer(
        COSINE
        + """    return keras.optimizers.Adam(schedule)
"""
    ),
    steps=STEPS_HEAD.replace("import compute_loss", "import compute_loss, entropy, importance")
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    contexts, labels, weights = batch
    logits = run.model(contexts, training=training)  # (batch, ACTIONS)
    baseline = tf.cast(run.adapted["baseline"], logits.dtype)
    per_example = run.losses["main"](labels, logits, baseline)  # (batch,)
    run.metrics["value"].update_state(labels["reward"], weights * importance(labels, logits))
    return {
        "main": compute_loss(per_example, weights, run.model, replica),
        "entropy": tf.nn.compute_average_loss(
            entropy(logits), sample_weight=weights, global_batch_size=replica.global_count
        ),
    }
"""
    + THREE_STEPS
    + """TERMS: tuple[str, ...] = ("entropy",)
EXAMPLES_INTERACT = False
""",
)

# ---------------------------------------------------------------- 9. two towers

towers = _blank(
    "two-tower retrieval with negatives from the batch and log-q correction",
    config=_config(
        "Recommend items: a tower for users, one for items.",
        "5e-3",
        "validation_recall_at_10",
        True,
        """    width: int = 12  # numbers that describe a user or an item
""",
    ),
    data='''USERS, ITEMS, FACTORS = 320, 400, 5
TAKEN, HELD_OUT = 30, 3  # items of a user for training; for validation, and again for the test


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"user": int32 (n,), "item": int32 (n,)}: one row for each item that a user took.

    Every user is in every split, with other items. Nobody takes an item twice. There are no labels.
    """
    random = np.random.default_rng(0)
    taste = random.standard_normal((USERS, FACTORS))
    kind = random.standard_normal((ITEMS, FACTORS))
    popular = -0.5 * np.log(random.permutation(ITEMS) + 5.0)  # a long tail
    score = 0.9 * taste @ kind.T + popular
    # The largest of scores with Gumbel noise are draws without replacement.
    noisy = score + random.gumbel(size=score.shape)
    items = np.argsort(-noisy, axis=1)[:, : TAKEN + 2 * HELD_OUT]
    items = random.permuted(items, axis=1)  # so that no split has the first, likeliest ones
    ends = {"train": slice(2 * HELD_OUT, None), "validation": slice(HELD_OUT)}
    ends["test"] = slice(HELD_OUT, 2 * HELD_OUT)
    return {split: _pairs(items[:, part]) for split, part in ends.items()}


def _pairs(items: np.ndarray) -> dict[str, np.ndarray]:
    users = np.repeat(np.arange(USERS), items.shape[1])
    return {"user": users.astype(np.int32), "item": items.reshape(-1).astype(np.int32)}
''',
    model='''from .data import ITEMS, USERS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How often training draws each item, and which items a user has taken already."""
    train = datasets["train"]
    counts = np.bincount(train["item"], minlength=ITEMS) + 1.0  # none is impossible
    seen = np.zeros((USERS, ITEMS), bool)
    seen[train["user"], train["item"]] = True
    return {"log_frequency": np.log(counts / counts.sum()).astype(np.float32), "seen": seen}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Two towers, ids (batch,) -> float32 (batch, width + 1), whose product is a score.

    The last number is 1 for a user and the item's own bias for an item.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    l2 = keras.regularizers.L2(5e-5)

    def embedding(number: int) -> keras.layers.Layer:
        initializer = keras.initializers.RandomNormal(stddev=0.2)  # one for each: they differ
        return layers.Embedding(
            number, task.width, initializer, embeddings_regularizer=l2, dtype=floatx
        )

    user = keras.Input((), dtype="int32", name="user")
    of_user = embedding(USERS)(user)
    of_user = ops.concatenate([of_user, ops.ones_like(of_user[:, :1])], axis=-1)
    item = keras.Input((), dtype="int32", name="item")
    bias = layers.Embedding(ITEMS, 1, "zeros", dtype=floatx)(item)
    of_item = ops.concatenate([embedding(ITEMS)(item), bias], axis=-1)
    return {
        "user": keras.Model(user, of_user, name="user_tower"),
        "item": keras.Model(item, of_item, name="item_tower"),
    }
''',
    losses=LOSSES_HEAD
    + '''
NEVER = -1e9  # the score of what isn't compared


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Cross-entropy of the user's own item among those of the batch."""

    def own_item(scores: tf.Tensor, place: tf.Tensor, excluded: tf.Tensor) -> tf.Tensor:
        """Scores (rows, batch), column of each row's own item (rows,), bool -> (rows,)."""
        scores = tf.where(excluded, tf.constant(NEVER, scores.dtype), scores)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=place, logits=scores)

    return {"main": own_item}
'''
    + COUNT
    + '''

def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, models: list[keras.Model], replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss; the sum over all replicas is the loss.

    Raises:
        ValueError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(f"The loss has shape {per_example.shape}, weights {weights.shape}.")
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    regularization = tf.add_n([replica.regularization(model) for model in models])
    return loss + tf.nn.scale_regularization_loss(regularization)
''',
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How often the item is among the ten best of all that the user hasn't got yet."""
    return {"recall_at_10": keras.metrics.Mean()}
''',
    optimizer=_optimizer(
        COSINE
        + """    return keras.optimizers.Adam(schedule)  # of both towers
"""
    ),
    steps=STEPS_HEAD.replace("from .losses", "from .data import ITEMS\nfrom .losses")
    + '''

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, weights = batch
    user_tower, item_tower = run.models["user"], run.models["item"]
    users = user_tower(inputs["user"], training=training)  # (rows, width + 1)
    items = item_tower(inputs["item"], training=training)

    # Every user is compared with the items of all replicas, as in one large batch.
    all_items = replica.all_gather(items)  # (batch, width + 1)
    all_ids = replica.all_gather(inputs["item"])
    all_weights = replica.all_gather(weights)
    scores = tf.matmul(users, all_items, transpose_b=True)  # (rows, batch)
    # Popular items are drawn more often as negatives than others (Yi et al., 2019).
    scores -= tf.gather(tf.constant(run.adapted["log_frequency"], scores.dtype), all_ids)
    rows = weights.shape[0]
    place = replica.index * rows + tf.range(rows)  # the column of a row's own item
    own = tf.range(tf.shape(all_ids)[0]) == place[:, tf.newaxis]
    # Neither padding nor the same item, taken by somebody else, is a negative.
    excluded = ((all_ids == inputs["item"][:, tf.newaxis]) | (all_weights == 0)) & ~own
    per_example = run.losses["main"](scores, place, excluded)  # (rows,)

    run.metrics["recall_at_10"].update_state(_found(run, inputs, users), weights)
    models = [user_tower, item_tower]
    return {"main": compute_loss(per_example, weights, models, replica)}


def _found(run: Run, inputs: dict[str, tf.Tensor], users: tf.Tensor) -> tf.Tensor:
    """Whether fewer than ten items that are new to the user score higher, bool (rows,)."""
    catalogue = run.models["item"](tf.range(ITEMS), training=False)
    scores = tf.matmul(users, catalogue, transpose_b=True)  # (rows, ITEMS)
    mine = tf.gather(scores, inputs["item"], axis=1, batch_dims=1)[:, tf.newaxis]
    new = ~tf.gather(tf.constant(run.adapted["seen"]), inputs["user"])  # (rows, ITEMS)
    return tf.math.count_nonzero(new & (scores > mine), axis=1) < 10
'''
    + THREE_STEPS
    + """TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = True  # an item is the negative of all other users in its batch
""",
)

# ---------------------------------------------------------------- 10. tiny spectra

spectra = _blank(
    "forty spectra, one batch an epoch, fractions as labels",
    flags=("--global-batch-size", "40", "--epochs", "400"),
    config=_config(
        "What a mixture is made of, from its near-infrared spectrum.", "1e-2", "validation_mae"
    ),
    data='''WAVELENGTHS, PARTS = 120, 3
SIZES = {"train": 40, "validation": 20, "test": 40}  # mixtures are weighed by hand


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Spectra float32 (n, WAVELENGTHS), and the fraction of each part, float32 (n, PARTS).

    The fractions of a mixture add up to 1.
    """
    axis = np.linspace(0, 1, WAVELENGTHS)
    chemistry = np.random.default_rng(0)
    centers, widths = chemistry.random((PARTS, 4, 1)), chemistry.uniform(0.02, 0.08, (PARTS, 4, 1))
    heights = chemistry.uniform(0.3, 1.0, (PARTS, 4, 1))
    pure = (heights * np.exp(-(((axis - centers) / widths) ** 2))).sum(axis=1)
    return {
        split: _mixtures(np.random.default_rng(seed), number, pure, axis)
        for seed, (split, number) in enumerate(SIZES.items(), 1)
    }


def _mixtures(
    random: np.random.Generator, number: int, pure: np.ndarray, axis: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    fractions = random.dirichlet(np.ones(PARTS), number)
    spectra = fractions @ pure
    # How coarse the powder is changes all of a spectrum, and has nothing to do with its parts.
    spectra *= random.uniform(0.7, 1.4, (number, 1))
    spectra += random.normal(0, 0.1, (number, 1)) + random.normal(0, 0.05, (number, 1)) * axis
    spectra += random.normal(0, 0.01, spectra.shape)
    return spectra.astype(np.float32), fractions.astype(np.float32)
''',
    model='''from .data import PARTS, WAVELENGTHS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: each spectrum is scaled by itself."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Spectra (batch, WAVELENGTHS) -> logits float32 (batch, PARTS) of the fractions."""
    ops = keras.ops
    spectra = keras.Input((WAVELENGTHS,), name="spectra")
    # Standard normal variate: of each spectrum its own mean and deviation, not those of the data.
    x = spectra - ops.mean(spectra, axis=1, keepdims=True)
    x = x / (ops.std(x, axis=1, keepdims=True) + 1e-6)
    # Linear: three times as many weights as there are numbers in a spectrum are plenty for 40.
    logits = keras.layers.Dense(PARTS, dtype=keras.config.floatx(), name="logits")
    return keras.Model(spectra, logits(x))
''',
    losses=LOSSES_HEAD
    + '''

def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Cross-entropy between the weighed and the predicted fractions.

    At best it is the entropy of the fractions, about 0.8 on average, and never 0.
    """

    def cross_entropy(fractions: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Both float (batch, PARTS) -> (batch,)."""
        return tf.nn.softmax_cross_entropy_with_logits(labels=fractions, logits=logits)

    return {"main": cross_entropy}
'''
    + COUNT
    + files.COMPUTE_LOSS,
    metrics='''
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The mean absolute error of a fraction."""
    return {"mae": keras.metrics.MeanAbsoluteError()}
''',
    optimizer=_optimizer("""    # The learning rate stays: every step sees all examples, so there is no noise to average out.
    return keras.optimizers.AdamW(task.learning_rate, weight_decay=1e-2)
"""),
    steps=STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    spectra, fractions, weights = batch
    logits = run.model(spectra, training=training)  # (batch, PARTS)
    per_example = run.losses["main"](fractions, logits)  # (batch,)
    run.metrics["mae"].update_state(fractions, tf.nn.softmax(logits), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + THREE_STEPS
    + END,
)

# ---------------------------------------------------------------- 11. noisy labels

noisy_labels = Change(
    name="noisy training labels and generalized cross-entropy",
    starter="image_classification",
    edits=(
        Edit(
            "data.py",
            """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
            """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
NOISE, NOISE_SEED = 0.3, 0  # fraction of training labels that the annotators got wrong
CLASSES = 10
""",
        ),
        Edit(
            "data.py",
            """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
            """    datasets = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    # A benchmark of learning from noisy labels: those of training are drawn to be wrong, others
    # are right, since they are to tell what was learned. So accuracy is lower in training, where
    # it can hardly be more than 0.7.
    images, labels = datasets["train"]
    datasets["train"] = images, _with_noise(labels)
    return datasets
""",
            "create_datasets",
        ),
        Edit(
            "data.py",
            """def _load_digits() ->""",
            '''def _with_noise(labels: np.ndarray) -> np.ndarray:
    """Some labels replaced by any other class, always the same ones."""
    random = np.random.default_rng(NOISE_SEED)
    is_wrong = random.random(len(labels)) < NOISE
    others = (labels + random.integers(1, CLASSES, len(labels))) % CLASSES
    return np.where(is_wrong, others, labels)


def _load_digits() ->''',
        ),
        Edit(
            "losses.py",
            """from __future__ import annotations

from typing import Any
""",
            """from __future__ import annotations

from collections.abc import Callable
from typing import Any
""",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def generalized(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """(1 - p^q) / q of the label's probability p (Zhang & Sabuncu, 2018): at most 1 / q.

        Between cross-entropy (q = 0), which insists on wrong labels, and 1 - p (q = 1).
        """
        log_p = -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        return -tf.math.expm1(task.q * log_p) / task.q

    return {"main": generalized}
''',
            "create_losses",
        ),
        Edit(
            "config.py",
            """    shift: float = 0.5  # largest""",
            """    q: float = 0.7  # how little the loss minds wrong labels, more than 0 and at most 1
    shift: float = 0.5  # largest""",
        ),
        Edit(
            "config.py",
            """        if not self.learning_rate > 0:
""",
            """        if not 0 < self.q <= 1:
            raise ValueError(f"--q is {self.q}; it must be more than 0 and at most 1.")
        if not self.learning_rate > 0:
""",
        ),
    ),
)

# ---------------------------------------------------------------- 12. multiple instances

multiple_instances = Change(
    name="multiple-instance bags of digits, only the bag has a label",
    starter="image_classification",
    edits=(
        Edit(
            "config.py",
            '"""Image classification."""',
            '"""Does a bag of images hold one of a class? Which one it is, no label says."""',
        ),
        Edit(
            "data.py",
            """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
            """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
BAG, WANTED = 5, 9  # images in a bag, and the class that makes it positive: 41% of all bags
MOST_BAGS = 6_000
""",
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Bags of each split: images float32 (n, BAG, h, w, 1) in [0, 1], labels float32 (n, 1).

    The images of a bag are of its own split, where they are in several bags.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    datasets = {}
    for seed, (split, (images, labels)) in enumerate(splits.items()):
        random = np.random.default_rng(seed)
        chosen = random.integers(len(images), size=(min(2 * len(images), MOST_BAGS), BAG))
        positive = (labels[chosen] == WANTED).any(axis=1, keepdims=True)
        bags = images[chosen].astype("float32")[..., np.newaxis]
        datasets[split] = (bags, positive.astype("float32"))
    return datasets
''',
            "create_datasets",
        ),
        Edit(
            "data.py",
            """        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
""",
            """        flat = tf.reshape(images, (-1, *images.shape[2:]))  # each image has a shift of its own
        shifts = tf.random.stateless_uniform((flat.shape[0], 2), seed, -task.shift, task.shift)
""",
        ),
        Edit(
            "data.py",
            """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
            """        shifted = keras.ops.image.affine_transform(flat, transforms)
        return tf.reshape(shifted, images.shape), labels, weights
""",
        ),
        Edit("model.py", "CLASSES = 10\n", "FILTERS = (32, 64)\n"),
        Edit(
            "model.py",
            "",
            '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Bags float (batch, BAG, h, w, 1) -> logits float32 (batch, 1).

    Attention weighs the images of a bag, in any order (Ilse et al., 2018).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, ops = keras.layers, keras.ops
    l2 = keras.regularizers.L2(task.l2)
    bags = keras.Input(adapted["shape"], name="bags")
    x = bags
    for filters in FILTERS:
        # A kernel of depth 1 sees each image of a bag by itself.
        x = layers.Conv3D(filters, (1, 3, 3), padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling3D((1, 2, 2))(x)
    size, height, width, channels = x.shape[1:]
    x = layers.Reshape((size, height * width * channels))(x)  # (batch, BAG, features)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(64, activation="relu")(x)
    scores = layers.Dense(1)(layers.Dense(32, activation="tanh")(x))  # (batch, BAG, 1)
    attention = layers.Softmax(axis=1, name="attention")(scores)  # over the bag
    x = ops.sum(attention * x, axis=1)  # (batch, 64)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(bags, logits)
''',
            "create_model",
        ),
        Edit(
            "losses.py",
            """    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
""",
            """    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")}
""",
        ),
        Edit(
            "metrics.py",
            """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
            """    return {"accuracy": keras.metrics.BinaryAccuracy(threshold=0.0)}  # of logits
""",
        ),
        Edit("pictures.py", "", files.PICTURES),
        Edit(
            "predictions.py",
            "",
            '''"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    return {"probability": np.asarray(tf.sigmoid(outputs))[:, 0]}
''',
        ),
    ),
)

# ---------------------------------------------------------------- 13. scribbles

scribbles = Change(
    name="segmentation from a tenth of the pixels",
    starter="segmentation",
    edits=(
        Edit(
            "data.py",
            """FAINT, DARK = 0.375, 0.5  # ink""",
            """LABELLED, LABELLED_SEED = 0.1, 3  # fraction of a training canvas's pixels that were annotated
FAINT, DARK = 0.375, 0.5  # ink""",
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int32 (n, h, w).

    Annotators click points: of a training canvas they label a few pixels, and others are ignored.
    What is held out is labelled as a whole, so that results are those of whole canvases.
    """
    with np.load(DIGITS) as file:
        datasets = {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
    images, labels = datasets["train"]
    clicked = np.random.default_rng(LABELLED_SEED).random(labels.shape) < LABELLED
    datasets["train"] = images, np.where(clicked, labels, IGNORED).astype(np.int32)
    return datasets
''',
            "create_datasets",
        ),
    ),
)

# ---------------------------------------------------------------- 14. least squares GAN with R1

least_squares_gan = Change(
    name="least-squares GAN with targets -1 and 1 and an R1 penalty",
    starter="gan",
    edits=(
        Edit(
            "config.py",
            """    dropout: float = 0.3  # fraction of the discriminator's features that training drops; 0 disables
""",
            """    dropout: float = 0.0  # fraction of the discriminator's features that training drops; 0 disables
    r1: float = 0.1  # weight of the discriminator's squared slope at real images; 0 disables
""",
        ),
        Edit(
            "config.py",
            """        if not self.learning_rate > 0:
""",
            """        if not self.r1 >= 0:
            raise ValueError(f"--r1 is {self.r1}; it must be at least 0.")
        if not self.learning_rate > 0:
""",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; the discriminator's outputs (batch, 1) give one number per example.

    Least squares (Mao et al., 2017) with 1 for real images, -1 for generated ones, and 0, where the
    discriminator can't tell, as the generator's aim: that minimizes a Pearson chi-squared distance.
    """

    def discriminator_loss(
        on_real: tf.Tensor, on_generated: tf.Tensor, slopes: tf.Tensor
    ) -> tf.Tensor:
        """Low if outputs are 1 on real images and -1 on generated ones, and flat at real ones.

        Slopes: of the outputs at real images, (batch, h, w, channels); Mescheder et al. (2018).
        """
        loss = (tf.square(on_real - 1) + tf.square(on_generated + 1))[:, 0] / 2
        return loss + task.r1 / 2 * tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3])

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if outputs are 0 on generated images."""
        return tf.square(on_generated)[:, 0] / 2

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
            "create_losses",
        ),
        Edit(
            "steps.py",
            """# TODO(11): one train step;""",
            '''def on_real_images(
    discriminator: keras.Model, images: tf.Tensor, training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """The discriminator's outputs (batch, 1), and their slopes (batch, h, w, channels)."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        outputs = discriminator(images, training=training)
    return outputs, tape.gradient(outputs, images)


# TODO(11): one train step;''',
        ),
        Edit("steps.py", "import tensorflow as tf\n", "import keras\nimport tensorflow as tf\n"),
        Edit(
            "steps.py",
            """    on_real = discriminator(images, training=True)  # (batch, 1)
""",
            """    on_real, slopes = on_real_images(discriminator, images, training=True)
""",
            "discriminator_step",
        ),
        Edit(
            "steps.py",
            """run.losses["discriminator"](on_real, on_generated)""",
            """run.losses["discriminator"](on_real, on_generated, slopes)""",
            "discriminator_step",
        ),
        Edit(
            "steps.py",
            """    on_real = discriminator(images, training=False)  # (batch, 1)
""",
            """    on_real, slopes = on_real_images(discriminator, images, training=False)
""",
            "validation_step",
        ),
        Edit(
            "steps.py",
            """run.losses["discriminator"](on_real, on_generated)""",
            """run.losses["discriminator"](on_real, on_generated, slopes)""",
            "validation_step",
        ),
    ),
)

# ---------------------------------------------------------------- 15. tied embeddings

tied = Change(
    name="language model with tied embeddings, z-loss and misspelled prompts",
    starter="language_model",
    edits=(
        Edit(
            "config.py",
            """    warmup: float = 0.05""",
            """    misspelled: float = 0.02  # fraction of a training prompt's characters that are hidden; 0: none
    warmup: float = 0.05""",
        ),
        Edit(
            "config.py",
            """        if not 0 <= self.warmup < 1:
""",
            """        if not 0 <= self.misspelled < 1:
            raise ValueError(f"--misspelled is {self.misspelled}; it must be from 0 to below 1.")
        if not 0 <= self.warmup < 1:
""",
        ),
        Edit(
            "data.py",
            """ANSWER_LENGTH = len("1979-05-03\\n")
""",
            """ANSWER_LENGTH = len("1979-05-03\\n")
HIDDEN = 26  # ASCII's "substitute", which no line holds
""",
        ),
        Edit(
            "data.py",
            """        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)
""",
            """        parts = (tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)
        tokens, targets, weights = parts
        # Inputs only: targets in a prompt have weight 0, and the answer is written as it was.
        in_prompt = tf.cumsum(tf.cast(tokens == PROMPT_END, tf.int32), axis=1) == 0
        drawn = tf.random.stateless_uniform(tf.shape(tokens), other_seed)
        hidden = in_prompt & (drawn < task.misspelled)
        return tf.where(hidden, HIDDEN, tokens), targets, weights
""",
        ),
        Edit(
            "data.py",
            """        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)
""",
            """        form_seed, other_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        form = tf.random.stateless_uniform((rows,), form_seed, 0, forms, tf.int32)
""",
        ),
        Edit(
            "model.py",
            """from .data import ANSWER_LENGTH, TOKENS
""",
            '''from .data import ANSWER_LENGTH, TOKENS


@keras.saving.register_keras_serializable("task")
class TiedEmbedding(keras.layers.Layer):
    """Tokens to vectors and, with reverse=True, vectors to logits, by the same table."""

    def __init__(self, tokens: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokens, self.width = tokens, width

    def build(self, input_shape: Any) -> None:
        """Make the table, of vectors with a length of about 1."""
        self.table = self.add_weight(
            shape=(self.tokens, self.width),
            initializer=keras.initializers.RandomNormal(stddev=self.width**-0.5),
            name="table",
        )

    def call(self, x: Any, reverse: bool = False) -> Any:
        """Int (batch, T) -> (batch, T, width); reversed, (batch, T, width) -> (batch, T, tokens)."""
        ops, floatx = keras.ops, keras.config.floatx()
        if not reverse:
            return ops.take(self.table, x, axis=0)
        # In full precision even under --precision float16.
        return ops.matmul(ops.cast(x, floatx), ops.transpose(ops.cast(self.table, floatx)))

    def get_config(self) -> dict[str, Any]:
        """What __init__ takes."""
        return {**super().get_config(), "tokens": self.tokens, "width": self.width}
''',
        ),
        Edit(
            "model.py",
            """    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
""",
            """    embedding = TiedEmbedding(TOKENS, task.width)
    x = embedding(tokens)  # (batch, T, width)
""",
        ),
        Edit(
            "model.py",
            """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(tokens, logits)
""",
            """    return keras.Model(tokens, embedding(x, reverse=True))
""",
        ),
        Edit(
            "losses.py",
            """from __future__ import annotations

from typing import Any
""",
            """from __future__ import annotations

from collections.abc import Callable
from typing import Any
""",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (targets, logits) -> one number per token."""

    def with_z_loss(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Cross-entropy, and a little that keeps log Z near 0 (Chowdhery et al., 2022)."""
        log_z = tf.reduce_logsumexp(logits, axis=-1)  # (batch, T)
        right = tf.gather(logits, targets, axis=-1, batch_dims=2)
        return log_z - right + 1e-4 * tf.square(log_z)

    return {"main": with_z_loss}
''',
            "create_losses",
        ),
    ),
)

# ---------------------------------------------------------------- 16. quantiles

quantiles = Change(
    name="three quantiles that can't cross, by pinball loss",
    starter="tabular_regression",
    edits=(
        Edit(
            "model.py",
            """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
""",
            """    x = layers.Dense(3, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 3)
    median = x[:, 1:2]
    # The outer quantiles are distances from the median, and none is below 0.
    low, high = median - ops.softplus(x[:, :1]), median + ops.softplus(x[:, 2:])
    x = ops.concatenate([low, median, high], axis=-1)
    mean, variance = (np.repeat(adapted[f"label_{of}"], 3) for of in ("mean", "variance"))
""",
        ),
        Edit(
            "model.py",
            """"sex": int64 (batch,)} -> float32 (batch, 1).
""",
            """"sex": int64 (batch,)} -> three quantiles.
""",
        ),
        Edit(
            "losses.py",
            """LABEL_DEVIATION = 77.0  # standard deviation of the labels
""",
            """LABEL_DEVIATION = 77.0  # standard deviation of the labels
QUANTILES = (0.1, 0.5, 0.9)
""",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), predictions (batch, 3) in units of the data -> float (batch,)."""
        errors = (labels - predictions) / LABEL_DEVIATION  # (batch, 3)
        q = tf.constant(QUANTILES, errors.dtype)
        return tf.reduce_mean(tf.maximum(q * errors, (q - 1) * errors), axis=-1)

    return {"main": pinball}
''',
            "create_losses",
        ),
        Edit(
            "metrics.py",
            """    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}
""",
            """    # Those of the median; and how often the label is between the outer quantiles, ideally 0.8.
    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, "coverage": keras.metrics.Mean()}
""",
        ),
        Edit(
            "steps.py",
            "",
            STEPS_HEAD
            + """

def _step(run: Run, batch: Any, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, 3)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    low, median, high = tf.split(predictions, 3, axis=1)  # each (batch, 1)
    run.metrics["mae"].update_state(labels, median, weights)
    run.metrics["r2"].update_state(labels, median, weights)
    covered = (low <= labels) & (labels <= high)
    run.metrics["coverage"].update_state(covered[:, 0], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
            + THREE_STEPS
            + END,
        ),
        Edit(
            "pictures.py",
            """        return predict_in_parts(run.model, inputs)[:, 0]
""",
            """        return predict_in_parts(run.model, inputs)[:, 1]  # the median
""",
        ),
        Edit(
            "predictions.py",
            """    return {"progression": np.asarray(outputs)[:, 0]}
""",
            """    low, median, high = np.asarray(outputs).T
    return {"progression": median, "low": low, "high": high}
""",
        ),
    ),
)

TASKS: tuple[Change, ...] = (
    ctc,
    pinn,
    survival,
    flow,
    one_class,
    pu,
    prototypes,
    bandit,
    towers,
    spectra,
    noisy_labels,
    multiple_instances,
    scribbles,
    least_squares_gan,
    tied,
    quantiles,
)
