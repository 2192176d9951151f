"""What happens at certain steps, seconds or epochs beside training itself."""

from __future__ import annotations

from ..engine.callbacks import Callback
from ..engine.errors import TodoError
from .config import TaskConfig


# TODO(9): functions of yours and when to call them, e.g. every_steps(100, show) or
# at_step(0, freeze), from engine/callbacks.py, which says what they receive.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks, called outside the graph; they may save, stop, freeze layers or change rates."""
    raise TodoError(
        9, "create_callbacks in task/callbacks.py must return a list of callbacks, or [] for none"
    )
