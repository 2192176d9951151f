"""Batches: step-addressed order, shards for the workers, padding with weight zero.

Which examples step s of a run sees depends on nothing but the seed, s and the global batch size:
neither on the number of replicas nor on where a run was interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from . import cluster
from .bad_examples import BadExamples
from .causes import cause_of, mend_of_dtypes, message_of
from .errors import DataError, UsageError, require_call
from .output import say
from .random_access import (
    BATCHES_TOGETHER,
    PADDING,
    RandomAccess,
    has_rows,
    without_autograph,
)
from .replicas import SeededScope
from .rows import require_content

TRAINING_DATA = "training data"

# What `create_datasets` returns for a split: arrays (a nest with the examples along the first axis)
# or an object with examples by row number, both of which RandomAccess reads; or a tf.data.Dataset
# of examples, which each worker reads as a whole; or a function (workers, index) -> one of these,
# the shard that one worker reads.
Split = Any
LastBatch = Literal["drop", "span", "pad"]

Augment = Callable[[Any, tf.Tensor], Any]  # batch, seed -> batch

# What TF 2.21 calls the datasets of which each element is made of the element at the same place of
# their input, those that make batches, and those that only give batches of another.
ONE_TO_ONE = {
    "_MapDataset", "_ParallelMapDataset", "_PrefetchDataset", "CacheDataset", "_OptionsDataset",
}  # fmt: skip
MAKES_BATCHES = {"_BatchDataset", "_ParallelBatchDataset", "_PaddedBatchDataset"}
KEEPS_BATCHES = ONE_TO_ONE | {"_ShuffleDataset"}
KEEPS_SOME_BATCHES = {
    "_TakeDataset", "_SkipDataset", "_RepeatDataset", "_AssertCardinalityDataset", "_FilterDataset",
    "_DirectedInterleaveDataset",
}  # fmt: skip
JOINS_BATCHES = {"_ZipDataset", "_ConcatenateDataset"}

MOST_PADDING = 100  # times the examples: a batch with more of it is a mistake
SHUFFLE_BUFFER = 10_000  # examples; for streams only, all others are shuffled as a whole
# Of the block cipher behind index_shuffle. With its usual 4, in small data some neighbors come
# again more often than others (TF 2.21).
ROUNDS = 8


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

    Only this worker's shard is made, which may be all that its disk has; the workers have compared
    how long theirs are (`require_same_data`).

    Raises:
        UsageError: the arrays differ in length, or a stream doesn't say how many it has, or has no
            end.
    """
    if is_sharded(split):
        return cluster.num_workers() * num_examples(_own_shard(split))
    if not isinstance(split, tf.data.Dataset):
        return len(random_access(split))
    number = int(of_examples(split).cardinality())
    if number == tf.data.INFINITE_CARDINALITY:
        raise UsageError(
            "A tf.data.Dataset of create_datasets has no end: add .take(number of examples); "
            "training data may be endless if --steps says how long to train."
        )
    if number < 0:
        apart = "add .unbatch() and " if gives_batches(split) else "add "
        raise UsageError(
            f"A tf.data.Dataset of create_datasets doesn't know its size: {apart}"
            ".apply(tf.data.experimental.assert_cardinality(number of examples))."
        )
    return number


def gives_batches(split: Split) -> bool:
    """Whether a split is a tf.data.Dataset of batches, as Keras takes it, and not of examples.

    Of those that `batch(..., drop_remainder=True)` makes it can't be known: they may be sequences.

    Raises:
        UsageError: a part of it is None, sparse or ragged, or batches have several lengths.
    """
    split = _own_shard(split)
    if not isinstance(split, tf.data.Dataset):
        return False
    specs = tf.nest.flatten(split.element_spec)
    for spec in specs:
        if not isinstance(spec, tf.TensorSpec):
            raise UsageError(
                "A tf.data.Dataset of create_datasets has a part of type "
                f"{spec.value_type.__name__}; leave None out, and make others dense, such as by "
                "tf.sparse.to_dense, or by .to_tensor(shape=...) of a ragged one."
            )
        if spec.shape.rank is not None:
            require_content(spec.shape)
    may_be = all(spec.shape.rank and spec.shape[0] is None for spec in specs)
    return may_be and _examples_in_batches(split) is not None


