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
as_it_is = tf.autograph.experimental.do_not_convert

PADDING = -1  # the row of an example that isn't there
STEPS_TOGETHER, BYTES_TOGETHER = 32, 2**20  # read at once, at most
SHUFFLE_BUFFER = 10_000  # examples; for streams only, arrays are shuffled as a whole


class Layout(NamedTuple):
    """How a global batch lies on the replicas; this worker has `local` of them, from `first` on."""

    global_batch_size: int
    replicas: int
    first: int
    local: int
    accumulate: int = 1  # micro-batches in a replica's share

    @property
    def per_replica(self) -> int:
        """Rows in one replica's share."""
        return self.global_batch_size // self.replicas

    @property
    def positions(self) -> np.ndarray:
        """Rows of the global batch that the replicas of this worker take, int32 (local, rows).

        Micro-batch m of all replicas together is part m of the global batch, however many they are,
        so that what a model takes from it, such as statistics, does not depend on their number.
        """
        rows = np.arange(self.global_batch_size, dtype=np.int32)
        parts = rows.reshape(self.accumulate, self.replicas, -1)
        mine = parts[:, self.first : self.first + self.local]
        return mine.swapaxes(0, 1).reshape(self.local, -1)

    def of_worker(self) -> Layout:
        """The layout of this worker's part of the global batch, as if there were no other."""
        return Layout(self.local * self.per_replica, self.local, 0, self.local, self.accumulate)


def create_layout(
    strategy: tf.distribute.Strategy, global_batch_size: int, accumulate: int = 1
) -> Layout:
    """The layout of `global_batch_size` rows over the replicas of `strategy`."""
    replicas = strategy.num_replicas_in_sync
    local = replicas // cluster.number_of_workers()
    return Layout(global_batch_size, replicas, cluster.worker_index() * local, local, accumulate)


def number_of_examples(split: Split) -> int:
    """How many examples a split has, those of all workers together.

    Raises:
        UsageError: the arrays or the workers' parts differ in length, or a stream doesn't say how
            many it has.
    """
    if callable(split):
        workers = cluster.number_of_workers()
        parts = [number_of_examples(split(workers, index)) for index in range(workers)]
        if len(set(parts)) > 1:
            raise UsageError(
                f"The workers' parts of the data have {parts} examples: they must be equally long; "
                "leave some out with take(), or give all workers one tf.data.Dataset."
            )
        return sum(parts)
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


def own_part(split: Split) -> Split:
    """What this worker reads of a split: its part of a function, else all of it."""
    if callable(split):
        return split(cluster.number_of_workers(), cluster.worker_index())
    return split


