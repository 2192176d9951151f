"""curves.png: losses and metrics of a run, its learning rate and its gradient norm."""

from __future__ import annotations

from math import ceil, isfinite, sqrt
from pathlib import Path
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .pictures import save
from .run_files import FEW_EPOCHS, Row

CHARTS, LINES, CHARTS_IN_A_ROW = 24, 10, 4  # at most; history.csv and steps.csv have all numbers
WIDE = 30  # largest over smallest gradient norm, from which on the scale is logarithmic

# Apart in lightness and in form: they stay apart in gray and for the color-blind.
TRAIN: dict[str, Any] = {"color": "#e69f00", "linestyle": "--", "marker": ".", "markersize": 4}
VALIDATION: dict[str, Any] = {"color": "#1f4e9c", "marker": "."}
TEST: dict[str, Any] = {"color": "black", "marker": "D", "linestyle": "none"}
BEST = TEST | {"marker": "o", "markersize": 9, "fillstyle": "none"}
SHADES = [tuple(color) for color in colormaps["viridis"]([0.0, 0.23, 0.46, 0.69, 0.9])]


def draw_curves(history: list[Row], log: list[Row], best: Row, tested: Row, file: Path) -> None:
    """Draw a chart for each loss and metric, one for the learning rate and one for the gradients.

    Args:
        history: the rows of history.csv, at least one.
        log: the rows of steps.csv.
        best: the row of the history whose weights were tested; empty if it isn't known.
        tested: the results of the test by name; empty if there was none.
        file: where to write the picture.

    Raises:
        UsageError: it can't be written.
    """
    x = "epoch" if history[-1]["epoch"] >= FEW_EPOCHS else "step"
    measured: dict[str, list[str]] = {}  # a metric of several numbers has one chart
    for name in history[0]:
        if name.startswith("train_"):
            name = name.removeprefix("train_")
            measured.setdefault(name.partition("/")[0], []).append(name)
    logged = [name for name in ("learning_rate", "gradient_norm") if log]
    charts = [*list(measured)[: CHARTS - len(logged)], *logged]
    columns = min(ceil(sqrt(len(charts))), CHARTS_IN_A_ROW)
    rows = ceil(len(charts) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.2 * rows), layout="constrained")
    for i, chart in enumerate(charts):
        axes = figure.add_subplot(rows, columns, i + 1)
        axes.set_title(chart.replace("_", " "))
        if chart in logged:
            _draw_log(axes, log, chart, x)
        elif measured[chart] == [chart]:
            _draw_splits(axes, history, chart, x, best, tested)
        else:
            _draw_members(axes, history, chart, measured[chart], x)
        if best:
            axes.axvline(best[x], color="0.6", linestyle=":", zorder=0)
        axes.set(xlabel=x, xlim=(0, 1.04 * history[-1][x]))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8)
    save(figure, file)


def _draw_splits(axes: Axes, history: list[Row], name: str, x: str, best: Row, tested: Row) -> None:
    """Training, validation and test; a ring around what the best weights have reached."""
    for split, style in (("train", TRAIN), ("validation", VALIDATION)):
        column = f"{split}_{name}"
        if points := _points(history, x, column):
            axes.plot(*zip(*points, strict=True), label=split, **style)
    column = f"validation_{name}" if f"validation_{name}" in best else f"train_{name}"
    if column in best:
        axes.plot(best[x], best[column], label=f"best weights: {best[column]:.4g}", **BEST)
    if f"test_{name}" in tested:
        score = tested[f"test_{name}"]
        axes.plot((best or history[-1])[x], score, label=f"test: {score:.4g}", **TEST)


def _draw_members(axes: Axes, history: list[Row], name: str, members: list[str], x: str) -> None:
    """The first numbers of a metric that has several, of one split."""
    split = "validation" if f"validation_{members[0]}" in history[0] else "train"
    axes.set_title(f"{split} {name.replace('_', ' ')}")
    for i, member in enumerate(members[:LINES]):
        if points := _points(history, x, f"{split}_{member}"):
            label = member.partition("/")[2]
            axes.plot(*zip(*points, strict=True), marker=".", label=label, **_style(i))


def _draw_log(axes: Axes, log: list[Row], name: str, x: str) -> None:
    """Columns of steps.csv that begin with a name: one, or one for each optimizer."""
    columns = [column for column in log[0] if column.startswith(name)][:LINES]
    for i, column in enumerate(columns):
        if points := [(at, value) for at, value in _points(log, x, column) if isfinite(value)]:
            label = column.removeprefix(name).strip("_")  # "" isn't in the legend
            axes.plot(*zip(*points, strict=True), linewidth=1, label=label, **_style(i))
    if name == "gradient_norm":
        low, high = axes.dataLim.intervaly
        if low > 0 and high > WIDE * low:
            axes.set_yscale("log")
        if skipped := log[-1].get("skipped_steps"):
            axes.set_title(f"gradient norm ({skipped:.0f} steps skipped)")


def _style(i: int) -> dict[str, Any]:
    """Of line i, from 0 to LINES - 1: no two have both the color and the dashes in common."""
    return {"color": SHADES[i % len(SHADES)], "linestyle": ("-", "--")[i % 2]}


def _points(rows: list[Row], x: str, column: str) -> list[tuple[float, float]]:
    return [(row[x], row[column]) for row in rows if column in row]
