"""The tasks of docs/tasks.md train on one and two replicas, and resume, as the page says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import proof.run
import pytest
import tensorflow as tf
import tests.replicas as rendered
from proof.engine.adapted import as_arrays
from proof.engine.auxiliary import load_frozen
from proof.engine.callbacks import Callback, Event, at_step, every_steps
from proof.engine.check import relative_difference
from proof.engine.errors import CollectiveInXlaError, UsageError
from proof.engine.evaluation import Evaluation
from proof.engine.export import export_models
from proof.engine.gradients import all_optimizers
from proof.engine.loop import Loop, Schedule
from proof.engine.predict import model_of
from proof.engine.run_directory import RunDirectory
from proof.engine.types import Replica, Run
from proof.task.config import TaskConfig
from proof.task.losses import compute_loss

from .test_recipes import BLOCK, DOCS, GIVEN, in_callbacks
from .toys import (
    BATCH,
    CLASSES,
    FEATURES,
    Toy,
    assert_parity,
    build,
    differences,
    plain_data,
    strategy_of,
    train,
)

layers = keras.layers
PAGE = (DOCS / "tasks.md").read_text(encoding="utf-8")
BLOCKS = dict(BLOCK.findall(PAGE))
IMPORTED = GIVEN | {
    "Run": Run, "Replica": Replica, "compute_loss": compute_loss,
}  # fmt: skip
# Keras' own, when it saves a model (Keras 3.15 with numpy 2).
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
ROWS = 2 * BATCH - 7  # the second batch has padding
# tf.nn.compute_average_loss rounds losses with weights to float32, in float64 too (TF 2.21).
SINGLE = 1e-6


def blocks(*names: str) -> dict[str, Any]:
    """What blocks define together, as files of one task."""
    defined = IMPORTED | {"__name__": "proof.task.page", "__package__": "proof.task"}
    for name in names:
        exec(compile(BLOCKS[name], name, "exec", dont_inherit=True), defined)
    return defined


def adam(rate: float = 0.01) -> Any:
    return lambda: keras.optimizers.Adam(rate)


def dense(inputs: int, *units: int) -> keras.Model:
    x = first = keras.Input((inputs,))
    for number in units[:-1]:
        x = layers.Dense(number, activation="tanh")(x)
    return keras.Model(first, layers.Dense(units[-1])(x))


def contrastive(rows: int = ROWS) -> Toy:
    random = np.random.default_rng(0)
    left = random.normal(size=(rows, FEATURES))
    names = blocks("contrastive")
    return Toy(
        lambda: dense(FEATURES, 4, 3), adam(),
        (left, left + 0.1 * random.normal(size=left.shape)),
        (names["train_step"],), losses=dict, examples_interact=names["EXAMPLES_INTERACT"],
    )  # fmt: skip


def vae() -> Toy:
    names = blocks("vae")
    inputs, _ = plain_data(ROWS)
    return Toy(
        lambda: {"encoder": dense(FEATURES, 4, 4), "decoder": dense(2, 4, FEATURES)},
        adam(), (inputs, inputs), (names["train_step"],),
        losses=lambda: {"main": keras.losses.MeanSquaredError(reduction="none")},
        metrics=dict, terms=names["TERMS"], validation_step=names["validation_step"],
    )  # fmt: skip


def heads(*, weights: Any = None) -> Toy:
    """Two heads; `weights`, of the labels that are there, come with the data."""
    given = weights is not None
    names = blocks("heads", "heads_weights") if given else blocks("heads")
    inputs, labels = plain_data(ROWS)
    random = np.random.default_rng(2)
    missing = {"color": random.random(ROWS) < 0.3, "shape": random.random(ROWS) < 0.8}

    def model() -> keras.Model:
        x = first = keras.Input((FEATURES,))
        x = layers.Dense(4, "tanh", kernel_regularizer=keras.regularizers.L2(0.01))(x)
        outputs = {head: layers.Dense(CLASSES, name=head)(x) for head in names["HEADS"]}
        return keras.Model(first, outputs)

    def metrics() -> dict[str, keras.metrics.Metric]:
        made: dict[str, keras.metrics.Metric] = {}
        for head in names["HEADS"]:
            made[f"{head}_accuracy"] = keras.metrics.SparseCategoricalAccuracy()
        return made

    cross_entropy = keras.losses.SparseCategoricalCrossentropy
    return Toy(
        model, adam(),
        (
            inputs,
            {head: np.where(missing[head], -1, labels) for head in missing},
            *([{h: np.where(missing[h], 0.0, weights) for h in missing}] if given else []),
        ),
        (names["train_step"],),
        losses=lambda: {
            head: cross_entropy(from_logits=True, reduction="none") for head in missing
        },
        metrics=metrics, terms=names["TERMS"], count=names["count"],
    )  # fmt: skip


def distillation() -> Toy:
    names = blocks("distillation")
    if not names["TEACHER"].exists():
        dense(FEATURES, 8, CLASSES).save(names["TEACHER"])
    adapted = as_arrays({"shape": (FEATURES,)})
    return Toy(
        lambda: names["create_model"](TaskConfig(), adapted), adam(), plain_data(ROWS),
        (names["train_step"],), losses=lambda: names["create_losses"](TaskConfig()),
    )  # fmt: skip


def average() -> Toy:
    names = blocks("average")
    adapted = as_arrays({"shape": (FEATURES,)})
    return Toy(
        lambda: names["create_model"](TaskConfig(), adapted), adam(), plain_data(ROWS),
        (names["train_step"],), validation_step=names["validation_step"],
    )  # fmt: skip


def generator_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    _, latents, weights = batch
    generated = run.models["generator"](latents, training=True)
    on_generated = run.models["critic"](generated, training=True)[:, 0]
    loss = compute_loss(tf.nn.softplus(-on_generated), weights, run.models["generator"], replica)
    return {"generator": loss}


def penalty() -> Toy:
    real, _ = plain_data(ROWS)
    latents = np.random.default_rng(3).normal(size=(ROWS, 2))
    return Toy(
        lambda: {"critic": dense(FEATURES, 4, 1), "generator": dense(2, 4, FEATURES)},
        lambda: {"critic": adam()(), "generator": adam()()},
        (real, latents), (blocks("penalty")["critic_step"], generator_step), losses=dict,
        metrics=lambda: {"steepness": keras.metrics.Mean()},
    )  # fmt: skip


def smoothing() -> Toy:
    names = blocks("smoothing")
    return Toy(data=plain_data(ROWS), losses=lambda: names["create_losses"](TaskConfig()))


def fine_tuning(*, rates: bool = False) -> Toy:
    names = blocks("fine_tuning", "rates")
    if not names["BACKBONE"].exists():
        x = first = keras.Input((FEATURES,))
        x = layers.Activation("tanh")(layers.BatchNormalization()(layers.Dense(4)(x)))
        parts = [layers.Dense(4), layers.BatchNormalization(), layers.Activation("tanh")]
        keras.Model(first, keras.Sequential(parts)(x)).save(names["BACKBONE"])
    return Toy(
        lambda: names["create_model"](TaskConfig(), {}),
        (lambda: names["create_optimizer"](TaskConfig(), 0)) if rates else adam(),
        plain_data(ROWS),
    )  # fmt: skip


def forecast() -> Toy:
    names = blocks("forecast_data", "forecast_model", "forecast_step")
    if not names["SERIES"].exists():
        names["SERIES"].parent.mkdir()
        hours = np.arange(250)
        table = np.stack([hours, np.sin(hours / 4) * 20 + 300, np.cos(hours / 4)], axis=1)
        cells = [[f"{value:.3f}" for value in row] for row in table]
        for row, column in ((3, 1), (40, 2), (50, 1), (51, 1), (90, 1), (110, 1)):
            cells[row][column] = ""
        lines = ["hour,load,temperature", *(",".join(row) for row in cells)]
        names["SERIES"].write_text("\n".join(lines) + "\n")
    datasets = names["create_datasets"](TaskConfig())
    adapted = as_arrays(names["adapt"](TaskConfig(), datasets))
    return Toy(
        lambda: names["create_model"](TaskConfig(), adapted), adam(), datasets["train"],
        (names["train_step"],), losses=dict, count=names["count"],
        others={split: datasets[split] for split in ("validation", "test")},
        metrics=lambda: names["create_metrics"](TaskConfig()),
    )  # fmt: skip


TASKS: dict[str, Callable[[], Toy]] = {
    "contrastive": contrastive, "vae": vae, "heads": heads, "distillation": distillation,
    "average": average, "penalty": penalty, "smoothing": smoothing, "fine_tuning": fine_tuning,
    "forecast": forecast,
    "heads_weights": lambda: heads(weights=np.linspace(0.5, 2.0, ROWS)),
}  # fmt: skip
HAS_MULTI = hasattr(keras.optimizers, "MultiOptimizer")  # not all of the supported versions
needs_multi = pytest.mark.skipif(not HAS_MULTI, reason="no MultiOptimizer in this Keras")
if HAS_MULTI:
    TASKS["rates"] = lambda: fine_tuning(rates=True)


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loop(toy: Toy, replicas: int, callbacks: Sequence[Callback] = (), **schedule: Any) -> Loop:
    """A run in ./run that isn't started, two steps in an epoch."""
    built = build(toy, replicas)
    directory = Path("run")
    directory.mkdir(exist_ok=True)
    return Loop(
        *built,
        Evaluation(built.run, toy.splits, built.steps.layout),
        RunDirectory(directory),
        Schedule(max_stop_secs=1e9, save_every_epochs=0, **schedule),
        callbacks=callbacks,
        monitor=f"train_{built.run.loss_names[0]}",
        larger_is_better=False,
    )


