"""The scenarios of test_parity.py: every pair of options occurs in at least one; other flags."""

from __future__ import annotations

from typing import Any, NamedTuple

# Flags of config.py that your task can't do without, for the tests of the whole of it: {"steps":
# 1000} where the training data has no end, {"global_batch_size": 32} where it has few examples.
FLAGS: dict[str, Any] = {}
STEPS = 20
BATCH = 24  # divided evenly by 1, 2, 3 and 4 replicas, also in two micro-batches
ROWS = {  # examples in the data: how many are left for the second batch of an epoch
    "full": 2 * BATCH,
    "short": BATCH + 17,
    "empty": BATCH + 5,  # so few that some replicas get none
}
WITHOUT_XLA = " without XLA"  # after the name of a scenario with `jit`


class Scenario(NamedTuple):
    """Options of a training run; one row of the table below."""

    second_batch: str = "full"  # one of ROWS
    weights: bool = False  # each example has its own weight
    clip: bool = False
    accumulate: int = 1  # always 1 if EXAMPLES_INTERACT in task/steps.py
    skip: bool = False  # every second step is not finite, so it is skipped
    jit: bool = False
    steps_per_call: int = 20
    precision: str = "float64"  # float32, where your code has operations that don't take float64
    metrics: str = "float64"  # float32, where only your metrics don't take float64


SCENARIOS = {
    "full": Scenario(clip=True, accumulate=2, jit=True, steps_per_call=1),
    "full_weighted": Scenario(weights=True, skip=True),
    "short": Scenario("short", steps_per_call=1),
    "short_clipped": Scenario("short", clip=True, accumulate=2, skip=True),
    "short_weighted": Scenario(
        "short", weights=True, clip=True, skip=True, jit=True, steps_per_call=1
    ),
    "empty": Scenario("empty", clip=True, skip=True, steps_per_call=1),
    "empty_weighted": Scenario("empty", weights=True, accumulate=2, jit=True),
    "float32": Scenario(precision="float32"),
    "bfloat16": Scenario(precision="bfloat16"),
    "float16": Scenario(precision="float16"),
}
