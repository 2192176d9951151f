"""Changes of a rendered project, as its owner would make them: exact texts, each replaced once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .places import ARRAYS, END_OF_ARRAYS

PACKAGE = "my_experiment"
DEFAULT = "image_classification"
# The body of a starter's test step.
SAME_AS_VALIDATION = "    return validation_step(run, batch, replica)\n"
BY_ACCURACY = {  # how the best weights are selected in most changes of the images
    'monitor: str = "validation_loss"': 'monitor: str = "validation_accuracy"',
    "larger_is_better: bool = False": "larger_is_better: bool = True",
}


class Edit(NamedTuple):
    """One replacement, or a new file."""

    file: str  # in task/
    text: str  # stands once in the file, or in the function `where`; "": the whole of where it is looked for
    other: str  # what takes its place
    where: str = ""  # a function of the file; "*": wherever the text stands

    def apply(self, project: Path) -> None:
        """Replace the text in a rendered project.

        Raises:
            ValueError: the text isn't there, or is there several times.
        """
        path = project / PACKAGE / "task" / self.file
        source = path.read_text(encoding="utf-8") if path.exists() else ""
        start, end = 0, len(source)
        if self.where not in ("", "*"):
            start, end = _function(source, self.where)
        text = self.text or source[start:end]
        times = source.count(text, start, end)
        if times < 1 or (times > 1 and self.where != "*"):
            raise ValueError(f"{self.file} {self.where} has {text!r} {times} times")
        changed = source[start:end].replace(text, self.other)
        path.write_text(source[:start] + changed + source[end:], encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What an owner has done to a rendered project, and the flags of its commands."""

    name: str
    starter: str = DEFAULT
    edits: tuple[Edit, ...]
    flags: tuple[str, ...] = ()
    preparation: str = ""  # a Python program that makes files which an owner has: data, a model

    def plant(self, project: Path) -> None:
        """Make the change in a rendered project."""
        if self.starter == DEFAULT:
            select_by_accuracy(project)
        for edit in self.edits:
            edit.apply(project)

    def prepare(self, project: Path) -> None:
        """Run the preparation in the project, after `plant`."""
        if self.preparation:
            environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
            command = [sys.executable, "-c", self.preparation]
            subprocess.run(command, cwd=project, env=environment, check=True)


@dataclass(frozen=True, kw_only=True)
class Fault(Change):
    """A change that is wrong, and gives no error at the first steps."""

    kind: str
    cause: str  # what a good diagnosis says
    file: str  # the file to fix, in task/
    named: str = ""  # a regular expression for messages that name the cause; "": not judged yet


def select_by_accuracy(project: Path) -> None:
    """Let a rendered project of images keep the weights of the largest accuracy as the best."""
    path = project / PACKAGE / "task" / "config.py"
    source = path.read_text(encoding="utf-8")
    for text, other in BY_ACCURACY.items():
        source = source.replace(text, other)
    path.write_text(source, encoding="utf-8")


def after(file: str, text: str, lines: str, where: str = "") -> Edit:
    """Lines put after a text that stays."""
    return Edit(file, text, text + lines, where)


def before(file: str, text: str, lines: str, where: str = "") -> Edit:
    """Lines put before a text that stays."""
    return Edit(file, text, lines + text, where)


def _function(source: str, name: str) -> tuple[int, int]:
    """Where a function stands in a source."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            assert node.end_lineno is not None
            return sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno]))
    raise ValueError(f"there is no function {name}")


def with_arrays(lines: str) -> tuple[Edit, ...]:
    """Lines that return the data of the images, made from `arrays`, the arrays of each split."""
    return (
        Edit("data.py", ARRAYS, ARRAYS.replace("return", "arrays =")),
        after("data.py", END_OF_ARRAYS, lines),
    )


def train_weights(lines: str) -> tuple[Edit, ...]:
    """Training data of the images with weights, which `lines` make from labels."""
    return with_arrays(
        '    images, labels = arrays["train"]\n'
        + lines
        + '    return arrays | {"train": (images, labels, weights.astype("float32"))}\n'
    )
