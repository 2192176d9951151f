"""The documentation site: `nox -s site` builds it from the pages as they are read on GitHub.

The source directory is the repository, so that links between README, docs/ and benchmarks/ hold.
"""

from pathlib import Path

from sphinx.application import Sphinx

project = "cookiecutter-tf-distributed"
html_title = project
copyright = f"The {project} authors"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "benchmarks/*.md"]
exclude_patterns = [".nox", ".venv", "build", "[{][{]*", "**/__pycache__", "tests"]
myst_heading_anchors = 3  # as GitHub makes them
html_theme = "furo"
html_extra_path = ["index.html"]  # leads to README.html

SECTIONS = {
    "Start": (
        "docs/tutorial",
        "docs/questions",
        "docs/starters",
        "docs/pictures",
        "docs/comparison",
    ),
    "Write": ("docs/data", "docs/losses", "docs/steps", "docs/recipes", "docs/tasks"),
    "Run": ("docs/check", "docs/symptoms", "docs/workers", "docs/launchers", "docs/scaling"),
    "Words and reasons": ("docs/glossary", "docs/design-decisions"),
}
REST = "Measured"  # what no section names


def add_contents(_: Sphinx, docname: str, source: list[str]) -> None:
    """Give the first page a table of contents, which GitHub would show as a block of code."""
    if docname != root_doc:
        return
    root = Path(__file__).parents[1]
    pages = [
        str(page.relative_to(root).with_suffix("").as_posix())
        for pattern in include_patterns
        for page in sorted(root.glob(pattern))
    ]
    named = {page for section in SECTIONS.values() for page in section} | {root_doc}
    rest = tuple(page for page in pages if page not in named)
    for caption, section in (SECTIONS | {REST: rest}).items():
        entries = "\n".join(section)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", add_contents)
