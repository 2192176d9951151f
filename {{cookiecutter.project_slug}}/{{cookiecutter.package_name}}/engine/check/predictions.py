"""Relations of the predictions of the models."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .findings import Finding, look, ok, relation, wrong
from .graph import (
    MASKED,
    activated_logits,
    applied_to_outputs,
    clipped_outputs,
    softmax_along,
)
from .laboratory import Laboratory
from .numbers import Numbers, arrays_of, different, equal, equal_parts, rows_of
from .probe import Look, is_own
from .runs import Call

SPREAD = 0.1  # of numbers that aren't alike
MOSTLY = 0.6  # of the cross-entropy of a guess
SAME_VIEWS = "both views of an example are the same, so there is nothing to learn"
OWN_VIEWS = "make two views, each with its own augmentation or noise"
OF_ONE = "the temperature is applied to only one of the two", "divide both by it before the softmax"
ARE_LOGITS = "the model returns logits", "create it with from_logits=True"
BOUNDS = {"sigmoid": (0, 1), "tanh": (-1, 1)}  # of an activation's values
ACTIVATED_TWICE = (  # what is applied, its operations, and those that make probabilities before it
    ("softmax", {"Softmax", "LogSoftmax"}, {"Softmax"}),
    ("sigmoid", {"Sigmoid"}, {"Sigmoid", "Softmax"}),
)


@relation("logits")
def logits(lab: Laboratory) -> Finding:
    """Losses get logits where they expect logits, and probabilities elsewhere."""
    if found := _shown_by_graph(lab):
        return found
    for name in lab.traced.taught_by_trained:
        if "entropy" in type(lab.run.losses[name]).__name__:
            return wrong(
                f"{name!r} gets labels from trainable weights, and predictions from a model that "
                "isn't trained",
                "its arguments are swapped",
                "pass the output of the teacher first",
            )
    softened = _of_another_temperature(lab)
    if softened and softened.verdict == "WRONG":
        return softened
    for name, (labels, predictions, _) in lab.base.all_calls:
        loss = lab.run.losses[name]
        found = _no_probabilities(lab, name, loss, labels, predictions)
        if found := found or _otherwise_than_created(name, loss, predictions):
            # A loss of your own may apply what its base class doesn't.
            return found._replace(verdict="look") if is_own(loss) else found
    if name := clipped_outputs(lab.traced.ops):
        seen = f"a cross-entropy of probabilities gets {name} without an activation, and clips it"
        return wrong(seen, *ARE_LOGITS)
    return softened or ok()


def _shown_by_graph(lab: Laboratory) -> Finding | None:
    """Whether an activation or an exponential is applied twice, or along the wrong axis."""
    for activation in activated_logits(lab.traced.ops):
        is_twice = activation in ("softmax", "sigmoid")
        return (wrong if is_twice or activation.startswith("relu") else look)(
            f"a cross-entropy of logits gets the outputs of a {activation}",
            f"{activation} is applied twice (double {activation})"
            if is_twice
            else "logits need both signs and any size, which this activation can't give",
            "remove the last activation of the model" + ", or use from_logits=False" * is_twice,
        )
    of_classes = [np.shape(p) for y, p, _ in lab.base.calls.values() if _are_classes(y, p)]
    of_classes = [shape for shape in of_classes if shape[-1] != lab.rows]
    if found := softmax_along(lab.traced.ops, of_classes):
        axis, shape = found
        return wrong(
            f"a softmax is applied along axis {axis} of predictions {shape}, where labels are "
            "classes of the last axis",
            "probabilities add up to 1 over rows or positions instead of classes",
            "use axis=-1",
        )
    for _, are_shares, axis, *axes in (seen for seen in lab.base.crossed if seen[0]):
        over = " and ".join(map(str, axes))
        # Targets of 0 and 1 may pick places, each of which is to be classified.
        return (wrong if are_shares else look)(
            f"targets of a cross-entropy add up to 1 along axis {over}, over which it is a sum, "
            f"but its softmax is along axis {axis}",
            "the probabilities that the targets weigh don't compete with each other",
            f"compute the softmax along axis {over}",
        )
    for kind, types, of in ACTIVATED_TWICE:
        if name := applied_to_outputs(lab.traced.ops, types, of):
            return wrong(
                f"{name} applies a {kind} to the outputs of a {' or a '.join(sorted(of)).lower()}",
                "numbers from 0 to 1 are taken for logits, so that no probability can come near 0 "
                "or 1",
                "apply it once: to logits",
            )
    if name := applied_to_outputs(lab.traced.ops, {"Exp"}, {"Exp", "Softplus"}):
        return wrong(
            f"{name} applies an exponential to the output of an exponential or a softplus",
            "the loss expects the logarithm of a rate or of a variance, and gets the number itself",
            "remove the last activation of the model",
        )
    if lab.traced.undoes_activations:
        return wrong(
            "a loss with from_logits=True gets the outputs of a softmax or a sigmoid",
            "applied twice (double softmax); Keras 3.15 undoes it in the loss, but not elsewhere",
            "use from_logits=False, or remove the last activation of the model",
        )
    return None


def _of_another_temperature(lab: Laboratory) -> Finding | None:
    """Whether a temperature softens logits of a student or of its teacher, but not of both."""
    if all(model.trainable_variables for model in lab.run.models.values()):
        return None
    calls = lab.training_calls(lab.batch, lab.run.models.values())
    made = [(call.of, np.asarray(call.made)) for call in calls
            if tf.is_tensor(call.made) and not tf.is_symbolic_tensor(call.made)]  # fmt: skip
    taught = [logits for model, logits in made if not model.trainable_variables]
    own = lab.base.outputs or [logits for model, logits in made if model.trainable_variables]
    for name, (labels, predictions, _) in lab.base.calls.items():
        for student, teacher in itertools.product(own, taught):
            shapes = {np.shape(each) for each in (labels, predictions, student, teacher)}
            if len(shapes) > 1:
                continue
            factor = _factor(student, predictions)
            if _factor(teacher, labels) == 1 and factor is not None and factor < 1:
                return wrong(
                    f"{name!r} gets logits of a trained model divided by {1 / factor:.2g}, and "
                    "probabilities from logits of a teacher that aren't divided",
                    *OF_ONE,
                )
            if np.allclose(teacher, labels) and np.allclose(student, predictions):
                found = _softens_one(name, lab.run.losses[name], predictions)
                if found:
                    return found
    return None


def _softens_one(name: str, loss: Any, like: Any) -> Finding | None:
    """Whether a cross-entropy or a divergence of two arrays of logits softens only one of them.

    Its slope is a factor times the difference of the probabilities of both. A teacher may be
    sharpened, and one that is too sure may be softened, by a loss without the factor that makes
    up for a temperature of both.
    """
    logits = np.random.default_rng(0).normal(size=np.shape(like))

    def slope(at: np.ndarray) -> np.ndarray:
        labels, predictions = (tf.constant(x, np.asarray(like).dtype) for x in (logits, at))
        with tf.GradientTape() as tape:
            tape.watch(predictions)
            total = len(at) * tf.reduce_mean(loss(labels, predictions))
        return np.asarray(tape.gradient(total, predictions), "f8")

    try:  # it may expect other arguments
        first = np.eye(logits.shape[1])[np.zeros(len(logits), int)]
        guessed, of_first = slope(0 * logits), slope(1e4 * first)
        factor = float(np.mean((of_first - guessed)[:, 0])) / (1 - first.mean()) or np.nan
        of_student = first - (of_first - slope(logits)) / factor
        of_teacher = first - of_first / factor
    except Exception:
        return None
    both = of_teacher, of_student
    if not all(p.min() > 0 and np.allclose(p.sum(axis=1), 1, atol=1e-3) for p in both):
        return None
    teacher, student = (_factor(logits, p) for p in both)
    if teacher is None or student is None or max(teacher, student) != 1 or teacher == student:
        return None
    is_sure = teacher == 1 or abs(factor**-0.5 - teacher) < 0.01
    one, other = ("a teacher", "the trained model")[:: 1 if student == 1 else -1]
    return (wrong if is_sure else look)(
        f"{name!r} divides logits of {one} by {1 / min(teacher, student):.2g}, and not those of "
        f"{other}",
        *OF_ONE,
    )


def _factor(logits: np.ndarray, given: Any) -> float | None:
    """The factor of logits (rows, classes) in others or their probabilities; None if there is none.

    It is taken from the two largest of each row: small ones round to 0.
    """
    x, y = (np.asarray(each, "f8") for each in (logits, given))
    if x.ndim != 2 or x.shape[1] < 2 or not np.isfinite(x).all():
        return None
    if y.min() >= 0 and np.allclose(y.sum(axis=1), 1, atol=1e-3):
        y = np.log(np.maximum(y, 1e-30))
    largest = np.argsort(x, axis=1)[:, -2:]
    apart, of_given = (np.diff(np.take_along_axis(each, largest, 1))[:, 0] for each in (x, y))
    factor = float(apart @ of_given / max(apart @ apart, 1e-12))
    fits = np.abs(of_given - factor * apart).max() <= 1e-2 * np.abs(of_given).max()
    return round(factor, 2) or None if fits else None


def _no_probabilities(
    lab: Laboratory, name: str, loss: Any, labels: Any, predictions: Any
) -> Finding | None:
    """Whether a binary cross-entropy or a divergence gets numbers that aren't probabilities."""
    if "Binary" in type(loss).__name__ and labels is not None and np.size(labels):
        known = np.unique(np.asarray(labels, "f8"))
        outside = known[(known < 0) | (known > 1)]
        given = [known, *arrays_of(lab.examples["train"], "labels", "fiu").values()]
        # A batch may lack one of the classes.
        is_mark = len(outside) == 1 and any(
            np.isin((0, 1), whole).all() and np.isin(known, whole).all() for whole in given
        )
        if outside.size and not is_mark:
            return (look if is_own(loss) else wrong)(  # such as labels of a margin loss
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
                "a divergence of Keras takes probabilities: it clips what is below 0",
                "pass tf.nn.softmax of both, the teacher's first",
            )
    return None


