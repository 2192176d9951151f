"""Checkpoints: damaged ones are skipped, and those of a different run raise an error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
from proof.engine import link, run_directory
from proof.engine.callbacks import at_step
from proof.engine.checkpoints import BestWeights, _remove
from proof.engine.errors import UsageError
from proof.engine.run_directory import RunDirectory
from proof.engine.types import Run

from .one_layer import create_loop, create_run, run_loop
from .test_loop import loop
from .toys import CLASSES, FEATURES, Toy, build, plain_model

pytestmark = pytest.mark.quick


def checkpoints(directory: Path) -> list[Path]:
    """The data files of all checkpoints, the latest last."""
    return sorted((directory / "checkpoints" / "latest").glob("*.data*"))


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The directory of a run that made six steps and saved the third and the sixth."""
    run_loop(tmp_path, save_every_steps=3, num_steps=6)
    return tmp_path


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    saved: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    (saved / "checkpoints" / "latest" / "ckpt-2.data-00000-of-00001").touch()  # of a save killed
    latest = checkpoints(saved)[-1]
    damaged = bytearray(latest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    latest.write_bytes(damaged)
    run_loop(saved, save_every_steps=3, resume=True)
    assert "ckpt-6 can't be read" in capsys.readouterr().err
    whole = tmp_path_factory.mktemp("whole")
    run_loop(whole, save_every_steps=3)
    kept = [file.name.partition(".")[0] for file in checkpoints(saved)]
    assert kept == ["ckpt-3", "ckpt-6", "ckpt-8"]
    assert (saved / "history.csv").read_text() == (whole / "history.csv").read_text()


@pytest.mark.parametrize("damage", ["truncated", "no index"])
def test_without_a_checkpoint_that_can_be_read_nothing_is_resumed(saved: Path, damage: str) -> None:
    for file in checkpoints(saved):
        if damage == "truncated":
            os.truncate(file, 100)
        else:
            file.with_name(f"{file.name.partition('.')[0]}.index").unlink()
    with pytest.raises(UsageError, match="holds no checkpoint"):
        create_loop(saved).start(resume=True)


def other_optimizer(run: Run) -> Run:
    optimizer = keras.optimizers.Ftrl(1.0)
    optimizer.build(run.model.trainable_variables)
    return replace(run, optimizers={"main": optimizer})


def other_rate(run: Run) -> Run:
    run.optimizers["main"].learning_rate = 2e5
    return run


def other_model(run: Run) -> Run:
    return create_run(layer=keras.layers.BatchNormalization())


def other_precision(run: Run) -> Run:
    keras.config.set_dtype_policy("mixed_bfloat16")
    return create_run()


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda run: replace(run, global_batch_size=4), {}, "global batch size was 8, .* is 4"),
        (lambda run: replace(run, seed=1), {}, "seed was 0, and now it is 1"),
        (lambda run: run, {"last_batch": "pad"}, "last batch was drop, and now it is pad"),
        (other_precision, {}, "precision was float64, and now it is mixed_bfloat16"),
        (other_optimizer, {}, "optimizer main was SGD, and now it is Ftrl"),
        (other_rate, {}, "learning rate of main was 100000, and now it is 200000"),
        (other_model, {}, "in its model main .*batch_normalization.* is new"),
    ],
    ids=["batch size", "seed", "last batch", "precision", "optimizer", "learning rate", "model"],
)
def test_another_run_is_refused_and_nothing_on_disk_changes(
    saved: Path, change: Callable[[Run], Run], settings: dict[str, Any], message: str
) -> None:
    unfinished = saved / "checkpoints" / "latest" / "unfinished" / "ckpt-7_temp"
    unfinished.mkdir(parents=True)
    (unfinished / "part").touch()
    before = contents(saved)
    with pytest.raises(UsageError, match=message):
        create_loop(saved, run=change(create_run()), **settings).start(resume=True)
    assert contents(saved) == before


def test_a_file_that_the_file_system_keeps_among_unfinished_ones_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    latest = tmp_path / "checkpoints" / "latest"
    (latest / "unfinished").mkdir(parents=True)
    (latest / "unfinished" / ".nfs0001").touch()
    monkeypatch.setattr("proof.engine.checkpoints.shutil.rmtree", lambda *_, **__: None)
    loop(tmp_path, num_steps=4, save_every_steps=2).train()
    assert {file.name for file in latest.glob("*.index")} == {"ckpt-2.index", "ckpt-4.index"}


