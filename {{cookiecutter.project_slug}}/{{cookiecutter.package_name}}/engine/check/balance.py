"""Relations of losses that weigh some errors more than others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from ..types import Run
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory, Pulled
from .numbers import Numbers, arrays_of, only, percent, with_array
from .probe import words_of

MOST_CLASSES = 20  # each one takes a step
UNEVEN = 1.5  # times as often
EQUAL = 0.03  # of logarithms
LEAST = 10  # labels of a kind
MOSTLY = 0.5  # of the positions behind those that count
AFTER = (4, 64, 1024, 4096)  # times as long as the run
WITHIN = (-0.5, 0.1, 0.5, 0.9)  # predictions that are within most margins
UPSIDE_DOWN = (
    "the weights of the classes are upside down",
    "divide by the frequency instead of multiplying",
)
ERRORS = {"mae", "mse", "rmse", "mape", "error", "median"}  # metrics of the median
OF_A_LEVEL = {"low", "lower", "high", "upper", "quantile", "p", "q"}
Arguments = tuple[tf.Tensor, tf.Tensor]  # labels, predictions


@relation("class weights", after="the same step again")
def class_weights(lab: Laboratory) -> Finding:
    """Every class counts, and none in proportion to how often it occurs."""
    for name, pulled in lab.pulled.items():
        if (number := _weighs_nothing(lab, name, pulled)) is not None:
            return wrong(
                f"no loss changes with the predictions for {name} where labels are {number}: only "
                f"those of label {1 - number} count",
                "a half of the cross-entropy is missing, or a mask of unknown labels hides it",
                f"let both count: otherwise it is best to predict {1 - number} everywhere",
            )
    if (unused := _class_without_slope(lab)) is not None:
        return wrong(
            f"no loss changes with the predictions for examples of class {unused}",
            "a mask or a weight of 0 leaves this class out, so it is never learned",
            "let every class count, or leave its examples out of the data",
        )
    if found := _taken_for_padding(lab):
        return found
    compared = False
    for name, array in arrays_of(lab.examples["train"], "labels", "biuf").items():
        if of_classes := _shares_and_weights(lab, name, array):
            compared = True
            often, weights = of_classes
            rare, common = often.argmin(), often.argmax()
            if _are_proportional(weights, often):
                return wrong(
                    f"class {rare} of {name} is the rarest, and its examples weigh "
                    f"{weights[rare] / weights[common]:.2g} times as much as those of class "
                    f"{common}, the most frequent one: weights are proportional to the frequencies",
                    *UPSIDE_DOWN,
                )
        if of_columns := _odds_and_weights(lab, name, array):
            compared = True
            odds, weights = of_columns
            column = np.abs(np.log(odds)).argmax()
            is_proportional = np.ptp(np.log(odds)) > np.log(UNEVEN)
            if np.allclose(np.log(weights / odds), 0, atol=EQUAL) or (
                is_proportional and _are_proportional(weights, odds)
            ):
                return wrong(
                    f"in column {column} of {name}, ones are {odds[column]:.2g} times as frequent "
                    f"as zeros, and weigh {weights[column]:.2g} times as much",
                    *UPSIDE_DOWN,
                )
    if found := _most_for_the_most_frequent(lab):
        return found
    return ok("" if compared else "not looked at: classes are about equally frequent, or none")


def _most_for_the_most_frequent(lab: Laboratory) -> Finding | None:
    """Whether a loss of positions weighs those of the most frequent class more than all others."""
    are_logits = any(pulled.predictions.min() < 0 for pulled in lab.pulled.values())
    alike = lab.pulled_at(functools.partial(_constant, 0.0 if are_logits else 0.5))
    for name, (y, p, slopes) in alike.items():
        if y.dtype.kind not in "iu" or y.ndim < 2 or y.shape not in (p.shape[:-1], p.shape):
            continue
        sizes = np.abs(slopes) if y.shape == p.shape else np.linalg.norm(slopes, axis=-1)
        sizes, y = (x.reshape(len(y), -1) for x in (sizes, y))
        classes, often = np.unique(y[sizes > 0], return_counts=True)
        order = np.argsort(-often)
        if len(classes) < 2 or often[order[1]] * UNEVEN > often[order[0]] or often.min() < LEAST:
            continue

        def of_examples(label: int, y: np.ndarray = y, sizes: np.ndarray = sizes) -> np.ndarray:
            of_class = (y == label) & (sizes > 0)  # the mean of each example, NaN without any
            total = np.where(of_class, sizes, 0).sum(axis=1)
            return np.where(of_class.any(axis=1), total, np.nan) / np.maximum(of_class.sum(1), 1)

        common, *others = (of_examples(label) for label in classes[order])
        shares = [
            np.nanmean(other / common) for other in others if not np.isnan(other / common).all()
        ]
        if shares and max(shares) * UNEVEN < 1:
            # A focal loss may do so on purpose: examples of the frequent class soon weigh nothing.
            is_plain = type(lab.run.losses[name]).__name__.endswith("Crossentropy")
            return (wrong if is_plain else look)(
                f"{classes[order[0]]} is by far the most frequent class of positions, and in the "
                f"loss {name} each of them weighs at least {1 / max(shares):.2g} times as much as "
                "one of any other class",
                UPSIDE_DOWN[0],
                "weigh rare classes more: the branches of a tf.where may be swapped",
            )
    return None


def _taken_for_padding(lab: Laboratory) -> Finding | None:
    """Whether a label of a position has no weight because it also stands for padding."""
    arrays = lab.examples["train"]
    weights = arrays.get("weights", np.zeros(0))
    for name, labels in arrays_of(arrays, "labels", "iu").items():
        if labels.ndim != 2 or labels.shape != weights.shape or not (gone := weights == 0).any():
            continue
        number = labels[gone][0]
        if not np.array_equal(labels == number, gone):
            continue
        behind = np.cumsum(~gone[:, ::-1], axis=1)[:, ::-1] == 0  # no label counts any more
        for inputs in arrays_of(arrays, "inputs").values():
            if inputs.shape[:2] != labels.shape or not behind.any():
                continue
            last = inputs[behind.sum(axis=1).argmax(), -1]
            padded = np.all(inputs == last, axis=tuple(range(2, inputs.ndim)))
            among = ~padded & gone & ~behind
            if padded[~gone].any() or padded[behind].mean() < MOSTLY or among.sum() < LEAST:
                continue
            share = percent(int(among.sum()), gone.size)
            return look(
                f"{name} of {number} have the weight 0, also the {share} of all positions that lie "
                "before others and where inputs aren't padding",
                f"a mask such as labels != {number} leaves out a class that has the same number as "
                "padding, so it is neither trained nor counted",
                f"make the mask of the lengths; or does {number} stand for what isn't known?",
            )
    return None


def _weighs_nothing(lab: Laboratory, name: str, pulled: Pulled) -> int | None:
    """Of several labels of 0 and 1, the one for which no prediction has a slope; None if none."""
    number, p = _without_slope(pulled), pulled.predictions
    # The cross-entropy of one class needs only its own; it may be given logarithms.
    if number is None or _are_shares(p) or _are_shares(np.exp(np.minimum(p, 1.0))):
        return None
    for at in WITHIN[int(pulled.predictions.min() >= 0) :]:  # probabilities, or distances
        others = lab.pulled_at(functools.partial(_constant, at))
        if name not in others or _without_slope(others[name]) != number:
            return None  # predictions beyond a margin have no slope either
    return number


def _without_slope(pulled: Pulled) -> int | None:
    y, p, slopes = pulled
    if y.shape != p.shape or y.ndim < 2 or not np.isin(y[y >= 0], (0, 1)).all():
        return None
    if y.shape[-1] > 1 and np.allclose(y.sum(axis=-1), 1, atol=1e-3):  # one-hot
        return None
    moved = [slopes[y == number] != 0 for number in (0, 1)]
    if min(map(len, moved)) < LEAST:
        return None
    return next((n for n in (0, 1) if not moved[n].any() and moved[1 - n].mean() > 0.5), None)


def _are_shares(p: np.ndarray) -> bool:
    """Whether numbers of each example add up to 1 along an axis, or along some that are beside."""
    return any(
        np.prod(p.shape[first:last]) > 1
        and np.allclose(p.sum(axis=(*range(first, last),)), 1, atol=1e-3)
        for first, last in itertools.combinations(range(1, p.ndim + 1), 2)
    )


def _constant(value: float, predictions: tf.Tensor) -> tf.Tensor:
    return predictions * 0 + value


def _class_without_slope(lab: Laboratory) -> int | None:
    """A class whose examples have a weight, but no slope in any loss; None if there is none."""
    named = {getattr(loss, "ignore_class", None) for loss in lab.run.losses.values()}  # on purpose
    still = _classes_without_slope(lab, lab.pulled) - named
    if still:  # also where no class is beyond a margin
        still &= _classes_without_slope(lab, lab.pulled_at(lambda p: p * 0 + 1 / p.shape[-1]))
    return min(still, default=None)


def _classes_without_slope(lab: Laboratory, pulled: dict[str, Pulled]) -> set[int]:
    labels, weights, found = only(lab.batch[1:-1]), only(lab.batch[-1]), list[set[int]]()
    if labels is None or weights is None or any(lab.base.later_calls.values()):
        return set()  # other labels may say which ones are known
    has_weight = np.all(np.reshape(weights[0], (lab.rows, -1)) != 0, axis=1)
    for y, p, slopes in pulled.values():
        is_own = np.array_equal(y, labels[0])  # not with 0 for those that are missing
        if not is_own or y.dtype.kind not in "iu" or p.ndim != 2 or y.size != len(p):
            return set()
        moves, of_rows = np.asarray(slopes.any(axis=1)), y.reshape(-1)
        classes = np.intersect1d(of_rows, range(p.shape[1])).tolist()
        counted = {k: moves[(of_rows == k) & has_weight] for k in classes}
        still = {k for k, moved in counted.items() if len(moved) > 1 and not moved.any()}
        others = moves[~np.isin(of_rows, [*still]) & has_weight]
        # Where only hard examples count, none of the others need to be of one class.
        found.append(still if others.size and others.mean() > 0.95 else set())
    return set.intersection(*found) if found else set()


def _are_proportional(weights: np.ndarray, often: np.ndarray) -> bool:
    """Whether all positive weights are the same multiple of how often the classes occur."""
    return bool(np.all(weights > 0) and np.std(np.log(weights / often)) < EQUAL)


@relation("quantiles", after="the same step again")
def quantiles(lab: Laboratory) -> Finding:
    """The outputs of a quantile loss learn the levels that the task lists, in that order."""
    compared = False
    for name, (labels, predictions, _) in lab.base.calls.items():
        of_one = isinstance(labels, np.ndarray) and isinstance(predictions, np.ndarray)
        levels = _levels(lab, name, labels, predictions) if of_one else None
        if levels is None:
            continue
        compared = True
        listed = [each for each in _listed(lab) if each.shape == levels.shape]
        turned, as_listed = (
            any(np.allclose(each, these, atol=1e-3) for each in listed)
            for these in (1 - levels, levels)
        )
        falls = bool(np.all(np.diff(levels) < 0))
        if not as_listed and (turned or falls):
            learned = ", ".join(f"{x:.3g}" for x in levels)
            return (wrong if turned and falls else look)(
                f"the outputs for {name} learn the quantiles {learned}"
                + ", and the task lists those of one minus that" * turned,
                "the error has the wrong sign: a quantile loss weighs labels - predictions by the "
                "level where that is positive",
                "subtract the predictions from the labels",
            )
        if found := _of_another_level(lab, levels, predictions):
            metric, level = found
            return wrong(
                f"the metric {metric} compares labels with the predicted quantile {level:.3g}",
                "another output of the model is taken for the median",
                f"pass it output {int(np.argmin(np.abs(levels - 0.5)))}",
            )
    return ok("" if compared else "not looked at: no loss has a slope of its own on either side")


def _of_another_level(
    lab: Laboratory, levels: np.ndarray, predictions: np.ndarray
) -> tuple[str, float] | None:
    """A metric of errors that gets another quantile than the median, and its level; or None."""
    middle = int(np.argmin(np.abs(levels - 0.5)))
    for name, arguments in lab.base.updates.items():
        words = words_of(name)
        if not words & ERRORS or words & OF_A_LEVEL or re.search(r"\d", name):
            continue
        given = np.ravel(arguments[1]) if len(arguments) > 1 else np.zeros(0)
        same = [i for i in range(len(levels)) if np.array_equal(given, predictions[..., i].ravel())]
        if len(same) == 1 and same[0] != middle:
            return name, float(levels[same[0]])
    return None


@relation("likelihood", after="the same step again")
def likelihood(lab: Laboratory) -> Finding:
    """A normal likelihood is largest where the predicted deviation is as large as the error."""
    compared = False
    for name, (labels, predictions, _) in lab.base.calls.items():
        times = _best_deviation(lab.run.losses[name], labels, predictions)
        compared = compared or times is not None
        if times is not None and abs(abs(np.log(times)) - 0.5 * np.log(2)) < EQUAL:
            return wrong(
                f"the loss {name} is smallest where the predicted standard deviation is "
                f"{times:.3g} times the error",
                "the terms of the normal likelihood don't fit: a log-variance is taken for the "
                "logarithm of a standard deviation, or the reverse, or a factor of 0.5 is missing",
                "use log_deviation + 0.5 * (error / exp(log_deviation)) ** 2, or "
                "0.5 * (log_variance + error ** 2 / exp(log_variance))",
            )
    return ok("" if compared else "not looked at: no loss is the normal likelihood of two outputs")


def _best_deviation(loss: Callable[..., Any], labels: Any, predictions: Any) -> float | None:
    """The deviation at which a loss of (mean, logarithm) is smallest, divided by the error.

    The logarithm is that of the deviation, the variance, or the inverse of one of them. None if
    the loss isn't quadratic in the error, or that deviation isn't in proportion to it.
    """
    y, p = np.asarray(labels), np.asarray(predictions)
    size = p.shape[-1] // 2 if p.ndim > 1 and p.shape[-1] % 2 == 0 else 0
    of_mean = (*p.shape[:-1], size)
    if y.dtype.kind != "f" or p.dtype.kind != "f" or not size or not np.isfinite(y).any():
        return None
    if y.shape != of_mean and (*y.shape, 1) != of_mean:
        return None
    center = float(np.nanmedian(y))
    logarithms = np.linspace(-6, 6, 481).reshape(-1, *[1] * (p.ndim - 1))
    alike = np.full((logarithms.size, *y.shape[1:]), center, y.dtype)

    def values(error: float) -> np.ndarray:
        made = np.full((len(alike), *p.shape[1:]), center - error)
        made[..., size:] = logarithms
        found = np.asarray(loss(tf.constant(alike), tf.constant(made, p.dtype)), "f8")
        return found.reshape(len(alike), -1).mean(axis=1)

    with contextlib.suppress(Exception):  # it may take something else than such tensors
        none, *of_errors = map(values, (0.0, 1.0, 2.0, 4.0))
        rises = of_errors[0] - none, of_errors[1] - none
        least = np.array(list(map(_lowest, of_errors))) * 12 / 480 - 6
        powers = np.diff(least) / np.log(2)
        power = round(float(powers.mean()))
        is_quadratic = np.allclose(4 * rises[0], rises[1], rtol=1e-2, atol=1e-6)
        if is_quadratic and abs(power) in (1, 2) and np.allclose(powers, power, atol=EQUAL):
            return float(np.exp(least[0] / power))
    return None


def _lowest(values: np.ndarray) -> float:
    """The place of the lowest value, between elements by a parabola; NaN if it is at an end."""
    i = int(np.argmin(values))
    if not 0 < i < len(values) - 1:
        return float("nan")
    before, here, after = values[i - 1 : i + 2]
    return float(i + 0.5 * (before - after) / (before - 2 * here + after))


@relation("loss schedules")
def loss_schedules(lab: Laboratory) -> Finding:
    """What a loss makes of the step number, such as a warm-up, is over when the run ends."""
    if not lab.traced.losses_know_step:
        return ok("not looked at: no loss depends on the step")
    places = (0, lab.num_steps - 1, *(times * lab.num_steps for times in AFTER))
    seen = _losses_at(lab, lab.run, places)
    if not seen[0]:
        return ok("not looked at: a train step can only run in a graph")
    for name in seen[0]:
        values = np.array([losses[name] for losses in seen])
        if (share := _share_at_end(values)) is not None and share < 0.9:
            if _goes_with_the_run(lab, name, values):
                continue
            # What falls, such as a temperature, has its full value from the start.
            return (wrong if share < 0.25 and values[-1] > values[0] else look)(
                f"the loss {name} of one batch is {values[0]:.4g} in the first step, "
                f"{values[1]:.4g} in the last of the {lab.num_steps} and {values[-1]:.4g} "
                "long after it, with the same weights",
                "a schedule in the train step, such as a warm-up, is longer than the run",
                "make it a fraction of run.num_steps",
            )
    return ok()


def _goes_with_the_run(lab: Laboratory, name: str, values: np.ndarray) -> bool:
    """Whether a run of twice as many steps ends with the same value of a loss schedule."""
    steps = 2 * lab.num_steps
    (at_end,) = _losses_at(lab, replace(lab.run, num_steps=steps), [steps - 1])
    end = at_end.get(name, np.nan)
    return bool(abs(end - values[1]) < 0.25 * abs(values[1] - values[0]))


def _losses_at(lab: Laboratory, run: Run, places: Sequence[int]) -> list[Numbers]:
    """The losses of the first batch at each of these numbers of the step."""
    seen: list[Numbers] = [{} for _ in places]
    for step in dict.fromkeys(run.functions.train_steps):
        with contextlib.suppress(Exception):  # a step may do what only a graph can
            made = [lab.compute(step, run, lab.batch, at) for at in places]
            seen = [before | losses for before, losses in zip(seen, made, strict=True)]
    return seen


def _share_at_end(values: np.ndarray) -> float | None:
    """How much of a change is done in the second of these values; None if it doesn't end."""
    whole = values[-1] - values[0]
    if not np.isfinite(values).all() or abs(whole) <= 3e-5 * np.abs(values).max():
        return None
    shares = (values - values[0]) / whole
    ends = abs(shares[-2] - 1) < 1e-3  # unlike a decay as slow as 1 / t
    return float(shares[1]) if ends and np.all(np.diff(shares) > -1e-3) else None


