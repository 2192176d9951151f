"""The rendered project that the launchers start, its processes, and what a run leaves behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from cookiecutter.main import cookiecutter

from .. import ROOT

STEPS = 200
FLAGS = [
    "--steps", str(STEPS), "--global-batch-size", "24", "--last-batch", "pad",
    "--precision", "float64", "--randomness", "global_batch", "--validate-every-steps", "50",
    "--validation-steps", "2", "--save-every-secs", "1", "--save-every-epochs", "0",
]  # fmt: skip
SECONDS = 600.0  # for anything that is waited for, longer than --wait of train.sbatch

# A pause after every ten steps until a job is restarted: a run lasts as long as an event needs.
CALLBACKS = """
import os, time

from ..engine.callbacks import every_steps

PAUSE = 0 if os.environ.get("SLURM_RESTART_COUNT") else float(os.environ["PAUSE"])


def create_callbacks(task):
    return [every_steps(10, lambda event: time.sleep(PAUSE))]
"""
# In place of `python`: worker 1 of the first start sleeps instead of training.
ABSENT = """#!/bin/sh
if [ "$SLURM_PROCID$OMPI_COMM_WORLD_RANK" = 1 ] && mkdir {directory}/was-absent 2> /dev/null; then
  exec sleep 1000
fi
exec {python} "$@"
"""


class Work:
    """A project in a directory of its own, and the environment to start it in.

    Args:
        directory: empty.
    """

    def __init__(self, directory: Path) -> None:
        answers = {"cluster": "slurm"}
        self.project = Path(
            cookiecutter(
                str(ROOT), no_input=True, output_dir=directory, extra_context=answers,
                default_config=True,
            )
        )  # fmt: skip
        (self.project / "my_experiment/task/callbacks.py").write_text(CALLBACKS)
        programs = directory / "programs"
        programs.mkdir()
        (programs / "python").write_text(ABSENT.format(directory=directory, python=sys.executable))
        (programs / "python").chmod(0o755)
        usual = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environ = {
            **os.environ,
            "PATH": usual, "PAUSE": "0", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3",
        }  # fmt: skip
        self.absent_environ = self.environ | {"PATH": f"{programs}:{usual}"}

    def run_named(self, name: str) -> Path | None:
        """The run directory of this name, once there is one."""
        return next(iter(self.project.glob(f"runs/*-{name}")), None)

    def saved(self, name: str) -> int:
        """The step of the latest checkpoint of the run of this name; 0 without one."""
        run = self.run_named(name)
        files = run.glob("checkpoints/latest/*.index") if run else ()
        return max((int(file.stem.removeprefix("ckpt-")) for file in files), default=0)


def workers(variable: str, rank: int, name: str) -> list[int]:
    """The processes of train.py that a launcher started for a run, as this rank."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            environ = (process / "environ").read_bytes().decode(errors="replace").split("\0")
            if "train.py" in command[1:2] and name in command and f"{variable}={rank}" in environ:
                found.append(int(process.name))
    return found


def send(number: signal.Signals, variable: str, rank: int, name: str) -> None:
    """Send a signal to one worker."""
    (pid,) = workers(variable, rank, name)
    os.kill(pid, number)


def until(condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> float:
    """Wait; how many seconds it took.

    Raises:
        TimeoutError: it took too long.
    """
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - began


def difference(one: Path | None, other: Path | None) -> float:
    """The largest relative difference between the last checkpoints of two runs; 0 if bit-equal."""
    if one is None or other is None:
        return float("inf")
    before, after = _numbers(one), _numbers(other)
    if set(before) != set(after):
        return float("inf")
    return max(
        float(
            np.abs(after[name] - value).max(initial=0) / max(1e-300, np.abs(value).max(initial=0))
        )
        for name, value in before.items()
    )


def said(text: str) -> list[str]:
    """The sentences of a log that say why a run ended or how it continues, each once."""
    patterns = r"error: .*|interrupted .*after step .*|resuming .*"
    lines = [line for line in text.splitlines() if re.fullmatch(patterns, line)]
    return list(dict.fromkeys(line for line in lines if "srun" not in line))


def _numbers(run: Path) -> dict[str, np.ndarray]:
    latest = max(
        (run / "checkpoints/latest").glob("*.index"),
        key=lambda file: int(file.stem.removeprefix("ckpt-")),
    )
    reader = tf.train.load_checkpoint(str(latest.with_suffix("")))
    values = {n: np.asarray(reader.get_tensor(n)) for n in reader.get_variable_to_shape_map()}
    return {n: value for n, value in values.items() if value.dtype.kind in "fiu"}
