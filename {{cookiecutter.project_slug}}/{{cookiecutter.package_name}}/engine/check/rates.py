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


class Later(LearningRateSchedule):
    """A schedule that begins some updates later."""

    def __init__(self, schedule: LearningRateSchedule, updates: int) -> None:
        super().__init__()
        self._schedule, self._updates = schedule, updates

    def __call__(self, step: Any) -> Any:
        """The learning rate at a step."""
        return self._schedule(keras.ops.convert_to_tensor(step) + self._updates)

    def get_config(self) -> dict[str, Any]:
        """Not saved anywhere."""
        raise NotImplementedError


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


def warm_up_of(optimizer: keras.optimizers.Optimizer, updates: int, few: int) -> int:
    """The number of updates of a warm-up, if few updates are a small part of it; 0 if not."""
    if not has_schedule(optimizer):
        return 0
    rates = rates_of_run(optimizer, updates)
    high = int(np.argmax(rates >= 0.9 * rates.max()))
    # A rate that still rises in the second half may be a search for the largest useful one.
    is_long = high <= 50 and float(rates_at(optimizer, [few // 2])[0]) < 0.5 * rates.max()
    return high * (updates - 1) // 100 if is_long else 0


@contextlib.contextmanager
def past_warm_up(
    steps: DistributedSteps, warm_ups: Mapping[keras.optimizers.Optimizer, int]
) -> Iterator[DistributedSteps]:
    """The train steps, with schedules that begin so many updates later.

    The number of updates itself stays: Adam's averages depend on it.
    """
    if not warm_ups:
        yield steps
        return
    with contextlib.ExitStack() as stack:
        for optimizer, updates in warm_ups.items():
            later = Later(optimizer._learning_rate, updates)
            stack.enter_context(mock.patch.object(optimizer, "_learning_rate", later))
        steps = copy_of(steps)
        steps._graphs, steps._rates = {}, steps._learning_rates()
        yield steps
