"""Several runs side by side: what differs in their flags, their results, their curves.

Imports no TensorFlow.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .errors import AGAIN, UsageError
from .files import replace_picture
from .run_files import FEW_EPOCHS, SPLITS, RunFiles, listed, shown

WIDTH, GAP = 80, "  "  # columns of a terminal; what is between two columns of a table
CHARTS_IN_A_ROW, MOST_CHARTS, MOST_NAMES = 3, 12, 20  # in the picture, and in its legend
PICTURES = (".png", ".pdf", ".svg")
OWN = {"name", "runs", "resume", "quiet"}  # flags that say nothing about what comes out
Columns = dict[str, list[str]]  # the head of a column: its cells


def compare(runs: Sequence[RunFiles]) -> tuple[str, list[RunFiles]]:
    """What differs, then the results, in 80 columns; and the runs, the best first.

    Runs with different monitored columns stay in the order in which they are given.
    """
    monitors = {(run.monitor, run.larger_is_better) for run in runs if run.history}
    ordered, order = list(runs), "in the order given: their --monitor differs"
    if len(monitors) == 1:
        ((monitor, larger_is_better),) = monitors
        sign = -1 if larger_is_better else 1
        values = (sign * run.best_row.get(monitor, math.nan) for run in runs)
        keys = [(value if math.isfinite(value) else math.inf, i) for i, value in enumerate(values)]
        ordered = [runs[i] for _, i in sorted(keys)]
        order = f"the best {monitor} first"
    numbers = [str(i) for i in range(1, len(ordered) + 1)]
    names = [f"{number:>{len(numbers[-1])}}{GAP}" for number in numbers]
    names = [number + name for number, name in zip(names, _names(ordered), strict=True)]
    differing = _differing([_facts(run) for run in ordered])
    text = f"{len(ordered)} run{'s' * (len(ordered) > 1)}, {order}\n" + "\n".join(names)
    text += "\n\nwhat differs\n" + _table(numbers, differing) if differing else "\n\nsame flags"
    text += "\n\nresults; train and validation at the best step\n"
    return text + _table(numbers, _results(ordered)), ordered


def compare_means(runs: Sequence[RunFiles], over: Sequence[str]) -> str:
    """Means and standard deviations over the finished runs that differ in these flags only.

    Raises:
        UsageError: no run has such a flag.
    """
    names = {name.lstrip("-").replace("-", "_") for name in over}
    for name in names:
        if not any(name in run.flags for run in runs):
            raise UsageError(f"--mean-over {name}: no run has this flag.")
    groups: dict[tuple[tuple[str, str], ...], list[RunFiles]] = {}
    for run in runs:
        if run.results:
            facts = tuple((name, v) for name, v in _facts(run).items() if name not in names)
            groups.setdefault(facts, []).append(run)
    columns = _differing([dict(facts) for facts in groups])
    columns["runs"] = [str(len(group)) for group in groups.values()]
    for metric in _metrics(runs):
        for split in SPLITS[1:]:
            values = [[run.numbers.get(f"{split}_{metric}") for run in g] for g in groups.values()]
            columns[f"{split} {metric.replace('_', ' ')}"] = [_mean(v) for v in values]
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    numbers = [str(i) for i in range(1, len(groups) + 1)]
    head = f"mean and standard deviation over {', '.join(sorted(names))}"
    return f"{head}\n{_table(numbers, columns)}" if groups else f"{head}: no run is finished"


def draw_comparison(runs: Sequence[RunFiles], file: Path) -> None:
    """Overlaid curves of losses and metrics; that of the first run is thick.

    Raises:
        UsageError: the file can't be written, or is of another kind than .png, .pdf and .svg.
    """
    if file.suffix not in PICTURES:
        raise UsageError(f"{file}: the name of a picture ends in {', '.join(PICTURES)}.")
    import matplotlib as mpl  # the text needn't wait for it
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    shown = _metrics(runs)[:MOST_CHARTS] or ["loss"]
    rows, columns = -(-len(shown) // CHARTS_IN_A_ROW), min(len(shown), CHARTS_IN_A_ROW)
    names = [f"{i}{GAP}{name}" for i, name in enumerate(_names(runs), 1)][:MOST_NAMES]
    height = 3.5 * rows + 0.22 * len(names)
    figure = Figure(figsize=(4.5 * columns, height), layout="constrained")
    # Dark to light: the order of the runs, in print and for the color-blind too.
    color = mpl.colormaps["viridis"]
    styles: list[dict[str, Any]] = [
        {"color": color(0.9 * i / len(runs)), "linewidth": 1.2 if i else 2.5}
        for i in range(len(runs))
    ]
    # An epoch of an endless stream is as long as its run.
    ends = [run.history[-1]["epoch"] for run in runs if run.history and run.results]
    x = "epoch" if min(ends, default=FEW_EPOCHS) >= FEW_EPOCHS else "step"
    for place, metric in enumerate(shown, 1):
        axes = figure.add_subplot(rows, columns, place)
        splits = [_split(run, metric) for run in runs]
        for i, (run, split) in enumerate(zip(runs, splits, strict=True)):
            column = f"{split}_{metric}"
            points = [(row[x], row[column]) for row in run.history if column in row]
            if points:
                axes.plot(*zip(*points, strict=True), **styles[i], zorder=3 - i / len(runs))
        title = " or ".join(sorted({split for split in splits if split}))
        axes.set(xlabel=x, title=f"{title} {metric.replace('_', ' ')}")
        axes.grid(alpha=0.3)
    lines = [Line2D([], [], **style) for style in styles[:MOST_NAMES]]
    figure.legend(lines, names, loc="outside lower left", frameon=False)
    replace_picture(figure, file, AGAIN)


def _names(runs: Sequence[RunFiles]) -> list[str]:
    """Directories' names, or whole paths where two have the same; and which runs are unfinished."""
    names = [run.path.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run.path) for run in runs]
    ends = [f"{GAP}(unfinished)" * (not run.results) for run in runs]
    return [name + end for name, end in zip(names, ends, strict=True)]


