"""What each starter's pictures compute, and that they are drawn of whatever is there."""

from __future__ import annotations

import datetime
import importlib
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from conftest import STARTERS, Render
from matplotlib.figure import Figure
from proof.engine.pictures import PART, draw_images, predict_in_parts

from .colors import closest_in_gray, closest_without_green

Load = Callable[[str, str], ModuleType]  # starter, module


@pytest.fixture(scope="module")
def load(render: Render) -> Load:
    """Import a module of a starter; each is a package of its own."""

    @cache
    def package(starter: str) -> str:
        name = f"drawn_{starter}"
        project = render(starter=starter, package_name=name)  # which gives back the old sys.path
        sys.path.insert(0, str(project))
        return name

    return lambda starter, module: importlib.import_module(f"{package(starter)}.{module}")


def test_the_confusion_matrix_and_the_order_of_mistakes(load: Load) -> None:
    pictures = load("image_classification", "task.pictures")
    draw = np.random.default_rng(0)
    labels, predicted = draw.integers(4, size=(2, 50))
    confidence = draw.permutation(50) / 50
    counts = pictures.confusion(labels, predicted, 5)
    for label, other in np.ndindex(5, 5):
        assert counts[label, other] == sum((labels == label) & (predicted == other))
    is_right = labels == predicted
    order = pictures.order_of_interest(confidence, is_right).tolist()
    wrong = sorted(np.flatnonzero(~is_right), key=lambda i: -confidence[i])
    assert order == wrong + sorted(np.flatnonzero(is_right), key=lambda i: confidence[i])


def test_mistakes_and_iou_leave_ignored_pixels_out(load: Load) -> None:
    pictures, data = (load("segmentation", f"task.{name}") for name in ("pictures", "data"))
    draw = np.random.default_rng(0)
    labels = draw.choice([0, 1, 2, 9, data.IGNORED], size=(3, 4, 5))
    predicted = draw.choice([0, 1, 3, 9], size=(3, 4, 5))
    kinds = pictures.mistakes(labels, predicted)
    for place in np.ndindex(kinds.shape):
        label, other = labels[place], predicted[place]
        name = "missed" if other == 0 else "invented" if label == 0 else "another digit"
        is_right = label in (other, data.IGNORED)
        assert kinds[place] == (0 if is_right else 1 + list(pictures.MISTAKES).index(name))
    scores = pictures.iou_per_class(labels, predicted)
    counted = labels != data.IGNORED
    for label in range(data.CLASSES):
        in_both = counted & (labels == label) & (predicted == label)
        in_one = counted & ((labels == label) | (predicted == label))
        if in_one.any():
            assert scores[label] == pytest.approx(in_both.sum() / in_one.sum())
        else:
            assert np.isnan(scores[label])


@pytest.mark.quick
def test_classes_stay_apart_in_gray_and_for_the_color_blind(load: Load) -> None:
    pictures = load("segmentation", "task.pictures")
    areas = [pictures.BACKGROUND, pictures.OUTSIDE, *pictures.DIGITS]
    assert closest_in_gray(*areas) >= 7.5
    assert closest_without_green(*areas) >= 9
    mistakes = [pictures.BACKGROUND, pictures.OUTSIDE, *pictures.MISTAKES.values()]
    assert closest_in_gray(*mistakes) >= 9
    assert closest_without_green(*mistakes) >= 9


def test_wrong_characters_and_forms_of_dates_are_told_apart(load: Load) -> None:
    pictures, data = (load("language_model", f"task.{name}") for name in ("pictures", "data"))
    assert pictures.marked("1979-05-03", "1979-05-03") == ("1979-05-03", " " * 10)
    assert pictures.marked("1970-15-03", "1979-05-03") == ("197 - 5-03", "   0 1    ")
    assert pictures.marked("197", "1979") == ("197 ", "   _")
    assert pictures.marked("19790", "1979") == ("1979 ", "    0")
    source, lines, wanted = random.Random(0), [], {}
    for i in range(400):
        date = data.FIRST_DAY + datetime.timedelta(source.randrange(data.DAYS))
        form = source.choice(data.FORMS)
        prompt, _, solution = data._line(date, form, source).strip().partition(">")
        lines.append((prompt, solution, solution if i % 3 else "2000"))
        right, number = wanted.get(form, (0, 0))
        wanted[form] = right + bool(i % 3), number + 1
    assert pictures.accuracy_by_form(lines) == wanted
    assert pictures.accuracy_by_form([("in May", "1979-05-03", "1979-05-03")]) == {"?": (1, 1)}


