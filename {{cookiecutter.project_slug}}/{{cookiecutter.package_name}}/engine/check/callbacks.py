"""Relations of what is called between steps."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from ..callbacks import Callback, Event
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import different

EPOCHS, MOST_CALLS, SECS = 3, 60, 2.0  # that callbacks are called for, at most
SIMPLE = int | float | str | bool | bytes | None | np.ndarray | np.generic


@relation("callbacks")
def callbacks(lab: Laboratory) -> Finding:
    """What a callback changes reaches the step, and what it remembers is saved."""
    made = lab.create_callbacks()
    if not made:
        return ok("there are none")
    is_repeatable = lab.is_the_same_when_traced_again  # before anything is called
    before = [_remembered(callback.function) for callback in made]
    trainable = [layer.trainable for layer in lab.run.layers]
    try:
        called = _call(lab, made)
    finally:
        froze = [layer.trainable for layer in lab.run.layers] != trainable
        for layer, was in zip(lab.run.layers, trainable, strict=True):
            layer.trainable = was  # outer layers come first, and set those within
        lab.reset()
    if is_repeatable and not froze:
        again = lab.losses_when_traced_again()
        for name in different(lab.base.losses, again):
            return wrong(
                f"behind {called} calls of callbacks a new trace of the step gives the loss {name} "
                f"{again[name]:.4g}, where it gave {lab.base.losses[name]:.4g}",
                "they change a Python number, which the step read once, when it was traced: only a "
                "resumed run will see it",
                "compute it from replica.step in the step, or keep it in a weight that isn't "
                "trainable",
            )
    for callback, then in zip(made, before, strict=True):
        if hasattr(callback.function, "get_state"):
            continue
        now = _remembered(callback.function)
        if changed := [name for name in now if now[name] != then.get(name)]:
            return look(
                f"{_name(callback)} remembers {', '.join(changed[:3])} from call to call",
                "it isn't saved, so a resumed run starts it anew",
                "give it get_state() and set_state(), see engine/callbacks.py",
            )
    return ok(f"{called} calls")


def _call(lab: Laboratory, callbacks: list[Callback]) -> int:
    """Call them as in the first epochs, with the numbers of the first step; how often."""
    per_epoch = lab.batches.steps_per_epoch
    evaluated = lab.evaluations["once"] if lab.evaluated_splits else {}
    row = {f"train_{n}": v for n, v in lab.run.by_loss_name(lab.base.losses.values()).items()}
    row |= {f"train_{name}": value for name, value in lab.base.metrics.items()} | evaluated
    due = [
        (step, callback) for callback in callbacks for step in _steps(callback, per_epoch)
    ]  # fmt: skip
    called, started = 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(None):
        for step, callback in sorted(due, key=lambda pair: pair[0]):
            if time.perf_counter() - started > SECS:
                break
            epoch = step // per_epoch
            history = [{"step": (i + 1) * per_epoch, "epoch": i + 1, **row} for i in range(epoch)]
            event = Event(
                step, epoch, lab.base.losses, lab.base.metrics, 1.0, lab.run, Path(directory),
                history, lambda: None, lambda: None, lambda: lab.batch,
            )  # fmt: skip
            with contextlib.suppress(Exception):  # it may need what only a run has
                callback.function(event)
                called += 1
    return called


def _steps(callback: Callback, per_epoch: int) -> list[int]:
    """The steps of the first epochs after which a callback is due."""
    if callback.after_validations:
        return [per_epoch * (epoch + 1) for epoch in range(EPOCHS)]
    steps: list[int] = []
    step = -1
    while len(steps) < MOST_CALLS:
        following = callback.next_step(step, per_epoch)
        if following is None or following <= step or following > EPOCHS * per_epoch:
            break
        steps.append(step := following)
    return steps


def _remembered(function: Any) -> dict[str, str]:
    """What a function, or an object that is called, holds that isn't TensorFlow's or Keras'."""
    code = getattr(function, "__code__", None)
    owner = getattr(function, "__self__", None if code else function)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    held: dict[str, Any] = dict(getattr(owner, "__dict__", {}))
    if code is not None:
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            with contextlib.suppress(ValueError):  # it is empty
                held[name] = cell.cell_contents
        held |= {n: function.__globals__[n] for n in code.co_names if n in function.__globals__}
    return {name: repr(_plain(value)) for name, value in held.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple | set | deque):
        return all(map(_is_plain, value))
    return isinstance(value, SIMPLE)


def _plain(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _name(callback: Callback) -> str:
    function = callback.function
    return str(getattr(function, "__qualname__", type(function).__name__)).rpartition(".")[2]
