"""The cases in which N replicas are compared with one; every two options meet in one of them."""

from __future__ import annotations

from typing import NamedTuple

STEPS = 20
BATCH = 24  # shared evenly by 1, 2, 3 and 4 replicas, also in two micro-batches
ROWS = {  # examples in the data: what is left for the second batch of an epoch
    "full": 2 * BATCH,
    "short": BATCH + 17,
    "empty": BATCH + 5,  # so few that some replicas get none at all
}


class Scenario(NamedTuple):
    """One case."""

    share: str = "full"  # how full the shares of the second batch are
    weights: bool = False  # each example has a weight of its own
    clip: bool = False
    accumulate: int = 1
    skip: bool = False  # one example is NaN, so that its steps are skipped
    jit: bool = False
    steps_per_call: int = 20
    precision: str = "float64"


SCENARIOS = {
    "full": Scenario(clip=True, accumulate=2, jit=True, steps_per_call=1),
    "full, weighted": Scenario(weights=True, skip=True),
    "short": Scenario("short", steps_per_call=1),
    "short, clipped": Scenario("short", clip=True, accumulate=2, skip=True),
    "short, weighted": Scenario("short", True, True, 1, True, True, 1),
    "empty": Scenario("empty", clip=True, skip=True, steps_per_call=1),
    "empty, weighted": Scenario("empty", weights=True, accumulate=2, jit=True),
    "float32": Scenario(precision="float32"),
    "bfloat16": Scenario(precision="bfloat16"),
    "float16": Scenario(precision="float16"),
}
