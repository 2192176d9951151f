"""What samples and predictions of this task look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..engine.types import Run

ROWS, COLUMNS = 4, 8


# TODO(8): a picture of some training examples; a grid of images with their labels.
def draw_samples(datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples."""
    images, labels = datasets["train"]
    _draw_grid(images, [str(label) for label in labels[: ROWS * COLUMNS]], file)


# TODO(15): a picture of some predictions; a grid of test images, what the model takes them for and,
# where it is wrong, what they are.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first test examples with the model's answers."""
    images, labels = (array[: ROWS * COLUMNS] for array in datasets["test"])
    answers = np.argmax(run.model(images, training=False), axis=-1)
    titles = [str(a) if a == b else f"{a}, not {b}" for a, b in zip(answers, labels, strict=True)]
    _draw_grid(images, titles, file)


def _draw_grid(images: np.ndarray, titles: list[str], file: Path) -> None:
    figure = Figure(figsize=(COLUMNS, ROWS * 1.2), layout="constrained")
    cells = figure.subplots(ROWS, COLUMNS, squeeze=False).flatten()
    for cell, image, title in zip(cells, images, titles, strict=False):
        cell.imshow(image[..., 0], cmap="gray_r")
        cell.set_title(title, fontsize=9, color="firebrick" if "not" in title else "black")
    for cell in cells:
        cell.axis("off")
    figure.savefig(file, dpi=110)
