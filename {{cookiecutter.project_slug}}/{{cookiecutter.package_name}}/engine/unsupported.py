"""Refuses settings that are wrong on several replicas, before the first step, with the fix.

A rule holds on one replica too, so that a task that runs on a laptop runs on any number of devices.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras.optimizers.schedules import LearningRateSchedule

from .auxiliary import is_auxiliary
from .batches import is_sharded
from .data_errors import split_label
from .errors import UsageError, require_call
from .gradients import all_optimizers
from .run_files import SPLITS
from .step_log import OF_STEPS
from .types import MADE_BY, Run, step_name
from .versions import is_older

CLIPS = "clips each replica's gradients before they are summed; use "
# What Keras does inside `apply` comes too early or fails on more than one replica (Keras 3.15).
OPTIMIZER_ARGUMENTS = {
    "clipnorm": CLIPS + "--clip-norm, or change its default in config.py",
    "global_clipnorm": CLIPS + "--clip-norm, or change its default in config.py",
    "clipvalue": CLIPS + "process_gradients",
    "gradient_accumulation_steps": "fails under a distribution strategy; use --accumulate",
    "loss_scale_factor": "divides gradients of a loss that isn't scaled; use --precision float16",
    "use_ema": "keeps averages of the weights that only fit uses, when it ends; leave it out, and "
    "make the average a model, as docs/tasks.md of the template does",
}


def validate_models(models: Mapping[Any, Any]) -> None:
    """Refuse what isn't a model, or has no weights yet, and models of which none trains.

    Raises:
        UsageError: a factory returns something else, a model that wasn't called, or only models of
            `load_frozen`.
    """
    if not models:
        raise UsageError(f"{MADE_BY['models']} returns a dict without a model.")
    one_or_more = "a keras.Model, or several by name in a dict"
    _require_kind(models, keras.Model, MADE_BY["models"], one_or_more)
    for name, model in models.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise UsageError(
                f"{MADE_BY['models']} calls a model {name!r}; its name must be a text "
                "without a slash, since files are called by it."
            )
        if not model.built:
            raise UsageError(
                f"The model {name!r} ({type(model).__name__}) has no weights yet; call it once on "
                "zeros of the right shape in create_model."
            )
    if all(map(is_auxiliary, models.values())):
        raise UsageError(
            f"{MADE_BY['models']} returns only models of load_frozen, which never train; load the "
            "one that trains by load_in_precision."
        )


def _require_kind(made: Mapping[Any, Any], kind: type, factory: str, wanted: str) -> None:
    """Refuse what a factory returns instead of a `kind`, such as None, a text or a class."""
    for name, one in made.items():
        if not isinstance(one, kind):  # such as a class that isn't called
            raise UsageError(
                f"{factory} returns {_kind(one)} for {name!r}; it must return {wanted}."
            )


def _kind(one: Any) -> str:
    if isinstance(one, type):
        return f"the class {one.__name__}"
    return "None" if one is None else f"a {type(one).__name__}"


def validate_splits(datasets: Any) -> None:
    """Refuse splits of other names, which nothing would read, and functions of other arguments.

    Raises:
        UsageError: `create_datasets` returns no dict, no training data, or such a split.
    """
    if not isinstance(datasets, Mapping) or not {"train"} <= datasets.keys() <= set(SPLITS):
        found = type(datasets).__name__
        if isinstance(datasets, Mapping):
            found = f"splits called {', '.join(map(repr, datasets))}"
        raise UsageError(
            f"create_datasets in task/data.py returns {found}; it must return a dict with 'train' "
            "and, if there are such, 'validation' and 'test'."
        )
    for name, split in datasets.items():
        if inspect.isgeneratorfunction(split):
            raise UsageError(
                f"The {split_label(name)} is a generator; give tf.data.Dataset.from_generator("
                "...), or what has a length and rows."
            )
        if split is not None and is_sharded(split):
            what = f"The {split_label(name)}, called for the part of each worker,"
            require_call(split, "workers, index", what)


def validate_modes() -> None:
    """Refuse switches of TensorFlow that let steps run without graphs, as one may debug them.

    Raises:
        UsageError: one is set.
    """
    if tf.config.functions_run_eagerly():
        raise UsageError(
            "task/ calls tf.config.run_functions_eagerly(True), and steps must be graphs; leave it "
            "out, and show values by tf.print."
        )
    if not tf.executing_eagerly():
        raise UsageError(
            "task/ calls tf.compat.v1.disable_eager_execution() or disable_v2_behavior(), without "
            "which variables have no values; leave it out."
        )


def validate(run: Run) -> None:
    """Refuse what no run of several replicas gets right; before the optimizers are built.

    Raises:
        UsageError: a name, a float8 layer, an activity regularizer, a loss or a metric can't be
            used.
    """
    for what, made in (("losses", run.losses), ("metrics", run.metrics)):
        if not isinstance(made, Mapping):
            raise UsageError(
                f"{MADE_BY[what]} returns a {type(made).__name__}; it must return a dict of "
                f"{what} by name."
            )
    losses: Mapping[str, Any] = run.losses
    for name, loss in losses.items():  # others are the business of the steps
        if loss is None or isinstance(loss, str | type):
            raise UsageError(
                f"{MADE_BY['losses']} returns {_kind(loss)} for {name!r}; it must return losses "
                "that a step can call, by name."
            )
    metric, optimizer = keras.metrics.Metric, keras.optimizers.Optimizer
    one_or_more = "an optimizer of Keras, or several by name in a dict"
    _require_kind(run.metrics, metric, MADE_BY["metrics"], "metrics, by name")
    _require_kind(run.optimizers, optimizer, MADE_BY["optimizers"], one_or_more)
    functions = run.functions
    if not functions.train_steps:
        raise UsageError("TRAIN_STEPS in task/steps.py is empty; write (train_step,).")
    if not isinstance(functions.train_steps, tuple | list):
        raise UsageError("TRAIN_STEPS in task/steps.py is one function; write (train_step,).")
    for step in (*functions.train_steps, functions.validation_step, functions.test_step):
        require_call(step, "run, batch, replica", f"{step_name(step)}, a step,")
    validate_names(run)
    for model in run.trained_models.values():
        for variable in model.trainable_variables:
            if getattr(variable, "overwrite_with_gradient", False):
                raise UsageError(
                    f"{variable.path} belongs to float8, whose layers give new values as gradients "
                    "(Keras 3.15), which are no sums over replicas; use --precision bfloat16."
                )
    if is_older(keras.__version__, (3, 14)):  # later ones divide by the rows
        for layer in run.layers:
            if getattr(layer, "activity_regularizer", None) is not None:
                raise UsageError(
                    f"{layer.name} has an activity_regularizer, which Keras {keras.__version__} "
                    "adds up over the rows of each replica, so that it depends on how many "
                    "replicas there are; install Keras 3.14 or newer, or add its mean over the "
                    "rows by add_loss in a layer of your own."
                )
    validate_losses(run.losses)
    validate_metrics(run.metrics)


def validate_losses(losses: Mapping[str, Any]) -> None:
    """Refuse loss objects that average by themselves.

    Raises:
        UsageError: a loss has a reduction; Keras would divide it by the replica's own batch.
    """
    for name, loss in losses.items():
        reduction = getattr(loss, "reduction", None)
        if reduction not in (None, "none"):
            raise UsageError(
                f"The loss {name!r} has reduction={reduction!r}, which averages over one replica's "
                'batch only; create it with reduction="none" and leave averaging to compute_loss.'
            )


def validate_names(run: Run) -> None:
    """Refuse names under which two numbers would be reported, and optimizers of no model.

    Raises:
        UsageError: a loss, a term or a metric has the name of another number; TERMS is a string;
            one of several optimizers isn't called like a model.
    """
    for name in run.optimizers:
        if len(run.optimizers) > 1 and name not in run.trained_models:
            raise UsageError(
                f"create_optimizer returns one for {name!r}, which is no model of create_model: "
                f"these are {', '.join(map(repr, run.trained_models))}."
            )
    if isinstance(run.terms, str):
        raise UsageError(f"TERMS in task/steps.py is a string; write ({run.terms!r},).")
    for names in (run.returned, [*run.loss_names, *run.metrics, *OF_STEPS]):
        for name in names:
            if names.count(name) > 1:
                raise UsageError(
                    f"Two numbers would be called {name!r}: give optimizers, TERMS in "
                    "task/steps.py and metrics different names."
                )


def validate_metrics(metrics: Mapping[str, keras.metrics.Metric]) -> None:
    """Refuse metrics whose parts on several replicas, or on padded rows, don't add up.

    Raises:
        UsageError: a metric isn't additive, or makes its variables too late.
    """
    for name, metric in metrics.items():
        kind = type(metric).__name__
        if isinstance(metric, keras.metrics.R2Score) and metric.num_regressors:
            raise UsageError(
                f"The metric {name!r} is an R2Score with num_regressors, which counts padding as "
                "examples (Keras 3.15); leave num_regressors out."
            )
        if kind in ("PearsonCorrelation", "ConcordanceCorrelation"):
            raise UsageError(
                f"The metric {name!r} ({kind}) is a mean of correlations within batches, which "
                "depends on how the data is cut into batches; leave it out."
            )
        if any(v.aggregation != "sum" for v in metric.variables):
            raise UsageError(
                f"The metric {name!r} ({kind}) has a variable that isn't summed over the replicas; "
                "make it by add_weight, and from constants no variables."
            )
        if any(v.dtype == "bool" for v in metric.variables):
            raise UsageError(
                f"The metric {name!r} ({kind}) has a variable of bool, which can't be summed over "
                "the replicas; make it of int32 or float32, and count."
            )
        if not metric.variables or getattr(metric, "_built", True) is False:
            raise UsageError(
                f"The metric {name!r} ({kind}) has no variables, or makes them on first use, which "
                "is too late for a train step that can be taken back: make them in __init__ by "
                "add_weight; for one of Keras, in create_metrics call update_state once with zeros "
                "of the right shape, then reset_state, or give an AUC num_labels."
            )


def validate_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuse an optimizer that does by itself what is only right on the summed gradients.

    To be called when it is built: a `MultiOptimizer` knows those inside it only then.

    Raises:
        UsageError: one of its arguments, or its class, has to be replaced by a flag.
    """
    for each in all_optimizers(optimizer):
        if isinstance(each, keras.optimizers.LossScaleOptimizer):
            raise UsageError(
                "create_optimizer returns a LossScaleOptimizer, which looks at replica 0 only "
                "(keras #19891); return the inner optimizer and use --precision float16."
            )
        rate = getattr(each, "_learning_rate", None)
        if callable(rate) and not isinstance(rate, LearningRateSchedule | keras.Variable):
            try:
                inspect.signature(rate).bind()
            except TypeError as error:
                raise UsageError(
                    f"{type(each).__name__} is given a function as its learning rate, which Keras "
                    f"calls without arguments: {error}; write a LearningRateSchedule."
                ) from error
        for argument, reason in OPTIMIZER_ARGUMENTS.items():
            if getattr(each, argument, None):
                raise UsageError(f"{type(each).__name__}({argument}=...) {reason}.")
