"""Pictures and maps of the same example, and whether they lie the same way round."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from .findings import Finding, look, wrong
from .numbers import ORIENTATIONS

FEWEST, MOST = 20, 100  # examples that are compared
MOST_NUMBERS = 4_000_000  # of an array
MOST_ARRAYS = 8
MIRRORED = ("mirrored", "upside down", "turned by 180 degrees")
CELLS = 8  # to each side, to which maps are reduced, whatever their size
MOST_LAYERS = 4  # of a map
MOST_CLASSES = 100
SAMPLED = 100_000  # numbers, to see which classes there are
ALIKE, EQUAL = 0.5, 0.95  # correlations
SMOOTH = 0.1


class Map(NamedTuple):
    """An array of pictures or maps.

    Attributes:
        shape: (height, width).
        cells: (rows, cells, cells, layers), for each row and layer of mean 0 and norm 1, or 0.
        is_picture: whether it has channels, and neighbors are alike, unlike those in a matrix.
        has_classes: whether it consists of few whole numbers, or of two numbers.
    """

    shape: tuple[int, ...]
    cells: np.ndarray
    is_picture: bool
    has_classes: bool


def turned(examples: dict[str, dict[str, np.ndarray]]) -> Iterator[Finding]:
    """Findings for maps of the same example that fit only if one is turned or transposed."""
    for split, arrays in examples.items():
        yield from _turned_classes(split, arrays)
        yield from _turned_pairs(split, arrays)


def _turned_classes(split: str, arrays: dict[str, np.ndarray]) -> Iterator[Finding]:
    """A finding if classes of pixels say more of the pixels of their images when turned."""
    images, maps = arrays.get("inputs", np.zeros(0)), arrays.get("labels", np.zeros(0))
    maps = maps[..., 0] if maps.ndim == 4 and maps.shape[-1] == 1 else maps
    if images.ndim != 4 or maps.dtype.kind not in "iub" or images.shape[:3] != maps.shape:
        return
    x, y = images[:MOST].mean(axis=3, dtype="f8"), maps[:MOST]
    if len(y) < FEWEST or len(np.unique(y)) > MOST_CLASSES:
        return
    told = {how: _told_by_maps(x, turn(y)) for how, turn in _kept(y.shape)}
    how, as_they_are = max(told, key=lambda n: told[n].mean()), told["unchanged"]
    more, share = told[how] - as_they_are, told[how].mean()
    is_sure = more.mean() > 5 * more.std() / np.sqrt(len(more))
    if is_sure and share > max(0.1, 2 * as_they_are.mean()):
        yield (wrong if _map_of(images[:MOST]).is_picture else look)(
            f"labels of {split} data explain {share:.0%} of what differs between the pixels "
            f"of an image if they are {how}, and {as_they_are.mean():.0%} as they are",
            "maps and images are stored in another order of their axes, or only one was flipped",
            "load both in the same way, and look at some in samples.png",
        )


def _told_by_maps(images: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """The share of the variance of each image (n, h, w) between the classes of its map: (n,)."""
    images = images - images.mean(axis=(1, 2), keepdims=True)
    between = np.zeros(len(images))
    for one in np.unique(maps):
        there = maps == one
        size = np.maximum(1, there.sum(axis=(1, 2)))
        between += np.square((images * there).sum(axis=(1, 2))) / size
    return np.asarray(between / np.maximum(np.square(images).sum(axis=(1, 2)), 1e-12))


def _kept(shape: tuple[int, ...]) -> list[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    """The orientations that keep a shape (rows, height, width)."""
    maps = np.broadcast_to(0, shape)
    return [(how, turn) for how, turn in ORIENTATIONS.items() if turn(maps).shape == shape]


def _turned_pairs(split: str, arrays: dict[str, np.ndarray]) -> Iterator[Finding]:
    """Findings for two arrays whose cells are alike only if those of one are turned."""
    named = [
        (name, array) for name, array in arrays.items()
        if array.dtype.kind in "fiub" and array.ndim in (3, 4) and array.size
        and len(array) >= FEWEST and min(array.shape[1:3]) >= CELLS
    ][:MOST_ARRAYS]  # fmt: skip
    if len({len(array) for _, array in named}) != 1:
        return
    number, size = len(named[0][1]), max(array[0].size for _, array in named)
    some = min(number, max(FEWEST, min(MOST, MOST_NUMBERS // size)))
    rows = np.linspace(0, number - 1, some).astype(int)
    maps = [(name, _map_of(array[rows])) for name, array in named]
    are_views = sum(name.startswith("inputs") for name, _ in maps) > 1  # such as left and right
    for (name, a), (other, b) in itertools.combinations(maps, 2):
        (height, width), (of_height, of_width) = a.shape, b.shape
        if height * of_width != width * of_height:
            continue
        turns = _kept((1, height, width))
        fits = {how: _correlations(a.cells, turn(b.cells)) for how, turn in turns}
        means = {how: abs(float(each.mean())) for how, each in fits.items()}
        how = max(means, key=means.__getitem__)
        by_chance = float(fits[how].std() / np.sqrt(len(fits[how])))
        if means[how] < max(ALIKE, 2 * means["unchanged"], 5 * by_chance):
            continue
        parts = [each.partition("[")[0] for each in (name, other)]
        # A turned picture may be what is to be predicted.
        may_be = means[how] > EQUAL or (parts == ["inputs", "labels"] and not b.has_classes)
        # Masks of the left and of the right of two organs are mirror images.
        may_be |= parts == ["labels", "labels"] and how in MIRRORED
        is_sure = (a.is_picture or b.is_picture) and ("weights" in parts or not may_be)
        yield (wrong if is_sure and not are_views else look)(
            f"{name} of {split} data are like {other} of the same examples if these are {how} "
            f"(correlation {means[how]:.2f}), not as they are ({means['unchanged']:.2f})",
            "one is stored in another order of its axes, as [column, row], or was flipped alone",
            "make both as [row, column], and look at some in samples.png",
        )


def _map_of(array: np.ndarray) -> Map:
    numbers = np.nan_to_num(array.astype("f8"), posinf=0, neginf=0)
    layers = numbers.reshape(*array.shape[:3], -1) / max(np.abs(numbers).max(), 1e-30)
    values, times = np.unique(layers.ravel()[:: 1 + layers.size // SAMPLED], return_counts=True)
    are_classes = array.dtype.kind in "iub" and len(values) <= MOST_CLASSES
    if are_classes and layers.shape[-1] == 1:
        layers = (layers == values[times.argsort()[-MOST_LAYERS:]]).astype("f8")
    cells = _means_along(1, _means_along(2, layers))
    cells = np.concatenate([cells, np.linalg.norm(cells, axis=3, keepdims=True)], axis=3)
    cells -= cells.mean(axis=0)  # what all examples have in common may be turned or not
    varied = cells[..., :-1].var(axis=(0, 1, 2)).argsort()[-MOST_LAYERS:]
    cells = cells[..., [*varied, -1]]
    cells -= cells.mean(axis=(1, 2), keepdims=True)
    norms = np.linalg.norm(cells, axis=(1, 2), keepdims=True)
    cells /= np.where(norms > 1e-4, norms, np.inf)
    return Map(
        shape=array.shape[1:3],
        cells=cells,
        is_picture=array.ndim == 4 and _is_smooth(cells),
        has_classes=are_classes or len(values) == 2,
    )


def _means_along(axis: int, x: np.ndarray) -> np.ndarray:
    """The means of about equally many places of each cell along an axis."""
    edges = np.linspace(0, x.shape[axis], CELLS + 1).round().astype(int)
    sums = np.add.reduceat(x, edges[:-1], axis=axis)
    return np.asarray(sums / np.expand_dims(np.diff(edges), (*range(1, x.ndim - axis),)))


def _correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Those of the examples, of the two layers that are most alike in them."""
    pairs = np.einsum("nhwa,nhwb->nab", a, b).reshape(len(a), -1)
    number = np.count_nonzero(pairs, axis=0)
    means = np.abs(pairs.sum(axis=0)) / np.maximum(FEWEST, number)
    best = pairs[:, means.argmax()]
    return best[best != 0] if means.any() else np.zeros(1)


def _is_smooth(cells: np.ndarray) -> bool:
    """Whether cells are more like the next ones than like those further away, on both axes."""

    def alike(axis: int, by: int) -> float:
        x = cells.swapaxes(1, axis)
        return float((x[:, by:] * x[:, :-by]).mean() / max(np.square(x).mean(), 1e-12))

    return all(alike(axis, 1) - alike(axis, CELLS // 2) > SMOOTH for axis in (1, 2))
