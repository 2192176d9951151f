"""SIGTERM, SIGHUP and Ctrl-C.

In training: finish the graph call, save, exit; a second one exits at once. Before and after it,
SIGTERM and SIGHUP end the program as an error does, so that what is open is closed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

AT_ONCE = 130
SIGNALS: list[signal.Signals] = [signal.SIGTERM, signal.SIGINT]
if hasattr(signal, "SIGHUP"):  # a closed terminal, a dropped ssh connection; not on Windows
    SIGNALS.append(signal.SIGHUP)


@contextlib.contextmanager
def ending_in_order(code: int) -> Iterator[None]:
    """End by SIGTERM or SIGHUP with a sentence and `code`, not silently by the signal itself."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.stderr.write(
            f"interrupted by {signal.Signals(number).name}; start the same command again, with "
            "--resume auto to continue from what was saved\n"
        )
        raise SystemExit(code)

    before = {number: signal.getsignal(number) for number in SIGNALS if number != signal.SIGINT}
    before = {number: old for number, old in before.items() if old == signal.SIG_DFL}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts:
    """Watches for signals while it is entered; to be entered after the strategy is created.

    MultiWorkerMirroredStrategy swallows a SIGTERM whose handler was set before it (TF 2.21).
    """

    def __init__(self) -> None:
        self.received = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        """Take over the signals."""
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:  # ignored on purpose, as by nohup
                self._before[number] = signal.signal(number, self._note)
        # Python runs handlers only between graph calls; bytes on this pipe come at once.
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the signals back, or, when the process is about to exit, ignore further ones."""
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writer)
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self.received else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True

    def _watch(self, reader: int) -> None:
        seen = 0
        while number := os.read(reader, 1):
            seen += number[0] in self._before
            if seen > 1:
                os._exit(AT_ONCE)
        os.close(reader)
