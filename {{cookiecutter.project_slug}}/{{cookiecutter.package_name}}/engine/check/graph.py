"""Facts that the graph of a train step shows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import mul
from typing import Any

import numpy as np
import tensorflow as tf

from ..randomness import SAME_ROWS
from ..replicas import STATEFUL

MAKES_SEEDS = {"StatelessRandomGetKeyCounter", "StatelessRandomGetAlg",
               "StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2"}  # fmt: skip
ARITHMETIC = {"Sub", "SquaredDifference", "Mul", "Add", "AddV2", "RealDiv", "Maximum", "Minimum",
              "MulNoNan", "DivNoNan", "Pow", "Xlogy", "Xdivy", "Equal", "NotEqual",
              "SelectV2"}  # fmt: skip
RESHAPES = {"Reshape", "Identity", "Cast", "Squeeze", "ExpandDims"}
PASSED_THROUGH = RESHAPES | {"StopGradient", "BroadcastTo", "IdentityN", "StridedSlice", "Split",
                             "GatherV2", "ConcatV2"}  # fmt: skip
READS = {"ReadVariableOp", "VarHandleOp", "StatefulPartitionedCall"} | STATEFUL
FEW_NUMBERS = 4  # drawn for a whole batch, such as the shades of its colors
SOFTMAX_LOSSES = {"SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits"}
PROBABILITIES = {*SOFTMAX_LOSSES, "Sigmoid", "Softmax", "LogSoftmax", "Softplus"}
HARD = 0.9  # of the largest probability in a row, on average, where labels are classes
MOST_BLOCKS = 4  # of candidates of a contrastive loss
MOST_AXES = 5  # whose orders are tried
MOST_SCALED = 1_000_000  # numbers of a tensor that is looked at
MASKED = -1e4  # or less, such as -1e9, in place of masked logits
CLIPS = {"Maximum", "Minimum", "ClipByValue"}
SHARES = {"Softmax", "Exp", "OneHot", "Placeholder"}  # what makes targets of a cross-entropy
LINEAR = {"MatMul", "BatchMatMulV2", "Conv2D", "BiasAdd"}
ACTIVATIONS = {"Softmax", "Sigmoid", "Relu", "Relu6", "Softplus", "Tanh", "Softsign"}


def random_numbers(graph: tf.Graph, first: int = 0) -> tuple[list[str], list[str]]:
    """Operations that draw random numbers, from the `first` one on and in loops and branches.

    The stateless ones, which draw from a given seed, and the stateful ones.
    """
    definition = graph.as_graph_def()
    nodes = [*definition.node[first:]]
    nodes += [node for function in definition.library.function for node in function.node_def]
    return (
        [node.name for node in nodes if node.op.startswith("StatelessRandom")],
        [node.name for node in nodes if node.op in STATEFUL],
    )


def drawn_alike_on_replicas(ops: Iterable[tf.Operation], own: set[str], step: str) -> list[str]:
    """Numbers for each row of a batch whose seed depends on the `step`, and on nothing else.

    All rows get the same numbers, and operations of the names `own` give each replica its own seed.
    """

    def sources(op: tf.Operation) -> set[str]:
        before = upstream(op.inputs[1:], frozenset(own))
        return {n for n, o in before.items() if n in own or not (o.inputs or o.type == "Const")}

    draws = (op for op in ops if op.type.startswith("StatelessRandom") and SAME_ROWS in op.name)
    return [op.name for op in draws if sources(op) == {step}]


def drawn_of_constants(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Draws whose seed depends on constants only, except those that make seeds."""
    return [
        op for op in ops
        if op.type.startswith("StatelessRandom") and op.type not in MAKES_SEEDS
        and all(o.inputs or o.type == "Const" for o in upstream(op.inputs[1:2]).values())
    ]  # fmt: skip


