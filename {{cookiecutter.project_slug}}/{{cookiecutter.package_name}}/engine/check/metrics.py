"""Relations of metrics, and of the metric that selects the best weights."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..auxiliary import is_auxiliary
from .findings import Finding, look, ok, relation, wrong
from .graph import compared_with_half, has_logits
from .laboratory import OF_TWO, SHARES, WITH_NUMBERS, Laboratory
from .minima import best_in_validation
from .numbers import (
    FEW,
    IGNORED,
    TOLERANCE,
    Numbers,
    answers,
    arrays_of,
    close,
    different,
    equal,
    matrices_differ,
    named_leaves,
    of_next_row,
)
from .probe import Look, is_own, replaced, words_of
from .runs import Call

THRESHOLDS = {"BinaryAccuracy", "Precision", "Recall", "AUC", "TruePositives", "FalsePositives",
              "BinaryIoU", "TrueNegatives", "FalseNegatives", "F1Score", "FBetaScore"}  # fmt: skip
OF_CLASSES = {"accuracy", "acc", "match"}  # words in names of metrics, like those below
OF_ONE_CLASS = {"recall", "sensitivity", "specificity"}
OVERLAPS = {"iou", "miou", "dice", "jaccard"}
ERRORS = ("mae", "mse", "rmse")
OF_LIKELIHOOD = {"perplexity", "ppl", "pp"}
NEAR = {"within", "adjacent", "near", "nearly", "off", "tolerance", "coarse"}
BALANCED = {"balanced", "uar"}
SIGNED = OF_TWO | {"log", "db"}  # beside those
WHOLE = {"accuracy", "acc", "iou", "miou", "dice", "f1", "recall", "precision"}  # 1 if all is right
NEARLY = 0.1  # of the result for other predictions
SOME_BATCHES = 4  # over which metrics are compared with ERRORS
ADVERSARIES = {"generator_loss", "discriminator_loss", "critic_loss"}
OF_VALUES = (keras.metrics.Mean.update_state, keras.metrics.Sum.update_state)


@relation("metrics")
def metrics(lab: Laboratory) -> Finding:
    """Metrics get the arguments that they expect, and their results are possible values."""
    for (name, metric), (other, same) in itertools.combinations(lab.run.metrics.items(), 2):
        if metric is same:
            return wrong(
                f"{name} and {other} are one metric under two names",
                "it accumulates both sets of arguments, and each name reports their mean",
                "create one metric per name",
            )
    if name := _keeps_something(lab):
        return wrong(
            f"the metric {name} has another state after update_state and reset_state than at first",
            "reset_state misses a variable, so results of one epoch leak into the next",
            "reset every variable of the metric in reset_state",
        )
    if found := _judged_by_chance(lab):
        return found
    for name, arguments in lab.base.updates.items():
        values = [a for a in arguments if a is not None]
        found = _misused_mean(lab, name, values) or _of_all_pairs(lab, name, values)
        if not found and len(values) > 1 and values[1].ndim:
            found = _misled(lab, name, values) or _misread(lab, name, values)
        if found:
            return found
    if name := compared_with_half(lab.traced.ops):
        return wrong(
            f"{name} compares logits with 0.5, which is the threshold of a probability",
            "a logit of 0 is a probability of 0.5",
            "compare with 0, or pass tf.sigmoid(logits)",
        )
    for name in lab.base.updates:
        found = _misjudges(lab, name) or _misnamed(lab, name) or _matches_in_part(lab, name)
        if found := found or _is_no_perplexity(lab, name) or _is_mean_precision(lab, name):
            return found
    found = _is_one_at_first(lab) or _beyond_range(lab)
    return found or ok("" if lab.run.metrics else "not looked at: there are none")


def _judged_by_chance(lab: Laboratory) -> Finding | None:
    """Whether a metric holds a network whose weights depend on the seed."""

    def weights(metric: Any) -> list[Any]:
        held = [each for each in vars(metric).values() if isinstance(each, keras.layers.Layer)]
        return [v for each in held for v in each.weights]

    for name, metric in lab.run.metrics.items():
        own = weights(metric)
        if own and matrices_differ(own, weights(lab.of_other_seed.metrics[name])):
            return wrong(
                f"the metric {name} holds a network, and another --seed gives it other weights",
                "nothing has trained it: its file isn't loaded; so no two runs can be compared",
                "load its weights, or draw them with a seed of their own",
            )
    return None


def _misused_mean(lab: Laboratory, name: str, values: list[np.ndarray]) -> Finding | None:
    """Whether a mean gets a loss that is already one, signed errors, or exponentials of losses."""
    metric = lab.run.metrics[name]
    if not isinstance(metric, keras.metrics.Mean) or not values:
        return None
    is_weighted = len(values) > 1 and values[1].ndim == 0  # by the weights of that mean
    if values[0].ndim == 0 and not is_weighted and not np.array_equal(
        values[0], lab.look(lab.second_batch).updates[name][0]
    ):  # fmt: skip
        # Where examples interact, it may be a statistic of all of them, such as their spread.
        of_losses = (close(float(values[0]), loss, 1e-3) for loss in lab.base.losses.values())
        return (look if lab.declared_interacting and not any(of_losses) else wrong)(
            f"the metric {name} gets a single number",
            f"the metric {name} is fed the scaled loss; feed it per-example values and weights",
        )
    is_plain = type(metric) is keras.metrics.Mean  # a subclass may transform it
    words = words_of(name, WITH_NUMBERS)
    if is_plain and words & {*ERRORS} and not words & SIGNED and values[0].min(initial=0.0) < 0:
        return wrong(
            f"the metric {name} gets numbers below 0, such as {values[0].min():.3g}",
            "differences of both signs cancel, so their mean is a bias and not the size of errors",
            "take the absolute value or the square of each difference",
        )
    if is_plain and not words & {*ERRORS} and _is_exponential_of_loss(lab, values[0]):
        # The loss may be the logarithm of an error.
        return (wrong if words & OF_LIKELIHOOD else look)(
            f"the metric {name} is a mean of exponentials of the loss",
            "a perplexity is the exponential of a mean; a few unlikely examples dominate this",
            "write a metric whose result is exp of the mean",
        )
    return None


def _of_all_pairs(lab: Laboratory, name: str, values: list[np.ndarray]) -> Finding | None:
    """Whether a metric gets a number for each pair of rows."""
    # Axes other than rows may have as many numbers.
    shapes = [t.shape[1:] for t in tf.nest.flatten(lab.batch)]
    shapes += [np.shape(predictions) for _, predictions, _ in lab.base.calls.values()]
    is_size = lab.rows in (1, *itertools.chain(*(shape[1:] for shape in shapes)))
    are_pairs = bool(values) and values[0].shape == (lab.rows, lab.rows)
    if are_pairs and not is_size and not lab.declared_interacting:
        return wrong(
            f"the metric {name} gets {lab.rows} x {lab.rows} values",
            "shapes (batch, 1) and (batch,) broadcast by accident",
            "give both the same shape",
        )
    return None


def _misled(lab: Laboratory, name: str, values: list[np.ndarray]) -> Finding | None:
    """Whether a metric gets labels or predictions that it shouldn't get."""
    if _are_exchanged(lab, values):
        # A metric of your own may take them in this order, and for some it is the same.
        is_meant = is_own(lab.run.metrics[name]) or "reverse" in words_of(name)
        return (look if is_meant or _is_symmetric(lab, name, values) else wrong)(
            f"the metric {name} gets predictions as labels, and labels as predictions",
            "its arguments are swapped",
            "call update_state(labels, predictions, weights)",
        )
    first, second, *_ = values
    are_real = first.dtype.kind == second.dtype.kind == "f"
    are_same = are_real and np.array_equal(first, second) and len(np.unique(first)) > 2
    if are_same and _are_same_when_trained(lab, name):
        # Such as risks of this replica and of all replicas, which are paired.
        are_pairs = lab.declared_interacting and is_own(lab.run.metrics[name])
        return (look if are_pairs else wrong)(
            f"the metric {name} gets the same numbers as labels and as predictions",
            "it compares something with itself",
            "pass the labels and the predictions",
        )
    if mark := _stands_for_missing(lab, values):
        return wrong(
            f"the metric {name} gets {mark[1]:g} for missing labels ({mark[0]}), and counts them",
            "its weights are the batch's, not those of the labels that are present",
            "pass weights that are 0 where the label is missing",
        )
    return None


