"""What --deterministic costs: python benchmarks/deterministic.py

Trains the default project with and without it, in processes that take turns, and prints the median
time of a step, input pipeline included, and the ratio.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS, STEPS = 5, 300


def measure(replicas: int, deterministic: bool) -> float:
    """Milliseconds of a step."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    from bench_project.config import Config
    from bench_project.engine.strategy import create_strategy
    from bench_project.run import create_run
    from bench_project.task.config import TaskConfig
    from bench_project.task.data import create_datasets

    task = TaskConfig()
    strategy = create_strategy(virtual_replicas=replicas, deterministic=deterministic)
    _, steps, batches = create_run(strategy, create_datasets(task), Config(), task)
    iterator = iter(batches.dataset(0, STEPS + 20))
    progress = steps.distributed_train_step(iterator, 20, steps.start())
    began = time.perf_counter()
    progress = steps.distributed_train_step(iterator, STEPS, progress)
    assert int(progress.step) == STEPS + 20
    return (time.perf_counter() - began) / STEPS * 1e3


def main() -> None:
    """Print a table."""
    from cookiecutter.main import cookiecutter

    print("| replicas | without | --deterministic | ratio |")
    print("| ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as directory:
        project = cookiecutter(
            str(ROOT),
            no_input=True,
            output_dir=directory,
            extra_context={"project_name": "Bench", "package_name": "bench_project"},
            default_config=True,
        )
        environment = {**os.environ, "PYTHONPATH": project}
        for replicas in (1, 2):
            times: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(ROUNDS):
                for deterministic, measured in times.items():
                    command = [sys.executable, __file__, str(replicas), str(int(deterministic))]
                    printed = subprocess.check_output(
                        command, env=environment, text=True, stderr=subprocess.DEVNULL
                    )
                    measured.append(float(printed.splitlines()[-1]))
            plain, fixed = (statistics.median(measured) for measured in times.values())
            print(f"| {replicas} | {plain:.2f} ms | {fixed:.2f} ms | {fixed / plain:.2f} |")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(measure(int(sys.argv[1]), sys.argv[2] == "1"))
    else:
        main()
