"""The knobs of the task. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


# TODO(1): the knobs of your task; every field becomes a flag of train.py.
@dataclass(frozen=True)
class TaskConfig:
    """Image classification."""

    # 8x8 digits that come with the project, or 28x28 clothes (downloaded once)
    dataset: Literal["digits", "fashion_mnist"] = "digits"
    learning_rate: float = 2e-3  # at the start; falls to zero along a cosine
    dropout: float = 0.3  # fraction of the features left out in training
    l2: float = 1e-4  # weight of the squared convolution kernels in the loss
    shift: float = 0.5  # training images are moved by up to so many pixels; 0: not at all
    monitor: str = "validation_accuracy"  # the number of history.csv that tells the best weights
    larger_is_better: bool = True  # its direction

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