def _are_same_when_trained(lab: Laboratory, name: str) -> bool:
    """Whether the first two arguments are the same after steps, unlike those of two copies."""
    first, second, *_ = lab.after_training.updates.get(name, lab.base.updates[name])
    return np.array_equal(first, second)


def _misread(lab: Laboratory, name: str, values: list[np.ndarray]) -> Finding | None:
    """Whether a metric of Keras misinterprets labels or predictions."""
    metric, kind = lab.run.metrics[name], type(lab.run.metrics[name]).__name__
    labels, predictions = values[0], np.asarray(values[1], "f8")
    are_shares = predictions.min() >= -1e-6 and predictions.max() <= 1 + 1e-6
    if not are_shares and _takes_probabilities(lab, name, predictions):
        what = "logits" if predictions.min() < 0 else "numbers"
        return wrong(
            f"the metric {name} ({kind}) compares {what} with the threshold of a probability",
            f"predictions go from {predictions.min():.3g} to {predictions.max():.3g}",
            "pass tf.sigmoid(logits), or scale them to 0 to 1 in the same order",
        )
    if not _updates_as_keras(metric):
        return None
    best = getattr(metric, "_fn_kwargs", {}).get("k", 0) if "TopK" in kind else 0
    if 2 * best >= predictions.shape[-1]:
        words = words_of(name)
        is_sure = "accuracy" in words and not words & {"top", "at"} and not re.search(r"\d", name)
        return (wrong if is_sure else look)(
            f"the metric {name} ({kind}) is 1 if the label is among the {best} best of "
            f"{predictions.shape[-1]} classes",
            "k, which is 5 by default, is too large for so few classes",
            f"use {kind.replace('TopK', '')}, or a smaller k",
        )
    if kind.startswith("SparseCategorical") and predictions.shape == labels.shape:
        return wrong(
            f"the metric {name} ({kind}) gets classes as predictions",
            "an argmax is applied before it",
            "pass the logits, (batch, classes)",
        )
    if kind.startswith("SparseCategorical") and (beyond := _beyond_classes(*values)).size:
        return wrong(
            f"the metric {name} ({kind}) counts {beyond.size / labels.size:.1%} of the labels "
            f"as mistakes: {beyond[0]:g} is no class of the {predictions.shape[-1]}",
            "the label that the loss ignores isn't ignored here",
            "pass weights that are 0 there",
        )
    return None


