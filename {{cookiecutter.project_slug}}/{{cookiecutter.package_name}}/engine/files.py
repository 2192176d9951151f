"""Write files whole or not at all, with one sentence where that fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from .errors import UsageError, cannot_write


def replace_file(file: Path, content: str | bytes) -> None:
    """Write all of `file` or, if that fails, nothing.

    Raises:
        UsageError: it can't be written.
    """
    new = file.with_suffix(".new")
    with writing(file):
        new.write_bytes(content if isinstance(content, bytes) else content.encode())
        new.replace(file)


@contextlib.contextmanager
def writing(what: Path) -> Iterator[None]:
    """Around what writes `what`.

    Raises:
        UsageError: it can't be written.
    """
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(cannot_write(what, error)) from error