def _otherwise_than_created(name: str, loss: Any, predictions: Any) -> Finding | None:
    """Whether a loss with `from_logits` gets probabilities, or a loss without it gets logits."""
    from_logits = _from_logits(loss)
    if from_logits is None or predictions is None or np.ndim(predictions) < 1:
        return None
    p = np.asarray(predictions, "f8")
    inside = bool(p.min() >= -1e-6 and p.max() <= 1 + 1e-6)
    several = "Categorical" in type(loss).__name__
    sums = inside and (not several or np.allclose(p.sum(-1), 1, atol=1e-3))
    if from_logits and sums and several and p.shape[-1] > 1:
        return wrong(
            f"{name!r} is created with from_logits=True, but gets probabilities",
            "a softmax would be applied twice (double softmax)",
            "use from_logits=False, or remove the last activation of the model",
        )
    if not from_logits and not sums:
        # Keras normalizes several classes by their sum, so any positive numbers will do.
        are_shares = several and "Sparse" not in type(loss).__name__ and p.min() >= 0
        seen = f"{name!r} expects probabilities, but gets numbers from {p.min():.3g} to "
        seen += f"{p.max():.3g}" + ", which don't sum to 1" * inside
        return (look if are_shares else wrong)(seen, *ARE_LOGITS)
    return None


