"""What curves.png shows of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.figure
import numpy as np
import pytest
from matplotlib.axes import Axes
from proof.engine import curves
from proof.engine.records import Records
from proof.engine.run_files import Row

from .colors import closest_in_gray, closest_without_green, lab

pytestmark = pytest.mark.quick

Figures = list[matplotlib.figure.Figure]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Figures:
    """The figures that are drawn; none is written."""
    drawn: Figures = []

    class Figure(matplotlib.figure.Figure):
        def savefig(self, *args: Any, **kwargs: Any) -> None:
            self.draw_without_rendering()
            drawn.append(self)

    monkeypatch.setattr(curves, "Figure", Figure)
    return drawn


def rows(epochs: int, per_epoch: int = 1) -> list[Row]:
    """Rows of a history whose loss falls by one in each epoch, 10 above it in validation."""
    ends = [(i + 1) / per_epoch for i in range(epochs * per_epoch)]
    return [{"epoch": e, "step": 4 * e, "train_loss": -e, "validation_loss": 10 - e} for e in ends]


def chart(figures: Figures, title: str) -> Axes:
    (found,) = [axes for axes in figures[-1].axes if axes.get_title() == title]
    return found


def texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


def test_the_best_weights_and_the_test_are_marked(figures: Figures, tmp_path: Path) -> None:
    history = rows(5)
    curves.draw_curves(history, [], history[2], {"test_loss": 7.5}, tmp_path / "curves.png")
    axes = chart(figures, "loss")
    assert texts(axes) == ["train", "validation", "best weights: 7", "test: 7.5"]
    train, validation, best, test, line = [line.get_xydata() for line in axes.lines]
    np.testing.assert_array_equal(train, [(e, -e) for e in range(1, 6)])
    np.testing.assert_array_equal(validation, [(e, 10 - e) for e in range(1, 6)])
    assert (best.tolist(), test.tolist()) == ([[3, 7]], [[3, 7.5]])
    assert line[:, 0].tolist() == [3, 3]
    assert axes.get_xlabel() == "epoch"
    assert all(tick % 1 == 0 for tick in axes.get_xticks())


def test_without_validation_or_test_the_best_is_of_training(
    figures: Figures, tmp_path: Path
) -> None:
    history = [{n: v for n, v in row.items() if n != "validation_loss"} for row in rows(3)]
    curves.draw_curves(history, [], history[1], {}, tmp_path / "curves.png")
    assert texts(chart(figures, "loss")) == ["train", "best weights: -2"]
    curves.draw_curves(history, [], {}, {}, tmp_path / "curves.png")  # none was saved
    assert texts(chart(figures, "loss")) == ["train"]


@pytest.mark.parametrize(("epochs", "per_epoch"), [(1, 1), (1, 4)])
def test_a_run_of_an_epoch_is_drawn_by_steps(
    epochs: int, per_epoch: int, figures: Figures, tmp_path: Path
) -> None:
    history = rows(epochs, per_epoch)
    curves.draw_curves(history, [], history[-1], {}, tmp_path / "curves.png")
    axes = chart(figures, "loss")
    assert axes.get_xlabel() == "step"
    assert axes.lines[0].get_xdata().tolist() == [row["step"] for row in history]
    assert all(tick % 1 == 0 for tick in axes.get_xticks())


def test_learning_rates_and_gradient_norms_are_those_of_the_log(
    figures: Figures, tmp_path: Path
) -> None:
    record = Records(tmp_path)
    for row in rows(3):
        record.add_validation(row)
        rates = {"learning_rate_a": 0.5, "learning_rate_b": 0.25}
        norm = {1: 100.0, 2: np.inf, 3: 1.0}[int(row["epoch"])]
        log = {"gradient_norm": norm, "skipped_steps": row["epoch"] - 1}
        record.add_log({"step": row["step"], "epoch": row["epoch"], **rates, **log})
    record.draw_curves(record.history[0], {})
    rate, norm = chart(figures, "learning rate"), chart(figures, "gradient norm (2 steps skipped)")
    assert texts(rate) == ["a", "b"]
    assert rate.lines[1].get_xydata().tolist() == [[1, 0.25], [2, 0.25], [3, 0.25]]
    assert norm.lines[0].get_xydata().tolist() == [[1, 100], [3, 1]]
    assert norm.get_yscale() == "log"
    assert norm.lines[1].get_xdata() == [1, 1]  # the best


def test_a_log_that_somebody_has_changed_is_left_out(figures: Figures, tmp_path: Path) -> None:
    record = Records(tmp_path)
    record.history = rows(2)
    (tmp_path / "steps.csv").write_text("a;b\nno;number\n")
    record.draw_curves({}, {})
    assert [axes.get_title() for axes in figures[-1].axes] == ["loss"]


def test_nothing_is_drawn_without_a_validation_nor_by_other_workers(tmp_path: Path) -> None:
    Records(tmp_path).draw_curves({}, {})
    other = Records(tmp_path, is_chief=False)
    other.history = rows(2)
    other.draw_curves({}, {})
    assert not list(tmp_path.iterdir())


def test_curves_show_no_more_than_fits(figures: Figures, tmp_path: Path) -> None:
    names = [*(f"iou/{i}" for i in range(100)), *(f"mae_{i}" for i in range(30))]
    row = {f"{split}_{name}": 0.5 for split in ("train", "validation") for name in names}
    log = [{"epoch": 1.0, "step": 5.0, "learning_rate": 0.1, "gradient_norm": 1.0}]
    history = [{"epoch": 1.0, "step": 5.0, **row}]
    curves.draw_curves(history, log, history[0], {}, tmp_path / "curves.png")
    (figure,) = figures
    assert len(figure.axes) == curves.CHARTS
    assert figure.get_size_inches().tolist() == pytest.approx([16.8, 19.2])
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:2] + titles[-2:] == ["validation iou", "mae 0", "learning rate", "gradient norm"]
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    looks = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(lines) == len(looks) == curves.LINES


def test_lines_stay_apart_in_gray_and_for_the_color_blind() -> None:
    for colors in (
        [look["color"] for look in (curves.TRAIN, curves.VALIDATION, curves.TEST)],
        curves.SHADES,
    ):
        assert closest_in_gray(*colors, "white") >= 10
        assert closest_without_green(*colors, "white") >= 15
    assert lab(["black", "white", "red"]).round(0).tolist() == [
        [0, 0, 0], [100, 0, 0], [53, 80, 67]
    ]  # fmt: skip
