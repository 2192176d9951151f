"""Relations between examples: none is in two splits, or in two folds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import tensorflow as tf

from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .neighbors import squared_distances
from .numbers import arrays_of, hashes_of, percent, rows_of

MOST_TRAINING, MOST_OTHERS = 5_000, 300  # rows whose distances are computed
MOST_PIXELS = 50_000_000  # times the width of a part, in which parts of images are searched for
MOST_FEATURES = 1_000  # about, of each array
MOST_ROWS = 20_000  # that are compared with each other
MANY = 0.2  # of the rows of a split
MOST_SHADES = 20_000_000  # of parts of images, that are counted
SHADES = 32  # in a part of an image that hardly occurs twice by chance
MANY_VALUES = 20  # of a column
MOST_REAL = 1_000  # rows, in which the values of columns are counted
BY_CHANCE = 1e-3  # pairs of rows that are alike by chance
FEW_TIMES = 20  # that a part occurs in images that were cut or composed from the same picture
LONG_RUN = 32  # positions
FEW_COPIED = 10  # different examples
MANY_NUMBERS = 16  # of a row, which make it unique
MOST_PLACES = 16  # in windows, where runs of positions are searched for
BASES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)  # of the hashes of parts, along each axis
MOST_COLUMNS, MANY_CLASSES = 100, 5
FOLDS = ("fold", "fold_index")  # flags of a task
NONE = np.zeros(0, "u8")  # the hashes of no examples
SAME = 1e-8  # the squared distance of rows that are equal, at most
LEAKAGE = "data leakage between splits"


@relation("rows in two splits")
def rows_in_two_splits(lab: Laboratory) -> Finding:
    """No validation or test example is a training example (data leakage between splits)."""
    examples, splits = lab.examples["train"], ("validation", "test")
    for split in splits:
        if found := _parts_shared(examples, lab.examples.get(split, {}), split):
            return found
    train = lab.hashes.get("train", NONE)
    # Several parts for the augmentation to choose from are one example.
    number = len(next(iter(examples.values()), ()))
    wholes = hashes_of([train.reshape(number, -1)]) if number else train
    natural, classes = _repeated_by_nature(lab, wholes), _repeated_classes(examples, wholes)
    known = np.unique(train)
    shared = [_examples_shared(lab, split, known, natural, classes) for split in splits]
    found = min((each for each in shared if each), key=lambda each: each.verdict, default=None)
    if found and found.verdict == "WRONG":
        return found
    for split in splits:
        if name := _shared_alone(examples, lab.examples.get(split, {})):
            return (wrong if name == "inputs" else look)(
                f"{name} of most {split} examples are {name} of training examples too",
                f"{LEAKAGE}: only other parts of these examples differ, for example because noise "
                "was added or pairs were formed afterwards",
                "split the data first, then prepare each split",
            )
    if found:
        return found
    if folds := _folds_shared(lab):
        name, split, share = folds
        return wrong(
            f"{share:.0%} of the {split} examples of --{name} 1 are {split} examples of --{name} "
            "0 too",
            "each fold splits the data anew, so examples are in several folds or in none",
            "permute the data with the same seed for all folds",
        )
    test = lab.hashes.get("test", NONE)
    same = int(np.isin(test, lab.hashes.get("validation", NONE)).sum())
    if len(test) and same / len(test) > max(MANY, 3 * natural):
        return wrong(
            f"{percent(same, len(test))} of the test examples are validation examples too",
            f"{LEAKAGE}: weights are selected on the data that they are tested on",
            "split the data first, then prepare each split",
        )
    for split in splits:
        if groups := _groups_shared(examples, lab.examples.get(split, {})):
            name, number, share = groups
            return look(
                f"{name} has one value for each of {number} groups of training examples, and "
                f"{share:.0%} of the {split} examples belong to one of these groups",
                f"{LEAKAGE}: several examples of one person, machine or place were divided at "
                "random",
                "split by group, unless the model is for groups that it knows",
            )
    return ok()


def _parts_shared(
    train: dict[str, np.ndarray], others: dict[str, np.ndarray], split: str
) -> Finding | None:
    """Whether another split and training data have windows, pieces or copies in common."""
    if share := _windows_shared(train, others):
        return wrong(
            f"training examples are windows of a series, and {share:.0%} of what {split} windows "
            "contain is in training windows too",
            f"{LEAKAGE}: windows that overlap were split at random",
            "divide the series by time, then cut each part into windows",
        )
    if pieces := _pieces_shared(train, others):
        share, often, pixels = pieces
        return (wrong if often < FEW_TIMES / 4 else look)(
            f"{share:.0%} of the {split} images have parts of {pixels} x {pixels} pixels that "
            "occur elsewhere in some training images",
            f"{LEAKAGE}: they are crops of the same pictures, or composed of the same pieces",
            "divide the pictures or pieces first, then crop or compose each split from its own",
        )
    if share := _reordered(train, others):
        return wrong(
            f"{share:.0%} of the {split} examples have the same values as training examples, in "
            "another order",
            f"{LEAKAGE}: they are copies that were flipped, turned, rolled or otherwise reordered",
            "split the data first, then make copies of training examples only",
        )
    if share := _near_copies(train, others):
        labels = train.get("labels", np.zeros(0))
        # Few examples of a class, such as the faces of one person, are similar.
        are_few = labels.dtype.kind in "iu" and labels.size < 20 * len(np.unique(labels))
        are_few &= labels.ndim == 1
        is_sure = share > 0.5 and not are_few and not _are_measured_later(train, others)
        return (wrong if is_sure else look)(
            f"{share:.0%} of the {split} examples are much nearer to some of the training "
            "examples than to all others",
            f"{LEAKAGE}: they are noisy copies of one original, or parts of one recording",
            "split by group, so that what belongs together stays together, before making copies",
        )
    return None


def _groups_shared(
    train: dict[str, np.ndarray], others: dict[str, np.ndarray]
) -> tuple[str, int, float] | None:
    """A column of real numbers that tell groups apart, how many, and the share of known ones.

    Another column must be the same within each group, without following from the first one. If the
    number of the group is an input too, the model is for groups that it knows.
    """
    columns = {n: pair for n, *pair in _columns_of_both(train, others)}
    for name, (a, b) in columns.items():
        values, first, group, sizes = np.unique(
            a, return_index=True, return_inverse=True, return_counts=True
        )
        is_whole = not np.any(a % 1)
        if is_whole or not MANY_VALUES < len(values) < len(a) / 1.5 or sizes.max() > len(a) / 10:
            continue
        known = np.isin(b, values).mean()
        of_groups = [x[first] for n, (x, _) in columns.items()
                     if n != name and np.array_equal(x, x[first][group])]  # fmt: skip
        has_number = any(not np.any(x % 1) and len(np.unique(x)) == len(x) for x in of_groups)
        if known > 0.5 and not has_number and any(_is_apart(values, x) for x in of_groups):
            return name, len(values), float(known)
    return None


def _is_apart(values: np.ndarray, others: np.ndarray) -> bool:
    """Whether numbers of groups don't follow from other ones, sorted, as logarithms or sines do."""
    ranks = np.argsort(np.argsort(others, kind="stable"))
    follows = abs(np.corrcoef(np.arange(len(values)), ranks)[0, 1]) > 0.9
    is_told = len(np.unique(others)) >= MANY_CLASSES
    return bool(is_told and not follows and not _on_a_circle(values, others))


