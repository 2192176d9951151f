"""Pictures of training examples and of predictions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..engine.batches import first_examples
from ..engine.pictures import drawn_split, predict_in_parts, save
from ..engine.types import Run
from .data import CATEGORY, MEANINGS, NUMERIC

ROWS, COLUMNS = 3, 3
MAX_EXAMPLES = 1_000  # the pictures and their numbers are of at most so many
PERMUTATIONS = 20  # of a column's values
LABEL = "progression after one year (points)"


# TODO(8): a picture of some training examples; default: the label against each
# numeric column.
def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples, and the fraction of missing values in each column."""
    inputs, labels, *_ = first_examples(datasets["train"], MAX_EXAMPLES)
    figure = Figure(figsize=(COLUMNS * 3.2, ROWS * 2.4), layout="constrained")
    cells = figure.subplots(ROWS, COLUMNS, sharey=True).flatten()
    styles = ({"marker": "x", "color": "#d55e00"}, {"marker": ".", "color": "#003366"})
    for cell, name, values in zip(cells, NUMERIC, inputs["numeric"].T, strict=True):
        for sex, style in zip(np.unique(inputs["sex"]), styles, strict=False):
            rows = inputs["sex"] == sex
            label = f"{CATEGORY} {sex}"
            cell.plot(values[rows], labels[rows, 0], ls="", ms=4, alpha=0.7, label=label, **style)
        cell.set_title(f"{np.isnan(values).mean():.0%} missing", fontsize=8, loc="right")
        cell.set_xlabel(MEANINGS[name], fontsize=9)
    cells[0].legend(fontsize=8)
    figure.supylabel(LABEL)
    save(figure, file)


# TODO(15): a picture of some predictions; default: predictions against labels, residuals, and the
# importance of each column.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw predictions for the first test examples (else validation, else training)."""
    split = drawn_split(datasets)
    inputs, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)
    labels = labels[:, 0]

    def predict(inputs: dict[str, np.ndarray]) -> np.ndarray:
        return predict_in_parts(run.model, inputs)[:, 0]

    predictions = predict(inputs)
    residuals = labels - predictions
    figure = Figure(figsize=(11, 8.5), layout="constrained")
    rows: Any = figure.subfigures(2, 1)
    by_label, by_prediction = rows[0].subplots(1, 2)
    histogram, importance = rows[1].subplots(1, 2)
    mean_error = np.abs(labels - labels.mean()).mean()
    figure.suptitle(
        f"mean absolute error {np.abs(residuals).mean():.1f} points on {len(labels)} {split} "
        f"examples ({mean_error:.1f} if their mean were predicted)"
    )
    _draw_predicted(by_label, labels, predictions)
    by_prediction.plot(predictions, residuals, ".", color="#1f4e9c")
    by_prediction.axhline(0, color="0.5")
    by_prediction.set(xlabel="predicted (points)", ylabel="measured - predicted (points)")
    by_prediction.set_title("residuals: any pattern is something left to learn")
    histogram.hist(residuals[np.isfinite(residuals)], 20, color="#9ab8e0", edgecolor="white")
    histogram.axvline(0, color="0.5")
    histogram.axvline(
        residuals.mean(), color="black", ls="--", label=f"mean {residuals.mean():.1f}"
    )
    histogram.set(xlabel="measured - predicted (points)", ylabel="examples")
    histogram.set_title(f"residuals: standard deviation {residuals.std():.1f}")
    histogram.legend()
    _draw_importance(importance, permutation_importance(predict, inputs, labels))
    save(figure, file)


def permutation_importance(
    predict: Callable[[dict[str, np.ndarray]], np.ndarray],
    inputs: dict[str, np.ndarray],
    labels: np.ndarray,
) -> dict[str, np.ndarray]:
    """How much larger the mean absolute error is if a column's values change places between rows.

    Args:
        predict: inputs -> predictions (n,).
        inputs: {"numeric": float (n, columns), "sex": int (n,)}.
        labels: float (n,).

    Returns:
        By column, float (PERMUTATIONS,): one number for each order of its values.
    """
    random = np.random.default_rng(0)
    error = np.abs(predict(inputs) - labels).mean()
    orders = np.stack([random.permutation(len(labels)) for _ in range(PERMUTATIONS)])
    copies = {name: np.concatenate([values] * PERMUTATIONS) for name, values in inputs.items()}
    found = {}
    for i, name in enumerate((*NUMERIC, CATEGORY)):
        changed = {"numeric": copies["numeric"].copy(), CATEGORY: copies[CATEGORY]}
        if name == CATEGORY:
            changed[CATEGORY] = inputs[CATEGORY][orders].flatten()
        else:
            changed["numeric"][:, i] = inputs["numeric"][orders, i].flatten()
        errors = np.abs(predict(changed).reshape(orders.shape) - labels)  # (PERMUTATIONS, n)
        found[name] = errors.mean(axis=1) - error
    return found


def _draw_predicted(axes: Axes, labels: np.ndarray, predictions: np.ndarray) -> None:
    ends = [labels.min(), labels.max()]
    axes.plot(ends, ends, color="0.5", label="perfect")
    axes.plot(labels, predictions, ".", color="#1f4e9c")
    axes.set(xlabel=f"measured: {LABEL}", ylabel="predicted (points)", title="predictions")
    axes.legend()


def _draw_importance(axes: Axes, found: dict[str, np.ndarray]) -> None:
    names = sorted(found, key=lambda name: found[name].mean())
    means, deviations = ([f(found[n]) for n in names] for f in (np.mean, np.std))
    axes.barh([MEANINGS[n] for n in names], means, xerr=deviations, color="#9ab8e0", capsize=2)
    axes.axvline(0, color="0.5")
    axes.set_xlabel("points that the mean absolute error grows by")
    axes.set_title("a column's values shuffled over the rows")
