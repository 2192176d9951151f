"""Export of trained models, compared with the originals."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from .causes import cause_of
from .errors import AGAIN, UsageError
from .files import plain_name, writing
from .predict import input_of
from .types import Run

# Of the largest output: another order of operations is rounded otherwise.
TOLERANCES = {"float16": 1e-2, "bfloat16": 5e-2}
TOLERANCE = 1e-5


def export_models(run: Run, directory: Path) -> Iterator[str]:
    """Export each trained model, load it again and compare; yields a line for each file.

    Raises:
        UsageError: a model can't be exported or loaded again, or then gives other outputs.
    """
    with writing(directory, AGAIN):
        directory.mkdir(exist_ok=True)
    for name, model in run.trained_models.items():
        inputs = tf.nest.map_structure(_random_input, input_of(model))
        expected = model(inputs, training=False)
        largest = max(1.0, *(float(tf.reduce_max(tf.abs(tf.cast(t, "float64"))))
                             for t in tf.nest.flatten(expected)))  # fmt: skip
        tolerance = largest * TOLERANCES.get(model.compute_dtype, TOLERANCE)
        random = _difference(expected, model(inputs, training=False)) > tolerance
        for path, write in {f"{name}.keras": _keras, name: _saved_model}.items():
            file = directory / path
            # Under its own name it is there as a whole or, after an error, as it was before.
            with tempfile.TemporaryDirectory(dir=directory) as new:
                try:
                    outputs = write(model, Path(new) / path)(inputs)
                except Exception as error:  # of many: a full disk, a layer that isn't found again
                    what = f"{file} can't be exported: {cause_of(error)}"
                    raise UsageError(f"{what}; fix that, then export again.") from error
                difference = _difference(expected, outputs)
                if difference > tolerance and not random:
                    raise UsageError(f"{file} differs from the model by {difference:.1e}.")
                if file.is_dir():
                    shutil.rmtree(file)
                (Path(new) / path).replace(file)
            if random:
                yield f"{file}: reloaded; not compared, since the model's outputs are random"
            else:
                yield f"{file}: reloaded, differs by {difference:.1e}"


def loading_code(run: Run, directory: Path) -> str:
    """How other programs load and call what `export_models` wrote: in Keras, and without it."""
    lines: list[str] = []
    package = __package__.partition(".")[0]
    for name, model in run.trained_models.items():
        inputs = tf.nest.map_structure(_in_words, input_of(model))
        own = {type(layer).__module__ for layer in model._flatten_layers()}
        lines += [
            f"{name}, elsewhere, with inputs {inputs}:".replace("'", ""),
            "",
            "    import keras",
            *(f"    import {module}" for module in sorted(own) if module.startswith(package)),
            f"    model = keras.models.load_model({str(directory / f'{name}.keras')!r})",
            "    outputs = model(inputs, training=False)",
            "",
            "    import tensorflow as tf",
            f"    model = tf.saved_model.load({str(directory / name)!r})",
            "    outputs = model.serve(inputs)",
            "",
        ]
    return "\n".join(lines)


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
    """The largest absolute difference of two nests of outputs."""
    pairs = zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True)
    return max(
        float(tf.reduce_max(tf.abs(tf.cast(x, tf.float64) - tf.cast(y, tf.float64))))
        for x, y in pairs
    )


def _random_input(tensor: keras.KerasTensor) -> tf.Tensor:
    shape = [size or 2 for size in tensor.shape]
    if tensor.dtype in ("float16", "bfloat16", "float32", "float64"):
        return tf.random.stateless_uniform(shape, (0, 0), dtype=tensor.dtype)
    return tf.zeros(shape, tensor.dtype)
