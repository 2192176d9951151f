"""What TensorBoard shows of a run: numbers, pictures, settings, graphs, and a profile of steps."""

from __future__ import annotations

import contextlib
import re
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from tensorboard.compat.proto.event_pb2 import Event as Record
from tensorboard.compat.proto.event_pb2 import SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_SUCCESS
from tensorboard.plugins.hparams.summary import session_end_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.image.metadata import create_summary_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.util.tensor_util import make_tensor_proto

from .callbacks import Callback, Event, at_step
from .files import printable, read_png, writing

if TYPE_CHECKING:
    from .loop import Loop

LOG = "log"  # in the run directory
EVENTS = "events.out.tfevents."
MADE = re.compile(rf"{re.escape(EVENTS)}(\d+)")  # when, in whole seconds


class Summaries:
    """Event files in `log/` and in its parts `train/`, `validation/` and `test/`.

    Not by tf.summary, which takes six times as long for many scalars, and which other code can
    switch off: a callback of Keras does so between its own steps.

    Args:
        directory: the run directory.
    """

    def __init__(self, directory: Path) -> None:
        self.resumed_step = 0
        self._directory = directory / LOG
        self._files: dict[str, Any] = {}

    def scalars(self, part: str, numbers: Mapping[str, float], step: int) -> None:
        """Points of curves; parts share a chart for each name."""
        summary = Summary()
        for name, value in numbers.items():
            summary.MergeFrom(scalar_pb(name, value))
        if numbers:
            self._write(part, step, summary=summary)

    def text(self, name: str, text: str, step: int) -> None:
        """A text as it is, in a font of equal widths."""
        lines = "".join(f"    {line}\n" for line in text.splitlines())  # code in Markdown
        self._write("", step, summary=text_pb(name, lines))

    def picture(self, file: Path, step: int) -> None:
        """A PNG file under its own name; nothing for one that can't be read."""
        png = read_png(file)
        if not png:
            return
        sides = struct.unpack(">II", png[16:24])  # of its header: width and height
        tensor = make_tensor_proto([*(str(side).encode() for side in sides), png])
        metadata = create_summary_metadata(display_name="", description="")
        value = Summary.Value(tag=printable(file.stem), tensor=tensor, metadata=metadata)
        self._write("", step, summary=Summary(value=[value]))

    def hyperparameters(self, flags: Mapping[str, Any], seconds: float, step: int) -> None:
        """A row of the table of runs, which has the numbers of all parts beside it."""
        now, numbers = time.time(), {name: _number(value) for name, value in flags.items()}
        summary = hparams_pb(numbers, start_time_secs=now - seconds)
        # A message of another class with the same content (TensorBoard 2.21).
        summary.MergeFromString(session_end_pb(STATUS_SUCCESS, now).SerializeToString())
        self._write("", step, summary=summary)

    def graph(self, graph: tf.Graph, models: Mapping[str, keras.Model]) -> None:
        """The operations of a train step, and the layers of models that Keras can list."""
        self._write("", 0, graph_def=graph.as_graph_def().SerializeToString())
        plugin = SummaryMetadata.PluginData(plugin_name="graph_keras_model", content=b"1")
        for name, model in models.items():
            if type(model).__name__ in ("Functional", "Sequential"):
                value = Summary.Value(
                    tag=name,
                    tensor=make_tensor_proto(model.to_json()),
                    metadata=SummaryMetadata(plugin_data=plugin),
                )
                self._write("", 0, summary=Summary(value=[value]))

    def _write(self, part: str, step: int, **content: Any) -> None:
        with writing(self._directory):
            # Only now: a run that is refused when it is resumed must leave no file behind.
            if part not in self._files:
                folder = self._directory / part
                for each in (self._directory, folder):  # not the run's, which may have been moved
                    each.mkdir(exist_ok=True)
                # Readers take files by name: this one is the last, though a clock may be behind.
                later = [int(m[1]) + 1 for f in folder.iterdir() if (m := MADE.match(f.name))]
                file = folder / f"{EVENTS}{max([time.time(), *later]):.6f}"
                self._files[part] = tf.io.TFRecordWriter(str(file))
                self._add(part, file_version="brain.Event:2")
                # At a start that isn't the first, readers drop what they have from its step on,
                # since a resumed run makes that again: in `log/` itself, what an end has written.
                again = max(1, self.resumed_step + (part in ("train", "validation")))
                self._add(part, step=again, session_log=SessionLog(status=SessionLog.START))
            self._add(part, step=step, **content)
            self._files[part].flush()

    def _add(self, part: str, **content: Any) -> None:
        self._files[part].write(Record(wall_time=time.time(), **content).SerializeToString())


class Profiler:
    """Profiles steps `first` to `last` on the chief; TensorBoard's profile plugin shows it."""

    def __init__(self, first: int, last: int) -> None:
        self._before, self._last = first - 1, last
        self._is_running = False

    def callbacks(self) -> list[Callback]:
        """Graph calls end before the first of its steps and after the last."""
        return [at_step(self._before, self), at_step(self._last, self)]

    def __call__(self, event: Event) -> None:
        """Start or stop."""
        if event.step == self._last:
            self._stop()
        elif event.is_chief:
            self._start(event.directory)

    def on_train_begin(self, loop: Loop) -> None:
        """Start at once where a run is resumed."""
        if loop.step == self._before and loop.workers.is_chief:
            self._start(loop.directory.path)

    def on_train_end(self, loop: Loop) -> None:
        """Stop where a callback ended the run."""
        self._stop()

    on_interrupt = on_train_end

    def _start(self, directory: Path) -> None:
        if not self._is_running:
            tf.profiler.experimental.start(str(directory / LOG))
            self._is_running = True

    def _stop(self) -> None:
        if self._is_running:
            tf.profiler.experimental.stop()
            self._is_running = False


def _number(value: Any) -> Any:
    """A number where the text of a flag is one."""
    if isinstance(value, bool):
        return value
    with contextlib.suppress(ValueError, TypeError):
        return float(value)
    return str(value)
