"""Predictions of a trained model, for inputs in files or for a split of the data."""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from .batches import (
    BatchLayout,
    Split,
    comes_in_another_order,
    evaluation_batches,
    num_examples,
    worker_split,
)
from .causes import cause_of, message_of
from .data_errors import reading_errors, split_label
from .errors import AGAIN, UsageError, is_out_of_memory
from .files import replace_file, writing
from .model_inputs import input_of, taken_by
from .prediction_table import PredictionTable
from .run_files import SPLITS
from .types import Run

LARGEST_BATCH = 256
LARGEST = 8 * 2**30  # bytes that an archive may unpack to
ARRAYS = (".npy", ".npz")
# What a damaged file raises; RuntimeError: an archive that is encrypted, or compressed otherwise.
UNREADABLE = (
    *(ValueError, OSError, EOFError, KeyError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, RuntimeError),
)

Reader = Callable[[Path, keras.Model], Any]
Describe = Callable[[keras.Model, Any, Any], dict[str, Any]]


def read_inputs(file: Path) -> Any:
    """The array in a .npy file, or the arrays by name in a .npz file.

    Raises:
        UsageError: the file isn't there, is of another kind, unpacks to more than LARGEST bytes, or
            holds no examples, or something that is neither numbers nor strings.
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
    except UNREADABLE as error:
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
        if array.dtype.kind not in "biufcSU" or array.dtype.char in "gG":  # long doubles
            raise UsageError(f"{file} holds {array.dtype}: a model takes numbers or strings.")
    return inputs


def predict_files(
    model: keras.Model,
    paths: Iterable[Path],
    directory: Path,
    *,
    readers: Mapping[str, Reader],
    describe: Describe,
    batch_size: int,
) -> Iterator[Path]:
    """Write the predictions for the inputs in files; yields the files written.

    Args:
        model: what predicts.
        paths: .npy and .npz files, files that `readers` read, and folders of these.
        directory: where predictions go.
        readers: functions (file, model) -> inputs, by the suffix of the file.
        describe: a function (model, inputs, outputs) -> columns of the table.
        batch_size: examples to predict at once.

    Raises:
        UsageError: the inputs can't be read, or don't fit the model.
    """
    names = set(SPLITS)  # of `predict_split`
    for group in _groups(list(paths), readers):
        name, number = group.name, 2
        while name in names:  # files of the same name elsewhere
            name, number = f"{group.name}-{number}", number + 1
        names.add(name)
        written = {(directory / f"{name}{end}").resolve() for end in (*ARRAYS, ".csv", ".html")}
        if same := [file for file in group.files if file.resolve() in written]:
            raise UsageError(
                f"The predictions for {same[0]} would overwrite it; copy it to another directory."
            )
        batches = _of_files(model, group.files, readers, batch_size)
        yield from _write(model, batches, describe, directory / name)


def predict_split(
    model: keras.Model,
    name: str,
    split: Split,
    directory: Path,
    *,
    describe: Describe,
    batch_size: int,
) -> Iterator[Path]:
    """Write the predictions for every example of a split, in its order; yields the files.

    Raises:
        UsageError: the split can't be read.
    """
    return _write(model, _of_split(model, name, split, batch_size), describe, directory / name)


class _Batch(NamedTuple):
    """Some predictions: where each input stood, the inputs, and what the model made of them."""

    places: list[dict[str, Any]]
    inputs: Any
    outputs: Any


def _of_files(
    model: keras.Model, paths: list[Path], readers: Mapping[str, Reader], batch_size: int
) -> Iterator[_Batch]:
    times = Counter(file.name for file in paths)
    waiting = paths
    while waiting:
        read, lengths = list[Any](), list[int]()
        while sum(lengths) < batch_size and len(read) < len(waiting):  # an image each, or many
            file = waiting[len(read)]
            read.append(_fit(_read_file(file, model, readers), model, file))
            lengths.append(len(tf.nest.flatten(read[-1])[0]))
        files, waiting = waiting[: len(read)], waiting[len(read) :]
        try:
            inputs = tf.nest.map_structure(_join, *read)
            outputs = model.predict(inputs, batch_size=batch_size, verbose=0)
        except Exception as error:  # whatever a model may raise
            which = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} others"
            why = _too_large(error, batch_size) or cause_of(error)
            raise UsageError(f"{which} can't be predicted: {why}.") from error
        places = [
            {"file": file.name if times[file.name] == 1 else str(file), "row": row}
            for file, length in zip(files, lengths, strict=True)
            for row in range(length)
        ]
        _require_rows(outputs, len(places))
        yield _Batch(places, inputs, outputs)


def _join(*parts: tf.Tensor) -> tf.Tensor:
    """The rows of several files, one of which may have float32 and another float64."""
    dtype = np.result_type(*(part.dtype.as_numpy_dtype for part in parts))
    return tf.concat([tf.cast(part, dtype) for part in parts], axis=0)


def _too_large(error: Exception, batch_size: int) -> str:
    """What to say if there is too little memory; else nothing."""
    if not is_out_of_memory(error):
        return ""
    return f"{batch_size} examples at once need more memory than there is"


def _of_split(model: keras.Model, name: str, split: Split, batch_size: int) -> Iterator[_Batch]:
    if comes_in_another_order(worker_split(split)):
        sys.stderr.write(
            f"the {split_label(name)} comes in another order each time it is read: no row can be "
            "matched with its example; leave out the shuffle of the stream\n"
        )
    examples = num_examples(split)
    size = min(batch_size, max(1, examples))
    batches, _ = evaluation_batches(split, BatchLayout(size, 1, 0, 1))
    for number, (inputs, *_) in enumerate(_read(name, split, batches)):
        # Cut by position: an example of the owner's may have weight zero, like padding.
        first, rows = number * size, min(size, examples - number * size)
        one = tf.nest.map_structure(lambda t: t[0], inputs)
        taken = taken_by(model, one)
        try:
            outputs = tf.nest.map_structure(np.asarray, model(taken, training=False))
        except Exception as error:  # whatever a model may raise
            why = _other_inputs(taken, model) or cause_of(error)
            why = _too_large(error, size) or f"{why}; give files with inputs of the model"
            raise UsageError(
                f"The {split_label(name)} can't be predicted by this model: {why}."
            ) from error
        _require_rows(outputs, size)
        one, outputs = tf.nest.map_structure(lambda t, n=rows: t[:n], (one, outputs))
        places = [{"file": name, "row": row} for row in range(first, first + rows)]
        yield _Batch(places, one, outputs)


def _require_rows(outputs: Any, rows: int) -> None:
    """Refuse outputs of a whole batch, such as a term of the loss: they belong to no input.

    Raises:
        UsageError: one has another number of rows.
    """
    for name, array in _by_path(outputs).items():
        if np.shape(array)[:1] != (rows,):
            raise UsageError(
                f"The model's output {name}{' ' * bool(name)}has shape {np.shape(array)} for "
                f"{rows} inputs, and predict needs a row for each; give --model with a model of "
                "the same layers that leaves it out."
            )


def _write(
    model: keras.Model, batches: Iterable[_Batch], describe: Describe, path: Path
) -> Iterator[Path]:
    """Write the arrays and the table of all batches."""
    table, parts = PredictionTable(), list[Any]()
    with writing(path.parent, AGAIN):  # tried before hours of work
        tempfile.TemporaryFile(dir=next(p for p in path.parents if p.exists())).close()
    for places, inputs, outputs in batches:
        if parts:
            _require_shapes(outputs, parts[0], places[0]["file"])
        table.add(places, inputs, describe(model, inputs, outputs))
        parts.append(outputs)
    whole = tf.nest.map_structure(lambda *rows: np.concatenate(rows), *parts)
    yield _write_arrays(model, whole, path)
    yield from table.write(path)


def _require_shapes(outputs: Any, first: Any, file: str) -> None:
    """Refuse outputs of another shape than the first ones: no array can hold both.

    Raises:
        UsageError: they are.
    """
    before = _by_path(first)
    for name, array in _by_path(outputs).items():
        if array.shape[1:] != before[name].shape[1:]:
            raise UsageError(
                f"The model's output {name}{' ' * bool(name)}has shape {array.shape[1:]} for an "
                f"input of {file}, and {before[name].shape[1:]} for those before; predict inputs "
                "of each size by themselves."
            )


class _Group(NamedTuple):
    """Files that are predicted together."""

    name: str
    files: list[Path]


def _groups(paths: list[Path], readers: Mapping[str, Reader]) -> list[_Group]:
    """A group for each array file and each folder, and one for all others.

    Raises:
        UsageError: a file can't be read by its suffix, or a folder has none that can.
    """
    known = {*ARRAYS, *readers}
    suffixes = ", ".join(sorted(known))
    listed = f"predict reads {suffixes}; add others to READERS in task/predictions.py"
    groups, others = [], []
    for path in paths:
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if file.suffix.lower() in known)
            if not files:
                raise UsageError(f"{path} has no file to predict: {listed}.")
            groups.append(_Group(path.resolve().name, files))
        elif path.suffix.lower() not in known:
            raise UsageError(f"{path} can't be read: {listed}.")
        elif path.suffix.lower() in ARRAYS:
            groups.append(_Group(path.stem, [path]))
        else:
            others.append(path)
    if others:
        groups.append(_Group(others[0].stem if len(others) == 1 else "files", others))
    return groups


def _read_file(file: Path, model: keras.Model, readers: Mapping[str, Reader]) -> Any:
    """The inputs in a file, by its suffix.

    Raises:
        UsageError: it can't be read, or holds no examples.
    """
    if file.suffix.lower() in ARRAYS:
        return read_inputs(file)
    try:
        inputs = tf.nest.map_structure(np.asarray, readers[file.suffix.lower()](file, model))
    except UsageError:
        raise
    except Exception as error:  # whatever a reader may raise
        raise UsageError(f"{file} can't be read: {message_of(error)}.") from error
    arrays = tf.nest.flatten(inputs)
    if not all(array.ndim for array in arrays):
        raise UsageError(
            f"{file} can't be predicted: its reader, see READERS in task/predictions.py, must give "
            "arrays with a row for each example."
        )
    if not all(len(array) for array in arrays):
        raise UsageError(f"{file} holds no examples.")
    return inputs


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


def _fit(inputs: Any, model: keras.Model, file: Path) -> Any:
    """The arrays of a file in the form in which the model takes them; others are left out.

    Inputs of a model of a dict are found by their paths, such as "pair/0" where it has lists; those
    of a model of a list by the names of its tensors or, in a list, by their places.

    Raises:
        UsageError: names, shapes or types differ, or a number is out of range.
    """
    if not getattr(model, "inputs", None):  # a subclass of keras.Model: it takes what it takes
        return tf.nest.map_structure(tf.convert_to_tensor, inputs)
    form = input_of(model)
    given, taken = _by_path(inputs), _by_path(form)
    tensors = list(taken.values())
    names = list(taken) if isinstance(form, dict) else [tensor.name for tensor in tensors]
    both_lists = isinstance(form, list | tuple) and isinstance(inputs, list | tuple)
    if len(given) == len(names) and (both_lists or len(names) == 1):
        given = dict(zip(names, given.values(), strict=True))
    arrays = [given[name] for name in names if name in given]
    if len(arrays) < len(names) or not all(map(_fits, arrays, tensors)):
        holds = tf.nest.map_structure(_spec, inputs)
        wanted = {name: _spec(tensor) for name, tensor in zip(names, tensors, strict=True)}
        takes = wanted if isinstance(inputs, dict) or len(names) > 1 else wanted[names[0]]
        raise UsageError(f"{file} holds {holds}, the model takes {takes}.")
    for array, tensor in zip(arrays, tensors, strict=True):
        if _kind(tensor.dtype) == "i" and array.dtype.kind in "iu":
            least, most = 0, 1
            if tensor.dtype != "bool":  # of which NumPy knows no range
                least, most = np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max
            for value in (array.min(), array.max()):
                if not least <= value <= most:
                    raise UsageError(f"{file} holds {value}, which {tensor.dtype} can't hold.")
    # Several files are joined, and Keras keeps the number of axes of what it predicts first.
    shaped = [_with_axes(*both) for both in zip(arrays, tensors, strict=True)]
    return keras.tree.pack_sequence_as(form, list(map(tf.convert_to_tensor, shaped)))


def _by_path(nest: Any) -> dict[str, Any]:
    """The parts of a nest by their paths, such as "boxes/size"; a part alone as ""."""
    return {"/".join(map(str, path)): part for path, part in keras.tree.flatten_with_path(nest)}


def _other_inputs(inputs: Any, model: keras.Model) -> str:
    """What examples hold and what the model takes; empty where these agree or can't be compared."""
    if not getattr(model, "inputs", None):
        return ""
    given, wanted = tf.nest.map_structure(np.asarray, inputs), input_of(model)
    arrays, tensors = tf.nest.flatten(given), tf.nest.flatten(wanted)
    if len(arrays) == len(tensors) and all(map(_fits, arrays, tensors)):
        return ""
    holds, takes = (tf.nest.map_structure(_spec, nest) for nest in (given, wanted))
    return f"an example holds {holds}, the model takes {takes}"


