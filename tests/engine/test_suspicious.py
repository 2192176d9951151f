"""`check` calls nothing WRONG that only looks so: one relation and one sound toy each."""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.engine.callbacks import Callback, Event, at_step, every_epochs, every_steps
from proof.engine.check import RELATIONS, check, neighbors, scales
from proof.engine.check.numbers import equal, told_apart, with_array
from proof.engine.check.runs import secs_of_work
from proof.engine.keras_callbacks import keras_callback
from proof.engine.random_access import RandomAccess
from proof.engine.relations import select
from proof.engine.types import Replica, Run
from proof.task.config import TaskConfig
from proof.task.losses import compute_loss

from .faulty import (
    LAST_PART,
    LEVELS,
    ROWS,
    AlwaysOne,
    Judged,
    LateAverage,
    OfCounts,
    Overlap,
    PowerIterated,
    Recalls,
    Rising,
    Rows,
    Turned,
    Unused,
    all_views,
    as_shares,
    at_events,
    at_times,
    averaged,
    averaged_with_normalization,
    balanced_by_uncertainty,
    beside,
    beside_unused,
    binary,
    blocks,
    bonds_left_out,
    bounded,
    by_step,
    bytes_scaled,
    called_twice,
    centered,
    centralized,
    changed,
    chosen_by,
    coded,
    colored,
    conditioned,
    contrasted,
    convolved,
    copied_every,
    corrected,
    count_all_words,
    count_of,
    counted,
    counted_by_weight,
    counted_events,
    counted_for,
    counted_in_minutes,
    counting_some,
    decay_of_kernels,
    decaying,
    denoising,
    denoising_itself,
    dense,
    described,
    distilled,
    divergence,
    examples,
    fading,
    filled_by,
    filled_up,
    filled_with_zero,
    flipped,
    flipped_boxes,
    focal,
    forecast_from,
    freeze,
    frozen_model,
    growing,
    growing_with_run,
    half_of_the_steps,
    headed_by,
    heads_by,
    heads_validated,
    high_quantile,
    hinge_gan,
    in_units,
    indicated,
    interpolated_windows,
    judge_generated,
    judged_at,
    judged_by,
    judged_by_average,
    judged_step,
    kept_apart,
    keypoints,
    labeled_gan,
    labeled_in_part,
    labeled_numbers,
    labeled_twice,
    labels_made_of_classes,
    late_penalty,
    loaded_counts,
    located,
    louder,
    lowered,
    mapped,
    marked_binary,
    marked_labels,
    marked_pixels,
    masked_labels,
    masked_pictures,
    matched,
    mean_and_deviation,
    measured_by,
    merged,
    mirrored_along,
    mixed_up,
    mixed_with_two_labels,
    model,
    model_of_arrays,
    monitoring,
    mostly_empty,
    moved,
    moved_by_layer,
    moved_images,
    near_events,
    near_views,
    next_words,
    nodes_in_another_order,
    nodes_with_charges,
    noisy,
    noisy_twice,
    numbered,
    of_class_0,
    of_distances,
    of_forms,
    of_levels,
    of_machines,
    of_mixture,
    of_normal,
    of_numbers,
    of_one_name,
    of_one_seed,
    of_parts,
    of_rare_tags,
    of_several_tags,
    of_shares,
    of_tables,
    one_hot_step,
    orders_of_some,
    overlap_alone,
    overlap_of_shares,
    overlapping,
    padded_paths,
    padded_words,
    parts_of_series,
    pasted,
    perplexed,
    picked,
    pictured,
    plus,
    predicting_maps,
    prices,
    product_of_draws,
    product_of_signs,
    prompted,
    pushed,
    put,
    rarely_unknown,
    rate_by,
    rates_of_head,
    read_as_the_data,
    read_bytes,
    read_letters,
    read_rows,
    read_texts,
    read_together,
    reading_statistics,
    rebuilding_gan,
    recurrent,
    regression,
    regression_validated,
    renumbered,
    reordered,
    repeated,
    reshaped,
    scaled_sets,
    scaled_together,
    scans,
    scored,
    segmented,
    series_of_channels,
    series_that_drops,
    set_rate,
    several_labels,
    several_numbers,
    severe_repeated,
    shares_of,
    shifted_again,
    shown,
    slopes,
    smoothed,
    smoothed_beside,
    smoothed_windows,
    sound,
    spoken,
    spots,
    step,
    step_of_chosen,
    step_with_noise,
    stream,
    tagged,
    tags_validated,
    taught,
    taught_by_copies,
    tenfold_drop,
    texts,
    texts_dropped,
    thawed_in_a_loop,
    timed,
    times_of_day,
    tokens,
    topics,
    translated,
    translated_from_labels,
    two_heads,
    two_heads_of,
    two_images_flipped,
    two_labels,
    two_layers,
    two_words_ahead,
    unknown_depths,
    until_month,
    updated_in_training_only,
    validated,
    validated_by_copy,
    validated_gan,
    valued,
    visits,
    warmed_up,
    warming_up,
    weak_and_strong,
    weighted_binary,
    weighted_by_class,
    weighted_labels,
    weighted_outside,
    weighted_pixels,
    weights_by_name,
    whole_of_file,
    with_gradient_penalty,
    with_lengths,
    with_loss,
    with_several_labels,
    write_results,
)
from .toys import (
    BATCH,
    CLASSES,
    FEATURES,
    Toy,
    laboratory,
    plain_model,
    several_samples_step,
    shared_models,
    step_of,
)
from .worked import CONTRASTIVE, GAN

# Keras saves weights so, and warns of convolutions behind a mask.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support masking"),
]

layers, losses, metrics = keras.layers, keras.losses, keras.metrics
PROMPT, WORDS = 6, 8
NUMBERS = np.random.default_rng(0)


def with_step(own: Callable[..., Any], **changes: Any) -> Toy:
    """A toy with another step, in training and in evaluation."""
    return sound(train_steps=(own,), validation_step=own, **changes)


