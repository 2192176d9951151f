"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class ExactMatch(keras.metrics.Mean):
    """The fraction of lines whose answer is right to the last token."""

    def update_state(
        self, targets: tf.Tensor, written: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add the lines of a batch.

        Args:
            targets: int32 (batch, T).
            written: int32 (batch, T), the tokens to compare with the targets.
            sample_weight: float (batch, T), not 0 for tokens of the answer. A line without any is
                padding and doesn't count.
        """
        is_answer = sample_weight != 0
        is_right = tf.reduce_all((targets == written) | ~is_answer, axis=1)  # (batch,)
        super().update_state(is_right, tf.reduce_any(is_answer, axis=1))


# TODO(6): your metrics, under their names in history.csv; default: the fractions of right tokens
# and of right lines.
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported. The engine adds the variables of a metric up
    over replicas and batches: one of your own keeps sums and counts, not means or maxima.
    """
    return {
        "token_accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "exact_match": ExactMatch(),
    }
