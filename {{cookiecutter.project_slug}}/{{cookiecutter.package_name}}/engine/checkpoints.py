"""Save, restore, resume exactly.

A checkpoint holds all that the rest of a run depends on: weights, optimizer slots, metrics so far,
the progress of the loop, and one JSON text with the host's state and the shape of everything else.
Random states and the order of the data follow from the step and need no saving.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from .distribution import Progress
from .errors import UsageError, cannot_write
from .replicas import is_random_state
from .types import Run

TEXT = "text/.ATTRIBUTES/VARIABLE_VALUE"


class Checkpoints:
    """The checkpoints of one run directory: the latest few, and the best.

    Args:
        directory: where they go.
        run: what is saved and restored.
        start: the progress of a run that has made no step.
        keep: how many of the latest are kept.
        order: what the order of the data follows from, beside seed and batch size.
    """

    def __init__(
        self, directory: Path, run: Run, start: Progress, keep: int, order: dict[str, Any]
    ) -> None:
        self.run = run
        self.order = order
        self.directory = directory
        self.saved_step = -1
        weights = {
            n: [v for v in m.variables if not is_random_state(v)] for n, m in run.models.items()
        }
        self._progress = Progress(*(tf.Variable(value, trainable=False) for value in start))
        self._text = tf.Variable("", dtype=tf.string, trainable=False)
        self._weights = tf.train.Checkpoint(models=weights)
        everything = tf.train.Checkpoint(
            models=weights,
            optimizers={name: list(o.variables) for name, o in run.optimizers.items()},
            metrics={name: list(m.variables) for name, m in run.metrics.items()},
            progress=self._progress._asdict(),
            text=self._text,
        )
        self._latest = tf.train.CheckpointManager(everything, str(directory / "latest"), keep)
        self._best = tf.train.CheckpointManager(self._weights, str(directory / "best"), 1)

    def save(self, progress: Progress, host: dict[str, Any]) -> None:
        """Write a checkpoint that a run can go on from; `host` must be JSON.

        Raises:
            UsageError: it can't be written; the one before is still there.
        """
        step = int(progress.step)
        if step == self.saved_step:
            return
        for variable, value in zip(self._progress, progress, strict=True):
            variable.assign(value)
        self._text.assign(json.dumps({"signature": self._signature(), "host": host}))
        self._write(self._latest, step)
        self.saved_step = step

    def save_best(self, step: int) -> None:
        """Write the weights as they are now as the best ones.

        Raises:
            UsageError: they can't be written.
        """
        self._write(self._best, step)

    def restore_best(self) -> bool:
        """Set the weights to the best ones; False if none were saved."""
        if not self._best.latest_checkpoint:
            return False
        status = self._weights.read(self._best.latest_checkpoint)
        status.assert_existing_objects_matched().expect_partial()
        return True

    def restore_latest(self) -> tuple[Progress, dict[str, Any]] | None:
        """Set everything to the latest checkpoint that can be read; None if there is none.

        Raises:
            UsageError: it belongs to another model, optimizer or batch size; nothing was changed.
        """
        # Not the manager's own list: its file may be older than what it lists, or damaged.
        indices = (self.directory / "latest").glob("ckpt-*.index")
        steps = sorted((int(index.stem.rpartition("-")[2]) for index in indices), reverse=True)
        for step in steps:
            path = str(self.directory / "latest" / f"ckpt-{step}")
            try:
                reader = tf.train.load_checkpoint(path)
                for key in reader.get_variable_to_shape_map():
                    reader.get_tensor(key)  # reading compares the checksums
                saved = json.loads(reader.get_tensor(TEXT))
            except Exception as error:  # of many kinds: an IndexError for a truncated file
                reason = type(error).__name__
                print(f"checkpoint {path} can't be read ({reason}), trying the one before it")
                continue
            self._refuse_difference(saved["signature"])
            for unfinished in self.directory.glob("*/*_temp"):  # of a save that was killed
                shutil.rmtree(unfinished, ignore_errors=True)
            status = self._latest.checkpoint.read(path)
            status.assert_existing_objects_matched().expect_partial()
            self.saved_step = step
            return Progress(*(tf.convert_to_tensor(v) for v in self._progress)), saved["host"]
        return None

    def _write(self, manager: tf.train.CheckpointManager, step: int) -> None:
        try:
            manager.save(checkpoint_number=step)
            # A kill between writing and listing a checkpoint leaves one that nobody would delete.
            listed = {Path(checkpoint).name for checkpoint in manager.checkpoints}
            for file in Path(manager.directory).glob("ckpt-*.*"):
                if file.name.partition(".")[0] not in listed:
                    file.unlink()
        except (OSError, tf.errors.OpError) as error:
            raise UsageError(cannot_write(f"The checkpoint of step {step}", error)) from error

    def _signature(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to fit; TensorFlow itself restores by position."""

        def shapes(variables: list[keras.Variable]) -> list[str]:
            return [f"{v.path} {tuple(v.shape)}" for v in variables if not is_random_state(v)]

        run = self.run
        return {
            "global batch size": run.global_batch_size,
            "seed": run.seed,
            **self.order,
            "precision": keras.config.dtype_policy().name,
            **{f"model {n}": shapes(m.variables) for n, m in run.models.items()},
            **{f"optimizer {n}": type(o).__name__ for n, o in run.optimizers.items()},
            **{f"variables of {n}": shapes(o.variables) for n, o in run.optimizers.items()},
        }

    def _refuse_difference(self, saved: dict[str, Any]) -> None:
        now = self._signature()
        for key in {**saved, **now}:
            before, after = saved.get(key), now.get(key)
            if before == after:
                continue
            if isinstance(before, list) and isinstance(after, list):
                missing = [v for v in before if v not in after] or ["nothing more"]
                added = [v for v in after if v not in before] or ["nothing more"]
                before, after = missing[0], added[0]
            raise UsageError(
                f"The run can't be resumed: its {key} was {before}, and now it is {after}; "
                "start a new run, or set it back."
            )
