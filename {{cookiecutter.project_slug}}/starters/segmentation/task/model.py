"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig
from .data import CLASSES

LEVELS = 3  # below full resolution; at the lowest, a pixel sees the whole canvas


# TODO(4): what your model takes from the training data (`adapt`), and the model, or a dict of
# models, built from a keras.Input; default: the shape of an image, and
# a U-Net (Ronneberger et al., 2015) whose batch normalization the engine synchronizes over all
# replicas.
def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, h, w, classes).

    Decorate layers of your own with @keras.saving.register_keras_serializable(), for `export`.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    images = keras.Input(adapted["shape"], name="images")
    x, skipped = images, []
    for level in range(LEVELS):
        x = _convolve_twice(x, task.width * 2**level)
        skipped.append(x)
        x = layers.AveragePooling2D(2)(x)
    x = _convolve_twice(x, task.width * 2**LEVELS)  # (batch, h/8, w/8, 8 width)
    for level in reversed(range(LEVELS)):
        x = layers.Concatenate()([layers.UpSampling2D()(x), skipped[level]])
        x = _convolve_twice(x, task.width * 2**level)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)


def _convolve_twice(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    # Neither ReLU, max pooling nor the default epsilon: on nearly empty canvases many values lie at
    # the kinks of the first two, and the last magnifies values close to 0. Rounding alone, which
    # differs with the number of replicas, would then move float32 gradients by 2%.
    for _ in range(2):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="swish")(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)
    return x
