"""Connections between the workers: they report that one ends, why, and the progress of each.

TensorFlow's own errors come up to 21 s after a worker has died, don't say why it ended, and don't
come at all while its process lives and does nothing (TF 2.21). So the connections on which the
workers have met stay open: of each to the chief, which passes on what concerns all. Imports no
TensorFlow.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from . import cluster
from .causes import PACKAGE, PROJECT, TASK
from .errors import RESUMABLE

BEAT_SECS = 1.0  # between two messages about how far a worker is
LEAVE_SECS = 5.0  # for a program to end by itself when another worker has; then it is ended
SEND_SECS = 2.0
SILENT_SECS = 5.0  # without a beat
# Of the engine, what everything goes through that workers do together.
SHARED = tuple(str(PACKAGE / "engine" / name) for name in ("workers.py", "types.py", "strategy.py"))
OTHER_DEVICES = (
    "The workers have {} devices to train on, and must have equally many: look for one that the "
    "system has lost, or set CUDA_VISIBLE_DEVICES."
)
START_ALL_AGAIN = "start all workers again with --resume to continue from the latest checkpoint."

# Kills the process `pid` when nothing comes from its link for so long: it runs C code that holds
# Python's lock. A process, not a thread, for that reason; SIGKILL, since TensorFlow swallows
# SIGTERM while it waits for workers (TF 2.21). The end of its input ends it.
WATCHDOG = """
import os, select, sys
pid, secs, sentence = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
while select.select([sys.stdin], [], [], secs)[0]:
    if not os.read(0, 4096):
        sys.exit()
if os.getppid() == pid:  # otherwise it has ended, and `pid` may be of another process
    sys.stderr.write(sentence)
    sys.stderr.flush()
    os.kill(pid, 9)
