"""Several workers on this machine: processes of train.py, connected over 127.0.0.1."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf
from proof.engine import link, rendezvous, strategy
from proof.engine.errors import LostWorkerError, UsageError
from proof.engine.lost_worker import is_lost_worker
from proof.engine.workers import Workers

from . import project

PROJECT = Path(project)
TRAIN = PROJECT / "train.py"
SECONDS = 300  # for anything that a test waits for, on a busy machine too
LONG = ["--steps", "1000000", "--validation-steps", "1", "--log-every-steps", "1000000"]
SHORT = [
    "--global-batch-size", "24", "--precision", "float64", "--randomness", "global_batch",
    "--validate-every-steps", "8", "--validation-steps", "2", "--last-batch", "pad",
]  # fmt: skip
SAVES = ["--save-every-steps", "11", "--save-every-epochs", "0"]


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
    assert "\n16/20 " in log
    results = json.loads((two / "results.json").read_text())
    assert (results["strategy"], results["replicas"]) == ("multi_worker", 2)
    names = {file.name for file in two.iterdir()}
    assert {"results.json", "history.csv", "predictions.png", "checkpoints"} < names
    written = sorted(file.parent.name for file in two.glob("log/*/*"))  # by one writer each
    assert written == ["test", "train", "validation"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The directory of a run that was never stopped, on so many workers."""
    made: dict[int, Path] = {}

    def whole(number: int) -> Path:
        if number not in made:
            runs = tmp_path_factory.mktemp("whole")
            with contextlib.closing(Started(runs)) as processes:
                run(processes, [*SHORT, *SAVES, "--steps", "20", "--runs", str(runs)], number)
            made[number] = only(runs)
        return made[number]

    return whole


@pytest.mark.parametrize(
    ("before", "after", "replicas"),
    [(2, 1, 0), (1, 2, 0), (2, 2, 0), (4, 2, 2), (4, 2, 3), (4, 1, 3), (4, 1, 0)],
)
def test_a_run_is_resumed_with_another_number_of_workers(
    whole: Callable[[int], Path],
    started: Started,
    tmp_path: Path,
    before: int,
    after: int,
    replicas: int,
) -> None:
    # As it was when step 11 had been saved: between two validations, so that sums and metrics
    # are in the checkpoint too.
    cut = Path(shutil.copytree(whole(before), tmp_path / "cut"))
    for file in [cut / "results.json", *cut.glob("checkpoints/latest/ckpt-20.*")]:
        file.unlink()
    run(started, ["--resume", str(cut), "--virtual-replicas", str(replicas)], after)
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
    assert sentence.startswith(f"error: Worker {index} (127.0.0.1:")
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


# One worker has a fault of its own; it is made when the workers have met.
FAULTY = """
import json, os, runpy, signal, subprocess, sys, time
from proof.engine import link, rendezvous

def stop():
    os.kill(os.getpid(), signal.SIGTERM)

def fault():
    {fault}

def connect(*arguments, connect=rendezvous.connect, **named):
    connect(*arguments, **named)
    rendezvous.connect = connect
    if {index} in (None, json.loads(os.environ["TF_CONFIG"])["task"]["index"]):
        fault()

rendezvous.connect = connect
sys.argv = ["train.py", *sys.argv[1:]]
runpy.run_path({train!r}, run_name="__main__")
"""


def start_faulty(
    started: Started,
    tmp_path: Path,
    fault: str,
    flags: Sequence[str] = LONG,
    index: int | None = 1,
) -> Path:
    """Two workers, of which one has a fault, or both; returns where the runs go."""
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY.format(fault=fault, train=str(TRAIN), index=index))
    runs = tmp_path / "runs"
    start(started, [*flags, "--start-timeout", "60", "--runs", str(runs)], script=script)
    return runs


def last(started: Started, number: int) -> str:
    """The last line on stderr."""
    return started.err(number).splitlines()[-1]


# A program that waits in Python, where no error of TensorFlow can end it.
ENDING = """
import json, os, sys, time
from proof.engine import link
from proof.engine.errors import UsageError, usage_errors
from proof.engine.rendezvous import connect

link.LEAVE_SECS = 1.0
with usage_errors():
    connect("auto")
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == {index}:
        {end}
    time.sleep({secs})
"""


