"""What happens to two workers under a real Slurm and a real mpirun, on this machine alone."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from .. import Page
from .events import EARLIEST, Rows, mpirun_rows, slurm_rows
from .slurm import Slurm
from .slurm import missing as missing_slurm
from .work import FLAGS, SECONDS, STEPS, Work

HEAD = """\
# Two workers under Slurm and mpirun

What happens to {steps} steps of the default project on two workers. Each row is a run of its own.
An event comes after the first checkpoint from step {earliest} on; `--save-every-secs 1`. Then the
workers are started again, by the batch script or by the same `mpirun` command, and train to the
end. *Same* says whether all numbers of the last checkpoint (weights, optimizer, metrics, progress)
equal, bit for bit, those of two workers that were never stopped, or how far they are apart. All on
one machine with {cores} cores over 127.0.0.1, in float64, on CPUs; {slurm}, {mpi},
TensorFlow {tensorflow}, Keras {keras}. `nox -s cluster` makes this page.

*Lost* are steps that a checkpoint held and that were made again. Steps after the last checkpoint
are made again after a kill, and only then. *Seconds* are from the event until all workers have
ended and, under Slurm, the job waits to start again.
"""
TABLE = """
## {launcher}

```bash
{command}
```

| Event | The workers | Exit codes | Seconds | Saved, resumed | Lost | Same |
| --- | --- | --- | ---: | ---: | ---: | --- |
"""


def missing() -> str:
    """Why this can't be made here; empty if it can."""
    return missing_slurm() or (
        "" if shutil.which("mpirun") else "no mpirun here: apt-get install openmpi-bin"
    )


def make(short: bool) -> Page:
    """The tables; wrong is what was lost, differs, took long or ended otherwise.

    Raises:
        RuntimeError: Slurm or mpirun isn't there.
    """
    if reason := missing():
        raise RuntimeError(reason)
    # So that no daemon is left when this is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    text = HEAD.format(
        steps=STEPS, earliest=EARLIEST, cores=os.cpu_count(), slurm=_first("slurmctld", "-V"),
        mpi=_first("mpirun", "--version").replace("mpirun (", "").replace(")", ""),
        tensorflow=version("tensorflow"), keras=version("keras"),
    )  # fmt: skip
    wrong: list[str] = []
    # Not below TMPDIR, whose path may be too long for a socket.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="cluster-") as directory:
        (Path(directory) / "work").mkdir()
        work = Work(Path(directory) / "work")
        alone = _alone(work)
        with Slurm(Path(directory) / "slurm") as slurm:
            slurm.environ |= work.environ
            command = "sbatch cluster/train.sbatch"
            text += _table("Slurm", command, slurm_rows(slurm, work, alone, short), wrong)
            whole = work.run_named("job-1")
        assert whole is not None
        command = "mpirun -np 2 --bind-to none --mca odls_base_sigkill_timeout 15 python train.py"
        text += _table("mpirun", command, mpirun_rows(work, whole, alone, short), wrong)
    return Page(text, wrong)


def _alone(work: Work) -> Path:
    subprocess.run(
        ["python", "train.py", *FLAGS, "--name", "alone"],
        cwd=work.project, env={**os.environ, **work.environ}, check=True, timeout=SECONDS,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (run,) = work.project.glob("runs/*-alone")
    return run


def _table(launcher: str, command: str, rows: Rows, wrong: list[str]) -> str:
    text = TABLE.format(launcher=launcher, command=command)
    for event, measure in rows:
        try:
            row = measure()
        except (TimeoutError, subprocess.SubprocessError) as error:  # the other rows all the same
            print(f"{event}: {error}", flush=True)
            wrong.append(f"{launcher}, {event}: {error}")
            continue
        said = "<br>".join(_readable(sentence) for sentence in row.said)
        seconds = "" if row.seconds is None else f"{row.seconds:.0f}"
        steps = f"{row.saved}, {row.resumed}" if row.resumed is not None else ""
        lost = "" if row.resumed is None or row.saved is None else str(row.saved - row.resumed)
        same = (
            "" if row.difference is None else f"{row.difference:.0e}" if row.difference else "yes"
        )
        line = f"| {row.event} | {said} | {row.codes} | {seconds} | {steps} | {lost} | {same} |\n"
        print(line, end="", flush=True)
        text += line
        wrong += [f"{launcher}, {reason}" for reason in row.wrong]
    return text


def _readable(sentence: str) -> str:
    """Without what differs from run to run."""
    sentence = re.sub(r"runs/\d\S*", "RUN", sentence)
    return re.sub(r" \((\S+):\d+\)", "", sentence)


def _first(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0].strip()
