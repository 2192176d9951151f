"""Callbacks and when they run: every_steps, every_validation, at_step and others."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .errors import UsageError, require_call
from .gradients import inner_optimizers
from .model_inputs import taken_by
from .types import Run, unique

# What JSON doesn't have, by its name there, and how it is made again of a list.
PAIRS, ARRAY, SCALAR = "pairs of a dict", "numbers of an array", "number of NumPy"
DEQUE = "items of a deque, of at most so many"
KINDS: dict[str, type[Any]]
KINDS = {f"items of a {kind.__name__}": kind for kind in (tuple, set, frozenset)}
MADE: dict[str, Callable[[list[Any]], Any]] = {
    PAIRS: dict,
    ARRAY: lambda parts: np.array(parts[2], parts[0]).reshape(parts[1]),
    SCALAR: lambda parts: np.dtype(parts[0]).type(parts[1]),
    DEQUE: lambda parts: deque(*parts),
    **KINDS,
}
# What comes back as it was; of a subclass, such as a namedtuple, only the items would.
EXACT = {type(None), bool, int, float, str, list, dict, deque, np.ndarray, *KINDS.values()}
MOST_NUMBERS = 100_000  # of an array; more belong into a file, or a weight of a model


@dataclass(frozen=True)
class Event:
    """What a callback receives. The numbers are those of the latest step.

    Attributes:
        step: train steps made so far.
        epoch: epochs finished so far.
        losses: losses and terms by name, over all replicas; before the first step empty.
        metrics: results of the training metrics since the last validation; right after a
            validation those that went into its row of the history. A result of several numbers is
            "name/0", "name/1", ..., or "name/key" of a dict.
        gradient_norm: global norm of the summed gradients, before clipping.
        run: strategy, models, optimizers, losses and metrics; may be changed (freeze a layer, set
            `run.optimizers["main"].learning_rate`), but for metrics, which are sums over the steps
            since the last validation.
        directory: the run directory.
        history: a row for each validation so far, as in history.csv.
        save: writes a checkpoint once all callbacks of this step have been called.
        stop: ends the run after this step, as if it were complete.
        read_batch: makes the batch of the latest step once more.
        is_chief: whether this worker is the one that writes files; every worker calls every
            callback, since what they compute may need all of them.
    """

    step: int
    epoch: int
    losses: dict[str, float]
    metrics: dict[str, float]
    gradient_norm: float
    run: Run
    directory: Path
    history: list[dict[str, float]]
    save: Callable[[], None]
    stop: Callable[[], None]
    read_batch: Callable[[], Any]
    is_chief: bool = True

    @property
    def learning_rates(self) -> dict[str, float]:
        """The learning rate of each optimizer, by its name."""
        return learning_rates(self.run)

    @cached_property
    def batch(self) -> Any:
        """The latest step's batch as the steps see it: the rows of all replicas of this worker."""
        return tf.nest.map_structure(lambda t: tf.reshape(t, [-1, *t.shape[2:]]), self.read_batch())

    @cached_property
    def outputs(self) -> tf.Tensor:
        """The only model's outputs for `batch` now: after the update, without dropout."""
        inputs = taken_by(self.run.model, self.batch[0])
        return self.run.model(inputs, training=False)


def learning_rates(
    run: Run, *, schedules: bool = True, of_latest_step: bool = False
) -> dict[str, float]:
    """The learning rate of each optimizer; those inside a MultiOptimizer as "main/0", "main/1".

    Args:
        run: its optimizers.
        schedules: whether those that follow a schedule are there too.
        of_latest_step: what a schedule gave its latest update, not what it gives the next one.
    """
    named: dict[str, Any] = {}
    for name, optimizer in run.optimizers.items():
        inner = inner_optimizers(optimizer)
        named |= {f"{name}/{i}": o for i, o in enumerate(inner)} if inner else {name: optimizer}
    updates = [o.iterations for o in named.values()]
    made = [tf.maximum(tf.convert_to_tensor(n) - int(of_latest_step), 0) for n in updates]
    with keras.StatelessScope(zip(updates, made, strict=True)):
        # float() of a mirrored variable fails (TF 2.21).
        return {
            name: float(tf.convert_to_tensor(o.learning_rate))
            for name, o in named.items()
            if schedules or isinstance(o.learning_rate, keras.Variable)
        }


def state_of(function: Any) -> dict[str, Any]:
    """The state of a callback's function, and of what class it is.

    Raises:
        UsageError: a checkpoint can't hold it.
    """
    name, state = _kind(function), function.get_state()
    try:
        return {"of": name, "state": to_json_text(state)}
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{name}.get_state() returns what a checkpoint can't hold: {error}; return numbers, "
            "text, small arrays, and lists, tuples, sets and dicts of them."
        ) from error


def restore_state(function: Any, saved: dict[str, Any]) -> None:
    """Give a callback's function what `state_of` returned.

    Raises:
        UsageError: it is the state of another callback.
    """
    if saved["of"] != _kind(function):
        raise UsageError(
            "The run can't be resumed: create_callbacks in task/callbacks.py returns other "
            "callbacks than before, or in another order; start a new run, or set it back."
        )
    function.set_state(from_json_text(saved["state"]))