@relation("pairs", after="the same step again")
def pairs(lab: Laboratory) -> Finding:
    """A softmax over the examples of a batch doesn't compare an example with itself."""
    for with_itself, least, largest, is_label in (seen.T for seen in lab.base.pairs):
        spread = float(np.max(largest - least))
        is_constant = np.ptp(with_itself) < 1e-3 * spread
        if not spread > 0 or not is_constant or not np.all(with_itself > largest - 1e-3 * spread):
            continue
        seen = f"each of {len(with_itself)} rows of a softmax has the same largest logit "
        seen += f"({with_itself[0]:.3g}), that of the example with itself"
        if is_label.all():
            return wrong(f"{seen}, which is also its label", SAME_VIEWS, OWN_VIEWS)
        if not is_label.any():
            return wrong(
                seen,
                "an example is among its own negatives, so the loss can hardly fall",
                "mask the diagonal, for example with tf.linalg.set_diag and -1e9",
            )
    for added in lab.base.added:
        # All of them shares of a whole, and no mask.
        if MASKED < added.min() < added.max() < -np.log(2) and np.ptp(added) > SPREAD:
            return wrong(
                f"numbers from {added.min():.3g} to {added.max():.3g}, logarithms of shares, are "
                "added to the logits of the candidates, which are the examples of the batch",
                "the correction for how often a candidate is drawn has the wrong sign: a frequent "
                "one is a negative more often, and its logit isn't lowered for that",
                "subtract the logarithm of the share",
            )
    if names := _equal_views(lab.batch, lab.calls_in_training):
        # Dropout may be what makes two views of an example.
        return (look if lab.base.drawn else wrong)(
            f"{names} are the same in every example, and the train step calls a model with both",
            SAME_VIEWS,
            OWN_VIEWS,
        )
    if lab.evaluated_splits and (
        names := _equal_views(lab.evaluation_batch, lab.calls_in_validation)
    ):
        return look(
            f"{names} of validation are the same in every example, and its step calls a model "
            "with both",
            SAME_VIEWS,
            OWN_VIEWS,
        )
    there_are = lab.base.pairs or any(equal_parts(lab.batch))
    return ok("" if there_are else "not looked at: no softmax compares rows")


