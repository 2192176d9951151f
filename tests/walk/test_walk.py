"""The tutorial, from the blank starter to a trained model; each command names the next TODO."""

import json
import re
import sys
from pathlib import Path

import pytest
from conftest import Render, python_m, run

from walk.patches import PATCHES, Patch

pytestmark = pytest.mark.environment

MOST_LINES = 70  # with pictures, docstrings and imports
QUICK = {1, 2, 6, 11, 15}  # stages at which train.py runs in the quick form
CHECKED = {1, 3, 7, 12}  # those at which check does in the thorough one: it takes half a minute
PACKAGE = "walk_along"


@pytest.fixture(scope="module")
def blank(render: Render) -> Path:
    """The project as it is rendered: nothing is filled in."""
    return render(starter="blank", package_name=PACKAGE)


def fill_in(project: Path, patch: Patch) -> int:
    """Do as the page says, and as a person would: write the code, delete the marker."""
    file = project / PACKAGE / "task" / patch.file
    text = file.read_text()
    file.write_text(patch.apply(text))
    return patch.lines(text)


def next_todo(project: Path, *command: str) -> int:
    """The number of the TODO that a command stops at."""
    message = run(sys.executable, *command, cwd=project, status=2).stderr
    assert message.count("\n") == 1, message
    match = re.match(r"error: TODO\((\d+)\) is next: \w+ in task/\w+\.py ", message)
    assert match, message
    return int(match[1])


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.full)])
def test_every_command_names_the_next_todo_until_all_are_filled_in(
    render: Render, thorough: bool
) -> None:
    project = render(starter="blank", package_name=PACKAGE)
    written = 0
    for i, patch in enumerate(PATCHES):
        listed = python_m(PACKAGE, "todo", cwd=project).stdout.splitlines()
        assert int(listed[0].split()[0]) == patch.number
        assert listed[-1] == f"{len(PATCHES) - i} TODOs left"
        if thorough or patch.number in QUICK:
            assert next_todo(project, "train.py", "--epochs", "2") == patch.number
        if thorough and patch.number in CHECKED:
            assert next_todo(project, "-m", PACKAGE, "check") == patch.number
        if patch.number < 15:  # that one is reached after training, whose result is kept
            assert not list(project.glob("runs/*")), "a run that never trained left a directory"
        written += fill_in(project, patch)
    assert written <= MOST_LINES
    assert python_m(PACKAGE, "todo", cwd=project).stdout == "no TODOs left\n"
    (project / "conftest.py").unlink()
    (project / PACKAGE / "task" / "next_todo.py").unlink()
    run(sys.executable, "-m", "ruff", "check", "--fix", ".", cwd=project)
    python_m("mypy", cwd=project)
    assert "WRONG" not in python_m(PACKAGE, "check", cwd=project).stdout
    run(sys.executable, "train.py", cwd=project)
    *_, results = sorted(project.glob("runs/*/results.json"))
    assert json.loads(results.read_text())["test_mae"] < 20  # meters, as the page says
    if thorough:
        # Not those of the engine, which are the same in every project.
        summary = python_m("pytest", "--ignore=tests/engine", cwd=project).stdout.splitlines()[-1]
        assert "passed" in summary
        assert "TODO" not in summary


def test_tests_that_need_a_todo_are_skipped_with_its_name(blank: Path) -> None:
    output = python_m("pytest", "-k", "command_line or check", cwd=blank).stdout
    assert re.search(r"SKIPPED .*TODO\(1\) is next: TaskConfig in task/config.py", output)
    assert "failed" not in output.splitlines()[-1]


@pytest.mark.full
def test_a_metric_that_takes_no_float64_is_compared_in_float32(render: Render) -> None:
    project = render()
    task = project / "my_experiment" / "task"
    for file, old, new in (
        (
            "metrics.py",
            '"accuracy": keras',
            '"top": keras.metrics.SparseTopKCategoricalAccuracy(2), "accuracy": keras',
        ),
        ("steps.py", '    run.metrics["accuracy"].up', '    run.metrics["top"].up'),  # in each step
    ):
        text = (task / file).read_text()
        assert old in text
        (task / file).write_text(text.replace(old, new))
    test = ("pytest", "-q", "tests/test_parity.py", "-k", "short_weighted-2")
    assert "1 passed" in python_m(*test, cwd=project).stdout


@pytest.mark.full
def test_what_a_task_can_not_do_costs_only_that_much_of_its_parity(render: Render) -> None:
    project = render()
    steps = project / "my_experiment" / "task" / "steps.py"
    unpacked = "    images, labels, weights = batch\n"
    text = steps.read_text()
    assert unpacked in text
    changed = """\
    weights = tf.cast(weights > 0, weights.dtype)  # a NaN isn't, so it reaches no loss
    weights *= tf.linalg.det(tf.eye(2, dtype=run.model.compute_dtype))  # there is none of 16 bits
"""
    steps.write_text(text.replace(unpacked, unpacked + changed))
    test = ("pytest", "-q", "-rs", "tests/test_parity.py", "-k", "full_weighted-2 or float16-2")
    printed = python_m(*test, cwd=project).stdout
    assert "1 passed, 2 skipped" in printed
    assert "one replica doesn't train in float16" in printed


@pytest.mark.full
def test_endless_data_and_pictures_of_any_size_pass(render: Render) -> None:
    project = render()
    for file, old, new in (
        (
            "my_experiment/task/data.py",
            "    return {\n        split: (",
            "    import tensorflow as tf\n    made = {\n        split: (",
        ),
        (
            "my_experiment/task/data.py",
            "splits.items()\n    }\n",
            """splits.items()
    }
    endless = tf.data.Dataset.from_tensor_slices(made["train"]).repeat()
    return made | {"train": endless}
""",
        ),
        ("my_experiment/task/model.py", 'adapted["shape"], name', "(None, None, 1), name"),
        (
            "my_experiment/task/model.py",
            "layers.Flatten()",
            "layers.MaxPooling2D(2)(x)\n    x = layers.GlobalAveragePooling2D()",
        ),
        ("tests/scenarios.py", "FLAGS: dict[str, Any] = {}", 'FLAGS = {"steps": 1000}'),
    ):
        path = project / file
        text = path.read_text()
        assert text.count(old) == 1, (file, old)
        path.write_text(text.replace(old, new))
    relations = ("tests/test_relations.py", "tests/test_run.py")
    which = "trace or exported or quiet or evaluate"
    summary = python_m("pytest", "-q", *relations, "-k", which, cwd=project).stdout.splitlines()[-1]
    assert "passed" in summary
    assert "failed" not in summary
    assert "error" not in summary
