"""What grows, and what must not: python benchmarks/growth.py; writes growth.md.

Seconds until something happens, memory over 50 epochs, traces, the time of a step as replicas and
data grow, and what logging costs. Each figure comes from a process of its own.
"""

import gc
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
ROUNDS = 5
STREAMED_STEPS, STREAMED = 3000, 20_000  # examples at 1x; more than the shuffle buffer holds
# Logging is measured in turns with and without it: epochs of the default project, or steps of long
# epochs, which last an odd number of turns, so that validations fall on turns of both kinds.
LOG_EPOCHS = 200
LOG_STEPS, LOG_TURNS, LOG_EPOCH = 300, 60, 7  # steps in a turn, turns, turns in an epoch
PIPELINES = str(Path(__file__).with_name("pipelines.py"))
MEGABYTES = 1024  # of data, to see what memory holds of it
MEMORY = {"array": ("an array in memory", 1.0), "map": ("a memory map", 0.0)}  # without pages
WARM_UP = 6  # turns that aren't counted, because graph calls are still growing; an even number


def megabytes() -> float:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run_train(*flags: str) -> None:
    """Run the project's train.py as it is, in this process."""
    sys.argv = ["train.py", *flags]
    runpy.run_path("train.py", run_name="__main__")


def train(replicas: int, epochs: int) -> dict[str, float]:
    """Seconds to the first step of train.py, memory and traces after some epochs."""
    started = time.perf_counter()
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    imported = time.perf_counter()
    from bench_project.engine.callbacks import at_step, every_epochs
    from bench_project.engine.distributed_steps import DistributedSteps
    from bench_project.engine.evaluation import Evaluation
    from bench_project.task import callbacks

    seen: dict[str, float] = {}

    def first_step(_: Any) -> None:
        seen["start"] = time.perf_counter() - imported

    def epoch(event: Any) -> None:
        if event.epoch in (1, 5, epochs):
            kept = {DistributedSteps: "_graphs", Evaluation: "_functions"}
            tracers = [o for o in gc.get_objects() if type(o) in kept]
            graphs = [g for o in tracers for g in getattr(o, kept[type(o)]).values()]
            traces = sum(graph.experimental_get_tracing_count() for graph in graphs)
            seen.update({f"traces {event.epoch}": traces, f"memory {event.epoch}": megabytes()})

    mine = [at_step(1, first_step), every_epochs(1, epoch)]
    callbacks.create_callbacks = lambda task: mine  # type: ignore[assignment]
    run_train(f"--epochs={epochs}", f"--virtual-replicas={replicas}")
    return {"import": imported - started, **seen}


def step(replicas: int, stream: int = 0, compiled: int = 0) -> dict[str, float]:
    """Milliseconds of a step at 64 examples a replica, on arrays or `stream` streamed examples."""
    import numpy as np
    import tensorflow as tf
    from bench_project.config import Config
    from bench_project.engine.batches import TrainingBatches
    from bench_project.engine.strategy import create_strategy
    from bench_project.run import create_run
    from bench_project.task.config import TaskConfig

    config = Config(batch_size_per_replica=64, clip_norm=1.0, jit="on" if compiled else "auto")
    strategy = create_strategy(virtual_replicas=replicas)
    data: Any = (np.ones((2048, 8, 8, 1), "float32"), np.zeros(2048, "int64"))
    _, distributed, _ = create_run(strategy, {"train": data}, config, TaskConfig())
    if stream:
        numbers = tf.data.Dataset.range(stream)
        data = numbers.map(lambda i: (tf.fill((8, 8, 1), tf.cast(i, "float32")), i % 10))
    steps = STREAMED_STEPS if stream else 200
    batches = TrainingBatches(data, distributed.layout)  # without augmentation
    iterator = iter(batches.dataset(0, 2 * steps))
    progress = distributed.distributed_train_step(iterator, 20, distributed.start())
    started = time.perf_counter()
    distributed.distributed_train_step(iterator, steps, progress).step.numpy()
    seconds = time.perf_counter() - started
    return {"ms": 1000 * seconds / steps, "memory": megabytes()}


def log_cost(long: int) -> dict[str, float]:
    """What automatic logging adds to the time of training, as a fraction of it.

    One run of train.py, in which turns with logs and turns without alternate. A turn is an epoch
    of the default project as it is or, with `long`, some hundred steps of a long epoch.
    """
    import numpy as np
    from bench_project.engine.callbacks import every_epochs, every_steps
    from bench_project.engine.progress import Progress
    from bench_project.engine.step_log import StepLog
    from bench_project.task import callbacks, data

    ends: list[float] = []
    logs: list[float] = []
    write = StepLog.write

    def write_every_other_turn(log: StepLog, progress: Progress) -> None:
        if len(ends) % 2:
            started = time.perf_counter()
            write(log, progress)
            logs.append(time.perf_counter() - started)

    def end_turn(_: Any) -> None:
        ends.append(time.perf_counter())

    StepLog.write = write_every_other_turn  # type: ignore[method-assign]
    if long:
        datasets = data.create_datasets(data.TaskConfig())
        images, labels = datasets["train"]
        rows = np.arange(96 * LOG_STEPS * LOG_EPOCH) % len(images)  # 96: the default batch
        datasets |= {"train": (images[rows], labels[rows])}
        data.create_datasets = lambda task: datasets  # type: ignore[assignment]
        turns = [every_steps(LOG_STEPS, end_turn)]
        flags = [f"--steps={LOG_STEPS * (WARM_UP + LOG_TURNS)}"]
    else:
        turns = [every_epochs(1, end_turn)]
        flags = [f"--epochs={WARM_UP + LOG_EPOCHS}"]
    callbacks.create_callbacks = lambda task: turns  # type: ignore[assignment]
    run_train(*flags)
    taken = np.diff(ends, prepend=np.nan)  # seconds of turn 0, 1, 2, ...; the odd ones have logs
    without, with_logs = taken[WARM_UP::2], taken[WARM_UP + 1 :: 2]
    low, middle, high = statistics.quantiles((with_logs / without - 1).tolist(), n=4)
    return {
        "cost": middle,
        "low": low,
        "high": high,
        "turn": float(np.median(without)),
        "log": statistics.median(logs),
        "logs per turn": len(logs) / (len(ends) / 2),
    }


