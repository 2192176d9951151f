"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .next_todo import TodoError


# TODO(4): what your model takes from the training data (`adapt`), and the model, or a dict of
# models, built from a keras.Input.
def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data. Steps find
    them in `run.adapted`.
    """
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs (batch, ...) -> predictions (batch, ...).

    Give the last layer dtype=keras.config.floatx(): losses need full precision with --precision
    float16 and bfloat16, too. For `export`, decorate layers of your own with
    @keras.saving.register_keras_serializable(), and begin with keras.Input: a subclass of
    keras.Model can't be exported.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    raise TodoError(
        4,
        "create_model in task/model.py must return a model that is built, such as "
        "keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])",
    )
