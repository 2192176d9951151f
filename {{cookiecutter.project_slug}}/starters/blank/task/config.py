"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass

from .next_todo import TodoError


# TODO(1): the settings of your task, each with a default; every field becomes a flag of train.py.
@dataclass(frozen=True)
class TaskConfig:
    """The task."""

    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        raise TodoError(
            1,
            "TaskConfig in task/config.py needs the settings of your task and the column of "
            "history.csv that selects the best weights; then delete this error",
        )
