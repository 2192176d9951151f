"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


# TODO(6): your metrics, under their names in history.csv; default: accuracy.
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported. The engine adds the variables of a metric up
    over replicas and batches: one of your own keeps sums and counts, not means or maxima.
    """
    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
