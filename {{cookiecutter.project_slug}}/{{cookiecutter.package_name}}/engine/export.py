"""Export of trained models, compared with the originals."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .causes import cause_of
from .errors import AGAIN, UsageError
from .files import has_wildcards, plain_name, writing
from .locks import acquire, is_locked, lock_of
from .model_inputs import input_of
from .output import PACKAGE
from .types import Run

# Of the largest output: another order of operations is rounded otherwise.
TOLERANCES = {"float16": 1e-2, "bfloat16": 5e-2}
TOLERANCE = 1e-5
REGISTER = "decorate its class or function with @keras.saving.register_keras_serializable()"
COPY_FIRST = "# First copy it to a path without *, ?, [ and \\: to TensorFlow they are patterns."
SIZES = (2, 64, 256)  # that are tried for axes of any size


def export_models(run: Run, directory: Path) -> Iterator[str]:
    """Export each trained model, load it again and compare; yields a line for each file.

    Raises:
        UsageError: a model can't be exported or loaded again, or then gives other outputs.
    """
    with _unfinished(directory) as new:
        yield from _exported(run, directory, new)


@contextmanager
def _unfinished(directory: Path) -> Iterator[Path]:
    """Where files are written first; what a killed export has left there is deleted."""
    with writing(directory, AGAIN):
        directory.mkdir(exist_ok=True)
        for left in directory.glob("unfinished-*"):
            if not is_locked(left):
                shutil.rmtree(left, ignore_errors=True)
        new = tempfile.TemporaryDirectory(prefix="unfinished-", dir=directory)
        lock = acquire(lock_of(Path(new.name)), "export")
    with new, lock:
        yield Path(new.name)


def _exported(run: Run, directory: Path, new: Path) -> Iterator[str]:
    for name, model in run.trained_models.items():
        inputs, expected = _inputs_and_outputs(name, model)
        tolerance = _largest(expected) * TOLERANCES.get(model.compute_dtype, TOLERANCE)
        random = _difference(expected, model(inputs, training=False)) > tolerance
        for path, write in {f"{name}.keras": _keras, name: _saved_model}.items():
            file = directory / path
            try:
                outputs = write(model, new / path)(inputs)
            except Exception as error:  # of many: a full disk, a layer that isn't found again
                what = f"{file} can't be exported: {cause_of(error)}"
                mend = REGISTER if "Could not locate" in str(error) else "fix that"
                raise UsageError(f"{what}; {mend}, then export again.") from error
            difference = _difference(expected, outputs)
            if difference > tolerance and not random:
                raise UsageError(f"{file} differs from the model by {difference:.1e}.")
            # Under its own name it is there as a whole or, after an error, as it was before.
            if file.is_dir():  # killed between the two, it is still here, in `new`
                file.replace(new / f"{path}.before")
            (new / path).replace(file)
            if random:
                yield f"{file}: reloaded; not compared, since the model's outputs are random"
            else:
                yield f"{file}: reloaded, differs by {difference:.1e}"


def loading_code(run: Run, directory: Path) -> str:
    """How other programs load and call what `export_models` wrote: in Keras, and without it."""
    lines: list[str] = []
    for name, model in run.trained_models.items():
        inputs = tf.nest.map_structure(_in_words, input_of(model))
        lines += [
            f"{name}, elsewhere, with inputs {inputs}:".replace("'", ""),
            "",
            "    import keras",
            *(f"    import {module}" for module in _own_modules(model)),
            f"    model = keras.models.load_model({str(directory / f'{name}.keras')!r})",
            "    outputs = model(inputs, training=False)",
            "",
            "    import tensorflow as tf",
            *([f"    {COPY_FIRST}"] if has_wildcards(directory / name) else []),
            f"    model = tf.saved_model.load({str(directory / name)!r})",
            "    outputs = model.serve(inputs)",
            "",
        ]
    return "\n".join(lines)


def _own_modules(model: keras.Model) -> list[str]:
    """The project's modules of layers, and of registered functions and classes that these name."""
    # A function is a name alone, "package>name", without its module (Keras 3.15).
    names = [part for part in keras.tree.flatten(model.get_config()) if isinstance(part, str)]
    registered = [known for name in names if (known := keras.saving.get_registered_object(name))]
    modules = {part.__module__ for part in [*map(type, model._flatten_layers()), *registered]}
    return sorted(module for module in modules if module.startswith(PACKAGE))


