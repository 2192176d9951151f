"""Why a graph call fails on its data, in one sentence."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import cluster, link
from .bad_examples import COUNTED, sentence
from .batches import (
    MAKES_BATCHES,
    ONE_TO_ONE,
    TRAINING_DATA,
    Split,
    chain,
    label_of_own,
    worker_split,
)
from .causes import (
    cause_of,
    is_reading,
    is_without_value,
    mend_of_dtypes,
    message_of,
    place_of,
    raised_by,
)
from .errors import DataError, PassingDataError
from .lost_worker import is_lost_worker
from .random_access import RandomAccess
from .types import Run

# What TF 2.21 says on the CPU. On a GPU the loss is NaN instead, and the step is skipped.
LABEL = re.compile(r"Received a label value of (\S+) which is outside the valid range of (\[.*?\))")
INDEX = re.compile(r"indices\[[\d,]*\] = (\S+) is not in (\[.*?\))")
LENGTH = re.compile(r"Input dataset was expected to contain (\d+) elements but contained (.*?)\.")

# Of TensorFlow and Keras about shapes, dtypes and structures, and of Python about the latter.
FORM = re.compile(
    r"\bshapes?\b|\bdimensions?\b|\bn?dim\b|\brank\b|\bdtypes?\b|\bhas type\b|\bhave types\b"
    r"|\bcast \w+ to\b|non-tensor|tensor but is an? |^Missing data for input"
    r"|values to unpack \(expected|passed to parameter",
    re.IGNORECASE,
)
UNPACKED = re.compile(r"values to unpack \(expected \d+, got (\d+)\)")
# Of a layer made in a step, and of `fit`, `evaluate` and `predict` there (Keras 3.15, TF 2.21).
OF_KERAS = re.compile(
    r"You must call `compile\(\)` before|create a variable while in a stateless scope"
    r"|requires being in cross-replica context|only supports singleton tf\.Variables"
)
NAMED_BY_KERAS = re.compile(r"(keras_tensor|input_layer)(_\d+)?")
PARTS = ("inputs", "labels", "weights")  # of a batch, see `batches.py`

SEARCH_SECS = 30  # for an example that can't be read
LONGEST_ORIGIN = 200  # characters
# Those of which an element can be found again by its place.
BY_PLACE = ONE_TO_ONE | {"_AssertCardinalityDataset", "_TakeDataset"}


def split_label(split: str) -> str:
    """The name of a split in a sentence."""
    return TRAINING_DATA if split == "train" else f"{split} data"


@contextlib.contextmanager
def data_errors(
    split: str, run: Run, element: Any, data: Split = None, rows: Iterable[int] = ()
) -> Iterator[None]:
    """Around a graph call: its failure on unusable data as one sentence, any other as it is.

    Args:
        split: which data.
        run: what the factories made.
        element: the spec of a batch, a nest of (replicas, rows, ...).
        data: the split itself.
        rows: of random access, in the order in which they are read; in that of the data if none
            are given.

    Raises:
        DataError: the data can't be read, ended early, has another form than the model or a step
            takes, or a label or index is out of range.
    """
    label = split_label(split)
    try:
        if reason := _misfit(run, element, shapes=False):  # Keras would cast in silence
            raise DataError(f"The {label} doesn't fit the model: {reason}.")
        yield
    except tf.errors.OutOfRangeError as error:
        if is_lost_worker(error):
            raise
        raise DataError(
            f"The {label} ended early: it has fewer examples than it should have."
        ) from error
    except (tf.errors.OpError, ValueError, TypeError, RuntimeError) as error:
        if is_lost_worker(error):
            raise
        if reason := _out_of_range(str(error)):
            reason += _empty_files(data) if LENGTH.search(str(error)) else ""
            raise DataError(f"The {label} can't be used: {reason}.") from error
        if run.bad_examples.failure:
            kind = PassingDataError if run.bad_examples.may_pass else DataError
            raise kind(run.bad_examples.failure) from error
        if "cache lockfile already exists" in str(error):
            own = "give each worker a file of its own, by engine.cluster.worker_index(), or "
            raise DataError(
                f"The {label} is read by .cache(file), whose file another process is writing, or a "
                f"killed one was: {own * (cluster.num_workers() > 1)}if none is, delete the "
                "*.lockfile beside it."
            ) from error
        if is_reading(error):
            raise DataError(_unreadable({split: data}, error, rows)) from error
        if not isinstance(error, RuntimeError) and (
            reason := _misfit(run, element, shapes=True, data=data)
        ):
            raise DataError(f"The {label} doesn't fit the model: {reason}.") from error
        if reason := _misfit_of_step(run, element, error, label, _size_of_batches(element, data)):
            raise DataError(f"{cause_of(error)}; {reason}.") from error
        raise


@contextlib.contextmanager
def reading_errors(splits: dict[str, Split]) -> Iterator[None]:
    """Around anything else that reads the data: its failure as one sentence, as in `data_errors`.

    Raises:
        DataError: the data can't be read.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if not is_reading(error):
            raise
        raise DataError(_unreadable(splits, error)) from error