@pytest.mark.quick
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(
    ("end", "codes", "said"),
    [
        ("os._exit(7)", [7, 138], "Worker {} (127.0.0.1:"),
        ("raise UsageError('the reason.')", [2, 2], "Worker {} has ended: the reason."),
        ("raise ValueError('a bug')", [1, 1], "Worker {} has ended: a bug (its output has the "),
        ("raise OSError('no net')", [1, 138], "Worker {} has ended: no net (its output has the "),
        ("raise KeyboardInterrupt", [130, 138], "Worker {} (127.0.0.1:"),
        ("raise SystemExit(0)", [0, 0], ""),
        ("os.fork() and os._exit(7); time.sleep(50)", [7, 138], "Worker {} (127.0.0.1:"),
        ("os.fork() and sys.exit(0); time.sleep(50)", [0, 0], ""),
        (
            "p = os.fork() or sys.exit(0); os.waitpid(p, 0); os._exit(7)",
            [7, 138], "Worker {} (127.0.0.1:",
        ),
    ],
    ids=[
        *("killed", "usage-error", "bug", "network", "ctrl-c", "done"),
        *("killed-with-a-child", "done-with-a-child", "killed-after-its-child"),
    ],
)  # fmt: skip
def test_a_worker_that_ends_tells_the_others(
    started: Started, tmp_path: Path, index: int, end: str, codes: list[int], said: str
) -> None:
    script = tmp_path / "ending.py"
    script.write_text(ENDING.format(index=index, end=end, secs=60 if said else 4))
    start(started, [], script=script)
    ended = started.ends(40)
    assert [ended[index], ended[1 - index]] == codes
    other = started.err(1 - index)
    assert other.startswith(f"error: {said.format(index)}" if said else "")
    assert other.count("\n") == bool(said)


STOPPED = """
import json, os, signal
from proof.engine import link
from proof.engine.errors import usage_errors
from proof.engine.rendezvous import connect

with usage_errors():
    connect("auto", start_timeout=8.0)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == {index}:
        os.kill(os.getpid(), signal.SIGSTOP)
    link.current.wait_for_all(devices=1)
"""


@pytest.mark.quick
@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_that_is_stopped_before_training_ends_the_others(
    started: Started, tmp_path: Path, index: int
) -> None:
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED.format(index=index))
    start(started, [], script=script)
    assert started.processes[1 - index].wait(40) == 138
    assert started.err(1 - index).startswith(f"error: Worker {index} (127.0.0.1:")


VALIDATE = """
    import proof.engine.loop
    def fail(loop, display):
        raise {error}
    proof.engine.loop.Loop._validate = fail
"""
ROWS = """
    from proof.task import data
    sound = data.create_datasets
    class Rows:
        def __init__(self, arrays):
            self.arrays = arrays
        def __len__(self):
            return len(self.arrays[0])
        def __getitem__(self, row):
            {read}
            return tuple(array[row] for array in self.arrays)
    data.create_datasets = lambda task: sound(task) | {{"train": Rows(sound(task)["train"])}}
"""
DAMAGED = 'if row % 5 == 0: raise ValueError(f"row-{row}.bin is cut off")'
LOST = 'if row % 5 == 0: raise OSError(5, "Input/output error", f"row-{row}.bin")'


@pytest.mark.parametrize(
    ("fault", "codes", "said", "told"),
    [
        (
            VALIDATE.format(error="UsageError('the reason.')").replace(
                "    import", "    from proof.engine.errors import UsageError\n    import", 1
            ),
            [2, 2], "the reason.", "the reason.",
        ),
        (ROWS.format(read=DAMAGED), [2, 2], r"Example \d+ .* can't be read: row-", "Example "),
        (ROWS.format(read=LOST), [138, 138], r"Example \d+ .* can't be read: row-", "Example "),
        (
            VALIDATE.format(error="ZeroDivisionError('a bug')"),
            [1, 1], "ZeroDivisionError: a bug", "a bug (its output has the traceback).",
        ),
    ],
    ids=["usage-error", "damaged-row", "lost-storage", "bug"],
)  # fmt: skip
def test_an_error_on_one_worker_reaches_the_others_with_its_sentence(
    started: Started, tmp_path: Path, fault: str, codes: list[int], said: str, told: str
) -> None:
    start_faulty(started, tmp_path, fault)
    assert started.ends() == codes, started.err(0) + started.err(1)
    assert re.search(said, last(started, 1))
    assert last(started, 0).startswith(f"error: Worker 1 has ended: {told}")
    assert "Traceback" not in started.err(0)
    if codes == [2, 2]:
        own = last(started, 1).removeprefix("error: ")
        assert last(started, 0) == f"error: Worker 1 has ended: {own}"


SHARDS = """
    from proof.task import data
    import tensorflow as tf
    sound = data.create_datasets
    def create(task):
        splits = sound(task)
        def shard(workers, index):
            own = tuple(array[index::workers] for array in splits["train"])
            return tf.data.Dataset.from_tensor_slices(own){take}
        return splits | {{"train": shard}}
    data.create_datasets = create
"""


@pytest.mark.parametrize(
    ("take", "said"),
    [
        (".take(200 + 10 * index)", "The workers' shards of the training data have 200, 210 ex"),
        (
            ".take(200 - 90 * index).apply(tf.data.experimental.assert_cardinality(200))",
            "The training data can't be used: it should have 200 examples, and has only 110.",
        ),
    ],
    ids=["unequal", "shorter-than-it-says"],
)
def test_parts_of_the_data_that_do_not_fit_are_one_sentence_on_all(
    started: Started, tmp_path: Path, take: str, said: str
) -> None:
    start_faulty(started, tmp_path, SHARDS.format(take=take), index=None)
    assert started.ends() == [2, 2], started.err(0) + started.err(1)
    assert last(started, 1).startswith(f"error: {said}")
    assert said in last(started, 0)


