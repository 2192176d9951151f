"""Correct tasks of an examiner."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .tasks import PICTURES
from .unusual import change_of

RETURN = 'return {"main": compute_loss(per_example, weights, run.model, replica)}'

# --------------------------------------------------------------------------- image classification

FIXED_HEAD = change_of(
    name="classifier of fixed orthogonal directions",
    project="image_classification",
    edits=(
        Edit(
            "model.py",
            '    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)\n',
            """    # Each class has a direction that is never trained, at right angles to all others; the
    # features below learn to point there (Hoffer et al., 2018, Fix your classifier).
    logits = layers.Dense(
        CLASSES,
        use_bias=False,
        kernel_initializer=keras.initializers.Orthogonal(gain=2.0),
        trainable=False,
        dtype=keras.config.floatx(),
        name="logits",
    )(x)
""",
        ),
    ),
)

ROBUST = change_of(
    name="generalized cross-entropy against labels that are wrong on purpose",
    project="image_classification",
    edits=(
        Edit(
            "data.py",
            "VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST\n",
            "VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST\n"
            "CLASSES = 10\n"
            "WRONG = 0.3  # fraction of the training labels that a benchmark of robust losses spoils\n",
        ),
        Edit(
            "data.py",
            """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
            """    datasets = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    images, labels = datasets["train"]
    return datasets | {"train": (images, _spoiled(labels))}
""",
        ),
        Edit(
            "data.py",
            "def _load_digits() -> dict[str, Arrays]:\n",
            '''def _spoiled(labels: np.ndarray) -> np.ndarray:
    """Labels int64 (n,), some of them another class, the same ones in every run."""
    random = np.random.default_rng(0)
    is_wrong = random.random(len(labels)) < WRONG
    others = (labels + random.integers(1, CLASSES, len(labels))) % CLASSES
    return np.where(is_wrong, others, labels)


def _load_digits() -> dict[str, Arrays]:
''',
        ),
        Edit(
            "losses.py",
            """    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
""",
            '''    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def generalized(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """(1 - p^Q) / Q with the probability p of the label, float (batch,).

        Between cross-entropy (Q = 0) and the mean absolute error (Q = 1): labels that are very
        improbable, since they are wrong, pull less (Zhang & Sabuncu, 2018).
        """
        return (1.0 - tf.exp(-Q * cross_entropy(labels, logits))) / Q

    return {"main": generalized}
''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nQ = 0.7\n",
        ),
    ),
)

# ------------------------------------------------------------------------------------ contrastive

BARLOW = change_of(
    name="barlow twins, cross-correlation of features over the global batch",
    project="contrastive",
    edits=(
        Edit(
            "steps.py",
            "",
            '''"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run

REDUNDANT = 0.02  # weight of the correlations between different features
Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, the same with noise, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Barlow Twins (Zbontar et al., 2021): each feature agrees with itself and no other."""
    left, right, weights = batch
    rows = left.shape[0]
    there = replica.all_gather(weights)  # (rows of all replicas,), 0 for padding
    share = (there / tf.reduce_sum(there))[:, tf.newaxis]  # of an example in a mean
    left = _standardized(replica.all_gather(run.model(left, training=training)), share)
    right = _standardized(replica.all_gather(run.model(right, training=training)), share)
    correlation = tf.matmul(left, share * right, transpose_a=True)  # (features, features)
    own = tf.linalg.diag_part(correlation)  # (features,)
    redundant = tf.reduce_sum(tf.square(correlation)) - tf.reduce_sum(tf.square(own))
    loss = tf.reduce_sum(tf.square(1.0 - own)) + REDUNDANT * redundant
    # The whole loss, the same on every replica: each returns an equal part, and their sum is it.
    loss = loss / replica.num_replicas
    # How often an image is nearest to itself with noise.
    mine = replica.index * rows + tf.range(rows)  # where this replica's rows are
    left, right = tf.math.l2_normalize(left, axis=1), tf.math.l2_normalize(right, axis=1)
    similarity = tf.matmul(tf.gather(left, mine), right, transpose_b=True)
    nearest = tf.where(there > 0, similarity, -1e9)  # (rows, rows of all replicas)
    run.metrics["accuracy"].update_state(mine, nearest, weights)
    return {"main": loss + tf.nn.scale_regularization_loss(replica.regularization(run.model))}


def _standardized(features: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """Each feature with mean 0 and variance 1 over the global batch, padding left out.

    Args:
        features: float (rows of all replicas, features).
        share: float (rows of all replicas, 1), whose sum is 1.
    """
    centered = features - tf.reduce_sum(share * features, axis=0)
    variance = tf.reduce_sum(share * tf.square(centered), axis=0)
    return centered * tf.math.rsqrt(variance + 1e-4)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = True
''',
        ),
    ),
)

# ----------------------------------------------------------------------------------- distillation

LOGITS = change_of(
    name="student learns the teacher's centered logits and no label",
    project="distillation",
    edits=(
        Edit(
            "losses.py",
            """    hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    soft = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")
    return {"hard": hard, "soft": soft}
""",
            """    return {"main": keras.losses.MeanSquaredError(reduction="none")}  # of logits
""",
        ),
        Edit(
            "steps.py",
            "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
            "",
        ),
        Edit(
            "steps.py",
            """    hard = run.losses["hard"](labels, logits)  # (batch,)
    soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)