def _unreadable(splits: dict[str, Split], error: Exception, rows: Iterable[int] = ()) -> str:
    """Which example can't be read, and why: batches and prefetching hide it."""
    secs = link.at_most(SEARCH_SECS)
    read, time_is_up, hint = [], False, ""
    for name, split in splits.items():
        if split is None:
            continue
        data, label = worker_split(split), label_of_own(split, split_label(name))
        end = time.monotonic() + secs
        if isinstance(data, RandomAccess):
            if data.in_memory:
                continue
            number, row, reason = _find_row(data, rows, end)
            if reason:
                return sentence(row, label, reason)
            read.append(f"{number} of the {label}")
            if time.monotonic() > end:
                time_is_up, hint = True, "; --max-bad-examples 1 leaves it out and names it"
            continue
        number, reason = _find(data, end)
        if reason:
            return f"{_example(data, number)} of the {label} {reason}{_origin(data, number)}."
        read.append(f"the first {number} of the {label}")
        time_is_up |= time.monotonic() > end
    if time_is_up:
        return (
            f"A batch can't be made: {cause_of(error)}; the example wasn't found within {secs:g} "
            f"seconds, among {', '.join(read)}{hint}."
        )
    alone = f", though each example can be read alone ({', '.join(read)})" if read else ""
    return f"A batch can't be made: {cause_of(error)}{alone}; look at create_augment."


def _find_row(data: RandomAccess, rows: Iterable[int], end: float) -> tuple[int, int, str]:
    """How many rows could be read before the first that can't, that row, and the reason or ""."""
    number = 0
    for row in rows or range(len(data)):
        if time.monotonic() > end:
            break
        if reason := data.why_unreadable(row):
            return number, row, reason
        number += 1
    return number, 0, ""


def _kinds(stream: tf.data.Dataset) -> list[str]:
    return [type(dataset).__name__ for dataset in chain(stream)]


def _find(stream: tf.data.Dataset, end: float) -> tuple[int, str]:
    """The first example that can't be read, and the reason; or how many were read, and ""."""
    datasets = [stream]
    for dataset in chain(stream)[:-1]:
        if type(dataset).__name__ not in BY_PLACE:
            break
        # A cache that was interrupted has lost the example that failed (TF 2.21).
        if type(dataset).__name__ == "CacheDataset":
            datasets.insert(0, dataset._inputs()[0])
    for dataset in datasets:
        number, reason = _first_unreadable(dataset, end)
        if reason:
            break
    return number, reason


def _first_unreadable(stream: tf.data.Dataset, end: float) -> tuple[int, str]:
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True  # the examples before one that fails come before its error
    options.threading.private_threadpool_size = 1
    number = 0
    shapes: list[tuple[int, ...]] = []
    try:
        for example in stream.with_options(options):
            found = [tuple(t.shape) for t in tf.nest.flatten(example)]
            shapes = shapes or found
            for before, shape in zip(shapes, found, strict=True):
                if shape != before:
                    return number, f"has the shape {shape}, and those before it have {before}"
            number += 1
            if time.monotonic() > end:
                break
    except tf.errors.OpError as error:
        return number, f"can't be read: {cause_of(error)}"
    return number, ""


def _example(stream: tf.data.Dataset, number: int) -> str:
    kinds = " ".join(_kinds(stream))
    if "Shuffle" in kinds:  # another order each time
        return "An example"
    together = " or one batched with it" if "Unbatch" in kinds else ""
    return f"Example {number}{together} {COUNTED}"


def _origin(stream: tf.data.Dataset, number: int) -> str:
    """The line or the file name that an example was made of, and the files that were read."""
    datasets, kinds, found = chain(stream), _kinds(stream), []
    source = next((d for d, k in zip(datasets, kinds, strict=True) if k not in BY_PLACE), stream)
    if "Shuffle" not in " ".join(kinds):
        with contextlib.suppress(tf.errors.OpError, StopIteration):
            texts = [
                t.numpy().decode(errors="replace")
                for t in tf.nest.flatten(next(iter(source.skip(number))))
                if t.dtype == tf.string and t.shape.rank == 0
            ]
            found = [repr(t) for t in texts if t.isprintable() and len(t) <= LONGEST_ORIGIN]
    if paths := _files(stream):
        found.append(" or ".join(paths) if len(paths) < 4 else f"one of {len(paths)} files")
    return f" ({', in '.join(found)})" if found else ""


