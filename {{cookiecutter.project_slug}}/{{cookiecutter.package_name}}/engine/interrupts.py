"""SIGTERM, SIGHUP and Ctrl-C: finish the graph call, save, exit. A second one exits at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

AT_ONCE = 130
SIGNALS = [signal.SIGTERM, signal.SIGINT]
if hasattr(signal, "SIGHUP"):  # a closed terminal, a dropped ssh connection; not on Windows
    SIGNALS.append(signal.SIGHUP)


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
