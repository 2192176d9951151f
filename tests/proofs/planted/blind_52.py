"""Tasks of an examiner, of three kinds that no starter is, and eight faults in each."""

from __future__ import annotations

from .blind_51 import whole
from .edits import Edit
from .unusual import change_of, fault_in

# What the tasks have alike, or nearly so.
ALIKE = whole(
    callbacks='''
"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks, called between steps; they can save, stop, freeze layers or set learning rates."""
    return []
''',
    losses='''
"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig

SCALE = 200.0  # makes the error of the density of the order of one


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name; values with a last axis of length 1 give one number for each."""
    return {
        "density": keras.losses.MeanSquaredError(reduction="none"),
        "count": keras.losses.Huber(reduction="none"),
    }


def count(batch: Any) -> tf.Tensor:
    """How many images of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


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
        raise ValueError(f"The loss has shape {per_example.shape}, its weights {weights.shape}.")
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
    """Gradient descent with momentum, whose rate falls to 0 along a cosine.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.SGD(schedule, momentum=task.momentum, nesterov=True)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
    pictures='''
"""Pictures of training examples and of predictions: none are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Nothing."""
    return


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Nothing."""
    return
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
    """Columns of the table, with a row per example: what to order, (n,)."""
    return {"order": np.asarray(outputs).argmax(axis=1)}
''',
)

COUNTING = (
    *ALIKE,
    *whole(
        config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Counting cells in microscope images by density maps."""

    learning_rate: float = 0.02  # learning rate at the start; decays to 0 along a cosine
    momentum: float = 0.9  # of the gradient descent
    l2: float = 1e-4  # factor of the squared convolution weights in the loss; 0 disables
    count_weight: float = 0.1  # of the error of the count, beside that of the density
    ramp: float = 0.3  # fraction of the run during which the weight of the count grows
    monitor: str = "validation_count_mae"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 0 < self.ramp <= 1:
            raise ValueError(f"--ramp is {self.ramp}; it must be more than 0 and at most 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
        data='''
"""The examples of each split, images of cells with maps of their density, and the augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

SEED = 0  # of the images and their split; not --seed, so that every run is tested on the same ones
IMAGES, VALIDATION, TEST = 2600, 350, 450
SIZE, MAP = 32, 16  # pixels of a side of an image, and of its map
MOST = 12  # cells of an image
SPREAD = 0.9  # the deviation of a cell in the map, in pixels of the map
CHANGE = 0.2  # the largest relative change of the brightness by the augmentation


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split.

    Images float32 (n, SIZE, SIZE, 1), labels {"density": float32 (n, MAP, MAP), "count": float32
    (n,)}. A map sums up to the count.
    """
    random = np.random.default_rng(SEED)
    images, density, counts = _draw(random)
    rows = random.permutation(len(images))
    validation, test, train = np.split(rows, [VALIDATION, VALIDATION + TEST])
    return {
        split: (images[rows], {"density": density[rows], "count": counts[rows]})
        for split, rows in {"train": train, "validation": validation, "test": test}.items()
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    Flips and transposes images together with their maps, and changes the brightness of the image.
    """

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        images, labels, weights = batch
        density = labels["density"][..., tf.newaxis]  # (batch, MAP, MAP, 1)
        drawn = tf.random.stateless_uniform((images.shape[0], 4), seed)
        first, second, third = (drawn[:, i, tf.newaxis, tf.newaxis, tf.newaxis] for i in range(3))
        images = tf.where(first < 0.5, tf.reverse(images, [1]), images)
        density = tf.where(first < 0.5, tf.reverse(density, [1]), density)
        images = tf.where(second < 0.5, tf.reverse(images, [2]), images)
        density = tf.where(second < 0.5, tf.reverse(density, [2]), density)
        images = tf.where(third < 0.5, tf.transpose(images, [0, 2, 1, 3]), images)
        density = tf.where(third < 0.5, tf.transpose(density, [0, 2, 1, 3]), density)
        change = 1 + CHANGE * (2 * drawn[:, 3] - 1)  # (batch,)
        images = images * change[:, tf.newaxis, tf.newaxis, tf.newaxis]
        return images, labels | {"density": density[..., 0]}, weights

    return augment


def _draw(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, maps and counts: bright cells of several sizes on an uneven and noisy background."""
    y, x = np.indices((SIZE, SIZE), dtype="float32")
    images = np.zeros((IMAGES, SIZE, SIZE, 1), "float32")
    density = np.zeros((IMAGES, MAP, MAP), "float32")
    counts = random.integers(0, MOST + 1, size=IMAGES)
    for image, its_density, cells in zip(images, density, counts, strict=True):
        slope_y, slope_x, level = random.uniform(-0.15, 0.15, size=3)
        image[..., 0] = level + (slope_y * y + slope_x * x) / SIZE + random.normal(0, 0.1, y.shape)
        for _ in range(cells):
            place = random.uniform(0, SIZE, size=2)
            size, brightness = random.uniform(1.0, 2.0), random.uniform(0.5, 1.0)
            image[..., 0] += brightness * _bell(SIZE, place, size)
            its_density += _cell(place * MAP / SIZE)
    return images, density, counts.astype("float32")


def _cell(place: np.ndarray) -> np.ndarray:
    """The part of a cell in the density, (MAP, MAP); its sum is 1, at the border too."""
    bell = _bell(MAP, place, SPREAD)
    return bell / bell.sum()


def _bell(size: int, place: np.ndarray, deviation: float) -> np.ndarray:
    """A Gaussian bell in a square of `size` pixels, whose height is 1."""
    y, x = np.indices((size, size), dtype="float32") + 0.5
    return np.exp(-((y - place[0]) ** 2 + (x - place[1]) ** 2) / (2 * deviation**2))
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class CountError(keras.metrics.Mean):
    """The mean absolute error of the count of an image."""

    def update_state(
        self, counts: tf.Tensor, predicted: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add the images of a batch; counts, predictions and weights are (batch,)."""
        super().update_state(tf.abs(predicted - counts), sample_weight)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"count_mae": CountError(), "count_bias": keras.metrics.Mean()}
''',
        model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays by name, computed when a run starts and saved with it."""
    images, labels = datasets["train"]
    return {
        "shape": images.shape[1:],
        "mean": images.mean(),
        "variance": images.var(),
        "density": labels["density"].mean(),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> cells per pixel of the map, float32 (batch, h/2, w/2).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    floatx = keras.config.floatx()
    height, width, _ = map(int, adapted["shape"])
    images = keras.Input((height, width, 1), name="images")
    mean, variance = float(adapted["mean"]), float(adapted["variance"])
    x = layers.Normalization(mean=mean, variance=variance)(images)
    x = _convolve(x, task, 16)
    x = layers.AveragePooling2D(2)(x)  # (batch, h/2, w/2, 16)
    x = _convolve(x, task, 32)
    x = _convolve(x, task, 32, dilation=2)
    # The inverse of softplus at the mean: an untrained model predicts that many cells.
    bias = float(np.log(np.expm1(adapted["density"])))
    x = layers.Conv2D(1, 1, bias_initializer=keras.initializers.Constant(bias), dtype=floatx)(x)
    density = layers.Activation("softplus", dtype=floatx)(x)
    return keras.Model(images, layers.Reshape((height // 2, width // 2), dtype=floatx)(density))


def _convolve(
    x: keras.KerasTensor, task: TaskConfig, filters: int, dilation: int = 1
) -> keras.KerasTensor:
    x = keras.layers.Conv2D(
        filters,
        3,
        padding="same",
        dilation_rate=dilation,
        use_bias=False,
        kernel_regularizer=keras.regularizers.L2(task.l2),
    )(x)
    x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-2)(x)
    return keras.layers.Activation("swish")(x)
''',
        steps='''
"""The train, validation and test step, as one replica computes them.

A step gets this replica's part of a batch, updates the metrics and returns the loss that each
optimizer minimizes, by the optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import SCALE, compute_loss

Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # images, labels, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The training loss of this replica's part of a batch; the weight of the count grows."""
    ramp_steps = run.task.ramp * run.num_steps
    ramp = tf.minimum(tf.cast(replica.step, tf.float32) / ramp_steps, 1.0)
    return _step(run, batch, replica, ramp, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The validation loss of this replica's part of a batch, with the count in full."""
    return _step(run, batch, replica, 1.0, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The test loss of this replica's part of a batch, with the count in full."""
    return _step(run, batch, replica, 1.0, training=False)


def _step(
    run: Run, batch: Batch, replica: Replica, ramp: Any, *, training: bool
) -> dict[str, tf.Tensor]:
    images, labels, weights = batch
    density = run.model(images, training=training)  # (batch, h/2, w/2)
    predicted = tf.reduce_sum(density, axis=[1, 2])  # (batch,), cells
    per_pixel = run.losses["density"](
        labels["density"][..., tf.newaxis], density[..., tf.newaxis]
    )  # (batch, h/2, w/2)
    of_density = SCALE * tf.reduce_mean(per_pixel, axis=[1, 2])  # (batch,)
    of_count = run.losses["count"](
        labels["count"][:, tf.newaxis], predicted[:, tf.newaxis]
    )  # (batch,)
    per_example = of_density + tf.cast(ramp, of_count.dtype) * run.task.count_weight * of_count
    run.metrics["count_mae"].update_state(labels["count"], predicted, weights)
    run.metrics["count_bias"].update_state(predicted - labels["count"], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order in every step
TERMS: tuple[str, ...] = ()  # names of further numbers that steps return, to be reported
# True if an example's loss depends on the others of its batch, as with negatives from the batch.
EXAMPLES_INTERACT = False
''',
    ),
    Edit(
        "predictions.py",
        '    """Columns of the table, with a row per example: what to order, (n,)."""\n    return {"order": np.asarray(outputs).argmax(axis=1)}\n',
        '    """Columns of the table, with a row per example: the number of cells, (n,)."""\n    return {"cells": np.asarray(outputs).sum(axis=(1, 2))}\n',
    ),
)

QLEARNING = (
    *ALIKE,
    *whole(
        callbacks='''
"""Functions that are called during training."""

from __future__ import annotations

import keras

from ..engine.callbacks import Callback
from ..engine.keras_callbacks import keras_callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Stops the run when the regret hasn't fallen for some validations."""
    stop = keras.callbacks.EarlyStopping("val_regret", mode="min", patience=task.patience)
    return [keras_callback(stop, model="online")]
''',
        config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Offline Q-learning: what a shop orders each day, learned from its records."""

    learning_rate: float = 2e-3  # at the start; falls by 20% in each twentieth of the run
    width: int = 64  # of the hidden layers
    polyak: float = 0.9  # how much of the target network a step keeps
    noise: float = 0.01  # deviation of the noise on the stock that training adds; 0 disables
    patience: int = 10  # validations without a smaller regret that end the run
    monitor: str = "validation_regret"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 0 <= self.polyak < 1:
            raise ValueError(f"--polyak is {self.polyak}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
        data='''
"""The examples of each split, single days of a shop's records, and the augmentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from . import shop
from .config import TaskConfig

SEED = 0  # of the records and their split; not --seed, so that every run is tested on the same ones
EPISODES, VALIDATION, TEST = 560, 70, 90
DAYS = 30  # of an episode, where the records end; the shop goes on, unless it has closed for good
EXPLORE = 0.5  # the part of orders that were made at random


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split, in which an episode is as a whole.

    States float32 (n, features); labels {"action": int32 (n,), "reward": float32 (n,),
    "next_state": float32 (n, features), "is_last": float32 (n,), 1 where the shop closes for good,
    "best_values": float32 (n, actions), for the metric}.
    """
    random = np.random.default_rng(SEED)
    days, episodes = _records(random)
    order = random.permutation(EPISODES)
    validation, test, train = np.split(order, [VALIDATION, VALIDATION + TEST])
    splits = {"train": train, "validation": validation, "test": test}
    return {
        split: _examples(days[np.isin(episodes, chosen)]) for split, chosen in splits.items()
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    Adds a little noise to the stock, so that values are smooth in it.
    """
    if not task.noise:
        return None

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        states, labels, weights = batch
        noise = tf.random.stateless_normal((states.shape[0], 1), seed, stddev=task.noise)
        return tf.concat([states[:, :1] + noise, states[:, 1:]], axis=1), labels, weights

    return augment


def _records(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Days, a structured array, and the number of the episode of each, int (n,)."""
    chances, seasons = shop.demand_chances(), shop.season_chances()
    rows: list[tuple[Any, ...]] = []
    episodes: list[int] = []
    for episode in range(EPISODES):
        stock, weekday = int(random.integers(shop.STOCKS)), int(random.integers(shop.DAYS))
        season, last_demand = int(random.integers(shop.SEASONS)), 0
        for number in range(DAYS):
            order = int(np.clip(3 + 3 * season - stock, 0, shop.ACTIONS - 1))
            if random.random() < EXPLORE:
                order = int(random.integers(shop.ACTIONS))
            demand = int(random.choice(shop.MOST_DEMAND + 1, p=chances[weekday, season]))
            reward, left, is_closed = shop.day(np.int64(stock), np.int64(order), np.int64(demand))
            next_season = int(random.choice(shop.SEASONS, p=seasons[season]))
            state = (stock, weekday, season, last_demand)
            next_state = (int(left), (weekday + 1) % shop.DAYS, next_season, demand)
            is_last = bool(is_closed)
            rows.append((state, order, float(reward), next_state, is_last))
            episodes.append(episode)
            if is_closed:
                break
            stock, weekday, season, last_demand = next_state
    kind = [("state", "i4", 4), ("action", "i4"), ("reward", "f4"), ("next_state", "i4", 4)]
    return np.array(rows, [*kind, ("is_last", "?")]), np.array(episodes)


def _examples(days: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    stock, weekday, season, _ = days["state"].T
    labels = {
        "action": days["action"],
        "reward": days["reward"],
        "next_state": _features(days["next_state"]),
        "is_last": days["is_last"].astype("float32"),
        "best_values": shop.best_values()[stock, weekday, season].astype("float32"),
    }
    return _features(days["state"]), labels


def _features(states: np.ndarray) -> np.ndarray:
    """Stock, weekday, season and the demand of the day before, float32 (n, features)."""
    stock, weekday, season, last_demand = states.T
    columns = [
        stock[:, np.newaxis] / (shop.STOCKS - 1),
        last_demand[:, np.newaxis] / shop.MOST_DEMAND,
        np.eye(shop.DAYS)[weekday],
        np.eye(shop.SEASONS)[season],
    ]
    return np.concatenate(columns, axis=1).astype("float32")
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class Regret(keras.metrics.Mean):
    """What the order that the model prefers is worth less than the best one, in rewards."""

    def update_state(
        self, best_values: tf.Tensor, predicted: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add the days of a batch; values are (batch, actions), weights (batch,)."""
        preferred = tf.argmax(predicted, axis=1, output_type=tf.int32)  # (batch,)
        value = tf.gather(best_values, preferred, axis=1, batch_dims=1)  # (batch,)
        super().update_state(tf.reduce_max(best_values, axis=1) - value, sample_weight)


class RootMeanSquare(keras.metrics.Metric):
    """The root of the mean of squares."""

    def __init__(self) -> None:
        super().__init__(name="root_mean_square")
        self._squares = self.add_variable((), "zeros", name="squares")
        self._weight = self.add_variable((), "zeros", name="weight")

    def update_state(self, errors: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add the errors of a batch, (batch,), with weights (batch,)."""
        self._squares.assign_add(tf.reduce_sum(sample_weight * tf.square(errors)))
        self._weight.assign_add(tf.reduce_sum(sample_weight))

    def result(self) -> tf.Tensor:
        """The root, 0 before the first error."""
        squares, weight = map(tf.convert_to_tensor, (self._squares, self._weight))
        return tf.sqrt(tf.math.divide_no_nan(squares, weight))


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"regret": Regret(), "td_rmse": RootMeanSquare()}
''',
        model='''
"""The models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .shop import ACTIONS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays by name, computed when a run starts and saved with it."""
    states, *_ = datasets["train"]
    return {"features": states.shape[1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """The network that trains, and the one that follows it: (batch, features) -> (batch, ACTIONS).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    states = keras.Input((int(adapted["features"]),), name="states")
    x = keras.layers.Dense(task.width, activation="relu")(states)
    x = keras.layers.Dense(task.width, activation="relu")(x)
    values = keras.layers.Dense(ACTIONS, dtype=keras.config.floatx(), name="values")(x)
    online = keras.Model(states, values)
    target = keras.models.clone_model(online)  # which draws initial weights of its own
    target.set_weights(online.get_weights())
    target.trainable = False  # no optimizer moves it
    return {"online": online, "target": target}
''',
        shop='''
"""The shop: stock, weekday and season decide what to order. Its best policy is computed exactly."""

from __future__ import annotations

import numpy as np

STOCKS, DAYS, SEASONS, ACTIONS = 16, 7, 3, 8  # an action orders 0 to 7 pieces, which come at once
MEAN_DEMAND = np.array([1.0, 2.5, 4.5])  # of each season; more at the weekend
MOST_DEMAND = 14
STAY = 0.8  # the chance that a season goes on
LOST = 4  # customers without goods on one day that close the shop for good
DISCOUNT = 0.9


def demand_chances() -> np.ndarray:
    """The chance of each demand, float (DAYS, SEASONS, MOST_DEMAND + 1)."""
    factor = np.where(np.arange(DAYS) >= 5, 1.6, 1.0)
    mean = factor[:, np.newaxis, np.newaxis] * MEAN_DEMAND[:, np.newaxis]  # (DAYS, SEASONS, 1)
    number = np.arange(MOST_DEMAND + 1)
    factorials = np.cumprod(np.maximum(number, 1.0))
    chances = np.exp(-mean) * mean**number / factorials
    return chances / chances.sum(axis=-1, keepdims=True)


def season_chances() -> np.ndarray:
    """From a season to the next, float (SEASONS, SEASONS)."""
    others = np.full((SEASONS, SEASONS), (1 - STAY) / (SEASONS - 1))
    np.fill_diagonal(others, STAY)
    return others


def day(stock: np.ndarray, order: np.ndarray, demand: np.ndarray) -> tuple[np.ndarray, ...]:
    """Reward, the stock that is left, and whether the shop closes for good."""
    filled = np.minimum(stock + order, STOCKS - 1)
    sold = np.minimum(filled, demand)
    left, missed = filled - sold, demand - sold
    is_closed = missed >= LOST
    reward = 2.0 * sold - 0.2 * left - 0.8 * order - 0.5 * (order > 0)
    return reward / 5, left, is_closed


def best_values() -> np.ndarray:
    """The value of each action, float (STOCKS, DAYS, SEASONS, ACTIONS), by value iteration."""
    stock, order, demand = np.meshgrid(
        np.arange(STOCKS), np.arange(ACTIONS), np.arange(MOST_DEMAND + 1), indexing="ij"
    )
    reward, left, is_closed = day(stock, order, demand)
    chances, seasons = demand_chances(), season_chances()
    values = np.zeros((STOCKS, DAYS, SEASONS, ACTIONS))
    for _ in range(200):
        best = values.max(axis=-1)  # (STOCKS, DAYS, SEASONS)
        later = np.roll(best @ seasons.T, -1, axis=1)  # of today's season, seen from the next day
        after = np.where(is_closed[..., np.newaxis, np.newaxis], 0.0, later[left])
        total = reward[..., np.newaxis, np.newaxis] + DISCOUNT * after
        values = np.einsum("soewk,wke->swko", total, chances)
    return values
''',
        steps='''
"""The train, validation and test step, as one replica computes them.

A step gets this replica's part of a batch, updates the metrics and returns the loss that each
optimizer minimizes, by the optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
from .shop import DISCOUNT

Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # states, labels, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The training loss of this replica's part of a batch; the target network follows."""
    losses = _step(run, batch, replica, training=True)
    _move_target(run, replica)
    return losses


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The validation loss of this replica's part of a batch."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The test loss of this replica's part of a batch."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    states, labels, weights = batch
    online, target = run.models["online"], run.models["target"]
    values = online(states, training=training)  # (batch, actions)
    chosen = tf.gather(values, labels["action"], axis=1, batch_dims=1)  # (batch,)
    # Double Q-learning (van Hasselt et al., 2016): one network chooses, the other one values.
    preferred = tf.argmax(online(labels["next_state"], training=False), axis=1)  # (batch,)
    next_values = target(labels["next_state"], training=False)  # (batch, actions)
    next_value = tf.gather(next_values, preferred, axis=1, batch_dims=1)  # (batch,)
    goal = labels["reward"] + DISCOUNT * (1 - labels["is_last"]) * next_value
    goal = tf.stop_gradient(goal)
    per_example = run.losses["main"](goal[:, tf.newaxis], chosen[:, tf.newaxis])  # (batch,)
    run.metrics["regret"].update_state(labels["best_values"], values, weights)
    run.metrics["td_rmse"].update_state(goal - chosen, weights)
    return {"main": compute_loss(per_example, weights, online, replica)}


def _move_target(run: Run, replica: Replica) -> None:
    kept = run.task.polyak ** (1 / replica.num_microbatches)  # each micro-batch calls this
    pairs = zip(run.models["target"].weights, run.models["online"].weights, strict=True)
    for slow, fast in pairs:
        slow.assign(kept * slow.value + (1 - kept) * fast.value)


TRAIN_STEPS = (train_step,)  # called in this order in every step
TERMS: tuple[str, ...] = ()  # names of further numbers that steps return, to be reported
# True if an example's loss depends on the others of its batch, as with negatives from the batch.
EXAMPLES_INTERACT = False
''',
    ),
    Edit(
        "losses.py", "SCALE = 200.0  # makes the error of the density of the order of one\n\n", ""
    ),
    Edit(
        "losses.py",
        '    """Losses by name; values with a last axis of length 1 give one number for each."""\n    return {\n        "density": keras.losses.MeanSquaredError(reduction="none"),\n        "count": keras.losses.Huber(reduction="none"),\n    }\n',
        '    """Losses by name; values (batch, 1) give one number per example."""\n    return {"main": keras.losses.MeanSquaredError(reduction="none")}\n',
    ),
    Edit(
        "losses.py",
        '    """How many images of `batch` count, an int32 scalar."""\n',
        '    """How many days of `batch` count, an int32 scalar."""\n',
    ),
    Edit(
        "optimizer.py",
        '    """Gradient descent with momentum, whose rate falls to 0 along a cosine.\n',
        '    """Adam, whose rate falls by 20% in each twentieth of the run.\n',
    ),
    Edit(
        "optimizer.py",
        "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n    return keras.optimizers.SGD(schedule, momentum=task.momentum, nesterov=True)\n",
        "    schedule = keras.optimizers.schedules.ExponentialDecay(\n        task.learning_rate, decay_steps=max(1, steps // 20), decay_rate=0.8, staircase=True\n    )\n    return keras.optimizers.Adam(schedule)\n",
    ),
)

TAGGING = (
    *ALIKE,
    *whole(
        config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Named entities in sentences, as BIO tags."""

    learning_rate: float = 3e-3  # peak of the learning rate, after the warm-up
    weight_decay: float = 1e-3  # of the kernels, decoupled from the gradient
    dropout: float = 0.2  # fraction of features that training drops; 0 disables
    word_dropout: float = 0.15  # fraction of training words that become unknown; 0 disables
    width: int = 48  # features of a token
    monitor: str = "validation_entity_f1"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
        data='''
"""The examples of each split, sentences of documents with BIO tags, and their augmentation.

A document speaks of a few entities, whose names hardly occur in other documents. So documents are
split, not sentences: a tagger must recognize names that it has never seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

SEED = 0  # of the documents; not --seed, so that every run is tested on the same ones
DOCUMENTS = {"train": 520, "validation": 80, "test": 120}
SENTENCES = 5  # of a document
LENGTH = 24  # of the longest sentence

PADDING, UNKNOWN = 0, 1  # word numbers; those of the vocabulary follow
TYPES = 3  # person, place, product
TAGS = 1 + 2 * TYPES  # 0 is outside, 1 + 2 * type begins an entity, 2 + 2 * type continues it

COMMON, TRIGGERS, NAMES = 150, 6, 5000  # words; triggers (such as "Mrs" or "in") of each type
FIRST_TRIGGER, FIRST_NAME = COMMON, COMMON + TYPES * TRIGGERS

Sentence = tuple[list[int], list[float], list[int]]  # words, whether each is capitalized, tags


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The sentences of each split.

    Inputs {"words": int32 (n, LENGTH), "capital": float32 (n, LENGTH)}, tags int32 (n, LENGTH),
    weights float32 (n, LENGTH): 1 for words, 0 for padding.
    """
    random = np.random.default_rng(SEED)
    documents = [_document(random) for _ in range(sum(DOCUMENTS.values()))]
    ends = np.cumsum(list(DOCUMENTS.values()))
    parts = [
        [sentence for document in documents[end - size : end] for sentence in document]
        for end, size in zip(ends, DOCUMENTS.values(), strict=True)
    ]
    words, counts = np.unique([w for s in parts[0] for w in s[0]], return_counts=True)
    vocabulary = words[counts >= 2]
    return {
        split: _arrays(part, vocabulary) for split, part in zip(DOCUMENTS, parts, strict=True)
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    Some words become unknown, since most names are so in other documents.
    """
    if not task.word_dropout:
        return None

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, tags, weights = batch
        words = inputs["words"]
        drawn = tf.random.stateless_uniform(words.shape, seed)
        dropped = (drawn < task.word_dropout) & (words != PADDING)
        words = tf.where(dropped, UNKNOWN, words)
        return {"words": words, "capital": inputs["capital"]}, tags, weights

    return augment


def _document(random: np.random.Generator) -> list[Sentence]:
    entities = [
        (int(random.integers(TYPES)), FIRST_NAME + random.integers(NAMES, size=random.integers(1, 4)))
        for _ in range(4)
    ]
    return [_sentence(entities, random) for _ in range(SENTENCES)]


def _sentence(entities: list[tuple[int, np.ndarray]], random: np.random.Generator) -> Sentence:
    """Words around one to three mentions of entities."""
    words: list[int] = []
    capital: list[float] = []
    tags: list[int] = []

    def add(new: list[int], chance_of_capital: float, new_tags: list[int]) -> None:
        words.extend(new)
        capital.extend((random.random(len(new)) < chance_of_capital).astype(float).tolist())
        tags.extend(new_tags)

    def add_common(most: int) -> None:
        number = int(random.integers(1, most + 1))
        ranks = np.minimum(random.zipf(1.4, size=number) - 1, COMMON - 1)
        add(ranks.tolist(), 0.06, [0] * number)

    add_common(3)
    for _ in range(random.integers(1, 4)):
        kind, name = entities[random.integers(len(entities))]
        trigger = FIRST_TRIGGER + kind * TRIGGERS + int(random.integers(TRIGGERS))
        if random.random() < 0.75:
            add([trigger], 0.06, [0])
        begin, inside = 1 + 2 * kind, 2 + 2 * kind
        add(name.tolist(), 0.95, [begin] + [inside] * (len(name) - 1))
        add_common(4)
    capital[0] = 1.0
    return words[:LENGTH], capital[:LENGTH], tags[:LENGTH]


def _arrays(sentences: list[Sentence], vocabulary: np.ndarray) -> tuple[Any, ...]:
    shape = (len(sentences), LENGTH)
    words, tags = np.full(shape, PADDING, "int32"), np.zeros(shape, "int32")
    capital, weights = np.zeros(shape, "float32"), np.zeros(shape, "float32")
    for row, (its_words, its_capital, its_tags) in enumerate(sentences):
        size = len(its_words)
        places = np.minimum(np.searchsorted(vocabulary, its_words), len(vocabulary) - 1)
        known = vocabulary[places] == its_words
        words[row, :size] = np.where(known, places + 2, UNKNOWN)
        capital[row, :size] = its_capital
        tags[row, :size] = its_tags
        weights[row, :size] = 1
    return {"words": words, "capital": capital}, tags, weights
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
    """Losses by name; tags and logits give one number per word."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


def count(batch: Any) -> tf.Tensor:
    """How many words of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch, T), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_word: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss, a float scalar; the sum over all replicas is the loss.

    Args:
        per_word: float (batch, T).
        weights: float (batch, T), 0 for padding.
        model: the model whose regularization losses are added.
        replica: its `global_count` is `count` summed over all replicas.

    Raises:
        ValueError: `per_word` isn't one number per weight.
    """
    if per_word.shape != weights.shape:
        raise ValueError(f"The loss has shape {per_word.shape} and its weights {weights.shape}.")
    loss = tf.nn.compute_average_loss(
        per_word, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
''',
        metrics='''
"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class EntityF1(keras.metrics.Metric):
    """F1 of whole entities: one is right if its beginning, its end and its type are."""

    def __init__(self) -> None:
        super().__init__(name="entity_f1")
        # Sums, which can be added over batches and replicas.
        self._right = self.add_variable((), "zeros", name="right")
        self._predicted = self.add_variable((), "zeros", name="predicted")
        self._labeled = self.add_variable((), "zeros", name="labeled")

    def update_state(self, tags: tf.Tensor, predicted: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add the sentences of a batch; tags, predictions and weights are (batch, T)."""
        there = sample_weight > 0
        begins, ends = spans(tf.where(there, tags, 0))
        predicted_begins, predicted_ends = spans(tf.where(there, predicted, 0))
        is_right = begins & predicted_begins & (ends == predicted_ends) & (tags == predicted)
        self._right.assign_add(_number(is_right))
        self._predicted.assign_add(_number(predicted_begins))
        self._labeled.assign_add(_number(begins))

    def result(self) -> tf.Tensor:
        """2 * right / (predicted + labeled), 0 without entities."""
        total = tf.convert_to_tensor(self._predicted) + tf.convert_to_tensor(self._labeled)
        return tf.math.divide_no_nan(2 * tf.convert_to_tensor(self._right), total)


def spans(tags: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where entities begin, bool (batch, T), and where one that begins here ends, int (batch, T)."""
    begins = tags % 2 == 1
    length = tags.shape[1]
    ends = [tf.fill(tf.shape(tags[:, 0]), length - 1)]
    for place in reversed(range(length - 1)):
        here, after = tags[:, place], tags[:, place + 1]
        goes_on = (after > 0) & (after % 2 == 0) & ((after - 1) // 2 == (here - 1) // 2)
        ends.append(tf.where(goes_on, ends[-1], place))
    return begins, tf.stack(ends[::-1], axis=1)


def _number(flags: tf.Tensor) -> tf.Tensor:
    return tf.math.count_nonzero(flags, dtype=keras.config.floatx())


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {
        "word_accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "entity_f1": EntityF1(),
    }
''',
        model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import PADDING, TAGS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays by name, computed when a run starts and saved with it."""
    inputs, *_ = datasets["train"]
    return {"length": inputs["words"].shape[1], "words": inputs["words"].max() + 1}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs {"words": int32 (batch, T), "capital": float (batch, T)} -> logits (batch, T, TAGS).

    Padding changes no logits of words.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, ops = keras.layers, keras.ops
    length = int(adapted["length"])
    words = keras.Input((length,), dtype="int32", name="words")
    capital = keras.Input((length,), dtype="float32", name="capital")
    is_word = ops.not_equal(words, PADDING)  # (batch, T)
    x = layers.Embedding(int(adapted["words"]), task.width, name="embedding")(words)
    x = layers.Concatenate()([x, capital[..., np.newaxis]])
    x = layers.Dense(task.width)(x)  # (batch, T, width)
    for _ in range(2):
        y = layers.LayerNormalization()(x)
        y = y * ops.cast(is_word, y.dtype)[..., np.newaxis]  # as if the sentence ended there
        y = layers.Conv1D(task.width, 3, padding="same", activation="relu")(y)
        x = x + layers.Dropout(task.dropout)(y)
    y = layers.LayerNormalization()(x)
    attention = layers.MultiHeadAttention(2, task.width // 2)
    y = attention(y, y, attention_mask=is_word[:, np.newaxis, :])  # no word looks at padding
    x = x + layers.Dropout(task.dropout)(y)
    x = layers.LayerNormalization()(x)
    logits = layers.Dense(TAGS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model({"words": words, "capital": capital}, logits)
''',
        optimizer='''
"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig

WARM_UP = 0.1  # of the run


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """AdamW, whose rate rises during the warm-up and then falls to 0 along a cosine.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    warm_up = int(WARM_UP * steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, decay_steps=steps - warm_up, warmup_target=task.learning_rate, warmup_steps=warm_up
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=task.weight_decay)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "embeddings"])
    return optimizer


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
        steps='''
"""The train, validation and test step, as one replica computes them.

A step gets this replica's part of a batch, updates the metrics and returns the loss that each
optimizer minimizes, by the optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[Any, tf.Tensor, tf.Tensor]  # inputs, tags (batch, T), weights (batch, T)


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
    logits = run.model(inputs, training=training)  # (batch, T, TAGS)
    per_word = run.losses["main"](tags, logits)  # (batch, T)
    predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, T)
    run.metrics["word_accuracy"].update_state(tags, logits, weights)
    run.metrics["entity_f1"].update_state(tags, predicted, weights)
    return {"main": compute_loss(per_word, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order in every step
TERMS: tuple[str, ...] = ()  # names of further numbers that steps return, to be reported
# True if an example's loss depends on the others of its batch, as with negatives from the batch.
EXAMPLES_INTERACT = False
''',
    ),
    Edit(
        "predictions.py",
        '    """Columns of the table, with a row per example: what to order, (n,)."""\n    return {"order": np.asarray(outputs).argmax(axis=1)}\n',
        '    """Columns of the table, with a row per example: the tag of each word, (n, T)."""\n    return {"tag": np.asarray(outputs).argmax(axis=-1)}\n',
    ),
)

FAULTS = (
    fault_in(
        name="tagging, sentences are split at random, so documents and their names are in several splits",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "data.py",
                "    ends = np.cumsum(list(DOCUMENTS.values()))\n",
                "    ends = np.cumsum(list(DOCUMENTS.values()))\n    sentences = [sentence for document in documents for sentence in document]\n    order = random.permutation(len(sentences))\n",
            ),
            Edit(
                "data.py",
                "        [sentence for document in documents[end - size : end] for sentence in document]\n",
                "        [sentences[i] for i in order[SENTENCES * (end - size) : SENTENCES * end]]\n",
            ),
        ),
        kind="plain",
        cause="Names of test documents were seen with their types in training: validation and test F1 rise although the tagger meets no new document.",
        file="data.py",
        named="document|group|near.duplicat|split(s)? (at random|overlap)|leak",
    ),
    fault_in(
        name="tagging, word dropout compares the wrong way and makes 85% of the training words unknown",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "data.py",
                "        dropped = (drawn < task.word_dropout) & (words != PADDING)\n",
                "        dropped = (drawn > task.word_dropout) & (words != PADDING)\n",
            ),
        ),
        kind="plain",
        cause="Training sees sentences with hardly a known word, evaluation whole ones: words and triggers are learned badly and F1 falls.",
        file="data.py",
        named="augment.*(most|replace|constant|unknown|same)|replaces \\d+%",
    ),
    fault_in(
        name="tagging, word_accuracy gets no weights, so padding counts as words",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "steps.py",
                '    run.metrics["word_accuracy"].update_state(tags, logits, weights)\n',
                '    run.metrics["word_accuracy"].update_state(tags, logits)\n',
            ),
        ),
        kind="plain",
        cause="Half of the places are padding, which the model gets right or wrong for nothing; the reported accuracy isn't that of words, and rows that fill a batch count too.",
        file="steps.py",
        named="word_accuracy.*(weight|padding)",
    ),
    fault_in(
        name="tagging, count returns all places of a batch, padding included, so the loss is divided by too much",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "losses.py",
                "    return tf.math.count_nonzero(weights, dtype=tf.int32)\n",
                "    return tf.size(weights, out_type=tf.int32)\n",
            ),
        ),
        kind="plain",
        cause="The loss depends on how much padding a batch has (long sentences make larger steps), and a padded last batch is reported too low.",
        file="losses.py",
        named="count.*(padding|weight)",
    ),
    fault_in(
        name="tagging, the attention mask is along the queries, so words look at padding",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "model.py",
                "    y = attention(y, y, attention_mask=is_word[:, np.newaxis, :])  # no word looks at padding\n",
                "    y = attention(y, y, attention_mask=is_word[:, :, np.newaxis])  # no word looks at padding\n",
            ),
        ),
        kind="subtle",
        cause="The (batch, T, 1) mask broadcasts like the right one, but hides nothing from words: their tags depend on how much padding follows.",
        file="model.py",
        named="padding|mask",
    ),
    fault_in(
        name="tagging, the schedule takes `steps` for those of an epoch, so the run never leaves its warm-up",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "optimizer.py",
                "WARM_UP = 0.1  # of the run\n",
                "WARM_UP = 0.1  # of the run\nEPOCHS = 40\n",
            ),
            Edit("optimizer.py", '    """\n', '    """\n    steps *= EPOCHS\n'),
        ),
        kind="plain",
        cause="The warm-up lasts four runs: the rate only rises, to a quarter of its peak (exactly 1/4 at the last step), and is largest where it should be 0.",
        file="optimizer.py",
        named="warm-up|schedule|learning rate",
    ),
    fault_in(
        name="tagging, entity_f1 is the mean of the F1 of each replica's batch, not the F1 of the whole split",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "metrics.py",
                "class EntityF1(keras.metrics.Metric):\n",
                "class EntityF1(keras.metrics.Mean):\n",
            ),
            Edit(
                "metrics.py",
                '\n    def __init__(self) -> None:\n        super().__init__(name="entity_f1")\n        # Sums, which can be added over batches and replicas.\n        self._right = self.add_variable((), "zeros", name="right")\n        self._predicted = self.add_variable((), "zeros", name="predicted")\n        self._labeled = self.add_variable((), "zeros", name="labeled")\n',
                "",
            ),
            Edit(
                "metrics.py",
                '        self._right.assign_add(_number(is_right))\n        self._predicted.assign_add(_number(predicted_begins))\n        self._labeled.assign_add(_number(begins))\n\n    def result(self) -> tf.Tensor:\n        """2 * right / (predicted + labeled), 0 without entities."""\n        total = tf.convert_to_tensor(self._predicted) + tf.convert_to_tensor(self._labeled)\n        return tf.math.divide_no_nan(2 * tf.convert_to_tensor(self._right), total)\n',
                "        total = _number(predicted_begins) + _number(begins)\n        super().update_state(tf.math.divide_no_nan(2 * _number(is_right), total))\n",
            ),
        ),
        kind="subtle",
        cause="F1 isn't a mean over batches: the result depends on batch size and number of replicas, and a short or empty last part weighs like a full one (0 for an empty one).",
        file="metrics.py",
        named="entity_f1.*(batch|replica)",
    ),
    fault_in(
        name="tagging, the embedding is frozen with random weights: trainable=False is left from loaded vectors",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "model.py",
                '    x = layers.Embedding(int(adapted["words"]), task.width, name="embedding")(words)\n',
                '    x = layers.Embedding(int(adapted["words"]), task.width, trainable=False, name="embedding")(words)\n',
            ),
        ),
        kind="plain",
        cause="Two thirds of the weights stay at their random initial values, so known words are told apart worse and F1 falls.",
        file="model.py",
        named="embedding.*(frozen|never|train)",
    ),
    fault_in(
        name="counting, one of the flips mirrors the image but not its density map",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "data.py",
                "        density = tf.where(second < 0.5, tf.reverse(density, [2]), density)\n",
                "",
            ),
        ),
        kind="plain",
        cause="Half of the training maps have their cells in mirrored places: the model blurs and predicts worse.",
        file="data.py",
        named="augment.*(flip|map|label)|flip",
    ),
    fault_in(
        name="counting, the augmentation draws by NumPy, once when it is traced, and uses that for the whole run",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "data.py",
                "        drawn = tf.random.stateless_uniform((images.shape[0], 4), seed)\n",
                '        drawn = np.random.random((1, 4)).astype("float32")\n',
            ),
        ),
        kind="plain",
        cause="All images of all steps get the same flips and one factor of brightness, which hang on the state of NumPy: no augmentation at all, and training images differ from those of the test by that factor.",
        file="data.py",
        named="seed|same (numbers|result)",
    ),
    fault_in(
        name="counting, BatchNormalization has a momentum of 0.999, too slow for a run of some hundred steps",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "model.py",
                "    x = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-2)(x)\n",
                "    x = keras.layers.BatchNormalization(momentum=0.999, epsilon=1e-2)(x)\n",
            ),
        ),
        kind="subtle",
        cause="At the end of a short run the moving statistics are still partly the initial 0 and 1, so evaluation and the exported model normalize by wrong numbers.",
        file="model.py",
        named="momentum|moving (averages|statistics)",
    ),
    fault_in(
        name="counting, process_gradients divides the summed gradients by the number of replicas",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    replicas = tf.distribute.get_strategy().num_replicas_in_sync\n    return [gradient / replicas for gradient in gradients]\n",
            ),
        ),
        kind="plain",
        cause="The loss is already a mean over the global batch, so on N replicas gradient descent makes steps N times too small; one replica shows nothing.",
        file="optimizer.py",
        named="gradients are averaged|divi|process_gradients",
    ),
    fault_in(
        name="counting, count_mae takes the difference of the sums of a batch, in which errors cancel",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "metrics.py",
                "        super().update_state(tf.abs(predicted - counts), sample_weight)\n",
                "        number = tf.reduce_sum(sample_weight)\n        total = tf.reduce_sum(sample_weight * predicted) - tf.reduce_sum(sample_weight * counts)\n        super().update_state(tf.math.divide_no_nan(tf.abs(total), number), number)\n",
            ),
        ),
        kind="plain",
        cause="Reported is the absolute bias of each batch, far below the mean absolute error, and it depends on batch size and replicas; it also selects the best weights.",
        file="metrics.py",
        named="count_mae.*(batch|replica|example)",
    ),
    fault_in(
        name="counting, cells at the border have less than 1 in the density map, since a bell is cut off there",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "data.py",
                "    return bell / bell.sum()\n",
                "    return bell / (2 * np.pi * SPREAD**2)\n",
            ),
        ),
        kind="subtle",
        cause="Maps sum up to less than the count (and density and count are trained towards different numbers), so cells near borders are undercounted.",
        file="data.py",
        named="border|sum|count.*(map|densit)|densit.*count",
    ),
    fault_in(
        name="counting, mirrored copies of all images are added before the split, so test images are in training",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "data.py",
                "    images, density, counts = _draw(random)\n",
                "    images, density, counts = _draw(random)\n    images = np.concatenate([images, images[:, :, ::-1]])\n    density, counts = np.concatenate([density, density[:, :, ::-1]]), np.tile(counts, 2)\n",
            ),
        ),
        kind="plain",
        cause="Most validation and test images have their mirror image, with the same label, in the training data; results are those of seen images.",
        file="data.py",
        named="training examples.*(near|copies|mirror)|near.*training examples",
    ),
    fault_in(
        name="counting, the growing weight of the count is used in evaluation too, where step is the batch number",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "steps.py",
                "    ramp_steps = run.task.ramp * run.num_steps\n    ramp = tf.minimum(tf.cast(replica.step, tf.float32) / ramp_steps, 1.0)\n    return _step(run, batch, replica, ramp, training=True)\n",
                "    return _step(run, batch, replica, training=True)\n",
            ),
            Edit(
                "steps.py",
                '    """The validation loss of this replica\'s part of a batch, with the count in full."""\n    return _step(run, batch, replica, 1.0, training=False)\n',
                '    """The validation loss of this replica\'s part of a batch."""\n    return _step(run, batch, replica, training=False)\n',
            ),
            Edit(
                "steps.py",
                '    """The test loss of this replica\'s part of a batch, with the count in full."""\n    return _step(run, batch, replica, 1.0, training=False)\n',
                '    """The test loss of this replica\'s part of a batch."""\n    return _step(run, batch, replica, training=False)\n',
            ),
            Edit(
                "steps.py",
                "def _step(\n    run: Run, batch: Batch, replica: Replica, ramp: Any, *, training: bool\n) -> dict[str, tf.Tensor]:\n",
                "def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:\n",
            ),
            Edit(
                "steps.py",
                "    images, labels, weights = batch\n",
                "    images, labels, weights = batch\n    ramp_steps = run.task.ramp * run.num_steps\n    ramp = tf.minimum(tf.cast(replica.step, tf.float32) / ramp_steps, 1.0)\n",
            ),
        ),
        kind="subtle",
        cause="The validation and test loss nearly leave out the count, and depend on the order and the number of batches; they can't be compared with the training loss.",
        file="steps.py",
        named="step|first batch of an evaluation",
    ),
    fault_in(
        name="qlearning, the goal adds the value of the next state even where the shop has closed for good",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "steps.py",
                '    goal = labels["reward"] + DISCOUNT * (1 - labels["is_last"]) * next_value\n',
                '    goal = labels["reward"] + DISCOUNT * next_value\n',
            ),
        ),
        kind="plain",
        cause="Closing looks harmless, since a shop that is closed goes on earning: values are too high and orders too small, so the regret rises.",
        file="steps.py",
        named="is_last",
    ),
    fault_in(
        name="qlearning, the last day of each record is marked as the closing of the shop, which goes on",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "data.py",
                "            is_last = bool(is_closed)\n",
                "            is_last = bool(is_closed) or number == DAYS - 1\n",
            ),
        ),
        kind="subtle",
        cause="Values of ordinary states are pulled down towards the reward alone in about every twentieth example, in training and in what the test measures.",
        file="data.py",
        named="is_last|terminal|end",
    ),
    fault_in(
        name="qlearning, the train step doesn't move the target network, which keeps its random initial weights",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "steps.py",
                "    losses = _step(run, batch, replica, training=True)\n    _move_target(run, replica)\n    return losses\n",
                "    return _step(run, batch, replica, training=True)\n",
            ),
        ),
        kind="plain",
        cause="Goals are the reward plus the values of an untrained network: what follows from an order is never learned, and the regret is several times larger.",
        file="steps.py",
        named="target.*(never|frozen|still|initial)|never trained",
    ),
    fault_in(
        name="qlearning, the state holds the demand of the same day, which isn't known when goods are ordered",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "data.py",
                "            state = (stock, weekday, season, last_demand)\n",
                "            state = (stock, weekday, season, demand)\n",
            ),
        ),
        kind="subtle",
        cause="Rewards are predicted from their own cause, so the loss falls; in use the column holds another day's demand, and orders are worse.",
        file="data.py",
        named="demand|answer|leak",
    ),
    fault_in(
        name="qlearning, EarlyStopping waits for a larger regret (mode max), so it ends runs that improve",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "callbacks.py",
                '    stop = keras.callbacks.EarlyStopping("val_regret", mode="min", patience=task.patience)\n',
                '    stop = keras.callbacks.EarlyStopping("val_regret", mode="max", patience=task.patience)\n',
            ),
        ),
        kind="plain",
        cause="The regret is largest in the beginning, so the run ends after some ten validations, while it learns.",
        file="callbacks.py",
        named="invert|larger|mode|improve",
    ),
    fault_in(
        name="qlearning, the learning rate falls by 20% in each step, meant was each twentieth of the run",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "optimizer.py",
                "        task.learning_rate, decay_steps=max(1, steps // 20), decay_rate=0.8, staircase=True\n",
                "        task.learning_rate, decay_steps=1, decay_rate=0.8, staircase=True\n",
            ),
        ),
        kind="plain",
        cause="After some fifty steps the rate is practically 0, and the rest of the run trains nothing.",
        file="optimizer.py",
        named="schedule|learning rate",
    ),
    fault_in(
        name="qlearning, the episodes are split by a generator without a seed, so each start splits them anew",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "data.py",
                "    order = random.permutation(EPISODES)\n",
                "    order = np.random.default_rng().permutation(EPISODES)\n",
            ),
        ),
        kind="plain",
        cause="A resumed run and `evaluate` see other splits than the run before: test episodes were trained on, and no two runs can be compared.",
        file="data.py",
        named="seed|other train",
    ),
    fault_in(
        name="qlearning, td_rmse keeps a moving average of the mean square of batches, which starts at 0",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "metrics.py",
                '        self._squares = self.add_variable((), "zeros", name="squares")\n        self._weight = self.add_variable((), "zeros", name="weight")\n',
                '        self._square = self.add_variable((), "zeros", name="square")\n',
            ),
            Edit(
                "metrics.py",
                "        self._squares.assign_add(tf.reduce_sum(sample_weight * tf.square(errors)))\n        self._weight.assign_add(tf.reduce_sum(sample_weight))\n",
                "        squares = tf.reduce_sum(sample_weight * tf.square(errors))\n        mean = tf.math.divide_no_nan(squares, tf.reduce_sum(sample_weight))\n        self._square.assign(0.9 * self._square.value + 0.1 * mean)\n",
            ),
            Edit(
                "metrics.py",
                "        squares, weight = map(tf.convert_to_tensor, (self._squares, self._weight))\n        return tf.sqrt(tf.math.divide_no_nan(squares, weight))\n",
                "        return tf.sqrt(tf.convert_to_tensor(self._square))\n",
            ),
        ),
        kind="subtle",
        cause="It begins too low, is that of the last batches alone, and since the engine adds up variables of replicas it is larger by the root of their number.",
        file="metrics.py",
        named="td_rmse.*(replica|batch|split)",
    ),
)

