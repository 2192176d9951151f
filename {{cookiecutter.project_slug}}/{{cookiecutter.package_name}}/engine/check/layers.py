"""Relations of the models' layers and variables."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..outside import variables_outside
from ..randomness import HALVES
from .findings import Finding, look, ok, relation, wrong
from .functions import named_by_callbacks
from .graph import assigned_variables, captured, exchanged_by_reshape
from .laboratory import Laboratory
from .numbers import LEAST_SIZE
from .probe import cares_about_training, is_own, name_of, words_of

MOST_DROPPED = 0.75
RATES = {"rate", "prob", "probability", "path"}
TAUGHT_BY = {"target", "teacher"}
DROPPING = (keras.layers.Dropout, keras.layers.GaussianDropout, keras.layers.AlphaDropout)
NORMALIZATIONS = (keras.layers.BatchNormalization, keras.layers.GroupNormalization)
FORMATS = ("channels_first", "channels_last")
MERGING = {"Add", "Average", "Maximum", "Minimum"}  # layers, and operations
MOVING_AXES = {"Permute", "Transpose", "Moveaxis", "Swapaxes", "Lambda"}


@relation("training mode")
def training_mode(lab: Laboratory) -> Finding:
    """The train step runs dropout and similar layers in training mode, and uses all models."""
    layers, modes = lab.sensitive_layers, lab.traced.sees_training
    seen = {path: modes[path] for path in layers if path in modes}
    trained = [path for path in seen if layers[path].trainable]
    off = [path for path in trained if seen[path] == {False}]
    if found := _unused_layer(lab):
        unused, is_sure = found
        return (wrong if is_sure else look)(
            f"{unused.name} is called in create_model, but is part of no model",
            "its output isn't used",
            f"use its output, as in x = layers.{type(unused).__name__}(...)(x)",
        )
    if twice := _merged_with_itself(lab):
        return wrong(
            f"{twice} gets the same tensor twice",
            "one of the two is meant to be another, such as the shortcut of a residual block",
            "give it both; multiply by 2 if that is intended",
        )
    if idle := _unused_model(lab):
        is_sure = bool(words_of(idle) & TAUGHT_BY)
        return (wrong if is_sure else look)(
            f"no loss depends on the model {idle!r}, which is frozen, and evaluation doesn't call "
            "it",
            "a step calls another model in its place",
            f"use it, or leave {idle!r} out of create_model",
        )
    if off and off == trained:
        # Fine-tuning may keep the statistics of normalization layers.
        are_kept = any(
            isinstance(layer, keras.layers.BatchNormalization) and lab.was_trained(layer)
            for layer in map(layers.get, trained)
        )
        return (look if are_kept else wrong)(
            f"{off[0]} is called with training=False in the train step",
            "the model isn't called in training mode",
            "call it with training=True in the train step",
        )
    if overruled := _overruled(lab):
        return look(
            f"{overruled} is in training mode although its model is called with training=False",
            "an outer training=True overrides an inner training=False (Keras 3.15)",
            "set trainable = False on it, which also keeps BatchNormalization in inference mode",
        )
    if dropped := _dropped_output(lab):
        layer, of = dropped
        return wrong(
            f"{name_of(layer)} drops outputs of {of!r}, which a loss compares with labels",
            "it comes after the last layer with weights, and sets predictions to 0",
            "put it before that layer",
        )
    if name := _drops_what_to_keep(lab):
        rate = getattr(lab.task, name)
        return wrong(
            f"{name} is {rate:g}, and layers drop {1 - rate:.0%} of their inputs",
            "Dropout takes the share that is dropped, not the one that is kept",
            f"pass {name} itself",
        )
    for path, layer in layers.items():
        if isinstance(layer, keras.layers.Dropout) and layer.rate > MOST_DROPPED:
            return look(
                f"{path} drops {layer.rate:.0%} of its inputs",
                "the rate is the share that is dropped, not the one that is kept",
                f"use Dropout({1 - layer.rate:.2g}) if that is intended",
            )
    return ok(f"{len(seen)} layers" if seen else "no layer needs it")


@relation("axes of layers")
def axes_of_layers(lab: Laboratory) -> Finding:
    """The layers of a model agree on the axis of the channels, and no reshape exchanges axes."""
    if found := exchanged_by_reshape(lab.traced.ops, lab.rows):
        given, made, is_sure = found
        return (wrong if is_sure else look)(
            f"the train step reshapes axes of sizes {given} to {made}",
            "a reshape keeps the order of the numbers, so axes aren't exchanged but mixed up",
            "transpose them, with layers.Permute or tf.transpose",
        )
    compared = False
    for model in lab.run.models.values():
        layers = list(model._flatten_layers())
        parts = [*layers, *(op for layer in layers for op in getattr(layer, "operations", []))]
        if MOVING_AXES & {type(part).__name__ for part in parts}:
            continue
        of_images = [layer for layer in layers if _rank(layer) > 3]
        formats = {layer.data_format: layer for layer in reversed(of_images)
                   if getattr(layer, "data_format", None) in FORMATS}  # fmt: skip
        compared = compared or bool(formats)
        finding = look if any(map(is_own, layers)) else wrong  # which may move axes
        if len(formats) > 1:
            first, last = map(formats.__getitem__, FORMATS)
            return finding(
                f"{name_of(first)} takes axis 1 for the channels, and {name_of(last)} the "
                "last axis",
                "one of them treats rows of an image as if they were its channels",
                "use the same data_format in all layers",
            )
        first = formats.get("channels_last")
        # Before the first convolution it may be meant, as for each frequency of a spectrogram.
        for layer in of_images[of_images.index(first) + 1 :] if first else ():
            if isinstance(layer, NORMALIZATIONS):
                (axis,) = layer.input_spec.axes
                if 0 < axis < _rank(layer) - 1:
                    return finding(
                        f"{name_of(layer)} normalizes along axis {axis}, and "
                        f"{name_of(formats['channels_last'])} takes the last axis for the channels",
                        "each row of an image has a mean and a scale of its own, not each channel",
                        "use axis=-1",
                    )
    return ok("" if compared else "no layer has channels of images")


def _rank(layer: keras.layers.Layer) -> int:
    """The number of axes of the inputs that a layer takes, as far as it says; 0 if it doesn't."""
    spec = layer.input_spec
    return getattr(spec, "ndim", None) or getattr(spec, "min_ndim", None) or 0


