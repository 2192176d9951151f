"""The log between validations: losses and metrics since the last log point, rates, speed."""

from __future__ import annotations

import time
from collections.abc import Container
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import link
from .callbacks import learning_rates
from .progress import Progress, Sums, mean_losses
from .records import Records
from .types import Run

LOGS_PER_EPOCH = 100  # at most, where the interval is automatic
# The columns of steps.csv beside losses, terms and metrics.
OF_STEPS = (
    "step", "epoch", "learning_rate", "gradient_norm", "examples_per_second", "waiting_for_data",
    "skipped_steps", "loss_scale",
)  # fmt: skip
LARGEST_COST = 0.01  # fraction of the time that automatic logs may take


class StepLog:
    """Writes a row to steps.csv, and to TensorBoard, every so many steps.

    An observer: metrics and losses are sums, over the steps as over the replicas, so what a window
    of steps gave is what has been added since the window before. Nothing is reset, and a run has
    the same bits with any number of log points.

    Args:
        run: whose training metrics are read.
        records: where rows go.
        updated: ids of the variables that train steps update, known when they are traced.
        steps_per_epoch: train steps in an epoch.
        every_steps: steps between log points; 0 for automatic ones.
    """

    def __init__(
        self,
        run: Run,
        records: Records,
        updated: Container[int],
        *,
        steps_per_epoch: int,
        every_steps: int,
    ) -> None:
        self._run = run
        self._records = records
        self._updated = updated
        self._steps_per_epoch = steps_per_epoch
        self._every_steps = every_steps
        self._variables = [v for metric in run.metrics.values() for v in metric.variables]
        self._step = 0  # of the last log point
        self._timed_steps, self._train_secs = 0, 0.0  # of graph calls since then
        self._secs_waited = 0.0  # of those, for data
        self._ended, self._cost = -np.inf, 0.0  # when its writing ended, and how long it took
        self.restart()

    def restart(self) -> None:
        """Start a window where all sums are zero: at the beginning, and after a validation."""
        self._metrics = [np.zeros(v.shape, v.dtype) for v in self._variables]
        zero = Sums.zero(len(self._run.returned))
        self._counts, self._losses = zero.counts.numpy(), zero.losses.numpy()

    def add_time(self, steps: int, secs: float, waited: float) -> None:
        """Add a graph call: how many steps it made, in how many seconds, waiting how many."""
        self._timed_steps += steps
        self._train_secs += secs
        self._secs_waited += waited

    def is_due(self, step: int) -> bool:
        """Whether to log after `step`, at the end of a graph call."""
        if self._every_steps:
            return step % self._every_steps == 0
        enough_steps = (step - self._step) * LOGS_PER_EPOCH >= self._steps_per_epoch
        return enough_steps and (time.perf_counter() - self._ended) * LARGEST_COST >= self._cost

    def write(self, progress: Progress) -> None:
        """Log the window that ends here, and start the next one.

        Raises:
            UsageError: the log can't be written.
        """
        started = time.perf_counter()
        step, rates = int(progress.step), learning_rates(self._run, of_latest_step=True)
        # Of this process: a resumed window began in another one.
        examples = self._timed_steps * self._run.global_batch_size
        row: dict[str, float] = {"step": step, "epoch": step / self._steps_per_epoch}
        row |= self._close_window(progress)
        for name, rate in rates.items():
            row["learning_rate" if len(rates) == 1 else f"learning_rate_{name}"] = rate
        row["gradient_norm"] = float(progress.latest.gradient_norm)
        row["examples_per_second"] = examples / (self._train_secs or np.inf)
        row["waiting_for_data"] = self._secs_waited / (self._train_secs or np.inf)
        row["skipped_steps"] = int(progress.skips.total)
        row["loss_scale"] = float(progress.loss_scale.value)
        self._records.add_log(row)
        self._step, self._timed_steps = step, 0
        self._train_secs = self._secs_waited = 0.0
        self._ended = time.perf_counter()
        self._cost = self._ended - started

    def get_state(self) -> dict[str, Any]:
        """Where the window starts, as JSON."""
        metrics = [value.tolist() for value in self._metrics]
        counts, losses = self._counts.tolist(), self._losses.tolist()
        return {"step": self._step, "counts": counts, "losses": losses, "metrics": metrics}

    def set_state(self, state: dict[str, Any]) -> None:
        """Start the window where `get_state` did."""
        self._step = state["step"]
        self._counts, self._losses = np.asarray(state["counts"]), np.asarray(state["losses"])
        pairs = zip(state["metrics"], self._variables, strict=True)
        self._metrics = [np.asarray(value, v.dtype) for value, v in pairs]

    def _close_window(self, progress: Progress) -> dict[str, float]:
        """Mean losses and metrics of the window; the next one starts."""
        link.arrive()  # metrics are sums over all workers
        now = [np.asarray(tf.convert_to_tensor(v.value)) for v in self._variables]
        added = [new - old for new, old in zip(now, self._metrics, strict=True)]
        with keras.StatelessScope(zip(self._variables, added, strict=True)):
            metrics = self._run.metric_results(self._updated)
        counts, losses = progress.sums.counts.numpy(), progress.sums.losses.numpy()
        means = mean_losses(counts - self._counts, losses - self._losses)
        self._metrics, self._counts, self._losses = now, counts, losses
        return self._run.by_loss_name(means) | metrics
