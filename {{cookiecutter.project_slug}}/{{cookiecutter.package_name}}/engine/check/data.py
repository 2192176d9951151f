"""Relations of the data: each split read once, and compared with that of training."""

from __future__ import annotations

from collections import Counter

import numpy as np
import tensorflow as tf

from ..batches import worker_split
from . import neighbors
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import named_leaves, percent

TIMED_BATCHES = 20
MANY = 0.2  # of the rows of a split
MOSTLY = 0.4  # of the training examples
BY_CHANCE = 1e-6
FEW, MANY_VALUES = 0.02, 500_000  # of a split's values that training lacks; looked at
EXACT = 1e-5  # of a mean and a deviation that are no accident
MOST, MOST_COLUMNS = 2_000, 100  # rows and columns in which marks are looked for


@relation("data is finite")
def data_is_finite(lab: Laboratory) -> Finding:
    """No NaN and no infinity."""
    for split, arrays in lab.examples.items():
        weights = arrays.get("weights")
        for name, array in arrays.items():
            if array.dtype.kind != "f" or np.isfinite(array).all():
                continue
            bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            seen = f"NaN or infinity in {name} of {bad.sum()} {split} examples, first in row "
            seen += str(int(np.flatnonzero(bad)[0]))
            counted = bad
            if weights is not None and name != "weights":
                counted = bad & (weights.reshape(len(weights), -1) != 0).any(axis=1)
            if name == "labels" and not counted.any():
                return wrong(
                    f"{seen}; their weight is 0",
                    "0 x NaN is NaN, so they spoil the loss all the same",
                    "replace them by any number before the loss, as with tf.where",
                )
            cause = "" if counted.any() else "their weight is 0, and 0 x NaN is NaN"
            if not lab.base.finite:
                return wrong(seen, cause, "replace them, or leave these examples out")
            batch = dict(named_leaves(lab.batch)).get(name)
            if batch is None or np.isfinite(batch).all():
                later = lab.look_at_nan if split == "train" else None
                if later is not None and not later.finite:
                    return wrong(
                        f"{seen}; a step of such examples has a loss or a gradient of NaN",
                        cause or "0 x NaN is NaN, in the gradient of tf.where too",
                        "replace them by any number before anything is computed of them",
                    )
                return look(f"{seen}; the first batch has none", cause, "is it meant so?")
    for name, array in lab.run.adapted.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return wrong(
                f"adapt returns NaN or infinity as {name!r}",
                "a mean over values of which some are missing",
                "use np.nanmean and np.nanvar",
            )
    whole = ", ".join(
        f"{len(next(iter(a.values())))} {s}" + ("" if lab.is_whole(s) else " looked at")
        for s, a in lab.examples.items()
        if a
    )
    return ok(f"{whole} examples")


@relation("the same data again", after="the same batch again")
def same_data_again(lab: Laboratory) -> Finding:
    """`create_datasets` gives the same examples each time."""
    others = lab.other_when_made_again
    if others is None:
        return ok("not looked at: to create it takes long")
    if others:
        return wrong(
            f"create_datasets, called again, gives another start of {' and '.join(others)} data",
            "a split, an order or noise is drawn without a seed, so a resumed run trains on other "
            "examples, and evaluate tests on training examples",
            "draw from np.random.default_rng(a constant), made in create_datasets",
        )
    return ok()


@relation("adapt")
def adapts_to_training_data(lab: Laboratory) -> Finding:
    """What a model adapts to follows from the training data alone."""
    split, name = lab.adapts_to
    if split:
        kind = lab.run.adapted[name].dtype.kind
        return (wrong if kind in "fb" or "weight" in name else look)(
            f"{name!r}, which adapt returns, changes with the {split} data",
            "statistics, or a choice, are made of what the model is validated or tested on",
            'use datasets["train"] alone',
        )
    return ok()


