"""Tells the other workers why this one ends, or learns it from them. Imports no TensorFlow."""

from __future__ import annotations

import re

from . import cluster, link
from .causes import cause_of, is_reading, place_of
from .errors import RESUMABLE, code_of

# What a collective raises when a worker has ended or hangs (TF 2.21).
KINDS = {"UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError"}
COLLECTIVE = re.compile(r"[Cc]ollective|CoordinationService|heartbeat")
# What one raises where workers make different ones (TF 2.21).
DIFFER = re.compile(r"Shape mismatch in the collective|Collective instance \d+ expected")
# Started again the same code raises them again; an OSError or one of a device may pass.
MISTAKES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, NameError),
    *(NotImplementedError, TypeError, ValueError),
)
HEAR_SECS = 4.0  # for the link to hear who has ended


def is_lost_worker(error: BaseException) -> bool:
    """Whether a collective failed, and not a disk or the data of this worker."""
    if cluster.num_workers() == 1 or not type(error).__module__.startswith("tensorflow."):
        return False
    if is_reading(error):
        return False
    return type(error).__name__ in KINDS or bool(COLLECTIVE.search(str(error)))


def end_together(error: BaseException, sentence: str = "") -> None:
    """Tell the other workers why this one ends; where one of them is the reason, end here.

    Args:
        error: what ends this worker.
        sentence: what it says, empty for a mistake in code.
    """
    if (connection := link.current) is None:
        return
    index = cluster.worker_index()
    if is_lost_worker(error):
        if DIFFER.search(str(error)):
            _tell_apart(error, connection)
        if connection.wait_for_end(HEAR_SECS) is None:  # such as a process that is stopped
            connection.tell(link.lost(connection.silent()), RESUMABLE)
        connection.leave()  # TensorFlow would wait for the lost worker once more (TF 2.21)
    elif not isinstance(error, Exception):  # told to end
        connection.tell(link.lost([index]), RESUMABLE)
    elif sentence:
        connection.tell(f"Worker {index} has ended: {sentence}", code_of(error))
    else:
        told = f"Worker {index} has ended: {cause_of(error)} (its output has the traceback)."
        connection.tell(told, 1 if isinstance(error, MISTAKES) else RESUMABLE)


def _tell_apart(error: BaseException, connection: link.Link) -> None:
    """Say which worker does what the others don't: the one whose collective `task/` made."""
    place, worker = place_of(error), f"Worker {cluster.worker_index()}"
    if place:
        connection.tell(link.apart(f"{worker} has come to {place}, and others haven't"), 2)
    elif connection.wait_for_end(HEAR_SECS) is None:
        sentence = connection.elsewhere() or link.apart(f"{worker} does what others don't")
        connection.tell(sentence, 2)
