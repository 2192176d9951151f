"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..engine.batches import first_batch, first_examples
from ..engine.pictures import draw_images, drawn_split, predict_in_parts, save
from ..engine.types import Run
from .data import CLASSES, IGNORED, create_augment

COLUMNS = 8
MAX_EXAMPLES = 200  # the picture and its numbers are of at most so many

# Lightness (CIE L*, from 0 to 100) differs by 7 or more, so that gray keeps them apart; neighbors
# in lightness differ in hue, also for the color-blind.
BACKGROUND, OUTSIDE = "#ffffff", "#e4e4e4"  # outside: of ignored pixels
DIGITS = (
    *("#011257", "#063326", "#732100", "#851f92", "#606906"),
    *("#2c72ea", "#f5488e", "#de8f1a", "#fe9c89", "#f7b6fc"),
)
MISTAKES = {"missed": DIGITS[7], "invented": DIGITS[3], "another digit": "#000000"}


# TODO(8): a picture of some training examples; default: images above their labels,
# and as augmented.
def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples, and the same augmented."""
    batch = first_batch(datasets["train"], COLUMNS)
    images, labels, _ = map(np.asarray, batch)
    rows = {"image": _gray(images), "labels": color(labels)}
    if augment := create_augment(run.task):
        images, labels, _ = map(np.asarray, augment(batch, tf.zeros(2, tf.int64)))
        rows |= {"augmented": _gray(images), "its labels": color(labels)}
    figure = Figure(figsize=(9, 1.1 * len(rows) + 0.5), layout="constrained")
    _draw_rows(dict(zip(rows, np.atleast_1d(figure.subplots(len(rows))), strict=True)), rows)
    save(figure, file)


# TODO(15): a picture of some predictions; default: images from the best to the worst with what is
# wrong in them, and the intersection over union of each class.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw predictions for the first test examples (else validation, else training)."""
    split = drawn_split(datasets)
    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)
    predicted = predict_in_parts(run.model, images).argmax(axis=-1)
    kinds = mistakes(labels, predicted)
    wrong = (kinds > 0).mean(axis=(1, 2))  # (n,)
    ranks = np.linspace(0, 1, COLUMNS) ** 0.5  # more of the bad ones
    chosen = np.argsort(wrong)[(ranks * (len(wrong) - 1)).round().astype(int)]
    palette = np.array(list(map(to_rgb, (BACKGROUND, *MISTAKES.values(), OUTSIDE))))
    rows = {
        "image": _gray(images[chosen]),
        "labels": color(labels[chosen]),
        "predicted": color(predicted[chosen]),
        "mistakes": palette[np.where(labels == IGNORED, -1, kinds)[chosen]],
    }
    figure = Figure(figsize=(12, 5.6), layout="constrained")
    places: list[Any] = [[name, "iou"] for name in rows]
    axes = figure.subplot_mosaic(places, width_ratios=[4, 1])
    figure.suptitle(
        f"{wrong.mean():.1%} of the pixels of {len(labels)} {split} images are wrong; "
        f"from the best image ({wrong.min():.1%}) to the worst ({wrong.max():.1%}):"
    )
    _draw_rows(axes, rows)
    keys = [Patch(color=color, label=kind) for kind, color in MISTAKES.items()]
    axes["mistakes"].legend(handles=keys, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3)
    _draw_iou(axes["iou"], iou_per_class(labels, predicted))
    save(figure, file)


def mistakes(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """What is wrong with each pixel: 0 nothing, or it is ignored; 1, 2, 3 as in MISTAKES."""
    is_wrong = (labels != predicted) & (labels != IGNORED)
    return np.where(predicted == 0, 1, np.where(labels == 0, 2, 3)) * is_wrong


def iou_per_class(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Intersection over union, float (classes,), of all pixels; NaN for a class without any."""
    counted = labels != IGNORED
    pairs = CLASSES * labels[counted] + predicted[counted]
    counts = np.bincount(pairs, minlength=CLASSES**2).reshape(CLASSES, CLASSES)
    union = counts.sum(axis=0) + counts.sum(axis=1) - counts.diagonal()
    return np.where(union, counts.diagonal() / np.maximum(union, 1), np.nan)


def color(labels: np.ndarray) -> np.ndarray:
    """Labels int (n, h, w) -> colors float (n, h, w, 3)."""
    palette = np.full((IGNORED + 1, 3), to_rgb(OUTSIDE))
    palette[:CLASSES] = list(map(to_rgb, (BACKGROUND, *DIGITS)))
    return palette[labels]


def _gray(images: np.ndarray) -> np.ndarray:
    """Images (n, h, w, 1) in [0, 1] -> colors (n, h, w, 3), ink black."""
    return np.clip(1 - np.repeat(images, 3, axis=-1), 0, 1)


def _draw_rows(axes: dict[str, Axes], rows: dict[str, np.ndarray]) -> None:
    for name, pictures in rows.items():
        draw_images(axes[name], pictures, COLUMNS)
        axes[name].text(-2, pictures.shape[1] / 2, name, ha="right", va="center")
    keys = [Patch(color=shade, label=str(digit)) for digit, shade in enumerate(DIGITS)]
    for shade, name in ((BACKGROUND, "background"), (OUTSIDE, "ignored")):
        keys.append(Patch(facecolor=shade, edgecolor="0.5", label=name))
    figure = next(iter(axes.values())).figure
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), columnspacing=1)


def _draw_iou(axes: Axes, scores: np.ndarray) -> None:
    names = ["background", *map(str, range(CLASSES - 1))]
    axes.barh(names, scores, color=(BACKGROUND, *DIGITS), edgecolor="0.5")
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    for i, score in enumerate(scores):
        axes.text(0.03, i, f"{score:.2f}", va="center", fontsize=8, bbox=box)
    axes.invert_yaxis()
    axes.set(xlim=(0, 1), title=f"mean IoU {np.nanmean(scores):.3f}")