@relation("splits alike")
def splits_alike(lab: Laboratory) -> Finding:
    """Every split has the arrays, shapes, dtypes and missing values of the training data."""
    train = dict(named_leaves(lab.batch))  # as a step gets it: an augmentation may crop
    for split, arrays in lab.examples.items():
        for name, array in arrays.items():
            if split == "train" or name not in train or name not in lab.examples["train"]:
                continue
            raw = lab.examples["train"][name]
            shapes = {raw.shape[1:], tuple(train[name].shape[2:])}
            kinds = {raw.dtype.kind, np.dtype(train[name].dtype.as_numpy_dtype).kind}
            if array.shape[1:] not in shapes:
                shape = tuple(train[name].shape[2:])
                return wrong(f"{name} is {array.shape[1:]} in {split} data, {shape} in training")
            if array.dtype.kind not in kinds:
                return wrong(
                    f"{name} is {array.dtype} in {split} data, {raw.dtype} in training data"
                )
            is_table = array.dtype.kind == raw.dtype.kind == "f" and array.ndim <= 2
            if not name.startswith("inputs") or not is_table or array.shape[1:] != raw.shape[1:]:
                continue
            if np.isnan(train[name]).any() != np.isnan(raw).any():
                continue  # an augmentation makes them, or fills them
            for here, there, place, other in (
                (raw, array, "training", split),
                (array, raw, split, "training"),
            ):
                column = _missing_in_one(here, there)
                if column is not None:
                    return wrong(
                        f"values of column {column} of {name} are missing (NaN) in {place} data, "
                        f"and never in {other} data",
                        "they are replaced in one split alone, so the model takes what they are "
                        "replaced by for a measurement",
                        "prepare every split by the same code",
                    )
    return ok()


@relation("weights")
def weights(lab: Laboratory) -> Finding:
    """Most training examples have a weight other than zero."""
    array = lab.examples["train"].get("weights")  # those of several outputs may well be 0
    idle = 0.0 if array is None else np.mean((array.reshape(len(array), -1) == 0).all(axis=1))
    if idle > MOSTLY:
        return look(
            f"{idle:.0%} of the training examples have a weight of 0",
            "weights were rounded, as in an array of whole numbers, or are cut wrongly",
            "is it meant so?",
        )
    return ok()


@relation("labels")
def labels(lab: Laboratory) -> Finding:
    """Each label is one of the model's classes, and known from training."""
    found: list[str] = []
    seen: dict[str, np.ndarray] = {}  # by array: which of the model's classes occur
    for split, arrays in lab.examples.items():
        for name, array in arrays.items():
            if not name.startswith("labels") or array.dtype.kind not in "iu" or not array.size:
                continue
            classes, is_one_hot = _classes(lab, array)
            if classes and array.ndim != 2:  # of sequences, 0 may be padding alone
                seen[name] = seen.get(name, False) | np.isin(np.arange(classes), array)
            low, high = int(array.min()), int(array.max())
            from_one = split == "train" and low == 1 and high == classes
            if is_one_hot and not from_one:
                continue  # what is outside becomes zeros, which may be meant so
            if classes and (high >= classes or low < 0):
                outside = (array >= classes) | (array < 0)
                if not from_one and _are_handled(lab, name, np.unique(array[outside])):
                    continue  # marks of what is missing, for which the task has a weight of 0
                bad = int(outside.reshape(len(array), -1).any(axis=1).sum())
                return wrong(
                    f"{name} of {split} data go from {low} to {high}; the model has {classes} "
                    f"classes ({bad} examples outside)",
                    "as tf.one_hot gives them they are zeros, and no class is right"
                    if is_one_hot
                    else "on a GPU their loss is NaN, on the CPU it is an error",
                    "count classes from 0",
                )
            train = lab.examples["train"].get(name)
            if train is None or array.ndim > 1:
                continue
            known, own = np.unique(train), np.unique(array)
            if split == "train":
                if len(known) == 1 and len(array) > 1:
                    return wrong(f"every label of the training data is {known[0]}")
                continue
            unknown = np.setdiff1d(own, known)
            if len(known) < len(train) / 2 and len(unknown):
                part = int(np.isin(array, unknown).sum())
                return wrong(
                    f"{percent(part, len(array))} of the {split} labels, such as {unknown[0]}, "
                    "never occur in training",
                    "labels are encoded otherwise, or splits are cut by class",
                    "shuffle before splitting, and encode all splits alike",
                )
            labeled, others = train[train >= 0], array[array >= 0]  # -1 marks those without one
            known = known[known >= 0][:50]
            shares = [np.mean(labeled == c) - np.mean(others == c) for c in known]
            if len(others) > 50 and len(labeled) and np.abs(shares).max() > 0.3:
                i = int(np.abs(shares).argmax())
                found.append(
                    f"label {known[i]} is {np.mean(labeled == known[i]):.0%} of training and "
                    f"{np.mean(others == known[i]):.0%} of {split} data"
                )
    if found:
        return look(found[0], "splits are cut in an order that depends on the labels")
    for name, occur in seen.items():
        # Of many classes several may be rare.
        if occur.sum() == len(occur) - 1 > 1:
            return look(
                f"{name} are never {occur.argmin()}, one of the model's {len(occur)} classes",
                "another class has its labels, or the model has a class too many",
                "count the classes from 0, and each for itself",
            )
    return ok()


