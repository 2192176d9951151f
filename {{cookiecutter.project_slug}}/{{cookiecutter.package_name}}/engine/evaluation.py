"""Evaluation: losses and metrics over a split, every example counted once.

It has metric objects of its own, and writes nothing but those: neither what training has gathered
nor normalization statistics nor random states move. It takes a batch in the micro-batches of
training, so that it needs no more memory.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tensorflow as tf

from . import link
from .batches import (
    BatchLayout,
    Split,
    evaluation_batches,
    is_endless,
    num_examples,
    on_replicas,
)
from .data_errors import data_errors, split_label
from .distributed_steps import Iterator, denominators, global_count, in_order, loss_counts
from .errors import UsageError
from .outside import of_engine
from .progress import Sums
from .replicas import derive_seeds
from .transaction import Capture
from .types import Replica, Run, Step, step_name


class Evaluation:
    """The distributed validation and test steps of one run.

    Args:
        run: what the factories made.
        splits: the data by name: "train", "validation", "test"; None for one that is left out.
        layout: how a global batch is divided among the replicas.

    Raises:
        UsageError: a split is empty.
    """

    def __init__(self, run: Run, splits: dict[str, Split], layout: BatchLayout) -> None:
        self.run = replace(run, metrics=run.evaluation_metrics)
        self.splits = {name: split for name, split in splits.items() if split is not None}
        self.layout = layout
        # One for each step, since a metric that only the other one updates is NaN.
        self._captures = {kind: Capture(self.run) for kind in ("validation", "test")}
        self._functions: dict[tuple[Any, ...], Any] = {}
        self.graphs: list[tf.Graph] = []
        self._batches: dict[str, tuple[tf.data.Dataset, int]] = {}
        with tf.device("CPU:0"):  # it can be read while a GPU computes
            self._fetched = of_engine(tf.Variable(0, trainable=False, dtype=tf.int64))
        link.watch(lambda: int(self._fetched))
        for name, split in self.splits.items():
            if not (name == "train" and is_endless(split)) and not num_examples(split):
                raise UsageError(
                    f"The {split_label(name)} is empty; create_datasets may leave it out."
                )

    def evaluate(
        self, split: str, num_batches: int = 0, pace: Callable[[float], int] | None = None
    ) -> dict[str, float]:
        """Mean losses and metrics of a split, as "<split>_<name>"; 0 batches evaluates all.

        Args:
            split: which examples.
            num_batches: how many batches of them, all for 0.
            pace: given the seconds that a batch of the latest graph call took, how many the next
                one evaluates, alike on all workers; what it raises ends the evaluation. None: one
                graph call for all.

        Raises:
            UsageError: the data can't be used.
        """
        values, _ = self.measure(split, num_batches, pace=pace)
        return {f"{split}_{name}": value for name, value in values.items()}

    def measure(
        self,
        split: str,
        num_batches: int = 0,
        *,
        as_split: str = "",
        pace: Callable[[float], int] | None = None,
    ) -> tuple[dict[str, float], Sums]:
        """Mean losses and metrics of a split by name, and the sums behind the losses.

        Args:
            split: which examples.
            num_batches: how many batches of them, all for 0.
            as_split: whose step evaluates them, that of `split` itself if not given.
            pace: see `evaluate`.

        Raises:
            UsageError: the data can't be used.
        """
        for metric in self.run.metrics.values():
            metric.reset_state()
        kind = "test" if (as_split or split) == "test" else "validation"
        sums = self._run(split, num_batches, kind, pace)
        metrics = self.run.metric_results(self._captures[kind].assigned)
        return self.run.by_loss_name(sums.means()) | metrics, sums

    def trace(self) -> None:
        """Make the graphs of validation and test without evaluating anything.

        Raises:
            UsageError: the data doesn't fit the model.
        """
        for split in self.splits:
            if split != "train":
                self._run(split, None, split)

    def distributed_validation_step(
        self, iterator: Iterator, steps: int, sums: Sums, first: int = 0
    ) -> Sums:
        """Evaluate `steps` batches of validation data in one graph call, and add to `sums`.

        Args:
            iterator: gives the batches.
            steps: how many are evaluated.
            sums: of the batches before.
            first: the number of the first one in its split, from 0; random states follow from it.
        """
        numbers = tf.constant(first, tf.int64), tf.constant(steps, tf.int64)
        graph = self._graph("validation", self.run.functions.validation_step)
        return graph(iterator, *numbers, sums)

    def distributed_test_step(
        self, iterator: Iterator, steps: int, sums: Sums, first: int = 0
    ) -> Sums:
        """Evaluate `steps` batches of test data, as `distributed_validation_step` does."""
        numbers = tf.constant(first, tf.int64), tf.constant(steps, tf.int64)
        return self._graph("test", self.run.functions.test_step)(iterator, *numbers, sums)

    def _run(
        self,
        split: str,
        num_batches: int | None,
        as_split: str,
        pace: Callable[[float], int] | None = None,
    ) -> Sums:
        """Evaluate so many batches of a split, all for 0, none for None, by the step of another."""
        if split not in self._batches:
            self._batches[split] = evaluation_batches(
                self.splits[split], self.layout, label=split_label(split), bad=self.run.bad_examples
            )
            self._mention_short_batch(split)
        batches, number = self._batches[split]
        steps = 0 if num_batches is None else min(num_batches or number, number)
        step = self.distributed_validation_step
        if as_split == "test":
            step = self.distributed_test_step
        with data_errors(split, self.run, batches.element_spec, self.splits[split]):
            iterator = iter(batches)
            sums = Sums.zero(len(self.run.returned))
            done, several = 0, min(steps, 1) if pace else steps
            while True:
                started = time.perf_counter()
                sums = step(iterator, several, sums, done)
                done += several
                if done == steps or pace is None:
                    break
                several = min(pace((time.perf_counter() - started) / several), steps - done)
            if steps == number:
                next(iterator, None)  # a stream that is longer than it says fails here
            return sums

    def _mention_short_batch(self, split: str) -> None:
        """Say once that a short last batch has fewer examples to compare, if any are compared."""
        short = num_examples(self.splits[split]) % self.layout.global_batch_size
        if self.run.functions.examples_interact and short:
            # Not to stdout, where `evaluate` prints its result.
            sys.stderr.write(
                f"the last batch of the {split_label(split)} has {short} examples, not "
                f"{self.layout.global_batch_size}: a step that compares examples compares each of "
                "these with fewer others\n"
            )

    def _graph(self, kind: str, step: Step) -> Any:
        """The graph of a step; another one when other layers or variables train.

        In a graph made before, a frozen layer would still be regularized.
        """

        def evaluate(iterator: Iterator, first: tf.Tensor, steps: tf.Tensor, sums: Sums) -> Sums:
            self.graphs.append(tf.compat.v1.get_default_graph())

            def once(number: tf.Tensor, sums: Sums) -> tuple[tf.Tensor, Sums]:
                stacked = next(iterator)
                with tf.control_dependencies(tf.nest.flatten(stacked)):
                    self._fetched.assign_add(1)
                batch = on_replicas(stacked, self.run.strategy, self.layout)
                # What is there, always: --denominator is about training.
                counts = self.run.strategy.run(global_count, args=(self.run, batch))
                losses = self._losses(step, self._captures[kind], batch, counts, number)
                local = self.run.strategy.experimental_local_results
                counts = tf.nest.map_structure(lambda count: local(count)[0], counts)
                return number + 1, sums.add(loss_counts(self.run, counts), losses)

            return tf.while_loop(lambda number, _: number < first + steps, once, (first, sums))[1]

        key = (kind, *self.run.what_trains)
        if key not in self._functions:
            self._functions[key] = tf.function(evaluate, autograph=False)
            # Several runs of a process trace it for each, as they should (TF 2.21).
            self._functions[key]._omit_frequent_tracing_warning = True
        return self._functions[key]

    def _losses(
        self, step: Step, capture: Capture, batch: Any, counts: Any, number: tf.Tensor
    ) -> tf.Tensor:
        """The losses of a batch, float64 (losses,); updates the metrics."""
        strategy, parts = self.run.strategy, self.layout.accumulate

        def add(part: tf.Tensor, losses: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            arguments = step, capture, batch, counts, number, part
            own = strategy.run(self._on_one_replica, args=arguments)
            return part + 1, losses + strategy.reduce(tf.distribute.ReduceOp.SUM, own, axis=None)

        start = tf.constant(0, tf.int64), tf.zeros(len(self.run.returned), tf.float64)
        if parts == 1:  # a loop would cost as much as a small step
            return add(*start)[1]
        # One micro-batch at a time, or all would be in memory at once.
        return tf.while_loop(lambda part, _: part < parts, add, start, parallel_iterations=1)[1]

    def _on_one_replica(
        self,
        step: Step,
        capture: Capture,
        batch: Any,
        counts: Any,
        number: tf.Tensor,
        part: tf.Tensor,
    ) -> tf.Tensor:
        """This replica's losses of a micro-batch, float64 (losses,); updates the metrics."""
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        parts = self.layout.accumulate
        seeds = derive_seeds(
            self.run,
            step=-1 - number,  # no train step has this number
            replica=index,
            microbatch=part,
            num_microbatches=parts,
            number=len(capture.random_states) + 1,
        )
        replica = Replica(
            global_count=denominators(counts),
            index=index,
            num_replicas=self.run.strategy.num_replicas_in_sync,
            step=number,
            seed=tf.bitcast(seeds[0], tf.int32),
            num_microbatches=parts,
        )
        size = self.layout.per_replica // parts

        def rows(t: tf.Tensor) -> tf.Tensor:
            own = t[part * size : (part + 1) * size]
            return tf.ensure_shape(own, (size, *t.shape[1:]))

        losses, writes = capture.call(
            step,
            tf.nest.map_structure(rows, batch),
            replica,
            seeds=seeds[1:],
            state=capture.read(),
            trained=[(v, tf.convert_to_tensor(v.value)) for v in self.run.trainable_variables],
        )
        metrics = {id(v) for metric in self.run.metrics.values() for v in metric.variables}
        writable = capture.writable
        capture.write(
            [w if id(v) in metrics else None for v, w in zip(writable, writes, strict=True)]
        )
        losses = {name: tf.cast(loss, tf.float64) for name, loss in losses.items()}
        return in_order(self.run, losses, step_name(step))
