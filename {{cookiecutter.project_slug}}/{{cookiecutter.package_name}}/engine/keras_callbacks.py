"""Keras callbacks in this loop: `keras_callback(keras.callbacks.EarlyStopping(patience=3))`."""

from __future__ import annotations

import contextlib
import os
import re
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from .callbacks import Callback, Event, from_json_text, to_json_text
from .errors import UsageError
from .gradients import all_variables, inner_optimizers

if TYPE_CHECKING:
    from .loop import Loop

REFUSED = {
    "BackupAndRestore": "the run saves and resumes itself; leave it out, and use --resume",
    "OrbaxCheckpoint": "the run saves and resumes itself; leave it out, and use --resume",
    "ProgbarLogger": "the run shows its progress itself; leave it out",
    "SwapEMAWeights": "the average of the weights is a model of its own here, which the train step "
    "moves: docs/tasks.md of the template",
}
PATHS = {"CSVLogger": "filename", "ModelCheckpoint": "filepath", "TensorBoard": "log_dir"}
MONITORS = {"EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau"}
STEP_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def keras_callback(callback: Any, *, model: str = "", chief_only: bool | None = None) -> Callback:
    """A callback of Keras as one of this loop; its epochs end with each validation.

    It sees the columns of history.csv by the names of Keras, such as val_loss for validation_loss.
    All hooks are called but those for predicting and for batches of the test; `on_test_begin` when
    the validation is over. Attributes that change after `on_train_begin` are in every checkpoint,
    if they are numbers, text, arrays of up to 100,000 numbers, or lists, tuples, sets, deques and
    dicts of them; and what its `get_state()` returns, if it has that and `set_state(state)`.

    Args:
        callback: a `keras.callbacks.Callback`. If it has a hook for batches, each graph call makes
            one step only. Relative paths of those in Keras are in the run directory.
        model: the name of the model that is its `self.model`; "" for the only one.
        chief_only: whether of several workers only the chief calls it. It must be true for what
            writes files, and false for what changes weights or learning rates. None: true for those
            in Keras that write.

    Raises:
        UsageError: it is no callback of Keras, or one that can't work here.
    """
    if not isinstance(callback, keras.callbacks.Callback):
        raise UsageError(f"keras_callback needs a keras.callbacks.Callback, not {callback!r}.")
    for name in _kinds(callback) & REFUSED.keys():
        raise UsageError(f"keras.callbacks.{name} can't work here: {REFUSED[name]}.")
    if getattr(callback, "_should_trace", False):
        raise UsageError("TensorBoard's profile_batch can't work here; use --profile FIRST:LAST.")
    if chief_only is None:
        chief_only = bool(_kinds(callback) & {*PATHS, "RemoteMonitor"})
    each_step = _has_step_hook(callback)
    adapter = _Adapter(callback, model, chief_only, each_step)
    next_step = (lambda step, _: max(1, step + 1)) if each_step else (lambda step, _: None)
    return Callback(adapter, next_step, validations=True)


