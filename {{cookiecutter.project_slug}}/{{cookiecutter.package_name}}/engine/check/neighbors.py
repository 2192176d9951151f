"""Examples that are alike: whether their labels are, and whether they stand in two splits."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .numbers import bytes_of

MOST = 600  # rows of a split
MOST_TRAINING, MOST_OTHERS = 5_000, 300  # rows whose distances are taken
MOST_FEATURES = 1_000  # about, of each array
MANY = 0.2  # of the rows of a split
SAME = 1e-8  # the squared distance of rows that are equal, at most


class Points(NamedTuple):
    """Some rows of a split.

    Attributes:
        inputs: float (rows, features).
        labels: (rows,), numbers of classes or real numbers.
    """

    inputs: np.ndarray
    labels: np.ndarray


def points(arrays: dict[str, np.ndarray]) -> Points | None:
    """Some rows with one numeric input and one label each; None if the split has others."""
    names = [n for n in arrays if not n.startswith("weights")]
    if names != ["inputs", "labels"] or arrays["inputs"].dtype.kind not in "fiu":
        return None
    inputs, labels = arrays["inputs"], arrays["labels"]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "fiu" or len(np.unique(labels)) < 2:
        return None
    rows = np.random.default_rng(0).permutation(len(labels))[:MOST]
    flat = np.asarray(inputs[rows], "f8").reshape(len(rows), -1)
    kept = np.isfinite(flat).all(axis=1) & np.isfinite(np.asarray(labels[rows], "f8"))
    if labels.dtype.kind == "i":
        kept &= labels[rows] >= 0  # as -1 marks examples without a label
    return Points(flat[kept], labels[rows][kept])


def agreement(of: Points, among: Points) -> float:
    """How often the nearest other row has the same label: 1 always, 0 as by chance.

    For real numbers the correlation with the label of the nearest row.
    """
    squares = (of.inputs**2).sum(1)[:, None] + (among.inputs**2).sum(1)[None]
    distances = squares - 2 * of.inputs @ among.inputs.T
    if of is among:
        np.fill_diagonal(distances, np.inf)
    nearest = among.labels[distances.argmin(axis=1)]
    if of.labels.dtype.kind == "f":
        spread = of.labels.std() * nearest.std()
        return float(np.corrcoef(of.labels, nearest)[0, 1]) if spread else 0.0
    classes = np.unique(np.concatenate([of.labels, among.labels]))
    shares = [np.mean(of.labels == c) * np.mean(among.labels == c) for c in classes]
    chance = float(np.sum(shares))
    return (float(np.mean(of.labels == nearest)) - chance) / max(1e-9, 1 - chance)


def windows_shared(train: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> float:
    """The share of another split's windows over a series that training windows hold; 0 if few."""
    for name, array in train.items():
        other = others.get(name)
        is_series = array.dtype.kind == "f" and array.ndim in (2, 3) and array.shape[1] > 3
        if not name.startswith("inputs") or not is_series or other is None or len(other) < 10:
            continue
        if other.shape[1:] != array.shape[1:] or len(other) < 4 * array.shape[1]:
            continue
        at = [{bytes_of(x) for x in array[:MOST_TRAINING, t]} for t in range(2)]
        rows = min(len(array), MOST_TRAINING)
        if len(at[0]) < rows / 2 or len(at[0] & at[1]) < rows / 2:
            continue  # no series, or windows that don't overlap
        known = {bytes_of(x) for x in array.reshape(-1, *array.shape[2:])}
        seen = [bytes_of(x) in known for x in other[:MOST_TRAINING].reshape(-1, *other.shape[2:])]
        if np.mean(seen) > 0.5:
            return float(np.mean(seen))
    return 0.0


def near_copies(train: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> float:
    """The share of another split's examples that have a near copy in training; 0 if few.

    Numbers of the same kind lie at distances that grow steadily: the tenth nearest is about as much
    farther than the nearest as the hundredth than the tenth, on a line as in many dimensions.
    """
    names = [n for n, x in train.items() if n.startswith("inputs") and x.dtype.kind == "f"]
    names = [n for n in names if n in others and others[n].dtype.kind == "f"]
    if not names or any(train[n].shape[1:] != others[n].shape[1:] for n in names):
        return 0.0
    a, b = (_table([split[n] for n in names], most)
            for split, most in ((train, MOST_TRAINING), (others, MOST_OTHERS)))  # fmt: skip
    if len(a) < 200 or len(b) < 30:
        return 0.0
    spread = np.ma.masked_invalid(a).std(axis=0).filled(0)
    if np.count_nonzero(spread) < 3:
        return 0.0
    if any(train[n].ndim > 2 for n in names):  # positions have one unit, columns have many
        spread = np.where(spread > 0, spread.max(), 0)
    a, b = (x[:, spread > 0] / spread[spread > 0] for x in (a, b))
    squares = _squared_distances(b, a)
    near = [_are_near(squares) & (squares.min(axis=1) > SAME)]
    if len(names) == 1:
        images = train[names[0]][:MOST_TRAINING], others[names[0]][:MOST_OTHERS]
        near += [_are_near(_squared_distances(y, x)) for x, y in _moved(*images)]
    share = float(np.mean(np.any(near, axis=0)))
    return share if share > MANY else 0.0


def _are_near(squares: np.ndarray) -> np.ndarray:
    """Whether each row is much nearer to a few of others, by squared distances, than to all."""
    nearest = np.sqrt(np.maximum(np.partition(squares, (0, 9, 99), axis=1)[:, [0, 9, 99]], 1e-9))
    first, tenth, hundredth = np.log(nearest).T
    return (tenth - first > 3 * (hundredth - tenth)) & (tenth - first > 1.0)


def _moved(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """What small images of `a` share with those of `b` moved by a pixel or two, or turned."""
    height, width = (*a.shape[1:], 0, 0)[:2]
    if a.ndim not in (3, 4) or min(height, width) < 7 or max(height, width) > 32:
        return
    size = a.std()
    for down, right in itertools.product((-2, -1, 0, 1, 2), repeat=2):
        edge = max(abs(down), abs(right))
        if edge == 1 or (edge and not down * right):  # one step any way, two along an axis
            inner = a[:, edge : height - edge, edge : width - edge]
            y, x = edge + down, edge + right
            moved = b[:, y : y + height - 2 * edge, x : x + width - 2 * edge]
            yield _table([inner / size], len(a)), _table([moved / size], len(b))
    for turned in (b[:, ::-1], b[:, :, ::-1]):
        yield _table([a / size], len(a)), _table([turned / size], len(b))


def _table(arrays: list[np.ndarray], rows: int) -> np.ndarray:
    """Some features of the first rows, float64 (rows, features)."""
    parts = [array[:rows].reshape(min(rows, len(array)), -1) for array in arrays]
    parts = [part[:, :: 1 + part.shape[1] // MOST_FEATURES].astype("f8") for part in parts]
    return np.concatenate(parts, axis=1) if parts else np.zeros((0, 0))


def _squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each row of `a` to each of `b`, over the features that both have."""
    has_a, has_b = (np.isfinite(x) for x in (a, b))
    if has_a.all() and has_b.all():
        return (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    a, b = np.where(has_a, a, 0), np.where(has_b, b, 0)
    has_a, has_b = has_a.astype("f8"), has_b.astype("f8")
    sums = a**2 @ has_b.T + has_a @ (b**2).T - 2 * a @ b.T
    return sums * a.shape[1] / np.maximum(has_a @ has_b.T, 1)