ADAPTED = """
    from proof.task import model
    import numpy as np
    sound, index = model.create_model, json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    model.adapt = lambda task, datasets: {"sum": np.arange(7.0 + index), "name": f"n{index}"}
    def create(task, adapted):
        print("adapted:", adapted["name"], adapted["sum"].sum())
        return sound(task, adapted | {"shape": (8, 8, 1)})
    model.create_model = create
"""


def test_models_of_all_workers_are_made_of_what_that_of_the_chief_adapts_to(
    started: Started, tmp_path: Path
) -> None:
    """On the others it may be another: of a shard, or in the order of a set."""
    start_faulty(started, tmp_path, ADAPTED, index=None, flags=["--steps", "2"])
    assert started.ends() == [0, 0], started.err(0) + started.err(1)
    (log,) = (tmp_path / "runs").glob("*/worker-1.log")
    for printed in (started.out(0), log.read_text()):
        assert "adapted: n0 21.0" in printed


UNREADABLE = """
    from proof.task import model
    def adapt(task, datasets):
        raise OSError(13, "Permission denied", "words.txt")
    model.adapt = adapt
"""


def test_what_the_chief_alone_cannot_adapt_to_is_one_sentence_on_all(
    started: Started, tmp_path: Path
) -> None:
    start_faulty(started, tmp_path, UNREADABLE, index=0)
    assert started.ends(120) == [2, 2], started.err(0) + started.err(1)
    assert "words.txt" in last(started, 0)
    assert last(started, 1).startswith("error: Worker 0 has ended: ")
    assert "words.txt" in last(started, 1)


# What hangs, in Python; in C, with Python's lock or without it; in the input pipeline.
LOOP = """
    import proof.engine.loop
    def hang(loop, display):
        {hang}
    proof.engine.loop.Loop._validate = hang
"""
HANGS = {
    "python": LOOP.format(hang="while True: time.sleep(0.01)"),
    "lock": LOOP.format(hang='import ctypes; ctypes.PyDLL(None).sleep(1000)'),
    "input": ROWS.format(read="self.read = getattr(self, 'read', 0) + 1; "
                         "time.sleep(1000 if self.read > 500 else 0)"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "index"),
    [("python", 0), ("python", 1), ("lock", 0), ("lock", 1), ("input", 0), ("input", 1)],
)
def test_the_others_say_who_hangs(started: Started, tmp_path: Path, kind: str, index: int) -> None:
    flags = [*LONG, "--hang-timeout", "8", "--start-timeout", "20", "--jit", "off"]
    start_faulty(started, tmp_path, HANGS[kind], flags, index)
    codes = started.ends()
    other = 1 - index
    assert codes[other] == 138
    assert f"error: Worker {index} (127.0.0.1:" in last(started, other)
    assert "hangs: the others have waited 8 seconds (--hang-timeout)" in last(started, other)
    if kind == "lock":  # nothing in its process can run but a kill
        assert codes[index] == -signal.SIGKILL
        assert f"error: Worker {index} was killed: " in started.err(index)
    else:
        assert codes[index] == 138
        assert last(started, index) == last(started, other)
        assert "most recent call first" in started.err(index)  # where it hangs


WITHIN_A_STEP = """
    import tensorflow as tf
    from proof.task import steps
    def hang(tensors):
        with tf.control_dependencies([tf.py_function(lambda: time.sleep(1000), [], [])]):
            return tf.nest.map_structure(tf.identity, tensors)
    {where}
"""
WITHIN = {
    "forward": """
    sound = steps.train_step
    steps.TRAIN_STEPS = (lambda run, batch, replica: sound(run, hang(batch), replica),)
    """,
    "gradients": """
    from proof.task import optimizer
    optimizer.process_gradients = lambda gradients, variables: hang(gradients)
    """,
    "validation": """
    sound = steps.validation_step
    steps.validation_step = lambda run, batch, replica: sound(run, hang(batch), replica)
    """,
    "model": """
    from proof.task import model
    model.create_model = lambda *_: time.sleep(1000)
    """,
}


@pytest.mark.parametrize("kind", WITHIN)
def test_the_others_say_who_hangs_within_a_step(
    started: Started, tmp_path: Path, kind: str
) -> None:
    fault = WITHIN_A_STEP.format(where=WITHIN[kind].strip())
    flags = [*LONG, "--validate-every-steps", "4", "--hang-timeout", "8", "--jit", "off"]
    start_faulty(started, tmp_path, fault, flags)
    assert started.ends() == [138, 138], last(started, 0)
    said = "hangs: the others have waited 8 seconds (--hang-timeout)"
    assert last(started, 0).startswith("error: Worker 1 (127.0.0.1:")
    assert said in last(started, 0)
    assert last(started, 0) == last(started, 1)


STOPPED_SHORTLY = LOOP.format(
    hang="""validate(loop, display)
        if loop.step == 8:
            subprocess.Popen(["sh", "-c", f"sleep 4; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)"""
).replace("    def hang", "    validate = proof.engine.loop.Loop._validate\n    def hang")


