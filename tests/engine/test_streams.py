"""A stream is shuffled by the run's seed and the epoch, whatever the global seed is."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.batches import BatchLayout, TrainingBatches, evaluation_batches, num_examples
from proof.engine.errors import UsageError


def _order(seed: int) -> np.ndarray:
    batches = TrainingBatches(tf.data.Dataset.range(48), BatchLayout(24, 2, 0, 2), seed=seed)
    return np.array([ids.ravel() for ids, _ in batches.dataset(0, 4).as_numpy_iterator()])


@pytest.mark.quick
def test_a_stream_can_be_shuffled_after_the_default_seed_is_set() -> None:
    keras.utils.set_random_seed(0)  # as create_run does
    zero = _order(0)
    keras.utils.set_random_seed(5)
    np.testing.assert_array_equal(_order(0), zero)
    assert not np.array_equal(_order(1), zero)
    assert not np.array_equal(zero[:2], zero[2:])  # another order in each epoch
    assert sorted(zero[:2].ravel()) == sorted(zero[2:].ravel()) == list(range(48))


def _splits(examples: int) -> Any:
    return lambda workers, index: tf.data.Dataset.range(examples).shard(workers, index)


def _as_worker(monkeypatch: pytest.MonkeyPatch, index: int) -> BatchLayout:
    """One of two workers with two replicas each, and a global batch of 24."""
    task = {"type": "worker", "index": index}
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    return BatchLayout(24, 4, 2 * index, 2)


@pytest.mark.quick
def test_each_worker_reads_its_split_and_together_they_see_every_example_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    epochs = []
    for index in (0, 1):
        layout = _as_worker(monkeypatch, index)
        assert num_examples(_splits(54)) == 54
        training = TrainingBatches(_splits(54), layout, last_batch="pad")
        evaluation, steps = evaluation_batches(_splits(54), layout)
        assert steps == training.steps_per_epoch == 3
        seen = [
            [ids[weights > 0] for ids, weights in batches.as_numpy_iterator()]
            for batches in (training.dataset(0, 6), evaluation)
        ]
        assert all((ids % 2 == index).all() for batches in seen for ids in batches)
        epochs.append([seen[0][:3], seen[0][3:], seen[1]])
        again = training.dataset(4, 6).as_numpy_iterator()
        resumed = [ids[weights > 0] for ids, weights in again]
        assert np.array_equal(np.concatenate(resumed), np.concatenate(seen[0][4:]))
    for splits in zip(*epochs, strict=True):
        ids = np.concatenate([batch for worker in splits for batch in worker])
        assert sorted(ids) == list(range(54))


@pytest.mark.quick
def test_the_splits_of_two_workers_are_augmented_differently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def augment(batch: Any, seed: tf.Tensor) -> Any:
        return tf.random.stateless_uniform(tf.shape(batch[0]), seed), batch[1]

    numbers = set()
    for index in (0, 1):
        layout = _as_worker(monkeypatch, index)
        training = TrainingBatches(_splits(54), layout, augment=augment)
        for batch, _ in training.dataset(0, 2):
            numbers |= set(batch.numpy().ravel())
    assert len(numbers) == 2 * 24


@pytest.mark.quick
def test_splits_that_differ_in_length_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _as_worker(monkeypatch, 0)
    with pytest.raises(UsageError, match=r"have \[27, 26\] examples"):
        num_examples(_splits(53))
