"""Write docs/starters.md: python -m starters.table, in the directory tests/."""

import json
import pickle
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from cookiecutter.main import cookiecutter

ROOT = Path(__file__).parents[2]
PACKAGE = "walk_along"
# The numbers of results.json that a starter is judged by; those of folds are averaged.
RESULTS = {
    "image_classification": {"test_accuracy": "accuracy"},
    "segmentation": {"test_mean_iou": "mean IoU, background included"},
    "language_model": {"test_exact_match": "exact match of whole answers"},
    "gan": {
        "test_frechet": "Frechet distance over the trace",
        "test_nearest_distance": "distance to the nearest training digit (unseen real ones: 1)",
    },
    "tabular_regression": {"test_r2": "R2", "test_mae": "mean absolute error, over 5 folds"},
}
FOLDS = {"tabular_regression": 5}

HEAD = """# Starters

What each starter reaches with its default flags, on data it has not seen; how long `train.py`
takes after TensorFlow's start; how long its `task/` is; how far four replicas are from one
after 20 steps in float64, the largest over all scenarios of the rendered tests; and whether a run
that is killed and resumed ends with the same bits. Made by `nox -s starters` on {machine}.

| starter | reached | seconds | lines in task/ | 4 replicas against 1 | resume bit-identical |
| --- | --- | --- | --- | --- | --- |
"""


def run(project: Path, *command: str) -> str:
    """Run a command of the project to its end."""
    done = subprocess.run(
        [sys.executable, *command], cwd=project, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{project}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def trained(project: Path, starter: str) -> tuple[str, float]:
    """What a starter reaches and the seconds it takes, the means over its folds."""
    folds = FOLDS.get(starter, 1)
    for fold in range(folds):
        run(project, "train.py", *(["--fold", str(fold)] if folds > 1 else []))
    files = project.glob("runs/*/results.json")
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def mean(name: str) -> float:
        return float(sum(result[name] for result in results) / folds)

    reached = [f"{mean(name):.3f} {meaning}" for name, meaning in RESULTS[starter].items()]
    return "; ".join(reached), mean("seconds")


def parity(project: Path, directory: Path) -> float:
    """The largest relative difference between one replica and four."""
    observed = {}
    for replicas in (1, 4):
        file = directory / f"{replicas}.pickle"
        run(project, "tests/replicas.py", str(replicas), str(file))
        observed[replicas] = pickle.loads(file.read_bytes())
    largest = 0.0
    for name, one in observed[1].items():
        four = observed[4][name]
        if "state" not in one or (one["looks at the batch"] and not name.startswith("full")):
            continue  # not in float64, or a short batch of a model that averages over the batch
        for what in ("losses", "mean losses", "weights", "state"):
            # All together, as the rendered tests do: a single one may be nothing but rounding, such
            # as an attention's key bias, whose gradient is zero.
            a, b = (
                np.concatenate([np.ravel(v) for v in tf.nest.flatten(o[what])]) for o in (one, four)
            )
            norm = np.linalg.norm(a)
            largest = max(largest, float(np.linalg.norm(a - b) / (norm or 1.0)))
    return largest


def main() -> None:
    """Train, compare and resume every starter but the blank one."""
    rows = []
    for starter in RESULTS:
        with tempfile.TemporaryDirectory() as scratch:
            answers = {"starter": starter, "package_name": PACKAGE}
            made = cookiecutter(str(ROOT), no_input=True, output_dir=scratch, extra_context=answers)
            project = Path(made)
            task = project / PACKAGE / "task"
            lines = sum(len(file.read_text().splitlines()) for file in task.glob("*.py"))
            reached, seconds = trained(project, starter)
            difference = parity(project, Path(scratch))
            run(project, "-m", "pytest", "-q", "tests/test_resume.py")
            row = f"| {starter} | {reached} | {seconds:.0f} | {lines} "
            rows.append(f"{row}| {difference:.0e} | yes |")
            print(rows[-1], flush=True)
    machine = f"{platform.machine()}, CPU only, TensorFlow {tf.__version__}"
    text = HEAD.format(machine=machine) + "\n".join(rows) + "\n"
    (ROOT / "docs" / "starters.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
