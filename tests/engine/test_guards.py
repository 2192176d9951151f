"""Bad data and full disks end a run with one sentence."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import pytest
import tensorflow as tf
from proof.__main__ import Compare, Predict, Report
from proof.config import Config
from proof.engine import files, strategy
from proof.engine.callbacks import at_step, every_epochs, every_steps
from proof.engine.data_errors import data_errors
from proof.engine.errors import AGAIN, DataError, PassingDataError, UsageError, usage_errors
from proof.engine.evaluation import Evaluation
from proof.engine.export import export_models
from proof.engine.files import replace_file, writing
from proof.engine.output import Forgiving
from proof.engine.report import write_report
from proof.engine.run_directory import RunDirectory
from proof.engine.strategy import create_strategy
from proof.engine.sweep import sweep
from proof.task.config import TaskConfig

from .test_compare import make
from .toys import CLASSES, FEATURES, Toy, build, plain_data, plain_model, predict_files

pytestmark = pytest.mark.quick


def model_of(dtype: str, shape: tuple[int, ...] = (FEATURES,)) -> Callable[[], keras.Model]:
    """Inputs of a dtype and shape -> logits (batch, 3)."""

    def model() -> keras.Model:
        x = inputs = keras.Input(shape, dtype=dtype, name="features")
        if dtype == "int32":
            x = keras.layers.Flatten()(keras.layers.Embedding(10, 2)(x))
        return keras.Model(inputs, keras.layers.Dense(CLASSES)(x))

    return model


INPUTS, LABELS = plain_data()
WORDS = np.zeros((len(LABELS), FEATURES), "int64")


@pytest.mark.parametrize(
    ("model", "data", "sentence"),
    [
        (model_of("float64"), (INPUTS, LABELS + 1), r"a label is 3, outside the range \[0, 3\)"),
        (model_of("int32"), (WORDS + 10, LABELS), r"an index is 10, outside the range \[0, 10\)"),
        (model_of("int32"), (INPUTS, LABELS), r"features is float64 \(5,\).* takes int32 \(5,\)"),
        (model_of("float64", (4,)), (INPUTS, LABELS), r"is float64 \(5,\).* takes float64 \(4,\)"),
    ],
    ids=["label", "index", "dtype", "shape"],
)
def test_data_that_a_model_cannot_take(
    model: Callable[[], keras.Model], data: tuple[np.ndarray, ...], sentence: str
) -> None:
    toy = Toy(model, data=data)
    built = build(toy)
    iterator = built.iterator(0, 2)
    with (
        pytest.raises(UsageError, match=f"The training data .*{sentence}"),
        data_errors("train", built.run, iterator.element_spec),
    ):
        built.steps.distributed_train_step(iterator, 2, built.steps.start())


def test_data_that_ends_early() -> None:
    toy = Toy()
    built = build(toy)
    iterator = built.iterator(0, 1)
    with (
        pytest.raises(UsageError, match="The training data ended early"),
        data_errors("train", built.run, iterator.element_spec),
    ):
        built.steps.distributed_train_step(iterator, 2, built.steps.start())


def test_other_virtual_replicas_than_those_of_the_first_run_of_a_process() -> None:
    tf.config.list_logical_devices()  # TensorFlow has started, with four
    with pytest.raises(UsageError, match="when it is imported: make it in a function"):
        create_strategy("none", virtual_replicas=3)


@pytest.mark.quick
@pytest.mark.parametrize(("driver", "hidden"), [(True, False), (True, True), (False, False)])
def test_a_gpu_that_tensorflow_does_not_see_is_mentioned(
    driver: bool,
    hidden: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(strategy, "NVIDIA", tmp_path / ("" if driver else "none"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if hidden:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    create_strategy()
    said = capsys.readouterr().out
    assert ("TensorFlow sees no GPU, though an NVIDIA" in said) == (driver and not hidden)


def test_bugs_of_the_task_keep_their_traceback() -> None:
    built = build(Toy())
    spec = built.iterator(0, 1).element_spec
    with pytest.raises(ValueError, match="in a layer"), data_errors("test", built.run, spec):
        raise ValueError("a mistake in a layer")


def test_a_layer_frozen_between_two_evaluations_is_no_longer_regularized() -> None:
    def model() -> keras.Model:
        inputs = keras.Input((FEATURES,))
        dense = keras.layers.Dense(CLASSES, kernel_regularizer=keras.regularizers.L2(1.0))
        return keras.Model(inputs, dense(inputs))

    toy = Toy(model)
    built = build(toy)
    evaluation = Evaluation(built.run, toy.splits, built.steps.layout)
    before = evaluation.evaluate("train")["train_loss"]
    built.run.model.layers[-1].trainable = False
    squares = float(np.sum(np.square(built.run.model.layers[-1].kernel.numpy())))
    assert before - evaluation.evaluate("train")["train_loss"] == pytest.approx(squares)


@pytest.mark.parametrize("when", [every_steps, every_epochs])
def test_what_is_due_every_n_is_not_due_before_the_first_step(when: Callable[..., Any]) -> None:
    assert not when(2, print).is_due(0, steps_per_epoch=1)
    assert when(2, print).is_due(2, steps_per_epoch=1)
    assert at_step(0, print).is_due(0, steps_per_epoch=1)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_cannot_be_written_gets_a_sentence(
    number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end, usage_errors():
        raise OSError(number, "No space left on device", "curves.png")
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith("error: curves.png can't be written (No space left on device);")
    assert message.count("\n") == 1


STALE = OSError(errno.ESTALE, "Stale file handle", "a file")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (STALE, 138),
        (OSError(errno.EIO, "Input/output error", "a file"), 138),
        (tf.errors.AbortedError(None, None, "ckpt-1; Stale file handle [Op:SaveV2]"), 138),
        (OSError(errno.EROFS, "Read-only file system", "a file"), 2),
        (tf.errors.ResourceExhaustedError(None, None, "ckpt-1; No space left on device"), 2),
    ],
    ids=["stale", "input or output", "of tensorflow", "read-only", "full"],
)
def test_what_may_be_over_in_a_moment_is_started_again(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end, usage_errors(), writing("history.csv"):
        raise error
    assert end.value.code == code
    assert capsys.readouterr().err.startswith("error: history.csv can't be written (")


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (STALE, "138"),
        (PassingDataError(), "138"),
        (tf.errors.UnknownError(None, None, "OSError: [Errno 5] Input/output error: 'a'"), "138"),
        (OSError(errno.EACCES, "Permission denied", "a file"), "2"),
        (tf.errors.InvalidArgumentError(None, None, "Invalid PNG"), "2"),
    ],
    ids=["stale", "said before", "of python in a pipeline", "not allowed", "damaged"],
)
def test_an_example_that_storage_may_give_in_a_moment_is_started_again(
    cause: Exception, code: str
) -> None:
    def read() -> None:
        try:
            raise DataError("Example 7 can't be read.") from cause
        except DataError as error:
            raise UsageError(f"{error} The checkpoints are intact.") from error

    with pytest.raises(SystemExit, match=code), usage_errors():
        read()


@pytest.mark.parametrize(
    ("number", "kept"),
    [(None, "new"), (errno.EINVAL, "new"), (errno.ENOTSUP, "new"), (errno.EDQUOT, "old")],
)
def test_a_file_is_on_the_disk_before_it_replaces_another_one(
    number: int | None, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bytes, str]] = []
    file = tmp_path / "history.csv"
    file.write_text("old")

    def sync(opened: int) -> None:
        seen.append((os.read(opened, 9), file.read_text()))
        if number is not None:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(UsageError, match="can't be written") if kept == "old" else nullcontext():
        replace_file(file, "new")
    assert seen == [(b"new", "old")]
    assert [path.read_text() for path in tmp_path.iterdir()] == [kept]


def test_two_processes_may_write_one_file_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, to_disk = tmp_path / "report.html", files.to_disk

    def meanwhile(path: Path) -> None:
        monkeypatch.setattr(files, "to_disk", to_disk)
        replace_file(file, "of the command")
        assert file.read_text() == "of the command"
        to_disk(path)

    monkeypatch.setattr(files, "to_disk", meanwhile)
    replace_file(file, "of the run")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["of the run"]


@pytest.mark.usefixtures("handlers")
def test_a_signal_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "to_disk", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "report.html", "new")
    assert not list(tmp_path.iterdir())


def swept(directory: Path) -> None:
    sweep(directory / "s.yaml", directory, 1, training=Config, task=TaskConfig)


def predicted(directory: Path) -> None:
    list(predict_files(Toy().model(), [directory / "inputs.npy"], directory / "out"))


@pytest.mark.parametrize(
    ("refused", "command", "what"),
    [
        ("pathlib.Path.write_bytes", lambda path: write_report(path, ""), r"report\.html"),
        ("pathlib.Path.mkdir", swept, "s"),
        ("os.open", swept, "s"),
        ("pathlib.Path.mkdir", predicted, "out"),
        ("pathlib.Path.write_bytes", predicted, r"out/inputs\.npy"),
        (
            "pathlib.Path.mkdir",
            lambda path: list(export_models(build(Toy()).run, path / "export")),
            "export",
        ),
    ],
)
def test_a_command_without_write_permission_says_what_helps_it(
    refused: str,
    command: Callable[[Path], Any],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "a file")

    path = make(tmp_path / "run", [1.0])
    (path / "s.yaml").write_text("grid: {seed: [1]}")
    np.save(path / "inputs.npy", np.zeros((2, FEATURES)))
    if refused == "os.open":  # of the lock, in a folder that is there
        (path / "s").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(refused, refuse)
        then = "(fix that|make it writable), then"
        sentence = rf"^{path}/{what} can't be written \(Permission denied\); {then}"
        with pytest.raises(UsageError, match=sentence):
            command(path)


def test_a_full_disk_is_said_in_the_words_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit), usage_errors(trains=False):
        raise OSError(errno.ENOSPC, "No space left on device", "main.keras")
    assert capsys.readouterr().err.endswith(f"; {AGAIN}\n")


LONG = Path("x" * 300)


def _unreadable_folder(path: Path) -> None:
    with patch.object(Path, "iterdir", side_effect=PermissionError(13, "Permission denied", "y")):
        list(predict_files(keras.Model(), [path], path))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (lambda path: Compare((LONG,))(), f"{LONG} is not a run directory: File name too long."),
        (lambda path: Report(LONG)(), f"{LONG} is not a run directory: File name too long."),
        (lambda path: Predict(path, (LONG,))(), f"{LONG}: File name too long."),
        (_unreadable_folder, "y: Permission denied."),
        (
            lambda path: list(export_models(build(Toy()).run, path / "export")),
            f"export can't be written (File exists); {AGAIN}",
        ),
    ],
    ids=["compare", "report", "predict", "folder", "export"],
)
def test_a_name_that_cannot_be_looked_at_gets_a_sentence(
    command: Callable[[Path], Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "export").touch()
    with pytest.raises(SystemExit, match="2"), usage_errors():
        command(tmp_path)
    message = capsys.readouterr().err
    assert message.startswith("error: ")
    assert message.endswith(f"{said}\n")
    assert message.count("\n") == 1


def test_an_error_of_the_system_that_names_no_file_keeps_its_traceback() -> None:
    with pytest.raises(OSError, match="Too many open files"), usage_errors():
        raise OSError(24, "Too many open files")


@pytest.mark.parametrize("saved", [False, True])
def test_a_failed_run_is_deleted_only_if_it_never_saved(tmp_path: Path, saved: bool) -> None:
    def fail() -> None:
        with RunDirectory(path, is_new=True) as run:
            run.is_new = not saved
            raise ZeroDivisionError

    path = tmp_path / "run"
    path.mkdir()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.exists() == saved


def test_a_model_without_anything_to_train_is_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    def frozen() -> keras.Model:
        model = plain_model()
        model.trainable = False
        return model

    build(Toy())
    assert "nothing to train" not in capsys.readouterr().out
    build(Toy(frozen))
    assert "all of them are frozen by create_model in task/model.py" in capsys.readouterr().out


def test_a_lost_output_that_has_no_such_character_ends_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w", encoding="ascii", buffering=1) as pipe:
        output = Forgiving(pipe)
        assert output.write("\N{PLUS-MINUS SIGN}\n") == 2  # written at once, and line by line
        assert output.lost is None
