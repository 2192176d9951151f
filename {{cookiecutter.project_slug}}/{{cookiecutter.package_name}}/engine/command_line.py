"""Flags and a YAML file from dataclasses; errors as one sentence. Imports no TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import enum
import io
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NoReturn, get_args, get_type_hints

import tyro
import yaml

from .cluster import NO_PARAMETER_SERVERS
from .errors import code_of, fail, require_output
from .interrupts import Signaled

DESCRIPTION = """--config FILE reads flags from a YAML file; flags that you type override it.
--print-config prints all flags as YAML and exits."""
LARGEST_FILE = 2**20  # bytes, of flags
# What Tyro 1.0 says of an optional number, and what Python says of one.
NOT_A_NUMBER = re.compile(
    r"Error parsing (--\S+): (?:no type matching \{None\}\|(?:INT|FLOAT) .* from \['(.*?)'\]\."
    r"|(?:invalid literal|could not convert).*: '(.*)')"
)
# Several values in one, by Tyro 1.0.
WITH_COMMAS = re.compile(r"Error parsing (--\S+): .*\['([^']*,[^']*)'\]")
# A choice that is none, and a command: by Tyro 0.9, by 1.0, and a command by 1.0.
NOT_A_CHOICE = (
    re.compile(r"Argument (\S+): invalid choice: '(.*?)' \(choose from (.*)\)"),
    re.compile(r"invalid choice '(?=.* for argument '(.*?)')(.*?)'.*? one of \((.*)\)"),
    re.compile(r"Unrecognized()\b.*? options: (\w+).*Available subcommands: ([\w, ]+)"),
)
# A flag without its value, by Tyro 0.9 and by 1.0, and an argument that isn't there, by 1.0.
NO_VALUE = re.compile(r"Argument (--\S+): expected .*|Missing value for argument '(--\S+)'")
NOT_GIVEN = re.compile(r"Missing from .*?: (\S+) (.*) \(required\)")
HELP = ". (--help shows all flags.)"
ON, OFF = ("true", "yes", "on"), ("false", "no", "off")  # of a switch, in small letters
INSTEAD = (("--epochs", "--steps"), ("--global-batch-size", "--batch-size-per-replica"))
RESERVED = ("config", "print_config", "help", "list", "only")  # flags of the commands themselves
FLAG_LINES = "must hold `flag: value` lines"
# Around a run's config.yaml, as comments, so that lines may be added to a copy of it.
FIRST_LINE, LAST_LINE = "# every flag of this run, up to the line `# end`\n", "# end\n"


class _OfFile(str):
    """A flag, with its value, that a file gives."""

    file: Path
    is_null: bool  # in YAML: None for Python, but no text


class _Null(str):
    """The value of a flag that is null in YAML."""


def parse(argv: Sequence[str] | None = None, **groups: type) -> tuple[Any, ...]:
    """One instance of each dataclass in `groups`, from flags; --help shows each group by itself.

    Of a dataclass that only joins others, such as `Config`, each of these is a group.

    Raises:
        SystemExit: with code 2 and one sentence, for a flag or value that is not allowed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    print_config = "--print-config" in arguments
    arguments = expand([argument for argument in arguments if argument != "--print-config"])
    _require_defaults(groups.values())
    for name, owner in itertools.chain(*map(fields_of, groups.values())):
        if name in RESERVED:
            where = f"{owner.__name__} in {_file_of(owner)}"
            fail(f"{where} has the field {name}, which is a flag of the commands; rename it.")
    bases = {name: _bases(form) for name, form in groups.items()}
    fields = [
        item for name, form in groups.items() for item in (bases[name] or {name: form}).items()
    ]
    settings = dataclasses.make_dataclass("Settings", fields)
    settings.__doc__ = DESCRIPTION
    parsed = read(settings, arguments)
    try:
        values = tuple(
            form(**{k: v for base in bases[name] for k, v in _given(getattr(parsed, base)).items()})
            if bases[name]
            else getattr(parsed, name)
            for name, form in groups.items()
        )
    except ValueError as error:
        _refuse(f"{error}".rstrip(".") + HELP, arguments)
    for config in values:
        _validate_finite(config, arguments)
    _require_readable(settings, _flat(*values))
    if print_config:
        print(to_yaml(*values), end="")
        require_output()
        raise SystemExit(0)
    return values


