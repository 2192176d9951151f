"""Relations of many train steps."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..callbacks import learning_rates
from ..replicas import normalizations
from ..types import Run
from . import held_out
from .adversaries import JUDGES
from .findings import Finding, look, ok, relation, wrong
from .functions import SETS_WEIGHTS, named_by_callbacks
from .laboratory import ADAPTIVE, REPEATED_STEPS, Laboratory
from .numbers import Numbers, relative_difference
from .probe import is_own, words_of
from .rates import has_schedule, rates_at
from .runs import REAL_STEPS, keras_callbacks_in, state_of
from .training import zeroed

MOST_VARIABLES = 8  # that a step assigns; each takes a step
BETAS = (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
CLEAR, UNLIKELY = 3.0, 2.5  # standard deviations of an AUC that ranks by chance
RATES = {"target", "rate", "factor", "lr", "start", "from", "initial", "init"}  # no lengths
SWAPPED = "decay and 1 - decay are swapped"
GIVEN = "use the number of steps that create_optimizer is given"
BENT = (keras.activations.relu, keras.activations.leaky_relu, keras.activations.relu6)
FOLLOWERS = {"target", "targets", "teacher", "ema", "average"}  # of a judge that is trained
ONE_SIDED = ("Precision", "Recall", "F1Score", "FBetaScore", "IoU")  # for rare classes


@relation("every weight gets a gradient")
def every_weight(lab: Laboratory) -> Finding:
    """The loss reaches every trainable variable, and every loss reaches at least one."""
    # A variable that starts at zero may get its gradient only after some steps.
    reached = set().union(*map(lab.reached, (lab.base, *lab.looks_after_training)))
    variables = [v for name in lab.base.gradients for v in lab.run.variables_of(name)]
    unreached = [v for v in variables if id(v) not in reached]
    if without := [
        v for v in unreached if not _is_a_shift(lab, v) and id(v) not in lab.reached_later
    ]:
        listed = ", ".join(v.path for v in without[:3]) + (" ..." if len(without) > 3 else "")
        is_sure = lab.has_looked_long or any(id(v) not in lab.traced.teachable for v in without)
        is_sure = is_sure and not _may_stand_still(lab, without)
        return (wrong if is_sure else look)(
            f"none for {listed}",
            "the loss doesn't depend on it (an unused branch, tf.stop_gradient, an argmax or "
            "rounding in between, units that are all dead), or process_gradients sets it to 0",
            "use it in the loss, or freeze it",
        )
    # Last comes what takes many steps: a bias that cancels out needs none of them.
    if flat := [
        v.path for v in unreached if _is_of_flat_slopes(lab, v) and id(v) not in lab.reached_later
    ]:
        return wrong(
            f"none for {flat[0]}, the bias of a layer that ends with relu",
            "losses get only derivatives of the model by its inputs, and those of relu are "
            "constant from kink to kink",
            "use a smooth activation, such as tanh or softplus",
        )
    if idle := lab.traced.teaches_nothing:
        return look(
            f"the loss {idle[0]!r} is added, but no weight of its optimizer gets a gradient from "
            "it",
            "tf.stop_gradient is around the part that should learn",
            "put it around the target instead, such as the output of a teacher",
        )
    return ok()


@relation("every weight moves")
def every_weight_moves(lab: Laboratory) -> Finding:
    """Three steps change every trainable variable, and each optimizer trains at least one."""
    if found := _idle_optimizer(lab):
        return found
    trained = lab.before_and_after
    now, idle = lab.reached(lab.base), _idle_at_first(lab)
    still = [
        v
        for v, a, b in trained
        if np.array_equal(a, b)
        and not (_is_a_shift(lab, v) and len(trained) > 1)
        and ((id(v) in now and _can_move(lab, v, a)) or id(v) not in lab.reached_later)
        and id(v) not in idle
    ]
    if not still:
        return _frozen_at_random(lab) or _key_without_variable(lab) or ok()
    if len(still) == len(trained):
        rates = ", ".join(f"{rate:.3g}" for rate in learning_rates(lab.run).values())
        return wrong(
            "no weight moves", f"the learning rate is {rates}, or process_gradients gives zeros"
        )
    return (look if _may_stand_still(lab, still) else wrong)(
        f"{', '.join(v.path for v in still[:3])} doesn't change",
        "its gradient is 0, or process_gradients sets it to 0",
        "freeze it if this is intended",
    )


def _may_stand_still(lab: Laboratory, variables: list[keras.Variable]) -> bool:
    """Whether weights may well have no gradient: process_gradients or a model leaves them out."""
    by_path = zeroed(lab)
    return {id(v) for v in variables if v.path not in by_path} <= _left_over(lab)


def _left_over(lab: Laboratory) -> set[int]:
    """The ids of weights that no loss reads, of models that have more than this task needs.

    Such as what a file contains, the pooler of a backbone with several outputs, and a part of the
    last of several equal layers of your own.
    """
    found, alike = set[int](), defaultdict[Any, list[list[int]]](list)
    for layer in lab.run.layers:
        variables = layer.trainable_variables
        ids, shapes = [id(v) for v in variables], tuple(tuple(v.shape) for v in variables)
        is_inner = layer not in lab.run.models.values()
        if is_inner and len(getattr(layer, "outputs", None) or ()) > 1:
            found |= {*ids}
        elif is_own(layer):
            alike[type(layer), shapes].append(ids)
    reached = lab.reached(lab.base)
    for of_layers in alike.values():
        for same in zip(*of_layers, strict=True):  # one weight of each layer
            if reached & {*same}:
                found |= {*same}
    for v in lab.run.trainable_variables:
        if any(np.array_equal(lab.initial[id(v)], a) for a in lab.loaded):
            found.add(id(v))
    return found - lab.traced.read


def _can_move(lab: Laboratory, v: keras.Variable, before: np.ndarray) -> bool:
    """Whether one of the first real steps is large enough to change a variable.

    That of a warm-up may be 0 while there is a gradient, or vanish by rounding. An adaptive
    optimizer makes steps of about its rate.
    """
    for name, optimizer in lab.inner_optimizers:
        place = next((i for i, each in enumerate(lab.run.variables_of(name)) if each is v), None)
        if place is None or not any(v is each for each in optimizer._trainable_variables):
            continue
        rates = rates_at(optimizer, range(REAL_STEPS))
        if not rates.any():
            return True  # in the whole run, or see `_idle_at_first`
        gradients = (np.abs(each.gradients[name][place]) for each in lab.looks_at_real_steps)
        is_adaptive = type(optimizer).__name__ in ADAPTIVE
        sizes = (rate * (np.sign(g) if is_adaptive else g)
                 for rate, g in zip(rates, gradients, strict=False))  # fmt: skip
        return any(bool(np.any(size > np.spacing(np.abs(before)))) for size in sizes)
    return True


def _idle_optimizer(lab: Laboratory) -> Finding | None:
    """Whether an optimizer, or one that the function of a MultiOptimizer knows, trains nothing.

    One that it would choose for variables that are frozen now may train them later.
    """
    frozen = {id(v): v for layer in lab.run.layers if not layer.trainable for v in layer.weights}
    for name, optimizer in lab.run.optimizers.items():
        if not lab.run.variables_of(name):
            return wrong(
                f"the optimizer {name!r} trains nothing",
                "its models are frozen: trainable = False in create_model",
                "remove that; other train steps don't move these weights in any case",
            )
        choose: Any = getattr(optimizer, "_optimizer_map", None)
        cells = [cell.cell_contents for cell in getattr(choose, "__closure__", None) or ()]
        known = [o for o in tf.nest.flatten(cells) if isinstance(o, keras.optimizers.Optimizer)]
        later = {id(choose(v)) for v in frozen.values()} if known else set()
        if unused := [o for o in known if not o.built and id(o) not in later]:
            return (wrong if sum(o.built for o in known) == 1 else look)(
                f"of the optimizers inside {name!r}, {unused[0].name} trains nothing",
                "the function that chooses an optimizer by a variable's path finds no such path",
                "print the paths of the model's trainable variables",
            )
    return None


@relation("learning rate")
def learning_rate(lab: Laboratory) -> Finding:
    """It lasts for the whole run, and is no smaller for new weights than for pretrained ones."""
    found = []
    if exchanged := _slower_where_new(lab):
        return exchanged
    for name, optimizer in lab.inner_optimizers:
        updates, rates = lab.updates_of_run(name), lab.rates_of_run[optimizer]
        found.append(f"{rates[0]:.3g}")
        given = lab, name, optimizer, rates
        fault = (
            _mistaken_numbers(optimizer, rates)
            or _decays_others(optimizer)
            or _not_positive(*given)
            or _too_small(optimizer, updates * float(rates.mean()))
        )
        if has_schedule(optimizer):
            found[-1] += f" to {rates[-1]:.3g} in {lab.num_steps} steps"
            fault = (
                fault
                or _warms_up_for_less_than_a_step(optimizer._learning_rate, rates)
                or _ends_early(*given)
                or _falls_at_once(*given)
                or _comes_too_late(*given)
                or _ends_behind_a_restart(lab, name, rates)
            )
        if fault:
            return fault
    return _compounds(lab) or ok(", ".join(found))


def _compounds(lab: Laboratory) -> Finding | None:
    """Whether a LearningRateScheduler lowers the rate of the epoch before by more and more."""
    initial = float(next(iter(lab.rates_of_run.values()))[0])
    made = keras_callbacks_in(lab.create_callbacks())
    for one in (each for each in made if isinstance(each, keras.callbacks.LearningRateScheduler)):
        rates, follow = [initial], list[bool]()
        with contextlib.suppress(Exception):  # of the epoch alone
            for epoch in range(lab.num_steps // lab.batches.steps_per_epoch):
                rates.append(float(one.schedule(epoch, rates[-1])))
                follow.append(bool(np.isclose(one.schedule(epoch, 2 * rates[-2]), 2 * rates[-1])))
        factors = np.divide(rates[1:], np.maximum(rates[:-1], 1e-30))[1:]
        if all(follow) and len(factors) > 2 and np.all(np.diff(factors) < 0) and (
            factors[-1] < 0.5 * factors[0] and rates[-1] < 1e-3 * initial
        ):  # fmt: skip
            return wrong(
                f"LearningRateScheduler multiplies the learning rate of the epoch before by "
                f"{factors[0]:.2g} at first and by {factors[-1]:.2g} in the last epoch, which ends "
                f"at {rates[-1]:.2g}",
                "its function lowers the rate that it gets, which is already lowered, by a factor "
                "that follows from the epoch",
                "use the initial rate there, or a factor that stays the same",
            )
    return None


def _not_positive(
    lab: Laboratory, name: str, optimizer: keras.optimizers.Optimizer, rates: np.ndarray
) -> Finding | None:
    """Whether a learning rate is 0 without a schedule, or less at any time."""
    if not has_schedule(optimizer) and rates[0] <= 0:
        # A callback may raise it later.
        return (look if rates[0] == 0 and lab.create_callbacks() else wrong)(
            f"the learning rate of {name!r} is {rates[0]:.3g}", "", "make it positive"
        )
    if rates.min() < 0:
        return wrong(f"the learning rate of {name!r} falls to {rates.min():.3g}")
    return None


def _mistaken_numbers(optimizer: keras.optimizers.Optimizer, rates: np.ndarray) -> Finding | None:
    """Whether an optimizer has a number in place of another, or a weight decay in percent."""
    weight_decay, beta_1, beta_2 = (
        getattr(optimizer, name, None) or 0.0 for name in ("weight_decay", "beta_1", "beta_2")
    )
    # A warm-up begins with 0, and a search for the largest useful rate ends far above it.
    decay = weight_decay * float(max(rates[0], rates.mean()))
    if weight_decay in BETAS and beta_1 > 0.9:
        return wrong(
            f"weight_decay is {weight_decay:g}, a usual beta_1 or beta_2",
            "positional arguments: the argument after the learning rate of AdamW is weight_decay",
            "use keywords, beta_1=... and beta_2=...",
        )
    if decay >= 0.01:
        return wrong(
            f"weight decay removes {decay:.1%} of each weight in every step",
            "weight_decay times the learning rate is too large; it is a fraction, not percent",
            "values around 1e-4 to 0.1 are common",
        )
    # Above this bound, Adam's steps aren't bounded (Kingma & Ba, 2015, section 4).
    if beta_2 and beta_1**2 > beta_2:
        return wrong(
            f"{type(optimizer).__name__} averages gradients by beta_1 = {beta_1:g}, and their "
            f"squares by beta_2 = {beta_2:g}",
            "the two are swapped",
            "the squares need the longer average, such as beta_1=0.9 and beta_2=0.999",
        )
    return None


def _decays_others(optimizer: keras.optimizers.Optimizer) -> Finding | None:
    """Whether weight decay leaves out all kernels, or reaches what it is told to leave out."""
    variables = optimizer._trainable_variables
    matrices = [v for v in variables if len(v.shape) > 1]
    if not (matrices and getattr(optimizer, "weight_decay", None)):
        return None
    decayed = [v for v in variables if optimizer._use_weight_decay(v)]
    if not any(len(v.shape) > 1 for v in decayed):
        reached = f"only {decayed[0].path}{' ...' * (len(decayed) > 1)}" if decayed else "nothing"
        return wrong(
            f"a weight decay of {optimizer.weight_decay:g} reaches {reached}, and no kernel",
            "exclude_from_weight_decay is given what should decay",
            'exclude the others, as by var_names=["bias", "gamma", "beta"]',
        )
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    for name in pattern.pattern.split("|") if pattern else []:
        with contextlib.suppress(re.error):  # a bar inside of brackets
            meant = [v for v in decayed if re.search(name, v.path)]
            if meant and not any(re.search(name, v.name) for v in variables):
                return wrong(
                    f"exclude_from_weight_decay is given {name!r}, and {meant[0].path} decays",
                    f"Keras compares with a variable's own name, {meant[0].name!r}, not its path",
                    "give it var_list, the variables with such a path",
                )
    return None


def _warms_up_for_less_than_a_step(schedule: Any, rates: np.ndarray) -> Finding | None:
    """Whether a schedule that should warm up is at its largest rate from the first step on."""
    for name, value in vars(schedule).items():
        words, is_fraction = words_of(name), isinstance(value, float) and 0 < value < 1
        is_length = bool({"warmup", "warm"} & words) and not words & RATES
        if is_fraction and is_length and rates.argmax() == 0:
            return wrong(
                f"{type(schedule).__name__} has {name} = {value:g}, and the learning rate is at "
                "its largest in the first step",
                "a fraction of the run is taken for a number of steps",
                f"multiply it by the number of steps: int({value:g} * steps)",
            )
    return None


def _ends_early(
    lab: Laboratory, name: str, optimizer: keras.optimizers.Optimizer, rates: np.ndarray
) -> Finding | None:
    """Whether a learning rate, given at 101 steps of the run, reaches 0 before the end."""
    updates, steps = lab.updates_per_step(name), lab.num_steps
    largest, later = rates.max(), rates[20:].max()
    if later <= 0.05 * largest and _lasts_beyond_epochs(lab, optimizer, 0.99 * largest):
        largest = later  # a head is trained first, then all
    share = int(np.flatnonzero(rates > 1e-3 * largest).max(initial=-1)) + 1
    if share > 80:
        return None
    seen = f"the learning rate of {name!r} is 0 after {share}% of the {steps} steps"
    if updates > 1:  # a critic's may end early, but hardly just where such a mistake ends it
        return (look if share >= 40 and abs(share - 100 / updates) > 2 else wrong)(
            seen,
            f"its schedule counts updates, and each train step makes {updates}",
            f"give it {updates} times the number of steps that create_optimizer is given",
        )
    # A decay that continues to the end may fall to a thousandth, and drops to a tenth may do so
    # some time before the end.
    drops = np.flatnonzero(np.diff(rates))
    is_stepped = rates[-1] > 0 and len(drops) > 1 and drops[-1] >= (40 if len(drops) < 10 else 80)
    goes_on = is_stepped or bool(np.all(np.diff(rates) < 0)) or _leaves_others(lab, optimizer)
    hands_over = _begins_after(lab, optimizer, share)
    return (look if (share >= 40 and goes_on) or hands_over or _may_stop(lab) else wrong)(
        seen, "the schedule is shorter than the run: it counts train steps, not epochs", GIVEN
    )


def _leaves_others(lab: Laboratory, optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether another optimizer learns to the end: one model first, then what builds on it."""
    others = (rates for o, rates in lab.rates_of_run.items() if o is not optimizer)
    return any(rates[90:].max() > 1e-3 * rates.max() for rates in others)


