"""The order of examples: every epoch a permutation that chance could have made, at any size."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import tensorflow as tf
from proof.engine import batches
from proof.engine.batches import shuffled

pytestmark = pytest.mark.quick

EPOCHS = 2000
WORST = 5.0  # standard deviations; chance exceeds them once in millions of times


def epochs_of(examples: int, seed: int = 7) -> np.ndarray:
    """The rows of the first epochs, (epochs, examples)."""
    places = tf.reshape(tf.range(EPOCHS * examples, dtype=tf.int64), (EPOCHS, examples))
    in_graph = tf.function(lambda places: shuffled(places, examples, seed), autograph=False)
    return in_graph(places).numpy()


def deviations(counts: np.ndarray) -> float:
    """Chi-square of counts that should be equal, in standard deviations from its mean."""
    mean = counts.mean()
    free = counts.size - 1
    return float((((counts - mean) ** 2 / mean).sum() - free) / sqrt(2 * free))


def of_places(orders: np.ndarray) -> float:
    """Whether each row comes as often at each of the first places."""
    rows = orders.shape[1]
    return max(deviations(np.bincount(orders[:, i], minlength=rows)) for i in range(min(rows, 20)))


def of_neighbors(orders: np.ndarray) -> float:
    """Whether each distance between a row and the next one in an epoch is as frequent."""
    rows = orders.shape[1]
    apart = (orders[:, 1:] - orders[:, :-1]) % rows
    return deviations(np.bincount(apart.ravel(), minlength=rows)[1:])


def of_epochs(orders: np.ndarray) -> float:
    """Whether a row comes back to its place in the next epoch as often as by chance."""
    found, wanted = (orders[1:] == orders[:-1]).sum(), float(len(orders) - 1)
    return (found - wanted) / sqrt(wanted)


@pytest.mark.parametrize("examples", [3, 5, 8, 17, 50, 97, 300])
def test_every_epoch_is_a_permutation_as_chance_makes_them(examples: int) -> None:
    orders = epochs_of(examples)
    np.testing.assert_array_equal(np.sort(orders, axis=1), [np.arange(examples)] * EPOCHS)
    assert of_places(orders) < WORST
    assert of_neighbors(orders) < WORST
    assert abs(of_epochs(orders)) < WORST
    if examples > 10:
        assert len({order.tobytes() for order in orders}) == EPOCHS


def test_with_fewer_rounds_the_cipher_would_be_too_weak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "ROUNDS", 4)
    assert of_neighbors(epochs_of(300)) > WORST


def test_the_order_depends_on_the_seed() -> None:
    places = tf.range(3 * 10**6, 3 * 10**6 + 1000, dtype=tf.int64)
    one, two = shuffled(places, 10**6, 1).numpy(), shuffled(places, 10**6, 2).numpy()
    assert len(set(one)) == len(set(two)) == 1000
    assert (one == two).mean() < 0.01


def test_places_of_several_epochs_can_be_asked_for_together() -> None:
    together = epochs_of(5)
    for epoch in (0, 1, 1999):
        alone = shuffled(tf.range(5 * epoch, 5 * epoch + 5, dtype=tf.int64), 5, 7)
        np.testing.assert_array_equal(alone, together[epoch])
