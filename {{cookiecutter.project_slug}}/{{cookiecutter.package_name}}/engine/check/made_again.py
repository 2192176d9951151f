"""The data created a second time, here and in another process, to compare both."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from ..adapted import as_arrays, from_bytes, to_bytes
from ..batches import Split, first_examples, worker_split
from .numbers import bytes_of

LONGEST_CREATION = 3.0  # seconds to create data that is created again here
LONGEST_IN_PROCESS = 10.0  # and in another process, during the other checks
MOST_BYTES = 2**30  # of arrays in memory, which a second copy of the data needs again
FIRST_ROWS = 64  # of each split, that are compared
MOST_COMPARED = 2**24  # bytes of a split's arrays in memory; of larger ones, rows spread over them
Adapt = Callable[[dict[str, Any]], dict[str, Any]]
CHILD = """
import gc, json, pickle, sys
gc.disable()
make, adapt = pickle.load(sys.stdin.buffer)
from {module} import facts
print()
print(json.dumps(facts(make(), adapt)))
"""


class MadeAgain:
    """The data, and how it is made.

    Args:
        make: calls create_datasets of task/data.py with the flags of the task.
        adapt: calls adapt of task/model.py with these and the data; None: not looked at.
        datasets: what it made.
        secs: how long that took; data that takes long, or much memory, isn't created again.
    """

    def __init__(
        self,
        make: Callable[[], dict[str, Any]],
        adapt: Adapt | None,
        datasets: dict[str, Any],
        secs: float,
    ) -> None:
        self._make, self._adapt, self._datasets = make, adapt, datasets
        leaves = tf.nest.flatten([*datasets.values()])
        in_memory = sum(leaf.nbytes for leaf in leaves if type(leaf) is np.ndarray)
        self._secs = secs if in_memory < MOST_BYTES else float("inf")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def takes_long(self) -> bool:
        """Whether creating the data takes too long to do it again here."""
        return self._secs > LONGEST_CREATION

    @cached_property
    def others_here(self) -> list[str] | None:
        """The splits that differ when they are created again; None if that takes too long."""
        return None if self.takes_long else self._others(starts(self._make()))

    def start_process(self) -> None:
        """Create the data in another process as well, unless that takes too long."""
        if self._secs > LONGEST_IN_PROCESS:
            return
        with contextlib.suppress(Exception):  # functions that can't be pickled
            make = pickle.dumps((self._make, self._adapt))
            with tempfile.TemporaryFile() as stdin:
                stdin.write(make)
                stdin.seek(0)
                self._process = subprocess.Popen(
                    [sys.executable, "-c", CHILD.format(module=__name__)],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                )

    @cached_property
    def others_in_process(self) -> list[str] | None:
        """The splits that differ in another process; None if that isn't known."""
        return None if self._in_process is None else self._others(self._in_process["starts"])

    @property
    def adapted_in_process(self) -> dict[str, np.ndarray] | None:
        """What `adapt` returns in another process; None if that isn't known."""
        text = self._in_process and self._in_process["adapted"]
        return from_bytes(base64.b64decode(text)) if text else None

    @cached_property
    def _in_process(self) -> dict[str, Any] | None:
        if self._process is None:
            self.start_process()
        if self._process is None:
            return None
        printed, _ = self._process.communicate()
        if self._process.returncode:
            return None
        return dict(json.loads(printed.splitlines()[-1]))

    @cached_property
    def _starts(self) -> dict[str, str]:
        return starts(self._datasets)

    def _others(self, made: dict[str, str]) -> list[str]:
        """The splits that differ from those here."""
        return [name for name, start in self._starts.items() if start != made[name]]


def facts(datasets: dict[str, Any], adapt: Adapt | None) -> dict[str, Any]:
    """What another process tells of the data that it has made."""
    text = base64.b64encode(to_bytes(as_arrays(adapt(datasets)))).decode() if adapt else ""
    return {"starts": starts(datasets), "adapted": text}


def starts(datasets: dict[str, Any]) -> dict[str, str]:
    """A hash of the first examples of each split, and of the arrays that it is read from."""
    hashes = {name: hashlib.sha256() for name, split in datasets.items() if split is not None}
    for name, hashed in hashes.items():
        split = datasets[name]
        for array in (*tf.nest.flatten(first_examples(split, FIRST_ROWS)), *_in_memory(split)):
            hashed.update(bytes_of(array))
    return {name: hashed.hexdigest() for name, hashed in hashes.items()}


def _in_memory(split: Split) -> list[np.ndarray]:
    """The arrays in memory that a split is read from: they may differ after the first examples.

    They may be file names and their labels. Of large arrays, and of texts, only some rows.
    """
    rows = worker_split(split)
    if isinstance(rows, tf.data.Dataset):
        return []
    arrays = [a for a in rows._arrays or () if type(a) is np.ndarray]
    is_small = [a.nbytes <= MOST_COMPARED / len(arrays) and a.dtype != object for a in arrays]
    return [a if small else a[:: max(1, len(a) // FIRST_ROWS)]
            for a, small in zip(arrays, is_small, strict=True)]  # fmt: skip