def _updates_as_keras(metric: Any) -> bool:
    """Whether a metric hasn't an update of its own, which may prepare what it gets."""
    return str(type(metric).update_state.__module__).startswith("keras.")


def _takes_probabilities(lab: Laboratory, name: str, predictions: np.ndarray) -> bool:
    """Whether a metric compares predictions with the threshold of a probability."""
    metric = lab.run.metrics[name]
    of_keras = {b.__name__ for b in type(metric).__mro__ if b.__module__.startswith("keras.")}
    if not of_keras & THRESHOLDS or getattr(metric, "_from_logits", False):
        return False
    bound = getattr(metric, "threshold", getattr(metric, "thresholds", None))
    if bound is None and of_keras & {"F1Score", "FBetaScore"}:  # then they use the largest one
        return False
    fits_numbers = any(  # such as 0 and 1 in a least-squares fit
        re.search("Squared|Absolute|Huber", type(lab.run.losses[loss]).__name__)
        and np.array_equal(np.ravel(given), np.ravel(predictions))
        for loss, (_, given, _) in lab.base.calls.items()
    ) or not has_logits(lab.traced.ops, predictions.ndim)
    if type(metric).__name__ != "AUC" and (bound not in (None, 0.5, [0.5]) or fits_numbers):
        return False
    return _updates_as_keras(metric) or not _counts_signs(lab, name, predictions)


def _counts_signs(lab: Laboratory, name: str, predictions: np.ndarray) -> bool:
    """Whether the sizes of predictions don't matter, as of logits with a sigmoid in the metric."""
    dtype = lab.base.updates[name][1].dtype
    near, far = (
        _result_for(lab, name, np.where(predictions > 0, size, -size).astype(dtype))
        for size in (0.25, 9.0)
    )
    return near == far


