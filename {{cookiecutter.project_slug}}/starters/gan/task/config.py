"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the settings of your task, each a flag of train.py; default: those of this starter.
@dataclass(frozen=True)
class TaskConfig:
    """Generative adversarial network."""

    latent: int = 32  # random numbers from which an image is generated
    passes: int = 4  # how often an epoch shows each training image
    learning_rate: float = 1e-3  # learning rate of both models at the start; decays to 0
    dropout: float = 0.3  # fraction of the discriminator's features that training drops; 0 disables
    monitor: str = "validation_frechet"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("latent", "passes"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be at least 1.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
