"""Our loop beside other loops: python benchmarks/peers.py

Writes peers.json (every turn), peers.md and peers.png. A figure is a median of ratios: in each
round every loop takes one turn, which gives one slope (see turns.py), and ratios are taken within
a round. The floor against itself shows the noise.
"""

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from cookiecutter.main import cookiecutter
from matplotlib.figure import Figure
from pages import command

HERE = Path(__file__).parent
MODELS = {
    "tiny": "tiny dense model",
    "small8": "small CNN on 8x8 (8, 16 filters)",
    "cnn8": "default CNN on 8x8",
    "small28": "small CNN on 28x28 (8, 16 filters)",
    "cnn28": "CNN on 28x28 (64, 128 filters)",
}
ON_FOUR_REPLICAS = ("tiny", "cnn8")  # of two cores; all models there would take 5 minutes more
PEERS = {
    "tutorial": "tutorial's loop",
    "hooks in one graph": "tutorial's loop, filtered and clipped",
    "fit": "best Model.fit",
    "floor": "the floor",
}
EVALUATIONS = {
    "tutorial, compiled": "tutorial's evaluation, compiled",
    "tutorial, eager": "eager evaluation",
}
GUARDS = ("exact count", "clip", "metrics", "input pipeline")
ODD = 2.0  # a slope that is so many times its loop's median, or so many times less, is counted

Turns = dict[str, dict[str, Any]]


class Ratio(NamedTuple):
    """Over the rounds."""

    median: float
    low: float  # lower quartile
    high: float  # upper quartile

    def __str__(self) -> str:
        """As a cell of the table."""
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


def render(directory: str) -> Path:
    """The default project as the package `bench_project`."""
    answers = {"package_name": "bench_project"}
    project = cookiecutter(
        str(HERE.parent),
        no_input=True,
        output_dir=directory,
        extra_context=answers,
        default_config=True,
    )
    return Path(project)


def measure(project: Path, model: str, replicas: int, rounds: int) -> dict[str, Any]:
    """The turns of each loop, from a process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "turns.json"
        arguments = [str(project), model, str(replicas), str(rounds), str(file)]
        subprocess.run([sys.executable, str(HERE / "loops.py"), *arguments], check=True)
        return dict(json.loads(file.read_text()))


def slopes(turns: Turns, name: str) -> list[float]:
    """Seconds of a step in each round, without what a call costs; NaN where it isn't positive."""
    loop = turns[name]
    pairs = zip(loop["short"], loop["long"], strict=True)
    found = [(long - short) / (2 * loop["n"]) for short, long in pairs]
    return [slope if slope > 0 else math.nan for slope in found]


def typical(found: list[float]) -> float:
    """The median of those slopes that are positive; NaN if none is."""
    positive = [slope for slope in found if slope > 0]
    return median(positive) if positive else math.nan


def per_call(turns: Turns, name: str) -> float:
    """Seconds that a call takes beside its steps, the median over the rounds."""
    loop = turns[name]
    pairs = zip(loop["short"], loop["long"], strict=True)
    return median((3 * short - long) / 2 for short, long in pairs)


def ratio(turns: Turns, slow: str, fast: str = "ours") -> Ratio | None:
    """How many times `fast` is as fast as `slow`; None if a round in four has no such ratio."""
    both = list(zip(slopes(turns, slow), slopes(turns, fast), strict=True))
    pairs = [a / b for a, b in both if a > 0 and b > 0]
    if len(pairs) < max(2, 0.75 * len(both)):
        return None
    low, _, high = quantiles(pairs, n=4)
    return Ratio(median(pairs), low, high)


def describe_odd_slopes(results: dict[str, Any]) -> list[str]:
    """How many slopes can't be right, or are far from their loop's median, and whose they are."""
    total, negative, odd = 0, [], []
    for key, result in results.items():
        for kind in ("training", "evaluation"):
            for name in result[kind]:
                found = slopes(result[kind], name)
                middle = typical(found)
                far = [s for s in found if s > 0 and not middle / ODD <= s <= middle * ODD]
                total += len(found)
                place = f"{name} ({kind}, {key} replicas)"
                negative += [place] * sum(not slope > 0 for slope in found)
                odd += [place] * len(far)
    lines = [f"- {total} slopes were measured."]
    for what, places in (
        ("were not positive, and give no ratio", negative),
        (f"are more than {ODD:g} times or less than 1/{ODD:g} of their loop's median", odd),
    ):
        counts = {place: places.count(place) for place in dict.fromkeys(places)}
        named = ", ".join(f"{place} {number}" for place, number in counts.items())
        lines.append(f"- {len(places)} {what}{': ' if named else ''}{named}.")
    return lines