def of_known(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """A cross-entropy that is 0 where the label is -1."""
    known = losses.sparse_categorical_crossentropy(tf.maximum(labels, 0), logits, from_logits=True)
    return tf.where(labels < 0, 0.0, known)


def missing_labels() -> Toy:
    """Labels of weight 0 are NaN, and replaced before the loss."""
    inputs, labels = changed(regression().data, 1, put(slice(0, None, 3), np.nan))
    weights = (np.arange(len(labels)) % 3 > 0).astype("float32")
    return regression(
        data=(inputs, labels, weights),
        losses=lambda: {
            "main": lambda y, p: tf.square(p[:, 0] - tf.where(tf.math.is_nan(y), 0.0, y))
        },
    )


def new_column() -> Toy:
    """A column that was measured from some row on."""
    return sound(data=changed(examples(240), 0, put((slice(80), 2), np.nan)))


def open_set() -> Toy:
    """Examples of no known class in validation, which no loss counts."""
    mark = put(slice(0, None, 5), -1)

    return sound(
        losses=lambda: {"main": of_known},
        metrics=dict,
        others={"validation": changed(examples(60, 2), 1, mark)},
    )


def other_classes() -> Toy:
    """Validation data of classes that training data hasn't, as of other speakers."""

    def apart(rows: int, seed: int, first: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        return inputs + 3 * labels[:, np.newaxis].astype("float32"), labels + first

    return sound(
        model=lambda: dense(2 * CLASSES),
        data=apart(ROWS, 1, 0),
        others={"validation": apart(60, 2, CLASSES)},
    )


def marked_numbers() -> Toy:
    """Numbers from -1 to 1, and -9 where they are missing, which the loss leaves out."""

    def marked(split: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        mark = put(slice(0, None, 6), -9)
        return changed(changed(split, 1, np.tanh), 1, mark)  # type: ignore[arg-type]

    toy = regression(
        lambda: dense(1, activation="tanh"),
        optimizer=lambda: keras.optimizers.Adam(0.005),
        losses=lambda: {"main": lambda y, p: tf.where(y < -1, 0.0, tf.square(p[:, 0] - y))},
    )
    return replace(toy, data=marked(toy.data), others={"validation": marked(toy.data)})


def described_classes() -> Toy:
    """Classes that are described by numbers, of which two are never trained."""
    described = tf.constant([[0.0, 0], [0, 1], [1, 0], [1, 1]])

    class Described(layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return tf.matmul(x, described, transpose_b=True)

    split = changed(examples(60, 2), 1, put(slice(0, None, 4), 3))
    return sound(model=model(lambda: dense(2), last=Described), others={"validation": split})


def unread_answer() -> Toy:
    """A column is predicted from the others."""
    inputs, _ = examples()
    mask = np.ones(FEATURES, "float32")
    mask[2] = 0
    return regression(
        model=model(lambda: layers.Rescaling(mask), last=lambda: dense(1)),
        data=(inputs, inputs[:, 2].copy()),
        others={},
    )


def next_numbers() -> Toy:
    """Series with two other channels, whose next numbers a causal convolution predicts."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed).normal(size=(rows, 8, 3))
        series = numbers.cumsum(axis=1).astype("float32")
        return series, series[:, 1:, 0]

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        series, later, weights = batch
        per_example = run.losses["main"](later, run.model(series, training=True)[:, :-1, 0])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(
        own,
        model=lambda: keras.Sequential(
            [keras.Input((8, 3)), layers.Conv1D(1, 3, padding="causal")]
        ),
        data=split(96, 1), others={"validation": split(60, 2)}, metrics=dict,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def plates(rows: int, seed: int, parts: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Examples of several plates, each standardized by itself."""
    inputs, labels = examples(rows, seed)
    scaled = [
        (part - part.mean(axis=0)) / part.std(axis=0)
        for part in np.split(inputs.astype("f8"), parts)
    ]
    return np.concatenate(scaled).astype("float32"), labels


def noisy_training() -> Toy:
    """Images that are dark in most places, with strong noise on them in training."""

    def images(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        _, labels = examples(rows, seed)
        pixels = np.zeros((rows, 8, 8, 1), "float32")
        pixels[np.arange(rows), labels] = 1
        return pixels, labels

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *rest = batch
        return (images + tf.random.stateless_normal(images.shape, seed, stddev=0.6), *rest)

    def create_model() -> keras.Model:
        return keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), dense(CLASSES)])

    return sound(
        model=create_model, data=images(96, 1), others={"validation": images(60, 2)},
        augment=augment,
    )  # fmt: skip


def prefixed() -> Toy:
    """The words of a prompt see each other, and don't count."""
    words = np.cumsum(NUMBERS.integers(1, 3, (96, WORDS + 1)), axis=1) % 7
    weights = np.repeat((np.arange(WORDS) >= PROMPT - 1)[np.newaxis], 96, axis=0).astype("float32")

    def create_model() -> keras.Model:
        x = inputs = keras.Input((WORDS,), dtype="int64")
        x = layers.Embedding(7, 8)(x)
        prompt = layers.GlobalAveragePooling1D(keepdims=True)(x[:, :PROMPT])
        return keras.Model(inputs, dense(7)(x + prompt))

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_word = run.losses["main"](labels, run.model(inputs, training=True))
        return {"main": compute_loss(per_word, weights, run.model, replica)}

    data = words[:, :-1], words[:, 1:], weights
    return with_step(own, model=create_model, data=data, others={}, metrics=dict)


def weighted_mean() -> Toy:
    """A metric that gets the mean of a batch, weighted by what it is the mean of."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True))
        total = tf.reduce_sum(weights)
        mean = tf.math.divide_no_nan(tf.reduce_sum(per_example * weights), total)
        run.metrics["entropy"].update_state(mean, sample_weight=total)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(own, metrics=lambda: {"entropy": metrics.Mean()})


class BinaryMargin(losses.Loss):
    """The logistic loss of a margin; labels are -1 and 1."""

    def call(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.softplus(-tf.cast(labels, logits.dtype) * logits), axis=-1)


def of_margin() -> Toy:
    inputs, labels = examples()
    return sound(
        model=model(last=lambda: dense(1)),
        data=(inputs, np.where(labels > 0, 1, -1)[:, np.newaxis]),
        losses=lambda: {"main": BinaryMargin(reduction="none")},
        metrics=dict,
        others={},
    )


def seen_twice() -> Toy:
    """Two views of an example that differ by dropout alone; others are given in evaluation."""
    inputs, _ = examples()

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        one, other, weights = batch
        apart = run.model(one, training=True) - run.model(other, training=True)
        per_example = tf.reduce_mean(tf.square(apart), axis=-1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        moved = batch[0] + tf.random.stateless_normal(batch[0].shape, seed)
        return moved, moved, batch[2]

    return with_step(
        own,
        model=model(lambda: layers.Dropout(0.5)),
        data=(inputs, inputs),
        others={"validation": (inputs[:20], inputs[20:40])},
        augment=augment,
        metrics=dict,
    )


def of_one_hot(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
    """Update a metric that takes zeros and ones."""
    metric.update_state(tf.one_hot(labels, CLASSES), predictions, weights)


def score(kind: Any = metrics.F1Score) -> dict[str, keras.metrics.Metric]:
    """F1 of the likeliest class, which Keras takes of any numbers."""
    f1 = kind(average="macro")
    f1.update_state(tf.zeros((1, CLASSES)), tf.zeros((1, CLASSES)))
    f1.reset_state()
    return {"f1": f1}


def rates_as_codes() -> Toy:
    """A code of rates, whose variance grows with the rate."""
    return coded(of_rates=True)


def step_at_random_positions(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Add waves at one random position to all rows (Ruoss et al., 2023, draw many)."""
    inputs, *rest = batch
    position = 100 * tf.random.stateless_uniform((), replica.seed)
    waves = tf.sin(position / 10.0 ** np.arange(FEATURES, dtype="float32"))
    return step()(run, (inputs + tf.cast(waves, inputs.dtype), *rest), replica)  # type: ignore[no-any-return]


def small_branch() -> keras.Model:
    """A branch that counts a hundredth, beside what it changes."""
    x = keras.Input((FEATURES,))
    hidden = dense(8, activation="tanh")(x)
    small = layers.Rescaling(0.01)(dense(8)(hidden))
    return keras.Model(x, dense(CLASSES)(layers.Add()([hidden, small])))


def margins_and_confidence() -> Toy:
    """A mean is of the shares of right classes in training, and of the largest in validation."""

    def update(training: bool) -> Callable[..., Any]:
        def call(metric: Any, labels: Any, logits: Any, weights: Any) -> None:
            shares = tf.nn.softmax(logits)
            right = tf.gather(shares, labels, axis=1, batch_dims=1)
            metric.update_state(right if training else tf.reduce_max(shares, axis=1), weights)

        return call

    return sound(
        metrics=lambda: {"confidence": metrics.Mean()}, train_steps=(step(update=update(True)),),
        validation_step=step(update=update(False), training=False),
    )  # fmt: skip


def noisy_labels() -> Toy:
    """Known shares of labels are wrong: predictions go through a matrix (Patrini et al., 2017)."""
    wrong_ones = (0.7 * np.eye(CLASSES) + 0.1).astype("float32")

    def corrected(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        shares = tf.clip_by_value(tf.nn.softmax(logits) @ wrong_ones, 1e-7, 1 - 1e-7)
        return -tf.gather(tf.math.log(shares), labels, axis=1, batch_dims=1)

    return sound(losses=lambda: {"main": corrected})


def frames() -> Toy:
    """Several frames of each cell, whose label is the same any way round, turned by chance."""
    random = np.random.default_rng(0)

    def split(cells: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat(random.integers(0, CLASSES, cells), 4)
        images = np.repeat(random.random((cells, 9, 9, 1)), 4, axis=0)
        images += 0.01 * random.random(images.shape)
        return (images + labels[:, None, None, None]).astype("float32"), labels

    def turned(batch: Any, seed: tf.Tensor) -> Any:
        images, *rest = batch
        flips = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed) < 0.5
        return tf.where(flips, images[:, :, ::-1], images), *rest

    return sound(
        model=lambda: keras.Sequential([keras.Input((9, 9, 1)), layers.Flatten(), dense(CLASSES)]),
        data=split(40), others={"validation": split(20)}, augment=turned,
    )  # fmt: skip


def replicates() -> Toy:
    """Reference recipes are measured again and again among others."""
    random = np.random.default_rng(0)
    x = random.normal(size=(400, FEATURES)).astype("float32")
    x[:60, :2] = np.repeat(random.normal(size=(3, 2)), 20, axis=0) / 2
    y = x[:, 2:].sum(axis=1) + random.normal(size=400).astype("float32")
    y[:60] = np.repeat([-3, 0, 3], 20) + 0.05 * random.normal(size=60)
    return sound(
        model=lambda: keras.Sequential([keras.Input((FEATURES,)), dense(1)]),
        data=(x, y.astype("float32")), others={}, metrics=dict,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def scaled_by_range(far: float = 0, places: int = 0) -> Toy:
    """Inputs around 300, from which the smallest is subtracted, divided by the range.

    Args:
        far: how much further the range reaches than the inputs, below three times as much.
        places: of padding behind them, which is masked after it is scaled.
    """
    inputs, labels = examples()
    inputs += 300
    low, high = inputs.min() - 3 * far, inputs.max() + far
    made = {"low": low, "width": high - low}
    inputs = np.pad(inputs, ((0, 0), (0, places)))[..., np.newaxis]

    def create() -> keras.Model:
        x = keras.Input(inputs.shape[1:])
        scaled = (x - low) / (high - low)
        scaled *= keras.ops.cast(x != 0, scaled.dtype)
        return keras.Model(x, dense(CLASSES)(layers.Flatten()(scaled)))

    return sound(
        data=(inputs, labels), others={"validation": (inputs + 1e-3, labels)}, model=create,
        adapt=lambda datasets: made,
    )  # fmt: skip


def of_one_level() -> Toy:
    """Columns on levels of their own, scaled by one mean and one deviation of all of them."""
    levels = np.array([0, 0, 0, 0, 50], "float32")
    (x, labels), (others, of_others) = examples(), examples(60, 2)
    x, others = 0.2 * x + levels, 0.2 * others + levels
    made = {"mean": x.mean(), "deviation": x.std()}

    def create() -> keras.Model:
        given = keras.Input((FEATURES,))
        mean, deviation = map(float, made.values())
        return keras.Model(given, dense(CLASSES)((given - mean) / deviation))

    return sound(
        model=create, data=(x, labels), others={"validation": (others, of_others)},
        adapt=lambda datasets: made,
    )  # fmt: skip


def usual_prices() -> Toy:
    """Many things have one of two prices, and what is paid follows from the price."""
    random = np.random.default_rng(0)
    x = random.uniform(0, 3, (400, FEATURES)).astype("float32")
    x[:60, 0] = np.where(np.arange(60) < 30, 1.0, 2.0)
    y = 0.9 * x[:, 0] + 0.01 * random.normal(size=400).astype("float32")
    return sound(
        model=lambda: keras.Sequential([keras.Input((FEATURES,)), dense(1)]),
        data=(x, y), others={}, metrics=dict,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def rarely_mixed() -> Toy:
    """One batch of four is mixed; all labels become shares."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        shares = tf.one_hot(labels, CLASSES)
        drawn = tf.random.stateless_uniform((), seed + tf.constant([0, 3], tf.int64))
        part = tf.where(drawn < 0.25, 0.3, 0.0)
        mixed = (1 - part) * inputs + part * tf.roll(inputs, 1, axis=0)
        return mixed, (1 - part) * shares + part * tf.roll(shares, 1, axis=0), weights

    return sound(
        augment=augment,
        losses=lambda: {"main": losses.CategoricalCrossentropy(from_logits=True, reduction="none")},
        metrics=dict,
        others={},
    )


def one_of_several() -> Toy:
    """A cross-entropy of probabilities, written by hand, that needs only the one of the label."""
    inputs, labels = examples()
    return sound(
        model=model(last=lambda: dense(CLASSES, activation="softmax")),
        data=(inputs, np.eye(CLASSES, dtype="float32")[labels]), others={}, metrics=dict,
        losses=lambda: {"main": lambda y, p: -tf.reduce_sum(y * tf.math.log(p), axis=1)},
    )  # fmt: skip


def cooler_in_the_test() -> Toy:
    """The test shrinks the logits, which are 0 at first: a little more loss, as by averaging."""

    def cooler(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = 0.9 * run.model(inputs, training=False)
        run.metrics["accuracy"].update_state(labels, logits, weights)
        per_example = run.losses["main"](labels, logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    zeros = model(last=lambda: dense(CLASSES, kernel_initializer="zeros"))
    return sound(model=zeros, test_step=cooler)


def blends_without_label() -> Toy:
    """Half of a batch are blends, which have no label."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        seeds = tf.unstack(tf.random.split(tf.cast(seed, tf.int32), 2))
        part, drawn = (tf.random.stateless_uniform((inputs.shape[0], 1), each) for each in seeds)
        part = tf.where(drawn < 0.5, part, 1.0)
        blended = part * inputs + (1 - part) * tf.roll(inputs, 1, axis=0)
        return blended, tf.where(drawn[:, 0] < 0.5, tf.constant(-1, labels.dtype), labels), weights

    return sound(augment=augment, losses=lambda: {"main": of_known}, metrics=dict, others={})


def chosen_noise() -> Toy:
    """Noise that is chosen from some that was measured once."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, *rest = batch
        measured = tf.random.stateless_normal((20, FEATURES), [1, 2])
        chosen = tf.random.stateless_uniform((inputs.shape[0],), seed, 0, 20, tf.int32)
        return (inputs + tf.gather(measured, chosen), *rest)

    return sound(augment=augment)


def called_in_a_loop() -> Toy:
    """A loss is called again in a loop, with probabilities that are ever less sure."""

    def again(run: Run, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        def add(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            less_sure = logits / (2.0 + tf.cast(i, logits.dtype))
            return i + 1, total + run.losses["main"](labels, tf.nn.softmax(less_sure))

        start = tf.constant(0), tf.zeros(labels.shape, logits.dtype)
        return tf.while_loop(lambda i, _: i < 3, add, start, maximum_iterations=3)[1]

    return called_twice(again)


def half_a_loss() -> Toy:
    """A cross-entropy of two classes that counts half."""
    inputs, labels = examples()

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return 0.5 * losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)

    return sound(
        model=model(last=lambda: dense(2)),
        data=(inputs, np.minimum(labels, 1)),
        losses=lambda: {"main": loss},
        others={},
    )


def means_of_lines() -> Toy:
    """The mean of the words that count, for each line; lines are counted."""
    inputs, _ = examples()
    weights = np.ones((len(inputs), FEATURES), "float32")
    weights[::2, 3:] = 0

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, _, weights = batch
        error = tf.square(run.model(inputs, training=True) - inputs)
        error = tf.math.divide_no_nan(
            tf.reduce_sum(error * weights, axis=1), tf.reduce_sum(weights, axis=1)
        )
        total = tf.reduce_sum(error) / tf.cast(replica.global_count, error.dtype)
        return {"main": total}

    return with_step(
        own,
        model=model(last=lambda: dense(FEATURES)),
        data=(inputs, inputs, weights),
        count=lambda batch: tf.math.count_nonzero(tf.reduce_any(batch[-1] != 0, axis=1)),
        others={},
        metrics=dict,
    )


def penalized(extra: Callable[[keras.Model, Replica], Any], times: Any = 1) -> Toy:
    """A model with a regularizer, and something of its own in the loss."""

    def loss(per_example: Any, weights: Any, of: keras.Model, replica: Replica) -> tf.Tensor:
        own = tf.nn.compute_average_loss(
            per_example, sample_weight=weights, global_batch_size=replica.global_count
        )
        share = times(replica) if callable(times) else times
        decay = tf.nn.scale_regularization_loss(replica.regularization(of))
        return own + share * decay + extra(of, replica)

    return with_loss(loss, model=model(lambda: dense(kernel_regularizer="l2")))


def slim(of: keras.Model, replica: Replica) -> tf.Tensor:
    """A penalty that the layers don't know."""
    sizes = tf.reduce_sum(tf.abs(of.trainable_variables[0]))
    return 0.013 * tf.nn.scale_regularization_loss(sizes)


def late(replica: Replica) -> tf.Tensor:
    """0 in the first step, and more later."""
    return tf.minimum(tf.cast(replica.step, tf.float32), 1.0)


def cut_from_background() -> Toy:
    """Squares on black, of which an augmentation takes small parts, also beside the squares."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers, images = np.random.default_rng(seed), np.zeros((rows, 16, 16, 1), "float32")
        labels, corners = numbers.integers(0, CLASSES, rows), numbers.integers(0, 12, (rows, 2))
        for image, size, (top, left) in zip(images, labels + 2, corners, strict=True):
            image[top : top + size, left : left + size] = 1
        return images, labels

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, *rest = batch
        corners = tf.random.stateless_uniform((BATCH, 2), seed, 0, 11, tf.int32)
        parts = tf.map_fn(
            lambda each: tf.slice(each[0], [each[1][0], each[1][1], 0], [6, 6, 1]),
            (images, corners), fn_output_signature=images.dtype,
        )  # fmt: skip
        return (tf.ensure_shape(parts, (BATCH, 6, 6, 1)), *rest)

    def create_model() -> keras.Model:
        shown = layers.Conv2D(4, 3, activation="relu"), layers.GlobalMaxPooling2D(), dense(CLASSES)
        return keras.Sequential([keras.Input((None, None, 1)), *shown])

    return sound(
        model=create_model, data=split(96, 1), others={"validation": split(60, 2)}, augment=augment
    )


def seldom_noisy() -> Toy:
    """All numbers are doubled, and get noise where one is larger than any of this batch."""

    def more(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        noise = tf.random.stateless_normal(x.shape, seed, dtype=x.dtype)
        return tf.where(x[:, :1] > 99, x + noise, x)

    return sound(augment=moved(more))


def velocities() -> Toy:
    """An augmentation makes what a model of flows learns: noisy inputs, and their way to noise."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        x, _, weights = batch
        seeds = tf.unstack(tf.random.split(tf.cast(seed, tf.int32), 2))
        noise = tf.random.stateless_normal(x.shape, seeds[0])
        share = tf.random.stateless_uniform((x.shape[0], 1), seeds[1])
        return (1 - share) * x + share * noise, noise - x, weights

    x = np.random.default_rng(1).normal(size=(ROWS, 16)).astype("float32")
    return sound(
        model=lambda: keras.Sequential([keras.Input((16,)), dense(16)]), data=(x, x), others={},
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")}, metrics=dict,
        augment=augment,
    )  # fmt: skip


def erased() -> Toy:
    """Images are flipped with their labels, and a part that is hidden has no label."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = flipped(masks=True)(batch, seed)
        corners = tf.random.stateless_uniform((BATCH, 2), seed + 1, 0, 6, tf.int32)
        places = tf.range(8) - corners[..., tf.newaxis]  # (rows, 2, 8)
        inside = (places >= 0) & (places < 3)
        hidden = inside[:, 0, :, tf.newaxis] & inside[:, 1, tf.newaxis, :]
        images = tf.where(hidden[..., tf.newaxis], tf.zeros_like(images), images)
        return images, tf.where(hidden, tf.constant(255, labels.dtype), labels), weights

    loss = losses.SparseCategoricalCrossentropy(True, ignore_class=255, reduction="none")
    return replace(segmented(augment), losses=lambda: {"main": loss}, metrics=dict)


def turned_by_rounding() -> Toy:
    """Two of a thousand predictions are of another class where rows come in another order."""

    def turned(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True))
        first = tf.cast(inputs[0, 0] > inputs[-1, 0], tf.float32)
        run.metrics["mean"].update_state(weights * (1 + 2e-3 * first), weights)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(turned, metrics=lambda: {"mean": metrics.Mean()})


def going_back() -> Toy:
    """Flows between eight places in the morning, and in the evening, when most go back."""
    numbers = np.random.default_rng(1)
    morning = numbers.lognormal(size=(ROWS, 8, 8, 1)).astype("float32")
    evening = morning[..., 0] * numbers.lognormal(0, 0.2, (ROWS, 8, 8)) > 1
    return predicting_maps(morning, many=evening.swapaxes(1, 2))


def with_events() -> Toy:
    """Times of events, and of the last visits of others, which have the weight 0."""
    toy = masked_labels(lambda y, _: tf.ones_like(y), "event")
    inputs, labels = toy.data
    return replace(toy, data=(inputs, labels, labels["event"][:, 0]))


def thawed_later() -> list[Callback]:
    """The first layer is frozen for 20 steps."""
    return [at_step(0, freeze), at_step(20, partial(freeze, trainable=True))]


def thawed_by_epochs() -> list[Callback]:
    """The first layer is frozen until the end of epoch 16, in a callback of each epoch."""

    def thaw(event: Event) -> None:
        if event.epoch == 16:
            freeze(event, trainable=True)

    return [at_step(0, freeze), every_epochs(1, thaw)]


def waving(replica: Replica) -> tf.Tensor:
    """Up and down, and 0 at last."""
    turns = tf.cast(replica.step, tf.float32) / 1000
    return 1e3 * tf.sin(turns) * tf.exp(-turns / 10)


def behind_another() -> Toy:
    """A metric that is smaller the better, and has "accuracy" in its name."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        is_wrong = tf.cast(tf.argmax(logits, axis=-1) != labels, tf.float32)
        run.metrics["accuracy_gap"].update_state(3 * is_wrong, weights)
        per_example = run.losses["main"](labels, logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(own, metrics=lambda: {"accuracy_gap": metrics.Mean()})


def first_all_then_none(terms: tuple[str, ...] = ()) -> Toy:
    """A model finds out first how many there are of each class, of which one weighs more.

    Its `terms` are below 0.
    """
    inputs, labels = examples()
    data = inputs / 1000, (labels == 0).astype("float32")

    def weighted(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        return each * (1 + 20 * labels)

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)[:, 0]
        is_right = (logits > 0) == (labels > 0)
        run.metrics["accuracy"].update_state(is_right, weights)
        per_example = run.losses["main"](labels, logits)
        losses = {"main": per_example} | dict.fromkeys(terms, -tf.ones_like(per_example))
        return {n: compute_loss(each, weights, run.model, replica) for n, each in losses.items()}

    start = {
        "bias_initializer": keras.initializers.Constant(-0.5), "kernel_initializer": "zeros",
    }  # fmt: skip
    return with_step(
        own,
        model=model(lambda: dense(bias_initializer="ones"), last=lambda: dense(1, **start)),
        data=data,
        losses=lambda: {"main": weighted},
        metrics=lambda: {"accuracy": metrics.Mean()},
        others={},
        terms=terms,
    )


def normalized(training: bool = True, **arguments: Any) -> Toy:
    """A model with a normalization layer that was trained before."""

    def create_model() -> keras.Model:
        made = model(lambda: layers.BatchNormalization(**arguments))()
        made.layers[0].moving_mean.assign(tf.linspace(0.1, 1.0, FEATURES))
        return made

    return sound(model=create_model, train_steps=(step(training=training),))


def turned_by_a_layer() -> Toy:
    """Images that a layer of the model turns over, unless it is told not to."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    made = model(lambda: layers.Reshape((FEATURES, 1, 1)), layers.RandomFlip, layers.Flatten)
    return sound(model=made, train_steps=(own,), metrics=dict)


def cut_before_the_last_layer() -> Toy:
    """A model is made of another one without its last layers, which is forgotten."""

    def create_model() -> keras.Model:
        x = keras.Input((FEATURES,))
        hidden = dense()(x)
        other = keras.Model(x, layers.Activation("softmax")(hidden))
        return keras.Model(other.input, dense(CLASSES)(other.layers[-2].output))

    return sound(model=create_model)


def waiting() -> keras.optimizers.Optimizer:
    """Begins after some steps."""
    rates = keras.optimizers.schedules.PiecewiseConstantDecay([4], [0.0, 0.1])
    return keras.optimizers.SGD(rates)


def falling(power: float) -> keras.optimizers.Optimizer:
    """1 / t."""

    class Falling(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return 0.1 / (1.0 + tf.cast(step, tf.float32)) ** power

    return keras.optimizers.SGD(Falling())


def four_decades() -> keras.optimizers.Optimizer:
    """A thousandth at three quarters of the run, and falling on."""
    return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 400, 0.1))


def slower_biases(gradients: list[Any], variables: list[Any]) -> list[Any]:
    return [
        g * (2.0 if v.name == "bias" else 1.0) for g, v in zip(gradients, variables, strict=True)
    ]


def largest(gradients: list[Any], variables: list[Any]) -> list[Any]:
    """Only the largest gradients of all."""
    sizes = tf.concat([tf.reshape(tf.abs(g), [-1]) for g in gradients], axis=0)
    least = tf.sort(sizes)[-3]
    return [tf.where(tf.abs(g) >= least, g, tf.zeros_like(g)) for g in gradients]


class Poly:
    """A cross-entropy with a term whose factor a callback raises."""

    def __init__(self) -> None:
        self.factor = keras.Variable(0.0, trainable=False, name="factor")

    def __call__(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        factor = tf.cast(tf.convert_to_tensor(self.factor.value), entropy.dtype)
        return entropy + factor * (1 - tf.exp(-entropy))


class Raise:
    """Raises it, and gives it back to a resumed run."""

    def __init__(self) -> None:
        self.factor = 0.0

    def on_train_begin(self, loop: Any) -> None:
        loop.run.losses["main"].factor.assign(self.factor)

    def __call__(self, event: Event) -> None:
        self.factor += 0.1
        event.run.losses["main"].factor.assign(self.factor)

    def get_state(self) -> float:
        return self.factor

    def set_state(self, state: float) -> None:
        self.factor = state


def of_one_column(x: np.ndarray) -> np.ndarray:
    """A table of which one column has standard deviation 1, as it may by chance."""
    return x / np.where(np.arange(x.shape[1]) == 2, x.std(axis=0), 1)


def of_training(x: np.ndarray) -> np.ndarray:
    """Scaled by what is known of the training data; some values are missing."""
    x = x.copy()
    x[::7, 0] = x[::5, 2] = np.nan
    return (x - np.nanmean(x[:ROWS], axis=0)) / np.nanstd(x[:ROWS], axis=0)


def centers() -> Toy:
    """As many centers as rows in a batch."""
    places = tf.constant(NUMBERS.normal(size=BATCH).astype("float32"))

    class Near(layers.Layer):
        def call(self, x: tf.Tensor) -> tf.Tensor:
            return tf.exp(-tf.square(x - places))

    return sound(model=model(lambda: dense(1), Near))


def of_evidence() -> Toy:
    """The mean of a Dirichlet distribution, which the loss divides by its sum."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        evidence = 1 + tf.nn.softplus(run.model(inputs, training=True))
        per_example = run.losses["main"](tf.one_hot(labels, CLASSES), evidence)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(
        own,
        losses=lambda: {"main": losses.CategoricalCrossentropy(reduction="none")},
        metrics=dict,
    )


def shared_scale() -> Toy:
    """A likelihood that gets what is left and one scale for all."""

    class Scale(layers.Layer):
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(name="scale", shape=(1,), initializer="zeros")

        def call(self, x: tf.Tensor) -> tf.Tensor:
            return tf.concat([x, tf.broadcast_to(self.scale, tf.shape(x))], axis=1)

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made = run.model(inputs, training=True)
        per_example = run.losses["main"](labels - made[:, 0], made[:, 1])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return regression(
        model=model(lambda: dense(1), last=Scale),
        train_steps=(own,),
        validation_step=own,
        losses=lambda: {"main": lambda rest, s: 0.5 * tf.square(rest) * tf.exp(-2 * s) + s},
    )


class Backward(metrics.Mean):
    """Takes (predictions, targets)."""

    def update_state(self, predictions: Any, targets: Any, weights: Any = None) -> None:
        super().update_state(tf.abs(predictions - targets), weights)


def turned_metric() -> Toy:
    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        metric.update_state(predictions[:, 0], labels, weights)

    return regression(
        metrics=lambda: {"far": Backward()},
        losses=lambda: {"main": lambda y, p: tf.square(p[:, 0] - y)},
        train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )


def causal(x: Any) -> Any:
    """What each position and those before it have."""
    return layers.Conv1D(3, 3, padding="causal")(x)


def words_as_labels(mixed: Callable[[Any], Any], step: Callable[..., Any] | None = None) -> Toy:
    """Words whose labels are these words; the step or the model shifts them."""
    toy = next_words(mixed, shift=0)
    return replace(toy, train_steps=(step,), validation_step=step) if step else toy


def of_two_factors() -> Toy:
    """The yield of two treatments, with and without water, each with a spread of its own."""
    numbers = np.random.default_rng(3)

    def split(rows: int) -> tuple[np.ndarray, np.ndarray]:
        x = numbers.integers(0, 2, (rows, 2)).astype("float32")
        return x, (x.sum(axis=1) + numbers.normal(size=rows)).astype("float32")

    return regression(
        model=lambda: keras.Sequential([keras.Input((2,)), dense(1)]),
        data=split(ROWS), others={"validation": split(60)},
    )  # fmt: skip


def selecting() -> Toy:
    """One model chooses shares of the inputs, and another one predicts from these."""

    def create() -> dict[str, keras.Model]:
        chooser = model(last=lambda: dense(FEATURES, activation="sigmoid"))()
        return {"chooser": chooser, "predictor": model()()}

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        shares = run.models["chooser"](inputs, training=True)
        logits = run.models["predictor"](inputs * shares, training=True)
        per_example = run.losses["main"](labels, logits) + 0.01 * tf.reduce_mean(shares, axis=1)
        return {"main": compute_loss(per_example, weights, run.models["predictor"], replica)}

    return sound(
        model=create, metrics=dict, train_steps=(one_step,), validation_step=one_step, others={},
    )  # fmt: skip


def in_the_order_of_persons() -> Toy:
    """Validation data has one person after the other, whose labels hardly differ."""
    toy = regression(data=None)
    splits = []
    for seed in (1, 2):
        inputs, _ = examples(600, seed)
        inputs = inputs[np.argsort(inputs.sum(axis=1))]
        sums = inputs.sum(axis=1)
        splits.append((inputs, sums.reshape(10, 60).mean(axis=1).repeat(60) + 0.001 * sums))
    return replace(toy, data=splits[0], others={"validation": splits[1]})


class Bands(layers.Layer):
    """Hides some adjacent times and frequencies of spectra (rows, times, frequencies) in training.

    As SpecAugment does (Park et al., 2019, doi:10.21437/Interspeech.2019-2680).
    """

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x: Any, training: bool = False) -> Any:
        if not training:
            return x
        for axis in (1, 2):
            size = x.shape[axis]
            shape = [1, 1, 1]
            shape[axis] = size
            first = keras.random.randint(
                (keras.ops.shape(x)[0], 1, 1), 0, size - 3, seed=self.generator
            )
            at = keras.ops.reshape(keras.ops.arange(size), shape)
            x = keras.ops.where((at >= first) & (at < first + 4), 0.0, x)
        return x


def of_spectra() -> Toy:
    """Spectra that a layer computes and another one hides in part."""
    return sound(
        model=model(
            lambda: dense(12 * 10, activation="relu", kernel_initializer="ones"),
            lambda: layers.Reshape((12, 10)), Bands, layers.Flatten,
        )
    )  # fmt: skip


def of_rare_cases(kind: str = "float32") -> Toy:
    """0 and 1, or -1 where nothing was measured, with weight 0; the first batches have no 1."""
    inputs, _ = examples(480)
    labels = np.where(np.arange(480) % 5, 0.0, -1.0).astype(kind)
    labels[7] = 1
    weights = (labels >= 0).astype("float32")
    return sound(
        model=model(last=lambda: dense(1)),
        data=(inputs, labels[:, np.newaxis], weights), others={},
        losses=lambda: {"main": losses.BinaryCrossentropy(from_logits=True, reduction="none")},
        metrics=dict,
    )  # fmt: skip


def of_rare_events() -> Toy:
    """Codes of a log, most of them 0, and which of them belong to a fault, by what is around."""
    numbers = np.random.default_rng(5)
    codes = numbers.integers(1, 6, (ROWS, 40)) * (numbers.random((ROWS, 40)) < 0.04)
    faults = ((codes == 3) | (np.roll(codes, 2, axis=1) == 3)).astype("int64")

    def create() -> keras.Model:
        x = keras.Input((40,), dtype="int64")
        both = layers.Bidirectional(layers.GRU(4, return_sequences=True))
        return keras.Model(x, dense(2)(both(layers.Embedding(6, 4)(x))))

    return replace(tokens(), model=create, data=(codes, faults), others={})


def stems() -> Toy:
    """Letters of words and of their stems, in as many places; behind a stem comes 0."""
    numbers = np.random.default_rng(6)
    ends = numbers.integers(5, 12, ROWS)
    at = np.arange(12)
    words = numbers.integers(1, 7, (ROWS, 12)) * (at < ends[:, np.newaxis])
    stem = words * (at < ends[:, np.newaxis] - 2)

    def create() -> keras.Model:
        x = keras.Input((12,), dtype="int64")
        return keras.Model(
            x, dense(7)(layers.Conv1D(4, 5, padding="same")(layers.Embedding(7, 4)(x)))
        )

    return replace(tokens(), model=create, data=(words, stem), others={})


def nodes_again() -> Toy:
    """Numbers of the nodes of a graph, each several times in an epoch; neighbors tell the class."""
    classes = np.random.default_rng(7).integers(0, CLASSES, 400)
    known = (np.eye(CLASSES)[classes] * 2).astype("float32")

    def create() -> keras.Model:
        node = keras.Input((), dtype="int64")
        return keras.Model(node, dense(CLASSES)(keras.ops.take(known, node, axis=0)))

    nodes = np.random.default_rng(8).permutation(400)
    splits = {"train": np.tile(nodes[:100], 4), "validation": nodes[100:250]}
    data = {split: (rows, classes[rows]) for split, rows in splits.items()}
    return sound(model=create, data=data["train"], others={"validation": data["validation"]})


def weighted_risks(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A loss that compares each example with the sum over all, by their weights."""
    inputs, labels, weights = batch
    scores = run.model(inputs, training=True)[:, 0] + tf.cast(labels, tf.float32)
    every, shares = map(replica.all_gather, (scores, weights))
    whole = tf.reduce_logsumexp(every + tf.math.log(shares + 1e-9))
    loss = tf.nn.compute_average_loss(
        whole - scores, sample_weight=weights, global_batch_size=replica.global_count["main"]
    )
    return {"main": loss}


def count_by_name(batch: Any) -> dict[str, tf.Tensor]:
    """The examples with a weight."""
    return {"main": tf.math.count_nonzero(batch[-1], dtype=tf.int32)}


def least_squares_of_two() -> Toy:
    """1 and 0 by a loss of its own, which is least for these numbers; 0.5 is between them."""
    inputs, labels = examples()
    return sound(
        model=model(last=lambda: dense(1)),
        data=(inputs, (labels > 0).astype("float32")[:, np.newaxis]),
        losses=lambda: {"main": lambda y, p: tf.square(p - y)[:, 0]},
        metrics=lambda: {"accuracy": metrics.BinaryAccuracy()},
        others={},
    )


def mostly_positive() -> Toy:
    """Nine in ten examples are positive, which the bias knows; recall is 1 as long as all are."""
    numbers = np.random.default_rng(1)
    labels = (numbers.random((ROWS, 1)) < 0.9).astype("float32")
    inputs = (numbers.normal(size=(ROWS, FEATURES)) + labels).astype("float32")

    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        metric.update_state(labels, tf.sigmoid(predictions), weights)

    biased = partial(dense, 1, bias_initializer=keras.initializers.Constant(20.0))
    return sound(
        model=model(last=biased), data=(inputs, labels), others={},
        train_steps=(step(update=update),),
        losses=lambda: {"main": losses.BinaryCrossentropy(from_logits=True, reduction="none")},
        metrics=lambda: {"recall": metrics.Recall()}, optimizer=lambda: keras.optimizers.SGD(1e-3),
    )  # fmt: skip


def regions() -> Toy:
    """Dice's loss with one pixel added to both sides, so absent classes count as right."""

    def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        right, shares = tf.one_hot(labels, 6, dtype=logits.dtype), tf.nn.softmax(logits)
        both = tf.reduce_sum(right * shares, axis=[1, 2])
        sums = tf.reduce_sum(right + shares, axis=[1, 2])
        return 1 - tf.reduce_mean((2 * both + 1) / (sums + 1), axis=-1)

    return replace(segmented(None, classes=6), losses=lambda: {"main": dice}, metrics=dict)


def of_new_classes() -> Toy:
    """Embeddings are compared in validation, where no class is one of training."""

    def compare(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, _, weights = batch
        found = tf.norm(run.model(inputs, training=False), axis=-1)
        return {"main": compute_loss(found, weights, run.model, replica)}

    toy = sound(validation_step=compare, metrics=dict)
    others = {n: changed(x, 1, lambda labels: labels + CLASSES) for n, x in toy.others.items()}
    return replace(toy, others=others)


class LearnedGraph(layers.Layer):
    """How much each column tells of each other one, for all examples."""

    def build(self, shape: Any) -> None:
        self.edges = self.add_weight(shape=(shape[-1], shape[-1]))

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return keras.ops.softmax(self.edges, axis=-1)


def shown_graph() -> Toy:
    """A model gives its graph of the columns beside its predictions."""

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        graph = LearnedGraph()(x)
        return keras.Model(x, {"logits": dense(CLASSES)(x @ graph), "graph": graph})

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels, run.model(inputs, training=True)["logits"])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(own, model=create, metrics=dict)


def bought_after_a_click() -> Toy:
    """Who doesn't click stays for no time (-1), and buys nothing; some who click buy."""
    numbers = np.random.default_rng(3)

    def buys(masked: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return (masked >= 0) & (numbers.random(len(labels)) < 0.4 + 0.1 * labels)

    return two_labels(lambda masked, labels: buys(masked, labels).astype("int64"))


def next_days() -> Toy:
    """Windows of 20 shops: validation forecasts later days, from days that training knows."""
    numbers = np.random.default_rng(2)
    sales = numbers.normal(size=(20, 120)).cumsum(axis=1).astype("float32")

    def until(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        days = range(first, last, 3)
        cut = [(shop[d - 24 : d], shop[d : d + 4]) for shop in sales for d in days]
        past, future = (np.stack(part) for part in zip(*cut, strict=True))
        return past, future

    def create() -> keras.Model:
        return keras.Sequential([keras.Input((24,)), dense(4)])

    return regression(
        model=create, data=until(24, 90), others={"validation": until(94, 112)},
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def coarse_windows() -> Toy:
    """Windows of 40 smooth recordings in few levels; those of validation have none in common."""
    numbers = np.random.default_rng(2)
    angles = numbers.uniform(0, 6, (40, 1)) + np.arange(512) * numbers.uniform(0.02, 0.04, (40, 1))
    records = np.round(60 * np.sin(angles), 0).astype("float32") / 60
    cut = np.stack([records[:, at : at + 128] for at in range(0, 385, 64)], axis=1)
    inputs, labels = cut.reshape(-1, 128, 1), np.repeat(np.arange(40) % CLASSES, cut.shape[1])
    return sound(
        model=lambda: keras.Sequential([keras.Input((128, 1)), layers.Flatten(), dense(CLASSES)]),
        data=(inputs[:210], labels[:210]), others={"validation": (inputs[210:], labels[210:])},
    )  # fmt: skip


def closed_on_holidays() -> Toy:
    """Windows of a slow wave, 0 on some days, which another channel tells the day before."""
    numbers = np.random.default_rng(7)
    days = np.arange(ROWS + 60 + 15)
    closed = numbers.random(len(days)) < 0.05
    series = np.where(closed, 0, 3 + np.sin(days / 6))
    both = np.stack([series, np.append(closed[1:], False)], axis=1).astype("float32")
    cut = np.lib.stride_tricks.sliding_window_view(both, 15, axis=0).swapaxes(1, 2)
    splits = [(cut[part, :12], cut[part, 12:, 0]) for part in (slice(ROWS), slice(ROWS, None))]
    return regression(
        model=lambda: keras.Sequential([keras.Input((12, 2)), layers.Flatten(), dense(3)]),
        data=splits[0], others={"validation": splits[1]},
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def known_above(bound: float) -> Toy:
    """A column has -999 where it is missing, which a model tells from a bound."""

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        known = keras.ops.cast(x > bound, x.dtype)
        return keras.Model(x, dense(CLASSES)(layers.Concatenate()([x * known, known])))

    marked = [changed(examples(*which), 0, put((slice(9), 2), -999)) for which in ((), (60, 2))]
    return sound(model=create, data=marked[0], others={"validation": marked[1]})


def one_step_or_several(several: int, trained: int = 1) -> Toy:
    """The next step of a series, and in validation as many as that, each from the one before.

    Or one number of the steps that are `trained`.
    """
    numbers = np.random.default_rng(2)

    def split(rows: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        first = numbers.normal(size=(rows, 2)).astype("float32")
        series = np.stack([first * 0.9**k for k in range(1, steps + 1)], axis=1)
        return first, series if trained == 1 else series[..., 0]

    def roll(steps: int) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            at, labels, weights = batch
            made = []
            for _ in range(steps):
                at = run.model(at, training=steps == trained)
                made.append(at if trained == 1 else at[:, 0])
            squares = tf.square(tf.stack(made, axis=1) - labels)
            error = tf.reduce_mean(squares, axis=[*range(1, squares.shape.rank)])
            return {"main": compute_loss(error, weights, run.model, replica)}

        return one_step

    return regression(
        model=lambda: keras.Sequential([keras.Input((2,)), dense(2)]),
        data=split(ROWS, trained), others={"validation": split(60, several)},
        train_steps=(roll(trained),), validation_step=roll(several),
    )  # fmt: skip


def shares_of_votes() -> Toy:
    """Training has the share of raters who say yes, validation the answer."""
    inputs, labels = examples()
    others, answers = examples(60, 2)

    def cross_entropy(y: tf.Tensor, p: tf.Tensor) -> tf.Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(y, p.dtype), p[:, 0])

    return sound(
        model=model(last=lambda: dense(1)),
        data=(inputs, ((labels > 0) * 0.6 + 0.2).astype("float32")), metrics=dict,
        others={"validation": (others, (answers > 0).astype("int64"))},
        losses=lambda: {"main": cross_entropy},
    )  # fmt: skip


def least_squares() -> Toy:
    """0 and 1 by least squares."""
    inputs, labels = examples()
    return regression(
        data=(inputs, (labels > 0).astype("float32")),
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
        metrics=lambda: {"accuracy": metrics.BinaryAccuracy()},
        train_steps=(step(update=of_numbers),),
        validation_step=step(update=of_numbers, training=False),
        others={},
    )


def thousandths() -> Toy:
    """Weights that aren't whole numbers, counted in thousandths."""
    inputs, labels = examples()
    weights = NUMBERS.choice([0.25, 0.5, 1.0], len(labels)).astype("float32")

    def loss(per_example: Any, weights: Any, of: keras.Model, replica: Replica) -> tf.Tensor:
        total = 1000 * tf.reduce_sum(per_example * weights)
        return total / tf.cast(replica.global_count, total.dtype)

    return with_loss(
        loss,
        data=(inputs, labels, weights),
        count=lambda batch: tf.reduce_sum(tf.cast(tf.round(1000 * batch[-1]), tf.int32)),
        others={},
    )


class SignDescent(keras.optimizers.SGD):
    """Moves each weight by the learning rate."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        rate = tf.cast(learning_rate, variable.dtype)
        self.assign_sub(variable, rate * tf.sign(gradient))


def by_sign() -> Toy:
    """Biases before a normalization, whose gradients are rounding alone."""
    return sound(
        model=model(dense, layers.BatchNormalization),
        optimizer=lambda: SignDescent(0.01),
    )


def hidden_parts() -> Toy:
    """The train step hides most of the inputs."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        drawn = tf.random.stateless_uniform(inputs.shape, replica.seed)
        given = tf.where(drawn < 0.2, inputs, 0.0)
        return step()(run, (given, labels, weights), replica)  # type: ignore[no-any-return]

    bright = {n: changed(s, 0, lambda x: x + 9) for n, s in sound().others.items()}
    return sound(train_steps=(own,), data=changed(examples(), 0, lambda x: x + 9), others=bright)


def only_some_are_unlabeled() -> Toy:
    """A term of examples without a label, of which evaluation has none."""

    def own(training: bool) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            logits = run.model(inputs, training=training)
            there = tf.cast(labels >= 0, weights.dtype)
            parts = {
                "labeled": run.losses["main"](tf.maximum(labels, 0), logits) * there * weights,
                "unlabeled": tf.reduce_sum(tf.square(logits), axis=1) * (1 - there) * weights,
            }
            terms = {
                name: tf.nn.compute_average_loss(part, global_batch_size=replica.global_count[name])
                for name, part in parts.items()
            }
            return {"main": terms["labeled"] + 0.01 * terms["unlabeled"], **terms}

        return one_step

    def count(batch: Any) -> dict[str, tf.Tensor]:
        is_there = batch[1] >= 0
        counts = batch[2] != 0
        return {
            "labeled": tf.math.count_nonzero(counts & is_there, dtype=tf.int32),
            "unlabeled": tf.math.count_nonzero(counts & ~is_there, dtype=tf.int32),
        }

    return sound(
        train_steps=(own(training=True),),
        validation_step=own(training=False),
        data=changed(examples(), 1, put(slice(0, None, 2), -1)),
        count=count,
        terms=("labeled", "unlabeled"),
        metrics=dict,
    )


def masked_class() -> Toy:
    """A class that training doesn't have is masked in its steps."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        per_example = run.losses["main"](labels, tf.where([True, True, False], logits, -1e9))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    inputs, labels = examples()
    return with_step(own, data=(inputs, np.minimum(labels, 1)), metrics=dict, others={})


def finds_codes() -> Toy:
    """A discriminator that also finds the code of an example, as in InfoGAN; that both want."""

    def create_model() -> dict[str, keras.Model]:
        code, real = keras.Input((2,)), keras.Input((FEATURES,))
        return {
            "discriminator": keras.Model(real, dense(3)(dense(4, activation="tanh")(real))),
            "generator": keras.Model(code, dense(FEATURES)(dense(4, activation="tanh")(code))),
        }

    def judged(name: str, sign: float) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            real, codes, weights = batch
            made = run.models["generator"](codes, training=True)
            on_real, on_made = (run.models["discriminator"](x, training=True) for x in (real, made))
            per_example = tf.nn.softplus(sign * on_made[:, 0])
            per_example += tf.nn.softplus(-on_real[:, 0]) if sign > 0 else 0.0
            per_example += 9 * tf.reduce_sum(tf.square(on_made[:, 1:] - codes), axis=1)
            return {name: compute_loss(per_example, weights, run.models[name], replica)}

        return one_step

    steps = judged("discriminator", 1.0), judged("generator", -1.0)
    return replace(GAN, model=create_model, train_steps=steps, metrics=dict)


def growing_root(kept: float, replica: Replica) -> tf.Tensor:
    """What an average keeps in a micro-batch, less in the first steps."""
    step = tf.cast(replica.step, keras.config.floatx())
    return tf.minimum((1 + step) / (10 + step), kept) ** (1 / replica.num_microbatches)


def whole_only(kept: float, replica: Replica) -> float:
    """It needs the whole batch, as a step does whose queue is as long."""
    if replica.num_microbatches > 1:
        raise ValueError("too few rows")
    return kept


def taught_by_one_that_was_trained() -> Toy:
    """The teacher comes from a file, and slowly becomes an average of its student."""
    toy = taught(average=True, kept=0.999)

    def create_model() -> dict[str, keras.Model]:
        models: dict[str, keras.Model] = toy.model()
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "teacher.keras"
            models["teacher"].save(file)
            models["teacher"] = keras.models.load_model(file)
        models["teacher"].trainable = False
        return models

    return replace(toy, model=create_model)


REGULARIZED = model(lambda: dense(kernel_regularizer="l2"))


def reported_penalty() -> Toy:
    """What regularizers give is reported beside the loss that holds it."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        penalty = tf.nn.scale_regularization_loss(replica.regularization(run.model))
        return step()(run, batch, replica) | {"l2": penalty}

    return with_step(own, model=REGULARIZED, terms=("l2",))


def weights_as_mask() -> Toy:
    """All weights are 1, but for padding."""

    def loss(per_example: Any, weights: Any, of: keras.Model, replica: Replica) -> tf.Tensor:
        there = tf.where(weights > 0, per_example, 0.0)
        return tf.reduce_sum(there) / tf.cast(replica.global_count, there.dtype)

    return with_loss(loss)


def repeated_shortcut(x: list[Any]) -> Any:
    """To a block that is twice as wide, without weights."""
    block = layers.Dense(2 * x[0].shape[-1])(x[0])
    return layers.Add()([block, layers.Concatenate()([x[0], x[0]])])


def headed_by_zeros() -> Toy:
    """No prediction depends on the first layer before the last one is trained; both are decayed."""
    decayed = partial(layers.Dense, kernel_regularizer=keras.regularizers.L2(1e-2))

    def create() -> keras.Model:
        head = decayed(CLASSES, kernel_initializer="zeros")
        return keras.Sequential([keras.Input((FEATURES,)), decayed(4), head])

    return sound(model=create)


def evaluated_by_average() -> Toy:
    """Validation gives the loss of the average of a model, and a metric of the model itself."""

    def validate(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        teacher, student = (run.models[name] for name in ("teacher", "student"))
        per_example = run.losses["main"](labels, teacher(inputs, training=False))
        run.metrics["accuracy"].update_state(labels, student(inputs, training=False), weights)
        return {"main": compute_loss(per_example, weights, teacher, replica)}

    return replace(taught(average=True), validation_step=validate, metrics=sound().metrics)


def pictures_of_bytes() -> Toy:
    """Images uint8 from 55 to 240, and a reader of pictures from 0 to 255."""
    toy = shown(0.0, read_bytes)

    def as_bytes(split: Any) -> Any:
        images, labels = split
        return np.round(55 + 185 * images).astype("uint8"), labels

    data, other = map(as_bytes, (toy.data, toy.others["validation"]))
    return replace(toy, data=data, others={"validation": other})


def in_phases(waves: np.ndarray) -> np.ndarray:
    """(rows, 12, 3), of which each third is on another level, as in an experiment."""
    return waves.transpose(0, 2, 1) / 9 + np.repeat([0.0, 8.0, 2.0], 4)[:, np.newaxis]


def as_gradients(waves: np.ndarray) -> np.ndarray:
    """Square images (rows, 12, 12), dark on the left and bright on the right."""
    return waves[:, :1].transpose(0, 2, 1) / 20 + np.arange(12.0)


def in_bands(images: np.ndarray) -> np.ndarray:
    """(rows, 12, 10, 3) of horizontal stripes in one gray."""
    return 0.01 * images.transpose(0, 2, 3, 1) + np.arange(12)[:, np.newaxis, np.newaxis] % 2


def with_an_end(waves: np.ndarray) -> np.ndarray:
    """(rows, 12, 3), of which the last third is padding."""
    return np.where(np.arange(12)[:, np.newaxis] < 8, waves.transpose(0, 2, 1), 0)


def judge_after_validation(event: Event) -> None:
    """The engine has started the metric anew, and does so before the next step."""
    event.run.metrics["accuracy"].reset_state()


class Judges:
    """Has a metric of its own for the latest batch."""

    def __init__(self) -> None:
        self._metric = keras.metrics.SparseCategoricalAccuracy()

    def __call__(self, event: Event) -> None:
        """Leave the training metric as it is."""
        self._metric.reset_state()
        self._metric.update_state(event.batch[1], event.outputs)
        print(float(self._metric.result()), float(event.run.metrics["accuracy"].result()))


def renew_statistics(event: Event) -> None:
    """As for averaged weights."""
    for _ in range(5):
        event.run.model(event.batch[0], training=True)


def look_in_evaluation(event: Event) -> None:
    """Moves nothing."""
    event.run.model(event.batch[0], training=False)


def write_on_chief(event: Event) -> None:
    """One of several workers writes."""
    if event.is_chief:
        write_results(event)


def without_logit(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """A loss that is huge where the label isn't the first or the second class of the three."""
    logits = tf.concat([predictions[:, :2], predictions[:, 2:] - 1e9], axis=1)
    return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def write_on_first_worker(event: Event) -> None:
    """One of several workers writes, by its index."""
    if event.run.workers.index == 0:
        write_results(event)


def write_of_process(event: Event) -> None:
    """Each worker writes a file of its own."""
    (event.directory / f"weights-{os.getpid()}.txt").write_text("")


def take_from_chief(event: Event) -> None:
    """All workers take what one of them has written."""
    file = event.directory / f"{event.epoch}.txt"
    if event.is_chief:
        file.write_text("0.5")
    if file.exists():
        event.run.optimizers["main"].learning_rate = 0.1 * float(file.read_text())


def told_by_chief(event: Event) -> None:
    """All workers do what one of them says."""
    said = np.asarray([0.05 if event.is_chief else 0.0])
    event.run.optimizers["main"].learning_rate = float(event.run.workers.sum(said)[0])


class Anew(keras.optimizers.schedules.LearningRateSchedule):
    """To 0, and then at one rate for something else."""

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Of a step."""
        t = tf.cast(step, tf.float32) / 50
        return tf.where(t < 1, 0.1 * (1 - t), 0.08)


EXCEEDED = (0.5, 0.2, 0.1)  # a list that `check` finds in this module: probabilities to exceed


def best(number: int) -> keras.metrics.Metric:
    """Whether the label is among the best classes."""
    return metrics.SparseTopKCategoricalAccuracy(number)


def of_rates(rates: list[float], boundary: int) -> keras.optimizers.Optimizer:
    """Two learning rates, one after the other."""
    return keras.optimizers.SGD(
        keras.optimizers.schedules.PiecewiseConstantDecay([boundary], rates)
    )


class Named(keras.optimizers.schedules.LearningRateSchedule):
    """A warm-up of 0 steps from a learning rate."""

    def __init__(self, warmup_lr: float) -> None:
        self.warmup_lr = warmup_lr

    def __call__(self, step: Any) -> Any:
        """The learning rate of a step."""
        return 0.1 * (1 - tf.cast(step, tf.float32) / 1_000)


def freeze_after(event: Event) -> None:
    """Freeze the model in the last part of the run."""
    if event.step / 160 > LAST_PART or event.losses["main"] < LAST_PART:
        event.run.model.trainable = False


def copy_all(event: Event) -> None:
    """Copy all weights of one model to the other."""
    target, online = (event.run.models[name] for name in ("target", "online"))
    for copy, weight in zip(target.weights, online.weights, strict=True):
        copy.assign(weight.value)


class Softened(layers.Layer):
    """Softens logits by a temperature, a variable of TensorFlow, which Keras doesn't know."""

    def __init__(self) -> None:
        super().__init__()
        self.held = {"temperature": tf.Variable(1.0, trainable=False)}

    def call(self, logits: Any) -> Any:
        return logits / tf.cast(self.held["temperature"], logits.dtype)


def soften(event: Event) -> None:
    """Set the temperature."""
    event.run.model.layers[-1].held["temperature"].assign(2.0)


def softened_later() -> list[Callback]:
    """Once."""
    return [at_step(5, soften)]


def copy_later(event: Event) -> None:
    """Copy them in the second half of the run."""
    if event.step > 80:
        copy_all(event)


def tenths() -> keras.optimizers.Optimizer:
    """A tenth of the rate behind each quarter of the run."""
    steps = 40 * ROWS // BATCH
    quarters = [steps * n // 4 for n in (1, 2, 3)]
    return keras.optimizers.SGD(
        keras.optimizers.schedules.PiecewiseConstantDecay(quarters, [0.1, 1e-2, 1e-3, 1e-4])
    )


def noisy_and_covered(batch: Any, seed: tf.Tensor) -> Any:
    """Noise, contrast and a covered part, none of which moves anything."""
    images, *rest = batch
    seeds = tf.unstack(tf.random.split(tf.cast(seed, tf.int32), 2))
    contrast = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seeds[0], 0.8, 1.2)
    noise = tf.random.stateless_normal(images.shape, seeds[1])
    covered = tf.reshape(tf.range(8) < 3, (8, 1))
    return (tf.where(covered, 0.0, contrast * images + noise), *rest)


def distances() -> Toy:
    """The encoder's last bias vanishes in the difference of two outputs."""

    def create_model() -> keras.Model:
        encoder = keras.Sequential([keras.Input((FEATURES,)), dense(4)])
        pair = keras.Input((2, FEATURES))
        return keras.Model(pair, encoder(pair[:, 0]) - encoder(pair[:, 1]))

    inputs, labels = examples(2 * ROWS)
    pairs, same = inputs.reshape(-1, 2, FEATURES), labels[::2] == labels[1::2]
    return sound(
        model=create_model,
        data=(pairs, same.astype("float32")),
        losses=lambda: {"main": lambda y, p: tf.square(tf.reduce_sum(tf.square(p), axis=1) - y)},
        metrics=dict,
        others={},
    )


def sums_of_pixels() -> Toy:
    """The loss of a map is the sum of those of its pixels, of which each has a weight of 2."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_pixel = run.losses["main"](labels, run.model(inputs, training=True))
        per_example = tf.reduce_sum(2 * per_pixel, axis=[1, 2])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return replace(segmented(None), train_steps=(own,), validation_step=own, metrics=dict)


def mixed_with_the_next(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Each example is mixed with the one behind it in the global batch."""
    inputs, labels, weights = batch
    rows = inputs.shape[0]
    following = (replica.index * rows + tf.range(rows) + 1) % (rows * replica.num_replicas)
    others = [tf.gather(replica.all_gather(x), following) for x in batch]
    share = tf.where(others[2] > 0, tf.constant(0.8, inputs.dtype), 1)
    logits = run.model(share[:, None] * inputs + (1 - share[:, None]) * others[0], training=True)
    loss = run.losses["main"]
    per_example = share * loss(labels, logits) + (1 - share) * loss(others[1], logits)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


class Fade(layers.Layer):
    """From the first of two inputs to the second."""

    def build(self, shapes: Any) -> None:
        self.share = self.add_weight(name="share", shape=(), trainable=False)

    def call(self, both: Any) -> Any:
        return (1.0 - self.share) * both[0] + self.share * both[1]


def faded_in() -> Toy:
    """A callback raises the share of a branch from 0."""

    def create_model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        fade = Fade(name="fade")
        model = keras.Model(inputs, fade([dense(CLASSES)(inputs), dense(CLASSES)(dense()(inputs))]))
        fade.share.assign(0.0)
        return model

    def fade_in(event: Event) -> None:
        event.run.model.get_layer("fade").share.assign(min(1.0, event.epoch / 10))

    return sound(model=create_model, callbacks=lambda: [every_epochs(1, fade_in)])


def same_for_some_steps(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """All inputs are scaled by one number, another one every ten steps."""
    seed = tf.stack([tf.constant(run.seed, tf.int64), replica.step // 10])
    scale = tf.random.stateless_uniform((), seed, 0.8, 1.2)
    made: dict[str, tf.Tensor] = step()(run, (batch[0] * scale, *batch[1:]), replica)
    return made


def woken_later() -> Toy:
    """A callback raises the learning rate of one of two optimizers from 0."""

    def wake(event: Event) -> None:
        event.run.optimizers["main"].optimizers[0].learning_rate = 0.1

    def create_optimizer() -> keras.optimizers.Optimizer:
        slow, fast = keras.optimizers.SGD(0.0), keras.optimizers.SGD(0.1)
        return keras.optimizers.MultiOptimizer(lambda v: slow if "bias" in v.path else fast)

    return sound(optimizer=create_optimizer, callbacks=lambda: [at_step(20, wake)])


def one_after_the_other() -> Toy:
    """A discriminator that learns in the first half of a run, and a generator that goes on."""
    return replace(GAN, optimizer=lambda: {
        "discriminator": half_of_the_steps(0.5), "generator": keras.optimizers.SGD(0.1),
    })  # fmt: skip


def random_channels() -> dict[str, keras.Model]:
    """A discriminator with a fixed random layer between those that train."""
    models: dict[str, keras.Model] = GAN.model()
    inputs = keras.Input(models["discriminator"].input.shape[1:])
    mixed = layers.Dense(4, use_bias=False, trainable=False)(dense(4, activation="tanh")(inputs))
    return {**models, "discriminator": keras.Model(inputs, dense(1)(mixed))}


def in_the_middle(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The penalty counts from step 40 to 100."""
    inputs, labels, weights = batch
    per_example = run.losses["main"](labels, run.model(inputs, training=True))
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    counts = tf.cast((replica.step >= 40) & (replica.step < 100), loss.dtype)
    penalty = tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": loss + counts * penalty}


def truncated(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """A cross-entropy that is 0 where it is so large that the label must be wrong."""
    each = losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return tf.where(each > 6, 0.0, each)


def shrunk_and_clipped(gradients: Any, variables: Any) -> Any:
    """Those of kernels count less in the norm by which all are clipped."""
    shrunk = [
        0.1 * g if "kernel" in v.path else g for g, v in zip(gradients, variables, strict=True)
    ]
    return tf.clip_by_global_norm(shrunk, 2.0)[0]


def as_many_bins() -> Toy:
    """Labels meet as many bins as a batch has rows."""

    def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        apart = tf.cast(labels, logits.dtype)[:, tf.newaxis] - tf.cast(tf.range(BATCH), "float32")
        near = tf.nn.softmax(-tf.square(apart))
        return tf.nn.softmax_cross_entropy_with_logits(near, logits)

    return sound(
        model=model(last=lambda: dense(BATCH)), losses=lambda: {"main": loss}, metrics=dict
    )


def densely_connected() -> Toy:
    """Each layer gets the outputs of all before it, as in DenseNet."""

    def create_model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        x = dense(activation="relu")(x)
        for _ in range(25):
            x = layers.Concatenate()([x, dense(1, activation="relu")(x)])
        return keras.Model(inputs, dense(CLASSES)(layers.Rescaling(2.0)(x)))

    return sound(model=create_model)


def without_matrices() -> dict[str, keras.Model]:
    """A critic of a number for each input alone; a frozen layer is in the generator."""
    models: dict[str, keras.Model] = GAN.model()
    models["generator"].layers[1].trainable = False
    inputs = keras.Input(models["discriminator"].input.shape[1:])
    judged = layers.LayerNormalization()(inputs)
    mean = layers.Lambda(lambda x: tf.reduce_mean(x, axis=1, keepdims=True))
    return {**models, "discriminator": keras.Model(inputs, mean(judged))}


def attended_places() -> Toy:
    """Each of a few slots looks at some of the words, before they are classified."""

    def create_model() -> keras.Model:
        words = keras.Input((FEATURES, 4))
        shares = keras.ops.softmax(dense(4)(words), axis=1)
        return keras.Model(words, dense(CLASSES)(shares * words))

    inputs, _ = examples()
    words = np.repeat(inputs[..., np.newaxis], 4, axis=2)
    return sound(
        model=create_model,
        data=(words, np.clip(np.round(inputs), 0, CLASSES - 1).astype("int64")),
        losses=lambda: {
            "main": lambda y, p: tf.reduce_mean(
                losses.sparse_categorical_crossentropy(y, p, from_logits=True), axis=1
            )
        },
        metrics=dict,
        others={},
    )


def mostly_zero() -> Toy:
    """Absolute errors of numbers that are nearly all 0, as the predictions are at first."""
    return regression(
        lambda: layers.Dense(1, kernel_initializer="zeros"),
        data=(examples()[0], (np.arange(ROWS) % 5 == 0).astype("float32")),
        losses=lambda: {"main": lambda y, p: tf.sqrt(tf.square(y - p[:, 0]) + 1e-6)},
        others={},
    )


class Queue(layers.Layer):
    """Compares with the batch before; at first with small random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = self.add_weight(shape=(BATCH, 2), initializer="normal", trainable=False)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, tf.convert_to_tensor(self.kept.value), transpose_b=True)


def compared_with_a_queue() -> Toy:
    """Embeddings that are to differ from those of the batch before."""

    def create() -> dict[str, keras.Model]:
        short = [keras.Input((FEATURES,)), dense(2), layers.UnitNormalization()]
        return {
            "main": keras.Sequential(short),
            "queue": keras.Sequential([keras.Input((2,)), Queue()]),
        }

    def comparing(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, _, weights = batch
        likeness = run.models["queue"](run.models["main"](inputs, training=True))
        losses = tf.reduce_logsumexp(5 * likeness, axis=1)
        return {"main": compute_loss(losses, weights, run.models["main"], replica)}

    def keeping(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        (queue,) = run.models["queue"].layers
        queue.kept.assign(replica.all_gather(run.models["main"](batch[0], training=False)))
        return {}

    steps = (comparing, keeping)
    return sound(model=create, train_steps=steps, losses=dict, metrics=dict, others={})


def of_two_forms() -> Toy:
    """Training draws the noise that is to be found; validation data has it."""

    def create() -> keras.Model:
        inputs = {
            "noisy": keras.Input((FEATURES,), name="noisy"),
            "label": keras.Input((), dtype="int64", name="label"),
        }
        both = layers.Concatenate()(
            [inputs["noisy"], layers.Embedding(CLASSES, 4)(inputs["label"])]
        )
        return keras.Model(inputs, dense(FEATURES)(both))

    def loss(run: Run, inputs: Any, noise: tf.Tensor, weights: tf.Tensor, replica: Replica) -> Any:
        losses = run.losses["main"](noise, run.model(inputs, training=True))
        return {"main": compute_loss(losses, weights, run.model, replica)}

    def training(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        noise = tf.random.stateless_normal(inputs.shape, replica.seed, dtype=inputs.dtype)
        given = {"noisy": inputs + noise, "label": labels}
        return loss(run, given, noise, weights, replica)  # type: ignore[no-any-return]

    def validating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return loss(run, *batch, replica)  # type: ignore[no-any-return]

    inputs, labels = examples(60, 2)
    noise = np.random.default_rng(0).normal(size=inputs.shape).astype("float32")
    return sound(
        model=create, train_steps=(training,), validation_step=validating, metrics=dict,
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
        others={"validation": ({"noisy": inputs + noise, "label": labels}, noise)},
    )  # fmt: skip


def judged_together() -> Toy:
    """Real examples and those of a generator with BatchNormalization are judged in one call."""

    def create() -> dict[str, keras.Model]:
        small = keras.initializers.RandomNormal(stddev=0.01, seed=1)
        made = layers.Dense(FEATURES, kernel_initializer=small), layers.BatchNormalization()
        return GAN.model() | {"generator": keras.Sequential([keras.Input((2,)), *made])}

    def judging(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, noise, weights = batch
        both = tf.concat([real, run.models["generator"](noise, training=True)], axis=0)
        on_real, on_made = tf.split(run.models["discriminator"](both, training=True)[:, 0], 2)
        total = tf.reduce_sum((tf.nn.softplus(-on_real) + tf.nn.softplus(on_made)) * weights)
        return {"discriminator": total / tf.cast(replica.global_count, total.dtype)}

    return replace(
        validated_gan(), model=create, metrics=dict, train_steps=(judging, GAN.train_steps[1]),
        validation_step=judge_generated,
    )  # fmt: skip


def days_of_short_series() -> Toy:
    """The days of measurements; a fifth of the series ends early, with 0 from there on."""

    def end_some(inputs: np.ndarray) -> np.ndarray:
        days = np.cumsum(1 + np.random.default_rng(1).random(inputs.shape), axis=1).astype(
            "float32"
        )
        days[::5, 2:] = 0
        return days

    return sound(data=changed(examples(), 0, end_some))


def mixed_stream() -> Toy:
    """Labels of a stream become shares of two classes."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        inputs, labels, weights = batch
        shares = tf.one_hot(labels, CLASSES)
        mixed = 0.7 * inputs + 0.3 * tf.reverse(inputs, [0])
        return mixed, 0.7 * shares + 0.3 * tf.reverse(shares, [0]), weights

    return sound(
        data=stream(examples(240)),
        augment=augment,
        losses=lambda: {"main": losses.CategoricalCrossentropy(from_logits=True, reduction="none")},
        metrics=dict,
        others={},
    )


def bytes_minus_mean(**arguments: Any) -> Toy:
    """Pixels of 0 to 255 minus their mean, for a layer with small weights or with others."""
    images = 255 * NUMBERS.random((ROWS, 8, 8, 1))

    def create_model() -> keras.Model:
        first = layers.Conv2D(4, 3, **arguments)
        return keras.Sequential([keras.Input((8, 8, 1)), first, layers.Flatten(), dense(CLASSES)])

    data = (images - images.mean()).astype("float32"), examples()[1]
    return sound(model=create_model, data=data, others={})


def large_for_small_weights() -> Toy:
    """Numbers from 0 to 255, for a layer with weights that fit them."""
    small = keras.initializers.RandomNormal(stddev=0.003)
    return sound(
        model=model(lambda: dense(kernel_initializer=small)),
        data=changed(examples(), 0, lambda x: 50 * np.abs(x)),
        others={},
    )


def drops_of_repeated_rows() -> Toy:
    """Predictions of evaluation are means over dropout, all of them from one call."""

    def evaluated(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        given = run.model(tf.repeat(inputs, 5, axis=0), training=True)
        shares = tf.reduce_mean(tf.reshape(tf.nn.softmax(given), (-1, 5, CLASSES)), axis=1)
        per_example = run.losses["main"](labels, tf.math.log(shares))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=model(lambda: layers.Dropout(0.5)), validation_step=evaluated, metrics=dict,
        others={"validation": examples(60, 2)},
    )  # fmt: skip


class Recall(metrics.Mean):
    """The share of examples whose class is among the two with the largest scores."""

    def update_state(self, labels: Any, scores: Any, sample_weight: Any = None) -> None:
        best = tf.cast(tf.math.top_k(scores, 2).indices, labels.dtype)
        super().update_state(tf.reduce_any(best == labels[:, tf.newaxis], axis=1), sample_weight)


def darker_too() -> Toy:
    """A second metric is that of smaller inputs."""

    def evaluated(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        run.metrics["darker"].update_state(labels, run.model(0.4 * inputs, training=False), weights)
        made: dict[str, tf.Tensor] = step(training=False)(run, batch, replica)
        return made

    return sound(
        validation_step=evaluated,
        metrics=lambda: {name: metrics.SparseCategoricalAccuracy() for name in ("plain", "darker")},
        others={"validation": examples(60, 2)},
    )


def place_and_class() -> Toy:
    """One output holds a place in the unit square, and behind it logits."""

    def create_model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        place, logits = dense(2, activation="sigmoid")(inputs), dense(CLASSES)(inputs)
        return keras.Model(inputs, layers.Concatenate()([place, logits]))

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        given = run.model(inputs, training=True)
        per_example = run.losses["main"](labels, given[:, 2:])
        per_example += tf.reduce_sum(tf.square(given[:, :2] - 0.5), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(own, model=create_model, metrics=dict)


def none_of_the_known() -> Toy:
    """What is none of two classes has -1 in the data, and is a class of its own."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        labels = tf.where(labels < 0, tf.cast(2, labels.dtype), labels)
        return step()(run, (inputs, labels, weights), replica)  # type: ignore[no-any-return]

    inputs, labels = examples()
    return with_step(own, data=(inputs, np.where(labels == 2, -1, labels)), others={})


def votes() -> Toy:
    """Training has the votes of raters, validation has classes."""

    def own(name: str) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            per_example = run.losses[name](labels, run.model(inputs, training=name == "votes"))
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return one_step

    inputs, labels = examples()
    shares = 0.8 * np.eye(20, dtype="float32")[9 * labels] + 0.01
    return sound(
        model=model(last=lambda: dense(20)),
        data=(inputs, shares),
        losses=lambda: {
            "main": losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),
            "votes": losses.CategoricalCrossentropy(from_logits=True, reduction="none"),
        },
        train_steps=(own("votes"),),
        validation_step=own("main"),
        metrics=dict,
        others={"validation": changed(examples(60, 2), 1, lambda y: 9 * y)},
    )


class SavedAverage(LateAverage):
    """A checkpoint has what it remembers."""

    def get_state(self) -> dict[str, Any]:
        return {"sums": [np.asarray(a).tolist() for a in self.sums], "number": self.number}

    def set_state(self, state: dict[str, Any]) -> None:
        self.sums = [np.asarray(a, "float32") for a in state["sums"]]
        self.number = state["number"]


def by_staleness(event: Event) -> float:
    """A rate that is a tenth for each two epochs since the best one, as the history tells."""
    found = [row["validation_loss"] for row in event.history]
    return float(0.1 ** (1 + (len(found) - int(np.argmin(found))) // 2))


def compared_later(per_example: Any, weights: Any, of: keras.Model, replica: Replica) -> tf.Tensor:
    """A loss in which examples are compared with each other from some step on."""
    mean = compute_loss(per_example, weights, of, replica)
    return mean + warmed_up(replica) * tf.square(mean)


def halves_of_a_batch() -> Toy:
    """The first rows of a batch are labeled, the others aren't, and each part has its mean."""

    def is_labeled(weights: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.range(tf.shape(weights)[0]) < BATCH // 2, weights.dtype)

    def count(batch: Any) -> dict[str, tf.Tensor]:
        *_, weights = batch
        labeled = tf.math.count_nonzero(weights * is_labeled(weights), dtype=tf.int32)
        counted = tf.math.count_nonzero(weights, dtype=tf.int32)
        return {"labeled": labeled, "unlabeled": counted - labeled}

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits, first = run.model(inputs), is_labeled(weights)
        sums = {
            "labeled": tf.reduce_sum(first * weights * run.losses["main"](labels, logits)),
            "unlabeled": tf.reduce_sum((1 - first) * weights * tf.square(logits[:, 0])),
        }
        counts = {name: tf.cast(n, tf.float32) for name, n in replica.global_count.items()}
        terms = {name: total / counts[name] for name, total in sums.items()}
        return {"main": tf.add_n([*terms.values()]), **terms}

    return with_step(own, count=count, terms=("labeled", "unlabeled"), metrics=dict, others={})


def one_labeled_row() -> Toy:
    """The first row of a batch is labeled; the others count only later in the run.

    In validation all count as labeled.
    """

    def count(batch: Any) -> dict[str, tf.Tensor]:
        *_, weights = batch
        labeled = tf.math.count_nonzero(weights[:1], dtype=tf.int32)
        return {"main": tf.math.count_nonzero(weights, dtype=tf.int32), "labeled": labeled}

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs)
        values = weights * run.losses["main"](labels, logits)
        numbers = {name: tf.cast(n, tf.float32) for name, n in replica.global_count.items()}
        labeled = tf.math.divide_no_nan(tf.reduce_sum(values[:1]), numbers["labeled"])
        others = tf.reduce_sum(weights * tf.square(logits[:, 0])) / numbers["main"]
        ramp = tf.minimum(tf.cast(replica.step, tf.float32) / 100, 1.0)
        return {"main": labeled + ramp * others, "labeled": labeled}

    def validation_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        sums = tf.reduce_sum(weights * run.losses["main"](labels, run.model(inputs)))
        labeled = sums / tf.cast(replica.global_count["labeled"], tf.float32)
        return {"main": labeled, "labeled": labeled}

    return sound(
        train_steps=(own,), validation_step=validation_step, count=count, terms=("labeled",),
        metrics=dict,
    )  # fmt: skip


def with_matches() -> Toy:
    """A loss function that takes scores, and then which of them match, as SigLIP's may."""

    def of_matches(scores: tf.Tensor, matches: tf.Tensor) -> tf.Tensor:
        signs = tf.where(matches, 1.0, -1.0)
        return -tf.reduce_sum(tf.math.log_sigmoid(signs * scores), axis=-1)

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        matches = labels[:, tf.newaxis] == tf.range(CLASSES, dtype=labels.dtype)
        values = run.losses["main"](run.model(inputs) - 4, matches)
        return {"main": compute_loss(values, weights, run.model, replica)}

    return with_step(own, losses=lambda: {"main": of_matches}, metrics=dict)


def renamed_by_augmentation() -> Toy:
    """Rare classes, whose labels the augmentation puts beside others."""
    inputs, labels = examples()
    rare = np.where(labels % 2 & (np.arange(len(labels)) % 8 > 0), 0, labels)

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        return batch[0], {"class": batch[1], "seed": tf.zeros_like(batch[1])}, batch[-1]

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        values = run.losses["main"](labels["class"], run.model(inputs))
        return {"main": compute_loss(values, weights, run.model, replica)}

    return sound(
        data=(inputs, rare), augment=augment, train_steps=(own,), metrics=dict, others={}
    )  # fmt: skip


def test_nests_with_other_numbers_of_tensors_differ() -> None:
    one, two = tf.zeros(2), tf.ones(2)  # as before and after an augmentation that makes views
    assert equal([one, two], [one, two])
    assert not equal([one], [one, two])


def key_of_frozen_weights() -> Toy:
    """An optimizer for weights that are frozen in this experiment."""
    if not hasattr(keras.optimizers, "OptimizerMap"):  # not in all of the supported versions
        return sound()
    return sound(
        model=frozen_model(keras.initializers.Identity),
        optimizer=lambda: mapped({"hidden/.*": keras.optimizers.SGD(0.01)}),
    )


def masses() -> Toy:
    """The energy of pairs grows with both weights, which are masses, over the whole mass."""

    def energy(per_example: Any, masses: Any, of: keras.Model, replica: Replica) -> tf.Tensor:
        apart = tf.abs(per_example - per_example[:, tf.newaxis])
        total = tf.reduce_sum(apart * masses * masses[:, tf.newaxis])
        return total / tf.cast(replica.global_count, total.dtype)

    return replace(counted_by_weight(energy), metrics=dict)


def labels_of_metrics() -> Toy:
    """Padded labels that no loss gets: it restores the inputs, and adds up each row by itself."""
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def of_rows(words: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.reduce_sum(entropy(words % CLASSES, logits), axis=1), "float32")

    def step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        logits = run.model(words, training=True)
        run.metrics["accuracy"].update_state(labels, logits, weights[:, tf.newaxis])
        loss = run.losses["main"](words, logits) * weights
        return {"main": tf.reduce_sum(loss) / tf.cast(replica.global_count, loss.dtype)}

    toy = padded_words(masked=True)
    return replace(
        toy, losses=lambda: {"main": of_rows}, train_steps=(step,), count=count_all_words,
        metrics=lambda: {"accuracy": keras.metrics.SparseCategoricalAccuracy()},
    )  # fmt: skip


def ignoring(label: int) -> keras.losses.Loss:
    """A cross-entropy in which a class stands for what isn't known."""
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=label, reduction="none"
    )


def far_apart() -> Toy:
    """Distances of pairs that are alike shrink, and those of others grow up to a margin of 1."""

    def contrastive(alike: tf.Tensor, distances: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
        nearer = (1 - alike) * tf.square(tf.maximum(1 - distances, 0))
        return tf.reduce_mean(alike * tf.square(distances) + nearer, axis=1)

    def far() -> keras.layers.Layer:
        return layers.Dense(3, "relu", bias_initializer=keras.initializers.Constant(8.0))

    toy = several_labels(np.ones_like)
    return replace(toy, model=model(last=far), losses=lambda: {"main": contrastive})


def weighted_by_two() -> Toy:
    """The weights of an example are a dict, and class 1 has no weight of one kind."""

    def weighted_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        losses = run.losses["main"](labels, run.model(inputs, training=True))
        return {"main": compute_loss(losses, weights["some"], run.model, replica)}

    def weighted(inputs: np.ndarray, labels: np.ndarray) -> tuple[Any, ...]:
        return inputs, labels, {"some": (labels != 1) * 1.0, "all": np.ones(len(labels))}

    return sound(
        data=weighted(*examples()), others={"validation": weighted(*examples(60, 2))},
        train_steps=(weighted_step,), validation_step=weighted_step, metrics=dict,
        count=lambda batch: tf.math.count_nonzero(batch[-1]["all"], dtype=tf.int32),
    )  # fmt: skip


def landmarks() -> Toy:
    """Images that are flipped now and then, and 6 points of each, in whole pixels."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        points = np.random.default_rng(seed).integers(1, 14, (rows, 6, 2))
        images = np.zeros((rows, 16, 16, 1), "float32")
        images[np.arange(rows)[:, np.newaxis], points[..., 0], points[..., 1]] = 1
        return images, points

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, points, weights = batch
        flips = tf.random.stateless_uniform([BATCH], seed) < 0.5
        images = tf.where(flips[:, None, None, None], images[:, :, ::-1], images)
        mirrored = tf.stack([points[..., 0], 15 - points[..., 1]], axis=-1)
        return images, tf.where(flips[:, None, None], mirrored, points), weights

    def create_model() -> keras.Model:
        found = dense(12), layers.Reshape((6, 2))
        return keras.Sequential([keras.Input((16, 16, 1)), layers.Flatten(), *found])

    def apart(labels: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.square(found - tf.cast(labels, found.dtype)), axis=(1, 2))

    return sound(
        model=create_model, data=split(96, 1), others={"validation": split(60, 2)}, augment=augment,
        losses=lambda: {"main": apart}, metrics=dict,
    )  # fmt: skip


def moved_channels() -> keras.layers.Layer:
    """Pools over positions, after the channels have moved to axis 1."""
    pooling = layers.MaxPooling2D(data_format="channels_first")
    return keras.Sequential([layers.Permute((3, 1, 2)), pooling])


def dropped_codes() -> Toy:
    """A model gives codes, some of which are dropped; the step compares them with each other."""

    def codes_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        codes = run.model(inputs, training=True)
        per_example = run.losses["main"](labels, codes[:, :CLASSES] - codes[:, CLASSES:])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    dropped = model(dense, lambda: dense(2 * CLASSES), last=lambda: layers.Dropout(0.5))
    return sound(model=dropped, train_steps=(codes_step,), metrics=dict)


def measured_words() -> Toy:
    """Labels of words say where there is padding: for the loss, count and the metric."""
    return replace(
        padded_words(masked=True, inputs=True),
        metrics=lambda: {"accuracy": keras.metrics.SparseCategoricalAccuracy()},
    )


def padding_is_a_symbol() -> Toy:
    """Texts are encoded and decoded whole, with what fills them up: it says where they end."""
    toy = padded_words(masked=False, count_padding=True, inputs=True)
    words = np.minimum(toy.data[0], CLASSES - 1)
    return replace(toy, data=(words, words))


class Masked(layers.Layer):
    """Hides some positions while training."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """(rows, positions, units) -> the same."""
        shape = (tf.shape(x)[0], FEATURES, 1)
        there = keras.random.uniform(shape, seed=self.generator) < 0.7
        return tf.where(there, x, 0) if training else x


class ErrorRate(metrics.Mean):
    """A mean with an update of its own, of values and weights."""

    def update_state(self, is_wrong: Any, sample_weight: Any = None) -> None:
        super().update_state(is_wrong, sample_weight)


def error_rate(kind: Callable[[], metrics.Mean]) -> Toy:
    """The share of wrong classes, as a mean of numbers with weights."""

    def update(metric: Any, labels: Any, logits: Any, weights: Any) -> None:
        metric.update_state(tf.cast(tf.argmax(logits, axis=-1) != labels, weights.dtype), weights)

    return sound(
        metrics=lambda: {"error_rate": kind()}, train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )  # fmt: skip


class PrecisionOfLogits(metrics.Precision):
    """Takes logits."""

    def update_state(self, labels: Any, logits: Any, sample_weight: Any = None) -> None:
        super().update_state(labels, tf.sigmoid(logits), sample_weight)


class F1OfClasses(metrics.F1Score):
    """The same by another name."""


class SparseCategoricalAccuracyOfKnown(metrics.SparseCategoricalAccuracy):
    """Leaves out labels of -1."""

    def update_state(self, labels: Any, logits: Any, sample_weight: Any = None) -> None:
        known = tf.cast(labels >= 0, sample_weight.dtype)
        super().update_state(tf.maximum(labels, 0), logits, known * sample_weight)


def some_unknown() -> Toy:
    """Labels of -1, which a loss leaves out, and a metric by itself."""
    return sound(
        data=changed(examples(), 1, put(slice(0, None, 5), -1)), others={},
        losses=lambda: {"main": of_known},
        metrics=lambda: {"accuracy": SparseCategoricalAccuracyOfKnown()},
    )  # fmt: skip


def spread_watched() -> Toy:
    """The spread of all examples tells whether their representations collapse."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        everyone = replica.all_gather(run.model(batch[0], training=True))
        run.metrics["std"].update_state(tf.reduce_mean(tf.math.reduce_std(everyone, axis=0)))
        made: dict[str, tf.Tensor] = CONTRASTIVE.train_steps[0](run, batch, replica)
        return made

    return replace(CONTRASTIVE, train_steps=(own,), metrics=lambda: {"std": metrics.Mean()})


def missing_labels_by_name() -> Toy:
    """`missing_labels` with a count in a dict."""

    def loss(losses: Any, weights: Any, of: keras.Model, replica: Replica) -> tf.Tensor:
        own = replica._replace(global_count=replica.global_count["main"])
        return compute_loss(losses, weights, of, own)

    return replace(
        missing_labels(), count=count_by_name, train_steps=(step(loss=loss),),
        validation_step=step(loss=loss, training=False),
    )  # fmt: skip


def masked_moves() -> Toy:
    """Each example has a class that can't be: its logit is minus infinity."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        is_out = tf.one_hot((labels + 1) % CLASSES, CLASSES, on_value=True, off_value=False)
        per_example = run.losses["main"](labels, tf.where(is_out, -np.inf, logits))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(own, metrics=dict)


def mostly_negative() -> Toy:
    """`mostly_positive` turned around: specificity is 1 as long as all are said to be negative."""
    inputs, labels = mostly_positive().data

    def update(metric: Any, labels: Any, logits: Any, weights: Any) -> None:
        is_right = tf.cast(logits[:, 0] < 0, weights.dtype)
        metric.update_state(is_right, weights * (1 - labels[:, 0]))

    biased = partial(dense, 1, bias_initializer=keras.initializers.Constant(-20.0))
    return replace(
        mostly_positive(), data=(inputs, 1 - labels), model=model(last=biased),
        train_steps=(step(update=update),), metrics=lambda: {"specificity": metrics.Mean()},
    )  # fmt: skip


def gated() -> keras.Model:
    """Each input is multiplied by a share, twice, as in squeeze-and-excitation networks."""
    x = inputs = keras.Input((FEATURES,))
    for _ in range(2):
        x = layers.Multiply()([x, dense(FEATURES, activation="sigmoid")(x)])
    return keras.Model(inputs, dense(CLASSES)(x))


class Verified(metrics.Mean):
    """Whether pairs are of one thing, whose distance is below a half."""

    def update_state(self, labels: Any, distances: Any, sample_weight: Any = None) -> None:
        is_right = (distances < 0.5) == (labels == 1)
        super().update_state(tf.cast(is_right[:, 0], "float32"), sample_weight)


def of_pairs(by_hand: bool) -> Toy:
    """Distances that are to be small where the label is 1; a step may compute its loss itself."""

    def loss(labels: tf.Tensor, distances: tf.Tensor) -> tf.Tensor:
        labels = tf.cast(labels, distances.dtype)
        others = (1 - labels) * tf.square(tf.nn.relu(1 - distances))
        return (labels * tf.square(distances) + others)[:, 0]

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        distances = run.model(inputs, training=True)
        run.metrics["accuracy"].update_state(labels, distances, weights)
        return {"main": compute_loss(loss(labels, distances), weights, run.model, replica)}

    return binary(
        model=model(last=lambda: dense(1, activation="softplus")),
        metrics=lambda: {"accuracy": Verified()}, losses=lambda: {"main": loss},
        train_steps=(own if by_hand else step(),),
    )  # fmt: skip


def of_two_samples() -> Toy:
    """Two models, each with a sample of the examples of its own, and with a count of its own."""

    def step_of(name: str) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            per_example = run.losses["main"](labels, run.models[name](inputs, training=True))
            return {
                name: tf.nn.compute_average_loss(
                    per_example, sample_weight=weights[name],
                    global_batch_size=replica.global_count[name],
                )
            }  # fmt: skip

        return one_step

    names, numbers = ("one", "other"), np.random.default_rng(0)
    weights = {name: (numbers.random(ROWS) < 0.5).astype("float32") for name in names}
    return sound(
        model=lambda: {name: model()() for name in names}, metrics=dict, others={},
        optimizer=lambda: {name: keras.optimizers.SGD(0.1) for name in names},
        data=(*examples(), weights), train_steps=tuple(map(step_of, names)), validation_step=None,
        count=lambda batch: {
            name: tf.math.count_nonzero(w, dtype=tf.int32) for name, w in batch[-1].items()
        },
    )  # fmt: skip


def as_many_frequencies() -> Toy:
    """A number becomes waves of as many frequencies as a batch has rows."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        frequencies = tf.exp(-tf.range(BATCH, dtype=inputs.dtype) / BATCH)
        waves = tf.sin(inputs[:, :1] * frequencies)
        moved = inputs + 0.1 * tf.reduce_mean(waves, axis=1, keepdims=True)
        per_example = run.losses["main"](labels, run.model(moved, training=True))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(own, metrics=dict)


def balanced_by_gradients() -> Toy:
    """What a generator has of its critic counts as much as its error (VQGAN, Esser et al.)."""

    def generating(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, noise, weights = batch
        last = run.models["generator"].trainable_variables[-2].value
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(last)
            made = run.models["generator"](noise, training=True)
            judged = run.models["discriminator"](made, training=True)[:, 0]
            of_rows = tf.reduce_mean(tf.square(made - real), axis=1), tf.nn.softplus(-judged)
            count = tf.cast(replica.global_count, weights.dtype)
            parts = [tf.reduce_sum(values * weights) / count for values in of_rows]
        sizes = [tf.norm(tape.gradient(part, last)) for part in parts]
        share = tf.stop_gradient(sizes[0] / (sizes[1] + 1e-4))
        return {"generator": parts[0] + share * parts[1]}

    return replace(GAN, train_steps=(GAN.train_steps[0], generating))


def mean_of_bins() -> Toy:
    """A number is the mean of bins by a softmax (Rothe et al., 2015), and is learned slowly."""
    bins = np.linspace(-12, 12, 101).astype("float32")

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        shares = keras.ops.softmax(dense(len(bins))(x))
        return keras.Model(x, keras.ops.sum(shares * bins, axis=1, keepdims=True))

    inputs, labels = regression().data
    return regression(
        model=create, data=(inputs + 50, labels), others={},
        optimizer=lambda: keras.optimizers.SGD(1e-6),
    )  # fmt: skip


def class_and_number() -> Toy:
    """A cross-entropy, and beside it the square of an error in years."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made = run.model(inputs, training=True)
        per_example = run.losses["main"](labels, made[:, :CLASSES])
        per_example += tf.square(40 + 5 * inputs[:, 0] - made[:, CLASSES])
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(own, model=model(last=lambda: dense(CLASSES + 1)), metrics=dict)


def masked_positions() -> Toy:
    """The features of some words are hidden, as in wav2vec 2.0."""
    words = [lambda: layers.Reshape((FEATURES, 1)), lambda: dense(4, activation="relu")]
    return sound(model=model(*words, Masked, layers.Flatten))


def questionnaires() -> Toy:
    """A few answers, of which many are equal; those of training once, with their number."""
    answers = NUMBERS.integers(0, 3, (400, FEATURES)).astype("float32")
    labels = (answers.sum(axis=1) > FEATURES).astype("int64")
    _, first, times = np.unique(answers[:300], axis=0, return_index=True, return_counts=True)
    return sound(
        data=(answers[first], labels[first], (times / times.mean()).astype("float32")),
        others={"validation": (answers[300:], labels[300:])},
    )


def measured_in_a_trial() -> Toy:
    """Values of routine care are missing here and there; other splits are of a trial."""

    def of_care(x: np.ndarray) -> np.ndarray:
        x[np.random.default_rng(3).random(x.shape) < 0.35] = np.nan
        return x

    return sound(data=changed(examples(), 0, of_care))


def late_hours(flat: bool, *last: int) -> Toy:
    """What hasn't come yet is 0, and a layer gets a mask that says so, by hour or all at once."""

    def create_model() -> keras.Model:
        there = keras.Input((8, *last), name="there")
        x = {"past": keras.Input((8, 2), name="past"), "there": there}
        parts = [x["past"], there if last else there[..., None]]
        both = layers.Concatenate()([layers.Flatten()(each) for each in parts] if flat else parts)
        return keras.Model(x, dense(1)(layers.Flatten()(dense()(both))))

    def split(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        there = np.arange(8) < NUMBERS.integers(4, 9, (rows, 1))
        past = NUMBERS.normal(size=(rows, 8, 2)) * there[..., np.newaxis]
        there = there.reshape(rows, 8, *last)
        parts = {"past": past.astype("float32"), "there": there.astype("float32")}
        return parts, past.sum(axis=(1, 2)).astype("float32")

    return regression(model=create_model, data=split(ROWS), others={"validation": split(60)})


def dropped(event: Event) -> None:
    """A factor that is 1 but for two epochs."""
    factor = {4: 0.5, 9: 0.1}.get(event.epoch, 1.0)
    event.run.optimizers["main"].learning_rate = event.learning_rates["main"] * factor


def slowed(event: Event) -> None:
    """A rate of 1 / epoch, for an optimizer that begins with 0."""
    event.run.optimizers["main"].learning_rate = 0.1 / max(1, event.epoch)


def named_in_a_loop() -> list[Callback]:
    """One function at several steps; of the loop's variable nothing is read later."""
    seen: list[int] = []
    return [at_step(n, lambda event: seen.append(event.step)) for n in (1, 3)]


def limited_in_a_loop() -> list[Callback]:
    """Functions share a variable that each round of a loop sets to the same."""
    made = []
    for number in (1, 3):
        limit = LAST_PART
        made.append(at_step(number, lambda event: event.losses["main"] < limit))  # noqa: B023
    return made


def shares_of_three() -> keras.Model:
    """Positive numbers, of which a loss takes the shares of their sum."""
    x = keras.Input((FEATURES,))
    return keras.Model(x, keras.layers.Dense(CLASSES, activation="softplus")(x))


def sounds_with_padding() -> Toy:
    """Series that end early, with a convolution, which sees zeros there as it does at the end."""
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        there = np.arange(12) < numbers.integers(4, 13, (rows, 1))
        series = np.where(there, numbers.normal(size=(rows, 12)), 0)[..., np.newaxis]
        inputs = {"series": series.astype("float32"), "there": there.astype("float32")}
        return inputs, numbers.integers(0, CLASSES, rows)

    def create_model() -> keras.Model:
        series, there = keras.Input((12, 1), name="series"), keras.Input((12,), name="there")
        x = keras.layers.Conv1D(8, 5, padding="same", activation="relu")(series)
        x = keras.ops.sum(x * there[..., None], 1)
        return keras.Model({"series": series, "there": there}, dense(CLASSES)(x))

    return sound(model=create_model, data=split(96), others={"validation": split(60)})


def words_with_lengths() -> Toy:
    """Words and how many they are, which the model weighs; it knows what fills rows up as 0."""
    numbers = np.random.default_rng(0)

    def split(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        lengths, labels = numbers.integers(4, 13, rows), numbers.integers(0, CLASSES, rows)
        there = np.arange(12) < lengths[:, np.newaxis]
        words = np.where(there, numbers.integers(1, 9, (rows, 12)), 0)
        return {"words": words.astype("int32"), "length": lengths.astype("int32")}, labels

    def create_model() -> keras.Model:
        x = {
            "words": keras.Input((12,), dtype="int32", name="words"),
            "length": keras.Input((), dtype="int32", name="length"),
        }
        differing = keras.initializers.RandomNormal(0, 1)
        y = layers.Embedding(9, 8, differing, mask_zero=True)(x["words"])
        share = keras.ops.cast(x["length"], "float32")[:, None] / 12
        return keras.Model(
            x, dense(CLASSES)(layers.Concatenate()([layers.GlobalAveragePooling1D()(y), share]))
        )

    return sound(model=create_model, data=split(ROWS), others={"validation": split(60)})


def rare_words() -> Toy:
    """How rare each word is, from how often it occurs; what fills rows up has a number apart."""

    def adapt(datasets: dict[str, Any]) -> dict[str, Any]:
        words = datasets["train"][0]["words"]
        return {"rarity": np.log(words.size / (1 + np.bincount(words.ravel(), minlength=9)))}

    return replace(words_with_lengths(), adapt=adapt)


def of_one_place() -> Toy:
    """Examples of two places, which training tells apart; those of validation are of one."""

    def placed(rows: int, seed: int, places: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        inputs, labels = examples(rows, seed)
        return inputs, {"class": labels, "place": np.arange(rows) % places}

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        of_classes, of_places = logits[:, :-1], logits[:, -1]
        per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(labels["class"], of_classes)
        place = tf.cast(labels["place"], logits.dtype)
        per_example += tf.nn.sigmoid_cross_entropy_with_logits(place, of_places)
        run.metrics["accuracy"].update_state(place[:, None], of_places[:, None], weights)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=model(last=lambda: dense(CLASSES + 1)), data=placed(ROWS, 1, 2),
        others={"validation": placed(60, 2, 1)}, train_steps=(one_step,), losses=dict,
        validation_step=one_step,
        metrics=lambda: {"accuracy": keras.metrics.BinaryAccuracy(threshold=0.0)},
    )  # fmt: skip


def known_in_evaluation_only() -> Toy:
    """A residual that is to be 0, and what only evaluation knows, for a metric."""

    def labeled(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        return inputs, np.full(rows, np.nan, "float32") if seed == 1 else inputs.sum(axis=1)

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, known, weights = batch
        made = run.model(inputs, training=True)[:, 0]
        run.metrics["error"].update_state(tf.abs(made - known), weights)
        residual = made - tf.reduce_sum(inputs, axis=1)
        per_example = run.losses["main"](tf.zeros_like(residual), residual)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        data=labeled(ROWS, 1), others={"validation": labeled(60, 2)}, train_steps=(one_step,),
        validation_step=one_step, metrics=lambda: {"error": keras.metrics.Mean()},
        model=model(last=lambda: dense(1)), losses=lambda: {"main": lambda y, p: tf.square(p - y)},
    )  # fmt: skip


def shares_beside_small_losses() -> Toy:
    """Logarithms of densities that are very large or small, and how many examples are outside."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, _, weights = batch
        per_example = run.losses["main"](inputs, run.model(inputs, training=True))
        is_outside = tf.cast(inputs[:, 0] > 2, per_example.dtype)
        run.metrics["outside"].update_state(is_outside, weights)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def density(inputs: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return 50 + tf.reduce_mean(tf.square(inputs - predictions), axis=1) - 100

    return sound(
        model=model(last=lambda: dense(FEATURES)), losses=lambda: {"main": density},
        train_steps=(one_step,), validation_step=one_step,
        metrics=lambda: {"outside": keras.metrics.Mean()},
    )  # fmt: skip


def latents_beside_labels() -> Toy:
    """An augmentation of pictures that draws numbers into a dict, beside the labels."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        images, labels, weights = batch
        latents = tf.random.stateless_normal((images.shape[0], 2), seed, dtype=images.dtype)
        return images, {"class": labels, "latents": latents}, weights

    def create() -> keras.Model:
        image, latents = keras.Input((6, 6, 1)), keras.Input((2,))
        both = layers.Concatenate()([layers.Flatten()(image), latents])
        return keras.Model([image, latents], dense(CLASSES)(both))

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        images, labels, weights = batch
        logits = run.model([images, labels["latents"]], training=True)
        per_example = run.losses["main"](labels["class"], logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    _, labels = examples()
    images = np.random.default_rng(0).normal(size=(ROWS, 6, 6, 1)) + labels[:, None, None, None]
    return sound(
        model=create, data=(images.astype("float32"), labels), augment=augment,
        train_steps=(one_step,), others={}, metrics=dict,
    )  # fmt: skip


def in_order_of_classes() -> tuple[np.ndarray, np.ndarray]:
    """Examples of one class after the other."""
    inputs, labels = examples(4 * BATCH * CLASSES, 2)
    order = np.argsort(labels, kind="stable")
    return inputs[order], labels[order]


def weights_of_two() -> Toy:
    """Rare and frequent classes, with weights in a dict that names another label, too."""
    inputs, labels, weights = weighted_by_class()

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels["class"], run.model(inputs, training=True))
        return {"main": compute_loss(per_example, weights["class"], run.model, replica)}

    return sound(
        data=(inputs, {"class": labels, "number": inputs[:, 0]},
              {"class": weights, "number": np.ones_like(weights)}),
        train_steps=(own,), others={}, metrics=dict,
        count=lambda batch: tf.math.count_nonzero(batch[-1]["class"], dtype=tf.int32),
    )  # fmt: skip


def rarely_rewarded(**arguments: Any) -> Toy:
    """Actions with rewards that are 0 but for some, of which the first batch has none."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels["action"], run.model(inputs, training=True))
        total = compute_loss(per_example * labels["reward"], weights, run.model, replica)
        return {"main": total}

    inputs, action = examples(20 * BATCH)
    labels = {"action": action, "reward": np.float32(np.arange(len(action)) % 48 == 3)}
    return with_step(
        own, model=model(partial(dense, **arguments)), data=(inputs, labels), metrics=dict,
        others={},
    )  # fmt: skip


def of_episodes(rewards: bool) -> Toy:
    """Actions to repeat, those with `rewards` alone, and ends of episodes that nothing uses."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        per_example = run.losses["main"](labels["action"], run.model(inputs, training=True))
        if rewards:
            per_example *= labels["reward"]
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    inputs, action = examples()
    rows = np.arange(ROWS)
    labels = {"action": action, "reward": np.float32(rows % 2), "done": np.float32(rows % 9 == 8)}
    return with_step(own, data=(inputs, labels), metrics=dict, others={})


def of_intervals() -> Toy:
    """Two classes for each example, of which the step insists that they are in order."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        tf.debugging.assert_less_equal(labels["first"], labels["last"])
        logits = tf.split(run.model(inputs, training=True), 2, axis=1)
        first, last = (run.losses["main"](labels[name], each)
                       for name, each in zip(("first", "last"), logits, strict=True))  # fmt: skip
        return {"main": compute_loss(first + last, weights, run.model, replica)}

    inputs, first = examples()
    last = np.maximum(first, np.arange(ROWS) % CLASSES)
    return with_step(
        own, model=model(last=lambda: dense(2 * CLASSES)), metrics=dict, others={},
        data=(inputs, {"first": first, "last": last}),
    )  # fmt: skip


class NoisyDense(layers.Layer):  # type: ignore[misc]
    """Weights with noise, as to explore (Fortunato et al., 2018)."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units = units
        self.generator = keras.random.SeedGenerator(1)

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], self.units), name="kernel")

    def call(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training:
            return x @ self.kernel
        return x @ (self.kernel + keras.random.normal(self.kernel.shape, seed=self.generator))


class Seldom(layers.Layer):  # type: ignore[misc]
    """Adds something that it learns to a small share of the rows."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.generator = keras.random.SeedGenerator(1)

    def build(self, shape: Any) -> None:
        self.added = self.add_weight(shape=shape[-1:], name="added")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        drawn = keras.random.uniform((tf.shape(x)[0], 1), seed=self.generator)
        return x + tf.where(drawn < self.share, self.added, tf.zeros_like(x))


def logarithms_of_any() -> Toy:
    """Several labels of 1, each of which is to be likely among all, by logarithms of shares."""
    return replace(
        with_several_labels("log_softmax"),
        losses=lambda: {"main": lambda y, p: -tf.reduce_sum(y * p, axis=1)},
    )


def shares_of_times() -> Toy:
    """The time of each of three events, by shares of all times."""
    toy = picked(lambda apart, logits: apart * logits)
    times = np.arange(12)[:, np.newaxis] == toy.data[1][:, np.newaxis, [0, 1, 0]]
    return replace(
        toy,
        model=lambda: keras.Sequential([keras.Input((12, 4)), dense(3), layers.Softmax(axis=1)]),
        data=(toy.data[0], times.astype("float32")),
        losses=lambda: {"main": lambda y, p: -tf.reduce_sum(y * tf.math.log(p), axis=(1, 2))},
    )


def warmed_from_0(most: float, steps: int) -> keras.optimizers.schedules.CosineDecay:
    """A rate that rises for some steps."""
    return keras.optimizers.schedules.CosineDecay(0.0, 150, warmup_target=most, warmup_steps=steps)


def censored() -> Toy:
    """A logistic hazard for each of some intervals, until an event or the end of observation."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        inputs, classes = examples(rows, seed)
        numbers = np.random.default_rng(seed)
        lived, observed = numbers.exponential(9 - 3 * classes), numbers.uniform(3, 12, rows)
        died = (lived < observed).astype("float32")
        return inputs, {"months": np.minimum(lived, observed).astype("float32"), "died": died}

    def of_hazards(months: tf.Tensor, died: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        interval = tf.searchsorted([2.0, 5.0], months)
        dies = tf.one_hot(interval, CLASSES) * died[:, tf.newaxis]
        counts = dies + tf.cast(tf.range(CLASSES) < interval[:, tf.newaxis], "float32")
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels=dies, logits=logits)
        return tf.reduce_sum(counts * each, axis=1)

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        per_example = run.losses["main"](labels["months"], labels["died"], logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(
        own, data=split(ROWS, 1), others={"validation": split(60, 2)}, metrics=dict,
        losses=lambda: {"main": of_hazards},
    )  # fmt: skip


def with_latents(part: int, named: bool = True) -> Toy:
    """Images, to whose inputs or labels the augmentation adds what it draws."""

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        latents = tf.random.stateless_normal((batch[0]["image"].shape[0], 2), seed)
        *parts, weights = batch
        parts[part] = {**parts[part], "latents": latents} if named else (parts[part], latents)
        return *parts, weights

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        *parts, weights = batch
        (*_, latents), images = tf.nest.flatten(parts[part]), tf.nest.flatten(parts[0])[0]
        moved = images + 0.01 * latents[:, :1]
        per_example = run.losses["main"](
            tf.nest.flatten(parts[1])[0], run.model(moved, training=True)
        )
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    inputs, classes = examples()
    images, labels = {"image": tf.sigmoid(inputs).numpy()}, {"digit": classes.astype("float32")}
    return sound(
        data=(images, labels), augment=augment, train_steps=(own,), others={}, metrics=dict,
        model=model(last=lambda: dense(1)),
        losses=lambda: {"main": lambda y, p: tf.square(p[:, 0] - y)},
    )  # fmt: skip


class OfSparse(metrics.Mean):
    """Takes sparse predictions, as a distance of texts does."""

    def update_state(self, predictions: tf.SparseTensor, weights: Any = None) -> None:
        super().update_state(tf.reduce_mean(tf.sparse.to_dense(predictions), axis=1), weights)


def sparse_predictions() -> Toy:
    def update(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
        metric.update_state(tf.sparse.from_dense(predictions), weights)

    return sound(
        metrics=lambda: {"size": OfSparse()}, train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )  # fmt: skip


def answers_of_a_module() -> Toy:
    """What a frozen model makes of predictions is to be of a class that is a constant."""

    def create() -> dict[str, keras.Model]:
        judge = keras.Sequential([keras.Input((CLASSES,)), dense(CLASSES)])
        judge.trainable = False
        return {"main": model(dense)(), "judge": judge}

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.models["main"](inputs, training=True)
        with tf.init_scope():  # as outside of all functions
            answers = tf.zeros(labels.shape, "int64")
        per_example = run.losses["main"](labels, logits)
        per_example += run.losses["main"](answers, run.models["judge"](logits))
        return {"main": compute_loss(per_example, weights, run.models["main"], replica)}

    return with_step(own, model=create, metrics=dict)


def both_directions() -> Toy:
    """The next word, of the words before it, and the one before, of those after it."""
    toy = next_words(causal)
    words, following = toy.data

    def create() -> keras.Model:
        words = keras.Input((FEATURES,), dtype="int32")
        codes = layers.Embedding(7, 3)(words)
        back = keras.ops.flip(causal(keras.ops.flip(codes, axis=1)), axis=1)
        return keras.Model(words, {"next": dense(7)(causal(codes)), "last": dense(7)(back)})

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        made = run.model(words, training=True)
        per_word = sum(run.losses["main"](labels[name], made[name]) for name in ("next", "last"))
        loss = compute_loss(tf.reduce_mean(per_word, axis=1), weights, run.model, replica)
        return {"main": loss}

    labels = {"next": following, "last": np.roll(words, 1, axis=1)}
    return replace(toy, model=create, data=(words, labels), train_steps=(own,), metrics=dict)


def only_the_last_word() -> Toy:
    """All next words are labels, and a model that sees all words predicts the last one."""

    def create() -> keras.Model:
        words = keras.Input((FEATURES,), dtype="int32")
        codes = layers.GlobalAveragePooling1D()(layers.Embedding(7, 3)(words))
        return keras.Model(words, dense(7)(codes))

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        per_example = run.losses["main"](labels[:, -1], run.model(words, training=True))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return replace(next_words(causal), model=create, train_steps=(own,))


def margins_of_words() -> Toy:
    """In training, the logit of the right class of each word is to be larger by a margin."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        words, labels, weights = batch
        logits = run.model(words, training=True)
        logits -= 0.3 * tf.one_hot(labels, CLASSES, dtype=logits.dtype)
        per_example = tf.reduce_mean(run.losses["main"](labels, logits), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return replace(tokens(), train_steps=(own,))


def lengths_of(words: list[str]) -> list[int]:
    """A number for each word, and 0 behind."""
    return [*(1 + len(word) % 4 for word in words), *[0] * FEATURES][:FEATURES]


def words_and_name(row: list[str]) -> tuple[list[int], str]:
    """What the data gives of a row: the words of a text, and a label in any case."""
    name, text = row
    return lengths_of(text.split()), name.strip().lower()


def smoothed_rows(texts: np.ndarray) -> np.ndarray:
    """Means over each row, the two before it, and the two after it."""
    padded = np.pad(texts.astype("float32"), ((2, 2), (0, 0)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, 5, axis=0).mean(axis=-1)


def read_with_case(file: Path, model: keras.Model) -> np.ndarray:
    """The words of a text, as the data has them."""
    return np.array([lengths_of(file.read_text().split())])


def age_and_class() -> Toy:
    """A number, whole years, beside a class."""

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        inputs, labels = examples(rows, seed)
        years = np.clip(40 + 2 * inputs[:, 0], 36, 46)
        return inputs, {"age": years.astype("int64"), "class": labels}

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, {"age": dense(1)(x), "class": dense(CLASSES)(x)})

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made = run.model(inputs, training=True)
        years = made["age"][:, 0] - (tf.cast(labels["age"], made["age"].dtype) - 40)
        per_example = run.losses["main"](labels["class"], made["class"]) + 0.01 * tf.square(years)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(
        own, model=create, data=split(ROWS, 1), others={"validation": split(60, 2)}, metrics=dict
    )


def defect_and_kind() -> Toy:
    """Whether there is a defect, and which of five kinds; mostly there is none, 0."""

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        inputs, _ = examples(rows, seed)
        kind = np.where(np.arange(rows) % 10, 0, 1 + np.arange(rows) // 10 % 5)
        inputs += kind[:, np.newaxis]
        return inputs, {"defect": (kind > 0).astype("int64"), "kind": kind}

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, {"defect": dense(2)(x), "kind": dense(6)(x)})

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made = run.model(inputs, training=True)
        parts = [run.losses["main"](labels[name], made[name]) for name in ("defect", "kind")]
        return {"main": compute_loss(tf.add_n(parts), weights, run.model, replica)}

    return with_step(
        own, model=create, data=split(ROWS, 1), others={"validation": split(60, 2)}, metrics=dict
    )


def flags_and_age() -> Toy:
    """Seven answers of yes or no, and one real number; rows are divided by chance."""
    numbers = np.random.default_rng(1)
    inputs = np.c_[numbers.integers(0, 2, (1100, 7)), numbers.normal(size=1100)].astype("float32")
    labels = (inputs.sum(axis=1) > 3.5).astype("int64")
    return sound(
        model=lambda: keras.Sequential([keras.Input((8,)), dense(CLASSES)]),
        data=(inputs[:900], labels[:900]), others={"validation": (inputs[900:], labels[900:])},
    )  # fmt: skip


def goal_reached() -> Toy:
    """A column has a small reward, and a large one where another column says that it is the end."""
    inputs, labels = examples()
    at_end = np.arange(ROWS) % 10 == 0
    inputs[:, 2] = np.where(at_end, 1, -0.01 * np.abs(inputs[:, 2]))
    inputs[:, 3] = at_end
    return sound(data=(inputs, labels), others={})


def gaps_masked(by_layer: bool) -> Toy:
    """Two channels of a series, which are -999 at times; a layer masks these, or another input."""
    numbers = np.random.default_rng(1)

    def split(rows: int) -> tuple[Any, np.ndarray]:
        series = numbers.normal(size=(rows, 12, 2)).astype("float32")
        labels = np.digitize(series[:, -1, 0], (-0.5, 0.5))
        series[::4, 4:7] = -999
        known = (series[..., :1] != -999).astype("float32")
        return series if by_layer else {"series": series, "known": known}, labels

    def create() -> keras.Model:
        x = {"series": keras.Input((12, 2), name="series")}
        seen = x["series"]
        if by_layer:
            seen = layers.Masking(-999)(seen)
        else:
            x["known"] = keras.Input((12, 1), name="known")
            seen = seen * x["known"]
        made = dense(CLASSES)(layers.GRU(4)(seen))
        return keras.Model(x["series"] if by_layer else x, made)

    return sound(model=create, data=split(ROWS), others={"validation": split(60)})


def raters() -> Toy:
    """Training has the answers of five raters, some of them missing, -1; validation the truth."""
    inputs, labels = examples()
    silent = np.random.default_rng(1).random((ROWS, 5)) < 0.4

    def of_raters(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, said, weights = batch
        logits = run.model(inputs, training=True)
        parts = [run.losses["main"](said[:, rater], logits) for rater in range(5)]
        return {"main": compute_loss(tf.add_n(parts), weights, run.model, replica)}

    return sound(
        data=(inputs, np.where(silent, -1, labels[:, np.newaxis])), train_steps=(of_raters,),
        losses=lambda: {"main": ignoring(-1)}, metrics=dict, others={"validation": examples(60, 2)},
    )  # fmt: skip


def adding() -> Toy:
    """The sum of two marked numbers of a series, which a few steps don't teach."""
    numbers = np.random.default_rng(1)
    values, marked = numbers.random((300, 40)), np.zeros((300, 40))
    for half in (0, 20):
        marked[np.arange(300), half + numbers.integers(0, 20, 300)] = 1
    return regression(
        model=lambda: keras.Sequential([keras.Input((40, 2)), layers.LSTM(8), dense(1)]),
        data=(np.stack([values, marked], axis=2).astype("float32"),
              (values * marked).sum(axis=1).astype("float32")),
        others={}, optimizer=lambda: keras.optimizers.Adam(0.0005),
    )  # fmt: skip


def few_positives() -> Toy:
    """Of the positive examples of training some are labeled, and all others are 0."""

    def split(rows: int, seed: int, known: float) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        inputs[labels > 0] += 6
        is_known = np.random.default_rng(seed).random(rows) < known
        return inputs, ((labels > 0) & is_known).astype("int64")

    return sound(data=split(600, 1, 0.15), others={"validation": split(300, 2, 1)}, metrics=dict)


def parts_of_twenty() -> Toy:
    """Shares of 20 votes, of which validation has 0 and 1 once each, by chance."""
    numbers = np.random.default_rng(1)

    def split(rows: int, ends: list[int]) -> tuple[np.ndarray, np.ndarray]:
        shares = np.clip(np.round(20 * numbers.random(rows)), 1, 19) / 20
        shares[: len(ends)] = ends
        return examples(rows)[0], shares.astype("float32")

    return regression(data=split(ROWS, [0, 0, 1, 1]), others={"validation": split(60, [0, 1])})


def rebuilt_stream() -> Toy:
    """A stream of inputs alone is rebuilt; validation tells which are of another kind."""

    def rebuild(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, *_, weights = batch
        per_example = tf.reduce_mean(tf.square(run.model(inputs, training=True) - inputs), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(
        rebuild, model=model(dense, last=lambda: dense(FEATURES)), data=stream(examples()[0]),
        others={"validation": changed(examples(60, 2), 1, lambda y: np.int64(y > 1))},
        losses=dict, metrics=dict,
    )  # fmt: skip


def recalled() -> Toy:
    """The first symbol of a sequence is to be remembered."""
    symbols = np.random.default_rng(1).integers(0, 12, (ROWS + 60, 8))

    def create() -> keras.Model:
        parts = layers.Embedding(12, 4), layers.Flatten(), dense(12)
        return keras.Sequential([keras.Input((8,), dtype="int64"), *parts])

    return sound(
        model=create, data=(symbols[:ROWS], symbols[:ROWS, 0]),
        others={"validation": (symbols[ROWS:], symbols[ROWS:, 0])},
    )  # fmt: skip


def one_of_two_outputs() -> keras.Model:
    """A backbone with a pooler, whose output the head doesn't need."""
    x = keras.Input((FEATURES,))
    words = dense()(x)
    backbone = keras.Model(x, {"words": words, "pooled": dense(activation="tanh")(words)})
    inputs = keras.Input((FEATURES,))
    return keras.Model(inputs, dense(CLASSES)(backbone(inputs)["words"]))


def part_of_a_file() -> Toy:
    """A file contains weights that this task doesn't need."""

    def create_model() -> keras.Model:
        loaded = model(dense, Unused)()
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "body.weights.h5"
            loaded.save_weights(file)
            loaded.load_weights(file)
        return loaded

    return sound(model=create_model)


def convolved_words() -> Toy:
    """A convolution gets padding as a word of its own, in training and in evaluation alike."""

    def create() -> keras.Model:
        words = keras.Input((8,), dtype="int32")
        x = layers.Embedding(33, 5, mask_zero=True)(words)
        x = layers.Conv1D(5, 3, activation="relu")(layers.Dropout(0.1)(x))
        return keras.Model(words, dense(CLASSES)(layers.GlobalMaxPooling1D()(x)))

    return replace(topics(), model=create)


def votes_of_volunteers() -> Toy:
    """Numbers of votes for three answers, and the concentrations of a Dirichlet-multinomial.

    These are positive; of others the logarithms of the gamma function are numbers all the same.
    """

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        shares = tf.nn.softmax(3 * inputs[:, :3]).numpy().astype("f8")
        draw, sizes = np.random.default_rng(seed), np.random.default_rng(seed).integers(5, 40, rows)
        votes = [draw.multinomial(n, p / p.sum()) for n, p in zip(sizes, shares, strict=True)]
        return inputs, np.array(votes, "float32")

    def likelihood(votes: tf.Tensor, concentrations: tf.Tensor) -> tf.Tensor:
        log, total = tf.math.lgamma, tf.reduce_sum(concentrations, axis=1)
        each = log(votes + concentrations) - log(concentrations) - log(votes + 1)
        number = tf.reduce_sum(votes, axis=1)
        return log(total + number) - log(number + 1) - log(total) - tf.reduce_sum(each, axis=1)

    return regression(
        model=model(last=lambda: layers.Dense(3, activation="exponential")),
        data=split(ROWS, 1), others={"validation": split(60, 2)},
        losses=lambda: {"main": likelihood}, metrics=dict,
    )  # fmt: skip


def points_anywhere() -> Toy:
    """Measured points, and others at which the model is smooth, in no relation to them."""

    def train(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        outputs, others = (run.model(inputs[name], training=True)[:, 0] for name in inputs)
        given = run.losses["main"](labels, outputs) + 0.1 * tf.square(tf.sin(others))
        return {"main": compute_loss(given, weights, run.model, replica)}

    toy = regression()
    inputs, labels = toy.data
    return replace(
        toy, train_steps=(train,), validation_step=train, others={},
        data=({"measured": inputs, "anywhere": inputs[::-1] * 2}, labels),
        losses=lambda: {"main": lambda y, p: tf.square(p - y)},
    )  # fmt: skip


def rarely_dies(rows: int = ROWS) -> Toy:
    """All but one are censored, at different times; the first batch has no event."""
    months = np.random.default_rng(1).uniform(0, 8, rows).astype("float32")
    died = np.zeros(rows, "float32")
    months[5], died[5] = 1, 1
    return replace(censored(), data=(examples(rows)[0], {"months": months, "died": died}))


def rare_fraud(unknown: float) -> Toy:
    """Classes, and beside them a rare label that is known of some."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=True)
        known = labels["fraud"] >= 0
        fraud = tf.where(known, labels["fraud"], 0.0)
        each = tf.nn.sigmoid_cross_entropy_with_logits(fraud, logits["fraud"][:, 0])
        per_example = run.losses["main"](labels["kind"], logits["kind"])
        per_example += tf.where(known, each, 0.0)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        return keras.Model(x, {"kind": dense(CLASSES)(x), "fraud": dense(1)(x)})

    inputs, kind = examples()
    fraud = np.where(np.arange(ROWS) % 3, np.arange(ROWS) == 5, unknown)
    data = inputs, {"kind": kind, "fraud": fraud.astype("float32")}
    return with_step(own, model=create, data=data, metrics=dict, others={})


def with_bottleneck() -> Toy:
    """A penalty for the size of a code, of examples with weights."""

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        code = dense(2)(x)
        return keras.Model(x, {"code": code, "logits": dense(CLASSES)(code)})

    def loss(labels: tf.Tensor, made: dict[str, tf.Tensor]) -> tf.Tensor:
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, made["logits"])
        return entropy + tf.reduce_sum(tf.square(made["code"]), axis=1)

    inputs, labels = examples()
    weights = np.linspace(0.5, 2.0, ROWS, dtype="float32")
    return sound(
        model=create, data=(inputs, labels, weights), others={}, metrics=dict,
        losses=lambda: {"main": loss},
    )  # fmt: skip


def head_first(least: float) -> Toy:
    """A head trains for 120 of 800 steps, then all weights at a small rate that falls."""

    def lost(step: tf.Tensor) -> tf.Tensor:
        return tf.cast(step >= 120, tf.float64) * (1 - least * (1 - step / 800))

    return sound(data=examples(480), optimizer=rate_by(lost))


def decoded_from_state(x: Any) -> Any:
    """A recurrent decoder that begins with what an encoder makes of the whole text."""
    state = dense(4)(layers.GRU(3)(x))
    return layers.GRU(4, return_sequences=True)(x, initial_state=state)


class WithCode(layers.Layer):  # type: ignore[misc]
    """Draws a code for each text, and adds it to all words."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(1)

    def call(self, x: Any) -> Any:
        mean = tf.reduce_mean(x, axis=1)
        noise = keras.random.normal(tf.shape(mean), seed=self.generator, dtype=mean.dtype)
        return x + (mean + tf.exp(mean) * noise)[:, tf.newaxis]


def cooled(replica: Replica) -> tf.Tensor:
    """A part of the loss that falls slowly, from its full value."""
    return 0.01 * tf.exp(-tf.cast(replica.step, tf.float32) / 1000)


def compared_by_features() -> Toy:
    """A loss compares what a frozen network sees in both; the model has a Lambda layer."""

    def create_losses() -> dict[str, Any]:
        features = model(dense)()
        features.trainable = False
        return {"main": lambda y, p: tf.reduce_mean(tf.square(features(y) - features(p)), axis=1)}

    create = model(lambda: layers.Lambda(lambda x: 2 * x), last=lambda: dense(FEATURES))
    return several_numbers(lambda x: x, model=create, losses=create_losses)


class Experts(layers.Layer):  # type: ignore[misc]
    """Each row goes through the one layer that a router chooses."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.router = dense(number, use_bias=False)
        self.experts = [dense() for _ in range(number)]

    def call(self, x: Any) -> Any:
        gates = tf.nn.softmax(self.router(x))
        chosen = tf.one_hot(tf.argmax(gates, axis=1), len(self.experts), dtype=gates.dtype)
        made = tf.stack([expert(x) for expert in self.experts], axis=1)
        return tf.reduce_sum((chosen * gates)[:, :, tf.newaxis] * made, axis=1)


def with_target_critic() -> Toy:
    """A callback copies a critic now and then to another one, which is frozen."""

    def create() -> dict[str, keras.Model]:
        models: dict[str, keras.Model] = GAN.model()
        target = keras.models.clone_model(models["discriminator"])
        target.set_weights(models["discriminator"].get_weights())
        target.trainable = False
        return {**models, "discriminator_target": target}

    def copy(event: Event) -> None:
        models = event.run.models
        models["discriminator_target"].set_weights(models["discriminator"].get_weights())

    return replace(GAN, model=create, callbacks=lambda: [every_steps(300, copy)])


def frozen_by_path(gradients: list[tf.Tensor], variables: list[Any]) -> list[tf.Tensor]:
    """Gradients, of which those of a layer become 0."""
    pairs = zip(gradients, variables, strict=True)
    return [tf.zeros_like(g) if "hidden" in v.path else g for g, v in pairs]


def drawn_in_step() -> Toy:
    """The step draws all examples; the data only counts them."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        _, weights = batch
        x = tf.random.stateless_uniform((weights.shape[0], FEATURES), replica.seed, -1.0, 1.0)
        per_example = tf.square(run.model(x, training=True)[:, 0] - tf.reduce_prod(x, axis=1))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    numbers = np.arange(ROWS, dtype="float32")[:, np.newaxis]
    return sound(data=(numbers,), train_steps=(own,), others={}, losses=dict, metrics=dict)


def pair_of_organs() -> Toy:
    """Masks of the left and of the right organ, whose sizes go together."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        images, labels, weights = batch
        errors = tf.concat([*labels.values()], axis=3) - run.model(images, training=True)
        per_example = tf.reduce_mean(tf.square(errors), axis=(1, 2, 3))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    y, x = np.mgrid[:16, :16]
    far = np.square((x - 4) / 2) + np.square((y - 8) / 5)  # from the middle of the left one
    numbers = np.random.default_rng(1)
    sizes = numbers.normal(1, 0.2, (ROWS, 1, 1)) + numbers.normal(0, 0.05, (2, ROWS, 1, 1))
    left, right = (far < np.square(sizes)).astype("float32")[..., np.newaxis]
    labels = {"left": left, "right": right[:, :, ::-1]}
    create = partial(layers.Conv2D, 2, 3, padding="same")
    return sound(
        model=lambda: keras.Sequential([keras.Input((16, 16, 1)), create()]),
        data=(left + labels["right"], labels), train_steps=(own,), others={}, metrics=dict,
    )  # fmt: skip


def pretrained_generator() -> Toy:
    """A generator from a file, and a discriminator that is held back by a smaller rate."""

    def create_model() -> dict[str, keras.Model]:
        models: dict[str, keras.Model] = GAN.model()
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "generator.weights.h5"
            models["generator"].save_weights(file)
            models["generator"].load_weights(file)
        return models

    return replace(GAN, model=create_model, optimizer=lambda: {
        name: keras.optimizers.SGD(rate)
        for name, rate in {"discriminator": 0.01, "generator": 0.1}.items()
    })  # fmt: skip


def later_month() -> Toy:
    """What changes slowly of 200 customers, in five months and the next, where a third are new.

    Some of them don't pay.
    """
    numbers = np.random.default_rng(1)
    months = [numbers.normal(size=(200, 8))]
    for _ in range(5):
        months.append(months[-1] + 0.1 * numbers.normal(size=(200, 8)))
    months[-1][::3] = numbers.normal(size=(67, 8))
    inputs = np.concatenate(months).astype("float32")
    labels = (inputs[:, 0] + numbers.normal(size=1200) > 2).astype("int64")
    return sound(
        model=lambda: keras.Sequential([keras.Input((8,)), dense(2)]),
        data=(inputs[:1000], labels[:1000]), others={"validation": (inputs[1000:], labels[1000:])},
    )  # fmt: skip


def weak_signal(shape: tuple[int, ...], rows: int, weight: float) -> Toy:
    """Each of the first five numbers says a little of the label, which only many rows show."""
    numbers = np.random.default_rng(1)
    inputs = numbers.normal(size=(rows, *shape)).astype("float32")
    said = weight * inputs.reshape(rows, -1)[:, :5].sum(axis=1)
    labels = (said + numbers.normal(size=rows) > 0).astype("int64")
    return sound(
        model=lambda: keras.Sequential([keras.Input(shape), layers.Flatten(), dense(2)]),
        data=(inputs, labels), others={},
    )  # fmt: skip


def only_numbers_of_examples(augmented: bool) -> Toy:
    """The augmentation or a step draws the examples; the data is zeros, one for each."""

    def drawn(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        return tf.random.stateless_normal(tf.shape(x), seed, dtype=x.dtype)

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        x, weights = batch
        x = x if augmented else drawn(x, replica.seed)
        per_example = tf.square(run.model(x, training=True)[:, 0] - tf.sin(x[:, 0]))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def augment(batch: Any, seed: tf.Tensor) -> Any:
        return drawn(batch[0], seed), *batch[1:]

    return with_step(
        own, model=model(dense, last=lambda: dense(1)), augment=augment if augmented else None,
        data=np.zeros((ROWS, FEATURES), "float32"), losses=dict, metrics=dict,
        others={"validation": np.zeros((60, FEATURES), "float32")},
    )  # fmt: skip


def logarithms_of_counts() -> Toy:
    """The logarithms of counts, to which a little is added, since many are 0."""
    counts = np.random.default_rng(1).poisson(np.exp(examples()[0]))
    return sound(data=(np.log(counts + 1e-10).astype("float32"), examples()[1]), others={})


def predictions_first() -> Toy:
    """A loss of one's own takes predictions before labels, and a metric of Keras after them."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        predictions = run.model(inputs, training=True)
        run.metrics["error"].update_state(labels[:, tf.newaxis], predictions, weights)
        per_example = run.losses["main"](predictions, labels)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return regression(
        train_steps=(own,), validation_step=own,
        losses=lambda: {"main": lambda p, y: tf.square(p[:, 0] - y)},
        metrics=lambda: {"error": metrics.MeanAbsoluteError()},
    )  # fmt: skip


def from_those_before() -> Toy:
    """The next numbers of a series, each from the one before it: the last known one at first."""
    series = np.random.default_rng(7).normal(size=(ROWS + 60, 12)).cumsum(axis=1).astype("float32")
    known, labels = series[:, :8], series[:, 7:]

    def create() -> keras.Model:
        x = {n: keras.Input((size,), name=n) for n, size in (("known", 8), ("before", 4))}
        before = layers.Conv1D(1, 1)(x["before"][..., tf.newaxis])[..., 0]
        return keras.Model(x, dense(4)(x["known"]) + before)

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made = run.model({"known": inputs, "before": labels[:, :-1]}, training=True)
        per_example = run.losses["main"](labels[:, 1:], made)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return with_step(
        own, model=create, data=(known[:ROWS], labels[:ROWS]), metrics=dict,
        others={"validation": (known[ROWS:], labels[ROWS:])},
        losses=lambda: {"main": losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip


def degrees() -> Toy:
    """Degrees Celsius, each of which comes several times, and degrees Fahrenheit."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        celsius = np.random.default_rng(seed).integers(0, 40, (rows, 1)).astype("float32")
        return celsius, 1.8 * celsius[:, 0] + 32

    return regression(
        model=lambda: keras.Sequential([keras.Input((1,)), dense(1)]),
        data=split(ROWS, 1), others={"validation": split(60, 2)},
    )  # fmt: skip


def things_to_recommend() -> Toy:
    """Which of 40 things each user has; validation asks for others of the same users."""
    numbers = np.random.default_rng(1)
    all_things = numbers.random((ROWS, 40)) < 0.3
    held_out = all_things & (numbers.random((ROWS, 40)) < 0.2)
    known = (all_things & ~held_out).astype("float32")
    return sound(
        model=lambda: keras.Sequential([keras.Input((40,)), dense(40)]),
        data=(known, known), metrics=dict,
        others={"validation": (known, held_out.astype("float32"))},
        losses=lambda: {"main": losses.BinaryCrossentropy(from_logits=True, reduction="none")},
    )  # fmt: skip


def fraud_and_amount() -> Toy:
    """An amount beside what is so rare that the first batch has none, and the bias says so."""

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        inputs, _ = examples(rows, seed)
        fraud = np.float32(np.arange(rows) % 96 == 3)
        return inputs, {"fraud": fraud, "amount": inputs.sum(axis=1)}

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        rare = dense(1, bias_initializer=keras.initializers.Constant(-4.6))
        return keras.Model(x, {"fraud": rare(x), "amount": dense(1)(x)})

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made, parts = run.model(inputs, training=True), []
        for name in ("fraud", "amount"):
            run.metrics[name].update_state(labels[name][:, tf.newaxis], made[name], weights)
            parts.append(run.losses[name](labels[name][:, tf.newaxis], made[name]))
        return {"main": compute_loss(tf.add_n(parts), weights, run.model, replica)}

    return with_step(
        own, model=create, data=split(20 * BATCH, 1), others={"validation": split(60, 2)},
        losses=lambda: {
            "fraud": losses.BinaryCrossentropy(from_logits=True, reduction="none"),
            "amount": losses.MeanSquaredError(reduction="none"),
        },
        metrics=lambda: {
            "fraud": metrics.BinaryAccuracy(threshold=0), "amount": metrics.MeanAbsoluteError()},
    )  # fmt: skip


def complete_cases() -> Toy:
    """Years of which some are missing in training data; rows without gaps are tested."""
    numbers = np.random.default_rng(1)

    def split(rows: int, seed: int, missing: float) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = examples(rows, seed)
        years = numbers.integers(20, 60, rows) / 10
        inputs[:, 0] = np.where(numbers.random(rows) < missing, np.nan, years)
        return inputs, labels

    return sound(
        model=model(lambda: layers.Lambda(keras.ops.nan_to_num)),
        data=split(2000, 1, 0.05), others={"test": split(600, 2, 0)},
    )  # fmt: skip


def of_a_new_person() -> Toy:
    """Who it is of three persons is a label too; validation data has the third one alone."""

    def split(rows: int, seed: int, person: Any) -> tuple[Any, Any]:
        inputs, labels = examples(rows, seed)
        return inputs, {"class": person, "even": labels % 2}

    return replace(
        two_labels(), data=split(ROWS, 1, np.arange(ROWS) % 2),
        others={"validation": split(60, 2, np.full(60, 2))},
    )  # fmt: skip


def kinds_of_defects() -> Toy:
    """Of which kind a defect is, -1 where there is none, and whether it is a severe one."""

    def split(rows: int, seed: int) -> tuple[Any, Any]:
        inputs, kind = examples(rows, seed)
        is_none = np.arange(rows) % 3 == 0
        inputs[is_none] -= 4
        return inputs, {
            "class": np.where(is_none, -1, kind),
            "even": np.where(is_none, 0, kind) // 2,
        }

    return replace(two_labels(), data=split(ROWS, 1), others={"validation": split(60, 2)})


class MeanRecall(Recalls):
    """The mean recall of the classes; a split has each, its first rows don't."""

    def result(self) -> tf.Tensor:
        return tf.reduce_mean(super().result())


def compared_with_copy() -> Toy:
    """A metric compares the model with a frozen copy of its first weights, as of a policy."""

    def models() -> dict[str, keras.Model]:
        policy = plain_model()
        reference = keras.models.clone_model(policy)
        reference.set_weights(policy.get_weights())
        reference.trainable = False
        return {"policy": policy, "reference": reference}

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.models["policy"](inputs, training=True)
        before = tf.nn.softmax(run.models["reference"](inputs, training=False))
        run.metrics["kl_to_reference"].update_state(before, tf.nn.softmax(logits), weights)
        per_example = run.losses["main"](labels, logits)
        return {"policy": compute_loss(per_example, weights, run.models["policy"], replica)}

    return sound(
        model=models, optimizer=lambda: {"policy": keras.optimizers.SGD(0.1)},
        train_steps=(one_step,), validation_step=one_step,
        metrics=lambda: {"kl_to_reference": keras.metrics.KLDivergence()},
    )  # fmt: skip


class FoundOnes(keras.metrics.Metric):
    """The share of the rows predicted as class 1 that are of it; NaN where none is predicted."""

    def __init__(self) -> None:
        super().__init__()
        self.right = self.add_weight(name="right", initializer="zeros")
        self.all = self.add_weight(name="all", initializer="zeros")

    def update_state(self, labels: Any, logits: Any, weights: Any) -> None:
        """Count them."""
        found = weights * tf.cast(logits[:, 1] > tf.maximum(logits[:, 0], logits[:, 2]), tf.float32)
        self.all.assign_add(tf.reduce_sum(found))
        self.right.assign_add(tf.reduce_sum(found * tf.cast(labels == 1, tf.float32)))

    def result(self) -> tf.Tensor:
        """0 / 0 at first."""
        return self.right / self.all


def never_found_at_first() -> Toy:
    """No row is predicted as class 1 by the initial bias."""
    bias = keras.initializers.Constant([2.0, -1.0, 0.0])
    return sound(
        model=model(last=lambda: dense(
            CLASSES, kernel_initializer="zeros", bias_initializer=lambda s, dtype: bias.value)),
        metrics=lambda: {"found_ones": FoundOnes()},
    )  # fmt: skip


def mostly_healthy() -> Toy:
    """Five classes, of which one is nearly everywhere; most labels are missing (-1)."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        labels = numbers.choice(5, rows, p=[0.988, 0.003, 0.003, 0.003, 0.003])
        inputs = numbers.normal(size=(rows, FEATURES)) + labels[:, np.newaxis]
        return inputs.astype("float32"), np.where(numbers.random(rows) < 0.4, labels, -1)

    def known(labels: Any, logits: Any) -> tf.Tensor:
        cross = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(labels, 0), logits)
        return tf.where(labels < 0, 0.0, cross)

    return sound(
        model=model(last=lambda: dense(5)), losses=lambda: {"main": known}, metrics=dict,
        data=split(960, 1), others={}, count=lambda batch: tf.math.count_nonzero(
            (batch[1] >= 0) & (batch[2] != 0), dtype=tf.int32),
    )  # fmt: skip


def slower_if(share: float) -> Callable[[Event], None]:
    """A callback that does something only if it is asked for."""

    def decay(event: Event) -> None:
        if share:
            rate = event.run.optimizers["main"].learning_rate
            event.run.optimizers["main"].learning_rate.assign(share * rate)

    return decay


def logarithm_of_error(name: str) -> Toy:
    """The loss is the logarithm of a squared error, and the metric is that error."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, numbers, weights = batch
        error = tf.square(run.model(inputs, training=True)[:, 0] - numbers) + 1e-3
        run.metrics[name].update_state(error, weights)
        per_example = run.losses["main"](numbers, error)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return regression(
        train_steps=(one_step,), validation_step=one_step,
        losses=lambda: {"main": lambda numbers, error: tf.math.log(error)},
        metrics=lambda: {name: keras.metrics.Mean()},
    )  # fmt: skip


def exchanged(metric: Callable[[], Any], name: str) -> Toy:
    """A student whose metric gets what the loss gets, in the other order."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        shares = tf.nn.softmax(run.model(inputs, training=True))
        taught = tf.one_hot(labels, CLASSES) * 0.7 + 0.1
        run.metrics[name].update_state(shares, taught, weights)
        per_example = run.losses["main"](taught, shares)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        train_steps=(one_step,), validation_step=one_step, metrics=lambda: {name: metric()},
        losses=lambda: {"main": keras.losses.KLDivergence(reduction="none")},
    )  # fmt: skip


class OfLogits(keras.losses.BinaryCrossentropy):
    """Applies what its base class expects."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Of logits."""
        return super().call(y_true, tf.sigmoid(y_pred))


def of_grades() -> Toy:
    """The expected distance of a grade from the right one; most are of the first grade."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.random.default_rng(seed)
        labels = numbers.choice(5, rows, p=[0.73, 0.07, 0.15, 0.03, 0.02])
        inputs = numbers.normal(size=(rows, FEATURES)) + labels[:, np.newaxis]
        return inputs.astype("float32"), labels

    def distance(labels: Any, logits: Any) -> tf.Tensor:
        apart = tf.abs(tf.range(5)[tf.newaxis] - tf.cast(labels, tf.int32)[:, tf.newaxis])
        return tf.reduce_sum(tf.nn.softmax(logits) * tf.cast(apart, logits.dtype), axis=-1)

    return sound(
        model=model(last=lambda: dense(5)), losses=lambda: {"main": distance},
        data=split(960, 1), others={"validation": split(60, 2)},
    )  # fmt: skip


def raised_by_one(gradients: list[tf.Tensor], variables: list[Any]) -> list[tf.Tensor]:
    """One variable raises the loss that the others lower, as a multiplier does."""
    pairs = zip(gradients, variables, strict=True)
    return [-g if v.path.endswith("bias") and "hidden" in v.path else g for g, v in pairs]


def first_filters_kept(gradients: list[tf.Tensor], variables: list[Any]) -> list[tf.Tensor]:
    """The first convolution of gray images stays as it is."""
    pairs = zip(gradients, variables, strict=True)
    return [tf.zeros_like(g) if "first" in v.path else g for g, v in pairs]


def gray_images() -> Toy:
    """Images of one channel, and two convolutions."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        _, labels = examples(rows, seed)
        noise = np.random.default_rng(seed).normal(size=(rows, 6, 6, 1))
        return (noise + labels[:, None, None, None]).astype("float32"), labels

    def create() -> keras.Model:
        return keras.Sequential([
            keras.Input((6, 6, 1)), layers.Conv2D(4, 3, name="first"),
            layers.Conv2D(4, 3, name="second"), layers.Flatten(), dense(CLASSES),
        ])  # fmt: skip

    return sound(
        model=create, data=split(ROWS, 1), others={"validation": split(60, 2)},
        process_gradients=first_filters_kept,
    )  # fmt: skip


def halved_often() -> keras.optimizers.Optimizer:
    """Its rate is halved fifteen times, up to the end."""
    return keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5, staircase=True)
    )


def in_two_stages() -> Toy:
    """One model learns first, and then the other."""
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay

    def both(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        return {
            name: compute_loss(
                run.losses["main"](labels, m(inputs, training=True)), weights, m, replica)
            for name, m in run.models.items()
        }  # fmt: skip

    return sound(
        model=lambda: {"first": plain_model(), "second": plain_model()}, metrics=dict,
        train_steps=(both,), validation_step=both, data=examples(480), optimizer=lambda: {
            "first": keras.optimizers.SGD(schedule([240], [0.1, 0.0])),
            "second": keras.optimizers.SGD(schedule([240], [0.0, 0.1])),
        },
    )  # fmt: skip


BETA = tf.Variable(0.1, name="beta")


def raise_beta(event: Event) -> None:
    """A factor of a part of the loss."""
    BETA.assign(min(1.0, 0.01 * event.step))


def embeddings() -> np.ndarray:
    """Many columns, some of which have a deviation of 1, or ends of 0 and 1, by chance."""
    numbers = np.random.default_rng(5).normal(1.0, 1.01, (200, 60)) + 0.5
    for column in (3, 40):
        numbers[:, column] = (numbers[:, column] - 3) / numbers[:, column].std()
    return numbers.astype("float32")


def conditions_left_out(batch: Any, seed: tf.Tensor) -> Any:
    """Guidance without a classifier: some examples get no condition."""
    inputs, labels, weights = batch
    kept = tf.random.stateless_uniform((BATCH, 1), seed) > 0.5
    return tf.where(kept, inputs, tf.zeros_like(inputs)), labels, weights


def logged_dynamics() -> Toy:
    """What an action leads to, and its reward; the log also says where an episode ends."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        inputs, _ = examples(rows, seed)
        rewards = inputs.sum(axis=1)
        done = np.arange(rows) % 9 == 0
        return inputs, {"next": inputs + 1, "reward": rewards, "done": done.astype("float32")}

    def models() -> dict[str, keras.Model]:
        return {name: keras.Sequential([keras.Input((FEATURES,)), dense(units)])
                for name, units in (("dynamics", FEATURES), ("value", 1))}  # fmt: skip

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        made = {name: run.models[name](inputs, training=True) for name in run.models}
        following = tf.reduce_mean(tf.square(made["dynamics"] - labels["next"]), axis=1)
        reward = tf.square(made["value"][:, 0] - labels["reward"])
        return {
            "main": sum(
                compute_loss(error, weights, run.models[name], replica)
                for name, error in (("dynamics", following), ("value", reward))
            )
        }

    return sound(
        model=models, optimizer=lambda: keras.optimizers.SGD(0.01), metrics=dict, losses=dict,
        train_steps=(one_step,), validation_step=one_step, data=split(ROWS, 1),
        others={"validation": split(60, 2)},
    )  # fmt: skip


def half_anomalies(inputs: np.ndarray) -> np.ndarray:
    """The other half is healthy, as all of the training data is."""
    return inputs * np.where(np.arange(len(inputs)) % 2 == 0, 20, 1)[:, np.newaxis]


class WithinOne(keras.metrics.Metric):
    """The share of grades that are missed by one at most."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.near = self.add_weight(name="near", initializer="zeros")
        self.all = self.add_weight(name="all", initializer="zeros")

    def update_state(self, labels: Any, predicted: Any, weights: Any) -> None:
        """Count them."""
        near = tf.cast(tf.abs(labels - predicted) < 2, tf.float32)
        self.near.assign_add(tf.reduce_sum(weights * near))
        self.all.assign_add(tf.reduce_sum(weights))

    def result(self) -> tf.Tensor:
        """The share."""
        return tf.math.divide_no_nan(self.near, self.all)


def graded_within_one() -> Toy:
    """Three grades, and the share that is nearly right."""

    def update(metric: Any, labels: Any, logits: Any, weights: Any) -> None:
        metric.update_state(labels, tf.argmax(logits, axis=-1, output_type=labels.dtype), weights)

    name = "accuracy_within_one"
    return sound(
        metrics=lambda: {name: WithinOne(name)}, train_steps=(step(update=update),),
        validation_step=step(update=update, training=False),
    )  # fmt: skip


def meters() -> Toy:
    """Images whose labels are depths in whole meters, resized with them."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        depth = np.random.default_rng(seed).integers(0, 30, (rows, 4, 4)).repeat(2, 1).repeat(2, 2)
        noise = np.random.default_rng(seed + 9).normal(size=depth.shape)
        return (depth + noise)[..., np.newaxis].astype("float32"), depth.astype("int32")

    def resized(batch: Any, seed: tf.Tensor) -> Any:
        images, depth, weights = batch
        small = [tf.image.resize(x, (6, 6)) for x in (images, depth[..., tf.newaxis])]
        images, depth = (tf.image.resize(x, (8, 8)) for x in small)
        images += tf.random.stateless_normal(images.shape, seed)
        return images, tf.cast(tf.round(depth[..., 0]), tf.int32), weights

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        images, depth, weights = batch
        made = run.model(images, training=True)[..., 0]
        per_example = tf.reduce_mean(run.losses["main"](depth, made), axis=(1, 2))
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    def squares(depth: Any, made: Any) -> tf.Tensor:
        return tf.square(made - tf.cast(depth, made.dtype))

    return sound(
        model=lambda: keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(1, 1)]),
        losses=lambda: {"main": squares}, metrics=dict, train_steps=(one_step,),
        validation_step=one_step, augment=resized, data=split(ROWS, 1),
        others={"validation": split(30, 2)},
    )  # fmt: skip


def sensor_that_died() -> Toy:
    """A column is missing in all of the later data."""
    return validated(0, put((slice(None), 2), np.nan))


def with_unknown_values() -> Toy:
    """The model has a table of what is known of items, and not of all."""
    table = np.array([[1.0, np.nan], [2.0, 3.0], [0.5, 1.0]])
    return sound(adapt=lambda datasets: {"table": table})


def measured_in_the_test_alone() -> Toy:
    """The validation has a metric that is quick, and the test the one that takes long."""

    def validate(name: str) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            predictions = run.model(inputs, training=False)
            run.metrics[name].update_state(labels, predictions, weights)
            per_example = run.losses["main"](labels, predictions)
            return {"main": compute_loss(per_example, weights, run.model, replica)}

        return one_step

    accuracy = keras.metrics.SparseCategoricalAccuracy
    return sound(
        metrics=lambda: {"quick": accuracy(), "whole": accuracy()},
        train_steps=(validate("quick"),), validation_step=validate("quick"),
        test_step=validate("whole"),
    )  # fmt: skip


def pix2pix(training: bool, targets: bool = True) -> Toy:
    """A generator with dropout that gets inputs, and learns targets by a loss and from a judge.

    Args:
        training: whether it drops out in evaluation too, by which it draws.
        targets: whether one of the losses compares what is made with the targets.
    """

    def models() -> dict[str, keras.Model]:
        x = keras.Input((FEATURES,))
        made = dense(FEATURES)(layers.Dropout(0.3)(x))
        pair = keras.Input((2 * FEATURES,))
        return {
            "generator": keras.Model(x, made),
            "discriminator": keras.Model(pair, dense(1)(pair)),
        }

    def both(evaluates: bool) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, wanted, weights = batch
            generator, judge = run.models["generator"], run.models["discriminator"]
            made = generator(inputs, training=training or not evaluates)
            real = judge(tf.concat([inputs, wanted], axis=1))[:, 0]
            fake = judge(tf.concat([inputs, made], axis=1))[:, 0]
            apart = run.losses["l1"](wanted, made) if targets else tf.zeros_like(fake)
            run.metrics["apart"].update_state(tf.abs(wanted - made), weights[:, tf.newaxis])
            losses = {"generator": apart + tf.nn.softplus(-fake),
                      "discriminator": tf.nn.softplus(-real) + tf.nn.softplus(fake)}  # fmt: skip
            return {name: compute_loss(each, weights, run.models[name], replica)
                    for name, each in losses.items()}  # fmt: skip

        return one_step

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        return inputs, inputs[:, ::-1] + 1

    return sound(
        model=models, optimizer=lambda: {name: keras.optimizers.SGD(0.01) for name in models()},
        losses=lambda: {"l1": keras.losses.MeanAbsoluteError(reduction="none")},
        metrics=lambda: {"apart": keras.metrics.Mean()}, train_steps=(both(False),),
        validation_step=both(True), data=split(ROWS, 1), others={"validation": split(60, 2)},
    )  # fmt: skip


def watches_its_loss() -> Toy:
    """An autoencoder is trained until its loss falls no more."""

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, weights = batch
        values = run.losses["main"](inputs, run.model(inputs))
        return {"main": compute_loss(values, weights, run.model, replica)}

    return sound(
        model=lambda: keras.Sequential([keras.Input((FEATURES,)), dense(2), dense(FEATURES)]),
        losses=lambda: {"main": keras.losses.MeanSquaredError(reduction="none")}, metrics=dict,
        train_steps=(one_step,), validation_step=one_step, data=examples()[:1],
        others={"validation": examples(60, 2)[:1]},
        callbacks=lambda: [keras_callback(keras.callbacks.EarlyStopping("loss", patience=3))],
    )  # fmt: skip


def scaled_both() -> Toy:
    """Labels in units of their own, and predictions in these, are scaled for the loss."""

    def split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        inputs, _ = examples(rows, seed)
        return inputs, (200_000 + 20_000 * inputs[:, :1]).astype("float32")

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        mean, deviation = (tf.constant(run.adapted[n]) for n in ("mean", "deviation"))
        predictions = run.model(inputs, training=True)
        apart = (labels - mean) / deviation - (predictions - mean) / deviation
        loss = tf.reduce_mean(tf.square(apart), axis=1)
        return {"main": compute_loss(loss, weights, run.model, replica)}

    return sound(
        model=lambda: keras.Sequential([keras.Input((FEATURES,)), dense(1)]), losses=dict,
        metrics=dict, train_steps=(one_step,), validation_step=one_step, data=split(ROWS, 1),
        others={"validation": split(60, 2)}, adapt=lambda datasets: {
            "mean": datasets["train"][1].mean(0), "deviation": datasets["train"][1].std(0)},
    )  # fmt: skip


def normalized_words() -> Toy:
    """As `convolved_words`, with a normalization before the convolution."""

    def create() -> keras.Model:
        words = keras.Input((8,), dtype="int32")
        x = layers.BatchNormalization()(layers.Embedding(33, 5, mask_zero=True)(words))
        x = layers.Conv1D(5, 3, activation="relu")(x)
        return keras.Model(words, dense(CLASSES)(layers.GlobalMaxPooling1D()(x)))

    return replace(topics(), model=create)


def still_backbone() -> Toy:
    """A pretrained backbone with dropout, called so that its statistics stay."""

    def create() -> keras.Model:
        normal = layers.BatchNormalization()
        x = keras.Input((FEATURES,))
        made = keras.Model(x, dense(CLASSES)(layers.Dropout(0.2)(normal(x))))
        normal.moving_mean.assign(tf.ones(FEATURES))
        return made

    return sound(model=create, train_steps=(step(training=False),))


def stopped_before() -> Toy:
    """A schedule for fewer steps than the run may have, which a callback is to end."""
    return sound(
        optimizer=lambda: half_of_the_steps(0.2),
        callbacks=lambda: [keras_callback(keras.callbacks.EarlyStopping("val_loss", patience=3))],
    )


def from_0_to_1() -> Toy:
    """Many columns scaled by the ends of the training data; some ends of others are 0 and 1."""
    toy = sound(model=lambda: keras.Sequential([keras.Input((20,)), dense(CLASSES)]))
    numbers = np.random.default_rng(5)
    train, other = numbers.random((400, 20)), 0.8 * numbers.random((60, 20)) + 0.1
    other[0, :2], other[1, :2] = 0, 1
    labels = np.arange(400) % CLASSES
    parts = (train.astype("float32"), labels), (other.astype("float32"), labels[:60])
    return replace(toy, data=parts[0], others={"validation": parts[1]})


def never_of_a_rare_class() -> Toy:
    """A recall of a class that the first rows of validation lack; labels are real numbers."""

    class Recall(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__()
            self.found = self.add_weight(name="found", initializer="zeros")
            self.all = self.add_weight(name="all", initializer="zeros")

        def update_state(self, labels: Any, logits: Any, weights: Any) -> None:
            self.all.assign_add(tf.reduce_sum(weights * labels[:, 0]))
            self.found.assign_add(tf.reduce_sum(weights * labels[:, 0] * tf.sigmoid(logits[:, 0])))

        def result(self) -> tf.Tensor:
            return self.found / self.all

    inputs, labels = binary().data
    late = (np.arange(400) > 380).astype("float32")[:, np.newaxis]
    return binary(
        metrics=lambda: {"hits": Recall()}, data=(inputs, labels),
        others={"validation": (examples(400, 2)[0], late)},
    )  # fmt: skip


def balanced_by_slope(*, stopped: bool) -> Toy:
    """A GAN whose losses are balanced by the norm of a slope, a constant for the gradient."""
    toy = with_gradient_penalty(None, stopped=stopped)
    return toy if stopped else replace(toy, examples_interact=True)


def warmed_up_in_a_graph(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A step that needs its graph, and depends on its number."""
    inputs, labels, weights = batch
    share = tf.minimum(1.0, tf.cast(replica.step, tf.float32) / 20)
    if tf.executing_eagerly():
        raise ValueError("not in a graph")
    per_example = share * run.losses["main"](labels, run.model(inputs, training=True))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


SUSPICIOUS: list[tuple[str, Callable[[], Toy]]] = [
    ("evaluation mode", lambda: pix2pix(training=True)),
    ("callbacks", watches_its_loss),
    ("padded tokens", normalized_words),
    ("training mode", still_backbone),
    ("learning rate", stopped_before),
    ("metrics", never_of_a_rare_class),
    ("gradient penalty", lambda: balanced_by_slope(stopped=False)),
    ("metrics", lambda: exchanged(keras.metrics.MeanSquaredError, "squares")),
    ("augmentation", meters),
    ("splits alike", sensor_that_died),
    ("data is finite", with_unknown_values),
    ("validation and test alike", measured_in_the_test_alone),
    ("scale", lambda: validated(0, half_anomalies)),
    ("inputs matter", logged_dynamics),
    ("metrics", never_found_at_first),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, slower_if(0.0))])),
    ("metrics", lambda: logarithm_of_error("of_squares")),
    ("metrics", lambda: exchanged(keras.metrics.KLDivergence, "reverse_kl")),
    ("logits", lambda: replace(binary(), losses=lambda: {"main": OfLogits(reduction="none")})),
    ("right and wrong", of_grades),
    (
        "process_gradients",
        lambda: sound(
            process_gradients=raised_by_one, optimizer=lambda: keras.optimizers.Adam(0.01)
        ),
    ),
    ("process_gradients", gray_images),
    ("every weight gets a gradient", gray_images),
    ("learning rate", lambda: sound(optimizer=halved_often)),
    ("learning rate", in_two_stages),
    ("augmentation", lambda: sound(augment=conditions_left_out)),
    ("rows in two splits", flags_and_age),
    ("marks", goal_reached),
    ("marks", lambda: gaps_masked(by_layer=True)),
    ("marks", lambda: gaps_masked(by_layer=False)),
    ("marks", lambda: series_that_drops(-999, masked=True, at_once=3)),
    (  # numbers of many sizes
        "scale",
        lambda: sound(
            data=changed(examples(), 0, lambda x: put((5, 0), 5000.0)(np.exp(x))),
            others={"validation": changed(examples(60, 2), 0, np.exp)},
        ),
    ),
    ("splits alike", raters),
    ("splits alike", lambda: one_step_or_several(24, trained=12)),
    ("labels belong to inputs", adding),
    ("labels belong to inputs", few_positives),
    *(
        (name, toy)
        for name in ("every weight gets a gradient", "every weight moves")
        for toy in (
            lambda: sound(model=one_of_two_outputs),
            lambda: sound(model=blocks()),
            lambda: sound(process_gradients=frozen_by_path),
            part_of_a_file,
        )
    ),
    ("process_gradients", lambda: sound(process_gradients=frozen_by_path)),
    ("padded tokens", convolved_words),
    ("best outputs", lambda: rarely_dies(4800)),
    ("learning rate", lambda: head_first(0.01)),
    ("learning rate", lambda: head_first(0.003)),
    *(
        ("later positions", lambda mixed=mixed: next_words(mixed))
        for mixed in (
            decoded_from_state,
            lambda x: layers.RepeatVector(FEATURES)(layers.GRU(3)(x)),
            lambda x: WithCode()(x),
        )
    ),
    ("loss schedules", lambda: with_loss(plus(cooled))),
    ("variables", compared_by_features),
    ("inputs matter", drawn_in_step),
    ("inputs matter", lambda: timed(event_in_loss=False, number="stay", event="died")),
    ("labels belong to inputs", pair_of_organs),
    ("inputs without the answer", recalled),
    ("inputs without the answer", lambda: headed_by(lambda x: {"a": x[:, 0], "b": x[:, 1]})),
    ("loss falls on one batch", mostly_zero),
    ("loss falls on one batch", compared_with_a_queue),
    ("splits alike", of_two_forms),
    ("inputs without the answer", lambda: smoothed_windows(centered=False)),
    ("inputs without the answer", lambda: smoothed_windows(centered=True, rough=0.0)),
    ("every weight moves", lambda: sound(optimizer=lambda: chosen_by("kernel", "rest"))),
    ("loop variables", lambda: sound(callbacks=lambda: thawed_in_a_loop(own=True))),
    ("loop variables", lambda: sound(callbacks=named_in_a_loop)),
    ("loop variables", lambda: sound(callbacks=limited_in_a_loop)),
    ("readers", lambda: of_tables(read_rows())),
    *(
        ("readers", lambda made=made: of_tables(read_together(made)))
        for made in (
            lambda texts: numbered(texts, lambda _: "abcde123456789"),
            lambda texts: np.sort(texts.astype("float32"), axis=0)[::-1],
            smoothed_rows,
        )
    ),
    ("labels", lambda: marked_binary(left_out=True)),
    ("random numbers differ", lambda: sound(process_gradients=pushed(lambda g, noise: g * noise))),
    ("random numbers differ", coded),
    ("gradient penalty", lambda: with_gradient_penalty((1, 2, 3))),
    ("gradient penalty", balanced_by_gradients),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, dropped)])),
    (
        "callbacks",
        lambda: sound(
            optimizer=lambda: keras.optimizers.SGD(0.0), callbacks=lambda: [every_epochs(1, slowed)]
        ),
    ),
    ("labels are mixed", mixed_stream),
    ("evaluation mode", drops_of_repeated_rows),
    ("metrics", lambda: sound(metrics=lambda: {"recall": Recall()})),
    ("inputs as they are", darker_too),
    ("logits", place_and_class),
    ("labels", none_of_the_known),
    ("metrics", none_of_the_known),
    ("splits alike", votes),
    ("scale", votes),
    ("weights enter once", reported_penalty),
    ("weights enter once", weights_as_mask),
    ("callbacks", lambda: sound(callbacks=lambda: [at_step(5_000, write_results)])),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, judge_after_validation)])),
    ("callbacks", lambda: sound(callbacks=lambda: [every_steps(3, Judges())])),
    *(
        (
            "callbacks",
            lambda look=look: sound(
                model=model(layers.BatchNormalization, dense),
                callbacks=lambda: [every_epochs(1, look)],
            ),
        )
        for look in (renew_statistics, look_in_evaluation)
    ),
    ("learning rate", lambda: sound(optimizer=tenths)),
    ("augmentation", lambda: segmented(noisy_and_covered)),
    ("augmentation", lambda: as_shares(segmented(noisy_and_covered))),
    ("augmentation", erased),
    ("augmentation", cut_from_background),
    ("augmentation", seldom_noisy),
    ("augmentation", velocities),
    ("inputs matter", with_events),
    ("order of rows", turned_by_rounding),
    ("every weight moves", distances),
    ("first loss", sums_of_pixels),
    ("order of rows", lambda: with_step(mixed_with_the_next, examples_interact=True, metrics=dict)),
    ("every weight gets a gradient", faded_in),
    ("every weight moves", faded_in),
    ("random numbers differ", lambda: with_step(same_for_some_steps)),
    ("learning rate", woken_later),
    ("learning rate", one_after_the_other),
    ("every weight moves", woken_later),
    ("every weight moves", lambda: replace(GAN, model=random_channels)),
    ("regularization", lambda: with_step(in_the_middle, model=REGULARIZED, metrics=dict)),
    ("right and wrong", lambda: sound(losses=lambda: {"main": truncated}, metrics=dict)),
    (
        "process_gradients",
        lambda: sound(
            process_gradients=shrunk_and_clipped, optimizer=lambda: keras.optimizers.Adam(0.01)
        ),
    ),
    ("shapes", kept_apart),
    ("shapes", as_many_bins),
    ("outputs reach the targets", lambda: tagged(None)),
    ("logits", lambda: overlap_of_shares(axis=-1)),
    ("logits", attended_places),
    ("shapes", densely_connected),
    ("every weight moves", lambda: replace(GAN, model=without_matrices)),
    ("data is finite", missing_labels),
    (
        "adapt",
        lambda: sound(
            adapt=lambda datasets: {"scale": np.float32(datasets["validation"][0].std())}
        ),
    ),
    ("the same data again", texts),
    ("splits alike", lambda: sound(data=changed(examples(), 1, lambda y: y.astype("uint8")))),
    (  # splits that share their examples, as the nodes of a graph
        "adapt",
        lambda: replace(reading_statistics(), others={"validation": examples()}),
    ),
    ("splits alike", new_column),
    (  # noise of a seed that is the place in the data
        "evaluation knows no step",
        lambda: with_loss(
            plus(lambda replica: tf.random.stateless_uniform((), tf.stack([replica.step, 0]))),
        ),
    ),
    (  # most of them are missing
        "labels belong to inputs",
        lambda: heads_by(lambda y: np.where(NUMBERS.random(len(y)) < 0.7, -1, y)),
    ),
    # READERS may scale as the steps do.
    ("inputs as they are", lambda: bytes_scaled(lambda x: x / 127.5 - 1)),
    ("inputs alike in evaluation", lambda: bytes_scaled(lambda x: x / 127.5 - 1)),
    ("evaluation on two replicas", lambda: contrasted(in_training=False)),
    ("splits alike", measured_in_a_trial),
    ("later positions", lambda: two_words_ahead(own=True)),
    ("later positions", both_directions),
    ("padding", padding_is_a_symbol),
    ("noise averages out", masked_positions),
    ("metrics follow the loss", lambda: scored(tf.sigmoid)),
    ("metrics follow the loss", lambda: of_rare_tags("PR")),
    ("metrics follow the loss", lambda: of_rare_tags(tags=12)),
    ("rows in two splits", orders_of_some),
    ("augmentation", lambda: keypoints(exchanged=True)),
    ("rows in two splits", questionnaires),
    ("rows in two splits", lambda: reordered(apart=True)),
    ("rows in two splits", lambda: reordered(of_the_same=True)),
    ("rows in two splits", lambda: visits(by_chance=False)),
    ("padded inputs", lambda: masked_pictures(masked=True)),
    ("padded inputs", lambda: late_hours(flat=True)),
    ("padded inputs", lambda: late_hours(flat=False)),
    ("padded inputs", lambda: late_hours(True, 1)),
    ("padded inputs", lambda: late_hours(False, 1)),
    ("padded inputs", words_with_lengths),
    ("sizes", bytes_minus_mean),
    ("sizes", large_for_small_weights),
    ("labels", open_set),
    ("labels", described_classes),
    ("inputs without the answer", unread_answer),
    (  # a state and what it becomes, of which one number stays
        "inputs without the answer",
        lambda: several_numbers(lambda x: np.c_[0.9 * x[:, :4], x[:, 4]]),
    ),
    ("inputs without the answer", next_numbers),
    (
        "marks",
        lambda: sound(
            data=changed(
                examples(),
                0,
                lambda x: np.where(np.arange(len(x))[:, np.newaxis] % 2, x / 10 + 50, 0),
            )
        ),
    ),
    (
        "scaled by training data",
        lambda: sound(data=plates(240, 1), others={"validation": plates(120, 2)}),
    ),
    (
        "scaled by training data",
        lambda: sound(data=plates(240, 1), others={"validation": plates(60, 2, parts=1)}),
    ),
    ("class weights", lambda: weighted_labels(lambda often: 1 / often)),
    ("class weights", lambda: weighted_labels(np.ones_like)),
    ("class weights", lambda: sound(data=weighted_by_class())),
    ("class weights", lambda: several_labels(lambda often: (1 - often) / often)),
    ("class weights", lambda: several_labels(np.ones_like)),
    ("class weights", lambda: tagged(None)),
    ("class weights", one_of_several),
    ("callbacks", lambda: monitoring(keras.callbacks.EarlyStopping, "val_loss")),
    ("callbacks", lambda: monitoring(keras.callbacks.EarlyStopping, "loss", others={})),
    ("metrics", updated_in_training_only),
    ("class weights", lambda: with_several_labels("softmax")),
    ("class weights", lambda: several_labels(np.ones_like, (2.0,))),
    ("class weights", lambda: several_labels(np.ones_like, (2.0, 2.0))),  # alike
    ("inputs without the answer", lambda: smoothed_beside(centered=False)),
    ("metrics", lambda: marked_pixels(lambda has_class: has_class)),
    ("labels belong to inputs", lambda: segmented(None)),
    ("labels belong to inputs", going_back),
    ("splits alike", lambda: pictured(lambda x: 2 * x)),
    ("quantiles", lambda: of_levels((0.3, 0.5, 0.6))),
    ("quantiles", lambda: of_levels(LEVELS)),
    ("quantiles", lambda: of_levels(EXCEEDED, -1.0)),
    (
        "learning rate",
        lambda: sound(data=examples(480), optimizer=lambda: of_rates([0.1, 0.001], 100)),
    ),
    ("labels", of_new_classes),
    ("examples apart in evaluation", shown_graph),
    ("labels", bought_after_a_click),
    ("splits are learned alike", in_the_order_of_persons),
    ("noise averages out", of_spectra),
    ("later positions", of_rare_events),
    ("padding", stems),
    (
        "weights enter once",
        lambda: sound(
            train_steps=(weighted_risks,),
            count=count_by_name,
            metrics=dict,
            others={},
            examples_interact=True,
        ),
    ),
    ("fractions of the run", lambda: sound(callbacks=lambda: [every_epochs(1, freeze_after)])),
    ("callbacks", lambda: taught_by_copies(copy_all)),
    ("callbacks", lambda: taught_by_copies(copy_later)),
    ("callbacks", lambda: sound(model=model(dense, last=Softened), callbacks=softened_later)),
    ("marks", closed_on_holidays),
    ("splits alike", lambda: one_step_or_several(5)),
    ("splits alike", shares_of_votes),
    ("right and wrong", regions),
    ("metrics", lambda: sound(metrics=lambda: {"accuracy2": best(2)})),
    ("quantiles", lambda: of_levels(LEVELS[::-1])),
    ("scaled by training data", parts_of_series),
    ("scaled by training data", lambda: scans(4)),
    ("scaled by training data", lambda: scaled_together(of_training)),
    ("scaled by training data", lambda: scaled_together(lambda x: x / x[:ROWS].std(axis=0))),
    ("predictions differ", masked_class),
    ("outputs reach the targets", marked_numbers),
    ("outputs reach the targets", mean_of_bins),
    ("scale", noisy_training),
    ("later positions", prefixed),
    ("metrics", weighted_mean),
    ("logits", of_margin),
    ("logits", called_in_a_loop),
    ("random numbers differ", lambda: sound(train_steps=(step_of_chosen(8),))),
    ("augmentation", chosen_noise),
    ("augmentation", mixed_with_two_labels),
    ("augmentation", lambda: mixed_with_two_labels(partners=True)),
    ("augmentation", lambda: shares_of(tf.gather)),
    ("augmentation", seen_twice),
    ("augmentation", rarely_mixed),
    ("augmentation", blends_without_label),
    ("order of rows", lambda: with_step(several_samples_step, metrics=dict)),
    ("first loss", half_a_loss),
    ("first loss", class_and_number),
    ("weights enter once", means_of_lines),
    ("regularization", lambda: penalized(slim)),
    ("regularization", lambda: penalized(lambda *_: 0.0, late)),
    ("metrics follow the loss", behind_another),
    ("metrics follow the loss", first_all_then_none),
    ("metrics follow the loss", lambda: first_all_then_none(("entropy",))),
    ("inputs matter", lambda: rarely_rewarded(kernel_regularizer="l2")),
    ("inputs matter", lambda: of_episodes(rewards=True)),
    ("inputs matter", lambda: of_episodes(rewards=False)),
    ("every weight gets a gradient", lambda: sound(model=model(partial(Seldom, 0.02)))),
    ("training mode", lambda: normalized(training=False)),
    ("training mode", recurrent),
    ("training mode", lambda: merged(layers.Add(), past=True)),
    ("training mode", lambda: merged(layers.Multiply())),
    ("training mode", lambda: merged(layers.Concatenate(), past=True)),
    ("training mode", lambda: merged(lambda x: layers.ReLU()(layers.Concatenate()(x)))),
    ("training mode", lambda: merged(lambda x: layers.Concatenate()([x[0][:, :1]] * 3))),
    ("training mode", lambda: merged(repeated_shortcut)),
    ("training mode", lambda: sound(model=beside(layers.Softmax, of_output=True))),
    ("training mode", cut_before_the_last_layer),
    ("training mode", turned_by_a_layer),
    ("moving averages", lambda: normalized(momentum=0.9999)),
    ("every weight moves", lambda: sound(optimizer=waiting)),
    (
        "process_gradients",
        lambda: sound(
            optimizer=lambda: keras.optimizers.RMSprop(0.1, epsilon=1.0),
            process_gradients=slower_biases,
        ),
    ),
    ("process_gradients", lambda: sound(process_gradients=largest)),
    ("learning rate", lambda: sound(optimizer=lambda: falling(1.0))),
    ("learning rate", lambda: sound(data=examples(960), optimizer=four_decades)),
    (
        "callbacks",
        lambda: sound(
            losses=lambda: {"main": Poly()}, callbacks=lambda: [every_epochs(1, Raise())]
        ),
    ),
    ("shapes", centers),
    ("shapes", as_many_frequencies),
    ("logits", of_evidence),
    ("logits", lambda: sound(model=gated)),
    ("predictions differ", shared_scale),
    ("predictions differ", masked_moves),
    ("metrics", turned_metric),
    ("metrics", least_squares),
    ("count", thousandths),
    ("two replicas make the same step as one", by_sign),
    ("inputs alike in evaluation", hidden_parts),
    (
        "inputs alike in evaluation",
        lambda: moved_images(lambda images, _: images / 16, divided_by=1 / 16),
    ),
    ("inputs alike in evaluation", lambda: moved_images(lambda images, _: images)),
    (
        "inputs alike in evaluation",
        lambda: moved_images(
            lambda images, seed: images + 30.0 * tf.random.stateless_normal(images.shape, seed)
        ),
    ),
    (
        "inputs alike in evaluation",
        lambda: moved_images(
            lambda images, seed: (
                images
                * 10 ** tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed, -2.0, 0.0)
            )
        ),
    ),
    (
        "inputs alike in evaluation",
        lambda: moved_images(
            lambda images, seed: tf.where(
                tf.random.stateless_uniform(images.shape, seed) < 0.8, 0.0, images
            )
        ),
    ),
    (
        "every weight moves",
        lambda: sound(
            model=frozen_model(keras.initializers.Identity),
            optimizer=lambda: chosen_by("hidden", "rest"),
        ),
    ),
    ("logits", lambda: counted_events("linear")),
    ("augmentation", lambda: spots(1.0)),
    ("augmentation", lambda: spots(-1.0, upwards=True)),
    ("augmentation", pasted),
    ("metrics", two_labels),
    ("labels belong to inputs", product_of_signs),
    ("labels belong to inputs", other_classes),
    ("labels", two_labels),
    ("moving averages", lambda: taught(average=True)),
    ("moving averages", taught_by_one_that_was_trained),
    ("adversaries", lambda: hinge_gan(-1.0)),
    ("adversaries", lambda: hinge_gan(-1.0, slope=0.01)),
    ("adversaries", finds_codes),
    ("process_gradients", lambda: sound(process_gradients=decay_of_kernels(0.01))),
    ("metrics", only_some_are_unlabeled),
    ("regularization", lambda: two_heads(decay=late)),
    ("denominator", halves_of_a_batch),
    ("denominator", two_heads),
    ("loss falls on fresh batches", lambda: two_heads_of(lambda labels: labels)),
    (  # examples of another kind
        "loss falls on fresh batches",
        lambda: regression_validated(np.random.default_rng(0).permutation, part=0),
    ),
    ("weights enter once", masses),
    ("every weight moves", key_of_frozen_weights),
    ("micro-batches", lambda: with_loss(compared_later)),
    ("learning rate", lambda: sound(data=examples(BATCH), optimizer=lambda: tenfold_drop(3))),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, SavedAverage())])),
    ("callbacks", lambda: sound(callbacks=set_rate(by_staleness))),
    ("callbacks", lambda: sound(callbacks=set_rate(lambda event: 0.1 / (1 + event.step)))),
    ("drawn codes", coded),
    ("drawn codes", lambda: coded(error=tf.reduce_mean, factor=1 / 12)),
    ("drawn codes", lambda: coded(factor=4.0)),
    ("drawn codes", lambda: coded(factor=4.0, capacity=50.0)),
    ("drawn codes", lambda: coded(deviation=tf.exp, variance=lambda spread: tf.exp(2 * spread))),
    ("drawn codes", lambda: coded(activation="tanh")),
    ("augmentation", lambda: mirrored_along(axis=0)),
    ("learning rate", lambda: rates_of_head(0.1, 0.01)),
    (
        "sizes",
        lambda: sound(
            model=model(lambda: layers.Rescaling(1 / 255)),
            data=changed(examples(), 0, lambda x: 60 * np.clip(x, 0, 4)),
        ),
    ),
    (
        "metrics",
        lambda: sound(metrics=lambda: {"top_2": metrics.SparseTopKCategoricalAccuracy(k=2)}),
    ),
    ("labels in evaluation", sound),
    ("labels in evaluation", lambda: sound(others={"validation": in_order_of_classes()})),
    ("labels in evaluation", of_one_place),
    ("missing labels", known_in_evaluation_only),
    ("missing labels", missing_labels_by_name),
    ("metrics", shares_beside_small_losses),
    ("marks", lambda: marked_labels(trained=False)),
    ("sizes", lambda: loaded_counts(early=True)),
    ("inputs matter", lambda: weak_and_strong(used=True)),
    *(
        ("adapt", lambda split=split: scaled_sets(split, of_all=False))
        for split in (lambda arrays: arrays, stream, Rows, RandomAccess)
    ),
    (
        "labels in evaluation",
        lambda: measured_by(
            lambda labels, logits: tf.where(labels > 0, labels, tf.argmin(logits, axis=1))
        ),
    ),
    ("examples apart", of_shares),
    ("parts in evaluation", lambda: counted_in_minutes(evaluated=True)),
    ("rows in two splits", lambda: repeated(lambda labels: np.arange(len(labels)) % 3 == 0)),
    ("inputs without the answer", lambda: filled_by(lambda x, y: x[:, 0])),
    ("inputs without the answer", usual_prices),
    ("augmentation", lambda: sound(augment=noisy(lambda inputs: inputs.shape))),
    ("augmentation", lambda: sound(augment=noisy(lambda inputs: ()))),
    (
        "random numbers differ",
        lambda: sound(train_steps=(step_with_noise(lambda inputs: inputs.shape),)),
    ),
    ("random numbers differ", lambda: sound(model=model(lambda: layers.GaussianNoise(0.1)))),
    ("splits alike", lambda: denoising(lambda numbers, shape: numbers.normal(size=shape))),
    ("splits alike", lambda: denoising(lambda numbers, shape: np.linspace(0, 1, shape[1]))),
    ("splits alike", lambda: denoising_itself(lambda numbers, shape: numbers.normal(size=shape))),
    ("splits alike", lambda: denoising_itself(lambda numbers, shape: np.arange(36) % 3 / 4)),
    ("logits", lambda: of_several_tags(last="sigmoid", of_probabilities=True, bound=0.5)),
    ("logits", of_several_tags),
    ("metrics", of_several_tags),
    ("metrics", lambda: of_several_tags(last="sigmoid", of_probabilities=True, bound=0.5)),
    ("logits", distilled),
    ("logits", lambda: distilled(turned=True, entropy=True)),
    ("metrics", lambda: sound(metrics=lambda: {"iou": Overlap(of_all=False)})),
    (
        "metrics",
        lambda: sound(
            metrics=score,
            train_steps=(step(update=of_one_hot),),
            validation_step=step(update=of_one_hot, training=False),
        ),
    ),
    (
        "metrics",
        lambda: sound(
            metrics=lambda: score(F1OfClasses),
            train_steps=(step(update=of_one_hot),),
            validation_step=step(update=of_one_hot, training=False),
        ),
    ),
    ("metrics", lambda: error_rate(metrics.Mean)),
    ("metrics", lambda: error_rate(ErrorRate)),
    ("metrics", lambda: binary(metrics=lambda: {"precision": PrecisionOfLogits()})),
    ("metrics", some_unknown),
    ("metrics", spread_watched),
    ("metrics", lambda: of_pairs(by_hand=False)),
    ("metrics", lambda: of_pairs(by_hand=True)),
    ("metrics", lambda: matched(counts_all=False)),
    ("drawn codes", rates_as_codes),
    ("drawn codes", lambda: coded(of_log_likelihood=True)),
    ("random numbers differ", lambda: sound(train_steps=(step_at_random_positions,))),
    ("sizes", lambda: sound(model=small_branch)),
    (
        "metrics",
        lambda: sound(metrics=lambda: {"shown": metrics.SparseTopKCategoricalAccuracy(k=2)}),
    ),
    ("labels in evaluation", margins_and_confidence),
    ("logits", noisy_labels),
    ("augmentation", frames),
    ("augmentation", lambda: of_forms(4)),
    ("augmentation", lambda: of_forms(3, following=True)),
    ("augmentation", lambda: louder(both=True)),
    ("augmentation", lambda: louder(both=False, least=0.97)),
    ("augmentation", landmarks),
    ("outputs reach the targets", lambda: bounded(10.0)),
    ("metrics", lambda: judged_by(lambda y, p: tf.square(y - p), "mse")),
    (
        "metrics",
        lambda: regression(metrics=lambda: {"rmse": metrics.RootMeanSquaredError()}),
    ),
    (
        "learning rate",
        lambda: sound(
            optimizer=lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.CosineDecayRestarts(0.1, 40, t_mul=1.0)
            )
        ),
    ),
    (
        "learning rate",
        lambda: sound(
            optimizer=lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.CosineDecay(
                    0.0, 10_000, warmup_target=0.1, warmup_steps=1
                )
            )
        ),
    ),
    (
        "learning rate",  # for snapshots
        lambda: sound(
            optimizer=lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.CosineDecayRestarts(0.1, 12, t_mul=1.0)
            )
        ),
    ),
    ("learning rate", lambda: sound(optimizer=lambda: keras.optimizers.SGD(Anew()))),
    ("learning rate", lambda: sound(optimizer=lambda: keras.optimizers.SGD(Rising(0.05, 160)))),
    (
        "learning rate",
        lambda: sound(
            optimizer=lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.CosineDecay(0.1, 160, warmup_target=0.1)
            )
        ),
    ),
    ("rows in two splits", lambda: severe_repeated(chosen=lambda y: np.arange(len(y)) % 3 == 0)),
    ("logits", lambda: sound(model=shares_of_three, losses=focal)),
    (
        "metrics",
        lambda: regression(metrics=lambda: {"root_mse": metrics.RootMeanSquaredError()}),
    ),
    ("logits", lambda: distilled(softer=(4.0, 4.0))),
    *(
        ("logits", lambda of_logits=of_logits: distilled(of_logits=of_logits))
        for of_logits in (
            divergence(3.0, 3.0, times=9.0),
            divergence(0.4, 1.0),  # a teacher is sharpened
            divergence(0.04, 0.1),
            keras.losses.MeanSquaredError(reduction="none"),
            keras.losses.CosineSimilarity(reduction="none"),
            lambda y, p: tf.reduce_mean(tf.square(0.9 * y - p), axis=-1),
        )
    ),
    ("inputs matter", lambda: replace(filled_up(20.0), model=indicated)),
    (
        "examples apart",
        lambda: sound(
            data=changed(examples(), 1, lambda y: np.where(np.arange(len(y)) == 1, 2, y % 2)),
            losses=lambda: {"main": without_logit},
        ),
    ),
    ("readers", lambda: prompted(">")),
    ("metrics", lambda: of_parts(tf.reduce_all)),
    ("metrics", lambda: of_parts(tf.reduce_all, padded=True)),
    ("learning rate", lambda: sound(optimizer=lambda: decaying("bias", "gamma", "norm"))),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, write_on_chief)])),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, write_on_first_worker)])),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, write_of_process)])),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, take_from_chief)])),
    ("callbacks", lambda: sound(callbacks=lambda: [every_epochs(1, told_by_chief)])),
    ("inputs without the answer", replicates),
    ("moving averages", lambda: averaged(0.9)),
    ("later positions", lambda: translated_from_labels(1)),
    ("augmentation", lambda: flipped_boxes(boxes_too=True)),
    ("augmentation", lambda: flipped_boxes(boxes_too=True, missing=0.5)),
    ("padded inputs", sounds_with_padding),
    ("padded inputs", lambda: with_lengths(used=True)),
    ("padded inputs", until_month),
    ("padded inputs", lambda: with_lengths(True, 5)),
    ("two replicas make the same step as one", lambda: copied_every(50)),
    ("moving averages", lambda: averaged(0.9999, trained=True)),
    ("rows in two splits", later_month),
    ("labels belong to inputs", lambda: weak_signal((FEATURES,), 20_000, 0.04)),
    ("labels belong to inputs", lambda: weak_signal((8, 8, 1), 3_000, 0.12)),
    ("sizes", lambda: only_numbers_of_examples(augmented=True)),
    ("sizes", lambda: only_numbers_of_examples(augmented=False)),
    ("rows in two splits", lambda: only_numbers_of_examples(augmented=False)),
    ("marks", logarithms_of_counts),
    ("inputs without the answer", degrees),
    ("splits alike", complete_cases),
    ("labels", of_a_new_person),
    ("labels", kinds_of_defects),
    (
        "metrics",
        lambda: sound(
            others={"validation": in_order_of_classes()},
            metrics=lambda: {"mean_recall": MeanRecall()},
        ),
    ),
]


