"""Printing that survives a lost stdout or stderr. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = __package__.partition(".")[0]  # of the project, in commands that a person types
GONE = {errno.EPIPE, errno.EIO, errno.EBADF}  # a closed pipe, a terminal hung up, a closed stream


class Forgiving:
    """A text stream that drops what can't be written, and knows if not for want of a reader."""

    lost: OSError | None = None

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        """What else the stream has."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or drop."""
        try:
            try:
                self._stream.write(text)
            except UnicodeEncodeError:  # the encoding has no such character, as under LANG=C
                plain = text.encode(self._stream.encoding, "backslashreplace")
                self._stream.write(plain.decode(self._stream.encoding))
        except (OSError, ValueError) as error:
            self._discard(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or drop."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._discard(error)

    def _discard(self, error: OSError | ValueError) -> None:
        if isinstance(error, OSError) and error.errno not in GONE:
            self.lost = error
        # What is still buffered would raise again when Python exits.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


_quiet = False


def set_quiet(quiet: bool) -> None:
    """Whether `say` says nothing from now on, as --quiet has it: errors and the end are printed."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether --quiet is set."""
    return _quiet


def say(text: str) -> None:
    """Print what a person wants to know of a run, at once even where stdout is a pipe."""
    if not _quiet:
        print(text, flush=True)


def say_on_terminal(text: str) -> None:
    """Say what takes a while, to a person who waits; nothing where stderr goes to a file."""
    if sys.stderr.isatty() and not _quiet:
        sys.stderr.write(f"{text} ...\n")
        sys.stderr.flush()


def fact(name: str, text: str) -> str:
    """A line at the start or the end of a run, aligned with the others."""
    return f"{name:<12}{text}"


def width_of(stream: Any) -> int:
    """Characters in a line of a terminal; 80 where the stream is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


@contextlib.contextmanager
def forgiving_output() -> Iterator[None]:
    """Let nothing end because its output can't be shown: `train.py | head -1` trains to the end."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed, as of a daemon: the next file would be what TensorFlow logs to
            os.open(os.devnull, os.O_RDWR)
    before = sys.stdout, sys.stderr
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        # A stream that was closed before Python started is None.
        sys.stdout, sys.stderr = (Forgiving(nowhere if s is None else s) for s in before)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = before