def of_examples(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Batches taken apart, with the number of examples if it can be known; examples as they are."""
    if not gives_batches(dataset):
        return dataset
    examples, number = dataset.unbatch(), _examples_in_batches(dataset)
    if number is None or number < 0:  # endless, or unknown
        return examples
    return examples.apply(tf.data.experimental.assert_cardinality(number))


def _examples_in_batches(dataset: tf.data.Dataset) -> int | None:
    """How many examples its batches hold, negative if that can't be known; None of no batches.

    Raises:
        UsageError: they have several lengths, so the engine can't make its own of them.
    """
    kind = type(dataset).__name__
    inputs = dataset._inputs()  # private (TF 2.21)
    if kind == "_GroupByWindowDataset":
        raise UsageError(
            "A tf.data.Dataset of create_datasets gives batches of several lengths, as of "
            "bucket_by_sequence_length; leave these out, pad all examples to one length, and give "
            "padding the weight 0."
        )
    if kind in MAKES_BATCHES:
        return int(inputs[0].cardinality())
    if kind not in KEEPS_BATCHES | KEEPS_SOME_BATCHES | JOINS_BATCHES:
        return None
    chosen = kind == "_DirectedInterleaveDataset"  # by the numbers of its first input
    numbers = [_examples_in_batches(each) for each in inputs[chosen:]]
    held = [number for number in numbers if number is not None]
    if not held or len(held) < len(numbers):
        return None
    if kind in KEEPS_BATCHES:
        return held[0]
    if kind == "_ZipDataset":
        known = [number for number in held if number != tf.data.INFINITE_CARDINALITY]
        return min(known, default=tf.data.INFINITE_CARDINALITY)
    if kind == "_ConcatenateDataset":
        return sum(held) if min(held) >= 0 else tf.data.UNKNOWN_CARDINALITY
    return tf.data.UNKNOWN_CARDINALITY


def chain(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """A dataset, what it is made of, and so on, as long as that is one."""
    inputs = dataset._inputs()  # private (TF 2.21)
    return [dataset, *(chain(inputs[0]) if len(inputs) == 1 else [])]


def comes_in_another_order(stream: RandomAccess | tf.data.Dataset) -> bool:
    """Whether a stream draws another order each time it is read, or takes what is ready first.

    It may say so itself, as may what it is made of, and the functions of these, such as those of
    `flat_map`. Of `interleave(..., deterministic=False)` nothing is kept (TF 2.21).
    """
    if not isinstance(stream, tf.data.Dataset):
        return False
    return stream.options().deterministic is False or any(
        _draws_an_order(dataset, is_cached=is_cached)
        or getattr(dataset, "_deterministic", "") == "false"
        or any(_has_no_order(each.function.graph) for each in dataset._functions())
        for dataset, is_cached in _all_of(stream)
    )  # private attributes (TF 2.21)


def _all_of(stream: tf.data.Dataset) -> Iterator[tuple[tf.data.Dataset, bool]]:
    """All that a stream is made of, and whether that is read once only, into a cache."""
    found, seen = [(stream, False)], set[int]()
    while found:
        dataset, is_cached = found.pop()
        if id(dataset) not in seen:
            seen.add(id(dataset))
            yield dataset, is_cached
            below = is_cached or type(dataset).__name__ == "CacheDataset"
            found += [(each, below) for each in dataset._inputs()]


def _draws_an_order(dataset: tf.data.Dataset, *, is_cached: bool) -> bool:
    """Whether a shuffle or a choice gives another order each time; with a seed, each time anew."""
    kind = type(dataset).__name__
    if kind not in ("_ShuffleDataset", "_RandomDataset"):
        return False
    has_seed = bool(int(dataset._seed) or int(dataset._seed2))
    if is_cached and has_seed:
        return False
    if kind == "_ShuffleDataset":
        return bool(dataset._reshuffle_each_iteration)
    return bool(dataset._rerandomize) or not has_seed


def _has_no_order(graph: tf.Graph) -> bool:
    """Whether a dataset that a function makes, each time anew, is shuffled without a seed."""
    made = graph.as_graph_def()
    for nodes in (made.node, *(function.node_def for function in made.library.function)):
        zeros = {node.name for node in nodes if node.op == "Const"
                 and not np.any(tf.make_ndarray(node.attr["value"].tensor))}  # fmt: skip
        for node in nodes:
            if node.attr["deterministic"].s == b"false":
                return True
            seeds = {name.partition(":")[0] for name in node.input[2:4]}
            if node.attr["reshuffle_each_iteration"].b and seeds <= zeros:
                return True
    return False


def _require_one_order(stream: tf.data.Dataset, label: str, *, alone: bool) -> None:
    """Of several workers each reads the whole stream, and keeps its rows of each batch."""
    if not comes_in_another_order(stream):
        return
    engine = ", since the engine shuffles too" if label == TRAINING_DATA else ""
    why = (
        f"{label} is a stream that comes in another order each time it is read: leave out "
        f"deterministic=False, and its shuffle{engine}, or give it reshuffle_each_iteration=False"
    )
    if not alone:
        raise UsageError(f"The {why} and a seed.")
    say(f"the {why}; else a resumed run reads other examples than were left")


def is_sharded(split: Split) -> bool:
    """Whether a split is a function (workers, index)."""
    return callable(split) and not has_rows(split)


def _reads_alone(split: Split) -> bool:
    """Whether no other worker reads the same examples."""
    return is_sharded(split) or cluster.num_workers() == 1


def label_of_own(split: Split, label: str) -> str:
    """The name of what this worker reads: row 5 of its shard is another example elsewhere."""
    has_other = is_sharded(split) and cluster.num_workers() > 1
    return f"{label} of worker {cluster.worker_index()}" if has_other else label


def random_access(split: Split) -> RandomAccess:
    """Arrays, or what else has rows, as RandomAccess."""
    return split if isinstance(split, RandomAccess) else RandomAccess(split)


def _own_shard(split: Split) -> Split:
    """What a function (workers, index) gives this worker; any other split as it is."""
    if is_sharded(split):
        # By its method, which has a hash where an object, as of a dataclass, may have none.
        return _shard(split.__call__, cluster.num_workers(), cluster.worker_index())
    return split


@lru_cache(maxsize=8)  # a function may load its shard into memory
def _shard(split: Callable[[int, int], Split], workers: int, index: int) -> Split:
    return split(workers, index)


def worker_split(split: Split) -> RandomAccess | tf.data.Dataset:
    """What this worker reads of a split: its shard of a function, else all of it."""
    split = _own_shard(split)
    return of_examples(split) if isinstance(split, tf.data.Dataset) else random_access(split)


def first_examples(split: Split, number: int) -> Any:
    """The first examples of a split of any kind, fewer if it has fewer: a nest of arrays (n, ...).

    Those that can't be read are left out: training says so, or leaves them out too.

    Raises:
        UsageError: none of them can be read.
    """
    split = worker_split(split)
    if isinstance(split, tf.data.Dataset):
        return next(split.batch(number).as_numpy_iterator())
    rows, errors = [], list[DataError]()
    for row in range(min(number, len(split))):
        try:
            rows.append(split[row])
        except DataError as error:
            errors.append(error)
    if errors and not rows:
        raise errors[0]
    return tf.nest.map_structure(lambda *parts: np.stack(parts), *rows)


def first_batch(split: Split, number: int) -> Any:
    """The first examples as a step or an augmentation gets them: tensors (n, ...), weights last.

    Raises:
        UsageError: none of them can be read, or an example has more than three parts.
    """
    batch = tf.nest.map_structure(tf.convert_to_tensor, first_examples(split, number))
    return _with_weights(batch, tf.ones(len(tf.nest.flatten(batch)[0]), tf.bool))


def shuffled(places: tf.Tensor, examples: int, seed: int) -> tf.Tensor:
    """Places int64 (...) in an endless row of epochs -> row numbers int64 (...).

    Each epoch is a permutation of all rows, and none of it is stored: `RandomIndexShuffle` is a
    block cipher, at the same cost wherever it starts. `tf.random.experimental.index_shuffle` fixes
    a part of its key, and with an epoch's number as the other part there are only 256 orders
    (TF 2.21), so the key is drawn at random for each epoch.
    """
    epochs, places = places // examples, places % examples
    first = tf.reduce_min(epochs)

    def key(epoch: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_uniform((3,), (seed, epoch), None, None, tf.int64)

    keys = tf.map_fn(key, tf.range(first, tf.reduce_max(epochs) + 1))
    rows = tf.raw_ops.RandomIndexShuffle(
        index=tf.reshape(places, (-1,)),
        seed=tf.gather(keys, tf.reshape(epochs - first, (-1,))),
        max_index=tf.constant(examples - 1, tf.int64),
        rounds=ROUNDS,
    )
    return tf.reshape(rows, tf.shape(places))


def seeded(augment: Augment) -> Augment:
    """An augmentation whose layers of Keras draw by its seed, as its own random numbers do."""
    function = augment
    if isinstance(augment, tf.types.experimental.PolymorphicFunction):
        function = augment.python_function

    def augmented(batch: Any, seed: tf.Tensor) -> Any:
        with SeededScope(seed):
            return function(batch, seed)

    # Not itself: its graph is that of the first dataset, and has the seed of that one.
    return augmented if function is augment else tf.function(augmented)


def per_example(augment: Augment) -> Augment:
    """Mark an augmentation that changes each example by itself, whatever the others are.

    It draws its random numbers for the global batch, like any other. But where several workers
    train, each reads its own rows only; an augmentation that mixes examples needs those of all.
    """
    augment.per_example = True  # type: ignore[attr-defined]
    return augment


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
        steps: of the whole run; an epoch of an endless stream is so long.
        bad: where examples go that can't be read.

    Raises:
        UsageError: the data is empty or smaller than a batch, or has no end, and `steps` is None.
    """

    def __init__(
        self,
        split: Split,
        layout: BatchLayout,
        *,
        seed: int = 0,
        last_batch: LastBatch = "drop",
        augment: Augment | None = None,
        steps: int | None = None,
        bad: BadExamples | None = None,
    ) -> None:
        self.split, self.layout = split, layout
        self._own = worker_split(split)  # what this worker reads of it
        # With one order in all shards, the same rows would meet in each epoch. Its bits lie above
        # those of `SeededScope`.
        self.seed = seed + (cluster.worker_index() << 48 if is_sharded(split) else 0)
        if augment is not None:
            require_call(augment, "batch, seed", "What create_augment in task/data.py returns")
        self.last_batch, self.augment = last_batch, augment
        self.bad = BadExamples() if bad is None else bad
        # Functions that read the variables of `augment`, and what these were.
        self._read_by_augment: list[tuple[Callable[[], np.ndarray], np.ndarray]] = []
        size = layout.global_batch_size
        self.endless = steps is not None and is_endless(split)
        self.num_examples = steps * size if steps and self.endless else num_examples(split)
        if not self.num_examples:
            raise UsageError("The training data is empty.")
        if self.is_stream:
            _require_one_order(self._own, TRAINING_DATA, alone=_reads_alone(split))
        if self.num_examples < size and last_batch != "pad":
            raise UsageError(
                f"A global batch of {size} is more than the {self.num_examples} training examples: "
                f"use --global-batch-size {self.num_examples} or less, or --last-batch pad."
            )
        if size > MOST_PADDING * self.num_examples:
            raise UsageError(
                f"A global batch of {size} is more than {MOST_PADDING} times the "
                f"{self.num_examples} training examples: nearly all of it would be padding."
            )
        whole, rest = divmod(self.num_examples, size)
        self.steps_per_epoch = whole + (rest > 0 and last_batch == "pad")

    @property
    def is_stream(self) -> bool:
        """Whether the examples come in the order of a tf.data.Dataset."""
        return isinstance(self._own, tf.data.Dataset)

    @property
    def signature(self) -> dict[str, Any]:
        """What the order of the examples depends on, beside seed and global batch size."""
        order = "that of a stream, seeds drawn" if self.is_stream else f"shuffled, {ROUNDS} rounds"
        depends = {
            "number of training examples": "endless" if self.endless else self.num_examples,
            "last batch": self.last_batch,
            "order of the examples": order,
        }
        if is_sharded(self.split):
            depends["number of workers"] = cluster.num_workers()
        return depends

    def examples_read_again(self, first_step: int) -> int:
        """How many examples of a stream are read and thrown away before `first_step`."""
        if not self.is_stream:
            return 0
        size = self.layout.global_batch_size
        if self.last_batch == "span":
            return first_step * size % self.num_examples
        return first_step % self.steps_per_epoch * size

    def require_constants(self) -> None:
        """Refuse to go on when a variable has changed that `augment` reads.

        Batches are made ahead of the steps, by as many as the machine is fast, so no two runs
        would agree.

        Raises:
            UsageError: one has.
        """
        for read, value in self._read_by_augment:
            if not np.array_equal(read(), value, equal_nan=True):
                raise UsageError(
                    "A variable that create_augment in task/data.py reads has changed, but batches "
                    "are made ahead of the steps, by as many as there is time for; let it depend "
                    "on seed[1] instead, which grows with the step."
                )

    def _note_variables(self, graph: tf.Graph) -> None:
        """Keep what the augmentation's graph reads, which knows handles only (TF 2.21)."""

        def read(handle: tf.Tensor, dtype: tf.DType) -> np.ndarray:
            return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype).numpy()

        handles = {id(inner): outer for outer, inner in graph.captures}
        read_by = [op for op in graph.get_operations() if op.type == "ReadVariableOp"]
        found = [(handles.get(id(op.inputs[0])), op.get_attr("dtype")) for op in read_by]
        reads = [partial(read, handle, dtype) for handle, dtype in found if handle is not None]
        if not self._read_by_augment:  # of the first trace: later ones may be made after a change
            with tf.init_scope():
                self._read_by_augment = [(each, each()) for each in reads]

    def rows(self, steps: tf.Tensor) -> tf.Tensor:
        """Steps int64 (k,) -> the row numbers of their global batches, int64 (k, rows).

        PADDING where the last batch of an epoch is short. Not for streams.
        """
        examples, per_epoch = len(self._own), self.steps_per_epoch
        size = self._own_layout.global_batch_size
        span = self.last_batch == "span"
        in_epoch = steps if span else steps % per_epoch
        places = in_epoch[:, tf.newaxis] * size + tf.range(size, dtype=tf.int64)
        if span:
            return shuffled(places, examples, self.seed)
        there = places < examples
        places = tf.minimum(places, examples - 1) + (steps // per_epoch)[:, tf.newaxis] * examples
        return tf.where(there, shuffled(places, examples, self.seed), PADDING)

    def rows_from(self, step: int) -> Iterator[int]:
        """The row numbers that are read from `step` on, without end; none of a stream."""
        while not self.is_stream:
            rows = self.rows(tf.constant([step], tf.int64)).numpy().ravel()
            yield from (int(row) for row in rows if row != PADDING)
            step += 1

    @property
    def _own_layout(self) -> BatchLayout:
        """The layout of what `_own` gives to a batch: all of it, or this worker's shard."""
        return self.layout.for_worker() if is_sharded(self.split) else self.layout

    def dataset(self, first_step: int, last_step: int) -> tf.data.Dataset:
        """The batches of steps `first_step` to `last_step` - 1.

        Elements are (inputs, labels, weights) or (inputs, weights), each a nest of
        (replicas of this worker, rows, ...), weights float with zero for padding.
        """
        layout, seed = self._own_layout, self.seed
        split = self._own
        size = layout.global_batch_size
        positions = layout.positions
        if self.augment is not None:  # it sees the global batch
            own = np.arange(size)
            if hasattr(self.augment, "per_example"):  # in order, as in the global batch
                own = np.sort(layout.positions, axis=None)
            positions, in_batch = np.asarray(own, np.int32), np.zeros(size, np.int32)
            in_batch[positions] = np.arange(len(positions))  # rows of others hold the first one
        if isinstance(split, tf.data.Dataset):
            stream = self._epochs_of_stream(split, size, first_step).take(last_step - first_step)
            batches = _batches_of_stream(stream, positions)
        else:

            @without_autograph
            def rows(steps: tf.Tensor) -> tf.Tensor:
                return tf.gather(self.rows(steps), positions, axis=-1)

            steps = tf.data.Dataset.range(first_step, last_step).batch(BATCHES_TOGETHER)
            numbers = steps.map(rows).unbatch()
            label = label_of_own(self.split, TRAINING_DATA)
            batches = split.batches(numbers, _with_weights, label=label, bad=self.bad)
        if self.augment is None:
            return batches.prefetch(tf.data.AUTOTUNE)
        augment = seeded(self.augment)

        @without_autograph
        def augmented(step: tf.Tensor, batch: Any) -> Any:
            if len(positions) < size:
                batch = tf.nest.map_structure(lambda t: tf.gather(t, in_batch), batch)
            try:
                batch = augment(batch, tf.stack([tf.constant(seed, tf.int64), step]))
            except UsageError as error:  # autograph wraps its words around the sentence
                sentence = message_of(error).removeprefix("UsageError: ")
                raise UsageError(f"{sentence}.") from error
            except (TypeError, ValueError) as error:  # perhaps of mixed dtypes
                if not (mend := mend_of_dtypes(error, keras.config.floatx())):
                    raise
                raise UsageError(f"{cause_of(error)}: {mend}.") from error
            if not isinstance(batch, tuple | list):
                kind = "tensor" if tf.is_tensor(batch) else type(batch).__name__
                raise UsageError(
                    f"The function that create_augment returns gives no batch but a {kind}; it "
                    "must give a tuple as it got one, with the inputs first, several in a dict, "
                    "and the weights last."
                )
            _validate_ranks(batch, "create_augment")
            _validate_rows(batch, size)
            self._note_variables(tf.compat.v1.get_default_graph())
            return tf.nest.map_structure(lambda t: tf.gather(t, layout.positions), batch)

        numbered = tf.data.Dataset.zip(tf.data.Dataset.range(first_step, last_step), batches)
        batches = numbered.map(augmented, num_parallel_calls=tf.data.AUTOTUNE)
        return batches.prefetch(tf.data.AUTOTUNE)

    def _epochs_of_stream(
        self, split: tf.data.Dataset, size: int, first_step: int
    ) -> tf.data.Dataset:
        """The batches of a stream from `first_step` on, without end."""
        examples = self.num_examples if self.endless else num_examples(split)
        seed, span = self.seed, self.last_batch == "span"
        first_epoch, skipped = divmod(first_step, self.steps_per_epoch)  # epochs, then batches
        if span:  # epochs, then examples
            first_epoch, skipped = divmod(first_step * size, examples)
        epochs = tf.data.Dataset.range(first_epoch, np.iinfo(np.int64).max)

        @without_autograph
        def epoch_of_stream(epoch: tf.Tensor) -> tf.data.Dataset:
            # Of this function's graph only: under a global seed of 0, which --seed 0 sets,
            # shuffle takes no tensor as its seed (TF 2.21).
            tf.random.set_seed(1)
            # Of an endless stream alike for any number of steps: a run may be resumed with more.
            buffer = SHUFFLE_BUFFER if self.endless else min(examples, SHUFFLE_BUFFER)
            # Drawn: with a sum the epochs of --seed 1 would be those of --seed 0, one later.
            drawn = tf.random.stateless_uniform((), (seed, epoch), None, None, tf.int64)
            shuffled = split.shuffle(buffer, seed=drawn, reshuffle_each_iteration=False)
            drop = self.last_batch == "drop"
            return shuffled if span else shuffled.batch(size, drop_remainder=drop)

        batches = epochs.flat_map(epoch_of_stream).skip(skipped)
        return batches.batch(size, drop_remainder=True) if span else batches


def evaluation_batches(
    split: Split,
    layout: BatchLayout,
    *,
    label: str = "data",
    bad: BadExamples | None = None,
) -> tuple[tf.data.Dataset, int]:
    """Every example exactly once, in order, the last batch padded; and the number of batches.

    Args:
        split: the examples.
        layout: how a global batch is divided among the replicas.
        label: the name of the split in a sentence.
        bad: where examples go that can't be read.

    Raises:
        UsageError: a stream comes in another order on each worker.
    """
    alone, own_label = _reads_alone(split), label_of_own(split, label)
    if is_sharded(split):
        layout = layout.for_worker()
    split = worker_split(split)
    examples, size = num_examples(split), layout.global_batch_size
    steps = -(-examples // size)
    if isinstance(split, tf.data.Dataset):
        if not alone:
            _require_one_order(split, label, alone=False)
        batches = _batches_of_stream(split.batch(size), layout.positions)
        return batches.prefetch(tf.data.AUTOTUNE), steps

    @without_autograph
    def rows(step: tf.Tensor) -> tf.Tensor:
        places = step * size + layout.positions
        return tf.where(places < examples, places, PADDING)

    numbers = tf.data.Dataset.range(steps).map(rows)
    bad = BadExamples() if bad is None else bad
    batches = split.batches(numbers, _with_weights, label=own_label, bad=bad)
    return batches.prefetch(tf.data.AUTOTUNE), steps


def is_endless(split: Split) -> bool:
    """Whether a split is a stream without end."""
    split = _own_shard(split)
    endless = tf.data.INFINITE_CARDINALITY
    return isinstance(split, tf.data.Dataset) and int(split.cardinality()) == endless


def _batches_of_stream(batches: tf.data.Dataset, positions: np.ndarray) -> tf.data.Dataset:
    """Batches, of which the last of an epoch may be short -> the rows at `positions` of each."""

    @without_autograph
    def rows(*batch: Any) -> Any:
        examples = batch[0] if len(batch) == 1 else batch
        _validate_ranks(examples, "a tf.data.Dataset of create_datasets")
        number = tf.shape(tf.nest.flatten(examples)[0])[0]
        real = tf.minimum(positions, number - 1)
        examples = tf.nest.map_structure(lambda t: tf.gather(t, real), examples)
        return _with_weights(examples, positions < number)

    return batches.map(rows, num_parallel_calls=tf.data.AUTOTUNE)


def _validate_ranks(batch: Any, source: str) -> None:
    for t in tf.nest.flatten(batch):
        if t.shape.rank is None:
            raise UsageError(
                f"A {t.dtype.name} tensor of {source} has an unknown shape; after tf.py_function "
                "or tf.numpy_function say what it is: tf.ensure_shape(t, shape)."
            )


def _validate_rows(batch: Any, rows: int) -> None:
    for t in tf.nest.flatten(batch):
        if t.shape[:1].as_list() not in ([rows], [None]):
            raise UsageError(
                f"create_augment in task/data.py returned an array of shape {tuple(t.shape)} for "
                f"{rows} examples; it must return one row for each: make a second view of an "
                "example another input, such as a dict of two."
            )


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
        if not (weights.dtype.is_floating or weights.dtype.is_integer or weights.dtype.is_bool):
            raise UsageError(f"Weights of create_datasets are {weights.dtype.name}, not numbers.")
        # Not between the brackets, where mypy 2.4 doesn't take a star on Python 3.10.
        further_axes = (..., *[tf.newaxis] * (weights.shape.rank - there.shape.rank))
        return tf.cast(weights, there.dtype) * there[further_axes]

    return (*examples, tf.nest.map_structure(padded, parts[2]))


def _in_floatx(t: tf.Tensor) -> tf.Tensor:
    """Floats in the precision of the weights, so that --precision float64 fits labels too."""
    return tf.cast(t, keras.config.floatx()) if t.dtype.is_floating else t
