"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


# TODO(9): functions to call during training; default: none.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
