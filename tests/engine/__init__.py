"""Tests of the engine on models of a few weights, with options that the default task doesn't use.

Importing this renders a project that can be imported as `proof`, and splits the CPU into four
devices: both must be done before anything else asks for TensorFlow.
"""

import importlib.util
import os
import sys
import tempfile
import warnings
from pathlib import Path

from cookiecutter.main import cookiecutter

ROOT = Path(__file__).parents[2]
HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None

if HAS_TENSORFLOW:
    directory = tempfile.TemporaryDirectory()
    project = cookiecutter(
        str(ROOT),
        no_input=True,
        output_dir=directory.name,
        extra_context={"project_name": "Proof", "package_name": "proof"},
        default_config=True,
    )
    sys.path.insert(0, project)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
    )