def state_of(run: Run) -> list[np.ndarray]:
    """Every weight and every variable of the optimizers."""
    variables = [v for model in run.models.values() for v in model.variables]
    variables += [v for optimizer in run.optimizers.values() for v in optimizer.variables]
    return [tf.convert_to_tensor(v.value).numpy() for v in variables]


def assert_resumes(
    toy: Toy, create_callbacks: Callable[[], Sequence[Callback]] = tuple, replicas: int = 2
) -> None:
    """Five steps are the same as three, a restored checkpoint and two more."""
    whole = loop(toy, replicas, create_callbacks(), num_steps=5, save_every_steps=3)
    whole.start(resume=False)
    whole.train()
    for file in Path("run/checkpoints/latest").glob("ckpt-5.*"):
        file.unlink()
    resumed = loop(toy, replicas, create_callbacks(), num_steps=5)
    resumed.start(resume=True)
    assert resumed.step == 3
    resumed.train()
    for a, b in zip(state_of(whole.run), state_of(resumed.run), strict=True):
        np.testing.assert_array_equal(a, b)


def evaluate(toy: Toy, batch_size: int = BATCH, replicas: int = 1) -> dict[str, float]:
    """What untrained weights give for the training data."""
    splits = {"validation": toy.data}
    built = build(toy, replicas, global_batch_size=batch_size)
    found = Evaluation(built.run, splits, built.steps.layout).evaluate("validation")
    return {name.removeprefix("validation_"): value for name, value in found.items()}


