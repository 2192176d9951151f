"""Rendered projects for the tests, each rendered once."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from cookiecutter.main import cookiecutter

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "{{cookiecutter.project_slug}}"
CONFIG = json.loads((ROOT / "cookiecutter.json").read_text(encoding="utf-8"))
STARTERS = CONFIG["starter"]
LICENSES = CONFIG["license"]
CLUSTERS = CONFIG["cluster"]

Render = Callable[..., Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests, so that none is alone at the end of several processes."""
    longest = ("of_the_proof_holds[starters]", "until_all_are_filled_in[True]")
    items.sort(key=lambda item: not item.nodeid.endswith(longest))


@pytest.fixture(scope="session", autouse=True)
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the developer's defaults out of the tests, and the tests' answers out of their home."""
    home = tmp_path_factory.mktemp("settings")
    config = home / "config.yaml"
    directories = {"cookiecutters_dir": str(home / "templates"), "replay_dir": str(home / "replay")}
    config.write_text(json.dumps(directories))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COOKIECUTTER_CONFIG", str(config))
        patch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        yield


@pytest.fixture(scope="session")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Render the template into a directory of its own; what isn't answered takes its default."""

    def render(**answers: str) -> Path:
        output = tmp_path_factory.mktemp("rendered")
        return Path(
            cookiecutter(str(ROOT), no_input=True, output_dir=output, extra_context=answers)
        )

    return render


@pytest.fixture(
    scope="session",
    params=[
        (starter, license, CLUSTERS[(i + j) % len(CLUSTERS)], ("yes", "no")[(i + j // 2) % 2])
        for (i, starter), (j, license) in product(enumerate(STARTERS), enumerate(LICENSES))
    ],
    ids="-".join,
)
def combination(request: pytest.FixtureRequest, render: Render) -> tuple[str, str, str, str, Path]:
    """Every pair of two choices, as (starter, license, cluster, extras, project)."""
    answers = dict(zip(("starter", "license", "cluster", "extras"), request.param, strict=True))
    return *request.param, render(**answers)


@pytest.fixture(scope="session", params=STARTERS)
def project(request: pytest.FixtureRequest, render: Render) -> Path:
    """Every starter once."""
    return render(starter=request.param)


@pytest.fixture
def template_copy(tmp_path: Path) -> Path:
    """The template's own files, free of repository, environments and caches, to change or pack."""
    copy = tmp_path / "cookiecutter-tf-distributed"
    others = shutil.ignore_patterns(".git", ".venv", ".nox", "build", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=others)
    return copy


def files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, by its path in POSIX form."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def run(
    *command: str | Path,
    cwd: Path,
    status: int = 0,
    env: dict[str, str] | None = None,
    **options: Any,
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, without the PYTHONPATH of the tests."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment | (env or {}),
        capture_output=True,
        text=True,
        check=False,
        **options,
    )
    __tracebackhide__ = True  # why it failed comes first: long output is cut
    assert result.returncode == status, f"{result.stderr}\n{result.stdout}"
    return result


def python_m(*command: str | Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a module as a command."""
    return run(sys.executable, "-m", *command, **options)
