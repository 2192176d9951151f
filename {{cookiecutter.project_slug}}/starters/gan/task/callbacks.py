"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig
from .pictures import draw_generated


# TODO(9): functions to call during training, such as every_steps(100, show), see
# engine/callbacks.py, or Keras' by keras_callback, see engine/keras_callbacks.py; draws
# generated images after each epoch.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks, called between steps; they can save, stop, freeze layers or set learning rates."""
    return [every_epochs(1, _draw)]


def _draw(event: Event) -> None:
    if not event.is_chief:
        return  # of several workers one draws
    folder = event.directory / "generated"
    folder.mkdir(exist_ok=True)
    draw_generated(event.run, folder / f"epoch-{event.epoch:03}.png")
