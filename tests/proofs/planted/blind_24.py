"""Faults of a twenty-sixth examiner, in tasks of its own and of owners; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

# ---------------------------------------------------------------- image_classification

MIXUP_AUGMENT = '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

    The batch has the parts that a train step gets, weights last; the seed is int64 (2,), different
    in each step. Labels become probabilities float (batch, classes).
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        rows = images.shape[0]
        seeds = tf.random.experimental.stateless_split(seed, 4)  # one for each draw
        shifts = tf.random.stateless_uniform((rows, 2), seeds[0], -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        # Mixup (Zhang et al., 2018): each image with a share of another one, and so its label.
        share = tf.random.stateless_uniform((rows, 1), seeds[1], dtype=images.dtype)
        targets = tf.one_hot(labels, CLASSES, dtype=images.dtype)  # (batch, classes)
        others, their_targets = _shuffled(images, seeds[2]), _shuffled(targets, seeds[3])
        of_image = share[:, :, tf.newaxis, tf.newaxis]  # (batch, 1, 1, 1)
        images = of_image * images + (1.0 - of_image) * others
        return images, share * targets + (1.0 - share) * their_targets, weights

    return augment


def _shuffled(values: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """The rows in a random order."""
    return tf.gather(values, tf.argsort(tf.random.stateless_uniform((values.shape[0],), seed)))
'''

mixup = fault_in(
    name="mixup partners of images and labels differ",
    project="image_classification",
    edits=(
        Edit(
            "data.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .model import CLASSES\n",
        ),
        Edit("data.py", "", MIXUP_AUGMENT, "create_augment"),
        Edit(
            "losses.py",
            '    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}\n',
            '    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")\n'
            '    mixed = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")\n'
            '    return {"main": entropy, "mixed": mixed}\n',
        ),
        Edit(
            "steps.py",
            "    images, labels, weights = batch\n"
            "    predictions = run.model(images, training=True)  # (batch, classes)\n"
            '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n'
            '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n',
            "    images, targets, weights = batch  # targets (batch, classes), mixed\n"
            "    predictions = run.model(images, training=True)  # (batch, classes)\n"
            '    per_example = run.losses["mixed"](targets, predictions)  # (batch,)\n'
            '    run.metrics["accuracy"].update_state(tf.argmax(targets, axis=1), predictions, weights)\n',
            "train_step",
        ),
    ),
    kind="augmentation",
    cause="Mixup shuffles the images with one seed and the labels with another, so the second image of a mixture and "
    "the second label belong to different examples.",
    file="data.py",
    named=r"mix-?up|shuffl|partner|permut|seeds?\[[23]\]|different (order|seed)|mis-?(match|align)|wrong label|label.*(not|don't|doesn't) (match|belong|fit)",
)

focal = fault_in(
    name="focal factor from the largest probability",
    project="image_classification",
    edits=(
        Edit(
            "losses.py",
            "from typing import Any\n",
            "from collections.abc import Callable\nfrom typing import Any\n",
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nFOCUS = 2.0  # how much less examples count that are easy; 0: cross-entropy\n",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def focal(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Cross-entropy, smaller for easy examples (Lin et al., 2017): (batch,)."""
        probability = tf.reduce_max(tf.nn.softmax(logits), axis=-1)  # (batch,)
        return tf.pow(1.0 - probability, FOCUS) * entropy(labels, logits)

    return {"main": focal}
''',
            "create_losses",
        ),
    ),
    kind="loss",
    cause="The focal factor (1 - p)^2 takes p as the largest probability of any class and not as the probability of the label, so "
    "examples that are confidently wrong have almost no loss.",
    file="losses.py",
    named=r"focal|reduce_max|largest probab|max(imum|imal)? probab|true class|of the label|confiden(t|ce)",
)

stopping = fault_in(
    name="early stopping takes lower accuracy as better",
    project="image_classification",
    edits=(
        Edit(
            "callbacks.py",
            "from ..engine.callbacks import Callback\n",
            "import keras\n\nfrom ..engine.callbacks import Callback\nfrom ..engine.keras_callbacks import keras_callback\n",
        ),
        Edit(
            "callbacks.py",
            "    return []\n",
            '    stopping = keras.callbacks.EarlyStopping(monitor="val_accuracy", mode="min", patience=4)\n'
            "    return [keras_callback(stopping)]\n",
        ),
    ),
    kind="callbacks",
    cause='EarlyStopping monitors the validation accuracy with mode="min", so every epoch in which it rises counts as no improvement.',
    file="callbacks.py",
    named=r'early.?stop|mode|"?min"?\b.*accuracy|stops? (too )?early|direction|patience',
)

decay = fault_in(
    name="weight decay with the wrong sign",
    project="image_classification",
    edits=(
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nDECAY = 1e-2  # of the kernels\n",
        ),
        Edit(
            "optimizer.py",
            "",
            '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, with weight decay of the kernels."""
    decayed = []
    for gradient, variable in zip(gradients, variables, strict=True):
        if variable.name == "kernel":
            gradient -= DECAY * tf.convert_to_tensor(variable.value)
        decayed.append(gradient)
    return decayed
''',
            "process_gradients",
        ),
    ),
    kind="optimizer",
    cause="The weight decay is subtracted from the gradient, which the optimizer subtracts once more: weights are pushed away from 0.",
    file="optimizer.py",
    named=r"sign|weight decay|minus|subtract|away from (0|zero)|weights? (norm )?grow|process_gradients",
)

# ---------------------------------------------------------------- gan