def test_a_checkpoint_is_on_the_disk_before_it_has_its_name_and_older_ones_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int]] = []

    def noted(what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def note(at: Any, *arguments: Any, **options: Any) -> Any:
            done.append((what, os.stat(at).st_ino))  # a file keeps its number, not its name
            return function(at, *arguments, **options)

        return note

    best = BestWeights(tmp_path, build(Toy()).run)
    best.save(1)
    for owner, what in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
        monkeypatch.setattr(owner, what, noted(what, getattr(owner, what)))
    best.save(2)
    names = {path.stat().st_ino: path.name for path in (tmp_path, *tmp_path.iterdir())}
    data, index = "ckpt-2.data-00000-of-00001", "ckpt-2.index"
    assert [(what, names.get(number, "older")) for what, number in done] == [
        ("fsync", data), ("fsync", index), ("replace", data), ("replace", index),
        ("fsync", tmp_path.name), ("unlink", "older"), ("unlink", "older"),
    ]  # fmt: skip


def test_summaries_of_models_are_whole_however_narrow_the_terminal_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    with RunDirectory.open(tmp_path, "run", None, "") as directory:
        directory.write_models({"trained": plain_model()})
        file = directory.path / "model.txt"
        alone = file.read_text()
        directory.write_models({"trained": plain_model(), "average": plain_model()})
        assert "Param #" in alone
        assert "trained:" not in alone
        assert {"trained:", "average:"} < {*file.read_text().splitlines()}
    assert os.environ["COLUMNS"] == "40"


def test_a_run_directory_in_use_is_refused(tmp_path: Path) -> None:
    first = RunDirectory.open(tmp_path, "first", None, "")
    with pytest.raises(UsageError, match="another process"):
        RunDirectory.open(tmp_path, "", first.path, "")


def test_a_run_directory_that_was_moved_is_not_begun_anew(tmp_path: Path) -> None:
    runs = tmp_path / "run", tmp_path / "moved"
    runs[0].mkdir()
    run = loop(
        runs[0], [at_step(3, lambda event: runs[0].rename(runs[1]))], num_steps=6,
        save_every_steps=4, validate_every_steps=6,
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"step 4 can't be written \(No such file or directory\)"):
        run.train()
    assert not runs[0].exists()
    assert runs[1].is_dir()


def test_a_checkpoint_that_somebody_else_deletes_meanwhile_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    best, glob = BestWeights(tmp_path, build(Toy()).run), Path.glob
    best.save(1)

    def with_a_deleted_one(path: Path, pattern: str) -> Any:
        return [*glob(path, pattern), path / "ckpt-1.data-00000-of-00002"]

    monkeypatch.setattr(Path, "glob", with_a_deleted_one)
    _remove(tmp_path, set())
    assert not list(tmp_path.iterdir())


def test_who_may_be_started_again_by_a_launcher_waits_for_the_lock_of_a_lost_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RunDirectory.open(tmp_path, "first", None, "")
    monkeypatch.setattr(run_directory, "say", lambda _: first.__exit__(None))
    with RunDirectory.open(tmp_path, "", first.path, "resume: auto"):
        pass
    for name in ("results.json", "report.html"):
        (first.path / name).touch()
    with pytest.raises(UsageError, match="has been finished by another process meanwhile"):
        RunDirectory.open(tmp_path, "", first.path, "resume: auto")


def test_workers_wait_for_the_lock_of_a_host_that_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[float] = []

    def on_chief(function: Callable[[], str]) -> str:
        rounds.append(time.monotonic())
        return function()

    workers: Any = SimpleNamespace(on_chief=on_chief, require_shared=lambda _: None)
    first = RunDirectory.open(tmp_path, "first", None, "")
    monkeypatch.setattr(link, "current", SimpleNamespace(hang_timeout=0.4))
    monkeypatch.setattr(run_directory, "LOCK_SECS", 2.0)
    sentence = f"by another process; if its host is gone, delete {first.path}/lock.$"
    with pytest.raises(UsageError, match=sentence):
        RunDirectory.open(tmp_path, "", first.path, "", workers)
    assert rounds[-1] - rounds[0] >= 1.9  # whatever --hang-timeout is
    assert len(rounds) > 4  # so that none seems to hang
    monkeypatch.setattr(run_directory, "say", lambda _: first.__exit__(None))
    with RunDirectory.open(tmp_path, "", first.path, "", workers):
        pass


def branches(*order: str) -> Callable[[], keras.Model]:
    """A model of two branches of one shape, which it adds in this order."""

    def create() -> keras.Model:
        x = keras.Input((FEATURES,))
        made = {name: keras.layers.Dense(CLASSES, name=name)(x) for name in ("left", "right")}
        return keras.Model(x, keras.layers.Add()([made[name] for name in order]))

    return create


@pytest.mark.quick
def test_weights_of_another_model_are_refused_in_one_sentence(tmp_path: Path) -> None:
    def wider() -> keras.Model:
        x = keras.Input((FEATURES,))
        hidden = keras.layers.Dense(9, name="hidden")(x)
        return keras.Model(x, keras.layers.Dense(CLASSES, name="logits")(hidden))

    def longer() -> keras.Model:
        model = plain_model()
        return keras.Model(model.input, keras.layers.Dense(2, name="more")(model.output))

    loop(tmp_path, epochs=1).train()
    for model, sentence in (
        (wider, r"has hidden/kernel \(5, 9\), it had hidden/kernel \(5, 4\); set create_model in"),
        (longer, r"has more/kernel \(3, 2\), it had no more weights; set"),
    ):
        best = BestWeights(tmp_path / "checkpoints" / "best", build(Toy(model)).run)
        with pytest.raises(UsageError, match=sentence):
            best.restore()


def test_weights_at_other_places_are_refused(tmp_path: Path) -> None:
    loop(tmp_path, toy=Toy(branches("left", "right")), epochs=1).train()
    directory = tmp_path / "checkpoints" / "best"
    assert BestWeights(directory, build(Toy(branches("left", "right"))).run).restore()
    other = BestWeights(directory, build(Toy(branches("right", "left"))).run)
    with pytest.raises(UsageError, match=r"has right/kernel .* it had left/kernel .* the order of"):
        other.restore()
