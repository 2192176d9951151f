"""Examples by row number: from whatever holds them, in any order; one sentence for a bad row."""

from __future__ import annotations

import errno
import itertools
import json
import os
import socket
import subprocess
import sys
import time
from array import array as typed_array
from collections import UserDict, deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import proof
import pytest
import tensorflow as tf
from proof.engine import cluster
from proof.engine.bad_examples import BadExamples
from proof.engine.batches import (
    BatchLayout,
    Split,
    TrainingBatches,
    evaluation_batches,
    num_examples,
    per_example,
    random_access,
)
from proof.engine.callbacks import Event, every_steps
from proof.engine.data_errors import DataError, reading_errors
from proof.engine.errors import UsageError, code_of
from proof.engine.loop import Loop
from proof.engine.random_access import RandomAccess
from proof.engine.rows import as_example
from proof.engine.workers import Workers

from .test_loop import loop
from .toys import BATCH, Toy, build, plain_data, train

ROWS, BAD = 40, 17
IMAGES = np.random.default_rng(0).integers(0, 255, (ROWS, 4, 3), np.uint8)
LABELS = np.arange(ROWS) % 5
LAYOUT = BatchLayout(12, 2, 0, 2)


class Source:
    """Rows of a Python object, which notes what is read."""

    def __init__(self, bad: Any = None, rows: int = ROWS) -> None:
        self.bad, self.rows = bad, rows
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> Any:
        self.read.append(row)
        if row == BAD and self.bad is not None:
            if isinstance(self.bad, Exception):
                raise self.bad
            return self.bad
        return IMAGES[row % ROWS], int(LABELS[row % ROWS])


class ManyAtOnce(Source):
    """The same, a batch at a time."""

    def __getitems__(self, rows: list[int]) -> list[Any]:
        return [Source.__getitem__(self, row) for row in rows]

    def __getitem__(self, row: int) -> Any:
        raise AssertionError("read one by one")


def memory_map(directory: Path) -> Any:
    np.save(directory / "images.npy", IMAGES)
    return np.load(directory / "images.npy", mmap_mode="r"), LABELS


def hdf5(directory: Path) -> Any:
    with h5py.File(directory / "data.h5", "w") as file:
        file["images"], file["labels"] = IMAGES, LABELS
    file = h5py.File(directory / "data.h5")
    return file["images"], file["labels"]


def pictures(directory: Path, *, bad: bytes | None = None) -> RandomAccess:
    for row, image in enumerate(IMAGES):
        png = tf.io.encode_png(image[..., np.newaxis]).numpy()
        (directory / f"{row:03}.png").write_bytes(bad if bad and row == BAD else png)

    def load(row: tuple[tf.Tensor, tf.Tensor]) -> Any:
        name, label = row
        return tf.io.decode_png(tf.io.read_file(name))[..., 0], label

    return RandomAccess((sorted(directory.glob("*.png")), LABELS), load)


class OfOtherLibrary:
    """A column of numbers whose dtype NumPy doesn't know, as of a table of another library."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.shape, self.dtype = values, values.shape, "Int64"

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Any:
        return self.values[rows]


def missing(value: Any) -> np.ndarray:
    """Texts (ROWS, 2), one of which is something else."""
    texts = np.full((ROWS, 2), "text", object)
    texts[7, 1] = value
    return texts


@dataclass  # so it has no hash
class Shards:
    def __call__(self, workers: int, index: int) -> Any:
        return Source()


SOURCES: dict[str, Callable[[Path], Split]] = {
    "memory map": memory_map,
    "hdf5": hdf5,
    "object": lambda _: Source(),
    "many at once": lambda _: RandomAccess(Source(), lambda row: row),
    "pictures": pictures,
    "selected": lambda _: RandomAccess((IMAGES[::-1], LABELS[::-1])).select(range(ROWS)[::-1]),
    "selected twice": lambda _: RandomAccess(Source()).select(range(ROWS)[::-1]).select(
        range(ROWS)[::-1]
    ),
    "big-endian": lambda _: (IMAGES, LABELS.astype(">i8")),
    "lists": lambda _: (IMAGES, LABELS.tolist()),
    "variables": lambda _: (tf.Variable(IMAGES), tf.Variable(LABELS)),
    "function": lambda _: lambda workers, index: Source(),
    "object that is a function": lambda _: Shards(),
}  # fmt: skip


def read(split: Split, **options: Any) -> list[Any]:
    """Two epochs of training, and the evaluation."""
    training = TrainingBatches(split, LAYOUT, seed=3, last_batch="pad", **options).dataset(0, 8)
    return [*training.as_numpy_iterator(), *evaluation_batches(split, LAYOUT, **options)[0]]


@pytest.mark.quick
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_whatever_holds_the_rows_gives_the_batches_of_arrays(
    source: Callable[[Path], Split], tmp_path: Path
) -> None:
    wanted = read((IMAGES, LABELS))
    for found, batch in zip(read(source(tmp_path)), wanted, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, found, batch)


class Columns:
    """A table whose rows are read together."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.single = fails, 0

    def __len__(self) -> int:
        return 20

    def __getitem__(self, row: int) -> Any:
        self.single += 1
        return {"x": np.float32(row), "name": f"row {row}"}, np.full(3, row)

    def __getitems__(self, rows: list[int]) -> Any:
        numbers = np.array(rows)
        names = [f"row {row}" for row in rows[1 if self.fails else 0 :]]
        return {"x": numbers.astype("float32"), "name": names}, np.repeat(numbers[:, None], 3, 1)


@pytest.mark.quick
@pytest.mark.parametrize("fails", [False, True])
def test_rows_given_as_columns_are_those_read_one_by_one(fails: bool) -> None:
    source = Columns(fails)
    batches, _ = evaluation_batches(source, BatchLayout(8, 1, 0, 1))
    seen = []
    for inputs, labels, weights in batches.as_numpy_iterator():
        there = weights[0] > 0
        names = [name.decode() for name in inputs["name"][0][there]]
        assert names == [f"row {x:.0f}" for x in inputs["x"][0][there]]
        assert labels.shape == (1, 8, 3)
        seen += labels[0][there][:, 2].tolist()
    assert seen == list(range(20))
    assert source.single == (1 + 20 if fails else 1)  # the first row tells shapes and dtypes


