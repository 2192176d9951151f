"""Relations of sequences: of tokens, of the next element, and of padding."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..model_inputs import taken_by
from .findings import Finding, look, ok, relation, wrong
from .laboratory import Laboratory
from .numbers import TOLERANCE, close, different, percent, relative_difference, told_apart
from .probe import replaced

MOST_PLACES, MOST_CHANNELS = 64, 8  # of a series that are looked at
COPIED = 0.8  # of the labels that count
LOOK_AHEAD = (  # the cause, and how to mend it
    "look-ahead: attention without a causal mask, or an operation over positions",
    "use_causal_mask=True, padding='causal', and no operation over the axis of positions",
)
MANY_INNER = 0.03  # of the rows
BY_PLACE = (  # layers that weigh each position by itself
    keras.layers.Conv1D, keras.layers.SeparableConv1D, keras.layers.Flatten, keras.layers.Reshape,
    keras.layers.Permute,
)  # fmt: skip
KEEPING = (  # positions as they are
    keras.layers.Dropout, keras.layers.SpatialDropout1D, keras.layers.LayerNormalization,
    keras.layers.BatchNormalization, keras.layers.GaussianNoise, keras.layers.Activation,
    keras.layers.Add, keras.layers.Concatenate,
)  # fmt: skip


@relation("later positions")
def later_positions(lab: Laboratory) -> Finding:
    """A model that predicts the next element of a sequence doesn't see it."""
    x, y, _ = _tokens(lab)
    if x is not None and (share := _answers_moved_into_inputs(lab, x, y)):
        return wrong(
            f"before the augmentation labels are the inputs shifted by one; after it {share:.0%} "
            "of the inputs are at the position where they are predicted",
            "the augmentation moves the inputs after the labels were made from them",
            "move the sequence first, and make inputs and labels from the result",
        )
    if (share := _share_copied(lab)) > COPIED:
        # Nobody needs a copy of what is known, and nothing is corrupted that could be restored.
        is_decoder = share == 1 and x is not None and len(lab.run.trained_models) == 1
        if is_decoder and _shifted_by_step(lab, y) and _sees_half(lab, first=False):
            return wrong(
                "the step compares predictions with the next inputs, and they change with later "
                "inputs",
                *LOOK_AHEAD,
            )
        is_causal = is_decoder and _sees_half(lab, first=True) and not _sees_half(lab, first=False)
        is_sure = is_causal and _copies(lab, y)
        if is_causal and not is_sure:
            return ok("the step, or the model, shifts them")
        return (wrong if is_sure else look)(
            f"{share:.0%} of the labels that count are the input at the same position",
            "targets, or the inputs of a decoder, aren't shifted, so the model learns to copy",
            "shift them by one: inputs [:-1], labels [1:]"
            + "; or is this intended, as to denoise?" * (not is_sure),
        )
    if seen := _sees_its_label(lab):
        return (wrong if seen == "alone" else look)(
            "the prediction at a position changes with the label at that position",
            "teacher forcing without a shift: the decoder reads the label that it predicts",
            "give the decoder labels[:, :-1], and compare its predictions with labels[:, 1:]",
        )
    if x is None:
        return ok("not looked at: labels aren't the next inputs")
    predicts_the_next = _is_next(x, y)
    if _is_next(y, x) and not predicts_the_next:
        return wrong(
            "labels are the inputs shifted by one in the wrong direction",
            "each label is the previous element, which the model has seen",
            "shift them in the other direction: inputs [:-1], labels [1:]",
        )
    if not predicts_the_next or len(lab.run.trained_models) != 1:
        return ok("not looked at: labels aren't the next inputs")
    if shift := _labels_shifted_again(lab, y):
        return wrong(
            f"labels are the inputs shifted by one, and the loss shifts them by {shift} more",
            "off-by-one: predictions are compared with a later element than the next",
            "shift in the data or in the step, not in both",
        )
    if any(see := _outputs_see_half(lab, first=False)):
        # One of several may be for the element before, as of models in both directions.
        return (wrong if all(see) and not _has_a_code(lab) else look)(
            "labels are the inputs shifted by one, and predictions change with later inputs",
            *LOOK_AHEAD,
        )
    return ok()


