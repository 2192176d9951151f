"""A whole run by its commands: what it prints and leaves behind."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from .scenarios import FLAGS

ROOT = Path(__file__).parents[1]


def python(*arguments: str | Path, status: int = 0) -> str:
    """What a command of the project prints."""
    command = [sys.executable, *map(str, arguments)]
    # A GPU may round float32 to 10 bits, and virtual replicas are on the CPU.
    env = os.environ | {"CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def column(file: Path, name: str) -> list[str]:
    with file.open(newline="") as lines:
        return [row[name] for row in csv.DictReader(lines)]


@pytest.fixture(scope="module")
def quiet_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run directory of some steps on two replicas, and what they print with --quiet."""
    runs = tmp_path_factory.mktemp("runs")
    when = {"steps": 12, "validate_every_steps": 8, "validation_steps": 1, "log_every_steps": 3}
    flags = FLAGS | when | {"virtual_replicas": 2, "runs": runs, "name": "short"}
    given = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    printed = python("train.py", *given, "--quiet")
    (directory,) = runs.glob("*-short")
    return directory, printed


@pytest.fixture(scope="module")
def run(quiet_run: tuple[Path, str]) -> Path:
    """Its run directory."""
    return quiet_run[0]


def test_a_quiet_run_prints_its_end_only(quiet_run: tuple[Path, str]) -> None:
    run, printed = quiet_run
    assert "strategy  " not in printed
    assert " 8/12 " not in printed
    assert f"evaluate {run}\n" in printed


def test_a_run_leaves_everything_behind(run: Path) -> None:
    for name in ("model.txt", "curves.png", "report.html"):
        assert (run / name).stat().st_size > 100
    assert column(run / "history.csv", "step") == ["8", "12"]
    assert column(run / "steps.csv", "step") == ["3", "6", "8", "9", "12"]
    results = json.loads((run / "results.json").read_text())
    assert (results["strategy"], results["replicas"], results["steps"]) == ("mirrored", 2, 12)
    assert {"epochs", "seconds"} <= set(results)
    assert any(name.startswith("train_") and name.endswith("loss") for name in results)
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert (config["virtual_replicas"], config["steps"]) == (2, 12)


def test_tensorboard_shows_curves_pictures_and_flags(run: Path) -> None:
    def shown(part: str, plugin: str) -> set[str]:
        events = EventAccumulator(str(run / "log" / part)).Reload()
        return set(events.PluginTagToContent(plugin))

    train = shown("train", "scalars")
    validation = shown("validation", "scalars") if (run / "log" / "validation").exists() else set()
    alone = train - validation
    assert "gradient_norm" in alone
    assert any(name.startswith("learning_rate") for name in alone)  # there may be several
    assert len(train & validation) > 0 or not validation
    assert not {"epoch", "step"} & train
    assert shown("", "images") == {file.stem for file in run.glob("*.png")}
    assert shown("", "text") == {"config"}
    assert len(shown("", "hparams")) == 2  # begin and end


def test_weights_of_two_replicas_evaluate_the_same_without_a_strategy(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    if not any(name.startswith("test_") for name in results):
        pytest.skip("there is no test data")
    printed = python("-m", "{{ cookiecutter.package_name }}", "evaluate", run)
    for name, value in json.loads(printed).items():
        assert value == pytest.approx(results[name], rel=1e-5, abs=1e-6)


def test_weights_are_exported_and_the_lines_that_load_them_work(run: Path) -> None:
    printed = python("-m", "{{ cookiecutter.package_name }}", "export", run)
    assert "reloaded" in printed
    file = next((run / "export").glob("*.keras"))
    blocks = re.findall(r"(?:^    .*\n)+", printed, re.MULTILINE)
    own = [block for block in blocks if re.search(rf"/{re.escape(file.stem)}(\.keras)?'", block)]
    in_keras, in_tensorflow = map(textwrap.dedent, own)
    imports = "\n".join(re.findall(r"^import .*", in_keras, re.MULTILINE))  # of layers of your own
    code = f"""
import contextlib
import tensorflow as tf
{imports}
loaded = keras.models.load_model({str(file)!r})
specs = loaded.input
if isinstance(specs, list) and len(specs) == 1:  # Keras 3.10 loads a single input like this
    [specs] = specs
def zeros(size, tensor):
    return tf.zeros([2, *(n or size for n in tensor.shape[1:])], tensor.dtype)
for size in (2, 64, 256):  # as `export` does: 2 pixels may be too few
    inputs = tf.nest.map_structure(lambda t: zeros(size, t), specs)
    with contextlib.suppress(Exception):
        loaded(inputs)
        break
{in_keras}
shapes = tf.nest.map_structure(lambda t: t.shape, outputs)
{in_tensorflow}
assert tf.nest.flatten(shapes) == [t.shape for t in tf.nest.flatten(outputs)]
"""
    python("-c", code)


def test_todos_are_listed_with_file_and_line() -> None:
    listed = python("-m", "{{ cookiecutter.package_name }}", "todo").splitlines()
    assert listed[-1].endswith("TODOs left")
    for line in listed[:-1]:
        file, _, number = line.split()[1].partition(":")
        assert "TODO(" in (ROOT / file).read_text().splitlines()[int(number) - 1]
