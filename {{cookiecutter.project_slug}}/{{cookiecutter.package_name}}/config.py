"""The settings of training and distribution. Those of the task are in task/config.py."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

MOST = 2**31 - 1  # steps, examples or seconds: the product of two fits into 64 bits
MOST_VIRTUAL = 256  # into which one CPU is split
LARGEST_SEED = 2**32 - 1  # of keras.utils.set_random_seed


@dataclass(frozen=True)
class Length:
    """How long to train, and the seed."""

    epochs: int | None = None  # passes over the training data; 40 if --steps isn't given either
    steps: int | None = None  # train steps of the whole run, instead of --epochs
    seed: int = 0  # seed of initial weights, order of the data, dropout and augmentation


@dataclass(frozen=True)
class Batches:
    """What a step trains on."""

    # examples in a step over all replicas; 96 if neither batch size is given
    global_batch_size: int | None = None
    # examples in a step on each replica, instead of --global-batch-size
    batch_size_per_replica: int | None = None
    # gradient-accumulation micro-batches per replica, to save memory; 1 disables
    accumulate: int = 1
    # a short last training batch: drop it, fill it from the next epoch (span), or pad it with
    # examples of weight zero
    last_batch: Literal["drop", "span", "pad"] = "drop"
    # what the training loss is divided by: the examples in the batch, or the global batch size even
    # where the batch is short
    denominator: Literal["examples", "global_batch"] = "examples"


@dataclass(frozen=True)
class Devices:
    """Where and how to compute."""

    # tf.distribute strategy; auto prints what it chose and why
    strategy: Literal["auto", "none", "one_device", "mirrored", "multi_worker", "tpu"] = "auto"
    # logical devices to split the CPU into, to debug several replicas on a laptop; 0 disables
    virtual_replicas: int = 0
    start_timeout: float = 300.0  # seconds to wait for the other workers when several start
    # seconds without progress of one worker after which all workers exit; set it longer than any
    # pause of a single worker (a callback, filling a shuffle buffer, a slow disk)
    hang_timeout: float = 300.0
    # replica: each draws its own dropout and noise; global_batch: the same numbers on any number of
    # replicas, which costs more; not of weights whose shape has a multiple of a replica's rows
    randomness: Literal["replica", "global_batch"] = "replica"
    # dtype of computation; bfloat16 and float16 keep float32 weights; float64 is for comparing runs
    precision: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    # compile forward and backward with XLA; auto: on accelerators, unless a step sums over the
    # replicas or takes strings; what else XLA can't compile needs off
    jit: Literal["auto", "on", "off"] = "auto"
    # bucket size in megabytes for summing gradients over the replicas during the backward pass;
    # needs --jit off; 0: sum all gradients at once after it
    bucket_mb: float = 0.0
    steps_per_call: int = 0  # train steps in one graph call; 0: as many as take half a second
    # bit-identical runs on GPUs, at lower speed and without measuring how long steps wait for data;
    # CPU runs are bit-identical without it
    deterministic: bool = False


@dataclass(frozen=True)
class Safety:
    """Unreadable examples, gradient clipping, NaN and infinite steps."""

    # unreadable examples to leave out and report, not for a tf.data.Dataset; one more ends the run
    max_bad_examples: int = 0
    clip_norm: float = 0.0  # largest global norm of the summed gradients; 0 disables clipping
    # skip a step whose loss or gradient is not finite, or stop the run
    non_finite: Literal["skip", "stop"] = "skip"
    max_skipped_steps: int = 20  # skipped steps in a row after which one more stops the run


@dataclass(frozen=True)
class Reports:
    """When to validate and to log."""

    # steps between validations, each a row of history.csv; 0: at the end of each epoch
    validate_every_steps: int = 0
    validation_steps: int = 0  # batches in each validation, the first ones of the data; 0: all
    # steps between log points, each a row of steps.csv and a point in TensorBoard; each validation
    # is one too; 0: automatic, at most 100 an epoch and at most 1% of the time
    log_every_steps: int = 0
    log_graph: bool = False  # write the graph of a train step and of each model for TensorBoard
    # FIRST:LAST, steps to profile for TensorBoard, such as 101:120; empty: none
    profile: str = ""


@dataclass(frozen=True)
class Files:
    """Run directory and checkpoints."""

    runs: str = "runs"  # directory that holds the run directories
    name: str = "train"  # last part of the run directory's name
    quiet: bool = False  # print only errors and the final results
    # run directory to resume, with its flags where no others are given; auto: the latest unfinished
    # run of the same flags, or a new one
    resume: str = ""
    keep_checkpoints: int = 3  # latest checkpoints to keep, beside the best weights
    save_every_epochs: int = 1  # epochs between checkpoints; 0 disables
    save_every_steps: int = 0  # steps between checkpoints; 0 disables
    save_every_secs: float = 600.0  # seconds between checkpoints; 0 disables
    # approximate seconds from Ctrl-C or SIGTERM until the run has saved and exited
    max_stop_secs: float = 10.0


# Each base is a group of flags in train.py --help. Python lists the fields of the last base first.
@dataclass(frozen=True)
class Config(Files, Reports, Safety, Devices, Batches, Length):
    """How to train, and where."""

    def __post_init__(self) -> None:
        """Validate what single flags can't.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        if self.epochs is not None and self.steps is not None:
            raise ValueError("give --epochs or --steps, not both.")
        if self.global_batch_size is not None and self.batch_size_per_replica is not None:
            raise ValueError("give --global-batch-size or --batch-size-per-replica, not both.")
        if self.strategy in ("none", "one_device") and self.virtual_replicas > 1:
            raise ValueError(
                f"--strategy {self.strategy} trains on one replica, and --virtual-replicas "
                f"{self.virtual_replicas} asks for more; use --strategy mirrored, or "
                "--virtual-replicas 0."
            )
        positive = ["epochs", "steps", "accumulate", "keep_checkpoints"]
        positive += ["global_batch_size", "batch_size_per_replica"]
        for name in positive:
            _within(1, MOST, name, getattr(self, name))
        _within(0, MOST_VIRTUAL, "virtual_replicas", self.virtual_replicas)
        zero_or_more = ["steps_per_call", "clip_norm", "bucket_mb"]
        zero_or_more += ["validate_every_steps", "validation_steps", "log_every_steps"]
        zero_or_more += ["max_skipped_steps", "save_every_epochs", "save_every_steps"]
        zero_or_more += ["save_every_secs", "max_stop_secs", "max_bad_examples", "start_timeout"]
        for name in zero_or_more:
            _within(0, MOST, name, getattr(self, name))
        _within(5, MOST, "hang_timeout", self.hang_timeout)  # workers tell each other once a second
        _within(0, LARGEST_SEED, "seed", self.seed)
        if not re.fullmatch(r"[^/\\\x00-\x1f\x7f]{1,100}", self.name):
            raise ValueError(
                f"--name is {self.name!r}; it is a part of a directory's name: 1 to 100 characters "
                "without / and \\."
            )
        if re.match(r"[A-Za-z][A-Za-z0-9]+:/", self.runs):  # as TensorFlow would take it
            raise ValueError(
                f"--runs is {self.runs!r}; it must be a directory of this machine: mount the "
                "storage, and give the directory where it is mounted."
            )
        _ = self.steps_to_profile  # raises if it isn't FIRST:LAST

    @property
    def steps_to_profile(self) -> tuple[int, int] | None:
        """The first and the last step to profile, or None.

        Raises:
            ValueError: `profile` isn't FIRST:LAST.
        """
        if not self.profile:
            return None
        steps = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", self.profile)
        if not steps or not 1 <= int(steps[1]) <= int(steps[2]) <= MOST:
            raise ValueError(
                f"--profile is {self.profile!r}; it is FIRST:LAST, the first and the last step to "
                "profile, such as 101:120."
            )
        return int(steps[1]), int(steps[2])


def _within(smallest: int, largest: int, name: str, value: float | None) -> None:
    if value is None:
        return
    flag = f"--{name.replace('_', '-')}"
    if not math.isfinite(value):
        raise ValueError(f"{flag} is {value}; it must be a finite number.")
    if value < smallest:
        raise ValueError(f"{flag} is {value}; it must be at least {smallest}.")
    if value > largest:
        raise ValueError(f"{flag} is {value}; it must be at most {largest}.")