""",
            """    # As Ba & Caruana (2014): labels serve to measure the accuracy only.
    per_example = run.losses["main"](_centered(taught), _centered(logits))  # (batch,)
""",
            "*",
        ),
        Edit(
            "steps.py",
            "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
            "",
            "*",
        ),
        Edit(
            "steps.py",
            "TRAIN_STEPS = (train_step,)",
            '''def _centered(logits: tf.Tensor) -> tf.Tensor:
    """Logits (batch, classes) with a mean of 0 in each row: a constant changes no probability."""
    return logits - tf.reduce_mean(logits, axis=1, keepdims=True)


TRAIN_STEPS = (train_step,)''',
        ),
    ),
)

TRUSTED = change_of(
    name="teacher is believed only where it is right",
    project="distillation",
    edits=(
        Edit(
            "steps.py",
            "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
            """    both = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)
    is_right = tf.argmax(taught, axis=1, output_type=labels.dtype) == labels  # (batch,)
    per_example = tf.where(is_right, both, hard)  # the label alone where the teacher is wrong
""",
            "*",
        ),
    ),
)

# ------------------------------------------------------------------------------------- finetuning

TO_START = change_of(
    name="penalty on the distance to the pretrained kernels (l2-sp)",
    project="finetuning",
    edits=(
        Edit(
            "model.py",
            """    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}
""",
            """    images, *_ = first_examples(datasets["train"], 1)
    # Saved with the run, so that it is drawn to the same kernels when it is resumed.
    kernels = {
        f"start of {layer.name}": layer.kernel.numpy()
        for layer in load_in_precision(BACKBONE).layers
        if isinstance(layer, keras.layers.Conv2D)
    }
    return {"shape": images.shape[1:], **kernels}
""",
        ),
        Edit(
            "losses.py",
            "from ..engine.types import Replica\n",
            "from ..engine.types import Replica, Run\n",
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nTO_START = 0.01  # half of it is the factor of the squared distance\n",
        ),
        Edit(
            "losses.py",
            "def compute_loss(\n",
            '''def distance_to_start(run: Run, replica: Replica) -> tf.Tensor:
    """This replica's part of the penalty on kernels that leave where they started, a scalar.

    Weight decay, but to the pretrained kernels instead of 0 (Li et al., 2018, L2-SP).
    """
    squares = []
    for layer in run.model.get_layer("backbone").layers:
        if isinstance(layer, keras.layers.Conv2D):
            now = tf.convert_to_tensor(layer.kernel)
            start = tf.cast(run.adapted[f"start of {layer.name}"], now.dtype)
            squares.append(tf.reduce_sum(tf.square(now - start)))
    penalty = 0.5 * TO_START * tf.add_n(squares) / replica.num_microbatches
    return tf.nn.scale_regularization_loss(penalty)


def compute_loss(
''',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss, distance_to_start\n",
        ),
        Edit(
            "steps.py",
            RETURN,
            """loss = compute_loss(per_example, weights, run.model, replica)
    return {"main": loss + distance_to_start(run, replica)}""",
            "*",
        ),
    ),
)

PROBE = change_of(
    name="linear probe of a backbone that never trains",
    project="finetuning",
    edits=(
        Edit(
            "callbacks.py",
            "",
            '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
''',
        ),
        Edit(
            "config.py",
            "    frozen_steps: int = 7  # steps in which the last layer trains alone\n",
            "",
        ),
        Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 1e-2"),
        Edit(
            "model.py",
            """    for layer in backbone.layers:
        # Normalization stays as it was for good; the others are trainable until step 0.
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
""",
            """    backbone.trainable = False  # for good: the probe measures the features as they are
