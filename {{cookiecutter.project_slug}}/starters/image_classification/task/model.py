"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig

CLASSES = 10


# TODO(4): what your model takes from the training data (`adapt`), and the model, or a dict of
# models, built from a keras.Input; default: the shape of an image, and a small CNN for gray
# images.
def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes).

    Decorate layers of your own with @keras.saving.register_keras_serializable(), for `export`.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input(adapted["shape"], name="images")
    x = images
    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)  # per example, so replicas needn't exchange statistics
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)
    x = layers.Flatten()(x)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(task.dropout)(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
