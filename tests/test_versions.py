"""Versions that can't work are refused, and the page of versions is that of these bounds."""

import json
import re
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Render, run

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
        versions = [row[header.index(name)].split(".") for row in rows]
        tested = sorted([int(part) for part in version[:2]] for version in versions)
        assert (oldest[name], newest[name]) == (tested[0], tested[-1]), name
    assert {row[header.index("result")] for row in rows} == {"passed"}