@pytest.mark.parametrize("index", [0, 1])
def test_a_worker_that_is_stopped_shortly_goes_on_with_the_same_bits(
    whole: Callable[[int], Path], started: Started, tmp_path: Path, index: int
) -> None:
    flags = [*SHORT, *SAVES, "--steps", "20", "--hang-timeout", "8"]
    runs = start_faulty(started, tmp_path, STOPPED_SHORTLY, flags, index)
    assert started.ends() == [0, 0], started.err(0) + started.err(1)
    assert_same(whole(2), only(runs), tolerance=0)


def test_the_threads_of_a_worker_stay_as_many(started: Started, tmp_path: Path) -> None:
    threads = LOOP.format(
        hang="""validate(loop, display)
        print("threads", len(os.listdir("/proc/self/task")), file=sys.stderr)"""
    ).replace("    def hang", "    validate = proof.engine.loop.Loop._validate\n    def hang")
    flags = ["--steps", "200", "--validate-every-steps", "40", "--jit", "off"]
    start_faulty(started, tmp_path, threads, flags, index=None)
    assert started.ends() == [0, 0], started.err(0)
    for worker in (0, 1):
        _, second, *_, final = map(int, re.findall(r"threads (\d+)", started.err(worker)))
        assert final < second + 100, started.err(worker)


def test_a_pause_of_all_workers_is_no_hang(started: Started, tmp_path: Path) -> None:
    pause = LOOP.format(hang="time.sleep(4); validate(loop, display)").replace(
        "    def hang", "    validate = proof.engine.loop.Loop._validate\n    def hang"
    )
    flags = ["--steps", "12", "--validate-every-steps", "4", "--hang-timeout", "8"]
    start_faulty(started, tmp_path, pause, flags)
    assert started.ends() == [0, 0], last(started, 0)


def test_a_full_disk_of_the_chief_is_the_same_sentence_on_all(
    started: Started, tmp_path: Path
) -> None:
    full = """
    import resource
    import tensorflow as tf
    write = tf.train.Checkpoint.write
    def limited(*arguments):
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
        return write(*arguments)
    tf.train.Checkpoint.write = limited
    """
    start_faulty(started, tmp_path, full, index=0)
    assert started.ends() == [2, 2], started.err(0) + started.err(1)
    said = r"error: .*The checkpoint of step \d+ can't be written \(File too large\).*"
    assert re.fullmatch(said, last(started, 0))
    assert last(started, 0) == last(started, 1)


def test_storage_of_the_chief_that_may_be_back_lets_a_launcher_start_all_again(
    started: Started, tmp_path: Path
) -> None:
    stale = """
    import errno
    import tensorflow as tf
    def write(*_):
        raise OSError(errno.ESTALE, "Stale file handle")
    tf.train.Checkpoint.write = write
    """
    start_faulty(started, tmp_path, stale, index=0)
    assert started.ends() == [138, 138], started.err(0) + started.err(1)
    assert "can't be written (Stale file handle)" in last(started, 0)
    assert last(started, 0) == last(started, 1)


def test_only_the_chief_writes_checkpoints(
    whole: Callable[[int], Path], started: Started, tmp_path: Path
) -> None:
    writes_none = """
    import tensorflow as tf
    def write(*_):
        raise OSError("no disk")
    tf.train.Checkpoint.write = write
    """
    runs = start_faulty(started, tmp_path, writes_none, [*SHORT, *SAVES, "--steps", "20"])
    assert started.ends() == [0, 0], started.err(0) + started.err(1)
    assert_same(whole(2), only(runs), tolerance=0)


def test_a_disk_that_becomes_read_only_is_the_same_sentence_on_all(
    started: Started, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    start(started, [*LONG, "--save-every-secs", "0.5", "--runs", str(runs)])
    until(lambda: trains(started, runs))
    latest = str(only(runs) / "checkpoints" / "latest")
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "none", latest]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system takes the rights of root")
    try:
        assert started.ends() == [2, 2], started.err(0) + started.err(1)
    finally:
        subprocess.run(["umount", "-l", latest], check=True)
    assert last(started, 0) == last(started, 1)
    assert "can't be written (Read-only file system)" in last(started, 0)


def test_a_worker_that_is_killed_while_saving_is_no_full_disk(
    started: Started, tmp_path: Path
) -> None:
    # Worker 1 dies where the chief waits for it.
    dies = """
    from proof.engine import checkpoints
    checkpoints._write = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    """
    start_faulty(started, tmp_path, dies)
    assert started.ends() == [138, -signal.SIGKILL]
    assert "Worker 1 (127.0.0.1:" in last(started, 0)
    assert "written" not in started.err(0)


SIGTERM = {
    "import": "from proof.engine import tf_log_filter; tf_log_filter.require_versions = stop",
    "strategy": """
    import tensorflow as tf
    strategy = tf.distribute.MultiWorkerMirroredStrategy
    create = strategy.__init__
    def slowly(self, **options):
        subprocess.Popen(["sh", "-c", f"sleep 0.05; kill {os.getpid()}"])
        create(self, **options)
    strategy.__init__ = slowly
    """,
    "data": "from proof.task import data; data.create_datasets = lambda task: stop()",
    "trace": "from proof.task import steps; steps.TRAIN_STEPS = (lambda *_: stop(),)",
    "test": "from proof.engine import loop; loop.Loop.test = lambda self: stop()",
}


