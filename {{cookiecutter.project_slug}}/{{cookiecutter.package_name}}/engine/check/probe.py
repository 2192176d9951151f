"""A train step as a graph that also returns intermediate values."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from ..distributed_steps import DistributedSteps
from ..progress import Progress
from ..types import Replica, Run, Step
from .graph import (
    added_to_candidates,
    captured,
    codes_of_classes,
    compared_with_themselves,
    crossed_shares,
    drawn_alike_on_replicas,
    drawn_codes,
    drawn_twice,
    indicators_of_missing,
    ranges_of_logits,
    scaled_by_constants,
    upstream,
)
from .numbers import TOLERANCE, Numbers, different, relative_difference

IN_PARTS = tf.SparseTensor | tf.RaggedTensor  # which are no tensors, and not nested either
MOST_LATER = 4  # calls of a loss after its first one that are recorded
WITHOUT_GRADIENT = ("StopGradient", "Round", "Rint", "Floor", "Ceil", "Sign")


class Look(NamedTuple):
    """One train step of a batch, computed but not committed."""

    counted: int  # the largest count in the batch over the losses and terms
    losses: Numbers  # by optimizer, and the terms
    gradients: dict[str, list[np.ndarray]]  # by optimizer
    metrics: Numbers  # results after this step alone
    finite: bool  # whether losses and gradients are
    kept: dict[int, tf.Tensor]  # what it writes, by id of the variable; without metrics
    calls: dict[str, tuple[Any, ...]]  # of losses, the first: (labels, predictions, result)
    updates: dict[str, tuple[Any, ...]]  # of metrics, the first: (values, ..., weights or None)
    drawn: dict[str, np.ndarray]  # some of the numbers from each random operation
    outputs: list[np.ndarray]  # the first one of the only trained model, if it is one tensor
    later_calls: dict[str, list[tuple[Any, ...]]]  # of losses, as for other heads of a model
    codes: list[list[np.ndarray]]  # see `graph.drawn_codes`
    ranges: list[np.ndarray]  # see `graph.ranges_of_logits`
    pairs: list[np.ndarray]  # see `graph.compared_with_themselves`
    scaled: list[list[np.ndarray]]  # see `graph.scaled_by_constants`
    added: list[np.ndarray]  # see `graph.added_to_candidates`
    classes: list[np.ndarray]  # see `graph.codes_of_classes`
    crossed: list[np.ndarray]  # see `graph.crossed_shares`
    missing: list[np.ndarray]  # see `graph.indicators_of_missing`

    @property
    def all_calls(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The first and the later calls of losses, with their names."""
        later = [(name, call) for name, calls in self.later_calls.items() for call in calls]
        return [*self.calls.items(), *later]

    def differences(self, other: Look) -> list[str]:
        """The names of everything that differs in another look."""
        return [
            *["the count"][: self.counted != other.counted],
            *(f"the loss {name}" for name in different(self.losses, other.losses)),
            *(f"the metric {name}" for name in different(self.metrics, other.metrics)),
            *["gradients"][: self.gradients_differ(other)],
        ]

    def gradients_differ(self, other: Look) -> bool:
        """Whether gradients differ by more than rounding."""
        return relative_difference(self.gradients, other.gradients) > 10 * TOLERANCE

    def trains_otherwise(self, other: Look, tolerance: float = 1e-7) -> bool:
        """Whether a loss or a gradient differs.

        Before training, an input that matters little is still used, so the tolerance is small; and
        a last layer that starts at 0 hides the inputs from the loss, but not from its gradient.
        """
        losses_differ = bool(different(self.losses, other.losses, tolerance))
        return losses_differ or self.gradients_differ(other)