def _facts(run: RunFiles) -> dict[str, str]:
    """Flags and, of a finished run, versions and commit; the code, unless a commit has it all."""
    facts = {name: shown(value) for name, value in run.flags.items() if name not in OWN}
    facts |= {name: str(version) for name, version in run.results.get("versions", {}).items()}
    git = run.results.get("git", {})
    if git.get("clean"):
        facts.pop("code", None)
    if git.get("commit"):
        facts["commit"] = git["commit"][:8] + " changed" * (git.get("clean") is False)
    return facts


def _differing(facts: Sequence[dict[str, str]]) -> Columns:
    """A column for each fact that isn't the same in all runs that have it."""
    names = dict.fromkeys(name for run in facts for name in run)
    return {
        name: [run.get(name, "-") for run in facts]
        for name in names
        if len({run[name] for run in facts if name in run}) > 1
    }


def _results(runs: Sequence[RunFiles]) -> Columns:
    """A column for each number that a run has."""
    columns: Columns = {}
    for metric in _metrics(runs):
        validated = any(_split(run, metric) == "validation" for run in runs)
        for split in SPLITS[validated:]:
            name = f"{split}_{metric}"
            columns[name.replace("_", " ")] = [shown(run.numbers.get(name)) for run in runs]
    columns["best step"] = [shown(run.best_row.get("step")) for run in runs]
    columns["steps"] = [shown(run.history[-1]["step"]) if run.history else "" for run in runs]
    columns["seconds"] = [shown(run.results.get("seconds")) for run in runs]
    return {name: cells for name, cells in columns.items() if any(cells)}


def _metrics(runs: Sequence[RunFiles]) -> list[str]:
    """The names of losses and metrics; of those with several numbers the first few."""
    columns = [name for run in runs for name in [*(run.history or [{}])[0], *run.results]]
    split = [name.partition("_")[::2] for name in columns]
    return listed(dict.fromkeys(name for first, name in split if first in SPLITS))


def _split(run: RunFiles, metric: str) -> str:
    """The split whose curve is drawn; empty if there is none."""
    row = (run.history or [{}])[0]
    return next((split for split in ("validation", "train") if f"{split}_{metric}" in row), "")


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if not all(map(math.isfinite, known)):  # statistics takes none of it (Python 3.11)
        return f"{sum(known)}"
    deviation = f" \N{PLUS-MINUS SIGN}{statistics.stdev(known):.2g}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.4g}{deviation}"


def _table(numbers: Sequence[str], columns: Columns) -> str:
    """Columns beside the numbers of the runs; what doesn't fit continues below."""
    first = [f"{cell:>{len(numbers[-1])}}" for cell in ("", *numbers)]
    room = WIDTH - len(first[0]) - len(GAP)
    blocks = [first]
    for head, cells in columns.items():
        column = [cell[:room] for cell in (head, *cells)]
        column = [f"{GAP}{cell:>{max(map(len, column))}}" for cell in column]
        if len(blocks[-1][0]) + len(column[0]) > WIDTH:
            blocks.append(first)
        blocks[-1] = [line + cell for line, cell in zip(blocks[-1], column, strict=True)]
    return "\n\n".join("\n".join(map(str.rstrip, block)) for block in blocks)
