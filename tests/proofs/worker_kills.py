"""Kill, stop and signal workers of a run, at random moments, and start all of them again."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import Page
from .reliability.harness import (
    PATIENCE,
    STEPS,
    TINY,
    compare,
    newest,
    readable,
    render,
    rows,
    steps_saved,
    wait,
)

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
MOMENTS = ("while saving", "while validating", "between epochs", "at any time")
KILLS = {"as many workers": 36, "other numbers of workers": 16}  # in each campaign
SHORT = {"as many workers": 2}
TOLERANCE = 1e-9
# So that the result doesn't depend on the number of replicas.
ANY_NUMBER = ["--precision", "float64", "--randomness", "global_batch"]
SECONDS = 60.0  # in which all workers must have ended

TEXT = """# Killed workers

Made by `nox -s proofs -- worker_kills`, with {versions}: processes on one machine over 127.0.0.1,
each with one CPU replica.

One worker of a run got a signal, the chief or another one; the others had to end by themselves.
Then all were started again with `--resume auto`. There was a checkpoint after every step. The
moments were drawn at random: while a checkpoint is written, while the validation data is evaluated,
between two epochs, or at any time after the start of the processes.

| | Kills | Runs completed | Lost | Compared with a run that was never stopped |
| --- | ---: | ---: | ---: | --- |
{campaigns}

In the second line the run was continued by one, two or three processes, drawn again after each
kill, in float64. Checkpoints read after the kills: {read}; of these, damaged: {bad}.

| Signal | Kills | The others say | Exit codes: it, others | Seconds: median, most | Steps lost |
| --- | ---: | --- | --- | --- | ---: |
{events}

*Seconds* are those from the signal until all others had ended. *Steps lost* are those of complete
checkpoints that the next start didn't continue from, at most. Kills of a run that was then one
process aren't in this table.
A worker that was stopped (SIGSTOP) had to be killed once the others had ended. Before training
SIGINT (Ctrl-C) ends a process at once, with 130, and SIGTERM with 143. One that ends before it has
met the others, within its first second or two, is missed after `--start-timeout`, 25 seconds here.

