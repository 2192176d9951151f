"""Whether a project works with the oldest and the newest versions that its metadata allows.

In tests/: python -m proofs.versions [CELL ...], such as 3.10-lowest; `nox -s matrix` runs it.

A cell is a Python and a resolution: the default project is rendered and installed into a fresh
environment, where the commands of its README and some of its tests are run. The environment is
deleted; log and measurements stay in build/versions/. The page has the cells that were measured
with the bounds that the project has now.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from itertools import product
from pathlib import Path
from typing import Any, TextIO

from cookiecutter.main import cookiecutter

from . import ROOT

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}  # what uv calls them
CELLS = [f"{python}-{resolution}" for python, resolution in product(PYTHONS, RESOLUTIONS)]
OF_CI = ("3.10-lowest", "3.13-newest")  # those in which a project's own CI runs all of its tests
BUILD = ROOT / "build" / "versions"
PAGE = ROOT / "docs" / "versions.md"
SHOWN = ("tensorflow", "keras", "numpy", "tensorboard", "setuptools", "tyro", "matplotlib")
LIMIT = 1800  # seconds that a command may take
PARITY = "tests/test_parity.py::test_n_replicas_train_exactly_like_one"
RESUME = "tests/test_resume.py"
KILLED = "test_a_run_killed_between_two_validations_ends_like_one_never_stopped"
STEPS = {
    "dependencies": [["uv", "pip", "check"]],
    "--help": [["python", "train.py", "--help"]],
    "train": [["python", "train.py", "--steps", "4", "--virtual-replicas", "2"]],
    "check": [["python", "-m", "my_experiment", "check"]],
    "parity": [
        ["pytest", *(f"{PARITY}[{name}-2]" for name in ("full", "short_weighted", "float16"))]
    ],
    "resume": [["pytest", f"{RESUME}::{KILLED}[2]"]],
    "tensorboard": [["tensorboard", "--version"]],
    "lint": [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
}

HEAD = """# Versions

The oldest and the newest versions of its dependencies that a project's metadata allows, on each
Python: *lowest* is uv's resolution `lowest-direct` (the oldest of what the project names, and the
newest of what those need), *newest* is what pip installs as well. `nox -s matrix` makes this page;
it was measured on {machine}. The seconds hold the installation, and say little of a busy machine.

In each cell the default project is rendered and installed into a fresh environment. These must
pass: `uv pip check`; `train.py --help`; training of four steps on two virtual replicas; `check`;
three scenarios of the parity tests, and the test of a resumed run, on two replicas;
`tensorboard --version`, and `tensorboard --logdir runs` serving its page; ruff and mypy. All tests
of the project must pass in the cells of its own CI, {of_ci}.

{table}

What keeps a version out of a cell is a bound in `pyproject.toml`; each has its reason there:

