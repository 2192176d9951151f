"""Gradients: sum once over the replicas, look whether they are finite, clip, apply."""

from __future__ import annotations

import keras
import tensorflow as tf


def take_over(optimizer: keras.optimizers.Optimizer, replicas: int) -> None:
    """Make `optimizer.apply` take gradients that are already summed over the replicas."""
    if replicas > 1 and hasattr(optimizer, "_all_reduce_sum_gradients"):
        # No public way to hand over summed gradients (Keras 3.15): switch off the second sum.
        optimizer._all_reduce_sum_gradients = lambda gradients: gradients


def before_apply(
    optimizer: keras.optimizers.Optimizer, gradients: list[tf.Tensor], replicas: int
) -> list[tf.Tensor]:
    """Where `take_over` found nothing to switch off, undo the sum that `apply` will make."""
    if replicas == 1 or hasattr(optimizer, "_all_reduce_sum_gradients"):
        return gradients
    return [gradient / replicas for gradient in gradients]


def sum_over_replicas(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """The sums over all replicas, in one collective for each dtype; stays on the replica's device.

    Called inside a replica. Tensors travel as one flat vector: on a network the number of messages
    costs more than their size.
    """
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return tensors
    sums: dict[int, tf.Tensor] = {}
    for dtype in {tensor.dtype: None for tensor in tensors}:
        members = [i for i, tensor in enumerate(tensors) if tensor.dtype == dtype]
        flat = tf.concat([tf.reshape(tensors[i], [-1]) for i in members], axis=0)
        flat = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
        parts = tf.split(flat, [tensors[i].shape.num_elements() for i in members])
        sums.update(
            (i, tf.reshape(part, tensors[i].shape)) for i, part in zip(members, parts, strict=True)
        )
    return [sums[i] for i in range(len(tensors))]


def global_norm(gradients: list[tf.Tensor]) -> tf.Tensor:
    """The Euclidean norm of all gradients together, float scalar; not finite if one isn't."""
    return tf.sqrt(
        2.0 * tf.add_n([tf.cast(tf.nn.l2_loss(g), keras.config.floatx()) for g in gradients])
    )


def clip(gradients: list[tf.Tensor], norm: tf.Tensor, limit: float) -> list[tf.Tensor]:
    """The gradients scaled so that their global norm is at most `limit` (Pascanu et al., 2013)."""
    factor = limit / tf.maximum(norm, limit)
    return [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