def _files(stream: tf.data.Dataset) -> list[str]:
    """The names of the files that a stream reads, where they can be known."""
    datasets, kinds = chain(stream), _kinds(stream)
    files = [d._filenames for d in datasets if hasattr(d, "_filenames")]  # private (TF 2.21)
    if not files and re.search("Interleave|FlatMap", " ".join(kinds)):  # over names of files
        files = [datasets[-1]] if datasets[-1].element_spec == tf.TensorSpec((), tf.string) else []
    if not files:
        return []
    names = files[0] if isinstance(files[0], tf.data.Dataset) else tf.reshape(files[0], [-1])
    return [name.numpy().decode(errors="replace") for name in names]


def _empty_files(split: Split) -> str:
    """Which files of a stream are empty, for the end of a sentence."""
    data = None if split is None else worker_split(split)
    files = _files(data) if isinstance(data, tf.data.Dataset) else []
    empty = [
        file for file in files if tf.io.gfile.exists(file) and not tf.io.gfile.stat(file).length
    ]
    if not empty:
        return ""
    return f" ({empty[0]} is empty)" if len(empty) == 1 else f" ({len(empty)} files are empty)"


def _out_of_range(message: str) -> str:
    if match := LABEL.search(message):
        return f"a label is {match[1]}, outside the range {match[2]} of the model's classes"
    if match := INDEX.search(message):
        return f"an index is {match[1]}, outside the range {match[2]}"
    if match := LENGTH.search(message):
        return f"it should have {match[1]} examples, and has {match[2].split(' ele')[0]}"
    return ""


def _misfit(run: Run, element: Any, *, shapes: bool, data: Split = None) -> str:
    """How the inputs of a batch differ from what the only model takes; several may take others.

    With `shapes` it is known that something fails: a train step may well prepare what it gets, and
    hand over what a dict holds by other names in any order.
    """
    (model, *others) = run.trained_models.values()
    wanted, inputs = getattr(model, "inputs", None) or [], element[0]
    given = tf.nest.flatten(inputs)
    if others or len(wanted) != len(given):
        return ""
    if isinstance(inputs, dict) and inputs.keys() == {tensor.name for tensor in wanted}:
        given = [inputs[tensor.name] for tensor in wanted]  # as Keras does
    elif isinstance(inputs, dict) and len(given) > 1:
        form = getattr(model, "input", None)
        if not isinstance(form, dict) or form.keys() != inputs.keys():
            return ""  # only the step knows which is which
    for tensor, spec in zip(wanted, given, strict=True):
        shape, rows = tf.TensorShape(tensor.shape[1:]), spec.shape[2:]
        kinds = _kind(tf.as_dtype(tensor.dtype)), _kind(spec.dtype)
        fits = shape.is_compatible_with(rows)
        cast = kinds[0] == kinds[1] or kinds == ("float", "int")
        if not shapes:  # texts may be looked up in the step
            cast = kinds != ("int", "float")
        if (shapes and not fits) or (fits and not cast):
            given_is = f"{spec.dtype.name} {tuple(rows)}"
            batches = not fits and rows.rank and shape.is_compatible_with(rows[1:])
            may_be = batches and not isinstance(data, tuple | dict | np.ndarray)
            hint = "; a tf.data.Dataset of batches needs .unbatch()" if may_be else ""
            takes = f"{tensor.dtype} {tuple(shape)}{hint}"
            unnamed = given == [inputs] and NAMED_BY_KERAS.fullmatch(tensor.name)
            what = "the inputs are" if unnamed else f"{tensor.name} is"
            return f"{what} {given_is}, and the model takes {takes}"
    return ""


def _size_of_batches(element: Any, data: Split) -> int:
    """How many examples a stream seems to hold in each of its own, 0 if it isn't batched."""
    stream = None if data is None else worker_split(data)
    kinds = set(_kinds(stream)) if isinstance(stream, tf.data.Dataset) else set[str]()
    if not kinds & MAKES_BATCHES or "_UnbatchDataset" in kinds:
        return 0
    sizes = {(*spec.shape, None)[2] for spec in tf.nest.flatten(element[:-1])}
    return sizes.pop() or 0 if len(sizes) == 1 else 0


