"""Relations of the data: each split read once, and compared with that of training."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import tensorflow as tf

from ..batches import SHUFFLE_BUFFER
from . import held_out, maps, neighbors
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import (
    FEW,
    IGNORED,
    ORIENTATIONS,
    arrays_of,
    different,
    named_leaves,
    percent,
    with_array,
)
from .probe import Look
from .runs import Failed

MOST_ROWS = 128  # of a split, whose noise is looked for
TIMED_BATCHES = 20
SEARCHED_BATCHES = 40  # for NaN, or for labels of no class
MOST_MARKS = 4  # such labels
SHORT = 0.01  # seconds per batch: too few to wait for
BY_CHANCE = 1e-6
NEW = 0.05  # of the labels, which may be new, as items and users are
MOST_LABELS = 4  # arrays of labels whose nearest neighbors are compared
MOST_OF_TABLE = 100  # columns
FEW_MEAN, MOST_MEAN = 20, 1_000  # images of which the mean is compared
SEVERAL = 5  # classes
MOST_CLASSES = 100  # whose frequencies are compared
MANY_NUMBERS = 30  # of an example
MANY_ROWS = 1_000_003  # as many as no other axis has


@relation("data is finite")
def data_is_finite(lab: Laboratory) -> Finding:
    """No NaN or infinity in the data reaches a loss or a gradient."""
    for split, arrays in lab.examples.items():
        weights = arrays.get("weights")
        for name, array in arrays.items():
            if array.dtype.kind != "f" or np.isfinite(array).all():
                continue
            bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
            seen = f"NaN or infinity in {name} of {bad.sum()} {split} examples, first in row "
            seen += str(int(bad.argmax()))
            counted, cause = bad, ""
            if weights is not None and name != "weights":
                counted = bad & (weights.reshape(len(weights), -1) != 0).any(axis=1)
            if not counted.any():
                seen += "; their weight is 0"
                cause = "0 x NaN is NaN, so a weight of 0 does not keep NaN out of the loss"
            if not lab.base.finite:
                return wrong(
                    seen,
                    cause,
                    "replace them before the loss, as with tf.where, or remove these examples",
                )
            batch = lab.named_batch.get(name)
            if batch is None or np.isfinite(batch).all():
                later = _look_at_nan(lab) if split == "train" else None
                if later is not None and not later.finite:
                    return wrong(
                        f"{seen}; a train step with such examples has a loss or a gradient of NaN",
                        cause or "0 x NaN is NaN, also in the gradient of tf.where",
                        "replace them with any number before anything is computed from them",
                    )
                return look(f"{seen}; the first batch has none", cause, "is this intended?")
    for name, array in lab.run.adapted.items():
        if array.dtype.kind == "f" and np.isnan(array).any():  # bounds may well be infinite
            # A table may have unknown values, which the model replaces.
            return (wrong if array.ndim < 2 else look)(
                f"adapt returns NaN in {name!r}",
                "it is a mean over values of which some are missing",
                "use np.nanmean and np.nanvar",
            )
    whole = (
        f"{len(next(iter(arrays.values())))} {split}{' looked at' * (not lab.is_whole(split))}"
        for split, arrays in lab.examples.items()
        if arrays
    )
    return ok(f"{', '.join(whole)} examples")


@relation("the same data again", after="the same batch again")
def same_data_again(lab: Laboratory) -> Finding:
    """`create_datasets` returns the same examples each time it is called."""
    others = lab.made_again.others_here
    if others is None:
        return ok("not looked at: creating the data again takes too long, or too much memory")
    if others:
        return wrong(
            f"create_datasets returns other {' and '.join(others)} data when it is called again",
            "a split, an order or noise is drawn without a fixed random seed, so a resumed run "
            "trains on other examples, and evaluate tests on training examples",
            "use np.random.default_rng with a constant seed, created inside create_datasets",
        )
    return ok()


@relation("splits alike")
def splits_alike(lab: Laboratory) -> Finding:
    """Every split has the same arrays, shapes, dtypes and missing values as the training data."""
    batch = lab.named_batch  # as a step gets it: an augmentation may crop
    for name in filter(batch.__contains__, lab.examples["train"]):
        for split, array in lab.held_out(name).items():
            given = lab, split, name, array, batch[name]
            if found := _otherwise_shaped(*given) or _missing_elsewhere(*given):
                return found
    return _noise_of_splits(lab.examples) or _turned_images(lab.examples) or ok()


def _otherwise_shaped(
    lab: Laboratory, split: str, name: str, array: np.ndarray, given: tf.Tensor
) -> Finding | None:
    """Whether an array has another shape or dtype than training data and its batch."""
    raw, shape = lab.examples["train"][name], tuple(given.shape[2:])
    # The steps take examples of two forms, as where evaluation gets noise that training draws.
    has_other_form = lab.examples[split].keys() != lab.examples["train"].keys()
    if array.shape[1:] not in {raw.shape[1:], shape}:
        # Evaluation may read whole inputs, longer or larger than in training.
        may_be = name.startswith("inputs") and array.ndim == raw.ndim
        # Training may use votes, and evaluation the one right class.
        are_votes = raw.dtype.kind == "f" and array.dtype.kind in "iu"
        may_be |= name.startswith("labels") and are_votes and array.ndim == raw.ndim - 1
        # Training may be of one step of a series, and evaluation of several.
        may_be |= array.ndim == raw.ndim > 2 and array.shape[2:] == raw.shape[2:]
        may_be |= has_other_form
        # Other shapes would be an error in steps that aren't made for them.
        may_be |= not _would_broadcast(array.shape[1:], raw.shape[1:])
        return (look if may_be and _is_evaluated(lab) else wrong)(
            f"{name} has shape {array.shape[1:]} in {split} data and {shape} in training data"
        )
    kinds = {raw.dtype.kind, np.dtype(given.dtype.as_numpy_dtype).kind}
    if kinds & {"i", "u"}:  # signed or not makes no difference
        kinds |= {"i", "u"}
    if array.dtype.kind not in kinds:
        # Training may use shares of votes, and evaluation the right answer.
        are_labels = name.startswith("labels") and raw.dtype.kind == "f"
        are_shares = all(np.min(x) >= 0 and np.max(x) <= 1 for x in (raw, array) if x.size)
        may_be = (are_labels and are_shares) or (has_other_form and _is_evaluated(lab))
        return (look if may_be else wrong)(
            f"{name} has dtype {array.dtype} in {split} data and {raw.dtype} in training data"
        )
    return None


def _would_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether rows of two shapes combine without an error, as (rows,) and (rows, 1) do."""
    try:
        np.broadcast_shapes((MANY_ROWS, *a), (MANY_ROWS, *b))
    except ValueError:
        return False
    return True


