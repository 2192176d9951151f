"""What can't be right on several replicas is refused before the first step, with the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.auxiliary import load_frozen
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.gradients import build_optimizer
from proof.engine.types import Replica, Run
from proof.engine.unsupported import validate, validate_models, validate_modes, validate_splits

from .faulty import copied_every
from .toys import BATCH, CLASSES, FEATURES, Toy, build, plain_data, plain_model, plain_step, train

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
        ({"loss_scale_factor": 128.0}, "--precision float16"),
        ({"ema_overwrite_frequency": 5, "use_ema": True}, "only fit uses"),
        ({"use_ema": True}, "only fit uses"),
    ],
    ids=lambda value: next(reversed(value)) if isinstance(value, dict) else "",
)
def test_what_an_optimizer_does_too_early(arguments: dict[str, Any], fix: str) -> None:
    with pytest.raises(UsageError, match=fix):
        build(Toy(optimizer=lambda: optimizers.Adam(**arguments)))


def test_a_loss_scale_optimizer() -> None:
    toy = Toy(optimizer=lambda: optimizers.LossScaleOptimizer(optimizers.SGD()))
    with pytest.raises(UsageError, match="return the inner optimizer and use --precision float16"):
        build(toy)


@pytest.mark.parametrize("trainable", [False, True])
def test_a_step_that_freezes_or_unfreezes(trainable: bool) -> None:
    def model() -> keras.Model:
        model = plain_model()
        model.get_layer("hidden").trainable = not trainable
        return model

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        run.model.get_layer("hidden").trainable = trainable
        return plain_step(run, batch, replica)

    with pytest.raises(UsageError, match=r"step sets what is trainable, .* in a callback"):
        train(Toy(model=model, train_steps=(step,)), 1)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"train": 1, "val": 2, "test": 3}, "splits called 'train', 'val', 'test'; it must"),
        ({"training": 1}, "splits called 'training'; it must"),
        ((1, 2), "returns tuple; it must return a dict with 'train'"),
    ],
)
def test_splits_of_other_names(made: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        validate_splits(made)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metrics": lambda: [keras.metrics.Mean()]}, "create_metrics in task/metrics.py returns"),
        ({"losses": lambda: abs}, "create_losses in task/losses.py returns a builtin_function"),
        ({"losses": lambda: {"main": "mse"}}, "losses.py returns a str for 'main'; it must return"),
        ({"metrics": lambda: {"a": keras.metrics.Mean}}, "returns the class Mean for 'a'"),
        ({"optimizer": lambda: None}, "task/optimizer.py returns None for 'main'"),
        ({"optimizer": lambda: optimizers.SGD}, "optimizer.py returns the class SGD for 'main'"),
    ],
)
def test_factories_that_return_something_else(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build(Toy(**change))


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_models_of_which_none_trains(tmp_path: Path) -> None:
    plain_model().save(tmp_path / "model.keras")
    frozen = load_frozen(tmp_path / "model.keras")
    with pytest.raises(UsageError, match=r"only models of load_frozen, .* by load_in_precision"):
        validate_models({"main": frozen})
    validate_models({"main": plain_model(), "teacher": frozen})


def test_a_train_step_that_is_no_tuple() -> None:
    run, *_ = build(Toy())
    one: Any = plain_step
    with pytest.raises(UsageError, match=r"TRAIN_STEPS in .* is one .* \(train_step,\)"):
        validate(replace(run, functions=replace(run.functions, train_steps=one)))
    short: Any = (lambda run, batch: {},)
    with pytest.raises(UsageError, match=r"<lambda>, a step, must be .* \(run, batch, replica\): "):
        validate(replace(run, functions=replace(run.functions, train_steps=short)))
    without: Any = (partial(lambda run, batch: {}),)
    with pytest.raises(UsageError, match=r"^<lambda>, a step, must be "):
        validate(replace(run, functions=replace(run.functions, train_steps=without)))
    with pytest.raises(UsageError, match=r"TRAIN_STEPS in task/steps.py is empty"):
        validate(replace(run, functions=replace(run.functions, train_steps=())))


@pytest.mark.quick
@pytest.mark.parametrize(
    ("process", "sentence"),
    [
        (lambda gradients, variables: None, r"it returns 0 for 4\."),
        (lambda gradients, variables: gradients[1:], "it returns (shape|3 for 4)"),
        (lambda gradients, variables: [tf.reduce_sum(g) for g in gradients],
         r"it returns shape \(\) for hidden/kernel \(5, 4\)\."),
    ],
    ids=["nothing", "fewer", "scalars"],
)  # fmt: skip
def test_gradients_that_are_none_of_the_variables(process: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        train(Toy(process_gradients=process), steps=1, steps_per_call=1)


@pytest.mark.quick
def test_gradients_of_unknown_shapes_and_in_an_iterator_are_taken() -> None:
    def process(gradients: list[Any], variables: list[Any]) -> Any:
        del variables
        return (tf.numpy_function(lambda g: g, [g], g.dtype) for g in gradients)

    plain, processed = (train(Toy(**p), steps=1) for p in ({}, {"process_gradients": process}))
    for a, b in zip(plain.run.model.weights, processed.run.model.weights, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.quick
def test_a_step_in_a_wrapper_of_other_arguments_is_taken() -> None:
    @wraps(plain_step)
    def step(*arguments: Any) -> Any:
        return plain_step(*arguments)

    step.__wrapped__ = lambda run: {}  # type: ignore[attr-defined]
    build(Toy(train_steps=(step,)))


@pytest.mark.quick
def test_a_count_of_nothing() -> None:
    def count(batch: Any) -> Any:
        del batch

    with pytest.raises(UsageError, match=r"count in task/losses.py returns None; it must"):
        train(Toy(count=count), steps=1, steps_per_call=1)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("augment", "sentence"),
    [
        ("flip", r"create_augment in task/data.py returns must be a function of \(batch, seed\): "),
        (lambda batch: batch, r"must be a function of \(batch, seed\): too many"),
        (lambda batch, seed: None, "create_augment returns gives no batch but a NoneType; it must"),
        (lambda batch, seed: batch[0], "create_augment returns gives no batch but a tensor; it"),
        (lambda batch, seed: {"x": batch[0]}, "create_augment returns gives no batch but a dict;"),
    ],
)
def test_augmentations_that_are_none(augment: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        train(Toy(augment=augment), steps=1, steps_per_call=1)


@pytest.mark.quick
def test_functions_as_splits() -> None:
    def examples() -> Iterator[int]:
        yield 1

    with pytest.raises(UsageError, match=r"training data is a generator; give tf\.data\..*from_g"):
        validate_splits({"train": examples})
    with pytest.raises(UsageError, match=r"validation data, called for .* \(workers, index\): "):
        validate_splits({"train": plain_data(), "validation": lambda: 1})


def test_float8() -> None:
    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, keras.layers.Dense(CLASSES, dtype="float8_from_float32")(x))

    with pytest.raises(UsageError, match=r"belongs to float8, .* use --precision bfloat16"):
        build(Toy(model=model))


def test_an_optimizer_whose_own_sum_cannot_be_switched_off() -> None:
    newer: Any = SimpleNamespace(built=False, build=lambda variables: None)
    with pytest.raises(UsageError, match=r"of Keras 3.* in a way that .* install an older Keras"):
        build_optimizer(newer, [])


@pytest.mark.parametrize(
    ("metric", "fix"),
    [
        (lambda: metrics.R2Score(num_regressors=2), "leave num_regressors out"),
        (lambda: metrics.F1Score(), "or makes them on first use"),
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


@pytest.mark.quick
@pytest.mark.parametrize("around", [lambda draw, x: draw(x), tf.map_fn], ids=["plain", "in a loop"])
def test_random_numbers_of_no_model(around: Callable[..., Any]) -> None:
    dropout = keras.layers.Dropout(0.5)
    for draw in lambda x: x + keras.random.normal(x.shape), lambda x: dropout(x, training=True):

        def step(run: Run, batch: Any, replica: Replica, draw: Any = draw) -> dict[str, tf.Tensor]:
            inputs, *rest = batch
            return plain_step(run, (around(draw, inputs), *rest), replica)

        with pytest.raises(UsageError, match=r"no model and no metric .* use replica\.seed"):
            train(Toy(train_steps=(step,)), steps=1, steps_per_call=1)


def assigns_in_a_branch(run: Run) -> None:
    variable = run.model.get_layer("logits").bias
    tf.cond(run.metrics["accuracy"].count > 0, lambda: variable.assign(variable * 2), lambda: 1)


def counts_in_a_branch(run: Run) -> None:
    metric = run.metrics["accuracy"]
    tf.cond(metric.count > 0, lambda: metric.update_state([1], [[1.0, 0.0, 0.0]]), lambda: 1)


@pytest.mark.quick
@pytest.mark.parametrize("change", [assigns_in_a_branch, counts_in_a_branch])
def test_a_write_that_would_always_be_made(change: Callable[[Run], None]) -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        change(run)
        return plain_step(run, batch, replica)

    with pytest.raises(UsageError, match=r"step assigns \S+ inside tf\.cond.*tf\.where"):
        train(Toy(train_steps=(step,)), steps=1, steps_per_call=1)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_write_now_and_then_by_tf_where(replicas: int) -> None:
    toy = copied_every(2)
    first = build(toy, replicas).run.models["online"].get_weights()
    for steps, is_first in ((1, True), (2, True), (3, False)):
        trained = train(toy, replicas, steps=steps, steps_per_call=1)
        weights = trained.run.models["target"].get_weights()
        assert np.array_equal(weights[0], first[0]) == is_first


@pytest.mark.quick
def test_a_count_that_is_no_integer() -> None:
    toy = Toy(count=lambda batch: tf.reduce_sum(batch[-1]))
    with pytest.raises(UsageError, match=r"task/losses\.py returns float64; it must count"):
        train(toy, steps=1, steps_per_call=1)


@pytest.mark.quick
def test_what_process_gradients_assigns() -> None:
    seen = keras.Variable(1.0, name="seen")

    def process(gradients: list[Any], variables: list[Any]) -> list[Any]:
        seen.assign(seen + 1)
        return [gradient / tf.cast(seen, gradient.dtype) for gradient in gradients]

    with pytest.raises(UsageError, match="process_gradients assigns seen"):
        train(Toy(process_gradients=process), steps=1, steps_per_call=1)


@pytest.mark.quick
@pytest.mark.parametrize(
    "draw", [tf.random.normal, tf.random.Generator.from_seed(1).normal], ids=["plain", "generator"]
)
def test_what_process_gradients_draws_on_each_replica_by_itself(draw: Any) -> None:
    def process(gradients: list[Any], variables: list[Any]) -> list[Any]:
        return [g + draw(g.shape, dtype=g.dtype) for g in gradients]

    with pytest.raises(UsageError, match=r"process_gradients .* draws random numbers, others on"):
        train(Toy(process_gradients=process), 2, steps=1, steps_per_call=1)


@pytest.mark.quick
def test_noise_of_gradients_is_the_same_on_all_replicas_by_a_seed_made_of_them() -> None:
    def process(gradients: list[Any], variables: list[Any]) -> list[Any]:
        norm = tf.cast(tf.linalg.global_norm(gradients), tf.float32)
        seeds = ((tf.bitcast(norm, tf.int32), i) for i in range(len(gradients)))
        draw = tf.random.stateless_normal
        return [g + draw(g.shape, s, dtype=g.dtype) for g, s in zip(gradients, seeds, strict=True)]

    run = train(Toy(process_gradients=process), 2, steps=5).run
    for v in run.trainable_variables:
        one, other = run.strategy.experimental_local_results(v.value)
        np.testing.assert_array_equal(one, other)


@pytest.mark.quick
def test_a_schedule_that_a_callback_sets() -> None:
    trained = train(Toy(), steps=1, steps_per_call=1)
    trained.run.optimizers["main"].learning_rate = optimizers.schedules.CosineDecay(0.1, 9)
    with pytest.raises(UsageError, match="given another schedule after create_optimizer"):
        trained.steps.distributed_train_step(iter([]), 1, trained.progress)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (lambda: (plain_model(), plain_model()), "returns a tuple for 'main'; it must return a k"),
        (lambda: None, "returns None for 'main'"),
        (lambda: keras.layers.Dense(3), "returns a Dense for 'main'"),
        (lambda: keras.Sequential, "returns the class Sequential for 'main'"),
        (dict, "returns a dict without a model"),
        (lambda: {"a/b": plain_model()}, "calls a model 'a/b'; its name must be a text without"),
        (lambda: {1: plain_model()}, "calls a model 1; its name must"),
        (lambda: {"a": plain_model(), "b": keras.Sequential([keras.layers.Dense(3)])},
         r"The model 'b' \(Sequential\) has no weights yet; call it once on zeros"),
    ],
    ids=["tuple", "none", "layer", "class", "empty", "slash", "number", "not built"],
)  # fmt: skip
def test_what_is_no_model(model: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build(Toy(model))


@pytest.mark.quick
def test_an_optimizer_of_no_model() -> None:
    toy = Toy(
        lambda: {"encoder": plain_model(), "decoder": plain_model()},
        lambda: {"encoder": optimizers.SGD(), "decodr": optimizers.SGD()},
    )
    with pytest.raises(UsageError, match=r"'decodr', which is no model .* 'encoder', 'decoder'"):
        build(toy)


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
    with pytest.raises(UsageError, match='create it with reduction="none", and average'):
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


@pytest.mark.quick
def test_statistics_that_were_not_synchronized_at_the_start() -> None:
    def model() -> keras.Model:
        x = keras.Input((5,))
        still = keras.layers.BatchNormalization(center=False, scale=False, name="still")
        still.trainable = False
        return keras.Model(x, keras.layers.Dense(3)(still(x)))

    trained = train(Toy(model), steps=1, steps_per_call=1)
    trained.run.model.get_layer("still").trainable = True
    with pytest.raises(UsageError, match="create it trainable, and freeze it with a callback"):
        trained.steps.distributed_train_step(iter([]), 1, trained.progress)


@pytest.mark.quick
def test_a_gradient_inside_a_step_is_not_of_variables() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        with tf.GradientTape() as tape:
            losses = plain_step(run, batch, replica)
        tape.gradient(losses["main"], run.model.trainable_variables)
        return losses

    with pytest.raises(UsageError, match=r"takes or applies gradients of variables, .* tape"):
        train(Toy(train_steps=(step,)), steps=1, steps_per_call=1)


class Hits(keras.metrics.Metric):  # type: ignore[misc]
    """Counts in a variable of each replica by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.total = keras.Variable(0.0, trainable=False)

    def update_state(self, labels: Any, predictions: Any, weights: Any = None) -> None:
        self.total.assign_add(1.0)

    def result(self) -> Any:
        return self.total.value


