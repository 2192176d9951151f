"""Relations of a train step, and of some."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..callbacks import learning_rates
from .explain import COARSE, explain
from .findings import Finding, look, ok, relation, wrong
from .graph import accidental_broadcasts, assigned_variables, drawn_twice, random_numbers
from .laboratory import REPEATED_STEPS, Laboratory
from .numbers import TOLERANCE, close, different, percent, relative_difference
from .runs import Look


@relation("a train step runs")
def first_step(lab: Laboratory) -> Finding:
    """Losses and gradients of the first batch are finite."""
    if lab.base.finite:
        return ok(", ".join(f"loss {n} {loss:.4g}" for n, loss in lab.base.losses.items()))
    losses = [name for name, loss in lab.base.losses.items() if not np.isfinite(loss)]
    if losses:
        return wrong(
            f"the loss {losses[0]} of the first batch is {lab.base.losses[losses[0]]}",
            "NaN in the data (also where the weight is 0: 0 x NaN is NaN), a logarithm or a "
            "division of 0, or nothing that counts",
            "see the data below, and clip what goes into logarithms",
        )
    return wrong(
        "the loss of the first batch is finite, its gradient isn't",
        "the derivative of a square root, a norm or a logarithm at 0",
        "add a small number inside it",
    )


@relation("the same step again")
def same_step_again(lab: Laboratory) -> Finding:
    """A step that is computed twice is the same."""
    _, random = random_numbers(lab.ops[0].graph)
    if random:
        return wrong(
            f"{random[0]} gives other numbers each time",
            "tf.random.normal and its like don't follow from seed and step, so no run can be "
            "resumed or repeated",
            "use tf.random.stateless_* with replica.seed, or a SeedGenerator of the layer",
        )
    again = lab.look(lab.batch)
    if _differ(lab.base, again):
        if names := assigned_variables(lab.ops):
            return wrong(
                f"{_what_differs(lab.base, again)} differ when the same step is computed again, "
                f"and {names[0]} writes a variable",
                "a tf.Variable that the engine doesn't know counts or remembers something: it "
                "isn't saved, and each replica has a value of its own",
                "use replica.step, a Keras weight made with add_weight, or a metric",
            )
        return wrong(
            f"{_what_differs(lab.base, again)} differ when the same step is computed again",
            "random numbers or a counter that don't follow from seed and step",
            "use tf.random.stateless_* with replica.seed",
        )
    return ok()


@relation("random numbers differ")
def random_numbers_differ(lab: Laboratory) -> Finding:
    """Each step, micro-batch and replica draws random numbers of its own."""
    if not lab.base.drawn:
        return ok("the step draws none")
    if lab.drawn_alike:
        return wrong(
            f"{lab.drawn_alike[0]} draws the same numbers for the rows of every replica and "
            "micro-batch",
            "its seed follows from the step, and nothing else",
            "use replica.seed",
        )
    later = lab.look(lab.batch, step=1)
    same = [n for n, drawn in lab.base.drawn.items() if np.array_equal(drawn, later.drawn[n])]
    if same:
        return wrong(
            f"{same[0]} draws the same numbers in every step",
            "its seed is a constant",
            "use replica.seed in a step, and a SeedGenerator that is an attribute in a layer",
        )
    return ok()


@relation("the same batch again")
def same_batch_again(lab: Laboratory) -> Finding:
    """A batch can be made again, and alone."""
    # After others and alone: under a global seed, tf.random.normal is the same in each new dataset.
    alone = lab.batch, lab.second_batch
    for step, first in enumerate(lab.read_batches(0, 2)):
        if not _equal(first, alone[step]):
            if lab.batches.augment is None:
                return wrong(
                    f"the batch of step {step} differs when it is read again",
                    "the stream comes in another order each time, as after "
                    "shuffle(reshuffle_each_iteration=True) or with numbers drawn by Python",
                    "leave shuffling to the engine, or use reshuffle_each_iteration=False",
                )
            return wrong(
                f"the batch of step {step} differs when it is made again",
                "the augmentation, or the stream, draws random numbers that don't follow from the "
                "seed",
                "in create_augment use tf.random.stateless_* with the seed that it is given",
            )
    second_epoch = lab.first_of_second_epoch
    if second_epoch is not None and not _equal(
        second_epoch, lab.read_batch(lab.batches.steps_per_epoch)
    ):
        return wrong(
            "the first batch of the second epoch is another one where a run is resumed there",
            "the stream keeps something from one epoch to the next: a cache() after random "
            "numbers, or a reshuffle",
            "put cache() before what is random, and what is random into create_augment",
        )
    return ok()


@relation("augmentation")
def augmentation(lab: Laboratory) -> Finding:
    """Differs between steps, and labels stay with their inputs."""
    augment = lab.batches.augment
    if augment is None:
        return ok("none")
    plain = lab.plain_batch
    traced = tf.function(augment, autograph=False)
    with_seed = [traced(plain, tf.constant([0, n], tf.int64)) for n in (1, 2)]
    graph = traced.get_concrete_function(plain, tf.constant([0, 1], tf.int64)).graph
    if _equal(*with_seed):
        if _equal(with_seed[0], plain):
            return look("changes nothing", "", "return None from create_augment")
        if any("Random" in op.type for op in graph.get_operations()):
            return wrong(
                "draws the same random numbers in every step",
                "its seed is a constant",
                "draw with tf.random.stateless_* and the seed that it is given",
            )
        return look("is the same in every step", "it draws no random numbers", "is it meant so?")
    if numbers := _labels_between(plain, augment):
        return wrong(
            f"where labels are 0 or {numbers[0]} alone, augmented labels are {numbers[1]:.3g} too",
            "labels are resized or turned by interpolation, which makes classes of their own",
            'use interpolation="nearest" for labels',
        )
    if share := _masks_left_behind(plain, augment):
        return wrong(
            f"{share:.0%} of the augmented labels fit their images once they are flipped or turned",
            "images are flipped or turned, and their labels aren't, or by other random numbers",
            "do the same with both: stack them, or draw once and use it twice",
        )
    moved = _labels_moved(plain, augment)
    if moved:
        return wrong(
            moved,
            "inputs and labels are put in another order, one without the other",
            "use one permutation for both",
        )
    same = drawn_twice(graph.get_operations())
    images = [part for part in tf.nest.flatten(plain) if part.shape.rank > 2]
    if same > 1 and len(images) < 2:  # masks must be moved as their images are
        return look(
            f"{same} draws share one seed, and give the same random numbers",
            "what should vary by itself varies together",
            "draw once, or give each a seed of its own, as tf.random.split(seed) makes them",
        )
    return ok()


@relation("loss per example")
def loss_per_example(lab: Laboratory) -> Finding:
    """A loss gives a number for each example, or for each part of it."""
    found = []
    for name, (_, _, values) in lab.base.calls.items():
        shape = values.shape
        if not shape or shape[0] % lab.rows:
            return wrong(
                f"{name!r} gives shape {shape} for {lab.rows} rows",
                "it averages by itself",
                'create it with reduction="none"',
            )
        found.append(f"{name} {shape}")
    return ok(", ".join(found))


@relation("shapes")
def shapes(lab: Laboratory) -> Finding:
    """Nothing of shape (batch,) meets something of shape (batch, 1)."""
    if found := accidental_broadcasts(lab.ops, lab.rows):
        name, a, b = found[0]
        return wrong(
            f"{name} makes {lab.rows} x {lab.rows} numbers of shapes {a} and {b}",
            "they broadcast by accident, so that each example meets the labels of all others",
            "give both the same shape, with tf.squeeze(..., axis=-1) or [:, tf.newaxis]",
        )
    return ok()


@relation("rows of weight zero", after="the same step again", exact=True)
def rows_of_weight_zero(lab: Laboratory) -> Finding:
    """What a row of weight zero holds changes nothing."""
    if lab.rows < 4:
        return ok("too few rows to say")
    if lab.looks_at_batch:
        return ok(f"not looked at: {lab.looks_at_batch} sees all rows")
    first, other = lab.look_with_zeros, lab.look_with_other_rows
    if first.counted != other.counted:
        return wrong(
            f"count is {first.counted} and {other.counted} with other rows of weight 0",
            "count counts rows, not weights",
            "count only where the weight isn't 0",
        )
    for name in different(first.losses, other.losses):
        return _unweighted_loss(lab, name, first, other)
    for name in different(first.metrics, other.metrics):
        return wrong(
            f"the metric {name} is {first.metrics[name]:.4g} and {other.metrics[name]:.4g} with "
            "other rows of weight 0",
            _why_unweighted(lab, name),
            "call update_state(labels, predictions, weights)",
        )
    if _gradients_differ(first, other):
        return wrong(
            "gradients differ with other rows of weight 0",
            "something beside the loss depends on them",
            "multiply it by the weights",
        )
    return ok()


@relation("labels of weight zero", after="the same step again")
def labels_of_weight_zero(lab: Laboratory) -> Finding:
    """Within an example, labels of weight zero change nothing."""
    batch = lab.other_labels_of_weight_zero
    if batch is None:
        return ok("there are none")
    other = lab.look(batch)
    if other.counted != lab.base.counted:
        return wrong("count changes with labels of weight 0", "count doesn't look at the weights")
    for name in different(lab.base.losses, other.losses):
        return wrong(
            f"the loss {name} changes with labels of weight 0",
            "it ignores the weights within an example",
            "multiply each number of the loss by its weight",
        )
    for name in different(lab.base.metrics, other.metrics):
        return wrong(
            f"the metric {name} changes with labels of weight 0",
            "it ignores the weights within an example",
            "leave out what has weight 0, or pass the weights to update_state",
        )
    return ok()


@relation("count")
def count_leaves_out_zeros(lab: Laboratory) -> Finding:
    """Rows of weight zero don't count, and rows that don't count don't train."""
    if lab.rows < 4 or not lab.base.counted:
        return ok("too few rows to say")
    all_count = lab.base.counted
    if lab.counts_weights and lab.has_fractional_weights:
        return wrong(
            "count adds up weights that aren't whole numbers",
            "count is an int32, so each replica's sum is cut off",
            "count the examples whose weight isn't 0, or bring the weights to whole numbers",
        )
    half, rest = lab.count(lab.with_zeros), lab.count(lab.with_the_other_half)
    if lab.trains_what_does_not_count:
        return wrong(
            f"{lab.trains_what_does_not_count} rows of the first batch don't count, and their "
            "labels change the loss",
            "the loss is a sum over more rows than it is divided by",
            "count the rows that are in the loss, or give the others a weight of 0",
        )
    if half + rest == all_count:
        return ok(f"{all_count} in the first batch")
    cause = "count counts rows whose weight is 0, such as padding"
    if half + rest == 2 * all_count:
        cause = "count doesn't look at the weights: padding counts"
    return wrong(
        f"one half of the batch counts {half}, the other {rest}, both together {all_count}",
        cause,
        "count only where the weight isn't 0, with tf.math.count_nonzero",
    )


