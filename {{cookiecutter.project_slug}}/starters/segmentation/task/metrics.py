"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .data import CLASSES, IGNORED


# TODO(6): your metrics, by the name they have in history.csv; the mean over all classes, background
# included, of intersection / union, from one table of counts that replicas can add up.
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics that honour `sample_weight`; the loss is reported without one."""
    del task
    mean_iou = keras.metrics.MeanIoU(
        CLASSES,
        ignore_class=IGNORED,
        sparse_y_pred=False,
        dtype=keras.config.floatx(),  # by default int, which cuts a weight of 0.5 down to 0
    )
    return {"mean_iou": mean_iou}


def pixel_weights(labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Weights of examples, float (batch,), as weights of their pixels, float (batch, h, w)."""
    return tf.broadcast_to(weights[:, tf.newaxis, tf.newaxis], tf.shape(labels))
