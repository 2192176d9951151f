"""Comparing numbers and arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Numbers = dict[str, float]

IGNORED = (-1, -100, 255)  # usual marks of labels that don't count
FEW = 10  # distinct labels, which are then classes
LEAST_SIZE = 32  # numbers of a matrix that can be recognized
SHORT = 256  # bytes
MOST_COMPARED = 4_000_000  # numbers of an array, in all splits together
TOLERANCE = 1e-4  # float32, relative to the norm: rounding is about 1e-6, faults about 1e-2
# What can happen to images or maps (n, height, width, ...) whose axes are exchanged or reversed.
ORIENTATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "unchanged": lambda x: x,
    "mirrored": lambda x: x[:, :, ::-1],
    "upside down": lambda x: x[:, ::-1],
    "turned by 90 degrees": lambda x: np.rot90(x, 1, (1, 2)),
    "turned by 180 degrees": lambda x: np.rot90(x, 2, (1, 2)),
    "turned by 270 degrees": lambda x: np.rot90(x, 3, (1, 2)),
    "transposed": lambda x: x.swapaxes(1, 2),
    "transposed and turned by 180 degrees": lambda x: np.rot90(x.swapaxes(1, 2), 2, (1, 2)),
}


def relative_difference(a: Any, b: Any) -> float:
    """Norm of the difference of two nests of arrays over the norm of the first."""
    difference = norm = 0.0
    # One by one: all weights of a large model in float64 are too much.
    for pair in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        x, y = (np.asarray(each, "f8") for each in pair)
        difference += np.sum(np.square(x - y))
        norm += np.sum(np.square(x))
    difference, norm = np.sqrt(difference), np.sqrt(norm)
    return float(difference / norm if norm else difference)


def close(a: float, b: float, tolerance: float = TOLERANCE) -> bool:
    """Whether two numbers are equal except for rounding; NaN is equal to NaN."""
    return bool(np.isclose(a, b, rtol=tolerance, atol=1e-6, equal_nan=True))


def told_apart(a: float, b: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ."""
    digits = next((n for n in (4, 5, 6) if f"{a:.{n}g}" != f"{b:.{n}g}"), 8)
    return f"{a:.{digits}g}", f"{b:.{digits}g}"


def different(a: Numbers, b: Numbers, tolerance: float = TOLERANCE) -> list[str]:
    """The names of the numbers that differ."""
    return [name for name in a if not close(a[name], b[name], tolerance)]


def named_leaves(split: Any) -> Iterator[tuple[str, Any]]:
    """The arrays of a split by name: inputs, labels, weights, and their keys."""
    parts = split if isinstance(split, tuple) else (split,)
    for name, part in zip(("inputs", "labels", "weights"), parts, strict=False):
        leaves = tf.nest.flatten(part)
        if len(leaves) == 1:
            yield name, leaves[0]
            continue
        keys = sorted(part) if isinstance(part, dict) else range(len(leaves))
        for key, leaf in zip(keys, leaves, strict=False):
            yield f"{name}[{key!r}]", leaf


def only(part: Any) -> Any:
    """The only array of a part of a batch; None if there are several, or none."""
    leaves = tf.nest.flatten(part)
    return leaves[0] if len(leaves) == 1 else None