def _misfit_of_step(run: Run, element: Any, error: Exception, label: str, batched: int) -> str:
    """What a step got that failed on a shape, a dtype or a part; "" if it failed on another thing.

    Training and validation data may have other parts, and a step may change them before it calls
    the model, so nothing is compared before a step fails.

    Args:
        run: what the factories made.
        element: the spec of a batch, a nest of (replicas, rows, ...).
        error: of the step.
        label: the name of the split in a sentence.
        batched: see `_size_of_batches`.
    """
    text = message_of(error)
    # That of a layer's variables comes when the step has ended.
    if OF_KERAS.search(text) and (place_of(error) or "singleton" in text):
        return (
            "a step makes no layer, and calls no fit, evaluate or predict, which make their own "
            "steps: make layers in create_model, and call models, as run.model(x, training=True)"
        )
    if not place_of(error) or is_without_value(error) or not FORM.search(text):
        return ""
    if raised_by(error).startswith("raise"):
        return ""
    names = (*PARTS[: len(element) - 1], PARTS[-1])
    parts = dict(zip(names, map(_form, element), strict=True))
    is_ = f"in the {label} {', '.join(f'{name} are {form}' for name, form in parts.items())}"
    outputs = _outputs(run)
    if outputs is not None:
        is_ += f", and the model's output is {_form(outputs, batch_axes=1)}"
    mend = "look at that line, and at what create_datasets in task/data.py returns"
    texts = any(spec.dtype == tf.string for spec in tf.nest.flatten(element[:-1]))
    low = {model.compute_dtype for model in run.models.values()} & {"float16", "bfloat16"}
    if batched > 1:
        mend = (
            f"all parts begin with an axis of {batched}, as batch({batched}, drop_remainder=True) "
            "gives them: leave drop_remainder out, or add .unbatch()"
        )
    elif (found := UNPACKED.search(text)) and found[1] == str(len(element)):
        mend = f"a batch has {len(element)} parts, as create_datasets in task/data.py returns them"
        if isinstance(element[0], dict):
            mend += ", where a dict is the inputs by name: inputs and labels are a tuple, (x, y)"
    elif texts and "string" in text:
        mend = "make numbers of texts, such as by np.unique(labels, return_inverse=True)[1]"
    elif cast := mend_of_dtypes(error, keras.config.floatx()):
        mend = cast
    elif any(re.search(rf"\b{dtype}\b", text) for dtype in low):
        mend = "give the model's last layer dtype=keras.config.floatx(), or use tf.cast"
    elif "unknown rank" in text:
        mend = (
            "== between shapes that aren't known forgets the shape, and other operations may: use "
            "tf.equal, or tf.ensure_shape"
        )
    elif len(element) == 3 and _is_per_class(run, element[1], outputs):
        mend = (
            "labels have a number for each class, as one-hot ones do, where a sparse loss or "
            "metric takes the class: use np.argmax(labels, axis=-1), or CategoricalCrossentropy "
            "and CategoricalAccuracy"
        )
    return f"{is_}: {mend}"


def _form(part: Any, batch_axes: int = 2) -> Any:
    """Dtype and shape of an example's part, without replicas and rows, for a sentence."""
    if isinstance(part, dict):
        parts = ", ".join(f"{name}: {_form(each, batch_axes)}" for name, each in part.items())
        return "{" + parts + "}"
    if isinstance(part, tuple | list):
        return f"({', '.join(_form(each, batch_axes) for each in part)})"
    return f"{tf.as_dtype(part.dtype).name} {tuple(part.shape[batch_axes:])}"


def _outputs(run: Run) -> Any:
    """What the only model returns, where Keras knows that."""
    (model, *others) = run.trained_models.values()
    outputs = getattr(model, "outputs", None)  # `output` isn't known of a Sequential (Keras 3.15)
    if others or not isinstance(outputs, list):  # a model may use that name for something else
        return None
    if not outputs or not all(isinstance(output, keras.KerasTensor) for output in outputs):
        return None
    return outputs[0] if len(outputs) == 1 else outputs


def _is_per_class(run: Run, labels: Any, outputs: Any) -> bool:
    """Whether labels have the shape of the output, which no sparse loss or metric takes."""
    sparse = "SparseCategorical|SparseTopK"
    kinds = [type(each).__name__ for each in (*run.losses.values(), *run.metrics.values())]
    if not isinstance(labels, tf.TensorSpec) or not hasattr(outputs, "shape"):
        return False
    shape = tuple(labels.shape[2:])
    is_one = shape == tuple(outputs.shape[1:]) and shape[-1:] > (1,)
    return is_one and any(re.match(sparse, kind) for kind in kinds)


def _kind(dtype: tf.DType) -> str:
    if dtype.is_floating or dtype.is_complex:
        return "float"
    return "int" if dtype.is_integer or dtype.is_bool else dtype.name
