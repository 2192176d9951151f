"""What data.py measures, each in a process of its own: pipelines.py FUNCTION ARGUMENTS

The current directory is where data is written. Prints what the function gives as JSON.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from bench_project import run as project_run
from bench_project.config import Config
from bench_project.engine.batches import BatchLayout, TrainingBatches, evaluation_batches
from bench_project.engine.random_access import RandomAccess
from bench_project.engine.strategy import create_strategy
from bench_project.task.config import TaskConfig
from turns import Loop, choose_steps, take_turns

BATCH, CLASSES = 64, 10
IMAGE, COLUMNS = (32, 32, 3), tuple(f"column_{i}" for i in range(8))
LAYOUT = BatchLayout(BATCH, 1, 0, 1)
MANY = 2**40  # steps; no loop comes to the end
WINDOW = 10_000  # examples in the shuffle buffer of a stream, ours as theirs
PAUSE = 0.2
STEPS_PER_EXECUTION = 20


class Kind(NamedTuple):
    """Data, and who reads it."""

    split: Any  # what create_datasets would return
    plain: tf.data.Dataset  # (inputs, labels), batched, without end
    tabular: bool = False


def pictures(rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images uint8 (n, *IMAGE) and labels int64 (n,), a thousand or fewer at a time."""
    generator = np.random.default_rng(0)
    for first in range(0, rows, 1000):
        n = min(1000, rows - first)
        yield generator.integers(0, 256, (n, *IMAGE), "uint8"), generator.integers(0, CLASSES, n)


def shuffled_rows(rows: int, read: Callable[..., Any]) -> tf.data.Dataset:
    """Plain tf.data by row number: `read` is given those of a batch."""
    numbers = tf.data.Dataset.range(rows).shuffle(rows).repeat().batch(BATCH, drop_remainder=True)
    return numbers.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def memory_map(rows: int) -> Kind:
    """Images in a file that is mapped to memory, labels in memory."""
    images = np.lib.format.open_memmap("images.npy", "w+", "uint8", (rows, *IMAGE))
    labels = np.empty(rows, np.int64)
    for i, (some, theirs) in enumerate(pictures(rows)):
        images[1000 * i : 1000 * i + len(some)] = some
        labels[1000 * i : 1000 * i + len(some)] = theirs
    images.flush()
    images = np.load("images.npy", mmap_mode="r")

    def read(numbers: tf.Tensor) -> Any:
        def take(numbers: np.ndarray) -> Any:
            return images[numbers], labels[numbers]

        x, y = tf.numpy_function(take, [numbers], [tf.uint8, tf.int64])
        return tf.ensure_shape(x, (BATCH, *IMAGE)), tf.ensure_shape(y, (BATCH,))

    return Kind((images, labels), shuffled_rows(rows, read))


def image_files(rows: int) -> Kind:
    """A PNG file for each image."""
    names, labels = [], []
    Path("images").mkdir()
    for image, label in ((i, y) for some in pictures(rows) for i, y in zip(*some, strict=True)):
        names.append(f"images/{len(names)}.png")
        labels.append(label)
        keras.utils.save_img(names[-1], image, scale=False)

    def load(row: Any) -> Any:
        name, label = row
        return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(name), 3), IMAGE), label

    plain = tf.data.Dataset.from_tensor_slices((names, labels)).shuffle(rows).repeat()
    plain = plain.map(lambda *row: load(row), num_parallel_calls=tf.data.AUTOTUNE)
    plain = plain.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return Kind(RandomAccess((names, np.array(labels)), load), plain)


def arrow_table(rows: int) -> Any:
    """A Parquet file, written to an Arrow file once, which is mapped to memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(0)
    columns = {name: generator.random(rows, "float32") for name in COLUMNS}
    labels = generator.integers(0, CLASSES, rows)
    pq.write_table(pa.table({**columns, "label": labels}), "table.parquet")
    table = pq.read_table("table.parquet").combine_chunks()
    with pa.OSFile("table.arrow", "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_file(pa.memory_map("table.arrow")).read_all()


def batch_of_columns(take: Callable[..., Any]) -> Callable[..., Any]:
    """`take` for tf.data: it gives the columns and the labels, each (batch,)."""

    def read(numbers: tf.Tensor) -> Any:
        dtypes = [*(tf.float32 for _ in COLUMNS), tf.int64]
        taken = [tf.ensure_shape(t, (BATCH,)) for t in tf.numpy_function(take, [numbers], dtypes)]
        return dict(zip(COLUMNS, taken, strict=False)), taken[-1]

    return read


def parquet(rows: int) -> Kind:
    """The columns of a table as arrays that are mapped to memory."""
    table = arrow_table(rows)
    columns = {name: table[name].chunk(0).to_numpy(zero_copy_only=True) for name in COLUMNS}
    labels = table["label"].chunk(0).to_numpy(zero_copy_only=True)
    arrays = (*columns.values(), labels)
    read = batch_of_columns(lambda numbers: [array[numbers] for array in arrays])
    return Kind((columns, labels), shuffled_rows(rows, read), tabular=True)


class Rows:
    """The rows of an Arrow table, several at once."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __len__(self) -> int:
        """How many there are."""
        return int(self.table.num_rows)

    def __getitem__(self, row: int) -> Any:
        """One row: columns, label."""
        columns, labels = self.__getitems__([row])
        return {name: column[0] for name, column in columns.items()}, labels[0]

    def __getitems__(self, rows: list[int]) -> Any:
        """Some rows: columns and labels, each (rows,)."""
        taken = self.table.take(rows)
        return {name: taken[name].to_numpy() for name in COLUMNS}, taken["label"].to_numpy()