@relation("weights enter once", after="the same step again")
def weights_enter_once(lab: Laboratory) -> Finding:
    """Twice the weights, twice the loss."""
    if lab.counts_weights:
        return ok("not looked at: count depends on how large weights are")
    one, (two, three) = lab.base, lab.look_with_weights
    for name, first in one.losses.items():
        a, b = two.losses[name] - first, three.losses[name] - two.losses[name]
        if close(a, 0) and close(b, 0):
            if abs(first) < TOLERANCE:
                continue
            seen = f"the loss {name} doesn't change when all weights are doubled"
            if lab.ignores_weights(name):
                return wrong(
                    seen,
                    "the weights aren't used",
                    "multiply by them once: compute_average_loss(sample_weight=...)",
                )
            return wrong(
                seen,
                "it is averaged twice: divided by the sum of some weights, and then by the count",
                "give compute_loss the weighted numbers, and divide by replica.global_count only",
            )
        if close(b, a, COARSE) or lab.interacts:
            continue
        if close(b / a, 5 / 3, COARSE):
            return wrong(
                f"the loss {name} grows with the square of the weights",
                "weights are used twice",
                "use them in compute_average_loss, and nowhere else",
            )
        return wrong(
            f"the loss {name} doesn't grow in proportion to the weights",
            "weights are applied to something else than the loss, such as the predictions",
            "use them in compute_average_loss, and nowhere else",
        )
    return ok()


