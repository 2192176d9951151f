"""Whether all workers, or a run and its resume, have the same data; and callbacks and weights."""

from __future__ import annotations

import zlib
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from .batches import is_endless, is_sharded, num_examples, worker_split
from .data_errors import split_label
from .errors import UsageError
from .run_files import SPLITS
from .types import Run, unique
from .workers import Workers

CLOSE = 1e-3  # other processors may give slightly other numbers
PART = 2**22  # numbers that are summed at once


def require_same_data(datasets: Mapping[str, Any], workers: Workers) -> None:
    """Compare what the workers have: which splits, how many examples, and some of them.

    Otherwise examples are left out and others come twice, or workers wait for each other for ever,
    since one makes more steps than another. Of functions, which give each worker its own part, only
    how many.

    Raises:
        UsageError: on all workers, when a split differs.
    """
    if workers.alone:
        return
    mine = [summary_of(datasets.get(name)) for name in SPLITS]
    of_all = workers.gather(np.ravel(mine).tolist()).reshape(workers.number, len(SPLITS), -1)
    for i, name in enumerate(SPLITS):
        sizes, examples = of_all[:, i, 0], of_all[:, i, 1:]
        differ = (sizes != sizes[0]) | ~_alike(examples, examples[0]).all(axis=1)
        if is_sharded(datasets.get(name)) and differ.any():
            shards = ", ".join(f"{size / workers.number:.0f}" for size in sizes)
            raise UsageError(
                f"The workers' shards of the {split_label(name)} have {shards} examples: they must "
                "be equally long; leave some out with take(), or give all workers one "
                "tf.data.Dataset."
            )
        if differ.any():
            raise UsageError(
                f"The {split_label(name)} of worker {differ.argmax()} isn't that of worker 0: "
                "create_datasets must return the same examples in the same order on all workers; "
                "sort the names of files, give random numbers a constant seed, and compare copies "
                "of the data."
            )


def summaries_of(datasets: Mapping[str, Any]) -> dict[str, list[float]]:
    """How many examples each split has, and what tells some of them from others."""
    return {n: summary_of(datasets.get(n), only_in_memory=True).tolist() for n in SPLITS}


def other_examples(before: Mapping[str, list[float]], now: Mapping[str, list[float]]) -> list[str]:
    """The splits whose summaries, as of `summaries_of`, aren't those of an earlier process."""
    both = [name for name in now if name in before]
    return [name for name in both if not _alike(before[name], now[name]).all()]


def require_same_callbacks(number: int, workers: Workers) -> None:
    """Compare how many callbacks the workers have: they tell each other which are due.

    Raises:
        UsageError: on all workers, when one has another number.
    """
    numbers = workers.gather([number])[:, 0]
    if (numbers != number).any():
        found = ", ".join(f"{n:.0f}" for n in numbers)
        raise UsageError(
            f"The workers have {found} callbacks: create_callbacks in task/callbacks.py must "
            "return the same ones on all; let their functions ask event.is_chief."
        )


def require_same_weights(run: Run, assigned: Container[int] = ()) -> None:
    """Compare the sums of the weights' absolute values.

    They are equal to the bit, since all workers make the same updates, unless something beside the
    optimizers changes weights or learning rates on some of the workers.

    Args:
        run: whose weights they are.
        assigned: ids of those that steps assign, which may differ.

    Raises:
        UsageError: on all workers, when a weight differs.
    """
    if run.workers.alone:
        return
    weights = unique(v for model in run.models.values() for v in model.weights)
    weights = [v for v in weights if "float" in v.dtype and id(v) not in assigned]
    sums = [_sum(tf.reshape(v.value, [-1])) for v in weights]
    of_all = run.workers.gather(tf.stack(sums).numpy().tolist() if sums else [])
    close = np.isclose(of_all, of_all[0], rtol=CLOSE, atol=0, equal_nan=True)
    for worker, weight in np.argwhere(~close):
        raise UsageError(
            f"{weights[weight].path} of worker {worker} isn't that of worker 0: load the "
            "same file on all workers, and change weights and learning rates on all of them, not "
            "behind event.is_chief; then start all workers again, with --resume if they trained."
        )


def _sum(flat: tf.Tensor) -> tf.Tensor:
    """Of absolute values, in parts: those of a large weight take four times its size in float64."""
    parts = [flat[i : i + PART] for i in range(0, flat.shape[0], PART)]
    return tf.add_n([tf.reduce_sum(tf.abs(tf.cast(part, tf.float64))) for part in parts or [flat]])


def _alike(a: Any, b: Any) -> np.ndarray:
    """Where the numbers of two summaries are close, or one of them wasn't read."""
    return np.isclose(a, b, rtol=0, atol=CLOSE) | np.isnan(a) | np.isnan(b)


def summary_of(split: Any, *, only_in_memory: bool = False) -> np.ndarray:
    """The size of a split, and numbers for three of its examples, float64 (4,).

    NaN for an example of a shard, for one that can't be read, of which its own error says more, or
    not twice alike. With `only_in_memory` for all others, too: to read them may take long, and give
    others each time.
    """
    if split is None:
        return np.full(4, -1.0)
    size = np.inf if is_endless(split) else num_examples(split)
    own = None if is_sharded(split) else worker_split(split)
    if own is None or (only_in_memory and not getattr(own, "in_memory", False)):
        return np.array([size, *np.full(3, np.nan)])
    once, again = (_some_examples(own) for _ in range(2))
    alike = np.isclose(once, again, rtol=0, atol=CLOSE)  # else reading it augments it
    return np.array([size, *np.where(alike, once, np.nan)])


def _some_examples(split: Any) -> np.ndarray:
    """A number for the first example, one in the middle and the last; of a stream for the first."""
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
    """Of each array its scale and a weighted mean on that scale; of strings the checksum.

    Standardized numbers have a mean of 0, up to rounding, so a plain one says nothing.
    """
    total = 0.0
    for factor, part in enumerate(map(np.asarray, tf.nest.flatten(example)), 1):
        if part.dtype.kind not in "biuf":
            total += factor * zlib.crc32(repr(part.tolist()).encode())
        elif part.size and (scale := np.abs(numbers := np.nan_to_num(part.astype("f8"))).mean()):
            weights = 1 + np.arange(part.size) * 0.618034 % 1  # of any two places others
            total += factor * float(np.log(scale) + np.mean(numbers.ravel() * weights) / scale)
    return total
