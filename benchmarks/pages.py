"""What commands write into pages: their own line, and tables between two markers."""

import shlex
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def command() -> str:
    """The command of this process, with its arguments."""
    return shlex.join(["python", *sys.argv])


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def replaced(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers `<!-- name -->` and `<!-- end of name -->`.

    Raises:
        ValueError: the page hasn't both markers, each once.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"The page needs {begin} and {end}, once each.")
    before, after = page.split(begin)[0], page.split(end)[1]
    return f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}"


def write(file: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of a page."""
    file.write_text(replaced(file.read_text(encoding="utf-8"), name, text), encoding="utf-8")
