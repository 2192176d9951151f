"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


# TODO(1): the settings of your task, each a flag of train.py; default: those of this starter.
@dataclass(frozen=True)
class TaskConfig:
    """Image classification."""

    # images to classify: 8x8 digits that come with the project, or 28x28 clothes, downloaded once
    dataset: Literal["digits", "fashion_mnist"] = "digits"
    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine
    dropout: float = 0.3  # dropout rate before and after the hidden layer; 0 disables
    l2: float = 1e-4  # factor of the L2 regularization of the convolutions; 0 disables
    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        for name in ("l2", "shift"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be at least 0.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