@relation("labels belong to inputs")
def labels_belong_to_inputs(lab: Laboratory) -> Finding:
    """Examples that are alike have labels that are alike, in every split and between them."""
    points = {name: neighbors.points(arrays) for name, arrays in lab.examples.items()}
    splits = {name: p for name, p in points.items() if p is not None and len(p.labels) >= 50}
    if "train" not in splits:
        return ok("not looked at")
    own = {name: neighbors.agreement(p, p) for name, p in splits.items()}
    best = max(own, key=own.__getitem__)
    for name, value in own.items():
        if own[best] > 0.5 and value < 0.25 * own[best]:
            return wrong(
                f"neighbors have the same label in {best} data ({own[best]:.2f}, where 1 is always "
                f"and 0 is chance) and not in {name} data ({value:.2f})",
                f"in {name} data, labels don't belong to their inputs: one was shuffled, shifted "
                "or cut without the other",
                "compare some of them by eye",
            )
    for name, split in splits.items():
        if name == "train":
            continue
        across = neighbors.agreement(split, splits["train"])
        if min(own[name], own["train"]) > 0.5 and across < 0.25 * own[name]:
            return wrong(
                f"neighbors within {name} data have the same label ({own[name]:.2f}), neighbors in "
                f"the training data another ({across:.2f})",
                f"{name} data are encoded otherwise: their labels, or their inputs",
                "prepare every split by the same code",
            )
    return ok(", ".join(f"{name} {value:.2f}" for name, value in own.items()))


@relation("inputs without the answer")
def inputs_without_the_answer(lab: Laboratory) -> Finding:
    """No column of the inputs is the label in another form."""
    train = lab.examples["train"]
    answers = np.asarray(train.get("labels", np.zeros(0)))
    if answers.dtype.kind not in "fiu" or answers.size != len(answers) or len(answers) < 20:
        return ok("not looked at: there isn't one label an example")
    y = np.nan_to_num(np.asarray(answers, "f8").ravel())
    for name, array in train.items():
        if not name.startswith("inputs") or array.dtype.kind not in "fiu":
            continue
        if answers.dtype.kind == "f" == array.dtype.kind and np.ptp(y[:MOST]) > 0:
            same = array.reshape(len(y), -1)[:MOST] == y[:MOST, np.newaxis]
            columns = np.flatnonzero(same.all(axis=0))
            if len(columns):
                where = ", ".join(map(str, np.unravel_index(columns[0], array.shape[1:] or (1,))))
                return wrong(
                    f"{name} hold the label, at [{where}] of each example",
                    "the answer is given, as where a window is cut one step too late",
                    "leave it out",
                )
        if array.ndim > 2:
            continue
        for column, x in enumerate(np.nan_to_num(np.asarray(array, "f8")).reshape(len(y), -1).T):
            seen = ""
            if x.std() > 0 and y.std() > 0 and abs(np.corrcoef(x, y)[0, 1]) > 0.995:
                seen = (
                    f"column {column} of {name} and the labels have a correlation of "
                    f"{np.corrcoef(x, y)[0, 1]:.3f}"
                )
            elif answers.dtype.kind != "f" and _tells(x, y):
                seen = f"each value of column {column} of {name} comes with one label only"
            if seen:
                return look(
                    seen,
                    "it was computed from the label, or is known only afterwards",
                    "leave it out",
                )
    return ok()


