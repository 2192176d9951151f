"""Reduced precision and XLA: what overflows on one replica is seen by all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.errors import UsageError
from proof.engine.gradients import global_norm
from proof.engine.loss_scale import FIRST_VALUE, GROWTH_INTERVAL
from proof.engine.progress import Progress
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .test_loop import loop
from .toys import (
    BATCH,
    CLASSES,
    FEATURES,
    Toy,
    Trained,
    build,
    plain_data,
    plain_model,
    plain_step,
    train,
)
from .worked import CONTRASTIVE

layers = keras.layers


def half_model() -> keras.Model:
    """The default toy with float32 logits."""
    x = keras.Input((FEATURES,))
    hidden = layers.Dense(4, activation="tanh")(x)
    return keras.Model(x, layers.Dense(CLASSES, dtype="float32")(hidden))


HALF = Toy(half_model)


def scaled_by(scale: float) -> Callable[[Progress], Progress]:
    """Begin with this loss scale."""
    return lambda progress: progress._replace(
        loss_scale=progress.loss_scale._replace(value=tf.constant(scale))
    )


def test_layers_of_an_augmentation_are_in_full_precision() -> None:
    made: list[str] = []

    def create_augment() -> Callable[..., Any]:
        noise = layers.GaussianNoise(0.1)
        made.append(noise.compute_dtype)
        return lambda batch, seed: (noise(batch[0], training=True), *batch[1:])

    for precision in ("float64", "float16", "bfloat16", "float64"):
        built = build(Toy(half_model, create_augment=create_augment), precision=precision)
        inputs, *_ = next(built.iterator(0, 1))
        assert inputs.dtype.name == made[-1]
    assert made == ["float64", "float32", "float32", "float64"]


def test_weights_in_float16_train_at_a_scale_that_float16_does_not_have() -> None:
    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        hidden = layers.Dense(4, activation="tanh", dtype="float16")(x)
        return keras.Model(x, layers.Dense(CLASSES, dtype="float32")(hidden))

    toy = Toy(model, lambda: keras.optimizers.SGD(0.05))
    steps: dict[str, Any] = {"steps": 3, "steps_per_call": 1, "precision": "float16"}
    trained = [train(toy, start=scaled_by(scale), **steps) for scale in (2.0**10, 2.0**16)]
    kernels = [each.weights[0] for each in trained]
    assert kernels[0].dtype == np.float16
    np.testing.assert_allclose(*kernels, rtol=1e-2)
    before = build(toy, precision="float16").run.model.weights[0].numpy()
    assert np.abs(kernels[1] - before).max() > 1e-3


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x: layers.RandomRotation(0.1)(x, training=True),
         r"float32.* float64.*: .*RandomRotation can't compute in"),
        (lambda x: x * tf.ones(x.shape),
         r"float32.* float64.*: .*cast what that line makes to keras\.config\.floatx\(\)"),
        (lambda x: x * tf.range(4),
         r"int32.* float64.*: .*that line combines integers with floats: use tf\.cast"),
    ],
)  # fmt: skip
def test_an_augmentation_that_mixes_dtypes_is_one_sentence(
    change: Callable[[tf.Tensor], tf.Tensor], says: str
) -> None:
    images = np.zeros((BATCH, 4, 4, 1), "float32")
    toy = Toy(
        lambda: keras.Sequential([keras.Input((4, 4, 1)), layers.Flatten(), layers.Dense(CLASSES)]),
        data=(images, plain_data()[1][:BATCH]),
        augment=lambda batch, seed: (change(batch[0]), *batch[1:]),
    )
    with pytest.raises(UsageError, match=says):
        build(toy, precision="float64").iterator(0, 1)


@pytest.mark.quick
def test_gradients_that_are_no_numbers_are_seen_where_a_maximum_leaves_them_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """XLA on the CPU does, as where TF_XLA_FLAGS asks for it (TF 2.21): max(1, nan) is 1."""

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.models["main"](inputs))
        weight = run.models["other"].trainable_variables[0].value
        return {
            "main": compute_loss(per_example, weights, run.models["main"], replica),
            "other": tf.sqrt(tf.reduce_sum((weight - tf.stop_gradient(weight)) ** 2)),
        }

    names = ("main", "other")
    toy = Toy(
        lambda: {name: plain_model() for name in names},
        lambda: {name: keras.optimizers.SGD(0.1) for name in names},
        train_steps=(step,),
    )

    def numbers(t: Any) -> Any:
        is_float = tf.is_tensor(t) and t.dtype.is_floating
        return tf.where(tf.math.is_nan(t), tf.cast(-np.inf, t.dtype), t) if is_float else t

    largest, larger = tf.reduce_max, tf.maximum
    monkeypatch.setattr(tf, "reduce_max", lambda t, *a, **k: largest(numbers(tf.stack(t)), *a, **k))
    monkeypatch.setattr(tf, "maximum", lambda a, b: larger(numbers(a), numbers(b)))
    built = build(toy)
    before = [v.numpy() for v in built.run.trainable_variables]
    progress = built.steps.distributed_train_step(built.iterator(0, 1), 1, built.steps.start())
    assert int(progress.skips.total) == 1
    for variable, was in zip(built.run.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), was)


@pytest.mark.quick
def test_a_layer_of_its_own_precision_is_scaled_too() -> None:
    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        hidden = layers.Dense(4, "tanh", dtype="mixed_float16", name="half")(x)
        return keras.Model(x, layers.Dense(CLASSES, dtype="float32")(hidden))

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        # So small that gradients of the layer are 0 in float16.
        return {"main": 1e-7 * tf.cast(plain_step(run, batch, replica)["main"], tf.float32)}

    half = Toy(model, lambda: keras.optimizers.Adam(0.1, epsilon=1e-20), train_steps=(step,))
    built = build(half, precision="float32")
    kernel = built.run.model.get_layer("half").kernel
    before = kernel.numpy()
    built.steps.distributed_train_step(built.iterator(0, 3), 3, built.steps.start())
    assert (np.abs(kernel.numpy() - before) > 0.01).all()


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_loss_scale_is_halved_on_overflow_until_it_fits(replicas: int) -> None:
    start = 2.0**40
    flags = {"precision": "float16", "max_skipped_steps": 0}
    trained = train(HALF, replicas, start=scaled_by(start), steps=40, **flags)
    progress = trained.progress
    overflows = int(progress.skips.overflows)
    assert 5 < overflows < 40
    assert float(progress.loss_scale.value) == start / 2**overflows
    # An overflow is no skipped step, however many there are in a row: it never stops a run.
    assert (int(progress.step), int(progress.skips.total)) == (40, 0)
    assert progress.sums.counts.numpy().tolist() == [(40 - overflows) * BATCH]
    assert int(trained.run.optimizers["main"].iterations.numpy()) == 40 - overflows


def almost(progress: Progress) -> Progress:
    """Begin two steps before the loss scale is doubled."""
    good_steps = tf.constant(GROWTH_INTERVAL - 2, tf.int64)
    return progress._replace(loss_scale=progress.loss_scale._replace(good_steps=good_steps))


def test_the_loss_scale_doubles_after_enough_good_steps() -> None:
    trained = train(HALF, 2, start=almost, steps=3, steps_per_call=1, precision="float16")
    assert float(trained.progress.loss_scale.value) == 2 * FIRST_VALUE
    assert int(trained.progress.loss_scale.good_steps) == 1


def test_the_loss_scale_stays_finite_where_all_that_trains_is_in_float32() -> None:
    def head_on_frozen_features() -> keras.Model:
        x = keras.Input((FEATURES,))
        features = layers.Dense(4, activation="tanh", trainable=False)(x)
        return keras.Model(x, layers.Dense(CLASSES, dtype="float32")(features))

    trained = train(
        Toy(head_on_frozen_features), start=lambda p: almost(scaled_by(2.0**127)(p)),
        steps=3, steps_per_call=1, precision="float16",
    )  # fmt: skip
    assert float(trained.progress.loss_scale.value) == 2.0**127
    assert int(trained.run.optimizers["main"].iterations.numpy()) == 3


@pytest.mark.quick
def test_an_overflow_on_the_second_replica_alone_is_seen_by_all() -> None:
    """A large weight on one example of the second replica overflows the gradient there only."""
    inputs, labels = plain_data(BATCH)
    toy = Toy(half_model, data=(inputs, labels, np.ones(BATCH)))
    built = build(toy, 2, precision="float16")
    (x, y, weights) = next(built.iterator(0, 1))  # (replicas, rows, ...)
    heavy = weights.numpy()
    heavy[1, 0] = 1e4
    iterator = iter(tf.data.Dataset.from_tensors((x, y, tf.constant(heavy))).repeat(2))
    before = Trained(built, built.steps.start(), []).everything()
    progress = built.steps.distributed_train_step(iterator, 1, built.steps.start())
    after = Trained(built, progress, []).everything()
    assert (int(progress.skips.overflows), int(progress.skips.total)) == (1, 0)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    for variable in built.run.model.trainable_variables:
        first, second = variable.value.values
        np.testing.assert_array_equal(first, second)


def test_a_loss_that_is_not_finite_is_no_overflow() -> None:
    bad = Toy(half_model, data=(np.full((48, FEATURES), np.nan), np.zeros(48, int)))
    progress = train(bad, 2, steps=2, steps_per_call=2, precision="float16").progress
    assert (int(progress.skips.overflows), int(progress.skips.total)) == (0, 2)
    assert float(progress.loss_scale.value) == FIRST_VALUE
    assert int(progress.loss_scale.good_steps) == 0


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_the_loss_falls_in_reduced_precision(precision: str) -> None:
    trained = train(HALF, 2, steps=40, precision=precision)
    assert trained.losses[-1][0] < 0.8 * trained.losses[0][0]


def test_jit_compiles_forward_and_backward() -> None:
    for replicas in (1, 2):
        trained = train(Toy(), replicas, steps=1, steps_per_call=1, jit="on")
        (compiled,) = trained.steps.transaction._compiled.values()
        assert compiled.experimental_get_tracing_count() >= 1


def normalized() -> keras.Model:
    """A model that sums over the replicas once `create_run` has synchronized it."""
    x = keras.Input((FEATURES,))
    return keras.Model(x, layers.Dense(CLASSES)(layers.BatchNormalization()(x)))


def synchronized() -> keras.Model:
    """The same, synchronized by its owner."""
    x = keras.Input((FEATURES,))
    return keras.Model(x, layers.Dense(CLASSES)(layers.BatchNormalization(synchronized=True)(x)))


@pytest.mark.parametrize("model", [normalized, synchronized])
def test_jit_on_is_refused_with_batch_normalization_on_two_replicas(model: Any) -> None:
    with pytest.raises(UsageError, match="--jit on: BatchNormalization"):
        train(Toy(model), 2, steps=1, steps_per_call=1, jit="on")


def test_jit_on_is_refused_where_a_loss_crosses_replicas() -> None:
    with pytest.raises(UsageError, match=r"gathers or sums over the replicas; use --jit off"):
        train(CONTRASTIVE, 2, steps=1, steps_per_call=1, jit="on")


def mean_of_all(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Asks TensorFlow, and not `replica`, for what the other replicas have."""
    (loss,) = plain_step(run, batch, replica).values()
    total = tf.distribute.get_replica_context().all_reduce("sum", tf.stop_gradient(loss))
    return {"main": loss + 0.0 * total}


