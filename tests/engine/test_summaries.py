"""What TensorBoard reads of a run: curves, pictures, settings, graphs, a profile."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from proof.config import Config
from proof.engine.callbacks import at_step
from proof.engine.errors import UsageError
from proof.engine.output import forgiving_output
from proof.engine.summaries import LOG, Summaries
from proof.task.config import TaskConfig
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.context import RequestContext
from tensorboard.plugins.base_plugin import TBContext
from tensorboard.plugins.graph.keras_util import keras_model_to_graph_def
from tensorboard.plugins.hparams import api_pb2, get_experiment, list_session_groups
from tensorboard.plugins.hparams.backend_context import Context
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

from . import project
from .test_report import odd_pictures

FLAGS = {"strategy": "none", "validate_every_steps": 4, "log_every_steps": 2, "steps": 8}


def train(runs: Path, **flags: Any) -> Path:
    """train.py, in this process; returns the run directory."""
    spec = importlib.util.spec_from_file_location("train_proof", Path(project) / "train.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(Config(**FLAGS | {"runs": str(runs)} | flags), TaskConfig())
    return max(runs.iterdir(), key=lambda run: run.stat().st_mtime)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs; the first was killed after step 6, and resumed."""
    runs = tmp_path_factory.mktemp("runs")
    first = {"name": "first", "log_graph": True, "profile": "3:4", "save_every_steps": 6}
    run = train(runs, **first)
    for file in (run / "checkpoints" / "latest").glob("ckpt-8.*"):
        file.unlink()
    train(runs, **first, resume=str(run))
    train(runs, name="second", seed=1)
    return runs


@pytest.fixture
def first(runs: Path) -> Path:
    """The directory of the first run."""
    (run,) = runs.glob("*-first")
    return run


def read(path: Path) -> EventAccumulator:
    """All that TensorBoard finds in a part of the log."""
    events = EventAccumulator(str(path), tensor_size_guidance={})
    return events.Reload()


def tags(events: EventAccumulator, plugin: str) -> set[str]:
    """The names of what a plugin shows."""
    return set(events.PluginTagToContent(plugin)) if plugin in events.ActivePlugins() else set()


def points(events: EventAccumulator, tag: str) -> dict[int, float]:
    """A curve: numbers by step, none of them twice."""
    found = [(e.step, tf.make_ndarray(e.tensor_proto).item()) for e in events.Tensors(tag)]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_parts_share_the_names_of_their_curves(first: Path) -> None:
    parts = {name: read(first / "log" / name) for name in ("train", "validation", "test")}
    measured = {"loss", "accuracy"}
    assert tags(parts["validation"], "scalars") == tags(parts["test"], "scalars") == measured
    assert tags(parts["train"], "scalars") == measured | {
        "learning_rate", "gradient_norm", "examples_per_second", "waiting_for_data",
        "skipped_steps", "loss_scale",
    }  # fmt: skip


def test_a_resumed_run_writes_no_point_twice(first: Path) -> None:
    assert len(list((first / "log" / "train").iterdir())) == 2
    for name, steps in (("train", [2, 4, 6, 8]), ("validation", [4, 8]), ("test", [8])):
        events = read(first / "log" / name)
        assert list(points(events, "loss")) == steps
    history = (first / "history.csv").read_text().splitlines()
    column = history[0].split(",").index("validation_loss")
    losses = [float(line.split(",")[column]) for line in history[1:]]
    events = read(first / "log" / "validation")
    np.testing.assert_allclose(list(points(events, "loss").values()), losses, rtol=1e-6)


def test_pictures_are_those_of_the_run_directory(first: Path) -> None:
    events = read(first / "log")
    files = {file.stem: file for file in first.glob("*.png")}
    assert {"samples", "predictions", "curves"} <= files.keys() == tags(events, "images")
    for name, file in files.items():
        (event,) = events.Tensors(name)
        assert event.step == (0 if name == "samples" else 8)
        width, height, png = tf.make_ndarray(event.tensor_proto)
        assert png == file.read_bytes()
        assert tf.io.decode_png(png).shape[:2] == (int(height), int(width))


