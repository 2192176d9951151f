"""The relation of what `adapt` returns, such as the statistics of a normalization."""

from __future__ import annotations

import contextlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..batches import first_examples
from ..random_access import RandomAccess, has_rows
from ..types import Run
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import different, named_leaves, numbers_of
from .paddings import paddings

ADAPTED = 128  # rows that represent another split
FEW_VALUES = 5  # of a column: it may be a class, or hardly ever be known
BEYOND = 3  # deviations: by Chebyshev's inequality, at most a ninth of all numbers are further
SQUEEZED, AWAY = 0.1, 0.5  # deviations


@relation("adapt")
def adapts_to_training_data(lab: Laboratory) -> Finding:
    """What `adapt` returns depends on the training data only, and fits what is scaled with it."""
    return (
        _adapts_to(lab)
        or _counts_padding(lab)
        or _divides_by_variance(lab)
        or _scales_other_numbers(lab)
        or ok()
    )


def _adapts_to(lab: Laboratory) -> Finding | None:
    """Whether `adapt` depends on a split other than training.

    That is sure if a train step depends on it: the scale of a metric may well come from its split.
    """
    made = lab.run.adapted
    if not any(array.dtype.kind == "f" or array.size > 8 for array in made.values()):
        return None
    train = lab.datasets["train"]
    for split in [n for n in lab.datasets if n != "train"]:
        with contextlib.suppress(Exception):
            if isinstance(train, tf.data.Dataset | RandomAccess):
                some = lab.first_rows(train, ADAPTED)
            else:
                some = first_examples(train, ADAPTED)
            other = lab.other({split: some})
            for name, array in made.items():
                is_real = array.dtype.kind == "f"
                if np.array_equal(array, other.adapted[name], equal_nan=is_real):
                    continue
                are_statistics = array.dtype.kind in "fb" or "weight" in name
                return (wrong if are_statistics and _trains_otherwise(lab, other) else look)(
                    f"{name!r}, which adapt returns, changes with the {split} data",
                    "data leakage between splits: statistics, or a choice, depend on what the "
                    "model is validated or tested on",
                    'use only datasets["train"]',
                )
    return None


def _counts_padding(lab: Laboratory) -> Finding | None:
    """Whether statistics change with the numbers in the padding of the training data."""
    made = [name for name, array in lab.run.adapted.items() if array.dtype.kind == "f"]
    if not made or not paddings(lab.plain_batches[0]):
        return None
    with contextlib.suppress(Exception):  # `adapt` may need an object of the task's own
        train = lab.datasets["train"]
        some = tf.nest.map_structure(
            lambda array: tf.constant(array)[tf.newaxis], first_examples(train, ADAPTED)
        )
        own = _adapted_to(lab, some)
        measured = {name for name, array in named_leaves(some) if array.dtype.is_floating}
        for mask, name, padded in paddings(some):
            if name not in measured:  # the number of padding is counted apart from those of words
                continue
            other = _adapted_to(lab, padded)
            for each in made:
                if not np.allclose(own[each], other[each], 1e-4, 0, equal_nan=True):
                    return wrong(
                        f"{each!r}, which adapt returns, changes with the numbers in the padding "
                        f"of {name}, which {mask} leaves out",
                        "statistics count padding as if it had been measured",
                        "compute them from what the mask or the length leaves in",
                    )
    return None


def _adapted_to(lab: Laboratory, batch: Any) -> dict[str, np.ndarray]:
    """What `adapt` returns if a batch, a nest of (1, rows, ...), is the training data."""
    rows, train = tf.nest.map_structure(lambda t: t[0], batch), lab.datasets["train"]
    if isinstance(train, tf.data.Dataset):
        return lab.other({"train": tf.data.Dataset.from_tensor_slices(rows)}).adapted
    arrays = tf.nest.map_structure(lambda t: t.numpy(), rows)
    is_read = isinstance(train, RandomAccess) or has_rows(train)
    return lab.other({"train": RandomAccess(arrays) if is_read else arrays}).adapted


