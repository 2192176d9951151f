"""Relations of the first batch and step, and of random numbers in them."""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Any

import numpy as np
import tensorflow as tf

from ..batches import seeded
from ..data_errors import reading_errors
from ..randomness import SAME_ROWS
from . import neighbors
from .findings import Finding, look, ok, relation, wrong
from .graph import (
    MAKES_SEEDS,
    assigned_variables,
    change_one_result,
    drawn_of_constants,
    drawn_twice,
    never_the_last,
    noise_of_all_rows,
    of_one_seed,
    random_numbers,
    upstream,
)
from .laboratory import Laboratory
from .numbers import (
    LEAST_SIZE,
    ORIENTATIONS,
    different,
    equal,
    equal_parts,
    named_leaves,
    only,
)
from .probe import words_of
from .runs import SECS_READ, Failed, stage

MOST_SEEDS, SOME_SEEDS = 10, 4
MOSTLY = 0.6  # of the ids of inputs
MOST_COLUMNS = 32  # of labels that are compared with each other
MOST_IMAGES = 3  # of an example
FEW_KNOWN = 8  # rows that have two columns
FEW_MOVED = 12  # images, of which fewer have a correlation by chance
BESIDE = 0.2  # of the way between two labels: mixed ones are nearer to it
MOST_CLASSES = 100  # of pixels; maps of more numbers, such as of depth, may be interpolated
MOST_PLACES = 4  # random numbers that apply to all rows, such as a place in images
OWN_SEED = "give each a seed of its own, for example from tf.random.split"
ONE_SEED = "both are made with the same random numbers, from one seed"
# In names of labels that say where something is in an image.
PLACES = {"box", "boxes", "bbox", "bboxes", "corners", "keypoints", "landmarks", "points"}
BOXES = ((0, 2), (1, 3))  # the columns of opposite sides


@relation("a train step runs")
def first_step(lab: Laboratory) -> Finding:
    """Losses and gradients of the first batch are finite."""
    if lab.base.finite:
        return ok(", ".join(f"loss {n} {loss:.4g}" for n, loss in lab.base.losses.items()))
    losses = [name for name, loss in lab.base.losses.items() if not np.isfinite(loss)]
    if losses:
        return wrong(
            f"the loss {losses[0]} of the first batch is {lab.base.losses[losses[0]]}",
            "NaN in the data (also where the weight is 0: 0 x NaN is NaN), a logarithm of 0, a "
            "division by 0, or no example that counts",
            "see the relations about data above, and clip the arguments of logarithms",
        )
    return wrong(
        "the loss of the first batch is finite, but its gradient is not",
        "the derivative of a square root, a norm or a logarithm at 0 is not finite",
        "add a small constant (epsilon) to its argument",
    )


@relation("the same step again")
def same_step_again(lab: Laboratory) -> Finding:
    """A step gives the same results when it is computed again."""
    _, random = random_numbers(lab.traced.ops[0].graph)
    if random:
        return wrong(
            f"{random[0]} gives different numbers each time",
            "tf.random.normal and similar functions are stateful: they don't follow from seed "
            "and step, so no run can be resumed or repeated",
            "use tf.random.stateless_* with replica.seed, or a SeedGenerator in the layer",
        )
    again = lab.look(lab.batch)
    if differences := lab.base.differences(again):
        seen = f"{' and '.join(differences[:2])} differ when the same step is computed again"
        if names := assigned_variables(lab.traced.ops):
            return wrong(
                f"{seen}, and {names[0]} writes a variable",
                "a tf.Variable that the engine does not track holds a count or other state: it "
                "isn't saved, and each replica has a value of its own",
                "use replica.step, a Keras weight created with add_weight, or a metric",
            )
        return wrong(
            seen,
            "random numbers or a counter that don't depend on seed and step only",
            "use tf.random.stateless_* with replica.seed",
        )
    return ok()


@relation("random numbers differ")
def random_numbers_differ(lab: Laboratory) -> Finding:
    """Each step, micro-batch and replica draws different random numbers, as does each --seed."""
    if not lab.is_the_same_when_traced_again:
        return wrong(
            "each trace of the step computes something different",
            "Python or NumPy draws random numbers, or counts, during tracing: in the graph that is "
            "a constant, the same in every step",
            "use tf.random.stateless_* with replica.seed, and replica.step to count",
        )
    # Integers may be equal by chance, so their seed is examined instead.
    of_losses = [op for op in lab.traced.ops if op.name in lab.traced.ops_of_losses]
    fixed = {op.name for op in drawn_of_constants(lab.traced.ops)}
    same = [op for op in of_losses if op.name in fixed and op.outputs[0].dtype.is_integer]
    if not lab.base.drawn and not same:
        return _starts_alike(lab) or ok("the step draws none, or integers only")
    if lab.traced.drawn_alike:
        return wrong(
            f"{lab.traced.drawn_alike[0]} draws the same numbers for the rows of every replica and "
            "micro-batch",
            "its seed depends on the step only",
            "use replica.seed",
        )
    alike = set(lab.base.drawn)
    for step in (1, 10, 101, 1009):  # numbers may stay the same for some steps on purpose
        later = lab.look(lab.batch, step=step).drawn if alike else {}
        alike = {n for n in alike if np.array_equal(lab.base.drawn[n], later[n])}
    names = [op.name for op in same] + [name for name in lab.base.drawn if name in alike]
    # Numbers without an axis of rows may be a fixed projection or selection.
    of_all = {op.name for op in lab.traced.ops if op.name in names and _is_for_all(op.outputs[0])}
    for_all = [name for name in names if SAME_ROWS in name or name in of_all]
    if names:
        return (wrong if for_all else look)(
            f"{(for_all or names)[0]} draws the same numbers in every step",
            "its seed is a constant",
            "use replica.seed in a step, and in a layer a SeedGenerator that is an attribute",
        )
    if found := _of_all_rows(lab.traced.ops, lab.rows):
        return found
    if name := _sees_twice(lab):
        return (wrong if drawn_twice(lab.traced.ops) else look)(
            f"a train step changes inputs with random numbers, calls {name!r} with them twice, "
            "and gets the same result both times",
            ONE_SEED,
            OWN_SEED,
        )
    if shared := of_one_seed(of_losses):
        return look(
            f"{shared[0].name} and {shared[1].name} share a seed, so what one draws follows from "
            "what the other draws",
            "replica.seed is used twice",
            OWN_SEED,
        )
    # Rows whose parameters differ, such as of a gamma distribution, are drawn here one by one.
    for same in lab.traced.drawn_twice:
        if len(same) < lab.rows:
            return look(
                f"{same[0].name} and {same[1].name} draw the same numbers for one loss",
                "replica.seed is used twice",
                OWN_SEED,
            )
    return _starts_alike(lab) or ok()


