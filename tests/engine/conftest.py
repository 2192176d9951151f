"""A rendered project that can be imported as `proof`, on a CPU split into four devices."""

import importlib.util
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from cookiecutter.main import cookiecutter

ROOT = Path(__file__).parents[2]
collect_ignore_glob: list[str] = []

if importlib.util.find_spec("tensorflow") is None:
    collect_ignore_glob = ["test_*.py"]
elif importlib.util.find_spec("proof") is None:
    # Before the tests are collected, because they import it like any other package.
    directory = tempfile.TemporaryDirectory()
    project = cookiecutter(
        str(ROOT),
        no_input=True,
        output_dir=directory.name,
        extra_context={"project_name": "Proof", "package_name": "proof"},
        default_config=True,
    )
    sys.path.insert(0, project)  # not in one expression: cookiecutter swaps the list
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this needs TensorFlow; what isn't marked `quick` waits for the long session."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("environment")
            if not item.get_closest_marker("quick"):
                item.add_marker("full")


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    """Rounding can't hide a fault in float64."""
    import keras

    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
