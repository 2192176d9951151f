"""What the terminal shows at the start of a run, while it trains, and at its end."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import tensorflow as tf
from proof.engine.display import ProgressDisplay, start_lines, table
from proof.engine.output import say, set_quiet

from .test_loop import loop
from .toys import BATCH, Toy, build, plain_data

pytestmark = pytest.mark.quick
TOY = Toy(data=plain_data(2 * BATCH), others={"validation": plain_data(BATCH + 5)})
STARTERS = {
    "image_classification": ["loss", "accuracy"],
    "segmentation": ["loss", "mean_iou"],
    "language_model": ["loss", "token_accuracy", "exact_match"],
    "gan": ["discriminator_loss", "generator_loss", "frechet", "nearest_distance"],
    "tabular_regression": ["loss", "mae", "r2"],
}
MANY = {f"{n} metrics": ["loss", *(f"metric_{i}" for i in range(n))] for n in range(1, 13)}
LONG = {
    "long": ["loss", "a_sparse_top_k_categorical_accuracy_of_everything", "x" * 50],
    "of classes": ["loss", *(f"f1/{i}" for i in range(20))],
}
NUMBERS = [float("nan"), 1e-12, -1e-12, 1e9, -1.23456e9, -1.23456e-120, float("-inf"), 0.5]


@pytest.fixture(autouse=True)
def _loud() -> Iterator[None]:
    yield
    set_quiet(False)


class Terminal(io.StringIO):
    """Keeps what is written to a terminal of so many columns."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self._ends = pty.openpty()
        fcntl.ioctl(self._ends[0], termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def fileno(self) -> int:
        return self._ends[1]

    def isatty(self) -> bool:
        return True

    def __del__(self) -> None:
        for end in self._ends:
            os.close(end)


def row(step: int, names: list[str]) -> dict[str, float]:
    """A row of the history with difficult numbers: after `step` steps, seven in an epoch."""
    columns = [f"{split}_{name}" for split in ("train", "validation") for name in names]
    numbers = {c: NUMBERS[(i + step) % len(NUMBERS)] for i, c in enumerate(columns)}
    return {"epoch": step / 7, "step": step, **numbers}


def shown(display: ProgressDisplay, names: list[str], rows: int = 8) -> None:
    """Train that many epochs of seven steps, with a validation after each."""
    for i in range(rows):
        display.advance(7, {"loss": 0.5, "accuracy": 1e9}, 0.1, 0.05)
        display.show_validation(row(7 * i + 7, names), {"main": 1.2345e-5}, i % 2 == 0)
    display.close()


def display_of(names: list[str], steps: int = 56, interval: int = 7) -> ProgressDisplay:
    return ProgressDisplay(
        steps, 0, 7, batch_size=10**6, interval=interval, monitor=f"validation_{names[-1]}"
    )


def test_the_start_says_what_is_trained_on() -> None:
    built = build(TOY)
    lines = start_lines(built.run, TOY.splits, built.batches, 20, Path("runs/x")).splitlines()
    facts = {line[:12].rstrip(): line[12:] for line in lines}
    assert facts["project"] == "proof"
    assert facts["examples"] == "48 train, 29 validation"
    assert (facts["batch"], facts["length"]) == (f"{BATCH} examples", "20 steps, 2 in an epoch")
    assert int(facts["parameters"]) == built.run.model.count_params()
    assert facts["run"] == "runs/x"
    endless = SimpleNamespace(endless=True)
    splits = {"train": tf.data.Dataset.range(3).repeat()}
    lines = start_lines(build(TOY, 2).run, splits, endless, 20, Path("x")).splitlines()  # type: ignore[arg-type]
    assert "endless train" in lines[1]
    assert f"{BATCH // 2} on each replica" in lines[2]
    assert lines[3].endswith("20 steps")


@pytest.mark.parametrize("names", [*(STARTERS | MANY | LONG).values()], ids=STARTERS | MANY | LONG)
def test_rows_are_aligned_and_fit(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    shown(display_of(names), names)
    *head, first, second = capsys.readouterr().out.splitlines()[:-6]
    rows = [first, second]
    assert max(map(len, [*head, *rows])) <= 80
    assert first.startswith("  1/8") or first.startswith("1/8")
    assert first.endswith(" *")
    assert not second.endswith("*")
    ends = [[match.end() for match in re.finditer(r"\S+", r.removesuffix(" *"))] for r in rows]
    assert ends[0] == ends[1]
    # Each column has a heading above its end, and the monitored metric is among them.
    assert all(any(line[end - 1 : end].strip() for line in head) for end in ends[0])
    assert {"train", "val"} <= {word for line in head for word in line.split()}


def test_columns_that_do_not_fit_are_left_out_from_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["loss", "first", "second", "third", "last"]
    shown(display_of(names), names, rows=1)
    head = capsys.readouterr().out.splitlines()[:-1]
    words = " ".join(head).split()
    assert {"epoch", "loss", "first", "last", "time"} <= set(words)
    assert "third" not in words


@pytest.mark.parametrize(
    ("steps", "interval", "done", "place"),
    [
        (56, 7, 7, "1/8"), (56, 3, 7, "7/56"), (58, 7, 7, "7/58"),
        (140_000, 7, 86_415, "12345/20000"),
    ],
)  # fmt: skip
def test_rows_count_epochs_or_steps(
    steps: int, interval: int, done: int, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    display = display_of(["loss"], steps, interval)
    display.show_validation(row(done, ["loss"]), {"main": 0.1}, best=True)
    display.close()
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == place


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("steps", [56, 5_000_001])
def test_on_a_terminal_rows_and_bar_fit(
    columns: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = STARTERS["segmentation"]
    terminal = Terminal(columns)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    display = display_of(names, steps)
    display._bar.mininterval = 0.0  # each step is shown
    shown(display, names)
    text = terminal.getvalue()
    lines = re.split(r"[\r\n]+", text)
    bars = [line for line in lines if " left" in line]
    assert max(map(len, lines)) <= columns
    assert "\x1b" not in text
    assert any(re.match(r"step 14/5000001 |epoch 3/8 ", bar) for bar in bars)
    assert all(re.search(r"[\d?]+ left", bar) for bar in bars)
    assert any("loss 0.5" in bar for bar in bars) == (columns >= 80)
    assert any("examples/s" in bar for bar in bars) == (columns >= 200)


def test_elsewhere_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    shown(display_of(["loss"]), ["loss"])
    said = capsys.readouterr()
    assert "\r" not in said.out + said.err
    assert not said.err


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    set_quiet(True)
    shown(display_of(["loss"]), ["loss"])
    say("something")
    assert capsys.readouterr() == ("", "")


def test_losses_and_metrics_stand_in_rows_and_splits_in_columns() -> None:
    results = {"strategy": "none", "train_loss": 1.23456789, "validation_loss": 20000.0}
    results |= {"test_loss": float("nan"), "test_mean_error": 1e-9}
    results |= {f"train_f1/{i}": 0.5 for i in range(9)}
    head, loss, *classes, error, more = table(results).splitlines()
    assert head.split() == ["train", "validation", "test"]
    assert loss.split() == ["loss", "1.235", "2e+04", "nan"]
    assert error.split() == ["mean", "error", "1e-09"]
    assert error.endswith("1e-09")
    assert [line.split()[0] for line in classes] == [f"f1/{i}" for i in range(4)]
    assert more == "and 5 more in results.json"


@pytest.mark.parametrize("validated", [True, False])
def test_the_end_names_the_best_step_whose_weights_are_tested(
    validated: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy = TOY if validated else Toy(data=TOY.data)
    loop(tmp_path, toy=toy, num_steps=4, save_every_steps=2).train()
    run = loop(tmp_path, toy=toy, num_steps=6, resume=True)
    capsys.readouterr()
    run.train()
    best = min(run.records.history, key=lambda row: row["train_loss"])
    assert run.best_row == best
    marked = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" *")]
    assert marked[-1].split()[0] == f"{best['epoch']:g}/3"
    (tmp_path / "a b.png").touch()
    end = run.closing_lines(20.0)
    assert f"step {best['step']:g}, chosen by train loss" in end
    assert f"pictures    {tmp_path / 'a b.png'}\n" in end
    (parts,) = re.findall(r"seconds 20.0: (.*) pictures", " ".join(end.split()))
    spent = {part.partition(" ")[2]: float(part.split()[0]) for part in parts.split(", ")}
    assert list(spent)[2:] == ["waiting for data", "evaluation", "saving", "other"]
    assert sum(spent.values()) == pytest.approx(20, abs=0.4)
    assert 0 < spent["compiling"] < 20