def drawn_codes(ops: Sequence[tf.Operation]) -> list[list[tf.Tensor]]:
    """The mean and the deviation, (rows, numbers), of samples of mean + deviation x noise."""
    draws = frozenset(op.name for op in ops if op.type.startswith("StatelessRandomNormal"))
    return [
        [mean, deviation]
        for op in ops if draws and op.type == "AddV2"
        for mean, product in itertools.permutations(op.inputs, 2) if product.op.type == "Mul"
        for deviation, noise in itertools.permutations(product.op.inputs, 2)
        if mean.shape.rank == 2 and mean.shape == deviation.shape
        and _draws_of(noise, draws) and not _draws_of(deviation, draws)
    ]  # fmt: skip


def noise_of_all_rows(ops: Sequence[tf.Operation], rows: int) -> str:
    """The operation that adds the same noise, one number per element of an example, to all rows."""
    draws = frozenset(op.name for op in ops if op.type.startswith("StatelessRandom"))
    for op in ops if draws else ():
        if op.type not in ("AddV2", "Sub") or any(t.shape.rank is None for t in op.inputs):
            continue
        pairs = [(*pair, FEW_NUMBERS) for pair in itertools.permutations(op.inputs, 2)]
        for some, product, _ in [*pairs]:  # mean + deviation x noise
            if product.op.type == "Mul" and product.shape == some.shape:
                pairs += [(some, factor, 1) for factor in product.op.inputs]
        for some, noise, few in pairs:
            of_example = some.shape.as_list()[1:]
            is_for_all = noise.shape.as_list() in (of_example, [1, *of_example])
            number = noise.shape.num_elements()
            is_of_rows = some.shape.rank > 1 and some.shape[0] == rows > 1
            if not is_for_all or not is_of_rows or number <= few:
                continue
            # A few numbers may be enough for all of them, such as random positions.
            behind = _draws_of(noise, draws)
            if any(draw.outputs[0].shape.num_elements() == number for draw in behind):
                return str(op.name)
    return ""


def _draws_of(tensor: tf.Tensor, draws: frozenset[str]) -> list[tf.Operation]:
    """What a tensor depends on, if on `draws` and constants only; otherwise nothing."""
    before = upstream([tensor], draws)
    starts = {op.type for name, op in before.items() if not op.inputs and name not in draws}
    return [before[name] for name in draws & before.keys()] if starts <= {"Const"} else []


def drawn_twice(ops: Iterable[tf.Operation]) -> list[list[tf.Operation]]:
    """Draws of equally many random numbers that share a seed, so the numbers are the same."""
    draws: dict[Any, list[tf.Operation]] = {}
    for op, seed in _seeded_draws(ops):
        draws.setdefault((op.type, str(op.outputs[0].shape), seed), []).append(op)
    return [same for same in draws.values() if len(same) > 1]


def of_one_seed(ops: Iterable[tf.Operation]) -> list[tf.Operation]:
    """Two draws of other kinds or numbers of random numbers that share a seed; or none."""
    draws: dict[int, tf.Operation] = {}
    for op, seed in _seeded_draws(ops):
        first = draws.setdefault(seed, op)
        if (op.type, op.outputs[0].shape) != (first.type, first.outputs[0].shape):
            return [first, op]
    return []


def _seeded_draws(ops: Iterable[tf.Operation]) -> Iterator[tuple[tf.Operation, int]]:
    """Draws of random numbers, each with the `_formula` of its seed."""
    formulas: dict[str, int] = {}
    for op in ops:
        # In tf.random.fold_in, one seed and several numbers make several seeds.
        is_random = op.type.startswith("StatelessRandom") and op.type.endswith("V2")
        if is_random and op.type not in MAKES_SEEDS:
            seeding = op.inputs[1].op
            if seeding.type == "StatelessRandomGetKeyCounter":
                yield op, _formula(seeding.inputs[0], formulas)


def _formula(tensor: tf.Tensor, known: dict[str, int]) -> int:
    """An equal number for tensors that are computed in the same way from the same ones.

    The numbers of operations are added to `known`.
    """
    op = tensor.op
    if op.name not in known:
        node, before = op.node_def, tuple(_formula(each, known) for each in op.inputs)
        own = op.name if op.type == "Placeholder" or node.op in READS else ""
        attributes = sorted((name, str(value)) for name, value in node.attr.items())
        known[op.name] = hash((op.type, own, before, str(attributes)))
    return hash((known[op.name], tensor.value_index))


