"""What has a graph or a gradient of its own inside a step trains as if it had none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.types import Replica, Run

from .test_loop import loop
from .toys import BATCH, CLASSES, FEATURES, Toy, differences, plain_data, plain_step, train

layers = keras.layers
Wrap = Callable[[Any], Any]


class Block(layers.Layer):
    """Inner layers that are called by a wrapped function."""

    def __init__(self, wrap: Wrap, normalizes: bool = False) -> None:
        super().__init__(name="block")
        self.inner = [layers.Dense(4, "tanh"), layers.Dropout(0.3)]
        if normalizes:
            self.inner.append(layers.BatchNormalization(momentum=0.5))
        self.inner.append(layers.Dense(4, kernel_regularizer="l2"))
        self.wrapped = wrap(self.all)

    def build(self, shape: tuple[int | None, ...]) -> None:
        for layer in self.inner:
            layer.build(shape)
            shape = layer.compute_output_shape(shape)
        self.built = True

    def compute_output_shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (*shape[:-1], 4)

    def all(self, x: tf.Tensor) -> tf.Tensor:
        for layer in self.inner:
            x = layer(x)
        self.add_loss(0.1 * tf.reduce_mean(x**2))
        return x

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.wrapped(x)


def of_blocks(wrap: Wrap, **arguments: Any) -> Callable[[], keras.Model]:
    def model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        x = Block(wrap, **arguments)(inputs)
        return keras.Model(inputs, layers.Dense(CLASSES)(x))

    return model


class Subclassed(keras.Model):
    """One that is wrapped as a whole."""

    def __init__(self, wrap: Wrap) -> None:
        super().__init__(name="subclassed")
        self.block, self.logits = Block(lambda f: f, normalizes=True), layers.Dense(CLASSES)
        self.wrapped = wrap(lambda x: self.logits(self.block(x)))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.wrapped(x)


def functional(wrap: Wrap) -> keras.Model:
    return of_blocks(wrap, normalizes=True)()


def subclassed(wrap: Wrap) -> keras.Model:
    model = Subclassed(wrap)
    model(tf.zeros((2, FEATURES), keras.config.floatx()))
    return model


def nested(f: Any) -> Any:
    """A block of which a part, and then the whole, is computed again."""
    return keras.remat(lambda x: keras.remat(f)(x) * 1.0)


WRAPS: dict[str, Wrap] = {
    "tf.function": tf.function,
    "keras.remat": keras.remat,
    "tf.recompute_grad": lambda f: tf.recompute_grad(f),
    "nested remat": nested,
}


@pytest.mark.parametrize("model", [functional, subclassed])
@pytest.mark.parametrize("wrap", [tf.function, keras.remat, tf.recompute_grad])
@pytest.mark.parametrize(
    ("replicas", "flags"),
    [(1, {}), (2, {}), (2, {"accumulate": 2}), (1, {"jit": "on"})],
    ids=["one", "two", "accumulate", "jit"],
)
def test_it_trains_and_evaluates_like_plain_code(
    model: Callable[..., keras.Model],
    wrap: Wrap,
    replicas: int,
    flags: dict[str, Any],
) -> None:
    found = []
    for each in (lambda f: f, wrap):
        trained = train(Toy(lambda each=each: model(each)), replicas, **flags)  # type: ignore[misc]
        validation = Evaluation(trained.run, {"validation": plain_data()}, trained.steps.layout)
        found.append((trained, validation.evaluate("validation")))
    (plain, expected), (inner, evaluated) = found
    assert max(differences(plain, inner).values()) < 1e-12
    assert evaluated == pytest.approx(expected, rel=1e-12)
    assert not tf.config.functions_run_eagerly()


@pytest.mark.quick
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_step_that_is_decorated(replicas: int) -> None:
    plain = train(Toy(), replicas)
    decorated = train(Toy(train_steps=(tf.function(plain_step),)), replicas)
    assert max(differences(plain, decorated).values()) == 0


@pytest.mark.quick
def test_a_step_that_is_no_function() -> None:
    def step(run: Run, batch: Any, replica: Replica, *, factor: float) -> dict[str, tf.Tensor]:
        return {"main": factor * plain_step(run, batch, replica)["main"]}

    class Doubled:
        def __call__(self, run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            return step(run, batch, replica, factor=2.0)

    made = [train(Toy(train_steps=(f,))) for f in (partial(step, factor=2.0), Doubled())]
    assert max(differences(*made).values()) == 0


@pytest.mark.quick
def test_recomputing_outside_of_a_step_is_tensorflows() -> None:
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tf.recompute_grad(lambda factor: factor * x * x)(tf.constant(2.0))
    assert float(tape.gradient(y, x)) == 12


def test_many_derivatives_at_once_inside_a_step() -> None:
    def step(run: Any, batch: Any, replica: Any) -> Any:
        inputs, _, _ = batch
        squares = tf.vectorized_map(lambda row: tf.reduce_sum(row * row), inputs)
        losses = plain_step(run, batch, replica)
        return {"main": losses["main"] + 0 * tf.reduce_sum(squares)}

    one, two = (train(Toy(train_steps=(step,)), replicas) for replicas in (1, 2))
    assert max(differences(one, two).values()) < 1e-12


@pytest.mark.parametrize(
    ("replicas", "accumulate", "randomness"),
    [(1, 1, "replica"), (1, 2, "global_batch"), (2, 1, "global_batch"), (2, 2, "replica")],
)
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_wrapped_method_trains_like_a_plain_one(
    wrap: str, replicas: int, accumulate: int, randomness: str
) -> None:
    flags: dict[str, Any] = {"accumulate": accumulate, "randomness": randomness, "steps": 5}
    plain, wrapped = (
        train(Toy(of_blocks(w, normalizes=True)), replicas, **flags)
        for w in (lambda f: f, WRAPS[wrap])
    )
    for what, difference in differences(plain, wrapped).items():
        assert difference <= 1e-10, what
    assert not wrapped.steps.transaction.unreached


@pytest.mark.parametrize(("jit", "precision"), [("on", "float32"), ("off", "bfloat16")])
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_wrapped_method_trains_in_lower_precision_and_compiled(
    wrap: str, jit: str, precision: str
) -> None:
    flags: dict[str, Any] = {"jit": jit, "precision": precision, "steps": 5}
    plain, wrapped = (train(Toy(of_blocks(w)), **flags) for w in (lambda f: f, WRAPS[wrap]))
    tolerance = 1e-5 if precision == "float32" else 2e-2
    assert differences(plain, wrapped)["weights"] <= tolerance


@pytest.mark.parametrize("replicas", [1, 2])
def test_layers_in_a_remat_scope(replicas: int) -> None:
    def model() -> keras.Model:
        with keras.RematScope(mode="full"):
            return of_blocks(lambda f: f)()

    plain, wrapped = (train(Toy(m), replicas, steps=5) for m in (of_blocks(lambda f: f), model))
    assert differences(plain, wrapped)["weights"] <= 1e-10


class Gate(layers.Layer):
    """A layer that gets a tensor by keyword, as attention gets what an encoder made."""

    def call(self, x: tf.Tensor, context: tf.Tensor) -> tf.Tensor:
        return x * context


@pytest.mark.parametrize("replicas", [1, 2])
def test_tensors_by_keyword_get_their_gradient(replicas: int) -> None:
    def model(mode: str | None = None) -> keras.Model:
        inputs = keras.Input((FEATURES,))
        with keras.RematScope(mode=mode):
            x = Gate()(layers.Dense(4, name="decoder")(inputs),
                       context=layers.Dense(4, name="encoder")(inputs))  # fmt: skip
        return keras.Model(inputs, layers.Dense(CLASSES)(x))

    plain, wrapped = (train(Toy(m), replicas, steps=5) for m in (model, lambda: model("full")))
    assert differences(plain, wrapped)["weights"] <= 1e-10


@pytest.mark.parametrize("jit", ["off", "on"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_loops_of_a_step_that_make_graphs_of_their_own(replicas: int, jit: str) -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, _, weights = batch
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            logits = run.model(inputs, training=True)
        by_row = tf.reduce_sum(tape.batch_jacobian(logits, inputs) ** 2, axis=(1, 2))
        by_row += tf.vectorized_map(lambda x: tf.reduce_sum(x**2), logits)
        by_row += tf.map_fn(lambda x: tf.reduce_sum(x**2), logits)
        _, by_row = tf.while_loop(
            lambda i, _: i < 3, lambda i, x: (i + 1, x / 9), (0, by_row), maximum_iterations=3
        )
        return {"main": tf.nn.compute_average_loss(by_row, weights, global_batch_size=24)}

    trained = train(Toy(train_steps=(step,)), replicas, steps=4, steps_per_call=2, jit=jit)
    assert np.all(np.isfinite(trained.losses))
    assert not tf.config.functions_run_eagerly()


def test_an_error_in_a_step_leaves_functions_as_they_were() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        raise UsageError("no")

    with pytest.raises(UsageError):
        train(Toy(train_steps=(step,)), 2)
    assert not tf.config.functions_run_eagerly()


def test_a_function_that_needs_autograph() -> None:
    @tf.function
    def scale(x: tf.Tensor) -> tf.Tensor:
        return x if tf.reduce_sum(x) > 0 else -x

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        scale(batch[0])
        return plain_step(run, batch, replica)

    with pytest.raises(UsageError, match="AutoGraph isn't used for a step, nor for functions in"):
        train(Toy(train_steps=(step,)))


class Reversed(layers.Dense):
    """A product whose gradient has the other sign; of the kernel only where it is an argument."""

    def __init__(self, *, closes: bool, through: Any = tf.identity, **arguments: Any) -> None:
        super().__init__(CLASSES, name="reversed", **arguments)
        self.closes, self.through = closes, through

    def call(self, x: tf.Tensor) -> tf.Tensor:
        def product(x: tf.Tensor, kernel: Any = self.kernel) -> Any:
            kernel = tf.convert_to_tensor(kernel)

            def gradients(up: tf.Tensor) -> Any:
                of_x = -tf.matmul(up, kernel, transpose_b=True)
                return of_x if self.closes else (of_x, tf.matmul(x, up, transpose_a=True))

            return tf.matmul(x, kernel), gradients

        others = () if self.closes else (self.through(self.kernel.value),)
        return tf.custom_gradient(product)(x, *others) + self.bias


def reversed_model(**arguments: Any) -> keras.Model:
    inputs = keras.Input((FEATURES,))
    return keras.Model(inputs, Reversed(**arguments)(inputs))


@pytest.mark.quick
@pytest.mark.parametrize("flags", [{}, {"replicas": 2, "accumulate": 2}, {"jit": "on"}], ids=str)
def test_a_custom_gradient_that_reads_what_trains_is_refused(flags: dict[str, Any]) -> None:
    closing = Toy(lambda: reversed_model(closes=True, kernel_regularizer="l2"))
    with pytest.raises(UsageError, match=r"a tf\.custom_gradient and reads reversed/ker"):
        train(closing, **flags)


def test_a_custom_gradient_of_arguments_trains() -> None:
    plain = train(Toy(lambda: keras.Sequential([keras.Input((FEATURES,)), layers.Dense(CLASSES)])))
    trained = train(Toy(lambda: reversed_model(closes=False)))
    assert differences(plain, trained)["weights"] < 1e-12


@pytest.mark.quick
def test_a_custom_gradient_of_a_method() -> None:
    class Scaled(layers.Layer):
        @tf.custom_gradient
        def call(self, x: tf.Tensor) -> Any:
            return 2 * x, lambda up: 2 * up

    def model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        return keras.Model(inputs, Scaled()(layers.Dense(CLASSES)(inputs)))

    plain = lambda: keras.Model(  # noqa: E731
        inputs := keras.Input((FEATURES,)), 2 * layers.Dense(CLASSES)(inputs)
    )
    assert differences(train(Toy(plain)), train(Toy(model)))["weights"] < 1e-12


@pytest.mark.quick
def test_a_custom_gradient_outside_of_a_step_is_tensorflows() -> None:
    weight = keras.Variable(3.0)

    @tf.custom_gradient
    def scaled(x: tf.Tensor) -> Any:
        return x * weight, lambda up, variables=None: (2 * up, [5 * up] * len(variables or ()))

    with tf.GradientTape() as tape:
        y = scaled(tf.constant(1.0))
    assert float(tape.gradient(y, weight.value)) == 5


def test_a_weight_that_no_gradient_reaches_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def model() -> keras.Model:
        return reversed_model(closes=False, through=tf.stop_gradient)

    loop(tmp_path, toy=Toy(model, data=plain_data(7 * BATCH)))
    assert "no gradient of a train step reaches: reversed/kernel\n" in capsys.readouterr().out
    loop(tmp_path)
    assert "reaches" not in capsys.readouterr().out
