"""All cases but kills: what happens to a run, its exit code, and the sentence it must print."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from .harness import (
    TINY,
    Ended,
    Project,
    compare,
    contents,
    end,
    newest,
    small_disk,
    steps_saved,
    wait,
)
from .moments import AGAIN, MOMENTS

LONG = ["--epochs", "4000", "--global-batch-size", "48", "--save-every-steps", "5"]
OK, REFUSED, RESUMABLE, AT_ONCE = 0, 2, 138, 130
INTERRUPTED = r"interrupted (?:in the validation )?after step \d+"


class Case(NamedTuple):
    """What happened in one case."""

    what: str
    code: int
    message: str
    wrong: list[str]  # what was not as it must be


def judge(
    what: str, ended: Ended, code: int | tuple[int, ...], sentence: str, *also: bool | str
) -> Case:
    """Compare what happened with what must happen.

    Args:
        what: the case.
        ended: the process.
        code: the exit code that is required, or several possible ones.
        sentence: a regular expression for a line that it must print; "" for none.
        also: texts that say what else is wrong; a bool says nothing.
    """
    codes = code if isinstance(code, tuple) else (code,)
    wrong = [] if ended.code in codes else [f"exit code {ended.code}, not {code}"]
    if "Traceback" in ended.err + ended.out:
        wrong.append(f"a traceback: {ended.err[-600:]}")
    lines = ended.out.splitlines() + ended.own_lines
    if codes == (REFUSED,):  # the only line on stderr, but for checkpoints that were tried
        lines = [line for line in ended.own_lines if not line.endswith("trying another")]
        if len(lines) != 1:
            wrong.append(f"{len(lines)} lines on stderr")
    message = next((line for line in lines if sentence and re.search(sentence, line)), "")
    if sentence and not message:
        wrong.append(f"no sentence with {sentence!r}: {ended.err[-600:]}")
    wrong += [check for check in also if isinstance(check, str)]
    return Case(what, ended.code, _anonymous(message), wrong)


def _anonymous(sentence: str) -> str:
    """Without the names of this machine's directories, and the time."""
    sentence = re.sub(r"\S*/(?=runs/|checkpoints/)|\S*/tmp\w{8}/", "", sentence)
    return re.sub(r"\d{4}-\d\d-\d\d-\d{6}-train(-\d+)?", "RUN", sentence)


def unless(fine: object, problem: str) -> str | bool:
    """`problem`, or True where all is fine."""
    return True if fine else problem


def groups(project: Project, directory: Path, short: bool) -> list[Callable[[], Iterator[Case]]]:
    """The cases in groups that don't depend on each other."""
    if short:
        others = ("resumed with another batch size", "resumed with another optimizer")
        bad = ("a label too large", "validation images of another size")
        return [
            lambda: chain(
                stops(project, directory, delays=(0.05,)), refusals(project, directory, others)
            ),
            lambda: chain(versions(project, directory), data(project, directory, bad)),
        ]
    return [
        lambda: chain(stops(project, directory), refusals(project, directory)),
        lambda: chain(
            damage(project, directory), changes(project, directory), disks(project, directory)
        ),
        lambda: data(project, directory),
        lambda: chain(more_data(project, directory), versions(project, directory)),
        lambda: fall_back(project, directory),
    ]


AGAIN_LATER = "interrupted by SIGTERM; start the same command again"
OUTSIDE = [
    ("import", "SIGINT", AT_ONCE, ""),
    ("import", "SIGTERM", RESUMABLE, AGAIN_LATER),
    ("test", "SIGTERM", RESUMABLE, AGAIN_LATER),
    ("predictions", "SIGTERM", RESUMABLE, AGAIN_LATER),
]


