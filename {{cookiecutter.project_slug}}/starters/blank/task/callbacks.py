"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig
from .next_todo import TodoError


# TODO(9): functions to call during training.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    raise TodoError(
        9, "create_callbacks in task/callbacks.py must return a list of callbacks, or [] for none"
    )