def _equal_views(batch: Any, calls: list[Call]) -> str:
    """The names of two parts of a batch that are equal, if one model is called with both."""
    given = [(call.of, call.arguments[0]) for call in calls
             if call.arguments and tf.is_tensor(call.arguments[0])]  # fmt: skip
    for name, other, t in equal_parts(batch):
        same = [id(of) for of, x in given if x.shape == t.shape[1:] and equal(x, t[0])]
        is_part = t.shape.rank > 2 and not name.startswith("weights")
        if is_part and len(same) > 1 == len(set(same)):
            return f"{name} and {other}"
    return ""


@relation("predictions differ")
def predictions_differ(lab: Laboratory) -> Finding:
    """After some steps, different examples have different predictions."""
    compared = False
    for name, calls in lab.calls_after_training.items():
        seen = [predictions for _, predictions, _ in calls]
        if any(np.shape(p)[:1] != (lab.rows,) for p in seen):
            continue
        # Numbers drawn for the rows, such as latents, are the same in all of them here.
        p = np.concatenate([np.asarray(p, "f8").reshape(lab.rows, -1) for p in seen])
        labels, predictions, _ = lab.calls_of(lab.base)[name]
        before: np.ndarray = np.asarray(predictions, "f8").reshape(lab.rows, -1)
        if np.isneginf(before).any():  # masked logits
            p = np.where(np.isneginf(p), 0.0, p)
            before = np.where(np.isneginf(before), 0.0, before)
        if not np.isfinite(p).all():
            return wrong(f"predictions for {name!r} aren't finite after some steps")
        same = tf.nest.map_structure(np.array_equal, labels, calls[0][0])
        if labels is not None and not all(tf.nest.flatten(same)):
            continue  # here something other than the labels changes, so there may be another reason
        compared |= lab.rows > 1
        if lab.rows > 1 and _are_alike(p):
            # Noise that all rows share here, such as dropout, and a large rate may do this.
            return (look if lab.base.drawn and not _are_alike(before) else wrong)(
                f"predictions for {name!r} are the same for every example",
                "the outputs don't depend on the inputs: dead units, saturation, or equal inputs",
                "look at the inputs' scale and at the last layers",
            )
    return ok("" if compared else "not looked at: no loss is given a prediction for each row")


