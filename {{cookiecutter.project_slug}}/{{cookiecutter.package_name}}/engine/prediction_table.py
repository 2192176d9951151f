"""Predictions as a table, and as a page of thumbnails where there are images."""

from __future__ import annotations

import base64
import csv
import html
import io
import sys
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import tensorflow as tf

from .errors import AGAIN, UsageError
from .files import printable, replace_file

THUMBNAILS = 200  # rows at most on the page; the table has all
THUMBNAIL = 96  # pixels of the longer side, at most
PLACE = ("file", "row")  # where an input stood
COLUMNS = 1000  # numbers of one array in a row, at most
PAGE = Template("""<!doctype html>
<meta charset="utf-8">
<title>$title</title>
<style>
body { font: 14px sans-serif }
figure { display: inline-block; vertical-align: top; margin: 6px; max-width: 220px }
img { width: 96px; image-rendering: pixelated }
figcaption { overflow-wrap: anywhere }
</style>
<h1>$title</h1>
<p>$count</p>
$figures
""")


class PredictionTable:
    """A row for each input: where it stood, and the columns that the task makes of its prediction.

    Columns are arrays by name with a row per input: (n,), (n, k), which becomes "name/0" to
    "name/k-1", or images (n, h, w, 1 or 3), which go to the page, beside the input.
    """

    def __init__(self) -> None:
        self._names: list[str] = []  # of the first batch
        # Lines of these columns: 10 KB for 1,000 numbers, and 160 KB as a dict, as of others.
        self._rows: list[str | dict[str, Any]] = []
        self._figures: list[str] = []

    def add(self, places: list[dict[str, Any]], inputs: Any, columns: Mapping[str, Any]) -> None:
        """Add a batch; `places` has "file" and "row" of each input.

        Raises:
            UsageError: a column isn't of one of these forms, or has a name of `PLACE`.
        """
        if not isinstance(columns, Mapping):
            raise UsageError(
                f"describe in task/predictions.py gives a {type(columns).__name__}; it must give "
                "arrays by name in a dict."
            )
        rows = [dict(place) for place in places]
        images = [array for array in map(np.asarray, tf.nest.flatten(inputs)) if _are_images(array)]
        captions: list[list[str]] = [[" ".join(map(str, row.values()))] for row in rows]
        for name, values in columns.items():
            if name in PLACE:
                raise UsageError(
                    f"describe in task/predictions.py gives {name!r}, which the table has already; "
                    "give this column another name."
                )
            try:
                array = np.asarray(values)
            except ValueError as error:
                raise UsageError(
                    f"describe in task/predictions.py gives {name!r} with rows of several lengths; "
                    "pad them, or make a text of each."
                ) from error
            if array.shape[:1] != (len(rows),) or (array.ndim > 2 and not _are_images(array)):
                raise UsageError(
                    f"describe in task/predictions.py gives {name!r} of shape {array.shape} for "
                    f"{len(rows)} inputs: it must be (n,), (n, k) or images (n, h, w, 1 or 3)."
                )
            if array.ndim > 2:
                images.append(array)
            elif array.ndim == 2:
                for row, vector in zip(rows, array[:, :COLUMNS], strict=True):
                    row |= {f"{name}/{i}": _text(value) for i, value in enumerate(vector)}
            else:
                for row, caption, value in zip(rows, captions, array, strict=True):
                    row[name] = _text(value)
                    caption.append(f"{name}: {_text(value)[:100]}")
        names = list(rows[0]) if rows else []
        self._names = self._names or names
        self._rows += [_line(names, row) for row in rows] if names == self._names else rows
        if images:
            for i in range(min(len(rows), THUMBNAILS - len(self._figures))):
                shown = "".join(f'<img alt="" src="{_data_uri(image[i])}">' for image in images)
                lines = "<br>".join(map(html.escape, captions[i]))
                self._figures.append(f"<figure>{shown}<figcaption>{lines}</figcaption></figure>")

    def write(self, path: Path) -> list[Path]:
        """Write `path`.csv, if there are columns, and `path`.html, if there are images.

        Raises:
            UsageError: they can't be written.
        """
        # A batch may have names of its own, such as of its most boxes.
        others = (name for row in self._rows if isinstance(row, dict) for name in row)
        names = list(dict.fromkeys([*self._names, *others]))
        if len(names) == len(PLACE) and not self._figures:
            sys.stderr.write("no table: describe in task/predictions.py returns no columns\n")
            return []
        table, page = path.with_name(f"{path.name}.csv"), path.with_name(f"{path.name}.html")
        more = "," * (len(names) - len(self._names))  # empty cells of columns that came later
        lines = [_line(names, dict(zip(names, names, strict=True)))]
        lines += [row + more if isinstance(row, str) else _line(names, row) for row in self._rows]
        replace_file(table, printable("".join(f"{line}\n" for line in lines)), AGAIN)
        if not self._figures:
            return [table]
        count = f"{len(self._figures):,} of {len(self._rows):,} rows of {table.name}"
        title, figures = html.escape(f"Predictions: {path.name}"), "\n".join(self._figures)
        content = PAGE.substitute(title=title, count=html.escape(count), figures=figures)
        replace_file(page, printable(content), AGAIN)
        return [table, page]


def _line(names: list[str], row: dict[str, Any]) -> str:
    text = io.StringIO(newline="")
    csv.DictWriter(text, names, lineterminator="").writerow(row)
    return text.getvalue()


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def _are_images(array: np.ndarray) -> bool:
    """Whether it is numbers (n, h, w, 1 or 3)."""
    return array.ndim == 4 and array.shape[-1] in (1, 3) and array.dtype.kind in "biuf"


def _data_uri(image: np.ndarray) -> str:
    """A small PNG of an image: whole numbers up to 255, or floats in [0, 1]; others are scaled."""
    values = np.asarray(image, np.float32) / (255 if image.dtype.kind in "iu" else 1)
    low, high = values.min(), values.max()
    if low < 0 or high > 1:
        values = (values - low) / ((high - low) or 1)
    if max(values.shape) > THUMBNAIL:
        # Not preserve_aspect_ratio, which rounds a narrow side to 0, and raises (TF 2.21).
        size = [max(1, round(n * THUMBNAIL / max(values.shape))) for n in values.shape[:2]]
        values = tf.image.resize(values, size, antialias=True).numpy()
    png = tf.io.encode_png((values * 255).round().astype(np.uint8)).numpy()
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
