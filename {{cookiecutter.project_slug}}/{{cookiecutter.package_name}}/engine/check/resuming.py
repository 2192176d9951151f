"""Relations between a run and the run that resumes it."""

from __future__ import annotations

import ast
import contextlib
import itertools
import os
import platform
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from ..callbacks import (
    Callback,
    Event,
    at_step,
    every_epochs,
    learning_rates,
    restore_state,
    state_of,
    stateful,
    tell,
)
from ..checkpoints import BestWeights
from ..errors import UsageError
from ..replicas import normalizations
from ..workers import Workers
from .findings import Finding, look, ok, relation, wrong
from .functions import ASSIGN, SETS_WEIGHTS, named_in, tree_of
from .laboratory import Laboratory
from .numbers import different, matrices_differ
from .probe import name_of, replaced
from .runs import calls_recorded, keras_callbacks_in

EPOCHS, MOST_CALLS, SECS = 12, 60, 1.0  # of callbacks, at most
COMPARED = (2, 5, 8)  # epochs whose factor of the learning rate is looked at
FEWEST_CALLS = 4  # of each callback, in later epochs if necessary
RETRACED = 1e-6  # by how much a loss may differ in another trace of the same step
SORTED = "use sorted(...) for a set, and zlib.crc32 for hash()"
AT_TIMES = {"step", "epoch", "losses", "metrics", "gradient_norm", "history", "batch", "outputs",
            "read_batch", "directory", "is_chief"}  # of an event  # fmt: skip
SIMPLE = int | float | str | bool | bytes | None | np.ndarray | np.generic


class Acts(NamedTuple):
    """What the callbacks of some epochs have done.

    Attributes:
        stops: the numbers of the calls that ended the run.
        rates: the learning rates after each call.
        values: weights, statistics and slots at the end.
        outside: variables that a step reads and no model has, at the end.
        trainable: whether each layer is trainable.
        files: those in the run directory.
    """

    stops: list[int]
    rates: list[list[float]]
    values: list[np.ndarray]
    outside: list[np.ndarray]
    trainable: list[bool]
    files: set[Path]

    @property
    def calls(self) -> int:
        """How many of them were called."""
        return len(self.rates)

    @property
    def acts(self) -> bool:
        """Whether they have lowered a learning rate, or ended the run."""
        return bool(self.stops) or any(
            np.less(self.rates[-1:], 0.99 * np.array(self.rates[:1])).flat
        )


class _Loop:
    """What `engine/keras_callbacks.py` needs of the training loop, before its first step."""

    def __init__(self, lab: Laboratory, path: Path) -> None:
        self.run, self.batches, self._task = lab.run, lab.batches, lab.task
        self.step, self.stopping = 0, False
        self.workers = SimpleNamespace(is_chief=False)  # writes no files
        self.directory = SimpleNamespace(path=path)
        self.schedule = SimpleNamespace(validate_every_steps=None, num_steps=lab.num_steps)
        self._validated = "validation" in lab.evaluated_splits

    @cached_property
    def best(self) -> BestWeights:
        """Which columns exist, and which of them is monitored."""
        column, larger_is_better = self._task.monitor, self._task.larger_is_better
        best = BestWeights(self.directory.path, self.run)
        best.monitor(column, larger_is_better=larger_is_better, validated=self._validated)
        return best


