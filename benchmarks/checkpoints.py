"""What asynchronous checkpoints save, and what they cost: python benchmarks/checkpoints.py

Trains a model of 12 million weights with Adam (140 MB a checkpoint) with and without
`experimental_enable_async_checkpoint`, each in a process of its own. Prints how long the loop waits
for a save, how long 20 steps take with a checkpoint after every fifth, whether the restored values
are the saved ones, and what happens when the disk can't be written.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WEIGHTS, STEPS, EVERY = 3_450, 20, 5


def measure(replicas: int, asynchronous: bool, directory: Path) -> dict[str, object]:
    """Seconds of saves and of the loop, and whether the checkpoints are right."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import numpy as np
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * replicas
    )
    strategy = tf.distribute.get_strategy()
    if replicas > 1:
        devices = [f"CPU:{i}" for i in range(replicas)]
        strategy = tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((WEIGHTS,)), keras.layers.Dense(WEIGHTS)])
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
        step_variable = tf.Variable(0, dtype=tf.int64)
    # A Keras variable can be saved asynchronously only once (Keras 3.15): its tf.Variable instead.
    everything = tf.train.Checkpoint(
        model=[variable.value for variable in model.variables],
        optimizer=[variable.value for variable in optimizer.variables],
        step=step_variable,
    )
    manager = tf.train.CheckpointManager(everything, str(directory), 3)
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=asynchronous)

    @tf.function
    def train_step(inputs: tf.Tensor) -> None:
        def on_replica() -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(inputs)))
            variables = model.trainable_variables
            optimizer.apply(tape.gradient(loss, variables), variables)

        strategy.run(on_replica)
        step_variable.assign_add(1)

    inputs = tf.random.stateless_uniform((32, WEIGHTS), (0, 0))
    train_step(inputs)
    manager.save(checkpoint_number=0, options=options)  # the first one builds graphs and threads
    manager.sync()
    waited, saved = [], {}
    began = time.perf_counter()
    for step in range(1, STEPS + 1):
        train_step(inputs)
        if step % EVERY == 0:
            saved[step] = np.asarray(model.variables[0]).tobytes()
            asked = time.perf_counter()
            manager.save(checkpoint_number=step, options=options)
            waited.append(time.perf_counter() - asked)
    loop = time.perf_counter() - began
    manager.sync()
    whole = time.perf_counter() - began

    def is_right(step: int) -> bool:
        reader = tf.train.load_checkpoint(str(directory / f"ckpt-{step}"))
        found = reader.get_tensor("model/0/.ATTRIBUTES/VARIABLE_VALUE").tobytes()
        at = reader.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE")
        return found == saved[step] and at == step + 1  # one step warmed up

    def failing() -> str:
        (directory / "ckpt-99_temp").write_text("in the way")  # fails like a full disk
        for number in (99, 100):
            try:
                manager.save(checkpoint_number=number, options=options)
            except tf.errors.OpError:
                return "raised by that save" if number == 99 else "raised by the next save"
        try:
            manager.sync()
        except tf.errors.OpError:
            return "raised by sync"
        return "never raised"

    return {
        "waited": sorted(waited)[len(waited) // 2],
        "loop": loop,
        "whole": whole,
        "right": all(is_right(step) for step in (STEPS - EVERY, STEPS)),  # training continued
        "failure": failing(),
    }


def main() -> None:
    """Print a table."""
    print("| replicas | asynchronous | wait | the loop | until written | right | a failure is |")
    print("| ---: | --- | ---: | ---: | ---: | --- | --- |")
    for replicas in (1, 2):
        for asynchronous in (False, True):
            with tempfile.TemporaryDirectory() as directory:
                arguments = [str(replicas), str(int(asynchronous)), directory]
                done = subprocess.run(
                    [sys.executable, __file__, *arguments],
                    capture_output=True,
                    text=True,
                    check=False,
                )
            if done.returncode:
                last = (done.stderr.strip() or "killed").splitlines()[-1]
                print(f"| {replicas} | {asynchronous} | {last[:200]} |")
                continue
            got = json.loads(done.stdout.splitlines()[-1])
            times = " | ".join(f"{got[name]:.2f} s" for name in ("waited", "loop", "whole"))
            print(f"| {replicas} | {asynchronous} | {times} | {got['right']} | {got['failure']} |")


if __name__ == "__main__":
    if sys.argv[1:]:
        replicas, asynchronous, directory = sys.argv[1:]
        print(json.dumps(measure(int(replicas), bool(int(asynchronous)), Path(directory))))
    else:
        main()
