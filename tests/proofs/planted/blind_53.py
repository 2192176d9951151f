"""Tasks of an examiner, all correct ones."""

from __future__ import annotations

from .blind_51 import whole
from .edits import Edit, Fault
from .unusual import change_of

# What the tasks have alike, or nearly so.
ALIKE = whole(
    callbacks='''
"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None."""
    return []
''',
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """How fast an enzyme works, and how sure that is, from sixty measurements."""

    learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine
    l2: float = 2e-2  # factor of the squared weights in the loss; 0 disables
    passes: int = 32  # over the measurements in an epoch
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if not self.l2 >= 0:
            raise ValueError(f"--l2 is {self.l2}; it must be at least 0.")
        if not self.passes >= 1:
            raise ValueError(f"--passes is {self.passes}; it must be at least 1.")
''',
    losses='''
"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """The squared error of the noise: (batch, coordinates) twice -> (batch,)."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}


def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss, a float scalar; the sum over all replicas is the loss.

    Args:
        per_example: float (batch,).
        weights: float (batch,), 0 for padding.
        model: the model whose regularization losses are added.
        replica: its `global_count` is `count` summed over all replicas.

    Raises:
        ValueError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss has shape {per_example.shape} and its weights {weights.shape}: create it "
            'with reduction="none", and average over further axes with tf.reduce_mean.'
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
''',
    optimizer='''
"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam with a learning rate that falls to 0 along a cosine."""
    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(task.learning_rate, steps))


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """As they are."""
    return gradients
''',
    pictures='''
"""Pictures of training examples and of predictions: none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
''',
    predictions='''
"""What `predict` can read beside .npy and .npz files, and what it writes of each prediction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

# Functions (file, model) -> inputs with a row per example, as the model takes them, by file suffix.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table, with a row per example."""
    return {"noise": np.asarray(outputs)}
''',
    steps='''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import OCCURRING
from .losses import compute_loss

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, tags, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The training loss of this replica's part of a batch."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The validation loss of this replica's part of a batch."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The test loss of this replica's part of a batch."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, tags, weights = batch
    logits = run.model(inputs, training=training)  # (batch, tags)
    per_example = run.losses["main"](tags, logits)  # (batch,)
    run.metrics["auc"].update_state(tags[:, :OCCURRING], logits[:, :OCCURRING], weights)
    run.metrics["f1"].update_state(tags, tf.sigmoid(logits), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
)