def _missing_elsewhere(
    lab: Laboratory, split: str, name: str, array: np.ndarray, given: tf.Tensor
) -> Finding | None:
    """Whether a column of a table has missing values only in training, or only in this split."""
    raw = lab.examples["train"][name]
    is_table = array.dtype.kind == raw.dtype.kind == "f" and array.ndim <= 2
    if not name.startswith("inputs") or not is_table or array.shape[1:] != raw.shape[1:]:
        return None
    if np.isnan(given).any() != np.isnan(raw).any():
        return None  # an augmentation makes them, or fills them
    pair = ("training", raw), (split, array)
    for (place, here), (other, there) in (pair, pair[::-1]):
        if (column := _missing_in_one(here, there)) is None:
            continue
        return (wrong if _are_filled(here, there, column) else look)(  # or it is another cohort
            f"values of column {column} of {name} are missing (NaN) in {place} data, but never in "
            f"{other} data",
            "missing values are replaced in one split only, so the model treats the replacement as "
            "a measurement",
            "prepare every split with the same code",
        )
    return None


def _turned_images(examples: dict[str, dict[str, np.ndarray]]) -> Finding | None:
    """Whether the mean of a split's images is that of training images, but turned."""
    images = {split: arrays.get("inputs", np.zeros(0)) for split, arrays in examples.items()}
    if any(x.ndim != 4 or len(x) < FEW_MEAN for x in images.values()):
        return None
    train, half = images["train"], len(images["train"]) // 2
    first, second, whole = (_mean_map(x) for x in (train[:half], train[half:], train))
    if _correlation(first, second) < 0.8:
        return None  # nothing that all images have
    for split, others in images.items():
        plain = _mean_map(others)
        turned = {how: turn(plain[None])[0] for how, turn in ORIENTATIONS.items()}
        fits = {how: _correlation(whole, x) for how, x in turned.items() if x.shape == whole.shape}
        if not fits:
            continue  # of another size
        how = max(fits, key=fits.__getitem__)
        as_they_are = _correlation(whole, plain) if plain.shape == whole.shape else 1.0
        if fits[how] > max(0.8, as_they_are + 0.3):
            return wrong(
                f"the mean image of {split} data is like that of training data if it is {how} "
                f"(correlation {fits[how]:.2f}), not as it is ({as_they_are:.2f})",
                "images of the splits are read with another order of their axes, or turned",
                "prepare every split with the same code",
            )
    return None


def _mean_map(images: np.ndarray) -> np.ndarray:
    """The mean of some images (n, h, w, channels) and of their channels: (h, w)."""
    return np.asarray(images[:MOST_MEAN].mean(axis=(0, 3), dtype="f8"))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]))


