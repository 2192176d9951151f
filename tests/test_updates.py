"""An update by cruft changes what is the template's, and spares what is the owner's."""

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import ROOT, files, python_m, run
from test_ways_in import commit

CRUFT = [sys.executable, "-c", "from cruft.__main__ import app; app()"]
TEMPLATE = "{{cookiecutter.project_slug}}"
PACKAGE = "my_experiment"
TASK = f"{PACKAGE}/task/"
# A commit of this repository; its tasks have no `adapt`, TERMS and EXAMPLES_INTERACT.
OLDER = "022028f453830d9aeedccad230fe88333072745f"
ADDED = {  # in the older state that is made here: what files lack, and have instead
    "train.py": ("# Train, with validations on the way.", "# Train."),
    "pyproject.toml": ('"tqdm>=4.66"', '"tqdm>=4.60"'),
    "{{cookiecutter.package_name}}/engine/files.py": (
        "Files: written whole",
        "Files written whole",
    ),
    "starters/image_classification/task/steps.py": ("EXAMPLES_INTERACT = False\n", ""),
    "starters/image_classification/task/model.py": ("def adapt(", "def prepare("),
}
MINE = {  # what the owner wrote, and after what
    f"{TASK}model.py": ("import keras\n", "\nWIDTH = 24  # mine\n"),
    f"{TASK}steps.py": ("from __future__ import annotations\n", "\nMARGIN = 0.5  # mine\n"),
    "README.md": ("with the same proportion of each digit", ", and mine are ours"),
    "pyproject.toml": ("[build-system]", "  # mine"),
    "cluster/train.sbatch": ("#!/usr/bin/env bash\n", "# mine\n"),
}


@pytest.fixture(params=["of the history", "made here"])
def older(request: pytest.FixtureRequest, template_copy: Path, tmp_path: Path) -> Path:
    """A repository of the template in an older state, which knows nothing of what is new."""
    repository = tmp_path / "older" / template_copy.name
    if request.param == "made here":
        shutil.copytree(template_copy, repository)
        for path, (new, old) in ADDED.items():
            source = repository / TEMPLATE / path
            text = source.read_text(encoding="utf-8")
            assert new in text, path
            source.write_bytes(text.replace(new, old).encode())
    else:
        git = ["git", "archive", OLDER]
        archive = subprocess.run(git, cwd=ROOT, capture_output=True, check=False)
        if archive.returncode:
            pytest.skip("a shallow clone, or none: the older commit isn't there")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            # Python 3.11.2, which Debian 12 has, doesn't know the argument `filter` (PEP 706).
            tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
            tar.extractall(repository)
    run("git", "init", "--quiet", "--initial-branch=main", cwd=repository)
    commit(repository, "An older state")
    return repository


@pytest.fixture
def project(older: Path, tmp_path: Path) -> Path:
    """A project of the older state; its owner has changed what is theirs."""
    create = ["create", older, "--no-input", "--output-dir", tmp_path]
    if "[tool.cruft]" not in (older / TEMPLATE / "pyproject.toml").read_text(encoding="utf-8"):
        create += ["--skip", TASK.rstrip("/")]  # its pyproject.toml doesn't say so yet
    else:
        create += ["--extra-context", '{"cluster": "slurm"}']
    done = run(*CRUFT, *create, cwd=tmp_path)
    assert done.stdout.count("Your project is ready") == 1
    project = tmp_path / "my-experiment"
    run("git", "init", "--quiet", cwd=project)
    commit(project, "Render the project")
    for path, (after, mine) in MINE.items():
        if (project / path).exists():  # the older state of the history knows no cluster/
            edit(project / path, after, after + mine)
    (project / TASK / "mine.npz").write_bytes(b"my data")
    (project / "data").mkdir()
    (project / "data" / "mine.csv").write_text("1,2\n")
    commit(project, "Make it mine")
    return project


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text, file
    file.write_bytes(text.replace(old, new, 1).encode())


def replace_by(repository: Path, template: Path) -> None:
    """Commit the newer template to the repository of the older one."""
    for path in repository.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(template, repository, dirs_exist_ok=True)
    commit(repository, "The newest state")


def owned(found: dict[str, bytes]) -> dict[str, bytes]:
    return {path: found[path] for path in found if path.startswith((TASK, "data/"))}


def conflicts(found: dict[str, bytes]) -> list[str]:
    return [path for path in found if path.endswith(".rej") or b"<<<<<<<" in found[path]]


def update(project: Path, older: Path, newest: Path) -> None:
    """Update the project; its task and data stay as they are, and the hooks say nothing."""
    before = owned(files(project))
    is_loud = "is_update" not in (older / "hooks/post_gen_project.py").read_text(encoding="utf-8")
    replace_by(older, newest)
    done = run(*CRUFT, "update", "--skip-apply-ask", cwd=project)
    print(done.stdout, done.stderr, run("git", "status", "--short", cwd=project).stdout, sep="\n")
    assert owned(files(project)) == before
    # Cruft renders the older state once more, by the hooks that this had.
    assert done.stdout.count("Your project is ready") == is_loud


def test_an_update_brings_what_is_new_and_keeps_what_is_mine(
    project: Path, older: Path, template_copy: Path, tmp_path: Path
) -> None:
    update(project, older, template_copy)
    cluster = f"cluster={'slurm' if (project / 'cluster').exists() else 'none'}"
    render = ["--no-input", "-o", tmp_path / "new", cluster]
    python_m("cookiecutter", template_copy, *render, cwd=tmp_path)
    newest, found = files(tmp_path / "new" / "my-experiment"), files(project)
    assert not conflicts(found)
    for path in newest.keys() - owned(newest).keys():
        text = newest[path].decode()
        if path in MINE:  # merged
            after, mine = MINE[path]
            text = text.replace(after, after + mine, 1)
        assert found[path].decode() == text, path


@pytest.mark.parametrize("older", ["made here"], indirect=True)
def test_a_line_that_both_have_changed_is_a_conflict_in_that_file_only(
    project: Path, older: Path, template_copy: Path
) -> None:
    edit(project / "train.py", ADDED["train.py"][1], "# Mine.")
    commit(project, "Edit what is the template's")
    update(project, older, template_copy)
    assert conflicts(files(project)) == ["train.py"]


@pytest.mark.environment
def test_check_and_train_name_what_the_task_lacks(
    project: Path, older: Path, template_copy: Path
) -> None:
    update(project, older, template_copy)
    for command in (["-m", PACKAGE, "check"], ["train.py"]):
        done = run(sys.executable, *command, cwd=project, status=2)
        (line,) = done.stderr.splitlines()
        print(line)
        assert f"{TASK}model.py must define adapt" in line
        assert "EXAMPLES_INTERACT" in line
        assert f"{TASK}steps.py must define" in line
        assert "Migration" in line
