"""The models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig


# TODO(4): what your model takes from the training data (`adapt`), and the model, or a dict of
# models, built from a keras.Input; default: the shape of an image, and two small CNNs.
def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    return {"shape": first_examples(datasets["train"], 1).shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """The generator and the discriminator.

    The generator maps latents float (batch, latent) to images float32 (batch, h, w, 1) in [0, 1],
    the discriminator maps images to logits float32 (batch, 1), high for real images.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    height, width, channels = map(int, adapted["shape"])
    return {
        "generator": _create_generator(task, height, width, channels),
        "discriminator": _create_discriminator(task, height, width, channels),
    }


def _create_generator(task: TaskConfig, height: int, width: int, channels: int) -> keras.Model:
    layers = keras.layers
    latents = keras.Input((task.latent,), name="latents")
    x = layers.Dense(height // 2 * (width // 2) * 64, activation="leaky_relu")(latents)
    x = layers.Reshape((height // 2, width // 2, 64))(x)
    x = layers.Conv2DTranspose(32, 4, strides=2, padding="same", activation="leaky_relu")(x)
    # Full precision even under --precision float16, like the real images.
    floatx = keras.config.floatx()
    last = layers.Conv2D(channels, 3, padding="same", activation="sigmoid", dtype=floatx)
    return keras.Model(latents, last(x), name="generator")  # (batch, h, w, channels)


def _create_discriminator(task: TaskConfig, height: int, width: int, channels: int) -> keras.Model:
    layers = keras.layers
    images = keras.Input((height, width, channels), name="images")
    x = images
    for filters in (32, 64):
        x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)
        x = layers.Dropout(task.dropout)(x)
        x = layers.Activation("leaky_relu")(x)  # (batch, h/2, w/2, filters), then (batch, h/4, ...)
    x = layers.Flatten()(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits, name="discriminator")
