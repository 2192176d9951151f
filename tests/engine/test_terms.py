"""Terms of a loss: reported by themselves, summed and averaged exactly, not trained on."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.callbacks import Callback, Event, every_steps
from proof.engine.check import RELATIONS
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.loop import Loop, Schedule
from proof.engine.run_directory import RunDirectory
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss
from tensorflow.python.summary.summary_iterator import summary_iterator

from .toys import BATCH, Toy, build, laboratory, plain_data, plain_step, train
from .worked import GAN, parts

ROWS = 2 * BATCH - 7  # the second batch has padding
# tf.nn.compute_average_loss rounds losses with weights to float32, in float64 too (TF 2.21).
SINGLE = 1e-6


def average(values: tf.Tensor, weights: tf.Tensor, replica: Replica) -> tf.Tensor:
    """This replica's part of a mean."""
    return tf.nn.compute_average_loss(
        values, sample_weight=weights, global_batch_size=replica.global_count
    )


def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The plain step, with the mean of the first feature as a term."""
    inputs, _, weights = batch
    return {
        **plain_step(run, batch, replica),
        "feature": average(tf.cast(inputs[:, 0], weights.dtype), weights, replica),
    }


TOY = Toy(
    optimizer=lambda: keras.optimizers.Adam(0.01), data=plain_data(ROWS), train_steps=(step,),
    terms=("feature",), others={"validation": plain_data(BATCH + 5)},
)  # fmt: skip


def loop(
    path: Path, replicas: int = 1, callbacks: Sequence[Callback] = (), **settings: Any
) -> Loop:
    """A run of two steps an epoch that isn't started."""
    monitor, toy = settings.pop("monitor", "validation_feature"), settings.pop("toy", TOY)
    built = build(toy, replicas)
    path.mkdir(exist_ok=True)
    return Loop(
        *built,
        Evaluation(built.run, toy.splits, built.steps.layout),
        RunDirectory(path),
        Schedule(max_stop_secs=1e9, save_every_epochs=0, log_every_steps=1, **settings),
        callbacks=callbacks,
        monitor=monitor,
        larger_is_better=False,
    )


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_mean_of_a_term_is_that_of_all_examples(replicas: int, accumulate: int) -> None:
    trained = train(TOY, replicas, steps=2, steps_per_call=2, accumulate=accumulate)
    found = trained.run.by_loss_name(trained.progress.sums.means())
    assert list(found) == ["loss", "feature"]
    assert found["feature"] == pytest.approx(TOY.data[0][:, 0].mean(), rel=SINGLE)


