"""The commands other than training: `python -m {{ cookiecutter.package_name }} --help`."""

from __future__ import annotations

import gc
import math
import os
import sys
import time
import webbrowser
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, subcommand

from .config import Config
from .engine.command_line import expand, parse, read, to_yaml
from .engine.errors import UsageError, fail, require_output, usage_errors
from .engine.relations import select
from .engine.tf_log_filter import filtered_tf_import
from .engine.todo import find_todos
from .task.config import TaskConfig

if TYPE_CHECKING:
    import numpy as np

    from .engine.checkpoints import BestWeights
    from .engine.evaluation import Evaluation
    from .engine.outside import Outside
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
    """Look for bugs that raise no error; takes the flags of train.py; exits with 1 for a bug."""

    training: Config
    task: TaskConfig
    only: tuple[str, ...] = ()  # run only relations whose names contain one of these texts
    list: bool = False  # list the relations without running them

    def __call__(self) -> None:
        """Print a line for each relation."""
        names = select(self.only)
        if self.list:
            print("\n".join(f"{name}: {claim}" for name, claim in names.items()))
            return
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it makes graphs and drops them
        os.environ.pop("TF_CONFIG", None)  # this is one process, wherever it is started
        with filtered_tf_import():
            from .engine.check import NOT_LOOKED_AT, Laboratory, check, one_and_two_replicas
        gc.disable()  # graphs are kept until the end: collecting garbage would take 10% of the time
        strategies = one_and_two_replicas()  # before the task is imported: it may create a variable
        from .run import create_run
        from .task.callbacks import create_callbacks
        from .task.data import create_datasets
        from .task.model import adapt
        from .task.predictions import READERS, describe

        laboratory = Laboratory(
            create_run,
            strategies,
            create_datasets,
            create_callbacks,
            self.training,
            self.task,
            READERS,
            describe,
            adapt,
        )
        found: dict[str, list[str]] = {"ok": [], NOT_LOOKED_AT: [], "look": [], "WRONG": []}
        for name, finding in check(laboratory, names):
            found[finding.verdict if finding.was_looked_at else NOT_LOOKED_AT].append(name)
            verdict = finding.verdict if finding.was_looked_at else "-"
            print(f"{verdict:5}  {name}: {finding}".rstrip(": "), flush=True)
        totals = [f"{len(found[verdict])} {verdict}" for verdict in found if found[verdict]]
        worst = ", ".join(found["WRONG"] or found["look"])
        print(f"       {', '.join(totals)}{f': {worst}' * bool(worst)}")
        print(f"       {len(find_todos(TASK)) or 'no'} TODOs left")
        gc.freeze()  # skip the collection at exit too
        require_output()
        raise SystemExit(int(bool(found["WRONG"])))


@dataclass
class Evaluate:
    """Print losses and metrics of a run's best weights."""

    run: Positional[Path]  # the run directory
    # the data to evaluate; auto: test data, or validation data if there is none
    split: Literal["auto", "train", "validation", "test"] = "auto"

    def __call__(self) -> None:
        """Print them as JSON."""
        with redirect_stdout(sys.stderr):  # keep what your data code prints out of the JSON
            evaluation, _ = _open_with_data(self.run)
            split: str = self.split
            from .task.data import create_augment

            if split == "auto":
                split = "test" if "test" in evaluation.splits else "validation"
            _split(evaluation, split)
            is_augmented = split == "train" and create_augment(evaluation.run.task) is not None
            try:
                results = evaluation.evaluate(split)
            except UsageError as error:
                fails_in_step = isinstance(error.__cause__, ValueError | TypeError)
                if not is_augmented or not (fails_in_step or "fit the model" in str(error)):
                    raise
                raise UsageError(
                    f"{error} Evaluation leaves out the augmentation (create_augment in "
                    "task/data.py), without which these steps may not take training examples: "
                    "evaluate another split."
                ) from error
            for line in evaluation.run.bad_examples.news():
                print(line)
        from .engine.files import to_json

        print(to_json(results))


