"""Flags: bad ones get one sentence and exit code 2, before TensorFlow is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.command_line import parse, to_yaml
from {{ cookiecutter.package_name }}.task.config import TaskConfig

ROOT = Path(__file__).parents[1]


def parsed(*arguments: str) -> tuple[Config, TaskConfig]:
    config, task = parse(arguments, training=Config, task=TaskConfig)
    return config, task


def sentence(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a bad command line says."""
    with pytest.raises(SystemExit) as end:
        parsed(*arguments)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--epochz", "3"], "--epochz"),
        (["--epochs", "many"], "many"),
        (["--epochs", "0"], "--epochs is 0"),
        (["--strategy", "horovod"], "horovod"),
        (["--global-batch-size", "96", "--batch-size-per-replica", "12"], "not both"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--resume", "nowhere"], "not a run directory"),
        (["--config"], "--config needs a value"),
    ],
)
def test_bad_flags_get_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], names: str
) -> None:
    assert names in sentence(capsys, *arguments)


def test_flags_win_over_a_file_which_wins_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("epochs: 7\nseed: 3\n")
    config, _ = parsed("--config", str(file), "--seed", "5")
    assert (config.epochs, config.seed, config.strategy) == (7, 5, "auto")


def test_an_unknown_name_in_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("epoch: 7\n")
    assert "--epoch" in sentence(capsys, "--config", str(file))


def test_a_printed_configuration_can_be_read_back(tmp_path: Path) -> None:
    first = parsed("--epochs", "3", "--deterministic", "--global-batch-size", "48")
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(*first))
    assert parsed("--config", str(file)) == first


def test_help_and_errors_come_before_tensorflow() -> None:
    code = (
        "import runpy, sys\n"
        "try:\n    runpy.run_path('train.py', run_name='__main__')\n"
        "except SystemExit:\n"
        "    assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    for arguments in (["--help"], ["--epochs", "0"], ["--print-config"]):
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