def _misjudges(lab: Laboratory, name: str) -> Finding | None:
    """Whether a metric doesn't distinguish right from wrong predictions."""
    better = lab.larger_is_better(name)
    if better is None or (results := _of_right_and_wrong(lab, name)) is None:
        return None
    of_right, of_wrong = results
    seen = f"{name} is {of_right:.3g} where all predictions are right, and {of_wrong:.3g} where "
    seen += "all are wrong"
    if of_right < of_wrong if better else of_right > of_wrong:
        cause = "it counts the wrong ones (inverted), or uses the wrong axis"
        of_losses = [made for n in lab.base.calls if (made := lab.losses_of_answers(n))]
        if not of_losses:  # one number for each label may be a distance
            return (look if _are_single(lab.base.updates[name][1]) else wrong)(seen, cause)
        # Distances are small where the label is 1, and a loss says so.
        prefers_right = any(right <= wrong_one for right, *_, wrong_one in of_losses)
        return wrong(seen, cause) if prefers_right else None
    if not better:
        return None
    labels, predictions, *_ = lab.base.updates[name]
    words = words_of(name, WITH_NUMBERS)
    of_some = _is_of_nearest(words) or getattr(lab.run.metrics[name], "top_k", None)
    is_whole = bool(words & WHOLE) and not of_some
    if of_wrong < of_right < 0.95 and is_whole and _has_all_classes(labels, predictions):
        return wrong(
            seen,
            "absent classes, which an example or a batch doesn't have, count as wrong",
            "leave them out of the mean, or sum over the whole split before dividing",
        )
    if 0.3 < of_wrong < of_right <= 1 and not words & NEAR:
        # The wrong classes here are far from the right ones, so no prediction is nearly right.
        is_sure = predictions.dtype.kind in "iu" and bool(words & OF_CLASSES)
        is_sure |= of_wrong > 0.5 and bool(words & OVERLAPS)  # one class: absence may be right
        return (wrong if is_sure else look)(
            seen, "something is counted that isn't predicted, such as absent classes or padding"
        )
    return None


def _are_single(predictions: np.ndarray) -> bool:
    """Whether predictions are one real number for each label, and none for each class."""
    is_column = predictions.ndim < 2 or predictions.shape[-1] == 1
    return predictions.dtype.kind == "f" and is_column


def _misnamed(lab: Laboratory, name: str) -> Finding | None:
    """Whether a metric is, over some batches, a multiple of another error than its name says."""
    words = words_of(name, WITH_NUMBERS)
    called = {"rmse"} if words & {"root", "rms"} else words & {*ERRORS}
    if len(called) != 1 or name not in lab.base.metrics:
        return None
    ratios = []
    for step, batch in enumerate(lab.batches.dataset(0, SOME_BATCHES)):
        seen = lab.look(batch, step=step)
        if (errors := _usual_errors(lab, seen, batch)) is None:
            return None
        ratios.append(seen.metrics[name] / np.maximum(errors, 1e-9))
    apart = dict(zip(ERRORS, np.ptp(ratios, axis=0) / np.mean(np.abs(ratios), axis=0), strict=True))
    other = min(apart, key=apart.__getitem__)
    if apart[other] < TOLERANCE and apart[called.pop()] > 10 * TOLERANCE:
        return wrong(
            f"{name} is what is usually called {other}",
            "the root is applied to each error instead of their mean, or is missing",
            "apply it to the mean, like keras.metrics.RootMeanSquaredError",
        )
    return None


def _matches_in_part(lab: Laboratory, name: str) -> Finding | None:
    """Whether a metric of exact matches counts examples of which one part is wrong."""
    if "exact" not in words_of(name) or (results := _of_right_and_wrong(lab, name)) is None:
        return None
    (whole, none), (right, other) = results, _right_and_wrong(lab, name)
    labels, _, *rest = lab.base.updates[name]
    if not none < whole or np.ndim(labels) < 2:
        return None
    counts = np.asarray(np.asarray(labels) >= 0)
    for weights in rest:
        if np.shape(weights) == counts.shape:
            counts &= np.asarray(weights) != 0
    counts = np.min(counts.reshape(*counts.shape[:2], -1), axis=2)
    if not counts.any(axis=1).all():
        return None
    last = counts.shape[1] - 1 - counts[:, ::-1].argmax(axis=1)
    of_places = []
    for places in (counts.argmax(axis=1), last):  # one may be padding, which may be wrong
        of_one_wrong, rows = np.array(right), np.arange(len(counts))
        of_one_wrong[rows, places] = other[rows, places]
        of_places.append(_result_for(lab, name, of_one_wrong))
    one_wrong = min((each for each in of_places if each is not None), default=none)
    if one_wrong - none < 0.5 * (whole - none):
        return None
    return wrong(
        f"{name} is {one_wrong:.3g} where one part of each example is wrong, and {whole:.3g} "
        "where all is right",
        "an example counts as soon as one of its parts is right, or each part counts by itself",
        "an exact match needs all parts: reduce_all over them",
    )