def _unused_model(lab: Laboratory) -> str:
    """A frozen model that neither a loss nor an evaluation uses; or ""."""
    inside = captured(lab.traced.ops[0].graph)
    read = {v for v in inside if inside[v] in lab.traced.ops_of_losses}
    idle = {name: model for name, model in lab.run.models.items()
            if model.variables and not model.trainable_variables
            and not any(id(v.value.handle) in read for v in model.variables)}  # fmt: skip
    functions = lab.run.functions
    steps = {functions.validation_step, functions.test_step} if lab.evaluated_splits else ()
    if not idle or not steps:
        return next(iter(idle), "")
    batch, watched = lab.evaluation_batch, [*idle.values()]
    calls = [lab.calls(step, lab.on_one.run, batch, watched) for step in steps]
    called = {id(call.of) for of_step in calls for call in of_step}
    return next((name for name, model in idle.items() if id(model) not in called), "")


def _drops_what_to_keep(lab: Laboratory) -> str:
    """A setting for dropout that is x where layers drop 1 - x, and none drops x; or "".

    Another setting that is 1 - x tells that rate.
    """
    rates = np.array([layer.rate for layer in lab.run.layers if isinstance(layer, DROPPING[0])])
    names = [field.name for field in dataclasses.fields(lab.task)]
    shares = {n: x for n in names if isinstance(x := getattr(lab.task, n), float) and 0 < x < 1}
    for name, share in shares.items():
        words = words_of(name)
        # Not what falls or drops elsewhere, as a learning rate after a share of the run.
        is_rate = "dropout" in words or ("drop" in words and words & RATES)
        is_dropped, is_kept = (np.isclose(rates, x).any() for x in (share, 1 - share))
        is_told = any(np.isclose(other, 1 - share) for other in shares.values())
        if is_rate and is_kept and not (is_dropped or is_told):
            return name
    return ""


def _dropped_output(lab: Laboratory) -> tuple[keras.layers.Layer, str] | None:
    """A layer that drops outputs of a model, which a loss compares with labels; and that model."""
    given = [np.asarray(leaf[0]) for leaf in tf.nest.flatten(lab.batch[1:-1])]
    compared = [np.shape(predictions) for labels, predictions, _ in lab.base.calls.values()
                if any(np.array_equal(labels, each) for each in given)]  # fmt: skip
    for name, model in lab.run.trained_models.items():
        for output in tf.nest.flatten(getattr(model, "outputs", None) or []):
            last, node, _ = output._keras_history
            while isinstance(last, keras.layers.Activation | keras.layers.Softmax):
                last, node, _ = last._inbound_nodes[node].input_tensors[0]._keras_history
            is_compared = any(shape[1:] == output.shape[1:] for shape in compared)
            if is_compared and isinstance(last, DROPPING) and cares_about_training(last):
                return last, name
    return None