@dataclass
class Predict:
    """Write the predictions of a run's best weights to RUN/predictions/: arrays, table, page."""

    run: Positional[Path]  # the run directory
    # .npy with inputs, .npz with an array per input, what READERS in task/predictions.py reads, or
    # folders of that
    files: Positional[tuple[Path, ...]] = ()
    # data to predict instead of files; none: files
    split: Literal["train", "validation", "test", "none"] = "none"
    model: str = ""  # the model to use where there are several

    def __call__(self) -> None:
        """Print the name of each file written."""
        if bool(self.files) == (self.split != "none"):
            fail("give either files with inputs or --split.")
        for file in self.files:
            if not file.exists():
                fail(f"{file} doesn't exist.")
        with redirect_stdout(sys.stderr):  # as in Evaluate
            evaluation = None
            if self.split == "none":
                run, replicas = _open(self.run)
            else:
                evaluation, replicas = _open_with_data(self.run)
                run = evaluation.run
        from .engine.predict import LARGEST_BATCH, model_of, predict_files, predict_split
        from .run import global_batch_size
        from .task.predictions import READERS, describe

        model, directory = model_of(run, self.model), self.run / "predictions"
        config, _ = _flags(self.run)
        trained = global_batch_size(config, 1) // (config.accumulate * replicas)  # on a device
        size = min(LARGEST_BATCH, max(1, trained))
        options: dict[str, Any] = {"describe": describe, "batch_size": size}
        for path in predict_files(model, self.files, directory, readers=READERS, **options):
            print(path)
        if evaluation:
            split = _split(evaluation, self.split)
            for path in predict_split(model, self.split, split, directory, **options):
                print(path)


@dataclass
class Export:
    """Export a run's best weights as RUN/export/<model>.keras and SavedModel, and verify both."""

    run: Positional[Path]  # the run directory

    def __call__(self) -> None:
        """Print a line for each file, and the lines that load it elsewhere."""
        run, _ = _open(self.run)
        from .engine.export import export_models, loading_code

        for line in export_models(run, self.run / "export"):
            print(line)
        print(f"\n{loading_code(run, self.run / 'export')}", end="")


@dataclass
class Compare:
    """Compare runs: flags that differ, results (the best first), curves."""

    runs: Positional[tuple[Path, ...]]  # run directories, finished or not
    # .png, .pdf or .svg file for the curves; default: compare-<time>.png beside the first run
    output: Path | None = None
    # flags to average over, such as fold or seed: mean and standard deviation over runs that differ
    # only in these
    mean_over: tuple[str, ...] = ()

    def __call__(self) -> None:
        """Print the tables and the name of the picture."""
        from .engine.compare import compare, compare_means, draw_comparison
        from .engine.run_files import read_run

        if not self.runs:
            fail("give the directories of the runs to compare.")
        distinct = [*{run.resolve(): run for run in self.runs}.values()]
        for run in distinct[:]:  # `runs/*/` has the directories of sweeps too
            if len(distinct) > 1 and run.is_dir() and not (run / "config.yaml").exists():
                sys.stderr.write(f"left out: {run}, which has no config.yaml\n")
                distinct.remove(run)
        text, runs = compare([read_run(run) for run in distinct])
        name = time.strftime("compare-%Y-%m-%d-%H%M%S.png")
        output = self.output or self.runs[0].parent / name
        if self.mean_over:
            text += f"\n\n{compare_means(runs, self.mean_over)}"
        print(text)
        draw_comparison(runs, output)
        print(f"\ncurves: {output}")


@dataclass
class Sweep:
    """Train every combination of flags in a YAML file, then compare; the same command resumes."""

    file: Positional[Path]  # YAML: fixed flags, a grid of values, random samples of others
    jobs: int = 1  # runs at the same time, on the devices of this machine
    runs: Path = Path("runs")  # the runs go to a directory in it, named as the file

    def __call__(self) -> None:
        """Print a line for each run that starts or ends, and what `compare` prints."""
        from .engine.sweep import sweep

        if self.jobs < 1:
            fail(f"--jobs is {self.jobs}; it must be at least 1.")
        if code := sweep(self.file, self.runs, self.jobs, training=Config, task=TaskConfig):
            raise SystemExit(code)


@dataclass
class Report:
    """Rebuild RUN/report.html and open it in the browser."""

    run: Positional[Path]  # the run directory, of a finished run or not
    open: bool = True  # open the page; --no-open, or where there is no display: only write it

    def __call__(self) -> None:
        """Print the name of the page."""
        from .engine.report import write_report

        page = write_report(self.run, to_yaml(Config(), TaskConfig()), is_end=False)
        print(page)
        if self.open and _has_display():
            webbrowser.open(page.resolve().as_uri())