def stops(
    project: Project, directory: Path, delays: tuple[float, ...] = (0, 0.02, 0.05, 0.1, 0.6, 0.8)
) -> Iterator[Case]:
    """Signals; what the first leaves behind in `directory`/runs serves the refusals.

    Args:
        project: the rendered project.
        directory: where the runs go.
        delays: seconds from SIGTERM to Ctrl-C.
    """
    runs = directory / "runs"
    process = project.start(*LONG, "--runs", runs)
    wait(process, lambda: max(steps_saved(newest(runs)), default=0) > 8)
    process.send_signal(signal.SIGTERM)
    ended = end(process)
    run = newest(runs)
    assert run is not None
    yield judge("SIGTERM", ended, RESUMABLE, INTERRUPTED + "; to .*: python train")

    def resumed() -> subprocess.Popen[str]:
        before = max(steps_saved(run))
        process = project.start("--resume", run)
        wait(process, lambda: max(steps_saved(run)) > before + 8)
        return process

    process = resumed()
    second = project.run("--resume", run)
    yield judge("a second process resumes the same run", second, REFUSED, "by another process")
    process.send_signal(signal.SIGHUP)
    yield judge("SIGHUP, from a lost ssh connection", end(process), RESUMABLE, INTERRUPTED)

    process = resumed()
    process.send_signal(signal.SIGINT)
    yield judge("Ctrl-C in a resumed run", end(process), RESUMABLE, INTERRUPTED)

    process = resumed()
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    what = "SIGTERM twice at once, as `timeout` sends it to a process and its group"
    yield judge(what, end(process), RESUMABLE, INTERRUPTED)

    for delay in delays:
        process = resumed()
        process.send_signal(signal.SIGTERM)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        what = f"SIGTERM, and Ctrl-C {delay:g} s later: stopped at once, or saved by then"
        yield judge(what, end(process), (AT_ONCE, RESUMABLE), "")

    early = ["--resume", "auto", *TINY, "--epochs", "1", "--runs", directory / "early"]
    for moment, number, code, sentence in OUTSIDE:
        ended = project.run(*early, strike=(moment, MOMENTS[moment].call, number))
        name = "Ctrl-C" if number == "SIGINT" else number
        yield judge(f"{name} {MOMENTS[moment].what}", ended, code, sentence)


OTHERS: dict[str, tuple[list[object], str, str]] = {
    "resumed with another batch size": (["--global-batch-size", 36], "", "batch size was 48"),
    "resumed with another seed": (["--seed", 1], "", "its seed was 0, and now it is 1"),
    "resumed in another precision": (["--precision", "float16"], "", "precision was float32"),
    "resumed with another optimizer": ([], "another optimizer", "was Adam, and now it is SGD"),
    "resumed with another model": ([], "another model", "its model main was"),
    "resumed with other data": ([], "fewer examples", "examples was 288, and now it is 240"),
}


def refusals(
    project: Project, directory: Path, names: tuple[str, ...] = (*OTHERS,)
) -> Iterator[Case]:
    """A run that can't be resumed, or not with these flags."""
    yield judge(
        "--resume of what isn't a run directory",
        project.run("--resume", directory / "runs" / "nothing"),
        REFUSED,
        "is not a run directory",
    )
    run = newest(directory / "runs")
    assert run is not None
    unreadable = shutil.copytree(run, directory / "unreadable" / "runs" / run.name)
    (unreadable / "config.yaml").write_text("{")
    ended = project.run("--resume", unreadable)
    yield judge("config.yaml is damaged", ended, REFUSED, "is not a YAML file")
    (unreadable / "config.yaml").write_text((run / "config.yaml").read_text())
    shutil.rmtree(unreadable / "checkpoints")
    ended = project.run("--resume", unreadable)
    yield judge("a run without a checkpoint", ended, REFUSED, "holds no checkpoint")

    before = contents(run)
    for what in names:
        flags, variant, sentence = OTHERS[what]
        ended = project.run("--resume", run, *flags, variant=variant)
        kept = unless(contents(run) == before, "files of the run were changed")
        yield judge(what, ended, REFUSED, sentence, kept)


