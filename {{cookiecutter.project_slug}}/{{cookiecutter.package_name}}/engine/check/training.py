"""Relations of one train step and of its update."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator
from types import FunctionType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..randomness import SAME_ROWS
from .explain import COARSE, SUMMED_LATER, explain
from .findings import Finding, look, ok, relation, wrong
from .functions import named_in
from .graph import accidental_broadcasts
from .laboratory import ADAPTIVE, LOOKS, TOO_FEW_ROWS, Laboratory
from .numbers import (
    TOLERANCE,
    arrays_of,
    close,
    different,
    equal,
    named_leaves,
    relative_difference,
    with_array,
)
from .probe import Look, words_of
from .runs import LONGEST_TRAINING, Failed, secs_of_work, state_of

OF_EXAMPLES = "if it is a mean over the examples, add it to their losses, before compute_loss"
SIGN_BASED = {"Lion", "Muon"}
BESIDE_OTHERS = 1e-6  # relative; the loss of an example alone is the same to the last bit
TURNED = 5e-3  # of a metric, since rounding may change the class of a pixel
MOST_SIZES = 8  # of changes that come from signs
MOST_PAIRS = 64  # of an average and a weight that it may follow
MOST_PARTS = 8  # of a batch; each one takes a step
MOST_BATCHES = 20  # in which no row may count; each one takes two steps
FEW_MASKED = 30  # labels, which may be the same by chance
EVENTS = {"event", "events", "censored", "uncensored", "died", "dead", "death", "failed"}
TIMES = {
    "time", "times", "duration", "day", "days", "month", "months", "year", "years", "tenure",
    "survival", "age",
}  # fmt: skip
ENDS = {"done", "dones", "terminal", "terminals", "terminated", "ended"}
REWARDS = {"reward", "rewards", "rew", "cost", "costs"}
OTHER_DRAWS = "not looked at: random numbers that aren't those of rows are as many as half of them"
MASKS = {"mask", "masks", "visible", "valid", "known", "observed", "labeled"}


@relation("process_gradients")
def processed_gradients(lab: Laboratory) -> Finding:
    """It doesn't multiply gradients by constants, nor center them along the wrong axes."""
    processed = _processed(lab)
    if not processed or any(a.shape != b.shape or not a.size for _, a, b in processed):
        return ok("not looked at: it needs other arguments than random gradients")
    given, made = (np.concatenate([each[i] for each in processed]) for i in (1, 2))
    nothing = [path for path, a, b in processed if not (np.abs(b) > 1e-6 * np.abs(a)).any()]
    if nothing:  # small ones next to others may be left out on purpose
        large = _processed(lab, of=nothing[0], times=1e3)
        nothing = [path for path, _, b in large if path == nothing[0] and not b.any()]
    if nothing and made.any():
        return (wrong if nothing[0] not in zeroed(lab) else look)(
            f"process_gradients sets every gradient of {nothing[0]} to 0",
            "it subtracts the mean of a single number, or multiplies by 0",
            "leave such gradients unchanged; to freeze variables, use trainable = False",
        )
    if made.any() and (np.all(made >= 0) or np.all(made <= 0)) and np.ptp(np.sign(given)):
        return wrong(
            f"process_gradients keeps only gradients {'above' if made.max() > 0 else 'below'} 0",
            "gradients of the other sign are clipped away, so weights move in one direction only",
            "clip both sides symmetrically, such as from -1 to 1",
        )
    if path := _centered_over_outputs(lab, processed):
        return wrong(
            f"process_gradients takes from the gradient of {path} its mean over the outputs",
            "the last axis of a kernel has its outputs in Keras; in PyTorch it is the first",
            "take the mean over all axes but the last (gradient centralization)",
        )
    if (share := _share_of_weights(lab)) < 0:
        return wrong(
            f"process_gradients adds {share:.3g} of each weight to its gradient",
            "wrong sign of the weight decay: weights are pushed away from 0",
            "add a positive share, or use the weight_decay of an optimizer",
        )
    factors = made / given
    factor = float(np.median(factors))

    def factors_of_each(size: float) -> list[float]:
        return [float(np.median(b / a)) for _, a, b in _processed(lab, size)]

    of_each = factors_of_each(1e-3)
    are_scaled = all(np.allclose(b, by * a, rtol=1e-4)
                     for by, (_, a, b) in zip(of_each, processed, strict=True))  # fmt: skip
    are_scaled = are_scaled and not np.allclose(of_each, factor, 1e-3)
    are_adaptive = all(
        type(o).__name__ in ADAPTIVE and (getattr(o, "epsilon", None) or 0) < 1e-3
        for _, o in lab.inner_optimizers
    )
    # With no norm and no limit of a norm, for which a factor may matter.
    if are_scaled and are_adaptive and all(
        np.allclose(factors_of_each(size), of_each, 1e-3) for size in (3e-3, 1e3)
    ):  # fmt: skip
        paths = (path for path, _, _ in processed)
        (least, of_least), *_, (most, of_most) = sorted(zip(of_each, paths, strict=True))
        if least < 0 < most:
            return look(
                f"process_gradients turns the gradients of {of_least} around, and not those of "
                f"{of_most}",
                "a loss that one of them lowers and the other raises, as of multipliers",
                "is this intended?",
            )
        return wrong(
            f"process_gradients multiplies gradients of {of_least} by {least:.3g}, and those "
            f"of {of_most} by {most:.3g}",
            "an optimizer that divides gradients by their size (Adam) makes the same steps",
            "use keras.optimizers.MultiOptimizer, with a learning rate for each",
        )
    if not np.allclose(factors, factor, rtol=1e-4) or close(factor, 1, 1e-3):
        return ok()
    seen = f"process_gradients multiplies every gradient by {factor:.3g}"
    if factor <= 0:
        return wrong(seen, "wrong sign: the optimizer already lowers the loss", "remove the factor")
    return look(
        seen,
        "gradients are already summed over replicas and micro-batches, and the loss is a mean",
        "remove the factor, and set the learning rate",
    )


