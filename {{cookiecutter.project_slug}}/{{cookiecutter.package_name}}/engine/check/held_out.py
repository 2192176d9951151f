"""Labels of held-out examples, by a model that was trained for some steps."""

from __future__ import annotations

import itertools
import time
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from .findings import Finding, look, wrong
from .laboratory import Laboratory
from .numbers import named_leaves, with_array

EXAMPLES = 64  # that are evaluated, or as many as a batch has
FEWEST = 20
ORDERS = 12  # random ones of the labels
CLEAR = 4  # standard deviations
MOST_LABELS = 4  # of an example
MOST_SECS = 3.0  # for all these orders


class Fit(NamedTuple):
    """How much better labels fit than those of other examples.

    Attributes:
        gain: by how much the loss is smaller.
        share: the same, relative to the loss with labels of others.
        deviations: the same, in standard deviations of that loss.
    """

    gain: float
    share: float
    deviations: float


class Labels:
    """The labels of one name for some examples of a split.

    Attributes:
        batch: these examples; None if the validation step can't take them.
        rows: their places in the split.
        number: of examples in the split.
    """

    def __init__(self, lab: Laboratory, split: str, name: str) -> None:
        """Choose examples from the whole split, because it may be sorted."""
        self.lab, self.name, self.arrays = lab, name, lab.examples[split]
        self.number = len(self.arrays.get(name, ()))
        most = min(self.number, max(lab.rows, EXAMPLES))
        self.rows = np.linspace(0, self.number - 1, most).astype(int)
        self.batch = self._batch() if most >= FEWEST else None

    def _batch(self) -> Any:
        made = []
        for name, leaf in named_leaves(self.lab.evaluation_batch):
            array = self.arrays.get(name)
            if array is None and name == "weights":
                array = np.ones(self.number)
            if array is None or len(array) != self.number or array.shape[1:] != leaf.shape[2:]:
                return None
            made.append(tf.constant(array[self.rows][np.newaxis], leaf.dtype))
        return tf.nest.pack_sequence_as(self.lab.evaluation_batch, made)

    def loss(self, rows: np.ndarray) -> float:
        """The loss of the validation step with the labels of these rows of the split."""
        batch = self.batch
        # If an example has one label, its weight tells whether it is missing, for example.
        for name in (self.name, *["weights"] * (self.name == "labels")):
            if name in self.arrays:
                dtype = dict(named_leaves(batch))[name].dtype
                array = tf.constant(self.arrays[name][rows][np.newaxis], dtype)
                batch = with_array(batch, name, array)
        losses = self.lab.validate(batch)
        return sum(losses[name] for name in self.lab.run.optimizers)

    @cached_property
    def losses_of_others(self) -> list[float]:
        """The losses with labels of other examples; few if evaluations take long."""
        numbers, started, found = np.random.default_rng(0), time.perf_counter(), list[float]()
        while len(found) < ORDERS and time.perf_counter() - started < MOST_SECS:
            found.append(self.loss(numbers.permutation(self.rows)))
        return found

    def fit(self, rows: np.ndarray) -> Fit | None:
        """How well the labels of these rows fit; None if that can't be told."""
        loss, of_others = self.loss(rows), self.losses_of_others
        others, deviation = float(np.mean(of_others)), float(np.std(of_others))
        is_known = np.isfinite([loss, *of_others]).all() and len(of_others) == ORDERS
        if not is_known or not deviation > 1e-6 * abs(others):
            return None
        gain = others - loss
        return Fit(gain, gain / abs(others), gain / deviation)


def misplaced(lab: Laboratory) -> Finding | None:
    """Whether labels of training examples fit after some training, but not those of a split."""
    if not lab.evaluated_splits or len(lab.run.optimizers) > 1:
        return None
    names = [name for name in lab.examples["train"] if name.startswith("labels")][:MOST_LABELS]
    with lab.trained_on_fresh():
        pairs = itertools.product(lab.evaluated_splits, names)
        return next(filter(None, (_misplaced(lab, *pair) for pair in pairs)), None)


def _misplaced(lab: Laboratory, split: str, name: str) -> Finding | None:
    labels, of_training = (Labels(lab, each, name) for each in (split, "train"))
    if labels.batch is None or of_training.batch is None:
        return None
    own = labels.fit(labels.rows)
    if own is None or own.deviations > 2:
        return None
    trained = of_training.fit(of_training.rows)
    if trained is None or trained.deviations < CLEAR or trained.share < 0.05:
        return None
    seen = (
        f"after some steps, {name} of training examples fit better than those of other examples "
        f"(the loss is {trained.share:.0%} smaller), but those of {split} data don't "
        f"({own.share:.0%})"
    )
    number, rows = labels.number, labels.rows
    orders = {
        "in reverse order": number - 1 - rows,
        "of the next row": (rows + 1) % number,
        "of the previous row": (rows - 1) % number,
    }
    for order, others in orders.items():
        fit = labels.fit(others)
        if fit and fit.deviations > CLEAR and fit.gain > 0.3 * trained.gain:
            return wrong(
                f"{seen}; {order} they do ({fit.share:.0%})",
                f"labels of {split} data were reordered, shifted or cut without their inputs",
                "prepare every split with the same code",
            )
    if trained.share > 0.2 and own.gain < 0.25 * trained.gain:
        return look(
            seen,
            f"labels of {split} data were shuffled without their inputs, these examples are of "
            "another kind, or the model learns by heart",
            "compare some of them by eye",
        )
    return None
