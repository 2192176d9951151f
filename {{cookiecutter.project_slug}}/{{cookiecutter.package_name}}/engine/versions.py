"""Versions that would give wrong results are refused at start. Imports no TensorFlow."""

from __future__ import annotations

import importlib.metadata
import re

from .errors import UsageError


def require_keras(oldest: tuple[int, int] = (3, 10)) -> None:
    """Refuse a Keras whose metrics are wrong on several replicas.

    Before 3.10 the variables of a metric aren't summed over the replicas (keras #20601).

    Raises:
        UsageError: the installed Keras is too old.
    """
    installed = importlib.metadata.version("keras")
    if tuple(map(int, re.findall(r"\d+", installed)[:2])) < oldest:
        raise UsageError(
            f"Keras {installed} reports wrong metrics on several replicas (keras-team/keras#20601);"
            ' install a newer one: pip install --upgrade "keras>=3.10".'
        )