@relation("padding", after="the same step again")
def padding(lab: Laboratory) -> Finding:
    """The end of sequences that are filled up isn't trained."""
    padded = lab.padded_labels
    if padded is None or len(lab.base.calls) != 1 or len(lab.base.losses) != 1 or lab.adds_losses:
        return ok("none")
    ((_, _, values),), ((name, loss),) = lab.base.calls.values(), lab.base.losses.items()
    if values.shape != padded.shape:
        return ok("not looked at: the loss isn't one number for each position")
    weights = np.asarray(tf.nest.flatten(lab.batch[-1])[0][0], "f8").reshape(len(values), -1)
    every, others = float(np.sum(weights * values)), float(np.sum(weights * values * ~padded))
    mean, counted = loss - lab.regularization(name), lab.base.counted
    wanted = np.count_nonzero(weights * ~padded)
    if not close(mean * counted, every, 1e-3) or close(every, others, 1e-3):
        return ok()
    seen = f"labels end in {percent(int(padded.sum()), padded.size)} of padding, which trains"
    if counted == wanted:
        return wrong(
            f"{seen}, and count leaves it out",
            "the loss adds up all positions and is divided by those that aren't padding",
            "give padding the weight 0 in create_datasets, or multiply the loss by a mask",
        )
    return look(seen, "", "give it the weight 0 in create_datasets; or is it meant so?")


@relation("denominator", after="the same step again")
def denominator(lab: Laboratory) -> Finding:
    """The loss of a batch is the mean of the losses of its halves."""
    if lab.has_other_denominators or lab.counts_weights or lab.rows < 4:
        return ok("not looked at: there is another denominator than the number of examples")
    if lab.interacts:
        return ok("not looked at: examples interact")
    if lab.count(lab.with_zeros) + lab.count(lab.with_the_other_half) != lab.base.counted:
        return ok("not looked at: see count")
    for name, loss in lab.base.losses.items():
        mean, total = lab.means_of_halves[name]
        if not close(mean, loss, 10 * TOLERANCE) and close(total, loss, 10 * TOLERANCE):
            return wrong(
                f"the loss {name} is divided by the same number, however many examples count",
                "it is a sum, or divided by a constant or by all rows of the batch",
                "divide it by replica.global_count",
            )
    return ok()


@relation("size of the loss", after="the same step again")
def size_of_the_loss(lab: Laboratory) -> Finding:
    """The loss is the mean of what the loss function gives for the examples."""
    if lab.adds_losses:
        return ok("not looked at: layers add losses of their own")
    ratio, other = lab.loss_over_mean(lab.batch), lab.loss_over_mean(lab.second_batch)
    if ratio is None or other is None or not close(ratio, other, 1e-3) or close(ratio, 1, COARSE):
        return ok()
    seen = f"the loss is {ratio:.4g} times the mean of its examples' losses"
    if 0.01 < ratio < 100:
        return look(seen, "", "is it meant so? A factor changes the learning rate that fits")
    return wrong(
        seen,
        "it is multiplied by a constant, as by a loss scale or a batch size",
        "leave the factor out: the engine scales float16 losses by itself",
    )


@relation("first loss", after="the same step again")
def first_loss(lab: Laboratory) -> Finding:
    """Before training, a cross-entropy is about that of guessing, log(classes)."""
    for name, (labels, predictions, values) in lab.base.calls.items():
        part = _part_of_cross_entropy(labels, predictions, values)
        if part is not None and not close(part, 1, COARSE):
            classes = predictions.shape[-1]
            seen = f"the loss {name} is {part:.3g} times the cross-entropy of {classes} classes"
            if close(part, 1 / classes, COARSE):
                return wrong(seen, "it is a mean over the classes", "add them up, by reduce_sum")
            return look(seen, "", "is it meant so? A factor changes the learning rate that fits")
        loss = lab.run.losses[name]
        kind, classes = (
            type(loss).__name__,
            np.shape(predictions)[-1] if np.ndim(predictions) else 0,
        )
        if "CategoricalCrossentropy" not in kind or classes < 2 or len(lab.base.losses) != 1:
            continue
        ((optimizer, value),) = lab.base.losses.items()
        guessing = float(np.log(classes))
        times = (value - lab.regularization(optimizer)) / guessing
        seen = f"{value:.4g}, where guessing among {classes} classes gives {guessing:.3g}"
        if not 0.05 < times < 20:
            return wrong(
                seen,
                "it is a sum where it should be a mean, logits are huge, or it has a factor",
                "look at the denominator, and at the scale of inputs and of the last layer",
            )
    return ok()


@relation("process_gradients")
def processed_gradients(lab: Laboratory) -> Finding:
    """It doesn't multiply all gradients by the same number."""
    given, made = lab.processed
    if made.any() and len(made) == len(given) and (np.all(made >= 0) or np.all(made <= 0)) and (
        np.ptp(np.sign(given))
    ):  # fmt: skip
        return wrong(
            f"process_gradients leaves only gradients {'above' if made.max() > 0 else 'below'} 0",
            "those of the other sign are cut off, so weights can move one way only",
            "clip both sides alike, as from -1 to 1",
        )
    factors = made / given if len(made) == len(given) else np.zeros(0)
    factor = float(np.median(factors)) if len(factors) else 1.0
    if not np.allclose(factors, factor, rtol=1e-4) or close(factor, 1, 1e-3):
        return ok()
    seen = f"process_gradients multiplies every gradient by {factor:.3g}"
    if factor <= 0:
        return wrong(seen, "the optimizer lowers the loss by itself", "leave it out")
    return look(
        seen,
        "gradients are sums over replicas and micro-batches already, of a loss that is a mean",
        "leave it out, and set the learning rate",
    )


@relation("order of rows", after="the same step again", exact=True)
def order_of_rows(lab: Laboratory) -> Finding:
    """The order of the rows doesn't matter."""
    if lab.rows < 2:
        return ok("too few rows to say")
    turned = tf.nest.map_structure(lambda t: tf.reverse(t, [1]), lab.batch)
    other = lab.look(turned)
    if not _differ(lab.base, other):
        return ok()
    if not lab.is_the_same_when_traced_again:
        return ok("not looked at: see two replicas")
    return wrong(
        f"{_what_differs(lab.base, other)} differ when the rows come in reverse order",
        "inputs, labels or weights are moved against each other, or a row is treated by its place",
        "use no place in the batch, and the same rows of each",
    )


