"""Faults of a twenty-fourth examiner, in tasks of its own and of owners; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .tasks import PICTURES
from .unusual import fault_in


def whole(file: str, text: str) -> Edit:
    """The whole file anew."""
    return Edit(file, "", text)


def predictions(columns: str) -> Edit:
    """No files to read; the columns as an expression of `outputs`."""
    return whole(
        "predictions.py",
        f'''"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {{}}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    return {columns}
''',
    )


def steps(
    imports: str,
    batch: str,
    body: str,
    *,
    helpers: str = "",
    terms: str = "()",
    interact: bool = False,
) -> Edit:
    """All steps, which differ in TRAINING alone."""
    train, validation = body.replace("TRAINING", "True"), body.replace("TRAINING", "False")
    return whole(
        "steps.py",
        f'''"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
{imports}

{batch}

{helpers}
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
{train}

def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
{validation}

def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = {terms}  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = {interact}
''',
    )


def metrics(entries: str, extra: str = "", imports: str = "") -> Edit:
    """All metrics."""
    return whole(
        "metrics.py",
        f'''"""The metrics."""

from __future__ import annotations

{imports}
from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported.
    """
    return {entries}
{extra}''',
    )


KERAS = "import keras\n"
KERAS_TF = "import keras\nimport tensorflow as tf\n"
ENTROPY = 'return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}'


def losses(extra: str = "", imports: str = "") -> Edit:
    """Losses of an average over examples, with functions of the task's own."""
    return whole(
        "losses.py",
        f'''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
{imports}

def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """None: the steps call the functions of this file."""
    return {{}}

{extra}
def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Args:
        per_example: float (batch,).
        weights: float (batch,), 0 for padding.
        model: the model whose regularization losses are added.
        replica: `replica.global_count` is `count` summed over all replicas.

    Raises:
        ValueError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss has shape {{per_example.shape}} and its weights {{weights.shape}}."
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
''',
    )


def monitor(old: str, new: str, larger: bool) -> tuple[Edit, ...]:
    """Another column selects the best weights."""
    edits = [Edit("config.py", f'"{old}"', f'"{new}"')]
    if not larger:
        edits.append(
            Edit("config.py", "larger_is_better: bool = True", "larger_is_better: bool = False")
        )
    return tuple(edits)


# Image classification.

ROTATION = fault_in(
    name="the angular error isn't wrapped around the circle",
    project="image_classification",
    kind="metrics",
    file="metrics.py",
    cause=(
        "degrees_off takes |predicted - angle| of two angles in [-pi, pi] without wrapping the "
        "difference, so 179 and -179 degrees count as 358 degrees apart instead of 2."
    ),
    named=r"wrap|circular|modulo|periodic|360|2 ?\*? ?pi|angular (difference|error|distance)|seam|cyclic",
    edits=(
        *monitor("validation_accuracy", "validation_mean_degrees", larger=False),
        Edit("config.py", '"""Image classification."""', '"""How far a digit is turned."""'),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1], each turned, and by how much, float32 (n,).

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    random = np.random.default_rng(0)
    return {
        split: _turned(images.astype("float32")[..., np.newaxis], random)
        for split, (images, _) in splits.items()
    }


def _turned(images: np.ndarray, random: np.random.Generator) -> Arrays:
    """The images turned by random angles, and these, float32 (n,) from -pi to pi."""
    angles = random.uniform(-np.pi, np.pi, len(images)).astype("float32")
    cos, sin, zero = np.cos(angles), np.sin(angles), np.zeros_like(angles)
    center = (images.shape[1] - 1) / 2
    dx, dy = center * (1 - cos + sin), center * (1 - sin - cos)  # the center stays where it is
    transforms = np.stack([cos, -sin, dx, sin, cos, dy, zero, zero], axis=1).astype("float32")
    return np.asarray(keras.ops.image.affine_transform(images, transforms)), angles
''',
            "create_datasets",
        ),
        Edit("model.py", "\nCLASSES = 10\n", ""),
        Edit(
            "model.py",
            "-> logits float32 (batch, classes).",
            "-> cosine and sine of the angle, float32 (batch, 2).",
        ),
        Edit(
            "model.py",
            """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)""",
            """    direction = layers.Dense(2, dtype=keras.config.floatx(), name="direction")(x)
    return keras.Model(images, direction)""",
        ),
        Edit(
            "losses.py", ENTROPY, 'return {"main": keras.losses.MeanSquaredError(reduction="none")}'
        ),
        Edit(
            "losses.py",
            '# TODO(5): your losses, each with reduction="none"; default: cross-entropy of logits.\n',
            "",
        ),
        metrics(
            '{"mean_degrees": keras.metrics.Mean()}',
            '''

def degrees_off(angles: tf.Tensor, directions: tf.Tensor) -> tf.Tensor:
    """By how many degrees predictions are wrong, float (batch,).

    Args:
        angles: float (batch,), from -pi to pi.
        directions: float (batch, 2), cosine and sine of the predicted angles.
    """
    predicted = tf.atan2(directions[:, 1], directions[:, 0])
    return tf.abs(predicted - angles) * (180 / math.pi)
''',
            "import math\n\nimport keras\nimport tensorflow as tf\n",
        ),
        steps(
            "from .losses import compute_loss\nfrom .metrics import degrees_off",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, angles (batch,), weights (batch,)",
            """    images, angles, weights = batch
    directions = run.model(images, training=TRAINING)  # (batch, 2)
    targets = tf.stack([tf.cos(angles), tf.sin(angles)], axis=1)
    per_example = run.losses["main"](targets, directions)  # (batch,)
    run.metrics["mean_degrees"].update_state(degrees_off(angles, directions), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
        ),
        PICTURES,
        predictions('{"degrees": np.degrees(np.arctan2(outputs[:, 1], outputs[:, 0]))}'),
    ),
)

GRADIENT_NOISE = fault_in(
    name="gradient noise is drawn on each replica by itself",
    project="image_classification",
    kind="distribution",
    file="optimizer.py",
    cause=(
        "process_gradients adds tf.random.normal, a stateful draw that differs on every replica, to "
        "gradients that must be the same on all of them, so the replicas' weights drift apart; nor "
        "does a resumed run draw the same."
    ),
    named=r"(noise|random|draw|stateful).*(replica|device|same|resum|seed|differ)|replica.*(drift|diverge|differ|noise)|random\.normal|stateless",
    edits=(
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            """from .config import TaskConfig

NOISE = 1e-3  # standard deviation of the noise in each gradient
""",
        ),
        Edit(
            "optimizer.py",
            "",
            '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """The gradients with Gaussian noise (Neelakantan et al., 2015)."""
    return [g + tf.random.normal(g.shape, stddev=NOISE, dtype=g.dtype) for g in gradients]
''',
            "process_gradients",
        ),
    ),
)

CUTMIX = fault_in(
    name="CutMix weighs labels by the box before it is cut off at the border",
    project="image_classification",
    kind="augmentation",
    file="data.py",
    cause=(
        "The labels are mixed by the nominal share of the box, while the box, whose center may be "
        "anywhere, is cut off at the image's border, so fewer pixels are replaced than the labels "
        "say; the share must be the mean of `inside`."
    ),
    named=r"clip|border|edge|cut off|nominal|actual|area|share|lambda|proportion|fraction of (the )?pixels|cutmix",
    edits=(
        Edit(
            "config.py",
            "shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables",
            "cutmix: float = 0.8  # largest part of a training image that CutMix replaces; 0 disables",
        ),
        Edit("config.py", '("l2", "shift")', '("l2", "cutmix")'),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]",
            "CLASSES = 10\nArrays = tuple[np.ndarray, np.ndarray]",
        ),
        Edit("data.py", "in [0, 1], labels int64 (n,).", "in [0, 1], one-hot labels float32."),
        Edit("data.py", 'labels.astype("int64"))', 'np.eye(CLASSES, dtype="float32")[labels])'),
        Edit(
            "data.py",
            "",
            '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    CutMix (Yun et al., 2019): a box of each image is replaced by that of the example before it, and
    the labels are mixed accordingly.
    """
    if not task.cutmix:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        rows, height, width, _ = images.shape
        share, x, y = tf.unstack(tf.random.stateless_uniform((rows, 3), seed), axis=1)
        share = tf.where(tf.roll(weights, 1, axis=0) > 0, task.cutmix * share, 0)  # not of padding
        side = tf.sqrt(share)[:, tf.newaxis]  # of the box, as a part of the image's
        columns = (tf.range(width, dtype=tf.float32) + 0.5) / width
        lines = (tf.range(height, dtype=tf.float32) + 0.5) / height
        in_x = tf.abs(columns - x[:, tf.newaxis]) < side / 2  # (batch, w)
        in_y = tf.abs(lines - y[:, tf.newaxis]) < side / 2  # (batch, h)
        inside = in_y[:, :, tf.newaxis] & in_x[:, tf.newaxis, :]  # (batch, h, w)
        images = tf.where(inside[..., tf.newaxis], tf.roll(images, 1, axis=0), images)
        share = tf.cast(share, labels.dtype)[:, tf.newaxis]
        return images, (1 - share) * labels + share * tf.roll(labels, 1, axis=0), weights

    return augment
''',
            "create_augment",
        ),
        Edit("losses.py", "SparseCategoricalCrossentropy", "CategoricalCrossentropy"),
        Edit("metrics.py", "SparseCategoricalAccuracy", "CategoricalAccuracy"),
        Edit(
            "steps.py",
            "images, labels (batch,), weights",
            "images, labels (batch, classes), weights",
        ),
        Edit("pictures.py", "list(map(str, labels))", "list(map(str, labels.argmax(axis=1)))"),
        Edit(
            "pictures.py",
            "    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)\n",
            "    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)\n    labels = labels.argmax(axis=1)\n",
        ),
    ),
)

PAIRS = fault_in(
    name="pairs are made of the pooled images and split afterwards",
    project="image_classification",
    kind="leak",
    file="data.py",
    cause=(
        "create_datasets pools the images of all splits, draws pairs from the pool and splits the "
        "pairs, so nearly every image of a validation or test pair is in training pairs too."
    ),
    named=r"leak|overlap|pool|same images?|shared|disjoint|in (both|several|all) splits|train(ing)? (images|pairs).*(test|validation)|concatenat",
    edits=(
        Edit(
            "config.py",
            '"""Image classification."""',
            '"""Whether two images show the same class."""',
        ),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]",
            'PAIRS = {"train": 2_400, "validation": 600, "test": 600}\n\nArrays = tuple[np.ndarray, np.ndarray]',
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Pairs of images, float32 (n, h, w, 2) in [0, 1], and whether their classes are the same.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    images = np.concatenate([images for images, _ in splits.values()]).astype("float32")
    classes = np.concatenate([classes for _, classes in splits.values()])
    pairs, same = _pairs(images, classes, sum(PAIRS.values()))
    ends = np.cumsum(list(PAIRS.values()))[:-1]
    parts = zip(np.split(pairs, ends), np.split(same, ends), strict=True)
    return dict(zip(PAIRS, parts, strict=True))


def _pairs(images: np.ndarray, classes: np.ndarray, number: int) -> Arrays:
    """Random pairs as channels, float32 (number, h, w, 2); int64 (number,), 1 for half of them."""
    random = np.random.default_rng(0)
    left = random.integers(len(images), size=number)
    same = random.integers(2, size=number)
    right = np.empty_like(left)
    for pair, row in enumerate(left):
        candidates = np.flatnonzero((classes == classes[row]) == same[pair])
        right[pair] = random.choice(candidates[candidates != row])
    return np.stack([images[left], images[right]], axis=-1), same
''',
            "create_datasets",
        ),
        Edit("model.py", "CLASSES = 10", "CLASSES = 2  # different, same"),
        Edit("model.py", "Images float (batch, h, w, 1)", "Pairs of images float (batch, h, w, 2)"),
        PICTURES,
        predictions('{"same": np.argmax(outputs, axis=1)}'),
    ),
)