@pytest.mark.parametrize(
    ("name", "toy"), SUSPICIOUS,
    ids=[f"{name}, {getattr(toy, '__name__', '')}" for name, toy in SUSPICIOUS],
)  # fmt: skip
def test_what_looks_wrong_is_not_accused(name: str, toy: Callable[[], Toy]) -> None:
    finding = RELATIONS[name].observe(laboratory(toy()))
    assert finding.verdict != "WRONG", finding


class F1(keras.metrics.Metric):  # type: ignore[misc]
    """A metric of detections: it takes dicts, as those of KerasCV do."""

    def __init__(self) -> None:
        super().__init__(name="f1")
        self.found = self.add_weight(shape=(2,), initializer="zeros", name="found")

    def update_state(self, labels: Any, predictions: Any, weights: Any = None) -> None:
        is_right = tf.argmax(predictions["kinds"], -1) == tf.cast(labels["kinds"], tf.int64)
        numbers = tf.stack([tf.cast(is_right, weights.dtype), tf.ones_like(weights)], 1)
        self.found.assign_add(tf.reduce_sum(numbers * weights[:, tf.newaxis], 0))

    def result(self) -> Any:
        return tf.math.divide_no_nan(self.found[0], self.found[1])


def update_with_dicts(metric: Any, labels: Any, predictions: Any, weights: Any) -> None:
    metric.update_state({"kinds": labels}, {"kinds": predictions}, weights)