def test_a_term_changes_nothing_that_is_learned() -> None:
    plain = replace(TOY, train_steps=(plain_step,), terms=())
    for replicas in (1, 2):
        with_term, without = train(TOY, replicas), train(plain, replicas)
        for a, b in zip(with_term.everything(), without.everything(), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("size", [24, 12, 4])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_term_with_the_name_of_a_count_is_weighted_by_it(size: int, replicas: int) -> None:
    toy = parts(2 * BATCH - 7)
    inputs, labels = toy.data
    built = build(toy, replicas, global_batch_size=size)
    found = Evaluation(built.run, {"validation": toy.data}, built.steps.layout).evaluate(
        "validation"
    )
    logits = built.run.model(inputs).numpy()
    likelihoods = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    wanted = {
        "validation_all": -likelihoods[np.arange(len(labels)), labels].mean(),
        "validation_class 0": np.square(logits[labels == 0, 0]).mean(),
    }
    for name, value in wanted.items():  # many batches have no example of class 0
        assert found[name] == pytest.approx(value, rel=SINGLE)


def test_a_skipped_step_adds_nothing_and_a_bad_term_skips_nothing() -> None:
    inputs, labels = plain_data(2 * BATCH)
    bad = inputs.copy()
    bad[0, 0] = np.nan  # one of the two batches has this row

    def only_term(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        zeros = tf.where(tf.math.is_nan(inputs), tf.zeros_like(inputs), inputs)
        losses = plain_step(run, (zeros, labels, weights), replica)
        return {**losses, "feature": average(inputs[:, 0], weights, replica)}

    skipped = train(replace(TOY, data=(bad, labels)), 2, steps=2, steps_per_call=1)
    assert int(skipped.progress.skips.total) == 1
    assert skipped.progress.sums.counts.numpy().tolist() == [BATCH, BATCH]
    assert np.isfinite(skipped.progress.sums.means()).all()
    kept = train(replace(TOY, data=(bad, labels), train_steps=(only_term,)), 2, steps=2,
                 steps_per_call=1)  # fmt: skip
    assert int(kept.progress.skips.total) == 0
    assert np.isfinite(kept.progress.sums.means()).tolist() == [True, False]


def test_a_term_is_not_multiplied_by_the_loss_scale() -> None:
    built = build(TOY, 2, precision="float16", last_batch="drop")
    assert built.steps.loss_scaling.enabled
    progress = built.steps.distributed_train_step(built.iterator(0, 1), 1, built.steps.start())
    inputs, _, _ = next(built.iterator(0, 1))
    term = built.run.by_loss_name(progress.latest.losses.numpy())["feature"]
    assert term == pytest.approx(np.mean(inputs[..., 0]), rel=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_terms_are_columns_everywhere_and_resume_exactly(replicas: int, tmp_path: Path) -> None:
    seen: list[Event] = []
    watch = [every_steps(1, seen.append)]
    whole = loop(tmp_path, replicas, watch, num_steps=5, save_every_steps=3)
    whole.start(resume=False)
    whole.train()
    history, steps = (rows_of(tmp_path / f"{name}.csv") for name in ("history", "steps"))
    assert {"train_feature", "validation_feature"} <= set(history[0])
    mean = plain_data(BATCH + 5)[0][:, 0].mean()
    assert float(history[0]["validation_feature"]) == pytest.approx(mean, rel=SINGLE)
    assert [float(row["feature"]) for row in steps] == pytest.approx(
        [event.losses["feature"] for event in seen], rel=1e-9
    )
    assert whole.best.value == float(history[0]["validation_feature"])
    for name in ("train", "validation"):
        (file,) = (tmp_path / "log" / name).glob("*")
        tags = {value.tag for e in summary_iterator(str(file)) for value in e.summary.value}
        assert {"loss", "feature"} <= tags

    for file in (tmp_path / "checkpoints" / "latest").glob("ckpt-5.*"):
        file.unlink()
    resumed = loop(tmp_path, replicas, watch, num_steps=5)
    resumed.start(resume=True)
    assert resumed.step == 3  # in mid-epoch
    resumed.train()
    assert rows_of(tmp_path / "history.csv") == history
    timed = dict.fromkeys(("examples_per_second", "waiting_for_data"), "")
    again = [row | timed for row in rows_of(tmp_path / "steps.csv")]
    assert again == [row | timed for row in steps]

    changed = replace(TOY, train_steps=(plain_step,), terms=())
    other = loop(tmp_path, replicas, toy=changed, num_steps=7, monitor="validation_loss")
    with pytest.raises(UsageError, match="in its list of losses and terms feature is"):
        other.start(resume=True)


def message(toy: Toy, replicas: int = 1) -> str:
    with pytest.raises(UsageError) as error:
        train(toy, replicas, steps=1, steps_per_call=1)
    return str(error.value)


def test_an_unknown_name_is_one_sentence_with_the_known_ones() -> None:
    assert message(replace(TOY, terms=("features",))) == (
        "step returns 'main', 'feature'; it must return losses by the names of their optimizers, "
        "which are: 'main'; and it may return what TERMS in task/steps.py names: 'features'."
    )
    assert message(replace(TOY, terms=())).endswith("names: nothing yet.")


def test_what_no_train_step_returns_is_one_sentence() -> None:
    assert message(replace(GAN, train_steps=GAN.train_steps[:1])) == (
        "_discriminator_step must return a loss named 'generator'."
    )
    assert message(replace(GAN, terms=("kl",))) == (
        "_discriminator_step and _generator_step must return a term named 'kl'."
    )
    built = build(replace(TOY, validation_step=plain_step))
    evaluation = Evaluation(built.run, TOY.splits, built.steps.layout)
    with pytest.raises(UsageError, match=r"^plain_step must return a term named 'feature'"):
        evaluation.evaluate("validation")


def test_a_term_is_a_scalar() -> None:
    def vector(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return {**plain_step(run, batch, replica), "feature": batch[0][:, 0]}

    found = message(replace(TOY, train_steps=(vector,)))
    assert found.startswith("vector returns 'feature' with shape (24,); it must be a scalar")


@pytest.mark.parametrize("term", ["main", "loss", "accuracy", "step", "gradient_norm"])
def test_two_numbers_may_not_have_one_name(term: str) -> None:
    with pytest.raises(UsageError, match=f"Two numbers would be called '{term}'"):
        build(replace(TOY, terms=(term,)))


def test_terms_that_lack_a_comma() -> None:
    with pytest.raises(UsageError, match=r"TERMS in task/steps.py is a string; write \('kl',\)."):
        build(replace(TOY, terms="kl"))  # type: ignore[arg-type]


def test_a_train_step_may_return_terms_only() -> None:
    def measure(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return {"feature": average(batch[0][:, 0], batch[2], replica)}

    def learn(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    for replicas in (1, 2):
        toy = replace(TOY, train_steps=(learn, measure), metrics=dict)
        trained = train(toy, replicas, steps=2, steps_per_call=2)
        assert int(trained.progress.skips.total) == 0
        found = trained.run.by_loss_name(trained.progress.sums.means())
        assert found["feature"] == pytest.approx(TOY.data[0][:, 0].mean(), rel=SINGLE)


@pytest.mark.parametrize(("rate", "rises"), [(-0.1, True), (0.1, False)])
def test_check_looks_at_losses_and_not_at_terms(rate: float, rises: bool) -> None:
    """A term that falls doesn't excuse a loss that rises, nor the other way round."""
    sign = -1.0 if rises else 1.0

    def against(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        values = tf.ones_like(batch[2]) * sign * tf.cast(replica.step, batch[2].dtype)
        return {**plain_step(run, batch, replica), "feature": average(values, batch[2], replica)}

    toy = replace(TOY, optimizer=lambda: keras.optimizers.SGD(rate), train_steps=(against,))
    finding = RELATIONS["loss falls on one batch"].observe(laboratory(toy))
    assert (finding.verdict == "WRONG") == rises, finding
