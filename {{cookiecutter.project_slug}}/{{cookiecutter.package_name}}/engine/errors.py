"""Errors that the user can fix, shown as one sentence. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
import traceback
from collections.abc import Iterator
from typing import NoReturn

from .causes import cause_of, is_bad_file, message_of, missing_name
from .interrupts import ending_in_order
from .output import forgiving_output

RESUMABLE = 138  # exit code of a run that was interrupted or lost a worker, and can be resumed


class UsageError(Exception):
    """Shown as one sentence that says what is wrong and how to fix it, with exit code 2."""


class DataError(UsageError):
    """Data that can't be read, or that the model can't take."""


def fail(sentence: str) -> NoReturn:
    """Print `sentence` on stderr, in one line, and exit with code 2."""
    # What it quotes, such as the name of a file, may hold line breaks or move the cursor.
    line = "".join(c if c.isprintable() else " " for c in sentence)
    sys.stderr.write(f"error: {line}\n")
    raise SystemExit(2)


class LostWorkerError(Exception):
    """Another worker didn't come or has ended; shown as one sentence, with exit code 138."""


class CollectiveInXlaError(UsageError):
    """A collective inside what XLA compiles."""


FULL_OR_READ_ONLY = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


def cannot_write(what: object, error: Exception) -> str:
    """The sentence for a file that couldn't be written, by Python or by TensorFlow."""
    # TensorFlow's errors read "... path; No space left on device [Op:SaveV2]".
    text = getattr(error, "strerror", None) or message_of(error)
    return (
        f"{what} can't be written ({text.rpartition('; ')[2]}); the checkpoints so far are intact: "
        "fix the disk, then resume."
    )


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Show what a person can fix as one sentence, and Ctrl-C as nothing: no traceback.

    That is a `UsageError`, a full disk, a file that `task/` can't read, a name that `task/` lacks
    after a template update, and, with exit code 138, another worker that has ended. Other mistakes
    in the code of `task/` keep their traceback.
    """
    try:
        with forgiving_output(), ending_in_order(RESUMABLE):
            yield
    except UsageError as error:
        _forget_locals(error)
        fail(str(error))
    except LostWorkerError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(RESUMABLE) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except SystemExit as error:
        _forget_locals(error)
        raise
    except Exception as error:
        from .lost_worker import STAY_SECS, is_lost_worker, sentence_for  # they need this module

        if is_lost_worker(error):
            sys.stderr.write(f"error: {sentence_for(error)}\n")
            sys.stderr.flush()
            time.sleep(STAY_SECS)
            os._exit(RESUMABLE)  # TensorFlow would wait for the lost worker once more (TF 2.21)
        _forget_locals(error)
        if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":
            fail(
                f"Out of memory ({cause_of(error)}); use a smaller --global-batch-size, or more "
                "micro-batches with --accumulate."
            )
        if isinstance(error, OSError) and error.errno in FULL_OR_READ_ONLY:
            fail(cannot_write(error.filename or "a file of the run", error))
        if is_bad_file(error):
            fail(f"{cause_of(error)}.")
        if sentence := missing_name(error):
            fail(sentence)
        raise


def _forget_locals(error: BaseException | None) -> None:
    """Drop the local variables of all functions that an error has ended.

    An iterator among them may be reading rows in Python. If it lives until the interpreter ends, it
    waits for a thread that can't run any more, and the process hangs (Python 3.11, TF 2.21).
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
