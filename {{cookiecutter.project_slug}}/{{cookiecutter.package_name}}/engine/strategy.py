"""Creates the tf.distribute strategy for the devices found, and says why."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import cross_device_utils
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from . import cluster, link, rendezvous
from .errors import UsageError
from .output import fact, say
from .outside import of_engine

# What starts TensorFlow before there is a strategy.
EARLY = "task/ may make a tensor or a variable when it is imported: make it in a function"

NVIDIA = Path("/proc/driver/nvidia")  # where its driver runs, on Linux
UNSEEN_GPU = (
    "TensorFlow sees no GPU, though an NVIDIA driver runs here: install tensorflow[and-cuda], or "
    "set TF_CPP_MIN_LOG_LEVEL=0 to see what it lacks"
)


def create_strategy(
    name: str = "auto",
    *,
    virtual_replicas: int = 0,
    deterministic: bool = False,
) -> tf.distribute.Strategy:
    """The distribution strategy; the chief prints in one line which it is and why.

    To be called before any TensorFlow operation: virtual devices and MultiWorkerMirroredStrategy
    both need that.

    Args:
        name: what `--strategy` says.
        virtual_replicas: logical devices to split the CPU into; 0 doesn't.
        deterministic: same bits in every run, also on GPUs.

    Raises:
        UsageError: a device or strategy that isn't there, or workers that differ.
        LostWorkerError: another worker didn't come in time.
    """
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    if virtual_replicas:
        _split_cpu(virtual_replicas)
    rendezvous.connect(name)  # unless train.py has
    chosen, why = _choose(name, virtual_replicas)
    strategy = _multi_worker(virtual_replicas) if chosen == "multi_worker" else CREATE[chosen]()
    replicas = strategy.num_replicas_in_sync
    if cluster.worker_index() == 0:
        count = f"{replicas} replica{'s' * (replicas > 1)}"
        say(fact("strategy", f"{chosen}, {count}, because {why}"))
    return strategy


def strategy_name(strategy: tf.distribute.Strategy) -> str:
    """What --strategy calls it."""
    names = {
        tf.distribute.OneDeviceStrategy: "one_device",
        tf.distribute.MirroredStrategy: "mirrored",
        tf.distribute.MultiWorkerMirroredStrategy: "multi_worker",
        tf.distribute.TPUStrategy: "tpu",
    }
    return names.get(type(strategy), "none")


def _choose(name: str, virtual_replicas: int) -> tuple[str, str]:
    if (workers := cluster.num_workers()) > 1:
        return "multi_worker", f"there are {workers} workers by {rendezvous.launcher}"
    if name != "auto":
        return name, f"of --strategy {name}"
    gpus = len(tf.config.list_physical_devices("GPU"))
    if virtual_replicas > 1:
        return "mirrored", f"of --virtual-replicas {virtual_replicas}"
    if gpus > 1:
        return "mirrored", f"there are {gpus} GPUs"
    if gpus == 1:
        return "one_device", "there is one GPU"
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return "none", "there is no GPU" if hidden or not NVIDIA.exists() else UNSEEN_GPU


def _split_cpu(replicas: int) -> None:
    (cpu, *_) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * replicas
    try:
        tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        raise UsageError(
            f"--virtual-replicas {replicas}: TensorFlow has started without them in this process; "
            f"{EARLY}, and in a process of several runs use the same number in each."
        ) from error


def _devices(kind: str) -> list[str]:
    return [device.name for device in tf.config.list_logical_devices(kind)]


def _one_device() -> tf.distribute.Strategy:
    # OneDeviceStrategy takes any name, and runs on the CPU in silence if it isn't there (TF 2.21).
    return tf.distribute.OneDeviceStrategy((_devices("GPU") or _devices("CPU"))[0])


def _mirrored() -> tf.distribute.Strategy:
    gpus, cpus = _devices("GPU"), _devices("CPU")
    if len(cpus) > 1:
        # In one process a plain sum is ten times faster than a collective operation (TF 2.21).
        return tf.distribute.MirroredStrategy(cpus, tf.distribute.ReductionToOneDevice())
    if not gpus:
        raise UsageError(
            "--strategy mirrored needs GPUs, and there is only the CPU; "
            "add --virtual-replicas 2 to split it, or use --strategy none."
        )
    return tf.distribute.MirroredStrategy(gpus)


def _multi_worker(virtual_replicas: int) -> tf.distribute.Strategy:
    if cluster.num_workers() == 1:
        raise UsageError(
            "--strategy multi_worker needs several workers, and nothing says who they are: start "
            "them by srun or mpirun, or set the environment variable TF_CONFIG for each; on one "
            "machine use --strategy mirrored."
        )
    rendezvous.require_port()
    # Where a worker is missing, this waits for an hour and holds Python's lock (TF 2.21).
    assert link.current is not None
    link.current.wait_for_all(virtual_replicas or len(tf.config.list_physical_devices("GPU")) or 1)
    cross_device_utils.CollectiveReplicaLauncher = _Launcher
    with _on_virtual_replicas(virtual_replicas):
        try:
            strategy = tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.UnknownError as error:
            address = cluster.addresses()[cluster.worker_index()]
            raise UsageError(f"TensorFlow can't listen at {address}: see above.") from error
        except RuntimeError as error:
            if "at program startup" not in str(error):
                raise
            raise UsageError(f"TensorFlow has started before the strategy: {EARLY}.") from error
    _count_new_variables(strategy)
    link.accept_sigterm()
    return strategy


class _Launcher(cross_device_utils.CollectiveReplicaLauncher):
    """Makes the collectives of a replica, and lets the link see that it has come to one.

    Not by `CommunicationOptions(timeout_seconds=...)`: each collective would hold a thread for so
    long, until the process can start no more (TF 2.21).
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # Of its own, as the token that orders its collectives: replicas don't wait for each other.
        with tf.init_scope(), tf.device("CPU:0"):  # it can be read while a GPU computes
            self._begun = of_engine(ResourceVariable(0, trainable=False, dtype=tf.int64))
        if self._ordering_token is not None:
            of_engine(self._ordering_token)
        link.watch(lambda: int(self._begun))

    def all_reduce(self, input_tensor: Any, *arguments: Any, **named: Any) -> Any:
        """Sum a dense tensor."""
        self._begin(input_tensor)
        return super().all_reduce(input_tensor, *arguments, **named)

    def _all_gather(self, input_tensor: Any, *arguments: Any, **named: Any) -> Any:
        self._begin(input_tensor)
        return super()._all_gather(input_tensor, *arguments, **named)

    def _begin(self, tensor: tf.Tensor) -> None:
        """Count, once the tensor is computed; the collective doesn't wait for that."""
        with tf.device(self._device):
            first = tf.reshape(tensor, [-1])[:1]
        with tf.device("CPU:0"):
            # A control dependency would hold as soon as a GPU has been told to compute it.
            self._begun.assign_add(tf.size(tf.unique(first).y, tf.int64))


