"""Relation of the outputs at which the loss is smallest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..inner_functions import inlined
from ..types import Run, Step
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import (
    FEW,
    IGNORED,
    TOLERANCE,
    arrays_of,
    named_leaves,
    of_next_row,
    relative_difference,
)
from .probe import replaced
from .runs import Call, secs_of_work

Loss = Callable[[tf.Tensor], tf.Tensor]  # of one output of the model

DESCENT, RATE = 300, 0.2  # steps and learning rate of Adam, which falls to 0
LONGEST = 3.0  # seconds of work for one output
SAME = 1e-4  # of the fall of a loss
VARY = 0.01  # of the numbers of labels
SEVERAL = 0.3  # of the rows
SEARCHED = 40  # batches
MOST_NUMBERS = 8  # that are learned beside the weights of layers
OF_LAYERS = ("kernel", "bias", "gamma", "beta", "embeddings")


@relation("best outputs", after="the same step again")
def best_outputs(lab: Laboratory) -> Finding:
    """The loss is smallest where outputs differ with the labels, and it has a smallest value."""
    steps = dict.fromkeys(lab.run.functions.train_steps)
    if len(steps) == 1 and (found := _only_lowers(lab, *steps)):
        return found
    if len(steps) != 1 or len(lab.run.trained_models) != 1 or lab.rows < 4:
        return ok("not looked at: there are several models or train steps, or too few rows")
    (model,) = lab.run.trained_models.values()
    found = _best_outputs_for(lab, lab.batch, model)
    if found.verdict != "WRONG" or (batch := _with_both_answers(lab)) is lab.batch:
        return found
    if batch is None:
        return found._replace(verdict="look")
    return _best_outputs_for(lab, batch, model)


def _only_lowers(lab: Laboratory, step: Step) -> Finding | None:
    """Whether a learned number s multiplies a part of a loss by exp(-s), and nothing holds it.

    Then each 1 that it is changed by lowers the loss by the same factor less than the one before.
    """
    variables = [v for v in lab.run.trainable_variables
                 if v.name not in OF_LAYERS and len(v.shape) < 2]  # fmt: skip
    places = [(v, i) for v in variables for i in range(int(np.prod(v.shape)))]
    if not 0 < len(places) <= MOST_NUMBERS:
        return None

    def loss_with(v: keras.Variable, i: int, more: float) -> float:
        value = np.array(lab.initial[id(v)])
        value.reshape(-1)[i] += more
        v.assign(value)
        losses = lab.compute(step, lab.run, lab.batch)
        return sum(losses[name] for name in lab.run.optimizers if name in losses)

    start = loss_with(*places[0], 0.0)
    for v, i in places:
        for sign in (1.0, -1.0):
            one = loss_with(v, i, sign)
            if not start - one > TOLERANCE * abs(start):
                continue
            two, three = (loss_with(v, i, sign * times) for times in (2, 3))
            falls = [start - one, one - two, two - three]
            if min(falls) <= 0 or not 1.5 < falls[0] / falls[1] < 8:  # exp(-s/2) to exp(-2s)
                continue
            if np.isclose(falls[0] / falls[1], falls[1] / falls[2], rtol=1e-3):
                return wrong(
                    f"{v.path}[{i}] lowers the loss without end: by {falls[0]:.3g}, {falls[1]:.3g} "
                    f"and {falls[2]:.3g} with each 1 that it is changed by",
                    "it is a learned weight of a part of the loss, without the term that holds it, "
                    "such as the logarithm of a variance: that part fades out",
                    "add the term, as in exp(-s) * loss + s / 2",
                )
    return None


def _with_both_answers(lab: Laboratory) -> Any:
    """The first batch in which each label of 0 and 1 is 0 and 1; None if there is none soon.

    And classes are of two kinds at least. Without a rare event among its examples, one output may
    be the best for all.
    """
    train = arrays_of(lab.examples["train"], "labels", "fiub")
    varied = {name: _are_both(array) for name, array in train.items()}
    classes = [name for name, array in train.items() if _are_classes(array)]

    def has_both(batch: Any) -> bool:
        there = {n: np.asarray(t[0]) for n, t in named_leaves(batch) if n in varied}
        both = {name: _are_both(array) for name, array in there.items()}
        return all(
            both[n].shape != varied[n].shape or both[n][varied[n]].all() for n in both
        ) and all(_are_classes(there[name]) for name in classes if name in there)

    if has_both(lab.batch):
        return lab.batch
    return next(filter(has_both, lab.batches.dataset(0, SEARCHED)), None)


def _are_both(labels: np.ndarray) -> np.ndarray:
    """Which numbers of each example are 0 for some and 1 for others; -1 and NaN are missing."""
    columns = np.asarray(labels, "f8").reshape(len(labels), -1)
    has_no_other = np.all(np.isin(columns, (-1, 0, 1)) | np.isnan(columns), axis=0)
    return has_no_other & np.any(columns == 0, axis=0) & np.any(columns == 1, axis=0)


def _are_classes(labels: np.ndarray) -> bool:
    """Whether they are one class for each example, of at least two; some may be missing."""
    if labels.dtype.kind not in "iu" or labels.size != len(labels):
        return False
    return 1 < len(np.unique(labels[~np.isin(labels, IGNORED)])) <= FEW


def _best_outputs_for(lab: Laboratory, batch: Any, model: keras.Model) -> Finding:
    """What is found in one batch."""
    calls = lab.training_calls(batch, [model])
    if len(calls) != 1:
        return ok("not looked at: the train step calls the model several times")
    compared = False
    for name, made in named_leaves((calls[0].made,)):
        output = name.replace("inputs", "output")
        fall = _fall(lab, batch, calls[0], made) if _is_of_rows(lab, batch, made) else None
        if fall is None:
            continue
        compared = True
        if fall.needs_no_labels:
            return wrong(
                f"with one {output} for all examples the loss is as small as with the best for "
                f"each: {fall.least:.3g}, from {fall.start:.3g}",
                "a part of the formula is missing, such as the logarithm of a variance, the "
                "examples of one class, or errors of one sign",
                "compare it with its source, term by term",
            )
        if fall.is_endless:
            return look(
                f"with one {output} for all examples the loss falls without end",
                "probabilities or densities that aren't normalized",
                "normalize them, for example by tf.nn.log_softmax",
            )
    nothing = "not looked at: no output has a row for each example, or it would take too long"
    return ok("" if compared else nothing)


class _Fall(NamedTuple):
    """How far the loss falls by changes of one output alone."""

    start: float
    shared: float  # with the best row for all examples
    least: float  # with the best one for each
    is_endless: bool

    @property
    def needs_no_labels(self) -> bool:
        """Whether rows of their own hardly lower it further."""
        fall = self.start - self.shared
        return fall > 0.01 * abs(self.start) and self.shared - self.least < SAME * fall


def _is_of_rows(lab: Laboratory, batch: Any, made: Any) -> bool:
    """Whether an output has a row for each example, whose labels differ."""
    if not tf.is_tensor(made) or not made.dtype.is_floating or made.shape[:1] != [lab.rows]:
        return False
    differ = [np.ravel(np.any(y != y[:1], axis=0)) for y in _targets(batch)]
    return bool(differ) and float(np.mean(np.concatenate(differ))) > VARY


def _targets(batch: Any) -> list[np.ndarray]:
    """The labels of a batch that are numbers, and the inputs if there are no labels."""
    inputs, *labels, _ = batch
    targets = (np.asarray(t[0]) for t in tf.nest.flatten(labels or inputs))
    return [y for y in targets if y.dtype.kind in "fiub" and y.size]


def _fall(lab: Laboratory, batch: Any, call: Call, made: tf.Tensor) -> _Fall | None:
    """How far the loss falls; None if that can't be told."""
    (step,) = dict.fromkeys(lab.run.functions.train_steps)
    loss = _loss_of(lab, lab.run, step, batch, call, made)
    scale, spent = _scale(batch, made), secs_of_work()
    try:
        total, slope = _with_slope(loss, made)
    except (TypeError, ValueError, tf.errors.OpError):
        return None  # as where a step needs the slope of outputs, which other numbers don't have
    slopes = np.asarray(slope)
    # As many rows must agree on what is best: few have a slope where a mask chooses positions.
    pulled = (slopes.reshape(lab.rows, -1) != 0).sum(axis=0)
    others = float(loss(tf.roll(made, 1, axis=0)))
    if not pulled.any() or np.median(pulled[pulled > 0]) < max(3, SEVERAL * lab.rows):
        return None
    if np.isclose(others, float(total), rtol=1e-5):
        return None  # as a penalty for the size of an output
    found = None
    # Of a loss of positive numbers, both: what it gives for others may mean nothing.
    for free, inverse in _domains(batch, made.numpy()):
        start = inverse.mean(axis=0, keepdims=True)

        def of_free(x: tf.Tensor, free: Any = free) -> tf.Tensor:
            return loss(free(tf.broadcast_to(x, made.shape)))

        descend = _descent(of_free, RATE * scale, spent)
        best, first_least = descend(start)
        # Both go on from there; where all rows are equal, a slope may vanish by symmetry.
        noise = 1e-3 * scale * np.random.default_rng(0).standard_normal(made.shape)
        shared, least_shared = descend(best)
        first = float(of_free(tf.constant(start)))
        enough = least_shared - SAME * (first - least_shared)  # rows of their own matter
        _, least = descend((best + noise).astype(start.dtype), enough)
        if np.isfinite([first, first_least, least_shared, least]).all():
            is_endless = _is_endless(batch, of_free, start, shared, first - least_shared)
            fall = _Fall(first, least_shared, min(least, least_shared), is_endless)
            if fall.needs_no_labels:
                of_others = _loss_of(lab, lab.run, step, _of_other_labels(batch), call, made)
                best = free(tf.broadcast_to(shared, made.shape))
                own, other = (float(each(made) - each(best)) for each in (loss, of_others))
                if np.isclose(own, other, rtol=SAME):
                    return None  # as a penalty for its size whose examples have weights
                found = found or fall
                continue
            return fall
    return found


