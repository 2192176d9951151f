"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .config import TaskConfig
from .next_todo import TodoError


# TODO(2): your data by split ("validation" and "test" are optional), each either arrays with a
# row per example, (inputs, labels) or (inputs, labels, weights), any of them a dict of several, in
# memory or mapped, or what RandomAccess (engine/random_access.py) reads, or a tf.data.Dataset of
# single examples.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split."""
    raise TodoError(
        2,
        "create_datasets in task/data.py must return your examples by split, such as "
        '{"train": (inputs, labels), "validation": (inputs, labels), "test": (inputs, labels)}',
    )


# TODO(3): the augmentation of a training batch, random only through tf.random.stateless_* with the
# given seed, so that it is the same on any number of replicas.
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    The batch has the parts that a train step gets, weights last; the seed is int64 (2,), different
    in each step.
    """
    raise TodoError(
        3,
        "create_augment in task/data.py must return a function (batch, seed) -> batch, or None to "
        "leave training batches as they are",
    )
