"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the settings of your task, each a flag of train.py; default: those of this starter.
@dataclass(frozen=True)
class TaskConfig:
    """Semantic segmentation."""

    learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine
    width: int = 12  # channels at full resolution; each of the three levels below doubles them
    foreground_weight: float = 2.0  # weight of a digit's pixel in the loss; the background's is 1
    warp: float = 0.15  # largest random rotation, shear and scaling in training; 0 disables
    monitor: str = "validation_mean_iou"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("learning_rate", "width", "foreground_weight"):
            if not getattr(self, name) > 0:
                flag = f"--{name.replace('_', '-')}"
                raise ValueError(f"{flag} is {getattr(self, name)}; it must be more than 0.")
        if not 0 <= self.warp < 0.5:
            raise ValueError(f"--warp is {self.warp}; it must be at least 0 and less than 0.5.")
