"""The distributed train step: many steps in one graph call, each committed or dropped as a whole.

Read from the top: `distributed_train_step` runs steps in a graph loop; `_step` is one of them, on
all replicas: forward and backward on each, one sum over them, the finite check, clip, and then
commit or drop. Your train step is called by `transaction.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from keras.src.trainers.trainer import model_supports_jit  # `compile` asks it; none is public

from . import link
from .batches import BatchLayout, on_replicas
from .errors import UsageError
from .gradients import all_optimizers, clip, global_norm, rates_of, sum_over_replicas
from .loss_scale import LossScaling
from .outside import Outside, of_engine
from .progress import Progress, start
from .replicas import STATEFUL, shorten_traces
from .transaction import Transaction, Writes
from .types import Run, step_name

NOT_COMPILED = re.compile(r"when trying to compile graph(?:.*?_JIT: (\w+))?", re.DOTALL)
Iterator = Any  # of tf.data: elements are nests of (replicas of this worker, rows, ...)


class ReducedStep(NamedTuple):
    """A step summed over the replicas, not yet committed; only `writes` differs per replica."""

    counts: tf.Tensor  # int64 (losses,), the weights of the step in mean losses
    losses: dict[str, tf.Tensor]  # scalars, by optimizer or term
    norm: tf.Tensor  # float scalar, global norm of the gradients before clipping
    gradients_finite: tf.Tensor  # bool scalar, whether all gradients are
    finite: tf.Tensor  # bool scalar, whether losses and learning rates are, too
    gradients: dict[str, list[tf.Tensor]]  # as they will be applied, by optimizer
    writes: Writes


class DistributedSteps:
    """The distributed train steps of one run.

    Args:
        run: what the factories made, with optimizers whose own sum is switched off.
        layout: how the global batch is divided among the replicas.
        clip_norm: largest global norm of the gradients; 0 doesn't clip.
        jit: "on", "off" or "auto": compile forward and backward with XLA.
        max_skipped_steps: more than this many skipped steps in a row end the graph call.
        constant_denominator: use the global batch size as the count of every batch.
        synchronized: the models sum over the replicas inside forward and backward.
        bucket_bytes: the smallest size of a vector in which gradients travel; 0 makes one vector.
    """

    def __init__(
        self,
        run: Run,
        layout: BatchLayout,
        *,
        clip_norm: float = 0.0,
        jit: str = "off",
        max_skipped_steps: int = 0,
        constant_denominator: bool = False,
        synchronized: bool = False,
        bucket_bytes: int = 0,
    ) -> None:
        self.run = run
        self.layout = layout
        self.clip_norm = clip_norm
        self.max_skipped_steps = max_skipped_steps
        self.constant_denominator = constant_denominator
        self.bucket_bytes = bucket_bytes
        self._times_data = _has_clock()
        self.loss_scaling = LossScaling(
            enabled=any(
                layer.compute_dtype == "float16"
                for model in run.models.values()
                for layer in model._flatten_layers()  # the dtype of a layer may be its own
            )
        )
        self.transaction = Transaction(
            run,
            accumulate=layout.accumulate,
            jit=resolve_jit(jit, synchronized, run.models.values()),
            jit_is_optional=jit == "auto",
            loss_scaling=self.loss_scaling,
        )
        with tf.device("CPU:0"):  # it can be read while a GPU computes
            # How many, and the seconds that they took to come.
            self._fetched = of_engine(tf.Variable([0.0, 0.0], trainable=False, dtype=tf.float64))
        link.watch(lambda: int(self._fetched[0]))
        self.outside = Outside()
        self._built_for, self._trainable = set(run.what_trains), run.trainable
        self._rates = self._learning_rates()
        self._graphs: dict[tuple[int, ...], Any] = {}  # by what trains

    @property
    def jit(self) -> bool:
        """Whether XLA compiles forward and backward; "auto" may turn it off during the trace."""
        return self.transaction.jit

    @property
    def secs_waited(self) -> float:
        """How long steps have waited for data so far; 0 if that isn't timed."""
        return float(self._fetched[1])

    def start(self) -> Progress:
        """The progress of a run that has made no step."""
        return start(len(self.run.returned), self.loss_scaling)

    def distributed_train_step(
        self, iterator: Iterator, steps: int, progress: Progress
    ) -> Progress:
        """Make `steps` train steps in one graph call, fewer if too many in a row are skipped.

        Raises:
            UsageError: a variable trains that no optimizer was built for, an optimizer got a
                schedule, or XLA can't compile a step.
        """
        try:
            return self._function()(iterator, tf.constant(steps, tf.int64), progress)
        except tf.errors.InvalidArgumentError as error:
            if not (match := NOT_COMPILED.search(str(error))):
                raise
            raise UsageError(f"XLA can't compile {match[1] or 'a step'}; use --jit off.") from error

    def graph(self, iterator: Iterator, progress: Progress) -> tf.Graph:
        """The graph of the train steps, traced if it wasn't."""
        arguments = (iterator, tf.constant(0, tf.int64), progress)
        return self._function().get_concrete_function(*arguments).graph

    def find_outside(
        self, iterator: Iterator, progress: Progress, of_evaluation: list[tf.Graph]
    ) -> None:
        """Take up what steps read beside models, optimizers and metrics, see `Outside.find`.

        The train steps come first, so that a variable of another step changes no name; with all
        layers as they were made, since the regularizer of one that is frozen now isn't read.

        Raises:
            UsageError: one that was restored isn't there, or has another shape.
        """
        now = self.run.trainable
        self.run.set_trainable(self._trainable)
        try:
            graph = self.graph(iterator, progress)
        finally:
            self.run.set_trainable(now)
        self.outside.find(self.run, [graph, *of_evaluation])

    def require_built(self) -> None:
        """Refuse what a callback has changed, and graphs or optimizers can't follow.

        Raises:
            UsageError: a layer is trainable that no optimizer knows, or a schedule is another one.
        """
        if not self._built_for.issuperset(self.run.what_trains):
            raise UsageError(
                "A layer was set trainable that wasn't when the optimizer was built; create it "
                "trainable, and freeze it with a callback at_step(0, ...)."
            )
        if self._rates != self._learning_rates():
            raise UsageError(
                "An optimizer was given another schedule after create_optimizer, and its graph "
                "would keep the old learning rate; make the change a part of the "
                "schedule, or let a callback set numbers."
            )

    def _function(self) -> Any:
        self.require_built()
        what_trains = self.run.what_trains
        # A layer frozen after a trace would go on training in it (Keras 3.15).
        if what_trains not in self._graphs:
            self._graphs[what_trains] = tf.function(self._steps, autograph=False)
        return self._graphs[what_trains]

    def _learning_rates(self) -> list[int]:
        """Which objects the optimizers' learning rates are: variables or schedules."""
        each = [o for optimizer in self.run.optimizers.values() for o in all_optimizers(optimizer)]
        return [id(getattr(optimizer, "_learning_rate", None)) for optimizer in each]

    def _steps(self, iterator: Iterator, steps: tf.Tensor, progress: Progress) -> Progress:
        last = progress.step + steps

        def more(progress: Progress) -> tf.Tensor:
            return (progress.step < last) & (progress.skips.in_a_row <= self.max_skipped_steps)

        def once(progress: Progress) -> tuple[Progress]:
            return (self._step(self._next(iterator, progress), progress),)

        return tf.while_loop(more, once, (progress,))[0]

    def _next(self, iterator: Iterator, progress: Progress) -> Any:
        """The next batch; notes what it took to come after the step before."""
        with tf.control_dependencies([progress.skips.in_a_row]):
            asked = self._now()
        with tf.control_dependencies([asked]):
            batch = next(iterator)
        with tf.control_dependencies(tf.nest.flatten(batch)):
            self._fetched.assign_add([1.0, self._now() - asked])
        return batch

    def _now(self) -> tf.Tensor:
        """Seconds, float64 scalar; 0 where there is no clock."""
        return tf.timestamp() if self._times_data else tf.zeros((), tf.float64)

    def _step(self, stacked: Any, progress: Progress) -> Progress:
        """One step: each of the task's train steps in turn; returns the progress after it."""
        strategy = self.run.strategy
        batch = on_replicas(stacked, strategy, self.layout)
        train_steps = self.run.functions.train_steps
        losses: dict[str, tf.Tensor] = {}
        finite, gradients_finite = tf.constant(True), tf.constant(True)
        norm = tf.zeros((), keras.config.floatx())
        for train_step in range(len(train_steps)):
            reduced = strategy.run(self.reduce, args=(train_step, batch, progress))

            def commit(train_step: int = train_step, reduced: ReducedStep = reduced) -> None:
                arguments = train_step, reduced.gradients, reduced.writes
                strategy.run(self.transaction.commit, args=arguments)

            gradients_finite &= self._local(reduced.gradients_finite)
            finite &= self._local(reduced.finite)  # after one that isn't, the rest is dropped too
            tf.cond(finite, commit, lambda: None)
            losses |= self._local(reduced.losses)
            norm = tf.maximum(norm, self._local(reduced.norm))
            counts = self._local(reduced.counts)
        names = " and ".join(step_name(step) for step in train_steps)
        return progress.after(
            losses=in_order(self.run, losses, names),
            counts=counts,
            gradient_norm=norm,
            gradients_finite=gradients_finite,
            losses_finite=are_finite([losses[name] for name in self.run.optimizers]),
            finite=finite,
            loss_scaling=self.loss_scaling,
        )

    def reduce(self, train_step: int, batch: Any, progress: Progress) -> ReducedStep:
        """On one replica: forward and backward, one sum over the replicas, look, clip."""
        shorten_traces(tf.distribute.get_replica_context())
        if self.constant_denominator:
            size = tf.constant(self.layout.global_batch_size, tf.int64)
            counts = tf.nest.map_structure(lambda _: size, self.run.functions.count(batch))
        else:
            counts = global_count(self.run, batch)
        result = self.transaction.compute(
            train_step,
            batch,
            global_count=denominators(counts),
            step=progress.step,
            loss_scale=progress.loss_scale,
        )
        tensors = tf.nest.flatten((result.losses, result.gradients))
        sums = sum_over_replicas(tensors, self.bucket_bytes)
        losses, gradients = tf.nest.pack_sequence_as((result.losses, result.gradients), sums)
        # A function that returns terms only updates the metrics and trains nothing.
        norms = [tf.zeros((), keras.config.floatx())]
        for name, values in gradients.items():
            values = self.loss_scaling.unscale(values, progress.loss_scale)
            values = self._processed(values, self.run.variables_of(name))
            norms.append(global_norm(values))
            gradients[name] = clip(values, norms[-1], self.clip_norm) if self.clip_norm else values
        losses = {name: tf.cast(loss, keras.config.floatx()) for name, loss in losses.items()}
        # Each norm, not the largest: a maximum leaves out NaN where XLA compiles it (TF 2.21).
        gradients_finite = are_finite(norms)
        rates = [rate for name in gradients for rate in rates_of(self.run.optimizers[name])]
        finite = gradients_finite & are_finite([losses[name] for name in gradients] + rates)
        return ReducedStep(
            loss_counts(self.run, counts),
            losses,
            tf.reduce_max(norms),
            gradients_finite,
            finite,
            gradients,
            result.writes,
        )

    def _processed(
        self, gradients: list[tf.Tensor], variables: list[keras.Variable]
    ) -> list[tf.Tensor]:
        """What the task makes of gradients.

        Raises:
            UsageError: it isn't a gradient for each variable, in its shape: another one would be
                broadcast; or it is another one on each replica.
        """
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        with _ReadOnly():
            values = [*(self.run.processed(gradients, variables) or ())]
        # In branches, loops and functions the operations of all replicas have one seed (TF 2.21).
        made = {op.type for op in graph.get_operations()[before:]}
        if self.run.strategy.num_replicas_in_sync > 1 and made & {*STATEFUL, "RngReadAndSkip"}:
            raise UsageError(
                "process_gradients in task/optimizer.py draws random numbers, others on each "
                "replica, so that their weights would drift apart; draw by tf.random.stateless_* "
                "with a seed made of the gradients, which all replicas have."
            )
        shapes = [getattr(value, "shape", "none") for value in values]
        wrong = [
            f"shape {shape} for {v.path} {tuple(v.shape)}"
            for shape, v in zip(shapes, variables, strict=False)
            if shape == "none" or not tf.TensorShape(shape).is_compatible_with(v.shape)
        ]
        if wrong or len(shapes) != len(variables):
            returned = wrong[0] if wrong else f"{len(shapes)} for {len(variables)}"
            raise UsageError(
                "process_gradients in task/optimizer.py must return a gradient for each variable, "
                f"in its shape; it returns {returned}."
            )
        return values

    def num_traces(self) -> int:
        """How often the step was traced; once is right, and again when something is frozen."""
        return sum(graph.experimental_get_tracing_count() for graph in self._graphs.values())

    def _local(self, value: Any) -> Any:
        """The value on this worker's first replica, of what is the same on every replica."""
        first = self.run.strategy.experimental_local_results
        return tf.nest.map_structure(lambda t: None if t is None else first(t)[0], value)


