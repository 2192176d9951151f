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

from .errors import UsageError
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
        jit: compile forward and backward with XLA.
    """

    def __init__(self, run: Run, accumulate: int, jit: bool) -> None:
        self.run = run
        self.accumulate = accumulate
        variables = [v for model in run.models.values() for v in model.non_trainable_variables]
        self.random_states = [v for v in variables if is_random_state(v)]
        self.state = [v for v in variables if not is_random_state(v)]
        self.state += [v for metric in run.metrics.values() for v in metric.variables]
        self._compute: Any = self._compute_part
        if jit:
            self._compute = tf.function(self._compute_part, jit_compile=True, autograph=False)

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
        state = {str(i): tf.convert_to_tensor(v.value) for i, v in enumerate(self.state)}
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
            more = Share(*self._compute(train_step, piece, count, scale, seeds, values, state))
            state |= more.writes
            total = more if total is None else _add(total, more)
        assert total is not None
        return total

    @property
    def trainable(self) -> list[keras.Variable]:
        """The variables that train now."""
        return [v for model in self.run.models.values() for v in model.trainable_variables]

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
        state: dict[str, tf.Tensor],
    ) -> tuple[dict[str, tf.Tensor], dict[str, list[tf.Tensor]], dict[str, tf.Tensor]]:
        trainable = self.trainable
        mapping = [
            *zip(trainable, values, strict=True),
            *zip(self.state, state.values(), strict=True),
            *zip(self.random_states, tf.unstack(seeds[1:]), strict=True),
        ]
        replica = Replica(count, self.accumulate, tf.bitcast(seeds[0], tf.int32))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(values)
            # Without collect_losses, losses of `add_loss` would vanish (Keras 3.15).
            with keras.StatelessScope(mapping, collect_losses=True) as scope:
                losses = train_step(self.run, batch, replica)
            scaled = {name: loss * tf.cast(scale, loss.dtype) for name, loss in losses.items()}
        self._refuse_unknown_writes(scope, mapping)
        by_id = {id(v): value for v, value in zip(trainable, values, strict=True)}
        gradients = {}
        for name, loss in scaled.items():
            sources = [by_id[id(v)] for v in self.run.variables_of(name)]
            found = tape.gradient(loss, sources, unconnected_gradients="zero")
            gradients[name] = [tf.convert_to_tensor(g) for g in found]  # embeddings' slices too
        writes = {}
        for key, variable in zip(state, self.state, strict=True):
            value = scope.get_current_value(variable)
            if value is not state[key]:
                writes[key] = tf.cast(value, variable.dtype)
        return losses, gradients, writes

    def _refuse_unknown_writes(self, scope: keras.StatelessScope, mapping: list[Any]) -> None:
        if set(scope.state_mapping) - {id(variable) for variable, _ in mapping}:
            raise UsageError(
                "The train step changes a Keras variable that belongs to no model and no metric "
                "of the run, so the change would be lost. For random numbers use replica.seed "
                "with tf.random.stateless_*, or a SeedGenerator that is an attribute of the model."
            )


def _add(a: Share, b: Share) -> Share:
    return Share(
        {name: a.losses[name] + b.losses[name] for name in a.losses},
        {
            name: [x + y for x, y in zip(a.gradients[name], b.gradients[name], strict=True)]
            for name in a.gradients
        },
        a.writes | b.writes,
    )
