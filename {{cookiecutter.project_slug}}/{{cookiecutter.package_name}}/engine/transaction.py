"""One replica's share of a train step as a pure computation: nothing is written.

Your step reads and writes Keras variables as usual. A `keras.StatelessScope` answers the reads with
the values given here and keeps the writes, so that the step can be compiled as a whole, cut into
micro-batches, and committed or dropped as one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from .errors import CollectiveInXlaError, UsageError
from .replicas import derive_seeds, is_random_state
from .types import Replica, Run

TrainStep = Callable[[Run, Any, Replica], dict[str, tf.Tensor]]


class Share(NamedTuple):
    """What a train step computes from one replica's share."""

    losses: dict[str, tf.Tensor]  # scalars, by optimizer
    gradients: dict[str, list[tf.Tensor]]  # of the losses times the loss scale, by optimizer
    writes: dict[str, tf.Tensor]  # new values of variables, by position in `Transaction.state`


class Transaction:
    """The train steps of one run, made pure.

    Args:
        run: what the factories made.
        accumulate: micro-batches per share; their gradients are added.
        jit: "on", "off" or "auto": compile forward and backward with XLA.
        synchronized: the models average over the replicas inside forward and backward.
    """

    def __init__(self, run: Run, accumulate: int, jit: str, synchronized: bool) -> None:
        self.run = run
        self.accumulate = accumulate
        variables = [v for model in run.models.values() for v in model.non_trainable_variables]
        self.random_states = [v for v in variables if is_random_state(v)]
        self.state = [v for v in variables if not is_random_state(v)]
        self.state += [v for metric in run.metrics.values() for v in metric.variables]
        self.jit = _resolve_jit(jit, synchronized)
        self._jit_is_optional = jit == "auto"
        self._compiled: dict[tuple[int, ...], Any] = {}  # by what trains: shapes don't tell it

    def share(
        self, train_step: TrainStep, batch: Any, count: tf.Tensor, step: tf.Tensor, scale: tf.Tensor
    ) -> Share:
        """Losses, gradients and writes of one replica's `batch`, micro-batch by micro-batch."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        index = self.run.task.train_steps.index(train_step)
        shares = (
            self.run.strategy.num_replicas_in_sync
            * len(self.run.task.train_steps)
            * self.accumulate
        )
        first = (replica * len(self.run.task.train_steps) + index) * self.accumulate
        state = [tf.convert_to_tensor(v.value) for v in self.state]
        values = [tf.convert_to_tensor(v.value) for v in self.trainable]
        total: Share | None = None
        for part in range(self.accumulate):
            seeds = derive_seeds(
                self.run.seed, step, first + part, shares, len(self.random_states) + 1
            )
            # One micro-batch at a time, or all would be in memory at once.
            with tf.control_dependencies(tf.nest.flatten(total.gradients) if total else []):
                piece = tf.nest.map_structure(
                    lambda t, p=part: tf.identity(self._piece(t, p)), batch
                )
            more = self._compute(train_step, piece, count, scale, seeds, values, state)
            for key, value in more.writes.items():
                state[int(key)] = value
            total = more if total is None else _add(total, more)
        assert total is not None
        return total

    @property
    def trainable(self) -> list[keras.Variable]:
        """The variables that train now."""
        return [v for model in self.run.models.values() for v in model.trainable_variables]

    def _compute(self, *arguments: Any) -> Share:
        if self.jit:
            trainable = tuple(map(id, self.trainable))
            if trainable not in self._compiled:
                self._compiled[trainable] = tf.function(
                    self._compute_part, jit_compile=True, autograph=False
                )
            try:
                return Share(*self._compiled[trainable](*arguments))
            except CollectiveInXlaError as error:
                if not self._jit_is_optional:
                    raise
                print(f"jit: off. {error}")
                self.jit = False
        return Share(*self._compute_part(*arguments))

    def _piece(self, t: tf.Tensor, part: int) -> tf.Tensor:
        rows = t.shape[0] // self.accumulate
        return t[part * rows : (part + 1) * rows]

    def _compute_part(
        self,
        train_step: TrainStep,
        batch: Any,
        count: tf.Tensor,
        scale: tf.Tensor,
        seeds: tf.Tensor,
        values: list[tf.Tensor],
        state: list[tf.Tensor],
    ) -> tuple[dict[str, tf.Tensor], dict[str, list[tf.Tensor]], dict[str, tf.Tensor]]:
        trainable = self.trainable
        mapping = [
            *zip(self.random_states, tf.unstack(seeds[1:]), strict=True),
            *zip(self.state, state, strict=True),
            *zip(trainable, values, strict=True),
        ]
        seed = tf.bitcast(seeds[0], tf.int32)
        replica = Replica(count, self.accumulate, seed, self.jit)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(values)
            # Without collect_losses, losses of `add_loss` would vanish (Keras 3.15).
            with keras.StatelessScope(mapping, collect_losses=True) as scope:
                losses = train_step(self.run, batch, replica)
            self._refuse_unknown(losses, scope, mapping)
            scaled = {name: loss * tf.cast(scale, loss.dtype) for name, loss in losses.items()}
        by_id = {id(v): value for v, value in zip(trainable, values, strict=True)}
        gradients = {}
        for name, loss in scaled.items():
            sources = [by_id[id(v)] for v in self.run.variables_of(name)]
            found = tape.gradient(loss, sources, unconnected_gradients="zero")
            gradients[name] = [tf.convert_to_tensor(g) for g in found]  # embeddings' slices too
        writes = {}
        for i, (variable, before) in enumerate(zip(self.state, state, strict=True)):
            value = scope.get_current_value(variable)
            if value is not before:
                writes[str(i)] = tf.cast(value, variable.dtype)
        return losses, gradients, writes

    def _refuse_unknown(
        self, losses: dict[str, tf.Tensor], scope: keras.StatelessScope, mapping: list[Any]
    ) -> None:
        if not isinstance(losses, dict) or set(losses) - set(self.run.optimizers):
            names = ", ".join(map(repr, self.run.optimizers))
            raise UsageError(
                f"A train step returns {losses!r}; it must return losses by the names of their "
                f"optimizers, which are: {names}."
            )
        if set(scope.state_mapping) - {id(variable) for variable, _ in mapping}:
            raise UsageError(
                "The train step changes a Keras variable that belongs to no model and no metric "
                "of the run, so the change would be lost. For random numbers use replica.seed "
                "with tf.random.stateless_*, or a SeedGenerator that is an attribute of the model."
            )


def _resolve_jit(choice: str, synchronized: bool) -> bool:
    """Whether to compile: with "auto" where there is an accelerator.

    Raises:
        UsageError: "on", and XLA can't take the models.
    """
    if synchronized and choice == "on":
        raise UsageError(
            "--jit on: BatchNormalization averages over the replicas inside the model, which XLA "
            "can't compile (TF 2.21); use --jit off, or GroupNormalization or LayerNormalization."
        )
    # Not on the CPU: there XLA makes convolutions up to ten times slower (TF 2.21).
    accelerated = any(tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU"))
    return choice == "on" or (choice == "auto" and accelerated and not synchronized)


def _add(a: Share, b: Share) -> Share:
    return Share(
        {name: a.losses[name] + b.losses[name] for name in a.losses},
        {
            name: [x + y for x, y in zip(a.gradients[name], b.gradients[name], strict=True)]
            for name in a.gradients
        },
        a.writes | b.writes,
    )