def main() -> None:
    """Measure, print, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=HERE, help="directory of the results")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        project = render(directory)
        for model in arguments.models:
            for replicas in arguments.replicas:
                if replicas > 2 and model not in ON_FOUR_REPLICAS:
                    continue
                key = f"{model}, {replicas}"
                results[key] = measure(project, model, replicas, arguments.rounds)
                print(f"{key} replicas: done", flush=True)
    machine = f"{platform.machine()}, {platform.system()}, CPU only"
    (arguments.output / "peers.json").write_text(
        json.dumps({"machine": machine, **rounded(results)}) + "\n"
    )
    text = table(results)
    (arguments.output / "peers.md").write_text(text)
    print(text)
    draw(results, arguments.output / "peers.png")


def rounded(value: Any) -> Any:
    """Seconds to the microsecond, so that the file stays small."""
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def table(results: dict[str, Any]) -> str:
    """Ratios of speed as Markdown: of training, of evaluation, and what guards and calls cost."""
    rows: dict[str, list[list[str]]] = {name: [] for name in ("Training", "Evaluation", "Guards")}
    rows["Once per call"] = []
    for key, result in results.items():
        turns, evaluation = result["training"], result["evaluation"]
        model, replicas = key.split(", ")
        name = [MODELS[model], replicas]
        ratios = [str(ratio(turns, peer) or "unclear") if peer in turns else "-" for peer in PEERS]
        noise = ratio(turns, "floor again", "floor")
        step = typical(slopes(turns, "ours"))
        rows["Training"].append([*name, f"{1000 * step:.3g} ms", *ratios, str(noise or "unclear")])
        ratios = [str(ratio(evaluation, peer) or "unclear") for peer in EVALUATIONS]
        rows["Evaluation"].append([*name, *ratios])
        without = [ratio(turns, "ours", f"ours without {guard}") for guard in GUARDS]
        costs = [f"{100 - round(100 / cost.median)}%" if cost else "unclear" for cost in without]
        rows["Guards"].append([*name, *costs])
        calls = [
            f"{1000 * per_call(turns, loop):.0f} ms" if loop in turns else "-"
            for loop in ("ours", "fit")
        ]
        rows["Once per call"].append([*name, *calls, result["fit"] or "none runs"])
    heads = {
        "Training": [
            "our step",
            *(f"ours / {peer}" for peer in PEERS.values()),
            "floor / itself",
        ],
        "Evaluation": [f"ours / {peer}" for peer in EVALUATIONS.values()],
        "Guards": [f"cost of {guard}" for guard in GUARDS],
        "Once per call": ["ours", "best Model.fit", "its settings"],
    }
    before = {
        "Training": "Medians of the ratios, with their quartiles.",
        "Guards": "Part of a step's time that is saved by leaving the guard out.",
        "Once per call": "What a call takes beside its steps. It is in none of the tables above.",
    }
    lines = ["# Our loop beside other loops", ""]
    lines += [f"Made by `{command()}`. Above 1, ours is faster."]
    lines += ["[How it is measured](README.md)."]
    for title, head in heads.items():
        lines += ["", f"## {title}", ""]
        if title in before:
            lines += [before[title], ""]
        table = [["model", "replicas", *head], ["---"] * (len(head) + 2), *rows[title]]
        lines += ["| " + " | ".join(cells) + " |" for cells in table]
    lines += ["", "## Slopes that look wrong", "", *describe_odd_slopes(results)]
    return "\n".join(lines) + "\n"


def draw(results: dict[str, Any], file: Path) -> None:
    """The ratios as points with their quartiles, on a logarithmic axis."""
    figure = Figure(figsize=(9, 0.5 * len(results) + 1.5), layout="constrained")
    axes = figure.subplots()
    for i, (name, label) in enumerate(PEERS.items()):
        found = [
            (j + 0.15 * i, ratio(r["training"], name))
            for j, r in enumerate(results.values())
            if name in r["training"]
        ]
        points = [(at, *seen) for at, seen in found if seen]
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