| Moment | Kills |
| --- | ---: |
{moments}
"""


class Kill(NamedTuple):
    """One worker got a signal."""

    number: signal.Signals
    moment: str
    workers: int
    code: int  # of the worker itself
    others: tuple[int, ...]  # exit codes
    said: tuple[str, ...]  # by the others
    secs: float  # until all others had ended
    saved: int  # the latest step on disk before
    good: int  # checkpoints that can be read afterwards
    bad: int
    wrong: list[str]


class Workers:
    """Processes of one run."""

    def __init__(self, project: Path, folder: Path, flags: list[str], number: int) -> None:
        self.folder = folder
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
            for sock in sockets:
                sock.bind(("127.0.0.1", 0))
            addresses = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]
        self.processes: list[subprocess.Popen[str]] = []
        for index in range(number):
            environ = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "TF_CONFIG")}
            environ |= {"TF_NUM_INTRAOP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
            if number > 1:
                task = {"type": "worker", "index": index}
                environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            with (
                (folder / f"out-{index}").open("w") as out,
                (folder / f"err-{index}").open("w") as err,
            ):
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "train.py", *flags],
                        cwd=project, env=environ, stdout=out, stderr=err, text=True,
                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                    )
                )  # fmt: skip

    def ended(self, indices: list[int], secs: float) -> bool:
        """Whether these processes have ended within so many seconds."""
        end = time.monotonic() + secs
        while any(self.processes[i].poll() is None for i in indices):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> list[int]:
        """Kill what still runs; the exit codes."""
        for process in self.processes:
            process.kill()
        return [process.wait() for process in self.processes]

    def text(self, kind: str, index: int) -> str:
        """What a process has written to "out" or "err"."""
        return (self.folder / f"{kind}-{index}").read_text(errors="replace")


class Campaign(NamedTuple):
    """What a run that was killed again and again gave."""

    kills: list[Kill]
    lost: list[tuple[signal.Signals, int]]  # steps, after each kill
    runs: int
    wrong: list[str]


def make(short: bool) -> Page:
    """The tables; wrong is all that was not as it must be."""
    with tempfile.TemporaryDirectory() as temporary:
        project = render(Path(temporary) / "project")
        found = {}
        for seed, (name, kills) in enumerate((SHORT if short else KILLS).items()):
            folder = Path(temporary) / f"campaign-{seed}"
            folder.mkdir()
            found[name] = campaign(project, folder, kills, seed, any_number=bool(seed))
    return Page(_write(found), [wrong for gave in found.values() for wrong in gave.wrong])


def campaign(project: Path, folder: Path, kills: int, seed: int, *, any_number: bool) -> Campaign:
    """Kill runs until there are enough kills, and let the last one finish."""
    dice = random.Random(seed)
    flags = [*TINY, "--start-timeout", "25", *(ANY_NUMBER if any_number else [])]
    whole, runs = folder / "whole", folder / "killed"
    number = 1 if any_number else 2
    workers = Workers(project, folder, [*flags, "--runs", str(whole)], number)
    ended = workers.ended([*range(number)], PATIENCE)
    codes = workers.close()
    if not ended or any(codes):
        errors = [workers.text("err", i)[-1500:] for i in range(number)]
        raise RuntimeError(f"the run that isn't stopped ended with {codes}: {errors}")
    done: list[Kill] = []
    lost: list[tuple[signal.Signals, int]] = []
    wrong: list[str] = []
    completed = 0
    same = nearly if any_number else compare
    deck = [(number, moment) for number in SIGNALS for moment in MOMENTS]
    plan: list[tuple[signal.Signals, str]] = []
    saved = 0
    while True:
        finishing = len(done) >= kills
        number = dice.choice([1, 2, 2, 3]) if any_number else 2
        workers = Workers(
            project, folder, [*flags, "--resume", "auto", "--runs", str(runs)], number
        )
        plan = plan or dice.sample(deck, len(deck))
        kill = None
        if not finishing:
            kill = _kill(workers, runs, *plan[-1], dice)
        elif not workers.ended([*range(number)], PATIENCE):
            wrong.append(f"the last run doesn't end: {workers.text('err', 0)[-600:]}")
        codes = workers.close()
        resumed = re.search(r"after step (\d+)", workers.text("out", 0))
        if saved and (resumed or not kill):  # else it was killed before it could resume
            lost.append((done[-1].number, max(0, saved - int(resumed[1] if resumed else 0))))
        if kill:
            plan.pop()
            done.append(kill)
            wrong += kill.wrong
            saved = kill.saved
            print(f"{len(done)}: {kill.number.name} {kill.moment}: {kill}", flush=True)
        elif any(codes):
            errors = [workers.text("err", i)[-1500:] for i in range(number)]
            wrong.append(f"started again, the workers end with {codes}: {errors}")
        last = newest(runs)
        if last and (last / "results.json").exists():
            completed += 1
            wrong += [f"different: {name}" for name in same(whole, last)]
            shutil.rmtree(runs)  # it came to its end: the next kill starts another
            saved = 0
        if finishing or len(wrong) > 20:
            return Campaign(done, lost, completed, wrong)


def _kill(
    workers: Workers, runs: Path, number: signal.Signals, moment: str, dice: random.Random
) -> Kill | None:
    """Send a signal at such a moment; None if a process had ended before."""
    index = dice.randrange(len(workers.processes))
    process, others = workers.processes[index], [*range(len(workers.processes))]
    others.remove(index)
    before = max(steps_saved(newest(runs)), default=0)
    per_epoch = STEPS // 4
    wanted = min(before + dice.randint(1, 6), STEPS - 1)
    # Of an epoch of which this start makes two steps at least, so that it has begun to train.
    epoch_end = min(((before + 1) // per_epoch + 1) * per_epoch, STEPS)

    def saved(step: int) -> Callable[[], bool]:
        return lambda: max(steps_saved(newest(runs)), default=0) >= step

    def is_saving() -> bool:
        run = newest(runs)
        return bool(
            run and saved(wanted)() and (run / "checkpoints" / "latest" / "unfinished").exists()
        )

    if moment == "at any time":
        time.sleep(dice.uniform(1, 12))
    elif moment == "while saving":
        wait(process, is_saving)  # type: ignore[arg-type]
        time.sleep(dice.uniform(0, 0.006))
    elif moment == "while validating":
        wait(process, saved(epoch_end - 1))  # type: ignore[arg-type]
        time.sleep(dice.uniform(0, 0.2))
    else:
        wait(process, saved(epoch_end))  # type: ignore[arg-type]
        time.sleep(dice.uniform(0, 0.1))
    latest = max(steps_saved(newest(runs)), default=0)
    if any(process.poll() is not None for process in workers.processes):
        workers.ended([*range(len(workers.processes))], SECONDS)
        return None
    began = time.monotonic()
    process.send_signal(number)
    wrong = []
    if not workers.ended(others, SECONDS):
        wrong.append(f"{number.name} {moment}: not all others have ended")
    secs = time.monotonic() - began
    if number != signal.SIGSTOP and not workers.ended([index], SECONDS):
        wrong.append(f"{number.name} {moment}: it has not ended")
    codes = workers.close()
    said = tuple(_said(workers, i) for i in others)
    allowed = {138} if codes[index] else {0}  # it may have come to its end meanwhile
    if number in (signal.SIGTERM, signal.SIGINT) and codes[index] not in (
        138,
        0,
        130,
        143,
        -15,
        -2,
    ):
        wrong.append(f"{number.name} {moment}: exit code {codes[index]}")
    if not {codes[i] for i in others} <= allowed:
        errors = [workers.text("err", i)[-600:] for i in others]
        wrong.append(f"{number.name} {moment}: exit codes {codes}: {errors}")
    if any("Traceback" in workers.text("err", i) for i in others):
        wrong.append(f"{number.name} {moment}: a traceback")
    run = newest(runs)
    counts = readable(run) if run else (0, 0)
    if counts[1]:
        wrong.append(f"{number.name} {moment}: {counts[1]} damaged checkpoints")
    return Kill(
        number, moment, len(codes), codes[index], tuple(codes[i] for i in others), said,
        secs, latest, *counts, wrong,
    )  # fmt: skip


def _said(workers: Workers, index: int) -> str:
    """The last line of a worker that says why it ends, without numbers."""
    errors = [line for line in workers.text("err", index).splitlines() if "error: " in line]
    (said, *_) = [*errors[-1:], "interrupted after step N"]
    said = re.sub(r"127.0.0.1:\d+", "address", said.partition("error: ")[2] or said)
    said = re.sub(r"[Ww]orker \d( \(address\))?", "Worker N", said)
    return said.partition(";")[0].rstrip(".")


def nearly(whole: Path, run: Path) -> list[str]:
    """What differs by more than the tolerance from a run never stopped."""
    import tensorflow as tf

    first = newest(whole)
    assert first is not None

    def numbers(directory: Path) -> dict[str, np.ndarray]:
        reader = tf.train.load_checkpoint(str(directory / f"checkpoints/latest/ckpt-{STEPS}"))
        names = reader.get_variable_to_shape_map()
        values = {name: np.asarray(reader.get_tensor(name)) for name in names}
        found = {name: value for name, value in values.items() if value.dtype.kind in "fiu"}
        for number, row in enumerate(rows(directory / "history.csv")):
            found[f"history.csv, row {number}"] = np.array([float(text) for text in row.values()])
        return found

    one, other = numbers(first), numbers(run)
    if set(one) != set(other):
        return sorted(set(one) ^ set(other))
    scale = {name: max(1e-300, float(np.abs(value).max(initial=0))) for name, value in one.items()}
    return [n for n in one if np.abs(one[n] - other[n]).max(initial=0) > TOLERANCE * scale[n]]


def _write(found: dict[str, Campaign]) -> str:
    kills = [kill for gave in found.values() for kill in gave.kills]
    lost = [each for gave in found.values() for each in gave.lost]

    def event(number: signal.Signals) -> str:
        own = [kill for kill in kills if kill.number == number and kill.workers > 1]
        if not own:
            return f"| {number.name} | 0 | | | | |"
        said = Counter(said for kill in own for said in kill.said)
        codes = Counter((kill.code, *sorted(set(kill.others))) for kill in own)
        secs = sorted(kill.secs for kill in own)
        cells = [
            number.name,
            str(len(own)),
            "; ".join(f"{text} ({n})" for text, n in said.most_common()),
            "; ".join(f"{', '.join(map(str, code))} ({n})" for code, n in codes.most_common()),
            f"{secs[len(secs) // 2]:.1f}, {secs[-1]:.1f}",
            str(max((steps for by, steps in lost if by == number), default=0)),
        ]
        return f"| {' | '.join(cells)} |"

    def campaign_row(name: str, gave: Campaign) -> str:
        same = "bit-identical" if name == "as many workers" else f"at most {TOLERANCE:g} apart"
        lost = sum(steps > 0 for _, steps in gave.lost)
        cells = [name, len(gave.kills), gave.runs, lost, "DIFFERENT" if gave.wrong else same]
        return f"| {' | '.join(map(str, cells))} |"

    moments = Counter(kill.moment for kill in kills)
    return TEXT.format(
        versions=f"TensorFlow {version('tensorflow')} and Keras {version('keras')}",
        campaigns="\n".join(campaign_row(*each) for each in found.items()),
        read=sum(kill.good + kill.bad for kill in kills),
        bad=sum(kill.bad for kill in kills),
        events="\n".join(event(number) for number in SIGNALS),
        moments="\n".join(f"| {moment} | {moments[moment]} |" for moment in MOMENTS),
    )
