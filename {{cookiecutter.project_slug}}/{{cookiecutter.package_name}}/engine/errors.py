"""Errors that a person at the keyboard can mend. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import NoReturn


class UsageError(Exception):
    """Shown as one sentence that says what is wrong and how to mend it, with exit code 2."""


def fail(sentence: str) -> NoReturn:
    """Say `sentence` on stderr and exit with code 2."""
    sys.stderr.write(f"error: {sentence}\n")
    raise SystemExit(2)


class TodoError(UsageError):
    """A place that is still to be filled in.

    Args:
        number: that of its TODO.
        what: the function, its file, and what it is expected to do.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"TODO({number}) is next: {what}.")


class CollectiveInXlaError(UsageError):
    """The replicas would have to talk to each other inside what XLA compiles."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Show a `UsageError` as its sentence, and Ctrl-C as nothing, instead of a traceback."""
    try:
        yield
    except UsageError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
