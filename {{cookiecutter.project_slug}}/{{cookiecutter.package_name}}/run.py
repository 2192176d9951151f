"""Every factory once, in the order in which they need each other."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from .config import Config
from .engine.batches import create_layout, number_of_examples, steps_per_epoch
from .engine.distribution import Distribution
from .engine.errors import UsageError
from .engine.types import MAIN, Run, Task
from .task.config import TaskConfig
from .task.data import create_augment
from .task.losses import count, create_losses
from .task.metrics import create_metrics
from .task.model import create_model
from .task.optimizer import create_optimizer, process_gradients
from .task.steps import TRAIN_STEPS, test_step, validation_step

DEFAULT_BATCH_SIZE = 96  # divided evenly by 1, 2, 3, 4, 6 and 8 replicas


def create_run(
    strategy: tf.distribute.Strategy, datasets: dict[str, Any], config: Config, task: TaskConfig
) -> tuple[Run, Distribution]:
    """What the factories make for `datasets` on `strategy`, and the distributed steps over it.

    Raises:
        UsageError: a knob, a factory's result or the data doesn't fit the others.
    """
    batch = global_batch_size(config, strategy.num_replicas_in_sync)
    epoch = steps_per_epoch(number_of_examples(datasets["train"]), batch, config.last_batch)
    keras.utils.clear_session()  # layers get the same names, however many runs were made before
    keras.utils.set_random_seed(config.seed)
    full = config.precision if config.precision in ("float32", "float64") else "float32"
    keras.config.set_floatx(full)
    keras.config.set_dtype_policy(full if full == config.precision else f"mixed_{config.precision}")
    augment = create_augment(task)
    with strategy.scope():
        models = _named(create_model(task, datasets))
        losses = create_losses(task)
        metrics = create_metrics(task)
        optimizers = _named(create_optimizer(task, epoch * config.epochs))
        for name, optimizer in optimizers.items():
            # Before the first trace, or more than one replica fails (keras #23085, Keras 3.15).
            trained = list(models.values()) if len(optimizers) == 1 else [models[name]]
            optimizer.build([v for model in trained for v in model.trainable_variables])
    functions = Task(TRAIN_STEPS, validation_step, test_step, count, process_gradients, augment)
    run = Run(strategy, models, losses, metrics, optimizers, functions, batch, config.seed)
    distribution = Distribution(
        run,
        create_layout(strategy, batch, config.accumulate),
        clip_norm=config.clip_norm,
        jit=config.jit,
        max_skipped_steps=config.max_skipped_steps if config.non_finite == "skip" else 0,
        constant_denominator=config.denominator == "global_batch",
    )
    return run, distribution


def global_batch_size(config: Config, replicas: int) -> int:
    """Examples in a step over all replicas.

    Raises:
        UsageError: the replicas, or their micro-batches, can't share it evenly.
    """
    if config.batch_size_per_replica is not None:
        size = config.batch_size_per_replica * replicas
    else:
        size = config.global_batch_size or DEFAULT_BATCH_SIZE
    parts = replicas * config.accumulate
    if size % parts:
        below, above = size // parts * parts, (size // parts + 1) * parts
        nearest = f"{below} or {above}" if below else f"{above}"
        shared = f"{replicas} replicas" + (
            f" x --accumulate {config.accumulate}" if config.accumulate > 1 else ""
        )
        raise UsageError(
            f"A global batch of {size} can't be shared evenly by {shared}; use {nearest}."
        )
    return size


def _named(made: Any) -> dict[str, Any]:
    return made if isinstance(made, dict) else {MAIN: made}
