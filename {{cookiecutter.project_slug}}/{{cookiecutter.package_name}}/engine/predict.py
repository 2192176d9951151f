"""Predictions of a trained model, for inputs in files or for a split of the data."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .batches import BatchLayout, Split, evaluation_batches, num_examples
from .causes import cause_of
from .data_errors import reading_errors
from .errors import UsageError
from .types import Run

BATCH_SIZE = 256
LARGEST = 8 * 2**30  # bytes that an archive may unpack to


def read_inputs(file: Path) -> Any:
    """The array in a .npy file, or the arrays by name in a .npz file.

    Raises:
        UsageError: the file isn't there, isn't of these kinds, or holds no examples, or what is
            neither numbers nor strings, or more than LARGEST bytes, packed.
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a file.")
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                unpacked = sum(part.file_size for part in archive.infolist())
            if unpacked > LARGEST:
                raise UsageError(
                    f"{file} unpacks to {unpacked:,} bytes, more than {LARGEST:,}; divide it into "
                    "several files."
                )
        loaded = np.load(file, allow_pickle=False)
        inputs = dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (ValueError, OSError, EOFError, KeyError, MemoryError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{file} can't be read as a .npy or .npz file of plain arrays; write it with np.save "
            "or np.savez."
        ) from error
    arrays = tf.nest.flatten(inputs)
    if not arrays or any(array.ndim == 0 or not len(array) for array in arrays):
        raise UsageError(f"{file} holds no examples: each array needs rows along its first axis.")
    if len({len(array) for array in arrays}) > 1:
        raise UsageError(f"{file} holds arrays of different lengths; each row is an example.")
    for array in arrays:
        if array.dtype.kind not in "biufcSU" or array.dtype == np.longdouble:
            raise UsageError(f"{file} holds {array.dtype}: a model takes numbers or strings.")
    return inputs


def predict_files(model: keras.Model, files: Iterable[Path], directory: Path) -> Iterable[Path]:
    """Write the predictions for the inputs in each file; yields the files written.

    Raises:
        UsageError: the inputs can't be read, or don't fit the model.
    """
    written: set[Path] = set()
    for file in files:
        inputs = _fit(read_inputs(file), model, file)
        try:
            outputs = model.predict(inputs, batch_size=BATCH_SIZE, verbose=0)
        except Exception as error:  # whatever a model may raise
            raise UsageError(f"{file} can't be predicted: {cause_of(error)}.") from error
        name, number = file.stem, 2
        while name in {path.stem for path in written}:  # files of the same name elsewhere
            name, number = f"{file.stem}-{number}", number + 1
        path = _write(model, outputs, directory / name)
        written.add(path)
        yield path


def predict_split(model: keras.Model, name: str, split: Split, directory: Path) -> Path:
    """Write the predictions for every example of a split, in its order; returns the file.

    Raises:
        UsageError: the split can't be read.
    """
    layout = BatchLayout(BATCH_SIZE, 1, 0, 1)
    batches, _ = evaluation_batches(split, layout)
    found = []
    for inputs, *_ in _read(name, split, batches):
        one = tf.nest.map_structure(lambda t: t[0], inputs)
        found.append(tf.nest.map_structure(np.asarray, model(one, training=False)))
    # Cut by position: an example of the owner's may have weight zero, like padding.
    examples = num_examples(split)
    whole = tf.nest.map_structure(lambda *parts: np.concatenate(parts)[:examples], *found)
    return _write(model, whole, directory / name)


def _read(name: str, split: Split, batches: tf.data.Dataset) -> Iterator[Any]:
    with reading_errors({name: split}):
        yield from batches


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
    """The nest of a model's symbolic inputs; a Sequential has no `input` yet (Keras 3.15).

    Raises:
        UsageError: it is a subclass of keras.Model, which has none.
    """
    if not getattr(model, "inputs", None):
        raise UsageError(
            f"The model {model.name} has no symbolic inputs; make it with keras.Model(inputs, "
            "outputs) or keras.Sequential."
        )
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _fit(inputs: Any, model: keras.Model, file: Path) -> Any:
    """The arrays of a file in the form in which the model takes them; others are left out.

    Raises:
        UsageError: names, shapes or types differ, or a number is out of range.
    """
    if not getattr(model, "inputs", None):  # a subclass of keras.Model: it takes what it takes
        return tf.nest.map_structure(tf.convert_to_tensor, inputs)
    form = input_of(model)
    tensors = tf.nest.flatten(form)  # of a dict in the order of its keys
    names = sorted(form) if isinstance(form, dict) else [tensor.name for tensor in tensors]
    given = inputs if isinstance(inputs, dict) else {"": inputs}
    if len(given) == len(names) == 1:
        given = dict(zip(names, given.values(), strict=True))
    arrays = [given[name] for name in names if name in given]
    if len(arrays) < len(names) or not all(map(_fits, arrays, tensors)):
        holds = tf.nest.map_structure(_spec, inputs)
        wanted = {name: _spec(tensor) for name, tensor in zip(names, tensors, strict=True)}
        takes = wanted if isinstance(inputs, dict) or len(names) > 1 else wanted[names[0]]
        raise UsageError(f"{file} holds {holds}, the model takes {takes}.")
    for array, tensor in zip(arrays, tensors, strict=True):
        if _kind(tensor.dtype) == "i" and array.dtype.kind in "iu":
            range_ = np.iinfo(tensor.dtype)
            for value in (array.min(), array.max()):
                if not range_.min <= value <= range_.max:
                    raise UsageError(f"{file} holds {value}, which {tensor.dtype} can't hold.")
    return tf.nest.pack_sequence_as(form, list(map(tf.convert_to_tensor, arrays)))


def _fits(array: np.ndarray, tensor: keras.KerasTensor) -> bool:
    """Whether Keras would take an array without changing what it means."""
    given, wanted = array.shape[1:], tf.TensorShape(tensor.shape[1:])
    # Keras adds or removes a last axis of 1.
    shapes = [given, (*given, 1), *([given[:-1]] if given[-1:] == (1,) else [])]
    kinds = _kind(str(array.dtype)), _kind(tensor.dtype)
    return kinds in {("i", "f"), (kinds[0],) * 2} and any(map(wanted.is_compatible_with, shapes))


def _kind(dtype: str) -> str:
    """Numbers with a point, whole numbers and booleans, complex numbers, or strings."""
    kind = "U" if dtype == "string" else "f" if dtype == "bfloat16" else np.dtype(dtype).kind
    return {"b": "i", "u": "i", "S": "U"}.get(kind, kind)


def _spec(array: Any) -> str:
    dtype = "string" if _kind(str(array.dtype)) == "U" else array.dtype
    return f"{dtype} {tuple(array.shape[1:])}"


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