@relation("outputs reach the targets")
def outputs_reach_targets(lab: Laboratory) -> Finding:
    """The range of the last activation includes the labels or the real examples."""
    for name, bounds, (lowest, highest) in _imitations(lab):
        if lowest < bounds[0] - 0.1 or highest > bounds[1] + 0.1 or lowest > bounds[0] + 0.5:
            return wrong(
                f"outputs of the {name} go from {bounds[0]:g} to {bounds[1]:g}, and real examples "
                f"from {lowest:.3g} to {highest:.3g}",
                "the range of the last activation doesn't match the scale of the data",
                "scale the data to that range, or use another activation",
            )
    for name, (labels, predictions, _) in lab.base.all_calls:
        seen = ""
        if share := _with_several_classes(labels, predictions, lab.run.losses[name]):
            seen = f"predictions for {name!r} add up to 1, but {share:.0%} of the examples have "
            seen += "several labels of 1"
        elif metric := _judges_classes_apart(lab, name):
            seen = f"{name!r} is a softmax cross-entropy of examples with several labels of 1, but "
            seen += f"the metric {metric} treats each class separately"
        if seen:
            return wrong(
                seen,
                "multi-label data: a softmax lets the classes compete",
                "use a BinaryCrossentropy, or a sigmoid for each class",
            )
    if found := _never_sure(lab):
        size, number = found
        return wrong(
            f"logits of a softmax over {number:g} go from {-size:.3g} to {size:.3g} for any "
            f"weights, so its cross-entropy is at least {_least(size, number):.3g}, and a guess "
            f"has {np.log(number):.3g}",
            "cosines or bounded activations without a temperature, or multiplied by it",
            "divide them by a temperature such as 0.1, or remove the activation",
        )
    labels = [y for calls in lab.calls_after_training.values() for y, *_ in calls]
    is_known = any(y is not None for y in labels) or any(_imitations(lab))
    nothing = "not looked at: no loss function is given labels"
    return _beyond_activation(lab) or ok("" if is_known else nothing)


def _beyond_activation(lab: Laboratory) -> Finding | None:
    """Whether real numbers to predict lie where the last activation can't reach them."""
    later = [
        (name, [each.later_calls[name][i] for each in lab.looks_after_training])
        for name, calls in lab.base.later_calls.items() for i in range(len(calls))
    ]  # fmt: skip
    inputs = [np.reshape(t[0], (lab.rows, -1)) for t in tf.nest.flatten(lab.batch[0])]
    are_few = len({*rows_of(inputs)}) < lab.rows / 2
    for name, calls in [*lab.calls_after_training.items(), *later]:
        if any(labels is None or predictions is None for labels, predictions, _ in calls):
            continue
        y, p, _ = (np.concatenate([np.ravel(x) for x in each]) for each in zip(*calls, strict=True))
        are_numbers = y.dtype.kind == p.dtype.kind == "f"  # not a mask as the second argument
        if not are_numbers or y.size != p.size or _from_logits(lab.run.losses.get(name)):
            continue
        known = np.isfinite(y)
        y, p = y[known].astype("f8"), p[known].astype("f8")
        if not y.size:
            continue
        advice = "the last activation can't give such values", "remove the activation"
        spread = y.std() or 1.0
        sides = (
            ("below", p.min(), np.inf, np.mean(y < p.min() - 0.5 * spread)),
            ("above", -np.inf, p.max(), np.mean(y > p.max() + 0.5 * spread)),
        )
        for side, low, high, share in sides:
            # Examples with equal inputs have equal predictions.
            at_bound = 0 if are_few else np.mean((p == low) | (p == high))
            if share > 0.05 and at_bound > max(2 / p.size, 0.2) and (
                not _leaves_out_beyond(lab, name, low, high)
            ):  # fmt: skip
                return wrong(
                    f"{at_bound:.0%} of the predictions for {name!r} are "
                    f"{low if side == 'below' else high:g}, and {share:.0%} of the labels lie "
                    f"{side}",
                    *advice,
                )
        if name in lab.base.calls and max(share for *_, share in sides) > 0.05:
            low, high = _bounds(lab, name)
            share = _beyond_bounds(lab, name, low, high)
            if share > 0.05 and not _leaves_out_beyond(lab, name, low, high):
                outside = y[(y < low) | (y > high)]
                seen = f"predictions for {name!r} go from {low:.3g} to {high:.3g} for any weights, "
                seen += f"and {share:.0%} of the labels are outside"
                if len(outside) and not np.ptp(outside):
                    seen += f", all of them {outside[0]:g}"
                    advice = (
                        "the loss counts labels that mark what isn't known",
                        "leave them out of loss, metrics and count, by weights of 0",
                    )
                return wrong(seen, *advice)
    return None


def _least(size: float, number: float) -> float:
    """The smallest possible cross-entropy of so many logits of at most this size."""
    return float(np.log1p((number - 1) * np.exp(-2 * size)))


