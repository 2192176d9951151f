"""Similar examples, and whether their labels agree."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MOST = 600  # rows of a split
MANY_OF_TABLE, MANY = 20_000, 3_000  # rows of columns; and of others, which are compared in pairs
MOST_NUMBERS = 10_000_000  # of some rows; of large pictures every second pixel, for example
PLACES = 512  # for words and tokens, by their hash
SHUFFLES = 20  # of the labels, to estimate agreement by chance
FEWEST = 20  # rows of a class


class Points(NamedTuple):
    """Some rows of a split.

    Attributes:
        inputs: float (rows, features).
        labels: (rows,), numbers of classes or real numbers.
    """

    inputs: np.ndarray
    labels: np.ndarray


def points(
    examples: dict[str, dict[str, np.ndarray]], name: str = "labels", most: int = MOST
) -> dict[str, Points]:
    """Some rows of each split that has numbers or texts as inputs and one label of that name.

    Columns of tables are scaled as in training data; missing values are replaced by the mean.
    """
    train = examples["train"]
    kinds = "fiuOSU"  # with texts
    names = [n for n, a in train.items() if n.startswith("inputs") and a.dtype.kind in kinds]
    if len(names) > 1:  # category numbers are not measurements
        names = [n for n in names if train[n].dtype.kind not in "iu"]
    found = {}
    for split, arrays in examples.items():
        if any(n not in arrays or arrays[n].shape[1:] != train[n].shape[1:] for n in names):
            continue  # as where an augmentation crops, or picks one of several
        labels = arrays.get(name, np.zeros(0))
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if not names or not len(labels) or labels.ndim != 1 or labels.dtype.kind not in "fiu":
            continue
        rows = np.random.default_rng(0).permutation(len(labels))[:most]
        kept = np.isfinite(np.asarray(labels[rows], "f8"))
        if labels.dtype.kind == "i":
            kept &= labels[rows] >= 0  # as -1 marks examples without a label
        rows = rows[kept]
        parts = [_features(arrays[n][rows], train[n], MOST_NUMBERS // most) for n in names]
        if len(np.unique(labels[rows])) > 1 and len({len(part) for part in parts}) == 1:
            features = np.concatenate(parts, axis=1)
            once = np.sort(np.unique(features, axis=0, return_index=True)[1])  # its own neighbor
            found[split] = Points(features[once], labels[rows][once])
    return found


def agreement(of: Points, among: Points, beyond: float = -np.inf) -> float:
    """How often the nearest other row has the same label: 1 is always, 0 is chance.

    For real numbers the correlation with the label of the nearest row. Rows that are less than
    `beyond` away are left out, a squared distance.
    """
    distances = squared_distances(of.inputs, among.inputs)
    nearest = np.where(distances < beyond, np.inf, distances).argmin(axis=1)
    return _agree(of.labels, among.labels, nearest)


def tells_a_class(of: Points, among: Points) -> bool:
    """Whether rows of some class lie next to that class, as where few others of it are labeled."""
    nearest = among.labels[squared_distances(of.inputs, among.inputs).argmin(axis=1)]
    for label, times in zip(*np.unique(of.labels, return_counts=True), strict=True):
        usual = np.mean(among.labels == label)
        more = np.mean(nearest[of.labels == label] == label) - usual
        by_chance = 4 * np.sqrt(usual * (1 - usual) / times)
        if times >= FEWEST and more > max((1 - usual) / 2, by_chance):
            return True
    return False


def distance(of: Points, among: Points) -> float:
    """The median of the squared distances to the nearest other row."""
    return float(np.median(squared_distances(of.inputs, among.inputs).min(axis=1)))


def squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """From each row of `a` to each of `b`, over features that both have; infinite to itself."""
    has_a, has_b = (np.isfinite(x).astype("f8") for x in (a, b))
    if has_a.all() and has_b.all():
        distances = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    else:
        x, y = np.where(has_a, a, 0), np.where(has_b, b, 0)
        sums = x**2 @ has_b.T + has_a @ (y**2).T - 2 * x @ y.T
        distances = sums * a.shape[1] / np.maximum(has_a @ has_b.T, 1)
    if a is b:
        np.fill_diagonal(distances, np.inf)
    return distances


def tell_nothing(of: Points) -> bool:
    """Whether neither a feature nor the nearest row predicts labels better than shuffled ones.

    Both are compared with chance: the largest dependence of a feature on the label, and how often
    nearest neighbors have the same label.
    """
    x, y = of
    if len(y) < 100 or (y.dtype.kind != "f" and len(np.unique(y)) > len(y) / 3):
        return False
    scaled = (x - x.mean(axis=0)) / np.where(x.std(axis=0) > 0, x.std(axis=0), 1)
    if y.dtype.kind == "f":
        known = ((y - y.mean()) / y.std())[:, np.newaxis]
    else:
        known = (y[:, np.newaxis] == np.unique(y)).astype("f8")
        known = (known - known.mean(axis=0)) / np.sqrt(np.maximum(known.mean(axis=0), 1e-9))
    numbers = np.random.default_rng(0)

    def says_more(told: Callable[[np.ndarray], float]) -> bool:
        by_chance = [told(numbers.permutation(len(y))) for _ in range(SHUFFLES)]
        return told(np.arange(len(y))) > float(np.mean(by_chance) + 4 * np.std(by_chance))

    if says_more(lambda order: float(np.square(scaled.T @ known[order]).sum(axis=1).max())):
        return False
    if len(y) > MANY:
        return True
    nearest = squared_distances(x, x).argmin(axis=1)
    return not says_more(lambda order: _agree(y[order], y[order], nearest))


def many_rows_tell(train: dict[str, np.ndarray]) -> bool:
    """Whether `tell_nothing` doesn't hold for more training rows, as where a signal is weak."""
    are_columns = all(a.ndim <= 2 for n, a in train.items() if n.startswith("inputs"))
    known = points({"train": train}, most=MANY_OF_TABLE if are_columns else MANY)
    return not tell_nothing(known["train"])