""",
        ),
        Edit(
            "optimizer.py",
            """    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)
    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)
""",
            """    return keras.optimizers.Adam(schedule)
""",
        ),
    ),
)

# ------------------------------------------------------------------------------------ forecasting

GAP = change_of(
    name="fill a gap from the hours on both sides",
    project="forecasting",
    edits=(
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            """PAST, FUTURE = 24, 6  # hours: those around a gap, and those in it, where the sensor failed
BEFORE = 12  # of the hours around the gap; the others come after it
""",
        ),
        Edit(
            "data.py",
            "    return windows[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]\n",
            """    before, after = windows[:, :, :BEFORE], windows[:, :, BEFORE + FUTURE :]
    around = np.concatenate([before, after], axis=2)  # (n, columns, PAST)
    return around.swapaxes(1, 2), windows[:, TARGET, BEFORE : BEFORE + FUTURE]
""",
        ),
    ),
)

REVERSIBLE = change_of(
    name="each window normalized by its own mean and deviation (revin)",
    project="forecasting",
    edits=(
        Edit(
            "model.py",
            """    """
            + '"""Means and variances of what is there: of each column, and of what to forecast."""'
            + """
    inputs, labels = datasets["train"]
""",
            """    """
            + '"""Means and variances of what is there of each column."""'
            + """
    inputs, _ = datasets["train"]
""",
        ),
        Edit(
            "model.py",
            """        "label_mean": np.nanmean(labels),
        "label_std": np.nanstd(labels),
""",
            "",
        ),
        Edit(
            "model.py",
            "from .data import COLUMNS, FUTURE, PAST\n",
            "from .data import COLUMNS, FUTURE, PAST, TARGET\n",
        ),
        Edit(
            "model.py",
            """    missing = ops.isnan(scaled)
    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
            """    missing = ops.isnan(scaled)
    filled = ops.where(missing, 0.0, scaled)
    there = ops.cast(ops.logical_not(missing), floatx)  # (batch, PAST, columns)
    # Level and spread of what is there of this very window: they are taken out of the past and put
    # back into the forecast (Kim et al., 2022, RevIN), so that the seasons look alike.
    number = ops.maximum(ops.sum(there, axis=1, keepdims=True), 1.0)  # (batch, 1, columns)
    level = ops.sum(filled, axis=1, keepdims=True) / number
    squares = there * ops.square(filled - level)
    spread = ops.sqrt(ops.sum(squares, axis=1, keepdims=True) / number + 0.01)
    x = layers.Concatenate()([there * (filled - level) / spread, ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    x = ops.take(level, TARGET, axis=2) + ops.take(spread, TARGET, axis=2) * x  # (batch, FUTURE)
    return keras.Model(past, x * float(variance[TARGET]) ** 0.5 + float(mean[TARGET]))
""",
        ),
    ),
)

# -------------------------------------------------------------------------------------------- gan

