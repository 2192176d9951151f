"""The relations of `check` as its source lists them: importing them would take seconds."""

from __future__ import annotations

import ast
from pathlib import Path

from .errors import UsageError

CHECK = Path(__file__).with_name("check")


def select(only: tuple[str, ...] = ()) -> dict[str, str]:
    """The names of relations that contain one of these texts, in the order of a report.

    With the claim of each; all relations if there are no texts.

    Raises:
        UsageError: no name contains one of them.
    """
    claims = _claims()
    for text in only:
        if not any(text in name for name in claims):
            raise UsageError(f"no relation has {text!r} in its name; see --list.")
    return {
        name: claim for name, claim in claims.items()
        if not only or any(text in name for text in only)
    }  # fmt: skip


def _claims() -> dict[str, str]:
    """The first line of the docstring of each relation, by its name."""
    claims = {}
    for imported in _parsed("__init__").body:
        if not isinstance(imported, ast.ImportFrom) or imported.module:
            continue
        for module in imported.names:
            for node in _parsed(module.name).body:
                if isinstance(node, ast.FunctionDef) and (name := _name_of_relation(node)):
                    text = ast.get_docstring(node) or ""
                    claims[name] = text.partition("\n")[0].rstrip(".")
    return claims


def _parsed(module: str) -> ast.Module:
    return ast.parse((CHECK / f"{module}.py").read_text(encoding="utf-8"))


def _name_of_relation(function: ast.FunctionDef) -> str:
    """What its decorator @relation is given first; "" if it has none."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "relation":
            return str(ast.literal_eval(decorator.args[0]))
    return ""
