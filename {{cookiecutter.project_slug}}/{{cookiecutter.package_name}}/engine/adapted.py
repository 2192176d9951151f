"""The result of `adapt`: computed when a run starts, then read from its adapted.npz."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from .errors import UsageError
from .files import replace_file
from .workers import Workers

FILE = "adapted.npz"
PREFIX = "adapted "  # of names in the file: np.savez has parameters called `file` and the like
ADAPT = "adapt in task/model.py"
LOST = "so the model can't be made as it was: restore the file, or start a new run."
PLAIN = "biufcSU"  # kinds of dtypes that a file gives back as they were, without pickle


class _AdaptedBefore(dict[str, np.ndarray]):
    """What a run that is opened again has adapted to."""

    def __init__(self, arrays: dict[str, np.ndarray], file: Path) -> None:
        super().__init__(arrays)
        self._file = file

    def __missing__(self, name: str) -> np.ndarray:
        raise UsageError(
            f"{self._file} has no {name!r}: {ADAPT} was another one when the run was started; "
            "start a new run."
        )


def as_arrays(adapted: Any) -> dict[str, np.ndarray]:
    """What `adapt` returned, as a run that is opened later reads it: arrays by name.

    Raises:
        UsageError: it isn't a dict, or a value is neither a number nor a string nor an array of
            these.
    """
    must = "it must return numbers, strings or arrays of these, by name."
    if not isinstance(adapted, dict):
        raise UsageError(f"{ADAPT} returns a {type(adapted).__name__}; {must}")
    arrays = {}
    for name, value in adapted.items():
        try:
            arrays[name] = np.asarray(value)
            if arrays[name].dtype == object:  # texts, as np.unique gives them
                arrays[name] = np.asarray(arrays[name].tolist())
        except ValueError as error:  # lists of different lengths
            raise UsageError(
                f"{ADAPT} returns as {name!r} a list whose parts have different shapes; "
                f"{must[:-1]}: pad them to one shape, or return them under several names."
            ) from error
        if not isinstance(name, str) or arrays[name].dtype.kind not in PLAIN:
            kind = type(value).__name__
            raise UsageError(f"{ADAPT} returns a {kind} as {name!r}; {must}")
        if arrays[name].dtype.kind in "SU" and np.any(arrays[name] != np.asarray(value, object)):
            raise UsageError(
                f"{ADAPT} returns as {name!r} texts that NumPy changes: it cuts zeros off their "
                "end, and makes texts of numbers among them; return texts only, without such zeros."
            )
    return arrays


def from_chief(adapted: Any, workers: Workers) -> dict[str, np.ndarray]:
    """What `adapt` returned on the chief, as arrays: the models of all workers are made of it.

    On the others it may differ, as where each reads its own shard, or takes the order of a set.

    Raises:
        UsageError: as of `as_arrays`.
    """
    arrays = as_arrays(adapted)
    return arrays if workers.alone else from_bytes(workers.share(to_bytes(arrays)))


def write_adapted(directory: Path, adapted: dict[str, np.ndarray]) -> None:
    """Write what `as_arrays` returned to a run directory.

    Raises:
        UsageError: it can't be written.
    """
    replace_file(directory / FILE, to_bytes(adapted))


def read_adapted(directory: Path) -> dict[str, np.ndarray]:
    """What the model of this run directory has adapted to.

    Raises:
        UsageError: the file isn't there, can't be read or is damaged.
    """
    file = directory / FILE
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{file} is missing, {LOST}") from error
    except OSError as error:
        raise UsageError(f"{file} can't be read: {error.strerror}.") from error
    try:
        return _AdaptedBefore(from_bytes(content), file)
    except Exception as error:  # of many kinds: what zipfile and NumPy make of damaged bytes
        raise UsageError(f"{file} is damaged, {LOST}") from error


def to_bytes(arrays: dict[str, Any]) -> bytes:
    """What `as_arrays` returned, as the content of a file."""
    content = io.BytesIO()
    np.savez(content, **{PREFIX + name: array for name, array in arrays.items()})
    return content.getvalue()


def from_bytes(content: bytes) -> dict[str, np.ndarray]:
    """What `to_bytes` was given."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name.removeprefix(PREFIX): array for name, array in arrays.items()}
