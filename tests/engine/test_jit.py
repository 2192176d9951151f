"""config.yaml records --jit as it ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf
import train
import yaml
from proof import run as factories
from proof.config import Config
from proof.engine import distributed_steps
from proof.engine.distributed_steps import resolve_jit
from proof.engine.types import Replica, Run
from proof.task.config import TaskConfig
from proof.task.steps import TRAIN_STEPS

pytestmark = pytest.mark.quick


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


def test_auto_does_not_compile_what_keras_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as an LSTM on a GPU: XLA can't compile the operations of cuDNN."""
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: [kind])
    model = keras.Sequential([keras.Input((4, 2)), layer := keras.layers.LSTM(3)])
    for supported in (True, False):
        layer.supports_jit = supported  # as Keras sets it where there is a GPU
        assert resolve_jit("auto", False, [model]) == supported
        assert resolve_jit("on", False, [model])
    assert not resolve_jit("off", False, [])
