"""What there is beside training.

    python -m {{ cookiecutter.package_name }} todo       # what is still to be filled in
    python -m {{ cookiecutter.package_name }} check      # what goes wrong in silence, looked for in your task

`check` takes the flags of train.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from .config import Config
from .engine.command_line import parse
from .engine.errors import fail, usage_errors
from .engine.quiet import quiet_import
from .engine.todo import find_todos
from .task.config import TaskConfig

TASK = Path(__file__).with_name("task")


def todo(arguments: list[str]) -> int:
    """List the TODOs that are still in the task."""
    if arguments:
        fail("todo takes no arguments.")
    todos = find_todos(TASK)
    for item in todos:
        file = item.file.relative_to(TASK.parent.parent)
        what = item.text.partition(";")[0]
        print(f"{item.number:3}  {file}:{item.line}  {what}")
    print(f"{len(todos)} TODOs left" if todos else "no TODOs left")
    return 0


def check(arguments: list[str]) -> int:
    """Print a line for each check; 1 if something is wrong."""
    config, task = parse(arguments, training=Config, task=TaskConfig)
    with quiet_import():
        import tensorflow as tf

        from .engine import check as checks
        from .run import create_run
        from .task.data import create_datasets
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    tf.config.set_visible_devices([cpu])
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    datasets = create_datasets(task)
    findings = checks.check(
        lambda strategy: create_run(strategy, datasets, config, task),
        (tf.distribute.get_strategy(), two),
        datasets["train"],
    )
    wrong = 0
    for finding in findings:
        wrong += finding.wrong
        print(
            f"{'WRONG' if finding.wrong else 'ok':5}  {finding.name}: {finding.said}".rstrip(": ")
        )
    print(f"       {len(find_todos(TASK))} TODOs untouched")
    return int(wrong > 0)


COMMANDS = {"todo": todo, "check": check}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        print(__doc__)
        raise SystemExit(0)
    if name not in COMMANDS:
        fail(f"there is no command {name!r}; there are: {', '.join(COMMANDS)}.")
    with usage_errors():
        raise SystemExit(COMMANDS[name](arguments))
