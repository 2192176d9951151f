"""What happens at certain steps, seconds or epochs beside training itself."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


# TODO(9): functions of yours and when to call them, e.g. every_steps(100, show) or
# at_step(0, freeze), from engine/callbacks.py, which says what they receive; none.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks, called outside the graph; they may save, stop, freeze layers or change rates."""
    del task
    return []