def _never_sure(lab: Laboratory) -> tuple[float, float] | None:
    """The size and number of bounded logits whose cross-entropy can fall only a little."""
    for low, high, number in lab.after_training.ranges:
        size = max(abs(low), abs(high))
        if number > 1 and _least(size, number) > MOSTLY * np.log(number):
            # A temperature may fall; and some layers fail with larger weights.
            for step, weights in itertools.product((0, lab.num_steps - 1), (10, 100)):
                ends = _with_weights(lab, weights, lambda seen: [r[:2] for r in seen.ranges], step)
                size = np.max([size, *np.abs(ends)])  # NaN says nothing
            if _least(size, number) > MOSTLY * np.log(number):
                return float(size), float(number)
    return None


def _with_weights(
    lab: Laboratory, size: float, seen_by: Callable[[Look], Any], step: int = 0, seed: int = 0
) -> tuple[float, float]:
    """The smallest and the largest number of what a step sees, with large weights of both signs."""
    numbers, variables = np.random.default_rng(seed), lab.run.trainable_variables
    drawn, seen = [numbers.standard_normal(v.shape) for v in variables], []
    try:
        for of_last in (1, -1):
            for i, (v, x) in enumerate(zip(variables, drawn, strict=True)):
                sign = of_last if i >= len(variables) - 2 else 1
                v.assign(tf.constant(size * sign * x, v.dtype))
            seen.append(np.ravel(seen_by(lab.look(lab.batch, step=step))))
    except Exception:  # a step may fail with such weights
        return -np.inf, np.inf
    finally:
        lab.reset()
    return float(np.min(seen)), float(np.max(seen))


def _bounds(lab: Laboratory, name: str) -> tuple[float, float]:
    """The range of the predictions for a loss, however large weights are.

    Other weights are drawn for each size: a mean over bins, by a softmax, becomes one of the bins.
    """
    ends, others = (
        np.asarray(_with_weights(lab, size, lambda seen: seen.calls[name][1], seed=seed))
        for seed, size in enumerate((1e3, 1e6))
    )
    low, high = np.where(np.isclose(ends, others, rtol=1e-3), ends, (-np.inf, np.inf)).tolist()
    return low, high


def _beyond_bounds(lab: Laboratory, name: str, low: float, high: float) -> float:
    """The share of examples far from all bounded predictions, if the loss depends on them."""
    labels, predictions, _ = lab.base.calls[name]
    near, loss = np.clip(labels, low, high), lab.run.losses[name]
    far = np.abs(labels - near).reshape(lab.rows, -1).max(axis=1) > 0.5 * np.std(labels)
    with contextlib.suppress(Exception):  # it may expect other arguments
        of_right, of_near = (
            np.reshape(loss(labels, tf.constant(x.reshape(predictions.shape), predictions.dtype)),
                       (lab.rows, -1)).sum(axis=1)
            for x in (labels, near)
        )  # fmt: skip
        counts = np.reshape(tf.nest.flatten(lab.batch[-1])[0], (lab.rows, -1)).any(axis=1)
        return float(np.mean(far & (of_near > of_right) & counts))
    return 0.0


def _leaves_out_beyond(lab: Laboratory, name: str, low: float, high: float) -> bool:
    """Whether losses leave out predictions whose labels, outside of these bounds, are marks."""
    function, steps = lab.run.losses[name], lab.run.functions.train_steps

    def losses(moved: bool | None) -> Numbers:
        def elsewhere(labels: Any, predictions: Any, *others: Any) -> Any:
            is_beyond = tf.reshape((labels < low) | (labels > high), tf.shape(predictions))
            there = 0.5 * predictions + 0.1
            return function(labels, tf.where(is_beyond == moved, there, predictions), *others)

        function_of = {name: function if moved is None else elsewhere}
        run = replace(lab.run, losses=lab.run.losses | function_of)
        results = [lab.compute(step, run, lab.batch) for step in steps]
        return {f"{i} {n}": value for i, each in enumerate(results) for n, value in each.items()}

    now = losses(None)
    return not different(now, losses(True)) and bool(different(now, losses(False)))


def _are_classes(labels: Any, predictions: Any) -> bool:
    """Whether labels are class numbers, and predictions have one number per class."""
    y, p = np.asarray(labels), np.asarray(predictions)
    return bool(
        y.dtype.kind in "iu" and p.ndim > 1 and y.shape in (p.shape[:-1], (*p.shape[:-1], 1))
    )


