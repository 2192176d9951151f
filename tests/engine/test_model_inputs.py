"""Inputs of a dict that a model doesn't take are refused in a step, and left out elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.callbacks import Event, at_step
from proof.engine.data_errors import data_errors
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.pictures import predict_in_parts
from proof.engine.types import Replica, Run

from .test_loop import loop
from .toys import BATCH, CLASSES, Toy, build, compute_loss, predict_split, step_of_task

pytestmark = pytest.mark.quick
Choose = Callable[[dict[str, Any]], Any]

LABELS = np.arange(2 * BATCH) % CLASSES
INPUTS = {
    "numeric": np.random.default_rng(0).normal(size=(2 * BATCH, 2)),
    "patient": np.arange(2.0 * BATCH)[:, None],
    "sex": (LABELS % 2)[:, None].astype(float),
}
TAKEN = {name: INPUTS[name] for name in ("numeric", "sex")}


def of_dict() -> keras.Model:
    numeric, sex = keras.Input((2,), name="numeric"), keras.Input((1,), name="sex")
    logits = keras.layers.Dense(CLASSES)(keras.layers.Concatenate()([numeric, sex]))
    return keras.Model({"numeric": numeric, "sex": sex}, logits)


def of_list() -> keras.Model:
    numeric, sex = keras.Input((2,), name="numeric"), keras.Input((1,), name="sex")
    return keras.Model(
        [sex, numeric], keras.layers.Dense(CLASSES)(keras.layers.Concatenate()([numeric, sex]))
    )


def nested() -> keras.Model:
    numeric, sex = keras.Input((2,), name="numeric"), keras.Input((1,), name="sex")
    whole = of_dict()({"sex": sex, "numeric": numeric})
    return keras.Model({"x": {"numeric": numeric, "sex": sex}}, whole)


def of_one() -> keras.Model:
    numeric = keras.Input((2,), name="numeric")
    return keras.Model({"numeric": numeric}, keras.layers.Dense(CLASSES)(numeric))


def choosing(choose: Choose) -> Callable[..., dict[str, tf.Tensor]]:
    """A step that gives the model what it chooses of the inputs."""

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(choose(inputs), training=True))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return step


def toy(model: Callable[[], keras.Model], step: Any, inputs: Any = INPUTS) -> Toy:
    return Toy(model, data=(inputs, LABELS), train_steps=(step,), metrics=dict)


def run_step(toy: Toy, replicas: int, evaluates: bool) -> None:
    built = build(toy, replicas)
    if evaluates:
        Evaluation(built.run, {"test": toy.data}, built.steps.layout).evaluate("test")
    else:
        built.steps.distributed_train_step(built.iterator(0, 1), 1, built.steps.start())


@pytest.mark.parametrize(("replicas", "evaluates"), [(1, False), (2, False), (1, True)])
def test_a_step_that_gives_a_model_other_inputs_is_refused(replicas: int, evaluates: bool) -> None:
    sentence = (
        r"^proof/task/steps\.py:4: the model functional\w* takes a dict of 'numeric', 'sex', and "
        "the one that it is given has 'patient': .* run.model.input}.$"
    )
    with pytest.raises(UsageError, match=sentence):
        run_step(toy(of_dict, step_of_task("pass")), replicas, evaluates)


def test_a_step_that_gives_a_model_a_nested_dict_of_other_names_is_refused() -> None:
    sentence = r"is given has 'numeric', 'patient', 'sex' and lacks 'x': Keras"
    with pytest.raises(UsageError, match=sentence):
        run_step(toy(nested, choosing(lambda x: x)), 1, False)


def test_a_step_that_gives_a_model_too_few_inputs_is_refused() -> None:
    inputs = {"numeric": INPUTS["numeric"], "patient": INPUTS["patient"]}
    built = build(toy(of_dict, step_of_task("pass"), inputs))
    iterator = built.iterator(0, 1)
    with (
        pytest.raises(
            UsageError, match=r"Missing data for input \"sex\".*\['numeric', 'patient'\]"
        ),
        data_errors("train", built.run, iterator.element_spec),
    ):
        built.steps.distributed_train_step(iterator, 1, built.steps.start())


RIGHT: dict[str, tuple[Callable[[], keras.Model], Choose]] = {
    "the same keys": (of_dict, lambda x: {"sex": x["sex"], "numeric": x["numeric"]}),
    "by position": (of_list, lambda x: [x["sex"], x["numeric"]]),
    "by the names of tensors": (of_list, lambda x: x),  # Keras leaves out the others
    "nested": (nested, lambda x: {"x": {"numeric": x["numeric"], "sex": x["sex"]}}),
    "one": (of_one, lambda x: {"numeric": x["numeric"]}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_keras_takes_as_it_should_is_not_refused(name: str) -> None:
    model, choose = RIGHT[name]
    run_step(toy(model, choosing(choose)), 1, False)


@pytest.mark.filterwarnings("ignore:The structure of `inputs`")
def test_a_list_for_a_model_of_a_dict_is_left_to_keras() -> None:
    run_step(toy(of_dict, choosing(lambda x: [x["numeric"], x["sex"]])), 1, False)


def test_where_no_step_chooses_the_other_inputs_are_left_out(tmp_path: Path) -> None:
    step = choosing(lambda x: {name: x[name] for name in ("numeric", "sex")})
    seen: list[Event] = []

    def look(event: Event) -> None:
        inputs = {name: event.batch[0][name] for name in TAKEN}
        np.testing.assert_array_equal(event.outputs, event.run.model(inputs))
        seen.append(event)

    trained = loop(tmp_path, [at_step(1, look)], toy=toy(of_dict, step), epochs=1)
    trained.train()
    assert seen
    model = trained.run.model
    expected = np.asarray(model(TAKEN))
    np.testing.assert_allclose(predict_in_parts(model, INPUTS), expected)
    told: list[Any] = []  # the inputs that tell the examples of a table, all of them

    def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
        told.append(inputs["patient"])
        return {}

    file, *_ = predict_split(model, "test", INPUTS, tmp_path, describe=describe)
    np.testing.assert_allclose(np.load(file), expected)
    np.testing.assert_array_equal(np.concatenate(told), INPUTS["patient"])