@relation("rows in two splits")
def rows_in_two_splits(lab: Laboratory) -> Finding:
    """No example of validation or test is a training example."""
    for split in ("validation", "test"):
        if share := neighbors.windows_shared(lab.examples["train"], lab.examples.get(split, {})):
            return wrong(
                f"training examples are windows of a series, and {share:.0%} of what {split} "
                "windows hold is in them too",
                "windows that overlap were divided by chance among the splits",
                "divide the series by time, then cut each part into windows",
            )
        if share := neighbors.near_copies(lab.examples["train"], lab.examples.get(split, {})):
            return (wrong if share > 0.5 else look)(
                f"{share:.0%} of the {split} examples are much nearer to some of the training "
                "examples than to all others",
                "they are noisy copies of one original, or parts of one recording, that were "
                "divided by chance among the splits",
                "divide by what belongs together, before copies are made",
            )
    hashes = lab.hashes
    train = hashes.get("train", [])
    known = set(train) if len(train) < 1e6 else set()
    # Of several for the augmentation to choose from, all are one example.
    parts = len(train) // max(1, len(next(iter(lab.examples["train"].values()), ())))
    wholes = list(zip(*[iter(train)] * parts, strict=True))
    times = Counter(wholes).values()
    # How many the data repeats by itself, other than as passes through all of it.
    natural = 1 - len(times) * min(times, default=1) / max(1, len(wholes))
    for split in ("validation", "test"):
        found = hashes.get(split, [])
        twice = sum(h in known for h in found)
        if not twice:
            continue
        seen = f"{percent(twice, len(found))} of the {split} examples are training examples too"
        if twice / len(found) > max(MANY, 3 * natural):
            return wrong(
                seen, "the splits overlap, so results are too good", "cut the data before use"
            )
        if twice / len(found) > max(0.02, 2 * natural):
            return look(seen, "the splits overlap, or the data repeats itself")
    validation, test = set(hashes.get("validation", [])), hashes.get("test", [])
    same = sum(h in validation for h in test)
    if test and same / len(test) > max(MANY, 3 * natural):
        return wrong(
            f"{percent(same, len(test))} of the test examples are validation examples too",
            "weights are selected by the data that they are tested on",
            "cut the data before use",
        )
    return ok()


@relation("examples repeat")
def examples_repeat(lab: Laboratory) -> Finding:
    """No stream is a few examples again and again."""
    for split, hashes in lab.hashes.items():
        times = Counter(hashes).values()
        # Data that repeats itself by nature doesn't repeat each example equally often.
        is_even = len(times) >= 5 and min(times) >= 2 and max(times) <= min(times) + 1
        # Arrays may be several passes through the data in one epoch.
        if not is_even or not isinstance(worker_split(lab.datasets[split]), tf.data.Dataset):
            continue
        verdict = wrong if len(times) <= lab.rows else look
        return verdict(
            f"{split} data are {len(times)} examples, each of them {min(times)} times or more",
            "repeat() in the stream; what take() leaves out before it is never used",
            "leave repetition to the engine: a stream gives each example once, and ends",
        )
    return ok()


