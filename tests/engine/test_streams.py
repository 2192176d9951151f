"""A stream is shuffled by the run's seed and the epoch, whatever the global seed is."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.batches import Layout, training_batches


def _order(seed: int, **knobs: Any) -> np.ndarray:
    stream = tf.data.Dataset.range(48)
    data = training_batches(
        stream, Layout(24, 2, 0, 2), seed=seed, first_step=0, last_step=4, **knobs
    )
    return np.array([ids.ravel() for ids, _ in data.as_numpy_iterator()])


@pytest.mark.quick
def test_a_stream_can_be_shuffled_after_the_default_seed_is_set() -> None:
    keras.utils.set_random_seed(0)  # as create_run does
    zero = _order(0)
    keras.utils.set_random_seed(5)
    np.testing.assert_array_equal(_order(0), zero)
    assert not np.array_equal(_order(1), zero)
    assert not np.array_equal(zero[:2], zero[2:])  # another order in each epoch
    assert sorted(zero[:2].ravel()) == sorted(zero[2:].ravel()) == list(range(48))
