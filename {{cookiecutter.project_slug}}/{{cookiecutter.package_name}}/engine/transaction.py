"""A train step that is computed first, and then committed as a whole or dropped as a whole.

In a classic custom loop the step itself calls the tape and `optimizer.apply_gradients`, and metrics
and normalization statistics change while it runs. Here:

- **The tape** is in `_forward_backward`: your train step runs under it, in a
  `keras.StatelessScope`, which answers every read of a Keras variable with a value given here and
  keeps every write. So a step is a pure function: values in; losses, gradients, new values out.
- **XLA** (`--jit`) compiles `_forward_backward` and nothing else: what comes after talks to other
  replicas, which XLA can't compile (TF 2.21).
- **Writes are captured** so that a step whose loss or gradient isn't finite changes nothing at all:
  no weight, no metric, no moving average. `commit` is the only place that writes variables.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from . import model_inputs  # noqa: F401 (it refuses dicts that a model would take wrongly)
from .causes import place_of, raised_by
from .errors import CollectiveInXlaError, UsageError
from .gradients import apply_gradients
from .inner_functions import StepScope, inlined
from .loss_scale import LossScale, LossScaling
from .output import say
from .randomness import Place, drawing_for
from .replicas import RandomStates, derive_seeds, is_random_state, keeping_attributes
from .types import MADE_BY, Replica, Run, Step, step_name, unique

Writes = list[tf.Tensor | None]  # new values of the captured variables, None where not written


class StepResult(NamedTuple):
    """What a train step computes on one replica, before anything is summed or written."""

    losses: dict[str, tf.Tensor]  # scalars, by optimizer or term
    gradients: dict[str, list[tf.Tensor]]  # of the scaled losses, by optimizer
    writes: Writes  # for Capture.writable


# Where TensorFlow is to make a tensor of a dict (TF 2.21).
A_DICT = re.compile(r"type \(<class 'dict'>\)|Expected any non-tensor type, but got a tensor")
ASKED = re.compile(rf"\brun\.({'|'.join(MADE_BY)})\[")


class Capture:
    """Runs a step on one replica so that what it would write is returned instead.

    Args:
        run: what the factories made; the metrics written to are those of this run.

    Attributes:
        assigned: ids of the variables that traced steps assign.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.assigned: set[int] = set()

    @property
    def _frozen(self) -> list[keras.Variable]:
        models = self.run.trained_models.values()
        return unique(v for model in models for v in model.non_trainable_variables)

    @property
    def random_states(self) -> list[keras.Variable]:
        """Those of the models' layers."""
        return [v for v in self._frozen if is_random_state(v)]

    @property
    def state(self) -> list[keras.Variable]:
        """What a step may assign though it doesn't train now, that of metrics last."""
        metrics = [v for metric in self.run.metrics.values() for v in metric.variables]
        return [*(v for v in self._frozen if not is_random_state(v)), *metrics]

    @property
    def writable(self) -> list[keras.Variable]:
        """What a step may assign, in the order of its writes: `state`, and what is trained now.

        That is for weights that a step clips, and keras.layers.SpectralNormalization.
        """
        return [*self.state, *self.run.trainable_variables]

    def read(self) -> list[tf.Tensor]:
        """The current values of `state` on this replica."""
        return _values(self.state)

    def call(
        self,
        step: Step,
        batch: Any,
        replica: Replica,
        *,
        seeds: tf.Tensor,
        state: list[tf.Tensor],
        trained: list[tuple[keras.Variable, tf.Tensor]],
    ) -> tuple[dict[str, tf.Tensor], Writes]:
        """The losses and terms of a step, and the new values of `state` and of what is trained.

        Args:
            step: a function of task/steps.py.
            batch: this replica's examples.
            replica: what the step is told about the replica.
            seeds: uint32 (random states, 2).
            state: the values that the step reads from `state`.
            trained: variables and the values that the step reads from them instead.

        Raises:
            UsageError: the step returns or writes what it may not.
        """
        random_states, states = self.random_states, list(zip(self.state, state, strict=True))
        seed_of_each = tf.unstack(seeds, len(random_states))
        mapping = [*zip(random_states, seed_of_each, strict=True), *states, *trained]
        rows = tf.nest.flatten(batch)[0].shape[0]
        place = Place(rows, replica.index, replica.num_replicas, self.run.randomness)
        trains = self.run.what_trains
        counts, scope = replica.global_count, _Scope(mapping, step_name(step), place)
        layers = (x for model in self.run.models.values() for x in model._flatten_layers())
        with scope.entered(), keeping_attributes(layers), _explained(step, self.run, counts):
            losses = step(self.run, batch, replica)
        losses = self._valid(step, losses)
        known = {id(variable) for variable, _ in mapping}
        if made := [v.path for v in (*self._frozen, *self.writable) if id(v) not in known]:
            raise UsageError(
                f"{step_name(step)} creates the weights {', '.join(made)}: too late, since they "
                "belong to no optimizer yet. In create_model call the model once with "
                "training=True and once with training=False, on zeros of the right shape."
            )
        if self.run.what_trains != trains:
            raise UsageError(
                f"{step_name(step)} sets what is trainable, which Python does once, while the "
                "step is traced. Leave it out, since an optimizer changes only the weights of its "
                "own model; or freeze layers in create_model or in a callback."
            )
        if set(scope.state_mapping) - known:
            raise UsageError(
                f"{step_name(step)} changes a Keras variable that belongs to no model and no "
                "metric of the run, so the change would be lost. For random numbers use "
                "replica.seed with tf.random.stateless_*, or a SeedGenerator that is an attribute "
                "of the model; of recurrent layers leave out stateful=True."
            )
        writes: Writes = []
        for variable, before in [*states, *trained]:
            after = scope.get_current_value(variable)
            if after is not before:
                self.assigned.add(id(variable))
            writes.append(None if after is before else tf.cast(after, variable.dtype))
        return losses, writes

    def _valid(self, step: Step, losses: Any) -> dict[str, tf.Tensor]:
        """What a step returned, as tensors."""
        if not isinstance(losses, dict) or set(losses) - set(self.run.returned):
            found = ", ".join(map(repr, losses)) if isinstance(losses, dict) else repr(losses)
            optimizers, terms = (
                ", ".join(map(repr, names)) for names in (self.run.optimizers, self.run.terms)
            )
            raise UsageError(
                f"{step_name(step)} returns {found}; it must return losses by the names of their "
                f"optimizers, which are: {optimizers}; and it may return what TERMS in "
                f"task/steps.py names: {terms or 'nothing yet'}."
            )
        losses = {name: tf.convert_to_tensor(loss) for name, loss in losses.items()}
        for name, loss in losses.items():
            if loss.shape.rank != 0:
                raise UsageError(
                    f"{step_name(step)} returns {name!r} with shape {loss.shape}; it must be a "
                    "scalar, as from compute_loss or tf.nn.compute_average_loss."
                )
        return losses

    def write(self, writes: Writes) -> None:
        """Give what is `writable` each replica's own new values; called inside a replica."""
        variables = self.writable
        written = [i for i, value in enumerate(writes) if value is not None]

        def assign(strategy: tf.distribute.Strategy, values: list[Any]) -> None:
            # `assign` inside a replica would average over the replicas once more: write each copy.
            for i, value in zip(written, values, strict=True):
                strategy.extended.update(
                    variables[i].value, lambda v, new: v.assign(new), (value,), group=False
                )

        values = [writes[i] for i in written]
        tf.distribute.get_replica_context().merge_call(assign, args=(values,))