conditional = fault_in(
    name="class labels in another order than the repeated images",
    project="gan",
    edits=(
        Edit(
            "data.py",
            'DIGITS = Path(__file__).with_name("digits.npz")\n',
            'DIGITS = Path(__file__).with_name("digits.npz")\nCLASSES = 10\n',
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, 8, 8, 1) in [0, 1]; in training with their classes int64 (n,).

    In evaluation with codes float32 (n, latent + CLASSES): a latent, and the class of the image.
    Evaluation uses the same codes in every epoch and run, so that its results depend on the
    weights only. In training `create_augment` draws new latents for each step.
    """
    images, labels = load_digits("train")
    validation, validation_labels = load_digits("validation")
    test, test_labels = load_digits("test")
    random = np.random.default_rng(0)
    return {
        "train": (np.tile(images, (task.passes, 1, 1, 1)), np.repeat(labels, task.passes)),
        "validation": (validation, _codes(random, validation_labels, task)),
        "test": (test, _codes(random, test_labels, task)),
    }
''',
            "create_datasets",
        ),
        Edit(
            "data.py",
            "        images, weights = batch\n"
            "        shape = (images.shape[0], task.latent)\n"
            "        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights\n",
            "        images, labels, weights = batch\n"
            "        shape, floatx = (images.shape[0], task.latent), keras.config.floatx()\n"
            "        latents = tf.random.stateless_normal(shape, seed, dtype=floatx)\n"
            "        classes = tf.one_hot(labels, CLASSES, dtype=floatx)\n"
            "        return images, tf.concat([latents, classes], axis=1), weights\n",
        ),
        Edit(
            "data.py",
            "",
            '''def _codes(random: np.random.Generator, labels: np.ndarray, task: TaskConfig) -> np.ndarray:
    """Latents, and classes as one-hot vectors, float32 (n, latent + CLASSES)."""
    latents = random.standard_normal((len(labels), task.latent), "float32")
    return np.concatenate([latents, np.eye(CLASSES, dtype="float32")[labels]], axis=1)
''',
            "_latents",
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import CLASSES\n",
        ),
        Edit(
            "model.py",
            '    return {"shape": first_examples(datasets["train"], 1).shape[1:]}\n',
            '    images, *_ = first_examples(datasets["train"], 1)\n    return {"shape": images.shape[1:]}\n',
        ),
        Edit(
            "model.py",
            '    latents = keras.Input((task.latent,), name="latents")\n',
            '    latents = keras.Input((task.latent + CLASSES,), name="latents")  # the class is at the end\n',
        ),
        Edit(
            "model.py",
            '    images = keras.Input((height, width, channels), name="images")\n',
            "    # An image, and a channel for each class, 1 for that of the image.\n"
            '    images = keras.Input((height, width, channels + CLASSES), name="images")\n',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .data import CLASSES\nfrom .losses import compute_loss\n",
        ),
        Edit(
            "steps.py",
            "discriminator(images, training",
            "discriminator(_of_class(images, latents), training",
            "*",
        ),
        Edit(
            "steps.py",
            "discriminator(generated, training",
            "discriminator(_of_class(generated, latents), training",
            "*",
        ),
        Edit(
            "steps.py",
            "TRAIN_STEPS = (discriminator_step, generator_step)",
            '''def _of_class(images: tf.Tensor, latents: tf.Tensor) -> tf.Tensor:
    """Images with the class that the latents ask for, (batch, h, w, channels + CLASSES)."""
    classes = latents[:, tf.newaxis, tf.newaxis, -CLASSES:] * tf.ones_like(images)
    return tf.concat([images, classes], axis=-1)


TRAIN_STEPS = (discriminator_step, generator_step)''',
        ),
        Edit(
            "pictures.py",
            '    _save(first_examples(datasets["train"], ROWS * COLUMNS), file)\n',
            '    images, *_ = first_examples(datasets["train"], ROWS * COLUMNS)\n    _save(images, file)\n',
        ),
        Edit(
            "pictures.py",
            '    known = first_examples(datasets["train"], KNOWN)\n',
            '    known, *_ = first_examples(datasets["train"], KNOWN)\n',
        ),
        Edit(
            "pictures.py",
            "",
            '''def _latents(run: Run, number: int) -> np.ndarray:
    """The same in every call, float32 (number, latent + CLASSES): each class in turn."""
    size = (number, run.models["generator"].input_shape[-1] - CLASSES)
    latents = np.random.default_rng(0).standard_normal(size, "float32")
    classes = np.eye(CLASSES, dtype="float32")[np.arange(number) % CLASSES]
    return np.concatenate([latents, classes], axis=1)
''',
            "_latents",
        ),
    ),
    kind="labels",
    cause="The training images are repeated with np.tile (all of them, then all again) and their labels with np.repeat (each one "
    "several times in a row), so the labels belong to other images.",
    file="data.py",
    named=r"np\.(repeat|tile)|\brepeat|\btile|order of (the )?labels|labels?.*(mis-?match|mis-?align|shuffled|another order|wrong|other image|unrelated)|(mis-?match|mis-?align)",
)

hinge = fault_in(
    name="generator loss of the hinge gan lacks its minus",
    project="gan",
    edits=(
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example. Hinge (Lim & Ye, 2017)."""

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """0 if the logits are above 1 on real images and below -1 on generated ones: (batch,)."""
        margins = tf.nn.relu(1.0 - on_real) + tf.nn.relu(1.0 + on_generated)  # (batch, 1)
        return tf.reduce_mean(margins, axis=1)

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """The logits on generated images, without a margin: (batch,)."""
        return tf.reduce_mean(on_generated, axis=1)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
            "create_losses",
        ),
    ),
    kind="loss",
    cause="The generator minimizes the discriminator's logits on generated images instead of maximizing them (the minus is missing), so it "
    "learns to be recognized as generated.",
    file="losses.py",
    named=r"sign|minus|negat|maximi[sz]|minimi[sz]e|generator.?(loss|'s loss)|opposite|revers|fool|mislead",
)

holes = fault_in(
    name="only real images are erased in part",
    project="gan",
    edits=(
        Edit(
            "data.py",
            'DIGITS = Path(__file__).with_name("digits.npz")\n',
            'DIGITS = Path(__file__).with_name("digits.npz")\nHOLE = 3  # pixels of a side of the square that is erased\n',
        ),
        Edit(
            "data.py",
            "        images, weights = batch\n"
            "        shape = (images.shape[0], task.latent)\n"
            "        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights\n",
            "        images, weights = batch\n"
            "        rows, height, width = images.shape[:3]\n"
            "        # So that the discriminator doesn't learn the few images by heart (DeVries & Taylor, 2017).\n"
            "        own = tf.random.experimental.stateless_fold_in(seed, 1)\n"
            "        corners = tf.random.stateless_uniform((rows, 2), own, 0, height - HOLE + 1, tf.int32)\n"
            "        top, left = tf.split(corners, 2, axis=1)  # each (batch, 1)\n"
            "        y, x = tf.range(height) - top, tf.range(width) - left  # (batch, h), (batch, w)\n"
            "        in_rows, in_columns = (y >= 0) & (y < HOLE), (x >= 0) & (x < HOLE)\n"
            "        hole = in_rows[:, :, tf.newaxis] & in_columns[:, tf.newaxis, :]  # (batch, h, w)\n"
            "        images = tf.where(hole[..., tf.newaxis], tf.zeros_like(images), images)\n"
            "        shape = (rows, task.latent)\n"
            "        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights\n",
        ),
    ),
    kind="augmentation",
    cause="Cutout is applied to real training images only and not to generated ones before the discriminator, so images with holes are what "
    "the generator has to imitate.",
    file="data.py",
    named=r"cut-?out|erase|hole|only (the )?real|real (images? )?only|augment.*(generated|fake|both)|(generated|fake).*augment|differentiable augment|leak",
)

