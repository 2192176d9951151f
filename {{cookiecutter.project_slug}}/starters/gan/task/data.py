"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import TaskConfig

# Source: Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
# Repository, doi:10.24432/C50P49, CC BY 4.0; the 1,797 images of its test part, split once into
# train, validation and test with the same proportion of each digit.
DIGITS = Path(__file__).with_name("digits.npz")


# TODO(2): your data as {"train": ..., "validation": ..., "test": ...}; default: images of digits.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, 8, 8, 1) in [0, 1]; in evaluation with latents float32 (n, latent).

    Evaluation uses the same latents in every epoch and run, so that its results depend on the
    weights only. In training `create_augment` draws new ones for each step.

    A split is arrays with a row per example, inputs, (inputs, labels) or (inputs, labels, weights),
    in memory or mapped; an object with __len__ and __getitem__; RandomAccess, see
    engine/random_access.py; or a tf.data.Dataset of single examples. Only "train" is required.
    """
    train, validation, test = (load_digits(s)[0] for s in ("train", "validation", "test"))
    random = np.random.default_rng(0)
    return {
        "train": np.tile(train, (task.passes, 1, 1, 1)),
        "validation": (validation, _latents(random, len(validation), task)),
        "test": (test, _latents(random, len(test), task)),
    }


# TODO(3): the augmentation of a training batch, or None; default: draws a latent for each
# image.
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (batch, seed) -> batch that tf.data runs on each global batch, or None.

    Train steps get what is returned, here with noise as one more part, weights last; validation and
    test data aren't augmented. Floats are of keras.config.floatx(). Draw random numbers only with
    tf.random.stateless_* and the seed, int64 (2,), which differs in each step: then the result is
    the same on any number of replicas, and after a resume. For several draws make several seeds:
    tf.random.split(seed, 3).
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, weights = batch
        shape = (images.shape[0], task.latent)
        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights

    return augment


def load_digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images float32 (n, 8, 8, 1) in [0, 1] and labels int64 (n,)."""
    with np.load(DIGITS) as file:
        images, labels = file[f"{split}_images"], file[f"{split}_labels"]
    return (images / 16).astype("float32")[..., np.newaxis], labels.astype("int64")


def _latents(random: np.random.Generator, rows: int, task: TaskConfig) -> np.ndarray:
    return random.standard_normal((rows, task.latent), "float32")
