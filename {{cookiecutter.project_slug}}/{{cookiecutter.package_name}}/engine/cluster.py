"""The workers named in TF_CONFIG, and which of them this process is."""

from __future__ import annotations

import json
import os


def _task() -> tuple[list[str], int]:
    """The addresses of all workers in TF_CONFIG, the chief's first, and this one's index."""
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster, task = config.get("cluster", {}), config.get("task", {})
    chiefs, workers = cluster.get("chief", []), cluster.get("worker", [])
    # With a chief, both it and the first worker have index 0: the type decides.
    before = 0 if task.get("type") == "chief" else len(chiefs)
    return [*chiefs, *workers], before + int(task.get("index", 0))


def num_workers() -> int:
    """How many processes train together; 1 without TF_CONFIG."""
    return max(1, len(_task()[0]))


def worker_index() -> int:
    """The index of this process among the workers, 0 for the chief."""
    return _task()[1]
