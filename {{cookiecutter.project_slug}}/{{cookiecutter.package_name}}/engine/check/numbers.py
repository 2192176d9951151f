"""Comparing numbers and arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

Numbers = dict[str, float]

TOLERANCE = 1e-4  # float32, relative to the norm: rounding is 1e-6, the faults looked for 1e-2


def relative_difference(a: Any, b: Any) -> float:
    """Norm of the difference of two nests of arrays over the norm of the first."""
    pairs = list(zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True))
    difference = sum(
        float(np.sum(np.square(np.asarray(x, "f8") - np.asarray(y, "f8")))) for x, y in pairs
    )
    norm = sum(float(np.sum(np.square(np.asarray(x, "f8")))) for x, _ in pairs)
    return float(np.sqrt(difference / norm)) if norm else float(np.sqrt(difference))


def close(a: float, b: float, tolerance: float = TOLERANCE) -> bool:
    """Whether two numbers are equal but for rounding; NaN is equal to NaN."""
    return bool(np.isclose(a, b, rtol=tolerance, atol=1e-6, equal_nan=True))


def different(a: Numbers, b: Numbers, tolerance: float = TOLERANCE) -> list[str]:
    """The names of the numbers that differ."""
    return [name for name in a if not close(a[name], b[name], tolerance)]


def named_leaves(split: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a split with their names: inputs, labels, weights, and keys below these."""
    parts = split if isinstance(split, tuple) else (split,)
    for name, part in zip(("inputs", "labels", "weights"), parts, strict=False):
        leaves = tf.nest.flatten(part)
        if len(leaves) == 1:
            yield name, leaves[0]
            continue
        keys = sorted(part) if isinstance(part, dict) else range(len(leaves))
        for key, leaf in zip(keys, leaves, strict=False):
            yield f"{name}[{key!r}]", leaf


def bytes_of(array: np.ndarray) -> bytes:
    """The numbers or texts of an array; an array of objects itself holds addresses."""
    return (np.array(array.tolist()) if array.dtype == object else array).tobytes()


def percent(part: int, whole: int) -> str:
    """A share, rounded up where it would be 0."""
    return f"{max(1, round(100 * part / max(1, whole)))}%"


def equal(a: Any, b: Any) -> bool:
    """Whether two nests of tensors hold the same numbers, or both NaN."""
    pairs = zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True)
    return all(np.array_equal(x, y, equal_nan=x.dtype.is_floating) for x, y in pairs)


def numbers_of(arguments: tuple[Any, ...]) -> np.ndarray | None:
    """The only input of a model as one array of numbers; None if it is something else."""
    flat = tf.nest.flatten(arguments[:1])
    if len(flat) != 1 or not getattr(flat[0], "dtype", tf.string).is_floating:
        return None
    return np.asarray(flat[0], "f8")