@relation("examples apart", after="the same step again")
def examples_apart(lab: Laboratory) -> Finding:
    """An example's loss doesn't depend on the others of its batch."""
    if lab.declared_interacting:
        return ok("the task says that its examples interact; --accumulate is refused")
    if lab.interacts and lab.sees_rows_of_weight_zero:
        return ok("not looked at: see rows of weight zero")
    if lab.interacts:
        return look(
            "the loss isn't the sum of its examples",
            "examples interact, as with negatives from the batch: --accumulate trains something "
            "else, and the loss depends on the batch size",
            "if you mean it, set EXAMPLES_INTERACT = True in task/steps.py",
        )
    return ok()


@relation("micro-batches", after="the same step again", exact=True)
def microbatches(lab: Laboratory) -> Finding:
    """Two micro-batches give the step of one batch (--accumulate 2)."""
    if lab.declared_interacting or lab.interacts:
        return ok("not looked at: examples interact")
    if lab.looks_at_batch or lab.rows % 2:
        return ok(f"not looked at: {lab.looks_at_batch or 'the batch is odd'}")
    if lab.base.keeps:
        return ok("not looked at: the step keeps something for the next, such as statistics")
    two = lab.look(lab.batch, accumulate=2)
    if _differ(lab.base, two) and not lab.is_the_same_when_traced_again:
        return ok("not looked at: see two replicas")
    for name, loss in lab.base.losses.items():
        more = two.losses[name] - loss
        if close(loss, two.losses[name], 10 * TOLERANCE):
            continue
        own = lab.regularization(name)
        if own and close(more, own, COARSE):
            cause = "regularization is added once a micro-batch; use replica.regularization(model)"
        elif close(two.losses[name], 2 * loss, COARSE) or close(more, loss - own, COARSE):
            cause = "each micro-batch's loss is averaged over itself; use replica.global_count"
        elif close(two.losses[name], loss / 2, COARSE) or close(-2 * more, loss - own, COARSE):
            cause = "the loss is divided by the number of micro-batches, but they are added"
        else:
            cause = "the loss depends on which examples share a micro-batch"
        return wrong(f"the loss {name} is {loss:.4g}, and {two.losses[name]:.4g} in two", cause)
    if _gradients_differ(lab.base, two):
        return wrong(
            "gradients differ with two micro-batches",
            "gradients are changed before they are added, or the loss depends on the batch",
        )
    return ok()


@relation("regularization", after="the same step again")
def regularization(lab: Laboratory) -> Finding:
    """The regularization of the layers is in the loss, once."""
    total = lab.total_regularization
    if total < 1e-9:
        return ok("none")
    if lab.adds_losses or lab.counts_weights or lab.interacts or lab.has_other_denominators:
        return ok("not looked at: the loss has other parts")
    two, three = lab.look_with_weights
    if different(
        {n: 2 * loss - lab.base.losses[n] for n, loss in two.losses.items()}, three.losses, COARSE
    ):
        return ok("not looked at: see weights enter once")
    held = {n: 2 * lab.base.losses[n] - two.losses[n] for n in lab.run.optimizers}
    # A loss may hold that of all models: only its own has a gradient there.
    if all(close(h, lab.regularization(n), COARSE) or close(h, total, COARSE)
           for n, h in held.items()):  # fmt: skip
        return ok(f"{total:.3g}")
    found = sum(held.values())
    if abs(found) < COARSE * total:
        return wrong(
            f"layers have regularizers ({total:.3g}), and the loss doesn't hold them",
            "",
            "add tf.nn.scale_regularization_loss(replica.regularization(model))",
        )
    cause = f"it is in the loss {found / total:.3g} times"
    return wrong(f"regularization is {total:.3g}, the loss holds {found:.3g}", cause, "add it once")


@relation("two replicas make the same step as one", after="the same step again", exact=True)
def two_replicas(lab: Laboratory) -> Finding:
    """Losses, metrics, weights, statistics, slots."""
    one, two = lab.trained_on_one, lab.trained_on_two
    numbers = relative_difference(list(one.losses[0].values()), list(two.losses[0].values()))
    # Rounding may turn the class of a pixel, and a metric with it.
    turned = [n for n in one.metrics if not close(one.metrics[n], two.metrics[n], 5e-3)]
    numbers = max([numbers, *(abs(one.metrics[n] - two.metrics[n]) for n in turned)])
    weights = relative_difference(one.weights, two.weights)
    norm = two.norms[0] / one.norms[0] if one.norms[0] else 1.0
    seen = f"losses and metrics differ by {numbers:.0e}, weights by {weights:.0e}"
    losses_agree = not different(one.losses[0], two.losses[0])
    if not losses_agree and not lab.is_the_same_when_traced_again:
        return wrong(
            f"{seen}, and each trace of the step computes something else",
            "Python or NumPy draws random numbers while the step is traced: in the graph they are "
            "constants, the same in every step",
            "use tf.random.stateless_* with replica.seed",
        )
    if two.apart > TOLERANCE:
        return wrong(
            f"{seen}, weights of the two replicas by {two.apart:.0e} from each other",
            "each replica makes an update of its own: process_gradients or a schedule depends on "
            "the replica, or counts its calls",
            "make it depend on its arguments alone, such as the step that a schedule is given",
        )
    if losses_agree and close(norm, 2, 1e-3):
        return wrong(seen, "gradients are summed twice; the engine does it once")
    if losses_agree and close(norm, 0.5, 1e-3):
        return wrong(
            seen, "gradients are averaged over the replicas, where their sum is right",
            "leave out the division",
        )  # fmt: skip
    for name, rate in one.rates.items():
        if not np.isclose(rate, two.rates[name], rtol=COARSE, atol=0) and losses_agree:
            return wrong(
                f"the learning rate is {rate:.3g} on one replica and {two.rates[name]:.3g} on two",
                "it depends on the number of replicas, where the global batch doesn't",
                "leave num_replicas_in_sync out of create_optimizer",
            )
    if losses_agree and not close(norm, 1, 1e-3):
        return wrong(
            seen,
            "gradients are changed before they are summed; clip or change them in "
            "process_gradients",
        )
    if losses_agree and weights >= 10 * TOLERANCE and not lab.is_sign_based:
        return wrong(  # metrics of later steps differ with the weights
            seen,
            "the update differs though the gradients agree: the optimizer, or process_gradients, "
            "depends on the replica",
        )
    if numbers < TOLERANCE:
        return _slots_and_state(lab, seen)
    if lab.adds_losses and different(one.losses[0], two.losses[0]):
        return wrong(
            seen,
            "a layer adds a loss of its own (activity_regularizer, add_loss) that depends on how "
            "the batch is split",
            "return it per example instead, and add it before compute_loss",
        )
    first, second = (
        {f"{n} loss": v for n, v in trained.losses[0].items()}
        | {n: trained.metrics[n] for n in turned}
        for trained in (one, two)
    )
    return wrong(seen, explain(first, second, 2, lab.total_regularization))


