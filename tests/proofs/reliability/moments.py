"""Runs that are ended at chosen moments, and what each process must leave behind."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

from .harness import Ended, Project, compare, newest, render

KILL, BOTH = "SIGKILL", "SIGTERM,SIGINT"
SIGNALS = ("SIGTERM", "SIGHUP", "SIGINT", BOTH)


class Moment(NamedTuple):
    """A function of strike.py."""

    what: str  # what the page says
    call: int  # which call of it is struck
    in_training: bool  # where a signal waits until the run is saved


MOMENTS: dict[str, Moment] = {
    "import": Moment("while TensorFlow is imported", 300, False),
    "data": Moment("while the data is loaded", 1, False),
    "directory": Moment("right after the run directory is made", 1, False),
    "samples": Moment("while `samples.png` is drawn", 1, False),
    "trace": Moment("while the train step is traced", 1, False),
    "validation": Moment("while a validation runs", 1, True),
    "history": Moment("before a new `history.csv` replaces the old one", 1, True),
    "consider": Moment("between `history.csv` and the best weights", 1, True),
    "best": Moment("between data and index of the best weights", 1, True),
    "callbacks": Moment("after a step, before the callbacks and the checkpoint", 2, True),
    "save": Moment("between data and index of a checkpoint", 2, True),
    "test": Moment("while the test runs", 1, False),
    "curves": Moment("after the test, before `curves.png`", 1, False),
    "predictions": Moment("while `predictions.png` is drawn", 1, False),
    "results": Moment("before `results.json` gets its name", 1, False),
}
# Every step a checkpoint, every other one a validation.
FLAGS = ["--save-every-steps", "1", "--validate-every-steps", "2", "--log-every-steps", "3"]
STARTERS = {
    "image_classification": "--epochs 4 --global-batch-size 48 --virtual-replicas 2",
    "gan": "--epochs 6 --global-batch-size 72 --passes 1",
    "tabular_regression": "--epochs 6 --global-batch-size 72",
}
AGAIN = re.compile(r"to resume: python train\.py (.*)")
OUTSIDE_OF_TRAINING = "again; --resume auto continues from the last checkpoint"
NOISE = re.compile("Traceback|Exception ignored")


class Strike(NamedTuple):
    """One process that was ended by signals."""

    starter: str
    moment: str
    signals: str
    code: int
    left_behind: int  # run directories without a checkpoint
    wrong: list[str]  # what was not as it must be


class Struck(NamedTuple):
    """What ending runs gave."""

    strikes: list[Strike]
    compared: list[str]  # the starter of each run that came to its end and was compared
    different: list[str]  # what differs


def plan(short: bool) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each run its starter, and the moments and signals that end it one after the other.

    Each starter is killed at every moment; every other signal comes at every moment in one of them.
    """
    if short:
        return [
            (
                "image_classification",
                [("best", KILL), ("validation", "SIGTERM"), ("test", "SIGHUP")],
            )
        ]
    runs = []
    for i, starter in enumerate(STARTERS):
        runs.append((starter, [(moment, KILL) for moment in MOMENTS]))
        signals = [
            (moment, signals)
            for m, moment in enumerate(MOMENTS)
            for s, signals in enumerate(SIGNALS)
            if (m + s) % len(STARTERS) == i
        ]
        runs.append((starter, signals))
    return runs


def whole(project: Project, starter: str, runs: Path) -> None:
    """A run that nothing happens to."""
    ended = project.run("--runs", runs, *FLAGS, *STARTERS[starter].split())
    if ended.code:
        raise RuntimeError(f"the run that is never stopped failed: {ended.err[-3000:]}")


def campaign(
    project: Project, starter: str, whole: Path, runs: Path, strikes: list[tuple[str, str]]
) -> Struck:
    """End a run again and again, resume it as it says, and compare it with one never stopped."""
    auto = ["--resume", "auto", "--runs", str(runs), *FLAGS, *STARTERS[starter].split()]
    flags = auto
    gave = Struck([], [], [])

    def finished() -> bool:
        last = newest(runs)
        if last is None or not (last / "results.json").exists():
            return False
        gave.compared.append(starter)
        gave.different.extend(f"{starter}: {name}" for name in compare(whole, last))
        shutil.rmtree(runs)  # the next one starts another
        return True

    for moment, signals in strikes:
        for _ in range(2):
            before = empty(runs)
            ended = project.run(*flags, strike=(moment, MOMENTS[moment].call, signals))
            flags = auto
            if ended.code != 0 or not finished():  # else it came to its end before that moment
                break
        gave.strikes.append(judge(starter, moment, signals, ended, empty(runs) - before))
        print(*gave.strikes[-1], flush=True)
        if again := AGAIN.search(ended.out):
            flags = shlex.split(again[1])
    ended = project.run(*flags)
    if ended.code or not finished():
        gave.different.append(f"{starter}: it doesn't end: {ended.code}, {ended.err[-600:]}")
    return gave


