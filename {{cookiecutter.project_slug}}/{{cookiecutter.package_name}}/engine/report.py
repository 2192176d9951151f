"""The page of a run: report.html, one file that needs nothing else. Imports no TensorFlow."""

from __future__ import annotations

import base64
import contextlib
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from .command_line import flag_of, flags_in
from .files import printable, read_png, replace_file
from .output import PACKAGE
from .run_files import SPLITS, STARTED, UNFINISHED, RunFiles, is_finished, read_run, shown

MOST_ROWS = 500  # of the history; history.csv has all
CAPTIONS = {
    "curves.png": "Losses and metrics, the best weights, learning rate, gradient norm",
    "predictions.png": "What the model predicts, and where it is wrong",
    "samples.png": "Training examples, and what the augmentation makes of them",
}
# The policy lets a browser neither fetch anything nor run a script.
PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: auto; padding: 1rem; }
h1 { margin: 0; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 .5rem; }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; }
.numbers b { display: block; font-size: 2rem; line-height: 1.2; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem 1.2rem .2rem 0; text-align: left; vertical-align: top; }
tr { border-bottom: 1px solid #8885; }
figure { margin: 1rem 0 2rem; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
pre { overflow-x: auto; font-size: .85rem; }
figcaption, summary { font-weight: 600; padding: .4rem 0; }
summary { cursor: pointer; }
</style>
</head>
<body>
$body
</body>
</html>
""")


def write_report(path: Path, defaults: str, *, is_end: bool = True) -> Path:
    """Write the page of a run, finished or not, from the files of its directory.

    Args:
        path: the run directory.
        defaults: the flags as YAML, as they are when none is given.
        is_end: whether the run that writes it has done everything else.

    Returns:
        The page, report.html in the run directory; of a run whose end has failed,
        report-unfinished.html: report.html says that all of its end is there.

    Raises:
        UsageError: it isn't a run directory, or can't be written to.
    """
    run = read_run(path)
    title = f"{PACKAGE}: {path.resolve().name}"
    tests = {name: v for name, v in run.numbers.items() if name.startswith("test_")}
    tiles = [
        f"<div><b>{_cell(value)}</b>{escape(_words(name))}</div>"
        for name, value in (tests or run.numbers).items()
    ]
    default = flags_in(defaults)
    flags = [(flag_of(name), value, default.get(name, "-")) for name, value in run.flags.items()]
    changed = [flag for flag in flags if flag[1] != flag[2]]
    again = f"python train.py --config {shlex.quote(str(path / 'config.yaml'))}"
    model, text = path / "model.txt", ""
    with contextlib.suppress(OSError):
        text = model.read_text(encoding="utf-8", errors="replace")
    rows = run.history[-MOST_ROWS:]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    pictures = sorted(path.glob("*.png"), key=lambda file: (file.name not in CAPTIONS, file.name))
    body = [
        f"<h1>{escape(title)}</h1>\n<p>{escape(_subtitle(run))}</p>",
        f'<div class="numbers">{"".join(tiles)}</div>',
        f"<h2>Results</h2>\n{_results(run)}",
        "<h2>Configuration</h2>\n<p>Flags that differ from their defaults:</p>",
        _table(("flag", "value", "default"), changed),
        _folded("All flags", _table(("flag", "value"), [flag[:2] for flag in flags])),
        f"<p>The same run again:</p>\n<pre>{escape(again)}</pre>",
        "<h2>Pictures</h2>",
        *map(_picture, pictures),
        f"<h2>Details</h2>\n{_table(('', ''), _facts(run.results))}",
        _folded("Model", f"<pre>{escape(text)}</pre>"),
        _folded(
            f"History, the last {len(rows)} of {len(run.history)} validations",
            _table(map(_words, columns), [[row.get(name) for name in columns] for row in rows]),
        ),
    ]
    page = PAGE.substitute(title=escape(title), body="\n".join(body))
    again = "train.py --resume" if is_end else f"-m {PACKAGE} report"
    then = f"make it writable, then: python {again} {shlex.quote(str(path))}."
    has_failed = (path / "results.json").exists() and not is_finished(path)
    file = path / (UNFINISHED if has_failed and not is_end else "report.html")
    replace_file(file, printable(page), then)
    return file


def _subtitle(run: RunFiles) -> str:
    """When it started, how far it came, and where it trained."""
    started = STARTED.match(run.path.resolve().name)
    parts = [f"started {started[1]} {started[2]}:{started[3]}:{started[4]}"] if started else []
    if not run.results:
        step = run.history[-1]["step"] if run.history else 0
        parts += [f"unfinished, {shown(step)} steps at the latest validation"]
    else:
        results = {name: shown(value) for name, value in run.results.items()}
        replicas = f"replicas: {results.get('replicas')} (strategy {results.get('strategy')})"
        parts += [f"{results.get('steps')} steps", f"{results.get('seconds')} s", replicas]
    return ", ".join(parts)


def _results(run: RunFiles) -> str:
    """Losses and metrics in rows, the splits in columns."""
    cells = {name.partition("_")[::2]: value for name, value in run.numbers.items()}
    splits = [split for split in SPLITS if any(first == split for first, _ in cells)]
    names = dict.fromkeys(name for _, name in cells)
    rows = [[_words(name), *(cells.get((split, name)) for split in splits)] for name in names]
    best = f"<p>Train and validation at step {shown(run.best_row.get('step'))}, the best.</p>\n"
    return (best if run.best_row else "") + _table(["", *splits], rows)


def _facts(results: dict[str, Any]) -> list[tuple[str, Any]]:
    """What results.json has beside losses and metrics."""
    rows: list[tuple[str, Any]] = []
    for name, value in results.items():
        if isinstance(value, dict) and name != "best":
            rows += [(f"{name}: {part}", of_part) for part, of_part in value.items()]
        elif not isinstance(value, dict) and name.partition("_")[0] not in SPLITS:
            rows.append((_words(name), value))
    return rows


def _picture(file: Path) -> str:
    """A picture with its caption; nothing for a file that is none."""
    png = read_png(file)
    if not png:
        return ""
    caption = escape(CAPTIONS.get(file.name, _words(file.stem)))
    data = base64.b64encode(png).decode()
    image = f'<img src="data:image/png;base64,{data}" alt="{caption}">'
    return f"<figure><figcaption>{caption}</figcaption>{image}</figure>"


def _table(head: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = ["".join(f"<td>{_cell(value)}</td>" for value in row) for row in rows]
    content = "\n".join(f"<tr>{line}</tr>" for line in [titles, *lines])
    return f'<div class="wide"><table>\n{content}\n</table></div>'


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n{content}\n</details>"


def _cell(value: Any) -> str:
    return escape(shown(value))


def _words(name: str) -> str:
    return name.replace("_", " ")
