"""Relations between what a model computes in training and what it computes in evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf

from ..replicas import is_random_state
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import different, numbers_of, relative_difference
from .probe import name_of, words_of
from .runs import Call

LATE = (0, 331, 1009)  # batches; no two are at the same place of a cyclic schedule
WIDE = 2.5  # places of a band; those of a dropout are alone, or two
SAME = 1e-6  # the relative difference of two computations of one loss, at most
DRAWS = 100  # of a layer's random numbers
TAUGHT_BY = {"teacher", "target", "ema", "momentum", "reference"}  # words in names of models


@relation("inputs alike in evaluation", evaluates=True)
def inputs_alike(lab: Laboratory) -> Finding:
    """The train step and the validation step prepare a batch in the same way for the model."""
    if seen := _drawn_wider(lab):
        return wrong(
            seen,
            "it is evaluated on random numbers of another distribution than it is trained on",
            "draw both with one function",
        )
    raw = [x for b in (lab.batch, lab.evaluation_batch, lab.plain_batches[0])
           if (x := numbers_of((b[0],), or_bytes=True)) is not None]  # fmt: skip
    if len(raw) < 3:
        return ok("not looked at: the inputs aren't one array of numbers")
    *raw, before = raw
    is_changed = _how_far(before, raw[0]) > 0.5
    by_augment = _rescaled(before[0], raw[0][0]) if is_changed else None
    apart, compared = _how_far(before if by_augment else raw[0], raw[1]), False
    for name, model in lab.run.trained_models.items():
        of_model = _inputs_of(lab, model)
        # Other arguments of a model, such as samples only in training, may differ.
        given, others = (
            [x for x in each if x is not None and x.shape[1:] == data.shape[2:]]
            for each, data in zip(of_model, raw, strict=True)
        )
        if not given or [len(given), len(others)] != list(map(len, of_model)):
            continue
        if any(_hides(raw[0], x) for x in given):
            continue
        compared, most = True, 1.0 + apart
        far = [
            other for other in others
            if min(_how_far(x, other) for x in given) > most and not _is_made(lab, other)
        ]  # fmt: skip
        noisy = _with_noise(lab, model) if far else []
        for other in far:
            if min((_how_far(x, other, noise) for x, noise in noisy), default=0) > most:
                a, b = (f"mean {x.mean():.3g} and spread {x.std():.3g}" for x in (given[0], other))
                which = "create_augment" if by_augment else "one step"
                return (by_augment or wrong)(
                    f"data has one scale, but {name!r} gets numbers of {b} in the validation step, "
                    f"and of {a} in training",
                    f"train/validation skew: {which} scales or normalizes its inputs differently",
                    "prepare them in create_datasets, or with a layer of the model",
                )
    return ok("" if compared else "not looked at: no model gets all inputs alone in both steps")


@relation("models in training mode")
def models_in_training_mode(lab: Laboratory) -> Finding:
    """Each trained model is called in training mode, and isn't an average of another model."""
    for name, other in lab.traced.follows.items():
        return wrong(
            f"{name!r} is trained, but a train step sets its weights from those of {other!r}",
            "it is an average of the other model, but the optimizer changes it too",
            f"set trainable = False on {name!r} in create_model",
        )
    modes = {
        name: {call.keywords.get("training") for call in lab.calls_in_training if call.of is model}
        for name, model in lab.run.trained_models.items()
        if model.trainable_variables  # a teacher that is an average of its student has none
    }
    never = [name for name, seen in modes.items() if seen == {False}]
    if not modes or (never and not any(True in seen for seen in modes.values())):
        return ok("not looked at: there are none, or see training mode")
    if not never:
        return ok()
    return (wrong if TAUGHT_BY & words_of(never[0]) else look)(
        f"{never[0]!r} is trained, and the train steps call it with training=False",
        "it is a pretrained model such as a teacher, but its optimizer changes it",
        "load it with load_frozen, or call it with training=True",
    )


