"""Turns an exception into a one-line message. Imports no TensorFlow."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PACKAGE = Path(__file__).parents[1]
TASK = PACKAGE / "task"
LONGEST = 300  # characters of a sentence

# Keras 3.15 and TF 2.21 wrap what was raised in words of their own.
KERAS = re.compile(r"Exception encountered when calling .*?\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)
# autograph's: the last line that isn't indented is the error itself.
USER_CODE = re.compile(r"in user code:\n.*\n {4}(\w+: \S.*)", re.DOTALL)
SEVERAL = re.compile(r"\d+ root error\(s\) found\.\s+\(0\) [A-Z_]+: (.*?)\n\s+\(1\) ", re.DOTALL)
NOISE = re.compile(
    r"Graph execution error:"
    r"|Detected at node .*? defined at \(most recent call last\):\n"
    r"(?:<stack traces unavailable>\s*|\s*File \"[^\"]+\", line \d+, in .*\n)*"
    r"|\{\{function_node [^}]*\}\} ?"
    r"|Error in user-defined function passed to \S+ transformation with iterator: \S+: "
    r"|\s*\[\[.*?\]\](?=\s|$)"
    r"|\s*\[Op:\w+\](?: name: ?)?"
    r"|\x1b\[\d*m"
)
NODE = re.compile(r"'\{\{node [^}]*\}\} = (\w+)\[.*?\]\(.*?\)'")
FRAME = re.compile(r'File "([^"]+)", line (\d+)')

# The operations that ask tf.data for an element; not an edge of the graph that comes from one.
READING = re.compile(r"\b\w*(?:IteratorGetNext|ReduceDataset)\w*\b(?!/)")
READERS = (
    "codecs", "gzip", "json.", "pickle", "zipfile", "yaml.", "numpy.lib._datasource",
    "numpy.lib._format", "numpy.lib.format", "numpy.lib._npyio", "numpy.lib.npyio",
    "pandas._libs.parsers", "pandas.io.", "keras.src.utils.file_utils",
)  # fmt: skip
OF_KERAS = "keras.src.saving"  # reads files with models and weights
# What Python and NumPy say of a tensor whose value they need, while a graph is made.
WITHOUT_VALUE = re.compile(
    r"SymbolicTensor'? object (?:has no attribute '(?:numpy|item|tolist)'|cannot be interpreted)"
    r"|not '?SymbolicTensor|symbolic (?:tf\.)?Tensor\b|SymbolicTensor\.__format__"
)
# What TF 2.21 says of dtypes that an operation can't combine; integers that must be floats.
DTYPES_CLASH = re.compile(
    r"does not match type|that don't all match|same dtype, got|dtype \w+ for Tensor with dtype"
    r"|was expected to be an? \w+ tensor but|Expected \w+ passed to parameter .* of type 'float'"
    r"|has DataType int\d+ not in list of allowed values: (?!.*\bint)"
)
TAKES_ONLY = re.compile(r"type float64 that does not match expected type of (float\d+)")
INTEGER, FLOAT = re.compile(r"\bu?int\d+\b"), re.compile(r"\bb?float\d*\b")
# TensorFlow's operations on the content of files, such as DecodePng.
DECODING = re.compile(r"__wrapped__Decode\w+|\[Op:Decode\w+\]")
# What `tf.data.Dataset.list_files` raises, as an InvalidArgumentError (TF 2.21).
NO_FILES = re.compile(r"No files matched pattern: [^'\"]+")
FILE_ERRORS = ("DataLossError", "NotFoundError", "PermissionDeniedError")  # of TensorFlow


def cause_of(error: BaseException) -> str:
    """What an exception says, and where in `task/`: "my_project/task/steps.py:31: ...".

    Without what Keras, TensorFlow and autograph wrap around it, on one line, without its last full
    stop, and never empty.
    """
    place, message = place_of(error), message_of(error)
    return message if not place or message.startswith(place) else f"{place}: {message}"


def message_of(error: BaseException) -> str:
    """What an exception says, as in `cause_of`."""
    text = _text(error).rpartition("\n\nException encountered: ")[2]  # when Keras loads a model
    if match := KERAS.search(text):
        text = match[1]
    if matches := USER_CODE.findall(text):
        text = matches[-1]
    if match := SEVERAL.search(text):
        text = match[1]
    if match := NO_FILES.search(text):
        text = match[0]
    # A Python function that TensorFlow calls: "ValueError: ...", then its traceback.
    text = text.partition("\nTraceback (most recent call last)")[0]
    text = NODE.sub(r"\1", NOISE.sub("", text)).strip()
    text, _, rest = text.partition("\n\n")
    if text.endswith(":"):  # as where Keras reads weights of other shapes
        text = f"{text} {rest}".partition("\n\n")[0]
    text = " ".join(text.split())
    if len(text) > LONGEST:
        text = f"{text[:LONGEST].rstrip()}..."
    name = type(error).__name__
    if not text:
        return message_of(error.__cause__) if error.__cause__ else name
    if " " not in text or type(error) is KeyError:  # such as KeyError: 'mean'
        text = f"{name}: {text}"
    return text if text.endswith("...") else text.rstrip(".")


def place_of(error: BaseException) -> str:
    """File and line of the innermost frame in `task/`, or nothing."""
    chain: BaseException | None = error
    while chain is not None:
        frames = [(f.filename, f.lineno) for f in traceback.extract_tb(chain.__traceback__)]
        frames += FRAME.findall(_text(chain))  # of functions that TensorFlow called
        for file, line in reversed(frames):
            if TASK in Path(file).parents:
                return f"{Path(file).relative_to(PROJECT)}:{line}"
        chain = chain.__cause__
    return ""


def current_place() -> str:
    """File and line of the innermost function of `task/` that runs now, with ": "; or nothing."""
    for frame, line in traceback.walk_stack(inspect.currentframe()):
        if TASK in (path := Path(frame.f_code.co_filename)).parents:
            return f"{path.relative_to(PROJECT)}:{line}: "
    return ""


def raised_by(error: BaseException) -> str:
    """The line of `task/` that has raised an error by itself, without a call; or nothing."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.line}" if TASK in Path(last.filename).parents else ""


