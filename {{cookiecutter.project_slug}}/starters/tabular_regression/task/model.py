"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig


# TODO(4): what your model takes from the training data (`adapt`), and the model, or a dict of
# models, built from a keras.Input; default: means, variances and the number of categories, and
# a hidden layer in parallel with a linear one.
def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    inputs, labels, _ = datasets["train"]
    # In float64: float32 sums of many rows lose what is added.
    numeric, labels = inputs["numeric"].astype(np.float64), labels.astype(np.float64)
    return {
        # Of the values that are there: Normalization.adapt() would get NaN.
        "mean": np.nanmean(numeric, axis=0),
        "variance": np.nanvar(numeric, axis=0),
        "categories": inputs["sex"].max() + 1,
        "label_mean": labels.mean(axis=0),
        "label_variance": labels.var(axis=0),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 1).

    Numeric inputs may be NaN. Inputs and predictions are in units of the data, so the exported
    model needs no scaling around it.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    inputs = {
        "numeric": keras.Input(adapted["mean"].shape, dtype="float32", name="numeric"),
        "sex": keras.Input((), dtype="int64", name="sex"),
    }

    # In full precision, since 16 bits can't hold values in units of the data.
    mean, variance = adapted["mean"], adapted["variance"]
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(inputs["numeric"])
    missing = ops.isnan(scaled)
    # A missing value becomes the mean, which is 0 here, and sets an input of its own to 1.
    numeric = ops.where(missing, 0.0, scaled)
    # Not IntegerLookup or StringLookup: neither XLA nor a TPU supports their lookup tables.
    categories = int(adapted["categories"])
    sex = layers.CategoryEncoding(categories, output_mode="one_hot")(inputs["sex"])
    x = layers.Concatenate()([numeric, ops.cast(missing, floatx), sex])  # (batch, features)

    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)
    hidden = layers.Dropout(task.dropout)(hidden)
    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))
