"""The recipes of docs/data.md give the rows they should, on one replica and on two."""

from __future__ import annotations

import csv
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.batches import (
    evaluation_batches,
    first_examples,
    num_examples,
    random_access,
)
from proof.engine.data_errors import DataError
from proof.engine.errors import UsageError
from proof.engine.random_access import RandomAccess
from proof.task.config import TaskConfig

from .test_loop import loop
from .test_recipes import BLOCK, DOCS, GIVEN, LAYOUT, assert_usable, labels_of
from .toys import BATCH, CLASSES, FEATURES, Toy, assert_parity, differences, plain_data, train

PAGE = (DOCS / "data.md").read_text(encoding="utf-8")
BLOCKS = dict(BLOCK.findall(PAGE))
ROWS = {"train": 2 * BATCH - 7, "test": 5}  # the second batch of training has padding
STEPS = {"steps": 6, "steps_per_call": 2}
COLUMNS = "abcde"

Write = Callable[[str, np.ndarray, np.ndarray], None]


def block(name: str) -> dict[str, Any]:
    """What a block defines, as part of a file of the task."""
    names = GIVEN | {"__name__": "proof.task.recipe", "__package__": "proof.task"}
    exec(compile(BLOCKS[name], name, "exec", dont_inherit=True), names)
    return names


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()


