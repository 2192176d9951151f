"""Which examples a step sees depends on the seed and the step only; evaluation sees each once."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import tensorflow as tf

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.batches import (
    LastBatch,
    Layout,
    Split,
    evaluation_batches,
    number_of_examples,
    training_batches,
)
from {{ cookiecutter.package_name }}.engine.errors import UsageError
from {{ cookiecutter.package_name }}.run import create_run, global_batch_size
from {{ cookiecutter.package_name }}.task.config import TaskConfig
from {{ cookiecutter.package_name }}.task.data import create_datasets

EXAMPLES, BATCH = 29, 12
ARRAYS = np.arange(EXAMPLES)
STREAM = tf.data.Dataset.range(EXAMPLES)


def layout(replicas: int) -> Layout:
    return Layout(BATCH, replicas, 0, replicas)


def examples(batches: tf.data.Dataset) -> list[list[int]]:
    """The real examples of each batch."""
    return [ids[weights > 0].tolist() for ids, weights in batches.as_numpy_iterator()]


def training(
    split: Split, first: int, last: int, last_batch: LastBatch, replicas: int = 1
) -> list[list[int]]:
    """The examples of steps `first` to `last` - 1."""
    return examples(
        training_batches(
            split,
            layout(replicas),
            seed=1,
            first_step=first,
            last_step=last,
            last_batch=last_batch,
        )
    )


@pytest.mark.parametrize("split", [ARRAYS, STREAM], ids=["arrays", "stream"])
@pytest.mark.parametrize("last_batch", ["drop", "span", "pad"])
def test_a_run_sees_the_same_examples_wherever_it_was_interrupted(
    split: Split, last_batch: LastBatch
) -> None:
    whole = training(split, 0, 9, last_batch)
    for step in range(9):
        assert training(split, step, 9, last_batch) == whole[step:]


@pytest.mark.parametrize("split", [ARRAYS, STREAM], ids=["arrays", "stream"])
def test_the_order_does_not_depend_on_the_number_of_replicas(split: Split) -> None:
    assert training(split, 0, 5, "pad", 4) == training(split, 0, 5, "pad", 1)


@pytest.mark.parametrize("split", [ARRAYS, STREAM], ids=["arrays", "stream"])
def test_last_batches(split: Split) -> None:
    dropped, padded = training(split, 0, 4, "drop"), training(split, 0, 6, "pad")
    assert [len(batch) for batch in dropped] == [12, 12, 12, 12]
    assert [len(batch) for batch in padded] == [12, 12, 5, 12, 12, 5]
    assert sorted(chain(*padded[:3])) == ARRAYS.tolist()
    assert padded[:3] != padded[3:]  # another order in every epoch
    spanning = list(chain(*training(split, 0, 29, "span")))
    assert sorted(spanning[:EXAMPLES]) == ARRAYS.tolist()
    assert np.bincount(spanning).tolist() == [BATCH] * EXAMPLES


@pytest.mark.parametrize("split", [ARRAYS, STREAM], ids=["arrays", "stream"])
@pytest.mark.parametrize("replicas", [1, 2, 3, 4])
def test_evaluation_sees_every_example_once(split: Split, replicas: int) -> None:
    batches, steps = evaluation_batches(split, layout(replicas))
    seen = examples(batches)
    assert len(seen) == steps
    assert list(chain(*seen)) == ARRAYS.tolist()


def test_a_short_validation_batch_counts_every_example_once() -> None:
    datasets = create_datasets(TaskConfig())
    split = datasets.get("validation", datasets["train"])
    strategy = tf.distribute.MirroredStrategy(
        ["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice()
    )
    run, distribution = create_run(strategy, datasets, Config(), TaskConfig())
    batches, steps = evaluation_batches(split, distribution.layout)
    sums = (tf.zeros((), tf.int64), tf.zeros(len(run.optimizers), tf.float64))
    count, _ = distribution.distributed_validation_step(iter(batches), steps, sums)
    real = sum(int(run.task.count(tf.nest.map_structure(_rows, b))) for b in batches)
    assert int(count) == real
    assert number_of_examples(split) % distribution.layout.global_batch_size, "no short batch"


def _rows(shares: tf.Tensor) -> tf.Tensor:
    return tf.reshape(shares, [-1, *shares.shape[2:]])


def test_a_batch_that_the_replicas_cannot_share_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="use 96 or 100"):
        global_batch_size(Config(global_batch_size=97), 4)
    with pytest.raises(UsageError, match="use 96 or 104"):
        global_batch_size(Config(global_batch_size=97, accumulate=2), 4)
