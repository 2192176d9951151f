"""Relations of what the models predict, and of what metrics make of it."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..auxiliary import is_auxiliary
from .findings import Finding, look, ok, relation, wrong
from .graph import (
    activated_logits,
    clipped_outputs,
    compared_with_half,
    exponential_of_positive,
    softmax_along,
)
from .laboratory import Laboratory
from .numbers import IGNORED, Numbers, answers, different, equal, named_leaves
from .probe import is_own, metrics_recorded, replaced, words_of

SHARES = ("Accuracy", "Precision", "Recall", "AUC", "F1Score", "FBetaScore", "IoU", "Sensitivity")
THRESHOLDS = ("BinaryAccuracy", "Precision", "Recall", "AUC", "TruePositives", "FalsePositives",
              "BinaryIoU", "TrueNegatives", "FalseNegatives", "F1Score", "FBetaScore")  # fmt: skip
WHOLE = {"accuracy", "iou", "dice", "f1", "recall", "precision"}  # which are 1 if all is right
ADVERSARIES = {"generator_loss", "discriminator_loss", "critic_loss"}
BOUNDS = {"sigmoid": (0, 1), "tanh": (-1, 1)}  # of an activation's values


@relation("logits")
def logits(lab: Laboratory) -> Finding:
    """Losses get logits where they expect logits, and probabilities elsewhere."""
    for activation in activated_logits(lab.traced.ops):
        seen = f"a cross-entropy of logits gets the outputs of a {activation}"
        if activation in ("softmax", "sigmoid"):
            return wrong(
                seen,
                f"{activation} is applied twice",
                "leave the last activation out of the model, or use from_logits=False",
            )
        return (wrong if activation.startswith("relu") else look)(
            seen,
            "logits are numbers of both signs and of any size, which it doesn't give",
            "leave the last activation out of the model",
        )
    of_classes = [np.shape(p) for y, p, _ in lab.base.calls.values() if _are_classes(y, p)]
    of_classes = [shape for shape in of_classes if shape[-1] != lab.rows]
    if found := softmax_along(lab.traced.ops, of_classes):
        axis, shape = found
        return wrong(
            f"a softmax is taken along axis {axis} of predictions {shape}, where labels are "
            "classes of the last axis",
            "shares add up to 1 over rows or places in place of classes",
            "use axis=-1",
        )
    if name := exponential_of_positive(lab.traced.ops):
        return wrong(
            f"{name} takes the exponential of what an exponential or a softplus has made positive",
            "a loss that takes the logarithm of a rate or of a variance is given the number itself",
            "leave the last activation out of the model, or use a loss that takes the number",
        )
    if lab.traced.undoes_activations:
        return look(
            "a loss with from_logits=True gets the outputs of a softmax or a sigmoid",
            "Keras 3.15 undoes that one where it trains: else it would be applied twice",
            "use from_logits=False, or leave the last activation out of the model",
        )
    for name in lab.traced.taught_by_trained:
        if "entropy" in type(lab.run.losses[name]).__name__:
            return wrong(
                f"{name!r} gets labels from weights that train, and predictions from a model that "
                "doesn't",
                "its arguments are exchanged",
                "give it what the teacher says first",
            )
    for name, (labels, predictions, _) in lab.base.all_calls:
        loss = lab.run.losses[name]
        if "Binary" in type(loss).__name__ and labels is not None and np.size(labels):
            known = np.unique(np.asarray(labels, "f8"))
            outside = known[(known < 0) | (known > 1)]
            is_mark = len(outside) == 1 and np.isin((0, 1), known).all()
            if outside.size and not is_mark:
                return (look if is_own(loss) else wrong)(  # such as of a margin
                    f"{name!r} gets labels from {known[0]:.3g} to {known[-1]:.3g}",
                    "a binary cross-entropy of labels outside 0 and 1 has no minimum",
                    "scale them to 0 and 1, or use another loss",
                )
        if type(loss) is keras.losses.KLDivergence or loss is keras.losses.kl_divergence:
            # Most of them: some labels may be missing.
            least = min(float(np.median(np.min(x, axis=-1))) for x in (labels, predictions))
            if least < -1e-6:
                return wrong(
                    f"{name!r} gets numbers such as {least:.3g}",
                    "a divergence of Keras takes probabilities, (true, predicted), and no "
                    "logarithms or logits: it cuts off what is below 0, so nothing is learned",
                    "give it tf.nn.softmax of both, that of the teacher first",
                )
        from_logits = _from_logits(loss)
        if from_logits is None or predictions is None or np.ndim(predictions) < 1:
            continue
        p = np.asarray(predictions, "f8")
        inside = p.min() >= -1e-6 and p.max() <= 1 + 1e-6
        several = "Categorical" in type(loss).__name__
        sums = inside and (not several or np.allclose(p.sum(-1), 1, atol=1e-3))
        if from_logits and sums and several and p.shape[-1] > 1:
            return look(
                f"{name!r} is created with from_logits=True, and gets probabilities",
                "a softmax would be applied twice",
                "use from_logits=False, or leave the last activation out of the model",
            )
        if not from_logits and not sums:
            # Keras divides those of several classes by their sum, so any shares will do.
            are_shares = several and "Sparse" not in type(loss).__name__ and p.min() >= 0
            return (look if are_shares else wrong)(
                f"{name!r} expects probabilities, and gets numbers from {p.min():.3g} to "
                f"{p.max():.3g}" + (", which don't sum to 1" if inside else ""),
                "the model returns logits",
                "create it with from_logits=True",
            )
    if name := clipped_outputs(lab.traced.ops):
        return wrong(
            f"a cross-entropy of probabilities gets {name}, which no activation has changed, and "
            "cuts it off at 0 and 1",
            "the model returns logits",
            "create it with from_logits=True",
        )
    return ok()


@relation("predictions differ")
def predictions_differ(lab: Laboratory) -> Finding:
    """Different examples get different predictions after some steps."""
    for name, calls in lab.calls_after_training.items():
        seen = [predictions for _, predictions, _ in calls]
        if any(p is None or np.ndim(p) < 1 or len(p) != lab.rows for p in seen):
            continue
        # Numbers drawn for the rows, such as latents, are the same in all of them here.
        p = np.concatenate([np.asarray(p, "f8").reshape(lab.rows, -1) for p in seen])
        if not np.isfinite(p).all():
            return wrong(f"predictions for {name!r} aren't finite after some steps")
        labels, predictions, _ = lab.calls_of(lab.base)[name]
        if not (labels is None or np.array_equal(labels, calls[0][0])):
            continue  # what changes there isn't labels, so this may be something else, too
        if lab.rows > 1 and _are_alike(p):
            before = np.asarray(predictions, "f8").reshape(lab.rows, -1)
            # Noise that all rows share here, as dropout, may bring a large learning rate to that.
            return (look if lab.base.drawn and not _are_alike(before) else wrong)(
                f"predictions for {name!r} are the same for every example",
                "the outputs don't depend on the inputs: dead units, a saturated activation, or "
                "inputs that are all alike or far too large",
                "look at the inputs' scale and at the last layers",
            )
    return ok()


@relation("outputs reach the targets")
def outputs_reach_targets(lab: Laboratory) -> Finding:
    """The last activation can give what the labels, or the real examples, ask for."""
    for name, bounds, (lowest, highest) in _imitations(lab):
        if lowest < bounds[0] - 0.1 or highest > bounds[1] + 0.1 or lowest > bounds[0] + 0.5:
            return wrong(
                f"outputs of the {name} go from {bounds[0]:g} to {bounds[1]:g}, and real examples "
                f"from {lowest:.3g} to {highest:.3g}",
                "the last activation and the scale of the data don't fit",
                "scale the data to the range of the activation, or use another activation",
            )
    for name, (labels, predictions, _) in lab.base.all_calls:
        if share := _with_several_classes(labels, predictions, lab.run.losses[name]):
            return wrong(
                f"predictions for {name!r} add up to 1, and {share:.0%} of the examples have "
                "several labels of 1",
                "a softmax lets the classes compete, and here several are right",
                "use a sigmoid for each class",
            )
        if metric := _judges_classes_apart(lab, name):
            return wrong(
                f"{name!r} is a softmax cross-entropy of examples with several labels of 1, and "
                f"the metric {metric} takes each class by itself",
                "a softmax lets the classes compete, and here several are right",
                "use a BinaryCrossentropy, which has a sigmoid for each class",
            )
    later = [
        (name, [each.later_calls[name][i] for each in lab.looks_after_training])
        for name, calls in lab.base.later_calls.items() for i in range(len(calls))
    ]  # fmt: skip
    for name, calls in [*lab.calls_after_training.items(), *later]:
        if any(labels is None or predictions is None for labels, predictions, _ in calls):
            continue
        y, p, _ = (np.concatenate([np.ravel(x) for x in each]) for each in zip(*calls, strict=True))
        if (
            y.dtype.kind != "f"
            or y.size != p.size
            or not y.size
            or _from_logits(lab.run.losses.get(name))
        ):
            continue
        y, p = y.astype("f8"), p.astype("f8")
        spread = y.std() or 1.0
        sides = (
            ("below", p.min(), y < p.min() - 0.5 * spread),
            ("above", p.max(), y > p.max() + 0.5 * spread),
        )
        for side, bound, beyond in sides:
            if beyond.mean() > 0.05 and np.sum(p == bound) > max(2, 0.2 * p.size):
                return wrong(
                    f"{np.mean(p == bound):.0%} of the predictions for {name!r} are {bound:g}, and "
                    f"{beyond.mean():.0%} of the labels lie {side}",
                    "the last activation can't give such values",
                    "leave it out",
                )
        if name in lab.base.calls and max(np.mean(beyond) for _, _, beyond in sides) > 0.05:
            low, high = _bounds(lab, name)
            if (share := _beyond_bounds(lab, name, low, high)) > 0.05:
                return wrong(
                    f"predictions for {name!r} go from {low:.3g} to {high:.3g} whatever the "
                    f"weights are, and {share:.0%} of the labels lie beyond",
                    "the last activation can't give such values",
                    "leave it out",
                )
    return ok()


def _bounds(lab: Laboratory, name: str) -> tuple[float, float]:
    """Between which numbers predictions for a loss stay, however large weights are."""
    numbers, variables = np.random.default_rng(0), lab.run.trainable_variables
    drawn, found = [numbers.standard_normal(v.shape) for v in variables], []

    def predicted(size: float, of_last: int) -> np.ndarray:
        for i, (v, x) in enumerate(zip(variables, drawn, strict=True)):
            sign = of_last if i >= len(variables) - 2 else 1
            v.assign(tf.constant(size * sign * x, v.dtype))
        return np.ravel(lab.look(lab.batch).calls[name][1])

    try:
        for size in (1e3, 1e6):
            made = np.concatenate([predicted(size, sign) for sign in (1, -1)])
            found.append((made.min(), made.max()))
    except Exception:  # a step may not compute with such weights
        return -np.inf, np.inf
    finally:
        lab.reset()
    (low, high), (lower, higher) = found
    return (
        float(low if np.isclose(low, lower, rtol=1e-3) else -np.inf),
        float(high if np.isclose(high, higher, rtol=1e-3) else np.inf),
    )


def _beyond_bounds(lab: Laboratory, name: str, low: float, high: float) -> float:
    """The share of examples that are far from all bounded predictions, and cost the loss that.

    Which says that labels and predictions are in one unit, and that no label marks what is missing.
    """
    labels, predictions, _ = lab.base.calls[name]
    near, loss = np.clip(labels, low, high), lab.run.losses[name]
    far = np.abs(labels - near).reshape(lab.rows, -1).max(axis=1) > 0.5 * np.std(labels)
    with contextlib.suppress(Exception):  # it may take something else
        of_right, of_near = (
            np.reshape(loss(labels, tf.constant(x.reshape(predictions.shape), predictions.dtype)),
                       (lab.rows, -1)).sum(axis=1)
            for x in (labels, near)
        )  # fmt: skip
        counts = np.reshape(tf.nest.flatten(lab.batch[-1])[0], (lab.rows, -1)).any(axis=1)
        return float(np.mean(far & (of_near > of_right) & counts))
    return 0.0


@relation("metrics")
def metrics(lab: Laboratory) -> Finding:
    """Metrics get what they expect, and give what they may."""
    for (name, metric), (other, same) in itertools.combinations(lab.run.metrics.items(), 2):
        if metric is same:
            return wrong(
                f"{name} and {other} are one metric under two names",
                "it adds up what both are given, and each is reported as their mean",
                "create one for each name",
            )
    if name := _keeps_something(lab):
        return wrong(
            f"the metric {name} isn't as it was at first behind update_state and reset_state",
            "reset_state forgets a variable, so results of one epoch are in those of the next",
            "set every variable of the metric back in reset_state",
        )
    for name, arguments in lab.base.updates.items():
        metric, kind = lab.run.metrics[name], type(lab.run.metrics[name]).__name__
        values = [a for a in arguments if a is not None]
        is_mean = isinstance(metric, keras.metrics.Mean) and len(values) > 0
        is_weighted = len(values) > 1 and values[1].ndim == 0  # by what it is the mean of
        if is_mean and values[0].ndim == 0 and not is_weighted and _depends_on_batch(lab, name):
            return wrong(
                f"the metric {name} gets a single number",
                f"the metric {name} is fed the scaled loss; feed it per-example values and weights",
            )
        is_plain = type(metric) is keras.metrics.Mean  # a subclass may make something else of it
        if is_mean and is_plain and _is_exponential_of_loss(lab, values[0]):
            return wrong(
                f"the metric {name} is a mean of exponentials of the loss",
                "a perplexity is the exponential of a mean; a few unlikely examples decide this",
                "report exp of the loss, or write a metric whose result is exp of the mean",
            )
        square = bool(values) and values[0].shape == (lab.rows, lab.rows)
        if square and lab.rows not in (1, *_axes(lab)) and not lab.declared_interacting:
            return wrong(
                f"the metric {name} gets {lab.rows} x {lab.rows} values",
                "shapes (batch, 1) and (batch,) broadcast by accident: each label meets all "
                "predictions",
                "give both the same shape",
            )
        if len(values) < 2 or values[1].ndim == 0:
            continue
        best = getattr(metric, "_fn_kwargs", {}).get("k", 0) if "TopK" in kind else 0
        if 2 * best >= values[1].shape[-1]:
            is_sure = "accuracy" in words_of(name) and not words_of(name) & {"top", "at"}
            return (wrong if is_sure else look)(
                f"the metric {name} ({kind}) is 1 where the label is among the {best} best of "
                f"{values[1].shape[-1]} classes",
                "k, which is 5 unless it is given, is too large for so few classes",
                f"use {kind.replace('TopK', '')}, or a smaller k",
            )
        if _are_exchanged(lab, values):
            # One of your own may take them so.
            return (look if is_own(metric) else wrong)(
                f"the metric {name} gets predictions as labels, and labels as predictions",
                "its arguments are exchanged",
                "call update_state(labels, predictions, weights)",
            )
        if _are_the_same(*values[:2]):
            return wrong(
                f"the metric {name} gets the same numbers as labels and as predictions",
                "it compares something with itself",
                "give it what the model should predict, and what it does",
            )
        if mark := _stands_for_missing(lab, values):
            return wrong(
                f"the metric {name} gets {mark[1]:g} for labels that are missing ({mark[0]}), and "
                "they count",
                "its weights are those of the batch, not those of the labels that are there",
                "give it weights that are 0 where the label is missing",
            )
        labels, predictions = values[0], np.asarray(values[1], "f8")
        if _is_one_of(metric, THRESHOLDS) and (
            predictions.min() < -1e-6 or predictions.max() > 1 + 1e-6
        ):
            bound = getattr(metric, "threshold", getattr(metric, "thresholds", None))
            if bound is None and kind in ("F1Score", "FBetaScore"):
                continue  # which take the largest one then
            if kind != "AUC" and bound not in (None, 0.5, [0.5]):
                continue
            if kind != "AUC" and _is_compared_as_number(lab, predictions):
                continue
            if not getattr(metric, "_from_logits", False):
                what = "logits" if predictions.min() < 0 else "what is no probability"
                return wrong(
                    f"the metric {name} ({kind}) compares {what} with the threshold of a "
                    "probability",
                    f"predictions go from {predictions.min():.3g} to {predictions.max():.3g}",
                    "give it tf.sigmoid(logits)"
                    if what == "logits"
                    else "bring them to numbers from 0 to 1, in the same order",
                )
        if kind.startswith("SparseCategorical") and predictions.shape == labels.shape:
            return wrong(
                f"the metric {name} ({kind}) gets classes as predictions",
                "an argmax is taken before",
                "give it the logits, (batch, classes)",
            )
        if kind.startswith("SparseCategorical") and (beyond := _beyond_classes(values)).size:
            return wrong(
                f"the metric {name} ({kind}) counts {beyond.size / labels.size:.1%} of the labels "
                f"as mistakes: {beyond[0]:g} is no class of the {predictions.shape[-1]}",
                "what the loss ignores isn't ignored here",
                "give it weights that are 0 there",
            )
    if name := compared_with_half(lab.traced.ops):
        return wrong(
            f"{name} compares logits with 0.5, which is the threshold of a probability",
            "a logit of 0 is a probability of 0.5",
            "compare with 0, or give it tf.sigmoid(logits)",
        )
    for name in lab.base.updates:
        metric, better = lab.run.metrics[name], lab.larger_is_better(name)
        if better is None or (results := _of_right_and_wrong(lab, name)) is None:
            continue
        of_right, of_wrong = results
        seen = (
            f"{name} is {of_right:.3g} where all predictions are right, and {of_wrong:.3g} where "
            "all are wrong"
        )
        if of_right < of_wrong if better else of_right > of_wrong:
            return wrong(seen, "it counts the wrong ones, or looks along another axis")
        words = words_of(name, "a-z0-9")
        has_number = any(word.isdigit() for word in words)
        of_some = has_number or bool(words & {"at", "top"} or getattr(metric, "top_k", None))
        if better and of_right < 0.95 and words & WHOLE and not of_some and (
            _has_all_classes(*lab.base.updates[name][:2])
        ):  # fmt: skip
            return wrong(
                seen,
                "absent classes, which an example or a batch doesn't have, count as wrong",
                "leave them out of the mean, or add up over the whole split before dividing",
            )
        if better and 0.3 < of_wrong < of_right <= 1:
            # Of classes, the wrong ones are far from the right ones, so that none is nearly right.
            are_classes = lab.base.updates[name][1].dtype.kind in "iu" and words & {
                "accuracy",
                "match",
            }
            return (wrong if are_classes else look)(
                seen, "something is counted that isn't predicted, such as absent classes or padding"
            )
    for name, value in lab.base.metrics.items():
        if value != 1 or lab.rows <= 8 or not lab.larger_is_better(name):
            continue
        if _is_always_one(lab, name):
            return wrong(
                f"{name} is 1 before training, after it, and with the labels of other examples",
                "it can't be less, as where an example is found because it is looked for among "
                "itself, or as one of the top ten of ten classes",
                "leave out what is found in any case",
            )
        if name in lab.directions:
            return look(f"{name} is 1 before training", "", "does it tell right from wrong?")
    if not lab.evaluated_splits:
        return ok()
    for name, value in lab.evaluations["once"].items():
        metric = lab.run.metrics.get(name.partition("_")[2].partition("/")[0])
        if not np.isfinite(value):  # of a class that these few examples don't show, it may be so
            is_one_of_several = metric is not None and "/" in name
            is_term = name.partition("_")[2] in lab.run.terms  # of what isn't there
            return (look if is_one_of_several or is_term else wrong)(
                f"{name} is {value}", "nothing counts, or NaN in the data"
            )
        if metric is None or is_own(metric):
            continue
        if type(metric).__name__.endswith(SHARES) and not -1e-6 <= value <= 1 + 1e-6:
            return wrong(f"{name} is {value:.4g}, and should be between 0 and 1")
    return ok()


def _are_classes(labels: Any, predictions: Any) -> bool:
    """Whether labels are numbers of classes, of which predictions have one number each."""
    y, p = np.asarray(labels), np.asarray(predictions)
    return bool(
        y.dtype.kind in "iu" and p.ndim > 1 and y.shape in (p.shape[:-1], (*p.shape[:-1], 1))
    )


def _with_several_classes(labels: Any, predictions: Any, loss: Callable[..., Any]) -> float:
    """The share of examples with several classes, where predictions are shares of one.

    0 if equal shares of the right ones are the best there is, as where any of them may be right.
    """
    y, p = np.asarray(labels), np.asarray(predictions)
    if y.shape != p.shape or p.ndim < 2 or p.shape[-1] < 3 or not np.isin(y, (0, 1)).all():
        return 0.0
    several = y.sum(axis=-1) > 1
    if p.min() < 0 or not np.allclose(p.sum(axis=-1), 1, atol=1e-3) or several.mean() < 0.05:
        return 0.0
    rows = several.reshape(len(y), -1).any(axis=1)
    right, shared = y[rows], y[rows] / np.maximum(y[rows].sum(axis=-1, keepdims=True), 1)
    with contextlib.suppress(Exception):  # it may take something else
        best, least = (float(np.mean(loss(tf.constant(right), tf.constant(each.astype(p.dtype)))))
                       for each in (right, shared))  # fmt: skip
        return float(several.mean()) if least > max(0, best) + 0.1 else 0.0
    return 0.0


def _judges_classes_apart(lab: Laboratory, name: str) -> str:
    """A metric that gets a sigmoid of the logits of which a loss of several labels makes a softmax.

    Without it these may be counts, of which a softmax gives the shares.
    """
    labels, predictions, values = lab.base.calls[name]
    y, p = np.asarray(labels), np.asarray(predictions)
    if y.shape != p.shape or p.ndim < 2 or p.shape[-1] < 3 or not np.isin(y, (0, 1)).all() or (
        (y.sum(axis=-1) > 1).mean() < 0.05
    ):  # fmt: skip
        return ""
    sigmoids = 1 / (1 + np.exp(-np.ravel(p)))
    for metric, (_, *given) in lab.base.updates.items():
        if given and np.size(given[0]) == p.size and np.allclose(np.ravel(given[0]), sigmoids):
            with contextlib.suppress(Exception):  # it may take something else
                moved = lab.run.losses[name](labels, tf.constant(p + 3))
                return metric if np.allclose(moved, values, atol=1e-4) else ""
    return ""


def _other_classes(labels: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Right classes, and wrong ones that are far from these; None if no classes are predicted."""
    y, p = np.asarray(labels), np.asarray(predicted)
    if y.shape != p.shape or not y.dtype.kind == p.dtype.kind == "i" or not np.ptp(y):
        return None
    size = int(np.ptp(y)) + 1
    return y, (y.min() + (y - y.min() + size // 2) % size).astype(p.dtype)


def _has_all_classes(labels: np.ndarray, predictions: np.ndarray) -> bool:
    """Whether each class of the predictions is the label of something."""
    if labels.shape == predictions.shape:
        return bool(np.all(labels.reshape(-1, labels.shape[-1]).max(axis=0) > 0))
    return bool(np.isin(range(predictions.shape[-1]), labels).all())


def _of_right_and_wrong(lab: Laboratory, name: str) -> tuple[float, float] | None:
    """What a metric gives for the right predictions of the first batch, and for wrong ones."""
    metric, (labels, *given) = lab.run.metrics[name], lab.base.updates[name] or (None,)
    made = (answers(labels, given[0]) or _other_classes(labels, given[0])) if given else None
    if made is None:
        return None
    right, others = made[0], made[-1]

    def result(predictions: np.ndarray) -> float:
        metric.reset_state()
        metric.update_state(labels, tf.constant(predictions), *given[1:])
        return float(np.asarray(metric.result()))

    try:
        both = result(right), result(others)
    except Exception:  # it may give several numbers, or take something else
        return None
    finally:
        lab.reset()
    return both if np.isfinite(both).all() else None


def _is_always_one(lab: Laboratory, name: str) -> bool:
    """Whether a metric is 1 after some training too, and with the labels of other examples."""
    if len(lab.batch) != 3 or lab.after_training.metrics[name] != 1:
        return False
    inputs, labels, weights = lab.batch
    others = tf.nest.map_structure(lambda t: tf.roll(t, 1, axis=1), labels)
    changed = lab.look((inputs, others, weights))
    return not equal(labels, others) and changed.metrics[name] == 1


def _are_alike(predictions: np.ndarray) -> bool:
    """Whether all rows are the same."""
    sizes = np.maximum(1e-3, np.abs(predictions).max(axis=0))  # some may be masked by -1e9
    return bool(np.all(predictions.std(axis=0) <= 1e-6 * sizes))


def _is_exponential_of_loss(lab: Laboratory, values: np.ndarray) -> bool:
    """Whether numbers are those of a loss, each by itself, as exponents, but for weights of 0."""
    flat = np.ravel(values)
    for _, _, result in lab.base.calls.values():
        if result is not None and flat.size == np.size(result) > 1:
            with np.errstate(over="ignore"):
                is_like = np.isclose(flat, np.exp(np.ravel(result)), rtol=1e-4)
            if np.all(is_like | (flat == 1)) and is_like.mean() > 0.2:
                return True
    return False


def _depends_on_batch(lab: Laboratory, metric: str) -> bool:
    """Whether the first update of a metric gets something else with another batch."""
    other = lab.look(lab.second_batch).updates[metric][0]
    return not np.array_equal(other, lab.base.updates[metric][0])


def _keeps_something(lab: Laboratory) -> str:
    """A metric that reset_state doesn't set back to how it was made; or nothing."""
    try:
        for name, arguments in lab.base.updates.items():
            metric = lab.run.metrics[name]
            with contextlib.suppress(Exception):  # what is noted may not be all that it takes
                metric.update_state(*arguments)
                metric.reset_state()
                if any(not np.array_equal(v.numpy(), lab.initial[id(v)]) for v in metric.variables):
                    return name
    finally:
        lab.reset()
    return ""


def _stands_for_missing(lab: Laboratory, values: list[np.ndarray]) -> tuple[int, float] | None:
    """A mark of missing labels, and the class that a metric counts instead; None if it doesn't.

    Some loss or part of it leaves these examples out.
    """
    given, _, *weights = values
    for name, leaf in named_leaves(lab.batch):
        y = np.asarray(leaf[0])
        if not name.startswith("labels") or y.dtype.kind != "i" or y.shape != given.shape or (
            y.ndim != 1
        ):  # fmt: skip
            continue
        for mark in (m for m in IGNORED if np.any(y == m)):
            gone = y == mark
            instead = np.unique(given[gone])
            is_known = np.array_equal(y[~gone], given[~gone]) and not gone.all()
            if not is_known or len(instead) != 1 or instead[0] == mark:
                continue
            if not np.any(y == instead[0]):  # a class of its own
                continue
            if weights and not np.ravel(weights[0])[np.flatnonzero(gone)].any():
                continue
            if _leaves_out_rows(lab, gone):
                return mark, float(instead[0])
    return None


def _leaves_out_rows(lab: Laboratory, rows: np.ndarray) -> bool:
    """Whether a loss or a term depends on the inputs of other rows, and not on these."""
    inputs, *rest = lab.batch

    def losses(some: np.ndarray) -> Numbers:
        places = np.arange(len(some))
        places[some] = np.roll(places[some], 1)
        turned = tf.nest.map_structure(lambda t: tf.gather(t, places, axis=1), inputs)
        return lab.look((turned, *rest)).losses

    same = set(lab.base.losses) - set(different(lab.base.losses, losses(rows), 1e-6))
    return bool(same & set(different(lab.base.losses, losses(~rows), 1e-6)))


def _is_compared_as_number(lab: Laboratory, predictions: np.ndarray) -> bool:
    """Whether a loss takes predictions for numbers, such as 0 and 1 in a least-squares fit."""
    return any(
        re.search("Squared|Absolute|Huber", type(lab.run.losses[name]).__name__)
        and np.array_equal(np.ravel(given), np.ravel(predictions))
        for name, (_, given, _) in lab.base.calls.items()
    )


def _beyond_classes(values: list[np.ndarray]) -> np.ndarray:
    """Labels that are no class, and weigh something."""
    labels, predictions, *weights = values
    beyond = (labels < 0) | (labels >= predictions.shape[-1])
    if weights:  # of each example, or of each of its parts
        missing = max(0, labels.ndim - weights[0].ndim)
        beyond = beyond & (weights[0].reshape(*weights[0].shape, *[1] * missing) != 0)
    return labels[beyond]


def _axes(lab: Laboratory) -> set[int]:
    """The sizes of what examples and predictions have beside rows, one of which rows may have."""
    shapes = [t.shape[1:] for t in tf.nest.flatten(lab.batch)]
    shapes += [np.shape(predictions) for _, predictions, _ in lab.base.calls.values()]
    return {size for shape in shapes for size in shape[1:]}


def _are_the_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are one, of numbers that don't agree by chance."""
    both = a.dtype.kind == b.dtype.kind == "f"
    return both and np.array_equal(a, b) and len(np.unique(a)) > 2


def _are_exchanged(lab: Laboratory, values: list[np.ndarray]) -> bool:
    """Whether a metric gets what the loss gets, the other way round."""
    for labels, predictions, _ in lab.base.calls.values():
        if labels is None or predictions is None or np.shape(labels) == ():
            continue
        pairs = [(values[0], predictions), (values[1], labels)]
        if all(np.size(a) == np.size(b) for a, b in pairs) and not np.array_equal(
            np.ravel(labels), np.ravel(predictions)
        ):
            return all(np.array_equal(np.ravel(a), np.ravel(b)) for a, b in pairs)
    return False


@relation("monitor")
def monitor(lab: Laboratory) -> Finding:
    """The best weights are those with the best value of the monitored column, of other data."""
    column, larger_is_better = lab.task.monitor, lab.task.larger_is_better
    if column.startswith("train_") and "validation" in lab.datasets:
        return wrong(
            f"{column} selects the best weights",
            "it is measured on the training data, so the weights that fit these too well win",
            f"monitor validation_{column.removeprefix('train_')} in task/config.py",
        )
    name = column.partition("_")[2]
    if column.startswith("validation_") and _is_the_same_untrained(lab, name):
        return wrong(
            f"{column}, which selects the best weights, is the same with other trained weights",
            "it is computed from what isn't trained, such as a teacher or the labels alone",
            "give it the predictions of the model that trains",
        )
    is_loss = name == "loss" or name.endswith("_loss")
    better = lab.larger_is_better(name)
    if better is None and column.startswith("validation_") and (
        results := _evaluated_by_answers(lab, name)
    ):  # fmt: skip
        of_right, of_others = results
        if of_right < of_others if larger_is_better else of_right > of_others:
            # A distance between groups may well be larger where predictions are right.
            is_sure = of_right == (0 if larger_is_better else 1)
            return (wrong if is_sure else look)(
                f"{column}, whose {'largest' if larger_is_better else 'smallest'} value selects "
                f"the best weights, is {of_right:.3g} where all predictions are right, and "
                f"{of_others:.3g} where each is that of another example",
                "larger_is_better in task/config.py is the other way round",
                "turn it round",
            )
    if better is None or better == larger_is_better or (is_loss and min(
        lab.base.losses.values()) < 0):  # fmt: skip
        if name in ADVERSARIES and lab.run.metrics:
            return look(
                f"{column} selects the best weights",
                "losses of adversaries say how one does against the other, not how good it is",
                "monitor a metric of what is generated, such as a distance to real examples",
            )
        return ok(column)
    side = "largest" if larger_is_better else "smallest"
    return wrong(
        f"the weights with the {side} {column} are kept as the best",
        "larger_is_better in task/config.py says so",
        "turn it round",
    )


def _evaluated_by_answers(lab: Laboratory, name: str) -> tuple[float, float] | None:
    """What the validation step gives for right predictions, and for those of other examples.

    None if they can't be made, or if no smaller losses say that they are right.
    """
    if not lab.evaluated_splits or len(lab.calls_in_validation) != 1:
        return None
    (call,), labels = lab.calls_in_validation, tf.nest.flatten(lab.evaluation_batch[1:-1])
    if len(labels) != 1 or not tf.is_tensor(call.made):
        return None
    y, p = np.nan_to_num(labels[0][0]), np.asarray(call.made)
    if made := answers(y, p):
        right = made.right
    elif y.dtype.kind == "f" and y.size == p.size:
        right = y.astype(p.dtype).reshape(p.shape)
    else:
        return None

    def result(predictions: np.ndarray) -> Numbers:
        lab.reset()  # metrics
        with replaced([(call.of, "call")], lambda *_: lambda *_, **__: tf.constant(predictions)):
            return lab.validate(lab.evaluation_batch, metrics=True)

    of_right, of_others = result(right), result(np.roll(right, 1, axis=0))
    are_right = all(of_right[loss] < of_others[loss] for loss in lab.base.losses)
    return (of_right[name], of_others[name]) if are_right and name in of_right else None


def _is_the_same_untrained(lab: Laboratory, name: str) -> bool:
    """Whether a result of the validation step depends on its inputs, and on no trained weight."""
    if not lab.evaluated_splits:
        return False
    numbers = np.random.default_rng(0)
    # Averages of trained weights may be what is evaluated.
    weights = [v for model in lab.run.models.values() if not is_auxiliary(model)
               for v in model.variables if tf.as_dtype(v.dtype).is_floating]  # fmt: skip

    def result(batch: Any, noise: float | None) -> tuple[float | None, list[tf.Tensor]]:
        for v in weights if noise is not None else ():
            other = noise * numbers.standard_normal(v.shape) + (v.numpy() if noise else 0)
            v.assign(tf.constant(other, v.dtype))
        seen: dict[str, tuple[Any, ...]] = {}
        with metrics_recorded(lab.on_one.run, seen):
            value = lab.validate(batch, metrics=True).get(name)
        return value, [v for v in seen.get(name.partition("/")[0], ()) if v is not None]

    first, given = result(lab.evaluation_batch, None)
    if first in (None, 0, 1):  # what is right or wrong for all is for another relation
        return False
    for noise in (0.1, 0.0, 1.0, 3.0):
        value, other = result(lab.evaluation_batch, noise)
        # An accuracy may be the same by chance, where all predictions are one class.
        if value != first or len(given) != len(other) or not equal(given, other):
            return False
    turned = tf.nest.map_structure(lambda t: tf.roll(t, 1, axis=1), lab.evaluation_batch[0])
    return result((turned, *lab.evaluation_batch[1:]), None)[0] not in (first, None)


def _from_logits(loss: object) -> bool | None:
    found = getattr(loss, "from_logits", None)
    if found is None:
        found = getattr(loss, "_fn_kwargs", {}).get("from_logits")
    return found


def _is_one_of(metric: object, names: tuple[str, ...]) -> bool:
    """Whether its class, or one that this inherits from, is Keras' own of one of these names."""
    own = (kind for kind in type(metric).__mro__ if kind.__module__.startswith("keras."))
    return any(kind.__name__ in names for kind in own)


def _imitations(lab: Laboratory) -> Iterator[tuple[str, tuple[int, int], tuple[float, float]]]:
    """Models whose outputs are of the shape of the examples, where another model judges both.

    Yields:
        The name, the bounds of its last activation, the smallest and the largest real number.
    """
    inputs = tf.nest.flatten(lab.batch[0])
    if len(lab.run.trained_models) < 2 or len(inputs) != 1 or not inputs[0].dtype.is_floating:
        return
    real = np.asarray(inputs[0][0])
    for name, model in lab.run.trained_models.items():
        activation = getattr(getattr(model.layers[-1], "activation", None), "__name__", "")
        if activation in BOUNDS and getattr(model, "output_shape", ())[1:] == real.shape[1:]:
            yield name, BOUNDS[activation], (float(real.min()), float(real.max()))
