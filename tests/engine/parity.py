"""How far N replicas are from one, in every kind of training; `nox -s parity` writes the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from proof.engine.check import relative_difference, silence_random_layers

from . import ROOT
from .toys import BATCH, FEATURES, Toy, Trained, batches, build, differences, plain_data, train
from .worked import CONTRASTIVE, GAN, tokens

layers = keras.layers
STRATEGIES: tuple[int | str, ...] = ("none", "one_device", 2, 3, 4)
STEPS = 20
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}


class Kind(NamedTuple):
    """One row of the table."""

    toy: Toy
    knobs: dict[str, Any] = {}  # noqa: RUF012
    precision: str = "float64"

    @property
    def tolerance(self) -> float:
        """The largest difference that is still rounding."""
        return TOLERANCES[self.precision]


def _adam() -> keras.optimizers.Optimizer:
    return keras.optimizers.Adam(0.01)


def _model(*, normalized: bool = False, dropout: bool = False) -> Callable[[], keras.Model]:
    def model() -> keras.Model:
        x = inputs = keras.Input((FEATURES,))
        l2 = keras.regularizers.L2(0.01)
        x = layers.Dense(4, activation="tanh", kernel_regularizer=l2)(x)
        if normalized:
            x = layers.BatchNormalization()(x)
        if dropout:
            x = layers.Dropout(0.5)(x)
        return keras.Model(inputs, layers.Dense(3, dtype=keras.config.floatx())(x))

    return model


def _toy(rows: int = 2 * BATCH, *, weighted: bool = False, bad: bool = False, **parts: Any) -> Toy:
    data = plain_data(rows)
    if weighted:
        data = (*data, np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.0], rows))
    if bad:
        data[0][7] = np.nan
    defaults: dict[str, Any] = {"model": _model(), "optimizer": _adam, "data": data}
    return Toy(**(defaults | parts))


SHORT, EMPTY = BATCH + 17, BATCH + 1  # rows: in the second batch 17 of 24 examples, or a single one
KINDS = {
    "plain": Kind(_toy()),
    "SGD with momentum": Kind(_toy(optimizer=lambda: keras.optimizers.SGD(0.1, momentum=0.9))),
    "AdamW": Kind(_toy(optimizer=lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1))),
    "clip": Kind(_toy(), {"clip_norm": 0.05}),
    "accumulate 2": Kind(_toy(), {"accumulate": 2}),
    "weights": Kind(_toy(weighted=True)),
    "short batch": Kind(_toy(SHORT)),
    "empty shares": Kind(_toy(EMPTY)),
    "empty shares, weights, clip, accumulate 2": Kind(
        _toy(EMPTY, weighted=True), {"clip_norm": 0.05, "accumulate": 2}
    ),
    "spanning epochs": Kind(_toy(SHORT), {"last_batch": "span"}),
    "constant denominator": Kind(_toy(SHORT), {"constant_denominator": True}),
    "skipped steps": Kind(_toy(bad=True)),
    "skipped steps, normalization": Kind(_toy(bad=True, model=_model(normalized=True))),
    "jit": Kind(_toy(), {"jit": "on"}),
    "jit, skip, clip, accumulate 2, short": Kind(
        _toy(SHORT, bad=True), {"jit": "on", "clip_norm": 0.05, "accumulate": 2}
    ),
    "K = 20": Kind(_toy(), {"steps_per_call": 20}),
    "K = 1": Kind(_toy(), {"steps_per_call": 1}),
    "BatchNormalization": Kind(_toy(model=_model(normalized=True))),
    "dropout, switched off": Kind(_toy(model=_model(dropout=True)), {"silent": True}),
    "embeddings, tokens count": Kind(tokens()),
    "embeddings, tokens count, short": Kind(tokens(SHORT)),
    "GAN": Kind(GAN),
    "GAN, jit": Kind(GAN, {"jit": "on"}),
    "contrastive": Kind(CONTRASTIVE),
    "float32": Kind(_toy(), {}, "float32"),
    "float16": Kind(_toy(), {}, "float16"),
    "bfloat16": Kind(_toy(), {}, "bfloat16"),
}


@contextmanager
def _computing_in(precision: str) -> Iterator[None]:
    reduced = precision in ("float16", "bfloat16")
    keras.config.set_floatx("float64" if precision == "float64" else "float32")
    keras.config.set_dtype_policy(f"mixed_{precision}" if reduced else precision)
    try:
        yield
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")


@cache
def _alone(name: str) -> Any:
    return _observe(name, "none")


def _observe(name: str, strategy: int | str) -> Any:
    """In float64 what 20 steps give; else losses and gradients of the first step."""
    kind = KINDS[name]
    with _computing_in(kind.precision):
        if kind.precision == "float64":
            knobs = dict(kind.knobs)
            prepare = (
                (lambda d: silence_random_layers(d.run.models)) if knobs.pop("silent", 0) else None
            )
            return train(kind.toy, strategy, steps=STEPS, prepare=prepare, **knobs)
        distribution = build(kind.toy, strategy, **kind.knobs)
        (outcome,) = distribution.probe(batches(kind.toy, distribution, 0, 1), distribution.start())
        gradients = [gradient.numpy() for gradient in outcome.gradients["main"]]
        return {"losses": float(outcome.losses["main"]), "gradients": gradients}


def difference(name: str, strategy: int | str) -> float:
    """The largest relative difference to training without a strategy."""
    alone, other = _alone(name), _observe(name, strategy)
    if isinstance(alone, Trained):
        assert int(alone.progress.examples) == int(other.progress.examples)
        assert int(alone.progress.skipped) == int(other.progress.skipped)
        return max(differences(alone, other).values())
    return max(relative_difference(alone[what], other[what]) for what in alone)


HEAD = """\
# N replicas against one

Toys of a few weights, trained with each strategy; each cell is the largest difference to the same
training without a strategy, relative to the norm. In float64: losses, mean losses, weights,
normalization statistics and metrics after 20 steps. In the other precisions: losses and gradients
of a step (float32 weights differ more on right code, because Adam makes a rounding error as large
as a gradient where the true gradient is zero). Same CPU, virtual devices, TensorFlow {tensorflow},
Keras {keras}. `nox -s parity` writes this table anew; `nox -s full` requires it.

| | tolerance | {strategies} |
| --- | --- |{lines}
"""


def main() -> int:
    """Write docs/parity.md; 1 if a difference is too large."""
    names = [f"{s} replicas" if isinstance(s, int) else f"`{s}`" for s in STRATEGIES]
    text = HEAD.format(
        tensorflow=tf.__version__, keras=keras.__version__,
        strategies=" | ".join(names), lines=" --- |" * len(names),
    )  # fmt: skip
    wrong = 0
    for name, kind in KINDS.items():
        cells = []
        for strategy in STRATEGIES:
            found = difference(name, strategy)
            wrong += not found <= kind.tolerance
            cells.append(f"{found:.0e}" if found else "0")
        text += f"| {name} | {kind.tolerance:.0e} | {' | '.join(cells)} |\n"
        print(f"{name}: {', '.join(cells)}", flush=True)
    text += f"\n{len(KINDS) * len(STRATEGIES) - wrong} of {len(KINDS) * len(STRATEGIES)} within.\n"
    (ROOT / "docs" / "parity.md").write_text(text, encoding="utf-8")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
