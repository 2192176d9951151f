"""A run that dies and goes on ends like one that was never stopped: on your task, bit by bit."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from replicas import trimmed
from scenarios import BATCH, Scenario

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.callbacks import Callback, Event, at_step, every_steps
from {{ cookiecutter.package_name }}.engine.command_line import to_yaml
from {{ cookiecutter.package_name }}.engine.errors import UsageError
from {{ cookiecutter.package_name }}.engine.loop import Loop
from {{ cookiecutter.package_name }}.engine.report import RunDirectory
from {{ cookiecutter.package_name }}.run import create_run
from {{ cookiecutter.package_name }}.task.config import TaskConfig
from {{ cookiecutter.package_name }}.task.data import create_datasets

STEPS_PER_EPOCH, EPOCHS = 4, 2
CONFIG = Config(
    epochs=EPOCHS,
    global_batch_size=BATCH,
    save_every_epochs=0,
    save_every_steps=3,  # in the middle of each epoch
    save_every_secs=0,
)


class Killed(Exception):
    """Stands for SIGKILL: nothing is saved, no file is closed."""


class Batches:
    """A callback with state: the digests of all batches up to now."""

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

    checkpoint: dict[str, bytes]  # weights, slots, metrics, progress, callbacks' state
    history: str
    results: dict[str, float]
    batches: list[str]


def create(
    path: Path,
    replicas: int,
    callbacks: Sequence[Callback] = (),
    config: Config = CONFIG,
    change: Callable[[Any], Any] = lambda run: run,
) -> Loop:
    """The loop of a run directory."""
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        devices = [f"CPU:{i}" for i in range(replicas)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
    task = TaskConfig()
    datasets = create_datasets(task)
    some = Scenario("full")
    train = [trimmed(datasets["train"], some) for _ in range(STEPS_PER_EPOCH // 2)]
    splits = {name: trimmed(split, some) for name, split in datasets.items()}
    splits["train"] = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *train)
    run, distribution = create_run(strategy, {**datasets, **splits}, config, task)
    distribution.run = run = change(run)
    return Loop(
        run,
        distribution,
        splits,
        RunDirectory(path),
        config,
        callbacks=callbacks,
        monitor=task.monitor,
        larger_is_better=task.larger_is_better,
    )


def train(path: Path, replicas: int, *, resume: bool, killed_after: int = 0) -> End | None:
    """Train to the end, or to a step after which the process is gone."""

    def kill(event: Event) -> None:
        raise Killed

    batches = Batches()
    callbacks = [every_steps(1, batches)]
    loop = create(
        path, replicas, [*callbacks, *([at_step(killed_after, kill)] * bool(killed_after))]
    )
    if resume:
        loop.resume()
    if killed_after:
        with pytest.raises(Killed):
            loop.train()
        return None
    loop.train()
    last = tf.train.load_checkpoint(str(checkpoints(path)[-1]).partition(".data")[0])
    names = set(last.get_variable_to_shape_map()) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
    return End(
        {name: np.asarray(last.get_tensor(name)).tobytes() for name in names},
        (path / "history.csv").read_text(),
        loop.test(),
        batches.digests,
    )


class Runs(NamedTuple):
    """A run that was never stopped, and one that was killed twice."""

    whole: End
    killed: Path  # after step 7, with checkpoints of steps 3 and 6


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Runs]:
    """Both, on a number of replicas."""
    made: dict[int, Runs] = {}

    def runs(replicas: int) -> Runs:
        if replicas not in made:
            directory = tmp_path_factory.mktemp(f"on-{replicas}")
            for name in ("whole", "killed"):
                (directory / name).mkdir()
            whole = train(directory / "whole", replicas, resume=False)
            assert whole is not None
            train(directory / "killed", replicas, resume=False, killed_after=7)
            made[replicas] = Runs(whole, directory / "killed")
        return made[replicas]

    return runs


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def checkpoints(directory: Path) -> list[Path]:
    """The data files of all checkpoints, the latest last."""
    return sorted((directory / "checkpoints" / "latest").glob("*.data*"))


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_run_killed_within_an_epoch_ends_like_one_never_stopped(
    runs: Callable[[int], Runs], replicas: int, tmp_path: Path
) -> None:
    run = shutil.copytree(runs(replicas).killed, tmp_path / "run")
    end, whole = train(run, replicas, resume=True), runs(replicas).whole
    assert end is not None
    different = [n for n in whole.checkpoint if end.checkpoint[n] != whole.checkpoint[n]]
    assert not different, "random numbers that don't follow from the step, or state not saved?"
    assert end == whole


def test_on_another_number_of_replicas_it_takes_the_same_examples_in_the_same_order(
    runs: Callable[[int], Runs], tmp_path: Path
) -> None:
    run = shutil.copytree(runs(1).killed, tmp_path / "run")
    end = train(run, 2, resume=True)
    assert end is not None
    assert len(end.batches) == STEPS_PER_EPOCH * EPOCHS
    assert end.batches == runs(1).whole.batches


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    runs: Callable[[int], Runs], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(runs(1).killed, tmp_path / "run")
    (run / "checkpoints" / "latest" / "ckpt-2.data-00000-of-00001").touch()  # of a save killed
    latest = checkpoints(run)[-1]
    damaged = bytearray(latest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    latest.write_bytes(damaged)
    end = train(run, 1, resume=True)
    assert "ckpt-6 can't be read" in capsys.readouterr().out
    assert end == runs(1).whole
    kept = [file.name.partition(".")[0] for file in checkpoints(run)]
    assert kept == ["ckpt-3", "ckpt-6", "ckpt-8"]


@pytest.mark.parametrize("damage", ["truncated", "no index"])
def test_without_a_checkpoint_that_can_be_read_nothing_is_resumed(
    runs: Callable[[int], Runs], tmp_path: Path, damage: str
) -> None:
    run = shutil.copytree(runs(1).killed, tmp_path / "run")
    for file in checkpoints(run):
        if damage == "truncated":
            os.truncate(file, 100)
        else:
            file.with_name(f"{file.name.partition('.')[0]}.index").unlink()
    with pytest.raises(UsageError, match="holds no checkpoint"):
        create(run, 1).resume()


def test_another_run_is_refused_and_nothing_on_disk_changes(
    runs: Callable[[int], Runs], tmp_path: Path
) -> None:
    run = shutil.copytree(runs(1).killed, tmp_path / "run")
    unfinished = run / "checkpoints" / "latest" / "unfinished" / "ckpt-7_temp"
    unfinished.mkdir(parents=True)
    (unfinished / "part").touch()
    before = contents(run)

    def other_optimizer(made: Any) -> Any:
        optimizers = {name: keras.optimizers.Ftrl(1.0) for name in made.optimizers}
        for name, optimizer in optimizers.items():
            optimizer.build(made.variables_of(name))
        return replace(made, optimizers=optimizers)

    others: dict[str, dict[str, Any]] = {
        "global batch size was 24, and now it is 12": {
            "config": replace(CONFIG, global_batch_size=12)
        },
        "seed was 0, and now it is 1": {"config": replace(CONFIG, seed=1)},
        "last batch was drop, and now it is pad": {"config": replace(CONFIG, last_batch="pad")},
        "precision was float32, and now it is mixed_bfloat16": {
            "config": replace(CONFIG, precision="bfloat16")
        },
        "optimizer .* and now it is Ftrl": {"change": other_optimizer},
    }
    for sentence, other in others.items():
        with pytest.raises(UsageError, match=sentence):
            create(run, 1, **other).resume()
    assert contents(run) == before


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    first = RunDirectory.open(replace(CONFIG, runs=str(tmp_path)), to_yaml(CONFIG))
    with pytest.raises(UsageError, match="another process"):
        RunDirectory.open(replace(CONFIG, resume=str(first.path)), "")


def test_what_callbacks_asked_for_holds_after_a_resume(tmp_path: Path) -> None:
    batches = Batches()
    batches.digests = ["from before"]

    def stop_and_save(event: Event) -> None:
        event.save()
        event.stop()

    def changed_after_the_save(event: Event) -> None:
        batches.digests += ["too late?"]

    callbacks = [at_step(0, stop_and_save), at_step(0, changed_after_the_save)]
    create(tmp_path, 1, [*callbacks, every_steps(1, batches)]).train()
    assert checkpoints(tmp_path)[0].name.startswith("ckpt-0.")

    loop = create(tmp_path, 1, [*callbacks, every_steps(1, batches)])
    batches.digests = []
    loop.resume()
    loop.train()
    assert batches.digests == ["from before", "too late?"]
    assert loop.step == 0