def _unknown_name(run: Run, error: KeyError) -> str:
    """Which names there are, where the line that failed asks for another one; "" for others."""
    if not (asked := ASKED.search(raised_by(error))):
        return ""
    made: dict[str, Any] = getattr(run, asked[1])
    if error.args[0] in made:  # of another dict in that line
        return ""
    name, names = error.args[0], ", ".join(map(repr, made)) or "nothing"
    return (
        f"{place_of(error)}: there is no {name!r}: {MADE_BY[asked[1]]} returned {names}; write one "
        "of these, or return it there."
    )


@contextmanager
def _explained(step: Step, run: Run, counts: Any) -> Iterator[None]:
    """Explain what a tape in the step gets, where AutoGraph is missed, names, a dict of counts."""
    try:
        yield
    except KeyError as error:
        if sentence := _unknown_name(run, error):
            raise UsageError(sentence) from error
        raise
    except tf.errors.OperatorNotAllowedInGraphError as error:  # a TypeError, too
        where = f" at {place}" if (place := place_of(error)) else ""
        raise UsageError(
            f"{step_name(step)} uses the value of a tensor in Python{where}, "
            "as `if` and `for` do: AutoGraph isn't used for a step, nor for functions in it that "
            "are decorated with tf.function; use tf.where, tf.cond, tf.while_loop or tf.map_fn."
        ) from error
    except (TypeError, ValueError) as error:
        if not (isinstance(counts, dict) and A_DICT.search(str(error))):
            raise
        raise UsageError(
            f"{place_of(error)}: a dict can't be a number: count in task/losses.py returns one, so "
            "divide each part of the loss by replica.global_count of its name, "
            f"{' or '.join(map(repr, counts))}, and add replica.regularization once."
        ) from error
    except AttributeError as error:
        if not any(name in str(error) for name in ("'handle'", "'_unique_id'")):
            raise
        where = f"{place}: " if (place := place_of(error)) else ""
        raise UsageError(
            f"{where}{step_name(step)} takes or applies gradients of variables, whose values are "
            "plain tensors in a step. Return the losses, and leave out the tape and "
            "apply_gradients: the engine does that. For a gradient in a loss, such as a penalty, "
            "watch and differentiate [v.value for v in variables]."
        ) from error


