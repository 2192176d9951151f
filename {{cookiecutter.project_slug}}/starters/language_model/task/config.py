"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the settings of your task, each a flag of train.py; default: those of this starter.
@dataclass(frozen=True)
class TaskConfig:
    """Language model."""

    dates: int = 2_400  # dates in the training data, each in every form
    layers: int = 2  # layers of the transformer
    width: int = 64  # length of the vector that represents a token
    heads: int = 4  # attention heads; they divide the width among them
    dropout: float = 0.0  # fraction of each layer's output that training drops; 0 disables
    learning_rate: float = 3e-3  # largest learning rate; it rises first, then decays to 0
    warmup: float = 0.05  # fraction of the run in which the learning rate rises; 0 disables
    monitor: str = "validation_exact_match"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 1 <= self.dates <= 30_000:
            raise ValueError(f"--dates is {self.dates}; it must be at least 1 and at most 30000.")
        if self.heads < 1 or self.width % self.heads:
            raise ValueError(f"--heads is {self.heads}; it must divide --width {self.width}.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not 0 <= self.warmup < 1:
            raise ValueError(f"--warmup is {self.warmup}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
