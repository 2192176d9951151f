"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run
from .next_todo import TodoError


# TODO(8): a picture of some training examples.
def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw some training examples, as first_examples of engine/batches.py gives them."""
    raise TodoError(
        8,
        "draw_samples in task/pictures.py must draw some training examples to a file; "
        "`return` draws none",
    )


# TODO(15): a picture of some predictions.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw predictions for some examples, such as the first ones of the test data.

    `predict_in_parts` of engine/pictures.py makes them; `model.predict` would hang on several
    workers.
    """
    raise TodoError(
        15,
        "draw_predictions in task/pictures.py must draw some predictions of run.model to a file; "
        "`return` draws none",
    )
