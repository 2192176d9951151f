"""Our loop beside its peers: python benchmarks/peers.py; writes peers.json, peers.md and peers.png.

Every figure is a median of paired ratios of speed: in each round every loop takes one turn, and the
ratio is taken within the round. The floor against itself shows the noise.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from cookiecutter.main import cookiecutter
from matplotlib.figure import Figure

HERE = Path(__file__).parent
MODELS = {
    "tiny": "tiny dense model",
    "small8": "small CNN on 8x8 (8, 16 filters)",
    "cnn8": "default CNN on 8x8",
    "small28": "small CNN on 28x28 (8, 16 filters)",
    "cnn28": "CNN on 28x28 (64, 128 filters)",
}
PEERS = {
    "tutorial": "tutorial's loop",
    "hooks in one graph": "hooks in one graph",
    "fit": "best Model.fit",
    "floor": "the floor",
}
EVALUATIONS = {
    "tutorial, compiled": "tutorial's evaluation, compiled",
    "tutorial, eager": "eager evaluation",
}
GUARDS = ("exact count", "clip", "metrics", "input pipeline")


def measure(project: Path, model: str, replicas: int) -> dict[str, Any]:
    """Seconds per step of each loop in each round, in a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "turns.json"
        script = str(HERE / "loops.py")
        command = [sys.executable, script, str(project), model, str(replicas), str(file)]
        subprocess.run(command, check=True)
        return dict(json.loads(file.read_text()))


def ratio(turns: dict[str, list[float]], slow: str, fast: str = "ours") -> tuple[float, ...]:
    """How many times `fast` is as fast as `slow`: median, lower and upper quartile."""
    pairs = [a / b for a, b in zip(turns[slow], turns[fast], strict=True)]
    low, _, high = quantiles(pairs, n=4)
    return median(pairs), low, high


def main() -> None:
    """Measure, print, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        answers = {"package_name": "bench_project"}
        project = cookiecutter(
            str(HERE.parent), no_input=True, output_dir=directory, extra_context=answers
        )
        for model in arguments.models:
            for replicas in arguments.replicas:
                if model.startswith("small") and replicas > 2:
                    continue  # these two only show how the ratios grow as a step shrinks
                results[f"{model}, {replicas}"] = measure(Path(project), model, replicas)
                print(f"{model}, {replicas} replicas: done", flush=True)
    machine = f"{platform.machine()}, {platform.system()}, CPU only"
    (HERE / "peers.json").write_text(json.dumps({"machine": machine, **results}) + "\n")
    text = table(results)
    (HERE / "peers.md").write_text(text)
    print(text)
    draw(results, HERE / "peers.png")


def table(results: dict[str, Any]) -> str:
    """Ratios of speed as Markdown: of training, of evaluation, and what the guards cost."""
    rows: dict[str, list[list[str]]] = {"Training": [], "Evaluation": [], "Guards": []}
    for key, result in results.items():
        turns, evaluation = result["seconds per step"], result["seconds per evaluation step"]
        model, replicas = key.split(", ")
        name = [MODELS[model], replicas]
        ratios = [f"{ratio(turns, peer)[0]:.2f}" if peer in turns else "-" for peer in PEERS]
        _, low, high = ratio(turns, "floor again", "floor")
        rows["Training"].append([*name, *ratios, f"{low:.2f} to {high:.2f}"])
        ratios = [f"{ratio(evaluation, peer)[0]:.2f}" for peer in EVALUATIONS]
        rows["Evaluation"].append([*name, *ratios])
        costs = [1 - 1 / ratio(turns, "ours", f"ours without {guard}")[0] for guard in GUARDS]
        rows["Guards"].append([*name, *(f"{cost:.0%}" for cost in costs)])
    heads = {
        "Training": [*(f"ours / {peer}" for peer in PEERS.values()), "floor / itself (quartiles)"],
        "Evaluation": [f"ours / {peer}" for peer in EVALUATIONS.values()],
        "Guards": [f"cost of {guard}" for guard in GUARDS],
    }
    lines = [
        "# The loop beside its peers",
        "",
        "Made by `python benchmarks/peers.py`; above 1 ours",
    ]
    lines[-1] += " is faster. [How it is measured](README.md)."
    for title, head in heads.items():
        lines += ["", f"## {title}", ""]
        table = [["model", "replicas", *head], ["---"] * (len(head) + 2), *rows[title]]
        lines += ["| " + " | ".join(cells) + " |" for cells in table]
    return "\n".join(lines) + "\n"


def draw(results: dict[str, Any], file: Path) -> None:
    """The ratios as points with their quartiles, on a logarithmic axis."""
    figure = Figure(figsize=(9, 0.5 * len(results) + 1.5), layout="constrained")
    axes = figure.subplots()
    for i, (name, label) in enumerate(PEERS.items()):
        rows = [(j, r["seconds per step"]) for j, r in enumerate(results.values())]
        points = [(j + 0.15 * i, *ratio(turns, name)) for j, turns in rows if name in turns]
        if points:
            at, middle, low, high = zip(*points, strict=True)
            below = [m - a for m, a in zip(middle, low, strict=True)]
            above = [b - m for m, b in zip(middle, high, strict=True)]
            axes.errorbar(middle, at, xerr=[below, above], fmt="o", ms=5, label=f"ours / {label}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axes.set_xlabel("ratio of speed; right of 1, ours is faster")
    names = [key.split(", ") for key in results]
    labels = [f"{MODELS[m]}, {n} replica{'s' * (n != '1')}" for m, n in names]
    axes.set_yticks([j + 0.225 for j in range(len(results))], labels)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
