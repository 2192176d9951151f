"""The knobs of training and distribution. Those of the task are in task/config.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Config:
    """Training and distribution."""

    # How long, and in which order
    epochs: int = 40  # passes over the training data
    seed: int = 0  # of the initial weights, the order of the data, dropout and augmentation

    # Batches; a step is one update of the weights from one global batch
    global_batch_size: int | None = None  # examples in a step over all replicas; 96 if neither is given
    batch_size_per_replica: int | None = None  # the same for each replica; give one of the two
    accumulate: int = 1  # micro-batches each replica cuts its share into, to save memory; 1: whole
    last_batch: Literal["drop", "span", "pad"] = "drop"  # a short last training batch: left out, filled from the next epoch, or padded with weight zero
    denominator: Literal["examples", "global_batch"] = "examples"  # what the loss is divided by: examples really in the batch, or always the global batch size

    # Where it runs
    strategy: Literal["auto", "none", "one_device", "mirrored", "multi_worker", "tpu"] = "auto"  # how the replicas lie on the devices
    virtual_replicas: int = 0  # split the CPU into so many devices, to run and debug replicas on a laptop; 0: don't
    precision: Literal["float32", "bfloat16", "float16"] = "float32"  # of the computation; weights stay float32
    jit: Literal["auto", "on", "off"] = "auto"  # compile forward and backward with XLA; auto: on accelerators, where the model allows it
    steps_per_call: int = 0  # train steps in one graph call; 0: about half a second's worth

    # Guards of the step
    clip_norm: float = 0.0  # largest global norm of the summed gradients; 0: no clipping
    non_finite: Literal["skip", "stop"] = "skip"  # what to do with a step whose loss or gradient is not finite
    max_skipped_steps: int = 20  # more skipped steps than this in a row stop the run

    # What is kept
    runs: str = "runs"  # where the run directories go
    name: str = "train"  # last part of the run directory's name
    resume: str = ""  # a run directory to go on with; its configuration holds unless you change a flag
    keep_checkpoints: int = 3  # how many of the latest checkpoints are kept, beside the best

    def __post_init__(self) -> None:
        """Refuse what can't be meant.

        Raises:
            ValueError: one sentence that says what is wrong.
        """
        if self.global_batch_size is not None and self.batch_size_per_replica is not None:
            raise ValueError("Give --global-batch-size or --batch-size-per-replica, not both.")
        at_least_one = ("epochs", "accumulate", "global_batch_size", "batch_size_per_replica", "keep_checkpoints")
        at_least_zero = ("seed", "virtual_replicas", "steps_per_call", "clip_norm", "max_skipped_steps")
        for smallest, names in ((1, at_least_one), (0, at_least_zero)):
            for name in names:
                value = getattr(self, name)
                if value is not None and not value >= smallest:
                    raise ValueError(f"--{name.replace('_', '-')} is {value}; it must be at least {smallest}.")