@relation("evaluation knows no step", evaluates=True)
def evaluation_knows_no_step(lab: Laboratory) -> Finding:
    """Evaluation doesn't depend on the number of the batch."""
    if not lab.in_evaluation.knows_step:  # evaluations without a graph may take long
        return ok()
    first, *late = by_step = [lab.validate(lab.evaluation_batch, at) for at in LATE]
    names = dict.fromkeys(name for other in late for name in different(first, other, 1e-3))
    neighbors = [lab.validate(lab.evaluation_batch, at + 1) for at in LATE[1:] if names]
    for name in names:
        values = [each[name] for each in by_step]
        apart = max(abs(a[name] - b[name]) for a, b in zip(late, neighbors, strict=True))
        # Random numbers seeded by the position in the data differ between adjacent batches too.
        if apart > (1e-3 if lab.in_evaluation.drawn else 0.1) * np.ptp(values):
            continue
        other = max(values[1:], key=lambda value: abs(value - values[0]))
        return wrong(
            f"the loss {name} of one batch is {values[0]:.4g} as the first batch of an "
            f"evaluation, and {other:.4g} as a later one",
            "the validation step uses replica.step, which is the number of the batch there",
            "don't depend on it; use the last value of a schedule, for example",
        )
    return ok()


@relation("weights in evaluation", evaluates=True)
def weights_in_evaluation(lab: Laboratory) -> Finding:
    """A loss depends on the weights that are trained by it, in validation too."""
    called = {id(call.of): call.of for call in lab.calls_in_validation}
    if not all(model.trainable_variables for model in called.values()):
        return ok("not looked at: a model that isn't trained, such as an average, is evaluated")
    before, compared = lab.validate(lab.evaluation_batch), False
    for name in lab.run.optimizers:
        if not before.get(name) or not called.keys() & {*map(id, lab.run.models_of(name))}:
            continue
        compared = True
        with _other_weights(lab, name):
            after = lab.validate(lab.evaluation_batch)
        if after[name] != before[name]:
            continue
        with _other_weights(lab, name):
            trained = lab.look(lab.batch).losses
        if name in different(lab.base.losses, trained, SAME):
            return wrong(
                f"the loss {name} depends on the weights that it trains, but not in validation, "
                "where their model is called too",
                "the validation step computes it of something else, such as by a line copied from "
                "another loss",
                "compute it as the train step does",
            )
    return ok("" if compared else "not looked at: the validation step calls no trained model")


@contextlib.contextmanager
def _other_weights(lab: Laboratory, optimizer: str) -> Iterator[None]:
    """Let the weights that an optimizer trains be others."""
    numbers = np.random.default_rng(0)
    for v in lab.run.variables_of(optimizer):
        v.assign(v.value + numbers.normal(0, 0.1, v.shape).astype(v.dtype))  # some are 0 at first
    try:
        yield
    finally:
        lab.reset()


@relation("noise averages out")
def noise_averages_out(lab: Laboratory) -> Finding:
    """A layer that drops something in training compensates for it."""
    if not lab.own_layers:
        return ok("not looked at: no layer of your own behaves differently in training")
    compared = False
    of_data = {t.shape[1:] for t in tf.nest.flatten(lab.batch[0])}
    for layer in lab.own_layers:
        calls = [call for call in lab.calls_in_training if call.of is layer]
        ratio, error = _training_over_evaluation(calls[0]) if calls else (1.0, 0.0)
        lab.reset()
        compared |= (ratio, error) != (1.0, 0.0)
        if abs(ratio - 1) > max(0.04, 4 * error):
            # Hiding parts of the inputs, or positions of features, is an augmentation.
            is_hiding = any(getattr(x, "shape", None) in of_data for x in calls[0].arguments)
            is_hiding = is_hiding or _hides_positions(calls[0])
            return (look if is_hiding else wrong)(
                f"{name_of(layer)} gives {ratio:.2g} times as much in training as in evaluation",
                "what it drops isn't compensated, so later layers see another scale in evaluation",
                "divide the kept values by the share that is kept, like Dropout",
            )
    return ok("" if compared else "not looked at: training doesn't scale what they give")