def test_a_metric_of_each_replica_by_itself() -> None:
    with pytest.raises(UsageError, match=r"'hits' .* isn't summed over the replicas; make it"):
        build(Toy(metrics=lambda: {"hits": Hits()}))


class Seen(Hits):
    """Notes which classes there were, in bools."""

    def __init__(self) -> None:
        keras.metrics.Metric.__init__(self)
        self.seen = self.add_weight(shape=(3,), dtype="bool", initializer="zeros")


def test_a_metric_with_a_variable_of_bool() -> None:
    with pytest.raises(UsageError, match=r"'seen' .* of bool, which can't be summed"):
        build(Toy(metrics=lambda: {"seen": Seen()}))


class Auxiliary(keras.Model):  # type: ignore[misc]
    """A model that calls one of its layers in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = keras.layers.Dense(CLASSES)
        self.more = keras.layers.Dense(CLASSES)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.logits(x) + (0.1 * self.more(x) if training else 0.0)


@pytest.mark.filterwarnings("ignore:.build")
def test_weights_that_a_step_creates() -> None:
    def model() -> keras.Model:
        made = Auxiliary()
        made(np.zeros((1, FEATURES)))
        return made

    with pytest.raises(UsageError, match=r"creates the weights auxiliary\S*/dense\S*/kernel, "):
        train(Toy(model), steps=1, steps_per_call=1)


@pytest.mark.quick
def test_a_step_that_applies_gradients_by_itself() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        losses = plain_step(run, batch, replica)
        variables = run.model.trainable_variables
        gradients = tf.gradients(losses["main"], [v.value for v in variables])
        run.optimizers["main"].apply_gradients(zip(gradients, variables, strict=True))
        return losses

    with pytest.raises(UsageError, match=r"takes or applies gradients of variables, .* tape"):
        train(Toy(train_steps=(step,)), 2, steps=1, steps_per_call=1)


@pytest.mark.quick
def test_switches_for_debugging() -> None:
    tf.config.run_functions_eagerly(True)
    try:
        with pytest.raises(UsageError, match=r"run_functions_eagerly\(True\), and steps must be"):
            validate_modes()
    finally:
        tf.config.run_functions_eagerly(False)
    with tf.Graph().as_default(), pytest.raises(UsageError, match="disable_eager_execution"):
        validate_modes()


@pytest.mark.quick
def test_an_optimizer_that_is_built_already() -> None:
    used = optimizers.Adam()
    used.build(plain_model().trainable_variables)
    with pytest.raises(UsageError, match="returns an Adam that was built before"):
        build(Toy(optimizer=lambda: used))


@pytest.mark.quick
def test_a_rate_that_is_a_function_of_the_step() -> None:
    with pytest.raises(UsageError, match=r"'step'; write a LearningRateSchedule"):
        build(Toy(optimizer=lambda: optimizers.Adam(lambda step: 1e-3)))


@pytest.mark.quick
def test_a_clock_that_graphs_may_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> tf.Tensor:
        raise tf.errors.FailedPreconditionError(None, None, "determinism is enabled")

    monkeypatch.setattr(tf, "timestamp", refuse)
    assert np.isfinite(train(Toy(), steps=2, steps_per_call=2).losses).all()


def test_a_dtype_policy_that_the_model_sets() -> None:
    def model() -> keras.Model:
        keras.config.set_dtype_policy("mixed_float16")
        return plain_model()

    with pytest.raises(UsageError, match="sets the dtype policy of all layers to mixed_float16"):
        build(Toy(model=model))


def test_validation_data_without_end() -> None:
    data = tf.data.Dataset.from_tensor_slices(plain_data(BATCH)).repeat()
    toy = Toy(data=plain_data(BATCH), others={"validation": data})
    built = build(toy)
    with pytest.raises(UsageError, match=r"has no end: add .take\(number of examples\)"):
        Evaluation(built.run, toy.splits, built.steps.layout)


@pytest.mark.parametrize(
    "set_seed", [keras.utils.set_random_seed, tf.random.set_seed, lambda _: None]
)
def test_a_seed_that_the_model_sets_is_said(
    set_seed: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def model() -> keras.Model:
        set_seed(123)
        return plain_model()

    build(Toy(model=model))
    is_said = "sets a random seed, so runs with another --seed" in capsys.readouterr().out
    assert is_said == (set_seed.__name__ != "<lambda>")


@pytest.mark.quick
@pytest.mark.parametrize("version", ["3.10.0", "3.13.2", "3.14.0"])
def test_an_activity_regularizer_that_older_versions_of_keras_add_up(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, keras.layers.Dense(CLASSES, activity_regularizer="l2")(x))

    monkeypatch.setattr(keras, "__version__", version)
    if version == "3.14.0":
        build(Toy(model=model))
        return
    with pytest.raises(
        UsageError, match=rf"dense.* has an activity_regularizer, which Keras {version} adds"
    ):
        build(Toy(model=model))
