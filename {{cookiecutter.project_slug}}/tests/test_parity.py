"""N replicas train exactly like one: with your model, losses, metrics, optimizer and data.

python -m pytest tests/test_parity.py -k short_weighted-4    # one case

Your code runs in float64 here, where rounding can't hide a fault. Tensors that it creates itself
should have the dtype `keras.config.floatx()`. Where an operation takes no float64, the metrics run
in float32; if that isn't enough, all does, and the first gradients are compared.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from {{ cookiecutter.package_name }}.engine.check import explain, relative_difference

from .scenarios import SCENARIOS, WITHOUT_XLA, Scenario

# Largest differences, relative to the norm, of one step's losses and gradients in each precision;
# in float64 of losses, metrics and weights after 20 steps.
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}
HALVES = {"float16", "bfloat16"}
SIGN_BASED = {"Lion"}  # the sign of a rounding error is as large as any other
ROOT = Path(__file__).parents[1]
# Three replicas divide short batches otherwise than two and four do.
CASES = [
    (name, replicas)
    for name, scenario in SCENARIOS.items()
    for replicas in (2, 3, 4)
    if replicas != 3 or scenario.second_batch != "full"
]

Observe = Callable[[str, int], dict[str, Any]]


@pytest.fixture(scope="session")
def observe(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Observe:
    """Results of a scenario on N replicas: one process per N runs all selected scenarios.

    TensorFlow fixes its devices at the start, and starting it once per N saves time.
    """
    directory = tmp_path_factory.mktemp("replicas")
    wanted: dict[int, dict[str, None]] = {replicas: {} for replicas in (4, 1, 2, 3)}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and "observe" in item.fixturenames:
            parameters: dict[str, Any] = item.callspec.params
            for replicas in (1, parameters["replicas"]):
                wanted[replicas] |= dict.fromkeys([parameters["name"], *parameters.get("also", [])])
            if parameters["name"] in HALVES:
                wanted[1]["float32"] = None

    def run(replicas: int) -> dict[str, dict[str, Any]]:
        if not wanted[replicas]:
            return {}
        file = directory / f"{replicas}.pickle"
        command = [sys.executable, "-m", "tests.replicas", str(replicas), str(file)]
        command += wanted[replicas]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(pickle.loads(file.read_bytes()))

    with ThreadPoolExecutor(max_workers=2) as pool:
        results = dict(zip(wanted, pool.map(run, wanted), strict=True))

    def observe(name: str, replicas: int) -> dict[str, Any]:
        result = results[replicas][name]
        if name in HALVES and "error" in results[1][name]:  # such as of a Fourier transform
            pytest.skip(f"one replica doesn't train in {name}: {results[1][name]['error']}")
        assert "error" not in result, f"{replicas} replicas: {result['error']}"
        return result

    return observe


@pytest.mark.parametrize(("name", "replicas"), CASES)
def test_n_replicas_train_exactly_like_one(observe: Observe, name: str, replicas: int) -> None:
    several = observe(name, replicas)
    scenario = Scenario(**several["scenario"])  # as it could be run
    # XLA draws other random numbers (TF 2.21).
    one = observe(name if scenario.jit == SCENARIOS[name].jit else name + WITHOUT_XLA, 1)
    if "losses" not in one:
        pytest.skip("BatchNormalization and activity regularizers are exact on full batches only")
    tolerance = TOLERANCES[scenario.precision]
    if scenario.precision != "float64":
        assert relative_difference(one["losses"], several["losses"]) <= tolerance
        if scenario.precision in HALVES:
            # In a deep model rounding makes gradients differ by more, even on one replica.
            exact = observe("float32", 1)["gradients"]
            tolerance = max(tolerance, 2 * relative_difference(exact, one["gradients"]))
        assert relative_difference(one["gradients"], several["gradients"]) <= tolerance
        return
    assert several["examples"] == one["examples"]
    assert several["skipped"] == one["skipped"]
    assert bool(one["skipped"]) == scenario.skip
    reason = explain(_numbers(one), _numbers(several), replicas, one["regularization"])
    for what in ("losses", "mean losses", "weights", "metrics", "state"):
        if what in ("metrics", "state"):
            tolerance = TOLERANCES[scenario.metrics]
        if what == "weights" and SIGN_BASED & set(one["optimizers"]):
            continue
        difference = relative_difference(one[what], several[what])
        assert difference <= tolerance, f"{what} differ by {difference:.0e}: {reason}"


@pytest.mark.parametrize(("name", "replicas", "also"), [("float16", 2, ["float32"])], ids=["2"])
def test_float16_gradients_are_scaled_and_unscaled(
    observe: Observe, name: str, replicas: int, also: list[str]
) -> None:
    half, full = (
        np.concatenate([np.ravel(g).astype("f8") for g in observe(scenario, replicas)["gradients"]])
        for scenario in (name, *also)
    )
    # Along the exact ones: rounding, unlike a scale, changes them in all directions.
    off = abs(half @ full / (full @ full) - 1)
    assert off < 0.05, (
        f"float16 gradients are {off:.0%} off: the loss must be scaled before the gradients "
        "are taken, and the gradients divided by the same scale after they are summed"
    )


def _numbers(observed: dict[str, Any]) -> dict[str, float]:
    losses = {f"loss {i}": float(loss) for i, loss in enumerate(observed["losses"][0])}
    return losses | dict(observed["metrics"])
