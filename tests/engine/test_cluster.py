"""Who the workers are, from the environment that each launcher makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from proof.engine import cluster
from proof.engine.errors import UsageError

from . import ROOT, project

pytestmark = pytest.mark.quick
RECORDED = json.loads(Path(__file__).with_name("environments.json").read_text())
STEPS = [name for name in RECORDED if "SLURM_STEP_NUM_TASKS" in RECORDED[name]["common"]]
STEPS.remove("mpirun in a job")  # the step is that of its daemons


def workers(environ: dict[str, str]) -> tuple[list[str], int]:
    """The addresses and the index in what `tf_config` makes."""
    config = cluster.tf_config(environ)
    assert config is not None
    assert set(config["cluster"]) == {"worker"}
    assert config["task"]["type"] == "worker"
    return config["cluster"]["worker"], config["task"]["index"]


def recorded(name: str) -> list[dict[str, str]]:
    """What a launcher has set for each of its tasks; proofs/cluster/record.py recorded it."""
    return [RECORDED[name]["common"] | task for task in RECORDED[name]["tasks"]]


OPEN_MPI = recorded("Open MPI")


def of_tf_config(cluster: dict[str, Any], kind: str, index: int) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def test_no_launcher_is_a_single_process() -> None:
    assert cluster.tf_config({"PATH": "/bin", "HOME": "/root"}) is None


def test_tf_config_is_taken_as_it_is() -> None:
    environ = of_tf_config({"worker": ["a:1", "b:2"]}, "worker", 1)
    assert workers(environ) == (["a:1", "b:2"], 1)


def test_an_ipv6_host_is_in_brackets() -> None:
    addresses = ["[::1]:1", "[fe80::1%eth0]:65535"]
    assert workers(of_tf_config({"worker": addresses}, "worker", 0)) == (addresses, 0)


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
        (of_tf_config({"worker": ["a:1"]}, "worker", 1), "worker 1 by TF_CONFIG, .* only 1: a:1"),
        (of_tf_config({}, "worker", 1), "worker 1 by TF_CONFIG, which names only 0: none"),
        *[
            (of_tf_config({"worker": ["a:1", address]}, "worker", 0), "worker 1 is at .*host:port")
            for address in (
                "",
                "b",
                "b:",
                ":2",
                "b:x",
                "b:0",
                "b:99999",
                "b:-1",
                "b:2 ",
                "::1:2",
                "a..b:2",
            )
        ],
        (of_tf_config({"worker": ["a", "b:2"]}, "worker", 1), "TF_CONFIG worker 0 is at 'a'; an"),
        (
            of_tf_config({"chief": ["a:1"], "worker": ["a:1"]}, "chief", 0),
            "0 and 1 are both at a:1",
        ),
        ({"JOB_COMPLETION_INDEX": "0", "WORKER_HOSTS": "a:x,b"}, "the indexed Job worker 0 is at"),
        (
            OPEN_MPI[0] | {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
            "Open MPI started 3 workers, 2 of them on this host",
        ),
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
    environ = of_tf_config({"worker": ["a:1", "b:2"]}, "worker", 0) | OPEN_MPI[1]
    assert workers(environ)[1] == 0


@pytest.mark.parametrize("name", STEPS)
def test_every_task_of_a_step_of_slurm_finds_its_place(name: str) -> None:
    tasks = recorded(name)
    found = [workers(task) for task in tasks]
    (addresses,) = {tuple(addresses) for addresses, _ in found}
    assert (
        sorted(index for _, index in found)
        == list(range(len(tasks)))
        == list(range(len(addresses)))
    )
    assert len({address.partition(":")[2] for address in addresses}) == len(tasks)
    nodes = cluster.hosts(tasks[0]["SLURM_STEP_NODELIST"])
    for task, (_, index) in zip(tasks, found, strict=True):
        assert addresses[index].partition(":")[0] == nodes[int(task["SLURM_NODEID"])]


@pytest.mark.parametrize(
    ("name", "of_tasks", "of_nodes"),
    [
        ("two nodes, block", list(range(8)), ["n2"] * 4 + ["n10"] * 4),
        ("two nodes, cyclic", [0, 4, 1, 5, 2, 6, 3, 7], ["n2"] * 4 + ["n10"] * 4),
        ("three nodes, plane", [0, 1, 3, 4, 2], ["m7"] * 3 + ["n2", "n10"]),
    ],
)
def test_workers_count_node_by_node(name: str, of_tasks: list[int], of_nodes: list[str]) -> None:
    # In the order of SLURM_PROCID, which doesn't.
    found = [workers(task) for task in recorded(name)]
    assert [index for _, index in found] == of_tasks
    assert [address.partition(":")[0] for address in found[0][0]] == of_nodes


def test_a_batch_script_without_srun_is_a_single_process() -> None:
    (task,) = recorded("batch script without srun")
    assert (task["SLURM_PROCID"], task["SLURM_NTASKS"]) == ("0", "8")  # as of the first of eight
    assert cluster.tf_config(task) is None
    of_one = {"SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1"}
    assert cluster.tf_config(recorded("two nodes, block")[0] | of_one) is None


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
    of_many = {"SLURM_STEP_NODELIST": "n1", "SLURM_STEP_TASKS_PER_NODE": "32", "SLURM_NODEID": "0"}
    jobs = [("4711", "0"), ("4711", "1"), ("4712", "0")]
    task = recorded("two nodes, block")[0] | of_many | {"SLURM_STEP_NUM_TASKS": "32"}
    ports = [
        {address.partition(":")[2] for address in workers(task
         | {"SLURM_JOB_ID": job, "SLURM_STEP_ID": step})[0]}
        for job, step in jobs
    ]  # fmt: skip
    assert len(set.union(*ports)) == 3 * 32
    assert all(1024 < int(port) < 32768 for port in set.union(*ports))


@pytest.mark.parametrize("name", ["Open MPI", "MPICH", "mpirun in a job"])
def test_mpirun_on_one_host(name: str) -> None:
    # In a job of Slurm, its processes inherit the variables of the step of its daemons.
    tasks = recorded(name)
    found = [workers(task) for task in tasks]
    assert [index for _, index in found] == list(range(len(tasks)))
    (addresses,) = {tuple(addresses) for addresses, _ in found}
    assert len(set(addresses)) == len(tasks)
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_runs_of_open_mpi_side_by_side_have_ports_of_their_own() -> None:
    other = {"PMIX_NAMESPACE": str(int(OPEN_MPI[0]["PMIX_NAMESPACE"]) + 1)}
    assert set(workers(OPEN_MPI[0])[0]).isdisjoint(workers(OPEN_MPI[0] | other)[0])


def test_the_pmi_of_slurm_is_not_that_of_mpich() -> None:
    tasks = recorded("PMI of Slurm")
    assert {"PMI_RANK", "PMI_SIZE"} < set(tasks[1])
    assert workers(tasks[1])[0][1].startswith("n10:")


def test_an_indexed_job_is_told_the_names_by_its_manifest() -> None:
    environ = {"JOB_COMPLETION_INDEX": "2", "WORKER_HOSTS": "train-workers-0-[0-3].train"}
    addresses, index = workers(environ)
    assert addresses == [f"train-workers-0-{i}.train:12345" for i in range(4)]
    assert index == 2
    assert workers(environ | {"WORKER_HOSTS": "a:1,b:2,c:3"})[0] == ["a:1", "b:2", "c:3"]
    assert cluster.tf_config({"JOB_COMPLETION_INDEX": "2"}) is None  # such as one of a sweep


def test_the_manifest_names_its_workers() -> None:
    (jobset,) = (ROOT / "{{cookiecutter.project_slug}}").glob("launchers/*/jobset.yaml")
    (names,) = re.findall(r"WORKER_HOSTS .*\n +value: (.*)", jobset.read_text())
    (number,) = re.findall(r"completions: (\d+)", jobset.read_text())
    environ = {"JOB_COMPLETION_INDEX": "0", "WORKER_HOSTS": names}
    pods = [f"train-workers-0-{index}.train:12345" for index in range(int(number))]
    assert workers(environ) == (pods, 0)


def test_what_was_found_is_settled_once() -> None:
    environ = dict(OPEN_MPI[1])
    cluster.settle(environ, several=True)
    assert workers({"TF_CONFIG": environ["TF_CONFIG"]})[1] == 1
    cluster.settle(environ, several=False)
    assert "TF_CONFIG" not in environ
