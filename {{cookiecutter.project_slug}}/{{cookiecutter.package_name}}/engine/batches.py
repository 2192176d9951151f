"""Batches: step-addressed order, shards for the workers, padding with weight zero.

Which examples step s of a run sees depends on nothing but the seed, s and the global batch size:
neither on the number of replicas nor on where a run was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from . import cluster
from .errors import UsageError

# Arrays (a nest with the examples along the first axis); or a tf.data.Dataset of examples, which
# each worker reads as a whole; or a function (workers, index) -> the Dataset that one worker reads.
Split = Any
LastBatch = Literal["drop", "span", "pad"]

Load = Callable[[Any], tuple[Any, ...]]  # row numbers, or a batch -> examples and weights
Augment = Callable[[Any, tf.Tensor], Any]  # batch, seed -> batch

# Translating plain tensor code for tf.data costs a second at every start (TF 2.21).
without_autograph = tf.autograph.experimental.do_not_convert

PADDING = -1  # the row number of an example that isn't there
STEPS_TOGETHER, BYTES_TOGETHER = 32, 2**20  # read at once, at most
SHUFFLE_BUFFER = 10_000  # examples; for streams only, arrays are shuffled as a whole


class BatchLayout(NamedTuple):
    """How a global batch is divided among the replicas.

    Attributes:
        global_batch_size: rows of all replicas together.
        num_replicas: of all workers together.
        first: the first replica of this worker.
        local: how many replicas this worker has.
        accumulate: micro-batches in a per-replica batch.
    """

    global_batch_size: int
    num_replicas: int
    first: int
    local: int
    accumulate: int = 1

    @property
    def per_replica(self) -> int:
        """Rows in a per-replica batch."""
        return self.global_batch_size // self.num_replicas

    @property
    def positions(self) -> np.ndarray:
        """Rows of the global batch that the replicas of this worker take, int32 (local, rows).

        Micro-batch m of all replicas together is part m of the global batch, however many they are,
        so that what a model computes over it, such as statistics, does not depend on their number.
        """
        rows = np.arange(self.global_batch_size, dtype=np.int32)
        parts = rows.reshape(self.accumulate, self.num_replicas, -1)
        mine = parts[:, self.first : self.first + self.local]
        return mine.swapaxes(0, 1).reshape(self.local, -1)

    def for_worker(self) -> BatchLayout:
        """The layout of this worker's part of the global batch, as if there were no other."""
        rows = self.local * self.per_replica
        return BatchLayout(rows, self.local, 0, self.local, self.accumulate)


def create_layout(
    strategy: tf.distribute.Strategy, global_batch_size: int, accumulate: int = 1
) -> BatchLayout:
    """The layout of `global_batch_size` rows over the replicas of `strategy`."""
    replicas = strategy.num_replicas_in_sync
    local = replicas // cluster.num_workers()
    first = cluster.worker_index() * local
    return BatchLayout(global_batch_size, replicas, first, local, accumulate)


def on_replicas(stacked: Any, strategy: tf.distribute.Strategy, layout: BatchLayout) -> Any:
    """(local replicas, rows, ...) -> each replica its rows.

    Four times faster on two virtual replicas than an iterator of tf.distribute (TF 2.21), and an
    iterator that knows nothing of replicas can be started at any step.
    """

    def rows(context: Any) -> Any:
        local = context.replica_id_in_sync_group - layout.first
        return tf.nest.map_structure(lambda t: t[local], stacked)

    if layout.num_replicas == 1:
        return tf.nest.map_structure(lambda t: t[0], stacked)
    return strategy.experimental_distribute_values_from_function(rows)


def num_examples(split: Split) -> int:
    """How many examples a split has, those of all workers together.

    Raises:
        UsageError: the arrays or the workers' shards differ in length, or a stream doesn't say how
            many it has.
    """
    if callable(split):
        workers = cluster.num_workers()
        shards = [num_examples(split(workers, index)) for index in range(workers)]
        if len(set(shards)) > 1:
            raise UsageError(
                f"The workers' shards of the data have {shards} examples: they must be equally "
                "long; leave some out with take(), or give all workers one tf.data.Dataset."
            )
        return sum(shards)
    if isinstance(split, tf.data.Dataset):
        number = int(split.cardinality())
        if number < 0:
            raise UsageError(
                "A tf.data.Dataset of create_datasets doesn't know its size: add "
                ".apply(tf.data.experimental.assert_cardinality(number of examples))."
            )
        return number
    lengths = {len(array) for array in tf.nest.flatten(split)}
    if len(lengths) != 1:
        raise UsageError(f"The arrays of one split differ in length: {sorted(lengths)}.")
    return lengths.pop()