def damage(project: Project, directory: Path) -> Iterator[Case]:
    """Checkpoints that can't be read."""
    whole, runs = directory / "whole", directory / "damaged" / "runs"
    project.run(*TINY, "--runs", whole)
    process = project.start(*TINY, "--runs", runs, "--name", "train")
    wait(process, lambda: max(steps_saved(newest(runs)), default=0) > 12)
    process.send_signal(signal.SIGTERM)
    end(process)
    run = newest(runs)
    assert run is not None

    def data_of(copy: Path) -> list[Path]:
        files = copy.glob("checkpoints/latest/*.data*")
        return sorted(files, key=lambda file: int(re.findall(r"ckpt-(\d+)", file.name)[0]))

    def flip(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    kinds: dict[str, Callable[[Path], None]] = {
        "the latest checkpoint is cut short": lambda file: os.truncate(file, 1000),
        "a bit of the latest checkpoint is wrong": flip,
        "the latest checkpoint is empty": lambda file: os.truncate(file, 0),
        "the index of the latest checkpoint is cut short": lambda file: os.truncate(
            file.with_name(file.name.partition(".")[0] + ".index"), 500
        ),
    }
    for what, spoil in kinds.items():
        copy = shutil.copytree(run, directory / what.replace(" ", "-") / "runs" / run.name)
        spoil(data_of(copy)[-1])
        ended = project.run("--resume", copy)
        same = unless(ended.code == 0 and not compare(whole, copy), "it ended differently")
        yield judge(what, ended, OK, "can't be read .*, trying another", same)
    copy = shutil.copytree(run, directory / "every" / "runs" / run.name)
    for file in data_of(copy):
        os.truncate(file, 1000)
    ended = project.run("--resume", copy)
    yield judge("every checkpoint is cut short", ended, REFUSED, "holds no checkpoint")


def changes(project: Project, directory: Path) -> Iterator[Case]:
    """What others do to a run directory; to be called after `damage`, whose runs it uses."""
    whole, runs = directory / "whole", directory / "damaged" / "runs"
    run = newest(runs)
    assert run is not None

    def semicolons(copy: Path) -> None:
        file = copy / "history.csv"
        file.write_text(file.read_text().replace(",", ";"), encoding="utf-8-sig")

    def cut_short(copy: Path) -> None:
        for file in copy.glob("checkpoints/best/*"):
            os.truncate(file, 50)

    def add_strays(copy: Path) -> None:
        for name in ("ckpt-18 (copy).index", "ckpt-13.sync-conflict.index", "ckpt-13.index.tmp"):
            for kind in ("latest", "best"):
                (copy / "checkpoints" / kind / name).write_text("x")

    anew, best = "the best weights so far can't be read", {"results.json", "text in the checkpoint"}
    kinds: dict[str, tuple[Callable[[Path], None], str, set[str]]] = {
        "the best weights are cut short": (cut_short, anew, best),
        "the best weights are deleted": (
            lambda copy: shutil.rmtree(copy / "checkpoints" / "best"),
            anew,
            best,
        ),
        "stray copies beside the checkpoints": (add_strays, "resuming", set()),
        "`history.csv` was saved by a spreadsheet": (
            semicolons,
            "isn't as this run wrote it",
            {"history.csv", "text in the checkpoint"},  # which has the number of its rows
        ),
    }
    for what, (change, sentence, may_differ) in kinds.items():
        copy = shutil.copytree(run, directory / re.sub(r"\W", "-", what) / "runs" / run.name)
        change(copy)
        ended = project.run("--resume", copy)
        same = unless(not ended.code and {*compare(whole, copy)} <= may_differ, "it differs")
        yield judge(what, ended, OK, sentence, same)

    moved = shutil.copytree(runs, directory / "moved" / "runs")
    neighbor = moved / "9999-01-01-000000-other"
    shutil.copytree(run / "checkpoints", neighbor / "checkpoints")
    (neighbor / "config.yaml").write_text("seed: 2020-13-45\n")
    ended = project.run("--resume", "auto", *TINY, "--runs", moved)
    same = unless(not ended.code and not compare(whole, moved / run.name), "it ended differently")
    what = "`runs/` was moved, a run in it has a damaged `config.yaml`: `--resume auto`"
    yield judge(what, ended, OK, "resuming", same)

    bracketed = directory / "bracketed" / "runs"
    process = project.start(*TINY, "--runs", bracketed, "--name", "train[0.1]")
    wait(process, lambda: max(steps_saved(newest(bracketed)), default=0) > 8)
    process.send_signal(signal.SIGTERM)
    ended = end(process)
    again = AGAIN.search(ended.out)
    ended = project.run(*shlex.split(again[1])) if again else ended
    left = newest(bracketed)
    assert left is not None
    # TensorFlow, which compares, takes brackets for a pattern.
    copy = shutil.copytree(left, directory / "plain")
    same = unless(not ended.code and not compare(whole, copy), "it ended differently")
    what = "a run named `train[0.1]` is interrupted, and resumed as it says"
    yield judge(what, ended, OK, "resuming", same)


def disks(project: Project, directory: Path) -> Iterator[Case]:
    """A disk that is full or read-only; once it is repaired, the run ends as if nothing happened.

    To be called after `damage`, whose unstopped run it compares with.
    """
    whole, limited = directory / "whole", directory / "limited" / "runs"
    ended = project.run(*TINY, "--runs", limited, file_size=400_000)
    yield judge("a limit on the size of files", ended, REFUSED, "File too large")
    try:
        with small_disk(directory / "disk", "8m") as disk:
            yield from _on_a_small_disk(project, disk, whole)
    except PermissionError as error:
        yield Case(f"full and read-only disks: not run, {error}", 0, "", [])


def _on_a_small_disk(project: Project, disk: Path, whole: Path) -> Iterator[Case]:
    runs, filler = disk / "runs", disk / "filler"
    for what, after in {"the disk is full from the start": 0, "the disk fills up": 3}.items():
        process = project.start(*TINY, "--runs", runs)
        wait(process, lambda after=after: newest(runs) and len(steps_saved(newest(runs))) >= after)
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        ended = end(process)
        yield judge(what, ended, REFUSED, "can't be written .No space left on device.")
        filler.unlink()
        ended = project.run("--resume", "auto", *TINY, "--runs", runs)
        run = newest(runs)
        same = unless(run and not compare(whole, run), f"it ended differently: {ended.err[-500:]}")
        yield judge(f"{what}, space is freed, the run is resumed", ended, OK, "", same)
        shutil.rmtree(runs)

    process = project.start(*TINY, "--runs", runs)
    wait(process, lambda: newest(runs) and len(steps_saved(newest(runs))) >= 3)
    run = newest(runs)
    assert run is not None
    # A real remount waits until no file is open for writing; the lock always is.
    latest = run / "checkpoints" / "latest"
    _mount("-t", "tmpfs", "-o", "ro", "none", latest)
    ended = end(process)
    sentence = "can't be .*Read-only file system"
    yield judge("the disk becomes read-only", ended, REFUSED, sentence)
    subprocess.run(["umount", str(latest)], check=True)
    _mount("-o", "remount,ro", disk)
    ended = project.run("--resume", run)
    yield judge("a run on a read-only disk is resumed", ended, REFUSED, sentence)
    ended = project.run(*TINY, "--runs", disk / "other" / "runs")
    yield judge("a run is started on a read-only disk", ended, REFUSED, sentence)
    _mount("-o", "remount,rw", disk)
    ended = project.run("--resume", run)
    same = unless(run and not compare(whole, run), f"it ended differently: {ended.err[-500:]}")
    yield judge("the disk is writable again, the run is resumed", ended, OK, "resuming", same)


def _mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


DATA = {
    "no training data": "The training data is empty",
    "no validation data": "The validation data is empty",
    "arrays of different length": "differ in length",
    "a label too large": r"The training data can't be used: a label is 10, outside .*\[0, 10\)",
    "a negative label": "a label is -1",
    "a validation label too large": "The validation data can't be used: a label is 10",
    "validation images of another size": "The validation data doesn't fit the model.*9, 9, 1.*8, 8",
    "validation images are text": "The validation data doesn't fit the model.*string",
    "validation data ends early": "72 examples.* only 20",
    "more validation data than announced": "20 examples.* at least 21",
    "a validation row can't be read": r"Example 20 \(counted from 0\) of the validation data can't",
    "two damaged rows": r"Example [12]00 \(counted from 0\) of the training data can.t .*row-.00",
    "all images are NaN": "21 steps in a row were not finite",
}


def data(project: Project, directory: Path, names: tuple[str, ...] = (*DATA,)) -> Iterator[Case]:
    """Data that can't be trained on."""
    short = [*TINY, "--epochs", "5", "--runs", directory / "data"]
    for what in names:
        yield judge(what, project.run(*short, variant=what), REFUSED, DATA[what])


def more_data(project: Project, directory: Path) -> Iterator[Case]:
    """Data that can be trained on, with a warning; and too little of it."""
    short = [*TINY, "--epochs", "1", "--runs", directory / "more-data"]
    ended = project.run(*short, variant="one image is NaN")
    yield judge("one image is NaN", ended, OK, r"step \d+ skipped, not finite")
    ended = project.run(*short, "--global-batch-size", "300")
    yield judge("a batch larger than the data", ended, REFUSED, "more than the 288 training ex")
    ended = project.run(variant="one image is NaN", check=True)
    seen = "NaN or infinity in inputs of 1 train example"
    yield judge("one image is NaN, seen by `check`", ended, 1, seen)  # WRONG


def versions(project: Project, directory: Path) -> Iterator[Case]:
    """A Keras that reports wrong metrics on several replicas."""
    ended = project.run(*TINY, "--runs", directory / "old", variant="Keras 3.9.2")
    yield judge("Keras is older than 3.10", ended, REFUSED, r"keras.*3\.10")


def fall_back(project: Project, directory: Path) -> Iterator[Case]:
    """A train step that can't be compiled with `--jit auto`, as on a machine with a GPU."""
    runs = directory / "gathers" / "runs"
    flags = [*TINY, "--virtual-replicas", "2", "--runs", runs]
    process = project.start(*flags, variant="gathers over replicas")
    wait(process, lambda: max(steps_saved(newest(runs)), default=0) > 8)
    process.send_signal(signal.SIGTERM)
    ended = end(process)
    run = newest(runs)
    assert run is not None
    recorded = unless(
        re.search("^jit: '?off'?$", (run / "config.yaml").read_text(), re.MULTILINE),
        "config.yaml doesn't have jit: off",
    )
    yield judge("`--jit auto` falls back, then SIGTERM", ended, RESUMABLE, "jit: off", recorded)
    ended = project.run("--resume", run, variant="gathers over replicas")
    yield judge("`--jit auto` fell back, the run is resumed", ended, OK, "resuming")
