"""The template agrees with itself."""

import re

from conftest import CONFIG, ROOT, STARTERS, TEMPLATE
from proofs import NAMES
from test_rendering import FILE_SETS, tomllib


def test_there_are_exactly_nine_prompts_each_with_a_text() -> None:
    prompts = [key for key in CONFIG if not key.startswith("_")]
    assert prompts == [
        *("project_name", "project_slug", "package_name", "description", "author_name"),
        *("starter", "license", "cluster", "extras"),
    ]
    assert list(CONFIG["__prompts__"]) == prompts
    for key in ("starter", "license", "cluster"):
        assert set(CONFIG["__prompts__"][key]) == {"__prompt__", *CONFIG[key]}


def test_every_choice_of_starter_is_a_directory_with_a_task_and_a_page() -> None:
    directories = {path.name for path in (TEMPLATE / "starters").iterdir() if path.is_dir()}
    assert directories == set(STARTERS)
    for starter in STARTERS:
        assert (TEMPLATE / "starters" / starter / "task" / "__init__.py").exists()
        assert (TEMPLATE / "starters" / starter / "README.md").exists()


def test_every_choice_of_license_is_a_file() -> None:
    assert {path.name for path in (TEMPLATE / "licenses").iterdir()} == set(CONFIG["license"]) - {
        "none"
    }


def test_every_choice_of_cluster_is_a_directory_none_or_all() -> None:
    directories = {path.name for path in (TEMPLATE / "launchers").iterdir()}
    assert directories == set(CONFIG["cluster"]) - {"none", "all"}


def test_the_hook_knows_the_choices() -> None:
    hook = (ROOT / "hooks" / "pre_gen_project.py").read_text(encoding="utf-8")
    for key in ("starter", "license", "cluster"):
        assert f'"{key}": "{" ".join(CONFIG[key])}"' in hook


def test_every_expected_file_set_belongs_to_a_starter() -> None:
    assert {path.stem for path in FILE_SETS.iterdir()} == {"common", "extras", *STARTERS}


def test_actions_are_pinned_by_hash_and_get_no_token() -> None:
    for file in (ROOT / ".github" / "workflows").iterdir():
        text = file.read_text(encoding="utf-8")
        used = re.findall(r"uses: (.*)", text)
        assert [use for use in used if not re.fullmatch(r"\S+@[0-9a-f]{40}  # v[\d.]+", use)] == []
        checkouts = sum(use.startswith("actions/checkout@") for use in used)
        assert text.count("persist-credentials: false") == checkouts
        assert "permissions:\n  contents: read\n" in text


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert CONFIG["_template_version"] == version
    released = re.findall(r"^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[:1] in ([], [version])


def test_the_map_of_contributing_has_every_session_and_says_what_full_makes() -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.*?) \|", page, re.MULTILINE)
    sessions = {name.partition(" -- ")[0] for name, _ in rows}
    assert sessions == set(re.findall(r"^@nox\.session.*\ndef (\w+)", noxfile, re.MULTILINE))
    (whole,) = re.findall(r"^PROVED = (\(.*?\))", noxfile, re.MULTILINE)
    assert {name.removeprefix("proofs -- ") for name, _ in rows if " -- " in name} == set(NAMES)
    _, _, made = dict(rows)["full"].partition("the proofs")
    assert set(re.findall(r"`(\w+)`", made)) == set(re.findall(r'"(\w+)"', whole)) > set()
