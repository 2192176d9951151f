"""Losses of every kind are the same over N replicas as over one."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.errors import UsageError
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .test_recipes import DOCS
from .toys import BATCH, CLASSES, FEATURES, Toy, Trained, assert_parity, plain_data, train
from .worked import CONTRASTIVE, GAN, parts, tokens

layers = keras.layers
ADAM = lambda: keras.optimizers.Adam(0.01)  # noqa: E731
ROWS = {"full": 2 * BATCH, "short": BATCH + 17, "one more": BATCH + 1}


def regularized(*, activity: bool, added: bool) -> keras.Model:
    """The default toy with L2, and with losses that depend on its inputs."""

    class Added(keras.layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            self.add_loss(0.1 * tf.reduce_mean(tf.square(x)))
            return x

    x = inputs = keras.Input((FEATURES,))
    regularizer = keras.regularizers.L2(0.01) if activity else None
    x = layers.Dense(
        4, "tanh", kernel_regularizer=keras.regularizers.L2(0.1), activity_regularizer=regularizer
    )(x)
    if added:
        x = Added()(x)
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_weight_regularization_is_counted_once(rows: int, accumulate: int) -> None:
    toy = Toy(lambda: regularized(activity=False, added=False), ADAM, plain_data(rows))
    assert_parity(toy, accumulate=accumulate)


@pytest.mark.parametrize(
    ("activity", "added"), [(True, False), pytest.param(False, True, marks=pytest.mark.quick)]
)
def test_losses_that_depend_on_inputs_are_right_on_full_batches(
    activity: bool, added: bool
) -> None:
    toy = Toy(lambda: regularized(activity=activity, added=added), ADAM)
    plain = train(Toy(lambda: regularized(activity=False, added=False), ADAM))
    assert assert_parity(toy).losses[0] > plain.losses[0]  # they are part of the loss


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_sample_weights_reach_the_same_loss(rows: int) -> None:
    weights = np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.0], rows)
    assert_parity(Toy(optimizer=ADAM, data=(*plain_data(rows), weights)))


@pytest.mark.quick
def test_a_batch_of_which_nothing_counts_has_loss_0_and_is_no_skipped_step() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs))
        total = tf.reduce_sum(per_example * weights)
        return {"main": total / tf.cast(replica.global_count, total.dtype)}

    data = (*plain_data(BATCH), np.zeros(BATCH))
    one = assert_parity(Toy(data=data, train_steps=(step,), metrics=dict), steps_per_call=1)
    np.testing.assert_array_equal(one.losses, 0)
    assert int(one.progress.skips.total) == 0


@pytest.mark.quick
def test_a_dict_of_counts_for_a_loss_with_one_denominator_is_one_sentence() -> None:
    toy = Toy(count=lambda batch: {"boxes": tf.constant(1), "classes": tf.constant(2)})
    sentence = "a dict can't be a number: count .* of its name, 'boxes' or 'classes'"
    with pytest.raises(UsageError, match=sentence):
        train(toy, steps=1, steps_per_call=1)


@pytest.mark.quick
def test_a_global_count_of_more_than_32_bits() -> None:
    voxels = 2**29  # of a replica: the sum of four is the first that int32 can't hold
    four, one = (
        train(Toy(count=lambda batch, n=n: tf.constant(n)), replicas, steps=1, steps_per_call=1)
        for replicas, n in ((4, voxels), (1, BATCH))
    )
    np.testing.assert_allclose(four.losses[0] * 4 * voxels, one.losses[0] * BATCH, rtol=1e-6)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_labels_with_two_dimensions_are_averaged_per_example(rows: int) -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = tf.reduce_mean(run.losses["main"](labels, run.model(inputs)), axis=-1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    inputs, labels = plain_data(rows)
    labels = np.stack([labels] * 4, axis=1)

    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, layers.Reshape((4, CLASSES))(layers.Dense(4 * CLASSES)(x)))

    assert_parity(Toy(model, ADAM, (inputs, labels), (step,), metrics=dict))


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_tokens_can_be_what_counts(rows: int, accumulate: int) -> None:
    assert_parity(tokens(rows), accumulate=accumulate)


@pytest.mark.parametrize("accumulate", [1, pytest.param(2, marks=pytest.mark.quick)])
def test_each_part_of_a_loss_can_have_its_own_denominator(accumulate: int) -> None:
    one = assert_parity(parts(), accumulate=accumulate, steps_per_call=1)
    assert np.isfinite(one.losses).all()  # also where nothing counts in a part


@pytest.mark.quick
@pytest.mark.quick
@pytest.mark.parametrize("length", [5, 4], ids=["another length", "as long as the batch"])
def test_the_page_counts_lines_and_their_tokens(length: int) -> None:
    page = (DOCS / "losses.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- run: two_counts -->\n +```python\n(.*?) +```", page, re.DOTALL)
    names: dict[str, Any] = {"tf": tf, "IGNORED": -1}
    exec(textwrap.dedent(block), names)
    labels = np.ones((4, length), np.int64)
    labels[0, :3] = -1
    weights = tf.constant([0.5, 1.0, 0.0, 0.0])
    counts = names["count"]((None, tf.constant(labels), weights))
    assert counts == {"lines": 2, "tokens": 2 * length - 3}
    assert {count.dtype for count in counts.values()} == {tf.int32}


def test_a_gan_trains_like_on_one_replica() -> None:
    one = assert_parity(GAN)
    assert len(one.losses[0]) == 2


def test_the_second_train_step_sees_the_update_of_the_first() -> None:
    seen = []

    def first(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        del batch, replica
        # The gradient is 1 on all replicas together: SGD(1) subtracts 1 from the weight.
        weight = run.models["a"].trainable_variables[0]
        return {
            "a": tf.reduce_sum(tf.convert_to_tensor(weight)) / run.strategy.num_replicas_in_sync
        }

    def second(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        del batch, replica
        n = run.strategy.num_replicas_in_sync
        a = tf.reduce_sum(tf.convert_to_tensor(run.models["a"].trainable_variables[0]))
        b = tf.reduce_sum(tf.convert_to_tensor(run.models["b"].trainable_variables[0]))
        return {"b": (a + 0.0 * b) / n}

    def model() -> keras.Model:
        x = keras.Input((1,))
        return keras.Model(x, layers.Dense(1, use_bias=False, kernel_initializer="zeros")(x))

    toy = Toy(
        lambda: {"a": model(), "b": model()},
        lambda: {name: keras.optimizers.SGD(1.0) for name in "ab"},
        (np.ones((48, 1)), np.zeros(48)), (first, second), metrics=dict,
    )  # fmt: skip
    for replicas in (1, 2, 4):
        seen.append(train(toy, replicas, steps=1, steps_per_call=1).losses[0].tolist())
    assert seen == [[0.0, -1.0]] * 3


@pytest.mark.quick
def test_a_loss_that_crosses_replicas_keeps_parity() -> None:
    assert_parity(CONTRASTIVE)


@pytest.mark.parametrize("accumulate", [2, 4])
@pytest.mark.parametrize("replicas", [1, 2])
def test_micro_batches_add_up_to_the_batch(accumulate: int, replicas: int) -> None:
    toy = Toy(lambda: regularized(activity=False, added=False), ADAM, plain_data(BATCH + 17))
    whole, parts = train(toy, replicas), train(toy, replicas, accumulate=accumulate)
    for a, b in zip(whole.everything(), parts.everything(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(whole.losses, parts.losses, rtol=1e-9)


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.quick)])
def test_twenty_steps_in_one_call_are_bit_identical_to_twenty_calls(replicas: int) -> None:
    toy = Toy(optimizer=ADAM)
    one_by_one, at_once = (train(toy, replicas, steps_per_call=k) for k in (1, 20))
    for a, b in zip(one_by_one.everything(), at_once.everything(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_loss_is_the_mean_over_the_examples_or_over_the_global_batch() -> None:
    """The first of two batches is full, the second has a single example."""
    rows = BATCH + 1
    for replicas in (1, 2, 4):
        examples, constant = (
            _second_loss(Toy(data=plain_data(rows)), replicas, denominator=choice)
            for choice in ("examples", "global_batch")
        )
        np.testing.assert_allclose(examples, BATCH * constant, rtol=1e-12)


def _second_loss(toy: Toy, replicas: int, **flags: Any) -> float:
    # A rate of zero: the second loss must not depend on the first step.
    still = Toy(data=toy.data, optimizer=lambda: keras.optimizers.SGD(0.0))
    trained: Trained = train(still, replicas, steps=2, steps_per_call=1, **flags)
    return float(trained.losses[1][0])


@pytest.mark.parametrize("replicas", [1, 2])
def test_clipping_looks_at_the_norm_of_the_sum(replicas: int) -> None:
    toy = Toy(optimizer=lambda: keras.optimizers.SGD(1.0))
    trained = train(toy, replicas, steps=1, steps_per_call=1, clip_norm=0.01)
    start = train(toy, replicas, steps=0).weights
    moved = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(trained.weights, start, strict=True)))
    assert float(trained.progress.latest.gradient_norm) > 0.01
    assert moved == pytest.approx(0.01, rel=1e-9)


def test_process_gradients_gets_the_sum_before_it_is_clipped() -> None:
    def double(gradients: list[tf.Tensor], variables: list[keras.Variable]) -> list[tf.Tensor]:
        assert [g.shape for g in gradients] == [v.shape for v in variables]
        return [2.0 * gradient for gradient in gradients]

    plain = train(Toy(), 1, steps=1, steps_per_call=1)
    for replicas in (1, 2):
        twice = train(
            Toy(process_gradients=double), replicas, steps=1, steps_per_call=1, clip_norm=1e-3
        )
        np.testing.assert_allclose(
            twice.progress.latest.gradient_norm, 2 * plain.progress.latest.gradient_norm, rtol=1e-12
        )