def test_odd_files_beside_a_run_do_not_cost_its_end(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(first, run)
    odd_pictures(run)
    (run / "model.txt").unlink()
    (run / "model.txt").symlink_to(run / "nowhere")
    for name in ("log", "report.html", "results.json"):
        shutil.rmtree(run / name, ignore_errors=True)
        (run / name).unlink(missing_ok=True)
    with forgiving_output():
        train(tmp_path, resume=str(run))
    assert (run / "report.html").read_text(encoding="utf-8").count("<img") == 4
    assert "named \\udcff.png" in capsys.readouterr().out
    shown = {"samples", "predictions", "curves", "named ?"}
    assert tags(read(run / "log"), "images") == shown - {"samples"}  # written at the start


def test_the_configuration_is_a_text(first: Path) -> None:
    events = read(first / "log")
    assert tags(events, "text") == {"config"}
    (event,) = events.Tensors("config")
    text = tf.make_ndarray(event.tensor_proto).item().decode()
    assert "    steps: 8\n" in text
    assert "    jit: 'off'\n" in text  # not auto


def test_runs_are_compared_by_their_flags_and_tests(runs: Path) -> None:
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(runs))
    multiplexer.Reload()
    provider = MultiplexerDataProvider(multiplexer, str(runs))
    context, request = Context(TBContext(data_provider=provider)), RequestContext()
    experiment = get_experiment.Handler(
        request, context, "", api_pb2.GetExperimentRequest(experiment_name="")
    ).run()
    flags = {info.name for info in experiment.hparam_infos}
    assert {"seed", "learning_rate", "global_batch_size", "precision"} <= flags
    assert not {"runs", "strategy", "profile"} & flags  # they change nothing of what is learned
    names = {(info.name.group, info.name.tag) for info in experiment.metric_infos}
    assert {("test", "accuracy"), ("validation", "loss")} <= names
    asked = api_pb2.ListSessionGroupsRequest(
        experiment_name="", start_index=0, slice_size=10,
        allowed_statuses=[api_pb2.STATUS_SUCCESS],
        col_params=[api_pb2.ColParams(metric=info.name) for info in experiment.metric_infos],
    )  # fmt: skip
    groups = list_session_groups.Handler(request, context, "", asked).run().session_groups
    rows = {group.hparams["name"].string_value: group for group in groups}
    assert sorted(rows) == ["first", "second"]
    assert [rows[name].hparams["seed"].number_value for name in sorted(rows)] == [0, 1]
    for name, row in rows.items():
        (run,) = runs.glob(f"*-{name}")
        results = json.loads((run / "results.json").read_text())
        shown = {(m.name.group, m.name.tag): m.value for m in row.metric_values}
        assert shown["test", "accuracy"] == pytest.approx(results["test_accuracy"], rel=1e-6)


def test_the_graph_and_the_layers_are_there_by_a_flag(runs: Path, first: Path) -> None:
    events = read(first / "log")
    graph = events.Graph()
    ops = {node.op for function in graph.library.function for node in function.node_def}
    assert "Conv2D" in ops
    assert tags(events, "graph_keras_model") == {"main"}
    (event,) = events.Tensors("main")
    layers = keras_model_to_graph_def(json.loads(tf.make_ndarray(event.tensor_proto).item()))
    assert any("conv2d" in node.name for node in layers.node)
    (second,) = runs.glob("*-second")
    assert not tags(read(second / "log"), "graph_keras_model")


def test_steps_are_profiled(runs: Path, first: Path) -> None:
    (file,) = first.glob("log/plugins/profile/*/*.xplane.pb")  # the resumed run made those no more
    planes = {plane.name: plane for plane in XSpace.FromString(file.read_bytes()).planes}
    host = planes["/host:CPU"]
    events = Counter(
        host.event_metadata[event.metadata_id].name for line in host.lines for event in line.events
    )
    backward = {name: n for name, n in events.items() if "Conv2DBackpropFilter" in name}
    assert len(backward) > 1
    assert set(backward.values()) == {2}  # once in each of the two steps
    (second,) = runs.glob("*-second")
    assert not (second / "log" / "plugins").exists()


def test_a_profile_ends_where_the_run_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = at_step(3, lambda event: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr("proof.task.callbacks.create_callbacks", lambda task: [interrupt])
    with pytest.raises(SystemExit):
        train(tmp_path, profile="3:6")
    assert len(list(tmp_path.glob("*/log/plugins/profile/*/*.xplane.pb"))) == 1


def test_a_profile_after_the_end_of_the_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--profile 9:20: the run has 8 steps"):
        train(tmp_path / "runs", profile="9:20")


@pytest.mark.quick
def test_readers_take_the_file_of_a_resumed_run_for_the_last_though_a_clock_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / LOG / "train"
    folder.mkdir(parents=True)
    (folder / "events.out.tfevents.1700000000.500000").touch()
    (folder / "events.out.tfevents.1700000009.host.7.0.v2").touch()  # of Keras' own callback
    monkeypatch.setattr("time.time", lambda: 1.6e9)
    Summaries(tmp_path).scalars("train", {"loss": 1.0}, 3)
    assert max(file.name for file in folder.iterdir()) == "events.out.tfevents.1700000010.000000"
