"""Several workers on this machine: processes of train.py, connected over 127.0.0.1."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from proof.engine import rendezvous
from proof.engine.errors import UsageError
from proof.engine.lost_worker import is_lost_worker, sentence_for

from . import project

PROJECT = Path(project)
TRAIN = PROJECT / "train.py"
SECONDS = 180  # for anything that a test waits for
LONG = ["--steps", "1000000", "--validation-steps", "1", "--log-every-steps", "1000000"]
SHORT = [
    "--global-batch-size", "24", "--precision", "float64", "--randomness", "global_batch",
    "--validate-every-steps", "8", "--validation-steps", "2", "--last-batch", "pad",
]  # fmt: skip


class Started:
    """Processes of one run, each with its own output in a file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        flags: Sequence[str],
        environ: dict[str, str],
        folder: Path = PROJECT,
        script: Path | None = TRAIN,
    ) -> None:
        """One more process, in a folder; without a script `flags` are Python's own."""
        number = len(self.processes)
        quiet = {name: v for name, v in os.environ.items() if name != "TF_CONFIG"}
        quiet |= {
            "CUDA_VISIBLE_DEVICES": "",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "PYTHONPATH": str(PROJECT),
        }
        with (
            (self.directory / f"out-{number}").open("wb") as out,
            (self.directory / f"err-{number}").open("wb") as err,
        ):
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, *([str(script)] if script else []), *flags],
                    cwd=folder, env=quiet | environ, stdout=out, stderr=err,
                )
            )  # fmt: skip

    def out(self, number: int) -> str:
        """What a process has printed."""
        return (self.directory / f"out-{number}").read_text()

    def err(self, number: int) -> str:
        """What a process has printed on stderr."""
        return (self.directory / f"err-{number}").read_text()

    def ends(self, seconds: float = SECONDS) -> list[int]:
        """The exit codes of all."""
        end = time.monotonic() + seconds
        with contextlib.suppress(subprocess.TimeoutExpired):
            for process in self.processes:
                process.wait(max(0.1, end - time.monotonic()))
        codes = [process.poll() for process in self.processes]
        texts = [self.out(i)[-500:] + self.err(i)[-1500:] for i in range(len(codes))]
        assert None not in codes, f"still running: {codes} {texts}"
        return [int(code or 0) for code in codes]

    def close(self) -> None:
        """Kill what is still running; SIGTERM may be swallowed."""
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """No process yet; none is left at the end."""
    with contextlib.closing(Started(tmp_path)) as processes:
        yield processes


def free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]


