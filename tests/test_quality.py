"""A rendered project passes its own checks, untouched, the moment it is rendered."""

import shutil
import zipfile
from pathlib import Path

import pytest
from conftest import Render, python_m


def test_lint_finds_nothing(project: Path) -> None:
    python_m("ruff", "check", "--no-cache", ".", cwd=project)


def test_the_formatter_changes_nothing(project: Path) -> None:
    python_m("ruff", "format", "--no-cache", "--check", ".", cwd=project)


@pytest.mark.parametrize("package", ["a", "zz_last_in_every_sorted_list"])
def test_other_names_are_lint_and_format_clean_too(render: Render, package: str) -> None:
    project = render(package_name=package)
    python_m("ruff", "check", "--no-cache", ".", cwd=project)
    python_m("ruff", "format", "--no-cache", "--check", ".", cwd=project)


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
