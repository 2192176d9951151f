"""Functions inside a step that have a graph or a gradient of their own: let them see its values.

A step works on values that stand for the variables. What reads the variables themselves is cut off
from the loss, so it would never train, and nothing would say so (TF 2.21, Keras 3.15).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common.stateless_scope import get_stateless_scope  # nothing public tells it

_depth = 0


@contextmanager
def inlined() -> Iterator[None]:
    """Make what the task decorates with `tf.function` a part of the step's graph.

    Its own graph is that of the first call, when the model was made, and reads the variables.
    """
    global _depth
    if _depth == 0:
        tf.config.run_functions_eagerly(True)
    _depth += 1  # where replicas wait for each other, one is traced inside the step of another
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0:
            tf.config.run_functions_eagerly(False)


class StepScope(keras.StatelessScope):
    """The values of variables in a step.

    Args:
        mapping: variables, and the values that are read from them.
        trained: those of them that gradients are taken of.
    """

    def __init__(
        self, mapping: list[tuple[keras.Variable, tf.Tensor]], trained: list[keras.Variable]
    ) -> None:
        # Without collect_losses, losses of `add_loss` would vanish (Keras 3.15).
        super().__init__(mapping, collect_losses=True)
        self.variables, self.trained = [variable for variable, _ in mapping], trained


def recomputing(function: Callable[..., Any]) -> Callable[..., Any]:
    """`tf.recompute_grad`, which `keras.remat` and `keras.RematScope` use, for steps too.

    TensorFlow's own gives gradients to arguments and to variables only: here the values of what is
    trained are arguments.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        scope = get_stateless_scope()
        if not isinstance(scope, StepScope):
            return RECOMPUTE_GRAD(function)(*arguments, **named)
        now = {id(v): scope.get_current_value(v) for v in scope.variables}
        of_gradients = {id(v) for v in scope.trained}
        others = [(v, now[id(v)]) for v in scope.variables if id(v) not in of_gradients]
        first: list[StepScope] = []  # the pass forward; the backward pass computes the same again

        def compute(values: list[tf.Tensor], *arguments: Any) -> Any:
            mapping = [*others, *zip(scope.trained, values, strict=True)]
            inside = StepScope(mapping, scope.trained)
            first.append(inside)
            with inside:
                return function(*arguments, **named)

        result = RECOMPUTE_GRAD(compute)([now[id(v)] for v in scope.trained], *arguments)
        for variable in scope.variables:
            value = first[0].get_current_value(variable)
            if id(variable) not in of_gradients and value is not now[id(variable)]:
                scope.add_update((variable, value))
        scope.losses += first[0].losses
        return result

    return call


RECOMPUTE_GRAD = tf.recompute_grad
tf.recompute_grad = recomputing
