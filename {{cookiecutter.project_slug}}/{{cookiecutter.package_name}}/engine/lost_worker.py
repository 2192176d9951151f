"""Tells the other workers why this one ends, or learns it from them. Imports no TensorFlow."""

from __future__ import annotations

import re

from . import cluster, link
from .causes import cause_of, is_reading
from .errors import RESUMABLE

# What a collective raises when a worker has ended or hangs (TF 2.21).
KINDS = {"UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError"}
COLLECTIVE = re.compile(r"[Cc]ollective|CoordinationService|heartbeat")
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
    if link.current is None:
        return
    index = cluster.worker_index()
    if is_lost_worker(error):
        if link.current.wait_for_end(HEAR_SECS) is None:  # such as a process that is stopped
            link.current.tell(link.lost(link.current.silent()), RESUMABLE)
        link.current.leave()  # TensorFlow would wait for the lost worker once more (TF 2.21)
    elif not isinstance(error, Exception):  # told to end
        link.current.tell(link.lost([index]), RESUMABLE)
    elif sentence:
        link.current.tell(f"Worker {index} has ended: {sentence}", 2)
    else:
        told = f"Worker {index} has ended: {cause_of(error)} (its output has the traceback)."
        link.current.tell(told, RESUMABLE)