@relation("labels")
def labels(lab: Laboratory) -> Finding:
    """Each label is one of the model's classes and occurs in the training data."""
    uneven: list[str] = []
    seen: dict[str, np.ndarray] = {}  # for each array: which of the model's classes occur
    for split, arrays in lab.examples.items():
        for name, array in arrays_of(arrays, "labels", "iu").items():
            if not array.size:
                continue
            classes, is_one_hot = _classes(lab, name, array)
            if classes and array.ndim != 2:  # in sequences, 0 may be used only for padding
                seen[name] = seen.get(name, False) | np.isin(np.arange(classes), array)
            from_one = split == "train" and array.min() == 1 and array.max() == classes
            if is_one_hot and not from_one:
                continue  # other labels become zeros, which may be intended
            found = None
            if classes and (array.max() >= classes or array.min() < 0):
                marks = np.setdiff1d(array, np.arange(classes))
                if not from_one and _are_handled(lab, name, marks, split):
                    found = _trained_as_classes(lab, name, array, marks, classes)
                elif split != "train" and not from_one and _is_finite(lab, split):
                    found = _other_classes(split, name, array, classes)
                else:
                    found = _outside_classes(split, name, array, classes, is_one_hot)
            elif split == "train" and not classes and (marks := _marks_beside_classes(array)).size:
                number = len(np.unique(array)) - len(marks)
                found = _trained_as_classes(lab, name, array, marks, number)
            elif not classes and lab.declared_interacting:
                continue  # numbers of what is to be found, some of it new
            elif name in lab.examples["train"] and array.ndim == 1:
                train = _in_training(lab, name)
                found = _unknown_labels(lab, split, name, train, classes)
                if not found and split != "train" and _is_known(lab):
                    uneven += _other_shares(train, array, split)
            if found:
                return found
    if uneven:
        return look(
            uneven[0],
            "the data was split without shuffling, in an order that depends on the labels",
        )
    if found := _told_by_missing(lab.examples["train"]) or _without_a_code(lab):
        return found
    for name, occur in seen.items():
        # Of many classes several may be rare.
        if occur.sum() == len(occur) - 1 > 1:
            return look(
                f"{name} are never {occur.argmin()}, one of the model's {len(occur)} classes",
                "another class has its labels, or the model has one class too many",
                "number the classes from 0, each with its own number",
            )
    return ok()


def _marks_beside_classes(labels: np.ndarray) -> np.ndarray:
    """The usual markers among the labels, if these are several numbers from 0 on as well."""
    values = np.unique(labels)
    is_mark = np.isin(values, IGNORED)
    others = values[~is_mark]
    has_classes = len(others) > 1 and others[0] == 0 and others[-1] < MOST_CLASSES
    return values[is_mark & has_classes]


def _trained_as_classes(
    lab: Laboratory, name: str, array: np.ndarray, marks: np.ndarray, classes: int
) -> Finding | None:
    """Whether the marker for missing labels is used as a class, and not given a weight of 0."""
    for mark, (step, batch) in _steps_with(lab, name, marks[:2]).items():
        base = lab.look(batch, step=step)
        numbers = sorted({0, 1, abs(mark) % classes, mark % classes, classes - 1})
        others = (lab.look(_relabeled(batch, name, mark, n), step=step) for n in numbers)
        same = [n for n, other in zip(numbers, others, strict=True)
                if not base.trains_otherwise(other)]  # fmt: skip
        if not same or len(same) == len(numbers):
            continue
        if not np.any(array == same[0]):  # it is a class of its own
            return None
        return (wrong if mark in IGNORED else look)(
            f"{name} of {mark}, which is none of the {classes} classes, train as class {same[0]}",
            "the marker for missing labels is used as a class",
            "give them a weight of 0, and exclude them in count",
        )
    return None


def _steps_with(lab: Laboratory, name: str, marks: np.ndarray) -> dict[int, tuple[int, Any]]:
    """The first of some steps that has each of these labels of training data, and its batch."""
    sought = marks[np.isin(marks, lab.examples["train"].get(name, ()))].tolist()
    found: dict[int, tuple[int, Any]] = {}
    for step, batch in enumerate(lab.batches.dataset(0, SEARCHED_BATCHES) if sought else ()):
        given = dict(named_leaves(batch)).get(name, ())
        found |= {n: (step, batch) for n in sought if n not in found and np.isin(n, given)}
        if len(found) == len(sought):
            break
    return found


def _relabeled(batch: Any, name: str, mark: int, number: int) -> Any:
    """A batch with another number in place of one of these labels."""
    given = dict(named_leaves(batch))[name]
    return with_array(batch, name, tf.where(given == mark, tf.cast(number, given.dtype), given))