@relation("variables")
def variables(lab: Laboratory) -> Finding:
    """A step uses only variables of models and metrics."""
    if names := assigned_variables(lab.traced.ops):
        return wrong(
            f"the step assigns {names[0]}",
            "a tf.Variable that the engine does not track: it isn't saved, and replicas differ",
            "use replica.step, a Keras weight created with add_weight, or a metric",
        )
    inside = captured(lab.traced.ops[0].graph)
    unknown = [v for v in lab.unknown_variables  # that the losses follow from
               if v.trainable and inside.get(id(v.handle)) in lab.traced.ops_of_losses]  # fmt: skip
    if unknown:
        _, held = named_by_callbacks(lab.create_callbacks())  # which a checkpoint keeps
        unknown = [v for v in unknown if not any(v is each for each in held)]
    if unknown:
        in_lambdas, untracked = _read_in_lambdas(lab), _untracked(lab)
        alone = [v for v in unknown
                 if id(v) in in_lambdas or "/" not in v.name or id(v) in untracked]  # fmt: skip
        # Variables of layers may belong to a model that a metric or a loss uses unchanged.
        return (wrong if alone else look)(
            f"the step reads {(alone or unknown)[0].name.partition(':')[0]}, which is part of no "
            "model",
            "no optimizer trains it: it was created in a loss, inside a Lambda layer, or as a "
            "tf.Variable, which Keras 3 doesn't track",
            "create it in a layer of a model, with add_weight"
            if alone
            else "keep its layer as an attribute of a model, or freeze it with load_frozen",
        )
    return ok()


def _read_in_lambdas(lab: Laboratory) -> set[int]:
    """The ids of variables that models with a Lambda layer read, but don't have."""
    found = set[int]()
    models = [
        model
        for model in lab.run.trained_models.values()
        if any(isinstance(layer, keras.layers.Lambda) for layer in model._flatten_layers())
    ]
    for call in lab.training_calls(lab.batch, models) if models else ():
        function = tf.function(call.of, autograph=False)
        graph = function.get_concrete_function(*call.arguments, **call.keywords).graph
        found |= {id(v) for v in variables_outside(lab.run, graph)}
    return found


@relation("precision")
def precision(lab: Laboratory) -> Finding:
    """Layers compute in the precision of the run, and the last ones in full precision."""
    for layer in lab.run.layers:
        own = layer.compute_dtype
        is_less = own not in (lab.precision, "float32", "float64")
        if layer.variables and (is_less or (own == "float32" and lab.precision == "float64")):
            return look(
                f"{layer.path} computes in {own}, the run in {lab.precision}",
                "a model loaded from a file keeps its own dtype (Keras 3.15)",
                "set its dtype policy when it is loaded",
            )
    if dtype := _half_outputs(lab):
        return look(
            f"what the models return is in {dtype}",
            f"a layer has the dtype of --precision {lab.precision} unless it is given one, and "
            "losses, metrics and predictions then have 3 or 4 digits or fewer",
            "give the model's last layer dtype=keras.config.floatx()",
        )
    return ok(lab.precision)


@relation("loaded weights")
def loaded_weights(lab: Laboratory) -> Finding:
    """Weights that `create_model` loads are in a model of the run."""
    values = [lab.initial[id(v)] for v in lab.variables(lab.one) if len(v.shape) > 1]
    values = [b for b in values if b.size >= LEAST_SIZE and np.ptp(b)]
    loaded = lab.loaded or lab.assigned
    matrices = [a for a in loaded if a.ndim > 1 and a.size >= LEAST_SIZE and np.ptp(a)]
    known = [[b for b in values if b.shape == a.shape] for a in matrices]
    pairs = ((a, b) for a, of_shape in zip(matrices, known, strict=True) for b in of_shape)
    if not matrices or np.mean([bool(of_shape) for of_shape in known]) < 0.8:
        return ok()  # they were transformed into something else
    # Weights may be changed a little, or averaged with others.
    if any(abs(np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]) > 0.3 for a, b in pairs):
        return ok()
    return wrong(
        "create_model loads weights, but layers of the same shapes start with other values",
        "the loaded weights are lost: clone_model copies none, and new layers draw their own",
        "use the loaded model, or copy its weights with set_weights",
    )


