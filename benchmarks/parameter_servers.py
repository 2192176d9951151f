"""What asynchronous updates lose: python benchmarks/parameter_servers.py; half a minute.

Two workers of a `ParameterServerStrategy` make updates of variables that should count all of them.
Workers and server are threads of one process, and then processes; both are connected over
127.0.0.1. Writes a table into docs/scaling.md.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

from pages import DOCS, table, write

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

UPDATES, ROUNDS = 200, 5
WORKERS = 2
SLOW = 0.999  # Adam's first momentum is 1 - SLOW ** n after n updates with a gradient of 1
KINDS = {
    "plain": "`tf.Variable`, `assign_add`",
    "weight": "a weight under Keras' `SGD`, updates in it",
    "momentum": "the first momentum of Keras' `Adam`, updates in it",
    "keras": "`keras.Variable`, `assign_add`",
    "sgd iterations": "`iterations` of `SGD`",
    "adam iterations": "`iterations` of `Adam`",
    "metric": "`keras.metrics.Mean`, values counted",
}


def count(addresses: dict[str, list[str]], rounds: int) -> list[dict[str, float]]:
    """Updates that are found in each kind of variable after UPDATES of them, in each round."""
    import keras
    import numpy as np
    import tensorflow as tf

    spec = tf.train.ClusterSpec(addresses)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        plain, counter = tf.Variable(0.0), keras.Variable(0.0)
        weight, other, trained = (keras.Variable(0.0) for _ in range(3))
        sgd, adam = keras.optimizers.SGD(1.0), keras.optimizers.Adam(1e-3, beta_1=SLOW)
        descent = keras.optimizers.SGD(0.1)
        sgd.build([weight])
        adam.build([other])
        descent.build([trained])
        metric = keras.metrics.Mean()
    watched = {
        "plain": plain, "weight": weight.value, "momentum": adam._momentums[0].value,
        "keras": counter.value, "sgd iterations": sgd.iterations.value,
        "adam iterations": adam.iterations.value, "metric": metric.count.value,
        "trained": trained.value,
    }  # fmt: skip

    @tf.function(autograph=False)
    def update(example: tf.Tensor) -> None:
        def on_replica() -> None:
            plain.assign_add(1.0)
            counter.assign_add(1.0)
            sgd.apply([tf.constant(-1.0)], [weight])
            adam.apply([tf.constant(1.0)], [other])
            metric.update_state(1.0)
            descent.apply([trained.value - example], [trained])

        strategy.run(on_replica)

    examples = np.random.default_rng(0).normal(size=UPDATES).astype("float32")
    found = []
    for _ in range(rounds + 1):
        for variable in watched.values():
            variable.assign(tf.zeros_like(variable))
        for example in examples:
            coordinator.schedule(update, args=(tf.constant(example),))
        coordinator.join()
        values = {kind: float(variable.numpy()) for kind, variable in watched.items()}
        values["momentum"] = float(np.log1p(-values["momentum"]) / np.log(SLOW))
        found.append(values)
    return found[1:]  # the first traces


def serve(addresses: dict[str, list[str]], job: str, index: int) -> Any:
    """A server of TensorFlow in this process; it listens on all interfaces."""
    import tensorflow as tf

    spec = tf.train.ClusterSpec(addresses)
    # On two cores servers of one process wait for each other's threads for ever (TF 2.21).
    threads = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=2 * WORKERS)
    return tf.distribute.Server(
        spec, job_name=job, task_index=index, protocol="grpc", config=threads
    )


def free_addresses() -> dict[str, list[str]]:
    """Ports of 127.0.0.1 for the workers and a parameter server."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(WORKERS + 1)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        found = [f"127.0.0.1:{sock.getsockname()[1]}" for sock in sockets]
    return {"worker": found[:WORKERS], "ps": found[WORKERS:]}


def measure(over_processes: bool) -> list[dict[str, float]]:
    """The rounds of one way to run the servers, counted in a process of its own."""
    addresses = free_addresses()
    tasks = [(job, i) for job in addresses for i in range(len(addresses[job]))]
    command = [sys.executable, __file__, json.dumps(addresses)]
    servers = []
    try:
        if over_processes:
            servers = [subprocess.Popen([*command, job, str(i)]) for job, i in tasks]
        done = subprocess.run(
            [*command, "count", str(int(not over_processes))],
            check=True, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    finally:
        for server in servers:
            server.kill()
            server.wait()
    return list(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure, and write the table into the page."""
    results = {"in one process": measure(False), "over processes": measure(True)}
    rows = []
    for kind, name in KINDS.items():
        cells = []
        for rounds in results.values():
            values = [round(one[kind]) for one in rounds]
            cells.append(f"{statistics.median(values):g} ({min(values)} to {max(values)})")
        rows.append([name, *cells])
    spread = [max(one["trained"] for one in r) - min(one["trained"] for one in r)
              for r in results.values()]  # fmt: skip
    ends = [f"{apart:.2g}" if apart else "none" for apart in spread]
    rows.append([f"a mean trained on {UPDATES} examples, largest difference of two runs", *ends])
    text = table([f"Of {UPDATES} updates there are, over {ROUNDS} rounds", *results], rows)
    write(DOCS / "scaling.md", "parameter servers", text)
    print(text)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[2] == "count":
        addresses = json.loads(sys.argv[1])
        if int(sys.argv[3]):
            servers = [
                serve(addresses, job, i) for job in addresses for i in range(len(addresses[job]))
            ]
        print(json.dumps(count(addresses, ROUNDS)), flush=True)
        os._exit(0)
    else:
        server = serve(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
        time.sleep(3600)
