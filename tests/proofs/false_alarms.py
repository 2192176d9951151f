"""Run `check` on correct tasks that look unusual: none may be called WRONG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from . import Page
from .planted import FAULTS, TASKS, Change
from .planted.harness import run_all, run_check_on, shown, sound, unique
from .planted.verdicts import LOOK, OK

HEAD = """\
# False alarms

Correct but unusual tasks, each made from a starter as its owner would make it. `check` must not
call them `WRONG`; a `look` is allowed. It was changed until it accused none, so this page shows
that it stays so, and no rate: for that see [the first tries](blind-faults.md#correct-tasks). The
untouched starters come last, each with all flags that the [known faults](mutations.md) were tried
with. `nox -s proofs -- false_alarms` makes this page.

"""
SHORT = "a residual branch that starts at zero"


def make(short: bool) -> Page:
    """The table of tasks; wrong are those that are accused."""
    if short:
        tasks: list[Change] = [task for task in TASKS if task.name == SHORT]
    else:
        tasks = unique(iter([*TASKS, *map(sound, FAULTS)]))
    text, accused = table(tasks)
    end = f"{len(tasks) - len(accused)} of {len(tasks)} not accused.\n"
    return Page(f"{HEAD}{text}\n{end}", accused)


def table(tasks: Sequence[Change], raw: Path | None = None) -> tuple[str, list[str]]:
    """The table, and the names of tasks that are accused, refused, or make `check` crash."""
    reports = run_all(tasks, run_check_on, raw)
    lines, accused = (
        ["| task | starter | verdicts | what isn't ok |", "| --- | --- | --- | --- |"],
        [],
    )
    for task in tasks:
        findings = reports[task.name].findings
        counts = Counter(finding.verdict for finding in findings)
        said = "; ".join(shown(f) for f in findings if f.verdict != OK)
        if set(counts) - {OK, LOOK}:
            accused.append(task.name)
        verdicts = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
        lines.append(f"| {task.name} | {task.starter} | {verdicts} | {said} |")
    return "\n".join(lines) + "\n", accused
