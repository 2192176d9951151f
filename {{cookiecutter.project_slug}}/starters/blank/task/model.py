"""The model."""

from __future__ import annotations

from typing import Any

import keras

from .config import TaskConfig
from .next_todo import TodoError


# TODO(4): your model, built from a keras.Input, or a dict of several by name.
def create_model(task: TaskConfig, datasets: dict[str, Any]) -> keras.Model:
    """Inputs (batch, ...) -> predictions (batch, ...).

    Args:
        task: the flags of the task.
        datasets: what `create_datasets` returns, for input shapes and layers that adapt to data.
    """
    raise TodoError(
        4,
        "create_model in task/model.py must return a model that is built, such as "
        "keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])",
    )
