"""The knobs of the task. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the knobs of your task; every field becomes a flag of train.py.
@dataclass(frozen=True)
class TaskConfig:
    """Regression on a table."""

    fold: int = 0  # which fifth of the rows is the test data, 0 to 4
    learning_rate: float = 1e-2  # at the start; falls to zero along a cosine
    weight_decay: float = 1e-2  # share of the weights taken off, times the learning rate, per step
    width: int = 32  # units of the hidden layer
    dropout: float = 0.3  # fraction of the units left out in training
    monitor: str = "validation_loss"  # the number of history.csv that tells the best weights
    larger_is_better: bool = False  # its direction

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        if self.fold not in range(5):
            raise ValueError(f"--fold is {self.fold}; it must be 0, 1, 2, 3 or 4.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