def _with_several_classes(labels: Any, predictions: Any, loss: Callable[..., Any]) -> float:
    """The share of examples with several classes, where predictions are a distribution.

    0 if an equal share for each right class is best, as where any one of them is right.
    """
    y, p = np.asarray(labels), np.asarray(predictions)
    several = _several_labels(y, p)
    if several is None or p.min() < 0 or not np.allclose(p.sum(axis=-1), 1, atol=1e-3):
        return 0.0
    rows = several.reshape(len(y), -1).any(axis=1)
    right, shared = y[rows], y[rows] / np.maximum(y[rows].sum(axis=-1, keepdims=True), 1)
    with contextlib.suppress(Exception):  # it may expect other arguments
        best, least = (float(np.mean(loss(tf.constant(right), tf.constant(each.astype(p.dtype)))))
                       for each in (right, shared))  # fmt: skip
        return float(several.mean()) if least > max(0, best) + 0.1 else 0.0
    return 0.0


def _several_labels(y: np.ndarray, p: np.ndarray) -> np.ndarray | None:
    """Where several of the labels (..., classes) are 1: bool (...); None if hardly anywhere."""
    if y.shape != p.shape or p.ndim < 2 or p.shape[-1] < 3 or not np.isin(y, (0, 1)).all():
        return None
    several = y.sum(axis=-1) > 1
    return several if several.mean() >= 0.05 else None


def _judges_classes_apart(lab: Laboratory, name: str) -> str:
    """A metric that gets the sigmoid of logits that a loss of several labels gives to a softmax.

    Without such a metric, the labels may be counts, and the softmax their distribution.
    """
    labels, predictions, values = lab.base.calls[name]
    y, p = np.asarray(labels), np.asarray(predictions)
    if _several_labels(y, p) is None:
        return ""
    sigmoids = 1 / (1 + np.exp(-np.ravel(p)))
    for metric, (_, *given) in lab.base.updates.items():
        if given and np.size(given[0]) == p.size and np.allclose(np.ravel(given[0]), sigmoids):
            with contextlib.suppress(Exception):  # it may expect other arguments
                moved = lab.run.losses[name](labels, tf.constant(p + 3))
                return metric if np.allclose(moved, values, atol=1e-4) else ""
    return ""


def _are_alike(predictions: np.ndarray) -> bool:
    """Whether all rows are the same."""
    sizes = np.maximum(1e-3, np.abs(predictions).max(axis=0))  # some may be masked by -1e9
    return bool(np.all(predictions.std(axis=0) <= 1e-6 * sizes))


def _from_logits(loss: object) -> bool | None:
    kept = getattr(loss, "_fn_kwargs", {}).get("from_logits")
    return getattr(loss, "from_logits", kept)


def _are_given(real: np.ndarray, call: Call) -> bool:
    """Whether a call of a model gets the real examples, alone or beside others."""
    given = [np.asarray(x) for x in tf.nest.flatten(call.arguments) if hasattr(x, "shape")]
    like = [x for x in given if x.shape[1:] == real.shape[1:] and len(x) >= len(real)]
    rows = len(real)
    return any(np.allclose(part, real) for x in like for part in (x[:rows], x[-rows:]))


def _imitations(lab: Laboratory) -> Iterator[tuple[str, tuple[int, int], tuple[float, float]]]:
    """Models that imitate examples for another one: name, bounds of outputs and of examples."""
    if len(lab.run.trained_models) < 2:
        return
    given = [t[0].numpy() for t in tf.nest.flatten(lab.batch[:-1]) if t.dtype.is_floating]
    for name, model in lab.run.trained_models.items():
        activation = getattr(getattr(model.layers[-1], "activation", None), "__name__", "")
        like = [each for each in given if getattr(model, "output_shape", ())[1:] == each.shape[1:]]
        if activation in BOUNDS and len(like) == 1 and any(
            call.of is not model and _are_given(like[0], call) for call in lab.calls_in_training
        ):  # fmt: skip
            yield name, BOUNDS[activation], (float(like[0].min()), float(like[0].max()))