def _has_a_code(lab: Laboratory) -> bool:
    """Whether a decoder gets a code of the whole sequence, as in a variational autoencoder."""

    def gets_a_state(layer: keras.layers.Layer) -> bool:
        is_recurrent = isinstance(layer, keras.layers.RNN)
        return is_recurrent and any(len(node.input_tensors) > 1 for node in layer._inbound_nodes)

    return bool(lab.base.codes) or any(
        isinstance(layer, keras.layers.RepeatVector) or gets_a_state(layer)
        for layer in lab.run.layers
    )


def _shifted_by_step(lab: Laboratory, y: np.ndarray) -> bool:
    """Whether a loss compares predictions for all but the last position with the next labels."""
    last = y.shape[1] - 1
    return len(lab.base.outputs) == 1 and any(
        np.array_equal(labels, y[:, 1:])
        and np.array_equal(predictions, lab.base.outputs[0][:, :last])
        for labels, predictions, _ in lab.base.calls.values()
        if labels is not None and predictions is not None
    )


def _sees_its_label(lab: Laboratory) -> str:
    """Whether the prediction at a position depends on the label that it is compared with.

    "alone" if predictions before it don't, as in a decoder; "too" if they do, which may be meant:
    an encoder of the labels sees all of them. In every example: with some masked, others are seen.
    """
    leaves = [leaf for leaf in tf.nest.flatten(lab.batch[1:-1]) if leaf.dtype.is_integer]
    if len(leaves) != 1 or leaves[0].shape.rank != 3 or leaves[0].shape[2] < 3 or lab.rows < 2:
        return ""
    (y,) = leaves
    at = y.shape[2] // 2
    others = tf.where(tf.range(y.shape[2]) == at, tf.roll(y, 1, axis=1), y)
    swapped = tf.nest.map_structure(lambda leaf: others if leaf is y else leaf, lab.batch)
    of_others = lab.look(swapped).calls
    for name, call in lab.base.calls.items():
        (given, predicted), (other_given, other_predicted) = (
            [np.asarray(each) for each in of[:2]] for of in (call, of_others[name])
        )
        if given.ndim != 2 or predicted.ndim != 3 or given.shape != predicted.shape[:2]:
            continue
        rows, places = np.nonzero(given != other_given)
        moved = np.abs(predicted - other_predicted)[rows].max(axis=2) > 1e-6
        if len(np.unique(places)) == 1 and moved[:, places[0]].all():
            place = places[0]
            if moved[:, :place].any():
                return "too"
            # A margin of the right label moves nothing later, unlike what a decoder has read.
            is_last = place == moved.shape[1] - 1
            return "alone" if is_last or moved[:, place + 1 :].any() else ""
    return ""


