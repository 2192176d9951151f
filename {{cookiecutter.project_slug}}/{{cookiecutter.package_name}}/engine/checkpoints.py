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
        self._everything = tf.train.Checkpoint(
            models=weights,
            optimizers={name: list(o.variables) for name, o in run.optimizers.items()},
            metrics={name: list(m.variables) for name, m in run.metrics.items()},
            progress=self._progress._asdict(),
            text=self._text,
        )
        self._keep = keep

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
        text = {"signature": self._signature(), "host": host, "metrics": self._metrics_by_replica()}
        self._text.assign(json.dumps(text))
        self._write(self._everything, self.directory / "latest", step, self._keep)
        self.saved_step = step

    def save_best(self, step: int) -> None:
        """Write the weights as they are now as the best ones.

        Raises:
            UsageError: they can't be written.
        """
        self._write(self._weights, self.directory / "best", step, keep=1)

    def restore_best(self) -> bool:
        """Set the weights to the best ones; False if none were saved."""
        steps = _steps(self.directory / "best")
        if not steps:
            return False
        status = self._weights.read(str(self.directory / "best" / f"ckpt-{steps[0]}"))
        status.assert_existing_objects_matched().expect_partial()
        return True

    def restore_latest(self) -> tuple[Progress, dict[str, Any]] | None:
        """Set everything to the latest checkpoint that can be read; None if there is none.

        Raises:
            UsageError: it belongs to another model, optimizer or batch size; nothing was changed.
        """
        for step in _steps(self.directory / "latest"):
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
            status = self._everything.read(path)
            status.assert_existing_objects_matched().expect_partial()
            self._restore_metrics_by_replica(saved["metrics"])
            self.saved_step = step
            return Progress(*(tf.convert_to_tensor(v) for v in self._progress)), saved["host"]
        return None

    def _write(
        self, checkpoint: tf.train.Checkpoint, directory: Path, step: int, keep: int
    ) -> None:
        """Write a checkpoint, then delete all but the latest `keep`.

        It gets its name when it is complete. tf.train.CheckpointManager writes the index in place
        (TF 2.21): killed at that moment, it leaves a checkpoint that can't be read.
        """
        unfinished = directory / "unfinished"
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            checkpoint.write(str(unfinished / f"ckpt-{step}"))
            for file in sorted(unfinished.glob("ckpt-*.*")):  # the data before the index
                file.replace(directory / file.name)
            unfinished.rmdir()
            # Later ones are damaged: training went on from before them.
            kept = {f"ckpt-{n}" for n in [n for n in _steps(directory) if n <= step][:keep]}
            for file in sorted(directory.glob("ckpt-*.*"), reverse=True):  # the index first
                if file.name.partition(".")[0] not in kept:
                    file.unlink()
        except (OSError, tf.errors.OpError) as error:
            raise UsageError(cannot_write(f"The checkpoint of step {step}", error)) from error

    def _copies(self) -> list[tuple[tf.Variable, ...]]:
        """The variables of the metrics, each as its copies on the replicas of this worker."""
        metrics = self.run.metrics.values()
        local = self.run.strategy.experimental_local_results
        return [local(variable.value) for metric in metrics for variable in metric.variables]

    def _metrics_by_replica(self) -> dict[str, Any]:
        """What each replica has added to the metrics; TensorFlow itself saves the sums.

        Gone on with from a sum, floats would be rounded in another order.
        """
        values = [[copy.numpy().tolist() for copy in copies] for copies in self._copies()]
        return {"replicas": self.run.strategy.num_replicas_in_sync, "values": values}

    def _restore_metrics_by_replica(self, saved: dict[str, Any]) -> None:
        """On as many replicas as before each gets its own back; else the first has the sums."""
        if saved["replicas"] != self.run.strategy.num_replicas_in_sync:
            return
        for copies, values in zip(self._copies(), saved["values"], strict=True):
            for copy, value in zip(copies, values, strict=True):
                copy.assign(tf.constant(value, copy.dtype))

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


def _steps(directory: Path) -> list[int]:
    """The steps of the checkpoints in `directory`, the latest first."""
    indices = directory.glob("ckpt-*.index")
    return sorted((int(index.stem.rpartition("-")[2]) for index in indices), reverse=True)
