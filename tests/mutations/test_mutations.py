"""Every known fault is caught by what a rendered project brings along, and named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import Render

from .faults import CHECK, FAULTS, STEP_TESTS, Fault, run

pytestmark = [pytest.mark.environment, pytest.mark.full]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught_and_named(fault: Fault, render: Render, tmp_path: Path) -> None:
    project = shutil.copytree(render(), tmp_path / "project")
    fault.plant(project)
    assert fault.catch(project), run(fault.caught_by, project)[1][-2000:]


@pytest.mark.parametrize("command", [CHECK, STEP_TESTS], ids=["check", "tests"])
def test_without_a_fault_nothing_is_found(command: tuple[str, ...], render: Render) -> None:
    status, output = run(command, render())
    assert status == 0, output
