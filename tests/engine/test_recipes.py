"""The code in docs/ runs unchanged."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import proof.task.callbacks
import pytest
import tensorflow as tf
import yaml
from cookiecutter.main import cookiecutter
from proof.engine.batches import (
    BatchLayout,
    TrainingBatches,
    evaluation_batches,
    gives_batches,
    num_examples,
)
from proof.engine.callbacks import learning_rates
from proof.engine.errors import UsageError
from proof.engine.export import export_models
from proof.engine.types import Replica, Run
from proof.task.config import TaskConfig

from . import ROOT
from .test_keras_callbacks import loop
from .toys import CLASSES, FEATURES, Toy, assert_parity, plain_data, plain_step, train

pytestmark = pytest.mark.quick

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"<!-- run: (\w+) -->\n```python\n(.*?)```", re.DOTALL)
PAGES = ("questions.md", "recipes.md", "steps.md")


def page(name: str) -> str:
    """A page of docs/."""
    return (DOCS / name).read_text(encoding="utf-8")


BLOCKS = {name: code for file in PAGES for name, code in BLOCK.findall(page(file))}
LAYOUT = BatchLayout(8, 2, 0, 2)
GIVEN: dict[str, Any] = {  # what most files of the task import
    "np": np, "tf": tf, "keras": keras, "csv": csv, "Any": Any, "TaskConfig": TaskConfig,
    "Run": Run, "Replica": Replica,
}  # fmt: skip


def recipe(name: str) -> dict[str, Any]:
    """What a block defines, as part of a file of the task."""
    if "def create_callbacks" in BLOCKS[name]:
        return in_callbacks(BLOCKS[name])
    names = GIVEN | {"__name__": "proof.task.recipe", "__package__": "proof.task"}
    exec(compile(BLOCKS[name], name, "exec", dont_inherit=True), names)
    return names


def in_callbacks(code: str, **others: Any) -> dict[str, Any]:
    """What code defines in the task/callbacks.py of a project, which imports less than most."""
    names = vars(proof.task.callbacks) | others
    exec(compile(code, "callbacks", "exec", dont_inherit=True), names)
    return names


def script(name: str, directory: Path, *changes: tuple[str, str]) -> str:
    """What a block prints, which is a script in the root of a rendered project."""
    code = BLOCKS[name]
    for before, after in changes:
        assert before in code
        code = code.replace(before, after)
    (directory / "script.py").write_text(code)
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "retracing" not in done.stderr
    return done.stdout


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
    used = set(
        re.findall(r'(?:recipe|script)\("(\w+)"', Path(__file__).read_text(encoding="utf-8"))
    )
    assert used == set(BLOCKS)
    for name in PAGES:
        text = page(name)
        assert text.count("```python") == len(BLOCK.findall(text)), f"{name} has unmarked code"


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


def test_another_loss() -> None:
    create: Callable[..., Any] = recipe("focal")["create_losses"]
    assert_parity(Toy(losses=lambda: create(TaskConfig())), (2,), clip_norm=0.1)


def test_another_metric() -> None:
    create: Callable[..., Any] = recipe("metric")["create_metrics"]
    one = assert_parity(Toy(metrics=lambda: create(TaskConfig())), (2,))
    results = one.run.metric_results()
    assert 0 < results["accuracy"] < 1 < results["cross_entropy"] + 1


def test_a_dataset_of_ones_own_that_comes_in_batches() -> None:
    datasets = recipe("tf_data")["create_datasets"](TaskConfig())
    assert gives_batches(datasets["train"])
    training = TrainingBatches(datasets["train"], LAYOUT, last_batch="pad")
    inputs = [
        int(x)
        for batch, _, weights in training.dataset(0, training.steps_per_epoch).as_numpy_iterator()
        for x in batch[weights > 0].reshape(-1)
    ]
    assert sorted(inputs) == list(range(300))


# Keras' own, when it saves a model (Keras 3.15 with numpy 2).
SAVING = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture
def exported(tmp_path: Path) -> tuple[keras.Model, Path]:
    """A model in float32, and where its SavedModel is."""
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "relu")])
    run: Any = SimpleNamespace(trained_models={"main": model})
    list(export_models(run, tmp_path / "export"))
    return model, tmp_path / "export" / "main"


@SAVING
def test_a_model_elsewhere(exported: tuple[keras.Model, Path]) -> None:
    model, saved_model = exported
    inputs = np.ones((2, 3), "float32")
    loaded = recipe("load_keras")["load"](f"{saved_model}.keras")
    np.testing.assert_allclose(loaded(inputs), model(inputs), rtol=1e-6)
    outputs = recipe("load_saved_model")["predict"](str(saved_model), inputs)
    np.testing.assert_allclose(outputs, model(inputs), rtol=1e-6)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # TensorFlow 2.21 says that the interpreter moves elsewhere
def test_a_model_in_tensorflow_lite(exported: tuple[keras.Model, Path], tmp_path: Path) -> None:
    model, saved_model = exported
    file = str(tmp_path / "model.tflite")
    recipe("tflite")["to_tflite"](str(saved_model), file)
    inputs = np.ones((1, 3), "float32")
    runner = tf.lite.Interpreter(file).get_signature_runner()
    (name,) = runner.get_input_details()
    (outputs,) = runner(**{name: inputs}).values()
    np.testing.assert_allclose(outputs, model(inputs), rtol=1e-5)


@SAVING
@pytest.mark.full
def test_a_model_in_onnx(exported: tuple[keras.Model, Path], tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, saved_model = exported
    (line,) = re.findall(r"^python (-m tf2onnx.*)$", page("questions.md"), re.MULTILINE)
    file = tmp_path / "model.onnx"
    command = line.replace("RUN/export/main", str(saved_model)).replace("model.onnx", str(file))
    subprocess.run([sys.executable, *command.split()], check=True, capture_output=True)
    session = onnxruntime.InferenceSession(file)
    inputs = np.ones((2, 3), "float32")
    (outputs,) = session.run(None, {session.get_inputs()[0].name: inputs})
    np.testing.assert_allclose(outputs, model(inputs), rtol=1e-5)


@pytest.mark.full
def test_optuna_searches_in_one_process_and_continues(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    project = Path(cookiecutter(str(ROOT), None, True, output_dir=tmp_path, default_config=True))
    shorter = [("epochs=20", "epochs=2"), ("n_trials=10", "n_trials=3")]
    assert "best: {'learning_rate': " in script("optuna", project, *shorter)
    results = sorted(project.glob("runs/search/*/results.json"))
    assert len(results) == 3
    script("optuna", project, *shorter[:1], ("n_trials=10", "n_trials=1"))
    (added,) = project.glob("runs/search/*-trial3/results.json")
    settings = [
        yaml.safe_load(file.with_name("config.yaml").read_text()) for file in (results[0], added)
    ]
    assert settings[0]["learning_rate"] != settings[1]["learning_rate"]
    # The third run of a process is what a process of its own gives.
    third = [sys.executable, "train.py", "--config", str(results[2].with_name("config.yaml"))]
    subprocess.run([*third, "--runs", "alone"], cwd=project, check=True, capture_output=True)
    (alone,) = project.glob("alone/*/results.json")
    one, other = (json.loads(file.read_text()) for file in (results[2], alone))
    assert one.pop("seconds") != other.pop("seconds")
    assert one == other


@pytest.mark.full
def test_a_run_in_a_notebook(tmp_path: Path) -> None:
    project = Path(cookiecutter(str(ROOT), None, True, output_dir=tmp_path, default_config=True))
    output = script("notebook", project, ("epochs=5", "epochs=1"))
    (results,) = project.glob("runs/*/results.json")
    assert float(output.split()[-1]) == json.loads(results.read_text())["test_accuracy"]


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


def test_a_learning_rate_that_rises_first() -> None:
    task, steps = TaskConfig(), 200
    optimizer = recipe("warm_up")["create_optimizer"](task, steps)
    rates = [float(optimizer._learning_rate(step)) for step in range(steps + 1)]
    assert np.argmax(rates) == steps // 20
    np.testing.assert_allclose([rates[0], max(rates), rates[-1]], [0, task.learning_rate, 0])
    assert all(np.diff(rates[:11]) > 0)
    assert all(np.diff(rates[10:]) < 0)


# Keras 3.15 reads variables in a way that NumPy 2 deprecates.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_early_stopping_and_a_smaller_rate(tmp_path: Path) -> None:
    callbacks = recipe("early_stopping")["create_callbacks"](TaskConfig())
    run = loop(tmp_path, callbacks)
    for run.step in range(1, 7):
        run.records.history.append({"step": run.step, "validation_loss": 1.0})
        assert not run.stopping
        run._run_callbacks(callbacks)
    assert run.stopping
    assert learning_rates(run.run)["main"] == pytest.approx(0.1 * 0.1)


@pytest.mark.full
@pytest.mark.filterwarnings("default")  # of what it imports
def test_mlflow_has_the_numbers_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="writes to its own store")
    monkeypatch.chdir(tmp_path)
    run = loop(tmp_path / "run", recipe("mlflow")["create_callbacks"](TaskConfig()), num_steps=6)
    run.train()
    mlflow.flush_async_logging()
    client, active = mlflow.MlflowClient(), mlflow.active_run().info.run_id
    mlflow.end_run()
    for name, column in (("val_loss", "validation_loss"), ("accuracy", "train_accuracy")):
        values = [metric.value for metric in client.get_metric_history(active, name)]
        assert values == pytest.approx([row[column] for row in run.records.history])
    assert client.get_run(active).data.params["optimizer_name"] == "sgd"


@pytest.mark.full
@pytest.mark.filterwarnings("default")  # of what it imports
def test_wandb_has_the_numbers_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="writes files of its own")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    callbacks = recipe("wandb")["create_callbacks"](TaskConfig())
    try:
        run = loop(tmp_path / "run", callbacks, num_steps=6)
        run.train()
        summary = dict(wandb.run.summary)
    finally:
        wandb.finish()
    assert summary["epoch/epoch"] == 1
    assert summary["epoch/val_loss"] == run.records.history[-1]["validation_loss"]
    assert summary["epoch/learning_rate"] == pytest.approx(0.1)
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


def nan_gradient_at_zero() -> keras.Model:
    """The default toy with one more weight, which is zero and whose root has no slope there."""

    class Root(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.root = self.add_weight(shape=(), initializer="zeros", name="root")

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return x + tf.sqrt(tf.convert_to_tensor(self.root))

    x = keras.Input((FEATURES,))
    return keras.Model(x, keras.layers.Dense(CLASSES)(Root()(x)))


def test_weights_that_are_moved_before_the_loss_come_back() -> None:
    names = recipe("sharpness")
    names |= {"RADIUS": 0.05, "loss_of": lambda *arguments: plain_step(*arguments)["main"]}
    sam = Toy(train_steps=(names["train_step"],), examples_interact=names["EXAMPLES_INTERACT"])
    with pytest.raises(UsageError, match="--accumulate"):
        train(sam, accumulate=2)
    sharp = assert_parity(sam, (2,))
    plain = train(Toy())
    apart = max(np.abs(a - b).max() for a, b in zip(sharp.weights, plain.weights, strict=True))
    assert 1e-4 < apart < 0.05  # moved by less than the radius, and not by all steps together
    nothing_counts = (*plain_data(), np.zeros(len(plain_data()[0])))
    assert int(train(replace(sam, data=nothing_counts)).progress.skips.total) == 0


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


def test_noise_on_gradients_fades_and_is_the_same_on_every_replica() -> None:
    names = recipe("gradient_noise")
    noisy = assert_parity(Toy(process_gradients=names["process_gradients"]), (2,))
    assert any(np.any(a != b) for a, b in zip(noisy.weights, train(Toy()).weights, strict=True))
    run = noisy.run
    given = [tf.zeros((1000,))]
    noise = []
    for step in (0, 100):
        run.optimizers["main"].iterations.assign(step)
        noise.append(float(tf.math.reduce_std(run.processed(given, run.trainable_variables)[0])))
    np.testing.assert_allclose(noise, [0.1, 0.1 / 101**0.275], rtol=0.1)