def _other_classes(split: str, name: str, array: np.ndarray, classes: int) -> Finding:
    """The finding for labels that are no class of the model, in a split that has a finite loss."""
    shares = np.mean((array < 0) | (array >= classes))
    return look(
        f"{shares:.0%} of {name} of {split} data are none of the model's {classes} classes",
        "evaluation doesn't compare them with the classes, or it counts them as mistakes",
        "is this intended, as where embeddings of new classes are compared?",
    )


def _without_a_code(lab: Laboratory) -> Finding | None:
    """Whether the last class among inputs, such as a condition, is one too many for tf.one_hot."""
    inputs = arrays_of(lab.examples["train"], "inputs", "iu").items()
    for largest, classes in lab.base.classes:
        for name, array in inputs if largest == classes else ():
            values, times = np.unique(array, return_counts=True)
            are_all = np.array_equal(values, np.arange(classes + 1))
            if not (are_all and times[-1] > times.mean() / 2):  # else unknown ones, for example
                continue
            return (wrong if classes >= SEVERAL else look)(  # a few may be coded by one number less
                f"{name} range from 0 to {classes}, and tf.one_hot encodes {classes} classes, so "
                f"{classes} becomes zeros",
                "the number of classes was taken for the largest class, so nothing tells of the "
                "last one",
                "there is one class more than the number of the last one: .max() + 1",
            )
    return None


def _outside_classes(
    split: str, name: str, array: np.ndarray, classes: int, is_one_hot: bool
) -> Finding:
    """The finding for labels that are no class of the model."""
    outside = (array >= classes) | (array < 0)
    bad = int(outside.reshape(len(array), -1).any(axis=1).sum())
    become_zeros = "tf.one_hot encodes them as zeros, so no class is right"
    return wrong(
        f"{name} of {split} data range from {array.min()} to {array.max()}, but the model has "
        f"{classes} classes ({bad} examples outside)",
        become_zeros if is_one_hot else "their loss is NaN on a GPU and an error on the CPU",
        "number the classes from 0",
    )


def _in_training(lab: Laboratory, name: str) -> np.ndarray:
    """The labels of training examples, as their augmentation makes them if the data has one."""
    train = np.ravel(lab.examples["train"][name])
    if not lab.is_whole("train"):  # what is read of a stream may be of one class, in its order
        train = np.concatenate([train, _in_first_batches(lab, name)])
    given = np.ravel(lab.named_batch.get(name, train))
    return given if np.ptp(train) == 0 < np.ptp(given) else train


def _in_first_batches(lab: Laboratory, name: str) -> np.ndarray:
    """The labels of that name in the first batches, before they are augmented, as one axis."""
    batches = (dict(named_leaves(batch)) for batch in lab.plain_batches)
    return np.concatenate([np.ravel(arrays[name]) for arrays in batches])


def _is_known(lab: Laboratory) -> bool:
    """Whether as many training examples were read as a shuffle mixes, or all of them."""
    examples = next(iter(lab.examples["train"].values()))
    return lab.is_whole("train") or len(examples) >= SHUFFLE_BUFFER


def _unknown_labels(
    lab: Laboratory, split: str, name: str, train: np.ndarray, classes: int
) -> Finding | None:
    """Whether training data has only one label, or lacks labels of another split."""
    array, known = lab.examples[split][name], np.unique(train)
    if split == "train":
        if len(known) > 1 or len(array) == 1:
            return None
        others = [each[name] for each in lab.examples.values() if len(each.get(name, ()))]
        one_class = any(np.any(each != known[0]) for each in others)  # as to find anomalies
        # Without weights for each class, a label may be a place among candidates.
        is_class = _has_weights_for_each(lab, classes) if classes else not one_class
        is_class = is_class and _is_known(lab)
        return (wrong if is_class and _are_trained(lab, name) else look)(
            f"every label of the training data is {known[0]}",
            "a wrong column or threshold, or the data was split in the order of its labels",
            "look at the labels; or does it train on one class, to find others?",
        )
    unknown = np.setdiff1d(array, known)
    if not len(unknown) or len(known) >= len(train) / 2:
        return None
    if np.isin(unknown, IGNORED).all() and _are_handled(lab, name, unknown, split):
        return None
    part = int(np.isin(array, unknown).sum())
    # Identities or counts may well be new.
    are_classes = classes or len(known) < FEW
    is_wrong = part > NEW * len(array) and are_classes and _are_trained(lab, name)
    is_wrong = is_wrong and (not classes or _has_weights_for_each(lab, classes))
    # One of several labels may be the group, of which a split has other ones.
    is_wrong = is_wrong and _is_known(lab) and (name == "labels" or part < len(array))
    return (wrong if is_wrong else look)(
        f"{percent(part, len(array))} of the {split} labels, such as {unknown[0]}, never occur in "
        "training data",
        "labels are encoded differently, or the data was split by class",
        "shuffle before splitting, and encode the labels of all splits in the same way",
    )