@relation("callbacks")
def callbacks(lab: Laboratory) -> Finding:
    """The step sees what a callback changes, its state is saved, and one worker writes files."""
    made = lab.create_callbacks()
    if not made:
        return ok("not looked at: there are none")
    if found := _begin_behind_the_run(lab, made):
        return found
    if found := _change_nothing(lab, made) or _look_at_training(lab, made):
        return found
    # Before anything is called; the same operations are rounded alike.
    is_repeatable = not different(lab.base.losses, lab.losses_when_traced_again(), RETRACED)
    before = [_remembered(callback.function) for callback in made]
    trainable = [layer.trainable for layer in lab.run.layers]
    try:
        whole = _acts(lab, made)
    except UsageError as error:  # train.py ends with it too, after the first batch
        return wrong(str(error))
    again = lab.losses_when_traced_again() if is_repeatable and whole.trainable == trainable else {}
    for name in different(lab.base.losses, lab.base.losses | again, RETRACED):
        return wrong(
            f"after {whole.calls} calls of callbacks, a new trace of the step gives the loss "
            f"{name} {again[name]:.6g} instead of {lab.base.losses[name]:.6g}",
            "they change a Python number, which the step read only when it was traced: only a "
            "resumed run will see the change",
            "compute it from replica.step in the step, or keep it in a weight that isn't trainable",
        )
    with _hours_between_looks():
        slow = _acts(lab, lab.create_callbacks(), whole.calls)
    # A limit in hours may end a run.
    is_slower = slow.stops == whole.stops and _differ(whole, slow)
    remembers = _forgotten(lab.create_callbacks(), before) if is_slower else ""
    # The clock apart: what was called before has changed what new ones do.
    if remembers and _differ(whole, _acts(lab, lab.create_callbacks(), whole.calls)):
        return wrong(
            "callbacks that create_callbacks makes anew set other weights or learning rates than "
            f"the first ones, and {remembers}",
            "they keep state in a variable of the module, which isn't saved, so a resumed run "
            "starts it anew",
            "keep it in an object with get_state() and set_state(), see engine/callbacks.py",
        )
    if is_slower or _timed_ones_act(lab):
        return wrong(
            "callbacks set other weights or learning rates when more time passes between them",
            "they go by the clock, so no run can be reproduced or resumed, and a faster machine "
            "trains another model",
            "use event.step or event.epoch",
        )
    alone = _acts(lab, lab.create_callbacks(), whole.calls, is_chief=False)
    if clashing := _written_by_all(whole, alone):
        return wrong(
            f"callbacks write {clashing} in the run directory on every worker",
            "several workers write one file at the same time, or on machines that don't have that "
            "directory",
            "return before writing where event.is_chief is False",
        )
    if _chief_acts_alone(lab, whole, alone):
        return wrong(
            "callbacks set other weights or learning rates on the chief than on other workers",
            "they return at once where event.is_chief is False, so workers diverge",
            "write files only on the chief, but change what is trained on every worker",
        )
    forgotten = _forgotten(made, before)
    if _act_on_one_validation(lab, whole.calls):
        return wrong(
            "callbacks lower the learning rate, or end the run, some steps after a validation and "
            "before the next",
            "they are called several times per epoch, and count each look at the same row of the "
            "history as a new validation: their patience is counted in steps",
            "call them with every_validation",
        )
    if found := (
        (_misread_results(lab) if whole.acts else None)
        or _starts_anew(lab, whole, forgotten)
        or _lost_to_evaluate(lab, whole)
        or _never_thawed(lab, whole)
        or _disturb_training(lab)
    ):
        return found
    # What happens only in the last epochs, such as an average of these.
    late = lab.num_steps // lab.batches.steps_per_epoch - EPOCHS
    if late > 0 and any(map(_may_forget, made)):
        made = lab.create_callbacks()
        before = [_remembered(callback.function) for callback in made]
        whole_end = _acts(lab, made, first_epoch=late)
        forgotten = _forgotten(made, before)
        if forgotten and (found := _starts_anew(lab, whole_end, forgotten, late)):
            return found
    return ok(f"{whole.calls} calls")


def _lost_to_evaluate(lab: Laboratory, acts: Acts) -> Finding | None:
    """Whether callbacks change a variable of no model that evaluation depends on."""
    if not lab.evaluated_splits:
        return None
    with _undone(lab) as outside:
        for variable, value in zip(outside, acts.outside, strict=True):
            variable.assign(value)
            if different(lab.evaluate(lab.on_one), lab.evaluations["once"], RETRACED):
                return look(
                    f"callbacks change {variable.name.partition(':')[0]}, which validation reads "
                    "and no model has",
                    "a resumed run has its value, but the weights that are tested and exported "
                    "come without it: `evaluate` would give other results than the run",
                    "create it in a layer of a model, with add_weight(trainable=False)",
                )
    return None