def to_json_text(value: Any, *, exact: bool = True) -> str:
    """A value as JSON that `from_json_text` gives back with the keys of its dicts and its types.

    Args:
        value: what to write.
        exact: whether a subclass of these types is refused, or becomes what it is derived from.

    Raises:
        TypeError, ValueError, RecursionError: it is, or contains, neither a number, text, a list,
            tuple, set, deque or dict, nor an array of at most `MOST_NUMBERS`.
    """
    return json.dumps(_marked(value, exact), default=np.generic.item)


def from_json_text(text: str) -> Any:
    """What `to_json_text` was given."""
    return json.loads(text, object_hook=_unmarked)


def _marked(value: Any, exact: bool) -> Any:
    """The same with what JSON hasn't, such as keys that are no text, as dicts of one list."""
    marked = partial(_marked, exact=exact)
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return {SCALAR: [value.dtype.str, value.item()]}
    if exact and type(value) not in EXACT:
        raise TypeError(f"an instance of {type(value).__name__}")
    if isinstance(value, dict):
        if all(type(key) is str and key not in MADE for key in value):
            return {key: marked(part) for key, part in value.items()}
        return {PAIRS: [[marked(key), marked(part)] for key, part in value.items()]}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        if value.size > MOST_NUMBERS:
            raise ValueError(f"an array of {value.size:,} numbers")
        return {ARRAY: [value.dtype.str, value.shape, value.ravel().tolist()]}
    if isinstance(value, deque):
        return {DEQUE: [[marked(part) for part in value], value.maxlen]}
    for name, kind in KINDS.items():
        if isinstance(value, kind):
            return {name: [marked(part) for part in value]}
    return [marked(part) for part in value] if isinstance(value, list) else value


def _unmarked(value: dict[str, Any]) -> Any:
    if len(value) != 1:
        return value
    ((name, parts),) = value.items()
    return MADE[name](parts) if name in MADE else value


def _kind(function: Any) -> str:
    return getattr(function, "kind", type(function).__name__)


class Callback:
    """A function and when it is due. Make one with `every_steps` and its like.

    If the function is an object with `get_state()` and `set_state(state)`, or a method of one, the
    object's state (numbers, text, small arrays, and lists, tuples, sets and dicts of them) is part
    of every checkpoint.
    """

    def __init__(
        self,
        function: Callable[[Event], None],
        next_step: Callable[[int, int], int | None],
        seconds: float = 0.0,
        validations: bool = False,
    ) -> None:
        require_call(function, "event", "What a callback calls")
        self.function = function
        self.after_validations = validations
        # (step, steps in an epoch) -> the first step after it at which to call; a graph call must
        # end there.
        self.next_step = next_step
        self._seconds = seconds
        self._last = time.monotonic()

    @property
    def owner(self) -> Any:
        """What may have a state, and methods such as `on_train_begin`: of a method its object."""
        function: Any = self.function
        while isinstance(function, partial):
            function = function.func
        return getattr(function, "__self__", function)

    def is_due(self, step: int, steps_per_epoch: int) -> bool:
        """Whether to call it now that `step` steps are made."""
        if self._seconds:
            due = time.monotonic() - self._last >= self._seconds
            self._last = time.monotonic() if due else self._last
            return due
        return self.next_step(step - 1, steps_per_epoch) == step


def stateful(callbacks: Iterable[Callback]) -> list[Any]:
    """The owners that have a state, each once."""
    owners = unique(callback.owner for callback in callbacks)
    return [owner for owner in owners if hasattr(owner, "get_state")]


def tell(callbacks: Iterable[Callback], what: str, loop: Any) -> None:
    """Call the method `what` of the owners that have it, each once."""
    for owner in unique(callback.owner for callback in callbacks):
        getattr(owner, what, lambda loop: None)(loop)


def every_steps(n: int, function: Callable[[Event], None]) -> Callback:
    """Call `function` after steps n, 2n, 3n, ..."""
    n = _whole(n, 1, "every_steps")
    return Callback(function, lambda step, _: max(1, step // n + 1) * n)


def at_step(n: int, function: Callable[[Event], None]) -> Callback:
    """Call `function` once, after step n; 0 means before the first step."""
    n = _whole(n, 0, "at_step")
    return Callback(function, lambda step, _: n if step < n else None)


def every_secs(seconds: float, function: Callable[[Event], None]) -> Callback:
    """Call `function` when a graph call ends at least `seconds` after the last time."""
    if not seconds > 0:
        raise UsageError(f"every_secs got {seconds!r}; it must be more than 0.")
    return Callback(function, lambda step, _: None, seconds)


def every_epochs(n: int, function: Callable[[Event], None]) -> Callback:
    """Call `function` at the end of epochs n, 2n, 3n, ..."""
    n = _whole(n, 1, "every_epochs")
    return Callback(function, lambda step, epoch: max(1, step // (n * epoch) + 1) * n * epoch)


def every_validation(function: Callable[[Event], None]) -> Callback:
    """Call `function` after each validation, at the end of a run that is stopped too."""
    return Callback(function, lambda step, _: None, validations=True)


def _whole(number: float, least: int, function: str) -> int:
    """A number of steps or epochs, such as 10 or the quotient 10.0.

    Raises:
        UsageError: it isn't whole, or less than `least`.
    """
    if number != number // 1 or number < least:
        raise UsageError(f"{function} got {number!r}; it must be a whole number from {least} on.")
    return int(number)
