"""The workers meet before TensorFlow connects them: all are there, and all were started alike.

TensorFlow itself waits an hour for a worker that never comes, without running any Python or looking
at signals meanwhile, and trains with workers whose flags differ (TF 2.21). So they meet first, over
a connection of each to the chief, on the port that the chief's TensorFlow will use. Imports no
TensorFlow.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from . import cluster
from .errors import LostWorkerError, UsageError

PACKAGE = Path(__file__).parents[1]
PACKAGES = ("tensorflow", "keras", "numpy")
HELLO_SECS = 5.0  # for the first line of a connection: it may be of something else
PAUSE_SECS = 0.2  # between two attempts to reach the chief
PORT_SECS = 10.0  # for the port to be free: the process before may still be ending
LONGEST = 1 << 20  # bytes of a line

# Ends the process `pid` if its own standard input stays open for so long. A process, not a thread,
# since TensorFlow holds Python's lock while it waits; by SIGKILL, since it swallows SIGTERM
# (TF 2.21).
WATCHDOG = """
import os, select, sys
pid, secs, sentence = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
if not select.select([sys.stdin], [], [], secs)[0]:
    sys.stderr.write(sentence)
    sys.stderr.flush()
    os.kill(pid, 9)
"""


def fingerprint(flags: str) -> dict[str, Any]:
    """What must be the same on all workers: flags, the project's code, versions of packages.

    Args:
        flags: all of them as YAML.
    """
    files = sorted(PACKAGE.rglob("*.py"))
    return {
        **{f"--{n.replace('_', '-')}": value for n, value in (yaml.safe_load(flags) or {}).items()},
        **{
            str(file.relative_to(PACKAGE.parent)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
        },
        **{name: version(name) for name in PACKAGES},
        "Python": platform.python_version(),
    }


def meet(must_match: dict[str, Any], timeout: float) -> None:
    """Wait until all workers are here; to be called before TensorFlow is connected.

    Args:
        must_match: what must be the same on all of them; JSON.
        timeout: seconds.

    Raises:
        LostWorkerError: one didn't come in time.
        UsageError: they differ, or a worker's port is taken.
    """
    # Through JSON, so that it compares with what comes from another process.
    must_match = json.loads(json.dumps(must_match, default=str))
    deadline = time.monotonic() + timeout
    listener = _listen(cluster.addresses()[cluster.worker_index()])
    with listener:
        if cluster.worker_index():
            listener.close()  # TensorFlow will need the port: it was only tried
            answer = _join(must_match, deadline, timeout)
        else:
            answer = _gather(listener, must_match, deadline, timeout)
    if answer["lost"]:
        raise LostWorkerError(answer["lost"])
    if answer["error"]:
        raise UsageError(answer["error"])


@contextlib.contextmanager
def watchdog(timeout: float) -> Iterator[None]:
    """Around TensorFlow's own wait for the workers: one may have died since they met.

    Kills this process with one sentence after `timeout` seconds.
    """
    sentence = (
        f"error: Worker {cluster.worker_index()} could not connect to the others within "
        f"--start-timeout {timeout:g} seconds: one must have ended; start all of them again.\n"
    )
    arguments = [str(part) for part in (os.getpid(), timeout, sentence)]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", WATCHDOG, *arguments],
        stdin=subprocess.PIPE,
        start_new_session=True,  # a signal to the group must not end it first
    )
    try:
        yield
    finally:
        process.communicate()  # the end of its input ends it


def _differences(facts: dict[int, dict[str, Any]]) -> str:
    """The sentence for workers that differ from the chief; empty if none does."""
    chief = facts[0]
    for worker in sorted(facts):
        different = [n for n in {**chief, **facts[worker]} if chief.get(n) != facts[worker].get(n)]
        if not different:
            continue
        first, *more = different
        where = f"{chief.get(first)} on worker 0 and {facts[worker].get(first)} on worker {worker}"
        if first.endswith(".py"):
            where = f"it is another file on worker {worker} than on worker 0"
        others = f" (and {len(more)} more: {', '.join(more[:3])})" if more else ""
        return (
            f"The workers must be started alike, and they differ in {first}: {where}{others}; "
            "start all of them with the same flags, code and packages."
        )
    return ""


def _gather(
    listener: socket.socket, must_match: dict[str, Any], deadline: float, timeout: float
) -> dict[str, str]:
    """Of the chief: wait for all, compare, and tell all what came out."""
    addresses = cluster.addresses()
    facts, connections = {0: must_match}, {}
    while len(facts) < len(addresses) and (left := deadline - time.monotonic()) > 0:
        listener.settimeout(left)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            connection, _ = listener.accept()
            connection.settimeout(HELLO_SECS)
            hello = _receive(connection)
            worker = int(hello["worker"])
            if 0 < worker < len(addresses):  # one that has been started again replaces itself
                facts[worker], connections[worker] = dict(hello["facts"]), connection
    missing = [worker for worker in range(len(addresses)) if worker not in facts]
    answer = {"lost": "", "error": ""}
    if missing:
        named = ", ".join(f"worker {worker} ({addresses[worker]})" for worker in missing)
        answer["lost"] = (
            f"Not all {len(addresses)} workers came within --start-timeout {timeout:g} seconds; "
            f"missing: {named}."
        )
    else:
        answer["error"] = _differences(facts)
    for connection in connections.values():
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(answer).encode() + b"\n")
            connection.recv(1)  # until the worker closes: then its side of the port is free, too
        connection.close()
    return answer


def _join(must_match: dict[str, Any], deadline: float, timeout: float) -> dict[str, str]:
    """Of the others: say hello to the chief, as often as it takes, and hear what came out."""
    (chief, *_) = cluster.addresses()
    hello = json.dumps({"worker": cluster.worker_index(), "facts": must_match}).encode() + b"\n"
    # The chief may have begun to wait later than this worker.
    while (left := deadline + timeout - time.monotonic()) > 0:
        with contextlib.suppress(OSError, ValueError):
            name, port = _split(chief)
            with socket.create_connection((name, port), timeout=min(left, HELLO_SECS)) as chiefs:
                chiefs.sendall(hello)
                chiefs.settimeout(left)
                return {"lost": "", "error": "", **_receive(chiefs)}
        if time.monotonic() > deadline:
            break
        time.sleep(PAUSE_SECS)
    lost = (
        f"The chief, worker 0 ({chief}), didn't answer within --start-timeout {timeout:g} seconds."
    )
    return {"lost": lost, "error": ""}


def _receive(connection: socket.socket) -> dict[str, Any]:
    """A line of JSON."""
    with connection.makefile("rb") as lines:
        line = lines.readline(LONGEST)
    if not line.endswith(b"\n"):
        raise ValueError("the connection was closed")
    return dict(json.loads(line))


def _listen(address: str) -> socket.socket:
    """A server at this worker's own address.

    Raises:
        UsageError: the port is taken.
    """
    name, port = _split(address)
    end = time.monotonic() + PORT_SECS
    while True:
        try:
            return _server(name, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                # A name that doesn't lead to this host here, as behind a proxy: any of its own.
                return _server("", port)
            if time.monotonic() > end:
                raise UsageError(
                    f"Worker {cluster.worker_index()} can't listen at {address}: another program "
                    "uses this port; end it, or give the worker another one."
                ) from error
            time.sleep(PAUSE_SECS)


def _server(name: str, port: int) -> socket.socket:
    return socket.create_server((name, port), backlog=1024)


def _split(address: str) -> tuple[str, int]:
    name, _, port = address.rpartition(":")
    return name.strip("[]"), int(port)
