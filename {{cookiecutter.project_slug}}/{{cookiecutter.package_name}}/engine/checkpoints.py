"""Save, restore, resume exactly.

A checkpoint holds all that the rest of a run depends on: weights, optimizer slots, metrics so far,
the progress of training, and one JSON text with the state of the loop and the shape of everything.
Random states and the order of the data follow from the step and need no saving.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.values import SyncOnReadVariable  # none is public

from . import link
from .auxiliary import hashes, validate_hashes
from .callbacks import learning_rates
from .environment import differences, made_by
from .errors import UsageError, cannot_read, is_out_of_memory, is_passing
from .files import plain_name, to_disk, writing
from .gradients import all_optimizers, all_variables
from .output import say
from .outside import Outside
from .progress import Progress
from .replicas import is_random_state
from .types import Run, unique

# Of a layer's or an optimizer's config: the engine itself sets, restores or synchronizes these.
NO_SETTINGS = {"name", "trainable", "learning_rate", "seed", "synchronized"}
TEXT = "text/.ATTRIBUTES/VARIABLE_VALUE"  # where a checkpoint's reader finds the text
INDEX = re.compile(r"ckpt-(\d+)\.index")
OURS = re.compile(r"ckpt-(\d+)\.(?:index|data-\d+-of-\d+)")
ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


def _first_difference(before: list[str], after: list[str]) -> str:
    """What two lists differ in; in another order, at the first place."""
    missing = [v for v in before if v not in after]
    added = [v for v in after if v not in before]
    if missing or added:
        before, after = missing, added
    was, now = next((a, b) for a, b in itertools.zip_longest(before, after) if a != b)
    if was is None:
        return f"{now} is new"
    return f"{was} is missing" if now is None else f"{was} is {now} now"


class Checkpoints:
    """The latest checkpoints of a run directory, to resume from.

    Args:
        directory: where they are written.
        run: what is saved and restored.
        start: the progress of a run that has made no step.
        keep: how many of the latest are kept.
        order: what the order of the examples depends on, beside seed and batch size.
        assigned: ids of the variables that steps assign, known when they are traced.
        outside: what steps read beside models, optimizers and metrics.
    """

    def __init__(
        self,
        directory: Path,
        run: Run,
        start: Progress,
        keep: int,
        order: dict[str, Any],
        assigned: set[int],
        outside: Outside,
    ) -> None:
        self.run = run
        self.directory = directory
        self.saved_step = -1
        self._workers = run.workers
        self._order = order
        self._assigned = assigned
        self._outside = outside
        self._has_said = False
        self._settings: dict[str, Any] = {}
        self._keep = keep
        self._progress = tf.nest.map_structure(lambda v: tf.Variable(v, trainable=False), start)
        self._text = tf.Variable("", dtype=tf.string, trainable=False)
        # As the task made them: a checkpoint's own are restored, and callbacks change them.
        self._rates = {
            f"learning rate of {name}": f"{rate:.7g}"
            for name, rate in learning_rates(run, schedules=False).items()
        }
        self._everything = tf.train.Checkpoint(
            models=_weights(run),
            optimizers={name: all_variables(o) for name, o in run.optimizers.items()},
            progress=tf.nest.flatten(self._progress),
            text=self._text,
        )

    def save(self, progress: Progress, loop_state: dict[str, Any]) -> None:
        """Write a checkpoint that a run can resume from; `loop_state` must be JSON.

        Raises:
            UsageError: it can't be written; the one before is still there.
        """
        step = int(progress.step)
        tf.nest.map_structure(lambda v, value: v.assign(value), self._progress, progress)
        text = {
            "signature": self._signature(),
            "loop": loop_state,
            "trainable": self.run.trainable,
            "auxiliary": hashes(self.run.models),
            "metrics": self._metrics_by_replica(),
            "differing": self._differing_by_replica(),
            "outside": self._outside.to_save(),
            "settings": self._settings_now(),
        }
        self._text.assign(json.dumps(text))
        _write(self._everything, self.directory, step, self._keep, self.run)
        self.saved_step = step

    def write_again(self) -> None:
        """Let the next `save` replace the checkpoint of the same step, if there is an older one.

        A process that is killed while the files are replaced leaves neither of the two.
        """
        steps = self._workers.on_chief(lambda: str(len(_steps(self.directory))))
        if int(steps) > 1:
            self.saved_step = -1

    def restore_latest(self) -> tuple[Progress, dict[str, Any]] | None:
        """Set everything to the latest checkpoint that can be read; None if there is none.

        Raises:
            UsageError: it belongs to another model, optimizer, batch size or file of an auxiliary
                model; nothing was changed.
        """
        step = int(self._workers.on_chief(lambda: str(_latest_readable(self.directory))))
        if step < 0:
            return None
        with plain_name(self.directory) as directory:
            path = str(directory / f"ckpt-{step}")
            saved = json.loads(tf.train.load_checkpoint(path).get_tensor(TEXT))
            self._validate_signature(saved["signature"])
            validate_hashes(self.run.models, saved["auxiliary"])
            status = self._everything.read(path)
            status.assert_existing_objects_matched().expect_partial()
        self._restore_metrics_by_replica(saved["metrics"])
        self._restore_differing_by_replica(saved["differing"])
        self._outside.restore(saved["outside"])
        self.run.set_trainable(saved["trainable"])
        self._settings = saved.get("settings", {})
        self.saved_step = step
        return tf.nest.map_structure(tf.convert_to_tensor, self._progress), saved["loop"]

    def report_settings(self) -> None:
        """Say what isn't as it was when the checkpoint was written that has been restored."""
        if changed := _what_changed(self._settings, self._settings_now()):
            say(
                f"so far trained with {changed}; what a callback sets at_step(0) or once, let it "
                "set in on_train_begin, too, which a resumed run calls again"
            )

    def _settings_now(self) -> dict[str, Any]:
        return _settings(_layers(self.run) | _optimizers(self.run))

    @property
    def _metrics(self) -> list[keras.Variable]:
        return [v for metric in self.run.metrics.values() for v in metric.variables]

    @property
    def _variables(self) -> list[keras.Variable]:
        """Those of all models."""
        return unique(v for m in self.run.trained_models.values() for v in m.variables)

    @property
    def _mine(self) -> slice:
        """The replicas of this worker, among all."""
        local = self.run.strategy.num_replicas_in_sync // self._workers.number
        return slice(self._workers.index * local, (self._workers.index + 1) * local)

    def _copies(self, variables: list[keras.Variable]) -> list[tuple[tf.Variable, ...]]:
        """Each variable as its copies on the replicas of this worker."""
        return [self.run.strategy.experimental_local_results(v.value) for v in variables]

    def _by_replica(self, variables: list[keras.Variable]) -> list[np.ndarray]:
        """The values of each variable on all replicas, (replicas, ...)."""
        replicas = self.run.strategy.num_replicas_in_sync
        copies = self._copies(variables)
        flat = [
            np.concatenate([[], *(np.ravel(c[i].numpy()) for c in copies)])
            for i in range(replicas // self._workers.number)
        ]
        rows = np.zeros((replicas, len(flat[0])))
        rows[self._mine] = flat
        rows = self._workers.sum(rows)  # exact in float64: all others add zero
        ends = np.cumsum([c[0].shape.num_elements() for c in copies])
        return [
            part.reshape((replicas, *c[0].shape)).astype(c[0].dtype.as_numpy_dtype)
            for c, part in zip(copies, np.split(rows, ends, axis=1)[:-1], strict=True)
        ]

    def _metrics_by_replica(self) -> dict[str, Any]:
        """What each replica has added to the metrics; TensorFlow itself would save the sums.

        Resumed from a sum, floats would be rounded in another order.
        """
        values = [parts.tolist() for parts in self._by_replica(self._metrics)]
        return {"replicas": self.run.strategy.num_replicas_in_sync, "values": values}

    def _differing_by_replica(self) -> dict[str, Any]:
        """What steps assign otherwise on each replica; TensorFlow saves that of the first one."""
        replicas = self.run.strategy.num_replicas_in_sync
        indices = [i for i, v in enumerate(self._variables) if id(v) in self._assigned]
        if replicas == 1 or not indices:
            return {}
        copies = self._copies([self._variables[i] for i in indices])
        # By their bits, so that what differs nowhere is neither copied nor sent.
        checksums = [[zlib.crc32(c.numpy().tobytes()) for c in of_one] for of_one in copies]
        of_all = self._workers.gather(np.ravel(checksums).tolist()).reshape(
            self._workers.number, len(indices), -1
        )
        found = {}
        for i in np.flatnonzero((of_all != of_all[:1, :, :1]).any(axis=(0, 2))):
            (parts,) = self._by_replica([self._variables[indices[i]]])
            found[str(indices[i])] = parts.tolist()
        # Sums over all replicas may be rounded otherwise on each.
        apart = [i for i, v in found.items() if not np.allclose(v, v[:1], equal_nan=True)]
        if apart and not self._has_said and self._workers.is_chief:
            paths = ", ".join(self._variables[int(i)].path for i in apart)
            say(
                f"{paths}: each replica assigns other values, and weights are those of replica 0; "
                "take sums or means over all replicas, as by "
                'tf.distribute.get_replica_context().all_reduce("mean", value)'
            )
            self._has_said = True
        return found and {"replicas": replicas, "values": found}

    def _restore_differing_by_replica(self, saved: dict[str, Any]) -> None:
        """On as many replicas as before each gets its own; else all have those of the first."""
        if saved.get("replicas") != self.run.strategy.num_replicas_in_sync:
            return
        for i, values in saved["values"].items():
            (copies,) = self._copies([self._variables[int(i)]])
            for copy, value in zip(copies, values[self._mine], strict=True):
                copy.assign(tf.constant(value, copy.dtype))

    def _restore_metrics_by_replica(self, saved: dict[str, Any]) -> None:
        """On as many replicas as before each gets its own; else the first one gets the sums.

        TensorFlow would divide them by the replicas, and cut off what is left of integers (2.21).
        """
        replicas = self.run.strategy.num_replicas_in_sync
        for copies, values in zip(self._copies(self._metrics), saved["values"], strict=True):
            parts = np.asarray(values, copies[0].dtype.as_numpy_dtype)
            if saved["replicas"] != replicas:
                sums = np.zeros((replicas, *parts.shape[1:]), parts.dtype)
                sums[0] = parts.sum(axis=0)
                parts = sums
            for copy, part in zip(copies, parts[self._mine], strict=True):
                copy.assign(tf.constant(part, copy.dtype))

    def _signature(self) -> dict[str, Any]:
        """What must match on restore; TensorFlow itself restores by position."""

        run = self.run
        return {
            "global batch size": run.global_batch_size,
            "seed": run.seed,
            **self._order,
            "list of losses and terms": run.loss_names,
            "precision": keras.config.dtype_policy().name,
            **_names_of_weights(run),
            **{f"optimizer {n}": type(o).__name__ for n, o in run.optimizers.items()},
            **self._rates,
            **{f"variables of {n}": _shapes(all_variables(o)) for n, o in run.optimizers.items()},
            "list of metrics": [
                f"{name} {type(metric).__name__} {tuple(variable.shape)}"
                for name, metric in run.metrics.items()
                for variable in metric.variables
            ],
        }

    def _validate_signature(self, saved: dict[str, Any]) -> None:
        now = self._signature()
        for key in {**saved, **now}:
            before, after = saved.get(key), now.get(key)
            if before == after:
                continue
            change = f"its {key} was {before}, and now it is {after}"
            if isinstance(before, list) and isinstance(after, list):
                change = f"in its {key} {_first_difference(before, after)}"
            raise UsageError(
                f"The run can't be resumed: {change}; start a new run, or set it back."
            )


class BestWeights:
    """The weights of the best validation so far, and until a checkpoint names them those before.

    A run that is killed goes on from its latest checkpoint, and needs the best weights of that.

    Args:
        directory: where they are written.
        run: whose weights they are.
        outside: what steps read beside models, optimizers and metrics: a result depends on it.

    Attributes:
        value: of the monitored column at the best validation, None before the first.
        row: of the history at the best validation, empty before the first.
        column: the monitored column of the history.
        larger_is_better: whether larger values of it are better.
        columns: all that the history will have, beside epoch and step.
        restored_step: the step of these weights; -1 before any were restored.
        examples: summaries of the splits, which are saved with the weights.
        replicas: how many there were when the restored weights were saved.
    """

    def __init__(self, directory: Path, run: Run, outside: Outside | None = None) -> None:
        self.run = run
        self.directory = directory
        self.restored_step = -1
        self._made_by = made_by()
        self._outside = outside or Outside()
        self._workers = run.workers
        self._text = tf.Variable("", dtype=tf.string, trainable=False)
        self._checkpoint = tf.train.Checkpoint(models=_weights(run), text=self._text)
        self._named = -1  # the step of those that the latest checkpoint names
        self.value: float | None = None
        self.row: dict[str, float] = {}
        self.examples: dict[str, list[float]] = {}
        self.replicas = 1

    def monitor(self, column: str, *, larger_is_better: bool, validated: bool) -> None:
        """Select the best by a column of the history.

        Args:
            column: such as "validation_accuracy".
            larger_is_better: whether larger values of it are better.
            validated: whether there is validation data; without it, training is monitored.

        Raises:
            UsageError: the history will have no such column, or larger_is_better was left as it
                is for the column that the task monitors by default, and is wrong for this one.
        """
        self.column = column if validated else column.replace("validation", "train")
        self.larger_is_better = larger_is_better
        names = [*self.run.loss_names, *self.run.metric_results()]
        splits = ("train", "validation") if validated else ("train",)
        self.columns = [f"{split}_{name}" for split in splits for name in names]
        if self.column not in self.columns:
            raise UsageError(
                f"--monitor is {column}, and the history has no column {self.column!r}; it has: "
                f"{', '.join(self.columns)}."
            )
        if self.direction(self.column) not in ("", "max" if larger_is_better else "min"):
            self._question(column)

    def direction(self, column: str) -> str:
        """Whether larger values of a column are better, "max", or smaller ones, "min"; or ""."""
        name = column.partition("_")[2]
        if name in self.run.loss_names[: len(self.run.optimizers)]:  # those that are made smaller
            return "min"
        metric = self.run.metrics.get(name.partition("/")[0])
        return {"up": "max", "down": "min"}.get(getattr(metric, "_direction", ""), "")

    def _question(self, column: str) -> None:
        """Refuse a direction that was left at that of another column; else say what is kept."""
        task, run = type(self.run.task), self.run
        kept = f"the weights with the {'largest' if self.larger_is_better else 'smallest'} {column}"
        is_default = self.larger_is_better == getattr(task, "larger_is_better", None)
        # The loss of a critic, which others make larger, may be meant so.
        is_one_of_several = len(run.optimizers) > 1 and column.partition("_")[2] in run.loss_names
        if is_default and column != task.monitor and not is_one_of_several:
            flag = "--no-larger-is-better" if self.larger_is_better else "--larger-is-better"
            raise UsageError(
                f"--monitor {column} would keep {kept} as the best, as is right for "
                f"{task.monitor}; add {flag}, or change both in task/config.py if it is meant."
            )
        say(f"{kept} are kept as the best, as larger_is_better says")

    def consider(self, row: dict[str, float]) -> None:
        """Write the weights as they are now if this row of the history is the best so far.

        Raises:
            UsageError: they can't be written.
        """
        if self.is_best(row):
            self.value, self.row = row[self.column], row
            self.save(int(row["step"]))

    def is_best(self, row: dict[str, float]) -> bool:
        """Whether a new row of the history is better than all before."""
        value = row[self.column]
        if not math.isfinite(value):
            return False
        sign = 1.0 if self.larger_is_better else -1.0
        return self.value is None or sign * (value - self.value) > 0

    def save(self, step: int) -> None:
        """Write the weights as they are now.

        Raises:
            UsageError: they can't be written.
        """
        text = {
            "signature": _names_of_weights(self.run),
            "trainable": self.run.trainable,
            "auxiliary": hashes(self.run.models),
            "outside": self._outside.to_save(),
            "made_by": self._made_by,
            "settings": self._of_layers(),
            "examples": self.examples,
            "replicas": self.run.strategy.num_replicas_in_sync,
        }
        self._text.assign(json.dumps(text))
        _write(self._checkpoint, self.directory, step, 1, self.run, also=self._named)

    def named(self) -> None:
        """Delete all but the best, which a checkpoint names now."""
        step = int(self.row.get("step", -1))
        if step == self._named:
            return
        self._named = step
        self._keep(lambda n: n == step)

    def resume(self, value: float | None, row: dict[str, float], step: int) -> None:
        """Go on after `step` from a best validation of `value`; without its weights, from none.

        Args:
            value: of the monitored column at the best validation, None if there was none.
            row: of the history at the best validation.
            step: how many are made.
        """
        selected = int(row.get("step", -1))  # later weights are of a validation that is made again
        is_there = self._workers.on_chief(lambda: str(_is_readable(self.directory, selected)))
        self.row = row if is_there == "True" else {}
        self._named = int(self.row.get("step", -1))
        number = self.row.get(self.column)  # which may be another column than it was
        self.value = number if number is not None and math.isfinite(number) else None
        if value is not None and not self.row:
            later = any(n > step for n in _steps(self.directory))
            why = "are of a later step" if later else "can't be read"
            say(f"the best weights so far {why}: the next validation selects anew")
        elif value != self.value:
            now = "unknown" if self.value is None else f"{self.value:g}"
            say(f"{self.column} is monitored now: that of the best weights so far is {now}")

    def forget_later(self, step: int) -> None:
        """Delete weights of later steps than `step`, which are made again, and superseded ones."""
        best = int(self.row.get("step", -1))
        self._keep(lambda n: n == best if best >= 0 else n <= step)

    def _keep(self, is_kept: Callable[[int], bool]) -> None:
        """Delete the weights of all other steps."""

        def remove() -> str:
            with writing("The best weights"):
                _remove(self.directory, set(filter(is_kept, _steps(self.directory))))
            return ""

        self._workers.on_chief(remove)

    def restore(self) -> bool:
        """Set the weights, and what is frozen, to the best; False if none were saved.

        Where the best can't be read, those of the latest checkpoint, with a line on stderr.

        Raises:
            UsageError: the model, the order of its layers or the file of an auxiliary model has
                changed.
        """
        path = Path(self._workers.on_chief(self._find))
        if not path.name:
            return False
        try:
            with plain_name(path.parent) as directory:
                file = str(directory / path.name)
                text = json.loads(tf.train.load_checkpoint(file).get_tensor(TEXT))
                self._validate_weights(text.get("signature", {}))
                status = self._checkpoint.read(file)
                status.assert_existing_objects_matched().expect_partial()
        except Exception:
            if path.with_name(f"{path.name}.index").exists():
                raise
            return self.restore()  # a process that trains has replaced it
        validate_hashes(self.run.models, text["auxiliary"])
        self.run.set_trainable(text["trainable"])
        self._outside.restore(text.get("outside", {}))
        self.restored_step = int(path.name.rpartition("-")[2])
        self.examples = text.get("examples", {})
        self.replicas = text.get("metrics", text).get("replicas", 1)  # the latest has metrics
        before = text.get("made_by", {}) | text.get("settings", {})
        changed = _what_changed(before, self._made_by | self._of_layers())
        if changed and self._workers.is_chief:
            sys.stderr.write(f"trained with {changed}: results may differ\n")
        return True

    def _of_layers(self) -> dict[str, Any]:
        """Settings of layers that act outside of training."""
        found = _settings(_layers(self.run)).items()
        return {name: value for name, value in found if not name.endswith("rate")}

    def _validate_weights(self, saved: dict[str, Any]) -> None:
        """Refuse weights of other shapes, or that stood at other places.

        Other names may mean the same layers, as where several models are made in one process.
        """
        for model, now in _names_of_weights(self.run).items():
            before = saved.get(model, now)
            known = set(before)
            for was, name in itertools.zip_longest(before, now, fillvalue="no more weights"):
                if was.rpartition(" (")[2] != name.rpartition(" (")[2]:
                    mend = "create_model in task/model.py back, or train anew"
                elif name != was and name in known:
                    mend = "the order of its layers back"
                else:
                    continue
                raise UsageError(
                    f"The weights can't be read: where {model} has {name}, it had {was}; set "
                    f"{mend}."
                )

    def _find(self) -> str:
        """The checkpoint to restore the weights from, "" if there is none."""
        for directory in (self.directory, self.directory.with_name("latest")):
            step = _latest_readable(directory)
            if step >= 0:
                if directory != self.directory:
                    sys.stderr.write(f"no best weights to read; those of step {step} are used\n")
                return str(directory / f"ckpt-{step}")
        return ""


def _layers(run: Run) -> dict[str, Any]:
    """The layers by name, but for models, and for those whose vocabulary would be copied."""
    return {
        layer.name: layer
        for layer in run.layers
        if not isinstance(layer, keras.Model) and not hasattr(layer, "get_vocabulary")
    }


def _optimizers(run: Run) -> dict[str, Any]:
    """All optimizers by name, those inside of others, too."""
    return {
        f"optimizer {name}{f'/{i}' * bool(i)}": one
        for name, optimizer in run.optimizers.items()
        for i, one in enumerate(all_optimizers(optimizer))
    }


def _settings(parts: dict[str, Any]) -> dict[str, Any]:
    """Numbers that layers or optimizers have as attributes of Python, such as a dropout's rate.

    No variables hold them, so that a checkpoint doesn't bring back what callbacks have set.
    """
    found: dict[str, Any] = {}
    for part, thing in parts.items():
        with contextlib.suppress(Exception):  # layers of one's own often have no config
            config = thing.get_config()
            names = config.keys() - NO_SETTINGS
            found |= {f"{part}.{n}": config[n] for n in names if isinstance(config[n], int | float)}
    return found


def _what_changed(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Which settings aren't what they were, of those that are known from both times."""
    return differences(before, {name: now[name] for name in sorted(before.keys() & now.keys())})


def _shapes(variables: list[keras.Variable]) -> list[str]:
    return [f"{v.path} {tuple(v.shape)}" for v in variables if not is_random_state(v)]


def _names_of_weights(run: Run) -> dict[str, list[str]]:
    """The names and shapes of the models' weights, in their order."""
    return {f"model {name}": _shapes(weights) for name, weights in _weights(run).items()}


def _weights(run: Run) -> dict[str, list[keras.Variable]]:
    models = run.trained_models.items()
    return {n: [v for v in m.variables if not is_random_state(v)] for n, m in models}


def _is_summed(run: Run) -> bool:
    """Whether writing sums a variable over the replicas: then all workers must take part."""
    variables = [v for model in run.trained_models.values() for v in model.variables]
    variables += [v for optimizer in run.optimizers.values() for v in all_variables(optimizer)]
    return any(isinstance(v.value, SyncOnReadVariable) for v in variables)


def _write(
    checkpoint: tf.train.Checkpoint,
    directory: Path,
    step: int,
    keep: int,
    run: Run,
    *,
    also: int = -1,
) -> None:
    """Write a checkpoint, then delete all but the latest `keep` and that of the step `also`.

    Of several workers the chief writes.

    It gets its name when it is complete, and on the disk. tf.train.CheckpointManager writes the
    index in place (TF 2.21): killed at that moment, it leaves a checkpoint that can't be read.
    """
    unfinished, workers = directory / "unfinished", run.workers

    def prepare() -> str:
        with writing(f"The checkpoint of step {step}"):
            shutil.rmtree(unfinished, ignore_errors=True)
            # Not the run's directory: if it was moved, its other half would begin in its place.
            for each in (directory.parent, directory, unfinished):
                each.mkdir(exist_ok=True)
        return ""

    def write() -> str:
        # Where it sums over the replicas, it can't be finished without the others.
        finishing = contextlib.nullcontext() if _is_summed(run) else link.finishing()
        with finishing, writing(f"The checkpoint of step {step}"):
            checkpoint.write(str(unfinished / f"ckpt-{step}"))
            files = sorted(unfinished.glob("ckpt-*.*"))  # the data before the index
            for file in files:
                to_disk(file)
            if (index := directory / f"ckpt-{step}.index").exists():  # it would be of other data
                index.unlink()
            for file in files:
                file.replace(directory / file.name)
            to_disk(directory)  # before older ones are deleted
            # What NFS or an indexer keeps there does no harm.
            shutil.rmtree(unfinished, ignore_errors=True)
            # Later ones are damaged: training resumed from before them.
            kept = [n for n in _steps(directory) if n <= step][:keep]
            _remove(directory, {*kept, also})
        return ""

    # By itself: writing would fail here before it sums anything, while others wait in the sum.
    workers.on_chief(prepare)
    if not workers.is_chief and _is_summed(run):
        with writing(f"The checkpoint of step {step}"), tempfile.TemporaryDirectory() as nowhere:
            checkpoint.write(str(Path(nowhere) / "ckpt"))
    workers.on_chief(write)


def _remove(directory: Path, kept: set[int]) -> None:
    """Delete checkpoints of other steps; the directory may be a link, and hold files of others."""
    for file in sorted(directory.glob("ckpt-*.*"), reverse=True):  # the index first
        if (ours := OURS.fullmatch(file.name)) and int(ours[1]) not in kept:
            file.unlink(missing_ok=True)  # somebody may free the disk meanwhile


def _latest_readable(directory: Path) -> int:
    """The step of the latest checkpoint in `directory` that can be read, -1 if there is none.

    Raises:
        UsageError: the disk, or what this user may do, doesn't let it be known.
    """
    steps = _steps(directory)
    for step in steps:
        if _is_readable(directory, step):
            return step
        if _steps(directory) != steps:
            break
    # A process that trains may have replaced what was listed, or what a listing has left out.
    return -1 if _steps(directory) == steps else _latest_readable(directory)


def _is_readable(directory: Path, step: int) -> bool:
    """Whether there is a checkpoint of a step that can be read; one that can't is named.

    Raises:
        UsageError: the disk, or what this user may do, doesn't let it be known.
    """
    if step not in _steps(directory):
        return False
    path = directory / f"ckpt-{step}"
    with plain_name(directory) as there:
        try:
            for file in directory.glob(f"ckpt-{step}.*"):
                file.open("rb").close()
            reader = tf.train.load_checkpoint(str(there / path.name))
            for key in reader.get_variable_to_shape_map():
                reader.get_tensor(key)  # reading compares the checksums
            json.loads(reader.get_tensor(TEXT))
        except Exception as error:  # of many kinds: an IndexError for a truncated file
            if step not in _steps(directory):  # a process that trains has replaced it
                return False
            is_of_system = isinstance(error, OSError) and not isinstance(error, ABSENT)
            # Then it isn't damaged: another one would be wrong.
            if is_of_system or is_out_of_memory(error) or is_passing(error):
                raise UsageError(cannot_read(path, error)) from error
            reason = type(error).__name__
            # Not to stdout, where `evaluate` prints its result.
            sys.stderr.write(f"checkpoint {path} can't be read ({reason}), trying another\n")
            return False
    return True


def _steps(directory: Path) -> list[int]:
    """The steps of the checkpoints in `directory`, the latest first; other files are ignored.

    Raises:
        UsageError: the disk fails, or this user must not read the directory.
    """
    try:
        names = [INDEX.fullmatch(file.name) for file in directory.iterdir()]
    except ABSENT:
        names = []
    except OSError as error:
        raise UsageError(cannot_read(directory, error)) from error
    return sorted((int(name[1]) for name in names if name), reverse=True)