def _begins_after(lab: Laboratory, optimizer: keras.optimizers.Optimizer, share: int) -> bool:
    """Whether another optimizer only learns from there on, as in a second stage."""
    others = (rates for o, rates in lab.rates_of_run.items() if o is not optimizer)
    return any(not rates[: share - 1].any() and rates[share:].any() for rates in others)


def _may_stop(lab: Laboratory) -> bool:
    """Whether the run may end earlier, and its steps are no more than a bound."""
    made = keras_callbacks_in(lab.create_callbacks())
    return any(isinstance(each, keras.callbacks.EarlyStopping) for each in made)


def _lasts_beyond_epochs(
    lab: Laboratory, optimizer: keras.optimizers.Optimizer, rate: float
) -> bool:
    """Whether there is such a rate after more updates than what is counted in epochs lasts for."""
    first, last = 2 * (lab.num_steps // lab.batches.steps_per_epoch), lab.num_steps - 1
    late = np.linspace(min(first, last), last, 50).astype(int)
    return bool(rates_at(optimizer, late).max() >= rate)


def _falls_at_once(
    lab: Laboratory, name: str, optimizer: keras.optimizers.Optimizer, rates: np.ndarray
) -> Finding | None:
    """Whether a learning rate, given at 101 steps of the run, is small for most of it."""
    steps, largest = lab.num_steps, rates.max()
    epochs = steps // lab.batches.steps_per_epoch
    if rates[20:].max() <= 0.05 * largest:
        # A decay as slow as 1 / t is intended (Robbins & Monro, 1951).
        is_sure = np.any(np.diff(rates) >= 0) or rates[-1] <= 0.1 * rates[20]
        # A head may be trained first, then all, at a much lower rate.
        is_sure &= not _lasts_beyond_epochs(lab, optimizer, 0.5 * largest)
        seen = f"{rates[20:].max() / largest:.1%} of its largest value for the last 80% of the "
        seen += f"{steps} steps"
    elif np.ptp(rates[10:]) == 0 and rates[10] <= 0.2 * largest:
        first = rates_at(optimizer, range(min(epochs + 1, 200)))
        # If an epoch has few steps, or the fall is smooth, it may be intended.
        is_sure = steps >= 10 * epochs and len(np.unique(first)) <= 4 and first[-1] == rates[10]
        seen = f"{rates[10] / largest:.0%} of its largest value for the last 90% of the {steps} "
        seen += f"steps, in {epochs} epochs"
    else:
        return None
    return (wrong if is_sure else look)(
        f"the learning rate of {name!r} is {seen}",
        "its boundaries or its decay are counted in epochs, but it counts train steps",
        "make them fractions of the number of steps that create_optimizer is given",
    )


def _comes_too_late(
    lab: Laboratory, name: str, optimizer: keras.optimizers.Optimizer, rates: np.ndarray
) -> Finding | None:
    """Whether a schedule changes only after the run; rates are those at 101 of its steps."""
    steps, first, last = lab.num_steps, rates[0], rates[-1]
    if np.ptp(rates[:-1]) == 0 < np.ptp(rates):
        return wrong(
            f"the learning rate of {name!r} is {first:.3g} until the last of the {steps} steps, "
            f"and {last:.3g} there",
            "a fraction of the run that is rounded down, as by //, is 0 until the end",
            "use float division, such as tf.cast(step, tf.float32) / num_steps",
        )
    if np.ptp(rates) == 0:
        return look(
            f"the schedule of {name!r} gives {first:.3g} in the whole run",
            "its boundaries are after the end of the run, or a fraction is rounded down, as by //",
            "is this intended?",
        )
    if rates.argmax() > 50 and last > 0.99 * rates.max():
        schedules = keras.optimizers.schedules
        is_stepped = isinstance(optimizer._learning_rate, schedules.PiecewiseConstantDecay)
        if is_stepped and not first:
            return None  # layers that are trained later
        if is_stepped:
            return wrong(
                f"the learning rate of {name!r} rises from {first:.3g} to {last:.3g}",
                "the values of PiecewiseConstantDecay are in reverse order",
                "give the largest one first",
            )
        later = lab.updates_per_step(name) * steps * np.asarray([*range(2, 50), 99])
        far = rates_at(optimizer, later)
        # A learning-rate range test goes on forever, or ends with the run.
        ends = np.isfinite(far).all() and far[-1] <= far[-2]
        return (wrong if ends and max(far) > 1.2 * last else look)(
            f"the learning rate of {name!r} rises until the end of the run, to {last:.3g}, and "
            f"would reach {max(far):.3g}",
            "the warm-up is longer than the run",
            "make it a fraction of the number of steps that create_optimizer is given",
        )
    if rates.min() > 0.97 * rates.max():
        return look(
            f"the learning rate of {name!r} falls by less than 3% in the whole run",
            "the schedule is longer than the run: it counts train steps, not examples",
            GIVEN,
        )
    return None


def _ends_behind_a_restart(lab: Laboratory, name: str, rates: np.ndarray) -> Finding | None:
    """Whether the last period of a schedule with restarts doesn't reach its end."""
    high = 0.5 * rates.max()
    jumps = np.flatnonzero(np.diff(rates) > high) + 1
    if not len(jumps):
        return None
    before, behind = rates[: jumps[-1]], rates[jumps[-1] :]
    # A warm-up begins low, and nothing comes before it; what is constant trains something else.
    is_restart = before.max() >= high >= 5 * before[-1] and behind.min() >= high
    if not is_restart or np.ptp(behind) == 0:
        return None
    # Of many periods, as for snapshot ensembles, an unfinished one matters little.
    return (wrong if len(jumps) < 5 and len(before) < 95 else look)(
        f"the learning rate of {name!r} falls to {before[-1]:.3g}, restarts after {len(before)}% "
        f"of the {lab.num_steps} steps, and is {rates[-1]:.3g} at their end",
        "the last period is longer than the rest of the run, as where each is twice the one before",
        "let the periods add up to the number of steps, for example with t_mul=1",
    )


@relation("moving averages")
def moving_averages(lab: Laboratory) -> Finding:
    """They forget their initial values during the run, but not at once."""
    if found := (
        _begins_elsewhere(lab) or _forgets_slowly(lab) or _forgets_at_once(lab) or _forgotten(lab)
        or _keeps_statistics(lab)
    ):  # fmt: skip
        return found
    normal = normalizations(lab.run.layers)
    for layer in normal:
        if layer.momentum < 0.5:
            return (wrong if 0 < layer.momentum <= 0.2 else look)(
                f"the moving averages of {layer.path} keep only {layer.momentum:.0%} of their "
                "values at each step, so evaluation normalizes by the last batches alone",
                "momentum is the share of the old value here, and of the new value in PyTorch",
                f"use momentum={1 - layer.momentum:.3g}",
            )
        share = layer.momentum**lab.num_steps
        # Keras' own default may be too slow for a short run; a slower one was chosen.
        few, many = (0.05, 0.2) if layer.momentum > 0.99 else (0.5, 0.5)
        if share > few and not lab.was_trained(layer):
            return (wrong if share > many and lab.num_steps >= 100 else look)(
                f"after all {lab.num_steps} steps, the moving averages of {layer.path} are "
                f"still {share:.0%} of their initial values",
                f"a momentum of {layer.momentum:g} is too slow for so few steps, and "
                "evaluation normalizes by these averages",
                "use a smaller one, such as 0.9 or 0.99",
            )
    return ok("" if normal or any(_averages(lab)) else "not looked at: there are none")


@relation("loss falls on one batch")
def falls_on_one_batch(lab: Laboratory) -> Finding:
    """Some steps on the same batch lower its loss."""
    first, last, steps = lab.losses_on_one_batch
    detail = _from_to(first, last, steps)
    if not all(np.isfinite(loss) for loss in last.values()):
        return wrong(detail, "the loss isn't finite: the learning rate is too high")
    fell = [last[n] < first[n] - 1e-7 for n in first]
    if any(fell) if len(fell) > 1 else all(fell):  # the loss of one adversary may rise
        return ok(detail)
    fresh, before = lab.fresh[0], sum(first.values())
    late = float(np.mean([sum(each.values()) for each in fresh[-max(1, len(fresh) // 3) :]]))
    if late < before - 0.02 * abs(before):
        return ok(f"{detail}; on new batches it falls")  # dropout hides it on one
    if not lab.reached(lab.base):  # as where rewards are rare, and this batch has none
        return ok("not looked at: no weight gets a gradient from the first batch")
    names = list(lab.run.optimizers)
    # Over the bends of an absolute error only a very small step lowers it.
    steps_of = (lab.changes_by_step_of(names, part=part) for part in (1e-3, 1e-4, 1e-5))
    changes = [sum(each[name] for name in names) for each in steps_of]
    if any(changes) and not any(change < 0 for change in changes):
        return wrong(
            detail,
            "the loss rises along its own gradient too: gradients are changed (wrong sign?)",
            "look at process_gradients",
        )
    # In the few steps that a large model makes in this time, Adam may overshoot and recover.
    rises = sum(last.values()) > before + 0.1 * abs(before)
    is_sure = steps == REPEATED_STEPS and rises and not _compares_with_earlier(lab)
    return (wrong if is_sure else look)(
        detail,
        "a small step against the gradient lowers the loss, but the optimizer's step doesn't: the "
        "learning rate is too high, or gradients have the wrong sign",
        "look at the learning rate and at process_gradients",
    )


def _compares_with_earlier(lab: Laboratory) -> bool:
    """Whether steps keep more than statistics, as a queue of negatives, which changes the loss."""
    return bool(lab.base.kept.keys() - lab.of_normalizations)


def _from_to(first: Numbers, last: Numbers, steps: int) -> str:
    """How losses change in some steps."""
    return f"{', '.join(f'{first[n]:.3g} to {last[n]:.3g}' for n in first)} in {steps} steps"


@relation("loss falls on fresh batches")
def falls_on_fresh_batches(lab: Laboratory) -> Finding:
    """Some steps on new batches lower the loss, and in each split more than with others' labels."""
    losses, *_ = lab.fresh
    third = max(1, len(losses) // 3)
    first, last = (
        {n: float(np.mean([loss[n] for loss in part])) for n in losses[0]}
        for part in (losses[:third], losses[-third:])
    )
    detail = _from_to(first, last, len(losses))
    if len(first) == 1 and sum(last.values()) >= sum(first.values()):
        return look(detail, "nothing is learned yet, or labels don't belong to their inputs")
    if lab.learns_no_labels and lab.losses_get_no_labels:
        return ok(f"{detail}; labels are a condition: no loss gets them")
    if lab.learns_no_labels and not lab.has_moved:
        return ok(f"not looked at: the weights hardly move: {detail}")
    if lab.learns_no_labels:
        return look(
            f"{detail}, and as low with the labels of other examples",
            "labels don't seem to belong to their inputs: one was shuffled or cut without the "
            "other; or so few steps learn too little",
            "compare some of them in samples.png",
        )
    if terms := lab.terms_without_labels:
        return look(
            f"{terms[0]} is as low with the labels of other examples after {len(losses)} steps",
            "its labels don't belong to their inputs, as where axes are swapped, or it is hard",
            "compare some of them in samples.png, and train longer",
        )
    with contextlib.suppress(Exception):  # a validation step may fail; other relations report it
        return held_out.misplaced(lab) or ok(detail)
    return ok(detail)


@relation("metrics follow the loss")
def metrics_follow_the_loss(lab: Laboratory) -> Finding:
    """While the loss falls, accuracies rise and errors fall."""
    before, after = lab.base, lab.after_training
    name_of_loss, *others = lab.run.optimizers
    fell = before.losses[name_of_loss], after.losses[name_of_loss]
    if others or not fell[1] < fell[0]:
        return ok("not looked at: the loss doesn't fall")
    directions = _declared(lab) | lab.directions
    for name, larger_is_better in directions.items():
        old, new = before.metrics[name], after.metrics[name]
        sign = 1 if larger_is_better else -1
        if not sign * (old - new) > max(0.05, 0.3 * abs(old)):
            continue
        if {"calibration", "ece"} & words_of(name):
            continue  # a model that has learned nothing is unsure, and seldom right
        # A constant prediction is right as often with the labels of other examples.
        tells = sign * (lab.with_labels_of_others.metrics[name] - new) > 1e-3 * abs(old)
        is_sure = (
            (tells or _is_turned(lab))
            and lab.has_trained_enough
            # Where positives are rare, a model first learns that most examples are negative.
            and not type(lab.run.metrics[name]).__name__.endswith(ONE_SIDED)
            and not _rewards_the_right(lab, name)
            and not _rises_beside_others(lab, name)
            and not _is_rewarded(lab)
        )
        cause = (
            "the loss rewards wrong predictions: wrong sign, or swapped arguments; or the metric "
            "gets something that is turned around, such as 1 - p or a distance"
        )
        fix = "look at the loss function, and at what the metric gets"
        if is_own(metric := lab.run.metrics[name]):
            kind = type(metric).__name__
            cause = f"{kind} is turned around, as by sorting in the other order; or {cause}"
            fix = f"compute {kind} of perfect predictions, then look at the loss function"
        return (wrong if is_sure else look)(
            f"the loss falls from {fell[0]:.3g} to {fell[1]:.3g}, and {name} goes from {old:.3g} "
            f"to {new:.3g}",
            cause,
            fix,
        )
    nothing = "not looked at: no metric is known to rise or to fall"
    return _ranks_turned(lab) or ok("" if directions else nothing)


def _is_rewarded(lab: Laboratory) -> bool:
    """Whether a number of each example, such as a reward, may turn what its loss asks for."""
    labels = tf.nest.flatten(lab.batch[1])  # (replicas, rows, ...)
    return len(labels) > 1 and any(y.dtype.is_floating and y.shape.rank == 2 for y in labels)


def _ranks_turned(lab: Laboratory) -> Finding | None:
    """Whether an AUC is below a half, which is sure if it is so for training examples too.

    Rows of validation data may depend on each other, and anomalies may be reconstructed better.
    """
    for name, metric in lab.run.metrics.items():
        is_auc = isinstance(metric, keras.metrics.AUC) and lab.evaluated_splits
        if not is_auc or "ROC" not in str(metric.curve) or metric.multi_label:
            continue
        with lab.trained_on_fresh():
            value, deviations = _below_a_half(lab, name, lab.evaluation_batch)
            if deviations > UNLIKELY:
                _, in_training = _below_a_half(lab, name, lab.batch)
                is_sure = min(deviations, in_training) > CLEAR and lab.has_trained_enough
                return (wrong if is_sure else look)(
                    f"after some steps, {name} of validation data is {value:.2g}: predictions rank "
                    "the wrong way round",
                    "the score or the labels are turned around, as a similarity for a distance",
                    "give the metric what is larger for the label 1",
                )
    return None


def _below_a_half(lab: Laboratory, name: str, batch: Any) -> tuple[float, float]:
    """An AUC in validation, and by how many deviations it is below 0.5 (Mann & Whitney, 1947)."""
    results, given = lab.validated(batch)
    if name not in results or len(given.get(name, ())) < 2:
        return 0.5, 0.0
    labels, _, *weights = map(np.ravel, given[name])
    there = weights[0] != 0 if weights and weights[0].size == labels.size else np.ones(labels.size)
    zeros, ones = (int(np.sum(there[labels == label])) for label in (0, 1))
    if min(zeros, ones) < 2:
        return results[name], 0.0
    spread = np.sqrt((zeros + ones + 1) / (12 * zeros * ones))
    return results[name], float((0.5 - results[name]) / spread)


@relation("one trace")
def one_trace(lab: Laboratory) -> Finding:
    """The step is traced once."""
    _ = lab.trained_on_one
    traces = lab.one[1].num_traces()
    if traces == 1:
        return ok()
    return wrong(
        f"{traces} traces", "a shape changes between batches, or a Python number between calls"
    )


def _too_small(optimizer: keras.optimizers.Optimizer, sum_of_rates: float) -> Finding | None:
    """Whether steps of about the learning rate each add up to too little in a run."""
    if type(optimizer).__name__ not in ADAPTIVE or sum_of_rates > 1e-3:
        return None
    return (wrong if sum_of_rates < 1e-4 else look)(
        f"{type(optimizer).__name__} moves each weight by {sum_of_rates:.1g} at most in all steps",
        "each step is about as large as the learning rate, which is too small here",
        "values around 1e-5 to 1e-2 are common",
    )


def _declared(lab: Laboratory) -> dict[str, bool]:
    """The metric that selects the best weights, and whether larger is better, as the task says."""
    name = lab.task.monitor.partition("_")[2]
    known = name in lab.run.metrics and name in lab.base.metrics
    return {name: lab.task.larger_is_better} if known else {}


def _is_turned(lab: Laboratory) -> bool:
    """Whether the loss is below 0, but no loss function gives an example less than 0."""
    values = [value for _, _, value in lab.base.calls.values() if value is not None]
    lowest = min((float(np.min(value)) for value in values), default=-1.0)
    return lowest >= 0 > min(lab.base.losses[name] for name in lab.run.optimizers)  # no terms


def _rewards_the_right(lab: Laboratory, metric: str) -> bool:
    """Whether the loss is smallest for right predictions, and the metric gets the same ones.

    As a mean error beside a loss of a high quantile, or an accuracy beside class weights.
    """
    updated, kind = lab.base.updates.get(metric, ()), type(lab.run.metrics[metric])
    if kind in (keras.metrics.Mean, keras.metrics.Sum):  # of numbers that the step has computed
        return False
    if len(lab.base.calls) != 1 or len(updated) < 2 or is_own(lab.run.metrics[metric]):
        return False
    ((loss, (labels, predictions, values)),) = lab.base.calls.items()
    ((_, _, later),) = lab.after_training.calls.values()
    if labels is None or not np.ndim(predictions) or np.mean(later) > np.mean(values):
        return False
    p = np.asarray(predictions)
    if np.size(updated[1]) != p.size or np.corrcoef(np.ravel(updated[1]), np.ravel(p))[0, 1] <= 0:
        return False
    if answers := lab.losses_of_answers(loss):
        return answers[0] < np.mean(values)
    if np.size(labels) != p.size:
        return False
    right = np.reshape(labels, p.shape).astype(p.dtype)
    return bool(np.mean(lab.run.losses[loss](labels, right)) < np.mean(values))


def _rises_beside_others(lab: Laboratory, metric: str) -> bool:
    """Whether a metric's own loss rises, as of a domain to hide (Ganin & Lempitsky, 2015)."""
    updated, calls = lab.base.updates.get(metric, ()), lab.base.calls
    if len(calls) < 2 or len(updated) < 2 or any(v is None for *_, v in calls.values()):
        return False
    later = lab.after_training.calls
    rising = {name for name, (*_, v) in calls.items() if np.mean(later[name][2]) > np.mean(v)}
    own = {n for n, (_, p, _) in calls.items() if np.array_equal(np.ravel(p), np.ravel(updated[1]))}
    return bool(own & rising) and bool(calls.keys() - rising)


def _key_without_variable(lab: Laboratory) -> Finding | None:
    """Whether a key of a `keras.optimizers.OptimizerMap` matches no path of a variable."""
    for name, optimizer in lab.run.optimizers.items():
        mapped: Any = getattr(optimizer, "_optimizer_map", None)
        paths = [v.path for model in lab.run.models_of(name) for v in model.variables]
        for key in mapped if isinstance(mapped, Mapping) else ():
            if any(path == key or re.fullmatch(key, path) for path in paths):
                continue  # frozen variables count, too
            seen = f"the key {key!r} of an OptimizerMap matches no variable"
            wider = f"(.*/)?({key})(/.*)?"
            for v in lab.run.variables_of(name):
                if re.fullmatch(wider, v.path) and mapped[v.path] is mapped.default_optimizer:
                    return wrong(
                        f"{seen}, so the default optimizer trains {v.path}",
                        "a key must match a whole path",
                        f"use a key that does, such as {wider!r}",
                    )
            return look(seen, "", "is it for another model? Compare it with the variables' paths")
    return None


def _averages(
    lab: Laboratory,
) -> Iterator[tuple[str, str, list[tuple[keras.Variable, keras.Variable]]]]:
    """Models that steps write but don't train, what they may average, and pairs of matrices."""
    written = set(map(id, state_of(lab.one)))
    averages = {n: m.weights for n, m in lab.run.models.items() if not m.trainable_variables}
    for name, weights in averages.items():
        kernels = [v for v in weights if id(v) in written and len(v.shape) > 1]
        loaded = any(np.array_equal(lab.initial[id(v)], a) for v in kernels[:1] for a in lab.loaded)
        for other, model in lab.run.trained_models.items():
            sources = [v for v in model.weights if len(v.shape) > 1]
            shapes = [[v.shape for v in each] for each in (kernels, sources)]
            # A pretrained model may start with other weights and keep them.
            if kernels and not loaded and shapes[0] == shapes[1] and model.trainable_variables:
                yield name, other, list(zip(kernels, sources, strict=True))


def _state_behind(lab: Laboratory) -> dict[int, np.ndarray]:
    """What steps write themselves, after some real ones, by id of the variable."""
    return dict(zip(map(id, state_of(lab.one)), lab.trained_on_one.state, strict=True))


def _begins_elsewhere(lab: Laboratory) -> Finding | None:
    """Whether the steps average a model in one that has other initial weights."""
    behind = _state_behind(lab)
    for name, other, pairs in _averages(lab):
        apart = _flat(lab.initial[id(s)] - lab.initial[id(v)] for v, s in pairs)
        begin = _flat(lab.initial[id(v)] for v, _ in pairs)
        if np.linalg.norm(apart) < 0.5 * np.linalg.norm(begin):
            continue
        moved = _flat(behind[id(v)] - lab.initial[id(v)] for v, _ in pairs)
        part = float(moved @ apart / (apart @ apart))
        left = (1 - part) ** (lab.num_steps / REAL_STEPS) if 0 < part < 1 else 0.0
        if left > 0.2 and relative_difference(moved, part * apart) < 0.3:
            return wrong(
                f"{name!r} is an average of {other!r}, starts with other random weights, and after "
                f"all {lab.num_steps} steps {left:.0%} of these are left",
                "an average that starts with other weights takes long to forget them",
                f"start it as a copy, with {name}.set_weights({other}.get_weights())",
            )
    return None


def _keeps_statistics(lab: Laboratory) -> Finding | None:
    """Whether an average of a model, in evaluation, normalizes by statistics that never change."""
    behind = _state_behind(lab)

    def stands_still(layer: keras.layers.BatchNormalization) -> bool:
        v = layer.moving_mean
        return np.array_equal(behind.get(id(v), lab.initial[id(v)]), lab.initial[id(v)])

    for name, other, _ in _averages(lab):
        of_both = (
            [x for x in lab.run.models[each]._flatten_layers()
             if isinstance(x, keras.layers.BatchNormalization)]
            for each in (name, other)
        )  # fmt: skip
        still = [own.path for own, source in zip(*of_both, strict=False)
                 if stands_still(own) and not stands_still(source)]  # fmt: skip
        if not still:
            continue
        models = [lab.run.models[name]]
        calls = lab.validation_calls(lab.evaluation_batch, models) if lab.evaluated_splits else []
        return (wrong if calls else look)(
            f"{name!r} is an average of {other!r}, whose moving averages change, but those of "
            f"{still[0]} stay as they were at first",
            "only the trainable weights are averaged, and evaluation normalizes by statistics "
            "that aren't those of the model",
            f"let all of {name}.weights follow, or copy the moving averages",
        )
    return None


def _forgets_slowly(lab: Laboratory) -> Finding | None:
    """Whether the steps average a model in one that stays random."""
    for name, other, pairs in _averages(lab):
        part = _taken_over(lab, pairs, 0)
        left = (1 - part) ** lab.num_steps if 0 < part < 1 else 0.0
        if left < 0.5:
            continue
        others = lab.of_other_seed.models[name].weights
        drawn = zip(pairs, [w.numpy() for w in others if len(w.shape) > 1], strict=True)
        if any(np.array_equal(lab.initial[id(v)], w) for (v, _), w in drawn):
            continue  # at least a part of it is pretrained
        models = [lab.run.models[n] for n in (name, other)]
        calls = lab.validation_calls(lab.evaluation_batch, models) if lab.evaluated_splits else []
        of = [call.of for call in calls]
        is_validated_alone = models[0] in of and models[1] not in of
        return (wrong if is_validated_alone and lab.num_steps >= 100 else look)(
            f"{name!r} is an average of {other!r}, and after all {lab.num_steps} steps {left:.0%} "
            "of it are still the random weights that both started with",
            "the decay is too close to 1 for so few steps",
            "use a smaller decay, such as 0.99, or let it grow: min(decay, (1 + t) / (10 + t))",
        )
    return None


def _forgets_at_once(lab: Laboratory) -> Finding | None:
    """Whether steps average mostly the latest weights at the end, as the decay may grow."""
    for name, other, pairs in _averages(lab):
        share = _taken_over(lab, pairs, lab.num_steps - 1)
        if 0.5 < share < 1:
            return (wrong if share > 0.8 else look)(
                f"{name!r} is an average of {other!r}, and takes over {share:.0%} of its weights "
                "in each of the last steps, so it is hardly an average",
                SWAPPED,
                f"multiply the old value by {share:.3g}, and the new one by {1 - share:.2g}",
            )
    return None


def _forgotten(lab: Laboratory) -> Finding | None:
    """Whether a variable that each step assigns keeps little of its value, as of a codebook's sums.

    One that is the latest value of something keeps nothing, and the share may grow in the run.
    """
    averages = [model for model in lab.run.models.values() if not model.trainable_variables]
    others = lab.of_normalizations | {id(v) for model in averages for v in model.variables}
    state = list(zip(state_of(lab.one), lab.trained_on_one.state, strict=True))
    variables = [v for v, _ in state if id(v) in lab.base.kept.keys() - others]
    variables = [v for v in variables if "float" in v.dtype][:MOST_VARIABLES]
    of_another = lab.look(lab.second_batch).kept if variables else {}
    for v in variables:
        if np.allclose(lab.base.kept[id(v)], of_another[id(v)]):  # no average of batches
            continue
        if not 0 < _kept_share(lab, v, 0) <= 0.2:
            continue
        try:
            for each, trained in state:
                each.assign(trained)
            for optimizer in lab.run.optimizers.values():
                optimizer.iterations.assign(lab.num_steps - 1)
            share = _kept_share(lab, v, lab.num_steps - 1)
        finally:
            lab.reset()
        if 0 < share <= 0.2:
            return wrong(
                f"{v.path} keeps only {share:.2g} of its value at each step, and takes the rest "
                "from the latest batch",
                SWAPPED,
                f"multiply the old value by {1 - share:.3g}, and the new one by {share:.2g}",
            )
    return None


def _kept_share(lab: Laboratory, v: keras.Variable, step: int) -> float:
    """The share of its value that a variable keeps in a step; 0 if it becomes something else."""
    before = v.numpy()
    after = np.asarray(lab.look(lab.batch, step=step).kept[id(v)])
    scale = 1e-2 * (np.abs(before).mean() + np.abs(after).mean())
    moved = scale * np.random.default_rng(0).standard_normal(before.shape)
    try:
        v.assign(before + moved)
        kept = np.asarray(lab.look(lab.batch, step=step).kept[id(v)]) - after
    finally:
        v.assign(before)
    share = float(np.sum(kept * moved) / (np.sum(moved**2) or 1))
    is_share = np.abs(kept - share * moved).max() < 0.1 * np.abs(kept).max()
    return share if is_share and share > 1e-3 else 0.0


def _taken_over(lab: Laboratory, pairs: list[tuple[Any, Any]], step: int) -> float:
    """The share of a model's weights that an average takes over; 1 for a copy, else 0."""
    progress = lab.one[1].start()._replace(step=tf.constant(step, tf.int64))
    try:  # one step, with other weights in the other one
        for v, s in pairs:
            s.assign(np.flip(lab.initial[id(v)]))
        given = _flat(s.numpy() for _, s in pairs)
        for optimizer in lab.run.optimizers.values():
            optimizer.iterations.assign(step)
        batch = iter(lab.batches.dataset(step, step + 1))
        lab.one[1].distributed_train_step(batch, 1, progress)
        after, trained = (_flat(v.numpy() for v in each) for each in zip(*pairs, strict=True))
    finally:
        lab.reset()
    if any(relative_difference(after, copy) < 1e-6 for copy in (given, trained)):
        return 1.0
    before = _flat(lab.initial[id(v)] for v, _ in pairs)
    moved, apart = after - before, given - before
    part = float(moved @ apart / (apart @ apart or 1.0))
    return part if relative_difference(moved, part * apart) <= 0.1 else 0.0


def _flat(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """All numbers of some arrays."""
    return np.concatenate([np.ravel(a) for a in arrays])


def _slower_where_new(lab: Laboratory) -> Finding | None:
    """Whether all matrices that start at random have one rate, less than those from a file."""
    # Those of adversaries are balanced against each other.
    of_each = (_slower_of(lab, [o for n, o in lab.inner_optimizers if n == name])
               for name in lab.run.optimizers)  # fmt: skip
    return next(filter(None, of_each), None)


def _slower_of(lab: Laboratory, optimizers: list[keras.optimizers.Optimizer]) -> Finding | None:
    """The same for optimizers of one loss."""
    rates: list[dict[str, float]] = [{}, {}]  # of those that start at random, and of the others
    for optimizer in optimizers:
        rate = float(lab.rates_of_run[optimizer].mean())
        for v in optimizer._trainable_variables:
            if len(v.shape) > 1 and np.ptp(own := lab.initial[id(v)]):
                rates[any(np.array_equal(own, a) for a in lab.loaded)][v.path] = rate
    if not all(rates) or len({*map(type, optimizers)}) > 1:
        return None
    if any(len(set(each.values())) > 1 for each in rates):  # such as by the size of the layer
        return None
    (new, of_new), (loaded, of_loaded) = (next(iter(each.items())) for each in rates)
    if not 0 < 2 * of_new < of_loaded:
        return None
    return wrong(
        f"{loaded}, which was loaded from a file, trains at a rate of {of_loaded:.2g} on "
        f"average, and {new}, which starts at random, at {of_new:.2g}",
        "the two are swapped: pretrained weights are lost before the new ones have learned",
        "give the weights that start at random the larger rate",
    )


def _idle_at_first(lab: Laboratory) -> set[int]:
    """The ids of variables whose learning rate is 0 in the first steps only."""
    found = set[int]()
    for _, optimizer in lab.inner_optimizers:
        if rates_at(optimizer, range(REAL_STEPS)).any():
            continue
        if has_schedule(optimizer):
            later = bool(lab.rates_of_run[optimizer].any())
        else:  # a callback may raise it
            later = bool(lab.create_callbacks())
        found |= {id(v) for v in optimizer._trainable_variables if later}
    return found


def _is_a_shift(lab: Laboratory, variable: keras.Variable) -> bool:
    """Whether a variable is a bias that cancels out, as in a Wasserstein GAN or in ranking."""
    if variable.name != "bias":
        return False
    if variable.shape == (1,):
        return True
    reached, owner = lab.reached(lab.base), variable.path.rpartition("/")[0]
    others = [v for name in lab.run.optimizers for v in lab.run.variables_of(name)
              if v.path.rpartition("/")[0] == owner and id(v) in reached]  # fmt: skip
    return bool(others) and id(variable) not in reached


def _is_of_flat_slopes(lab: Laboratory, variable: keras.Variable) -> bool:
    """Whether it is a bias before a relu whose other weights have a gradient."""
    bent = [x for x in lab.run.layers if getattr(x, "activation", None) in BENT]
    owner = next((x for x in bent if getattr(x, "bias", None) is variable), None)
    return owner is not None and bool({*map(id, owner.weights)} & lab.reached(lab.base))


def _frozen_at_random(lab: Laboratory) -> Finding | None:
    """Whether matrices of frozen layers depend on the seed, so nothing trained them."""

    def frozen(run: Run) -> list[Any]:
        weights = [v for layer in run.layers if not layer.trainable for v in layer.weights]
        return [v for v in weights if len(v.shape) > 1]

    if not (now := frozen(lab.run)):
        return None
    # A step may change frozen weights, such as a moving average.
    state = _state_behind(lab)
    others = frozen(lab.of_other_seed)
    paths = {  # which two models may share
        id(v): v.path
        for v, w in zip(now, others, strict=True)
        if id(v) in state and np.array_equal(state[id(v)], lab.initial[id(v)])
        and not np.array_equal(state[id(v)], w.numpy())
    }  # fmt: skip
    if not paths:
        return None
    # After trainable layers, fixed random numbers may be intended.
    judges = [model for name, model in lab.run.models.items()
              if JUDGES & words_of(name) and not FOLLOWERS & words_of(name)]  # fmt: skip
    matrices = ([id(v) for v in model.weights if len(v.shape) > 1] for model in judges)
    is_first = any(own and own[0] in paths for own in matrices)
    if not is_first and _are_set_by_callbacks(lab):
        return None
    return (wrong if is_first else look)(
        f"{', '.join([*dict.fromkeys(paths.values())][:3])} is frozen, and another --seed gives it "
        "other values",
        "these weights were never trained: the file isn't loaded, or is loaded too late",
        "load them, or train them",
    )


def _are_set_by_callbacks(lab: Laboratory) -> bool:
    """Whether a callback is to assign variables, such as those of a target network."""
    names, _ = named_by_callbacks(lab.create_callbacks())
    return bool(SETS_WEIGHTS & names)
