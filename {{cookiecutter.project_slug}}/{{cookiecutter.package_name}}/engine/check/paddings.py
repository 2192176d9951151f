"""Padding that a mask or lengths among the inputs leave out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from .numbers import named_leaves, with_array


def mask_in(batch: Any, name: str) -> np.ndarray:
    """What may be a mask, (rows, positions, ...), without a last axis of 1."""
    numbers = np.asarray(dict(named_leaves(batch))[name][0])
    return numbers[..., 0] if numbers.ndim > 2 and numbers.shape[-1] == 1 else numbers


def paddings(batch: Any) -> list[tuple[str, str, Any]]:
    """Masks and lengths, what they leave out, and the batch with other numbers there.

    A batch is a nest of (1, rows, ...). The end of each row is padding if it is the same number
    everywhere and rows end at different positions: otherwise it may be the target.
    """
    found, inputs = [], dict(named_leaves(batch[:1]))
    for mask_name, (name, array) in itertools.product(inputs, inputs.items()):
        x = np.asarray(array[0])
        if name == mask_name or x.dtype.kind not in "iuf":
            continue
        for keep in _kept(mask_in(batch, mask_name), x):
            if np.ptp(x[~keep]) == 0 < np.ptp(x[keep]):
                changed = x.copy()
                changed[~keep] = np.resize(x[keep], changed[~keep].shape)
                other = with_array(batch, name, tf.constant(changed[np.newaxis]))
                found.append((mask_name, name, other))
    return found


def _kept(numbers: np.ndarray, x: np.ndarray) -> Iterator[np.ndarray]:
    """Which positions of `x` are no padding, bool, if `numbers` say so in one of two ways.

    As zeros and ones (rows, positions), also of several axes, as (rows, height, width); or as the
    length of each row, (rows,), where `x` holds vectors or tokens: columns of a table have no end.
    """
    if numbers.ndim >= 2 and numbers.size > len(numbers):
        if not np.isin(numbers, (0, 1)).all() or x.shape[: numbers.ndim] != numbers.shape:
            return
        for keep in (numbers == 1, numbers == 0):  # a mask may say what is padding
            begins_again = any(np.any(np.diff(keep.astype(int), axis=axis) > 0)
                               for axis in range(1, keep.ndim))  # fmt: skip
            if np.ptp(np.sum(keep.reshape(len(keep), -1), axis=1)) and not begins_again:
                yield keep
    elif numbers.dtype.kind in "iu" and len(x) == len(numbers) and (
        x.ndim >= 3 or (x.ndim == 2 and x.dtype.kind in "iu")
    ):  # fmt: skip
        lengths = numbers.reshape(-1)
        if np.ptp(lengths) and lengths.min() >= 1 and lengths.max() <= x.shape[1]:
            yield np.arange(x.shape[1]) < lengths[:, np.newaxis]
