"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig


# TODO(4): your model, built with a keras.Input, or several by name; one hidden layer beside a
# linear one, over preprocessing that adapts to the training data.
def create_model(task: TaskConfig, datasets: dict[str, Any]) -> keras.Model:
    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 1).

    Numeric inputs may be NaN. Inputs and predictions have the units of the data, so that whoever
    uses the model needn't know how it was trained.

    Args:
        task: the knobs.
        datasets: what create_datasets returned, for shapes and for layers that adapt to data.
    """
    layers, ops, full = keras.layers, keras.ops, keras.config.floatx()
    train, labels, _ = datasets["train"]
    columns = train["numeric"].shape[1:]
    inputs = {
        "numeric": keras.Input(columns, dtype="float32", name="numeric"),
        "sex": keras.Input((), dtype="int64", name="sex"),
    }

    # adapt() would find a mean of NaN; these are over the values that are there. Units of the data
    # and 16 bits of precision don't go together: float32 until the values are scaled.
    mean, variance = np.nanmean(train["numeric"], axis=0), np.nanvar(train["numeric"], axis=0)
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=full)(inputs["numeric"])
    missing = ops.isnan(scaled)
    # A missing value becomes the mean, which is zero here, and says that it is missing.
    numeric = ops.where(missing, 0.0, scaled)
    # Not IntegerLookup or StringLookup: neither XLA nor a TPU can have their tables in a step.
    tokens = int(train["sex"].max()) + 1
    sex = layers.CategoryEncoding(tokens, output_mode="one_hot")(inputs["sex"])
    x = layers.Concatenate()([numeric, ops.cast(missing, full), sex])

    hidden = layers.Dense(task.width, activation="relu")(x)
    hidden = layers.Dropout(task.dropout)(hidden)
    x = layers.Dense(1, dtype=full)(layers.Concatenate()([x, hidden]))
    unscale = layers.Normalization(invert=True, dtype=full, name="prediction")
    unscale.adapt(labels)
    return keras.Model(inputs, unscale(x))
