"""Relations of mistakes that Python and TensorFlow accept without a warning."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from .findings import Finding, look, ok, relation, wrong
from .graph import RESHAPES, upstream
from .laboratory import Laboratory

SCALES = RESHAPES | {"Mul"}
COUNTS = SCALES | {"Placeholder", "Const", "AddV2", "Sub", "Minimum", "Maximum"}
MOST = 1_000  # elements of a list that are visited
DEEP = 6  # attributes, elements and variables on the way to a function
LIBRARIES = ("keras", "tensorflow", "numpy")
LOOPS = ast.For | ast.While | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@relation("loop variables")
def loop_variables(lab: Laboratory) -> Finding:
    """Functions that are created in a loop keep the values of that iteration."""
    run = lab.run
    roots = [lab.create_callbacks(), run.losses, run.metrics, run.optimizers, run.layers,
             run.functions, lab.batches.augment]  # fmt: skip
    made: dict[types.CodeType, list[types.FunctionType]] = {}
    for function in _functions(roots):
        made.setdefault(function.__code__, []).append(function)
    for code, functions in made.items():
        first, *others = functions
        if not others or not code.co_freevars:
            continue
        changing = _set_in_loops(code)
        for variable, cell in zip(code.co_freevars, first.__closure__ or (), strict=True):
            # All of them share one cell instead of having one each.
            if variable in changing and any(cell is c for f in others for c in f.__closure__ or ()):
                return wrong(
                    f"{len(functions)} functions of {Path(code.co_filename).name}, line "
                    f"{code.co_firstlineno}, share the variable {variable} of the loop that "
                    "creates them",
                    f"late binding: a function reads {variable} when it is called, and by then it "
                    "has the value of the last iteration",
                    "bind the value when the function is created: a parameter "
                    f"{variable}={variable}, or functools.partial",
                )
    return ok()


@relation("whole numbers")
def whole_numbers(lab: Laboratory) -> Finding:
    """A value that grows with the steps isn't rounded down to 0 by integer division."""
    step, steps = lab.traced.step, lab.num_steps
    for op in lab.traced.ops:
        divisor = tf.get_static_value(op.inputs[1]) if op.type == "FloorDiv" else None
        if divisor is None or not op.inputs[0].dtype.is_integer or not divisor > 1:
            continue
        behind = upstream(op.inputs[:1])
        if step not in behind or not {o.type for o in behind.values()} <= COUNTS:
            continue
        used = list(op.outputs[0].consumers())
        for use in used:  # which grows
            used += [u for t in use.outputs for u in t.consumers() if use.type in SCALES]
        ends_at_one = any(
            tf.get_static_value(t) == 1 for u in used if u.type == "Minimum" for t in u.inputs
        )
        if ends_at_one:
            return wrong(
                f"a share of {divisor} steps is divided by //, so it is 0 until step {divisor} of "
                f"{steps}, and then jumps to 1",
                "integer division (//) rounds down",
                "use floating-point division: tf.cast(replica.step, tf.float32) / steps",
            )
        if divisor >= steps:
            return look(
                f"the step is divided by {divisor} with //, which gives 0 in all {steps} steps",
                "integer division (//) rounds down",
                "use floating-point division: tf.cast(replica.step, tf.float32) / steps",
            )
    return ok()


def _functions(roots: Iterable[Any]) -> Iterator[types.FunctionType]:
    """The functions of the project that some objects hold."""
    seen, things = set[int](), [(root, 0) for root in roots]
    for thing, depth in things:  # which grows
        if id(thing) in seen or depth > DEEP or isinstance(thing, types.ModuleType | type):
            continue
        seen.add(id(thing))
        held: list[Any] = []
        if isinstance(thing, types.FunctionType):
            if thing.__module__.startswith(LIBRARIES):
                continue
            held = [cell.cell_contents for cell in thing.__closure__ or () if _is_set(cell)]
            yield thing
        elif isinstance(thing, types.MethodType):
            held = [thing.__func__, thing.__self__]
        elif isinstance(thing, functools.partial):
            held = [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            held = [*thing]
        elif isinstance(thing, dict):
            held = [*thing.values()]
        elif not type(thing).__module__.startswith(("tensorflow", "numpy")):
            held = [*getattr(thing, "__dict__", {}).values()]
        things += [(each, depth + 1) for each in held[:MOST]]


def _is_set(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # it is empty
        return False


def _set_in_loops(code: types.CodeType) -> set[str]:
    """The names that a loop or a comprehension around a function sets."""
    try:
        tree = ast.parse(Path(code.co_filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):  # such as code from exec
        return set()
    return {
        name.id
        for loop in ast.walk(tree)
        if isinstance(loop, LOOPS)
        and loop.lineno <= code.co_firstlineno <= (loop.end_lineno or loop.lineno)
        for name in ast.walk(loop)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
