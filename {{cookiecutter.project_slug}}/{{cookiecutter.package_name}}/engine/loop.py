"""The training loop: when things happen."""

from __future__ import annotations

import math
import shlex
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .alike import other_examples, require_same_callbacks, require_same_weights, summaries_of
from .batches import TrainingBatches
from .callbacks import (
    Callback,
    Event,
    every_epochs,
    every_secs,
    every_steps,
    learning_rates,
    restore_state,
    state_of,
    stateful,
    tell,
)
from .checkpoints import BestWeights, Checkpoints
from .data_errors import data_errors
from .display import ProgressDisplay, end_lines
from .distributed_steps import DistributedSteps
from .environment import what_changed
from .errors import RESUMABLE, DataError, UsageError
from .evaluation import Evaluation
from .interrupts import Interrupts
from .output import PACKAGE, fact, say, say_on_terminal
from .outside import held_by_layers
from .progress import Sums
from .records import Records
from .run_directory import RunDirectory
from .run_files import Row
from .step_log import StepLog
from .strategy import strategy_name
from .summaries import Profiler
from .types import Run

# Which callbacks are called after a validation that a signal stopped, and that is made again.
DUE, LAST = "due", "last"
SECS_PER_CALL = 0.5  # of a graph call: callbacks, the progress bar and Ctrl-C wait so long
LONG = 2**21  # steps, over which a sum of usual batches in float32 is not yet rounded


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When things happen in a run; config.py says what each number means."""

    num_steps: int
    validate_every_steps: int = 0
    validation_steps: int = 0
    log_every_steps: int = 0
    save_every_epochs: int = 1
    save_every_steps: int = 0
    save_every_secs: float = 600.0
    keep_checkpoints: int = 3
    steps_per_call: int = 0
    max_stop_secs: float = 10.0
    log_graph: bool = False
    profile: tuple[int, int] | None = None


class _Agreed(NamedTuple):
    """What all workers do after a graph call."""

    interrupted: bool
    log: bool
    steps: int  # in the next graph call
    due: list[Callback]


class _ValidationStopped(Exception):
    """A signal came while the validation data was evaluated."""


class Loop:
    """Training, validation and test of one run.

    Args:
        run: what the factories made.
        steps: its distributed train steps.
        batches: the training data in the order of the steps.
        evaluation: its validation and test steps.
        directory: where results go.
        schedule: when things happen.
        callbacks: what to call, and when.
        monitor: the column of the history that selects the best weights.
        larger_is_better: whether larger values of it are better.
        started: when the run started, by `time.perf_counter`; None: now.
        origin: versions and commit, see engine/environment.py.

    Attributes:
        earlier: the other origins of the run's earlier processes.
        makes_steps: whether steps are left to make; known from `start` on.

    Raises:
        UsageError: the history has no such column, or a callback is none.
    """

    def __init__(
        self,
        run: Run,
        steps: DistributedSteps,
        batches: TrainingBatches,
        evaluation: Evaluation,
        directory: RunDirectory,
        schedule: Schedule,
        *,
        callbacks: Sequence[Callback] = (),
        monitor: str,
        larger_is_better: bool,
        started: float | None = None,
        origin: dict[str, Any] | None = None,
    ) -> None:
        saves: list[tuple[Callable[..., Callback], float]] = [
            (every_epochs, schedule.save_every_epochs),
            (every_steps, schedule.save_every_steps),
            (every_secs, schedule.save_every_secs),
        ]
        self._started = time.perf_counter() if started is None else started
        self._origin, self.earlier = origin or {}, list[dict[str, Any]]()
        self.makes_steps = False
        self.run = run
        self.workers = run.workers
        self.steps = steps
        self._assigned = steps.transaction.capture.assigned
        self.batches = batches
        self.evaluation = evaluation
        self.directory = directory
        self.schedule = schedule
        if not isinstance(callbacks, Sequence):
            kind = type(callbacks).__name__
            raise UsageError(
                f"create_callbacks in task/callbacks.py returns a {kind}; it must return a list."
            )
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise UsageError(
                    f"create_callbacks in task/callbacks.py returned {callback!r}, which isn't a "
                    "callback: use every_steps and its like, or keras_callback for one of Keras."
                )
        profiler = Profiler(*schedule.profile).callbacks() if schedule.profile else []
        saving = [when(n, lambda event: event.save()) for when, n in saves if n]
        self.callbacks = [*callbacks, *profiler, *saving]
        self.progress = steps.start()
        self.step = 0
        self.stopping = False
        self.records = Records(directory.path, is_chief=directory.is_chief)
        checkpoints = directory.path / "checkpoints"
        self.checkpoints = Checkpoints(
            checkpoints / "latest",
            run,
            self.progress,
            schedule.keep_checkpoints,
            batches.signature,
            self._assigned,
            steps.outside,
        )
        self.best = BestWeights(checkpoints / "best", run, steps.outside)
        self.best.monitor(
            monitor,
            larger_is_better=larger_is_better,
            validated="validation" in evaluation.splits,
        )
        self._log = StepLog(
            run,
            self.records,
            self._assigned,
            steps_per_epoch=batches.steps_per_epoch,
            every_steps=schedule.log_every_steps,
        )
        self._train_metrics: dict[str, float] = {}  # of the latest validation's row
        self._save_requested = False
        self._interrupts: Interrupts | None = None  # in training only
        self._under_way = ""  # DUE or LAST, while the validation data is evaluated
        self._iterator: Any = None
        self._waited = 0.0  # seconds for data, in all graph calls so far
        self._overflows = 0  # float16 steps dropped up to the latest validation
        self._bad_before: list[int] = []  # examples that all workers left out before a resume
        parts = "compiling", "training", "waiting for data", "evaluation", "saving"
        self._seconds = dict.fromkeys(parts, 0.0)

    @property
    def epoch(self) -> int:
        """Epochs finished so far."""
        return self.step // self.batches.steps_per_epoch

    @property
    def _goes_on(self) -> bool:
        """Whether steps are left to make."""
        return self.step < self.schedule.num_steps and not self.stopping

    @property
    def seconds(self) -> float:
        """Seconds since the start, and those of the run's earlier processes up to their saves."""
        return time.perf_counter() - self._started

    @property
    def best_row(self) -> Row:
        """The row of the history whose weights are tested; empty if none were saved."""
        return self.best.row

    @property
    def resume_command(self) -> str:
        """What to type to resume this run."""
        return f"python train.py --resume {shlex.quote(str(self.directory.path))}"

    def closing_lines(self, seconds: float) -> str:
        """The lines printed below the results: best row, times, pictures, next commands."""
        lines = end_lines(
            self.directory.path, self.best_row, self.best.column, seconds, self._seconds
        )
        if skipped := int(self.progress.skips.total):
            lines = f"{fact('skipped', f'{skipped} of {self.step} steps, not finite')}\n{lines}"
        return lines

    def start(self, *, resume: bool) -> None:
        """Restore a run, or call what is due before the first step; then make every graph.

        Made now and not when they are needed, so that data that doesn't fit fails at once.

        Raises:
            UsageError: nothing to resume, or it belongs to something else; unusable data.
        """
        require_same_callbacks(len(self.callbacks), self.workers)
        saved: dict[str, Any] = {}
        if resume:
            saved = self._restore()
        else:
            require_same_weights(self.run)
        tell(self.callbacks, "on_train_begin", self)
        self.checkpoints.report_settings()
        if not self._under_way:
            tell(self.callbacks, "on_step_begin", self)
        if not resume:
            now = self._agree(interrupted=False, log=False, steps=1, validate=False)
            self._run_callbacks(now.due)
            self.steps.outside.may_have_changed = bool(now.due)
        last = self.schedule.num_steps
        self._iterator = iter(self.batches.dataset(self.step, max(self.step, last)))
        self.makes_steps = self._goes_on
        trains = self.makes_steps or bool(self._under_way)
        if trains or self.steps.outside.is_waiting:
            if self.workers.is_chief:
                say_on_terminal("compiling")
            with self._timed("compiling"):
                self._train_call(0)
                self.evaluation.trace()
            self.steps.find_outside(self._iterator, self.progress, self.evaluation.graphs)
        if resume:  # from here on files change: a resume that was refused has lost nothing
            self.records.resume(self.step, saved["validations"], saved["latest_row"])
            self.best.forget_later(self.step)
        if self.makes_steps and self.workers.is_chief:
            self.directory.forget_results()
        if trains and self.workers.is_chief:
            if unreached := self.steps.transaction.unreached:
                say(f"no gradient of a train step reaches: {', '.join(unreached)}")
            if idle := self._metrics_without_update():
                say(f"no train step updates these metrics of training: {', '.join(idle)}")
            if self.run.metrics and self._validation_interval > LONG:
                say(
                    f"metrics of training are sums in float32: in {self._validation_interval:,} "
                    "steps between validations they lose digits; use --validate-every-steps"
                )
            if held := held_by_layers(self.run):
                say(
                    f"neither trained nor in the saved weights: {', '.join(held)}, made by "
                    "tf.Variable; make weights of layers by add_weight"
                )
            if self.schedule.log_graph and not resume:
                graph = self.steps.graph(self._iterator, self.progress)
                self.records.summaries.graph(graph, self.run.trained_models)
        self._save_as_requested()  # by then it is known which variables of no model steps read

    def train(self) -> None:
        """Train until the last step is made or a callback stops the run.

        Raises:
            UsageError: too many steps in a row were not finite, or the data can't be used.
            SystemExit: a signal came; the run has been saved.
        """
        display = ProgressDisplay(
            self.schedule.num_steps,
            self.step,
            self.batches.steps_per_epoch,
            batch_size=self.run.global_batch_size,
            interval=self._validation_interval,
            monitor=self.best.column,
            bar=self.workers.is_chief,
        )
        with Interrupts() as self._interrupts, closing(display), self._resumable():
            try:
                stop = self._train(display, self._interrupts)
            except _ValidationStopped:
                stop = True
            if stop:
                self._interrupts.received = True  # by a worker; from here on none heeds a signal
                self._save()
                tell(self.callbacks, "on_interrupt", self)
                display.close()
                where = "in the validation " * bool(self._under_way)
                print(
                    f"interrupted {where}after step {self.step}; to resume: {self.resume_command}",
                    flush=True,
                )
                self.workers.wait()  # a launcher ends all when one has left
                raise SystemExit(RESUMABLE)
            self._iterator = None  # it reads ahead, while the rest takes its time
            self._save()  # whole, even if a signal comes now; a longer run goes on from here
            if self.step and int(self.progress.skips.total) == self.step:
                raise UsageError(
                    f"Nothing was learned: none of the {self.step} steps was finite, as said "
                    f"above; look for the cause with `python -m {PACKAGE} check`."
                )
            before = self._checksum()
            tell(self.callbacks, "on_train_end", self)
            if self._checksum() != before:
                say(
                    "on_train_end of a callback changes weights, which aren't tested or exported: "
                    "the best ones are, from before; change them in on_epoch_end or a train step"
                )
        self._interrupts = None
        if self.makes_steps and self.step < self.schedule.num_steps:
            say(f"a callback ended the run after step {self.step:,} of {self.schedule.num_steps:,}")

    def _train(self, display: ProgressDisplay, interrupts: Interrupts) -> bool:
        """Make the steps; returns whether a signal came before the last one was validated."""
        last = self.schedule.num_steps
        steps = 1  # first, so that `max_stop_secs` knows how long one takes
        stop = self.workers.alone and interrupts.received
        if self._under_way and not stop:  # it was stopped there
            due = [callback for callback in self.callbacks if callback.after_validations]
            if self._under_way == DUE:
                due = self._agree(interrupted=False, log=False, steps=1, validate=True).due
            self._record(display, due, log=False, validate=True, which=self._under_way)
            self.checkpoints.write_again()  # the one of this step is of before the validation
            tell(self.callbacks, "on_step_begin", self)
            self._save_as_requested()
        while self._goes_on and not stop:
            steps = min(steps, self._steps_until_due())
            started = time.perf_counter()
            made = self._train_call(steps)
            secs = time.perf_counter() - started
            losses = self.run.by_loss_name(self.progress.latest.losses.numpy())
            # By the wall clock, the only one that a graph has, which somebody may set.
            waiting = min(max(self._secs_waited(), 0.0), secs)
            self._seconds["training"] += secs - waiting
            self._seconds["waiting for data"] += waiting
            self._log.add_time(made, secs, waiting)
            display.advance(made, losses, secs, waiting)
            self._report_skips(display, made)
            self._report_bad_examples(display.say)
            validate = self.step == last or self.step % self._validation_interval == 0
            log = validate or self._log.is_due(self.step)
            steps = max(1, self._next_steps(steps, secs / made))
            now = self._agree(
                interrupted=interrupts.received, log=log, steps=steps, validate=validate
            )
            stop, steps = now.interrupted, now.steps
            self._record(display, now.due, log=now.log, validate=validate)
            if self.stopping and not validate:  # the last row, as of a run that is complete
                due = [c for c in self.callbacks if c.after_validations]
                self._record(display, due, log=not now.log, validate=True, which=LAST)
            self._save_as_requested()
            if self.workers.alone:  # one of this moment, too; several stop for what all know
                stop = interrupts.received
        if not stop and not self.workers.alone:  # one of the last validation
            stop = bool(self.workers.gather([interrupts.received]).any())
        return stop

    def test(self) -> dict[str, float]:
        """Evaluate the test data with the best weights."""
        if self.makes_steps and not self.best.row:  # none of a selection that began anew
            self.best.forget_later(-1)
        if not self.best.restore():
            say("no best weights were saved; testing with the latest")
        elif self.best.restored_step != self.best_row.get("step"):  # those were lost
            self.best.row = {}
        with self._resumable(), self._timed("evaluation"):
            if "test" not in self.evaluation.splits:
                return {}
            tested = self.evaluation.evaluate("test", pace=self._pace)
            self._report_bad_examples(say)
            return tested

    def results(self, tested: dict[str, float]) -> dict[str, Any]:
        """The content of results.json: `tested` is of the best weights, the rest of the latest."""
        strategy, skips = self.run.strategy, self.progress.skips
        return {
            "strategy": strategy_name(strategy),
            "replicas": strategy.num_replicas_in_sync,
            "epochs": self.epoch,
            "steps": self.step,
            "best_step": int(self.best_row.get("step", self.step)),
            "skipped_steps": int(skips.total),
            "overflows": int(skips.overflows),
            **self.records.latest,
            **tested,
            "seconds": round(self.seconds, 2),
            "best": self.best_row,
            **self._origin,
            "earlier": self.earlier,
        }

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._seconds[what] += time.perf_counter() - started

    @contextmanager
    def _resumable(self) -> Iterator[None]:
        """Around what reads data: says that what has been saved isn't lost.

        However it ends, the iterator is dropped: a callback may keep this loop until the process
        ends, and what reads rows in Python must not live so long, see `_forget_locals`.
        """
        try:
            yield
        except DataError as error:
            if self.checkpoints.saved_step < 0:
                raise
            raise UsageError(
                f"{error} The checkpoints so far are intact: fix the data, then resume: "
                f"{self.resume_command}"
            ) from error
        finally:
            self._iterator = None

    @property
    def _validation_interval(self) -> int:
        return self.schedule.validate_every_steps or self.batches.steps_per_epoch

    def _steps_until_due(self) -> int:
        """Steps to the next moment at which the host has something to do."""
        last = self.schedule.num_steps
        intervals = [self._validation_interval, self.schedule.log_every_steps]
        ends = [last, *((self.step // n + 1) * n for n in intervals if n)]
        per_epoch = self.batches.steps_per_epoch
        ends += [callback.next_step(self.step, per_epoch) or last for callback in self.callbacks]
        return min(ends) - self.step

    def _next_steps(self, steps: int, secs_per_step: float) -> int:
        """How many steps the next graph call makes, if nothing is due before."""
        longest = int(self.schedule.max_stop_secs / secs_per_step)
        if self.schedule.steps_per_call:
            return min(self.schedule.steps_per_call, longest)
        # At most twice as many as before: the first calls are slowed down by tracing.
        return min(int(SECS_PER_CALL / secs_per_step), 2 * steps, longest)

    def _pace(self, secs_per_batch: float) -> int:
        """How many batches the next graph call evaluates, so that signals are heeded in time.

        Raises:
            _ValidationStopped: on all workers, when one was told to stop while training.
        """
        longest = max(1, int(self.schedule.max_stop_secs / secs_per_batch))
        received = self._interrupts is not None and self._interrupts.received
        rows = self.workers.gather([received, longest])
        if rows[:, 0].any():
            raise _ValidationStopped
        return int(rows[:, 1].min())

    def _train_call(self, steps: int) -> int:
        """Make `steps` train steps in one graph call, or fewer; returns how many."""
        spec, data = self._iterator.element_spec, self.batches.split
        with data_errors("train", self.run, spec, data, self.batches.rows_from(self.step)):
            self.progress = self.steps.distributed_train_step(self._iterator, steps, self.progress)
        made = int(self.progress.step) - self.step
        self.step += made
        if made:
            self.directory.is_new = False  # kept after an error: callbacks may have written to it
        return made

    def _secs_waited(self) -> float:
        """How long the latest graph call waited for data."""
        before, self._waited = self._waited, self.steps.secs_waited
        return self._waited - before

    def _report_skips(self, display: ProgressDisplay, made: int) -> None:
        skips = self.progress.skips
        step, in_a_row = int(skips.last_step) + 1, int(skips.in_a_row)
        is_new = step > self.step - made
        losses = self.run.by_loss_name(skips.last_losses.numpy())
        found = ", ".join(f"{name} {value:.4g}" for name, value in losses.items())
        if np.isfinite([*losses.values()]).all():
            found = f"a gradient, of {found}"
        rates = learning_rates(self.run) if is_new else {}
        if wrong := [f"{name!r} is {r}" for name, r in rates.items() if not math.isfinite(r)]:
            found = f"the learning rate of {' and of '.join(wrong)}"
        if is_new:
            total = int(skips.total)
            display.say(f"step {step} skipped, not finite: {found} ({total} skipped so far)")
        if in_a_row > self.steps.max_skipped_steps:
            raise UsageError(
                f"Stopped at step {step}: {in_a_row} steps in a row were not finite ({found}); "
                "lower the learning rate, set --clip-norm, or look for NaN in the data with "
                f"`python -m {PACKAGE} check`."
            )

    def _report_nothing_counted(self, display: ProgressDisplay) -> None:
        counted, skips = self.progress.sums.counts.numpy(), self.progress.skips
        before, self._overflows = self._overflows, int(skips.overflows)
        if not counted.any() and not int(skips.in_a_row) and self._overflows == before:
            display.say(
                "nothing was trained since the last validation: no example counted; look at its "
                "weights, and at count in task/losses.py"
            )

    def _report_bad_examples(self, say: Callable[[str], None]) -> None:
        bad = self.run.bad_examples
        for line in bad.news():
            say(line)
        if (found := len(self._bad_examples())) > bad.most:
            raise DataError(
                f"{found} examples can't be read, on all workers together; --max-bad-examples is "
                f"{bad.most}."
            )

    def _bad_examples(self) -> list[int]:
        """A number for each example that a worker has left out, those of this one first."""
        if not (allowed := self.run.bad_examples.most):
            return []
        # Each worker knows of those that it reads, which may be read by others, too.
        numbers = self.run.bad_examples.numbers()[:allowed]
        most = int(self.workers.gather([len(numbers)]).max())
        if not most:
            return self._bad_before
        of_all = self.workers.gather(numbers + [-1] * (most - len(numbers)))
        others = of_all[of_all >= 0].astype(int).tolist()
        return list(dict.fromkeys([*numbers, *self._bad_before, *others]))

    def _record(
        self,
        display: ProgressDisplay,
        due: list[Callback],
        *,
        log: bool,
        validate: bool,
        which: str = DUE,
    ) -> None:
        """Write what the steps so far gave, then call the callbacks that are due.

        Raises:
            _ValidationStopped: a signal came; the row of the history isn't there yet.
        """
        if log:
            self._log.write(self.progress)
        if validate:
            self._under_way = which
            self._validate(display)
            self._under_way = ""
        self._run_callbacks(due)

    def _validate(self, display: ProgressDisplay) -> None:
        """Add a row to the history, save the weights if they are the best, and start new sums."""
        require_same_weights(self.run, self._assigned)
        per_epoch = self.batches.steps_per_epoch
        row: dict[str, float] = {"epoch": self.step / per_epoch, "step": self.step}
        self._train_metrics = self.run.metric_results(self._assigned)
        train = self.run.by_loss_name(self.progress.sums.means()) | self._train_metrics
        row |= {f"train_{name}": value for name, value in train.items()}
        if "validation" in self.evaluation.splits:
            with self._timed("evaluation"):
                steps = self.schedule.validation_steps
                row |= self.evaluation.evaluate("validation", steps, self._pace)
        for metric in self.run.metrics.values():
            metric.reset_state()
        self._report_nothing_counted(display)
        self.progress = self.progress._replace(sums=Sums.zero(len(self.run.returned)))
        self._log.restart()
        self._report_bad_examples(display.say)
        rates = learning_rates(self.run, of_latest_step=True)
        display.show_validation(row, rates, self.best.is_best(row))
        self.directory.is_new = False
        self.records.add_validation(row)
        with self._timed("saving"):
            self.best.examples = self._examples
            self.best.consider(row)

    def _metrics_without_update(self) -> list[str]:
        """The metrics that train steps leave out; a callback may update them."""
        metrics = self.run.metrics.items()
        return [n for n, m in metrics if not any(id(v) in self._assigned for v in m.variables)]

    def _save(self) -> None:
        if self.step == self.checkpoints.saved_step:
            return  # and compared; a resumed run without steps doesn't know what steps assign
        require_same_weights(self.run, self._assigned)
        state = {
            "best": self.best.value,
            "best_row": self.best.row,
            "latest_row": self.records.latest_row,
            "validations": len(self.records.history),
            "stopping": self.stopping,
            "under_way": self._under_way,
            "callbacks": [state_of(owner) for owner in stateful(self.callbacks)],
            "log": self._log.get_state(),
            "seconds": self.seconds,
            "parts": self._seconds,
            "origins": [*self.earlier, self._origin],
            "validation_steps": self.schedule.validation_steps,
            "monitor": [self.best.column, self.best.larger_is_better],
            "bad_examples": self.run.bad_examples.get_state(),
            # Not one that is too many, and may be mended.
            "bad_of_all": self._bad_examples()[: self.run.bad_examples.most],
            "examples": self._examples,
        }
        with self._timed("saving"):
            self.checkpoints.save(self.progress, state)
            self.best.named()
        self.directory.is_new = False

    @cached_property
    def _examples(self) -> dict[str, list[float]]:
        return summaries_of(self.evaluation.splits)

    def _restore(self) -> dict[str, Any]:
        """Continue from the latest checkpoint, whose state of the loop is returned."""
        restored = self.checkpoints.restore_latest()
        if restored is None:
            raise UsageError(
                f"{self.directory.path} holds no checkpoint to resume from: the run ended before "
                "its first one, or they are gone; put them back, or start a new run."
            )
        self.progress, state = restored
        self.step, self._overflows = int(self.progress.step), int(self.progress.skips.overflows)
        if self.step > self.schedule.num_steps:
            raise UsageError(
                f"The run has made {self.step} steps already; it can't be resumed with "
                f"{self.schedule.num_steps}: give more --steps or --epochs, or start a new run."
            )
        owners, saved = stateful(self.callbacks), state["callbacks"]
        if len(owners) != len(saved):
            raise UsageError(
                f"The run can't be resumed: {len(saved)} of its callbacks had a state, and now "
                f"{len(owners)} have one; start a new run, or set create_callbacks in "
                "task/callbacks.py back."
            )
        for owner, one in zip(owners, saved, strict=True):
            restore_state(owner, one)
        self.stopping, self._under_way = state["stopping"], state.get("under_way", "")
        others = other_examples(state.get("examples", {}), self._examples)
        steps = self.schedule.validation_steps
        other_validation = "validation" in others or state.get("validation_steps", steps) != steps
        is_turned = state.get("monitor") == [self.best.column, not self.best.larger_is_better]
        if (other_validation or is_turned) and (self._goes_on or self._under_way):
            why = "other values are better" if is_turned else "validation takes other examples"
            say(f"{why} now: the next validation selects the best weights anew")
        else:
            self.best.resume(state["best"], state["best_row"], self.step)
        if "train" in others:
            say("the training data isn't what it was so far: only a new run would have seen it all")
        self._log.set_state(state["log"])
        self.run.bad_examples.set_state(state.get("bad_examples", []))
        self._bad_before = state.get("bad_of_all", [])
        self._started -= state["seconds"]
        self._seconds = state["parts"]
        origins = [origin for origin in state.get("origins", ()) if origin]
        self.earlier = [origin for origin in origins if origin != self._origin]
        say(f"resuming {self.directory.path} after step {self.step} (epoch {self.epoch})")
        if origins and (changed := what_changed(origins[-1], self._origin)):
            say(f"so far trained with {changed}: a run that was never stopped may end otherwise")
        if self.stopping and self.step < self.schedule.num_steps:
            say(
                "a callback had stopped the run there, so it makes no more steps; to train for "
                "longer start a new run, without it or with more patience"
            )
        if again := self.batches.examples_read_again(self.step):
            # Before its first batch a worker shows no progress.
            longer = ", which may take no worker --hang-timeout longer than another"
            say(
                f"a stream can't start in its middle: {again} examples are read and thrown away"
                f"{longer * (not self.workers.alone)}; "
                "RandomAccess in engine/random_access.py resumes at once"
            )
        return state

    def _checksum(self) -> int:
        """Of the models' weights, if a callback may change them at the end."""
        if not any(hasattr(callback.owner, "on_train_end") for callback in self.callbacks):
            return 0
        checksum = 0
        for weight in (v for model in self.run.models.values() for v in model.weights):
            checksum = zlib.crc32(weight.numpy().tobytes(), checksum)
        return checksum

    def _agree(self, *, interrupted: bool, log: bool, steps: int, validate: bool) -> _Agreed:
        """What depends on clocks and signals, decided alike on all workers by one small sum.

        Args:
            interrupted: whether this worker was told to stop: one is enough.
            log: whether its clock wants a row of the log: the chief's decides.
            steps: how many it would make in the next graph call: the fewest are made.
            validate: whether the callbacks come after a validation, which all know.

        Returns:
            The same for all workers, and the callbacks that are due now: by the chief's clock.
        """
        per_epoch = self.batches.steps_per_epoch
        due = [
            callback.is_due(self.step, per_epoch) or (validate and callback.after_validations)
            for callback in self.callbacks
        ]
        if not self.workers.alone:
            rows = self.workers.gather([interrupted, log, steps, *due])
            interrupted, log = bool(rows[:, 0].any()), bool(rows[0, 1])
            steps, due = int(rows[:, 2].min()), rows[0, 3:].astype(bool).tolist()
        chosen = [callback for callback, now in zip(self.callbacks, due, strict=True) if now]
        return _Agreed(interrupted, log, steps, chosen)

    def _run_callbacks(self, due: list[Callback]) -> None:
        if not due:
            return
        event = self._event()
        for callback in due:
            callback.function(event)
        tell(due, "on_step_begin", self)
        self.batches.require_constants()
        if self._goes_on:
            self.steps.require_built()  # before this is saved
        if not self.workers.alone:  # a callback may look at a clock, or at this worker's own batch
            asked = self.workers.gather([self.stopping, self._save_requested])
            self.stopping, self._save_requested = bool(asked[:, 0].any()), bool(asked[:, 1].any())

    def _save_as_requested(self) -> None:
        """Save when all callbacks are called: a checkpoint must hold what they did."""
        if self._save_requested:
            self._save()
            self._save_requested = False

    def _event(self) -> Event:
        def save() -> None:
            self._save_requested = True

        def stop() -> None:
            self.stopping = True

        def read_batch() -> Any:
            return next(iter(self.batches.dataset(self.step - 1, self.step)))

        losses = self.run.by_loss_name(self.progress.latest.losses.numpy())
        validated = bool(self.records.history) and self.records.history[-1]["step"] == self.step
        return Event(
            step=self.step,
            epoch=self.epoch,
            losses=losses if self.step else {},
            metrics=self._train_metrics if validated else self.run.metric_results(self._assigned),
            gradient_norm=float(self.progress.latest.gradient_norm),
            run=self.run,
            directory=self.directory.path,
            history=self.records.history,
            save=save,
            stop=stop,
            read_batch=read_batch,
            is_chief=self.workers.is_chief,
        )