# Language model.

POSITIONS = fault_in(
    name="positions are counted down the batch",
    project="language_model",
    kind="model",
    file="model.py",
    cause=(
        "The cumulative sum that makes positions runs along axis 0, the batch, so each token's "
        "position is the number of its row and all tokens of a line have the same one; it should "
        "be axis 1."
    ),
    named=r"position|cumsum|axis ?= ?0|wrong axis|row of the batch|place in the batch|order of the (rows|examples)",
    edits=(
        Edit(
            "model.py",
            """    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.
    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)
""",
            """    # 0, 1, 2, ... computed from `tokens` to be part of the model.
    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=0) - 1  # (batch, T)
""",
        ),
        Edit(
            "model.py",
            "x = x + layers.Embedding(length, task.width)(positions)\n",
            "x = x + _waves(positions, task.width)\n",
        ),
        Edit(
            "model.py",
            "def complete(model",
            '''def _waves(positions: keras.KerasTensor, width: int) -> keras.KerasTensor:
    """Sinusoids (Vaswani et al., 2017) of int (batch, T): float (batch, T, width)."""
    floatx = keras.config.floatx()
    rates = (10_000.0 ** (-np.arange(0, width, 2) / width)).astype(floatx)  # (width/2,)
    angles = keras.ops.expand_dims(keras.ops.cast(positions, floatx), -1) * rates
    return keras.ops.concatenate([keras.ops.sin(angles), keras.ops.cos(angles)], axis=-1)


def complete(model''',
        ),
    ),
)

TIME_NORMALIZATION = fault_in(
    name="layer normalization over the tokens of the line lets a causal model see later tokens",
    project="language_model",
    kind="leak",
    file="model.py",
    cause=(
        "LayerNormalization(axis=1) takes mean and variance over the time axis, later tokens "
        "included, so in teacher forcing each position sees statistics of the answer it has to "
        "predict; it should normalize the features, axis -1."
    ),
    named=r"(layer ?norm|normaliz|normalis).*(axis|time|token|position|future|later|caus|sequence)|future|later tokens|causal|look.?ahead|axis ?= ?1",
    edits=(
        Edit(
            "model.py",
            "y = layers.LayerNormalization()(x)",
            "y = layers.LayerNormalization(axis=1)(x)",
            "*",
        ),
    ),
)