def _never_thawed(lab: Laboratory, acts: Acts) -> Finding | None:
    """Whether callbacks freeze layers before the first step that hold random numbers to the end."""
    made, per_epoch = lab.create_callbacks(), lab.batches.steps_per_epoch
    due = [_steps(lab, each) for each in made]
    go_on = [each.after_validations or (steps and each.next_step(steps[-1], per_epoch))
             for each, steps in zip(made, due, strict=True)]  # fmt: skip
    first = [each for each, steps in zip(made, due, strict=True) if steps[:1] == [0]]
    if not first or any(go_on) or acts.calls < sum(map(len, due)):  # they may thaw later
        return None
    at_first = _acts(lab, first, len(first)).trainable
    layers, others = lab.run.layers, lab.of_other_seed.layers
    for layer, other, then, now in zip(layers, others, at_first, acts.trainable, strict=True):
        weights = layer.trainable_weights, other.trainable_weights
        if not then and not now and matrices_differ(*weights):
            return wrong(
                f"callbacks freeze {name_of(layer)} before the first step, and none thaws it; "
                "another --seed gives it other weights",
                "it isn't pretrained, so it keeps its random weights",
                "thaw it later, or don't freeze it",
            )
    return None


def _begin_behind_the_run(lab: Laboratory, made: list[Callback]) -> Finding | None:
    """Whether a callback that would change something is due only after the end of the run."""
    per_epoch = lab.batches.steps_per_epoch
    for each in made:
        first = each.next_step(-1, per_epoch)
        if first is not None and first > lab.num_steps:
            # A callback that only writes files, after all others, may be for longer runs.
            others = [at_step(first, other.function) for other in made if other is not each]
            acts, idle = (
                _acts(lab, [*others, at_step(first, function)], len(made),
                      first_epoch=(first - 1) // per_epoch)
                for function in (each.function, lambda event: None)
            )  # fmt: skip
            return (wrong if _differ(acts, idle) else look)(
                f"{_name(each)} is due after step {first} at first, and the run has "
                f"{lab.num_steps}",
                "its steps are those of a longer run, or of an example",
                "use a fraction of the steps of the run, or every_epochs",
            )
    return None


def _look_at_training(lab: Laboratory, made: list[Callback]) -> Finding | None:
    """Whether a callback of Keras decides by results of training, and there is validation data."""
    deciding = keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau
    for kind in deciding if "validation" in lab.evaluated_splits else ():
        for one in (each for each in keras_callbacks_in(made) if isinstance(each, kind)):
            if not one.monitor.startswith("val"):
                # Without labels, it may wait until the loss is as low as it gets.
                is_sure = kind is deciding[0] and len(lab.plain_batches[0]) > 2
                return (wrong if is_sure else look)(
                    f"{kind.__name__} monitors {one.monitor}, a result of training",
                    "training results go on improving when the model overfits",
                    f"monitor val_{one.monitor.removeprefix('train_')}",
                )
    return None


def _change_nothing(lab: Laboratory, made: list[Callback]) -> Finding | None:
    """Whether a function that is to assign variables, whatever the time, assigns none."""
    for each in made:
        function, steps = each.function, _steps(lab, each)
        if not isinstance(function, FunctionType) or not steps:
            continue
        names, held, has_state = named_in(function)
        are_own = any(isinstance(value, tf.Variable | keras.Variable) for value in held)
        if not names & SETS_WEIGHTS or names & AT_TIMES or are_own or has_state:
            continue
        if _assigns(lab, function, steps[0]) is False:
            nodes = ast.walk(tree_of(function.__code__))
            is_on_condition = any(isinstance(node, ast.If | ast.IfExp) for node in nodes)
            return (look if is_on_condition else wrong)(
                f"{_name(each)} is to assign variables, but a call of it assigns none",
                "what it goes through is empty, such as trainable_weights of a frozen model, or "
                "layers of a name that none has",
                "use weights, and strict=True in zip",
            )
    return None


def _disturb_training(lab: Laboratory) -> Finding | None:
    """Whether a callback changes what train steps sum up: their metrics, or moving statistics."""
    metrics = {name: lab.run.metrics[name].variables for name in lab.base.updates}
    layers = normalizations(lab.run.layers)
    changed, statistics = dict[str, str](), dict[str, str]()

    def watched(callback: Callback) -> Callback:
        def function(event: Event) -> None:
            variables = lab.variables(lab.one)
            for variable in itertools.chain(*metrics.values()):
                variable.assign(tf.ones_like(variable))  # as if steps were made before
            before = {id(v): v.numpy() for v in variables}
            with calls_recorded(layers) as calls:
                callback.function(event)
            moved = {id(v) for v in variables if not np.array_equal(v.numpy(), before[id(v)])}
            for name, owned in metrics.items():
                if event.step % lab.batches.steps_per_epoch and moved & {id(v) for v in owned}:
                    changed.setdefault(name, _name(callback))
            # One that makes statistics anew, for other weights, needs many batches.
            times = Counter(id(call.of) for call in calls if call.in_training)
            once = {id(v) for layer in layers if times[id(layer)] == 1
                    for v in layer.non_trainable_variables}  # fmt: skip
            for layer in layers if moved and moved <= once else ():
                statistics.setdefault(name_of(layer), _name(callback))

        return Callback(function, callback.next_step)

    for each in lab.create_callbacks():
        if not (each.after_validations or hasattr(each.owner, "on_train_begin")):
            _acts(lab, [watched(each)], 2)
    for metric, name in changed.items():
        return wrong(
            f"{name} changes the training metric {metric} between two validations",
            f"it is a sum over the steps since the last validation, so train_{metric} is of fewer "
            "steps, or of other examples",
            "leave it to the engine, which starts it anew after each validation, and use a metric "
            "of its own here; steps.csv has the metrics between validations",
        )
    for layer, name in statistics.items():
        return wrong(
            f"{name} moves the statistics of {layer}",
            "it calls a model in training mode outside of a train step, so a batch is counted "
            "twice, and what only observes changes the run",
            "call it with training=False",
        )
    return None


def _assigns(lab: Laboratory, function: Any, step: int) -> bool | None:
    """Whether a call assigns a variable; None if it fails."""
    found = list[bool]()

    def observed(event: Event) -> None:
        assigned: list[str] = []

        def noted(_: Any, assign: Callable[..., Any]) -> Callable[..., Any]:
            def call(variable: Any, *values: Any) -> Any:
                assigned.append(variable.name)
                return assign(variable, *values)

            return call

        owners = [*lab.variables(lab.one), *lab.unknown_variables]
        before = [v.numpy() for v in owners]
        with replaced([(keras.Variable, name) for name in ASSIGN], noted):
            function(event)
        after = [v.numpy() for v in owners]  # of TensorFlow's variables
        found.append(bool(assigned) or not all(map(np.array_equal, before, after)))

    _acts(lab, [at_step(step, observed)], 1)
    return next(iter(found), None)


def _misread_results(lab: Laboratory) -> Finding | None:
    """Whether callbacks that act confuse better with worse results, or steps with epochs."""
    better, worse = (_acts(lab, lab.create_callbacks(), trend=t) for t in (1, -1))
    if better.acts and not worse.acts:
        return wrong(
            "callbacks lower the learning rate, or end the run, while every result improves, "
            "and not while it gets worse",
            "inverted comparison: larger is better, but they treat it as worse, or vice versa",
            "invert the comparison, or set mode",
        )
    if (compounded := _compounds(lab)) is not None:
        return wrong(
            f"callbacks lower the learning rate by a larger share in each epoch, to "
            f"{compounded:.1g} of its first value in {EPOCHS} epochs",
            "the decay compounds: a factor that depends on the epoch or step multiplies the "
            "current learning rate, which earlier calls have lowered already",
            "compute it from the first learning rate, or multiply the current one by a constant",
        )
    if _rates_end_early(lab):
        return wrong(
            "callbacks hold every learning rate below 5% of its first value for the last 80% "
            f"of the {lab.num_steps} steps",
            "their decay is counted in epochs, but they use event.step",
            "use event.epoch",
        )
    return None


def _compounds(lab: Laboratory) -> float | None:
    """What is left of a rate that a factor of the epoch multiplies again and again."""
    each = (_compounds_by(lab, i) for i in range(len(lab.create_callbacks())))
    return next((left for left in each if left is not None), None)


def _compounds_by(lab: Laboratory, which: int) -> float | None:
    """The same for one of the callbacks."""

    def act(most: int, first_epoch: int = 0) -> Acts:
        one = lab.create_callbacks()[which]
        return _acts(lab, [one], most, trend=1, first_epoch=first_epoch)

    base, rates = np.asarray([*learning_rates(lab.run).values()]), np.asarray(act(EPOCHS + 1).rates)
    # One call after each of these epochs; a warm-up may begin at 0.
    if len(rates) != EPOCHS or not (base.all() and rates.all()):
        return None
    anew = [act(1, n) for n in COMPARED]
    if not all(each.calls for each in anew):
        return None
    factors = np.array([each.rates[0] for each in anew]) / base  # of the first learning rate
    after = np.asarray(COMPARED) - 1  # the first call is after epoch 1
    again = rates[after] / rates[after - 1]  # of the current one
    for i, (of_first, of_current) in enumerate(zip(factors.T, again.T, strict=True)):
        if np.all(np.diff(of_first) < 0) and of_first[0] < 1 and (
            np.allclose(of_first, of_current, rtol=1e-4)
        ):  # fmt: skip
            return float(rates[-1, i] / base[i])
    return None


def _rates_end_early(lab: Laboratory) -> bool:
    """Whether callbacks keep learning rates below 5% after the first fifth of the run."""
    epochs = lab.num_steps // lab.batches.steps_per_epoch
    largest = np.asarray([*learning_rates(lab.run).values()])
    # With improving results, and called anew, so that only the number of the step or epoch matters.
    first, last = (
        _acts(lab, lab.create_callbacks(), trend=1, first_epoch=begin).rates
        for begin in (int(0.2 * epochs), max(0, epochs - EPOCHS))
    )
    if not first or not last or np.any(np.asarray([*first, *last]) > 0.05 * largest):
        return False
    # A decay as slow as 1 / t is intended.
    return bool(np.all(np.asarray(last[-1]) < 0.1 * np.asarray(first[0])))


def _may_forget(callback: Callback) -> bool:
    """Whether its function, or callable object, may have state that isn't saved."""
    function = callback.function
    holds = hasattr(function, "__self__") or bool(getattr(function, "__closure__", True))
    return holds and not hasattr(callback.owner, "get_state")


def _forgotten(made: list[Callback], before: list[dict[str, str]]) -> str:
    """The changed state of callbacks without get_state(), if there is any."""
    for callback, then in zip(made, before, strict=True):
        if not hasattr(callback.owner, "get_state"):
            for name, value in _remembered(callback.function).items():
                if value != then.get(name):
                    return f"{_name(callback)} remembers {name}"
    return ""


def _starts_anew(
    lab: Laboratory, whole: Acts, remembers: str, first_epoch: int = 0
) -> Finding | None:
    """Whether callbacks do something else in a resumed run, or may do so."""
    seen, judge = f"{remembers} from call to call", look
    # Some act only when results get worse.
    if _differs_if_resumed(lab, whole, first_epoch) or (remembers and _differs_if_resumed(
        lab, _acts(lab, lab.create_callbacks(), whole.calls, trend=-1, first_epoch=first_epoch),
        first_epoch, trend=-1,
    )):  # fmt: skip
        seen = "in a run that is resumed, callbacks set other weights or learning rates, or stop "
        seen += f"elsewhere{', and ' * bool(remembers)}{remembers}"
        judge = wrong
    elif not remembers:
        return None
    return judge(
        seen,
        "state that they keep between calls isn't saved, so a resumed run starts it anew",
        "give it get_state() and set_state(), see engine/callbacks.py",
    )


def _differs_if_resumed(lab: Laboratory, whole: Acts, first_epoch: int, trend: int = 0) -> bool:
    """Whether new callbacks in the middle, with the state of the old ones, act differently."""
    # What happens every few calls is the same after one position, but not after another.
    half = whole.calls // 2
    places = [place for place in (half - 1, half + 1) if 0 < place < whole.calls] or [half]
    resumed = (
        _acts(lab, lab.create_callbacks(), whole.calls, resumed_at=place, first_epoch=first_epoch,
              trend=trend)
        for place in places
    )  # fmt: skip
    return any(_differ(whole, acts) for acts in resumed)


@relation("the same data in another process")
def same_data_in_another_process(lab: Laboratory) -> Finding:
    """In a new process, `create_datasets` gives the same examples, and `adapt` the same arrays."""
    others = lab.made_again.others_in_process
    if others is None:
        return ok("not looked at: it takes long or much memory, or can't be made there")
    if others and lab.made_again.others_here:
        return ok("not looked at: see the same data again")
    cause = "it depends on hash() or on the order of a set, which Python randomizes in each process"
    if others:
        return wrong(
            f"create_datasets gives different {' and '.join(others)} data in another process",
            f"{cause}: a resumed run trains on other examples or labels, and evaluate tests on "
            "them",
            SORTED,
        )
    again = lab.made_again.adapted_in_process
    for name, array in lab.run.adapted.items():
        if again is not None and not _same(array, again.get(name)):
            return wrong(
                f"adapt returns another {name!r} in another process",
                f"{cause}, or on random numbers: a run that is started again has another model",
                SORTED,
            )
    return ok()


def _same(array: np.ndarray, other: np.ndarray | None) -> bool:
    """Whether both are the same, up to rounding."""
    if other is None or array.shape != other.shape:
        return False
    if array.dtype.kind in "fc":
        return np.allclose(array, other, rtol=1e-5, equal_nan=True)
    return np.array_equal(array, other)


def _differ(a: Acts, b: Acts) -> bool:
    if a.stops != b.stops or a.trainable != b.trainable:
        return True
    pairs = zip(a.values + a.outside, b.values + b.outside, strict=True)
    same = all(np.allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=True) for x, y in pairs)
    return not (same and np.allclose(a.rates, b.rates, rtol=1e-5))


