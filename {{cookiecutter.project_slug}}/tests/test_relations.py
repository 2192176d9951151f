"""Your task passes `python -m {{ cookiecutter.package_name }} check`, relation by relation."""

from __future__ import annotations

import pytest
import tensorflow as tf

from {{ cookiecutter.package_name }}.config import Config
from {{ cookiecutter.package_name }}.engine.check import Laboratory, check
from {{ cookiecutter.package_name }}.engine.relations import select
from {{ cookiecutter.package_name }}.run import create_run
from {{ cookiecutter.package_name }}.task.callbacks import create_callbacks
from {{ cookiecutter.package_name }}.task.config import TaskConfig
from {{ cookiecutter.package_name }}.task.data import create_datasets
from {{ cookiecutter.package_name }}.task.model import adapt
from {{ cookiecutter.package_name }}.task.predictions import READERS, describe

from .scenarios import FLAGS


@pytest.fixture(scope="module")
def laboratory() -> Laboratory:
    """Your task with its own settings, on one replica and on two."""
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    return Laboratory(
        create_run,
        (tf.distribute.get_strategy(), two),
        create_datasets,
        create_callbacks,
        Config(**FLAGS),
        TaskConfig(),
        READERS,
        describe,
        adapt,
    )


@pytest.mark.parametrize("name", select())
def test_relation_holds(laboratory: Laboratory, name: str) -> None:
    for claim, finding in check(laboratory, [name]):
        assert finding.verdict != "WRONG", f"{claim}: {finding}"
