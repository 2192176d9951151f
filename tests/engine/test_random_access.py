"""Examples by row number: what is read at once, and what is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from proof.engine.batches import BatchLayout, evaluation_batches
from proof.engine.random_access import RandomAccess

pytestmark = pytest.mark.quick

ROWS, LAYOUT = 20, BatchLayout(8, 1, 0, 1)  # the last batch is padded


class Columns:
    """A table whose rows are read together."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.single = fails, 0

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> Any:
        self.single += 1
        return {"x": np.float32(row), "name": f"row {row}"}, np.full(3, row)

    def __getitems__(self, rows: list[int]) -> Any:
        numbers = np.array(rows)
        names = [f"row {row}" for row in rows[1 if self.fails else 0 :]]
        return {"x": numbers.astype("float32"), "name": names}, np.repeat(numbers[:, None], 3, 1)


@pytest.mark.parametrize("fails", [False, True])
def test_rows_given_as_columns_are_those_read_one_by_one(fails: bool) -> None:
    source = Columns(fails)
    batches, _ = evaluation_batches(RandomAccess(source), LAYOUT)
    seen = []
    for inputs, labels, weights in batches.as_numpy_iterator():
        there = weights[0] > 0
        names = [name.decode() for name in inputs["name"][0][there]]
        assert names == [f"row {x:.0f}" for x in inputs["x"][0][there]]
        assert labels.shape == (1, 8, 3)
        seen += labels[0][there][:, 2].tolist()
    assert seen == list(range(ROWS))
    assert source.single == (1 + ROWS if fails else 1)  # the first row tells shapes and dtypes


def test_an_array_that_is_not_contiguous_is_not_copied() -> None:
    rows = 10**12  # in memory a single one; a copy of all would need terabytes
    array = np.broadcast_to(np.arange(3.0), (rows, 3))
    inputs, _ = next(iter(evaluation_batches(array, LAYOUT)[0]))
    assert inputs.numpy().tolist() == [[[0, 1, 2]] * 8]