def parquet_take(rows: int) -> Kind:
    """The rows of a table, given by pyarrow some at a time."""
    table = arrow_table(rows)

    def take(numbers: np.ndarray) -> list[np.ndarray]:
        taken = table.take(numbers)
        return [taken[name].to_numpy() for name in (*COLUMNS, "label")]

    return Kind(Rows(table), shuffled_rows(rows, batch_of_columns(take)), tabular=True)


def stream(rows: int, shards: int) -> Kind:
    """TFRecord files."""
    files = [f"{shard}.tfrecord" for shard in range(shards)]
    writers = [tf.io.TFRecordWriter(file) for file in files]
    examples = ((i, y) for some in pictures(rows) for i, y in zip(*some, strict=True))
    for writer, (image, label) in zip(itertools.cycle(writers), examples, strict=False):
        feature = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        writer.write(example.SerializeToString())
    for writer in writers:
        writer.close()
    form = {"image": tf.io.FixedLenFeature((), tf.string)}
    form["label"] = tf.io.FixedLenFeature((), tf.int64)

    def parse(record: tf.Tensor) -> Any:
        example = tf.io.parse_single_example(record, form)
        image = tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), IMAGE)
        return image, example["label"]

    autotune = tf.data.AUTOTUNE
    records = tf.data.TFRecordDataset(files, num_parallel_reads=autotune if shards > 1 else None)
    split = records.map(parse, num_parallel_calls=autotune)
    split = split.apply(tf.data.experimental.assert_cardinality(rows))
    plain = records.shuffle(WINDOW).repeat().map(parse, num_parallel_calls=autotune)
    return Kind(split, plain.batch(BATCH, drop_remainder=True).prefetch(autotune))


KINDS: dict[str, Callable[[int], Kind]] = {
    "memory_map": memory_map,
    "image_files": image_files,
    "parquet": parquet,
    "parquet_take": parquet_take,
    "stream_1": lambda rows: stream(rows, 1),
    "stream_10": lambda rows: stream(rows, 10),
}


def trivial_model(tabular: bool) -> keras.Model:
    """Hardly more than the reading of its inputs."""
    layers = keras.layers
    if tabular:
        inputs = {name: keras.Input((), name=name) for name in COLUMNS}
        columns = [layers.Reshape((1,))(part) for part in inputs.values()]
        return keras.Model(inputs, layers.Dense(CLASSES)(layers.Concatenate()(columns)))
    means = [layers.Rescaling(1 / 255), layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)]
    return keras.Sequential([keras.Input(IMAGE), *means])


