"""The model of a few weights that a rendered project's own tests use, and a loop for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from proof.engine.batches import LastBatch, TrainingBatches, create_layout
from proof.engine.callbacks import Callback
from proof.engine.distributed_steps import DistributedSteps
from proof.engine.evaluation import Evaluation
from proof.engine.loop import Loop, Schedule
from proof.engine.run_directory import RunDirectory
from proof.engine.types import Run

from . import project

FILE = Path(project, "tests/engine/toys.py")  # its package is called `tests`, as this one
spec: Any = importlib.util.spec_from_file_location("rendered_toys", FILE)
toys: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(toys)
create_run, BATCH, FEATURES = toys.create_run, toys.BATCH, toys.FEATURES


def create_loop(
    path: Path,
    replicas: int = 1,
    callbacks: Sequence[Callback] = (),
    run: Run | None = None,
    last_batch: LastBatch = "drop",
    **schedule: Any,
) -> Loop:
    """The loop of a run directory: four steps an epoch, two epochs, three batches to validate."""
    path.mkdir(exist_ok=True)
    run = run or create_run(replicas)
    random = np.random.default_rng(1)
    rows = random.normal(size=(4 * BATCH, FEATURES)).astype(keras.config.floatx())
    layout = create_layout(run.strategy, run.global_batch_size)
    batches = TrainingBatches(rows, layout, last_batch=last_batch)
    steps = DistributedSteps(run, layout)
    splits = {"validation": random.normal(size=(3 * BATCH, FEATURES))}
    return Loop(
        run,
        steps,
        batches,
        Evaluation(run, splits, steps.layout),
        RunDirectory(path),
        Schedule(**{"num_steps": 8, "save_every_epochs": 0, "save_every_secs": 0} | schedule),
        callbacks=callbacks,
        monitor="validation_loss",
        larger_is_better=False,
    )


def run_loop(path: Path, *arguments: Any, resume: bool = False, **settings: Any) -> Loop:
    """A loop after it has trained to the end."""
    loop = create_loop(path, *arguments, **settings)
    loop.start(resume=resume)
    loop.train()
    return loop
