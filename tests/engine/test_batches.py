"""Which examples a step sees depends on the seed and the step only; evaluation sees each once."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import tensorflow as tf
from proof.engine.batches import (
    BatchLayout,
    LastBatch,
    Split,
    TrainingBatches,
    evaluation_batches,
)
from proof.engine.errors import UsageError
from proof.engine.random_access import RandomAccess

pytestmark = pytest.mark.quick


EXAMPLES, BATCH = 29, 12
ARRAYS = np.arange(EXAMPLES)
STREAM = tf.data.Dataset.range(EXAMPLES)
KINDS: dict[str, Split] = {
    "arrays": ARRAYS,
    "stream": STREAM,
    "rows": RandomAccess(range(EXAMPLES)),
    "loaded rows": RandomAccess(ARRAYS + 1, lambda number: number - 1),
}

of_each_kind = pytest.mark.parametrize("split", KINDS.values(), ids=KINDS)


def layout(replicas: int) -> BatchLayout:
    return BatchLayout(BATCH, replicas, 0, replicas)


def examples(batches: tf.data.Dataset) -> list[list[int]]:
    """The real examples of each batch."""
    return [ids[weights > 0].tolist() for ids, weights in batches.as_numpy_iterator()]


def training(
    split: Split, first: int, last: int, last_batch: LastBatch, replicas: int = 1
) -> list[list[int]]:
    """The examples of steps `first` to `last` - 1."""
    batches = TrainingBatches(split, layout(replicas), seed=1, last_batch=last_batch)
    return examples(batches.dataset(first, last))


@of_each_kind
@pytest.mark.parametrize("last_batch", ["drop", "span", "pad"])
def test_a_run_sees_the_same_examples_wherever_it_was_interrupted(
    split: Split, last_batch: LastBatch
) -> None:
    whole = training(split, 0, 9, last_batch)
    for step in range(9):
        assert training(split, step, 9, last_batch) == whole[step:]


@of_each_kind
def test_the_order_does_not_depend_on_the_number_of_replicas(split: Split) -> None:
    assert training(split, 0, 5, "pad", 4) == training(split, 0, 5, "pad", 1)


@of_each_kind
def test_a_short_last_batch_is_dropped_padded_or_filled_from_the_next_epoch(split: Split) -> None:
    dropped, padded = training(split, 0, 4, "drop"), training(split, 0, 6, "pad")
    assert [len(batch) for batch in dropped] == [12, 12, 12, 12]
    assert [len(batch) for batch in padded] == [12, 12, 5, 12, 12, 5]
    assert sorted(chain(*padded[:3])) == ARRAYS.tolist()
    assert padded[:3] != padded[3:]  # another order in every epoch
    spanning = list(chain(*training(split, 0, 29, "span")))
    assert sorted(spanning[:EXAMPLES]) == ARRAYS.tolist()
    assert np.bincount(spanning).tolist() == [BATCH] * EXAMPLES


@of_each_kind
@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
def test_evaluation_sees_every_example_once(split: Split, replicas: int) -> None:
    batches, steps = evaluation_batches(split, layout(replicas))
    seen = examples(batches)
    assert len(seen) == steps
    assert list(chain(*seen)) == ARRAYS.tolist()


@pytest.mark.parametrize("stream", [False, True])
def test_padding_zeroes_the_weights_of_every_output(stream: bool) -> None:
    weights = {"plain": np.full(EXAMPLES, 2.0), "tokens": np.full((EXAMPLES, 3), 3.0)}
    split: Split = (ARRAYS, ARRAYS, weights)
    if stream:
        split = tf.data.Dataset.from_tensor_slices(split)
    batches, _ = evaluation_batches(split, layout(2))
    *_, (_, _, last) = batches.as_numpy_iterator()
    present = np.arange(BATCH) < EXAMPLES % BATCH
    assert last["plain"].reshape(-1).tolist() == np.where(present, 2.0, 0.0).tolist()
    np.testing.assert_array_equal(
        last["tokens"].reshape(-1, 3), np.where(present[:, np.newaxis], 3.0, 0.0).repeat(3, axis=1)
    )


@pytest.mark.parametrize(
    "split",
    [(ARRAYS,), {"id": ARRAYS}, tf.data.Dataset.from_tensor_slices((ARRAYS,)), lambda n, i: STREAM],
    ids=["tuple", "dict", "stream of tuples", "function"],
)
def test_inputs_without_labels_come_in_any_form(split: Split) -> None:
    batches, _ = evaluation_batches(split, layout(2))
    inputs, weights = next(iter(batches))
    assert np.ravel(tf.nest.flatten(inputs)[0]).tolist() == ARRAYS[:BATCH].tolist()
    assert weights.shape == (2, BATCH // 2)


@pytest.mark.quick
def test_a_batch_of_nearly_nothing_but_padding_is_refused() -> None:
    rows = np.zeros(8)
    TrainingBatches(rows, BatchLayout(800, 1, 0, 1), last_batch="pad")
    with pytest.raises(UsageError, match=r"of 801 is more than 100 times the 8 training examples"):
        TrainingBatches(rows, BatchLayout(801, 1, 0, 1), last_batch="pad")
