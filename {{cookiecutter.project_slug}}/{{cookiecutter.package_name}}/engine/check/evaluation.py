"""Relations of validation and test."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..types import Run
from . import held_out
from .findings import Finding, look, ok, relation, wrong
from .graph import is_compared
from .laboratory import Laboratory, is_slight
from .numbers import different, equal, named_leaves, of_next_row, told_apart, with_array
from .paddings import mask_in, paddings
from .probe import name_of, words_of
from .runs import stage

LEARNED = 0.3  # of a loss
MUCH = 0.2  # of a result; a test may well average more predictions
AUGMENTING = {"noise", "noisy", "jitter", "augment", "augmentation"}  # in names of layers


@relation("evaluation again", evaluates=True)
def evaluation_again(lab: Laboratory) -> Finding:
    """A second evaluation gives the same numbers."""
    if lab.in_evaluation.stateful:
        return wrong(
            f"{lab.in_evaluation.stateful[0]} gives different numbers each time",
            "tf.random.normal, tf.random.categorical and the like ignore the run's seed",
            "use the most likely value, or tf.random.stateless_* with replica.seed",
        )
    once, again = lab.evaluations["once"], lab.evaluations["once more"]
    for name in different(once, again, 1e-7):
        return wrong(
            f"{name} is {once[name]:.6g}, and {again[name]:.6g} the second time",
            "random numbers that don't depend on the position in the data alone, or a state",
            "draw with replica.seed, and keep counters out of the validation step",
        )
    return ok(", ".join(f"{name} {value:.4g}" for name, value in once.items()))


@relation("evaluation on two replicas", after="evaluation again", exact=True, evaluates=True)
def evaluation_on_two(lab: Laboratory) -> Finding:
    """Evaluation on two replicas gives the same numbers as on one."""
    return _same(lab, "on two replicas")


@relation("evaluation in other batches", after="evaluation again", exact=True, evaluates=True)
def evaluation_in_other_batches(lab: Laboratory) -> Finding:
    """Evaluation with another batch size and other padding gives the same numbers."""
    return _same(lab, "in other batches")


def _says_nothing(lab: Laboratory) -> list[str]:
    """Metrics that are 0 or 1 before training, however they are computed, as of a rare class."""
    names = {f"{split}_{name}" for split in lab.evaluated_splits for name in lab.run.metrics}
    once, other = lab.evaluations["once"], lab.evaluations["in other batches"]
    return [name for name in once if name in names and once[name] == other[name] in (0, 1)]


def _same(lab: Laboratory, how: str) -> Finding:
    once, other = lab.evaluations["once"], lab.evaluations[how]
    in_batches = how == "in other batches"
    if in_batches and (says_nothing := _says_nothing(lab)):
        with lab.trained_on_fresh():
            trained = lab.evaluate(lab.on_one), lab.evaluate(lab.in_other_batches)
        once, other = (
            numbers | {name: after[name] for name in says_nothing}
            for numbers, after in zip((once, other), trained, strict=True)
        )
    found = {name: f"{name} is {once[name]:.5g}, and {other[name]:.5g} {how}"
             for name in different(once, other, 1e-3)}  # fmt: skip
    first = next(iter(found.values()), "")
    if lab.declared_interacting:
        in_steps = first and not in_batches and not lab.in_evaluation.drawn
        if in_steps and not different(
            lab.trained_on_one.losses[0], lab.trained_on_two.losses[0], 1e-3
        ):
            return (wrong if lab.interacts else look)(
                f"{first}, but the train step has the same losses on both",
                "the train step gathers the rows of all replicas, but the validation step doesn't",
                "use replica.all_gather there too",
            )
        return ok("not looked at: the task says that its examples interact")
    if first and in_batches and lab.in_evaluation.drawn:
        if _evaluated_in_training(lab):
            return ok("not looked at: see evaluation mode")
        return look(
            f"{first}: evaluation draws random numbers ({lab.in_evaluation.drawn[0]})",
            "noise is still active in evaluation, so results depend on chance",
            "add it only if training is True, or average over enough samples",
        )
    # Parts of a loss may have their own counts; batches are weighted by one of them.
    has_parts = isinstance(lab.counts, dict) and len(lab.counts) > 1
    for name, seen in found.items():
        of = name.partition("_")[2]
        if of in lab.run.loss_names and of not in lab.run.terms and in_batches and has_parts:
            continue
        if of in lab.run.loss_names and lab.interacts:
            return look(
                seen, "examples interact, so a loss depends on the batch",
                "if this is intended, set EXAMPLES_INTERACT = True in task/steps.py",
            )  # fmt: skip
        return wrong(seen, *_why_unlike(lab, of))
    return ok()


def _why_unlike(lab: Laboratory, result: str) -> tuple[str, str]:
    """Why a result depends on how examples are divided, and what to do about it."""
    if _evaluated_in_training(lab):
        fix = "call it with training=False in validation and test steps"
        return "the model is called with training=True", fix
    if lab.evaluation_sees:
        fix = "compute them per example: see examples apart in evaluation"
        return f"predictions depend on {lab.evaluation_sees}", fix
    what, fix = "metric", "give metrics per-example values and the weights of the batch"
    if result in lab.run.loss_names:
        fix = "use compute_loss with replica.global_count, as in the train step"
        what = "term" if result in lab.run.terms else "validation step"
        if lab.traced.adds_losses:
            return "a layer adds a loss of its own (activity_regularizer, add_loss)", fix
    return f"the {what} averages over a replica's rows, or padding counts", fix


@relation("examples apart in evaluation")
def examples_apart_in_evaluation(lab: Laboratory) -> Finding:
    """The prediction for an example depends only on its inputs."""
    for name, layer in lab.sensitive_layers.items():
        is_normalization = isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
        if is_normalization and name in lab.always_training:
            return wrong(
                f"{name} uses the mean of the batch even with training=False",
                "it is called with training=True inside the model",
                "remove that: Keras passes the mode on",
            )
    if lab.evaluation_sees == "chance":
        drawn = lab.in_evaluation.drawn if lab.evaluated_splits else []
        # For classes, the noise of layers with such names is only for training.
        has_classes = any(t.dtype.is_integer for t in tf.nest.flatten(lab.batch[1:-1]))
        augments = any(words_of(name) & AUGMENTING for name in drawn)
        return (wrong if has_classes and augments else look)(
            "with training=False, predictions for the same inputs are different each time",
            "dropout is called with training=True, or noise ignores the training argument",
            "draw only if training is True; or is this intended?",
        )
    if lab.evaluation_sees == "the position in the batch":
        return wrong(
            "predictions for the same example depend on its position in the batch",
            "the model draws random numbers from a constant seed, or uses the index of the row",
            "draw only if training is True, and compute per example",
        )
    if lab.evaluation_sees:
        return (look if lab.declared_interacting else wrong)(
            "predictions change with the other examples of the batch",
            "the model computes something over the batch, as by a mean over axis 0",
            "compute it per example, or use BatchNormalization and its moving averages",
        )
    if lab.evaluation_sees is None:
        return ok("not looked at: the inputs don't go to one model alone, or there are few rows")
    return ok()


@relation("padded inputs", evaluates=True)
def padded_inputs(lab: Laboratory) -> Finding:
    """Padding that a mask or lengths among the inputs leave out changes nothing."""
    found = paddings(lab.evaluation_batch)
    first = lab.validate(lab.evaluation_batch, metrics=True) if found else {}
    for mask, name, padded in found:
        other = lab.validate(padded, metrics=True)
        changed = different(first, other, 1e-3)
        are_pictures = mask_in(lab.evaluation_batch, mask).ndim > 2
        sees_neighbors = any(
            np.prod(getattr(layer, "kernel_size", getattr(layer, "pool_size", 1))) > 1
            for layer in lab.run.layers
        )
        if changed and (are_pictures or sees_neighbors):
            # Convolutions see the padding beside what is there, as of pictures and of sounds; so a
            # mask that is used at all will do.
            numbers = np.asarray(dict(named_leaves(lab.evaluation_batch))[mask])
            everything = tf.constant(np.full_like(numbers, numbers.max()))
            whole = with_array(lab.evaluation_batch, mask, everything)
            used = different(first, lab.validate(whole, metrics=True), 1e-3)
            changed = [result for result in changed if result not in used]
        for result in changed:
            kind = "metric" if result.partition("/")[0] in lab.run.metrics else "loss"
            now, with_others = told_apart(first[result], other[result])
            # Numbers tell what is there, or a layer that gets the mask as numbers may learn it.
            is_known = _is_found_by_number(lab, name, padded) or _is_beside_others(lab, mask)
            return (look if is_known else wrong)(
                f"the {kind} {result} of validation is {now}, and "
                f"{with_others} with other numbers in the padding of {name}, which {mask} "
                "leaves out",
                "the mask or length isn't used, or along the wrong axis (queries instead of keys), "
                "or padding is counted or ranked",
                "mask keys by attention_mask=mask[:, None, :], lengths by tf.sequence_mask, and "
                "divide sums by the number of elements",
            )
    return ok("" if found else "not looked at: no input is a mask of padding, or its length")


@relation("every example once", evaluates=True)
def every_example_once(lab: Laboratory) -> Finding:
    """Validation and test count each example once."""
    found = []
    for name, counted in lab.in_evaluation.counted.items():
        wanted = sum(lab.count(batch) for batch in lab.on_one._batches[name][0])
        if counted != wanted:
            return wrong(f"{name} counts {counted} examples, but has {wanted}")
        found.append(f"{wanted} of {name}")
    return ok(f"in the batches that are tried: {', '.join(found)}")


@relation("evaluation changes nothing", evaluates=True)
def evaluation_changes_nothing(lab: Laboratory) -> Finding:
    """Evaluation changes no weights, statistics or training metrics."""
    if lab.in_evaluation.moved:
        return wrong(
            f"{lab.in_evaluation.moved[0]} changes",
            "the validation step writes variables that training uses",
            "use the metrics of the step, run.metrics, and training=False",
        )
    return ok()


@relation("evaluation mode", evaluates=True)
def evaluation_mode(lab: Laboratory) -> Finding:
    """Validation calls layers such as dropout with training=False."""
    if layer := _evaluated_in_training(lab):
        rows, in_training = (
            {len(t) for t in tf.nest.flatten([call.arguments for call in calls])
             if tf.is_tensor(t) and t.shape.rank}
            for calls in (lab.calls_in_validation, lab.calls_in_training)
        )  # fmt: skip
        # As many as in training, such as two views of each image, aren't repeated.
        repeats = any(n > lab.rows and n % lab.rows == 0 for n in rows - in_training)
        number, most = len(lab.calls_in_validation), len(lab.calls_in_training)
        is_often = lab.in_evaluation.calls[layer] > 2 * len(lab.evaluated_splits)
        if repeats or (is_often and not 0 < number <= most) or _translates(lab, layer):
            return look(
                f"{layer} is called with training=True, several times or with repeated rows",
                "predictions are averaged over its random numbers (Monte Carlo dropout), or its "
                "model draws by them what it makes of an input",
                "is this intended?",
            )
        return wrong(
            f"{layer} is called with training=True",
            "the validation or test step calls the model in training mode",
            "call it with training=False",
        )
    if layer := _fixed_in_training(lab):
        return look(
            f"{layer} is called with training=True where the model is made",
            "without training=False, which overrides it (Keras 3.15), it predicts as in training",
            "remove that: Keras passes the mode on",
        )
    return ok("" if lab.sensitive_layers else "not looked at: no layer has two modes")


@relation("labels in evaluation")
def labels_in_evaluation(lab: Laboratory) -> Finding:
    """A metric that depends on labels in training depends on them in validation."""
    if not lab.evaluated_splits or len(lab.batch) != 3 or len(lab.evaluation_batch) != 3:
        return ok("not looked at: there are no labels, or there is nothing to evaluate")
    plain, made = (tf.nest.flatten(b[1]) for b in (lab.plain_batches[0], lab.batch))
    if len(plain) != len(made) or not equal(plain, made):
        return ok("not looked at: an augmentation makes the labels of training")
    if lab.declared_interacting:  # what is right may be a place in the batch
        return ok("not looked at: the task says that its examples interact")
    inputs, labels, weights = lab.evaluation_batch
    # As in data that is in the order of its classes.
    if any(equal(label, of_next_row(label)) for label in tf.nest.flatten(labels)):
        return ok("not looked at: all labels of the first batch are the same")
    of_labels = different(lab.after_training.metrics, lab.with_labels_of_others.metrics)
    first, of_others, turned = (lab.validated((*parts, weights))[1] for parts in (
        (inputs, labels), (inputs, of_next_row(labels)), (of_next_row(inputs), labels)
    ))  # fmt: skip
    known = [name for name in of_labels if name in first]
    for name in known:
        if equal(first[name], of_others[name]) and not equal(first[name], turned[name]):
            # A mean may be of something else there, such as the confidence of predictions.
            is_mean = type(lab.run.metrics[name]) is keras.metrics.Mean
            return (look if is_mean else wrong)(
                f"the metric {name} depends on the labels in training, but not in validation",
                "the validation step compares with something else, such as the output of a teacher",
                "pass the labels of the batch",
            )
    return ok("" if known else "not looked at: no metric depends on labels in training")


@relation("parts in evaluation", after="labels in evaluation")
def parts_in_evaluation(lab: Laboratory) -> Finding:
    """A metric that depends on one of several labels in training depends on it in validation."""
    if not lab.evaluated_splits or lab.declared_interacting:
        return ok("not looked at: there is nothing to evaluate, or examples interact")
    there = dict(named_leaves(lab.evaluation_batch))
    parts = [name for name in lab.named_batch if name.startswith("labels[") and name in there]
    first = lab.validated(lab.evaluation_batch)[1]
    for name in parts:
        one, other = (
            with_array(batch, name, of_next_row(dict(named_leaves(batch))[name]))
            for batch in (lab.batch, lab.evaluation_batch)
        )
        now = lab.validated(other)[1]
        for metric in different(lab.base.metrics, lab.look(one).metrics):
            if metric in first and equal(first[metric], now[metric]):
                # A mean may be of something else there.
                is_mean = type(lab.run.metrics[metric]) is keras.metrics.Mean
                return (look if is_mean else wrong)(
                    f"the metric {metric} depends on {name} in training, but not in validation",
                    "the validation step leaves out what the train step does with it, such as an "
                    "offset or a mask",
                    "compute predictions, loss and metrics in both steps with one function",
                )
    return ok("" if parts else "not looked at: there is one label, or none")


@relation("splits are learned alike", after="labels belong to inputs", evaluates=True)
def splits_are_learned_alike(lab: Laboratory) -> Finding:
    """What is learned from labels of training data is true of those of the other splits."""
    if not lab.learns_labels or lab.declared_interacting or not lab.has_trained_enough:
        return ok("not looked at: few steps don't teach the labels, or examples interact")
    ((name, of_others),) = (lab.fresh[2] or {}).items()
    right, at_first = lab.fresh[1][name], lab.base.losses[name]
    fell = at_first - right
    if fell < LEARNED * at_first or of_others - right < LEARNED * of_others:
        return ok("not looked at: few steps teach little")
    label = next((n for n in lab.examples["train"] if n.startswith("labels")), "labels")
    for split, first in lab.evaluation_batches.items():
        batch = _from_all_over(held_out.Labels(lab, split, label).batch, first)
        if not _have_one_form(batch, lab.batch):
            return ok("not looked at: an augmentation gives training data another form")
        try:
            before = lab.look(batch).losses[name]
        except Exception:  # labels that the loss of training doesn't know, such as new classes
            return ok(f"not looked at: a train step can't take {split} data")
        with lab.trained_on_fresh():  # as in training, where no average of statistics counts yet
            own, others = (
                lab.look(each).losses[name] for each in (batch, lab.with_other_labels(batch))
            )
        teaches_nothing = is_slight(others - own, others)
        falls_less = own > before or (lab.sees_rows_rarely and before - own < fell / 2)
        if teaches_nothing or falls_less:
            # Of few examples labels can be remembered, and splits by time or person may differ.
            return (wrong if teaches_nothing and lab.sees_rows_rarely else look)(
                f"in {len(lab.fresh[0])} steps the loss {name} fell by {fell:.3g} to {right:.3g}, "
                f"but that of {split} data went from {before:.3g} to {own:.3g} ({others:.3g} with "
                "the labels of other examples)",
                f"inputs or labels mean something else in {split} data, such as numbers of words "
                "or classes that are given anew for each split",
                "encode all splits in the same way, with what was made from the training data",
            )
    return ok()


def _have_one_form(batch: Any, other: Any) -> bool:
    """Whether batches have the same parts, alike but for the number of rows."""
    try:
        tf.nest.assert_same_structure(batch, other)
    except (TypeError, ValueError):
        return False
    pairs = zip(tf.nest.flatten(batch), tf.nest.flatten(other), strict=True)
    return all(a.dtype == b.dtype and a.shape[2:] == b.shape[2:] for a, b in pairs)


def _from_all_over(many: Any, first: Any) -> Any:
    """As many examples as the first batch has, of many; rows may be in the order of persons."""
    rows = tf.nest.flatten(first)[0].shape[1]
    number = 0 if many is None else tf.nest.flatten(many)[0].shape[1]
    if number < rows:
        return first
    places = np.linspace(0, number - 1, rows).astype(int)
    return tf.nest.map_structure(lambda t: tf.gather(t, places, axis=1), many)


@relation("validation and test alike")
def validation_and_test_alike(lab: Laboratory) -> Finding:
    """Both steps give the same numbers for the same data, also after some training."""
    functions = lab.run.functions
    if functions.validation_step is functions.test_step or not lab.evaluated_splits:
        return ok("not looked at: one step is for both, or there is nothing to evaluate")
    evaluation, split = lab.on_one, next(iter(lab.evaluated_splits))
    with stage("a validation step runs"):
        (of_validation, updated), (of_test, by_test) = (
            (evaluation.measure(split, as_split=step)[0], _updated(evaluation.run))
            for step in ("validation", "test")
        )
    for name in sorted(updated ^ by_test):  # a slow one may be left to the test
        step = "test_step" if name in updated else "validation_step"
        return (wrong if by_test < updated else look)(
            f"{step} never updates the metric {name}, but the step of the other split does",
            "it has no data there, so its column is nan",
            f"call run.metrics[{name!r}].update_state in {step}",
        )
    if not (names := different(of_validation, of_test, 1e-3)):
        with lab.trained_on_fresh():  # new weights may give the same for any input
            of_validation, of_test = (
                evaluation.measure(split, as_split=step)[0] for step in ("validation", "test")
            )
        names = different(of_validation, of_test, MUCH)
    for name in names:
        first, second = told_apart(of_validation[name], of_test[name])
        return look(
            f"{name} of {split} data is {first} by validation_step, and {second} by test_step",
            "validation_step and test_step do different things",
        )
    return ok()


def _updated(run: Run) -> set[str]:
    """The metrics whose state differs from their state after a reset."""
    kept = {name: [v.numpy() for v in metric.variables] for name, metric in run.metrics.items()}
    for metric in run.metrics.values():
        metric.reset_state()
    return {
        name
        for name, metric in run.metrics.items()
        if not all(map(np.array_equal, kept[name], metric.variables))
    }


def _translates(lab: Laboratory, layer: str) -> bool:
    """Whether a layer is of a generator that gets inputs and learns targets, as in pix2pix."""
    if len(lab.run.optimizers) < 2 or len(lab.plain_batches[0]) < 3:
        return False
    of_generators = (model for name, model in lab.run.models.items() if "gen" in name.lower())
    return any(layer == name_of(each) for m in of_generators for each in m._flatten_layers())


def _fixed_in_training(lab: Laboratory) -> str:
    """A layer that is called in training mode inside a model, such as Dropout; or nothing."""
    found = (
        name
        for name, layer in lab.sensitive_layers.items()
        if not hasattr(layer, "generator")  # for RandomFlip and the like, the default is True
        for node in getattr(layer, "_inbound_nodes", [])
        if node.arguments.kwargs.get("training") is True
    )
    return next(found, "")


def _evaluated_in_training(lab: Laboratory) -> str:
    """A layer that evaluation calls in training mode, though the model isn't made so."""
    active = [name for name, said in lab.in_evaluation.sees_training.items() if True in said]
    return next((name for name in active if name not in lab.always_training), "")


