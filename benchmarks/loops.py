"""Train one model on so many replicas with every loop in turn.

Run by peers.py in a process of its own, as loops.py PROJECT MODEL REPLICAS FILE. All loops train
the same model with the same optimizer on the same data; they take turns, so that whatever else the
machine does hits all of them alike.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
PROJECT, MODEL, REPLICAS, FILE = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
sys.path.insert(0, PROJECT)

import keras
import numpy as np
import tensorflow as tf
from bench_project.config import Config
from bench_project.engine.batches import create_layout, evaluation_batches, training_batches
from bench_project.engine.distribution import Distribution
from bench_project.engine.strategy import create_strategy
from bench_project.engine.types import Run, Task
from bench_project.task.config import TaskConfig

ROUNDS = 25
SECONDS = 0.2  # of one turn
BATCH = 64
EXAMPLES = 2048
SHAPES = {"tiny": (20,), "cnn8": (8, 8, 1), "cnn28": (28, 28, 1)}
SHAPES |= {"small8": (8, 8, 1), "small28": (28, 28, 1)}
CLASSES = 10

Loop = Callable[[int], None]  # makes so many train steps

random = np.random.default_rng(0)
inputs = random.random((EXAMPLES, *SHAPES[MODEL]), "float32")
labels = random.integers(0, CLASSES, EXAMPLES)
cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


def create_model() -> keras.Model:
    """A tiny dense model, the default starter's CNN, the CNN of a tutorial, or a small CNN."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    if MODEL == "tiny":
        return keras.Sequential(
            [keras.Input(SHAPES[MODEL]), layers.Dense(32, "relu"), layers.Dense(CLASSES)]
        )
    if MODEL == "cnn8":
        from bench_project.task.model import create_model

        return create_model(TaskConfig(), {"train": (inputs, labels)})
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
        model, optimizer = create_model(), keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        return model, optimizer, keras.metrics.SparseCategoricalAccuracy()


def distribution(strategy: tf.distribute.Strategy, without: str = "") -> Distribution:
    """The rendered project's steps with every guard on, or without one of them."""
    model, optimizer, metric = in_scope(strategy)
    from bench_project.task.losses import count
    from bench_project.task.steps import train_step

    def without_metrics(run: Run, batch: Any, replica: Any) -> dict[str, tf.Tensor]:
        from bench_project.task.losses import compute_loss

        per_example = run.losses["main"](batch[1], run.model(batch[0], training=True))
        return {"main": compute_loss(per_example, batch[2], run.model, replica)}

    step = without_metrics if without == "metrics" else train_step
    task = Task((step,), step, step, count, lambda gradients, _: gradients)
    metrics = {"accuracy": metric}
    run = Run(
        strategy,
        {"main": model},
        {"main": cross_entropy},
        metrics,
        {"main": optimizer},
        task,
        BATCH,
    )
    return Distribution(
        run,
        create_layout(strategy, BATCH),
        clip_norm=0.0 if without == "clip" else 1.0,
        max_skipped_steps=20,
        constant_denominator=without == "exact count",
    )


def ours(strategy: tf.distribute.Strategy, *, without: str = "") -> Loop:
    """Our train steps; K of them in a graph call, as many as fit the turn."""
    steps_of = distribution(strategy, without)
    order = {"seed": 0, "first_step": 0, "last_step": 2**40}
    batches = training_batches((inputs, labels), steps_of.layout, **order)
    if without == "input pipeline":
        batches = tf.data.Dataset.from_tensors(next(iter(batches))).repeat()
    iterator = iter(batches)
    state = {"progress": steps_of.start()}

    def loop(steps: int) -> None:
        progress = steps_of.distributed_train_step(iterator, steps, state["progress"])
        state["progress"] = progress
        progress.last_losses.numpy()

    return loop


def dataset(strategy: tf.distribute.Strategy) -> Iterator[Any]:
    """Shuffled batches as tf.distribute hands them out."""
    source = tf.data.Dataset.from_tensor_slices((inputs, labels)).cache()
    batches = source.shuffle(EXAMPLES).repeat().batch(BATCH).prefetch(tf.data.AUTOTUNE)
    return iter(strategy.experimental_distribute_dataset(batches))


