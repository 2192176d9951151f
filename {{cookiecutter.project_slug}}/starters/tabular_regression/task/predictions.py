"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..engine.errors import UsageError
from .data import CATEGORY, NUMERIC


def read_table(file: Path, model: keras.Model) -> dict[str, np.ndarray]:
    """A CSV file with a named column for each input; an empty cell is a missing value.

    Raises:
        UsageError: a column isn't there.
    """
    with file.open(newline="", encoding="utf-8-sig") as lines:
        reader = csv.DictReader(lines)
        rows = list(reader)
    if missing := [name for name in (*NUMERIC, CATEGORY) if name not in (reader.fieldnames or ())]:
        raise UsageError(f"{file} has no column {', '.join(missing)}.")
    numeric = [[float(row[column] or "nan") for column in NUMERIC] for row in rows]
    return {
        "numeric": np.array(numeric, np.float32).reshape(len(rows), len(NUMERIC)),
        CATEGORY: np.array([int(row[CATEGORY]) for row in rows], np.int64),
    }


# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {".csv": read_table}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    return {"progression": np.asarray(outputs)[:, 0]}