def _is_found_by_number(lab: Laboratory, name: str, padded: Any) -> bool:
    """Whether losses depend on where an input is the number of its padding.

    As with mask_zero: then other numbers there are no padding.
    """
    names = [each for each, _ in named_leaves(lab.batch)]
    plain, other = (
        np.asarray(dict(named_leaves(batch))[name]) for batch in (lab.evaluation_batch, padded)
    )
    numbers, ops = plain[plain != other], lab.traced.ops
    if name not in names or not numbers.size:
        return False
    of_losses = (op for op in ops if op.name in lab.traced.ops_of_losses)
    return is_compared(of_losses, ops[0].graph.inputs[names.index(name)], numbers[0])


def _is_beside_others(lab: Laboratory, mask: str) -> bool:
    """Whether a layer gets a mask as numbers with others that it weighs."""
    batch = lab.evaluation_batch
    own = mask_in(batch, mask).astype("f8")
    columns = own.reshape(len(own), -1).T
    for call in lab.validation_calls(batch, lab.layers_with_matrices):
        x = np.asarray(tf.nest.flatten(call.arguments)[0], "f8")
        if x.ndim == 2 and len(x) == len(own) and x.shape[1] > len(columns):
            found = all((x == column[:, np.newaxis]).all(axis=0).any() for column in columns)
        else:
            found = x.shape[:-1] == own.shape and x.shape[-1] > 1 and any(
                np.array_equal(x[..., i], own) for i in range(x.shape[-1])
            )  # fmt: skip
        if found:
            return True
    return False
