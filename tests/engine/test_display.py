"""What the terminal shows at the start and at the end of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf
from proof.engine.display import start_lines, table

from .test_loop import loop
from .toys import BATCH, Toy, build, plain_data

pytestmark = pytest.mark.quick
TOY = Toy(data=plain_data(2 * BATCH), others={"validation": plain_data(BATCH + 5)})


def test_the_start_says_what_is_trained_on() -> None:
    lines = start_lines(build(TOY).run, TOY.splits, 2).splitlines()
    assert lines[0] == f"examples: 48 train, 29 validation; {BATCH} in a step, 2 steps in an epoch"
    assert lines[1].startswith("weights: ")
    endless = {"train": tf.data.Dataset.range(3).repeat()}
    assert "endless train" in start_lines(build(TOY).run, endless, 2)


def test_losses_and_metrics_stand_in_rows_and_splits_in_columns() -> None:
    results = {"strategy": "none", "train_loss": 1.23456789, "validation_loss": 20000.0}
    results |= {"test_loss": float("nan"), "test_mean_error": 1e-9}
    results |= {f"train_f1/{i}": 0.5 for i in range(9)}
    head, loss, *classes, error = table(results).splitlines()
    assert head.split() == ["train", "validation", "test"]
    assert loss.split() == ["loss", "1.235", "2e+04", "nan"]
    assert error.split() == ["mean", "error", "1e-09"]
    assert error.endswith("1e-09")
    assert [line.split()[0] for line in classes] == [f"f1/{i}" for i in range(4)]


@pytest.mark.parametrize("validated", [True, False])
def test_the_best_step_is_that_of_the_weights_that_are_tested(
    validated: bool, tmp_path: Path
) -> None:
    toy = TOY if validated else Toy(data=TOY.data)
    loop(tmp_path, toy=toy, num_steps=4, save_every_steps=2).train()
    run = loop(tmp_path, toy=toy, num_steps=6, resume=True)
    run.train()
    best = min(run.records.history, key=lambda row: row["train_loss"])
    assert run.best_row == best
    assert f"of step {best['step']:g}\n" in run.last_words