@pytest.mark.parametrize(
    ("phase", "index"),
    [("import", 1), ("strategy", 0), ("strategy", 1), ("data", 0), ("trace", 1), ("test", 1)],
)
def test_sigterm_outside_of_training_ends_all(
    started: Started, tmp_path: Path, phase: str, index: int
) -> None:
    fault = SIGTERM[phase].replace("stop()", "(stop(), time.sleep(600))")
    flags = SHORT if phase == "test" else LONG
    runs = start_faulty(started, tmp_path, fault, flags, index=index)
    codes = started.ends()
    assert codes[1 - index] == 138
    assert codes[index] in (143, -signal.SIGTERM)  # the shell calls both 143
    assert last(started, 1 - index).startswith(f"error: Worker {index} (127.0.0.1:")
    assert bool(list(runs.glob("*/checkpoints/latest/*"))) == (phase == "test")


def test_a_worker_that_ends_while_it_waits_for_the_others_ends_all(
    started: Started, tmp_path: Path
) -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    for index in (0, 1):
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        started.start(["--runs", str(tmp_path / "runs")], {"TF_CONFIG": config})
    time.sleep(8)
    started.processes[1].terminate()
    assert started.ends(30) == [138, 138]
    assert last(started, 0).endswith("has ended before all workers had come.")


@pytest.mark.quick
def test_the_chief_knows_which_worker_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    # The error of TensorFlow names who said it, too; here worker 1 tells of it.
    set_workers(monkeypatch, [1, 2, 3])
    monkeypatch.setattr(link, "SILENT_SECS", 1.0)
    first, second = socket.socketpair(), socket.socketpair()
    chief = link.Link({1: first[0], 2: second[0]}, hang_timeout=60, start_timeout=60)
    told = json.dumps(link.End(link.lost([]), 138, [])._asdict())
    with first[1], second[1], contextlib.closing(chief):
        for _ in range(5):
            first[1].sendall(b'{"total": 0, "arrived": {}}\n')
            time.sleep(0.3)
        first[1].sendall(told.encode() + b"\n")
        end = chief.wait_for_end(10)
    assert end
    assert end.sentence.startswith("Worker 2 (127.0.0.1:3) has ended or can't be reached; ")


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


