"""Files of the blank starter that several tasks fill in alike."""

from __future__ import annotations

from .edits import Edit

Files = dict[str, str]  # of task/, by their names without .py

CALLBACKS = '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None."""
    return []
'''


PICTURES = '''"""Pictures of training examples and of predictions: none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
'''


COUNT = '''def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
'''


# All three call _step, which the task has.
THREE_STEPS = '''

def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return _step(run, batch, replica, training=False)
'''


def fill(files: Files, *changes: tuple[str, str, str]) -> tuple[Edit, ...]:
    """Every file of the blank starter, filled in; of the texts that change each stands once."""
    filled = dict(files)
    for name, text, other in changes:
        assert filled[name].count(text) == 1, (name, text, filled[name].count(text))
        filled[name] = filled[name].replace(text, other)
    return tuple(Edit(f"{name}.py", "", text) for name, text in filled.items())


def config(fields: str, monitor: str = "validation_loss", larger: bool = False) -> str:
    """config.py with some fields."""
    return (
        '"""The flags of the task. '
        'Imports no TensorFlow, so that a wrong flag is reported at once."""\n\n'
        "from __future__ import annotations\n\n"
        "from dataclasses import dataclass\n\n\n"
        "@dataclass(frozen=True)\n"
        "class TaskConfig:\n"
        '    """The task."""\n\n'
        f"{fields}"
        f'    monitor: str = "{monitor}"  # column of history.csv that selects the best weights\n'
        f"    larger_is_better: bool = {larger}  # whether larger values of --monitor are better\n"
    )


def create_losses(loss: str, what: str = "Losses by name.") -> str:
    """The function of losses.py, for one loss."""
    return (
        "def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:\n"
        f'    """{what}"""\n'
        f'    return {{"main": {loss}}}\n'
    )


def create_metrics(metrics: str, what: str = "Keras metrics by name.") -> str:
    """The function of metrics.py, for metrics by name."""
    return (
        "def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:\n"
        f'    """{what}"""\n'
        f"    return {metrics}\n"
    )