"""


class Place(NamedTuple):
    """How far a worker is."""

    total: int  # things it has done
    arrived: dict[str, int]  # of these, how often it came where all workers must come
    since: float  # when it was heard first, by `time.monotonic`


class End(NamedTuple):
    """Why all workers end."""

    sentence: str
    code: int
    hanging: list[int]  # workers that can't be expected to end by themselves


class Link:
    """The connections of this worker, and a thread that listens to them.

    Args:
        connections: by worker: of the chief to all others, of the others to the chief.
        hang_timeout: seconds that others wait for a worker until all end.
        start_timeout: seconds to wait for workers once more, and for TensorFlow to wait for them.
    """

    def __init__(
        self, connections: dict[int, socket.socket], hang_timeout: float, start_timeout: float
    ) -> None:
        self._connections = connections
        self.hang_timeout = hang_timeout
        self._start_timeout = start_timeout
        self._arrived: Counter[str] = Counter()
        self._counters: list[Callable[[], int]] = []
        self._me = cluster.worker_index()
        nowhere = Place(0, {}, time.monotonic())
        self._places = dict.fromkeys([self._me, *connections], nowhere)  # of workers not done
        self._stderr = os.dup(2)  # nothing is shown on fd 2 while TensorFlow is imported
        self._end: End | None = None
        self._leave_at = 0.0
        self._is_finishing = False
        self._told = threading.Event()
        self._ready: dict[int, int] = {}  # devices by worker
        self._all_ready = threading.Event()
        self._closed = False
        self._lock = threading.RLock()
        self._received = dict.fromkeys(connections, b"")
        self._heard = dict.fromkeys(connections, time.monotonic())
        self._selector = selectors.DefaultSelector()
        for worker, connection in connections.items():
            connection.settimeout(SEND_SECS)
            self._selector.register(connection, selectors.EVENT_READ, worker)
        self._watchdog = _start_watchdog(max(hang_timeout, start_timeout))
        # Creating MultiWorkerMirroredStrategy sets a handler that swallows SIGTERM (TF 2.21). Until
        # `accept_sigterm` it stays pending, in this thread and in all that it starts.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        self.sigterm_is_blocked = True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def arrive(self, where: str) -> None:
        """Note that this worker has come to something that all workers do together."""
        self._arrived[where] += 1

    def watch(self, counter: Callable[[], int]) -> None:
        """Add what a counter says, which grows on all workers alike, to how far this one is."""
        self._counters.append(counter)

    def wait_for_all(self, devices: int) -> None:
        """Wait until all workers have come here; once in a process.

        Where one doesn't within the start timeout, all end: it may be stopped (SIGSTOP). So they do
        where another one has other `devices`, on how many it trains: TensorFlow takes it that all
        have as many, and fails later, as if a worker had ended (2.21).
        """
        self.arrive("the start")
        self._note_ready(self._me, devices)
        if not self._all_ready.wait(self._start_timeout):
            missing = set(range(cluster.num_workers())) - self._ready.keys()
            self.tell(lost(self.silent() if self._me else sorted(missing)), RESUMABLE)
            self.leave()

    def tell(self, sentence: str, code: int) -> None:
        """End all workers with a sentence, this one too in a moment, if it doesn't end by itself.

        Args:
            sentence: that all show.
            code: the exit code of the others.
        """
        self._note(End(sentence, code, []))

    def wait_for_end(self, secs: float) -> End | None:
        """Why all end, as soon as it is known; None if nothing was heard."""
        self._told.wait(secs)
        return self._end

    def silent(self) -> list[int]:
        """The workers that send no beats any more."""
        now = time.monotonic()
        return [worker for worker, heard in self._heard.items() if now - heard > SILENT_SECS]

    def elsewhere(self) -> str:
        """The sentence for workers of which each has come where the other hasn't, or nothing."""
        (first, one), *others = sorted(self._places.items())
        for second, other in others:
            here, there = _more_often(one, other), _more_often(other, one)
            if here and there:
                return apart(f"{_named([first])} has come to {here}, worker {second} to {there}")
        return ""

    @contextlib.contextmanager
    def finishing(self) -> Iterator[None]:
        """Around what this worker can finish by itself: where another is lost, it ends then."""
        self._is_finishing = True
        try:
            yield
        finally:
            self._leave_at = max(self._leave_at, time.monotonic() + LEAVE_SECS)
            self._is_finishing = False

    def leave(self) -> None:
        """End this process with the sentence that all have been told."""
        assert self._end is not None
        with contextlib.suppress(OSError):
            os.write(self._stderr, f"error: {self._end.sentence}\n".encode())
        sys.stdout.flush()
        os._exit(self._end.code)

    def close(self) -> None:
        """Take leave: this worker is done, and its end is no loss. Also called at exit."""
        if self._closed:
            return
        self._closed = True
        self._send({"done": True})
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(2 * BEAT_SECS)
        for connection in self._connections.values():
            connection.close()
        self._selector.close()
        os.close(self._stderr)
        self._watchdog.communicate()

    def forget_in_child(self) -> None:
        """Close the copies of a forked process, which would hide that its parent has ended.

        Of the parent's connections this ends nothing.
        """
        self._closed = True  # at exit it has no leave to take
        for connection in self._connections.values():
            connection.close()
        self._selector.close()
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.close()
        _close_server(int(cluster.addresses()[self._me].rpartition(":")[2]))

    def _watch(self) -> None:
        beat = 0.0
        while not self._closed:
            for key, _ in self._selector.select(BEAT_SECS):
                self._receive(key.data)
            if self._end:
                is_waited_for = self._is_finishing and self._me not in self._end.hanging
                more = self.hang_timeout if is_waited_for else 0
                if time.monotonic() > self._leave_at + more:
                    self.leave()
                self._feed_watchdog()
                time.sleep(0.1)
            elif time.monotonic() > beat and not self._closed:
                beat = time.monotonic() + BEAT_SECS
                self._beat()
                # Later it is pending only until another thread runs, which saves what is trained.
                if self.sigterm_is_blocked and signal.SIGTERM in signal.sigpending():
                    os._exit(128 + signal.SIGTERM)

    def _receive(self, worker: int) -> None:
        connection, data = self._connections[worker], b""
        with contextlib.suppress(OSError):
            data = connection.recv(1 << 16)
        if not data:
            self._selector.unregister(connection)
            if worker in self._places and not self._closed:  # it didn't take leave
                self._note(End(lost([worker]), RESUMABLE, []))
            return
        self._heard[worker] = time.monotonic()
        *lines, self._received[worker] = (self._received[worker] + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # a part of one: it read none for long
                self._take(worker, json.loads(line))

    def _take(self, worker: int, message: dict[str, Any]) -> None:
        if "done" in message:
            self._places.pop(worker, None)
        elif "ready" in message:
            self._note_ready(message["ready"], message["devices"])
        elif "sentence" in message:
            self._note(End(**message))
        else:
            self._see(worker, **message)

    def _beat(self) -> None:
        """Tell how far this worker is, and look who is behind, or elsewhere."""
        total, arrived, _ = self._places[self._me]
        with contextlib.suppress(Exception):  # a variable that is being deleted, as at the end
            arrived = dict(self._arrived)
            total = sum(arrived.values()) + sum(counter() for counter in self._counters)
        self._see(self._me, total, arrived)
        self._send({"total": total, "arrived": arrived})
        self._feed_watchdog()
        places = self._places.values()
        if time.monotonic() - max(place.since for place in places) <= self.hang_timeout:
            return
        furthest = max(place.total for place in places)
        behind = sorted(worker for worker, place in self._places.items() if place.total < furthest)
        if sentence := self.elsewhere():
            self._note(End(sentence, 2, []))
        elif behind:
            hangs = "hangs" if len(behind) == 1 else "hang"
            sentence = (
                f"{_named(behind)} {hangs}: the others have waited {self.hang_timeout:g} seconds "
                f"(--hang-timeout); {START_ALL_AGAIN}"
            )
            self._note(End(sentence, RESUMABLE, behind))

    def _feed_watchdog(self) -> None:
        with contextlib.suppress(OSError):
            assert self._watchdog.stdin is not None
            self._watchdog.stdin.write(b".")

    def _see(self, worker: int, total: int, arrived: dict[str, int]) -> None:
        if worker in self._places and total != self._places[worker].total:
            self._places[worker] = Place(total, arrived, time.monotonic())

    def _note_ready(self, worker: int, devices: int) -> None:
        """The others tell the chief that they are ready, and the chief tells that all are."""
        ready: dict[str, object] = {"ready": worker, "devices": devices}
        with self._lock:
            self._ready[worker] = devices
            if self._me == 0 and len(self._ready) == cluster.num_workers():
                if len(set(self._ready.values())) > 1:
                    numbers = ", ".join(str(self._ready[w]) for w in sorted(self._ready))
                    self._note(End(OTHER_DEVICES.format(numbers), 2, []))
                    return
                # First: then the program may take Python's lock for long.
                self._send(ready | {"ready": 0})
                self._all_ready.set()
            elif self._me:
                if worker == self._me:
                    self._send(ready)
                else:
                    self._all_ready.set()

    def _note(self, end: End) -> None:
        """Keep the first reason to end, and pass it on."""
        with self._lock:
            if self._end:
                return
            if end.sentence == lost([]):  # the chief may know more than who tells it
                end = end._replace(sentence=lost(self.silent()))
            self._end = end
            hangs = self._me in end.hanging
            self._leave_at = time.monotonic() + (0 if hangs else LEAVE_SECS)
            self._send(end._asdict())
        if hangs:
            faulthandler.dump_traceback(self._stderr)  # where it hangs
        self._told.set()

    def _send(self, message: dict[str, object]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock:
            for connection in self._connections.values():
                with contextlib.suppress(OSError):
                    connection.sendall(line)


current: Link | None = None  # of this process, if it is one of several workers


def arrive() -> None:
    """Note that this worker has come to something that all workers do together."""
    if current:
        current.arrive(_where(sys._getframe(1)))


def watch(counter: Callable[[], int]) -> None:
    """Add what a counter says, which grows on all workers alike, to how far this one is."""
    if current:
        current.watch(counter)


def at_most(secs: float) -> float:
    """So many seconds, but at most half of those after which other workers call this one hung."""
    return min(secs, current.hang_timeout / 2) if current else secs


def finishing() -> contextlib.AbstractContextManager[None]:
    """Around what this worker can finish by itself: where another is lost, it ends then."""
    return current.finishing() if current else contextlib.nullcontext()


def accept_sigterm() -> None:
    """End by SIGTERM again, as a process does that has no handler, and by one that is pending."""
    if current:
        current.sigterm_is_blocked = False
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def _forget_in_child() -> None:
    """Be no worker in a forked process, as of a ProcessPoolExecutor, which may outlive one."""
    global current
    if current:
        current.forget_in_child()
        current = None


os.register_at_fork(after_in_child=_forget_in_child)


def lost(workers: list[int]) -> str:
    """The sentence for workers that have ended, or can't be reached; none for unknown ones."""
    have = "have" if len(workers) > 1 else "has"
    return f"{_named(workers)} {have} ended or can't be reached; {START_ALL_AGAIN}"


def apart(where: str) -> str:
    """The sentence for workers that don't do the same together, and where that was seen."""
    return (
        f"{where}: what computes with all replicas, such as a metric's result or the prediction "
        "of a model, must be done by all workers alike, not behind event.is_chief or for one "
        "worker's index; change that, then start all workers again with --resume."
    )


def _more_often(one: Place, other: Place) -> str:
    """Where one worker has come more often than another, or nothing."""
    more = [where for where, n in one.arrived.items() if n > other.arrived.get(where, 0)]
    return more[-1] if more else ""


def _where(frame: FrameType | None) -> str:
    """The place in `task/` that led to a frame, or else in the engine: "proof/run.py:73"."""
    places: list[tuple[str, int]] = []
    while frame:
        places.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    own = [p for p in places if p[0].startswith(f"{PACKAGE}{os.sep}") and p[0] not in SHARED]
    in_task = [p for p in own if p[0].startswith(f"{TASK}{os.sep}")]
    return next((f"{os.path.relpath(file, PROJECT)}:{n}" for file, n in [*in_task, *own]), "")


def _named(workers: list[int]) -> str:
    named = " and ".join(f"worker {i} ({cluster.addresses()[i]})" for i in workers)
    return f"W{named[1:]}" if named else "Another worker"


def _close_server(port: int) -> None:
    """Close the socket by which TensorFlow listens: it would keep the port of an ended worker."""
    for file in list(Path("/dev/fd").iterdir()):
        with contextlib.suppress(OSError):  # not a socket
            inherited = socket.socket(fileno=int(file.name))
            listens = inherited.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and inherited.getsockname()[1:2] == (port,):
                inherited.close()
            else:
                inherited.detach()


def _start_watchdog(secs: float) -> subprocess.Popen[bytes]:
    sentence = (
        f"error: Worker {cluster.worker_index()} was killed: for {secs:g} seconds it could do "
        "nothing but wait for the other workers, or it hung; start all of them again.\n"
    )
    arguments = [str(part) for part in (os.getpid(), secs, sentence)]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", WATCHDOG, *arguments],
        stdin=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,  # a signal to the group must not end it first
    )