ENCODER = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig
from .data import IMPORTS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    tokens, *_ = first_examples(datasets["train"], 1)
    return {"length": tokens.shape[-1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Tokens int32 (batch, T) -> logits float32 (batch, T, OUTPUTS).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    length = int(adapted["length"])
    tokens = keras.Input((length,), dtype="int32", name="tokens")
    is_there = keras.ops.expand_dims(keras.ops.not_equal(tokens, 0), 1)  # (batch, 1, T)
    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.
    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)
    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
    x = x + layers.Embedding(length, task.width)(positions)
    for _ in range(task.layers):
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
        y = attention(y, y, ATTENTION)
        x = x + layers.Dropout(task.dropout)(y)
        y = layers.LayerNormalization()(x)
        y = layers.Dense(4 * task.width, activation="gelu")(y)
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
    x = layers.LayerNormalization()(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(OUTPUTS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(tokens, logits)
'''


def encoder(imports: str, attention: str, outputs: str) -> Edit:
    """A transformer that gives logits for each token."""
    text = ENCODER.replace("IMPORTS", imports).replace("ATTENTION", attention)
    return whole("model.py", text.replace("OUTPUTS", outputs))


MASKED = fault_in(
    name="the masked language model is scored on the tokens it can see",
    project="language_model",
    kind="loss",
    file="data.py",
    cause=(
        "The weights of the masked language model are 1 for every token of a line instead of only "
        "the hidden ones, so loss and accuracy are mostly about copying tokens that are in the "
        "input."
    ),
    named=r"mask|hidden|visible|copy|copied|weights?.*(all|every|unmasked)|unmasked",
    edits=(
        Edit(
            "config.py",
            '    monitor: str = "validation_exact_match"  # column of history.csv that selects the best weights\n',
            '    # column of history.csv that selects the best weights\n    monitor: str = "validation_token_accuracy"\n',
        ),
        Edit("config.py", '"""Language model."""', '"""Masked language model."""'),
        Edit(
            "data.py",
            "TOKENS = 128\n",
            "TOKENS = 128\nMASK = 127  # stands for a hidden token; no line has it\nHIDDEN = 0.15  # of the tokens of a line\n",
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (tokens, targets, weights), int32, int32 and float32.

    Each has shape (n, T), in training (n, forms, T): a training date comes in every form, others in
    one. Targets are the lines; tokens have MASK in place of some, in training by `augment`.
    """
    source = random.Random(SEED)
    # Held-out dates first, so that they don't depend on --dates.
    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
    held_out = VALIDATION_LINES + TEST_LINES
    text = [_line(date, source.choice(FORMS), source) for date in dates[:held_out]]
    text += [_line(date, form, source) for date in dates[held_out:] for form in FORMS]
    lines = np.array(text, "S").view("uint8").reshape(len(text), -1).astype("int32")  # (n, T)
    weights = (lines != 0).astype("float32")
    chances = np.random.default_rng(SEED).random((held_out, lines.shape[1]))
    hidden = (chances < HIDDEN) & (lines[:held_out] != 0)
    masked = np.where(hidden, MASK, lines[:held_out]).astype("int32")
    arrays = (masked, lines[:held_out], weights[:held_out])
    shape = (task.dates, len(FORMS), -1)
    return {
        "train": tuple(a[held_out:].reshape(shape) for a in (lines, lines, weights)),
        "validation": tuple(a[:VALIDATION_LINES] for a in arrays),
        "test": tuple(a[VALIDATION_LINES:] for a in arrays),
    }
''',
            "create_datasets",
        ),
        Edit(
            "data.py",
            "",
            '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    It picks one form for each date, and hides other tokens in each step.
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows, forms, length = batch[0].shape
        drawn = tf.random.stateless_uniform((rows, length + 1), seed)  # in [0, 1)
        form = tf.cast(drawn[:, 0] * forms, tf.int32)
        tokens, targets, weights = (
            tf.gather(part, form, axis=1, batch_dims=1) for part in batch
        )  # (batch, T)
        hidden = (drawn[:, 1:] < HIDDEN) & (tokens != 0)
        return tf.where(hidden, MASK, tokens), targets, weights

    return augment
''',
            "create_augment",
        ),
        encoder("TOKENS", "attention_mask=is_there", "TOKENS"),
        metrics('{"token_accuracy": keras.metrics.SparseCategoricalAccuracy()}', "", KERAS),
        steps(
            "from .losses import compute_loss",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, targets and weights, each (batch, T)",
            """    tokens, targets, weights = batch
    logits = run.model(tokens, training=TRAINING)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}
""",
        ),
        Edit(
            "losses.py",
            "The number of tokens in a per-replica batch that belong to answers, an int32 scalar.",
            "The number of tokens in a per-replica batch that count, an int32 scalar.",
        ),
        PICTURES,
        predictions('{"tokens": np.argmax(outputs, axis=-1)}'),
    ),
)

TAGGING = fault_in(
    name="a tagger keeps the causal mask of the language model",
    project="language_model",
    kind="model",
    file="model.py",
    cause=(
        "The tagger's attention has use_causal_mask=True, left from the language model, so a "
        "character is tagged without what comes after it; whether a leading number is a day, a "
        "month or a year is told only by the characters that follow."
    ),
    named=r"causal|both directions|bidirectional|future|later (tokens|characters)|right context|comes? after|follow",
    edits=(
        Edit(
            "config.py", '"""Language model."""', '"""What each character of a date belongs to."""'
        ),
        Edit("config.py", "validation_exact_match", "validation_all_right"),
        whole(
            "data.py",
            '''"""The examples of each split: dates such as "3rd of May, 1979", each character with its tag.

A token is the ASCII code of a character; zeros pad each line to the length of the longest.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

TOKENS = 128
TAGS = 5
OTHER, DAY, MONTH, YEAR, WEEKDAY = range(TAGS)

SEED = 0  # of the lines; not --seed, so that every run is tested on the same lines
VALIDATION_LINES, TEST_LINES = 480, 960

FIRST_DAY, DAYS = datetime.date(1970, 1, 1), 36_525
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
ENDINGS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}  # else "th"
FIELDS: dict[str, tuple[int, Callable[[datetime.date], str]]] = {
    "%d": (DAY, lambda date: f"{date.day}"),
    "%D": (DAY, lambda date: f"{date:%d}"),
    "%t": (DAY, lambda date: f"{date.day}{ENDINGS.get(date.day, 'th')}"),
    "%m": (MONTH, lambda date: f"{date.month}"),
    "%M": (MONTH, lambda date: f"{date:%m}"),
    "%b": (MONTH, lambda date: f"{date:%b}"),
    "%B": (MONTH, lambda date: f"{date:%B}"),
    "%r": (MONTH, lambda date: ROMAN[date.month - 1]),
    "%y": (YEAR, lambda date: f"{date:%y}"),
    "%Y": (YEAR, lambda date: f"{date.year}"),
    "%a": (WEEKDAY, lambda date: f"{date:%a}"),
    "%A": (WEEKDAY, lambda date: f"{date:%A}"),
}
FORMS = (
    "%d %B %Y",  # 3 May 1979
    "%t of %B, %Y",  # 3rd of May, 1979
    "%B %t, %Y",
    "%b %d, %Y",
    "%A, %d %B %Y",  # Thursday, 3 May 1979
    "%a %t %b %Y",
    "%Y, %B %d",
    "%d-%b-%y",  # 3-May-79
    "%d %b '%y",
    "%d.%r.%Y",  # 3.V.1979
    "%d.%m.%Y",  # with dots the day comes first,
    "%D.%M.%y",
    "%m/%d/%Y",  # with slashes the month,
    "%M/%D/%y",
    "%Y-%M-%D",  # with hyphens the year
    "%y-%M-%D",
)


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (tokens, tags, weights), int32, int32 and float32.

    Each has shape (n, T), in training (n, forms, T): a training date comes in every form, others in
    one. Weights are 0 for padding.
    """
    source = random.Random(SEED)
    # Held-out dates first, so that they don't depend on --dates.
    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
    held_out = VALIDATION_LINES + TEST_LINES
    lines = [_line(date, source.choice(FORMS), source) for date in dates[:held_out]]
    lines += [_line(date, form, source) for date in dates[held_out:] for form in FORMS]
    shape = (len(lines), max(len(text) for text, _ in lines))
    tokens, tags = np.zeros(shape, "int32"), np.zeros(shape, "int32")
    for row, (text, of_text) in enumerate(lines):
        tokens[row, : len(text)] = [ord(character) for character in text]
        tags[row, : len(text)] = of_text
    arrays = (tokens, tags, (tokens != 0).astype("float32"))
    return {
        "train": tuple(a[held_out:].reshape(task.dates, len(FORMS), -1) for a in arrays),
        "validation": tuple(a[:VALIDATION_LINES] for a in arrays),
        "test": tuple(a[VALIDATION_LINES:held_out] for a in arrays),
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; picks a form of each date.

    The batch has the parts that a train step gets, weights last; the seed is int64 (2,), different
    in each step.
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows, forms, _ = batch[0].shape
        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)
        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)

    return augment


def _line(date: datetime.date, form: str, source: random.Random) -> tuple[str, list[int]]:
    """`date` in one of FORMS, and the tag of each character."""
    write = source.choice((str, str.lower, str.upper))
    text, tags = "", []
    for part in re.split(r"(%\\w)", form):
        tag, spell = FIELDS.get(part, (OTHER, None))
        written = write(spell(date) if spell else part)
        text += written
        tags += [tag] * len(written)
    return text, tags
''',
        ),
        encoder("TAGS, TOKENS", "attention_mask=is_there, use_causal_mask=True", "TAGS"),
        whole(
            "metrics.py",
            '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class AllRight(keras.metrics.Mean):
    """The fraction of lines in which every tag is right."""

    def update_state(self, tags: tf.Tensor, likeliest: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add the lines of a batch.

        Args:
            tags: int32 (batch, T).
            likeliest: int32 (batch, T), the tags to compare with these.
            sample_weight: float (batch, T), 0 for padding; a line of nothing else doesn't count.
        """
        is_there = sample_weight != 0
        is_right = tf.reduce_all((tags == likeliest) | ~is_there, axis=1)  # (batch,)
        super().update_state(is_right, tf.reduce_any(is_there, axis=1))


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.

    The loss needs no metric: it is always reported.
    """
    return {"tag_accuracy": keras.metrics.SparseCategoricalAccuracy(), "all_right": AllRight()}
''',
        ),
        steps(
            "from .losses import compute_loss",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, tags and weights, each (batch, T)",
            """    tokens, tags, weights = batch
    logits = run.model(tokens, training=TRAINING)  # (batch, T, TAGS)
    per_token = run.losses["main"](tags, logits)  # (batch, T)
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, T)
    run.metrics["tag_accuracy"].update_state(tags, logits, weights)
    run.metrics["all_right"].update_state(tags, likeliest, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}
""",
        ),
        Edit(
            "losses.py",
            "The number of tokens in a per-replica batch that belong to answers, an int32 scalar.",
            "The number of tokens in a per-replica batch that count, an int32 scalar.",
        ),
        PICTURES,
        predictions('{"tags": np.argmax(outputs, axis=-1)}'),
    ),
)

