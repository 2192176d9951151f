"""The run directory, and what the terminal shows of a run."""

from __future__ import annotations

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

import keras
import matplotlib
import tensorflow as tf
from matplotlib.figure import Figure
from tqdm import tqdm

from .errors import UsageError

matplotlib.use("Agg")  # pictures go to files, also where there is no display


class RunDirectory:
    """`runs/<time>-<name>/`: configuration, model, history, results, pictures and checkpoints.

    Args:
        path: the directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.history: list[dict[str, float]] = []
        self._log = tf.summary.create_file_writer(str(path / "log"))

    @classmethod
    def create(cls, runs: str, name: str, config: str) -> RunDirectory:
        """A new directory, never one that exists.

        Raises:
            UsageError: it can't be made.
        """
        start = Path(runs) / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{name}"
        path, number = start, 2
        try:
            while True:
                try:
                    path.mkdir(parents=True)
                    break
                except FileExistsError:
                    path, number = start.with_name(f"{start.name}-{number}"), number + 1
            (path / "config.yaml").write_text(config, encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"The run directory {path} can't be made: {error.strerror}."
            ) from error
        return cls(path)

    def write_models(self, models: dict[str, keras.Model]) -> None:
        """The summary of every model as model.txt."""
        lines: list[str] = []
        for model in models.values():
            model.summary(print_fn=lines.append, line_length=100)
        (self.path / "model.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def read_history(self, epochs: int) -> None:
        """Take up the history of the first `epochs` epochs, of a run that goes on after them."""
        file = self.path / "history.csv"
        if epochs and file.exists():
            with file.open(newline="", encoding="utf-8") as lines:
                rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(lines)]
            self.history = [row for row in rows if row["epoch"] <= epochs]
        self._write_history()

    def add_epoch(self, row: dict[str, float]) -> None:
        """One more line in history.csv, and the same for TensorBoard."""
        self.history.append(row)
        self._write_history()
        with self._log.as_default():
            for name, value in row.items():
                tf.summary.scalar(name, value, step=int(row["step"]))
        self._log.flush()

    def write_results(self, results: dict[str, Any]) -> None:
        """results.json."""
        _replace(self.path / "results.json", json.dumps(results, indent=2) + "\n")

    def draw_curves(self) -> None:
        """Loss and metrics by epoch as curves.png."""
        names = [
            name.removeprefix("train_") for name in self.history[0] if name.startswith("train_")
        ]
        figure = Figure(figsize=(4.5 * len(names), 3.5), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            for split in ("train", "validation"):
                points = [
                    (r["epoch"], r[f"{split}_{name}"])
                    for r in self.history
                    if f"{split}_{name}" in r
                ]
                if points:
                    axes.plot(*zip(*points, strict=True), marker=".", label=split)
            axes.set(xlabel="epoch", title=name.replace("_", " "))
            axes.grid(alpha=0.3)
            axes.legend()
        figure.savefig(self.path / "curves.png", dpi=110)

    def _write_history(self) -> None:
        names = list(dict.fromkeys(name for row in self.history for name in row))
        lines = [",".join(names)]
        lines += [",".join(_text(row.get(name, "")) for name in names) for row in self.history]
        _replace(self.path / "history.csv", "\n".join(lines) + "\n")


class Progressbar:
    """A bar with loss, examples/s and time left on a terminal, one line an epoch elsewhere."""

    def __init__(self, steps: int, done: int) -> None:
        on_terminal = sys.stderr.isatty()
        self._bar = tqdm(
            total=steps, initial=done, unit="step", disable=not on_terminal, dynamic_ncols=True
        )

    def advance(self, steps: int, losses: dict[str, float], examples_per_second: float) -> None:
        """Show that `steps` more steps are made."""
        self._bar.set_postfix_str(
            f"{_line(losses)}, {examples_per_second:,.0f} examples/s", refresh=False
        )
        self._bar.update(steps)

    def say(self, line: str) -> None:
        """Print a line without tearing the bar."""
        self._bar.write(line, file=sys.stdout)
        sys.stdout.flush()

    def end_epoch(self, row: dict[str, float], epochs: int) -> None:
        """Print what an epoch gave."""
        numbers = {name: value for name, value in row.items() if name not in ("epoch", "step")}
        self.say(f"epoch {row['epoch']:g}/{epochs}: {_line(numbers)}")

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()


def _line(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items())


def _text(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _replace(file: Path, text: str) -> None:
    """Write all of `file` or, if that fails, nothing."""
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(file)
