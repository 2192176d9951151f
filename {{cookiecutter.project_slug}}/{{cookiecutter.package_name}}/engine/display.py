"""Terminal output of a run: start, a row per validation, progress bar, results."""

from __future__ import annotations

import shlex
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .batches import Split, TrainingBatches, is_endless, num_examples
from .output import PACKAGE, fact, is_quiet, width_of
from .records import measured
from .run_files import SPLITS, Row, listed, of_split
from .types import Run

MUCH_WAITING = 0.1  # fraction of the time
WIDTH = 80  # characters in a line of the end
NUMBER_WIDTH = 9  # characters that any number fits, with three or four digits
HEADING_WIDTH = 16  # characters in a line of a column's heading
SMALLEST_BAR = 10  # characters
SHORT = {"train": "train", "validation": "val"}


@dataclass(frozen=True)
class Column:
    """A column of the rows of validations: its heading, in lines, and its width."""

    heading: list[str]
    width: int


class ProgressDisplay:
    """An aligned row for each validation and, on a terminal, a bar below the latest one.

    Rows fit the terminal, or 80 characters elsewhere: losses and the monitored metric come first,
    and history.csv has what doesn't fit.

    Args:
        steps: train steps of the whole run.
        done: how many are made.
        steps_per_epoch: train steps in an epoch.
        batch_size: examples in a step.
        interval: steps between validations.
        monitor: the column of the history that selects the best weights.
        bar: whether a terminal shows the bar.
    """

    def __init__(
        self,
        steps: int,
        done: int,
        steps_per_epoch: int,
        *,
        batch_size: int,
        interval: int,
        monitor: str = "",
        bar: bool = True,
    ) -> None:
        self._steps = steps
        self._steps_per_epoch = steps_per_epoch
        self._batch_size = batch_size
        self._monitor = monitor
        parts = steps % steps_per_epoch or interval % steps_per_epoch
        self._by_steps = bool(parts) or steps == steps_per_epoch
        self._columns: dict[str, Column] = {}
        self._started = time.perf_counter()
        self._made, self._secs = 0, 0.0  # since the latest row
        self._bar = tqdm(
            desc=self._place(done),
            total=steps,
            initial=done,
            disable=not (bar and sys.stderr.isatty()) or is_quiet(),
            dynamic_ncols=True,
            leave=False,
            bar_format="{desc} {bar} {remaining} left{postfix}",
        )

    def advance(self, steps: int, losses: dict[str, float], secs: float, waited: float) -> None:
        """Show that `steps` more steps took `secs` seconds, `waited` of them for data."""
        self._made += steps
        self._secs += secs
        if self._bar.disable:
            return
        parts = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in losses.items()]
        if waited > MUCH_WAITING * secs:
            parts.append(f"{waited / secs:.0%} waiting for data")
        parts.append(f"{steps * self._batch_size / secs:,.0f} examples/s")
        place = self._place(int(self._bar.n) + steps)
        room = width_of(sys.stderr) - len(f"{place}  00:00:00 left") - SMALLEST_BAR
        shown: list[str] = []
        for part in parts:
            if len(", ".join([*shown, part])) + 2 <= room:
                shown.append(part)
        self._bar.set_description_str(place, refresh=False)
        self._bar.set_postfix_str(", ".join(shown), refresh=False)
        self._bar.update(steps)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if not is_quiet():
            self._bar.write(line, file=sys.stdout)
            sys.stdout.flush()

    def show_validation(self, row: dict[str, float], rates: dict[str, float], best: bool) -> None:
        """Print a row of the history with the learning rates; `best` marks the best so far."""
        total = self._steps if self._by_steps else self._steps // self._steps_per_epoch
        name = "step" if self._by_steps else "epoch"
        is_whole = self._by_steps or row[name] % 1 == 0
        cells = {name: f"{row[name]:{'.0f' if is_whole else '.4g'}}/{total}"}
        cells |= {column: _number(row[column]) for column in _paired(list(measured(row)))}
        for optimizer, rate in rates.items():
            column = "learning rate" if len(rates) == 1 else f"learning rate of {optimizer}"
            cells[column] = _number(rate)
        cells["examples/s"] = f"{self._made * self._batch_size / (self._secs or 1):,.0f}"
        cells["time"] = tqdm.format_interval(time.perf_counter() - self._started)
        self._made, self._secs = 0, 0.0
        if not self._columns:
            place = Column([name], max(len(name), len(f"{total}/{total}")))
            self._columns = self._choose(name, place, list(cells)[1:])
            self.say("\n".join(_heading_lines(list(self._columns.values()))))
        line = " ".join(cells.get(n, "").rjust(c.width) for n, c in self._columns.items())
        self.say(line + " *" * best)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()

    def _place(self, step: int) -> str:
        if self._by_steps:
            return f"step {step}/{self._steps}"
        epochs = self._steps // self._steps_per_epoch
        return f"epoch {min(step // self._steps_per_epoch + 1, epochs)}/{epochs}"

    def _choose(self, place: str, column: Column, names: list[str]) -> dict[str, Column]:
        """The columns that fit beside the place, in the order of `names`."""
        columns = {place: column, **{name: _column(name) for name in names}}
        losses = [name for name in names if name.endswith("loss")]
        same = [name for name in names if name.partition("_")[2] == self._monitor.partition("_")[2]]
        chosen, room = {place}, width_of(sys.stdout) - len(" *") - column.width
        for name in dict.fromkeys([self._monitor, *losses, *same, "time", *names]):
            if name in columns and columns[name].width < room:
                chosen.add(name)
                room -= 1 + columns[name].width
        return {name: column for name, column in columns.items() if name in chosen}


