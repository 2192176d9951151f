"""What goes wrong in silence, looked for in your own task: `python -m <package> check`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from .batches import Split, number_of_examples, own_part, training_batches
from .distribution import Distribution, Outcome
from .errors import TodoError, UsageError
from .types import Run

CreateRun = Callable[[tf.distribute.Strategy], tuple[Run, Distribution]]

TOLERANCE = 1e-4  # float32, relative to the norm: rounding is 1e-6, the faults looked for 1e-2
REPEATED_STEPS = 30
TIMED_STEPS = 20


class Finding(NamedTuple):
    """One line of the table."""

    name: str
    wrong: bool
    said: str


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
            for knob in ("rate", "stddev"):
                if layer.__class__.__module__.startswith("keras.") and hasattr(layer, knob):
                    setattr(layer, knob, 0.0)


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
            return "the loss is averaged twice, or over the replica's own batch: use replica.count"
        return (
            f"{name} depends on how the batch is split: through statistics of one replica's share, "
            "random numbers, or another denominator than replica.count"
        )
    return "gradients are changed before they are summed; clip or change them in process_gradients"


def check(
    create_run: CreateRun,
    strategies: tuple[tf.distribute.Strategy, tf.distribute.Strategy],
    split: Split,
) -> Iterator[Finding]:
    """Look at a task from all sides; `strategies` are one replica and two."""
    try:
        yield _check_values(split)
        run, distribution = create_run(strategies[0])
        silence_random_layers(run.models)
        single = _first_step(distribution, split)
        yield Finding(
            "data fits the model", False, f"{number_of_examples(split)} training examples"
        )
        yield _check_per_example(distribution, split)
        yield _check_gradients(run, single)
        other_run, other = create_run(strategies[1])
        silence_random_layers(other_run.models)
        yield _check_parity(run, other_run, distribution, other, split)
        yield from _check_training(distribution, split)
    except TodoError:
        raise
    except UsageError as error:
        yield Finding("the task can be built", True, str(error))
    except (ValueError, TypeError, tf.errors.OpError) as error:
        yield Finding("a train step runs", True, str(error).strip().splitlines()[0])


def _batches(distribution: Distribution, split: Split, last_step: int) -> tf.data.Dataset:
    run = distribution.run
    return training_batches(
        split, distribution.layout, seed=run.seed, first_step=0, last_step=last_step,
        last_batch="pad", augment=run.task.augment,
    )  # fmt: skip


def _first_step(distribution: Distribution, split: Split) -> list[Outcome]:
    return distribution.probe(iter(_batches(distribution, split, 1)), distribution.start())


def _check_values(split: Split) -> Finding:
    name = "data is finite"
    split = own_part(split)
    examples = split.take(1000).batch(1000) if isinstance(split, tf.data.Dataset) else [split]
    for arrays in examples:
        for array in tf.nest.flatten(arrays):
            if np.issubdtype(np.asarray(array).dtype, np.floating) and not np.isfinite(array).all():
                rows = np.flatnonzero(
                    ~np.isfinite(np.asarray(array)).reshape(len(array), -1).all(axis=1)
                )
                return Finding(
                    name,
                    False,
                    f"NaN or infinity in {len(rows)} examples, first in {rows[0]}; expected?",
                )
    return Finding(name, False, "no NaN, no infinity")


def _check_per_example(distribution: Distribution, split: Split) -> Finding:
    """A loss must give a number for each example (or for each token, pixel, ... of it)."""
    run = distribution.run
    seen: dict[str, Any] = {}

    def recorded(name: str, loss: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        def call(*args: Any, **kwargs: Any) -> tf.Tensor:
            value = loss(*args, **kwargs)
            seen[name] = value.shape
            return value

        return call

    losses = {name: recorded(name, loss) for name, loss in run.losses.items()}
    rows = distribution.layout.per_replica
    spy = Distribution(replace(run, losses=losses), distribution.layout)
    _first_step(spy, split)
    name = "loss per example"
    for loss, shape in seen.items():
        if not shape.rank or shape[0] != rows:
            return Finding(
                name,
                True,
                f'{loss!r} gives shape {shape} for {rows} rows; create it with reduction="none"',
            )
    return Finding(name, False, ", ".join(f"{loss} {tuple(shape)}" for loss, shape in seen.items()))


def _check_gradients(run: Run, outcomes: list[Outcome]) -> Finding:
    without = []
    for outcome in outcomes:
        for name, gradients in outcome.gradients.items():
            pairs = zip(run.variables_of(name), gradients, strict=True)
            without += [v.path for v, gradient in pairs if not np.any(gradient)]
    if without:
        return Finding(
            "every weight gets a gradient",
            True,
            f"none for {', '.join(without[:3])}; use it in the loss, or freeze it",
        )
    return Finding("every weight gets a gradient", False, "")


def _check_parity(
    run: Run, other_run: Run, one: Distribution, two: Distribution, split: Split
) -> Finding:
    name = "two replicas make the same step as one"
    for model, other in zip(run.models.values(), other_run.models.values(), strict=True):
        other.set_weights(model.get_weights())
    seen = []
    for distribution in (one, two):
        (first, *_) = outcomes = _first_step(distribution, split)
        losses = {f"{n} loss": float(v) for o in outcomes for n, v in o.losses.items()}
        progress = distribution.distributed_train_step(
            iter(_batches(distribution, split, 1)), 1, distribution.start()
        )
        metrics = {n: float(m.result()) for n, m in distribution.run.metrics.items()}
        seen.append((losses | metrics, [o.gradients for o in outcomes], progress, first))
    (one_numbers, one_gradients, *_), (two_numbers, two_gradients, *_) = seen
    numbers = relative_difference(list(one_numbers.values()), list(two_numbers.values()))
    gradients = relative_difference(one_gradients, two_gradients)
    said = f"losses and metrics differ by {numbers:.0e}, gradients by {gradients:.0e}"
    if max(numbers, gradients) < TOLERANCE:
        return Finding(name, False, said)
    if numbers < TOLERANCE and abs(gradients - 1) < 1e-2:  # twice as large, and nothing else
        return Finding(name, True, f"{said}: gradients are summed twice; the engine does it once")
    regularization = float(sum(float(loss) for m in run.models.values() for loss in m.losses))
    return Finding(name, True, f"{said}: {explain(one_numbers, two_numbers, 2, regularization)}")


def _check_training(distribution: Distribution, split: Split) -> Iterator[Finding]:
    one_batch = next(iter(_batches(distribution, split, 1)))
    repeated = iter(tf.data.Dataset.from_tensors(one_batch).repeat())
    progress = distribution.distributed_train_step(repeated, 1, distribution.start())
    first = progress.last_losses.numpy()
    started = time.perf_counter()
    progress = distribution.distributed_train_step(repeated, REPEATED_STEPS, progress)
    computing = (time.perf_counter() - started) / REPEATED_STEPS
    last = progress.last_losses.numpy()
    before, after = (" ".join(f"{loss:.3g}" for loss in losses) for losses in (first, last))
    said = f"{before} to {after} in {REPEATED_STEPS} steps on one batch"
    several = len(first) > 1  # adversaries: one of them may rise
    fell = (last < first).any() if several else (last < first).all()
    yield Finding(
        "loss falls",
        not fell,
        said if fell else f"{said}: look at the learning rate and at the signs",
    )

    iterator = iter(_batches(distribution, split, TIMED_STEPS + 1))
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
    traces = distribution.number_of_traces()
    yield Finding(
        "one trace",
        traces != 1,
        ""
        if traces == 1
        else f"{traces} traces: a shape changes between batches, or a Python number between calls",
    )
