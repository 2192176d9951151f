"""A rendered project whose runs are started, killed, resumed and compared."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import ROOT

EXAMPLES = {"train": 288, "validation": 72, "test": 48}  # six steps an epoch
TINY = ["--epochs", "4", "--global-batch-size", "48", "--save-every-steps", "1"]
STEPS = 24
TIMES = {"examples_per_second", "waiting_for_data"}  # the columns that measure time
TEXT = "text/.ATTRIBUTES/VARIABLE_VALUE"  # the loop's state in a checkpoint
PATIENCE = 300  # seconds until a process counts as hung

# Lines of TensorFlow's own log, which no Python code can hold back.
LOG = re.compile(r"^([IWE]\d{4} |\t|To enable the following|WARNING: All log messages)")


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    out: str
    err: str

    @property
    def own_lines(self) -> list[str]:
        """The lines of stderr that the project wrote."""
        return [line for line in self.err.splitlines() if line and not LOG.match(line)]


def render(directory: Path, starter: str = "image_classification") -> Path:
    """A project as package `proof`, with a fraction of its digits."""
    from cookiecutter.main import cookiecutter

    answers = {"project_name": "Proof", "package_name": "proof", "project_slug": "proof"}
    answers["starter"] = starter
    project = Path(
        cookiecutter(
            str(ROOT),
            no_input=True,
            output_dir=directory,
            extra_context=answers,
            default_config=True,
        )
    )
    digits = project / "proof" / "task" / "digits.npz"
    if digits.exists():
        with np.load(digits) as file:
            some = {name: file[name][: EXAMPLES[name.split("_")[0]]] for name in file.files}
        np.savez(digits, **some)
    for script in ("variants.py", "strike.py"):
        shutil.copy(Path(__file__).with_name(script), project)
    return project


class Project:
    """The rendered project, used by its commands."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(
        self,
        *flags: object,
        variant: str = "",
        file_size: int = 0,
        check: bool = False,
        strike: tuple[str, int, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a run, or `check`; of a variant, by variants.py; or struck, by strike.py."""
        script = ["variants.py", *(["check"] if check else [])] if variant else ["train.py"]
        environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
        environment |= {"VARIANT": variant, "TF_NUM_INTRAOP_THREADS": "1"}
        if strike:
            script = ["strike.py"]
            names = ("MOMENT", "CALL", "SIGNALS")
            environment |= dict(zip(names, map(str, strike), strict=True))

        def prepare() -> None:
            # A shell ignores SIGINT in what it starts in the background, nohup ignores SIGHUP, and
            # both are inherited.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            if file_size:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

        return subprocess.Popen(
            [sys.executable, *script, *map(str, flags)],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=prepare,
        )

    def run(self, *flags: object, **options: object) -> Ended:
        """Run to the end."""
        return end(self.start(*flags, **options))  # type: ignore[arg-type]


def end(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        err += "\nhung"
    return Ended(process.returncode, out, err)


def wait(process: subprocess.Popen[str], condition: Callable[[], object]) -> bool:
    """Whether `condition` came true before the process ended."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.0005)
    return False


def newest(runs: Path) -> Path | None:
    """The run directory that was made last."""
    return max(runs.glob("*-train*"), default=None)


def steps_saved(run: Path | None) -> set[int]:
    """The steps of the checkpoints in a run directory."""
    found = run.glob("checkpoints/latest/*.index") if run else []
    return {int(index.stem.rpartition("-")[2]) for index in found}


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {str(f): f.read_bytes() for f in sorted(directory.rglob("*")) if f.is_file()}


def what_is_left(run: Path) -> dict[str, object]:
    """All that a finished run must have in common with one that was never stopped."""
    import tensorflow as tf

    results = json.loads((run / "results.json").read_text())
    reader = tf.train.load_checkpoint(str(run / f"checkpoints/latest/ckpt-{results['steps']}"))
    names = set(reader.get_variable_to_shape_map()) - {"_CHECKPOINTABLE_OBJECT_GRAPH", TEXT}
    text = json.loads(reader.get_tensor(TEXT))
    del results["seconds"], text["loop"]["seconds"], text["loop"]["parts"]
    left = {
        **{name: np.asarray(reader.get_tensor(name)).tobytes() for name in names},
        "text in the checkpoint": text,
        "history.csv": rows(run / "history.csv"),
        "results.json": results,
    }
    if re.search("^log_every_steps: 0$", (run / "config.yaml").read_text(), re.MULTILINE):
        del text["loop"]["log"]  # log points depend on the clock
    else:
        left["steps.csv"] = rows(run / "steps.csv")
    return left


def rows(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file as they are written, without what measures time."""
    with file.open(newline="", encoding="utf-8") as lines:
        return [
            {name: text for name, text in row.items() if name not in TIMES}
            for row in csv.DictReader(lines)
        ]


def readable(run: Path) -> tuple[int, int]:
    """How many checkpoints can be read as a whole, and how many can't."""
    import tensorflow as tf

    good = bad = 0
    for step in steps_saved(run):
        try:
            reader = tf.train.load_checkpoint(str(run / f"checkpoints/latest/ckpt-{step}"))
            for name in reader.get_variable_to_shape_map():
                reader.get_tensor(name)
            good += 1
        except Exception:
            bad += 1
    return good, bad


class Kill(NamedTuple):
    """How one process was killed."""

    moment: str
    good: int  # checkpoints that can be read afterwards
    bad: int


def kill(
    project: Project, runs: Path, flags: list[object], variant: str, dice: random.Random
) -> Kill | None:
    """Start or resume a run and kill it at a random moment; None if it ended before."""
    process = project.start("--resume", "auto", "--runs", runs, *flags, variant=variant)
    moment = dice.choices(
        ["while saving", "while saving the best", "between saves", "at any time"], [5, 1, 3, 1]
    )[0]
    wanted = max(steps_saved(newest(runs)), default=0) + dice.randint(1, 6)

    def far_enough() -> bool:
        return max(steps_saved(newest(runs)), default=0) >= min(wanted, STEPS)

    def is_saving(part: str) -> bool:
        run = newest(runs)
        return bool(run and far_enough() and (run / "checkpoints" / part / "unfinished").exists())

    if moment == "at any time":
        time.sleep(dice.uniform(0, 8))
        alive = process.poll() is None
    elif moment == "between saves":
        alive = wait(process, far_enough)
        time.sleep(dice.uniform(0, 0.3))
    else:
        alive = wait(process, lambda: is_saving("best" if "best" in moment else "latest"))
        time.sleep(dice.uniform(0, 0.006))
    process.kill()
    ended = end(process)
    if not alive or ended.code != -signal.SIGKILL:
        if ended.code not in (0, -signal.SIGKILL):
            raise RuntimeError(f"a resumed run failed: {ended.err[-3000:]}")
        return None
    run = newest(runs)
    return Kill(moment, *(readable(run) if run else (0, 0)))


class Killed(NamedTuple):
    """What killing one configuration gave."""

    kills: list[Kill]
    different: list[str]  # what differs from the run that was never stopped


def campaign(
    project: Project, directory: Path, flags: list[object], variant: str, kills: int, seed: int
) -> Killed:
    """Kill a run of one configuration again and again, let it finish, and compare."""
    dice = random.Random(seed)
    flags = [*TINY, *flags]
    whole, runs = directory / "whole", directory / "killed"
    ended = project.run("--runs", whole, *flags, variant=variant)
    if ended.code:
        raise RuntimeError(f"the run that is never stopped failed: {ended.err[-3000:]}")
    done: list[Kill] = []
    different: list[str] = []
    while len(done) < kills:
        if killed := kill(project, runs, flags, variant, dice):
            done.append(killed)
        if (last := newest(runs)) and (last / "results.json").exists():
            different += compare(whole, last)
            shutil.rmtree(runs)  # it came to its end: the next kill starts another
    if runs.exists():
        ended = project.run("--resume", "auto", "--runs", runs, *flags, variant=variant)
        last = newest(runs)
        assert last is not None
        if ended.code:
            raise RuntimeError(f"the last run failed: {ended.err[-3000:]}")
        different += compare(whole, last)
    shutil.rmtree(directory)
    return Killed(done, different)


def compare(whole: Path, run: Path) -> list[str]:
    """The names of what differs between a run never stopped and one that was."""
    reference = newest(whole)
    assert reference is not None
    expected, found = what_is_left(reference), what_is_left(run)
    return [name for name in {**expected, **found} if expected.get(name) != found.get(name)]


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """A file system in memory; PermissionError where nothing may be mounted."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise PermissionError("mounting a file system takes the rights of root")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=False)
