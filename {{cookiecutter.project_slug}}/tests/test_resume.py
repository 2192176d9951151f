"""A run that is killed and resumed ends like one that was never stopped: your task, bit by bit."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.adapted import read_adapted, write_adapted
from {{ cookiecutter.package_name }}.engine.callbacks import Event, at_step, every_steps
from {{ cookiecutter.package_name }}.engine.checkpoints import TEXT
from {{ cookiecutter.package_name }}.engine.evaluation import Evaluation
from {{ cookiecutter.package_name }}.engine.loop import Loop
from {{ cookiecutter.package_name }}.engine.run_directory import RunDirectory
from {{ cookiecutter.package_name }}.run import create_run, create_schedule
from {{ cookiecutter.package_name }}.task.callbacks import create_callbacks
from {{ cookiecutter.package_name }}.task.config import TaskConfig

from .replicas import create_small_datasets
from .scenarios import BATCH

STEPS_PER_EPOCH = 4
CONFIG = Config(
    steps=10,
    global_batch_size=BATCH,
    validate_every_steps=5,
    validation_steps=1,
    log_every_steps=4,
    save_every_epochs=0,
    save_every_steps=3,
    save_every_secs=0,
)
KILLED_AT = 8  # the save at 6 lies within an epoch, between two validations and two log points


class Killed(Exception):
    """Stands for SIGKILL: nothing is saved, no file is closed."""


class Batches:
    """A callback that records a hash of every batch; its state is saved in checkpoints."""

    def __init__(self) -> None:
        self.digests: list[str] = []

    def __call__(self, event: Event) -> None:
        leaves = tf.nest.flatten(event.batch)
        data = b"".join(np.asarray(leaf).tobytes() for leaf in leaves)
        self.digests.append(hashlib.sha256(data).hexdigest())

    def get_state(self) -> list[str]:
        return self.digests

    def set_state(self, state: list[str]) -> None:
        self.digests = state


class End(NamedTuple):
    """What a run leaves behind."""

    checkpoint: dict[str, bytes]  # weights, slots, metrics, progress
    state: dict[str, Any]  # what else it has, such as that of the callbacks, without clock times
    history: str  # history.csv
    steps: list[dict[str, str]]  # steps.csv without what depends on the clock
    results: dict[str, float]
    batches: list[str]


class Runs(NamedTuple):
    """A run that was never stopped, and one that is to be resumed."""

    whole: End
    killed: Path


def train(path: Path, replicas: int, *, resume: bool, killed: bool = False) -> End | None:
    """Train to the end, or to step KILLED_AT, where `Killed` stands for a SIGKILL."""

    def kill(event: Event) -> None:
        raise Killed

    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        devices = [f"CPU:{i}" for i in range(replicas)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
    task, digests = TaskConfig(), Batches()
    datasets = create_small_datasets(STEPS_PER_EPOCH * BATCH)
    adapted = read_adapted(path) if resume else None
    run, steps, batches = create_run(strategy, datasets, CONFIG, task, adapted)
    write_adapted(path, run.adapted)
    loop = Loop(
        run,
        steps,
        batches,
        Evaluation(run, datasets, steps.layout),
        RunDirectory(path),
        create_schedule(CONFIG, batches),
        callbacks=[
            *create_callbacks(task),
            every_steps(1, digests),
            *([at_step(KILLED_AT, kill)] if killed else []),
        ],
        monitor=task.monitor,
        larger_is_better=task.larger_is_better,
    )
    loop.start(resume=resume)
    if killed:
        with pytest.raises(Killed):
            loop.train()
        return None
    loop.train()
    last = tf.train.load_checkpoint(str(path / "checkpoints" / "latest" / f"ckpt-{loop.step}"))
    names = set(last.get_variable_to_shape_map()) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
    checkpoint = {name: np.asarray(last.get_tensor(name)).tobytes() for name in names}
    state = json.loads(checkpoint.pop(TEXT))
    del state["loop"]["seconds"], state["loop"]["parts"]
    with (path / "steps.csv").open(newline="") as lines:
        timed = dict.fromkeys(("examples_per_second", "waiting_for_data"), "")
        logged = [row | timed for row in csv.DictReader(lines)]
    return End(
        checkpoint,
        state,
        (path / "history.csv").read_text(),
        logged,
        loop.test(),
        digests.digests,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Runs]:
    """Both runs on so many replicas."""
    made: dict[int, Runs] = {}

    def runs(replicas: int) -> Runs:
        if replicas not in made:
            whole = train(tmp_path_factory.mktemp("whole"), replicas, resume=False)
            assert whole is not None
            killed = tmp_path_factory.mktemp("killed")
            train(killed, replicas, resume=False, killed=True)
            made[replicas] = Runs(whole, killed)
        return made[replicas]

    return runs


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_run_killed_between_two_validations_ends_like_one_never_stopped(
    runs: Callable[[int], Runs], replicas: int, tmp_path: Path
) -> None:
    run = shutil.copytree(runs(replicas).killed, tmp_path / "run")
    end, whole = train(run, replicas, resume=True), runs(replicas).whole
    assert end is not None
    different = [n for n in whole.checkpoint if end.checkpoint[n] != whole.checkpoint[n]]
    assert not different, "random numbers that don't follow from the step, or state not saved?"
    assert end == whole


def test_on_another_number_of_replicas_it_sees_the_same_examples_in_the_same_order(
    runs: Callable[[int], Runs], tmp_path: Path
) -> None:
    run = shutil.copytree(runs(1).killed, tmp_path / "run")
    end = train(run, 2, resume=True)
    assert end is not None
    assert len(end.batches) == CONFIG.steps
    assert end.batches == runs(1).whole.batches