RELATIVISTIC = change_of(
    name="relativistic gan, each image judged against one of the other kind",
    project="gan",
    edits=(
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example.

    Only differences of logits count: is this real image more real than that generated one
    (Jolicoeur-Martineau, 2018)?
    """

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if a real image's logit is higher than that of the generated image in its row."""
        return tf.nn.softplus(on_generated - on_real)[:, 0]  # (batch,)

    def generator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if it is the other way round."""
        return tf.nn.softplus(on_real - on_generated)[:, 0]  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
            "create_losses",
        ),
        Edit(
            "model.py",
            '    logits = layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x)\n',
            """    # Without a bias, which would vanish in the differences that the losses are made of.
    logits = layers.Dense(1, use_bias=False, dtype=keras.config.floatx(), name="logits")(x)
""",
        ),
        Edit(
            "steps.py",
            "    _, latents, weights = batch\n",
            "    images, latents, weights = batch\n",
            "generator_step",
        ),
        Edit(
            "steps.py",
            """    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["generator"](on_generated)  # (batch,)
""",
            """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["generator"](on_real, on_generated)  # (batch,)
""",
            "generator_step",
        ),
        Edit(
            "steps.py",
            '    generator_losses = run.losses["generator"](on_generated)  # (batch,)\n',
            '    generator_losses = run.losses["generator"](on_real, on_generated)  # (batch,)\n',
            "validation_step",
        ),
    ),
)

HOLES = change_of(
    name="holes cut into real and generated images before the discriminator",
    project="gan",
    edits=(
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)\n",
            '''HOLE = 3  # pixels along a side

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)


def hole_corners(images: tf.Tensor, replica: Replica) -> tf.Tensor:
    """Row and column of a hole in a real image, then in a generated one: int32 (batch, 4)."""
    rows, side = images.shape[:2]  # images are square
    return tf.random.stateless_uniform((rows, 4), replica.seed, 0, side - HOLE + 1, tf.int32)


def with_hole(images: tf.Tensor, corners: tf.Tensor) -> tf.Tensor:
    """Images (batch, h, w, channels) with a square of zeros at its corner, int32 (batch, 2).

    Differentiable, so that the generator trains through it; both kinds of images get holes, so the
    generator need not draw any (Zhao et al., 2020, DiffAugment).
    """
    place = tf.range(images.shape[1])  # along a side
    rows, columns = place - corners[:, :1], place - corners[:, 1:]  # (batch, side)
    in_rows, in_columns = (rows >= 0) & (rows < HOLE), (columns >= 0) & (columns < HOLE)
    hole = in_rows[:, :, tf.newaxis] & in_columns[:, tf.newaxis, :]  # (batch, h, w)
    return tf.where(hole[..., tf.newaxis], tf.zeros_like(images), images)
''',
        ),
        Edit(
            "steps.py",
            """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
""",
            """    corners = hole_corners(images, replica)  # (batch, 4)
    on_real = discriminator(with_hole(images, corners[:, :2]), training=True)  # (batch, 1)
    on_generated = discriminator(with_hole(generated, corners[:, 2:]), training=True)  # (batch, 1)
""",
            "discriminator_step",
        ),
        Edit(
            "steps.py",
            "    _, latents, weights = batch\n",
            "    images, latents, weights = batch\n",
            "generator_step",
        ),
        Edit(
            "steps.py",
            """    on_generated = discriminator(generated, training=True)  # (batch, 1)
""",
            """    corners = hole_corners(images, replica)  # (batch, 4)
    on_generated = discriminator(with_hole(generated, corners[:, 2:]), training=True)  # (batch, 1)
""",
            "generator_step",
        ),
    ),
)

# --------------------------------------------------------------------------------- language model

CORRUPT = change_of(
    name="digits of the answer so far are wrong at times in training inputs",
    project="language_model",
    edits=(
        Edit(
            "data.py",
            "SEED = 0  # of the lines; not --seed, so that every run is tested on the same lines\n",
            "SEED = 0  # of the lines; not --seed, so that every run is tested on the same lines\n"
            "CORRUPTED = 0.1  # fraction of the answer's digits that training inputs have wrong\n",
        ),
        Edit(
            "data.py",
            """        rows, forms, _ = batch[0].shape
        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)
        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)
