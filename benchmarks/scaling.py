"""What a step costs on many machines: python benchmarks/scaling.py; writes into docs/scaling.md.

Measures sums of gradients, agreements and whole steps with 1 to 5 workers on 127.0.0.1, in turns;
fits the model below to 2, 3 and 4 workers, and compares it with 5. With --tables it measures
nothing and makes the tables from scaling.json.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from pages import DOCS, table, write

HERE = Path(__file__).parent
RESULTS = HERE / "scaling.json"
PAGE = DOCS / "scaling.md"
FITTED, CHECKED = (2, 3, 4), 5  # workers
SIZES = [10**3, 10**4, 10**5, 10**6, 10**7]  # bytes
LARGE = 10**8  # measured with two workers and not fitted
ROUNDS, TURN_SECS, MOST = 9, 0.4, 200  # rounds that count; seconds and operations in a turn
# layers, width, seconds of sleep in the backward pass of each, --bucket-mb
STEP = (4, 250, 0.01, 0.0)
BUCKETED = [(8, 1000, secs, mb) for secs in (0.02, 0.0) for mb in (0.0, 16.0, 8.0, 4.0)]
COUNT_BYTES = 4
CLASSES = 10  # outputs of the model in scaling_worker.py

# What is assumed of machines that aren't here.
MODELS = {"1 MB": 1e6, "100 MB": 1e8, "1.4 GB": 1.4e9, "28 GB": 2.8e10}
WORKERS, PER_HOST = (8, 64, 512), 8
COMPUTE = 0.5  # seconds of forward and backward in a step
BACKWARD = 2 / 3  # of them, since it makes twice the multiplications of forward
BUCKETS = (1e7, 2.5e7, 1e8, 2.5e8, 1e9)  # bytes
GAIN = 1.05  # from which buckets are worth a flag


class Link(NamedTuple):
    """What connects workers.

    Attributes:
        bandwidth: bytes a second, in each direction at once.
        latency: seconds from one worker to the next, however little is sent.
    """

    bandwidth: float
    latency: float


NETWORKS = {
    "10 Gbit/s": Link(1.25e9, 50e-6),
    "100 Gbit/s": Link(1.25e10, 20e-6),
    "400 Gbit/s": Link(5e10, 10e-6),
}
INSIDE = Link(1e11, 5e-6)  # between the accelerators of a host


def ring(num_bytes: float, workers: int, link: Link) -> float:
    """Seconds of a sum by ring: each worker sends 2 (W - 1) parts of N / W bytes to the next.

    Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009;
    Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH,
    2005, have the cost model: latency + bytes / bandwidth for each message.
    """
    messages = 2 * (workers - 1)
    return messages * (link.latency + num_bytes / workers / link.bandwidth)


def hierarchical(num_bytes: float, hosts: int, per_host: int, inside: Link, between: Link) -> float:
    """Seconds of a sum within each host, and then over the hosts, whose workers share a link.

    Each worker of a host has the sum of its part of the vector, and they send these parts side by
    side: the link carries N bytes as a ring of hosts would, and the messages are as few.
    """
    return ring(num_bytes, per_host, inside) + ring(num_bytes, hosts, between)


def step(
    compute: float,
    num_bytes: float,
    sum_secs: Callable[[float], float],
    *,
    bucket_bytes: float = 0,
    backward: float = BACKWARD,
) -> float:
    """Seconds of a step: compute, the sum of the counts, and what isn't hidden of the gradients'.

    Buckets are ready at equal intervals of the backward pass, and are sent one after the other.

    Args:
        compute: seconds of forward and backward.
        num_bytes: of all gradients.
        sum_secs: seconds of the sum of so many bytes.
        bucket_bytes: 0 sends all in one vector.
        backward: the part of `compute` that is backward.
    """
    number = max(1, math.ceil(num_bytes / bucket_bytes)) if bucket_bytes else 1
    each = sum_secs(num_bytes / number)
    ready, sent = (1 - backward) * compute, 0.0
    for _ in range(number):
        ready += backward * compute / number
        sent = max(ready, sent) + each
    return sum_secs(COUNT_BYTES) + sent


def contention(workers: int, cores: int) -> float:
    """How many times longer everything takes when workers share the cores of one machine."""
    return max(1.0, workers / cores)


def fit(measured: dict[tuple[int, int], float], cores: int) -> Link:
    """Bandwidth and latency with the least squares of relative errors.

    Args:
        measured: seconds, by (workers, bytes).
        cores: of the machine, which all workers share.
    """
    rows = []
    for (workers, num_bytes), secs in measured.items():
        messages = 2 * (workers - 1) * contention(workers, cores)
        rows.append((messages / secs, messages * num_bytes / workers / secs))
    latency, per_byte = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)[0]
    return Link(1 / per_byte, latency)


class Choice(NamedTuple):
    """Seconds of a step with gradients in one vector, and in buckets of the best size."""

    one_vector: float
    buckets: float
    bucket_bytes: float


def choose_buckets(num_bytes: float, workers: int, link: Link) -> Choice:
    """The best of BUCKETS for a ring."""

    def sum_secs(num_bytes: float) -> float:
        return ring(num_bytes, workers, link)

    def secs(bucket: float) -> float:
        return step(COMPUTE, num_bytes, sum_secs, bucket_bytes=bucket)

    best = min(BUCKETS, key=secs)
    return Choice(secs(0), secs(best), best)


def smallest_bucketed(workers: int, link: Link) -> float:
    """The smallest size in bytes from which buckets make a step GAIN times as fast; or infinity."""
    for num_bytes in np.geomspace(1e6, 1e11, 501):
        choice = choose_buckets(num_bytes, workers, link)
        if choice.one_vector >= GAIN * choice.buckets:
            return float(num_bytes)
    return math.inf


class Group:
    """Processes of scaling_worker.py, connected over 127.0.0.1."""

    def __init__(self, workers: int, project: Path) -> None:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(workers)]
            for sock in sockets:
                sock.bind(("127.0.0.1", 0))
            addresses = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]
        self.processes = []
        for index in range(workers):
            environ = {**os.environ, "PYTHONPATH": str(project), "CUDA_VISIBLE_DEVICES": ""}
            task = {"type": "worker", "index": index}
            environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            if workers == 1:
                del environ["TF_CONFIG"]
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, str(HERE / "scaling_worker.py")],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                    env=environ, text=True,
                )
            )  # fmt: skip
        self.numbers: dict[Any, int] = {}
        for process in self.processes:
            assert process.stdout
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("A worker has ended.")

    def seconds(self, kind: str, arguments: list[Any], number: int) -> float:
        """How long the slowest worker takes for so many of a kind."""
        for process in self.processes:
            assert process.stdin
            process.stdin.write(json.dumps([kind, arguments, number]) + "\n")
            process.stdin.flush()
        return max(float(process.stdout.readline()) for process in self.processes)  # type: ignore[union-attr]

    def turn(self, kind: str, arguments: list[Any]) -> float:
        """Seconds of one, from a call of as many as take TURN_SECS."""
        key = (kind, *arguments)
        if key not in self.numbers:
            self.seconds(kind, arguments, 1)  # traces
            one = min(self.seconds(kind, arguments, 2) / 2 for _ in range(2))
            self.numbers[key] = max(1, min(MOST, round(TURN_SECS / one)))
        return self.seconds(kind, arguments, self.numbers[key]) / self.numbers[key]

    def close(self) -> None:
        """End them."""
        for process in self.processes:
            process.kill()
            process.wait()


def measure() -> Iterator[dict[str, Any]]:
    """Seconds of everything in each round so far; the groups take turns."""
    things: list[tuple[str, list[Any]]] = [("sum", [size]) for size in SIZES]
    things += [("agreement", []), ("step", list(STEP))]
    found: dict[str, list[float]] = {}
    loads = []
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        command = [str(Path(sys.executable).with_name("cookiecutter")), str(HERE.parent)]
        command += ["--no-input", "--output-dir", directory, "package_name=bench_project"]
        subprocess.run(command, check=True, capture_output=True)
        project = Path(directory) / "my-experiment"
        groups: dict[int, Group] = {}
        for workers in (1, *FITTED, CHECKED):
            groups[workers] = Group(workers, project)
            stack.callback(groups[workers].close)
        for turn in range(ROUNDS + 1):  # the first isn't counted
            loads.append(os.getloadavg()[0])
            for workers, group in groups.items():
                here = things[len(SIZES) + 1 :] if workers == 1 else things
                if workers == 2:
                    here = [*here, *(("step", list(b)) for b in BUCKETED), ("sum", [LARGE])]
                for kind, arguments in here:
                    secs = group.turn(kind, arguments)
                    if turn:
                        key = key_of(workers, kind, *arguments)
                        found.setdefault(key, []).append(round(secs, 7))
            results = {"cores": os.cpu_count(), "machine": platform.machine()}
            if turn:
                yield results | {"loads": loads, "secs": found}
            print(f"round {turn} of {ROUNDS}; load {loads[-1]:.1f}", flush=True)


def ms(secs: float) -> str:
    """As a cell."""
    return f"{1000 * secs:.3g} ms" if secs < 1 else f"{secs:.3g} s"


def key_of(workers: int, kind: str, *arguments: Any) -> str:
    """The key of a measurement in scaling.json."""
    return " ".join(map(str, [workers, kind, *arguments]))


def describe_fit(results: dict[str, Any]) -> str:
    """Sums and whole steps as they were measured, beside the model that was fitted to the sums."""
    cores, times = results["cores"], {key: median(secs) for key, secs in results["secs"].items()}
    everyone = (*FITTED, CHECKED)
    measured = {(w, size): times[key_of(w, "sum", size)] for w in everyone for size in SIZES}
    link = fit({key: secs for key, secs in measured.items() if key[0] in FITTED}, cores)

    def predicted(workers: int, num_bytes: float) -> float:
        return contention(workers, cores) * ring(num_bytes, workers, link)

    def describe_errors(of: tuple[int, ...]) -> str:
        ratios = [predicted(w, size) / measured[w, size] for w in of for size in SIZES]
        factors = [max(ratio, 1 / ratio) for ratio in ratios]
        return f"a factor of {median(factors):.2f} in the median, {max(factors):.2f} at most"

    large = times[key_of(2, "sum", LARGE)]
    columns = [*(f"{w} workers" for w in FITTED), f"{CHECKED} workers, not fitted"]
    rows = [
        [f"{size:,} B", *(f"{ms(measured[w, size])}, {ms(predicted(w, size))}" for w in everyone)]
        for size in SIZES
    ]
    layers, width, sleep, _ = STEP
    num_bytes = 4 * (layers * width * (width + 1) + (width + 1) * CLASSES)
    alone = times[key_of(1, "step", *STEP)]
    steps = []
    for w in everyone:
        told = alone + predicted(w, COUNT_BYTES) + predicted(w, num_bytes)
        secs = times[key_of(w, "step", *STEP)]
        agreement = times[key_of(w, "agreement")]
        steps.append([f"{w}", ms(secs), ms(told), f"{told / secs:.2f}", ms(agreement)])
    head = ["workers", "a step", "predicted", "predicted / measured", "an agreement"]
    loads = results["loads"]
    parts = [
        "Seconds of a sum: measured, predicted.",
        table(["", *columns], rows),
        f"Fitted to 2, 3 and 4 workers: {link.bandwidth / 1e9:.2f} GB/s and "
        f"{1e6 * link.latency:.0f} µs for each message. There the model is off by "
        f"{describe_errors(FITTED)}; with {CHECKED} workers, by {describe_errors((CHECKED,))}. "
        f"A sum of {LARGE:,} bytes over 2 workers, which wasn't fitted either, takes {ms(large)}; "
        f"the model says {ms(predicted(2, LARGE))}.",
        f"Whole steps of the engine, with {num_bytes / 1e6:.1f} MB of gradients and a backward "
        f"pass that sleeps {1000 * layers * sleep:.0f} ms (with one worker a step takes "
        f"{ms(alone)}), and the agreement of a graph call:",
        table(head, steps),
        f"Medians of {len(loads) - 1} rounds on {cores} cores ({results['machine']}). Other "
        f"processes used them too: when the rounds began, the load was {min(loads):.1f} to "
        f"{max(loads):.1f}, this benchmark's own part included.",
    ]
    return "\n\n".join(p if p.startswith("|") else textwrap.fill(p, 100) for p in parts)


def describe_buckets(results: dict[str, Any]) -> str:
    """Steps of two workers with gradients in one vector and in buckets."""
    rows = []
    for sleep in dict.fromkeys(secs for _, _, secs, _ in BUCKETED):
        of = [arguments for arguments in BUCKETED if arguments[2] == sleep]
        one, *others = (results["secs"][key_of(2, "step", *arguments)] for arguments in of)
        cells = [ms(median(one))]
        for several in others:
            gains = sorted(a / b for a, b in zip(one, several, strict=True))
            spread = f"{gains[0]:.2f} to {gains[-1]:.2f}"
            cells.append(f"{ms(median(several))}, {median(gains):.2f} ({spread})")
        rows.append([f"sleeps {8000 * sleep:.0f} ms" if sleep else "computes", *cells])
    flags = [f"`--bucket-mb {bucket:g}`" for *_, bucket in BUCKETED[1 : len(BUCKETED) // 2]]
    return table(["backward pass", "one vector", *flags], rows)


def for_each_model(cell: Callable[[float, int, Link], str]) -> str:
    """A table with a cell for each network, size of gradients and number of workers."""
    rows = [
        [network, model, *(cell(size, workers, link) for workers in WORKERS)]
        for network, link in NETWORKS.items()
        for model, size in MODELS.items()
    ]
    return table(["network", "gradients", *(f"{workers} workers" for workers in WORKERS)], rows)


def predict_sums(size: float, workers: int, link: Link) -> str:
    """By one ring, by hierarchy."""
    in_hosts = hierarchical(size, workers // PER_HOST, PER_HOST, INSIDE, link)
    return f"{ms(ring(size, workers, link))}, {ms(in_hosts)}"


def predict_efficiency(size: float, workers: int, link: Link) -> str:
    """The part of a step that is compute: with one vector, with buckets if they help."""
    choice = choose_buckets(size, workers, link)
    one = f"{COMPUTE / choice.one_vector:.0%}"
    better = f"{COMPUTE / choice.buckets:.0%}"
    if choice.buckets >= choice.one_vector or better == one:
        return one
    return f"{one}, {better} ({choice.bucket_bytes / 1e6:.0f} MB)"


def predict_thresholds() -> str:
    """From which size on buckets pay."""
    rows = []
    for network, link in NETWORKS.items():
        sizes = [smallest_bucketed(workers, link) for workers in WORKERS]
        rows.append(
            [
                network,
                *("never" if math.isinf(s) else f"{round(s / 1e6, -1):.0f} MB" for s in sizes),
            ]
        )
    return table(["network", *(f"{workers} workers" for workers in WORKERS)], rows)


def main() -> None:
    """Measure, keep, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", action="store_true", help="make the tables of scaling.json")
    if not parser.parse_args().tables:
        for results in measure():
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    results = json.loads(RESULTS.read_text())
    write(PAGE, "measured", describe_fit(results))
    write(PAGE, "buckets", describe_buckets(results))
    write(PAGE, "sums", for_each_model(predict_sums))
    write(PAGE, "efficiency", for_each_model(predict_efficiency))
    write(PAGE, "thresholds", predict_thresholds())


if __name__ == "__main__":
    main()