class _ReadOnly(keras.StatelessScope):
    """Refuses what a function assigns to Keras variables."""

    def add_update(self, update: tuple[keras.Variable, Any]) -> None:
        """Refuse.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"process_gradients assigns {update[0].path}, in steps that are skipped as well, and "
            "no checkpoint would hold it; assign a weight of a model in the train step, and only "
            "read it here."
        )


def _has_clock() -> bool:
    """Whether graphs can tell the time: not while operations must be deterministic (TF 2.21)."""
    try:
        tf.timestamp()
    except tf.errors.FailedPreconditionError:
        return False
    return True


def global_count(run: Run, batch: Any) -> Any:
    """The task's `count` summed over all replicas, int64; called inside a replica.

    Raises:
        UsageError: it isn't an integer, and would be rounded on each replica by itself.
    """
    counts = run.functions.count(batch)
    if counts is None:
        raise UsageError("count in task/losses.py returns None; it must return how much counts.")
    flat = [tf.convert_to_tensor(count) for count in tf.nest.flatten(counts)]
    for count in flat:
        if not count.dtype.is_integer:
            raise UsageError(
                f"count in task/losses.py returns {count.dtype.name}; it must count, as "
                "tf.math.count_nonzero(weights, dtype=tf.int32) does. To divide by a sum of "
                "weights, scale them in create_datasets so that their mean is 1."
            )
    sums = sum_over_replicas([tf.cast(count, tf.int64) for count in flat])
    return tf.nest.pack_sequence_as(counts, sums)


def denominators(counts: Any) -> Any:
    """What a step divides by: global counts, int64, each at least 1.

    A loss for which nothing counts in a batch is 0 then, and not 0 / 0.
    """
    return tf.nest.map_structure(lambda count: tf.maximum(tf.cast(count, tf.int64), 1), counts)


def loss_counts(run: Run, counts: Any) -> tf.Tensor:
    """The weights of a batch in mean losses, int64 (losses,).

    The count with the name of a loss or term is its own; others have the sum of all counts.
    """
    total = tf.add_n(tf.nest.flatten(counts))
    own = counts if isinstance(counts, dict) else {}
    return tf.stack([own.get(name, total) for name in run.returned])


def in_order(run: Run, losses: dict[str, tf.Tensor], source: str) -> tf.Tensor:
    """Losses and terms by name -> (losses,).

    Raises:
        UsageError: `source`, the names of the steps that return them, leaves one out.
    """
    for name in run.returned:
        if name not in losses:
            kind = "term" if name in run.terms else "loss"
            raise UsageError(f"{source} must return a {kind} named {name!r}.")
    return tf.stack([losses[name] for name in run.returned])


def are_finite(losses: list[tf.Tensor]) -> tf.Tensor:
    """Whether all of some scalars are finite, a bool scalar."""
    return tf.reduce_all([tf.math.is_finite(loss) for loss in losses])


def resolve_jit(choice: str, synchronized: bool, models: Iterable[keras.Model]) -> bool:
    """Whether to compile: with "auto" where there is an accelerator, and Keras would too.

    Keras wouldn't where operations must be deterministic, on a Mac's GPU, and with layers such as
    an LSTM on a GPU, whose operations of cuDNN XLA can't compile.

    Raises:
        UsageError: "on", and XLA can't compile the models.
    """
    if synchronized and choice == "on":
        raise UsageError(
            "--jit on: BatchNormalization sums over the replicas inside the model, which XLA "
            "can't compile (TF 2.21); use --jit off, or GroupNormalization or LayerNormalization."
        )
    # Not on the CPU: there XLA makes convolutions up to ten times slower (TF 2.21).
    accelerated = any(tf.config.list_logical_devices(kind) for kind in ("GPU", "TPU"))
    if choice == "auto" and accelerated and not synchronized:
        return all(map(model_supports_jit, models))
    return choice == "on"
