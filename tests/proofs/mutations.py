"""Plant every known fault in a rendered project: one of its own commands must fail and name it."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cookiecutter.main import cookiecutter

from . import ROOT, Page
from .faults import COMMANDS, FAULTS, Fault, run

HEAD = """\
# Known faults, planted

Each fault was planted in a rendered default project, and a command of that project was run. The
command had to fail, and to name the fault. `nox -s proofs -- mutations` makes this page.

| fault | planted in | caught by | message |
| --- | --- | --- | --- |
"""


def make(short: bool) -> Page:
    """The table of faults; wrong are those that were not caught."""
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
    return Page(HEAD + "\n".join(lines) + f"\n\n{end}\n", wrong + false_alarms)


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
