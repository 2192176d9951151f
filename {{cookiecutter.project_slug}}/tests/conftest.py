"""Two logical CPU devices, for the tests that compare replicas within one process.

A test that comes upon a TODO that is still to be filled in is skipped with that TODO's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any

import pytest

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

TODO = re.compile(r"TODO\(\d+\) is next: .*")

(cpu, *_) = tf.config.list_physical_devices("CPU")
tf.config.set_visible_devices([cpu])
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Turn a failure over a TODO, here or in a process that a test started, into a skip."""
    report = yield
    if report.failed and (todo := TODO.search(str(call.excinfo and call.excinfo.value))):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], f"Skipped: {todo[0]}")
    return report
