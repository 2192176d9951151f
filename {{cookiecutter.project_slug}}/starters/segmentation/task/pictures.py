"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..engine.batches import first_examples
from ..engine.types import Run
from .data import CLASSES, IGNORED

COLUMNS = 8
COLORS = colormaps["Paired"](range(CLASSES - 1))[:, :3]  # of the digits; none of them is gray


# TODO(8): a picture of some training examples; images above their labels.
def draw_samples(datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples."""
    images, labels, *_ = first_examples(datasets["train"], COLUMNS)
    _draw_rows({"image": images, "labels": _color(labels)}, file)


# TODO(15): a picture of some predictions; test images, their labels and the predicted ones.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first test examples and what the model predicts for them."""
    images, labels, *_ = first_examples(datasets["test"], COLUMNS)
    predictions = np.argmax(run.model(images, training=False), axis=-1)
    rows = {"image": images, "labels": _color(labels), "predictions": _color(predictions)}
    _draw_rows(rows, file)


def _color(labels: np.ndarray) -> np.ndarray:
    """Labels int (n, h, w) -> colors float (n, h, w, 3): white background, gray if ignored."""
    palette = np.full((IGNORED + 1, 3), 0.8)
    palette[0] = 1
    palette[1:CLASSES] = COLORS
    return palette[labels]


def _draw_rows(rows: dict[str, np.ndarray], file: Path) -> None:
    figure = Figure(figsize=(COLUMNS * 1.3, len(rows) * 1.3 + 0.4), layout="constrained")
    grid = figure.subplots(len(rows), COLUMNS)
    for cells, (name, pictures) in zip(grid, rows.items(), strict=True):
        cells[0].set_ylabel(name)
        for cell, picture in zip(cells, pictures, strict=False):
            cell.imshow(picture, cmap="gray_r", vmin=0, vmax=1)
            cell.set(xticks=[], yticks=[])
    keys = [Patch(color=color, label=str(digit)) for digit, color in enumerate(COLORS)]
    keys.append(Patch(color="0.8", label="ignored"))
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False)
    figure.savefig(file, dpi=110)
