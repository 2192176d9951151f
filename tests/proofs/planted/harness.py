"""Run `check`, and the project's tests, on changed projects, two or more at a time."""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cookiecutter.main import cookiecutter

from .. import ROOT
from .edits import Change, Fault
from .verdicts import (
    LOOK,
    REFUSED,
    WRONG,
    Finding,
    Report,
    news,
    run_check,
    run_tests,
)

CHECK_SECONDS, TEST_SECONDS = 180.0, 900.0  # limits of a command
JOBS = int(os.environ.get("PROOFS_JOBS", 0)) or os.cpu_count() or 1  # commands at a time


class Result(NamedTuple):
    """What became of one fault."""

    fault: Fault
    caught_by: str  # "check", "look" (of check), "tests" or ""
    named: bool | None  # whether check names the cause; None if it isn't judged or not caught
    message: str


def sound(change: Change) -> Change:
    """The untouched starter of a change, with the flags of the change."""
    flags = " ".join(change.flags)
    name = f"the starter {change.starter}{' ' * bool(flags)}{flags}, untouched"
    return Change(name=name, starter=change.starter, edits=(), flags=change.flags)


def judge(faults: Sequence[Fault], *, tests: bool = False, raw: Path | None = None) -> list[Result]:
    """Run `check` on each fault and on its sound starter; `tests`: then tests where it is missed.

    Args:
        faults: to be planted, each alone.
        tests: run the project's tests on what `check` doesn't call WRONG.
        raw: a directory for the outputs.
    """
    changes = [*unique(map(sound, faults)), *faults]
    reports = run_all(changes, run_check_on, raw)
    results = []
    for fault in faults:
        before = reports[sound(fault).name].findings
        results.append(_result(fault, news(reports[fault.name].findings, before)))
    missed = [r.fault for r in results if r.caught_by != "check"] if tests else []
    if not missed:
        return results
    untouched = {s: Change(name=f"tests of {s}", starter=s, edits=()) for s in starters(missed)}
    tested = run_all([*untouched.values(), *missed], run_tests_on, raw)
    for i, result in enumerate(results):
        if result.fault not in missed:
            continue
        fails, before = tested[result.fault.name], tested[untouched[result.fault.starter].name]
        if fails.status and before.status == 0:
            results[i] = result._replace(caught_by="tests", named=None, message=_failure(fails))
    return results


def run_all(
    changes: Sequence[Change],
    command: Callable[[Change, Path], Report],
    raw: Path | None = None,
) -> dict[str, Report]:
    """The reports of a command on each changed project, by the names of the changes."""
    with rendered(starters(changes)) as projects, ThreadPoolExecutor(JOBS) as pool:

        def one(change: Change) -> Report:
            with tempfile.TemporaryDirectory() as directory:
                copy = shutil.copytree(projects[change.starter], Path(directory) / "project")
                change.plant(copy)
                change.prepare(copy)
                report = command(change, copy)
            print(f"{report.seconds:5.0f} s  {change.starter}: {change.name}", flush=True)
            if raw:
                _write(raw, command.__name__.split("_")[1], change, report)
            return report

        return dict(zip([c.name for c in changes], pool.map(one, changes), strict=True))


def run_check_on(change: Change, project: Path) -> Report:
    """`check` on a changed project."""
    return run_check(project, change.flags, CHECK_SECONDS)


def run_tests_on(change: Change, project: Path) -> Report:
    """The tests of a changed project."""
    return run_tests(project, TEST_SECONDS)


@contextmanager
def rendered(names: Sequence[str]) -> Iterator[dict[str, Path]]:
    """A project of each starter."""
    with tempfile.TemporaryDirectory() as directory:
        yield {
            name: Path(
                cookiecutter(
                    str(ROOT),
                    no_input=True,
                    output_dir=str(Path(directory) / name),
                    default_config=True,
                    extra_context={"starter": name},
                )
            )
            for name in names
        }


def starters(changes: Sequence[Change]) -> list[str]:
    """The starters that changes are made to."""
    return list(dict.fromkeys(change.starter for change in changes))


def unique(changes: Iterator[Change]) -> list[Change]:
    """Each change once."""
    return list({change.name: change for change in changes}.values())


def matching(changes: Sequence[Change], pattern: str) -> list[Change]:
    """Those whose "starter: name (kind)" has the regular expression somewhere."""
    find = functools.partial(re.search, pattern, flags=re.IGNORECASE)
    return [c for c in changes if find(f"{c.starter}: {c.name} ({getattr(c, 'kind', 'task')})")]


def shown(finding: Finding) -> str:
    """A finding as one cell of a table."""
    verdict = "" if finding.verdict == WRONG else f"{finding.verdict}: "
    return f"{verdict}{finding.name}: {finding.text}".strip(": ").replace("|", "\\|")


def _result(fault: Fault, new: list[Finding]) -> Result:
    by = {WRONG: "check", REFUSED: "check", LOOK: "look"}
    caught_by = by.get(new[0].verdict, "") if new else ""
    named = None
    if fault.named and caught_by:
        said = " ".join(f"{f.name}: {f.text}" for f in new)
        named = bool(re.search(fault.named, said, re.IGNORECASE))
    return Result(fault, caught_by, named, "; ".join(map(shown, new)))


def _failure(report: Report) -> str:
    """The line of pytest's output that says which test failed, and why."""
    if report.status is None:
        return f"stopped after {report.seconds:.0f} s"
    lines = report.output.splitlines()
    why = [line[4:].strip() for line in lines if line.startswith("E   ")][:1]
    which = [line.split(" ")[1] for line in lines if line.startswith(("FAILED ", "ERROR "))][:1]
    return ": ".join([*which, *why]).replace("|", "\\|")


def _write(raw: Path, command: str, change: Change, report: Report) -> None:
    raw.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", f"{change.starter} {change.name}".lower()).strip("-")
    head = f"{change.starter}: {change.name}\nflags: {' '.join(change.flags) or 'none'}\n"
    if isinstance(change, Fault):
        head += f"cause: {change.cause} (task/{change.file})\n"
    head += f"{command}: exit code {report.status}, {report.seconds:.0f} s\n\n"
    (raw / f"{name}.{command}.txt").write_text(head + report.output, encoding="utf-8")
