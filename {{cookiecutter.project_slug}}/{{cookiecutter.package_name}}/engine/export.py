"""Use a trained model: predictions for files, and export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .errors import UsageError
from .types import Run


def predict_file(run: Run, file: Path, directory: Path) -> Path:
    """Write the only model's predictions for the inputs in `file`; returns where.

    Raises:
        UsageError: the inputs don't fit the model, or there are several models.
    """
    if len(run.models) > 1:
        raise UsageError(f"predict needs one model; this run has {', '.join(run.models)}.")
    try:
        with np.load(file) as loaded:
            inputs = dict(loaded) if file.suffix == ".npz" else loaded
    except TypeError:  # a plain array is no context manager
        inputs = np.load(file)
    try:
        predictions = run.model.predict(inputs, verbose=0)
    except (ValueError, tf.errors.OpError) as error:
        shape = tf.nest.map_structure(np.shape, inputs)
        wanted = tf.nest.map_structure(lambda t: tuple(t.shape), _input_of(run.model))
        raise UsageError(
            f"{file} holds inputs of shape {shape}, the model takes {wanted}."
        ) from error
    directory.mkdir(exist_ok=True)
    written = directory / f"{file.stem}.npy"
    np.save(written, predictions)
    return written


def export_models(models: dict[str, keras.Model], directory: Path) -> Iterator[str]:
    """Export each model, load it again and compare; yields a line for each.

    Raises:
        UsageError: an exported model gives other outputs than the original.
    """
    directory.mkdir(exist_ok=True)
    for name, model in models.items():
        inputs = tf.nest.map_structure(_random_input, _input_of(model))
        expected = model(inputs, training=False)
        whole, saved = directory / f"{name}.keras", directory / name
        model.save(whole)
        model.export(saved, verbose=False)
        loaded = tf.saved_model.load(str(saved))
        again = {
            whole: keras.models.load_model(whole)(inputs, training=False),
            saved: loaded.serve(inputs),
        }
        for path, outputs in again.items():
            pairs = zip(tf.nest.flatten(expected), tf.nest.flatten(outputs), strict=True)
            difference = max(float(tf.reduce_max(tf.abs(a - b))) for a, b in pairs)
            if difference > 1e-5:
                raise UsageError(f"{path} differs from the model by {difference:.1e}.")
            yield f"{path}: reloaded, differs by {difference:.1e}"


def _input_of(model: keras.Model) -> Any:
    """The nest of a model's symbolic inputs; a Sequential has no `input` yet (Keras 3.15)."""
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _random_input(tensor: Any) -> tf.Tensor:
    shape = [size or 2 for size in tensor.shape]
    if tensor.dtype in ("float16", "bfloat16", "float32", "float64"):
        return tf.random.stateless_uniform(shape, (0, 0), dtype=tensor.dtype)
    return tf.zeros(shape, tensor.dtype)
