"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..engine.types import Run
from .data import numeric_columns

ROWS, COLUMNS = 3, 3


# TODO(8): a picture of some training examples; the label against each numeric column.
def draw_samples(datasets: dict[str, Any], file: Path) -> None:
    """Draw all training examples, and the fraction of missing values in each column."""
    inputs, labels, _ = datasets["train"]
    figure = Figure(figsize=(COLUMNS * 3, ROWS * 2.4), layout="constrained")
    cells = figure.subplots(ROWS, COLUMNS, sharey=True).flatten()
    for cell, name, values in zip(cells, numeric_columns(), inputs["numeric"].T, strict=True):
        for sex in np.unique(inputs["sex"]):
            rows = inputs["sex"] == sex
            cell.plot(values[rows], labels[rows, 0], ".", alpha=0.6, label=f"sex {sex}")
        cell.set_title(f"{name}, {np.isnan(values).mean():.0%} missing", fontsize=9)
    cells[0].legend(fontsize=8)
    figure.supylabel("progression of the disease")
    figure.savefig(file, dpi=110)


# TODO(15): a picture of some predictions; the predictions for the test data against the labels.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw what the model predicts for each test example against the label."""
    inputs, labels = datasets["test"]
    predictions = np.asarray(run.model(inputs, training=False))
    ends = [labels.min(), labels.max()]
    figure = Figure(figsize=(4.5, 4.5), layout="constrained")
    axes = figure.subplots()
    axes.plot(ends, ends, color="0.6")
    axes.plot(labels, predictions, ".")
    error = np.abs(predictions - labels).mean()
    axes.set(xlabel="measured", ylabel="predicted", title=f"mean absolute error {error:.1f}")
    axes.set_aspect("equal")
    figure.savefig(file, dpi=110)
