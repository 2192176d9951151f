"""State that differs per replica: random seeds, normalization statistics, what layers hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph  # none is public

from .errors import UsageError
from .randomness import in_round
from .types import Run

# Operations that draw random numbers by a state of their own, on each replica others.
STATEFUL = {
    "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "RandomShuffle",
    "Multinomial", "RandomGamma", "RandomPoissonV2", "ParameterizedTruncatedNormal",
}  # fmt: skip


def synchronize_batch_normalization(layers: Iterable[keras.layers.Layer]) -> list[str]:
    """Make every BatchNormalization take its statistics over all replicas; returns their names.

    Otherwise each replica normalizes by its own per-replica batch and keeps its own moving
    statistics, of which a checkpoint saves replica 0's. Averaging them afterwards is not the same
    as a single device (1e-2 off). To be called before the first trace. Measured on Keras 3.15.
    """
    names = []
    for layer in normalizations(layers):
        layer._moments = _moments_of_all(layer)
        names.append(layer.name)
    return names


def normalizations(
    layers: Iterable[keras.layers.Layer],
) -> list[keras.layers.BatchNormalization]:
    """Those that normalize by the batch: a frozen one uses its moving statistics."""
    normal = (x for x in layers if isinstance(x, keras.layers.BatchNormalization))
    return [layer for layer in normal if layer.trainable]


def batch_dependent(layers: Sequence[keras.layers.Layer]) -> list[keras.layers.Layer]:
    """Those whose outputs or losses for a row depend on the other rows of a replica, too."""
    normal = normalizations(layers)
    return [
        layer
        for layer in layers
        if layer in normal or getattr(layer, "activity_regularizer", None) is not None
    ]


def _moments_of_all(layer: keras.layers.BatchNormalization) -> Any:
    """`layer._moments` over all replicas, computed as Keras does on one, in two passes.

    Over replicas Keras 3.15 takes no mask, and the variance as E(x^2) - E(x)^2: in float32 nothing
    is left of it where the mean is some thousand standard deviations, as of air pressure in Pa.
    """

    def moments(inputs: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        context = tf.distribute.get_replica_context()

        def total(values: tf.Tensor) -> tf.Tensor:  # of each channel
            if mask is not None:
                keep = tf.cast(mask, "bool")[..., tf.newaxis]
                values = tf.where(keep, values, tf.zeros((), inputs.dtype))
            own = tf.reduce_sum(values, layer._reduction_axes, keepdims=True)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, own) if context else own

        count = total(tf.ones_like(inputs))
        if mask is not None:
            count += keras.config.epsilon()  # as Keras does
        mean = total(inputs) / count
        variance = total(tf.math.squared_difference(inputs, mean)) / count
        return tf.squeeze(mean, layer._reduction_axes), tf.squeeze(variance, layer._reduction_axes)

    return moments


def shorten_traces(context: tf.distribute.ReplicaContext) -> None:
    """Keep `context.all_reduce` from walking through the graphs of all other replicas.

    Looking for variables, its gradient follows the sum back into each replica's whole model, once
    for every synchronized layer: 40 s of tracing for a U-Net on four replicas (TF 2.21). A bitcast
    has no gradient, so the walk ends there.
    """
    original = context.all_reduce

    def all_reduce(reduce_op: Any, value: Any, options: Any = None) -> Any:
        if reduce_op != tf.distribute.ReduceOp.SUM:
            return original(reduce_op, value, options)

        @tf.custom_gradient
        def total(*tensors: tf.Tensor) -> Any:
            cut = [tf.bitcast(tensor, tensor.dtype) for tensor in tensors]
            sums = original(reduce_op, cut, options)
            return sums, lambda *gradients: all_reduce(reduce_op, list(gradients))

        sums = total(*tf.nest.flatten(value))
        return tf.nest.pack_sequence_as(value, tf.nest.flatten(sums))

    context.all_reduce = all_reduce  # of this replica, while it is traced


@contextmanager
def keeping_attributes(layers: Iterable[keras.layers.Layer]) -> Iterator[None]:
    """Inside, a replica finds in layers what its own trace has put there, such as a KL term.

    Where a step sums or gathers over the replicas, each waits until all others are traced up to
    there, and tensors that layers keep as attributes would be those of the last one: its loss would
    count for all (TF 2.21). So would the list of losses that a layer has added, which each call of
    the model clears (Keras 3.15).
    """
    context, layers = tf.distribute.get_replica_context(), [*layers]
    original = context.merge_call

    def merge_call(*arguments: Any, **named: Any) -> Any:
        own = [{**vars(layer), "_loss_ids": set(layer._loss_ids)} for layer in layers]
        try:
            return original(*arguments, **named)
        finally:
            for layer, attributes in zip(layers, own, strict=True):
                vars(layer).update(attributes)

    context.merge_call = merge_call
    try:
        yield
    finally:
        context.merge_call = original


def is_random_state(variable: keras.Variable) -> bool:
    """Whether `variable` is the state of a `keras.random.SeedGenerator` (dropout, noise, ...)."""
    return variable.name == "seed_generator_state"


class RandomStates(keras.StatelessScope):
    """Keeps the random states of Keras' layers; in each round of a loop they differ."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._graph, self._is_eager = tf.compat.v1.get_default_graph(), tf.executing_eagerly()
        # Those in branches and loops, whose tensors can't be used outside of them.
        self._inside: dict[tuple[tf.Graph, int], tf.Tensor] = {}

    def get_current_value(self, variable: keras.Variable) -> Any:
        """The value that is read here."""
        graph = tf.compat.v1.get_default_graph()
        if graph is self._graph or not is_random_state(variable):
            return super().get_current_value(variable)
        if (graph, id(variable)) not in self._inside:
            with self._outside():
                # Also one of no model, which a step refuses at its end.
                state = tf.convert_to_tensor(variable.value)
                super().add_update((variable, state + tf.constant([1, 0], state.dtype)))
            self._inside[graph, id(variable)] = in_round(state, graph, self._graph)
        return self._inside[graph, id(variable)]

    def _outside(self) -> AbstractContextManager[Any]:
        """Where no branch or loop is."""
        return tf.init_scope() if self._is_eager else self._graph.as_default()

    def add_update(self, update: tuple[keras.Variable, Any]) -> None:
        """Keep a new value."""
        variable, value = update
        graph = tf.compat.v1.get_default_graph()
        if graph is not self._graph and is_random_state(variable):
            self._inside[graph, id(variable)] = value
        else:
            super().add_update(update)