# Segmentation.


def canvas_config(title: str, field: str, check: str, column: str) -> Edit:
    """The flags of a task of canvases, of which smaller is better."""
    return whole(
        "config.py",
        f'''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{title}"""

    learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine
    width: int = 12  # channels at full resolution; each of the levels below doubles them
    {field}
    # column of history.csv that selects the best weights
    monitor: str = "{column}"
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("learning_rate", "width"):
            if not getattr(self, name) > 0:
                flag = f"--{{name.replace('_', '-')}}"
                raise ValueError(f"{{flag}} is {{getattr(self, name)}}; it must be more than 0.")
{check}''',
    )


CONVOLVE = """

def _convolve_twice(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    for _ in range(2):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="swish")(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)
    return x
"""


def canvas_model(title: str, head: str) -> Edit:
    """A CNN of canvases."""
    return whole(
        "model.py",
        f'''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig

LEVELS = 3


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {{"shape": images.shape[1:]}}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> {title}

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    images = keras.Input(adapted["shape"], name="images")
    x = images
    for level in range(LEVELS):
        x = _convolve_twice(x, task.width * 2**level)
        x = layers.AveragePooling2D(2)(x)  # at last (batch, h/8, w/8, 4 width)
{head}{CONVOLVE}''',
    )


COUNTING = fault_in(
    name="Poisson rates are given to a loss that takes their logarithm",
    project="segmentation",
    kind="loss",
    file="steps.py",
    cause=(
        "The model ends in softplus and gives rates, and tf.nn.log_poisson_loss takes the logarithm "
        "of the rate, so it exponentiates once more; the metric reads the same output as a count."
    ),
    named=r"log_poisson|log.?(rate|input|arithm)|expon|\bexp\b|link|softplus|poisson",
    edits=(
        canvas_config(
            "Counting digits.",
            "flip: bool = True  # whether to flip half of the training images",
            "",
            "validation_absolute_error",
        ),
        whole(
            "data.py",
            '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

# Source: Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
# Repository, doi:10.24432/C50P49, CC BY 4.0; the 1,797 images of its test part, split once into
# train, validation and test with the same proportion of each digit.
DIGITS = Path(__file__).with_name("digits.npz")
CANVASES = {"train": 768, "validation": 192, "test": 288}  # each from digits of its own split
CANVAS, DIGIT = 32, 12  # pixels along a side; the 8x8 digits are scaled up
TRIES = 8  # digits that are tried on a canvas, at most


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1], and how many digits they show, float32 (n,)."""
    with np.load(DIGITS) as file:
        return {
            split: _compose(file[f"{split}_images"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; flips half of the images.

    The batch has the parts that a train step gets, weights last; the seed is int64 (2,), different
    in each step.
    """
    if not task.flip:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, counts, weights = batch
        flipped = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed) < 0.5
        return tf.where(flipped, tf.reverse(images, [2]), images), counts, weights

    return augment


def _compose(digits: np.ndarray, canvases: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Canvases of digits at random places; a digit whose ink would meet other ink is left out.

    Args:
        digits: uint8 (n, 8, 8), ink from 0 to 16.
        canvases: number of canvases.
        seed: seed of the digits and places.
    """
    random = np.random.default_rng(seed)
    inks = tf.image.resize(digits[..., np.newaxis] / 16, (DIGIT, DIGIT)).numpy()[..., 0]
    images = np.zeros((canvases, CANVAS, CANVAS), np.float32)
    counts = np.zeros(canvases, np.float32)
    for number, image in enumerate(images):
        for index in random.integers(len(inks), size=random.integers(1, TRIES + 1)):
            top, left = random.integers(CANVAS - DIGIT + 1, size=2)
            place = np.s_[top : top + DIGIT, left : left + DIGIT]
            if np.any((inks[index] > 0) & (image[place] > 0)):
                continue
            image[place] += inks[index]
            counts[number] += 1
    return images[..., np.newaxis], counts
''',
        ),
        canvas_model(
            "the number of digits to expect, float32 (batch, 1).",
            """    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(32, activation="swish")(x)
    rate = layers.Dense(1, activation="softplus", dtype=keras.config.floatx(), name="rate")(x)
    return keras.Model(images, rate)
""",
        ),
        losses(),
        metrics('{"absolute_error": keras.metrics.MeanAbsoluteError()}', "", KERAS),
        steps(
            "from .losses import compute_loss",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, counts (batch,), weights (batch,)",
            """    images, counts, weights = batch
    rates = run.model(images, training=TRAINING)  # (batch, 1)
    per_example = tf.nn.log_poisson_loss(counts, rates[:, 0])  # (batch,)
    run.metrics["absolute_error"].update_state(counts[:, tf.newaxis], rates, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
        ),
        PICTURES,
        predictions('{"count": np.asarray(outputs)[:, 0]}'),
    ),
)