def set_workers(
    monkeypatch: pytest.MonkeyPatch, ports: list[int], index: int = 0, host: str = "127.0.0.1"
) -> None:
    addresses = [f"{host}:{port}" for port in ports]
    task = {"type": "worker", "index": index}
    config = {"cluster": {"worker": addresses}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.quick
@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])  # its own, and that of a proxy
def test_a_port_that_is_taken_is_one_sentence(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(rendezvous, "PORT_SECS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as other:
        set_workers(monkeypatch, [other.getsockname()[1], *free_ports(1)], host=host)
        with pytest.raises(UsageError, match=r"Worker 0 can't listen at .* another program"):
            rendezvous.meet({}, 1.0)
        with pytest.raises(UsageError, match=r"Worker 0 can't listen at .* another program"):
            rendezvous.require_port()  # as where it was taken while TensorFlow was imported


@pytest.mark.quick
def test_a_port_that_tensorflow_does_not_get_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise tf.errors.UnknownError(None, None, "Could not start gRPC server")

    set_workers(monkeypatch, free_ports(2), index=1)
    monkeypatch.setattr(link, "current", Mock())
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", fail)
    monkeypatch.setattr(strategy, "cross_device_utils", Mock())
    with pytest.raises(UsageError, match=r"^TensorFlow can't listen at 127\.0\.0\.1:"):
        strategy._multi_worker(0)


@pytest.mark.quick
def test_a_worker_that_has_given_up_is_not_taken_for_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_ports(2)
    set_workers(monkeypatch, ports)
    workers: list[socket.socket] = []

    def say_hello() -> None:
        address = ("127.0.0.1", ports[0])
        workers.append(socket.create_connection(address))  # a port scanner, say
        with socket.create_connection(address) as chief:
            chief.sendall(HELLO)
        for line in (b'{"worker": 1e400}\n', b"[" * 50_000 + b"\n", b"GET / HTTP/1.1\n"):
            with socket.create_connection(address) as other:
                other.sendall(line)
        workers.append(socket.create_connection(address))
        workers[1].sendall(HELLO + b"{}\n")

    threading.Timer(0.3, say_hello).start()
    began = time.monotonic()
    connection = rendezvous.meet({}, 10.0)[1]
    assert time.monotonic() - began < 4  # less than a worker waits for an answer
    assert connection.getpeername()[1] == workers[1].getsockname()[1]
    for each in (connection, *workers):
        each.close()


HELLO = b'{"worker": 1, "facts": {}}\n'


@pytest.mark.quick
def test_two_processes_of_one_index_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_ports(3)
    set_workers(monkeypatch, ports)
    answers: list[bytes] = []

    def say_hello() -> None:
        address = ("127.0.0.1", ports[0])
        with socket.create_connection(address) as first, socket.create_connection(address) as other:
            for each in (first, other):
                each.sendall(HELLO + b"{}\n")
                time.sleep(0.2)
            other.settimeout(5.0)
            with contextlib.suppress(OSError):
                while answer := other.recv(1000):
                    answers.append(answer)
                    if b"Two" in answer:
                        break
            other.close()
            first.settimeout(5.0)
            while b"missing" not in first.recv(1000):  # until the chief gives up
                pass

    thread = threading.Timer(0.3, say_hello)
    thread.start()
    double = rf"Two processes are worker 1 \(127.0.0.1:{ports[1]}\); give each its own index"
    with pytest.raises(LostWorkerError, match=rf"missing: worker 2 .*\. {double}"):
        rendezvous.meet({}, 2.0)
    thread.join()
    assert re.search(double, b"".join(answers).decode())


@pytest.mark.quick
def test_a_part_of_a_line_does_not_stop_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    set_workers(monkeypatch, [1, 2])
    ours, other = socket.socketpair()
    chief = link.Link({1: ours}, hang_timeout=60, start_timeout=60)
    monkeypatch.setattr(chief, "leave", lambda: None)
    told = json.dumps(link.End("Enough.", 138, [])._asdict())
    with other, contextlib.closing(chief):
        other.sendall(b'{"total": 0, "arr{"total": 1, "arrived": {}}\n' + told.encode() + b"\n")
        end = chief.wait_for_end(10)
    assert end
    assert end.sentence == "Enough."


@pytest.mark.quick
def test_what_a_worker_can_finish_by_itself_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    set_workers(monkeypatch, [1, 2])
    monkeypatch.setattr(link, "LEAVE_SECS", 0.3)
    left: list[bool] = []
    ours, other = socket.socketpair()
    chief = link.Link({1: ours}, hang_timeout=60, start_timeout=60)
    monkeypatch.setattr(chief, "leave", lambda: left.append(True))
    with contextlib.closing(chief):
        with chief.finishing():
            other.close()  # the other worker is lost
            assert chief.wait_for_end(10)
            time.sleep(2.0)
            assert not left
        until(lambda: left, 10)


IPV6 = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="takes IPv6")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("known", "reached", "secs"),
    [
        ("127.0.0.1", "127.0.0.1", 3e6),  # longer than the system waits
        pytest.param("127.0.0.1", "::1", 5.0, marks=IPV6),  # as by /etc/hosts
        pytest.param("[::1]", "::1", 5.0, marks=IPV6),
    ],
)
def test_the_chief_is_reached_at_any_address_of_its_host(
    monkeypatch: pytest.MonkeyPatch, known: str, reached: str, secs: float
) -> None:
    ports = free_ports(2)
    set_workers(monkeypatch, ports, host=known)

    def say_hello() -> None:
        with (
            contextlib.suppress(OSError),  # the chief has failed
            socket.create_connection((reached, ports[0])) as chief,
        ):
            chief.sendall(HELLO + b"{}\n")
            while chief.recv(100):
                pass

    threading.Timer(1.0, say_hello).start()
    connections = rendezvous.meet({}, secs)
    assert set(connections) == {1}
    connections[1].close()


@pytest.mark.quick
def test_a_log_that_a_worker_can_not_write_is_one_sentence(tmp_path: Path) -> None:
    workers = Workers(tf.distribute.get_strategy())
    workers.index = 1
    (tmp_path / "worker-1.log").mkdir()
    with pytest.raises(UsageError, match=r"worker-1.log can't be written \(Is a directory\); "):
        workers.log_to(tmp_path)


WAITING = """
import ctypes, json, os, time
from proof.engine.link import Link
workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
os.environ["TF_CONFIG"] = json.dumps(workers)
link = Link({}, hang_timeout=1.0, start_timeout=2.0)
time.sleep(4)
ctypes.PyDLL(None).sleep(60)  # holds Python's lock, as TensorFlow does
"""


@pytest.mark.quick
def test_a_watchdog_ends_a_wait_that_python_can_not() -> None:
    command = [sys.executable, "-c", WAITING]
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, timeout=30, check=False
    )
    assert 4 < time.monotonic() - began < 20
    assert done.returncode == -signal.SIGKILL
    assert done.stderr.startswith("error: Worker 1 was killed: for 2 seconds it could do nothing")
    assert done.stderr.count("\n") == 1


WITH_A_CHILD = """
import json, os, socket, time
from proof.engine import link
server = socket.create_server(("127.0.0.1", 0))  # as TensorFlow makes
addresses = [f"127.0.0.1:{server.getsockname()[1]}", "b:1"]
workers = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": 0}}
os.environ["TF_CONFIG"] = json.dumps(workers)
link.current = link.Link({}, hang_timeout=60, start_timeout=60)
if child := os.fork():
    print(server.getsockname()[1], child, flush=True)
    os._exit(7)
os.close(1)
time.sleep(60)
"""


