"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig


# TODO(4): your model, built from a keras.Input, or a dict of several by name; a hidden layer beside
# a linear one, after preprocessing layers that adapt to the training data.
def create_model(task: TaskConfig, datasets: dict[str, Any]) -> keras.Model:
    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 1).

    Numeric inputs may be NaN. Inputs and predictions are in units of the data, so the exported
    model needs no scaling around it.

    Args:
        task: the flags of the task.
        datasets: what `create_datasets` returns, for input shapes and layers that adapt to data.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    train, labels, _ = datasets["train"]
    inputs = {
        "numeric": keras.Input(train["numeric"].shape[1:], dtype="float32", name="numeric"),
        "sex": keras.Input((), dtype="int64", name="sex"),
    }

    # Mean and variance of the values that are there: adapt() would get NaN. In full precision,
    # since 16 bits can't hold values in units of the data.
    mean, variance = np.nanmean(train["numeric"], axis=0), np.nanvar(train["numeric"], axis=0)
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(inputs["numeric"])
    missing = ops.isnan(scaled)
    # A missing value becomes the mean, which is 0 here, and sets an input of its own to 1.
    numeric = ops.where(missing, 0.0, scaled)
    # Not IntegerLookup or StringLookup: neither XLA nor a TPU supports their lookup tables.
    tokens = int(train["sex"].max()) + 1
    sex = layers.CategoryEncoding(tokens, output_mode="one_hot")(inputs["sex"])
    x = layers.Concatenate()([numeric, ops.cast(missing, floatx), sex])  # (batch, features)

    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)
    hidden = layers.Dropout(task.dropout)(hidden)
    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    unscale = layers.Normalization(invert=True, dtype=floatx, name="prediction")
    unscale.adapt(labels)
    return keras.Model(inputs, unscale(x))