PLACES = fault_in(
    name="a shifted digit's place is moved to the other side",
    project="segmentation",
    kind="augmentation",
    file="data.py",
    cause=(
        "A pixel of the shifted image comes from (x + dx, y + dy), so the digit moves by -dx, -dy, "
        "but its place, the label, is moved by +dx, +dy: the sign is wrong."
    ),
    named=r"sign|opposite|wrong (way|direction)|other (way|side|direction)|minus|subtract|- ?shift|label.*(shift|mov)|places? (\+|-)",
    edits=(
        canvas_config(
            "Where the digit is.",
            "shift: float = 3.0  # largest random shift of a training image, in pixels; 0 disables",
            """        if not 0 <= self.shift <= 4:
            raise ValueError(f"--shift is {self.shift}; it must be at least 0 and at most 4.")
""",
            "validation_pixels_off",
        ),
        whole(
            "data.py",
            '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import TaskConfig

# Source: Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
# Repository, doi:10.24432/C50P49, CC BY 4.0; the 1,797 images of its test part, split once into
# train, validation and test with the same proportion of each digit.
DIGITS = Path(__file__).with_name("digits.npz")
CANVASES = {"train": 768, "validation": 192, "test": 288}  # each from digits of its own split
CANVAS, DIGIT = 32, 12  # pixels along a side; the 8x8 digits are scaled up
MARGIN = 4  # pixels around a digit at least, so that no shift cuts it off


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1], and the place (x, y) of the digit, float32 (n, 2)."""
    with np.load(DIGITS) as file:
        return {
            split: _compose(file[f"{split}_images"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; shifts images and places.

    The batch has the parts that a train step gets, weights last; the seed is int64 (2,), different
    in each step.
    """
    if not task.shift:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, places, weights = batch
        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        return images, places + tf.cast(shifts / CANVAS, places.dtype), weights

    return augment


def _compose(digits: np.ndarray, canvases: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Canvases of one digit each, and the place of its middle (x, y) as a part of the canvas.

    Args:
        digits: uint8 (n, 8, 8), ink from 0 to 16.
        canvases: number of canvases.
        seed: seed of the digits and places.
    """
    random = np.random.default_rng(seed)
    inks = tf.image.resize(digits[..., np.newaxis] / 16, (DIGIT, DIGIT)).numpy()[..., 0]
    images = np.zeros((canvases, CANVAS, CANVAS), np.float32)
    corners = random.integers(MARGIN, CANVAS - DIGIT - MARGIN + 1, size=(canvases, 2))
    for image, (left, top) in zip(images, corners, strict=True):
        image[top : top + DIGIT, left : left + DIGIT] = inks[random.integers(len(inks))]
    return images[..., np.newaxis], ((corners + DIGIT / 2) / CANVAS).astype("float32")
''',
        ),
        canvas_model(
            "the place of the digit, float32 (batch, 2).",
            """    x = layers.Flatten()(x)
    place = layers.Dense(2, dtype=keras.config.floatx(), name="place")(x)
    return keras.Model(images, place)
""",
        ),
        losses(),
        metrics(
            '{"pixels_off": keras.metrics.Mean()}',
            '''

def pixels_off(places: tf.Tensor, predicted: tf.Tensor) -> tf.Tensor:
    """The distance from each place to the predicted one in pixels, float (batch,)."""
    return CANVAS * tf.norm(predicted - places, axis=1)
''',
            KERAS_TF,
        ),
        Edit(
            "metrics.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import CANVAS\n",
        ),
        steps(
            "from .losses import compute_loss\nfrom .metrics import pixels_off",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, places (batch, 2), weights (batch,)",
            """    images, places, weights = batch
    predicted = run.model(images, training=TRAINING)  # (batch, 2)
    per_example = tf.reduce_sum(tf.square(predicted - places), axis=1)  # (batch,)
    run.metrics["pixels_off"].update_state(pixels_off(places, predicted), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
        ),
        PICTURES,
        predictions('{"place": np.asarray(outputs)}'),
    ),
)

TEST_SHIFTS = fault_in(
    name="predictions of shifted test images are shifted on instead of back",
    project="segmentation",
    kind="evaluation",
    file="steps.py",
    cause=(
        "Test-time augmentation rolls the image by dx and the logits by dx once more instead of by "
        "-dx, so the logits that are averaged are displaced by two pixels against the image."
    ),
    named=r"roll|un.?shift|shift(ed)? back|inverse|invert|undo|wrong (way|direction)|opposite|- ?dx|misalign|displace|sign",
    edits=(
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]",
            "SHIFTS = (-1, 0, 1)  # in pixels, over which the test averages\nBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]",
        ),
        Edit("steps.py", "# TODO(14): one test step; default: the same as in validation.\n", ""),
        Edit(
            "steps.py",
            "",
            '''def predict_shifted(run: Run, images: tf.Tensor) -> tf.Tensor:
    """Logits (batch, h, w, classes), the means over small shifts of the images to both sides."""
    logits = []
    for dx in SHIFTS:
        shifted = tf.roll(images, dx, axis=2)
        logits.append(tf.roll(run.model(shifted, training=False), dx, axis=2))
    return tf.add_n(logits) / len(SHIFTS)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss, with test-time augmentation."""
    images, labels, weights = batch
    logits = predict_shifted(run, images)  # (batch, h, w, classes)
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
            "test_step",
        ),
    ),
)

FOCAL = fault_in(
    name="the focal loss looks away from hard pixels",
    project="segmentation",
    kind="loss",
    file="losses.py",
    cause=(
        "The focal factor is p**gamma of the right class's probability instead of (1 - p)**gamma, "
        "so pixels that are right already get all the weight and those that are wrong none."
    ),
    named=r"focal|1 ?- ?p|gamma|easy|hard|sure|confident|invert|revers",
    edits=(
        Edit(
            "losses.py", "from .data import IGNORED\n", "from .data import IGNORED\n\nGAMMA = 2.0\n"
        ),
        Edit(
            "losses.py",
            '# TODO(5): your losses, each with reduction="none";\n# default: cross-entropy of logits, 0 for ignored pixels.\n',
            '''class Focal(keras.losses.Loss):
    """Cross-entropy with a factor for how hard a pixel is (Lin et al., 2017); 0 if ignored."""

    def call(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels (batch, h, w) and logits (batch, h, w, classes) -> (batch, h, w)."""
        labels = tf.cast(labels, tf.int32)  # Keras makes floats of them
        is_ignored = labels == IGNORED
        known = tf.where(is_ignored, 0, labels)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(known, logits)
        p = tf.stop_gradient(tf.exp(-entropy))  # of the right class
        return tf.where(is_ignored, tf.zeros_like(entropy), p**GAMMA * entropy)


''',
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per pixel."""
    return {"main": Focal(reduction="none")}
''',
            "create_losses",
        ),
    ),
)

# Contrastive.

SIMSIAM = fault_in(
    name="SimSiam stops the gradient of the prediction instead of the projection",
    project="contrastive",
    kind="loss",
    file="losses.py",
    cause=(
        "negative_cosine puts stop_gradient on the prediction and lets the gradient flow into the "
        "projection, its target, so the predictor never trains and nothing keeps the "
        "representations from collapsing."
    ),
    named=r"stop.?gradient|wrong (branch|side)|collaps|predictor|projection|target",
    edits=(
        Edit("model.py", "FEATURES = 32\n", "FEATURES, BOTTLENECK = 32, 16\n"),
        Edit(
            "model.py",
            "-> features float32 (batch, FEATURES).",
            "-> projection and prediction, float32 (batch, FEATURES).",
        ),
        Edit(
            "model.py",
            """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    features = layers.Dense(FEATURES, dtype=keras.config.floatx(), name="features")(x)
    return keras.Model(images, features)""",
            """    projection = layers.Dense(FEATURES, dtype=keras.config.floatx(), name="projection")(x)
    x = layers.Dense(BOTTLENECK, activation="relu")(projection)
    prediction = layers.Dense(FEATURES, dtype=keras.config.floatx(), name="prediction")(x)
    return keras.Model(images, {"projection": projection, "prediction": prediction})""",
        ),
        losses(
            '''
def negative_cosine(prediction: tf.Tensor, projection: tf.Tensor) -> tf.Tensor:
    """From -1, same direction, to 1, float (batch,); one side is constant (Chen & He, 2021).

    Args:
        prediction: float (batch, features), of one version of an image.
        projection: float (batch, features), of the other one.
    """
    prediction = tf.math.l2_normalize(tf.stop_gradient(prediction), axis=1)
    projection = tf.math.l2_normalize(projection, axis=1)
    return -tf.reduce_sum(prediction * projection, axis=1)

'''
        ),
        steps(
            "from .losses import compute_loss, negative_cosine",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, the same with noise, weights (batch,)",
            """    images, noisy, weights = batch
    left = run.model(images, training=TRAINING)  # each (rows, features)
    right = run.model(noisy, training=TRAINING)
    to_right = negative_cosine(left["prediction"], right["projection"])  # (rows,)
    to_left = negative_cosine(right["prediction"], left["projection"])  # (rows,)
    update_accuracy(run, left["projection"], right["projection"], weights, replica)
    return {"main": compute_loss((to_right + to_left) / 2, weights, run.model, replica)}
""",
            helpers='''
def update_accuracy(
    run: Run, left: tf.Tensor, right: tf.Tensor, weights: tf.Tensor, replica: Replica
) -> None:
    """How often an image's own noisy version is the most similar one of all in the batch."""
    left, right = tf.math.l2_normalize(left, axis=1), tf.math.l2_normalize(right, axis=1)
    candidates = replica.all_gather(right)  # (rows of all replicas, features)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    similarity = tf.where(there, tf.matmul(left, candidates, transpose_b=True), -1e9)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    run.metrics["accuracy"].update_state(own, similarity, weights)

''',
            interact=True,
        ),
        predictions("{name: np.asarray(values) for name, values in outputs.items()}"),
    ),
)

RETRIEVAL = fault_in(
    name="an image is found as its own nearest neighbor",
    project="contrastive",
    kind="evaluation",
    file="steps.py",
    cause=(
        "recall_at_1 takes the most similar image of the batch without leaving out the query "
        "itself, whose similarity is the largest there is, so every query finds itself."
    ),
    named=r"itself|self|diagonal|own (row|image)|query|is_self|gallery",
    edits=(
        *monitor("validation_accuracy", "validation_recall_at_1", larger=True),
        Edit(
            "config.py",
            '"""Image classification."""',
            '"""Retrieval of images of the same class."""',
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], classes int64 (n,).

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
''',
            "create_datasets",
        ),
        metrics('{"recall_at_1": keras.metrics.Mean()}', "", KERAS),
        steps(
            "from .losses import compute_loss",
            "TEMPERATURE = 0.1\nBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)",
            """    images, labels, weights = batch
    features = run.model(images, training=TRAINING)  # (rows, features)
    per_example = compare(run, features, labels, weights, replica)  # (rows,)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
            helpers='''
def compare(
    run: Run, features: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, replica: Replica
) -> tf.Tensor:
    """The supervised contrastive loss (Khosla et al., 2020), float (rows,); updates the metric."""
    features = tf.math.l2_normalize(features, axis=1)
    classes = tf.cast(labels, features.dtype)
    all_classes = replica.all_gather(classes)  # (rows of all replicas,)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    similarity = tf.matmul(features, replica.all_gather(features), transpose_b=True) / TEMPERATURE
    similarity = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)

    rows = features.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are among all
    is_self = own[:, tf.newaxis] == tf.range(tf.shape(all_classes)[0])
    is_same = (classes[:, tf.newaxis] == all_classes) & there & ~is_self
    log_p = tf.nn.log_softmax(tf.where(is_self, -1e9, similarity), axis=1)
    number = tf.math.count_nonzero(is_same, axis=1, dtype=log_p.dtype)
    total = tf.reduce_sum(tf.where(is_same, log_p, 0), axis=1)

    nearest = tf.gather(all_classes, tf.argmax(similarity, axis=1))  # (rows,)
    run.metrics["recall_at_1"].update_state(nearest == classes, weights)
    return -tf.math.divide_no_nan(total, number)

''',
            interact=True,
        ),
        predictions('{"features": np.asarray(outputs)}'),
    ),
)

TEMPERATURE = fault_in(
    name="a callback lowers a temperature that the graph has taken as a constant",
    project="contrastive",
    kind="callbacks",
    file="callbacks.py",
    cause=(
        "The callback sets the Python variable steps.TEMPERATURE, but the step was traced into a "
        "graph before and holds its first value as a constant, so the temperature never changes; it "
        "should be computed from replica.step, or be a variable."
    ),
    named=r"trac|graph|constant|global|python|never (changes|has any effect)|no effect|TEMPERATURE|temperature",
    edits=(
        Edit(
            "steps.py",
            "TEMPERATURE = 0.1\n",
            "TEMPERATURE = 0.5  # at the start; lowered by callbacks.py\n",
        ),
        whole(
            "callbacks.py",
            '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback, Event, every_epochs
from . import steps
from .config import TaskConfig

WARMEST, COLDEST = 0.5, 0.1
COOLING = 0.93  # in an epoch


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Lower the temperature of the loss after each epoch."""

    def cool(event: Event) -> None:
        steps.TEMPERATURE = max(COLDEST, WARMEST * COOLING**event.epoch)

    return [every_epochs(1, cool)]
''',
        ),
    ),
)

RANKING = fault_in(
    name="the softmax of a ranking loss runs over the batch",
    project="contrastive",
    kind="loss",
    file="losses.py",
    cause=(
        "The ListNet loss takes log_softmax of the scores along axis 0, over lists of the batch, "
        "and the softmax of relevance along axis 1, over the items of a list; both should be axis 1."
    ),
    named=r"axis|over the batch|across (the )?(batch|lists|examples)|other lists|softmax",
    edits=(
        *monitor("validation_accuracy", "validation_pair_accuracy", larger=True),
        Edit(
            "config.py", '"""Image classification."""', '"""Ranking of images by what they show."""'
        ),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]",
            "ITEMS = 6  # in a list\n\nArrays = tuple[np.ndarray, np.ndarray]",
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Lists of images, float32 (n, items, h, w, 1) in [0, 1], and relevances, float32 (n, items).

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    random = np.random.default_rng(0)

    def lists(images: np.ndarray, labels: np.ndarray) -> Arrays:
        rows = random.integers(len(images), size=(len(images), ITEMS))
        return images[rows].astype("float32")[..., np.newaxis], labels[rows].astype("float32")

    return {split: lists(images, labels) for split, (images, labels) in splits.items()}
''',
            "create_datasets",
        ),
        Edit(
            "data.py",
            "",
            """    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        lists, relevances, weights = batch
        number = lists.shape[0] * lists.shape[1]
        images = tf.reshape(lists, (number, *lists.shape[2:]))
        shifts = tf.random.stateless_uniform((number, 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (images, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (images, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        return tf.reshape(images, lists.shape), relevances, weights
""",
            "augment",
        ),
        Edit("model.py", "\nFEATURES = 32\n", ""),
        Edit(
            "model.py",
            "Images float (batch, h, w, 1) -> features float32 (batch, FEATURES).",
            "Lists of images float (batch, items, h, w, 1) -> scores float32 (batch, items).",
        ),
        Edit(
            "model.py",
            """    images = keras.Input(adapted["shape"], name="images")
    x = images
""",
            """    items, *shape = map(int, adapted["shape"])
    images = keras.Input((items, *shape), name="images")
    x = keras.ops.reshape(images, (-1, *shape))  # (batch items, h, w, 1)
""",
        ),
        Edit(
            "model.py",
            """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    features = layers.Dense(FEATURES, dtype=keras.config.floatx(), name="features")(x)
    return keras.Model(images, features)""",
            """    scores = layers.Dense(1, dtype=keras.config.floatx(), name="scores")(x)
    return keras.Model(images, keras.ops.reshape(scores, (-1, items)))""",
        ),
        losses(
            '''
def list_net(relevances: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """The cross-entropy of the items to come first (Cao et al., 2007), float (batch,).

    Args:
        relevances: float (batch, items).
        scores: float (batch, items).
    """
    wanted = tf.nn.softmax(relevances, axis=1)
    return -tf.reduce_sum(wanted * tf.nn.log_softmax(scores, axis=0), axis=1)

'''
        ),
        metrics(
            '{"pair_accuracy": keras.metrics.Mean()}',
            '''

def pairs_in_order(relevances: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """The fraction of the pairs of each list that are in the right order, float (batch,)."""
    before = relevances[:, :, tf.newaxis] > relevances[:, tf.newaxis, :]  # (batch, items, items)
    right = before & (scores[:, :, tf.newaxis] > scores[:, tf.newaxis, :])
    pairs, found = (
        tf.math.count_nonzero(x, axis=[1, 2], dtype=scores.dtype) for x in (before, right)
    )
    return tf.math.divide_no_nan(found, pairs)
''',
            KERAS_TF,
        ),
        steps(
            "from .losses import compute_loss, list_net\nfrom .metrics import pairs_in_order",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # lists, relevances (batch, items), weights (batch,)",
            """    lists, relevances, weights = batch
    scores = run.model(lists, training=TRAINING)  # (batch, items)
    per_example = list_net(relevances, scores)  # (batch,)
    run.metrics["pair_accuracy"].update_state(pairs_in_order(relevances, scores), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
        ),
        predictions('{"scores": np.asarray(outputs)}'),
    ),
)

# Two heads.

UNKNOWN = fault_in(
    name="missing labels count in the accuracy of each head",
    project="two_heads",
    kind="weights",
    file="steps.py",
    cause=(
        "The accuracies are weighted by the batch's weights instead of those of the head, which are "
        "0 where a label is missing, so a missing label, replaced by class 0, is counted as class 0."
    ),
    named=r"missing|unknown|weights?.*(head|mask|-1)|label of -1|class 0|mask|unlabel",
    edits=(
        Edit("steps.py", "images, labels, _ = batch", "images, labels, present = batch", "*"),
        Edit(
            "steps.py",
            "update_state(known, outputs[head], weights[head])",
            "update_state(known, outputs[head], present)",
            "*",
        ),
    ),
)

SURVIVAL = fault_in(
    name="hazards are trained on time after the event",
    project="two_heads",
    kind="loss",
    file="losses.py",
    cause=(
        "The discrete-time likelihood sums over all bins of every subject instead of only the bins "
        "in which it was still at risk, up to its event or censoring, so bins after death or "
        "censoring count as survived."
    ),
    named=r"at risk|risk set|censor|after (the )?(event|death|time)|mask|bins? (after|<=|beyond)|later bins|hazard",
    edits=(
        *monitor("validation_digit_accuracy", "validation_brier", larger=False),
        Edit("config.py", '"""Image classification."""', '"""Survival analysis."""'),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]",
            "BINS = 12  # of time\nHORIZON = 5  # the last bin in which all are observed\n\nArrays = tuple[np.ndarray, np.ndarray]",
        ),
        Edit("data.py", "in [0, 1], labels by head.", "in [0, 1], and outcomes."),
        Edit(
            "data.py",
            "    return {\n        split: (images",
            "    random = np.random.default_rng(0)\n    return {\n        split: (images",
        ),
        Edit("data.py", "_two_labels(labels))", "_outcomes(labels, random))"),
        Edit(
            "data.py",
            "",
            '''def _outcomes(digits: np.ndarray, random: np.random.Generator) -> dict[str, np.ndarray]:
    """When it ended, the number of a bin, and whether by the event or by censoring, int64 (n,).

    The larger a digit, the larger the risk in each bin; observation ends at a random time after
    HORIZON. Censored subjects live longer than the bin in which they are censored.
    """
    event = random.geometric(0.03 + 0.04 * digits) - 1
    end = random.integers(HORIZON + 1, BINS, len(digits))
    return {
        "time": np.minimum(event, end).astype("int64"),
        "event": (event <= end).astype("int64"),
    }
''',
            "_two_labels",
        ),
        Edit("model.py", "\nCLASSES = 10\n", ""),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import BINS\n",
        ),
        Edit(
            "model.py",
            "-> logits of each head float32 (batch, classes).",
            "-> logits of the hazard in each bin, float32 (batch, BINS).",
        ),
        Edit(
            "model.py",
            """    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)
    return keras.Model(images, {"digit": logits, "even": even})""",
            """    logits = layers.Dense(BINS, dtype=keras.config.floatx(), name="hazards")(x)
    return keras.Model(images, logits)""",
        ),
        losses(
            '''
def negative_log_likelihood(logits: tf.Tensor, time: tf.Tensor, event: tf.Tensor) -> tf.Tensor:
    """Of what was observed in discrete time (Gensheimer & Narasimhan, 2019), float (batch,).

    Args:
        logits: float (batch, BINS), of the hazard in each bin.
        time: int (batch,), the bin of the event or of censoring.
        event: int (batch,), 0 for those who were censored.
    """
    bins = tf.range(BINS, dtype=time.dtype)
    dies = (bins == time[:, tf.newaxis]) & (event[:, tf.newaxis] > 0)  # (batch, BINS)
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(dies, logits.dtype), logits)
    return tf.reduce_sum(entropy, axis=1)


def survival(logits: tf.Tensor) -> tf.Tensor:
    """The probability to live longer than HORIZON, float (batch,)."""
    return tf.exp(-tf.reduce_sum(tf.nn.softplus(logits[:, : HORIZON + 1]), axis=1))

''',
            "from .data import BINS, HORIZON\n",
        ),
        metrics(
            '{"brier": keras.metrics.Mean(), "status_accuracy": keras.metrics.Mean()}', "", KERAS
        ),
        steps(
            "from .data import HORIZON\nfrom .losses import compute_loss, negative_log_likelihood, survival",
            "Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # images, outcomes, weights (batch,)",
            """    images, outcomes, weights = batch
    logits = run.model(images, training=TRAINING)  # (batch, BINS)
    per_example = negative_log_likelihood(logits, outcomes["time"], outcomes["event"])  # (batch,)
    lives, chance = outcomes["time"] > HORIZON, survival(logits)  # (batch,)
    squared = tf.square(chance - tf.cast(lives, chance.dtype))
    run.metrics["brier"].update_state(squared, weights)
    run.metrics["status_accuracy"].update_state(lives == (chance > 0.5), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
        ),
        predictions('{"logits of hazards": np.asarray(outputs)}'),
    ),
)

