"""Texts of the starters where several changes are made, by the file of task/ that they stand in."""

from __future__ import annotations

# callbacks.py
CALLBACK_IMPORT = "from ..engine.callbacks import Callback\n"

# data.py of the image classification
LOADED = '    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()\n'
ARRAYS = "    return {\n        split: (images"
END_OF_ARRAYS = "        for split, (images, labels) in splits.items()\n    }\n"
ALL_ARRAYS = (
    ARRAYS + '.astype("float32")[..., np.newaxis], labels.astype("int64"))\n' + END_OF_ARRAYS
)


# data.py of the tabular regression
NUMERIC = "        numeric = data[rows][:, numbers]\n"
PATIENTS_OF_TRAINING = "    inputs, labels = examples(rest[~is_validation])\n"

# losses.py
SPARSE = 'keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")'
CROSS_ENTROPY = f'    return {{"main": {SPARSE}}}\n'
COUNTED = "    return tf.math.count_nonzero(weights, dtype=tf.int32)\n"
COUNT = "    weights = batch[-1]  # (batch,), 0 for padding\n" + COUNTED
AVERAGE = """\
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
"""
REGULARIZED = "    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))\n"

# losses.py of the tabular regression
SQUARED_ERROR = '    squared_error = keras.losses.MeanSquaredError(reduction="none")\n\n'
OF_STANDARDIZED = (
    "        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n"
)


# metrics.py of the image classification
ACCURACY = '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}'

# model.py of the image classification
HIDDEN = '    x = layers.Dense(128, activation="relu")(x)\n'
CLASS_LOGITS = 'logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)'

# model.py of the tabular regression
PREDICTION = (
    "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n"
)

# model.py of the language model
POSITIONS = "    x = x + layers.Embedding(length, task.width)(positions)\n"
ATTENTION = """\
        attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))
"""
TRANSFORMER = (
    """\
    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.
    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)
    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
"""
    + POSITIONS
    + """\
    for _ in range(task.layers):
        # Padding needs no mask: it comes last, and no token attends to a later one.
        y = layers.LayerNormalization()(x)
"""
    + ATTENTION
    + """\
        y = layers.LayerNormalization()(x)
        y = layers.Dense(4 * task.width, activation="gelu")(y)
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
    x = layers.LayerNormalization()(x)
"""
)


# optimizer.py
SCHEDULE = (
    "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n"
)
ADAM = SCHEDULE + "    return keras.optimizers.Adam(schedule)\n"
GRADIENTS = "    return gradients\n"


# steps.py
PER_EXAMPLE = '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n'
UPDATE_ACCURACY = '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n'
UPDATE_MAE = '    run.metrics["mae"].update_state(labels, predictions, weights)\n'
MAIN_LOSS = '    return {"main": compute_loss(per_example, weights, run.model, replica)}\n'
NO_TERMS = "TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, summed over replicas\n"

# steps.py of the segmentation
LOSSES_IMPORT = "import average_over_pixels, compute_loss"

# steps.py of the GAN
GAN_STEPS = "TRAIN_STEPS = (discriminator_step, generator_step)"
