"""The knobs of the task. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.errors import TodoError


# TODO(1): the knobs of your task, a field with a default for each; every field becomes a flag.
@dataclass(frozen=True)
class TaskConfig:
    """The task."""

    monitor: str = "validation_loss"  # the number of history.csv that tells the best weights
    larger_is_better: bool = False  # its direction

    def __post_init__(self) -> None:
        """Refuse what can't be meant."""
        raise TodoError(
            1,
            "TaskConfig in task/config.py needs the knobs of your task and the number that "
            "tells the best weights; then delete this error",
        )
