"""What can't be right on several replicas is refused before the first step, with the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf
from proof.engine.errors import UsageError
from proof.engine.types import Replica, Run

from .toys import Toy, build, plain_model, train

optimizers, metrics = keras.optimizers, keras.metrics


@pytest.mark.quick
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum", "mean"])
def test_a_loss_with_a_reduction(reduction: str) -> None:
    toy = Toy(losses=lambda: {"main": keras.losses.MeanSquaredError(reduction=reduction)})
    with pytest.raises(UsageError, match='create it with reduction="none"'):
        build(toy)


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ({"clipnorm": 1.0}, "--clip-norm"),
        ({"global_clipnorm": 1.0}, "--clip-norm"),
        ({"clipvalue": 1.0}, "process_gradients"),
        ({"gradient_accumulation_steps": 2}, "--accumulate"),
        ({"use_ema": True, "ema_overwrite_frequency": 5}, "leave it out"),
    ],
    ids=lambda value: next(reversed(value)) if isinstance(value, dict) else "",
)
def test_what_an_optimizer_does_too_early(arguments: dict[str, Any], fix: str) -> None:
    with pytest.raises(UsageError, match=fix):
        build(Toy(optimizer=lambda: optimizers.Adam(**arguments)))


@pytest.mark.parametrize("use_ema", [False, True])
def test_averages_that_nothing_uses(use_ema: bool, capsys: pytest.CaptureFixture[str]) -> None:
    build(Toy(optimizer=lambda: optimizers.Adam(use_ema=use_ema)))
    assert ("Adam(use_ema=True): its averages" in capsys.readouterr().out) == use_ema


def test_a_loss_scale_optimizer() -> None:
    toy = Toy(optimizer=lambda: optimizers.LossScaleOptimizer(optimizers.SGD()))
    with pytest.raises(UsageError, match="return the inner optimizer and use --precision float16"):
        build(toy)


def test_an_optimizer_that_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizers.SGD, "build", lambda self, variables: None)
    with pytest.raises(UsageError, match=r"call optimizer\.build\(model\.trainable_variables\)"):
        build(Toy())


@pytest.mark.parametrize(
    ("metric", "fix"),
    [
        (lambda: metrics.R2Score(num_regressors=2), "leave num_regressors out"),
        (lambda: metrics.F1Score(), "makes its variables on first use"),
        (lambda: correlation("PearsonCorrelation"), "leave it out"),
        (lambda: correlation("ConcordanceCorrelation"), "leave it out"),
    ],
    ids=lambda value: "",
)
def test_a_metric_that_does_not_add_up(metric: Callable[[], Any], fix: str) -> None:
    with pytest.raises(UsageError, match=fix):
        build(Toy(metrics=lambda: {"wrong": metric()}))


def correlation(name: str) -> Any:
    if not hasattr(metrics, name):
        pytest.skip("this Keras hasn't got it")
    return getattr(metrics, name)(axis=0)


def test_a_write_that_would_be_lost() -> None:
    stray = keras.Variable(0.0)

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        del replica
        stray.assign(1.0)
        return {"main": tf.reduce_mean(run.model(batch[0]))}

    with pytest.raises(UsageError, match="belongs to no model and no metric"):
        train(Toy(train_steps=(step,)), steps=1, steps_per_call=1)


@pytest.mark.parametrize("wrong", [lambda loss: loss, lambda loss: {"other": loss}])
def test_losses_by_no_optimizers_name(wrong: Callable[[tf.Tensor], Any]) -> None:
    def step(run: Run, batch: Any, replica: Replica) -> Any:
        del replica
        return wrong(tf.reduce_mean(run.model(batch[0])))

    with pytest.raises(UsageError, match="must return losses by the names of their optimizers"):
        train(Toy(train_steps=(step,)), steps=1, steps_per_call=1)


def test_a_loss_that_is_not_per_example() -> None:
    def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return keras.losses.mean_squared_error(tf.one_hot(labels, 3), predictions)[:, tf.newaxis]

    toy = Toy(losses=lambda: {"main": loss})
    with pytest.raises(ValueError, match='create it with reduction="none", and average'):
        train(toy, steps=1, steps_per_call=1)


def test_a_layer_set_trainable_that_the_optimizer_does_not_know() -> None:
    def model() -> keras.Model:
        model = plain_model()
        model.get_layer("hidden").trainable = False
        return model

    trained = train(Toy(model), steps=1, steps_per_call=1)
    trained.run.model.get_layer("hidden").trainable = True
    with pytest.raises(UsageError, match="create it trainable, and freeze it with a callback"):
        trained.steps.distributed_train_step(iter([]), 1, trained.progress)
