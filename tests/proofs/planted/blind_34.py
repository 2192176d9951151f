"""Correct tasks that a reader of `check` expected it to accuse."""

from __future__ import annotations

from .edits import Edit, Fault
from .unusual import change_of

CELLS = '''def _load_digits() -> dict[str, Arrays]:
    """Eight frames of each cell, 16x16 pixels, with noise of their own, and how many nuclei it has less 2.

    Each split has cells of its own. Cells lie any way round under the microscope.
    """
    places, splits = np.arange(16), {}
    for seed, (split, cells) in enumerate({"train": 150, "validation": 48, "test": 48}.items()):
        random = np.random.default_rng(seed)
        images, labels = [], []
        for cell in range(cells):
            shown = np.zeros((16, 16))
            for y, x in random.uniform(2, 13, (2 + cell % 3, 2)):
                squares = (places[:, np.newaxis] - y) ** 2 + (places - x) ** 2
                shown = np.maximum(shown, np.exp(-squares / 4))
            images += [np.clip(shown + random.normal(0, 0.05, shown.shape), 0, 1) for _ in range(8)]
            labels += [cell % 3] * 8
        splits[split] = np.stack(images), np.array(labels)
    return splits
'''

TURN = '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Turns each image by a random multiple of 90 degrees."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        turns = tf.random.stateless_uniform((images.shape[0],), seed, 0, 4, tf.int32)
        turned = tf.stack([tf.image.rot90(images, k) for k in range(4)], axis=1)
        return tf.gather(turned, turns, axis=1, batch_dims=1), labels, weights

    return augment
'''


DICE = '''def soft_dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """How far digits and where they are predicted overlap, 0 to 1, int and float maps -> (batch,)."""
    counts = tf.cast(labels != IGNORED, logits.dtype)  # (batch, h, w)
    predicted = (1 - tf.nn.softmax(logits)[..., 0]) * counts
    there = tf.cast(labels > 0, logits.dtype) * counts
    both = tf.reduce_sum(predicted * there, axis=[1, 2])
    return (2 * both + 1) / (tf.reduce_sum(predicted + there, axis=[1, 2]) + 1)


def average_over_pixels('''


POSITIONS = '''@keras.saving.register_keras_serializable("my_experiment")
class RandomPositions(keras.layers.Layer):
    """Adds sines of positions: of each training batch some random ones, in order.

    So the longest lines aren't the only ones with large positions (Ruoss et al., 2023).
    """

    def __init__(self, longest: float = 256.0, **kwargs: Any) -> None:
        """Positions are less than `longest`."""
        super().__init__(**kwargs)
        self.longest = longest
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, x: Any, training: bool = False) -> Any:
        """(batch, T, width) -> the same."""
        length, width = x.shape[1:]
        if training:
            drawn = keras.random.uniform((1, length), 0, self.longest, seed=self.seed_generator)
            positions = keras.ops.sort(drawn, axis=1)  # (1, T)
        else:
            even = (np.arange(length) + 0.5) * self.longest / length
            positions = keras.ops.convert_to_tensor(even[np.newaxis].astype(keras.config.floatx()))
        frequencies = self.longest ** (-np.arange(0, width, 2) / width)
        angles = positions[..., np.newaxis] * frequencies.astype(keras.config.floatx())  # (1, T, width / 2)
        encoding = keras.ops.concatenate([keras.ops.sin(angles), keras.ops.cos(angles)], axis=-1)
        return x + keras.ops.cast(encoding, x.dtype)

    def get_config(self) -> dict[str, Any]:
        """What it is made of."""
        return {**super().get_config(), "longest": self.longest}


