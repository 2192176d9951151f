"""Examples that are alike, and whether their labels are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOST = 600  # rows of a split


class Points(NamedTuple):
    """Some rows of a split.

    Attributes:
        inputs: float (rows, features).
        labels: (rows,), numbers of classes or real numbers.
    """

    inputs: np.ndarray
    labels: np.ndarray


def points(arrays: dict[str, np.ndarray]) -> Points | None:
    """Some rows with one numeric input and one label each; None if the split has others."""
    names = [n for n in arrays if not n.startswith("weights")]
    if names != ["inputs", "labels"] or arrays["inputs"].dtype.kind not in "fiu":
        return None
    inputs, labels = arrays["inputs"], arrays["labels"]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "fiu" or len(np.unique(labels)) < 2:
        return None
    rows = np.random.default_rng(0).permutation(len(labels))[:MOST]
    flat = np.asarray(inputs[rows], "f8").reshape(len(rows), -1)
    kept = np.isfinite(flat).all(axis=1) & np.isfinite(np.asarray(labels[rows], "f8"))
    if labels.dtype.kind == "i":
        kept &= labels[rows] >= 0  # as -1 marks examples without a label
    return Points(flat[kept], labels[rows][kept])


def agreement(of: Points, among: Points) -> float:
    """How often the nearest other row has the same label: 1 always, 0 as by chance.

    For real numbers the correlation with the label of the nearest row.
    """
    squares = (of.inputs**2).sum(1)[:, None] + (among.inputs**2).sum(1)[None]
    distances = squares - 2 * of.inputs @ among.inputs.T
    if of is among:
        np.fill_diagonal(distances, np.inf)
    nearest = among.labels[distances.argmin(axis=1)]
    if of.labels.dtype.kind == "f":
        spread = of.labels.std() * nearest.std()
        return float(np.corrcoef(of.labels, nearest)[0, 1]) if spread else 0.0
    classes = np.unique(np.concatenate([of.labels, among.labels]))
    shares = [np.mean(of.labels == c) * np.mean(among.labels == c) for c in classes]
    chance = float(np.sum(shares))
    return (float(np.mean(of.labels == nearest)) - chance) / max(1e-9, 1 - chance)
