"""What every starter reaches on unseen data, and that it passes its own tests."""

from __future__ import annotations

import json
import pickle
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from cookiecutter.main import cookiecutter

from . import ROOT, Page

PACKAGE = "my_experiment"
# The numbers of results.json that a starter is judged by; those of folds are averaged.
RESULTS = {
    "image_classification": {"test_accuracy": "accuracy"},
    "segmentation": {"test_mean_iou": "mean IoU, background included"},
    "language_model": {"test_exact_match": "exact match of whole answers"},
    "gan": {
        "test_frechet": "Frechet distance over the trace",
        "test_nearest_distance": "distance to the nearest training digit (unseen real ones: 1)",
    },
    "tabular_regression": {"test_r2": "R2", "test_mae": "mean absolute error, over 5 folds"},
}
FOLDS = {"tabular_regression": 5}
DEFAULT = next(iter(RESULTS))

HEAD = """# Starters

What each starter reaches with its default flags, on data it has not seen; how long `train.py`
takes after TensorFlow's start; how long its `task/` is; how many of its own tests pass, among them
those that resume a killed run bit-identically; and, from these tests, how far four replicas are
from one after 20 steps in float64, the largest over all scenarios that ran. *Skipped* are those of
short batches where a model has BatchNormalization, whose statistics [count
padding](losses.md#losses-that-layers-add): `segmentation` was compared on full batches only. The
tests of the engine, which are the same in every project, ran in the first one only; numbers of
tests and lines are those of the day.
`nox -s proofs -- starters` makes this page; this one was made on {machine}.

| starter | reached | seconds | lines in task/ | its own tests | 4 replicas against 1 |
| --- | --- | --- | --- | --- | --- |
"""


class Failed(Exception):
    """A command of a project ended with another exit code than 0."""


def make(short: bool) -> Page:
    """The table of all starters but the blank one; wrong are those of which a command failed.

    The short form trains one epoch, and runs the tests of the default starter only.
    """
    with tempfile.TemporaryDirectory() as scratch:
        projects = {starter: _render(starter, Path(scratch)) for starter in RESULTS}
        # One after the other, to be timed; the tests of two at a time, which aren't.
        trained = {name: _try(_trained, project, name, short) for name, project in projects.items()}
        with ThreadPoolExecutor(2) as pool:
            names = [DEFAULT] if short else [*projects]
            tests = {name: pool.submit(_try, _tested, projects[name], name) for name in names}
        tested = {name: test.result() for name, test in tests.items()}
    lines, wrong = [], []
    for name in projects:
        cells = [name]
        for part, empty in ((trained[name], " | | "), (tested.get(name, " | "), " | ")):
            if isinstance(part, Failed):
                wrong.append(f"{name}: {part}")
                part = f"FAILED{empty}"
            cells.append(part)
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    machine = f"{platform.machine()}, CPU only, TensorFlow {version('tensorflow')}"
    return Page(HEAD.format(machine=machine) + "\n".join(lines) + "\n", wrong)


def _render(starter: str, directory: Path) -> Path:
    made = cookiecutter(
        str(ROOT),
        no_input=True,
        output_dir=str(directory / starter),
        extra_context={"starter": starter},
        default_config=True,
    )
    return Path(made)


def _try(measure: Callable[..., str], *arguments: Any) -> str | Failed:
    try:
        return measure(*arguments)
    except Failed as failed:
        return failed


def _trained(project: Path, starter: str, short: bool) -> str:
    """What a starter reaches, the seconds that takes, and the lines of its task."""
    sources = (project / PACKAGE / "task").glob("*.py")
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in sources)
    reached, seconds = _train(project, starter, short)
    return f"{reached} | {seconds:.0f} | {lines}"


def _tested(project: Path, starter: str) -> str:
    """How many of its tests pass, and how far replicas are from one in them."""
    # The tests keep there what they saw on each number of replicas.
    temporary = project.parent / "pytest"
    flags = [f"--basetemp={temporary}", *([] if starter == DEFAULT else ["--ignore=tests/engine"])]
    tests = _run(project, "-m", "pytest", "-q", *flags).splitlines()[-1].partition(" in ")[0]
    observed = {n: _read(temporary, n) for n in (1, 4)}
    return f"{tests} | {_largest_difference(observed[1], observed[4]):.0e}"


def _train(project: Path, starter: str, short: bool) -> tuple[str, float]:
    """What a starter reaches and the seconds it takes, the means over its folds."""
    folds = 1 if short else FOLDS.get(starter, 1)
    flags = ["--epochs", "1"] if short else []
    for fold in range(folds):
        _run(project, "train.py", *flags, *(["--fold", str(fold)] if folds > 1 else []))
    files = project.glob("runs/*/results.json")
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def mean(name: str) -> float:
        return float(sum(result[name] for result in results) / folds)

    reached = [f"{mean(name):.3f} {meaning}" for name, meaning in RESULTS[starter].items()]
    return "; ".join(reached), mean("seconds")


def _read(directory: Path, replicas: int) -> dict[str, dict[str, Any]]:
    """What the parity tests of the project saw on so many replicas."""
    (file,) = directory.rglob(f"{replicas}.pickle")
    return dict(pickle.loads(file.read_bytes()))


def _largest_difference(one: dict[str, Any], four: dict[str, Any]) -> float:
    """The largest relative difference over all scenarios in float64."""
    largest = 0.0
    for name in four:
        alone = one.get(f"{name} without XLA", one[name])  # four replicas run without
        if "state" not in alone:
            continue  # not in float64, or a short batch of a model that averages over the batch
        for what in ("losses", "mean losses", "weights", "state"):
            # All together, as the rendered tests do: a single one may be nothing but rounding, such
            # as an attention's key bias, whose gradient is zero.
            a, b = (_flat(observed[what]) for observed in (alone, four[name]))
            largest = max(largest, float(np.linalg.norm(a - b) / (np.linalg.norm(a) or 1.0)))
    return largest


def _flat(arrays: Any) -> np.ndarray:
    """One vector of a list of arrays, an array or a number."""
    arrays = arrays if isinstance(arrays, list) else [arrays]
    return np.concatenate([np.zeros(0), *map(np.ravel, arrays)])


def _run(project: Path, *command: str) -> str:
    """Run a command of the project to its end.

    Raises:
        Failed: its exit code isn't 0.
    """
    done = subprocess.run(
        [sys.executable, *command], cwd=project, capture_output=True, text=True, check=False
    )
    if done.returncode:
        output = done.stdout + done.stderr
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{output[-5000:]}")
    return done.stdout