def _acts(
    lab: Laboratory,
    callbacks: list[Callback],
    most: int | None = None,
    *,
    resumed_at: int = -1,
    trend: int = 0,
    first_epoch: int = 0,
    validated: bool = True,
    is_chief: bool = True,
    path: Path | None = None,
) -> Acts:
    """Call them as in some epochs, with small changes of the weights; undone afterwards.

    Args:
        lab: the task.
        callbacks: new ones.
        most: how often to call one of them; None: MOST_CALLS, or as often as SECS allow.
        resumed_at: the call before which new ones replace them, with the state of the old ones.
        trend: 1 if results improve from validation to validation, -1 if they get worse.
        first_epoch: the epochs before it are over.
        validated: whether the history has a row for each epoch, or none.
        is_chief: whether they are called by the worker that writes files.
        path: the run directory, if not one of their own.
    """
    variables = [v for v in lab.variables(lab.one) if v.dtype.startswith("float")]
    evaluated = lab.evaluations["once"] if lab.evaluated_splits else {}
    row = {f"train_{n}": v for n, v in lab.run.by_loss_name(lab.base.losses.values()).items()}
    row |= {f"train_{name}": value for name, value in lab.base.metrics.items()} | evaluated
    # 1 if larger numbers of a column are better, -1 if smaller ones are, 0 if unknown.
    signs = {n: {True: 1, False: -1, None: 0}[lab.larger_is_better(n.partition("_")[2])]
             for n in row}  # fmt: skip
    slopes = {name: signs[name] * 0.02 * max(abs(v), 0.1) for name, v in row.items()}
    per_epoch = lab.batches.steps_per_epoch
    stops, rates = list[int](), list[list[float]]()
    due = sorted((step, i) for i, each in enumerate(callbacks)
                 for step in _steps(lab, each, first_epoch))  # fmt: skip
    # Two are compared after the same number of calls, however slow the machine is.
    until = perf_counter() + (SECS if most is None else float("inf"))
    with (
        _undone(lab) as outside,
        tempfile.TemporaryDirectory() as own,
        contextlib.redirect_stdout(None),
        mock.patch.object(lab.run.workers, "index", 0 if is_chief else 1),
    ):
        directory = path or Path(own)
        loop = _Loop(lab, directory)
        tell(callbacks, "on_train_begin", loop)
        tell(callbacks, "on_step_begin", loop)
        for call, (step, i) in enumerate(due[: MOST_CALLS if most is None else most]):
            if perf_counter() > until or (stops and stops[-1] < call):  # the run has ended
                break
            if call == resumed_at:
                callbacks = _resumed(callbacks, lab.create_callbacks())
                tell(callbacks, "on_train_begin", loop)
                tell(callbacks, "on_step_begin", loop)
            for variable in lab.run.trainable_variables:
                variable.assign(variable.value * 1.001 + 0.001)
            epoch = step // per_epoch
            history = [
                {"step": (n + 1) * per_epoch, "epoch": n + 1}
                | {name: v + n * trend * slopes[name] for name, v in row.items()}
                for n in range(epoch * validated)
            ]
            event = Event(
                step, epoch, lab.base.losses, lab.base.metrics, 1.0, lab.run, directory,
                history, lambda: None, partial(stops.append, call), lambda: lab.batch,
                is_chief,
            )  # fmt: skip
            loop.step = step
            with contextlib.suppress(Exception):  # it may need what exists only in a run
                callbacks[i].function(event)
                tell([callbacks[i]], "on_step_begin", loop)
            rates.append([*learning_rates(lab.run).values()])
        trainable = [layer.trainable for layer in lab.run.layers]
        values, others = ([v.numpy() for v in each] for each in (variables, outside))
        files = {file.relative_to(directory) for file in directory.rglob("*") if file.is_file()}
        return Acts(stops, rates, values, others, trainable, files)


