"""A whole run by its commands: what it prints and leaves behind."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def python(*arguments: str | Path, status: int = 0) -> str:
    """What a command of the project prints."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of two epochs on two replicas."""
    runs = tmp_path_factory.mktemp("runs")
    flags = ["--epochs", "2", "--virtual-replicas", "2", "--runs", str(runs), "--name", "short"]
    python("train.py", *flags)
    (directory,) = runs.glob("*-short")
    return directory


def test_a_run_leaves_everything_behind(run: Path) -> None:
    for name in ("model.txt", "curves.png"):
        assert (run / name).stat().st_size > 100
    with (run / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    results = json.loads((run / "results.json").read_text())
    assert (results["strategy"], results["replicas"]) == ("mirrored", 2)
    assert results["epochs"] == 2
    assert {"steps", "seconds"} <= set(results)
    assert any(name.startswith("train_") and name.endswith("loss") for name in results)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["virtual_replicas"] == 2


def test_weights_of_two_replicas_evaluate_the_same_without_a_strategy(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    said = python("-m", "{{ cookiecutter.package_name }}", "evaluate", run)
    for name, value in json.loads(said[said.index("{") :]).items():
        assert value == pytest.approx(results[name], rel=1e-5)


def test_weights_are_exported(run: Path) -> None:
    assert "reloaded" in python("-m", "{{ cookiecutter.package_name }}", "export", run)
    assert list((run / "export").glob("*.keras"))


def test_the_task_passes_its_check() -> None:
    said = python("-m", "{{ cookiecutter.package_name }}", "check")
    assert "two replicas make the same step as one" in said
    assert "WRONG" not in said


def test_todos_are_listed_with_file_and_line() -> None:
    listed = python("-m", "{{ cookiecutter.package_name }}", "todo").splitlines()
    assert listed[-1].endswith("TODOs left")
    for line in listed[:-1]:
        file, _, number = line.split()[1].partition(":")
        assert "TODO(" in (ROOT / file).read_text().splitlines()[int(number) - 1]
