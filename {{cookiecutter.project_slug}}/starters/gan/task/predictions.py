"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    return {"image": outputs} if len(outputs.shape) == 4 else {"logit": outputs}
