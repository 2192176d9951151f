"""The relation that no array of examples has its axes mixed up."""

from __future__ import annotations

import math
import warnings

import numpy as np

from .findings import Finding, ok, relation, wrong
from .laboratory import Laboratory

MOST, MOST_NUMBERS = 500, 4_000_000  # examples that are looked at, and numbers of them
FEWEST_STEPS, FEWEST_CHANNELS = 8, 3
COLORS = (3, 4)  # channels of an image
JUMP = 3  # times the largest step before it, or after it
CLOSER = 0.8  # how much more alike neighbors are, at most, than what isn't that near
ALIKE = 0.2  # or less of it: the channels are those of a gray image
STRIPES = 4  # or more times as different downwards as across


@relation("axes of data")
def axes_of_data(lab: Laboratory) -> Finding:
    """No reshape has mixed up the channels of a series or an image with its other axes."""
    for name, array in lab.examples["train"].items():
        if array.ndim not in (3, 4) or array.dtype.kind not in "fiu" or not len(array):
            continue
        *others, channels = array.shape[1:]
        rows = max(1, min(MOST, MOST_NUMBERS // max(1, array[0].size)))
        examples = array[:rows].astype("float32").reshape(-1, channels, math.prod(others))
        is_mixed = _has_colors_in_turn if array.ndim == 4 else _has_series_in_turn
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # where all numbers of a place are NaN
            found = is_mixed(examples, array.shape[1:])
        if found:
            before, after = (channels, *others), (*others, channels)
            return wrong(
                f"in the order of memory, {name} of {after} looks like {before}: each channel is a "
                "whole of its own there, but not along the last axis",
                f"{before} was reshaped to {after}, which keeps that order, so that each channel "
                "has values of all of them",
                f"transpose it: np.moveaxis({name.partition('[')[0]}, 1, -1)",
            )
    return ok()


def _has_series_in_turn(series: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether examples (channels, steps) are smooth, but for a jump to each next channel.

    In (steps, channels), neighbors in memory are of two channels, and no step is alone.
    """
    steps, channels = shape
    are_few = steps < FEWEST_STEPS or channels < FEWEST_CHANNELS
    if are_few or steps == channels:  # a square image ends its rows there
        return False
    near = np.nanmean(abs(np.diff(series)), axis=0)  # (channels, steps - 1)
    jumps = np.nanmean(abs(series[:, 1:, 0] - series[:, :-1, -1]), axis=0)
    far = np.nanmean(abs(series[..., channels:] - series[..., :-channels]))
    largest = near.max(axis=1)
    before_or_after = np.minimum(largest[1:], largest[:-1])
    return bool(np.all(jumps > JUMP * before_or_after) and near.mean() < CLOSER * far)


def _has_colors_in_turn(images: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether neighbors of images (channels, height * width) are alike, unlike those given.

    Those given are of the next color, or of the next pixel in the same color.
    """
    height, width, channels = shape
    if channels not in COLORS or min(height, width) < FEWEST_STEPS:
        return False
    memory = images.reshape(len(images), -1)

    def differ(by: int) -> float:
        return float(np.nanmean(abs(memory[:, by:] - memory[:, :-by])))

    across, down = (differ(1), differ(channels)), (differ(width), differ(channels * width))
    if down[0] > STRIPES * across[0] or across[0] < ALIKE * across[1]:
        return False
    return across[0] < CLOSER * across[1] and down[0] < CLOSER * down[1]
