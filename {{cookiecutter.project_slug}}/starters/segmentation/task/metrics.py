"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .data import CLASSES, IGNORED


# TODO(6): your metrics, under their names in history.csv; default: intersection over union,
# averaged over all classes, background included.
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported. The engine adds the variables of a metric up
    over replicas and batches: one of your own keeps sums and counts, not means or maxima.
    """
    mean_iou = keras.metrics.MeanIoU(
        CLASSES,
        ignore_class=IGNORED,
        sparse_y_pred=False,
        dtype=keras.config.floatx(),  # the default is an int, which rounds a weight of 0.5 to 0
    )
    return {"mean_iou": mean_iou}


def pixel_weights(weights: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The weight of each example, float (batch,), for each of its pixels, float (batch, h, w)."""
    return tf.broadcast_to(weights[:, tf.newaxis, tf.newaxis], tf.shape(labels))
