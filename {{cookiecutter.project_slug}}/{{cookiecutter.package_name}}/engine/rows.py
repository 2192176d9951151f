"""Examples as nested NumPy arrays: inspect, compare and copy them."""

from __future__ import annotations

import math
from array import array as typed_array
from collections import UserList, deque
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
import tensorflow as tf

from .errors import DataError, UsageError

ALIGNMENT = 64  # bytes; TensorFlow copies arrays that aren't aligned to it (TF 2.21)
OTHER_PARTS = "has other parts than the first one"
LONGEST_TEXT = 200  # characters of a reference in a sentence

IN_MEMORY = (str, bytes, bytearray, memoryview, typed_array, range, deque, UserList, np.generic)

Example = Any  # a nest of arrays or tensors


def as_arrays(source: Any) -> Any:
    """A nest of what has `shape`, `dtype` and rows along the first axis; nothing is copied."""
    if isinstance(source, np.lib.npyio.NpzFile):
        raise UsageError(
            "A split of create_datasets holds an open .npz file, which is unpacked at each access; "
            "load its arrays: dict(np.load(file))."
        )
    if isinstance(source, Mapping):  # also a group of h5py
        if len(kinds := {type(name).__name__ for name in source}) > 1:
            raise UsageError(
                f"A split of create_datasets holds a dict with {' and '.join(sorted(kinds))} as "
                "names, which have no order; make all of them texts."
            )
        return {name: as_arrays(part) for name, part in source.items()}
    if isinstance(source, tf.Variable):
        source = source.numpy()
    if isinstance(source, tuple):
        return tuple(map(as_arrays, source))
    if isinstance(source, list):
        if source and (all(map(_is_array, source)) or any(map(_is_example, source))):
            raise UsageError(
                "A split of create_datasets holds a list of arrays or of examples: inputs, labels "
                "and weights are a tuple, several inputs a dict, and examples one array, as of "
                "np.stack, or an object with __len__ and __getitem__."
            )
        source = [str(part) if isinstance(part, PurePath) else part for part in source]
    elif _reads_rows(source):
        raise UsageError(
            f"A split of create_datasets holds a {type(source).__name__} as one of its parts, and "
            "NumPy would read all of its rows: let one object give whole examples, such as "
            "(inputs, labels), or make an array of it by np.asarray."
        )
    if isinstance(source, tf.RaggedTensor | tf.SparseTensor):
        dense = "tf.sparse.to_dense" if isinstance(source, tf.SparseTensor) else ".to_tensor()"
        raise UsageError(
            f"A split of create_datasets holds a {type(source).__name__}; make it dense, by "
            f"{dense}."
        )
    on_disk = all(hasattr(source, name) for name in ("shape", "dtype", "__getitem__"))
    in_memory = any(hasattr(source, name) for name in ("__dlpack__", "iloc"))  # as of pandas
    array = source if on_disk and not in_memory else _in_memory(source)
    if not array.shape:
        raise UsageError(
            f"A split of create_datasets is or holds {type(source).__name__}; it must be arrays, "
            "a tf.data.Dataset, or an object with __len__ and __getitem__."
        )
    if np.ma.is_masked(array):
        raise UsageError(
            "A split of create_datasets holds a masked array, and its mask would be lost; fill it, "
            "and give what is missing the weight 0."
        )
    if array.dtype == object:
        _require_texts(array if type(array) is np.ndarray else array[:1])
    return array


def _reads_rows(source: Any) -> bool:
    """Whether it is no array, but gives a row at a time, as a list of pictures on disk does."""
    names = ("dtype", "__array__", "__array_interface__", "__dlpack__", "iloc")
    return (
        hasattr(source, "__len__")
        and hasattr(source, "__getitem__")
        and not isinstance(source, IN_MEMORY)
        and not any(hasattr(source, name) for name in names)
    )


def _require_texts(array: np.ndarray) -> None:
    kinds = set(map(type, array.flat))
    texts = {kind for kind in kinds if issubclass(kind, str | bytes)}
    if texts == kinds:
        return
    values = array.reshape(-1).tolist()
    place = next(i for i, value in enumerate(values) if type(value) not in texts)
    if texts:
        raise UsageError(
            f"A split of create_datasets holds texts, and {values[place]!r} in row "
            f"{place * len(array) // len(values)} (counted from 0), as pandas has it where a text "
            "is missing; replace it by one."
        )
    dtype = "float32" if isinstance(values[place], float) else "int64"
    raise UsageError(
        "A split of create_datasets holds an array of Python's "
        f"{type(values[place]).__name__} objects; convert it, such as by .astype({dtype!r})."
    )


def _in_memory(source: Any) -> np.ndarray:
    if _are_texts(source):
        return np.asarray(source, object)
    try:
        return _whole(source, np.asanyarray(source))
    except ValueError as error:
        if not isinstance(source, list):
            raise
        raise UsageError(
            "A split of create_datasets holds a list whose parts have different shapes; pad them "
            "to one shape."
        ) from error


def _is_array(part: Any) -> bool:
    return bool(getattr(part, "shape", ()))


def _is_example(part: Any) -> bool:
    return isinstance(part, dict) or (isinstance(part, tuple) and any(map(_is_array, part)))


def as_example(example: Any) -> Example:
    """Dicts and tuples of arrays; lists are arrays too.

    Raises:
        DataError: there is something else in it.
    """
    if isinstance(example, dict):
        return {name: as_example(part) for name, part in example.items()}
    if isinstance(example, tuple):
        return tuple(map(as_example, example))
    return _array(example)


