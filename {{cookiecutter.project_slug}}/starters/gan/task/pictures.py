"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread, imsave

from ..engine.batches import first_examples
from ..engine.pictures import draw_images, drawn_split, predict_in_parts, save
from ..engine.types import Run
from .classifier import load_classifier
from .metrics import nearest

ROWS, COLUMNS = 4, 12
SCALE = 6  # pixels of the picture per pixel of an image
EPOCHS = 8  # that show the progress, at most
MAX_EXAMPLES = 1_000  # the picture and its numbers are of at most so many latents and real images
KNOWN = 1_200  # training images in which the nearest is looked for; an epoch repeats them
CLASSES = 10
INK: dict[str, Any] = {"cmap": "gray_r", "vmin": 0, "vmax": 1}
REAL: dict[str, Any] = {"color": "#9ab8e0", "label": "real"}
GENERATED: dict[str, Any] = {
    "facecolor": "none",
    "edgecolor": "black",
    "hatch": "////",
    "label": "generated",
}


# TODO(8): a picture of some training examples; default: a grid of images.
def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples."""
    _save(first_examples(datasets["train"], ROWS * COLUMNS), file)


# TODO(15): a picture of some predictions; default: generated images after some epochs and beside
# real ones, how often each class is generated, and the images nearest to a training image: copies?
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw what the generator makes of the first test latents (else validation, else training)."""
    split = drawn_split(datasets)
    real, *given = tf.nest.flatten(first_examples(datasets[split], MAX_EXAMPLES))
    latents = given[0] if given else _latents(run, len(real))  # training data has none
    generated = predict_in_parts(run.models["generator"], latents)
    known = first_examples(datasets["train"], KNOWN)
    distances, which = map(np.asarray, nearest(generated, known))
    closest = np.argsort(distances)[:COLUMNS]
    figure = Figure(figsize=(12, 9), layout="constrained")
    places: list[Any] = [["progress", "classes"], ["generated", "real"], ["copies", "distances"]]
    axes = figure.subplot_mosaic(places, height_ratios=[7, 4, 4])
    _draw_progress(axes["progress"], file.parent / "generated")
    _draw_classes(axes["classes"], class_shares(real), class_shares(generated))
    for name, images in (("generated", generated), ("real", real)):
        draw_images(axes[name], images[: ROWS * COLUMNS], COLUMNS, **INK)
    axes["generated"].set_title("generated images")
    axes["real"].set_title(f"real {split} images, on the same scale")
    pairs = np.concatenate([generated[closest], known[which[closest]]])
    captions = [*[""] * len(closest), *(f"{distance:.2f}" for distance in distances[closest])]
    draw_images(axes["copies"], pairs, len(closest), captions, **INK)
    axes["copies"].set_title("most like a training image, which is below, with its distance")
    _draw_distances(axes["distances"], np.asarray(nearest(real, known)[0]), distances)
    save(figure, file)


def draw_generated(run: Run, file: Path) -> None:
    """Draw the generator's images of the same latents in every call."""
    latents = _latents(run, ROWS * COLUMNS)
    _save(run.models["generator"](latents, training=False).numpy(), file)


def class_shares(images: np.ndarray) -> np.ndarray:
    """The fraction of images (n, 8, 8, 1) in each class, float (CLASSES,), as classified."""
    classes = predict_in_parts(load_classifier(), images).argmax(axis=-1)
    return np.bincount(classes, minlength=CLASSES) / len(classes)


def shown_epochs(number: int) -> list[int]:
    """Which of so many epochs, from 0, to show: closer to each other where more changes."""
    return np.unique(np.geomspace(1, number, EPOCHS).round().astype(int) - 1).tolist()


def _latents(run: Run, number: int) -> np.ndarray:
    """The same in every call, float32 (number, latent)."""
    size = (number, run.models["generator"].input_shape[-1])
    return np.random.default_rng(0).standard_normal(size, "float32")


def _save(images: np.ndarray, file: Path) -> None:
    """Write at most ROWS * COLUMNS images (n, h, w, 1), ten times faster than with a figure."""
    cells = np.zeros((ROWS * COLUMNS, *images.shape[1:3]), images.dtype)
    cells[: len(images)] = images[..., 0]
    cells = np.pad(cells, [(0, 0), (1, 1), (1, 1)])
    _, height, width = cells.shape
    cells = cells.reshape(ROWS, COLUMNS, height, width).transpose(0, 2, 1, 3)
    grid = np.kron(cells.reshape(ROWS * height, COLUMNS * width), np.ones((SCALE, SCALE)))
    imsave(file, grid, cmap="gray_r", vmin=0, vmax=1)


def _draw_progress(axes: Axes, folder: Path) -> None:
    """The first rows of what `draw_generated` has drawn after some epochs."""
    files = sorted(folder.glob("epoch-*.png"), key=lambda file: (len(file.name), file.name))
    if not files:
        axes.set(xticks=[], yticks=[], title="no epoch has ended: no progress to show")
        return
    chosen = [files[i] for i in shown_epochs(len(files))]
    grids = [imread(file) for file in chosen]
    height = grids[0].shape[0] // ROWS
    axes.imshow(np.concatenate([grid[:height] for grid in grids]))
    ticks = (np.arange(len(chosen)) + 0.5) * height
    axes.set_yticks(ticks, [file.stem.partition("-")[2].lstrip("0") for file in chosen])
    axes.set(xticks=[], ylabel="epoch", title="the same latents in the course of the training")


def _draw_classes(axes: Axes, real: np.ndarray, generated: np.ndarray) -> None:
    x = np.arange(CLASSES)
    axes.bar(x - 0.2, real, 0.4, **REAL)
    axes.bar(x + 0.2, generated, 0.4, **GENERATED)
    axes.set(xticks=x, xlabel="class, by a classifier", ylabel="fraction of images")
    missing = ", ".join(map(str, np.flatnonzero(generated == 0))) or "none"
    axes.set_title(f"fraction of each class; never generated: {missing}")
    axes.set_ylim(0, 1.25 * max(real.max(), generated.max()))  # room for the legend
    axes.legend(loc="upper right", ncols=2)


def _draw_distances(axes: Axes, real: np.ndarray, generated: np.ndarray) -> None:
    generated = generated[np.isfinite(generated)]
    bins = np.linspace(0, np.concatenate([real, generated]).max(), 25).tolist()
    for values, style in ((real, REAL), (generated, GENERATED)):
        shares = np.full(len(values), 1 / max(1, len(values)))
        axes.hist(values, bins, weights=shares, histtype="stepfilled", **style)
    axes.set(xlabel="distance (0: a copy)", ylabel="fraction of images")
    axes.set_title("distance to the nearest training image")
    axes.legend(loc="upper left")
