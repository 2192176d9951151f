"""The data: train, validation and test examples, and what is done to them in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..engine.errors import UsageError
from .config import TaskConfig

# Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
# Repository, doi:10.24432/C50P49, CC BY 4.0; the 1,797 images of its test part, split once into
# train / validation / test with the same share of each digit.
DIGITS = Path(__file__).with_name("digits.npz")
VALIDATION_IMAGES = 5_000  # of Fashion-MNIST's 60,000 training images


# TODO(2): your data by split ("validation" and "test" may be missing), each split arrays with one
# row an example, (inputs, labels) or (inputs, labels, weights), or a tf.data.Dataset of single
# examples; loads the images named by --dataset.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).

    Raises:
        UsageError: the dataset isn't there and can't be downloaded.
    """
    if task.dataset == "fashion_mnist":
        splits = _load_fashion_mnist()
    else:
        with np.load(DIGITS) as file:
            splits = {
                s: (file[f"{s}_images"] / 16, file[f"{s}_labels"])
                for s in ("train", "validation", "test")
            }
    return {
        name: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for name, (images, labels) in splits.items()
    }


# TODO(3): what is done to a training batch, with tf.random.stateless_* and this seed only, so that
# it doesn't depend on the number of replicas; moves each image by a fraction of a pixel.
def create_augment(task: TaskConfig) -> Any:
    """The augmentation of a global batch as the steps see it, or None for no augmentation."""
    if not task.shift:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Move each image; `seed`: int64 (2,), another one in every step."""
        images, labels, weights = batch
        rows = images.shape[0]
        offset = tf.random.stateless_uniform((rows, 2), seed, -task.shift, task.shift)
        one, zero = tf.ones((rows, 1)), tf.zeros((rows, 1))
        # (rows, 8), the form of keras.ops.image: x' = a0 x + a1 y + a2, y' = b0 x + b1 y + b2
        moves = tf.concat([one, zero, offset[:, :1], zero, one, offset[:, 1:], zero, zero], axis=1)
        return (
            keras.ops.image.affine_transform(images, moves, data_format="channels_last"),
            labels,
            weights,
        )

    return augment


def _load_fashion_mnist() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    try:
        (images, labels), test = keras.datasets.fashion_mnist.load_data()
    except Exception as error:  # Keras wraps every network failure in a plain Exception
        raise UsageError(
            "Fashion-MNIST isn't in Keras' cache and can't be downloaded; connect to the internet "
            "once, or use --dataset digits, which comes with the project."
        ) from error
    held_out = min(VALIDATION_IMAGES, len(images) // 10)
    return {
        "train": (images[held_out:] / 255, labels[held_out:]),
        "validation": (images[:held_out] / 255, labels[:held_out]),
        "test": (test[0] / 255, test[1]),
    }