def _other_shares(train: np.ndarray, array: np.ndarray, split: str) -> list[str]:
    """A class whose share is another in training, unless only the split marks missing ones."""
    if np.isin(np.setdiff1d(array, train), IGNORED).any():
        return []
    train, array = train[train >= 0], array[array >= 0]  # -1 marks those without a label
    known = np.unique(train)[:50]
    if min(len(array), len(train)) <= 50:  # a busy machine reads few in time
        return []
    here, there = (np.mean(y[:, np.newaxis] == known, axis=0) for y in (train, array))
    i = int(np.abs(here - there).argmax())
    seen = f"label {known[i]} is {here[i]:.0%} of training and {there[i]:.0%} of {split} data"
    return [seen] if abs(here[i] - there[i]) > 0.3 else []


def _told_by_missing(train: dict[str, np.ndarray]) -> Finding | None:
    """Whether labels are constant wherever other labels are missing, and vary elsewhere."""
    flat = arrays_of(train, "labels", "i", axes=(1,))
    for (name, a), (other, b), mark in (
        (*pair, mark) for pair in itertools.permutations(flat.items(), 2) for mark in IGNORED
    ):
        there, gone = (b[rows & ~np.isin(b, IGNORED)] for rows in (a != mark, a == mark))
        if len(gone) < 30 or np.ptp(gone) or not len(there):
            continue
        known = a[(a != mark) & ~np.isin(b, IGNORED)]
        if any(np.ptp(there[known == value]) for value in np.unique(known)):
            continue  # they aren't computed from the others
        if 0.05 < np.mean(there == gone[0]) < 0.95:
            # Where the inputs tell which are missing, such as those without a defect, there may be
            # nothing to label.
            split = {"train": train | {"labels": (a == mark).astype(int)}}
            rows = neighbors.points(split).get("train")
            by_chance = rows is not None and neighbors.agreement(rows, rows) < 0.2
            return (wrong if by_chance else look)(
                f"where {name} are missing ({mark}), {other} are always {gone[0]}",
                "they were computed from labels that were already masked, so the marker for a "
                "missing label was used as a label",
                "compute all labels first, then mask some",
            )
    return None


@relation("labels are mixed")
def labels_are_mixed(lab: Laboratory) -> Finding:
    """Batches of a stream contain all classes, about as often as the data does."""
    if not lab.batches.is_stream:
        return ok("not looked at: data that is not a stream is shuffled as a whole")
    known = {split: arrays["labels"] for split, arrays in lab.examples.items()
             if "labels" in arrays_of(arrays, "labels", "iu", axes=(1,))}  # fmt: skip
    if "train" not in known:
        return ok("not looked at: examples do not have exactly one label")
    of_batch = _in_first_batches(lab, "labels")
    # Of a long stream only some are read; then other splits tell which classes there are.
    splits = ["train"] if lab.is_whole("train") else known
    for split in splits:
        if split == "train" and not _is_known(lab):
            continue
        labels = known[split]
        classes, times = np.unique(labels, return_counts=True)
        shares, there = times / len(labels), np.array([np.mean(of_batch == c) for c in classes])
        drawn = np.random.default_rng(0).multinomial(len(of_batch), shares, 100) / len(of_batch)
        apart, by_chance = (_apart(x, shares, split == "train").max() for x in (there, drawn))
        if len(classes) < len(labels) / 10 and apart > by_chance + 0.2:
            return wrong(
                f"the first batches have labels of {np.count_nonzero(there)} classes, the data of "
                f"{len(classes)}",
                "the stream is sorted by label or in blocks, and the shuffle buffer is too small "
                f"to mix it ({SHUFFLE_BUFFER} examples)",
                "shuffle the files or rows before reading them, with a constant seed",
            )
    return ok()


def _apart(there: np.ndarray, shares: np.ndarray, are_of_training: bool) -> np.ndarray:
    """How different the shares of the classes (..., classes) are, from 0 to 2.

    Those of another split may be others on purpose, as where rare classes are drawn more often.
    Then only classes that are not there count.
    """
    if are_of_training:
        return np.asarray(np.abs(there - shares).sum(axis=-1))
    return np.asarray(2 * np.where(there == 0, shares, 0).sum(axis=-1))


@relation("labels belong to inputs")
def labels_belong_to_inputs(lab: Laboratory) -> Finding:
    """Similar examples have similar labels, within and between splits; maps lie the same way."""
    names = [name for name in lab.examples["train"] if name.startswith("labels")][:MOST_LABELS]
    found = [*maps.turned(lab.examples), *(_label_belongs(lab, name) for name in names)]
    return max(found, key=lambda each: ("ok", "look", "WRONG").index(each.verdict), default=ok())


