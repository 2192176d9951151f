"""Time every loop on one model and one number of replicas, in turns.

peers.py runs it in a process of its own: loops.py PROJECT MODEL REPLICAS ROUNDS FILE. All loops
train the same model with the same optimizer on the same data, and take turns (see turns.py).
"""

import json
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
PROJECT, MODEL, REPLICAS, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
FILE = Path(sys.argv[5])
sys.path.insert(0, PROJECT)

import keras
import numpy as np
import tensorflow as tf
from bench_project import run as project_run
from bench_project.config import Config
from bench_project.engine.batches import TrainingBatches, evaluation_batches
from bench_project.engine.distributed_steps import DistributedSteps
from bench_project.engine.evaluation import Evaluation
from bench_project.engine.progress import Sums
from bench_project.engine.strategy import create_strategy
from bench_project.engine.types import Replica, Run
from bench_project.task.config import TaskConfig
from bench_project.task.losses import compute_loss as compute_project_loss
from bench_project.task.model import create_model as create_project_model
from bench_project.task.steps import TRAIN_STEPS
from turns import Loop, choose_steps, seconds, slope, take_turns

# Seconds that 2n steps take at least, so that the slope stands well above the noise of a call.
DIFFERENCE = 0.15
FIT_DIFFERENCE = 0.7  # a call of fit costs tenths of a second, which vary
BATCH = 64
EXAMPLES = 2048
SHAPES = {"tiny": (20,), "cnn8": (8, 8, 1), "cnn28": (28, 28, 1)}
SHAPES |= {"small8": (8, 8, 1), "small28": (28, 28, 1)}
CLASSES = 10

generator = np.random.default_rng(0)
inputs = generator.random((EXAMPLES, *SHAPES[MODEL]), "float32")
labels = generator.integers(0, CLASSES, EXAMPLES)
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


def create_model(task: TaskConfig, adapted: dict[str, Any]) -> keras.Model:
    """A tiny dense model, the default starter's CNN, the CNN of a tutorial, or a small CNN."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    if MODEL == "tiny":
        return keras.Sequential(
            [keras.Input(SHAPES[MODEL]), layers.Dense(32, "relu"), layers.Dense(CLASSES)]
        )
    if MODEL == "cnn8":
        return create_project_model(task, adapted)
    first, second = (64, 128) if MODEL == "cnn28" else (8, 16)
    return keras.Sequential(
        [
            keras.Input(SHAPES[MODEL]),
            layers.Conv2D(first, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(second, 3, activation="relu", padding="same"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(CLASSES),
        ]
    )


def in_scope(strategy: tf.distribute.Strategy) -> tuple[keras.Model, Any, Any]:
    """A model, its built optimizer and a metric under a strategy."""
    with strategy.scope():
        model = create_model(TaskConfig(), {"shape": SHAPES[MODEL]})
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        return model, optimizer, keras.metrics.SparseCategoricalAccuracy()


def train_step_without_metrics(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The default task's train step, but no metric is updated."""
    features, targets, weights = batch
    per_example = run.losses["main"](targets, run.model(features, training=True))  # (batch,)
    return {"main": compute_project_loss(per_example, weights, run.model, replica)}


def create_run(
    strategy: tf.distribute.Strategy, without: str = ""
) -> tuple[Run, DistributedSteps, TrainingBatches]:
    """The rendered project's own create_run with every guard on, or without one of them."""
    config = Config(
        global_batch_size=BATCH,
        clip_norm=0.0 if without == "clip" else 1.0,
        denominator="global_batch" if without == "exact count" else "examples",
    )
    train_steps = (train_step_without_metrics,) if without == "metrics" else TRAIN_STEPS
    factories = {
        "create_augment": lambda task: None,
        "create_model": create_model,
        "create_optimizer": lambda task, steps: keras.optimizers.Adam(1e-3),
        "TRAIN_STEPS": train_steps,
    }
    with mock.patch.multiple(project_run, **factories):
        return project_run.create_run(strategy, {"train": (inputs, labels)}, config, TaskConfig())