@relation("every weight gets a gradient")
def every_weight(lab: Laboratory) -> Finding:
    """Every variable that trains is reached by the loss."""
    # What starts at zero gets its gradient after some steps.
    looks = [lab.base, *lab.looks_after_training]
    without = []
    for optimizer in lab.base.gradients:
        variables = lab.run.variables_of(optimizer)
        of_each = zip(*(look.gradients[optimizer] for look in looks), strict=True)
        pairs = zip(variables, of_each, strict=True)
        without += [v.path for v, seen in pairs if not (any(map(np.any, seen)) or _is_a_shift(v))]
    if without:
        listed = ", ".join(without[:3]) + (" ..." if len(without) > 3 else "")
        return wrong(
            f"none for {listed}",
            "the loss doesn't depend on it: a branch that isn't used, tf.stop_gradient, an argmax "
            "or rounding on the way, or units that are all dead",
            "use it in the loss, or freeze it",
        )
    return ok()


@relation("every weight moves")
def every_weight_moves(lab: Laboratory) -> Finding:
    """Three steps change every variable that trains, and each optimizer trains some."""
    for name in lab.run.optimizers:
        if not lab.run.variables_of(name):
            return wrong(
                f"the optimizer {name!r} trains nothing",
                "its models are frozen: trainable = False in create_model",
                "leave that out; other train steps don't move these weights in any case",
            )
    trained = lab.before_and_after
    still = [
        v.path
        for v, a, b in trained
        if np.array_equal(a, b) and not (_is_a_shift(v) and len(trained) > 1)
    ]
    if not still and (frozen := lab.frozen_at_random):
        return look(
            f"{', '.join(frozen[:3])} is frozen, and another --seed gives it other values",
            "nothing has trained these weights: a file isn't loaded, or after trainable = False",
            "load them, or train them",
        )
    if not still:
        return ok()
    if len(still) == len(trained):
        rates = ", ".join(f"{rate:.3g}" for rate in learning_rates(lab.run).values())
        return wrong(
            "no weight moves", f"the learning rate is {rates}, or process_gradients gives zeros"
        )
    return wrong(
        f"{', '.join(still[:3])} stays as it was",
        "its gradient is 0, or process_gradients sets it to 0",
        "freeze it if you mean it",
    )


@relation("units differ")
def units_differ(lab: Laboratory) -> Finding:
    """Units of a layer, and layers, start with weights of their own."""
    kernels = [
        (v.path, a, b)
        for v, a, b in lab.before_and_after
        if a.ndim > 1 and a.shape[-1] > 1 and not np.array_equal(a, b)
    ]
    for path, a, b in kernels:
        units = a.shape[-1]
        apart = np.ptp(b.reshape(-1, units), axis=1).max()
        if not np.ptp(a.reshape(-1, units), axis=1).any() and apart < 1e-3 * np.abs(b - a).max():
            return wrong(
                f"the {units} units of {path} have the same weights, at the start and after some "
                "steps",
                "an initializer gives each the same numbers, so all of them learn the same",
                "use a random initializer, as GlorotUniform",
            )
    first: dict[tuple[Any, int], tuple[str, np.ndarray]] = {}  # of those that begin alike
    for path, a, b in kernels:
        other, of_other = first.setdefault((a.shape, hash(a.tobytes())), (path, b))
        if of_other is not b and a.std() > 0:
            same = relative_difference(of_other, b) < TOLERANCE
            return (wrong if same else look)(
                f"{other} and {path} start with the same random numbers"
                + ", and stay the same" * same,
                "one initializer with a seed of its own gives the same numbers each time",
                "leave the seed out: --seed makes all initializers repeatable",
            )
    return ok()


@relation("inputs matter", after="the same step again")
def inputs_matter(lab: Laboratory) -> Finding:
    """Other inputs give another loss."""
    if _equal(lab.batch[0], lab.second_batch[0]) or not lab.ignores_inputs:
        return ok()
    return wrong(
        "every loss is the same with the inputs of another batch",
        "no train step uses them, as where a discriminator sees generated examples only",
        "give the model the inputs of the batch",
    )


@relation("adversaries", after="the same step again")
def adversaries(lab: Laboratory) -> Finding:
    """What the generator gains, the discriminator loses."""
    generators, judges = (
        [n for n in lab.run.optimizers if any(part in n.lower() for part in parts)]
        for parts in (("generator",), ("discriminator", "critic"))
    )
    if len(generators) != 1 or len(judges) != 1 or generators == judges:
        return ok("there are none")
    changes = lab.changes_by_step_of(generators)
    own, others = changes[generators[0]], changes[judges[0]]
    if own < 0 and others < 0.15 * own:  # a penalty may let it fall, but not as much
        return wrong(
            f"a step that lowers the loss of the {generators[0]} lowers that of the {judges[0]}",
            "both want the same: labels of real and generated examples are exchanged in one of "
            "the losses",
            "the discriminator gives 1 to real examples and 0 to generated ones, the generator "
            "wants 1 for its own",
        )
    return ok()


@relation("train steps apart")
def train_steps_apart(lab: Laboratory) -> Finding:
    """Each train step has an optimizer of its own."""
    shared = lab.trained_by_several_steps
    if shared:
        return look(
            f"{' and '.join(shared)} both train all models with one optimizer",
            "of adversaries each undoes what the other has done",
            "return a dict from create_optimizer, with an optimizer for each model",
        )
    return ok()


