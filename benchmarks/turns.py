"""Loops take turns, in a new order each round, so that a busy moment of the machine hits all.

A turn is two calls, of n and of 3n steps: T(n) and T(3n). peers.py takes their slope,
(T(3n) - T(n)) / 2n, for the time of a step, so what a loop does once per call doesn't count.
"""

import math
import random
import time
from collections.abc import Callable
from typing import Any

Loop = Callable[[int], None]  # makes so many steps
Turns = dict[str, dict[str, Any]]  # by loop: n, and in each round the seconds of n and of 3n steps


def seconds(loop: Loop, num_steps: int) -> float:
    """How long a call of so many steps takes."""
    started = time.perf_counter()
    loop(num_steps)
    return time.perf_counter() - started


def slope(loop: Loop, num_steps: int) -> float:
    """The time of a step, without what a call costs."""
    short = seconds(loop, num_steps)
    return (seconds(loop, 3 * num_steps) - short) / (2 * num_steps)


def choose_steps(loop: Loop, difference: float, multiple: int = 1) -> int:
    """The n of a loop's turns: 2n steps take about `difference` seconds, at least.

    Args:
        loop: not traced yet.
        difference: in seconds.
        multiple: n is a multiple of it.
    """
    loop(multiple)  # traces
    n = multiple
    while (step := min(slope(loop, n) for _ in range(2))) * 2 * n < difference / 2:
        n *= 2
    return math.ceil(difference / (2 * step) / multiple) * multiple


def take_turns(
    loops: dict[str, Loop],
    steps: dict[str, int],
    rounds: int,
    difference: float,
    pause: float = 0.0,
) -> Turns:
    """In every round, in a new order, each loop's calls of n and of 3n steps.

    Args:
        loops: by name.
        steps: n of each.
        rounds: how many are counted.
        difference: seconds that 2n steps take; n is doubled if they take less than half of it.
        pause: seconds before each turn, in which input pipelines fill their buffers.
    """
    for name, loop in loops.items():  # a round that isn't counted
        while slope(loop, steps[name]) * 2 * steps[name] < difference / 2:
            steps[name] *= 2  # the machine was busy when n was chosen
    turns: Turns = {name: {"n": steps[name], "short": [], "long": []} for name in loops}
    order, shuffler = list(loops), random.Random(0)
    for _ in range(rounds):
        shuffler.shuffle(order)
        for name in order:
            time.sleep(pause)
            turns[name]["short"].append(seconds(loops[name], steps[name]))
            turns[name]["long"].append(seconds(loops[name], 3 * steps[name]))
    return turns
