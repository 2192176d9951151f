"""Reads a sweep's YAML file into the list of its runs. Imports no TensorFlow."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import yaml

from .command_line import fields_of, is_null, repeated_name, text_of, value_of
from .errors import UsageError

SECTIONS = ("fixed", "grid", "random", "samples", "sample_seed")
SET_BY_THE_SWEEP = {"name", "runs", "resume", "config", "print_config", "help"}
MOST_RUNS = 10_000
LONGEST_NAME = 80  # characters; train.py takes 100
Flags = dict[str, Any]
MUST = {
    "": f"it must have some of {', '.join(SECTIONS)}, and `grid` or `random` among them",
    "fixed": "`fixed` must hold `flag: value` lines",
    "grid": "`grid` must hold `flag: [value, value]` lines",
    "random": "`random` must hold lines such as `flag: {uniform: [0, 1]}`, "
    "`flag: {log_uniform: [0.001, 0.1]}` or `flag: [value, value]`",
    "samples": f"with `random`, `samples` must be a whole number from 1 to {MOST_RUNS}",
    "sample_seed": "`sample_seed` must be a whole number, and goes with `random`",
}


@dataclass(frozen=True)
class Sweep:
    """What a file says.

    Attributes:
        fixed: flags of all runs, as the command line takes them.
        runs: for each run, by its name, the flags that differ between runs.
    """

    fixed: Flags
    runs: dict[str, Flags]


def read_sweep(file: Path, forms: Sequence[type] = ()) -> Sweep:
    """The runs of a file: each sample of `random` at each point of `grid`.

    Args:
        file: YAML, as docs/recipes.md of the template shows it.
        forms: dataclasses of the flags; those that are whole numbers are sampled as such.

    Raises:
        UsageError: it isn't as it must be; the values aren't looked at.
    """
    try:
        sections = _entries(yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader))
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is not a YAML file.") from error
    except ValueError as error:
        raise UsageError(f"{file}: {MUST['']}.") from error
    owners = [owner for form in forms for owner in fields_of(form)]
    types = {name: get_type_hints(owner).get(name) for name, owner in owners}
    whole = {name for name, kind in types.items() if kind in (int, int | None)}

    def read(section: str, what: Callable[[yaml.Node], Any], default: Any) -> Any:
        try:
            return what(sections[section]) if section in sections else default
        except (ValueError, OverflowError) as error:
            raise UsageError(f"{file}: {MUST[section]}.") from error

    fixed = read("fixed", lambda node: _entries(node, value_of), {})
    grid = read("grid", lambda node: _entries(node, _choices), {})
    ranges = read("random", lambda node: _entries(node, _range), {})
    number = read("samples", lambda node: _whole(node, 1, MOST_RUNS), 0)
    seed = read("sample_seed", lambda node: _whole(node, 0, 2**64), None)
    if not (grid or ranges) or set(sections) - set(SECTIONS):
        raise UsageError(f"{file}: {MUST['']}.")
    if bool(number) != bool(ranges):
        raise UsageError(f"{file}: {MUST['samples']}.")
    if seed is not None and not ranges:
        raise UsageError(f"{file}: {MUST['sample_seed']}.")
    names = [*fixed, *grid, *ranges]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{file} has `{name}` twice; a flag is in one section only.")
        if types.get(name) is str and is_null({**fixed, **grid}.get(name)):
            raise UsageError(
                f"{file}: {name} is null, and must be a text; write '' for an empty one."
            )
        if name in SET_BY_THE_SWEEP:
            raise UsageError(
                f"{file} has `{name}`, which the sweep sets itself, or has no use for."
            )
    if max(number, 1) * math.prod(map(len, grid.values())) > MOST_RUNS:
        raise UsageError(f"{file} has more than {MOST_RUNS} runs.")
    columns = [_sample(name, ranges[name], number, seed or 0, name in whole) for name in ranges]
    samples = [dict(zip(ranges, row, strict=True)) for row in zip(*columns, strict=True)] or [{}]
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    runs = [sample | point for sample in samples for point in points]
    return Sweep(fixed, {_name(flags): flags for flags in runs})


def _entries(
    node: yaml.Node | None, what: Callable[[yaml.Node], Any] = lambda node: node
) -> dict[str, Any]:
    """What is made of the entries of a mapping, - and _ in names being the same.

    Raises:
        ValueError: it is something else.
        UsageError: it has a name twice.
    """
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("not a mapping")
    if name := repeated_name(node):
        raise UsageError(f"The sweep's file has `{name}` twice; delete one of them.")
    return {text_of(name).replace("-", "_"): what(value) for name, value in node.value}


def _choices(node: yaml.Node) -> list[Any]:
    if not isinstance(node, yaml.SequenceNode) or not node.value:
        raise ValueError("no values")
    return [value_of(value) for value in node.value]


def _range(node: yaml.Node) -> Callable[[float], Any]:
    """A function from a uniform number in [0, 1) to a value."""
    if isinstance(node, yaml.SequenceNode):
        choices = _choices(node)
        return lambda x: choices[int(x * len(choices))]
    ((kind, bounds),) = _entries(node).items()
    low, high = (float(bound) for bound in _choices(bounds))
    if not low < high or not math.isfinite(high - low):
        raise ValueError("no range")
    if kind == "uniform":
        return lambda x: low + x * (high - low)
    if kind == "log_uniform" and low > 0:
        return lambda x: math.exp(math.log(low) + x * (math.log(high) - math.log(low)))
    raise ValueError("another range")


def _sample(name: str, value: Callable[[float], Any], number: int, seed: int, whole: bool) -> Any:
    """The first `number` values; those of one flag depend on no other flag."""
    generator = random.Random(f"{seed} {name}")
    values = [value(generator.random()) for _ in range(number)]
    form = ".0f" if whole else ".4g"
    return [f"{v:{form}}" if isinstance(v, float) else v for v in values]


def _whole(node: yaml.Node, smallest: int, largest: int) -> int:
    number = int(text_of(node))
    if not smallest <= number <= largest:
        raise ValueError("out of range")
    return number


def _name(flags: Flags) -> str:
    """The flags as a part of a directory's name, never the same for others."""
    text = ",".join(f"{name}={value}" for name, value in flags.items())
    plain = re.sub(r"[^\w.,=+-]", "_", text, flags=re.ASCII)
    if plain == text and len(text) <= LONGEST_NAME:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{plain[:LONGEST_NAME]}-{digest}"