# ---------------------------------------------------------------- tabular_regression

gaussian = fault_in(
    name="log variance without its half in the likelihood",
    project="tabular_regression",
    edits=(
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; labels and outputs give one number per example."""

    def gaussian(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The negative log-likelihood of standardized labels, up to a constant.

        Labels (batch, 1) in units of the data, outputs (batch, 2): the mean in units of the data,
        and the log variance of the standardized label -> (batch,).
        """
        error = (labels - outputs[:, :1]) / LABEL_DEVIATION
        log_variance = outputs[:, 1:]
        return tf.squeeze(0.5 * tf.square(error) * tf.exp(-log_variance) + log_variance, axis=1)

    return {"main": gaussian}


def covered(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """1 for each label in its interval of 90%, else 0: float (batch,)."""
    deviation = LABEL_DEVIATION * tf.exp(0.5 * outputs[:, 1])
    distance = tf.abs(labels[:, 0] - outputs[:, 0])
    return tf.cast(distance <= 1.645 * deviation, outputs.dtype)
''',
            "create_losses",
        ),
        Edit(
            "metrics.py",
            '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}\n',
            "    mae, coverage = keras.metrics.MeanAbsoluteError(), keras.metrics.Mean()\n"
            '    return {"mae": mae, "r2": r2, "coverage": coverage}\n',
        ),
        Edit(
            "model.py",
            "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n",
            "    x = layers.Dense(2, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 2)\n",
        ),
        Edit(
            "model.py",
            "    return keras.Model(inputs, unscale(x))\n",
            "    # The mean, and the log variance of a standardized label.\n"
            "    outputs = layers.Concatenate(dtype=floatx)([unscale(x[:, :1]), x[:, 1:]])\n"
            "    return keras.Model(inputs, outputs)\n",
        ),
        Edit(
            "model.py",
            '"sex": int64 (batch,)} -> float32 (batch, 1).',
            '"sex": int64 (batch,)} -> float32 (batch, 2).',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss, covered\n",
        ),
        Edit(
            "steps.py",
            "    predictions = run.model(inputs, training=True)  # (batch, 1)\n",
            "    outputs = run.model(inputs, training=True)  # (batch, 2): mean, log variance\n"
            "    predictions = outputs[:, :1]\n",
        ),
        Edit(
            "steps.py",
            "    predictions = run.model(inputs, training=False)  # (batch, 1)\n",
            "    outputs = run.model(inputs, training=False)  # (batch, 2): mean, log variance\n"
            "    predictions = outputs[:, :1]\n",
            "*",
        ),
        Edit(
            "steps.py",
            'run.losses["main"](labels, predictions)',
            'run.losses["main"](labels, outputs)',
            "*",
        ),
        Edit(
            "steps.py",
            '    run.metrics["r2"].update_state(labels, predictions, weights)\n',
            '    run.metrics["r2"].update_state(labels, predictions, weights)\n'
            '    run.metrics["coverage"].update_state(covered(labels, outputs), weights)\n',
            "*",
        ),
    ),
    kind="loss",
    cause="The Gaussian negative log-likelihood has half of the squared error but the whole log variance (0.5 is missing), so it is smallest at half "
    "of the true variance.",
    file="losses.py",
    named=r"log.?variance|0\.5|half|factor (of )?(2|two)|likelihood|variance.*(small|under|half)|under-?estimat|over-?confident|nll",
)

COX_STEPS = '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)
'''
COX_VALIDATION = '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)
'''
COX_TEST = '''def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The loss of this replica's rows among those of all replicas; updates the concordance."""
    inputs, labels, weights = batch
    scores = run.model(inputs, training=training)  # (batch, 1)
    all_labels, all_scores = replica.all_gather(labels), replica.all_gather(scores)
    everyone = all_labels, all_scores, replica.all_gather(weights)
    per_example = run.losses["main"](labels, scores, everyone)  # (batch,)
    right, comparable = concordance(labels, scores, everyone)  # each (batch, all)
    run.metrics["concordance"].update_state(right, comparable * weights[:, tf.newaxis])
    return {"main": compute_loss(per_example, weights, run.model, replica)}
'''

survival = fault_in(
    name="risk set of those who had their event before",
    project="tabular_regression",
    edits=(
        Edit(
            "data.py",
            "MASK_SEED, SPLIT_SEED = 0, 0\n",
            "MASK_SEED, SPLIT_SEED, CENSOR_SEED = 0, 0, 0\n"
            "FOLLOW_UP = (100.0, 400.0)  # when patients leave the study, if there was no event\n",
        ),
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (inputs, labels).

    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels
    float32 (n, 2): a time, and 1 if the event was at that time, 0 if the patient left before it.
    The target of the source is taken as the time of the event.
    """
    columns, data, target = _load()
    category = columns.index(CATEGORY)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))
    is_test = np.arange(len(data)) % FOLDS == task.fold
    test, rest = order[is_test], order[~is_test]
    is_validation = np.arange(len(rest)) % VALIDATION == 0
    left = np.random.default_rng(CENSOR_SEED).uniform(*FOLLOW_UP, len(target))

    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numeric = np.delete(data[rows], category, axis=1)
        sex = data[rows, category].astype(np.int64)
        times, seen = np.minimum(target, left)[rows], (target <= left)[rows]
        return {"numeric": numeric, "sex": sex}, np.stack([times, seen], axis=1).astype(np.float32)

    return {
        "train": examples(rest[~is_validation]),
        "validation": examples(rest[is_validation]),
        "test": examples(test),
    }
''',
            "create_datasets",
        ),
        Edit(
            "data.py",
            '''    return columns, data, target


def _balance(categories: np.ndarray) -> np.ndarray:
    """Weights float32 (n,) that make the sum of weights the same for each category."""
    _, index, counts = np.unique(categories, return_inverse=True, return_counts=True)
    # Their mean is 1, so the loss can be divided by the number of examples.
    return (len(categories) / (len(counts) * counts[index])).astype(np.float32)
''',
            "    return columns, data, target\n",
        ),
        Edit(
            "losses.py",
            "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n",
            "Everyone = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # labels, scores, weights of all replicas\n",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; labels and scores give one number per example."""

    def partial_likelihood(labels: tf.Tensor, scores: tf.Tensor, everyone: Everyone) -> tf.Tensor:
        """The negative log of Cox's partial likelihood, (batch,); 0 where no event was seen.

        An event counts by the share of its patient in the risk of all patients at risk.

        Args:
            labels: time, and whether the event was seen, float (batch, 2).
            scores: log risks, float (batch, 1).
            everyone: the patients of the global batch.
        """
        all_labels, all_scores, all_weights = everyone
        at_risk = all_labels[tf.newaxis, :, 0] <= labels[:, :1]  # (batch, all)
        at_risk &= all_weights > 0
        risks = tf.where(at_risk, all_scores[tf.newaxis, :, 0], -1e9)  # (batch, all)
        return labels[:, 1] * (tf.reduce_logsumexp(risks, axis=1) - scores[:, 0])

    return {"main": partial_likelihood}


def concordance(
    labels: tf.Tensor, scores: tf.Tensor, everyone: Everyone
) -> tuple[tf.Tensor, tf.Tensor]:
    """For each pair whether the one with the earlier event has the higher risk; and its weight."""
    all_labels, all_scores, all_weights = everyone
    right = tf.cast(scores > all_scores[tf.newaxis, :, 0], scores.dtype)  # (batch, all)
    comparable = (labels[:, :1] < all_labels[tf.newaxis, :, 0]) & (labels[:, 1:] > 0)
    return right, tf.cast(comparable, scores.dtype) * all_weights
''',
            "create_losses",
        ),
        Edit("metrics.py", "import keras\nimport tensorflow as tf\n", "import keras\n"),
        Edit(
            "metrics.py",
            "",
            '''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The share of pairs in a batch that the scores put in the right order."""
    return {"concordance": keras.metrics.Mean()}
''',
            "create_metrics",
        ),
        Edit(
            "model.py",
            '    inputs, labels, _ = datasets["train"]\n',
            '    inputs, _ = datasets["train"]\n',
        ),
        Edit(
            "model.py",
            '        "label_mean": labels.mean(axis=0),\n        "label_variance": labels.var(axis=0),\n',
            "",
        ),
        Edit(
            "model.py",
            "    Numeric inputs may be NaN. Inputs and predictions are in units of the data, so the exported\n"
            "    model needs no scaling around it.\n",
            "    Numeric inputs may be NaN, and are in units of the data. What comes out is the log risk.\n",
        ),
        Edit(
            "model.py",
            '    mean, variance = adapted["label_mean"], adapted["label_variance"]\n'
            "    unscale = layers.Normalization(\n"
            '        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"\n'
            "    )\n"
            "    return keras.Model(inputs, unscale(x))\n",
            "    return keras.Model(inputs, x)\n",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss, concordance\n",
        ),
        Edit(
            "steps.py",
            "# inputs, labels (batch, 1), weights\n",
            "# inputs, labels (batch, 2), weights\n",
        ),
        Edit("steps.py", "", COX_STEPS, "train_step"),
        Edit("steps.py", "", COX_VALIDATION, "validation_step"),
        Edit("steps.py", "", COX_TEST, "test_step"),
        Edit("steps.py", "EXAMPLES_INTERACT = False", "EXAMPLES_INTERACT = True"),
        Edit(
            "predictions.py",
            '    return {"progression": np.asarray(outputs)[:, 0]}\n',
            '    return {"log_risk": np.asarray(outputs)[:, 0]}\n',
        ),
        Edit(
            "pictures.py",
            "",
            '''def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw the risk against the time, for the first examples of the test, if there are any."""
    split = drawn_split(datasets)
    inputs, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)
    scores, seen = predict_in_parts(run.model, inputs)[:, 0], labels[:, 1] > 0
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    for rows, marker, label in ((seen, ".", "event"), (~seen, "x", "left before it")):
        axes.plot(labels[rows, 0], scores[rows], marker, label=label)
    axes.set(xlabel="time", ylabel="log risk", title=f"{split} patients")
    axes.legend()
    save(figure, file)
''',
            "draw_predictions",
        ),
    ),
    kind="loss",
    cause="The risk set of an event holds patients whose time is at most that of the event (<=) instead of those still at risk (>=).",
    file="losses.py",
    named=r"risk set|at.?risk|<=|>=|concordance|revers|invert|wrong (order|direction|way)|partial likelihood|cox",
)

neighbors = fault_in(
    name="nearest patients of a training row include itself",
    project="tabular_regression",
    edits=(
        Edit(
            "data.py",
            "VALIDATION = 8  # every eighth row that isn't test data\n",
            "VALIDATION = 8  # every eighth row that isn't test data\n"
            'SIMILAR = ("age", "bmi", "s4", "s5")  # columns that say how similar patients are; never missing\n'
            "NEAREST = 3  # similar patients of the training data, whose mean label is an input\n",
        ),
        Edit(
            "data.py",
            '    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels\n'
            "    float32 (n, 1), weights float32 (n,) with a mean of 1.\n",
            '    Inputs are {"neighbors": float32 (n, 1), "numeric": float32 (n, columns), NaN where missing;\n'
            '    "sex": int64 (n,)}, labels float32 (n, 1), weights float32 (n,) with a mean of 1.\n',
        ),
        Edit(
            "data.py",
            "    is_validation = np.arange(len(rest)) % VALIDATION == 0\n",
            "    is_validation = np.arange(len(rest)) % VALIDATION == 0\n"
            "    train = rest[~is_validation]\n"
            "    neighbors = _labels_of_nearest(columns, data, target, train)\n",
        ),
        Edit(
            "data.py",
            '        return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]\n\n'
            "    inputs, labels = examples(rest[~is_validation])\n",
            "        near = neighbors[rows, np.newaxis]\n"
            '        return {"neighbors": near, "numeric": numeric, "sex": sex}, target[rows, np.newaxis]\n\n'
            "    inputs, labels = examples(train)\n",
        ),
        Edit(
            "data.py",
            "def _balance(categories",
            '''def _labels_of_nearest(
    columns: list[str], data: np.ndarray, target: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """The mean label of the patients among the rows `known` that are most similar, float32 (n,)."""
    values = data[:, [columns.index(name) for name in SIMILAR]]
    values = (values - values[known].mean(axis=0)) / values[known].std(axis=0)
    squares = np.square(values[:, np.newaxis] - values[known]).sum(axis=-1)  # (n, known)
    nearest = np.argsort(squares, axis=1)[:, :NEAREST]  # (n, NEAREST)
    return target[known][nearest].mean(axis=1)


def _balance(categories''',
        ),
        Edit(
            "model.py",
            '    inputs = {\n        "numeric": keras.Input(',
            '    inputs = {\n        "neighbors": keras.Input((1,), dtype="float32", name="neighbors"),\n        "numeric": keras.Input(',
        ),
        Edit(
            "model.py",
            "    x = layers.Concatenate()([numeric, ops.cast(missing, floatx), sex])  # (batch, features)\n",
            "    # The labels of similar patients, on the scale of the labels.\n"
            '    mean, variance = adapted["label_mean"], adapted["label_variance"]\n'
            '    near = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(inputs["neighbors"])\n'
            "    x = layers.Concatenate()([numeric, ops.cast(missing, floatx), sex, near])  # (batch, features)\n",
        ),
        Edit(
            "predictions.py",
            'READERS: dict[str, Callable[[Path, keras.Model], Any]] = {".csv": read_table}\n',
            "READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}\n",
        ),
        Edit(
            "pictures.py",
            '        changed = {"numeric": copies["numeric"].copy(), CATEGORY: copies[CATEGORY]}\n',
            '        changed = copies | {"numeric": copies["numeric"].copy()}\n',
        ),
    ),
    kind="leak",
    cause="The input `neighbors` of a training row is the mean label of its nearest training rows, of which the nearest is the row itself, so a third of it is the row's own label.",
    file="data.py",
    named=r"itself|its own|own label|self|leak|neighbou?r|nearest|leave.?one.?out|target encod|label.*(in|as) (the |an )?input",
)

quantiles = fault_in(
    name="quantile loss with the error turned around",
    project="tabular_regression",
    edits=(
        Edit(
            "losses.py",
            "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n",
            "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n"
            "QUANTILES = (0.1, 0.5, 0.9)  # outputs of the model\n",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), a prediction for each quantile (batch, quantiles) -> float (batch,).

        Standardized, since gradients in units of the data would overflow in float16.
        """
        error = (predictions - labels) / LABEL_DEVIATION  # (batch, quantiles)
        levels = tf.constant(QUANTILES, error.dtype)
        return tf.reduce_mean(tf.maximum(levels * error, (levels - 1.0) * error), axis=1)

    return {"main": pinball}
''',
            "create_losses",
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .losses import QUANTILES\n",
        ),
        Edit(
            "model.py",
            '"sex": int64 (batch,)} -> float32 (batch, 1).',
            '"sex": int64 (batch,)} -> (batch, quantiles).',
        ),
        Edit(
            "model.py",
            "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n"
            '    mean, variance = adapted["label_mean"], adapted["label_variance"]\n'
            "    unscale = layers.Normalization(\n"
            '        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"\n'
            "    )\n"
            "    return keras.Model(inputs, unscale(x))\n",
            "    x = layers.Dense(len(QUANTILES), dtype=floatx)(layers.Concatenate()([x, hidden]))\n"
            '    center, deviation = adapted["label_mean"].item(), adapted["label_variance"].item() ** 0.5\n'
            "    return keras.Model(inputs, x * deviation + center)  # (batch, quantiles)\n",
        ),
        Edit(
            "steps.py",
            "    predictions = run.model(inputs, training=True)  # (batch, 1)\n",
            "    quantiles = run.model(inputs, training=True)  # (batch, quantiles)\n"
            "    predictions = quantiles[:, 1:2]  # the median\n",
        ),
        Edit(
            "steps.py",
            "    predictions = run.model(inputs, training=False)  # (batch, 1)\n",
            "    quantiles = run.model(inputs, training=False)  # (batch, quantiles)\n"
            "    predictions = quantiles[:, 1:2]  # the median\n",
            "*",
        ),
        Edit(
            "steps.py",
            'run.losses["main"](labels, predictions)',
            'run.losses["main"](labels, quantiles)',
            "*",
        ),
        Edit(
            "pictures.py",
            "        return predict_in_parts(run.model, inputs)[:, 0]\n",
            "        return predict_in_parts(run.model, inputs)[:, 1]\n",
        ),
        Edit(
            "predictions.py",
            '    return {"progression": np.asarray(outputs)[:, 0]}\n',
            "    low, median, high = np.asarray(outputs).T\n"
            '    return {"progression": median, "low": low, "high": high}\n',
        ),
    ),
    kind="loss",
    cause="The pinball loss takes prediction - label as its error instead of label - prediction, so the output for quantile q learns 1 - q.",
    file="losses.py",
    named=r"pinball|quantile|sign|revers|swap|exchang|turned around|prediction(s)? - label|label(s)? - prediction|1 - q",
)

# ---------------------------------------------------------------- vae

quantized = fault_in(
    name="straight-through estimator the wrong way round",
    project="vae",
    edits=(
        Edit(
            "model.py",
            "CODE = 8  # numbers that an image is coded by\n",
            "CODES, WIDTH = 8, 4  # vectors that an image is coded by, and numbers in each\n"
            "ENTRIES = 64  # vectors in the codebook\n",
        ),
        Edit(
            "model.py",
            "",
            '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Images -> code (batch, CODES, WIDTH); entries of the codebook -> vectors; code -> images."""
    layers, floatx = keras.layers, keras.config.floatx()
    images = keras.Input(adapted["shape"], name="images")
    shape = images.shape[1:]  # (h, w, 1)
    x = layers.Dense(128, activation="relu")(layers.Flatten()(images))
    x = layers.Dropout(task.dropout)(x)
    x = layers.Reshape((CODES, WIDTH), dtype=floatx)(layers.Dense(CODES * WIDTH, dtype=floatx)(x))
    encoder = keras.Model(images, x, name="encoder")
    entries = keras.Input((), dtype="int32", name="entries")
    start = keras.initializers.RandomNormal(stddev=0.5)
    vectors = layers.Embedding(ENTRIES, WIDTH, embeddings_initializer=start, dtype=floatx)(entries)
    codebook = keras.Model(entries, vectors, name="codebook")
    code = keras.Input((CODES, WIDTH), name="code")
    x = layers.Dense(128, activation="relu")(layers.Flatten()(code))
    l2 = keras.regularizers.L2(task.l2)
    pixels = int(np.prod(shape))
    x = layers.Dense(pixels, activation="sigmoid", kernel_regularizer=l2, dtype=floatx)(x)
    decoder = keras.Model(code, layers.Reshape(shape, dtype=floatx)(x), name="decoder")
    return {"encoder": encoder, "codebook": codebook, "decoder": decoder}
''',
            "create_model",
        ),
        Edit(
            "losses.py",
            "",
            '''def quantize(code: tf.Tensor, vectors: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The nearest of `vectors` to each one of a code, as it is and as the decoder gets it.

    What the decoder gets lets gradients pass to the encoder (van den Oord et al., 2017).

    Args:
        code: float (batch, CODES, WIDTH).
        vectors: the codebook, float (ENTRIES, WIDTH).
    """
    squares = tf.square(code[:, :, tf.newaxis] - vectors)  # (batch, CODES, ENTRIES, WIDTH)
    nearest = tf.gather(vectors, tf.argmin(tf.reduce_sum(squares, axis=-1), axis=-1))
    return nearest, nearest + tf.stop_gradient(code - nearest)  # each (batch, CODES, WIDTH)


def distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """The squared distance of two codes, (batch, CODES, WIDTH) -> (batch,)."""
    return tf.reduce_sum(tf.square(a - b), axis=[1, 2])
''',
            "kl_divergence",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss, kl_divergence, means\n",
            "from .losses import compute_loss, distance, means, quantize\nfrom .model import ENTRIES\n",
        ),
        Edit(
            "steps.py",
            "WARM_UP = 200  # steps until the KL divergence counts in full\n",
            "COMMITMENT = 0.25  # weight of the distance of a code to its entries, for the encoder\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)
''',
            "train_step",
        ),
        Edit(
            "steps.py",
            "",
            '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    code = encoder(images, training=training)  # (batch, CODES, WIDTH)
    vectors = run.models["codebook"](tf.range(ENTRIES), training=training)  # (ENTRIES, WIDTH)
    nearest, passed = quantize(code, vectors)
    error = run.losses["main"](images, decoder(passed, training=training))  # (batch,)
    of_entries = distance(nearest, tf.stop_gradient(code))  # (batch,)
    commitment = distance(code, tf.stop_gradient(nearest))  # (batch,)
    per_example = error + of_entries + COMMITMENT * commitment
    loss = compute_loss(per_example, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "commitment": commitment}, weights, replica)}
''',
            "validation_step",
        ),
        Edit(
            "steps.py",
            'TERMS = ("error", "kl")  # reported beside the loss\n',
            'TERMS = ("error", "commitment")  # reported beside the loss\n',
        ),
    ),
    kind="model",
    cause="The straight-through estimator is nearest + stop_gradient(code - nearest): its value is the continuous code, and its gradient goes to the codebook, where "
    "code + stop_gradient(nearest - code) was meant.",
    file="losses.py",
    named=r"straight.?through|stop_gradient|quanti[sz]|codebook|continuous code|encoder.*(no|not|without).*gradient|unquanti[sz]ed|bypass",
)

