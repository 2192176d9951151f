"""Relations of losses: weights, denominators and sizes."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .explain import COARSE
from .findings import Finding, look, ok, relation, wrong
from .graph import accidental_broadcasts
from .laboratory import TOO_FEW_ROWS, Laboratory
from .numbers import (
    IGNORED,
    TOLERANCE,
    Numbers,
    answers,
    close,
    different,
    named_leaves,
    told_apart,
    with_array,
)
from .probe import Look

RARELY = 0.05  # of the examples


@relation("shapes")
def shapes(lab: Laboratory) -> Finding:
    """No tensor of shape (batch,) is combined with one of shape (batch, 1)."""
    if found := accidental_broadcasts(lab.traced.ops, lab.rows):
        name, a, b = found[0]
        return (look if lab.declared_interacting else wrong)(
            f"{name} makes {lab.rows} x {lab.rows} numbers from shapes {a} and {b}",
            "they broadcast by accident, so each row is compared with the labels of all rows",
            "give both tensors the same shape, with tf.squeeze(..., axis=-1) or [:, tf.newaxis]",
        )
    return ok()


@relation("rows of weight zero", after="the same step again", exact=True)
def rows_of_weight_zero(lab: Laboratory) -> Finding:
    """The contents of a row of weight zero change nothing, in the first step and in the last."""
    if lab.rows < 4:
        return ok(TOO_FEW_ROWS)
    if lab.looks_at_batch:
        return ok(f"not looked at: {lab.looks_at_batch} sees all rows")
    first, other = lab.look_with_zeros, lab.look_with_other_rows
    if first.counted != other.counted:
        return wrong(
            f"count is {first.counted} and {other.counted} with other rows of weight 0",
            "count counts rows and ignores the weights",
            "count only rows whose weight isn't 0",
        )
    for step in lab.telling_steps:
        some, others = first, other
        if step:
            both = lab.with_zeros, lab.with_other_rows
            some, others = (lab.look(batch, step=step) for batch in both)
        for name in different(some.losses, others.losses):
            return _unweighted_loss(lab, name, some, others, f" in step {step}" * bool(step))
    for name in different(first.metrics, other.metrics):
        is_now, with_others = told_apart(first.metrics[name], other.metrics[name])
        return wrong(
            f"the metric {name} is {is_now} and {with_others} with other rows of weight 0",
            "update_state isn't given the weights of the batch, or is given the scaled loss",
            "call update_state(labels, predictions, weights)",
        )
    if first.gradients_differ(other):
        # A layer may follow statistics of its batch, as BatchNormalization does.
        return (look if first.kept else wrong)(
            "gradients differ with other rows of weight 0",
            "a term other than the loss depends on these rows",
            "multiply this term by the weights",
        )
    kept = first.kept.keys() - lab.of_normalizations
    for v in (v for model in lab.run.models.values() for v in model.variables):
        if id(v) in kept and not np.allclose(first.kept[id(v)], other.kept[id(v)], 1e-3, 1e-6):
            return look(
                f"{v.path}, which the step assigns, is another with other rows of weight 0",
                "rows of padding are in a sum or an average that is kept",
                "multiply by the weights what it is computed from, and divide by their sum",
            )
    return ok()


@relation("count")
def count_leaves_out_zeros(lab: Laboratory) -> Finding:
    """Rows of weight zero aren't counted, and rows that aren't counted aren't trained on."""
    if lab.rows < 4 or not lab.base.counted:
        return ok(TOO_FEW_ROWS)
    all_count = lab.base.counted
    sizes = np.concatenate([np.abs(np.ravel(w)) for w in tf.nest.flatten(lab.batch[-1])])
    # Otherwise they are counted in thousandths, for example.
    if lab.counts_weights and np.any(sizes % 1) and all_count <= 1 + sizes.sum(dtype="f8"):
        return wrong(
            "count adds up weights that aren't whole numbers",
            "count is an int32, so the sum of each replica is cut off",
            "count the examples whose weight isn't 0, or scale the weights to whole numbers",
        )
    if idle := _trains_what_does_not_count(lab):
        return wrong(
            f"{idle} rows of the first batch aren't counted, but their labels change the loss",
            "the loss is a sum over more rows than it is divided by",
            "count all rows that are in the loss, or give the other rows a weight of 0",
        )
    if found := _counted_by_other_weights(lab):
        return found
    if not (apart := _counts_apart(lab)):
        return _rows_of_positions(lab) or ok(f"{all_count} in the first batch")
    half, rest, whole = apart
    cause = "count includes rows whose weight is 0, such as padding"
    if half + rest == 2 * whole:
        cause = "count doesn't look at the weights: padding counts"
    return wrong(
        f"one half of the batch counts {half}, the other {rest}, both together {whole}",
        cause,
        "count only where the weight isn't 0, with tf.math.count_nonzero",
    )