@relation("the same batch again")
def same_batch_again(lab: Laboratory) -> Finding:
    """A batch is the same when it is made again, or without the batches before it."""
    # In order and alone: under a global seed, tf.random.normal repeats in each new dataset.
    alone = lab.batch, lab.second_batch
    for step, first in enumerate(lab.read_batches(0, 2)):
        if not equal(first, alone[step]):
            if lab.batches.augment is None:
                return wrong(
                    f"the batch of step {step} differs when it is read again",
                    "the stream comes in a different order each time, for example because of "
                    "shuffle(reshuffle_each_iteration=True) or random numbers from Python",
                    "leave shuffling to the engine, or use reshuffle_each_iteration=False",
                )
            return wrong(
                f"the batch of step {step} differs when it is made again",
                "the augmentation, or the stream, draws random numbers that don't depend on the "
                "given seed only",
                "in create_augment, use tf.random.stateless_* with the given seed",
            )
    second_epoch = _first_of_second_epoch(lab)
    if second_epoch is not None and not equal(
        second_epoch, lab.read_batch(lab.batches.steps_per_epoch)
    ):
        return wrong(
            "the first batch of the second epoch is different if a run is resumed there",
            "the stream keeps state between epochs: a cache() after random numbers, or a reshuffle",
            "put cache() before random operations, and random operations into create_augment",
        )
    return ok()


def _starts_alike(lab: Laboratory) -> Finding | None:
    """Whether all matrices that are trained, not loaded or adapted, start with the same values."""
    known = {np.shape(a) for a in (*lab.loaded, *lab.run.adapted.values())}
    trained = zip(lab.run.trainable_variables, lab.of_other_seed.trainable_variables, strict=True)
    pairs = [(v, lab.initial[id(v)], other.numpy()) for v, other in trained]
    drawn = [(v, a, b) for v, a, b in pairs if a.ndim > 1 and a.size >= LEAST_SIZE and np.ptp(a)
             and a.shape not in known]  # fmt: skip
    if not drawn or not all(np.array_equal(a, b) for _, a, b in drawn):
        return None
    return look(
        f"all weights that are drawn at random, such as {drawn[0][0].path}, start with the same "
        "values under another --seed",
        "create_model sets a random seed, or gives one to initializers: runs with other seeds are "
        "more alike than they seem",
        "leave the seed to --seed",
    )


@relation("augmentation")
def augmentation(lab: Laboratory) -> Finding:
    """The augmentation differs between steps, and labels still match their inputs."""
    if lab.batches.augment is None:
        return ok("none")
    augment, plain = seeded(lab.batches.augment), lab.plain_batch
    traced = tf.function(augment, autograph=False)
    graph = traced.get_concrete_function(plain, tf.constant([0, 1], tf.int64)).graph
    operations = graph.get_operations()
    made = traced(plain, tf.constant([0, 1], tf.int64))
    others = (traced(plain, tf.constant([0, n], tf.int64)) for n in range(2, 3 + MOST_SEEDS))
    is_constant = all(equal(made, other) for other in others)  # it may change only some batches
    known = _known_parts(plain, made)

    def known_again(batch: Any, seed: tf.Tensor) -> Any:
        return _known_parts(plain, augment(batch, seed))

    if found := (
        _drawn_alike(plain, made, augment, is_constant, graph)
        or _of_all_rows(operations, lab.rows)
        or _never_the_last(operations)
        or _wiped_out(plain, known, known_again)
        or _alike_in_training_alone(lab, operations)
        or _parted_from_inputs(lab, plain, known_again, known)
        or _turned_into_others(lab, plain, known)
    ):
        return found
    images = [part for part in tf.nest.flatten(plain) if part.shape.rank > 2]
    for same in drawn_twice(operations):
        behind = (upstream([output]) for output in graph.outputs)
        if all(sum(draw.name in before for draw in same) < 2 for before in behind):
            continue  # such as one permutation of the inputs and the same one of their labels
        vary_together = change_one_result(operations, same)
        if vary_together or len(images) < 2:  # masks must move with their images
            return (wrong if vary_together else look)(
                f"{len(same)} random draws share one seed, and give the same random numbers",
                "values that should vary independently vary together",
                "draw once, or give each a seed of its own, for example from tf.random.split(seed)",
            )
    return _mostly_replaced(plain, made) or ok()


def _known_parts(plain: Any, made: Any) -> Any:
    """An augmented batch without the parts that the data doesn't have, such as latents."""
    if len(plain) != len(made):
        return made
    return tuple(itertools.starmap(_known_part, zip(plain, made, strict=True)))


def _known_part(before: Any, after: Any) -> Any:
    """The arrays of an augmented part that stand in the data, by their names, or by their form."""
    if not isinstance(after, dict) or not (isinstance(before, dict) or tf.is_tensor(before)):
        return after
    if isinstance(before, dict):
        return {name: after[name] for name in before} if before.keys() <= after.keys() else after
    alike = [t for t in after.values() if tf.is_tensor(t)
             and (t.shape, t.dtype) == (before.shape, before.dtype)]  # fmt: skip
    return alike[0] if len(alike) == 1 else after


