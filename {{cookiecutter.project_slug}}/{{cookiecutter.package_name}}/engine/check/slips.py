"""Relations of mistakes that Python and TensorFlow accept without a warning."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .findings import Finding, look, ok, relation, wrong
from .functions import NOT_SET, parsed, tree_of
from .laboratory import Laboratory

MOST = 1_000  # elements of a list that are visited
DEEP = 6  # attributes, elements and variables on the way to a function
LIBRARIES = ("keras", "tensorflow", "numpy")
AS_A_WHOLE = {"asdict", "vars", "fields", "__dict__", "getattr"}
COUNTED = ("step", "epoch")  # attributes of an event or a replica
WHOLE = ("int", "round", "math.floor")
LOOPS = ast.For | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
SAME = ast.Name | ast.Attribute | ast.Constant | ast.expr_context  # as in task.limit


@relation("loop variables")
def loop_variables(lab: Laboratory) -> Finding:
    """Functions that are created in a loop keep the values of that iteration."""
    made: dict[types.CodeType, list[types.FunctionType]] = {}
    for function, _ in _functions(lab):
        made.setdefault(function.__code__, []).append(function)
    for code, (first, *others) in made.items():
        changing = _set_in_loops(code) if others and code.co_freevars else set()
        cells = {id(cell) for function in others for cell in function.__closure__ or ()}
        for variable, cell in zip(code.co_freevars, first.__closure__ or (), strict=True):
            if variable in changing and id(cell) in cells:  # instead of one for each function
                return wrong(
                    f"{1 + len(others)} functions of {Path(code.co_filename).name}, line "
                    f"{code.co_firstlineno}, share the variable {variable} of the loop that "
                    "creates them",
                    f"late binding: when they are called, {variable} has its last value",
                    f"bind it by a parameter {variable}={variable}, or functools.partial",
                )
    return ok()


@relation("fractions of the run")
def fractions_of_the_run(lab: Laboratory) -> Finding:
    """No number of steps or epochs is compared with a fraction of the run."""
    for function, owner in _functions(lab):
        for node in ast.walk(tree_of(function.__code__)):
            if not isinstance(node, ast.Compare):
                continue
            sides = [node.left, *node.comparators]
            times = [name for x in sides if (name := _counted(function, x))]
            values = [_value(lab, function, owner, x) for x in sides]
            fraction = next((x for x in values if isinstance(x, float) and 0 < x < 1), None)
            if times and fraction is not None:
                return wrong(
                    f"{function.__name__} of {Path(function.__code__.co_filename).name}, line "
                    f"{node.lineno}, compares a number of {times[0]}s with {fraction:g}",
                    "a fraction of the run is taken for a number, so it is passed at once",
                    f"multiply it by the number of {times[0]}s of the run",
                )
    return ok()


@relation("settings")
def settings(lab: Laboratory) -> Finding:
    """The task uses each of its settings."""
    directory = Path(sys.modules[type(lab.task).__module__].__file__ or "").parent
    project = directory.parents[1].glob("*.py"), directory.parent.glob("*.py")
    files = itertools.chain(directory.rglob("*.py"), *project)
    places = [(file, node) for file in files for node in _used_in(file)]
    for file, node in places:
        if isinstance(node, ast.Call) and (setting := _cut_to_whole(lab.task, node)):
            return wrong(
                f"{ast.unparse(node)} of {file.name}, line {node.lineno}, is a whole number, and "
                f"{setting} a fraction",
                "nothing is left of the fraction before it is multiplied",
                f"multiply first: int(task.{setting} * ...)",
            )
    nodes = [node for _, node in places]
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    used |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    if used.union(names) & AS_A_WHOLE:
        return ok("not looked at: the task goes through all its settings")
    if unused := [f.name for f in dataclasses.fields(lab.task) if f.name not in used]:
        return look(
            f"nothing uses {', '.join(unused)} of {directory.name}/config.py",
            "it isn't passed on, so its value changes nothing",
            "pass it on, or remove it",
        )
    return ok()


def _used_in(file: Path) -> Iterator[ast.AST]:
    """The nodes of a file; not those that define or validate settings."""
    for node in parsed(str(file)).body:
        of_class = node.body if isinstance(node, ast.ClassDef) and file.stem == "config" else [node]
        for each in of_class:
            if getattr(each, "name", "") != "__post_init__":
                yield from ast.walk(each)


def _cut_to_whole(task: Any, node: ast.Call) -> str:
    """The setting, a fraction, of which a call such as int(task.warmup) leaves nothing; or ""."""
    given = node.args[0] if len(node.args) == 1 else None
    if ast.unparse(node.func) not in WHOLE or not isinstance(given, ast.Attribute):
        return ""
    if _owner(given) != "task":
        return ""
    value = getattr(task, given.attr, None)
    return given.attr if isinstance(value, float) and 0 < value < 1 else ""


def _counted(function: types.FunctionType, node: ast.expr) -> str:
    """The name of the step or epoch of a parameter, such as an event or a replica; or nothing."""
    code = function.__code__
    names = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]} - {"self"}
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if node.attr in COUNTED and node.value.id in names else ""
    return ""


def _value(lab: Laboratory, function: types.FunctionType, owner: Any, node: ast.expr) -> Any:
    """What a constant, a variable around a function, an attribute of its owner or a setting is.

    None for anything else.
    """
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held = {name: cell.cell_contents for name, cell in cells if cell != NOT_SET}
        return held.get(node.id, function.__globals__.get(node.id))
    if isinstance(node, ast.Attribute) and _owner(node) == "task":
        return getattr(lab.task, node.attr, None)
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
        return getattr(owner, node.attr, None)
    return None


def _owner(node: ast.Attribute) -> str:
    """What has an attribute: "task" of task.warmup and of self._task.warmup."""
    return ast.unparse(node.value).split(".")[-1].lstrip("_")


def _functions(lab: Laboratory) -> Iterator[tuple[types.FunctionType, Any]]:
    """The functions of the project that a run and its callbacks hold, and what they belong to."""
    run = lab.run
    roots = [lab.create_callbacks(), run.losses, run.metrics, run.optimizers, run.layers,
             run.functions, lab.batches.augment]  # fmt: skip
    seen = set[int]()
    things: list[tuple[Any, Any, int]] = [(root, None, 0) for root in roots]
    for thing, owner, depth in things:  # which grows
        if id(thing) in seen or depth > DEEP or isinstance(thing, types.ModuleType | type):
            continue
        seen.add(id(thing))
        held: list[Any] = []
        if isinstance(thing, types.FunctionType):
            if (thing.__module__ or "").startswith(LIBRARIES):
                continue
            held = [cell.cell_contents for cell in thing.__closure__ or () if cell != NOT_SET]
            yield thing, owner
        elif isinstance(thing, types.MethodType):
            things.append((thing.__func__, thing.__self__, depth + 1))
            held = [thing.__self__]
        elif isinstance(thing, functools.partial):
            held = [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            held = [*thing]
        elif isinstance(thing, dict):
            held = [*thing.values()]
        elif not type(thing).__module__.startswith(("tensorflow", "numpy")):
            held = [*getattr(thing, "__dict__", {}).values()]
            call = vars(type(thing)).get("__call__")  # as of a callback that has a state
            held += [types.MethodType(call, thing)] if isinstance(call, types.FunctionType) else []
        things += [(each, None, depth + 1) for each in held[:MOST]]


def _set_in_loops(code: types.CodeType) -> set[str]:
    """The names that a loop or a comprehension around a function sets, not always to the same."""
    nodes = {
        node
        for loop in ast.walk(parsed(code.co_filename))
        if isinstance(loop, LOOPS)
        and loop.lineno <= code.co_firstlineno <= (loop.end_lineno or loop.lineno)
        for node in ast.walk(loop)
    }
    names = (node for node in nodes if isinstance(node, ast.Name))
    times = Counter(name.id for name in names if isinstance(name.ctx, ast.Store))
    same = {
        ast.unparse(node.targets[0])
        for node in nodes
        if isinstance(node, ast.Assign) and all(
            isinstance(part, SAME) and getattr(part, "id", "") not in times
            for part in ast.walk(node.value)
        )
    }  # fmt: skip
    return {name for name, number in times.items() if number > 1 or name not in same}
