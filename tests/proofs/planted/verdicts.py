"""What `check` says about a project; the only place that knows the form of its output."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .edits import PACKAGE

OK, LOOK, WRONG = "ok", "look", "WRONG"
REFUSED, CRASHED, LATE = "refused", "crashed", "too late"  # no verdict: exit code 2, another, none

FINDING = re.compile(rf"^({OK}|{LOOK}|{WRONG})\s+([^:]+?)\s*(?::\s*(.*))?$")
# The lines after the last finding.
END = re.compile(rf"^\s*(\d+ ({OK}|{LOOK}|{WRONG})|(\d+|no) TODOs)\b")


class Finding(NamedTuple):
    """One finding."""

    verdict: str
    name: str
    text: str  # what was seen, the cause, the fix


class Report(NamedTuple):
    """One run of a command."""

    status: int | None  # the exit code; None if it was stopped
    output: str
    seconds: float

    @property
    def findings(self) -> list[Finding]:
        """What `check` printed; a fault without findings gives one that says so."""
        found = parse(self.output)
        end = self.output.strip().splitlines()[-1:] or [""]
        if self.status is None:
            return [*found, Finding(LATE, "no end", f"stopped after {self.seconds:.0f} s")]
        if self.status == 2:
            return [*found, Finding(REFUSED, "refused", end[0])]
        if self.status not in (0, 1) or (self.status == 1 and WRONG not in verdicts(found)):
            return [*found, Finding(CRASHED, "crashed", end[0])]
        return found


def verdicts(findings: list[Finding]) -> set[str]:
    """The verdicts among findings."""
    return {finding.verdict for finding in findings}


def parse(output: str) -> list[Finding]:
    """The findings; an indented line continues the one before."""
    findings: list[Finding] = []
    for line in output.splitlines():
        if match := FINDING.match(line):
            findings.append(Finding(match[1], match[2], match[3] or ""))
        elif findings and line.startswith(" ") and not END.match(line):
            last = findings[-1]
            findings[-1] = last._replace(text=f"{last.text} {line.strip()}".strip())
    return findings


def news(changed: list[Finding], sound: list[Finding]) -> list[Finding]:
    """What isn't ok, and isn't said of the sound project as well; the gravest first."""
    graver = {OK: (), LOOK: (LOOK, WRONG), WRONG: (WRONG,)}
    said = {(f.verdict, f.name) for f in sound}
    new = [
        f
        for f in changed
        if f.verdict != OK and not any((v, f.name) in said for v in graver.get(f.verdict, ()))
    ]
    order = (WRONG, REFUSED, LOOK, CRASHED, LATE)
    return sorted(new, key=lambda f: order.index(f.verdict))


def run_check(project: Path, flags: tuple[str, ...], seconds: float) -> Report:
    """`check` with the flags."""
    return _run(("-m", PACKAGE, "check", *flags), project, seconds)


def run_tests(project: Path, seconds: float) -> Report:
    """The tests of the task, until one fails; those of the engine left out."""
    arguments = ("-q", "-x", "-p", "no:cacheprovider", "--ignore=tests/engine", "tests")
    return _run(("-m", "pytest", *arguments), project, seconds)


def run_test_files(project: Path, files: Sequence[str], seconds: float) -> Report:
    """Some tests, to the end, with a line for the outcome of each."""
    return _run(
        ("-m", "pytest", "-q", "-rpsfE", "-p", "no:cacheprovider", *files), project, seconds
    )


def _run(arguments: tuple[str, ...], project: Path, seconds: float) -> Report:
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Of a failure pytest prints as much as one line of a terminal holds.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "300"},
        start_new_session=True,
    ) as process:
        status: int | None
        try:
            output, _ = process.communicate(timeout=seconds)
            status = process.returncode
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # its session: tests start processes too
            output, _ = process.communicate()
            status = None
    return Report(status, output, time.monotonic() - began)