def _is_made(lab: Laboratory, given: np.ndarray) -> bool:
    """Whether a model makes what another gets in the validation step, as a generator does."""
    made = (numbers_of((call.made,)) for call in lab.calls_in_validation)
    return any(x is not None and np.array_equal(x, given) for x in made)


def _inputs_of(lab: Laboratory, model: keras.Model) -> list[list[np.ndarray | None]]:
    """What the train steps and the validation step give a model, as `numbers_of`."""
    return [[numbers_of(call.arguments) for call in calls if call.of is model]
            for calls in (lab.calls_in_training, lab.calls_in_validation)]  # fmt: skip


def _drawn_wider(lab: Laboratory) -> str:
    """The model whose random inputs have a wider range in evaluation, and both ranges."""
    shapes = {t.shape[1:] for t in tf.nest.flatten(lab.plain_batch[:-1])}
    augmented = [t[0] for t in tf.nest.flatten(lab.batch[:-1]) if t.shape[2:] not in shapes]
    for name, model in lab.run.trained_models.items():
        given, others = ([x for x in each if x is not None and x.shape[1:] not in shapes]
                         for each in _inputs_of(lab, model))  # fmt: skip
        if not given or not others or len({x.shape[1:] for x in (*given, *others)}) > 1:
            continue
        known = [numbers_of(c.arguments) for c in lab.training_calls(lab.second_batch, [model])]
        known += augmented
        if not all(any(y is not None and np.array_equal(x, y) for y in known) for x in given):
            continue
        a, b = (np.concatenate([np.ravel(x) for x in each]) for each in (given, others))
        if min(a.size, b.size) > 200 and min(b.std() / a.std(), np.ptp(b) / np.ptp(a)) > 1.3:
            return (
                f"{name!r} gets numbers from {b.min():.2g} to {b.max():.2g} in the validation "
                f"step, and from {a.min():.2g} to {a.max():.2g} in training"
            )
    return ""


def _rescaled(plain: np.ndarray, made: np.ndarray) -> Callable[..., Finding] | None:
    """How sure it is that an augmentation gives all examples (rows, ...) another scale.

    Each number follows the one in its place; or, where things are moved, the examples' means,
    spreads and extremes follow those before. But noise widens them too.
    """
    rows = len(plain)
    x, y = (each.reshape(rows, -1) for each in (plain, made))
    if not (np.isfinite(x).all() and np.isfinite(y).all()) or len(y) != rows:
        return None
    if x.shape == y.shape:
        changing = (x.std(axis=0) > 0) & (y.std(axis=0) > 0)
        pairs = zip(x[:, changing].T, y[:, changing].T, strict=True)
        if changing.any() and all(np.corrcoef(a, b)[0, 1] > 0.99 for a, b in pairs):
            return wrong
    known = x.std(axis=1) > 0
    if not known.any():
        return None
    factor = np.median(y.std(axis=1)[known] / x.std(axis=1)[known])
    shift = np.median(y.mean(axis=1) - factor * x.mean(axis=1))
    ends, expected = (np.asarray([each.min(), each.max()]) for each in (y, factor * x + shift))
    if np.abs(ends - expected).max() > 0.3 * np.ptp(y):
        return None
    return wrong if factor < 1.1 else look


def _hides(data: np.ndarray, given: np.ndarray) -> bool:
    """Whether a step gives the model its data with some of it replaced by one number."""
    if data[0].shape != given.shape:
        return False
    same = data[0] == given
    return 0.05 < same.mean() < 1 and len(np.unique(given[~same])) == 1


