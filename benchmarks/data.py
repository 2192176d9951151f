"""Our input pipelines beside plain tf.data: python benchmarks/data.py

Writes data.json (every turn) and data.md.

How fast they read, how long they take to start and to resume, and what memory holds. In each round
every loop takes one turn (see turns.py), and ratios are taken within a round.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from growth import MEGABYTES, MEMORY, PIPELINES, child, describe_limit, describe_memory
from pages import command
from peers import ratio, render, rounded, slopes, typical

HERE = Path(__file__).parent
BATCH = 64
KINDS = {  # what, rows
    "memory_map": ("a memory map of images 32x32x3", 200_000),
    "image_files": ("PNG files of 32x32x3", 100_000),
    "parquet": ("Parquet, columns mapped to memory", 1_000_000),
    "parquet_take": ("Parquet, `table.take` in `__getitems__`", 1_000_000),
    "stream_1": ("a stream: one TFRecord file of images", 100_000),
    "stream_10": ("a stream: ten TFRecord files of images", 100_000),
}
ROWS, LATE_STEP = (10**3, 10**6, 10**9), 10**6
SOURCES = {"arrays": "arrays", "object": "`__len__` and `__getitem__`"}


def speed_table(results: dict[str, Any]) -> list[str]:
    """Examples per second, and ratios, of each kind of data."""
    head = ["data", "rows", "ours, examples/s", "ours / plain tf.data"]
    head += ["our training, examples/s", "our training / Model.fit"]
    rows = [head, ["---"] * len(head)]
    for name, result in results.items():
        turns = result["turns"]
        reading, training = (
            f"{BATCH / typical(slopes(turns, loop)):,.0f}" for loop in ("ours", "our training")
        )
        plain, fit = ratio(turns, "plain"), ratio(turns, "fit", "our training")
        cells = [reading, str(plain or "unclear"), training, str(fit or "unclear")]
        rows.append([KINDS[name][0], f"{result['rows']:,}", *cells])
    return ["| " + " | ".join(cells) + " |" for cells in rows]


def start_table(results: dict[str, Any]) -> list[str]:
    """Milliseconds to the first batch, and memory, for each number of rows."""
    lines = [f"| rows | held as | start | resume at step {LATE_STEP:,} | resume / start | memory |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for source, found in results.items():
        for rows, result in found.items():
            pairs = zip(result["resume"], result["start"], strict=True)
            low, middle, high = quantiles([r / s for r, s in pairs], n=4)
            start, resume = (f"{1000 * median(result[k]):.0f} ms" for k in ("start", "resume"))
            cells = [f"{int(rows):,}", SOURCES[source], start, resume]
            cells += [f"{middle:.2f} ({low:.2f} to {high:.2f})", f"{result['memory']:+.0f} MB"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def page(results: dict[str, Any]) -> str:
    """All tables as Markdown."""
    lines = ["# Data: ours beside plain tf.data", "", f"Made by `{results['command']}`."]
    lines += ["[How it is measured](README.md#data). Ratios are medians with their quartiles;"]
    lines += ["above 1, ours is faster. The target is at least 0.95.", ""]
    lines += ["## Speed", "", f"Batches of {BATCH}, shuffled.", "", *speed_table(results["speed"])]
    lines += [
        "",
        "## Start",
        "",
        "Time to the first batch. The target: the same for any number of rows,",
    ]
    lines += ["and a resume within 10% of a start.", "", *start_table(results["start"])]
    lines += [
        "",
        "## Memory",
        "",
        "After the pipelines of training, evaluation and prediction have",
    ]
    lines += [f"given a hundred batches each; {results['megabytes']} MB of data. The limits leave"]
    lines += ["no room for batches that are under way.", ""]
    lines += ["| data | measured | limit |", "| --- | --- | --- |"]
    for kind, used in results["memory"].items():
        what, limit = MEMORY[kind]
        cells = [what, describe_memory(used), describe_limit(limit, used)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--short", action="store_true", help="small data, to try this file")
    parser.add_argument("--output", type=Path, default=HERE, help="directory of the results")
    arguments = parser.parse_args()
    rounds, difference, part, megabytes = arguments.rounds, 1.0, 1, MEGABYTES
    if arguments.short:
        rounds, difference, part, megabytes = min(rounds, 4), 0.2, 20, 100
    results: dict[str, Any] = {"command": command(), "megabytes": megabytes}
    results |= {"speed": {}, "start": {}, "memory": {}}

    with tempfile.TemporaryDirectory() as directory:
        project = render(directory)

        def measure(*function: Any) -> dict[str, Any]:
            """In an empty directory."""
            with tempfile.TemporaryDirectory() as scratch:
                return child(project, *function, script=PIPELINES, cwd=Path(scratch))

        for kind in arguments.kinds:
            rows = KINDS[kind][1] // part
            turns = measure("speed", kind, rows, rounds, difference)
            results["speed"][kind] = {"rows": rows, "turns": turns}
            print(speed_table({kind: results["speed"][kind]})[-1], flush=True)
        for source in SOURCES:
            found = {n: measure("start", source, n, LATE_STEP, rounds) for n in ROWS}
            results["start"][source] = found
        for kind in MEMORY:
            results["memory"][kind] = measure("memory", kind, megabytes)
    results = rounded(results)  # a test makes the page from the file
    text = page(results)
    print(text)
    (arguments.output / "data.json").write_text(json.dumps(results) + "\n")
    (arguments.output / "data.md").write_text(text)


if __name__ == "__main__":
    main()