COVERAGE = fault_in(
    name="the predicted variance is taken for the standard deviation",
    project="two_heads",
    kind="metrics",
    file="metrics.py",
    cause=(
        "The interval's half width is 1.96 exp(log_variance), 1.96 variances, instead of 1.96 "
        "standard deviations, exp(log_variance / 2)."
    ),
    named=r"standard deviation|variance|\bstd\b|sqrt|square root|log_variance ?/ ?2|0\.5|half|sigma",
    edits=(
        *monitor("validation_digit_accuracy", "validation_loss", larger=False),
        Edit("config.py", '"""Image classification."""', '"""Regression with its uncertainty."""'),
        Edit("data.py", "in [0, 1], labels by head.", "in [0, 1], measurements float32."),
        Edit(
            "data.py",
            "    return {\n        split: (images",
            "    random = np.random.default_rng(0)\n    return {\n        split: (images",
        ),
        Edit("data.py", "_two_labels(labels))", "_measured(labels, random))"),
        Edit(
            "data.py",
            "",
            '''def _measured(digits: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Tenths of the digits with noise, larger for larger ones: float32 (n,)."""
    noise = random.normal(0, 1, len(digits))
    return (digits / 10 + (0.03 + 0.02 * digits) * noise).astype("float32")
''',
            "_two_labels",
        ),
        Edit("model.py", "\nCLASSES = 10\n", ""),
        Edit(
            "model.py",
            "-> logits of each head float32 (batch, classes).",
            "-> mean and logarithm of the variance, float32 (batch, 1).",
        ),
        Edit(
            "model.py",
            """    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)
    return keras.Model(images, {"digit": logits, "even": even})""",
            """    mean = layers.Dense(1, dtype=keras.config.floatx(), name="mean")(x)
    log_variance = layers.Dense(1, dtype=keras.config.floatx(), name="log_variance")(x)
    return keras.Model(images, {"mean": mean, "log_variance": log_variance})""",
        ),
        losses(
            '''
def negative_log_likelihood(
    measured: tf.Tensor, mean: tf.Tensor, log_variance: tf.Tensor
) -> tf.Tensor:
    """Of normal distributions, without its constant (Nix & Weigend, 1994); all float (batch,)."""
    return (log_variance + tf.square(measured - mean) * tf.exp(-log_variance)) / 2

'''
        ),
        metrics(
            '{"absolute_error": keras.metrics.Mean(), "coverage": keras.metrics.Mean()}',
            '''

def is_covered(measured: tf.Tensor, mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """Whether the interval of 95% holds what was measured, bool (batch,); all float (batch,)."""
    return tf.abs(measured - mean) <= 1.96 * tf.exp(log_variance)
''',
            KERAS_TF,
        ),
        steps(
            "from .losses import compute_loss, negative_log_likelihood\nfrom .metrics import is_covered",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, measurements (batch,), weights (batch,)",
            """    images, measured, weights = batch
    outputs = run.model(images, training=TRAINING)
    mean, log_variance = outputs["mean"][:, 0], outputs["log_variance"][:, 0]  # (batch,)
    per_example = negative_log_likelihood(measured, mean, log_variance)  # (batch,)
    run.metrics["absolute_error"].update_state(tf.abs(measured - mean), weights)
    run.metrics["coverage"].update_state(is_covered(measured, mean, log_variance), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
        ),
        predictions("{name: np.asarray(values)[:, 0] for name, values in outputs.items()}"),
    ),
)

SCHEDULE = fault_in(
    name="the learning rate never decays for an integer division",
    project="two_heads",
    kind="schedule",
    file="optimizer.py",
    cause=(
        "The schedule divides two integers by //, so the fraction of the run that is done is 0 in "
        "every step but the last, and the learning rate stays at its largest."
    ),
    named=r"integer|floor|//|never decays|stays|constant|fraction|division|schedule",
    edits=(
        Edit(
            "optimizer.py",
            "# TODO(7): your optimizer, or a dict with one for each model; default: Adam with a cosine schedule.\n",
            '''class PowerDecay(keras.optimizers.schedules.LearningRateSchedule):
    """From `largest` to 0 in `steps` steps: largest * (1 - fraction of the run)**power."""

    def __init__(self, largest: float, steps: int, power: float = 1.0) -> None:
        self.largest, self.steps, self.power = largest, steps, power

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The learning rate of a step, float scalar."""
        done = keras.ops.cast(step, "int32") // self.steps
        left = 1 - keras.ops.cast(done, keras.config.floatx())
        return self.largest * left**self.power

    def get_config(self) -> dict[str, float]:
        """The arguments."""
        return {"largest": self.largest, "steps": self.steps, "power": self.power}


''',
        ),
        Edit(
            "optimizer.py",
            """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)""",
            """    return keras.optimizers.Adam(PowerDecay(task.learning_rate, steps))""",
        ),
    ),
)

# Finetuning.

OVERFLOW = fault_in(
    name="bytes overflow as digits are scaled to 256 shades",
    project="finetuning",
    kind="data",
    file="data.py",
    cause=(
        "The images are uint8 from 0 to 16 and are multiplied by 16 before they become floats, so "
        "the darkest, 16, overflows to 256 = 0: the strongest ink turns into background."
    ),
    named=r"overflow|uint8|wrap|256|bytes?|modulo|integer",
    edits=(
        Edit(
            "data.py",
            '(file[f"{split}_images"] / 16, file[f"{split}_labels"])',
            '(file[f"{split}_images"] * 16 / 255, file[f"{split}_labels"])',
        ),
    ),
)

LAYERWISE = fault_in(
    name="smaller gradients of the backbone don't slow down Adam",
    project="finetuning",
    kind="optimizer",
    file="optimizer.py",
    cause=(
        "process_gradients multiplies the backbone's gradients by 0.1 to give it a smaller learning "
        "rate, but Adam divides by the gradients' own size, so a constant factor changes nothing."
    ),
    named=r"adam|scale.?invarian|scal(e|ing).*gradient|gradient.*scal|no effect|learning rate.*backbone|invariant|cancel|normali[sz]e",
    edits=(
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            """from .config import TaskConfig

SLOWER = 0.1  # learning rate of the backbone, as a part of that of the last layer
""",
        ),
        Edit(
            "optimizer.py",
            """    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)
    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)""",
            "    return keras.optimizers.Adam(schedule)",
        ),
        Edit(
            "optimizer.py",
            "",
            '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """The gradients, those of the backbone smaller, so that it learns more slowly."""
    return [
        gradient if variable.path.startswith("logits/") else SLOWER * gradient
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
''',
            "process_gradients",
        ),
    ),
)