def _shares_and_weights(
    lab: Laboratory, name: str, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """How often each class occurs, and what an example of it weighs; None: it can't be told."""
    if len(lab.base.losses) != 1 or len(lab.base.calls) != 1:
        return None
    ((of_loss, predictions, _),) = lab.base.calls.values()
    (optimizer,) = lab.base.losses
    given = lab.named_batch.get(name)
    if not isinstance(predictions, np.ndarray) or given is None:  # create_augment may rename it
        return None
    p = predictions.astype(np.float64)
    if p.ndim < 2 or not 1 < p.shape[-1] <= MOST_CLASSES:
        return None
    classes = p.shape[-1]
    of_all, own, seen = (
        _numbers_of_classes(np.asarray(y), p.shape, kinds)
        for y, kinds in ((labels, "iu"), (given[0], "iu"), (of_loss, "iuf"))
    )
    if of_all is None or own is None or seen is None or not np.array_equal(own, seen):
        return None
    shares = np.bincount(of_all[(of_all >= 0) & (of_all < classes)], minlength=classes)
    if shares.min() == 0 or shares.max() < UNEVEN * shares.min():
        return None
    is_logits = p.min() < 0 or p.max() > 1 or not np.allclose(p.sum(axis=-1), 1, atol=1e-3)
    p = np.asarray(tf.nn.log_softmax(p)) if is_logits else np.log(p + 1e-12)
    of_data = _over(lab.examples["train"].get("weights"), of_all.shape)
    given_weights = only(lab.batch[-1])  # as the loss weighs them
    of_batch = _over(None if given_weights is None else np.asarray(given_weights[0]), own.shape)
    weights = []
    for k in range(classes):
        is_one_hot = given.shape[1:] == p.shape
        label = tf.one_hot(k, classes, dtype=given.dtype) if is_one_hot else tf.cast(k, given.dtype)
        found = lab.look(with_array(lab.batch, name, tf.broadcast_to(label, given.shape)))
        loss = found.losses[optimizer] - lab.regularization(optimizer)
        mean = np.average(p[..., k], weights=of_batch)
        weights.append(loss / -mean * of_data[of_all == k].mean())
    return shares / shares.sum(), np.array(weights)


def _numbers_of_classes(y: np.ndarray, shape: tuple[int, ...], kinds: str) -> np.ndarray | None:
    """The numbers of classes in labels for predictions of some shape, or None.

    They may be one-hot, or numbers of these kinds.
    """
    if y.shape[1:] == shape[1:]:
        is_one_hot = np.isin(y, (0, 1)).all() and (y.sum(axis=-1) == 1).all()
        return y.argmax(axis=-1) if is_one_hot else None
    if y.dtype.kind in kinds and y.shape[1:] in (shape[1:-1], (*shape[1:-1], 1)):
        return y.reshape(len(y), *shape[1:-1])
    return None


def _over(weights: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """Weights of rows, or of parts of rows, for each label of this shape; 1 if they don't fit."""
    if weights is None or weights.shape != shape[: weights.ndim] or not weights.any():
        weights = np.ones(())
    weights = weights.reshape(*weights.shape, *[1] * (len(shape) - weights.ndim))
    return np.broadcast_to(weights, shape)


def _odds_and_weights(
    lab: Laboratory, name: str, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The odds of each of several labels of 0 and 1, and the weight of a 1 beside that of a 0."""
    labels = labels[:, np.newaxis] if labels.ndim == 1 else labels
    if labels.ndim != 2 or not np.isin(labels, (0, 1)).all():
        return None
    often = labels.mean(axis=0)
    if often.min() <= 0 or often.max() >= 1:
        return None
    odds = often / (1 - often)
    if np.abs(np.log(odds)).max() < np.log(UNEVEN):
        return None
    own = np.ravel(lab.named_batch.get(name, ()))
    is_only = only(lab.batch[1:-1]) is not None  # another label may have the opposite odds
    for loss, (given, predictions, _) in lab.base.calls.items():
        if not isinstance(given, np.ndarray) or not isinstance(predictions, np.ndarray):
            continue
        y, p = (x[:, np.newaxis] if x.ndim == 1 else x for x in (given, predictions))
        if not is_only and not np.array_equal(np.ravel(y), own):
            continue
        if y.shape != p.shape or y.shape[1:] != labels.shape[1:]:
            continue
        # Not 0, where max(x, 0) in the formula of a cross-entropy has no slope.
        middle = 1e-3 if p.min() < 0 or p.max() > 1 else 0.5
        if slopes := _slopes(lab, loss, [_all_at(1.0, middle), _all_at(0.0, middle)]):
            of_ones, of_zeros = (each.reshape(p.shape).mean(axis=0) for each in slopes)
            if labels.shape[1] == 1:
                of_data = _over(lab.examples["train"].get("weights"), labels.shape)
                of_ones, of_zeros = (
                    each * of_data[labels == number].mean()
                    for each, number in ((of_ones, 1), (of_zeros, 0))
                )
            with np.errstate(divide="ignore", invalid="ignore"):
                weights = -of_ones / of_zeros
            return (odds, weights) if np.all((weights > 0) & np.isfinite(weights)) else None
    return None


def _all_at(label: float, prediction: float) -> Callable[..., Arguments]:
    return lambda y, p: (tf.fill(y.shape, tf.cast(label, y.dtype)), p * 0 + prediction)


def _levels(lab: Laboratory, name: str, y: np.ndarray, p: np.ndarray) -> np.ndarray | None:
    """The quantile that each output learns, if the loss has two slopes and several outputs."""
    of_one = p.shape[:-1] in (y.shape, y.shape[:-1]) and y.shape[:1] == p.shape[:1]
    if y.dtype.kind != "f" or p.ndim < 2 or p.shape[-1] < 2 or not of_one or y.shape == p.shape:
        return None
    spread = float(np.nanmax(y) - np.nanmin(y)) + 1.0

    def beside(times: float) -> Callable[..., Arguments]:
        center = float(np.nanmean(y))
        return lambda labels, predictions: (labels, predictions * 0 + center + times * spread)

    slopes = _slopes(lab, name, [beside(times) for times in (-2.0, -4.0, 2.0)])
    if slopes is None:
        return None
    below, further, above = (each.reshape(-1, p.shape[-1]).mean(axis=0) for each in slopes)
    if not np.allclose(below, further, rtol=1e-3) or np.any(below >= 0) or np.any(above <= 0):
        return None
    levels = np.asarray(-below / (above - below))
    return levels if np.ptp(levels) > EQUAL else None


def _slopes(
    lab: Laboratory, name: str, variants: list[Callable[..., Arguments]]
) -> list[np.ndarray] | None:
    """The slopes of a loss where train steps call it with changed labels and predictions."""
    found: list[np.ndarray] = []
    function, steps = lab.run.losses[name], dict.fromkeys(lab.run.functions.train_steps)

    def recorded(labels: tf.Tensor, predictions: tf.Tensor, *others: Any, **more: Any) -> Any:
        for change in variants if not found else ():
            y, p = change(labels, predictions)
            with tf.GradientTape() as tape:
                tape.watch(p)
                total = tf.reduce_sum(function(y, p, *others, **more))
            found.append(np.asarray(tape.gradient(total, p), np.float64))
        return function(labels, predictions, *others, **more)

    run = replace(lab.run, losses=lab.run.losses | {name: recorded})
    with contextlib.suppress(Exception):  # it may take something else than such tensors
        for step in steps:
            lab.compute(step, run, lab.batch)
    return found if len(found) == len(variants) else None


def _listed(lab: Laboratory) -> Iterator[np.ndarray]:
    """Rows of numbers among the settings of the task, and in its modules."""
    task = lab.run.task
    values = [getattr(task, f.name) for f in dataclasses.fields(task)]
    package = lab.run.functions.train_steps[0].__module__.rpartition(".")[0]
    for name, module in [*sys.modules.items()]:
        if package and name.startswith(f"{package}."):
            values += vars(module).values()
    for value in values:
        if isinstance(value, tuple | list) and all(isinstance(x, float) for x in value):
            yield np.array(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "f":
            yield value