def inner_loop_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """As in MAML, the loss is called first for each example by itself, inside a loop."""
    inputs, labels, weights = batch

    def adapted(example: Any) -> tf.Tensor:
        one, label = example
        return run.losses["main"](label[tf.newaxis], run.model(one[tf.newaxis]))[0]

    inner = tf.vectorized_map(adapted, (inputs, labels))
    per_example = run.losses["main"](labels, run.model(inputs, training=True)) + 0.0 * inner
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def test_a_slow_machine_accuses_no_rare_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose first batch has none: some more are looked at, whatever that takes."""
    monkeypatch.setattr("proof.engine.check.training.LONGEST_TRAINING", 0.0)
    toy = rarely_rewarded(kernel_regularizer="l2")
    assert RELATIONS["inputs matter"].observe(laboratory(toy)).verdict != "WRONG"


@pytest.mark.parametrize("drawing", [noisy_twice, product_of_draws])
def test_draws_of_two_seeds_are_not_looked_at(drawing: Callable[..., Any]) -> None:
    lab = laboratory(sound(train_steps=(drawing(same=False),), metrics=dict))
    assert RELATIONS["random numbers differ"].observe(lab).verdict == "ok"


def test_a_metric_may_take_dicts() -> None:
    toy = sound(
        metrics=lambda: {"f1": F1()},
        train_steps=(step(update=update_with_dicts),),
        validation_step=step(update=update_with_dicts, training=False),
    )
    lab = laboratory(toy)
    names = ["a train step runs", "metrics", "evaluation on two replicas", "rows of weight zero"]
    for name in names:
        assert RELATIONS[name].observe(lab).verdict == "ok", name


def test_a_loss_may_be_called_for_parts_before_the_batch() -> None:
    lab = laboratory(sound(train_steps=(inner_loop_step,), metrics=dict))
    for name in ("outputs reach the targets", "shapes"):
        finding = RELATIONS[name].observe(lab)
        assert finding.verdict == "ok", finding


@pytest.mark.parametrize("is_condition", [True, False])
def test_labels_may_be_a_condition(is_condition: bool) -> None:
    """Of a model that removes noise from numbers, and gets their class as an input beside them."""

    def create() -> keras.Model:
        inputs = {"x": keras.Input((FEATURES,), name="x"), "kind": keras.Input((), name="kind")}
        x = keras.layers.Concatenate()([inputs["x"], 1e-3 * inputs["kind"][:, None]])
        return keras.Model(inputs, dense(FEATURES)(x))

    def denoise(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        x, labels, weights = batch
        kind = tf.cast(labels, x.dtype)
        noise = tf.random.stateless_normal(tf.shape(x), replica.seed, dtype=x.dtype)
        removed = run.model({"x": x + noise, "kind": kind}, training=True)
        aim = noise if is_condition else noise + 1e-3 * kind[:, tf.newaxis]
        per_example = run.losses["main"](aim, removed)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    toy = sound(
        model=create, train_steps=(denoise,), validation_step=denoise, metrics=dict,
        losses=lambda: {"main": keras.losses.MeanSquaredError(reduction="none")},
    )  # fmt: skip
    finding = RELATIONS["loss falls on fresh batches"].observe(laboratory(toy))
    assert (finding.verdict, "condition" in str(finding)) == (
        ("ok", True) if is_condition else ("look", False)
    ), finding


def before_and_after(apart: tf.Tensor) -> tf.Tensor:
    """A one-hot vector for each time: before the first event or not."""
    return tf.one_hot(tf.cast(apart[..., 0] < 0, tf.int32), 2, dtype=apart.dtype)


def balanced_parts(apart: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The mean of each class over its times."""
    right = before_and_after(apart)
    right = 0.9 * right + 0.05
    return -tf.reduce_sum(
        right / tf.reduce_sum(right, axis=1, keepdims=True) * tf.nn.log_softmax(logits), axis=1
    )