ASSAY = (
    *ALIKE,
    *whole(
        data='''
"""The measurements of each split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

MEASUREMENTS, TRAIN, VALIDATION = 60, 36, 12  # the other twelve are the test
COLUMNS = ("concentration", "temperature", "pH", "volume")
CONCENTRATION = 0  # mol/l, over four orders of magnitude: its logarithm matters


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Readings float32 (n, columns), NaN where missing, rates float32 (n, 1) in mol/s.

    The training data has each row `passes` times, so that an epoch has several steps. All
    measurements were made at the same temperature.
    """
    random = np.random.default_rng(7)
    concentration = 10 ** random.uniform(-9, -5, MEASUREMENTS)
    temperature = np.full(MEASUREMENTS, 310.15)
    acidity = random.normal(7.2, 0.3, MEASUREMENTS)
    volume = random.uniform(1e-6, 5e-6, MEASUREMENTS)
    rate = 4e-7 * concentration / (2e-7 + concentration) * np.exp(-((acidity - 7.2) ** 2))
    rate = rate * random.normal(1, 0.08, MEASUREMENTS) + random.normal(0, 4e-9, MEASUREMENTS)
    acidity[random.random(MEASUREMENTS) < 0.15] = np.nan  # the electrode was broken
    readings = np.stack([concentration, temperature, acidity, volume], axis=1).astype("float32")
    rates = rate.astype("float32")[:, np.newaxis]
    ends = [TRAIN, TRAIN + VALIDATION]
    parts = zip(np.split(readings, ends), np.split(rates, ends), strict=True)
    train, validation, test = parts
    train = tuple(np.tile(part, (task.passes, 1)) for part in train)
    return {"train": train, "validation": validation, "test": test}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: readings are exact."""
    return None
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The mean error in nmol/s, and how many rates are within two deviations: about 95%."""
    return {"error_nmol": keras.metrics.Mean(), "covered": keras.metrics.Mean()}
''',
        model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import CONCENTRATION


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and deviation of each reading that is there, and of the rates."""
    readings, rates = (part.astype("float64") for part in datasets["train"])
    readings[:, CONCENTRATION] = np.log(readings[:, CONCENTRATION])
    deviation = np.nanstd(readings, axis=0)
    return {
        "mean": np.nanmean(readings, axis=0),
        "deviation": np.where(deviation > 1e-12, deviation, 1.0),  # the temperature never changes
        "rate_mean": rates.mean(),
        "rate_deviation": rates.std(),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Readings (batch, columns) -> mean and deviation of the rate (batch, 2), in mol/s."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    l2 = keras.regularizers.L2(task.l2)
    mean, deviation = (adapted[name].astype(floatx) for name in ("mean", "deviation"))
    readings = keras.Input(mean.shape, dtype=floatx, name="readings")
    logged = ops.concatenate([ops.log(readings[:, :1]), readings[:, 1:]], axis=1)
    scaled = (logged - mean) / deviation
    missing = ops.isnan(scaled)
    x = ops.concatenate([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)], axis=1)
    x = layers.Dense(24, activation="tanh", kernel_regularizer=l2)(x)
    center = layers.Dense(1, kernel_regularizer=l2, dtype=floatx, name="center")(x)
    softplus: dict[str, Any] = {"activation": "softplus", "kernel_regularizer": l2}
    spread = layers.Dense(1, **softplus, dtype=floatx, name="spread")(x)
    unit = float(adapted["rate_deviation"])
    outputs = [center * unit + float(adapted["rate_mean"]), (spread + 0.1) * unit]
    return keras.Model(readings, ops.concatenate(outputs, axis=1))
''',
    ),
    Edit(
        "losses.py",
        "from __future__ import annotations\n\n",
        "from __future__ import annotations\n\nimport math\nfrom collections.abc import Callable\n",
    ),
    Edit(
        "losses.py",
        'def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:\n    """The squared error of the noise: (batch, coordinates) twice -> (batch,)."""\n    return {"main": keras.losses.MeanSquaredError(reduction="none")}\n',
        'def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:\n    """Minus the log density of a rate; rates are about 1e-7, so densities are about 1e7."""\n\n    def negative_log_likelihood(rates: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:\n        """Rates (batch, 1), means and deviations (batch, 2) -> (batch,)."""\n        mean, deviation = tf.unstack(predictions, axis=1)\n        error = (rates[:, 0] - mean) / deviation\n        return 0.5 * tf.square(error) + tf.math.log(deviation) + 0.5 * math.log(2 * math.pi)\n\n    return {"main": negative_log_likelihood}\n',
    ),
    Edit(
        "predictions.py",
        '    return {"noise": np.asarray(outputs)}\n',
        '    outputs = np.asarray(outputs)\n    return {"rate": outputs[:, 0], "deviation": outputs[:, 1]}\n',
    ),
    Edit("steps.py", "from .data import OCCURRING\n", ""),
    Edit(
        "steps.py",
        "Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, tags, weights (batch,)\n",
        "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # readings, rates (batch, 1), weights (batch,)\nNMOL = 1e-9\n",
    ),
    Edit(
        "steps.py",
        '    inputs, tags, weights = batch\n    logits = run.model(inputs, training=training)  # (batch, tags)\n    per_example = run.losses["main"](tags, logits)  # (batch,)\n    run.metrics["auc"].update_state(tags[:, :OCCURRING], logits[:, :OCCURRING], weights)\n    run.metrics["f1"].update_state(tags, tf.sigmoid(logits), weights)\n',
        '    readings, rates, weights = batch\n    predictions = run.model(readings, training=training)  # (batch, 2)\n    per_example = run.losses["main"](rates, predictions)  # (batch,)\n    error = tf.abs(rates[:, 0] - predictions[:, 0])  # (batch,)\n    run.metrics["error_nmol"].update_state(error / NMOL, weights)\n    covered = tf.cast(error < 2 * predictions[:, 1], weights.dtype)\n    run.metrics["covered"].update_state(covered, weights)\n',
    ),
)

DIFFUSION = (
    *ALIKE,
    *whole(
        config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Denoising diffusion: poses of an arm with three joints."""

    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine
    decay: float = 0.99  # what a step keeps of the average of the weights
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if not 0 <= self.decay < 1:
            raise ValueError(f"--decay is {self.decay}; it must be from 0 to less than 1.")
''',
        data='''
"""The poses of each split, and the noise on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import TaskConfig

POSES = {"train": 4096, "validation": 768, "test": 768}
COORDINATES = 6  # x and y of three joints
LOWEST, HIGHEST = 0.02, 0.98  # level of noise: 0 is none, 1 nothing else


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Poses float32 (n, COORDINATES); in evaluation noisy ones, their level, and the noise.

    Evaluation has the same noise in every epoch and run, so that its results depend on the weights
    only. In training `create_augment` draws another one for each step.
    """
    random = np.random.default_rng(0)
    train, *others = (_poses(random, number) for number in POSES.values())
    return {"train": train} | {
        split: _fixed_noise(random, poses)
        for split, poses in zip(("validation", "test"), others, strict=True)
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that draws level and noise of each pose.

    The result has the parts that a train step gets: inputs, noise, weights.
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        poses, weights = batch
        for_level, for_noise = tf.unstack(tf.random.split(seed, 2))
        rows, dtype = poses.shape[0], poses.dtype
        level = tf.random.stateless_uniform((rows, 1), for_level, LOWEST, HIGHEST, dtype)
        noise = tf.random.stateless_normal((rows, COORDINATES), for_noise, dtype=dtype)
        return {"noisy": noisy(poses, level, noise), "level": level}, noise, weights

    return augment


def noisy(poses: Any, level: Any, noise: Any) -> Any:
    """Poses (n, COORDINATES) at levels (n, 1): the variance stays about 1."""
    angle = level * (np.pi / 2)
    return keras.ops.cos(angle) * poses + keras.ops.sin(angle) * noise


def _fixed_noise(random: np.random.Generator, poses: np.ndarray) -> tuple[dict[str, Any], Any]:
    level = np.linspace(LOWEST, HIGHEST, len(poses), dtype="float32")
    level = random.permutation(level)[:, np.newaxis]
    noise = random.standard_normal(poses.shape, "float32")
    inputs = {"noisy": np.asarray(noisy(poses, level, noise)), "level": level}
    return inputs, noise


def _poses(random: np.random.Generator, number: int) -> np.ndarray:
    """Three links of length 1, each turned a little from the one before."""
    angles = random.normal(0, 0.7, (number, 3)).cumsum(axis=1)
    joints = np.stack([np.cos(angles), np.sin(angles)], axis=-1).cumsum(axis=1)  # (n, 3, 2)
    centered = joints - np.array([[0.8, 0], [1.4, 0], [1.8, 0]])
    return centered.reshape(number, COORDINATES).astype("float32")
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The squared error where there is little noise, which is hard to see, and where much."""
    return {"little_noise": keras.metrics.Mean(), "much_noise": keras.metrics.Mean()}
''',
        model='''
"""The models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import COORDINATES

WIDTH, WAVES = 96, (1.0, 2.0, 4.0, 8.0)


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: poses are centered, and of the order of one."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """The network that trains, and the moving average of its weights, which evaluates.

    Each maps noisy poses (batch, COORDINATES) and levels (batch, 1) to noise (batch, COORDINATES).
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    pose = keras.Input((COORDINATES,), name="noisy")
    level = keras.Input((1,), name="level")
    angles = level * (np.pi / 2 * np.array(WAVES, floatx))  # (batch, waves)
    x = layers.Concatenate()([pose, ops.sin(angles), ops.cos(angles)])
    x = layers.Dense(WIDTH, activation="silu")(x)
    for _ in range(2):
        x = x + layers.Dense(WIDTH, activation="silu")(x)
    noise = layers.Dense(COORDINATES, dtype=floatx, name="noise")(x)
    trained = keras.Model({"noisy": pose, "level": level}, noise)
    average = keras.models.clone_model(trained)
    average.set_weights(trained.get_weights())
    average.trainable = False  # no optimizer moves it
    return {"trained": trained, "average": average}
''',
        steps='''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import keras
import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, noise, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """Predict the noise; the average follows."""
    move_average(run, replica)
    return _step(run, batch, replica, run.models["trained"], training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The average predicts."""
    return _step(run, batch, replica, run.models["average"], training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """As in validation."""
    return validation_step(run, batch, replica)


def move_average(run: Run, replica: Replica) -> None:
    """In each step, average = decay * average + (1 - decay) * weights; faster in the beginning."""
    step = tf.cast(replica.step, keras.config.floatx())
    decay = tf.minimum(tf.cast(run.task.decay, step.dtype), (1 + step) / (10 + step))
    kept = decay ** (1 / replica.num_microbatches)  # each micro-batch calls this
    pairs = zip(run.models["average"].weights, run.models["trained"].weights, strict=True)
    for mean, weight in pairs:
        mean.assign(kept * mean.value + (1 - kept) * weight.value)


def _step(
    run: Run, batch: Batch, replica: Replica, model: keras.Model, *, training: bool
) -> dict[str, tf.Tensor]:
    inputs, noise, weights = batch
    per_example = run.losses["main"](noise, model(inputs, training=training))  # (batch,)
    is_little = tf.cast(inputs["level"][:, 0] < 0.3, weights.dtype)
    run.metrics["little_noise"].update_state(per_example, weights * is_little)
    run.metrics["much_noise"].update_state(per_example, weights * (1 - is_little))
    return {"main": compute_loss(per_example, weights, model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
    ),
)

INVENTORY = (
    *ALIKE,
    *whole(
        config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Offline reinforcement learning: how much a shop orders each evening, learned from logs."""

    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine
    discount: float = 0.8  # what the value of tomorrow counts today
    copy_every: int = 25  # steps between two copies of the network into the target network
    monitor: str = "validation_regret"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if not 0 <= self.discount < 1:
            raise ValueError(f"--discount is {self.discount}; it must be from 0 to less than 1.")
        if not self.copy_every >= 1:
            raise ValueError(f"--copy-every is {self.copy_every}; it must be at least 1.")
''',
        data='''
"""The logs of each split: what shops had, ordered, earned, and had the day after."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

SHOPS = {"train": 300, "validation": 60, "test": 60}
MOST_STOCK, ORDERS, WEEKDAYS, MOST_DEMAND = 12, 5, 7, 9
LOGGED_DAYS, CLOSING = 40, 0.02  # CLOSING: how likely a shop closes for good, each day
STORAGE, DELIVERY = 0.03, 0.8  # what a unit costs over night, and a delivery
MEAN_DEMAND = np.array([1.0, 1.0, 1.5, 1.5, 2.5, 4.0, 0.5])  # on each weekday


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """States float32 (n, 4), and labels: a dict of what followed. A shop is in one split only.

    A state is the stock, the weekday as sine and cosine, and the margin of a unit. Labels are the
    order int64 (n,), the reward float32 (n,), the next state float32 (n, 4), whether the shop
    closed, float32 (n,), and, since these shops are simulated, the true value of each order,
    float32 (n, ORDERS), which only the metric looks at.
    """
    random = np.random.default_rng(0)
    return {split: _logs(random, shops, task.discount) for split, shops in SHOPS.items()}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: logs are what happened."""
    return None


def _logs(
    random: np.random.Generator, shops: int, discount: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    margins = random.uniform(0.2, 1.5, shops)
    values = true_values(margins, discount)  # (shops, stock, weekday, ORDERS)
    stock, weekday = random.integers(0, 6, shops), random.integers(0, WEEKDAYS, shops)
    shop, rows = np.arange(shops), []
    for _ in range(LOGGED_DAYS):
        usual = np.clip(5 - stock, 0, ORDERS - 1)  # what the shopkeepers do, half of the time
        order = np.where(random.random(shops) < 0.5, usual, random.integers(0, ORDERS, shops))
        level = np.minimum(stock + order, MOST_STOCK)
        demand = np.minimum(random.poisson(MEAN_DEMAND[weekday]), MOST_DEMAND)
        sold = np.minimum(level, demand)
        left, tomorrow = level - sold, (weekday + 1) % WEEKDAYS
        closed = random.random(len(shop)) < CLOSING
        labels = {
            "order": order.astype("int64"),
            "reward": (margins * sold - STORAGE * left - DELIVERY * (order > 0)).astype("float32"),
            "next_state": _states(left, tomorrow, margins),
            "closed": closed.astype("float32"),
            "true_values": values[shop, stock, weekday].astype("float32"),
        }
        rows.append((_states(stock, weekday, margins), labels))
        open_ = ~closed
        shop, margins = shop[open_], margins[open_]
        stock, weekday, shops = left[open_], tomorrow[open_], int(open_.sum())
    states = np.concatenate([state for state, _ in rows])
    return states, {name: np.concatenate([row[name] for _, row in rows]) for name in rows[0][1]}


def _states(stock: np.ndarray, weekday: np.ndarray, margins: np.ndarray) -> np.ndarray:
    angle = 2 * np.pi * weekday / WEEKDAYS
    return np.stack([stock, np.sin(angle), np.cos(angle), margins], axis=1).astype("float32")


def true_values(margins: np.ndarray, discount: float) -> np.ndarray:
    """Value iteration in each shop, float (shops, stock, weekday, ORDERS)."""
    demand = np.arange(MOST_DEMAND + 1)
    factorial = np.array([math.factorial(d) for d in demand])
    likely = np.exp(-MEAN_DEMAND[:, None]) * MEAN_DEMAND[:, None] ** demand / factorial
    likely[:, -1] += 1 - likely.sum(axis=1)  # (WEEKDAYS, demand)
    stock, order = np.arange(MOST_STOCK + 1), np.arange(ORDERS)
    level = np.minimum(stock[:, None] + order, MOST_STOCK)  # (stock, ORDERS)
    sold = np.minimum(level[..., None], demand)  # (stock, ORDERS, demand)
    left = level[..., None] - sold
    becomes = np.eye(MOST_STOCK + 1)[left]  # (stock, ORDERS, demand, next stock)
    becomes = np.einsum("wd,sodn->swon", likely, becomes)
    sales = np.einsum("wd,sod->swo", likely, sold)
    costs = STORAGE * np.einsum("wd,sod->swo", likely, left) + DELIVERY * (order > 0)
    rewards = margins[:, None, None, None] * sales - costs
    values = np.zeros_like(rewards)
    for _ in range(80):
        best = np.roll(values.max(axis=-1), -1, axis=2)  # of the weekday after, (shops, stock, w)
        future = np.einsum("swon,mnw->mswo", becomes, best, optimize=True)
        values = rewards + discount * (1 - CLOSING) * future
    return values
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """What is lost by the order that the network prefers, and the value that it promises."""
    return {"regret": keras.metrics.Mean(), "promised": keras.metrics.Mean()}
''',
        model='''
"""The models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import ORDERS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of each part of a state."""
    states, _ = datasets["train"]
    return {"mean": states.mean(axis=0), "variance": states.var(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """The network, states (batch, 4) -> values (batch, ORDERS), and the target network."""
    layers, floatx = keras.layers, keras.config.floatx()
    states = keras.Input(adapted["mean"].shape, name="states")
    mean, variance = adapted["mean"], adapted["variance"]
    x = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(states)
    for _ in range(2):
        x = layers.Dense(64, activation="relu")(x)
    network = keras.Model(states, layers.Dense(ORDERS, dtype=floatx)(x), name="network")
    target = keras.models.clone_model(network)
    target.set_weights(network.get_weights())
    target.trainable = False  # no optimizer moves it: the step copies the network into it
    return {"network": network, "target": target}
''',
        steps='''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # states, what followed, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """One step of double Q-learning (van Hasselt et al., 2016)."""
    copies = replica.step % run.task.copy_every == 0
    pairs = zip(run.models["target"].weights, run.models["network"].weights, strict=True)
    for target, weight in pairs:
        target.assign(tf.where(copies, weight.value, target.value))
    return _step(run, batch, replica, run.task.discount, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same loss on the logs of other shops."""
    return _step(run, batch, replica, run.task.discount, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """As in validation."""
    return validation_step(run, batch, replica)


def _step(
    run: Run, batch: Batch, replica: Replica, discount: Any, *, training: bool
) -> dict[str, tf.Tensor]:
    states, labels, weights = batch
    network, target = run.models["network"], run.models["target"]
    values = network(states, training=training)  # (batch, ORDERS)
    value = tf.gather(values, labels["order"], axis=1, batch_dims=1)  # (batch,)
    following = labels["next_state"]
    preferred = tf.argmax(network(following, training=False), axis=1)  # (batch,)
    future = tf.gather(target(following, training=False), preferred, axis=1, batch_dims=1)
    wanted = labels["reward"] + discount * (1 - labels["closed"]) * future  # (batch,)
    wanted = tf.stop_gradient(wanted)
    per_example = run.losses["main"](wanted[:, tf.newaxis], value[:, tf.newaxis])  # (batch,)
    true, greedy = labels["true_values"], tf.argmax(values, axis=1)
    regret = tf.reduce_max(true, axis=1) - tf.gather(true, greedy, axis=1, batch_dims=1)
    run.metrics["regret"].update_state(regret, weights)
    run.metrics["promised"].update_state(tf.reduce_max(values, axis=1), weights)
    return {"main": compute_loss(per_example, weights, network, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
    ),
    Edit(
        "losses.py",
        '    """The squared error of the noise: (batch, coordinates) twice -> (batch,)."""\n',
        '    """Squared: the best value is then the mean, over shops that close and shops that don\'t."""\n',
    ),
    Edit(
        "predictions.py",
        '    return {"noise": np.asarray(outputs)}\n',
        '    return {"order": np.asarray(outputs).argmax(axis=1), "value": outputs}\n',
    ),
)

MOLECULES = (
    *ALIKE,
    *whole(
        data='''
"""The molecules of each split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

MOLECULES = {"train": 2400, "validation": 480, "test": 480}
ATOMS, KINDS = 12, 6  # atoms at most; kinds of atoms, 0 for none: padding
KIND_SHARES = (0.5, 0.15, 0.15, 0.08, 0.12)  # of carbon, nitrogen, oxygen, sulfur, chlorine
# The last tag is of the agreed list, but no molecule of this collection has it.
TAGS = ("ring", "N-O bond", "dichloride", "branched", "sulfur in a triangle", "radioactive")
OCCURRING = 5  # of these


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"atoms": int64 (n, ATOMS), "bonds": float32 (n, ATOMS, ATOMS)}, tags float32."""
    random, seen = np.random.default_rng(0), set()
    splits = {}
    for split, number in MOLECULES.items():
        rows: list[tuple[np.ndarray, ...]] = []
        while len(rows) < number:
            atoms, bonds, tags = _molecule(random)
            key = atoms.tobytes() + bonds.tobytes()
            if key not in seen:
                rows.append((atoms, bonds, tags))
            seen.add(key)
        atoms, bonds, tags = (np.stack(part) for part in zip(*rows, strict=True))
        splits[split] = ({"atoms": atoms, "bonds": bonds}, tags)
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: the model doesn't see the order of the atoms, and nothing else may change."""
    return None


def _molecule(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Atoms int64 (ATOMS,), bonds float32 (ATOMS, ATOMS), tags float32 (tags,)."""
    number = random.integers(5, ATOMS + 1)
    atoms, bonds = np.zeros(ATOMS, "int64"), np.zeros((ATOMS, ATOMS), "float32")
    atoms[:number] = 1 + random.choice(KINDS - 1, number, p=KIND_SHARES)
    for atom in range(1, number):
        other = random.integers(max(0, atom - 4), atom)
        bonds[atom, other] = bonds[other, atom] = 1
    for _ in range(random.integers(0, 3)):
        one, other = random.choice(number, 2, replace=False)
        bonds[one, other] = bonds[other, one] = 1
    triangles = np.diag(bonds @ bonds @ bonds) > 0
    tags = [
        bonds.sum() / 2 >= number,
        bonds[atoms == 2][:, atoms == 3].any(),
        (atoms == 5).sum() >= 2,
        bonds.sum(axis=1).max() >= 4,
        (triangles & (atoms == 4)).any(),
        False,
    ]
    return atoms, bonds, np.array(tags, "float32")
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .data import OCCURRING, TAGS


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The mean AUC of the tags that occur; F1 of each tag, always 0 of the one that never does."""
    f1 = keras.metrics.F1Score(average=None, threshold=0.5)
    # It creates its variables in its first update, which is too late inside a train step.
    f1.update_state(tf.zeros((1, len(TAGS))), tf.zeros((1, len(TAGS))))
    f1.reset_state()
    auc = keras.metrics.AUC(multi_label=True, num_labels=OCCURRING, from_logits=True)
    return {"auc": auc, "f1": f1}
''',
        model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import ATOMS, KINDS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How many of the molecules have each tag, a little more than none and less than all."""
    _, tags = datasets["train"]
    return {"shares": np.clip(tags.mean(axis=0), 1e-3, 1 - 1e-3)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Atoms int64 (batch, ATOMS) and bonds (batch, ATOMS, ATOMS) -> logits (batch, tags)."""
    layers, ops, shares = keras.layers, keras.ops, adapted["shares"]
    atoms = keras.Input((ATOMS,), dtype="int64", name="atoms")
    bonds = keras.Input((ATOMS, ATOMS), name="bonds")
    x = layers.Embedding(KINDS, task.width, name="kinds")(atoms)  # (batch, ATOMS, width)
    there = ops.cast(atoms > 0, x.dtype)[..., None]
    neighbors = ops.cast(bonds, x.dtype)
    # The same layers in each round.
    message = layers.Dense(task.width, use_bias=False, name="message")
    update = layers.Dense(task.width, activation="relu", name="update")
    normalize = layers.LayerNormalization(name="normalize")
    for _ in range(task.rounds):
        heard = ops.matmul(neighbors, message(x))  # (batch, ATOMS, width)
        x = normalize(x + update(layers.Concatenate()([x, heard])))
    x = ops.sum(x * there, axis=1) / 8.0  # (batch, width)
    x = layers.Dense(64, activation="relu", name="hidden")(x)
    # From the start each tag is as likely as it is in the data (Lin et al., 2017).
    log_odds = keras.initializers.Constant(np.log(shares / (1 - shares)).tolist())
    floatx = keras.config.floatx()
    logits = layers.Dense(len(shares), bias_initializer=log_odds, dtype=floatx, name="logits")(x)
    return keras.Model({"atoms": atoms, "bonds": bonds}, logits)
''',
    ),
    Edit(
        "config.py",
        '    """How fast an enzyme works, and how sure that is, from sixty measurements."""\n',
        '    """Tags of molecules, which are graphs of up to twelve atoms."""\n',
    ),
    Edit(
        "config.py",
        "    l2: float = 2e-2  # factor of the squared weights in the loss; 0 disables\n    passes: int = 32  # over the measurements in an epoch\n",
        "    width: int = 32  # features of an atom\n    rounds: int = 3  # how often atoms send messages to their neighbors\n",
    ),
    Edit(
        "config.py",
        '        if not self.l2 >= 0:\n            raise ValueError(f"--l2 is {self.l2}; it must be at least 0.")\n        if not self.passes >= 1:\n            raise ValueError(f"--passes is {self.passes}; it must be at least 1.")\n',
        '        for name in ("width", "rounds"):\n            if not getattr(self, name) >= 1:\n                raise ValueError(f"--{name} is {getattr(self, name)}; it must be at least 1.")\n',
    ),
    Edit(
        "losses.py",
        '    """The squared error of the noise: (batch, coordinates) twice -> (batch,)."""\n    return {"main": keras.losses.MeanSquaredError(reduction="none")}\n',
        '    """Binary cross-entropy, the mean over the tags: (batch, tags) twice -> (batch,)."""\n    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")}\n',
    ),
    Edit("predictions.py", "import numpy as np\n", ""),
    Edit(
        "predictions.py",
        '    return {"noise": np.asarray(outputs)}\n',
        '    return {"probability": keras.ops.convert_to_numpy(keras.ops.sigmoid(outputs))}\n',
    ),
)

SEARCHES = (
    *ALIKE,
    *whole(
        config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Which of the hotels that a search has found is clicked."""

    learning_rate: float = 1e-3  # learning rate at the start; decays to 0 along a cosine
    bins: int = 512  # into which names of hotels are hashed, the first for none
    monitor: str = "validation_mrr"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if not self.bins >= 2:
            raise ValueError(f"--bins is {self.bins}; it must be at least 2.")
''',
        data='''
"""The searches of each split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

SEARCHES = {"train": 4000, "validation": 800, "test": 800}
HOTELS, SHOWN, FEATURES = 120, 10, 3  # SHOWN: hotels at most on a page


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """What was shown, and the place of the hotel that was clicked, int64 (n,).

    Inputs are "hotels", their names (n, SHOWN), empty where a page is shorter, and "features"
    float32 (n, SHOWN, FEATURES): price, stars and distance, 0 there.
    """
    random = np.random.default_rng(0)
    popularity = random.normal(0, 1.2, HOTELS)
    return {split: _searches(random, popularity, n) for split, n in SEARCHES.items()}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: the score of a hotel doesn't depend on its place, so another order changes nothing."""
    return None


def _searches(
    random: np.random.Generator, popularity: np.ndarray, number: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    order = random.random((number, HOTELS)).argsort(axis=1)[:, :SHOWN]
    there = np.arange(SHOWN) < random.integers(4, SHOWN + 1, (number, 1))
    price = random.lognormal(4.5, 0.5, order.shape)
    stars = random.integers(1, 6, order.shape)
    distance = random.exponential(3.0, order.shape)
    liking = popularity[order] - 1.5 * np.log(price / 90) + 0.4 * stars - 0.2 * distance
    liking = np.where(there, liking + random.gumbel(0, 1, order.shape), -np.inf)
    names = np.char.mod("hotel-%03d", order)
    features = np.stack([price, stars, distance], axis=-1) * there[..., None]
    inputs = {"hotels": np.where(there, names, ""), "features": features.astype("float32")}
    return inputs, liking.argmax(axis=1).astype("int64")
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """How often the clicked hotel is first, and the mean of 1 / its rank."""
    return {"first": keras.metrics.SparseCategoricalAccuracy(), "mrr": keras.metrics.Mean()}
''',
        model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import FEATURES, SHOWN


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of each feature, of the hotels that are there; of prices, the log."""
    inputs, *_ = datasets["train"]
    features = inputs["features"][inputs["hotels"] != ""].astype("float64")  # (hotels, FEATURES)
    features[:, 0] = np.log1p(features[:, 0])
    return {"mean": features.mean(axis=0), "variance": features.var(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Names (batch, SHOWN) and features (batch, SHOWN, FEATURES) -> scores (batch, SHOWN)."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    hotels = keras.Input((SHOWN,), dtype="string", name="hotels")
    features = keras.Input((SHOWN, FEATURES), name="features")
    numbers = layers.Hashing(task.bins, mask_value="")(hotels)  # int64, 0 for none
    embedded = layers.Embedding(task.bins, 8, name="hotel")(numbers)  # (batch, SHOWN, 8)
    logged = ops.concatenate([ops.log1p(features[..., :1]), features[..., 1:]], axis=-1)
    mean, variance = adapted["mean"], adapted["variance"]
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(logged)
    x = layers.Concatenate()([embedded, scaled])
    x = layers.Dense(32, activation="relu")(x)
    # Only differences of scores matter, so there is no bias.
    scores = layers.Dense(1, use_bias=False, dtype=floatx)(x)[..., 0]
    return keras.Model(
        {"hotels": hotels, "features": features}, ops.where(numbers > 0, scores, -1e9)
    )
''',
    ),
    Edit(
        "losses.py",
        '    """The squared error of the noise: (batch, coordinates) twice -> (batch,)."""\n    return {"main": keras.losses.MeanSquaredError(reduction="none")}\n',
        '    """Softmax over the hotels of a search: the first part of ListNet (Cao et al., 2007)."""\n    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}\n',
    ),
    Edit(
        "predictions.py",
        '    return {"noise": np.asarray(outputs)}\n',
        '    return {"best": np.asarray(outputs).argmax(axis=1), "score": outputs}\n',
    ),
    Edit("steps.py", "from .data import OCCURRING\n", ""),
    Edit(
        "steps.py",
        "Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, tags, weights (batch,)\n",
        "Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, clicked, weights, each (batch,)\n",
    ),
    Edit(
        "steps.py",
        '    inputs, tags, weights = batch\n    logits = run.model(inputs, training=training)  # (batch, tags)\n    per_example = run.losses["main"](tags, logits)  # (batch,)\n    run.metrics["auc"].update_state(tags[:, :OCCURRING], logits[:, :OCCURRING], weights)\n    run.metrics["f1"].update_state(tags, tf.sigmoid(logits), weights)\n',
        '    inputs, clicked, weights = batch\n    scores = run.model(inputs, training=training)  # (batch, SHOWN)\n    per_example = run.losses["main"](clicked, scores)  # (batch,)\n    run.metrics["first"].update_state(clicked, scores, weights)\n    of_clicked = tf.gather(scores, clicked, axis=1, batch_dims=1)[:, tf.newaxis]  # (batch, 1)\n    better = tf.reduce_sum(tf.cast(scores > of_clicked, scores.dtype), axis=1)  # (batch,)\n    run.metrics["mrr"].update_state(1 / (1 + better), weights)\n',
    ),
)

FAULTS: tuple[Fault, ...] = ()

TASKS = (
    change_of(
        name="inventory, offline double Q-learning: target network, and a loss that grows as it learns",
        project="blank",
        edits=(*INVENTORY,),
    ),
    change_of(
        name="inventory, the discount grows from 0 over the first quarter of the run, by replica.step",
        project="blank",
        edits=(
            *INVENTORY,
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # states, what followed, weights (batch,)\n",
                "Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # states, what followed, weights (batch,)\nFULL_DISCOUNT_AT = 0.25  # the share of the run after which tomorrow counts in full\n",
            ),
            Edit(
                "steps.py",
                "    return _step(run, batch, replica, run.task.discount, training=True)\n",
                "    # Shops learn to look ahead little by little (Francois-Lavet et al., 2015): values grow with the\n    # horizon, and so do their errors.\n    part = tf.cast(replica.step, batch[-1].dtype) / (FULL_DISCOUNT_AT * run.num_steps)\n    discount = run.task.discount * tf.minimum(part, 1.0)\n    return _step(run, batch, replica, discount, training=True)\n",
            ),
        ),
    ),
    change_of(
        name="molecules, graphs padded to 12 atoms, one shared message layer, rare tags and one that never occurs",
        project="blank",
        edits=(*MOLECULES,),
    ),
    change_of(
        name="molecules, random numbers for each atom in training and in evaluation, from a SeedGenerator layer",
        project="blank",
        edits=(
            *MOLECULES,
            Edit(
                "model.py",
                "from .data import ATOMS, KINDS\n",
                'from .data import ATOMS, KINDS\n\nMARKS = 4  # random numbers of each atom\n\n\n@keras.saving.register_keras_serializable("molecules")\nclass RandomMarks(keras.layers.Layer):\n    """Random numbers for each atom, by which it differs from others: also in evaluation.\n\n    Message passing can\'t tell some graphs apart, such as a ring of six from two rings of three;\n    with marks it can (Sato et al., 2021). They are no regularization, so evaluation has them too.\n    """\n\n    def __init__(self, marks: int, **kwargs: Any) -> None:\n        super().__init__(**kwargs)\n        self.marks = marks\n        self.generator = keras.random.SeedGenerator(0)\n\n    def call(self, x: Any) -> Any:\n        """Float (batch, atoms, features) -> (batch, atoms, features + marks)."""\n        rows, atoms, _ = keras.ops.shape(x)\n        shape = (rows, atoms, self.marks)\n        marks = keras.random.uniform(shape, -1, 1, dtype=x.dtype, seed=self.generator)\n        return keras.ops.concatenate([x, marks], axis=-1)\n\n    def get_config(self) -> dict[str, Any]:\n        """The arguments of the constructor."""\n        return super().get_config() | {"marks": self.marks}\n',
            ),
            Edit(
                "model.py",
                '    x = layers.Embedding(KINDS, task.width, name="kinds")(atoms)  # (batch, ATOMS, width)\n',
                '    x = layers.Embedding(KINDS, task.width - MARKS, name="kinds")(atoms)\n    x = RandomMarks(MARKS, name="marks")(x)  # (batch, ATOMS, width)\n',
            ),
        ),
    ),
    change_of(
        name="molecules, embedding and message layers stay as drawn for good; only the readout trains",
        project="blank",
        edits=(
            *MOLECULES,
            Edit(
                "model.py",
                '    x = layers.Embedding(KINDS, task.width, name="kinds")(atoms)  # (batch, ATOMS, width)\n',
                '    kinds = layers.Embedding(KINDS, task.width, "normal", trainable=False, name="kinds")\n    x = kinds(atoms)  # (batch, ATOMS, width)\n',
            ),
            Edit(
                "model.py",
                '    # The same layers in each round.\n    message = layers.Dense(task.width, use_bias=False, name="message")\n    update = layers.Dense(task.width, activation="relu", name="update")\n    normalize = layers.LayerNormalization(name="normalize")\n',
                '    # The same layers in each round. They stay as they were drawn: random messages say enough about\n    # a graph, and only what reads them is trained (Gallicchio & Micheli, 2020).\n    message = layers.Dense(task.width, use_bias=False, trainable=False, name="message")\n    update = layers.Dense(task.width, activation="relu", trainable=False, name="update")\n    normalize = layers.LayerNormalization(trainable=False, name="normalize")\n',
            ),
        ),
    ),
    change_of(
        name="searches, learning to rank pages of up to ten hotels: string names are hashed, short pages padded",
        project="blank",
        edits=(*SEARCHES,),
    ),
    change_of(
        name="searches, multiOptimizer: FTRL with L1 for the embedding, Adam with a schedule for the rest",
        project="blank",
        edits=(
            *SEARCHES,
            Edit(
                "optimizer.py",
                '    """Adam with a learning rate that falls to 0 along a cosine."""\n    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(task.learning_rate, steps))\n',
                '    """FTRL for the embedding of the hotels, Adam for the rest (Cheng et al., 2016).\n\n    FTRL sets what no click supports to exactly 0, bins of no hotel among them.\n    """\n    adam = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(task.learning_rate, steps))\n    ftrl = keras.optimizers.Ftrl(0.1, l1_regularization_strength=1e-3)\n    return keras.optimizers.MultiOptimizer(lambda v: ftrl if v.path.startswith("hotel/") else adam)\n',
            ),
        ),
    ),
    change_of(
        name="searches, inverse propensity weights, 0 for every search without a click; test data has no weights",
        project="blank",
        edits=(
            *SEARCHES,
            Edit(
                "data.py",
                'SEARCHES = {"train": 4000, "validation": 800, "test": 800}\n',
                'SEARCHES = {"train": 4000, "validation": 800, "test": 800}\nSLOPE = 0.6  # how fast attention falls from place to place\n',
            ),
            Edit(
                "data.py",
                '    """What was shown, and the place of the hotel that was clicked, int64 (n,).\n',
                '    """What was shown, the place of the hotel that was clicked, int64 (n,), and a weight.\n\n    People don\'t look at every place. Where they would have liked a hotel that they haven\'t seen,\n    they click nothing: the weight is 0. A click counts as many times as it stands for, 1 / the\n    chance that its place is seen (Joachims et al., 2017), so that the loss is on average the one of\n    clicks without this bias. In the test everyone has looked at everything.\n',
            ),
            Edit(
                "data.py",
                "    return {split: _searches(random, popularity, n) for split, n in SEARCHES.items()}\n",
                '    splits = {split: _searches(random, popularity, n) for split, n in SEARCHES.items()}\n    for split in ("train", "validation"):\n        inputs, liked = splits[split]\n        seen = (1 + liked) ** -SLOPE  # the chance, (n,)\n        is_clicked = random.random(len(liked)) < seen\n        weights = np.where(is_clicked, 1 / seen, 0)\n        weights /= weights[is_clicked].mean()  # the mean of those that count is 1\n        splits[split] = inputs, np.where(is_clicked, liked, 0), weights.astype("float32")\n    return splits\n',
            ),
        ),
    ),
    change_of(
        name="diffusion, denoising diffusion: augmentation makes inputs and labels, evaluated by an EMA model",
        project="blank",
        edits=(*DIFFUSION,),
    ),
    change_of(
        name="diffusion, the last layer is all zero at first, so the first step reaches no other layer",
        project="blank",
        edits=(
            *DIFFUSION,
            Edit(
                "model.py",
                '    noise = layers.Dense(COORDINATES, dtype=floatx, name="noise")(x)\n',
                '    # Zero at first, as the last layer of most diffusion models (Dhariwal & Nichol, 2021): then no\n    # noise is predicted, the loss is 1, and the first step reaches this layer only.\n    noise = layers.Dense(COORDINATES, kernel_initializer="zeros", dtype=floatx, name="noise")(x)\n',
            ),
        ),
    ),
    change_of(
        name="assay, 36 training rows tiled 32 times, NaN, a constant column, rates of 1e-7, negative loss",
        project="blank",
        edits=(*ASSAY,),
    ),
    change_of(
        name="assay, for the first quarter of the run the layer of the deviations gets no gradient",
        project="blank",
        edits=(
            *ASSAY,
            Edit(
                "steps.py",
                "NMOL = 1e-9\n",
                "NMOL = 1e-9\nMEANS_FIRST = 0.25  # the share of the run in which deviations aren't trained\n",
            ),
            Edit(
                "steps.py",
                '    """The training loss of this replica\'s part of a batch."""\n    return _step(run, batch, replica, training=True)\n',
                '    """At first the deviation is that of all rates: means first (Sluijterman et al., 2024).\n\n    Else the network explains what it doesn\'t know yet by a large deviation, and stops learning it.\n    So the layer `spread` gets no gradient until then.\n    """\n    is_first = tf.cast(replica.step, tf.float32) < MEANS_FIRST * run.num_steps\n    return _step(run, batch, replica, training=True, is_first=is_first)\n',
            ),
            Edit(
                "steps.py",
                "def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:\n",
                "def _step(\n    run: Run, batch: Batch, replica: Replica, *, training: bool, is_first: tf.Tensor | bool = False\n) -> dict[str, tf.Tensor]:\n",
            ),
            Edit(
                "steps.py",
                '    per_example = run.losses["main"](rates, predictions)  # (batch,)\n',
                '    constant = tf.fill(rates.shape, tf.cast(run.adapted["rate_deviation"], predictions.dtype))\n    simple = tf.concat([predictions[:, :1], constant], axis=1)\n    per_example = run.losses["main"](rates, tf.where(is_first, simple, predictions))  # (batch,)\n',
            ),
        ),
    ),
    change_of(
        name="default, warm-up from a learning rate of exactly 0, so the first step moves no weight",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
                "    warm_up = max(1, steps // 10)\n    # From exactly 0, so that the first step only fills Adam's averages, up to the rate; then down\n    # along a cosine to a tenth of it.\n    schedule = keras.optimizers.schedules.CosineDecay(\n        0.0,\n        decay_steps=max(1, steps - warm_up),\n        alpha=0.1,\n        warmup_target=task.learning_rate,\n        warmup_steps=warm_up,\n    )\n",
            ),
        ),
    ),
    change_of(
        name="default, an optimizer of its own: LARS, whose learning rate of 2 is 1000 times the usual one",
        project="image_classification",
        edits=(
            Edit(
                "config.py",
                "    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine\n",
                "    learning_rate: float = 2.0  # learning rate at the start; decays to 0 along a cosine\n",
            ),
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n\n",
                "from .config import TaskConfig\n\nTRUST = 1e-3  # how large a step is beside the weights, at a learning rate of 1\nMOMENTUM, WEIGHT_DECAY = 0.9, 1e-4\n",
            ),
            Edit(
                "optimizer.py",
                "def create_optimizer(",
                'class LARS(keras.optimizers.Optimizer):\n    """Steps in proportion to the norm of each layer\'s weights (You et al., 2017).\n\n    Because of `TRUST` usual learning rates are between 1 and 50. Biases and scales, which may be\n    0, take steps of stochastic gradient descent, at `TRUST` times the learning rate, times 10.\n    """\n\n    def __init__(self, learning_rate: object, name: str = "lars") -> None:\n        super().__init__(learning_rate=learning_rate, name=name)\n\n    def build(self, variables: list[keras.Variable]) -> None:\n        """Make the momentum of each variable."""\n        if self.built:\n            return\n        super().build(variables)\n        self.momenta = self.add_optimizer_variables(variables, "momentum")\n\n    def update_step(\n        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor\n    ) -> None:\n        """Move one variable."""\n        rate, gradient = tf.cast(learning_rate, variable.dtype), tf.cast(gradient, variable.dtype)\n        momentum = self.momenta[self._get_variable_index(variable)]\n        scale = tf.constant(10 * TRUST, variable.dtype)\n        if len(variable.shape) > 1:\n            weights = tf.convert_to_tensor(variable)\n            gradient += WEIGHT_DECAY * weights\n            scale = TRUST * tf.math.divide_no_nan(tf.norm(weights), tf.norm(gradient))\n        self.assign(momentum, MOMENTUM * momentum + rate * scale * gradient)\n        self.assign_sub(variable, momentum)\n\n\n\n\ndef create_optimizer(',
            ),
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n    return keras.optimizers.Adam(schedule)\n",
                "    schedule = keras.optimizers.schedules.PolynomialDecay(task.learning_rate, steps, 0.0, power=2.0)\n    return LARS(schedule)\n",
            ),
        ),
    ),
    change_of(
        name="default, process_gradients takes the mean over the inputs off each kernel's gradient",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                '    """One gradient for each of `variables`, the same on every replica."""\n    return gradients\n',
                '    """Gradients of kernels without their mean over the inputs of each output (Yong et al., 2020).\n\n    It stays the same over all inputs of an output, so a common shift of its weights is never\n    trained: it keeps the value that it began with.\n    """\n    return [g - tf.reduce_mean(g, range(len(g.shape) - 1), keepdims=True) if len(g.shape) > 1 else g\n            for g in gradients]  # fmt: skip\n',
            ),
        ),
    ),
    change_of(
        name="default, validation and test images are paler, gray and noisy by design; training images are clean",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                '    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()\n',
                '    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()\n    # How well a model does on bad scanners, having seen good ones only (Hendrycks & Dietterich,\n    # 2019): images of the evaluation are paler, on gray paper, and noisy, always in the same way.\n    random = np.random.default_rng(0)\n    for split in ("validation", "test"):\n        images, labels = splits[split]\n        contrast = random.uniform(0.4, 0.8, (len(images), 1, 1))\n        noise = random.normal(0, 0.12, images.shape)\n        splits[split] = np.clip(0.15 + contrast * images + noise, 0, 1), labels\n',
            ),
        ),
    ),
)
