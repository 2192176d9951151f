"""How far N replicas are from one, in every kind of training."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any, NamedTuple

import engine  # noqa: F401  # before Keras: it renders `proof` and splits the CPU
import keras
import numpy as np
from engine.toys import BATCH, FEATURES, Toy, Trained, build, differences, plain_data, train
from engine.worked import CONTRASTIVE, GAN, parts, tokens
from proof.engine.check import relative_difference
from tests.replicas import dry_run

from . import Page

layers = keras.layers
STRATEGIES: tuple[int | str, ...] = ("none", "one_device", 2, 3, 4)
STEPS = 20
TOLERANCES = {"float64": 1e-9, "float32": 1e-5, "float16": 5e-3, "bfloat16": 3e-2}


class Kind(NamedTuple):
    """One row of the table."""

    toy: Toy
    flags: dict[str, Any] = {}  # noqa: RUF012

    @property
    def precision(self) -> str:
        """The precision of the computation."""
        return str(self.flags.get("precision", "float64"))

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


PARTLY, ONE_MORE = BATCH + 17, BATCH + 1  # rows: the second batch has 17 examples of 24, or one
KINDS = {
    "plain": Kind(_toy()),
    "SGD with momentum": Kind(_toy(optimizer=lambda: keras.optimizers.SGD(0.1, momentum=0.9))),
    "AdamW": Kind(_toy(optimizer=lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1))),
    "clip": Kind(_toy(), {"clip_norm": 0.05}),
    "accumulate 2": Kind(_toy(), {"accumulate": 2}),
    "weights": Kind(_toy(weighted=True)),
    "short batch": Kind(_toy(PARTLY)),
    "replicas without examples": Kind(_toy(ONE_MORE)),
    "replicas without examples, weights, clip, accumulate 2": Kind(
        _toy(ONE_MORE, weighted=True), {"clip_norm": 0.05, "accumulate": 2}
    ),
    "spanning epochs": Kind(_toy(PARTLY), {"last_batch": "span"}),
    "constant denominator": Kind(_toy(PARTLY), {"denominator": "global_batch"}),
    "skipped steps": Kind(_toy(bad=True)),
    "skipped steps, normalization": Kind(_toy(bad=True, model=_model(normalized=True))),
    "jit": Kind(_toy(), {"jit": "on"}),
    "jit, skip, clip, accumulate 2, short": Kind(
        _toy(PARTLY, bad=True), {"jit": "on", "clip_norm": 0.05, "accumulate": 2}
    ),
    "K = 20": Kind(_toy(), {"steps_per_call": 20}),
    "K = 1": Kind(_toy(), {"steps_per_call": 1}),
    "BatchNormalization": Kind(_toy(model=_model(normalized=True))),
    "dropout, `--randomness global_batch`": Kind(
        _toy(model=_model(dropout=True)), {"randomness": "global_batch"}
    ),
    "dropout, `--randomness global_batch`, jit, accumulate 2": Kind(
        _toy(model=_model(dropout=True)),
        {"randomness": "global_batch", "jit": "on", "accumulate": 2},
    ),
    "embeddings, tokens count": Kind(tokens()),
    "embeddings, tokens count, short": Kind(tokens(PARTLY)),
    "two denominators": Kind(parts()),
    "GAN": Kind(GAN),
    "GAN, jit": Kind(GAN, {"jit": "on"}),
    "contrastive": Kind(CONTRASTIVE),
    "float32": Kind(_toy(), {"precision": "float32"}),
    "float16": Kind(_toy(), {"precision": "float16"}),
    "bfloat16": Kind(_toy(), {"precision": "bfloat16"}),
}


SHORT = ("plain", "jit, skip, clip, accumulate 2, short"), ("none", 2)

HEAD = """\
# N replicas against one

Models of a few weights, trained with each strategy; each cell is the largest difference from the
same training without a strategy, relative to the norm. In float64: losses, sums of losses, weights,
normalization statistics and metrics after 20 steps. In the other precisions: losses and gradients
of a step (float32 weights differ more on right code, because Adam makes a rounding error as large
as a gradient where the true gradient is zero). Same CPU, virtual devices, TensorFlow {tensorflow},
Keras {keras}. `nox -s proofs -- parity` makes this page; every cell must be within its tolerance.

| | tolerance | {strategies} |
| --- | --- |{rules}
"""


def make(short: bool) -> Page:
    """The table; wrong are the cells beyond their tolerance."""
    kinds, strategies = SHORT if short else (tuple(KINDS), STRATEGIES)
    names = [f"{s} replicas" if isinstance(s, int) else f"`{s}`" for s in strategies]
    if short:
        rows = [_row(kind, strategies) for kind in kinds]
    else:  # mostly Python, so on one core each
        with ProcessPoolExecutor(2, get_context("spawn")) as pool:
            rows = list(pool.map(partial(_row, strategies=strategies), kinds))
    lines, wrong = [], []
    for kind, found in zip(kinds, rows, strict=True):
        tolerance = KINDS[kind].tolerance
        cells = [f"{difference:.0e}" if difference else "0" for difference in found]
        for name, difference in zip(names, found, strict=True):
            if not difference <= tolerance:
                wrong.append(f"{kind}, {name}: {difference:.0e}")
        lines.append(f"| {kind} | {tolerance:.0e} | {' | '.join(cells)} |")
    text = HEAD.format(
        tensorflow=version("tensorflow"), keras=version("keras"),
        strategies=" | ".join(names), rules=" --- |" * len(names),
    )  # fmt: skip
    number = len(kinds) * len(strategies)
    return Page(
        f"{text}{chr(10).join(lines)}\n\n{number - len(wrong)} of {number} within.\n", wrong
    )


def _row(kind: str, strategies: tuple[int | str, ...]) -> list[float]:
    """The differences of one kind of training with each strategy."""
    alone = _observe(KINDS[kind], "none")
    row = [_difference(alone, _observe(KINDS[kind], strategy)) for strategy in strategies]
    print(f"{kind}: {', '.join(f'{difference:.0e}' for difference in row)}", flush=True)
    return row


def _observe(kind: Kind, strategy: int | str) -> Any:
    """In float64 what 20 steps give; else losses and gradients of the first step."""
    if kind.precision == "float64":
        return train(kind.toy, strategy, steps=STEPS, **kind.flags)
    built = build(kind.toy, strategy, **kind.flags)
    (reduced,) = dry_run(built.steps, built.iterator(0, 1), built.steps.start())
    gradients = [gradient.numpy() for gradient in reduced.gradients["main"]]
    return {"losses": float(reduced.losses["main"]), "gradients": gradients}


def _difference(alone: Any, other: Any) -> float:
    """The largest relative difference to training without a strategy."""
    if isinstance(alone, Trained):
        a, b = alone.progress, other.progress
        counted = np.array_equal(a.sums.counts, b.sums.counts)
        if not counted or int(a.skips.total) != int(b.skips.total):
            return np.inf  # other examples counted, or other steps skipped
        return max(differences(alone, other).values())
    return max(relative_difference(alone[what], other[what]) for what in alone)