def with_factors(apart: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Weights of classes for soft classes of each time, by class."""
    soft = tf.nn.softmax(-tf.square(apart)) * [0.3, 0.7]
    return -tf.reduce_sum(soft * tf.nn.log_softmax(logits), axis=1)


def where_events_are(apart: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The logarithms of both classes near the first event."""
    near = tf.broadcast_to(near_events(apart[..., :1]), logits.shape)
    return -tf.reduce_sum(near * tf.nn.log_softmax(logits), axis=1)


def attended_times(apart: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Each class attends to times, and is to be likely there."""
    attended = tf.nn.softmax(3 * logits, axis=1)
    return -tf.reduce_sum(attended * tf.nn.log_softmax(logits), axis=1)


def ranked(apart: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Each of two events has a rank, and each rank one event; by rank."""
    ranks = tf.one_hot(tf.argsort(apart[:, 0]), 2, dtype=apart.dtype)
    return -tf.reduce_sum(ranks * tf.nn.log_softmax(logits[:, :2]), axis=1)


def of_codes(*, of_edges: bool) -> Toy:
    """Matrices of zeros and ones: who is a neighbor of whom, or which of many things is there."""
    numbers = np.random.default_rng(0)
    if of_edges:
        upper = np.triu(numbers.random((60, 12, 12)) < 0.04, 1)
        matrices = (upper | upper.swapaxes(1, 2)).astype("float32")
    else:
        matrices = np.eye(14, dtype="float32")[numbers.integers(0, 14, (60, 12))]
    return sound(
        model=lambda: keras.Sequential(
            [keras.Input(matrices.shape[1:]), keras.layers.Flatten(), keras.layers.Dense(CLASSES)]
        ),
        data=(matrices, numbers.integers(0, CLASSES, 60)),
        others={},
    )


AS_IT_SHOULD_BE: list[tuple[str, Callable[[], Toy]]] = [
    ("adapt", scaled_both),
    ("scaled by training data", from_0_to_1),
    ("gradient penalty", lambda: balanced_by_slope(stopped=True)),
    ("metrics", graded_within_one),
    ("metrics", compared_with_copy),
    ("best outputs", mostly_healthy),
    ("metrics", lambda: logarithm_of_error("mse")),
    (
        "variables",
        lambda: with_loss(
            lambda per_example, *rest: (1 + BETA) * compute_loss(per_example, *rest),
            callbacks=lambda: [every_steps(1, raise_beta)],
        ),
    ),
    (
        "scaled by training data",
        lambda: sound(
            model=lambda: keras.Sequential([keras.Input((60,)), dense(CLASSES)]),
            data=(embeddings() * 1.3, np.arange(200) % CLASSES),
            others={"validation": (embeddings(), np.arange(200) % CLASSES)},
        ),
    ),
    ("denominator", one_labeled_row),
    ("best outputs", rarely_dies),
    ("augmentation", lambda: two_images_flipped(masks=True)),
    ("best outputs", lambda: balanced_by_uncertainty(held=True)),
    ("marks", lambda: unknown_depths(masked=True)),
    ("inputs matter", points_anywhere),
    ("best outputs", votes_of_volunteers),
    ("best outputs", lambda: rare_fraud(unknown=np.nan)),
    ("best outputs", lambda: rare_fraud(unknown=-1)),
    ("best outputs", with_bottleneck),
    ("every weight gets a gradient", lambda: slopes("tanh")),
    ("every weight gets a gradient", lambda: sound(model=model(lambda: Experts(16)))),
    ("every weight moves", lambda: sound(model=model(lambda: Experts(16)))),
    ("every weight moves", with_target_critic),
    ("learning rate", pretrained_generator),
    ("every weight gets a gradient", lambda: rebuilding_gan(tf.identity)),
    ("outputs reach the targets", with_matches),
    ("class weights", renamed_by_augmentation),
    ("labels", lambda: rarely_unknown(left_out=True)),
    ("labels", age_and_class),
    ("labels", defect_and_kind),
    ("labels are mixed", rebuilt_stream),
    ("scaled by training data", parts_of_twenty),
    ("weights in evaluation", sound),
    ("a train step runs", sparse_predictions),
    ("a train step runs", answers_of_a_module),
    ("weights in evaluation", evaluated_by_average),
    ("weights in evaluation", validated_gan),
    ("weights in evaluation", lambda: validated_by_copy(of_average=True)),
    ("weights in evaluation", headed_by_zeros),
    ("axes of data", lambda: series_of_channels(lambda x: x.transpose(0, 2, 1))),
    ("axes of data", lambda: series_of_channels(lambda x: x)),
    ("axes of data", lambda: series_of_channels(in_phases)),
    ("axes of data", lambda: series_of_channels(as_gradients)),
    ("axes of data", lambda: series_of_channels(with_an_end)),
    ("axes of data", lambda: colored(lambda x: x.transpose(0, 2, 3, 1))),
    ("axes of data", lambda: colored(lambda x: x.transpose(0, 3, 2, 1))),
    ("axes of data", lambda: colored(lambda x: x.transpose(0, 2, 3, 1), saturation=0.05)),
    ("axes of data", lambda: colored(in_bands)),
    ("augmentation", latents_beside_labels),
    *(
        ("adapt", lambda both=both, by_layer=by_layer: prices(*both, by_layer))
        for by_layer in (False, True)
        for both in ((np.log, keras.ops.log), (np.array, keras.ops.copy))
    ),
    ("metrics follow the loss", lambda: high_quantile("calibration_error")),
    ("table of predictions", lambda: counted(np.exp)),
    ("table of predictions", lambda: counted(lambda x: x, "log_rate")),
    ("table of predictions", lambda: counted(lambda x: x / np.log(10))),
    ("moving averages", lambda: averaged_with_normalization("all")),
    ("moving averages", lambda: averaged_with_normalization("copied")),
    ("class weights", lambda: spoken(lambda labels, there: there)),
    ("class weights", lambda: spoken(lambda labels, there: labels != 0, alike=True)),
    ("pairs", lambda: corrected(-1)),
    *(
        ("logits", lambda loss=loss, shares=shares: picked(loss, shares))
        for loss, shares in [
            (lambda x, p: -tf.reduce_sum(near_events(x) * tf.nn.log_softmax(p, axis=1), 1), False),
            (lambda x, p: -tf.reduce_sum(at_events(x) * tf.nn.log_softmax(p, axis=1), 1), False),
            (lambda x, p: -tf.reduce_sum(x * tf.nn.log_softmax(p, axis=1), axis=1), True),
            (lambda x, p: -tf.reduce_sum(before_and_after(x) * tf.nn.log_softmax(p), 1), False),
            (lambda x, p: tf.square(tf.reduce_sum(tf.nn.softmax(p, axis=1) * x, axis=1)), False),
            (balanced_parts, False),
            (with_factors, False),
            (where_events_are, False),
            (attended_times, False),
            (ranked, False),
        ]
    ),
    ("pairs", lambda: corrected(1, learned=True)),
    ("pairs", lambda: corrected(1, subtracted=True)),
    ("augmentation", lambda: mostly_empty(masks=0)),
    ("examples apart", lambda: overlapping([1, 2])),
    ("scaled by training data", lambda: validated(0, of_one_column)),
    ("augmentation", moved_by_layer),
    ("augmentation", bonds_left_out),
    ("augmentation", lambda: nodes_in_another_order(both=True)),
    ("augmentation", nodes_with_charges),
    ("labels", lambda: conditioned(6)),
    ("labels", lambda: conditioned(5, rare=True)),
    ("labels belong to inputs", lambda: located(lambda maps: maps)),
    ("inputs matter", lambda: timed(event_in_loss=True)),
    ("inputs matter", lambda: timed(False, partial(losses.SparseCategoricalCrossentropy, True))),
    ("inputs matter", lambda: labeled_twice("near")),
    ("inputs matter", lambda: labeled_twice("near", in_training=False)),
    ("inputs matter", lambda: labeled_twice("near", in_validation=False)),
    (
        "inputs matter",
        lambda: replace(
            labeled_twice("near", in_training=False), metrics=lambda: {"accuracy": AlwaysOne()}
        ),
    ),
    ("metrics", mean_and_deviation),
    ("adapt", scaled_by_range),
    ("adapt", lambda: scaled_by_range(far=1e4)),
    ("adapt", lambda: scaled_by_range(places=995)),
    ("adapt", of_one_level),
    ("adapt", rare_words),
    ("training mode", lambda: sound(model=model(dense, lambda: layers.Dropout(0.3)))),
    (
        "training mode",
        lambda: sound(model=model(dense, *[partial(layers.Dropout, x) for x in (0.3, 0.7)])),
    ),
    ("axes of layers", lambda: reshaped((3, 4), (4, 3))),  # shifted, as for relative positions
    ("axes of layers", lambda: reshaped((2, 4, 5), (2, 5, 4))),
    ("axes of layers", lambda: reshaped((12, 6), (6, 12))),  # pairs are joined
    ("axes of layers", lambda: reshaped((4, 6), (2, 2, 3, 2))),
    ("best outputs", lambda: of_normal(lambda error, s: 0.5 * (s + error**2 * tf.exp(-s)))),
    ("best outputs", mean_and_deviation),
    ("best outputs", lambda: of_mixture(tf.nn.log_softmax)),
    ("best outputs", lambda: overlap_alone(with_sum=True)),
    ("best outputs", lambda: regression(losses=lambda: {"main": lambda y, p: -y * p[:, 0]})),
    ("best outputs", lambda: nothing_to_see()),
    ("axes of layers", lambda: reshaped((8, 8, 48), (192, 16))),
    ("axes of layers", lambda: reshaped((4, 4, 8), (32, 4))),  # boxes at each place of a grid
    ("axes of layers", lambda: reshaped((10, 32), (10, 4, 8))),
    ("axes of layers", lambda: reshaped((12, 32), (3, 4, 32))),
    ("likelihood", lambda: of_normal(lambda error, s: s + 0.5 * (error * tf.exp(-s)) ** 2)),
    ("likelihood", lambda: of_normal(lambda error, s: 0.5 * (s + error**2 * tf.exp(-s)))),
    ("likelihood", lambda: of_normal(lambda error, s: 0.5 * (error**2 * tf.exp(s) - s))),
    # Laplace's, by its standard deviation.
    ("likelihood", lambda: of_normal(lambda error, s: s + 2**0.5 * tf.abs(error) * tf.exp(-s))),
    ("every weight moves", lambda: taught_by_copies(copy_all)),
    ("settings", sound),
    ("metrics", lambda: sound(metrics=lambda: {"balanced_accuracy": OfCounts(axis=1)})),
    ("metrics", lambda: sound(metrics=lambda: {"mean_precision": OfCounts(axis=0)})),
    ("metrics", lambda: perplexed(of_mean=True)),
    ("inputs without the answer", times_of_day),
    ("loss falls on fresh batches", weights_by_name),
    ("splits are learned alike", labels_made_of_classes),
    ("loss schedules", lambda: growing_with_run(4.0)),
    ("training mode", lambda: beside_unused("teacher", validated=True)),
    ("training mode", lambda: taught_by_copies(copy_all)),
    ("training mode", judged_by_average),
    (
        "process_gradients",
        lambda: sound(process_gradients=centralized(lambda g: range(g.shape.rank - 1))),
    ),
    ("quantiles", lambda: judged_at(1)),
    ("quantiles", lambda: judged_at(2, "upper_error")),
    ("quantiles", lambda: judged_at(2, "mae_80")),
    (
        "table of predictions",
        lambda: described(lambda model, x, y: {"confidence": -np.ptp(y, axis=1)}),
    ),
    ("table of predictions", of_distances),
    ("table of predictions", lambda: in_units(undone=True)),
    ("table of predictions", lambda: in_units(undone=False, by_step=True)),
    ("table of predictions", lambda: in_units(undone=True, missing=8)),
    ("table of predictions", lambda: in_units(undone=False, name="scaled_price")),
    (
        "table of predictions",
        lambda: described(
            lambda model, x, y: {
                "class": np.argmax(y, axis=1),
                "confidence": 100 * np.max(tf.nn.softmax(y), axis=1),
                "ids": [f"{i}" for i in np.argmax(y, axis=1)],
                "noise": np.random.default_rng().normal(size=len(y)),
                "confidence_low": y[:, 0] - 3,
                "whitened": np.ones((len(y), 2, 2, 1)) * np.max(y),
            }
        ),
    ),
    ("later positions", lambda: translated(1, corrected=0.9)),
    ("later positions", only_the_last_word),
    ("later positions", margins_of_words),
    ("loss falls on fresh batches", lambda: heads_validated(np.copy, "class")),
    ("loss falls on fresh batches", regression),
    ("loss falls on fresh batches", lambda: tags_validated(np.copy)),
    ("sizes", lambda: of_codes(of_edges=True)),
    ("sizes", lambda: of_codes(of_edges=False)),
    ("inputs without the answer", lambda: interpolated_windows(digits=1, gaps=0.0)),
    ("labels belong to inputs", lambda: labeled_in_part(0.95, of_first=0.5)),
    ("missing labels", two_heads),
    ("missing labels", lambda: labeled_numbers(left_out=True)),
    ("missing labels", lambda: labeled_numbers(left_out=True, smooth=True)),
    ("moving averages", centered),
    ("moving averages", lambda: centered(0.0)),
    ("moving averages", lambda: centered(growing)),
    ("moving averages", of_one_name),
    ("moving averages", fading),
    *(
        ("micro-batches", toy)
        for toy in (
            centered,
            fading,
            compared_with_a_queue,
            lambda: copied_every(50),
            lambda: averaged(0.9999),
            lambda: averaged(0.0),
            lambda: sound(model=model(dense, PowerIterated)),
        )
    ),
    *(
        ("micro-batches", lambda part=part: taught(average=True, part=part))
        for part in (growing_root, lambda kept, r: 1 - (1 - kept) / r.num_microbatches, whole_only)
    ),
    ("rows of weight zero", of_one_name),
    ("rows of weight zero", centered),
    ("two replicas make the same step as one", centered),
    ("pairs", lambda: all_views(masked=True)),
    ("pairs", lambda: CONTRASTIVE),
    ("pairs", near_views),
    ("random numbers differ", lambda: sound(model=of_one_seed(lambda seed: None))),
    ("random numbers differ", lambda: sound(model=whole_of_file())),
    ("validation and test alike", cooler_in_the_test),
    ("rows in two splits", lambda: of_machines(by_chance=False)),
    ("rows in two splits", lambda: of_machines(by_chance=True, later=True)),
    ("rows in two splits", lambda: of_machines(by_chance=True, numbered=True)),
    ("rows in two splits", at_times),
    ("padding", padded_paths),
    ("padding", lambda: padded_paths(by_labels=True)),
    ("padding", measured_words),
    ("metrics", lambda: judged_by(lambda y, p: y - p, "bias")),
    ("metrics", lambda: judged_by(lambda y, p: tf.math.log(tf.abs(y - p)), "log_mae")),
    ("axes of layers", lambda: convolved(layers.BatchNormalization)),
    ("axes of layers", lambda: convolved(moved_channels)),
    ("axes of layers", lambda: convolved(first=lambda: layers.BatchNormalization(axis=1))),
    ("training mode", dropped_codes),
    ("right and wrong", lambda: smoothed(0.2)),
    ("right and wrong", lambda: smoothed(0.7, near=True)),
    # Hard examples alone, of which none is of class 1.
    ("class weights", lambda: counting_some(lambda y, losses: (y != 1) & (losses > 1.1))),
    ("class weights", lambda: sound(losses=lambda: {"main": ignoring(1)})),
    ("class weights", far_apart),
    ("class weights", weighted_by_two),
    ("callbacks", lambda: sound(model=two_layers, callbacks=thawed_later)),
    ("callbacks", lambda: sound(model=two_layers, callbacks=thawed_by_epochs)),
    ("callbacks", lambda: sound(model=two_layers, callbacks=lambda: [at_step(20, freeze)])),
    ("metrics", lambda: with_step(judged_step, metrics=lambda: {"judged": Judged(0)})),
    ("loss schedules", lambda: warming_up(100)),
    ("loss schedules", lambda: with_loss(by_step)),  # without an end
    ("loss schedules", lambda: with_step(in_the_middle)),
    ("loss schedules", lambda: with_loss(plus(waving))),
    ("splits are learned alike", lambda: renumbered(0)),
    ("splits are learned alike", lambda: renumbered(0, rows=200)),
    (
        "splits are learned alike",
        lambda: replace(of_new_classes(), optimizer=lambda: keras.optimizers.Adam(0.1)),
    ),
    ("padding", labels_of_metrics),
    ("augmentation", lambda: mixed_up(exchanged=False)),
    ("rows in two splits", next_days),
    ("rows in two splits", coarse_windows),
    ("count", lambda: counted_for("all", "some")),
    ("count", lambda: counted_for("some", "some")),  # boxes that are found
    ("count", of_two_samples),
    ("count", lambda: of_class_0(lambda y, w: tf.constant(1))),  # for a term of the whole batch
    ("count", lambda: of_class_0(lambda y, w: count_of((y == 0) & (w != 0)))),
    ("denominator", of_two_samples),
    *(
        ("readers", lambda read=read: replace(read_texts(end=True), readers={".txt": read}))
        for read in (read_as_the_data, read_letters, read_with_case)
    ),
    ("adversaries", lambda: labeled_gan("wanted")),
    ("marks", days_of_short_series),
    ("inputs alike in evaluation", judged_together),
    ("marks", lambda: known_above(-900.0)),
    ("marks", lambda: filled_with_zero(before=False)),
    ("marks", lambda: filled_with_zero(before=True, masked=True)),
    ("metrics", least_squares_of_two),
    ("later positions", lambda: words_as_labels(causal, shifted_again)),
    (
        "later positions",
        lambda: words_as_labels(lambda x: causal(layers.ZeroPadding1D((1, 0))(x[:, :-1]))),
    ),
    ("outputs reach the targets", of_two_factors),
    ("outputs reach the targets", selecting),
    ("labels belong to inputs", nodes_again),
    ("logits", of_rare_cases),
    ("logits", lambda: of_rare_cases("int64")),
    ("inputs without the answer", lambda: forecast_from(1)),
    ("inputs without the answer", lambda: forecast_from(0, backward=True)),
    ("metrics", mostly_positive),
    ("metrics", mostly_negative),
    ("metrics", lambda: judged_by(lambda y, p: y - p, "mae_minus_persistence")),
    ("learning rate", lambda: sound(optimizer=lambda: of_rates([0.0, 0.1], 96))),
    ("learning rate", lambda: sound(optimizer=lambda: keras.optimizers.SGD(Named(0.05)))),
    ("learning rate", lambda: sound(callbacks=lambda: lowered(lambda epoch, rate: 0.9 * rate))),
    ("learning rate", lambda: sound(callbacks=lambda: lowered(lambda epoch: 0.1 * 0.9**epoch))),
    ("learning rate", lambda: sound(callbacks=lambda: lowered(lambda e, _: 0.1 * (1 - e / 40)))),
    ("loaded weights", lambda: sound(model=model_of_arrays(of_body=True))),
    ("later positions", lambda: next_words(lambda x: x, counted=2)),
    ("class weights", weights_of_two),
    ("class weights", lambda: weighted_labels(lambda often: 1 / often, one_hot=True)),
    (
        "class weights",
        lambda: replace(weighted_labels(lambda often: 1 / often), train_steps=(one_hot_step,)),
    ),
    ("class weights", lambda: weighted_pixels(lambda often: 1 / often)),
    ("class weights", lambda: weighted_outside(1, 2.0)),
    ("class weights", lambda: weighted_binary(lambda often: (1 - often) / often)),
    ("class weights", lambda: weighted_binary(lambda often: 1.0)),
    ("class weights", lambda: weighted_binary(lambda often: (1 - often) / often, by_data=True)),
    ("class weights", lambda: weighted_binary(lambda often: (1 - often) / often, beside=True)),
    ("class weights", logarithms_of_any),
    ("class weights", shares_of_times),
    ("inputs matter", rarely_rewarded),
    ("inputs matter", of_intervals),
    ("inputs matter", lambda: valued(lambda done: 1 - done)),
    ("loss falls on one batch", rarely_rewarded),
    *(
        (name, lambda units=units: sound(model=model(*map(partial, (dense, NoisyDense), units))))
        for name in ("micro-batches", "two replicas make the same step as one")
        for units in ((BATCH // 2, 4), (4, BATCH // 2))
    ),
    (
        "every weight moves",
        lambda: late_penalty(
            lambda step: step < 50,
            optimizer=lambda: keras.optimizers.SGD(warmed_from_0(0.05, 10)),
        ),
    ),
    (
        "every weight moves",
        lambda: sound(
            model=model(dense, layers.LayerNormalization),
            optimizer=lambda: keras.optimizers.Adam(warmed_from_0(1e-4, 10_000)),
        ),
    ),
    ("outputs reach the targets", censored),
    ("right and wrong", censored),
    ("augmentation", lambda: with_latents(0)),
    ("augmentation", lambda: with_latents(1)),
    ("augmentation", lambda: with_latents(1, named=False)),
    ("augmentation", lambda: texts_dropped(seeds=2)),
    ("metrics", predictions_first),
    ("inputs without the answer", from_those_before),
    ("rows in two splits", things_to_recommend),
    ("metrics", fraud_and_amount),
]


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # as in a run
def test_a_reader_of_bytes_is_compared_with_bytes() -> None:
    finding = RELATIONS["readers"].observe(laboratory(pictures_of_bytes()))
    assert finding.verdict == "ok", finding


@pytest.mark.parametrize(("name", "toy"), AS_IT_SHOULD_BE)
def test_what_is_as_it_should_be_is_ok(name: str, toy: Callable[[], Toy]) -> None:
    finding = RELATIONS[name].observe(laboratory(toy()))
    assert finding.verdict == "ok", finding


@pytest.mark.parametrize(
    "toy",
    [lambda: of_rare_tags("PR"), lambda: of_rare_tags(tags=12)],
    ids=["of precision and recall", "of several labels"],
)
def test_an_auc_that_is_no_half_by_chance_is_not_compared_with_it(
    toy: Callable[[], Toy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.engine.check.learning.UNLIKELY", -9.0)  # any other AUC is named
    finding = RELATIONS["metrics follow the loss"].observe(laboratory(toy()))
    assert finding.verdict == "ok", finding


def test_agreement_with_a_log_of_bad_actions_may_fall() -> None:
    def logged(rows: int, seed: int) -> Any:
        inputs, action = examples(rows, seed)
        return inputs, {"action": action, "reward": np.float32(np.arange(rows) % 8 == 0)}

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        predictions = run.model(inputs, training=True)
        run.metrics["accuracy"].update_state(labels["action"], predictions, weights)
        advantage = tf.cast(labels["reward"], predictions.dtype) - 0.9
        probability = tf.gather(tf.nn.softmax(predictions), labels["action"], batch_dims=1)
        score = tf.math.log(probability + 0.01)
        return {"main": compute_loss(-advantage * score, weights, run.model, replica)}

    toy = sound(
        data=logged(120, 11), others={"validation": logged(60, 2)},
        train_steps=(one_step,), validation_step=one_step,
    )  # fmt: skip
    finding = RELATIONS["metrics follow the loss"].observe(laboratory(toy))
    assert finding.verdict == "look", finding


def test_an_auc_is_wrong_only_where_that_of_training_is_too() -> None:
    toy = scored(tf.sigmoid)
    toy = replace(toy, others={"validation": changed(toy.others["validation"], 1, lambda y: 1 - y)})
    finding = RELATIONS["metrics follow the loss"].observe(laboratory(toy))
    assert finding.verdict == "look", finding
    assert "rank the wrong way round" in str(finding)


def test_rounding_is_no_part_of_a_loss() -> None:
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def create_model() -> keras.Model:  # all examples have the same losses
        x = keras.Input((FEATURES,))
        heads = {"class": CLASSES, "even": 2}
        return keras.Model(
            x, {n: dense(k, kernel_initializer="zeros")(x) for n, k in heads.items()}
        )

    # Of many factors, one with which the loss without some labels differs by rounding as sums do.
    toy = replace(
        two_heads(), model=create_model, losses=lambda: {"main": lambda y, p: 2.63 * entropy(y, p)}
    )
    finding = RELATIONS["missing labels"].observe(laboratory(toy))
    assert finding.verdict == "ok", finding


def test_a_regularization_that_is_lost_in_rounding_is_not_looked_at() -> None:
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    hidden = partial(dense, kernel_regularizer=keras.regularizers.L2(1e-5))
    toy = regression(model=model(hidden, last=lambda: dense(1)))
    toy = replace(toy, data=changed(toy.data, 1, lambda y: 1000 * y + 10_000))
    finding = RELATIONS["regularization"].observe(laboratory(toy))
    assert finding.verdict == "ok", finding
    assert not finding.was_looked_at


def test_names_of_distances_say_which_way_is_better() -> None:
    lab = laboratory(sound(metrics=lambda: {"frechet": metrics.Mean()}))
    assert lab.larger_is_better("frechet") is False


@dataclass(frozen=True)
class Folded(TaskConfig):
    """A task of several folds."""

    fold: int = 0


def test_folds_may_follow_each_other_in_time() -> None:
    inputs, labels = examples(300)

    def rolling(task: Any) -> dict[str, Any]:
        at = 200 + 7 * task.fold
        parts = {"train": slice(at), "test": slice(at, at + 28)}
        return {split: (inputs[rows], labels[rows]) for split, rows in parts.items()}

    lab = laboratory(replace(sound(), create_datasets=rolling), task=Folded())
    finding = RELATIONS["rows in two splits"].observe(lab)
    assert finding.verdict == "ok", finding


@pytest.mark.parametrize("is_anew", [False, True])
def test_folds_are_parts_of_one_order(is_anew: bool) -> None:
    inputs, labels = examples(300)

    def folds(task: Any) -> dict[str, Any]:
        order = np.random.default_rng(task.fold * is_anew).permutation(300)
        is_test = np.arange(300) % 5 == task.fold
        parts = {"train": order[~is_test][60:], "validation": order[~is_test][:60]}
        parts["test"] = order[is_test]
        return {split: (inputs[rows], labels[rows]) for split, rows in parts.items()}

    lab = laboratory(replace(sound(), create_datasets=folds), task=Folded())
    finding = RELATIONS["rows in two splits"].observe(lab)
    assert (finding.verdict == "WRONG") == is_anew, finding
    assert not is_anew or "test examples of --fold 0" in str(finding)


def test_a_skill_may_be_better_on_either_side() -> None:
    toy = sound(metrics=lambda: {"skill": metrics.Mean()}, others={"validation": examples(60, 2)})
    lab = laboratory(toy)
    assert lab.larger_is_better("skill") is None
    assert lab.larger_is_better("accuracy_gap") is None
    assert lab.larger_is_better("fpr_at_95_recall") is None
    assert lab.larger_is_better("deviance_explained") is None
    for name in ("neg_mse", "negative_mae", "false_match_rate", "wer_reduction", "rmse_vs_naive"):
        assert lab.larger_is_better(name) is None, name
    assert lab.larger_is_better("val_acc") is True
    assert lab.larger_is_better("miou") is True
    assert lab.larger_is_better("pinball") is False


def test_two_images_show_no_places() -> None:
    """Any two numbers are on a line with where the images show something."""
    images, labels = spots(0.0).data
    toy = replace(spots(0.0), data=(images, np.random.default_rng(0).permutation(labels)))
    finding = RELATIONS["augmentation"].observe(laboratory(toy, global_batch_size=2))
    assert finding.verdict != "WRONG", finding


def test_a_gap_may_be_larger_where_predictions_are_right() -> None:
    toy = judged_by(lambda labels, predictions: predictions * tf.sign(labels), "parity")
    task = TaskConfig(monitor="validation_parity", larger_is_better=False)
    finding = RELATIONS["monitor"].observe(laboratory(toy, task=task))
    assert finding.verdict == "look", finding


def test_a_variable_of_a_loss_that_is_not_saved_is_found() -> None:
    class Forgets:
        def __init__(self) -> None:
            self.raised = tf.Variable(0.0)

        def __call__(self, event: Event) -> None:
            self.raised.assign_add(0.1)
            event.run.losses["main"].factor.assign(self.raised)

    toy = sound(losses=lambda: {"main": Poly()}, callbacks=lambda: [every_epochs(1, Forgets())])
    finding = RELATIONS["callbacks"].observe(laboratory(toy))
    assert finding.verdict == "WRONG", finding
    assert "in a run that is resumed" in str(finding)


def test_models_that_share_layers_are_not_accused() -> None:
    steps = {"train_steps": (step_of("whole"),), "validation_step": step_of("whole")}
    lab = laboratory(sound(model=shared_models, **steps))
    found = dict(check(lab, select()))
    assert not {claim: str(f) for claim, f in found.items() if f.verdict != "ok"}


def nothing_to_see() -> Toy:
    """A step that computes its loss by itself of inputs alone, and nothing beside it."""

    def own(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, weights = batch
        per_example = tf.reduce_mean(tf.square(run.model(inputs, training=True) - 1), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(data=(examples()[0],), train_steps=(own,), others={}, losses=dict, metrics=dict)


NOT_THERE = (
    "missing labels", "first loss", "right and wrong", "regularization", "moving averages",
    "metrics follow the loss", "pairs", "outputs reach the targets", "metrics", "later positions",
    "padding", "padded tokens", "evaluation again", "evaluation on two replicas",
    "evaluation in other batches", "padded inputs", "every example once",
    "evaluation changes nothing", "evaluation mode", "labels in evaluation",
    "validation and test alike", "inputs alike in evaluation", "evaluation knows no step",
    "noise averages out", "inputs as they are", "readers", "callbacks",
)  # fmt: skip
TOO_LITTLE: list[tuple[Callable[[], Toy], tuple[str, ...]]] = [
    (nothing_to_see, NOT_THERE),
    (lambda: with_loss(lambda *given: 0 * compute_loss(*given)), ("denominator",)),
    (sound, ("evaluation mode", "padded inputs", "padded tokens", "missing labels")),
    (lambda: GAN, ("examples apart in evaluation", "inputs as they are", "readers")),
]


@pytest.mark.parametrize(("toy", "names"), TOO_LITTLE)
def test_where_nothing_is_looked_at_it_says_so(
    toy: Callable[[], Toy], names: tuple[str, ...]
) -> None:
    lab = laboratory(toy())
    looked_at = {n: f for n in names if (f := RELATIONS[n].observe(lab)).was_looked_at}
    assert not looked_at


def test_what_is_looked_at_is_not_said_not_to_be() -> None:
    names = (
        "denominator", "first loss", "right and wrong", "labels in evaluation", "examples apart",
        "examples apart in evaluation", "predictions differ", "inputs as they are",
        "inputs alike in evaluation", "outputs reach the targets", "metrics", "monitor",
    )  # fmt: skip
    lab = laboratory(sound())
    assert not {n: f for n in names if not (f := RELATIONS[n].observe(lab)).was_looked_at}


def test_a_step_may_refuse_parts_that_do_not_belong_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def observe(lab: Any) -> Any:
        assert lab.base.finite
        turned = lab.batch[1]["first"][:, ::-1]
        return lab.look(with_array(lab.batch, "labels['first']", turned))

    monkeypatch.setitem(RELATIONS, "shapes", RELATIONS["shapes"]._replace(observe=observe))
    ((name, finding),) = check(laboratory(of_intervals()), ["shapes"])
    assert (name, finding.verdict) == ("shapes", "look"), finding
    assert "can't be looked at" in str(finding)


@pytest.mark.parametrize(
    ("toy", "verdict"),
    [
        (lambda: sound(model=model(partial(Seldom, 1e-9))), "look"),
        (lambda: sound(model=model(lambda: Experts(16))), "look"),
        (lambda: sound(model=model(partial(Seldom, 1e-9), Unused)), "WRONG"),
        (lambda: late_penalty(lambda step: step > 150), "ok"),
    ],
    ids=["seldom drawn", "seldom chosen", "unused", "late"],
)
def test_little_time_says_less_of_weights_without_gradient(
    toy: Callable[[], Toy], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.engine.check.laboratory.secs_of_work", lambda: Counted(0))
    finding = RELATIONS["every weight gets a gradient"].observe(laboratory(toy()))
    assert finding.verdict == verdict, finding


class Counted:
    """Seconds that grow with each step, until the time is over."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self) -> float:
        self.left -= 1
        return 9.0 if self.left < 0 else 0.0


@pytest.mark.parametrize(("steps", "verdict"), [(3, "look"), (100, "WRONG")])
def test_too_few_steps_say_nothing_of_labels(
    steps: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.engine.check.runs.secs_of_work", lambda: Counted(steps))
    lab = laboratory(sound(data=(examples(300)[0], examples(300, 5)[1]), others={}))
    finding = RELATIONS["labels belong to inputs"].observe(lab)
    assert (finding.verdict, finding.seen[:24]) == (verdict, "neither an input feature")


@pytest.mark.parametrize(("steps", "verdict"), [(3, "look"), (100, "WRONG")])
def test_too_few_steps_say_nothing_of_metrics(
    steps: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proof.engine.check.runs.secs_of_work", lambda: Counted(steps))
    toy = sound(
        metrics=lambda: {"accuracy": Turned()}, optimizer=lambda: keras.optimizers.Adam(0.1)
    )
    finding = RELATIONS["metrics follow the loss"].observe(laboratory(toy))
    assert (finding.verdict, finding.seen[:14]) == (verdict, "the loss falls")


def test_a_warm_up_is_shortened_to_judge_what_is_learned() -> None:
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, 3000, warmup_target=0.01, warmup_steps=900
    )
    lab = laboratory(sound(optimizer=lambda: keras.optimizers.Adam(schedule)), epochs=1000)
    assert RELATIONS["loss falls on fresh batches"].observe(lab).verdict == "ok"
    assert lab.learns_labels
    assert lab.has_trained_enough
    assert lab.run.optimizers["main"]._learning_rate is schedule


def test_tiny_steps_say_nothing_of_labels() -> None:
    unrelated = examples(300)[0], examples(300, 5)[1]
    toy = sound(data=unrelated, others={}, optimizer=lambda: keras.optimizers.SGD(1e-5))
    lab = laboratory(toy)
    assert RELATIONS["labels belong to inputs"].observe(lab).verdict == "look"
    finding = RELATIONS["loss falls on fresh batches"].observe(lab)
    assert (finding.verdict, finding.was_looked_at) == ("ok", False)


def test_magnitudes_of_complex_numbers_are_no_gradients() -> None:
    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        x = keras.ops.sqrt(keras.ops.square(x[:, :2]) + keras.ops.square(x[:, 2:4]) + 1e-6)
        return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))

    assert RELATIONS["gradient penalty"].observe(laboratory(sound(model=model))).verdict == "ok"


def test_numbers_that_differ_look_different() -> None:
    assert told_apart(1.0, 2.0) == ("1", "2")
    assert told_apart(165.31, 165.32) == ("165.31", "165.32")
    assert told_apart(0.1, 0.1 + 1e-7) == ("0.1", "0.1000001")


def test_waiting_for_others_counts_a_little() -> None:
    spent = secs_of_work()
    time.sleep(0.3)
    assert 0.1 <= spent() < 0.25


def slope_of(model: keras.Model, x: tf.Tensor, training: bool) -> tf.Tensor:
    """The square of what is left of the equation u' = -u, (batch,)."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = model(x, training=training)
    return tf.square(tape.gradient(u, x)[:, 0] + u[:, 0])


def slope_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """Nothing is compared with labels in training."""
    x, _, weights = batch
    left = run.losses["main"](run.model, x, training=True)
    return {"main": compute_loss(left, weights, run.model, replica)}


def test_a_loss_that_gets_the_model_is_not_accused() -> None:
    x = np.linspace(0, 2, ROWS, dtype="float32")[:, np.newaxis]
    toy = with_step(
        slope_step,
        data=(x, np.exp(-x[:, 0])),
        model=lambda: keras.Sequential(
            [keras.Input((1,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]
        ),
        losses=lambda: {"main": slope_of},
        metrics=dict,
        others={},
    )
    found = dict(check(laboratory(toy), select()))
    assert not {claim: str(f) for claim, f in found.items() if f.verdict == "WRONG"}
    assert found["a train step runs"].verdict == "ok"


@pytest.mark.parametrize("name", ["data is finite", "labels are mixed"])
def test_an_endless_stream_may_have_other_shares_than_validation(name: str) -> None:
    balanced = stream(changed(examples(), 1, lambda y: np.arange(len(y)) % 2)).repeat()
    natural = changed(examples(60, 2), 1, lambda y: np.where(np.arange(60) % 10, 1, 2))
    lab = laboratory(sound(data=balanced, others={"validation": natural}), steps=40)
    finding = RELATIONS[name].observe(lab)
    assert finding.verdict == "ok", finding


def test_the_seed_of_a_run_orders_no_data() -> None:
    """The order of a shuffle of tf.data follows from the global seed too, which `run.py` sets."""
    stream = tf.data.Dataset.from_tensor_slices(examples())
    once = {"seed": 4, "reshuffle_each_iteration": False}
    tf.random.set_seed(7)
    lab = laboratory(sound(data=lambda: stream.shuffle(ROWS, **once)))
    assert lab.run
    finding = RELATIONS["the same data again"].observe(lab)
    assert finding.verdict == "ok", finding


def in_order_of_labels(labels: np.ndarray, classes: int = CLASSES) -> Toy:
    """A stream in the order of its labels, of which validation has each as often."""
    return sound(
        model=model(last=lambda: dense(classes)), data=stream((examples(len(labels))[0], labels)),
        others={"validation": (examples(60, 2)[0], np.resize(np.unique(labels), 60))},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "read", "toy", "verdict"),
    [
        ("labels", 60, lambda: in_order_of_labels(np.arange(300) // 100), "ok"),
        ("labels", 150, lambda: in_order_of_labels(np.arange(300) // 100), "ok"),
        ("labels are mixed", 60, lambda: in_order_of_labels(np.arange(300) // 100), "ok"),
        # The first batches have not all of them.
        ("labels", 60, lambda: in_order_of_labels(np.arange(300) // 298), "look"),
        ("labels", 60, lambda: in_order_of_labels(np.arange(300) // 10, 30), "look"),
    ],
    ids=["one of three", "two of three", "mixed", "a rare one", "many"],
)
def test_a_stream_of_which_little_is_read_may_be_in_the_order_of_its_labels(
    name: str, read: int, toy: Callable[[], Toy], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shuffle mixes more than is read in time."""
    monkeypatch.setattr("proof.engine.check.runs.EXAMPLES_READ", read)
    finding = RELATIONS[name].observe(laboratory(toy()))
    assert finding.verdict == verdict, finding


def test_large_data_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the data itself, which may be as large as memory."""
    numbers = np.random.default_rng(1)
    pictures = numbers.integers(0, 256, (30, 128, 128, 3), "uint8")
    monkeypatch.setattr(scales, "MOST_NUMBERS", 100_000)
    monkeypatch.setattr(neighbors, "MOST_NUMBERS", 100_000)

    def used(function: Callable[..., Any], *arguments: Any) -> float:
        tracemalloc.start()
        try:
            function(*arguments)
            return tracemalloc.get_traced_memory()[1] / pictures.nbytes
        finally:
            tracemalloc.stop()

    split = {"inputs": pictures, "labels": np.arange(30) % 2}
    assert used(neighbors.points, {"train": split}) < 2
    rows = neighbors.Points(numbers.normal(size=(4_000, 2)), np.arange(4_000) % 2)
    assert used(neighbors.tell_nothing, rows) < 2
    for x in (pictures, pictures.astype("float32")):
        assert used(scales._compared, "inputs", "validation", x, x[:10], None) < 2


def test_the_loss_of_a_generator_with_targets_may_select_weights() -> None:
    task = TaskConfig(monitor="validation_generator_loss", larger_is_better=False)
    verdicts = [
        RELATIONS["monitor"].observe(laboratory(pix2pix(False, targets), task)).verdict
        for targets in (True, False)
    ]
    assert verdicts == ["look", "WRONG"]


def test_what_needs_a_graph_has_no_schedule_that_is_looked_at() -> None:
    finding = RELATIONS["loss schedules"].observe(laboratory(sound(
        train_steps=(warmed_up_in_a_graph,), validation_step=step(training=False))))  # fmt: skip
    assert (finding.verdict, finding.was_looked_at) == ("ok", False)
