"""Train, validate and test.

python train.py                           # on what this machine has
python train.py --virtual-replicas 4      # four replicas on one CPU
python train.py --resume runs/<run>       # resume from the last checkpoint
python train.py --help                    # every flag
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.command_line import parse, to_yaml
from {{ cookiecutter.package_name }}.engine.errors import continue_on_error, usage_errors
from {{ cookiecutter.package_name }}.engine.interrupts import ignore_signals
from {{ cookiecutter.package_name }}.engine.output import say, set_quiet
from {{ cookiecutter.package_name }}.engine.rendezvous import connect
from {{ cookiecutter.package_name }}.engine.tf_log_filter import filtered_tf_import
from {{ cookiecutter.package_name }}.task.config import TaskConfig


def main(config: Config, task: TaskConfig) -> dict[str, Any]:
    """Train, validate and test one run; return the content of results.json.

    A process may call it several times, one run after the other.
    """
    set_quiet(config.quiet)
    # Several workers connect before the slow import of TensorFlow; from here on each notices when
    # another one ends.
    connect(
        config.strategy,
        to_yaml(config, task),
        start_timeout=config.start_timeout,
        hang_timeout=config.hang_timeout,
    )

    # Not at the top: wrong flags are reported without waiting for TensorFlow.
    with filtered_tf_import():
        from {{ cookiecutter.package_name }}.engine.adapted import read_adapted, write_adapted
        from {{ cookiecutter.package_name }}.engine.data_errors import reading_errors
        from {{ cookiecutter.package_name }}.engine.display import start_lines, table
        from {{ cookiecutter.package_name }}.engine.environment import environment
        from {{ cookiecutter.package_name }}.engine.evaluation import Evaluation
        from {{ cookiecutter.package_name }}.engine.loop import Loop
        from {{ cookiecutter.package_name }}.engine.report import write_report
        from {{ cookiecutter.package_name }}.engine.run_directory import RunDirectory, find_resumed
        from {{ cookiecutter.package_name }}.engine.strategy import create_strategy
        from {{ cookiecutter.package_name }}.engine.workers import Workers
        from {{ cookiecutter.package_name }}.run import (
            create_run,
            create_schedule,
            resolved,
            with_global_batch,
        )
        from {{ cookiecutter.package_name }}.task.callbacks import create_callbacks
        from {{ cookiecutter.package_name }}.task.data import create_datasets
        from {{ cookiecutter.package_name }}.task.pictures import draw_predictions, draw_samples

    started = time.perf_counter()

    # Strategy first: it must be created before any TensorFlow operation. Then the data, since the
    # model may adapt to it; then model, losses, metrics and optimizer in the strategy's scope.
    strategy = create_strategy(
        config.strategy,
        virtual_replicas=config.virtual_replicas,
        deterministic=config.deterministic,
    )
    config = with_global_batch(config, strategy.num_replicas_in_sync)
    runs, given_flags = Path(config.runs), to_yaml(config, task)
    workers = Workers(strategy)  # of several workers, only the chief prints and writes
    workers.print_on_chief_only()
    origin = environment()
    datasets = create_datasets(task)
    defaults = to_yaml(Config(), TaskConfig())  # to tell which flags were given
    resumed = find_resumed(runs, config.resume, given_flags, workers, defaults=defaults)
    adapted = read_adapted(resumed) if resumed else None
    run, distributed_steps, batches = create_run(strategy, datasets, config, task, adapted)
    evaluation = Evaluation(run, datasets, distributed_steps.layout)

    with (
        reading_errors(datasets),
        RunDirectory.open(runs, config.name, resumed, given_flags, workers) as directory,
    ):
        workers.log_to(directory.path)
        schedule = create_schedule(config, batches)
        say(start_lines(run, evaluation.splits, batches, schedule.num_steps, directory.path))
        if directory.is_new and workers.is_chief:
            write_adapted(directory.path, run.adapted)
            directory.write_models(run.models)
            draw_samples(run, datasets, directory.path / "samples.png")
        loop = Loop(
            run,
            distributed_steps,
            batches,
            evaluation,
            directory,
            schedule,
            callbacks=create_callbacks(task),
            monitor=task.monitor,
            larger_is_better=task.larger_is_better,
            started=started,
            origin=origin,
        )
        loop.start(resume=not directory.is_new)
        flags = to_yaml(resolved(config, distributed_steps), task)
        if loop.makes_steps or not resumed:
            directory.write_config(flags)
        else:
            directory.require_config(flags)
        if not resumed:
            loop.records.add_start(flags)

        # Train, with validations on the way.
        loop.train()

        # Test with the best weights.
        tested = loop.test()
        results = loop.results(tested)
        directory.write_results(results)  # before the pictures: an error there loses no results
        loop.records.draw_curves(loop.best_row, tested)
        if workers.is_chief:  # predictions.png and TensorBoard
            message = f"predictions.png is not drawn; once it can be: {loop.resume_command}"
            with continue_on_error(message):
                draw_predictions(run, datasets, directory.path / "predictions.png")
            loop.records.add_results(flags, results, loop.step)
        workers.wait()  # where one was lost meanwhile, --resume auto finds the run unfinished
        if workers.is_chief:
            write_report(directory.path, defaults)
        # All of the best weights; in results.json, train_* and validation_* are of the latest.
        print(table(results | loop.best_row))
        print(loop.closing_lines(results["seconds"]))
    return results


if __name__ == "__main__":
    with usage_errors():
        main(*parse(training=Config, task=TaskConfig))
        ignore_signals()  # while TensorFlow ends: a run that has all its files hasn't failed
