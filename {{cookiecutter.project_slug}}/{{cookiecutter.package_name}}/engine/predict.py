"""Predictions of a trained model, for inputs in files or for a split of the data."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .batches import BatchLayout, Split, evaluation_batches
from .errors import UsageError
from .types import Run

BATCH_SIZE = 256


def read_inputs(file: Path) -> Any:
    """The array in a .npy file, or the arrays by name in a .npz file.

    Raises:
        UsageError: the file isn't there, isn't of these kinds, or holds no examples.
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a file.")
    try:
        loaded = np.load(file, allow_pickle=False)
        inputs = dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{file} can't be read as a .npy or .npz file of plain arrays; write it with np.save "
            "or np.savez."
        ) from error
    arrays = tf.nest.flatten(inputs)
    if not arrays or any(array.ndim == 0 or not len(array) for array in arrays):
        raise UsageError(f"{file} holds no examples: each array needs rows along its first axis.")
    if len({len(array) for array in arrays}) > 1:
        raise UsageError(f"{file} holds arrays of different lengths; each row is an example.")
    return inputs


def predict_files(model: keras.Model, files: Iterable[Path], directory: Path) -> Iterable[Path]:
    """Write the predictions for the inputs in each file; yields the files written.

    Raises:
        UsageError: the inputs can't be read, or don't fit the model.
    """
    written: set[Path] = set()
    for file in files:
        inputs = read_inputs(file)
        try:
            outputs = model.predict(inputs, batch_size=BATCH_SIZE, verbose=0)
        except (ValueError, TypeError, KeyError, tf.errors.OpError) as error:
            given = tf.nest.map_structure(_spec, inputs)
            wanted = tf.nest.map_structure(_spec, input_of(model))
            if given == wanted:
                raise
            raise UsageError(f"{file} holds {given}, the model takes {wanted}.") from error
        name, number = file.stem, 2
        while name in {path.stem for path in written}:  # files of the same name elsewhere
            name, number = f"{file.stem}-{number}", number + 1
        path = _write(model, outputs, directory / name)
        written.add(path)
        yield path


def predict_split(model: keras.Model, name: str, split: Split, directory: Path) -> Path:
    """Write the predictions for every example of a split, in its order; returns the file."""
    layout = BatchLayout(BATCH_SIZE, 1, 0, 1)
    batches, _ = evaluation_batches(split, layout)
    found = []
    for inputs, *_, weights in batches:
        one = tf.nest.map_structure(lambda t: t[0], inputs)
        present = np.asarray(tf.reduce_any(tf.reshape(weights[0], (BATCH_SIZE, -1)) != 0, axis=1))
        outputs = model(one, training=False)
        found.append(tf.nest.map_structure(lambda t, p=present: np.asarray(t)[p], outputs))
    whole = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *found)
    return _write(model, whole, directory / name)


def model_of(run: Run, name: str) -> keras.Model:
    """The model to predict with: the only one, beside auxiliary ones, or the one of that name.

    Raises:
        UsageError: there are several and none was named, or there is none of that name.
    """
    if name in run.models:
        return run.models[name]
    names = ", ".join(run.trained_models)
    if name:
        raise UsageError(f"there is no model {name!r}; there is: {names}.")
    if len(run.trained_models) > 1:
        raise UsageError(f"this run has several models; add --model with one of: {names}.")
    return run.model


def input_of(model: keras.Model) -> Any:
    """The nest of a model's symbolic inputs; a Sequential has no `input` yet (Keras 3.15)."""
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _spec(array: Any) -> str:
    return f"{keras.backend.standardize_dtype(array.dtype)} {tuple(array.shape[1:])}"


def _write(model: keras.Model, outputs: Any, path: Path) -> Path:
    """One output as .npy; several as .npz, by their names."""
    path.parent.mkdir(exist_ok=True)
    if not isinstance(outputs, dict | list | tuple):
        file = path.with_name(f"{path.name}.npy")
        np.save(file, outputs)
        return file
    if not isinstance(outputs, dict):
        outputs = dict(zip(model.output_names, outputs, strict=True))
    file = path.with_name(f"{path.name}.npz")
    np.savez(file, **outputs)
    return file