TASKS = (
    change_of(name="counting", project="image_classification", edits=COUNTING),
    change_of(name="qlearning", project="image_classification", edits=QLEARNING),
    change_of(name="tagging", project="image_classification", edits=TAGGING),
    change_of(
        name="tagging, the cross-entropy is written by hand, by logsumexp",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "losses.py",
                "def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:\n",
                "def create_losses(task: TaskConfig) -> dict[str, Any]:\n",
            ),
            Edit(
                "losses.py",
                '    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}\n',
                '    def cross_entropy(tags: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n        """Tags int (batch, T), logits (batch, T, TAGS) -> (batch, T)."""\n        right = tf.gather(logits, tags, axis=-1, batch_dims=2)\n        return tf.reduce_logsumexp(logits, axis=-1) - right\n\n    return {"main": cross_entropy}\n',
            ),
        ),
    ),
    change_of(
        name="tagging, padding comes before the words of a sentence, not after them",
        project="image_classification",
        edits=(
            *TAGGING,
            Edit(
                "data.py",
                "        words[row, :size] = np.where(known, places + 2, UNKNOWN)\n        capital[row, :size] = its_capital\n        tags[row, :size] = its_tags\n        weights[row, :size] = 1\n",
                "        here = np.s_[row, LENGTH - size :]\n        words[here] = np.where(known, places + 2, UNKNOWN)\n        capital[here] = its_capital\n        tags[here] = its_tags\n        weights[here] = 1\n",
            ),
        ),
    ),
    change_of(
        name="counting, the last convolution starts with zero weights",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "model.py",
                "    x = layers.Conv2D(1, 1, bias_initializer=keras.initializers.Constant(bias), dtype=floatx)(x)\n",
                '    start = keras.initializers.Constant(bias)\n    x = layers.Conv2D(\n        1, 1, kernel_initializer="zeros", bias_initializer=start, dtype=floatx, name="head"\n    )(x)\n',
            ),
        ),
    ),
    change_of(
        name="counting, training images with many cells are there twice",
        project="image_classification",
        edits=(
            *COUNTING,
            Edit(
                "data.py",
                "    validation, test, train = np.split(rows, [VALIDATION, VALIDATION + TEST])\n",
                "    validation, test, train = np.split(rows, [VALIDATION, VALIDATION + TEST])\n    train = np.concatenate([train, train[counts[train] >= 10]])  # errors are largest there\n",
            ),
        ),
    ),
    change_of(
        name="qlearning, the target network is copied whole in every 20th step, and stands still between",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit(
                "steps.py",
                "    kept = run.task.polyak ** (1 / replica.num_microbatches)  # each micro-batch calls this\n",
                "    is_due = replica.step % 20 == 0\n",
            ),
            Edit(
                "steps.py",
                "        slow.assign(kept * slow.value + (1 - kept) * fast.value)\n",
                "        slow.assign(tf.where(is_due, fast.value, slow.value))\n",
            ),
        ),
    ),
    change_of(
        name="qlearning, training days have weights, larger ones for rare orders; days of the test have none",
        project="image_classification",
        edits=(
            *QLEARNING,
            Edit("data.py", "    return {\n", "    examples: dict[str, Any] = {\n"),
            Edit(
                "data.py",
                "        split: _examples(days[np.isin(episodes, chosen)]) for split, chosen in splits.items()\n    }\n",
                '        split: _examples(days[np.isin(episodes, chosen)]) for split, chosen in splits.items()\n    }\n    states, labels = examples["train"]\n    rarity = 1 / np.sqrt(np.bincount(labels["action"], minlength=shop.ACTIONS))[labels["action"]]\n    examples["train"] = states, labels, (rarity / rarity.mean()).astype("float32")\n    return examples\n',
            ),
        ),
    ),
)
