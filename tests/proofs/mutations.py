"""Plant every known fault in a rendered project: one of its own commands must fail and name it."""

from __future__ import annotations

import os
import shutil
import tempfile
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cookiecutter.main import cookiecutter

from . import ROOT, Page
from .faults import COMMANDS, FAULTS, Fault, run
from .planted import DEVELOPMENT, HELD_OUT
from .planted.harness import Result, judge

SHOWN = 240  # characters of a message
HEAD = """\
# Known faults, planted

## Faults with a message of their own

Each fault was planted alone in a rendered default project, in `task/` or in `engine/`. A command of
that project had to fail and to name the fault. `nox -s proofs -- mutations` makes this page.

| fault | planted in | caught by | message |
| --- | --- | --- | --- |
"""

OWNERS = """\

## Faults as owners make them

None of these gives an error in the first steps. Each was planted alone. *Caught by* `check` means a
`WRONG` that the untouched starter with the same flags doesn't get; `look`, only a `look`. *Named*
is whether `check` names the cause. The project's tests weren't run for this table; when they last
were, on 22 faults, 9 of the 11 below that aren't `WRONG` among them, they caught none.
"""

HELD_OUT_HEAD = """
They are the half of the known faults that was drawn at random and set aside at first. This page has
shown them since, and it was made again while `check` grew (70 of 92 `WRONG`, then 81), so it shows
that nothing was lost, not how `check` does on faults that it hasn't met: for that see [the first
tries](blind-faults.md). `python -m proofs.planted` in `tests/` runs the other half.

"""
BARS = {"check": 0.8, "named": 0.8}  # fractions, of what is held out
SHORT = "the mean over the batch is divided by the batch size again"


def make(short: bool) -> Page:
    """Both tables; wrong are faults of the first that weren't caught, and bars not reached."""
    text, wrong = _with_messages(short)
    if short:
        results = judge([f for f in (*DEVELOPMENT, *HELD_OUT) if f.name == SHORT])
        wrong += [r.fault.name for r in results if r.caught_by != "check"]
        return Page(text + OWNERS + "\n" + table(results), wrong)
    results = judge(HELD_OUT)
    text += OWNERS + HELD_OUT_HEAD + table(results) + "\n" + summary(results) + "\n"
    return Page(text, wrong + _missed_bars(results))


def table(results: Sequence[Result]) -> str:
    """One line for each planted fault."""
    lines = [
        "| fault | kind | planted in | caught by | named | message, its beginning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    words = {True: "yes", False: "no", None: ""}
    for fault, caught_by, named, message in results:
        where = f"{fault.starter}, `task/{fault.file}`"
        by = f"`{caught_by}`" if caught_by in ("check", "look") else caught_by or "**nothing**"
        lines.append(
            f"| {fault.name} | {fault.kind} | {where} | {by} | {words[named]} | "
            f"{textwrap.shorten(message, SHOWN, placeholder=' ...')} |"
        )
    return "\n".join(lines) + "\n"


def summary(results: Sequence[Result]) -> str:
    """One sentence with the numbers."""
    count = {by: sum(r.caught_by == by for r in results) for by in ("check", "look", "tests")}
    judged = [r.named for r in results if r.caught_by in ("check", "look") and r.named is not None]
    named = f"{sum(judged)} of {len(judged)} named rightly" if judged else "names not judged"
    tests = f", {count['tests']} more by the tests" * bool(count["tests"])
    return (
        f"{count['check']} of {len(results)} caught by `check`, {count['look']} more by a `look`"
        f"{tests}; {named}."
    )


def _missed_bars(results: Sequence[Result]) -> list[str]:
    caught = [r for r in results if r.caught_by == "check"]
    reached = {
        "check": len(caught) / len(results),
        "named": sum(bool(r.named) for r in caught) / max(1, len(caught)),
    }
    return [
        f"held out, {bar}: {reached[bar]:.0%} instead of {least:.0%}"
        for bar, least in BARS.items()
        if reached[bar] < least
    ]


def _with_messages(short: bool) -> tuple[str, list[str]]:
    """The table of faults with a command and a message, and which of them were not caught."""
    faults = (FAULTS[0], FAULTS[-1]) if short else FAULTS
    with (
        tempfile.TemporaryDirectory() as directory,
        ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool,
    ):
        project = cookiecutter(str(ROOT), no_input=True, output_dir=directory, default_config=True)
        sound = [] if short else [pool.submit(run, c, Path(project)) for c in COMMANDS]
        messages = list(pool.map(lambda fault: _try(fault, Path(project)), faults))
        false_alarms = [output for status, output in (s.result() for s in sound) if status]
    lines = [_line(fault, message) for fault, message in zip(faults, messages, strict=True)]
    wrong = [f.name for f, message in zip(faults, messages, strict=True) if message is None]
    end = f"{len(faults) - len(wrong)} of {len(faults)} caught."
    if not short:
        end += " Without a fault the same commands " + ("FAILED." if false_alarms else "passed.")
    return HEAD + "\n".join(lines) + f"\n\n{end}\n", wrong + false_alarms


def _try(fault: Fault, project: Path) -> str | None:
    with tempfile.TemporaryDirectory() as directory:
        copy = shutil.copytree(project, Path(directory) / "project")
        fault.plant(copy)
        message = fault.catch(copy)
    print(f"{'MISSED' if message is None else 'caught'}: {fault.name}", flush=True)
    return message


def _line(fault: Fault, message: str | None) -> str:
    files = dict.fromkeys(file.partition("/")[2] for file, *_ in fault.replacements)
    where = ", ".join(f"`{file}`" for file in files)
    command = "**nothing**" if message is None else f"`{fault.caught_by[0]}`"
    text = (message or "").removeprefix("AssertionError: ").replace("|", "\\|")
    return f"| {fault.name} | {where} | {command} | {text} |"