@pytest.mark.quick
def test_an_array_that_is_not_contiguous_is_not_copied() -> None:
    rows = 10**12  # in memory a single one; a copy of all would need terabytes
    array = np.broadcast_to(np.arange(3.0), (rows, 3))
    inputs, _ = next(iter(evaluation_batches(array, BatchLayout(8, 1, 0, 1))[0]))
    assert inputs.numpy().tolist() == [[[0, 1, 2]] * 8]


@pytest.mark.quick
def test_examples_of_any_form() -> None:
    class Forms:
        def __len__(self) -> int:
            return ROWS

        def __getitem__(self, row: int) -> Any:
            inputs = {"text": f"row {'x' * row}", "list": [row, 2.5], "flag": row % 2 == 0}
            return inputs, (row, np.float32(row)), {"a": 0.5}

    split = random_access(Forms())
    batch, _ = evaluation_batches(split, LAYOUT)
    inputs, labels, weights = next(iter(batch))
    assert inputs["text"][0, 3].numpy() == b"row xxx"
    assert inputs["list"].shape == (2, 6, 2)
    assert inputs["list"].dtype == keras.config.floatx()
    assert inputs["flag"].dtype == tf.bool
    assert labels[0].dtype == tf.int64
    assert labels[1][1, 5] == 11
    assert set(weights) == {"a"}
    assert split[3][0]["text"] == "row xxx"
    assert split[-1][1][0] == ROWS - 1
    with pytest.raises(IndexError):
        split[ROWS]


@pytest.mark.quick
def test_arrays_are_not_copied(tmp_path: Path) -> None:
    mapped, labels = memory_map(tmp_path)
    for split in ((IMAGES, LABELS), (mapped, labels)):
        assert random_access(split).source[0] is split[0]
    assert random_access(tf.constant(LABELS)).source.base is not None


@pytest.mark.quick
def test_the_arrays_of_a_part_are_its_own() -> None:
    part = RandomAccess((IMAGES, LABELS)).select([4, 1])
    np.testing.assert_array_equal(part.arrays[1], LABELS[[4, 1]])


@pytest.mark.quick
@pytest.mark.parametrize("last_batch", ["drop", "span", "pad"])
def test_a_resumed_run_reads_nothing_again(last_batch: Any) -> None:
    whole = Source()
    batches = TrainingBatches(whole, LAYOUT, seed=3, last_batch=last_batch)
    list(batches.dataset(0, 9))
    at_end = Source()
    list(TrainingBatches(at_end, LAYOUT, seed=3, last_batch=last_batch).dataset(8, 9))
    of_form = 1  # the first row, for shapes and dtypes
    assert len(at_end.read) <= 12 + of_form < len(whole.read)


@pytest.mark.quick
@pytest.mark.parametrize("examples", [10**3, 10**6, 10**9, 10**12])
def test_a_step_of_any_epoch_of_any_number_of_rows_takes_the_same_time(examples: int) -> None:
    class Rows:
        def __len__(self) -> int:
            return examples

        def __getitem__(self, row: int) -> int:
            return row

    batches = TrainingBatches(Rows(), LAYOUT, seed=3)
    started = time.perf_counter()
    for step in (0, 10**6, 10**12):
        ids, _ = next(iter(batches.dataset(step, step + 3)))
        assert 0 <= ids.numpy().min() <= ids.numpy().max() < examples
    assert time.perf_counter() - started < 10  # a sort, or reading what was before, takes minutes


class Failing(Exception):
    pass


FAILURES: dict[str, tuple[Any, str]] = {
    "exception": (Failing("the sensor was off"), "can't be read: the sensor was off"),
    "missing key": (KeyError("mean"), "can't be read: KeyError: 'mean'"),
    "file": (OSError(5, "Input/output error", "a.bin"), r"can't be read: a\.bin: Input/output"),
    "shape": ((IMAGES[0][:2], 3), r"holds uint8 \(2, 3\) where the first one has uint8 \(4, 3\)"),
    "dtype": ((IMAGES[0] / 255, 3), r"holds float64 \(4, 3\) where the first one has uint8"),
    "parts": ((IMAGES[0], 3, 1.0), "has other parts than the first one"),
    "nothing": (False, "has other parts than the first one"),
    "none": ((IMAGES[0], None), "holds NoneType, not only numbers or texts"),
}


