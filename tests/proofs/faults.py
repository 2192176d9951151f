"""The known faults: where each is planted, which command must fail, and its message."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "my_experiment"
TASK, ENGINE = f"{PACKAGE}/task", f"{PACKAGE}/engine"


def _tests(file: str) -> tuple[str, ...]:
    return (file, "-m", "pytest", "-q", "-x", file)


CHECK = ("check", "-m", PACKAGE, "check")
STEP_TESTS = _tests("tests/engine/test_step.py")
EVALUATION_TESTS = _tests("tests/engine/test_evaluation.py")
COMMANDS = (CHECK, STEP_TESTS, EVALUATION_TESTS)


@dataclass(frozen=True)
class Fault:
    """One fault: replacements of exact texts, and the command that must fail and name it."""

    name: str
    replacements: tuple[tuple[str, str, str], ...]  # file, text, what takes its place
    caught_by: tuple[str, ...]  # its name in the table, and the arguments of Python
    message: str  # a regular expression

    def plant(self, project: Path) -> None:
        """Put the fault into a rendered project."""
        for file, text, other in self.replacements:
            source = (project / file).read_text(encoding="utf-8")
            assert source.count(text) == 1, f"{file} has {text!r} {source.count(text)} times"
            (project / file).write_text(source.replace(text, other), encoding="utf-8")

    def catch(self, project: Path) -> str | None:
        """The line that names the fault, or None if the command passes or doesn't name it."""
        status, output = run(self.caught_by, project)
        # Only the lines about the failure: a traceback quotes the source as well.
        found = re.search(f"^(?:E  |WRONG|FAILED) *(.*(?:{self.message}).*)", output, re.MULTILINE)
        return found[1] if status and found else None


def run(command: tuple[str, ...], project: Path) -> tuple[int, str]:
    """Exit code and output of one of the commands in the project."""
    done = subprocess.run(
        [sys.executable, *command[1:]],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


FAULTS = (
    Fault(
        "the default reduction of a loss",
        ((f"{TASK}/losses.py", 'from_logits=True, reduction="none")', "from_logits=True)"),),
        CHECK,
        "has reduction='sum_over_batch_size', which averages over one replica's batch",
    ),
    Fault(
        "regularization that isn't scaled",
        (
            (
                f"{TASK}/losses.py",
                "tf.nn.scale_regularization_loss(replica.regularization(model))",
                "replica.regularization(model)",
            ),
        ),
        CHECK,
        "regularization is counted once per replica",
    ),
    Fault(
        "an optimizer that clips, before the sum",
        ((f"{TASK}/optimizer.py", "Adam(schedule)", "Adam(schedule, clipnorm=0.1)"),),
        CHECK,
        r"Adam\(clipnorm=\.\.\.\) clips each replica's gradients before they are summed",
    ),
    Fault(
        "gradients clipped in the step, before the sum",
        (
            (
                f"{ENGINE}/transaction.py",
                "tf.ensure_shape(tf.convert_to_tensor(gradient), value.shape)",
                "tf.clip_by_norm(tf.ensure_shape(gradient, value.shape), 0.01)",
            ),
        ),
        CHECK,
        "gradients are changed before they are summed",
    ),
    Fault(
        "division by the replica's own batch",
        (
            (
                f"{TASK}/losses.py",
                "global_batch_size=replica.global_count",
                "global_batch_size=tf.shape(weights)[0]",
            ),
        ),
        CHECK,
        "averaged twice, or over the replica.s own batch",
    ),
    Fault(
        "a loss that isn't scaled for float16",
        (
            (
                f"{ENGINE}/loss_scale.py",
                "return loss * tf.cast(state.value, loss.dtype) if self.enabled else loss",
                "return loss",
            ),
        ),
        STEP_TESTS,
        "float16 gradients are 100% off: the loss must be scaled before the gradients are taken",
    ),
    Fault(
        "normalization statistics of one replica",
        (
            (f"{TASK}/model.py", "layers.LayerNormalization()", "layers.BatchNormalization()"),
            (f"{ENGINE}/replicas.py", "_moments = _moments_of_all(layer)", "synchronized = False"),
        ),
        CHECK,
        "depends on how the batch is split: through statistics of one replica's batch",
    ),
    Fault(
        "normalization statistics of one replica, in a model that has none",
        ((f"{ENGINE}/replicas.py", "_moments = _moments_of_all(layer)", "synchronized = False"),),
        STEP_TESTS,
        "normalization statistics aren't synchronized",
    ),
    Fault(
        "the same dropout mask on every replica",
        (
            (
                f"{ENGINE}/replicas.py",
                "place = step * run.strategy.num_replicas_in_sync + tf.cast(replica, tf.int64)",
                "place = step * run.strategy.num_replicas_in_sync",
            ),
        ),
        STEP_TESTS,
        "replicas draw the same dropout mask",
    ),
    Fault(
        "a metric that is fed the scaled loss",
        (
            (f"{TASK}/metrics.py", "SparseCategoricalAccuracy()", "Mean()"),
            (
                f"{TASK}/steps.py",
                "update_state(labels, predictions, weights)\n    # The",
                "update_state(compute_loss(per_example, weights, run.model, replica))\n    # The",
            ),
        ),
        CHECK,
        "the metric accuracy is fed the scaled loss; feed it per-example values and weights",
    ),
    Fault(
        "gradients summed by the task, and by the engine",
        (
            (
                f"{TASK}/optimizer.py",
                "    return gradients\n",
                "    context = tf.distribute.get_replica_context()\n"
                "    return context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)\n",
            ),
        ),
        CHECK,
        "gradients are summed twice; the engine sums them once",
    ),
    Fault(
        "gradients summed by the engine, and by the optimizer",
        (
            (
                f"{ENGINE}/gradients.py",
                "each._all_reduce_sum_gradients = lambda grads_and_vars: grads_and_vars",
                "pass",
            ),
        ),
        STEP_TESTS,
        "the optimizer sums the gradients a second time",
    ),
    Fault(
        "a step that writes though it is not finite",
        (
            (
                f"{ENGINE}/distributed_steps.py",
                "tf.cond(finite, commit, lambda: None)",
                "tf.cond(tf.constant(True), commit, lambda: None)",
            ),
        ),
        STEP_TESTS,
        "a skipped step has changed a variable",
    ),
    Fault(
        "evaluation that divides a short batch by the global batch size",
        (
            (
                f"{ENGINE}/evaluation.py",
                "counts = self.run.strategy.run(global_count, args=(self.run, batch))",
                "counts = tf.constant(self.layout.global_batch_size)",
            ),
        ),
        EVALUATION_TESTS,
        "test_an_example_counts_the_same_in_a_short_last_batch",
    ),
    Fault(
        "evaluation that uses the metrics of training",
        (
            (
                f"{ENGINE}/evaluation.py",
                "self.run = replace(run, metrics=run.evaluation_metrics)",
                "self.run = run",
            ),
        ),
        EVALUATION_TESTS,
        "test_evaluating_moves_nothing_that_training_uses",
    ),
)  # fmt: skip
