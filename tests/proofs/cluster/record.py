"""Record what each launcher sets for its tasks: python -m proofs.cluster.record, in tests/.

Writes tests/engine/environments.json. A launcher that isn't here keeps what was recorded before.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .. import ROOT
from .slurm import Slurm

FILE = ROOT / "tests/engine/environments.json"
# What says who the workers are; not users, paths, ports and names of this machine.
KEPT = re.compile(
    r"SLURM_(JOB_ID|JOB_NODELIST|JOB_NUM_NODES|NTASKS\w*|NPROCS|NNODES|NODELIST|PROCID|NODEID|LOCALID"
    r"|GTIDS|TASKS_PER_NODE|DISTRIBUTION|STEP_ID|STEP_NODELIST|STEP_NUM_\w+|STEP_TASKS_PER_NODE)"
    r"|OMPI_COMM_WORLD_\w+|OMPI_MCA_ess_base_jobid|PMIX_(NAMESPACE|RANK)|PMI_(RANK|SIZE|JOBID)"
    r"|MPI_LOCAL\w+"
)
DUMP = """
import json, os, pathlib, sys, uuid
pathlib.Path(sys.argv[1], uuid.uuid4().hex).write_text(json.dumps(dict(os.environ)))
"""
ON_LOOPBACK = ["--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"]
OPEN_MPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", *ON_LOOPBACK]
SLURM = {
    "two nodes, block": "srun --nodelist=n2,n10 -N2 -n8 --ntasks-per-node=4",
    "two nodes, cyclic": "srun --nodelist=n2,n10 -N2 -n8 --ntasks-per-node=4 -m cyclic",
    "three nodes, plane": "srun -N3 -n5 -m plane=2",
    "three nodes, unequal": "srun -N3 -n7",
    "PMI of Slurm": "srun --mpi=pmi2 --nodelist=n2,n10 -N2 -n2",
}
IN_SCRIPT = {
    "batch script without srun": "",
    "second step of a job": "srun -n1 -N1 true; srun -n3 --overlap",
    "mpirun in a job": f"{' '.join(OPEN_MPI)} -np 2",
}


def main() -> None:
    """Record all that is here."""
    recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="record-") as directory:
        (dumps := Path(directory) / "dumps").mkdir()
        script = Path(directory) / "dump.py"
        script.write_text(DUMP)
        dump = [sys.executable, str(script), str(dumps)]

        def record(name: str, command: Sequence[str], launcher: str, shown: str) -> None:
            subprocess.run(command, env=environ, cwd=directory, check=True, timeout=60)
            tasks = [json.loads(file.read_text()) for file in dumps.iterdir()]
            for file in dumps.iterdir():
                file.unlink()
            recorded[name] = {"launcher": launcher, "command": shown, **_compact(tasks)}

        with Slurm(Path(directory) / "slurm", ["n2", "n10", "m7"]) as slurm:
            environ = slurm.environ
            launcher = f"Slurm {slurm.call('sinfo', '--version').split()[-1]}"
            for name, command in SLURM.items():
                record(name, [*command.split(), *dump], launcher, command)
            for name, line in IN_SCRIPT.items():
                (Path(directory) / "job").write_text(f"#!/bin/sh\n{line} {' '.join(dump)}\n")
                nodes = ["-N1", "-n2"] if "mpirun" in name else ["-N2", "-n8", "--nodelist=n2,n10"]
                shown = f"sbatch {' '.join(nodes)}: {line}".rstrip(": ")
                record(name, ["sbatch", "--wait", *nodes, "job"], launcher, _plain(shown))
        environ = dict(os.environ)
        command = [*OPEN_MPI, "-np", "3"]
        version = subprocess.run(["mpirun.openmpi", "--version"], capture_output=True, text=True)
        number = version.stdout.splitlines()[0].split()[-1]
        record("Open MPI", [*command, *dump], f"Open MPI {number}", _plain(" ".join(command)))
        if shutil.which("mpirun.mpich"):
            command = ["mpirun.mpich", "-np", "3", "-iface", "lo"]
            version = subprocess.run(["mpirun.mpich", "--version"], capture_output=True, text=True)
            (number,) = re.findall(r"Version:\s+(\S+)", version.stdout)
            record("MPICH", [*command, *dump], f"MPICH {number}", "mpirun -np 3")
    FILE.write_text(json.dumps(dict(sorted(recorded.items())), indent=1) + "\n")


def _compact(tasks: list[dict[str, str]]) -> dict[str, object]:
    """What all tasks have in common, and what each has of its own."""
    kept = [{n: task[n] for n in sorted(task) if KEPT.fullmatch(n)} for task in tasks]
    common = {n: v for n, v in kept[0].items() if all(task.get(n) == v for task in kept)}
    own = [{n: v for n, v in task.items() if n not in common} for task in kept]
    return {"common": common, "tasks": sorted(own, key=_rank)}


def _rank(task: dict[str, str]) -> int:
    names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
    return int(next((task[name] for name in names if name in task), "0"))


def _plain(command: str) -> str:
    for part in ("--allow-run-as-root ", "--oversubscribe ", " ".join(ON_LOOPBACK) + " "):
        command = command.replace(part, "")
    return command.replace("mpirun.openmpi", "mpirun")


if __name__ == "__main__":
    main()