def _named_counts(lab: Laboratory, batch: Any) -> dict[str, int]:
    """What a batch counts, by name; one count alone as ""."""
    made = lab.count_in(batch)
    named = made if isinstance(made, dict) else {"": made}
    return {name: int(number) for name, number in named.items()}


def _counts_apart(lab: Laboratory) -> tuple[int, int, int] | None:
    """What both halves of the first batch count, and the whole, where that isn't their sum."""
    first = tf.nest.map_structure(lambda t: tf.repeat(t[:, :1], lab.rows, axis=1), lab.batch)
    nothing = lab.weighted(lambda w: 0 * w)
    half, rest, whole, of_first, none = (
        _named_counts(lab, batch)
        for batch in (lab.with_zeros, lab.with_the_other_half, lab.batch, first, nothing)
    )
    for name, number in whole.items():
        # One of several may be 1, for a term of the whole batch; it may be of groups, or of pairs.
        is_constant = none[name] == of_first[name] == number and number % lab.rows > 0
        is_largest = number == max(whole.values())
        is_of_groups = none[name] != number and (lab.declared_interacting or not is_largest)
        is_meant = is_of_groups or (is_constant and len(whole) > 1)
        if half[name] + rest[name] != number and not is_meant:
            return half[name], rest[name], number
    return None


def _counted_by_other_weights(lab: Laboratory) -> Finding | None:
    """Whether a count, where others have weights of the same names, ignores those of its own.

    One that is smaller than what its weights leave may be meant: boxes that are found, by which a
    loss of all boxes is divided.
    """
    weights, counts = lab.batch[-1], lab.counts
    if not isinstance(weights, dict) or not isinstance(counts, dict):
        return None
    for name in sorted(counts.keys() & weights.keys()):
        without = weights | {name: tf.zeros_like(weights[name])}
        there, counted = int(np.count_nonzero(weights[name])), int(counts[name])
        if counted > there and counted == int(lab.count_in((*lab.batch[:-1], without))[name]):
            return wrong(
                f"count gives {counted} for {name!r}, of which {there} have a weight, and as many "
                "if none has",
                f"count doesn't look at weights[{name!r}]",
                f"count where these aren't 0, with tf.math.count_nonzero(weights[{name!r}])",
            )
    return None


def _rows_of_positions(lab: Laboratory) -> Finding | None:
    """Rows that are counted where each has several weights, and as many losses."""
    weights = [np.concatenate(w) for w in tf.nest.flatten(lab.batch[-1])]  # of all replicas
    if len(weights) > 1 or weights[0].ndim < 2:
        return None
    there = weights[0] != 0
    rows, number = int(there.reshape(len(there), -1).any(axis=1).sum()), int(there.sum())
    values = [np.shape(value) for *_, value in lab.base.calls.values()]
    if lab.base.counted != rows or number <= rows or there.shape not in values:
        return None
    return look(
        f"{rows} rows are counted, and {number} losses of their positions have a weight",
        "the loss is a sum over the positions of a row, and grows with their number",
        "to average over positions count them, by tf.math.count_nonzero(weights)",
    )