def _count_new_variables(strategy: tf.distribute.MultiWorkerMirroredStrategy) -> None:
    """Let the link see how many variables a worker has made: the chief sends each to the others."""
    extended = strategy.extended
    initial_value = extended._get_variable_creator_initial_value

    def counted(*arguments: Any, **named: Any) -> Any:
        link.arrive()
        return initial_value(*arguments, **named)

    extended._get_variable_creator_initial_value = counted


@contextlib.contextmanager
def _on_virtual_replicas(number: int) -> Iterator[None]:
    """Let MultiWorkerMirroredStrategy take all parts of a split CPU; 0 changes nothing.

    By itself it takes one device of a worker without accelerators, whatever devices there are, and
    no argument says otherwise (TODO(b/126786766) in its source, TF 2.21): a private method does.
    """
    if not number:
        yield
        return

    def devices(self: Any, resolver: Any, worker: str) -> tuple[tuple[str, ...], str]:
        return tuple(f"{worker}/device:CPU:{i}" for i in range(number)), "CPU"

    before = CollectiveAllReduceExtended._initialize_local_devices
    CollectiveAllReduceExtended._initialize_local_devices = devices
    try:
        yield
    finally:
        CollectiveAllReduceExtended._initialize_local_devices = before


def _tpu() -> tf.distribute.Strategy:
    # The resolver looks for a TPU on the network, for minutes: ask it only where there may be one.
    if not (os.environ.get("TPU_NAME") or tf.config.list_physical_devices("TPU")):
        found = ", ".join(sorted(d.device_type for d in tf.config.list_physical_devices()))
        raise UsageError(
            f"--strategy tpu: there is no TPU here, only {found}; on a TPU machine set TPU_NAME."
        )
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver()
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


CREATE = {
    "none": tf.distribute.get_strategy,
    "one_device": _one_device,
    "mirrored": _mirrored,
    "tpu": _tpu,
}