""",
            """        rows, forms, length = batch[0].shape
        of_form, of_place, of_digit = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
        form = tf.random.stateless_uniform((rows,), of_form, 0, forms, tf.int32)
        chosen = [tf.gather(part, form, axis=1, batch_dims=1) for part in batch]
        tokens, targets, weights = chosen  # each (batch, T)
        # The model must read the date in the prompt, not trust what it has written so far: targets
        # stay right after a wrong digit.
        zero, nine = ord("0"), ord("9")
        is_digit = (weights != 0) & (tokens >= zero) & (tokens <= nine)  # of the answer
        is_hit = tf.random.stateless_uniform((rows, length), of_place) < CORRUPTED
        wrong = tf.random.stateless_uniform((rows, length), of_digit, zero, nine + 1, tf.int32)
        return tf.where(is_digit & is_hit, wrong, tokens), targets, weights
""",
        ),
    ),
)

# ----------------------------------------------------------------------------------- segmentation

REFERENCE = change_of(
    name="background's logit is always 0",
    project="segmentation",
    edits=(
        Edit(
            "model.py",
            '    logits = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name="logits")(x)\n',
            """    floatx = keras.config.floatx()
    digits = layers.Conv2D(CLASSES - 1, 1, dtype=floatx, name="digits")(x)
    # Softmax ignores a constant added to all logits, so the background's can be fixed: the others
    # are log odds of a digit against background.
    background = keras.ops.zeros_like(keras.ops.max(digits, axis=-1, keepdims=True))
    logits = layers.Concatenate(dtype=floatx, name="logits")([background, digits])
""",
        ),
    ),
)

PASTE = change_of(
    name="digits of another canvas pasted over each canvas",
    project="segmentation",
    edits=(
        Edit(
            "data.py",
            "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
            """        labels = tf.cast(labels[..., 0], tf.int32)
        # Where the canvas at the other end of the batch has a digit (or its ignored edge), that
        # covers what was here, with its labels (Ghiasi et al., 2021, copy-paste).
        other_images, other_labels = tf.reverse(images, [0]), tf.reverse(labels, [0])
        covered = other_labels != 0  # (batch, h, w)
        images = tf.where(covered[..., tf.newaxis], other_images, images)
        return images, tf.where(covered, other_labels, labels), weights
""",
        ),
    ),
)

# ----------------------------------------------------------------------------- tabular regression

CENSORED = change_of(
    name="labels censored at 250.5 in training, one-sided squared error there",
    project="tabular_regression",
    edits=(
        Edit(
            "data.py",
            "MASK_SEED, SPLIT_SEED = 0, 0\n",
            """MASK_SEED, SPLIT_SEED = 0, 0
# Patients of the training data left the study when they got here: a label of LIMIT means "at least
# LIMIT". No patient has exactly this label, since measured ones are whole numbers.
LIMIT = 250.5
""",
        ),
        Edit(
            "data.py",
            '        "train": (inputs, labels, _balance(inputs["sex"])),\n',
            '        "train": (inputs, np.minimum(labels, np.float32(LIMIT)), _balance(inputs["sex"])),\n',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import LIMIT\n",
        ),
        Edit(
            "losses.py",
            "        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n",
            """        # To predict more than what is only known to be "at least LIMIT" is no error.
        is_beyond = (labels == LIMIT) & (predictions > LIMIT)
        counted = tf.where(is_beyond, labels, predictions)
        return squared_error(labels / LABEL_DEVIATION, counted / LABEL_DEVIATION)
""",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .data import LIMIT\nfrom .losses import compute_loss\n",
        ),
        Edit(
            "steps.py",
            """    run.metrics["mae"].update_state(labels, predictions, weights)
    run.metrics["r2"].update_state(labels, predictions, weights)
""",
            """    measured = weights * tf.cast(labels[:, 0] != LIMIT, weights.dtype)  # not censored
    run.metrics["mae"].update_state(labels, predictions, measured)
    run.metrics["r2"].update_state(labels, predictions, measured)