@relation("order of rows", after="the same step again", exact=True)
def order_of_rows(lab: Laboratory) -> Finding:
    """The order of the rows doesn't matter."""
    if lab.rows < 2:
        return ok(TOO_FEW_ROWS)
    turned = tf.nest.map_structure(lambda t: tf.reverse(t, [1]), lab.batch)
    other = lab.look(turned)
    differences = lab.base.differences(other)
    are_of_metrics = all(name.startswith("the metric") for name in differences)
    if are_of_metrics and not different(lab.base.metrics, other.metrics, TURNED):
        return ok()
    if not lab.is_the_same_when_traced_again:
        return ok("not looked at: see two replicas")
    # In examples that interact, a row may be paired with the next row of the global batch.
    return (look if lab.declared_interacting else wrong)(
        f"{' and '.join(differences[:2])} differ when the rows come in reverse order",
        "inputs, labels or weights are shifted against each other, or positions matter",
        "don't use the position in the batch, and keep inputs, labels and weights aligned",
    )


@relation("examples apart", after="the same step again")
def examples_apart(lab: Laboratory) -> Finding:
    """The loss of an example doesn't depend on the other examples of its batch."""
    if lab.declared_interacting:
        return ok("not looked at: the task says that they interact; --accumulate is refused")
    gathers = _gathers(lab)
    if not gathers and (name := _sees_other_examples(lab)):
        return wrong(
            f"the loss {name} of an example changes with the predictions for other examples",
            "it sums or averages over the axis of the batch, so it is another loss in the batch of "
            "each replica, and in a short batch",
            "reduce over the other axes only; to compare examples, use replica.all_gather, and set "
            "EXAMPLES_INTERACT = True in task/steps.py",
        )
    if lab.interacts:
        if different(lab.look_with_zeros.losses, lab.look_with_other_rows.losses):
            return ok("not looked at: see rows of weight zero")
        return look(
            "the loss of the batch isn't the sum over its examples",
            "examples interact, as with in-batch negatives: --accumulate changes the training",
            "if this is intended, set EXAMPLES_INTERACT = True in task/steps.py",
        )
    if not gathers and (name := _sees_other_labels(lab)):
        return wrong(
            f"the loss {name} of some examples changes with the labels of others",
            "it is divided by a number of the batch, or weighted by frequencies in it, so it is "
            "another loss in the batch of each replica",
            "compute that for each example by itself, or once for the whole split; what the loss "
            "is divided by belongs into count",
        )
    return ok("" if lab.has_halves else "not looked at: halves of the batch aren't comparable")