@relation("padding", after="the same step again")
def padding(lab: Laboratory) -> Finding:
    """The padding at the end of sequences isn't trained on."""
    found = _padded_labels(lab)
    if found is None:
        return ok("not looked at: there is none")
    padded, in_inputs = found
    inputs, labels, weights = lab.batch
    (y,), (w,) = tf.nest.flatten(labels), tf.nest.flatten(weights)
    others = tf.where(padded, tf.reduce_max(tf.where(padded, tf.reduce_min(y), y)), y)
    other = lab.look((inputs, tf.nest.pack_sequence_as(labels, [others]), weights))
    given = np.reshape(w[0], (len(padded), -1)) * np.ones(padded.shape)
    summed, counted = _summed(lab, given, padded), lab.base.counted
    seen = f"{percent(int(padded.sum()), padded.size)} of the labels are padding, which"
    if summed == "without" and counted == np.count_nonzero(given):
        return wrong(
            f"{seen} the loss leaves out, but not count",
            "the loss is a sum over what isn't padding, but is divided by all positions, so it "
            "depends on the lengths in a batch (Keras' own losses follow the mask of mask_zero)",
            "count only the labels that aren't padding",
        )
    # If labels determine the count, the losses say nothing.
    differ = other.counted == counted and different(lab.base.losses, other.losses)
    # They may determine the mask too, so what predictions change tells more than what labels do.
    at_padding = _trained_at(lab, y[0], padded)
    trains = any(at_padding.values()) if at_padding else bool(differ)
    if summed == "without" or not (summed or trains):
        # Without a loss of these labels they may be there for metrics alone.
        return (at_padding and _counted_by_metrics(lab, y[0], padded, in_inputs)) or ok()
    if not summed and not differ:
        return wrong(
            f"the loss {max(at_padding, key=at_padding.__getitem__)} changes with predictions for "
            "padding, but not with labels of it",
            "only a part of the loss is masked, such as the score of the right labels but not the "
            "sum over all that are possible",
            "leave padding out of every part of the loss",
        )
    seen += " trains the model"
    fix = "give padding the weight 0 in create_datasets, or multiply the loss by a padding mask"
    if counted == np.count_nonzero(given * ~padded):
        return wrong(
            f"{seen}, but count leaves it out",
            "the loss is a sum over all positions, but is divided by those that aren't padding",
            fix,
        )
    x, answers, _ = _tokens(lab)
    # What is predicted from a text or decoded from its code may have to predict where it ends.
    is_text = x is not None and (_is_next(x, answers) or np.array_equal(x, answers))
    words = y[0].numpy()
    # Where inputs go on, what looks like padding is the answer that nothing comes any more.
    goes_on = np.mean((_at_end(words, words[padded][0]) & ~padded).any(axis=1)) > 0.5
    is_answer = (is_text or goes_on) and not _has_mark_of_end(words, padded)
    if in_inputs and not is_answer and (summed or at_padding):
        return wrong(f"{seen}, and inputs are padded there as well", "a mask is lost", fix)
    return look(seen, "", f"{fix}; or is this intended?")


def _has_mark_of_end(labels: np.ndarray, padded: np.ndarray) -> bool:
    """Whether the last label before padding is the same in all rows: padding needn't say it."""
    at = np.sum(labels != labels[padded][0], axis=1) - 1
    last = labels[np.arange(len(labels)), at][(at >= 0) & padded.any(axis=1)]
    return len(last) > 3 and np.ptp(last) == 0


def _trained_at(lab: Laboratory, labels: np.ndarray, padded: np.ndarray) -> dict[str, bool]:
    """Whether predictions for padding change a loss, for each one that gets these labels."""
    found = {}
    for name, pulled in lab.pulled.items():
        if np.array_equal(pulled.labels, labels) and pulled.predictions.shape[:2] == padded.shape:
            has_slope = np.asarray(pulled.slopes.reshape(*padded.shape, -1).any(axis=2))
            found[name] = bool(has_slope[padded].mean() > 0.5)
    return found