def ours(strategy: tf.distribute.Strategy, *, without: str = "") -> Loop:
    """Our train steps, all of a call in the graph."""
    _, steps, batches = create_run(strategy, without)
    dataset = batches.dataset(0, 2**40)
    if without == "input pipeline":
        dataset = tf.data.Dataset.from_tensors(next(iter(dataset))).repeat()
    iterator = iter(dataset)
    progress = steps.start()

    def loop(num_steps: int) -> None:
        nonlocal progress
        progress = steps.distributed_train_step(iterator, num_steps, progress)
        progress.latest.losses.numpy()

    return loop


def distributed_batches(strategy: tf.distribute.Strategy) -> Iterator[Any]:
    """Shuffled batches as tf.distribute hands them out."""
    source = tf.data.Dataset.from_tensor_slices((inputs, labels)).cache()
    batches = source.shuffle(EXAMPLES).repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE)
    return iter(strategy.experimental_distribute_dataset(batches))


def compute_loss(model: keras.Model, y: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """One replica's part of the loss, with a constant denominator."""
    per_example = cross_entropy(y, predictions)
    loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
    if model.losses:
        loss += tf.nn.scale_regularization_loss(tf.add_n(model.losses))
    return loss


def tutorial(strategy: tf.distribute.Strategy, *, hooks: bool = False) -> Loop:
    """A Python call per step, as in TensorFlow's tutorial; with `hooks` a filter before the sum."""
    model, optimizer, metric = in_scope(strategy)
    iterator = distributed_batches(strategy)

    def step(batch: Any) -> tf.Tensor:
        x, y = batch
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            loss = compute_loss(model, y, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        if hooks:
            gradients = [tf.where(tf.math.is_finite(g), g, tf.zeros_like(g)) for g in gradients]
            gradients, _ = tf.clip_by_global_norm(gradients, 10.0)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        metric.update_state(y, predictions)
        return loss

    @tf.function
    def distributed_train_step(batch: Any) -> tf.Tensor:
        losses = strategy.run(step, args=(batch,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def loop(num_steps: int) -> None:
        total = tf.zeros(())
        for _ in range(num_steps):
            total += distributed_train_step(next(iterator))
        total.numpy()

    return loop


def floor(strategy: tf.distribute.Strategy) -> Loop:
    """Forward, backward and apply on one batch in memory, in a graph loop: no guard, no metric."""
    model, optimizer, _ = in_scope(strategy)
    size = BATCH // REPLICAS

    def part(context: Any) -> Any:
        first = context.replica_id_in_sync_group * size
        return tf.constant(inputs[first : first + size]), tf.constant(labels[first : first + size])

    batch = strategy.experimental_distribute_values_from_function(part)

    def step(batch: Any) -> None:
        with tf.GradientTape() as tape:
            loss = compute_loss(model, batch[1], model(batch[0], training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)

    @tf.function(autograph=False)
    def graph(num_steps: tf.Tensor) -> tf.Tensor:
        def once(i: tf.Tensor) -> tuple[tf.Tensor]:
            strategy.run(step, args=(batch,))
            return (i + 1,)

        return tf.while_loop(lambda i: i < num_steps, once, (tf.constant(0),))

    def loop(num_steps: int) -> None:
        graph(tf.constant(num_steps))[0].numpy()

    return loop


def fit(strategy: tf.distribute.Strategy, steps_per_execution: int, jit: bool) -> Loop:
    """Keras' own loop with one of its settings; makes multiples of steps_per_execution."""
    model, optimizer, metric = in_scope(strategy)
    with strategy.scope():
        model.compile(
            optimizer=optimizer,
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=[metric],
            steps_per_execution=steps_per_execution,
            jit_compile=jit,
        )
    source = tf.data.Dataset.from_tensor_slices((inputs, labels)).cache()
    batches = source.shuffle(EXAMPLES).repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def loop(num_steps: int) -> None:
        model.fit(batches, steps_per_epoch=num_steps, epochs=1, verbose=0)

    return loop


def our_evaluation(strategy: tf.distribute.Strategy) -> Loop:
    """Our test steps, all of a call in the graph."""
    run, steps, _ = create_run(strategy)
    evaluation = Evaluation(run, {"test": (inputs, labels)}, steps.layout)
    batches, _ = evaluation_batches((inputs, labels), steps.layout)
    iterator = iter(batches.repeat())

    def loop(num_steps: int) -> None:
        sums = Sums.zero(1)
        evaluation.distributed_test_step(iterator, num_steps, sums).losses.numpy()

    return loop


def tutorial_evaluation(strategy: tf.distribute.Strategy, *, compiled: bool) -> Loop:
    """A Python call per batch, as in TensorFlow's tutorial, compiled or eager."""
    model, _, metric = in_scope(strategy)
    iterator = distributed_batches(strategy)

    def step(batch: Any) -> None:
        metric.update_state(batch[1], model(batch[0], training=False))

    def distributed_test_step(batch: Any) -> None:
        strategy.run(step, args=(batch,))

    if compiled:
        distributed_test_step = tf.function(distributed_test_step)

    def loop(num_steps: int) -> None:
        for _ in range(num_steps):
            distributed_test_step(next(iterator))
        metric.result().numpy()

    return loop


def best_fit(strategy: tf.distribute.Strategy) -> tuple[str, Loop, int] | None:
    """The fastest setting of Model.fit that runs: its name, its loop, and what n is a multiple of.

    The settings are steps_per_execution of 1, 20 and, where a step is short enough for the turns
    to be, 100; each with and without XLA.
    """
    found: list[tuple[float, str, Loop, int]] = []
    for steps_per_execution in (1, 20) if MODEL.endswith("28") else (1, 20, 100):
        for jit in (False, True):
            name = f"steps_per_execution={steps_per_execution}, jit_compile={jit}"
            multiple = max(20, steps_per_execution)
            try:
                loop = fit(strategy, steps_per_execution, jit)
                loop(multiple)  # traces
                if found and seconds(loop, multiple) > 1 + 3 * multiple * min(found)[0]:
                    continue  # XLA makes some convolutions ten times slower on a CPU (TF 2.21)
                n = choose_steps(loop, DIFFERENCE, multiple)
            except tf.errors.OpError as error:  # not every setting runs on several replicas
                print(f"Model.fit, {name}: {type(error).__name__}", flush=True)
                continue
            step = statistics.median(slope(loop, n) for _ in range(3))
            found.append((step, name, loop, multiple))
    return min(found)[1:] if found else None


def main() -> None:
    """Let every loop take its turns, and write how long they took."""
    strategy = create_strategy(virtual_replicas=REPLICAS if REPLICAS > 1 else 0)
    plain = strategy  # what a user of tf.distribute would make
    if REPLICAS > 1:
        plain = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(REPLICAS)])
    loops = {
        "ours": ours(strategy),
        "floor": floor(strategy),
        "floor again": floor(strategy),
        "tutorial": tutorial(plain),
        "hooks in one graph": tutorial(plain, hooks=True),
    }
    for guard in ("exact count", "clip", "metrics", "input pipeline"):
        loops[f"ours without {guard}"] = ours(strategy, without=guard)
    evaluations = {
        "ours": our_evaluation(strategy),
        "tutorial, compiled": tutorial_evaluation(plain, compiled=True),
        "tutorial, eager": tutorial_evaluation(plain, compiled=False),
    }
    steps = {name: choose_steps(loop, DIFFERENCE) for name, loop in loops.items()}
    setting = ""
    if fitted := best_fit(plain):
        setting, loops["fit"], multiple = fitted
        steps["fit"] = choose_steps(loops["fit"], FIT_DIFFERENCE, multiple)
    training = take_turns(loops, steps, ROUNDS, DIFFERENCE)
    steps = {name: choose_steps(loop, DIFFERENCE) for name, loop in evaluations.items()}
    evaluation = take_turns(evaluations, steps, ROUNDS, DIFFERENCE)
    measured = {"fit": setting, "training": training, "evaluation": evaluation}
    FILE.write_text(json.dumps(measured))


if __name__ == "__main__":
    main()
