"""Every optimizer of Keras 3 trains the same on one replica and on several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.types import Replica, Run
from proof.task.losses import compute_loss
from tests.replicas import dry_run

from .test_loop import loop
from .toys import (
    CLASSES,
    FEATURES,
    Toy,
    assert_parity,
    build,
    plain_model,
    shared_models,
    step_of,
    train,
)

optimizers = keras.optimizers
OPTIMIZERS: dict[str, Any] = {
    "SGD": lambda: optimizers.SGD(0.1),
    "SGD with Nesterov momentum": lambda: optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: optimizers.Adam(0.01),
    "Adam with amsgrad": lambda: optimizers.Adam(0.01, amsgrad=True),
    "AdamW": lambda: optimizers.AdamW(0.01, weight_decay=0.1),
    "Adam along a cosine": lambda: optimizers.Adam(
        optimizers.schedules.CosineDecay(0.01, decay_steps=20)
    ),
    "SGD with weight decay": lambda: optimizers.SGD(0.1, weight_decay=0.1),
    "RMSprop": lambda: optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "Adagrad": lambda: optimizers.Adagrad(0.1),
    "Adadelta": lambda: optimizers.Adadelta(1.0),
    "Adafactor": lambda: optimizers.Adafactor(0.01),
    "Adamax": lambda: optimizers.Adamax(0.01),
    "Nadam": lambda: optimizers.Nadam(0.01),
    "Ftrl": lambda: optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
    "Lamb": lambda: optimizers.Lamb(0.01),
}
if hasattr(optimizers, "Muon"):
    OPTIMIZERS["Muon"] = lambda: optimizers.Muon(0.01)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_n_replicas_train_exactly_like_one(name: str) -> None:
    assert_parity(Toy(optimizer=OPTIMIZERS[name]))


@pytest.mark.quick
def test_two_replicas_train_exactly_like_one_with_adam() -> None:
    assert_parity(Toy(optimizer=OPTIMIZERS["Adam"]), (2,))


def test_lion_sees_the_same_losses_and_gradients() -> None:
    """The sign of a rounding error is as large as any other: weights are not compared."""
    toy = Toy(optimizer=lambda: optimizers.Lion(0.001))
    one, four = train(toy, 1), train(toy, 4)
    np.testing.assert_allclose(one.losses, four.losses, rtol=1e-5)
    for a, b in zip(_gradients(toy, 1), _gradients(toy, 4), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15)


def _gradients(toy: Toy, replicas: int) -> list[np.ndarray]:
    built = build(toy, replicas)
    (reduced,) = dry_run(built.steps, built.iterator(0, 1), built.steps.start())
    return [gradient.numpy() for gradient in reduced.gradients["main"]]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_embeddings_train_like_on_one_replica(optimizer: str) -> None:
    def model() -> keras.Model:
        tokens = keras.Input((FEATURES,), dtype="int32")
        x = keras.layers.Embedding(7, 3)(tokens)
        return keras.Model(
            tokens, keras.layers.Dense(CLASSES)(keras.layers.GlobalAveragePooling1D()(x))
        )

    random = np.random.default_rng(0)
    data = random.integers(0, 7, (48, FEATURES)), random.integers(0, CLASSES, 48)
    assert_parity(Toy(model, OPTIMIZERS[optimizer], data))


def test_a_schedule_counts_steps_not_replicas() -> None:
    toy = Toy(optimizer=OPTIMIZERS["Adam along a cosine"])
    for replicas in (1, 2):
        trained = train(toy, replicas, steps=10)
        (optimizer,) = trained.run.optimizers.values()
        assert int(optimizer.iterations.numpy()) == 10
        assert float(optimizer.learning_rate) == pytest.approx(0.005, rel=1e-6)


def test_a_changed_learning_rate_holds_from_the_next_step_without_a_trace() -> None:
    toy = Toy()
    for replicas in (1, 2):
        trained = train(toy, replicas, steps=5)
        before = trained.weights
        trained.run.optimizers["main"].learning_rate = 0.0
        trained.steps.distributed_train_step(trained.built.iterator(5, 6), 1, trained.progress)
        tf.nest.map_structure(np.testing.assert_array_equal, before, trained.weights)
        assert trained.steps.num_traces() == 1


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_layer_of_two_models_is_trained_once(replicas: int) -> None:
    def alone_model() -> dict[str, keras.Model]:
        return {"whole": shared_models()["whole"]}

    flags: dict[str, Any] = {"steps": 3, "steps_per_call": 1, "clip_norm": 0.5}
    alone, both = (
        train(Toy(model, train_steps=(step_of("whole"),)), replicas, **flags)
        for model in (alone_model, shared_models)
    )
    for a, b in zip(alone.weights, both.weights, strict=True):
        np.testing.assert_array_equal(a, b)
    assert float(alone.progress.latest.gradient_norm) == float(both.progress.latest.gradient_norm)


@pytest.mark.parametrize(("name", "trains_others"), [("student", False), ("main", True)])
def test_an_optimizer_that_is_called_like_a_model_trains_that_one(
    name: str, trains_others: bool
) -> None:
    toy = Toy(
        lambda: {"student": plain_model(), "other": plain_model()},
        lambda: {name: optimizers.SGD(0.1)},
        train_steps=(step_of("student"),),
    )
    run = build(toy).run
    others = {id(v) for v in run.models["other"].trainable_variables}
    assert others.issubset(map(id, run.variables_of(name))) == trains_others


class Slow(optimizers.Optimizer):
    """Lookahead (Zhang et al., 2019): each fifth step of another goes half of its way."""

    def __init__(self, inner: keras.optimizers.Optimizer) -> None:
        super().__init__(learning_rate=1.0)
        self.inner = inner

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        self.slow = [self.add_variable_from_reference(v, "slow", "zeros") for v in variables]

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        self.inner.apply(grads, trainable_variables)
        is_due = tf.cast(self.iterations % 5 == 4, trainable_variables[0].dtype)
        for variable, slow in zip(trainable_variables, self.slow, strict=True):
            slow.assign(slow + is_due * 0.5 * (variable - slow))
            variable.assign(is_due * slow + (1 - is_due) * variable)
        self.iterations.assign_add(1)


class Parts(optimizers.Optimizer):
    """Each variable has an optimizer of its own, by the number of its axes."""

    def __init__(self) -> None:
        super().__init__(learning_rate=1.0)
        self.optimizers = {"vectors": optimizers.SGD(0.1), "matrices": optimizers.Adam(0.05)}

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        for each, own in self._parts(variables, variables):
            each.build([v for _, v in own])

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        for each, own in self._parts(grads, trainable_variables):
            each.apply_gradients(own)
        self.iterations.assign_add(1)

    def held(self) -> Any:
        return self.optimizers.values()

    def _parts(self, grads: Any, variables: Any) -> Iterator[tuple[Any, list[Any]]]:
        pairs = [*zip(grads, variables, strict=True)]
        for i, each in enumerate(self.held()):
            yield each, [(g, v) for g, v in pairs if (len(v.shape) > 1) == i]


class Groups(Parts):
    """The same, of a list of dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.optimizers = [{"of": o, "name": name} for name, o in self.optimizers.items()]

    def held(self) -> Any:
        return [group["of"] for group in self.optimizers]