def steps_per_epoch(examples: int, global_batch_size: int, last_batch: LastBatch) -> int:
    """Train steps in an epoch: whole batches; with "span" what is left comes first in the next.

    Raises:
        UsageError: the data is empty or smaller than one batch.
    """
    if not examples:
        raise UsageError("The training data is empty.")
    if last_batch == "pad":
        return -(-examples // global_batch_size)
    if examples < global_batch_size:
        raise UsageError(
            f"A global batch of {global_batch_size} is more than the {examples} training examples: "
            f"--global-batch-size {examples} or less, or --last-batch pad."
        )
    return examples // global_batch_size


def training_batches(
    split: Split,
    layout: Layout,
    *,
    seed: int,
    first_step: int,
    last_step: int,
    last_batch: LastBatch = "drop",
    augment: Augment | None = None,
) -> tf.data.Dataset:
    """The batches of steps `first_step` to `last_step` - 1: each (local replicas, rows, ...)."""
    workers, worker = 1, 0
    if callable(split):
        split, layout = own_part(split), layout.of_worker()
        workers, worker = cluster.number_of_workers(), cluster.worker_index()
    examples = number_of_examples(split)
    size = layout.global_batch_size
    per_epoch = steps_per_epoch(examples, size, last_batch)
    first_epoch, position = divmod(first_step, per_epoch)
    if last_batch == "span":
        first_epoch, position = 0, first_step
    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    if isinstance(split, tf.data.Dataset):

        @as_it_is
        def shuffled(epoch: tf.Tensor) -> tf.data.Dataset:
            # Of this function's graph only: under a global seed of 0, which --seed 0 sets, shuffle
            # takes no tensor as its seed (TF 2.21).
            tf.random.set_seed(1)
            buffer = min(examples, SHUFFLE_BUFFER)
            return split.shuffle(buffer, seed=seed + epoch, reshuffle_each_iteration=False)

        if last_batch == "span":
            batches = epochs.flat_map(shuffled).batch(size, drop_remainder=True)
        else:
            drop = last_batch == "drop"
            batches = epochs.flat_map(as_it_is(lambda e: shuffled(e).batch(size, drop)))
    else:

        @as_it_is
        def rows(epoch: tf.Tensor) -> tf.data.Dataset:
            keys = tf.random.stateless_uniform((examples,), (seed, epoch), None, None, tf.int64)
            order = tf.argsort(keys)
            if last_batch != "span":
                order = _rows(order, per_epoch, size)
            return tf.data.Dataset.from_tensor_slices(order)

        batches = epochs.flat_map(rows)
        if last_batch == "span":
            batches = batches.batch(size, drop_remainder=True)

    batches = batches.skip(position).take(last_step - first_step)
    if augment is None:
        return _read(batches, split, layout)
    load = _loader(split, np.arange(size, dtype=np.int32))

    @as_it_is
    def finish(step: tf.Tensor, source: Any) -> Any:
        # The parts of two workers must not get the same random numbers.
        place = step * workers + worker
        whole = augment(load(source), tf.stack([tf.constant(seed, tf.int64), place]))
        return tf.nest.map_structure(lambda t: tf.gather(t, layout.positions), whole)

    numbered = tf.data.Dataset.zip(tf.data.Dataset.range(first_step, last_step), batches)
    return numbered.map(finish, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(split: Split, layout: Layout) -> tuple[tf.data.Dataset, int]:
    """Every example exactly once, in order, the last batch padded; and the number of batches."""
    if callable(split):
        split, layout = own_part(split), layout.of_worker()
    examples = number_of_examples(split)
    size = layout.global_batch_size
    steps = -(-examples // size)
    if isinstance(split, tf.data.Dataset):
        batches = split.batch(size)
    else:
        batches = tf.data.Dataset.from_tensor_slices(_rows(tf.range(examples), steps, size))
    return _read(batches, split, layout), steps


def _rows(order: tf.Tensor, steps: int, size: int) -> tf.Tensor:
    """(examples,) -> (steps, size): cut, or filled up with PADDING."""
    missing = max(0, steps * size - order.shape[0])
    filled = tf.pad(order, [[0, missing]], constant_values=PADDING)
    return tf.reshape(filled[: steps * size], (steps, size))


def _read(batches: tf.data.Dataset, split: Split, layout: Layout) -> tf.data.Dataset:
    """Batches of a stream, or of row numbers, -> this worker's shares; reads no other rows."""
    load = _loader(split, layout.positions)

    @as_it_is
    def share(*source: Any) -> Any:
        return load(source[0] if len(source) == 1 else source)

    if isinstance(split, tf.data.Dataset):
        shares = batches.map(share, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        # Of several steps at once: calling a function costs tf.data more than gathering a small
        # batch does, together half a step of a small model (TF 2.21).
        tensors = [tf.convert_to_tensor(array) for array in tf.nest.flatten(split)]
        example = sum(t.shape[1:].num_elements() * t.dtype.size for t in tensors)
        bytes_of_a_step = max(1, example * layout.local * layout.per_replica)
        together = min(STEPS_TOGETHER, max(1, BYTES_TOGETHER // bytes_of_a_step))
        shares = batches.batch(together).map(share, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
    return shares.prefetch(tf.data.AUTOTUNE)


def _loader(split: Split, positions: np.ndarray) -> Load:
    """What gives the examples at `positions` of a batch, and their weights.

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
    """x, (x, y) or (x, y, weights) -> the same with weights last: zero for what isn't there."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    if len(parts) > 3:
        raise UsageError(
            f"An example of create_datasets has {len(parts)} parts; it may have inputs, labels and "
            "weights: put several inputs or labels in a dict."
        )
    weights = tf.cast(present, keras.config.floatx())
    if len(parts) < 3:
        return (*parts, weights)
    given = tf.cast(parts[2], weights.dtype)
    for _ in range(given.shape.rank - weights.shape.rank):
        weights = weights[..., tf.newaxis]
    return (*parts[:2], given * weights)