def _require_defaults(forms: Iterable[type]) -> None:
    """Refuse what is no dataclass, or has a flag without a default: a run is told by what differs.

    Raises:
        SystemExit: with code 2 and one sentence.
    """
    for form in forms:
        where = f"{form.__name__} in {_file_of(form)}"
        if "__dataclass_fields__" not in vars(form):  # its own, not those of a base
            fail(f"{where} is no dataclass; write @dataclass(frozen=True) above it.")
        for field in dataclasses.fields(form):
            if field.init and field.default is field.default_factory is dataclasses.MISSING:
                fail(f"{where} has the field {field.name} without a default; give it one.")


def _file_of(form: type) -> str:
    """The file of a class, such as task/config.py."""
    module = form.__module__
    return f"{(module.partition('.')[2] or module).replace('.', '/')}.py"


def _given(config: Any) -> dict[str, Any]:
    """The arguments of a dataclass, without what it has computed from them."""
    return {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.init}


def _bases(form: type) -> dict[str, type]:
    """The dataclasses that a dataclass joins, by name; none if it has fields of its own."""
    bases = [base for base in reversed(form.__bases__) if dataclasses.is_dataclass(base)]
    names = [field.name for base in bases for field in dataclasses.fields(base)]
    joins = names == [field.name for field in dataclasses.fields(form)]
    return {base.__name__.lower(): base for base in bases} if joins else {}


def read(form: Any, arguments: Sequence[str], program: str | None = None) -> Any:
    """An instance of a dataclass, or of one of several (one for each command), from `arguments`.

    Raises:
        SystemExit: with code 2 and one sentence, for a flag or value that is not allowed.
    """
    _validate_text(arguments)
    _require_other_names(form)
    if _take(list(arguments), "--strategy")[1] == "parameter_server":
        _refuse(f"--strategy parameter_server: {NO_PARAMETER_SERVERS}", arguments)
    switches, texts = set(_flags_of(form, bool)), set(_flags_of(form, str))
    for one in arguments:
        flag = one.partition("=")[0]
        if isinstance(one, _OfFile) and one.is_null and flag in texts:
            _refuse(f"{flag} is null, and must be a text; write '' for an empty one.", [one])
    plain = [_without_value(argument, switches) for argument in arguments]
    # Both, since Tyro colors and frames errors, too, where standard output is a terminal.
    shown, message = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(message):
            return tyro.cli(form, prog=program, args=plain, config=(tyro.conf.OmitArgPrefixes,))
    except AssertionError as error:
        if "Name conflict" not in str(error):
            raise
        fail("TaskConfig makes two flags of one name, as of a tuple of dataclasses; rename them.")
    except Signaled:
        sys.stderr.write(message.getvalue())  # what it says of itself
        raise
    except SystemExit as end:
        if end.code:
            _refuse(_sentence(message.getvalue()), arguments)
        print(shown.getvalue(), end="")
        require_output()
        raise


def _require_other_names(form: Any) -> None:
    """Refuse two dataclasses, as of training and of the task, with a field of the same name."""
    for part in get_args(form):
        _require_other_names(part)
    owners: dict[str, type] = {}
    for name, owner in fields_of(form):
        if name in owners:
            first = owners[name]
            fail(
                f"{owner.__name__} in {_file_of(owner)} has the field {name}, but {flag_of(name)} "
                f"is a flag of {first.__name__} in {_file_of(first)} already; call it otherwise."
            )
        owners[name] = owner


def fields_of(form: Any) -> Iterator[tuple[str, type]]:
    """The fields of a dataclass, and of those in it, each with its dataclass.

    Of a dict that isn't empty, each entry is a flag of its own.
    """
    if isinstance(form, type) and dataclasses.is_dataclass(form):
        kinds = get_type_hints(form)
        for field in dataclasses.fields(form):
            inner = list(fields_of(kinds[field.name]))
            entries = [(str(name), form) for name in _entries(field)]
            yield from inner or entries or [(field.name, form)]


def _entries(field: dataclasses.Field[Any]) -> dict[Any, Any]:
    """The default of a field that is a dict; else nothing."""
    made = field.default_factory
    default = made() if made is not dataclasses.MISSING else None
    return default if isinstance(default, dict) else {}


def _flags_of(form: Any, sought: type) -> Iterator[str]:
    """The flags of a type, such as bool, of a dataclass and of those in it or in a union."""
    for part in get_args(form):
        yield from _flags_of(part, sought)
    if isinstance(form, type) and dataclasses.is_dataclass(form):
        for name, kind in get_type_hints(form).items():
            if kind is sought:
                yield flag_of(name)
            yield from _flags_of(kind, sought)


