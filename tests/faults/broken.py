"""Goes into a rendered project: train.py, or `check`, on a task that the variable FAULT changes.

python broken.py [check] FLAGS
"""

import os
import runpy
import sys

import proof.task.config
from proof.engine.command_line import parse
from proof.engine.errors import usage_errors
from proof.engine.quiet import quiet_import

command = sys.argv.pop(1) if sys.argv[1:2] == ["check"] else "train"
if command == "train":
    from proof.config import Config

    config, task = parse(training=Config, task=proof.task.config.TaskConfig)

with quiet_import():
    import keras
    import numpy as np
    import tensorflow as tf
    from proof.engine.callbacks import at_step, every_steps
    from proof.task import callbacks, data, model, optimizer

fault = os.environ.get("FAULT", "")
sound_datasets, sound_model = data.create_datasets, model.create_model
sized = tf.data.experimental.assert_cardinality


def changed(task):
    """The data with the fault in it."""
    splits = sound_datasets(task)
    images, labels = splits["train"]
    stream = tf.data.Dataset.from_tensor_slices(splits["validation"])
    if fault == "fewer examples":
        images, labels = images[:-48], labels[:-48]
    elif fault == "no training data":
        images, labels = images[:0], labels[:0]
    elif fault == "arrays of different length":
        labels = labels[:-1]
    elif fault == "one image is NaN":
        images[7] = np.nan
    elif fault == "all images are NaN":
        images[:] = np.nan
    elif fault == "a label too large":
        labels[7] = 10
    elif fault == "a negative label":
        labels[7] = -1
    elif fault == "a validation label too large":
        splits["validation"][1][7] = 10
    elif fault == "no validation data":
        splits["validation"] = tuple(array[:0] for array in splits["validation"])
    elif fault == "validation images of another size":
        splits["validation"] = np.zeros((48, 9, 9, 1), "float32"), splits["validation"][1]
    elif fault == "validation images are text":
        splits["validation"] = np.full((48, 8, 8, 1), "text"), splits["validation"][1]
    elif fault == "validation data ends early":
        splits["validation"] = stream.take(20).apply(sized(48))
    elif fault == "more validation data than said":
        splits["validation"] = stream.apply(sized(20))
    splits["train"] = images, labels
    return splits


class Statistics:
    """A callback with state that steers the run: it lowers dropout when the loss has fallen."""

    def __init__(self):
        self.losses = []

    def __call__(self, event):
        self.losses.append(event.losses["loss"])
        if len(self.losses) % 7 == 0:
            event.save()

    def get_state(self):
        """Whatever JSON can hold."""
        return self.losses

    def set_state(self, state):
        """Take up where the checkpoint was written."""
        self.losses = state


def freeze(event):
    """Stop training the first convolution."""
    event.run.model.layers[1].trainable = False


data.create_datasets = changed
if fault == "rich":  # all that a run can carry along beside the default task
    model.keras.layers.LayerNormalization = keras.layers.BatchNormalization
    callbacks.create_callbacks = lambda task: [every_steps(1, Statistics()), at_step(9, freeze)]
elif fault == "another optimizer":
    optimizer.create_optimizer = lambda task, steps: keras.optimizers.SGD(0.1)
elif fault == "another model":
    model.CLASSES = 11

if command == "check":
    sys.argv.insert(1, "check")
    runpy.run_module("proof", run_name="__main__", alter_sys=True)
else:
    from train import main

    with usage_errors():
        main(config, task)