def mend_of_dtypes(error: BaseException, own: str) -> str:
    """What mends an operation that gets several dtypes; "" where another thing failed.

    Args:
        error: of TensorFlow or Keras.
        own: the dtype of numbers in this run.
    """
    message = message_of(error)
    if only := TAKES_ONLY.search(message):
        return (
            f"that operation takes {only[1]} alone (TF 2.21): cast what it gets, or give a metric "
            f'dtype="{only[1]}"'
        )
    if all(pattern.search(message) for pattern in (DTYPES_CLASH, INTEGER, FLOAT)):
        return (
            "that line combines integers with floats: use tf.cast(..., keras.config.floatx()) for "
            "the integers, and write 0.0 for a 0 among floats"
        )
    if not {"float32", "float64"} <= set(re.findall(r"\bfloat\d+\b", message)):
        return ""
    if "RandomRotation.call" in str(error):
        return (
            f"keras.layers.RandomRotation can't compute in {own} (Keras 3.15); use "
            "keras.ops.image.affine_transform"
        )
    return f"cast what that line makes to keras.config.floatx(), {own} in this run"


def is_reading(error: BaseException) -> bool:
    """Whether tf.data failed to make an element."""
    return _is_of_tensorflow(error) and bool(READING.search(str(error)))


def is_bad_file(error: BaseException) -> bool:
    """Whether `task/` failed on a file that can't be read, and not by a mistake of its own."""
    if not place_of(error):
        return False
    if isinstance(error, OSError) or is_reading(error):
        return True
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    modules = [f"{frame.f_globals.get('__name__')}" for frame in frames]
    of_a_file = _is_of_tensorflow(error) and (
        type(error).__name__ in FILE_ERRORS
        or bool(DECODING.search(str(error)) or NO_FILES.search(str(error)))
    )
    of_keras = any(module.startswith(OF_KERAS) for module in modules)
    in_task = TASK in Path(frames[-1].f_code.co_filename).parents
    return of_a_file or modules[-1].startswith(READERS) or (of_keras and not in_task)


