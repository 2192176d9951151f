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

Split = (
    Any  # arrays (a nest with the examples along the first axis) or a tf.data.Dataset of examples
)
LastBatch = Literal["drop", "span", "pad"]

Load = Callable[[Any, int], tuple[Any, tf.Tensor]]  # source, size -> batch, which rows are real

# Translating plain tensor code for tf.data costs a second at every start (TF 2.21).
as_it_is = tf.autograph.experimental.do_not_convert

PADDING = -1  # the row of an example that isn't there
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


def create_layout(
    strategy: tf.distribute.Strategy, global_batch_size: int, accumulate: int = 1
) -> Layout:
    """The layout of `global_batch_size` rows over the replicas of `strategy`."""
    replicas = strategy.num_replicas_in_sync
    local = replicas // cluster.number_of_workers()
    return Layout(global_batch_size, replicas, cluster.worker_index() * local, local, accumulate)


def number_of_examples(split: Split) -> int:
    """How many examples a split has.

    Raises:
        UsageError: the arrays differ in length, or a stream doesn't say how many it has.
    """
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
    augment: Callable[[Any, tf.Tensor], Any] | None = None,
) -> tf.data.Dataset:
    """The batches of steps `first_step` to `last_step` - 1: each (local replicas, rows, ...)."""
    examples = number_of_examples(split)
    size = layout.global_batch_size
    per_epoch = steps_per_epoch(examples, size, last_batch)
    first_epoch, position = divmod(first_step, per_epoch)
    if last_batch == "span":
        first_epoch, position = 0, first_step
    epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)
    load: Load = _pad

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
        load = _gather_from(split)

    @as_it_is
    def finish(step: tf.Tensor, source: Any) -> Any:
        batch = _with_weights(*load(source, size))
        if augment is not None:
            batch = augment(batch, tf.stack([tf.constant(seed, tf.int64), step]))
        return _share(batch, layout)

    batches = batches.skip(position).take(last_step - first_step)
    numbered = tf.data.Dataset.zip(tf.data.Dataset.range(first_step, last_step), batches)
    return numbered.map(finish, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(split: Split, layout: Layout) -> tuple[tf.data.Dataset, int]:
    """Every example exactly once, in order, the last batch padded; and the number of batches."""
    examples = number_of_examples(split)
    size = layout.global_batch_size
    steps = -(-examples // size)
    load: Load = _pad
    if isinstance(split, tf.data.Dataset):
        batches = split.batch(size)
    else:
        rows = _rows(tf.range(examples), steps, size)
        batches, load = tf.data.Dataset.from_tensor_slices(rows), _gather_from(split)
    shares = batches.map(
        as_it_is(lambda *source: _share(_with_weights(*load(_only(source), size)), layout)),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return shares.prefetch(tf.data.AUTOTUNE), steps


def _rows(order: tf.Tensor, steps: int, size: int) -> tf.Tensor:
    """(examples,) -> (steps, size): cut, or filled up with PADDING."""
    missing = max(0, steps * size - order.shape[0])
    filled = tf.pad(order, [[0, missing]], constant_values=PADDING)
    return tf.reshape(filled[: steps * size], (steps, size))


def _gather_from(arrays: Any) -> Load:
    tensors = tf.nest.map_structure(tf.convert_to_tensor, arrays)

    def load(rows: tf.Tensor, size: int) -> tuple[Any, tf.Tensor]:
        del size
        real = tf.maximum(rows, 0)
        return tf.nest.map_structure(lambda t: tf.gather(t, real), tensors), rows != PADDING

    return load


def _pad(batch: Any, size: int) -> tuple[Any, tf.Tensor]:
    """A batch of a stream, filled up to `size` rows with copies of its last one."""
    rows = tf.shape(tf.nest.flatten(batch)[0])[0]
    wanted = tf.range(size)
    filled = tf.nest.map_structure(lambda t: tf.gather(t, tf.minimum(wanted, rows - 1)), batch)
    return filled, wanted < rows


def _only(source: tuple[Any, ...]) -> Any:
    return source[0] if len(source) == 1 else source


def _with_weights(batch: Any, present: tf.Tensor) -> tuple[Any, ...]:
    """x, (x, y) or (x, y, weights) -> the same with weights last: zero for padding."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    if len(parts) > 3:
        raise UsageError(
            f"An example of create_datasets has {len(parts)} parts; it may have inputs, labels and "
            "weights: put several inputs or labels in a dict."
        )
    weights = tf.cast(present, keras.config.floatx())
    if len(parts) < 3:
        return (*parts, weights)
    given = tf.cast(parts[2], keras.config.floatx())
    return (*parts[:2], given * tf.reshape(weights, [-1] + [1] * (given.shape.rank - 1)))


def _share(batch: Any, layout: Layout) -> Any:
    """(global batch, ...) -> (replicas of this worker, rows, ...).

    Micro-batch m of all replicas together is part m of the global batch, however many they are, so
    that what a model takes from it, such as statistics, does not depend on their number.
    """
    mine = slice(layout.first, layout.first + layout.local)
    rows = layout.per_replica // layout.accumulate

    def cut(t: tf.Tensor) -> tf.Tensor:
        parts = tf.reshape(t, [layout.accumulate, layout.replicas, rows, *t.shape[1:]])
        shares = tf.concat(tf.unstack(parts[:, mine]), axis=1)  # (local, accumulate x rows, ...)
        return tf.ensure_shape(shares, [layout.local, layout.per_replica, *t.shape[1:]])

    return tf.nest.map_structure(cut, batch)
