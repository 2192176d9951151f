"""One worker, or one device, that trains all cases: python -m engine.worker_parity FOLDER N.

N is how many logical CPU devices each worker has; results go to FOLDER/<worker>.npz.
"""

from __future__ import annotations

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from proof.engine import cluster
from proof.engine.evaluation import Evaluation
from proof.engine.strategy import create_strategy

from . import toys
from .test_precision import HALF, scaled_by
from .toys import BATCH, CLASSES, FEATURES, Toy, plain_data, train
from .worked import GAN


def normalized() -> keras.Model:
    """A model whose batches are normalized; a bias before that has no gradient but rounding."""
    x = keras.Input((FEATURES,))
    hidden = keras.layers.BatchNormalization()(keras.layers.Dense(4, use_bias=False)(x))
    return keras.Model(x, keras.layers.Dense(CLASSES)(hidden))


def one_nan() -> tuple[np.ndarray, ...]:
    """Ten steps an epoch, of which one has a NaN, in the rows of one replica."""
    inputs, labels = plain_data(10 * BATCH)
    inputs[17, 2] = np.nan
    return inputs, labels


SHORT = plain_data(2 * BATCH + 7)
ADAM = {"optimizer": lambda: keras.optimizers.Adam(0.01)}
CASES = {
    "plain": (Toy(**ADAM), {}),
    "short": (Toy(**ADAM, data=SHORT, others={"validation": plain_data(31)}), {}),
    "span": (Toy(**ADAM, data=SHORT), {"last_batch": "span"}),
    "nan": (Toy(**ADAM, data=one_nan()), {}),
    "stopped": (Toy(**ADAM, data=one_nan()), {"non_finite": "stop"}),
    "accumulate": (Toy(**ADAM, data=SHORT), {"accumulate": 2}),
    "clip": (Toy(), {"clip_norm": 0.1}),
    "normalized": (Toy(normalized, **ADAM), {}),
    "gan": (GAN, {}),
    "float16": (HALF, {"precision": "float16"}),
    "bfloat16": (HALF, {"precision": "bfloat16"}),
}


def main() -> None:
    """Train every case for 20 steps and write all that came out."""
    strategy = create_strategy(virtual_replicas=int(sys.argv[2]))
    toys.strategy_of = lambda replicas: strategy
    found: dict[str, np.ndarray] = {"replicas": np.array(strategy.num_replicas_in_sync)}
    for case, (toy, flags) in CASES.items():
        start = scaled_by(2.0**40) if case == "float16" else lambda progress: progress
        trained = train(toy, start=start, **flags)
        groups = {
            "losses": trained.losses,
            "weights": trained.weights,
            "state": trained.state,
            "slots": trained.slots,
            "progress": [t.numpy() for t in tf.nest.flatten(trained.progress)],
        }
        if "validation" in toy.others:
            evaluation = Evaluation(trained.run, toy.splits, trained.steps.layout)
            groups["validation"] = [*evaluation.evaluate("validation").values()]
        for group, values in groups.items():
            for number, value in enumerate(values):
                found[f"{case}/{group}/{number}"] = np.asarray(value)
    np.savez(Path(sys.argv[1]) / f"{cluster.worker_index()}.npz", **found)


if __name__ == "__main__":
    main()
