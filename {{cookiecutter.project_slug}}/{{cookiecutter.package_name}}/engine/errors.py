"""Errors that the user can fix, shown as one sentence. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any, NoReturn

from .causes import (
    cause_of,
    is_bad_file,
    is_without_value,
    message_of,
    missing_name,
    missing_package,
    place_of,
    raised_by,
)
from .interrupts import AT_ONCE, Signaled, ending_in_order
from .output import forgiving_output

RESUMABLE = 138  # exit code of a run that was interrupted or lost a worker, and can be resumed


class UsageError(Exception):
    """Shown as one sentence that says what is wrong and how to fix it, with exit code 2."""


class DataError(UsageError):
    """Data that can't be read, or that the model can't take."""


class PassingDataError(DataError):
    """Data that can't be read now; with exit code 138."""


def require_call(function: Any, takes: str, what: str) -> None:
    """Refuse what can't be called with the arguments that `takes` names, such as "batch, seed".

    Raises:
        UsageError: `what`, the subject of the sentence, is no function of so many arguments.
    """
    try:
        inspect.signature(function, follow_wrapped=False).bind(*takes.split(", "))
    except ValueError:  # of some that are written in C nothing is known
        return
    except TypeError as error:
        raise UsageError(f"{what} must be a function of ({takes}): {error}.") from error


def fail(sentence: str, code: int = 2) -> NoReturn:
    """Print `sentence` on stderr, in one line, and exit with `code`."""
    # What it quotes, such as the name of a file, may hold line breaks or move the cursor.
    line = "".join(c if c.isprintable() else " " for c in sentence)
    sys.stderr.write(f"error: {line}\n")
    raise SystemExit(code)


def require_output() -> None:
    """Print a sentence and exit with code 2 if standard output, which is the result, is lost.

    Not because its reader is gone, as with `| head -1`.
    """
    sys.stdout.flush()
    if error := getattr(sys.stdout, "lost", None):
        what = f"standard output can't be written ({error.strerror})"
        fail(f"{what}; free the disk, or send it elsewhere.")


class LostWorkerError(Exception):
    """Another worker didn't come or has ended; shown as one sentence, with exit code 138."""


class CollectiveInXlaError(UsageError):
    """A collective inside what XLA compiles."""


SMALLER_BATCHES = "use a smaller --global-batch-size, or more micro-batches with --accumulate"
LARGER_DEVICE = "use a device with more memory, such as the CPU by CUDA_VISIBLE_DEVICES=-1"
LESS_MEMORY = {  # by the file of task/ that asked for it
    "data.py": "leave the data on disk, and read each example when it is needed: by RandomAccess",
    "model.py": f"make the model smaller; if it is a batch in it, {SMALLER_BATCHES}",
}
FULL_OR_READ_ONLY = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
# Of a network file system or a busy machine, which may be back in a moment: then a launcher is to
# start anew. Not all systems have all of them.
PASSING = {
    getattr(errno, name)
    for name in (
        *("EIO", "EREMOTEIO", "ESTALE", "ETIMEDOUT", "EAGAIN", "ENOMEM"),
        *("ENOTCONN", "ECONNABORTED", "ECONNREFUSED", "ECONNRESET", "ESHUTDOWN", "EPROTO", "ECOMM"),
        *("EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETRESET", "ENETUNREACH"),
    )
    if hasattr(errno, name)
}

RESUME = "what is saved is intact: fix the disk, then resume; without a checkpoint, start again."
AGAIN = "fix that, then start the same command again."


def cannot_write(what: object, error: Exception, then: str = RESUME) -> str:
    """The sentence for a file that couldn't be written, by Python or by TensorFlow.

    Args:
        what: the file.
        error: what was raised.
        then: what to do; the default is that of training.
    """
    return f"{what} can't be written ({reason_of(error)}); {then}"


def cannot_read(what: object, error: Exception) -> str:
    """The sentence for a file that is there and can't be read, which need not be damaged."""
    mend = "look at the disk, and delete the file only if it is lost"
    if isinstance(error, PermissionError):
        mend = "let this user read it"
    if is_out_of_memory(error):
        mend = "free some memory"
    file = getattr(error, "filename", None) or what
    return f"{file} can't be read: {reason_of(error)}; {mend}, then start again."


