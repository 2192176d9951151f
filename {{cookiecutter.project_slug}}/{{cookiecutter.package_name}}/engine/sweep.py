"""Train the runs of a sweep, each in a process of its own, then compare. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from .causes import PROJECT
from .command_line import arguments_of, flags_in, parse, to_yaml
from .compare import compare, draw_comparison
from .errors import AGAIN, RESUMABLE, UsageError
from .files import replace_file, writing
from .interrupts import OF_SWEEP, Interrupts
from .locks import acquire, is_locked, lock_of
from .run_files import find_run, has_checkpoint, is_finished, read_run, shown
from .sweep_file import Sweep, read_sweep

TRAIN = PROJECT / "train.py"
PAUSE_SECS = 0.2  # between two looks at the processes
LAST_WORDS = 4000  # bytes at the end of a log


class Job(NamedTuple):
    """A run that goes on.

    Attributes:
        slot: which of the jobs it is, from 0.
        process: None for a run that an earlier sweep, killed since, has left training.
    """

    slot: int
    process: subprocess.Popen[bytes] | None


def sweep(file: Path, runs: Path, jobs: int, **forms: type) -> int:
    """Train what isn't finished yet, and compare all that is.

    Args:
        file: what to run; see `sweep_file.py`.
        runs: the runs go to a directory here that is named as the file.
        jobs: how many runs train at the same time.
        forms: the dataclasses of the flags, as `parse` takes them.

    Returns:
        The exit code: 0, or 1 if a run has failed.

    Raises:
        UsageError: the file isn't as it must be, or doesn't fit what is there already, or the
            directory can't be written to.
        SystemExit: a flag or value is refused, before any run starts (2); or a signal came, and the
            runs have been saved (138).
    """
    planned = read_sweep(file, tuple(forms.values()))
    if not TRAIN.is_file():
        raise UsageError(f"{TRAIN} is not there: a sweep starts train.py of the project.")
    known = flags_in(to_yaml(*parse([], **forms)))
    for flags in planned.runs.values():
        for name in planned.fixed | flags:
            if name not in known and (near := get_close_matches(name, known, 1)):
                raise UsageError(f"{file} has `{name}`; perhaps you meant `{near[0]}`.")
        parse(arguments_of(planned.fixed | flags), **forms)
    directory = runs / file.stem
    with writing(directory, AGAIN):
        directory.mkdir(parents=True, exist_ok=True)
        locked = acquire(lock_of(directory), "sweep")
    with locked:
        _keep(file, planned, directory / "sweep.yaml")
        failed = _Runner(planned, directory, jobs).run()
    found = [path for name in planned.runs if (path := find_run(directory, name))]
    if found:
        text, ordered = compare([read_run(path) for path in found])
        print(f"\n{text}", flush=True)
        draw_comparison(ordered, directory / "compare.png")
        print(f"\ncurves: {directory / 'compare.png'}")
    for name in failed:
        print(f"failed: {name}, see {_log(directory, name)}")
    return int(bool(failed))


class _Runner:
    """Starts, watches and stops the processes."""

    def __init__(self, planned: Sweep, directory: Path, jobs: int) -> None:
        self._planned = planned
        self._directory = directory
        self._jobs = jobs
        self._running: dict[str, Job] = {}
        self._failed: list[str] = []
        self._number = {name: i for i, name in enumerate(planned.runs, 1)}

    def run(self) -> list[str]:
        """The names of the runs that failed, once none is left."""
        found = {name: find_run(self._directory, name) for name in self._planned.runs}
        waiting = [name for name, path in found.items() if not (path and is_finished(path))]
        print(
            f"{len(found)} runs in {self._directory}, {len(found) - len(waiting)} finished",
            flush=True,
        )
        with Interrupts(self._stop_at_once) as interrupts:
            try:
                while (waiting or self._running) and not interrupts.received:
                    while waiting and len(self._running) < self._jobs and not interrupts.received:
                        self._start(waiting.pop(0))
                    time.sleep(PAUSE_SECS)
                    self._look()
            finally:
                self._stop()
            if interrupts.received:
                print("interrupted; the same command resumes the sweep", flush=True)
                raise SystemExit(RESUMABLE)
        return self._failed

    def _start(self, name: str) -> None:
        slot = min(set(range(self._jobs)) - {job.slot for job in self._running.values()})
        path = find_run(self._directory, name)
        if self._is_trained(name):
            self._running[name] = Job(slot, None)
            self._say(name, "is still being trained by a process of an earlier sweep")
            return
        flags = {"runs": str(self._directory), "name": name}
        flags = flags | self._planned.fixed | self._planned.runs[name]
        resumed = path and has_checkpoint(path)
        arguments = ["--resume", str(path)] if resumed else arguments_of(flags)
        log = _log(self._directory, name)
        with writing(log, AGAIN), log.open("ab") as output, _lock(log) as lock:
            of_sweep = {OF_SWEEP: str(*lock or ())}
            process = subprocess.Popen(
                [sys.executable, str(TRAIN), *arguments],
                env=os.environ | devices(os.environ, slot, self._jobs) | of_sweep,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=lock or (),
                start_new_session=True,  # Ctrl-C comes to the sweep alone, which passes it on
            )
        self._running[name] = Job(slot, process)
        self._say(name, "resumed" if resumed else "started")

    def _look(self) -> None:
        """Note which runs have ended."""
        for name, job in list(self._running.items()):
            code = job.process.poll() if job.process else 0
            if code is None or (job.process is None and self._is_trained(name)):
                continue
            del self._running[name]
            path = find_run(self._directory, name)  # only now: it lists a directory
            if path and is_finished(path):
                run = read_run(path)
                best = run.best_row.get(run.monitor)
                self._say(name, f"finished, {run.monitor} {shown(best)}")
            elif job.process is None:  # it was killed, too
                self._start(name)
            else:
                self._failed.append(name)
                last = _last_line(_log(self._directory, name))
                self._say(name, f"failed with exit code {code}: {last}")

    def _is_trained(self, name: str) -> bool:
        """Whether a process trains this run, or has been started for it."""
        path, log = find_run(self._directory, name), _log(self._directory, name)
        if path and is_locked(path):
            return True
        if not log.exists():
            return False
        with writing(log, AGAIN), _lock(log) as lock:
            return lock is None

    def _stop(self) -> None:
        """Let what still runs save itself and end."""
        processes = self._terminate()
        for name, job in self._running.items():
            if not job.process:
                self._say(name, "goes on, trained by a process of an earlier sweep")
        for process in processes:
            process.wait()

    def _stop_at_once(self) -> None:
        """By a second signal: the runs save themselves and end, which nobody waits for."""
        self._terminate()
        logs = [str(_log(self._directory, name)) for name in list(self._running)]
        sys.stderr.write(
            "interrupted again; the sweep doesn't wait for what still runs "
            f"({', '.join(logs) or 'nothing'}); the same command resumes it\n"
        )
        sys.stderr.flush()

    def _terminate(self) -> list[subprocess.Popen[bytes]]:
        processes = [job.process for job in list(self._running.values()) if job.process]
        for process in processes:
            process.terminate()
        return processes

    def _say(self, name: str, what: str) -> None:
        print(f"[{self._number[name]}/{len(self._number)}] {name}: {what}", flush=True)


def devices(environ: Mapping[str, str], slot: int, jobs: int) -> dict[str, str]:
    """CUDA_VISIBLE_DEVICES of one job: its part, where that lists enough of them for all."""
    listed = environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    if jobs == 1 or len(listed) < jobs:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(listed[slot::jobs])}


def _keep(file: Path, planned: Sweep, copy: Path) -> None:
    """Copy the file; what runs that are there have in common must still be so.

    Raises:
        UsageError: it isn't.
    """
    if copy.exists():
        before, now = read_sweep(copy).fixed, planned.fixed
        different = [name for name in before | now if before.get(name) != now.get(name)]
        if different:
            raise UsageError(
                f"{copy.parent} was begun with another value of `{different[0]}` in `fixed`; set "
                "it back, or give the file another name for another sweep."
            )
    replace_file(copy, file.read_bytes(), AGAIN)


@contextlib.contextmanager
def _lock(log: Path) -> Iterator[list[int] | None]:
    """Lock the log of a run, until this process and those that inherit what is given have ended.

    None if such a process lives; nothing to inherit where there are no such locks.
    """
    with log.open("ab") as file:
        held: list[int] | None = []
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = [file.fileno()]
        except BlockingIOError:
            held = None
        except OSError:  # a file system without them
            pass
        yield held


def _log(sweep: Path, name: str) -> Path:
    """What a run prints."""
    return sweep / f"{name}.log"


def _last_line(log: Path) -> str:
    lines = log.read_bytes()[-LAST_WORDS:].decode(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.strip()), "")
