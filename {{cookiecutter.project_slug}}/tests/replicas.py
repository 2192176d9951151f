"""Trains your task on N replicas; test_parity.py runs it in a process for each N.

python -m tests.replicas N FILE SCENARIO ...

FILE receives a pickled dict with what each scenario gave.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras
import numpy as np
import tensorflow as tf

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.batches import (
    TrainingBatches,
    gives_batches,
    is_sharded,
    of_examples,
    on_replicas,
    random_access,
)
from {{ cookiecutter.package_name }}.engine.distributed_steps import DistributedSteps, ReducedStep
from {{ cookiecutter.package_name }}.engine.errors import UsageError
from {{ cookiecutter.package_name }}.engine.progress import Progress
from {{ cookiecutter.package_name }}.engine.random_access import RandomAccess
from {{ cookiecutter.package_name }}.engine.replicas import batch_dependent
from {{ cookiecutter.package_name }}.engine.strategy import create_strategy
from {{ cookiecutter.package_name }}.engine.types import Run
from {{ cookiecutter.package_name }}.run import create_run
from {{ cookiecutter.package_name }}.task.config import TaskConfig
from {{ cookiecutter.package_name }}.task.data import create_datasets
from {{ cookiecutter.package_name }}.task.metrics import create_metrics
from {{ cookiecutter.package_name }}.task.steps import EXAMPLES_INTERACT

from .scenarios import BATCH, ROWS, SCENARIOS, STEPS, WITHOUT_XLA, Scenario

NO_FLOAT64 = re.compile("float64|DT_DOUBLE")  # in errors of operations that don't take it


def take_rows(split: Any, rows: int) -> Any:
    """`rows` examples of `split`, repeated if it has fewer; a stream stays a stream."""
    if is_sharded(split):
        return lambda workers, index: take_rows(split(workers, index), rows)
    if isinstance(split, tf.data.Dataset):
        examples = of_examples(split).repeat().take(rows)
        return examples.batch(BATCH) if gives_batches(split) else examples
    read = random_access(split)
    chosen = np.arange(rows) % len(read)
    if read is split or not read.in_memory:
        return read.select(chosen)
    return tf.nest.map_structure(lambda array: array[chosen], read.arrays)


@cache
def all_datasets() -> dict[str, Any]:
    """Your data, which may take long to make."""
    return create_datasets(TaskConfig())


def create_small_datasets(rows: int) -> dict[str, Any]:
    """Your data with `rows` examples in each split."""
    splits = all_datasets().items()
    return {name: take_rows(split, rows) for name, split in splits if split is not None}


class Weighted:
    """Examples (inputs, labels) by row number, with a weight for each."""

    def __init__(self, split: RandomAccess, weights: np.ndarray) -> None:
        self.split, self.weights = split, weights

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, row: int) -> Any:
        return (*self.split[row], self.weights[row])


def weighted(split: Any, rows: int) -> Any:
    """`split` with a weight for each example, where an example is (inputs, labels)."""
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.0], rows)
    if is_sharded(split):
        return lambda workers, index: weighted(split(workers, index), rows)
    if isinstance(split, RandomAccess):
        spec = split.element_spec
        return Weighted(split, weights) if isinstance(spec, tuple) and len(spec) == 2 else split
    if not isinstance(split, tf.data.Dataset):
        return (*split, weights) if isinstance(split, tuple) and len(split) == 2 else split
    split = of_examples(split)
    if not isinstance(split.element_spec, tuple) or len(split.element_spec) != 2:
        return split
    pairs = tf.data.Dataset.zip((split, tf.data.Dataset.from_tensor_slices(weights)))
    return pairs.map(lambda example, weight: (*example, weight))


def with_nan_weights(batches: tf.data.Dataset) -> tf.data.Dataset:
    """`batches` with a NaN weight in every second batch, so that each loss there is NaN."""

    def spoil(step: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:  # (replicas, rows, ...)
        nan = tf.fill([1, *weights.shape[2:]], tf.constant(np.nan, weights.dtype))
        with_nan = tf.tensor_scatter_nd_update(weights, [[0, 0]], nan)
        return tf.where(step % 2 == 1, with_nan, weights)

    def spoil_batch(step: tf.Tensor, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        *parts, weights = batch  # weights of each output in a dict, if the data has them
        return (*parts, tf.nest.map_structure(lambda each: spoil(step, each), weights))

    return batches.enumerate().map(spoil_batch)


def metrics_in(precision: str) -> Callable[[TaskConfig], Any]:
    """`create_metrics` whose metrics compute in float32 if `precision` is float32."""

    def create(task: TaskConfig) -> Any:
        before = keras.config.floatx()
        keras.config.set_floatx("float32" if precision == "float32" else before)
        try:
            return create_metrics(task)
        finally:
            keras.config.set_floatx(before)

    return create


def observe(strategy: tf.distribute.Strategy, scenario: Scenario) -> dict[str, Any]:
    """Run a scenario: in float64 the results of all steps, else the gradients of the first step.

    Nothing where N replicas can't train exactly like one.
    """
    config = Config(
        global_batch_size=BATCH,
        accumulate=1 if EXAMPLES_INTERACT else scenario.accumulate,
        clip_norm=0.1 if scenario.clip else 0.0,
        jit="on" if scenario.jit else "off",
        precision=scenario.precision,  # type: ignore[arg-type]
        max_skipped_steps=STEPS,
        last_batch="pad",
        randomness="global_batch",  # the same dropout and noise on any number of replicas
    )
    task, rows = TaskConfig(), ROWS[scenario.second_batch]
    datasets = create_small_datasets(rows)
    with patch("{{ cookiecutter.package_name }}.run.create_metrics", metrics_in(scenario.metrics)):
        run, steps, training = create_run(strategy, datasets, config, task)
    if scenario.second_batch != "full" and batch_dependent(run.layers):
        return {}  # N replicas are like one on full batches only
    split = datasets["train"]
    batches = TrainingBatches(
        weighted(split, rows) if scenario.weights else split,
        steps.layout,
        last_batch="pad",
        augment=training.augment,
    ).dataset(0, STEPS)
    if scenario.skip:
        batches = with_nan_weights(batches)
    if scenario.precision == "float64":
        return train(run, steps, batches, scenario.steps_per_call)
    start = steps.start()
    if scenario.precision == "float16":
        # A smaller per-replica batch overflows later: with a small scale none does.
        start = start._replace(loss_scale=start.loss_scale._replace(value=tf.constant(128.0)))
    reduced = dry_run(steps, iter(batches), start)
    return {
        "losses": [float(loss) for step in reduced for loss in step.losses.values()],
        "gradients": [g.numpy() for step in reduced for g in tf.nest.flatten(step.gradients)],
    }


def dry_run(steps: DistributedSteps, iterator: Any, progress: Progress) -> list[ReducedStep]:
    """Losses and gradients of each train step function for the next batch; commits nothing.

    Below float64, rounding makes weights differ between numbers of replicas even where the summed
    gradients agree, so the tests compare gradients, which training itself doesn't return.
    """
    run = steps.run

    @tf.function(autograph=False)
    def graph(stacked: Any) -> list[Any]:
        batch = on_replicas(stacked, run.strategy, steps.layout)
        indices = range(len(run.functions.train_steps))
        made = (run.strategy.run(steps.reduce, args=(i, batch, progress)) for i in indices)
        return [steps._local(reduced) for reduced in made]

    return [ReducedStep(*reduced) for reduced in graph(next(iterator))]


def train(
    run: Run, steps: DistributedSteps, batches: tf.data.Dataset, steps_per_call: int
) -> dict[str, Any]:
    """Losses, metrics and weights after all steps."""
    iterator, progress = iter(batches), steps.start()
    losses, finite = [], True
    for _ in range(STEPS // steps_per_call):
        progress = steps.distributed_train_step(iterator, steps_per_call, progress)
        latest = progress.latest.losses.numpy()
        finite &= bool(np.isfinite([latest, progress.sums.losses]).all())
        losses.append(np.nan_to_num(latest))
    models = run.trained_models.values()
    return {
        "losses": losses,
        "mean losses": progress.sums.losses.numpy(),
        "examples": progress.sums.counts.numpy().tolist(),
        "skipped": int(progress.skips.total),
        "finite": finite,
        "metrics": run.metric_results(),
        "regularization": sum(float(loss) for model in models for loss in model.losses),
        "weights": [v.numpy() for model in models for v in model.trainable_variables],
        "state": [v.numpy() for v in steps.transaction.capture.state],
        "optimizers": [type(optimizer).__name__ for optimizer in run.optimizers.values()],
    }


def observe_with_fallbacks(strategy: tf.distribute.Strategy, scenario: Scenario) -> dict[str, Any]:
    """`observe`, retried without float64, XLA or NaN where your task needs it; errors as text."""
    try:
        observed = observe(strategy, scenario)
        if scenario.skip and observed.get("finite") and not observed["skipped"]:
            # A weight of NaN reaches no loss of yours, such as where a step asks for `weights > 0`.
            return observe_with_fallbacks(strategy, scenario._replace(skip=False))
        return observed | {"scenario": scenario._asdict()}
    except Exception as error:
        if NO_FLOAT64.search(str(error)) and scenario.precision == "float64":
            if scenario.metrics == "float64":  # such as top-k accuracy (TF 2.21)
                return observe_with_fallbacks(strategy, scenario._replace(metrics="float32"))
            scenario = scenario._replace(precision="float32", skip=False)
            return observe_with_fallbacks(strategy, scenario)
        if isinstance(error, UsageError) and scenario.jit:
            # XLA can't compile what sums or gathers over the replicas: run it without.
            return observe_with_fallbacks(strategy, scenario._replace(jit=False))
        return {"error": f"{type(error).__name__}: {error}"}


def main(replicas: int, file: Path, names: list[str]) -> None:
    """Observe the scenarios of these names on so many replicas."""
    # The same device for every number of replicas.
    tf.config.set_visible_devices(tf.config.list_physical_devices("CPU")[:1])
    # Optimizing the graph of a U-Net on four replicas takes minutes, too long for 20 steps.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    strategy = create_strategy(virtual_replicas=replicas if replicas > 1 else 0)
    results: dict[str, Any] = {}
    for name in names:
        scenario = SCENARIOS[name]
        # XLA takes seconds to compile for each replica, and two show as much as four.
        scenario = scenario._replace(jit=scenario.jit and replicas <= 2)
        results[name] = observe_with_fallbacks(strategy, scenario)
        if scenario.jit and replicas == 1:  # for those that run without
            scenario = scenario._replace(jit=False)
            results[name + WITHOUT_XLA] = observe_with_fallbacks(strategy, scenario)
    file.write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
