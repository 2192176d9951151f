"""`sweep`: the same runs whenever it is started, each trained once, whatever ends in between."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cookiecutter.main import cookiecutter
from proof.config import Config
from proof.engine.command_line import arguments_of, parse
from proof.engine.errors import RESUMABLE, UsageError
from proof.engine.interrupts import AT_ONCE, ONE_WISH_SECS
from proof.engine.run_files import find_run
from proof.engine.sweep import devices
from proof.engine.sweep_file import MUST, read_sweep
from proof.task.config import TaskConfig

from . import ROOT, project

SECONDS = 120
RECIPES = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
# In place of train.py: --seed says what happens.
FAKE = """
import os, pathlib, signal, sys, time
from filelock import FileLock
words = sys.argv[1:]
flags = dict(word[2:].split("=", 1) for word in words if "=" in word)
if pathlib.Path("before").exists():
    pathlib.Path("came").touch()
    while pathlib.Path("before").exists():
        time.sleep(0.05)
if words[0] == "--resume":
    run = pathlib.Path(words[1])
    print("resuming")
else:
    run = pathlib.Path(flags["runs"], "2026-01-02-030405-" + flags["name"])
    run.mkdir()
    lines = [f"{n.replace('-', '_')}: {v}" for n, v in flags.items()]
    (run / "config.yaml").write_text("\\n".join([*lines, "monitor: validation_loss"]))
seed = int(run.name.rpartition("=")[2])
if seed == 2:
    sys.exit("error: a sentence")
def save(*_):
    time.sleep(4 * (seed == 5))
    (run / "checkpoints/latest").mkdir(parents=True)
    (run / "checkpoints/latest/ckpt-1.index").touch()
    sys.exit(138)
signal.signal(signal.SIGTERM, save)
def note(name):
    (run / f"{name}.new").write_text(str(os.getpid()))
    (run / f"{name}.new").rename(run / name)
if seed in (60, 61) and words[0] != "--resume":
    from proof.engine.interrupts import Interrupts
    if seed == 60 and not os.fork():
        note("forked")
        time.sleep(600)
    with Interrupts() as interrupts:
        note("started")
        while not interrupts.received:
            time.sleep(0.01)
        time.sleep(3)
        save()
with FileLock(run / "lock", timeout=0):
    note("started")
    time.sleep({3: 600, 4: 8, 5: 600}.get(seed, 0) if words[0] != "--resume" else 0)
    (run / "history.csv").write_text(f"epoch,step,validation_loss\\n1,1,{seed}\\n")
    (run / "results.json").write_text('{"best_step": 1}')
    (run / "report.html").touch()
