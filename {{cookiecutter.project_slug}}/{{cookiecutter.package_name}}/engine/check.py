"""Look for what goes wrong silently, in your own task: `python -m <package> check`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from .batches import TrainingBatches, worker_split
from .distributed_steps import DistributedSteps, ReducedStep
from .errors import UsageError
from .types import Run

Created = tuple[Run, DistributedSteps, TrainingBatches]  # what create_run returns
CreateRun = Callable[[tf.distribute.Strategy], Created]

TOLERANCE = 1e-4  # float32, relative to the norm: rounding is 1e-6, the faults looked for 1e-2
REPEATED_STEPS = 30
TIMED_STEPS = 20


class Finding(NamedTuple):
    """One line of the table."""

    name: str
    wrong: bool
    detail: str


def one_and_two_replicas() -> tuple[tf.distribute.Strategy, tf.distribute.Strategy]:
    """No strategy, and two replicas on halves of the CPU; to be called before any operation."""
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    tf.config.set_visible_devices([cpu])
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    return tf.distribute.get_strategy(), two


def silence_random_layers(models: dict[str, keras.Model]) -> None:
    """Set every dropout rate and noise level to zero, so that replicas can be compared."""
    for model in models.values():
        for layer in model._flatten_layers():
            for strength in ("rate", "stddev"):
                if layer.__class__.__module__.startswith("keras.") and hasattr(layer, strength):
                    setattr(layer, strength, 0.0)


def relative_difference(a: Any, b: Any) -> float:
    """Norm of the difference of two nests of arrays over the norm of the first."""
    pairs = list(zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True))
    difference = sum(
        float(np.sum(np.square(np.asarray(x, "f8") - np.asarray(y, "f8")))) for x, y in pairs
    )
    norm = sum(float(np.sum(np.square(np.asarray(x, "f8")))) for x, _ in pairs)
    return float(np.sqrt(difference / norm)) if norm else float(np.sqrt(difference))


def explain(
    one: dict[str, float], several: dict[str, float], replicas: int, regularization: float
) -> str:
    """Which known fault makes these numbers differ between one replica and several.

    Args:
        one: losses and metrics on one replica.
        several: the same on more.
        replicas: how many those are.
        regularization: the sum of the models' own losses.
    """
    for name, a in one.items():
        b = several[name]
        if np.isclose(a, b, rtol=TOLERANCE, atol=1e-7):
            continue
        if "loss" not in name:
            return (
                f"the metric {name} is fed the scaled loss; feed it per-example values and weights"
            )
        if regularization and np.isclose(b - a, (replicas - 1) * regularization, rtol=1e-2):
            return "regularization is counted once per replica; use tf.nn.scale_regularization_loss"
        if np.isclose(b, replicas * a, rtol=1e-2):
            return (
                "the loss is averaged twice, or over the replica's own batch: "
                "use replica.global_count"
            )
        return (
            f"{name} depends on how the batch is split: through statistics of one replica's batch, "
            "random numbers, or another denominator than replica.global_count"
        )
    return "gradients are changed before they are summed; clip or change them in process_gradients"


def check(
    create_run: CreateRun, strategies: tuple[tf.distribute.Strategy, tf.distribute.Strategy]
) -> Iterator[Finding]:
    """Check a task in several ways; `strategies` are one replica and two."""
    try:
        one, two = create_run(strategies[0]), create_run(strategies[1])
        for run, *_ in (one, two):
            silence_random_layers(run.models)
        _, steps, batches = one
        yield _check_values(batches)
        reduced = steps.dry_run(iter(batches.dataset(0, 1)), steps.start())
        yield Finding("data fits the model", False, f"{batches.num_examples} training examples")
        yield _check_per_example(steps, batches)
        yield _check_gradients(steps.run, reduced)
        yield _check_parity(one, two)
        yield from _check_training(steps, batches)
    except NotImplementedError:  # something the task doesn't have yet; it says what
        raise
    except UsageError as error:
        yield Finding("the task can be built", True, str(error))
    except (ValueError, TypeError, tf.errors.OpError) as error:
        yield Finding("a train step runs", True, str(error).strip().splitlines()[0])


def _check_values(batches: TrainingBatches) -> Finding:
    name = "data is finite"
    split = worker_split(batches.split)
    examples = split.take(1000).batch(1000) if isinstance(split, tf.data.Dataset) else [split]
    for arrays in examples:
        for array in map(np.asarray, tf.nest.flatten(arrays)):
            if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
                rows = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
                detail = f"NaN or infinity in {len(rows)} examples, first in {rows[0]}; expected?"
                return Finding(name, False, detail)
    return Finding(name, False, "no NaN, no infinity")


def _check_per_example(steps: DistributedSteps, batches: TrainingBatches) -> Finding:
    """A loss must give a number for each example (or for each token, pixel, ... of it)."""
    run = steps.run
    shapes: dict[str, Any] = {}

    def recorded(name: str, loss: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        def call(*args: Any, **kwargs: Any) -> tf.Tensor:
            value = loss(*args, **kwargs)
            shapes[name] = value.shape
            return value

        return call

    losses = {name: recorded(name, loss) for name, loss in run.losses.items()}
    rows = steps.layout.per_replica // steps.layout.accumulate
    recording = DistributedSteps(replace(run, losses=losses), steps.layout)
    recording.dry_run(iter(batches.dataset(0, 1)), recording.start())
    name = "loss per example"
    for loss, shape in shapes.items():
        if not shape.rank or shape[0] != rows:
            return Finding(
                name,
                True,
                f'{loss!r} gives shape {shape} for {rows} rows; create it with reduction="none"',
            )
    found = ", ".join(f"{loss} {tuple(shape)}" for loss, shape in shapes.items())
    return Finding(name, False, found)


def _check_gradients(run: Run, reduced: list[ReducedStep]) -> Finding:
    name = "every weight gets a gradient"
    without = []
    for step in reduced:
        for optimizer, gradients in step.gradients.items():
            pairs = zip(run.variables_of(optimizer), gradients, strict=True)
            without += [v.path for v, gradient in pairs if not np.any(gradient)]
    if without:
        listed = ", ".join(without[:3])
        return Finding(name, True, f"none for {listed}; use it in the loss, or freeze it")
    return Finding(name, False, "")


def _check_parity(one: Created, two: Created) -> Finding:
    name = "two replicas make the same step as one"
    for model, other in zip(one[0].models.values(), two[0].models.values(), strict=True):
        other.set_weights(model.get_weights())
    (one_numbers, one_gradients), (two_numbers, two_gradients) = map(_first_step, (one, two))
    numbers = relative_difference(list(one_numbers.values()), list(two_numbers.values()))
    gradients = relative_difference(one_gradients, two_gradients)
    detail = f"losses and metrics differ by {numbers:.0e}, gradients by {gradients:.0e}"
    if max(numbers, gradients) < TOLERANCE:
        return Finding(name, False, detail)
    if numbers < TOLERANCE and abs(gradients - 1) < 1e-2:  # twice as large, and nothing else
        return Finding(name, True, f"{detail}: gradients are summed twice; the engine does it once")
    models = one[0].models.values()
    regularization = float(sum(float(loss) for model in models for loss in model.losses))
    cause = explain(one_numbers, two_numbers, 2, regularization)
    return Finding(name, True, f"{detail}: {cause}")


def _first_step(created: Created) -> tuple[dict[str, float], list[Any]]:
    """Losses and metrics of the first step, and its gradients."""
    run, steps, batches = created
    reduced = steps.dry_run(iter(batches.dataset(0, 1)), steps.start())
    numbers = {f"{n} loss": float(loss) for step in reduced for n, loss in step.losses.items()}
    steps.distributed_train_step(iter(batches.dataset(0, 1)), 1, steps.start())
    numbers |= run.metric_results()
    return numbers, [step.gradients for step in reduced]


def _check_training(steps: DistributedSteps, batches: TrainingBatches) -> Iterator[Finding]:
    one_batch = next(iter(batches.dataset(0, 1)))
    repeated = iter(tf.data.Dataset.from_tensors(one_batch).repeat())
    progress = steps.distributed_train_step(repeated, 1, steps.start())
    trained = len(steps.run.optimizers)  # the terms come after their losses
    first = progress.latest.losses.numpy()[:trained]
    started = time.perf_counter()
    progress = steps.distributed_train_step(repeated, REPEATED_STEPS, progress)
    computing = (time.perf_counter() - started) / REPEATED_STEPS
    last = progress.latest.losses.numpy()[:trained]
    before, after = (" ".join(f"{loss:.3g}" for loss in losses) for losses in (first, last))
    detail = f"{before} to {after} in {REPEATED_STEPS} steps on one batch"
    several = len(first) > 1  # adversaries: one of them may rise
    fell = (last < first).any() if several else (last < first).all()
    if not fell:
        detail += ": look at the learning rate and at the signs"
    yield Finding("loss falls", not fell, detail)

    iterator = iter(batches.dataset(0, TIMED_STEPS + 1))
    next(iterator)
    started = time.perf_counter()
    for _ in range(TIMED_STEPS):
        next(iterator)
    waiting = (time.perf_counter() - started) / TIMED_STEPS
    slower = "data" if waiting > computing else "computing"
    yield Finding(
        "data keeps up",
        False,
        f"a batch takes {waiting * 1e3:.1f} ms, a step {computing * 1e3:.1f} ms: wait for {slower}",
    )
    traces = steps.num_traces()
    several_traces = (
        f"{traces} traces: a shape changes between batches, or a Python number between calls"
    )
    yield Finding("one trace", traces != 1, several_traces if traces != 1 else "")
