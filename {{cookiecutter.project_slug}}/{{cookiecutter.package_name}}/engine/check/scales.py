"""Relations of the numbers in the data: their scale, and numbers that mark missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..batches import worker_split
from ..random_access import RandomAccess
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import (
    Numbers,
    are_one_apart,
    arrays_of,
    different,
    named_leaves,
    numbers_of,
    percent,
    with_array,
)
from .probe import replaced

MANY = 0.2  # of the places of an array
FEW, MANY_VALUES = 0.02, 500_000  # of a split's values that training lacks; values compared
FEW_OTHERS = 10  # numbers of a column
FEWEST_GAPS = 5  # positions of series that have a sentinel
FAR = 4  # standard deviations
EXACT = 1e-5  # of a mean and a deviation that are not chance
MOST_NUMBERS = 20_000_000  # of training data that is concatenated with others
MOST_IMAGES = 100
SEVERAL = 5  # different numbers, which are then no signs
SMALL = (tf.int8, tf.uint8, tf.int16, tf.uint16)
ARITHMETIC = {"Mul": tf.multiply, "AddV2": tf.add, "Sub": tf.subtract}
MANY_NUMBERS = 100  # different ones, of a column that is no code
MOST_LABELS = 10  # of an example, which are all examined
FLAT, HALVES = 1e-6, 10  # of a loss, and of a number
MOST, MOST_COLUMNS = 2_000, 100  # rows and columns in which sentinels are searched for


@relation("marks")
def marks(lab: Laboratory) -> Finding:
    """No number in a table, a series or labels is a sentinel for a missing value."""
    jumps = _jumps(lab)
    if jumps and jumps.verdict == "WRONG":
        return jumps
    if filled := _filled_far_away(lab):
        return filled
    unsure: Finding | None = None
    for name, array in arrays_of(lab.examples["train"], "inputs").items():
        if array.ndim > 2:
            continue
        columns = array.reshape(len(array), -1)[:MOST].T
        for column, x in enumerate(columns[:MOST_COLUMNS]):
            if (mark := _mark(x)) is None:
                continue
            # 0 may be a measurement, also where its logarithm is taken of a little more.
            may_be_sure = bool(mark[2] and mark[0]) and not _is_of_zero(mark[0])
            if (unsure and not may_be_sure) or _leaves_out(lab, name, column, mark[0]):
                continue
            if mark[0] == 0 and _is_end(columns, column):
                continue
            found = _used_as_measurement(mark, f"column {column} of {name}")
            # Another column may tell these rows, as the end of an episode with its reward.
            if may_be_sure and not _is_flagged(lab.examples["train"], x == mark[0]):
                return wrong(*found)
            unsure = unsure or look(*found)
    if in_inputs := _mark_in_series(lab) or unsure:
        return in_inputs
    if in_maps := _mark_in_label_maps(lab):
        return in_maps
    for name, column, (number, times, _) in _marks_of_labels(lab.examples["train"]):
        if not _leaves_out(lab, name, column, number, of_label=True):
            rest = lab.examples["train"][name]
            is_code = number < 0 and number == round(number) and np.all(rest[rest != number] >= 0)
            if is_code and _leaves_out(lab, name, column, number, of_label=True, of_metrics=True):
                return wrong(
                    f"{times} values of column {column} of {name} are {number:g}: a metric leaves "
                    "them out, and no loss does",
                    "a number that stands for missing labels is trained as a label",
                    "leave them out of the loss by the same mask",
                )
            return look(  # labels may be 0 or very large
                f"{times} values of column {column} of {name} are {number:g}, far from all others",
                "a sentinel, a number that stands for missing labels, is used as a label in "
                "training and metrics",
                "keep NaN and exclude it from losses and metrics, unless this is intended",
            )
    return jumps or ok()


def _mark_in_label_maps(lab: Laboratory) -> Finding | None:
    """Whether a loss depends on the only negative number of a map of labels."""
    for name, array in arrays_of(lab.examples["train"], "labels", "f").items():
        if array.ndim < 3 or name not in lab.named_batch:
            continue
        some = array[:MOST_IMAGES]
        number, labels = float(np.nanmin(some)), lab.named_batch[name]
        rest = some[some > number]
        is_code = number < 0 and number == round(number) and rest.size and rest.min() >= 0
        if not is_code or np.mean(some == number) < 1e-3 or len(np.unique(rest)) < SEVERAL:
            continue
        changed = tf.where(labels == number, tf.cast(number - 1, labels.dtype), labels)
        other = lab.look(with_array(lab.batch, name, changed))
        if lab.base.trains_otherwise(other):
            return look(
                f"{np.mean(some == number):.0%} of {name} are {number:g}, no other is below 0, and "
                "the loss depends on that number",
                "it stands for what isn't known, and is trained as a label",
                "leave it out of the loss by a mask, unless it is a measurement",
            )
    return None


def _used_as_measurement(mark: tuple[float, int, bool], place: str) -> tuple[str, str, str]:
    """What is said of a sentinel, see `_mark`, in some place of the inputs."""
    return (
        f"{mark[1]} values of {place} are {mark[0]:g}, far from all others",
        "a sentinel, a number that stands for missing values, is used as a measurement",
        "replace it by NaN or by a mean, and add a column that marks missing values",
    )


def _is_of_zero(number: float) -> bool:
    """Whether a number is the logarithm of 1e-4, 1e-5, ... or 1e-16, as log(x + 1e-10) of 0 is."""
    power = number / np.log(10)
    return bool(-16.5 < power < -3.5 and abs(power - round(power)) < 1e-5)


def _mark_in_series(lab: Laboratory) -> Finding | None:
    """Whether a number of nines, far from all others, stands between others in a series.

    At the ends it may be padding, and other numbers may be rare events, such as a reward.
    """
    for name, array in arrays_of(lab.examples["train"], "inputs", axes=(3,)).items():
        for channel, x in enumerate(np.moveaxis(array[:MOST], 2, 0)[:MOST_COLUMNS]):
            known = x[np.isfinite(x)]
            ends = (known.min(), known.max()) if known.size else ()
            if not any(map(_is_of_nines, ends)):
                continue  # soon, as there may be many numbers
            mark = _mark(known)
            if mark is None or not mark[2] or not _is_of_nines(mark[0]):
                continue
            gone = x == mark[0]
            at_start, at_end = (np.logical_and.accumulate(each, axis=1)
                                for each in (gone, gone[:, ::-1]))  # fmt: skip
            inside = gone & ~at_start & ~at_end[:, ::-1]
            if inside.sum() < FEWEST_GAPS or _is_told(array, channel, mark[0]):
                continue
            if not _leaves_out(lab, name, channel, mark[0], where_it_stands=True):
                return wrong(*_used_as_measurement(mark, f"channel {channel} of {name}"))
    return None


def _is_of_nines(number: float) -> bool:
    """Whether a number is 9, 99, 999 and so on, or below 0."""
    return {*f"{abs(number):g}"} == {"9"}


def _is_flagged(train: dict[str, np.ndarray], gone: np.ndarray) -> bool:
    """Whether a column is 0 in some of the first rows, and mostly 1 elsewhere, or the reverse."""
    for array in arrays_of(train, "", "fiub").values():
        if array.ndim > 2 or len(array) < len(gone):
            continue
        columns = array.reshape(len(array), -1)[: len(gone), :MOST_COLUMNS].astype("f8")
        are_flags = np.isin(columns, (0, 1)).all(axis=0) & (np.ptp(columns[gone], axis=0) == 0)
        apart = np.abs(columns[gone].mean(axis=0) - columns[~gone].mean(axis=0))
        if (are_flags & (apart > 0.6)).any():
            return True
    return False


@relation("known values")
def known_values(lab: Laboratory) -> Finding:
    """Integers and strings of every split also occur in the training data."""
    for name, array in arrays_of(lab.examples["train"], "inputs", "iuOSU").items():
        known = set(array.ravel()[:MANY_VALUES].tolist())
        if len(known) > min(array.size, MANY_VALUES) / 10:  # such as customer numbers
            continue
        for split, other in lab.held_out(name).items():
            values = other.ravel()[:MANY_VALUES].tolist()
            unseen = sum(value not in known for value in values)
            if unseen > FEW * len(values):
                return look(
                    f"{percent(unseen, len(values))} of {name} in {split} data are values that "
                    "never occur in training data",
                    "the splits are normalized, tokenized or numbered differently",
                )
    return ok()


@relation("sizes")
def sizes(lab: Laboratory) -> Finding:
    """Inputs and labels are on a scale of about 1, not constant, and no integer overflows."""
    inputs = arrays_of(lab.examples["train"], "inputs")
    found = (_size_of_inputs(lab, name, array) for name, array in inputs.items())
    of_inputs = next(filter(None, found), None)
    return _overflows(lab) or of_inputs or _scaled_twice(lab) or _size_of_labels(lab) or ok()


def _overflows(lab: Laboratory) -> Finding | None:
    """Whether the function that loads rows computes in integers that are too small."""
    train = worker_split(lab.datasets["train"])
    if not isinstance(train, RandomAccess) or train.load is None:
        return None
    load, ops = train.load, list[tf.Operation]()

    @tf.function
    def operands(row: Any) -> list[list[tf.Tensor]]:
        load(row)
        ops[:] = [op for op in tf.compat.v1.get_default_graph().get_operations()
                  if op.type in ARITHMETIC and op.outputs[0].dtype in SMALL]  # fmt: skip
        return [[tf.cast(x, tf.int64) for x in op.inputs] for op in ops]

    for row in range(min(MOST_IMAGES, len(train))):
        numbers_of_ops = operands(train.row(row))
        if not ops:
            return None
        for op, numbers in zip(ops, numbers_of_ops, strict=True):
            dtype, exact = op.outputs[0].dtype, ARITHMETIC[op.type](*numbers)
            if tf.reduce_any((exact < dtype.min) | (exact > dtype.max)):
                return wrong(
                    f"{op.type.lower()} of {dtype.name} in the function that loads rows makes "
                    f"numbers beyond {dtype.min} to {dtype.max}",
                    "integers overflow: they wrap around, in silence",
                    "cast to float32 before the arithmetic, not after it",
                )
    return None


def _size_of_inputs(lab: Laboratory, name: str, array: np.ndarray) -> Finding | None:
    """Whether inputs of training data are constant, too large or too small."""
    if len(array) > 1 and array.size and np.ptp(array) == 0:
        is_only_one = sum(each.startswith("inputs") for each in lab.examples["train"]) == 1
        # Steps and augmentations may draw the examples; a mask may be all ones.
        read = [numbers_of(call.arguments) for call in lab.calls_in_training]
        is_read = bool(read) and all(x is not None and np.ptp(x) == 0 for x in read)
        return (wrong if is_only_one and is_read else look)(
            f"{name} of training data are all {array.flat[0]:g}"
        )
    if (constant := _almost_constant(array)) is not None:
        usual, share, rare = constant
        return look(
            f"{name} are {usual:g} in {share:.0%} of all places, and {rare:g} elsewhere",
            "integers were divided by integer division, or numbers were cast to integers too early",
            "cast to float first, then scale",
        )
    highest = _reach(array.ravel()[:MANY_VALUES])
    numbers = _too_large(lab) if highest > 100 and not lab.normalizes else np.zeros(0)
    if (given := _reach(numbers)) > 100:
        return (look if _are_centered_pixels(numbers) else wrong)(
            f"{name} reach {highest:.4g}, and the first layer with weights gets numbers up to "
            f"{given:.4g}, because no layer scales them",
            "inputs are not scaled, but networks learn best from inputs of about 1",
            "scale them, for example with keras.layers.Normalization",
        )
    if 0 < highest < 0.02 and not _rescales(lab):
        return look(
            f"{name} reach {highest:.2g} at most, and the model has no layer that scales them",
            "they were scaled (divided) twice, or by the wrong number",
            "scale them once, to about 1",
        )
    return None


def _size_of_labels(lab: Laboratory) -> Finding | None:
    """Whether labels of training data are constant or very large."""
    train = lab.examples["train"]
    for name, array in arrays_of(train, "labels", "biuf").items():
        if array.ndim == 1 and array.dtype.kind in "iu":
            continue  # the relation `labels` looks at them
        if len(array) > 1 and array.size and (array == array.flat[0]).all():
            return look(
                f"{name} of training data are all {array.flat[0]:g}",
                "what is the same for all examples teaches nothing: a wrong column or threshold",
            )
    labels = arrays_of(train, "labels").get("labels", np.zeros(1))
    if labels.size and np.nanstd(labels) > 1000 and not _rescales(lab):
        return look(
            f"labels have a standard deviation of {np.nanstd(labels):.3g}",
            "outputs start near 0, and an optimizer needs many steps to reach such values",
            "scale labels, and scale predictions back",
        )
    return None


@relation("scaled by training data")
def scaled_by_training_data(lab: Laboratory) -> Finding:
    """No split is scaled with its own statistics, nor with those of all splits together."""
    for name, array in arrays_of(lab.examples["train"], "").items():
        if name.startswith("weights") or not array.size:
            continue
        others = {split: other for split, other in lab.held_out(name).items() if len(other)}
        in_groups = _has_groups(_filled(array[: MOST_NUMBERS // array[0].size + 1]))
        if in_groups and array.ndim <= 2:
            continue  # a split may be one of these groups
        same = [split for split, other in others.items() if other.shape[1:] == array.shape[1:]]
        if array.size > MOST_NUMBERS or not name.startswith("inputs") or _scaled_by_itself(array):
            same = []  # too much to join, or scaled correctly
        for names in (same, *([split] for split in same if len(same) > 1)):
            together = np.concatenate([array, *(others[split] for split in names)])
            if names and (how := _scaled_by_itself(together)):
                return wrong(
                    f"{name} of train and {' and '.join(names)} data together {how}",
                    "data leakage between splits: all are scaled with statistics that include "
                    "what the model is validated or tested on",
                    "split the data first, then scale with the statistics of the training data",
                )
        for split, other in others.items():
            how = _scaled_by_itself(other) if other.dtype.kind == "f" else ""
            if how and not in_groups:  # each scan may be scaled by itself, and a split be one scan
                return wrong(
                    f"{name} of {split} data {how}",
                    "the split is scaled with its own statistics, so it is not on the scale of "
                    f"the training data (train/{split} skew)",
                    "scale every split with the statistics of the training data",
                )
    return ok()


@relation("scale")
def scale(lab: Laboratory) -> Finding:
    """Inputs and labels of every split are on the scale of the training data."""
    train = lab.examples["train"]
    batch = dict(named_leaves(lab.batch if lab.batches.augment else ()))
    augmented = {n: np.asarray(t[0]) for n, t in batch.items() if t.dtype.is_floating}
    for name, array in (_made_by_augmentation(lab) | train).items():
        is_label = name.startswith("labels")
        if array.dtype.kind not in ("f" if is_label else "fiu") or len(array) < 2:
            continue
        for split, other in lab.held_out(name).items() if not name.startswith("weights") else ():
            if len(other) < 10 or not other.size:
                continue
            if is_label and other.shape[1:] != array.shape[1:]:
                continue  # such as classes, where training has votes
            made = None if is_label else augmented.get(name)
            if found := _compared(name, split, array, other, made):
                cause = "create_augment makes them differently from create_datasets"
                return found if name in train else found._replace(cause=cause)
    return ok()


def _compared(
    name: str, split: str, array: np.ndarray, other: np.ndarray, augmented: np.ndarray | None
) -> Finding | None:
    """Whether the numbers of a split aren't on the scale of those of training."""
    are_images = array.dtype == np.uint8 and array.ndim > 3
    if array.dtype.kind != "f" and not are_images:
        return None
    a, b = (_filled(x[:: 1 + x.size // MOST_NUMBERS]) for x in (array, other))
    (mean, spread), (mean_other, spread_other) = ((x.mean(), x.std()) for x in (a, b))
    if not spread > 0:
        return None
    fix = "scale every split in the same way, with the statistics of the training data"
    reach, reach_other = (max(np.abs(x).max(), 1e-12) for x in (a, b))
    ratio = spread_other / spread
    # One row may be very large, or many that training doesn't have; another scale is that of all.
    ratios = [ratio, reach_other / reach]
    ratios += [_usual_size(b, share) / _usual_size(a, share) for share in (0.1, 0.9)]
    if not any(0.2 < each < 5 for each in ratios):
        # The same in all rows it may stand for what this split doesn't have.
        return (wrong if np.ptp(other, axis=0).any() else look)(
            f"{name} of {split} data reach {reach_other:.3g}, those of training data {reach:.3g}",
            "one split is scaled, and the other is not",
            fix,
        )
    if are_images:
        return None
    beyond = _beyond(a, b) if name.startswith("inputs") else ""
    if beyond and array.ndim > 2:
        return (wrong if array.ndim > 3 else look)(  # a series may rise
            f"{name} of training data are, {beyond} the range of {split} data",
            "the splits are scaled differently",
            fix,
        )
    if augmented is not None and not beyond and (moved := _beyond(_filled(augmented), b)):
        is_noise = abs(_filled(augmented).mean() - mean) < 0.1 * spread
        return (look if is_noise else wrong)(
            f"{name} of augmented training data are, {moved} the range of {split} data",
            "create_augment scales training data, and nothing scales the other splits",
            "scale in create_datasets or in the model, for every split",
        )
    if abs(mean - mean_other) / spread > 1.0 or not 0.4 < ratio < 2.5:
        return look(
            f"{name} of {split} data have mean {mean_other:.3g} and standard deviation "
            f"{spread_other:.3g}, those of training data {mean:.3g} and {spread:.3g}",
            "splits are scaled differently, or come from different parts of the data",
        )
    if (column := _worst_column(a, b)) is not None:
        return look(
            f"column {column} of {name} is on another scale in {split} data than in training data",
            "splits are scaled differently, or columns are in a different order",
        )
    return None


def _usual_size(x: np.ndarray, share: float) -> float:
    """The largest number of a row, which a share of the rows that aren't all 0 doesn't exceed."""
    sizes = np.abs(x.reshape(len(x), -1)).max(axis=1)
    several = sizes[sizes > 0]
    return float(np.quantile(several, share, method="lower")) if len(several) else 1e-12


def _series(lab: Laboratory) -> Iterator[tuple[str, np.ndarray]]:
    """Inputs, labels or windows as series (rows, positions, channels), with their names."""
    train = lab.examples["train"]
    for name, array in train.items():
        if array.dtype.kind != "f" or not array.size:
            continue
        if name.startswith("labels") and array.size == len(array):
            windows = arrays_of(train, "inputs", axes=(2, 3)).values()
            if any(len(x) == len(array) and are_one_apart(x) for x in windows):
                yield name, array[:MANY_VALUES].reshape(1, -1, 1)
            continue
        if array.ndim < 2 or not 3 <= array.shape[1] <= MANY_VALUES:
            continue
        rows = max(1, MANY_VALUES // array.shape[1])
        if name.startswith("inputs") and array.ndim == 3:
            yield name, array[:rows]
        elif array.ndim == 2 and (name.startswith("labels") or are_one_apart(array)):
            yield name, array[:rows, :, np.newaxis]


def _beyond(a: np.ndarray, b: np.ndarray) -> str:
    """In how many places numbers of `a` are clearly below or above all of `b`; "" if in few."""
    low, high = b.min(), b.max()
    margin = 0.25 * (high - low)
    below, above = np.mean(a < low - margin), np.mean(a > high + margin)
    if max(below, above) <= MANY:
        return ""
    return f"in {max(below, above):.0%} of all places, {'below' if below > above else 'above'}"


def _is_end(columns: np.ndarray, column: int) -> bool:
    """Whether 0 in a column stands at the ends of series of several lengths."""
    ends = columns[:, columns[column] == 0]
    if column + 1 < len(columns):
        return not ends[column:].any()
    return column > 0 and not ends[column - 1].all()


def _mark(x: np.ndarray) -> tuple[float, int, bool] | None:
    """A number of a column that repeats, far from all others; how often; whether very far."""
    values, times = np.unique(x[np.isfinite(x)].astype("f8"), return_counts=True)
    if len(values) < 10:
        return None
    several = len(values) > min(times.sum() / 4, MANY_NUMBERS)  # most occur once or a few times
    for end, rest in ((0, values[1:]), (-1, values[:-1])):
        far, width = np.abs(rest - values[end]).min(), np.ptp(rest)
        often = times[end] >= max(5, times.sum() / 100, 3 * np.delete(times, end).max())
        is_very_far = times[end] >= 3 and far > 3 * width
        if is_very_far or (several and often and far > width / 4):
            return float(values[end]), int(times[end]), bool(is_very_far)
    return None


def _marks_of_labels(
    train: dict[str, np.ndarray],
) -> Iterator[tuple[str, int, tuple[float, int, bool]]]:
    """Sentinels in labels, in rows with a weight, unless another label marks these rows."""
    tables = {
        n: a[:MOST].reshape(min(MOST, len(a)), -1)
        for n, a in train.items()
        if a.ndim <= 2 and a.dtype.kind in "fiu" and a[:1].size in range(1, MOST_LABELS)
    }
    labels = {n: a for n, a in tables.items() if n.startswith("labels")}
    for name, table in labels.items():
        for column, x in enumerate(table.T if table.dtype.kind == "f" else ()):
            counts = np.ones(len(x), bool)
            for other, weights in tables.items():
                if other.startswith("weights") and len(weights) == len(x):
                    counts &= weights[:, min(column, weights.shape[1] - 1)] != 0
            if (mark := _mark(x[counts])) is None:
                continue
            gone = x == mark[0]
            if not any(
                np.ptp(y[gone]) == 0 and not np.isin(y[gone][0], y[~gone])
                for other, each in labels.items() for i, y in enumerate(each.T)
                if (other, i) != (name, column)
            ):  # fmt: skip
                yield name, column, mark


def _filled_far_away(lab: Laboratory) -> Finding | None:
    """Whether missing values become a number far from all others before they are normalized."""
    leaves = [np.asarray(t[0]) for t in tf.nest.flatten(lab.batch[0]) if t.dtype.is_floating]
    missing = {x.shape: np.isnan(x) for x in leaves if np.isnan(x).any()}
    layers = [x for x in lab.run.layers if isinstance(x, keras.layers.Normalization)]
    for call in lab.training_calls(lab.batch, layers) if missing and layers else ():
        x = numbers_of(call.arguments)
        if x is None or (gone := missing.get(x.shape)) is None or not np.isfinite(x).all():
            continue
        columns = zip(*(each.reshape(len(x), -1).T for each in (x, gone)), strict=True)
        for column, (numbers, away) in enumerate(columns):
            filled, known = numbers[away], numbers[~away]
            if not len(filled) or len(known) < FEW_OTHERS or np.ptp(filled) or not known.std():
                continue
            apart = (filled[0] - known.mean()) / known.std()
            is_outside = not known.min() <= filled[0] <= known.max()
            if is_outside and abs(apart) > FAR and _matters(lab, call.of, gone):
                return wrong(
                    f"missing values of column {column} become {filled[0]:g} before they are "
                    f"normalized, {abs(apart):.0f} standard deviations from the mean of the others",
                    "a number that is rare or impossible there stands for what isn't known",
                    "normalize first, and then replace NaN by 0, which is the mean",
                )
    return None


def _matters(lab: Laboratory, layer: keras.layers.Layer, places: np.ndarray) -> bool:
    """Whether any loss depends on the numbers that a layer gets in some places."""

    def moved(_: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, *others: call(tf.where(places, tf.roll(x, 1, axis=0) + 1, x), *others)

    step, run = lab.run.functions.train_steps[0], lab.run
    with replaced([(layer, "call")], moved):
        others = lab.compute(step, run, lab.batch)
    return bool(different(lab.compute(step, run, lab.batch), others))


def _jumps(lab: Laboratory) -> Finding | None:
    """Whether a series jumps to a number and back, as if it replaced missing values."""
    drops = {
        f"channel {channel} of {name}": (
            value,
            _come_regularly(x, value) or _is_told(array, channel, value),
        )
        for name, array in _series(lab)
        for channel, x in enumerate(np.moveaxis(array[:MOST], 2, 0)[:MOST_COLUMNS])
        if (value := _drops_to(x)) is not None and not _leaves_out(lab, name, channel, value)
    }
    if not drops:
        return None
    (place, (value, _)), *_ = drops.items()
    # Inputs may be masked on purpose, and a shop may be closed on each seventh day, or on holidays
    # that another channel tells.
    are_forecast = any(" of inputs" in each for each in drops) and any(
        " of labels" in each for each in drops
    )
    is_sure = are_forecast and not any(is_known for _, is_known in drops.values())
    return (wrong if is_sure else look)(
        f"{place} jumps to {value:g} and back again and "
        f"again{', and so do the values to predict' if are_forecast else ''}",
        "a sentinel, a number that stands for missing values, is used as a measurement",
        "keep NaN and exclude it from the loss, or fill inputs with the previous value and add a "
        "channel that marks missing values",
    )


def _drops_to(x: np.ndarray) -> float | None:
    """A number that a series (rows, positions) jumps to and back from, between similar values."""
    before, here, after = (x[:, i : x.shape[1] - 2 + i].ravel() for i in range(3))
    whole = np.isfinite(before) & np.isfinite(here) & np.isfinite(after)
    before, here, after = before[whole], here[whole], after[whole]
    values, times = np.unique(here, return_counts=True)
    if len(values) < 20:
        return None
    for value in {values[0], values[-1], values[times.argmax()]}:
        alone = (here == value) & (before != value) & (after != value)
        others = (here != value) & (before != value)
        if alone.sum() < max(5, 0.001 * len(here)) or not others.any():
            continue
        usual = np.quantile(np.abs(here - before)[others], 0.99)
        jump = np.minimum(np.abs(here - before), np.abs(here - after))[alone]
        apart = np.abs(before - after)[alone]
        if np.mean((jump > 2 * usual) & (apart < 2 * usual)) > 0.8:
            return float(value)
    return None


def _come_regularly(x: np.ndarray, value: float) -> bool:
    """Whether a number recurs at equal distances in series, or in that of windows."""
    rows, positions = np.nonzero((x[:, :1].T if are_one_apart(x) else x) == value)
    apart = np.diff(positions)[np.diff(rows) == 0]
    return bool(len(apart) and np.bincount(apart).max() > len(apart) / 2)


def _is_told(array: np.ndarray, channel: int, value: float) -> bool:
    """Whether another channel of 0 and 1 tells where a channel is a number, or the day before."""
    gone = array[:, 1:-1, channel] == value
    for other in range(min(array.shape[2], MOST_COLUMNS)):
        flags = array[..., other]
        if other == channel or not np.isin(flags, (0, 1)).all():
            continue
        for at in range(3):
            told = flags[:, at : at + gone.shape[1]] == 1
            if (told & gone).sum() > 0.9 * max(gone.sum(), told.sum()):
                return True
    return False


def _almost_constant(array: np.ndarray) -> tuple[float, float, float] | None:
    """Of images with two values, one nearly everywhere: this value, its fraction, the other."""
    if array.dtype.kind != "f" or array.ndim < 3 or not array.size:
        return None
    some, (a, b) = array[:MOST_IMAGES], array.shape[1:3]
    is_code = array.shape[-1] > 2 and np.isin(some.sum(axis=-1), (0, 1)).all()
    if is_code or (a == b and np.array_equal(some, some.swapaxes(1, 2))):  # edges of a graph
        return None
    values, times = np.unique(array.ravel()[:MANY_VALUES], return_counts=True)
    share = times.max() / times.sum()
    if len(values) != 2 or share < 0.9:
        return None
    return float(values[times.argmax()]), float(share), float(values[times.argmin()])


def _filled(array: np.ndarray) -> np.ndarray:
    """The array with each value that isn't finite replaced by the mean of its column."""
    x = np.asarray(array, "f8")
    there = np.isfinite(x)
    means = 0 if there.all() else np.ma.filled(np.ma.array(x, mask=~there).mean(axis=0), 0)
    return np.where(there, x, means)


def _scaled_by_itself(array: np.ndarray) -> str:
    """How a split is scaled by exactly its own statistics; "" if it isn't."""
    x, there = _filled(array), np.isfinite(array)
    by_row = x.reshape(len(x), -1)
    if len(x) < 30 or (x.ndim > 2 and np.abs(by_row.mean(axis=1)).max() < EXACT):
        return ""  # too few rows, or each example is scaled by itself
    columns = by_row if x.ndim <= 2 else by_row.reshape(-1, 1)
    changing, number = np.ptp(columns, axis=0) > 0, there.reshape(columns.shape).sum(axis=0)
    means = columns.mean(axis=0)
    squares = np.square(columns - means).sum(axis=0)
    unit = np.logical_or.reduce([  # the defaults of NumPy and of pandas
        np.abs(np.sqrt(squares / np.maximum(1, number - ddof)) - 1) < EXACT for ddof in (0, 1)
    ])  # fmt: skip
    if (changing & (np.abs(means) < EXACT) & unit).any():
        groups = _has_groups(x if x.ndim > 2 else columns[:, changing])
        return "" if groups else "have mean 0 and standard deviation 1 exactly"
    # Counts may have it by chance, and some of many columns that others' statistics have scaled.
    real = changing & (columns % 1).any(axis=0)
    least = min(2, columns.shape[1])
    if x.ndim <= 2 and np.sum(unit & real) >= max(least, 0.1 * real.sum()):
        return "have standard deviation 1 exactly"
    ends = columns.min(axis=0) == 0, columns.max(axis=0) == 1
    once = np.sum((columns == 0) | (columns == 1), axis=0) == 2
    steps = np.diff(np.sort(columns, axis=0), axis=0)
    once &= np.ptp(steps, axis=0) > EXACT  # else a grid
    once &= np.mean(steps > 0, axis=0) > 0.5  # else shares, such as of 20 votes
    if x.ndim <= 2 and np.sum(ends[0] & ends[1] & once) >= max(least, 0.5 * real.sum()):
        return "range from 0 to 1 exactly"
    return ""


def _has_groups(x: np.ndarray) -> bool:
    """Whether rows are scaled in groups, such as each patient or plate by itself.

    Rows are tables (rows, columns), where one such column suffices, or (rows, ...) of one unit.
    """
    rows = x.reshape(len(x), -1)
    powers = rows, rows**2
    if x.ndim > 2:
        powers = rows.mean(axis=1, keepdims=True), powers[1].mean(axis=1, keepdims=True)
    number = np.arange(3, len(x) - 2)[:, np.newaxis]  # of the first rows
    sums, squares = (np.cumsum(each, axis=0)[2:-3] for each in powers)
    ends = np.abs(sums) < 10 * EXACT
    return any(bool(np.any(ends & (np.abs(squares - number + ddof) < 1e-2))) for ddof in (0, 1))


def _worst_column(a: np.ndarray, b: np.ndarray) -> int | None:
    """A feature of a table that is on another scale in `b`."""
    if a.ndim != 2 or a.shape[1] < 2 or a.shape[1:] != b.shape[1:] or len(b) < 30:
        return None
    spread = a.std(axis=0)
    usable = spread > 1e-9 * (np.abs(a).max(axis=0) + 1e-12)
    shift = np.abs(a.mean(axis=0) - b.mean(axis=0)) / np.where(usable, spread, 1)
    ratio = b.std(axis=0) / np.where(usable, spread, 1)
    # Where nearly all numbers of a column are one, few others say nothing of a scale.
    several = [(np.abs(x - np.median(a, axis=0)) > 0).sum(axis=0) >= FEW_OTHERS for x in (a, b)]
    usable &= several[0] | several[1]
    bad = usable & ((shift > 2) | (ratio > 5) | (ratio < 0.1))
    return int(np.flatnonzero(bad)[0]) if bad.any() else None


def _leaves_out(
    lab: Laboratory,
    name: str,
    column: int,
    value: float,
    *,
    of_label: bool = False,
    of_metrics: bool = False,
    where_it_stands: bool = False,
) -> bool:
    """Whether losses, or metrics, treat a number of a column or channel unlike one nearby.

    In all rows and positions, or only where it stands in the first batch.
    """
    given = lab.named_batch.get(name)
    if given is None:  # create_augment gives it another name, or nothing
        return True
    numbers = np.array(given)  # a copy: the batch stays as it is
    are_several = numbers.ndim > 2 and (of_label or name.startswith("inputs"))
    flat = numbers.reshape(-1, numbers.shape[-1] if are_several else 1)  # a view of it
    places = (flat[:, column] == value) | (not where_it_stands)

    def at(number: float) -> Numbers:
        flat[places, column] = number
        batch = with_array(lab.batch, name, tf.constant(numbers))
        step = lab.run.functions.train_steps[0]
        found = lab.compute(step, lab.run, batch, metrics=of_metrics)
        # Of a metric with several results each is called metric/result.
        return {n: x for n, x in found.items()
                if (n.partition("/")[0] in lab.run.metrics) == of_metrics}  # fmt: skip

    near = value + 1e-3 * (abs(value) or float(np.nanstd(numbers)))
    of_value, of_near = at(value), at(near)
    if value and not different(of_value, of_near, FLAT):
        return _is_beyond_a_bound(of_value, at, value)
    if different(of_value, of_near, 0.05):
        return True
    # A share of the loss may be small; without a mask it changes by as much from there on.
    further = at(2 * near - value)
    return any(
        abs(of_value[n] - x) > 10 * abs(x - further[n]) + 1e-5 * abs(x) for n, x in of_near.items()
    )


def _is_beyond_a_bound(of_value: Numbers, at: Callable[[float], Numbers], value: float) -> bool:
    """Whether numbers as large are all left out, and not only saturated, as by a tanh.

    The loss jumps at a bound, and leaves a saturation slowly.
    """
    if different(of_value, at(2 * value), FLAT):
        return False
    nearer = (at(value / 2**halves) for halves in range(1, HALVES + 1))
    other = next((losses for losses in nearer if different(of_value, losses, FLAT)), None)
    return other is None or bool(different(of_value, other, 0.05))


def _reach(numbers: np.ndarray) -> float:
    """How large numbers are, without the largest, which may be sentinels for missing values."""
    sizes = np.abs(numbers)
    return float(np.nanpercentile(sizes, 99)) if np.isfinite(sizes).any() else 0.0


def _too_large(lab: Laboratory) -> np.ndarray:
    """The inputs of the first Keras layer with a matrix, unless its weights are small; or none."""
    step = lab.run.functions.train_steps[0]
    calls = lab.calls(step, lab.run, lab.batch, lab.layers_with_matrices)
    if not calls:
        return np.zeros(0)
    given = np.asarray(tf.nest.flatten(calls[0].arguments)[0], "f8")
    kernel = next(v.numpy() for v in calls[0].of.weights if len(v.shape) > 1)
    size = float(np.sqrt(np.sum(kernel**2) / kernel.shape[-1]))  # of the weights of an output
    return given if size * _reach(given.ravel()) > 10 else np.zeros(0)


def _scaled_twice(lab: Laboratory) -> Finding | None:
    """Whether a layer that scales bytes to about 1 gets inputs of about 1."""
    rescaling = [x for x in lab.run.layers if isinstance(x, keras.layers.Rescaling)]
    layers = [x for x in rescaling if np.max(np.abs(x.scale)) <= 1 / 100]
    inputs = [t[0] for t in tf.nest.flatten(lab.batch[0]) if t.dtype != tf.string]
    for call in lab.calls(lab.run.functions.train_steps[0], lab.run, lab.batch, layers):
        x = numbers_of(call.arguments)
        if x is None or not 0 < np.abs(x).max(initial=0) <= 2:
            continue
        # A later layer may scale a branch down on purpose.
        if any(np.array_equal(x, each) for each in inputs):
            return wrong(
                f"{call.of.name} multiplies its inputs by {np.max(call.of.scale):.2g}, but they "
                f"already range from {x.min():.3g} to {x.max():.3g}",
                "inputs are scaled twice, because they were divided before, so later layers see "
                "hardly any difference",
                "scale inputs once: in create_datasets, or in the model",
            )
    return None


def _are_centered_pixels(numbers: np.ndarray) -> bool:
    """Whether these are bytes minus a mean, which some models expect."""
    is_centered = abs(numbers.mean()) < numbers.std() / 2 and numbers.min() < -numbers.max() / 10
    return bool(numbers.ndim == 4 and is_centered and np.ptp(numbers) <= 255 * 1.01)


def _rescales(lab: Laboratory) -> bool:
    """Whether a layer scales inputs, however small."""
    kinds = keras.layers
    some = kinds.Normalization, kinds.Rescaling, kinds.UnitNormalization, kinds.Embedding
    return any(isinstance(layer, some) for layer in lab.run.layers)


def _made_by_augmentation(lab: Laboratory) -> dict[str, np.ndarray]:
    """The parts of training examples that only the augmentation makes, as a step gets them."""
    first, second = (dict(named_leaves(batch)) for batch in (lab.batch, lab.second_batch))
    new = first.keys() - lab.examples["train"].keys()
    return {n: np.concatenate([first[n][0], second[n][0]]) for n in first if n in new}