@relation("learning rate")
def learning_rate(lab: Laboratory) -> Finding:
    """It lasts through the run."""
    found = []
    for name, optimizer in lab.inner_optimizers:
        rate = float(tf.convert_to_tensor(optimizer.learning_rate))
        decay = float(getattr(optimizer, "weight_decay", None) or 0.0) * rate
        if decay >= 0.01:
            return wrong(
                f"weight decay takes {decay:.1%} of each weight in every step",
                "weight_decay times the learning rate is too large; it is a fraction, not percent",
                "values around 1e-4 to 0.1 are common",
            )
        beta_1, beta_2 = (getattr(optimizer, name, None) for name in ("beta_1", "beta_2"))
        # Above that bound Adam's steps aren't bounded (Kingma & Ba, 2015, section 4).
        if beta_1 is not None and beta_2 is not None and beta_1**2 > beta_2:
            return wrong(
                f"{type(optimizer).__name__} averages gradients by beta_1 = {beta_1:g}, and their "
                f"squares by beta_2 = {beta_2:g}",
                "the two are exchanged",
                "the squares need the longer average, as beta_1=0.9 and beta_2=0.999",
            )
        schedule = optimizer._learning_rate
        if not isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            found.append(f"{rate:.3g}")
            if rate <= 0:
                return wrong(f"the learning rate of {name!r} is {rate:.3g}", "", "make it positive")
            continue
        steps = lab.num_steps
        at = np.linspace(0, max(0, steps - 1), 101).astype("int64")
        rates = np.asarray([float(schedule(tf.constant(step))) for step in at])
        found.append(f"{rates[0]:.3g} to {rates[-1]:.3g} in {steps} steps")
        if rates.min() < 0:
            return wrong(f"the learning rate of {name!r} falls to {rates.min():.3g}")
        alive = np.flatnonzero(rates > 1e-3 * rates.max())
        if not len(alive) or alive[-1] < 80:
            share = int(alive[-1]) + 1 if len(alive) else 0
            return wrong(
                f"the learning rate of {name!r} is 0 after {share}% of the {steps} steps",
                "the schedule is shorter than the run: it counts train steps, not epochs",
                "use the number of steps that create_optimizer is given",
            )
        if rates.argmax() > 50 and rates[-1] > 0.99 * rates.max():
            return look(
                f"the learning rate of {name!r} rises until the end of the run",
                "the warm-up is longer than the run",
            )
        if rates.min() > 0.97 * rates.max() and rates.min() < rates.max():
            return look(
                f"the learning rate of {name!r} falls by less than 3% in the whole run",
                "the schedule is longer than the run: it counts train steps, not examples",
                "use the number of steps that create_optimizer is given",
            )
    return ok(", ".join(found))


@relation("training mode")
def training_mode(lab: Laboratory) -> Finding:
    """The train step calls dropout and its like in training mode."""
    layers = lab.sensitive_layers
    seen = {p: lab.sees_training[p] for p in layers if p in lab.sees_training}
    trained = [path for path in seen if layers[path].trainable]
    off = [path for path in trained if seen[path] == {False}]
    if lab.unused_layer:
        return wrong(
            f"{lab.unused_layer} is called in create_model, and is part of no model",
            "its output isn't used",
            "assign it, as in x = layers.Dropout(rate)(x)",
        )
    if off and len(off) == len(trained):
        return wrong(
            f"{off[0]} is called with training=False in the train step",
            "the model isn't called in training mode",
            "call it with training=True in the train step",
        )
    if lab.overruled:
        return look(
            f"{lab.overruled} trains though its model is called with training=False",
            "training=True from outside wins over training=False inside (Keras 3.15)",
            "set trainable = False on it, which keeps BatchNormalization still",
        )
    return ok(f"{len(seen)} layers" if seen else "no layer needs it")


@relation("variables")
def variables(lab: Laboratory) -> Finding:
    """A step uses variables of models and metrics only."""
    if names := assigned_variables(lab.ops):
        return wrong(
            f"the step assigns {names[0]}",
            "a tf.Variable that the engine doesn't know: it isn't saved, and each replica has "
            "a value of its own",
            "use replica.step, a Keras weight made with add_weight, or a metric",
        )
    if unknown := lab.unknown_variables:
        return wrong(
            f"the step reads {unknown[0].name.partition(':')[0]}, which no model has",
            "no optimizer trains it, and no checkpoint holds it: it was made beside the models, as "
            "in a loss or inside a Lambda layer",
            "make it in a layer of a model, with add_weight",
        )
    return ok()


@relation("moving averages")
def moving_averages(lab: Laboratory) -> Finding:
    """Those of normalization layers forget in the run how they began."""
    for layer in lab.run.layers:
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            share = layer.momentum**lab.num_steps
            if share > 0.5:
                return (wrong if lab.num_steps >= 100 else look)(
                    f"after all {lab.num_steps} steps, the moving averages of {layer.path} are "
                    f"still {share:.0%} of what they began with",
                    f"a momentum of {layer.momentum:g} is too slow for so few steps, and "
                    "evaluation normalizes by them",
                    "use a smaller one, as 0.9 or 0.99",
                )
    return ok()


@relation("precision")
def precision(lab: Laboratory) -> Finding:
    """Layers compute in the precision of the run."""
    for layer in lab.run.layers:
        own = layer.compute_dtype
        is_less = own not in (lab.precision, "float32", "float64")
        if layer.variables and (is_less or (own == "float32" and lab.precision == "float64")):
            return look(
                f"{layer.path} computes in {own}, the run in {lab.precision}",
                "a model loaded from a file keeps its own dtype (Keras 3.15)",
                "set its dtype policy when it is loaded",
            )
    return ok(lab.precision)


