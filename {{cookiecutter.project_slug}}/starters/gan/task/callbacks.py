"""What happens at certain steps, seconds or epochs beside training itself."""

from __future__ import annotations

from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig
from .pictures import draw_generated


# TODO(9): functions of yours and when to call them, e.g. every_steps(100, show) or
# at_step(0, freeze), from engine/callbacks.py, which says what they receive; draws what
# the generator makes of the same latents after each epoch.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Callbacks, called outside the graph; they may save, stop, freeze layers or change rates."""
    del task

    def draw(event: Event) -> None:
        folder = event.directory / "generated"
        folder.mkdir(exist_ok=True)
        draw_generated(event.run, folder / f"epoch-{event.epoch:03}.png")

    return [every_epochs(1, draw)]