def _label_belongs(lab: Laboratory, label: str) -> Finding:
    """Whether similar examples have similar labels, for labels of that name."""
    points = neighbors.points(lab.examples, label)
    splits = {name: split for name, split in points.items() if len(split.labels) >= 50}
    if "train" not in splits:
        return ok("not looked at: labels aren't one class or number of each example, or are few")
    own = {name: neighbors.agreement(p, p) for name, p in splits.items()}
    of = "" if label == "labels" else f" of {label}"
    best = max(own, key=own.__getitem__)
    for name, value in own.items():
        if own[best] > 0.5 and value < 0.25 * own[best]:
            # Labels of which many are wrong still agree with others a little.
            across = neighbors.agreement(splits[name], splits[best])
            is_sure = across < 0.25 * own[best]
            # Those of one class may be right, of which only a few have their label.
            is_sure &= not neighbors.tells_a_class(splits[name], splits[best])
            return (wrong if is_sure else look)(
                f"nearest neighbors have the same label{of} in {best} data ({own[best]:.2f}, "
                f"where 1 is always and 0 is chance), but not in {name} data ({value:.2f})",
                f"in {name} data, labels don't belong to their inputs: one was shuffled, shifted "
                "or sliced without the other",
                "compare some examples by eye",
            )
    for name, split in splits.items():
        train = splits["train"]
        known = np.isin(split.labels, train.labels) | (split.labels.dtype.kind == "f")
        if name == "train" or not known.any():  # as with other speakers in each split
            continue
        across = neighbors.agreement(split, train)
        # With a few recordings per split, only parts of the same recording are near.
        as_far = neighbors.agreement(train, train, neighbors.distance(split, train))
        if min(own[name], own["train"], 2 * as_far) > 0.5 and across < 0.25 * own[name]:
            return wrong(
                f"nearest neighbors within {name} data have the same label{of} ({own[name]:.2f}), "
                f"but those in the training data have another one ({across:.2f})",
                f"labels or inputs of {name} data are encoded differently (train/{name} skew)",
                "prepare every split with the same code",
            )
    # One of several labels may well be hard to predict.
    if label == "labels" and neighbors.tell_nothing(splits["train"]):
        if lab.learns_labels:
            alone = held_out.misplaced(lab) if _are_tables(lab.examples["train"]) else None
            if alone and lab.has_trained_enough:
                return wrong(
                    "neither an input feature nor the nearest neighbor predicts a label better "
                    f"than chance, and {alone.seen}",
                    "labels don't belong to their inputs: one was shuffled without the other",
                    "compare some examples by eye",
                )
            return ok("training predicts labels that neither a feature nor the nearest row does")
        # A sum or an order in a sequence is told by no part of it, and is learned late; and a weak
        # signal, as of claims, is told by many rows only.
        is_plain = _are_tables(lab.examples["train"]) or _are_pictures(lab.examples["train"])
        is_sure = is_plain and lab.learns_no_labels and lab.has_trained_enough
        is_sure = is_sure and not neighbors.many_rows_tell(lab.examples["train"])
        return (wrong if is_sure else look)(
            "neither an input feature nor the nearest neighbor predicts a label better than chance",
            "labels don't belong to their inputs: one was sorted or read in another order",
            "compare some examples by eye",
        )
    return ok(", ".join(f"{name} {value:.2f}" for name, value in own.items()))


def _are_tables(split: dict[str, np.ndarray]) -> bool:
    """Whether all inputs are columns, of which some are real numbers."""
    inputs = [*arrays_of(split, "inputs", "fiubOSU").values()]
    return any(x.dtype.kind == "f" for x in inputs) and all(
        x.ndim < 2 or (x.ndim == 2 and x.shape[1] <= MOST_OF_TABLE) for x in inputs
    )


def _are_pictures(split: dict[str, np.ndarray]) -> bool:
    """Whether all inputs are pictures, with channels or as squares."""
    inputs = [*arrays_of(split, "inputs", "fiubOSU").values()]
    return bool(inputs) and all(
        x.ndim == 4 or (x.ndim == 3 and x.shape[1] == x.shape[2]) for x in inputs
    )


@relation("data keeps up")
def data_keeps_up(lab: Laboratory) -> Finding:
    """Batches are ready faster than steps are computed."""
    _ = lab.losses_on_one_batch
    computing = lab.secs_per_step
    waiting = _secs_per_batch(lab)
    seen = f"a batch takes {waiting * 1e3:.1f} ms, a step {computing * 1e3:.1f} ms"
    if waiting > max(computing, SHORT):
        return look(
            f"{seen}, so steps wait for data", "",
            "load and augment in parallel, or cache the data in memory",
        )  # fmt: skip
    return ok(seen)


