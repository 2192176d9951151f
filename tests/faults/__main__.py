"""Kill, starve and misfeed runs, and write what came of it: python tests/faults PAGE."""

import itertools
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cases
import harness

KILLS = 6  # of each configuration
STRATEGIES = {
    "none": ["--strategy", "none"],
    "one device": ["--strategy", "one_device"],
    "2 replicas": ["--virtual-replicas", "2"],
    "4 replicas": ["--virtual-replicas", "4"],
}
CONFIGURATIONS: dict[str, tuple[list[str], str | None]] = {
    "as it comes: dropout, augmentation, cosine schedule": ([], None),
    "BatchNorm, a callback with state, a layer frozen on the way": ([], "rich"),
    "`--accumulate 2 --clip-norm 1`": (["--accumulate", "2", "--clip-norm", "1"], None),
    "`--precision bfloat16`": (["--precision", "bfloat16"], None),
    "`--precision float16`, and all of the second line": (["--precision", "float16"], "rich"),
}

PAGE = """# Reliability

Made by `nox -s faults`, with {versions}, on logical
CPU devices; no GPU was at hand.

## Killed with SIGKILL

Each run was killed {per_cell} times, resumed with `--resume auto`, and at the end compared, bit by
bit, with a run that nobody stopped: weights, optimizer, metrics and all else in the last
checkpoint, `history.csv`, and `results.json` without the seconds. There was a checkpoint after
every step. The moments were drawn at random: while a checkpoint is written, while the best weights
are written, between two checkpoints, or at any time after the start of the process. After each kill
every checkpoint on disk was read from beginning to end.

| | {strategies} |
| --- |{rules}
{table}

| Kills | {kills} |
| --- | ---: |
{moments}
| Checkpoints read after the kills | {read} |
| of these, damaged | {bad} |

## Refused, stopped, survived

A refusal is one sentence on stderr, which begins with `error:`; TensorFlow may log lines of its own
before it. Nothing that can be resumed is lost: where a disk was full or read-only, the run was
resumed after that was mended, and ended bit-identical.

Exit codes: 0 done, 2 refused, {resumable} stopped by SIGTERM or Ctrl-C and saved: run the command
that it prints, or the same command with `--resume auto`; {at_once} stopped at once, by a second
signal or before training.

| | exit code | what it says |
| --- | ---: | --- |
{cases}
"""


def main(page: Path) -> None:
    """Run everything; exit code 1 if anything is not as it must be."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        project = harness.Project(harness.render(directory / "project"))
        cells = list(itertools.product(CONFIGURATIONS, STRATEGIES))

        def kill(number: int) -> harness.Killed:
            configuration, strategy = cells[number]
            flags, fault = CONFIGURATIONS[configuration]
            place = directory / f"cell-{number}"
            place.mkdir()
            flags = [*STRATEGIES[strategy], *flags]
            killed = harness.campaign(project, place, flags, fault, KILLS, number)
            print(f"{configuration}, {strategy}: {killed.different or 'identical'}", flush=True)
            return killed

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            killed = dict(zip(cells, pool.map(kill, range(len(cells))), strict=True))
        found: list[cases.Case] = []
        for group in (
            cases.stops,
            cases.refusals,
            cases.damage,
            cases.disks,
            cases.data,
            cases.more_data,
        ):
            for case in group(project, directory):
                print(f"{case.what}: {'; '.join(case.wrong) or 'as it must be'}", flush=True)
                found.append(case)
    page.write_text(write(killed, found), encoding="utf-8")
    wrong = [
        f"{configuration}, {strategy}"
        for (configuration, strategy), gave in killed.items()
        if gave.different or any(kill.bad for kill in gave.kills)
    ]
    wrong += [case.what for case in found if case.wrong]
    print(f"{(time.monotonic() - began) / 60:.0f} minutes; wrong: {wrong or 'nothing'}")
    raise SystemExit(bool(wrong))


def write(killed: dict[tuple[str, str], harness.Killed], found: list[cases.Case]) -> str:
    """The page."""
    import keras
    import tensorflow as tf

    def cell(configuration: str, strategy: str) -> str:
        gave = killed[configuration, strategy]
        return f"{len(gave.kills)} kills, " + ("DIFFERENT" if gave.different else "identical")

    kills = [kill for gave in killed.values() for kill in gave.kills]
    moments = sorted({kill.moment for kill in kills})
    return PAGE.format(
        versions=f"TensorFlow {tf.__version__} and Keras {keras.__version__}",
        per_cell=KILLS,
        strategies=" | ".join(STRATEGIES),
        rules=" --- |" * len(STRATEGIES),
        table="\n".join(
            f"| {name} | {' | '.join(cell(name, strategy) for strategy in STRATEGIES)} |"
            for name in CONFIGURATIONS
        ),
        kills=len(kills),
        moments="\n".join(f"| {m} | {sum(k.moment == m for k in kills)} |" for m in moments),
        read=sum(kill.good + kill.bad for kill in kills),
        bad=sum(kill.bad for kill in kills),
        resumable=cases.RESUMABLE,
        at_once=cases.AT_ONCE,
        cases="\n".join(
            f"| {case.what}{' (WRONG: ' + '; '.join(case.wrong) + ')' if case.wrong else ''} "
            f"| {case.code} | {case.said} |"
            for case in found
        ),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
