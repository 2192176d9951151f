"""What happens to two workers under each launcher: a function for each row of the page."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .slurm import Slurm
from .work import FLAGS, SECONDS, Work, difference, said, send, until, workers

TWO = ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1"]  # win over the script's own
MPIRUN = [
    "mpirun", "-np", "2", "--bind-to", "none", "--mca", "odls_base_sigkill_timeout", "15",
    # Of the test: it is root, has few cores, and stays on this machine.
    "--allow-run-as-root", "--oversubscribe",
    "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo",
]  # fmt: skip
EARLIEST = 40  # step of the checkpoint that an event waits for
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"}


class Row(NamedTuple):
    """What an event does."""

    event: str
    said: list[str]  # by the workers, and when they were started again
    codes: str
    seconds: float | None  # from the event until no worker was left
    saved: int | None  # step of the last checkpoint before they were started again
    resumed: int | None  # step that they continued from
    difference: float | None  # of the finished run from one that wasn't stopped; None: unfinished
    wrong: list[str]


Rows = Iterator[tuple[str, Callable[[], Row]]]  # the event, and what makes its row


def slurm_rows(slurm: Slurm, work: Work, alone: Path, short: bool) -> Rows:
    """Under `sbatch cluster/train.sbatch`; `alone` is the run of a single process."""
    job = _submit(slurm, work)
    _wait(slurm, job)
    whole = work.run_named(f"job-{job}")
    code = slurm.job(job)["ExitCode"]
    yield "finishes", lambda: _finished(whole, alone, code)

    def preempt(job: str) -> None:
        slurm.submit(
            "--partition=high", "--nodes=3", "--exclusive", "--wrap=sleep 3", cwd=work.project
        )

    def to_worker(number: signal.Signals, rank: int) -> Callable[[str], None]:
        return lambda job: send(number, "SLURM_PROCID", rank, f"job-{job}")

    events = {
        "preempted by a job of higher priority": preempt,
        "`kill -9` of worker 0": to_worker(signal.SIGKILL, 0),
        "`kill -9` of worker 1": to_worker(signal.SIGKILL, 1),
        "SIGSTOP to worker 0": to_worker(signal.SIGSTOP, 0),
        "SIGSTOP to worker 1": to_worker(signal.SIGSTOP, 1),
    }
    for event, act in list(events.items())[: 1 if short else None]:
        yield event, partial(_interrupted, slurm, work, whole, event, act)
    if short:
        return
    yield "time limit", partial(_out_of_time, slurm, work, whole)
    yield "absent", partial(_absent, slurm, work, whole)
    yield "scancel", partial(_cancelled, slurm, work)
    yield "wrong flags", partial(_refused, slurm, work)


def mpirun_rows(work: Work, whole: Path, alone: Path, short: bool) -> Rows:
    """Under `mpirun`; `whole` is the run of two workers that was never stopped."""
    with _started(work, "mpi-whole") as process:
        code = process.wait(SECONDS)
    finished = work.run_named("mpi-whole")
    yield "finishes", lambda: _finished(finished, alone, str(code))
    variable = "OMPI_COMM_WORLD_RANK"
    events: dict[str, Callable[[subprocess.Popen[bytes], str], None]] = {
        "SIGTERM to `mpirun`": lambda process, name: process.terminate(),
    }
    for number, event in ((signal.SIGKILL, "`kill -9` of"), (signal.SIGSTOP, "SIGSTOP to")):
        for rank in (0, 1):
            events[f"{event} worker {rank}"] = lambda process, name, number=number, rank=rank: send(
                number, variable, rank, name
            )
    for event, act in list(events.items())[: 1 if short else None]:
        yield event, partial(_sent, work, whole, event, act)
    if not short:
        yield "absent", partial(_not_all_started, work, whole)


# Under Slurm.


def _submit(slurm: Slurm, work: Work, *flags: str, options: list[str] | None = None) -> str:
    return slurm.submit(
        *TWO, *(options or []), "cluster/train.sbatch", *FLAGS, *flags, cwd=work.project
    )


def _wait(slurm: Slurm, job: str) -> str:
    until(lambda: slurm.job(job)["JobState"] in ENDED, f"the end of job {job}", 2 * SECONDS)
    return slurm.job(job)["JobState"]


def _waits(slurm: Slurm, job: str) -> bool:
    """Whether a job has ended and is to start again."""
    found = slurm.job(job)
    return found["Restarts"] == "1" and found["JobState"] == "PENDING"


def _log(work: Work, job: str) -> str:
    return (work.project / f"train-{job}.log").read_text(errors="replace")


def _codes(log: str) -> str:
    """What srun says of the tasks of the first start that ended badly."""
    tasks = re.findall(r"srun: error: \S+: tasks? (\S+): (.*)", log)
    return ", ".join(
        f"worker {task}: {how.removeprefix('Exited with exit code ')}"
        for task, how in sorted(tasks)[:2]
    )


def _interrupted(
    slurm: Slurm,
    work: Work,
    whole: Path | None,
    event: str,
    act: Callable[[str], None],
) -> Row:
    before, slurm.environ = slurm.environ, slurm.environ | {"PAUSE": "1"}
    job = _submit(slurm, work)
    slurm.environ = before
    name = f"job-{job}"
    until(lambda: work.saved(name) >= EARLIEST, "a checkpoint")
    step = work.saved(name)
    began = time.monotonic()
    act(job)
    until(lambda: _waits(slurm, job), "requeue")
    seconds = time.monotonic() - began
    saved = work.saved(name)
    state, log = _wait(slurm, job), _log(work, job)
    row = _row(event, log, _codes(log), seconds, saved, difference(whole, work.run_named(name)))
    if state != "COMPLETED":
        row.wrong.append(f"{event}: {state}")
    if saved < step:
        row.wrong.append(f"{event}: a checkpoint is gone")
    return row


def _out_of_time(slurm: Slurm, work: Work, whole: Path | None) -> Row:
    # The signal comes up to a minute before it is due, and at most two after the start.
    before, slurm.environ = slurm.environ, slurm.environ | {"PAUSE": "6"}
    job = _submit(slurm, work, options=["--time=3", "--signal=TERM@60"])
    slurm.environ = before
    name = f"job-{job}"
    until(lambda: _waits(slurm, job), "requeue")
    saved = work.saved(name)
    slurm.call("scontrol", "update", f"JobId={job}", "TimeLimit=30")  # the rest in one piece
    _wait(slurm, job)
    log = _log(work, job)
    far = difference(whole, work.run_named(name))
    return _row("the time limit", log, _codes(log), None, saved, far)


def _absent(slurm: Slurm, work: Work, whole: Path | None) -> Row:
    before, slurm.environ = slurm.environ, slurm.environ | work.absent_environ
    job = _submit(slurm, work, "--start-timeout", "15")
    slurm.environ = before
    until(lambda: slurm.job(job)["JobState"] == "RUNNING", "start")
    began = time.monotonic()
    until(lambda: _waits(slurm, job), "requeue")
    seconds = time.monotonic() - began
    _wait(slurm, job)
    log, run = _log(work, job), work.run_named(f"job-{job}")
    return _row("worker 1 doesn't come", log, _codes(log), seconds, 0, difference(whole, run))


def _cancelled(slurm: Slurm, work: Work) -> Row:
    before, slurm.environ = slurm.environ, slurm.environ | {"PAUSE": "1"}
    job = _submit(slurm, work)
    slurm.environ = before
    name = f"job-{job}"
    until(lambda: work.saved(name) >= EARLIEST, "a checkpoint")
    began = time.monotonic()
    slurm.call("scancel", job)
    state = _wait(slurm, job)
    seconds = time.monotonic() - began
    time.sleep(10)  # a requeued job would be back
    log, found = _log(work, job), slurm.job(job)
    wrong = [] if state == found["JobState"] == "CANCELLED" else [f"scancel: {found['JobState']}"]
    return Row("`scancel`", said(log), _codes(log), seconds, work.saved(name), None, None, wrong)


def _refused(slurm: Slurm, work: Work) -> Row:
    began = time.monotonic()
    job = _submit(slurm, work, "--epochs", "1")  # beside --steps
    state = _wait(slurm, job)
    log = _log(work, job)
    codes = _codes(log)
    right = state == "FAILED" and codes == "worker 0: 2, worker 1: 2"
    wrong = [] if right else [f"wrong flags: {state}, {codes}"]
    return Row("wrong flags", said(log), codes, time.monotonic() - began, None, None, None, wrong)


# Under mpirun.


@contextlib.contextmanager
def _started(
    work: Work, name: str, flags: list[str] | None = None, environ: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`mpirun`, with all it prints in a file; none of it is left at the end."""
    command = [*MPIRUN, "python", "train.py", *FLAGS, *(flags or [])]
    command += ["--name", name, "--resume", "auto"]
    with (work.project / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=work.project, env=environ or work.environ,
            stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        until(lambda: not _left(name), f"the workers of {name} to end", 30)


def _sent(
    work: Work, whole: Path, event: str, act: Callable[[subprocess.Popen[bytes], str], None]
) -> Row:
    name = re.sub(r"\W+", "-", event).strip("-")
    pause = work.environ | {"PAUSE": "2"}
    with _started(work, name, environ=pause) as process:
        until(lambda: work.saved(name) >= EARLIEST, "a checkpoint")
        began = time.monotonic()
        act(process, name)
        code = process.wait(SECONDS)
        seconds = time.monotonic() - began
    return _again(work, whole, event, name, code, seconds)


def _not_all_started(work: Work, whole: Path) -> Row:
    name = "mpi-absent"
    shutil.rmtree(work.project.parent / "was-absent", ignore_errors=True)
    began = time.monotonic()
    with _started(work, name, ["--start-timeout", "15"], work.absent_environ) as process:
        code = process.wait(SECONDS)
    return _again(work, whole, "worker 1 doesn't come", name, code, time.monotonic() - began)


def _left(name: str) -> list[int]:
    return [pid for rank in (0, 1) for pid in workers("OMPI_COMM_WORLD_RANK", rank, name)]


def _again(work: Work, whole: Path, event: str, name: str, code: int, seconds: float) -> Row:
    saved = work.saved(name)
    log = (work.project / f"{name}.log").read_text(errors="replace")
    named = re.findall(r"\[\[\d+,\d+\],(\d)\]\s+Exit code:\s+(\d+)", log)
    codes = "".join(f"worker {rank}: {code}, " for rank, code in named)
    with _started(work, name) as process:
        process.wait(SECONDS)
    log = (work.project / f"{name}.log").read_text(errors="replace")
    result = difference(whole, work.run_named(name))
    return _row(event, log, f"{codes}`mpirun`: {code}", seconds, saved, result)


# Both.


def _finished(run: Path | None, alone: Path, code: str) -> Row:
    far = difference(alone, run)
    wrong = [] if far <= 1e-9 and code in ("0", "0:0") else [f"finishes: {far:.0e}, {code}"]
    return Row("none: it finishes, and equals one process", [], "0", None, None, None, far, wrong)


def _row(event: str, log: str, codes: str, seconds: float | None, saved: int, far: float) -> Row:
    steps = [int(step) for step in re.findall(r"resuming .* after step (\d+)", log)]
    resumed = steps[0] if steps else 0
    wrong = []
    if resumed != saved:
        wrong.append(f"{event}: saved at step {saved}, resumed after {resumed}")
    if far:
        wrong.append(f"{event}: {far:.0e} from a run that was not stopped")
    if seconds is not None and seconds > 120:
        wrong.append(f"{event}: {seconds:.0f} s")
    return Row(event, said(log), codes, seconds, saved, resumed, far, wrong)