def plain(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs float32 (rows, 5) and labels int64 (rows,), in the order of the labels."""
    inputs, labels = plain_data(ROWS[split])
    return inputs.astype("float32"), np.sort(labels)


def write_memory_map(split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    for part, array in (("inputs", inputs), ("labels", labels)):
        np.save(f"data/{split}-{part}.npy", array)


def write_hdf5(split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    with h5py.File("data/examples.h5", "a") as file:
        file.create_dataset(f"{split}/inputs", data=inputs, chunks=(4, FEATURES))
        file[f"{split}/labels"] = labels


def write_parquet(split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="writes Parquet files")
    parquet = pytest.importorskip("pyarrow.parquet", reason="writes Parquet files")
    columns = dict(zip(COLUMNS, inputs.T, strict=True)) | {"label": labels}
    parquet.write_table(pyarrow.table(columns), f"data/{split}.parquet", row_group_size=4)


def example(inputs: np.ndarray, label: int) -> bytes:
    """A record with an example."""
    features = {
        "inputs": tf.train.Feature(float_list=tf.train.FloatList(value=inputs)),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write_array_record(split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    module = pytest.importorskip(
        "array_record.python.array_record_module", reason="writes ArrayRecord files"
    )
    for shard, rows in enumerate(np.array_split(np.arange(len(labels)), 2)):
        writer = module.ArrayRecordWriter(f"data/{split}-{shard:02}.array_record", "group_size:1")
        for row in rows:
            writer.write(example(inputs[row], labels[row]))
        writer.close()


def write_hugging_face(split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    datasets = pytest.importorskip("datasets", reason="writes its own files")
    if split == "train":
        both = {name: plain(name) for name in ROWS}
        datasets.DatasetDict({
            name: datasets.Dataset.from_dict({"inputs": x, "label": y})
            for name, (x, y) in both.items()
        }).save_to_disk("data/examples")  # fmt: skip


def write_csv(split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    with Path(f"data/{split}.csv").open("w", newline="") as file:
        rows = ([*map(str, row), label] for row, label in zip(inputs, labels, strict=True))
        csv.writer(file).writerows([[*COLUMNS, "label"], *rows])


def write_tfrecord(split: str, inputs: np.ndarray, labels: np.ndarray) -> None:
    for shard, rows in enumerate((np.arange(0), *np.array_split(np.arange(len(labels)), 3))):
        with tf.io.TFRecordWriter(f"data/{split}-{shard:02}.tfrecord") as writer:
            for row in rows:
                writer.write(example(inputs[row], labels[row]))


RECIPES: dict[str, Write] = {
    "memory_map": write_memory_map, "hdf5": write_hdf5, "parquet": write_parquet,
    "array_record": write_array_record, "hugging_face": write_hugging_face, "csv": write_csv,
    "tfrecord_index": write_tfrecord,
}  # fmt: skip
QUICK = {"memory_map", "csv"}


def assert_same_as_arrays(
    splits: dict[str, Any], arrays: dict[str, tuple[np.ndarray, np.ndarray]], toy: Toy
) -> None:
    """The same rows one by one and in batches, and the same training on one and two replicas."""
    assert set(splits) == set(arrays)
    for name, (inputs, labels) in arrays.items():
        rows = random_access(splits[name])
        assert len(rows) == len(labels)
        for row, (x, y) in enumerate(rows):
            assert (x.dtype, y.dtype) == (inputs.dtype, labels.dtype)
            np.testing.assert_array_equal(x, inputs[row])
            assert y == labels[row]
        batches = evaluation_batches(splits[name], LAYOUT)[0].as_numpy_iterator()
        read = [(x[w > 0], y[w > 0]) for x, y, w in batches]
        np.testing.assert_array_equal(np.concatenate([x for x, _ in read]), inputs)
        np.testing.assert_array_equal(np.concatenate([y for _, y in read]), labels)
        assert assert_usable(splits[name], len(labels)) == labels.tolist()
    given = train(Toy(toy.model, data=arrays["train"]), **STEPS)
    trained = assert_parity(Toy(toy.model, data=splits["train"]), (2,), **STEPS)
    assert differences(given, trained) == dict.fromkeys(differences(given, trained), 0.0)
    assert np.isfinite(trained.losses).all()
    assert trained.losses[0] != trained.losses[-1]


@pytest.mark.quick
def test_every_block_of_the_page_is_run() -> None:
    used = re.findall(r'block\("(\w+)"\)', Path(__file__).read_text(encoding="utf-8"))
    assert {*used, *RECIPES} == set(BLOCKS)
    assert PAGE.count("```python") == len(BLOCKS)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.quick if n in QUICK else ()) for n in RECIPES]
)
def test_a_recipe_trains_on_the_same_rows_as_arrays(name: str) -> None:
    arrays = {split: plain(split) for split in ROWS}
    for split, (inputs, labels) in arrays.items():
        RECIPES[name](split, inputs, labels)
    create_datasets = block(name)["create_datasets"]
    assert_same_as_arrays(create_datasets(TaskConfig()), arrays, Toy())
    made = sorted(Path("data").rglob("*"))
    assert {split: len(rows) for split, rows in create_datasets(TaskConfig()).items()} == (
        dict.fromkeys(ROWS, 2) if name in ("memory_map", "hdf5") else ROWS
    )
    assert sorted(Path("data").rglob("*")) == made  # an index is made once


def test_images_in_folders_train_like_arrays() -> None:
    arrays = {}
    for split, (_, labels) in ((split, plain(split)) for split in ROWS):
        size = (len(labels), 32, 32, 3)
        images = np.random.default_rng(0).integers(0, 256, size, "uint8")
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            file = Path("data", split, ("ant", "bee", "cat")[label], f"{row:02}.png")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(tf.io.encode_png(image).numpy())
        arrays[split] = images, labels
        Path("data", split, "ant", "notes.txt").write_text("not an image")

    def model() -> keras.Model:
        layers = keras.layers
        x = keras.Input((32, 32, 3))
        pooled = layers.AveragePooling2D(8)(layers.Rescaling(1 / 255)(x))
        return keras.Model(x, layers.Dense(CLASSES)(layers.Flatten()(pooled)))

    datasets = block("folders")["create_datasets"](TaskConfig())
    assert_same_as_arrays(datasets, arrays, Toy(model))
    file = Path("data/train/ant/00.png")
    file.write_bytes(file.read_bytes()[:20])
    sentence = r"^Example 0 \(counted from 0\) can't be loaded: .*\('data/train/ant/00.png'\)\.$"
    with pytest.raises(DataError, match=sentence):
        _ = block("folders")["create_datasets"](TaskConfig())["train"][0]


@pytest.mark.quick
def test_a_part_of_random_access() -> None:
    inputs, labels = plain_data(30)
    parts = block("select")["divide"](RandomAccess((inputs, labels)))
    assert {name: len(part) for name, part in parts.items()} == {"train": 27, "test": 3}
    seen = np.concatenate([[x for x, _ in part] for part in parts.values()])
    np.testing.assert_array_equal(np.sort(seen, axis=0), np.sort(inputs, axis=0))


def test_sources_of_grain_have_rows() -> None:
    pytest.importorskip("grain", reason="grain's own classes have rows too")
    inputs, _ = plain("train")
    rows = random_access(block("grain")["with_grain"]([row.tobytes() for row in inputs]))
    np.testing.assert_array_equal(np.stack(list(rows)), inputs)
    batches = evaluation_batches(rows, LAYOUT)[0].as_numpy_iterator()
    np.testing.assert_array_equal(np.concatenate([x[w > 0] for x, w in batches]), inputs)


@pytest.mark.quick
def test_an_index_is_made_again_if_the_file_has_changed() -> None:
    file, index = Path("data/train.csv"), Path("data/train.ends.npy")
    Lines = block("csv")["Lines"]
    for text in ("x\n1\n2\n", "x\n1\n2\n3\n", "x\n12\n345\n", "x\n345\n12\n"):
        file.write_text(text)
        os.utime(file, (0, 0))  # as a copy that keeps its date
        assert [*map(Lines(file).__getitem__, range(len(Lines(file))))] == text.encode().split()[1:]
    assert {path.name for path in Path("data").iterdir()} == {file.name, index.name}


@pytest.mark.quick
def test_a_copy_is_made_again_if_the_parquet_file_has_changed() -> None:
    inputs, labels = plain("train")
    for rows in (20, 12):
        write_parquet("train", inputs[:rows], labels[:rows])
        os.utime("data/train.parquet", (0, 0))  # as a copy that keeps its date
        names = block("parquet")
        assert len(names["Rows"](names["_converted"](Path("data/train.parquet")))) == rows


@pytest.mark.quick
@pytest.mark.parametrize("name", ["csv", "tfrecord_index"])
def test_an_index_that_could_not_be_written_is_none(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(file: Path, array: np.ndarray) -> None:
        file.write_bytes(b"cut")
        raise OSError(28, "No space left on device", str(file))

    {"csv": write_csv, "tfrecord_index": write_tfrecord}[name]("train", *plain("train"))
    names = block(name)
    make = {"csv": lambda: names["Lines"](Path("data/train.csv")),
            "tfrecord_index": lambda: names["Records"]("train")}[name]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(np, "save", fill_the_disk)
        with pytest.raises(OSError, match="No space left"):
            make()
    assert len(make()) == ROWS["train"]


@pytest.mark.quick
def test_an_index_is_made_again_if_shards_have_changed() -> None:
    inputs, labels = plain("train")
    Records, index = block("tfrecord_index")["Records"], Path("data/train.index.npy")
    for rows in (20, 12):
        write_tfrecord("train", inputs[:rows], labels[:rows])
        for shard in Path("data").glob("train-*"):
            os.utime(shard, (0, 0))
        assert len(Records("train")) == rows
    before = index.read_bytes()
    shards = sorted(Path("data").glob("train-*"))
    shards[0].write_bytes(shards[-1].read_bytes() * 2)
    os.utime(shards[0], (0, 0))
    Records("train")
    assert index.read_bytes() != before
    shards[-1].unlink()
    assert Records("train").places[-1][0] == len(shards) - 2


@pytest.mark.quick
def test_an_index_is_kept_if_the_last_shard_is_empty() -> None:
    Records, index = block("tfrecord_index")["Records"], Path("data/train.index.npy")
    write_tfrecord("train", *plain("train"))
    Path("data/train-99.tfrecord").touch()
    time.sleep(0.1)  # file systems count in ticks
    Records("train")
    made = index.stat().st_mtime_ns
    time.sleep(0.1)
    assert len(Records("train")) == ROWS["train"]
    assert index.stat().st_mtime_ns == made


@pytest.mark.quick
def test_tfrecord_shards_as_a_stream() -> None:
    names = block("tfrecord")
    for split, examples in names["EXAMPLES"].items():
        for shard, rows in enumerate(np.array_split(np.arange(examples), 4)):
            with tf.io.TFRecordWriter(f"data/{split}-{shard:02}.tfrecord") as writer:
                for i in rows:
                    color = tf.fill((8, 8, 3), tf.constant(i, tf.uint8))
                    image = tf.train.BytesList(value=[tf.io.encode_png(color).numpy()])
                    label = tf.train.Int64List(value=[int(i)])
                    features = {
                        "image": tf.train.Feature(bytes_list=image),
                        "label": tf.train.Feature(int64_list=label),
                    }
                    whole = tf.train.Example(features=tf.train.Features(feature=features))
                    writer.write(whole.SerializeToString())
    datasets = names["create_datasets"](TaskConfig())
    for split, examples in names["EXAMPLES"].items():
        assert sorted(assert_usable(datasets[split], examples)) == list(range(examples))

    train_split = block("per_worker")["train_split"]
    train_split.__globals__.update(names)
    parts = [labels_of(evaluation_batches(train_split(2, i), LAYOUT)[0]) for i in (0, 1)]
    assert sorted(parts[0] + parts[1]) == list(range(50))
    assert len(parts[0]) == num_examples(train_split(2, 1)) == 25

    images, labels = first_examples(datasets["train"], 3)
    assert (images.shape, images.dtype) == ((3, 8, 8, 3), np.uint8)
    assert images[:, 0, 0, 0].tolist() == labels.tolist()


def csv_with_a_bad_row() -> Toy:
    """The CSV recipe with line 14 damaged."""
    for split in ROWS:
        write_csv(split, *plain(split))
    file = Path("data/train.csv")
    lines = file.read_text().splitlines()
    lines[13] = "0.8,n/a,1.0,0.1,0.6,0"
    file.write_text("\n".join(lines) + "\n")
    return Toy(data=block("csv")["create_datasets"](TaskConfig())["train"])


def test_a_bad_row_ends_a_run_as_the_page_says() -> None:
    run = loop(Path("run"), replicas=2, toy=csv_with_a_bad_row())
    with pytest.raises(UsageError) as found:
        run.train()
    assert f"\n{found.value}\n" in PAGE


def test_a_bad_row_is_left_out_as_the_page_says(capfd: pytest.CaptureFixture[str]) -> None:
    run = loop(Path("run"), replicas=2, toy=csv_with_a_bad_row(), flags={"max_bad_examples": 1})
    run.train()
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith("left out")]
    assert len(lines) == 1
    assert f"\n{lines[0]}\n" in PAGE