@relation("micro-batches", after="the same step again", exact=True)
def microbatches(lab: Laboratory) -> Finding:
    """Two micro-batches (--accumulate 2) give the same step as one batch, late in the run too."""
    if found := _moves_too_often(lab):
        return found
    if lab.declared_interacting or lab.interacts:
        return ok("not looked at: examples interact")
    if lab.looks_at_batch or lab.rows % 2:
        return ok(f"not looked at: {lab.looks_at_batch or 'the batch is odd'}")
    if _draws_for_half(lab):
        return ok(OTHER_DRAWS)
    if lab.base.kept:
        return ok("not looked at: the step keeps state for the next step, such as statistics")
    for step in lab.telling_steps:
        one = lab.look(lab.batch, step=step) if step else lab.base
        two = lab.look(lab.batch, step=step, accumulate=2)
        if one.differences(two) and not lab.is_the_same_when_traced_again:
            return ok("not looked at: see two replicas")
        if step and any(
            not close(mean, one.losses[name], 10 * TOLERANCE)
            for name, (mean, _) in lab.means_of_halves_at(step).items()
        ):
            return ok("not looked at later: examples interact, or there are several counts")
        for name, loss in one.losses.items():
            if not close(loss, two.losses[name], 10 * TOLERANCE):
                return wrong(
                    f"the loss {name} is {loss:.4g}{f' in step {step}' * bool(step)}, "
                    f"and {two.losses[name]:.4g} in two micro-batches",
                    _why_two_differ(lab, name, loss, two.losses[name]),
                )
        if one.gradients_differ(two):
            return wrong(
                "gradients differ with two micro-batches",
                "gradients are changed before they are added, or the loss depends on the batch",
            )
    return ok()


def _moves_too_often(lab: Laboratory) -> Finding | None:
    """Whether an average of weights takes over a whole step's share of them in each micro-batch."""
    pairs = [
        (v, s)
        for v in state_of(lab.one) if id(v) in lab.base.kept and len(v.shape) > 1
        for s in lab.run.trainable_variables if s.shape == v.shape and s.dtype == v.dtype
    ][:MOST_PAIRS]  # fmt: skip
    if not pairs or lab.declared_interacting or lab.rows % 2:
        return None
    drawn = np.random.default_rng(0)
    try:
        for v, _ in pairs:  # one that starts as a copy moves nowhere
            v.assign(drawn.standard_normal(v.shape))
        for step in (0, lab.num_steps - 1):  # in one of them it may stand still, or be a copy
            one, two = (lab.look(lab.batch, step=step, accumulate=n).kept for n in (1, 2))
            for v, s in pairs:
                share, of_two = (_taken_over(v, s, kept.get(id(v), v)) for kept in (one, two))
                if 0 < share < 0.999:
                    twice = share * (1 - share)  # what the second one adds
                    if abs(of_two - share - twice) > 0.1 * twice:
                        return None
                    # Without micro-batches nothing is wrong yet.
                    return (wrong if lab.config.accumulate > 1 else look)(
                        f"{v.path}, an average of {s.path}, takes over {share:.3g} of it in a "
                        f"step, and {of_two:.3g} in a step of two micro-batches",
                        "each micro-batch moves it as far as a whole step should",
                        "use decay ** (1 / replica.num_microbatches)",
                    )
    except Failed:  # half a batch may be too small
        return None
    finally:
        lab.reset()
    return None


def _taken_over(average: keras.Variable, source: keras.Variable, after: tf.Tensor) -> float:
    """The share of a weight that an average takes over; 0 if it moves elsewhere, or not at all."""
    before, weight, made = (np.asarray(x, "f8").ravel() for x in (average, source, after))
    moved, apart = made - before, weight - before
    share = float(moved @ apart / (apart @ apart or 1.0))
    return share if relative_difference(moved, share * apart) < 0.01 else 0.0