def _half_outputs(lab: Laboratory) -> str:
    """The dtype of what all models return, if it has 16 bits; or "".

    A model may hand on what it returns to another one.
    """
    if tf.as_dtype(lab.precision) not in HALVES:
        return ""
    dtypes = [
        tf.as_dtype(output.dtype)
        for model in lab.in_own_precision.models.values()
        for output in tf.nest.flatten(getattr(model, "outputs", None) or [])
    ]
    floats = [dtype for dtype in dtypes if dtype.is_floating]
    return str(floats[0].name) if floats and all(dtype in HALVES for dtype in floats) else ""


def _overruled(lab: Laboratory) -> str:
    """A layer in training mode inside a model that is called with training=False; or ""."""
    for model in lab.run.models.values():
        for inner in getattr(model, "operations", []):
            calls = inner._inbound_nodes if isinstance(inner, keras.Model) else []
            if not any(node.arguments.kwargs.get("training") is False for node in calls):
                continue
            for layer in inner._flatten_layers():
                if layer.trainable and True in lab.traced.sees_training.get(name_of(layer), set()):
                    return name_of(layer)
    return ""


def _unused_layer(lab: Laboratory) -> tuple[keras.layers.Layer, bool] | None:
    """A layer that is called on the output of a model's layer, but is part of no model; or None.

    And whether this must be an oversight: a layer that changes the shape may be a head that is
    switched off, or be used for its output shape.
    """
    models = lab.run.models.values()
    parts = [layer for model in models for layer in model._flatten_layers()]
    parts += [part for model in [*parts] for part in getattr(model, "operations", [])]
    known = lab.in_models.union(map(id, parts))
    last = {id(t) for model in models for t in getattr(model, "outputs", None) or []}
    found = []
    for node in itertools.chain(*(getattr(part, "_outbound_nodes", []) for part in parts)):
        other = node.operation
        if id(other) in known or other._outbound_nodes or not isinstance(other, keras.layers.Layer):
            continue
        is_sensitive = cares_about_training(other)
        keeps_shape = [t.shape for t in node.input_tensors] == [t.shape for t in node.outputs]
        is_simple = all(len(v.shape) < 2 for v in other.variables)
        if is_sensitive or not last.intersection(map(id, node.input_tensors)):
            found.append((other, is_sensitive or (keeps_shape and is_simple)))
    return max(found, key=lambda each: each[1]) if found else None


def _merged_with_itself(lab: Laboratory) -> str:
    """A sum, average, maximum or concatenation of one tensor and itself in a model; or "".

    Not a product, which may be a square, nor a difference, which may make zeros.
    """
    layers = (layer for model in lab.run.models.values() for layer in model._flatten_layers())
    for parts in (getattr(layer, "operations", []) for layer in layers):
        for node in itertools.chain(*(part._inbound_nodes for part in parts)):
            part, ids = node.operation, [*map(id, node.input_tensors)]
            if len(set(ids)) == len(ids):
                continue
            after = [n.operation for n in part._outbound_nodes if n.operation in parts]
            if type(part).__name__ in MERGING or _widens_in_vain(node, after):
                return str(part.name)
    return ""


def _widens_in_vain(node: Any, after: list[Any]) -> bool:
    """Whether it concatenates channels for layers that weigh them, which gain nothing by copies.

    One channel may be repeated for a layer that takes three, and all for a wider shortcut.
    """
    part, shape = node.operation, node.outputs[0].shape
    if type(part).__name__ != "Concatenate" or part.axis not in (-1, len(shape) - 1):
        return False
    return shape[-1] > len(node.input_tensors) and all(hasattr(each, "kernel") for each in after)


def _untracked(lab: Laboratory) -> set[int]:
    """The ids of variables of TensorFlow that layers hold, alone or in a list or dict."""
    held = [value for layer in lab.run.layers for value in vars(layer).values()]
    held += [v for value in held if isinstance(value, list | tuple) for v in value]
    held += [v for value in held if isinstance(value, dict) for v in value.values()]
    return {id(value) for value in held if isinstance(value, tf.Variable)}
