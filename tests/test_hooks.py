"""The hooks refuse what can't work, put files in place once, and print what to do next."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Render, files, python_m, run
from cookiecutter.exceptions import FailedHookException
from cookiecutter.hooks import run_script_with_context
from test_rendering import tomllib

REFUSED = [
    ({"project_name": " "}, "project_name is empty"),
    ({"project_name": "two\nlines"}, "project_name holds a line break"),
    ({"description": "a\x7fb"}, "description holds a line break or another control character"),
    ({"description": "a\u2028b"}, "description holds a line break"),
    ({"description": "x" * 301}, "description has 301 characters; use at most 300"),
    ({"description": "a\ud800b"}, "description holds a line break or another control character"),
    ({"author_name": "tab\there"}, "author_name holds a line break or another control character"),
    ({"project_slug": "../evil"}, "project_slug '../evil' may hold ASCII letters"),
    ({"project_slug": ".hidden"}, "project_slug '.hidden' may hold ASCII letters"),
    ({"project_slug": "two words"}, "project_slug 'two words' may hold ASCII letters"),
    ({"project_slug": "trailing."}, "project_slug 'trailing.' may hold ASCII letters"),
    ({"project_slug": "x" * 65}, "has 65 characters; use at most 64"),
    (
        {"project_slug": "CON.txt"},
        "project_slug 'CON.txt' is the name of a device on Windows; try CON-project",
    ),
    ({"project_slug": "Keras"}, "project_slug 'Keras' is a library that the project depends on"),
    ({"package_name": "my-package"}, "package_name 'my-package' may hold a-z"),
    ({"package_name": "3d"}, "package_name '3d' may hold a-z"),
    ({"package_name": "Capital"}, "package_name 'Capital' may hold a-z"),
    ({"package_name": "../evil"}, "package_name '../evil' may hold a-z"),
    ({"package_name": "x" * 31}, "has 31 characters; use at most 30"),
    *[
        ({"package_name": name}, f"package_name '{name}' means something")
        for name in (
            "class",
            "match",
            "email",
            "tensorflow",
            "keras",
            "numpy",
            "tests",
            "train",
            "runs",
            "aux",
        )
    ],
]


@pytest.mark.parametrize(
    ("answers", "message"), REFUSED, ids=[repr(answers)[:50] for answers, _ in REFUSED]
)
def test_an_answer_that_cannot_work_is_refused_in_one_line(
    render: Render, capfd: pytest.CaptureFixture[str], answers: dict[str, str], message: str
) -> None:
    with pytest.raises(FailedHookException):
        render(**answers)
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("ERROR: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"ERROR: {message}") or message in errors[0]
    assert re.search(r"; (try|use|keep|give) |begins .*; try ", errors[0])  # how to fix it


def test_a_project_cannot_have_the_name_of_anything_it_depends_on(render: Render) -> None:
    metadata = tomllib.loads((render() / "pyproject.toml").read_text(encoding="utf-8"))
    for requirement in metadata["project"]["dependencies"]:
        with pytest.raises(FailedHookException):
            render(project_slug=re.split("[<>=]", requirement)[0], package_name="other")


def test_a_refusal_ends_with_an_exit_code_and_leaves_nothing(tmp_path: Path) -> None:
    command = ("cookiecutter", ROOT, "--no-input", "package_name=class")
    result = python_m(*command, cwd=tmp_path, status=1)
    assert result.stderr.startswith("ERROR: package_name 'class'")
    assert list(tmp_path.iterdir()) == []


def test_the_hook_prints_what_to_type_and_how_many_todos_are_left(
    render: Render, capfd: pytest.CaptureFixture[str]
) -> None:
    project = render()
    printed = capfd.readouterr().out
    sources = (project / "my_experiment" / "task").rglob("*.py")
    todos = sum(source.read_text(encoding="utf-8").count("# TODO(") for source in sources)
    assert todos > 0
    commands = [
        f'cd "{project}"',
        "python3 -m venv .venv && source .venv/bin/activate",
        'python -m pip install -e ".[dev]"',
        "python train.py",
    ]
    assert [line.strip() for line in printed.splitlines() if line.startswith("    ")] == commands
    assert f"{todos} numbered TODOs in my_experiment/task/" in printed


def run_post_hook(project: Path) -> None:
    answers = {"package_name": "my_experiment", "starter": "image_classification"}
    answers |= {"license": "MIT", "cluster": "all", "extras": True}
    run_script_with_context(
        ROOT / "hooks" / "post_gen_project.py", project, {"cookiecutter": answers}
    )


def test_running_the_post_hook_again_changes_nothing(render: Render) -> None:
    project = render(cluster="all")
    before = files(project)
    run_post_hook(project)
    assert files(project) == before


def test_rendering_over_a_project_keeps_what_is_its_owners(tmp_path: Path) -> None:
    command = ("cookiecutter", ROOT, "--no-input", "cluster=all")
    python_m(*command, cwd=tmp_path)
    project = tmp_path / "my-experiment"
    names = ["my_experiment/task/model.py", "cluster/train.sbatch", "Dockerfile"]
    mine = [project / name for name in (*names, ".github/workflows/ci.yml")]
    for file in mine:
        file.write_text("# all my work\n")
    again = python_m(*command, "--overwrite-if-exists", cwd=tmp_path)
    assert [file.read_text() for file in mine] == ["# all my work\n"] * 4
    assert again.stdout.count("Kept the") == 4
    assert not (project / "starters").exists()
    assert not (project / "launchers").exists()
    assert not (project / "extras").exists()


def test_rendering_over_a_project_keeps_folders_of_its_owners(tmp_path: Path) -> None:
    command = ("cookiecutter", ROOT, "--no-input", "cluster=all")
    python_m(*command, cwd=tmp_path)
    project = tmp_path / "my-experiment"
    folders = ["licenses", "starters", "launchers", "extras"]
    others = ("licenses/Apache-2.0", "launchers/slurm/my.sbatch", "extras/.github/mine.yml")
    names = ("LICENSE", *others, *(f"{folder}/mine/a" for folder in folders))
    mine = [project / name for name in names]
    for file in mine:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine\n")
    for flags in (["--overwrite-if-exists"], ["--overwrite-if-exists", "--skip-if-file-exists"]):
        again = python_m(*command, *flags, "starter=gan", cwd=tmp_path)
        overwritten = {"licenses/Apache-2.0"} if len(flags) == 1 else set()  # by cookiecutter
        kept = [file for name, file in zip(names, mine, strict=True) if name not in overwritten]
        assert [file.read_text() for file in kept] == ["mine\n"] * len(kept)
        (project / "licenses" / "Apache-2.0").write_text("mine\n")
        assert {path for path in files(project) if path.split("/")[0] in folders} == {
            name for name in names if "/" in name
        }
        assert not list(project.glob(".own*"))
        assert "Kept the LICENSE" in again.stdout
        assert "the page of the starter gan" in again.stdout


@pytest.mark.environment
def test_without_hooks_the_project_says_so(tmp_path: Path) -> None:
    python_m("cookiecutter", ROOT, "--no-input", "--accept-hooks", "no", cwd=tmp_path)
    done = run(sys.executable, "train.py", "--help", cwd=tmp_path / "my-experiment", status=2)
    assert "--accept-hooks yes" in done.stderr
    assert done.stderr.count("\n") == 1
    again = ("cookiecutter", ROOT, "--no-input", "--overwrite-if-exists", "cluster=all")
    python_m(*again, cwd=tmp_path)
    first = tmp_path / "first"
    first.mkdir()
    python_m("cookiecutter", ROOT, "--no-input", "cluster=all", cwd=first)
    assert files(tmp_path / "my-experiment") == files(first / "my-experiment")


def test_halves_of_characters_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text('default_context: {description: "\\ud83d\\ude00"}')
    command = ("cookiecutter", ROOT, "--no-input", "--config-file", config)
    assert "halves of characters" in python_m(*command, cwd=tmp_path, status=1).stderr
    assert not (tmp_path / "my-experiment").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("starter", "../licenses"), ("license", "MIT/../MIT"), ("cluster", ""), ("extras", "")],
)
def test_a_replay_file_can_not_choose_what_is_no_choice(
    tmp_path: Path, key: str, value: str
) -> None:
    replay = tmp_path / "replay.json"
    python_m("cookiecutter", ROOT, "--no-input", cwd=tmp_path, env=settings(tmp_path))
    (made,) = (tmp_path / "replay").glob("*.json")
    answers = json.loads(made.read_text())
    answers["cookiecutter"][key] = value
    replay.write_text(json.dumps(answers))
    command = ("cookiecutter", ROOT, "--replay-file", replay, "-o", "out")
    result = python_m(*command, cwd=tmp_path, status=1, env=settings(tmp_path))
    assert f"ERROR: {key} {value!a} is no choice; use one of " in result.stderr
    assert not list((tmp_path / "out").iterdir())


def settings(home: Path) -> dict[str, str]:
    """Cookiecutter's own files in a directory of the test."""
    config = home / "config.yaml"
    directories = {"cookiecutters_dir": str(home), "replay_dir": str(home / "replay")}
    config.write_text(json.dumps(directories))
    return {"COOKIECUTTER_CONFIG": str(config)}


def test_a_path_that_the_terminal_cannot_show_does_not_fail_the_hook(tmp_path: Path) -> None:
    output = tmp_path / "数字"
    output.mkdir()
    python_m("cookiecutter", ROOT, "--no-input", cwd=output, env={"PYTHONIOENCODING": "ascii"})
    assert (output / "my-experiment" / "train.py").exists()


@pytest.mark.skipif(os.name == "nt", reason="no PATH tricks on Windows")
def test_the_hooks_start_no_other_program(render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")  # no git, no pip
    assert (render() / "train.py").exists()
