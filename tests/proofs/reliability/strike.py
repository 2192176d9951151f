"""Is copied into a rendered project: train.py, which signals strike at a chosen moment.

MOMENT=name CALL=number SIGNALS=SIGTERM,SIGINT python strike.py FLAGS

The signals come when the function of that moment (see MOMENTS) is called for the n-th time, the
second one 0.6 s after the first. They come once.
"""

import os
import runpy
import signal
import sys
import threading
from importlib.abc import MetaPathFinder
from pathlib import Path

moment, number = os.environ["MOMENT"], int(os.environ["CALL"])
first, *second = [getattr(signal, name) for name in os.environ["SIGNALS"].split(",")]
calls = 0
sys.stderr.isatty = lambda: True  # with a progress bar


def strike():
    """Count a call, and send the signals at the chosen one."""
    global calls
    calls += 1
    if calls == number:
        for late in second:
            threading.Timer(0.6, os.kill, (os.getpid(), late)).start()
        os.kill(os.getpid(), first)


class Finder(MetaPathFinder):
    """Strikes at imports of TensorFlow's modules, and finds none."""

    def find_spec(self, name, path, target=None):
        """Look at the name."""
        if name.startswith("tensorflow."):
            strike()


def wrap(owner, name, condition=lambda *_: True, before=lambda *_: None):
    """Strike when a function is called with arguments that meet a condition."""
    function = getattr(owner, name)

    def wrapped(*arguments, **others):
        if condition(*arguments):
            before(*arguments)
            strike()
        return function(*arguments, **others)

    setattr(owner, name, wrapped)


def wrap_rename(name, part):
    """Strike when a file is complete, before it gets its name."""
    wrap(Path, "replace", lambda _, new: Path(new).match(name) and part in str(new))


def wrap_evaluation(wanted):
    """Strike when a split is evaluated."""
    from proof.engine.evaluation import Evaluation

    wrap(Evaluation, "evaluate", lambda _, split, *rest: split == wanted)


def wrap_picture(function):
    """Strike when a picture is written halfway."""
    from proof.task import pictures

    wrap(pictures, function, before=lambda *arguments: arguments[-1].write_bytes(b"half"))


def arm():
    """Prepare the moment."""
    from proof.engine.checkpoints import BestWeights
    from proof.engine.loop import Loop
    from proof.engine.records import Records
    from proof.engine.run_directory import RunDirectory
    from proof.engine.transaction import Capture
    from proof.task import data

    {
        "data": lambda: wrap(data, "create_datasets"),
        "directory": lambda: wrap(RunDirectory, "_lock"),
        "samples": lambda: wrap_picture("draw_samples"),
        "trace": lambda: wrap(Capture, "call"),
        "validation": lambda: wrap_evaluation("validation"),
        "history": lambda: wrap_rename("history.csv", ""),
        "consider": lambda: wrap(BestWeights, "consider"),
        "best": lambda: wrap_rename("ckpt-*.index", "best"),
        "callbacks": lambda: wrap(Loop, "_run_callbacks"),
        "save": lambda: wrap_rename("ckpt-*.index", "latest"),
        "test": lambda: wrap_evaluation("test"),
        "curves": lambda: wrap(Records, "draw_curves"),
        "predictions": lambda: wrap_picture("draw_predictions"),
        "results": lambda: wrap_rename("results.json", ""),
    }[moment]()


if moment == "import":
    sys.meta_path.insert(0, Finder())
    runpy.run_path("train.py", run_name="__main__")
    sys.exit()

import proof.task.config
from proof.config import Config
from proof.engine.command_line import parse
from proof.engine.errors import usage_errors
from proof.engine.tf_log_filter import filtered_tf_import

with usage_errors():
    config, task = parse(training=Config, task=proof.task.config.TaskConfig)
    with filtered_tf_import():
        arm()
    from train import main

    main(config, task)