class _Recorded:
    """A loss whose calls are recorded: the first one, and some later ones."""

    def __init__(self, name: str, loss: Any, probe: Probe) -> None:
        self._name, self._loss, self._probe = name, loss, probe

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._loss(*args, **kwargs)
        given = (*args, *kwargs.values())
        call = *(*given, None, None)[:2], result
        if self._probe.is_inside(call):
            return result
        first = self._probe._calls.get(self._name)
        # Before may come one for a part, as in MAML.
        if first is None or (not self._is_of_rows(first) and self._is_of_rows(call)):
            first = self._probe._calls[self._name] = call
            self._probe._given[self._name] = given
        later, are_tensors = self._probe._later[self._name], map(tf.is_symbolic_tensor, call[1:])
        if first is not call and len(later) < MOST_LATER and all(are_tensors):
            later.append(call)
        return result

    def _is_of_rows(self, call: tuple[Any, ...]) -> bool:
        layout, shape = self._probe.steps.layout, tf.TensorShape(getattr(call[-1], "shape", None))
        return shape.rank != 0 and shape[:1].as_list() == [layout.per_replica // layout.accumulate]

    def __getattr__(self, name: str) -> Any:
        """An attribute that a task has set, such as a variable."""
        return getattr(self._loss, name)


class Probe:
    """The graph of a train step that also returns intermediate values."""

    def __init__(self, run: Run, steps: DistributedSteps, accumulate: int) -> None:
        # Recorded in a trace.
        self.ops: list[tf.Operation] = []
        self.step = ""  # the name of the operation that holds its number
        self.ops_of_losses: set[str] = set()  # names of operations that losses are computed from
        self.ops_with_slope: set[str] = set()  # those that no stop_gradient comes after
        self.losses_know_step = False  # not only by the seeds of random numbers
        self.read: set[int] = set()  # ids of variables that a loss depends on, by any path
        self.teachable: set[int] = set()  # ids of variables that a loss may have a gradient for
        self.drawn_alike: list[str] = []  # for rows, with the same seed on each replica
        self.drawn_twice: list[list[tf.Operation]] = []  # for one loss, from the same seed
        self.follows: dict[str, str] = {}  # trained models, and the models they average
        self.teaches_nothing: list[str] = []  # loss functions without a gradient
        self.taught_by_trained: list[str] = []  # loss functions whose arguments are swapped
        self.steps_of: dict[str, list[int]] = {}  # the train steps that use an optimizer
        self.sees_training: dict[str, set[bool]] = {}  # values of `training`, by path of the layer
        self.adds_losses = False  # whether a layer calls add_loss
        self.undoes_activations = False  # whether Keras does, where a loss expects logits
        self._calls: dict[str, tuple[Any, ...]] = {}
        self._given: dict[str, tuple[Any, ...]] = {}  # all arguments of these calls
        self._updates: dict[str, tuple[Any, ...]] = {}
        self._outputs: list[tf.Tensor] = []
        self._place: Any = None  # the graph of the step, not those of its loops and branches
        self._later: dict[str, list[tuple[Any, ...]]] = {name: [] for name in run.losses}
        losses: dict[str, Callable[..., Any]] = {
            name: _Recorded(name, loss, self) for name, loss in run.losses.items()
        }
        self.steps = DistributedSteps(
            replace(run, losses=losses),
            steps.layout._replace(accumulate=accumulate),
            constant_denominator=steps.constant_denominator,
        )
        self.graph = tf.function(self._step, autograph=False)
        self._of_replica: set[str] = set()  # operations that give each replica a different seed
        capture = self.steps.transaction.capture
        capture.call = self._seeds_recorded(capture.call)  # type: ignore[method-assign]

    def _seeds_recorded(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(step: Step, batch: Any, replica: Replica, **values: Any) -> Any:
            replica = replica._replace(index=tf.identity(replica.index))  # otherwise a constant
            self._of_replica |= {
                value.op.name for value in (replica.seed, replica.index, values["seeds"])
            }
            return call(step, batch, replica, **values)

        return recorded

    def is_inside(self, made: Any) -> bool:
        """Whether a loop or a branch has computed something, which the step can't return."""
        tensors = filter(tf.is_symbolic_tensor, tf.nest.flatten(made, expand_composites=True))
        return any(tensor.graph is not self._place for tensor in tensors)

    def _step(self, batch: Any, progress: Progress) -> Any:
        run, self._place = self.steps.run, tf.compat.v1.get_default_graph()
        with (
            metrics_recorded(run, self._updates),
            self._outputs_recorded(run),
            layers_recorded(run, self.sees_training),
            self._add_loss_recorded(),
        ):
            local = tf.nest.map_structure(lambda t: t[0], batch)
            reduced = [
                self.steps.reduce(i, local, progress) for i in range(len(run.functions.train_steps))
            ]
        self._forget_what_is_not_compared()
        self.ops = operations = self._place.get_operations()
        losses = [loss for of_step in reduced for loss in of_step.losses.values()]
        self.ops_of_losses = set(upstream(losses))
        stops = frozenset(op.name for op in operations if op.type == "StopGradient")
        self.ops_with_slope = set(upstream(losses, stops))
        draws = frozenset(op.name for op in operations if op.type.startswith("StatelessRandom"))
        step = self.step = progress.step.op.name
        self.losses_know_step = step in upstream(losses, draws)
        self.read = self._with_path(losses, frozenset())
        self.teachable = self._teachable(losses)
        self.drawn_alike = drawn_alike_on_replicas(operations, self._of_replica, step)
        self.drawn_twice = [
            same for loss in losses for same in drawn_twice(upstream([loss]).values())
        ]
        self.follows = self._followed(reduced)
        self.teaches_nothing = self._without_gradient(reduced)
        self.taught_by_trained = self._taught_by_trained()
        self.steps_of = {
            name: [i for i, of_step in enumerate(reduced) if name in of_step.gradients]
            for name in run.optimizers
        }
        drawn = {
            op.name: tf.reshape(tf.cast(op.outputs[0], tf.float64), [-1])[:8]
            for op in operations
            if op.type.startswith("StatelessRandom") and op.outputs[0].dtype.is_floating
        }
        seen = self._calls, self._updates, drawn, self._outputs, self._later
        of_graph = (
            drawn_codes, ranges_of_logits, compared_with_themselves, scaled_by_constants,
            added_to_candidates, codes_of_classes, crossed_shares, indicators_of_missing,
        )  # fmt: skip
        return reduced, *seen, *(make(operations) for make in of_graph)

    def _forget_what_is_not_compared(self) -> None:
        """Keep no labels and predictions of a loss whose first two arguments aren't these."""
        for name, given in self._given.items():
            # A model, or a function of it, as in the residual of a differential equation.
            if any(map(callable, given)) or self._comes_third(given):
                self._calls[name] = None, None, self._calls[name][-1]
                self._later[name].clear()

    def _comes_third(self, given: tuple[Any, ...]) -> bool:
        """Whether predictions follow two labels, as the time and the event of survival analysis."""
        if len(given) < 3:
            return False
        models = self.steps.run.models.values()
        read = _read_by_graph(v for model in models for v in model.variables)
        return [
            tf.is_symbolic_tensor(each) and bool(read & upstream([each]).keys())
            for each in given[:3]
        ] == [False, False, True]

    def _taught_by_trained(self) -> list[str]:
        """Loss functions whose labels depend on trainable weights, but whose predictions don't.

        The predictions come from a model that isn't trained.
        """
        run = self.steps.run
        others = [model for model in run.models.values() if not model.trainable_variables]
        if not others:
            return []
        trained = _read_by_graph(run.trainable_variables)
        fixed = _read_by_graph(v for model in others for v in model.variables)
        found = []
        later = [(name, call) for name, calls in self._later.items() for call in calls]
        for name, (*pair, _) in [*self._calls.items(), *later]:
            if not all(map(tf.is_symbolic_tensor, pair)):
                continue
            of_labels, of_predictions = ({*upstream([each])} for each in pair)
            if trained & of_predictions and (trained | fixed) & of_labels:
                return []  # it teaches in the other direction as well
            if trained & of_labels and fixed & of_predictions and not trained & of_predictions:
                found.append(name)
        # Together with the entropy of the trained model, it is a divergence.
        logarithms = (op for op in self.ops if op.type in ("Log", "LogSoftmax"))
        behind = (upstream(op.inputs) for op in logarithms if not op.name.startswith("gradient"))
        return [] if found and any(trained & ops.keys() for ops in behind) else found

    def _teachable(self, losses: list[tf.Tensor]) -> set[int]:
        """The ids of variables with a path to losses on which no operation has no gradient."""
        ends = frozenset(
            op.name for op in self.ops
            if op.type in WITHOUT_GRADIENT
            or (op.outputs and all(t.dtype.is_integer or t.dtype.is_bool for t in op.outputs))
        )  # fmt: skip
        return self._with_path(losses, ends)

    def _with_path(self, losses: list[tf.Tensor], ends: frozenset[str]) -> set[int]:
        """The ids of trainable variables with a path to losses that avoids some operations."""
        found, inside = upstream(losses, ends), captured(tf.compat.v1.get_default_graph())
        trained = self.steps.run.trainable_variables
        return {id(v) for v in trained if inside.get(id(v.value.handle)) in found}

    def _without_gradient(self, reduced: list[Any]) -> list[str]:
        """Loss functions that an optimizer's loss has in it, without a gradient for its weights."""
        run = self.steps.run
        stops = frozenset(op.name for op in self.ops if op.type == "StopGradient")
        later = [(name, call) for name, calls in self._later.items() for call in calls]
        calls = [(name, result) for name, (*_, result) in [*self._calls.items(), *later]
                 if stops and tf.is_symbolic_tensor(result)]  # fmt: skip
        found = []
        for of_step in reduced:
            for optimizer in of_step.losses.keys() & run.optimizers.keys():
                trained = _read_by_graph(run.variables_of(optimizer))
                added = upstream([of_step.losses[optimizer]], stops)
                found += [
                    name
                    for name, result in calls
                    if result.op.name in added
                    and trained & upstream([result]).keys()
                    and not trained & upstream([result], stops).keys()
                ]
        return found

    def _followed(self, reduced: list[Any]) -> dict[str, str]:
        """Trained models whose weights a step sets from those of another one: the names of both."""
        run, found = self.steps.run, dict[str, str]()
        weights = {name: model.trainable_variables for name, model in run.trained_models.items()}
        reads = {name: _read_by_graph(variables) for name, variables in weights.items()}
        names = {id(v): name for name, variables in weights.items() for v in variables}
        writable = self.steps.transaction.capture.writable
        for of_step in reduced:
            for v, value in zip(writable, of_step.writes, strict=True):
                if value is not None and (own := names.get(id(v))):
                    ops = upstream([value])
                    for other, handles in reads.items():
                        if other != own and ops.keys() & handles:
                            found[own] = other
        return found

    def _outputs_recorded(self, run: Run) -> contextlib.AbstractContextManager[None]:
        model, *others = run.trained_models.values()

        def recorded(_: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                made = plain(*args, **kwargs)
                is_first = tf.is_tensor(made) and not (others or self._outputs)
                if is_first and not self.is_inside(made):
                    self._outputs.append(made)
                return made

            return call

        return replaced([(model, "call")], recorded)

    def _add_loss_recorded(self) -> contextlib.AbstractContextManager[None]:
        def recorded(_: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
            def add_loss(layer: keras.layers.Layer, loss: Any) -> None:
                self.adds_losses = True
                plain(layer, loss)

            return add_loss

        return replaced([(keras.layers.Layer, "add_loss")], recorded)


def _read_by_graph(variables: Iterable[keras.Variable]) -> set[str]:
    """The names of the placeholders through which the current graph reads some variables."""
    inside = captured(tf.compat.v1.get_default_graph())
    return {name for v in variables if (name := inside.get(id(v.value.handle)))}


def metrics_recorded(
    run: Run, updates: dict[str, tuple[Any, ...]]
) -> contextlib.AbstractContextManager[None]:
    """Record the arguments of the first update of each metric."""
    names = {id(metric): name for name, metric in run.metrics.items()}

    def recorded(metric: Any, update: Callable[..., Any]) -> Callable[..., Any]:
        name = names[id(metric)]

        def call(*args: Any, **kwargs: Any) -> Any:
            values = [*args, *kwargs.values()]
            has_parts = any(tf.nest.is_nested(v) or isinstance(v, IN_PARTS) for v in values)
            if name not in updates and not has_parts:
                updates[name] = tuple(
                    None if v is None else tf.convert_to_tensor(v) for v in values
                )
            return update(*args, **kwargs)

        return call

    return replaced([(metric, "update_state") for metric in run.metrics.values()], recorded)


def layers_recorded(
    run: Run, seen: dict[str, set[bool]], calls: Counter[str] | None = None
) -> contextlib.AbstractContextManager[None]:
    """Record the value of `training` in each call of a layer without inner layers."""

    def recorded(layer: keras.layers.Layer, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            seen.setdefault(name_of(layer), set()).add(bool(kwargs.get("training")))
            if calls is not None:
                calls[name_of(layer)] += 1
            return function(*args, **kwargs)

        return call

    return replaced([(x, "call") for x in run.layers if cares_about_training(x)], recorded)


@contextlib.contextmanager
def replaced(
    places: Iterable[tuple[Any, str]], wrap: Callable[[Any, Callable[..., Any]], Any]
) -> Iterator[None]:
    """Replace functions of objects, classes or modules by `wrap` of each and its owner."""
    # Owners by id: models may share a layer, and a metric may have two names.
    owners = {(id(owner), name): owner for owner, name in places}
    with contextlib.ExitStack() as stack:
        for (_, name), owner in owners.items():
            new = wrap(owner, getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, new))
        yield


def name_of(layer: keras.layers.Layer) -> str:
    """The path of a layer; its name if it has no path, such as Dropout (Keras 3.15)."""
    return str(layer.path or layer.name)


def words_of(name: str, characters: str = "a-z") -> set[str]:
    """The words in a name, such as that of a model or an operation; `a-z0-9` keeps f1 whole."""
    return set(re.split(f"[^{characters}]+", name.lower()))


def is_own(thing: object) -> bool:
    """Whether a layer, a loss or a metric has another class than those of Keras."""
    return not type(thing).__module__.startswith("keras.")


def cares_about_training(layer: keras.layers.Layer) -> bool:
    """Whether a layer itself, not its inner layers, behaves differently in training."""
    kinds = keras.layers
    if isinstance(layer, kinds.RNN) and not is_own(layer):  # a GPU may not call its cell
        return any(map(_drops, layer._flatten_layers()))
    if layer._layers:
        return isinstance(layer, kinds.SpectralNormalization)
    if isinstance(layer, kinds.BatchNormalization):
        return True
    if isinstance(layer, kinds.Dropout | kinds.GaussianDropout | kinds.AlphaDropout):
        return bool(layer.rate)
    if isinstance(layer, kinds.GaussianNoise):
        return bool(layer.stddev)
    if is_own(layer):
        return "training" in inspect.signature(type(layer).call).parameters
    return _drops(layer) or hasattr(layer, "generator")  # as RandomFlip and the like have


def _drops(layer: keras.layers.Layer) -> bool:
    """Whether a cell or an attention layer of Keras has its own dropout."""
    return any(bool(getattr(layer, rate, 0)) for rate in ("dropout", "recurrent_dropout"))
