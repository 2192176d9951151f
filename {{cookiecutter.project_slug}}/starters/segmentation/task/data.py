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
CANVASES = {"train": 768, "validation": 192, "test": 288}  # each from digits of its own split
CANVAS, DIGIT = 32, 16  # pixels along a side; the 8x8 digits are scaled up
TRIES = 6  # places drawn for each canvas
CLASSES = 11  # 0 is the background, 1 to 10 are the digits 0 to 9
IGNORED = 255  # the label of a pixel that belongs neither to a digit nor to the background
FAINT, DARK = 0.375, 0.5  # less ink than FAINT: background; at least DARK: digit; between: ignored


# TODO(2): your data by split ("validation" and "test" may be missing), each split arrays with one
# row an example, (inputs, labels) or (inputs, labels, weights), or a tf.data.Dataset of single
# examples; places digits on larger canvases.
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int32 (n, h, w)."""
    del task
    with np.load(DIGITS) as file:
        return {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], number, seed)
            for seed, (split, number) in enumerate(CANVASES.items())
        }


# TODO(3): what is done to a training batch, with tf.random.stateless_* and this seed only, so that
# it doesn't depend on the number of replicas; turns, shears and scales each image with its labels.
def create_augment(task: TaskConfig) -> Any:
    """The augmentation of a global batch as the steps see it, or None for no augmentation."""
    if not task.warp:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Warp each image about its middle; `seed`: int64 (2,), another one in every step."""
        images, labels, weights = batch
        rows, middle = images.shape[0], (CANVAS - 1) / 2
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)
        offset = middle - middle * tf.reduce_sum(warp, axis=2, keepdims=True)  # keeps the middle
        # (rows, 8), the form of keras.ops.image: x' = a0 x + a1 y + a2, y' = b0 x + b1 y + b2
        maps = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
        maps = tf.pad(maps, [[0, 0], [0, 2]])
        transform = keras.ops.image.affine_transform
        images = transform(images, maps, "bilinear", data_format="channels_last")
        # A label is one of the labels that were there, never something between two of them.
        pixels = tf.cast(labels[..., tf.newaxis], tf.float32)
        pixels = transform(pixels, maps, "nearest", data_format="channels_last")
        return images, tf.cast(pixels[..., 0], labels.dtype), weights

    return augment


def _compose(
    digits: np.ndarray, classes: np.ndarray, number: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Digits at TRIES places of each canvas; one whose ink would meet ink is left out.

    Args:
        digits: uint8 (n, 8, 8), ink from 0 to 16.
        classes: uint8 (n,).
        number: of canvases.
        seed: of the digits and places.
    """
    random = np.random.default_rng(seed)
    inks = tf.image.resize(digits[..., np.newaxis] / 16, (DIGIT, DIGIT)).numpy()[..., 0]
    images = np.zeros((number, CANVAS, CANVAS), np.float32)
    labels = np.zeros((number, CANVAS, CANVAS), np.int32)
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
