"""Predictions for files and splits: several outputs, several models, bad files."""

from __future__ import annotations

import base64
import csv
import importlib
import io
import os
import re
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from cookiecutter.main import cookiecutter
from matplotlib.image import imsave
from proof.engine.errors import UsageError
from proof.engine.export import export_models
from proof.engine.predict import _read_file, model_of, read_inputs
from proof.engine.prediction_table import THUMBNAILS, PredictionTable, _data_uri
from proof.task import predictions

from . import ROOT
from .toys import (
    FEATURES,
    Toy,
    build,
    files_of_at_most,
    plain_model,
    predict_files,
    predict_split,
)

pytestmark = pytest.mark.quick
layers = keras.layers
INPUTS = np.random.default_rng(0).normal(size=(5, FEATURES))


def model_with(outputs: Any) -> keras.Model:
    """A model with outputs in the form of `outputs`, a function of its input."""
    x = keras.Input((FEATURES,), name="x")
    return keras.Model(x, outputs(x))


def read_csv(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


FORMS = {
    "one": lambda x: layers.Dense(2)(x),
    "list": lambda x: [layers.Dense(2, name="left")(x), layers.Dense(2, name="right")(x)],
    "dict": lambda x: {"left": layers.Dense(2)(x), "right": layers.Dense(2)(x)},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_output_is_written_as_a_plain_array(form: str, tmp_path: Path) -> None:
    model = model_with(FORMS[form])
    np.save(tmp_path / "inputs.npy", INPUTS)
    (file,) = predict_files(model, [tmp_path / "inputs.npy"], tmp_path / "out")  # no table
    written = np.load(file, allow_pickle=False)
    expected = model(INPUTS)
    if form == "one":
        np.testing.assert_allclose(written, expected)
        return
    values = list(expected.values()) if form == "dict" else expected
    assert set(written) == {"left", "right"}
    np.testing.assert_allclose(written["left"], values[0])
    np.testing.assert_allclose(written["right"], values[1])


def test_one_of_several_outputs_may_be_larger_than_2_gib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)  # in place of 2 GiB
    np.save(tmp_path / "inputs.npy", INPUTS)
    (file,) = predict_files(model_with(FORMS["dict"]), [tmp_path / "inputs.npy"], tmp_path / "out")
    assert set(np.load(file, allow_pickle=False)) == {"left", "right"}


NESTED = {
    "nested": (
        lambda x: {"box": {"size": 2 * x, "at": layers.Dense(1)(x)}, "kind": x},
        {"box/size", "box/at", "kind"},
    ),
    "file": (lambda x: {"file": layers.Dense(2)(x), "other": x}, {"file", "other"}),
    "one layer twice": (lambda x: [*map(layers.Dense(2, name="score"), (x, 2 * x))], {"0", "1"}),
    "lists": (lambda x: [[x, 2 * x], 3 * x], {"0/0", "0/1", "1"}),
}


@pytest.mark.parametrize("form", NESTED)
def test_nested_outputs_are_written_by_their_paths(form: str, tmp_path: Path) -> None:
    outputs, names = NESTED[form]
    np.save(tmp_path / "inputs.npy", INPUTS)
    (file,) = predict_files(model_with(outputs), [tmp_path / "inputs.npy"], tmp_path / "out")
    written = np.load(file, allow_pickle=False)
    assert set(written) == names
    assert all(len(written[name]) == len(INPUTS) for name in names)
    if form == "nested":
        np.testing.assert_allclose(written["box/size"], 2 * INPUTS, rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (FEATURES, FEATURES)])
