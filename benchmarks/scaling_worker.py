"""One worker of scaling.py: makes what it is told, and prints how many seconds that took.

Started with TF_CONFIG; PYTHONPATH holds a rendered project. Each line of standard input is JSON, a
kind of measurement with its arguments; all workers get the same lines.
"""

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from bench_project import run as project_run
from bench_project.config import Config
from bench_project.engine import cluster
from bench_project.engine.gradients import sum_over_replicas
from bench_project.engine.workers import Workers
from bench_project.task.config import TaskConfig

PARTS = 10  # gradients in a sum
CLASSES = 10

strategy = (
    tf.distribute.MultiWorkerMirroredStrategy()  # before any operation
    if cluster.num_workers() > 1
    else tf.distribute.get_strategy()
)
workers = Workers(strategy)


def repeat(body: Callable[[Any], Any], carried: Any) -> Callable[[int], None]:
    """A loop in one graph call, which hands what `body` returns to the next turn."""

    @tf.function(autograph=False)
    def loop(number: tf.Tensor, carried: Any) -> Any:
        def once(i: tf.Tensor, carried: Any) -> Any:
            return i + 1, strategy.run(body, args=(carried,))

        return tf.while_loop(lambda i, _: i < number, once, (0, carried))[1]

    return lambda number: tf.nest.map_structure(
        lambda t: t[:1].numpy(), loop(tf.constant(number), carried)
    )


@functools.cache
def sums(num_bytes: int) -> Callable[[int], None]:
    """Sums of so many bytes of float32, as the engine makes them; zeros stay zeros."""
    size = max(1, num_bytes // 4 // PARTS)
    return repeat(sum_over_replicas, [tf.zeros(size) for _ in range(PARTS)])


@functools.cache
def agreements() -> Callable[[int], None]:
    """The small sum of each graph call, from Python to Python."""

    def loop(number: int) -> None:
        for _ in range(number):
            workers.gather([0.0] * 4)

    return loop


class Sleep(keras.layers.Layer):
    """Hands on what it gets; its backward pass takes some seconds in which the CPU is idle."""

    def __init__(self, secs: float) -> None:
        super().__init__()
        self.secs = secs

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """The inputs."""

        def sleep(upstream: np.ndarray) -> np.ndarray:
            time.sleep(self.secs)
            return upstream

        @tf.custom_gradient
        def same(x: tf.Tensor) -> Any:
            def backward(upstream: tf.Tensor) -> tf.Tensor:
                slept = tf.numpy_function(sleep, [upstream], upstream.dtype)
                return tf.ensure_shape(slept, upstream.shape)

            return tf.identity(x), backward

        return same(inputs)


@functools.cache
def steps(layers: int, width: int, secs: float, bucket_mb: float) -> Callable[[int], None]:
    """Whole steps of the engine, with SGD, on square dense layers and 8 rows on each worker.

    With `secs`, the backward pass of each layer sleeps first, as one on a GPU leaves the CPU alone.
    """
    inputs, labels = np.ones((64, width), "float32"), np.zeros(64, "int64")

    def create_model(task: TaskConfig, adapted: dict[str, Any]) -> keras.Model:
        keras.utils.set_random_seed(0)
        body: list[Any] = [keras.Input((width,))]
        for _ in range(layers):
            body += [keras.layers.Dense(width, "relu"), *([Sleep(secs)] if secs else [])]
        return keras.Sequential([*body, keras.layers.Dense(CLASSES)])

    factories = {
        "create_augment": lambda task: None,
        "create_model": create_model,
        "create_optimizer": lambda task, steps: keras.optimizers.SGD(1e-3),
    }
    config = Config(batch_size_per_replica=8, bucket_mb=bucket_mb)
    with mock.patch.multiple(project_run, **factories):
        _, distributed, batches = project_run.create_run(
            strategy, {"train": (inputs, labels)}, config, TaskConfig()
        )
    first = next(iter(batches.dataset(0, 1)))
    iterator = iter(tf.data.Dataset.from_tensors(first).repeat())  # no input is measured
    progress = distributed.start()

    def loop(number: int) -> None:
        nonlocal progress
        progress = distributed.distributed_train_step(iterator, number, progress)
        progress.latest.losses.numpy()

    return loop


def main() -> None:
    """Answer each line with the seconds it took; the first time of a kind isn't counted."""
    out, sys.stdout = sys.stdout, sys.stderr
    print("ready", file=out, flush=True)
    makers = {"sum": sums, "agreement": agreements, "step": steps}
    for line in sys.stdin:
        kind, arguments, number = json.loads(line)
        loop = makers[kind](*arguments)
        workers.wait()
        started = time.perf_counter()
        loop(number)
        print(time.perf_counter() - started, file=out, flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
