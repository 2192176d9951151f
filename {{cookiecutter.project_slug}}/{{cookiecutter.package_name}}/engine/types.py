"""The three small types that pass between your task and the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from .errors import CollectiveInXlaError

MAIN = "main"  # the name of a model, loss or optimizer that is the only one


class Replica(NamedTuple):
    """What one replica knows of the others while it computes its share of a step.

    Attributes:
        count: int32 scalar, what your `count` found, summed over ALL replicas: the
            `global_batch_size` that `tf.nn.compute_average_loss` divides by.
        microbatches: into how many parts `--accumulate` cuts this share.
        compiled: whether XLA compiles this.
        seed: int32 (2,) for `tf.random.stateless_*`, new in each step, replica and micro-batch.
    """

    count: tf.Tensor
    microbatches: int
    seed: tf.Tensor
    compiled: bool = False

    def all_gather(self, value: tf.Tensor) -> tf.Tensor:
        """The rows of every replica, (rows, ...) -> (rows of all replicas, ...); differentiable.

        Raises:
            CollectiveInXlaError: inside XLA, where replicas can't talk to each other (TF 2.21).
        """
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return value
        if self.compiled:
            raise CollectiveInXlaError(
                "replica.all_gather can't be compiled with XLA; use --jit off."
            )
        return context.all_gather(value, axis=0)


@dataclass(frozen=True)
class Task:
    """The functions of `task/` that the engine calls."""

    train_steps: tuple[Callable[[Run, Any, Replica], dict[str, tf.Tensor]], ...]
    validation_step: Callable[[Run, Any, Replica], dict[str, tf.Tensor]]
    test_step: Callable[[Run, Any, Replica], dict[str, tf.Tensor]]
    count: Callable[[Any], tf.Tensor]
    process_gradients: Callable[[list[tf.Tensor], list[keras.Variable]], list[tf.Tensor]]
    augment: Callable[[Any, tf.Tensor], Any] | None = None


@dataclass(frozen=True)
class Run:
    """Everything the factories made; every step receives it.

    One model is kept under the name "main" and is also `run.model`. An optimizer trains the model
    of its own name; an only optimizer trains all models.
    """

    strategy: tf.distribute.Strategy
    models: dict[str, keras.Model]
    losses: dict[str, Callable[..., tf.Tensor]]
    metrics: dict[str, keras.metrics.Metric]
    optimizers: dict[str, keras.optimizers.Optimizer]
    task: Task
    global_batch_size: int
    seed: int = 0

    @property
    def model(self) -> keras.Model:
        """The only model.

        Raises:
            ValueError: there are several.
        """
        if len(self.models) > 1:
            raise ValueError(f"there are several models: use run.models[...], {list(self.models)}")
        return next(iter(self.models.values()))

    def variables_of(self, name: str) -> list[keras.Variable]:
        """The variables that optimizer `name` trains now (a frozen layer's are left out)."""
        models = self.models.values() if len(self.optimizers) == 1 else [self.models[name]]
        return [variable for model in models for variable in model.trainable_variables]