@pytest.mark.quick
def test_a_child_that_lives_on_keeps_no_port(started: Started) -> None:
    started.start(["-c", WITH_A_CHILD], {}, script=None)
    assert started.ends() == [7]
    port, child = map(int, started.out(0).split())
    try:
        until(lambda: can_listen(port), 5)
    finally:
        os.kill(child, signal.SIGKILL)


def can_listen(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_server(("", port)):
        return True
    return False


@pytest.mark.quick
def test_a_watchdog_kills_no_other_process_by_the_number_of_its_own() -> None:
    command = [sys.executable, "-c", link.WATCHDOG]
    with (
        subprocess.Popen(["sleep", "20"]) as other,
        subprocess.Popen([*command, str(other.pid), "0.2", "error"], stdin=subprocess.PIPE) as dog,
    ):
        assert dog.wait(10) == 0
        assert other.poll() is None
        other.kill()


@pytest.mark.quick
def test_workers_of_different_devices_are_refused_by_all(started: Started, tmp_path: Path) -> None:
    lost = """
    import tensorflow as tf
    found = tf.config.list_physical_devices
    tf.config.list_physical_devices = lambda kind=None: ["GPU"] * 3 * (kind == "GPU") or found(kind)
    """
    start_faulty(started, tmp_path, lost)
    assert started.ends() == [2, 2]
    for worker in (0, 1):
        assert "error: The workers have 1, 3 devices to train on" in last(started, worker)


TOLD_TO_STOP = """
    from proof.engine.evaluation import Evaluation
    step = Evaluation.distributed_validation_step
    def told(self, iterator, steps, sums, first=0):
        sums = step(self, iterator, steps, sums, first)
        if steps and not os.path.exists({mark!r}):
            open({mark!r}, "w").close()
            stop()
        return sums
    Evaluation.distributed_validation_step = told
"""


@pytest.mark.parametrize("index", [0, 1])
def test_sigterm_in_a_long_validation_ends_all_at_once(
    whole: Callable[[int], Path], started: Started, tmp_path: Path, index: int
) -> None:
    fault = TOLD_TO_STOP.format(mark=str(tmp_path / "stopped"))
    flags = [*SHORT, *SAVES, "--steps", "20", "--max-stop-secs", "1e-9"]
    runs = start_faulty(started, tmp_path, fault, flags, index)
    assert started.ends() == [138, 138], started.err(0) + started.err(1)
    assert "interrupted in the validation after step 8" in started.out(0)
    run(started, [*flags, "--resume", str(only(runs))], 2)
    assert_same(whole(2), only(runs))


PENDING = """
import json, os, signal, sys, time
from proof.engine import link
workers = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
os.environ["TF_CONFIG"] = json.dumps(workers)
link.current = link.Link({}, hang_timeout=60, start_timeout=60)
if sys.argv[1] == "training":
    link.accept_sigterm()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # as while other programs run
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(3)
"""


@pytest.mark.quick
@pytest.mark.parametrize(("when", "code"), [("starting", 143), ("training", 0)])
def test_a_pending_sigterm_ends_a_worker_only_before_it_trains(when: str, code: int) -> None:
    command = [sys.executable, "-c", PENDING, when]
    assert subprocess.run(command, cwd=PROJECT, timeout=60, check=False).returncode == code


@pytest.mark.quick
def test_the_chief_says_that_all_are_ready_before_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Creating the strategy takes Python's lock until all others create theirs.
    set_workers(monkeypatch, [1, 2])
    mine, peers = socket.socketpair()
    chief = link.Link({1: mine}, hang_timeout=60, start_timeout=60)
    sent = []

    def send(message: dict[str, object], send: Callable[..., None] = chief._send) -> None:
        sent.append((message, chief._all_ready.is_set()))
        send(message)

    monkeypatch.setattr(chief, "_send", send)
    with peers, contextlib.closing(chief):
        peers.sendall(b'{"ready": 1, "devices": 2}\n')
        chief.wait_for_all(devices=2)
    assert ({"ready": 0, "devices": 2}, False) in sent


@pytest.mark.quick
def test_what_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {0: {"--seed": 1, "proof/run.py": "a"}, 1: {"--seed": 1, "proof/run.py": "b"}}
    assert "differ in proof/run.py: it is another file on worker 1" in rendezvous._differences(
        facts
    )
    found = rendezvous.fingerprint("seed: 1")
    assert found["--seed"] == 1
    set_workers(monkeypatch, [2222, 2223])
    found = rendezvous.fingerprint("seed: 1")
    assert found["the addresses of the workers"] == "127.0.0.1:2222, 127.0.0.1:2223"
    assert {"proof/task/steps.py", "tensorflow", "Python"} < set(found)


@pytest.mark.quick
def test_what_editors_leave_is_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mine"
    (package / "folder.py").mkdir(parents=True)
    (package / "data.py").write_text("")
    (package / ".#data.py").symlink_to("me@host.1:2")  # of Emacs, as long as it isn't saved
    (package / "gone.py").symlink_to("nowhere")
    monkeypatch.setattr(rendezvous, "PACKAGE", package)
    assert list(rendezvous.hashes_of_code()) == ["mine/data.py"]


def test_no_shared_storage_is_one_sentence(started: Started, tmp_path: Path) -> None:
    # As on two machines: the same path leads to two directories.
    folders = [tmp_path / "a", tmp_path / "b"]
    flags = ["--steps", "3", "--runs", "runs", "--hang-timeout", "10"]  # shorter than storage waits
    start(started, flags, folders=folders)
    assert started.ends() == [2, 2]
    assert started.err(0) == started.err(1)
    assert "worker 1 can't see what worker 0 writes; set --runs to" in started.err(0)
    assert not list(tmp_path.glob("*/runs/*"))


APART = """
    import numpy as np
    import tensorflow as tf
    from proof.engine import cluster
    from proof.engine.callbacks import every_steps
    from proof.task import callbacks, model
    body = compile({body!r}, callbacks.__file__, "exec")
    def function(event):
        exec(body, {{"event": event, "np": np, "tf": tf}})
    {change}
"""
APART_IN = {
    "sum": "(event.is_chief or event.step < 8) and event.run.workers.sum(np.ones(3))",
    "metric": "event.is_chief and tf.convert_to_tensor(event.run.metrics['accuracy'].result())",
    "variable": "with event.run.strategy.scope(): event.is_chief and tf.Variable([1.0])",
}


@pytest.mark.parametrize("kind", APART_IN)
def test_what_one_worker_does_alone_is_named(started: Started, tmp_path: Path, kind: str) -> None:
    # A sum that others don't take part in waits for ever, where each worker has summed before.
    change = "callbacks.create_callbacks = lambda task: [every_steps(4, function)]"
    fault = APART.format(body=APART_IN[kind], change=change)
    start_faulty(started, tmp_path, fault, [*LONG, "--hang-timeout", "8"], index=None)
    assert started.ends() == [2, 2], started.err(0) + started.err(1)
    for worker in (0, 1):
        assert "must be done by all workers alike" in last(started, worker)
        if kind == "sum":  # each waits, and says where, unless a busy machine lets one be late
            place = r"has come to proof/task/callbacks.py:1, (worker 1 to |and others haven't)"
            assert re.search(place, last(started, worker))


@pytest.mark.parametrize(
    ("change", "body", "sentence"),
    [
        (
            "n = 2 - cluster.worker_index(); "
            "callbacks.create_callbacks = lambda task: [every_steps(4, function)] * n",
            "pass",
            "The workers have 4, 3 callbacks: ",
        ),
        (
            "callbacks.create_callbacks = lambda task: [every_steps(4, function)]",
            "[v.assign(v * 0.9) for v in event.run.model.trainable_variables if event.is_chief]",
            "of worker 1 isn't that of worker 0: ",
        ),
        (
            "sound = model.create_model; model.create_model = "
            "lambda *a: [m := sound(*a), cluster.worker_index() and m.set_weights("
            "[w + 1 for w in m.get_weights()])][0]",
            "pass",
            "of worker 1 isn't that of worker 0: ",
        ),
    ],
    ids=["callbacks", "weights", "model"],
)
def test_workers_that_train_apart_end(
    started: Started, tmp_path: Path, change: str, body: str, sentence: str
) -> None:
    fault = APART.format(body=body, change=change)
    flags = ["--steps", "24", "--validate-every-steps", "12"]
    start_faulty(started, tmp_path, fault, flags, index=None)
    assert started.ends() == [2, 2], started.err(0) + started.err(1)
    for worker in (0, 1):
        assert sentence in last(started, worker)


OTHERS = """
    import numpy as np
    from proof.task import data
    sound = data.create_datasets
    def create_datasets(task):
        splits = sound(task)
        {change}
        return splits
    data.create_datasets = create_datasets
"""


@pytest.mark.parametrize(
    ("change", "split"),
    [
        ("splits['train'] = tuple(part[::-1] for part in splits['train'])", "training data"),
        (  # the first, middle and last example stay
            "splits['train'] = tuple(np.delete(p, 3, axis=0) for p in splits['train'])",
            "training data",
        ),
        ("splits['validation'] = tuple(p[:-96] for p in splits['validation'])", "validation data"),
        ("del splits['test']", "test data"),
    ],
    ids=["order", "length", "validation", "missing"],
)
def test_workers_with_other_data_end_before_they_train(
    started: Started, tmp_path: Path, change: str, split: str
) -> None:
    start_faulty(started, tmp_path, OTHERS.format(change=change))
    assert started.ends() == [2, 2], started.err(0) + started.err(1)
    for worker in (0, 1):
        assert f"The {split} of worker 1 isn't that of worker 0: " in last(started, worker)


@pytest.mark.quick
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_ends_no_worker_that_only_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    workers = Workers(tf.distribute.get_strategy())
    workers.index = 1
    (tmp_path / "worker-1.log").symlink_to("/dev/full")
    workers.log_to(tmp_path)
    print("epoch 1")
    sys.stdout.flush()
    sys.stdout.close()
