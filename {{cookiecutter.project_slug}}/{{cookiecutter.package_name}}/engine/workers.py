"""Decisions that all workers of a run make together; with one worker they cost nothing.

Workers must make the same collectives in the same order. So whatever depends on a clock, a signal
or a disk of one of them is told to all, by one small sum, before they act on it.
"""

from __future__ import annotations

import io
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from . import cluster, link
from .errors import LostWorkerError, UsageError, code_of
from .files import writing
from .output import Forgiving

LONGEST_TEXT = 4096  # bytes of what the chief tells
VISIBLE_SECS = 30.0  # until a new file is seen by all: NFS remembers for so long what isn't there
PAUSE_SECS = 0.2


class Workers:
    """The workers of a strategy.

    Args:
        strategy: where the run trains; the only worker is the chief unless it has several.

    Attributes:
        number: of workers.
        index: of this one, 0 for the chief.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.number = cluster.num_workers() if several else 1
        self.index = cluster.worker_index() if several else 0
        numbers = tf.TensorSpec((None,), tf.float64)  # one trace for any number of them
        self._sum = tf.function(self._traced_sum, [numbers], autograph=False)

    @property
    def alone(self) -> bool:
        """Whether there is one worker only."""
        return self.number == 1

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that writes and prints."""
        return self.index == 0

    def gather(self, values: Sequence[float]) -> np.ndarray:
        """The numbers of each worker, float64 (workers, n); n must be the same on all."""
        mine = np.asarray(values, np.float64)
        rows = np.zeros((self.number, len(mine)))
        rows[self.index] = mine
        return self.sum(rows)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The sum over the workers of an array of the same shape on each, float64."""
        if self.alone:
            return values
        link.arrive()
        return self._sum(tf.constant(values.ravel(), tf.float64)).numpy().reshape(values.shape)

    def share(self, content: bytes) -> bytes:
        """The bytes of the chief, on all workers."""
        if self.alone:
            return content
        size = int(self.gather([len(content)])[0, 0])
        numbers: np.ndarray = np.zeros(-(-size // 4), np.uint32)  # which float64 holds exactly
        if self.is_chief:
            numbers = np.frombuffer(content.ljust(4 * len(numbers), b"\0"), np.uint32)
        return self.sum(numbers.astype(np.float64)).astype(np.uint32).tobytes()[:size]

    def on_chief(self, function: Callable[[], str]) -> str:
        """What a function of the chief returns, on all workers.

        Raises:
            UsageError: on all workers, when the function raises one.
            LostWorkerError: on the others, when the storage of that may be back in a moment.
        """
        if self.alone:
            return function()
        text, error = "", None
        if self.is_chief:
            try:
                text = f"+{function()}"
            except UsageError as raised:
                text, error = f"{'-' if code_of(raised) == 2 else '~'}{raised}", raised
        data = np.zeros(LONGEST_TEXT)
        encoded = np.frombuffer(text.encode()[:LONGEST_TEXT], np.uint8)
        data[: len(encoded)] = encoded
        data = self.sum(data).astype(np.uint8)
        text = bytes(data).rstrip(b"\0").decode(errors="replace")
        if error is not None:
            raise error
        if not text.startswith("+"):
            raise (LostWorkerError if text.startswith("~") else UsageError)(text[1:])
        return text[1:]

    def wait(self) -> None:
        """Wait until all workers are here."""
        if not self.alone:
            self.gather([0])

    def require_shared(self, directory: Path) -> None:
        """Make sure that all workers see what the chief writes to `directory`.

        Raises:
            UsageError: on all workers, when one doesn't, or the chief can't write to it.
        """
        if self.alone:
            return

        def mark() -> str:
            name = f"seen-by-all-{secrets.token_hex(8)}"
            try:
                (directory / name).touch()
            except OSError as error:
                raise UsageError(f"{directory} can't be written to: {error.strerror}.") from error
            return name

        marker = directory / self.on_chief(mark)
        end = time.monotonic() + VISIBLE_SECS
        # In rounds, so that none seems to hang: the chief's clock ends them.
        while True:
            rounds = self.gather([marker.exists(), time.monotonic() > end])
            seen = rounds[:, 0]
            if seen.all() or rounds[0, 1]:
                break
            time.sleep(PAUSE_SECS)
        if self.is_chief:
            marker.unlink(missing_ok=True)
        if blind := [f"worker {worker}" for worker in range(self.number) if not seen[worker]]:
            raise UsageError(
                f"{directory} is on no storage that all workers share: {', '.join(blind)} can't "
                "see what worker 0 writes; set --runs to a directory that all of them see under "
                "the same name."
            )

    def print_on_chief_only(self) -> None:
        """Keep what a worker other than the chief prints for its log file, `log_to`."""
        if not self.is_chief:
            sys.stdout = io.StringIO()

    def log_to(self, directory: Path) -> None:
        """Write what a worker other than the chief prints to worker-<index>.log.

        Raises:
            UsageError: it can't be written.
        """
        if self.is_chief:
            return
        so_far = sys.stdout.getvalue() if isinstance(sys.stdout, io.StringIO) else ""
        file = directory / f"worker-{self.index}.log"
        with writing(file):  # open for the rest of the process
            log = file.open("a", encoding="utf-8", buffering=1)
            log.write(so_far)
        sys.stdout = Forgiving(log)

    def _traced_sum(self, values: tf.Tensor) -> tf.Tensor:
        def of_replica(values: tf.Tensor) -> tf.Tensor:
            context: Any = tf.distribute.get_replica_context()
            local = context.num_replicas_in_sync // self.number
            # Each worker counts once, however many replicas it has.
            first = context.replica_id_in_sync_group % local == 0
            values = tf.where(first, values, tf.zeros_like(values))
            return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

        sums = self._strategy.run(of_replica, args=(values,))
        return self._strategy.experimental_local_results(sums)[0]