def matrices_differ(own: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether a variable with several axes has another value in a copy, as of another seed."""
    pairs = zip(own, others, strict=False)
    return any(len(v.shape) > 1 and not np.array_equal(v.numpy(), w.numpy()) for v, w in pairs)


def arrays_of(
    split: dict[str, np.ndarray], part: str, kinds: str = "f", axes: tuple[int, ...] = ()
) -> dict[str, np.ndarray]:
    """Its inputs, labels or weights of these kinds of numbers, and with so many axes, or any."""
    return {n: a for n, a in split.items() if n.startswith(part)
            if a.dtype.kind in kinds and (a.ndim in axes or not axes)}  # fmt: skip


def equal_parts(batch: Any) -> Iterator[tuple[str, str, tf.Tensor]]:
    """The names of two parts of a batch that are the same real numbers, and these numbers."""
    parts = [(name, t) for name, t in named_leaves(batch) if t.dtype.is_floating]
    for (name, x), (other, y) in itertools.combinations(parts, 2):
        if equal(x, y):
            yield name, other, x


def with_array(batch: Any, name: str, array: tf.Tensor) -> Any:
    """A batch with another array in place of the one with that name."""
    names, leaves = [each for each, _ in named_leaves(batch)], tf.nest.flatten(batch)
    leaves[names.index(name)] = array
    return tf.nest.pack_sequence_as(batch, leaves)


class Answers(NamedTuple):
    """Artificial predictions, in the shape and scale of a model's predictions."""

    right: np.ndarray
    guess: np.ndarray
    doubtful: np.ndarray  # wrong, but not confident
    wrong: np.ndarray


def answers(labels: Any, predictions: Any) -> Answers | None:
    """Right predictions, guesses, and wrong ones less and more confident: logits or probabilities.

    None if labels are neither class numbers nor 0 and 1. A mark of missing labels is no class, and
    is predicted as the first class.
    """
    y, p = np.asarray(labels), np.asarray(predictions)
    if y.dtype.kind not in "fiub" or p.dtype.kind != "f" or not p.ndim or not p.size:
        return None
    is_class = np.isin(y, range(p.shape[-1]))
    marks = np.unique(y[~is_class])
    are_classes = not len(marks) or (len(marks) == 1 and is_class.any() and y.dtype.kind in "iu")
    if y.shape == p.shape[:-1] and p.shape[-1] > 1 and are_classes:
        right = np.eye(p.shape[-1])[np.where(is_class, y, 0).astype(int)]
    elif y.size == p.size and np.isin(y, (0, 1)).all():
        right = y.astype("f8").reshape(p.shape)
    else:
        return None
    is_one_of_several = p.shape[-1] > 1 and np.all(right.sum(axis=-1) == 1)
    other = np.roll(right, 1, axis=-1) if is_one_of_several else 1 - right
    guess = np.full(p.shape, 1 / p.shape[-1] if is_one_of_several else 0.5)
    made = [right, guess, (guess + other) / 2, other]
    if p.min() < 0 or p.max() > 1:  # logits
        made = [right * 20 - 10, guess * 20 - 10, other * 2 - 1, other * 20 - 10]
    else:
        made = [np.clip(each, 1e-4, 1 - 1e-4) for each in made]
    return Answers(*(each.astype(p.dtype) for each in made))


def are_one_apart(windows: np.ndarray) -> bool:
    """Whether each of some windows (rows, positions, ...) begins one position after the previous.

    The first ten rows are compared; missing values (NaN) must be missing in both.
    """
    return np.array_equal(windows[1:10, :-1], windows[:9, 1:], equal_nan=True)


def bytes_of(array: np.ndarray) -> bytes:
    """The numbers or texts of an array; an array of objects itself contains addresses."""
    return (np.array(array.tolist()) if array.dtype == object else array).tobytes()


def rows_of(arrays: list[np.ndarray], most: int | None = None) -> list[bytes]:
    """The contents of some arrays with as many rows, for each row or for the first ones."""
    rows = range(len(arrays[0]) if arrays else 0)[:most]
    return [b"".join(bytes_of(array[i]) for array in arrays) for i in rows]


def hashes_of(arrays: list[np.ndarray]) -> np.ndarray:
    """A number for each row of some arrays with as many rows, uint64 (rows,)."""
    hashes = np.zeros(len(arrays[0]) if arrays else 0, "u8")
    for array in arrays if len(hashes) else ():
        table = np.ascontiguousarray(array).reshape(len(array), -1)
        if table.dtype.kind not in "biuf" or table[0].nbytes > SHORT:
            numbers = np.fromiter((hash(bytes_of(row)) for row in table), "i8", len(table))
            columns = numbers.view("u8")[np.newaxis]
        else:  # there may be millions of rows
            columns = np.pad(table.view("u1"), ((0, 0), (0, -table[0].nbytes % 4))).view("u4").T
        for column in columns:
            hashes = (hashes ^ column) * np.uint64(0x9E3779B97F4A7C15)
            hashes ^= hashes >> np.uint64(32)
    return hashes


def of_next_row(part: Any) -> Any:
    """A part of a batch, a nest of (1, rows, ...), where each row is that of another example."""
    return tf.nest.map_structure(lambda t: tf.roll(t, 1, axis=1), part)


def percent(part: int, whole: int) -> str:
    """A percentage, rounded up if it would be 0."""
    return f"{max(1, round(100 * part / max(1, whole)))}%"


def equal(a: Any, b: Any) -> bool:
    """Whether two nests of tensors have the same numbers, or both NaN."""
    one, other = tf.nest.flatten(a), tf.nest.flatten(b)
    return len(one) == len(other) and all(
        np.array_equal(x, y, equal_nan=x.dtype.is_floating) for x, y in zip(one, other, strict=True)
    )


def numbers_of(arguments: tuple[Any, ...], *, or_bytes: bool = False) -> np.ndarray | None:
    """The only input of a model as one array of numbers; None if it is something else.

    Bytes of images (1, rows, height, width, ...) count as numbers if `or_bytes`.
    """
    flat = tf.nest.flatten(arguments[:1])
    dtype = getattr(flat[0], "dtype", tf.string) if len(flat) == 1 else tf.string
    are_bytes = or_bytes and dtype == tf.uint8 and flat[0].shape.rank > 3
    if not (dtype.is_floating or are_bytes):
        return None
    if tf.is_symbolic_tensor(flat[0]):  # of a graph inside the step, as in tf.vectorized_map
        return None
    return np.asarray(flat[0], "f8")
