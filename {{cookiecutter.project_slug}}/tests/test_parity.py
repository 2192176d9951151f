"""N replicas train exactly like one: on your model, losses, metrics, optimizer and data.

Your code runs in float64 here, where rounding can't hide a fault: where it makes tensors by itself,
it should take `keras.config.floatx()` as their dtype.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scenarios import SCENARIOS

from {{ cookiecutter.package_name }}.engine.check import explain, relative_difference

# Largest differences, relative to the norm, of one step's losses and gradients in each precision;
# in float64 of losses, metrics and weights after 20 steps.
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}
SIGN_BASED = {"Lion"}  # the sign of a rounding error is as large as any other

Observations = dict[int, dict[str, dict[str, Any]]]


@pytest.fixture(scope="session")
def observations(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    """What 1, 2, 3 and 4 replicas did in every scenario; each number in a process of its own."""
    directory = tmp_path_factory.mktemp("replicas")
    script = Path(__file__).with_name("replicas.py")

    def observe(replicas: int) -> dict[str, dict[str, Any]]:
        file = directory / f"{replicas}.pickle"
        command = [sys.executable, str(script), str(replicas), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(pickle.loads(file.read_bytes()))

    with ThreadPoolExecutor(max_workers=2) as pool:
        numbers = (4, 1, 2, 3)
        return dict(zip(numbers, pool.map(observe, numbers), strict=True))


@pytest.mark.parametrize("replicas", [2, 3, 4])
@pytest.mark.parametrize("name", SCENARIOS)
def test_n_replicas_train_exactly_like_one(
    observations: Observations, name: str, replicas: int
) -> None:
    one, several = observations[1][name], observations[replicas][name]
    scenario, tolerance = SCENARIOS[name], TOLERANCES[SCENARIOS[name].precision]
    assert "error" not in one, one["error"]
    assert "error" not in several, several["error"]
    if scenario.precision != "float64":
        assert relative_difference(one["losses"], several["losses"]) <= tolerance
        assert relative_difference(one["gradients"], several["gradients"]) <= tolerance
        return
    if one["looks at the batch"] and scenario.share != "full":
        pytest.skip("BatchNormalization and activity regularizers are exact on full batches only")
    assert several["examples"] == one["examples"]
    assert several["skipped"] == one["skipped"]
    assert bool(one["skipped"]) == scenario.skip
    reason = explain(_numbers(one), _numbers(several), replicas, one["regularization"])
    for what in ("losses", "mean losses", "metrics", "weights", "state"):
        if what == "weights" and SIGN_BASED & set(one["optimizers"]):
            continue
        difference = relative_difference(one[what], several[what])
        assert difference <= tolerance, f"{what} differ by {difference:.0e}: {reason}"


def test_float16_gradients_are_scaled_and_unscaled(observations: Observations) -> None:
    full, half = observations[2]["float32"], observations[2]["float16"]
    difference = relative_difference(full["gradients"], half["gradients"])
    assert difference < 0.05, (
        f"float16 gradients are {difference:.0%} off: the loss must be scaled before the gradients "
        "are taken, and the gradients divided by the same scale after they are summed"
    )


def _numbers(observed: dict[str, Any]) -> dict[str, float]:
    losses = {f"loss {i}": float(loss) for i, loss in enumerate(observed["losses"][0])}
    return losses | dict(observed["metrics"])