def _is_no_perplexity(lab: Laboratory, name: str) -> Finding | None:
    """Whether a perplexity is a mean of exponentials."""
    given = [np.asarray(a) for a in lab.base.updates[name] if a is not None]
    if "perplexity" not in words_of(name) or len(given) != 2 or given[0].size < 4:
        return None
    values = np.resize(np.array([1.0, 3.0], given[0].dtype), given[0].shape)
    result = lab.result_of(name, values, np.ones_like(given[1]))
    if result is None or not close(result, float(np.exp(values).mean()), 1e-3):
        return None
    return wrong(
        f"{name} is a mean of exponentials of losses",
        "a perplexity is the exponential of their mean",
        "take the exponential in result()",
    )


def _is_mean_precision(lab: Laboratory, name: str) -> Finding | None:
    """Whether a balanced accuracy, which is a mean recall, is a mean precision."""
    given = [np.asarray(a) for a in lab.base.updates[name] if a is not None]
    if not words_of(name) & BALANCED or len(given) != 3 or given[1].ndim != 2:
        return None
    labels, (rows, classes) = given[0], given[1].shape
    if labels.dtype.kind not in "iu" or labels.size != rows or rows < 3 * classes or classes < 2:
        return None
    # Half of the additional examples of class 0 are taken for class 1.
    right = np.concatenate([np.arange(2 * classes) % classes, np.zeros(rows - 2 * classes, int)])
    chosen = np.where((right == 0) & (np.arange(rows) % 2 == 1), 1, right)
    counts = np.zeros((classes, classes))
    np.add.at(counts, (right, chosen), 1)
    recall, precision = (np.mean(np.diag(counts) / counts.sum(axis=axis)) for axis in (1, 0))
    logits = np.where(chosen[:, np.newaxis] == np.arange(classes), 10, -10).astype(given[1].dtype)
    made = right.astype(labels.dtype).reshape(labels.shape), logits, np.ones_like(given[2])
    result = lab.result_of(name, *made)
    if result is None or close(result, recall, 1e-3) or not close(result, precision, 1e-3):
        return None
    return wrong(
        f"{name} is the mean precision of the classes",
        "the numbers of right examples are divided by those of predictions, not of labels",
        "divide by the number of examples of each class, a sum over the other axis",
    )


def _usual_errors(lab: Laboratory, seen: Look, batch: Any) -> np.ndarray | None:
    """The ERRORS of the arguments of the only loss in a step; None if they aren't single arrays."""
    calls, weights = [*lab.calls_of(seen).values()], tf.nest.flatten(batch[-1])
    if len(calls) != 1 or len(weights) != 1 or calls[0][0] is None:
        return None
    if any(map(tf.nest.is_nested, calls[0][:2])):
        return None
    labels, predictions, w = (np.asarray(a, "f8") for a in (*calls[0][:2], weights[0][0]))
    if labels.size != predictions.size or w.ndim != 1 or len(labels) != len(w):
        return None
    error = np.abs(labels - predictions.reshape(labels.shape)).reshape(len(w), -1)
    mae, mse = (w @ each.mean(axis=1) / w.sum() for each in (error, error**2))
    return np.array([mae, mse, np.sqrt(mse)])


def _is_one_at_first(lab: Laboratory) -> Finding | None:
    """Whether a metric of many rows is 1 before training, after it, and with other labels."""
    # The recall of a class that is always predicted is 1, but not that of the nearest examples.
    kept = [n for n, m in lab.run.metrics.items()
            if not isinstance(m, keras.metrics.Recall) and not _is_of_one_class(n)]  # fmt: skip
    names = [n for n in kept if lab.base.metrics.get(n) == 1 and lab.larger_is_better(n)]
    if not names or lab.rows <= 8 or len(lab.batch) != 3:
        return None
    inputs, labels, weights = lab.batch
    others = of_next_row(labels)
    of_others = lab.look((inputs, others, weights))
    results = lab.after_training.metrics, of_others.metrics
    for name in names:
        first, *rest = lab.base.updates.get(name, (None,))
        # Labels and predictions: they may be those of a head whose labels are the same.
        if len(rest) > 1 and np.array_equal(first, of_others.updates[name][0]):
            continue
        if all(each[name] == 1 for each in results) and not equal(labels, others):
            return wrong(
                f"{name} is 1 before training, after it, and with the labels of other examples",
                "it can't be less, as where an example is among its own candidates",
                "leave out what is always found",
            )
    return None


def _is_of_one_class(name: str) -> bool:
    """Whether a metric is by its name a share of the examples of one class."""
    words = words_of(name, WITH_NUMBERS)
    return bool(words & OF_ONE_CLASS) and not _is_of_nearest(words)