def words() -> keras.Model:
    """A model that looks up strings."""
    x = inputs = keras.Input((1,), dtype=tf.string)
    x = layers.Flatten()(layers.Embedding(9, 2)(layers.Hashing(9)(x)))
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


@pytest.mark.parametrize(
    "toy",
    [
        CONTRASTIVE,
        Toy(train_steps=(mean_of_all,)),
        Toy(words, data=(np.array([["a"], ["b"]] * BATCH), np.zeros(2 * BATCH, int))),
    ],
    ids=["all_gather", "all_reduce", "strings"],
)
def test_jit_auto_falls_back_where_xla_cannot_compile(
    toy: Toy, capsys: pytest.CaptureFixture[str]
) -> None:
    built = build(toy, 2, jit="auto")
    built.steps.transaction.jit = True  # as on a machine with an accelerator
    iterator = built.iterator(0, 1)
    progress = built.steps.distributed_train_step(iterator, 1, built.steps.start())
    assert int(progress.step) == 1
    assert "jit: off" in capsys.readouterr().out
    assert not built.steps.jit


def test_a_sum_over_replicas_that_xla_cannot_compile_is_named() -> None:
    built = build(Toy(train_steps=(mean_of_all,)), 2, jit="on")
    with pytest.raises(UsageError, match=r"^XLA can't compile what gathers or sums .*--jit off"):
        built.steps.distributed_train_step(built.iterator(0, 1), 1, built.steps.start())


def test_what_xla_cannot_compile_is_named(tmp_path: Path) -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        zeros = tf.strings.to_number(tf.strings.as_string(0.0 * batch[0]), batch[0].dtype)
        return {"main": plain_step(run, batch, replica)["main"] + tf.reduce_sum(zeros)}

    with pytest.raises(UsageError, match=r"^XLA can't compile \w+; use --jit off\."):
        loop(tmp_path, toy=Toy(train_steps=(step,)), flags={"jit": "on"}).train()


def test_a_train_step_can_return_a_half_precision_loss() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True))
        return {"main": tf.cast(compute_loss(per_example, weights, run.model, replica), "float16")}

    toy = Toy(half_model, train_steps=(step,))
    progress = train(toy, 2, start=scaled_by(8.0), precision="float16").progress
    assert int(progress.skips.overflows) == int(progress.skips.total) == 0


def test_the_norm_of_float16_gradients_does_not_overflow() -> None:
    assert float(global_norm([tf.fill([1_000_000], tf.constant(0.5, tf.float16))])) == 500
