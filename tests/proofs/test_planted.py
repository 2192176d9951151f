"""The planted faults and tasks fit the starters, and the verdicts of `check` are read rightly."""

from __future__ import annotations

import ast
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from conftest import STARTERS, Render

from . import faults
from .planted import BLIND, DEVELOPMENT, FAULTS, HELD_OUT, TASKS
from .planted.edits import DEFAULT, PACKAGE, select_by_accuracy
from .planted.unusual import OF_OWNERS
from .planted.verdicts import LOOK, OK, REFUSED, WRONG, Finding, Report, news, parse
from .unusual_tasks import read

CHANGES = (*FAULTS, *BLIND, *TASKS)


@pytest.mark.parametrize("starter", STARTERS)
def test_every_change_fits_its_starter(starter: str, render: Render, tmp_path: Path) -> None:
    project = render(starter=starter)
    for i, change in enumerate(c for c in CHANGES if c.starter == starter):
        copy = shutil.copytree(project, tmp_path / str(i))
        if starter == DEFAULT:
            select_by_accuracy(copy)
        before = {f: f.read_text() for f in (copy / PACKAGE / "task").glob("*.py")}
        change.plant(copy)
        after = (copy / PACKAGE / "task").glob("*.py")
        changed = [file for file in after if before.get(file) != file.read_text()]
        names, edited = {f.name for f in changed}, {edit.file for edit in change.edits}
        # What is changed in the task of an owner may undo one of its edits.
        undoes = change.name.partition(",")[0] in OF_OWNERS
        assert names == edited or (undoes and names and names < edited), change.name
        for file in changed:
            ast.parse(file.read_text())


def test_every_fault_with_a_message_fits_the_default_project(
    render: Render, tmp_path: Path
) -> None:
    for i, fault in enumerate(faults.FAULTS):
        fault.plant(shutil.copytree(render(), tmp_path / str(i)))


def test_no_two_changes_share_a_name() -> None:
    assert max(Counter(change.name for change in CHANGES).values()) == 1


def test_the_halves_are_all_faults_and_as_many_of_each_kind() -> None:
    assert sorted(f.name for f in (*DEVELOPMENT, *HELD_OUT)) == sorted(f.name for f in FAULTS)
    one, other = (Counter(f.kind for f in half) for half in (DEVELOPMENT, HELD_OUT))
    assert all(abs(one[kind] - other[kind]) <= 1 for kind in one | other)


def test_the_pattern_of_a_fault_is_a_regular_expression() -> None:
    assert [re.compile(fault.named) for fault in FAULTS]


def test_findings_are_read_with_their_further_lines() -> None:
    output = (
        "notes\nok     data\nWRONG  weights: seen twice\n         use them once\n     no TODOs\n"
    )
    expected = [Finding(OK, "data", ""), Finding(WRONG, "weights", "seen twice use them once")]
    assert parse(output) == expected


def test_only_what_the_sound_project_does_not_show_is_new() -> None:
    sound = [Finding(WRONG, "a", ""), Finding(LOOK, "b", ""), Finding(OK, "c", "")]
    changed = [Finding(LOOK, "a", ""), Finding(WRONG, "b", "x"), Finding(LOOK, "c", "y")]
    assert news(changed, sound) == changed[1:]


def test_a_command_that_refuses_is_a_finding_and_one_without_verdict_a_crash() -> None:
    refused = Report(2, "ok  data\nThe loss has a reduction.\n", 1.0).findings
    assert refused[-1] == Finding(REFUSED, "refused", "The loss has a reduction.")
    assert Report(1, "Traceback\nValueError: x\n", 1.0).findings[-1].verdict == "crashed"
    assert Report(None, "", 9.0).findings[-1].verdict == "too late"
    assert Report(1, "WRONG  a: b\n", 1.0).findings == [Finding(WRONG, "a", "b")]


def test_outcomes_are_counted_by_file_and_a_file_without_any_does_not_hold() -> None:
    outcomes = read(
        Report(
            1,
            "PASSED tests/test_parity.py::test_a[full-2]\n"
            "SKIPPED [3] tests/test_parity.py:88: full batches only\n"
            "PASSED tests/test_data.py::test_b\n"
            "FAILED tests/test_data.py::test_c[1] - AssertionError: 1 != 2\n"
            "ERROR tests/test_resume.py::test_d - ValueError: x\n",
            1.0,
        )
    )
    assert outcomes["test_parity.py"].cell == "1 passed, 3 skipped"
    assert outcomes["test_parity.py"].skips == {"full batches only": 3}
    assert outcomes["test_data.py"].failures == ["test_c[1] - AssertionError: 1 != 2"]
    assert outcomes["test_run.py"].cell == "NOT RUN"
    assert [file for file, each in outcomes.items() if each.hold] == ["test_parity.py"]
