"""Variables that steps read but no model, optimizer or metric owns; checkpoints keep them.

Such as the factor of a learning rate schedule, or the weight of a term, which a callback changes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any
from weakref import WeakValueDictionary

import keras
import numpy as np
import tensorflow as tf

from .errors import UsageError
from .gradients import all_variables
from .model_inputs import input_of
from .types import Run, unique

SMALL = 1_000  # numbers
COPY = re.compile(r"/replica_\d+(?=:0$)")
_OF_ENGINE = WeakValueDictionary[int, tf.Variable]()  # by id


def of_engine(variable: tf.Variable) -> tf.Variable:
    """The variable, which counts for the engine and is no part of a checkpoint."""
    _OF_ENGINE[id(variable)] = variable
    return variable


class Outside:
    """What a checkpoint keeps of these variables: all small ones, and large ones that change.

    They are known once the steps are traced, by their names, and where several have the same, by
    the order of the traces.
    """

    def __init__(self) -> None:
        self._copies: dict[str, list[tf.Variable]] = {}  # on the replicas
        self._found: dict[str, np.ndarray] = {}
        self._restored: dict[str, Any] = {}
        self.may_have_changed = False  # before they were found, by a callback

    def find(self, run: Run, graphs: list[tf.Graph]) -> None:
        """Take up those that the graphs of steps read, and set them to what was restored.

        Args:
            run: whose steps they are.
            graphs: of the train steps first, so that what is added to others changes no name.

        Raises:
            UsageError: one that was restored isn't there, or has another shape.
        """
        found = unique(v for graph in graphs for v in variables_outside(run, graph))
        self._copies = _by_name([v for v in found if _is_number(v.dtype)])
        self._found = {key: copies[0].numpy() for key, copies in self._copies.items()}
        self._set(self._restored)

    def to_save(self) -> dict[str, Any]:
        """What `restore` takes: values, as JSON.

        A callback may have set one before it was found, so its value then says nothing; but that
        of a large one, such as a table, is left out while it stays, unless a callback was called
        before.
        """
        now = {key: copies[0].numpy() for key, copies in self._copies.items()}
        return {
            key: (value.astype("f4") if value.dtype == "bfloat16" else value).tolist()
            for key, value in now.items()
            if value.size <= SMALL
            or self.may_have_changed
            or not np.array_equal(value, self._found[key])
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Set the variables to what `to_save` returned, once they are found.

        Raises:
            UsageError: one isn't there, or has another shape.
        """
        self._restored = saved
        if self._found:
            self._set(saved)

    @property
    def is_waiting(self) -> bool:
        """Whether something was restored that isn't found yet."""
        return bool(self._restored) and not self._found

    def require_weights(self, run: Run) -> None:
        """Refuse models that read what only steps find and set, unless it has that value now.

        Models whose inputs Keras doesn't know are taken as they are.

        Raises:
            UsageError: a model reads a variable that is none of its weights.
        """
        if not self.is_waiting:
            return
        for name, model in run.trained_models.items():
            if not getattr(model, "inputs", None):
                continue
            inputs = keras.tree.map_structure(
                lambda t: tf.TensorSpec(t.shape, t.dtype), input_of(model)
            )
            call = tf.function(lambda x, model=model: model(x, training=False), autograph=False)
            graph = call.get_concrete_function(inputs).graph
            read = _by_name([v for v in variables_outside(run, graph) if _is_number(v.dtype)])
            if found := [key for key, copies in read.items() if not self._would_stay(key, copies)]:
                raise UsageError(
                    f"The model {name} reads the variable {found[0]}, which is none of its "
                    "weights, so its value isn't known here; make it by add_weight of a layer, and "
                    "train anew."
                )

    def _would_stay(self, key: str, copies: list[tf.Variable]) -> bool:
        now = copies[0].numpy()
        if key not in self._restored:  # as a large one that hasn't changed
            return bool(now.size > SMALL)
        return np.array_equal(np.asarray(self._restored[key]).astype(now.dtype), now)

    def _set(self, saved: dict[str, Any]) -> None:
        for key, value in saved.items():
            if key not in self._copies or np.shape(value) != self._found[key].shape:
                raise UsageError(
                    f"The run can't be continued: no step reads the variable {key} as it was, "
                    "which belongs to no model; start a new run, or set it back."
                )
            for copy in self._copies[key]:
                copy.assign(tf.constant(value, copy.dtype))


def variables_outside(run: Run, graph: tf.Graph) -> list[tf.Variable]:
    """What a graph reads beside the variables of the run and of the engine, as it was traced."""
    local = run.strategy.experimental_local_results
    metrics = (*run.metrics.values(), *run.evaluation_metrics.values())
    owned = [v for o in (*run.models.values(), *metrics) for v in o.variables]
    owned += [v for optimizer in run.optimizers.values() for v in all_variables(optimizer)]
    known = {id(copy) for v in owned for copy in local(v.value)} | {*_OF_ENGINE.keys()}
    by_handle = {id(v.handle): v for v in graph.variables if id(v) not in known}
    return [by_handle[id(t)] for t, _ in graph.captures if id(t) in by_handle]


def _is_number(dtype: tf.DType) -> bool:
    return dtype.is_integer or dtype.is_floating or dtype.is_bool


def held_by_layers(run: Run) -> list[str]:
    """The attributes of layers that are a tf.Variable, which Keras neither trains nor saves."""
    return [
        f"{layer.name}.{name}"
        for layer in run.layers
        for name, value in vars(layer).items()
        if isinstance(value, tf.Variable)
    ]


def _by_name(variables: list[tf.Variable]) -> dict[str, list[tf.Variable]]:
    """Variables in the order of a trace, each with its copies on other replicas, if it has any."""
    groups: dict[str, list[tf.Variable]] = {}
    mirrored = defaultdict[str, list[list[tf.Variable]]](list)  # made in the strategy's scope
    times = Counter[str]()
    for variable in sorted(variables, key=lambda v: bool(COPY.search(v.name))):
        name, number = COPY.sub("", variable.name), times[variable.name]
        times[variable.name] += 1
        if name != variable.name and number < len(mirrored[name]):
            mirrored[name][number].append(variable)
            continue
        key = variable.name.removesuffix(":0")
        groups[f"{key} {number + 1}" if number else key] = group = [variable]
        if getattr(variable, "_distribute_strategy", None) is not None:  # nothing public tells it
            mirrored[name].append(group)
    return groups
