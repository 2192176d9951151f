"""A rendered project runs, and proves itself by its own tests."""

import json
import sys

import pytest
from conftest import STARTERS, Render, python_m, run

pytestmark = pytest.mark.environment


def test_the_default_project_passes_its_own_tests(render: Render) -> None:
    result = python_m("pytest", cwd=render(starter=STARTERS[0]))
    print(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("starter", [name for name in STARTERS if name != "blank"])
def test_every_filled_in_starter_trains(render: Render, starter: str) -> None:
    project = render(starter=starter)
    run(sys.executable, "train.py", "--epochs", "1", cwd=project)
    (results,) = project.glob("runs/*/results.json")
    assert json.loads(results.read_text())["epochs"] == 1
