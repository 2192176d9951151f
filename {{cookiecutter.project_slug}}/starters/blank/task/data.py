"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .config import TaskConfig
from .next_todo import TodoError


# TODO(2): your data as {"train": ..., "validation": ..., "test": ...}.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split.

    A split is arrays with a row per example, (inputs, labels) or (inputs, labels, weights), in
    memory or mapped; an object with __len__ and __getitem__; RandomAccess, see
    engine/random_access.py; or a tf.data.Dataset of single examples. Only "train" is required.
    Inputs, labels and weights may each be a dict of several. Steps get these parts, and weights
    last also if there are none here: 1, and 0 for padding.
    """
    raise TodoError(
        2,
        "create_datasets in task/data.py must return your examples by split, such as "
        '{"train": (inputs, labels), "validation": (inputs, labels), "test": (inputs, labels)}',
    )


# TODO(3): the augmentation of a training batch, or None.
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (batch, seed) -> batch that tf.data runs on each global batch, or None.

    The batch has the parts of an example, weights last, and floats are of keras.config.floatx(); a
    train step gets what is returned, which may have other parts; validation and test data aren't
    augmented. Draw random numbers only with tf.random.stateless_* and the seed, int64 (2,), which
    differs in each step, or with layers of Keras made outside of the function: then the result is
    the same on any number of replicas, and after a resume. NumPy would draw once for all steps. For
    several draws make several seeds: tf.random.split(seed, 3).
    """
    raise TodoError(
        3,
        "create_augment in task/data.py must return a function (batch, seed) -> batch, or None to "
        "leave training batches as they are",
    )
