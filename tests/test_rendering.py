"""Every choice gives exactly its files, complete, with names that are legal everywhere."""

import ast
import json
import re
import sys
from pathlib import Path

import yaml
from conftest import CONFIG, ROOT, TEMPLATE, Render, files
from cookiecutter.main import cookiecutter

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Combination = tuple[str, str, str, str, Path]
FILE_SETS = ROOT / "tests" / "file_sets"
BINARY = {".npz"}
PARSERS = {
    ".py": ast.parse,
    ".toml": tomllib.loads,
    ".json": json.loads,
    ".cff": yaml.safe_load,
    ".yaml": lambda text: list(yaml.safe_load_all(text)),
    ".yml": yaml.safe_load,
}


SLURM = ["cluster/train.sbatch"]
KUBERNETES = ["cluster/jobset.yaml", "cluster/storage.yaml", "Dockerfile", ".dockerignore"]
OF_CLUSTER = {
    "none": [], "slurm": SLURM, "kubernetes": KUBERNETES, "all": SLURM + KUBERNETES,
}  # fmt: skip


def expected_files(starter: str, license: str, cluster: str, extras: str) -> set[str]:
    names = [
        *(FILE_SETS / "common.txt").read_text().split(),
        *(FILE_SETS / f"{starter}.txt").read_text().split(),
        *OF_CLUSTER[cluster],
    ]
    if extras == "yes":
        names += (FILE_SETS / "extras.txt").read_text().split()
    if license != "none":
        names.append("LICENSE")
    return {name.replace("PACKAGE", "my_experiment") for name in names}


def texts(project: Path) -> dict[str, str]:
    return {
        name: data.decode()
        for name, data in files(project).items()
        if Path(name).suffix not in BINARY
    }


def test_every_combination_gives_exactly_its_files(combination: Combination) -> None:
    *choices, project = combination
    found, expected = set(files(project)), expected_files(*choices)
    assert {"missing": expected - found, "not in tests/file_sets": found - expected} == {
        "missing": set(),
        "not in tests/file_sets": set(),
    }


def test_no_empty_directory_is_left(combination: Combination) -> None:
    *_, project = combination
    assert [path for path in project.rglob("*") if path.is_dir() and not any(path.iterdir())] == []


def test_nothing_of_the_template_is_left_over(combination: Combination) -> None:
    *_, project = combination
    of_jinja = r"(?<!\$)\{\{|\{%|cookiecutter(?!-tf-distributed)"  # ${{ }} is GitHub's
    leftover = re.compile(rf"{of_jinja}|<!-- task -->", re.IGNORECASE)
    found = [
        (name, match[0])
        for name, text in texts(project).items()
        if (match := leftover.search(name + text))
    ]
    assert found == []


def test_every_file_parses(combination: Combination) -> None:
    *_, project = combination
    for name, text in texts(project).items():
        if parse := PARSERS.get(Path(name).suffix):
            parse(text)


def test_every_text_file_ends_in_one_newline_and_has_no_trailing_spaces(
    combination: Combination,
) -> None:
    *_, project = combination
    for name, text in texts(project).items():
        if text:  # an empty __init__.py is fine
            assert text.endswith("\n"), name
            assert not text.endswith("\n\n"), name
        assert not re.search(r"[ \t\r]$", text, re.MULTILINE), name


def test_every_path_is_legal_on_windows(combination: Combination) -> None:
    *_, project = combination
    reserved = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
    names = list(files(project))
    for name in names:
        for part in name.split("/"):
            assert not re.search(r'[<>:"\\|?*\x00-\x1f]|[. ]$', part), name
            assert not reserved.fullmatch(part), name
        assert len(name) < 120, name
    assert len({name.lower() for name in names}) == len(names)


def test_the_license_is_the_chosen_one(combination: Combination) -> None:
    _, license, _, _, project = combination
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if license == "none":
        assert not (project / "LICENSE").exists()
        assert "license" not in metadata
    else:
        first_lines = {
            "MIT": "MIT License",
            "BSD-3-Clause": "BSD 3-Clause License",
            "Apache-2.0": "Apache License",
        }
        assert (
            (project / "LICENSE")
            .read_text(encoding="utf-8")
            .lstrip()
            .startswith(first_lines[license])
        )
        assert metadata["license"] == license


def test_data_files_are_copied_to_the_byte(template_copy: Path, tmp_path: Path) -> None:
    (task,) = template_copy.glob("*slug}}/starters/image_classification/task")
    (task / "looks_like_text.npz").write_bytes(b"{{ 7 * 7 }}")
    project = cookiecutter(str(template_copy), no_input=True, output_dir=tmp_path)
    for source in task.glob("*.npz"):
        copy = Path(project) / "my_experiment" / "task" / source.name
        assert copy.read_bytes() == source.read_bytes()


def test_the_readme_describes_the_starter(project: Path) -> None:
    page = (project / "README.md").read_text(encoding="utf-8")
    headings = (
        section.read_text(encoding="utf-8").splitlines()[0]
        for section in TEMPLATE.glob("starters/*/README.md")
    )
    assert [heading in page.splitlines() for heading in headings].count(True) == 1


def test_the_readme_tree_names_the_files_of_the_task(project: Path) -> None:
    page = (project / "README.md").read_text(encoding="utf-8")
    for source in (project / "my_experiment" / "task").glob("[a-z]*.py"):
        assert source.name in page


def test_starters_share_everything_outside_the_task(render: Render) -> None:
    shared = []
    for starter in CONFIG["starter"]:
        rendered = files(render(starter=starter))
        del rendered["README.md"]
        rendered.pop("conftest.py", None)  # of the blank starter: skips tests at its TODOs
        shared.append(
            {
                name: data
                for name, data in rendered.items()
                if not name.startswith("my_experiment/task/")
            }
        )
    assert all(other == shared[0] for other in shared)


def test_a_stray_pycache_does_not_reach_the_project(template_copy: Path, tmp_path: Path) -> None:
    caches = [
        next(template_copy.glob("*slug}}/*package_name}}")),
        next(template_copy.glob("*slug}}/starters/*/task")),
    ]
    for directory in caches:
        (directory / "__pycache__").mkdir()
        (directory / "__pycache__" / "stale.cpython-311.pyc").write_bytes(b"\x00")
    project = cookiecutter(str(template_copy), no_input=True, output_dir=tmp_path)
    assert list(Path(project).rglob("__pycache__")) == []
