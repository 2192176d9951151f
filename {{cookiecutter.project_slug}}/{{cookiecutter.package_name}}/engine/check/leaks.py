"""Relations of inputs that reveal the label (target leakage)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import (
    FEW,
    MOST_COMPARED,
    TOLERANCE,
    are_one_apart,
    arrays_of,
    relative_difference,
    with_array,
)
from .probe import Look

MOST = 2_000  # rows in which the label is searched for
MOST_CORRELATED = 1_000_000  # rows, about
AROUND = 4  # positions before and after one, over which a series may be smoothed
MOST_SUMMED = 48  # positions before the end of a window, over which a mean is looked for
MOST_FITTED = 400  # weights of such a mean
MOST_POSITIONS = 20_000  # of all series
MOST_CHANNELS = 100  # of a series
FEW_ROWS = 50  # in which a head is compared with each number of the inputs
LEAKED = "target leakage: the inputs contain the answer"
REMOVE = "remove it from the inputs"
CENTERED = (
    "look-ahead: a series is smoothed with a centered window before it is cut into windows, so the "
    "last inputs contain the values to forecast",
    "smooth over earlier positions only",
)


@relation("inputs without the answer")
def inputs_without_the_answer(lab: Laboratory) -> Finding:
    """No input contains the label, or the label in another form (target leakage)."""
    train = lab.examples["train"]
    if found := (
        _label_among_ids(train)
        or _often_among_ids(train)
        or _smoothed_over_answers(train)
        or _mean_with_answers(train)
        or _begins_too_early(lab)
        or _between_neighbors(train)
        or _label_held(lab)
    ):
        return found
    answers = np.asarray(train.get("labels", np.zeros(0)))
    if answers.dtype.kind not in "fiu" or answers.size != len(answers) or len(answers) < 20:
        return ok("not looked at: examples do not have exactly one label")
    if lab.declared_interacting:  # what is to be found among those of the batch is an input, too
        return ok("not looked at: the task says that its examples interact")
    is_real, y = answers.dtype.kind == "f", np.nan_to_num(answers.astype("f8").ravel())
    for name, array in arrays_of(train, "inputs", "fiu").items():
        found = _label_as_it_is(lab, name, y) if is_real and array.dtype.kind == "f" else None
        if not found and array.ndim <= 2:
            found = _column_that_tells(lab, name, y, is_real)
        if found:
            return found
    return ok()


def _begins_too_early(lab: Laboratory) -> Finding | None:
    """Whether the first of several next values, which the loss compares, is the last known one."""
    train = lab.examples["train"]
    y = train.get("labels", np.zeros(0))[:MOST]
    if y.dtype.kind != "f" or y.ndim != 2 or y.shape[1] < 2 or np.ptp(y[:, 0]) == 0:
        return None
    there = np.isfinite(y[:, 0])  # the others are missing
    if there.mean() < 0.5:
        return None
    for name, array in arrays_of(train, "inputs", "f", axes=(2, 3)).items():
        x = array[:MOST].reshape(*array[:MOST].shape[:2], -1)
        if len(x) != len(y) or x.shape[1] < 3:
            continue
        for channel in np.moveaxis(x, 2, 0)[:MOST_CHANNELS]:
            is_last = np.array_equal(channel[there, -1], y[there, 0])
            # All are among the inputs where they are predicted again, as in reverse.
            is_new = not (channel == y[:, -1:]).all(axis=0).any()
            if is_last and is_new and _is_compared(lab) and _is_read(lab, "labels", 0):
                return wrong(
                    f"the first number of labels is the last of {name} in every example",
                    "the window of what is to be predicted begins one step too early (off-by-one)",
                    "begin it behind the last input",
                )
    return None


def _is_compared(lab: Laboratory) -> bool:
    """Whether losses get the first of several labels; it may be the first input of a decoder."""
    if (other := _with_another(lab, "labels", 0)) is None:
        return True
    calls = ([labels for _, (labels, *_) in each.all_calls] for each in (lab.base, other))
    here, there = ([x for x in tf.nest.flatten(each) if x is not None] for each in calls)
    return not here or not all(map(np.array_equal, here, there))


def _label_as_it_is(lab: Laboratory, name: str, y: np.ndarray) -> Finding | None:
    """Whether a number of the inputs equals the label, a real number, in every example."""
    x = lab.examples["train"][name]
    columns = np.flatnonzero((x.reshape(len(y), -1)[:MOST] == y[:MOST, np.newaxis]).all(axis=0))
    if not len(columns) or np.ptp(y[:MOST]) == 0:
        return None
    return (wrong if _is_read(lab, name, columns[0]) else look)(
        f"{name} contain the label, at {_place(columns[0], x)} of each example",
        f"{LEAKED}, for example because a window is cut one step too late (off-by-one)",
        REMOVE,
    )


def _column_that_tells(lab: Laboratory, name: str, y: np.ndarray, is_real: bool) -> Finding | None:
    """Whether a column of a table follows from the labels."""
    table = lab.examples["train"][name]
    of_labels = _means_of_labels(lab, name) if table.dtype.kind == "f" else ()
    for column, numbers in enumerate(table.reshape(len(y), -1).T):
        x = np.nan_to_num(numbers.astype("f8"))  # one by one: a table in float64 may be too large
        if column in of_labels:
            return (wrong if _is_read(lab, name, column) else look)(
                f"the numbers in column {column} of {name} are means of labels, over the rows of "
                "all splits with the same number there",
                "target leakage: target encoding replaced a category by the mean of its labels, "
                "including those to predict",
                "compute the means over training examples only, without the example's own label",
            )
        correlation = np.corrcoef(x, y)[0, 1] if x.std() > 0 and y.std() > 0 else 0.0
        if abs(correlation) > 0.995:
            seen = f"column {column} of {name} and the labels have a correlation of "
            seen += f"{correlation:.3f}"
        elif not is_real and _tells(x, y):
            seen = f"each value of column {column} of {name} occurs with one label only"
        else:
            continue
        cause = "target leakage: it was computed from the label, or is known only afterwards"
        return look(seen, cause, REMOVE)
    return _tells_training_labels(lab, name) if table.dtype.kind == "f" else None


def _label_among_ids(train: dict[str, np.ndarray]) -> Finding | None:
    """Whether rows of integers contain the label of their example, one of many."""
    for y, name, x in _ids(train):
        if len(np.unique(y)) < 10:
            continue
        last = x[np.arange(len(x)), x.shape[1] - 1 - np.argmax(x[:, ::-1] != 0, axis=1)]
        columns = {f"column {i} of {name}": column for i, column in enumerate(x.T)}
        of_last = f"the last nonzero number in {name}"
        ends = of_last, f"column {x.shape[1] - 1} of {name}"
        for place, ids in (columns | {of_last: last}).items():
            if np.mean(ids == y) > 0.99:
                # To recall what came early in a sequence may be the task.
                is_early = place not in ends and _are_symbols(x, y)
                return (look if is_early else wrong)(
                    f"{place} of each example is its label",
                    f"{LEAKED}, for example because a history is cut one step too late "
                    "(off-by-one)",
                    REMOVE,
                )
    return None


def _are_symbols(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether most columns have most of the labels, and numbers as large, as in a sequence.

    The columns of a table have codes of their own.
    """
    have = [np.isin(np.unique(y), column).mean() for column in x.T]
    return bool(np.median(have) > 0.5 and np.median(x.max(axis=0)) > x.max() / 2)


