"""The task under observation: one step, some steps, an evaluation, on one replica and on two.

Each part is made when it is first used, and only once. Random numbers are the same in every row
(`randomness="same_rows"`), so that rows may be swapped and divided among replicas.
"""

from __future__ import annotations

import contextlib
import inspect
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy as copy_of
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..batches import (
    BatchLayout,
    TrainingBatches,
    evaluation_batches,
    is_endless,
    num_examples,
    worker_split,
)
from ..callbacks import Callback, learning_rates
from ..causes import cause_of
from ..data_errors import reading_errors
from ..distributed_steps import DistributedSteps, denominators
from ..evaluation import Evaluation
from ..inner_functions import inlined
from ..predict import Describe, Reader
from ..progress import Progress
from ..random_access import RandomAccess
from ..types import Replica, Run, Step
from ..unsupported import validate_splits
from .graph import random_numbers
from .made_again import MadeAgain
from .numbers import TOLERANCE, Numbers, named_leaves, relative_difference
from .probe import Look, Probe, layers_recorded, replaced

Created = tuple[Run, DistributedSteps, TrainingBatches]  # what create_run returns

REAL_STEPS = 3
PERIODS = (2, 3, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 200, 250, 500, 1000)  # of steps
LONGEST_TRAINING = 2.0  # seconds of work
MOST_WAITING = 3  # times as long on the clock, where other processes use the machine too
NO_LOGITS = "does not represent logits"  # Keras 3.15 warns so about softmax and sigmoid
FROM_FILES = (
    (keras.models, "load_model"),
    (keras.saving, "load_model"),
    (keras.Model, "load_weights"),
)
EXAMPLES_READ, SECS_READ = 20_000, 2.0  # of data that isn't in memory, at most


def secs_of_work() -> Callable[[], float]:
    """How many seconds this process has worked since; waiting counts as a part of its length.

    A verdict must not depend on what else the machine does.
    """
    wall, cpu = time.perf_counter(), time.process_time()

    def spent() -> float:
        on_clock = time.perf_counter() - wall  # less than `process_time` with several threads
        return max(on_clock / MOST_WAITING, min(on_clock, time.process_time() - cpu))

    return spent


class Failed(Exception):
    """Something that the relations need can't be made: the claim that doesn't hold, and why."""


class Refused(Failed):
    """A step that runs fails with what a relation has changed, which no run would give it."""


@contextlib.contextmanager
def stage(claim: str, kind: type[Failed] = Failed) -> Iterator[None]:
    """Report an exception as a claim that doesn't hold."""
    try:
        yield
    except (NotImplementedError, Failed):  # a part that the task doesn't have yet says so itself
        raise
    except Exception as error:
        raise kind(claim, cause_of(error)) from error


def one_and_two_replicas() -> tuple[tf.distribute.Strategy, tf.distribute.Strategy]:
    """No strategy, and two replicas on halves of the CPU; call this before any operation."""
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    tf.config.set_visible_devices([cpu])
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, halves)
    # Graph optimization isn't worth its time for so few steps.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    # Several graphs are created here on purpose.
    tf.get_logger().setLevel("ERROR")
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    return tf.distribute.get_strategy(), two


class Call(NamedTuple):
    """One call of a model or layer."""

    of: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    made: Any

    @property
    def in_training(self) -> bool:
        """Whether `training` was true."""
        by_place = self.arguments[1] if len(self.arguments) > 1 else None
        return bool(self.keywords.get("training", by_place))


class Trained(NamedTuple):
    """A run after each of some real steps."""

    losses: list[Numbers]
    norms: list[float]
    rates: dict[str, float]
    metrics: Numbers
    weights: list[np.ndarray]
    state: list[np.ndarray]  # normalization statistics
    slots: list[np.ndarray]
    apart: float  # the difference between the replicas' copies of the weights
    state_apart: float  # and of the statistics


