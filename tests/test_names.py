"""Any name gives a project that works; any text arrives as it was typed."""

import ast
import contextlib
import keyword
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from conftest import CONFIG, Render, files
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_rendering import PARSERS, tomllib

NASTY_TEXTS = {
    "quotes": """It's "quoted" `twice\"""",
    "triple quotes": "\"\"\"triple\"\"\" and '''triple'''",
    "backslashes": r"C:\new\table \" \\ \u00e9 ends in one \ "[:-1],
    "braces": "{braces} %s %(name)s ${HOME} $(id)",
    "accents and emoji": "Naïve 数字 👩‍🔬 \u202eright to left",
    "markup": "<!-- a comment <b>bold & ``` # - * [link](x) | table",
    "yaml": "yes: no # & *anchor ! | > - @",
}


@pytest.mark.parametrize(
    ("name", "slug", "package"),
    [
        ("My Experiment", "my-experiment", "my_experiment"),
        ("Digits", "digits", "digits"),
        ("3D nets", "3d-nets", "project_3d_nets"),
        ("class", "class-project", "class_project"),
        ("Email", "email-project", "email_project"),
        ("TensorFlow", "tensorflow-project", "tensorflow_project"),
        ("Tests", "tests-project", "tests_project"),
        ("NUL", "nul-project", "nul_project"),
        ("数字", "shu-zi", "shu_zi"),
        ("🎉", "my-experiment", "my_experiment"),
        ("../../evil", "evil", "evil"),
        ('It\'s "a" {test} \\o/', "it-s-a-test-o", "it_s_a_test_o"),
        ("word " * 50, "-".join(["word"] * 8), "_".join(["word"] * 6)),
        ("9" * 70, "9" * 40, "project"),
        (
            "TensorFlow electroencephalography",
            "tensorflow-electroencephalography",
            "tensorflow_project",
        ),
        (
            "TensorFlow IO GCS filesystem",
            "tensorflow-io-gcs-filesystem-project",
            "tensorflow_io_gcs_project",
        ),
    ],
)
def test_names_derived_from_any_project_name_are_safe(
    render: Render, name: str, slug: str, package: str
) -> None:
    project = render(project_name=name)
    assert project.name == slug
    assert (project / package / "task").is_dir()


def test_a_package_name_derived_from_any_slug_is_safe(render: Render) -> None:
    assert (render(project_slug="email") / "email_project").is_dir()
    assert (render(project_slug="2.Fast") / "project_2_fast").is_dir()


@pytest.mark.parametrize("text", NASTY_TEXTS.values(), ids=NASTY_TEXTS)
def test_any_text_arrives_as_it_was_typed(render: Render, text: str) -> None:
    project = render(
        project_name=text, project_slug="s", package_name="p", description=text, author_name=text
    )
    written = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert written["description"] == text
    assert written["authors"] == [{"name": text}]
    assert text in (project / "LICENSE").read_text(encoding="utf-8")
    for name, data in files(project).items():
        if parse := PARSERS.get(Path(name).suffix):
            parse(data.decode())


@pytest.mark.parametrize("text", ["<!-- task -->```", "~~~ now", "`````"])
def test_a_description_cannot_swallow_the_readme(render: Render, text: str) -> None:
    page = (render(description=text) / "README.md").read_text(encoding="utf-8")
    assert page.count("<!--") == page.count("~~~") == 0
    assert page.count("```") == (render() / "README.md").read_text(encoding="utf-8").count("```")


def test_every_name_that_means_something_to_python_is_known_as_taken() -> None:
    names = {*sys.stdlib_module_names, *keyword.kwlist, *keyword.softkwlist}
    usable = {
        name for name in names if name.islower() and not name.startswith("_")
    }  # others are no package names here
    assert usable - set(CONFIG["_taken_names"].split()) == set()


@pytest.mark.environment
def test_every_name_that_the_project_depends_on_is_known_as_taken(render: Render) -> None:
    project = tomllib.loads((render() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = with_their_own([*project["dependencies"], *project["optional-dependencies"]["dev"]])
    assert {"tensorflow", "gast"} <= needed
    assert needed - set(CONFIG["_dependencies"].split()) == set()
    imported = {
        module
        for module, owners in metadata.packages_distributions().items()
        if re.fullmatch("[a-z][a-z0-9_]*", module) and needed & set(map(canonicalize_name, owners))
    }
    assert imported - set(CONFIG["_taken_names"].split()) == set()


def with_their_own(requirements: list[str]) -> set[str]:
    """The names of distributions, and of all that they require, as far as installed here."""
    found: set[str] = set()
    todo = list(map(Requirement, requirements))
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        if name in found and not requirement.extras:
            continue
        found.add(name)
        with contextlib.suppress(metadata.PackageNotFoundError):
            for needed in map(Requirement, metadata.requires(name) or []):
                extras = {"", *requirement.extras}
                if not needed.marker or any(needed.marker.evaluate({"extra": e}) for e in extras):
                    todo.append(needed)
    return found


def test_every_module_of_the_tests_is_known_as_taken(render: Render) -> None:
    modules = {path.stem for path in (render() / "tests").rglob("*.py")} - {"__init__"}
    assert modules - set(CONFIG["_taken_names"].split()) == set()


@pytest.mark.parametrize(
    "name", ["six", "Typing Extensions", "python.dateutil", "Test", "conftest"]
)
def test_a_project_named_like_what_it_needs_gets_another_name(render: Render, name: str) -> None:
    project = render(project_name=name)
    assert project.name.endswith("-project")
    assert [path for path in project.iterdir() if path.name.endswith("_project")]


def test_every_name_that_the_project_uses_is_known_as_taken(project: Path) -> None:
    imported = {"my_experiment"}
    for name, data in files(project).items():
        if name.endswith(".py"):
            for node in ast.walk(ast.parse(data)):
                if isinstance(node, ast.Import):
                    imported |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    imported.add(node.module.split(".")[0])
    own = {
        path.stem
        for path in project.iterdir()
        if path.suffix in {"", ".py"} and not path.name.startswith(".")
    }
    own.discard("LICENSE")
    used = {name for name in imported | own if name.islower() and not name.startswith("_")}
    assert used - {"my_experiment"} - set(CONFIG["_taken_names"].split()) == set()
