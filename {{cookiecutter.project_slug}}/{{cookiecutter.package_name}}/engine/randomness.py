"""Random numbers that don't depend on the number of replicas.

Each replica draws for its own rows, with a seed of its own: right in distribution, but other
numbers on another number of replicas. With `--randomness global_batch` every replica draws for the
whole global batch, with a seed that all share, and takes its rows: N replicas draw what one does.
In 16 bits they are those of 32 bits, so that both compare; XLA draws others (TF 2.21).

What is drawn by a shape alone, such as noise of weights, is for rows of the batch if it has as many
rows as a replica, or a multiple, or an axis so long: it can't be known.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph  # none is public

# "same_rows": every row gets the same numbers, so that `check` may exchange rows.
Randomness = Literal["replica", "global_batch", "same_rows"]

# In the names of operations that draw so.
SAME_ROWS, OWN_ROWS, MERGED_ROWS = "same_rows", "own_rows", "own_rows_merged"
NAMES = ("uniform", "normal", "truncated_normal", "gamma", "binomial", "poisson", "categorical")
HALVES = (tf.float16, tf.bfloat16)
SLICE_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


class Place(NamedTuple):
    """For which rows random numbers are drawn.

    Attributes:
        rows: of a replica's micro-batch.
        index: int32 scalar, which replica.
        num_replicas: how many there are.
        randomness: how they are drawn.
    """

    rows: int
    index: tf.Tensor
    num_replicas: int
    randomness: Randomness


_current = threading.local()  # tf.distribute traces each replica in a thread of its own


@contextlib.contextmanager
def drawing_for(place: Place) -> Iterator[None]:
    """Inside, `tf.random.stateless_*` and dropout draw as `place` says.

    Keras' layers and `keras.random` draw by these functions (Keras 3.15), and there is no way to
    tell them for which rows: so the functions are replaced in TensorFlow's namespace.
    """
    if place.randomness == "replica":
        yield
        return
    if not hasattr(tf.random.stateless_uniform, "original"):
        for name in NAMES:
            function = f"stateless_{name}"
            setattr(tf.random, function, _replaced(getattr(tf.random, function)))
        tf.nn.experimental.stateless_dropout = _replaced(tf.nn.experimental.stateless_dropout)
    before = getattr(_current, "place", None)
    _current.place = place
    try:
        yield
    finally:
        _current.place = before


def in_round(seed: tf.Tensor, graph: tf.Graph, outer: tf.Graph) -> tf.Tensor:
    """The random state in a round of the loops around `graph`, of what it is in `outer`.

    A loop reads it from outside, so without this every round would draw the same numbers.

    Args:
        seed: uint32 (2,), in `outer`.
        graph: of the body of a loop or of a branch, somewhere in `outer`.
        outer: the graph around all loops.
    """
    while graph is not outer:
        if isinstance(graph, WhileBodyFuncGraph):
            number = tf.cast(graph.inputs[0], seed.dtype)  # it counts the rounds (TF 2.21)
            seed = tf.stack([1_000_003 * seed[0] + number, seed[1]])
        graph = graph.outer_graph
    return seed


def _replaced(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, for the current place if there is one."""
    signature = inspect.signature(inspect.unwrap(original))

    def draw(*args: Any, **kwargs: Any) -> Any:
        place = getattr(_current, "place", None)
        if place is None:
            return original(*args, **kwargs)
        arguments = signature.bind(*args, **kwargs).arguments
        if (dtype := _dtype(arguments)) in HALVES:
            return tf.cast(draw(**_in_single_precision(arguments)), dtype)
        first = next(iter(arguments.values()))
        sizes = _sizes_in(first) if "shape" in arguments else _sizes_of(first)
        rows = sizes[0] if sizes else 0
        if not isinstance(rows, int):
            return _drawn_for(rows, draw, original, arguments, place)
        # Numbers for something else than the rows of a batch are the same on every replica. One row
        # divides everything, but of one video, too, frames are merged with the axis of the batch.
        if not rows or rows % place.rows or _is_variable(first):
            shape = [size if isinstance(size, int) else 0 for size in sizes]
            if place.rows not in shape[1:] or "shape" not in arguments or _has_parts(arguments):
                return original(*args, **kwargs)
            axis = shape.index(place.rows)  # such as of several samples for each row
            order = [axis, *(i for i in range(len(shape)) if i != axis)]
            drawn = draw(**arguments | {"shape": [sizes[i] for i in order]})
            return tf.transpose(drawn, [order.index(i) for i in range(len(shape))])
        if place.randomness == "same_rows":
            with tf.name_scope(SAME_ROWS):
                return _same_rows(original, arguments, rows)
        return _own_rows(original, arguments, rows, place)

    draw.original = original  # type: ignore[attr-defined]
    return draw


