"""Relations between the data and what `predict` and `export` give the models, or make of them."""

from __future__ import annotations

import ast
import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from itertools import product
from pathlib import Path
from types import FunctionType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..model_inputs import taken_by
from ..predict import Describe, Reader
from .findings import Finding, look, ok, relation, wrong
from .functions import named_in, tree_of
from .laboratory import Laboratory
from .numbers import named_leaves
from .probe import words_of
from .runs import Call
from .tables import by_other_rows, otherwise_than_data

PICTURES = (".png", ".bmp", ".jpg", ".jpeg")  # the first one that a task reads is used
CASES = {"lower", "casefold", "upper"}  # methods of texts
TEXTS = ("a", "1", "a b")
MANY = 0.05  # of the numbers of the data, or of its rows
DESCRIBED = 8  # examples that are described together
MOST_ALIKE = 0.8  # of the numbers of a column
CHANCES = {"probability", "probabilities", "confidence", "prob", "probs"}
OF_CHANCES = {"log", "odds", "ratio", "low", "high", "lower", "upper", "interval", "width"}
SCALES = {"log", "logit", "scaled", "standardized", "normalized", "score", "z", "residual",
          "change", "relative", "share", "difference"}  # fmt: skip


@relation("inputs as they are")
def inputs_as_they_are(lab: Laboratory) -> Finding:
    """A step passes the inputs of the data to the model unchanged, as `predict` and `export` do."""
    if not lab.evaluated_splits or len(lab.run.trained_models) != 1:
        return ok("not looked at: there are several models, or there is nothing to evaluate")
    ((name, model),) = lab.run.trained_models.items()
    in_training = [call for call in lab.calls_in_training if call.of is model]
    validated = _changed(lab.evaluation_batch, lab.calls_in_validation)
    trained = _changed(lab.batch, in_training)
    if trained and trained != _changed(lab.batch, lab.training_calls(lab.batch, [model], seed=2)):
        trained = None  # as drawn
    for step, change in (("validation", validated), ("train", trained)):
        if change:
            return wrong(
                f"the {step} step gives {name!r} {change}",
                "train/serving skew: predict and an exported model get the inputs unchanged, so "
                "their outputs differ",
                "do this in create_datasets and in READERS, or in a layer of the model",
            )
    if validated is None:
        return ok("not looked at: the model doesn't get the inputs as numbers")
    return ok()


def _changed(batch: Any, calls: list[Call]) -> str | None:
    """How calls of a model get other inputs than the batch's, scaled and shifted; None: no inputs.

    A step may use other versions of the inputs as well.
    """
    given = [_arrays(call.arguments) for call in calls]
    compared = None
    for name, data in _arrays((batch[0],)).items():
        arrays = [x[name] for x in given if name in x and x[name].shape == data.shape[1:]]
        if not arrays:
            continue
        compared = ""
        if any(np.array_equal(x, data[0], equal_nan=True) for x in arrays):
            continue
        if change := next(filter(None, (_affine(data[0], x) for x in arrays)), ""):
            return change.replace("inputs", name, 1)
    return compared