@dataclass
class Noted:
    """What is recorded during an evaluation."""

    drawn: list[str] = field(default_factory=list)  # names of random operations
    stateful: list[str] = field(default_factory=list)  # and of those without a seed
    knows_step: bool = False  # whether a step uses the number of the batch
    sees_training: dict[str, set[bool]] = field(default_factory=dict)  # as in `Probe`
    calls: Counter[str] = field(default_factory=Counter)  # of layers with two modes, by path
    moved: list[str] = field(default_factory=list)  # variables of training that it changed
    counted: dict[str, int] = field(default_factory=dict)  # by split


@dataclass(eq=False, repr=False)
class Runs:
    """A task under observation."""

    create_run: Callable[..., Created]  # of run.py, of (strategy, datasets, config, task)
    strategies: tuple[tf.distribute.Strategy, tf.distribute.Strategy]  # one replica, and two
    create_datasets: Callable[[Any], dict[str, Any]]  # of task/data.py
    callbacks_of: Callable[[Any], list[Callback]]  # create_callbacks of task/callbacks.py
    config: Any  # the flags of training
    task: Any  # those of the task
    readers: Mapping[str, Reader] = field(default_factory=dict)  # of task/predictions.py
    describe: Describe = lambda *_: {}  # of task/predictions.py
    adapt: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = None  # of task/model.py

    def __post_init__(self) -> None:
        """Create the data, and record how long that takes."""
        spent = secs_of_work()
        self.create_datasets = partial(_as_in_a_new_process, self.create_datasets)
        make = partial(self.create_datasets, self.task)
        self._all_datasets = make()
        validate_splits(self._all_datasets)
        secs = spent()
        self.datasets = {n: split for n, split in self._all_datasets.items() if split is not None}
        adapt = partial(self.adapt, self.task) if self.adapt else None
        self.made_again = MadeAgain(make, adapt, self.datasets, secs)
        self.precision = self.config.precision  # of the run; 32 bits replace 16 here
        self.initial: dict[int, np.ndarray] = {}  # values at the start, by id of the variable
        self.loaded: list[np.ndarray] = []  # what create_model loads from its last file
        self.assigned: list[np.ndarray] = []  # what its last call of set_weights is given
        self.in_models: set[int] = set()  # ids of layers of all models, used or not
        self.secs_per_step = 0.0
        self._probes: dict[int, Probe] = {}
        self._noted = Noted()

    # The results of create_run.

    @cached_property
    def one(self) -> Created:
        """The task on one replica."""
        models: list[keras.Model] = []
        assigning = _loading_recorded(self.assigned, [(keras.layers.Layer, "set_weights")])
        with _loading_recorded(self.loaded, FROM_FILES), assigning, _models_recorded(models):
            made = self._create(self.strategies[0])
        size = made[0].global_batch_size
        if size % 2:  # at least one row for each of two replicas
            made = self._create(self.strategies[0], max(2, size - 1))
        self.in_models = {id(part) for m in models for part in getattr(m, "operations", [])}
        self.initial = {id(v): v.numpy() for v in self.variables(made)}
        return made

    @cached_property
    def two(self) -> Created:
        """The task on two replicas, with the initial weights of `one`."""
        made = self._create(self.strategies[1], self.run.global_batch_size)
        self._reset_copies(made[0])
        return made

    def _reset_copies(self, run: Run) -> None:
        """Give the models of `run` the initial weights of `one`."""
        for model, other in zip(self.run.models.values(), run.models.values(), strict=True):
            for variable, copy in zip(model.variables, other.variables, strict=True):
                copy.assign(self.initial[id(variable)])

    def other(self, datasets: dict[str, Any] | None = None, **flags: Any) -> Run:
        """The task on one replica, with other data for some splits, or with other flags."""
        return self._create(self.strategies[0], datasets=datasets, **flags)[0]

    @cached_property
    def of_other_seed(self) -> Run:
        """The task on one replica, with another --seed."""
        return self.other(seed=self.config.seed + 1)

    def _create(
        self,
        strategy: tf.distribute.Strategy,
        size: int | None = None,
        *,
        datasets: dict[str, Any] | None = None,
        **flags: Any,
    ) -> Created:
        """The task in global batches of `size`, or of the size in the flags."""
        flags |= {"accumulate": 1, "jit": "off", "randomness": "same_rows"}
        if size is not None:
            flags |= {"global_batch_size": size, "batch_size_per_replica": None}
        # Rounding to 16 bits is as large as the faults.
        precision = self.config.precision if self.config.precision == "float64" else "float32"
        config = replace(self.config, **{"precision": precision} | flags)
        splits = self._all_datasets | (datasets or {})
        # Of the same data: `adapt` may take long, and relations of its own call it again.
        known = [dict(self.run.adapted)] if "one" in vars(self) and not datasets else []
        with stage("the task can be built"), contextlib.redirect_stdout(None):
            return self.create_run(strategy, splits, config, self.task, *known)

    @property
    def run(self) -> Run:
        """The run on one replica."""
        return self.one[0]

    @property
    def num_steps(self) -> int:
        """The number of train steps in the whole run."""
        return self.run.num_steps

    def reset(self) -> None:
        """Reset `one` to its initial state."""
        for variable in self.variables(self.one):
            variable.assign(self.initial[id(variable)])

    @staticmethod
    def variables(created: Created) -> list[Any]:
        """All state that training changes."""
        run = created[0]
        owners = [*run.models.values(), *run.optimizers.values(), *run.metrics.values()]
        return [variable for owner in owners for variable in owner.variables]

    # One step.

    @cached_property
    def batch(self) -> Any:
        """The first batch: a nest of (1, rows, ...), weights last."""
        return self.read_batch(0)

    @cached_property
    def named_batch(self) -> dict[str, tf.Tensor]:
        """Its arrays by name, as those of `examples`; `create_augment` may rename some."""
        return dict(named_leaves(self.batch))

    @cached_property
    def second_batch(self) -> Any:
        """The batch of the second step."""
        return self.read_batch(1)

    def read_batch(self, step: int) -> Any:
        """The batch of a step."""
        (batch,) = self.read_batches(step, step + 1)
        return batch

    def read_batches(self, first: int, last: int) -> list[Any]:
        """The batches of steps `first` to `last` - 1, read one after the other."""
        batches = self.one[2]
        with stage("a batch can be made"), reading_errors({"train": batches.split}):
            return list(batches.dataset(first, last))

    @property
    def rows(self) -> int:
        """The number of rows in the batch."""
        return self.run.global_batch_size

    def weighted(self, change: Callable[[Any], Any]) -> Any:
        """The first batch with other weights."""
        *parts, weights = self.batch
        return (*parts, tf.nest.map_structure(change, weights))

    def look(self, batch: Any, *, step: int = 0, accumulate: int = 1) -> Look:
        """Compute a train step of `batch` as step number `step`."""
        _ = self.base  # what fails there fails in a run
        return self._look(self._probe(accumulate), batch, step)

    def _look(self, probe: Probe, batch: Any, step: int) -> Look:
        progress = self.one[1].start()._replace(step=tf.constant(step, tf.int64))
        kind = Refused if "base" in vars(self) else Failed
        with stage("a train step runs", kind), warnings.catch_warnings(record=True) as warned:
            warnings.filterwarnings("always", message=f".*{NO_LOGITS}")
            reduced, *seen = probe.graph(batch, progress)
        probe.undoes_activations |= any(NO_LOGITS in str(one.message) for one in warned)
        losses: Numbers = {}
        gradients: dict[str, list[np.ndarray]] = {}
        state: dict[int, tuple[keras.Variable, tf.Tensor]] = {}
        for of_step in reduced:
            losses |= {name: float(loss) for name, loss in of_step.losses.items()}
            gradients |= {n: [g.numpy() for g in gs] for n, gs in of_step.gradients.items()}
            writes = zip(probe.steps.transaction.capture.writable, of_step.writes, strict=True)
            state |= {id(v): (v, value) for v, value in writes if value is not None}
        with keras.StatelessScope([(v, value) for v, value in state.values()]):
            metrics = self.run.metric_results()
        of_metrics = {id(v) for metric in self.run.metrics.values() for v in metric.variables}
        return Look(
            int(np.max(reduced[-1].counts)),
            losses,
            gradients,
            metrics,
            all(bool(of_step.finite) for of_step in reduced),
            {key: value for key, (_, value) in state.items() if key not in of_metrics},
            *tf.nest.map_structure(lambda v: v if v is None else np.asarray(v), seen),
        )

    @cached_property
    def base(self) -> Look:
        """The first step."""
        return self._look(self._probe(1), self.batch, 0)

    @property
    def traced(self) -> Probe:
        """The train step, and what was recorded in its trace."""
        _ = self.base
        return self._probe(1)

    @property
    def telling_steps(self) -> tuple[int, ...]:
        """The first step, and the last one if losses may have other parts there."""
        return (0, self.num_steps - 1) if self.traced.losses_know_step else (0,)

    def given(self, batch: Any, at: int = 0, seed: int = 1, twice: str = "") -> tuple[Any, Replica]:
        """What a step gets of a batch on one replica, see `compute`: its rows, and the replica."""
        local = tf.nest.map_structure(lambda t: t[0], batch)
        counts = denominators(self.run.functions.count(local))
        replica = Replica(
            global_count=counts | {twice: 2 * counts[twice]} if twice else counts,
            index=tf.constant(0),
            num_replicas=1,
            step=tf.constant(at, tf.int64),
            seed=tf.constant([0, seed]),
        )
        return local, replica

    def compute(
        self,
        step: Step,
        run: Run,
        batch: Any,
        at: int = 0,
        seed: int = 1,
        *,
        metrics: bool = False,
        twice: str = "",
    ) -> Numbers:
        """The result of a step for a batch, as step number `at`; without a graph, and undone.

        With the metrics of the batch if they are requested; with twice the count of a name.
        """
        local, replica = self.given(batch, at, seed, twice)
        _ = self.base  # its graph reports a step that fails
        for metric in run.metrics.values() if metrics else ():
            metric.reset_state()
        read = [(v, tf.convert_to_tensor(v.value)) for v in self.run.trainable_variables]
        try:  # a step may take a gradient of its inputs, as it can when the engine calls it
            with inlined(), keras.StatelessScope(read, collect_losses=True):
                losses = {name: float(loss) for name, loss in step(run, local, replica).items()}
                return losses | run.metric_results() if metrics else losses
        finally:
            self.reset()

    def calls(
        self, step: Step, run: Run, batch: Any, watched: Iterable[Any], seed: int = 1
    ) -> list[Call]:
        """How a step calls some models or layers, on a batch."""
        _ = self.base  # otherwise its trace would be recorded, too
        with calls_recorded(watched) as found:
            self.compute(step, run, batch, seed=seed)
        return found

    def _probe(self, accumulate: int) -> Probe:
        if accumulate not in self._probes:
            self._probes[accumulate] = Probe(*self.one[:2], accumulate)
        return self._probes[accumulate]

    # Some steps, committed.

    @cached_property
    def trained_on_one(self) -> Trained:
        """After the first real steps on one replica."""
        try:
            return self._train(self.one)
        finally:
            self.reset()

    @cached_property
    def looks_at_real_steps(self) -> list[Look]:
        """What these steps compute with the initial weights."""
        numbers = _telling_numbers(self.num_steps)
        batches = self.read_batches(0, REAL_STEPS)
        return [self.look(b, step=number) for b, number in zip(batches, numbers, strict=True)]

    @cached_property
    def trained_on_two(self) -> Trained:
        """After the first real steps on two replicas."""
        return self._train(self.two)

    def _train(self, created: Created) -> Trained:
        run, steps, batches = created
        with stage("a train step runs"):
            iterator, progress = iter(batches.dataset(0, REAL_STEPS)), steps.start()
            losses: list[Numbers] = []
            norms: list[float] = []
            for number in _telling_numbers(self.num_steps):
                progress = progress._replace(step=tf.constant(number, tf.int64))
                progress = steps.distributed_train_step(iterator, 1, progress)
                losses.append(_by_name(run, progress))
                norms.append(float(progress.latest.gradient_norm))
        return Trained(
            losses,
            norms,
            learning_rates(run),
            run.metric_results(),
            [v.numpy() for v in run.trainable_variables],
            [v.numpy() for v in state_of(created)],
            [v.numpy() for o in run.optimizers.values() for v in o.variables],
            _apart(run, run.trainable_variables),
            _apart(run, state_of(created)),
        )

    def train_longer(
        self, batches: tf.data.Dataset, most: int, steps: DistributedSteps | None = None
    ) -> list[Numbers]:
        """Train `one` for a few seconds; the losses of each step. The caller resets it."""
        _ = self.base  # before any training
        steps = steps or self.one[1]
        progress = steps.start()
        iterator, losses = iter(batches), list[Numbers]()
        started, spent = time.perf_counter(), secs_of_work()
        while len(losses) < most and spent() < LONGEST_TRAINING:
            with stage("a train step runs"):
                progress = steps.distributed_train_step(iterator, 1, progress)
            latest = _by_name(self.run, progress)
            losses.append({name: latest[name] for name in self.run.optimizers})
            if len(losses) == 1:  # the first call may have traced
                started, spent = time.perf_counter(), secs_of_work()
        self.secs_per_step = (time.perf_counter() - started) / max(1, len(losses) - 1)
        return losses

    @cached_property
    def is_the_same_when_traced_again(self) -> bool:
        """Whether a second trace of the train step computes the same losses and gradients."""
        return not self.base.trains_otherwise(self._traced_again(), TOLERANCE)

    def losses_when_traced_again(self) -> Numbers:
        """The losses of the first step in a new trace."""
        return self._traced_again().losses

    def _traced_again(self) -> Look:
        """The first step in a new trace."""
        return self._look(Probe(*self.one[:2], 1), self.batch, 0)

    def with_regularizers(self, factor: float) -> Look:
        """The first step, where regularizers of weights give `factor` times as much."""

        def scaled(_: Any, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda weights: factor * plain(weights)

        owned = (v for v in self.run.trainable_variables if v.regularizer is not None)
        with replaced([(v, "_regularizer") for v in owned], scaled):  # the property can't be
            return self._traced_again()

    def create_callbacks(self) -> list[Callback]:
        """New callbacks."""
        with stage("callbacks can be made"):
            return self.callbacks_of(self.task)

    # Evaluation.

    def first_rows(self, split: Any, rows: int) -> Any:
        """The first examples of a split."""
        split = worker_split(split)
        if isinstance(split, tf.data.Dataset):
            return split.take(rows)
        return split.select(range(min(rows, len(split))))

    @cached_property
    def evaluated_splits(self) -> dict[str, Any]:
        """Some examples of validation and test data: a batch and a short one."""
        rows = self.rows + self.rows // 3 + 1
        splits = self.datasets.items()
        return {n: self.first_rows(split, rows) for n, split in splits if n != "train"}

    @cached_property
    def on_one(self) -> Evaluation:
        """The evaluation of those examples on one replica."""
        functions = self.run.functions
        recorded = replace(
            functions,
            validation_step=self._recorded(functions.validation_step),
            test_step=self._recorded(functions.test_step),
        )
        with stage("a validation step runs"):
            return self._evaluation(replace(self.run, functions=recorded), self.one[1].layout)

    def _evaluation(self, run: Run, layout: BatchLayout) -> Evaluation:
        """Of `evaluated_splits`, of which nothing is said: their last batch is always short."""
        functions = replace(run.functions, examples_interact=False)
        return Evaluation(replace(run, functions=functions), self.evaluated_splits, layout)

    def _recorded(self, step: Step) -> Step:
        """The step, whose random operations and use of its number are recorded in its trace."""

        @wraps(step)
        def recorded(*args: Any) -> dict[str, tf.Tensor]:
            graph = tf.compat.v1.get_default_graph()
            before, number = len(graph.get_operations()), args[-1].step
            uses = len(number.consumers())
            losses = step(*args)
            self._noted.knows_step |= len(number.consumers()) > uses
            seeded, stateful = random_numbers(graph, before)
            self._noted.drawn += seeded + stateful
            self._noted.stateful += stateful
            return losses

        return recorded

    @property
    def in_other_batches(self) -> Evaluation:
        """The same evaluation with fewer real examples per batch; the others have weight 0.

        It shares the graphs.
        """
        other = copy_of(self.on_one)
        size = self.rows // 2 + 1

        @tf.autograph.experimental.do_not_convert
        def filled(*batch: Any) -> Any:
            *examples, weights = tf.nest.map_structure(lambda t: t[:, : self.rows - size], batch)
            more = (*examples, tf.nest.map_structure(tf.zeros_like, weights))
            return tf.nest.map_structure(lambda *parts: tf.concat(parts, axis=1), batch, more)

        layout = BatchLayout(size, 1, 0, 1)
        made = {name: evaluation_batches(split, layout) for name, split in other.splits.items()}
        other._batches = {n: (batches.map(filled), number) for n, (batches, number) in made.items()}
        return other

    @cached_property
    def evaluations(self) -> dict[str, Numbers]:
        """Losses and metrics of all splits: on one replica twice, on two, and in other batches."""
        self._reset_copies(self.two[0])
        with stage("a validation step runs"):
            two = self._evaluation(self.two[0], self.two[1].layout)
            with layers_recorded(self.run, self._noted.sees_training, self._noted.calls):
                once = self.evaluate(self.on_one)
            before = self.initial
            self._noted.moved = [v.path for v in self.variables(self.one)
                                 if v.numpy().tobytes() != before[id(v)].tobytes()]  # fmt: skip
            return {
                "on two replicas": self.evaluate(two),
                "in other batches": self.evaluate(self.in_other_batches),
                "once more": self.evaluate(self.on_one),
                "once": once,
            }

    @property
    def in_evaluation(self) -> Noted:
        """What was recorded in the first of these evaluations."""
        _ = self.evaluations
        return self._noted

    def evaluate(self, evaluation: Evaluation) -> Numbers:
        """Losses and metrics of its splits."""
        results: Numbers = {}
        for split in evaluation.splits:
            values, sums = evaluation.measure(split)
            self._noted.counted.setdefault(split, int(np.max(sums.counts)))
            results |= {f"{split}_{name}": value for name, value in values.items()}
        return results

    # Data.

    @cached_property
    def examples(self) -> dict[str, dict[str, np.ndarray]]:
        """The arrays of every split by name; data not in memory is read for a few seconds."""
        with stage("the data can be read"):
            return {name: self._read(split) for name, split in self.datasets.items()}

    def _read(self, split: Any) -> dict[str, np.ndarray]:
        split = worker_split(split)
        examples: Iterable[Any] = split
        if isinstance(split, RandomAccess):
            if split.in_memory:
                return dict(named_leaves(split.arrays))
            rows = np.unique(np.linspace(0, len(split) - 1, EXAMPLES_READ).astype(int))
            examples = (split[row] for row in np.random.default_rng(0).permutation(rows))
        read: list[Any] = []
        started = time.perf_counter()
        for example in examples:
            read.append(tf.nest.map_structure(np.asarray, example))
            if len(read) >= EXAMPLES_READ or time.perf_counter() - started > SECS_READ:
                break
        if not read:
            return {}
        whole = tf.nest.map_structure(lambda *rows: np.stack(rows), *read)
        return dict(named_leaves(whole))

    def held_out(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of that name in all splits but that of training."""
        splits = self.examples.items()
        return {n: arrays[name] for n, arrays in splits if n != "train" and name in arrays}

    def is_whole(self, name: str) -> bool:
        """Whether `examples` contains all of a split."""
        first, split = next(iter(self.examples[name].values()), None), self.datasets[name]
        if is_endless(split):
            return False
        return first is None or len(first) == num_examples(worker_split(split))


def _loading_recorded(
    loaded: list[np.ndarray], functions: Iterable[tuple[Any, str]]
) -> contextlib.AbstractContextManager[None]:
    """Record the weights that create_model loads with some functions of Keras."""

    def recorded(_: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def noted(*arguments: Any, **keywords: Any) -> Any:
            made = function(*arguments, **keywords)
            model = arguments[0] if made is None else made  # load_model returns it
            caller = inspect.currentframe()
            while caller is not None and caller.f_code.co_name != "create_model":
                caller = caller.f_back
            if caller is not None:
                loaded[:] = [w.numpy() for w in model.weights]
            return made

        return noted

    return replaced(functions, recorded)


@contextlib.contextmanager
def calls_recorded(watched: Iterable[Any]) -> Iterator[list[Call]]:
    """Record the calls of some models or layers."""
    found: list[Call] = []

    def recorded(layer: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **keywords: Any) -> Any:
            made = call(*arguments, **keywords)
            found.append(Call(layer, arguments, keywords, made))
            return made

        return noted

    with replaced([(layer, "call") for layer in watched], recorded):
        yield found


def _models_recorded(models: list[keras.Model]) -> contextlib.AbstractContextManager[None]:
    """Record every model that is created, even if only a part of it is used."""

    def recorded(_: Any, plain: Callable[..., Any]) -> Any:
        def new(kind: type, *arguments: Any, **keywords: Any) -> keras.Model:
            models.append(plain(kind, *arguments, **keywords))
            return models[-1]

        return staticmethod(new)

    return replaced([(keras.Model, "__new__")], recorded)


def state_of(created: Created) -> list[keras.Variable]:
    """The variables that train steps write other than metrics, such as statistics."""
    run, steps, _ = created
    metrics = {id(v) for metric in run.metrics.values() for v in metric.variables}
    return [v for v in steps.transaction.capture.state if id(v) not in metrics]


def keras_callbacks_in(made: Iterable[Callback]) -> list[keras.callbacks.Callback]:
    """The callbacks of Keras among those of a task."""
    held = (getattr(each.function, "_callback", None) for each in made)
    return [each for each in held if isinstance(each, keras.callbacks.Callback)]


def _as_in_a_new_process(create_datasets: Callable[[Any], Any], task: Any) -> dict[str, Any]:
    """The data as `train` makes it: before --seed sets the seed that shuffles of tf.data know."""
    tf.random.set_seed(None)
    datasets: dict[str, Any] = create_datasets(task)
    return datasets


def _telling_numbers(num_steps: int) -> list[int]:
    """The numbers of the real steps: among the last ones is what a step does now and then."""
    numbers = range(REAL_STEPS - 1, max(REAL_STEPS, num_steps))
    most = max(numbers, key=lambda n: sum(n % period == 0 for period in PERIODS))
    return [*range(REAL_STEPS - 2), most - 1, most]


def _apart(run: Run, variables: list[keras.Variable]) -> float:
    """The relative difference between the first and the last replica's copies of variables."""
    local = run.strategy.experimental_local_results
    copies = [local(v.value) for v in variables]
    return relative_difference([c[0].numpy() for c in copies], [c[-1].numpy() for c in copies])


def _by_name(run: Run, progress: Progress) -> Numbers:
    """Losses and terms of the latest step."""
    return dict(zip(run.returned, progress.latest.losses.numpy().tolist(), strict=True))