class _Scope(RandomStates, StepScope):
    """Keeps what a step would write, and refuses what it would write only now and then."""

    def __init__(
        self, mapping: list[tuple[keras.Variable, tf.Tensor]], step: str, place: Place
    ) -> None:
        # Without collect_losses, losses of `add_loss` would vanish (Keras 3.15).
        super().__init__(mapping, collect_losses=True)
        self._step, self._place = step, place

    @contextmanager
    def entered(self) -> Iterator[_Scope]:
        """All that holds while a step is traced."""
        with drawing_for(self._place), inlined(), self:
            yield self

    def again(self, values: dict[int, tf.Tensor]) -> AbstractContextManager[_Scope]:
        """The same for a part of the step that is computed again."""
        scope = _Scope([], self._step, self._place)
        scope.state_mapping = values
        return scope.entered()

    def add_update(self, update: tuple[keras.Variable, Any]) -> None:
        """Keep a new value.

        Raises:
            UsageError: it is assigned in a branch or a loop, and would be kept in every case.
        """
        variable, _ = update
        is_inside = tf.compat.v1.get_default_graph() is not self._graph
        if is_inside and not is_random_state(variable):
            raise UsageError(
                f"{self._step} assigns {variable.path} inside tf.cond, tf.while_loop or tf.map_fn, "
                "where it can't be kept for the end of the step; assign it outside, such as "
                "variable.assign(tf.where(condition, new, variable.value))."
            )
        super().add_update(update)


