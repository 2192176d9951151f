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
    """How far the generated images are from the real ones, as a whole: 0 for the same distribution.

    |m - m'|^2 + tr(C + C' - 2 (C C')^(1/2)) with the means m and covariances C of a classifier's
    features (Heusel et al., 2017, arXiv:1706.08500), divided by tr(C) of the real ones.
    """

    def __init__(self, features: keras.Model, size: int) -> None:
        super().__init__(name="frechet")
        self._features = features
        # Count, sums and sums of products in one matrix: of (1, features) with itself. Such sums
        # can be added up over batches and replicas, which distances can't. Float64, since a
        # covariance is a small difference of large sums.
        shape = (size + 1, size + 1)
        self._real = self.add_variable(shape, "zeros", "float64", name="real")
        self._generated = self.add_variable(shape, "zeros", "float64", name="generated")

    def update_state(self, real: tf.Tensor, generated: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Take in real and generated images (batch, h, w, channels), weighted by (batch,)."""
        weights = tf.cast(sample_weight, tf.float64)[:, tf.newaxis]
        for sums, images in ((self._real, real), (self._generated, generated)):
            x = tf.cast(self._features(images), tf.float64)  # (batch, size)
            x = tf.concat([tf.ones_like(x[:, :1]), x], axis=1)  # (batch, 1 + size)
            sums.assign_add(tf.matmul(x, weights * x, transpose_a=True))

    def result(self) -> tf.Tensor:
        """Float64 scalar; 0 before the first image."""
        mean, covariance = _moments(self._real)
        other_mean, other_covariance = _moments(self._generated)
        # tr (C C')^(1/2): the roots of the eigenvalues of R C' R, which is symmetric, with R R = C.
        values, vectors = tf.linalg.eigh(covariance)
        root = tf.matmul(vectors * _sqrt(values), vectors, transpose_b=True)
        common = tf.reduce_sum(_sqrt(tf.linalg.eigvalsh(root @ other_covariance @ root)))
        distance = tf.reduce_sum(tf.square(mean - other_mean)) - 2 * common
        trace = tf.linalg.trace(covariance)
        return tf.math.divide_no_nan(distance + trace + tf.linalg.trace(other_covariance), trace)


class NearestDistance(keras.metrics.Mean):
    """How far a generated image is from the training image most like it: 0 for a copy.

    In units of what it is for an unseen real image, so that 1 is as it should be.
    """

    def __init__(self, known: np.ndarray, unseen: np.ndarray) -> None:
        super().__init__(name="nearest_distance")
        self._known = known
        self._usual = tf.reduce_mean(nearest(unseen, known)[0])

    def update_state(self, generated: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Take in generated images (batch, h, w, channels), weighted by (batch,)."""
        distances, _ = nearest(generated, self._known)
        super().update_state(distances / self._usual, sample_weight)


def nearest(images: Any, known: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """The Euclidean distance (n,) of each image to the one of `known` most like it; which (n,)."""
    floatx = keras.config.floatx()
    a, b = (tf.reshape(tf.cast(i, floatx), (i.shape[0], -1)) for i in (images, known))
    squares = tf.reduce_sum(a * a, 1)[:, tf.newaxis] + tf.reduce_sum(b * b, 1)  # (n, known)
    distances = tf.sqrt(tf.nn.relu(squares - 2 * tf.matmul(a, b, transpose_b=True)))
    return tf.reduce_min(distances, axis=1), tf.argmin(distances, axis=1)


def _sqrt(eigenvalues: tf.Tensor) -> tf.Tensor:
    """The roots; of what is zero but for rounding, and maybe less, zero."""
    smallest = 1e-12 * tf.reduce_max(tf.abs(eigenvalues))
    return tf.sqrt(tf.where(eigenvalues > smallest, eigenvalues, tf.zeros_like(eigenvalues)))


def _moments(sums: keras.Variable) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean (size,) and covariance (size, size)."""
    sums = tf.convert_to_tensor(sums)
    moments = tf.math.divide_no_nan(sums, sums[0, 0])
    mean = moments[0, 1:]
    return mean, moments[1:, 1:] - mean * mean[:, tf.newaxis]


# TODO(6): your metrics, by the name they have in history.csv; whether images are like real ones,
# and whether they are copies.
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics that honour `sample_weight`; the loss is reported without one."""
    del task
    known, unseen = (load_digits(split)[0] for split in ("train", "validation"))
    return {
        "frechet": FrechetDistance(load_features(), FEATURES),
        "nearest_distance": NearestDistance(known, unseen),
    }