@pytest.mark.quick
@pytest.mark.parametrize(("bad", "sentence"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("kind", [Source, ManyAtOnce])
def test_a_row_that_cannot_be_read_is_named(
    bad: Any, sentence: str, kind: type[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is ManyAtOnce:  # read one by one only to find the row
        monkeypatch.setattr(ManyAtOnce, "__getitem__", Source.__getitem__)
    source = kind(bad)
    start = rf"^Example {BAD} \(counted from 0\)"
    with pytest.raises(DataError, match=rf"{start} ({sentence}).*\.$"):
        random_access(source)[BAD]
    toy = Toy(data=source)
    built = build(replace(toy, data=plain_data(ROWS)))
    batches = TrainingBatches(source, LAYOUT, last_batch="pad", bad=built.run.bad_examples)
    with pytest.raises(tf.errors.OpError):
        list(batches.dataset(0, 4))
    assert built.run.bad_examples.failure.startswith(
        f"Example {BAD} (counted from 0) of the training data "
    )


def test_nothing_logs_a_traceback_of_a_row_that_cannot_be_read() -> None:
    """As TensorFlow does of what Python raises in a graph."""
    program = """if True:
        from proof.engine.bad_examples import BadExamples
        from proof.engine.batches import BatchLayout, TrainingBatches

        class Rows:
            def __len__(self):
                return 48

            def __getitem__(self, row):
                return float(row) if row != 7 else 1 / 0

        bad = BadExamples(0)
        batches = TrainingBatches(Rows(), BatchLayout(24, 1, 0, 1), seed=3, bad=bad)
        try:
            list(batches.dataset(0, 2))
        except Exception:
            print(bad.failure)
    """
    environment = os.environ | {
        "TF_CPP_MIN_LOG_LEVEL": "1", "PYTHONPATH": str(Path(proof.__file__).parents[1]),
    }  # fmt: skip
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("Example 7 (counted from 0) of the training data can't be read")
    assert "Traceback" not in ended.stderr


def test_a_stream_that_fails_is_told_without_warnings_of_tensorflow() -> None:
    program = """if True:
        from proof.engine.tf_log_filter import filtered_tf_import

        with filtered_tf_import():
            import tensorflow as tf

        def examples():
            yield 1.0
            raise ValueError("damaged")

        try:
            list(tf.data.Dataset.from_generator(examples, output_types=tf.float32))
        except tf.errors.OpError:
            print("failed")
    """
    environment = os.environ | {"PYTHONPATH": str(Path(proof.__file__).parents[1])}
    del environment["TF_CPP_MIN_LOG_LEVEL"]
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "failed\n"
    assert ended.stderr == ""


@pytest.mark.quick
def test_a_picture_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    split = pictures(tmp_path, bad=b"no picture")
    sentence = (
        rf"^Example {BAD} \(counted from 0\) of the test data can't be loaded: .*{BAD:03}.png'\)\.$"
    )
    with pytest.raises(DataError, match=sentence), reading_errors({"test": split}):
        list(evaluation_batches(split, LAYOUT)[0])
    (tmp_path / f"{BAD:03}.png").unlink()
    with pytest.raises(DataError, match=sentence), reading_errors({"test": split}):
        list(evaluation_batches(split, LAYOUT)[0])
    other = tf.io.encode_png(np.zeros((5, 3, 1), np.uint8)).numpy()
    split = pictures(tmp_path, bad=other)
    sentence = r"holds uint8 \(5, 3\) where the first one has uint8 \(4, 3\)"
    with pytest.raises(DataError, match=sentence), reading_errors({"test": split}):
        list(evaluation_batches(split, LAYOUT)[0])


@pytest.mark.quick
def test_the_first_row_may_be_bad() -> None:
    split = random_access(Source()).select([BAD, *range(BAD), *range(BAD + 1, ROWS)])
    split.source.bad = Failing("no")
    assert split.element_spec[0].shape == (4, 3)
    nothing = random_access(Source(Failing("no"))).select([BAD])
    with pytest.raises(DataError, match=r"^Example 0 .* can't be read: Failing: no"):
        _ = nothing.element_spec


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["object", "pictures"])
def test_bad_examples_have_weight_zero(kind: str, tmp_path: Path) -> None:
    bad = BadExamples(1)
    split = Source(Failing("no")) if kind == "object" else pictures(tmp_path, bad=b"no picture")
    seen = []
    for images, labels, weights in TrainingBatches(
        split, LAYOUT, last_batch="pad", bad=bad
    ).dataset(0, 8):
        there = weights.numpy() > 0
        seen += labels.numpy()[there].tolist()
        assert not images.numpy()[~there].any() or kind == "pictures" or not there.all()
    good = np.delete(LABELS, BAD)
    assert sorted(seen) == sorted([*good, *good])
    assert len(bad.numbers()) == 1
    (line,) = bad.news()
    assert line.startswith(f"left out: example {BAD} of the training data can't be ")
    assert not bad.news()


@pytest.mark.quick
def test_bad_examples_in_a_row_of_pictures_keep_the_order(tmp_path: Path) -> None:
    split = pictures(tmp_path, bad=b"no picture")
    wanted = read((IMAGES, LABELS))
    for found, batch in zip(read(split, bad=BadExamples(2)), wanted, strict=True):
        there = np.asarray(found[-1]) > 0
        np.testing.assert_array_equal(found[1][there], batch[1][there])
        np.testing.assert_array_equal(found[0][there], batch[0][there])


def bad_rows(inputs: np.ndarray, labels: np.ndarray, bad: set[int]) -> Any:
    class Rows:
        def __len__(self) -> int:
            return len(inputs)

        def __getitem__(self, row: int) -> Any:
            if row in bad:
                raise Failing(f"row {row} is damaged")
            return inputs[row], labels[row]

    return Rows()


def test_a_run_leaves_bad_examples_out_alike_on_any_number_of_replicas(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    inputs, labels = plain_data(7 * BATCH)
    weights = np.ones(7 * BATCH)
    weights[[3, 30]] = 0
    toys = [
        Toy(data=(inputs, labels, weights)),
        *[Toy(data=bad_rows(inputs, labels, {3, 30}))] * 2,
    ]
    ends = []
    for index, (replicas, toy) in enumerate(zip((1, 1, 2), toys, strict=True)):
        flags = {"max_bad_examples": 2}
        run = loop(tmp_path / str(index), replicas=replicas, toy=toy, flags=flags)
        run.train()
        ends.append([v.numpy() for v in run.run.trainable_variables])
    for a, b in zip(ends[0], ends[1], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(ends[0], ends[2], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    lines = capfd.readouterr().out.splitlines()
    assert sum(line.startswith("left out: example 30 of the training data") for line in lines) == 2
    run = loop(tmp_path / "none", toy=toys[1])
    with pytest.raises(UsageError, match="can't be read"):
        run.train()
    assert "left out" not in capfd.readouterr().out


@pytest.mark.quick
def test_bad_examples_of_the_test_data_are_named_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs, labels = plain_data(BATCH)
    toy = Toy(data=plain_data(), others={"test": bad_rows(inputs, labels, {3})})
    run = loop(tmp_path, toy=toy, flags={"max_bad_examples": 1}, num_steps=1)
    run.train()
    run.test()
    assert "left out: example 3 of the test data can't be read" in capsys.readouterr().out


@pytest.mark.quick
def test_rows_of_shards_are_other_examples_on_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []
    for worker in range(2):
        monkeypatch.setattr(cluster, "num_workers", lambda: 2)
        monkeypatch.setattr(cluster, "worker_index", lambda worker=worker: worker)
        bad = BadExamples(1)

        def shard(workers: int, index: int, worker: int = worker) -> Any:
            assert (workers, index) == (2, worker)  # others may lie on other disks
            return Source(Failing("no"))

        assert num_examples(shard) == 2 * ROWS
        for _ in TrainingBatches(shard, LAYOUT, last_batch="pad", bad=bad).dataset(0, 8):
            pass
        numbers += bad.numbers()
        assert f" of the training data of worker {worker} can't be read" in bad.news()[0]
    assert len(set(numbers)) == 2


@pytest.mark.quick
@pytest.mark.parametrize("own", ["__getitem__", "load"])
def test_an_example_that_is_a_list_of_arrays_is_one_sentence(own: str) -> None:
    class Rows:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, row: int) -> Any:
            return [np.zeros(3), np.ones(3)] if own == "__getitem__" else row

    load = (lambda row: [tf.zeros(3), tf.ones(3)]) if own == "load" else None
    with pytest.raises(DataError, match="has a list of arrays: inputs, labels and weights are a t"):
        _ = RandomAccess(Rows(), load).element_spec


@pytest.mark.quick
def test_a_first_example_that_cannot_be_loaded_is_one_short_sentence() -> None:
    def load(name: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_raw(tf.io.read_file(name), tf.uint8)[:4]

    data = RandomAccess(np.array([f"gone-{i}" for i in range(2 * BATCH)]), load)
    with pytest.raises(UsageError) as found:
        train(Toy(data=data), steps=1, steps_per_call=1)
    assert str(found.value).startswith("Example 0 (counted from 0) ")
    assert "in user code" not in str(found.value)


def test_bad_examples_of_all_workers_count_together(tmp_path: Path) -> None:
    inputs, labels = plain_data(7 * BATCH)
    toy = Toy(data=bad_rows(inputs, labels, {3}))
    run = loop(tmp_path, toy=toy, flags={"max_bad_examples": 1})
    run.workers.number = 2
    for other, ends in ((0, False), (1, True)):  # the same example, and another one
        run.workers.gather = lambda values, other=other: np.array(  # type: ignore[method-assign]
            [values, np.add(values, other * (np.asarray(values) > 1))]
        )
        run.run.bad_examples.add("data", 3, "is bad")
        sentence = r"^2 examples can't be read, on all workers together; "
        with pytest.raises(UsageError, match=sentence) if ends else nullcontext():
            run._report_bad_examples(print)


def with_another(run: Loop, own: set[int], of_other: set[int]) -> Loop:
    """The run as the chief of two workers that can't read these examples."""
    other = BadExamples(run.run.bad_examples.most)
    for bad, rows in ((run.run.bad_examples, own), (other, of_other)):
        for row in rows:
            bad.add("data", row, "is bad")

    def gather(values: Any) -> Any:
        numbers = other.numbers()
        is_length = [*values] == [len(run.run.bad_examples.numbers())]
        more = [-1] * (len(values) - len(numbers))
        return np.array([values, [len(numbers)] if is_length else numbers + more])

    run.workers.gather = gather  # type: ignore[method-assign]
    return run


def test_bad_examples_of_other_workers_count_after_a_resume(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"toy": Toy(), "flags": {"max_bad_examples": 3}}
    with_another(loop(tmp_path, **settings), {3}, {4, 5})._save()
    again = loop(tmp_path, resume=True, **settings)  # the other has the list of the chief now
    with_another(again, {3}, {3})._report_bad_examples(print)
    for own, of_other in (({3}, {3, 6}), ({3, 6}, set[int]())):  # in the second one process is left
        again = loop(tmp_path, resume=True, **settings)
        with pytest.raises(UsageError, match=r"^4 examples can't be read, on all workers"):
            with_another(again, own, of_other)._report_bad_examples(print)


def test_a_bad_example_of_another_worker_that_is_too_many_may_be_mended(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"toy": Toy(), "flags": {"max_bad_examples": 3}}
    for row in range(6):  # whatever their order
        path = tmp_path / str(row)
        with_another(loop(path, **settings), {row}, {7, 8, 9})._save()
        loop(path, resume=True, **settings)._report_bad_examples(print)


def test_one_bad_example_too_many_ends_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    inputs, labels = plain_data(7 * BATCH)
    bad: set[int] = set()
    toy = Toy(data=bad_rows(inputs, labels, bad))
    run = loop(tmp_path / "a", toy=toy, save_every_steps=1, steps_per_call=1)
    order = run.batches.rows(tf.range(7, dtype=tf.int64)).numpy()
    number = int(order[6, 3])  # of the seventh step
    whole = loop(tmp_path / "b", toy=toy)
    whole.train()
    bad.add(number)
    run = loop(tmp_path / "a", toy=toy, save_every_steps=1, steps_per_call=1)
    sentence = (
        rf"^Example {number} \(counted from 0\) of the training data can't be read: row {number} "
        r"is damaged\. The checkpoints so far are intact: .*--resume"
    )
    with pytest.raises(UsageError, match=sentence):
        run.train()
    assert run.step >= 1
    bad.clear()
    resumed = loop(tmp_path / "a", toy=toy, resume=True)
    resumed.train()
    for a, b in zip(resumed.run.trainable_variables, whole.run.trainable_variables, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


STALE = OSError(errno.ESTALE, os.strerror(errno.ESTALE), "rows.bin")


@pytest.mark.quick
@pytest.mark.parametrize("most", [0, 3])
@pytest.mark.parametrize("kind", ["row", "load", "load, for a moment", "stream"])
def test_storage_that_fails_for_a_moment_makes_no_example_bad(
    kind: str, most: int, tmp_path: Path
) -> None:
    inputs, labels = plain_data(2 * BATCH)
    failures = itertools.repeat(STALE)
    if kind == "load, for a moment":
        failures = iter([ValueError()])

    def example(row: int) -> Any:
        if row == BAD and (error := next(failures, None)):
            raise error
        return inputs[row], labels[row]

    class Rows:
        def __len__(self) -> int:
            return 2 * BATCH

        def __getitem__(self, row: int) -> Any:
            return example(row)

    def load(row: tf.Tensor) -> Any:
        x, y = tf.numpy_function(example, [row], [inputs.dtype, labels.dtype])
        return tf.ensure_shape(x, inputs.shape[1:]), tf.ensure_shape(y, ())

    data: Any = {"row": Rows(), "stream": None}.get(kind, RandomAccess(np.arange(2 * BATCH), load))
    if kind == "stream":
        stream = tf.data.Dataset.from_generator(
            lambda: map(example, range(2 * BATCH)),
            output_signature=(
                tf.TensorSpec(inputs.shape[1:], inputs.dtype),
                tf.TensorSpec((), labels.dtype),
            ),
        )
        data = stream.apply(tf.data.experimental.assert_cardinality(2 * BATCH))
    run = loop(tmp_path, toy=Toy(data=data), flags={"max_bad_examples": most})
    with pytest.raises(UsageError, match=r"can't be (read|loaded|made)") as found:
        run.train()
    assert code_of(found.value) == (2 if kind == "load, for a moment" and not most else 138)
    assert not run.run.bad_examples.numbers()


@pytest.mark.quick
def test_an_example_is_loaded_again_where_the_pipeline_has_loaded_it() -> None:
    devices = []

    def load(row: tf.Tensor) -> tf.Tensor:
        devices.append(tf.zeros(()).device)
        return row

    split = RandomAccess(np.arange(ROWS), load)
    with tf.device("CPU:1"):  # as by default a GPU
        assert split._may_load(BAD)
    assert devices[0].endswith("CPU:0")


def _length(number: tf.Tensor) -> tf.Tensor:
    return tf.cast(number, tf.int32)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("length", "together"), [(10, [32, 32]), (2_000, [13, 6]), (10**5, [1, 1])]
)
def test_texts_are_read_together_as_far_as_they_are_small(length: int, together: list[int]) -> None:
    texts = np.array(["x" * length] * 40, object)
    pairs = np.stack([texts[:20], texts[20:]], axis=1)
    one, two = together
    for array, number in ((texts, one), (texts.astype("S"), one), (pairs, two)):
        assert RandomAccess((array, LABELS[: len(array)]))._batches_together(40) == number


@pytest.mark.quick
@pytest.mark.parametrize(
    "labels",
    [typed_array("i", range(40)), deque(range(40)), range(40), memoryview(np.arange(40))],
    ids=["array", "deque", "range", "memory"],
)
def test_numbers_in_memory_are_arrays(labels: Any) -> None:
    assert int(random_access((IMAGES, labels))[7][1]) == 7


@pytest.mark.quick
def test_a_long_text_makes_no_room_for_the_others() -> None:
    texts = ["short"] * 10_000 + ["x" * 10_000_000]  # 400 GB as an array of texts
    assert random_access((texts, np.zeros(len(texts))))[0][0] == "short"
    assert as_example(texts).shape == (len(texts),)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("split", "sentence"),
    [
        (3, "is or holds int; it must be arrays"),
        (zip(IMAGES, LABELS, strict=True), "is or holds zip; it must be arrays"),
        ((IMAGES, LABELS, None), "is or holds NoneType; it must be arrays"),
        ([[1], [2, 3]], "holds a list whose parts have different shapes; pad them"),
        (
            tf.ragged.constant([[1], [2, 3]]),
            r"holds a RaggedTensor; make it dense, by \.to_tensor\(\)",
        ),
        (tf.sparse.eye(3), r"holds a SparseTensor; make it dense, by tf\.sparse\.to_dense"),
        ((IMAGES, np.zeros((ROWS, 0))), r"shape is \(0,\) in each example, so there is nothing"),
        (
            tf.data.Dataset.from_tensor_slices((IMAGES, np.zeros((ROWS, 3, 0)))),
            r"shape is \(3, 0\) in each example, so there is nothing",
        ),
        ((IMAGES, "cat"), "is or holds str"),
        (({"image": IMAGES, 1: LABELS}, LABELS), "holds a dict with int and str as names"),
        (tf.data.Dataset.range(9).bucket_by_sequence_length(_length, [3], [2, 2]), "of several l"),
        ((IMAGES, LABELS, LABELS.astype(str)), "Weights of create_datasets are string, not num"),
        ((IMAGES, LABELS[:5]), r"differ in length: \[5, 40\]"),
        ((IMAGES, np.zeros(ROWS, "datetime64[s]")), r"holds datetime64\[s\], which TensorFlow"),
        ((IMAGES, OfOtherLibrary(LABELS)), "holds Int64, which TensorFlow doesn't have"),
        (type("Batches", (keras.utils.PyDataset,), {})(), "PyDataset gives batches"),
        (tf.data.Dataset.range(3).repeat(), r"has no end: add \.take"),
        ([IMAGES, LABELS], "holds a list of arrays or of examples: inputs, labels and weights are"),
        ([*zip(IMAGES, LABELS, strict=True)], "holds a list of arrays or of examples"),
        ([{"x": image} for image in IMAGES], "holds a list of arrays or of examples"),
        (
            (RandomAccess(LABELS), LABELS),
            "holds a RandomAccess as one of its parts, and NumPy would read all of its rows",
        ),
        ((IMAGES, LABELS.astype(object)), "array of Python's int objects; convert it"),
        ((IMAGES, missing(None)), r"holds texts, and None in row 7 \(counted from 0\)"),
        ((IMAGES, missing(float("nan"))), "holds texts, and nan in row 7"),
        (
            (IMAGES, np.ma.masked_less(LABELS, 1)),
            "holds a masked array, and its mask would be lost",
        ),
        (tf.data.Dataset.from_tensors((1, None)), "part of type NoneTensor; leave None out"),
        (tf.data.Dataset.from_tensors(tf.sparse.eye(3)), r"SparseTensor; .* tf\.sparse\.to_dense"),
        (
            tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[[1], [2, 3]], [[4], []]])),
            r"RaggedTensor; .* by \.to_tensor\(shape=\.\.\.\) of a ragged one",
        ),
        (
            tf.data.Dataset.range(3).map(lambda i: tf.numpy_function(np.copy, [i], tf.int64)),
            r"int64 tensor of a tf\.data\.Dataset .* has an unknown shape; .* tf\.ensure_shape",
        ),
    ],
    ids=[
        "number",
        "iterator",
        "no weights",
        "lengths of rows",
        "ragged array",
        "sparse array",
        "empty",
        "empty stream",
        "text",
        "names",
        "buckets",
        "weights",
        "lengths",
        "dtype",
        "dtype of another library",
        "batches",
        "endless",
        "list of parts",
        "list of tuples",
        "list of dicts",
        "a part that is read row by row",
        "objects",
        "missing text",
        "missing text of pandas",
        "mask",
        "none",
        "sparse",
        "ragged",
        "unknown shape",
    ],
)
def test_what_is_no_split_is_refused(split: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        evaluation_batches(split, LAYOUT)


@pytest.mark.quick
def test_a_list_of_inputs_and_labels_is_named() -> None:
    split = RandomAccess(Pairs())
    with pytest.raises(
        DataError, match=r"^Example 0 .counted from 0. has a list of arrays: inputs, labels and"
    ):
        split[0]


class Pairs:
    """Each example is a list."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, row: int) -> Any:
        return [IMAGES[row], LABELS[row]]


@pytest.mark.quick
def test_an_augmentation_that_tf_function_decorates_in_two_datasets() -> None:
    flip = keras.layers.RandomFlip()

    @tf.function
    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *others = batch
        return flip(images, training=True), *others

    batches = TrainingBatches((IMAGES, LABELS), LAYOUT, augment=augment)
    (_, first), (again,) = batches.dataset(0, 2), batches.dataset(1, 2)
    tf.nest.map_structure(np.testing.assert_array_equal, first, again)


@pytest.mark.quick
def test_an_augmentation_that_forgets_shapes_is_refused() -> None:
    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        return tf.numpy_function(np.copy, [images], images.dtype), labels, weights

    batches = TrainingBatches((IMAGES, LABELS), LAYOUT, augment=augment)
    with pytest.raises(UsageError, match=r"tensor of create_augment has an unknown shape"):
        batches.dataset(0, 1)


@pytest.mark.quick
def test_an_augmentation_that_returns_more_rows_is_refused() -> None:
    def augment(batch: Any, seed: tf.Tensor) -> Any:
        return tf.nest.map_structure(lambda t: tf.concat([t, t], 0), batch)

    batches = TrainingBatches((IMAGES, LABELS), LAYOUT, augment=augment)
    with pytest.raises(
        UsageError, match=r"create_augment .* returned an array of shape .* one row"
    ):
        batches.dataset(0, 1)


@pytest.mark.quick
def test_layers_of_keras_augment_alike_when_a_batch_is_made_again() -> None:
    noise, flip = keras.layers.GaussianNoise(1.0), keras.layers.RandomFlip("horizontal")

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *rest = batch
        images = tf.cast(images, tf.float32)
        return noise(noise(flip(images, training=True), training=True), training=True), *rest

    batches = TrainingBatches((IMAGES, LABELS), LAYOUT, augment=augment)
    once, again = ([x.numpy() for x, *_ in batches.dataset(0, 2)] for _ in range(2))
    (second,) = (x.numpy() for x, *_ in batches.dataset(1, 2))
    np.testing.assert_array_equal(once, again)
    np.testing.assert_array_equal(once[1], second)
    plain = TrainingBatches((IMAGES, LABELS), LAYOUT)
    drawn = [a - x.numpy() for a, (x, *_) in zip(once, plain.dataset(0, 2), strict=True)]
    assert np.abs(drawn[0] - drawn[1]).min() > 0
    batches.require_constants()


@pytest.mark.quick
def test_layers_of_keras_augment_each_round_of_a_loop_and_what_comes_after_it() -> None:
    noise = keras.layers.GaussianNoise(1.0)

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        zeros = tf.zeros((LAYOUT.global_batch_size, 1), keras.config.floatx())
        each = tf.map_fn(lambda row: noise(row, training=True), zeros)
        return tf.concat([each, noise(zeros, training=True)], 1), *batch[1:]

    batches = TrainingBatches((IMAGES, LABELS), LAYOUT, augment=augment)
    once, again = ([x.numpy() for x, *_ in batches.dataset(0, 2)] for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert len(np.unique(once)) == np.size(once)


@pytest.mark.quick
@pytest.mark.parametrize("decorate", [lambda augment: augment, tf.function], ids=["no", "yes"])
def test_a_function_that_would_keep_its_random_numbers_is_refused(decorate: Any) -> None:
    flip = keras.layers.RandomFlip()

    @tf.function
    def view(images: tf.Tensor) -> Any:
        return flip(images, training=True)

    @decorate
    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *others = batch
        return {"a": view(images), "b": view(images)}, *others

    batches = TrainingBatches((IMAGES, LABELS), LAYOUT, augment=augment)
    with pytest.raises(UsageError, match=r"^The augmentation calls view, .* first call; [^;]*\.$"):
        batches.dataset(0, 1)


@pytest.mark.quick
def test_a_variable_that_an_augmentation_reads_must_stay(tmp_path: Path) -> None:
    strength = tf.Variable(1.0, name="strength")

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, *rest = batch
        return inputs * tf.cast(strength, inputs.dtype), *rest

    toy = Toy(augment=augment)
    loop(tmp_path / "same", [every_steps(2, lambda event: None)], toy=toy).train()

    def change(event: Event) -> None:
        strength.assign(0.5)
        assert event.batch  # which makes it anew

    run = loop(tmp_path / "other", [every_steps(2, change)], toy=toy)
    with pytest.raises(UsageError, match=r"A variable that create_augment .* reads has changed"):
        run.train()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("rows", "selected"),
    [
        ([3, 0, 3], [3, 0, 3]),
        (np.arange(ROWS) % 2 == 0, list(range(0, ROWS, 2))),
        ([], []),
        (np.array([], int), []),
    ],
)
def test_examples_are_selected_by_number_or_mask(rows: Any, selected: list[int]) -> None:
    split = RandomAccess((IMAGES, LABELS)).select(rows)
    assert len(split) == len(selected)
    np.testing.assert_array_equal(split.arrays[1], LABELS[selected])


@pytest.mark.quick
@pytest.mark.parametrize("rows", [[0, ROWS], [-1], [1.0], [True, False], 3, [[0]], ["0"]])
def test_rows_that_are_not_there_are_refused(rows: Any) -> None:
    with pytest.raises(UsageError, match=r"The rows to select are .*; they must be numbers of"):
        RandomAccess((IMAGES, LABELS)).select(rows)


@pytest.mark.quick
def test_a_worker_makes_its_own_shard_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "num_workers", lambda: 2)
    monkeypatch.setattr(cluster, "worker_index", lambda: 1)
    made: list[int] = []

    def split(workers: int, index: int) -> Any:
        made.append(index)
        return IMAGES[index::workers]

    layout = BatchLayout(4, 2, 1, 1)
    next(iter(TrainingBatches(split, layout).dataset(0, 1)))
    evaluation_batches(split, layout)
    assert made == [1]


@pytest.mark.quick
@pytest.mark.parametrize("rows", [np.arange(12), tf.data.Dataset.range(12)], ids=["rows", "stream"])
def test_the_shards_of_two_workers_are_each_in_an_order_of_its_own(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one order for all, the same rows of the shards would meet in each epoch."""
    orders, seeds = [], []
    monkeypatch.setattr(cluster, "num_workers", lambda: 2)
    for worker in range(2):
        monkeypatch.setattr(cluster, "worker_index", lambda worker=worker: worker)

        def augment(batch: Any, seed: tf.Tensor) -> Any:
            return (batch[0] + 0 * seed[1], tf.repeat(seed[None], 2, 0), batch[-1])

        batches = TrainingBatches(lambda *_: rows, BatchLayout(4, 2, 1, 1), augment=augment)
        made = [(x.numpy().ravel(), seed.numpy()) for x, seed, _ in batches.dataset(0, 6)]
        orders.append(np.concatenate([x for x, _ in made]))
        seeds.append(np.stack([seed.reshape(-1, 2)[0] for _, seed in made]))
    assert not np.array_equal(*orders)
    assert np.array_equal(*map(np.sort, orders))
    assert seeds[0][0, 0] != seeds[1][0, 0]
    for of_worker in seeds:
        np.testing.assert_array_equal(of_worker[:, 1], range(6))  # the steps


@pytest.mark.quick
def test_the_order_of_an_endless_stream_does_not_depend_on_the_length_of_the_run() -> None:
    endless = tf.data.Dataset.range(300).repeat()
    short, long = (TrainingBatches(endless, LAYOUT, steps=steps) for steps in (20, 40))
    for a, b in zip(short.dataset(0, 20), long.dataset(0, 20), strict=True):
        np.testing.assert_array_equal(a[0], b[0])


@pytest.mark.quick
@pytest.mark.parametrize("again", [True, False])
def test_a_stream_in_another_order_each_time_is_named(
    again: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = tf.data.Dataset.range(ROWS).shuffle(5, seed=1, reshuffle_each_iteration=again)
    TrainingBatches(stream.map(lambda i: i + 1), LAYOUT)
    assert ("another order each time it is read" in capsys.readouterr().out) == again


@pytest.mark.quick
def test_numbered_rows_of_a_mapping_are_rows() -> None:
    split = UserDict(enumerate(IMAGES[:3]))
    assert len(random_access(split)) == 3


@pytest.mark.quick
def test_an_open_archive_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=IMAGES)
    with (
        np.load(tmp_path / "data.npz") as archive,
        pytest.raises(UsageError, match=r"dict\(np\.load"),
    ):
        evaluation_batches((archive, LABELS), LAYOUT)


def _shuffled(start: tf.Tensor) -> tf.data.Dataset:
    return tf.data.Dataset.range(start, start + 3).shuffle(3)


def _in_no_order() -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = False
    return options


@pytest.mark.quick
@pytest.mark.parametrize(
    "made",
    [
        lambda plain: tf.data.Dataset.zip((plain, plain.shuffle(5))),
        lambda plain: plain.concatenate(plain.shuffle(5).map(lambda i: i + 1)),
        lambda plain: tf.data.Dataset.sample_from_datasets([plain, plain.shuffle(5)], seed=1),
        lambda plain: tf.data.Dataset.zip(
            (plain, tf.data.Dataset.random(rerandomize_each_iteration=True))
        ),
        lambda plain: plain.flat_map(_shuffled),
        lambda plain: plain.flat_map(lambda i: tf.data.Dataset.range(2).flat_map(_shuffled)),
        lambda plain: plain.map(lambda i: i + 1, num_parallel_calls=2, deterministic=False),
        lambda plain: plain.with_options(_in_no_order()).map(lambda i: i + 1),
    ],
)
def test_an_order_may_change_anywhere_in_a_stream(
    made: Callable[[tf.data.Dataset], tf.data.Dataset], capsys: pytest.CaptureFixture[str]
) -> None:
    def sized(stream: tf.data.Dataset) -> tf.data.Dataset:
        return stream.apply(tf.data.experimental.assert_cardinality(ROWS))

    tf.random.set_seed(None)  # with one, as of another test, functions draw the same order
    plain = tf.data.Dataset.range(ROWS)
    TrainingBatches(sized(made(plain)), LAYOUT)
    assert "another order each time it is read" in capsys.readouterr().out


@pytest.mark.quick
@pytest.mark.parametrize(
    "made",
    [
        lambda plain: plain.interleave(tf.data.Dataset.from_tensors, num_parallel_calls=2),
        lambda plain: tf.data.Dataset.zip((plain, plain.filter(lambda i: i > 0))),
        lambda plain: plain.shuffle(5, seed=1).cache(),
        lambda plain: plain.flat_map(lambda i: tf.data.Dataset.range(3).shuffle(3, seed=1)),
        lambda plain: tf.data.Dataset.sample_from_datasets([plain, plain], seed=1),
    ],
)
def test_an_order_that_stays_is_not_questioned(
    made: Callable[[tf.data.Dataset], tf.data.Dataset], capsys: pytest.CaptureFixture[str]
) -> None:
    stream = made(tf.data.Dataset.range(ROWS))
    stream = stream.apply(tf.data.experimental.assert_cardinality(ROWS))
    TrainingBatches(stream, LAYOUT)
    assert not capsys.readouterr().out


@pytest.mark.quick
def test_several_workers_read_a_stream_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = tf.data.Dataset.range(ROWS).shuffle(5)
    evaluation_batches(stream, LAYOUT, label="test data")  # a worker by itself
    monkeypatch.setattr(cluster, "num_workers", lambda: 2)
    for read in (TrainingBatches, partial(evaluation_batches, label="test data")):
        with pytest.raises(UsageError, match="data is a stream that comes in another order"):
            read(stream, LAYOUT)
        read(lambda workers, index: stream.shard(workers, index), LAYOUT)


@pytest.mark.quick
@pytest.mark.parametrize("most", [0, 3])
def test_a_load_may_return_python_numbers(most: int) -> None:
    def load(row: tf.Tensor) -> Any:
        return tf.gather(IMAGES, row), tf.gather(LABELS, row), 0.5

    split = RandomAccess(np.arange(ROWS), load)
    batches = TrainingBatches(split, LAYOUT, bad=BadExamples(most))
    *_, weights = next(iter(batches.dataset(0, 1)))
    assert set(weights.numpy().ravel()) == {0.5}


@pytest.mark.quick
def test_an_endless_stream_is_one_epoch_as_long_as_the_run(tmp_path: Path) -> None:
    inputs, labels = plain_data(BATCH)
    endless = tf.data.Dataset.from_tensor_slices((inputs, labels)).repeat()
    with pytest.raises(UsageError, match="training data may be endless if --steps says how long"):
        build(Toy(data=endless))
    run = loop(tmp_path, toy=Toy(data=endless), flags={"steps": 5}, num_steps=5)
    assert run.batches.steps_per_epoch == 5
    run.train()
    assert (run.step, run.epoch) == (5, 1)


@pytest.mark.quick
def test_resuming_a_stream_says_what_is_read_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, labels = plain_data(7 * BATCH)
    stream = tf.data.Dataset.from_tensor_slices((inputs, labels))
    said = {}
    for name, data in {"stream": stream, "arrays": (inputs, labels)}.items():
        toy = Toy(data=data)
        loop(tmp_path / name, toy=toy, num_steps=3).train()
        capfd.readouterr()
        loop(tmp_path / name, toy=toy, num_steps=9, resume=True)
        said[name] = capfd.readouterr().out
    assert f"{3 * BATCH} examples are read and thrown away; RandomAccess" in said["stream"]
    assert "thrown away" not in said["arrays"]
    monkeypatch.setattr(Workers, "alone", False)
    loop(tmp_path / "stream", toy=Toy(data=stream), num_steps=9, resume=True)
    assert "thrown away, which may take no worker --hang-timeout longer" in capfd.readouterr().out


@pytest.mark.quick
def test_waiting_for_data_is_measured(tmp_path: Path) -> None:
    inputs, labels = plain_data(4 * BATCH)

    class Slow:
        def __len__(self) -> int:
            return len(inputs)

        def __getitem__(self, row: int) -> Any:
            time.sleep(0.3 / BATCH)
            return inputs[row], labels[row]

    waited = {}
    for name, data in {"slow": Slow(), "fast": (inputs, labels)}.items():
        built = build(Toy(data=data))
        iterator, progress = built.iterator(0, 8), built.steps.start()
        progress = built.steps.distributed_train_step(iterator, 1, progress)
        before = float(built.steps.secs_waited)
        built.steps.distributed_train_step(iterator, 6, progress).step.numpy()
        waited[name] = float(built.steps.secs_waited) - before
    assert waited["slow"] > 0.2
    assert waited["slow"] > 5 * waited["fast"]


@pytest.mark.quick
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("mixes", [False, True])
def test_a_worker_augments_its_own_rows(mixes: bool, accumulate: int) -> None:
    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        noise = tf.random.stateless_uniform((12, 1, 1), seed)
        return images + tf.cast(255 * noise, images.dtype), labels, weights

    def batches(first: int, local: int, augment: Any) -> tuple[Source, list[Any]]:
        source, layout = Source(), BatchLayout(12, 2, first, local, accumulate)
        training = TrainingBatches(source, layout, seed=3, augment=augment)
        return source, list(training.dataset(0, 5).as_numpy_iterator())

    whole = batches(0, 2, augment)[1]
    for first, local in ((0, 1), (1, 1), (0, 2)):
        source, part = batches(first, local, augment if mixes else per_example(partial(augment)))
        read = 12 if mixes else 6 * local
        assert len(source.read) == 5 * read + 1  # the first for shapes and dtypes
        for found, wanted in zip(part, whole, strict=True):
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(a, b[first : first + local])


WORKER = """
import json
import engine
from proof.engine.strategy import create_strategy

strategy = create_strategy("multi_worker")  # before any operation
from engine.test_random_access import Source
from proof.engine.batches import TrainingBatches, create_layout

source, layout = Source(), create_layout(strategy, 12)
batches = TrainingBatches(source, layout, seed=3)
labels = [labels.numpy().ravel().tolist() for _, labels, _ in batches.dataset(0, 6)]
rows = sorted(source.read[1:])  # without the first, for shapes and dtypes
print(json.dumps({"rows": rows, "labels": labels, "replicas": strategy.num_replicas_in_sync}))
"""


def test_two_processes_read_their_own_rows_only() -> None:
    ports = [_free_port(), _free_port()]
    workers = []
    for index in range(2):
        task = {"cluster": {"worker": [f"127.0.0.1:{p}" for p in ports]},
                "task": {"type": "worker", "index": index}}  # fmt: skip
        workers.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER], cwd=Path(__file__).parents[1],
                env=os.environ | {"TF_CONFIG": json.dumps(task), "CUDA_VISIBLE_DEVICES": ""},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    found = []
    try:
        for worker in workers:
            out, err = worker.communicate(timeout=120)
            assert worker.returncode == 0, err[-2000:]
            found.append(json.loads(out.splitlines()[-1]))
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    alone = TrainingBatches(Source(), BatchLayout(12, 1, 0, 1), seed=3)
    order = alone.rows(tf.range(6, dtype=tf.int64)).numpy()
    for index in range(2):
        assert found[index]["replicas"] == 2
        assert found[index]["rows"] == sorted(order[:, 6 * index : 6 * (index + 1)].ravel())
    together = np.concatenate([np.array(each["labels"]) for each in found], axis=1)
    np.testing.assert_array_equal(together, LABELS[order])


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.mark.quick
def test_records_that_end_with_zeros_are_read_whole() -> None:
    records = [b"a\0\0", b"\0", b"bc"]

    class Rows:
        def __len__(self) -> int:
            return len(records)

        def __getitem__(self, row: int) -> bytes:
            return records[row]

    for source in (Rows(), records, [record.decode() for record in records]):
        split = RandomAccess(source, lambda record: (record, tf.strings.length(record)))
        batches, _ = evaluation_batches(split, BatchLayout(3, 1, 0, 1))
        found, lengths, _ = next(batches.as_numpy_iterator())
        assert (found[0].tolist(), lengths[0].tolist()) == (records, [3, 1, 2])


@pytest.mark.quick
def test_arrays_on_disk_need_no_len() -> None:
    class Array:  # as of Zarr 3
        shape, dtype = (7, 2), np.dtype("float32")

        def __getitem__(self, row: int) -> np.ndarray:
            return np.full(2, row, np.float32)

    rows = RandomAccess((Array(), np.arange(7)))
    assert len(rows) == 7
    assert [int(x[0]) for x, _ in rows.select([5, 6])] == [5, 6]


@pytest.mark.quick
def test_python_is_not_asked_for_many_batches_at_once() -> None:
    sizes: list[int] = []

    class Files(Source):  # a row may be a whole file
        def __getitems__(self, rows: list[int]) -> list[bytes]:
            sizes.append(len(rows))
            return [b"file"] * len(rows)

        def __getitem__(self, row: int) -> bytes:
            return b"file"

    for load in (None, tf.strings.length):
        batches = TrainingBatches(RandomAccess(Files(), load), LAYOUT).dataset(0, 9)
        assert len(list(batches)) == 9
    assert set(sizes) == {LAYOUT.global_batch_size}