def _without_value(argument: str, switches: set[str]) -> str:
    """`--flag=yes` as `--flag`, and `--flag=off` as `--no-flag`, as a file may say it.

    Raises:
        SystemExit: with code 2 and one sentence, for another word.
    """
    flag, has_value, word = argument.partition("=")
    if flag not in switches or not has_value:
        return argument
    if word.lower() not in (*ON, *OFF):
        _refuse(f"{flag} is {word}; it must be True or False{HELP}", [argument])
    return flag if word.lower() in ON else flag.replace("--", "--no-", 1)


def expand(arguments: list[str]) -> list[str]:
    """The arguments after the flags that `--config FILE` and `--resume RUN` stand for."""
    _validate_text(arguments)
    for flag in ("--config", "--resume", "--runs"):
        typed = itertools.pairwise(arguments)
        if f"{flag}=" in arguments or (flag, "") in typed:
            fail(f"{flag} is empty, as by a shell's variable that isn't set; give it a value.")
    arguments, file = _take(arguments, "--config")
    if file:
        arguments = _under(_arguments_in(Path(file), read_flags), arguments)
    _, run = _take(arguments, "--resume")
    if run and run != "auto":
        arguments = _under(_arguments_in(Path(run) / "config.yaml", read_run_flags), arguments)
    return arguments


def _under(lower: list[str], upper: list[str]) -> list[str]:
    """A file's flags and those over them; one that is given instead of another replaces it."""
    given = set()
    for argument, after in itertools.zip_longest(upper, upper[1:], fillvalue=""):
        flag, has_value, value = argument.partition("=")
        if (value if has_value else after) != "None":
            given.add(flag.replace("_", "-"))
    replaced = {one for a, b in INSTEAD for one, other in ((a, b), (b, a)) if other in given}
    return [argument for argument in lower if argument.partition("=")[0] not in replaced] + upper


def _refuse(sentence: str, arguments: Sequence[str]) -> NoReturn:
    """Fail with a sentence about a flag, after the name of the file that gives the flag."""
    rest = re.match(r"Unrecognized options: ([^-\s,;][^\s,;]*)[.,;]", sentence)
    for i, one in enumerate(arguments):  # what is left of a list
        if rest and one == rest[1] and isinstance(one, _OfFile):
            of = next(a for a in reversed(arguments[:i]) if a.startswith("--"))
            fail(f"{one.file}: {of} takes one value, not a list.")
    flag = re.search(r"--[\w-]+", sentence)
    given = [one for one in arguments if flag and one.partition("=")[0] == flag[0]]
    if flag and given and isinstance(given[-1], _OfFile) and sentence.startswith("Unrecognized"):
        sentence = f"{sentence.replace(HELP, '')}; put the flag back, or delete that line."
    fail(f"{given[-1].file}: {sentence}" if given and isinstance(given[-1], _OfFile) else sentence)


def _validate_text(arguments: Sequence[str]) -> None:
    """Refuse what no name of a file may have, or what neither TensorFlow nor YAML can hold."""
    for argument in arguments:
        if re.search(r"[\0\ud800-\udfff]", argument):  # Python has bytes that aren't UTF-8 as these
            what = f"{argument!r} holds what isn't UTF-8, or a NUL character"
            _refuse(f"{what}; give another name.", arguments)


def flag_of(name: str) -> str:
    """The flag of a field, such as --clip-norm of clip_norm."""
    return f"--{name.replace('_', '-')}"


def to_yaml(*configs: Any) -> str:
    """The settings of all `configs` as one flat YAML mapping, which `--config` reads."""
    return yaml.safe_dump(_flat(*configs), sort_keys=False)


