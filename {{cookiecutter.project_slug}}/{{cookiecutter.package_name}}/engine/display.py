"""What the terminal shows of a run while it trains."""

from __future__ import annotations

import sys
from itertools import groupby

from tqdm import tqdm

from .records import measured

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


def _listed(numbers: dict[str, float]) -> str:
    listed = []
    for _, members in groupby(numbers, key=lambda name: name.partition("/")[0]):
        first, *others = [f"{name.replace('_', ' ')} {numbers[name]:.4g}" for name in members]
        listed += [first, *others[: LISTED - 1], *(["..."] if len(others) >= LISTED else [])]
    return ", ".join(listed)