@relation("weights enter once", after="the same step again")
def weights_enter_once(lab: Laboratory) -> Finding:
    """Doubling the weights doubles the loss, or leaves it the same if `count` sums them."""
    if lab.counts_weights:
        return _counted_weights_enter_once(lab)
    weights = lab.examples["train"].get("weights", np.zeros(0))
    # Not a mask of some rare examples.
    if len(weights) > 20 and close(float(weights.sum()), 1, 1e-3) and weights.max() < 0.5:
        return wrong(
            f"the weights of all {len(weights)} training examples add up to 1, and the loss is "
            "divided by the number of examples as well",
            "it is averaged twice",
            "scale the weights to a mean of 1",
        )
    one, (two, three) = lab.base, lab.look_with_weights
    for name, first in one.losses.items():
        a, b = two.losses[name] - first, three.losses[name] - two.losses[name]
        is_linear = close(b, a, COARSE)
        if close(a, 0) and close(b, 0):
            if found := _without_effect(lab, name):
                return found
        elif not is_linear and close(three.losses[name] * first, two.losses[name] ** 2, COARSE):
            return wrong(
                f"{name} grows exponentially with the weights",
                "it is the exponential of a loss, of which each replica and micro-batch has only "
                "a part; what steps return is added over all of them",
                "take the exponential in a metric, of the mean of the values of examples",
            )
        elif not is_linear and not lab.interacts:
            is_square = close(b / a, 5 / 3, COARSE)
            # Where examples interact, weights may count in the sums over the others too.
            is_meant = lab.declared_interacting or _is_given_a_mask(lab)
            return (look if is_meant else wrong)(
                f"the loss {name} doesn't grow in proportion to the weights"
                f"{', but to their square' * is_square}",
                "weights are used twice"
                if is_square
                else "weights are applied to something other than the loss, such as predictions",
                "use them only in compute_average_loss",
            )
    return ok()


def _is_given_a_mask(lab: Laboratory) -> bool:
    """Whether a loss takes weights that are only 0 or 1, such as those of the pixels of an overlap.

    What it makes of other weights then doesn't matter.
    """
    weights = tf.nest.flatten(lab.batch[-1])
    takes = max(map(_number_of_arguments, lab.run.losses.values()), default=0)
    return takes > 2 and all(np.isin(w, (0, 1)).all() for w in weights)


def _number_of_arguments(loss: Callable[..., Any]) -> int:
    """How many a loss needs."""
    with contextlib.suppress(ValueError, TypeError):
        return sum(p.default is p.empty for p in inspect.signature(loss).parameters.values())
    return 2


def _without_effect(lab: Laboratory, name: str) -> Finding | None:
    """Whether it is a fault that a loss stays the same if all weights are doubled."""
    loss = lab.base.losses[name]
    if abs(loss) < TOLERANCE or _is_of_weights_alone(lab, name):
        return None
    seen = f"the loss {name} doesn't change when all weights are doubled"
    if _ignores_weights(lab, name):
        fix = "multiply by them once: compute_average_loss(sample_weight=...)"
        return wrong(seen, "the weights aren't used", fix)
    weights = tf.nest.flatten(lab.batch[-1])
    if close(lab.means_of_halves[name][0], loss, 10 * TOLERANCE):
        if any(w.shape.rank > 2 for w in weights):
            return None  # it is averaged within each example, and the count is of examples
        if all(np.isin(w, (0, 1)).all() for w in weights) and _are_a_mask(lab, name):
            return look(seen, "they are a mask of the examples that count, not factors")
    if name in lab.run.terms and lab.declared_interacting:
        return look(seen, "it is a statistic of the rows that count, as a balance is")
    return (look if lab.declared_interacting else wrong)(  # such as a correlation
        seen,
        "the loss is averaged twice: divided by the sum of some weights, then by the count",
        "pass the weighted values to compute_loss, and divide only by replica.global_count",
    )


@relation("denominator", after="the same step again")
def denominator(lab: Laboratory) -> Finding:
    """The loss of a batch is the mean over its halves, each weighted by its count."""
    if lab.one[1].constant_denominator or lab.counts_weights or lab.rows < 4:
        return ok("not looked at: the denominator isn't the number of examples")
    if lab.interacts:
        return ok("not looked at: examples interact")
    halves = lab.counts_of(lab.with_zeros), lab.counts_of(lab.with_the_other_half)
    whole = lab.counts_of(lab.batch)
    if all(sum(half[name] for half in halves) != number for name, number in whole.items()):
        return ok("not looked at: see count")
    in_both = _in_both_halves(lab) if isinstance(lab.counts, dict) else None
    compared = False
    for name, loss in lab.base.losses.items():
        if in_both is not None:
            # What is trained may be the sum of all parts; those of only one half add up as well.
            parts = {name, *lab.counts} if name in lab.run.optimizers else {name}
            if not parts <= in_both:
                continue
        mean, total = lab.means_of_halves[name]
        compared |= not close(mean, total, 10 * TOLERANCE)
        if not close(mean, loss, 10 * TOLERANCE) and close(total, loss, 10 * TOLERANCE):
            # A loss that is only reported, such as a number of boxes, may be a sum.
            return (wrong if name in lab.run.optimizers or lab.adds_terms else look)(
                f"the loss {name} is divided by the same number, however many examples count",
                "it is a sum, or divided by a constant or by all rows of the batch",
                "divide it by replica.global_count",
            )
    nothing = "not looked at: no loss counts examples of both halves"
    return _divided_by_another(lab) or ok("" if compared else nothing)