def flags_in(text: str) -> dict[str, Any]:
    """The `flag: value` lines of a YAML text: the texts of values, but for True and False.

    Nothing is converted, so that a file is checked as the command line is, and no alias is
    expanded.

    Raises:
        ValueError: it is something else; the message goes after the name of the file.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("is not a YAML file") from error
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise ValueError(FLAG_LINES)
    if name := repeated_name(root):
        raise ValueError(f"has `{name}` twice; delete one of them")
    return {text_of(name): value_of(value) for name, value in root.value}


def repeated_name(node: yaml.MappingNode) -> str:
    """A name that a mapping has twice, - and _ being the same, or nothing; YAML takes the last.

    Raises:
        ValueError: a name isn't a scalar.
    """
    names = Counter(text_of(name).replace("-", "_") for name, _ in node.value)
    return next((name for name, times in names.items() if times > 1), "")


def read_flags(file: Path) -> dict[str, Any]:
    """The `flag: value` lines of a YAML file.

    Raises:
        ValueError: there are none, or it can't be read; the message says of which file.
    """
    return _read(file)[0]


def read_run_flags(file: Path) -> dict[str, Any]:
    """The flags in config.yaml of a run directory, which is `file`.

    Raises:
        ValueError: there is no such file, it can't be read, or it isn't all that the run wrote.
    """
    try:
        is_file, why = file.is_file(), "it has no config.yaml"
    except OSError as error:  # such as a name that is too long
        is_file, why = False, f"{error.strerror}"
    if not is_file:
        raise ValueError(f"{file.parent} is not a run directory: {why}.")
    flags, text = _read(file)
    # What has written it anew, such as a YAML tool, may have dropped both lines, but not the seed.
    is_cut = text.startswith(FIRST_LINE) and LAST_LINE not in text.splitlines(keepends=True)
    if is_cut or "seed" not in flags:
        raise ValueError(f"{file} is empty or cut short; restore the file, or start a new run.")
    return flags


def _read(file: Path) -> tuple[dict[str, Any], str]:
    """The `flag: value` lines of a YAML file, and all its text."""
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise ValueError(f"has more than {LARGEST_FILE:,} bytes; it {FLAG_LINES}")
        text = content.decode()
        return flags_in(text), text
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not a YAML file.") from error
    except ValueError as error:
        raise ValueError(f"{file} {error}.") from error


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


def _arguments_in(file: Path, flags_of: Callable[[Path], dict[str, Any]]) -> list[str]:
    """What `flags_of` reads in a file, as flags that know of which file they are."""
    try:
        flags = flags_of(file)
    except ValueError as error:
        fail(str(error), code_of(error))
    nulls = {flag_of(name) for name, value in flags.items() if is_null(value)}
    arguments = [_OfFile(argument) for argument in arguments_of(flags)]
    for argument in arguments:
        argument.file, argument.is_null = file, argument.partition("=")[0] in nulls
    return [*arguments]


def arguments_of(values: dict[str, Any]) -> list[str]:
    """Values as `flags_in` gives them, as flags."""
    arguments = []
    for name, value in values.items():
        flag = flag_of(name)
        if isinstance(value, list):
            arguments += [flag, *value]
        else:
            arguments.append(f"{flag}={value}")
    return arguments


def is_null(value: Any) -> bool:
    """Whether a value of `value_of`, or one of a list of them, is null in YAML."""
    return any(isinstance(one, _Null) for one in (value if isinstance(value, list) else [value]))


def value_of(node: yaml.Node) -> bool | str | list[str]:
    """The value of a flag: its text, a list of texts, or True and False.

    Raises:
        ValueError: it isn't one.
    """
    if isinstance(node, yaml.SequenceNode):
        return [text_of(item) for item in node.value]
    text = text_of(node)
    return text == "True" if node.tag.endswith(":bool") and text in ("True", "False") else text


def text_of(node: yaml.Node) -> str:
    """A scalar as it is written, but for None, True and False.

    As in YAML 1.2, yes, no, on and off are texts: `--jit` has values of these names.

    Raises:
        ValueError: it isn't one.
    """
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(FLAG_LINES)
    if node.tag.endswith(":null"):
        return _Null("None")
    if node.tag.endswith(":bool") and node.value.lower() in ("true", "false"):
        return str(node.value.capitalize())
    if node.tag.endswith(":float"):  # ".inf" and ".nan" for YAML, without the point for Python
        return re.sub(r"(?i)\.(inf|nan)", r"\1", node.value)
    return str(node.value)


def _require_readable(settings: type, flags: dict[str, Any]) -> None:
    """Refuse values that config.yaml can't give back: nothing could open or resume the run.

    Such as a list of texts of which one begins with "-", or the text "None" where there may be
    none.
    """

    def comes_back(some: dict[str, Any]) -> bool:
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                again = _flat(read(settings, arguments_of(flags_in(yaml.safe_dump(some)))))
        except (SystemExit, ValueError, yaml.YAMLError):
            return False
        return all(yaml.safe_dump(again[name]) == yaml.safe_dump(some[name]) for name in some)

    if not comes_back(flags):
        name = next((name for name in flags if not comes_back({name: flags[name]})), "")
        value = f"{flag_of(name)} is {flags.get(name)!r}"
        fail(f"{value}, which a run's config.yaml can't hold; change it or its type.")


def _flat(*configs: Any) -> dict[str, Any]:
    """The settings of all `configs` by name, as YAML has them."""
    return dict(line for config in configs for line in _lines(config))


def _lines(config: Any) -> Iterator[tuple[str, Any]]:
    """Names and values; the entries of a dict that has some by default are flags of their own."""
    kinds = get_type_hints(type(config))
    for field in dataclasses.fields(config):
        value, are_floats = getattr(config, field.name), _are_floats(kinds[field.name])
        if dataclasses.is_dataclass(value):
            yield from _lines(value)
        elif isinstance(value, dict) and _entries(field):
            yield from _entry_lines(value, are_floats)
        else:
            yield field.name, _plain(value, are_floats)


def _entry_lines(entries: dict[Any, Any], are_floats: bool) -> Iterator[tuple[str, Any]]:
    for name, value in entries.items():
        if isinstance(value, dict):
            yield from _entry_lines(value, are_floats)
        else:
            yield str(name), _plain(value, are_floats)


def _are_floats(kind: Any) -> bool:
    """Whether the numbers of a flag are floats: one that is given as 0 is read as 0.0."""
    parts, found = [kind], set()
    while parts:
        part = parts.pop()
        found.add(part)
        parts += get_args(part)
    return float in found and int not in found


def _plain(value: Any, are_floats: bool = False) -> Any:
    """A flag's value of any type that Tyro takes, as YAML has it."""
    if type(value).__module__ == "numpy":
        value = value.tolist()
    if are_floats and type(value) is int:
        return float(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, dict):
        value = [*value.items()]  # {"a": 1, "b": 2} as the command line takes it: a 1 b 2
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_plain(item, are_floats) for item in value]
        if isinstance(value, set | frozenset):  # whose order differs between processes
            parts.sort(key=str)
        # ((32, 1), (64, 1)) as the command line takes it: 32 1 64 1.
        return [item for part in parts for item in (part if isinstance(part, list) else [part])]
    return value


