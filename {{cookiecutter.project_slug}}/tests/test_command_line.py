"""Your flags: train.py knows them all, and refuses others before TensorFlow is imported."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from {{ cookiecutter.package_name }}.__main__ import Command
from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.command_line import parse, read, to_yaml
from {{ cookiecutter.package_name }}.task.config import TaskConfig

ROOT = Path(__file__).parents[1]


def test_help_shows_every_flag_of_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], training=Config, task=TaskConfig)
    text = capsys.readouterr().out
    for field in dataclasses.fields(TaskConfig):
        assert f"--{field.name.replace('_', '-')}" in text


def test_a_printed_configuration_can_be_read_back(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(Config(), TaskConfig()))
    found = parse(["--config", str(file)], training=Config, task=TaskConfig)
    assert found == (Config(), TaskConfig())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["evalute", "RUN"], "evalute is no command; there is: .*; perhaps you meant evaluate"),
        (["chek", "--epochs", "3"], "chek is no command; there is: .*; perhaps you meant check"),
        (["frobnicate"], r"frobnicate is no command; there is: [\w, ]+\."),
        (["evaluate", "RUN", "--split", "tset"], "--split is tset; it .*perhaps you meant test"),
    ],
)
def test_the_nearest_command_and_choice_are_named(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        read(Command, arguments)
    assert end.value.code == 2
    assert re.match(f"error: {sentence}", capsys.readouterr().err)


@pytest.mark.parametrize("argument", ["--help", "--print-config", "--no-such-flag"])
def test_the_command_line_is_read_before_tensorflow_is_imported(argument: str) -> None:
    code = (
        "import runpy, sys\n"
        "try:\n    runpy.run_path('train.py', run_name='__main__')\n"
        "except SystemExit:\n"
        "    assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    command = [sys.executable, "-c", code, argument]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