def _features(array: np.ndarray, train: np.ndarray, most: int) -> np.ndarray:
    """Rows as float (rows, features); for texts and tokens, how often each occurs."""
    if array.dtype.kind in "OSU":
        return _counted([_words(row) for row in array.reshape(len(array), -1).tolist()])
    if not _are_tokens(train):
        return _scaled(array, train, most)
    counted = _counted([[b"%d" % number for number in row] for row in array.tolist()])
    # Positions may predict the label too, but say little about which rows are near.
    return np.concatenate([counted, 1e-3 * _scaled(array, train, most)], axis=1)


def _scaled(array: np.ndarray, train: np.ndarray, most: int) -> np.ndarray:
    """Rows of so many numbers; columns of a table as multiples of their spread in training data."""
    step = 1 + int(np.prod(train.shape[1:])) // most
    known = train[: MOST if train.ndim > 2 else 10 * MOST]
    flat, some = (x.reshape(len(x), -1)[:, ::step].astype("f8") for x in (array, known))
    some = np.ma.masked_invalid(some)
    mean = some.mean(axis=0).filled(0)
    flat = np.where(np.isfinite(flat), flat, mean)
    if train.ndim > 2:  # pixels have one unit
        return flat
    spread = some.std(axis=0).filled(0)
    return (flat - mean) / np.where(spread > 0, spread, 1)


def _words(texts: list[Any]) -> list[bytes]:
    """The words of a row."""
    return b" ".join(t if isinstance(t, bytes) else str(t).encode() for t in texts).split()


def _are_tokens(array: np.ndarray) -> bool:
    """Whether all columns share one vocabulary, of which each row has only some numbers."""
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] < 4:
        return False
    known = [set(column.tolist()) for column in array[: 10 * MOST].T[[0, 1]]]
    most = array[: 10 * MOST].max(axis=0)
    return len(known[0] & known[1]) > 10 and most.min() > most.max() / 2


def _counted(rows: list[list[bytes]]) -> np.ndarray:
    """How often each word occurs, (rows, PLACES), normalized to vectors of length 1."""
    counts = np.zeros((len(rows), PLACES))
    for row, words in enumerate(rows):
        for word in words:
            counts[row, zlib.crc32(word) % PLACES] += 1
    return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)


def _agree(labels: np.ndarray, others: np.ndarray, nearest: np.ndarray) -> float:
    if labels.dtype.kind == "f":
        spread = labels.std() * others[nearest].std()
        return float(np.corrcoef(labels, others[nearest])[0, 1]) if spread else 0.0
    classes = np.unique(np.concatenate([labels, others]))
    chance = float(sum(np.mean(labels == c) * np.mean(others == c) for c in classes))
    return (float(np.mean(labels == others[nearest])) - chance) / max(1e-9, 1 - chance)
