"""No cell of docs/parity.md is beyond its tolerance."""

from __future__ import annotations

import pytest

from .parity import KINDS, STRATEGIES, difference


@pytest.mark.parametrize("strategy", STRATEGIES[1:])
@pytest.mark.parametrize("name", KINDS)
def test_n_replicas_train_exactly_like_one(name: str, strategy: int | str) -> None:
    assert difference(name, strategy) <= KINDS[name].tolerance