def _is_variable(tensor: Any) -> bool:
    """Whether a tensor of a graph is made of a variable of its shape, and of no batch.

    A variable that is repeated for each row of the batch has another shape.
    """
    if not hasattr(tensor, "graph"):
        return False
    found, to_visit, has_shape = {tensor.op}, [tensor.op], False
    while to_visit:
        op = to_visit.pop()
        if op.type == "ReadVariableOp":
            has_shape |= op.outputs[0].shape == tensor.shape
        elif op.type != "Const":
            if not op.inputs or any(t.dtype == tf.resource for t in op.inputs):
                return False  # an argument of the graph, or what an iterator gives
            before = {t.op for t in op.inputs} - found
            found |= before
            to_visit += before
    return has_shape


def _dtype(arguments: dict[str, Any]) -> tf.DType | None:
    """Of what is drawn; None if the arguments don't say."""
    dtype = arguments["x"].dtype if "x" in arguments else arguments.get("dtype")
    return None if dtype is None else tf.as_dtype(dtype)


def _in_single_precision(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments for numbers in 32 bits: those drawn in 16 would be others."""
    single = {
        name: tf.cast(value, tf.float32) if tf.is_tensor(value) and value.dtype in HALVES else value
        for name, value in arguments.items()
    }
    return single | ({"dtype": tf.float32} if "dtype" in single else {})


def _sizes_of(tensor: tf.Tensor) -> list[Any]:
    """The size of each axis: int, or an int32 scalar where only a step knows it.

    Empty if not even the number of axes is known.
    """
    axes = enumerate(tensor.shape if tensor.shape.rank else [])
    return [tf.shape(tensor)[i] if size is None else size for i, size in axes]


def _sizes_in(shape: Any) -> list[Any]:
    """The same of what has this shape."""
    parts = _static(shape)
    if parts is None and tf.is_tensor(shape):
        if shape.op.type == "Shape":
            return _sizes_of(shape.op.inputs[0])
        parts = tf.unstack(shape) if shape.shape.rank and shape.shape[0] is not None else []
    found = [(part, _static(part)) for part in (shape if parts is None else parts)]
    return [part if size is None else int(size) for part, size in found]


def _static(value: Any) -> Any:
    """The numbers of a shape such as (tf.shape(x)[0], 1), or None.

    `tf.get_static_value` doesn't see through a slice of a shape (TF 2.21).
    """
    if isinstance(value, list | tuple):
        parts = [_static(part) for part in value]
        return None if any(part is None for part in parts) else parts
    known = tf.get_static_value(value) if tf.is_tensor(value) else value
    if known is not None or value is None:
        return known
    if value.op.type not in ("StridedSlice", "Pack", "ConcatV2"):
        return None
    inputs = _static(list(value.op.inputs))
    if inputs is None:
        return None
    if value.op.type == "Pack":
        return np.stack(inputs)
    if value.op.type == "ConcatV2":
        return np.concatenate(inputs[:-1])
    with tf.init_scope():
        masks = {name: value.op.get_attr(name) for name in SLICE_MASKS}
        return tf.strided_slice(*inputs, **masks).numpy()


def _drawn_for(
    rows: tf.Tensor, draw: Any, original: Any, arguments: dict[str, Any], place: Place
) -> tf.Tensor:
    """Draw for as many rows as only a step knows: those of the batch if they are as many.

    Some operations, such as those on strings, forget the number of rows (TF 2.21).
    """
    shapes = [name for name in ("shape", "noise_shape") if arguments.get(name) is not None]
    tensors = {n: v for n, v in arguments.items() if tf.is_tensor(v) and n not in (*shapes, "seed")}
    forgotten = [n for n, v in tensors.items() if v.shape.rank and v.shape[0] is None]
    sizes = [rows, *(tf.shape(arguments[name])[0] for name in forgotten)]

    def of_batch() -> tf.Tensor:
        known = dict(arguments)
        for name in forgotten:
            value = known[name]
            known[name] = tf.ensure_shape(value, [place.rows, *value.shape[1:]])
        for name in shapes:
            first, *rest = _sizes_in(known[name])
            known[name] = [first if isinstance(first, int) else place.rows, *rest]
        return draw(**known)

    is_batch = tf.reduce_all([tf.equal(tf.cast(size, tf.int32), place.rows) for size in sizes])
    return tf.cond(is_batch, of_batch, lambda: original(**arguments))


def _own_rows(original: Any, arguments: dict[str, Any], rows: int, place: Place) -> tf.Tensor:
    """Draw for all replicas and take the rows of this one.

    Where there are several rows for each one of the batch, they are parts one after the other, as
    in a concatenation of two batches; but those of one example are together where a reshape merged
    its parts, such as the frames of a video, with the axis of the batch.
    """
    are_merged = _are_merged(arguments.get("x"), place.rows)
    own = rows if are_merged else place.rows
    parts, replicas = rows // own, place.num_replicas

    def for_all(value: Any) -> Any:
        """Rows for each replica; its own are at its place, those of others don't matter."""
        rest = _sizes_of(value)[1:]
        split = tf.reshape(value, [parts, 1, own, *rest])
        return tf.reshape(tf.repeat(split, replicas, axis=1), [rows * replicas, *rest])

    whole = _with_rows(arguments, rows, rows * replicas, for_all)
    drawn = original(**whole)
    rest = _sizes_of(drawn)[1:]
    split = tf.reshape(drawn, [parts, replicas, own, *rest])
    with tf.name_scope(MERGED_ROWS if are_merged else OWN_ROWS):
        return tf.reshape(tf.gather(split, place.index, axis=1), [rows, *rest])


def _are_merged(tensor: Any, rows: int) -> bool:
    """Whether its rows are made by a reshape that merged another axis with that of the batch."""
    if not hasattr(tensor, "graph") or tensor.shape[0] == rows:
        return False
    while True:
        op, wanted = tensor.op, tensor.shape[0]
        if OWN_ROWS in op.name:  # of a draw before, which has found out
            return MERGED_ROWS in op.name
        if op.type == "Reshape" and op.inputs[0].shape[:1] == [rows]:
            return True
        before = (t for t in op.inputs if t.shape.rank and t.shape[0] == wanted)
        tensor = next(before, None)
        if tensor is None:
            return False


def _same_rows(original: Any, arguments: dict[str, Any], rows: int) -> tf.Tensor:
    """Draw for one row, and use that for every row."""
    if "x" in arguments:  # dropout: one mask
        shape = arguments.get("noise_shape")
        _, *rest = _sizes_of(arguments["x"]) if shape is None else _sizes_in(shape)
        return original(**arguments | {"noise_shape": [1, *rest]})
    if not _with_a_row_each(arguments, rows):
        return tf.repeat(original(**_with_rows(arguments, rows, 1, None)), rows, axis=0)
    each = [original(**_with_rows(arguments, rows, 1, lambda v, i=i: v[i : i + 1]))
            for i in range(rows)]  # fmt: skip
    return tf.concat(each, axis=0)


def _has_parts(arguments: dict[str, Any]) -> bool:
    """Whether a distribution has parameters for each number, and not one for all."""
    others = [value for name, value in arguments.items() if name not in ("shape", "seed")]
    return any(np.ndim(value) if not tf.is_tensor(value) else value.shape.rank for value in others)


def _with_rows(arguments: dict[str, Any], rows: int, wanted: int, change: Any) -> dict[str, Any]:
    """The arguments for `wanted` rows instead of `rows`, those with a row each by `change`."""
    changed = arguments | {n: change(arguments[n]) for n in _with_a_row_each(arguments, rows)}
    for name in ("shape", "noise_shape"):
        if arguments.get(name) is not None:
            first, *rest = _sizes_in(arguments[name])
            is_rows = isinstance(first, int) and first == rows
            changed[name] = [wanted if is_rows else first, *rest]
    return changed


def _with_a_row_each(arguments: dict[str, Any], rows: int) -> list[str]:
    """The names of the arguments with a row for each; a seed or a shape may be as long, too."""
    return [
        name
        for name, value in arguments.items()
        if name not in ("seed", "shape", "noise_shape")
        and tf.is_tensor(value)
        and value.shape.rank
        and value.shape[0] == rows
    ]
