"""`check` names the fault of a toy that has one, and finds none in a sound one."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import proof.engine.check
import proof.run
import proof.task.data
import pytest
import tensorflow as tf
from conftest import files, python_m
from proof.__main__ import Check
from proof.config import Config
from proof.engine.callbacks import Event, every_epochs, every_secs, every_steps, every_validation
from proof.engine.check import RELATIONS, Finding, _observe, check, explain, made_again, scales
from proof.engine.check.data import _other_shares, _turned_images
from proof.engine.check.numbers import hashes_of
from proof.engine.check.overlaps import _columns_of_both
from proof.engine.check.scales import _worst_column
from proof.engine.errors import UsageError
from proof.engine.keras_callbacks import keras_callback
from proof.engine.random_access import RandomAccess
from proof.engine.relations import select
from proof.engine.types import Replica, Run
from proof.task.config import TaskConfig
from proof.task.losses import compute_loss

from . import ROOT, project
from .faulty import (
    FAULTS,
    ROWS,
    Dropped,
    Fault,
    Known,
    Patient,
    Perplexity,
    PowerIterated,
    Slower,
    adapted_to,
    answered,
    as_shares,
    asked_loss,
    at_random,
    by_place,
    candidates,
    changed,
    completed,
    composed,
    cropped,
    dense,
    densities,
    dropped_out,
    examples,
    few_labels,
    filled_up,
    flipped,
    focal_of_pixels,
    frozen_model,
    gan_of_latents,
    gan_with,
    gauges,
    good_enough,
    histories,
    judged_by,
    judged_by_average,
    late_penalty,
    least_squares_gan,
    mapped_weights,
    masked_contrastive_step,
    masked_sets,
    mirrored,
    mixed_up,
    model,
    model_of_file,
    next_words,
    noisy_gan,
    noisy_step,
    noisy_views,
    of_numbers,
    padded_words,
    parts_of_one_graph,
    parts_of_recordings,
    pictures,
    put,
    raised,
    ranked,
    ranked_sets,
    read_texts,
    recordings,
    regression,
    regularized,
    rolled,
    sampled,
    sampling_step,
    scaled_together,
    segmented,
    series_that_drops,
    shares_or_unknown,
    sharpness_aware,
    shown,
    slower_first_layer,
    sound,
    speckled,
    step,
    stopped_early,
    stream,
    taught,
    texts,
    topics,
    trees,
    turned_over,
    two_views,
    validated_gan,
    weighted_by_class,
    weights_of_words,
    windows,
    with_loss,
    with_one_number,
    with_perplexity,
    with_several_labels,
    with_two_losses,
    with_unused_mask,
    within,
    words_dropped,
    zeros_for_missing,
)
from .toys import BATCH, CLASSES, FEATURES, Toy, create_run, laboratory, strategy_of
from .worked import CONTRASTIVE, GAN, parts, tokens

# Keras warns of some of these faults.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not represent logits"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]


QUICK = ("splits alike", "shapes", "denominator", "learning rate")
MARKED = [
    pytest.param(fault, marks=pytest.mark.quick if fault.relation in QUICK else ())
    for fault in FAULTS
]


@pytest.mark.quick
@pytest.mark.parametrize("name", [n for n in RELATIONS if n != "settings"])  # has files, below
def test_every_relation_has_a_faulty_toy(name: str) -> None:
    assert name in {fault.relation for fault in FAULTS}


@pytest.mark.parametrize("fault", MARKED, ids=lambda fault: f"{fault.relation}: {fault.says}")
def test_a_fault_is_named(fault: Fault) -> None:
    finding = RELATIONS[fault.relation].observe(laboratory(fault.toy(), **fault.flags))
    assert finding.verdict == fault.verdict, finding
    assert re.search(fault.says, str(finding)), finding


def findings(toy: Toy, **flags: object) -> dict[str, str]:
    """The findings that aren't "ok", by relation, without that of time: machines are busy."""
    found = check(laboratory(toy, **flags), [n for n in select() if n != "data keeps up"])
    return {name: str(finding) for name, finding in found if finding.verdict != "ok"}


class AddsLoss(keras.layers.Layer):
    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(name="scale", shape=(shape[-1],), initializer="ones")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        self.add_loss(0.1 * tf.reduce_sum(tf.square(self.scale)))
        return x * self.scale


def counts_for_losses_and_terms() -> Toy:
    """No count is the sum of all."""

    def counted_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        counts = replica.global_count
        losses = step()(run, batch, replica._replace(global_count=counts["main"]))
        share = tf.cast(counts["main"] / counts["twice"], losses["main"].dtype)
        return {**losses, "twice": losses["main"] * share}

    def count(batch: Any) -> dict[str, tf.Tensor]:
        counted = tf.math.count_nonzero(batch[-1], dtype=tf.int32)
        return {"main": counted, "twice": 2 * counted}

    steps: dict[str, Any] = {"train_steps": (counted_step,), "validation_step": counted_step}
    return sound(count=count, terms=("twice",), **steps)