class Centralized(optimizers.SGD):
    """Gradients of matrices without their mean (Yong et al., 2020)."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        grads = [g - tf.reduce_mean(g, 0, keepdims=True) if len(g.shape) > 1 else g for g in grads]
        super().apply(grads, trainable_variables)


OWN = {
    "one around Adam": lambda: Slow(optimizers.Adam(0.05)),
    "one around one": lambda: Slow(Slow(optimizers.SGD(0.1, momentum=0.9))),
    "a dict of others": Parts,
    "a list of dicts of others": Groups,
    "changed gradients": lambda: Centralized(0.1, momentum=0.9),
}


@pytest.mark.parametrize("name", OWN)
def test_an_optimizer_of_ones_own(name: str) -> None:
    assert_parity(Toy(optimizer=OWN[name]))


@pytest.mark.parametrize("name", OWN)
def test_an_optimizer_of_ones_own_is_resumed(name: str, tmp_path: Path) -> None:
    def run(directory: str, steps: int, *, resume: bool = False) -> list[np.ndarray]:
        toy = Toy(optimizer=OWN[name])
        trained = loop(tmp_path / directory, toy=toy, num_steps=steps, resume=resume)
        trained.train()
        return [v.numpy() for v in trained.run.model.variables]

    whole = run("whole", 8)
    run("parts", 4)
    for a, b in zip(whole, run("parts", 8, resume=True), strict=True):
        np.testing.assert_array_equal(a, b)


class Still(optimizers.SGD):  # type: ignore[misc]
    """Overrides what `fit` calls: gradients are 0."""

    def apply_gradients(self, grads_and_vars: Any) -> Any:
        return super().apply_gradients([(0 * gradient, v) for gradient, v in grads_and_vars])


@pytest.mark.quick
def test_what_an_optimizer_overrides_is_called_as_by_fit() -> None:
    trained = train(Toy(optimizer=lambda: Still(0.1)), steps=5)
    for a, b in zip(build(Toy()).run.model.get_weights(), trained.weights, strict=True):
        np.testing.assert_array_equal(a, b)


class InBranches(keras.layers.Layer):  # type: ignore[misc]
    """Looks rows of one of two tables up: a gradient whose shape isn't known."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = [keras.layers.Embedding(4, 3) for _ in range(2)]

    def build(self, shape: Any) -> None:
        for table in self.tables:
            table.build(shape)

    def call(self, x: Any) -> tf.Tensor:
        rows = tf.cast(tf.abs(x), tf.int32) % 4
        one, other = self.tables
        return tf.cond(tf.reduce_sum(x) > -1e9, lambda: one(rows), lambda: other(rows))


@pytest.mark.quick
def test_embeddings_in_branches_train_alike_on_two_replicas() -> None:
    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        x = keras.layers.Flatten()(InBranches()(x))
        return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))

    assert_parity(Toy(model), (2,))


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_train_step_leaves_alone_what_only_another_one_trains(replicas: int) -> None:
    """As in a classic loop: zeros for a gradient would move it by momentum and weight decay."""

    def model() -> dict[str, keras.Model]:
        return {name: plain_model() for name in ("a", "b")}

    def step(name: str) -> Any:
        def of_one(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            per_example = run.losses["main"](labels, run.models[name](inputs))
            return {"main": compute_loss(per_example, weights, run.models[name], replica)}

        return of_one

    def optimizer() -> keras.optimizers.Optimizer:
        return optimizers.SGD(0.1, momentum=0.9, weight_decay=0.1)

    def trained(*names: str) -> list[Any]:
        toy = Toy(model, optimizer, train_steps=tuple(map(step, names)))
        weights = train(toy, replicas, steps=3, steps_per_call=1).run.models["b"].weights
        return [weight.numpy() for weight in weights]

    for with_a, alone in zip(trained("b", "a"), trained("b"), strict=True):
        np.testing.assert_allclose(with_a, alone, rtol=1e-12)