def _of_other_labels(batch: Any) -> Any:
    """A batch with the targets of other examples."""
    inputs, *labels, weights = batch
    if labels:
        return inputs, *of_next_row(labels), weights
    return of_next_row(inputs), weights


def best_in_validation(lab: Laboratory, call: Call) -> np.ndarray | None:
    """What the only call of a model would have to give for the smallest loss in validation."""
    run, made = lab.on_one.run, call.made
    if not made.dtype.is_floating:
        return None
    step, rate = lab.run.functions.validation_step, RATE * _scale(lab.batch, made)
    loss = _loss_of(lab, run, step, lab.evaluation_batch, call, made)
    for free, inverse in _domains(lab.batch, made.numpy()):

        def of_free(x: tf.Tensor, free: Any = free) -> tf.Tensor:
            return loss(free(x))

        best, least = _descent(of_free, rate, secs_of_work())(inverse)
        if np.isfinite(least):
            return np.asarray(free(tf.constant(best)))
    return None


def _loss_of(
    lab: Laboratory, run: Run, step: Step, batch: Any, call: Call, made: tf.Tensor
) -> Loss:
    """The loss of a batch as a function of one output of the only call of a model in a step."""
    local, replica = lab.given(batch)
    model, outputs = call.of, call.made

    def loss(output: tf.Tensor) -> tf.Tensor:
        leaves = [output if leaf is made else leaf for leaf in tf.nest.flatten(outputs)]
        given = tf.nest.pack_sequence_as(outputs, leaves)
        call = replaced([(model, "call")], lambda *_: lambda *arguments, **keywords: given)
        read = [(v, tf.convert_to_tensor(v.value)) for v in run.trainable_variables]
        with call, inlined(), keras.StatelessScope(read, collect_losses=True):
            losses = step(run, local, replica)
        return tf.add_n([losses[name] for name in run.optimizers if name in losses])

    return loss