def _counted_by_metrics(
    lab: Laboratory, labels: np.ndarray, padded: np.ndarray, in_inputs: bool
) -> Finding | None:
    """Whether a metric changes with predictions for padding, which change no loss."""
    for name, arguments in lab.base.updates.items():
        at = 0 if type(lab.run.metrics[name]) in (keras.metrics.Mean, keras.metrics.Sum) else 1
        given = np.asarray(arguments[at]) if len(arguments) > at else np.zeros(0)
        if given.shape[:2] != padded.shape or given.dtype.kind not in "fiu":
            continue
        number = labels[padded][0]
        changed = padded.reshape(*padded.shape, *[1] * (given.ndim - 2))
        if given.ndim > 2 and 0 <= number < given.shape[-1]:  # of classes
            changed = changed & (np.arange(given.shape[-1]) == number)
        size = 10 * (1 + np.abs(given).max()) if given.min() < 0 or given.max() > 1 else 1
        extremes = (number, number + 1) if given.dtype.kind in "iu" else (given.min() - size, size)
        low, high = (
            lab.result_of(
                name,
                *arguments[:at],
                tf.constant(np.where(changed, extreme, given), given.dtype),
                *arguments[at + 1 :],
            )
            for extreme in extremes
        )
        if low is not None and high is not None and not close(low, high, 1e-3):
            return (wrong if in_inputs else look)(
                f"the metric {name} counts padding, which no loss does: it is {low:.4g}, or "
                f"{high:.4g} with other predictions there",
                "update_state isn't given the mask of the padding",
                "give it weights that are 0 where there is padding",
            )
    return None


@relation("padded tokens", evaluates=True)
def padded_tokens(lab: Laboratory) -> Finding:
    """The embedding of padding changes no loss."""
    batch = lab.evaluation_batch
    embeddings = [each for each in lab.run.layers if isinstance(each, keras.layers.Embedding)]
    calls = [(e.of, np.asarray(e.arguments[0])) for e in lab.validation_calls(batch, embeddings)]
    padded = {  # a loop that decodes may call one for each position
        (id(embedding), padding): embedding
        for embedding, tokens in calls
        if (padding := _padding_of(tokens)) is not None
    }
    before = lab.validate(batch) if padded else {}
    for (_, padding), embedding in padded.items():
        with _moved_where(embedding, padding):
            after = lab.validate(batch)
        for name in different(before, after, 1e-3):
            plain, moved = told_apart(before[name], after[name])
            is_masked = embedding.mask_zero and not padding and not _is_read_by_place(embedding)
            return (wrong if is_masked else look)(
                f"the loss {name} of validation is {plain}, and {moved} when "
                f"{embedding.name} gives other vectors for the padding ({padding})",
                "the padding mask of mask_zero is lost on the way, or a later layer ignores it"
                if embedding.mask_zero
                else "a mean, attention or recurrence includes padding",
                "multiply by the mask before a mean, and pass it to attention and recurrent layers",
            )
    for embedding, tokens in calls:
        if embedding.mask_zero and (share := _share_of_inner_zeros(tokens)) > MANY_INNER:
            return look(
                f"{share:.0%} of the rows that {embedding.name} gets have a 0 between other tokens",
                "0 is padding for mask_zero, so it hides them: a token has the number of padding",
                "number tokens from 1; or are they missing?",
            )
    return ok("" if padded else "not looked at: no embedding gets padding")


def _is_read_by_place(layer: keras.layers.Layer) -> bool:
    """Whether what comes next weighs each position by itself: a convolution, or a list of them."""
    following = [node.operation for node in layer._outbound_nodes]
    return bool(following) and all(
        isinstance(each, BY_PLACE) or (isinstance(each, KEEPING) and _is_read_by_place(each))
        for each in following
    )


def _share_of_inner_zeros(tokens: np.ndarray) -> float:
    """The fraction of rows (rows, positions) with a 0 somewhere between two other numbers."""
    if tokens.ndim != 2:
        return 0.0
    other = tokens != 0
    before, after = (np.logical_or.accumulate(each, axis=1) for each in (other, other[:, ::-1]))
    return float(np.mean(np.any(before & after[:, ::-1] & ~other, axis=1)))


def _padding_of(tokens: np.ndarray) -> int | None:
    """The number that pads rows (rows, positions) of different lengths; None if there is none."""
    if tokens.dtype.kind not in "iu" or tokens.ndim != 2 or tokens.shape[1] < 4:
        return None
    for turned in (tokens[:, ::-1], tokens):
        padding = _most_frequent(turned[:, 0])
        at_end = np.logical_and.accumulate(turned == padding, axis=1)
        lengths = at_end.sum(axis=1)
        is_whole = at_end.sum() >= 0.95 * np.sum(tokens == padding)
        if at_end.mean() > 0.1 and is_whole and len(np.unique(lengths)) > 2:
            return int(padding)
    return None


