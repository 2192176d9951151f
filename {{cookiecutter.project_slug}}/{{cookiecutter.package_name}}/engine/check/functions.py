"""What the functions of a task name and hold."""

from __future__ import annotations

import ast
import dis
import functools
import types
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..callbacks import Callback

ASSIGN = ("assign", "assign_add", "assign_sub")  # methods of a variable
SETS_WEIGHTS = {*ASSIGN, "set_weights"}
STORES = ("STORE_DEREF", "STORE_GLOBAL")  # of a function that has state
NOT_SET = types.CellType()  # of a variable that has no value yet


def named_in(function: types.FunctionType) -> tuple[set[str], list[Any], bool]:
    """What a function and those of its module that it calls name, the values, and if it has state.

    A number that it counts, or a list that it holds, may decide what it does.
    """
    names, held, has_state = set[str](), list[Any](), False
    called = [function.__globals__.get(name) for name in function.__code__.co_names]
    for one in (function, *(f for f in called if isinstance(f, types.FunctionType))):
        if one.__module__ != function.__module__:
            continue
        code, cells = one.__code__, one.__closure__ or ()
        names |= _names_in(code)
        held += [one.__globals__.get(name) for name in code.co_names]
        held += (values := [cell.cell_contents for cell in cells if cell != NOT_SET])
        has_state |= any(isinstance(value, list | dict | set | deque) for value in values)
        has_state |= any(i.opname in STORES for i in dis.get_instructions(code))
    return names, held, has_state


def named_by_callbacks(callbacks: Iterable[Callback]) -> tuple[set[str], list[Any]]:
    """What the functions among callbacks name, and the values."""
    functions = (callback.function for callback in callbacks)
    found = [named_in(each) for each in functions if isinstance(each, types.FunctionType)]
    return set().union(*(names for names, *_ in found)), [v for _, held, _ in found for v in held]


def _names_in(code: types.CodeType) -> set[str]:
    """What code names, also inside of its generators, comprehensions and inner functions."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return {*code.co_names}.union(*map(_names_in, inner))


def tree_of(code: types.CodeType) -> ast.AST:
    """The definition of a function; an empty module if its source can't be read."""
    nodes = (node for node in ast.walk(parsed(code.co_filename))
             if isinstance(node, ast.FunctionDef | ast.Lambda))  # fmt: skip
    lines = ((min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]), node)
             for node in nodes)  # fmt: skip
    return next((node for line, node in lines if line == code.co_firstlineno), ast.Module([], []))


@functools.cache
def parsed(file: str) -> ast.Module:
    """A file of code; an empty module if it can't be read."""
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):  # such as code from exec
        return ast.Module([], [])
