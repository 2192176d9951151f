"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


# TODO(6): your metrics, under their names in history.csv; default: the mean absolute error in units
# of the data, and R2, the fraction of the labels' variance that the predictions explain.
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported. The engine adds the variables of a metric up
    over replicas and batches: one of your own keeps sums and counts, not means or maxima.
    """
    # num_regressors stays unset: with it, R2Score counts rows of weight 0 too (Keras 3.15).
    r2 = keras.metrics.R2Score()
    # It creates its variables in its first update, which is too late inside a train step.
    r2.update_state(tf.zeros((1, 1)), tf.zeros((1, 1)))
    r2.reset_state()
    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}