def worker_split(split: Split) -> Split:
    """What this worker reads of a split: its shard of a function, else all of it."""
    if callable(split):
        return split(cluster.num_workers(), cluster.worker_index())
    return split


class TrainingBatches:
    """The training data in the order of the steps.

    With `last_batch` "drop" an epoch has whole batches only; with "span" what is left over comes
    first in the next epoch; with "pad" the last batch is filled up with examples of weight zero.

    Args:
        split: the training examples.
        layout: how a global batch is divided among the replicas.
        seed: of the run.
        last_batch: what happens to a short last batch of an epoch.
        augment: changes a global batch as the steps see it, given a seed int64 (2,).

    Raises:
        UsageError: the data is empty or smaller than a batch.
    """

    def __init__(
        self,
        split: Split,
        layout: BatchLayout,
        *,
        seed: int = 0,
        last_batch: LastBatch = "drop",
        augment: Augment | None = None,
    ) -> None:
        self.num_examples = num_examples(split)
        self.split, self.layout, self.seed = split, layout, seed
        self.last_batch, self.augment = last_batch, augment
        size = layout.global_batch_size
        if not self.num_examples:
            raise UsageError("The training data is empty.")
        if self.num_examples < size and last_batch != "pad":
            raise UsageError(
                f"A global batch of {size} is more than the {self.num_examples} training examples: "
                f"use --global-batch-size {self.num_examples} or less, or --last-batch pad."
            )
        whole, rest = divmod(self.num_examples, size)
        self.steps_per_epoch = whole + (rest > 0 and last_batch == "pad")

    @property
    def signature(self) -> dict[str, Any]:
        """What the order of the examples depends on, beside seed and global batch size."""
        depends = {"number of training examples": self.num_examples, "last batch": self.last_batch}
        if callable(self.split):
            depends["number of workers"] = cluster.num_workers()
        return depends

    def dataset(self, first_step: int, last_step: int) -> tf.data.Dataset:
        """The batches of steps `first_step` to `last_step` - 1.

        Elements are (inputs, labels, weights) or (inputs, weights), each a nest of
        (replicas of this worker, rows, ...), weights float with zero for padding.
        """
        layout, seed = self.layout, self.seed
        split = worker_split(self.split)
        workers, worker = 1, 0
        if callable(self.split):
            workers, worker = cluster.num_workers(), cluster.worker_index()
            layout = layout.for_worker()
        batches = self._in_order(split, layout.global_batch_size, first_step)
        batches = batches.take(last_step - first_step)
        if self.augment is None:
            return _read(batches, split, layout)
        augment, size = self.augment, layout.global_batch_size
        load = _loader(split, np.arange(size, dtype=np.int32))

        @without_autograph
        def augmented(step: tf.Tensor, source: Any) -> Any:
            # The shards of two workers must not get the same random numbers.
            place = step * workers + worker
            batch = augment(load(source), tf.stack([tf.constant(seed, tf.int64), place]))
            return tf.nest.map_structure(lambda t: tf.gather(t, layout.positions), batch)

        numbered = tf.data.Dataset.zip(tf.data.Dataset.range(first_step, last_step), batches)
        batches = numbered.map(augmented, num_parallel_calls=tf.data.AUTOTUNE)
        return batches.prefetch(tf.data.AUTOTUNE)

    def _in_order(self, split: Split, size: int, first_step: int) -> tf.data.Dataset:
        """Batches of a stream, or of row numbers int32 (size,), without end."""
        examples, seed, span = num_examples(split), self.seed, self.last_batch == "span"
        first_epoch, skipped = divmod(first_step, self.steps_per_epoch)  # epochs, then batches
        if span:  # epochs, then examples
            first_epoch, skipped = divmod(first_step * size, examples)
        epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
        if isinstance(split, tf.data.Dataset):

            @without_autograph
            def epoch_of_stream(epoch: tf.Tensor) -> tf.data.Dataset:
                # Of this function's graph only: under a global seed of 0, which --seed 0 sets,
                # shuffle takes no tensor as its seed (TF 2.21).
                tf.random.set_seed(1)
                buffer = min(examples, SHUFFLE_BUFFER)
                shuffled = split.shuffle(buffer, seed=seed + epoch, reshuffle_each_iteration=False)
                drop = self.last_batch == "drop"
                return shuffled if span else shuffled.batch(size, drop_remainder=drop)

            batches = epochs.flat_map(epoch_of_stream)
        else:

            @without_autograph
            def epoch_of_rows(epoch: tf.Tensor) -> tf.data.Dataset:
                keys = tf.random.stateless_uniform((examples,), (seed, epoch), None, None, tf.int64)
                order = tf.argsort(keys)
                if not span:
                    order = _in_batches(order, self.steps_per_epoch, size)
                return tf.data.Dataset.from_tensor_slices(order)

            batches = epochs.flat_map(epoch_of_rows)
        batches = batches.skip(skipped)
        return batches.batch(size, drop_remainder=True) if span else batches