def _trains_otherwise(lab: Laboratory, other: Run) -> bool:
    """Whether the train steps of another run give other losses for the first batch."""
    try:
        losses = [
            [lab.compute(step, run, lab.batch) for step in run.functions.train_steps]
            for run in (lab.run, other)
        ]
    except Exception:  # a step may need its graph
        return True
    return any(different(a, b, 1e-6) for a, b in zip(*losses, strict=True))


def _divides_by_variance(lab: Laboratory) -> Finding | None:
    """Whether the variance of a Normalization is a standard deviation."""
    layers = [x for x in lab.run.layers
              if isinstance(x, keras.layers.Normalization) and not x.invert]  # fmt: skip
    if not layers:
        return None
    for call in lab.calls(lab.run.functions.train_steps[0], lab.run, lab.batch, layers):
        given, variance = numbers_of(call.arguments), np.ravel(call.of.variance)
        if given is None or len(variance) < 2 or given.shape[-1] != len(variance):
            continue
        here = np.ma.masked_invalid(given.reshape(-1, len(variance))).var(axis=0).filled(0)
        here, variance = (x[(here > 0) & (variance > 0)] for x in (here, variance))
        by_variance, by_deviation = (np.abs(np.log(variance / x)) for x in (here, np.sqrt(here)))
        # Columns on one scale, such as colors, may be scaled to another size on purpose.
        if len(here) > 2 and np.ptp(np.log(here)) > 3 and (
            np.mean((by_deviation < 0.3) & (by_variance > 1)) > 0.6
        ):  # fmt: skip
            return wrong(
                f"the variance of the layer {str(call.of.name)!r} is the standard deviation of "
                "its inputs",
                "Normalization divides by the square root of its variance",
                "pass the variance",
            )
    return None


def _scales_other_numbers(lab: Laboratory) -> Finding | None:
    """Whether statistics are used for other numbers than those that `adapt` computed them from."""
    made = {n: np.ravel(a) for n, a in lab.run.adapted.items() if a.dtype.kind == "f"}
    for scaled, center, deviation in lab.base.scaled if made else ():
        of_center, of_deviation = (
            next((name for name, array in made.items() if _stem_from(each, array)), "")
            for each in (center, deviation)
        )
        if not (of_center and of_deviation):
            continue
        # One number is the statistic of all columns, which may be on levels of their own.
        columns = scaled.T if center.size > 1 else scaled.reshape(1, -1)
        for column, x in enumerate(columns):
            if not (np.ravel(center)[column % center.size] and _is_elsewhere(x)):
                continue
            place = f"column {column}" if len(columns) > 1 else "numbers"
            is_in_order = isinstance(lab.datasets["train"], tf.data.Dataset)  # as of time
            return (look if is_in_order else wrong)(
                f"{place} from which {of_center!r} of adapt is subtracted, divided by "
                f"{of_deviation!r}, have a mean of {x.mean():.3g} and a standard deviation of "
                f"{x.std():.2g}, not about 0 and 1",
                "adapt computes the statistics of other numbers than those that are scaled with "
                "them, such as those before a logarithm",
                "compute them from the very numbers that the model scales",
            )
    return None


def _stem_from(numbers: np.ndarray, array: np.ndarray) -> bool:
    """Whether all numbers are in an array, or are roots of these."""
    roots = np.sqrt(np.maximum(array, 0))
    return bool(
        all(np.isclose(n, array, 1e-5, 0).any() or np.isclose(n, roots, 1e-5, 0).any()
            for n in numbers.flat)
    )  # fmt: skip


def _is_elsewhere(x: np.ndarray) -> bool:
    """Whether scaled numbers are so far from 0 that they aren't those of the statistics.

    Numbers between 0 and 1 may be scaled by their range.
    """
    if not np.isfinite(x).all():
        return False
    values, times = np.unique(x, return_counts=True)
    if len(values) < FEW_VALUES or times.max() > len(x) / 2:
        return False
    low, high = np.quantile(x, (0.01, 0.99))
    is_far = low > BEYOND or high < -BEYOND
    is_squeezed = x.std() < SQUEEZED and abs(x.mean()) > AWAY and not 0 <= x.mean() <= 1
    return bool(is_far or is_squeezed)
