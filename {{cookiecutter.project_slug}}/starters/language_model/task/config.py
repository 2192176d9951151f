"""The knobs of the task. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the knobs of your task; every field becomes a flag of train.py.
@dataclass(frozen=True)
class TaskConfig:
    """Language model."""

    dates: int = 2_400  # in the training data, each in every form
    layers: int = 2  # of the transformer
    width: int = 64  # numbers that stand for a character
    heads: int = 4  # of the attention; they share the width
    dropout: float = 0.0  # fraction of what a layer adds that is left out in training
    learning_rate: float = 3e-3  # at its highest; rises first, then falls to zero along a cosine
    warmup: float = 0.05  # part of the run in which it rises
    monitor: str = "validation_exact_match"  # the number of history.csv that tells the best weights
    larger_is_better: bool = True  # its direction

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        if not 1 <= self.dates <= 30_000:
            raise ValueError(f"--dates is {self.dates}; it must be at least 1 and at most 30000.")
        if self.heads < 1 or self.width % self.heads:
            raise ValueError(f"--heads {self.heads} can't share --width {self.width} evenly.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"--warmup is {self.warmup}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