class SeededScope(RandomStates):
    """Inside, the random states of Keras' layers follow from a seed, in the order of their use.

    Otherwise a layer such as RandomFlip counts its calls, and batches differ when they are made
    again or by several threads.

    Args:
        seed: int64 (2,).
    """

    def __init__(self, seed: tf.Tensor) -> None:
        super().__init__()
        self._seed = seed

    def get_current_value(self, variable: keras.Variable) -> Any:
        """The value that is read here.

        Raises:
            UsageError: a random state is read in what tf.function decorates.
        """
        if is_random_state(variable):
            self._require_no_function(tf.compat.v1.get_default_graph())
            if id(variable) not in self.state_mapping:
                self._begin(variable)
        return super().get_current_value(variable)

    def _begin(self, variable: keras.Variable) -> None:
        number = len(self.state_mapping) + 1  # 0: the seed itself, which the task uses
        with self._outside():
            seed = self._seed + tf.constant([number << 32, 0], tf.int64)
            state = tf.random.stateless_uniform((2,), seed, None, None, tf.uint32)
            self.add_update((variable, tf.cast(state, variable.dtype)))

    def _require_no_function(self, graph: tf.Graph) -> None:
        """Refuse one that has a graph of its own, which keeps the states of its first call."""
        while graph is not self._graph:
            if type(graph) is FuncGraph:  # those of branches and loops are of its subclasses
                raise UsageError(
                    f"The augmentation calls {graph.name}, which draws by Keras and is decorated "
                    "with tf.function: it would keep the random numbers of its first call; "
                    "decorate only what create_augment in task/data.py returns."
                )
            graph = graph.outer_graph


def derive_seeds(
    run: Run,
    *,
    step: tf.Tensor,
    train_step: int = 0,
    replica: tf.Tensor,
    microbatch: int | tf.Tensor = 0,
    num_microbatches: int = 1,
    number: int,
) -> tf.Tensor:
    """Random states that depend on nothing but the place where they are used, uint32 (number, 2).

    Keras draws the same dropout mask on every replica (keras #20611, Keras 3.15) and checkpoints
    leave random states out. States derived from (seed, place) differ on each replica and need no
    saving: a resumed run uses the very same ones.

    Args:
        run: whose seed and randomness count.
        step: int64 scalar, the number of steps, or batches of an evaluation, before this one.
        train_step: which of the task's train steps.
        replica: int32 scalar, which replica.
        microbatch: which micro-batch, int or int64 scalar.
        num_microbatches: how many a per-replica batch is split into.
        number: how many states to derive.
    """
    # One number for the place, as in a nested loop, so that it costs one random operation.
    place = step
    if run.randomness == "replica":
        place = step * run.strategy.num_replicas_in_sync + tf.cast(replica, tf.int64)
    place = place * len(run.functions.train_steps) + train_step
    if run.randomness != "same_rows":  # else it doesn't matter which rows share a micro-batch
        place = place * num_microbatches + microbatch
    return tf.random.stateless_uniform(
        (number, 2), (tf.constant(run.seed, tf.int64), place), None, None, tf.uint32
    )