def first_loss(toy: Toy, replicas: int = 1, **flags: Any) -> float:
    """The loss of the first step."""
    (loss,) = train(toy, replicas, steps=1, steps_per_call=1, **flags).losses
    return float(loss[0])


@contextmanager
def edited(name: str, before: str, after: str) -> Iterator[None]:
    """A block with another line."""
    code = BLOCKS[name]
    assert code.count(before) == 1
    BLOCKS[name] = code.replace(before, after)
    try:
        yield
    finally:
        BLOCKS[name] = code


@pytest.mark.quick
def test_every_block_of_the_page_is_run() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    calls = re.findall(r"blocks\(((?:\"\w+\",? ?)+)\)", source)
    assert set(re.findall(r"\w+", " ".join(calls))) == set(BLOCKS)
    assert PAGE.count("```python") == len(BLOCKS)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.quick if n == "heads" else ()) for n in TASKS]
)
def test_two_replicas_train_exactly_like_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = TASKS[name]()
    if name == "vae":  # its noise differs on two replicas
        monkeypatch.setattr(
            tf.random, "stateless_normal", lambda shape, seed, dtype: tf.zeros(shape, dtype)
        )
    trained = assert_parity(toy, (2,), steps=6, steps_per_call=2)
    assert np.isfinite(trained.losses).all()
    assert int(trained.progress.skips.total) == 0
    assert all(trained.losses[-1] != trained.losses[0])


@pytest.mark.parametrize("name", TASKS)
def test_a_resumed_run_ends_with_the_same_bits(name: str) -> None:
    assert_resumes(TASKS[name]())


def test_padding_is_no_negative() -> None:
    padded, whole = first_loss(contrastive(20)), first_loss(contrastive(20), global_batch_size=20)
    assert padded == pytest.approx(whole, rel=SINGLE)
    with edited("contrastive", "tf.where(there, similarity, -1e9)", "similarity"):
        assert first_loss(contrastive(20)) > 1.01 * whole


