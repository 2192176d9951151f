"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..engine.errors import UsageError
from .config import TaskConfig

# Source: Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
# Repository, doi:10.24432/C50P49, CC BY 4.0; the 1,797 images of its test part, split once into
# train, validation and test with the same proportion of each digit.
DIGITS = Path(__file__).with_name("digits.npz")
VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST

Arrays = tuple[np.ndarray, np.ndarray]  # images and labels


# TODO(2): your data as {"train": ..., "validation": ..., "test": ...}; default: the images that
# --dataset names.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).

    A split is arrays with a row per example, (inputs, labels) or (inputs, labels, weights), in
    memory or mapped; an object with __len__ and __getitem__; RandomAccess, see
    engine/random_access.py; or a tf.data.Dataset of single examples. Only "train" is required.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }


# TODO(3): the augmentation of a training batch, or None; default: shifts each image a little.
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (batch, seed) -> batch that tf.data runs on each global batch, or None.

    The batch has the parts of an example, weights last; floats are of keras.config.floatx(). Train
    steps get what is returned, which may have other parts; validation and test data aren't
    augmented. Draw random numbers only with tf.random.stateless_* and the seed, int64 (2,), which
    differs in each step, or with layers of Keras made outside of the function: then the result is
    the same on any number of replicas, and after a resume. For several draws make several seeds:
    tf.random.split(seed, 3).
    """
    if not task.shift:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
        return keras.ops.image.affine_transform(images, transforms), labels, weights

    return augment


def _load_digits() -> dict[str, Arrays]:
    with np.load(DIGITS) as file:
        return {
            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
        }


def _load_fashion_mnist() -> dict[str, Arrays]:
    try:
        (images, labels), (test_images, test_labels) = keras.datasets.fashion_mnist.load_data()
    except Exception as error:  # Keras raises a plain Exception for every network failure
        raise UsageError(
            "Fashion-MNIST isn't in Keras' cache and can't be downloaded; connect to the internet "
            "once, or use --dataset digits, which comes with the project."
        ) from error
    return {
        "train": (images[VALIDATION_IMAGES:] / 255, labels[VALIDATION_IMAGES:]),
        "validation": (images[:VALIDATION_IMAGES] / 255, labels[:VALIDATION_IMAGES]),
        "test": (test_images / 255, test_labels),
    }