UNFREEZING = fault_in(
    name="a resumed run freezes what was unfrozen",
    project="finetuning",
    kind="state",
    file="callbacks.py",
    cause=(
        "How many layers train is counted in an attribute of the callback that has no get_state and "
        "set_state, so it isn't in checkpoints: after a resume it starts at 0 and the next call "
        "freezes the whole backbone again; it should follow from event.epoch."
    ),
    named=r"resum|checkpoint|get_state|set_state|restart|state.*(lost|saved)|not saved|counter",
    edits=(
        Edit(
            "config.py",
            "frozen_steps: int = 7  # steps in which the last layer trains alone",
            "epochs_per_layer: int = 8  # epochs after which one more layer of the backbone trains",
        ),
        whole(
            "callbacks.py",
            '''"""Functions that are called during training."""

from __future__ import annotations

import keras

from ..engine.callbacks import Callback, Event, at_step, every_epochs
from .config import TaskConfig


class GradualUnfreezing:
    """With each call one more layer of the backbone trains, the last one first."""

    def __init__(self) -> None:
        self.training = 0  # layers of the backbone that train after the next call

    def __call__(self, event: Event) -> None:
        """Freeze and unfreeze."""
        layers = [
            layer
            for layer in event.run.model.get_layer("backbone").layers
            if layer.weights and not isinstance(layer, keras.layers.BatchNormalization)
        ]
        for number, layer in enumerate(reversed(layers)):
            layer.trainable = number < self.training
        self.training += 1


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Gradual unfreezing (Howard & Ruder, 2018): the last layer alone, then one more at a time."""
    unfreeze = GradualUnfreezing()
    return [at_step(0, unfreeze), every_epochs(task.epochs_per_layer, unfreeze)]
''',
        ),
    ),
)