def _often_among_ids(train: dict[str, np.ndarray]) -> Finding | None:
    """Whether rows of integers mostly contain their label, one of many, and rarely another's."""
    for y, name, x in _ids(train):
        others = np.roll(y, len(y) // 2)
        share, by_chance = (float(np.mean((x == each[:, np.newaxis]).any(axis=1)))
                            for each in (y, others))  # fmt: skip
        if len(y) >= 20 and share > 0.5 and by_chance < 0.2:
            return look(  # what is liked may be chosen again
                f"the label of {share:.0%} of the examples is one of their {name}; that of "
                f"another example is in {by_chance:.0%}",
                "target leakage: a history contains what it should predict",
                "end it before the first label, unless this is intended",
            )
    return None


def _ids(train: dict[str, np.ndarray]) -> Iterator[tuple[np.ndarray, str, np.ndarray]]:
    """Integer labels (rows,), and the name and numbers of integer inputs (rows, columns)."""
    for y in arrays_of(train, "labels", "iu", axes=(1,)).values():
        for name, x in arrays_of(train, "inputs", "iu", axes=(2,)).items():
            yield y[:MOST], name, x[:MOST]


def _smoothed_over_answers(train: dict[str, np.ndarray]) -> Finding | None:
    """Whether a channel of windows is a weighted mean of labels, some of later positions.

    Windows are one position apart, and the first label of each is the next position. Channels that
    follow from earlier positions too, as in a smooth series, are not reported.
    """
    y = train.get("labels", np.zeros(0))
    if y.dtype.kind != "f" or y.ndim not in (1, 2) or len(y) < 200:
        return None
    answers = y.reshape(len(y), -1)[:MOST_POSITIONS, 0].astype("f8")
    around = np.lib.stride_tricks.sliding_window_view(answers, 4 * AROUND + 1)
    for name, x in _windows(train):
        if len(x) != len(y):
            continue
        channels = x[:, -1].reshape(len(x), -1)[3 * AROUND + 1 :]
        for channel, seen in enumerate(channels[: len(around)].T.astype("f8")):
            table = np.column_stack([around[: len(seen)], np.ones(len(seen))])
            known = np.isfinite(table).all(axis=1) & np.isfinite(seen)
            if known.sum() < 100 or not np.ptp(seen[known]):
                continue
            table, seen = table[known], seen[known]
            weights, rest = _fitted(table, seen)
            later, has_part = slice(3 * AROUND + 1, -1), np.abs(weights) > 0.02
            told = np.flatnonzero(has_part[later])
            if not len(told) or has_part[:-1].sum() < 2:
                continue
            earlier = np.delete(table, np.arange(table.shape[1])[later], axis=1)
            if not rest < 1e-4 * seen.std() < 1e-2 * _fitted(earlier, seen)[1]:
                continue
            # A single label may be measured together with the last inputs.
            is_sure = told[-1] > 0 or y.size > len(y)
            return (wrong if is_sure else look)(
                f"channel {channel} of {name} is a weighted mean of labels, up to {told[-1] + 1} "
                "positions later",
                *CENTERED,
            )
    return None


def _mean_with_answers(train: dict[str, np.ndarray]) -> Finding | None:
    """Whether the end of a channel is a sum of another channel's last positions and of labels.

    Windows may be any number of positions apart.
    """
    labels = [y.reshape(len(y), -1) for y in arrays_of(train, "labels").values() if y.ndim > 1]
    for name, whole in arrays_of(train, "inputs", axes=(3,)).items():
        x = whole[:, -MOST_SUMMED:]
        for y in labels if x.shape[2] > 1 else ():
            columns = x.shape[1] * (x.shape[2] - 1) + y.shape[1] + 1
            if y.shape[1] < 2 or columns > MOST_FITTED or not 2 * columns < len(y) == len(x):
                continue
            rows = slice(4 * columns)
            for channel in range(x.shape[2]):
                seen = x[rows, -1, channel].astype("f8")
                others = np.delete(x[rows], channel, axis=2).reshape(len(seen), -1)
                table = np.column_stack([others, y[rows], np.ones(len(seen))]).astype("f8")
                if not np.isfinite(table).all() or not np.isfinite(seen).all() or not np.ptp(seen):
                    continue
                weights, rest = _fitted(table, seen)
                size = others.shape[1]
                if not rest < 1e-4 * seen.std() < 1e-2 * _fitted(table[:, :size], seen)[1]:
                    continue
                has_part = np.abs(weights) > 0.02
                positions = has_part[:size].reshape(x.shape[1], -1).sum(axis=0)
                if positions.max() > 1 and has_part[size:-1].any():
                    return wrong(
                        f"the last position of channel {channel} of {name} is a weighted mean of "
                        "other inputs and of labels",
                        *CENTERED,
                    )
    return None


def _between_neighbors(train: dict[str, np.ndarray]) -> Finding | None:
    """Whether a channel of windows has values on lines between their neighbors.

    Of measurements of a few digits, which occur several times, only single values count.
    """
    for name, x in _windows(train):
        if len(x) < 100 or x.shape[1] < 3:
            continue
        first = x[:MOST_POSITIONS, 0]  # of each window, which together are the series
        for channel, series in enumerate(first.reshape(len(first), -1).T):
            before, now, after = (series[i : len(series) - 2 + i].astype("f8") for i in range(3))
            rounding = 4 * np.finfo("f4").eps * np.nanmax(np.abs(series), initial=0)
            on_line = (np.abs(before - 2 * now + after) < rounding) & (before != after)
            _, index, times = np.unique(series, return_inverse=True, return_counts=True)
            is_repeated = times[index] > 1
            if is_repeated.mean() > 0.7:
                on_line &= ~is_repeated[1:-1]
            elif is_repeated.mean() > 0.3:
                continue
            are_many = on_line.sum() > max(5, 0.003 * len(series))
            # A sine is on a line where it is 0.
            if are_many and np.ptp(now[on_line]) > 1e-3 * np.nanmax(np.abs(series)):
                return look(  # a series may come with fewer positions than it is given at
                    f"{on_line.sum()} values in channel {channel} of {name} lie exactly on a "
                    "straight line between their neighbors",
                    "look-ahead: missing values were interpolated before the series was cut into "
                    "windows, so the last inputs of some windows contain the values to forecast",
                    "fill them from earlier positions only, and give filled labels a weight of 0",
                )
    return None


def _windows(train: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Inputs (rows, positions, ...) that are windows, one position apart, with their names."""
    for name, x in arrays_of(train, "inputs", axes=(2, 3)).items():
        if are_one_apart(x):
            yield name, x


def _place(column: int, x: np.ndarray) -> str:
    """Where a number is in each row, such as "[3, 1]"."""
    return f"[{', '.join(map(str, np.unravel_index(column, x.shape[1:] or (1,))))}]"


def _fitted(table: np.ndarray, sought: np.ndarray) -> tuple[np.ndarray, float]:
    """The weights of a least-squares fit of columns to some numbers, and its error."""
    weights = np.linalg.lstsq(table, sought, rcond=None)[0]
    return weights, float((sought - table @ weights).std())


def _tells_training_labels(lab: Laboratory, name: str) -> Finding | None:
    """Whether one column alone tells the labels far better in training than in another split."""
    train = lab.examples["train"]
    for split, arrays in lab.examples.items():
        if split == "train" or len(arrays.get(name, ())) < 50:
            continue
        has_one_label = np.size(arrays.get("labels", ())) == len(arrays[name])
        if not has_one_label or arrays[name].shape[1:] != train[name].shape[1:]:
            continue
        of_split, rows = [], list[int]()
        for each in (train, arrays):
            some = slice(None, None, 1 + len(each[name]) // MOST_CORRELATED)
            y = np.nan_to_num(np.asarray(each["labels"], "f8").ravel()[some])
            x = np.nan_to_num(np.asarray(each[name][some], "f8").reshape(len(y), -1))
            rows.append(len(y))
            x, y = x - x.mean(axis=0), y - y.mean()
            norms = np.sqrt(np.sum(x * x, axis=0) * (y @ y))
            of_split.append(np.clip(x.T @ y / np.where(norms > 0, norms, np.inf), -0.999, 0.999))
        here, there = of_split
        error = np.sqrt(sum(1 / number for number in rows))  # Fisher, 1915
        apart = (np.abs(np.arctanh(here)) - np.abs(np.arctanh(there))) / error
        column = int(apart.argmax())
        others = np.abs(np.delete(apart, column))
        if apart[column] > 5 and len(others) > 2 and others.max() < 4:
            return look(  # a dependence in training data only may be the subject of the study
                f"column {column} of {name} has a correlation of {here[column]:.2f} with the "
                f"labels in training data, and of {there[column]:.2f} in {split} data",
                "target leakage: it was computed from the labels of training examples, including "
                "the example's own label",
                "compute it without the example's own label, for example from the other folds",
            )
    return None


def _means_of_labels(lab: Laboratory, name: str) -> list[int]:
    """The columns in which each number is the mean label of its rows, over all splits together."""
    splits = [arrays for arrays in lab.examples.values() if name in arrays and "labels" in arrays]
    if len(splits) < 2 or any(np.size(a["labels"]) != len(a[name]) for a in splits):
        return []
    y = np.concatenate([np.ravel(a["labels"]) for a in splits]).astype("f8")
    if not np.isfinite(y).all():
        return []
    found = []
    columns = np.concatenate([a[name].reshape(len(a[name]), -1) for a in splits]).T
    for column, x in enumerate(columns):
        values, group, sizes = np.unique(x, return_inverse=True, return_counts=True)
        several = sizes > 1
        if not 10 < np.sum(several) < len(x) / 2:
            continue
        means = np.bincount(group, y) / sizes
        if np.std(y - means[group]) < 1e-6 * np.std(y):
            continue  # labels follow from the number, as degrees Fahrenheit from Celsius
        kept = np.isfinite(values) & several
        both = np.stack([values[kept].astype("f8"), means[kept]])
        if both.std(axis=1).min() > 0 and np.corrcoef(both)[0, 1] > 1 - 1e-7:
            found.append(column)
    return found


def _is_read(lab: Laboratory, name: str, column: int) -> bool:
    """Whether a train step depends on one of the numbers of each example."""
    other = _with_another(lab, name, column)
    return other is None or lab.base.trains_otherwise(other)


def _with_another(lab: Laboratory, name: str, column: int) -> Look | None:
    """The first step with this number of each example taken from another; None if there is none."""
    given = lab.named_batch.get(name)
    if given is None:
        return None
    numbers = np.array(given)  # a copy: the batch stays as it is
    flat = numbers.reshape(lab.rows, -1)  # a view of it
    if column >= flat.shape[1]:  # an augmentation changes the shape
        return None
    flat[:, column] = np.roll(flat[:, column], 1)
    return lab.look(with_array(lab.batch, name, tf.constant(numbers)))


def _label_held(lab: Laboratory) -> Finding | None:
    """Whether one of several labels of each example is among the inputs that predict it.

    Not for an autoencoder, nor where predictions of the next inputs depend on earlier ones only.
    """
    train = lab.examples["train"]
    labels, inputs = ({n: a for n, a in arrays_of(train, part).items() if a.size}
                      for part in ("labels", "inputs"))  # fmt: skip
    numbers = sum(a[0].size for a in inputs.values())
    for (label, y), (name, x) in itertools.product(labels.items(), inputs.items()):
        if len(x) != len(y) or len(y) < 20 or (label == "labels" and y.size == len(y)):
            continue
        rows = max(20, min(len(y), MOST, MOST_COMPARED // max(x[0].size, y[0].size)))
        a, b = (np.nan_to_num(z[:rows].reshape(rows, -1).astype("f4")).T for z in (y, x))
        places = {column.tobytes(): place for place, column in enumerate(b)}
        held = [(i, places[key]) for i, column in enumerate(a) if (key := column.tobytes())
                in places and np.ptp(column) > 0]  # fmt: skip
        if not held or len(held) == len(b) or 2 * len(held) >= numbers:
            continue
        i, place = held[0]
        if len(np.unique(a[i])) <= FEW or not _predicts_by(lab, label, i, name, place):
            continue
        # The next values may equal earlier ones, such as constant parts of a state.
        others = [(j, j + place - i) for j in range(len(a)) if len(held) == 1 and j != i]
        moved = [np.corrcoef(a[j], b[k])[0, 1] for j, k in others if 0 <= k < len(b)]
        is_channel = x.ndim > 2 and len(held) * x.shape[-1] >= len(b)
        is_sure = label == "labels" or _is_only_head_held(lab, label)
        is_sure = is_sure and len(held) in (1, len(a)) and not is_channel
        return (wrong if is_sure and max(np.abs(moved), default=0) < 0.5 else look)(
            f"{name} contain, at {_place(place, x)} of each example, number {i} of {label}, whose "
            f"prediction depends on it ({len(held)} of {len(a)} labels are among the inputs)",
            f"{LEAKED}, for example because a column became a label but stayed among the inputs",
            REMOVE,
        )
    return None


def _is_only_head_held(lab: Laboratory, label: str) -> bool:
    """Whether of several heads only this one predicts one number that is among the inputs.

    If several do, inputs are predicted again on purpose; and without a loss of its own, a head
    isn't told apart from others, which may have that input as a condition.
    """
    labels, inputs = ([(n, _first_rows(a)) for n, a in arrays_of(lab.examples["train"], part,
                       "fiub").items()] for part in ("labels", "inputs"))  # fmt: skip
    held = [
        name for name, y in labels
        if y.shape[1] == 1
        and any(len(x) == len(y) and (x == y).all(axis=0).any() for _, x in inputs)
    ]  # fmt: skip
    given = np.asarray(lab.named_batch.get(label, np.zeros(0))).ravel()
    return held == [label] and any(
        np.size(made) == given.size and np.array_equal(np.ravel(compared), given)
        for _, (compared, made, _) in lab.base.all_calls
    )


def _first_rows(array: np.ndarray) -> np.ndarray:
    """The numbers of some rows, (rows, numbers); 0 where they are missing."""
    some = array[:FEW_ROWS]
    return np.nan_to_num(some.reshape(len(some), -1).astype("f4"))


def _predicts_by(lab: Laboratory, label: str, i: int, name: str, column: int) -> bool:
    """Whether the predictions of one label depend on one number of the inputs."""
    given = np.asarray(lab.named_batch.get(label, np.zeros(0)))
    other = _with_another(lab, name, column)
    if other is None:
        return False
    seen = []
    for each in (lab.base, other):
        made = [p for _, (labels, p, _) in each.all_calls if np.size(p) == given.size and (
            label == "labels" or np.array_equal(np.ravel(labels), given.ravel()))]  # fmt: skip
        made = made or [p for p in each.outputs if p.size == given.size]
        seen.append([p.reshape(lab.rows, -1)[:, i] for p in made[:1]])
    return relative_difference(*seen) > TOLERANCE


def _tells(x: np.ndarray, classes: np.ndarray) -> bool:
    """Whether a feature determines the class, by few values or by one threshold per class."""
    order = np.argsort(x, kind="stable")
    x, classes = x[order], classes[order]
    number = len(np.unique(classes))
    bounds = np.flatnonzero(np.diff(x))
    pure = not np.any((np.diff(classes) != 0) & (np.diff(x) == 0))
    changes = int(np.count_nonzero(np.diff(classes)))
    return number > 1 and pure and (len(bounds) < len(x) / 10 or changes == number - 1)