def _in_both_halves(lab: Laboratory) -> set[str]:
    """Of several counts, those that are of some examples in each half of the batch."""
    half, rest, whole = (
        _named_counts(lab, batch) for batch in (lab.with_zeros, lab.with_the_other_half, lab.batch)
    )
    return {
        name for name, number in whole.items()
        if half[name] and rest[name] and half[name] + rest[name] == number
    }  # fmt: skip


def _divided_by_another(lab: Laboratory) -> Finding | None:
    """Of several counts, one that divides what another one is named like."""
    if not isinstance(lab.counts, dict) or not lab.evaluated_splits:
        return None
    batch = lab.evaluation_batch
    once = lab.validate(batch)
    with_twice = {name: lab.validate(batch, twice=name) for name in lab.counts}
    for name in lab.counts:
        if not once.get(name) or not close(with_twice[name][name], once[name], TOLERANCE):
            continue
        for other, losses in with_twice.items():
            if other in once and close(once[other], once[name], TOLERANCE):
                continue  # a sum of parts, of which validation has only that one
            if close(2 * losses[name], once[name], 10 * TOLERANCE):
                # It may be meant, as where pixels count and the loss is a sum over them.
                return look(
                    f"{name} is divided by the count of {other!r}, and not by its own",
                    "another name is looked up in replica.global_count",
                    f"divide it by replica.global_count[{name!r}]",
                )
    return None


@relation("missing labels", after="the same step again")
def missing_labels(lab: Laboratory) -> Finding:
    """The loss is divided by the number of labels that aren't missing."""
    seen = "not looked at: few examples or none have no label"
    for label, array in named_leaves(lab.batch):
        if not label.startswith("labels"):
            continue
        y = np.asarray(array[0])
        elements = np.isnan(y) if y.dtype.kind == "f" else np.isin(y, IGNORED)
        missing = np.flatnonzero(np.reshape(elements, (lab.rows, -1)).all(axis=1))
        share = len(missing) / lab.rows
        if share < RARELY or share == 1:  # they may be known in evaluation only
            continue
        name = _divided_alike(lab, label, y, missing)
        if name is not None:
            seen = ""
        elif seen:
            seen = "not looked at: no loss leaves them out"
            if y.dtype.kind == "f" and _counts_as_known(lab, y, missing):
                return wrong(
                    f"labels of {share:.0%} of the examples are missing (nan), and the loss is the "
                    "mean over all examples",
                    "a missing label was replaced by a number, and is trained on like any other",
                    "give these examples the weight 0, or leave them out of the loss and of count",
                )
        if name:
            # With one count for all losses, this may be a choice.
            return (wrong if isinstance(lab.counts, dict) else look)(
                f"labels of {share:.0%} of the examples are missing ({y[missing].flat[0]}), and "
                f"the loss {name} is divided by the same number, however many are",
                "count includes examples without a label, so the more labels are missing, the "
                "smaller the loss",
                "count labels that aren't missing; for several labels, return a dict",
            )
    return ok(seen)


def _counts_as_known(lab: Laboratory, y: np.ndarray, missing: np.ndarray) -> bool:
    """Whether a loss or term is the mean over all rows, of which missing ones get one number."""
    known = np.setdiff1d(np.arange(lab.rows), missing)
    for _, (labels, _, values) in lab.base.all_calls:
        if np.shape(values) != (lab.rows,) or np.size(labels) != y.size:
            continue
        given, own = np.reshape(labels, (lab.rows, -1)), y.reshape(lab.rows, -1)
        same = np.allclose(given[known], own[known], equal_nan=True)
        if same and np.ptp(given[missing]) == 0 and np.all(values[missing]):
            losses = lab.base.losses
            rest = lab.total_regularization + sum(losses[term] for term in lab.run.terms)
            means = {*losses.values(), *(losses[name] - rest for name in lab.run.optimizers)}
            return any(close(float(np.mean(values)), mean, 1e-3) for mean in means)
    return False


