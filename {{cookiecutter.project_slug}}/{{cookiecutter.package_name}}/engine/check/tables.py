"""What a reader of CSV files makes of a table: its missing values, and the order of its columns."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .numbers import named_leaves
from .probe import replaced

Cells = Mapping[str, str]


def columns_of(read: Callable[[Path], Any], file: Path) -> list[str]:
    """The names of the columns that a reader looks for, in a table that has any column."""
    asked: dict[str, None] = {}

    class Row(dict[str, str]):
        """A row of such a table, 1 everywhere."""

        def __contains__(self, name: object) -> bool:
            return bool(self[str(name)])

        def __missing__(self, name: str) -> str:
            asked[name] = None
            return "1"

        def get(self, name: str, default: Any = None) -> Any:
            return self[name]

    class Names(list[str]):
        """The head of such a table."""

        def __contains__(self, name: object) -> bool:
            return name in Row()

    class Table:
        """One row."""

        fieldnames = Names(["any"])

        def __iter__(self) -> Iterator[Row]:
            return iter([Row()])

    file.touch()
    with (
        replaced([(csv, "DictReader")], lambda *_: lambda *_, **__: Table()),
        contextlib.suppress(Exception),  # it may take the cells of a row without their names
    ):
        read(file)
    return list(asked)


def otherwise_than_data(
    read: Callable[[Path], Any], file: Path, arrays: Mapping[str, np.ndarray]
) -> str:
    """How a reader that uses csv.DictReader treats a table in `file` unlike the data; or nothing.

    Arrays are inputs by name, (rows, columns) or (rows,), NaN where missing.
    """
    names = columns_of(read, file)
    if len(names) < 2:
        return ""

    def made(cells: Cells, order: Sequence[str] = names) -> dict[str, np.ndarray]:
        with file.open("w", newline="", encoding="utf-8") as lines:
            csv.writer(lines).writerows([order, [cells[name] for name in order]])
        return {name: np.asarray(x, "f8") for name, x in named_leaves(read(file))}

    numbers = {name: str(i) for i, name in enumerate(names, 1)}
    plain, turned = made(numbers), made(numbers, names[::-1])
    if any(not np.array_equal(x, turned[leaf], equal_nan=True) for leaf, x in plain.items()):
        return "by the order of its columns, whatever their names are"
    for name in names:
        other = made(numbers | {name: str(len(names) + 1)})
        try:
            empty = made(numbers | {name: ""})
        except ValueError:  # a missing value isn't allowed there
            continue
        for leaf, x in plain.items():
            data = arrays.get(leaf, np.zeros(0))
            if data.dtype.kind != "f" or x.shape[1:] != data.shape[1:]:
                continue
            changed = np.flatnonzero(np.ravel(x != other[leaf]))
            read_as = np.ravel(empty[leaf])[changed]
            is_missing = np.isnan(data.reshape(len(data), -1)[:, changed]).any()
            if len(changed) == 1 and is_missing and np.isfinite(read_as[0]):
                value = f"{read_as[0]:g}"
                return f"with an empty cell of {name!r} as {value}, and in the data it is NaN"
    return ""
