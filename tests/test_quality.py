"""A freshly rendered project passes its own checks."""

import shutil
import zipfile
from pathlib import Path

import pytest
from conftest import Render, python_m


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
    python_m("pytest", "--noconftest", "-q", "tests/engine/test_imports.py", cwd=project)


@pytest.mark.environment
def test_types_agree(project: Path, tmp_path: Path) -> None:
    python_m("mypy", "--cache-dir", str(tmp_path), cwd=project)


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
