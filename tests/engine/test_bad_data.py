"""Data that can't be read ends a run with one sentence that names the example."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine import data_errors, link
from proof.engine.batches import BatchLayout, TrainingBatches, first_examples
from proof.engine.data_errors import DataError, reading_errors
from proof.engine.errors import UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.random_access import RandomAccess
from proof.engine.types import Replica, Run

from .test_loop import loop
from .toys import (
    BATCH,
    CLASSES,
    FEATURES,
    Toy,
    build,
    compute_loss,
    plain_data,
    plain_model,
    predict_split,
    step_of_task,
)

ROWS, BAD = 4 * BATCH, 3 * BATCH + 5
BAD_ROW = "1,x,1,1,1,0"


def lines(bad: str = BAD_ROW, first: int = BAD) -> list[str]:
    """Rows of five inputs and a label, all of them bad from `first` on."""
    inputs, labels = plain_data(ROWS)
    rows = [",".join(map(str, [*row, label])) for row, label in zip(inputs, labels, strict=True)]
    return rows[:first] + [bad] * (ROWS - first)


@pytest.mark.quick
def test_the_first_examples_are_those_that_can_be_read() -> None:
    class Rows:
        def __init__(self, bad: int) -> None:
            self.bad = bad

        def __len__(self) -> int:
            return 5

        def __getitem__(self, row: int) -> np.ndarray:
            if row < self.bad:
                raise OSError("broken file")
            return np.full(2, row, "float32")

    np.testing.assert_array_equal(first_examples(Rows(2), 4)[:, 0], [2, 3])
    with pytest.raises(DataError, match=r"Example 0 .* broken file"):
        first_examples(Rows(5), 4)


def sized(stream: tf.data.Dataset) -> tf.data.Dataset:
    return stream.apply(tf.data.experimental.assert_cardinality(ROWS))


def parse(line: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    *inputs, label = tf.io.decode_csv(line, [0.0] * FEATURES + [0])
    return tf.stack(inputs), label


def text(file: str | list[str], parallel: int | None = None) -> tf.data.Dataset:
    return tf.data.TextLineDataset(file).map(parse, num_parallel_calls=parallel)


def decode(line: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_number(tf.strings.split(line, ","))


def rows() -> Iterator[np.ndarray]:
    for row in lines():
        yield np.array([float(value) for value in row.split(",")], "float32")


def records(directory: Path) -> str:
    file = directory / "rows.tfrecord"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for _ in range(ROWS):
            writer.write(b"12345678")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // ROWS * BAD + 14] ^= 1
    file.write_bytes(damaged)
    return str(file)


def pictures(directory: Path) -> list[str]:
    picture = tf.io.encode_png(tf.zeros((2, 2, 3), tf.uint8)).numpy()
    files = [directory / f"{number:03}.png" for number in range(ROWS)]
    for file in files:
        file.write_bytes(picture[:20] if file is files[BAD] else picture)
    return list(map(str, files))


def read_picture(file: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_png(tf.io.read_file(file))


CSV = tf.data.experimental.CsvDataset
NUMBER = r"Field 1 in record\b.* is not a valid float: x"
STREAMS: dict[str, tuple[Callable[[Path, str], tf.data.Dataset], str]] = {
    "decode_csv": (
        lambda _, csv: text(csv, 4),
        rf"Example {BAD} .* can't be read: {NUMBER} \('{BAD_ROW}', in rows.csv\)",
    ),
    "two files": (
        lambda _, csv: text([csv, csv]).take(ROWS),
        rf"Example {BAD} .* {NUMBER} \('{BAD_ROW}', in rows.csv or rows.csv\)",
    ),
    "CsvDataset": (
        lambda _, csv: CSV(csv, [tf.float32] * 6).map(lambda *row: tf.stack(row)),
        rf"Example {BAD} .* {NUMBER} \(rows.csv\)",
    ),
    "make_csv_dataset": (
        lambda _, csv: tf.data.experimental.make_csv_dataset(
            csv, 7, list("abcdef"), [0.0] * 6, header=False, num_epochs=1, shuffle=False
        ).unbatch(),
        rf"Example {BAD // 7 * 7} or one batched with it .* {NUMBER} \(rows.csv\)",
    ),
    "shape": (
        lambda _, csv: tf.data.TextLineDataset(csv.replace("rows", "short")).map(decode),
        rf"Example {BAD} .* has the shape \(2,\), and those before it have \(6,\) "
        r"\('1,2', in short.csv\)",
    ),
    "picture": (
        lambda directory, _: (
            tf.data.Dataset.from_tensor_slices(pictures(directory))
            .map(read_picture, num_parallel_calls=4)
            .cache()
        ),
        rf"Example {BAD} .* Invalid PNG.* \('.*/{BAD:03}.png'\)",
    ),
    "shuffled": (
        lambda directory, _: (
            tf.data.Dataset.from_tensor_slices(pictures(directory)).shuffle(ROWS).map(read_picture)
        ),
        "An example of the training data can't be read: Invalid PNG.*",
    ),
    "generator": (
        lambda *_: tf.data.Dataset.from_generator(
            rows, output_signature=tf.TensorSpec((6,), tf.float32)
        ),
        rf"Example {BAD} .* ValueError: could not convert string to float: 'x'",
    ),
    "record": (
        lambda directory, _: tf.data.TFRecordDataset(records(directory)),
        rf"Example {BAD} .* corrupted record at \d+ \(.*rows.tfrecord\)",
    ),
    "no file": (
        lambda *_: tf.data.TextLineDataset("none.csv").map(parse),
        r"Example 0 .* none.csv; No such file or directory \(none.csv\)",
    ),
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("\n".join(lines()))
    Path("short.csv").write_text("\n".join(lines("1,2")))
    Path("late.csv").write_text("\n".join(lines(first=ROWS - 1)))


@pytest.mark.quick
@pytest.mark.parametrize(("stream", "sentence"), STREAMS.values(), ids=STREAMS)
def test_an_example_that_cannot_be_read_is_named(
    stream: Callable[[Path, str], tf.data.Dataset], sentence: str, tmp_path: Path
) -> None:
    data = sized(stream(tmp_path, "rows.csv"))
    with pytest.raises(DataError) as found, reading_errors({"test": None, "train": data}):
        list(data.batch(BATCH).prefetch(2))
    assert re.fullmatch(rf"{sentence}\.", str(found.value)), found.value


@pytest.mark.quick
def test_what_fails_in_a_batch_only_is_not_blamed_on_an_example() -> None:
    stream = sized(tf.data.Dataset.range(ROWS))
    too_large = stream.batch(BATCH).map(lambda batch: tf.reshape(batch, (1, 2)))
    sentence = rf"A batch can't be made: .*\(the first {ROWS} of the test data\); .*create_augment"
    with pytest.raises(DataError, match=sentence), reading_errors({"test": stream}):
        list(too_large)


@pytest.mark.quick
def test_the_shard_of_a_worker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))

    def split(workers: int, index: int) -> tf.data.Dataset:
        return sized(text(("late.csv", "rows.csv")[index]))

    sentence = rf"Example {BAD} .* of the training data of worker 1 can't be read"
    with pytest.raises(DataError, match=sentence), reading_errors({"train": split}):
        list(split(2, 1))


@pytest.mark.quick
def test_augmentation_that_fails_is_named() -> None:
    def augment(batch: Any, seed: tf.Tensor) -> Any:
        return tf.reshape(batch[0], (tf.shape(batch[0])[0], FEATURES)), tf.gather([1, 2], batch[1])

    inputs, labels = plain_data(ROWS)
    batches = TrainingBatches((inputs, labels), BatchLayout(BATCH, 1, 0, 1), augment=augment)
    sentence = (
        r"A batch can't be made: indices\[.*\] = 2 is not in \[0, 2\); look at create_augment"
    )
    with pytest.raises(DataError, match=sentence), reading_errors({"train": (inputs, labels)}):
        list(batches.dataset(0, 9))


@pytest.mark.quick
@pytest.mark.parametrize(("search", "hang"), [(0.0, 60.0), (30.0, 0.0)])
def test_the_search_is_bounded_in_time(
    monkeypatch: pytest.MonkeyPatch, search: float, hang: float
) -> None:
    monkeypatch.setattr(data_errors, "SEARCH_SECS", search)
    monkeypatch.setattr(link, "current", SimpleNamespace(hang_timeout=hang))
    stream = sized(text("rows.csv"))
    sentence = r"A batch .* wasn't found within 0 seconds, among the first 1 of the training data\."
    with pytest.raises(DataError, match=sentence), reading_errors({"train": stream}):
        list(stream)
    rows = RandomAccess(np.arange(3), load=lambda row: row)
    sentence = r"wasn't found .*, among 0 of the test data; --max-bad-examples 1 leaves it out"
    with pytest.raises(DataError, match=sentence), reading_errors({"test": rows}):
        list(stream)


@pytest.mark.quick
def test_a_mistake_in_a_model_is_not_blamed_on_the_data() -> None:
    stream = sized(tf.data.Dataset.range(ROWS))
    with pytest.raises(tf.errors.InvalidArgumentError), reading_errors({"train": stream}):
        tf.reshape(next(iter(stream)), (2, 2))


@pytest.mark.quick
def test_inputs_in_a_dict_are_compared_with_those_of_their_name() -> None:
    def model() -> keras.Model:
        number = keras.Input((1,), name="b_number")
        code = keras.Input((1,), name="a_code", dtype="int32")
        both = [keras.layers.Embedding(9, 3)(code)[:, 0], keras.layers.Dense(3)(number)]
        return keras.Model([number, code], keras.layers.add(both))

    numbers, codes = np.ones((BATCH, 1)), np.ones((BATCH, 1), int)
    inputs = {"a_code": codes, "b_number": numbers}
    right = Toy(model, data=(inputs, np.zeros(BATCH, int)))
    element = build(right).batches.dataset(0, 1).element_spec
    with data_errors.data_errors("train", build(right).run, element):
        pass
    wrong = replace(right, data=(inputs | {"a_code": numbers}, np.zeros(BATCH, int)))
    element = build(wrong).batches.dataset(0, 1).element_spec
    sentence = r"a_code is float\d+ \(1,\), and the model takes int32"
    with (
        pytest.raises(DataError, match=sentence),
        data_errors.data_errors("train", build(wrong).run, element),
    ):
        pass


@pytest.mark.quick
@pytest.mark.parametrize("names", [("tokens", "times"), ("a", "z"), ("codes", "numbers")])
def test_a_step_may_hand_over_a_dict_in_an_order_of_its_own(names: tuple[str, str]) -> None:
    def model() -> keras.Model:
        codes, numbers = keras.Input((1,), name="x", dtype="int32"), keras.Input((1,), name="y")
        both = [keras.layers.Embedding(9, 3)(codes)[:, 0], keras.layers.Dense(3)(numbers)]
        return keras.Model([codes, numbers], keras.layers.add(both))

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        loss = run.losses["main"](labels, run.model([inputs[name] for name in names]))
        return {"main": compute_loss(loss, weights, run.model, replica)}

    inputs = dict(zip(names, (np.ones((BATCH, 1), int), np.ones((BATCH, 1))), strict=True))
    toy = Toy(model, data=(inputs, np.zeros(BATCH, int)), train_steps=(step,), metrics=dict)
    built = build(toy)
    iterator = built.iterator(0, 1)
    with data_errors.data_errors("train", built.run, iterator.element_spec):
        built.steps.distributed_train_step(iterator, 1, built.steps.start())


@pytest.mark.quick
def test_a_step_may_look_up_texts() -> None:
    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        texts, labels, weights = batch
        codes = tf.strings.to_hash_bucket_fast(texts, 9)
        loss = run.losses["main"](labels, run.model(codes))
        return {"main": compute_loss(loss, weights, run.model, replica)}

    def model() -> keras.Model:
        codes = keras.Input((2,), dtype="int32", name="codes")
        x = keras.layers.Flatten()(keras.layers.Embedding(9, 2)(codes))
        return keras.Model(codes, keras.layers.Dense(3)(x))

    texts = np.full((BATCH, 2), "a")
    toy = Toy(model, data=(texts, np.zeros(BATCH, int)), train_steps=(step,))
    built = build(toy)
    element = built.batches.dataset(0, 1).element_spec
    with data_errors.data_errors("train", built.run, element):
        built.steps.distributed_train_step(built.iterator(0, 1), 1, built.steps.start())


def takes(data: Any, lines: str = "pass", **parts: Any) -> Toy:
    """A task whose step, in task/steps.py, is given this data."""
    return Toy(data=data, train_steps=(step_of_task(lines),), **parts)


def first_step(toy: Toy, **flags: Any) -> str:
    """What the first train step says of its data, with exit code 2."""
    built = build(toy, **flags)
    iterator = built.iterator(0, 1)
    with (
        pytest.raises(UsageError) as found,
        data_errors.data_errors("train", built.run, iterator.element_spec),
    ):
        built.steps.distributed_train_step(iterator, 1, built.steps.start())
    return str(found.value)


INPUTS, LABELS = plain_data()
ONE_HOT = np.eye(CLASSES)[LABELS]
STEP, DATA = "proof/task/steps.py", r"in the training data inputs are"
FITS_NOT: dict[str, tuple[Any, str]] = {
    "one-hot": (
        (INPUTS, ONE_HOT),
        rf"{STEP}:6: .*shape.*; {DATA} float64 \(5,\), labels are float64 \(3,\), weights are "
        r"float64 \(\), and the model's output is float64 \(3,\): labels have a number for each "
        r"class, as one-hot .* np.argmax",
    ),
    "two labels": (
        (INPUTS, ONE_HOT[:, :2]),
        rf"{STEP}:6: .*; {DATA} .* labels are float64 \(2,\), .*: look at that line, and at what "
        r"create_datasets in task/data\.py returns",
    ),
    "texts": (
        (INPUTS, np.array(["a", "b", "c"])[LABELS]),
        rf"{STEP}:8: Cast string to .*; .* labels are string \(\), .*: make numbers of texts, ",
    ),
    "other width": (
        (INPUTS[:, :4], LABELS),
        r"The training data doesn't fit the model: the inputs are float64 \(4,\), and the model "
        r"takes float64 \(5,\)\.$",
    ),
    "other names": (
        ({"feats": INPUTS}, LABELS),
        rf"{STEP}:4: Missing data for input \"x\"\. .* keys \['feats'\].* keys: \['x'\]; "
        rf"{DATA} {{feats: float64 \(5,\)}}, ",
    ),
    "no labels": (
        (INPUTS,),
        rf"{STEP}:3: not enough values to unpack \(expected 3, got 2\); {DATA} float64 \(5,\), "
        r"weights .*: a batch has 2 parts, as create_datasets in task/data.py returns them\.$",
    ),
    "inputs and labels in a dict": (
        {"x": INPUTS, "y": LABELS},
        rf"{STEP}:3: .* {DATA} {{x: float64 \(5,\), y: int64 \(\)}}, .*: a batch has 2 parts, .* "
        r"where a dict is the inputs by name: inputs and labels are a tuple, \(x, y\)",
    ),
    "weights (rows, 1)": (
        (INPUTS, LABELS, np.ones((len(LABELS), 1))),
        r"The loss has shape \(24,\) and its weights \(24, 1\): .* give each example one weight\.",
    ),
    "weights in a dict": (
        (INPUTS, LABELS, {"a": np.ones(len(LABELS))}),
        r"proof/task/losses.py:\d+: .*; .* weights are {a: float64 \(\)}, ",
    ),
}


def named_model() -> keras.Model:
    """One input that is called x."""
    inputs = keras.Input((FEATURES,), name="x")
    return keras.Model({"x": inputs}, keras.layers.Dense(CLASSES)(inputs))


def sequential_model() -> keras.Model:
    """`plain_model` without a hidden layer."""
    return keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(CLASSES)])


@pytest.mark.quick
@pytest.mark.parametrize(("data", "sentence"), FITS_NOT.values(), ids=FITS_NOT)
def test_data_that_a_step_cannot_take(data: Any, sentence: str) -> None:
    models = [named_model] if "Missing" in sentence else [plain_model, sequential_model]
    for model in models:
        found = first_step(takes(data, model=model))
        assert re.match(sentence, found), found
        assert ("one-hot" in found) == ("one-hot" in sentence)


@pytest.mark.quick
def test_evaluation_says_what_a_step_cannot_take() -> None:
    toy = takes((INPUTS, LABELS), others={"validation": (INPUTS,)})
    built = build(toy)
    evaluation = Evaluation(built.run, toy.splits, built.steps.layout)
    sentence = rf"^{STEP}:3: .* got 2\); in the validation data inputs are float64 \(5,\), weights"
    with pytest.raises(DataError, match=sentence):
        evaluation.evaluate("validation")


@pytest.mark.quick
@pytest.mark.parametrize("is_batched", [True, False])
def test_batches_of_one_size_are_named(is_batched: bool) -> None:
    stream = tf.data.Dataset.from_tensor_slices((INPUTS, LABELS))
    if is_batched:
        stream = stream.batch(8, drop_remainder=True)
    else:
        stream = stream.map(lambda x, y: (tf.stack([x] * 8), tf.stack([y] * 8)))
    toy = takes(
        (INPUTS, LABELS),
        model=lambda: {"main": plain_model(), "other": plain_model()},
        others={"validation": stream},
    )
    built = build(toy)
    with pytest.raises(DataError) as found:
        Evaluation(built.run, toy.splits, built.steps.layout).evaluate("validation")
    named = "all parts begin with an axis of 8, as batch(8, drop_remainder=True) gives them"
    assert (named in str(found.value)) == is_batched, found.value


@pytest.mark.quick
def test_an_output_in_half_precision_is_named() -> None:
    def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return tf.gather(predictions, labels, batch_dims=1)

    toy = takes((INPUTS, LABELS), losses=lambda: {"main": loss})
    found = first_step(toy, precision="bfloat16")
    assert re.match(r"proof/task/losses.py:\d+: .*bfloat16", found), found
    assert "give the model's last layer dtype=keras.config.floatx()" in found


@pytest.mark.quick
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("tf.where(predictions > 0, tf.constant(-1.0), predictions)", "cast what that line makes"),
        ("keras.layers.RandomRotation(0.1)(inputs[:, None, :, None], training=True)",
         "RandomRotation can't compute in"),
        ("len((tf.compat.v1.placeholder_with_default(inputs, [None] * 2) == inputs).shape)",
         "or tf.ensure_shape"),
        ("tf.math.in_top_k(labels, predictions, 2)", 'or give a metric dtype="float32"'),
        *[
            (line, "that line combines integers with floats: use tf.cast")
            for line in (
                "tf.where(predictions > 0, 0, predictions)",
                "predictions - labels[:, None]",
                "labels - 1.5",
                "tf.stack([labels, predictions[:, 0]])",
                "tf.math.log(labels)",
                "tf.reduce_sum(predictions) / tf.size(labels)",
                "keras.ops.ones((3,), 'bfloat16') * tf.range(3)",
            )
        ],
    ],
)  # fmt: skip
def test_what_a_line_of_a_step_makes_is_not_blamed_on_the_data(line: str, sentence: str) -> None:
    found = first_step(takes((INPUTS, LABELS), line))
    assert found.startswith(f"{STEP}:5: "), found
    assert sentence in found
    assert "create_datasets" not in found


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:Even though the `tf.config:UserWarning")
@pytest.mark.parametrize(
    "line",
    [
        "run.model.predict(inputs)",
        "run.model.fit(inputs, labels)",
        "run.model.compile('sgd', 'mse') or run.model.evaluate(inputs, labels)",
        "keras.layers.Dense(3)(inputs)",
    ],
)
def test_what_a_step_leaves_to_keras(line: str) -> None:
    found = first_step(takes((INPUTS, LABELS), line))
    assert found.startswith(f"{STEP}:5: ") or "Dense" in line, found
    assert "a step makes no layer, and calls no fit, evaluate or predict" in found


@pytest.mark.quick
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("run.metrics['acc']", "'acc': create_metrics in task/metrics.py returned 'accuracy'; "),
        ("run.losses['l1']", "'l1': create_losses in task/losses.py returned 'main'; "),
        ("run.models['encoder']", "'encoder': create_model in task/model.py returned 'main'; "),
    ],
)
def test_a_name_that_no_factory_returned(line: str, sentence: str) -> None:
    found = first_step(takes((INPUTS, LABELS), line))
    assert found.startswith(f"{STEP}:5: there is no {sentence}"), found


@pytest.mark.quick
@pytest.mark.parametrize(
    ("line", "kind"),
    [("raise ValueError('its shape is unknown')", ValueError), ("{}['loss']", KeyError)],
)
def test_what_a_step_itself_raises_stays_as_it_is(line: str, kind: type[Exception]) -> None:
    built = build(takes((INPUTS, LABELS), line))
    iterator = built.iterator(0, 1)
    with (
        pytest.raises(kind),
        data_errors.data_errors("train", built.run, iterator.element_spec),
    ):
        built.steps.distributed_train_step(iterator, 1, built.steps.start())


@pytest.mark.quick
def test_outputs_of_a_model_that_are_no_tensors() -> None:
    class Heads(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.outputs = [keras.layers.Dense(CLASSES)]
            self(np.zeros((1, FEATURES)))

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return self.outputs[0](x)

    found = first_step(takes((INPUTS, ONE_HOT), model=Heads))
    assert found.startswith(f"{STEP}:6: ")


@pytest.mark.quick
def test_the_only_model_of_several_cannot_be_asked_for() -> None:
    models = {"main": plain_model, "other": plain_model}
    toy = takes(
        (INPUTS, LABELS), "run.model", model=lambda: {n: make() for n, make in models.items()}
    )
    found = first_step(toy)
    assert found.startswith(f"{STEP}:5: run.model is asked for, and there are several"), found
    assert found.endswith("one of 'main', 'other'."), found


def toy(file: str, **others: str) -> Toy:
    return Toy(data=sized(text(file)), others={n: sized(text(f)) for n, f in others.items()})


def test_a_run_ends_at_its_start(tmp_path: Path) -> None:
    run = loop(tmp_path / "run", replicas=2, toy=toy("none.csv"))
    with pytest.raises(
        UsageError, match=r"^Example 0 .* No such file or directory \(none.csv\)\.$"
    ):
        run.train()


def test_a_run_that_has_saved_can_be_resumed(tmp_path: Path) -> None:
    # One epoch is read in order of the file, since the buffer for shuffling holds one example.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("proof.engine.batches.SHUFFLE_BUFFER", 1)
        run = loop(
            tmp_path / "run", toy=toy("late.csv"), save_every_steps=1,
            steps_per_call=1,
        )  # fmt: skip
        sentence = rf"^Example {ROWS - 1} .* checkpoints so far are intact: .*train.py --resume"
        with pytest.raises(UsageError, match=sentence):
            run.train()
    Path("late.csv").write_text("\n".join(lines("1,1,1,1,1,0")))
    resumed = loop(tmp_path / "run", toy=toy("late.csv"))
    resumed.start(resume=True)
    assert resumed.step == 3


def test_evaluation_and_prediction_name_the_split(tmp_path: Path) -> None:
    splits = toy("none.csv", validation="rows.csv", test="rows.csv")
    built = build(splits)
    evaluation = Evaluation(built.run, splits.splits, built.steps.layout)
    for split in ("validation", "test"):
        with pytest.raises(DataError, match=rf"^Example {BAD} .* of the {split} data .* {NUMBER}"):
            evaluation.evaluate(split)
    with pytest.raises(DataError, match=rf"^Example {BAD} .* of the test data .* {NUMBER}"):
        list(predict_split(built.run.model, "test", splits.splits["test"], tmp_path))


def test_a_model_that_adapts_to_bad_data() -> None:
    def adapt(datasets: dict[str, Any]) -> dict[str, Any]:
        return {"examples": sum(1 for _ in datasets["train"])}

    bad = Toy(adapt=adapt, data=toy("rows.csv").data)
    with pytest.raises(DataError, match=rf"^Example {BAD} .* {NUMBER}"):
        build(bad)


def few(number: int, *, says: int) -> tf.data.Dataset:
    """A stream of `number` examples that says it has others."""
    inputs, labels = plain_data(number)
    stream = tf.data.Dataset.from_tensor_slices((inputs, labels)).filter(lambda *_: True)
    return stream.apply(tf.data.experimental.assert_cardinality(says))


def of_files(directory: Path, *, empty: int) -> tf.data.Dataset:
    """A stream of four files, of which one has no rows."""
    files = [str(directory / f"{number}.csv") for number in range(4)]
    for number, file in enumerate(files):
        Path(file).write_text("\n".join([] if number == empty else lines()[:BATCH]))
    names = tf.data.Dataset.from_tensor_slices(files)
    return sized(names.interleave(lambda name: tf.data.TextLineDataset(name).map(parse)))


LENGTHS: dict[str, tuple[Callable[[Path], tf.data.Dataset], str]] = {
    "shorter": (
        lambda _: few(ROWS - 5, says=ROWS),
        rf"it should have {ROWS} examples, and has only {ROWS - 5}\.",
    ),
    "longer": (
        lambda _: few(ROWS + 5, says=ROWS),
        rf"it should have {ROWS} examples, and has at least {ROWS + 1}\.",
    ),
    "empty file": (
        lambda directory: of_files(directory, empty=2),
        rf"it should have {ROWS} examples, and has only {ROWS - BATCH} \(.*2\.csv is empty\)\.",
    ),
    "all empty": (
        lambda _: few(0, says=ROWS),
        rf"it should have {ROWS} examples, and has only 0\.",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize(("stream", "sentence"), LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("last_batch", ["drop", "span", "pad"])
def test_a_stream_that_is_not_as_long_as_it_says(
    stream: Callable[[Path], tf.data.Dataset], sentence: str, last_batch: str, tmp_path: Path
) -> None:
    data = stream(tmp_path)
    with pytest.raises(UsageError, match=sentence):
        loop(tmp_path / "run", toy=Toy(data=data), flags={"last_batch": last_batch}).train()
    validation = Toy(data=plain_data(ROWS), others={"validation": data})
    run = loop(tmp_path / "evaluated", toy=validation)
    with pytest.raises(UsageError, match=rf"^The validation data .*{sentence}"):
        run.train()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("workers", "advice"), [(1, "if none is, delete"), (2, "give each worker a file of its own, ")]
)
def test_a_cache_that_another_process_writes_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, advice: str
) -> None:
    cached = tf.data.Dataset.from_tensor_slices(plain_data(ROWS)).cache(str(tmp_path / "cache"))
    iterator = iter(cached)
    next(iterator)
    assert list(tmp_path.glob("*.lockfile"))  # as long as the iterator is there
    run = loop(tmp_path / "run", toy=Toy(data=cached))
    monkeypatch.setattr(data_errors.cluster, "num_workers", lambda: workers)
    sentence = rf"^The training data is read by .cache\(file\), .* killed one was: {advice}.*lockf"
    with pytest.raises(UsageError, match=sentence):
        run.train()
