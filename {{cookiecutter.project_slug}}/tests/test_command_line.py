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
        (["evaluate"], r"PATH is missing: the run directory\. |.* required: PATH\. "),  # tyro 0.9
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


@pytest.mark.parametrize(("word", "on"), [("on", True), ("no", False)])
def test_a_switch_of_a_command_may_have_a_word_as_in_a_file(word: str, on: bool) -> None:
    assert read(Command, ["check", f"--deterministic={word}"]).training.deterministic is on


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("train.py --help", 0),
        ("train.py --print-config", 0),
        ("train.py --no-such-flag", 2),
        ("train.py --strategy none --virtual-replicas 2", 2),
        ("train.py --runs z\udcff", 2),
        ("-m {{ cookiecutter.package_name }} evaluate auto", 2),
        ("-m {{ cookiecutter.package_name }} compare no-such-run", 2),
        ("-m {{ cookiecutter.package_name }} report no-such-run", 2),
        ("-m {{ cookiecutter.package_name }} sweep no-such-file", 2),
    ],
)
def test_the_command_line_is_read_before_tensorflow_is_imported(command: str, status: int) -> None:
    words = [sys.executable, "-X", "importtime", *command.split()]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not {"tensorflow", "keras"} & imported