noise = fault_in(
    name="gradient noise of its own on each replica",
    project="vae",
    edits=(
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nNOISE = 0.02  # standard deviation of what is added to each gradient\n",
        ),
        Edit(
            "optimizer.py",
            "",
            '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, with a little noise (Neelakantan et al., 2015)."""
    return [g + tf.random.normal(g.shape, stddev=NOISE, dtype=g.dtype) for g in gradients]
''',
            "process_gradients",
        ),
    ),
    kind="distribution",
    cause="process_gradients adds noise from tf.random.normal, which each replica draws for itself after the gradients are summed, so the replicas apply different gradients "
    "(and a resumed run draws others).",
    file="optimizer.py",
    named=r"tf\.random\.normal|noise|stateless|drift|diverge|(each|every|per).?replica|differ(s|ent)? (on|between|across)|process_gradients|not the same on",
)

counter = fault_in(
    name="warm-up counted by a python attribute",
    project="vae",
    edits=(
        Edit(
            "steps.py",
            "WARM_UP = 200  # steps until the KL divergence counts in full\n",
            '''WARM_UP = 200  # steps until the KL divergence counts in full


class Annealing:
    """The weight of the KL divergence, which grows to 1 in the first steps."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.made = 0

    def __call__(self) -> float:
        """The weight in this step."""
        self.made += 1
        return min(self.made / self.steps, 1.0)


annealing = Annealing(WARM_UP)
''',
        ),
        Edit(
            "steps.py",
            "    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)\n"
            "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)\n",
            "    loss = compute_loss(error + annealing() * kl, weights, encoder, replica)\n",
        ),
    ),
    kind="state",
    cause="The weight of the KL divergence is counted up by a Python attribute, which changes only while the step is traced, so in the graph it is a constant of about 1/200.",
    file="steps.py",
    named=r"trac(e|ed|ing)|python|graph|constant|counter|never (grows|changes|increases|rises)|stuck|frozen|replica\.step|anneal|warm.?up|self\.made",
)

# ---------------------------------------------------------------- forecasting

random_split = fault_in(
    name="windows that overlap are divided by chance",
    project="forecasting",
    edits=(
        Edit(
            "data.py",
            "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n"
            '    names = ("train", "validation", "test")  # in the order of time\n'
            "    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}\n",
            "    inputs, labels = _windows(rows)\n"
            "    order = np.random.default_rng(0).permutation(len(labels))  # so that all seasons are in each\n"
            "    ends = [int(0.7 * len(order)), int(0.85 * len(order))]\n"
            '    parts = zip(("train", "validation", "test"), np.split(order, ends), strict=True)\n'
            "    return {name: (inputs[part], labels[part]) for name, part in parts}\n",
        ),
    ),
    kind="leak",
    cause="Windows of 30 hours that overlap are made first and then split at random, so nearly every hour to forecast in validation and test is also in training windows.",
    file="data.py",
    named=r"overlap|random(ly)? (split|permut|order)|shuffl|permut|leak|order of time|chronolog|temporal|in both|same hours",
)

zeros = fault_in(
    name="missing values become zeros that are forecast",
    project="forecasting",
    edits=(
        Edit(
            "data.py",
            '    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)\n',
            '    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)\n'
            "    rows = np.nan_to_num(rows)\n",
        ),
    ),
    kind="data",
    cause="np.nan_to_num makes 0 of every missing value before the windows are cut, so missing hours count as labels of 0 degrees and inputs of 0, and nothing is masked any more.",
    file="data.py",
    named=r"nan_to_num|missing (value|label|hour)s?|\bnan\b|\bzeros\b|as (0|zero)|not masked|0 degrees|imput",
)

smoothing = fault_in(
    name="inputs smoothed by a mean over later hours too",
    project="forecasting",
    edits=(
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            "PAST, FUTURE = 24, 6  # hours\nSMOOTH = 5  # hours whose mean is an input, against the noise of the sensors\n",
        ),
        Edit(
            "data.py",
            "",
            '''def _windows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every window of consecutive rows: len(rows) - PAST - FUTURE + 1 of them.

    Inputs are smoothed, labels are as they were measured.
    """
    view = np.lib.stride_tricks.sliding_window_view
    inputs = view(_smoothed(rows), PAST + FUTURE, axis=0)[:, :, :PAST]
    labels = view(rows, PAST + FUTURE, axis=0)[:, TARGET, PAST:]
    return inputs.swapaxes(1, 2), labels


def _smoothed(rows: np.ndarray) -> np.ndarray:
    """The mean of SMOOTH hours around each one, of those that are there, float32 (n, columns)."""
    half = SMOOTH // 2
    padded = np.pad(rows, [(half, half), (0, 0)], constant_values=np.nan)
    return np.nanmean(np.lib.stride_tricks.sliding_window_view(padded, SMOOTH, axis=0), axis=-1)
''',
            "_windows",
        ),
    ),
    kind="leak",
    cause="The inputs are smoothed by a mean that is centered on each hour, so the last two hours of the past hold values of the first two hours to forecast.",
    file="data.py",
    named=r"smooth|cent(er|r)ed|moving (average|mean)|rolling|look.?ahead|future (value|hour)s?|leak|later hours|causal",
)

forcing = fault_in(
    name="true previous hours are inputs in evaluation too",
    project="forecasting",
    edits=(
        Edit(
            "data.py",
            "",
            '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"past": float32 (n, PAST, columns), "previous": float32 (n, FUTURE)}; NaN if missing.

    Labels float32 (n, FUTURE); "previous" is the target one hour before each of them, from which
    the decoder goes on.
    """
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}
''',
            "create_datasets",
        ),
        Edit(
            "data.py",
            "",
            '''def _windows(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Every window of consecutive rows: len(rows) - PAST - FUTURE + 1 of them."""
    windows = np.lib.stride_tricks.sliding_window_view(rows, PAST + FUTURE, axis=0)
    past, previous = windows[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST - 1 : -1]
    return {"past": past, "previous": previous}, windows[:, TARGET, PAST:]
''',
            "_windows",
        ),
        Edit(
            "model.py",
            '        "mean": np.nanmean(inputs, axis=(0, 1)),\n        "variance": np.nanvar(inputs, axis=(0, 1)),\n',
            '        "mean": np.nanmean(inputs["past"], axis=(0, 1)),\n        "variance": np.nanvar(inputs["past"], axis=(0, 1)),\n',
        ),
        Edit(
            "model.py",
            "",
            '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """An encoder of the past, and a causal decoder that goes from hour to hour.

    {"past": float (batch, PAST, columns), "previous": float (batch, FUTURE)} -> forecast
    (batch, FUTURE), in units of the data.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    mean, variance = adapted["mean"], adapted["variance"]
    past = keras.Input((PAST, len(COLUMNS)), name="past")
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(past)
    missing = ops.isnan(scaled)
    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
    x = layers.Dense(FUTURE * task.units, activation="relu")(layers.Flatten()(x))
    context = layers.Reshape((FUTURE, task.units))(x)

    previous = keras.Input((FUTURE,), name="previous")
    center, deviation = float(adapted["label_mean"]), float(adapted["label_std"])
    before = (layers.Reshape((FUTURE, 1), dtype=floatx)(previous) - center) / deviation
    unknown = ops.isnan(before)
    parts = [context, ops.where(unknown, 0.0, before), ops.cast(unknown, floatx)]
    x = layers.Concatenate()(parts)  # (batch, FUTURE, units + 2)
    x = layers.Conv1D(task.units, 2, padding="causal", activation="relu")(x)
    x = layers.Reshape((FUTURE,), dtype=floatx)(layers.Dense(1, dtype=floatx)(x))
    return keras.Model({"past": past, "previous": previous}, x * deviation + center)
''',
            "create_model",
        ),
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # past, future (batch, FUTURE), weights (batch,)\n",
            "# inputs by name, future (batch, FUTURE), weights (batch,)\n"
            "Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]\n",
        ),
        Edit(
            "steps.py",
            "    past, future, _ = batch\n    forecast = run.model(past, training=training)  # (batch, FUTURE)\n",
            "    inputs, future, _ = batch\n    forecast = run.model(inputs, training=training)  # (batch, FUTURE)\n",
        ),
    ),
    kind="evaluation",
    cause="The decoder gets the true value of the hour before each hour to forecast (teacher forcing) in validation and test too, where it should get its own forecasts.",
    file="data.py",
    named=r"teacher.?forc|previous|own (forecast|prediction)s?|auto-?regress|free.?running|leak|true (value|hour|label|future)|label.*input|one.?(hour|step).?ahead",
)

# ---------------------------------------------------------------- distillation

scored = fault_in(
    name="validation scores the teacher",
    project="distillation",
    edits=(
        Edit(
            "steps.py",
            '    run.metrics["accuracy"].update_state(labels, logits, weights)\n',
            '    run.metrics["accuracy"].update_state(labels, taught, weights)\n',
            "validation_step",
        ),
    ),
    kind="metrics",
    cause="The accuracy of validation and test is computed from the teacher's logits and not from the student's.",
    file="steps.py",
    named=r"teacher|taught|wrong (logits|model|predictions)|accuracy.*(constant|same)|not (of )?(the )?student",
)

average = fault_in(
    name="averaged teacher starts from random weights of its own",
    project="distillation",
    edits=(
        Edit(
            "model.py",
            "from pathlib import Path\nfrom typing import Any\n",
            "from typing import Any\n",
        ),
        Edit("model.py", "from ..engine.auxiliary import load_frozen\n", ""),
        Edit("model.py", 'TEACHER = Path(__file__).with_name("teacher.keras")\n', ""),
        Edit(
            "model.py",
            "",
            '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """A small student, images -> logits, and the running average of it that it learns from."""
    student = _create_classifier(task, adapted, "student")
    average = _create_classifier(task, adapted, "average")
    average.trainable = False  # the train step writes its weights
    return {"student": student, "average": average}


def _create_classifier(task: TaskConfig, adapted: dict[str, np.ndarray], name: str) -> keras.Model:
    layers = keras.layers
    images = keras.Input(adapted["shape"], name="images")
    x = layers.Dense(32, activation="relu")(layers.Flatten()(images))
    x = layers.Dropout(task.dropout)(x)
    l2 = keras.regularizers.L2(task.l2)
    x = layers.Dense(CLASSES, kernel_regularizer=l2, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, x, name=name)
''',
            "create_model",
        ),
        Edit(
            "losses.py",
            '    soft = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")\n',
            '    soft = keras.losses.MeanSquaredError(reduction="none")  # of probabilities\n',
        ),
        Edit(
            "steps.py",
            "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
            "DECAY = 0.999  # what the average keeps of itself in a step\n"
            "CONSISTENCY = 5.0  # weight of the distance to what the average predicts\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss (Tarvainen & Valpola, 2017)."""
    images, labels, weights = batch
    student, average = run.models["student"], run.models["average"]
    logits = student(images, training=True)  # (batch, classes)
    taught = tf.nn.softmax(average(images, training=False))
    hard = run.losses["hard"](labels, logits)  # (batch,)
    soft = run.losses["soft"](taught, tf.nn.softmax(logits))  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    decay = DECAY ** (1 / replica.num_microbatches)  # a step has so many
    for mean, value in zip(average.weights, student.weights, strict=True):
        mean.assign(decay * mean + (1 - decay) * value)
    return {"main": compute_loss(hard + CONSISTENCY * soft, weights, student, replica)}
''',
            "train_step",
        ),
        Edit(
            "steps.py",
            "",
            '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss: that of the average."""
    images, labels, weights = batch
    logits = run.models["average"](images, training=False)  # (batch, classes)
    per_example = run.losses["hard"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.models["student"], replica)}
''',
            "validation_step",
        ),
        Edit(
            "pictures.py",
            "predict_in_parts(run.model, images)",
            'predict_in_parts(run.models["average"], images)',
        ),
    ),
    kind="weights",
    cause="The averaged model has random initial weights of its own instead of a copy of the student's, and with a decay of 0.999 most of them are still in the average at the end of 480 steps.",
    file="model.py",
    named=r"set_weights|cop(y|ied|ies)|initiali[sz]|random weights|starts? (from|with|at)|0\.999|running average|\bema\b|bias correction|same weights",
)