def _validate_finite(config: Any, arguments: Sequence[str]) -> None:
    """Refuse nan and inf, unless they are what the flag is without being given."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, float) and not math.isfinite(value) and value != field.default:
            _refuse(f"{flag_of(field.name)} is {value}; it must be a finite number.", arguments)


def _sentence(box: str) -> str:
    """Tyro's message, a box of many lines, as one sentence."""
    # Where standard output isn't UTF-8, its lines are drawn with "-" (tyro 1.0).
    lines = [re.sub(r"[\u2500-\u257f]|^[ -]*$", "", line).strip() for line in box.splitlines()]
    # The last line names the program and --help, and breaks where the program's path is long.
    lines = list(itertools.takewhile(lambda line: not line.startswith("For full help"), lines))
    hints: dict[str, None] = {}  # flags that it proposes, without what it says of them
    if "Perhaps you meant:" in lines:
        start = lines.index("Perhaps you meant:")
        hints = dict.fromkeys(line.split()[0] for line in lines[start:] if line.startswith("--"))
        lines = lines[:start]
    text = " ".join(line for line in lines[1:] if line)
    text = text.split(" Argument helptext")[0]
    if match := NOT_A_NUMBER.match(text):
        kind = "a whole number" if "INT" in match[0] or "int()" in match[0] else "a number"
        text = f"{match[1]} is {match[2] or match[3]}; it must be {kind}"
    elif match := WITH_COMMAS.match(text):
        text = f"{match[1]} is {match[2]}; separate its values by blanks"
    elif match := NO_VALUE.match(text):
        text = f"{match[1] or match[2]} needs a value"
    elif match := NOT_GIVEN.match(text):
        text = f"{match[1]} is missing: {match[2]}"
    elif match := next(filter(None, (form.search(text) for form in NOT_A_CHOICE)), None):
        flag, word, choices = match[1], match[2], [c.strip(" '") for c in match[3].split(",")]
        listed = ", ".join(choices)
        text = f"{word} is no command; there is: {listed}"
        if flag.startswith("--"):
            text = f"{flag} is {word}; it must be one of: {listed}"
        hints = dict.fromkeys(difflib.get_close_matches(word, choices, n=1))
    text = re.sub(r"^Error parsing (?!-)[^:]*: ", "", text).rstrip(".")
    if hints:
        text += f"; perhaps you meant {' or '.join(hints)}"
    return text + HELP
