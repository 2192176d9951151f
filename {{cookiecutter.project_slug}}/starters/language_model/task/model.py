"""The model, how it completes a prompt, and what it attends to."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..engine.batches import first_examples
from .config import TaskConfig
from .data import ANSWER_LENGTH, TOKENS


# TODO(4): what your model takes from the training data (`adapt`), and the model, or a dict of
# models, built from a keras.Input; default: the length of a line, and
# a small causal transformer.
def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    tokens, *_ = first_examples(datasets["train"], 1)
    return {"length": tokens.shape[-1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Tokens int32 (batch, T) -> logits float32 (batch, T, TOKENS) of the next token.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    length = int(adapted["length"])
    tokens = keras.Input((length,), dtype="int32", name="tokens")
    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.
    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)
    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
    x = x + layers.Embedding(length, task.width)(positions)
    for _ in range(task.layers):
        # Padding needs no mask: it comes last, and no token attends to a later one.
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))
        y = layers.LayerNormalization()(x)
        y = layers.Dense(4 * task.width, activation="gelu")(y)
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
    x = layers.LayerNormalization()(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(tokens, logits)


def complete(model: keras.Model, tokens: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """What the model writes after each prompt, always the likeliest token (greedy decoding).

    Args:
        model: tokens (batch, T) -> logits (batch, T, TOKENS).
        tokens: int32 (batch, T); only the prompts are used.
        weights: float (batch, T); the prompt ends at the first weight that isn't 0.

    Returns:
        int32 (batch, T), comparable to targets: the answer in its place, 0 before it.
    """
    columns = tf.range(tokens.shape[1] + 1)  # a line is a token longer than the model's input
    end = tf.argmax(weights != 0, axis=1, output_type=tf.int32)[:, tf.newaxis]  # (batch, 1)
    lines = tf.where(columns <= end, tf.pad(tokens, [[0, 0], [0, 1]]), 0)  # (batch, T + 1)

    def write_one(i: tf.Tensor, lines: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        logits = model(lines[:, :-1], training=False)  # (batch, T, TOKENS)
        here = tf.gather(logits, end + i, axis=1, batch_dims=1)  # (batch, 1, TOKENS)
        token = tf.argmax(here, axis=-1, output_type=tf.int32)  # (batch, 1)
        return i + 1, tf.where(columns == end + i + 1, token, lines)

    _, lines = tf.while_loop(lambda i, _: i < ANSWER_LENGTH, write_one, (tf.constant(0), lines))
    return tf.where(columns > end, lines, 0)[:, 1:]


def attention(model: keras.Model, tokens: np.ndarray) -> np.ndarray | None:
    """Where each token of a line looks before the next one is predicted: float (T, T).

    Args:
        model: tokens (batch, T) -> logits.
        tokens: int32 (1, T).

    Returns:
        The largest weight of all heads in all layers; None for a model without such layers.
    """
    layers = [x for x in model.layers if isinstance(x, keras.layers.MultiHeadAttention)]
    if not layers:
        return None
    scores = []  # of each layer, float (1, heads, T, T)
    for layer in layers:
        query, value = keras.Model(model.input, layer.input)(tokens)
        _, weights = layer(query, value, use_causal_mask=True, return_attention_scores=True)
        scores.append(weights)
    return np.max(scores, axis=(0, 1, 2))
