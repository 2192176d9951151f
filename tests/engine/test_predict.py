"""Predictions for files and splits: several outputs, several models, bad files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.errors import UsageError
from proof.engine.export import export_models
from proof.engine.predict import model_of, predict_files, predict_split, read_inputs

from .toys import FEATURES, Toy, build

pytestmark = pytest.mark.quick
layers = keras.layers
INPUTS = np.random.default_rng(0).normal(size=(5, FEATURES))


def model_with(outputs: Any) -> keras.Model:
    """A model with outputs in the form of `outputs`, a function of its input."""
    x = keras.Input((FEATURES,), name="x")
    return keras.Model(x, outputs(x))


FORMS = {
    "one": lambda x: layers.Dense(2)(x),
    "list": lambda x: [layers.Dense(2, name="left")(x), layers.Dense(2, name="right")(x)],
    "dict": lambda x: {"left": layers.Dense(2)(x), "right": layers.Dense(2)(x)},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_output_is_written_as_a_plain_array(form: str, tmp_path: Path) -> None:
    model = model_with(FORMS[form])
    np.save(tmp_path / "inputs.npy", INPUTS)
    (file,) = predict_files(model, [tmp_path / "inputs.npy"], tmp_path / "out")
    written = np.load(file, allow_pickle=False)
    expected = model(INPUTS)
    if form == "one":
        np.testing.assert_allclose(written, expected)
        return
    values = list(expected.values()) if form == "dict" else expected
    assert set(written) == {"left", "right"}
    np.testing.assert_allclose(written["left"], values[0])
    np.testing.assert_allclose(written["right"], values[1])


def test_files_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    files = [tmp_path / folder / "same.npy" for folder in "ab"]
    for i, file in enumerate(files):
        file.parent.mkdir()
        np.save(file, INPUTS + i)
    model = model_with(FORMS["one"])
    first, second = predict_files(model, files, tmp_path / "out")
    np.testing.assert_allclose(np.load(first), model(INPUTS))
    np.testing.assert_allclose(np.load(second), model(INPUTS + 1))


WEIGHTS = np.arange(300) % 3  # of an example, not of padding
SPLITS = {
    "labels": (np.zeros(300),),
    "weights": (np.zeros(300), WEIGHTS),
    "dict of weights": (np.zeros(300), {"a": WEIGHTS, "b": np.zeros((300, 4))}),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("others", SPLITS.values(), ids=SPLITS)
def test_a_split_is_predicted_in_its_order(others: Any, stream: bool, tmp_path: Path) -> None:
    model = model_with(FORMS["one"])
    inputs = np.random.default_rng(1).normal(size=(300, FEATURES))  # more than a batch
    split: Any = (inputs, *others)
    if stream:
        split = tf.data.Dataset.from_tensor_slices(split)
    file = predict_split(model, "test", split, tmp_path)
    np.testing.assert_allclose(np.load(file), model(inputs), rtol=1e-6)


def _text(file: Path) -> None:
    file.write_text("1, 2, 3")


def _pickle(file: Path) -> None:
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (_text, "can't be read"),
        (_pickle, "can't be read"),
        (lambda file: file.touch(), "can't be read"),
        (lambda file: np.save(file, np.float64(1.0)), "holds no examples"),
        (lambda file: np.save(file, np.zeros((0, FEATURES))), "holds no examples"),
        (lambda file: np.save(file, np.zeros((3, 4))), r"holds float64 \(4,\), the model takes"),
        (lambda file: np.save(file, np.full((3, FEATURES), "a")), r"string \(5,\), the model take"),
        (lambda file: np.save(file, np.zeros((3, FEATURES), "c8")), r"complex64 \(5,\), the model"),
        (lambda file: np.save(file, np.zeros(3, "M8[s]")), r"datetime64\[s\]: a model takes num"),
        (
            lambda file: np.save(file, np.zeros(3, [("a", "f4")])),
            "a model takes numbers or strings",
        ),
    ],
    ids=[
        "text",
        "pickle",
        "empty",
        "scalar",
        "no rows",
        "shape",
        "strings",
        "complex",
        "dates",
        "records",
    ],
)
def test_a_file_that_cannot_be_used_gets_a_sentence(
    write: Any, sentence: str, tmp_path: Path
) -> None:
    write(tmp_path / "inputs.npy")
    with pytest.raises(UsageError, match=sentence):
        list(predict_files(model_with(FORMS["one"]), [tmp_path / "inputs.npy"], tmp_path))


def two_inputs() -> keras.Model:
    """{"a": (batch, 5), "word": string (batch,)} -> (batch, 2)."""
    a, word = keras.Input((FEATURES,), name="a"), keras.Input((), dtype="string", name="word")
    numbers = layers.StringLookup(vocabulary=["no", "yes"])(word)
    return keras.Model({"a": a, "word": word}, layers.Dense(2)(a) + layers.Embedding(3, 2)(numbers))


def test_inputs_are_found_by_name_and_may_be_strings(tmp_path: Path) -> None:
    words = np.array(["no", "yes", "no", "yes", "perhaps"])
    np.savez(tmp_path / "inputs.npz", word=words, a=INPUTS, labels=np.zeros(5))
    model = two_inputs()
    (file,) = predict_files(model, [tmp_path / "inputs.npz"], tmp_path)
    np.testing.assert_allclose(
        np.load(file), model({"a": tf.constant(INPUTS), "word": tf.constant(words)})
    )


@pytest.mark.parametrize("name", ["inputs.npz", "inputs.npy"])  # an archive is known by its bytes
def test_an_archive_that_unpacks_to_too_much_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.engine.predict.LARGEST", 100_000)
    for size, refused in ((10_000, False), (10**6, True)):
        np.savez_compressed(tmp_path / "inputs.npz", a=np.zeros(size, "u1"))
        (tmp_path / "inputs.npz").replace(tmp_path / name)
        if refused:
            with pytest.raises(UsageError, match="unpacks to 1,000,"):
                read_inputs(tmp_path / name)
        else:
            read_inputs(tmp_path / name)


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "inputs.npz", a=INPUTS, words=np.full(5, "no"))
    sentence = r"holds \{'a': .*, 'words': .*\}, the model takes \{'a': .*, 'word': 'string \(\)'\}"
    with pytest.raises(UsageError, match=sentence):
        list(predict_files(two_inputs(), [tmp_path / "inputs.npz"], tmp_path))


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (10, r"can't be predicted: indices\[.*\] = 10 is not in \[0, 10\)"),
        (2**40, "holds 1099511627776, which int32 can't hold"),
        (0.5, r"holds float64 \(2,\), the model takes int32 \(2,\)"),
    ],
)
def test_an_index_that_a_model_cannot_take(number: float, sentence: str, tmp_path: Path) -> None:
    words = keras.Input((2,), dtype="int32")
    model = keras.Model(words, layers.Embedding(10, 2)(words))
    np.save(tmp_path / "inputs.npy", np.full((3, 2), number))
    with pytest.raises(UsageError, match=sentence):
        list(predict_files(model, [tmp_path / "inputs.npy"], tmp_path))


def test_a_model_without_symbolic_inputs(tmp_path: Path) -> None:
    class Subclass(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    model = Subclass()
    np.save(tmp_path / "inputs.npy", INPUTS)
    (file,) = predict_files(model, [tmp_path / "inputs.npy"], tmp_path / "out")
    np.testing.assert_allclose(np.load(file), model(INPUTS))
    np.save(tmp_path / "inputs.npy", INPUTS[:, 1:])
    with pytest.raises(UsageError, match=r"can't be predicted: .*\[5,4\]"):
        list(predict_files(model, [tmp_path / "inputs.npy"], tmp_path))
    run: Any = SimpleNamespace(trained_models={"main": model})
    with pytest.raises(UsageError, match="no symbolic inputs; make it with"):
        list(export_models(run, tmp_path / "export"))


def test_of_several_models_one_is_named() -> None:
    run = build(
        Toy(
            lambda: {"a": model_with(FORMS["one"]), "b": model_with(FORMS["one"])},
            lambda: {name: keras.optimizers.SGD(0.1) for name in "ab"},
        )
    ).run
    assert model_of(run, "b") is run.models["b"]
    with pytest.raises(UsageError, match="add --model with one of: a, b"):
        model_of(run, "")
    with pytest.raises(UsageError, match="no model 'c'"):
        model_of(run, "c")
