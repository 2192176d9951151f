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
    "full": Scenario(accumulate=2, skip=True),
    "full, weighted": Scenario(weights=True, clip=True, jit=True, steps_per_call=1),
    "short": Scenario("short", jit=True),
    "short, clipped": Scenario("short", False, True, 2, True, True, 1),
    "short, weighted": Scenario("short", True, skip=True, steps_per_call=1),
    "empty": Scenario("empty", skip=True, jit=True, steps_per_call=1),
    "empty, weighted": Scenario("empty", True, True, 2),
    "float32": Scenario(precision="float32"),
    "bfloat16": Scenario(precision="bfloat16"),
    "float16": Scenario(precision="float16"),
}