def start(
    started: Started,
    flags: Sequence[str],
    number: int = 2,
    *,
    indices: Sequence[int] = (),
    own: Sequence[Sequence[str]] = (),
    folders: Sequence[Path] = (),
    script: Path | None = TRAIN,
) -> None:
    """`number` workers, or only those of these indices; with flags or folders of their own."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(number)]
    for index in indices or range(number):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        folder = folders[index] if folders else PROJECT
        folder.mkdir(exist_ok=True)
        started.start([*flags, *(own[index] if own else [])], {"TF_CONFIG": config}, folder, script)


def run(started: Started, flags: Sequence[str], number: int) -> None:
    """Train to the end on so many workers, 1 for a single process."""
    started.processes.clear()
    if number == 1:
        started.start(flags, {})
    else:
        start(started, flags, number)
    codes = started.ends()
    assert codes == [0] * number, [started.err(i)[-2000:] for i in range(number)]


def only(runs: Path) -> Path:
    """The run directory; there must be no other."""
    (directory,) = (path for path in runs.iterdir() if path.is_dir())
    return directory


def checkpoint(directory: Path) -> dict[str, np.ndarray]:
    """The numbers of the latest checkpoint: weights, slots, metrics, progress."""
    files = (directory / "checkpoints/latest").glob("*.index")
    latest = max(files, key=lambda file: int(file.stem.removeprefix("ckpt-")))
    reader = tf.train.load_checkpoint(str(latest.with_suffix("")))
    values = {n: np.asarray(reader.get_tensor(n)) for n in reader.get_variable_to_shape_map()}
    return {n: value for n, value in values.items() if value.dtype.kind in "fiu"}


def assert_same(one: Path, other: Path, tolerance: float = 1e-9) -> None:
    """The checkpoints and the history of two runs, up to a relative difference."""
    before, after = checkpoint(one), checkpoint(other)
    assert set(before) == set(after)
    for name, value in before.items():
        scale = max(1e-300, float(np.abs(value).max(initial=0)))
        assert np.abs(after[name] - value).max(initial=0) <= tolerance * scale, name
    tables = [np.genfromtxt(d / "history.csv", delimiter=",", names=True) for d in (one, other)]
    for name in tables[0].dtype.names:
        np.testing.assert_allclose(tables[1][name], tables[0][name], rtol=tolerance, err_msg=name)


def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def trains(started: Started, runs: Path) -> bool:
    """Whether a run has saved a step: from the first one on, signals end it by saving."""
    alive = all(process.poll() is None for process in started.processes)
    texts = [started.err(i)[-1500:] for i in range(len(started.processes))]
    assert alive, texts
    saved = runs.glob("*/checkpoints/latest/*.index")
    return any(file.stem != "ckpt-0" for file in saved)


def test_two_workers_train_as_one(whole: Callable[[int], Path]) -> None:
    assert_same(whole(1), whole(2))


@pytest.mark.quick
def test_only_the_chief_prints_and_writes(started: Started, tmp_path: Path) -> None:
    run(started, [*SHORT, "--steps", "20", "--runs", str(tmp_path / "two")], 2)
    assert "2 replicas, because there are 2 workers by TF_CONFIG" in started.out(0)
    assert started.out(1) == started.err(1) == started.err(0) == ""
    two = only(tmp_path / "two")
    log = (two / "worker-1.log").read_text()
    assert "step 16/20 (epoch" in log
    results = json.loads((two / "results.json").read_text())
    assert (results["strategy"], results["replicas"]) == ("multi_worker", 2)
    names = {file.name for file in two.iterdir()}
    assert {"results.json", "history.csv", "predictions.png", "checkpoints"} < names
    assert len(list(two.glob("log/*/*"))) == 2  # one writer for training, one for validation


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The directory of a run that was never stopped, on so many workers."""
    made: dict[int, Path] = {}

    def whole(number: int) -> Path:
        if number not in made:
            runs = tmp_path_factory.mktemp("whole")
            saves = ["--save-every-steps", "11", "--save-every-epochs", "0"]
            with contextlib.closing(Started(runs)) as processes:
                run(processes, [*SHORT, *saves, "--steps", "20", "--runs", str(runs)], number)
            made[number] = only(runs)
        return made[number]

    return whole


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 2)])
def test_a_run_is_resumed_with_another_number_of_workers(
    whole: Callable[[int], Path], started: Started, tmp_path: Path, before: int, after: int
) -> None:
    # As it was when step 11 had been saved: between two validations, so that sums and metrics
    # are in the checkpoint too.
    cut = Path(shutil.copytree(whole(before), tmp_path / "cut"))
    for file in [cut / "results.json", *cut.glob("checkpoints/latest/ckpt-20.*")]:
        file.unlink()
    run(started, ["--resume", str(cut)], after)
    assert f"resuming {cut} after step 11" in started.out(0)
    assert_same(whole(1), cut)


@pytest.mark.parametrize("index", [0, 1])
def test_sigterm_to_one_worker_saves_and_ends_all(
    started: Started, tmp_path: Path, index: int
) -> None:
    runs = tmp_path / "runs"
    start(started, [*LONG, "--save-every-secs", "0.5", "--runs", str(runs)])
    until(lambda: trains(started, runs))
    started.processes[index].send_signal(signal.SIGTERM)
    assert started.ends(30) == [138, 138], started.err(0) + started.err(1)
    said = started.out(0).splitlines()[-1]
    assert said.startswith("interrupted after step ")
    step = said.split()[3].rstrip(";")
    assert said in (only(runs) / "worker-1.log").read_text()
    assert (only(runs) / f"checkpoints/latest/ckpt-{step}.index").exists()
    assert started.err(0) == started.err(1) == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("index", [0, 1])
def test_the_other_worker_says_who_has_ended(
    started: Started, tmp_path: Path, index: int, number: signal.Signals
) -> None:
    runs = tmp_path / "runs"
    start(started, [*LONG, "--save-every-secs", "0.5", "--runs", str(runs)])
    until(lambda: trains(started, runs))
    started.processes[index].send_signal(number)
    other = 1 - index
    began = time.monotonic()
    assert started.processes[other].wait(60) == 138, started.err(other)
    assert time.monotonic() - began < 30
    sentence = started.err(other).splitlines()[-1]
    assert sentence.startswith(f"error: Worker {other} can't continue: worker {index} (127.0.0.1:")
    assert "disk" not in started.err(other)


def test_workers_that_differ_are_refused_by_all(started: Started, tmp_path: Path) -> None:
    flags = ["--steps", "3", "--runs", str(tmp_path / "runs")]
    start(started, flags, own=[["--seed", "1"], ["--seed", "2"]])
    assert started.ends() == [2, 2]
    assert started.err(0) == started.err(1)
    assert "differ in --seed: 1 on worker 0 and 2 on worker 1" in started.err(0)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_that_never_comes_ends_the_wait(
    started: Started, tmp_path: Path, index: int
) -> None:
    flags = ["--steps", "3", "--start-timeout", "3", "--runs", str(tmp_path / "runs")]
    start(started, flags, indices=[index])
    assert started.ends(60) == [138]
    lost = "missing: worker 1 (127.0.0.1:" if index == 0 else "The chief, worker 0 (127.0.0.1:"
    assert lost in started.err(0)
    assert started.err(0).count("\n") == 1


