"""What `predict` can read beside .npy and .npz files, and what it writes of each prediction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

# Functions (file, model) -> inputs with a row per example, as the model takes them, by file suffix.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table, with a row per example: (n,), (n, k), or images for the page."""
    return {}