def start_lines(
    run: Run, splits: dict[str, Split], batches: TrainingBatches, steps: int, directory: Path
) -> str:
    """What is trained, on what, for how long, and where its results go."""
    counts = [
        f"endless {label}" if is_endless(split) else f"{num_examples(split):,} {label}"
        for label, split in splits.items()
    ]
    parameters = sum(model.count_params() for model in run.trained_models.values())
    replicas = run.strategy.num_replicas_in_sync
    share = f", {run.global_batch_size // replicas:,} on each replica" if replicas > 1 else ""
    per_epoch = "" if batches.endless else f", {batches.steps_per_epoch:,} in an epoch"
    facts = {
        "project": PACKAGE,
        "examples": ", ".join(counts),
        "batch": f"{run.global_batch_size:,} examples{share}",
        "length": f"{steps:,} steps{per_epoch}",
        "parameters": f"{parameters:,}",
        "run": str(directory),
    }
    return "\n".join(fact(name, text) for name, text in facts.items())


def table(results: dict[str, Any]) -> str:
    """Losses and metrics in rows, the splits in columns."""
    columns: dict[str, dict[str, float]] = {}
    for split in SPLITS:
        if found := of_split(results, split):
            columns[split] = found
    names = dict.fromkeys(name for numbers in columns.values() for name in numbers)
    shown = listed(names)
    width = max(map(len, shown), default=0)
    lines = [" " * width + "".join(f"{split:>12}" for split in columns)]
    for name in shown:
        numbers = (f"{column[name]:.4g}" if name in column else "" for column in columns.values())
        lines.append(f"{name.replace('_', ' '):{width}}" + "".join(f"{n:>12}" for n in numbers))
    if more := len(names) - len(shown):
        lines.append(f"and {more} more in results.json")
    return "\n".join(lines)


def end_lines(
    directory: Path, best: Row, monitor: str, seconds: float, spent: dict[str, float]
) -> str:
    """Which row is the best, where the time went, the pictures, and what to type next.

    Args:
        directory: the run directory.
        best: the best row of the history, empty if there is none.
        monitor: the column that selects it.
        seconds: of the whole run.
        spent: seconds of its parts.
    """
    spent = spent | {"other": seconds - sum(spent.values())}
    # No-break spaces, so that a number and its name stay in one line.
    parts = ", ".join(f"{secs:.1f} {what}".replace(" ", "\xa0") for what, secs in spent.items())
    line = textwrap.fill(
        fact("seconds", f"{seconds:.1f}: {parts}"), WIDTH, subsequent_indent=fact("", "")
    )
    run, runs = shlex.quote(str(directory)), shlex.quote(str(directory.parent))
    what = "none was saved: the table shows the latest"
    if best:
        by = monitor.replace("_", " ")
        what = f"step {best['step']:.0f}, chosen by {by}; its results are above"
    lines = [fact("best *", what), line.replace("\xa0", " ")]
    for i, picture in enumerate(sorted(directory.glob("*.png"))):
        lines.append(fact("" if i else "pictures", str(picture)))
    lines += [
        fact("next", f"python -m {PACKAGE} evaluate {run}"),
        fact("", "(or report, compare, predict, export)"),
        fact("", f"tensorboard --logdir {runs}"),
    ]
    return "\n".join(lines)


def _paired(columns: list[str]) -> list[str]:
    """Columns of the history with those of one number together."""
    names = [column.partition("_")[2] for column in columns]
    return sorted(columns, key=lambda column: names.index(column.partition("_")[2]))


def _number(value: float) -> str:
    """A number in at most NUMBER_WIDTH characters."""
    texts = [f"{value:.4g}", f"{value:.2e}", f"{value:.1e}"]
    return next((text for text in texts if len(text) <= NUMBER_WIDTH), texts[-1])


def _column(name: str) -> Column:
    """The heading of a column of the history in short lines, its split in one of its own."""
    split, _, rest = name.partition("_")
    first, rest = ([SHORT[split]], rest) if split in SHORT else ([], name)
    words = rest.replace("_", " ")
    heading = [*first, *textwrap.wrap(words, NUMBER_WIDTH, break_long_words=False)]
    heading = [h if len(h) <= HEADING_WIDTH else f"{h[: HEADING_WIDTH - 1]}." for h in heading]
    return Column(heading, max(NUMBER_WIDTH, *map(len, heading)))


def _heading_lines(columns: list[Column]) -> list[str]:
    """The headings of all columns, in as many lines as the longest has."""
    height = max(len(column.heading) for column in columns)
    cells = [[""] * (height - len(column.heading)) + column.heading for column in columns]
    widths = [column.width for column in columns]
    return [" ".join(map(str.rjust, line, widths)).rstrip() for line in zip(*cells, strict=True)]
