"""A freshly rendered project passes its own checks, and template and project a review by others."""

import json
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, Render, python_m, run
from test_rendering import tomllib

# What sp-repo-review asks of a rendered project and doesn't get, and why.
NOT_IN_PROJECTS = {
    "PY004": "the README leads to the template's pages; the owner's own pages are the owner's",
    "PY007": "three commands in the README need no runner",
    "PP004": "TensorFlow 2.21 has no wheels for Python 3.14",
    "PP006": "the extra `dev` installs with every pip; groups need pip 25.1",
    "PC140": "mypy runs from the project's environment, since it needs the libraries",
    "PC160": "whether names and texts are checked for spelling is the owner's choice",
    "PC170": "no page is reStructuredText",
    "PC180": "as PC160",
    "PC901": "for pre-commit.ci, which is not used",
    "PC902": "as PC901",
    "PC903": "as PC901; `pre-commit autoupdate` renews the hooks",
}


def test_lint_finds_nothing(project: Path) -> None:
    python_m("ruff", "check", "--no-cache", ".", cwd=project)


def test_nothing_is_known_to_be_unsafe(project: Path) -> None:
    # S101: asserts tell the type checker. S603: a process of this very Python, with no text of
    # anyone's among its arguments that it would run. S311: random numbers, for no secrets.
    rules = ["--select", "S", "--ignore", "S101,S311,S603"]
    code = ["train.py", "my_experiment"]
    python_m("ruff", "check", "--no-cache", "--isolated", *rules, *code, cwd=project)


def test_the_formatter_changes_nothing(project: Path) -> None:
    python_m("ruff", "format", "--no-cache", "--check", ".", cwd=project)


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("a", "a"),  # lines that were wrapped might fit now
        ("z" * 300, "z" * 30),  # lines that fitted might not
        ('Ends in a backslash, "quotes" and a Сyrillic letter \\', "digits"),  # noqa: RUF001
    ],
    ids=["short", "long", "odd"],
)
def test_other_names_are_lint_and_format_clean_too(render: Render, name: str, package: str) -> None:
    project = render(project_name=name, description=name, package_name=package)
    python_m("ruff", "check", "--no-cache", ".", cwd=project)
    python_m("ruff", "format", "--no-cache", "--check", ".", cwd=project)


def test_imports_go_one_way(project: Path) -> None:
    command = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"
    run(sys.executable, "-c", command, cwd=project)


@pytest.fixture(scope="session")
def types_of_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for mypy: the libraries are read once, the projects lie at other paths."""
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.environment
def test_types_agree(project: Path, types_of_libraries: Path) -> None:
    python_m("mypy", "--cache-dir", str(types_of_libraries), cwd=project)


@pytest.mark.environment
def test_the_wheel_holds_the_package_and_its_data_and_nothing_else(
    project: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(project, tmp_path / "source")  # building leaves directories behind
    offline = ("--no-deps", "--no-build-isolation")
    python_m("pip", "wheel", "--quiet", *offline, "--wheel-dir", tmp_path, ".", cwd=source)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = project / "my_experiment"
    wanted = {path.relative_to(project).as_posix() for path in package.rglob("*.*")}
    assert packed == wanted


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sp-repo-review needs Python 3.11")
@pytest.mark.parametrize("of", ["template", "project"])
def test_a_review_finds_only_what_is_excepted_with_a_reason(render: Render, of: str) -> None:
    if of == "template":
        settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        directory, excepted = ROOT, settings["tool"]["repo-review"]["ignore"]
    else:
        directory, excepted = render(), NOT_IN_PROJECTS
    options = ("--format", "json", "--ignore", "NONE")  # in place of those in pyproject.toml
    report = python_m("repo_review", *options, directory, cwd=directory, status=3)
    checks = json.loads(report.stdout)["checks"]
    assert {check for check, found in checks.items() if found["result"] is False} == set(excepted)
    page = (ROOT / "docs" / "repo-review.md").read_text(encoding="utf-8")
    assert [reason for reason in excepted.values() if reason not in page] == []
