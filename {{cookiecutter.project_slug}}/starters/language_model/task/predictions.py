"""What `predict` can read beside .npy and .npz files, and what it writes of each prediction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ..engine.errors import UsageError
from .data import ANSWER_LENGTH, LINE_END, PROMPT_END
from .model import complete


def read_prompts(file: Path, model: keras.Model) -> np.ndarray:
    """The lines of a text file, such as "3rd of May, 1979", as tokens int32 (n, T).

    Raises:
        UsageError: a line is too long for the model, or not ASCII.
    """
    length = model.input_shape[1]
    tokens = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        codes = [ord(character) for character in f"{line}{chr(PROMPT_END)}"]
        if not line.isascii() or len(codes) + ANSWER_LENGTH - 1 > length:
            raise UsageError(
                f"{file}:{number} isn't an ASCII line of at most {length - ANSWER_LENGTH} "
                "characters."
            )
        tokens.append(codes + [0] * (length - len(codes)))
    return np.array(tokens, np.int32).reshape(-1, length)


# Functions (file, model) -> inputs with a row per example, as the model takes them, by file suffix.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {".txt": read_prompts}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table, with a row per example: (n,), (n, k), or images for the page."""
    tokens = np.asarray(inputs)
    after_prompt = np.cumsum(tokens == PROMPT_END, axis=1) > 0
    answers = np.asarray(complete(model, tokens, after_prompt))
    prompts = np.where(after_prompt, 0, tokens)
    return {"prompt": _texts(prompts), "answer": _texts(answers)}


def _texts(tokens: np.ndarray) -> list[str]:
    rows = tokens.astype("uint8")
    return [bytes(row[row != 0]).decode("latin-1").partition(chr(LINE_END))[0] for row in rows]
