"""The knobs of the task. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass


# TODO(1): the knobs of your task; every field becomes a flag of train.py.
@dataclass(frozen=True)
class TaskConfig:
    """Generative adversarial network."""

    latent: int = 32  # random numbers that an image is made of
    passes: int = 4  # how often each digit comes in an epoch
    learning_rate: float = 1e-3  # of both models, at the start; falls to zero along a cosine
    dropout: float = 0.3  # fraction of the discriminator's features left out in training
    monitor: str = "validation_frechet"  # the number of history.csv that tells the best weights
    larger_is_better: bool = False  # its direction

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        for name in ("latent", "passes"):
            if getattr(self, name) < 1:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be at least 1.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
