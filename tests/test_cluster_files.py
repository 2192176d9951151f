"""The files of cluster/: what Slurm's batch script decides, and manifests that match schemas.

Nothing here starts Slurm or Kubernetes; `nox -s cluster` runs the batch script under a real Slurm.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from conftest import ROOT, TEMPLATE, Render, run
from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

KUBERNETES = ("1.30", "1.37")
needs_bash = pytest.mark.skipif(os.name == "nt", reason="no bash on Windows")


@pytest.fixture(scope="module")
def cluster(render: Render) -> Path:
    return render(cluster="all") / "cluster"


@pytest.fixture(scope="module")
def manifests(cluster: Path) -> list[dict[str, Any]]:
    files = (cluster / "jobset.yaml", cluster / "storage.yaml")
    return [part for file in files for part in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def validate(manifests: list[dict[str, Any]]) -> None:
    """Find unknown keys and wrong types.

    Raises:
        Exception: one was found.
    """
    jobset, *others = manifests
    # The models ignore what they don't know: it is missing from what they give back.
    assert JobsetV1alpha2JobSet.from_dict(jobset).to_dict() == jobset
    jobs = [job["template"] for job in jobset["spec"]["replicatedJobs"]]
    of_jobs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job"}}
    for manifest in [*others, *(of_jobs | job for job in jobs)]:
        for version in KUBERNETES:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_manifests_match_their_schemas(manifests: list[dict[str, Any]]) -> None:
    assert [manifest["apiVersion"] for manifest in manifests] == [
        "jobset.x-k8s.io/v1alpha2", "networking.k8s.io/v1", "v1",
    ]  # fmt: skip
    validate(manifests)


def test_deleting_the_set_deletes_no_runs(cluster: Path) -> None:
    assert "PersistentVolumeClaim" not in (cluster / "jobset.yaml").read_text(encoding="utf-8")


def test_the_log_of_a_job_is_no_change_of_the_project(cluster: Path, tmp_path: Path) -> None:
    text = (cluster / "train.sbatch").read_text(encoding="utf-8")
    name, output = (
        re.search(rf"^#SBATCH --{option}=(\S+)", text, re.MULTILINE)[1]  # type: ignore[index]
        for option in ("job-name", "output")
    )
    log = output.replace("%x", name).replace("%j", "123")
    shutil.copy(cluster.parent / ".gitignore", tmp_path)
    run("git", "init", "--quiet", cwd=tmp_path)
    run("git", "check-ignore", log, cwd=tmp_path)


def keys(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Every key of mappings below a value, with its mapping."""
    for child in value.values() if isinstance(value, dict) else value:
        if isinstance(child, dict | list):
            yield from keys(child)
    if isinstance(value, dict):
        yield from ((value, key) for key in value)


def test_any_misspelt_key_of_a_manifest_is_found(manifests: list[dict[str, Any]]) -> None:
    free = {"matchLabels", "requests", "limits"}  # whose keys are names of labels and resources
    named = {key for mapping, name in keys(manifests) if name in free for key in mapping[name]}
    found = 0
    for number, (_, key) in enumerate(keys(manifests)):
        if key in named:
            continue
        copy = deepcopy(manifests)
        mapping, _ = list(keys(copy))[number]
        mapping[f"{key}s"] = mapping.pop(key)
        with pytest.raises(Exception):  # noqa: B017, PT011  # each library has its own
            validate(copy)
        found += 1
    assert found > 60


def test_the_number_of_workers_is_the_same_in_all_its_places(
    manifests: list[dict[str, Any]],
) -> None:
    spec = manifests[0]["spec"]
    (job,) = spec["replicatedJobs"]
    workers = job["template"]["spec"]["completions"]
    assert job["template"]["spec"]["parallelism"] == workers
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    (hosts,) = container["env"]
    pods = f"{manifests[0]['metadata']['name']}-{job['name']}-0-[0-{workers - 1}]"
    assert hosts == {"name": "WORKER_HOSTS", "value": f"{pods}.{spec['network']['subdomain']}"}


def test_a_signal_before_training_ends_a_pod(manifests: list[dict[str, Any]]) -> None:
    (job,) = manifests[0]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    assert pod["shareProcessNamespace"]  # process 1 of its own would not get it


