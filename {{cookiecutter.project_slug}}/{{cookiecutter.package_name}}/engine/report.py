"""The run directory, and what the terminal shows of a run."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import matplotlib
import tensorflow as tf
import yaml
from filelock import FileLock, Timeout
from matplotlib.figure import Figure
from tqdm import tqdm

from ..config import Config
from .errors import UsageError, cannot_write

# Flags that change how a run is made, not what comes out.
MAY_DIFFER = {"strategy", "virtual_replicas", "jit", "steps_per_call", "max_stop_seconds"}

matplotlib.use("Agg")  # pictures go to files, also where there is no display


class RunDirectory:
    """`runs/<time>-<name>/`: configuration, model, history, results, pictures and checkpoints.

    Args:
        path: the directory.
        is_new: whether it holds no checkpoint and no history yet.
    """

    def __init__(self, path: Path, *, is_new: bool = False) -> None:
        self.path = path
        self.is_new = is_new
        self._lock_file = FileLock(path / "lock")  # the system's own: gone when the process is
        self.history: list[dict[str, float]] = []
        self._log: Any = None

    @classmethod
    def open(cls, config: Config, text: str) -> RunDirectory:
        """A new directory, or the one that --resume asks for; locked either way.

        Args:
            config: the knobs.
            text: what config.yaml is to hold.

        Raises:
            UsageError: it can't be written to, or another process trains in it.
        """
        path = Path(config.resume) if config.resume else None
        if config.resume == "auto":
            path = _find_unfinished(Path(config.runs), text)
        directory = cls(path or _make(Path(config.runs), config.name, text), is_new=path is None)
        directory._lock()
        return directory

    def __enter__(self) -> RunDirectory:
        """Nothing more: `open` has it locked."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let go of it, and leave nothing of a run that never came to a checkpoint."""
        self._lock_file.release()
        # Not asked of the disk: one that fails for a moment must not cost the checkpoints.
        if kind is not None and self.is_new:
            shutil.rmtree(self.path, ignore_errors=True)

    def _lock(self) -> None:
        try:
            self._lock_file.acquire(timeout=0)
        except Timeout as error:
            raise UsageError(f"{self.path} is being trained by another process.") from error
        except OSError as error:
            raise UsageError(f"{self.path} can't be written to: {error.strerror}.") from error

    def write_models(self, models: dict[str, keras.Model]) -> None:
        """The summary of every model as model.txt."""
        lines: list[str] = []
        for model in models.values():
            model.summary(print_fn=lines.append, line_length=100)
        (self.path / "model.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def read_history(self, epochs: int) -> None:
        """Take up the history of the first `epochs` epochs, of a run that goes on after them."""
        file = self.path / "history.csv"
        if not epochs or not file.exists():
            return
        with file.open(newline="", encoding="utf-8") as lines:
            rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(lines)]
        self.history = [row for row in rows if row["epoch"] <= epochs]

    def add_epoch(self, row: dict[str, float]) -> None:
        """One more line in history.csv, and the same for TensorBoard."""
        self.is_new = False
        self.history.append(row)
        self._write_history()
        with _writing(self.path / "log"):
            # Only now: a run that is refused when it is resumed must leave no file behind.
            self._log = self._log or tf.summary.create_file_writer(str(self.path / "log"))
            with self._log.as_default():
                for name, value in row.items():
                    tf.summary.scalar(name, value, step=int(row["step"]))
            self._log.flush()

    def write_results(self, results: dict[str, Any]) -> None:
        """results.json."""
        _replace(self.path / "results.json", json.dumps(results, indent=2) + "\n")

    @property
    def latest(self) -> dict[str, float]:
        """Losses and metrics of the latest epoch."""
        row = self.history[-1] if self.history else {}
        return {name: value for name, value in row.items() if name not in ("epoch", "step")}

    def draw_curves(self) -> None:
        """Loss and metrics by epoch as curves.png, once there is an epoch."""
        if not self.history:
            return
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


def _make(runs: Path, name: str, text: str) -> Path:
    """A new run directory, never one that exists."""
    first = runs / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{name}"
    for number in itertools.count(2):
        path = first if number == 2 else first.with_name(f"{first.name}-{number - 1}")
        try:
            path.mkdir(parents=True)
            (path / "config.yaml").write_text(text, encoding="utf-8")
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"{path} can't be made: {error.strerror}.") from error
    raise AssertionError  # the loop has no end


def _find_unfinished(runs: Path, text: str) -> Path | None:
    """The latest run of the same configuration that has a checkpoint but no results."""
    for file in sorted(runs.glob("*/config.yaml"), reverse=True):
        started = any(file.parent.glob("checkpoints/latest/*.index"))
        finished = (file.parent / "results.json").exists()
        same = _what_matters(file.read_text(encoding="utf-8")) == _what_matters(text)
        if started and not finished and same:
            return file.parent
    return None


def _what_matters(config: str) -> dict[str, Any]:
    """The flags of a config.yaml that must be the same for a run to be the same."""
    try:
        flags = yaml.safe_load(config)
    except yaml.YAMLError:
        flags = None
    if not isinstance(flags, dict):  # no longer a run's
        return {}
    return {name: value for name, value in flags.items() if name not in MAY_DIFFER}


def _line(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items())


def _text(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _replace(file: Path, text: str) -> None:
    """Write all of `file` or, if that fails, nothing.

    Raises:
        UsageError: it can't be written.
    """
    new = file.with_suffix(".new")
    with _writing(file):
        new.write_text(text, encoding="utf-8")
        new.replace(file)


@contextlib.contextmanager
def _writing(what: Path) -> Iterator[None]:
    """Around what writes `what`.

    Raises:
        UsageError: it can't be written.
    """
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(cannot_write(what, error)) from error
