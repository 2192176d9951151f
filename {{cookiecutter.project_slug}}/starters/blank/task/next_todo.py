"""The guide from TODO to TODO. Delete this file after the last. Imports no TensorFlow."""

from __future__ import annotations

from ..engine.errors import UsageError


class TodoError(UsageError, NotImplementedError):
    """Raised where the task isn't filled in yet; every command shows it as one sentence.

    Args:
        number: the number of the TODO.
        what: the function, its file, and what to write there.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(f"TODO({number}) is next: {what}.")