def test_attention_is_that_of_queries_and_keys(load: Load) -> None:
    module = load("language_model", "task.model")
    task = load("language_model", "task.config").TaskConfig(layers=1, width=8, heads=2)
    model = module.create_model(task, {"length": np.array(6)})
    tokens = np.array([[50, 49, 62, 49, 0, 0]], "int32")
    (layer,) = [x for x in model.layers if isinstance(x, keras.layers.MultiHeadAttention)]
    inputs = keras.Model(model.input, layer.input)(tokens)[0][0].numpy()  # (T, width)
    query, query_bias, key, key_bias = map(np.asarray, layer.get_weights()[:4])
    queries = np.einsum("tw,whs->hts", inputs, query) + query_bias[:, np.newaxis]
    keys = np.einsum("tw,whs->hts", inputs, key) + key_bias[:, np.newaxis]
    products = np.exp(np.einsum("hts,hus->htu", queries, keys) / 2) * np.tril(np.ones((6, 6)))
    weights = (products / products.sum(axis=-1, keepdims=True)).max(axis=0)
    np.testing.assert_allclose(module.attention(model, tokens), weights, atol=1e-6)
    assert module.attention(keras.Sequential([keras.Input((6,))]), tokens) is None


def test_classes_of_real_digits_are_found_and_early_epochs_are_shown(load: Load) -> None:
    pictures, data = (load("gan", f"task.{name}") for name in ("pictures", "data"))
    images, labels = data.load_digits("test")
    shares = pictures.class_shares(images[labels == 7])
    assert shares.sum() == pytest.approx(1)
    assert shares.argmax() == 7
    assert [pictures.shown_epochs(n) for n in (1, 2, 4)] == [[0], [0, 1], [0, 1, 2, 3]]
    shown = pictures.shown_epochs(1_000)
    assert (shown[0], shown[-1], len(shown)) == (0, 999, pictures.EPOCHS)


def test_the_importance_of_a_column_is_what_its_shuffling_costs(load: Load) -> None:
    pictures, data = (load("tabular_regression", f"task.{n}") for n in ("pictures", "data"))
    draw = np.random.default_rng(0)
    columns = data.NUMERIC
    inputs = {"numeric": draw.normal(size=(30, len(columns))), "sex": draw.integers(1, 3, 30)}

    def predict(inputs: dict[str, np.ndarray]) -> np.ndarray:
        return 3 * inputs["numeric"][:, 2] + inputs["sex"]

    labels = predict(inputs) + draw.normal(size=30)
    before = {name: values.copy() for name, values in inputs.items()}
    found = pictures.permutation_importance(predict, inputs, labels)
    assert list(found) == [*columns, "sex"]
    assert set(found) == set(data.MEANINGS)
    error = np.abs(predict(inputs) - labels).mean()
    shuffle = np.random.default_rng(0)
    for i in range(pictures.PERMUTATIONS):
        order = shuffle.permutation(30)
        moved = {**inputs, "numeric": inputs["numeric"].copy()}
        moved["numeric"][:, 2] = inputs["numeric"][order, 2]
        wanted = np.abs(predict(moved) - labels).mean() - error
        assert found[columns[2]][i] == pytest.approx(wanted)
        wanted = np.abs(predict({**inputs, "sex": inputs["sex"][order]}) - labels).mean() - error
        assert found["sex"][i] == pytest.approx(wanted)
    assert all(not found[name].any() for name in columns if name != columns[2])
    assert all(np.array_equal(inputs[name], before[name]) for name in inputs)


@pytest.mark.quick
def test_predictions_in_parts_are_those_of_all_at_once() -> None:
    one, two = keras.Input((3,), name="one"), keras.Input((3,), name="two")
    model = keras.Model({"one": one, "two": two}, {"sum": one + two, "more": [2 * one]})
    draw = np.random.default_rng(0)
    for number in (1, PART, 2 * PART + 1):
        inputs = {name: draw.normal(size=(number, 3)) for name in ("one", "two")}
        outputs = predict_in_parts(model, inputs)
        np.testing.assert_allclose(outputs["sum"], inputs["one"] + inputs["two"])
        np.testing.assert_allclose(outputs["more"][0], 2 * inputs["one"])