def _domains(batch: Any, made: np.ndarray) -> list[tuple[Loss, np.ndarray]]:
    """What makes outputs of free numbers, and these numbers: within the range of an activation."""
    are_shares = made.min() >= 0 and made.max() <= 1
    sums = made.sum(axis=-1) if made.ndim > 1 and made.shape[-1] > 1 else np.zeros(1)
    if are_shares and np.allclose(sums, 1, atol=1e-3):
        return [(tf.nn.softmax, np.log(np.maximum(made, 1e-6)))]
    if are_shares and all(np.nanmin(y) >= 0 and np.nanmax(y) <= 1 for y in _targets(batch)):
        inside = np.clip(made, 1e-3, 1 - 1e-3)
        return [(tf.sigmoid, np.log(inside / (1 - inside)))]
    domains: list[tuple[Loss, np.ndarray]] = [(tf.identity, made)]
    return [*domains, (tf.exp, np.log(made))] if made.min() > 0 else domains


def _scale(batch: Any, made: tf.Tensor) -> float:
    """The size of numbers to predict, at least 1."""
    number = made.shape.num_elements()
    sizes = [float(np.nanmean(np.abs(y))) for y in _targets(batch)
             if y.dtype.kind == "f" or (y.dtype.kind in "iu" and y.size == number)]  # fmt: skip
    return max([1.0, *sizes])


