"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

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


# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {".txt": read_prompts}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    tokens = np.asarray(inputs)
    after_prompt = np.cumsum(tokens == PROMPT_END, axis=1) > 0
    answers = np.asarray(complete(model, tokens, after_prompt))
    prompts = np.where(after_prompt, 0, tokens)
    return {"prompt": _texts(prompts), "answer": _texts(answers)}


def _texts(tokens: np.ndarray) -> list[str]:
    rows = tokens.astype("uint8")
    return [bytes(row[row != 0]).decode("latin-1").partition(chr(LINE_END))[0] for row in rows]