def norms_of_gradients(
    ops: Iterable[tf.Operation], of_losses: set[str]
) -> list[tuple[str, list[int], list[int | None]]]:
    """Norms of gradients in losses, over other axes than an example's; their axes and shapes."""
    found = []
    for op in ops:
        if op.type != "Sqrt" or op.name not in of_losses:
            continue
        total = op.inputs[0].op
        while total.type in {"AddV2", "Maximum", "Identity"}:  # a small number inside the root
            total = total.inputs[0].op
        if total.type != "Sum":  # such as the magnitude of a complex number, as of a spectrogram
            continue
        squares = total.inputs[0].op
        if squares.type not in ("Square", "Mul") or len({t.ref() for t in squares.inputs}) != 1:
            continue
        x, axes = squares.inputs[0], tf.get_static_value(total.inputs[1])
        if axes is None or x.shape.rank is None or x.shape.rank < 2 or not _is_gradient(x):
            continue
        rank = x.shape.rank
        over = sorted({int(axis) % rank for axis in np.ravel(axes)})
        if over != list(range(1, rank)):
            found.append((op.name, over, x.shape.as_list()))
    return found


def _is_gradient(tensor: tf.Tensor) -> bool:
    """Whether a tape of the step has computed it, or a reshape or a sum of such tensors."""
    op = tensor.op
    while op.type in RESHAPES and "gradient_tape" not in op.name:
        op = op.inputs[0].op
    return any("gradient_tape" in each.name for each in (op, *(t.op for t in op.inputs)))


def never_the_last(ops: Iterable[tf.Operation]) -> tuple[str, int] | None:
    """A draw that picks one of all but the last along an axis; its name, and the size of the axis.

    Only if nothing else uses the number (such as for the next element) or the array (such as for
    a label in it). A table of constants may have entries that are used elsewhere.
    """
    for op in ops:
        if op.type != "StatelessRandomUniformIntV2":
            continue
        low, high = (tf.get_static_value(bound) for bound in op.inputs[-2:])
        uses, indices = list[tf.Operation](), [op.outputs[0]]
        for index in indices:  # it grows
            for use in index.consumers():
                indices += use.outputs if use.type in RESHAPES else ()
                uses += [use] if use.type not in RESHAPES else ()
        if low is None or high is None or {use.type for use in uses} != {"GatherV2"}:
            continue
        sizes = {use.inputs[0].shape[int(tf.get_static_value(use.inputs[2]))] for use in uses}
        alone = all(other in uses for use in uses for other in use.inputs[0].consumers())
        alone = alone and all(_source(use.inputs[0]).type != "Const" for use in uses)
        if low == 0 and sizes == {int(high) + 1} and alone:
            return str(op.name), int(high) + 1
    return None


def change_one_result(ops: Iterable[tf.Operation], draws: list[tf.Operation]) -> bool:
    """Whether the draws apply to the same data one after the other.

    This is so for the shifts along two axes of an image, but not for an image and its mask.
    """
    names = {draw.name for draw in draws}
    seeds = upstream(draw.inputs[1] for draw in draws)
    drawn: dict[str, set[str]] = {}  # the draws that an operation depends on
    of_data = set[str]()  # operations that depend on data
    for op in ops:  # in the order in which they were created
        before = [tensor.op.name for tensor in op.inputs]
        if op.name in names:
            drawn[op.name] = {op.name}
            continue
        behind = [drawn.get(name, set()) for name in before]
        drawn[op.name] = set().union(*behind)
        if (op.type == "Placeholder" and op.name not in seeds) or of_data.intersection(before):
            of_data.add(op.name)
        alone = [d for name, d in zip(before, behind, strict=True) if d and name not in of_data]
        if any(a - b and b - a for a in alone for b in behind if b):
            return True
    return False


