"""A sample of every proof holds; `nox -s full` makes the whole pages instead."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT

from . import NAMES

pytestmark = [pytest.mark.environment, pytest.mark.short]


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_the_proof_holds(name: str) -> None:
    command = [sys.executable, "-m", "proofs", "--short", name]
    done = subprocess.run(command, cwd=ROOT / "tests", capture_output=True, text=True, check=False)
    print(done.stdout)
    if done.returncode:  # pytest cuts long output: why it failed is at the end of stderr
        pytest.fail(done.stderr[-4000:], pytrace=False)
