"""Two logical CPU devices, for the tests that compare replicas within one process."""

from __future__ import annotations

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf

(cpu, *_) = tf.config.list_physical_devices("CPU")
tf.config.set_visible_devices([cpu])
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