def child(
    project: Path, *arguments: Any, script: str = __file__, cwd: Path | None = None
) -> dict[str, Any]:
    """What a function of this file, or of another script, gives in a process of its own."""
    command = [sys.executable, str(Path(script).resolve()), *map(str, arguments)]
    paths = [str(project), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    done = subprocess.run(
        command, cwd=cwd or project, env=environment, capture_output=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    return dict(json.loads(done.stdout.splitlines()[-1]))


def describe_memory(used: dict[str, float]) -> str:
    """Resident memory as a cell of a table."""
    pages = used["all"] - used["anonymous"]
    return f"{used['anonymous']:.2f} x the data, and {pages:.2f} in pages of mapped files"


def describe_limit(limit: float, used: dict[str, float]) -> str:
    """How much of the data the process may hold by itself, and whether it holds more."""
    over = f"{used['anonymous'] - limit:.2f}"
    return f"{limit:.1f} without pages" + (f": missed by {over}" if float(over) > 0 else "")


def seconds(*command: str, cwd: Path) -> float:
    """How long a command takes, the median of some rounds."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        subprocess.run(command, cwd=cwd, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main() -> None:
    """Measure, print and write."""
    lines = ["# What grows, and what must not", "", "Made by `python benchmarks/growth.py`.", ""]
    lines += ["| what | measured | limit |", "| --- | --- | --- |"]

    def add(what: str, measured: str, limit: str = "") -> None:
        lines.append(f"| {what} | {measured} | {limit} |")
        print(lines[-1], flush=True)

    with tempfile.TemporaryDirectory() as scratch:
        tool = str(Path(sys.executable).with_name("cookiecutter"))
        answers = ["--no-input", "package_name=bench_project", "--overwrite-if-exists"]
        rendering = seconds(tool, str(ROOT), *answers, cwd=Path(scratch))
        project = Path(scratch) / "my-experiment"
        add("rendering, hooks included", f"{rendering:.2f} s", "0.6 s")
        help_ = seconds(sys.executable, "train.py", "--help", cwd=project)
        add("train.py --help", f"{help_:.2f} s", "0.3 s")
        starts = [child(project, "train", 0, 1) for _ in range(ROUNDS)]
        start = statistics.median(s["start"] for s in starts)
        imported = statistics.median(s["import"] for s in starts)
        add("command to first step, without importing TensorFlow", f"{start:.2f} s", "4 s")
        add("importing TensorFlow and Keras", f"{imported:.2f} s")
        for replicas in (0, 4):
            run = child(project, "train", replicas, 50)
            name = f"{replicas or 1} replica{'s' if replicas else ''}"
            grown = run["memory 50"] / run["memory 5"] - 1
            memory = f"{run['memory 5']:.0f} MB, {run['memory 50']:.0f} MB: {grown:+.1%}"
            add(f"memory after 5 and 50 epochs, {name}", memory, "within 5%")
            traces = f"{run['traces 1']:.0f}, {run['traces 50']:.0f}"
            add(f"traces after 1 and 50 epochs, {name}", traces, "equal")
        one = child(project, "step", 0)["ms"]
        for replicas in (1, 2, 4, 8):
            several = child(project, "step", replicas if replicas > 1 else 0)["ms"]
            cost = f"{several:.2f} ms, {several / one / replicas:.2f} of {replicas} x the first"
            add(f"a step of {replicas} x 64 examples on {replicas} replicas", cost)
        compiled = child(project, "step", 0, 0, 1)["ms"]
        add("time of a step with --jit on, of the time with auto", f"{compiled / one:.2f}")
        for times in (1, 10, 100):
            streamed = child(project, "step", 0, times * STREAMED)
            cost = f"{streamed['ms']:.2f} ms a step, {streamed['memory']:.0f} MB"
            add(f"streaming {times * STREAMED:,} examples", cost, "unchanged")
        for kind, (what, limit) in MEMORY.items():
            arguments = ("memory", kind, MEGABYTES)
            used = child(project, *arguments, script=PIPELINES, cwd=Path(scratch))
            held = describe_memory(used)
            add(f"memory after start, of {what}", held, describe_limit(limit, used))
        for long, where in ((1, "in a long epoch"), (0, "default project, short epochs")):
            log = child(project, "log_cost", long)
            cost = f"{log['cost']:+.1%} ({log['low']:+.1%} to {log['high']:+.1%}); "
            cost += f"{log['logs per turn']:.1f} logs in {log['turn']:.2f} s, "
            cost += f"{1000 * log['log']:.1f} ms each"
            add(f"time added by automatic logging, {where}", cost, "1%")
    (ROOT / "benchmarks" / "growth.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        function = {"train": train, "step": step, "log_cost": log_cost}[sys.argv[1]]
        print(json.dumps(function(*map(int, sys.argv[2:]))))