def upstream(
    tensors: Iterable[tf.Tensor], until: frozenset[str] = frozenset()
) -> dict[str, tf.Operation]:
    """All operations that tensors depend on, by name; the search ends at those in `until`."""
    ops, seen = [tensor.op for tensor in tensors], dict[str, tf.Operation]()
    while ops:
        op = ops.pop()
        if op.name not in seen:
            seen[op.name] = op
            ops += [t.op for t in op.inputs if op.name not in until]
    return seen


def captured(graph: tf.Graph) -> dict[int, str]:
    """The names of the placeholders of a graph, by the ids of the outer tensors."""
    return {id(outside): inside.op.name for outside, inside in graph.captures}


def _forward(ops: Iterable[tf.Operation], types: Collection[str]) -> Iterator[tf.Operation]:
    """Operations of these types, but not those of gradients."""
    return (op for op in ops if op.type in types and not op.name.startswith("gradient"))


def assigned_variables(ops: Iterable[tf.Operation]) -> list[str]:
    """The variables that the graph writes to."""
    assigning = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
    return [op.name for op in ops if op.type in assigning]


def accidental_broadcasts(
    ops: Iterable[tf.Operation], rows: int
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Arithmetic of (rows,) with (rows, 1), which gives (rows, rows): name, and both shapes.

    If both are the same tensor, or are squares of distances, all pairs are intended. What doesn't
    depend on the batch may have as many numbers as it has rows.
    """
    found = []
    for op in _forward(ops, ARITHMETIC) if rows > 1 else ():
        for pair in itertools.combinations(op.inputs, 2):
            shapes = [tuple(t.shape.as_list()) if t.shape.rank is not None else () for t in pair]
            if sorted(shapes, key=len) != [(rows,), (rows, 1)]:
                continue
            sources = {_source(t) for t in pair}
            are_data = not {s.type for s in sources} & {"ReadVariableOp", "Const", "Range"}
            are_of_rows = len(sources) > 1 and are_data and all(map(_is_of_batch, pair))
            if are_of_rows and not _is_of_distances(op):
                found.append((op.name, *shapes))
    return found


def _is_of_distances(op: tf.Operation) -> bool:
    """Whether products of all pairs of rows are subtracted from a sum, as in a a + b b - 2 a b."""
    beside = [_source(t) for use in op.outputs[0].consumers() for t in use.inputs]
    beside += [_source(t) for other in beside if other.type == "Mul" for t in other.inputs]
    return any(other.type in ("MatMul", "BatchMatMulV2", "Einsum") for other in beside)


def _is_of_batch(tensor: tf.Tensor) -> bool:
    """Whether a tensor depends on what the graph gets, and not only on variables and constants."""
    of_variables = captured(tensor.graph).values()
    return any(
        op.type == "Placeholder" and name not in of_variables
        for name, op in upstream([tensor]).items()
    )


def exchanged_by_reshape(
    ops: Iterable[tf.Operation], rows: int
) -> tuple[tuple[int, ...], tuple[int, ...], bool] | None:
    """The axes that a reshape of examples brings to another order, but not if they differ by 1.

    And whether it must cut a row that it doesn't join again, unlike (2, 8) to (8, 2). Of (4, 5) to
    (5, 4) each row is shifted by one more element than the row before, as for relative positions.
    """
    found = None
    for op in _forward(ops, {"Reshape"}):
        shapes = [tensor.shape.as_list() for tensor in (op.inputs[0], op.outputs[0])
                  if tensor.shape.is_fully_defined()]  # fmt: skip
        if len(shapes) < 2 or any(shape[:1] != [rows] for shape in shapes):
            continue
        given, made = (tuple(n for n in shape[1:] if n > 1) for shape in shapes)
        while given and made and given[0] == made[0]:
            given, made = given[1:], made[1:]
        while given and made and given[-1] == made[-1]:
            given, made = given[:-1], made[:-1]
        ends = sorted({*itertools.accumulate(given, mul), *itertools.accumulate(made, mul)})
        common = {tuple(sorted(sizes)) for sizes in _joined(given)}
        common &= {tuple(sorted(sizes)) for sizes in _joined(made)}
        is_split = _split_and_exchanged(given, made)
        if not is_split and all(len(sizes) < 2 or 1 in np.diff(sizes) for sizes in common):
            continue
        if any(b % a for a, b in itertools.pairwise(ends)):
            return given, made, True
        if is_split or (sorted(given) == sorted(made) and given < made):
            found = given, made, False
    return found


def _split_and_exchanged(given: tuple[int, ...], made: tuple[int, ...]) -> bool:
    """Whether an axis is split, or two are joined, and axes are exchanged at once.

    As the heads of attention without a transpose: (10, 32) to (4, 10, 8), and back.
    """
    shorter, longer = sorted((given, made), key=len)
    if not 1 < len(shorter) < len(longer) <= MOST_AXES or 1 in np.diff(sorted(shorter)):
        return False
    # Such as the boxes at each place of a grid, which become a list: (4, 4, 8) to (32, 4).
    if made is shorter and given[-1] % made[-1] == 0:
        return False
    orders = itertools.permutations(longer)
    return shorter not in _joined(longer) and any(shorter in _joined(each) for each in orders)


def _joined(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All ways to join neighboring axes of these sizes."""
    if len(sizes) < 2:
        yield sizes
        return
    for first, *others in map(list, _joined(sizes[1:])):
        yield (sizes[0], first, *others)
        yield (sizes[0] * first, *others)


def ranges_of_logits(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
    """For each softmax cross-entropy, the smallest and largest logit and their number: (3,).

    Masked logits count as 0. If labels are distributions, all are 0: logits may be small there.
    """
    found = []
    for op in ops:
        if op.type in SOFTMAX_LOSSES and op.inputs[0].shape[-1]:
            logits = op.inputs[0]  # large ones in language models: only their ends are cast
            shown = tf.where(logits > MASKED, logits, tf.zeros((), logits.dtype))
            ends = (tf.cast(end(shown), tf.float64) for end in (tf.reduce_min, tf.reduce_max))
            ranges = tf.stack([*ends, tf.cast(logits.shape[-1], tf.float64)])
            if not op.type.startswith("Sparse"):
                shares = tf.cast(tf.reduce_max(op.inputs[1], axis=-1), tf.float64)
                ranges *= tf.cast(tf.reduce_mean(shares) > HARD, tf.float64)
            found.append(ranges)
    return found


def _losses_over_examples(ops: Iterable[tf.Operation]) -> Iterator[tuple[tf.Operation, int, int]]:
    """The sparse softmax cross-entropies of (rows, candidates), as many or a multiple of these."""
    for op in ops:
        if op.type == "SparseSoftmaxCrossEntropyWithLogits":
            shape = op.inputs[0].shape
            is_small = shape.is_fully_defined() and shape.num_elements() < 20 * MOST_SCALED
            if is_small and shape[0] > 1 and shape[1] % shape[0] == 0:
                yield op, *shape


def compared_with_themselves(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
    """The logits of examples with themselves, in softmax cross-entropies over examples: (rows, 4).

    Of logits (rows, candidates), each block of as many candidates as rows has one for each row: it,
    the smallest and the largest other logit that isn't masked, and whether it is the label.
    """
    found = []
    for op, rows, candidates in _losses_over_examples(ops):
        logits, labels = tf.cast(op.inputs[0], tf.float64), tf.cast(op.inputs[1], tf.int32)
        for first in range(0, min(candidates, MOST_BLOCKS * rows), rows):
            own = first + tf.range(rows)
            others = ~tf.one_hot(own, candidates, on_value=True, off_value=False)
            others &= logits > MASKED
            found.append(tf.stack([
                tf.linalg.diag_part(logits[:, first : first + rows]),
                tf.reduce_min(tf.where(others, logits, np.inf), axis=1),
                tf.reduce_max(tf.where(others, logits, -np.inf), axis=1),
                tf.cast(labels == own, tf.float64),
            ], axis=1))  # fmt: skip
    return found


def codes_of_classes(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
    """The largest index that each tf.one_hot gets, and the number of its classes: (2,)."""
    return [
        tf.stack([tf.cast(t, tf.int64) for t in (tf.reduce_max(op.inputs[0]), op.inputs[1])])
        for op in ops
        if op.type == "OneHot" and op.inputs[0].shape.num_elements()
    ]


def indicators_of_missing(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
    """Whether any number is missing, for each tf.math.is_nan that becomes features: ()."""
    found = []
    for op in (each for each in ops if each.type == "IsNan"):
        after = op.outputs[0].consumers()
        for inverse in (each for each in after if each.type == "LogicalNot"):
            after = [*after, *inverse.outputs[0].consumers()]
        casts = (each for each in after if each.type == "Cast")
        uses = {use.type for cast in casts for use in cast.outputs[0].consumers()}
        if uses & {"ConcatV2", "Pack", "MatMul"}:
            found.append(tf.reduce_any(op.outputs[0]))
    return found


def added_to_candidates(ops: Iterable[tf.Operation]) -> list[tf.Tensor]:
    """What is added to each candidate's logit, in softmax losses over examples: (candidates,).

    Each example is the label of its own row; nothing is found if another is.
    """
    found = []
    for op, rows, candidates in _losses_over_examples(ops):
        before = op.inputs[0].op
        while before.type in RESHAPES | {"SelectV2"}:  # what masks some candidates
            before = before.inputs[-1].op if before.type == "SelectV2" else before.inputs[0].op
        if before.type not in ("AddV2", "Sub"):
            continue
        for own, each in enumerate(before.inputs):
            is_vector = each.shape.num_elements() == candidates == each.shape[-1]
            if is_vector and not _reads_variable(each):  # which is learned
                sign = -1.0 if own and before.type == "Sub" else 1.0
                is_label = tf.reduce_all(tf.cast(op.inputs[1], tf.int32) == tf.range(rows))
                added = sign * tf.reshape(tf.cast(each, tf.float64), [-1])
                found.append(tf.where(is_label, added, 0.0))
    return found


def crossed_shares(ops: Sequence[tf.Operation]) -> list[tf.Tensor]:
    """How the factors add up in each sum of targets x logarithms of probabilities.

    For each axis that the sum leaves: whether targets add up to 1 over the axes of the sum alone,
    and probabilities along that axis alone; whether several targets at one place are shares, unlike
    one that only selects a logarithm; that axis; and the axes of the sum. Rows are no such axis.
    """
    found, until = [], frozenset(op.name for op in ops if op.type not in ("Mul", "Neg"))
    for op in _forward(ops, {"Sum", "Mean"}):
        shape, over = op.inputs[0].shape, tf.get_static_value(op.inputs[1])
        if over is None or not 0 < (shape.num_elements() or 0) <= MOST_SCALED:
            continue
        axes = sorted({int(axis) % shape.rank for axis in np.ravel(over)})
        others = {*range(1, shape.rank)} - {*axes} if min(axes, default=0) else set()
        before = upstream([op.inputs[0]], until).values() if others else ()
        for targets, of in itertools.chain(*map(_factors, before)):
            if not targets.shape == of.shape == shape or not _makes_shares(targets):
                continue
            # Not such as how often each class occurs, or what a model attends to.
            if not _reads_variable(targets) and _reads_variable(of):
                found += [_how_crossed(targets, of, axes, axis) for axis in others]
    return found


def _factors(op: tf.Operation) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """The factors of a product in both orders, without signs; also what the second one lessens."""
    for first, second in itertools.permutations(op.inputs, 2) if op.type == "Mul" else ():
        first = first.op.inputs[0] if first.op.type == "Neg" else first
        yield first, second
        while second.op.type in ("Neg", "Sub"):  # as in a divergence
            second = second.op.inputs[-1]
            yield first, second


def _makes_shares(tensor: tf.Tensor) -> bool:
    source = _source(tensor)
    while source.type == "Transpose":  # around a softmax that isn't along the last axis
        source = _source(source.inputs[0])
    is_quotient = source.type in ("RealDiv", "DivNoNan")
    return _source(source.inputs[0]).type == "Exp" if is_quotient else source.type in SHARES


def _how_crossed(targets: tf.Tensor, logarithms: tf.Tensor, axes: list[int], own: int) -> tf.Tensor:
    t, p = tf.cast(targets, tf.float64), tf.exp(tf.cast(logarithms, tf.float64))
    sums = [tf.reduce_sum(x, over) for x in (t, p) for over in (axes, own)]
    of_t, t_own, p_axes, of_p = (tf.reduce_all(tf.abs(x - 1) < 1e-3) for x in sums)
    differ = tf.reduce_any(tf.reduce_max(t, own) - tf.reduce_min(t, own) > 1e-3)
    crossed = of_t & of_p & differ & ~(t_own | p_axes)
    beside = tf.reduce_sum(t, own, keepdims=True) - t
    are_shares = tf.reduce_any((t > 0) & (t < 0.999) & (beside > 0))
    return tf.stack([tf.cast(n, tf.int32) for n in (crossed, are_shares, own, *axes)])


def _reads_variable(tensor: tf.Tensor) -> bool:
    return any(t.dtype == tf.resource for op in upstream([tensor]).values() for t in op.outputs)


def scaled_by_constants(ops: Iterable[tf.Operation]) -> list[list[tf.Tensor]]:
    """For each (x - center) / deviation of a batch, scaled by the same numbers in each row.

    The result (rows, columns), and the center and deviation: (columns,), or one number.
    """
    found = []
    for op in ops:
        if op.type != "RealDiv" or (before := _source(op.inputs[0])).type != "Sub":
            continue
        if _reads_variable(before.inputs[0]):  # a prediction, which is anywhere at first
            continue
        scaled, center, deviation = op.outputs[0], before.inputs[1], op.inputs[1]
        size, *others = (t.shape.num_elements() for t in (scaled, center, deviation))
        if size is None or size > MOST_SCALED or not scaled.shape.rank:
            continue
        columns = scaled.shape[-1] if scaled.shape.rank > 1 else 1
        if {*others} <= {1, columns}:
            scaled = tf.reshape(scaled, [-1, columns])
            found.append([tf.cast(t, tf.float64) for t in (scaled, center, deviation)])
    return found


def activated_logits(ops: Iterable[tf.Operation]) -> list[str]:
    """The activations whose outputs cross-entropies use as logits."""
    sources = [_unclipped_source(op.inputs[0]).type for op in ops
               if op.type in SOFTMAX_LOSSES or _is_of_sigmoid(op)]  # fmt: skip
    return [source.lower() for source in sources if source in ACTIVATIONS]


def _unclipped_source(tensor: tf.Tensor) -> tf.Operation:
    """The operation that computed a tensor before it was clipped to constants."""
    source = _source(tensor)
    while source.type in CLIPS and all(
        tf.get_static_value(bound) is not None for bound in source.inputs[1:]
    ):
        source = _source(source.inputs[0])
    return source


def _is_of_sigmoid(op: tf.Operation) -> bool:
    """Whether the first input is the logits of a binary cross-entropy."""
    return "logistic_loss" in op.name and op.type in ("Relu", "Neg", "GreaterEqual")


def has_logits(ops: Iterable[tf.Operation], rank: int) -> bool:
    """Whether any tensor of that rank is the logits of a cross-entropy, or of probabilities."""
    of_logits = (op for op in ops if _is_of_sigmoid(op) or op.type in PROBABILITIES)
    return any(op.inputs[0].shape.rank in (None, rank) for op in of_logits)


def multiplies_by(ops: Iterable[tf.Operation], numbers: set[float]) -> bool:
    """Whether something is multiplied or divided by one of these numbers."""
    given = (tf.get_static_value(t) for op in _forward(ops, {"Mul", "RealDiv"}) for t in op.inputs)
    values = [float(value) for value in given if value is not None and np.ndim(value) == 0]
    return any(np.isclose(value, number, rtol=1e-6) for value in values for number in numbers)


def is_compared(ops: Iterable[tf.Operation], given: tf.Tensor, number: float) -> bool:
    """Whether a tensor, or a part of it, is compared with a number, as mask_zero does."""
    for op in _forward(ops, {"NotEqual", "Equal", "Greater", "Cast"}):
        if _source(op.inputs[0]).name != given.op.name:
            continue
        if op.type == "Cast":
            bound = 0 if op.outputs[0].dtype == tf.bool else None
        else:
            bound = tf.get_static_value(op.inputs[1])
        if bound is not None and np.ndim(bound) == 0 and bound == number:
            return True
    return False


def clipped_outputs(ops: Iterable[tf.Operation]) -> str:
    """Outputs of a linear layer that are clipped near 0 and 1 before a logarithm; or nothing."""
    for op in _forward(ops, {"Log"}):
        tensor, bounds = op.inputs[0], list[float]()
        while tensor.op.type in ("Maximum", "Minimum"):
            tensor, bound = tensor.op.inputs
            value = tf.get_static_value(bound)
            bounds.append(float(value) if np.size(value) == 1 and value is not None else np.inf)
        if len(bounds) != 2 or not (0 <= min(bounds) < 0.01 and 0.99 < max(bounds) <= 1):
            continue
        source = _source(tensor)
        if source.type == "RealDiv" and _source(source.inputs[1]).type == "Sum":
            source = _source(source.inputs[0])  # shares of their sum, which Keras takes
        given = [_source(t).type for t in source.inputs]
        is_linear = source.type in LINEAR or (source.type == "AddV2" and given[0] in LINEAR)
        if is_linear and not {*given} & {*ACTIVATIONS, "RealDiv"}:
            return str(source.name)
    return ""


def compared_with_half(ops: Iterable[tf.Operation]) -> str:
    """The operation that compares logits of a cross-entropy with 0.5; or nothing."""
    logits, found = set[str](), list[tf.Operation]()
    for op in ops:
        if _is_of_sigmoid(op):
            logits.add(_unshaped(op.inputs[0]).name)
        elif op.type in ("Greater", "GreaterEqual"):
            bound = tf.get_static_value(op.inputs[1])
            if bound is not None and np.ndim(bound) == 0 and bound == 0.5:  # not several thresholds
                found.append(op)
    return next((str(op.name) for op in found if _unshaped(op.inputs[0]).name in logits), "")


def _unshaped(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor before its shape or type was changed; a slice is a new tensor."""
    while tensor.op.type in RESHAPES:
        tensor = tensor.op.inputs[0]
    return tensor


def softmax_along(
    ops: Iterable[tf.Operation], shapes: list[tuple[int, ...]]
) -> tuple[int, tuple[int, ...]] | None:
    """An axis of a tensor of one of these shapes, not the last, and the shape; or None.

    TensorFlow swaps such an axis and the last one before the softmax.
    """
    for op in _forward(ops, {"Softmax", "LogSoftmax"}):
        source = _source(op.inputs[0])
        if source.type == "Transpose":
            given, turned = (t.shape.as_list() for t in (source.inputs[0], op.inputs[0]))
            moved = [i for i, (m, n) in enumerate(zip(given, turned, strict=False)) if m != n]
            if tuple(given) in shapes and len(moved) == 2 and moved[1] == len(given) - 1:
                return moved[0], tuple(given)
    return None


def applied_to_outputs(
    ops: Iterable[tf.Operation], types: Collection[str], of: Collection[str]
) -> str:
    """The first operation of these types that gets the output of one of the others, or nothing."""
    found = (str(op.name) for op in _forward(ops, types) if _source(op.inputs[0]).type in of)
    return next(found, "")


def _source(tensor: tf.Tensor) -> tf.Operation:
    """The operation that computed a tensor, or joined several kinds, but for changes of shape."""
    op = tensor.op
    while op.type in PASSED_THROUGH:
        if op.type == "ConcatV2":
            sources = [_source(joined) for joined in op.inputs[:-1]]
            return sources[0] if len({source.type for source in sources}) == 1 else op
        op = op.inputs[op.type == "Split"].op  # whose first input is the axis
    return op
