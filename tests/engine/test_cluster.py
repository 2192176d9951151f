"""Who the workers are, from the environment that each launcher makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proof.engine import cluster
from proof.engine.errors import UsageError

from . import project

pytestmark = pytest.mark.quick


def workers(environ: dict[str, str]) -> tuple[list[str], int]:
    """The addresses and the index in what `tf_config` makes."""
    config = cluster.tf_config(environ)
    assert config is not None
    assert set(config["cluster"]) == {"worker"}
    assert config["task"]["type"] == "worker"
    return config["cluster"]["worker"], config["task"]["index"]


def slurm(
    node: int, local: int, nodes: str, tasks: str, number: int, **more: str
) -> dict[str, str]:
    """What srun sets for a task."""
    return {
        "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_NTASKS": str(number),
        "SLURM_STEP_NUM_TASKS": str(number), "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": str(node), "SLURM_LOCALID": str(local),
        "SLURM_PROCID": "0", **more,
    }  # fmt: skip


def open_mpi(rank: int, size: int, local_size: int, job: str = "2885746689") -> dict[str, str]:
    """What mpirun of Open MPI 4 sets."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size), "OMPI_COMM_WORLD_LOCAL_RANK": str(rank),
        "PMIX_NAMESPACE": job, "PMIX_RANK": str(rank),
    }  # fmt: skip


def of_tf_config(cluster: dict[str, Any], kind: str, index: int) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def test_no_launcher_is_a_single_process() -> None:
    assert cluster.tf_config({"PATH": "/bin", "HOME": "/root"}) is None


def test_tf_config_is_taken_as_it_is() -> None:
    environ = of_tf_config({"worker": ["a:1", "b:2"]}, "worker", 1)
    assert workers(environ) == (["a:1", "b:2"], 1)


def test_a_chief_and_the_first_worker_both_have_index_0() -> None:
    both = {"chief": ["a:1"], "worker": ["b:2", "c:3"]}
    assert workers(of_tf_config(both, "chief", 0)) == (["a:1", "b:2", "c:3"], 0)
    assert workers(of_tf_config(both, "worker", 0)) == (["a:1", "b:2", "c:3"], 1)
    assert workers(of_tf_config(both, "worker", 1)) == (["a:1", "b:2", "c:3"], 2)


def test_tf_config_of_one_worker_is_a_single_process() -> None:
    assert cluster.tf_config(of_tf_config({"worker": ["a:1"]}, "worker", 0)) is None
    assert cluster.tf_config(of_tf_config({"chief": ["a:1"]}, "chief", 0)) is None


