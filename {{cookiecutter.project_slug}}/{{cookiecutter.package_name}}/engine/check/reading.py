"""Relations between the data and what `predict` and `export` give the models."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import keras
import numpy as np

from ..predict import Reader
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import numbers_of
from .tables import otherwise_than_data

PICTURES = (".png", ".bmp", ".jpg", ".jpeg")  # the first one that a task reads is used
TEXTS = ("a", "1", "a b")
MANY = 0.05  # of the numbers of the data, or of its rows


@relation("inputs as they are")
def inputs_as_they_are(lab: Laboratory) -> Finding:
    """A step passes the inputs of the data to the model unchanged, as `predict` and `export` do."""
    if not lab.evaluated_splits or len(lab.run.trained_models) != 1:
        return ok("not looked at: there are several models, or there is nothing to evaluate")
    ((name, _),) = lab.run.trained_models.items()
    data = numbers_of((lab.evaluation_batch[0],))
    numbers = [numbers_of(call.arguments) for call in lab.calls_in_validation]
    given = [x for x in numbers if x is not None and data is not None and x.shape == data.shape[1:]]
    if data is None or not given:
        return ok("not looked at: the model doesn't get the inputs as one array of numbers")
    if any(np.array_equal(x, data[0], equal_nan=True) for x in given):
        return ok()  # the step may use other versions of the inputs as well
    if change := next(filter(None, (_affine(data[0], x) for x in given)), ""):
        return wrong(
            f"the validation step gives {name!r} {change}",
            "train/serving skew: predict and an exported model get the inputs unchanged, so "
            "their outputs differ",
            "do this in create_datasets and in READERS, or in a layer of the model",
        )
    return ok()


@relation("readers")
def readers_as_data(lab: Laboratory) -> Finding:
    """The READERS of task/predictions.py prepare inputs in the same way as the data."""
    if len(lab.run.models) != 1:
        return ok("not looked at: there are several models")
    compared = False
    with tempfile.TemporaryDirectory() as directory:
        for suffix, read in lab.readers.items():
            found, is_sure = None, False
            with contextlib.suppress(Exception):  # the reader may need files of another form
                found, is_sure = _read_otherwise(lab, read, Path(directory) / f"try{suffix}")
            compared |= found is not None
            if found:
                return (wrong if is_sure else look)(
                    f"{getattr(read, '__name__', 'READERS')} reads a {suffix} file {found}",
                    "train/serving skew: create_datasets prepares inputs differently, so "
                    "predictions are wrong",
                    "use the same function to prepare both",
                )
    return ok("" if compared else "not looked at: none reads what the data looks like")


def _read_otherwise(lab: Laboratory, read: Reader, file: Path) -> tuple[str | None, bool]:
    """How a reader prepares inputs otherwise ("": alike; None: others), and if that is sure."""
    split = next((n for n in lab.examples if n != "train"), "train")  # which nothing augments
    inputs = {n: a for n, a in lab.examples[split].items() if n.startswith("inputs")}
    array, (model,) = inputs.get("inputs", np.zeros(0)), lab.run.models.values()
    if file.suffix == ".csv":
        return otherwise_than_data(lambda path: read(path, model), file, inputs), True
    if file.suffix in PICTURES and array.ndim == 4 and len(array):
        size, channels = array.shape[1:3], array.shape[3]
        shades = np.resize(np.arange(256.0), (*size, channels))
        shades[0, 0], shades[-1, -1] = 0, 255
        keras.utils.save_img(file, shades, scale=False)
        shown = np.asarray(read(file, model), "f8")
        # Files may have a wider range than these bytes, but not a narrower one, and no background
        # darker than black; noise may be.
        black, least = shown[0, 0].min(), array.min()
        is_darker = black == shown.min() and least < black - 0.1 * np.ptp(shown)
        is_sure = np.ptp(shown) > 10 * np.ptp(array) > 0
        is_sure |= is_darker and np.mean(array == least) > MANY
        return _other_scale(array, shown), bool(is_sure)
    if file.suffix == ".txt" and array.ndim == 2 and array.dtype.kind in "iu" and len(array):
        for text in TEXTS:
            file.write_text(f"{text}\n", encoding="utf-8")
            if found := _other_padding(array, np.asarray(read(file, model))):
                return found, False
        return "", False
    return None, False


def _affine(data: np.ndarray, given: np.ndarray) -> str:
    """How each example, or column, was scaled and shifted; "" if it wasn't, or otherwise."""
    x, y = (a.reshape(len(a), -1) for a in (data, given))
    if np.allclose(x, y, rtol=1e-4, atol=1e-6) or not np.isfinite(x).all():
        return ""
    if (found := _line(x, y)) is not None:
        a, b = found
        return f"inputs times {np.median(a):.3g}, plus {np.median(b):.3g}"
    if data.ndim == 2 and (found := _line(x.T, y.T)) is not None:
        a, b = found
        return (
            f"inputs of which each column is scaled and shifted, by {a.min():.3g} to "
            f"{a.max():.3g} and {b.min():.3g} to {b.max():.3g}"
        )
    return ""


def _line(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The a and b, for each row, of y = a x + b; None if that isn't so."""
    rows = x.std(axis=1) > 0
    still = np.allclose(np.ptp(y[~rows], axis=1), 0)
    if rows.sum() < min(2, len(x)) or x.shape[1] < 3 or not still:
        return None
    x, y = x[rows], y[rows]
    a = np.sum((x - x.mean(1, keepdims=True)) * y, axis=1) / (x.shape[1] * x.var(axis=1))
    b = y.mean(axis=1) - a * x.mean(axis=1)
    rest = y - (a[:, None] * x + b[:, None])
    if np.abs(rest).max() > 1e-3 * np.abs(y).max() or np.abs(a).max() < 1e-6:
        return None
    return a, b


def _other_scale(data: np.ndarray, read: np.ndarray) -> str:
    """How black and white are read, if the data has numbers outside that range; or ""."""
    low, high = float(read.min()), float(read.max())
    width = max(high - low, 1e-9)
    outside = np.mean((data < low - 0.1 * width) | (data > high + 0.1 * width))
    if outside > MANY or width > 10 * np.ptp(data) > 0:
        return (
            f"as numbers from {low:.3g} to {high:.3g}, but those of the data range from "
            f"{data.min():.3g} to {data.max():.3g}"
        )
    return ""


def _other_padding(data: np.ndarray, read: np.ndarray) -> str:
    """The end at which a text is padded, if the data is padded at the other; or ""."""
    if read.ndim != 2 or read.shape[1] != data.shape[1]:
        return ""
    for mine, other, side in ((-1, 0, "front"), (0, -1, "end")):
        numbers, times = np.unique(data[:, mine], return_counts=True)
        padding = numbers[times.argmax()]
        is_padded = times.max() > len(data) / 2 and np.mean(data[:, other] == padding) < MANY
        if is_padded and read[0, other] == padding:
            return f"with padding at the {side}, but the data has padding only at the other end"
    return ""