warmup = fault_in(
    name="warm-up many times as long as the run",
    project="distillation",
    edits=(
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nWARM_UP = 10_000  # steps in which the learning rate rises from 0\n",
        ),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
            "    schedule = keras.optimizers.schedules.CosineDecay(\n"
            "        0.0, decay_steps=steps, warmup_target=task.learning_rate, warmup_steps=WARM_UP\n"
            "    )\n",
        ),
    ),
    kind="schedule",
    cause="The learning rate warms up for 10,000 steps, but the whole run has 480: it never gets beyond 5% of the learning rate, and the decay never begins.",
    file="optimizer.py",
    named=r"warm.?up|learning rate.*(small|low|never|rise|reach)|schedule|10[_,]?000|never decays",
)

# ---------------------------------------------------------------- two_heads

shared = fault_in(
    name="both heads share one metric object",
    project="two_heads",
    edits=(
        Edit(
            "metrics.py",
            '    return {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}\n',
            '    names = [f"{head}_accuracy" for head in HEADS]\n'
            "    return dict.fromkeys(names, keras.metrics.SparseCategoricalAccuracy())\n",
        ),
    ),
    kind="metrics",
    cause="dict.fromkeys gives both names the same metric object, so digit_accuracy and even_accuracy are one accuracy over the labels of both heads.",
    file="metrics.py",
    named=r"fromkeys|same (metric|object|number|instance|value)|shar(e|ed|es)|one (metric|object)|alias|identical",
)