def _most_frequent(numbers: np.ndarray) -> Any:
    found, times = np.unique(numbers, return_counts=True)
    return found[times.argmax()]


def _moved_where(
    embedding: keras.layers.Embedding, token: int
) -> contextlib.AbstractContextManager[None]:
    """Let an embedding return another vector for a token."""

    def moved(_: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(tokens: Any, *others: Any, **keywords: Any) -> Any:
            vectors = plain(tokens, *others, **keywords)
            if vectors.shape[:-1] != tokens.shape:  # it returns logits, by its transpose
                return vectors
            is_token = keras.ops.expand_dims(keras.ops.equal(tokens, token), -1)
            return vectors + keras.ops.cast(is_token, vectors.dtype) * 10 * keras.ops.std(vectors)

        return call

    return replaced([(embedding, "call")], moved)


def _is_next(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether labels are the inputs shifted by one, as in a language model."""
    others = y[:, :-1] != _most_frequent(y)  # which is often the same in both
    return bool(others.any() and np.mean((y[:, :-1] == x[:, 1:])[others]) > 0.9)


def _share_copied(lab: Laboratory) -> float:
    """The share of labels that count which are an integer input at the same position.

    0 if more of them are the next input, as where things change slowly, or where another input is
    corrected. The most frequent label is left out, because it may be padding.
    """
    weights = tf.nest.flatten(lab.batch[-1])
    same, following = [0.0], [0.0]
    for x, y, _ in _pairs(lab):
        if x.dtype.kind == y.dtype.kind == "i":
            counts = y != _most_frequent(y)
            if len(weights) == 1 and weights[0].shape[1:] in (y.shape, y.shape[:1]):
                counts &= np.reshape(weights[0] != 0, (len(y), -1))
            for shares, a, b in ((same, x, y), (following, x[:, 1:], y[:, :-1])):
                some = counts[:, : b.shape[1]]
                shares.append(float(np.mean((a == b)[some])) if some.any() else 0.0)
    return max(same) if max(same) > max(following) else 0.0


def _answers_moved_into_inputs(lab: Laboratory, x: np.ndarray, y: np.ndarray) -> float:
    """The share of the next elements that the augmentation moves into the inputs; or 0."""
    flat = [tf.nest.flatten(part) for part in lab.plain_batch[:-1]]
    if [len(part) for part in flat] != [1, 1] or lab.batches.augment is None:
        return 0.0
    a, b = (np.asarray(part[0]) for part in flat)
    if a.shape != b.shape or a.ndim < 2 or np.mean(b[..., :-1] == a[..., 1:]) < 0.9:
        return 0.0
    padding = _most_frequent(b)
    before, share = np.mean((a == b)[b != padding]), float(np.mean((x == y)[y != padding]))
    return share if share > 3 * before + 0.05 else 0.0


def _copies(lab: Laboratory, y: np.ndarray) -> bool:
    """Whether labels reach a loss unshifted, and a prediction sees the input at its position."""
    given = [labels for labels, *_ in lab.base.calls.values()]
    if given and not any(np.array_equal(labels, y) for labels in given):
        return False
    at = y.shape[1] // 2

    def change(t: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.range(t.shape[2]) == at, tf.roll(t, 1, axis=1), t)

    pairs = _before_and_after(lab, change)
    return any(relative_difference(a[:, at], b[:, at]) > TOLERANCE / 10 for a, b in pairs)


def _before_and_after(
    lab: Laboratory, change: Callable[[tf.Tensor], tf.Tensor]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The model's predictions for the first batch, as it is and with changed tokens.

    Of several outputs those for each position, (rows, positions, ...).
    """
    shape, found = (lab.rows, _tokens(lab)[0].shape[1]), list[list[np.ndarray]]()
    for x in (lab.batch[0], _with_other_tokens(lab, change)):
        taken = tf.nest.map_structure(lambda t: t[0], taken_by(lab.run.model, x))
        made = lab.run.model(taken, training=False)
        outputs = [np.asarray(output) for output in tf.nest.flatten(made)]
        found.append([o for o in outputs if len(outputs) == 1 or o.shape[:2] == shape])
    before, after = found
    return list(zip(before, after, strict=True))


def _sees_half(lab: Laboratory, *, first: bool) -> bool:
    """Whether predictions for one half of a sequence depend on its `first` half, or its last."""
    return any(_outputs_see_half(lab, first=first))


def _outputs_see_half(lab: Laboratory, *, first: bool) -> list[bool]:
    """The same for each output of the model."""
    weights = np.asarray(tf.nest.flatten(lab.batch[-1])[0][0])
    shape = lab.rows, _tokens(lab)[0].shape[1]
    # Positions without a weight may see it, such as the prompts of a prefix language model.
    counts = weights != 0 if weights.shape == shape else np.ones(shape, bool)
    places = np.flatnonzero(counts.any(axis=0))
    if len(places) < 2:
        return []
    half = places[len(places) // 2]  # of those that count

    def moved(t: tf.Tensor) -> tf.Tensor:
        parts = [t[:, :, :half], t[:, :, half:]]
        parts[not first] = tf.roll(parts[not first], 1, axis=1)
        return tf.concat(parts, axis=2)

    judged, seen = np.s_[:, half:] if first else np.s_[:, :half], list[bool]()
    for a, b in _before_and_after(lab, moved):
        is_for_each = a.ndim > 1 and abs(a.shape[1] - shape[1]) < 2  # position
        known = counts[judged] if a.shape[:2] == shape else np.s_[:]
        # Before training, the effect may be small; rounding is the same in both.
        apart = relative_difference(a[judged][known], b[judged][known]) if is_for_each else 0.0
        seen.append(apart > TOLERANCE / 10)
    return seen


def _labels_shifted_again(lab: Laboratory, y: np.ndarray) -> int:
    """By how many positions the labels of a loss are later than its predictions.

    Next to a loss of the next labels, one of other predictions is for the labels after these.
    """
    _, *rest = lab.batch

    def change(t: tf.Tensor) -> tf.Tensor:
        return tf.concat([t[..., :-1], tf.roll(t[..., -1:], 1, axis=1)], axis=-1)

    calls = lab.base.calls
    right = [np.asarray(p) for given, p, _ in calls.values() if np.array_equal(given, y)]
    for name, (given, predictions, _) in calls.items():
        if predictions is None or np.ndim(given) != 2:
            continue
        if right and not any(np.array_equal(p[:, : given.shape[1]], predictions) for p in right):
            continue
        shift = y.shape[1] - given.shape[1]
        if shift < 1 or not np.array_equal(given, y[:, shift:]):
            continue
        # The labels of the last position change with its input; if they don't, they are left out.
        others = lab.look((_with_other_tokens(lab, change), *rest)).calls[name][1]
        if np.array_equal(np.asarray(predictions)[:, -1], np.asarray(others)[:, -1]):
            return int(shift)
    return 0


def _padded_labels(lab: Laboratory) -> tuple[np.ndarray, bool] | None:
    """Where labels (rows, positions) are padding with a weight, and whether inputs are; or None."""
    parts = [tf.nest.flatten(part) for part in lab.batch]
    if len(parts) != 3 or any(len(part) != 1 for part in parts[1:]):
        return None
    y, w = (np.asarray(part[0][0]) for part in parts[1:])
    if y.ndim != 2:
        return None
    has_weight = w.reshape(len(w), -1) != 0
    for x in (np.asarray(part[0]) for part in parts[0]):
        if x.shape == y.shape and (number := _padding_of(x)) is not None:
            padded = x == number
            if np.ptp(y[padded]) == 0 and (padded & has_weight).any():
                return padded & has_weight, True
    if (number := _padding_of(y)) is None:
        return None
    padded = _at_end(y, number) & has_weight
    return (padded, False) if padded.any() else None


def _at_end(words: np.ndarray, number: Any) -> np.ndarray:
    """Where rows (rows, positions) are a number from there to their end."""
    return np.logical_and.accumulate((words == number)[:, ::-1], axis=1)[:, ::-1]


def _summed(lab: Laboratory, weights: np.ndarray, padded: np.ndarray) -> str:
    """Whether the loss is a sum over "all" positions or those "without" padding; "" if unclear."""
    if len(lab.base.calls) != 1 or len(lab.base.losses) != 1 or lab.traced.adds_losses:
        return ""
    ((_, _, values),), ((name, loss),) = lab.base.calls.values(), lab.base.losses.items()
    if values.shape != padded.shape:
        return ""
    every, others = (float(np.sum(weights * values * part)) for part in (1, ~padded))
    whole = (loss - lab.regularization(name)) * lab.base.counted
    if close(every, others, 1e-3):  # as where Keras' own losses follow a mask
        return "without" if close(whole, others, 1e-3) and not values[padded].any() else ""
    return "all" if close(whole, every, 1e-3) else "without" if close(whole, others, 1e-3) else ""


def _tokens(lab: Laboratory) -> tuple[Any, Any, int]:
    """Inputs and labels of a sequence, (rows, positions), or None, and the number of the input.

    Of several, such as the inputs of an encoder and a decoder, those where one is the next element
    of the other.
    """
    found = _pairs(lab)
    # Two of several may have the same shape by chance.
    following = [each for each in found if _is_next(*each[:2])]
    has_one_label = len(tf.nest.flatten(lab.batch[1:-1])) == 1
    return (following or (found if has_one_label else []) or [(None, None, 0)])[0]


def _pairs(lab: Laboratory) -> list[tuple[Any, Any, int]]:
    """Inputs and labels of the same shape (rows, positions), and the number of the input.

    They are integers, or, in a series, one of the numbers at each position.
    """
    parts = [tf.nest.flatten(part) for part in lab.batch[:-1]]
    if len(parts) != 2:
        return []
    found: list[tuple[Any, Any, int]] = []
    for (i, leaf), label in itertools.product(enumerate(parts[0]), parts[1]):
        for x, y in itertools.product(*(_numbers_at_positions(t[0]) for t in (leaf, label))):
            if x.dtype.kind == y.dtype.kind == "f" and x.shape == y.shape:
                if np.array_equal(x, y):  # an autoencoder sees its targets
                    return []
                if np.mean(x == y) > 0.5:  # such as the many zeros of another autoencoder
                    continue
            fits = x.shape == y.shape and x.ndim == 2 and x.shape[1] > 3
            if not fits or not x.dtype.kind == y.dtype.kind in "if":
                continue
            if len(np.unique(x[:, :MOST_PLACES])) > 2:  # otherwise it is a mask
                found.append((x, y, i))
    return found


def _numbers_at_positions(array: tf.Tensor) -> list[np.ndarray]:
    """The arrays (rows, positions) of the numbers, or of the one number, at each position."""
    numbers = np.asarray(array)
    if numbers.dtype.kind == "f" and numbers.ndim == 3:
        return [*np.moveaxis(numbers[..., :MOST_CHANNELS], -1, 0)]
    return [numbers]


def _with_other_tokens(lab: Laboratory, change: Callable[[tf.Tensor], tf.Tensor]) -> Any:
    """The inputs of the first batch, with other tokens: a nest of (1, rows, ...)."""
    leaves = tf.nest.flatten(lab.batch[0])
    place = _tokens(lab)[2]
    leaves[place] = change(leaves[place])
    return tf.nest.pack_sequence_as(lab.batch[0], leaves)