@pytest.mark.parametrize(
    ("environ", "part"),
    [
        ({"TF_CONFIG": "{"}, "TF_CONFIG can't be read"),
        ({"TF_CONFIG": "[1]"}, "TF_CONFIG can't be read"),
        (of_tf_config({"worker": ["a:1", "b:2"]}, "ps", 0), "'ps': parameter servers aren't"),
        (of_tf_config({"worker": ["a:1", "b:2"], "ps": ["c:3"]}, "worker", 0), "multi_worker"),
        (of_tf_config({"chief": ["a:1"], "worker": ["b:2"]}, "evaluator", 0), "'evaluator'"),
        (of_tf_config({"worker": ["a:1", "b:2"]}, "worker", 2), "worker 2 .* only 2: a:1, b:2"),
        (open_mpi(0, 4, 2), "Open MPI started 4 workers, 2 of them on this host"),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "what Open MPI sets .*OMPI_COMM_WORLD_SIZE"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(environ: dict[str, str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        cluster.tf_config(environ)


def test_it_is_said_before_tensorflow_is_imported(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    servers = of_tf_config({"worker": ["a:1"], "ps": ["b:2"]}, "ps", 0)
    for flags, environ in (([], servers), (["--strategy", "parameter_server"], {})):
        done = subprocess.run(
            [sys.executable, "train.py", *flags],
            cwd=project, env={**os.environ, "PYTHONPATH": str(tmp_path)} | environ,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert "parameter servers aren't offered" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_strategy_without_workers_does_not_ask_the_launcher() -> None:
    cluster.settle({"TF_CONFIG": "{"}, several=False)
    with pytest.raises(UsageError, match="can't be read"):
        cluster.settle({"TF_CONFIG": "{"}, several=True)


def test_tf_config_wins_over_a_launcher() -> None:
    environ = of_tf_config({"worker": ["a:1", "b:2"]}, "worker", 0) | open_mpi(1, 3, 3)
    assert workers(environ)[1] == 0


def test_slurm_with_four_tasks_on_each_of_two_nodes() -> None:
    everyone = [slurm(node, local, "n[1-2]", "4(x2)", 8) for node in (0, 1) for local in range(4)]
    (addresses,) = {tuple(workers(environ)[0]) for environ in everyone}
    assert [workers(environ)[1] for environ in everyone] == list(range(8))
    assert [address.partition(":")[0] for address in addresses] == ["n1"] * 4 + ["n2"] * 4
    assert len({address.partition(":")[2] for address in addresses}) == 8


def test_cyclic_placement_still_counts_node_by_node() -> None:
    # With `-m cyclic` task 1 is the first of the second node: SLURM_PROCID doesn't tell the place.
    places = [(0, 0), (1, 0), (0, 1), (1, 1)]
    found = [
        workers(slurm(node, local, "n[1-2]", "2(x2)", 4, SLURM_PROCID=str(rank)))
        for rank, (node, local) in enumerate(places)
    ]
    assert [index for _, index in found] == [0, 2, 1, 3]
    for (node, _), (addresses, index) in zip(places, found, strict=True):
        assert addresses[index].startswith(f"n{node + 1}:")


def test_unequal_nodes() -> None:
    addresses, index = workers(slurm(2, 0, "n[1-2],m7", "2(x2),1", 5))
    assert [address.partition(":")[0] for address in addresses] == ["n1", "n1", "n2", "n2", "m7"]
    assert index == 4


def test_a_batch_script_without_srun_is_a_single_process() -> None:
    environ = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_NODEID": "0",
               "SLURM_LOCALID": "0", "SLURM_JOB_NODELIST": "n[1-2]"}  # fmt: skip
    assert cluster.tf_config(environ) is None
    assert cluster.tf_config(slurm(0, 0, "n1", "1", 1)) is None


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("n1", ["n1"]),
        ("n[2,10]", ["n2", "n10"]),  # not sorted as texts
        ("n[01-03,7],m", ["n01", "n02", "n03", "n7", "m"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("r[1-2]n[3,5]-ib", ["r1n3-ib", "r1n5-ib", "r2n3-ib", "r2n5-ib"]),
        ("127.0.0.[1-2]", ["127.0.0.1", "127.0.0.2"]),
    ],
)
def test_names_come_in_the_order_of_slurm(expression: str, names: list[str]) -> None:
    assert cluster.hosts(expression) == names


def test_steps_and_jobs_side_by_side_have_ports_of_their_own() -> None:
    jobs = [("4711", "0"), ("4711", "1"), ("4712", "0")]
    ports = [
        {address.partition(":")[2] for address in workers(slurm(0, 0, "n1", "32", 32)
         | {"SLURM_JOB_ID": job, "SLURM_STEP_ID": step})[0]}
        for job, step in jobs
    ]  # fmt: skip
    assert len(set.union(*ports)) == 3 * 32
    assert all(1024 < int(port) < 32768 for port in set.union(*ports))


def test_open_mpi_on_one_host() -> None:
    found = [workers(open_mpi(rank, 3, 3)) for rank in range(3)]
    assert [index for _, index in found] == [0, 1, 2]
    (addresses,) = {tuple(addresses) for addresses, _ in found}
    assert len(set(addresses)) == 3
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert set(workers(open_mpi(0, 3, 3, job="2885746690"))[0]).isdisjoint(addresses)


def test_mpirun_inside_a_job_of_slurm_is_asked_first() -> None:
    # Its daemons are tasks of srun, and their children inherit the variables of that step.
    assert workers(slurm(0, 0, "n1", "2", 2) | open_mpi(1, 3, 3))[1] == 1


def test_mpich_on_one_host() -> None:
    environ = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "MPI_LOCALRANKID": "1"}
    addresses, index = workers(environ)
    assert (len(addresses), index) == (2, 1)
    # srun has a PMI of its own.
    of_slurm = slurm(1, 0, "n[1-2]", "1(x2)", 2, PMI_RANK="1", PMI_SIZE="2")
    assert workers(of_slurm)[0][1].startswith("n2:")


def test_an_indexed_job_is_told_the_names_by_its_manifest() -> None:
    environ = {"JOB_COMPLETION_INDEX": "2", "WORKER_HOSTS": "train-workers-0-[0-3].train"}
    addresses, index = workers(environ)
    assert addresses == [f"train-workers-0-{i}.train:12345" for i in range(4)]
    assert index == 2
    assert workers(environ | {"WORKER_HOSTS": "a:1,b:2,c:3"})[0] == ["a:1", "b:2", "c:3"]
    assert cluster.tf_config({"JOB_COMPLETION_INDEX": "2"}) is None  # such as one of a sweep


def test_what_was_found_is_settled_once() -> None:
    environ = open_mpi(1, 2, 2)
    cluster.settle(environ, several=True)
    assert workers({"TF_CONFIG": environ["TF_CONFIG"]})[1] == 1
    cluster.settle(environ, several=False)
    assert "TF_CONFIG" not in environ
