"""Versions that can't work are refused, and the page of versions is that of these bounds."""

import json
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Render, run
from proofs import versions

PAGE = (ROOT / "docs" / "versions.md").read_text(encoding="utf-8")
SCRIPT = """
import importlib.metadata, json, sys
installed = json.loads(sys.argv[1])
def version(name):
    if name in installed:
        return installed[name]
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
from my_experiment.engine import errors, versions
with errors.usage_errors():
    versions.require_versions()
    print(versions.untested_versions())
"""


@pytest.fixture(scope="module")
def default(render: Render) -> Path:
    return render()


@pytest.mark.parametrize(
    ("installed", "reason"),
    [
        ({"tensorflow": "2.16.1", "keras": "3.9.2"}, "Keras 3.9.2 reports wrong metrics"),
        ({"tensorflow": "2.15.1", "keras": "3.10.0"}, "TensorFlow 2.15.1 comes with Keras 2"),
    ],
)
def test_a_version_that_is_too_old_is_refused_with_the_reason(
    default: Path, installed: dict[str, str], reason: str
) -> None:
    done = run(sys.executable, "-c", SCRIPT, json.dumps(installed), cwd=default, status=2)
    assert done.stderr.startswith(f"error: {reason}")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ({"tensorflow": "2.16.1", "keras": "3.10.0"}, ""),
        ({}, ""),  # tf-nightly, keras-nightly
        ({"tensorflow": "2.99.0rc1", "keras": "3.10.0"}, "TensorFlow 2.99.0rc1 (tested: up to"),
    ],
)
def test_a_version_that_was_never_tested_is_named(
    default: Path, installed: dict[str, str], said: str
) -> None:
    done = run(sys.executable, "-c", SCRIPT, json.dumps(installed), cwd=default)
    assert said in done.stdout if said else done.stdout == "\n"


def test_the_page_of_versions_was_made_with_these_bounds(default: Path) -> None:
    (page,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert page in (default / "pyproject.toml").read_text(encoding="utf-8")


def test_the_oldest_and_newest_versions_that_the_program_knows_are_those_of_the_page(
    default: Path,
) -> None:
    show = "import json\nfrom my_experiment.engine.versions import *\nprint(json.dumps([{}, {}]))"
    show = show.format("{n: v[0] for n, v in OLDEST.items()}", "NEWEST_TESTED")
    oldest, newest = json.loads(run(sys.executable, "-c", show, cwd=default).stdout)
    header, _, *rows = [row.split(" | ") for row in re.findall(r"^\| (.*) \|$", PAGE, re.MULTILINE)]
    for name in ("tensorflow", "keras"):
        found = [row[header.index(name)].split(".") for row in rows if row[header.index(name)]]
        tested = sorted([int(part) for part in version[:2]] for version in found)
        assert (oldest[name], newest[name]) == (tested[0], tested[-1]), name
    assert not [row for row in rows if "FAILED" in row[header.index("result")]]


@pytest.mark.parametrize("ci", [False, True])
def test_a_python_that_is_not_there_is_named_and_fails_in_ci_only(
    ci: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "1") if ci else monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys, "argv", ["versions", "3.12-lowest"])
    monkeypatch.setattr(versions, "BUILD", tmp_path)
    monkeypatch.setattr(versions, "PAGE", tmp_path / "versions.md")
    monkeypatch.setattr(versions.Cell, "run", lambda self, command: command[:2] != ["uv", "python"])
    assert versions.main() == int(ci)
    page = (tmp_path / "versions.md").read_text()
    assert re.search(r"^\| 3\.12 \| lowest \|.*not run: there is no Python 3\.12 here", page, re.M)
    assert re.search(r"^\| 3\.12 \| newest \|.*not run with these bounds", page, re.M)
