"""Learning rates that change during a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from copy import copy as copy_of
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from ..distributed_steps import DistributedSteps


class Faster(LearningRateSchedule):
    """A schedule that runs through its updates several times as fast."""

    def __init__(self, schedule: LearningRateSchedule, times: int) -> None:
        super().__init__()
        self._schedule, self._times = schedule, times

    def __call__(self, step: Any) -> Any:
        """The learning rate at a step."""
        return self._schedule(keras.ops.convert_to_tensor(step) * self._times)


def has_schedule(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether its learning rate depends on the number of its updates."""
    return isinstance(optimizer._learning_rate, LearningRateSchedule)


def rates_at(optimizer: keras.optimizers.Optimizer, updates: Iterable[int]) -> np.ndarray:
    """The learning rate at some updates; without a schedule, the current one."""
    rate = optimizer._learning_rate
    is_number = not has_schedule(optimizer)
    return np.asarray([float(rate if is_number else rate(tf.constant(n))) for n in updates])


def rates_of_run(optimizer: keras.optimizers.Optimizer, updates: int) -> np.ndarray:
    """The learning rate at 101 of all updates, from the first to the last."""
    return rates_at(optimizer, np.linspace(0, max(0, updates - 1), 101).astype("int64"))


def longer_than(
    optimizer: keras.optimizers.Optimizer, few: int, updates: int, rates: np.ndarray
) -> int:
    """How many times as long as half of so few updates a warm-up is; 0 if there is none.

    Args:
        optimizer: it may have a schedule.
        few: the number of updates that shall end behind the warm-up.
        updates: that in the whole run.
        rates: the learning rate at 101 of these.
    """
    if not has_schedule(optimizer):
        return 0
    high = int(np.argmax(rates >= 0.9 * rates.max()))
    is_slow = float(rates_at(optimizer, [few // 2])[0]) < 0.5 * rates.max()
    # A rate that still rises in the second half may be a search for the largest useful one.
    return high * (updates - 1) // 100 // (few // 2) if is_slow and high <= 50 else 0


@contextlib.contextmanager
def with_short_warm_ups(
    steps: DistributedSteps, times: Mapping[keras.optimizers.Optimizer, int]
) -> Iterator[DistributedSteps]:
    """The train steps, with schedules of some optimizers that are so many times as fast."""
    if not times:
        yield steps
        return
    with contextlib.ExitStack() as stack:
        for optimizer, number in times.items():
            faster = Faster(optimizer._learning_rate, number)
            stack.enter_context(mock.patch.object(optimizer, "_learning_rate", faster))
        steps = copy_of(steps)
        steps._graphs, steps._rates = {}, steps._learning_rates()
        yield steps