"""
COMMAND = """
import sys
from pathlib import Path
from proof.config import Config
from proof.engine import sweep
from proof.engine.errors import usage_errors
from proof.task.config import TaskConfig
sweep.TRAIN = Path("fake.py").resolve()
with usage_errors():
    file, jobs = Path(sys.argv[1]), int(sys.argv[2])
    sys.exit(sweep.sweep(file, Path("runs"), jobs, training=Config, task=TaskConfig))
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a sweep over values of --seed, with a fake of train.py."""
    started: list[subprocess.Popen[str]] = []

    def start(*seeds: int, fixed: str = "{epochs: 2}", jobs: int = 1) -> subprocess.Popen[str]:
        (tmp_path / "s.yaml").write_text(f"fixed: {fixed}\ngrid: {{seed: {list(seeds)}}}\n")
        (tmp_path / "fake.py").write_text(FAKE)
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "s.yaml", str(jobs)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(project)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell ignores SIGINT in what it starts in the background, and so do the tests in it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], code: int) -> str:
    """What a sweep has printed until it ended."""
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == code, out + err
    return out + err


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def run_of(path: Path, seed: int) -> Path:
    return path / "runs" / "s" / f"2026-01-02-030405-seed={seed}"


@pytest.mark.quick
def test_a_failed_run_is_reported_and_does_not_stop_the_others(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    said = ended(start(2, 7, 1), code=1)
    assert "[1/3] seed=2: failed with exit code 1: error: a sentence" in said
    assert "failed: seed=2, see runs/s/seed=2.log" in said
    # An unfinished one is compared too.
    order = re.findall(r"^\d  2026-01-02-030405-(\S+)", said, re.MULTILINE)
    assert order == ["seed=1", "seed=7", "seed=2"]
    assert (tmp_path / "runs" / "s" / "compare.png").stat().st_size > 1000
    results = run_of(tmp_path, 7) / "results.json"
    before = results.stat().st_mtime_ns
    said = ended(start(7, 1, 8), code=0)
    assert "3 runs in runs/s, 2 finished" in said, "more values extend a sweep"
    assert results.stat().st_mtime_ns == before
    assert "seed=2" not in said
    said = ended(start(7, fixed="{epochs: 3}"), code=2)
    assert "another value of `epochs`" in said


@pytest.mark.quick
def test_a_run_that_was_killed_before_its_last_file_is_resumed(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    ended(start(7), code=0)
    run = run_of(tmp_path, 7)
    (run / "report.html").unlink()
    (run / "checkpoints" / "latest").mkdir(parents=True)
    (run / "checkpoints" / "latest" / "ckpt-1.index").touch()
    said = ended(start(7), code=0)
    assert "1 runs in runs/s, 0 finished" in said
    assert "seed=7: resumed" in said
    assert (run / "report.html").exists()


@pytest.mark.quick
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_runs_save_themselves_and_the_same_command_resumes(
    start: Callable[..., Any], tmp_path: Path, number: int
) -> None:
    process = start(3, 30, 1, jobs=1)
    until((run_of(tmp_path, 3) / "started").exists)
    os.killpg(process.pid, number)  # as a terminal does
    assert "the same command resumes the sweep" in ended(process, code=RESUMABLE)
    assert not run_of(tmp_path, 30).exists()
    said = ended(start(3, 30, 1, jobs=2), code=0)
    assert "[1/3] seed=3: resumed\n" in said
    assert "resuming" in (tmp_path / "runs" / "s" / "seed=3.log").read_text()


@pytest.mark.quick
def test_a_second_signal_leaves_no_run_training(start: Callable[..., Any], tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
    process = start(5, 30, jobs=1)
    signal.signal(signal.SIGHUP, before)
    until((run_of(tmp_path, 5) / "started").exists)
    process.send_signal(signal.SIGTERM)
    time.sleep(2 * ONE_WISH_SECS)
    process.send_signal(signal.SIGHUP)
    said = ended(process, code=AT_ONCE)
    assert "doesn't wait for what still runs (runs/s/seed=5.log); the same" in said
    until((run_of(tmp_path, 5) / "checkpoints/latest/ckpt-1.index").exists)  # it was told to end
    assert not run_of(tmp_path, 30).exists()


@pytest.mark.quick
@pytest.mark.parametrize(("again", "code"), [(False, RESUMABLE), (True, AT_ONCE)])
def test_a_run_saves_itself_however_often_it_is_told_to(
    start: Callable[..., Any], tmp_path: Path, again: bool, code: int
) -> None:
    process, run = start(61), run_of(tmp_path, 61)
    until((run / "started").exists)
    os.kill(int((run / "started").read_text()), signal.SIGTERM)  # as Slurm sends it to all
    for _ in range(1 + again):
        time.sleep(2 * ONE_WISH_SECS)
        process.send_signal(signal.SIGTERM)
    ended(process, code)
    until((run / "checkpoints/latest/ckpt-1.index").exists)


@pytest.mark.quick
def test_what_a_killed_run_has_forked_does_not_pass_for_it(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    process, run = start(60), run_of(tmp_path, 60)
    until(lambda: (run / "started").exists() and (run / "forked").exists())
    forked = int((run / "forked").read_text())
    try:
        os.kill(int((run / "started").read_text()), signal.SIGKILL)
        assert "failed with exit code -9" in ended(process, code=1)
        (run / "checkpoints" / "latest").mkdir(parents=True)
        (run / "checkpoints" / "latest" / "ckpt-1.index").touch()
        assert "seed=60: resumed\n[1/1] seed=60: finished" in ended(start(60), code=0)
    finally:
        os.kill(forked, signal.SIGKILL)


@pytest.mark.quick
def test_a_signal_says_which_runs_of_an_earlier_sweep_go_on(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    process = start(3)
    started = run_of(tmp_path, 3) / "started"
    until(started.exists)
    process.kill()
    again = start(3)
    assert "1 runs" in again.stdout.readline()
    assert "is still being trained" in again.stdout.readline()
    again.send_signal(signal.SIGTERM)
    said = ended(again, code=RESUMABLE)
    os.kill(int(started.read_text()), signal.SIGTERM)
    assert "seed=3: goes on, trained by a process of an earlier sweep\ninterrupted; " in said


@pytest.mark.quick
def test_a_run_that_has_no_directory_yet_is_not_started_twice(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "before").touch()
    process = start(1)
    until((tmp_path / "came").exists)
    process.kill()
    process.wait()
    again = start(1)
    assert "1 runs" in again.stdout.readline()
    assert "is still being trained by a process of an earlier sweep" in again.stdout.readline()
    (tmp_path / "before").unlink()
    assert "seed=1: finished, validation_loss 1" in ended(again, code=0)
    assert [path.name for path in (tmp_path / "runs" / "s").glob("2026*")] == [
        run_of(tmp_path, 1).name
    ]


@pytest.mark.quick
def test_a_run_that_a_killed_sweep_left_is_waited_for(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    process = start(4, 1)
    until((run_of(tmp_path, 4) / "started").exists)
    assert "another sweep" in ended(start(4, 1), code=2), "two of the same"
    process.kill()
    said = ended(start(4, 1), code=0)
    assert "seed=4: is still being trained by a process of an earlier sweep" in said
    assert "seed=4: finished, validation_loss 4" in said
    assert len(list((tmp_path / "runs" / "s").glob("*/results.json"))) == 2


@pytest.mark.quick
def test_a_run_that_is_waited_for_and_killed_is_resumed(
    start: Callable[..., Any], tmp_path: Path
) -> None:
    process = start(3)
    started = run_of(tmp_path, 3) / "started"
    until(started.exists)
    process.kill()
    again = start(3)
    assert "1 runs" in again.stdout.readline()
    assert "is still being trained" in again.stdout.readline()
    os.kill(int(started.read_text()), signal.SIGTERM)
    assert "seed=3: resumed\n[1/1] seed=3: finished" in ended(again, code=0)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("fixed", "sentence"),
    [
        ("{epochz: 3}", "`epochz`; perhaps you meant `epochs`"),
        ("{nothing_like_it: 3}", "--nothing-like-it=3"),
        ("{epochs: many}", "--epochs is many"),
        ("{epochs: 0}", "--epochs is 0"),
        ("{seed: 3}", "`seed` twice"),
        ("{clip-norm: 1, clip_norm: 2}", "`clip_norm` twice"),
        ("{name: x}", "`name`, which the sweep sets itself"),
    ],
)
def test_a_bad_flag_is_refused_before_any_run_starts(
    start: Callable[..., Any], tmp_path: Path, fixed: str, sentence: str
) -> None:
    said = ended(start(1, fixed=fixed), code=2)
    assert sentence in re.sub(r"\s+", " ", said)
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("- 1", ""),
        ("fixed: {a: 1}", ""),
        ("grit: {a: [1]}", ""),
        ("grid: {a: 1}", "grid"),
        ("grid: {a: []}", "grid"),
        ("grid: {a: [{}]}", "grid"),
        ("fixed: [1]\ngrid: {a: [1]}", "fixed"),
        ("random: {a: [1]}", "samples"),
        ("random: {a: [1]}\nsamples: 0", "samples"),
        ("random: {a: [1]}\nsamples: many", "samples"),
        ("grid: {a: [1]}\nsamples: 3", "samples"),
        ("grid: {a: [1]}\nsample_seed: 3", "sample_seed"),
        ("random: {a: 1}\nsamples: 1", "random"),
        ("random: {a: {uniform: [1]}}\nsamples: 1", "random"),
        ("random: {a: {uniform: [2, 1]}}\nsamples: 1", "random"),
        ("random: {a: {uniform: [0, .inf]}}\nsamples: 1", "random"),
        ("random: {a: {normal: [0, 1]}}\nsamples: 1", "random"),
        ("random: {a: {log_uniform: [0, 1]}}\nsamples: 1", "random"),
        ("random: {a: {uniform: [0, 1], log_uniform: [0, 1]}}\nsamples: 1", "random"),
    ],
)
def test_a_file_that_says_something_else_gets_one_sentence(
    tmp_path: Path, text: str, key: str
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        read_sweep(file)
    assert str(error.value) == f"{file}: {MUST[key]}."


@pytest.mark.quick
def test_files_that_cannot_be_read_get_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "open.yaml").write_text("grid: [")
    for name, sentence in (("bytes", "not a YAML"), ("open", "not a YAML"), ("none", "No such")):
        with pytest.raises(UsageError, match=sentence):
            read_sweep(tmp_path / f"{name}.yaml")
    (tmp_path / "s.yaml").write_text(f"grid: {{a: {list(range(200))}, b: {list(range(200))}}}")
    with pytest.raises(UsageError, match="more than 10000 runs"):
        read_sweep(tmp_path / "s.yaml")


@dataclass(frozen=True)
class Encoder:
    """Flags within those of the task."""

    width: int = 16


@dataclass(frozen=True)
class Nested:
    """A task."""

    encoder: Encoder = Encoder()
    weights: str = ""


@pytest.mark.quick
def test_whole_numbers_are_sampled_in_nested_flags_too(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("random: {width: {uniform: [16, 64]}}\nsamples: 9")
    runs = read_sweep(tmp_path / "s.yaml", (Nested,)).runs.values()
    assert all(run["width"].isdigit() for run in runs)


@pytest.mark.quick
@pytest.mark.parametrize(
    "text", ["grid: {weights: [null, a]}", "fixed: {weights: }\ngrid: {a: [1]}"]
)
def test_a_null_for_a_text_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(UsageError, match="weights is null, and must be a text; write '' for an em"):
        read_sweep(tmp_path / "s.yaml", (Nested,))


@pytest.mark.quick
def test_on_and_off_need_no_quotes(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("grid: {jit: [on, off], deterministic: [yes, false]}")
    parsed = [
        parse(arguments_of(flags), training=Config)[0]
        for flags in read_sweep(tmp_path / "s.yaml").runs.values()
    ]
    values = [(config.jit, config.deterministic) for config in parsed]
    assert values == [("on", True), ("on", False), ("off", True), ("off", False)]


@pytest.mark.quick
def test_values_stay_as_they_are_written_and_names_are_directories(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "fixed: {learning-rate: 1e-3}\ngrid: {a: [010, .5, yes, x/y], b: [[1, 2]]}"
    )
    planned = read_sweep(tmp_path / "s.yaml")
    assert planned.fixed == {"learning_rate": "1e-3"}
    values = [flags["a"] for flags in planned.runs.values()]
    assert values == ["010", ".5", "yes", "x/y"]
    assert all(flags["b"] == ["1", "2"] for flags in planned.runs.values())
    assert all(re.fullmatch(r"[\w.,=+-]{1,100}", name) for name in planned.runs)
    assert len(planned.runs) == 4


@pytest.mark.quick
def test_samples_are_the_same_whenever_they_are_drawn(tmp_path: Path) -> None:
    def runs(samples: int, more: str = "", seed: int = 0) -> list[dict[str, Any]]:
        text = f"samples: {samples}\nsample_seed: {seed}\nrandom:\n  seed: {{uniform: [1, 9]}}\n"
        text += f"  dropout: {{log_uniform: [1e-4, 0.5]}}\n  strategy: [none, auto]\n{more}"
        (tmp_path / "s.yaml").write_text(text)
        return list(read_sweep(tmp_path / "s.yaml", (Config, TaskConfig)).runs.values())

    few, many = runs(5), runs(200)
    assert many[:5] == few
    assert runs(5, seed=1) != few
    for name in few[0]:
        assert [run[name] for run in runs(5, "  l2: {uniform: [0, 1]}\n")] == [
            run[name] for run in few]  # fmt: skip
    assert {run["seed"] for run in many} == set("123456789")
    assert {run["strategy"] for run in many} == {"none", "auto"}
    logs = [math.log10(float(run["dropout"])) for run in many]
    assert -4 <= min(logs) < -3.8
    assert -0.5 < max(logs) <= math.log10(0.5)
    assert sum(log < (-4 + math.log10(0.5)) / 2 for log in logs) == pytest.approx(100, abs=25)
    both = runs(3, "grid: {epochs: [1, 2]}")
    assert [run["epochs"] for run in both] == ["1", "2"] * 3
    assert both[0]["dropout"] == both[1]["dropout"] == few[0]["dropout"]


@pytest.mark.quick
def test_a_clock_that_was_set_back_hides_no_run(tmp_path: Path) -> None:
    begun, killed = (tmp_path / f"2026-10-25-{time}-a" for time in ("021000", "025500"))
    for run in (begun, killed):
        (run / "checkpoints" / "latest").mkdir(parents=True)
    assert find_run(tmp_path, "a") == killed
    (begun / "checkpoints" / "latest" / "ckpt-1.index").touch()
    assert find_run(tmp_path, "a") == begun
    for name in ("results.json", "report.html"):
        (killed / name).touch()
    assert find_run(tmp_path, "a") == killed


@pytest.mark.quick
def test_each_job_gets_its_part_of_the_devices_that_are_listed() -> None:
    listed = {"CUDA_VISIBLE_DEVICES": "0,1,2"}
    found = [devices(listed, slot, 2).get("CUDA_VISIBLE_DEVICES") for slot in range(2)]
    assert found == ["0,2", "1"]
    assert devices(listed, 0, 1) == devices(listed, 0, 4) == devices({}, 0, 2) == {}


@pytest.mark.quick
def test_the_files_in_the_recipes_are_sweeps(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", RECIPES, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        (tmp_path / "s.yaml").write_text(block)
        assert len(read_sweep(tmp_path / "s.yaml").runs) > 1


def test_folds_are_trained_by_a_sweep_that_is_stopped_and_resumed(tmp_path: Path) -> None:
    answers = {"starter": "tabular_regression", "package_name": "table", "project_name": "Table"}
    table = Path(
        cookiecutter(
            str(ROOT), None, True, extra_context=answers, output_dir=tmp_path, default_config=True
        )
    )
    (block,) = [b for b in re.findall(r"```yaml\n(.*?)```", RECIPES, re.DOTALL) if "fold" in b]
    file = table / "folds.yaml"
    file.write_text(block.replace("[0, 1, 2, 3, 4]", "[0, 1]").replace("40", "150"))
    assert file.read_text().count("150") == 1
    command = [sys.executable, "-m", "table", "sweep", str(file)]
    with contextlib.closing(Started(command, table)) as first:
        until(lambda: list(table.glob("runs/folds/*fold=0/checkpoints/latest/ckpt-*.index")))
        first.process.send_signal(signal.SIGTERM)
        first.process.wait(SECONDS)
        assert first.process.returncode == RESUMABLE
    assert not list(table.glob("runs/folds/*/results.json"))
    done = subprocess.run(command, cwd=table, check=True, capture_output=True, text=True)
    assert "fold=0: resumed" in done.stdout
    assert "fold=1: started" in done.stdout
    assert "2 runs, the best validation_loss first" in done.stdout
    results = [json.loads(f.read_text()) for f in table.glob("runs/folds/*/results.json")]
    assert [result["epochs"] for result in results] == [150, 150]
    assert results[0]["test_loss"] != results[1]["test_loss"]


class Started:
    """A process that is killed when it is closed."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self.process = subprocess.Popen(command, cwd=cwd)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