def _is_endless(batch: Any, loss: Loss, start: np.ndarray, shared: np.ndarray, fall: float) -> bool:
    """Whether the loss falls on as fast far beyond the best shared row, without a reason.

    A density may grow without end where all labels are the same. A loss that is linear in all
    outputs, such as that of a critic or of a policy, has no smallest value.
    """
    labels = [np.asarray(t[0]) for t in tf.nest.flatten(batch[1:-1])]
    columns = [x for y in labels if y.dtype.kind in "fiu" for x in y.reshape(len(y), -1).T]
    if fall <= 0 or not columns or any(len(np.unique(each)) < 4 for each in columns):
        return False
    slopes = [_with_slope(loss, tf.constant(at))[1] for at in (start, shared)]
    near, far, further = (float(loss(tf.constant(start + by * (shared - start))))
                          for by in (1, 10, 100))  # fmt: skip
    falls_on = near - far > 5 * fall and far - further > 50 * fall
    return bool(np.isfinite(further)) and falls_on and relative_difference(*slopes) > 1e-3


def _with_slope(loss: Loss, at: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The loss of an output, and its gradient."""
    with tf.GradientTape() as tape:
        tape.watch(at)
        total = loss(at)
    return total, tape.gradient(total, at, unconnected_gradients="zero")


def _descent(
    loss: Loss, rate: float, spent: Callable[[], float]
) -> Callable[..., tuple[np.ndarray, float]]:
    """A function from the numbers to start with to the best that Adam finds, and their loss.

    That is NaN if it becomes infinite or takes too long. It may stop where the loss is `enough`.
    """

    @tf.function(autograph=False)  # traced once for each shape of the numbers
    def step(t: Any, x: Any, mean: Any, square: Any) -> tuple[Any, ...]:
        total, slope = _with_slope(loss, x)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        by = 0.5 * rate * (1 + tf.cos(np.pi * t / DESCENT)) / (1 - 0.9 ** (t + 1))
        size = tf.sqrt(square / (1 - 0.999 ** (t + 1))) + 1e-12
        return total, x - by * mean / size, mean, square

    def descend(start: np.ndarray, enough: float = -np.inf) -> tuple[np.ndarray, float]:
        zeros = tf.zeros_like(start)
        best, least, state = start, np.inf, (tf.constant(start), zeros, zeros)
        for i in range(DESCENT):
            before = state[0]
            total, *state = step(tf.constant(i, start.dtype), *state)
            if not np.isfinite(float(total)) or spent() > LONGEST:
                return best, np.nan
            if float(total) < least:
                best, least = before.numpy(), float(total)
            if least < enough:
                break
        return best, least

    return descend