def test_flags_in_the_files_exist(cluster: Path, manifests: list[dict[str, Any]]) -> None:
    config = next(TEMPLATE.glob("*package_name*/config.py")).read_text(encoding="utf-8")
    known = {f"--{name.replace('_', '-')}" for name in re.findall(r"^    (\w+): ", config, re.M)}
    (job,) = manifests[0]["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    script = (cluster / "train.sbatch").read_text(encoding="utf-8")
    (of_script,) = re.findall(r"python train\.py (.*)", script)
    flags = re.findall(r"--[a-z-]+", f"{of_script} {' '.join(container['args'])}")
    assert set(flags) <= known
    assert {"--resume", "--start-timeout", "--name"} <= set(flags)


def test_the_page_builds_the_image_that_the_manifest_wants(
    cluster: Path, manifests: list[dict[str, Any]]
) -> None:
    (job,) = manifests[0]["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" in container["resources"]["limits"]
    build = 'docker build --build-arg TENSORFLOW="tensorflow[and-cuda]" -t REGISTRY/train:1 .\n'
    for file in (cluster / "jobset.yaml", ROOT / "docs" / "launchers.md"):
        assert build in file.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="installed on Linux only")
def test_linters_find_nothing(cluster: Path) -> None:
    tools = Path(sys.executable).parent
    run(tools / "shellcheck", "train.sbatch", cwd=cluster)


@pytest.fixture
def submit(cluster: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Run the batch script with programs that stand for Slurm's: what they were called with."""
    calls = tmp_path / "calls"
    note = f'printf "%s|" "${{0##*/}}" "$@" >> {calls}; echo >> {calls}'

    def submit(
        code: int,
        *,
        ends: int,
        state: str = "RUNNING",
        restarts: str | None = None,
        unanswered: int = 0,
    ) -> list[str]:
        calls.unlink(missing_ok=True)
        asked = tmp_path / "asked"
        asked.unlink(missing_ok=True)
        answers = f"[ $(wc -l < {{}}) -gt {unanswered} ] || exit 1"
        programs = {
            "srun": f"{note}; exit {code}",
            "squeue": f"echo >> {asked}; {answers.format(asked)}; echo {state}",
            "scontrol": f"{note}; {answers.format(f'{calls}')}",
            "sleep": "exit 0",
        }
        for name, line in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
            (tmp_path / name).chmod(0o755)
        environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
        environ |= {"SLURM_RESTART_COUNT": restarts} if restarts else {}
        command = [str(shutil.which("bash")), cluster / "train.sbatch", "--name", "two words"]
        run(*command, cwd=tmp_path, env=environ, status=ends)
        return calls.read_text().splitlines() if calls.exists() else []

    return submit


SRUN = (
    "srun|--kill-on-bad-exit=0|--wait=330|python|train.py|--name|job-7|--resume|auto|"
    "--name|two words|"
)
REQUEUE = "scontrol|requeue|7|"


@needs_bash
@pytest.mark.parametrize("code", [134, 135, 137, 138, 139, 143])
def test_a_run_that_can_be_resumed_is_requeued(submit: Callable[..., list[str]], code: int) -> None:
    assert submit(code, ends=0) == [SRUN, REQUEUE]


@needs_bash
def test_a_finished_run_is_not_requeued(submit: Callable[..., list[str]], tmp_path: Path) -> None:
    run = tmp_path / "runs" / "2026-01-01-000000-job-7"
    run.mkdir(parents=True)
    (run / "results.json").touch()
    assert submit(143, ends=0) == [SRUN, REQUEUE]
    (run / "report.html").touch()
    assert submit(143, ends=0) == [SRUN]
    assert submit(143, ends=0, restarts="1") == []  # Slurm itself has requeued it
    run.rename(run.with_name("2026-01-01-000000-job-17"))
    assert submit(143, ends=0, restarts="1") == [SRUN, REQUEUE]


@needs_bash
@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_the_end_of_a_run_or_an_error_is_the_end_of_the_job(
    submit: Callable[..., list[str]], code: int
) -> None:
    assert submit(code, ends=code) == [SRUN]


@needs_bash
def test_a_job_that_is_cancelled_stays_so(submit: Callable[..., list[str]]) -> None:
    assert submit(138, ends=138, state="COMPLETING") == [SRUN]


@needs_bash
def test_slurm_is_asked_again_where_it_does_not_answer(submit: Callable[..., list[str]]) -> None:
    assert submit(138, ends=0, unanswered=3) == [SRUN, *[REQUEUE] * 3]  # srun is a call as well
    assert submit(138, ends=138, unanswered=10) == [SRUN]


@needs_bash
def test_restarts_have_a_bound(submit: Callable[..., list[str]]) -> None:
    assert submit(137, ends=0, restarts="19") == [SRUN, REQUEUE]
    assert submit(137, ends=137, restarts="20") == [SRUN]
