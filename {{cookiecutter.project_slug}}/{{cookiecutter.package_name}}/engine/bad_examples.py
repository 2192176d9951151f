"""Examples that can't be read, and are left out."""

from __future__ import annotations

import threading
import zlib
from typing import Any

COUNTED = "(counted from 0)"


def sentence(row: int, label: str, reason: str) -> str:
    """What is wrong with example `row` of a split, "" if it has no name."""
    return f"Example {row} {COUNTED}{f' of the {label}' if label else ''} {reason}."


class BadExamples:
    """Examples that can't be read and are left out, those of all splits together.

    Args:
        most: more than so many end the run.

    Attributes:
        failure: the sentence for the one that ends the run.
        may_pass: whether that one isn't bad: storage has failed.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.failure, self.may_pass = "", False
        self._found: dict[tuple[str, int], str] = {}
        self._said = 0
        self._lock = threading.Lock()  # several threads read

    def numbers(self) -> list[int]:
        """A number for each that this process has found, the same on all workers."""
        found = list(self._found)  # a copy: threads that read ahead go on adding
        return [zlib.crc32(f"{label} {row}".encode()) for label, row in found]

    def get_state(self) -> list[Any]:
        """Those left out so far, for a checkpoint; not one that is too many, and may be mended."""
        found = list(self._found.items())[: self.most]
        return [[label, row, reason] for (label, row), reason in found]

    def set_state(self, state: list[Any]) -> None:
        """Go on with those that an earlier process has found, and named."""
        self._found = {(label, row): reason for label, row, reason in state} | self._found
        self._said = len(state)

    def add(self, label: str, row: int, reason: str, *, may_pass: bool = False) -> bool:
        """Note example `row` of a split, once however often it is read; false: the run ends.

        It is one too many, or storage has failed, in a way that may pass: without the examples of
        that moment the run would be another one.

        It raises nothing: TensorFlow logs what Python raises in a graph, with tracebacks (2.21).
        """
        with self._lock:
            if may_pass:
                self.failure, self.may_pass = sentence(row, label, reason), True
                return False
            self._found.setdefault((label, row), reason)
            if len(self._found) <= self.most:
                return True
            already = f" ({self.most} others were left out)" if self.most else ""
            self.failure = sentence(row, label, f"{reason}{already}")
            return False

    def news(self) -> list[str]:
        """A line for each example that was found since the last call."""
        found = list(self._found.items())[: self.most][self._said :]  # the next ends the run
        self._said += len(found)
        return [f"left out: example {row} of the {label} {why}" for (label, row), why in found]
