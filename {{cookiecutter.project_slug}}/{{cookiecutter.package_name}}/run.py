"""Creates everything that a run needs, by calling the `create_*` functions of task/ in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import Config
from .engine.adapted import from_chief
from .engine.alike import require_same_data
from .engine.bad_examples import BadExamples
from .engine.batches import TrainingBatches, create_layout, gives_batches
from .engine.data_errors import reading_errors, split_label
from .engine.distributed_steps import DistributedSteps
from .engine.errors import UsageError
from .engine.gradients import build_optimizer
from .engine.loop import Schedule
from .engine.output import say
from .engine.replicas import normalizations, synchronize_batch_normalization
from .engine.types import MAIN, Run, TaskFunctions
from .engine.unsupported import (
    validate,
    validate_models,
    validate_modes,
    validate_optimizer,
    validate_splits,
)
from .engine.workers import Workers
from .task.config import TaskConfig
from .task.data import create_augment
from .task.losses import count, create_losses
from .task.metrics import create_metrics
from .task.model import adapt, create_model
from .task.optimizer import create_optimizer, process_gradients
from .task.steps import EXAMPLES_INTERACT, TERMS, TRAIN_STEPS, test_step, validation_step

DEFAULT_EPOCHS = 40
DEFAULT_BATCH_SIZE = 96  # divided evenly by 1, 2, 3, 4, 6 and 8 replicas


def create_run(
    strategy: tf.distribute.Strategy,
    datasets: dict[str, Any],
    config: Config,
    task: TaskConfig,
    adapted: dict[str, np.ndarray] | None = None,
) -> tuple[Run, DistributedSteps, TrainingBatches]:
    """Everything the factories make, the distributed train steps, and their batches.

    Args:
        strategy: where it runs.
        datasets: what `create_datasets` returned.
        config: the flags of training.
        task: the flags of the task.
        adapted: what the model of an earlier run has adapted to; None: `adapt` computes it now.

    Raises:
        UsageError: a setting, a factory's result or the data doesn't fit the others.
    """
    if EXAMPLES_INTERACT and config.accumulate > 1:
        raise UsageError(
            f"--accumulate {config.accumulate}: an example's loss or metric depends on the others "
            "of its batch (EXAMPLES_INTERACT in task/steps.py), and a micro-batch has fewer of "
            "them, so it would differ; use --accumulate 1 and more replicas."
        )
    validate_splits(datasets)
    batch_size = global_batch_size(config, strategy.num_replicas_in_sync)
    layout = create_layout(strategy, batch_size, config.accumulate)
    bad_examples = BadExamples(config.max_bad_examples)
    _set_dtypes(config, mixed=False)  # of layers in an augmentation
    batches = TrainingBatches(
        datasets["train"],
        layout,
        seed=config.seed,
        last_batch=config.last_batch,
        augment=create_augment(task),
        steps=config.steps,
        bad=bad_examples,
    )
    for name, split in datasets.items():
        if gives_batches(split):
            say(f"the {split_label(name)} comes in batches: they are taken apart into examples")
    workers = Workers(strategy)
    with reading_errors(datasets):
        require_same_data(datasets, workers)
        if adapted is None:
            adapted = from_chief(adapt(task, datasets), workers)
    models = _create_models(strategy, adapted, config, task)
    validate_modes()
    steps = num_steps(config, batches)
    with strategy.scope():
        losses = create_losses(task)
        metrics, evaluation_metrics = create_metrics(task), create_metrics(task)
        optimizers = _named(create_optimizer(task, steps))
        run = Run(
            strategy=strategy,
            models=models,
            losses=losses,
            metrics=metrics,
            evaluation_metrics=evaluation_metrics,
            optimizers=optimizers,
            functions=_functions(),
            task=task,
            global_batch_size=batch_size,
            num_steps=steps,
            seed=config.seed,
            randomness=config.randomness,
            terms=TERMS,
            adapted=adapted,
            bad_examples=bad_examples,
        )
        validate(run)
        for name, optimizer in optimizers.items():
            build_optimizer(optimizer, run.variables_of(name))
            validate_optimizer(optimizer)
    rest = batches.num_examples % batch_size
    if config.last_batch == "pad" and rest and (normal := normalizations(run.layers)):
        say(
            f"an epoch's last batch has {batch_size - rest} rows of padding, copies of an example, "
            f"which are in the statistics of {', '.join(layer.name for layer in normal)}: use "
            "--last-batch span or drop"
        )
    synchronized = []
    if strategy.num_replicas_in_sync > 1:
        synchronized = synchronize_batch_normalization(run.layers)
        if synchronized:
            say(f"synchronized over the replicas: {', '.join(synchronized)}")
    distributed_steps = DistributedSteps(
        run,
        layout,
        clip_norm=config.clip_norm,
        jit=config.jit,
        max_skipped_steps=config.max_skipped_steps if config.non_finite == "skip" else 0,
        constant_denominator=config.denominator == "global_batch",
        synchronized=bool(synchronized),
        bucket_bytes=int(config.bucket_mb * 1e6),
    )
    drawn = distributed_steps.transaction.capture.random_states
    if strategy.num_replicas_in_sync > 1 and drawn and config.randomness == "replica":
        say("random numbers, if any, differ between replicas; --randomness global_batch: as on one")
    return run, distributed_steps, batches


def open_run(config: Config, task: TaskConfig, adapted: dict[str, np.ndarray]) -> Run:
    """A run with only its models, for commands that need neither data nor training."""
    strategy = tf.distribute.get_strategy()
    return Run(
        strategy=strategy,
        models=_create_models(strategy, adapted, config, task),
        losses={},
        metrics={},
        evaluation_metrics={},
        optimizers={},
        functions=_functions(),
        task=task,
        global_batch_size=0,
        adapted=adapted,
    )


def create_schedule(config: Config, batches: TrainingBatches) -> Schedule:
    """When things happen in a run over `batches`.

    Raises:
        UsageError: the run is over before the last step to profile.
    """
    last, profile = num_steps(config, batches), config.steps_to_profile
    if profile and profile[1] > last:
        raise UsageError(f"--profile {config.profile}: the run has {last:,} steps.")
    return Schedule(
        num_steps=last,
        validate_every_steps=config.validate_every_steps,
        validation_steps=config.validation_steps,
        log_every_steps=config.log_every_steps,
        save_every_epochs=config.save_every_epochs,
        save_every_steps=config.save_every_steps,
        save_every_secs=config.save_every_secs,
        keep_checkpoints=config.keep_checkpoints,
        steps_per_call=config.steps_per_call,
        max_stop_secs=config.max_stop_secs,
        log_graph=config.log_graph,
        profile=profile,
    )


def resolved(config: Config, distributed_steps: DistributedSteps) -> Config:
    """The settings with `auto` replaced by what was chosen, which a resumed run must keep."""
    return replace(config, resume="", jit="on" if distributed_steps.jit else "off")


def with_global_batch(config: Config, num_replicas: int) -> Config:
    """The settings with the global batch in place of --batch-size-per-replica.

    A run is known by it: resumed or evaluated on other replicas, it must keep its global batch.

    Raises:
        UsageError: it is too large.
    """
    if config.batch_size_per_replica is None:
        return config
    size = config.batch_size_per_replica * num_replicas
    try:
        return replace(config, global_batch_size=size, batch_size_per_replica=None)
    except ValueError as error:
        raise UsageError(f"{error}") from error


def num_steps(config: Config, batches: TrainingBatches) -> int:
    """Train steps in the whole run."""
    return config.steps or (config.epochs or DEFAULT_EPOCHS) * batches.steps_per_epoch


def global_batch_size(config: Config, num_replicas: int) -> int:
    """Examples in a step over all replicas.

    Raises:
        UsageError: it can't be divided evenly among the replicas and their micro-batches.
    """
    size = with_global_batch(config, num_replicas).global_batch_size or DEFAULT_BATCH_SIZE
    parts = num_replicas * config.accumulate
    if size % parts:
        below, above = size // parts * parts, (size // parts + 1) * parts
        nearest = f"{below} or {above}" if below else f"{above}"
        among = f"{num_replicas} replica{'s' * (num_replicas > 1)}"
        if config.accumulate > 1:
            among += f" x --accumulate {config.accumulate}"
        raise UsageError(
            f"A global batch of {size} can't be divided evenly among {among}; use {nearest}."
        )
    return size


def _create_models(
    strategy: tf.distribute.Strategy,
    adapted: dict[str, np.ndarray],
    config: Config,
    task: TaskConfig,
) -> dict[str, keras.Model]:
    # Layers get the same names, however many runs were made before.
    keras.utils.clear_session(free_memory=False)  # without a garbage collection, which takes 0.3 s
    keras.utils.set_random_seed(config.seed)
    policy = _set_dtypes(config, mixed=True)
    seeds = tf.compat.v1.get_seed(0)
    with strategy.scope():
        models = _named(create_model(task, adapted))
    if tf.compat.v1.get_seed(0) != seeds:
        say(
            "create_model in task/model.py sets a random seed, so runs with another --seed start "
            "with the same weights; leave it to --seed"
        )
    validate_models(models)
    if (now := keras.config.dtype_policy().name) != policy:
        raise UsageError(
            f"create_model in task/model.py sets the dtype policy of all layers to {now}; leave "
            "that to --precision, which scales the loss of float16, or set the dtype of layers."
        )
    return models


def _set_dtypes(config: Config, *, mixed: bool) -> str:
    """Set the dtype of numbers and of layers made from now on, and return the latter.

    16-bit precisions keep float32 numbers and weights; only `mixed` layers compute in 16 bits.
    """
    is_full = config.precision in ("float32", "float64")
    floatx = config.precision if is_full else "float32"
    policy = f"mixed_{config.precision}" if mixed and not is_full else floatx
    keras.config.set_floatx(floatx)
    keras.config.set_dtype_policy(policy)
    return policy


def _functions() -> TaskFunctions:
    return TaskFunctions(
        TRAIN_STEPS, validation_step, test_step, count, process_gradients, EXAMPLES_INTERACT
    )


def _named(made: Any) -> dict[str, Any]:
    return made if isinstance(made, dict) else {MAIN: made}
