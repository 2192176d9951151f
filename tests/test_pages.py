"""The pages name only files, links, flags and TODOs that exist."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import ROOT, STARTERS, TEMPLATE, Render, files, python_m

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OTHERS = {  # flags of other commands, and those that stand for no setting
    *(
        "--no-input",
        "--accept-hooks",
        "--checkout",
        "--logdir",
        "--upgrade",
        "--constraint",
        "--universal",
    ),
    "--version",
    *("--kill-on-bad-exit", "--signal", "--wait"),  # of Slurm
    *(
        "--help",
        "--config",
        "--split",
        "--save-every",
        "--only",
        "--list",
        "--output",
        "--jobs",
        "--mean-over",
        "--no-open",
    ),
}


def read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def tree(page: Path) -> tuple[set[str], list[str]]:
    """The files in the first tree of a page, and the folders of which `...` leaves out some."""
    (block, *_) = re.findall(r"```\n(\S.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    folders: list[str] = []
    found, shortened = set(), []
    for line in block.splitlines():
        indent, name = re.match(r"( *)(\S+)", line).groups()  # type: ignore[union-attr]
        del folders[len(indent) // 2 :]
        if name.endswith("/"):
            folders.append(name)
        elif name == "...":
            shortened.append("".join(folders[1:]))
        else:
            found.add("".join([*folders[1:], name]))
    return found, shortened


def anchors(page: Path) -> set[str]:
    """Where a link into a page can point."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_the_first_page_shows_the_tree_that_is_rendered(render: Render) -> None:
    shown, shortened = tree(ROOT / "README.md")
    rendered = set(files(render()))
    assert shown <= rendered
    left_out = [file for file in rendered - shown if not file.startswith(tuple(shortened))]
    assert not left_out
    assert all("/engine/" in f"/{folder}" for folder in shortened), "the rest is shown in full"


def test_the_first_page_says_how_long_the_code_is(render: Render) -> None:
    stated = r"about (\S+) lines of task, .*, and (\S+) of\s+engine, half of which is `check`"
    (found,) = re.findall(stated, read(ROOT / "README.md"))
    task, engine = (int(number.replace(",", "")) for number in found)
    lengths = {
        file: text.count(b"\n") for file, text in files(render()).items() if file.endswith(".py")
    }
    of_task, of_engine, of_check = (
        sum(lines for file, lines in lengths.items() if f"/{folder}/" in file)
        for folder in ("task", "engine", "engine/check")
    )
    assert (round(of_task, -2), round(of_engine, -4)) == (task, engine)
    assert of_check == pytest.approx(of_engine / 2, rel=0.1)


def test_the_design_page_says_where_every_file_of_the_engine_is(render: Render) -> None:
    page = read(ROOT / "docs" / "design-decisions.md")
    engine = [file.partition("/")[2] for file in files(render()) if "my_experiment/engine/" in file]
    of_engine = [file for file in engine if file.count("/") == 1 and "__init__" not in file]
    assert len(of_engine) > 40
    assert [file for file in of_engine if f"`{file}`" not in page] == []


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)]+)\)", text):
            if "://" in link:
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_the_site_has_every_page_and_fetches_nothing(tmp_path: Path) -> None:
    # -W: a link that leads nowhere and a page without a place in the contents are warnings.
    python_m("sphinx", "-q", "-W", "-b", "html", "-c", "docs", ".", tmp_path, cwd=ROOT)
    contents = read(tmp_path / "README.html")
    for page in PAGES:
        html = page.relative_to(ROOT).with_suffix(".html").as_posix()
        assert f'href="{html}"' in contents or page.stem == "README"
        used = re.findall(
            r'<(?:link|script|img)\b[^>]*(?:href|src)="([^"]+)', read(tmp_path / html)
        )
        assert used
        assert not [address for address in used if "://" in address]
    assert "README.html" in read(tmp_path / "index.html")


def test_the_glossary_has_each_term_once() -> None:
    glossary = read(ROOT / "docs" / "glossary.md")
    terms = re.findall(r"^\| \*\*(.+?)\*\*", glossary, re.MULTILINE)
    assert len(terms) > 30
    assert len(set(terms)) == len(terms)


def test_pictures_are_small_and_shown() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert picture.stat().st_size <= 150_000, picture.name
        assert f"pictures/{picture.name})" in text, picture.name


def test_flags_that_pages_name_exist() -> None:
    sources = [
        *TEMPLATE.glob("*package_name*/config.py"),
        *TEMPLATE.glob("starters/*/task/config.py"),
        ROOT / "docs" / "tutorial.md",
    ]
    fields = re.findall(r"^    (\w+): ", "\n".join(s.read_text() for s in sources), re.MULTILINE)
    known = OTHERS | {f"--{name.replace('_', '-')}" for name in fields}
    for page in [*PAGES, TEMPLATE / "README.md", *TEMPLATE.glob("starters/*/README.md")]:
        text = re.sub(r"```bash.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        named = {flag.rstrip("-") for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)}
        assert named <= known, page


def test_every_flag_has_a_help_text() -> None:
    sources = [
        *TEMPLATE.glob("*package_name*/config.py"),
        *TEMPLATE.glob("starters/*/task/config.py"),
    ]
    assert len(sources) == 1 + len(STARTERS)
    for source in sources:
        lines = read(source).splitlines()
        for above, line in pairwise(lines):
            if field := re.match(r"    (\w+): .+ = ", line):
                is_described = "  # " in line or above.startswith("    # ")
                assert is_described, f"{source}: {field[1]}"


def test_the_list_of_todos_is_that_of_every_starter(render: Render) -> None:
    for starter in STARTERS:
        project = render(starter=starter)
        page = (project / "README.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| ([\d, ]+) \| `(\w+\.py)` \|", page, re.MULTILINE)
        listed = {(int(n), file) for numbers, file in rows for n in numbers.split(",")}
        task = project / "my_experiment" / "task"
        found = {
            (int(n), file.name)
            for file in task.glob("*.py")
            for n in re.findall(r"# TODO\((\d+)\): ", file.read_text(encoding="utf-8"))
        }
        assert listed == found, starter
