"""Train every changed project for a few steps, to see that nothing gives an error.

In tests/:
    python -m proofs.planted.trial faults|tasks [REGEX]

Prints a line for each: losses of the first and last step, and of validation and test. A fault makes
3 steps on one replica; a task 20 steps on one and on two, and its losses must be finite.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import math
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf
from cookiecutter.main import cookiecutter

from .. import ROOT
from . import FAULTS, TASKS
from .edits import PACKAGE, Change


def main(what: str, pattern: str = "") -> int:
    """Train them; the exit code is 1 if one failed."""
    changes: tuple[Change, ...] = FAULTS if what == "faults" else TASKS
    changes = tuple(c for c in changes if re.search(pattern, f"{c.starter} {c.name}"))
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    reduce = tf.distribute.ReductionToOneDevice()
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], reduce)
    strategies = [tf.distribute.get_strategy()] + ([two] if what == "tasks" else [])
    failed = 0
    for change in sorted(changes, key=lambda c: c.starter):
        for strategy in strategies:
            label = f"{change.starter}: {change.name} ({strategy.num_replicas_in_sync})"
            try:
                numbers = _train(change, strategy, steps=20 if what == "tasks" else 3)
            except Exception as error:
                failed += 1
                message = " ".join(str(error).split())
                print(f"FAILED {label}: {type(error).__name__}: {message[:600]}", flush=True)
                continue
            finite = all(map(math.isfinite, numbers.values()))
            failed += what == "tasks" and not finite
            shown = " ".join(f"{name}={value:.4g}" for name, value in numbers.items())
            print(f"{'ok' if finite else 'NOT FINITE'} {label}: {shown}", flush=True)
    print(f"{len(changes)} tried, {failed} failed")
    return int(failed > 0)


@functools.cache
def _render(starter: str) -> Path:
    context = {"starter": starter}
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory)
    made = cookiecutter(
        str(ROOT), no_input=True, output_dir=directory, default_config=True, extra_context=context
    )
    shutil.rmtree(Path(made) / "tests")
    return Path(made)


def _train(change: Change, strategy: tf.distribute.Strategy, steps: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory) / "project"
        shutil.copytree(_render(change.starter), project)
        change.plant(project)
        change.prepare(project)
        sys.path.insert(0, str(project))
        try:
            return _steps(change, strategy, steps)
        finally:
            sys.path.remove(str(project))
            for name in [n for n in sys.modules if n.partition(".")[0] == PACKAGE]:
                del sys.modules[name]
            importlib.invalidate_caches()


def _steps(change: Change, strategy: tf.distribute.Strategy, steps: int) -> dict[str, float]:
    def load(name: str) -> Any:
        return importlib.import_module(f"{PACKAGE}.{name}")

    config, task = load("engine.command_line").parse(
        list(change.flags), training=load("config").Config, task=load("task.config").TaskConfig
    )
    load("task.pictures")
    datasets = load("task.data").create_datasets(task)
    run, train_steps, batches = load("run").create_run(strategy, datasets, config, task)
    callbacks = load("task.callbacks").create_callbacks(task)
    assert isinstance(callbacks, list)
    evaluation = load("engine.evaluation").Evaluation(run, datasets, train_steps.layout)
    iterator, progress = iter(batches.dataset(0, steps)), train_steps.start()
    numbers: dict[str, float] = {}
    for step in (0, steps - 1):
        progress = train_steps.distributed_train_step(iterator, max(1, step), progress)
        losses = progress.latest.losses.numpy()
        numbers |= {f"{n}@{step}": float(v) for n, v in zip(run.returned, losses, strict=True)}
    touches_test = any("test" in edit.other + edit.where for edit in change.edits)
    for split in ("validation", "test") if touches_test else ("validation",):
        if split in evaluation.splits:
            numbers |= evaluation.evaluate(split, 1)
    return numbers


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
