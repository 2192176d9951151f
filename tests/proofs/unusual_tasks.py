"""Six tasks that are none of the starters pass all tests of the rendered project."""

from __future__ import annotations

import difflib
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from . import Page
from .planted import UNUSUAL, Change
from .planted.edits import PACKAGE
from .planted.harness import rendered, run_all, run_check_on, shown, starters
from .planted.verdicts import LOOK, OK, Report, run_test_files

HEAD = """\
# Six tasks that are none of the starters

Each was made from a starter as its owner would make it, in `task/` only: [tasks](tasks.md)
describes them. Then the tests of its project ran: parity on 1 to 4 replicas, resuming of a killed
run, data, a whole run by its commands, and each relation of [`check`](check.md). *Lines* are those
of `task/` that were added or changed, without blank ones. The tests of the engine are the same in
every project and were left out. Numbers of tests are those of the day. `nox -s proofs --
unusual_tasks` makes this page.

"""
COLUMNS = {
    "parity": "test_parity.py",
    "resume": "test_resume.py",
    "data": "test_data.py",
    "whole run": "test_run.py",
    "`check`": "test_relations.py",
}
SECONDS = 3_600.0  # for the tests of one task
SHORT = "two heads"

# As pytest prints them with -rpsfE.
OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED)(?: \[(\d+)\])? tests/(\w+\.py)\S* ?(.*)$")


class Outcomes(NamedTuple):
    """What became of the tests of one file."""

    counts: Counter[str]  # by "passed", "skipped", "failed"
    failures: list[str]
    skips: Counter[str]  # by reason

    @property
    def cell(self) -> str:
        """The counts; no test at all is a failure."""
        order = ("failed", "passed", "skipped")
        return ", ".join(f"{self.counts[o]} {o}" for o in order if self.counts[o]) or "NOT RUN"

    @property
    def hold(self) -> bool:
        """Whether some passed and none failed."""
        return self.counts["passed"] > 0 and not self.counts["failed"]


def make(short: bool) -> Page:
    """The table of tasks; wrong are those of which a test fails.

    The short form runs `check` on one of them.
    """
    if short:
        return _check([task for task in UNUSUAL if task.name.startswith(SHORT)])
    return table(UNUSUAL)


def table(tasks: Sequence[Change], raw: Path | None = None) -> Page:
    """Every test of each task."""
    written = lines_written(tasks)
    reports = run_all(tasks, run_tests_on, raw)
    lines = [f"| task | starter | lines | {' | '.join(COLUMNS)} |", "| --- | --- | ---: |"]
    lines[1] += " --- |" * len(COLUMNS)
    notes, wrong = [], []
    for task in tasks:
        outcomes = read(reports[task.name])
        cells = [outcomes[file].cell for file in COLUMNS.values()]
        lines.append(
            f"| {task.name} | {task.starter} | {written[task.name]} | {' | '.join(cells)} |"
        )
        for column, file in COLUMNS.items():
            notes += [f"- {task.name}, {column}: FAILED {f}" for f in outcomes[file].failures]
            skips = outcomes[file].skips.items()
            notes += [f"- {task.name}, {column}: {n} skipped, {reason}" for reason, n in skips]
        if not all(outcomes[file].hold for file in COLUMNS.values()):
            wrong.append(task.name)
    end = "\n".join(notes) or "Nothing was skipped."
    return Page(HEAD + "\n".join(lines) + f"\n\n{end}\n", wrong)


def run_tests_on(change: Change, project: Path) -> Report:
    """The tests of a changed project that are about its task."""
    return run_test_files(project, [f"tests/{file}" for file in COLUMNS.values()], SECONDS)


def read(report: Report) -> Mapping[str, Outcomes]:
    """The outcomes by file, from the short summary of pytest."""
    files = {file: Outcomes(Counter(), [], Counter()) for file in COLUMNS.values()}
    for line in report.output.splitlines():
        match = OUTCOME.match(line)
        if not match or match[3] not in files:
            continue
        outcomes, number = files[match[3]], int(match[2] or 1)
        outcomes.counts["failed" if match[1] == "ERROR" else match[1].lower()] += number
        if match[1] in ("FAILED", "ERROR"):
            outcomes.failures.append(line.partition("::")[2].replace("|", "\\|"))
        if match[1] == "SKIPPED":
            outcomes.skips[match[4]] += number
    return files


def lines_written(tasks: Sequence[Change]) -> dict[str, int]:
    """How many lines of task/ each task adds or changes, by its name; blank ones don't count."""
    numbers = {}
    with rendered(starters(tasks)) as projects, tempfile.TemporaryDirectory() as directory:
        for i, task in enumerate(tasks):
            copy = shutil.copytree(projects[task.starter], Path(directory) / str(i))
            before = _sources(copy)
            task.plant(copy)
            numbers[task.name] = sum(
                line.startswith("+ ") and bool(line[2:].strip())
                for file, after in _sources(copy).items()
                for line in difflib.ndiff(before[file], after)
            )
    return numbers


def _sources(project: Path) -> dict[str, list[str]]:
    """The lines of each file of task/."""
    files = (project / PACKAGE / "task").glob("*.py")
    return {file.name: file.read_text(encoding="utf-8").splitlines() for file in files}


def _check(tasks: Sequence[Change]) -> Page:
    lines, wrong = ["| task | verdicts | what isn't ok |", "| --- | --- | --- |"], []
    written = lines_written(tasks)
    for name, report in run_all(tasks, run_check_on).items():
        findings = report.findings
        counts = Counter(finding.verdict for finding in findings)
        verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        said = "; ".join(shown(f) for f in findings if f.verdict != OK)
        lines.append(f"| {name}, {written[name]} lines | {verdicts} | {said} |")
        if not counts[OK] or set(counts) - {OK, LOOK}:
            wrong.append(name)
    return Page(HEAD + "\n".join(lines) + "\n", wrong)