def _array(value: Any) -> np.ndarray:
    if isinstance(value, list) and any(map(_is_array, value)):
        raise DataError("has a list of arrays: inputs, labels and weights are a tuple")
    try:
        array = np.asarray(value, object) if _are_texts(value) else _whole(value, np.asarray(value))
    except ValueError as error:
        raise DataError(
            "has a list whose parts have different shapes: inputs, labels and weights are a tuple"
        ) from error
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.dtype.kind == "O" and not all(isinstance(v, str | bytes) for v in array.flat):
        kinds = sorted({type(v).__name__ for v in array.flat} - {"str", "bytes"})
        raise DataError(f"holds {' and '.join(kinds)}, not only numbers or texts")
    return array


def _are_texts(value: Any) -> bool:
    """Whether it is a list of texts; an array of them has room for the longest in each row."""
    is_list = isinstance(value, list) and bool(value)
    return is_list and all(isinstance(part, str | bytes) for part in value)


def _whole(value: Any, array: np.ndarray) -> np.ndarray:
    """`array`, made of `value`; NumPy cuts zeros off the end of texts, which records may have."""
    cut = array.dtype.kind in "SU" and array is not value
    return np.asarray(value, object) if cut else array


def spec_of(array: Any, shape: Any) -> tf.TensorSpec:
    """The dtype that TensorFlow has for an array's, of this shape.

    Raises:
        UsageError: it has none, or there is nothing in it.
    """
    require_content(shape)
    try:
        kind = np.dtype(array.dtype).kind
        dtype = tf.string if kind in "OUS" else tf.as_dtype(np.dtype(array.dtype).newbyteorder("="))
    except TypeError as error:
        raise UsageError(
            f"The data holds {array.dtype}, which TensorFlow doesn't have; convert it to an array "
            "of numbers, or of objects for texts."
        ) from error
    return tf.TensorSpec(shape, dtype)


def require_content(shape: Any) -> None:
    """Refuse parts of examples with no elements, of which `unbatch` dies (TF 2.21).

    Raises:
        UsageError: the shape of an example's part has a 0.
    """
    if 0 in tuple(shape):
        raise UsageError(
            f"The data holds a part whose shape is {tuple(shape)} in each example, so there is "
            "nothing in it; leave it out."
        )


def form_of(spec: Any) -> Any:
    """A nest of tf.TensorSpec -> the same of NumPy dtypes with shapes, which compare fast."""

    def form(each: tf.TensorSpec) -> np.dtype:
        dtype = object if each.dtype == tf.string else each.dtype.as_numpy_dtype
        return np.dtype((dtype, tuple(each.shape)))

    return tf.nest.map_structure(form, spec)


def flat_example(example: Any, form: Any, rows: int | None = None) -> list[np.ndarray]:
    """The arrays of an example, in the order of tf.nest; or of so many rows, along a first axis.

    Raises:
        DataError: it differs from the first example, whose form this is.
    """
    flat: list[np.ndarray] = []
    _flatten(example, form, () if rows is None else (rows,), flat)
    return flat


def _flatten(example: Any, form: Any, rows: tuple[int, ...], flat: list[np.ndarray]) -> None:
    if isinstance(form, dict):
        if not isinstance(example, dict) or example.keys() != form.keys():
            raise DataError(OTHER_PARTS)
        for name in sorted(form):
            _flatten(example[name], form[name], rows, flat)
    elif isinstance(form, tuple | list):
        if not isinstance(example, tuple | list) or len(example) != len(form):
            raise DataError(OTHER_PARTS)
        for part, its_form in zip(example, form, strict=True):
            _flatten(part, its_form, rows, flat)
    elif isinstance(example, dict | tuple):
        raise DataError(OTHER_PARTS)
    else:
        array = _array(example)
        same_dtype = array.dtype == form.base or array.dtype.newbyteorder("=") == form.base
        if not same_dtype or array.shape != (*rows, *form.shape):
            was = f"{_name(form.base)} {form.shape}"
            is_ = f"{_name(array.dtype)} {array.shape}"
            raise DataError(f"holds {is_} where the first one has {was}")
        flat.append(array)


def _name(dtype: np.dtype) -> str:
    return "string" if dtype == np.dtype(object) else dtype.name


def repeated(shape: tuple[int, ...], value: np.ndarray) -> np.ndarray:
    """An array of this shape that repeats `value` over its first axes."""
    dtype = value.dtype.newbyteorder("=")
    full = np.empty(shape, object) if dtype.kind == "O" else _aligned(shape, dtype)
    full[...] = value[()]
    return full


def take(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows of an array, copied once; other threads run meanwhile."""
    if array.dtype.kind in "OUS":
        return np.asarray(array)[rows].astype(object)
    if not array.dtype.isnative:
        return array[rows].astype(array.dtype.newbyteorder("="))
    if not (array.flags.c_contiguous and array.flags.aligned):
        return array[rows]  # numpy.take would copy the whole array (NumPy 2.4)
    out = _aligned((*rows.shape, *array.shape[1:]), array.dtype)
    return np.take(array, rows, axis=0, out=out, mode="clip")  # "raise" would copy twice


def _aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array that TensorFlow takes without a copy."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def texts_in(row: Iterable[Any]) -> str:
    """The texts of a row, such as the name of a file, for the end of a sentence."""
    texts = [np.asarray(a, object).item() for a in row if not np.shape(a)]
    read = [t.decode(errors="replace") if isinstance(t, bytes) else t for t in texts]
    read = [t for t in read if isinstance(t, str)]
    shown = [repr(t) for t in read if t.isprintable() and len(t) <= LONGEST_TEXT]
    return f" ({', '.join(shown)})" if shown else ""