def _hides_positions(call: Call) -> bool:
    """Whether a layer hides all numbers (rows, positions, numbers) of some positions in a row."""
    with contextlib.suppress(Exception):  # it may need what exists only in a step
        arguments = call.keywords | {"training": False}
        plain, made = np.asarray(call.of.call(*call.arguments, **arguments)), np.asarray(call.made)
        plain, made = (x[..., 0] if x.ndim > 3 and x.shape[-1] == 1 else x for x in (plain, made))
        if plain.shape != made.shape or plain.ndim < 3 or plain.shape[-1] < 2:
            return False
        is_other = plain != made
        if _are_bands(is_other, plain):
            return True
        hidden = is_other.any(axis=-1)
        are_whole = (is_other | (plain == 0)).all(axis=-1)[hidden].all()
        kept = plain.any(axis=-1) & ~hidden
        hides, keeps = (x.reshape(len(x), -1).any(axis=1) for x in (hidden, kept))
        return bool(are_whole and np.any(hides & keeps))  # otherwise whole rows are dropped
    return False


def _are_bands(is_hidden: np.ndarray, plain: np.ndarray) -> bool:
    """Whether what is hidden are bands of several places, over whole slices (rows, a, b)."""
    if is_hidden.ndim != 3 or not is_hidden.any():
        return False
    gone = is_hidden | (plain == 0)
    whole = [gone.all(axis=axis) & is_hidden.any(axis=axis) for axis in (2, 1)]  # (rows, a or b)
    covered = whole[0][:, :, np.newaxis] | whole[1][:, np.newaxis]
    edges = sum(int((np.diff(each.astype("i1"), axis=1, prepend=0) == 1).sum()) for each in whole)
    are_wide = sum(int(each.sum()) for each in whole) > WIDE * edges
    are_left = ~covered.reshape(len(covered), -1).all(axis=1)  # otherwise whole rows are dropped
    return bool(not (is_hidden & ~covered).any() and are_wide and are_left.all())


def _with_noise(lab: Laboratory, model: keras.Model) -> list[tuple[np.ndarray, float]]:
    """The inputs of a model in training, and the variance of the noise in them."""
    calls = [lab.training_calls(lab.batch, [model], seed) for seed in (1, 2)]
    pairs = ([numbers_of(call.arguments) for call in both] for both in zip(*calls, strict=False))
    return [(x, float(np.mean((x - y) ** 2)) / 2) for x, y in pairs
            if x is not None and y is not None and x.shape == y.shape]  # fmt: skip


def _how_far(a: np.ndarray, b: np.ndarray, noise: float = 0.0) -> float:
    """How unlike two scales are: above 1, neither crops nor the first's noise (variance) do it."""
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return 0.0
    most, other = (max(x.std(), 1e-9) for x in (a, b))
    least = max(np.sqrt(max(a.var() - 2 * noise, 0)), 1e-9)  # noise is an estimate
    shift = abs(a.mean() - b.mean()) / max(most, other)
    return float(max(shift / 0.5, np.log2(other / most), np.log2(least / other)))


def _training_over_evaluation(call: Call) -> tuple[float, float]:
    """The mean of a layer's random outputs over that in evaluation, and its error; or 1 and 0."""
    same = 1.0, 0.0
    kept = [(v, v.numpy()) for v in call.of.variables if not is_random_state(v)]

    def outputs(training: bool) -> np.ndarray:
        for variable, value in kept:  # moving statistics aren't noise
            variable.assign(value)
        made = call.of.call(*call.arguments, **call.keywords | {"training": training})
        return np.concatenate([np.ravel(np.asarray(t, "f8")) for t in tf.nest.flatten(made)])

    with contextlib.suppress(Exception):  # it may need what exists only in a step
        evaluated, first = outputs(False), outputs(True)
        size = float(evaluated @ evaluated)
        if first.shape != evaluated.shape or np.array_equal(first, outputs(True)) or not size:
            return same
        drawn = np.stack([outputs(True) for _ in range(DRAWS)])
        ratios = drawn @ evaluated / size
        ratio = float(ratios.mean())
        # Other changes than a scale, such as crops or mixtures of rows, need no compensation.
        if relative_difference(ratio * evaluated, drawn.mean(axis=0)) < 0.5:
            return ratio, float(ratios.std() / np.sqrt(DRAWS))
    return same
