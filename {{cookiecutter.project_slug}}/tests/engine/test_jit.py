"""config.yaml records --jit as it ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import yaml

import train
from {{ cookiecutter.package_name }} import run as factories
from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine import distributed_steps
from {{ cookiecutter.package_name }}.engine.types import Replica, Run
from {{ cookiecutter.package_name }}.task.config import TaskConfig
from {{ cookiecutter.package_name }}.task.steps import TRAIN_STEPS


def test_config_yaml_has_jit_off_after_a_step_that_xla_cannot_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gather_first(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        replica.all_gather(batch[-1])
        return step(run, batch, replica)

    step = TRAIN_STEPS[0]
    monkeypatch.setattr(factories, "TRAIN_STEPS", (gather_first, *TRAIN_STEPS[1:]))
    # As on a machine with an accelerator.
    monkeypatch.setattr(distributed_steps, "resolve_jit", lambda *_: True)
    train.main(Config(steps=1, strategy="mirrored", runs=str(tmp_path)), TaskConfig())
    (file,) = tmp_path.glob("*/config.yaml")
    assert yaml.safe_load(file.read_text())["jit"] == "off"