def _divided_alike(lab: Laboratory, label: str, y: np.ndarray, missing: np.ndarray) -> str | None:
    """A loss that ignores missing labels but isn't their mean; "" if none, None if all use them."""
    known = np.setdiff1d(np.arange(lab.rows), missing)
    if len(known) < 6 or not (names := _indifferent_to(lab, missing, known)):
        return None

    def without(rows: np.ndarray) -> Numbers:
        def left_out(w: tf.Tensor) -> tf.Tensor:
            weights = w.numpy()
            weights[0, rows] *= weights[0, missing].any(axis=0)  # they may tell what is missing
            return tf.constant(weights)

        fewer = y.copy()
        fewer[rows] = y[missing[0]]
        *parts, weights = with_array(lab.batch, label, tf.constant(fewer[np.newaxis]))
        return lab.look((*parts, tf.nest.map_structure(left_out, weights))).losses

    third = len(known) // 3
    parts = known[:third], known[third : 2 * third], known[: 2 * third]
    losses = [without(rows) for rows in parts]
    for name in names:
        one, other, both = (lab.base.losses[name] - loss[name] for loss in losses)
        # A mean over the known labels hardly changes.
        is_part = min(abs(one), abs(other)) > 0.1 * abs(lab.base.losses[name])
        if is_part and abs(one + other - both) < 1e-3 * abs(both):
            return name
    return ""


def _indifferent_to(lab: Laboratory, rows: np.ndarray, others: np.ndarray) -> list[str]:
    """The losses that stay the same if some rows get the inputs of other rows."""
    inputs, *rest = lab.batch
    order = np.arange(lab.rows)
    order[rows] = np.resize(others, len(rows))
    moved = tf.nest.map_structure(lambda t: tf.gather(t, order, axis=1), inputs)
    changed = different(lab.base.losses, lab.look((moved, *rest)).losses)
    return [name for name in lab.base.losses if name not in changed]


@relation("first loss", after="the same step again")
def first_loss(lab: Laboratory) -> Finding:
    """Before training, a cross-entropy is about log(classes), the value of a guess."""
    compared = False
    for name, (labels, predictions, values) in lab.base.calls.items():
        part = _part_of_cross_entropy(labels, predictions, values)
        compared |= part is not None
        if part is not None and not close(part, 1, COARSE):
            classes = predictions.shape[-1]
            seen = f"the loss {name} is {part:.3g} times the cross-entropy of {classes} classes"
            # One of several losses may have a factor.
            if close(part, 1 / classes, COARSE) and classes > 2 and len(lab.base.calls) == 1:
                return wrong(seen, "it is a mean over the classes", "sum over the classes")
            return look(seen, "", "is this intended? A factor changes the best learning rate")
        kind = type(lab.run.losses[name]).__name__
        classes = np.shape(predictions)[-1] if np.ndim(predictions) else 0
        if "CategoricalCrossentropy" not in kind or classes < 2 or len(lab.base.losses) != 1:
            continue
        ((optimizer, value),) = lab.base.losses.items()
        compared = True
        guessing = float(np.log(classes))
        own = value - lab.regularization(optimizer)
        times = own / guessing
        seen = f"{value:.4g}, where guessing among {classes} classes gives {guessing:.3g}"
        if not 0.05 < times < 20:
            # A pretrained model gives less, and cosines times a large number give more; the loss
            # of a map may be the sum over its pixels.
            of_parts = times / max(1, int(np.prod(np.shape(predictions)[1:-1])))
            # More than the sum of the cross-entropies is that of another part of the loss.
            is_sure = times > 100 and not 0.5 < of_parts < 20 and own <= 1.1 * np.sum(values)
            return (wrong if is_sure else look)(
                seen,
                "it is a sum where a mean is needed, the logits are too large, or it has a factor",
                "look at the denominator, and at the scale of inputs and of the last layer",
            )
    return ok("" if compared else "not looked at: no loss is a cross-entropy of classes")


def _joins_positions(lab: Laboratory, name: str) -> bool:
    """Whether a loss isn't a sum over pixels or tokens, such as that of Dice."""
    labels, predictions, _ = lab.base.calls[name]
    made = answers(labels, predictions)
    if made is None or np.shape(labels) != np.shape(predictions)[:-1] or np.ndim(labels) < 2:
        return False
    loss, (right, *_, wrong_one) = lab.run.losses[name], made
    odd = np.indices(np.shape(labels)).sum(axis=0)[..., np.newaxis] % 2 == 1
    mixed = np.where(odd, right, wrong_one), np.where(odd, wrong_one, right)
    of_mixed, of_whole = (
        sum(float(np.mean(loss(labels, tf.constant(p)))) for p in each)
        for each in (mixed, (right, wrong_one))
    )
    return not close(of_mixed, of_whole, 0.01)