def _in_words(tensor: keras.KerasTensor) -> str:
    return f"{tensor.dtype} ({', '.join(str(size or 'any') for size in tensor.shape)})"


def _keras(model: keras.Model, file: Path) -> Any:
    """Write the model, and return the reloaded one."""
    model.save(file)
    return partial(keras.models.load_model(file), training=False)


def _saved_model(model: keras.Model, directory: Path) -> Any:
    # Not model.export, which leaves out `training`: a layer called with training=True, which
    # training=False switches off wherever the model is evaluated, would be on (Keras 3.15).
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint(
        "serve",
        partial(model.__call__, training=False),
        [tf.nest.map_structure(_any_batch, input_of(model))],
    )
    archive.write_out(directory, verbose=False)
    with plain_name(directory) as plain:
        loaded = tf.saved_model.load(str(plain))
    return lambda inputs: loaded.serve(inputs)  # which needs the variables of `loaded`


def _any_batch(tensor: keras.KerasTensor) -> tf.TensorSpec:
    return tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype, name=tensor.name)


def _difference(a: object, b: object) -> float:
    """The largest absolute difference of two nests of outputs; inf if strings or NaN differ."""
    largest = 0.0
    for x, y in zip(_arrays(a), _arrays(b), strict=True):
        if x.dtype == object or x.shape != y.shape:
            largest = max(largest, 0.0 if np.array_equal(x, y) else np.inf)
            continue
        with np.errstate(invalid="ignore"):
            apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.abs(x - y))
        largest = max(largest, float(np.nan_to_num(apart, nan=np.inf).max(initial=0)))
    return largest


def _largest(outputs: object) -> float:
    """The largest finite absolute value of a nest of outputs, at least 1."""
    numbers = [array for array in _arrays(outputs) if array.dtype != object]
    return max((np.abs(a[np.isfinite(a)]).max(initial=1.0) for a in numbers), default=1.0)


def _arrays(outputs: object) -> list[np.ndarray]:
    """Numbers as float64, strings as they are."""
    arrays = [np.asarray(t) for t in tf.nest.flatten(outputs)]
    return [array if array.dtype == object else array.astype(np.float64) for array in arrays]


def _inputs_and_outputs(name: str, model: keras.Model) -> tuple[Any, Any]:
    """Random inputs, and what the model gives for them.

    Raises:
        UsageError: it takes none of them.
    """
    for size in SIZES:
        inputs = tf.nest.map_structure(partial(_random_input, size), input_of(model))
        try:
            return inputs, model(inputs, training=False)
        except Exception as error:  # such as of pooling, where 2 pixels are too few
            failure = error
    what = f"{name} can't be called with random inputs: {cause_of(failure)}"
    raise UsageError(f"{what}; give create_model inputs of a fixed shape.") from failure


def _random_input(size: int, tensor: keras.KerasTensor) -> tf.Tensor:
    """Two examples; axes of any size are so long, and whole numbers 0 or 1."""
    shape = [2, *(length or size for length in tensor.shape[1:])]
    if tensor.dtype in ("float16", "bfloat16", "float32", "float64"):
        return tf.random.stateless_uniform(shape, (0, 0), dtype=tensor.dtype)
    if tensor.dtype == "string":
        return tf.zeros(shape, tensor.dtype)
    # The first is 1: of zeros alone, all are masked where 0 is padding.
    return tf.cast(tf.reshape(1 - tf.range(np.prod(shape)) % 2, shape), tensor.dtype)