counted = fault_in(
    name="losses divided by all examples instead of labeled ones",
    project="two_heads",
    edits=(
        Edit(
            "losses.py",
            "",
            '''def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many examples count for each head, int32 scalars."""
    *_, weights = batch  # (batch,), 0 for padding
    return dict.fromkeys(HEADS, tf.math.count_nonzero(weights, dtype=tf.int32))
''',
            "count",
        ),
    ),
    kind="weights",
    cause="count gives all examples of the batch for both heads, and not those whose label is known, so the sum over few labels is divided by many examples.",
    file="losses.py",
    named=r"\bcount\b|denominator|divided by|labell?ed|missing label|known label|5 times|five times|global_count",
)

masked = fault_in(
    name="parity taken from digits that are already masked",
    project="two_heads",
    edits=(
        Edit(
            "data.py",
            "",
            '''def _two_labels(digits: np.ndarray) -> dict[str, np.ndarray]:
    """What is known of an image, int64 (n,): most digits, and of a fifth whether they are even."""
    rows = np.arange(len(digits))
    digits = np.where(rows % 6 == 5, -1, digits.astype("int64"))
    return {"digit": digits, "even": np.where(rows % 5 == 0, 1 - digits % 2, -1)}
''',
            "_two_labels",
        ),
    ),
    kind="labels",
    cause="The digits are set to -1 where they are missing before their parity is taken, and -1 % 2 is 1, so every image whose digit is missing is labelled odd.",
    file="data.py",
    named=r"-1 ?%|% ?2|parity|\bodd\b|(already |been )masked|missing (digit|label)s?|even.{0,40}(wrong|noise|mislabel|incorrect|label)|(wrong|noisy|mislabel|incorrect).{0,40}even",
)

FAULTS: tuple[Fault, ...] = (
    mixup,
    focal,
    stopping,
    decay,
    conditional,
    hinge,
    holes,
    gaussian,
    survival,
    neighbors,
    quantiles,
    quantized,
    noise,
    counter,
    random_split,
    zeros,
    smoothing,
    forcing,
    scored,
    average,
    warmup,
    shared,
    counted,
    masked,
)

TASKS: tuple[Change, ...] = ()