@contextlib.contextmanager
def _undone(lab: Laboratory) -> Iterator[list[tf.Variable]]:
    """Undo afterwards what changes layers and variables, also those of no model, which it gives.

    A train step reads these, and a checkpoint keeps what they become.
    """
    outside = [v for v in lab.unknown_variables if v.dtype.is_floating]
    initial = [v.numpy() for v in outside]
    trainable = [layer.trainable for layer in lab.run.layers]
    try:
        yield outside
    finally:
        for variable, value in zip(outside, initial, strict=True):
            variable.assign(value)
        for layer, was in zip(lab.run.layers, trainable, strict=True):
            layer.trainable = was  # outer layers come first, and set inner ones
        lab.reset()


def _act_on_one_validation(lab: Laboratory, most: int) -> bool:
    """Whether callbacks act some calls after the first validation, and not without it."""
    per_epoch = lab.batches.steps_per_epoch

    def often() -> list[Callback]:
        """The callbacks that are called several times per epoch."""
        made = lab.create_callbacks()
        return [each for each in made if sum(n < per_epoch for n in _steps(lab, each)) > 1]

    # After the end of the first epoch, and before the end of the second.
    calls = sum(n < 2 * per_epoch for each in often() for n in _steps(lab, each, 1))
    if not calls:
        return False
    told, untold = (
        _acts(lab, often(), min(most, calls), first_epoch=1, validated=validated)
        for validated in (True, False)
    )
    at_once = 0 in told.stops  # for example because a goal is reached
    return told.acts and not untold.acts and not at_once