@relation("right and wrong", after="the same step again")
def right_and_wrong(lab: Laboratory) -> Finding:
    """A guess has a smaller loss than a confident wrong prediction, a right one the smallest."""
    compared = False
    for name in lab.base.calls:
        of_answers = lab.losses_of_answers(name)
        if of_answers is None:
            continue
        compared = True
        if best := _best_probability(lab, name):
            return wrong(
                f"the loss {name} is smallest where the right class has a probability of "
                f"{best:.2g}, and larger where it has more",
                "label smoothing of more than a half: it is the share that all classes get",
                "use a smaller one, such as label_smoothing=0.1",
            )
        right, guess, doubtful, wrong_one = of_answers
        if right < guess and wrong_one < 0.8 * guess:
            # What is far too large may be clipped, for labels that are probably wrong.
            # Nor is it sure of a sum over a region, in which absent classes may count as right.
            is_sure = doubtful <= 1.1 * guess and not _joins_positions(lab, name)
            # The next class may be a small mistake, of grades or directions.
            is_sure = is_sure and _of_far_classes(lab, name) < 0.8 * guess
            return (wrong if is_sure else look)(
                f"the loss {name} is {right:.3g} where predictions are confident and right, "
                f"{guess:.3g} where they are guesses, and {wrong_one:.3g} where they are "
                "confident and wrong",
                "it is smallest at both ends, so many examples are trained towards the wrong label",
                "look at its formula, such as p where 1 - p is needed",
            )
    return ok("" if compared else "not looked at: no loss is one of labels that are classes")


def _of_far_classes(lab: Laboratory, name: str) -> float:
    """The mean loss of confident predictions of classes that are far from the right ones."""
    labels, predictions, _ = lab.base.calls[name]
    if (right := _one_of_several(labels, predictions)) is None:
        return 0.0
    return float(np.mean(lab.run.losses[name](labels, tf.constant(_far(right)))))


def _one_of_several(labels: Any, predictions: Any) -> np.ndarray | None:
    """The right answers, if each is one of at least three classes."""
    made = answers(labels, predictions)
    if made is None or np.shape(predictions)[-1] < 3:
        return None
    is_largest = made.right == made.right.max(axis=-1, keepdims=True)
    return made.right if np.all(is_largest.sum(axis=-1) == 1) else None


