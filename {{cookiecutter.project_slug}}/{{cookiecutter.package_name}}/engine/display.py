"""What the terminal shows of a run while it trains."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Any

from tqdm import tqdm

from .batches import Split, is_endless, num_examples
from .records import measured
from .types import Run

MUCH_WAITING = 0.1  # fraction of the time
LISTED = 4  # numbers of one metric in a line; history.csv has all


class ProgressDisplay:
    """On a terminal a bar with losses, examples per second and time left; elsewhere lines only.

    Args:
        steps: train steps of the whole run.
        done: how many are made.
        steps_per_epoch: train steps in an epoch.
        bar: whether a terminal shows the bar.
    """

    def __init__(self, steps: int, done: int, steps_per_epoch: int, *, bar: bool = True) -> None:
        self._steps = steps
        self._steps_per_epoch = steps_per_epoch
        self._bar = tqdm(
            total=steps,
            initial=done,
            unit="step",
            disable=not (bar and sys.stderr.isatty()),
            dynamic_ncols=True,
        )

    def advance(
        self, steps: int, losses: dict[str, float], examples_per_second: float, waiting: float
    ) -> None:
        """Show that `steps` more steps are made, `waiting` of the time for data, from 0 to 1."""
        text = f"{_listed(losses)}, {examples_per_second:,.0f} examples/s"
        if waiting > MUCH_WAITING:
            text += f", {waiting:.0%} waiting for data"
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(steps)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.write(line, file=sys.stdout)
        sys.stdout.flush()

    def show_validation(self, row: dict[str, float]) -> None:
        """Print a row of the history."""
        epochs, rest = divmod(self._steps, self._steps_per_epoch)
        if rest or row["epoch"] % 1:
            place = f"step {row['step']:g}/{self._steps} (epoch {row['epoch']:.4g})"
        else:
            place = f"epoch {row['epoch']:g}/{epochs}"
        self.say(f"{place}: {_listed(measured(row))}")

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def start_lines(run: Run, splits: dict[str, Split], steps_per_epoch: int) -> str:
    """The examples of each split, the size of a step and of the models."""
    counts = [
        f"endless {label}" if is_endless(split) else f"{num_examples(split):,} {label}"
        for label, split in splits.items()
    ]
    weights = sum(v.shape.num_elements() for m in run.trained_models.values() for v in m.variables)
    return (
        f"examples: {', '.join(counts)}; {run.global_batch_size:,} in a step, {steps_per_epoch:,} "
        f"steps in an epoch\nweights: {weights:,}"
    )


def table(results: dict[str, Any]) -> str:
    """Losses and metrics in rows, the splits in columns."""
    columns: dict[str, dict[str, float]] = {}
    for split in ("train", "validation", "test"):
        prefix = f"{split}_"
        found = {n.removeprefix(prefix): v for n, v in results.items() if n.startswith(prefix)}
        if found:
            columns[split] = found
    names = list(dict.fromkeys(name for numbers in columns.values() for name in numbers))
    shown: list[str] = []
    for _, members in groupby(names, key=lambda name: name.partition("/")[0]):
        shown += list(members)[:LISTED]
    width = max(map(len, shown), default=0)
    lines = [" " * width + "".join(f"{split:>12}" for split in columns)]
    for name in shown:
        numbers = (f"{column[name]:.4g}" if name in column else "" for column in columns.values())
        lines.append(f"{name.replace('_', ' '):{width}}" + "".join(f"{n:>12}" for n in numbers))
    return "\n".join(lines)


def _listed(numbers: dict[str, float]) -> str:
    listed = []
    for _, members in groupby(numbers, key=lambda name: name.partition("/")[0]):
        first, *others = [f"{name.replace('_', ' ')} {numbers[name]:.4g}" for name in members]
        listed += [first, *others[: LISTED - 1], *(["..."] if len(others) >= LISTED else [])]
    return ", ".join(listed)
