"""The data: train, validation and test examples, and what is done to them in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import TaskConfig

# Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
# Repository, doi:10.24432/C50P49, CC BY 4.0; the 1,797 images of its test part, split once into
# train / validation / test with the same share of each digit.
DIGITS = Path(__file__).with_name("digits.npz")


# TODO(2): your data by split ("validation" and "test" may be missing), each split arrays with one
# row an example, inputs, (inputs, labels) or (inputs, labels, weights), or a tf.data.Dataset of
# single examples; loads digits.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, 8, 8, 1) in [0, 1]; with validation and test images latents (n, latent).

    These latents are the same in every epoch and every run, so that a score depends on nothing but
    the weights; in training create_augment makes new ones for every step.
    """
    train, validation, test = (load_digits(s)[0] for s in ("train", "validation", "test"))
    random = np.random.default_rng(0)
    return {
        "train": np.tile(train, (task.passes, 1, 1, 1)),
        "validation": (validation, _normal(random, len(validation), task.latent)),
        "test": (test, _normal(random, len(test), task.latent)),
    }


# TODO(3): what is done to a training batch, with tf.random.stateless_* and this seed only, so that
# it doesn't depend on the number of replicas; gives each image a latent to compete with.
def create_augment(task: TaskConfig) -> Any:
    """The augmentation of a global batch as the steps see it, or None for no augmentation."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Add latents (batch, latent); `seed`: int64 (2,), another one in every step."""
        images, weights = batch
        shape, floatx = (images.shape[0], task.latent), keras.config.floatx()
        return images, tf.random.stateless_normal(shape, seed, dtype=floatx), weights

    return augment


def load_digits(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images float32 (n, 8, 8, 1) in [0, 1] and labels int64 (n,)."""
    with np.load(DIGITS) as file:
        images, labels = file[f"{split}_images"], file[f"{split}_labels"]
    return (images / 16).astype("float32")[..., np.newaxis], labels.astype("int64")


def _normal(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return random.standard_normal((rows, columns), "float32")
