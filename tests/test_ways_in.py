"""Every way to reach the template and to answer it gives the same project."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Render, files, python_m, run

GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "Tests", "GIT_AUTHOR_EMAIL": "tests@example.org",
    "GIT_COMMITTER_NAME": "Tests", "GIT_COMMITTER_EMAIL": "tests@example.org",
}  # fmt: skip


def cookiecutter(*arguments: str | Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    return python_m("cookiecutter", *arguments, **options)


def commit(repository: Path, message: str) -> None:
    run("git", "add", "--all", cwd=repository, env=GIT_IDENTITY)
    run("git", "commit", "--quiet", "--message", message, cwd=repository, env=GIT_IDENTITY)


@pytest.fixture
def template_repository(template_copy: Path) -> Path:
    run("git", "init", "--quiet", "--initial-branch=main", cwd=template_copy)
    commit(template_copy, "Add the template")
    return template_copy


def test_from_a_zip(template_copy: Path, tmp_path: Path, render: Render) -> None:
    archive = shutil.make_archive(str(tmp_path / "template"), "zip", tmp_path, template_copy.name)
    cookiecutter(archive, "--no-input", "-o", "out", cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert files(tmp_path / "out" / "my-experiment") == files(render())


def test_from_a_git_address(template_repository: Path, tmp_path: Path, render: Render) -> None:
    address = "git+" + template_repository.as_uri()
    cookiecutter(address, "--no-input", "-o", "out", cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert files(tmp_path / "out" / "my-experiment") == files(render())


def test_with_enter_for_every_question_through_a_pipe(tmp_path: Path, render: Render) -> None:
    result = cookiecutter(ROOT, cwd=tmp_path, input="\n" * 9)
    assert "[9/9]" in result.stdout
    assert "[10" not in result.stdout
    assert files(tmp_path / "my-experiment") == files(render())


def test_with_answers_typed_through_a_pipe(tmp_path: Path) -> None:
    answers = ["Typed in", "", "", 'Says "{{ hello }}"', "", "1", "4", "2", "n"]
    cookiecutter(ROOT, cwd=tmp_path, input="\n".join(answers) + "\n")
    project = tmp_path / "typed-in"
    assert r'description = "Says \"{{ hello }}\""' in (project / "pyproject.toml").read_text()
    assert not (project / "LICENSE").exists()
    assert (project / "cluster" / "train.sbatch").exists()
    assert not (project / "Dockerfile").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals on Windows")
def test_with_enter_for_every_question_at_a_terminal(tmp_path: Path, render: Render) -> None:
    import pty

    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "cookiecutter", str(ROOT)],
        cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, b"\n" * 9)
    printed = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # on Linux: the other end is closed
            break
        if not chunk:
            break
        printed += chunk
    os.close(ours)
    assert child.wait(timeout=10) == 0, printed.decode()
    assert b"python train.py" in printed
    assert files(tmp_path / "my-experiment") == files(render())


def test_cruft_creates_the_same_project(
    template_repository: Path, tmp_path: Path, render: Render
) -> None:
    cruft = [sys.executable, "-c", "from cruft.__main__ import app; app()"]
    run(*cruft, "create", template_repository, "--no-input", "--output-dir", tmp_path, cwd=tmp_path)
    created = files(tmp_path / "my-experiment")
    del created[".cruft.json"]
    assert created == files(render())
