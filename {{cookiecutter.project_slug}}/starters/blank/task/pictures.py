"""What samples and predictions of this task look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.errors import TodoError
from ..engine.types import Run


# TODO(8): a picture of some training examples.
def draw_samples(datasets: dict[str, Any], file: Path) -> None:
    """Draw some training examples."""
    raise TodoError(
        8,
        "draw_samples in task/pictures.py must draw some training examples to a file; "
        "`del datasets, file` draws none",
    )


# TODO(15): a picture of some predictions.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw some test examples with the model's answers."""
    raise TodoError(
        15,
        "draw_predictions in task/pictures.py must draw some predictions of run.model to a file; "
        "`del run, datasets, file` draws none",
    )
