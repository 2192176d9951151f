"""The short form of `nox -s faults`: some kills, stops and refusals."""

from pathlib import Path

import cases
import harness
import pytest

pytestmark = pytest.mark.environment


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> harness.Project:
    return harness.Project(harness.render(tmp_path_factory.mktemp("project")))


def test_a_run_killed_at_random_moments_ends_bit_identical(
    project: harness.Project, tmp_path: Path
) -> None:
    flags = ["--virtual-replicas", "2", "--accumulate", "2"]
    killed = harness.campaign(project, tmp_path / "runs", flags, "rich", kills=2, seed=3)
    assert killed.different == []
    assert sum(kill.bad for kill in killed.kills) == 0


def test_signals_and_bad_input_get_one_sentence_and_lose_nothing(
    project: harness.Project, tmp_path: Path
) -> None:
    others = ("resumed with another batch size", "resumed with another optimizer")
    data = ("a label too large", "validation images of another size")
    found = [
        *cases.stops(project, tmp_path),
        *cases.refusals(project, tmp_path, others),
        *cases.data(project, tmp_path, data),
    ]
    assert {case.what: case.wrong for case in found if case.wrong} == {}