def evaluation_batches(split: Split, layout: BatchLayout) -> tuple[tf.data.Dataset, int]:
    """Every example exactly once, in order, the last batch padded; and the number of batches."""
    if callable(split):
        split, layout = worker_split(split), layout.for_worker()
    examples = num_examples(split)
    size = layout.global_batch_size
    steps = -(-examples // size)
    if isinstance(split, tf.data.Dataset):
        batches = split.batch(size)
    else:
        batches = tf.data.Dataset.from_tensor_slices(_in_batches(tf.range(examples), steps, size))
    return _read(batches, split, layout), steps


def _in_batches(order: tf.Tensor, steps: int, size: int) -> tf.Tensor:
    """(examples,) -> (steps, size): cut, or filled up with PADDING."""
    missing = max(0, steps * size - order.shape[0])
    filled = tf.pad(order, [[0, missing]], constant_values=PADDING)
    return tf.reshape(filled[: steps * size], (steps, size))


def _read(batches: tf.data.Dataset, split: Split, layout: BatchLayout) -> tf.data.Dataset:
    """Batches of a stream, or of row numbers -> the rows of this worker's replicas."""
    if not isinstance(split, tf.data.Dataset):
        split = tf.nest.map_structure(tf.convert_to_tensor, split)
    load = _loader(split, layout.positions)

    @without_autograph
    def rows(*source: Any) -> Any:
        return load(source[0] if len(source) == 1 else source)

    if isinstance(split, tf.data.Dataset):
        loaded = batches.map(rows, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        # Several steps at once: calling a function costs tf.data more than gathering a small batch
        # does, together half a step of a small model (TF 2.21).
        example = sum(t.shape[1:].num_elements() * t.dtype.size for t in tf.nest.flatten(split))
        bytes_of_a_step = max(1, example * layout.local * layout.per_replica)
        together = min(STEPS_TOGETHER, max(1, BYTES_TOGETHER // bytes_of_a_step))
        loaded = batches.batch(together).map(rows, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
    return loaded.prefetch(tf.data.AUTOTUNE)


def _loader(split: Split, positions: np.ndarray) -> Load:
    """What returns the examples at `positions` of a batch, and their weights.

    A batch of a stream may be short, one of row numbers has PADDING, and steps as its first axis if
    there are several.
    """

    def from_stream(batch: Any) -> tuple[Any, ...]:
        rows = tf.shape(tf.nest.flatten(batch)[0])[0]
        real = tf.minimum(positions, rows - 1)
        examples = tf.nest.map_structure(lambda t: tf.gather(t, real), batch)
        return _with_weights(examples, positions < rows)

    if isinstance(split, tf.data.Dataset):
        return from_stream
    tensors = tf.nest.map_structure(tf.convert_to_tensor, split)

    def from_arrays(numbers: tf.Tensor) -> tuple[Any, ...]:
        numbers = tf.gather(numbers, positions, axis=-1)
        real = tf.maximum(numbers, 0)
        examples = tf.nest.map_structure(lambda t: tf.gather(t, real), tensors)
        return _with_weights(examples, numbers != PADDING)

    return from_arrays


def _with_weights(batch: Any, present: tf.Tensor) -> tuple[Any, ...]:
    """x, (x, y) or (x, y, weights) -> the same with weights last: zero for what isn't there.

    Weights given as a dict of outputs stay one; each may have axes after that of the rows.
    """
    parts = batch if isinstance(batch, tuple) else (batch,)
    if not 1 <= len(parts) <= 3:
        raise UsageError(
            f"An example of create_datasets has {len(parts)} parts; it may have inputs, labels and "
            "weights: put several inputs or labels in a dict."
        )
    there = tf.cast(present, keras.config.floatx())
    examples = tuple(tf.nest.map_structure(_in_floatx, part) for part in parts[:2])
    if len(parts) < 3:
        return (*examples, there)

    def padded(weights: tf.Tensor) -> tf.Tensor:
        further_axes = [tf.newaxis] * (weights.shape.rank - there.shape.rank)
        return tf.cast(weights, there.dtype) * there[(..., *further_axes)]

    return (*examples, tf.nest.map_structure(padded, parts[2]))


def _in_floatx(t: tf.Tensor) -> tf.Tensor:
    """Floats in the precision of the weights, so that --precision float64 fits labels too."""
    return tf.cast(t, keras.config.floatx()) if t.dtype.is_floating else t
