"""What the pictures of several tasks share: many images as one, and how a figure is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import matplotlib
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes

from .files import replace_picture
from .model_inputs import taken_by

PART = 32  # examples that are predicted at once; a step may not have had memory for many more

matplotlib.use("Agg")  # pictures go to files, also where there is no display


def drawn_split(datasets: dict[str, Any]) -> str:
    """The split whose predictions are drawn: "test", without it "validation", else "train"."""
    return next(n for n in ("test", "validation", "train") if datasets.get(n) is not None)


def draw_images(
    axes: Axes, images: np.ndarray, columns: int, captions: Sequence[str] = (), **options: Any
) -> None:
    """Draw images in rows of `columns`, each above its caption.

    As a single picture: axes of its own for every image would take ten times as long.

    Args:
        axes: where to draw; they lose ticks and frame.
        images: (n, h, w), (n, h, w, 1) or colors (n, h, w, 3); n may be 0.
        columns: images in a row.
        captions: texts of the images, or none.
        options: of `imshow`, such as cmap, vmin and vmax.
    """
    images = images[..., 0] if images.ndim == 4 and images.shape[-1] == 1 else images
    number, height, width, *colors = images.shape
    rows, gap = max(1, -(-number // columns)), max(1, height // 10)
    below = gap + height // 3 if captions else gap
    shape = rows * columns, height + below, width + gap, *colors
    cells = np.full(shape, 1.0 if colors else np.nan)  # white; NaN is transparent
    cells[:number, :height, :width] = images
    cells = cells.reshape(rows, columns, *cells.shape[1:]).swapaxes(1, 2)
    picture = cells.reshape(rows * (height + below), columns * (width + gap), *colors)
    axes.imshow(picture, interpolation="nearest", **options)
    for i, caption in enumerate(captions[:number]):
        row, column = divmod(i, columns)
        center, foot = column * (width + gap) + width / 2, row * (height + below) + height
        axes.text(center - 0.5, foot - 0.5 + gap / 2, caption, ha="center", va="top", fontsize=8)
    axes.axis("off")
    axes.set_anchor("N")


def predict_in_parts(model: keras.Model, inputs: Any) -> Any:
    """A model's outputs for a nest of arrays (n, ...), without those of all in memory at once.

    Not `model.predict`, which on several workers would wait for those that draw nothing.
    """
    inputs = taken_by(model, inputs)
    number = len(tf.nest.flatten(inputs)[0])
    parts = [
        model(tf.nest.map_structure(lambda a, i=i: a[i : i + PART], inputs), training=False)
        for i in range(0, number, PART)
    ]
    return tf.nest.map_structure(lambda *outputs: np.concatenate(outputs), *parts)


save = replace_picture  # the name that task/pictures.py uses
