"""What there is beside training: `python -m {{ cookiecutter.package_name }} --help`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, subcommand

from .config import Config
from .engine.command_line import expand, parse, read
from .engine.errors import fail, usage_errors
from .engine.quiet import quiet_import
from .engine.todo import find_todos
from .task.config import TaskConfig

if TYPE_CHECKING:
    import tensorflow as tf

    from .engine.distribution import Distribution
    from .engine.loop import Loop
    from .engine.types import Run

TASK = Path(__file__).with_name("task")


@dataclass
class Todo:
    """List the TODOs that are still in the task."""

    def __call__(self) -> None:
        """List them."""
        todos = find_todos(TASK)
        for item in todos:
            file = item.file.relative_to(TASK.parent.parent)
            what = item.text.partition(";")[0]
            print(f"{item.number:3}  {file}:{item.line}  {what}")
        print(f"{len(todos) or 'no'} TODOs left")


@dataclass
class Check:
    """Look for what goes wrong in silence; takes the flags of train.py; exit code 1 for a fault."""

    training: Config
    task: TaskConfig

    def __call__(self) -> None:
        """Print a line for each check."""
        with quiet_import():
            from .engine.check import check, one_and_two_replicas
            from .run import create_run
            from .task.data import create_datasets
        strategies = one_and_two_replicas()
        datasets = create_datasets(self.task)

        def create(strategy: tf.distribute.Strategy) -> tuple[Run, Distribution]:
            return create_run(strategy, datasets, self.training, self.task)

        wrong = 0
        for finding in check(create, strategies, datasets["train"]):
            wrong += finding.wrong
            verdict = "WRONG" if finding.wrong else "ok   "
            print(f"{verdict}  {finding.name}: {finding.said}".rstrip(": "))
        print(f"       {len(find_todos(TASK))} TODOs untouched")
        raise SystemExit(int(wrong > 0))


@dataclass
class Evaluate:
    """Print losses and metrics of a run's best weights."""

    run: Positional[Path]  # the run directory
    split: Literal["train", "validation", "test"] = "test"  # the data to evaluate

    def __call__(self) -> None:
        """Print them as JSON."""
        loop = _open(self.run)
        if self.split not in loop.splits:
            fail(f"there is no {self.split} data; there is: {', '.join(loop.splits)}.")
        print(json.dumps(loop.evaluate(self.split), indent=2))


@dataclass
class Predict:
    """Write to RUN/predictions/ what a run's best weights make of inputs in files."""

    run: Positional[Path]  # the run directory
    files: Positional[tuple[Path, ...]]  # .npy with inputs, or .npz with one array for each input

    def __call__(self) -> None:
        """Write a file for each."""
        for file in self.files:
            if not file.is_file() or file.suffix not in (".npy", ".npz"):
                fail(f"{file} is not a .npy or .npz file.")
        loop = _open(self.run)
        from .engine.finished import predict_file

        for file in self.files:
            print(predict_file(loop.run, file, self.run / "predictions"))


@dataclass
class Export:
    """Write a run's best weights as RUN/export/<model>.keras and SavedModel, and compare them."""

    run: Positional[Path]  # the run directory

    def __call__(self) -> None:
        """Print a line for each file."""
        loop = _open(self.run)
        from .engine.finished import export_models

        for line in export_models(loop.run.models, self.run / "export"):
            print(line)


Command = (
    Annotated[Todo, subcommand("todo")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Predict, subcommand("predict")]
    | Annotated[Export, subcommand("export")]
)


def _open(run: Path) -> Loop:
    """A run with its best weights, without a strategy."""
    flags = ["--resume", str(run), "--strategy", "none", "--virtual-replicas", "0"]
    config, task = parse(flags, training=Config, task=TaskConfig)
    with quiet_import():
        from .engine.loop import Loop
        from .engine.report import RunDirectory
        from .engine.strategy import create_strategy
        from .run import create_run
        from .task.data import create_datasets
    strategy, datasets = create_strategy(config), create_datasets(task)
    loop = Loop(
        *create_run(strategy, datasets, config, task),
        datasets,
        RunDirectory(run),
        config,
        monitor=task.monitor,
        larger_is_better=task.larger_is_better,
    )
    if not loop.checkpoints.restore_best():
        fail(f"{run} has no weights yet: no epoch was finished.")
    return loop


if __name__ == "__main__":
    name, *flags = sys.argv[1:] or ["--help"]
    with usage_errors():
        read(Command, [name, *expand(flags)], program=f"python -m {__package__}")()