def two_counts_of_one_loss() -> Toy:
    """A loss of two parts, of which one has fewer labels."""

    def parts_of(batch: Any) -> dict[str, tf.Tensor]:
        _, labels, weights = batch
        return {"all": weights, "some": weights * tf.cast(labels > 0, weights.dtype)}

    def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        per_example = run.losses["main"](batch[1], run.model(batch[0]))
        total = tf.zeros([], per_example.dtype)
        for name, weights in parts_of(batch).items():
            count = tf.cast(replica.global_count[name], weights.dtype)
            total += tf.reduce_sum(per_example * weights) / count
        return {"main": total}

    return sound(
        count=lambda batch: {
            name: tf.math.count_nonzero(weights, dtype=tf.int32)
            for name, weights in parts_of(batch).items()
        },
        train_steps=(one_step,),
        validation_step=one_step,
        metrics=dict,
    )


def autoencoder() -> Toy:
    def rebuild(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, weights = batch
        per_example = tf.reduce_mean(tf.square(run.model(inputs) - inputs), axis=1)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    return sound(
        model=model(dense, last=lambda: dense(FEATURES)),
        data=examples()[:1],
        others={"validation": examples(60, 2)[:1]},
        train_steps=(rebuild,),
        validation_step=rebuild,
        losses=dict,
        metrics=dict,
    )


def unusual_augment(batch: Any, seed: tf.Tensor) -> Any:
    inputs, *others = batch
    return (inputs + 0.1 * tf.random.stateless_normal(tf.shape(inputs), seed), *others)


def outputs_and_rows(number: int) -> Toy:
    """As many numbers to predict for each example."""
    inputs, _ = examples()
    others, _ = examples(60, 2)
    return regression(
        model=model(last=lambda: dense(number)),
        data=(inputs, inputs[:, :number]),
        others={"validation": (others, others[:, :number])},
        losses=lambda: {"main": lambda y, p: tf.reduce_mean(tf.square(p - y), axis=1)},
        metrics=lambda: {"error": keras.metrics.MeanSquaredError()},
    )


def one_optimizer_for_two_models() -> Toy:
    """An encoder and a decoder that one step trains."""

    def create() -> dict[str, keras.Model]:
        return {
            "encoder": keras.Sequential([keras.Input((FEATURES,)), dense()]),
            "decoder": keras.Sequential([keras.Input((4,)), dense(3)]),
        }

    def both(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        code = run.models["encoder"](inputs, training=True)
        predictions = run.models["decoder"](code, training=True)
        per_example = run.losses["main"](labels, predictions)
        return {"main": tf.nn.compute_average_loss(
            per_example, sample_weight=weights, global_batch_size=replica.global_count
        )}  # fmt: skip

    return sound(model=create, train_steps=(both,), validation_step=both, metrics=dict)


def sampled_code() -> Toy:
    """A decoder that is given samples in training, and in evaluation their mean."""
    toy = one_optimizer_for_two_models()

    def step_of(training: bool) -> Callable[..., Any]:
        def one_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
            inputs, labels, weights = batch
            code = run.models["encoder"](inputs, training=training) / 3
            if training:
                code += tf.random.stateless_normal(code.shape, replica.seed, dtype=code.dtype)
            predictions = run.models["decoder"](code, training=training)
            return {"main": tf.nn.compute_average_loss(
                run.losses["main"](labels, predictions), sample_weight=weights,
                global_batch_size=replica.global_count,
            )}  # fmt: skip

        return one_step

    return replace(toy, train_steps=(step_of(True),), validation_step=step_of(False))


def shared_dropout() -> Toy:
    """Two models with one layer of one's own that cares about training."""
    toy = sampled_code()

    def create() -> dict[str, keras.Model]:
        shared = Dropped(made_up=True)
        models = toy.model()
        return {
            name: keras.Sequential([keras.Input(inner.input_shape[1:]), *inner.layers, shared])
            for name, inner in models.items()
        }

    return replace(toy, model=create, optimizer=lambda: keras.optimizers.Adam(0.03))


def divided() -> Toy:
    """Training and validation data are parts of one source."""
    whole = RandomAccess(examples(120))
    parts = whole.select(np.arange(60)), whole.select(np.arange(60, 120))
    return sound(data=parts[0], others={"validation": parts[1]})


def freeze(event: Event) -> None:
    event.run.model.layers[0].trainable = False


def by_value(shape: Any, dtype: Any = None) -> Any:
    """Weights that were trained elsewhere."""
    return tf.reshape(tf.linspace(-1.0, 1.0, int(np.prod(shape))), shape)


def each_by_itself(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """A step that computes the loss of each example in a loop."""
    inputs, labels, weights = batch

    def of_one(example: Any) -> tf.Tensor:
        one, label = example
        logits = run.model(one[tf.newaxis], training=True)
        return run.losses["main"](label[tf.newaxis], logits)[0]

    per_example = tf.map_fn(of_one, (inputs, labels), fn_output_signature=inputs.dtype)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


@dataclass(frozen=True, kw_only=True)
class Falling(TaskConfig):
    """The flags of a task whose learning rate falls after a share of the run."""

    second_drop: float = 0.8


SOUND: dict[str, tuple[Callable[[], Toy], dict[str, Any]]] = {
    "plain": (sound, {}),
    "dropout": (lambda: dropped_out(training=True), {}),
    "batch normalization": (lambda: sound(model=model(keras.layers.BatchNormalization)), {}),
    "add_loss": (lambda: sound(model=model(AddsLoss)), {}),
    "weight decay": (
        lambda: sound(optimizer=lambda: keras.optimizers.AdamW(0.05, weight_decay=0.1)),
        {},
    ),
    "regularizers": (lambda: regularized(loss=compute_loss), {}),
    "numbers to predict": (regression, {}),
    "an error that falls with the loss": (
        lambda: regression(
            metrics=lambda: {"error": keras.metrics.MeanAbsoluteError()},
            train_steps=(step(update=of_numbers),),
            validation_step=step(update=of_numbers),
        ),
        {"task": TaskConfig(monitor="validation_error", larger_is_better=False)},
    ),
    "a share that selects": (
        lambda: judged_by(within, "within_1"),
        {"task": TaskConfig(monitor="validation_within_1", larger_is_better=True)},
    ),
    "a loss that selects": (
        sound,
        {"task": TaskConfig(monitor="validation_loss", larger_is_better=False)},
    ),
    "tokens that tell a topic": (topics, {}),
    "pictures": (pictures, {}),
    "a run that Keras ends": (stopped_early, {}),
    "as many outputs as rows": (lambda: outputs_and_rows(4), {"global_batch_size": 4}),
    "words that follow each other": (
        lambda: next_words(lambda x: keras.layers.Conv1D(8, 2, padding="causal")(x)),
        {},
    ),
    "parts that count, and terms": (lambda: parts(96), {}),
    "two models and optimizers": (lambda: GAN, {}),
    "adversaries with validation data": (validated_gan, {}),
    "a layer that two models share": (shared_dropout, {}),
    "samples in training alone": (sampled_code, {}),
    "two models and one optimizer": (one_optimizer_for_two_models, {}),
    "a count for each loss and term": (counts_for_losses_and_terms, {}),
    "two counts of one loss": (two_counts_of_one_loss, {}),
    "words that count": (tokens, {}),
    "weights of several axes": (weights_of_words, {}),
    "streams": (
        lambda: sound(data=stream(examples()), others={"validation": stream(examples(60, 2))}),
        {},
    ),
    "parts of the same arrays": (divided, {}),
    "texts": (texts, {}),
    "no validation data": (lambda: sound(others={}), {}),
    "no labels": (autoencoder, {}),
    "a frozen layer with weights from elsewhere": (
        lambda: sound(model=frozen_model(lambda: by_value)),
        {},
    ),
    "an odd batch size": (sound, {"global_batch_size": 23}),
    "one row": (sound, {"global_batch_size": 1}),
    "a state that begins at random": (
        lambda: sound(model=model(last=lambda: keras.layers.SpectralNormalization(dense(CLASSES)))),
        {},
    ),
    "one batch for each replica": (sound, {"global_batch_size": None, "batch_size_per_replica": 7}),
    "padded batches": (sound, {"global_batch_size": 36, "last_batch": "pad"}),
    "a batch larger than the data": (sound, {"global_batch_size": 100, "last_batch": "pad"}),
    "augmentation": (lambda: sound(augment=unusual_augment), {}),
    "words and padding": (lambda: padded_words(masked=True), {}),
    "two steps of the discriminator for each of the generator": (
        lambda: replace(validated_gan(), train_steps=(GAN.train_steps[0], *GAN.train_steps)),
        {},
    ),
    "a GAN of least squares": (least_squares_gan, {}),
    "critic of a Wasserstein GAN": (lambda: gan_with(lambda real, made: made - real), {}),
    "rows that are left out and made up for": (
        lambda: sound(model=model(dense, lambda: Dropped(made_up=True))),
        {},
    ),
    "batches that are left out and made up for": (
        lambda: sound(model=model(dense, lambda: Dropped(made_up=True, whole=True))),
        {},
    ),
    "windows of a series that is divided by time": (
        lambda: windows(lambda rows: (rows[:300], rows[310:])),
        {},
    ),
    "a norm that a layer finds while training": (
        lambda: sound(model=model(dense, PowerIterated)),
        {},
    ),
    "a teacher that is an average of its student": (lambda: taught(average=True), {}),
    "windows of other recordings": (lambda: recordings(apart=True), {}),
    "labels among those of the batch": (candidates, {}),
    "a number that a mean keeps": (
        lambda: sound(
            train_steps=(step(mean=lambda metric, _: metric.update_state(0.5)),),
            validation_step=step(mean=lambda metric, _: metric.update_state(0.5), training=False),
            metrics=lambda: {"share": keras.metrics.Mean()},
        ),
        {},
    ),
    "missing values that become a mean": (lambda: filled_up(20.0), {}),
    "missing values that have an input of their own": (lambda: filled_up(0.0, told=True), {}),
    "mixup": (lambda: mixed_up(exchanged=False), {}),
    "a mask of what sets hold": (lambda: masked_sets(keys=True), {}),
    "an input that hardly matters yet": (lambda: with_unused_mask(2e-4), {}),
    "weights for what is left out": (lambda: sampled(lambda share: 1 / share), {}),
    "parts of a few recordings": (parts_of_recordings, {}),
    "boxes that are mirrored": (lambda: mirrored(new_sides=True), {}),
    "a ranking of what sets hold": (lambda: ranked_sets(masked=True), {}),
    "several labels": (lambda: with_several_labels("sigmoid"), {}),
    "several labels of which any will do": (
        lambda: with_several_labels("softmax", any_is_right=True),
        {},
    ),
    "few labels": (few_labels, {}),
    "rare classes that weigh more": (
        lambda: sound(data=weighted_by_class(), others={}),
        {},
    ),
    "a last layer that starts at 0": (
        lambda: sound(model=model(dense, last=lambda: dense(CLASSES, kernel_initializer="zeros"))),
        {},
    ),
    "a number for missing places that the model knows": (
        lambda: series_that_drops(0, masked=True),
        {},
    ),
    "columns on scales of their own": (lambda: adapted_to(np.var), {}),
    "a body from a file": (lambda: sound(model=model_of_file(lambda body: body)), {}),
    "data scaled by that of training": (
        lambda: scaled_together(lambda x: (x - x[:ROWS].mean(0)) / x[:ROWS].std(0)),
        {},
    ),
    "parts of pictures that don't overlap": (lambda: cropped(16), {}),
    "images of pieces of their own": (lambda: composed(200, 60), {}),
    "images of the same few letters": (lambda: composed(9), {}),
    "a mark of missing values that the model knows": (
        lambda: sound(
            model=model(Known), data=changed(examples(), 0, put((slice(3), 2), -999)), others={}
        ),
        {},
    ),
    "a reader of pictures": (lambda: shown(0.0), {}),
    "a reader of texts": (lambda: read_texts(end=True), {}),
    "a stream that is mixed": (lambda: sound(data=stream(examples())), {}),
    "a loss with an attribute": (asked_loss, {}),
    "a smaller rate for some gradients": (
        lambda: sound(process_gradients=slower_first_layer(0.1)),
        {},
    ),
    "weights of pixels that are moved with them": (lambda: mapped_weights(moved=True), {}),
    "a plateau of an accuracy": (
        lambda: sound(callbacks=lambda: [every_validation(Patient(-1))]),
        {},
    ),
    "a run that ends when it is good enough": (
        lambda: sound(callbacks=lambda: [every_validation(good_enough)]),
        {},
    ),
    "a run that ends at any step when it was good enough": (
        lambda: sound(callbacks=lambda: [every_steps(1, good_enough)]),
        {},
    ),
    "as many hours as rows in a batch": (gauges, {}),
    "a focal loss of pixels": (lambda: focal_of_pixels(easy=False), {}),
    "a perplexity": (
        lambda: with_perplexity(
            lambda metric, labels, logits, weights: metric.update_state(
                keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True),
                weights,
            ),
            Perplexity,
        ),
        {},
    ),
    "a loss of each example in a loop": (
        lambda: sound(train_steps=(each_by_itself,), metrics=dict),
        {},
    ),
    "callbacks that take more time each time": (
        lambda: sound(callbacks=lambda: [every_steps(1, Slower())]),
        {},
    ),
    "a callback that prints every few seconds": (
        lambda: sound(callbacks=lambda: [every_secs(60, lambda event: print(event.losses))]),
        {},
    ),
    "a callback that stops and prints": (
        lambda: sound(callbacks=lambda: [every_epochs(1, lambda event: print(event.losses))]),
        {},
    ),
    "callbacks of Keras": (
        lambda: sound(
            callbacks=lambda: [
                keras_callback(keras.callbacks.ReduceLROnPlateau("val_loss", patience=3)),
                keras_callback(keras.callbacks.EarlyStopping("val_loss", patience=8)),
            ]
        ),
        {},
    ),
    "a layer that a callback freezes": (
        lambda: sound(callbacks=lambda: [every_epochs(1, freeze)]),
        {},
    ),
    "interacting examples": (
        lambda: replace(CONTRASTIVE, train_steps=(masked_contrastive_step,)),
        {},
    ),
    "a gradient within a step": (sharpness_aware, {}),
    "two noisy views": (lambda: noisy_views(seeds=2), {}),
    "a learning rate that falls after as much of the run as a layer keeps": (
        lambda: sound(model=model(dense, lambda: keras.layers.Dropout(0.2))),
        {"task": Falling()},
    ),
    "all flags of a step": (
        lambda: sound(model=model(last=lambda: dense(CLASSES, dtype=keras.config.floatx()))),
        {"accumulate": 2, "clip_norm": 1.0, "precision": "bfloat16", "denominator": "global_batch"},
    ),
}


def test_data_that_takes_much_memory_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_again, "MOST_BYTES", 1)
    for name in ("the same data again", "the same data in another process"):
        finding = RELATIONS[name].observe(laboratory(sound()))
        assert finding.seen.startswith("not looked at"), finding


@pytest.mark.parametrize(
    ("name", "toy"),
    [
        ("inputs alike in evaluation", lambda: gan_of_latents(3.0)),
        ("inputs without the answer", lambda: histories(late=False)),
        ("inputs without the answer", lambda: histories(late=False, shuffled=True)),
        (
            "inputs without the answer",
            lambda: replace(answered(lambda y: y), examples_interact=True),
        ),
        ("labels", turned_over),
        ("every weight gets a gradient", late_penalty),
        (
            "every weight gets a gradient",
            lambda: with_two_losses(tf.identity, lambda a, b: a * tf.stop_gradient(b)),
        ),
        ("every weight moves", late_penalty),
        ("callbacks", lambda: raised(in_evaluation=False)),
        ("labels", lambda: candidates(rows=240, new=12)),
        ("outputs reach the targets", lambda: shares_or_unknown(left_out=True)),
        ("later positions", with_one_number),
        ("rows in two splits", lambda: parts_of_one_graph(same=False)),
        ("shapes", ranked),
        ("padded inputs", completed),
        ("rows in two splits", trees),
        ("inputs alike in evaluation", noisy_gan),
        ("augmentation", speckled),
        ("augmentation", lambda: mirrored(new_sides=True, unknown=0.3)),
        ("monitor", judged_by_average),
        ("marks", lambda: zeros_for_missing(told=True)),
    ],
)
def test_a_relation_holds(name: str, toy: Callable[[], Toy]) -> None:
    finding = RELATIONS[name].observe(laboratory(toy()))
    assert finding.verdict == "ok", finding


@pytest.mark.parametrize(("toy", "flags"), SOUND.values(), ids=SOUND)
def test_a_sound_toy_is_not_accused(toy: Callable[[], Toy], flags: dict[str, Any]) -> None:
    assert not findings(toy(), **flags)


def test_of_four_predictions_one_is_the_smallest() -> None:
    noise = np.random.default_rng(0).normal(size=2 * BATCH)
    toy = regression(data=(regression().data[0][: 2 * BATCH], 9 * noise), others={})
    observed = RELATIONS["outputs reach the targets"].observe(laboratory(toy, global_batch_size=4))
    assert observed.verdict == "ok", observed


@pytest.mark.parametrize(
    "toy",
    [
        segmented(flipped(masks=True)), as_shares(segmented(flipped(masks=True))),
        segmented(rolled(masks=0)), densities(moved=True), densities(moved=True, gaps=True),
        words_dropped(0.15),
    ],
    ids=["flipped", "shares", "rolled", "densities", "densities with gaps", "dropped"],
)  # fmt: skip
def test_a_usual_augmentation_is_not_accused(toy: Toy) -> None:
    finding = RELATIONS["augmentation"].observe(laboratory(toy))
    assert finding.verdict == "ok", finding


def test_a_column_of_rare_numbers_is_on_no_scale() -> None:
    numbers = np.random.default_rng(0)
    train, others = numbers.normal(size=(200, 2)), numbers.normal(size=(60, 2))
    train[:, 1], others[:, 1] = np.arange(200) < 1, np.arange(60) < 9  # flags that are hardly set
    assert scales._worst_column(train, others) is None
    others[:, 1] = numbers.normal(size=60)
    assert scales._worst_column(train, others) == 1


SEEDS: dict[str, Callable[[Replica], tf.Tensor]] = {
    "replica.seed": lambda replica: replica.seed + 1,
    "of the index": lambda replica: tf.stack([tf.cast(replica.index, tf.int64), replica.step]),
}


def test_views_of_other_random_numbers_are_not_accused() -> None:
    lab = laboratory(two_views(seeds=2))
    assert RELATIONS["augmentation"].observe(lab).verdict == "ok"


@pytest.mark.parametrize("seed_of", SEEDS.values(), ids=SEEDS)
def test_a_seed_that_follows_from_the_replica_is_its_own(
    seed_of: Callable[[Replica], tf.Tensor],
) -> None:
    lab = laboratory(sound(train_steps=(noisy_step(seed_of),)))
    finding = RELATIONS["random numbers differ"].observe(lab)
    assert lab.base.drawn
    assert finding.verdict == "ok", finding


@pytest.mark.quick
def test_relations_are_selected_by_parts_of_their_names() -> None:
    assert [*select()] == [*RELATIONS]
    assert [*select(("learning rate", "one tra"))] == ["learning rate", "one trace"]
    assert select(("weight", "weight zero")) == select(("weight",))
    assert len(select(("weight",))) == sum("weight" in name for name in RELATIONS) > 1
    with pytest.raises(UsageError, match="no relation has 'no such' in its name; see --list"):
        select(("weight", "no such"))


@pytest.mark.quick
def test_the_page_lists_the_relations() -> None:
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| (.+) \|$", page.partition("## Relations")[2], re.MULTILINE)
    claims = select().items()
    assert rows[2:] == [(name, f"{text[0].lower()}{text[1:]}") for name, text in claims]


def settings_of(
    task: Path, monkeypatch: pytest.MonkeyPatch, *, config: str = "", steps: str
) -> Finding:
    """What `check` says of a task with the settings `depth` and `width`, and of these lines."""
    task.mkdir(parents=True)
    lines = "import dataclasses\n\n@dataclasses.dataclass\nclass Config:\n"
    lines += f"    depth: int = 1\n    width: int = 2\n{config}"
    (task / "config.py").write_text(lines, encoding="utf-8")
    (task / "steps.py").write_text(steps, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("its_config", task / "config.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "its_config", module)
    spec.loader.exec_module(module)
    lab: Any = SimpleNamespace(task=module.Config())
    return RELATIONS["settings"].observe(lab)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("config", "steps", "unused"),
    [
        ("", "def f(task): return task.depth", "width"),
        ("    def __post_init__(self): print(self.width)", "def f(task): task.depth", "width"),
        ("    def area(self): return self.width", "def f(task): return task.depth", ""),
        ("", "def f(task): return task.depth, getattr(task, 'width')", ""),
        ("", "def f(task): print(dataclasses.asdict(task))", ""),
    ],
)
def test_each_setting_is_to_be_used(
    config: str, steps: str, unused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = tmp_path / "project" / "package" / "task"
    finding = settings_of(task, monkeypatch, config=config, steps=steps)
    assert finding.verdict == ("look" if unused else "ok"), finding
    assert finding.seen == (f"nothing uses {unused} of task/config.py" if unused else finding.seen)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("number", "is_cut"),
    [
        ("int(task.warmup) * 100", True),
        ("round(self._task.warmup) * 100", True),
        ("int(task.warmup * 100)", False),
        ("int(task.depth) * 100", False),
        ("int(other.warmup) * 100", False),
        ("int(task.epochs)", False),
    ],
)
def test_a_fraction_is_not_made_a_whole_number(
    number: str, is_cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = f"x = task.depth, task.width, task.warmup, task.epochs, {number}"
    config = "    warmup: float = 0.05\n    epochs: float = 2.0\n"
    task = tmp_path / "project" / "package" / "task"
    finding = settings_of(task, monkeypatch, config=config, steps=lines)
    assert finding.verdict == ("WRONG" if is_cut else "ok"), finding
    assert ("of steps.py, line 1, is a whole number, and warmup" in finding.seen) == is_cut


def test_a_loss_that_rises_in_a_few_steps_may_still_fall() -> None:
    lab = laboratory(sound(optimizer=lambda: keras.optimizers.SGD(1e3)))
    first, last, _ = lab.losses_on_one_batch
    lab.losses_on_one_batch = first, last, 8
    assert RELATIONS["loss falls on one batch"].observe(lab).verdict == "look"


def test_what_fails_is_reported_once() -> None:
    def fails(*_: Any) -> None:
        raise ValueError("no such thing")

    train, validate = Toy(train_steps=(fails,)), sound(validation_step=fails)
    for toy, claim in (
        (train, "a train step runs"),
        (validate, "a validation step runs"),
        (sound(model=fails), "the task can be built"),
    ):
        found = findings(toy)
        assert list(found) == [claim]
        assert found[claim].endswith("no such thing")


def test_a_slow_validation_step_that_uses_no_step_is_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = laboratory(sound())
    _ = lab.evaluation_batch
    monkeypatch.setattr(lab, "validate", pytest.fail)
    assert RELATIONS["evaluation knows no step"].observe(lab).verdict == "ok"


def test_what_another_fault_spoils_says_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    random_step = "the same step again"
    spoiled = [name for name, relation in RELATIONS.items() if relation.after == random_step]
    assert "denominator" in spoiled
    random = with_loss(lambda *arguments: compute_loss(*arguments) + tf.random.normal([]))
    lab = laboratory(random)
    assert RELATIONS["rows of weight zero"].observe(lab).verdict == "WRONG"
    for name in spoiled:  # and isn't computed in vain
        monkeypatch.setitem(RELATIONS, name, RELATIONS[name]._replace(observe=pytest.fail))
    for name, finding in check(lab, spoiled):
        assert finding == ("ok", f"not looked at: see {RELATIONS[name].after}", "", ""), name
    monkeypatch.undo()
    findings_of_sound = dict(check(laboratory(sound()), spoiled))
    assert not [f for f in findings_of_sound.values() if f.seen.startswith("not looked at: see ")]


class Half(keras.metrics.SparseCategoricalAccuracy):
    """Takes no float64, as the top-k accuracies of Keras 3.15."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        if y_pred.dtype != "float32":
            raise TypeError(y_pred.dtype)
        super().update_state(y_true, y_pred, sample_weight)


@pytest.mark.parametrize(
    ("seen", "verdict"), [("the gradients differ", "ok"), ("the metric half differs", "WRONG")]
)
def test_a_metric_that_takes_no_float64_leaves_what_is_not_of_it(seen: str, verdict: str) -> None:
    def observe(lab: Any) -> Finding:
        _ = lab.base
        return Finding("ok" if keras.config.floatx() == "float64" else "WRONG", seen)

    relation = RELATIONS["order of rows"]._replace(observe=observe)
    lab = laboratory(sound(metrics=lambda: {"half": Half()}))
    assert _observe(lab, relation).verdict == verdict


@pytest.mark.quick
@pytest.mark.parametrize(("rows", "seen"), [(8, 0), (100, 1)])
def test_few_examples_tell_no_shares_of_classes(rows: int, seen: int) -> None:
    found = _other_shares(np.zeros(rows, int), np.arange(100) % 2, "validation")
    assert len(found) == seen


def test_evaluation_that_changes_each_time_is_compared_with_no_other() -> None:
    again, *others = "evaluation again", "evaluation on two replicas", "evaluation in other batches"
    lab = laboratory(sound(validation_step=sampling_step))
    found = [finding for _, finding in check(lab, [again, *others])]
    assert found[0].verdict == "WRONG"
    assert [f.seen for f in found[1:]] == 2 * [f"not looked at: see {again}"]


@pytest.mark.quick
def test_splits_of_other_forms_are_no_errors_of_check() -> None:
    numbers = np.random.default_rng(0).random
    assert not [*_columns_of_both({"inputs": numbers(50)}, {})]  # such as links of a graph
    assert _worst_column(numbers((50, 20)), numbers((50, 12))) is None
    images = numbers((1, 8, 8, 1)) + np.zeros((200, 1, 1, 1))
    splits = {"train": images, "validation": images[:, :4]}
    assert _turned_images({split: {"inputs": x} for split, x in splits.items()}) is None


def test_outputs_that_a_step_differentiates_are_not_replaced() -> None:
    def score_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            energy = run.model(inputs, training=True)[:, 0]
        slope = -tape.gradient(energy, inputs)[:, 0]
        loss = tf.square(slope - tf.cast(labels, slope.dtype)) + 0 * energy
        return {"main": compute_loss(loss, weights, run.model, replica)}

    toy = sound(
        train_steps=(score_step,), validation_step=score_step, metrics=dict,
        model=lambda: keras.Sequential(
            [keras.Input((FEATURES,)), dense(8, activation="tanh"), dense(1)]
        ),
    )  # fmt: skip
    ((_, finding),) = check(laboratory(toy), ["best outputs"])
    assert (finding.verdict, str(finding)[:13]) == ("ok", "not looked at")


def test_the_task_adapts_once_for_all_that_is_built_of_the_same_data() -> None:
    read: list[Any] = []

    def adapt(datasets: dict[str, Any]) -> dict[str, Any]:
        read.append(datasets["train"])
        return {}

    toy = sound(adapt=adapt)
    lab = laboratory(toy)
    assert lab.two[0].num_steps == lab.other().num_steps == lab.run.num_steps
    assert len(read) == 1
    lab.other({"train": tuple(array[:BATCH] for array in toy.data)})
    assert len(read) == 2


@pytest.mark.quick
@pytest.mark.parametrize(
    "arrays",
    [
        [np.arange(600).reshape(100, 6)],
        [np.linspace(0, 1, 100, dtype="float16")[:, np.newaxis]],  # not a multiple of 4 bytes
        [np.zeros((100, 3)), np.arange(100) % 128],
        [np.array([f"text {i}" for i in range(100)], object)],
        [np.random.default_rng(1).normal(size=(100, 40, 40))],
    ],
)
def test_rows_have_the_same_hash_where_all_their_numbers_are_the_same(
    arrays: list[np.ndarray],
) -> None:
    once, again = hashes_of(arrays), hashes_of([array[::-1].copy() for array in arrays])
    np.testing.assert_array_equal(once, again[::-1])
    assert len(np.unique(once)) == 100


def test_data_that_changes_each_time_is_not_called_one_of_hash() -> None:
    toy = Toy(create_datasets=at_random)
    names = ["the same data again", "the same data in another process"]
    first, second = (finding for _, finding in check(laboratory(toy), names))
    assert (first.verdict, str(second)) == ("WRONG", f"not looked at: see {names[0]}")


def test_metrics_after_training_are_those_of_one_step() -> None:
    def update(metric: Any, labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> None:
        metric.update_state(
            keras.losses.sparse_categorical_crossentropy(labels, logits, True), weights
        )

    toy = sound(train_steps=(step(update=update),), metrics=lambda: {"mean": keras.metrics.Mean()})
    after = laboratory(toy).after_training
    assert after.metrics["mean"] == pytest.approx(after.losses["main"], rel=1e-5)


EXACT = [name for name, relation in RELATIONS.items() if relation.exact]


def amplified(losses: tf.Tensor, weights: tf.Tensor, *rest: Any) -> tf.Tensor:
    """The loss, and a number that is 0 but for rounding: hundreds in float32."""
    weighted = tf.stop_gradient(losses * weights)
    # One after the other: tf.reduce_sum may add reversed rows in the same pairs.
    zero = tf.cumsum(1e8 * tf.concat([weighted, -weighted], axis=0))[-1]
    return compute_loss(losses, weights, *rest) + zero


def test_what_rounding_alone_changes_is_ok() -> None:
    lab = laboratory(with_loss(amplified))
    accused = [name for name in EXACT if RELATIONS[name].observe(lab).verdict != "ok"]
    assert "order of rows" in accused
    found = dict(check(lab, EXACT))
    assert [n for n, finding in found.items() if finding.seen == "but for rounding"] == accused
    assert all(finding.verdict == "ok" for finding in found.values()), found
    assert (keras.config.floatx(), keras.config.dtype_policy().name) == ("float32", "float32")


def fails_in_float64(losses: tf.Tensor, *rest: Any) -> tf.Tensor:
    places = tf.range(tf.shape(losses)[0])
    return compute_loss(losses / (1.0 + tf.cast(places, tf.float32)), *rest)


@pytest.mark.parametrize("loss", [by_place, fails_in_float64])
def test_a_fault_that_rounding_doesnt_explain_stays_wrong(loss: Callable[..., Any]) -> None:
    ((_, finding),) = check(laboratory(with_loss(loss)), ["order of rows"])
    assert finding.verdict == "WRONG"
    assert (keras.config.floatx(), keras.config.dtype_policy().name) == ("float32", "float32")


VERDICTS = {
    "WRONG": (sound(optimizer=lambda: keras.optimizers.SGD(0.0)), "learning rate", 1),
    "look": (
        sound(data=changed(examples(), 0, lambda x: x / 1000)),
        "sizes",
        0,
    ),
    "ok": (sound(), "learning rate", 0),
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_exit_code_is_1_for_what_is_wrong_alone(
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    toy, name, code = VERDICTS[verdict]
    monkeypatch.chdir(tmp_path)
    for name_of_gc in ("gc.disable", "gc.freeze"):  # there are other tests after this one
        monkeypatch.setattr(name_of_gc, lambda: None)
    monkeypatch.setattr(
        proof.engine.check, "one_and_two_replicas", lambda: (strategy_of(1), strategy_of(2))
    )
    monkeypatch.setattr(proof.run, "create_run", lambda *arguments: create_run(toy, *arguments))
    monkeypatch.setattr(proof.task.data, "create_datasets", lambda task: toy.splits)
    with pytest.raises(SystemExit) as end:
        Check(Config(global_batch_size=BATCH), TaskConfig(), (name,))()
    assert end.value.code == code
    lines = capsys.readouterr().out.splitlines()
    assert [line[:5].strip() for line in lines] == [verdict, "", ""]
    assert lines[0][7:].startswith(name)
    assert lines[1] == f"       1 {verdict}{f': {name}' * (verdict != 'ok')}"
    assert not list(tmp_path.iterdir())


def test_the_command_lists_selects_and_leaves_nothing_behind() -> None:
    before = files(Path(project))
    listed = python_m("proof", "check", "--list", cwd=project).stdout.splitlines()
    assert [line.partition(": ")[0] for line in listed] == [*select()]
    line, total, todos = python_m(
        "proof", "check", "--only", "same step as one", cwd=project
    ).stdout.splitlines()
    assert line.startswith(
        "ok     two replicas make the same step as one: losses and metrics differ"
    )
    assert total == "       1 ok"
    assert todos.endswith("TODOs left")
    lines = python_m("proof", "check", "--only", "are mixed", cwd=project).stdout.splitlines()
    assert lines[0].startswith("-      labels are mixed: not looked at: data that is not a stream")
    assert lines[1] == "       1 not looked at"
    refused = python_m("proof", "check", "--only", "no such", cwd=project, status=2)
    assert refused.stderr == "error: no relation has 'no such' in its name; see --list.\n"
    assert files(Path(project)) == before


@pytest.mark.quick
def test_a_framework_that_was_never_tested_may_be_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, several = {"accuracy": 0.5292}, {"accuracy": 0.5317}
    assert "tested" not in explain(one, several, 2, 0.0)
    monkeypatch.setattr("proof.engine.versions.NEWEST_TESTED", {"keras": (3, 9)})
    cause = rf"the cause may also be Keras {re.escape(keras.__version__)} \(tested: up to 3\.9\)"
    assert re.search(cause, explain(one, several, 2, 0.0))


def test_a_tensor_inside_a_loop_ends_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def observe(lab: Any) -> Any:
        tf.vectorized_map(np.asarray, tf.zeros((2, 3)))
        raise AssertionError("it has a value")

    monkeypatch.setitem(RELATIONS, "shapes", RELATIONS["shapes"]._replace(observe=observe))
    ((_, finding),) = check(laboratory(sound()), ["shapes"])
    assert finding.verdict == "look", finding
    assert "can't be looked at" in str(finding)


def test_nothing_is_said_of_the_short_batches_of_a_check(
    capsys: pytest.CaptureFixture[str],
) -> None:
    split = CONTRASTIVE.data
    toy = replace(CONTRASTIVE, others={"validation": split}, examples_interact=True)
    lab = laboratory(toy)
    assert lab.run.functions.examples_interact
    _ = lab.evaluations
    assert "the last batch" not in capsys.readouterr().err
