"""Write docs/mutations.md: `nox -s mutations`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from cookiecutter.main import cookiecutter

from .faults import FAULTS, Fault

ROOT = Path(__file__).parents[2]
HEAD = """\
# Known faults, planted

Each fault was planted in a rendered default project, and a command of that project was run.
`nox -s mutations` writes this table anew; `nox -s full` requires that every line is caught.

| fault | planted in | caught by | says |
| --- | --- | --- | --- |
"""


def main() -> int:
    """Plant every fault; 1 if one isn't caught."""
    lines = []
    for fault in FAULTS:
        said = _try(fault)
        print(f"{'caught' if said else 'MISSED'}: {fault.name}", flush=True)
        files = ", ".join(
            f"`{file.partition('/')[2]}`"
            for file in dict.fromkeys(r[0] for r in fault.replacements)
        )
        caught_by = f"`{fault.caught_by[0]}`" if said else "**nothing**"
        lines.append(f"| {fault.name} | {files} | {caught_by} | {_shown(said)} |")
    caught = sum("**nothing**" not in line for line in lines)
    text = HEAD + "\n".join(lines) + f"\n\n{caught} of {len(lines)} caught.\n"
    (ROOT / "docs" / "mutations.md").write_text(text, encoding="utf-8")
    return int(caught < len(lines))


def _try(fault: Fault) -> str | None:
    with tempfile.TemporaryDirectory() as directory:
        project = cookiecutter(str(ROOT), no_input=True, output_dir=directory, default_config=True)
        fault.plant(Path(project))
        return fault.catch(Path(project))


def _shown(said: str | None) -> str:
    return (said or "").removeprefix("AssertionError: ").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
