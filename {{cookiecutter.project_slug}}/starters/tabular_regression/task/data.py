"""The data: train, validation and test examples, and what is done to them in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .config import TaskConfig

# Efron, Hastie, Johnstone & Tibshirani (2004), Least Angle Regression, Annals of Statistics 32(2),
# doi:10.1214/009053604000000067: 442 diabetes patients at the start, and a measure of how far the
# disease had come one year later (25 to 346). Written from scikit-learn 1.9 by
#     d = sklearn.datasets.load_diabetes(scaled=False)
#     data, target = d.data.astype("float32"), d.target.astype("float32")
#     numpy.savez_compressed("diabetes.npz", columns=d.feature_names, data=data, target=target)
DIABETES = Path(__file__).with_name("diabetes.npz")
CATEGORY = "sex"  # 1 or 2; the source doesn't say which is which
MASKED = ("bp", "s1", "s2", "s3", "s6")  # columns made to have missing values; the source has none
MISSING = 0.15  # the share of them that is taken away, drawn with MASK_SEED
MASK_SEED, SPLIT_SEED = 0, 0
FOLDS = 5
VALIDATION = 8  # every eighth of the rows that aren't test data


# TODO(2): your data by split ("validation" and "test" may be missing), each split arrays with one
# row an example, (inputs, labels) or (inputs, labels, weights), or a tf.data.Dataset of single
# examples; loads the diabetes patients and holds back fold --fold.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (inputs, labels), in training (inputs, labels, weights).

    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels
    float32 (n, 1), weights float32 (n,) with a mean of 1.
    """
    columns, data, target = _load()
    category = columns.index(CATEGORY)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))
    place = np.arange(len(data))
    test = order[place % FOLDS == task.fold]
    rest = order[place % FOLDS != task.fold]
    validation = np.arange(len(rest)) % VALIDATION == 0

    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numeric = np.delete(data[rows], category, axis=1)
        sex = data[rows, category].astype(np.int64)
        return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]

    inputs, labels = examples(rest[~validation])
    return {
        "train": (inputs, labels, _balance(inputs["sex"])),
        "validation": examples(rest[validation]),
        "test": examples(test),
    }


def numeric_columns() -> list[str]:
    """The names of the columns of "numeric"."""
    return [column for column in _load()[0] if column != CATEGORY]


# TODO(3): what is done to a training batch, with tf.random.stateless_* and this seed only, so that
# it doesn't depend on the number of replicas; nothing.
def create_augment(task: TaskConfig) -> Any:
    """The augmentation of a global batch as the steps see it, or None for no augmentation."""
    del task


def _load() -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, data float32 (n, columns) with NaN where masked, target float32 (n,)."""
    with np.load(DIABETES) as file:
        columns, data, target = file["columns"].tolist(), file["data"], file["target"]
    random = np.random.default_rng(MASK_SEED)
    for column in MASKED:
        rows = random.choice(len(data), round(MISSING * len(data)), replace=False)
        data[rows, columns.index(column)] = np.nan
    return columns, data, target


def _balance(categories: np.ndarray) -> np.ndarray:
    """Weights float32 (n,) by which each category counts alike, whatever its number of rows."""
    _, index, numbers = np.unique(categories, return_inverse=True, return_counts=True)
    # A mean of 1 lets the loss be divided by the number of examples.
    return (len(categories) / (len(numbers) * numbers[index])).astype(np.float32)
