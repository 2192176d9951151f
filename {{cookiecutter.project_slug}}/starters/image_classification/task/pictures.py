"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..engine.batches import first_examples
from ..engine.types import Run

ROWS, COLUMNS = 4, 8


# TODO(8): a picture of some training examples; a grid of images with their labels.
def draw_samples(datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples."""
    images, labels, *_ = first_examples(datasets["train"], ROWS * COLUMNS)
    _draw_grid(images, labels, labels, file)


# TODO(15): a picture of some predictions; a grid of test images with the predicted class, in red
# with the right one where they differ.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first test examples and what the model predicts for them."""
    images, labels, *_ = first_examples(datasets["test"], ROWS * COLUMNS)
    predictions = np.argmax(run.model(images, training=False), axis=-1)
    _draw_grid(images, labels, predictions, file)


def _draw_grid(images: np.ndarray, labels: np.ndarray, shown: np.ndarray, file: Path) -> None:
    figure = Figure(figsize=(COLUMNS, ROWS * 1.2), layout="constrained")
    cells = figure.subplots(ROWS, COLUMNS).flatten()
    for cell in cells:
        cell.axis("off")
    for cell, image, right, title in zip(cells, images, labels, shown, strict=False):
        cell.imshow(image[..., 0], cmap="gray_r")
        if title == right:
            cell.set_title(title, fontsize=9)
        else:
            cell.set_title(f"{title}, not {right}", fontsize=9, color="firebrick")
    figure.savefig(file, dpi=110)