@relation("scale")
def scale(lab: Laboratory) -> Finding:
    """Inputs and labels of every split are on the scale of training."""
    train = lab.examples["train"]
    for name, array in train.items():
        if name.startswith("inputs") and array.dtype.kind == "f" and array.ndim < 3:
            for column, x in enumerate(array.reshape(len(array), -1)[:MOST].T[:MOST_COLUMNS]):
                if (mark := _mark(x)) is not None:
                    return look(
                        f"{mark[1]} values of column {column} of {name} are {mark[0]:g}, far from "
                        "all others",
                        "a number that stands for missing values is taken for a measurement",
                        "replace it by NaN or by a mean, and say so in a column of its own",
                    )
    for name, array in train.items():
        if not name.startswith("inputs"):
            continue
        for split, arrays in lab.examples.items():
            if unseen := _never_in(array, arrays.get(name)):
                return look(
                    f"{unseen:.0%} of {name} in {split} data are values that training data never "
                    "has",
                    "the splits are normalized, tokenized or numbered differently",
                )
        if (constant := _almost_constant(array)) is not None:
            return look(
                f"{name} are {constant[0]:g} in {constant[1]:.0%} of all places, and otherwise "
                f"{constant[2]:g}",
                "whole numbers were divided as such, or cast too early",
                "cast to float first, then scale",
            )
    augmented = {
        name: np.asarray(array[0])
        for name, array in named_leaves(lab.batch if lab.batches.augment else ())
        if name.startswith("inputs") and array.dtype.is_floating
    }
    for name, array in (lab.made_by_augmentation | train).items():
        if array.dtype.kind not in "fiu" or name.startswith("weights") or len(array) < 2:
            continue
        if name.startswith("labels") and array.dtype.kind != "f":
            continue
        for split, arrays in lab.examples.items():
            other = arrays.get(name)
            if split == "train" or other is None or len(other) < 10 or not other.size:
                continue
            a, b = _filled(array), _filled(other)
            if other.dtype.kind == "f" and (how := _scaled_by_itself(b)):
                return wrong(
                    f"{name} of {split} data {how}",
                    "the split is scaled by its own numbers, so it isn't on the scale of training",
                    "scale every split by the numbers of the training data",
                )
            (mean, spread), (mean_other, spread_other) = ((x.mean(), x.std()) for x in (a, b))
            largest = max(np.abs(a).max(), 1e-12), max(np.abs(b).max(), 1e-12)
            if array.dtype.kind == "f" and spread > 0:
                factor = largest[1] / largest[0]
                ratio = spread_other / spread
                if not 0.2 < ratio < 5 and not 0.2 < factor < 5:
                    return wrong(
                        f"{name} of {split} data reach {largest[1]:.3g}, those of training "
                        f"{largest[0]:.3g}",
                        "one split is scaled, the other isn't",
                        "scale every split alike, with the numbers of the training data",
                    )
                shift = abs(mean - mean_other) / spread
                beyond = _beyond(a, b) if name.startswith("inputs") else ""
                if beyond and array.ndim > 2:
                    return (wrong if array.ndim > 3 else look)(  # a series may rise
                        f"{name} of training data are {beyond} those of {split} data",
                        "one split is scaled otherwise than the other",
                        "scale every split alike, with the numbers of the training data",
                    )
                new = augmented.get(name)
                if new is not None and not beyond and (moved := _beyond(_filled(new), b)):
                    return wrong(
                        f"{name} of training data are, augmented, {moved} those of {split} data",
                        "create_augment scales them, and nothing scales the others",
                        "scale in create_datasets or in the model, for every split",
                    )
                columns = _worst_column(a, b)
                if shift > 1.0 or not 0.4 < ratio < 2.5:
                    return look(
                        f"{name} of {split} data have mean {mean_other:.3g} and spread "
                        f"{spread_other:.3g}, those of training {mean:.3g} and {spread:.3g}",
                        "splits are scaled or cut differently"
                        if name in train
                        else "create_augment makes them otherwise than create_datasets",
                    )
                if columns is not None:
                    return look(
                        f"column {columns} of {name} is on another scale in {split} data than in "
                        "training",
                        "splits are scaled differently, or columns are in another order",
                    )
    inputs = {n: a for n, a in train.items() if n.startswith("inputs") and a.dtype.kind == "f"}
    for name, array in inputs.items():
        if len(array) > 1 and array.size and np.ptp(array) == 0:
            return wrong(f"{name} of training data are all {array.flat[0]:g}")
        highest = float(np.nanmax(np.abs(array))) if array.size else 0.0
        if highest > 100 and not lab.normalizes:
            return look(
                f"{name} reach {highest:.4g}, and the model has no layer that scales them",
                "networks learn best from inputs of about 1",
                "divide them, or use keras.layers.Normalization",
            )
    return ok()