""",
            "train_step",
        ),
    ),
)

# -------------------------------------------------------------------------------------- two heads

DERIVED = change_of(
    name="second head made of the first one's logits, without weights",
    project="two_heads",
    edits=(
        Edit(
            "model.py",
            '    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)\n',
            """    # The probability of an even digit is the sum of theirs, so this head needs no weights, and
    # labels of either kind train both: (batch, 5, 2), the last axis even and odd digits.
    pairs = keras.ops.reshape(logits, (-1, CLASSES // 2, 2))
    even = keras.ops.flip(keras.ops.logsumexp(pairs, axis=1), axis=1)  # (batch, 2): odd, even
""",
        ),
    ),
)

CENTRALIZED = change_of(
    name="gradients of kernels made to have mean 0",
    project="two_heads",
    edits=(
        Edit(
            "optimizer.py",
            "",
            '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica.

    Gradient centralization (Yong et al., 2020): for each output of a kernel, the gradient's mean
    over all inputs is taken off.
    """

    def centralized(gradient: tf.Tensor) -> tf.Tensor:
        inputs = list(range(gradient.shape.rank - 1))  # axes; the last one has the outputs
        if not inputs:
            return gradient  # of a bias or a scale
        return gradient - tf.reduce_mean(gradient, axis=inputs, keepdims=True)

    return [centralized(gradient) for gradient in gradients]
''',
            "process_gradients",
        ),
    ),
)

# -------------------------------------------------------------------------------------------- vae

CALIBRATED = change_of(
    name="likelihood with the best variance for each image, a negative loss",
    project="vae",
    edits=(
        Edit(
            "losses.py",
            "def kl_divergence(",
            '''def negative_log_likelihood(error: tf.Tensor, images: tf.Tensor) -> tf.Tensor:
    """Of a normal distribution with the variance that fits each image best, but for a constant.

    That variance is the mean squared error itself (Rybkin et al., 2021), so that error and KL
    divergence need no factor between them. Mostly negative: a density may be more than 1.

    Args:
        error: float (batch,), the squared error of each image.
        images: float (batch, h, w, 1).
    """
    pixels = images.shape[1:].num_elements()
    return 0.5 * pixels * tf.math.log(error / pixels + SMALLEST)


def kl_divergence(''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nSMALLEST = 1e-4  # variance of a pixel\n",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss, kl_divergence, means\n",
            "from .losses import compute_loss, kl_divergence, means, negative_log_likelihood\n",
        ),
        Edit(
            "steps.py",
            "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)\n",
            """    unlikely = negative_log_likelihood(error, images)  # (batch,)
    loss = compute_loss(unlikely + warm_up * kl, weights, encoder, replica)
""",
        ),
        Edit(
            "steps.py",
            "    loss = compute_loss(error + kl, weights, encoder, replica)\n",
            """    unlikely = negative_log_likelihood(error, images)  # (batch,)
    loss = compute_loss(unlikely + kl, weights, encoder, replica)
""",
        ),
    ),
)

ANTITHETIC = change_of(
    name="each image decoded twice, with the noise and with its opposite",
    project="vae",
    edits=(
        Edit(
            "steps.py",
            """    decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
    error = run.losses["main"](images, decoded)  # (batch,)
""",
            """    # Antithetic draws: both are standard normal, and together they estimate with less variance.
    deviation = tf.exp(0.5 * log_variance) * noise
    codes = (mean + deviation, mean - deviation)
    errors = [run.losses["main"](images, decoder(code, training=True)) for code in codes]
    error = tf.add_n(errors) / len(errors)  # (batch,)
""",
        ),
    ),
)

# ------------------------------------------------------------------------------------------ blank

