"""The distributed steps: K steps in one graph call, each of them all or nothing.

A train step is a transaction. Your `train_step` only computes: what it would write (metrics,
normalization statistics) is captured in a `keras.StatelessScope`, and it is committed together with
the update of the weights, or, where a loss or gradient is not finite, not at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from ..config import Config
from .batches import Layout
from .errors import UsageError
from .gradients import before_apply, clip, global_norm, sum_over_replicas, take_over
from .refusals import refuse_metrics, refuse_optimizer, refuse_reductions
from .replicas import derive_seeds, shorten_traces, synchronize_batch_normalization
from .transaction import Transaction
from .types import Replica, Run

Iterator = Any  # of tf.data: elements are nests of (replicas of this worker, rows, ...)
Sums = tuple[tf.Tensor, tf.Tensor]  # of evaluation: int64 count, float64 (losses,) loss x count

FIRST_SCALE = 2.0**15  # of float16 losses; doubled after so many good steps, halved after a bad one
GROWTH_INTERVAL = 2000


class Progress(NamedTuple):
    """How far training has come: everything that a step hands to the next, beside the variables.

    `losses` and `examples` are sums since the start of the epoch; `last_losses` and `gradient_norm`
    belong to the latest step.
    """

    step: tf.Tensor  # int64
    examples: tf.Tensor  # int64, sum of counts
    losses: tf.Tensor  # float64 (losses,), sum of loss x count
    last_losses: tf.Tensor  # float (losses,)
    gradient_norm: tf.Tensor  # float, before clipping
    skipped: tf.Tensor  # int64, steps skipped because something was not finite
    skipped_in_a_row: tf.Tensor  # int64
    skipped_step: tf.Tensor  # int64, the latest of them, -1 for none
    skipped_losses: tf.Tensor  # float (losses,), what the losses were at that step
    overflows: tf.Tensor  # int64, float16 steps skipped for a smaller loss scale
    scale: tf.Tensor  # float32, of the loss
    good_steps: tf.Tensor  # int64, since the scale last changed


class Outcome(NamedTuple):
    """What the first half of a step gives, on each replica the same but for the writes."""

    count: tf.Tensor
    losses: dict[str, tf.Tensor]
    norm: tf.Tensor
    finite: tf.Tensor
    gradients: dict[str, list[tf.Tensor]]
    writes: dict[str, tf.Tensor]


class Distribution:
    """The distributed steps of one run.

    Args:
        run: what the factories made.
        layout: how the global batch lies on the replicas.
        clip_norm: the largest global norm of the gradients; 0 leaves them alone.
        jit: "on", "off" or "auto": compile forward and backward with XLA.
        max_skipped_steps: more than this many skipped steps in a row end the graph call.
        constant_denominator: count every batch as the global batch size, also a short one.
    """

    def __init__(
        self,
        run: Run,
        layout: Layout,
        *,
        clip_norm: float = 0.0,
        jit: str = "off",
        max_skipped_steps: int = 0,
        constant_denominator: bool = False,
    ) -> None:
        self.run = run
        self.layout = layout
        self.clip_norm = clip_norm
        self.max_skipped_steps = max_skipped_steps
        self.constant_denominator = constant_denominator
        self.names = list(run.optimizers)
        self.replicas = run.strategy.num_replicas_in_sync
        self.float16 = any(m.compute_dtype == "float16" for m in run.models.values())
        synchronized: list[str] = []
        if self.replicas > 1:
            synchronized = synchronize_batch_normalization(run.models.values())
        if synchronized:
            print(f"synchronized over the replicas: {', '.join(synchronized)}")
        refuse_reductions(run.losses)
        refuse_metrics(run.metrics)
        for optimizer in run.optimizers.values():
            refuse_optimizer(optimizer)
            take_over(optimizer, self.replicas)
        self.transaction = Transaction(run, layout.accumulate, jit, bool(synchronized))
        self._trained = {id(v) for v in self.transaction.trainable}
        self._functions: dict[tuple[str, ...], Any] = {}

    def resolved(self, config: Config) -> Config:
        """The knobs with what "auto" came to, which a resumed run must keep."""
        return replace(config, resume="", jit="on" if self.transaction.jit else "off")

    def start(self) -> Progress:
        """The progress of a run that has made no step."""
        zero = tf.zeros((), tf.int64)
        losses = tf.zeros(len(self.names), keras.config.floatx())
        return Progress(
            step=zero,
            examples=zero,
            losses=tf.zeros(len(self.names), tf.float64),
            last_losses=losses,
            gradient_norm=tf.zeros((), keras.config.floatx()),
            skipped=zero,
            skipped_in_a_row=zero,
            skipped_step=zero - 1,
            skipped_losses=losses,
            overflows=zero,
            scale=tf.constant(FIRST_SCALE if self.float16 else 1.0),
            good_steps=zero,
        )

    def distributed_train_step(
        self, iterator: Iterator, steps: int, progress: Progress
    ) -> Progress:
        """Make `steps` train steps in one graph call, fewer if too many in a row are skipped."""
        if any(id(variable) not in self._trained for variable in self.transaction.trainable):
            raise UsageError(
                "A layer was set trainable that wasn't when the optimizer was built; create it "
                "trainable, and freeze it with a callback at_step(0, ...)."
            )
        train = self._function("train", self._train)
        return train(iterator, tf.constant(steps, tf.int64), progress)

    def number_of_traces(self) -> int:
        """How often a train step was traced; one for each set of trainable variables is right."""
        functions = [f for (kind, *_), f in self._functions.items() if kind == "train"]
        return sum(function.experimental_get_tracing_count() for function in functions)

    def probe(self, iterator: Iterator, progress: Progress) -> list[Outcome]:
        """Losses, summed gradients and writes of the next step, which is not made."""

        @tf.function(autograph=False)
        def forward_only(shares: Any) -> list[tuple[Any, ...]]:
            batch = self._on_replicas(shares)
            outcomes = [
                self.run.strategy.run(self._forward, args=(train_step, batch, progress))
                for train_step in self.run.task.train_steps
            ]
            return [self._first(tuple(outcome)) for outcome in outcomes]

        return [Outcome(*outcome) for outcome in forward_only(next(iterator))]

    def distributed_validation_step(self, iterator: Iterator, steps: int, sums: Sums) -> Sums:
        """Evaluate `steps` batches of the validation data."""
        validate = self._function("validation", self._evaluation(self.run.task.validation_step))
        return validate(iterator, tf.constant(steps, tf.int64), sums)

    def distributed_test_step(self, iterator: Iterator, steps: int, sums: Sums) -> Sums:
        """Evaluate `steps` batches of the test data."""
        test = self._function("test", self._evaluation(self.run.task.test_step))
        return test(iterator, tf.constant(steps, tf.int64), sums)

    def _function(self, kind: str, python: Any) -> Any:
        """`python` as a graph, another one for each set of trainable variables.

        A layer frozen after a trace would go on moving in it, and be regularized in evaluation.
        """
        key = (kind, *(variable.path for variable in self.transaction.trainable))
        if key not in self._functions:
            self._functions[key] = tf.function(python, autograph=False)
        return self._functions[key]

    def _on_replicas(self, shares: Any) -> Any:
        """(local replicas, rows, ...) -> each replica its rows.

        Four times faster on two virtual replicas than an iterator of tf.distribute (TF 2.21), and
        an iterator that knows nothing of replicas can be started at any step.
        """

        def share(context: Any) -> Any:
            local = context.replica_id_in_sync_group - self.layout.first
            return tf.nest.map_structure(lambda t: t[local], shares)

        if self.replicas == 1:
            return tf.nest.map_structure(lambda t: t[0], shares)
        return self.run.strategy.experimental_distribute_values_from_function(share)

    def _first(self, value: Any) -> Any:
        """What a value that is the same on every replica is on the first one of this worker."""
        return tf.nest.map_structure(
            lambda t: self.run.strategy.experimental_local_results(t)[0], value
        )

    def _count(self, batch: Any) -> tf.Tensor:
        if self.constant_denominator:
            return tf.constant(self.layout.global_batch_size)
        count = tf.cast(self.run.task.count(batch), tf.int32)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, count)

    def _train(self, iterator: Iterator, steps: tf.Tensor, progress: Progress) -> Progress:
        last = progress.step + steps

        def wanted(progress: Progress) -> tf.Tensor:
            return (progress.step < last) & (progress.skipped_in_a_row <= self.max_skipped_steps)

        def step(progress: Progress) -> tuple[Progress]:
            return (self._train_once(next(iterator), progress),)

        return tf.while_loop(wanted, step, (progress,))[0]

    def _train_once(self, shares: Any, progress: Progress) -> Progress:
        strategy = self.run.strategy
        batch = self._on_replicas(shares)
        losses = dict(zip(self.names, tf.unstack(progress.last_losses), strict=True))
        finite, norm, count = tf.constant(True), tf.zeros((), keras.config.floatx()), tf.constant(0)
        for train_step in self.run.task.train_steps:
            outcome: Outcome = strategy.run(self._forward, args=(train_step, batch, progress))

            def commit(outcome: Outcome = outcome) -> None:
                strategy.run(self._commit, args=(outcome.gradients, outcome.writes))

            finite &= self._first(outcome.finite)  # once something isn't, the rest is skipped too
            tf.cond(finite, commit, lambda: None)
            losses |= self._first(outcome.losses)
            norm = tf.maximum(norm, self._first(outcome.norm))
            count = self._first(outcome.count)
        return self._after(
            progress, tf.stack([losses[name] for name in self.names]), count, norm, finite
        )

    def _forward(self, train_step: Any, batch: Any, progress: Progress) -> Outcome:
        """One replica: losses and gradients of its share, summed once over the replicas."""
        if self.replicas > 1:
            shorten_traces(tf.distribute.get_replica_context())
        count = self._count(batch)
        share = self.transaction.share(train_step, batch, count, progress.step, progress.scale)
        sums = sum_over_replicas(tf.nest.flatten((share.losses, share.gradients)))
        losses, gradients = tf.nest.pack_sequence_as((share.losses, share.gradients), sums)
        for name, values in gradients.items():
            if self.float16:
                values = [g / tf.cast(progress.scale, g.dtype) for g in values]
            gradients[name] = self.run.task.process_gradients(values, self.run.variables_of(name))
        norms = {name: global_norm(values) for name, values in gradients.items()}
        if self.clip_norm:
            gradients = {n: clip(gradients[n], norms[n], self.clip_norm) for n in gradients}
        norm = tf.reduce_max(list(norms.values()))
        total = tf.add_n([tf.cast(loss, norm.dtype) for loss in losses.values()])
        finite = tf.math.is_finite(norm) & tf.math.is_finite(total)
        losses = {name: tf.cast(loss, keras.config.floatx()) for name, loss in losses.items()}
        return Outcome(count, losses, norm, finite, gradients, share.writes)

    def _commit(self, gradients: dict[str, list[tf.Tensor]], writes: dict[str, tf.Tensor]) -> None:
        """One replica: apply the summed gradients and write what the train step wrote."""
        for name, values in gradients.items():
            optimizer = self.run.optimizers[name]
            values = before_apply(optimizer, values, self.replicas)
            optimizer.apply(values, self.run.variables_of(name))
        tf.distribute.get_replica_context().merge_call(self._write, args=(writes,))

    def _write(self, strategy: tf.distribute.Strategy, writes: dict[str, tf.Tensor]) -> None:
        # `assign` inside a replica would average over the replicas once more: write each copy.
        for key, value in writes.items():
            variable = self.transaction.state[int(key)].value
            strategy.extended.update(
                variable, lambda v, new: v.assign(new), args=(value,), group=False
            )

    def _after(
        self,
        progress: Progress,
        losses: tf.Tensor,
        count: tf.Tensor,
        norm: tf.Tensor,
        finite: tf.Tensor,
    ) -> Progress:
        """The progress after one more step."""
        one, zero = tf.ones((), tf.int64), tf.zeros((), tf.int64)
        # A float16 gradient that overflows while the loss doesn't asks for a smaller loss scale, as
        # long as there is one.
        can_shrink = tf.constant(self.float16) & (progress.scale > 1.0)
        overflow = ~finite & tf.reduce_all(tf.math.is_finite(losses)) & can_shrink
        skipped = ~finite & ~overflow
        seen = tf.where(finite, tf.cast(count, tf.int64), zero)
        gained = tf.where(finite, tf.cast(losses, tf.float64) * tf.cast(count, tf.float64), 0.0)
        scale, good_steps = progress.scale, progress.good_steps
        if self.float16:
            good_steps = tf.where(overflow, zero, good_steps + tf.cast(finite, tf.int64))
            grow = good_steps >= GROWTH_INTERVAL
            scale = tf.where(
                overflow, tf.maximum(scale / 2.0, 1.0), tf.where(grow, scale * 2.0, scale)
            )
            good_steps = tf.where(grow, zero, good_steps)
        return Progress(
            step=progress.step + one,
            examples=progress.examples + seen,
            losses=progress.losses + gained,
            last_losses=losses,
            gradient_norm=norm,
            skipped=progress.skipped + tf.cast(skipped, tf.int64),
            skipped_in_a_row=tf.where(skipped, progress.skipped_in_a_row + one, zero),
            skipped_step=tf.where(skipped, progress.step, progress.skipped_step),
            skipped_losses=tf.where(skipped, losses, progress.skipped_losses),
            overflows=progress.overflows + tf.cast(overflow, tf.int64),
            scale=scale,
            good_steps=good_steps,
        )

    def _evaluation(self, step_function: Any) -> Any:
        """A graph call that adds what some batches give to `sums`."""

        def share(batch: Any, step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            count = self._count(batch)
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            (seed,) = tf.unstack(derive_seeds(self.run.seed, step, replica, self.replicas, 1))
            losses = step_function(self.run, batch, Replica(count, 1, tf.bitcast(seed, tf.int32)))
            return count, tf.stack([tf.cast(losses[name], tf.float64) for name in self.names])

        def once(step: tf.Tensor, shares: Any, sums: Sums) -> tuple[tf.Tensor, Sums]:
            counts, losses = self.run.strategy.run(share, args=(self._on_replicas(shares), step))
            count = self._first(counts)
            mean = self.run.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)
            sums = (sums[0] + tf.cast(count, tf.int64), sums[1] + mean * tf.cast(count, tf.float64))
            return step + 1, sums

        def evaluate(iterator: Iterator, steps: tf.Tensor, sums: Sums) -> Sums:
            return tf.while_loop(
                lambda step, _: step < steps,
                lambda step, sums: once(step, next(iterator), sums),
                (tf.zeros((), tf.int64), sums),
            )[1]

        return evaluate
