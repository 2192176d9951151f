"""Why a graph call fails on its data, in one sentence."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from .errors import UsageError
from .types import Run

# What TF 2.21 says on the CPU. On a GPU the loss is NaN instead, and the step is skipped.
LABEL = re.compile(r"Received a label value of (\S+) which is outside the valid range of (\[.*?\))")
INDEX = re.compile(r"indices\[[\d,]*\] = (\S+) is not in (\[.*?\))")
LENGTH = re.compile(r"Input dataset was expected to contain (\d+) elements but contained (.*?)\.")


def split_label(split: str) -> str:
    """The name of a split in a sentence."""
    return "training data" if split == "train" else f"{split} data"


@contextlib.contextmanager
def data_errors(split: str, run: Run, element: Any) -> Iterator[None]:
    """Around a graph call: its failure on unusable data as one sentence, any other as it is.

    Args:
        split: which data.
        run: what the factories made.
        element: the spec of a batch, a nest of (replicas, rows, ...).

    Raises:
        UsageError: the data ended early, has another shape or dtype than the only model takes, or
            a label or index is out of range.
    """
    try:
        if reason := _misfit(run, element, shapes=False):  # Keras would cast in silence
            raise UsageError(f"The {split_label(split)} doesn't fit the model: {reason}.")
        yield
    except tf.errors.OutOfRangeError as error:
        raise UsageError(
            f"The {split_label(split)} ended early: it has fewer examples than it should have."
        ) from error
    except (tf.errors.OpError, ValueError, TypeError) as error:
        if reason := _out_of_range(str(error)):
            raise UsageError(f"The {split_label(split)} can't be used: {reason}.") from error
        if reason := _misfit(run, element, shapes=True):
            data = split_label(split)
            raise UsageError(f"The {data} doesn't fit the model: {reason}.") from error
        raise


def _out_of_range(message: str) -> str:
    if match := LABEL.search(message):
        return f"a label is {match[1]}, outside the range {match[2]} of the model's classes"
    if match := INDEX.search(message):
        return f"an index is {match[1]}, outside the range {match[2]}"
    if match := LENGTH.search(message):
        return f"it should have {match[1]} examples, and has {match[2].split(' ele')[0]}"
    return ""


def _misfit(run: Run, element: Any, *, shapes: bool) -> str:
    """How the inputs of a batch differ from what the only model takes; several may take others.

    With `shapes` it is known that something fails: a train step may well reshape what it gets.
    """
    (model, *others) = run.trained_models.values()
    wanted = getattr(model, "inputs", None) or []
    given = tf.nest.flatten(element[0])
    if others or len(wanted) != len(given):
        return ""
    for tensor, spec in zip(wanted, given, strict=True):
        shape, rows = tf.TensorShape(tensor.shape[1:]), spec.shape[2:]
        kinds = _kind(tf.as_dtype(tensor.dtype)), _kind(spec.dtype)
        fits = shape.is_compatible_with(rows)
        cast = kinds[0] == kinds[1] or kinds == ("float", "int")
        if (shapes and not fits) or (fits and not cast):
            given_is = f"{spec.dtype.name} {tuple(rows)}"
            return f"{tensor.name} is {given_is}, and the model takes {tensor.dtype} {tuple(shape)}"
    return ""


def _kind(dtype: tf.DType) -> str:
    if dtype.is_floating or dtype.is_complex:
        return "float"
    return "int" if dtype.is_integer or dtype.is_bool else dtype.name