def _columns_of_both(
    train: dict[str, np.ndarray], others: dict[str, np.ndarray]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The columns of numbers of the inputs of two splits, without missing values."""
    for name, array in arrays_of(train, "inputs", "fiu").items():
        x, y = array[:MOST_ROWS], others.get(name, np.zeros(0))[:MOST_ROWS]
        is_table = x.ndim <= 2 and x[:1].size <= MOST_COLUMNS
        if not is_table or x.shape[1:] != y.shape[1:] or not (x.size and y.size):
            continue
        tables = [each.reshape(len(each), -1).astype("f8") for each in (x, y)]
        for i, (a, b) in enumerate(zip(*(table.T for table in tables), strict=True)):
            if np.isfinite(a).all() and np.ptp(a):
                yield f"column {i} of {name}" if x.ndim > 1 else name, a, b


def _on_a_circle(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two columns are sine and cosine of one angle, such as a time of day."""
    a, b = (2 * (x - x.min()) / np.ptp(x) - 1 for x in (a, b))
    return bool(np.std(a**2 + b**2) < 0.1)


def _folds_shared(lab: Laboratory) -> tuple[str, str, float] | None:
    """The flag that selects a fold, and a split of which two folds share some, and how much."""
    name = next((f.name for f in fields(lab.task) if f.name in FOLDS), "")
    if not name or lab.made_again.takes_long:
        return None
    folds = []
    try:
        for number in (0, 1):
            is_own = getattr(lab.task, name) == number
            other = replace(lab.task, **{name: number})
            made = lab.datasets if is_own else lab.create_datasets(other)
            folds.append({n: _hashes_of_rows(s) for n, s in made.items() if s is not None})
    except Exception:  # folds may start at 1, or not be numbers
        return None
    times = Counter(itertools.chain(*folds[0].values()))
    for split in ("test", "validation"):  # folds may differ in one of them only
        some, others = (fold.get(split, []) for fold in folds)
        if others and set(some) != set(others):
            known = {row for row in some if times[row] == 1}  # others are duplicates in the data
            share = float(np.mean([row in known for row in others]))
            return (name, split, share) if share > MANY / 4 and not _follow(some, others) else None
    return None


def _follow(some: list[int], others: list[int]) -> bool:
    """Whether a split ends with what another one begins with, as windows of time may."""
    for a, b in ((some, others), (others, some)):
        at = a.index(b[0]) if b[0] in a else len(a)
        if 0 < at < len(a) and a[at:] == b[: len(a) - at]:
            return True
    return False


def _hashes_of_rows(split: Any) -> list[int]:
    """A number for each example of a split of arrays in memory; nothing for others."""
    arrays = tf.nest.flatten(split[:2] if isinstance(split, tuple) else split)
    if not all(type(array) is np.ndarray and len(array) == len(arrays[0]) for array in arrays):
        return []
    return hashes_of(arrays).tolist()


def _repeated_by_nature(lab: Laboratory, wholes: np.ndarray) -> float:
    """The fraction of training examples that are duplicates in the data itself."""
    _, times = np.unique(wholes, return_counts=True)
    # Except for several passes through all of it.
    natural = 1 - len(times) * min(times, default=1) / max(1, len(wholes))
    weights = np.ravel(lab.examples["train"].get("weights", np.zeros(0)))
    counts = weights[weights > 0] / np.min(weights[weights > 0], initial=np.inf)
    others = [lab.hashes.get(split, NONE) for split in ("validation", "test")]
    if not natural and any(len(np.unique(found)) < len(found) for found in others) and (
        len(counts) and np.allclose(counts, np.round(counts), atol=1e-3)
    ):  # fmt: skip
        # Equal training rows may have been merged, with their number as the weight.
        natural = 1 - len(counts) / counts.sum()
    return natural


def _examples_shared(
    lab: Laboratory, split: str, known: np.ndarray, natural: float, classes: list[float]
) -> Finding | None:
    """Whether examples of another split are `known`, beyond the duplicates of the data itself.

    Training examples of these `classes` are repeated, and hardly any others.
    """
    found = lab.hashes.get(split, NONE)
    is_known = np.isin(found, known)
    twice = int(is_known.sum())
    if not twice or len(known) == 1:  # as where steps draw the examples, of which data says nothing
        return None
    seen = f"{percent(twice, len(found))} of the {split} examples are training examples too"
    if twice / len(found) > max(MANY, 3 * natural):
        return wrong(
            seen,
            "the splits overlap (data leakage), so results are too good",
            "split the data first, then prepare each split",
        )
    labels = np.ravel(lab.examples[split].get("labels", np.zeros(0)))
    there = np.isin(labels, classes)
    # Training examples may be repeated after the split, and some be the same by chance.
    if len(labels) == len(found) and there.any() and (
        is_known[there].mean() > 0.5
    ):  # fmt: skip
        names = ", ".join(f"{c:g}" for c in classes)
        return wrong(
            f"{seen}; in training, those of label {names} repeat, and of other labels hardly any",
            f"{LEAKAGE}: rare or hard ones were repeated (oversampled) before the split",
            "split the data first, then repeat training examples, or give them weights",
        )
    is_copied = twice / len(found) > MANY and _never_come_again(lab.examples["train"])
    if twice / len(found) > max(0.02, 2 * natural) or is_copied:
        return look(seen, "the splits overlap, or the data itself contains duplicates")
    return None


def _repeated_classes(train: dict[str, np.ndarray], wholes: np.ndarray) -> list[float]:
    """The labels whose examples mostly repeat, if no others do; or an empty list."""
    labels = np.ravel(train.get("labels", np.zeros(0)))
    classes = np.unique(labels).tolist()
    are_classes = labels.dtype.kind in "fiu" and len(classes) <= MANY_VALUES
    if not are_classes or len(labels) != len(wholes):
        return []
    _, same, times = np.unique(wholes, return_inverse=True, return_counts=True)
    several = times[same] > 1
    shares = {c: float(np.mean(several[labels == c])) for c in classes}
    found = [c for c, share in shares.items() if share > 0.6]
    copied = np.unique(wholes[np.isin(labels, found)])
    if len(copied) < FEW_COPIED or any(0.05 < share < 0.6 for share in shares.values()):
        return []  # such as empty examples, which are all the same
    return found if len(found) < len(shares) else []


def _never_come_again(train: dict[str, np.ndarray]) -> bool:
    """Whether rows of a table, with numbers as labels, can repeat only if they were copied."""
    columns = [*arrays_of(train, "inputs").values(), train.get("labels", np.zeros(0, int))]
    if len(columns) < 2 or columns[-1].dtype.kind != "f" or any(x.ndim > 2 for x in columns[:-1]):
        return False
    table = np.unique(_table(columns, MOST_OTHERS), axis=0)
    by_chance = 0.5 * len(table) ** 2  # pairs; and by each column fewer of these that are alike
    for column in table.T:
        _, counts = np.unique(column, return_counts=True)
        if len(counts) > MANY_VALUES:  # others may follow from each other
            by_chance *= float(np.sum((counts / len(column)) ** 2))
    return by_chance < BY_CHANCE


def _shared_alone(train: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> str:
    """The inputs or the labels if these rows, of many numbers each, are mostly training rows.

    One of several inputs may repeat, such as who rates something; and weights may select the part
    of an example that each split uses.
    """
    if any(name.startswith("weights") for name in (*train, *others)):
        return ""
    for part, kinds in (("inputs", "fiu"), ("labels", "f")):
        names = [n for n in train if n.startswith(part) and n in others]
        arrays = [train[n] for n in names]
        if any(x.dtype.kind not in kinds for x in arrays) or (part == "labels" and len(names) > 1):
            continue
        if sum(x[:1].size for x in arrays) < MANY_NUMBERS or len(others[names[0]]) < 10:
            continue
        if part == "inputs" and _asks_for_others(others):
            continue
        known = {*rows_of(arrays, MOST_ROWS)}
        found = rows_of([others[n][:MOST_ROWS] for n in names])
        # An array that many examples share, such as a graph, says nothing.
        if len(set(found)) > 0.95 * len(found) and np.mean([f in known for f in found]) > 0.5:
            return part
    return ""


def _asks_for_others(split: dict[str, np.ndarray]) -> bool:
    """Whether labels have the shape of the only input, and are 0 where that isn't.

    For example what else a known user has, in a recommender.
    """
    labels = split.get("labels", np.zeros(0))
    inputs = [x for name, x in split.items() if name.startswith("inputs")]
    if len(inputs) != 1 or inputs[0].shape != labels.shape:
        return False
    return bool(labels.any() and not np.any((labels != 0) & (inputs[0] != 0)))


def _inputs_of_both(
    train: dict[str, np.ndarray], others: dict[str, np.ndarray], kinds: str = "fiu"
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Inputs of these kinds of numbers, of training and another split, of the same shape."""
    for name, array in arrays_of(train, "inputs", kinds).items():
        if name in others and others[name].shape[1:] == array.shape[1:]:
            yield array, others[name]


def _windows_shared(train: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> float:
    """The fraction of another split's windows found elsewhere in training windows; 0 if small.

    Short runs of positions in (rows, positions) or (rows, positions, channels) are compared.
    """
    for array, other in _inputs_of_both(train, others, "f"):
        is_series = array.ndim in (2, 3) and array.shape[1] > 3
        few = len(np.unique(array.ravel()[:MOST_ROWS])) < 100  # such numbers are equal by chance
        if not is_series or few or len(other) < 10:
            continue
        # Long ones: in coarse numbers, short ones are equal by chance.
        run = min(max(4, array.shape[1] // 4), LONG_RUN, array.shape[1] // 2)
        rows = max(10, MOST_PIXELS // array[0].size)
        a, b = (_hashes_of_parts(x[:most], (run,)) for x, most in (
            (array, min(rows, MOST_ROWS)), (other, min(rows, MOST_OTHERS))))  # fmt: skip
        stride = next((at for at in range(1, a.shape[1])
                       if np.mean(np.isin(a[:100, 0], a[:, at])) > 0.4), 0)  # fmt: skip
        if not stride or len(other) < 4 * array.shape[1] / stride:
            continue  # training windows don't overlap, or all others are adjacent to them
        known, shared = np.unique(a), []
        for place in np.unique(np.linspace(0, b.shape[1] - 1, MOST_PLACES).astype(int)):
            moves = np.ptp(other[: len(b), place : place + run].reshape(len(b), -1), axis=1) > 0
            here = np.isin(b[:, place], a[:, place])  # as in a table
            shared.append(moves & np.isin(b[:, place], known) & ~here)
        of_rows = np.mean(shared, axis=0)
        # Splits by time share some windows where they meet, or only one end of each window, as
        # where what was known before is an input.
        parts = *np.array_split(of_rows, 3), 2 * shared[0], 2 * shared[-1]
        if min(part.mean() for part in parts) > MANY:
            return float(of_rows.mean())
    return 0.0


def _reordered(train: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> float:
    """The fraction of another split's inputs that are training inputs reordered; 0 if small.

    Many different values occur together again only if they were copied, unless few such sets of
    values exist, as where all rows are permutations of the same numbers.
    """
    for array, other in _inputs_of_both(train, others):
        if array[0].size < MANY_NUMBERS:
            continue
        most = min(MOST_ROWS, MOST_PIXELS // (4 * array[0].size))
        known, found = (x[:most].reshape(len(x[:most]), -1) for x in (array, other))
        if len(np.unique(known)) < 4 * MANY_NUMBERS:
            continue  # such as the orders of most of 20 numbers
        times = Counter(rows_of([np.sort(known, axis=1)]))
        sets = np.sort(found, axis=1)
        is_rich = np.count_nonzero(np.diff(sets, axis=1) > 0, axis=1) >= MANY_NUMBERS - 1
        same = {*rows_of([known])}
        often = [times[values] for values, row, rich in
                 zip(rows_of([sets]), rows_of([found]), is_rich, strict=True)
                 if rich and row not in same]  # fmt: skip
        copied = [each for each in often if each]
        if len(copied) > MANY * len(found) and np.median(copied) < FEW_TIMES:
            return len(copied) / len(found)
    return 0.0


def _pieces_shared(
    train: dict[str, np.ndarray], others: dict[str, np.ndarray]
) -> tuple[float, float, int] | None:
    """Parts with many shades that are in images of both splits; None if few have one.

    The fraction of the other images with a part that occurs elsewhere in a training image, how
    often such a part occurs (median), and the pixels along its side. Parts at the same place, such
    as a background, say nothing; nor do parts that many images have, such as letters of one font.
    """
    for array, other in _inputs_of_both(train, others):
        if array.ndim not in (3, 4) or min(array.shape[1:3]) < 16 or len(other) < 10:
            continue
        height, width = array.shape[1:3]
        part = max(8, min(height, width) // 3)
        rows = max(10, MOST_PIXELS // (height * width * part))
        array, other = array[: min(rows, MOST_TRAINING)], other[: min(rows // 4, MOST_OTHERS)]
        # In 256 shades: otherwise tiny differences would make equal parts differ.
        low, spread = array.min(), max(np.ptp(array), 1e-9)
        in_shades = [np.round((x - low) * (255 / spread)).astype("f4") for x in (array, other)]
        a, b = (_hashes_of_parts(x, (part, part)) for x in in_shades)
        known, counts = np.unique(a, return_counts=True)
        at = np.minimum(np.searchsorted(known, b), len(known) - 1)
        times = np.where(known[at] == b, counts[at], 0)
        found = np.nonzero(times)
        _, first, same = np.unique(b[found], return_index=True, return_inverse=True)
        windows = in_shades[1]
        for axis in (1, 2):
            windows = np.lib.stride_tricks.sliding_window_view(windows, part, axis)
        looked_at = np.arange(0, len(first), 1 + len(first) * windows[0, 0, 0].size // MOST_SHADES)
        cut = windows[tuple(index[first[looked_at]] for index in found)]
        shades = np.sort(cut.reshape(len(cut), windows[0, 0, 0].size), axis=1)
        is_rich = np.zeros(len(first), bool)
        is_rich[looked_at] = (np.diff(shades, axis=1) > 0).sum(axis=1) >= SHADES
        row, top, left = (index[is_rich[same]] for index in found)
        moved, most = np.zeros(len(b), bool), np.zeros(len(b))
        for y, x in set(zip(top.tolist(), left.tolist(), strict=True)):
            here = row[(top == y) & (left == x)]
            moved[here] |= ~np.isin(b[here, y, x], a[:, y, x])
        np.maximum.at(most, row, times[row, top, left])
        moved &= most <= max(FEW_TIMES, len(a) / 50)
        if moved.mean() > MANY:
            return float(moved.mean()), float(np.median(most[moved])), part
    return None


def _hashes_of_parts(arrays: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """A number for each part, (rows, places, ...), of (rows, positions, ...) or with channels."""
    numbers = np.ascontiguousarray(arrays, "f4").view("u4").astype("u8")
    if numbers.ndim > 1 + len(sizes):
        odd = 2 * np.random.default_rng(0).integers(1, 2**62, numbers.shape[-1], "u8") + 1
        numbers = (numbers * odd).sum(axis=-1, dtype="u8")
    for axis, (size, base) in enumerate(zip(sizes, BASES, strict=False), start=1):
        powers = np.cumprod(np.full(size, base, "u8"))  # modulo 2**64
        numbers = np.lib.stride_tricks.sliding_window_view(numbers, size, axis) @ powers
    return numbers


def _near_copies(train: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> float:
    """The fraction of another split's examples with a near copy in training; 0 if small.

    Without copies, distances grow steadily: the ratio of the tenth nearest to the nearest is about
    that of the hundredth to the tenth, on a line as in many dimensions.
    """
    if (features := _features(train, others, MOST_OTHERS)) is None:
        return 0.0
    names, a, b = features
    squares = squared_distances(b, a)
    near = _are_near(squares) & (squares.min(axis=1) > SAME)
    if len(names) == 1:
        images = train[names[0]][:MOST_TRAINING], others[names[0]][:MOST_OTHERS]
        near |= _near_when_moved(*images, 1)
        # A few objects at any place are as near after a large shift.
        far = min(images[0].shape[1:3], default=0) // 4
        if near.mean() > MANY and far > 2:
            near &= _near_when_moved(*images, far).mean() < near.mean() / 4
    share = float(near.mean())
    return share if share > MANY else 0.0


def _features(
    train: dict[str, np.ndarray], others: dict[str, np.ndarray], most_others: int
) -> tuple[list[str], np.ndarray, np.ndarray] | None:
    """The names of real inputs, and those of training and another split, on one scale."""
    # Distances between arrays with few values, such as bonds of a graph, are discrete.
    known, found = (arrays_of(split, "inputs") for split in (train, others))
    names = [n for n in known if n in found and len(np.unique(known[n].ravel()[:MOST_ROWS])) > 10]
    if not names or any(train[n].shape[1:] != others[n].shape[1:] for n in names):
        return None
    a, b = (_table([split[n] for n in names], most)
            for split, most in ((train, MOST_TRAINING), (others, most_others)))  # fmt: skip
    if len(a) < 200 or len(b) < 30:
        return None
    spread = np.ma.masked_invalid(a).std(axis=0).filled(0)
    if np.count_nonzero(spread) < 3:
        return None
    # Where nearly all columns of a table have few values, distances jump.
    are_real = (len(np.unique(column)) > MANY_VALUES for column in a[:MOST_REAL].T)
    if all(train[n].ndim <= 2 for n in names) and sum(are_real) < 3:
        return None
    if any(train[n].ndim > 2 for n in names):  # positions share one unit, columns have their own
        spread = np.where(spread > 0, spread.max(), 0)
    a, b = (x[:, spread > 0] / spread[spread > 0] for x in (a, b))
    return names, a, b


def _are_measured_later(train: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> bool:
    """Whether another split has as many near each training example, with labels of their own.

    For example later visits of known patients. Copies would have the label of their original, and
    a random split would put more copies of one original than of another into one split.
    """
    features = _features(train, others, MOST_TRAINING)
    labels = [split.get("labels", np.zeros(0)) for split in (train, others)]
    if features is None or not len(labels[0]) or labels[0].shape[1:] != labels[1].shape[1:]:
        return False
    _, a, b = features
    some = b[:MOST_OTHERS]
    apart, beside = squared_distances(some, a), squared_distances(some, b)
    np.fill_diagonal(beside, np.inf)
    are_near = _are_near(apart)
    are_others = (labels[0][apart.argmin(axis=1)] != labels[1][: len(some)])[are_near]
    times = np.sum(beside < 4 * apart.min(axis=1)[:, np.newaxis], axis=1)[are_near]
    is_even = times.size > 0 and np.bincount(times).max() > 0.7 * times.size
    return bool(is_even and np.mean(are_others) > 0.01)


def _are_near(squares: np.ndarray) -> np.ndarray:
    """Whether each row is much nearer to a few other rows than to all others."""
    nearest = np.sqrt(np.maximum(np.partition(squares, (0, 9, 99), axis=1)[:, [0, 9, 99]], 1e-9))
    first, tenth, hundredth = np.log(nearest).T
    return (tenth - first > 3 * (hundredth - tenth)) & (tenth - first > 1.0)


def _near_when_moved(a: np.ndarray, b: np.ndarray, step: int) -> np.ndarray:
    """Whether each image of `b` is near to some of `a` after a shift by so many pixels."""
    near = [_are_near(squared_distances(y, x)) for x, y in _moved(a, b, step)]
    return np.any(near, axis=0) if near else np.zeros(len(b), bool)


def _moved(a: np.ndarray, b: np.ndarray, step: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Small images of `a`, and those of `b` after a shift by `step`, or also 1, 2 or a flip."""
    height, width = (*a.shape[1:], 0, 0)[:2]
    if a.ndim not in (3, 4) or min(height, width) < 7 or max(height, width) > 32:
        return
    size, steps = a.std(), (-2, -1, 0, 1, 2) if step == 1 else (-step, 0, step)
    for down, right in itertools.product(steps, repeat=2):
        edge = max(abs(down), abs(right))
        if edge == step or (edge and not down * right):  # one step any way, two along an axis
            inner = a[:, edge : height - edge, edge : width - edge]
            y, x = edge + down, edge + right
            moved = b[:, y : y + height - 2 * edge, x : x + width - 2 * edge]
            yield _table([inner / size], len(a)), _table([moved / size], len(b))
    for turned in (b[:, ::-1], b[:, :, ::-1]) if step == 1 else ():
        yield _table([a / size], len(a)), _table([turned / size], len(b))


def _table(arrays: list[np.ndarray], rows: int) -> np.ndarray:
    """Some features of the first rows, float64 (rows, features)."""
    tables = [array[:rows].reshape(min(rows, len(array)), -1) for array in arrays]
    parts = [part[:, :: 1 + part.shape[1] // MOST_FEATURES].astype("f8") for part in tables]
    return np.concatenate(parts, axis=1) if parts else np.zeros((0, 0))
