"""The data: train, validation and test examples, and what is done to them in training."""

from __future__ import annotations

from typing import Any

from ..engine.errors import TodoError
from .config import TaskConfig


# TODO(2): your data by split ("validation" and "test" may be missing), each split arrays with one
# row an example, (inputs, labels) or (inputs, labels, weights), or a tf.data.Dataset of single
# examples.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split."""
    raise TodoError(
        2,
        "create_datasets in task/data.py must return your examples by split, such as "
        '{"train": (inputs, labels), "validation": (inputs, labels), "test": (inputs, labels)}',
    )


# TODO(3): what is done to a training batch, with tf.random.stateless_* and the seed it gets only.
def create_augment(task: TaskConfig) -> Any:
    """The augmentation of a global batch as the steps see it, or None for no augmentation."""
    raise TodoError(
        3,
        "create_augment in task/data.py must return a function (batch, seed) -> batch, or None if "
        "training examples are taken as they are",
    )