@relation("data keeps up")
def data_keeps_up(lab: Laboratory) -> Finding:
    """Batches come faster than steps take."""
    _ = lab.losses_on_one_batch
    computing = lab.secs_per_step
    waiting = lab.secs_per_batch(TIMED_BATCHES)
    seen = f"a batch takes {waiting * 1e3:.1f} ms, a step {computing * 1e3:.1f} ms"
    if waiting > computing:
        return look(
            f"{seen}: steps wait for data" if waiting > 0.02 else f"{seen}",
            "",
            "load and augment in parallel, or keep what is read in memory"
            if waiting > 0.02 else "",
        )  # fmt: skip
    return ok(seen)


def _are_handled(lab: Laboratory, name: str, labels: np.ndarray) -> bool:
    """Whether a step with all of these labels went well; on the CPU it would have failed."""
    batch = dict(named_leaves(lab.batch)).get(name)
    return batch is not None and lab.base.finite and bool(np.isin(labels, batch).all())


def _classes(lab: Laboratory, labels: np.ndarray) -> tuple[int, bool]:
    """The classes of the outputs, where labels are numbers of classes; whether a loss gets zeros
    and ones instead of these.
    """
    for name, (given, predictions, _) in lab.base.calls.items():
        if predictions is None or given is None:
            continue
        numbers = predictions.ndim == labels.ndim + 1
        if "Sparse" in type(lab.run.losses[name]).__name__ and (
            numbers or (labels.ndim > 1 and labels.shape[-1] == 1)
        ):
            return int(predictions.shape[-1]), False
        if (
            numbers
            and given.shape == predictions.shape
            and predictions.shape[-1] > 1
            and np.isin(given, (0, 1)).all()
            and np.sum(given, axis=-1).max() == 1
        ):
            return int(predictions.shape[-1]), True
    return 0, False


def _missing_in_one(a: np.ndarray, b: np.ndarray) -> int | None:
    """A column with missing values in `a` and none in `b`, which chance doesn't explain."""
    a, b = (np.isnan(x).reshape(len(x), -1) for x in (a, b))
    by_chance = np.power(1 - a.mean(axis=0), len(b))
    bad = a.any(axis=0) & ~b.any(axis=0) & (by_chance < BY_CHANCE)
    return int(bad.argmax()) if bad.any() else None


def _beyond(a: np.ndarray, b: np.ndarray) -> str:
    """In how many places numbers lie clearly below or above all others; "" if in few."""
    low, high = b.min(), b.max()
    margin = 0.25 * (high - low)
    below, above = np.mean(a < low - margin), np.mean(a > high + margin)
    if max(below, above) <= MANY:
        return ""
    return f"in {max(below, above):.0%} of all places {'below' if below > above else 'above'}"


def _mark(x: np.ndarray) -> tuple[float, int] | None:
    """A number of a column that comes again and is far from all others; how often."""
    values, times = np.unique(x[np.isfinite(x)], return_counts=True)
    if len(values) < 10:
        return None
    several = len(values) > times.sum() / 4  # most numbers come once or a few times
    for end, rest in ((0, values[1:]), (-1, values[:-1])):
        far, width = np.abs(rest - values[end]).min(), np.ptp(rest)
        often = times[end] >= max(5, times.sum() / 100, 3 * np.delete(times, end).max())
        if (times[end] >= 3 and far > 3 * width) or (several and often and far > width / 4):
            return float(values[end]), int(times[end])
    return None


