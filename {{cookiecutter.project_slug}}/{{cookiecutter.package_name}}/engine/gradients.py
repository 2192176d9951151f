"""Gradients: sum once over the replicas, take their norm, clip; optimizers don't sum again."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import tensorflow as tf

from .errors import UsageError
from .output import say
from .types import unique

LARGEST_BUCKET = 2**31 - 2  # numbers: `tf.split` takes no more on a GPU (TF 2.21)


def all_optimizers(optimizer: keras.optimizers.Optimizer) -> list[keras.optimizers.Optimizer]:
    """The optimizer, and those that it holds, as a `MultiOptimizer` or a wrapper of one's own."""
    found = [optimizer]
    for each in found:  # which grows
        for held in _held([getattr(each, "optimizers", ()), *vars(each).values()]):
            if all(held is not other for other in found):
                found.append(held)
    return found


def inner_optimizers(
    optimizer: keras.optimizers.Optimizer,
) -> list[keras.optimizers.Optimizer]:
    """Those in the attribute `optimizers`, of a `MultiOptimizer` or of one of your own."""
    return [*_held(getattr(optimizer, "optimizers", ()))]


def all_variables(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Those of the optimizer and of all that it holds."""
    return unique(v for each in all_optimizers(optimizer) for v in each.variables)


def rates_of(optimizer: keras.optimizers.Optimizer) -> list[tf.Tensor]:
    """The learning rates of the next update, float scalars: its own, and those of all it holds."""
    each = [o for o in all_optimizers(optimizer) if getattr(o, "_learning_rate", None) is not None]
    # A MultiOptimizer refuses to tell its own, which nothing uses (Keras 3.15).
    rates = [o.learning_rate for o in each if not hasattr(o, "optimizers")]
    return [tf.cast(tf.convert_to_tensor(rate), keras.config.floatx()) for rate in rates]


def _held(value: object) -> Iterator[keras.optimizers.Optimizer]:
    """The optimizers in a value, also in lists, tuples and dicts of lists, tuples and dicts."""
    if isinstance(value, keras.optimizers.Optimizer):
        yield value
    elif isinstance(value, dict | list | tuple):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _held(part)


def build_optimizer(optimizer: keras.optimizers.Optimizer, variables: list[keras.Variable]) -> None:
    """Make the optimizer's slots, and make it take gradients that are summed over the replicas.

    Before the first trace, or more than one replica fails (keras #23085, Keras 3.15). There is no
    public way to hand over summed gradients (Keras 3.15), so this replaces the method that would
    sum them a second time. On one replica, too, where that method fails on gradients of which
    `apply` has changed some (TF 2.21).

    Raises:
        UsageError: there is no such method, or it was built for other variables.
    """
    if optimizer.built:
        raise UsageError(
            f"create_optimizer in task/optimizer.py returns an {type(optimizer).__name__} that was "
            "built before, for other variables; create a new one there at each call."
        )
    if not variables:  # those that a callback unfreezes later would belong to no optimizer either
        say(
            "there is nothing to train: the model of an optimizer has no weights, or all of them "
            "are frozen by create_model in task/model.py"
        )
    optimizer.build(variables)
    for each in all_optimizers(optimizer):
        if not (each.built or hasattr(optimizer, "_var_to_optimizer_idx")):
            each.build(variables)  # of a wrapper that leaves it to the first step
        if not hasattr(each, "_all_reduce_sum_gradients"):
            raise UsageError(
                f"{type(each).__name__} of Keras {keras.__version__} sums gradients in a way that "
                "the engine can't switch off; install an older Keras."
            )
        each._all_reduce_sum_gradients = lambda grads_and_vars: grads_and_vars


def apply_gradients(
    optimizer: keras.optimizers.Optimizer, pairs: list[tuple[tf.Tensor, keras.Variable]]
) -> None:
    """As `fit` applies them, also while some variables of a `MultiOptimizer` are frozen.

    That raises "Gradients must match trainable variables one-to-one" for fewer than it was built
    for (Keras 3.15), so then each optimizer inside it is given its own. One of which all variables
    are frozen makes no step.
    """
    inside = getattr(optimizer, "_var_to_optimizer_idx", None)
    if inside is None or len(inside) == len(pairs):
        # Not `apply`: an optimizer of one's own may override what `fit` calls.
        optimizer.apply_gradients(pairs)
        return
    for i, each in enumerate(optimizer.optimizers):
        own = [(g, v) for g, v in pairs if inside[optimizer._var_key(v)] == i]
        if own:
            each.apply_gradients(own)
    optimizer.iterations.assign_add(1)


def sum_over_replicas(tensors: list[tf.Tensor], bucket_bytes: int = 0) -> list[tf.Tensor]:
    """The sums over all replicas, one collective for each bucket; called inside a replica.

    The tensors of a bucket travel as one flat vector: on a network the number of messages costs
    more than their size. The sums stay on the replica's device.

    Args:
        tensors: of static shapes.
        bucket_bytes: the smallest size of a bucket; 0 makes one for each dtype.
    """
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return tensors
    sums: dict[int, tf.Tensor] = {}
    sizes = [tensor.dtype.size * tensor.shape.num_elements() for tensor in tensors]
    for members in buckets([tensor.dtype for tensor in tensors], sizes, bucket_bytes):
        if len(members) == 1:
            (i,) = members
            sums[i] = context.all_reduce(tf.distribute.ReduceOp.SUM, tensors[i])
            continue
        flat = tf.concat([tf.reshape(tensors[i], [-1]) for i in members], axis=0)
        flat = context.all_reduce(tf.distribute.ReduceOp.SUM, flat)
        parts = tf.split(flat, [tensors[i].shape.num_elements() for i in members])
        sums.update(
            (i, tf.reshape(part, tensors[i].shape)) for i, part in zip(members, parts, strict=True)
        )
    return [sums[i] for i in range(len(tensors))]


def buckets(dtypes: list[tf.DType], sizes: list[int], bucket_bytes: int) -> list[list[int]]:
    """Which tensors travel together, by index, in the order in which their sums are made.

    The last tensors come first, since a backward pass has the gradients of the last layers first:
    their sum runs while it goes on.

    Args:
        dtypes: of the tensors; those of a bucket have one dtype.
        sizes: of the tensors, in bytes.
        bucket_bytes: a bucket is closed when it has so many; 0: when all of its dtype are in it.
    """
    closed: list[list[int]] = []
    for dtype in dict.fromkeys(dtypes):
        bucket, size = list[int](), 0
        for i in reversed(range(len(sizes))):
            if dtypes[i] == dtype:
                if bucket and size + sizes[i] > LARGEST_BUCKET * dtype.size:
                    closed.append(bucket)
                    bucket, size = [], 0
                bucket.insert(0, i)
                size += sizes[i]
                if bucket_bytes and size >= bucket_bytes:
                    closed.append(bucket)
                    bucket, size = [], 0
        closed += [bucket] if bucket else []
    return closed


def global_norm(gradients: list[tf.Tensor]) -> tf.Tensor:
    """The Euclidean norm of all gradients together, float scalar; not finite if one isn't."""
    floatx = keras.config.floatx()
    halves = [tf.nn.l2_loss(tf.cast(gradient, floatx)) for gradient in gradients]
    return tf.sqrt(2.0 * tf.add_n(halves)) if halves else tf.zeros((), floatx)  # all frozen: none


def clip(gradients: list[tf.Tensor], norm: tf.Tensor, limit: float) -> list[tf.Tensor]:
    """The gradients scaled so that their global norm is at most `limit` (Pascanu et al., 2013)."""
    factor = limit / tf.maximum(norm, limit)
    return [gradient * tf.cast(factor, gradient.dtype) for gradient in gradients]
