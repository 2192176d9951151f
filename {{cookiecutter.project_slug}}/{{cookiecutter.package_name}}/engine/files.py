"""Files: written whole or not at all, with one sentence where that fails; names for TensorFlow.

Imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import RESUME, UsageError, cannot_write
from .lost_worker import is_lost_worker

if TYPE_CHECKING:  # to import it takes long
    from matplotlib.figure import Figure

PNG = b"\x89PNG\r\n\x1a\n"  # its first bytes; the header ends with width and height at 24
DPI = 110  # of pictures
LARGEST_PNG = 2**26  # bytes: TensorBoard and the page of a run hold each picture as a whole


def replace_file(file: Path, content: str | bytes, then: str = RESUME) -> None:
    """Write all of `file` or, if that fails, nothing.

    Args:
        file: what to write.
        content: of it.
        then: what to do if it can't be written, as in `cannot_write`.

    Raises:
        UsageError: it can't be written.
    """
    # A name of its own: the command `report` may write the page that a run is writing.
    new = file.with_name(f"{file.name}.{secrets.token_hex(4)}.new")
    with writing(file, then):
        try:
            new.write_bytes(content if isinstance(content, bytes) else content.encode())
            to_disk(new)
            new.replace(file)
        except BaseException:  # a signal too
            with contextlib.suppress(OSError):
                new.unlink()
            raise


def delete_unfinished(directory: Path) -> None:
    """Delete what `replace_file` was writing there when it was killed."""
    for new in directory.glob("*.????????.new"):
        with contextlib.suppress(OSError):
            new.unlink()


def to_disk(path: Path) -> None:
    """Wait until a file, or the names in a directory, would survive a loss of power.

    Raises:
        OSError: what was written has not come to the disk.
    """
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # of a file system that can't
            raise
    finally:
        os.close(number)


def replace_picture(figure: Figure, file: Path, then: str = RESUME) -> None:
    """Draw a figure into a file, as a whole or not at all; `then` is as in `cannot_write`.

    Raises:
        UsageError: it can't be written.
    """
    content = io.BytesIO()
    figure.savefig(content, format=file.suffix[1:] or "png", dpi=DPI)
    replace_file(file, content.getvalue(), then)


def read_png(file: Path) -> bytes:
    """The content of a PNG file; nothing if it is no such file, or can't be read."""
    with contextlib.suppress(OSError):
        if file.is_file() and file.stat().st_size <= LARGEST_PNG:  # a pipe would wait
            content = file.read_bytes()
            return content if content.startswith(PNG) and len(content) >= 24 else b""
    return b""


def printable(text: str) -> str:
    """Text with a question mark for each byte of a file's name that isn't UTF-8."""
    return text.encode(errors="replace").decode()


def to_json(results: dict[str, Any]) -> str:
    """Results as JSON, which has no numbers that aren't finite: null instead."""
    return json.dumps(_strict(results), indent=2, allow_nan=False)


def has_wildcards(path: Path) -> bool:
    """Whether TensorFlow takes a name for a pattern."""
    return bool(set(path.as_posix()) & set("*?[\\"))


@contextlib.contextmanager
def plain_name(directory: Path) -> Iterator[Path]:
    """A directory under a name without wildcards.

    TensorFlow looks for a checkpoint to read by a pattern, and doesn't find `a[1]` by its own name
    (TF 2.21).
    """
    if not has_wildcards(directory):
        yield directory
        return
    with tempfile.TemporaryDirectory() as parent:
        link = Path(parent) / "link"
        link.symlink_to(directory.absolute(), target_is_directory=True)
        yield link


@contextlib.contextmanager
def writing(what: object, then: str = RESUME) -> Iterator[None]:
    """Around what writes `what`; `then` is as in `cannot_write`.

    Raises:
        UsageError: it can't be written.
    """
    try:
        yield
    except _disk_errors() as error:
        if is_lost_worker(error):
            raise
        raise UsageError(cannot_write(what, error, then)) from error


def _disk_errors() -> tuple[type[Exception], ...]:
    """What Python raises, and TensorFlow, if it is here."""
    tensorflow = sys.modules.get("tensorflow")
    return (OSError, tensorflow.errors.OpError) if tensorflow else (OSError,)


def _strict(value: Any) -> Any:
    """The same with None for numbers that aren't finite, also in dicts."""
    if isinstance(value, dict):
        return {name: _strict(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