def only_read(dataset: tf.data.Dataset) -> Loop:
    """Takes batches and does nothing with them."""
    iterator = iter(dataset)

    @tf.function(autograph=False)
    def read(num_steps: tf.Tensor) -> tf.Tensor:
        def once(i: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies(tf.nest.flatten(next(iterator))):
                return i + 1

        return tf.while_loop(lambda i: i < num_steps, once, (tf.constant(0),))

    return lambda num_steps: read(tf.constant(num_steps))[0].numpy()


def our_training(kind: Kind) -> Loop:
    """The project's own train steps with the trivial model."""
    factories = {
        "create_augment": lambda task: None,
        "adapt": lambda task, datasets: {},
        "create_model": lambda task, adapted: trivial_model(kind.tabular),
        "create_optimizer": lambda task, steps: keras.optimizers.SGD(),
    }
    config = Config(global_batch_size=BATCH)
    with mock.patch.multiple(project_run, **factories):
        made = project_run.create_run(
            create_strategy(), {"train": kind.split}, config, TaskConfig()
        )
    _, steps, batches = made
    iterator, progress = iter(batches.dataset(0, MANY)), steps.start()

    def loop(num_steps: int) -> None:
        nonlocal progress
        progress = steps.distributed_train_step(iterator, num_steps, progress)
        progress.latest.losses.numpy()

    return loop


def fit(kind: Kind) -> Loop:
    """Keras' own loop on plain tf.data; makes multiples of STEPS_PER_EXECUTION."""
    model = trivial_model(kind.tabular)
    model.compile(
        optimizer=keras.optimizers.SGD(),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
        steps_per_execution=STEPS_PER_EXECUTION,
        jit_compile=False,
    )

    def loop(num_steps: int) -> None:
        model.fit(kind.plain, steps_per_epoch=num_steps, epochs=1, verbose=0)

    return loop


def speed(name: str, rows: str, rounds: str, difference: str) -> dict[str, Any]:
    """The turns of each loop on one kind of data."""
    kind = KINDS[name](int(rows))
    ours = TrainingBatches(kind.split, LAYOUT).dataset(0, MANY)
    loops = {
        "ours": only_read(ours),
        "plain": only_read(kind.plain),
        "our training": our_training(kind),
        "fit": fit(kind),
    }
    steps = {
        name: choose_steps(loop, float(difference), STEPS_PER_EXECUTION)
        for name, loop in loops.items()
    }
    return {**take_turns(loops, steps, int(rounds), float(difference), PAUSE)}


class Squares:
    """So many rows, none of which is stored."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """How many there are."""
        return self.rows

    def __getitem__(self, row: int) -> Any:
        """Row and square."""
        return np.float32(row), np.float32(row) ** 2


def status(*names: str) -> list[float]:
    """Entries of /proc/self/status in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    entries = dict(line.split(":", 1) for line in lines)
    return [int(entries[name].split()[0]) / 1024 for name in names]


def start(kind: str, rows: str, step: str, rounds: str) -> dict[str, Any]:
    """Seconds to the first batch of a run, and of one that is resumed at `step`; MiB they add."""
    number = int(rows)
    # All rows of the array are one and the same: no memory could hold a billion.
    array = np.broadcast_to(np.zeros(8, np.float32), (number, 8))
    split: Any = Squares(number) if kind == "object" else (array, array[:, 0])

    def first_batch(step: int) -> float:
        started = time.perf_counter()
        batches = TrainingBatches(split, LAYOUT)
        next(iter(batches.dataset(step, MANY)))
        return time.perf_counter() - started

    first_batch(0)
    before = status("VmRSS")[0]
    taken = [(first_batch(0), first_batch(int(step))) for _ in range(int(rounds))]
    return {
        "start": [s for s, _ in taken],
        "resume": [r for _, r in taken],
        "memory": status("VmRSS")[0] - before,
    }


def memory(kind: str, megabytes: str) -> dict[str, Any]:
    """Memory after start as a multiple of the data: all of it, and without mapped files."""
    rows, ones = int(megabytes) * 2**20 // int(np.prod(IMAGE)), np.ones((1000, *IMAGE), "uint8")

    def open_pipelines(images: Any, labels: np.ndarray) -> list[Any]:
        split = (images, labels)
        made = [TrainingBatches(split, LAYOUT).dataset(0, MANY)]
        # Of evaluation, and of predictions, which are given inputs only.
        made += [evaluation_batches(s, LAYOUT)[0] for s in (split, images)]
        iterators = [iter(dataset) for dataset in made]
        for iterator in iterators:
            for _ in range(100):
                next(iterator)
        return iterators

    def write() -> None:
        array = np.lib.format.open_memmap("ones.npy", "w+", "uint8", (rows, *IMAGE))
        for first in range(0, rows, 1000):
            array[first : first + 1000] = ones[: rows - first]
        array.flush()

    small = np.ones((10_000, *IMAGE), "uint8")
    opened = open_pipelines(small, np.zeros(len(small), np.int64))  # TensorFlow's own memory
    if kind == "map":
        write()
    before = status("VmRSS", "RssAnon")
    images = np.load("ones.npy", mmap_mode="r") if kind == "map" else np.ones((rows, *IMAGE), "u1")
    opened += open_pipelines(images, np.zeros(rows, np.int64))
    time.sleep(1)
    size = images.nbytes / 2**20
    all_, anonymous = (
        (b - a) / size for a, b in zip(before, status("VmRSS", "RssAnon"), strict=True)
    )
    return {"all": all_, "anonymous": anonymous}


if __name__ == "__main__":
    functions = {function.__name__: function for function in (speed, start, memory)}
    print(json.dumps(functions[sys.argv[1]](*sys.argv[2:])), flush=True)
    # The interpreter's own exit hangs while tf.data is reading in Python (TF 2.21).
    os._exit(0)