```toml
{bounds}
```
"""


class Cell:
    """One environment."""

    def __init__(self, name: str, scratch: Path, log: TextIO) -> None:
        """Render the project; install nothing."""
        self.name, (self.python, _, self.resolution) = name, name.partition("-")
        self.log = log
        self.environment = scratch / "environment"
        scripts = self.environment / ("Scripts" if os.name == "nt" else "bin")
        self.environ = {name: v for name, v in os.environ.items() if name != "PYTHONPATH"} | {
            "VIRTUAL_ENV": str(self.environment),
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "UV_PYTHON_DOWNLOADS": "never",
        }
        self.project = render(scratch)

    def measure(self) -> dict[str, Any]:
        """The result, the versions, and how long it took."""
        if not self.run(["uv", "python", "find", self.python]):
            return {"result": f"not run: there is no Python {self.python} here"}
        began = time.monotonic()
        resolution = RESOLUTIONS[self.resolution]
        installed = self.run(["uv", "venv", "--python", self.python, str(self.environment)])
        installed = installed and self.run(
            ["uv", "pip", "install", "--resolution", resolution, "--editable", ".[dev]"]
        )
        if not installed:
            return {"result": "FAILED: install", "seconds": round(time.monotonic() - began)}
        steps = STEPS | ({"tests": [["pytest"]]} if self.name in OF_CI else {})
        passed = {step: all(map(self.run, commands)) for step, commands in steps.items()}
        passed["tensorboard"] &= self.serves_tensorboard()
        failed = ", ".join(step for step in passed if not passed[step])
        return {
            "result": f"FAILED: {failed}" if failed else "passed",
            "seconds": round(time.monotonic() - began),
            "versions": self.versions(),
        }

    def run(self, command: list[str]) -> bool:
        """Run a command in the project, into the log; whether its exit code is 0."""
        print(f"\n$ {' '.join(command)}", file=self.log, flush=True)
        began = time.monotonic()
        try:
            done = subprocess.run(
                self.found(command), cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL,
                stdout=self.log, stderr=subprocess.STDOUT, timeout=LIMIT, check=False,
            )  # fmt: skip
            code: int | str = done.returncode
        except subprocess.TimeoutExpired:
            code = "too long"
        print(f"# {code}, {time.monotonic() - began:.0f} s", file=self.log, flush=True)
        return code == 0

    def found(self, command: list[str]) -> list[str]:
        """The command with the path of its program, which must be that of the environment."""
        program, *arguments = command
        return [shutil.which(program, path=self.environ["PATH"]) or program, *arguments]

    def serves_tensorboard(self) -> bool:
        """Whether `tensorboard --logdir runs` answers with its page."""
        command = ["tensorboard", "--logdir", "runs", "--port", "0"]
        print(f"\n$ {' '.join(command)}", file=self.log, flush=True)
        with subprocess.Popen(
            self.found(command), cwd=self.project, env=self.environ, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        ) as server:  # fmt: skip
            timer = threading.Timer(120, server.kill)
            timer.start()
            try:
                for line in server.stderr or ():
                    print(line, end="", file=self.log, flush=True)
                    if address := re.search(r"http://\S+:\d+/", line):
                        with urllib.request.urlopen(address[0], timeout=60) as page:
                            return b"TensorBoard" in page.read()
                return False
            except OSError as error:
                print(error, file=self.log)
                return False
            finally:
                timer.cancel()
                server.kill()

    def versions(self) -> dict[str, str]:
        """What is installed, by name."""
        listed = subprocess.run(
            ["uv", "pip", "list", "--format", "json"],
            cwd=self.project, env=self.environ, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return {package["name"]: package["version"] for package in json.loads(listed.stdout)}


def render(scratch: Path) -> Path:
    """The default project."""
    return Path(cookiecutter(str(ROOT), no_input=True, output_dir=scratch, default_config=True))


def bounds(project: Path) -> str:
    """The project's dependencies, with their reasons, as they stand in its metadata."""
    metadata = (project / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^requires-python.*?^\]$", metadata, re.MULTILINE | re.DOTALL)
    assert found
    return found[0]


def create_page() -> str:
    """The page of all cells, of which only those have results that had these bounds."""
    with tempfile.TemporaryDirectory() as scratch:
        now = bounds(render(Path(scratch)))
    lines = [
        f"| Python | dependencies | {' | '.join(SHOWN)} | result | seconds | measured |",
        f"| --- | --- |{' --- |' * len(SHOWN)} --- | ---: | --- |",
    ]
    for cell in CELLS:
        file = BUILD / f"{cell}.json"
        measured = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if measured.get("bounds") != now:
            measured = {"result": "not run with these bounds"}
        versions = measured.get("versions", {})
        columns = [*cell.split("-"), *(versions.get(name, "") for name in SHOWN)]
        columns += [measured["result"], measured.get("seconds", ""), measured.get("date", "")]
        lines.append(f"| {' | '.join(map(str, columns))} |")
    machine = f"{platform.system()} {platform.machine()}, CPU only"
    of_ci = " and ".join(cell.replace("-", " ") for cell in OF_CI)
    return HEAD.format(machine=machine, of_ci=of_ci, table="\n".join(lines), bounds=now)


def main() -> int:
    """Measure cells and make the page; the exit code is 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m proofs.versions", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL", help=f"of {', '.join(CELLS)}")
    cells = parser.parse_args().cells or CELLS
    if unknown := set(cells) - set(CELLS):
        parser.error(f"no such cell: {', '.join(sorted(unknown))}")
    BUILD.mkdir(parents=True, exist_ok=True)
    wrong = []
    for name in cells:
        log = BUILD / f"{name}.log"
        with tempfile.TemporaryDirectory() as scratch, log.open("w", encoding="utf-8") as lines:
            cell = Cell(name, Path(scratch), lines)
            measured = {"bounds": bounds(cell.project), "date": f"{datetime.date.today()}"}
            measured |= cell.measure()
        (BUILD / f"{name}.json").write_text(json.dumps(measured, indent=1), encoding="utf-8")
        PAGE.write_text(create_page(), encoding="utf-8")
        print(f"{name}: {measured['result']}, {measured.get('seconds')} s; {log}", flush=True)
        if measured["result"].startswith("FAILED") or (
            measured["result"] != "passed" and "CI" in os.environ
        ):
            wrong.append(name)  # a machine may lack a Python, but CI must have them all
    print(f"failed: {', '.join(wrong) or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
