"""The knobs of the task. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the knobs of your task; every field becomes a flag of train.py.
@dataclass(frozen=True)
class TaskConfig:
    """Semantic segmentation."""

    learning_rate: float = 5e-3  # at the start; falls to zero along a cosine
    width: int = 12  # channels at full resolution; each of the three levels below doubles them
    foreground_weight: float = 2.0  # of a digit's pixel in the loss; one of the background has 1
    warp: float = 0.15  # training images are turned, sheared and scaled by so much; 0: not at all
    monitor: str = "validation_mean_iou"  # the number of history.csv that tells the best weights
    larger_is_better: bool = True  # its direction

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        for name in ("learning_rate", "width", "foreground_weight"):
            if not getattr(self, name) > 0:
                flag = f"--{name.replace('_', '-')}"
                raise ValueError(f"{flag} is {getattr(self, name)}; it must be more than 0.")
        if not 0 <= self.warp < 0.5:
            raise ValueError(f"--warp is {self.warp}; it must be at least 0 and less than 0.5.")
