"""Refuses versions that give wrong results, names untested ones. Imports no TensorFlow."""

from __future__ import annotations

import importlib.metadata
import re

from .errors import UsageError

NAMES = {"tensorflow": "TensorFlow", "keras": "Keras"}
# Of each: the oldest version that works, and what is wrong with those before it.
OLDEST = {
    "tensorflow": ((2, 16), "comes with Keras 2, and this project is written for Keras 3"),
    # Before 3.10 the variables of a metric aren't summed over the replicas.
    "keras": ((3, 10), "reports wrong metrics on several replicas (keras-team/keras#20601)"),
}
NEWEST_TESTED = {"tensorflow": (2, 21), "keras": (3, 15)}  # docs/versions.md of the template


def require_versions() -> None:
    """Refuse a TensorFlow or Keras that is too old, since an environment may ignore metadata.

    Raises:
        UsageError: it is.
    """
    for name, (oldest, reason) in OLDEST.items():
        installed = _installed(name)
        if installed and is_older(installed, oldest):
            lowest = ".".join(map(str, oldest))
            raise UsageError(
                f"{NAMES[name]} {installed} {reason}; install a newer one: "
                f'python -m pip install --upgrade "{name}>={lowest}".'
            )


def is_older(version: str, release: tuple[int, int]) -> bool:
    """Whether a version comes before a release."""
    return _release(version) < release


def untested_versions() -> str:
    """What is newer than the newest version that was tested, in one sentence; or nothing."""
    newer = [
        f"{NAMES[name]} {installed} (tested: up to {'.'.join(map(str, newest))})"
        for name, newest in NEWEST_TESTED.items()
        if _release(installed := _installed(name)) > newest
    ]
    if not newer:
        return ""
    return (
        f"the cause may also be {' or '.join(newer)}, with which this engine was never tested: "
        "compare with a tested version before you change your task"
    )


def _installed(name: str) -> str:
    """The version of a distribution; nothing if there is none, as beside tf-nightly."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _release(version: str) -> tuple[int, ...]:
    """Major and minor version."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
