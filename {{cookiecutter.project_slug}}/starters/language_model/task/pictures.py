"""Pictures of training examples and of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..engine.batches import first_examples
from ..engine.types import Run
from .data import LINE_END, PROMPT_END
from .model import complete

LINES = 24

Line = tuple[str, str, str]  # prompt, right answer, answer shown


# TODO(8): a picture of some training examples; lines of text.
def draw_samples(datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training dates, each in another form."""
    rows = np.arange(LINES)
    lines = first_examples(datasets["train"], LINES)
    tokens, targets, weights = (part[rows, rows % part.shape[1]] for part in lines)
    solutions = _texts(np.where(weights != 0, targets, 0))
    _draw_lines(list(zip(_prompts(tokens), solutions, solutions, strict=True)), file)


# TODO(15): a picture of some predictions; test prompts with what the model writes after them, wrong
# answers first.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw test examples, up to half of them with wrong answers."""
    tokens, targets, weights = datasets["test"]
    solutions = _texts(np.where(weights != 0, targets, 0))
    answers = _texts(complete(run.model, tokens, weights).numpy())
    lines = list(zip(_prompts(tokens), solutions, answers, strict=True))
    wrong = [line for line in lines if line[1] != line[2]]
    right = [line for line in lines if line[1] == line[2]]
    _draw_lines([*wrong[: LINES // 2], *right][:LINES], file)


def _texts(tokens: np.ndarray) -> list[str]:
    """int (n, T) -> n texts, without padding, up to the end of the line."""
    rows = tokens.astype("uint8")
    return [bytes(row[row != 0]).decode("latin-1").partition(chr(LINE_END))[0] for row in rows]


def _prompts(tokens: np.ndarray) -> list[str]:
    return [text.partition(chr(PROMPT_END))[0] for text in _texts(tokens)]


def _draw_lines(lines: list[Line], file: Path) -> None:
    figure = Figure(figsize=(7, 0.24 * len(lines) + 0.4))
    heights = np.linspace(1, 0, len(lines) + 2)[1:-1]
    for height, (prompt, solution, answer) in zip(heights, lines, strict=True):
        is_right = answer == solution
        text = answer if is_right else f"{answer}, not {solution}"
        color = "black" if is_right else "firebrick"
        figure.text(0.5, height, f"{prompt} \N{RIGHTWARDS ARROW}", family="monospace", ha="right")
        figure.text(0.52, height, text, family="monospace", color=color)
    figure.savefig(file, dpi=110)
