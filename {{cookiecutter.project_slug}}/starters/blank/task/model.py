"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .next_todo import TodoError


# TODO(4): the model, built from a keras.Input, or a dict of several by name, and what it needs to
# know of the data, such as input shape, number of classes, mean and variance, vocabulary.
def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays by name, computed when a run starts and saved with it."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs (batch, ...) -> predictions (batch, ...).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    raise TodoError(
        4,
        "create_model in task/model.py must return a model that is built, such as "
        "keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])",
    )
