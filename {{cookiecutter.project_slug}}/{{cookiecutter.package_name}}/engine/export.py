"""Export of trained models, compared with the originals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import tensorflow as tf

from .errors import UsageError
from .predict import input_of
from .types import Run

TOLERANCE = 1e-5


def export_models(run: Run, directory: Path) -> Iterator[str]:
    """Export each trained model, load it again and compare; yields a line for each file.

    Raises:
        UsageError: an exported model gives other outputs than the original.
    """
    directory.mkdir(exist_ok=True)
    for name, model in run.trained_models.items():
        inputs = tf.nest.map_structure(_random_input, input_of(model))
        expected = model(inputs, training=False)
        random = _difference(expected, model(inputs, training=False)) > TOLERANCE
        whole, saved = directory / f"{name}.keras", directory / name
        model.save(whole)
        model.export(saved, verbose=False)
        loaded = tf.saved_model.load(str(saved))
        again = {
            whole: keras.models.load_model(whole)(inputs, training=False),
            saved: loaded.serve(inputs),
        }
        for path, outputs in again.items():
            difference = _difference(expected, outputs)
            if random:
                yield f"{path}: reloaded; not compared, since the model's outputs are random"
            elif difference > TOLERANCE:
                raise UsageError(f"{path} differs from the model by {difference:.1e}.")
            else:
                yield f"{path}: reloaded, differs by {difference:.1e}"


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
