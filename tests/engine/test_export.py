"""Exported models give what the originals give; random ones aren't blamed for it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import files
from proof.engine.errors import UsageError
from proof.engine.export import _inputs_and_outputs, export_models, loading_code
from proof.engine.locks import lock_of

from .toys import FEATURES, files_of_at_most

pytestmark = [
    pytest.mark.quick,
    # Keras' own, when it saves a model (Keras 3.15 with numpy 2).
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]
layers = keras.layers


@keras.saving.register_keras_serializable("proof")
class Sampling(layers.Layer):
    """Random in evaluation too."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x: Any) -> Any:
        return x + keras.random.normal(keras.ops.shape(x), dtype=x.dtype, seed=self.seeds)


@keras.saving.register_keras_serializable("proof")
def square(x: Any) -> Any:
    """An activation."""
    return x * x


class Unregistered(layers.Layer):
    """A layer that keras.models.load_model doesn't find."""

    def call(self, x: Any) -> Any:
        return x


def model_with(layer: Callable[[Any], Any]) -> keras.Model:
    x = keras.Input((FEATURES,), name="x")
    return keras.Model(x, layers.Dense(2)(layer(x)))


def run_of(models: dict[str, keras.Model]) -> Any:
    return SimpleNamespace(trained_models=models)


def exported(model: keras.Model, directory: Path) -> list[str]:
    return list(export_models(run_of({"main": model}), directory / "export"))


def test_noise_that_evaluation_switches_off_is_off_in_the_export(tmp_path: Path) -> None:
    model = model_with(lambda x: layers.GaussianNoise(0.5)(x, training=True))
    assert all("differs by" in line for line in exported(model, tmp_path))
    inputs = np.ones((3, FEATURES))
    loaded = tf.saved_model.load(str(tmp_path / "export" / "main"))
    np.testing.assert_allclose(loaded.serve(inputs), model(inputs, training=False))


def test_a_random_model_is_not_compared(tmp_path: Path) -> None:
    lines = exported(model_with(Sampling()), tmp_path)
    assert len(lines) == 2
    assert all("outputs are random" in line for line in lines)


def test_every_form_of_inputs_can_be_exported(tmp_path: Path) -> None:
    a, b = keras.Input((2,), name="a"), keras.Input((), dtype="int32", name="b")
    outputs = layers.Dense(1)(a) + layers.Embedding(3, 1)(b)
    forms = {"dict": {"a": a, "b": b}, "list": [a, b]}
    models: dict[str, Any] = {name: keras.Model(form, outputs) for name, form in forms.items()}
    models["sequential"] = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
    assert len(list(export_models(run_of(models), tmp_path))) == 6
    served = tf.saved_model.load(str(tmp_path / "dict")).signatures["serving_default"]
    arrays = tf.ones((5, 2), "float64"), tf.ones(5, "int32")
    (output,) = served(a=arrays[0], b=arrays[1]).values()
    np.testing.assert_allclose(output, models["dict"]({"a": arrays[0], "b": arrays[1]}))