def is_without_value(error: BaseException) -> bool:
    """Whether `task/` asks for the value of a tensor while a graph is made, when it has none."""
    return bool(place_of(error)) and bool(WITHOUT_VALUE.search(str(error)))


def missing_package(error: BaseException) -> str:
    """Which package `task/` imports that isn't installed, in one sentence; "" for others."""
    name = f"{error.name}".partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name in ("", PACKAGE.name) or not (place := place_of(error)):
        return ""
    if importlib.util.find_spec(name):  # a module of it is missing
        return ""
    return (
        f"{place}: {message_of(error)}; if the name is right, add the package to dependencies in "
        "pyproject.toml, then python -m pip install -e ."
    )


def missing_name(error: BaseException) -> str:
    """Which names or arguments `task/` lacks, or looks for in vain, in one sentence; "" for others.

    A template update changes `engine/`, `run.py` and `train.py`, but never `task/`.
    """
    where = "the template's CHANGELOG.md says under Migration what changed"
    task = f"{PACKAGE.name}.task"
    if isinstance(error, AttributeError) and type(error.obj).__module__ == f"{task}.config":
        field = f"{type(error.obj).__name__} must have the field {error.name}"
        return "" if place_of(error) else f"{PACKAGE.name}/task/config.py: {field}; {where}."
    if isinstance(error, TypeError) and not place_of(error):  # a function that didn't begin
        called = str(error).partition("(")[0]
        files = [module for module, name in _imported_from_task() if name == called]
        if files and (call := _call_in(error, called)):
            where = f"it is called as {call}; if there was an update, {where}"
        return f"{PACKAGE.name}/task/{files[0]}.py: {error}; {where}." if files else ""
    if not isinstance(error, ImportError) or not f"{error.name}".startswith(f"{PACKAGE.name}."):
        return ""
    if place := place_of(error):
        return f"{place}: {message_of(error)}; {where}."
    missing: dict[str, list[str]] = {}
    for module, name in dict.fromkeys(_imported_from_task()):
        if not _defines(f"{task}.{module}", name):
            missing.setdefault(module, []).append(name)
    lacking = [f"{PACKAGE.name}/task/{m}.py must define {', '.join(n)}" for m, n in missing.items()]
    return f"{'; '.join(lacking)}; {where}." if lacking else ""


def _call_in(error: BaseException, called: str) -> str:
    """How the innermost line that an error has ended calls a function, without `self`."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    line = at.lineno or 0
    with contextlib.suppress(OSError, SyntaxError):
        for node in ast.walk(ast.parse(Path(at.filename).read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.lineno <= line <= (node.end_lineno or 0):
                continue
            if ast.unparse(node.func).rpartition(".")[2] == called:
                arguments = ", ".join(map(ast.unparse, node.args))
                return f"{called}({arguments.replace('self.', '')})"
    return ""


def _imported_from_task() -> Iterator[tuple[str, str]]:
    """What the project's own files import from `task/`: module and name."""
    for file in (PACKAGE / "run.py", PACKAGE / "__main__.py", PROJECT / "train.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                package, _, module = node.module.rpartition(".")
                if package.rpartition(".")[2] == "task":
                    yield from ((module, alias.name) for alias in node.names)


def _defines(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        return error.name != module
    except Exception:  # not known: a mistake in it is another matter
        return True


def _is_of_tensorflow(error: BaseException) -> bool:
    return type(error).__module__.startswith("tensorflow.")


def _text(error: BaseException) -> str:
    """As str(), but for a KeyError, which shows the repr of a text."""
    if isinstance(error, KeyError) and error.args and "\n" in str(error.args[0]):
        return str(error.args[0])
    if isinstance(error, OSError) and error.strerror:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        return ": ".join([*names, error.strerror])
    return str(error)
