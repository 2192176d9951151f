"""A stream is shuffled by the run's seed and the epoch, whatever the global seed is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.alike import require_same_data, require_same_weights, summary_of
from proof.engine.batches import (
    BatchLayout,
    TrainingBatches,
    evaluation_batches,
    first_examples,
    gives_batches,
    is_endless,
    num_examples,
)
from proof.engine.errors import UsageError
from proof.engine.run_files import SPLITS

from .toys import BATCH, Toy, differences, train


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
    assert not np.array_equal(_order(1)[:2], zero[2:])  # nor that of a later one of another seed


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
    split, of_each = _splits(53), []
    for worker in range(2):
        _as_worker(monkeypatch, worker)
        of_each.append(np.ravel([summary_of({"train": split}.get(name)) for name in SPLITS]))
    workers: Any = SimpleNamespace(alone=False, number=2, gather=lambda mine: np.stack(of_each))
    with pytest.raises(UsageError, match="shards of the training data have 27, 26 examples"):
        require_same_data({"train": split}, workers)


@pytest.mark.quick
@pytest.mark.parametrize("part", [4, 1000])
def test_a_weight_that_differs_is_refused_in_whichever_part(
    monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr("proof.engine.alike.PART", part)
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, name="wide")])
    sums: list[list[float]] = []

    def gather(mine: list[float]) -> np.ndarray:
        sums.append(mine)
        return np.stack([sums[0], mine])

    run: Any = SimpleNamespace(
        models={"main": model}, workers=SimpleNamespace(alone=False, gather=gather)
    )
    require_same_weights(run)
    require_same_weights(run)
    model.layers[0].kernel.assign_add(np.eye(5, 3)[::-1] * 0.1)
    with pytest.raises(UsageError, match=r"wide/kernel of worker 1 isn't that of worker 0"):
        require_same_weights(run)


NUMBERS = tf.data.Dataset.range(50)
BATCHED = {
    "batch": lambda: NUMBERS.batch(8),
    "in parallel": lambda: NUMBERS.batch(8, num_parallel_calls=2).prefetch(2),
    "zip": lambda: tf.data.Dataset.zip((NUMBERS.batch(8), NUMBERS.batch(8))).map(lambda x, y: x),
    "concatenate": lambda: NUMBERS.take(16).batch(8).concatenate(NUMBERS.skip(16).batch(8)),
    "and more": lambda: NUMBERS.batch(8).cache().map(lambda x: x).shuffle(9, seed=1).prefetch(2),
}


@pytest.mark.quick
@pytest.mark.parametrize("make", BATCHED.values(), ids=BATCHED)
def test_batches_as_keras_takes_them_are_taken_apart(make: Any) -> None:
    stream = make()
    assert gives_batches(stream)
    assert num_examples(stream) == 50
    evaluation, steps = evaluation_batches(stream, BatchLayout(24, 2, 0, 2))
    assert steps == 3
    seen = [ids[weights > 0] for ids, weights in evaluation.as_numpy_iterator()]
    assert sorted(np.concatenate(seen)) == list(range(50))
    assert first_examples(stream, 20).shape == (20,)


@pytest.mark.quick
def test_how_many_examples_some_batches_hold_must_be_said() -> None:
    with pytest.raises(UsageError, match=r"add .unbatch\(\) and .apply"):
        num_examples(NUMBERS.batch(8).take(3))
    assert is_endless(NUMBERS.batch(8).repeat())


@pytest.mark.quick
@pytest.mark.parametrize(
    "stream",
    [
        NUMBERS,
        NUMBERS.batch(10, drop_remainder=True),  # maybe sequences
        NUMBERS.map(lambda i: tf.ones(tf.stack([i, 3]))),  # of unknown length, such as pictures
        NUMBERS.batch(8).map(lambda batch: (batch, tf.size(batch))),  # one label for all of them
        NUMBERS.window(4).flat_map(lambda window: window.batch(4)),
        NUMBERS.group_by_window(lambda i: i % 2, lambda _, window: window.take(1), 3),
        np.zeros((4, 2)),
    ],
)
def test_examples_are_not_taken_for_batches(stream: Any) -> None:
    assert not gives_batches(stream)


def test_a_folder_of_images_as_keras_reads_it_trains_as_its_arrays_do(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)
    for number in range(BATCH):
        file = tmp_path / "images" / "ab"[number % 2] / f"{number:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        image = random.integers(0, 256, (4, 4, 1)).astype("uint8")
        tf.io.write_file(str(file), tf.io.encode_png(image))

    def create() -> keras.Model:
        hidden = [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(3)]
        return keras.Sequential([keras.Input((4, 4, 1)), *hidden])

    read = keras.utils.image_dataset_from_directory(
        str(tmp_path / "images"), color_mode="grayscale", image_size=(4, 4), batch_size=5,
        shuffle=False, verbose=False,
    )  # fmt: skip
    arrays = tuple(np.concatenate(part) for part in zip(*read.as_numpy_iterator(), strict=True))
    alone = tf.data.Dataset.from_tensor_slices(arrays)
    one = train(Toy(create, data=alone))
    for replicas in (1, 2):
        trained = train(Toy(create, data=read), replicas)
        assert max(differences(one, trained).values()) < 1e-9
