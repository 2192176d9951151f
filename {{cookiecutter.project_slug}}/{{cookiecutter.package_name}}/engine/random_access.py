"""Examples by row number, whatever holds them: arrays, files, tables, or references to load."""

from __future__ import annotations

import copy
import math
import operator
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import PurePath
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .causes import cause_of
from .errors import DataError, UsageError

PADDING = -1  # the row number of an example that isn't there
BATCHES_TOGETHER, BYTES_TOGETHER = 32, 2**20  # read at once, at most
GIVEN_TOGETHER = 8  # batches, of `__getitems__`: the first one waits for all of them
FIRST = 100  # of so many examples one must be readable, so that the form of all is known
ALIGNMENT = 64  # bytes; TensorFlow copies arrays that aren't aligned to it (TF 2.21)
LONGEST_TEXT = 200  # characters of a reference in a sentence

Example = Any  # a nest of arrays or tensors
Finish = Callable[[Any, tf.Tensor], Any]  # examples, whether each is there -> an element

# Translating plain tensor code for tf.data costs a second at every start (TF 2.21).
without_autograph = tf.autograph.experimental.do_not_convert


class BadExamples:
    """Examples that can't be read and are left out, those of all splits together.

    Args:
        most: more than so many end the run.

    Attributes:
        failure: the sentence for the one that ends the run.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.failure = ""
        self._found: dict[tuple[str, int], str] = {}
        self._said = 0
        self._lock = threading.Lock()  # several threads read

    def __len__(self) -> int:
        """How many this process has found."""
        return len(self._found)

    def add(self, label: str, row: int, reason: str) -> None:
        """Note example `row` of a split, once however often it is read.

        Raises:
            DataError: it is one too many.
        """
        with self._lock:
            self._found.setdefault((label, row), reason)
            if len(self._found) <= self.most:
                return
            already = f" ({self.most} others were left out)" if self.most else ""
            self.failure = f"Example {row} (counted from 0) of the {label} {reason}{already}."
            raise DataError(self.failure)

    def news(self) -> list[str]:
        """A line for each example that was found since the last call."""
        found = list(self._found.items())[self._said :]
        self._said += len(found)
        return [f"left out: example {row} of the {label} {why}" for (label, row), why in found]


class RandomAccess:
    """Examples that are read by row number, each when a batch needs it.

    So the data may be larger than memory, every epoch has another order of all examples, and a run
    is resumed without reading anything twice.

    An example is inputs, (inputs, labels) or (inputs, labels, weights); each of these an array, a
    number, a text, or a dict or tuple of them, with the shapes and dtypes of the first example.

    Args:
        source: the rows. Either arrays, or a dict or tuple of them, with rows along the first axis:
            of NumPy, in memory or mapped, or of whatever else has `shape`, `dtype` and
            `array[row]`, such as h5py and Zarr. Or an object with `len(source)` and `source[row]`;
            if it has `source.__getitems__(rows)` too, as PyTorch calls it, that gives a list of
            rows at once or, which is faster, a row whose arrays have a first axis of all of them,
            such as the columns of a table. Several threads read at a time.
        load: row -> example in TensorFlow operations, which run in parallel in the input pipeline;
            None if a row is an example.

    Raises:
        UsageError: the arrays differ in length, or the source has no rows.
    """

    def __init__(self, source: Any, load: Callable[[Any], Example] | None = None) -> None:
        self.source, self.load = source, load
        self._arrays: list[Any] | None = None
        if not has_rows(source):
            self.source = _as_arrays(source)
            self._arrays = tf.nest.flatten(self.source)
            lengths = {len(array) for array in self._arrays}
            if len(lengths) != 1:
                raise UsageError(f"The arrays of one split differ in length: {sorted(lengths)}.")
        self._selected: np.ndarray | None = None  # rows of the source; None: all

    def __len__(self) -> int:
        """How many examples there are."""
        if self._selected is not None:
            return len(self._selected)
        return len(self.source if self._arrays is None else self._arrays[0])

    def __getitem__(self, row: int) -> Example:
        """One example, a nest of arrays.

        Raises:
            IndexError: there is no such row.
            DataError: it can't be read, or differs from the first example.
        """
        row = operator.index(row)
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no example {row}: there are {len(self)}")
        try:
            flat = self._row(row % len(self))
            if self.load is not None:
                flat = _flat(self._loaded(flat), self.element_spec)
        except DataError as error:
            raise DataError(f"Example {row} (counted from 0) {error}.") from error.__cause__
        return tf.nest.pack_sequence_as(self.element_spec, flat)

    def select(self, rows: Any) -> RandomAccess:
        """The examples at `rows` int (n,), in that order."""
        selected = copy.copy(self)
        rows = np.asarray(rows, np.int64)
        selected._selected = rows if self._selected is None else self._selected[rows]
        return selected

    @property
    def in_memory(self) -> bool:
        """Whether every example is an array in memory already."""
        arrays = self._arrays or [None]
        return self.load is None and all(type(array) is np.ndarray for array in arrays)

    @cached_property
    def row_spec(self) -> Any:
        """The shapes and dtypes of a row, a nest of tf.TensorSpec.

        Raises:
            DataError: none of the first can be read.
        """
        if self._arrays is not None:
            return tf.nest.map_structure(lambda a: _spec(a, a.shape[1:]), self.source)
        return self._spec_of_first(lambda row: _nest_of_arrays(self.source[self._number(row)]))

    @cached_property
    def element_spec(self) -> Any:
        """The shapes and dtypes of an example, a nest of tf.TensorSpec.

        Raises:
            DataError: none of the first can be read.
        """
        if self.load is None:
            return self.row_spec
        return self._spec_of_first(lambda row: self._loaded(self._row(row)))

    def batches(
        self, numbers: tf.data.Dataset, finish: Finish, *, label: str, bad: BadExamples
    ) -> tf.data.Dataset:
        """The examples at row numbers.

        Args:
            numbers: of int64 tensors, all of one shape S, with PADDING for what isn't there.
            finish: what to make of examples, a nest of (..., S, ...), and of bool (..., S).
            label: what to call the split in a sentence.
            bad: where examples go that can't be read.
        """
        shape = numbers.element_spec.shape

        @without_autograph
        def read(rows: tf.Tensor) -> Any:
            return finish(*self._read_in_graph(rows, label, bad))

        if self.load is None:
            # Several batches at once: calling a function costs tf.data more than reading a small
            # batch does, together half a step of a small model (TF 2.21). Python is slow by itself,
            # unless it gives many rows at once.
            size = sum(
                s.shape.num_elements() * s.dtype.size for s in tf.nest.flatten(self.row_spec)
            )
            most = BATCHES_TOGETHER
            if self._arrays is None:
                most = GIVEN_TOGETHER if hasattr(self.source, "__getitems__") else 1
            together = min(most, BYTES_TOGETHER // max(1, size * shape.num_elements()))
            if together <= 1:
                return numbers.map(read, num_parallel_calls=tf.data.AUTOTUNE)
            several = numbers.batch(together)
            return several.map(read, num_parallel_calls=tf.data.AUTOTUNE).unbatch()

        @without_autograph
        def row_by_row(rows: tf.Tensor) -> Any:
            rows = tf.reshape(rows, (-1,))
            return (rows, *self._read_in_graph(rows, label, bad))

        @without_autograph
        def finished(examples: Any, there: tf.Tensor) -> Any:
            def shaped(t: tf.Tensor) -> tf.Tensor:
                return tf.reshape(t, [*shape, *t.shape[1:]])

            return finish(tf.nest.map_structure(shaped, examples), shaped(there))

        rows = numbers.batch(BATCHES_TOGETHER).map(row_by_row).unbatch()
        loaded = rows.map(self._load_in_graph(label, bad), num_parallel_calls=tf.data.AUTOTUNE)
        return loaded.batch(shape.num_elements(), drop_remainder=True).map(finished)

    # In the input pipeline.

    def _read_in_graph(self, numbers: tf.Tensor, label: str, bad: BadExamples) -> tuple[Any, Any]:
        """Row numbers int64 S -> a nest of rows (S, ...), and bool S, whether each is there."""
        specs = tf.nest.flatten(self.row_spec)
        *flat, there = tf.numpy_function(
            lambda numbers: self._read(numbers, label, bad),
            [numbers],
            [*(spec.dtype for spec in specs), tf.bool],
            stateful=False,  # so that batches are made in parallel under --deterministic too
        )
        for t, spec in zip(flat, specs, strict=True):
            t.set_shape(numbers.shape.concatenate(spec.shape))
        there.set_shape(numbers.shape)
        return tf.nest.pack_sequence_as(self.row_spec, flat), there

    def _load_in_graph(self, label: str, bad: BadExamples) -> Callable[..., Any]:
        """(row number, row, whether it is there) -> (example, whether it is there)."""

        def load(number: tf.Tensor, row: Any, there: tf.Tensor) -> tuple[Any, tf.Tensor]:
            assert self.load is not None
            example = self.load(row)
            tf.nest.assert_same_structure(example, self.element_spec)
            same = tf.nest.map_structure(
                lambda t, spec: tf.ensure_shape(t, spec.shape), example, self.element_spec
            )
            return same, there

        def note(number: tf.Tensor, row: Any, there: tf.Tensor) -> tuple[Any, tf.Tensor]:
            def add(number: np.ndarray, there: np.ndarray, *row: np.ndarray) -> np.bool_:
                if there:
                    bad.add(label, int(number), f"can't be loaded{_texts(list(row))}")
                return np.False_

            left_out = tf.numpy_function(add, [number, there, *tf.nest.flatten(row)], tf.bool)
            nothing = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), self.element_spec)
            return nothing, tf.ensure_shape(left_out, ())

        def load_or_leave_out(*row: Any) -> tuple[Any, tf.Tensor]:
            one = tf.data.Dataset.from_tensors(row)
            return (
                one.map(load)
                .ignore_errors()
                .concatenate(one.map(note))
                .take(1)
                .get_single_element()
            )

        return load_or_leave_out if bad.most else load

    # In NumPy.

    def _read(self, numbers: np.ndarray, label: str, bad: BadExamples) -> list[np.ndarray]:
        """Row numbers int64 S -> the arrays of the rows, each (S, ...), and bool S."""
        there = numbers != PADDING
        rows = self._number(np.where(there, numbers, 0))
        if self._arrays is not None and all(isinstance(a, np.ndarray) for a in self._arrays):
            return [*(_take(array, rows) for array in self._arrays), there]
        specs = tf.nest.flatten(self.row_spec)
        flat = [_zeros((*numbers.shape, *spec.shape), spec.dtype) for spec in specs]
        given = self._given(rows[there].tolist())
        if isinstance(given, list):
            for array, several in zip(flat, given, strict=True):
                array[there] = several
            return [*flat, there]
        for place in zip(*np.nonzero(there), strict=True):
            try:
                values = self._row(int(numbers[place]), given)
            except DataError as error:
                bad.add(label, int(numbers[place]), str(error))
                there[place] = False
                continue
            for array, value in zip(flat, values, strict=True):
                array[place] = value[()]  # a text, and not an array of one
        return [*flat, there]

    def _given(self, rows: list[int]) -> dict[int, Any] | list[np.ndarray]:
        """Rows of the source that can be had together, or the arrays of all of them together.

        What fails is read by itself, so that the one that does is known.
        """
        if hasattr(self.source, "__getitems__"):
            try:
                given = self.source.__getitems__(rows)
                if not isinstance(given, dict | tuple | np.ndarray):
                    return dict(zip(rows, given, strict=True))
                given = _nest_of_arrays(given)
                _flat(tf.nest.map_structure(lambda a: _array(a[0]), given), self.row_spec)
                arrays = tf.nest.flatten(given)
                if {len(array) for array in arrays} == {len(rows)}:
                    return arrays
            except Exception:  # whatever the owner's may raise
                pass
        return {}

    def _row(self, number: int, given: dict[int, Any] | None = None) -> list[np.ndarray]:
        """The arrays of a row, in the order of tf.nest.

        Raises:
            DataError: it can't be read, or differs from the first one.
        """
        row = int(self._number(number))
        try:
            if self._arrays is not None:
                found = tf.nest.map_structure(lambda array: _array(array[row]), self.source)
            else:
                found = _nest_of_arrays(given[row] if given and row in given else self.source[row])
        except DataError:
            raise
        except Exception as error:  # whatever the owner's may raise
            raise DataError(f"can't be read: {cause_of(error)}") from error
        return _flat(found, self.row_spec)

    def _number(self, rows: Any) -> Any:
        """Row numbers of the source."""
        return rows if self._selected is None else self._selected[rows]

    def _loaded(self, row: list[np.ndarray]) -> Example:
        """What `load` makes of the arrays of a row, a nest of arrays.

        Raises:
            DataError: it fails.
        """
        assert self.load is not None
        try:
            tensors = tf.nest.pack_sequence_as(self.row_spec, list(map(tf.constant, row)))
            return _nest_of_arrays(self.load(tensors))
        except Exception as error:  # whatever the owner's may raise
            raise DataError(f"can't be loaded: {cause_of(error)}{_texts(row)}") from error

    def _spec_of_first(self, read: Callable[[int], Example]) -> Any:
        """The spec of the first example that can be read."""
        failure: Exception | None = None
        with tf.init_scope():  # eagerly, also while the graph of a pipeline is made
            for row in range(min(FIRST, len(self))):
                try:
                    return tf.nest.map_structure(lambda a: _spec(a, a.shape), read(row))
                except Exception as error:  # whatever the owner's may raise
                    failure = failure or error
        if failure is None:
            raise UsageError("There are no examples.")
        reason = (
            str(failure)
            if isinstance(failure, DataError)
            else f"can't be read: {cause_of(failure)}"
        )
        raise DataError(f"Example 0 (counted from 0) {reason}.") from failure


def has_rows(split: Any) -> bool:
    """Whether a split is an object with rows, `len(split)` and `split[row]`, and not arrays.

    Raises:
        UsageError: it gives batches.
    """
    if isinstance(split, keras.utils.PyDataset):
        raise UsageError(
            "A keras.utils.PyDataset gives batches; let create_datasets return what gives single "
            "examples: an object with __len__ and __getitem__, arrays, or a tf.data.Dataset."
        )
    nest = isinstance(split, dict | tuple | list | str | bytes)
    array = hasattr(split, "dtype") or hasattr(split, "__array__")
    rows = hasattr(split, "__len__") and hasattr(split, "__getitem__")
    return rows and not nest and not array


def _as_arrays(source: Any) -> Any:
    """A nest of what has `shape`, `dtype` and rows along the first axis; nothing is copied."""
    if isinstance(source, dict):
        return {name: _as_arrays(part) for name, part in source.items()}
    if isinstance(source, tuple):
        return tuple(map(_as_arrays, source))
    if isinstance(source, list):
        if source and all(getattr(part, "shape", ()) for part in source):
            return list(map(_as_arrays, source))
        source = [str(part) if isinstance(part, PurePath) else part for part in source]
    on_disk = all(hasattr(source, name) for name in ("shape", "dtype", "__getitem__"))
    in_memory = any(hasattr(source, name) for name in ("__dlpack__", "iloc"))  # as of pandas
    array = source if on_disk and not in_memory else np.asanyarray(source)
    if not array.shape:
        raise UsageError(
            f"A split of create_datasets is or holds a {type(source).__name__}; it must be arrays, "
            "a tf.data.Dataset, or an object with __len__ and __getitem__."
        )
    return array


def _nest_of_arrays(example: Any) -> Example:
    """Dicts and tuples of arrays; lists are arrays too.

    Raises:
        DataError: there is something else in it.
    """
    if isinstance(example, dict):
        return {name: _nest_of_arrays(part) for name, part in example.items()}
    if isinstance(example, tuple):
        return tuple(map(_nest_of_arrays, example))
    return _array(example)


def _array(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind in "US":
        array = array.astype(object)
    if array.dtype.kind == "O" and not all(isinstance(v, str | bytes) for v in array.flat):
        kinds = sorted({type(v).__name__ for v in array.flat} - {"str", "bytes"})
        raise DataError(f"holds {' and '.join(kinds)}, not only numbers or texts")
    return array


def _spec(array: Any, shape: Any) -> tf.TensorSpec:
    kind = np.dtype(array.dtype).kind
    try:
        dtype = tf.string if kind in "OUS" else tf.as_dtype(np.dtype(array.dtype).newbyteorder("="))
    except TypeError as error:
        raise UsageError(
            f"The data holds {array.dtype}, which TensorFlow doesn't have; convert it to a number."
        ) from error
    return tf.TensorSpec(shape, dtype)


def _flat(example: Example, spec: Any) -> list[np.ndarray]:
    """The arrays of an example, in the order of tf.nest.

    Raises:
        DataError: it differs from the first example.
    """
    try:
        tf.nest.assert_same_structure(example, spec)
    except (TypeError, ValueError) as error:
        raise DataError("has other parts than the first one") from error
    flat = tf.nest.flatten(example)
    for array, wanted in zip(flat, tf.nest.flatten(spec), strict=True):
        if array.dtype == wanted.dtype.as_numpy_dtype and array.shape == tuple(wanted.shape):
            continue  # a spec takes ten times as long
        found = _spec(array, array.shape)
        if not wanted.is_compatible_with(found):
            is_, was = (f"{s.dtype.name} {tuple(s.shape)}" for s in (found, wanted))
            raise DataError(f"holds {is_} where the first one has {was}")
    return flat


def _zeros(shape: tuple[int, ...], dtype: tf.DType) -> np.ndarray:
    """Aligned, so that TensorFlow takes it without a copy."""
    if dtype == tf.string:
        return np.full(shape, b"", object)
    return _aligned(np.zeros, shape, np.dtype(dtype.as_numpy_dtype))


def _take(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows of an array, copied once; other threads run meanwhile."""
    if array.dtype.kind in "OUS":
        return np.asarray(array)[rows].astype(object)
    if not array.dtype.isnative:
        return array[rows].astype(array.dtype.newbyteorder("="))
    if not (array.flags.c_contiguous and array.flags.aligned):
        return array[rows]  # np.take would copy the whole array (NumPy 2.4)
    out = _aligned(np.empty, (*rows.shape, *array.shape[1:]), array.dtype)
    return np.take(array, rows, axis=0, out=out, mode="clip")  # "raise" would copy twice


def _aligned(make: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    size = math.prod(shape) * dtype.itemsize
    raw = make(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def _texts(row: list[np.ndarray]) -> str:
    """The texts of a row, such as the name of a file, for the end of a sentence."""
    texts = [a.item() for a in row if a.dtype.kind in "OUS" and not a.shape]
    read = [t.decode(errors="replace") if isinstance(t, bytes) else t for t in texts]
    shown = [repr(t) for t in read if t.isprintable() and len(t) <= LONGEST_TEXT]
    return f" ({', '.join(shown)})" if shown else ""