def _timed_ones_act(lab: Laboratory) -> bool:
    """Whether callbacks of `every_secs` change weights or learning rates."""
    timed = [every_epochs(1, each.function) for each in lab.create_callbacks() if each._seconds]
    if not timed:
        return False
    idle = [every_epochs(1, lambda event: None) for _ in timed]
    acts, others = (_acts(lab, each, 2 * len(timed)) for each in (timed, idle))
    return _differ(acts._replace(stops=others.stops), others)


def _written_by_all(whole: Acts, alone: Acts) -> str:
    """A file that the chief and another worker write, with nothing of a process in its name."""
    of_process = {str(os.getpid()), platform.node()} - {""}
    common = sorted(map(str, whole.files & alone.files))
    return next((file for file in common if not any(map(file.count, of_process))), "")


def _chief_acts_alone(lab: Laboratory, whole: Acts, alone: Acts) -> bool:
    """Whether callbacks change less on a worker that isn't the chief and doesn't communicate."""
    if not _differ(whole, alone._replace(stops=whole.stops)):
        return False
    talks: list[str] = []

    def noted(_: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            talks.append(function.__name__)
            return function(*args, **kwargs)

        return call

    places = [(Workers, name) for name in ("gather", "sum", "on_chief")]
    with tempfile.TemporaryDirectory() as path, replaced(places, noted):
        chief, other = (
            _acts(lab, lab.create_callbacks(), whole.calls, is_chief=is_chief, path=Path(path))
            for is_chief in (True, False)
        )
    return not talks and _differ(chief, other._replace(stops=chief.stops))


def _hours_between_looks() -> contextlib.AbstractContextManager[None]:
    """Let an hour pass each time the clock is read."""
    hours = itertools.count(1)
    clocks = [(time, name) for name in ("time", "monotonic", "perf_counter")]
    return replaced(clocks, lambda _, clock: lambda: clock() + 3600 * next(hours))


def _resumed(old: list[Callback], new: list[Callback]) -> list[Callback]:
    """The new callbacks, with the state of the old ones from a checkpoint."""
    for before, after in zip(stateful(old), stateful(new), strict=True):
        restore_state(after, state_of(before))
    return new


def _steps(lab: Laboratory, callback: Callback, first_epoch: int = 0) -> list[int]:
    """The steps of some epochs after which a callback is due; later ones, too, if it is rare."""
    per_epoch = lab.batches.steps_per_epoch
    if callback.after_validations:
        return [per_epoch * (first_epoch + epoch + 1) for epoch in range(EPOCHS)]
    steps: list[int] = []
    step, last = first_epoch * per_epoch - 1, (first_epoch + EPOCHS) * per_epoch
    while len(steps) < MOST_CALLS:
        following = callback.next_step(step, per_epoch)
        if following is None or following <= step:
            break
        if following > last and (len(steps) >= FEWEST_CALLS or following > lab.num_steps):
            break
        steps.append(step := following)
    return steps


def _remembered(function: Any) -> dict[str, str]:
    """The state of a function or a callable object, without that of TensorFlow and Keras."""
    owner = getattr(function, "__self__", None if hasattr(function, "__code__") else function)
    held: dict[str, Any] = dict(getattr(owner, "__dict__", {}))
    function = getattr(function, "__func__", function)
    if code := getattr(function, "__code__", None):
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell
                held[name] = cell.cell_contents
        held |= {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    plain = {name: value for name, value in held.items() if _is_plain(value)}
    return {n: repr(v.tobytes() if isinstance(v, np.ndarray) else v) for n, v in plain.items()}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | deque):
        return all(map(_is_plain, value))
    return isinstance(value, SIMPLE) or tf.is_tensor(value)


def _name(callback: Callback) -> str:
    function = callback.function
    return str(getattr(function, "__qualname__", type(function).__name__)).rpartition(".")[2]