def _is_evaluated(lab: Laboratory) -> bool:
    """Whether the validation step runs on the data as it is."""
    try:
        return bool(lab.evaluated_splits and lab.evaluations)
    except Failed:
        return False


def _are_trained(lab: Laboratory, name: str) -> bool:
    """Whether a train step depends on these labels, and not only on which of them count."""
    given = lab.named_batch.get(name)
    if given is None:
        return True
    others = tf.roll(tf.cast(given == 0, given.dtype), 1, axis=1)
    try:
        other = lab.look(with_array(lab.batch, name, others))
    except Failed:
        return True
    counts_others = other.counted != lab.base.counted
    return not counts_others and bool(different(lab.base.losses, other.losses))


def _has_weights_for_each(lab: Laboratory, classes: int) -> bool:
    """Whether each class has its own weights; without them, a model may handle new classes."""
    return any(classes in v.shape for v in lab.run.trainable_variables)


def _are_handled(lab: Laboratory, name: str, labels: np.ndarray, split: str) -> bool:
    """Whether steps with all of these labels go well; on the CPU they would fail.

    Markers, for example for examples of no known class, may occur in evaluated data only.
    """
    batch = lab.named_batch.get(name)
    if batch is not None and lab.base.finite and bool(np.isin(labels, batch).all()):
        return True
    if split == "train":
        return batch is not None and _go_well(lab, name, labels[:MOST_MARKS])
    return bool(np.isin(labels, IGNORED).all()) and _is_finite(lab, split)


def _go_well(lab: Laboratory, name: str, labels: np.ndarray) -> bool:
    """Whether train steps with each of these labels are finite.

    The steps are real ones; where a label is so rare that none of them has it, it is put in place
    of the first one of the first batch.
    """
    steps = _steps_with(lab, name, labels)
    given = lab.named_batch[name]
    is_first = tf.reshape(tf.range(tf.size(given)) == 0, given.shape)
    for label in labels.tolist():
        put = with_array(lab.batch, name, tf.where(is_first, tf.cast(label, given.dtype), given))
        step, batch = steps.get(label, (0, put))
        try:
            if not lab.look(batch, step=step).finite:
                return False
        except Failed:
            return False
    return True


def _is_finite(lab: Laboratory, split: str) -> bool:
    """Whether all results of a split are finite; on the CPU, a wrong class would be an error."""
    if not _is_evaluated(lab):
        return False
    results = [v for n, v in lab.evaluations["once"].items() if n.startswith(f"{split}_")]
    return bool(results) and bool(np.isfinite(results).all())


def _classes(lab: Laboratory, name: str, labels: np.ndarray) -> tuple[int, bool]:
    """The number of classes of the outputs, if labels are class numbers; and whether a loss gets
    one-hot labels instead.
    """
    leaves = {n: np.ravel(t) for n, t in named_leaves(lab.batch) if n.startswith("labels")}
    of_batch = leaves.pop(name, np.zeros(0))
    others = [x for x in leaves.values() if x.dtype.kind in "fiub"]
    found = [(0.0, 0, False)]
    for loss, (given, predictions, _) in lab.base.all_calls:
        if not isinstance(given, np.ndarray) or not isinstance(predictions, np.ndarray):
            continue  # such as those of several outputs
        numbers = predictions.ndim == labels.ndim + 1
        is_one_hot = (
            numbers
            and given.shape == predictions.shape
            and predictions.shape[-1] > 1
            and np.isin(given, (0, 1)).all()
            and np.sum(given, axis=-1).max() == 1
        )
        is_sparse = "Sparse" in type(lab.run.losses[loss]).__name__ and (
            numbers or (labels.ndim > 1 and labels.shape[-1] == 1)
        )
        classes = np.ravel(np.argmax(given, axis=-1) if is_one_hot else given)
        if len(classes) != len(of_batch) or not (is_sparse or is_one_hot):
            continue
        # Other labels are computed from the batch, such as the row of the matching example.
        inside = (of_batch >= 0) & (of_batch < predictions.shape[-1])
        if not inside.any() or np.mean(classes[inside] == of_batch[inside]) <= 0.5:
            continue
        agree = _agreement(classes, of_batch)
        of_others = (_agreement(x, y) for x in (classes, np.ravel(given)) for y in others)
        if agree >= max(of_others, default=0.0):  # else it is the loss of another head
            found.append((agree, int(predictions.shape[-1]), bool(is_one_hot)))
    return max(found)[1:]


