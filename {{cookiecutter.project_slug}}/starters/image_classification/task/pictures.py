"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..engine.batches import first_batch, first_examples
from ..engine.pictures import draw_images, drawn_split, predict_in_parts, save
from ..engine.types import Run
from .data import create_augment

ROWS, COLUMNS = 4, 8
VERSIONS = 5  # augmented versions drawn of an image
MAX_EXAMPLES = 1_000  # that the picture and its numbers are of, at most
INK: dict[str, Any] = {"cmap": "gray_r", "vmin": 0, "vmax": 1}
MAX_CLASSES = 20  # with more, the counts in the confusion matrix can't be read


# TODO(8): a picture of some training examples; default: images, labels, and some as augmented.
def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples, and some of them augmented."""
    batch = first_batch(datasets["train"], ROWS * COLUMNS)
    images, labels, _ = map(np.asarray, batch)
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[COLUMNS, 1 + VERSIONS])
    left.set_title("training images and their labels")
    draw_images(left, images, COLUMNS, list(map(str, labels)), **INK)
    right.set_axis_off()
    if augment := create_augment(run.task):
        some = tuple(part[:ROWS] for part in batch)
        seeds = tf.constant([[0, i] for i in range(VERSIONS)], tf.int64)
        versions = [some[0], *(augment(some, seed)[0] for seed in seeds)]
        right.set_title("an image, and as augmented in training")
        draw_images(right, np.concatenate(np.stack(versions, axis=1)), 1 + VERSIONS, **INK)
    save(figure, file)


# TODO(15): a picture of some predictions; default: the confusion matrix, a histogram of the
# confidence, and the most confident mistakes.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw predictions for the first test examples (else validation, else training)."""
    split = drawn_split(datasets)
    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)
    probabilities = np.asarray(keras.ops.softmax(predict_in_parts(run.model, images)))
    predicted = probabilities.argmax(axis=-1)
    confidence = np.nan_to_num(probabilities.max(axis=-1))  # NaN counts as none
    is_right = predicted == labels
    figure = Figure(figsize=(10, 8), layout="constrained")
    places: list[Any] = [["confusion", "confidence"], ["mistakes", "mistakes"]]
    axes = figure.subplot_mosaic(places, height_ratios=[3, 2])
    figure.suptitle(f"accuracy {is_right.mean():.1%} on {len(labels):,} {split} images")
    _draw_confusion(axes["confusion"], confusion(labels, predicted, probabilities.shape[-1]))
    _draw_confidence(axes["confidence"], confidence, is_right)
    chosen = order_of_interest(confidence, is_right)[: 2 * COLUMNS]
    captions = [
        f"{predicted[i]}, {confidence[i]:.0%}" + ("" if is_right[i] else f"\nnot {labels[i]}")
        for i in chosen
    ]
    axes["mistakes"].set_title(
        f"{(~is_right).sum()} mistakes, the most confident first; then right ones, least confident"
    )
    draw_images(axes["mistakes"], images[chosen], COLUMNS, captions, **INK)
    save(figure, file)


def confusion(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """The confusion matrix, int (classes, classes): rows are labels, columns predictions."""
    counts = np.zeros((classes, classes), int)
    np.add.at(counts, (labels, predicted), 1)
    return counts


def order_of_interest(confidence: np.ndarray, is_right: np.ndarray) -> np.ndarray:
    """The order, int (n,), in which to look at all predictions.

    Mistakes come first, the most confident one before others; then right ones, the least confident
    one before others.

    Args:
        confidence: float (n,), the probability of what was predicted.
        is_right: bool (n,).
    """
    return np.lexsort((np.where(is_right, confidence, -confidence), is_right))


def _draw_confusion(axes: Axes, counts: np.ndarray) -> None:
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axes.set(xlabel="predicted", ylabel="label", title="confusion matrix")
    if len(counts) > MAX_CLASSES:
        return
    axes.set(xticks=range(len(counts)), yticks=range(len(counts)))
    for (label, predicted), count in np.ndenumerate(counts):
        color = "white" if shares[label, predicted] > 0.5 else "black"
        if count:
            axes.text(predicted, label, count, ha="center", va="center", color=color, fontsize=8)


def _draw_confidence(axes: Axes, confidence: np.ndarray, is_right: np.ndarray) -> None:
    bins = np.linspace(0, 1, 21).tolist()
    axes.hist(confidence[is_right], bins, color="lightsteelblue", label="right", log=True)
    wrong: dict[str, Any] = {"facecolor": "none", "edgecolor": "black", "hatch": "////"}
    axes.hist(confidence[~is_right], bins, label="wrong", log=True, histtype="stepfilled", **wrong)
    axes.axvline(confidence.mean(), color="black", linestyle=":", label="mean confidence")
    axes.axvline(is_right.mean(), color="black", label="accuracy")
    axes.set(xlabel="confidence", ylabel="images", ylim=(0.5, None))
    axes.set_title("confidence in the prediction")
    axes.legend(loc="upper left")
