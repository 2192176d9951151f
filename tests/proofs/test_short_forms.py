"""A sample of every proof holds; `nox -s full` makes some whole pages instead."""

from __future__ import annotations

import pytest
from conftest import ROOT, python_m

from . import NAMES

pytestmark = [pytest.mark.environment, pytest.mark.short]


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_the_proof_holds(name: str) -> None:
    print(python_m("proofs", "--short", name, cwd=ROOT / "tests").stdout)
