"""Models of a few weights, and what training them on N replicas gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from proof.engine.batches import create_layout, training_batches
from proof.engine.check import relative_difference
from proof.engine.distribution import Distribution, Progress
from proof.engine.types import Replica, Run, Task
from proof.task.losses import compute_loss, count

BATCH, FEATURES, CLASSES = 24, 5, 3


def plain_model() -> keras.Model:
    """(batch, 5) -> logits (batch, 3)."""
    x = keras.Input((FEATURES,))
    hidden = keras.layers.Dense(4, activation="tanh", name="hidden")(x)
    return keras.Model(x, keras.layers.Dense(CLASSES, name="logits")(hidden))


def plain_data(rows: int = 2 * BATCH) -> tuple[np.ndarray, ...]:
    """Inputs (rows, 5) and labels (rows,)."""
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, rows)
    return random.normal(size=(rows, FEATURES)) + labels[:, np.newaxis], labels


def plain_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The train step of the default project."""
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=True)
    per_example = run.losses["main"](labels, predictions)
    for metric in run.metrics.values():
        metric.update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def cross_entropy() -> dict[str, Any]:
    """The loss of the default project."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


@dataclass(frozen=True)
class Toy:
    """A task of a few weights; every part has a default."""

    model: Callable[[], Any] = plain_model
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.1)
    data: tuple[np.ndarray, ...] = field(default_factory=plain_data)
    train_steps: tuple[Callable[..., Any], ...] = (plain_step,)
    losses: Callable[[], dict[str, Any]] = cross_entropy
    metrics: Callable[[], dict[str, keras.metrics.Metric]] = lambda: {
        "accuracy": keras.metrics.SparseCategoricalAccuracy()
    }
    count: Callable[[Any], tf.Tensor] = count
    process_gradients: Callable[..., Any] = lambda gradients, variables: gradients


@dataclass
class Trained:
    """A toy after its steps."""

    distribution: Distribution
    progress: Progress
    losses: list[np.ndarray]  # one (losses,) for each step that ended a graph call

    @property
    def run(self) -> Run:
        """What was trained."""
        return self.distribution.run

    @property
    def weights(self) -> list[np.ndarray]:
        """Every trainable variable of every model."""
        return [v.numpy() for m in self.run.models.values() for v in m.trainable_variables]

    @property
    def state(self) -> list[np.ndarray]:
        """Normalization statistics and the variables of metrics."""
        return [v.numpy() for v in self.distribution.transaction.state]

    @property
    def slots(self) -> list[np.ndarray]:
        """Every variable of every optimizer."""
        return [v.numpy() for o in self.run.optimizers.values() for v in o.variables]

    def everything(self) -> list[np.ndarray]:
        """All that a skipped step must not touch."""
        return [*self.weights, *self.state, *self.slots]


def strategy_of(replicas: int | str) -> tf.distribute.Strategy:
    """One of the strategies that can live in one process: none, one_device, or N replicas."""
    if replicas in (1, "none"):
        return tf.distribute.get_strategy()
    if replicas == "one_device":
        return tf.distribute.OneDeviceStrategy("CPU:0")
    devices = [f"CPU:{i}" for i in range(int(replicas))]
    return tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())


def build(toy: Toy, replicas: int | str = 1, *, batch: int = BATCH, **knobs: Any) -> Distribution:
    """The distributed steps of `toy`; made in the order of `run.py`."""
    strategy = strategy_of(replicas)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        losses, metrics = toy.losses(), toy.metrics()
        models = _named(toy.model())
        optimizers = _named(toy.optimizer())
        for name, optimizer in optimizers.items():
            trained = list(models.values()) if len(optimizers) == 1 else [models[name]]
            if optimizer is not None:
                optimizer.build([v for model in trained for v in model.trainable_variables])
    (first, *_) = toy.train_steps
    task = Task(toy.train_steps, first, first, toy.count, toy.process_gradients)
    run = Run(strategy, models, losses, metrics, optimizers, task, batch)
    layout = create_layout(strategy, batch, knobs.pop("accumulate", 1))
    return Distribution(run, layout, **{"max_skipped_steps": 99} | knobs)


def batches(
    toy: Toy, distribution: Distribution, first: int, last: int, last_batch: Any = "pad"
) -> Any:
    """An iterator over the batches of steps `first` to `last` - 1."""
    return iter(
        training_batches(
            toy.data,
            distribution.layout,
            seed=0,
            first_step=first,
            last_step=last,
            last_batch=last_batch,
        )
    )


def train(
    toy: Toy,
    replicas: int | str = 1,
    *,
    steps: int = 20,
    steps_per_call: int = 5,
    last_batch: Any = "pad",
    start: Callable[[Progress], Progress] = lambda progress: progress,
    prepare: Callable[[Distribution], None] | None = None,
    **knobs: Any,
) -> Trained:
    """Build `toy` and train it, from the progress that `start` makes of that of a new run."""
    distribution = build(toy, replicas, **knobs)
    if prepare:
        prepare(distribution)
    iterator = batches(toy, distribution, 0, steps, last_batch)
    progress, losses = start(distribution.start()), []
    for _ in range(steps // steps_per_call):
        progress = distribution.distributed_train_step(iterator, steps_per_call, progress)
        losses.append(progress.last_losses.numpy())
    return Trained(distribution, progress, losses)


def differences(one: Trained, several: Trained) -> dict[str, float]:
    """The largest relative difference of each kind."""
    return {
        "losses": relative_difference(np.nan_to_num(one.losses), np.nan_to_num(several.losses)),
        "mean losses": relative_difference(one.progress.losses, several.progress.losses),
        "weights": relative_difference(one.weights, several.weights),
        "state": relative_difference(one.state, several.state) if one.state else 0.0,
    }


def assert_parity(
    toy: Toy, replicas: Sequence[int] = (2, 4), tolerance: float = 1e-9, **knobs: Any
) -> Trained:
    """Train on one replica and on several, compare, and return what one gave."""
    one = train(toy, 1, **knobs)
    for number in replicas:
        several = train(toy, number, **knobs)
        for what, difference in differences(one, several).items():
            assert difference <= tolerance, f"{what} differ by {difference:.0e} on {number}"
        assert int(several.progress.examples) == int(one.progress.examples)
        assert several.distribution.number_of_traces() == 1
    return one


def _named(made: Any) -> dict[str, Any]:
    return made if isinstance(made, dict) else {"main": made}
