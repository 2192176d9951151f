"""What the terminal shows of a run while it trains."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from tqdm import tqdm


class ProgressDisplay:
    """On a terminal a bar with losses, examples per second and time left; elsewhere lines only.

    A closed terminal or pipe doesn't end a run: what can't be shown is dropped.

    Args:
        steps: train steps of the whole run.
        done: how many are made.
        steps_per_epoch: train steps in an epoch.
    """

    def __init__(self, steps: int, done: int, steps_per_epoch: int) -> None:
        self._steps = steps
        self._steps_per_epoch = steps_per_epoch
        self._bar = tqdm(
            total=steps,
            initial=done,
            unit="step",
            disable=not _is_terminal(sys.stderr),
            dynamic_ncols=True,
        )

    def advance(self, steps: int, losses: dict[str, float], examples_per_second: float) -> None:
        """Show that `steps` more steps are made."""
        text = f"{_listed(losses)}, {examples_per_second:,.0f} examples/s"
        with _if_it_can_be_shown():
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(steps)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        with _if_it_can_be_shown():
            self._bar.write(line, file=sys.stdout)
            sys.stdout.flush()

    def show_validation(self, row: dict[str, float]) -> None:
        """Print a row of the history."""
        numbers = {name: value for name, value in row.items() if name not in ("epoch", "step")}
        epochs, rest = divmod(self._steps, self._steps_per_epoch)
        if rest or row["epoch"] % 1:
            place = f"step {row['step']:g}/{self._steps} (epoch {row['epoch']:.4g})"
        else:
            place = f"epoch {row['epoch']:g}/{epochs}"
        self.say(f"{place}: {_listed(numbers)}")

    def close(self) -> None:
        """Leave the bar as it is."""
        with _if_it_can_be_shown():
            self._bar.close()


@contextlib.contextmanager
def _if_it_can_be_shown() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError):  # a closed pipe, a terminal that hung up, a closed file
        for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
            if stream is not None and not _can_flush(stream):
                # What is still buffered would raise again at exit.
                with contextlib.suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def _can_flush(stream: object) -> bool:
    try:
        stream.flush()  # type: ignore[attr-defined]
    except (OSError, ValueError):
        return False
    return True


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):  # no stderr at all, or a closed one
        return False


def _listed(numbers: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in numbers.items())
