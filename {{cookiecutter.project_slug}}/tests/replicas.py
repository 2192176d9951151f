"""Run by test_parity.py in a process of its own: python replicas.py N FILE.

Trains the project's own task on N replicas in every scenario and writes to FILE what came out.
"""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf
from scenarios import BATCH, ROWS, SCENARIOS, STEPS, Scenario

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.batches import own_part, training_batches
from {{ cookiecutter.package_name }}.engine.check import silence_random_layers
from {{ cookiecutter.package_name }}.engine.distribution import Distribution
from {{ cookiecutter.package_name }}.engine.errors import UsageError
from {{ cookiecutter.package_name }}.engine.strategy import create_strategy
from {{ cookiecutter.package_name }}.engine.types import Run
from {{ cookiecutter.package_name }}.run import create_run
from {{ cookiecutter.package_name }}.task.config import TaskConfig
from {{ cookiecutter.package_name }}.task.data import create_datasets


def trimmed(split: Any, scenario: Scenario) -> Any:
    """The first examples of `split`, with weights and a NaN where the scenario asks for them."""
    rows = ROWS[scenario.share]
    split = own_part(split)
    if isinstance(split, tf.data.Dataset):
        split = next(iter(split.take(rows).batch(rows)))
    split = tf.nest.map_structure(lambda array: np.array(array[:rows]), split)
    parts = split if isinstance(split, tuple) else (split,)
    if len(parts) == 2 and (scenario.weights or scenario.skip):
        weights = np.ones(rows, "float64")
        if scenario.weights:
            weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], rows)
        parts = (*parts, weights)
    if scenario.skip:
        floats = [a for a in tf.nest.flatten(parts) if np.issubdtype(a.dtype, np.floating)]
        floats[-1][7] = np.nan  # the weights where there are some: they reach every loss
    return parts if len(parts) > 1 else parts[0]


def observe(strategy: tf.distribute.Strategy, scenario: Scenario) -> dict[str, Any]:
    """What a scenario gives: in float64 after all steps, else the gradients of the first."""
    config = Config(
        global_batch_size=BATCH,
        accumulate=scenario.accumulate,
        clip_norm=0.1 if scenario.clip else 0.0,
        jit="on" if scenario.jit else "off",
        precision=scenario.precision,  # type: ignore[arg-type]
        max_skipped_steps=STEPS,
        last_batch="pad",
    )
    datasets = create_datasets(TaskConfig())
    split = trimmed(datasets["train"], scenario)
    datasets["train"] = split
    try:
        run, distribution = create_run(strategy, datasets, config, TaskConfig())
    except UsageError:
        if not scenario.jit:
            raise
        # XLA can't take BatchNormalization on several replicas: without it, then.
        run, distribution = create_run(strategy, datasets, replace(config, jit="off"), TaskConfig())
    silence_random_layers(run.models)
    batches = training_batches(
        split,
        distribution.layout,
        seed=0,
        first_step=0,
        last_step=STEPS,
        last_batch="pad",
        augment=run.task.augment,
    )
    if scenario.precision == "float64":
        return train(run, distribution, batches, scenario.steps_per_call)
    # A smaller share overflows later: leave headroom, so that all do the same.
    start = distribution.start()._replace(scale=tf.constant(128.0))
    if scenario.precision != "float16":
        start = distribution.start()
    probes = distribution.probe(iter(batches), start)
    return {
        "losses": [float(loss) for probe in probes for loss in probe.losses.values()],
        "gradients": [g.numpy() for p in probes for g in tf.nest.flatten(p.gradients)],
    }


def train(
    run: Run, distribution: Distribution, batches: tf.data.Dataset, steps_per_call: int
) -> dict[str, Any]:
    """Losses, metrics and weights after all steps."""
    iterator, progress = iter(batches), distribution.start()
    losses = []
    for _ in range(STEPS // steps_per_call):
        progress = distribution.distributed_train_step(iterator, steps_per_call, progress)
        losses.append(np.nan_to_num(progress.last_losses.numpy()))
    models = run.models.values()
    return {
        "losses": losses,
        "mean losses": progress.losses.numpy(),
        "examples": int(progress.examples),
        "skipped": int(progress.skipped),
        "metrics": {name: float(metric.result()) for name, metric in run.metrics.items()},
        "regularization": sum(float(loss) for model in models for loss in model.losses),
        "weights": [v.numpy() for model in models for v in model.trainable_variables],
        "state": [v.numpy() for v in distribution.transaction.state],
        "looks at the batch": any(
            isinstance(layer, keras.layers.BatchNormalization)
            or getattr(layer, "activity_regularizer", None) is not None
            for model in models
            for layer in model._flatten_layers()
        ),
        "optimizers": [type(optimizer).__name__ for optimizer in run.optimizers.values()],
    }


def main(replicas: int, file: Path) -> None:
    """Observe every scenario on so many replicas."""
    # For 20 steps it doesn't pay to optimize a graph: of a U-Net on four replicas it takes minutes.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    strategy = create_strategy(Config(virtual_replicas=replicas if replicas > 1 else 0))
    results: dict[str, Any] = {}
    for name, scenario in SCENARIOS.items():
        try:
            results[name] = observe(strategy, scenario)
        except Exception as error:
            results[name] = {"error": f"{type(error).__name__}: {error}"}
    file.write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
