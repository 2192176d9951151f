"""Whatever is typed, given or found: what works, or one sentence, and nothing left behind."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import string
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from conftest import ROOT
from cookiecutter.exceptions import CookiecutterException
from cookiecutter.main import cookiecutter
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from proof.config import Config
from proof.engine import cluster
from proof.engine.command_line import parse
from proof.engine.errors import UsageError
from proof.task.config import TaskConfig

NAMES = [field.name.replace("_", "-") for form in (Config, TaskConfig) for field in fields(form)]
NUMBERS = ["-1", "0", "1", "1e400", "nan", "-inf", str(2**31), str(2**63), "9" * 5000, "1_0", "٣"]
TEXT = st.text(max_size=40)
VALUES = st.one_of(TEXT, st.sampled_from(NUMBERS), st.integers().map(str), st.floats().map(str))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def many(number: int) -> Callable[[Any], Any]:
    """Run a test on so many examples, always the same."""
    return settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


def assert_parsed_or_refused(arguments: list[str]) -> None:
    """Flags are taken, or refused in one sentence with exit code 2."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            parse(arguments, training=Config, task=TaskConfig)
            return
        except SystemExit as end:
            code = end.code
    if code in (0, None):  # --help or --print-config
        assert out.getvalue()
        return
    assert code == 2
    said = err.getvalue()
    assert said.startswith("error: ")
    assert said.endswith("\n")
    assert said[:-1].isprintable()


FLAGS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(NAMES), VALUES).map(lambda pair: [f"--{pair[0]}", pair[1]]),
        st.tuples(st.sampled_from(NAMES), VALUES).map(lambda pair: [f"--{pair[0]}={pair[1]}"]),
        st.tuples(st.sampled_from(NAMES), st.integers(1, 9)).map(
            lambda pair: [f"--{pair[0][: pair[1]]}"]
        ),
        TEXT.map(lambda text: [text]),
    ),
    max_size=5,
).map(lambda parts: [argument for part in parts for argument in part])


@many(700)
@given(FLAGS)
@example(["--config"])
@example(["--resume="])
@example(["--config=" + "x" * 5000])
@example(["--config", "\0"])
@example(["--resume", "\0"])
def test_any_flags_are_taken_or_refused_in_one_sentence(arguments: list[str]) -> None:
    assert_parsed_or_refused(arguments)


YAML = st.one_of(
    st.binary(max_size=200),
    TEXT.map(str.encode),
    st.dictionaries(st.sampled_from(NAMES) | TEXT, JSON, max_size=5).map(
        lambda values: json.dumps(values).encode()
    ),
    st.lists(
        st.tuples(st.sampled_from(NAMES), st.text(alphabet=string.printable, max_size=20)),
        max_size=5,
    ).map(lambda lines: "\n".join(f"{name}: {value}" for name, value in lines).encode()),
)


@many(500)
@given(YAML)
@example(b"seed: " + b"[" * 3000)
@example(b"a: &a [*a]")
@example(b"? [a]\n: b")
@example(b"--help: true")
@example("\ufeffseed: 3".encode())
@example("seed: \ud800".encode("utf-8", "surrogatepass"))
def test_any_settings_file_is_taken_or_refused_in_one_sentence(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "config.yaml"
        file.write_bytes(content)
        assert_parsed_or_refused(["--config", str(file)])
        assert_parsed_or_refused(["--resume", directory])
        assert [path.name for path in Path(directory).iterdir()] == ["config.yaml"]


TASKS = st.fixed_dictionaries(
    {},
    optional={
        "cluster": JSON | st.dictionaries(st.sampled_from(["worker", "chief", "ps"]), JSON),
        "task": JSON | st.fixed_dictionaries({"type": JSON, "index": JSON}),
    },
)
VARIABLES = [
    "TF_CONFIG", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
    "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID", "SLURM_JOB_ID",
    "SLURM_NODEID", "SLURM_STEP_ID", "JOB_COMPLETION_INDEX", "WORKER_HOSTS",
]  # fmt: skip


@many(500)
@given(
    st.one_of(
        TEXT.map(lambda text: {"TF_CONFIG": text}),
        (JSON | TASKS).map(lambda config: {"TF_CONFIG": json.dumps(config)}),
        st.dictionaries(
            st.sampled_from(VARIABLES),
            st.one_of(TEXT, st.sampled_from([*NUMBERS, "n[1-3]", "n[3-1]", "2(x3)", "a,b"])),
        ),
    )
)
@example({"TF_CONFIG": "[" * 5000})
@example({"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "n[1-9999][1-9999][1-9999]"})
@example({"JOB_COMPLETION_INDEX": "0", "WORKER_HOSTS": "n[1-99999999999]"})
def test_any_launcher_is_understood_or_refused_in_one_sentence(environ: dict[str, str]) -> None:
    with contextlib.suppress(UsageError):
        config = cluster.tf_config(environ)
        if config is None:
            return
        addresses = config["cluster"]["worker"]
        assert len(addresses) >= 2
        assert 0 <= config["task"]["index"] < len(addresses)


CHOICES = ["starter", "license", "cluster"]
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "project_name": st.text(max_size=60),
        "project_slug": st.text(max_size=20) | st.text(string.ascii_letters + "-_./", max_size=20),
        "package_name": st.text(max_size=20) | st.text(string.ascii_lowercase + "_", max_size=20),
        "description": st.text(max_size=80),
        "author_name": st.text(max_size=40),
        **{key: st.text(max_size=8) for key in CHOICES[:1]},
    },
)


@many(500)
@given(ANSWERS)
def test_any_answers_give_a_whole_project_or_none(answers: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        inside = Path(directory) / "a" / "b"
        inside.mkdir(parents=True)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                made = Path(
                    cookiecutter(str(ROOT), no_input=True, output_dir=inside, extra_context=answers)
                )
        except (CookiecutterException, ValueError):  # ValueError: a choice that is none
            # With a slash in the slug cookiecutter makes a directory before any hook runs.
            left = [path for path in inside.rglob("*") if path.is_file()]
            assert not left
        else:
            assert made.parent == inside
            assert not (made / "starters").exists()
            for file in made.rglob("*.py"):
                ast.parse(file.read_text(encoding="utf-8"))
        assert [path.name for path in Path(directory).iterdir()] == ["a"]
        assert [path.name for path in (Path(directory) / "a").iterdir()] == ["b"]