def _padded() -> keras.Model:
    words = keras.Input((4,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(words)
    return keras.Model(words, layers.GlobalAveragePooling1D()(x))


def _of_any_size() -> keras.Model:
    x = pictures = keras.Input((None, None, 1))
    for _ in range(2):
        x = layers.MaxPooling2D()(layers.Conv2D(2, 3)(x))
    return keras.Model(pictures, layers.GlobalMaxPooling2D()(x))


def _in_words() -> keras.Model:
    numbers = keras.Input((2,), dtype="int64")
    return keras.Model(numbers, layers.StringLookup(vocabulary=["a", "b"], invert=True)(numbers))


def test_random_words_are_no_padding() -> None:
    _, outputs = _inputs_and_outputs("main", _padded())
    assert np.isfinite(outputs).all()


@pytest.mark.parametrize("model", [_padded, _of_any_size, _in_words])
def test_models_of_every_kind_are_compared(
    model: Callable[[], keras.Model], tmp_path: Path
) -> None:
    assert all("differs by 0.0e+00" in line for line in exported(model(), tmp_path))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_number_after_loading_is_a_difference(
    value: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keras.models, "load_model", lambda file: model_with(lambda x: x * value))
    with pytest.raises(UsageError, match=r"main.keras differs from the model by inf"):
        exported(model_with(lambda x: x), tmp_path)


def test_a_model_that_takes_no_random_inputs_is_a_sentence(tmp_path: Path) -> None:
    def odd(x: Any) -> Any:
        return tf.ensure_shape(x, (7, FEATURES))

    model = model_with(layers.Lambda(odd))
    with pytest.raises(UsageError, match=r"^main can't be called with random inputs: "):
        exported(model, tmp_path)


def test_a_layer_that_is_not_registered_is_named(tmp_path: Path) -> None:
    says = r"main.keras can't be exported: .*'Unregistered'.*; decorate its class"
    with pytest.raises(UsageError, match=says):
        exported(model_with(Unregistered()), tmp_path)


def test_the_modules_of_all_that_is_registered_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(square, "__module__", "proof.task.activations")
    plain, own = model_with(layers.Dense(2)), model_with(layers.Dense(2, activation=square))
    own = model_with(keras.Model(own.input, own.output))
    lines = [loading_code(run_of({"main": model}), tmp_path).splitlines() for model in (plain, own)]
    assert [line for line in lines[1] if line not in lines[0]] == [
        "    import proof.task.activations"
    ]


@pytest.mark.parametrize("name", ["plain", "a[1]"])
def test_where_tensorflow_finds_no_variables_the_loading_code_says_so(
    name: str, tmp_path: Path
) -> None:
    model, directory = model_with(lambda x: x), tmp_path / name
    directory.mkdir()
    assert len(exported(model, directory)) == 2
    code = loading_code(run_of({"main": model}), directory / "export")
    assert ("# First copy it" in code) == (name != "plain")
    without = contextlib.nullcontext() if name == "plain" else pytest.raises(FileNotFoundError)
    with without:
        tf.saved_model.load(str(directory / "export" / "main"))


def test_an_export_is_there_as_a_whole_or_as_it_was(tmp_path: Path) -> None:
    exported(model_with(lambda x: x), tmp_path)
    before = files(tmp_path)
    with (
        files_of_at_most(100),
        pytest.raises(UsageError, match=r"main.keras can't be exported: .*; fix that, then exp"),
    ):
        exported(model_with(lambda x: x), tmp_path)
    assert files(tmp_path) == before
    assert len(exported(model_with(lambda x: x + 1), tmp_path)) == 2  # over what is there
    changed = {name for name, content in files(tmp_path).items() if before.get(name) != content}
    assert {"export/main.keras", "export/main/saved_model.pb"} <= changed


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_rounding_is_no_difference(precision: str, tmp_path: Path) -> None:
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy(precision)
    model = model_with(lambda x: layers.Dense(64, "gelu")(layers.Dense(64, "gelu")(x)))
    model.set_weights([100 * w for w in model.get_weights()])
    assert all("differs by" in line for line in exported(model, tmp_path))


def test_another_model_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.models, "load_model", lambda file: model_with(lambda x: x + 1))
    with pytest.raises(UsageError, match=r"main.keras differs from the model by"):
        exported(model_with(lambda x: x), tmp_path)


def test_a_killed_export_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(model_with(lambda x: x), tmp_path)
    before = (tmp_path / "export" / "main" / "saved_model.pb").read_bytes()
    replace, at_each = Path.replace, []

    def seen(self: Path, target: Path) -> Path:
        there = tmp_path.rglob("saved_model.pb")
        at_each.append(before in [file.read_bytes() for file in there])
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", seen)
    exported(model_with(lambda x: x + 1), tmp_path)
    assert at_each == [True, True, True]  # main.keras, then main away, and the new one there


def test_what_a_killed_export_has_left_is_deleted_but_not_what_another_writes(
    tmp_path: Path,
) -> None:
    killed, another = (tmp_path / "export" / f"unfinished-{who}" for who in ("killed", "another"))
    for each in (killed, another):
        (each / "main").mkdir(parents=True)
    with lock_of(another):
        exported(model_with(lambda x: x), tmp_path)
    there = {path.name for path in (tmp_path / "export").iterdir()}
    assert there == {"main", "main.keras", another.name}
