"""The knobs of training and distribution. Those of the task are in task/config.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Config:
    """How to train, and where."""

    epochs: int = 40  # passes over the training data
    seed: int = 0  # of the initial weights, the order of the data, dropout and augmentation

    # examples in a step over all replicas; 96 if neither batch size is given
    global_batch_size: int | None = None
    # examples in a step on each replica; give one of the two batch sizes
    batch_size_per_replica: int | None = None
    # micro-batches into which each replica cuts its share to save memory; 1: it doesn't
    accumulate: int = 1
    # a short last training batch: left out, filled from the next epoch, or padded with weight zero
    last_batch: Literal["drop", "span", "pad"] = "drop"
    # what the loss is divided by: the examples in the batch, or always the global batch size
    denominator: Literal["examples", "global_batch"] = "examples"

    # how the replicas lie on the devices; auto says what it chose and why
    strategy: Literal["auto", "none", "one_device", "mirrored", "multi_worker", "tpu"] = "auto"
    # split the CPU into so many devices, to run and debug replicas on a laptop; 0: don't
    virtual_replicas: int = 0
    # of the computation (16 bits: the weights stay float32); float64 is for comparing runs
    precision: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    # compile forward and backward with XLA; auto: on accelerators, where the model allows it
    jit: Literal["auto", "on", "off"] = "auto"
    steps_per_call: int = 0  # train steps in one graph call; 0: about half a second's worth

    clip_norm: float = 0.0  # largest global norm of the summed gradients; 0: no clipping
    # what to do with a step whose loss or gradient is not finite
    non_finite: Literal["skip", "stop"] = "skip"
    max_skipped_steps: int = 20  # more skipped steps in a row than this stop the run

    # the same bits in every run, also on GPUs, where it costs speed; the CPU always gives them
    deterministic: bool = False

    runs: str = "runs"  # where the run directories go
    name: str = "train"  # last part of the run directory's name
    # a run directory to go on with, whose flags hold where you give no others; auto: the latest
    # unfinished run of the same flags, or a new one
    resume: str = ""
    keep_checkpoints: int = 3  # how many of the latest checkpoints stay, beside the best
    save_every_epochs: int = 1  # epochs between checkpoints; 0: never for that reason
    save_every_steps: int = 0  # steps between checkpoints; 0: never for that reason
    save_every_secs: float = 600.0  # seconds between checkpoints; 0: never for that reason
    # how long a run that gets Ctrl-C or SIGTERM may take to save itself and end, about
    max_stop_seconds: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        if self.global_batch_size is not None and self.batch_size_per_replica is not None:
            raise ValueError("give --global-batch-size or --batch-size-per-replica, not both.")
        positive = ["epochs", "accumulate", "keep_checkpoints"]
        positive += ["global_batch_size", "batch_size_per_replica"]
        for name in positive:
            _at_least(1, name, getattr(self, name))
        zero_or_more = ["seed", "virtual_replicas", "steps_per_call", "clip_norm"]
        zero_or_more += ["max_skipped_steps", "save_every_epochs", "save_every_steps"]
        zero_or_more += ["save_every_secs", "max_stop_seconds"]
        for name in zero_or_more:
            _at_least(0, name, getattr(self, name))


def _at_least(smallest: int, name: str, value: float | None) -> None:
    if value is not None and not value >= smallest:
        raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least {smallest}.")
