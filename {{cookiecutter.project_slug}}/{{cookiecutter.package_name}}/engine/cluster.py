"""The workers of a run, and which of them this process is: from what the launcher says.

Imports no TensorFlow.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping, MutableMapping
from itertools import islice
from typing import Any

from .errors import UsageError

PORT = 12345  # in a pod, which has a network of its own
# Below those that Linux gives to outgoing connections, 32768 to 60999.
FIRST_PORT, PORTS = 12000, 20000
LAST_PORT = 2**16 - 1
# "host:port"; any other host, such as "a..b", can't be looked up, and Python raises a UnicodeError.
HOST = r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?"
ADDRESS = re.compile(rf"(?:{HOST}|\[[0-9A-Fa-f:.]+(?:%\w+)?\])" + r":([0-9]{1,5})")
BRACKETS = re.compile(r"(.*?)\[([^\]]*)\](.*)")
MOST = 2**16  # workers, so that a wrong number can't fill the memory
REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?")  # "4(x2)": 4 tasks on each of two nodes
# Measured in docs/scaling.md of the template.
NO_PARAMETER_SERVERS = (
    "parameter servers aren't offered, because workers that don't wait for each other lose updates "
    "and can't resume exactly; start a chief and workers only, which --strategy multi_worker "
    "trains together (docs/scaling.md of the template)."
)


def tf_config(environ: Mapping[str, str]) -> dict[str, Any] | None:
    """What TensorFlow wants in TF_CONFIG, with a job "worker" only; None for a single process.

    From TF_CONFIG itself (Vertex AI, SageMaker, by hand), or what `mpirun` of Open MPI or MPICH,
    Slurm's `srun` or an indexed Job of Kubernetes sets. `mpirun` is asked before Slurm, since it
    starts its own daemons by `srun`, and its processes inherit their variables.

    Raises:
        UsageError: TF_CONFIG isn't one, or the launcher doesn't say where the workers are, each
            at an address of its own.
    """
    for launcher in (_from_tf_config, _open_mpi, _mpich, _slurm, _indexed_job):
        try:
            found = launcher(environ)
        except (KeyError, ValueError, OverflowError) as error:
            raise UsageError(
                f"The workers can't be told from what {launcher_name(environ)} sets ({error!r}); "
                "set TF_CONFIG for each."
            ) from error
        if found is not None:
            addresses, index = found
            if not 0 <= index < max(1, len(addresses)):  # alone, each would train by itself
                raise UsageError(
                    f"This process is worker {index} by {launcher_name(environ)}, which names only "
                    f"{len(addresses)}: {', '.join(addresses) or 'none'}."
                )
            if len(addresses) < 2:
                return None
            _validate_addresses(addresses, launcher_name(environ))
            task = {"type": "worker", "index": index}
            return {"cluster": {"worker": addresses}, "task": task}
    return None


def launcher_name(environ: Mapping[str, str]) -> str:
    """What `tf_config` took the workers from, for a sentence."""
    named = [
        ("TF_CONFIG", "TF_CONFIG"), ("OMPI_COMM_WORLD_RANK", "Open MPI"),
        ("MPI_LOCALNRANKS", "MPICH"), ("SLURM_STEP_NUM_TASKS", "Slurm"),
        ("JOB_COMPLETION_INDEX", "the indexed Job"),
    ]  # fmt: skip
    return next((name for variable, name in named if environ.get(variable)), "nothing")


def settle(environ: MutableMapping[str, str], *, several: bool) -> None:
    """Make TF_CONFIG the only place that says who the workers are; removed without several."""
    config = tf_config(environ) if several else None
    environ.pop("TF_CONFIG", None)
    if config:
        environ["TF_CONFIG"] = json.dumps(config)


def addresses() -> list[str]:
    """Of all workers, "host:port", the chief's first; to be called after `settle`."""
    return _task()[0]


def num_workers() -> int:
    """How many processes train together; 1 without TF_CONFIG."""
    return max(1, len(_task()[0]))


def worker_index() -> int:
    """The index of this process among the workers, 0 for the chief."""
    return _task()[1]


def hosts(expression: str) -> list[str]:
    """Slurm's short form of names, in its order: "n[01-03,7],m" -> n01, n02, n03, n7, m."""
    names: list[str] = []
    # At commas outside of brackets.
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", expression):
        names += islice(_expanded(part.strip()), MOST + 1)
        _validate_number(len(names))
    return names


def _task() -> tuple[list[str], int]:
    return _from_tf_config(os.environ) or ([], 0)