class Transaction:
    """The train steps of one run: compute now, commit later or never.

    Args:
        run: what the factories made.
        accumulate: micro-batches in a per-replica batch; their losses and gradients are added.
        jit: compile forward and backward with XLA.
        jit_is_optional: run without XLA, and print so, where a step can't be compiled.
        loss_scaling: of float16 training.
    """

    def __init__(
        self,
        run: Run,
        *,
        accumulate: int,
        jit: bool,
        jit_is_optional: bool,
        loss_scaling: LossScaling,
    ) -> None:
        self.run = run
        self.accumulate = accumulate
        self.jit = jit
        self.capture = Capture(run)
        self._jit_is_optional = jit_is_optional
        self._loss_scaling = loss_scaling
        # Ids of variables, by train step and optimizer.
        self._reached: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
        # By train step and by what trains, which shapes alone don't tell.
        self._compiled: dict[tuple[int, ...], Any] = {}

    def compute(
        self,
        train_step: int,
        batch: Any,
        *,
        global_count: Any,
        step: tf.Tensor,
        loss_scale: LossScale,
    ) -> StepResult:
        """Losses, gradients and writes of one replica's batch; one micro-batch after the other.

        Args:
            train_step: which of the task's train steps.
            batch: this replica's examples.
            global_count: int64 scalar, or several in a dict.
            step: int64 scalar, train steps made before this one.
            loss_scale: of float16 training.
        """
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        state, trained = self.capture.read(), _values(self.run.trainable_variables)
        before = now = [*state, *trained]
        total: StepResult | None = None
        for microbatch in range(self.accumulate):
            seeds = derive_seeds(
                self.run,
                step=step,
                train_step=train_step,
                replica=index,
                microbatch=microbatch,
                num_microbatches=self.accumulate,
                number=len(self.capture.random_states) + 1,
            )
            # One micro-batch at a time, or all would be in memory at once.
            with tf.control_dependencies(tf.nest.flatten(total.gradients) if total else []):
                rows = tf.nest.map_structure(lambda t, m=microbatch: self._rows(t, m), batch)
            result = self._run(
                train_step,
                rows,
                (global_count, index, step),
                seeds,
                loss_scale,
                trained,
                state,
            )
            now = [old if new is None else new for old, new in zip(now, result.writes, strict=True)]
            state, trained = now[: len(state)], now[len(state) :]
            total = result if total is None else _add(total, result)
        assert total is not None
        writes = [None if new is old else new for old, new in zip(before, now, strict=True)]
        return total._replace(writes=writes)

    def commit(
        self, train_step: int, gradients: dict[str, list[tf.Tensor]], writes: Writes
    ) -> None:
        """Write what the step wrote, and apply summed gradients; called inside a replica.

        As in a classic loop, an optimizer leaves alone what no gradient reaches: with zeros in
        their place momentum and weight decay would move what only another train step trains.

        Args:
            train_step: which of the task's train steps.
            gradients: by optimizer, summed over the replicas and final.
            writes: of `compute`, on this replica.
        """
        self.capture.write(writes)
        for name, values in gradients.items():
            reached = self._reached[train_step, name]
            of_each = zip(values, self.run.variables_of(name), strict=True)
            if pairs := [(value, v) for value, v in of_each if id(v) in reached]:
                apply_gradients(self.run.optimizers[name], pairs)

    @property
    def unreached(self) -> list[str]:
        """The weights that train now, but no gradient of a traced step reaches."""
        reached = set().union(*self._reached.values())
        return [v.path for v in self.run.trainable_variables if id(v) not in reached]

    def _rows(self, t: tf.Tensor, microbatch: int) -> tf.Tensor:
        rows = t.shape[0] // self.accumulate
        return tf.identity(t[microbatch * rows : (microbatch + 1) * rows])

    def _run(self, train_step: int, *arguments: Any) -> StepResult:
        """`_forward_backward`, compiled or not."""
        batch, *_ = arguments
        has_strings = any(t.dtype == tf.string for t in tf.nest.flatten(batch))
        if self.jit and self._jit_is_optional and has_strings:
            self._turn_jit_off("XLA can't compile strings")
        if self.jit:
            key = (train_step, *self.run.what_trains)
            if key not in self._compiled:
                self._compiled[key] = tf.function(
                    lambda *a: self._forward_backward(train_step, *a),
                    jit_compile=True,
                    autograph=False,
                )
            try:
                return self._compiled[key](*arguments)
            except (CollectiveInXlaError, RuntimeError) as error:
                # A collective of TensorFlow's replica context asks for a `merge_call` (TF 2.21).
                is_collective = isinstance(error, UsageError) or "merge_call" in str(error)
                if not is_collective:
                    raise
                why = "XLA can't compile what gathers or sums over the replicas"
                if not self._jit_is_optional:
                    raise CollectiveInXlaError(f"{why}; use --jit off.") from error
                self._turn_jit_off(why)
        return self._forward_backward(train_step, *arguments)

    def _turn_jit_off(self, why: str) -> None:
        self.jit = False
        say(f"jit: off, because {why}")

    def _forward_backward(
        self,
        train_step: int,
        batch: Any,
        of_replica: tuple[Any, tf.Tensor, tf.Tensor],
        seeds: tf.Tensor,
        loss_scale: LossScale,
        values: list[tf.Tensor],
        state: list[tf.Tensor],
    ) -> StepResult:
        """The forward and backward pass of a micro-batch.

        Args:
            train_step: which of the task's train steps.
            batch: the rows of the micro-batch.
            of_replica: the global count, the index of the replica, and the step.
            seeds: of what the step draws.
            loss_scale: of float16 training.
            values: of the trainable variables.
            state: values of what else the step may write.
        """
        global_count, index, step = of_replica
        trainable = self.run.trainable_variables
        replica = Replica(
            global_count=global_count,
            index=index,
            num_replicas=self.run.strategy.num_replicas_in_sync,
            step=step,
            seed=tf.bitcast(seeds[0], tf.int32),
            num_microbatches=self.accumulate,
            compiled=self.jit,
        )
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(values)
            losses, writes = self.capture.call(
                self.run.functions.train_steps[train_step],
                batch,
                replica,
                seeds=seeds[1:],
                state=state,
                trained=list(zip(trainable, values, strict=True)),
            )
            scaled = {
                name: self._loss_scaling.scale(loss, loss_scale)
                for name, loss in losses.items()
                if name in self.run.optimizers
            }
        by_id = {id(v): value for v, value in zip(trainable, values, strict=True)}
        gradients = {}
        for name, loss in scaled.items():
            sources = [by_id[id(v)] for v in self.run.variables_of(name)]
            found = tape.gradient(loss, sources)
            pairs = zip(self.run.variables_of(name), found, strict=True)
            reached = {id(v) for v, gradient in pairs if gradient is not None}
            self._reached[train_step, name] |= reached
            gradients[name] = [
                # Those of embeddings are slices, in branches of unknown shape.
                tf.zeros_like(value)
                if gradient is None
                else tf.ensure_shape(tf.convert_to_tensor(gradient), value.shape)
                for value, gradient in zip(sources, found, strict=True)
            ]
        return StepResult(losses, gradients, writes)


def _values(variables: list[keras.Variable]) -> list[tf.Tensor]:
    """The values on this replica."""
    return [tf.convert_to_tensor(variable.value) for variable in variables]


def _add(a: StepResult, b: StepResult) -> StepResult:
    losses, gradients = tf.nest.map_structure(
        lambda x, y: x + y, (a.losses, a.gradients), (b.losses, b.gradients)
    )
    return StepResult(losses, gradients, b.writes)