def _is_of_nearest(words: set[str]) -> bool:
    """Whether a metric looks for something among a few, as a recall at 5 does."""
    return bool(words & {"at", "top"}) or any(word.isdigit() for word in words)


def _beyond_range(lab: Laboratory) -> Finding | None:
    """Whether a result of an evaluation isn't finite, or isn't a share where it should be one."""
    for name, value in lab.evaluations["once"].items() if lab.evaluated_splits else ():
        split, _, column = name.partition("_")
        metric = lab.run.metrics.get(column.partition("/")[0])
        if not np.isfinite(value):
            # These few examples may not have a class, or a part for a term.
            is_one_of_several = metric is not None and "/" in name
            is_term = column in lab.run.terms
            is_idle = metric is not None and column not in lab.validated(lab.evaluation_batch)[1]
            lacks = metric is not None and is_own(metric) and (
                _lacks_classes(lab, split) or _is_finite_when_trained(lab, name)
            )  # fmt: skip
            return (look if is_one_of_several or is_term or is_idle or lacks else wrong)(
                f"{name} is {value}", "nothing counts, or NaN in the data"
            )
        is_share = type(metric).__name__.endswith(SHARES) and not is_own(metric)
        if is_share and not -1e-6 <= value <= 1 + 1e-6:
            return wrong(f"{name} is {value:.4g}, and should be between 0 and 1")
    return None


def _lacks_classes(lab: Laboratory, split: str) -> bool:
    """Whether the first rows of a split have not all its labels, which are classes."""
    some = dict(named_leaves(lab.evaluation_batches[split]))
    for name, labels in arrays_of(lab.examples[split], "labels", "iufb").items():
        classes = np.unique(labels)
        if len(classes) > FEW and labels.dtype.kind == "f":
            continue
        if name in some and len(np.unique(some[name])) < len(classes):
            return True
    return False


def _is_finite_when_trained(lab: Laboratory, result: str) -> bool:
    """Whether a result isn't NaN after some steps, as where nothing was predicted before."""
    with lab.trained_on_fresh():
        return bool(np.isfinite(lab.evaluate(lab.on_one)[result]))


