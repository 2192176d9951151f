"""Examples by row number, whatever holds them: arrays, files, tables, or references to load."""

from __future__ import annotations

import contextlib
import copy
import operator
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .bad_examples import BadExamples, sentence
from .causes import cause_of
from .errors import RESUMABLE, DataError, UsageError, code_of
from .rows import (
    Example,
    as_arrays,
    as_example,
    flat_example,
    form_of,
    repeated,
    spec_of,
    take,
    texts_in,
)

PADDING = -1  # the row number of an example that isn't there
BATCHES_TOGETHER, BYTES_TOGETHER = 32, 2**20  # read at once, at most
GIVEN_TOGETHER = 8  # batches, of `__getitems__`: the first one waits for all of them
SOME = 20  # rows whose texts are measured
FIRST = 100  # of so many examples one must be readable, so that the form of all is known

Finish = Callable[[Any, tf.Tensor], Any]  # examples, whether each is there -> an element

# Translating plain tensor code for tf.data costs a second at every start (TF 2.21).
without_autograph = tf.autograph.experimental.do_not_convert


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
            self.source = as_arrays(source)
            self._arrays = tf.nest.flatten(self.source)
            lengths = {array.shape[0] for array in self._arrays}  # Zarr 3 has no len
            if len(lengths) != 1:
                raise UsageError(f"The arrays of one split differ in length: {sorted(lengths)}.")
        self._selected: np.ndarray | None = None  # rows of the source; None: all

    def __len__(self) -> int:
        """How many examples there are."""
        if self._selected is not None:
            return len(self._selected)
        return len(self.source) if self._arrays is None else self._arrays[0].shape[0]

    def __getitem__(self, row: int) -> Example:
        """One example, a nest of arrays.

        Raises:
            IndexError: there is no such row.
            DataError: it can't be read, or differs from the first example.
        """
        row = operator.index(row)
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no example {row}: there are {len(self)}")
        row %= len(self)
        _ = self.row_spec  # where none of the first can be read, that is said of the first
        try:
            return self._example(row)
        except DataError as error:
            raise DataError(sentence(row, "", str(error))) from error.__cause__

    def why_unreadable(self, row: int) -> str:
        """Why an example can't be read, for the middle of a sentence; "" if it can."""
        try:
            self._example(row)
        except DataError as error:
            return str(error)
        return ""

    def select(self, rows: Any) -> RandomAccess:
        """The examples at `rows` int (n,), in that order, or where `rows` bool (examples,) holds.

        Raises:
            UsageError: `rows` is something else, or has a number that is no row's.
        """
        selected = copy.copy(self)
        rows = np.asarray(rows)
        if rows.dtype == bool and rows.shape == (len(self),):
            rows = np.flatnonzero(rows)
        is_rows = rows.ndim == 1 and (rows.dtype.kind in "iu" or not rows.size)
        if not is_rows or (rows.size and not 0 <= rows.min() <= rows.max() < len(self)):
            raise UsageError(
                f"The rows to select are {rows.dtype} {rows.shape}; they must be numbers of the "
                f"{len(self)} rows, the first is 0, or a boolean for each."
            )
        rows = rows.astype(np.int64)
        selected._selected = rows if self._selected is None else self._selected[rows]
        return selected

    @property
    def in_memory(self) -> bool:
        """Whether every example is an array in memory already."""
        arrays = self._arrays or [None]
        return self.load is None and all(type(array) is np.ndarray for array in arrays)

    @property
    def arrays(self) -> Any:
        """All examples, a nest of arrays (n, ...), if they are in memory; None if not."""
        if not self.in_memory or self._selected is None:
            return self.source if self.in_memory else None
        return tf.nest.map_structure(lambda array: array[self._selected], self.source)

    @property
    def _in_numpy(self) -> bool:
        return all(isinstance(array, np.ndarray) for array in self._arrays or [None])

    @cached_property
    def row_spec(self) -> Any:
        """The shapes and dtypes of a row, a nest of tf.TensorSpec.

        Raises:
            DataError: none of the first can be read.
        """
        if self._arrays is not None:
            return tf.nest.map_structure(lambda a: spec_of(a, a.shape[1:]), self.source)
        return tf.nest.map_structure(lambda a: spec_of(a, a.shape), self._first_row)

    @cached_property
    def _row_form(self) -> Any:
        return form_of(self.row_spec)

    @cached_property
    def element_spec(self) -> Any:
        """The shapes and dtypes of an example, a nest of tf.TensorSpec.

        Raises:
            DataError: none of the first can be read.
        """
        if self.load is None:
            return self.row_spec
        return tf.nest.map_structure(lambda a: spec_of(a, a.shape), self._first_example)

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

        together = self._batches_together(shape.num_elements())
        if together > 1:
            numbers = numbers.batch(together)
        if self.load is None:
            batches = numbers.map(read, num_parallel_calls=tf.data.AUTOTUNE)
            return batches.unbatch() if together > 1 else batches

        @without_autograph
        def row_by_row(rows: tf.Tensor) -> Any:
            rows = tf.reshape(rows, (-1,))
            return (rows, *self._read_in_graph(rows, label, bad))

        @without_autograph
        def finished(examples: Any, there: tf.Tensor) -> Any:
            def shaped(t: tf.Tensor) -> tf.Tensor:
                return tf.reshape(t, [*shape, *t.shape[1:]])

            return finish(tf.nest.map_structure(shaped, examples), shaped(there))

        rows = numbers.map(row_by_row, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
        loaded = rows.map(self._load_in_graph(label, bad), num_parallel_calls=tf.data.AUTOTUNE)
        return loaded.batch(shape.num_elements(), drop_remainder=True).map(finished)

    # In the input pipeline.

    def _batches_together(self, examples: int) -> int:
        """How many batches of so many examples are read at once.

        Calling a function costs tf.data more than reading a small batch does, together half a step
        of a small model (TF 2.21). Python is slow by itself, unless it gives many rows at once, and
        may give a whole file for a row.
        """
        specs, most = tf.nest.flatten(self.row_spec), BATCHES_TOGETHER
        if not self._in_numpy:
            has_texts = any(spec.dtype == tf.string for spec in specs)  # of any length
            most = GIVEN_TOGETHER if hasattr(self.source, "__getitems__") and not has_texts else 1
        size = sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)
        size += self._size_of_texts() if self._in_numpy else 0  # of which their dtype says nothing
        return min(most, max(1, BYTES_TOGETHER // max(1, size * examples)))

    def _size_of_texts(self) -> int:
        """About how many bytes the texts of a row of arrays take."""
        arrays = [array for array in self._arrays or [] if array.dtype.kind in "OSU"]
        rows = {*range(0, len(self), 1 + len(self) // SOME)}
        return max(
            (sum(len(t) for a in arrays for t in a[i : i + 1].flat) for i in rows), default=0
        )

    def _read_in_graph(self, numbers: tf.Tensor, label: str, bad: BadExamples) -> tuple[Any, Any]:
        """Row numbers int64 S -> a nest of rows (S, ...), and bool S, whether each is there."""
        specs = tf.nest.flatten(self.row_spec)
        *flat, there, may_go_on = tf.numpy_function(
            lambda numbers: self._read(numbers, label, bad),
            [numbers],
            [*(spec.dtype for spec in specs), tf.bool, tf.bool],
            stateful=False,  # so that batches are made in parallel under --deterministic too
        )
        there = _end_unless(may_go_on, there)
        for t, spec in zip(flat, specs, strict=True):
            t.set_shape(numbers.shape.concatenate(spec.shape))
        there.set_shape(numbers.shape)
        return tf.nest.pack_sequence_as(self.row_spec, flat), there

    def _load_in_graph(self, label: str, bad: BadExamples) -> Callable[..., Any]:
        """(row number, row, whether it is there) -> (example, whether it is there)."""

        spec = self.element_spec  # now: in a graph AutoGraph would wrap the sentence of its error

        def load(number: tf.Tensor, row: Any, there: tf.Tensor) -> tuple[Any, tf.Tensor]:
            assert self.load is not None
            example = self.load(row)
            tf.nest.assert_same_structure(example, spec)
            same = tf.nest.map_structure(lambda t, s: tf.ensure_shape(t, s.shape), example, spec)
            return same, there

        def note(number: tf.Tensor, row: Any, there: tf.Tensor) -> tuple[Any, tf.Tensor]:
            @without_autograph
            def add(number: np.ndarray, there: np.ndarray, *row: np.ndarray) -> np.bool_:
                if not there:
                    return np.bool_(True)
                reason, may_pass = f"can't be loaded{texts_in(row)}", self._may_load(int(number))
                return np.bool_(bad.add(label, int(number), reason, may_pass=may_pass))

            may_go_on = tf.numpy_function(add, [number, there, *tf.nest.flatten(row)], tf.bool)
            other = tf.nest.map_structure(tf.constant, self._first_example)
            return other, _end_unless(may_go_on, tf.constant(False))

        def cast(t: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
            return tf.cast(t, spec.dtype)  # of a Python number NumPy makes 64 bits

        def load_or_leave_out(*row: Any) -> tuple[Any, tf.Tensor]:
            one = tf.data.Dataset.from_tensors(row)
            loaded = one.map(load)
            spec = loaded.element_spec
            other = one.map(note).map(lambda *o: tf.nest.map_structure(cast, o, spec))
            return loaded.ignore_errors().concatenate(other).take(1).get_single_element()

        return load_or_leave_out if bad.most else load

    # In NumPy.

    def _may_load(self, number: int) -> bool:
        """Whether an example that couldn't be loaded isn't bad: storage fails, or did."""
        try:
            with tf.device("CPU:0"):  # a GPU takes an index that is out of range
                self._example(number)
        except DataError as error:
            return code_of(error) == RESUMABLE
        return True

    def _read(self, numbers: np.ndarray, label: str, bad: BadExamples) -> list[np.ndarray]:
        """Row numbers int64 S -> the arrays of the rows, each (S, ...), bool S, and bool.

        Whether each is there, and whether those that can't be read aren't too many.
        """
        there = numbers != PADDING
        may_go_on = np.array(True)
        rows = self._number(np.where(there, numbers, 0))
        if self._arrays is not None and self._in_numpy:
            return [*(take(array, rows) for array in self._arrays), there, may_go_on]
        first = tf.nest.flatten(self._first_row)
        flat = [repeated((*numbers.shape, *array.shape), array) for array in first]
        given = self._given(rows[there].tolist())
        if isinstance(given, list):
            for array, several in zip(flat, given, strict=True):
                array[there] = several
            return [*flat, there, may_go_on]
        for place in zip(*np.nonzero(there), strict=True):
            try:
                values = self._row(int(numbers[place]), given)
            except DataError as error:
                there[place] = False
                may_pass = code_of(error) == RESUMABLE
                if not bad.add(label, int(numbers[place]), str(error), may_pass=may_pass):
                    may_go_on = np.array(False)
                    break
                continue
            for array, value in zip(flat, values, strict=True):
                array[place] = value[()]  # of a text the text, not an array of it
        return [*flat, there, may_go_on]

    def _given(self, rows: list[int]) -> dict[int, Any] | list[np.ndarray]:
        """Rows of the source that can be had together, or the arrays of all of them together.

        What fails is read by itself, so that the one that does is known.
        """
        if rows and hasattr(self.source, "__getitems__"):
            with contextlib.suppress(Exception):  # whatever the owner's may raise
                given = self.source.__getitems__(rows)
                if not isinstance(given, dict | tuple | np.ndarray):
                    return dict(zip(rows, given, strict=True))
                return flat_example(given, self._row_form, rows=len(rows))
        return {}

    def _row(self, number: int, given: dict[int, Any]) -> list[np.ndarray]:
        """The arrays of a row, in the order of tf.nest; from `given`, if it is there.

        Raises:
            DataError: it can't be read, or differs from the first one.
        """
        row = int(self._number(number))
        try:
            found = given[row] if row in given else self._from_source(row)
            return flat_example(found, self._row_form)
        except DataError:
            raise
        except Exception as error:  # whatever the owner's may raise
            raise DataError(f"can't be read: {cause_of(error)}") from error

    def row(self, number: int) -> Any:
        """A row as `load` gets it, a nest of arrays.

        Raises:
            DataError: it can't be read, or differs from the first one.
        """
        return tf.nest.pack_sequence_as(self.row_spec, self._row(number, {}))

    def _example(self, row: int) -> Example:
        """An example, a nest of arrays.

        Raises:
            DataError: it can't be read, or differs from the first one.
        """
        flat = self._row(row, {})
        if self.load is not None:
            flat = flat_example(self._loaded(flat), form_of(self.element_spec))
        return tf.nest.pack_sequence_as(self.element_spec, flat)

    def _from_source(self, row: int) -> Any:
        if self._arrays is not None:
            return tf.nest.map_structure(lambda array: array[row], self.source)
        return self.source[row]

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
            return as_example(self.load(tensors))
        except Exception as error:  # whatever the owner's may raise
            raise DataError(f"can't be loaded: {cause_of(error)}{texts_in(row)}") from error

    @cached_property
    def _first_row(self) -> Any:
        """The first row that can be read; it stands where one isn't there."""
        return self._first(lambda row: as_example(self._from_source(int(self._number(row)))))

    @cached_property
    def _first_example(self) -> Example:
        """The first example that can be loaded; it stands where one isn't there."""
        return self._first(lambda row: self._loaded(self._row(row, {})))

    def _first(self, read: Callable[[int], Any]) -> Any:
        failure: Exception | None = None
        with tf.init_scope():  # eagerly, also while the graph of a pipeline is made
            for row in range(min(FIRST, len(self))):
                try:
                    return read(row)
                except Exception as error:  # whatever the owner's may raise
                    failure = failure or error
        if failure is None:
            raise UsageError("There are no examples.")
        reason = f"can't be read: {cause_of(failure)}"
        if isinstance(failure, DataError):
            reason = str(failure)
        raise DataError(sentence(0, "", reason)) from failure


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
    names = isinstance(split, Mapping) and all(isinstance(name, str) for name in split)
    nest = names or isinstance(split, dict | tuple | list | str | bytes)
    array = hasattr(split, "dtype") or hasattr(split, "__array__")
    rows = hasattr(split, "__len__") and hasattr(split, "__getitem__")
    return rows and not nest and not array


def _end_unless(may_go_on: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """The value; fails in the graph if a bool scalar is false."""
    with tf.control_dependencies([tf.debugging.Assert(may_go_on, ["an example can't be read"])]):
        return tf.identity(value)
