"""The metrics."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .classifier import FEATURES, load_features
from .config import TaskConfig
from .data import load_digits


class FrechetDistance(keras.metrics.Metric):
    """The distance between the distributions of generated and real images: 0 if they are equal.

    |m - m'|^2 + tr(C + C' - 2 (C C')^(1/2)) with the means m and covariances C of a classifier's
    features (Heusel et al., 2017, arXiv:1706.08500), divided by tr(C) of the real images.
    """

    def __init__(self, features: keras.Model, size: int) -> None:
        super().__init__(name="frechet")
        self._features = features
        # The sum over images of x x', x = (1, features): it holds the count, sums and products.
        # Such sums can be added over batches and replicas, and distances can't. Float64, because a
        # covariance is a small difference between large sums.
        shape = (size + 1, size + 1)
        self._real = self.add_variable(shape, "zeros", "float64", name="real")
        self._generated = self.add_variable(shape, "zeros", "float64", name="generated")

    def update_state(self, real: tf.Tensor, generated: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add real and generated images (batch, h, w, channels) with weights (batch,)."""
        weights = tf.cast(sample_weight, tf.float64)[:, tf.newaxis]
        for sums, images in ((self._real, real), (self._generated, generated)):
            x = tf.cast(self._features(images), tf.float64)  # (batch, size)
            x = tf.concat([tf.ones_like(x[:, :1]), x], axis=1)  # (batch, 1 + size)
            sums.assign_add(tf.matmul(x, weights * x, transpose_a=True))

    def result(self) -> tf.Tensor:
        """The distance, a float64 scalar; 0 before the first image."""
        mean, covariance = _moments(self._real)
        other_mean, other_covariance = _moments(self._generated)
        # tr (C C')^(1/2) = tr (R C' R)^(1/2) with R R = C, where R C' R is symmetric.
        values, vectors = tf.linalg.eigh(covariance)
        root = tf.matmul(vectors * _sqrt(values), vectors, transpose_b=True)
        common = tf.reduce_sum(_sqrt(tf.linalg.eigvalsh(root @ other_covariance @ root)))
        distance = tf.reduce_sum(tf.square(mean - other_mean)) - 2 * common
        trace = tf.linalg.trace(covariance)
        return tf.math.divide_no_nan(distance + trace + tf.linalg.trace(other_covariance), trace)


class NearestDistance(keras.metrics.Mean):
    """The distance of a generated image to the nearest training image: 0 for a copy.

    Divided by the mean of this distance for unseen real images, so that 1 is ideal.
    """

    def __init__(self, known: np.ndarray, unseen: np.ndarray) -> None:
        super().__init__(name="nearest_distance")
        self._known = known
        self._mean_of_unseen = tf.reduce_mean(nearest(unseen, known)[0])

    def update_state(self, generated: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add generated images (batch, h, w, channels) with weights (batch,)."""
        distances, _ = nearest(generated, self._known)
        super().update_state(distances / self._mean_of_unseen, sample_weight)


def nearest(images: Any, known: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The Euclidean distance (n,) of each image to the nearest of `known`, and its index (n,)."""
    floatx = keras.config.floatx()
    a, b = (tf.reshape(tf.cast(i, floatx), (i.shape[0], -1)) for i in (images, known))
    squares = tf.reduce_sum(a * a, 1)[:, tf.newaxis] + tf.reduce_sum(b * b, 1)  # (n, known)
    distances = tf.sqrt(tf.nn.relu(squares - 2 * tf.matmul(a, b, transpose_b=True)))
    return tf.reduce_min(distances, axis=1), tf.argmin(distances, axis=1)


def _sqrt(eigenvalues: tf.Tensor) -> tf.Tensor:
    """The square roots; 0 for eigenvalues that are 0 except for rounding, which may be negative."""
    smallest = 1e-12 * tf.reduce_max(tf.abs(eigenvalues))
    return tf.sqrt(tf.where(eigenvalues > smallest, eigenvalues, tf.zeros_like(eigenvalues)))


def _moments(sums: keras.Variable) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean (size,) and covariance (size, size)."""
    sums = tf.convert_to_tensor(sums)
    moments = tf.math.divide_no_nan(sums, sums[0, 0])
    mean = moments[0, 1:]
    return mean, moments[1:, 1:] - mean * mean[:, tf.newaxis]


# TODO(6): your metrics, under their names in history.csv; default: how close generated images are
# to real ones, and whether they are copies.
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The losses need no metric: they are always reported.
    """
    known, unseen = (load_digits(split)[0] for split in ("train", "validation"))
    return {
        "frechet": FrechetDistance(load_features(), FEATURES),
        "nearest_distance": NearestDistance(known, unseen),
    }