Command = (
    Annotated[Todo, subcommand("todo")]
    | Annotated[Check, subcommand("check")]
    | Annotated[Evaluate, subcommand("evaluate")]
    | Annotated[Predict, subcommand("predict")]
    | Annotated[Export, subcommand("export")]
    | Annotated[Compare, subcommand("compare")]
    | Annotated[Sweep, subcommand("sweep")]
    | Annotated[Report, subcommand("report")]
)


def _open(directory: Path) -> tuple[Run, int]:
    """The models of a run with its best weights, and its replicas; its data needn't be there."""
    config, task, adapted = _read(directory)
    from .engine.outside import Outside
    from .run import open_run

    run, outside = open_run(config, task, adapted), Outside()
    weights = _restore(directory, run, outside)
    outside.require_weights(run)
    return run, weights.replicas


def _open_with_data(directory: Path) -> tuple[Evaluation, int]:
    """The evaluation of a run's best weights, and its replicas."""
    config, task, adapted = _read(directory)
    import tensorflow as tf

    from .engine.alike import other_examples, summaries_of
    from .engine.evaluation import Evaluation
    from .run import create_run
    from .task.data import create_datasets

    datasets = create_datasets(task)
    strategy = tf.distribute.get_strategy()
    run, steps, batches = create_run(strategy, datasets, config, task, adapted)
    weights, layout = _restore(directory, run, steps.outside), steps.layout
    if not run.functions.examples_interact and config.randomness == "replica":
        # One device has the memory of a replica, so what each of these took is a micro-batch here.
        parts = math.gcd(layout.global_batch_size, layout.accumulate * weights.replicas)
        layout = layout._replace(accumulate=parts)
    evaluation = Evaluation(run, datasets, layout)
    if changed := other_examples(weights.examples, summaries_of(evaluation.splits)):
        splits = " and ".join(changed)
        sys.stderr.write(f"the {splits} data isn't what it was when the run was trained\n")
    if steps.outside.is_waiting:
        evaluation.trace()
        steps.find_outside(iter(batches.dataset(0, 0)), steps.start(), evaluation.graphs)
    return evaluation, weights.replicas


def _read(directory: Path) -> tuple[Config, TaskConfig, dict[str, np.ndarray]]:
    """The flags of a run, without a strategy, and what its model has adapted to."""
    config, task = _flags(directory)
    os.environ.pop("TF_CONFIG", None)  # this is one process, wherever the run was trained
    with filtered_tf_import():
        from .engine.adapted import read_adapted
    return config, task, read_adapted(directory)


def _flags(directory: Path) -> tuple[Config, TaskConfig]:
    run = f"{directory}{os.sep}"  # a run that is called `auto` too
    flags = ["--resume", run, "--strategy", "none", "--virtual-replicas", "0"]
    config, task = parse(flags, training=Config, task=TaskConfig)
    return config, task


def _restore(directory: Path, run: Run, outside: Outside) -> BestWeights:
    """Set the best weights; one sentence if there are none."""
    from .engine.checkpoints import BestWeights
    from .engine.run_files import read_run

    weights = BestWeights(directory / "checkpoints" / "best", run, outside)
    if not weights.restore():
        if read_run(directory).history:
            fail(f"{directory} has lost its checkpoints, or they are damaged; put them back.")
        fail(f"{directory} has no weights yet: it was not validated before it ended.")
    return weights


def _has_display() -> bool:
    """Whether a browser opens beside this terminal, and not in it."""
    known = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform == "darwin" or any(os.environ.get(name) for name in known)


def _split(evaluation: Evaluation, name: str) -> Any:
    """A split of the data; one sentence if there is none of that name."""
    if name not in evaluation.splits:
        fail(f"there is no {name} data; there is: {', '.join(evaluation.splits)}.")
    return evaluation.splits[name]


if __name__ == "__main__":
    name, *flags = sys.argv[1:] or ["--help"]
    with usage_errors(trains=False, has_flags=name == "check"):
        read(Command, [name, *expand(flags)], program=f"python -m {__package__}")()
        require_output()
