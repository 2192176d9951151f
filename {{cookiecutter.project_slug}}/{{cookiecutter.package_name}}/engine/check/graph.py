"""What the graph of a train step shows."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf

STATEFUL = {"RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt",
            "RandomShuffle", "Multinomial", "RandomGamma", "RandomPoissonV2",
            "ParameterizedTruncatedNormal"}  # fmt: skip
ARITHMETIC = {"Sub", "SquaredDifference", "Mul", "Add", "AddV2", "RealDiv", "Maximum", "Minimum"}
PASSED_THROUGH = {"Reshape", "Identity", "Cast", "Squeeze", "ExpandDims", "StopGradient",
                  "BroadcastTo", "IdentityN", "StridedSlice", "Split", "GatherV2",
                  "ConcatV2"}  # fmt: skip


def random_numbers(ops: Iterable[tf.Operation]) -> list[str]:
    """Operations that draw random numbers."""
    return [op.name for op in ops if op.type.startswith("StatelessRandom") or op.type in STATEFUL]


def stateful_random_numbers(ops: Iterable[tf.Operation]) -> list[str]:
    """Random operations that don't follow from a seed that they are given."""
    return [op.name for op in ops if op.type in STATEFUL]


def assigned_variables(ops: Iterable[tf.Operation]) -> list[str]:
    """Variables that the graph writes to."""
    assigning = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
    return [op.name for op in ops if op.type in assigning]


def accidental_broadcasts(
    ops: Iterable[tf.Operation], rows: int
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Arithmetic of (rows,) with (rows, 1), which gives (rows, rows): name, and both shapes."""
    found = []
    for op in ops:
        if op.type not in ARITHMETIC or op.name.startswith("gradient"):
            continue
        shapes = [tuple(t.shape.as_list()) if t.shape.rank is not None else () for t in op.inputs]
        if sorted(shapes, key=len) == [(rows,), (rows, 1)] and rows > 1:
            found.append((op.name, *shapes))
    return found


def probabilities_as_logits(ops: Iterable[tf.Operation]) -> list[tuple[str, str]]:
    """Cross-entropies of logits whose logits come out of a softmax or a sigmoid."""
    found = []
    for op in ops:
        of_softmax = op.type in ("SparseSoftmaxCrossEntropyWithLogits",
                                 "SoftmaxCrossEntropyWithLogits")  # fmt: skip
        of_sigmoid = op.type in ("Relu", "Neg", "GreaterEqual") and "logistic_loss" in op.name
        if not of_softmax and not of_sigmoid:
            continue
        source = _source(op.inputs[0])
        if source.type in ("Softmax", "Sigmoid"):
            found.append((op.name, source.type.lower()))
    return found


def _source(tensor: tf.Tensor) -> tf.Operation:
    """The operation that computed a tensor, through what only changes its shape."""
    op = tensor.op
    while op.type in PASSED_THROUGH:
        op = op.inputs[0].op
    return op