def _never_the_last(operations: list[tf.Operation]) -> Finding | None:
    """Whether a random choice never is the last one of several."""
    if not (missed := never_the_last(operations)):
        return None
    name, number = missed
    return wrong(
        f"{name} picks one of {number} choices, but never the last",
        "off-by-one: maxval of tf.random.stateless_uniform is exclusive, so it is never drawn",
        f"use maxval={number}",
    )


def _alike_in_training_alone(lab: Laboratory, operations: list[tf.Operation]) -> Finding | None:
    """Whether two parts of a batch are the same in training, and differ in evaluation."""
    # Constant parts, such as weights, may well be the same.
    same_parts = ((name, other) for name, other, t in equal_parts(lab.batch) if np.ptp(t) > 0)
    if not lab.evaluated_splits or not (names := next(same_parts, None)):
        return None
    parts = dict(named_leaves(lab.evaluation_batch))
    if any(name not in parts for name in names) or equal(*(parts[name] for name in names)):
        return None
    # Without such draws, perhaps only their dropout differs.
    return (wrong if drawn_twice(operations) else look)(
        f"{names[0]} and {names[1]} are the same numbers in training, but differ in evaluation",
        ONE_SEED,
        OWN_SEED,
    )


def _drawn_alike(
    plain: Any, made: Any, augment: Any, is_constant: bool, graph: tf.Graph
) -> Finding | None:
    """Whether an augmentation draws the same numbers in every step, or none."""
    operations = graph.get_operations()
    if is_constant:
        if equal(made, plain):
            return look("create_augment changes nothing", "", "return None from create_augment")
        if _draws_the_same(plain, augment):
            return wrong(
                "create_augment draws the same random numbers in every step",
                "its seed is a constant",
                "use tf.random.stateless_* with the given seed",
            )
        return look(
            "create_augment gives the same result in every step",
            "it draws no random numbers, or seldom uses them",
            "is this intended?",
        )
    used = upstream(graph.outputs)
    if fixed := [op for op in drawn_of_constants(operations) if op.name in used]:
        # One draw for each row does little harm, as other examples take these rows.
        for_all = [op for op in fixed if (op.outputs[0].shape.num_elements() or 99) <= MOST_PLACES]
        return (wrong if for_all else look)(
            f"{(for_all or fixed)[0].name} draws the same numbers in every step",
            "its seed is a constant",
            "use tf.random.stateless_* with the given seed",
        )
    return None


def _draws_the_same(plain: Any, augment: Any) -> bool:
    """Whether all random numbers that an augmentation uses are the same under other seeds."""

    def drawn(batch: Any, seed: tf.Tensor) -> list[tf.Tensor]:
        made = map(tf.convert_to_tensor, tf.nest.flatten(augment(batch, seed)))
        return [op.outputs[0] for op in upstream(made).values()
                if "Random" in op.type and op.type not in MAKES_SEEDS]  # fmt: skip

    draw = tf.function(drawn, autograph=False)
    one, *others = (draw(plain, tf.constant([0, n], tf.int64)) for n in range(1, 3 + MOST_SEEDS))
    return bool(one) and all(equal(one, other) for other in others)


def _parted_from_inputs(lab: Laboratory, plain: Any, augment: Any, made: Any) -> Finding | None:
    """How an augmentation separates labels or weights from their inputs; None if it doesn't."""
    if len(plain) != 3 or len(tf.nest.flatten(made)) != len(tf.nest.flatten(plain)):
        return None
    if found := _labels_between(lab, plain, augment):
        return found
    for what, part in (("labels", 1), ("weights", 2)):
        images, leaves = (range(len(tf.nest.flatten(plain[i]))) for i in (0, part))
        pairs = itertools.product(leaves, images[:MOST_IMAGES])
        of_each = (_maps_left_behind(plain, augment, part, *pair) for pair in pairs)
        if seen := next(filter(None, of_each), None):
            return wrong(
                f"{seen[0]:.0%} of the augmented {what} {seen[1]}",
                f"images are moved, but their {what} are not, or with other random numbers",
                "apply the same change to both: stack them, or draw once for both",
            )
    if found := (
        _flipped_without(plain, made)
        or _columns_turned(plain, made)
        or _one_axis_renumbered(plain, made)
    ):
        return found
    if any(each.dtype == tf.string for each in tf.nest.flatten(plain[:2])):
        return None  # the others compare numbers
    return (
        _moved_apart(plain, made)
        or _have_other_partners(plain, augment)
        or _labels_moved(plain, augment)
        or _mixed_without_labels(plain, augment)
    )