def _agreement(given: np.ndarray, labels: np.ndarray) -> float:
    """The share of some labels that a loss gets as they are, of those that aren't missing."""
    if given.shape != labels.shape:
        return 0.0
    known = (labels >= 0) & ~np.isin(labels, IGNORED)
    return float(np.mean(given[known] == labels[known])) if known.any() else 0.0


def _missing_in_one(a: np.ndarray, b: np.ndarray) -> int | None:
    """A column with missing values in `a` and none in `b`, which chance doesn't explain."""
    a, b = (np.isnan(x).reshape(len(x), -1) for x in (a, b))
    by_chance = np.power(1 - a.mean(axis=0), len(b))
    bad = a.any(axis=0) & ~b.any(axis=0) & (by_chance < BY_CHANCE)
    # Values that were not measured at first, or no longer, are missing in consecutive rows.
    turns = np.sum(a[1:] != a[:-1], axis=0)
    by_chance = 2 * len(a) * a.mean(axis=0) * (1 - a.mean(axis=0))
    bad &= (turns > 0.1 * by_chance) | a.all(axis=0)
    return int(bad.argmax()) if bad.any() else None


def _noise_of_splits(examples: dict[str, dict[str, np.ndarray]]) -> Finding | None:
    """Whether an array is another one plus a pattern that differs from split to split."""
    names = dict.fromkeys(name for arrays in examples.values() for name in arrays_of(arrays, ""))
    for name, other in itertools.permutations(reversed(names), 2):  # labels come first
        added = {
            split: _added(arrays[name], arrays[other])
            for split, arrays in examples.items() if {name, other} <= arrays.keys()
        }  # fmt: skip
        for (first, own), (split, noise) in itertools.combinations(added.items(), 2):
            if own is None or noise is None or own.shape != noise.shape:
                continue
            if not abs(np.corrcoef(own[1:], own[:-1])[0, 1]) < 0.5:
                continue  # it may be the average at each place
            if np.mean(np.abs(own - noise) > 1e-3 * own.std()) <= 0.3:
                continue
            are_both = "labels" in (name, other)  # else they may be stations with own averages
            return (wrong if are_both else look)(
                f"{other} are {name} plus noise: the same noise for all "
                f"{'training' if first == 'train' else first} examples, and another noise for all "
                f"{split} examples",
                "the noise has the shape of one example and is broadcast, so a model learns to "
                "subtract one pattern",
                "draw noise with the shape of all examples",
            )
    return None


def _added(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """For each place, what `y` has more than `x`; None if it varies.

    Where numbers are cut off, it is what `y` has where `x` has its usual value.
    """
    if x.shape != y.shape or np.prod(x.shape[1:]) < MANY_NUMBERS:
        return None
    x, y = (each[:MOST_ROWS].reshape(min(len(each), MOST_ROWS), -1) for each in (x, y))
    if x.dtype.kind == y.dtype.kind == "f":
        added = y.astype("f8") - x
        if added.std(axis=0).max() < 1e-3 * (noise := added.mean(axis=0)).std():
            return np.asarray(noise)
    values, times = np.unique(x, return_counts=True)
    there = x == values[times.argmax()]
    if there.mean() < 0.2:
        return None
    kept = there.sum(axis=0) >= 5
    low, high = np.where(there, y, np.inf).min(axis=0), np.where(there, y, -np.inf).max(axis=0)
    is_one = low[kept] == high[kept]
    if not kept.any() or is_one.mean() < 0.9 or np.ptp(low[kept]) == 0:
        return None
    return np.where(kept, low, 0)


def _are_filled(a: np.ndarray, b: np.ndarray, column: int) -> bool:
    """Whether `b` has one value as often as `a` misses values, but rarely has it, or misses all."""
    x, filled = (each.reshape(len(each), -1)[:, column] for each in (a, b))
    values, times = np.unique(filled, return_counts=True)
    usual, gone = np.mean(x == values[times.argmax()]), np.isnan(x).mean()
    is_more = times.max() / len(b) > usual + gone / 2
    return bool(is_more and (np.isnan(x).all() or usual < 0.05))


def _look_at_nan(lab: Laboratory) -> Look | None:
    """The step on the first batch that contains NaN; None if the first few contain none."""
    for step, batch in enumerate(lab.batches.dataset(0, SEARCHED_BATCHES)):
        floats = [t for t in tf.nest.flatten(batch) if t.dtype.is_floating]
        if any(np.isnan(t).any() for t in floats):
            return lab.look(batch, step=step)
    return None


def _secs_per_batch(lab: Laboratory) -> float:
    """Seconds per batch, from a cold start, so that no prefetched batches hide them."""
    times = [time.perf_counter()]
    times += (time.perf_counter() for _ in lab.batches.dataset(0, TIMED_BATCHES))
    # The first batch also contains the start of the pipeline.
    return (times[-1] - times[1]) / max(1, len(times) - 2)
