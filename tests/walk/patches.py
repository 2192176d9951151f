"""What a person writes, TODO by TODO: the blocks of docs/tutorial.md."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"<!-- walk: (\d+) (\w+\.py) -->\n```python\n(.*?)```", re.DOTALL)
FUTURE = "from __future__ import annotations\n\n"


class Patch(NamedTuple):
    """One TODO filled in: imports, and what replaces functions or classes of the same names."""

    number: int
    file: str
    code: str

    def apply(self, text: str) -> str:
        """A file of the task with this TODO filled in, and its marker gone."""
        text = re.sub(rf"# TODO\({self.number}\):.*\n(# .*\n)*", "", text)
        written = definitions(self.code)
        names, begin = {node.name for node in written}, start(written[0])
        old = [node for node in definitions(text) if node.name in names]
        lines, new = text.splitlines(True), self.code.splitlines(True)
        lines[start(old[0]) : old[-1].end_lineno] = new[begin:]
        imports = "".join(new[:begin]).strip()
        text = "".join(lines)
        if "TodoError(" not in text:
            text = text.replace("from .next_todo import TodoError\n", "")
        return text.replace(FUTURE, f"{FUTURE}{imports}\n" if imports else FUTURE)

    def lines(self, text: str) -> int:
        """How many lines a person had to write that the file didn't have."""
        have = set(text.splitlines())
        return len([line for line in self.code.splitlines() if line and line not in have])


def definitions(code: str) -> list[ast.FunctionDef | ast.ClassDef]:
    """The functions and classes of a file."""
    found = ast.parse(code).body
    return [node for node in found if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def start(node: ast.FunctionDef | ast.ClassDef) -> int:
    """The first line of a definition, from 0."""
    return min([node, *node.decorator_list], key=lambda n: n.lineno).lineno - 1


PATCHES = [
    Patch(int(number), file, code)
    for number, file, code in BLOCK.findall(PAGE.read_text(encoding="utf-8"))
]