class _Adapter:
    """Calls the hooks of a Keras callback."""

    def __init__(self, callback: Any, model: str, chief_only: bool, each_step: bool) -> None:
        self._callback, self._model_name = callback, model
        self.kind = type(callback).__name__
        self._chief_only, self._each_step = chief_only, each_step
        # Of steps the latest that it knows of.
        self._kept: dict[str, Any] = {"epoch": 0, "first_step": 0, "begun": -1, "step_begun": -1}
        self._kept |= {"step": 0, "validated": 0}
        self._attributes: dict[str, str] = {}  # to be set, as JSON
        self._not_held: list[str] = []  # attributes that a checkpoint couldn't hold
        self._fresh: dict[str, str] = {}  # those after on_train_begin

    def on_train_begin(self, loop: Loop) -> None:
        """Before the first step of this process.

        Raises:
            UsageError: what it monitors or changes isn't there.
        """
        callback = self._callback
        self._model = _model(loop, self._model_name)
        if _kinds(callback) & MONITORS:
            _set_monitor(callback, loop)
        if _kinds(callback) & {"LearningRateScheduler", "ReduceLROnPlateau"}:
            _validate_learning_rate(callback, self._model.optimizer)
        if self._chief_only and not loop.workers.is_chief:
            callback = self._callback = keras.callbacks.Callback()  # which does nothing
        _set_path(callback, loop.directory.path, self._kept.get("file_size"))
        interval = loop.schedule.validate_every_steps or loop.batches.steps_per_epoch
        epochs = -(-loop.schedule.num_steps // interval)
        callback.set_params({"verbose": 0, "epochs": epochs, "steps": interval})
        callback.set_model(self._model)
        callback.on_train_begin({})
        self._fresh = _attributes(callback)
        if any(name not in vars(callback) for name in self._not_held):
            self._begin_again(loop)
        for name, text in self._attributes.items():
            setattr(callback, name, _filled(vars(callback).get(name), from_json_text(text)))
        # After on_train_begin, which notes some of it anew; of other workers it does nothing.
        if "own" in self._kept and hasattr(callback, "set_state"):
            callback.set_state(self._kept["own"])

    def _begin_again(self, loop: Loop) -> None:
        """What begins an epoch or a step may have noted what a checkpoint can't hold.

        What it did to the model is in the checkpoint, so that is set back.
        """
        kept, optimizers = self._kept, loop.run.optimizers.values()
        variables = [*self._model.variables, *(v for o in optimizers for v in all_variables(o))]
        values = [v.numpy() for v in variables]
        if kept["begun"] == kept["epoch"]:
            self._callback.on_epoch_begin(kept["epoch"], {})
        if self._each_step and kept["step_begun"] == loop.step:
            self._callback.on_train_batch_begin(loop.step - kept["first_step"], {})
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def __call__(self, event: Event) -> None:
        """After a step, a validation, or both."""
        callback, kept = self._callback, self._kept
        if self._each_step and event.step > kept["step"]:
            batch = event.step - kept["first_step"] - 1
            callback.on_train_batch_end(batch, event.losses | event.metrics)
        kept["step"] = event.step
        row = event.history[-1] if event.history else {}
        if row.get("step") == event.step > kept["validated"]:
            kept["validated"], logs = event.step, _logs(row)
            test = {n.removeprefix("val_"): v for n, v in logs.items() if n.startswith("val_")}
            if test:
                callback.on_test_begin({})
                callback.on_test_end(test)
            callback.on_epoch_end(kept["epoch"], logs)
            kept |= {"epoch": kept["epoch"] + 1, "first_step": event.step}
        if self._model.stop_training:
            event.stop()

    def on_step_begin(self, loop: Loop) -> None:
        """Before a step, when all callbacks have been called after the one before it."""
        kept = self._kept
        if loop.stopping or loop.step >= loop.schedule.num_steps:
            return
        if kept["begun"] < kept["epoch"]:
            kept["begun"] = kept["epoch"]
            self._callback.on_epoch_begin(kept["epoch"], {})
        if self._each_step and kept["step_begun"] < loop.step:
            kept["step_begun"] = loop.step
            self._callback.on_train_batch_begin(loop.step - kept["first_step"], {})

    def on_train_end(self, loop: Loop) -> None:
        """After the last step, but not when a signal interrupts the run."""
        history = loop.records.history
        self._callback.on_train_end(_logs(history[-1]) if history else {})

    def get_state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        now, kept = _attributes(self._callback), dict(self._kept)
        file = getattr(self._callback, "csv_file", None)
        if file and not getattr(file, "closed", False):  # a remote one can't tell
            kept["file_size"] = file.tell()  # its name may be another file's now
        if hasattr(self._callback, "get_state") and hasattr(self._callback, "set_state"):
            kept["own"] = self._callback.get_state()
        changed = {name: text for name, text in now.items() if self._fresh.get(name) != text}
        not_held = [name for name in vars(self._callback) if name not in now]
        return {"kept": kept, "attributes": changed, "not_held": not_held}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._kept |= state["kept"]
        self._attributes = state["attributes"]
        self._not_held = state.get("not_held", [])


def _kinds(callback: Any) -> set[str]:
    """The classes of Keras that it is."""
    classes = type(callback).__mro__
    return {c.__name__ for c in classes if c.__module__.startswith("keras.")}


def _has_step_hook(callback: Any) -> bool:
    base, kinds = vars(keras.callbacks.Callback).values(), _kinds(callback)
    hooks = [getattr(callback, name) for name in STEP_HOOKS]
    own = [hook for hook in hooks if getattr(hook, "__func__", None) not in base]
    if all(str(hook.__module__).startswith("keras.") for hook in own):  # not of a subclass
        if "TensorBoard" in kinds:
            return callback.update_freq != "epoch" or callback.write_steps_per_second
        if "ModelCheckpoint" in kinds:
            return callback.save_freq != "epoch"
    return bool(own)


def _model(loop: Loop, name: str) -> Any:
    """The model that the callback sees, with its optimizer."""
    models, optimizers = loop.run.trained_models, loop.run.optimizers
    if not name and len(models) == 1:
        (name,) = models
    if name not in models:
        names = " or ".join(f"model={known!r}" for known in models)
        raise UsageError(f"keras_callback doesn't know which model to show: pass {names}.")
    model = models[name]
    # Past the tracking of Keras and TensorFlow: the optimizer is no part of the model.
    object.__setattr__(model, "optimizer", optimizers.get(name) or next(iter(optimizers.values())))
    model.stop_training = False
    return model


def _set_monitor(callback: Any, loop: Loop) -> None:
    """Say whether larger is better; Keras would ask the metrics of `compile`."""
    kind, best = type(callback).__name__, loop.best
    columns = {_name(column): column for column in best.columns}
    name = callback.monitor
    if name not in columns:
        if getattr(callback, "save_best_only", True):
            known = ", ".join(columns)
            raise UsageError(
                f"{kind} monitors {name!r}, which this run doesn't have; there are: {known}."
            )
        callback.mode = "min"  # it saves always
    column = columns.get(name, "")  # without one, there is nothing to compare
    direction = best.direction(column)
    if column == best.column:
        direction = "max" if best.larger_is_better else "min"
    # A ModelCheckpoint of Keras 3.10 has none, and has decided by the name of the metric.
    operation = getattr(callback, "monitor_op", None)
    decided = "min" if operation is np.less else "max" if operation is np.greater else ""
    mode = getattr(callback, "mode", decided if getattr(callback, "save_best_only", True) else "")
    if mode == "auto":  # Keras 3.10: ModelCheckpoint has decided already
        if not direction:
            raise UsageError(
                f"{kind} can't know whether larger values of {name!r} are better; pass mode='min' "
                "or mode='max'."
            )
        callback.mode = direction
        mode = direction
    # The loss of a critic, which others make larger, may be meant so.
    is_meant = len(loop.run.optimizers) > 1 and column != best.column
    if mode in ("min", "max") and direction not in ("", mode) and not is_meant:
        which = "larger" if direction == "max" else "smaller"
        says = ", as larger_is_better in task/config.py says" * (column == best.column)
        raise UsageError(
            f"{kind} has mode={mode!r}, but {which} values of {name!r} are better{says}; pass "
            f"mode={direction!r}."
        )
    if hasattr(callback, "_set_monitor_op") and callback.monitor_op is None:
        callback._set_monitor_op()  # now: it changes the sign of min_delta, which is no state
    if getattr(callback, "restore_best_weights", False):
        if (column, callback.mode == "max") != (best.column, best.larger_is_better):
            raise UsageError(
                f"{kind} would restore the best weights by {name!r}, and the run tests those by "
                f"{best.column!r}; leave out restore_best_weights, or change monitor and "
                "larger_is_better in task/config.py."
            )
        if getattr(callback, "start_from_epoch", 0):
            raise UsageError(
                f"{kind} would leave out the first {callback.start_from_epoch} epochs when it "
                "restores the best weights, and the best ones of the run may be of these; leave "
                "out restore_best_weights or start_from_epoch."
            )
        callback.restore_best_weights = False  # the run itself keeps them, and tests them


def _validate_learning_rate(callback: Any, optimizer: Any) -> None:
    for each in inner_optimizers(optimizer) or [optimizer]:
        if not isinstance(each.learning_rate, keras.Variable):
            kind = type(callback).__name__
            raise UsageError(f"{kind} can't set the learning rate of a schedule; leave one out.")


def _set_path(callback: Any, directory: Path, size: int | None) -> None:
    """Put relative paths into the run directory, and cut a CSVLogger's file to `size` bytes."""
    for attribute in (PATHS[kind] for kind in _kinds(callback) & PATHS.keys()):
        path, folder = getattr(callback, attribute), str(directory)
        if attribute == "filepath":  # a format
            folder = re.sub("[{}]", r"\g<0>\g<0>", folder)
        if "://" not in path:
            path = os.path.join(folder, path)  # noqa: PTH118
        setattr(callback, attribute, path)
        if size is not None:
            callback.append = True
            if Path(path).is_relative_to(directory) and Path(path).exists():
                os.truncate(path, min(size, Path(path).stat().st_size))


def _name(column: str) -> str:
    """What Keras calls a column of the history."""
    split, _, name = column.partition("_")
    return f"val_{name}" if split == "validation" else name


def _logs(row: dict[str, float]) -> dict[str, float]:
    return {_name(column): v for column, v in row.items() if column not in ("epoch", "step")}


def _filled(at_first: Any, value: Any) -> Any:
    """The value as what was there at first, with its default or its greatest length."""
    if isinstance(at_first, dict) and isinstance(value, dict):
        at_first.clear()
        at_first.update(value)
        return at_first
    if isinstance(at_first, deque) and isinstance(value, deque):
        return deque(value, at_first.maxlen)
    return value


def _attributes(callback: Any) -> dict[str, str]:
    """Those that a checkpoint can hold; others are made by its constructor and on_train_begin."""
    texts = {}
    for name, value in vars(callback).items():
        with contextlib.suppress(TypeError, ValueError, RecursionError):
            texts[name] = to_json_text(value, exact=False)
    return texts