def test_micro_batches_and_small_batches_have_fewer_negatives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = first_loss(contrastive())
    with pytest.raises(
        UsageError, match=r"^--accumulate 2: an example's loss or metric depends on"
    ):
        first_loss(contrastive(), accumulate=2)
    with edited("contrastive", "EXAMPLES_INTERACT = True", "EXAMPLES_INTERACT = False"):
        assert first_loss(contrastive(), accumulate=2) < 0.8 * whole
    losses = [evaluate(contrastive(), size)["loss"] for size in (24, 12)]
    assert losses[0] > 1.2 * losses[1]
    assert capsys.readouterr().err.splitlines() == [
        f"the last batch of the validation data has {ROWS % size} examples, not {size}: a step "
        "that compares examples compares each of these with fewer others"
        for size in (24, 12)
    ]


def test_a_short_batch_is_mentioned_only_once_and_only_if_it_is_short_and_matters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evaluate(contrastive(2 * BATCH))
    evaluate(replace(contrastive(), examples_interact=False))
    assert not capsys.readouterr().err
    toy = contrastive()
    built = build(toy)
    evaluation = Evaluation(built.run, {"test": toy.data}, built.steps.layout)
    for _ in range(2):
        evaluation.evaluate("test")
    assert capsys.readouterr().err.count("the last batch of the test data has 17 examples") == 1


def test_the_rendered_parity_tests_leave_accumulation_out_where_examples_interact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (proof.run, rendered):
        monkeypatch.setattr(module, "EXAMPLES_INTERACT", True)
    scenario = rendered.SCENARIOS["short_clipped"]
    assert scenario.accumulate == 2
    observed = rendered.observe(strategy_of(1), scenario)
    assert observed["skipped"] == rendered.STEPS // 2


def test_negatives_of_all_replicas_are_not_compiled() -> None:
    with pytest.raises(CollectiveInXlaError, match="gathers or sums over the replicas"):
        train(contrastive(), 2, jit="on")


def test_the_noise_of_the_vae_differs_on_two_replicas() -> None:
    one, two = (train(vae(), number, steps=2, steps_per_call=1) for number in (1, 2))
    assert differences(one, two)["weights"] > 1e-3


def test_the_kl_divergence_warms_up_in_training_only() -> None:
    with edited("vae", "replica.seed, dtype=mean.dtype)", "replica.seed, dtype=mean.dtype) * 0"):
        built = build(vae(), 2)
        progress = built.steps.start()
        iterator = built.iterator(0, 1)
        progress = built.steps.distributed_train_step(iterator, 1, progress)
    found = built.run.by_loss_name(progress.latest.losses.numpy())
    assert found["loss"] == pytest.approx(found["error"], rel=SINGLE)
    assert found["kl"] > 0
    last = int(0.1 * built.run.num_steps)
    assert last == 8
    progress = built.steps.distributed_train_step(built.iterator(1, last + 1), last, progress)
    found = built.run.by_loss_name(progress.latest.losses.numpy())
    assert found["loss"] == pytest.approx(found["error"] + found["kl"], rel=SINGLE)
    for replicas in (1, 2):
        found = evaluate(vae(), replicas=replicas)
        assert found["loss"] == pytest.approx(found["error"] + found["kl"], rel=SINGLE)


def test_each_head_has_a_denominator_of_its_own() -> None:
    whole = evaluate(heads(), 48)  # all rows in one batch
    regularization = sum(map(float, build(heads()).run.model.losses))
    by_hand = whole["color"] + whole["shape"] + regularization
    assert whole["loss"] == pytest.approx(by_hand, rel=SINGLE)
    one, two = (train(heads(), steps=4, accumulate=n, steps_per_call=2) for n in (1, 2))
    assert max(differences(one, two).values()) < 1e-9