def _mixed_without_labels(plain: Any, augment: Any) -> Finding | None:
    """Whether inputs take up parts of other examples, and their labels, which differ, do not.

    All rows are one example, or every second one is another.
    """
    inputs, labels = only(plain[0]), [_numbers(part) for part in tf.nest.flatten(plain[1])]
    if inputs is None or not inputs.dtype.is_floating or inputs.shape.rank < 2 or not labels:
        return None
    if any(y[0].size > MOST_COLUMNS for y in labels):
        return None  # as the image that is to be found in a mixture
    x, others = _numbers(inputs), _other_rows(labels[0])
    if not len(others):
        return None
    far, is_own = _farthest(x, others), np.arange(len(x)) % 2 == 0

    def augmented(rows: np.ndarray, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
        (new, *_), *rest = _augmented(plain, augment, rows, seed)
        return new[is_own], [part[is_own] for part in itertools.chain(*rest)]

    before = [_numbers(part) for part in tf.nest.flatten(plain[1:])]
    changed, nearer = list[np.ndarray](), list[np.ndarray]()
    for (one, other), seed in itertools.product(((0, far), (far, 0)), range(SOME_SEEDS)):
        alone, beside, whole = (
            augmented(np.where(is_own, mine, theirs), seed)
            for mine, theirs in ((one, one), (one, other), (other, other))
        )
        if not all(map(np.array_equal, alone[1], beside[1])):
            return None
        a, b, c = alone[0], beside[0], whole[0]
        own, to_other = (np.abs(b - each).reshape(len(b), -1).sum(axis=1) for each in (a, c))
        stays = [_like(new, old, one) for new, old in zip(alone[1], before, strict=True)]
        changed.append(np.all(stays, axis=0) & (own > 1e-6 * np.abs(a).sum()))
        nearer.append(changed[-1] & (to_other < 0.8 * own))
    if np.mean(changed) < 0.1:
        return None
    is_larger = np.mean(nearer) > 0.1
    are_shares = any(new.ndim > old.ndim for new, old in zip(alone[1], before, strict=True))
    seen = ", also where the other one is the larger part" if is_larger else (
        ", although they become one number for each class" if are_shares else ""
    )  # fmt: skip
    return (wrong if seen else look)(
        f"{np.mean(changed):.0%} of the augmented inputs take up parts of other examples, and "
        f"their labels stay{seen}",
        "inputs are mixed, and labels are not",
        "mix both in the same ratio, or unite labels of which several may be right; or is the "
        "other one only a background?",
    )


def _like(new: np.ndarray, old: np.ndarray, row: int) -> np.ndarray:
    """Which new rows are as the old one was; in another form, which are as the first new one."""
    same = old[row] if new.shape[1:] == old.shape[1:] else new[0]
    return np.all(new == same, axis=tuple(range(1, new.ndim)))


def _of_all_rows(operations: list[tf.Operation], rows: int) -> Finding | None:
    """Whether noise is the same for all examples of a batch."""
    if not (name := noise_of_all_rows(operations, rows)):
        return None
    return wrong(
        f"{name} adds the same noise to all examples of a batch",
        "its shape is that of one example, so it is broadcast",
        "draw it with the shape of the batch",
    )


def _is_for_all(drawn: tf.Tensor) -> bool:
    """Whether a train step draws one number, or one place, for all rows."""
    size = drawn.shape.num_elements() or MOST_PLACES + 1
    return drawn.shape.rank == 0 or (drawn.dtype.is_integer and size <= MOST_PLACES)


def _sees_twice(lab: Laboratory) -> str:
    """The only model, if it gets the same random inputs twice; or ""."""
    functions, models = set(lab.run.functions.train_steps), lab.run.trained_models
    if len(models) != 1 or len(functions) > 1 or not lab.base.drawn:
        return ""
    ((name, model),), (step,) = models.items(), functions
    calls = [call for call in lab.calls_in_training if call.of is model]
    if len(calls) < 2:
        return ""
    others = lab.calls(step, lab.run, lab.batch, [model], seed=2)
    pairs = zip(calls, others, strict=True)
    drawn = [call for call, other in pairs if not equal(call.arguments, other.arguments)]
    for one, other in itertools.combinations(drawn, 2):
        if equal(one.arguments, other.arguments) and equal(one.made, other.made):
            return name
    return ""


def _wiped_out(plain: Any, augmented: Any, augment: Any) -> Finding | None:
    """Whether an augmentation makes the inputs of many examples constant."""
    given, made = only(plain[0]), only(augmented[0])
    if given is None or made is None or not made.dtype.is_floating or given.dtype == tf.string:
        return None
    share, few = _constant(made), _constant(given) + 0.2
    if made.shape[1:].num_elements() < 2 or share <= few:
        return None
    # A part of what is mostly background may be empty, but not where its numbers are spread.
    inputs = tf.nest.pack_sequence_as(plain[0], [tf.constant(_spread(np.asarray(given)))])
    again = only(augment((inputs, *plain[1:]), tf.constant([0, 1], tf.int64))[0])
    if again is not None and _constant(again) <= few:
        return None
    # Fewer may be left out on purpose, as a condition is for guidance without a classifier.
    return (wrong if share > 0.9 else look)(
        f"the inputs of {share:.0%} of the augmented examples are constant (one number everywhere)",
        "they are cast to integers, clipped or multiplied by 0",
        "check the scale of the numbers that create_augment gets",
    )


def _constant(inputs: tf.Tensor) -> float:
    """The fraction of the examples that are one number everywhere."""
    numbers = np.asarray(inputs, "f8").reshape(len(inputs), -1)
    return float(np.mean(np.ptp(numbers, axis=1) == 0))


def _spread(inputs: np.ndarray) -> np.ndarray:
    """Each number of an example about as often as any other one of it, in random places."""
    random, rows = np.random.default_rng(0), inputs.reshape(len(inputs), -1)
    spread = [random.permutation(np.resize(np.unique(row), row.size)) for row in rows]
    return np.stack(spread).reshape(inputs.shape)


def _mostly_replaced(plain: Any, augmented: Any) -> Finding | None:
    """Whether an augmentation replaces most ids, other than padding or background, by one."""
    before, after = (dict(named_leaves(batch)) for batch in (plain, augmented))
    for name, given in before.items():
        made = after.get(name)
        if not name.startswith("inputs") or not given.dtype.is_integer:
            continue  # numbers that aren't ids may be covered, as by masks or dropout
        if made is None or made.shape != given.shape:
            continue
        a, b = np.asarray(given), np.asarray(made)
        counts = a != _most_common(a.reshape(-1, 1))
        changed = counts & (b != a)
        if not changed.any():
            continue
        number = _most_common(b[changed].reshape(-1, 1))[0]
        share = float(np.mean(b[counts] == number))
        if share > MOSTLY and np.mean(a[counts] == number) < share / 2:
            return look(
                f"create_augment replaces {share:.0%} of {name} by {number:g}",
                "what is to be dropped and what is to be kept are exchanged: a random number is "
                "compared the wrong way, or the rate is that of keeping",
                "is this intended?",
            )
    return None


def _maps_left_behind(
    plain: Any, augment: Any, part: int, leaf: int, image: int
) -> tuple[float, str] | None:
    """In which fraction of the images labels or weights don't fit, and how; None if in few.

    To compare, images are replaced by the labels or weights, in the images' range of numbers.
    Labels may be coarser than images, by a whole factor, and have one number for each class.
    """
    flat = [tf.nest.flatten(each) for each in plain]
    if tf.string in (flat[part][leaf].dtype, flat[0][image].dtype):
        return None
    x, y = np.asarray(flat[0][image]), np.asarray(flat[part][leaf], "f8")
    is_one_of_several = y.ndim == 4 and y.shape[3] > 1 and np.isin(y, (0, 1)).all()
    are_classes = part == 1 and bool(is_one_of_several and (y.sum(axis=3) == 1).all())
    y = _of_pixels(y, are_classes) if are_classes or y.shape[3:] == (1,) else y
    if x.dtype.kind not in "fiu" or x.ndim != 4 or y.ndim != 3 or min(y.shape[1:]) < 4:
        return None  # (rows, points, 2) is no map
    factor = x.shape[1] // max(1, y.shape[1])
    if x.shape[:3] != (len(y), factor * y.shape[1], factor * y.shape[2]):
        return None
    if part == 2 and not np.ptp(y, axis=0).any():
        return None  # the same for each image, such as a lower weight at the border
    is_known = np.isfinite(y)
    if not is_known.any():
        return None
    unknown = y[is_known].mean()  # such as of a depth that wasn't measured
    y = np.where(is_known, y, unknown)
    painted = x.min() + (y - y.min()) / (np.ptp(y) or 1) * np.ptp(x.astype("f8"))
    painted = painted.repeat(factor, axis=1).repeat(factor, axis=2)
    images = np.broadcast_to(painted[..., np.newaxis], x.shape).astype(x.dtype)

    def augmented(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs = [*flat[0][:image], tf.constant(images), *flat[0][image + 1 :]]
        batch = (tf.nest.pack_sequence_as(plain[0], inputs), *plain[1:])
        new = augment(batch, tf.constant([0, 1], tf.int64))
        shown, maps = (
            np.asarray(tf.nest.flatten(new[i])[j], "f8") for i, j in ((0, image), (part, leaf))
        )
        maps = np.where(np.isfinite(maps), maps, unknown)
        return shown, _of_pixels(maps, are_classes)

    a, b = augmented(images)
    if a.ndim != 4 or b.ndim != 3 or a.shape[:3] != (len(b), *(factor * n for n in b.shape[1:])):
        return None
    a = _coarser(a.mean(axis=3), factor)
    turned = [turn(b) for turn in ORIENTATIONS.values()]
    fits = np.stack([_correlations(a, t) for t in turned if t.shape == a.shape])
    share = float(np.mean((fits[1:].max(axis=0) > 0.6) & (fits[1:].max(axis=0) > fits[0] + 0.2)))
    if share > 0.1:
        return share, "fit their images only after a flip or a rotation"
    if b.shape != y.shape or (part == 1 and not (are_classes or flat[1][leaf].dtype.is_integer)):
        return None  # such as another view of the same images
    stays = np.all(b == y, axis=(1, 2)) & (y.std(axis=(1, 2)) > 0)
    share = float(np.mean(stays & (fits[0] < 0.9)))
    if share > 0.5:
        # Noise and covered parts do not differ between an image and its negative.
        negative, _ = augmented((x.min() + x.max() - images.astype("f8")).astype(x.dtype))
        apart = a - _coarser(negative.mean(axis=3), factor)
        is_seen = np.abs(apart) > 0.1 * np.abs(apart).max()
        middle = np.broadcast_to(b.mean(axis=(1, 2), keepdims=True), b.shape)
        fits_there = _correlations(*(np.where(is_seen, each, 0) for each in (apart, b - middle)))
        share = float(np.mean(stays & (fits_there < 0.9)))
    if share > 0.5:
        return share, "stay where they were"
    # On a gray image, only noise, cut-out patches and the like differ from gray.
    gray, _ = augmented(np.full_like(images, (x.min() + x.max()) / 2))
    gray = _coarser(gray.mean(axis=3), factor)
    usual = np.median(gray, axis=(1, 2), keepdims=True)
    is_shown = np.abs(gray - usual) <= 0.02 * np.ptp(painted)
    # Beside them too, where the means are taken over what may be ignored there.
    is_shown = _blurred(is_shown.astype("f8")) > 0.99
    shown, maps = (_with_mean_elsewhere(_blurred(each), is_shown) for each in (a, b))
    is_apart = (_correlations(shown, maps) < 0.8) & (is_shown.mean(axis=(1, 2)) > 0.5)
    varies = y.std(axis=(1, 2)) > 0  # unlike that of an image without labels
    share = float(np.mean(is_apart[varies])) if varies.any() else 0.0
    return (share, "are not aligned with their images") if share > 0.5 else None


def _of_pixels(maps: np.ndarray, are_classes: bool) -> np.ndarray:
    """Maps (n, h, w) of those that have a last axis of 1, or of zeros and a one for the class."""
    if maps.ndim != 4:
        return maps
    return maps.argmax(axis=3).astype("f8") if are_classes else maps[..., 0]


def _with_mean_elsewhere(maps: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Maps (n, h, w) with the mean of some of their places in all others."""
    means = np.ma.array(maps, mask=~there).mean(axis=(1, 2), keepdims=True)
    return np.where(there, maps, np.ma.filled(means, 0))


def _coarser(maps: np.ndarray, factor: int) -> np.ndarray:
    """The means over squares of `factor` x `factor` pixels: (n, h, w) -> (n, h / f, w / f)."""
    number, height, width = maps.shape
    squares = maps.reshape(number, height // factor, factor, width // factor, factor)
    return squares.mean(axis=(2, 4))


def _turned_into_others(lab: Laboratory, plain: Any, made: Any) -> Finding | None:
    """Whether images are flipped or rotated so that nearest neighbors have other labels."""
    images = [tf.nest.flatten(batch[0])[0] for batch in (plain, made)]
    if images[0].shape.rank != 4 or images[0].shape != images[1].shape:
        return None
    x, z = (np.asarray(each, "f8") for each in images)
    known = neighbors.points({"train": lab.examples["train"]}).get("train")
    if known is None or known.labels.dtype.kind not in "iu":
        return None
    own = neighbors.agreement(known, known)
    if own < 0.8 or known.inputs.shape[1] != x[0].size or not equal(plain[1:-1], made[1:-1]):
        return None
    turns = {how: turn for how, turn in ORIENTATIONS.items() if turn(x).shape == x.shape}
    fits = np.stack([_correlations(z, turn(x)) for turn in turns.values()])
    is_sure = fits.max(axis=0) > np.maximum(0.6, fits[0] + 0.2)
    for i, (how, turn) in enumerate(turns.items()):
        share = float(np.mean(is_sure & (fits.argmax(axis=0) == i)))
        if share <= 0.05:
            continue
        turned = turn(known.inputs.reshape(-1, *x.shape[1:])).reshape(known.inputs.shape)
        others = known._replace(inputs=turned)
        agreement = neighbors.agreement(others, known)
        # Nearer images may show the same object, as in several frames.
        as_far = neighbors.agreement(known, known, neighbors.distance(others, known))
        if as_far > 0.5 and agreement < 0.6 * as_far:
            _, losses, of_others = lab.fresh
            if of_others and different(losses, of_others):
                return wrong(
                    f"{share:.0%} of the augmented images are {how}, and nearest neighbors of "
                    f"training images that are {how} have other labels ({agreement:.2f}, where 1 "
                    f"is always the same and 0 is chance; {own:.2f} for unchanged images)",
                    "in that orientation an image shows another class, or none, as with digits",
                    "remove this change of orientation from the augmentation",
                )
    return None


def _flipped_without(plain: Any, made: Any) -> Finding | None:
    """Whether labels, called boxes or points, stay where images are flipped."""
    images = [(x, z) for x, z in zip(*map(tf.nest.flatten, (plain[0], made[0])), strict=True)
              if x.shape.rank == 4 and x.shape == z.shape]  # fmt: skip
    if len(images) != 1:
        return None
    x, z = (np.asarray(part, np.float64) for part in images[0])
    axes = (1, 2, 3)
    to_plain = np.abs(z - x).mean(axis=axes)
    to_flipped = [np.abs(z - np.flip(x, axis)).mean(axis=axes) for axis in (1, 2)]
    is_flipped = np.min(to_flipped, axis=0) < 0.5 * to_plain
    before, after = (dict(named_leaves(batch)) for batch in (plain, made))
    for name in before if is_flipped.sum() >= 4 else ():
        y = np.asarray(before[name])
        is_place = name.startswith("labels") and words_of(name) & PLACES and y.dtype.kind == "f"
        if not is_place or y.shape[-1] not in (2, 4) or name not in after:
            continue
        y, z = (each[is_flipped] for each in (y, np.asarray(after[name])))
        if np.array_equal(y, z, equal_nan=True) and not np.isnan(y).all():  # some are missing
            return wrong(
                f"images are flipped, and {name} stay the same",
                "places in an image are not flipped with it",
                "flip them too: a distance x from the left becomes 1 - x, and sides change places",
            )
    return None


def _columns_turned(plain: Any, made: Any) -> Finding | None:
    """Whether a column of labels (rows, columns) that was less than another becomes greater.

    These are sides of boxes (left, top, right, bottom), or other places, which may be mirrored.
    """
    before, after = (dict(named_leaves(batch)) for batch in (plain, made))
    found: list[tuple[bool, int, int, str]] = []
    for name, y in before.items():
        z, columns = after.get(name, y), y.shape[1:].num_elements() or 0
        is_label = name.startswith("labels") and y.dtype.is_floating and y.shape == z.shape
        if is_label and columns <= MOST_COLUMNS:
            coordinates = y.shape[-1] if y.shape.rank == 3 else 1  # of each point
            y, z = (np.reshape(each, (len(each), columns)) for each in (y, z))
            found += [(*pair, name) for pair in _pairs_turned(y, z, coordinates)]
    if not found:
        return None
    are_boxes, less, more, name = max(found, key=lambda each: each[0])
    of_row = " of a row as one list" * (before[name].shape.rank > 2)
    return (wrong if are_boxes else look)(
        f"number {less} of {name}{of_row} is always less than number {more}, but often more after "
        "the augmentation",
        "mirrored places get new numbers, but don't change places: what was left is right",
        "swap left and right where an example is mirrored (flipped), such as two joints or sides",
    )


def _one_axis_renumbered(plain: Any, made: Any) -> Finding | None:
    """Whether matrices that are symmetric, as those of bonds, are reordered along one axis only."""
    before, after = (dict(named_leaves(batch)) for batch in (plain, made))
    for name, part in before.items():
        if part.shape.rank < 3 or part.shape[1] != part.shape[2] or part.dtype == tf.string:
            continue
        x, z = np.asarray(part), np.asarray(after.get(name, part))
        if x.shape != z.shape or not np.array_equal(x, x.swapaxes(1, 2)):
            continue
        same = np.sort(x.reshape(len(x), -1)) == np.sort(z.reshape(len(z), -1))
        turned = (z != z.swapaxes(1, 2)).reshape(len(z), -1).any(axis=1)
        if same.all() and np.mean(turned) > 0.1:
            return wrong(
                f"{name} are symmetric, but after the augmentation {np.mean(turned):.0%} of them "
                "are not, although their numbers are the same",
                "nodes are reordered along one axis and keep their places along the other",
                "reorder both axes in the same way",
            )
    return None


def _pairs_turned(y: np.ndarray, z: np.ndarray, coordinates: int) -> list[tuple[bool, int, int]]:
    """Pairs of columns, and whether they are of boxes; 0 and NaN are of missing points."""
    if np.mean(np.sort(y) == np.sort(z)) > 0.9:  # numbered anew on purpose, as nodes of a graph
        return []
    found = []
    for i, j in itertools.permutations(range(y.shape[1]), 2):
        both = np.concatenate([y[:, [i, j]], z[:, [i, j]]], axis=1)
        known = ((both != 0) & ~np.isnan(both)).all(axis=1)
        is_less = y[known, i] < y[known, j]
        if i % coordinates != j % coordinates or len(is_less) < FEW_KNOWN or not is_less.all():
            continue
        if np.mean(z[known, i] > z[known, j]) > 0.1:
            found.append((coordinates == 1 and (i, j) in BOXES and y.shape[1] == 4, i, j))
    return found


def _blurred(maps: np.ndarray) -> np.ndarray:
    """Means over 3 x 3 pixels, which hide differences of interpolation at edges."""
    padded = np.pad(maps, ((0, 0), (1, 1), (1, 1)), mode="edge")
    height, width = maps.shape[1:]
    parts = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.mean(parts, axis=0)


def _labels_between(lab: Laboratory, plain: Any, augment: Any) -> Finding | None:
    """Whether an augmentation makes numbers between two classes of maps of these two alone."""
    part = only(plain[1])
    if part is None or not part.dtype.is_integer or not _is_map(part, plain[0]):
        return None
    y = np.asarray(part)
    high = y.max()
    if y.min() < 0 or high - y.min() < 2 or len(np.unique(y)) > MOST_CLASSES:
        return None
    two = tf.constant(np.where(y > y.min(), high, 0), part.dtype)
    batch = (plain[0], tf.nest.pack_sequence_as(plain[1], [two]), plain[2])
    made = np.asarray(tf.nest.flatten(augment(batch, tf.constant([0, 1], tf.int64))[1])[0])
    between = made[(made > 0) & (made < high)]
    if made.ndim != y.ndim or not between.size:
        return None
    return (look if _are_numbers(lab) else wrong)(
        f"where labels are only 0 or {high}, augmented labels are {between.flat[0]:.3g} too",
        "labels are resized or rotated with interpolation, which creates classes that do not exist",
        'use interpolation="nearest" for labels',
    )


def _are_numbers(lab: Laboratory) -> bool:
    """Whether a loss compares labels with as many predictions, as of meters and not of classes."""
    with contextlib.suppress(Failed):  # a step that doesn't run
        return any(np.size(p) == np.size(y) for y, p, _ in lab.base.calls.values())
    return False


def _is_map(labels: tf.Tensor, inputs: Any) -> bool:
    """Whether labels are of the pixels of images among the inputs, or of squares of pixels.

    Others with several axes may be places, or words: (rows, points, 2), (rows, times, words).
    """
    if labels.shape.rank < 3 or min(labels.shape[1:3]) <= 4:  # (rows, boxes, 4)
        return False
    height, width = labels.shape[1:3]
    images = (each.shape for each in tf.nest.flatten(inputs) if each.shape.rank > 3)
    return any(
        of[1] * width == of[2] * height and of[1] % height == of[2] % width == 0 for of in images
    )


def _correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The size of the correlation of each row of `a` with that of `b`; 0 where one is constant."""
    a, b = (x.reshape(len(x), -1) for x in (a, b))
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    norms = np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))
    return np.abs(np.sum(a * b, axis=1)) / np.where(norms > 0, norms, np.inf)


def _share(mixed: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The position of each row between two examples: 0 at the first, 1 at the second."""
    way = np.ravel(second - first)
    return (mixed - first).reshape(len(mixed), -1) @ way / (way @ way)


def _labels_moved(plain: Any, augment: Any) -> Finding | None:
    """Whether the augmentation separates inputs from labels, where it gets two examples alone."""
    inputs, labels = only(plain[0]), only(plain[1])
    if inputs is None or labels is None:
        return None
    x, y = _numbers(inputs), _numbers(labels)
    others = _other_rows(y)
    if not len(others):
        return None
    far = _farthest(x, others)

    def augmented(rows: np.ndarray) -> list[np.ndarray]:
        return [part[0] for part in _augmented(plain, augment, rows, 1)[:2]]

    a, b = augmented(np.where(np.arange(len(x)) % 2, far, 0))  # alternating
    if a.shape != x.shape or b.shape != y.shape:
        return None
    to_first, to_far = _distances(b, y[0]), _distances(b, y[far])
    seen = ""
    if np.minimum(to_first, to_far).max() > 1e-6:  # labels of their own, as mixup gives
        of_x, of_y = _share(a, x[0], x[far]), _share(b, y[0], y[far])
        way = y[far] - y[0]
        # Others are mixed with themselves, or made of more than both, as by noise.
        between = y[0] + of_y.reshape(-1, *[1] * way.ndim) * way
        is_mixed = _distances(b, between) < BESIDE * np.abs(way).sum()
        is_mixed &= (of_y > 0.02) & (of_y < 0.98)
        of_x, of_y = of_x[is_mixed], of_y[is_mixed]
        if len(of_x) >= 4 and min(of_x.std(), of_y.std()) > 0.05 and (
            np.corrcoef(of_x, of_y)[0, 1] < -0.5
        ):  # fmt: skip
            seen = "augmented inputs have more of one example, but labels have more of the other"
    else:
        # Augmented in the same way, but not mixed.
        alone = [augmented(np.full(len(x), row))[0] for row in (0, far)]
        near = [np.square(a - one).reshape(len(a), -1).sum(axis=1) for one in alone]
        share = int(np.sum((to_first < to_far) != (near[0] < near[1])))
        if share >= 0.2 * len(x):
            seen = f"{share} of {len(x)} augmented inputs have the label of another example"
    return wrong(
        seen,
        "inputs and labels are shuffled into another order, or mixed, one without the other",
        "use one permutation and one mixing ratio for both",
    ) if seen else None  # fmt: skip


def _numbers(part: Any) -> np.ndarray:
    """The only array of a part of a batch; what is missing (NaN) as 0, so that it equals itself."""
    return np.nan_to_num(np.asarray(tf.nest.flatten(part)[0], "f8"))


def _augmented(plain: Any, augment: Any, rows: np.ndarray, seed: int) -> list[list[np.ndarray]]:
    """The arrays of each part of an augmented batch of these rows, as numbers."""
    batch = tf.nest.map_structure(lambda t: tf.gather(t, rows), plain)
    made = augment(batch, tf.constant([0, seed], tf.int64))
    return [[_numbers(leaf) for leaf in tf.nest.flatten(part)] for part in made]


def _farthest(x: np.ndarray, rows: np.ndarray) -> int:
    """The one of some rows that is farthest from the first one of all."""
    return int(rows[_distances(x, x[0])[rows].argmax()])


def _other_rows(y: np.ndarray) -> np.ndarray:
    """The numbers of the rows that differ from the first one."""
    return np.flatnonzero((y != y[0]).reshape(len(y), -1).any(axis=1))


def _distances(rows: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The sum of the differences of each row from another one."""
    return np.abs(rows - other).reshape(len(rows), -1).sum(axis=1)


def _have_other_partners(plain: Any, augment: Any) -> Finding | None:
    """Whether many rows have mixed inputs but not labels, and many mixed labels but not inputs.

    Rows are two examples at random, one painted black and one white, so that pixels identify them.
    """
    x, y, weights = map(only, plain)
    if x is None or y is None or weights is None:
        return None
    others = _other_rows(np.asarray(y, "f8"))
    is_mask = y.shape.rank > 2  # a mask moves with its image and is not mixed
    is_white = np.random.default_rng(0).random(len(y)) < 0.5
    if not x.dtype.is_floating or x.shape.rank < 2 or not len(others) or is_mask:
        return None
    painted = np.ones(x.shape) * is_white.reshape(-1, *[1] * (x.shape.rank - 1))
    parts = tf.constant(painted, x.dtype), tf.gather(y, np.where(is_white, others[0], 0)), weights
    batch = tf.nest.pack_sequence_as(plain, parts)
    made = (augment(batch, tf.constant([0, n], tf.int64))[:2] for n in range(SOME_SEEDS))
    pairs = [tf.nest.flatten(each) for each in made]
    if any(a.shape != x.shape or len(b) != len(a) or b.dtype.is_integer for a, b in pairs):
        return None  # classes, and markers of missing ones, aren't mixed
    a, b = (np.concatenate(each).astype("f8") for each in zip(*pairs, strict=True))
    is_white = np.tile(is_white, SOME_SEEDS)
    if is_white.all() or not is_white.any() or a.min() < -1e-6 or a.max() > 1 + 1e-6:
        return None
    # If images are moved too, their borders are no longer white: then the median tells.
    ways = (np.abs(middle(a.reshape(len(a), -1), axis=1) - is_white)
            for middle in (np.mean, np.median))  # fmt: skip
    of_inputs = next((share for share in ways if np.mean(share < 1e-6) > 0.2), None)
    black, white = (_most_common(b[is_white == white]) for white in (False, True))
    if of_inputs is None or not np.any(white != black):
        return None
    of_white = _share(b, black, white)
    if of_white.min() < -1e-3 or of_white.max() > 1 + 1e-3:
        return None
    of_x, of_y = of_inputs > 0.02, np.abs(of_white - is_white) > 0.02
    if min(np.mean(of_x & ~of_y), np.mean(of_y & ~of_x)) <= 0.1:
        return None
    return wrong(
        "inputs are mixed with those of one example, but labels with those of another",
        "inputs and labels are shuffled into different orders, for example by different seeds",
        "use one permutation for both",
    )


def _most_common(rows: np.ndarray) -> np.ndarray:
    """The most frequent row."""
    distinct, times = np.unique(rows, axis=0, return_counts=True)
    return distinct[times.argmax()]


def _moved_apart(plain: Any, made: Any) -> Finding | None:
    """Whether a label that is a position in an image doesn't move with it."""
    parts = [only(part) for part in (*plain[:2], *made[:2])]
    if any(part is None for part in parts) or not parts[1].dtype.is_floating:
        return None
    x, y, a, b = (np.asarray(part, "f8") for part in parts)
    y, b = y.reshape(len(y), -1), b.reshape(len(b), -1)
    are_alike = a.shape == x.shape and y.shape == b.shape
    if x.ndim != 4 or len(x) < FEW_MOVED or not are_alike or y.shape[1] > MOST_COLUMNS:
        return None
    before, after = _centers(x), _centers(a)
    for column, axis in itertools.product(range(y.shape[1]), (0, 1)):
        places = before[:, axis], y[:, column]
        moves = after[:, axis] - before[:, axis], b[:, column] - y[:, column]
        if min(np.std(each) for each in (*places, moves[0])) < 1e-6:
            continue
        of_places = float(np.corrcoef(places)[0, 1])
        if not np.any(moves[1]):  # the label stays
            is_apart = abs(of_places) > 0.95 and moves[0].std() > 0.3 * places[0].std()
        else:
            is_apart = np.std(moves[1]) > 1e-6 and abs(of_places) > 0.8 and (
                float(np.corrcoef(moves)[0, 1]) * np.sign(of_places) < -0.5
            )  # fmt: skip
        if is_apart:
            return wrong(
                f"column {column} of labels follows what the images show, but the augmentation "
                "moves the two apart",
                "the label isn't moved, or is moved in the opposite direction: an image whose "
                "pixels are taken from the right moves to the left",
                "move the label by the same distance as the image, with the correct sign",
            )
    return None


def _centers(images: np.ndarray) -> np.ndarray:
    """The center of everything but the background, in rows and columns: (images, 2)."""
    shades = np.abs(images - np.median(images)).mean(axis=3)
    total = np.maximum(shades.sum(axis=(1, 2)), 1e-9)
    places = (shades.sum(axis=2), shades.sum(axis=1))  # along rows, along columns
    return np.stack([p @ np.arange(p.shape[1]) / total for p in places], axis=1)


def _first_of_second_epoch(lab: Laboratory) -> Any:
    """That batch of a stream, read after all earlier ones; None if that takes too long."""
    batches = lab.batches
    if not batches.is_stream:
        return None
    started = time.perf_counter()
    with stage("a batch can be made"), reading_errors({"train": batches.split}):
        for step, batch in enumerate(batches.dataset(0, batches.steps_per_epoch + 1)):
            if step == batches.steps_per_epoch:
                return batch
            if time.perf_counter() - started > SECS_READ:
                break
    return None
