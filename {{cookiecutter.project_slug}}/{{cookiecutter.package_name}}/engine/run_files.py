"""Reads the files of a run directory. Imports no TensorFlow."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from .command_line import read_run_flags
from .errors import UsageError

Row = dict[str, float]
STARTED = re.compile(r"(\d{4}-\d\d-\d\d)-(\d\d)(\d\d)(\d\d)-")  # the beginning of a run's name
UNFINISHED = "report-unfinished.html"  # the page of a run whose end has failed
FEW_EPOCHS = 2  # a shorter run is drawn by steps
SPLITS = ("train", "validation", "test")
LISTED = 4  # numbers of one metric in a table; the files have all


@dataclass(frozen=True)
class RunFiles:
    """A run, finished or not.

    Attributes:
        path: the run directory.
        flags: of config.yaml, the texts of their values.
        history: a row for each validation so far.
        results: of results.json; empty while the run is unfinished.
    """

    path: Path
    flags: dict[str, Any]
    history: list[Row]
    results: dict[str, Any]

    @property
    def monitor(self) -> str:
        """The column that selects the best weights; as in training, without validation data."""
        column = str(self.flags.get("monitor", ""))
        known = self.history and column not in self.history[-1]
        return column.replace("validation", "train") if known else column

    @property
    def larger_is_better(self) -> bool:
        """Whether larger values of the monitored column are better."""
        return self.flags.get("larger_is_better") is True

    @property
    def best_row(self) -> Row:
        """The row of the weights that were tested, or best so far; empty if there is none."""
        column, step = self.monitor, self.results.get("best_step")
        if tested := [row for row in self.history if row["step"] == step]:
            return tested[0]
        if tested_row := self.results.get("best"):  # history.csv has lost it
            return _with_nan(tested_row)
        rows = [row for row in self.history if math.isfinite(row.get(column, math.nan))]
        best = max if self.larger_is_better else min
        return best(rows, key=lambda row: row[column], default={})

    @property
    def numbers(self) -> Row:
        """Losses and metrics: train_* and validation_* of the best row, test_* of the results."""
        numbers = {n: v for n, v in self.best_row.items() if n.partition("_")[0] in SPLITS}
        tested = {n: v for n, v in self.results.items() if n.startswith("test_")}
        return numbers | _with_nan(tested)


def _with_nan(numbers: Mapping[str, Any]) -> Row:
    """NaN for null, which strict JSON has for it, as history.csv has NaN."""
    return {name: math.nan if value is None else value for name, value in numbers.items()}


def find_run(parent: Path, name: str) -> Path | None:
    """The run of that name in a directory: the latest; one that is finished goes before others.

    So does one with a checkpoint before those without, whose names a clock that was set back may
    have made later ones.
    """
    begins = ((STARTED.match(path.name), path) for path in sorted(parent.iterdir()))
    found = [path for begin, path in begins if begin and path.name[begin.end() :] == name]
    finished = [path for path in found if is_finished(path)]
    started = [path for path in found if has_checkpoint(path)]
    return next(reversed(finished or started or found), None)


def has_checkpoint(path: Path) -> bool:
    """Whether a run has one; unlike a glob, this takes no disk that fails for an empty one.

    Raises:
        OSError: the disk fails.
    """
    try:
        files = list((path / "checkpoints" / "latest").iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return any(file.suffix == ".index" for file in files)


def is_finished(path: Path) -> bool:
    """Whether a run has come to its end: it has the first and the last file of that."""
    return all((path / name).exists() for name in ("results.json", "report.html"))


def read_run(path: Path) -> RunFiles:
    """The files of a run directory.

    Raises:
        UsageError: it isn't one, or a file isn't as a run wrote it.
    """
    try:
        flags = read_run_flags(path / "config.yaml")
    except ValueError as error:
        raise UsageError(str(error)) from error
    file = path / "results.json"
    try:
        results = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        if not _are_results(results):
            raise ValueError("other types")
        file = path / "history.csv"
        history = read_csv(file)
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} isn't as a run wrote it.") from error
    return RunFiles(path, flags, history, results)


def _are_results(results: Any) -> bool:
    """Whether what is computed with has the types that a run writes."""
    if not isinstance(results, dict):
        return False
    versions, git, best = (results.get(name, {}) for name in ("versions", "git", "best"))
    if not all(isinstance(part, dict) for part in (versions, git, best)):
        return False
    named = (results | best).items()
    numbers = [value for name, value in named if name.partition("_")[0] in SPLITS]
    is_commit = isinstance(git.get("commit"), str | None)
    return is_commit and all(isinstance(value, int | float | None) for value in numbers)


def shown(value: Any) -> str:
    """A number with four digits or more; anything else as it is written, None as nothing."""
    if isinstance(value, float):
        is_whole = (value % 1 == 0 or abs(value) >= 1e4) and abs(value) < 1e15
        return f"{value:.0f}" if is_whole else f"{value:.4g}"
    return "" if value is None else str(value)


def of_split(numbers: Mapping[str, Any], split: str) -> dict[str, Any]:
    """The losses and metrics of a split, by their names without it."""
    prefix = f"{split}_"
    return {n.removeprefix(prefix): v for n, v in numbers.items() if n.startswith(prefix)}


def listed(names: Iterable[str]) -> list[str]:
    """Names of losses and metrics; of those with several numbers the first few."""
    groups = groupby(names, key=lambda name: name.partition("/")[0])
    return [name for _, members in groups for name in list(members)[:LISTED]]


def read_csv(file: Path) -> list[Row]:
    """The rows that a run wrote; none if there is no file.

    Raises:
        OSError: it can't be read.
        ValueError: it isn't as a run wrote it.
    """
    if not file.exists():
        return []
    # A spreadsheet puts a mark before UTF-8.
    lines = file.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]  # the last may be of a killed process
    try:
        rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(whole)]
    except (TypeError, csv.Error) as error:
        raise ValueError from error
    if not all({"epoch", "step"} <= row.keys() for row in rows):
        raise ValueError("no steps")
    return rows
