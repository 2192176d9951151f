"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .config import TaskConfig

# Source: Efron, Hastie, Johnstone & Tibshirani (2004), Least Angle Regression, Annals of Statistics
# 32(2), doi:10.1214/009053604000000067: 442 diabetes patients, and how far the disease had
# progressed one year later (25 to 346). Written with scikit-learn 1.9:
#     d = sklearn.datasets.load_diabetes(scaled=False)
#     data, target = d.data.astype("float32"), d.target.astype("float32")
#     numpy.savez_compressed("diabetes.npz", columns=d.feature_names, data=data, target=target)
DIABETES = Path(__file__).with_name("diabetes.npz")
# The columns of "numeric", in the order that training and `predict` use.
NUMERIC = ("age", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6")
CATEGORY = "sex"  # 1 or 2; the source doesn't say which is which
MASKED = ("bp", "s1", "s2", "s3", "s6")  # the source has no missing values; these columns get some
MISSING = 0.15  # fraction of their values that is removed
MASK_SEED, SPLIT_SEED = 0, 0
FOLDS = 5
VALIDATION = 8  # every eighth row that isn't test data

# scikit-learn's documentation says what the columns are; units other than years are those that fit
# the sizes of the values.
MEANINGS = {
    "age": "age (years)",
    "sex": "sex (1 or 2)",
    "bmi": "body mass index (kg/m²)",
    "bp": "mean blood pressure (mm Hg)",
    "s1": "s1: total cholesterol (mg/dl)",
    "s2": "s2: LDL cholesterol (mg/dl)",
    "s3": "s3: HDL cholesterol (mg/dl)",
    "s4": "s4: total / HDL cholesterol",
    "s5": "s5: log of triglycerides",
    "s6": "s6: blood sugar (mg/dl)",
}


# TODO(2): your data as {"train": ..., "validation": ..., "test": ...}; default: diabetes
# patients, those of --fold for the test.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (inputs, labels), in training (inputs, labels, weights).

    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels
    float32 (n, 1), weights float32 (n,) with a mean of 1.

    A split is arrays with a row per example, (inputs, labels) or (inputs, labels, weights), in
    memory or mapped; an object with __len__ and __getitem__; RandomAccess, see
    engine/random_access.py; or a tf.data.Dataset of single examples. Only "train" is required.
    """
    columns, data, target = _load()
    numbers = [columns.index(name) for name in NUMERIC]
    category = columns.index(CATEGORY)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))
    is_test = np.arange(len(data)) % FOLDS == task.fold
    test, rest = order[is_test], order[~is_test]
    is_validation = np.arange(len(rest)) % VALIDATION == 0

    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numeric = data[rows][:, numbers]
        sex = data[rows, category].astype(np.int64)
        return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]

    inputs, labels = examples(rest[~is_validation])
    return {
        "train": (inputs, labels, _balance(inputs["sex"])),
        "validation": examples(rest[is_validation]),
        "test": examples(test),
    }


# TODO(3): the augmentation of a training batch, or None; default: none.
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (batch, seed) -> batch that tf.data runs on each global batch, or None.

    The batch has the parts of an example, weights last; floats are of keras.config.floatx(). Train
    steps get what is returned, which may have other parts; validation and test data aren't
    augmented. Draw random numbers only with tf.random.stateless_* and the seed, int64 (2,), which
    differs in each step, or with layers of Keras made outside of the function: then the result is
    the same on any number of replicas, and after a resume. For several draws make several seeds:
    tf.random.split(seed, 3).
    """
    return None


def _load() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Column names, data float32 (n, columns) with NaN where masked, target float32 (n,)."""
    with np.load(DIABETES) as file:
        columns, data, target = file["columns"].tolist(), file["data"], file["target"]
    random = np.random.default_rng(MASK_SEED)
    for column in MASKED:
        rows = random.choice(len(data), round(MISSING * len(data)), replace=False)
        data[rows, columns.index(column)] = np.nan
    return columns, data, target


def _balance(categories: np.ndarray) -> np.ndarray:
    """Weights float32 (n,) that make the sum of weights the same for each category."""
    _, index, counts = np.unique(categories, return_inverse=True, return_counts=True)
    # Their mean is 1, so the loss can be divided by the number of examples.
    return (len(categories) / (len(counts) * counts[index])).astype(np.float32)
