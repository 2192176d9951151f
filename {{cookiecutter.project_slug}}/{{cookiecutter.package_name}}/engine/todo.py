"""The TODOs that are still in the task."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .errors import UsageError

MARKER = re.compile(r"#\s*TODO\((\d+)\):\s*(.*)")


class Todo(NamedTuple):
    """One place where task-specific code belongs."""

    number: int
    file: Path
    line: int
    text: str


def find_todos(directory: Path) -> list[Todo]:
    """The TODO markers of the Python files in `directory`, by number.

    Raises:
        UsageError: a file can't be read.
    """
    todos = []
    for file in sorted(directory.rglob("*.py")):
        if not file.is_file():  # such as a link by which an editor locks a file
            continue
        try:
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise UsageError(f"{file} can't be read: {error.strerror}.") from error
        for i, line in enumerate(lines):
            if marker := MARKER.search(line):
                text = [marker[2]]
                for more in lines[i + 1 :]:  # the comment may go on
                    if not more.strip().startswith("# "):
                        break
                    text.append(more.strip()[2:])
                todos.append(Todo(int(marker[1]), file, i + 1, " ".join(text)))
    return sorted(todos)
