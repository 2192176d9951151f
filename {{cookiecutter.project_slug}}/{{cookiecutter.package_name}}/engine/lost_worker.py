"""Which other worker can't be reached, from the error that TensorFlow raises then.

It is asked when `link.py` has heard nothing: a process that is stopped keeps its connections.
Imports no TensorFlow.
"""

from __future__ import annotations

import re

from . import cluster, link
from .causes import cause_of, is_reading

# What a collective raises when a worker has ended or hangs (TF 2.21).
KINDS = {"UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError"}
COLLECTIVE = re.compile(r"[Cc]ollective|CoordinationService|heartbeat")
TASK = re.compile(r"/job:worker/(?:replica:\d+/)?task:(\d+)")
HEAR_SECS = 4.0  # for the link to hear who has ended
OF_CHIEF = "/tensorflow.CoordinationService/"  # the chief's TensorFlow answers these calls


def is_lost_worker(error: BaseException) -> bool:
    """Whether a collective failed, and not a disk or the data of this worker."""
    if cluster.num_workers() == 1 or not type(error).__module__.startswith("tensorflow."):
        return False
    if is_reading(error):
        return False
    return type(error).__name__ in KINDS or bool(COLLECTIVE.search(str(error)))


def end_together(error: BaseException, sentence: str) -> None:
    """Tell the other workers why this one ends; where one of them is the reason, end here.

    Args:
        error: what ends this worker.
        sentence: what it says, empty for a mistake in code.
    """
    if link.current is None:
        return
    if not is_lost_worker(error):
        told = sentence or f"{cause_of(error)} (its output has the traceback)."
        told = f"Worker {cluster.worker_index()} has ended: {told}"
        link.current.tell(told, 2 if sentence else link.RESUMABLE)
        return
    if link.current.wait_for_end(HEAR_SECS) is None:
        link.current.tell(sentence_for(error), link.RESUMABLE)
    link.current.leave()  # TensorFlow would wait for the lost worker once more (TF 2.21)


def take_leave() -> None:
    """Tell the other workers that this one is done."""
    if link.current:
        link.current.close()


def sentence_for(error: BaseException) -> str:
    """Who can't be reached, as far as an error of TensorFlow names it."""
    message = str(error)
    named = {0} if OF_CHIEF in message else {int(number) for number in TASK.findall(message)}
    lost = [i for i in range(cluster.num_workers()) if i in named and i != cluster.worker_index()]
    return link.lost(lost)
