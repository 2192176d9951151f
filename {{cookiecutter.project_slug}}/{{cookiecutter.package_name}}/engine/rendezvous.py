"""Before TensorFlow starts: checks that all workers are there, with the same flags and code.

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
import selectors
import socket
import time
from importlib.metadata import version
from typing import Any

import yaml

from . import cluster, link
from .causes import PACKAGE
from .errors import LostWorkerError, UsageError

PACKAGES = ("tensorflow", "keras", "numpy")
TIMEOUT = 300.0
HELLO_SECS = 1.0  # for the first line of a connection: it may be of something else
WELCOME_SECS = 5.0  # for the answer to a line
PAUSE_SECS = 0.2  # between two attempts to reach the chief
PORT_SECS = 10.0  # for the port to be free: the process before may still be ending
WAIT_SECS = 1e6  # the longest of one call: the system counts milliseconds in 32 bits
LONGEST, CHUNK = 1 << 20, 1 << 16  # bytes of a line, and of a part of it
Met = tuple[dict[str, str], dict[int, socket.socket]]  # what came out, and connections by worker

launcher = ""  # what said who the workers are


def fingerprint(flags: str) -> dict[str, Any]:
    """What must be the same on all workers: flags, the project's code, versions of packages.

    Args:
        flags: all of them as YAML.
    """
    return {
        **{f"--{n.replace('_', '-')}": value for n, value in (yaml.safe_load(flags) or {}).items()},
        **hashes_of_code(),
        **{name: version(name) for name in PACKAGES},
        "Python": platform.python_version(),
        "the addresses of the workers": ", ".join(cluster.addresses()),
    }


def hashes_of_code() -> dict[str, str]:
    """The SHA-256 of each module of the project, by its file."""
    return {
        str(file.relative_to(PACKAGE.parent)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.is_file() and not file.name.startswith(".")  # an editor's lock is a dead link
    }


def connect(
    strategy: str,
    flags: str = "",
    *,
    start_timeout: float = TIMEOUT,
    hang_timeout: float = TIMEOUT,
) -> None:
    """Meet the other workers, if there are any, and stay in touch with them: see `link.py`.

    A second call does nothing.

    Args:
        strategy: what `--strategy` says.
        flags: all of them as YAML.
        start_timeout: how many seconds to wait for the others, and TensorFlow after that.
        hang_timeout: how many seconds workers wait for one that does nothing.

    Raises:
        LostWorkerError: one didn't come in time, or has ended meanwhile.
        UsageError: they differ, or a worker's port is taken.
    """
    global launcher
    if link.current:
        return
    launcher = cluster.launcher_name(os.environ)
    cluster.settle(os.environ, several=strategy in ("auto", "multi_worker"))
    if cluster.num_workers() > 1:
        connections = meet(fingerprint(flags), start_timeout)
        link.current = link.Link(connections, hang_timeout, start_timeout)


def meet(must_match: dict[str, Any], timeout: float) -> dict[int, socket.socket]:
    """Wait until all workers are here; to be called before TensorFlow is connected.

    Args:
        must_match: what must be the same on all of them; JSON.
        timeout: seconds.

    Returns:
        Connections by worker: of the chief to all others, of the others to the chief.

    Raises:
        LostWorkerError: one didn't come in time, or has ended meanwhile.
        UsageError: they differ, or a worker's port is taken.
    """
    # Through JSON, so that it compares with what comes from another process.
    must_match = json.loads(json.dumps(must_match, default=str))
    deadline = time.monotonic() + timeout
    with _listen(cluster.addresses()[cluster.worker_index()]) as listener:
        if cluster.worker_index():
            listener.close()  # TensorFlow will need the port: it was only tried
            answer, connections = _join(must_match, deadline, timeout)
        else:
            answer, connections = _gather(listener, must_match, deadline, timeout)
    if answer["lost"]:
        raise LostWorkerError(answer["lost"])
    if answer["error"]:
        raise UsageError(answer["error"])
    return connections


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
) -> Met:
    """Of the chief: wait for all, compare, and tell all what came out."""
    addresses = cluster.addresses()
    facts, ended, double = {0: must_match}, 0, ""
    connections: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ, 0)
        while len(facts) < len(addresses) and not ended and time.monotonic() < deadline:
            found = selector.select(min(deadline - time.monotonic(), WAIT_SECS))
            for key, _ in sorted(found, key=lambda event: event[0].data, reverse=True):
                if key.data:  # it has nothing to say before it is answered, so this is its end
                    ended = key.data
                elif not ended and (came := _welcome(listener, len(addresses))):
                    worker, its_facts, connection = came
                    if worker in connections:
                        double = f"Two processes are worker {worker} ({addresses[worker]}); "
                        double += "give each its own index, as in TF_CONFIG."
                        _send(connection, {"lost": double, "error": ""})  # or one started again
                        continue
                    facts[worker], connections[worker] = its_facts, connection
                    selector.register(connection, selectors.EVENT_READ, worker)
    missing = [worker for worker in range(len(addresses)) if worker not in facts]
    answer = {"lost": "", "error": ""}
    if ended:
        named = f"Worker {ended} ({addresses[ended]})"
        answer["lost"] = f"{named} has ended before all workers had come."
    elif missing:
        named = ", ".join(f"worker {worker} ({addresses[worker]})" for worker in missing)
        answer["lost"] = (
            f"Not all {len(addresses)} workers came within --start-timeout {timeout:g} seconds; "
            f"missing: {named}."
        )
        answer["lost"] += f" {double}" if double else ""
    else:
        answer["error"] = _differences(facts)
    for connection in connections.values():
        _send(connection, answer)
    return answer, connections


def _send(connection: socket.socket, answer: dict[str, str]) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(answer).encode() + b"\n")
        if any(answer.values()):
            connection.recv(1)  # until the worker closes: then its side is free, too
            connection.close()


def _welcome(
    listener: socket.socket, number: int
) -> tuple[int, dict[str, Any], socket.socket] | None:
    """A worker that says hello, its facts, and the connection; None for another program."""
    errors = (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError)
    with contextlib.suppress(*errors), contextlib.ExitStack() as stack:
        connection = stack.enter_context(listener.accept()[0])
        connection.settimeout(HELLO_SECS)
        hello = _receive(connection)
        worker = int(hello["worker"])
        if 0 < worker < number:
            connection.settimeout(WELCOME_SECS)
            connection.sendall(b"{}\n")
            _receive(connection)  # it hasn't given up meanwhile
            facts = dict(hello["facts"])
            stack.pop_all()  # it stays open
            return worker, facts, connection
    return None


def _join(must_match: dict[str, Any], deadline: float, timeout: float) -> Met:
    """Of the others: say hello to the chief, as often as it takes, and hear what came out."""
    (chief, *_) = cluster.addresses()
    hello = json.dumps({"worker": cluster.worker_index(), "facts": must_match}).encode() + b"\n"
    lost = (
        f"The chief, worker 0 ({chief}), didn't answer within --start-timeout {timeout:g} seconds."
    )
    # The chief may have begun to wait later than this worker.
    while (left := deadline + timeout - time.monotonic()) > 0:
        welcome = False
        with contextlib.suppress(OSError, ValueError):
            chiefs = socket.create_connection(_split(chief), timeout=min(left, WELCOME_SECS))
            with contextlib.ExitStack() as stack:
                stack.enter_context(chiefs)
                chiefs.sendall(hello)
                if _receive(chiefs):
                    raise ValueError("another program, or this connection itself")
                chiefs.sendall(b"{}\n")
                welcome = True
                chiefs.settimeout(min(left, WAIT_SECS))
                answer = {"lost": "", "error": "", **_receive(chiefs)}
                if not any(answer.values()):
                    stack.pop_all()  # it stays open
                return answer, {0: chiefs}
        if welcome:
            lost = f"The chief, worker 0 ({chief}), has ended before all workers had come."
        if welcome or time.monotonic() > deadline:
            break
        time.sleep(PAUSE_SECS)
    return {"lost": lost, "error": ""}, {}


def _receive(connection: socket.socket) -> dict[str, Any]:
    """A line of JSON, and not a byte more: what comes after it is for the next reader."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(CHUNK, socket.MSG_PEEK)
        if not part or len(line) > LONGEST:
            raise ValueError("the connection was closed")
        line += connection.recv(part.find(b"\n") + 1 or len(part))
    return dict(json.loads(line))


def require_port() -> None:
    """Wait until this worker's own port is free, which `meet` has tried: time has passed since.

    Raises:
        UsageError: it is taken.
    """
    _listen(cluster.addresses()[cluster.worker_index()]).close()


def _listen(address: str) -> socket.socket:
    """A server at the port of this worker's own address, on all addresses of the host.

    So TensorFlow listens too, and a host may know itself by another address than others do: its
    name as 127.0.1.1 in /etc/hosts, or that of a proxy.

    Raises:
        UsageError: the port is taken.
    """
    _, port = _split(address)
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    end = time.monotonic() + PORT_SECS
    while True:
        try:
            return socket.create_server(
                ("", port), family=family, backlog=1024, dualstack_ipv6=both
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if time.monotonic() > end:
                raise UsageError(
                    f"Worker {cluster.worker_index()} can't listen at {address}: another program "
                    "uses this port; end it, or give the worker another one."
                ) from error
            time.sleep(PAUSE_SECS)


def _split(address: str) -> tuple[str, int]:
    name, _, port = address.rpartition(":")
    return name.strip("[]"), int(port)
