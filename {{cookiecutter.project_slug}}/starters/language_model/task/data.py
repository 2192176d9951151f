"""The examples of each split, lines like "3rd of May, 1979>1979-05-03", and their augmentation.

A token is the ASCII code of a character. The prompt ends with ">" and the answer with a line feed;
zeros pad each line to the length of the longest.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

TOKENS = 128
PROMPT_END, LINE_END = ord(">"), ord("\n")
ANSWER_LENGTH = len("1979-05-03\n")

SEED = 0  # of the lines; not --seed, so that every run is tested on the same lines
VALIDATION_LINES, TEST_LINES = 480, 960

# A hundred years, so that two digits identify the year.
FIRST_DAY, DAYS = datetime.date(1970, 1, 1), 36_525
FORMS = (
    "{date.day} {date:%B %Y}",  # 3 May 1979
    "{th} of {date:%B, %Y}",  # 3rd of May, 1979
    "{date:%B} {th}, {date:%Y}",  # May 3rd, 1979
    "{date:%B} {date.day} {date:%Y}",
    "{date:%b} {date.day}, {date:%Y}",
    "{date:%A}, {date.day} {date:%B %Y}",  # Thursday, 3 May 1979
    "{date:%a} {th} {date:%b %Y}",
    "{date:%Y, %B} {date.day}",
    "{date.day}-{date:%b-%y}",  # 3-May-79
    "{date.day} {date:%b} '{date:%y}",
    "{date.day}.{roman}.{date.year}",  # 3.V.1979
    "{date.day}.{date.month}.{date.year}",  # with dots the day comes first,
    "{date:%d.%m.%y}",
    "{date.month}/{date.day}/{date.year}",  # with slashes the month
    "{date:%m/%d/%y}",
    "{date:%Y%m%d}",
)
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}  # else "th"


# TODO(2): your data as {"train": ..., "validation": ..., "test": ...}; default: lines of
# dates, each date in one split only.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (tokens, targets, weights), int32, int32 and float32.

    Each has shape (n, T), in training (n, forms, T): a training date comes in every form, others in
    one. Targets are the tokens shifted by one; weights are 1 for tokens of the answer, else 0.

    A split is arrays with a row per example, (inputs, labels) or (inputs, labels, weights), in
    memory or mapped; an object with __len__ and __getitem__; RandomAccess, see
    engine/random_access.py; or a tf.data.Dataset of single examples. Only "train" is required.
    """
    source = random.Random(SEED)
    # Held-out dates first, so that they don't depend on --dates.
    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
    held_out = VALIDATION_LINES + TEST_LINES
    text = [_line(date, source.choice(FORMS), source) for date in dates[:held_out]]
    text += [_line(date, form, source) for date in dates[held_out:] for form in FORMS]
    lines = np.array(text, "S").view("uint8").reshape(len(text), -1).astype("int32")  # (n, T + 1)
    tokens, targets = lines[:, :-1], lines[:, 1:]
    is_answer = np.cumsum(tokens == PROMPT_END, axis=1) > 0
    weights = (is_answer & (targets != 0)).astype("float32")
    arrays = (tokens, targets, weights)
    return {
        "train": tuple(a[held_out:].reshape(task.dates, len(FORMS), -1) for a in arrays),
        "validation": tuple(a[:VALIDATION_LINES] for a in arrays),
        "test": tuple(a[VALIDATION_LINES:held_out] for a in arrays),
    }


# TODO(3): the augmentation of a training batch, or None; default: picks one form for each date.
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (batch, seed) -> batch that tf.data runs on each global batch, or None.

    The batch has the parts of an example, weights last; floats are of keras.config.floatx(). Train
    steps get what is returned, which may have other parts; validation and test data aren't
    augmented. Draw random numbers only with tf.random.stateless_* and the seed, int64 (2,), which
    differs in each step, or with layers of Keras made outside of the function: then the result is
    the same on any number of replicas, and after a resume. For several draws make several seeds:
    tf.random.split(seed, 3).
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows, forms, _ = batch[0].shape
        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)
        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)

    return augment


def in_form(date: datetime.date, form: str) -> str:
    """`date` in one of FORMS."""
    th, roman = f"{date.day}{ENDINGS.get(date.day, 'th')}", ROMAN[date.month - 1]
    return form.format(date=date, th=th, roman=roman)


def _line(date: datetime.date, form: str, source: random.Random) -> str:
    """`date` in one of FORMS, and in ISO 8601."""
    write = source.choice((str, str.lower, str.upper))
    return f"{write(in_form(date, form))}>{date.isoformat()}\n"
