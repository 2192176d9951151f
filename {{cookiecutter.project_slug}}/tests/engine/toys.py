"""A tiny model and its train step, for the tests beside this file."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from {{ cookiecutter.package_name }}.engine.batches import TrainingBatches, create_layout
from {{ cookiecutter.package_name }}.engine.distributed_steps import DistributedSteps
from {{ cookiecutter.package_name }}.engine.gradients import build_optimizer
from {{ cookiecutter.package_name }}.engine.replicas import synchronize_batch_normalization
from {{ cookiecutter.package_name }}.engine.types import Replica, Run, Step, TaskFunctions

BATCH, FEATURES = 8, 6
INPUTS = np.random.default_rng(0).normal(size=(BATCH, FEATURES)) + np.arange(BATCH)[:, np.newaxis]


def count(batch: Any) -> tf.Tensor:
    """The examples of a batch that aren't padding."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)


def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The mean of the squared outputs, so small that float16 gradients need their loss scale."""
    inputs, weights = batch
    outputs = tf.cast(run.model(inputs, training=True), weights.dtype)  # (batch, features)
    per_example = 1e-7 * tf.reduce_mean(tf.square(outputs), axis=1)  # (batch,)
    run.metrics["mean"].update_state(per_example, weights)
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return {"main": loss}


def create_run(
    replicas: int = 1, layer: keras.layers.Layer | None = None, train_step: Step = step
) -> Run:
    """A dense layer, with `layer` on top of it."""
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        devices = [f"CPU:{i}" for i in range(replicas)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
    keras.utils.set_random_seed(0)
    with strategy.scope():
        # Named, since a checkpoint refuses a model with other names, as a second one would have.
        layers = [keras.layers.Dense(FEATURES, name="dense"), *([layer] if layer else [])]
        model = keras.Sequential([keras.Input((FEATURES,)), *layers], name="model")
        optimizer = keras.optimizers.SGD(1e5, momentum=0.9, name="sgd")
        build_optimizer(optimizer, model.trainable_variables)
        metrics, evaluation_metrics = ({"mean": keras.metrics.Mean()} for _ in range(2))
    run = Run(
        strategy=strategy,
        models={"main": model},
        losses={},
        metrics=metrics,
        evaluation_metrics=evaluation_metrics,
        optimizers={"main": optimizer},
        functions=TaskFunctions((train_step,), step, step, count, lambda gradients, _: gradients),
        task=None,
        global_batch_size=BATCH,
    )
    if replicas > 1:
        synchronize_batch_normalization(run.layers)
    return run


def create_batches(run: Run, rows: np.ndarray = INPUTS) -> TrainingBatches:
    """`rows` as training data."""
    layout = create_layout(run.strategy, run.global_batch_size)
    return TrainingBatches(rows.astype(keras.config.floatx()), layout)


def train(
    steps: DistributedSteps, num_steps: int, rows: np.ndarray = INPUTS
) -> tuple[list[np.ndarray], Any]:
    """All variables of the model and its optimizer after `num_steps` steps, and the progress."""
    iterator = iter(create_batches(steps.run, rows).dataset(0, num_steps))
    progress = steps.distributed_train_step(iterator, num_steps, steps.start())
    variables = [*steps.run.model.variables, *steps.run.optimizers["main"].variables]
    return [v.numpy() for v in variables if v.dtype != "uint32"], progress
