"""What every test of the engine needs."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import pytest


@pytest.fixture(autouse=True)
def _precision(request: pytest.FixtureRequest) -> Iterator[None]:
    """Float64, or what a test is parametrized with."""
    policy = getattr(request, "param", "float64")
    keras.config.set_floatx("float64" if policy == "float64" else "float32")
    keras.config.set_dtype_policy(policy)
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
