"""A lock that lets only one process train in a run directory. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path

from filelock import AcquireReturnProxy, FileLock, Timeout

from .errors import AGAIN, UsageError, cannot_write


def lock_of(directory: Path) -> FileLock:
    """The lock of a directory: the system's own, gone when the process is.

    On a file system that has none, new versions of filelock write who holds it to the file, and a
    killed process leaves that.
    """
    return FileLock(directory / "lock", timeout=0)


def acquire(lock: FileLock, who: str) -> AcquireReturnProxy:
    """Take the lock of a directory; a context that ends it, for who wants one.

    Args:
        lock: of `lock_of`.
        who: what else may hold it, such as "process".

    Raises:
        UsageError: another one does, or there can be no lock.
        OSError: the file can't be written.
    """
    file = Path(lock.lock_file)
    try:
        return _try(lock)
    except Timeout as error:
        # A file server may keep a lock of the system until a host that was lost is back (NFSv3).
        holder = _holder(file)
        known = f", {holder}; if it has ended" if holder else "; if its host is gone"
        sentence = f"{file.parent} is being trained by another {who}{known}, delete {file}."
        raise UsageError(sentence) from error


def is_locked(directory: Path) -> bool:
    """Whether a process trains there.

    Raises:
        UsageError: there can be no lock, or this user must not take it.
    """
    try:
        with _try(lock_of(directory)):
            return False
    except Timeout:
        return True
    except PermissionError as error:
        raise UsageError(cannot_write(directory, error, AGAIN)) from error


def _try(lock: FileLock) -> AcquireReturnProxy:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that it writes to the file
            return lock.acquire()
    except NotImplementedError as error:  # by an older filelock
        raise UsageError(
            f"{Path(lock.lock_file).parent} is on a file system without locks: use another --runs, "
            "or a newer filelock."
        ) from error


def _holder(file: Path) -> str:
    """Who holds a lock that is written to its file; nothing of one of the system."""
    with contextlib.suppress(OSError, ValueError):
        pid, host, *_ = file.read_text(encoding="utf-8").splitlines()
        return f"process {int(pid)} on {host}"
    return ""