def test_means_of_heads_are_exact_and_their_summed_loss_is_not() -> None:
    large, small = evaluate(heads(), 24), evaluate(heads(), 12, replicas=2)
    for name in set(large) - {"loss"}:
        assert large[name] == pytest.approx(small[name], rel=SINGLE)
    assert (large["loss"], small["loss"]) == (
        pytest.approx(2.89, abs=0.005),
        pytest.approx(2.68, abs=0.005),
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_weights_of_heads_that_come_with_the_data(replicas: int) -> None:
    derived, given = (
        evaluate(toy, 24, replicas) for toy in (heads(), heads(weights=np.ones(ROWS)))
    )
    assert given == pytest.approx(derived, rel=SINGLE)
    halved = evaluate(heads(weights=np.full(ROWS, 0.5)), 24, replicas)
    for head in ("color", "shape"):
        assert halved[head] == pytest.approx(derived[head] / 2, rel=SINGLE)


def test_a_label_of_minus_one_must_not_reach_the_loss() -> None:
    with (
        edited("heads", "tf.maximum(labels[head], 0)", "labels[head]"),
        pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"),
    ):
        first_loss(heads())


def test_the_teacher_is_neither_trained_nor_saved() -> None:
    run = loop(distillation(), 2, num_steps=2)
    before = run.run.models["teacher"].get_weights()
    run.start(resume=False)
    run.train()
    for a, b in zip(before, run.run.models["teacher"].get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    assert run.run.model is run.run.models["student"]
    reader = tf.train.load_checkpoint("run/checkpoints/latest/ckpt-2")
    models = [key for key in reader.get_variable_to_shape_map() if key.startswith("models/")]
    assert len(models) == len(run.run.model.variables) == 4
    assert model_of(run.run, "") is run.run.model
    assert len(list(export_models(run.run, Path("export")))) == 2
    assert sorted(file.name for file in Path("export").iterdir()) == ["student", "student.keras"]


def test_a_teacher_that_has_changed_is_noticed() -> None:
    run = loop(distillation(), 2, num_steps=2)
    run.start(resume=False)
    run.train()
    file = Path("teacher.keras")
    file.rename("moved.keras")
    with edited("distillation", '"teacher.keras"', '"moved.keras"'):
        loop(distillation(), 1, num_steps=3).start(resume=True)  # the same content elsewhere
    dense(FEATURES, 8, CLASSES).save(file)
    sentence = "The model 'teacher' isn't the one that the run was trained with: teacher.keras has"
    changed = loop(distillation(), 2, num_steps=3)
    with pytest.raises(UsageError, match=sentence):
        changed.start(resume=True)
    with pytest.raises(UsageError, match=sentence):
        changed.best.restore()


def test_a_teacher_that_is_missing_or_damaged_gets_a_sentence() -> None:
    toy = distillation()
    Path("teacher.keras").unlink()
    with pytest.raises(UsageError, match=r"^teacher\.keras is missing; create_model"):
        build(toy)
    Path("teacher.keras").write_bytes(b"nothing")
    with pytest.raises(UsageError, match=r"^teacher\.keras can't be loaded .*: File is not a zip"):
        build(toy)


@pytest.mark.parametrize(
    ("saved", "run", "wanted"),
    [
        ("float32", "float64", ["float64", "float64"]),
        ("float32", "bfloat16", ["mixed_bfloat16", "mixed_bfloat16"]),
        ("mixed_bfloat16", "float16", ["mixed_float16", "float32"]),
        ("mixed_float16", "float32", ["float32", "float32"]),
        ("float64", "float32", ["float32", "float32"]),
    ],
)
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_teacher_follows_the_precision_of_the_run(
    saved: str, run: str, wanted: list[str], replicas: int
) -> None:
    full = "float64" if saved == "float64" else "float32"
    keras.config.set_floatx(full)
    keras.config.set_dtype_policy(saved)
    words = keras.Input((2,), dtype="int32", name="words")
    inputs = keras.Input((FEATURES,), name="inputs")
    embedded = layers.Flatten()(layers.Embedding(5, 2)(words))
    hidden = layers.BatchNormalization()(layers.Dense(4)(layers.Concatenate()([inputs, embedded])))
    teacher = keras.Model([inputs, words], layers.Dense(CLASSES, dtype=full)(hidden))
    teacher.save("teacher.keras")
    given = [np.ones((1, FEATURES)), np.ones((1, 2), "int32")]
    expected = teacher(given).numpy()

    def models() -> dict[str, keras.Model]:
        return {"student": dense(FEATURES, CLASSES), "teacher": load_frozen("teacher.keras")}

    loaded = build(Toy(models), replicas, precision=run).run.models["teacher"]
    assert [loaded.layers[i].dtype_policy.name for i in (-3, -1)] == wanted
    full = "float64" if run == "float64" else "float32"
    assert [tensor.dtype for tensor in loaded.inputs] == [full, "int32"]
    assert {v.dtype for v in loaded.variables} == {full}
    assert not loaded.trainable_variables
    for a, b in zip(teacher.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(loaded(given), "f8"), expected, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_student_learns_in_every_precision(precision: str) -> None:
    trained = train(distillation(), 2, steps=2, steps_per_call=1, precision=precision)
    assert np.isfinite(trained.losses).all()
    assert int(trained.progress.skips.total) == 0


def test_a_teacher_in_training_mode_stands_still_or_is_an_error() -> None:
    x = keras.Input((FEATURES,))
    normal = layers.BatchNormalization()(x)
    teacher = keras.Model(x, layers.Dense(CLASSES)(normal))
    teacher.trainable = False
    teacher.layers[1].trainable = True
    teacher.save("teacher.keras")
    wanted = first_loss(distillation())
    with edited("distillation", '"](inputs, training=False)', '"](inputs, training=True)'):
        assert first_loss(distillation()) == wanted
        assert first_loss(distillation(), 2) == pytest.approx(wanted, rel=SINGLE)
        keras.Model(x, layers.Dense(CLASSES)(layers.Dropout(0.5)(x))).save("teacher.keras")
        with pytest.raises(UsageError, match="belongs to no model"):
            first_loss(distillation())


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_auxiliary_model_needs_no_optimizer(replicas: int) -> None:
    dense(FEATURES, 4, FEATURES).save("judge.keras")
    toy = penalty()
    models, optimizers, seen = toy.model, toy.optimizer, []

    def judged_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        real, latents, weights = batch
        judge = run.models["judge"]
        generated = run.models["generator"](latents, training=True)
        distance = tf.square(judge(generated) - judge(real))  # (batch, features)
        loss = compute_loss(
            tf.reduce_mean(distance, axis=1), weights, run.models["generator"], replica
        )
        seen.append(list(run.optimizers))
        return {"generator": loss}

    judged = replace(
        toy,
        model=lambda: {"judge": load_frozen("judge.keras"), **models()},
        optimizer=optimizers,
        train_steps=(toy.train_steps[0], judged_step),
    )
    trained = train(judged, replicas, steps=4, steps_per_call=2)
    assert seen[0] == ["critic", "generator"]
    assert list(trained.run.trained_models) == ["critic", "generator"]
    with pytest.raises(UsageError, match="add --model with one of: critic, generator"):
        model_of(trained.run, "")
    assert np.all(trained.losses[0] != trained.losses[-1])
    untrained = keras.models.load_model("judge.keras").get_weights()
    for a, b in zip(untrained, trained.run.models["judge"].get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def _weights_after(steps: int, replicas: int = 1, **flags: Any) -> dict[str, list[np.ndarray]]:
    """Those of both models."""
    run = train(average(), replicas, steps=steps, steps_per_call=1, **flags).run
    return {name: model.get_weights() for name, model in run.models.items()}


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("flags", [{}, {"accumulate": 2}, {"jit": "on"}], ids=str)
def test_the_average_is_that_of_the_weights_before_each_step(
    flags: dict[str, Any], replicas: int
) -> None:
    expected = _weights_after(0)["average"]
    for steps in range(3):
        trained = _weights_after(steps)["trained"]
        expected = [0.99 * mean + 0.01 * w for mean, w in zip(expected, trained, strict=True)]
    for mean, right in zip(_weights_after(3, replicas, **flags)["average"], expected, strict=True):
        np.testing.assert_allclose(mean, right, rtol=SINGLE)


def test_a_skipped_step_leaves_the_average_as_it_is() -> None:
    inputs, labels = plain_data(ROWS)
    trained = train(replace(average(), data=(np.full_like(inputs, np.nan), labels)), steps=5)
    assert int(trained.progress.skips.total) == 5
    now, before = trained.run.models["average"].get_weights(), _weights_after(0)["average"]
    for mean, right in zip(now, before, strict=True):
        np.testing.assert_array_equal(mean, right)


def test_validation_is_that_of_the_average() -> None:
    built = build(average())
    for weight in built.run.models["trained"].weights:
        weight.assign(np.full(weight.shape, np.nan))
    found = Evaluation(built.run, {"validation": average().data}, built.steps.layout)
    assert np.isfinite(found.evaluate("validation")["validation_loss"])


@pytest.mark.parametrize("flags", [{"accumulate": 2}, {"jit": "on"}], ids=str)
def test_the_penalty_is_the_same_compiled_and_in_micro_batches(flags: dict[str, Any]) -> None:
    plain, other = (train(penalty(), 2, steps=2, steps_per_call=1, **f) for f in ({}, flags))
    assert max(differences(plain, other).values()) < 1e-9


def test_the_penalty_is_the_slope_of_each_row() -> None:
    toy = penalty()
    critic = build(toy).run.models["critic"]
    rows = tf.constant(toy.data[0])
    with tf.GradientTape() as tape:
        tape.watch(rows)
        outputs = critic(rows)
    slopes = tape.batch_jacobian(outputs, rows)[:, 0]
    wanted = float(tf.reduce_mean(tf.reduce_sum(slopes**2, axis=1)))
    step = toy.train_steps[0]

    def both(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        return step(run, batch, replica) | generator_step(run, batch, replica)

    found = evaluate(replace(toy, validation_step=both), replicas=2)
    assert found["steepness"] == pytest.approx(wanted, rel=1e-9)


def test_points_between_real_and_generated_rows() -> None:
    """WGAN-GP, as the page describes it."""
    draw = "tf.random.stateless_uniform((real.shape[0], 1), replica.seed, dtype=real.dtype)"
    before = "        tape.watch(real)\n"
    after = f"        real += {draw} * (generator(latents) - real)\n{before}"
    with edited("penalty", before, after):
        assert_resumes(penalty())


def test_evaluation_without_smoothing() -> None:
    def validation_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
        inputs, labels, weights = batch
        logits = run.model(inputs, training=False)
        per_example = run.losses["plain"](labels, logits)
        return {"main": compute_loss(per_example, weights, run.model, replica)}

    plain = evaluate(Toy(data=plain_data(ROWS)))["loss"]
    found = evaluate(replace(smoothing(), validation_step=validation_step))["loss"]
    assert found == pytest.approx(plain, rel=SINGLE)
    assert evaluate(smoothing())["loss"] != pytest.approx(plain, rel=1e-3)
    with pytest.raises(TypeError, match="label_smoothing"):
        keras.losses.SparseCategoricalCrossentropy(label_smoothing=0.1)


def test_the_backbone_follows_the_precision_of_the_run() -> None:
    toy = fine_tuning()  # saves the backbone in float64
    model = build(toy, precision="bfloat16").run.model
    assert model.get_layer("backbone").layers[1].dtype_policy.name == "mixed_bfloat16"
    assert model.get_layer("backbone").trainable_variables


def _normalizations(run: Run) -> list[np.ndarray]:
    inside = blocks("fine_tuning")["layers_of"](run.model.get_layer("backbone"))
    found = [layer for layer in inside if isinstance(layer, layers.BatchNormalization)]
    return [value for layer in found for value in layer.get_weights()]


def test_only_trainable_false_keeps_batch_normalization_still() -> None:
    before = _normalizations(build(fine_tuning()).run)
    for flags in ({}, {"jit": "on"}):
        still = _normalizations(train(fine_tuning(), 2, steps=2, steps_per_call=2, **flags).run)
        for a, b in zip(before, still, strict=True):
            np.testing.assert_array_equal(a, b)
    unfrozen = BLOCKS["fine_tuning"].replace("backbone(inputs)", "backbone(inputs, training=False)")
    with (
        edited("fine_tuning", BLOCKS["fine_tuning"], unfrozen),
        edited(
            "fine_tuning",
            "layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)\n    inputs",
            "layer.trainable = True\n    inputs",
        ),
    ):
        moved = _normalizations(train(fine_tuning(), steps=2, steps_per_call=2).run)
    assert all(np.any(a != b) for a, b in zip(before, moved, strict=True))


def _freezing(steps: int) -> Callable[[], list[Callback]]:
    _, code = BLOCKS["fine_tuning"].split("# task/callbacks.py")
    layers_of = blocks("fine_tuning")["layers_of"]
    names = in_callbacks(f"#{code}", FROZEN_STEPS=steps, layers_of=layers_of)
    return lambda: names["create_callbacks"](TaskConfig())


@pytest.mark.parametrize("rates", [False, pytest.param(True, marks=needs_multi)])
@pytest.mark.parametrize("steps", [1, 4], ids=["before", "after"])
def test_a_run_resumed_before_or_after_it_unfreezes(steps: int, rates: bool) -> None:
    assert_resumes(fine_tuning(rates=rates), _freezing(steps))


@pytest.mark.parametrize("rates", [False, pytest.param(True, marks=needs_multi)])
def test_the_backbone_stands_still_and_then_moves(rates: bool) -> None:
    weights: list[list[np.ndarray]] = []

    def record(event: Event) -> None:
        weights.append(event.run.model.get_layer("backbone").get_weights())
        last.append(event.run.model.get_layer("head").get_weights()[0])

    last: list[np.ndarray] = []
    for replicas in (1, 2):
        callbacks = [*_freezing(2)(), at_step(0, record), every_steps(2, record)]
        run = loop(fine_tuning(rates=rates), replicas, callbacks, num_steps=4)
        run.start(resume=False)
        before = _normalizations(run.run)
        run.train()
        assert len(before) == 8  # four weights of each
        for a, b in zip(before, _normalizations(run.run), strict=True):
            np.testing.assert_array_equal(a, b)
        (optimizer,) = run.run.optimizers.values()
        iterations = [int(o.iterations.numpy()) for o in all_optimizers(optimizer)]
        assert sorted(iterations) == ([2, 4, 4] if rates else [4])  # the slow one waits
    assert len(weights) == 6
    for start, frozen, free in (weights[:3], weights[3:]):
        assert all(np.array_equal(a, b) for a, b in zip(start, frozen, strict=True))
        assert any(np.any(a != b) for a, b in zip(start, free, strict=True))
    assert np.any(last[0] != last[1])
    assert relative_difference([*weights[2], last[2]], [*weights[5], last[5]]) < 1e-9


def test_the_whole_backbone_cannot_be_unfrozen() -> None:
    built = build(fine_tuning())
    backbone = built.run.model.get_layer("backbone")
    frozen = [layer.trainable for layer in backbone.layers]
    backbone.trainable = True  # it is already: Keras does nothing
    assert [layer.trainable for layer in backbone.layers] == frozen
    backbone.trainable = False
    backbone.trainable = True
    with pytest.raises(UsageError, match="wasn't when the optimizer was built"):
        built.steps.distributed_train_step(built.iterator(0, 1), 1, built.steps.start())


def _moves(toy: Toy, steps: int) -> dict[str, float]:
    """How far the weights of backbone and head move."""
    start, end = build(toy).run.model, train(toy, 2, steps=steps, steps_per_call=1).run.model
    moves = {"head": 0.0, "backbone": 0.0}
    for a, b in zip(start.trainable_variables, end.trainable_variables, strict=True):
        part = "head" if a.path.startswith("head/") else "backbone"
        moves[part] = max(moves[part], float(np.abs(a.numpy() - b.numpy()).max()))
    return moves


@needs_multi
def test_the_backbone_learns_more_slowly() -> None:
    first = _moves(fine_tuning(rates=True), 1)  # Adam's first step is as long as its rate
    assert first == {
        "head": pytest.approx(1e-2, rel=1e-3),
        "backbone": pytest.approx(1e-4, rel=1e-3),
    }


def test_windows_stay_in_their_split_and_are_counted() -> None:
    forecast()  # writes the file
    names = blocks("forecast_data")
    past, future = names["PAST"], names["FUTURE"]
    rows = np.genfromtxt(names["SERIES"], np.float32, delimiter=",", skip_header=1)[:, 1:]
    first = 0
    for split, end in (("train", 175), ("validation", 212), ("test", 250)):
        inputs, labels = names["create_datasets"](TaskConfig())[split]
        assert len(inputs) == len(labels) == (end - first) - past - future + 1
        for i in range(len(inputs)):
            begin = first + i
            np.testing.assert_array_equal(inputs[i], rows[begin : begin + past])
            np.testing.assert_array_equal(
                labels[i], rows[begin + past : begin + past + future, names["TARGET"]]
            )
        first = end


def test_each_hour_has_its_error() -> None:
    toy = forecast()
    inputs, labels = toy.data
    assert np.isnan(inputs).any()
    assert np.isnan(labels).any()
    error = build(toy).run.model(inputs).numpy() - labels
    for size, replicas in ((24, 1), (12, 2)):
        found = evaluate(toy, size, replicas)
        assert found["loss"] == pytest.approx(np.nanmean(error**2), rel=SINGLE)
        for hour in range(labels.shape[1]):
            wanted = np.nanmean(np.abs(error[:, hour]))
            assert found[f"mae_{hour + 1}"] == pytest.approx(wanted, rel=1e-9)


def test_statistics_of_many_rows() -> None:
    names = blocks("forecast_data", "forecast_model")
    windows = np.random.default_rng(0).normal(1013, 10, (87_600, 24, 2)).astype("float32")
    adapted = names["adapt"](TaskConfig(), {"train": (windows, windows[:, :6, 0])})
    np.testing.assert_allclose(adapted["mean"], 1013, atol=0.1)
    np.testing.assert_allclose(adapted["variance"], 100, atol=1)
    assert adapted["label_mean"] == pytest.approx(1013, abs=0.1)
    assert adapted["label_std"] == pytest.approx(10, abs=0.1)


def test_statistics_of_data_with_missing_values() -> None:
    adapted = layers.Normalization()
    adapted.adapt(np.array([[1.0, 2.0], [np.nan, 3.0]]))
    assert np.isnan(adapted.mean.numpy()[0, 0])
    for layer in build(forecast()).run.model.layers:
        assert not (isinstance(layer, layers.Normalization) and layer.variables)
    metric = keras.metrics.MeanAbsoluteError()
    with pytest.raises(tf.errors.InvalidArgumentError):
        metric.update_state(np.ones(3), np.ones(3), sample_weight=np.ones(3))