def _other_classes(labels: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Right classes, and wrong ones far from them; None if predictions aren't of classes."""
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
    """The value of a metric for right predictions of the first batch, and for wrong ones."""
    if not (made := _right_and_wrong(lab, name)):
        return None
    of_right, of_others = (_result_for(lab, name, each) for each in made)
    return None if of_right is None or of_others is None else (of_right, of_others)


def _right_and_wrong(lab: Laboratory, name: str) -> list[np.ndarray]:
    """Right predictions of the first batch for a metric, and wrong ones; none if it is unclear."""
    labels, *given = lab.base.updates[name] or (None,)
    if not given or _gets_weights(lab, name, given[0]):
        return []
    made = answers(labels, given[0]) or _other_classes(labels, given[0])
    return [made[0], made[-1]] if made else []


def _gets_weights(lab: Laboratory, name: str, second: Any) -> bool:
    """Whether a metric gets values and weights, and no predictions."""
    weights = (w[0] for w in tf.nest.flatten(lab.batch[-1]))
    is_mean = type(lab.run.metrics[name]).update_state in OF_VALUES
    return is_mean or any(np.array_equal(second, w) for w in weights)


def _result_for(lab: Laboratory, name: str, predictions: np.ndarray) -> float | None:
    """What a metric gives for predictions of the first batch in the place of those of the model."""
    labels, _, *rest = lab.base.updates[name]
    return lab.result_of(name, labels, tf.constant(predictions), *rest)


def _is_exponential_of_loss(lab: Laboratory, values: np.ndarray) -> bool:
    """Whether numbers are per-example losses or their exponentials, but for weights of 0."""
    flat = np.ravel(values)
    for _, _, result in lab.base.calls.values():
        if result is not None and flat.size == np.size(result) > 1:
            with np.errstate(over="ignore"):
                powers = np.exp(np.ravel(result))
            # Those of losses far below 0 are 0, and of hardly any loss 1, as shares may be.
            is_like = np.isclose(flat, powers, 1e-4, 0) & (flat > 0)
            is_telling = is_like & ~np.isclose(flat, 1, 1e-3)
            if np.all(is_like | (flat == 1)) and is_telling.mean() > 0.2:
                return True
    return False


def _keeps_something(lab: Laboratory) -> str:
    """A metric that reset_state doesn't reset to its initial state; or nothing."""
    try:
        for name, arguments in lab.base.updates.items():
            metric = lab.run.metrics[name]
            with contextlib.suppress(Exception):  # it may need more than what was recorded
                metric.update_state(*arguments)
                metric.reset_state()
                if any(not np.array_equal(v.numpy(), lab.initial[id(v)]) for v in metric.variables):
                    return name
    finally:
        lab.reset()
    return ""


def _stands_for_missing(lab: Laboratory, values: list[np.ndarray]) -> tuple[int, float] | None:
    """A mark of labels that a loss leaves out, and the class that a metric counts instead."""
    given, _, *weights = values
    for name, leaf in named_leaves(lab.batch):
        y = np.asarray(leaf[0])
        is_alike = y.dtype.kind in "iu" and y.ndim > 0 and y.size == given.size
        for mark in IGNORED if is_alike and name.startswith("labels") else ():
            gone, seen = y == mark, given.reshape(y.shape)
            instead = np.unique(seen[gone])
            if (
                len(instead) == 1
                and instead[0] != mark
                and instead[0] in y  # otherwise it is a class for missing labels
                and np.array_equal(y[~gone], seen[~gone])
                and (not weights or _weigh(weights[0], gone))
                and (_leaves_out_rows(lab, gone) if y.ndim == 1 else _leaves_out_parts(lab, gone))
            ):
                return mark, float(instead[0])
    return None


def _weigh(weights: np.ndarray, parts: np.ndarray) -> bool:
    """Whether parts of examples, bool (rows, ...), have a weight that isn't 0."""
    if weights.size not in (parts.size, len(parts)):
        return False
    shape = parts.shape if weights.size == parts.size else (-1, *[1] * (parts.ndim - 1))
    whole = np.broadcast_to(weights.reshape(shape), parts.shape)
    return bool(whole[parts].any())


def _leaves_out_parts(lab: Laboratory, parts: np.ndarray) -> bool:
    """Whether a loss is 0 for all these parts of examples, bool (rows, ...), and not elsewhere."""
    each = (np.asarray(values) for *_, values in lab.base.calls.values())
    return any(v.shape == parts.shape and v.any() and not v[parts].any() for v in each)


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


def _beyond_classes(labels: Any, predictions: Any, weights: Any = 1) -> np.ndarray:
    """Labels that are no class, but have a weight: of each example, or of each of its parts."""
    w = np.asarray(weights)
    w = w.reshape(*w.shape, *[1] * max(0, labels.ndim - w.ndim))
    return labels[((labels < 0) | (labels >= predictions.shape[-1])) & (w != 0)]


def _is_symmetric(lab: Laboratory, name: str, values: list[np.ndarray]) -> bool:
    """Whether a metric gives the same with its first two arguments exchanged."""
    first, second, *rest = values
    one, other = (lab.result_of(name, *pair, *rest) for pair in ((first, second), (second, first)))
    return one is not None and one == other


def _are_exchanged(lab: Laboratory, values: list[np.ndarray]) -> bool:
    """Whether a metric gets the arguments of the loss in swapped order."""
    given = [np.ravel(each) for each in values[:2]]
    if any(np.array_equal(given[0], np.ravel(t)) for t in lab.named_batch.values()):
        return False  # these are no predictions: it is the loss that takes predictions first
    return any(
        all(map(np.array_equal, given, (np.ravel(predictions), np.ravel(labels))))
        and not np.array_equal(given[0], given[1])
        for labels, predictions, _ in lab.base.calls.values()
        if labels is not None and predictions is not None
    )


@relation("monitor")
def monitor(lab: Laboratory) -> Finding:
    """The best weights have the best value of the monitored column, on held-out data."""
    column, larger_is_better = lab.task.monitor, lab.task.larger_is_better
    if column.startswith("train_") and "validation" in lab.datasets:
        return wrong(
            f"{column} selects the best weights",
            "it is measured on the training data, so overfitted weights win",
            f"monitor validation_{column.removeprefix('train_')} in task/config.py",
        )
    name = column.partition("_")[2]
    if column.startswith("validation_") and _is_the_same_untrained(lab, name):
        return wrong(
            f"{column}, which selects the best weights, is the same with other trained weights",
            "it depends on nothing that is trained, such as a teacher or the labels alone",
            "use the predictions of the model that is trained",
        )
    side = "largest" if larger_is_better else "smallest"
    inverted = "larger_is_better in task/config.py says so, and is inverted", "invert it"
    better, results = lab.larger_is_better(name), None
    if better is None and column.startswith("validation_") and (
        results := _evaluated_by_answers(lab, name)
    ):  # fmt: skip
        of_right, of_others = results
        if of_right < of_others if larger_is_better else of_right > of_others:
            # A distance between groups may be larger for right predictions.
            is_error = larger_is_better and 0 <= of_right < NEARLY * of_others
            is_share = 0 <= of_others < of_right <= 1 and 1 - of_right < NEARLY * (1 - of_others)
            return (wrong if is_error or is_share else look)(
                f"{column}, whose {side} value selects the best weights, is {of_right:.3g} if all "
                f"predictions are right, and {of_others:.3g} if each is that of another example",
                *inverted,
            )
    is_negative = f"_{name}".endswith("_loss") and min(lab.base.losses.values()) < 0
    if better not in (None, larger_is_better) and not is_negative:
        return wrong(f"the weights with the {side} {column} are kept as the best", *inverted)
    if name in ADVERSARIES and lab.run.metrics:
        # That of a critic may estimate a distance, and a generator's have a part of its targets.
        targets = [np.asarray(t[0]) for t in tf.nest.flatten(lab.batch[1:-1])]
        compares = any(np.array_equal(y, t) for y, *_ in lab.base.calls.values() for t in targets)
        return (wrong if name == "generator_loss" and not compares else look)(
            f"{column} selects the best weights",
            "losses of adversaries compare the two models, and don't measure how good one is",
            "monitor a metric of the generated examples, such as a distance to real examples",
        )
    is_known = better is not None or results
    return ok(column if is_known else f"not looked at: is a larger {column} better?")


def _evaluated_by_answers(lab: Laboratory, name: str) -> tuple[float, float] | None:
    """Results of validation for right predictions, whose loss is smaller, and those of others."""
    if not lab.evaluated_splits or len(lab.calls_in_validation) != 1:
        return None
    (call,) = lab.calls_in_validation
    if not tf.is_tensor(call.made):
        return None

    def result(predictions: np.ndarray) -> Numbers:
        lab.reset()  # metrics
        with replaced([(call.of, "call")], lambda *_: lambda *_, **__: tf.constant(predictions)):
            return lab.validate(lab.evaluation_batch, metrics=True)

    for make in (best_in_validation, _right):
        if (right := make(lab, call)) is None:
            continue
        of_right, of_others = result(right), result(np.roll(right, 1, axis=0))
        are_right = all(of_right[loss] < of_others[loss] for loss in lab.base.losses)
        if are_right and name in of_right:
            return of_right[name], of_others[name]
    return None


def _right(lab: Laboratory, call: Call) -> np.ndarray | None:
    """What a call of a model would have to give to predict the only labels of validation."""
    labels = tf.nest.flatten(lab.evaluation_batch[1:-1])
    if len(labels) != 1:
        return None
    y, p = np.nan_to_num(labels[0][0]), np.asarray(call.made)
    if made := answers(y, p):
        return made.right
    return y.astype(p.dtype).reshape(p.shape) if y.dtype.kind == "f" and y.size == p.size else None


def _is_the_same_untrained(lab: Laboratory, name: str) -> bool:
    """Whether a result of the validation step depends on the data, but on no trained weight."""
    if not lab.evaluated_splits:
        return False
    numbers = np.random.default_rng(0)
    # Averages of trained weights may be evaluated.
    weights = [v for model in lab.run.models.values() if not is_auxiliary(model)
               for v in model.variables if tf.as_dtype(v.dtype).is_floating]  # fmt: skip

    def result(batch: Any, noise: float | None) -> tuple[float | None, list[tf.Tensor]]:
        for v in weights if noise is not None else ():
            other = noise * numbers.standard_normal(v.shape) + (v.numpy() if noise else 0)
            v.assign(tf.constant(other, v.dtype))
        results, updates = lab.validated(batch)
        return results.get(name), updates.get(name.partition("/")[0], [])

    first, given = result(lab.evaluation_batch, None)
    if first in (None, 0, 1):  # all right or all wrong: another relation reports this
        return False
    for noise in (0.1, 0.0, 1.0, 3.0):
        value, other = result(lab.evaluation_batch, noise)
        # An accuracy may be the same by chance, if all predictions are one class.
        if value != first or len(given) != len(other) or not equal(given, other):
            return False
    if given:  # what a metric is given stays the same
        return True
    inputs, *rest = lab.evaluation_batch
    return result((of_next_row(inputs), *rest), None)[0] not in (first, None)
