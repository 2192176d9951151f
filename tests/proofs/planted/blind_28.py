"""Correct tasks that two readers of `check` expected it to accuse."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import change_of

NO_PICTURES = (
    Edit(
        "pictures.py",
        "",
        '''def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
''',
        "draw_samples",
    ),
    Edit(
        "pictures.py",
        "",
        '''def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
''',
        "draw_predictions",
    ),
)
UNPACKED = "    images, labels, weights = batch\n"
ACCURACY = 'run.metrics["accuracy"].update_state(labels, predictions, weights)'
SHIFTED = "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n"
LOSS = """    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
"""
IMAGES = """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
"""

FIRST: tuple[Change, ...] = (
    change_of(
        name="mixup of a training stream",
        project="image_classification",
        edits=(
            Edit("data.py", "VALIDATION_IMAGES = 5_000", "CLASSES = 10\nVALIDATION_IMAGES = 5_000"),
            Edit(
                "data.py",
                IMAGES,
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    arrays: dict[str, Any] = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    return {**arrays, "train": tf.data.Dataset.from_tensor_slices(arrays["train"])}
""",
            ),
            Edit(
                "data.py",
                """    if not task.shift:
        return None

""",
                "",
            ),
            Edit(
                "data.py",
                SHIFTED,
                """        images = keras.ops.image.affine_transform(images, transforms)
        # Each image is mixed with the one at the other end of the batch, and so are the labels.
        share = tf.random.stateless_uniform((images.shape[0], 1), seed + 1, 0.5, 1.0, images.dtype)
        labels = tf.one_hot(labels, CLASSES, dtype=images.dtype)
        labels = share * labels + (1 - share) * tf.reverse(labels, [0])  # (batch, classes)
        share = share[:, :, tf.newaxis, tf.newaxis]
        return share * images + (1 - share) * tf.reverse(images, [0]), labels, weights
""",
            ),
            Edit(
                "losses.py",
                LOSS,
                """    return {
        "main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),
        "mixed": keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none"),
    }
""",
            ),
            Edit(
                "steps.py",
                'run.losses["main"](labels, predictions)',
                'run.losses["mixed"](labels, predictions)',
                "train_step",
            ),
            Edit(
                "steps.py",
                ACCURACY,
                """classes = tf.argmax(labels, axis=1)  # of the greater part
    run.metrics["accuracy"].update_state(classes, predictions, weights)""",
                "train_step",
            ),
        ),
    ),
    change_of(
        name="Monte Carlo dropout by a batch that holds each image ten times",
        project="image_classification",
        edits=(
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor",
                """PASSES = 10  # of each image through the model in evaluation, each with dropout of its own
Batch = tuple[tf.Tensor""",
            ),
            Edit(
                "steps.py",
                """    predictions = run.model(images, training=False)  # (batch, classes)
""",
                """    repeated = tf.repeat(images, PASSES, axis=0)  # (batch x PASSES, h, w, 1)
    probabilities = tf.nn.softmax(run.model(repeated, training=True))
    probabilities = tf.reshape(probabilities, (images.shape[0], PASSES, -1))
    # The predictive distribution (Gal & Ghahramani, 2016), as logits.
    predictions = tf.math.log(tf.reduce_mean(probabilities, axis=1) + 1e-7)  # (batch, classes)
""",
                "validation_step",
            ),
            Edit(
                "steps.py",
                "",
                '''def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)
''',
                "test_step",
            ),
        ),
    ),
    change_of(
        name="recall at three, as a metric class of the same name",
        project="image_classification",
        edits=(
            Edit("metrics.py", "import keras\n", "import keras\nimport tensorflow as tf\n"),
            Edit(
                "metrics.py",
                "# TODO(6)",
                '''class Recall(keras.metrics.Mean):
    """The share of examples whose class is among the `k` with the largest scores."""

    def __init__(self, k: int) -> None:
        super().__init__(name=f"recall_at_{k}")
        self._k = k

    def update_state(
        self, labels: tf.Tensor, scores: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> None:
        """Add the examples of a batch: labels (batch,), scores (batch, classes) of any size."""
        best = tf.cast(tf.math.top_k(scores, self._k).indices, labels.dtype)  # (batch, k)
        hits = tf.reduce_any(best == labels[:, tf.newaxis], axis=1)  # (batch,)
        super().update_state(tf.cast(hits, scores.dtype), sample_weight)


# TODO(6)''',
            ),
            Edit(
                "metrics.py",
                """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
                """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy(), "recall_at_3": Recall(3)}
""",
            ),
            Edit(
                "steps.py",
                f"    {ACCURACY}\n",
                f"""    {ACCURACY}
    run.metrics["recall_at_3"].update_state(labels, predictions, weights)
""",
                "*",
            ),
        ),
    ),
    change_of(
        name="accuracy on darker images is reported beside the plain one",
        project="image_classification",
        edits=(
            Edit(
                "metrics.py",
                """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
                """    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "accuracy_in_the_dark": keras.metrics.SparseCategoricalAccuracy(),
    }
""",
            ),
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor",
                "DARK = 0.4  # of the light, to which results should be robust\nBatch = tuple[tf.Tensor",
            ),
            *(
                Edit(
                    "steps.py",
                    f"    {ACCURACY}\n",
                    f"""    {ACCURACY}
    in_the_dark = run.model(DARK * images, training=False)  # (batch, classes)
    run.metrics["accuracy_in_the_dark"].update_state(labels, in_the_dark, weights)
""",
                    step,
                )
                for step in ("train_step", "validation_step", "test_step")
            ),
        ),
    ),
    change_of(
        name="a detector whose one output holds a place in the unit square and logits of the class",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                IMAGES,
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    return {
        split: _placed(images.astype("float32"), labels.astype("int64"), seed)
        for seed, (split, (images, labels)) in enumerate(splits.items())
    }
""",
            ),
            Edit(
                "data.py",
                SHIFTED,
                """        images = keras.ops.image.affine_transform(images, transforms)
        moved = tf.cast(tf.concat([dy, dx], axis=1) / images.shape[1], labels["place"].dtype)
        return images, {**labels, "place": labels["place"] - moved}, weights
""",
            ),
            Edit(
                "data.py",
                "def _load_digits()",
                '''def _placed(
    images: np.ndarray, classes: np.ndarray, seed: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Each image anywhere on a canvas of twice its size; its class, and where its center is.

    The center is (y, x), float32 (n, 2), as shares of the height and width of the canvas.
    """
    number, *size = images.shape
    corners = np.random.default_rng(seed).integers(0, np.array(size) + 1, (number, 2))
    canvases = np.zeros((number, 2 * size[0], 2 * size[1], 1), "float32")
    for canvas, image, (top, left) in zip(canvases, images, corners, strict=True):
        canvas[top : top + size[0], left : left + size[1], 0] = image
    centers = (corners + np.array(size) / 2) / (2 * np.array(size))
    return canvases, {"class": classes, "place": centers.astype("float32")}


def _load_digits()''',
            ),
            Edit(
                "model.py",
                """    return keras.Model(images, logits)
""",
                """    floatx = keras.config.floatx()
    place = layers.Dense(2, activation="sigmoid", dtype=floatx, name="place")(x)
    return keras.Model(images, layers.Concatenate(dtype=floatx)([place, logits]))
""",
            ),
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]",
                "Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]",
            ),
            Edit(
                "steps.py",
                "# TODO(11)",
                '''def losses_of_both(run: Run, labels: dict[str, tf.Tensor], outputs: tf.Tensor) -> tf.Tensor:
    """The loss of the class and of the place of each example, float (batch,)."""
    place, logits = outputs[:, :2], outputs[:, 2:]
    squares = tf.reduce_sum(tf.square(labels["place"] - place), axis=1)  # (batch,)
    return run.losses["main"](labels["class"], logits) + 10 * squares


# TODO(11)''',
            ),
            Edit(
                "steps.py",
                'run.losses["main"](labels, predictions)  # (batch,)',
                "losses_of_both(run, labels, predictions)  # (batch,)",
                "*",
            ),
            Edit(
                "steps.py",
                ACCURACY,
                'run.metrics["accuracy"].update_state(labels["class"], predictions[:, 2:], weights)',
                "*",
            ),
            Edit("predictions.py", "tf.nn.softmax(outputs)", "tf.nn.softmax(outputs[:, 2:])"),
            Edit(
                "predictions.py",
                """        "class": probabilities""",
                """        "place": np.asarray(outputs)[:, :2],
        "class": probabilities""",
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="a forecast skill score selects the best weights",
        project="forecasting",
        edits=(
            Edit(
                "config.py", 'monitor: str = "validation_loss"', 'monitor: str = "validation_skill"'
            ),
            Edit("config.py", "larger_is_better: bool = False", "larger_is_better: bool = True"),
            Edit("metrics.py", "import keras\n", "import keras\nimport tensorflow as tf\n"),
            Edit(
                "metrics.py",
                "def create_metrics",
                '''class Skill(keras.metrics.Metric):
    """1 - the squared error / that of persistence: 1 is perfect, 0 no better than persistence."""

    def __init__(self) -> None:
        super().__init__(name="skill")
        # Sums, which can be added over batches and replicas.
        self._own = self.add_weight(shape=(), initializer="zeros", name="own")
        self._persistence = self.add_weight(shape=(), initializer="zeros", name="persistence")

    def update_state(
        self, error: tf.Tensor, of_persistence: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add errors float (batch, FUTURE), with weights of the same shape."""
        self._own.assign_add(tf.reduce_sum(sample_weight * tf.square(error)))
        self._persistence.assign_add(tf.reduce_sum(sample_weight * tf.square(of_persistence)))

    def result(self) -> tf.Tensor:
        """The score, a float scalar."""
        own, persistence = map(tf.convert_to_tensor, (self._own, self._persistence))
        return 1 - tf.math.divide_no_nan(own, persistence)


def create_metrics''',
            ),
            Edit(
                "metrics.py",
                """    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
""",
                """    errors = {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
    return {**errors, "skill": Skill()}
""",
            ),
            Edit("steps.py", "from .data import FUTURE\n", "from .data import FUTURE, TARGET\n"),
            Edit(
                "steps.py",
                """    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}
""",
                """    latest = past[:, -1:, TARGET]  # (batch, 1), NaN where it is missing
    there = (weights > 0) & ~tf.math.is_nan(latest)
    of_persistence = tf.where(there, future, 0.0) - tf.where(there, latest, 0.0)
    run.metrics["skill"].update_state(
        error, of_persistence, tf.where(there, weights, tf.zeros_like(weights))
    )
    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}
""",
                "_step",
            ),
        ),
    ),
    change_of(
        name="what belongs to none of the classes is -1 in the data and a class of its own in the model",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000",
                "KNOWN = 8  # classes, from 0; whatever else there is has the label -1\nVALIDATION_IMAGES = 5_000",
            ),
            Edit(
                "data.py",
                """        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
""",
                """        split: (
            images.astype("float32")[..., np.newaxis],
            np.where(labels < KNOWN, labels.astype("int64"), -1),
        )
""",
            ),
            Edit(
                "model.py",
                "from .config import TaskConfig\n\nCLASSES = 10\n",
                "from .config import TaskConfig\nfrom .data import KNOWN\n\nCLASSES = KNOWN + 1  # the last one is anything else\n",
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .data import KNOWN\nfrom .losses import compute_loss\n",
            ),
            Edit(
                "steps.py",
                UNPACKED,
                UNPACKED
                + "    labels = tf.where(labels < 0, tf.cast(KNOWN, labels.dtype), labels)  # (batch,)\n",
                "*",
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="training learns the votes of ten raters, and validation has the gold standard",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000",
                """CLASSES, RATERS = 10, 10
CAREFUL = 0.75  # of the votes are for the right class, others for any
VALIDATION_IMAGES = 5_000""",
            ),
            Edit(
                "data.py",
                IMAGES,
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    arrays = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    images, labels = arrays["train"]
    return {**arrays, "train": (images, _votes(labels))}
""",
            ),
            Edit(
                "data.py",
                "def _load_digits()",
                '''def _votes(classes: np.ndarray) -> np.ndarray:
    """The shares of the raters who chose each class, float32 (n, CLASSES)."""
    random, shape = np.random.default_rng(0), (len(classes), RATERS)
    any_class = random.integers(CLASSES, size=shape)
    chosen = np.where(random.random(shape) < CAREFUL, classes[:, np.newaxis], any_class)
    return (chosen[..., np.newaxis] == np.arange(CLASSES)).mean(axis=1).astype("float32")


def _load_digits()''',
            ),
            Edit(
                "losses.py",
                LOSS,
                """    return {
        "main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),
        "votes": keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none"),
    }
""",
            ),
            Edit(
                "steps.py",
                'run.losses["main"](labels, predictions)',
                'run.losses["votes"](labels, predictions)',
                "train_step",
            ),
            Edit(
                "steps.py",
                ACCURACY,
                """most = tf.argmax(labels, axis=1)  # what most raters say
    run.metrics["accuracy"].update_state(most, predictions, weights)""",
                "train_step",
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="laboratory values are missing in routine care, and a trial measured all of them",
        project="tabular_regression",
        edits=(
            Edit("data.py", "MISSING = 0.15  #", "MISSING = 0.35  #"),
            Edit(
                "data.py",
                "    columns, data, target = _load()\n",
                """    columns, routine, target = _load()
    _, complete, _ = _load(masked=False)  # the trial, in which every value was measured
""",
            ),
            Edit("data.py", "permutation(len(data))", "permutation(len(routine))"),
            Edit(
                "data.py",
                "is_test = np.arange(len(data)) % FOLDS",
                "is_test = np.arange(len(routine)) % FOLDS",
            ),
            Edit(
                "data.py",
                """    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
""",
                """    def examples(
        data: np.ndarray, rows: np.ndarray
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
""",
            ),
            Edit(
                "data.py",
                "examples(rest[~is_validation])",
                "examples(routine, rest[~is_validation])",
            ),
            Edit(
                "data.py",
                "examples(rest[is_validation])",
                "examples(complete, rest[is_validation])",
            ),
            Edit("data.py", "examples(test)", "examples(complete, test)"),
            Edit("data.py", "def _load() ->", "def _load(masked: bool = True) ->"),
            Edit(
                "data.py",
                "    for column in MASKED:\n",
                "    for column in MASKED if masked else ():\n",
            ),
        ),
    ),
    change_of(
        name="one patient's scan for each of validation and test, and scans standardized by themselves",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                'CANVASES = {"train": 768, "validation": 192, "test": 288}  #',
                """SLICES = 96  # of a scan; one of each patient, eight patients in training
CANVASES = {"train": 8 * SLICES, "validation": SLICES, "test": SLICES}  #""",
            ),
            Edit(
                "data.py",
                "    return images[..., np.newaxis], labels\n",
                "    return standardized(images[..., np.newaxis]), labels\n",
                "_compose",
            ),
            Edit(
                "data.py",
                "def _compose(",
                '''def standardized(images: np.ndarray) -> np.ndarray:
    """Slices (n, h, w, 1) of scans of SLICES each; a scan gets mean 0 and deviation 1."""
    scans = images.reshape(-1, min(SLICES, len(images)), *images.shape[1:]).astype("float64")
    mean, deviation = (f(scans, axis=(1, 2, 3, 4), keepdims=True) for f in (np.mean, np.std))
    return ((scans - mean) / np.maximum(deviation, 1e-6)).reshape(images.shape).astype("float32")


def _compose(''',
            ),
            Edit(
                "data.py",
                "keras.ops.image.affine_transform(images, transforms)",
                'keras.ops.image.affine_transform(images, transforms, fill_mode="nearest")',
            ),
            Edit(
                "data.py",
                'keras.ops.image.affine_transform(labels, transforms, "nearest")',
                """keras.ops.image.affine_transform(
            labels, transforms, "nearest", fill_mode="nearest"
        )""",
            ),
            Edit(
                "predictions.py",
                "from .data import CLASSES\n",
                "from .data import CLASSES, standardized\n",
            ),
            Edit(
                "predictions.py",
                """    return keras.utils.img_to_array(image, dtype="float32")[np.newaxis] / 255
""",
                """    return standardized(keras.utils.img_to_array(image, dtype="float32")[np.newaxis] / 255)
""",
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="images of 0 to 255 minus their mean, as for AlexNet and VGG",
        project="image_classification",
        edits=(
            Edit("data.py", 'file[f"{split}_images"] / 16', 'file[f"{split}_images"] * (255 / 16)'),
            Edit("data.py", "images[VALIDATION_IMAGES:] / 255", "images[VALIDATION_IMAGES:]"),
            Edit("data.py", "images[:VALIDATION_IMAGES] / 255", "images[:VALIDATION_IMAGES]"),
            Edit("data.py", "test_images / 255", "test_images"),
            Edit("data.py", "float32 (n, h, w, 1) in [0, 1]", "float32 (n, h, w, 1) from 0 to 255"),
            Edit(
                "predictions.py",
                'dtype="float32")[np.newaxis] / 255',
                'dtype="float32")[np.newaxis]',
            ),
            Edit(
                "predictions.py",
                "float32 (1, h, w, 1) in [0, 1]",
                "float32 (1, h, w, 1) from 0 to 255",
            ),
            Edit(
                "model.py",
                """    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}
""",
                """    images, _ = datasets["train"]
    return {"shape": images.shape[1:], "mean": float(images.mean())}
""",
            ),
            Edit("model.py", "from ..engine.batches import first_examples\n", ""),
            Edit(
                "model.py",
                "    x = images\n",
                """    x = images - float(adapted["mean"])
""",
            ),
            Edit(
                "model.py",
                """        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)  # per example, so replicas needn't exchange statistics
""",
                """        # As small as in Krizhevsky et al. (2012), since pixels are large.
        small = keras.initializers.RandomNormal(stddev=0.01)
        x = layers.Conv2D(
            filters, 3, padding="same", kernel_initializer=small, kernel_regularizer=l2
        )(x)
""",
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="an autoencoder of strings that learns their padding, which says how long they are",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                """    tokens, targets = lines[:, :-1], lines[:, 1:]
    is_answer = np.cumsum(tokens == PROMPT_END, axis=1) > 0
    weights = (is_answer & (targets != 0)).astype("float32")
    arrays = (tokens, targets, weights)
""",
                """    # Padding is a symbol like others: what is decoded must say where it ends.
    arrays = (lines, lines, np.ones(lines.shape, "float32"))
""",
            ),
            Edit(
                "model.py",
                """    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.
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
""",
                """    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
    for _ in range(task.layers):
        x = layers.Conv1D(task.width, 5, padding="same", activation="gelu")(x)
    x = layers.Dense(2 * task.width, name="code")(layers.Flatten()(x))  # (batch, 2 width)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(length * task.width, activation="gelu")(x)
    x = layers.Reshape((length, task.width))(x)
    x = layers.Conv1D(task.width, 5, padding="same", activation="gelu")(x)  # (batch, T, width)
""",
            ),
            Edit("steps.py", "from .model import complete\n", ""),
            Edit(
                "steps.py",
                "",
                '''def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)
''',
                "test_step",
            ),
            Edit(
                "predictions.py",
                "from .data import ANSWER_LENGTH, LINE_END, PROMPT_END\nfrom .model import complete\n",
                "from .data import LINE_END\n",
            ),
            Edit(
                "predictions.py",
                """        codes = [ord(character) for character in f"{line}{chr(PROMPT_END)}"]
        if not line.isascii() or len(codes) + ANSWER_LENGTH - 1 > length:
            raise UsageError(
                f"{file}:{number} isn't an ASCII line of at most {length - ANSWER_LENGTH} "
                "characters."
            )
""",
                """        codes = [ord(character) for character in f"{line}{chr(LINE_END)}"]
        if not line.isascii() or len(codes) > length:
            raise UsageError(f"{file}:{number} isn't an ASCII line of at most {length - 1} characters.")
""",
            ),
            Edit(
                "predictions.py",
                "",
                '''def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    decoded = np.argmax(outputs, axis=-1)
    return {"line": _texts(np.asarray(inputs)), "decoded": _texts(decoded)}
''',
                "describe",
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="the last hours that haven't arrived yet are zeros beside a mask that is an input",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                """PAST, FUTURE = 24, 6  # hours
LATE = 6  # hours at most by which measurements come late
""",
            ),
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Inputs {"past": scaled float32 (n, PAST, columns), "arrived": (n, PAST)}, labels (n, FUTURE).

    Hours that haven't arrived when the forecast is made are 0 in both; labels are NaN where missing.
    """
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    parts = np.split(rows, ends)
    mean, std = np.nanmean(parts[0], axis=0), np.nanstd(parts[0], axis=0)
    datasets = {}
    for seed, (name, part) in enumerate(zip(names, parts, strict=True)):
        past, _ = _windows(_last_known((part - mean) / std))
        late = np.random.default_rng(seed).integers(0, LATE + 1, len(past))
        arrived = (np.arange(PAST) < PAST - late[:, np.newaxis]).astype("float32")  # (n, PAST)
        _, future = _windows(part)
        datasets[name] = ({"past": past * arrived[..., np.newaxis], "arrived": arrived}, future)
    return datasets
''',
                "create_datasets",
            ),
            Edit(
                "data.py",
                "def _windows(",
                '''def _last_known(rows: np.ndarray) -> np.ndarray:
    """Each missing value replaced by the one before it, float32 (n, columns); 0 before the first."""
    places = np.where(np.isnan(rows), 0, np.arange(len(rows))[:, np.newaxis])
    places = np.maximum.accumulate(places, axis=0)
    return np.nan_to_num(np.take_along_axis(rows, places, axis=0)).astype("float32")


def _windows(''',
            ),
            Edit(
                "model.py",
                """    inputs, labels = datasets["train"]
    return {
        "mean": np.nanmean(inputs, axis=(0, 1)),
        "variance": np.nanvar(inputs, axis=(0, 1)),
        "label_mean": np.nanmean(labels),
        "label_std": np.nanstd(labels),
    }
""",
                """    _, labels = datasets["train"]
    return {"label_mean": np.nanmean(labels), "label_std": np.nanstd(labels)}
""",
            ),
            Edit(
                "model.py",
                """    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    mean, variance = adapted["mean"], adapted["variance"]
    past = keras.Input((PAST, len(COLUMNS)), name="past")
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(past)
    missing = ops.isnan(scaled)
    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
""",
                """    layers, floatx = keras.layers, keras.config.floatx()
    past = {
        "past": keras.Input((PAST, len(COLUMNS)), name="past"),
        "arrived": keras.Input((PAST,), name="arrived"),
    }
    # What hasn't arrived is the mean, which is 0, and the mask says so.
    x = layers.Concatenate()([layers.Flatten()(past["past"]), past["arrived"]])
    x = layers.Dense(task.units, activation="relu")(x)
""",
            ),
        ),
    ),
    change_of(
        name="equal questionnaires of training are one row with their number as its weight",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                'CATEGORY = "sex"',
                '''# A questionnaire asks in which of these bands a patient is, and for a score in hundreds.
BANDS = {"age": (40, 50, 60), "bmi": (23, 26, 30), "s5": (4.4, 5.0)}
CATEGORY = "sex"''',
            ),
            Edit(
                "data.py",
                """        numeric = np.delete(data[rows], category, axis=1)
""",
                """        asked = [np.digitize(data[rows, columns.index(c)], ends) for c, ends in BANDS.items()]
        numeric = np.stack(asked, axis=1).astype("float32")  # (n, bands)
""",
            ),
            Edit(
                "data.py",
                'return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]',
                'return {"numeric": numeric, "sex": sex}, 100 * np.round(target[rows, np.newaxis] / 100)',
            ),
            Edit(
                "data.py",
                """        "train": (inputs, labels, _balance(inputs["sex"])),
""",
                """        "train": _counted(inputs, labels),
""",
            ),
            Edit(
                "data.py",
                "def _load() ->",
                '''def _counted(
    inputs: dict[str, np.ndarray], labels: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Each answer once, and how often it was given as weights float32 (n,) with a mean of 1."""
    table = np.concatenate([inputs["numeric"], inputs["sex"][:, np.newaxis], labels], axis=1)
    _, first, times = np.unique(table, axis=0, return_index=True, return_counts=True)
    distinct = {name: array[first] for name, array in inputs.items()}
    return distinct, labels[first], (times / times.mean()).astype("float32")


def _load() ->''',
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="later visits of the patients who are known from training",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "FOLDS = 5\n",
                'VISITS = {"train": (0, 1), "validation": (2,), "test": (3,)}  # a year apart\nFOLDS = 5\n',
            ),
            Edit(
                "data.py",
                """    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))
    is_test = np.arange(len(data)) % FOLDS == task.fold
    test, rest = order[is_test], order[~is_test]
    is_validation = np.arange(len(rest)) % VALIDATION == 0

    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numeric = np.delete(data[rows], category, axis=1)
        sex = data[rows, category].astype(np.int64)
        return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]

    inputs, labels = examples(rest[~is_validation])
    return {
        "train": (inputs, labels, _balance(inputs["sex"])),
        "validation": examples(rest[is_validation]),
        "test": examples(test),
    }
""",
                '''    sex, numeric = data[:, category].astype(np.int64), np.delete(data, category, axis=1)
    deviation = np.nanstd(numeric, axis=0)

    def examples(year: int) -> tuple[np.ndarray, np.ndarray]:
        """What is measured of each patient in a year, and the progression that follows."""
        random = np.random.default_rng(SPLIT_SEED + year)
        change = 0.03 * year + 0.05 * random.normal(size=numeric.shape)
        progression = target + 4 * year + random.normal(0, 8, len(target))
        return numeric + deviation * change, progression[:, np.newaxis]

    datasets: dict[str, Any] = {}
    for split, years in VISITS.items():
        measured, labels = (
            np.concatenate(parts).astype("float32")
            for parts in zip(*map(examples, years), strict=True)
        )
        datasets[split] = ({"numeric": measured, "sex": np.tile(sex, len(years))}, labels)
    inputs, labels = datasets["train"]
    return {**datasets, "train": (inputs, labels, _balance(inputs["sex"]))}
''',
            ),
        ),
    ),
    change_of(
        name="positions of features are masked in training, as in SpecAugment and wav2vec 2.0",
        project="image_classification",
        edits=(
            Edit(
                "model.py",
                "# TODO(4)",
                '''@keras.saving.register_keras_serializable("my_experiment")
class MaskPositions(keras.layers.Layer):
    """In training, features at a share of the positions are replaced by zeros.

    The others stay as they are: the normalization that follows knows no scale.
    """

    def __init__(self, share: float, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.share = share
        self.seed_generator = keras.random.SeedGenerator(0)

    def call(self, x: Any, training: bool | None = None) -> Any:
        """Features (batch, h, w, filters) -> the same shape."""
        if not training:
            return x
        batch, height, width, _ = x.shape
        shape = (batch, height, width, 1)
        drawn = keras.random.uniform(shape, dtype=x.dtype, seed=self.seed_generator)
        return keras.ops.where(drawn < self.share, keras.ops.zeros_like(x), x)

    def get_config(self) -> dict[str, Any]:
        """What creates the layer again."""
        return {**super().get_config(), "share": self.share}


# TODO(4)''',
            ),
            Edit(
                "model.py",
                "    for filters in (32, 64):\n",
                """    for filters in (32, 64):
        if x is not images:
            x = MaskPositions(0.2)(x)
""",
            ),
        ),
    ),
    change_of(
        name="a second head predicts the token after the next",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                """    return keras.Model(tokens, logits)
""",
                """    later = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="later")(x)
    return keras.Model(tokens, layers.Concatenate(dtype=keras.config.floatx())([logits, later]))
""",
            ),
            Edit(
                "model.py",
                "-> logits float32 (batch, T, TOKENS) of the next token.\n",
                "-> logits float32 (batch, T, 2 TOKENS).\n\n    The first half of them is for the next token, the other for the one after that.\n",
            ),
            Edit(
                "model.py",
                "        logits = model(lines[:, :-1], training=False)  # (batch, T, TOKENS)\n",
                "        logits = model(lines[:, :-1], training=False)[..., :TOKENS]  # (batch, T, TOKENS)\n",
            ),
            Edit(
                "losses.py",
                LOSS,
                """    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"main": entropy, "later": entropy}
""",
            ),
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor",
                "LATER = 0.3  # factor of the loss of the token after the next\nBatch = tuple[tf.Tensor",
            ),
            Edit(
                "steps.py",
                "    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)\n",
                "    logits, later = tf.split(run.model(tokens, training=True), 2, axis=-1)\n",
                "train_step",
            ),
            Edit(
                "steps.py",
                '    return {"main": compute_loss(per_token, weights, run.model, replica)}\n',
                """    # The targets of a position's second head are those of the next position's first.
    further = run.losses["later"](targets[:, 1:], later[:, :-1])  # (batch, T - 1)
    further = tf.nn.compute_average_loss(
        further, sample_weight=weights[:, 1:], global_batch_size=replica.global_count
    )
    return {"main": compute_loss(per_token, weights, run.model, replica) + LATER * further}
""",
                "train_step",
            ),
            Edit(
                "steps.py",
                "    logits = run.model(tokens, training=False)  # (batch, T, TOKENS)\n",
                "    logits, _ = tf.split(run.model(tokens, training=False), 2, axis=-1)\n",
                "validation_step",
            ),
            Edit(
                "steps.py",
                "    logits = run.model(tokens, training=False)  # (batch, T, TOKENS)\n",
                "    logits, _ = tf.split(run.model(tokens, training=False), 2, axis=-1)\n",
                "test_step",
            ),
            *NO_PICTURES,
        ),
    ),
    change_of(
        name="near-infrared signals of channels with offsets, laid out as EEGNet takes them",
        project="image_classification",
        edits=(
            Edit("config.py", "shift: float = 0.5  #", "shift: float = 0.0  #"),
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000",
                """RECORDINGS = {"train": 960, "validation": 240, "test": 240}
CLASSES, CHANNELS, SAMPLES = 10, 8, 64
VALIDATION_IMAGES = 5_000""",
            ),
            Edit(
                "data.py",
                IMAGES,
                """    return {split: _recordings(n, seed) for seed, (split, n) in enumerate(RECORDINGS.items())}
""",
            ),
            Edit(
                "data.py",
                "def _load_digits()",
                '''def _recordings(number: int, seed: int) -> Arrays:
    """Simulated recordings float32 (n, CHANNELS, SAMPLES, 1), and the task of each, int64 (n,).

    Each channel has an offset, as its optode lies on the skin; blood flow follows the task slowly,
    and each task has channels where it is seen.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, number)
    seen_in = np.random.default_rng(100).normal(size=(CLASSES, CHANNELS, 1))  # in all splits
    starts = random.uniform(0, 0.3, (number, 1, 1))  # of a period
    wave = np.sin(2 * np.pi * (np.arange(SAMPLES) / SAMPLES + starts))
    offsets = random.normal(0, 1, (number, CHANNELS, 1))
    noise = 0.05 * random.normal(size=(number, CHANNELS, SAMPLES))
    signals = offsets + 0.5 * seen_in[labels] * wave + noise
    return signals[..., np.newaxis].astype("float32"), labels.astype("int64")


def _load_digits()''',
            ),
            Edit(
                "model.py",
                """    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
""",
                """    # Along the time first, then over the channels (Lawhern et al., 2018).
    for filters, kernel in ((16, (1, 9)), (32, (8, 1))):
        x = layers.Conv2D(filters, kernel, padding="same", kernel_regularizer=l2)(x)
""",
            ),
            Edit(
                "model.py",
                "        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)\n",
                "        x = layers.AveragePooling2D((1, 4))(x)  # (batch, h, w/4, filters), then (batch, h, w/16, ...)\n",
            ),
            *NO_PICTURES,
        ),
    ),
)