def _never_in(array: np.ndarray, other: np.ndarray | None) -> float:
    """The share of whole numbers or texts in another split that training doesn't have; 0 if few."""
    if other is None or array.dtype.kind not in "iuOSU" or not other.size:
        return 0.0
    known = set(array.ravel()[:MANY_VALUES].tolist())
    if len(known) > min(array.size, MANY_VALUES) / 10:  # such as the numbers of customers
        return 0.0
    share = float(np.mean([value not in known for value in other.ravel()[:MANY_VALUES].tolist()]))
    return share if share > FEW else 0.0


def _tells(x: np.ndarray, classes: np.ndarray) -> bool:
    """Whether the class follows from a feature that has few values, or one bound for each class."""
    order = np.argsort(x, kind="stable")
    x, classes = x[order], classes[order]
    number = len(np.unique(classes))
    bounds = np.flatnonzero(np.diff(x))
    pure = not np.any((np.diff(classes) != 0) & (np.diff(x) == 0))
    changes = int(np.count_nonzero(np.diff(classes)))
    return number > 1 and pure and (len(bounds) < len(x) / 10 or changes == number - 1)


def _almost_constant(array: np.ndarray) -> tuple[float, float, float] | None:
    """Images with two values, of which one is nearly everywhere: it, its share, the other."""
    if array.dtype.kind != "f" or array.ndim < 3 or not array.size:
        return None
    values, times = np.unique(array.ravel()[:MANY_VALUES], return_counts=True)
    share = times.max() / times.sum()
    if len(values) != 2 or share < 0.9:
        return None
    return float(values[times.argmax()]), float(share), float(values[times.argmin()])


def _filled(array: np.ndarray) -> np.ndarray:
    """The array with the mean of its column for each value that isn't finite."""
    x = np.asarray(array, "f8")
    there = np.isfinite(x)
    if there.all():
        return x
    number = np.maximum(1, there.sum(axis=0))
    return np.where(there, x, np.where(there, x, 0).sum(axis=0) / number)


def _scaled_by_itself(x: np.ndarray) -> str:
    """How a split is scaled so exactly that it must be by its own numbers; "" if it isn't."""
    by_row = x.reshape(len(x), -1)
    if len(x) < 30 or (x.ndim > 2 and np.abs(by_row.mean(axis=1)).max() < EXACT):
        return ""  # too few to tell, or each example is scaled by itself
    columns = by_row if x.ndim <= 2 else by_row.reshape(-1, 1)
    changing = np.ptp(columns, axis=0) > 0
    if any(
        (changing & (np.abs(columns.mean(axis=0)) < EXACT)
         & (np.abs(columns.std(axis=0, ddof=ddof) - 1) < EXACT)).any()
        for ddof in (0, 1)  # as NumPy and as pandas have it
    ):  # fmt: skip
        return "have mean 0 and deviation 1 exactly"
    ends = columns.min(axis=0) == 0, columns.max(axis=0) == 1
    once = np.sum((columns == 0) | (columns == 1), axis=0) == 2
    if x.ndim <= 2 and (ends[0] & ends[1] & once).any():
        return "reach from 0 to 1 exactly"
    return ""


def _worst_column(a: np.ndarray, b: np.ndarray) -> int | None:
    """A feature of a table that is on another scale in `b`."""
    if a.ndim != 2 or a.shape[1] < 2 or len(b) < 30:
        return None
    spread = a.std(axis=0)
    usable = spread > 1e-9 * (np.abs(a).max(axis=0) + 1e-12)
    shift = np.abs(a.mean(axis=0) - b.mean(axis=0)) / np.where(usable, spread, 1)
    ratio = b.std(axis=0) / np.where(usable, spread, 1)
    bad = usable & ((shift > 2) | (ratio > 5) | (ratio < 0.1))
    return int(np.flatnonzero(bad)[0]) if bad.any() else None