def test_an_output_without_a_row_for_each_input_is_a_sentence(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    one = keras.ops.mean if shape == () else lambda x: keras.ops.transpose(x) @ x
    model = model_with(lambda x: {"y": x, "of batch": one(x)})
    inputs = np.concatenate([INPUTS, INPUTS[:1]])
    np.save(tmp_path / "inputs.npy", inputs)
    sentence = r"output of batch has shape {} for {} inputs, and predict needs a row for each; give"
    for rows, predict in (
        (len(inputs), predict_files(model, [tmp_path / "inputs.npy"], tmp_path / "out")),
        (len(inputs), predict_split(model, "test", inputs, tmp_path / "out")),
    ):
        with pytest.raises(UsageError, match=sentence.format(re.escape(str(shape)), rows)):
            list(predict)
    assert not (tmp_path / "out").exists()


def test_outputs_of_a_subclass_are_numbered(tmp_path: Path) -> None:
    class Two(keras.Model):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x, 2 * x

    np.save(tmp_path / "inputs.npy", INPUTS)
    (file,) = predict_files(Two(), [tmp_path / "inputs.npy"], tmp_path / "out")
    written = np.load(file, allow_pickle=False)
    np.testing.assert_allclose(written["1"], 2 * written["0"])


@pytest.mark.parametrize("kind", ["bfloat16", "string"])
def test_outputs_that_numpy_has_no_type_for_can_be_read(kind: str, tmp_path: Path) -> None:
    words = layers.StringLookup(vocabulary=["a", "\u00e4"], invert=True)

    class Last(keras.Model):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            if kind == "bfloat16":
                return tf.cast(x, tf.bfloat16)
            return words(tf.ones_like(x, tf.int64) * [1, 2, *[0] * (FEATURES - 2)])

    np.save(tmp_path / "inputs.npy", INPUTS)
    (file,) = predict_files(Last(), [tmp_path / "inputs.npy"], tmp_path / "out")
    written = np.load(file, allow_pickle=False)
    if kind == "bfloat16":
        np.testing.assert_allclose(written, INPUTS, atol=0.05)
    else:
        assert written[0, :2].tolist() == ["a", "\u00e4"]


class Seen(layers.Layer):  # type: ignore[misc]
    """Keeps the rows of each batch that it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[int] = []

    def call(self, x: Any) -> Any:
        tf.py_function(lambda x: self.rows.append(len(x)), [x], [])
        return x


def test_as_many_examples_are_predicted_at_once_as_were_trained(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.txt" for i in range(4)]  # of three rows each
    for file in files:
        file.touch()
    readers = {".txt": lambda file, model: INPUTS[:3] + int(file.stem)}
    seen = Seen()
    model = model_with(seen)
    given = {"batch_size": 4, "readers": readers, "describe": lambda *_: {"a": _[2][:, 0]}}
    array, table = predict_files(model, files, tmp_path / "out", **given)
    np.testing.assert_allclose(np.load(array).reshape(4, 3, -1)[3], INPUTS[:3] + 3, rtol=1e-6)
    assert [row["file"] for row in read_csv(table)][::3] == ["0.txt", "1.txt", "2.txt", "3.txt"]
    assert max(seen.rows) == 4
    seen.rows.clear()
    list(predict_split(model, "test", INPUTS, tmp_path, batch_size=4))
    assert seen.rows == [4, 4]
    seen.rows.clear()
    list(predict_split(model, "test", INPUTS, tmp_path, batch_size=100))
    assert seen.rows == [5]  # no padding


def test_a_lack_of_memory_is_said_with_the_size_of_a_batch(tmp_path: Path) -> None:
    class Large(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor(x.shape, x.dtype)

    model = model_with(Large())
    np.save(tmp_path / "a.npy", INPUTS)
    sentence = r"5 examples at once need more memory than there is\.$"
    with pytest.raises(UsageError, match=sentence):
        list(predict_split(model, "test", INPUTS, tmp_path, batch_size=5))
    with pytest.raises(UsageError, match=sentence):
        list(predict_files(model, [tmp_path / "a.npy"], tmp_path / "out", batch_size=5))


def test_a_directory_that_cannot_be_written_is_said_before_anything_is_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    seen = Seen()
    model = model_with(seen)
    seen.rows.clear()
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(UsageError, match=r"can't be written \(Permission denied\)"):
        list(predict_split(model, "test", INPUTS, tmp_path / "out"))
    assert not seen.rows


def test_a_split_with_other_inputs_than_the_models_is_a_sentence(tmp_path: Path) -> None:
    x, y = keras.Input((FEATURES,), name="x"), keras.Input((2,), name="y")
    model = keras.Model({"x": x, "y": y}, layers.Dense(2)(layers.Concatenate()([x, y])))
    words = (
        f"The test data can't be predicted by this model: an example holds float64 ({FEATURES},), "
        f"the model takes {{'x': 'float64 ({FEATURES},)', 'y': 'float64 (2,)'}}; give files with "
        "inputs of the model."
    )
    with pytest.raises(UsageError, match=re.escape(words)):
        list(predict_split(model, "test", INPUTS, tmp_path))


def test_a_split_of_which_the_model_takes_a_part_is_a_sentence(tmp_path: Path) -> None:
    one = f"float64 ({FEATURES},)"
    words = f"holds {{'anchor': '{one}', 'positive': '{one}'}}, the model takes {one}; give files"
    pairs = {"anchor": INPUTS, "positive": INPUTS}
    with pytest.raises(UsageError, match=re.escape(words)):
        list(predict_split(model_with(FORMS["one"]), "test", pairs, tmp_path))


def test_a_split_of_the_right_form_that_fails_keeps_the_models_words(tmp_path: Path) -> None:
    class Picky(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return tf.debugging.check_numerics(x, "only finite numbers")

    broken = np.full_like(INPUTS, np.nan)
    with pytest.raises(UsageError, match=r"by this model: .*only finite numbers"):
        list(predict_split(model_with(Picky()), "test", broken, tmp_path))


def test_a_file_is_not_overwritten_by_its_own_predictions(tmp_path: Path) -> None:
    file = tmp_path / "inputs.npy"
    np.save(file, INPUTS)
    with pytest.raises(UsageError, match=r"predictions for .*inputs.npy would overwrite it"):
        list(predict_files(model_with(FORMS["one"]), [file], tmp_path))
    np.testing.assert_array_equal(np.load(file), INPUTS)


def test_files_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    files = [tmp_path / folder / "same.npy" for folder in "ab"]
    for i, file in enumerate(files):
        file.parent.mkdir()
        np.save(file, INPUTS + i)
    model = model_with(FORMS["one"])
    first, second = predict_files(model, files, tmp_path / "out")
    np.testing.assert_allclose(np.load(first), model(INPUTS))
    np.testing.assert_allclose(np.load(second), model(INPUTS + 1))


def test_a_file_called_like_a_split_does_not_overwrite_its_predictions(tmp_path: Path) -> None:
    np.save(tmp_path / "validation.npy", INPUTS)
    model, out = model_with(FORMS["one"]), tmp_path / "out"
    (of_split,) = predict_split(model, "validation", INPUTS, out)
    (of_file,) = predict_files(model, [tmp_path / "validation.npy"], out)
    assert (of_split.name, of_file.name) == ("validation.npy", "validation-2.npy")


@pytest.mark.parametrize("again", [True, False])
def test_predictions_in_no_order_are_mentioned(
    again: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = tf.data.Dataset.from_tensor_slices(INPUTS)
    stream = stream.shuffle(4, seed=1, reshuffle_each_iteration=again)
    list(predict_split(model_with(FORMS["one"]), "test", stream, tmp_path))
    assert ("the test data comes in another order" in capsys.readouterr().err) == again


def test_files_may_lack_the_last_axis_or_have_one_more(tmp_path: Path) -> None:
    shapes, inputs = [(5, FEATURES), (5, FEATURES, 1)], keras.Input((FEATURES, 1))
    model = keras.Model(inputs, keras.layers.Flatten()(inputs))
    numbers, files = np.random.default_rng(1).normal(size=(5, FEATURES)), []
    for i, shape in enumerate(shapes):
        files.append(tmp_path / f"{i}.npy")
        np.save(files[-1], numbers.reshape(shape).astype("float32"))
    for file in predict_files(model, files, tmp_path / "out"):
        np.testing.assert_allclose(np.load(file), numbers, rtol=1e-6)


@pytest.mark.quick
def test_readers_and_descriptions_of_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.touch()
    with pytest.raises(UsageError, match=r"READERS in task/predictions\.py, must give arrays"):
        _read_file(file, plain_model(), {".txt": lambda file, model: None})
    with pytest.raises(UsageError, match=r"describe in task/predictions\.py gives a NoneType; it"):
        PredictionTable().add([], INPUTS[:0], None)  # type: ignore[arg-type]


def test_why_there_is_no_table_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "inputs.npy", INPUTS)
    list(predict_files(model_with(FORMS["one"]), [tmp_path / "inputs.npy"], tmp_path / "out"))
    assert capsys.readouterr().err.startswith("no table: describe in task/predictions.py returns")


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
    file, table = predict_split(
        model, "test", split, tmp_path, describe=lambda *given: {"sum": given[-1].sum(axis=1)}
    )
    np.testing.assert_allclose(np.load(file), model(inputs), rtol=1e-6)
    rows = read_csv(table)
    assert [(row["file"], row["row"]) for row in rows] == [("test", str(i)) for i in range(300)]
    sums = [float(row["sum"]) for row in rows]
    np.testing.assert_allclose(sums, np.load(file).sum(axis=1), rtol=1e-5)


def _text(file: Path) -> None:
    file.write_text("1, 2, 3")


def _pickle(file: Path) -> None:
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)


def _damaged(file: Path) -> None:
    with file.open("wb") as archive:
        np.savez_compressed(archive, x=INPUTS)
    content = file.read_bytes()
    place = content.index(b"x.npy") + 40  # in the compressed numbers
    file.write_bytes(content[:place] + b"\xff" * 20 + content[place + 20 :])


def _encrypted(file: Path) -> None:
    with file.open("wb") as archive:
        np.savez(archive, x=INPUTS)
    content = bytearray(file.read_bytes())
    for place in (content.index(b"PK\3\4") + 6, content.index(b"PK\1\2") + 8):
        content[place] |= 1  # a flag, in both headers
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (_text, "can't be read"),
        (_pickle, "can't be read"),
        (_damaged, "can't be read"),
        (_encrypted, "can't be read"),
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
        "damaged",
        "encrypted",
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
        list(predict_files(model_with(FORMS["one"]), [tmp_path / "inputs.npy"], tmp_path / "out"))


@pytest.mark.parametrize("kind", ["f8", "g", "G"])
def test_only_long_doubles_have_too_many_digits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "inputs.npy", np.zeros((3, FEATURES), kind))
    if kind == "f8":  # as on a Mac with an ARM processor, where both have 8 bytes
        monkeypatch.setattr(np, "longdouble", np.float64)
        assert read_inputs(tmp_path / "inputs.npy").dtype == "f8"
    elif np.dtype("g").itemsize > 8:
        with pytest.raises(UsageError, match=r"holds (float|complex)\d+: a model takes num"):
            read_inputs(tmp_path / "inputs.npy")


@pytest.mark.parametrize("form", FORMS)
def test_predictions_are_written_as_a_whole_or_not_at_all(form: str, tmp_path: Path) -> None:
    model, (few, many) = model_with(FORMS[form]), (tmp_path / "x.npy", tmp_path / "b" / "x.npy")
    many.parent.mkdir()
    np.save(few, INPUTS)
    np.save(many, np.zeros((300, FEATURES)))
    (file,) = predict_files(model, [few], tmp_path / "out")
    before = file.read_bytes()
    with (
        files_of_at_most(2000),
        pytest.raises(UsageError, match=rf"{file.name} can't be written \(File too large\)"),
    ):
        list(predict_files(model, [many], tmp_path / "out"))
    assert file.read_bytes() == before


def two_inputs() -> keras.Model:
    """{"a": (batch, 5), "word": string (batch,)} -> (batch, 2)."""
    a, word = keras.Input((FEATURES,), name="a"), keras.Input((), dtype="string", name="word")
    numbers = layers.StringLookup(vocabulary=["no", "yes"])(word)
    return keras.Model({"a": a, "word": word}, layers.Dense(2)(a) + layers.Embedding(3, 2)(numbers))


def test_inputs_are_found_by_name_and_may_be_strings(tmp_path: Path) -> None:
    words = np.array(["no", "yes", "no", "yes", "perhaps"])
    np.savez(tmp_path / "inputs.npz", word=words, a=INPUTS, labels=np.zeros(5))
    model = two_inputs()
    (file,) = predict_files(model, [tmp_path / "inputs.npz"], tmp_path / "out")
    np.testing.assert_allclose(
        np.load(file), model({"a": tf.constant(INPUTS), "word": tf.constant(words)})
    )


@pytest.mark.parametrize(
    ("form", "named"),
    [
        (lambda a, b, c: [a, b, c], ["a", "b", "c"]),
        (lambda a, b, c: [a, [b, c]], ["a", "b", "c"]),
        (lambda a, b, c: {"a": a, "pair": [b, c]}, ["a", "pair/0", "pair/1"]),
    ],
)
def test_inputs_of_lists_and_nests_are_found_by_name_and_as_a_reader_gives_them(
    form: Any, named: list[str], tmp_path: Path
) -> None:
    a, b, c = (keras.Input((FEATURES,), name=name) for name in "abc")
    model = keras.Model(form(a, b, c), a + 10 * b + 100 * c)
    one, two, three = (np.full((5, FEATURES), i) for i in (1, 2, 3))
    files = [tmp_path / "inputs.npz", tmp_path / "inputs.own"]
    np.savez(files[0], labels=one, **dict(zip(named, (one, two, three), strict=True)))
    files[1].touch()
    readers = {".own": lambda file, model: form(one, two, three)}
    for file in predict_files(model, files, tmp_path / "out", readers=readers):
        np.testing.assert_array_equal(np.load(file), np.full((5, FEATURES), 321))
    np.savez(files[0], wrong=one)
    takes = rf"holds {{'wrong': .*, the model takes {{'a': .*, '{named[1]}': "
    with pytest.raises(UsageError, match=takes):
        list(predict_files(model, files[:1], tmp_path / "out"))


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
        list(predict_files(two_inputs(), [tmp_path / "inputs.npz"], tmp_path / "out"))


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
        list(predict_files(model, [tmp_path / "inputs.npy"], tmp_path / "out"))


def test_whole_numbers_for_a_boolean_input(tmp_path: Path) -> None:
    mask, file = keras.Input((2,), dtype="bool"), tmp_path / "inputs.npy"
    model = keras.Model(mask, keras.ops.cast(mask, "float32"))
    np.save(file, np.array([[0, 1], [1, 1]]))
    (written,) = predict_files(model, [file], tmp_path / "out")
    np.testing.assert_array_equal(np.load(written), np.load(file))
    np.save(file, np.array([[0, 2]]))
    with pytest.raises(UsageError, match="holds 2, which bool can't hold"):
        list(predict_files(model, [file], tmp_path / "out"))


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
        list(predict_files(model, [tmp_path / "inputs.npy"], tmp_path / "out"))
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


def digits_model(size: int = 8) -> keras.Model:
    """Images (batch, size, size, 1) -> logits (batch, 10): the brightest row of the first ten."""
    images = keras.Input((size, size, 1), dtype="float32")
    rows = keras.ops.mean(images[..., 0], axis=2)
    return keras.Model(images, keras.ops.pad(20 * rows, [(0, 0), (0, 10 - size)]))


def predicted(paths: list[Path], directory: Path) -> list[Path]:
    """What the default starter's READERS and describe make of pictures."""
    return list(
        predict_files(
            digits_model(), paths, directory,
            readers=predictions.READERS, describe=predictions.describe,
        )
    )  # fmt: skip


def draw(file: Path, row: int, size: int = 8) -> None:
    """A picture with one bright row of eighths, in color or, as JPEG, larger."""
    image = np.zeros((size, size, 3), np.uint8)
    image[row * size // 8 : (row + 1) * size // 8] = 255
    imsave(file, image)


class Page(HTMLParser):
    """What a page shows, and whether it fetches anything."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.images: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.images += [f"{value}" for name, value in attrs if name == "src"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_folder_of_arrays_is_predicted_as_one(tmp_path: Path) -> None:
    folder, model = tmp_path / "arrays", model_with(FORMS["one"])
    folder.mkdir()
    np.save(folder / "a.npy", INPUTS[:2])
    np.savez(folder / "b.npz", x=INPUTS[2:])
    (folder / "notes.md").write_text("no array")
    (file,) = predict_files(model, [folder], tmp_path / "out")
    assert file == tmp_path / "out" / "arrays.npy"
    np.testing.assert_allclose(np.load(file), model(INPUTS), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "int32", "str"])
def test_a_folder_may_have_numbers_of_several_types(dtype: str, tmp_path: Path) -> None:
    x = keras.Input((1,), dtype="string" if dtype == "str" else dtype)
    words = layers.StringLookup(vocabulary=["1", "100"])
    model = keras.Model(x, words(x) if dtype == "str" else x)
    types = {"float64": ["f4", "f8", "u1"], "int32": ["i4", "i8", "?"], "str": ["S1", "U3"]}[dtype]
    folder = tmp_path / "arrays"
    folder.mkdir()
    for i, one in enumerate(types):
        np.save(folder / f"{i}.npy", np.ones((2, 1), "u1").astype(one))
    (file,) = predict_files(model, [folder], tmp_path / "out")
    np.testing.assert_array_equal(np.load(file), np.ones((2 * len(types), 1)))


def test_a_folder_of_pictures_becomes_a_table_and_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "<i>pictures & more"
    folder.mkdir()
    draw(folder / "a<b>&.png", 3)
    draw(folder / "b.PNG", 5)
    draw(folder / "c.jpg", 1, size=64)
    (folder / "notes.md").write_text("not a picture")
    array, table, page = predicted([folder], tmp_path / "out")
    assert np.load(array).shape == (3, 10)
    rows = read_csv(table)
    assert [(r["file"], r["row"], r["class"]) for r in rows] == [
        ("a<b>&.png", "0", "3"), ("b.PNG", "0", "5"), ("c.jpg", "0", "1"),
    ]  # fmt: skip
    probabilities = [[float(row[f"probability/{i}"]) for i in range(10)] for row in rows]
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, rtol=1e-5)
    assert [float(row["confidence"]) for row in rows] == [max(p) for p in probabilities]
    shown = Page(page)
    assert "i" not in shown.tags
    assert "b" not in shown.tags
    assert "Predictions: <i>pictures & more" in shown.text
    assert "a<b>&.png 0class: 3confidence: " in shown.text
    assert len(shown.images) == 3
    assert all(image.startswith("data:image/png;base64,") for image in shown.images)
    assert page.stat().st_size < 5_000


def test_files_of_one_name_are_told_apart_in_a_table(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a/0.png", "b/0.png", "b/1.png")]
    for i, file in enumerate(files):
        file.parent.mkdir(exist_ok=True)
        draw(file, i)
    _, table, _ = predicted(files, tmp_path / "out")
    assert [row["file"] for row in read_csv(table)] == [str(files[0]), str(files[1]), "1.png"]


def test_a_name_that_is_not_utf8_is_written_with_a_question_mark(tmp_path: Path) -> None:
    draw(tmp_path / "a.png", 1)
    file = (tmp_path / "a.png").rename(tmp_path / os.fsdecode(b"\xff.png"))
    _, table, page = predicted([file], tmp_path / "out")
    assert [row["file"] for row in read_csv(table)] == ["?.png"]
    assert "Predictions: ?" in Page(page).text


def test_pictures_given_one_by_one_are_one_table(tmp_path: Path) -> None:
    for i in range(3):
        draw(tmp_path / f"{i}.png", i)
    files = [tmp_path / f"{i}.png" for i in range(3)]
    out = tmp_path / "out"
    assert {file.name for file in predicted(files, out)} == {"files.npy", "files.csv", "files.html"}
    assert [row["class"] for row in read_csv(out / "files.csv")] == ["0", "1", "2"]
    assert {file.stem for file in predicted(files[:1], out)} == {"0"}


def test_a_page_shows_no_more_than_fits_and_inputs_of_any_range(tmp_path: Path) -> None:
    images = np.random.default_rng(0).normal(size=(THUMBNAILS + 300, 8, 8, 1)).astype("float32")
    np.save(tmp_path / "many.npy", images)
    _, table, page = predicted([tmp_path / "many.npy"], tmp_path / "out")
    assert len(read_csv(table)) == THUMBNAILS + 300
    assert len(Page(page).images) == THUMBNAILS
    assert f"{THUMBNAILS} of {THUMBNAILS + 300} rows" in Page(page).text


@pytest.mark.parametrize(
    ("shape", "shown"), [((1000, 4), (96, 1)), ((4, 1000), (1, 96)), ((200, 100), (96, 48))]
)
def test_thumbnails_of_narrow_images(shape: tuple[int, int], shown: tuple[int, int]) -> None:
    uri = _data_uri(np.ones((*shape, 1), "float32"))
    png = tf.io.decode_png(base64.b64decode(uri.partition(",")[2]))
    assert tuple(png.shape[:2]) == shown


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("no.png", b"", r"no\.png is not an image, or not a whole one"),
        ("no.jpg", b"\xff\xd8\xff\xe0 and so on", r"no\.jpg is not an image"),
        ("no.txt", b"text", r"no\.txt can't be read: predict reads \.jpeg, \.jpg, \.npy, .*; add"),
        ("folder", None, r"folder has no file to predict: predict reads \.jpeg, \.jpg, \.npy"),
    ],
)
def test_what_is_no_picture_gets_a_sentence(
    name: str, content: bytes | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        predicted([path], tmp_path / "out")


def test_a_reader_of_the_task_may_fail_and_return_nothing(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").touch()

    def fail(file: Path, model: keras.Model) -> Any:
        raise ValueError("could not convert string to float: 'x'")

    nothing = np.zeros((0, FEATURES))
    for reader, sentence in ((fail, "to float: 'x'"), (lambda *_: nothing, "holds no examples")):
        with pytest.raises(UsageError, match=rf"rows\.csv .*{sentence}\.$"):
            list(
                predict_files(
                    model_with(FORMS["one"]), [tmp_path / "rows.csv"], tmp_path / "out",
                    readers={".csv": reader},
                )
            )  # fmt: skip


@pytest.mark.parametrize("column", [np.zeros(4), np.zeros((5, 2, 2)), np.float64(1)])
def test_a_column_of_another_shape_is_refused(column: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "inputs.npy", INPUTS)
    with pytest.raises(UsageError, match=re.escape(f"gives 'x' of shape {column.shape} for 5 inp")):
        list(
            predict_files(
                model_with(FORMS["one"]), [tmp_path / "inputs.npy"], tmp_path / "out",
                describe=lambda *_: {"x": column},
            )
        )  # fmt: skip


def test_a_column_with_rows_of_several_lengths_is_refused() -> None:
    places = [{"file": "a.npy", "row": row} for row in range(2)]
    with pytest.raises(UsageError, match=r"gives 'x' with rows of several lengths; pad them, or"):
        PredictionTable().add(places, INPUTS[:2], {"x": [[1.0], [1.0, 2.0]]})


def test_a_later_batch_may_have_more_columns(tmp_path: Path) -> None:
    table = PredictionTable()
    for row, columns in enumerate(({}, {"a": np.ones((1, 2))}, {"b": [3], "a": np.ones((1, 1))})):
        table.add([{"file": "a.npy", "row": row}], INPUTS[:1], columns)
    (file,) = table.write(tmp_path / "a")
    assert [[*row.values()][2:] for row in read_csv(file)] == [
        ["", "", ""], ["1", "1", ""], ["1", "", "3"]]  # fmt: skip


@pytest.mark.parametrize("text", ["x" * 200_000, 'a\rb\nc,"d"', "a\0b"])
def test_any_text_stays_in_its_cell_where_later_batches_have_more_columns(
    text: str, tmp_path: Path
) -> None:
    table = PredictionTable()
    for row, columns in enumerate(({"a": [text]}, {"a": [text], "b": [3]}, {"b": [4]})):
        table.add([{"file": "a.npy", "row": row}], INPUTS[:1], columns)
    (file,) = table.write(tmp_path / "a")
    csv.field_size_limit(10**6)
    content = file.read_bytes().decode().replace("\0", "0")  # which Python 3.10 can't read
    rows = list(csv.reader(io.StringIO(content, newline="")))
    cell = text.replace("\0", "0")
    assert [row[2:] for row in rows] == [["a", "b"], [cell, ""], [cell, "3"], ["", "4"]]


def test_outputs_of_several_shapes_are_a_sentence(tmp_path: Path) -> None:
    x = keras.Input((None, 1))
    for i, length in enumerate((4, 6)):
        np.save(tmp_path / f"{i}.npy", np.zeros((2, length, 1), "float32"))
    folder = tmp_path
    sentence = r"shape \(6, 1\) for an input of 1.npy, and \(4, 1\) for those before; predict"
    with pytest.raises(UsageError, match=sentence):
        list(predict_files(keras.Model(x, x * 2), [folder], tmp_path / "out", batch_size=2))


@pytest.mark.parametrize("name", ["file", "row"])
def test_a_column_that_would_hide_where_an_input_stood_is_refused(name: str) -> None:
    places = [{"file": "a.npy", "row": 0}]
    sentence = rf"^describe in task/predictions\.py gives '{name}', which the table has already;"
    with pytest.raises(UsageError, match=sentence):
        PredictionTable().add(places, INPUTS[:1], {name: np.zeros(1)})


def starter(name: str, path: Path) -> Any:
    """A starter's task/predictions.py; its package has the starter's name."""
    answers = {"starter": name, "package_name": f"its_{name}", "project_name": name}
    cookiecutter(
        str(ROOT), no_input=True, output_dir=path, extra_context=answers, default_config=True
    )
    (project,) = path.iterdir()
    sys.path.insert(0, str(project))
    return importlib.import_module(f"its_{name}.task.predictions")


@pytest.mark.full
def test_a_language_model_completes_the_lines_of_a_text_file(tmp_path: Path) -> None:
    task = starter("language_model", tmp_path)
    length, answer = 30, "1979-05-03\n"
    tokens = keras.Input((length,), dtype="int32")
    # Writes `answer` after any prompt: the next character follows from the number since ">".
    after = keras.ops.cumsum(keras.ops.cast(keras.ops.equal(tokens, ord(">")), "int32"), axis=1)
    place = keras.ops.clip(keras.ops.cumsum(after, axis=1) - 1, 0, len(answer) - 1)
    codes = keras.ops.take(np.array([ord(c) for c in answer]), place)
    model = keras.Model(tokens, keras.ops.one_hot(codes, 128))
    (tmp_path / "prompts.txt").write_text("3 May 1979\n5/3/79\n")
    options = {"readers": task.READERS, "describe": task.describe}
    _, table = predict_files(model, [tmp_path / "prompts.txt"], tmp_path / "out", **options)
    assert [(row["prompt"], row["answer"]) for row in read_csv(table)] == [
        ("3 May 1979", "1979-05-03"), ("5/3/79", "1979-05-03"),
    ]  # fmt: skip
    for line in ("x" * (length - 10), "3 März 1979"):
        (tmp_path / "prompts.txt").write_text(f"3 May 1979\n{line}\n", encoding="utf-8")
        with pytest.raises(task.UsageError, match=r"txt:2 isn't an ASCII line of at most 19 cha"):
            task.read_prompts(tmp_path / "prompts.txt", model)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_a_gray_picture_of_any_depth_is_read_as_shares_of_white(dtype: str, tmp_path: Path) -> None:
    gray = np.linspace(0, 1, 64, dtype="float32").reshape(8, 8, 1)
    levels = (gray * np.iinfo(dtype).max).astype(dtype)
    (tmp_path / "a.png").write_bytes(tf.io.encode_png(levels).numpy())
    read = predictions.read_image(tmp_path / "a.png", digits_model())
    np.testing.assert_allclose(read[0], gray, atol=1 / 255)


@pytest.mark.full
def test_a_mask_is_shown_beside_its_picture(tmp_path: Path) -> None:
    task = starter("segmentation", tmp_path)
    images = keras.Input((8, 8, 1), dtype="float32")
    ink = keras.ops.cast(images[..., 0] > 0.5, "int32")
    model = keras.Model(images, keras.ops.one_hot(4 * ink, task.CLASSES))
    draw(tmp_path / "a.png", 3)
    _, table, page = predict_files(
        model, [tmp_path / "a.png"], tmp_path / "out", readers=task.READERS, describe=task.describe
    )
    (row,) = read_csv(table)
    assert (row["pixels/0"], row["pixels/4"], row["pixels/1"]) == ("56", "8", "0")
    assert len(Page(page).images) == 2