def _with_axes(array: np.ndarray, tensor: keras.KerasTensor) -> np.ndarray:
    """With the last axis of 1 that the model has, or without the one that it hasn't."""
    more = len(tensor.shape) - array.ndim
    return array[..., np.newaxis] if more > 0 else array[..., 0] if more < 0 else array


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


def _write_arrays(model: keras.Model, outputs: Any, path: Path) -> Path:
    """One output as .npy; several as .npz, by their names.

    Raises:
        UsageError: they can't be written.
    """
    with writing(path.parent, AGAIN):
        path.parent.mkdir(exist_ok=True)
    content = io.BytesIO()
    if not tf.nest.is_nested(outputs):
        file = path.with_name(f"{path.name}.npy")
        np.save(content, _plain(outputs), allow_pickle=False)
    else:
        file = path.with_name(f"{path.name}.npz")
        with zipfile.ZipFile(content, "w") as archive:  # np.savez takes no array called "file"
            for name, array in _by_name(model, outputs).items():
                # As np.savez does, for an array of more than 2 GiB.
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.save(member, _plain(array), allow_pickle=False)
    replace_file(file, content.getvalue(), AGAIN)
    return file


def _by_name(model: keras.Model, outputs: Any) -> dict[str, np.ndarray]:
    """Several outputs by their names, or else by their paths.

    Keras names an output by its layer, so that two of one layer have the same name (Keras 3.15).
    """
    names, by_path = getattr(model, "output_names", []), _by_path(outputs)
    if not isinstance(outputs, dict) and len({*names}) == len(by_path) == len(outputs):
        return dict(zip(names, outputs, strict=True))
    return by_path


def _plain(array: np.ndarray) -> np.ndarray:
    """The array in a type that NumPy itself can read again."""
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    return np.char.decode(array.astype("S"), "utf-8") if array.dtype == object else array