def reason_of(error: BaseException) -> str:
    """What the system said."""
    # TensorFlow's errors read "... path; No space left on device [Op:SaveV2]".
    text = getattr(error, "strerror", None) or message_of(error)
    return text.rpartition("; ")[2]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was too little memory for Python, NumPy or TensorFlow."""
    return isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError"


def is_passing(error: BaseException) -> bool:
    """Whether storage has failed Python or TensorFlow in a way that may be over in a moment."""
    if isinstance(error, OSError):
        return error.errno in PASSING
    # TensorFlow's errors read "... path; Stale file handle [Op:SaveV2]", and Python's in a pipeline
    # "OSError: [Errno 116] Stale file handle: 'path'".
    is_of_tensorflow, text = type(error).__module__.startswith("tensorflow."), str(error)
    return is_of_tensorflow and any(
        f"; {os.strerror(n)}" in text or f"[Errno {n}] " in text for n in PASSING
    )


def code_of(error: BaseException | None) -> int:
    """The exit code of what is said in one sentence: 138 if the same command may work later."""
    while error is not None:
        if isinstance(error, PassingDataError) or is_passing(error):
            return RESUMABLE
        error = error.__cause__
    return 2


@contextlib.contextmanager
def continue_on_error(sentence: str) -> Iterator[None]:
    """Show a mistake in the code of `task/` with its traceback and `sentence`, and continue.

    For what a run can do without once it has its results: with another exit code than 0 a launcher
    would start it again. A `UsageError` of the system, such as a full disk, or of a TODO is raised.
    """
    try:
        yield
    except UsageError as error:
        if error.__cause__ or raised_by(error):
            raise
        sys.stderr.write(f"error: {error}\n{sentence}\n")
    except Exception as error:
        sys.stderr.write(f"{traceback.format_exc()}{sentence}\n")
        _forget_locals(error)


@contextlib.contextmanager
def usage_errors(*, trains: bool = True, has_flags: bool = True) -> Iterator[None]:
    """Show what a person can fix as one sentence, and Ctrl-C as nothing: no traceback.

    That is a `UsageError`, a full disk, a file that can't be read, written or looked at, a name
    that `task/` lacks after a template update, and, with exit code 138, storage that may be back in
    a moment and another worker that has ended. Other mistakes in the code of `task/` keep their
    traceback. Of several workers, what ends one is told to the others.

    Args:
        trains: whether something may have been saved to continue from.
        has_flags: whether the command takes those of training.
    """
    from .lost_worker import end_together  # it needs this module

    try:
        with forgiving_output(), ending_in_order(RESUMABLE, trains=trains):
            yield
    except LostWorkerError as error:
        fail(str(error), RESUMABLE)
    except KeyboardInterrupt as error:
        end_together(error)
        raise SystemExit(AT_ONCE) from None
    except SystemExit as error:
        place = "" if error.code else place_of(error)
        sentence = f"{place} ends the program by sys.exit or the like; raise an error instead."
        if place:
            end_together(error, sentence)
        elif error.code not in (0, RESUMABLE) or isinstance(error, Signaled):
            end_together(error)  # else all workers end alike
        _forget_locals(error)
        if place:
            fail(sentence)
        raise
    except Exception as error:
        sentence = _sentence(error, RESUME if trains else AGAIN, has_flags=has_flags)
        end_together(error, sentence)
        _forget_locals(error)
        if sentence:
            fail(sentence, code_of(error))
        if (place := place_of(error)) and hasattr(error, "add_note"):  # Python 3.10 has none
            error.add_note(f"in {place}, as called by the engine")  # below a long traceback
        raise


def _sentence(error: Exception, then: str, *, has_flags: bool) -> str:
    """What a person can fix; empty for a mistake in code."""
    if isinstance(error, UsageError):
        return str(error)
    if is_out_of_memory(error):
        file = place_of(error).partition(":")[0].rpartition("/")[2]
        mend = LESS_MEMORY.get(file, SMALLER_BATCHES)
        if SMALLER_BATCHES in mend and not has_flags:
            mend = LARGER_DEVICE
        return f"Out of memory ({cause_of(error)}); {mend}."
    if isinstance(error, OSError) and error.errno in FULL_OR_READ_ONLY:
        return cannot_write(error.filename or "a file of the run", error, then)
    if isinstance(error, OSError) and error.filename is not None and not place_of(error):
        return f"{error.filename}: {error.strerror}."
    if is_without_value(error):
        return (
            f"{cause_of(error)}; steps, layers and augmentation become graphs, in which a tensor "
            "has no value yet: compute with tf, such as tf.cast for float() and int(), and show "
            "values by tf.print."
        )
    if is_bad_file(error):
        return f"{cause_of(error)}."
    return missing_package(error) or missing_name(error)


def _forget_locals(error: BaseException | None) -> None:
    """Drop the local variables of all functions that an error has ended.

    An iterator among them may be reading rows in Python. If it lives until the interpreter ends, it
    waits for a thread that can't run any more, and the process hangs (Python 3.11, TF 2.21).
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