FIXMATCH = fault_in(
    name="the threshold of pseudo-labels is compared with logits",
    project="finetuning",
    kind="labels",
    file="steps.py",
    cause=(
        "CONFIDENCE = 0.95 is meant for the largest probability of a guess but is compared with the "
        "largest logit, which nearly always is above it, so wrong guesses become labels too; a "
        "softmax is missing."
    ),
    named=r"logit|softmax|probabilit|threshold|confiden|pseudo",
    edits=(
        Edit(
            "config.py",
            '"""Image classification."""',
            '"""Image classification with few labels."""',
        ),
        Edit(
            "data.py",
            "in [0, 1], labels int64 (n,).",
            "in [0, 1], labels int64 (n,).\n\n    In training most labels are missing, -1.",
        ),
        Edit(
            "data.py",
            """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
            """    arrays = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    images, labels = arrays["train"]
    arrays["train"] = images, np.where(np.arange(len(labels)) % LABELED == 0, labels, -1)
    return arrays
""",
        ),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]",
            "LABELED = 10  # one training image of so many has a label\n\nArrays = tuple[np.ndarray, np.ndarray]",
        ),
        whole(
            "losses.py",
            '''"""The losses, and the numbers that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from .config import TaskConfig

KINDS = ("labeled", "unlabeled")


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}


def weights_of_kinds(batch: Any) -> dict[str, tf.Tensor]:
    """The weight of each example in the term of each kind, float (batch,)."""
    _, labels, weights = batch
    labeled = weights * tf.cast(labels >= 0, weights.dtype)
    return {"labeled": labeled, "unlabeled": weights - labeled}


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many examples of each kind count, int32 scalars."""
    weights = weights_of_kinds(batch)
    return {kind: tf.math.count_nonzero(weights[kind], dtype=tf.int32) for kind in KINDS}
''',
        ),
        whole(
            "steps.py",
            '''"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import KINDS, weights_of_kinds

CONFIDENCE = 0.95  # from which on a guess is a label
NOISE = 0.15  # standard deviation, in the stronger version of an image
Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss, as in FixMatch (Sohn et al., 2020)."""
    images, labels, _ = batch
    weights = weights_of_kinds(batch)
    logits = run.model(images, training=True)  # (batch, classes)
    noise = tf.random.stateless_normal(images.shape, replica.seed, 0, NOISE, images.dtype)
    noisy = run.model(images + noise, training=True)  # (batch, classes)

    known = tf.maximum(labels, 0)  # any class will do where the weight is 0
    per_example = {"labeled": run.losses["main"](known, logits)}  # each (batch,)
    guesses = tf.stop_gradient(logits)
    is_sure = tf.reduce_max(guesses, axis=1) >= CONFIDENCE
    guessed = run.losses["main"](tf.argmax(guesses, axis=1), noisy)
    per_example["unlabeled"] = tf.where(is_sure, guessed, tf.zeros_like(guessed))

    terms = {
        kind: tf.nn.compute_average_loss(
            per_example[kind],
            sample_weight=weights[kind],
            global_batch_size=replica.global_count[kind],
        )
        for kind in KINDS
    }
    run.metrics["accuracy"].update_state(known, logits, weights["labeled"])
    regularization = tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": tf.add_n(list(terms.values())) + regularization, **terms}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss; every image has its label."""
    images, labels, weights = batch
    logits = run.model(images, training=False)  # (batch, classes)
    loss = tf.nn.compute_average_loss(
        run.losses["main"](labels, logits),
        sample_weight=weights,
        global_batch_size=replica.global_count["labeled"],
    )
    run.metrics["accuracy"].update_state(labels, logits, weights)
    regularization = tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": loss + regularization, "labeled": loss, "unlabeled": tf.zeros_like(loss)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = KINDS  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
''',
        ),
    ),
)

FAULTS: tuple[Fault, ...] = (
    ROTATION,
    GRADIENT_NOISE,
    CUTMIX,
    PAIRS,
    POSITIONS,
    TIME_NORMALIZATION,
    MASKED,
    TAGGING,
    COUNTING,
    PLACES,
    TEST_SHIFTS,
    FOCAL,
    SIMSIAM,
    RETRIEVAL,
    TEMPERATURE,
    RANKING,
    UNKNOWN,
    SURVIVAL,
    COVERAGE,
    SCHEDULE,
    OVERFLOW,
    LAYERWISE,
    UNFREEZING,
    FIXMATCH,
)

TASKS: tuple[Change, ...] = ()