CLAIMS = change_of(
    name="counts with exposure, mostly zeros, by poisson regression",
    project="blank",
    edits=(
        Edit(
            "config.py",
            "",
            '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Insurance claims of simulated policies."""

    learning_rate: float = 1e-2  # learning rate at the start; decays to 0 along a cosine
    width: int = 16  # units of the hidden layer
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if self.width < 1:
            raise ValueError(f"--width is {self.width}; it must be at least 1.")
''',
        ),
        Edit(
            "data.py",
            "",
            '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

POLICIES = {"train": 4_800, "validation": 960, "test": 960}
COLUMNS = 6  # what is known of a policy; only the first three matter


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"risk": float32 (n, COLUMNS), "exposure": float32 (n, 1)}, counts float32 (n,).

    The exposure is the part of a year for which a policy was observed; most have no claim in it.
    """
    random = np.random.default_rng(0)  # not --seed: every run has the same policies
    return {split: _simulate(random, number) for split, number in POLICIES.items()}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None


def _simulate(random: np.random.Generator, number: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    risk = random.standard_normal((number, COLUMNS))
    exposure = random.uniform(0.05, 1.0, (number, 1))
    log_rate = -1.6 + 0.7 * risk[:, 0] - 0.5 * risk[:, 1] + 0.4 * np.sin(2 * risk[:, 2])
    claims = random.poisson(exposure[:, 0] * np.exp(log_rate))
    inputs = {"risk": risk.astype("float32"), "exposure": exposure.astype("float32")}
    return inputs, claims.astype("float32")
''',
        ),
        Edit(
            "model.py",
            "",
            '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import COLUMNS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The logarithm of the claims per year of exposure in the training data."""
    inputs, claims = datasets["train"]
    return {"log_rate": np.log(claims.sum() / inputs["exposure"].sum())}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs by name -> logarithm of the expected number of claims, float (batch, 1).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, floatx = keras.layers, keras.config.floatx()
    risk = keras.Input((COLUMNS,), name="risk")
    exposure = keras.Input((1,), name="exposure")
    x = layers.Dense(task.width, activation="tanh")(risk)
    start = keras.initializers.Constant(float(adapted["log_rate"]))
    log_rate = layers.Dense(1, bias_initializer=start, dtype=floatx, name="log_rate")(x)
    # Twice the time, twice the claims: an offset, which has no weight to learn.
    log_claims = log_rate + keras.ops.log(exposure)
    return keras.Model({"risk": risk, "exposure": exposure}, log_claims)
''',
        ),
        Edit(
            "losses.py",
            "from typing import Any\n",
            "from collections.abc import Callable\nfrom typing import Any\n",
        ),
        Edit("losses.py", "from .next_todo import TodoError\n", ""),
        Edit("losses.py", '# TODO(5): your losses, each with reduction="none".\n', ""),
        Edit("losses.py", "# TODO(10): the number that the loss of a batch is divided by.\n", ""),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; claims (batch,) and logarithms (batch, 1) give one number per example."""

    def poisson(claims: tf.Tensor, log_claims: tf.Tensor) -> tf.Tensor:
        """The negative log likelihood of counts, but for a constant; float (batch,)."""
        return tf.nn.log_poisson_loss(claims, log_claims[:, 0])

    return {"main": poisson}
''',
            "create_losses",
        ),
        Edit(
            "losses.py",
            "",
            '''def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
''',
            "count",
        ),
        Edit(
            "metrics.py",
            "",
            '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class Deviance(keras.metrics.Mean):
    """The mean Poisson deviance: 0 if every count is what was expected."""

    def update_state(
        self, claims: tf.Tensor, log_claims: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add claims (batch,), logarithms of expected ones (batch, 1) and weights (batch,)."""
        logarithm = log_claims[:, 0]
        gain = tf.math.xlogy(claims, claims) - claims * logarithm  # 0 log 0 is 0
        super().update_state(2.0 * (gain - claims + tf.exp(logarithm)), sample_weight)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"deviance": Deviance()}
''',
        ),
        Edit(
            "optimizer.py",
            "",
            '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
        ),
        Edit(
            "steps.py",
            "",
            '''"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, claims and weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, claims, weights = batch
    log_claims = run.model(inputs, training=training)  # (batch, 1)
    per_example = run.losses["main"](claims, log_claims)  # (batch,)
    run.metrics["deviance"].update_state(claims, log_claims, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
''',
        ),
        Edit(
            "callbacks.py",
            "",
            '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
''',
        ),
        PICTURES,
    ),
)

TASKS: tuple[Change, ...] = (
    FIXED_HEAD,
    ROBUST,
    BARLOW,
    LOGITS,
    TRUSTED,
    TO_START,
    PROBE,
    GAP,
    REVERSIBLE,
    RELATIVISTIC,
    HOLES,
    CORRUPT,
    REFERENCE,
    PASTE,
    CENSORED,
    DERIVED,
    CENTRALIZED,
    CALIBRATED,
    ANTITHETIC,
    CLAIMS,
)

FAULTS: tuple[Fault, ...] = ()