def _far(answers: np.ndarray) -> np.ndarray:
    """Answers of the classes that are far from them, as of grades or directions."""
    return np.roll(answers, (answers.shape[-1] + 1) // 2, axis=-1)


def _best_probability(lab: Laboratory, name: str) -> float | None:
    """The probability of the right class where a cross-entropy is smallest, if it is too low."""
    labels, predictions, _ = lab.base.calls[name]
    answer, loss = _one_of_several(labels, predictions), lab.run.losses[name]
    if answer is None:
        return None
    one_hot, is_logits = answer == answer.max(axis=-1, keepdims=True), answer.max() > 1
    others = np.logical_not(one_hot)
    next_one, far_one = np.roll(one_hot, 1, axis=-1), _far(one_hot)

    def loss_of(right: float, of: np.ndarray = others, shift: float = 0.0) -> np.ndarray:
        rest = np.where(of, (1 - right) / of.sum(axis=-1, keepdims=True), 1e-4)
        p = np.where(one_hot, right, rest)
        p = np.log(p) + shift if is_logits else p
        return np.asarray(loss(labels, tf.constant(p, predictions.dtype)))

    grid = np.arange(0.02, 0.96, 0.03)
    try:  # it may expect other arguments
        if is_logits and not np.allclose(loss_of(0.6, shift=1.0), loss_of(0.6), rtol=COARSE):
            return None  # not that of a softmax
        if not np.allclose(loss_of(0.6, next_one), loss_of(0.6, far_one), rtol=COARSE):
            return None  # some classes are nearer to the right one than others
        values = [float(np.mean(loss_of(float(right)))) for right in grid]
    except Exception:
        return None
    least = int(np.argmin(values))
    is_low = least > 0 and grid[least] < 0.5 and values[-1] > 1.1 * values[least]
    return float(grid[least]) if is_low else None


@relation("regularization", after="the same step again", exact=True)
def regularization(lab: Laboratory) -> Finding:
    """The regularization of the layers is in the loss exactly once."""
    total = lab.total_regularization
    if total < 1e-9:
        return ok("not looked at: there is none")
    whole = sum(lab.base.losses[name] for name in lab.run.optimizers)
    if total > 0.9 * whole > 0:
        return look(
            f"regularization is {total / whole:.0%} of the loss",
            "the factor of a regularizer is too large: the weights are trained towards 0",
            "values around 1e-5 to 1e-3 are common",
        )
    if total < 1e-6 * sum(abs(lab.base.losses[name]) for name in lab.run.optimizers):
        return ok("not looked at: it is too small beside the loss to be seen in float32")
    if lab.traced.adds_losses or lab.counts_weights or lab.interacts:
        return ok("not looked at: the loss has other parts")
    two, three = lab.look_with_weights
    if different(
        {n: 2 * loss - lab.base.losses[n] for n, loss in two.losses.items()}, three.losses, COARSE
    ):
        return ok("not looked at: see weights enter once")
    held = _without_weights(lab, lab.base, two)
    # A loss may include the regularization of all models: it has a gradient only in its own.
    if all(close(h, lab.regularization(n), COARSE) or close(h, total, COARSE)
           for n, h in held.items()):  # fmt: skip
        found = total * _times_in_loss(lab)
    else:
        found = sum(held.values())
    if abs(found) < COARSE * total:
        if _comes_later(lab):
            return ok("the loss doesn't include it at first")
        return wrong(
            f"layers have regularizers ({total:.3g}), and the loss doesn't hold them",
            "",
            "add tf.nn.scale_regularization_loss(replica.regularization(model))",
        )
    times = found / total
    if close(times, 1, COARSE):
        return ok(f"{total:.3g}")
    # The loss may have another term that doesn't grow with the weights of examples.
    is_several = any(close(times, n, COARSE) or close(1 / times, n, COARSE)
                     for n in (*range(2, 11), lab.rows))  # fmt: skip
    return (wrong if is_several else look)(
        f"regularization is {total:.3g}, but the loss includes {found:.3g}",
        f"it is in the loss {times:.3g} times",
        "add it once",
    )


def _counted_weights_enter_once(lab: Laboratory) -> Finding:
    """If count sums the weights, twice the weights give the same loss."""
    twice, thrice = lab.weighted(lambda w: 2 * w), lab.weighted(lambda w: 3 * w)
    sums = list(map(lab.count, (lab.batch, twice, thrice)))
    is_sum = all(close(n, by * sums[0], COARSE) for by, n in enumerate(sums, 1))
    if lab.has_other_denominators or lab.declared_interacting or not is_sum:
        return ok("not looked at: count depends on the size of the weights")
    two, three = lab.look_with_weights
    for name, first in lab.base.losses.items():
        a, b = two.losses[name] - first, three.losses[name] - two.losses[name]
        # Where examples interact, each pair may have a weight.
        is_mean = close(lab.means_of_halves[name][0], first, 10 * TOLERANCE)
        if abs(a) > COARSE * abs(first) and close(b, a, COARSE) and is_mean:
            return wrong(
                f"the loss {name} grows with the weights, and count sums the weights",
                "weights are used twice, or the loss is divided by something else",
                "use them only in compute_average_loss, and divide by global_count",
            )
    return ok("count sums the weights")


def _are_a_mask(lab: Laboratory, name: str) -> bool:
    """Whether doubling the weights of some rows keeps a loss; it changes a weighted mean."""
    half = lab.rows // 2
    other = lab.weighted(lambda w: tf.concat([2 * w[:, :half], w[:, half:]], axis=1))
    return close(lab.base.losses[name], lab.look(other).losses[name])


def _is_of_weights_alone(lab: Laboratory, name: str) -> bool:
    """Whether a term is the same for other examples, such as a penalty that is only reported."""
    if name in lab.run.optimizers:
        return False
    return close(lab.base.losses[name], lab.look(lab.second_batch).losses[name])


def _times_in_loss(lab: Laboratory) -> float:
    """How often the loss holds what regularizers of weights give, also with weights of examples.

    1 if it doesn't follow from them alone, as with those of activities, or if each loss may hold
    those of all models.
    """
    own = sum(float(v.regularizer(v)) for v in lab.run.trainable_variables if v.regularizer)
    whole = sum(lab.base.losses[name] for name in lab.run.optimizers)
    if len(lab.run.optimizers) > 1 or not close(own, lab.total_regularization, COARSE):
        return 1.0
    more = max(1.0, 0.1 * whole / own)  # large enough not to be rounded away
    scaled = lab.with_regularizers(1 + more)
    added = sum(scaled.losses[name] for name in lab.run.optimizers) - whole
    return max(1.0, round(added / (more * own), 2))


def _comes_later(lab: Laboratory) -> bool:
    """Whether the loss includes regularization later in the run, but not at first."""
    twice = lab.weighted(lambda w: 2 * w)
    for late in (lab.num_steps - 1, *(lab.num_steps * n // 8 for n in range(1, 8))):
        one, two = (lab.look(batch, step=late) for batch in (lab.batch, twice))
        held = sum(_without_weights(lab, one, two).values())
        if abs(held) > COARSE * lab.total_regularization:
            return True
    return False


def _without_weights(lab: Laboratory, one: Look, two: Look) -> Numbers:
    """The part of each loss that doesn't grow with the weights, which are doubled in `two`."""
    return {n: 2 * one.losses[n] - two.losses[n] for n in lab.run.optimizers}


def _part_of_cross_entropy(labels: Any, predictions: Any, values: Any) -> float | None:
    """The factor of the cross-entropies of logits; None if it isn't one number."""
    y, p = np.asarray(labels), np.asarray(predictions)
    if p.dtype.kind != "f" or p.ndim < 2 or p.shape[-1] < 2 or np.shape(values) != p.shape[:-1]:
        return None
    is_right = y == 1
    if y.shape in (p.shape[:-1], (*p.shape[:-1], 1)):
        is_right = y.reshape(*p.shape[:-1], 1) == np.arange(p.shape[-1])
    if is_right.shape != p.shape or not np.all(is_right.sum(axis=-1) == 1):
        return None
    p = p.astype("f8")
    p -= p.max(axis=-1, keepdims=True)
    factors = values / (np.log(np.exp(p).sum(axis=-1)) - p[is_right].reshape(p.shape[:-1]) + 1e-9)
    factor = float(np.median(factors))
    return factor if np.allclose(factors, factor, rtol=1e-3) else None


def _unweighted_loss(lab: Laboratory, name: str, first: Look, other: Look, when: str) -> Finding:
    """The finding for a loss that changes with rows of weight 0."""
    cause = "a part of the loss ignores the weights, or examples interact with rows of weight 0"
    if _ignores_weights(lab, name):
        cause = "the weights aren't used, so padding trains"
    elif accidental_broadcasts(lab.traced.ops, lab.rows):
        cause = "each row is compared with the labels of all rows: see shapes"
    return wrong(
        f"the loss {name} is {first.losses[name]:.4g}{when}, and {other.losses[name]:.4g} with "
        "other rows of weight 0",
        cause,
        "multiply every part by the weights, as sample_weight of compute_average_loss does, and "
        "mask rows of weight 0 where examples interact",
    )


def _trains_what_does_not_count(lab: Laboratory) -> int:
    """How many rows of the first batch aren't counted, but change a loss by their labels."""
    if len(lab.batch) != 3 or lab.has_other_denominators or lab.declared_interacting:
        return 0
    inputs, labels, weights = lab.batch
    flat = [np.asarray(w[0]).reshape(lab.rows, -1) for w in tf.nest.flatten(weights)]
    there = np.concatenate(flat, axis=1).any(axis=1)
    if there.sum() <= lab.base.counted:
        return 0

    def counts(row: int) -> int:
        return lab.count(lab.weighted(
            lambda w: tf.concat([0 * w[:, :row], w[:, row : row + 1], 0 * w[:, row + 1 :]], 1)
        ))  # fmt: skip

    idle = [row for row in np.flatnonzero(there).tolist() if not counts(row)]
    order = np.arange(lab.rows)
    order[idle] = np.roll(idle, 1)
    turned = tf.nest.map_structure(lambda t: tf.gather(t, order, axis=1), labels)
    other = lab.look((inputs, turned, weights))
    same_count = other.counted == lab.base.counted
    return len(idle) if same_count and different(lab.base.losses, other.losses) else 0


def _ignores_weights(lab: Laboratory, name: str) -> bool:
    """Whether a loss includes all rows, whatever their weights and its denominator."""
    some = lab.look_with_zeros
    share = some.counted / max(1, lab.base.counted)
    return any(close(f * some.losses[name], lab.base.losses[name]) for f in (1.0, share))
