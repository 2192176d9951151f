"""The files for a team, and the template's own, are what the programs that read them expect."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import CONFIG, ROOT, TEMPLATE, Render, run
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_rendering import tomllib

PROGRAMS = str(Path(sys.executable).parent)
SCHEMA = ("check-jsonschema", "--builtin-schema")
ZIZMOR = ("zizmor", "--offline", "--quiet", "--no-progress")
WORKFLOW = [(*SCHEMA, "vendor.github-workflows"), ZIZMOR]
LINTERS: dict[str, list[tuple[str, ...]]] = {
    ".github/workflows/ci.yml": WORKFLOW,
    ".github/dependabot.yml": [(*SCHEMA, "vendor.dependabot"), ZIZMOR],
    ".pre-commit-config.yaml": [("pre-commit", "validate-config")],
    "CITATION.cff": [(*SCHEMA, "vendor.citation-file-format")],
    "Dockerfile": [("hadolint",)] if sys.platform == "linux" else [],
}
BROKEN = [
    (".github/workflows/ci.yml", "runs-on: ", "run-on: "),
    (".github/workflows/ci.yml", "with:\n          persist-credentials: false", "name: Checkout"),
    (".github/workflows/ci.yml", '"$RESOLUTION"', "${{ github.head_ref }}"),
    (".github/workflows/ci.yml", "@11bd71901bbe5b1630ceea73d27597364c9af683", ""),
    (".github/dependabot.yml", "interval: monthly", "interval: sometimes"),
    (".pre-commit-config.yaml", "rev: ", "revision: "),
    ("CITATION.cff", "authors:", "writers:"),
    ("Dockerfile", "USER 1000", "USER root"),
    ("Dockerfile", "python:3.12.12-slim-bookworm@sha256:", "python:latest AS "),
]
OF_GITHUB = ROOT / ".github"
OF_TEMPLATE = [
    *((path, WORKFLOW) for path in sorted(OF_GITHUB.glob("workflows/*"))),
    (OF_GITHUB / "dependabot.yml", LINTERS[".github/dependabot.yml"]),
    *(
        (path, [(*SCHEMA, "vendor.github-issue-forms")])
        for path in sorted(OF_GITHUB.glob("ISSUE_TEMPLATE/*"))
    ),
]


@pytest.fixture(scope="module")
def team(render: Render) -> Path:
    return render(extras="yes", cluster="none")


def lint(linters: list[tuple[str, ...]], file: Path) -> None:
    """Run every linter of a file.

    Raises:
        AssertionError: one of them has found something.
    """
    for linter, *arguments in linters:
        program = shutil.which(linter, path=PROGRAMS)
        assert program, f"{linter} is not installed"
        run(program, *arguments, file.name, cwd=file.parent)


@pytest.mark.parametrize("name", LINTERS)
def test_linters_find_nothing(team: Path, name: str) -> None:
    lint(LINTERS[name], team / name)


@pytest.mark.parametrize(("name", "right", "wrong"), BROKEN)
def test_linters_find_a_mistake(
    team: Path, tmp_path: Path, name: str, right: str, wrong: str
) -> None:
    if not LINTERS[name]:
        pytest.skip("no linter on this system")
    text = (team / name).read_text(encoding="utf-8")
    assert right in text
    broken = tmp_path / name
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    lint(LINTERS[name], team / name)
    with pytest.raises(AssertionError):
        lint(LINTERS[name], broken)


@pytest.mark.parametrize(
    ("file", "linters"), OF_TEMPLATE, ids=lambda part: getattr(part, "name", "")
)
def test_linters_find_nothing_in_the_template(file: Path, linters: list[tuple[str, ...]]) -> None:
    lint(linters, file)


def test_the_project_and_the_template_pin_the_same_actions() -> None:
    extras = TEMPLATE / "extras" / ".github" / "workflows"
    ours, theirs = (
        {use for path in folder.iterdir() for use in re.findall(r"uses: (.*)", path.read_text())}
        for folder in (OF_GITHUB / "workflows", extras)
    )
    assert theirs <= ours


def pins(project: Path) -> list[Requirement]:
    lines = (project / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_constraints_agree_with_the_metadata_on_every_python(team: Path, python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    pinned = {
        canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
        for pin in pins(team)
        if not pin.marker or pin.marker.evaluate(environment)
    }
    project = tomllib.loads((team / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        needed = Requirement(text)
        if not needed.marker or needed.marker.evaluate(environment):
            assert needed.specifier.contains(pinned[canonicalize_name(needed.name)]), text


def test_pre_commit_runs_the_ruff_of_the_constraints(team: Path) -> None:
    (ruff,) = (pin for pin in pins(team) if pin.name == "ruff")
    hooks = (team / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    (revision,) = re.findall(r"ruff-pre-commit\n +rev: v(\S+)", hooks)
    assert str(ruff.specifier) == f"=={revision}"


def test_the_image_gets_what_it_copies_and_nothing_else(team: Path) -> None:
    dockerfile = (team / "Dockerfile").read_text(encoding="utf-8")
    copied = {
        name for line in re.findall(r"^COPY (.*) \S+$", dockerfile, re.M) for name in line.split()
    }
    ignored, *passed = re.findall(r"^[^#\n].*", (team / ".dockerignore").read_text(), re.M)
    assert ignored == "*"
    assert passed == [*passed[:-1], "**/__pycache__"]
    assert {line.removeprefix("!") for line in passed[:-1]} == copied


def test_readme_links_lead_to_pages_of_the_template(team: Path) -> None:
    page = (team / "README.md").read_text(encoding="utf-8")
    links = re.findall(rf"\]\({re.escape(CONFIG['_repository'])}/blob/main/(.*?)\)", page)
    assert page.count(f"]({CONFIG['_documentation']})") == 1
    assert len(links) + 1 == page.count("cookiecutter-tf-distributed") >= 9
    assert [link for link in links if not (ROOT / link).is_file()] == []


def test_the_address_of_the_template_stands_in_one_place() -> None:
    address = CONFIG["_repository"].removeprefix("https://")
    sources = [*TEMPLATE.rglob("*"), *(ROOT / "docs").glob("*.md"), *(ROOT / "hooks").glob("*.py")]
    texts = [path for path in sources if path.suffix in {".md", ".toml", ".py", ".yml", ".yaml"}]
    assert [path for path in texts if address in path.read_text(encoding="utf-8")] == []
