"""The small types that pass between your task and the engine."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from . import link
from .auxiliary import is_auxiliary
from .bad_examples import BadExamples
from .causes import current_place
from .errors import CollectiveInXlaError, UsageError
from .randomness import Randomness
from .workers import Workers

# Of what a run has by name: which function of `task/` returns it.
MADE_BY = {
    "models": "create_model in task/model.py",
    "losses": "create_losses in task/losses.py",
    "metrics": "create_metrics in task/metrics.py",
    "optimizers": "create_optimizer in task/optimizer.py",
}
MAIN = "main"  # the name of a model, loss or optimizer that is the only one


class Replica(NamedTuple):
    """What a step knows about the replica it runs on.

    Attributes:
        global_count: int64 scalar, the result of your `count` summed over ALL replicas, at least 1:
            the `global_batch_size` that `tf.nn.compute_average_loss` divides by. If `count` returns
            a dict, a dict of such scalars. In training with `--denominator global_batch` it is the
            global batch size.
        index: int32 scalar, 0 to `num_replicas` - 1.
        num_replicas: how many replicas compute this step together.
        step: int64 scalar, train steps made before this one, also in each of the micro-batches that
            `--accumulate` makes; in evaluation the number of the batch, from 0, so nothing of the
            run: a schedule of a loss must end with its last value there.
        seed: int32 (2,) for `tf.random.stateless_*`, different in each step, entry of TRAIN_STEPS,
            micro-batch and replica. With `--randomness global_batch` it is the same on all
            replicas, and each gets its rows of what `tf.random.stateless_*` draws for the global
            batch; `tf.image.stateless_random_flip_*` draw for their rows only, on each replica the
            same. For several draws in a step make several seeds: `tf.random.split(replica.seed)`.
        num_microbatches: parts of the per-replica batch that `--accumulate` makes. The step runs,
            and assigns what it assigns, once for each: an average of weights moves that often.
        compiled: whether XLA compiles this step.
    """

    global_count: Any
    index: tf.Tensor
    num_replicas: int
    step: tf.Tensor
    seed: tf.Tensor
    num_microbatches: int = 1
    compiled: bool = False

    def regularization(self, model: keras.Model) -> tf.Tensor:
        """The sum of `model.losses` (weight regularization and `add_loss`), float scalar.

        For `tf.nn.scale_regularization_loss`. Divided by the number of micro-batches, because the
        engine adds their losses and gradients, and the sum must hold the regularization once.
        """
        losses = [tf.cast(loss, keras.config.floatx()) for loss in model.losses]
        total = tf.add_n(losses) if losses else tf.zeros((), keras.config.floatx())
        return total / self.num_microbatches

    def all_gather(self, value: tf.Tensor) -> tf.Tensor:
        """The rows of every replica, (rows, ...) -> (rows of all replicas, ...); differentiable.

        In the order of the replicas: row r of this one is row `index * rows + r` of all. Those of
        padding come along; to leave them out, gather the weights too.

        Raises:
            CollectiveInXlaError: inside XLA, which can't compile collectives (TF 2.21).
        """
        if self.num_replicas == 1:
            return value
        if self.compiled:
            raise CollectiveInXlaError(
                "replica.all_gather can't be compiled with XLA; use --jit off."
            )
        return tf.distribute.get_replica_context().all_gather(value, axis=0)


Step = Callable[["Run", Any, Replica], dict[str, tf.Tensor]]


def step_name(step: Step) -> str:
    """Its name in a sentence: of a functools.partial its function's, of an object its class'."""
    function = getattr(step, "func", step)
    return str(getattr(function, "__name__", type(function).__name__))


@dataclass(frozen=True)
class TaskFunctions:
    """The functions of `task/` that the engine calls, and what it must know of them."""

    train_steps: tuple[Step, ...]
    validation_step: Step
    test_step: Step
    count: Callable[[Any], Any]
    process_gradients: Callable[..., list[tf.Tensor]]
    examples_interact: bool = False  # an example's loss or metric depends on others of its batch


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything the factories made; every step receives it.

    A single model is stored under the name "main" and is also `run.model`. An optimizer trains the
    model of its own name; a single one that is called "main", or like no model, trains all of
    them. Models may share layers. Auxiliary models, those of `load_frozen`, are in `models`
    too, but are neither trained nor saved. Validation and test steps get their own metric objects,
    so evaluation never resets those of training. A shape (losses,) means one entry per optimizer,
    then one per term.
    """

    strategy: tf.distribute.Strategy
    models: dict[str, keras.Model]
    losses: dict[str, Callable[..., tf.Tensor]]
    metrics: dict[str, keras.metrics.Metric]
    evaluation_metrics: dict[str, keras.metrics.Metric]
    optimizers: dict[str, keras.optimizers.Optimizer]
    functions: TaskFunctions
    task: Any  # your TaskConfig: the flags of the task
    global_batch_size: int
    num_steps: int = 0  # train steps in the whole run, for what changes with replica.step
    seed: int = 0
    randomness: Randomness = "replica"
    terms: tuple[str, ...] = ()  # what steps return beside the losses, to be reported
    adapted: dict[str, np.ndarray] = field(default_factory=dict)  # what your `adapt` returned
    bad_examples: BadExamples = field(default_factory=BadExamples)  # left out, as can't be read

    @cached_property
    def workers(self) -> Workers:
        """The workers that train together."""
        return Workers(self.strategy)

    @property
    def trained_models(self) -> dict[str, keras.Model]:
        """The models without the auxiliary ones."""
        return {name: model for name, model in self.models.items() if not is_auxiliary(model)}

    @property
    def model(self) -> keras.Model:
        """The only model, beside auxiliary ones.

        Raises:
            UsageError: there are several.
        """
        (model, *others) = self.trained_models.values()
        if others:
            names = ", ".join(map(repr, self.models))
            raise UsageError(
                f"{current_place()}run.model is asked for, and there are several models: use "
                f"run.models[...] with one of {names}."
            )
        return model

    def models_of(self, optimizer: str) -> list[keras.Model]:
        """The models that an optimizer trains, by its name."""
        models = self.trained_models
        if len(self.optimizers) == 1 and (optimizer == MAIN or optimizer not in models):
            return list(models.values())
        return [models[optimizer]]

    def variables_of(self, optimizer: str) -> list[keras.Variable]:
        """The variables that an optimizer trains now (those of frozen layers are left out)."""
        return unique(v for model in self.models_of(optimizer) for v in model.trainable_variables)

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The variables of all models that train now."""
        models = self.trained_models.values()
        return unique(v for model in models for v in model.trainable_variables)

    def processed(
        self, gradients: list[tf.Tensor], variables: list[keras.Variable]
    ) -> list[tf.Tensor]:
        """What `process_gradients` returns; it receives this run if it has a parameter `run`."""
        function = self.functions.process_gradients
        if "run" in inspect.signature(function).parameters:
            return function(gradients, variables, run=self)
        return function(gradients, variables)

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """Every layer of the trained models, nested ones included, always in the same order."""
        return unique(layer for m in self.trained_models.values() for layer in m._flatten_layers())

    @property
    def what_trains(self) -> tuple[int, ...]:
        """What a graph is made for: another one is needed once a layer or a variable is frozen.

        A layer without trainable variables, such as some BatchNormalization, is frozen, too.
        """
        layers = (id(layer) for layer in self.layers if layer.trainable)
        return (*map(id, self.trainable_variables), *layers)

    @property
    def _freezable(self) -> list[keras.layers.Layer | keras.Variable]:
        """Outer layers before inner ones, then variables: each also decides about what it holds."""
        models = self.trained_models.values()
        return [*self.layers, *unique(v for model in models for v in model.variables)]

    @property
    def trainable(self) -> list[bool]:
        """Which layers and variables of the trained models are, for `set_trainable`."""
        return [each.trainable for each in self._freezable]

    def set_trainable(self, flags: list[bool]) -> None:
        """Freeze what was frozen when `flags` were read from `trainable`.

        Raises:
            UsageError: a layer without weights, which no signature has, was added or removed.
        """
        freezable = self._freezable
        if len(freezable) != len(flags):
            raise UsageError(
                f"The weights can't be read: the models had {len(flags)} layers and variables when "
                f"they were saved, and now they have {len(freezable)}; start a new run, or set the "
                "models back."
            )
        for each, trainable in zip(freezable, flags, strict=True):
            if each.trainable != trainable:
                each.trainable = trainable

    @property
    def returned(self) -> list[str]:
        """The names of what steps return: a loss for each optimizer, then the terms."""
        return [*self.optimizers, *self.terms]

    @property
    def loss_names(self) -> list[str]:
        """What is `returned`, as it is called in results."""
        losses = ["loss" if name == MAIN else f"{name}_loss" for name in self.optimizers]
        return [*losses, *self.terms]

    def metric_results(self, updated: Container[int] | None = None) -> dict[str, float]:
        """The results of the metrics, by name; a result of several numbers as "name/0", ...

        Args:
            updated: ids of the variables that a step updates: a metric of others is NaN, as the
                mean of a loss that a step doesn't return, while all of them are 0.
        """
        link.arrive()  # they are sums over all workers
        results: dict[str, float] = {}
        for name, metric in self.metrics.items():
            columns = dict(_columns(name, metric.result()))
            if updated is not None and not any(id(v) in updated for v in metric.variables):
                values = [tf.convert_to_tensor(v.value) for v in metric.variables]
                if values and not any(map(np.any, values)):  # nor has a callback updated it
                    columns = dict.fromkeys(columns, math.nan)
            results |= columns
        return results

    def by_loss_name(self, values: Iterable[Any]) -> dict[str, float]:
        """Losses and terms, float (losses,), by their names in results."""
        return {n: float(value) for n, value in zip(self.loss_names, values, strict=True)}


def unique(things: Iterable[Any]) -> list[Any]:
    """Each thing once, where it comes first: models that share layers share variables."""
    return list({id(thing): thing for thing in things}.values())


def _columns(name: str, result: Any) -> Iterator[tuple[str, float]]:
    """A scalar as `name`; an array or a dict as "name/0", "name/1" or "name/key"."""
    if isinstance(result, dict):
        for key, value in result.items():
            yield from _columns(f"{name}/{key}", value)
        return
    for index, number in np.ndenumerate(tf.convert_to_tensor(result).numpy()):
        yield "/".join([name, *map(str, index)]), float(number)
