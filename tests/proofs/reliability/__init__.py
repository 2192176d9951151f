"""Kill runs, stop them, fill their disks, damage their files and feed them bad data."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from .. import Page
from . import cases, harness, moments

KILLS = 6  # of each configuration on each strategy
STRATEGIES = {
    "none": ["--strategy", "none"],
    "one device": ["--strategy", "one_device"],
    "2 replicas": ["--virtual-replicas", "2"],
    "4 replicas": ["--virtual-replicas", "4"],
}
# Flags, and a variant of the task (see variants.py).
BETWEEN = "`--validate-every-steps 4 --validation-steps 1 --log-every-steps 3`"
CONFIGURATIONS: dict[str, tuple[list[str], str]] = {
    "as rendered: dropout, augmentation, cosine schedule": ([], ""),
    "BatchNorm, a callback with state, a layer frozen on the way": ([], "rich"),
    "`--accumulate 2 --clip-norm 1`": (["--accumulate", "2", "--clip-norm", "1"], ""),
    BETWEEN: (BETWEEN.strip("`").split(), ""),
    "`--precision bfloat16`": (["--precision", "bfloat16"], ""),
    "`--precision float16`, and all of the second line": (["--precision", "float16"], "rich"),
    "random access in Python, with two damaged rows: `--max-bad-examples 2`": (
        ["--max-bad-examples", "2"],
        "two damaged rows",
    ),
}
Cell = tuple[str, str]  # configuration, strategy
EVERY_CELL = tuple(itertools.product(CONFIGURATIONS, STRATEGIES))
SHORT_CELLS: tuple[Cell, ...] = ((BETWEEN, "2 replicas"),)

TEXT = """# Reliability

Made by `nox -s proofs -- reliability`, with {versions}, on logical CPU devices; no GPU was at hand.

## Killed with SIGKILL

Each run was killed {per_cell} times, resumed with `--resume auto`, and at the end compared, bit for
bit, with a run that was never stopped: weights, optimizer, metrics and all else in the last
checkpoint, `history.csv`, and `results.json` without the seconds. There was a checkpoint after
every step. The moments were drawn at random: while a checkpoint is written, while the best weights
are written, between two checkpoints, or at any time after the start of the process. After each kill
every checkpoint on disk was read from beginning to end. A loss of power was not tried; what is done
for it stands in the [design decisions](design-decisions.md#runs).

In the fourth line, validations and log points fall within an epoch, and kills between them; there
`steps.csv` is compared too, without the speed. In the other lines log points depend on the clock.

| | {strategies} |
| --- |{rules}
{table}

| Kills | {kills} |
| --- | ---: |
{moments}
| Checkpoints read after the kills | {read} |
| of these, damaged | {bad} |

{moments_chosen}
## Refused, stopped, survived

A refusal is a one-line message on stderr that begins with `error:`; TensorFlow may log lines of its
own before it. Nothing that can be resumed is lost: where a disk was full or read-only, the disk was
repaired, the run was resumed, and it ended bit-identical.

Exit codes: 0 done, 2 refused. {resumable} stopped by SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 or, in
training, Ctrl-C: run the command that it prints, or the same command with `--resume auto`. In
training the run is saved first; outside of training what was saved stays as it is, and a run that
has saved nothing yet leaves no directory. {at_once} stopped at once: by Ctrl-C outside of training,
or by a second signal. A signal in the first moments of Python's own start, before the flags are
read, ends the process by itself, and so does a SIGKILL (137 in a shell) at any time. An error of
storage that may be over in a moment, such as a stale file handle, is no refusal either:
{resumable}. These are the codes of a run in one process;
[several workers](workers.md#what-happens-when) have one more: outside of training, 143 by SIGTERM.

| | exit code | message |
| --- | ---: | --- |
{cases}
"""


def make(short: bool) -> Page:
    """The two tables; wrong are the cells and cases that are not as they must be."""
    cells, kills = (SHORT_CELLS, 2) if short else (EVERY_CELL, KILLS)
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        project = harness.Project(harness.render(directory / "project"))

        def kill(number: int) -> harness.Killed:
            configuration, strategy = cells[number]
            flags, variant = CONFIGURATIONS[configuration]
            place = directory / f"cell-{number}"
            place.mkdir()
            flags = [*STRATEGIES[strategy], *flags]
            killed = harness.campaign(project, place, flags, variant, kills, number)
            print(f"{configuration}, {strategy}: {killed.different or 'identical'}", flush=True)
            return killed

        def judge(group: Callable[[], Iterator[cases.Case]]) -> list[cases.Case]:
            found = []
            for case in group():
                print(f"{case.what}: {'; '.join(case.wrong) or 'as it must be'}", flush=True)
                found.append(case)
            return found

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            killed = dict(zip(cells, pool.map(kill, range(len(cells))), strict=True))
            groups = cases.groups(project, directory, short)
            found = list(itertools.chain.from_iterable(pool.map(judge, groups)))
            struck = moments.end_runs(directory / "moments", pool, short)
    wrong = [
        f"{configuration}, {strategy}"
        for (configuration, strategy), gave in killed.items()
        if gave.different or any(kill.bad for kill in gave.kills)
    ]
    wrong += moments.wrong(struck)
    wrong += [f"{case.what}: {'; '.join(case.wrong)}" for case in found if case.wrong]
    return Page(_write(killed, struck, found, kills), wrong)


def _write(
    killed: dict[Cell, harness.Killed],
    struck: list[moments.Struck],
    found: list[cases.Case],
    per_cell: int,
) -> str:
    strategies = list(dict.fromkeys(strategy for _, strategy in killed))

    def cell(configuration: str, strategy: str) -> str:
        gave = killed[configuration, strategy]
        return f"{len(gave.kills)} kills, " + ("DIFFERENT" if gave.different else "identical")

    kills = [kill for gave in killed.values() for kill in gave.kills]
    drawn = sorted({kill.moment for kill in kills})
    return TEXT.format(
        versions=f"TensorFlow {version('tensorflow')} and Keras {version('keras')}",
        per_cell=per_cell,
        strategies=" | ".join(strategies),
        rules=" --- |" * len(strategies),
        table="\n".join(
            f"| {name} | {' | '.join(cell(name, strategy) for strategy in strategies)} |"
            for name in dict.fromkeys(configuration for configuration, _ in killed)
        ),
        kills=len(kills),
        moments="\n".join(f"| {m} | {sum(k.moment == m for k in kills)} |" for m in drawn),
        read=sum(kill.good + kill.bad for kill in kills),
        bad=sum(kill.bad for kill in kills),
        moments_chosen=moments.write(struck),
        resumable=cases.RESUMABLE,
        at_once=cases.AT_ONCE,
        cases="\n".join(
            f"| {case.what}{' (WRONG: ' + '; '.join(case.wrong) + ')' if case.wrong else ''} "
            f"| {case.code} | {case.message} |"
            for case in found
        ),
    )
