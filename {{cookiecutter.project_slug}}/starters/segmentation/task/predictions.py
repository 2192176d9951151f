"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..engine.errors import UsageError
from .data import CLASSES


def read_image(file: Path, model: keras.Model) -> np.ndarray:
    """A picture, bright strokes on dark, as float32 (1, h, w, 1) in [0, 1] of the model's size.

    Raises:
        UsageError: the file is not a complete image.
    """
    size = model.input_shape[1:3]
    try:
        image = keras.utils.load_img(file, "grayscale", size, interpolation="bilinear")
    except OSError as error:  # its message doesn't name the file (Keras 3.15)
        raise UsageError(f"{file} is not an image, or not a whole one.") from error
    white = 65535 if image.mode.startswith("I") else 255  # a gray .png may have 16 bits
    return keras.utils.img_to_array(image, dtype="float32")[np.newaxis] / white


# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {
    ".png": read_image,
    ".jpg": read_image,
    ".jpeg": read_image,
}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    labels = np.argmax(outputs, axis=-1)  # (n, h, w)
    return {
        "pixels": np.stack([(labels == c).sum(axis=(1, 2)) for c in range(CLASSES)], axis=1),
        "labels": labels[..., np.newaxis] / (CLASSES - 1),
    }
