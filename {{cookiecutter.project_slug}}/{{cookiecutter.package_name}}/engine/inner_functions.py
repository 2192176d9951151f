"""Functions inside a step that have a graph or a gradient of their own: let them see its values.

A step works on values that stand for the variables. What reads the variables themselves is cut off
from the loss, so it would never train, and nothing would say so (TF 2.21, Keras 3.15).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import get_stateless_scope  # nothing public tells it

from .errors import UsageError

# What layers look up while they run: their precision, and whether they train (Keras 3.15).
KERAS_STATE = "autocast_scope", "current_call_ctx"
_depth, _were_eager = 0, False


@contextmanager
def inlined() -> Iterator[None]:
    """Make what the task decorates with `tf.function` a part of the step's graph.

    Its own graph is that of the first call, when the model was made, and reads the variables.
    """
    global _depth, _were_eager
    if _depth == 0:
        _were_eager = tf.config.functions_run_eagerly()  # to debug, if the owner has said so
        tf.config.run_functions_eagerly(True)
    _depth += 1  # where replicas wait for each other, one is traced inside the step of another
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            tf.config.run_functions_eagerly(_were_eager)


class StepScope(keras.StatelessScope):
    """A scope in which recomputing finds gradients for what was read in it."""

    _read: dict[int, keras.Variable] | None = None  # by id

    def get_current_value(self, variable: keras.Variable) -> Any:
        """The value that is read here."""
        if self._read is not None:
            self._read[id(variable)] = variable
        return super().get_current_value(variable)

    @contextmanager
    def recorded(self) -> Iterator[dict[int, keras.Variable]]:
        """The variables that are read inside, by id."""
        outer, own = self._read, dict[int, keras.Variable]()
        self._read = own
        try:
            yield own
        finally:
            self._read = outer
            if outer is not None:
                outer |= own

    def again(self, values: dict[int, Any]) -> Any:
        """A context as it is now, in which variables have `values`; its writes are dropped."""
        raise NotImplementedError


@contextmanager
def _keras_state(state: dict[str, Any]) -> Iterator[None]:
    before = {name: global_state.get_global_attribute(name) for name in state}
    for name, value in state.items():
        global_state.set_global_attribute(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            global_state.set_global_attribute(name, value)


def recomputing(function: Callable[..., Any]) -> Callable[..., Any]:
    """`tf.recompute_grad`, which `keras.remat` and `keras.RematScope` use, for steps too.

    TensorFlow's own gives gradients to arguments by position and to variables only: here the values
    that `function` reads are arguments, and no others, which would cost zeros for each; and so are
    tensors by keyword.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        scope = get_stateless_scope()
        if not isinstance(scope, StepScope):
            return RECOMPUTE_GRAD(function)(*arguments, **named)
        before = dict(scope.state_mapping)
        state = {n: copy.copy(global_state.get_global_attribute(n)) for n in KERAS_STATE}
        with scope.recorded() as read:
            result = function(*arguments, **named)
        found = [i for i in before if i in read and before[i].dtype.is_floating]
        parts = dict(enumerate(tf.nest.flatten(named)))
        floats = [i for i, p in parts.items() if tf.is_tensor(p) and p.dtype.is_floating]
        given = *(before[i] for i in found), *(parts[i] for i in floats)
        made = [result]

        def compute(*tensors: tf.Tensor) -> Any:
            if made:  # the pass forward; and what was before isn't searched for variables
                return tf.nest.map_structure(tf.stop_gradient, made.pop())
            values = before | dict(zip(found, tensors, strict=False))
            others = parts | dict(zip(floats, tensors[len(found) :], strict=False))
            by_keyword = tf.nest.pack_sequence_as(named, [*others.values()])
            with scope.again(values), _keras_state(state):
                return function(*tensors[len(given) :], **by_keyword)

        return RECOMPUTE_GRAD(compute)(*given, *arguments)

    return call


def with_custom_gradient(f: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """`tf.custom_gradient`, which `keras.ops.custom_gradient` uses, where all gradients arrive.

    It gives gradients to arguments and to variables: in a step a weight that the function reads
    would get none, and nothing would say so where something else, such as a regularizer, moves it.

    Raises:
        UsageError: in a step, the function reads a weight that trains.
    """
    if f is None:  # as `@tf.custom_gradient()`
        return with_custom_gradient

    @functools.wraps(f)
    def call(*arguments: Any, **named: Any) -> Any:
        scope = get_stateless_scope()
        if not isinstance(scope, StepScope):
            return f(*arguments, **named)
        with scope.recorded() as read:
            result = f(*arguments, **named)
        if trained := [variable.path for variable in read.values() if variable.trainable]:
            name = getattr(f, "__name__", "a function")
            raise UsageError(
                f"{name} has a tf.custom_gradient and reads {', '.join(trained)}, which would get "
                "no gradient from it: hand the value over as an argument, and return its gradient "
                "too; or read tf.stop_gradient of it outside, if it is to get none."
            )
        return result

    return CUSTOM_GRADIENT(call)


# A vectorized_map in what XLA compiles says so, and works (TF 2.21).
tf.get_logger().addFilter(lambda record: "behavior was disabled" not in record.getMessage())
RECOMPUTE_GRAD = tf.recompute_grad
tf.recompute_grad = recomputing
CUSTOM_GRADIENT = tf.custom_gradient
tf.custom_gradient = with_custom_gradient