def _from_tf_config(environ: Mapping[str, str]) -> tuple[list[str], int] | None:
    if not environ.get("TF_CONFIG"):
        return None
    try:
        config = json.loads(environ["TF_CONFIG"])
        cluster, task = config.get("cluster") or {}, config.get("task") or {}
        chiefs, workers = list(cluster.get("chief", [])), list(cluster.get("worker", []))
        kind, index = task.get("type", "worker"), int(task.get("index", 0))
        jobs = {kind, *(job for job, names in cluster.items() if names)} - {"chief", "worker"}
        if not all(isinstance(name, str) for name in (kind, *chiefs, *workers)):
            raise ValueError("an address isn't a text")
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UsageError(
            f"TF_CONFIG can't be read ({error}); it must be JSON such as "
            '{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}.'
        ) from error
    if "ps" in jobs:
        raise UsageError(f"TF_CONFIG has a job 'ps': {NO_PARAMETER_SERVERS}")
    if jobs:
        raise UsageError(
            f"TF_CONFIG has a job {min(jobs)!r}; only a chief and workers train here, and evaluate "
            "together, so start no other."
        )
    # With a chief, both it and the first worker have index 0: the type decides.
    return [*chiefs, *workers], index if kind == "chief" else len(chiefs) + index


def _open_mpi(environ: Mapping[str, str]) -> tuple[list[str], int] | None:
    if not environ.get("OMPI_COMM_WORLD_RANK"):
        return None
    names = (f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_SIZE"))
    return _on_one_host(environ, "Open MPI", *(int(environ[name]) for name in names))


def _mpich(environ: Mapping[str, str]) -> tuple[list[str], int] | None:
    # Slurm's own PMI sets PMI_RANK too, but not the number of ranks on this host.
    if not (environ.get("PMI_RANK") and environ.get("MPI_LOCALNRANKS")):
        return None
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS")
    return _on_one_host(environ, "MPICH", *(int(environ[name]) for name in names))


def _on_one_host(
    environ: Mapping[str, str], launcher: str, rank: int, size: int, local_size: int
) -> tuple[list[str], int]:
    """Workers on this host: MPI tells no process where the others are."""
    _validate_number(size)
    if local_size != size:
        raise UsageError(
            f"{launcher} started {size} workers, {local_size} of them on this host, and doesn't "
            "say where the others are: use srun, or set TF_CONFIG for each."
        )
    shared = ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PMI_KVS")
    job = next((environ[name] for name in shared if environ.get(name)), "")
    return _with_ports(["127.0.0.1"] * size, zlib.crc32(job.encode())), rank


def _slurm(environ: Mapping[str, str]) -> tuple[list[str], int] | None:
    # Of a step: in a batch script that doesn't call srun, SLURM_NTASKS is set, and one task runs.
    if not environ.get("SLURM_STEP_NUM_TASKS"):
        return None
    if int(environ["SLURM_STEP_NUM_TASKS"]) == 1:
        return [], 0
    nodes = hosts(environ["SLURM_STEP_NODELIST"])
    tasks = [
        int(number)
        for number, repeated in REPEATED.findall(environ["SLURM_STEP_TASKS_PER_NODE"])
        for _ in range(_validate_number(int(repeated or 1)))
    ]
    _validate_number(sum(tasks))
    # Not SLURM_PROCID: with `--distribution cyclic` it doesn't count node by node.
    index = sum(tasks[: int(environ["SLURM_NODEID"])]) + int(environ["SLURM_LOCALID"])
    names = [node for node, number in zip(nodes, tasks, strict=True) for _ in range(number)]
    job = int(environ.get("SLURM_JOB_ID", 0)) + 101 * int(environ.get("SLURM_STEP_ID", 0))
    return _with_ports(names, job), index


def _indexed_job(environ: Mapping[str, str]) -> tuple[list[str], int] | None:
    # Kubernetes gives the index; the manifest must say where the workers are.
    if not (environ.get("JOB_COMPLETION_INDEX") and environ.get("WORKER_HOSTS")):
        return None
    names = [name if ":" in name else f"{name}:{PORT}" for name in hosts(environ["WORKER_HOSTS"])]
    return names, int(environ["JOB_COMPLETION_INDEX"])


def _with_ports(names: list[str], job: int) -> list[str]:
    """A port for each worker, since several may be on one host; jobs close together differ."""
    first = job * 64 % PORTS
    return [f"{name}:{FIRST_PORT + (first + i) % PORTS}" for i, name in enumerate(names)]


def _validate_number(workers: int) -> int:
    if not 0 < workers <= MOST:
        raise ValueError(f"{workers} workers")
    return workers


def _validate_addresses(addresses: list[str], launcher: str) -> None:
    first: dict[str, int] = {}  # worker by address
    for worker, address in enumerate(addresses):
        match = ADDRESS.fullmatch(address)
        if not (match and 1 <= int(match[1]) <= LAST_PORT):
            raise UsageError(
                f"By {launcher} worker {worker} is at {address!r}; an address is host:port, such "
                f"as 10.0.0.1:{PORT} or [fd00::1]:{PORT}, with a port from 1 to {LAST_PORT}."
            )
        if first.setdefault(address, worker) != worker:
            raise UsageError(
                f"By {launcher} workers {first[address]} and {worker} are both at {address}; give "
                "each worker a port or a host of its own."
            )


def _expanded(name: str) -> Iterator[str]:
    match = BRACKETS.fullmatch(name)
    if not match:
        yield name
        return
    before, ranges, after = match.groups()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            for rest in _expanded(after):
                yield f"{before}{number:0{len(first)}}{rest}"
