"""Which other worker has ended, from the error that TensorFlow raises then.

Imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import re
import socket

from . import cluster
from .causes import is_reading

# What a collective raises when a worker has ended or hangs (TF 2.21).
KINDS = {"UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError"}
COLLECTIVE = re.compile(r"[Cc]ollective|CoordinationService|heartbeat")
TASK = re.compile(r"/job:worker/(?:replica:\d+/)?task:(\d+)")
OF_CHIEF = "/tensorflow.CoordinationService/"  # the chief's TensorFlow answers these calls
CONNECT_SECS = 2.0
STAY_SECS = 4.0  # before this process ends: others must not find it closed, and name it too


def is_lost_worker(error: BaseException) -> bool:
    """Whether a collective failed, and not a disk or the data of this worker."""
    if cluster.num_workers() == 1 or not type(error).__module__.startswith("tensorflow."):
        return False
    if is_reading(error):
        return False
    return type(error).__name__ in KINDS or bool(COLLECTIVE.search(str(error)))


def sentence_for(error: BaseException) -> str:
    """Who has ended or hangs, and what to do."""
    lost = _lost(str(error))
    if lost:
        named = " and ".join(f"worker {i} ({cluster.addresses()[i]})" for i in lost)
        who = f"{named} {'has' if len(lost) == 1 else 'have'} ended or can't be reached"
    else:
        who = "another worker has ended or can't be reached"
    return (
        f"Worker {cluster.worker_index()} can't continue: {who}; start all workers again with "
        "--resume to continue from the latest checkpoint."
    )


def _lost(message: str) -> list[int]:
    """The workers that are gone: those whose port is closed, else those that the error names."""
    others = [i for i in range(cluster.num_workers()) if i != cluster.worker_index()]
    closed = [i for i in others if not _answers(cluster.addresses()[i])]
    # One that is stopped still takes connections; then the error tells.
    named = {0} if OF_CHIEF in message else {int(number) for number in TASK.findall(message)}
    return closed or [i for i in others if i in named]


def _answers(address: str) -> bool:
    name, _, port = address.rpartition(":")
    with contextlib.suppress(OSError):
        socket.create_connection((name.strip("[]"), int(port)), timeout=CONNECT_SECS).close()
        return True
    return False
