"""The data: lines such as "3rd of May, 1979>1979-05-03", and what is done to them in training.

A token is the ASCII code of a character. The prompt ends with ">", the answer with a line feed, and
zeros fill a line up to the length of the longest.
"""

from __future__ import annotations

import datetime
import random
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

TOKENS = 128
PROMPT_END, LINE_END = ord(">"), ord("\n")
ANSWER_LENGTH = len("1979-05-03\n")

SEED = 0  # of the lines; not that of the run, so that every run is tested on the same ones
VALIDATION_LINES, TEST_LINES = 480, 960

# A hundred years, so that two digits tell the year.
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
    "{date.day}.{date.month}.{date.year}",  # with points the day comes first,
    "{date:%d.%m.%y}",
    "{date.month}/{date.day}/{date.year}",  # with slashes the month
    "{date:%m/%d/%y}",
    "{date:%Y%m%d}",
)
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}  # else "th"


# TODO(2): your data by split ("validation" and "test" may be missing), each split arrays with one
# row an example, inputs, (inputs, labels) or (inputs, labels, weights), or a tf.data.Dataset of
# single examples; makes lines, no date is in two splits.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Validation and test lines in one form each, and training lines in every form.

    A split is (tokens, the tokens that follow them, weights); int32, int32 and float32, each of
    shape (n, T), in training (n, forms, T). A weight is one for the answer's tokens, else zero.
    """
    source = random.Random(SEED)
    # Held-out lines first, so that they stay the same whatever --dates is.
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


# TODO(3): what is done to a training batch, with tf.random.stateless_* and this seed only, so that
# it doesn't depend on the number of replicas; puts each date in one of its forms.
def create_augment(task: TaskConfig) -> Any:
    """The augmentation of a global batch as the steps see it, or None for no augmentation."""
    del task

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """(batch, forms, T) -> (batch, T); `seed`: int64 (2,), another one in every step."""
        rows, forms, _ = batch[0].shape
        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)
        return tuple(tf.gather(t, form, axis=1, batch_dims=1) for t in batch)

    return augment


def _line(date: datetime.date, form: str, source: random.Random) -> str:
    """`date` in one of the forms that people use, and as ISO 8601 has it."""
    prompt = form.format(
        date=date,
        th=f"{date.day}{ENDINGS.get(date.day, 'th')}",
        roman=ROMAN[date.month - 1],
    )
    write = source.choice((str, str.lower, str.upper))
    return f"{write(prompt)}>{date.isoformat()}\n"
