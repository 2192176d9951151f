"""The code in docs/ runs unchanged."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine import callbacks
from proof.engine.batches import BatchLayout, TrainingBatches, evaluation_batches, num_examples
from proof.task.config import TaskConfig

from .toys import CLASSES, FEATURES, Toy, train

pytestmark = pytest.mark.quick

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"<!-- run: (\w+) -->\n```python\n(.*?)```", re.DOTALL)
PAGES = ("recipes.md", "steps.md")
BLOCKS = {
    name: code
    for page in PAGES
    for name, code in BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
}
LAYOUT = BatchLayout(8, 2, 0, 2)
GIVEN: dict[str, Any] = {  # imports of the files that the blocks belong to
    "np": np, "tf": tf, "keras": keras, "csv": csv, "Any": Any, "TaskConfig": TaskConfig,
    "Callback": callbacks.Callback, "Event": callbacks.Event, "at_step": callbacks.at_step,
    "every_steps": callbacks.every_steps, "every_epochs": callbacks.every_epochs,
}  # fmt: skip


def recipe(name: str) -> dict[str, Any]:
    """What a block defines, as part of a file of the task."""
    names = GIVEN | {"__name__": "proof.task.recipe", "__package__": "proof.task"}
    exec(compile(BLOCKS[name], name, "exec", dont_inherit=True), names)
    return names


def assert_usable(split: Any, examples: int) -> list[int]:
    """Each example is trained on and evaluated once; returns the labels in their own order."""
    assert num_examples(split) == examples
    training = TrainingBatches(split, LAYOUT, last_batch="pad")
    evaluation, steps = evaluation_batches(split, LAYOUT)
    assert steps == training.steps_per_epoch
    trained, evaluated = labels_of(training.dataset(0, steps)), labels_of(evaluation)
    assert sorted(trained) == sorted(evaluated)
    assert len(evaluated) == examples
    assert labels_of(training.dataset(1, steps)) == trained[LAYOUT.global_batch_size :]
    return evaluated


def labels_of(batches: tf.data.Dataset) -> list[int]:
    """The labels of the examples that are there."""
    return [int(y) for _, labels, w in batches.as_numpy_iterator() for y in labels[w > 0]]


def test_every_marked_block_of_the_pages_is_run() -> None:
    used = set(re.findall(r'recipe\("(\w+)"\)', Path(__file__).read_text(encoding="utf-8")))
    assert used == set(BLOCKS)
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        assert text.count("```python") == len(BLOCK.findall(text)), f"{page} has unmarked code"


def test_own_arrays_without_validation_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    np.savez("data/examples.npz", inputs=np.zeros((30, 4)), labels=np.arange(30))
    datasets = recipe("arrays")["create_datasets"](TaskConfig())
    assert sorted(datasets) == ["test", "train"]
    labels = assert_usable(datasets["train"], 27) + assert_usable(datasets["test"], 3)
    assert sorted(labels) == list(range(30))


def test_profiling_leaves_a_trace(tmp_path: Path) -> None:
    start, stop = recipe("profiling")["create_callbacks"](TaskConfig())
    assert (start.next_step(0, 50), stop.next_step(0, 50)) == (100, 120)
    event: Any = SimpleNamespace(directory=tmp_path)
    start.function(event)
    tf.matmul(tf.ones((9, 9)), tf.ones((9, 9)))
    stop.function(event)
    assert list(tmp_path.glob("log/**/*.xplane.pb"))


def test_freezing() -> None:
    first, second = recipe("freezing")["create_callbacks"](TaskConfig())
    assert (first.is_due(0, 50), second.next_step(0, 50)) == (True, 200)
    layers = [keras.layers.Dense(2) for _ in range(3)]
    event: Any = SimpleNamespace(run=SimpleNamespace(model=keras.Sequential(layers)))
    for callback, trainable in ((first, False), (second, True)):
        callback.function(event)
        assert [layer.trainable for layer in layers] == [trainable, trainable, True]


def test_changing_the_learning_rate() -> None:
    (callback,) = recipe("learning_rate")["create_callbacks"](TaskConfig())
    assert callback.next_step(0, 50) == 1000
    optimizer = keras.optimizers.SGD(0.5)
    callback.function(SimpleNamespace(run=SimpleNamespace(optimizers={"main": optimizer})))
    assert float(optimizer.learning_rate) == 0.25
    with pytest.raises(TypeError, match="Schedule"):
        keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.5, 9)).learning_rate = 0.1


def test_early_stopping_resumes_where_it_was() -> None:
    names = recipe("early_stopping")
    stopped: list[bool] = []
    event: Any = SimpleNamespace(history=[], stop=lambda: stopped.append(True))
    (callback,) = names["create_callbacks"](TaskConfig())
    for loss in (3.0, 2.0, 2.5, 2.0, 2.1, 2.2):
        event.history.append({"validation_loss": loss})
        callback.function(event)
    assert not stopped
    resumed = names["StopEarly"](5)
    resumed.set_state(callback.function.get_state())
    resumed(event)
    assert stopped


def nan_gradient_at_zero() -> keras.Model:
    """The default toy with one more weight, which is zero and whose root has no slope there."""

    class Root(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.root = self.add_weight(shape=(), initializer="zeros", name="root")

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return x + tf.sqrt(tf.convert_to_tensor(self.root))

    x = keras.Input((FEATURES,))
    return keras.Model(x, keras.layers.Dense(CLASSES)(Root()(x)))


def test_nan_to_zero_saves_a_step_whose_loss_is_finite() -> None:
    process: Callable[..., Any] = recipe("nan_to_zero")["process_gradients"]
    skipped = train(Toy(nan_gradient_at_zero), steps=2, steps_per_call=2)
    assert int(skipped.progress.skips.total) == 2
    one, two = (
        train(Toy(nan_gradient_at_zero, process_gradients=process), n, steps=4, steps_per_call=2)
        for n in (1, 2)
    )
    assert int(two.progress.skips.total) == 0
    assert any(np.any(a != b) for a, b in zip(two.weights, skipped.weights, strict=True))
    for a, b in zip(one.weights, two.weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