# Worker 1 fails at its first validation, with a sentence or with a bug.
FAILING = """
import json, os, runpy, sys
import proof.engine.loop
from proof.engine.errors import UsageError

def fail(loop, display):
    raise {error}

if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    proof.engine.loop.Loop._validate = fail
sys.argv = ["train.py", *sys.argv[1:]]
runpy.run_path({train!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        ("UsageError('the reason.')", 2, "error: the reason."),
        ("ZeroDivisionError('a bug')", 1, "ZeroDivisionError: a bug"),
    ],
)
def test_an_error_on_one_worker_ends_the_others(
    started: Started, tmp_path: Path, error: str, code: int, said: str
) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING.format(error=error, train=str(TRAIN)))
    start(started, [*LONG, "--runs", str(tmp_path / "runs")], script=script)
    assert started.ends() == [138, code]
    assert started.err(1).splitlines()[-1] == said
    assert "error: Worker 0 can't continue: worker 1 (127.0.0.1:" in started.err(0)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("Connection reset by peer", "worker 2 (127.0.0.1:{closed}) has ended"),
        (
            "from remote target /job:worker/replica:0/task:1",
            "worker 2 ",
        ),  # who is gone, not who said
    ],
)
def test_a_closed_port_tells_who_has_ended(
    monkeypatch: pytest.MonkeyPatch, message: str, lost: str
) -> None:
    (closed,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("", 0)) as second:
        ports = [first.getsockname()[1], second.getsockname()[1], closed]
        set_workers(monkeypatch, ports)
        error = tf.errors.UnavailableError(None, None, message)
        assert is_lost_worker(error)
        assert lost.format(closed=closed) in sentence_for(error)


@pytest.mark.quick
def test_an_error_names_a_worker_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        set_workers(monkeypatch, [server.getsockname()[1]] * 3, index=1)
        for message, worker in [
            ("RPC: /tensorflow.CoordinationService/Heartbeat", 0),
            ("Task /job:worker/replica:0/task:2 heartbeat timeout", 2),
        ]:
            error = tf.errors.DeadlineExceededError(None, None, message)
            assert f"worker {worker} (127.0.0.1:" in sentence_for(error)


@pytest.mark.quick
def test_data_and_disks_are_not_another_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    set_workers(monkeypatch, free_ports(2))
    for error in [
        tf.errors.ResourceExhaustedError(None, None, "runs/ckpt; No space left on device"),
        tf.errors.OutOfRangeError(None, None, "End of sequence [[{{node IteratorGetNext}}]]"),
        OSError(28, "No space left on device"),
    ]:
        assert not is_lost_worker(error)
    monkeypatch.delenv("TF_CONFIG")
    assert not is_lost_worker(tf.errors.UnavailableError(None, None, "Socket closed"))


def set_workers(monkeypatch: pytest.MonkeyPatch, ports: list[int], index: int = 0) -> None:
    addresses = [f"127.0.0.1:{port}" for port in ports]
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": addresses}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.quick
def test_a_port_that_is_taken_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "PORT_SECS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as other:
        set_workers(monkeypatch, [other.getsockname()[1], *free_ports(1)])
        with pytest.raises(UsageError, match=r"Worker 0 can't listen at .* another program"):
            rendezvous.meet({}, 1.0)


WAITING = """
import json, os, time
from proof.engine.rendezvous import watchdog
workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
os.environ["TF_CONFIG"] = json.dumps(workers)
with watchdog(60):
    pass
with watchdog(0.5):
    time.sleep(60)
"""


@pytest.mark.quick
def test_a_watchdog_ends_a_wait_that_python_can_not() -> None:
    command = [sys.executable, "-c", WAITING]
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stderr.startswith("error: Worker 1 could not connect to the others within ")
    assert done.stderr.count("\n") == 1


@pytest.mark.quick
def test_a_file_that_differs_is_named() -> None:
    facts = {0: {"--seed": 1, "proof/run.py": "a"}, 1: {"--seed": 1, "proof/run.py": "b"}}
    assert "differ in proof/run.py: it is another file on worker 1" in rendezvous._differences(
        facts
    )
    found = rendezvous.fingerprint("seed: 1")
    assert found["--seed"] == 1
    assert {"proof/task/steps.py", "tensorflow", "Python"} < set(found)


def test_no_shared_storage_is_one_sentence(started: Started, tmp_path: Path) -> None:
    # As on two machines: the same path leads to two directories.
    folders = [tmp_path / "a", tmp_path / "b"]
    start(started, ["--steps", "3", "--runs", "runs"], folders=folders)
    assert started.ends() == [2, 2]
    assert started.err(0) == started.err(1)
    assert "worker 1 can't see what worker 0 writes; set --runs to" in started.err(0)
    assert not list(tmp_path.glob("*/runs/*"))
