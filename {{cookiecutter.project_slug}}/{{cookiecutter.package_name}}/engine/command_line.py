"""Flags and a YAML file from dataclasses; errors as one sentence. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
import yaml

from .cluster import NO_PARAMETER_SERVERS
from .errors import fail

DESCRIPTION = """--config FILE reads flags from a YAML file; flags on the command line override it.
--print-config prints all flags as YAML and exits."""


def parse(argv: Sequence[str] | None = None, **groups: type) -> tuple[Any, ...]:
    """One instance of each dataclass in `groups`, from flags; --help shows each group by itself.

    Raises:
        SystemExit: with code 2 and one sentence, for a flag or value that is not allowed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    print_config = "--print-config" in arguments
    arguments = expand([argument for argument in arguments if argument != "--print-config"])
    settings = dataclasses.make_dataclass("Settings", groups.items())
    settings.__doc__ = DESCRIPTION
    parsed = read(settings, arguments)
    values = tuple(getattr(parsed, name) for name in groups)
    if print_config:
        print(to_yaml(*values), end="")
        raise SystemExit(0)
    return values


def read(form: Any, arguments: Sequence[str], program: str | None = None) -> Any:
    """An instance of a dataclass, or of one of several (one for each command), from `arguments`.

    Raises:
        SystemExit: with code 2 and one sentence, for a flag or value that is not allowed.
    """
    if _take(list(arguments), "--strategy")[1] == "parameter_server":
        fail(f"--strategy parameter_server: {NO_PARAMETER_SERVERS}")
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            return tyro.cli(form, prog=program, args=arguments, config=(tyro.conf.OmitArgPrefixes,))
    except SystemExit as end:
        if end.code:
            fail(_sentence(message.getvalue()))
        raise


def expand(arguments: list[str]) -> list[str]:
    """The arguments after the flags that `--config FILE` and `--resume RUN` stand for."""
    arguments, file = _take(arguments, "--config")
    _, run = _take(arguments, "--resume")
    if file:
        arguments = _arguments_of(Path(file)) + arguments
    if run and run != "auto":
        if not (Path(run) / "config.yaml").is_file():
            fail(f"{run} is not a run directory: it has no config.yaml.")
        arguments = _arguments_of(Path(run) / "config.yaml") + arguments
    return arguments


def to_yaml(*configs: Any) -> str:
    """The settings of all `configs` as one flat YAML mapping, which `--config` reads."""
    flat = {name: value for config in configs for name, value in dataclasses.asdict(config).items()}
    return yaml.safe_dump(flat, sort_keys=False)


def _take(arguments: list[str], flag: str) -> tuple[list[str], str]:
    """The arguments without the last `flag VALUE` or `flag=VALUE`, and that value."""
    for i, argument in reversed(list(enumerate(arguments))):
        if argument == flag:
            if i + 1 == len(arguments):
                fail(f"{flag} needs a value.")
            return arguments[:i] + arguments[i + 2 :], arguments[i + 1]
        if argument.startswith(f"{flag}="):
            return arguments[:i] + arguments[i + 1 :], argument.partition("=")[2]
    return arguments, ""


def _arguments_of(file: Path) -> list[str]:
    """A YAML mapping as flags, so that a file is checked as the command line is."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except OSError as error:
        fail(f"{file}: {error.strerror}.")
    except (yaml.YAMLError, UnicodeDecodeError):
        fail(f"{file} is not a YAML file.")
    if not isinstance(values, dict):
        fail(f"{file} must hold `flag: value` lines.")
    arguments = []
    for name, value in values.items():
        flag = f"--{str(name).replace('_', '-')}"
        if isinstance(value, bool):
            arguments.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            arguments.append(f"{flag}={value}")
    return arguments


def _sentence(box: str) -> str:
    """Tyro's message, a box of many lines, as one sentence."""
    # Where standard output isn't UTF-8, its lines are drawn with "-" (tyro 1.0).
    lines = [re.sub(r"[\u2500-\u257f]|^[ -]*$", "", line).strip() for line in box.splitlines()]
    text = " ".join(line for line in lines[1:] if line)
    text = re.split(r" (?:Argument helptext|For full helptext)", text)[0]
    text = text.replace("Perhaps you meant:", "; perhaps you meant").replace(" ;", ";")
    text = text.replace(" Available subcommands:", "; there is:")
    text = re.sub(r"^Error parsing (?!-)[^:]*: ", "", text)
    return text.rstrip(".") + ". (--help shows all flags.)"
