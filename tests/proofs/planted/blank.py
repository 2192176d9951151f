"""Files of the blank starter that several tasks fill in alike."""

from __future__ import annotations

CALLBACKS = '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None."""
    return []
'''

OPTIMIZER_FILE = '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam with a cosine schedule."""
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """As they are."""
    return gradients
'''

PICTURES = '''"""Pictures of training examples and of predictions: none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
'''