def _arrays(arguments: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """The real numbers among the inputs of a model, by name."""
    leaves = ((name, t) for name, t in named_leaves(arguments[:1]) if tf.is_tensor(t))
    return {name: np.asarray(t, "f8") for name, t in leaves
            if t.dtype.is_floating and not tf.is_symbolic_tensor(t)}  # fmt: skip


@relation("readers")
def readers_as_data(lab: Laboratory) -> Finding:
    """The READERS of task/predictions.py prepare inputs in the same way as the data."""
    if of_texts := next(filter(None, map(_keeps_case, lab.readers.values())), None):
        return of_texts
    if len(lab.run.models) != 1:
        return ok("not looked at: there are several models")
    compared = False
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of rows that are all the same
        for suffix, read in lab.readers.items():
            found, is_sure = None, False
            file = Path(directory) / f"try{suffix}"
            with contextlib.suppress(Exception):  # the reader may need files of another form
                found, is_sure = _read_otherwise(lab, read, file)
            compared |= found is not None
            if found:
                return (wrong if is_sure else look)(
                    f"{getattr(read, '__name__', 'READERS')} reads a {suffix} file {found}",
                    "train/serving skew: create_datasets prepares inputs differently, so "
                    "predictions are wrong",
                    "use the same function to prepare both",
                )
            if of_rows := _by_other_rows(lab, read, file):
                return of_rows
    return ok("" if compared else "not looked at: none reads what the data looks like")


@relation("table of predictions", evaluates=True)
def table_of_predictions(lab: Laboratory) -> Finding:
    """The table of `predict` says what outputs of a model say, of each example by itself."""
    if len(lab.run.models) != 1:
        return ok("not looked at: there are several models")
    describe = partial(_described, lab.describe, lab.run.model)
    inputs = tf.nest.map_structure(lambda t: t[0, :DESCRIBED], lab.evaluation_batch[0])
    try:
        taken = taken_by(lab.run.model, inputs)
        outputs = tf.nest.map_structure(np.asarray, lab.run.model(taken, training=False))
    except Exception:  # whatever a model may raise
        return ok("not looked at: the model doesn't take the inputs of the data as they are")
    columns, again = (describe(inputs, outputs) for _ in range(2))
    columns = {n: a for n, a in columns.items() if a.ndim < 3 and _alike(a, again[n])}
    if not columns:
        return ok("not looked at: describe returns no columns but random ones and pictures")
    half = [tf.nest.map_structure(lambda t: t[: DESCRIBED // 2], x) for x in (inputs, outputs)]
    first = describe(*half)
    for name, column in columns.items():
        if not _alike(first[name], column[: len(first[name])]):
            return wrong(
                f"describe gives other numbers as {name!r} where it gets more examples",
                "a softmax, an argmax, a mean or a maximum goes along the examples, axis 0",
                "compute it of each example by itself, along the last axis",
            )
    for name, column in columns.items():
        found = _no_probability(name, column, outputs)
        if finding := found or _least_class(lab, name, column, outputs):
            return finding
    return _on_scale_of_loss(lab, describe) or _logarithm(lab, describe) or ok()


def _described(
    describe: Describe, model: keras.Model, inputs: Any, outputs: Any
) -> dict[str, np.ndarray]:
    """The columns of the table."""
    return {name: np.asarray(column) for name, column in describe(model, inputs, outputs).items()}


def _alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether most elements are the same; rounding may change some classes."""
    if a.shape != b.shape:
        return False
    same = np.isclose(a, b, 1e-3, 1e-5, equal_nan=True) if a.dtype.kind in "fc" else a == b
    return bool(np.mean(same) > MOST_ALIKE)


def _no_probability(name: str, column: np.ndarray, outputs: Any) -> Finding | None:
    """Whether a column whose name says that it holds probabilities holds logits."""
    if column.dtype.kind != "f" or not (words := words_of(name)) & CHANCES or words & OF_CHANCES:
        return None
    least, most = float(np.nanmin(column)), float(np.nanmax(column))
    if least > -1e-3 and most < 100 + 1e-3:  # percents
        return None
    given = np.concatenate([np.ravel(output) for output in tf.nest.flatten(outputs)])
    if words & CHANCES == {"confidence"} and not np.isin(column, given).all():
        return None  # such as an entropy, or the inverse of a variance
    return wrong(
        f"describe gives numbers from {least:.3g} to {most:.3g} as {name!r}",
        "these are logits",
        "apply tf.nn.softmax or tf.sigmoid",
    )


def _least_class(lab: Laboratory, name: str, column: np.ndarray, outputs: Any) -> Finding | None:
    """Whether a column of classes holds the least probable one of each example."""
    p = np.zeros((0, 0)) if tf.nest.is_nested(outputs) else np.asarray(outputs)
    # Not distances, of which the step gives a loss the negative ones.
    of_classes = [given for loss, (_, given, _) in lab.base.calls.items()
                  if "CategoricalCrossentropy" in type(lab.run.losses[loss]).__name__]  # fmt: skip
    are_logits = any(np.array_equal(*pair) for pair in product(lab.base.outputs, of_classes))
    if p.ndim != 2 or p.shape[1] < 3 or column.dtype.kind not in "iu" or not are_logits:
        return None
    if not np.array_equal(column, p.argmin(axis=1)) or not np.ptp(p, axis=1).all():
        return None
    return wrong(
        f"describe gives the class with the smallest output as {name!r}", "", "use np.argmax"
    )


def _on_scale_of_loss(lab: Laboratory, describe: Callable[..., Any]) -> Finding | None:
    """Whether the table has the scale of a loss, where the step scales the labels of the data.

    As outputs, `describe` gets these labels.
    """
    arrays = [np.asarray(leaf[0]) for leaf in tf.nest.flatten(lab.batch[1:-1])]
    if not len(arrays) == len(lab.base.calls) == len(lab.base.outputs) == 1:
        return None
    (labels,), (outputs,), ((y, p, _),) = arrays, lab.base.outputs, lab.base.calls.values()
    if len({np.size(a) for a in (outputs, y, p, labels)}) > 1 or np.asarray(y).dtype.kind != "f":
        return None
    if not np.allclose(np.ravel(outputs), np.ravel(p), rtol=1e-3, atol=1e-5):
        return None  # the step scales what the model gives as well
    inputs = tf.nest.map_structure(lambda t: t[0], lab.batch[0])
    there = np.isfinite(labels.ravel())  # those that aren't missing
    given, labels = y.ravel()[there], labels.ravel()[there]
    spread, of_data = float(np.std(given)), float(np.std(labels))
    apart = abs(np.mean(given) - np.mean(labels))
    if len(labels) < 2 or (apart < of_data and 0.5 * of_data < spread < 2 * of_data):
        return None
    with contextlib.suppress(Exception):  # it may take only what a model gives
        for name, column in describe(inputs, y.reshape(outputs.shape)).items():
            is_same = column.size == y.size and np.allclose(column.ravel()[there], given, rtol=1e-3)
            if is_same and not words_of(name) & SCALES:
                return wrong(
                    f"describe gives numbers of {np.mean(given):.3g} ± {spread:.3g} as {name!r}, "
                    f"as the loss gets them; labels are {np.mean(labels):.3g} ± {of_data:.3g}",
                    "the train step scales the labels, and describe doesn't undo it",
                    "undo it in describe",
                )
    return None


def _logarithm(lab: Laboratory, describe: Callable[..., Any]) -> Finding | None:
    """Whether the table has the logarithm of what is predicted, where a loss takes that."""
    if not len(lab.base.calls) == len(lab.base.outputs) == 1:
        return None
    (name,), ((y, p, _),) = lab.base.calls, lab.base.calls.values()
    outputs = lab.base.outputs[0]
    if len({np.size(a) for a in (y, p, outputs)}) > 1 or np.asarray(y).dtype.kind not in "iuf":
        return None
    labels = np.maximum(np.nan_to_num(np.asarray(y)), 2)  # whose logarithm isn't 0
    right = np.log(labels, dtype="f8").ravel()

    def loss(predictions: np.ndarray) -> float:
        made = tf.constant(predictions.reshape(np.shape(p)), np.asarray(p).dtype)
        return float(np.mean(lab.run.losses[name](labels, made)))

    with contextlib.suppress(Exception):  # they may take only what they get in a step
        if not loss(right) < min(loss(right - 0.1), loss(right + 0.1), loss(np.ravel(labels))):
            return None
        inputs = tf.nest.map_structure(lambda t: t[0], lab.batch[0])
        for column, numbers in describe(inputs, right.reshape(outputs.shape)).items():
            is_same = numbers.size == right.size and np.allclose(numbers.ravel(), right)
            if is_same and not words_of(column) & SCALES:
                return wrong(
                    f"describe gives the output of the model as {column!r}, and the loss {name} is "
                    "smallest where that is the logarithm of the label",
                    "describe doesn't undo the logarithm",
                    "apply np.exp to the output",
                )
    return None


def _keeps_case(read: Reader) -> Finding | None:
    """Whether a reader gives a function texts as they are, but the data texts in lower case."""
    if not isinstance(read, FunctionType):
        return None
    names = named_in(read)[0]
    for used in map(read.__globals__.get, sorted(names)):
        if not isinstance(used, FunctionType) or CASES & (names | named_in(used)[0]):
            continue
        callers = [
            f for f in used.__globals__.values()
            if isinstance(f, FunctionType) and f.__module__ == used.__module__
            and f not in (read, used)
            and used.__name__ in named_in(f)[0] and _given_to(used.__name__, f)
        ]  # fmt: skip
        if callers and all(_changes_case(f, used.__name__) for f in callers):
            shortest = min(callers, key=lambda f: len(named_in(f)[0])).__name__
            return wrong(
                f"{read.__name__} gives {used.__name__} texts as they are, and {shortest} changes "
                "their case before",
                "train/serving skew: create_datasets prepares texts differently, so predictions "
                "are wrong",
                f"call {shortest} in both",
            )
    return None


def _changes_case(function: FunctionType, used: str) -> bool:
    """Whether a function changes the case of what it gives to another one, not of a label."""
    nodes = [node for part in _given_to(used, function) for node in ast.walk(part)]
    called = (function.__globals__.get(getattr(node, "id", "")) for node in nodes)
    return any(getattr(node, "attr", "") in CASES for node in nodes) or any(
        isinstance(f, FunctionType) and CASES & named_in(f)[0] for f in called
    )


def _given_to(used: str, function: FunctionType) -> list[ast.AST]:
    """What a function gives to another one, and what that is made of, as far as names tell."""
    nodes, found = [*ast.walk(tree_of(function.__code__))], list[ast.AST]()
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        if _last_name(call.func) == used:
            found += call.args
        elif used in map(_last_name, call.args):  # as of a map
            found += [call.func, *call.args]
    bound = [each for node in nodes for each in _bound_by(node)]
    for part in found:  # which grows
        names = {*map(_last_name, ast.walk(part))} - {""}
        found += [value for target, value in bound
                  if _last_name(target) in names and value not in found]  # fmt: skip
    return found


def _bound_by(node: ast.AST) -> Iterable[tuple[ast.AST, ast.AST]]:
    """The names that an assignment or a loop sets, each with what it is made of."""
    if isinstance(node, ast.For | ast.comprehension):
        target, values = node.target, [node.iter]
        if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name):
            values = node.iter.args  # as of zip and enumerate
    elif isinstance(node, ast.Assign):
        target, values = node.targets[0], getattr(node.value, "elts", [node.value])
    else:
        return ()
    targets = getattr(target, "elts", [target])
    if len(targets) == len(values):
        return zip(targets, values, strict=True)
    return product(targets, values)


def _last_name(node: ast.AST) -> str:
    """The name of a variable, or of an attribute; "" of anything else."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _read_otherwise(lab: Laboratory, read: Reader, file: Path) -> tuple[str | None, bool]:
    """How a reader prepares inputs otherwise ("": alike; None: others), and if that is sure."""
    split = next((n for n in lab.examples if n != "train"), "train")  # which nothing augments
    inputs = {n: a for n, a in lab.examples[split].items() if n.startswith("inputs")}
    array, (model,) = inputs.get("inputs", np.zeros(0)), lab.run.models.values()
    if file.suffix == ".csv":
        return otherwise_than_data(lambda path: read(path, model), file, inputs), True
    if file.suffix in PICTURES and array.ndim == 4 and len(array):
        size, channels = array.shape[1:3], array.shape[3]
        shades = np.resize(np.arange(256.0), (*size, channels))
        shades[0, 0], shades[-1, -1] = 0, 255
        keras.utils.save_img(file, shades, scale=False)
        shown = np.asarray(read(file, model), "f8")
        # Files may have a wider range than these bytes, but not a narrower one, and no background
        # darker than black; noise may be.
        black, least = shown[0, 0].min(), array.min()
        is_darker = black == shown.min() and least < black - 0.1 * np.ptp(shown)
        is_sure = np.ptp(shown) > 10 * float(np.ptp(array)) > 0  # bytes would overflow
        is_sure |= is_darker and np.mean(array == least) > MANY
        return _other_scale(array, shown), bool(is_sure)
    if file.suffix == ".txt" and array.ndim == 2 and array.dtype.kind in "iu" and len(array):
        for text in TEXTS:
            file.write_text(f"{text}\n", encoding="utf-8")
            shown = np.asarray(read(file, model))
            if found := _other_padding(array, shown):
                return found, False
            if found := _without_end(array, lab.examples[split].get("weights"), shown):
                return found, True
        return "", False
    return None, False


def _by_other_rows(lab: Laboratory, read: Reader, file: Path) -> Finding | None:
    """Whether a reader of tables reads a row by what the others are."""
    if file.suffix != ".csv":
        return None
    splits = lab.examples["train"], lab.examples[next(reversed(lab.examples))]
    (model,) = lab.run.models.values()
    with contextlib.suppress(Exception):  # the reader may need other cells
        if found := by_other_rows(lambda path: read(path, model), file, *splits):
            seen, is_sure = found
            return (wrong if is_sure else look)(
                f"{getattr(read, '__name__', 'READERS')} reads a row of a .csv file by what the "
                f"others are: {seen}",
                "train/serving skew: it numbers categories, or scales numbers, by what the file "
                "holds",
                "do this by what the training data holds",
            )
    return None


def _affine(data: np.ndarray, given: np.ndarray) -> str:
    """How each example, or column, was scaled and shifted; "" if it wasn't, or otherwise."""
    x, y = (a.reshape(len(a), -1) for a in (data, given))
    if np.allclose(x, y, rtol=1e-4, atol=1e-6) or not np.isfinite(x).all():
        return ""
    if (found := _line(x, y)) is not None:
        a, b = found
        return f"inputs times {np.median(a):.3g}, plus {np.median(b):.3g}"
    if data.ndim == 2 and (found := _line(x.T, y.T)) is not None:
        a, b = found
        return (
            f"inputs of which each column is scaled and shifted, by {a.min():.3g} to "
            f"{a.max():.3g} and {b.min():.3g} to {b.max():.3g}"
        )
    return ""


def _line(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The a and b, for each row, of y = a x + b; None if that isn't so."""
    rows = x.std(axis=1) > 0
    still = np.allclose(np.ptp(y[~rows], axis=1), 0)
    if rows.sum() < min(2, len(x)) or x.shape[1] < 3 or not still:
        return None
    x, y = x[rows], y[rows]
    a = np.sum((x - x.mean(1, keepdims=True)) * y, axis=1) / (x.shape[1] * x.var(axis=1))
    b = y.mean(axis=1) - a * x.mean(axis=1)
    rest = y - (a[:, None] * x + b[:, None])
    if np.abs(rest).max() > 1e-3 * np.abs(y).max() or np.abs(a).max() < 1e-6:
        return None
    return a, b


def _other_scale(data: np.ndarray, read: np.ndarray) -> str:
    """How black and white are read, if the data has numbers outside that range; or ""."""
    low, high = float(read.min()), float(read.max())
    width = max(high - low, 1e-9)
    outside = np.mean((data < low - 0.1 * width) | (data > high + 0.1 * width))
    if outside > MANY or width > 10 * float(np.ptp(data)) > 0:
        return (
            f"as numbers from {low:.3g} to {high:.3g}, but those of the data range from "
            f"{data.min():.3g} to {data.max():.3g}"
        )
    return ""


def _without_end(data: np.ndarray, weights: np.ndarray | None, read: np.ndarray) -> str:
    """The number that ends every prompt of the data, if what is read doesn't have it; or "".

    A prompt ends where the first target counts.
    """
    if weights is None or weights.shape != data.shape or read.ndim != 2:
        return ""
    some = (weights != 0).any(axis=1)
    first = (weights[some] != 0).argmax(axis=1)
    ends = np.unique(data[some, first])
    if len(first) < 2 or not first.all() or len(ends) != 1 or np.isin(ends[0], read):
        return ""
    return f"without {ends[0]}, the last number of every prompt in the data"


def _other_padding(data: np.ndarray, read: np.ndarray) -> str:
    """The end at which a text is padded, if the data is padded at the other; or ""."""
    if read.ndim != 2 or read.shape[1] != data.shape[1]:
        return ""
    for mine, other, side in ((-1, 0, "front"), (0, -1, "end")):
        numbers, times = np.unique(data[:, mine], return_counts=True)
        padding = numbers[times.argmax()]
        is_padded = times.max() > len(data) / 2 and np.mean(data[:, other] == padding) < MANY
        if is_padded and read[0, other] == padding and np.ptp(read[0]):  # some characters are left
            return f"with padding at the {side}, but the data has padding only at the other end"
    return ""