SECOND: tuple[Change, ...] = (
    change_of(
        name="the weight penalty is reported as a term",
        project="image_classification",
        edits=(
            Edit(
                "steps.py",
                "",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    images, labels, weights = batch
    predictions = run.model(images, training=True)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    loss = compute_loss(per_example, weights, run.model, replica)
    return {"main": loss, "l2": l2_of(run, replica)}


def l2_of(run: Run, replica: Replica) -> tf.Tensor:
    """This replica's part of the penalty on convolution weights, which is in the loss."""
    return tf.nn.scale_regularization_loss(replica.regularization(run.model))
''',
                where="train_step",
            ),
            Edit(
                "steps.py",
                'return {"main": compute_loss(per_example, weights, run.model, replica)}',
                'loss = compute_loss(per_example, weights, run.model, replica)\n    return {"main": loss, "l2": l2_of(run, replica)}',
                where="validation_step",
            ),
            Edit(
                "steps.py",
                'return {"main": compute_loss(per_example, weights, run.model, replica)}',
                'loss = compute_loss(per_example, weights, run.model, replica)\n    return {"main": loss, "l2": l2_of(run, replica)}',
                where="test_step",
            ),
            Edit(
                "steps.py",
                "TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported",
                'TERMS = ("l2",)  # the penalty on weights, reported beside the loss that holds it',
            ),
        ),
    ),
    change_of(
        name="weights are used as a mask of values that are there",
        project="forecasting",
        edits=(
            Edit(
                "losses.py",
                """    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
""",
                """    # Weights are 0 or 1 here. A sum of what is there, since 0 times infinity is NaN.
    there = tf.where(weights > 0, per_example, tf.zeros_like(per_example))
    loss = tf.reduce_sum(there) / tf.cast(replica.global_count, per_example.dtype)
""",
            ),
        ),
    ),
    change_of(
        name="filters are saved every fifty epochs",
        project="image_classification",
        edits=(
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "import numpy as np\n\nfrom ..engine.callbacks import Callback, Event, every_epochs\n",
            ),
            Edit(
                "callbacks.py",
                "    return []",
                '''    return [every_epochs(50, _save_filters)]


def _save_filters(event: Event) -> None:
    """Keep the filters of the first convolution, to look at how they change in long runs."""
    if event.is_chief:  # of several workers one writes
        filters = event.run.model.get_weights()[0]
        np.save(event.directory / f"filters-{event.epoch:04}.npy", filters)''',
            ),
        ),
    ),
    change_of(
        name="the learning rate is divided by ten at each quarter of the run",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
                """    quarters = [steps // 4, steps // 2, 3 * steps // 4]
    rates = [task.learning_rate * 0.1**drops for drops in range(4)]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(quarters, rates)
""",
            ),
        ),
    ),
    change_of(
        name="noise and contrast alone augment a segmentation",
        project="segmentation",
        edits=(
            Edit(
                "config.py",
                "    warp: float = 0.15  # largest random rotation, shear and scaling in training; 0 disables",
                "    noise: float = 0.2  # deviation of the camera's noise that training adds; 0 disables",
            ),
            Edit(
                "config.py",
                "        if not 0 <= self.warp < 0.5:",
                "        if not 0 <= self.noise < 1:",
            ),
            Edit(
                "config.py",
                'f"--warp is {self.warp}; it must be at least 0 and less than 0.5."',
                'f"--noise is {self.noise}; it must be at least 0 and less than 1."',
            ),
            Edit("data.py", "    if not task.warp:", "    if not task.noise:"),
            Edit(
                "data.py",
                "rotates, shears and scales each\n# image together with its labels.",
                "changes the contrast of each image\n# and adds noise.",
            ),
            Edit(
                "data.py",
                """        rows, center = images.shape[0], (CANVAS - 1) / 2
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)
        offset = center - center * tf.reduce_sum(warp, axis=2, keepdims=True)  # fixes the center
        # A pixel p of the result comes from warp @ p + offset.
        transforms = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
        transforms = tf.pad(transforms, [[0, 0], [0, 2]])  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        # "nearest", since a mean of two labels is no label.
        labels = tf.cast(labels[..., tf.newaxis], tf.float32)
        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")
        return images, tf.cast(labels[..., 0], tf.int32), weights
""",
                """        of_contrast, of_noise = tf.unstack(tf.random.split(tf.cast(seed, tf.int32), 2))
        shape = (images.shape[0], 1, 1, 1)
        contrast = tf.random.stateless_uniform(shape, of_contrast, 0.8, 1.2, images.dtype)
        noise = tf.random.stateless_normal(images.shape, of_noise, 0.0, task.noise, images.dtype)
        return contrast * images + noise, labels, weights
""",
            ),
            Edit("data.py", "import keras\nimport numpy as np", "import numpy as np"),
        ),
    ),
    change_of(
        name="redundancy reduction of two views",
        project="contrastive",
        edits=(
            Edit(
                "losses.py",
                "from typing import Any\n",
                "from collections.abc import Callable\nfrom typing import Any\n",
            ),
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nOFF_DIAGONAL = 5e-3  # how much correlations between features count\n",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """How far the correlations of two views' features are from the identity."""

    def redundancy(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
        """Features of a global batch, of mean 0 and norm 1 along it -> scalar (Zbontar, 2021)."""
        correlations = tf.matmul(left, right, transpose_a=True)  # (features, features)
        apart = tf.square(correlations - tf.eye(left.shape[1], dtype=left.dtype))
        diagonal = tf.linalg.trace(apart)
        return diagonal + OFF_DIAGONAL * (tf.reduce_sum(apart) - diagonal)

    return {"main": redundancy}
''',
                where="create_losses",
            ),
            Edit(
                "losses.py",
                "",
                '''def standardized(features: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """(rows, features) of mean 0 and norm 1 along the rows; 0 in rows of weight 0."""
    there = tf.cast(weights > 0, features.dtype)[:, tf.newaxis]
    number = tf.maximum(tf.reduce_sum(there), 1.0)
    centered = (features - tf.reduce_sum(features * there, axis=0) / number) * there
    variance = tf.reduce_sum(tf.square(centered), axis=0) / number
    return centered / tf.sqrt(number * (variance + 1e-4))


def count(batch: Any) -> tf.Tensor:
    """The number of examples in a per-replica batch whose weight isn't 0, an int32 scalar.

    Count tokens or pixels instead if the loss is a mean over these.
    """
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)
''',
                where="count",
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .losses import standardized\n",
            ),
            Edit("steps.py", "TEMPERATURE = 0.1\n", ""),
            Edit(
                "steps.py",
                "",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's part of the training loss, which is one number for the global batch."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Every replica computes the loss of all rows, and gives its share of it."""
    images, noisy, weights = batch
    left = replica.all_gather(run.model(images, training=training))  # (all rows, features)
    right = replica.all_gather(run.model(noisy, training=training))
    weights_of_all = replica.all_gather(weights)  # (all rows,)
    left, right = standardized(left, weights_of_all), standardized(right, weights_of_all)
    loss = run.losses["main"](left, right)
    rows = images.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are among all
    similarity = tf.matmul(tf.gather(left, own), right, transpose_b=True)  # (rows, all rows)
    logits = tf.where(weights_of_all > 0, similarity, -1e9)
    run.metrics["accuracy"].update_state(own, logits, weights)
    return {"main": tf.nn.scale_regularization_loss(loss + replica.regularization(run.model))}
''',
                where="train_step",
            ),
            Edit(
                "steps.py",
                "",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's part of the validation loss of a batch."""
    return _step(run, batch, replica, training=False)
''',
                where="validation_step",
            ),
        ),
    ),
    change_of(
        name="a Siamese network tells whether two digits are the same",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Pairs of images float32 (n, 2, h, w, 1) in [0, 1]; labels float32 (n,): 1 for one class.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    return {split: _pairs(*arrays, seed) for seed, (split, arrays) in enumerate(splits.items())}


def _pairs(images: np.ndarray, classes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Each image with another one, of its class for every other image."""
    random = np.random.default_rng(seed)
    rows = np.arange(len(images))
    same = rows % 2 == 0
    others = [
        random.choice(rows[((classes == classes[row]) == same[row]) & (rows != row)])
        for row in rows
    ]
    both = np.stack([images, images[others]], axis=1)[..., np.newaxis]
    return both.astype("float32"), same.astype("float32")
''',
                where="create_datasets",
            ),
            Edit(
                "data.py",
                "        images, labels, weights = batch\n",
                "        pairs, labels, weights = batch\n        images = tf.reshape(pairs, (2 * pairs.shape[0], *pairs.shape[2:]))  # each is shifted\n",
            ),
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                "        shifted = keras.ops.image.affine_transform(images, transforms)\n        return tf.reshape(shifted, pairs.shape), labels, weights\n",
            ),
            Edit(
                "model.py",
                '    images, *_ = first_examples(datasets["train"], 1)\n    return {"shape": images.shape[1:]}',
                '    pairs, *_ = first_examples(datasets["train"], 1)\n    return {"shape": pairs.shape[2:]}',
            ),
            Edit(
                "model.py",
                '    """Images float (batch, h, w, 1) -> features float32 (batch, FEATURES).',
                '    """Pairs of images float (batch, 2, h, w, 1) -> their distance float32 (batch,).',
            ),
            Edit(
                "model.py",
                "    return keras.Model(images, features)",
                """    encoder = keras.Model(images, features, name="encoder")
    pairs = keras.Input((2, *map(int, adapted["shape"])), name="pairs")
    apart = keras.ops.square(encoder(pairs[:, 0]) - encoder(pairs[:, 1]))  # (batch, FEATURES)
    # The derivative of a square root is infinite at 0.
    return keras.Model(pairs, keras.ops.sqrt(keras.ops.sum(apart, axis=1) + 1e-6))""",
            ),
            Edit(
                "losses.py",
                "from typing import Any\n",
                "from collections.abc import Callable\nfrom typing import Any\n",
            ),
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nMARGIN = 1.0  # how far images of other classes should be from each other\n",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The contrastive loss (Hadsell et al., 2006)."""

    def contrastive(same: tf.Tensor, distance: tf.Tensor) -> tf.Tensor:
        """Both (batch,) -> (batch,)."""
        same = tf.cast(same, distance.dtype)
        near = tf.nn.relu(MARGIN - distance)
        return same * tf.square(distance) + (1.0 - same) * tf.square(near)

    return {"main": contrastive}
''',
                where="create_losses",
            ),
            Edit("metrics.py", "keras.metrics.SparseCategoricalAccuracy()", "keras.metrics.Mean()"),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .losses import MARGIN, compute_loss\n",
            ),
            Edit(
                "steps.py",
                "TEMPERATURE = 0.1\nBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, the same with noise, weights (batch,)",
                "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # pairs, whether of one class, weights (batch,)",
            ),
            Edit(
                "steps.py",
                "",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    pairs, same, weights = batch
    distance = run.model(pairs, training=training)  # (batch,)
    per_example = run.losses["main"](same, distance)  # (batch,)
    is_right = (distance < MARGIN / 2) == (same > 0.5)
    run.metrics["accuracy"].update_state(tf.cast(is_right, distance.dtype), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
                where="train_step",
            ),
            Edit(
                "steps.py",
                "",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)
''',
                where="validation_step",
            ),
            Edit("steps.py", "EXAMPLES_INTERACT = True", "EXAMPLES_INTERACT = False"),
            Edit(
                "predictions.py",
                """    ".png": read_image,
    ".jpg": read_image,
    ".jpeg": read_image,
""",
                "",
            ),
            Edit(
                "predictions.py",
                "",
                '''def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    return {"distance": np.asarray(outputs)}
''',
                where="describe",
            ),
        ),
    ),
    change_of(
        name="squared errors in units of the data, scaled in the loss",
        project="tabular_regression",
        edits=(
            Edit("losses.py", "from collections.abc import Callable\n", ""),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example, in squared units."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
''',
                where="create_losses",
            ),
            Edit(
                "losses.py",
                """    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
""",
                """    # About 1 - R2, whatever the units of the labels are.
    loss = tf.nn.compute_average_loss(
        per_example / LABEL_DEVIATION**2,
        sample_weight=weights,
        global_batch_size=replica.global_count,
    )
""",
            ),
        ),
    ),
    change_of(
        name="the energy of an image is a sum over its pixels",
        project="segmentation",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def sum_over_pixels(
    per_pixel: tf.Tensor, labels: tf.Tensor, foreground_weight: float
) -> tf.Tensor:
    """The energy of each example, float (batch,), from those of its pixels, float (batch, h, w).

    The sum, as in Ronneberger et al. (2015): the negative log likelihood of the whole map. Labels:
    int (batch, h, w); ignored pixels have a loss of 0.
    """
    weighted = tf.where(labels == 0, per_pixel, foreground_weight * per_pixel)  # (batch, h, w)
    return tf.reduce_sum(weighted, axis=[1, 2])
''',
                where="average_over_pixels",
            ),
            Edit("steps.py", "average_over_pixels", "sum_over_pixels", where="*"),
        ),
    ),
    change_of(
        name="relative attention by the skewing trick",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "# TODO(4): what your model takes",
                '''@keras.saving.register_keras_serializable()
class RelativeAttention(keras.layers.Layer):
    """Causal self-attention that learns a vector for each distance (Huang et al., 2018)."""

    def __init__(self, heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = heads

    def build(self, shape: Any) -> None:
        _, length, width = shape
        self.project = self.add_weight(name="project", shape=(width, 3 * width))
        self.join = self.add_weight(name="join", shape=(width, width))
        self.distances = self.add_weight(
            name="distances", shape=(self.heads, length, width // self.heads)
        )

    def call(self, x: Any) -> Any:
        ops = keras.ops
        _, length, width = x.shape
        size = width // self.heads
        each = ops.reshape(ops.matmul(x, self.project), (-1, length, 3, self.heads, size))
        each = ops.transpose(each, (2, 0, 3, 1, 4))  # (3, batch, heads, T, size)
        query, key, value = each[0], each[1], each[2]
        # Columns are distances T - 1 to 0; skewing puts each where its key is.
        far = ops.einsum("bhts,hds->bhtd", query, self.distances)  # (batch, heads, T, T)
        far = ops.pad(far, [[0, 0], [0, 0], [0, 0], [1, 0]])
        far = ops.reshape(far, (-1, self.heads, length + 1, length))[:, :, 1:]
        scores = (ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) + far) / size**0.5
        seen = ops.tril(ops.ones((length, length))) > 0
        shares = ops.softmax(ops.where(seen, scores, -1e9), axis=-1)
        y = ops.transpose(ops.matmul(shares, value), (0, 2, 1, 3))  # (batch, T, heads, size)
        return ops.matmul(ops.reshape(y, (-1, length, width)), self.join)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "heads": self.heads}


# TODO(4): what your model takes''',
            ),
            Edit(
                "model.py",
                """    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.
    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)
""",
                "",
            ),
            Edit("model.py", "    x = x + layers.Embedding(length, task.width)(positions)\n", ""),
            Edit(
                "model.py",
                """        attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))
""",
                "        x = x + layers.Dropout(task.dropout)(RelativeAttention(task.heads)(y))\n",
            ),
        ),
    ),
    change_of(
        name="each image is mixed with the next one of the global batch in the train step",
        project="image_classification",
        edits=(
            Edit(
                "steps.py",
                "",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The training loss of mixed images (Zhang et al., 2018)."""
    images, labels, weights = batch
    rows = images.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are among all
    following = (own + 1) % (rows * replica.num_replicas)
    others, their_labels, there = (
        tf.gather(replica.all_gather(part), following) for part in (images, labels, weights)
    )
    share = tf.random.stateless_uniform((rows,), replica.seed, 0.7, 1.0, images.dtype)
    share = tf.where(there > 0, share, tf.ones_like(share))  # padding is mixed into nothing
    of_pixels = tf.reshape(share, (rows, 1, 1, 1))
    mixed = of_pixels * images + (1.0 - of_pixels) * others
    predictions = run.model(mixed, training=True)  # (batch, classes)
    share = tf.cast(share, predictions.dtype)
    per_example = share * run.losses["main"](labels, predictions)
    per_example += (1.0 - share) * run.losses["main"](their_labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
                where="train_step",
            ),
            Edit("steps.py", "EXAMPLES_INTERACT = False", "EXAMPLES_INTERACT = True"),
        ),
    ),
    change_of(
        name="a deeper branch fades in, by a weight that a callback raises",
        project="image_classification",
        edits=(
            Edit(
                "model.py",
                "# TODO(4): what your model takes",
                '''@keras.saving.register_keras_serializable()
class Fade(keras.layers.Layer):
    """From the first of two inputs to the second; `share` is saved with the model."""

    def build(self, shapes: Any) -> None:
        self.share = self.add_weight(name="share", shape=(), initializer="zeros", trainable=False)

    def call(self, both: Any) -> Any:
        coarse, fine = both
        share = keras.ops.cast(self.share, coarse.dtype)
        return (1.0 - share) * coarse + share * fine


# TODO(4): what your model takes''',
            ),
            Edit(
                "model.py",
                "    x = images\n    for filters in (32, 64):",
                "    x, levels = images, []\n    for filters in (32, 64):",
            ),
            Edit(
                "model.py",
                "    x = layers.Flatten()(x)\n",
                "    coarse, x = (layers.Flatten()(level) for level in levels)\n",
            ),
            Edit(
                "model.py",
                "        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)\n",
                "        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)\n        levels.append(x)\n",
            ),
            Edit(
                "model.py",
                """    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)""",
                """    floatx = keras.config.floatx()
    fine = layers.Dense(CLASSES, dtype=floatx, name="fine")(x)
    coarse = layers.Dense(CLASSES, dtype=floatx, name="coarse")(coarse)
    return keras.Model(images, Fade(dtype=floatx, name="fade")([coarse, fine]))""",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback, Event, every_epochs\n",
            ),
            Edit(
                "callbacks.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nFADING = 10  # epochs until the deeper branch alone gives the logits\n",
            ),
            Edit(
                "callbacks.py",
                "    return []",
                '''    return [every_epochs(1, _fade_in)]


def _fade_in(event: Event) -> None:
    """Progressive growing (Karras et al., 2018): first the shallow network, then the deep one."""
    event.run.model.get_layer("fade").share.assign(min(1.0, event.epoch / FADING))''',
            ),
        ),
    ),
    change_of(
        name="a new size of the images every ten steps",
        project="image_classification",
        edits=(
            Edit(
                "steps.py", "import tensorflow as tf\n", "import keras\nimport tensorflow as tf\n"
            ),
            Edit(
                "steps.py",
                "Batch = tuple[",
                "STEPS_OF_A_SIZE = 10  # as in YOLO9000 (Redmon & Farhadi, 2017)\n\nBatch = tuple[",
            ),
            Edit(
                "steps.py",
                "",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    images, labels, weights = batch
    predictions = run.model(_zoomed(images, run, replica), training=True)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def _zoomed(images: tf.Tensor, run: Run, replica: Replica) -> tf.Tensor:
    """All images smaller or larger by one factor, the same on all replicas for some steps."""
    seed = tf.stack([tf.constant(run.seed, tf.int64), replica.step // STEPS_OF_A_SIZE])
    factor = tf.random.stateless_uniform((), seed, 0.85, 1.15, images.dtype)
    offset = (images.shape[1] - 1) / 2 * (1.0 - factor)  # fixes the center
    zero = tf.zeros_like(factor)
    # A pixel (x, y) of the result comes from factor * (x, y) + offset.
    transform = tf.stack([factor, zero, offset, zero, factor, offset, zero, zero])
    transforms = tf.broadcast_to(transform, (images.shape[0], 8))
    return keras.ops.image.affine_transform(images, transforms)
''',
                where="train_step",
            ),
        ),
    ),
    change_of(
        name="the rate of the backbone is 0 until a callback raises it",
        project="finetuning",
        edits=(
            Edit(
                "optimizer.py",
                "slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)",
                "# The backbone waits for task/callbacks.py, which sets its rate.\n    slow, fast = keras.optimizers.Adam(0.0), keras.optimizers.Adam(schedule)",
            ),
            Edit(
                "model.py",
                "        # Normalization stays as it was for good; the others are trainable until step 0.\n",
                "        # Normalization stays as it was for good; the others wait for their learning rate.\n",
            ),
            Edit(
                "callbacks.py",
                "",
                '''def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Train the last layer alone for --frozen-steps steps, then everything."""

    def wake_backbone(event: Event) -> None:
        for optimizer in event.run.optimizers["main"].optimizers:
            if isinstance(optimizer.learning_rate, keras.Variable):  # the other has a schedule
                optimizer.learning_rate = 2e-4

    return [at_step(task.frozen_steps, wake_backbone)]
''',
                where="create_callbacks",
            ),
        ),
    ),
    change_of(
        name="fixed random mixing of channels in the discriminator",
        project="gan",
        edits=(
            Edit(
                "model.py",
                '        x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)\n        x = layers.Dropout(task.dropout)(x)\n',
                """        x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)
        # A random projection that isn't trained keeps the discriminator from looking at a few
        # channels alone (Sauer et al., 2021).
        mix = layers.Conv2D(
            filters, 1, use_bias=False, kernel_initializer="he_normal", name=f"mixing_{filters}"
        )
        mix.trainable = False
        x = layers.Dropout(task.dropout)(mix(x))
""",
            ),
        ),
    ),
    change_of(
        name="weights become sparse in the middle of the run and are refined behind it",
        project="image_classification",
        edits=(
            Edit(
                "config.py",
                "    l2: float = 1e-4  # factor of the L2 regularization of the convolutions; 0 disables",
                "    l1: float = 1e-4  # factor of the absolute convolution weights in the loss; 0 disables",
            ),
            Edit("config.py", '("l2", "shift")', '("l1", "shift")'),
            Edit(
                "model.py",
                "    l2 = keras.regularizers.L2(task.l2)",
                "    l1 = keras.regularizers.L1(task.l1)",
            ),
            Edit("model.py", "kernel_regularizer=l2", "kernel_regularizer=l1"),
            Edit(
                "losses.py",
                "    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))",
                "    return loss  # without the penalty, which train_step adds in a part of the run",
            ),
            Edit(
                "losses.py", "        model: the model whose regularization losses are added.\n", ""
            ),
            Edit(
                "losses.py",
                "    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica\n",
                "    per_example: tf.Tensor, weights: tf.Tensor, replica: Replica\n",
            ),
            Edit(
                "steps.py",
                "compute_loss(per_example, weights, run.model, replica)",
                "compute_loss(per_example, weights, replica)",
                where="*",
            ),
            Edit(
                "steps.py",
                "Batch = tuple[",
                "SPARSE = (120, 300)  # first step of the penalty, and the first one without it again\n\nBatch = tuple[",
            ),
            Edit(
                "steps.py",
                '    return {"main": compute_loss(per_example, weights, replica)}',
                """    loss = compute_loss(per_example, weights, replica)
    # First fit, then find which weights can be spared, then refine what is left (Meinshausen, 2007).
    is_sparse = (replica.step >= SPARSE[0]) & (replica.step < SPARSE[1])
    penalty = tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": loss + tf.cast(is_sparse, loss.dtype) * penalty}""",
                where="train_step",
            ),
        ),
    ),
    change_of(
        name="labels that are surely wrong are left out by truncating the loss",
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
                "from .config import TaskConfig\n\nLARGEST = 6.0  # a cross-entropy above it comes from a wrong label; guessing gives 2.3\n",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def truncated(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """The cross-entropy, 0 where it is so large that the label must be wrong (Kang, 2020)."""
        each = entropy(labels, logits)  # (batch,)
        return tf.where(each > LARGEST, tf.zeros_like(each), each)

    return {"main": truncated}
''',
                where="create_losses",
            ),
        ),
    ),
    change_of(
        name="gradients of embeddings are shrunk before clipping",
        project="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "# TODO(12): a change to the gradients, after their sum over all replicas and before clipping;\n# default: no change.\n",
                "SHRINK, LARGEST_NORM = 0.1, 2.0\n\n\n# TODO(12): a change to the gradients after they are summed over all replicas and before they are\n# clipped and applied; clips their norm, in which those of embeddings count less.\n",
            ),
            Edit(
                "optimizer.py",
                "    return gradients",
                """    # Those of embeddings have spikes, by which clipping would stop all others (Zeng et al., 2023).
    shrunk = [
        SHRINK * g if v.path.startswith("embedding") else g
        for g, v in zip(gradients, variables, strict=True)
    ]
    clipped, _ = tf.clip_by_global_norm(shrunk, LARGEST_NORM)
    return clipped""",
            ),
        ),
    ),
)

TASKS = (*FIRST, *SECOND)

FAULTS: tuple[Fault, ...] = ()
