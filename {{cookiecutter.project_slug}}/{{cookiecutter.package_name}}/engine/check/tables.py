"""What a reader of CSV files makes of a table: its missing values, its columns, and its rows."""

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
Arrays = Mapping[str, np.ndarray]

ANY = "any column"
COPIES = 64  # of a row: more rows than most windows have
TEXTS, NUMBERS = "abcde", "01239"  # in their order; the mean isn't the one in the middle


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

        fieldnames = Names([ANY])

        def __iter__(self) -> Iterator[Row]:
            return iter([Row()])

    file.touch()
    with (
        replaced([(csv, "DictReader")], lambda *_: lambda *_, **__: Table()),
        contextlib.suppress(Exception),  # it may take the cells of a row without their names
    ):
        read(file)
    asked.pop(ANY, None)  # by a reader that takes what the head has
    return list(asked)


def otherwise_than_data(read: Callable[[Path], Any], file: Path, arrays: Arrays) -> str:
    """How a reader that uses csv.DictReader treats a table in `file` unlike the data; or nothing.

    Arrays are inputs by name, (rows, columns) or (rows,), NaN where missing.
    """
    names = columns_of(read, file)
    if len(names) < 2:
        return ""

    def made(cells: Cells) -> dict[str, np.ndarray]:
        return _made(read, file, [cells])

    numbers = {name: str(i) for i, name in enumerate(names, 1)}
    plain, turned = made(numbers), made(dict(reversed(numbers.items())))
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


def by_other_rows(
    read: Callable[[Path], Any], file: Path, *splits: Arrays
) -> tuple[str, bool] | None:
    """How other rows of a table in `file` change what is read of a row, and if that is a fault.

    Of each split, arrays are inputs by name; the first is that of training.
    """
    same = dict.fromkeys(columns_of(read, file), "1")
    of_texts = [name for name in same if _takes(read, file, same | {name: TEXTS[0]})]
    for names, cells in ((of_texts, TEXTS), (list(same), NUMBERS)):
        least, less, row, more, most = (same | dict.fromkeys(names, cell) for cell in cells)
        # The row is in the middle even if rows are sorted, and has copies around it, as in windows.
        one, other = (
            _made(read, file, [each for each in kinds for _ in range(COPIES)])
            for kinds in ((less, less, row, more, more), (least, less, row, more, most))
        )
        for leaf, array in one.items():
            if array.shape != other[leaf].shape or len(array) != len(cells) * COPIES:
                continue  # rows belong together, as those of a series
            a, b = (np.ravel(table[leaf][len(array) // 2]) for table in (one, other))
            changed = np.flatnonzero(~np.isclose(a, b, rtol=1e-4, equal_nan=True))
            if len(changed):
                i = changed[0]
                found = f"{leaf} of the same row is {a[i]:.3g}, and {b[i]:.3g} beside other ones"
                # Texts are numbered by a list, and that of a file isn't the one of the data.
                data = [split.get(leaf, np.zeros(0)) for split in splits]
                return found, cells == TEXTS or _is_standardized_otherwise(array, data)
    return None


def _made(read: Callable[[Path], Any], file: Path, rows: Sequence[Cells]) -> dict[str, np.ndarray]:
    """What is read of a table with these rows, and with columns as in the first."""
    with file.open("w", newline="", encoding="utf-8") as lines:
        table = csv.DictWriter(lines, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return {name: np.asarray(x, "f8") for name, x in named_leaves(read(file))}


def _takes(read: Callable[[Path], Any], file: Path, row: Cells) -> bool:
    """Whether such a row can be read."""
    with contextlib.suppress(Exception):
        return bool(_made(read, file, [row]))
    return False


def _is_standardized_otherwise(read: np.ndarray, data: Sequence[np.ndarray]) -> bool:
    """Whether a file is standardized by itself, and the data isn't, or as the training data is.

    A file may be a recording, and each recording may be standardized by itself in the data too.
    """
    if any(x.shape[1:] != read.shape[1:] or not x.size or x.dtype.kind != "f" for x in data):
        return False
    columns, *of_data = (x.reshape(len(x), -1) for x in (read, *data))
    means, sizes = columns.mean(axis=0), columns.std(axis=0)
    standard = np.isclose(means, 0, atol=1e-3) & np.isclose(sizes, 1, atol=0.01)
    if not standard.any():
        return False
    train, others = (float(np.abs(np.nanmean(x[:, standard], axis=0)).max()) for x in of_data)
    # The mean of each recording, and so of all of them, would be 0.
    return train > 0.5 or train < 1e-3 < 0.01 < others
