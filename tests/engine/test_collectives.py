"""Gradients cross the replicas once in an update: counted in the graph of a train step."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import keras
import pytest
import tensorflow as tf
from proof.engine import gradients
from proof.engine.gradients import buckets
from tensorflow.python.ops import custom_gradient

from .toys import CLASSES, FEATURES, Toy, differences, train

TENSORS = 5  # kernel and bias of two layers, and the loss

# In a process of its own: MirroredStrategy with collective operations needs other devices.
SCRIPT = """
import sys
from collections import Counter
import engine
import keras
import tensorflow as tf
from engine import toys
from engine.worked import GAN

toys.strategy_of = lambda replicas: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
toy, flags = {
    "gan": (GAN, {}),
    "accumulate": (toys.Toy(), {"accumulate": 4}),
    "buckets": (toys.Toy(), {"bucket_mb": 1e-6}),
}.get(sys.argv[1], (toys.Toy(), {}))
built = toys.build(toy, 2, **flags)
iterator = built.iterator(0, 2)
built.steps.distributed_train_step(iterator, 1, built.steps.start())
(function,) = built.steps._graphs.values()
graph = function.get_concrete_function(
    iterator, tf.constant(1, tf.int64), built.steps.start()
).graph.as_graph_def()
nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
for node in nodes:
    if node.op.startswith("Collective") and "Reduce" in node.op:
        print("collective", tf.as_dtype(node.attr["T"].type).name, node.op)
"""


@pytest.mark.parametrize(
    ("case", "updates"), [("plain", 1), ("accumulate", 1), ("gan", 2), ("buckets", TENSORS)]
)
def test_gradients_cross_the_replicas_once_in_an_update(case: str, updates: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, case],
        cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = Counter(
        line.split()[1] for line in done.stdout.splitlines() if line.startswith("collective")
    )
    # On each of two replicas the vector of losses and gradients, or one for each bucket. (The count
    # of examples, an int32, is summed beside it; within one process that takes no collective
    # operation, TF 2.21.)
    floats = {dtype: n for dtype, n in found.items() if dtype.startswith("float")}
    assert floats == {"float64": 2 * updates}


def test_gradients_in_buckets_train_like_one_vector() -> None:
    several = train(Toy(), 2, bucket_mb=1e-4)
    assert several.built.steps.bucket_bytes == 100
    assert set(differences(train(Toy(), 2), several).values()) == {0.0}
    assert max(differences(train(Toy(), 1), several).values()) < 1e-12


def test_the_last_gradients_travel_first() -> None:
    single, double = tf.float32, tf.float64
    assert buckets([single] * 4, [10, 30, 5, 20], 25) == [[2, 3], [1], [0]]
    assert buckets([single] * 4, [10, 30, 5, 20], 0) == [[0, 1, 2, 3]]
    assert buckets([single, double, single], [8, 8, 8], 16) == [[0, 2], [1]]


def test_no_bucket_is_larger_than_tensorflow_can_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "LARGEST_BUCKET", 3)
    assert buckets([tf.float32] * 4, [4, 8, 4, 4], 0) == [[2, 3], [0, 1]]
    assert buckets([tf.float64, tf.float64], [16, 80], 0) == [[1], [0]]  # a sum without a split


def test_a_synchronized_layer_does_not_walk_through_the_other_replicas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    walk = custom_gradient.op_selector.get_backward_walk_ops
    found: list[int] = []

    def recorded(*arguments: object, **options: object) -> object:
        operations = walk(*arguments, **options)
        found.append(len(operations))
        return operations

    def deep() -> keras.Model:
        layers = [
            layer
            for _ in range(4)
            for layer in (keras.layers.Dense(FEATURES), keras.layers.BatchNormalization())
        ]
        return keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(CLASSES)])

    monkeypatch.setattr(custom_gradient.op_selector, "get_backward_walk_ops", recorded)
    train(Toy(model=deep), 2, steps=1, steps_per_call=1)
    assert found
    assert max(found) < 20  # 890 without the bitcast, and more in larger models