@pytest.mark.quick
@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1), (5, 4, 3)])
def test_images_stand_in_rows_above_their_captions(shape: tuple[int, ...]) -> None:
    for number in (0, 1, 3, 4, 7):
        axes = Figure().subplots()
        images = np.random.default_rng(0).random((number, *shape))
        draw_images(axes, images, 3, [f"<{i}>" for i in range(number)], vmin=0, vmax=1)
        (picture,) = axes.images
        drawn = np.ma.filled(picture.get_array(), np.nan)
        assert [text.get_text() for text in axes.texts] == [f"<{i}>" for i in range(number)]
        for image, text in zip(images, axes.texts, strict=True):
            x, y = text.get_position()  # in the middle of its lower edge
            left, bottom = round(x + 0.5 - 2), round(y)
            cell = drawn[bottom - 5 : bottom, left : left + 4]
            np.testing.assert_array_equal(cell, image[..., 0] if shape[-1] == 1 else image)


@pytest.mark.parametrize("starter", [name for name in STARTERS if name != "blank"])
def test_pictures_are_drawn_of_one_example_of_streams_and_of_nan(
    starter: str, load: Load, tmp_path: Path
) -> None:
    task = load(starter, "task.config").TaskConfig()
    datasets = load(starter, "task.data").create_datasets(task)
    model, pictures = load(starter, "task.model"), load(starter, "task.pictures")
    adapted = load(starter, "engine.adapted").as_arrays(model.adapt(task, datasets))
    run = load(starter, "run").open_run(load(starter, "config").Config(), task, adapted)

    def draw(datasets: dict[str, Any], run: Any = run) -> None:
        for name, function in (
            ("samples", pictures.draw_samples), ("predictions", pictures.draw_predictions)
        ):  # fmt: skip
            file = tmp_path / f"{name}.png"
            function(run, datasets, file)
            assert file.read_bytes().startswith(b"\x89PNG")
            file.unlink()

    draw({name: tf.nest.map_structure(lambda a: a[:1], s) for name, s in datasets.items()})
    streams = {name: tf.data.Dataset.from_tensor_slices(s) for name, s in datasets.items()}
    plain = {field: 0 for field in ("shift", "warp") if hasattr(task, field)}  # no augmentation
    five = {name: stream.take(5) for name, stream in streams.items()}
    draw(five, replace(run, task=replace(task, **plain)))
    for variable in [v for each in run.models.values() for v in each.trainable_variables]:
        variable.assign(np.nan * variable)
    draw({name: tf.nest.map_structure(lambda a: a[:9], s) for name, s in datasets.items()})


@pytest.mark.parametrize("starter", ["image_classification", "segmentation"])
def test_samples_are_augmented_in_the_precision_of_training(
    starter: str, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, pictures = load(starter, "task.config").TaskConfig(), load(starter, "task.pictures")
    images, labels = load(starter, "task.data").create_datasets(task)["train"]
    seen = list[str]()

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        seen.extend(part.dtype.name for part in batch)
        return batch

    monkeypatch.setattr(pictures, "create_augment", lambda task: augment)
    splits = {"train": (images[:9].astype("float32"), labels[:9], np.ones(9, "float32"))}
    pictures.draw_samples(SimpleNamespace(task=task), splits, tmp_path / "samples.png")
    assert seen[:3] == [keras.config.floatx(), labels.dtype.name, keras.config.floatx()]


def test_the_progress_of_a_gan_is_that_of_the_pictures_after_its_epochs(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = load("gan", "task.pictures")
    axes = Figure().subplots()
    pictures._draw_progress(axes, tmp_path)  # shorter than an epoch
    assert not axes.images
    monkeypatch.setattr(pictures, "EPOCHS", 3)
    shades = {}
    for epoch in range(1, 10):
        shades[epoch] = epoch / 10
        images = np.full((pictures.ROWS * pictures.COLUMNS, 8, 8, 1), shades[epoch])
        pictures._save(images, tmp_path / f"epoch-{epoch:03}.png")
    axes = Figure().subplots()
    pictures._draw_progress(axes, tmp_path)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "3", "9"]
    rows = np.split(np.asarray(axes.images[0].get_array())[..., 0], 3)
    middle = [1 - row[5 * pictures.SCALE, 5 * pictures.SCALE] for row in rows]
    assert [round(float(m), 1) for m in middle] == [0.1, 0.3, 0.9]
    (tmp_path / "epoch-002.png").rename(tmp_path / "epoch-1000.png")
    axes = Figure().subplots()
    pictures._draw_progress(axes, tmp_path)
    assert [label.get_text() for label in axes.get_yticklabels()][-1] == "1000"
