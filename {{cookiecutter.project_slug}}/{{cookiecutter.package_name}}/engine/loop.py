"""Epochs and steps: when things happen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import tensorflow as tf

from ..config import Config
from . import cluster
from .batches import (
    Split,
    evaluation_batches,
    number_of_examples,
    steps_per_epoch,
    training_batches,
)
from .callbacks import Callback, Event, every_epochs, every_secs, every_steps
from .checkpoints import Checkpoints
from .data_errors import data_errors, name_of
from .distribution import Distribution
from .errors import UsageError
from .interrupts import RESUMABLE, Interrupts
from .report import Progressbar, RunDirectory
from .types import MAIN, Run

SECONDS_PER_CALL = 0.5  # of a graph call: callbacks, the progress bar and Ctrl-C wait so long


class Loop:
    """Training, validation and test of one run.

    Args:
        run: what the factories made.
        distribution: its distributed steps.
        splits: the data: "train", and "validation" and "test" if there are any.
        directory: where results go.
        config: the knobs.
        callbacks: what is to be called, and when.
        monitor: the number of the history that tells the best weights, e.g. "validation_accuracy".
        larger_is_better: its direction.
    """

    def __init__(
        self,
        run: Run,
        distribution: Distribution,
        splits: dict[str, Split],
        directory: RunDirectory,
        config: Config,
        *,
        callbacks: Sequence[Callback] = (),
        monitor: str,
        larger_is_better: bool,
    ) -> None:
        saves: list[tuple[Callable[..., Callback], float]] = [
            (every_epochs, config.save_every_epochs),
            (every_steps, config.save_every_steps),
            (every_secs, config.save_every_secs),
        ]
        self.run = run
        self.distribution = distribution
        self.splits = {name: split for name, split in splits.items() if split is not None}
        self.directory = directory
        self.config = config
        self.callbacks = [*callbacks, *(when(n, lambda _: self._save()) for when, n in saves if n)]
        self.monitor = monitor
        self.sign = 1.0 if larger_is_better else -1.0
        self.progress = distribution.start()
        for name, split in self.splits.items():
            if not number_of_examples(split):
                raise UsageError(f"The {name_of(name)} is empty; create_datasets may leave it out.")
        examples = number_of_examples(splits["train"])
        self.steps_per_epoch = steps_per_epoch(examples, run.global_batch_size, config.last_batch)
        # Which examples a step takes follows from these, and from the seed.
        order = {"number of training examples": examples, "last batch": config.last_batch}
        if callable(splits["train"]):
            order["number of workers"] = cluster.number_of_workers()
        self.checkpoints = Checkpoints(
            directory.path / "checkpoints", run, self.progress, config.keep_checkpoints, order
        )
        self._evaluated: dict[str, tuple[tf.data.Dataset, int]] = {}
        self._train_metrics: dict[str, float] = {}  # of the latest epoch
        self.best: float | None = None
        self.stopping = False
        self.saving = False
        self.step = 0

    @property
    def epoch(self) -> int:
        """Epochs finished so far."""
        return self.step // self.steps_per_epoch

    def resume(self) -> None:
        """Go on after the latest checkpoint of the run directory.

        Raises:
            UsageError: there is none, or it belongs to something else.
        """
        restored = self.checkpoints.restore_latest()
        if restored is None:
            raise UsageError(f"{self.directory.path} holds no checkpoint to resume from.")
        self.progress, host = restored
        self.step, self.best = int(self.progress.step), host["best"]
        self.stopping = host["stopping"]
        self.directory.read_history(self.epoch)
        layers = [layer for model in self.run.models.values() for layer in model._flatten_layers()]
        for layer, trainable in zip(layers, host["trainable"], strict=True):
            if layer.trainable != trainable:
                layer.trainable = trainable
        for function, state in zip(self._stateful(), host["callbacks"], strict=True):
            function.set_state(state)
        print(f"resuming {self.directory.path} after step {self.step} (epoch {self.epoch})")

    def train(self) -> None:
        """Train until the last epoch is done or a callback stops the run.

        Raises:
            UsageError: too many steps in a row were not finite, or the data can't be used.
        """
        last = self.config.epochs * self.steps_per_epoch
        if self.checkpoints.saved_step < 0:  # what a resumed run has called by then is in its state
            self._call_back()
        iterator = iter(self._batches(self.step, last))
        bar = Progressbar(last, self.step)
        steps = self.config.steps_per_call or 1
        with Interrupts() as interrupts, closing(bar):
            if self.step < last and not self.stopping:
                self._trace(iterator)
            while self.step < last and not self.stopping and not interrupts.received:
                steps = min(steps, self._steps_until_due(last))
                started = time.perf_counter()
                steps = self._train_call(iterator, steps, bar)
                seconds = time.perf_counter() - started
                losses = dict(
                    zip(self._loss_names(), self.progress.last_losses.numpy(), strict=True)
                )
                bar.advance(steps, losses, steps * self.run.global_batch_size / seconds)
                if self.step % self.steps_per_epoch == 0:
                    self._end_epoch(bar)
                self._call_back()
                steps = max(1, self._next_steps(steps, seconds / steps))
            if interrupts.received:
                self._save()
                bar.say(f"interrupted after step {self.step}; to go on: {self.resume_command}")
                raise SystemExit(RESUMABLE)
        self._save()

    def evaluate(self, split: str) -> dict[str, float]:
        """Losses and metrics over every example of a split, once; leaves the metrics reset."""
        self._reset_metrics()
        count, losses = self._sums(split)
        values = dict(
            zip(self._loss_names(), (losses / tf.cast(count, tf.float64)).numpy(), strict=True)
        )
        return {f"{split}_{n}": float(v) for n, v in (values | self._metric_results()).items()}

    def test(self) -> dict[str, float]:
        """Evaluate the test data with the best weights."""
        if not self.checkpoints.restore_best():
            print("no best weights were saved; testing with the latest")
        return self.evaluate("test") if "test" in self.splits else {}

    @property
    def resume_command(self) -> str:
        """What to type to go on with this run."""
        return f"python train.py --resume {self.directory.path}"

    def _next_steps(self, steps: int, seconds_per_step: float) -> int:
        """How many steps the next graph call makes, if nothing is due before."""
        longest = int(self.config.max_stop_seconds / seconds_per_step)
        if self.config.steps_per_call:
            return min(self.config.steps_per_call, longest)
        # At most twice as many as before: the first calls are slowed down by tracing.
        return min(int(SECONDS_PER_CALL / seconds_per_step), 2 * steps, longest)

    def _trace(self, iterator: Any) -> None:
        """Make every graph before the first step: data that doesn't fit fails here."""
        with data_errors("train", self.run, iterator.element_spec):
            self.distribution.distributed_train_step(iterator, 0, self.progress)
        for split in self.splits:
            if split != "train":
                self._sums(split, steps=0)

    def _sums(self, split: str, steps: int | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Count, and losses times count, over `steps` batches of a split, by default over all."""
        if split not in self._evaluated:
            layout = self.distribution.layout
            self._evaluated[split] = evaluation_batches(self.splits[split], layout)
        batches, number = self._evaluated[split]
        step = self.distribution.distributed_validation_step
        if split == "test":
            step = self.distribution.distributed_test_step
        sums = tf.zeros((), tf.int64), tf.zeros(len(self.run.optimizers), tf.float64)
        with data_errors(split, self.run, batches.element_spec):
            return step(iter(batches), number if steps is None else steps, sums)

    def _train_call(self, iterator: Any, steps: int, bar: Progressbar) -> int:
        skipped = int(self.progress.skipped)
        with data_errors("train", self.run, iterator.element_spec):
            self.progress = self.distribution.distributed_train_step(iterator, steps, self.progress)
        made = int(self.progress.step) - self.step
        self.step += made
        if int(self.progress.skipped) > skipped:
            self._say_skipped(bar)
        return made

    def _say_skipped(self, bar: Progressbar) -> None:
        progress = self.progress
        losses = dict(zip(self._loss_names(), progress.skipped_losses.numpy(), strict=True))
        said = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        step, row = int(progress.skipped_step) + 1, int(progress.skipped_in_a_row)
        bar.say(f"step {step} skipped, not finite: {said} ({int(progress.skipped)} skipped so far)")
        if row > self.distribution.max_skipped_steps:
            raise UsageError(
                f"Stopped at step {step}: {row} steps in a row were not finite ({said}); lower the "
                "learning rate, set --clip-norm, or look for NaN in the data with "
                f"`python -m {__package__.partition('.')[0]} check`."
            )

    def _end_epoch(self, bar: Progressbar) -> None:
        row: dict[str, float] = {"epoch": self.epoch, "step": self.step}
        seen = int(self.progress.examples) or np.nan  # no step of the epoch was finite
        losses = dict(zip(self._loss_names(), self.progress.losses.numpy() / seen, strict=True))
        self._train_metrics = self._metric_results()
        row |= {f"train_{n}": float(v) for n, v in (losses | self._train_metrics).items()}
        if "validation" in self.splits:
            row |= self.evaluate("validation")
        self._reset_metrics()
        self.progress = self.progress._replace(
            examples=tf.zeros((), tf.int64), losses=tf.zeros_like(self.progress.losses)
        )
        bar.end_epoch(row, self.config.epochs)
        self.directory.add_epoch(row)
        self._keep_best(row)

    def _keep_best(self, row: dict[str, float]) -> None:
        monitor = (
            self.monitor
            if "validation" in self.splits
            else self.monitor.replace("validation", "train")
        )
        if monitor not in row:
            known = ", ".join(name for name in row if name not in ("epoch", "step"))
            raise UsageError(
                f"The monitored metric {monitor!r} isn't in the history; there are: {known}."
            )
        value = row[monitor]
        if np.isfinite(value) and (self.best is None or self.sign * (value - self.best) > 0):
            self.best = value
            self.checkpoints.save_best(self.step)

    def _save(self) -> None:
        layers = [layer for model in self.run.models.values() for layer in model._flatten_layers()]
        host = {
            "best": self.best,
            "stopping": self.stopping,
            "trainable": [layer.trainable for layer in layers],
            "callbacks": [function.get_state() for function in self._stateful()],
        }
        self.checkpoints.save(self.progress, host)
        self.directory.is_new = False

    def _stateful(self) -> list[Any]:
        functions = [callback.function for callback in self.callbacks]
        return [function for function in functions if hasattr(function, "get_state")]

    def _call_back(self) -> None:
        due = [c for c in self.callbacks if c.is_due(self.step, self.steps_per_epoch)]
        if due:
            event = self._event()
            for callback in due:
                callback.function(event)
        if self.saving:  # when all are called, or a checkpoint would lack what the later ones do
            self._save()
            self.saving = False

    def _event(self) -> Event:
        def save() -> None:
            self.saving = True

        def stop() -> None:
            self.stopping = True

        def read_batch() -> Any:
            return next(iter(self._batches(self.step - 1, self.step)))

        losses = self.progress.last_losses.numpy()
        during = self.step % self.steps_per_epoch  # at an epoch's end the metrics are reset
        return Event(
            step=self.step,
            epoch=self.epoch,
            losses=dict(zip(self._loss_names(), map(float, losses), strict=True))
            if self.step
            else {},
            metrics=self._metric_results() if during else self._train_metrics,
            gradient_norm=float(self.progress.gradient_norm),
            run=self.run,
            directory=self.directory.path,
            history=self.directory.history,
            save=save,
            stop=stop,
            read_batch=read_batch,
        )

    def _steps_until_due(self, last: int) -> int:
        """Steps to the next moment at which the host has something to do."""
        ends = [last, (self.epoch + 1) * self.steps_per_epoch]
        ends += [c.next_step(self.step, self.steps_per_epoch) or last for c in self.callbacks]
        return min(ends) - self.step

    def _batches(self, first: int, last: int) -> tf.data.Dataset:
        return training_batches(
            self.splits["train"],
            self.distribution.layout,
            seed=self.run.seed,
            first_step=first,
            last_step=last,
            last_batch=self.config.last_batch,
            augment=self.run.task.augment,
        )

    def _loss_names(self) -> list[str]:
        return ["loss" if name == MAIN else f"{name}_loss" for name in self.run.optimizers]

    def _metric_results(self) -> dict[str, float]:
        return {name: float(metric.result()) for name, metric in self.run.metrics.items()}

    def _reset_metrics(self) -> None:
        for metric in self.run.metrics.values():
            metric.reset_state()
