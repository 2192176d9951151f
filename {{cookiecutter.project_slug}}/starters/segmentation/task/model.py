"""The model."""

from __future__ import annotations

from typing import Any

import keras

from .config import TaskConfig
from .data import CLASSES

LEVELS = 3  # below full resolution: the lowest sees the whole canvas


# TODO(4): your model, built with a keras.Input, or several by name; a U-Net (Ronneberger et al.,
# 2015) with batch normalization, which the engine makes span all replicas.
def create_model(task: TaskConfig, datasets: dict[str, Any]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, h, w, classes).

    Args:
        task: the knobs.
        datasets: what create_datasets returned, for shapes and for layers that adapt to data.
    """
    layers = keras.layers
    images = keras.Input(datasets["train"][0].shape[1:], name="images")
    x, skipped = images, []
    for level in range(LEVELS):
        x = _convolve_twice(x, task.width * 2**level)
        skipped.append(x)
        x = layers.AveragePooling2D(2)(x)
    x = _convolve_twice(x, task.width * 2**LEVELS)  # (batch, h/8, w/8, 8 width)
    for level in reversed(range(LEVELS)):
        x = layers.Concatenate()([layers.UpSampling2D()(x), skipped[level]])
        x = _convolve_twice(x, task.width * 2**level)
    # Logits stay float32 under mixed precision, or the loss would overflow.
    logits = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)


def _convolve_twice(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    # On canvases that are nearly empty, ReLU and maxima have kinks where many pixels lie, and the
    # default epsilon magnifies what is small: rounding alone, thus another number of replicas,
    # would move the gradients by 2% in float32.
    for _ in range(2):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="swish")(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)
    return x