def compute_loss(model: keras.Model, y: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """The loss of a replica's share, with a constant denominator."""
    per_example = cross_entropy(y, predictions)
    loss = tf.nn.compute_average_loss(per_example, global_batch_size=BATCH)
    if model.losses:
        loss += tf.nn.scale_regularization_loss(tf.add_n(model.losses))
    return loss


def tutorial(strategy: tf.distribute.Strategy, *, hooks: bool = False) -> Loop:
    """A Python call per step, as in TensorFlow's tutorial; with `hooks` a filter before the sum."""
    model, optimizer, metric = in_scope(strategy)
    iterator = dataset(strategy)

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

    def loop(steps: int) -> None:
        total = 0.0
        for _ in range(steps):
            total += distributed_train_step(next(iterator))

    return loop


def floor(strategy: tf.distribute.Strategy) -> Loop:
    """Forward, backward and apply on one batch in memory, in a graph loop: no guard, no metric."""
    model, optimizer, _ = in_scope(strategy)
    rows = BATCH // REPLICAS

    def share(context: Any) -> Any:
        first = context.replica_id_in_sync_group * rows
        return tf.constant(inputs[first : first + rows]), tf.constant(labels[first : first + rows])

    batch = strategy.experimental_distribute_values_from_function(share)

    def step(batch: Any) -> None:
        with tf.GradientTape() as tape:
            loss = compute_loss(model, batch[1], model(batch[0], training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)

    @tf.function(autograph=False)
    def graph(steps: tf.Tensor) -> tf.Tensor:
        def once(i: tf.Tensor) -> tuple[tf.Tensor]:
            strategy.run(step, args=(batch,))
            return (i + 1,)

        return tf.while_loop(lambda i: i < steps, once, (tf.constant(0),))

    return lambda steps: graph(tf.constant(steps))


def fit(strategy: tf.distribute.Strategy, steps_per_execution: int, jit: bool) -> Loop:
    """Keras' own loop with one of its settings."""
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

    def loop(steps: int) -> None:
        rounded = max(steps_per_execution, steps // steps_per_execution * steps_per_execution)
        model.fit(batches, steps_per_epoch=rounded, epochs=1, verbose=0)

    return loop


def our_evaluation(strategy: tf.distribute.Strategy) -> Loop:
    """Our test steps, in one graph call."""
    steps_of = distribution(strategy)
    batches, _ = evaluation_batches((inputs, labels), steps_of.layout)
    iterator = iter(batches.repeat())

    def loop(steps: int) -> None:
        sums = tf.zeros((), tf.int64), tf.zeros(1, tf.float64)
        steps_of.distributed_test_step(iterator, steps, sums)[1].numpy()

    return loop


def tutorial_evaluation(strategy: tf.distribute.Strategy, *, compiled: bool) -> Loop:
    """A Python call per batch, as in TensorFlow's tutorial, compiled or eager."""
    model, _, metric = in_scope(strategy)
    iterator = dataset(strategy)

    def step(batch: Any) -> None:
        metric.update_state(batch[1], model(batch[0], training=False))

    def distributed_test_step(batch: Any) -> None:
        strategy.run(step, args=(batch,))

    if compiled:
        distributed_test_step = tf.function(distributed_test_step)

    def loop(steps: int) -> None:
        for _ in range(steps):
            distributed_test_step(next(iterator))
        metric.result().numpy()

    return loop


def seconds_per_step(loop: Loop, steps: int) -> float:
    """How long a step takes, the mean over one turn."""
    started = time.perf_counter()
    loop(steps)
    return (time.perf_counter() - started) / steps


def turn(loop: Loop) -> int:
    """So many steps that a turn takes long enough; traces on the way."""
    loop(20)
    steps = 20
    while (seconds := seconds_per_step(loop, steps) * steps) < SECONDS / 2:
        steps *= 2
    return max(20, int(steps * SECONDS / seconds) // 20 * 20)


def best_fit(strategy: tf.distribute.Strategy) -> tuple[str, Loop] | None:
    """The fastest setting of Model.fit that runs."""
    found: list[tuple[float, str, Loop]] = []
    for steps_per_execution in (1, 20):
        for jit in (False, True):
            try:
                loop = fit(strategy, steps_per_execution, jit)
                loop(20)
                seconds = min(seconds_per_step(loop, 40) for _ in range(3))
                name = f"steps_per_execution={steps_per_execution}, jit_compile={jit}"
                found.append((seconds, name, loop))
            except Exception as error:  # what doesn't run on replicas is part of the result
                print(f"fit {steps_per_execution} {jit}: {type(error).__name__}", flush=True)
    return min(found)[1:] if found else None


def main() -> None:
    """Let every loop take its turns, and write seconds per step."""
    strategy = create_strategy(Config(virtual_replicas=REPLICAS if REPLICAS > 1 else 0))
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
    setting = ""
    if fitted := best_fit(plain):
        setting, loops["fit"] = fitted
    evaluations = {
        "ours": our_evaluation(strategy),
        "tutorial, compiled": tutorial_evaluation(plain, compiled=True),
        "tutorial, eager": tutorial_evaluation(plain, compiled=False),
    }
    measured = {"fit": setting, "seconds per step": take_turns(loops, ROUNDS)}
    measured["seconds per evaluation step"] = take_turns(evaluations, ROUNDS)
    FILE.write_text(json.dumps(measured))


def take_turns(loops: dict[str, Loop], rounds: int) -> dict[str, list[float]]:
    """Seconds per step of every loop in every round."""
    steps = {name: turn(loop) for name, loop in loops.items()}
    turns: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, loop in loops.items():
            turns[name].append(seconds_per_step(loop, steps[name]))
    return turns


if __name__ == "__main__":
    main()
