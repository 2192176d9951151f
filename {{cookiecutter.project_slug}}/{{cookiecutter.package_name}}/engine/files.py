"""Files: written whole or not at all, with one sentence where that fails; names for TensorFlow."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def to_json(results: dict[str, Any]) -> str:
    """Results as JSON, which has no numbers that aren't finite: null instead."""
    strict = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in results.items()
    }
    return json.dumps(strict, indent=2, allow_nan=False)


@contextlib.contextmanager
def plain_name(directory: Path) -> Iterator[Path]:
    """A directory under a name without wildcards.

    TensorFlow looks for a checkpoint to read by a pattern, and doesn't find `a[1]` by its own name
    (TF 2.21).
    """
    if not set(directory.as_posix()) & set("*?[\\"):
        yield directory
        return
    with tempfile.TemporaryDirectory() as parent:
        link = Path(parent) / "link"
        link.symlink_to(directory.absolute(), target_is_directory=True)
        yield link


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
