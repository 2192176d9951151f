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
CANVASES = {"train": 768, "validation": 192, "test": 288}  # each from digits of its own split
CANVAS, DIGIT = 32, 16  # pixels along a side; the 8x8 digits are scaled up
TRIES = 6  # digits that are tried on each canvas
CLASSES = 11  # 0 is the background, 1 to 10 are the digits 0 to 9
IGNORED = 255  # the label of a pixel that belongs neither to a digit nor to the background
FAINT, DARK = 0.375, 0.5  # ink below FAINT: background; from DARK on: digit; between: ignored


# TODO(2): your data as {"train": ..., "validation": ..., "test": ...}; default: digits placed
# on larger canvases.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int32 (n, h, w).

    A split is arrays with a row per example, (inputs, labels) or (inputs, labels, weights), in
    memory or mapped; an object with __len__ and __getitem__; RandomAccess, see
    engine/random_access.py; or a tf.data.Dataset of single examples. Only "train" is required.
    """
    with np.load(DIGITS) as file:
        return {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }


# TODO(3): the augmentation of a training batch, or None; default: rotates, shears and scales each
# image together with its labels.
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (batch, seed) -> batch that tf.data runs on each global batch, or None.

    The batch has the parts of an example, weights last; floats are of keras.config.floatx(). Train
    steps get what is returned, which may have other parts; validation and test data aren't
    augmented. Draw random numbers only with tf.random.stateless_* and the seed, int64 (2,), which
    differs in each step, or with layers of Keras made outside of the function: then the result is
    the same on any number of replicas, and after a resume. For several draws make several seeds:
    tf.random.split(seed, 3).
    """
    if not task.warp:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        rows, center = images.shape[0], (CANVAS - 1) / 2
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)
        offset = center - center * tf.reduce_sum(warp, axis=2, keepdims=True)  # fixes the center
        # A pixel p of the result comes from warp @ p + offset.
        transforms = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
        transforms = tf.pad(transforms, [[0, 0], [0, 2]])  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        # "nearest", since a mean of two labels is no label.
        labels = tf.cast(labels[..., tf.newaxis], tf.float32)
        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")
        return images, tf.cast(labels[..., 0], tf.int32), weights

    return augment


def _compose(
    digits: np.ndarray, classes: np.ndarray, canvases: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Canvases of digits at random places; a digit whose ink would meet other ink is left out.

    Args:
        digits: uint8 (n, 8, 8), ink from 0 to 16.
        classes: uint8 (n,).
        canvases: number of canvases.
        seed: seed of the digits and places.
    """
    random = np.random.default_rng(seed)
    inks = tf.image.resize(digits[..., np.newaxis] / 16, (DIGIT, DIGIT)).numpy()[..., 0]
    images = np.zeros((canvases, CANVAS, CANVAS), np.float32)
    labels = np.zeros((canvases, CANVAS, CANVAS), np.int32)
    for image, label in zip(images, labels, strict=True):
        for index in random.integers(len(inks), size=TRIES):
            top, left = random.integers(CANVAS - DIGIT + 1, size=2)
            place = np.s_[top : top + DIGIT, left : left + DIGIT]
            ink = inks[index]
            if np.any((ink > 0) & (image[place] > 0)):
                continue
            image[place] += ink
            label[place][ink >= FAINT] = IGNORED
            label[place][ink >= DARK] = classes[index] + 1
    return images[..., np.newaxis], labels
