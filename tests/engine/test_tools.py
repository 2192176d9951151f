"""What owners bring along: optimizers of optimizers, models of equal names, frozen models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.batches import BatchLayout, TrainingBatches
from proof.engine.checkpoints import BestWeights
from proof.engine.errors import UsageError
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss

from .toys import CLASSES, FEATURES, Toy, assert_parity, build, train

layers = keras.layers


def multi_optimizer(**arguments: Any) -> keras.optimizers.Optimizer:
    slow = keras.optimizers.SGD(0.005, **arguments)
    fast = keras.optimizers.SGD(0.05, momentum=0.9)
    return keras.optimizers.MultiOptimizer(lambda v: slow if "hidden" in v.path else fast)


@pytest.mark.quick
def test_the_optimizers_inside_a_multi_optimizer_do_not_sum_again() -> None:
    assert_parity(Toy(optimizer=multi_optimizer), replicas=(2,))


@pytest.mark.quick
def test_clipping_inside_a_multi_optimizer_is_refused() -> None:
    toy = Toy(optimizer=lambda: multi_optimizer(clipnorm=1.0))
    with pytest.raises(UsageError, match=r"SGD\(clipnorm=...\) clips each replica's gradients"):
        build(toy)


def dense(units: int) -> keras.Model:
    """A model whose variables have the same paths as those of every other one."""
    x = keras.Input((FEATURES,))
    return keras.Model(x, layers.Dense(units, name="same")(x), name="same")


def two_models_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    losses = {}
    for name, model in run.models.items():
        per_example = run.losses["main"](labels, model(inputs, training=True))
        losses[name] = compute_loss(per_example, weights, model, replica)
    return losses


TWINS = Toy(
    lambda: {name: dense(CLASSES) for name in "ab"},
    lambda: {name: keras.optimizers.SGD(0.1) for name in "ab"},
    train_steps=(two_models_step,),
    metrics=dict,
)


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_of_two_models_with_equal_names_the_frozen_one_stands_still(replicas: int) -> None:
    built = build(TWINS, replicas)
    iterator, progress = built.iterator(0, 4), built.steps.start()
    for frozen, free in ("ab", "ba"):
        built.run.models[frozen].trainable = False
        before = {name: model.get_weights() for name, model in built.run.models.items()}
        progress = built.steps.distributed_train_step(iterator, 2, progress)
        after = {name: model.get_weights() for name, model in built.run.models.items()}
        built.run.models[frozen].trainable = True
        np.testing.assert_array_equal(before[frozen][0], after[frozen][0])
        assert np.any(before[free][0] != after[free][0])


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_model_that_is_frozen_as_a_whole_may_have_an_optimizer(replicas: int) -> None:
    built = build(TWINS, replicas)
    built.run.models["a"].trainable = False
    before = built.run.models["a"].get_weights()
    progress = built.steps.distributed_train_step(built.iterator(0, 2), 2, built.steps.start())
    assert np.isfinite(progress.latest.losses).all()
    np.testing.assert_array_equal(before[0], built.run.models["a"].get_weights()[0])


def test_best_weights_restore_what_is_frozen(tmp_path: Path) -> None:
    first, second = build(Toy()), build(Toy())
    first.run.model.get_layer("hidden").trainable = False
    BestWeights(tmp_path, first.run).save(3)
    assert BestWeights(tmp_path, second.run).restore()
    assert not second.run.model.get_layer("hidden").trainable


def test_a_frozen_batch_normalization_is_not_synchronized(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        still = layers.BatchNormalization(trainable=False)
        return keras.Model(x, layers.Dense(CLASSES)(still(x)))

    assert_parity(Toy(model), replicas=(2,), jit="on")
    assert "synchronized" not in capsys.readouterr().out


def test_a_stream_that_spans_epochs_is_resumed_in_its_epoch() -> None:
    examples, read = 40, []

    def count(i: tf.Tensor) -> tf.Tensor:
        tf.py_function(lambda: read.append(1), [], [])
        return i

    stream = tf.data.Dataset.range(examples).map(count)
    batches = TrainingBatches(stream, BatchLayout(8, 1, 0, 1), seed=1, last_batch="span")
    whole = [ids.numpy().tolist() for ids, _ in batches.dataset(0, 100)]
    read.clear()
    resumed = [ids.numpy().tolist() for ids, _ in batches.dataset(98, 100)]
    assert resumed == whole[98:]
    assert len(read) <= 3 * examples  # its epoch, and what is prefetched of the next


@pytest.mark.quick
def test_weights_are_those_of_training_also_with_float64_and_float32_data() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        difference = run.model(inputs, training=True)[:, 0] - labels  # no cast by the owner
        return {"main": compute_loss(tf.square(difference), weights, run.model, replica)}

    inputs, labels = Toy().data
    data = inputs.astype("float32"), labels.astype("float32")
    assert np.isfinite(train(Toy(data=data, train_steps=(step,), metrics=dict)).losses).all()