def _draws_for_half(lab: Laboratory) -> bool:
    """Whether random numbers that aren't those of rows are as many as half of the batch has rows.

    Such as noise of weights: in half of the batch they are taken for those of rows, see `Place`.
    """
    half = max(1, lab.rows // 2)
    shapes = [
        op.outputs[0].shape
        for op in lab.traced.ops
        if op.type.startswith("StatelessRandom") and op.outputs[0].dtype.is_floating
        and SAME_ROWS not in op.name
    ]  # fmt: skip
    return any(s.rank and s[0] and (s[0] % half == 0 or half in s[1:].as_list()) for s in shapes)


def _gathers(lab: Laboratory) -> bool:
    """Whether a train step, or a function that it calls, names all_gather."""
    steps = [step for step in lab.run.functions.train_steps if isinstance(step, FunctionType)]
    return any("all_gather" in named_in(step)[0] for step in steps)


def _sees_other_examples(lab: Laboratory) -> str:
    """A loss that isn't the same for an example beside others; or "".

    The second half of the batch gets the predictions of its last row, since sums over rows stay the
    same where rows only change places; the first half keeps its own.
    """
    half, rows = lab.rows // 2, np.arange(lab.rows)
    turned = np.where(rows < half, rows, lab.rows - 1)
    if half < 2 or accidental_broadcasts(lab.traced.ops, lab.rows):
        return ""  # see shapes
    for name, (labels, predictions, result) in lab.base.calls.items():
        if tf.nest.is_nested(predictions):
            continue
        if {np.shape(each)[:1] for each in (result, predictions)} != {(lab.rows,)}:
            continue
        loss = lab.run.losses[name]
        with contextlib.suppress(Exception):  # it may expect other arguments
            others = tf.gather(predictions, turned)
            before, again, beside = (
                np.asarray(loss(labels, p))[:half]
                for p in (tf.constant(predictions), tf.constant(predictions), others)
            )
            apart = relative_difference(before, beside)
            if np.array_equal(before, again) and apart > BESIDE_OTHERS:
                return name
    return ""


def _sees_other_labels(lab: Laboratory) -> str:
    """A loss that other labels of examples change whose weight is nearly 0; or "".

    These are the second half of the batch, and all get one label, the least or the largest.
    """
    inputs, *labels, weights = lab.batch
    leaves = [np.asarray(leaf[0]) for leaf in tf.nest.flatten(labels)]
    numbers = [np.nan_to_num(y.astype("f8")) for y in leaves if y.dtype.kind in "biuf"]
    if lab.rows < 4 or not numbers or not all(y.shape[:1] == (lab.rows,) for y in leaves):
        return ""
    is_first = np.arange(lab.rows) < lab.rows // 2

    def step(weight: float, row: int = -1) -> tuple[Look, dict[str, int]]:
        """The step where the second half has this weight, and perhaps labels of another row."""

        def weighed(w: tf.Tensor) -> tf.Tensor:
            by = np.where(is_first, 1, weight).reshape(1, -1, *[1] * (w.shape.rank - 2))
            return w * tf.cast(by, w.dtype)

        rows = np.arange(lab.rows) if row < 0 else np.where(is_first, np.arange(lab.rows), row)
        others = tf.nest.map_structure(lambda t: tf.gather(t, rows, axis=1), labels)
        batch = (inputs, *others, tf.nest.map_structure(weighed, weights))
        return lab.look(batch), lab.counts_of(batch)

    first, counts = step(1e-6)
    if lab.looks_at_batch and not first.outputs:  # which see labels, perhaps
        return ""
    if not different(lab.base.losses, first.losses):  # weights are shares of an example's parts
        return ""
    of_rows = sum(y.reshape(lab.rows, -1).mean(axis=1) for y in numbers)
    for row in (int(np.argmin(of_rows)), int(np.argmax(of_rows))):
        seen, now = step(1e-6, row)
        gets_labels = not all(map(np.array_equal, seen.outputs, first.outputs))
        if gets_labels or now != counts:  # a model, or `count`
            return ""
        differ = different(first.losses, seen.losses)
        changed = [name for name in differ if name in lab.run.optimizers]  # and not terms
        # If twice that weight changes a loss, weights aren't factors of it, or the losses of those
        # rows are huge, as of a label whose logit is -1e9.
        if changed and not (
            different(first.losses, step(2e-6)[0].losses)
            or different(seen.losses, step(2e-6, row)[0].losses)
        ):
            return changed[0]
    return ""


def _why_two_differ(lab: Laboratory, name: str, one: float, two: float) -> str:
    """Why a loss isn't the same in two micro-batches."""
    of_model, more = lab.regularization(name), two - one
    own = of_model or lab.penalties.get(name, 0.0)
    rests = one, one - own  # with and without regularization
    if own and close(more, own, COARSE):
        seen = "regularization is added once per micro-batch; use replica.regularization(model)"
        return seen if of_model else f"{seen}; {OF_EXAMPLES}"
    if any(close(more, rest, COARSE) for rest in rests):
        return "each micro-batch's loss is averaged over itself; use replica.global_count"
    if any(close(-2 * more, rest, COARSE) for rest in rests):
        return "the loss is divided by the number of micro-batches, but they are added"
    return "the loss depends on which examples share a micro-batch"


@relation("two replicas make the same step as one", after="the same step again", exact=True)
def two_replicas(lab: Laboratory) -> Finding:
    """Losses, metrics, weights, statistics and optimizer slots are the same."""
    if _draws_for_half(lab):
        return ok(OTHER_DRAWS)
    one, two = lab.trained_on_one, lab.trained_on_two
    numbers = relative_difference(list(one.losses[0].values()), list(two.losses[0].values()))
    turned = different(one.metrics, two.metrics, TURNED)
    numbers = max([numbers, *(abs(one.metrics[n] - two.metrics[n]) for n in turned)])
    weights = relative_difference(one.weights, two.weights)
    norm = two.norms[0] / one.norms[0] if one.norms[0] else 1.0
    seen = f"losses and metrics differ by {numbers:.0e}, weights by {weights:.0e}"
    losses_agree = not different(one.losses[0], two.losses[0])
    if not losses_agree and not lab.is_the_same_when_traced_again:
        seen += ", and each trace of the step gives different numbers"
        return wrong(seen, "see random numbers differ")
    if two.apart > TOLERANCE:
        return wrong(
            f"{seen}, weights of the two replicas by {two.apart:.0e} from each other",
            "each replica makes a different update: process_gradients or a schedule depends on "
            "the replica, or counts its calls",
            "make it depend only on its arguments",
        )
    if losses_agree and close(norm, 2, 1e-3):
        return wrong(seen, "gradients are summed twice; the engine sums them once")
    if losses_agree and close(norm, 0.5, 1e-3):
        return wrong(
            seen, "gradients are averaged over the replicas; the engine sums them: don't divide"
        )
    for name, rate in one.rates.items():
        if not np.isclose(rate, two.rates[name], rtol=COARSE, atol=0) and losses_agree:
            return wrong(
                f"the learning rate is {rate:.3g} on one replica and {two.rates[name]:.3g} on two",
                "it depends on the number of replicas, but the global batch doesn't",
                "don't use num_replicas_in_sync in create_optimizer",
            )
    if losses_agree and not close(norm, 1, 1e-3):
        return wrong(seen, SUMMED_LATER)
    apart = losses_agree and weights >= TOLERANCE and not _is_sign_based(lab)
    if apart and (name := _assigned_apart(lab, 2 * weights)):
        return wrong(
            f"{seen}; {name} differs more",
            "the step assigns it from the rows of one replica",
            "assign a sum or mean over all replicas, as by replica.all_gather, or by "
            'tf.distribute.get_replica_context().all_reduce("sum", value)',
        )
    if apart and weights >= 10 * TOLERANCE:
        # Metrics of later steps differ with the weights.
        return wrong(seen, "the optimizer or process_gradients depends on the replica")
    if numbers < TOLERANCE:
        return _slots_and_state(lab, seen)
    if lab.traced.adds_losses and different(one.losses[0], two.losses[0]):
        return wrong(
            seen,
            "a layer adds a loss of its own (activity_regularizer, add_loss) for all rows",
            "return a per-example loss instead, and add it before compute_loss",
        )
    first, second = (
        {f"{n} loss": v for n, v in each.losses[0].items()} | {n: each.metrics[n] for n in turned}
        for each in (one, two)
    )
    penalty = lab.total_regularization or sum(lab.penalties.values())
    cause, fix = explain(first, second, 2, penalty), ""
    if _gathers(lab):
        fix = "see that own rows, in what all_gather returns, begin at replica.index * rows"
    elif cause.startswith("regularization") and not lab.total_regularization:
        fix = OF_EXAMPLES
    return wrong(seen, cause, fix)


@relation("inputs matter", after="the same step again")
def inputs_matter(lab: Laboratory) -> Finding:
    """The loss depends on the inputs; if there are several inputs or labels, on each of them."""
    if not lab.reached(lab.base):  # as where rewards are rare, and the first batch has none
        return ok("not looked at: no weight gets a gradient from the first batch")
    are_same = equal(lab.batch[0], lab.second_batch[0])
    if not are_same and _ignores_inputs(lab):
        return (look if _are_row_numbers(lab) else wrong)(  # steps may draw the examples
            "every loss is the same with the inputs of another batch",
            "no train step uses them, such as a discriminator that sees only generated examples",
            "pass the inputs of the batch to the model",
        )
    if idle := _ignored_parts(lab):
        for mask in idle:
            if name := _trained_where_masked(lab, mask):
                return wrong(
                    f"{name} are always the same where {mask} are 0, and every loss trains them "
                    f"there: every loss is the same with {mask} of other examples",
                    "a mask of the labels that are known isn't applied",
                    "multiply the loss of each label by its mask, and divide by the mask's sum",
                )
        if name := next((name for name in idle if _says_what_happened(lab, name, idle)), ""):
            cause = "censored examples count as if the event had happened at their last time, or "
            cause += "all as if it hadn't"
            fix = "let only those with an event count in the density or the hazard"
            if words_of(name) & ENDS:
                cause = "the value of a state counts what would come behind the end of an episode"
                fix = f"multiply the value of the next state by 1 - {name}"
            # It may be a group, of which a metric tells, unless the loss has the time of the event.
            has_time = any(n.startswith("labels") and words_of(n) & TIMES
                           for n in lab.named_batch if n not in idle)  # fmt: skip
            is_group = not has_time and _is_in_metrics(lab, name, idle[name])
            return (look if is_group else wrong)(
                f"every loss is the same with {name} of other examples, which are 0 or 1",
                cause,
                fix,
            )
        if unused := [
            name
            for name, other in idle.items()
            if not (_is_in_metrics(lab, name, other) or _counts_by_itself(lab, name))
        ]:
            return look(
                f"every loss is the same with {' and '.join(unused)} of other examples, and so are "
                "all metrics",
                "nothing uses them, such as a mask that isn't applied",
                "use them in the model, the loss or a metric",
            )
        for name in idle:
            if number := _number_beside(lab, name, idle):
                return look(
                    f"every loss is the same with {name} of other examples, which are 0 or 1, but "
                    "metrics aren't",
                    f"the loss takes all {number} alike, such as times of events and of censoring",
                    f"use {name} in the loss too; or is it for metrics only?",
                )
    has_missing = any(
        np.isnan(x).any() for x in map(np.asarray, tf.nest.flatten(lab.batch[0]))
        if x.dtype.kind == "f"
    )  # fmt: skip
    if has_missing and lab.base.missing and not any(lab.base.missing):
        return wrong(
            "inputs are missing (NaN), and what should tell a layer so is 0 everywhere",
            "isnan is computed after what is missing was replaced",
            "compute it before",
        )
    return ok("not looked at: two batches have the same inputs" if are_same else "")


def _assigned_apart(lab: Laboratory, least: float) -> str:
    """A variable that steps assign, and that differs by more than `least` on two replicas."""
    both = lab.trained_on_one.state, lab.trained_on_two.state
    for v, one, two in zip(state_of(lab.one), *both, strict=True):
        by = relative_difference(one, two)
        if id(v) not in lab.of_normalizations and by > max(10 * TOLERANCE, least):
            return v.path
    return ""


def _slots_and_state(lab: Laboratory, seen: str) -> Finding:
    one, two = lab.trained_on_one, lab.trained_on_two
    if (by := relative_difference(one.state, two.state)) > 10 * TOLERANCE:
        return wrong(
            f"{seen}, statistics by {by:.0e}",
            "statistics of one replica's batch; only synchronized layers combine them",
            "use keras.layers.BatchNormalization, or statistics per example",
        )
    if (by := two.state_apart) > TOLERANCE:
        return wrong(
            f"{seen}, statistics or other state of the two replicas by {by:.0e} from each other",
            "each replica writes its own, such as a target network that only the first one moves",
            "compute it from what is the same on every replica, not from replica.index",
        )
    if relative_difference(one.slots, two.slots) > COARSE and not _is_sign_based(lab):
        return wrong(seen, "the optimizer's slots differ, although weights agree")
    return ok(seen)


def _processed(
    lab: Laboratory, size: float = 1e-3, *, of: str = "", times: float = 1.0
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Paths, random gradients of both signs (`of` one path `times` as large), and what is made."""
    found: list[tuple[str, np.ndarray, np.ndarray]] = []  # two models may share a path
    numbers = np.random.default_rng(0)
    for name in lab.run.optimizers:
        variables = lab.run.variables_of(name)
        scales = [size * times if v.path == of else size for v in variables]
        some = [by * numbers.standard_normal(v.shape)
                for by, v in zip(scales, variables, strict=True)]  # fmt: skip
        gradients = [tf.constant(g, v.dtype) for g, v in zip(some, variables, strict=True)]
        with contextlib.suppress(Exception):  # it may need what exists only in a step
            new = lab.run.processed(gradients, variables)
            for v, given, made in zip(variables, some, new, strict=True):
                found.append((v.path, np.ravel(given), np.ravel(np.asarray(made, "f8"))))
    return found


def zeroed(lab: Laboratory) -> set[str]:
    """The paths of variables whose gradients process_gradients leaves out, beside others.

    Not those of one number, or of one for each output, from which it may take their mean.
    """
    shapes = {v.path: v.shape for n in lab.run.optimizers for v in lab.run.variables_of(n)}
    made = _processed(lab)
    left_out = {path for path, _, b in made if not b.any() and _has_means(shapes[path])}
    return left_out if any(b.any() for *_, b in made) else set()


def _has_means(shape: tuple[int, ...]) -> bool:
    """Whether a mean along the first axis, and along all others, is one of several numbers."""
    if len(shape) < 2:
        return bool(shape) and shape[0] > 1
    return bool(min(np.prod(shape[:-1]), np.prod(shape[1:])) > 1)


def _centered_over_outputs(
    lab: Laboratory, processed: list[tuple[str, np.ndarray, np.ndarray]]
) -> str:
    """A kernel of whose gradient the mean over all axes but the first is 0; or ""."""
    variables = [v for name in lab.run.optimizers for v in lab.run.variables_of(name)]
    if len(variables) != len(processed):  # they couldn't be processed for some optimizer
        return ""
    for (path, _, flat), shape in zip(processed, [v.shape for v in variables], strict=True):
        if not path.endswith("kernel") or len(shape) < 2 or min(shape[0], shape[-1]) < 2:
            continue
        made = flat.reshape(shape)
        means = [np.abs(made.mean(axis=axes)).max() / (np.abs(made).max() or 1.0)
                 for axes in (tuple(range(1, made.ndim)), tuple(range(made.ndim - 1)))]  # fmt: skip
        if means[0] < 1e-6 and means[1] > 1e-3:
            return path
    return ""


def _share_of_weights(lab: Laboratory) -> float:
    """The share of each weight that process_gradients adds to its gradient; 0 if none."""
    weights = [np.ravel(v.numpy()) for n in lab.run.optimizers for v in lab.run.variables_of(n)]
    shares = []
    for size in (1e-3, 3e-3):  # what depends on the gradients grows with them
        processed = _processed(lab, size)
        if [given.shape for _, given, _ in processed] != [w.shape for w in weights]:
            return 0.0
        # Nothing may be added to some gradients, such as those of biases.
        pairs = [(made - given, w) for (_, given, made), w in zip(processed, weights, strict=True)]
        some = [(more, w) for more, w in pairs if np.abs(more).max(initial=0) > 1e-6 * size]
        added, those = (np.concatenate([np.zeros(0), *(each[i] for each in some)]) for i in (0, 1))
        shares.append(float(added @ those / max(those @ those, 1e-30)))
        if relative_difference(added, shares[-1] * those) > 0.1:
            return 0.0
    return shares[0] if close(shares[0], shares[1], 1e-3) else 0.0


def _is_sign_based(lab: Laboratory) -> bool:
    """Whether rounding of a gradient may change the sign of a whole step."""
    if any(type(o).__name__ in SIGN_BASED for _, o in lab.inner_optimizers):
        return True
    changes = np.concatenate([np.ravel(np.abs(b - a)) for _, a, b in lab.before_and_after])
    # All weights move by the same amount in each of the few steps, up or down.
    return len(np.unique(np.round(changes / (changes.max() or 1), 3))) <= MOST_SIZES


def _are_row_numbers(lab: Laboratory) -> bool:
    """Whether steps draw, and all inputs are one number for each example, which counts them."""
    inputs = [*arrays_of(lab.examples["train"], "inputs", "fiu").values()]
    return bool(lab.base.drawn and inputs) and all(
        x.size == len(x) > 1 and np.ptp(np.diff(np.ravel(x).astype("f8"))) == 0 for x in inputs
    )


def _ignored_parts(lab: Laboratory) -> dict[str, Look]:
    """The parts of several inputs or labels that change no loss and no count.

    With a look at the first batch that has those of other examples.
    """
    parts = [(n, t) for n, t in named_leaves(lab.batch) if "[" in n and "weights" not in n]
    parts.sort(key=lambda part: not part[0].startswith("labels"))  # they tell more
    found = {}
    for name, array in parts[:MOST_PARTS]:
        turned = tf.roll(array, 1, axis=1)
        if not equal(array, turned):
            try:
                other = lab.look(with_array(lab.batch, name, turned))
            except Failed:  # the step refuses parts that don't belong together, so it uses them
                continue
            if other.counted == lab.base.counted and not lab.base.trains_otherwise(other):
                found[name] = other
    return found


def _counts_by_itself(lab: Laboratory, name: str) -> bool:
    """Whether a loss depends on an input, but not on what else belongs to the same example."""
    if not name.startswith("inputs"):
        return False
    array = lab.named_batch[name]
    of_first = tf.repeat(array[:, :1], array.shape[1], axis=1)
    try:
        return lab.base.trains_otherwise(lab.look(with_array(lab.batch, name, of_first)))
    except Failed:
        return True


def _is_in_metrics(lab: Laboratory, name: str, other: Look) -> bool:
    """Whether a metric of training, as in another look, or of validation depends on labels."""
    if not name.startswith("labels"):
        return False
    if different(lab.base.metrics, other.metrics):
        return True
    if not lab.evaluated_splits:
        return False
    batch = lab.evaluation_batch
    array = dict(named_leaves(batch)).get(name)
    if array is None:
        return False
    own, given = lab.validated(batch)
    # A share may be the same by chance.
    if any(np.array_equal(array[0], each) for values in given.values() for each in values):
        return True
    turned = with_array(batch, name, tf.roll(array, 1, axis=1))
    return bool(different(own, lab.validate(turned, metrics=True)))


def _says_what_happened(lab: Laboratory, name: str, idle: Collection[str]) -> bool:
    """Whether a label tells one of EVENTS or ENDS, by 0 or 1, and isn't told by weights of 0.

    An end matters only where the values of states are learned; those that are `idle` aren't used.
    """
    words = words_of(name)
    if not (words & EVENTS or (words & ENDS and _values_states(lab, idle))):
        return False
    return _is_indicator(lab, name)


def _is_indicator(lab: Laboratory, name: str) -> bool:
    train = lab.examples["train"]
    if not name.startswith("labels") or [*np.unique(train.get(name, ()))] != [0, 1]:
        return False
    return all(np.all(array) for n, array in train.items() if n.startswith("weights"))


def _number_beside(lab: Laboratory, name: str, idle: Collection[str]) -> str:
    """The only label with a number for each example, none negative, beside one of 0 and 1.

    Classes are no such numbers: then the other label may well be a group, for metrics only.
    """
    kinds = (type(loss).__name__ for loss in lab.run.losses.values())
    if not _is_indicator(lab, name) or any("CategoricalCrossentropy" in kind for kind in kinds):
        return ""
    labels = arrays_of(lab.examples["train"], "labels", "iufb")
    of_rows = {n: y for n, y in labels.items() if y.size == len(y) and (n == name or n not in idle)}
    if name not in of_rows or len(of_rows) != 2:
        return ""
    ((number, values),) = ((n, y) for n, y in of_rows.items() if n != name)
    return number if values.min() >= 0 and len(np.unique(values)) > 2 else ""


def _values_states(lab: Laboratory, idle: Collection[str]) -> bool:
    """Whether steps use rewards and call models twice, as for the values of two states."""
    used = (words_of(name) for name, _ in named_leaves(lab.batch) if name not in idle)
    if not any(words & REWARDS for words in used):
        return False
    calls = lab.training_calls(lab.batch, lab.run.models.values())
    firsts = (each for call in calls for each in tf.nest.flatten(call.arguments)[:1])
    states = [t for t in firsts if tf.is_tensor(t) and not tf.is_symbolic_tensor(t)]
    return any(a.shape == b.shape and not equal(a, b) for a, b in itertools.combinations(states, 2))


def _trained_where_masked(lab: Laboratory, mask: str) -> str:
    """Labels that are one number wherever other labels of 0 and 1 are 0, and trained there too."""
    arrays, batch = lab.examples["train"], lab.named_batch
    # By another name it may say of what there is none, as of a purchase.
    is_mask = mask in arrays and mask.startswith("labels") and words_of(mask) & MASKS
    if not is_mask or not np.isin(known := arrays[mask], (0, 1)).all():
        return ""
    for name, labels in arrays_of(arrays, "labels", "iuf").items():
        if name == mask or labels.shape[: known.ndim] != known.shape:
            continue
        gone, there = labels[known == 0], labels[known == 1]
        if len(gone) < FEW_MASKED or np.ptp(gone) or np.mean(there == gone.flat[0]) > 0.5:
            continue
        given, shown = np.array(batch[name]), np.asarray(batch[mask])
        given[shown == 0] += 1
        if lab.base.trains_otherwise(lab.look(with_array(lab.batch, name, tf.constant(given)))):
            return name
    return ""


def _neighbors(lab: Laboratory) -> Iterator[tuple[Any, Any]]:
    """The batches of some steps, each with that of the next step."""
    yield lab.batch, lab.second_batch
    yield from itertools.pairwise(lab.batches.dataset(1, 1 + MOST_BATCHES))


def _ignores_inputs(lab: Laboratory) -> bool:
    """Whether every loss is the same with the inputs of another batch, in each of some steps.

    In one of them no row may count, or what is drawn for all rows may leave the inputs out.
    """
    spent = secs_of_work()
    for step, (batch, (others, *_)) in enumerate(_neighbors(lab)):
        own, other = (lab.look(each, step=step) for each in (batch, (others, *batch[1:])))
        if own.trains_otherwise(other, 1e-6):
            return False
        if step + 1 >= LOOKS and spent() > LONGEST_TRAINING:  # on a slow machine, too
            break
    return True