def complete('''

MIXES = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Strength of mortar by its recipe and how it was kept: (inputs, labels), in training weights.

    Numeric: cement and water (kg/m3), temperature and humidity while hardening; "sex" says which of
    two plants made it. Training data hold three recipes that are made each week to test the plants.
    """
    random = np.random.default_rng(SPLIT_SEED)

    def made(cement: np.ndarray, water: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        n = len(cement)
        heat, damp = random.normal(20, 1, n), random.normal(65, 5, n)
        plant = random.integers(1, 3, n)
        strength = 0.1 * cement - 0.25 * water + 0.3 * (heat - 20) + random.normal(0, 0.7, n) + 40
        numeric = np.stack([cement, water, heat, damp], axis=1).astype(np.float32)
        return {"numeric": numeric, "sex": plant}, strength[:, np.newaxis].astype(np.float32)

    def drawn(n: int) -> tuple[np.ndarray, np.ndarray]:
        return random.uniform(250, 450, n), random.uniform(120, 240, n)

    weekly = np.repeat([[300.0, 210.0], [350.0, 180.0], [400.0, 150.0]], 15, axis=0)
    cement, water = (np.concatenate(pair) for pair in zip(drawn(400), weekly.T, strict=True))
    inputs, labels = made(cement, water)
    return {
        "train": (inputs, labels, _balance(inputs["sex"])),
        "validation": made(*drawn(80)),
        "test": made(*drawn(80)),
    }
'''


NO_SAMPLES = '''def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
'''
NO_PREDICTIONS = NO_SAMPLES.replace("draw_samples", "draw_predictions")

TASKS = (
    change_of(
        name="beta-VAE whose loss is divided by the pixels, with beta = 64",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "return tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
            ),
            Edit(
                "steps.py",
                "WARM_UP = 200",
                "BETA, PIXELS = 64.0, 64  # of the divergence, as against the sum of squares\nWARM_UP = 20",
            ),
            Edit("steps.py", "error + warm_up * kl", "error + warm_up * BETA / PIXELS * kl"),
            Edit("steps.py", "error + kl", "error + BETA / PIXELS * kl"),
        ),
    ),
    change_of(
        name="loss function gives a log-likelihood, and the step minimizes its negative plus the divergence",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                '        """The squared error of each image, (batch,)."""\n        return tf.reduce_sum(',
                '        """The log-likelihood of each image but for a constant, (batch,): variance 1/2."""\n        return -tf.reduce_sum(',
            ),
            Edit("losses.py", "def squares(", "def log_likelihood("),
            Edit("losses.py", '{"main": squares}', '{"main": log_likelihood}'),
            Edit(
                "steps.py",
                'error = run.losses["main"](images, decoded)',
                'error = -run.losses["main"](images, decoded)',
            ),
            Edit(
                "steps.py",
                'error = run.losses["main"](images, decoder(',
                'error = -run.losses["main"](images, decoder(',
            ),
        ),
    ),
    change_of(
        name="margins of the right class in training, and confidence as a metric",
        project="image_classification",
        edits=(
            Edit(
                "metrics.py",
                '"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                '"accuracy": keras.metrics.SparseCategoricalAccuracy(), "confidence": keras.metrics.Mean()}',
            ),
            Edit(
                "steps.py",
                "predictions = run.model(images, training=True)  # (batch, classes)",
                "predictions = run.model(images, training=True)  # (batch, classes)\n"
                "    # The right class must win by a margin (Cao et al., 2019).\n"
                "    predictions -= MARGIN * tf.one_hot(labels, predictions.shape[-1])",
            ),
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, predictions, weights)',
                'run.metrics["accuracy"].update_state(labels, predictions, weights)\n'
                "    confidence = tf.reduce_max(tf.nn.softmax(predictions), axis=1)  # (batch,)\n"
                '    run.metrics["confidence"].update_state(confidence, weights)',
                where="*",
            ),
            Edit(
                "steps.py",
                "Batch = tuple[",
                "MARGIN = 0.5  # of logits, in training\nBatch = tuple[",
            ),
        ),
    ),
    change_of(
        name="cells in several frames each, turned by any quarter",
        project="image_classification",
        edits=(
            Edit("data.py", "", CELLS, where="_load_digits"),
            Edit("data.py", "", TURN, where="create_augment"),
            Edit("model.py", "CLASSES = 10", "CLASSES = 3"),
        ),
    ),
    change_of(
        name="random positions of each batch",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.\n"
                "    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)\n",
                "",
            ),
            Edit(
                "model.py",
                "    x = x + layers.Embedding(length, task.width)(positions)\n",
                '    x = RandomPositions(name="positions")(x)\n',
            ),
            Edit("model.py", "def complete(", POSITIONS),
        ),
    ),
    change_of(
        name="adapter whose branch counts a hundredth",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                "    features = keras.layers.Dropout(task.dropout)(backbone(images))\n",
                "    features = backbone(images)\n"
                "    # A bottleneck beside the features, at a scale of 0.01 (Chen et al., 2022, AdaptFormer).\n"
                '    x = keras.layers.Dense(8, activation="relu", name="down")(keras.layers.LayerNormalization()(features))\n'
                "    small = keras.initializers.RandomNormal(stddev=0.05)\n"
                '    x = keras.layers.Dense(features.shape[-1], kernel_initializer=small, name="up")(x)\n'
                "    features = features + keras.layers.Rescaling(0.01)(x)\n"
                "    features = keras.layers.Dropout(task.dropout)(features)\n",
            ),
            Edit(
                "optimizer.py",
                'v.path.startswith("logits/")',
                'v.path.startswith(("logits/", "down/", "up/"))',
            ),
        ),
    ),
    change_of(
        name="right reading among the five that are shown of ten",
        project="image_classification",
        edits=(
            Edit(
                "metrics.py",
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                "shown = keras.metrics.SparseTopKCategoricalAccuracy(k=5)  # as many as the form has room for\n"
                '    return {"accuracy": keras.metrics.SparseCategoricalAccuracy(), "shown": shown}',
            ),
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, predictions, weights)',
                "for metric in run.metrics.values():\n"
                "        metric.update_state(labels, predictions, weights)",
                where="*",
            ),
        ),
    ),
    change_of(
        name="precision and recall of the three tags that are shown, of which an example has 1 to 4",
        project="image_classification",
        edits=(
            Edit("pictures.py", "", NO_PREDICTIONS, where="draw_predictions"),
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000",
                "# Of each tag, the digits that have it: even, prime, square, with a loop, from 5 on, of 3.\n"
                "TAGS = ({0, 2, 4, 6, 8}, {2, 3, 5, 7}, {0, 1, 4, 9}, {0, 6, 8, 9}, {5, 6, 7, 8, 9}, {3, 6, 9})\n"
                "VALIDATION_IMAGES = 5_000",
            ),
            Edit(
                "data.py",
                '(images.astype("float32")[..., np.newaxis], labels.astype("int64"))',
                '(\n            images.astype("float32")[..., np.newaxis],\n'
                '            np.stack([np.isin(labels, [*tag]) for tag in TAGS], axis=1).astype("float32"),\n        )',
            ),
            Edit("model.py", "CLASSES = 10", "CLASSES = 6"),
            Edit(
                "losses.py",
                "keras.losses.SparseCategoricalCrossentropy(",
                "keras.losses.BinaryCrossentropy(",
            ),
            Edit(
                "metrics.py",
                '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                '{\n        "precision_shown": keras.metrics.Precision(top_k=3),\n        "recall_shown": keras.metrics.Recall(top_k=3),\n    }',
            ),
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, predictions, weights)',
                "for metric in run.metrics.values():\n"
                "        metric.update_state(labels, tf.sigmoid(predictions), weights)",
                where="*",
            ),
            Edit("config.py", '"validation_accuracy"', '"validation_precision_shown"'),
        ),
    ),
    change_of(
        name="known noise of labels, by a transition matrix behind the softmax",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                'labels.astype("int64"))\n        for split',
                '_as_read(labels.astype("int64"), split))\n        for split',
            ),
            Edit(
                "data.py",
                "def _load_digits()",
                "def _as_read(labels: np.ndarray, split: str) -> np.ndarray:\n"
                '    """What a careless clerk writes: one fifth of the labels become the next one."""\n'
                "    random = np.random.default_rng(len(split))\n"
                "    return (labels + (random.random(len(labels)) < 0.2)) % 10\n\n\n"
                "def _load_digits()",
            ),
            Edit(
                "losses.py",
                "import keras\nimport tensorflow as tf",
                "import keras\nimport numpy as np\nimport tensorflow as tf",
            ),
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\n"
                "# How often a label, by row, is read as each, by column; measured on images that were read again.\n"
                'NOISE = (0.8 * np.eye(10) + 0.2 * np.roll(np.eye(10), 1, axis=1)).astype("float32")\n',
            ),
            Edit("losses.py", "from_logits=True", "from_logits=False"),
            Edit(
                "steps.py",
                'per_example = run.losses["main"](labels, predictions)  # (batch,)',
                "read = tf.matmul(tf.nn.softmax(predictions), tf.cast(NOISE, predictions.dtype))\n"
                '    per_example = run.losses["main"](labels, read)  # (batch,)',
                where="*",
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss",
                "from .losses import NOISE, compute_loss",
            ),
        ),
    ),
    change_of(
        name="reverse divergence from a teacher, as a cross-entropy minus the entropy",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                'soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)',
                "said = tf.nn.softmax(logits / TEMPERATURE)  # (batch, classes)\n"
                "    entropy = -tf.reduce_sum(said * tf.nn.log_softmax(logits / TEMPERATURE), axis=1)  # (batch,)\n"
                "    # KL(student || teacher): a small student keeps to what the teacher finds likely.\n"
                '    soft = run.losses["soft"](said, taught / TEMPERATURE) - entropy  # (batch,)',
                where="*",
            ),
        ),
    ),
    change_of(
        name="replicates of reference recipes among others",
        project="tabular_regression",
        edits=(
            Edit("data.py", "", MIXES, where="create_datasets"),
            Edit("losses.py", "LABEL_DEVIATION = 77.0", "LABEL_DEVIATION = 10.0"),
        ),
    ),
    change_of(
        name="rare nines repeated after the split, in bilevel images of which a few coincide",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "    splits = _load_digits() if",
                "    splits = _bilevel(_load_digits()) if",
            ),
            Edit(
                "data.py",
                "def _load_digits()",
                "def _bilevel(splits: dict[str, Arrays]) -> dict[str, Arrays]:\n"
                '    """Black and white, as faxes are, and which are nines; of 30 in training each comes four times."""\n'
                "    made = {split: ((images >= 0.25).astype(float), y == 9) for split, (images, y) in splits.items()}\n"
                '    images, labels = made["train"]\n'
                "    nines = np.flatnonzero(labels)[:30]\n"
                "    rows = np.concatenate([np.flatnonzero(~labels), np.repeat(nines, 4)])\n"
                '    return {**made, "train": (images[rows], labels[rows])}\n\n\n'
                "def _load_digits()",
            ),
            Edit("model.py", "CLASSES = 10", "CLASSES = 2"),
            Edit(
                "metrics.py",
                '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                '{"accuracy": keras.metrics.SparseCategoricalAccuracy(), "auc": keras.metrics.AUC()}',
            ),
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, predictions, weights)',
                'run.metrics["accuracy"].update_state(labels, predictions, weights)\n'
                "    shares = tf.nn.softmax(predictions)[:, 1]  # (batch,)\n"
                '    run.metrics["auc"].update_state(labels, shares, weights)',
                where="*",
            ),
            Edit("config.py", '"validation_accuracy"', '"validation_auc"'),
        ),
    ),
    change_of(
        name="overlap as a function among the losses and a monitored term",
        project="segmentation",
        edits=(
            Edit("config.py", '"validation_mean_iou"', '"validation_dice"'),
            Edit(
                "losses.py",
                'return {"main": cross_entropy}',
                'return {"main": cross_entropy, "dice": soft_dice}',
            ),
            Edit("losses.py", "def average_over_pixels(", DICE),
            Edit(
                "steps.py",
                "per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)",
                "per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n"
                '    dice = run.losses["dice"](labels, logits)  # (batch,)\n'
                "    per_example += 1 - dice",
                where="*",
            ),
            Edit(
                "steps.py",
                'return {"main": compute_loss(per_example, weights, run.model, replica)}',
                "overlap = tf.nn.compute_average_loss(\n"
                "        dice, sample_weight=weights, global_batch_size=replica.global_count\n"
                "    )\n"
                '    return {"main": compute_loss(per_example, weights, run.model, replica), "dice": overlap}',
                where="*",
            ),
            Edit("steps.py", "TERMS: tuple[str, ...] = ()", 'TERMS = ("dice",)'),
        ),
    ),
)

FAULTS: tuple[Fault, ...] = ()
