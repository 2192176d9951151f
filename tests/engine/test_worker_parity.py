"""Workers in processes of their own train as one device does: all cases in one start of each."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from .test_workers import Started, start

TESTS = Path(__file__).parents[1]
# What 16 bits round, relative to the weights: half a unit in the last place of each replica's
# gradients, 2**-11 and 2**-8, for as many replicas as there are.
TOLERANCES = {"float16": 4 * 2.0**-11, "bfloat16": 4 * 2.0**-8}
Found = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], list[Found]]:
    """What each of so many workers, with so many replicas each, gave; 0 for no strategy."""
    made: dict[tuple[int, int], list[Found]] = {}

    def trained(workers: int, replicas: int) -> list[Found]:
        key = workers, replicas
        if key not in made:
            folder = tmp_path_factory.mktemp("parity")
            flags = ["-m", "engine.worker_parity", str(folder), str(replicas)]
            with contextlib.closing(Started(folder)) as started:
                path = {"PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
                if workers == 1:
                    started.start(flags, path, TESTS, script=None)
                else:
                    start(started, flags, workers, folders=[TESTS] * workers, script=None)
                codes = started.ends()
                assert codes == [0] * workers, [started.err(i)[-2000:] for i in range(workers)]
            made[key] = [dict(np.load(folder / f"{i}.npz")) for i in range(workers)]
        return made[key]

    return trained


@pytest.mark.parametrize(
    ("workers", "replicas"),
    [pytest.param(2, 0, marks=pytest.mark.quick), (3, 0), (2, 2)],
)
def test_workers_train_as_one_device(
    trained: Callable[[int, int], list[Found]], workers: int, replicas: int
) -> None:
    (one,) = trained(1, 0)
    several = trained(workers, replicas)
    assert [int(found["replicas"]) for found in several] == [workers * max(1, replicas)] * workers
    for found in several[1:]:  # every worker has the same, bit by bit
        for name, value in found.items():
            np.testing.assert_array_equal(value, several[0][name], err_msg=name)
    for name, value in one.items():
        if name != "replicas":
            case = name.partition("/")[0]
            assert difference(value, several[0][name]) <= TOLERANCES.get(case, 1e-9), name


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """The largest one relative to the largest value; infinite where only one is finite."""
    np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
    one, other = (np.nan_to_num(value.astype(float)) for value in (one, other))
    return float(np.abs(one - other).max(initial=0) / max(1e-300, np.abs(one).max(initial=0)))
