"""What `predict` can read beside .npy and .npz files, and what it writes of each prediction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..engine.errors import UsageError
from .data import CLASSES


def read_image(file: Path, model: keras.Model) -> np.ndarray:
    """A picture as float32 (1, h, w, 1) in [0, 1] of the model's size: bright strokes on dark.

    Raises:
        UsageError: it is no picture, or not a whole one.
    """
    size = model.input_shape[1:3]
    try:
        image = keras.utils.load_img(file, "grayscale", size, interpolation="bilinear")
    except OSError as error:  # whose text names no file (Keras 3.15)
        raise UsageError(f"{file} is not an image, or not a whole one.") from error
    return keras.utils.img_to_array(image, dtype="float32")[np.newaxis] / 255


# Functions (file, model) -> inputs with a row per example, as the model takes them, by file suffix.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {
    ".png": read_image,
    ".jpg": read_image,
    ".jpeg": read_image,
}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table, with a row per example: (n,), (n, k), or images for the page."""
    labels = np.argmax(outputs, axis=-1)  # (n, h, w)
    return {
        "pixels": np.stack([(labels == c).sum(axis=(1, 2)) for c in range(CLASSES)], axis=1),
        "labels": labels[..., np.newaxis] / (CLASSES - 1),
    }
