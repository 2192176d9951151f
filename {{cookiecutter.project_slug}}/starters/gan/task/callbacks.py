"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig
from .pictures import draw_generated


# TODO(9): functions to call during training; default: draws generated images after each epoch.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return [every_epochs(1, _draw)]


def _draw(event: Event) -> None:
    if not event.is_chief:
        return  # of several workers one draws
    folder = event.directory / "generated"
    folder.mkdir(exist_ok=True)
    draw_generated(event.run, folder / f"epoch-{event.epoch:03}.png")