def judge(starter: str, moment: str, signals: str, ended: Ended, left: int) -> Strike:
    """Compare what a process left behind with what it must."""
    training = MOMENTS[moment].in_training
    codes = {
        KILL: (-signal.SIGKILL,),
        BOTH: (138, 130),
        "SIGINT": (138 if training else 130,),
    }.get(signals, (138,))
    wrong = [] if ended.code in codes else [f"exit code {ended.code}: {ended.err[-600:]}"]
    if NOISE.search(ended.err):
        wrong.append(f"on stderr: {ended.err[-600:]}")
    if ended.code == 138 and not (
        AGAIN.search(ended.out) if training else OUTSIDE_OF_TRAINING in ended.err
    ):
        wrong.append(f"it doesn't say how to resume: {ended.err[-600:]}")
    if left and signals not in (KILL, BOTH):
        wrong.append(f"{left} empty run directories")
    return Strike(starter, moment, signals, ended.code, left, wrong)


def empty(runs: Path) -> int:
    """How many run directories have no checkpoint."""
    checkpoints = "checkpoints/latest/ckpt-*.index"
    found = runs.iterdir() if runs.exists() else []
    return sum(not any(run.glob(checkpoints)) for run in found)


TEXT = """## Ended at chosen moments

Runs of {starters} were ended by a
signal at a chosen call of a function of the engine, started again with `--resume auto` or as they
had said, and ended again: {count} processes. {compared} runs came to their ends in this way and
were compared as above: {different}. In training a signal waits until the step is made and the run
is saved; before and after it what is to be kept is on disk already. The numbers are exit codes, 137
as a shell shows a SIGKILL.

| | {heads} |
| --- |{rules}
{table}

| Run directories without a checkpoint left behind | |
| --- | ---: |
| by SIGTERM, SIGHUP or Ctrl-C | {left} |
| by a second signal, which exits at once | {left_by_both} |
| by SIGKILL; `--resume auto` passes over them and begins a new run | {left_by_kill} |
| Tracebacks and ignored exceptions on stderr | {noise} |
"""


def write(gave: list[Struck]) -> str:
    """The section of the page."""
    strikes = [strike for one in gave for strike in one.strikes]
    heads = dict.fromkeys((KILL, *SIGNALS))
    names = {"SIGINT": "Ctrl-C", BOTH: "SIGTERM, and Ctrl-C 0.05 s later"}

    def cell(moment: str, signals: str) -> str:
        codes = [s.code % 256 for s in strikes if (s.moment, s.signals) == (moment, signals)]
        codes = [137 if code == 256 - signal.SIGKILL else code for code in codes]
        return ", ".join(map(str, sorted(codes)))

    def left(*signals: str) -> int:
        return sum(strike.left_behind for strike in strikes if strike.signals in signals)

    different = sorted({name for one in gave for name in one.different})
    return TEXT.format(
        count=len(strikes),
        starters=", ".join(f"`{starter}`" for starter in dict.fromkeys(s.starter for s in strikes)),
        compared=sum(len(one.compared) for one in gave),
        different="; ".join(different) or "no difference",
        heads=" | ".join(names.get(signals, signals) for signals in heads),
        rules=" --- |" * len(heads),
        table="\n".join(
            f"| {MOMENTS[moment].what} | {' | '.join(cell(moment, signals) for signals in heads)} |"
            for moment in MOMENTS
            if any(strike.moment == moment for strike in strikes)
        ),
        left=left("SIGTERM", "SIGHUP", "SIGINT"),
        left_by_both=left(BOTH),
        left_by_kill=left(KILL),
        noise=sum("on stderr" in wrong for strike in strikes for wrong in strike.wrong),
    )


def wrong(gave: list[Struck]) -> list[str]:
    """What was not as it must be."""
    found = [name for one in gave for name in one.different]
    for strike in (strike for one in gave for strike in one.strikes):
        found += [f"{strike.starter}, {strike.moment}, {strike.signals}: {w}" for w in strike.wrong]
    return found


def end_runs(directory: Path, pool: Executor, short: bool) -> list[Struck]:
    """All runs of the plan, in parallel."""
    planned = plan(short)
    projects = {
        starter: Project(render(directory / starter, starter))
        for starter in dict.fromkeys(starter for starter, _ in planned)
    }
    wholes = [
        pool.submit(whole, project, starter, directory / starter / "whole")
        for starter, project in projects.items()
    ]
    for future in wholes:
        future.result()
    futures = [
        pool.submit(
            campaign,
            projects[starter],
            starter,
            directory / starter / "whole",
            directory / starter / f"runs-{i}",
            strikes,
        )
        for i, (starter, strikes) in enumerate(planned)
    ]
    return [future.result() for future in futures]