@relation("loss falls on one batch")
def falls_on_one_batch(lab: Laboratory) -> Finding:
    """Some steps on the same batch lower its loss."""
    first, last, steps = lab.losses_on_one_batch
    detail = ", ".join(f"{first[n]:.3g} to {last[n]:.3g}" for n in first)
    detail += f" in {steps} steps"
    if not all(np.isfinite(loss) for loss in last.values()):
        return wrong(detail, "the loss isn't finite: the learning rate is too high")
    fell = [last[n] < first[n] - 1e-7 for n in first]
    if any(fell) if len(fell) > 1 else all(fell):  # of adversaries one may rise
        return ok(detail)
    fresh, before = lab.fresh[0], sum(first.values())
    late = float(np.mean([sum(each.values()) for each in fresh[-max(1, len(fresh) // 3) :]]))
    if late < before - 0.02 * abs(before):
        return ok(f"{detail}; on new batches it falls")  # dropout hides it on one
    if not lab.falls_downhill:
        return wrong(
            detail,
            "the loss rises along its own gradient too: gradients are changed, as by a wrong sign",
            "look at process_gradients",
        )
    # In the few steps that a large model makes in this time, Adam may overshoot, and come back.
    return (wrong if steps == REPEATED_STEPS else look)(
        detail,
        "a small step against the gradient lowers the loss, the optimizer's step doesn't: the "
        "learning rate is too high, or gradients have the wrong sign",
        "look at the learning rate and at process_gradients",
    )


@relation("loss falls on fresh batches")
def falls_on_fresh_batches(lab: Laboratory) -> Finding:
    """Some steps on new batches lower the loss, of their labels."""
    losses, right, mixed = lab.fresh
    third = max(1, len(losses) // 3)
    first, last = (
        {n: float(np.mean([loss[n] for loss in part])) for n in losses[0]}
        for part in (losses[:third], losses[-third:])
    )
    detail = ", ".join(f"{first[n]:.3g} to {last[n]:.3g}" for n in first)
    detail += f" in {len(losses)} steps"
    if len(first) == 1 and last["main" if "main" in last else next(iter(last))] >= min(
        first.values()
    ):
        return look(detail, "nothing is learned yet, or labels don't belong to their inputs")
    if mixed and len(mixed) == 1 and lab.rows >= 4:
        (name,) = mixed
        gain = mixed[name] - right[name]
        if gain and gain < 0.02 * abs(right[name] - lab.total_regularization):
            return look(
                f"{detail}, and as low with the labels of other examples",
                "labels don't seem to belong to their inputs: one was shuffled or cut without the "
                "other",
                "compare some of them in samples.png",
            )
    return ok(detail)


@relation("metrics follow the loss")
def metrics_follow_the_loss(lab: Laboratory) -> Finding:
    """While the loss falls, accuracies rise and errors fall."""
    before, after = lab.base, lab.after_training
    names = list(lab.run.optimizers)
    if len(names) > 1 or not after.losses[names[0]] < before.losses[names[0]]:
        return ok("not looked at: the loss doesn't fall")
    for name, larger_is_better in lab.directions.items():
        old, new = before.metrics[name], after.metrics[name]
        gap = max(0.05, 0.3 * abs(old))
        worse = old - new > gap if larger_is_better else new - old > gap
        if worse:
            return wrong(
                f"the loss falls from {before.losses[names[0]]:.3g} to "
                f"{after.losses[names[0]]:.3g}, and {name} goes from {old:.3g} to {new:.3g}",
                "the loss rewards wrong predictions: its sign is wrong, or its arguments are",
                "look at the loss function; the metric must get the same labels and predictions",
            )
    return ok()


@relation("one trace")
def one_trace(lab: Laboratory) -> Finding:
    """The step is traced once."""
    _ = lab.trained_on_one
    traces = lab.one[1].num_traces()
    if traces == 1:
        return ok()
    return wrong(
        f"{traces} traces", "a shape changes between batches, or a Python number between calls"
    )


def _part_of_cross_entropy(labels: Any, predictions: Any, values: Any) -> float | None:
    """By what the cross-entropies of logits are multiplied; None if it isn't one number."""
    y, p = np.asarray(labels), np.asarray(predictions)
    if p.dtype.kind != "f" or p.ndim < 2 or p.shape[-1] < 2 or np.shape(values) != p.shape[:-1]:
        return None
    is_right = y == 1
    if y.shape in (p.shape[:-1], (*p.shape[:-1], 1)):
        is_right = y.reshape(*p.shape[:-1], 1) == np.arange(p.shape[-1])
    if is_right.shape != p.shape or not np.all(is_right.sum(axis=-1) == 1):
        return None
    p = p.astype("f8")
    p -= p.max(axis=-1, keepdims=True)
    factors = values / (np.log(np.exp(p).sum(axis=-1)) - p[is_right].reshape(p.shape[:-1]) + 1e-9)
    factor = float(np.median(factors))
    return factor if np.allclose(factors, factor, rtol=1e-3) else None


def _is_a_shift(variable: keras.Variable) -> bool:
    """Whether a variable adds one number, which vanishes where outputs are compared.

    So it is in a Wasserstein GAN and where examples are ranked.
    """
    return bool(variable.name == "bias" and variable.shape == (1,))


def _differ(a: Look, b: Look) -> bool:
    return bool(
        a.counted != b.counted
        or different(a.losses, b.losses)
        or different(a.metrics, b.metrics)
        or _gradients_differ(a, b)
    )


def _what_differs(a: Look, b: Look) -> str:
    parts = ["the count"] if a.counted != b.counted else []
    parts += [f"the loss {name}" for name in different(a.losses, b.losses)]
    parts += [f"the metric {name}" for name in different(a.metrics, b.metrics)]
    parts += ["gradients"] if _gradients_differ(a, b) else []
    return " and ".join(parts[:2])


def _gradients_differ(a: Look, b: Look) -> bool:
    return relative_difference(a.gradients, b.gradients) > 10 * TOLERANCE


def _equal(a: Any, b: Any) -> bool:
    pairs = zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True)
    return all(np.array_equal(x, y, equal_nan=x.dtype.is_floating) for x, y in pairs)


def _unweighted_loss(lab: Laboratory, name: str, first: Look, other: Look) -> Finding:
    seen = (
        f"the loss {name} is {first.losses[name]:.4g}, and {other.losses[name]:.4g} with other "
        "rows of weight 0"
    )
    if lab.ignores_weights(name):
        return wrong(
            seen, "the weights aren't used, so padding trains",
            "pass them as sample_weight to compute_average_loss",
        )  # fmt: skip
    if accidental_broadcasts(lab.ops, lab.rows):
        return wrong(seen, "each example meets the labels of all others: see shapes")
    return wrong(
        seen,
        "a part of the loss ignores the weights, or examples meet rows of weight 0 in it",
        "multiply every part by the weights, and mask rows of weight 0 where examples interact",
    )


def _why_unweighted(lab: Laboratory, name: str) -> str:
    arguments = lab.base.updates.get(name.partition("/")[0], ())
    if len(arguments) == 1 and arguments[0] is not None and arguments[0].ndim == 0:
        return "it is fed the scaled loss; feed it per-example values and weights"
    if len(arguments) < 2 or arguments[-1] is None:
        return "it isn't given the weights"
    return "it isn't given the weights of the batch"


def _slots_and_state(lab: Laboratory, seen: str) -> Finding:
    one, two = lab.trained_on_one, lab.trained_on_two
    if relative_difference(one.state, two.state) > 10 * TOLERANCE:
        return wrong(
            f"{seen}, statistics by {relative_difference(one.state, two.state):.0e}",
            "statistics of one replica's batch, which only synchronized layers add up",
            "use keras.layers.BatchNormalization, or statistics per example",
        )
    if relative_difference(one.slots, two.slots) > COARSE and not lab.is_sign_based:
        return wrong(seen, "the optimizer's slots differ, though weights agree")
    return ok(seen)


def _masks_left_behind(plain: Any, augment: Any) -> float:
    """In which part of the images labels would fit better flipped or turned; 0 if it is small.

    The images are their own labels, painted in the images' range of numbers.
    """
    flat = [tf.nest.flatten(part) for part in plain]
    if len(plain) != 3 or len(flat[0]) != 1 or len(flat[1]) != 1:
        return 0.0
    x, y = np.asarray(flat[0][0]), np.asarray(flat[1][0], "f8")
    if x.dtype.kind not in "fiu" or x.ndim != 4 or y.shape not in (x.shape[:3], (*x.shape[:3], 1)):
        return 0.0
    y = y.reshape(x.shape[:3])
    painted = x.min() + (y - y.min()) / (np.ptp(y) or 1) * np.ptp(x.astype("f8"))
    images = np.broadcast_to(painted[..., np.newaxis], x.shape).astype(x.dtype)
    batch = (tf.nest.pack_sequence_as(plain[0], [tf.constant(images)]), *plain[1:])
    new = augment(batch, tf.constant([0, 1], tf.int64))
    a, b = (np.asarray(tf.nest.flatten(part)[0], "f8") for part in new[:2])
    if a.ndim != 4 or a.shape[:3] != b.shape[:3] or b.size * a.shape[3] != a.size:
        return 0.0
    a, b = a.mean(axis=3), b.reshape(a.shape[:3])
    turned = [np.rot90(b, k, (1, 2)) for k in range(4)]
    turned += [t[:, :, ::-1] for t in turned]
    fits = np.stack([_correlations(a, t) for t in turned if t.shape == a.shape])
    share = float(np.mean((fits[1:].max(axis=0) > 0.6) & (fits[1:].max(axis=0) > fits[0] + 0.2)))
    return share if share > 0.1 else 0.0


def _labels_between(plain: Any, augment: Any) -> tuple[int, float] | None:
    """A number between two classes that an augmentation makes of maps of these two alone."""
    flat = tf.nest.flatten(plain[1]) if len(plain) == 3 else []
    if len(flat) != 1 or flat[0].shape.rank < 3 or not flat[0].dtype.is_integer:
        return None
    y = np.asarray(flat[0])
    low, high = (y.min(), y.max())
    if low < 0 or high - low < 2:
        return None
    two = tf.constant(np.where(y > low, high, 0), flat[0].dtype)
    batch = (plain[0], tf.nest.pack_sequence_as(plain[1], [two]), plain[2])
    made = np.asarray(tf.nest.flatten(augment(batch, tf.constant([0, 1], tf.int64))[1])[0])
    between = made[(made > 0) & (made < high)]
    return (int(high), float(between.flat[0])) if made.ndim == y.ndim and between.size else None


def _correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The size of the correlation of each row of `a` with that of `b`; 0 where one is constant."""
    a, b = (
        x.reshape(len(x), -1) - x.reshape(len(x), -1).mean(axis=1)[:, np.newaxis] for x in (a, b)
    )
    norms = np.sqrt(np.sum(a * a, axis=1) * np.sum(b * b, axis=1))
    return np.abs(np.sum(a * b, axis=1)) / np.where(norms > 0, norms, np.inf)


def _labels_moved(plain: Any, augment: Any) -> str:
    """How the augmentation parts inputs from labels; empty if it doesn't."""
    if len(plain) != 3:
        return ""
    inputs, labels, weights = plain
    flat_inputs, flat_labels = tf.nest.flatten(inputs), tf.nest.flatten(labels)
    if len(flat_inputs) != 1 or len(flat_labels) != 1 or flat_inputs[0].dtype == tf.string:
        return ""
    x, y = (np.asarray(flat[0], "f8") for flat in (flat_inputs, flat_labels))
    keys = y.reshape(len(y), -1)
    others = np.flatnonzero((keys != keys[0]).any(axis=1))
    if not len(others):
        return ""
    distances = np.abs(x - x[0]).reshape(len(x), -1).sum(axis=1)
    far = int(others[distances[others].argmax()])
    rows = np.where(np.arange(len(x)) % 2, far, 0)  # only two examples, in turn
    batch = tf.nest.map_structure(lambda t: tf.gather(t, rows), (inputs, labels, weights))
    new_inputs, new_labels, _ = augment(batch, tf.constant([0, 1], tf.int64))
    a, b = (np.asarray(tf.nest.flatten(new)[0], "f8") for new in (new_inputs, new_labels))
    if a.shape != x.shape or b.shape != y.shape:
        return ""
    of = [np.abs(b - y[row]).reshape(len(b), -1).sum(axis=1) for row in (0, far)]
    label_is = np.where(of[0] < of[1], 0, far)
    if np.minimum(*of).max() > 1e-6:  # labels of their own, as mixup gives
        return ""
    near = [np.square(a - x[row]).reshape(len(a), -1).sum(axis=1) for row in (0, far)]
    input_is = np.where(near[0] < near[1], 0, far)
    share = int((label_is != input_is).sum())
    if share < 0.2 * len(x):
        return ""
    return f"{share} of {len(x)} augmented inputs have the label of another example"
