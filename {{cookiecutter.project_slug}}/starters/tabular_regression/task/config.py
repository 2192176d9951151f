"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the settings of your task, each a flag of train.py; default: those of this starter.
@dataclass(frozen=True)
class TaskConfig:
    """Regression on a table."""

    fold: int = 0  # fifth of the rows that is the test data, 0 to 4
    learning_rate: float = 1e-2  # learning rate at the start; decays to 0 along a cosine
    weight_decay: float = 1e-2  # what a step takes off each weight, times the learning rate
    width: int = 32  # units of the hidden layer
    dropout: float = 0.3  # fraction of hidden units that training drops; 0 disables
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if self.fold not in range(5):
            raise ValueError(f"--fold is {self.fold}; it must be 0, 1, 2, 3 or 4.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
