"""The numbers of a run: history.csv, steps.csv, the same for TensorBoard, and curves.png."""

from __future__ import annotations

import contextlib
import csv
import io
from pathlib import Path
from typing import Any

from .command_line import flags_in
from .curves import draw_curves
from .errors import UsageError, cannot_read
from .files import replace_file, to_disk, writing
from .output import say
from .run_directory import MAY_DIFFER
from .run_files import Row, of_split, read_csv
from .summaries import Summaries


def measured(row: Row) -> Row:
    """The numbers of a row without its place."""
    return {name: value for name, value in row.items() if name not in ("epoch", "step")}


class Records:
    """What a run has measured so far.

    Args:
        directory: the run directory.
        is_chief: whether this process writes; of several workers, the chief does.

    Attributes:
        history: a row for each validation that history.csv has.
        latest_row: that of the latest validation, whatever history.csv has; empty before the first.
    """

    def __init__(self, directory: Path, *, is_chief: bool = True) -> None:
        self.directory = directory
        self.is_chief = is_chief
        self.history: list[Row] = []
        self.latest_row: Row = {}
        self._columns: list[str] = []  # of steps.csv
        self._written: list[str] = []  # the columns of history.csv
        self._size = 0  # of history.csv
        self.summaries = Summaries(directory)

    def add_validation(self, row: Row) -> None:
        """Add a row to history.csv; TensorBoard gets its validation_* numbers."""
        self.latest_row = row
        self.history.append(row)
        if not self.is_chief:
            return
        file = self.directory / "history.csv"
        # Not all of it again, as far as nobody has changed it: a run may have many validations.
        if list(row) == self._written and file.exists() and file.stat().st_size == self._size:
            with writing(file):
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(_line(_texts(row, self._written)))
                to_disk(file)
            self._size = file.stat().st_size
        else:
            self._write_history()
        self.summaries.scalars("validation", of_split(row, "validation"), int(row["step"]))

    def _write_history(self) -> None:
        file = self.directory / "history.csv"
        self._written, self._size = _write_csv(file, self.history), file.stat().st_size

    def add_log(self, row: Row) -> None:
        """Add a row to steps.csv, and to TensorBoard's curves of training."""
        if not self.is_chief:
            return
        file = self.directory / "steps.csv"
        if not self._columns:
            self._columns = list(row)
            replace_file(file, _line(self._columns))
        with writing(file), file.open("a", encoding="utf-8") as lines:
            lines.write(_line(_texts(row, self._columns)))
        self.summaries.scalars("train", measured(row), int(row["step"]))

    def add_start(self, flags: str) -> None:
        """Give TensorBoard the flags, as YAML, and samples of the data."""
        if self.is_chief:
            self.summaries.text("config", flags, 0)
            self.summaries.picture(self.directory / "samples.png", 0)

    def add_results(self, flags: str, results: dict[str, Any], step: int) -> None:
        """Give TensorBoard the test, the flags in the table of runs, and all other pictures."""
        if not self.is_chief:
            return
        self.summaries.scalars("test", of_split(results, "test"), step)
        that_matter = {n: v for n, v in flags_in(flags).items() if n not in MAY_DIFFER}
        self.summaries.hyperparameters(that_matter, results["seconds"], step)
        for file in sorted(self.directory.glob("*.png")):
            if file.name != "samples.png":
                self.summaries.picture(file, step)

    def resume(self, step: int, validations: int, latest_row: Row) -> None:
        """Read back the rows up to `step`; later ones are made again.

        Args:
            step: how many are made.
            validations: how many rows history.csv must have up to there; more are dropped.
            latest_row: that of the latest validation up to there.
        """
        rows = self._read(self.directory / "history.csv", step, validations)
        self.history = rows[:validations]  # the last one may be of a validation that is made again
        self.latest_row = latest_row
        self.summaries.resumed_step = step
        if self.is_chief and self.history:
            self._write_history()
        if self.is_chief and (rows := self._read(self.directory / "steps.csv", step)):
            self._columns = list(rows[0])
            _write_csv(self.directory / "steps.csv", rows)

    def _read(self, file: Path, step: int, least: int = 0) -> list[Row]:
        """The rows up to `step`; of a file that somebody has changed none: it is kept beside.

        Raises:
            UsageError: the system doesn't let it be read, which says nothing of its content.
        """
        try:
            rows = [row for row in read_csv(file) if row["step"] <= step]
        except OSError as error:
            raise UsageError(cannot_read(file, error)) from error
        except ValueError:  # not text, or other columns, or no numbers
            kept = file.with_name(f"{file.stem}-changed{file.suffix}")
            if self.is_chief:
                with writing(file):
                    file.replace(kept)
            say(f"{file} isn't as this run wrote it: it is {kept.name} now, and a new one begins")
            return []
        if len(rows) < least:
            say(f"{file} has {len(rows)} rows up to step {step}, and had {least}: others are lost")
        return rows

    @property
    def latest(self) -> Row:
        """Losses and metrics of the latest validation's row."""
        return measured(self.latest_row)

    def draw_curves(self, best: Row, tested: Row) -> None:
        """Draw curves.png, once there is a row in the history; see engine/curves.py.

        Args:
            best: the row of the history whose weights were tested, or {}.
            tested: the results of the test, or {}.
        """
        if not self.history or not self.is_chief:
            return
        log: list[Row] = []
        with contextlib.suppress(OSError, ValueError):  # somebody has changed it
            log = read_csv(self.directory / "steps.csv")
        draw_curves(self.history, log, best, tested, self.directory / "curves.png")


def _write_csv(file: Path, rows: list[Row]) -> list[str]:
    """Write all rows, and return the names of the columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    replace_file(file, "".join(map(_line, [names, *(_texts(row, names) for row in rows)])))
    return names


def _line(fields: list[str]) -> str:
    line = io.StringIO()  # written as a whole: a process may be killed
    csv.writer(line, lineterminator="\n").writerow(fields)
    return line.getvalue()


def _texts(row: Row, names: list[str]) -> list[str]:
    return [_text(row.get(name, "")) for name in names]


def _text(value: float | str) -> str:
    """The shortest text that reads back as the same number; a whole one without a point."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.17g}" if value.is_integer() else repr(float(value))
