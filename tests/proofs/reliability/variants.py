"""Is copied into a rendered project: train.py, or `check`, on a variant of the default task.

VARIANT=name python variants.py [check] FLAGS
"""

import importlib.metadata
import os
import runpy
import sys

variant = os.environ["VARIANT"]
if variant == "Keras 3.9.2":
    installed = importlib.metadata.version
    importlib.metadata.version = lambda name: "3.9.2" if name == "keras" else installed(name)
    runpy.run_path("train.py", run_name="__main__")
    sys.exit()

import proof.task.config
from proof.engine.command_line import parse
from proof.engine.errors import usage_errors
from proof.engine.tf_log_filter import filtered_tf_import

command = sys.argv.pop(1) if sys.argv[1:2] == ["check"] else "train"
if command == "train":
    from proof.config import Config

    config, task = parse(training=Config, task=proof.task.config.TaskConfig)

with filtered_tf_import():
    import keras
    import numpy as np
    import tensorflow as tf
    from proof.engine import distributed_steps
    from proof.engine.callbacks import at_step, every_steps
    from proof.task import callbacks, data, model, optimizer, steps

sound_datasets, sound_step = data.create_datasets, steps.train_step
sized = tf.data.experimental.assert_cardinality


def read_row(number, example):
    """The twentieth row is no number."""
    zero = tf.strings.to_number(tf.where(number == 20, "x", "0"))
    return example[0] + zero, example[1]


class Rows:
    """Examples by row number, of which some are damaged."""

    def __init__(self, arrays, damaged):
        self.arrays, self.damaged = arrays, damaged

    def __len__(self):
        """As of the arrays."""
        return len(self.arrays[0])

    def __getitem__(self, row):
        """One example."""
        if row in self.damaged:
            raise OSError(5, "Input/output error", f"row-{row}.bin")
        return tuple(array[row] for array in self.arrays)


def changed(task):
    """The data of the variant."""
    splits = sound_datasets(task)
    images, labels = splits["train"]
    stream = tf.data.Dataset.from_tensor_slices(splits["validation"])
    if variant == "fewer examples":
        images, labels = images[:-48], labels[:-48]
    elif variant == "no training data":
        images, labels = images[:0], labels[:0]
    elif variant == "arrays of different length":
        labels = labels[:-1]
    elif variant == "one image is NaN":
        images[7] = np.nan
    elif variant == "all images are NaN":
        images[:] = np.nan
    elif variant == "a label too large":
        labels[7] = 10
    elif variant == "a negative label":
        labels[7] = -1
    elif variant == "a validation label too large":
        splits["validation"][1][7] = 10
    elif variant == "no validation data":
        splits["validation"] = tuple(array[:0] for array in splits["validation"])
    elif variant == "validation images of another size":
        splits["validation"] = np.zeros((72, 9, 9, 1), "float32"), splits["validation"][1]
    elif variant == "validation images are text":
        splits["validation"] = np.full((72, 8, 8, 1), "text"), splits["validation"][1]
    elif variant == "validation data ends early":
        splits["validation"] = stream.take(20).apply(sized(72))
    elif variant == "more validation data than announced":
        splits["validation"] = stream.apply(sized(20))
    elif variant == "two damaged rows":
        splits["train"] = Rows((images, labels), {100, 200})
        return splits
    elif variant == "a validation row can't be read":
        splits["validation"] = stream.enumerate().map(read_row)
    splits["train"] = images, labels
    return splits


class Statistics:
    """A callback with state that depends on every step, and asks for checkpoints of its own."""

    def __init__(self):
        self.losses = []

    def __call__(self, event):
        """Keep the loss."""
        self.losses.append(event.losses["loss"])
        if len(self.losses) % 7 == 0:
            event.save()

    def get_state(self):
        """What goes into a checkpoint."""
        return self.losses

    def set_state(self, state):
        """Continue from a checkpoint."""
        self.losses = state


def freeze(event):
    """Stop training the first convolution."""
    event.run.model.layers[1].trainable = False


def gather(run, batch, replica):
    """A train step that XLA can't compile on several replicas."""
    replica.all_gather(batch[-1])
    return sound_step(run, batch, replica)


data.create_datasets = changed
if variant == "rich":  # state of every kind that the default task does not have
    model.keras.layers.LayerNormalization = keras.layers.BatchNormalization
    callbacks.create_callbacks = lambda task: [every_steps(1, Statistics()), at_step(9, freeze)]
elif variant == "another optimizer":
    optimizer.create_optimizer = lambda task, steps: keras.optimizers.SGD(0.1)
elif variant == "another model":
    model.CLASSES = 11
elif variant == "gathers over replicas":
    steps.TRAIN_STEPS = (gather,)
    # As on a machine with a GPU.
    distributed_steps.resolve_jit = lambda choice, *_: choice != "off"

if command == "check":
    sys.argv.insert(1, "check")
    runpy.run_module("proof", run_name="__main__", alter_sys=True)
else:
    from train import main

    with usage_errors():
        main(config, task)
