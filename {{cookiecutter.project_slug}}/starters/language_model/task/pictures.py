"""What samples and predictions of this task look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..engine.types import Run
from .data import LINE_END, PROMPT_END
from .model import complete

LINES = 24


# TODO(8): a picture of some training examples; lines of text.
def draw_samples(datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training examples."""
    rows = np.arange(LINES)
    tokens, targets, weights = (a[rows, rows % a.shape[1]] for a in datasets["train"])
    answers = _texts(np.where(weights != 0, targets, 0))
    _draw_lines(_prompts(tokens), answers, answers, file)


# TODO(15): a picture of some predictions; test lines and what the model writes after them, the
# wrong ones first, with what would be right.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw test examples with the model's answers, wrong and right."""
    tokens, targets, weights = datasets["test"]
    answers = _texts(complete(run.model, tokens, weights).numpy())
    truths = _texts(np.where(weights != 0, targets, 0))
    is_right = [answer == truth for answer, truth in zip(answers, truths, strict=True)]
    wrong, right = np.flatnonzero(np.logical_not(is_right)), np.flatnonzero(is_right)
    shown = [*wrong[: LINES // 2], *right][:LINES]
    prompts, answers, truths = (
        [texts[i] for i in shown] for texts in (_prompts(tokens), answers, truths)
    )
    _draw_lines(prompts, answers, truths, file)


def _texts(tokens: np.ndarray) -> list[str]:
    """int (n, T) -> n texts, without padding, up to the end of the line."""
    rows = tokens.astype("uint8")
    return [bytes(row[row != 0]).decode("latin-1").partition(chr(LINE_END))[0] for row in rows]


def _prompts(tokens: np.ndarray) -> list[str]:
    return [text.partition(chr(PROMPT_END))[0] for text in _texts(tokens)]


def _draw_lines(prompts: list[str], answers: list[str], truths: list[str], file: Path) -> None:
    figure = Figure(figsize=(7, 0.24 * len(prompts) + 0.4))
    rows = np.linspace(1, 0, len(prompts) + 2)[1:-1]
    for row, prompt, answer, truth in zip(rows, prompts, answers, truths, strict=True):
        is_right = answer == truth
        text = answer if is_right else f"{answer}, not {truth}"
        figure.text(0.5, row, f"{prompt} \N{RIGHTWARDS ARROW}", family="monospace", ha="right")
        figure.text(0.52, row, text, family="monospace", color="black" if is_right else "firebrick")
    figure.savefig(file, dpi=110)
