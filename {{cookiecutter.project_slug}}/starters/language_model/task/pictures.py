"""Pictures of training examples and of predictions."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..engine.batches import first_examples
from ..engine.pictures import drawn_split, save
from ..engine.types import Run
from .data import FORMS, LINE_END, PROMPT_END, in_form
from .model import attention, complete

LINES = 24
MAX_EXAMPLES = 320  # the picture and its numbers are of at most so many
EXAMPLE = datetime.date(1979, 5, 3)
RIGHT, WRONG = "black", "firebrick"  # wrong characters are bold and underlined, too

Line = tuple[str, str, str]  # prompt, right answer, answer shown


# TODO(8): a picture of some training examples; default: lines of text.
def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the first training dates, each in another form."""
    tokens, targets, weights = _first_lines(datasets["train"], LINES)
    solutions = _texts(np.where(weights != 0, targets, 0))
    figure = Figure(figsize=(6, 0.24 * LINES + 0.5), layout="constrained")
    axes = figure.subplots()
    axes.set_title("prompt \N{RIGHTWARDS ARROW} answer")
    _draw_lines(axes, list(zip(_prompts(tokens), solutions, solutions, strict=True)))
    save(figure, file)


# TODO(15): a picture of some predictions; default: prompts with the model's answers, wrong ones
# first, the accuracy for each form of dates, and what the model attends to.
def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw answers to the first test prompts (else validation, else training), wrong ones first."""
    split = drawn_split(datasets)
    tokens, targets, weights = _first_lines(datasets[split], MAX_EXAMPLES)
    solutions = _texts(np.where(weights != 0, targets, 0))
    answers = _texts(np.asarray(complete(run.model, tokens, weights)))
    lines = list(zip(_prompts(tokens), solutions, answers, strict=True))
    wrong = [line for line in lines if line[1] != line[2]]
    right = [line for line in lines if line[1] == line[2]]
    figure = Figure(figsize=(12, 7), layout="constrained")
    places: list[Any] = [["lines", "forms"], ["lines", "attention"]]
    axes = figure.subplot_mosaic(places)
    figure.suptitle(f"{len(right)} of {len(lines)} {split} answers are right to the last character")
    axes["lines"].set_title("prompt \N{RIGHTWARDS ARROW} answer (wrong characters underlined)")
    _draw_lines(axes["lines"], [*wrong[: LINES // 2], *right][:LINES])
    _draw_forms(axes["forms"], accuracy_by_form(lines))
    _draw_attention(axes["attention"], run.model, [part[:1] for part in (tokens, targets, weights)])
    save(figure, file)


def accuracy_by_form(lines: list[Line]) -> dict[str, tuple[int, int]]:
    """How many answers are right, of how many, for each of FORMS that prompts are written in."""
    found: dict[str, tuple[int, int]] = {}
    for prompt, solution, answer in lines:
        date = datetime.date.fromisoformat(solution)
        form = next((f for f in FORMS if in_form(date, f).lower() == prompt.lower()), "?")
        right, number = found.get(form, (0, 0))
        found[form] = right + (answer == solution), number + 1
    return found


def marked(answer: str, solution: str) -> tuple[str, str]:
    """An answer's right characters and its wrong ones, with spaces in place of the others.

    A wrong space, or a character that is missing at the end, is "_".
    """
    length = max(len(answer), len(solution))
    pairs = list(zip(answer.ljust(length), solution.ljust(length), strict=True))
    right = "".join(written if written == wanted else " " for written, wanted in pairs)
    return right, "".join(
        " " if written == wanted else written.replace(" ", "_") for written, wanted in pairs
    )


def _first_lines(split: Any, number: int) -> list[np.ndarray]:
    """Tokens, targets and weights of the first lines, each (n, T); each date in another form."""
    parts = first_examples(split, number)
    rows = np.arange(len(parts[0]))
    # Only in the training data a date comes in every form: (n, forms, T).
    return [part[rows, rows % part.shape[1]] if part.ndim == 3 else part for part in parts]


def _texts(tokens: np.ndarray) -> list[str]:
    """int (n, T) -> n texts, without padding, up to the end of the line."""
    lines = ["".join(map(chr, row[row != 0])).partition(chr(LINE_END))[0] for row in tokens]
    return [
        "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in x) for x in lines
    ]


def _prompts(tokens: np.ndarray) -> list[str]:
    return [text.partition(chr(PROMPT_END))[0] for text in _texts(tokens)]


def _draw_lines(axes: Axes, lines: list[Line]) -> None:
    axes.set(xlim=(-30, 30), ylim=(LINES, 0))
    axes.axis("off")
    for i, (prompt, solution, answer) in enumerate(lines):
        right, wrong = marked(answer, solution)
        style: dict[str, Any] = {
            "y": i + 0.5,
            "family": "monospace",
            "va": "center",
            "parse_math": False,
        }
        axes.text(x=-1, s=f"{prompt} \N{RIGHTWARDS ARROW}", ha="right", **style)
        axes.text(x=0, s=right, color=RIGHT, **style)
        if wrong.strip():
            underline = "".join("_" if c != " " else c for c in wrong)
            for text in (wrong, underline):
                axes.text(x=0, s=text, color=WRONG, weight="bold", **style)
            axes.text(x=14, s=f"not {solution}", color="0.4", **style)


def _draw_forms(axes: Axes, found: dict[str, tuple[int, int]]) -> None:
    names = sorted(found, key=lambda form: found[form][0] / found[form][1])
    shares = [found[name][0] / found[name][1] for name in names]
    labels = [in_form(EXAMPLE, name) if name != "?" else name for name in names]
    axes.barh(labels, shares, color="#9ab8e0")
    for i, (right, number) in enumerate(map(found.__getitem__, names)):
        axes.text(0.01, i, f"{right} of {number}", va="center", fontsize=8)
    axes.set(xlim=(0, 1), title="right answers by form of the date")


def _draw_attention(axes: Axes, model: Any, line: list[np.ndarray]) -> None:
    """Of one line (tokens, targets, weights), each (1, T)."""
    weights = attention(model, line[0])
    if weights is None:
        axes.axis("off")
        return
    tokens, targets, is_answer = line[0][0], line[1][0], line[2][0] != 0
    read = (tokens != 0) & (tokens != LINE_END)
    axes.imshow(weights[is_answer][:, read], cmap="gray_r", vmin=0, vmax=1)
    axes.set_title("largest attention weight of all heads and layers, for one line")
    axes.set(xlabel="reads", ylabel="writes")
    for axis, codes in ((axes.xaxis, tokens[read]), (axes.yaxis, targets[is_answer])):
        characters = [chr(code).replace(chr(LINE_END), "end") for code in codes]
        axis.set_ticks(range(len(codes)), characters, family="monospace", parse_math=False)
