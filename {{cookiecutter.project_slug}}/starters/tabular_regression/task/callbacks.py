"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


# TODO(9): functions to call during training, such as every_steps(100, show), see
# engine/callbacks.py, or Keras' by keras_callback, see engine/keras_callbacks.py; none.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks, called between steps; they can save, stop, freeze layers or set learning rates."""
    return []
