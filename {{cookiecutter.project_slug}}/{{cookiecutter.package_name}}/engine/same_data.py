"""Whether `create_datasets` gives all workers the same data, of which each takes its part."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from .batches import is_endless, is_sharded, num_examples, worker_split
from .data_errors import split_label
from .errors import UsageError
from .run_files import SPLITS
from .workers import Workers

CLOSE = 1e-3  # on other processors, decoding and arithmetic may give slightly other numbers


def require_same_data(datasets: Mapping[str, Any], workers: Workers) -> None:
    """Compare what the workers have: which splits, how many examples, and some of them.

    Otherwise examples are left out and others come twice, or workers wait for each other for ever,
    since one makes more steps than another. Not of functions, which give each worker its own part.

    Raises:
        UsageError: on all workers, when a split differs.
    """
    if workers.alone:
        return
    mine = [_summary(datasets.get(name)) for name in SPLITS]
    of_all = workers.gather(np.ravel(mine).tolist()).reshape(workers.number, len(SPLITS), -1)
    for i, name in enumerate(SPLITS):
        sizes, examples = of_all[:, i, 0], of_all[:, i, 1:]
        unread = np.isnan(examples) | np.isnan(examples[0])
        close = np.isclose(examples, examples[0], rtol=CLOSE, atol=0)
        differ = (sizes != sizes[0]) | ~(close | unread).all(axis=1)
        if differ.any():
            raise UsageError(
                f"The {split_label(name)} of worker {differ.argmax()} isn't that of worker 0: "
                "create_datasets must return the same examples in the same order on all workers; "
                "sort the names of files, give random numbers a constant seed, and compare copies "
                "of the data."
            )


def _summary(split: Any) -> np.ndarray:
    """The size of a split, and numbers for three of its examples, float64 (4,).

    NaN for an example that can't be read, of which its own error says more, or not twice alike.
    """
    if split is None or is_sharded(split):
        return np.full(4, -1.0 if split is None else -2.0)
    size = np.inf if is_endless(split) else num_examples(split)
    once, again = (_some_examples(split) for _ in range(2))
    alike = np.isclose(once, again, rtol=CLOSE, atol=0)  # else reading it augments it
    return np.array([size, *np.where(alike, once, np.nan)])


def _some_examples(split: Any) -> np.ndarray:
    """A number for the first example, one in the middle and the last; of a stream for the first."""
    split = worker_split(split)
    found = np.zeros(3)
    if isinstance(split, tf.data.Dataset):
        for example in split.take(1).as_numpy_iterator():
            found[0] = _number(example)
        return found
    for i, row in enumerate((0, len(split) // 2, len(split) - 1) if len(split) else ()):
        try:
            found[i] = _number(split[row])
        except UsageError:
            found[i] = np.nan
    return found


def _number(example: Any) -> float:
    """The means of its arrays, each times another factor; of strings the checksum."""
    total = 0.0
    for factor, part in enumerate(map(np.asarray, tf.nest.flatten(example)), 1):
        if part.dtype.kind in "biuf":
            total += factor * float(np.mean(np.nan_to_num(part.astype("f8"))) if part.size else 0)
        else:
            total += factor * zlib.crc32(repr(part.tolist()).encode())
    return total
