"""Models of a few weights, and what training them on N replicas gives."""

from __future__ import annotations

import contextlib
import functools
import linecache
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import keras
import numpy as np
import proof.run
import tensorflow as tf
from proof.config import Config
from proof.engine import predict
from proof.engine.batches import TrainingBatches
from proof.engine.callbacks import Callback
from proof.engine.causes import TASK
from proof.engine.check import Laboratory, relative_difference
from proof.engine.distributed_steps import DistributedSteps
from proof.engine.progress import Progress
from proof.engine.types import Replica, Run
from proof.task.config import TaskConfig
from proof.task.losses import compute_loss, count

BATCH, FEATURES, CLASSES = 24, 5, 3
CREATE_RUN = proof.run.create_run


def no_columns(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """The table of a task that says nothing of its predictions."""
    return {}


predict_files = functools.partial(
    predict.predict_files, readers={}, describe=no_columns, batch_size=256
)
predict_split = functools.partial(predict.predict_split, describe=no_columns, batch_size=256)


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


def step_of(name: str) -> Callable[..., dict[str, tf.Tensor]]:
    """The train step of the default project, of one of several models."""

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        predictions = run.models[name](inputs, training=True)
        per_example = run.losses["main"](labels, predictions)
        for metric in run.metrics.values():
            metric.update_state(labels, predictions, weights)
        (optimizer,) = run.optimizers
        return {optimizer: compute_loss(per_example, weights, run.models[name], replica)}

    return step


def plain_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """That of the only model."""
    return step_of("main")(run, batch, replica)


def step_of_task(lines: str) -> Callable[..., dict[str, tf.Tensor]]:
    """The default train step, with `lines` after line 4, in task/steps.py."""
    names = {"tf": tf, "np": np, "keras": keras, "compute_loss": compute_loss}
    code = f"""
def step(run, batch, replica):
    inputs, labels, weights = batch
    predictions = run.models["main"](inputs, training=True)
    {lines}
    per_example = run.losses["main"](labels, predictions)
    for metric in run.metrics.values():
        metric.update_state(labels, predictions, weights)
    return {{"main": compute_loss(per_example, weights, run.models["main"], replica)}}
"""
    file = str(TASK / "steps.py")
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    exec(compile(code, file, "exec", dont_inherit=True), names)
    return names["step"]  # type: ignore[no-any-return]


def shared_models() -> dict[str, keras.Model]:
    """A model, and another of its first layers, which are regularized."""
    x = inputs = keras.Input((FEATURES,))
    l2 = keras.regularizers.L2(1e-3)
    x = keras.layers.Dense(8, "relu", kernel_regularizer=l2, name="hidden")(x)
    whole = keras.Model(inputs, keras.layers.Dense(CLASSES, name="logits")(x))
    return {"whole": whole, "features": keras.Model(inputs, x)}


def several_samples_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Five noisy samples of each row."""
    inputs, labels, weights = batch
    noise = tf.random.stateless_normal((5, *inputs.shape), replica.seed, dtype=inputs.dtype)
    samples = tf.reshape(inputs + noise, (-1, FEATURES))
    per_sample = run.losses["main"](tf.tile(labels, [5]), run.model(samples, training=True))
    per_example = -tf.reduce_logsumexp(-tf.reshape(per_sample, (5, -1)), axis=0)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def cross_entropy() -> dict[str, Any]:
    """The loss of the default project."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


def adapt_to_nothing(datasets: dict[str, Any]) -> dict[str, Any]:
    """What most models need to know of the data."""
    return {}


def adapted(
    adapt: Callable[[Any], dict[str, Any]], task: TaskConfig, datasets: dict[str, Any]
) -> dict[str, Any]:
    """A toy's `adapt`, called as that of task/model.py; another process can import this."""
    return adapt(datasets)


@dataclass(frozen=True)
class Toy:
    """A task of a few weights; every part has a default."""

    model: Callable[[], Any] = plain_model
    optimizer: Callable[[], Any] = lambda: keras.optimizers.SGD(0.1)
    data: Any = field(default_factory=plain_data)
    train_steps: tuple[Callable[..., Any], ...] = (plain_step,)
    losses: Callable[[], dict[str, Any]] = cross_entropy
    metrics: Callable[[], dict[str, keras.metrics.Metric]] = lambda: {
        "accuracy": keras.metrics.SparseCategoricalAccuracy()
    }
    count: Callable[[Any], tf.Tensor] = count
    process_gradients: Callable[..., Any] = lambda gradients, variables: gradients
    validation_step: Callable[..., Any] | None = None  # the first train step
    test_step: Callable[..., Any] | None = None  # the validation step
    augment: Callable[[Any, tf.Tensor], Any] | None = None
    adapt: Callable[[Any], dict[str, Any]] = adapt_to_nothing
    callbacks: Callable[[], list[Callback]] = list
    create_augment: Callable[[], Any] | None = None  # what gives `augment`
    create_datasets: Callable[[TaskConfig], dict[str, Any]] | None = None  # what gives `splits`
    terms: tuple[str, ...] = ()
    examples_interact: bool = False
    others: dict[str, Any] = field(default_factory=dict)  # validation and test data
    readers: dict[str, Any] = field(default_factory=dict)
    describe: Callable[..., dict[str, Any]] = no_columns

    @property
    def splits(self) -> dict[str, Any]:
        """All data, as `create_datasets` returns it; made anew each time if a function makes it."""
        return {"train": self.data() if callable(self.data) else self.data, **self.others}


class Built(NamedTuple):
    """What `create_run` makes of a toy."""

    run: Run
    steps: DistributedSteps
    batches: TrainingBatches

    def iterator(self, first: int, last: int) -> Iterator[Any]:
        """The batches of steps `first` to `last` - 1."""
        return iter(self.batches.dataset(first, last))


@dataclass
class Trained:
    """A toy after its steps."""

    built: Built
    progress: Progress
    losses: list[np.ndarray]  # one (losses,) for each step that ended a graph call

    @property
    def run(self) -> Run:
        """What was trained."""
        return self.built.run

    @property
    def steps(self) -> DistributedSteps:
        """What trained it."""
        return self.built.steps

    @property
    def weights(self) -> list[np.ndarray]:
        """Every trainable variable of every model."""
        return [v.numpy() for v in self.run.trainable_variables]

    @property
    def state(self) -> list[np.ndarray]:
        """Normalization statistics and the variables of metrics."""
        return [v.numpy() for v in self.steps.transaction.capture.state]

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


def create_run(toy: Toy, *arguments: Any) -> Built:
    """What `create_run` makes of `toy`, in place of the task."""
    (first, *_) = toy.train_steps
    validation_step = toy.validation_step or first
    task = {
        "create_augment": lambda task: (toy.create_augment or (lambda: toy.augment))(),
        "adapt": lambda task, datasets: toy.adapt(datasets),
        "create_model": lambda task, adapted: toy.model(),
        "create_losses": lambda task: toy.losses(),
        "create_metrics": lambda task: toy.metrics(),
        "create_optimizer": lambda task, num_steps: toy.optimizer(),
        "count": toy.count,
        "process_gradients": toy.process_gradients,
        "TRAIN_STEPS": toy.train_steps,
        "TERMS": toy.terms,
        "EXAMPLES_INTERACT": toy.examples_interact,
        "validation_step": validation_step,
        "test_step": toy.test_step or validation_step,
    }
    with patch.multiple(proof.run, **task):
        return Built(*CREATE_RUN(*arguments))


def build(toy: Toy, replicas: int | str = 1, **flags: Any) -> Built:
    """What `create_run` makes of `toy` and of the flags of `Config`."""
    defaults: dict[str, Any] = {
        "global_batch_size": BATCH, "last_batch": "pad", "max_skipped_steps": 99,
        "precision": "float64", "jit": "off",
    }  # fmt: skip
    config = Config(**defaults | flags)
    return create_run(toy, strategy_of(replicas), toy.splits, config, TaskConfig())


def laboratory(toy: Toy, task: TaskConfig | None = None, **flags: Any) -> Laboratory:
    """What `check` observes, with its defaults but for the batch size."""
    return Laboratory(
        lambda *arguments: create_run(toy, *arguments),
        (strategy_of(1), strategy_of(2)),
        toy.create_datasets or (lambda task: toy.splits),
        lambda task: toy.callbacks(),
        Config(**{"global_batch_size": BATCH} | flags),
        task or TaskConfig(),
        toy.readers,
        toy.describe,
        partial(adapted, toy.adapt),
    )


def train(
    toy: Toy,
    replicas: int | str = 1,
    *,
    steps: int = 20,
    steps_per_call: int = 5,
    start: Callable[[Progress], Progress] = lambda progress: progress,
    **flags: Any,
) -> Trained:
    """Build `toy` and train it, from the progress that `start` makes of that of a new run."""
    built = build(toy, replicas, **flags)
    iterator = built.iterator(0, steps)
    progress, losses = start(built.steps.start()), []
    for _ in range(steps // steps_per_call):
        progress = built.steps.distributed_train_step(iterator, steps_per_call, progress)
        losses.append(progress.latest.losses.numpy())
    return Trained(built, progress, losses)


def differences(one: Trained, several: Trained) -> dict[str, float]:
    """The largest relative difference of each kind."""
    return {
        "losses": relative_difference(np.nan_to_num(one.losses), np.nan_to_num(several.losses)),
        "mean losses": relative_difference(one.progress.sums.losses, several.progress.sums.losses),
        "weights": relative_difference(one.weights, several.weights),
        "state": relative_difference(one.state, several.state) if one.state else 0.0,
    }


def assert_parity(
    toy: Toy, replicas: Sequence[int] = (2, 4), tolerance: float = 1e-9, **flags: Any
) -> Trained:
    """Train on one replica and on several, compare, and return what one gave."""
    one = train(toy, 1, **flags)
    for number in replicas:
        several = train(toy, number, **flags)
        for what, difference in differences(one, several).items():
            assert difference <= tolerance, f"{what} differ by {difference:.0e} on {number}"
        np.testing.assert_array_equal(several.progress.sums.counts, one.progress.sums.counts)
        assert several.steps.num_traces() == 1
    return one


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing fails beyond so many bytes, in the midst of a file, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
