"""SIGTERM and Ctrl-C: finish the graph call, save, leave. A second one leaves at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

RESUMABLE = 138  # exit code of a run that was interrupted, saved itself, and can be resumed
AT_ONCE = 130


class Interrupts:
    """Looks out for signals while it is entered; to be entered after the strategy is created.

    MultiWorkerMirroredStrategy swallows a SIGTERM whose handler was set before it (TF 2.21).
    """

    def __init__(self) -> None:
        self.received = False

    def __enter__(self) -> Interrupts:
        """Take over the signals."""
        self._signals = (signal.SIGTERM, signal.SIGINT)
        self._before = [signal.signal(number, self._note) for number in self._signals]
        # Python runs handlers only between graph calls; bytes on this pipe come at once.
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._writer)
        for number, handler in zip(self._signals, self._before, strict=True):
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True

    def _watch(self, reader: int) -> None:
        seen = 0
        while number := os.read(reader, 1):
            seen += number[0] in self._signals
            if seen > 1:
                os._exit(AT_ONCE)
        os.close(reader)
