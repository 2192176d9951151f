"""The model."""

from __future__ import annotations

from typing import Any

import keras

from ..engine.errors import TodoError
from .config import TaskConfig


# TODO(4): your model, built with a keras.Input, or several by name.
def create_model(task: TaskConfig, datasets: dict[str, Any]) -> keras.Model:
    """Inputs (batch, ...) -> predictions (batch, ...).

    Args:
        task: the knobs.
        datasets: what create_datasets returned, for shapes and for layers that adapt to data.
    """
    raise TodoError(
        4,
        "create_model in task/model.py must return a model that is built, such as "
        "keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])",
    )
