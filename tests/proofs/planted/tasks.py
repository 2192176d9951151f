"""Correct tasks that look unusual, each a small change of a starter."""

from __future__ import annotations

from . import blank
from . import places as at
from .edits import Change, Edit, after, before, train_weights, with_arrays

PICTURES = Edit(
    "pictures.py",
    "",
    blank.PICTURES.replace(
        "Pictures of training examples and of predictions: none.", "No pictures."
    ),
)
VALIDATION_BY_STEP, TEST_BY_STEP = (
    Edit(
        "steps.py",
        "",
        f'''def {name}_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the {name} loss."""
    return _step(run, batch, replica, training=False)
''',
        f"{name}_step",
    )
    for name in ("validation", "test")
)
LOWEST_LOSS = (
    Edit("config.py", '"validation_accuracy"', '"validation_loss"'),
    Edit("config.py", "larger_is_better: bool = True", "larger_is_better: bool = False"),
)
INPUT = 'keras.Input(adapted["shape"], name="images")'
NORMALIZED = (
    "x = layers.LayerNormalization()(x)  # per example, so replicas needn't exchange statistics"
)
IN_TRAINING = "predictions = run.model(images, training=True)  # (batch, classes)"
LABELS = 'labels.astype("int64")'
UPDATE = at.UPDATE_ACCURACY.strip()
STANDARDIZED = at.OF_STANDARDIZED.strip()
ADAM = "return keras.optimizers.Adam(schedule)"


def in_model(*replacements: tuple[str, str]) -> tuple[Edit, ...]:
    """Replacements in the model's file."""
    return tuple(Edit("model.py", text, other) for text, other in replacements)


def in_losses(other: str) -> Edit:
    """What the image classification returns as its losses instead of the cross-entropy."""
    return Edit("losses.py", at.CROSS_ENTROPY, other)


def in_steps(step: str) -> tuple[Edit, ...]:
    """One step for training and evaluation: TRAINING stands for the flag."""
    edits = []
    for name, training in (("train", True), ("validation", False), ("test", False)):
        header = f"def {name}_step(run: Run, batch: Batch, replica: Replica)"
        source = f'{header} -> dict[str, tf.Tensor]:\n    """One step."""\n'
        edits.append(
            Edit("steps.py", "", source + step.replace("TRAINING", str(training)), f"{name}_step")
        )
    return tuple(edits)


SUM_OF_SQUARES = '''\
    def squares(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:
        """The squared error of each image, (batch,)."""
        return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])

    return {"main": squares}
'''

STOCHASTIC_DEPTH = '''\
class StochasticDepth(keras.layers.Layer):
    """Drops whole examples' branches in training (Huang et al., 2016)."""

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seeds = keras.random.SeedGenerator(0)

    def call(self, x: Any, training: bool = False) -> Any:
        """x float (batch, features)."""
        if not training:
            return x
        keep = keras.random.uniform((keras.ops.shape(x)[0], 1), seed=self.seeds) >= self.rate
        return x * keras.ops.cast(keep, x.dtype) / (1 - self.rate)


'''

MULTI_LABEL = """\
    def properties(labels):
        return np.stack([labels % 2, labels > 4, np.isin(labels, (2, 3, 5, 7))], 1)

"""

ORDINAL = '''\
    def cumulative(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels (batch,), logits (batch, 9) of "the label is more than k" -> (batch,)."""
        more = tf.cast(labels[:, tf.newaxis] > tf.range(9, dtype=labels.dtype), logits.dtype)
        each = tf.nn.sigmoid_cross_entropy_with_logits(more, logits)  # (batch, 9)
        return tf.reduce_mean(each, axis=1)

    return {"main": cumulative}
'''

COSINE = '''\
    random = tf.random.stateless_normal((10, 16), (1, 2))
    wanted = tf.math.l2_normalize(random, axis=1)  # the embeddings of the classes

    def distance(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch,), embeddings (batch, 16) -> 1 - cosine, (batch,)."""
        targets = tf.cast(tf.gather(wanted, labels), predictions.dtype)
        return 1.0 + keras.losses.cosine_similarity(targets, predictions)

    return {"main": distance}
'''

TRIPLET = """\
    images, labels, weights = batch
    embedded = tf.math.l2_normalize(run.model(images, training=TRAINING), axis=1)  # (rows, n)
    gathered, there = replica.all_gather(embedded), replica.all_gather(weights) > 0
    classes = replica.all_gather(labels)
    distances = 2.0 - 2.0 * tf.matmul(embedded, gathered, transpose_b=True)  # (rows, all)
    same = labels[:, tf.newaxis] == classes
    rows = images.shape[0]
    itself = tf.range(tf.shape(gathered)[0]) == (replica.index * rows + tf.range(rows))[:, tf.newaxis]
    alike = tf.cast(same & there & ~itself, distances.dtype)  # (rows, all rows)
    others = tf.cast(~same & there, distances.dtype)
    near = tf.math.divide_no_nan(tf.reduce_sum(alike * distances, 1), tf.reduce_sum(alike, 1))
    hinge = others * tf.nn.relu(near[:, tf.newaxis] - distances + 0.5)
    per_example = tf.math.divide_no_nan(tf.reduce_sum(hinge, 1), tf.reduce_sum(others, 1))
    nearest = tf.reduce_min(tf.where(others > 0, distances, 4.0), axis=1)
    run.metrics["accuracy"].update_state(tf.cast(near < nearest, weights.dtype), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""

TWO_PARTS = '''\
def create_model(task: TaskConfig, adapted: dict[str, Any]) -> dict[str, keras.Model]:
    """A body, images -> features, and a head, features -> logits; one loss trains both."""
    layers = keras.layers
    images = keras.Input((8, 8, 1))
    x = layers.Conv2D(32, 3, activation="relu")(images)
    body = keras.Model(images, layers.Flatten()(x), name="body")
    features = keras.Input(body.output_shape[1:])
    return {"body": body, "head": keras.Model(features, layers.Dense(CLASSES)(features))}
'''

TWO_PARTS_STEP = """\
    images, labels, weights = batch
    features = run.models["body"](images, training=TRAINING)
    predictions = run.models["head"](features, training=TRAINING)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    loss = compute_loss(per_example, weights, run.models["body"], replica)
    return {"body": loss, "head": loss}
"""

AUTOENCODER = '''\
def create_model(task: TaskConfig, adapted: dict[str, Any]) -> keras.Model:
    """Images float (batch, 8, 8, 1) -> the same, through 12 numbers."""
    layers = keras.layers
    images = keras.Input((8, 8, 1))
    x = layers.Dense(64, activation="relu")(layers.Flatten()(images))
    x = layers.Dense(64, activation="relu")(layers.Dense(12)(x))
    return keras.Model(images, layers.Reshape((8, 8, 1))(layers.Dense(64)(x)))
'''

AUTOENCODER_STEP = """\
    images, wanted, weights = batch
    per_example = run.losses["main"](wanted, run.model(images, training=TRAINING))  # (batch,)
    run.metrics["error"].update_state(per_example, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""

MC_DROPOUT = """\
    images, labels, weights = batch
    passes = [run.model(images, training=True) for _ in range(4)]
    predictions = tf.reduce_mean(tf.stack(passes), axis=0)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""

MIXUP = """\
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        share = tf.random.stateless_uniform((images.shape[0],), seed + 1, 0.5, 1.0)  # (batch,)
        labels, other = tf.one_hot(labels, 10), tf.one_hot(tf.reverse(labels, [0]), 10)
        labels = share[:, None] * labels + (1 - share[:, None]) * other  # (batch, classes)
        share = share[:, None, None, None]
        images = share * images + (1 - share) * tf.reverse(images, [0])
        # What is mixed with padding is padding.
        return images, labels, weights * tf.reverse(weights, [0])
"""

DICE = '''\
def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the soft Dice coefficient of each example, float (batch,); ignored pixels don't count."""
    known = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    wanted = tf.one_hot(tf.where(labels == IGNORED, 0, labels), CLASSES, dtype=logits.dtype) * known
    given = tf.nn.softmax(logits) * known  # (batch, h, w, classes)
    both = tf.reduce_sum(wanted * given, axis=[1, 2])  # (batch, classes)
    sums = tf.reduce_sum(wanted + given, axis=[1, 2])
    return 1.0 - tf.reduce_mean((2.0 * both + 1.0) / (sums + 1.0), axis=1)


'''

PENALTY = """\
    with tf.GradientTape() as tape:  # inside the engine's
        tape.watch(images)
        on_real = discriminator(images, training=True)  # (batch, 1)
        outputs = on_real[:, 0]  # (batch,)
    slopes = tape.gradient(outputs, images)  # (batch, h, w, channels)
"""

VECTOR_METRIC = '''\
class AccuracyByClass(keras.metrics.Metric):
    """The accuracy of each class, (classes,)."""

    def __init__(self, classes: int) -> None:
        super().__init__(name="accuracy_by_class")
        self.classes = classes
        self.right = self.add_variable((classes,), "zeros", name="right")
        self.seen = self.add_variable((classes,), "zeros", name="seen")

    def update_state(self, labels, predictions, sample_weight) -> None:
        """Labels (batch,), logits (batch, classes)."""
        classes = keras.ops.one_hot(labels, self.classes)
        weighted = classes * keras.ops.cast(sample_weight, classes.dtype)[:, None]
        likeliest = keras.ops.cast(keras.ops.argmax(predictions, axis=-1), labels.dtype)
        hit = keras.ops.cast(likeliest == labels, classes.dtype)
        self.seen.assign_add(keras.ops.sum(weighted, axis=0))
        self.right.assign_add(keras.ops.sum(weighted * hit[:, None], axis=0))

    def result(self):
        """The accuracy of each class; 0 for one that wasn't seen."""
        return keras.ops.divide_no_nan(self.right, self.seen)


'''

TASKS = (
    Change(
        name="a residual branch that starts at zero",
        edits=in_model(
            (
                at.HIDDEN,
                '    branch = layers.Dense(64, activation="relu")(x)\n'
                '    x = x + layers.Dense(x.shape[-1], kernel_initializer="zeros")(branch)\n'
                + at.HIDDEN,
            )
        ),
    ),
    Change(
        name="a metric with one number for each class",
        edits=(
            before("metrics.py", "# TODO(6)", VECTOR_METRIC),
            Edit(
                "metrics.py",
                at.ACCURACY,
                '{\n        "accuracy": keras.metrics.SparseCategoricalAccuracy(),\n'
                '        "by_class": AccuracyByClass(10),\n    }',
            ),
            Edit(
                "steps.py", UPDATE, UPDATE + "\n    " + UPDATE.replace("accuracy", "by_class"), "*"
            ),
        ),
    ),
    Change(
        name="five training rows",
        starter="tabular_regression",
        edits=(
            after(
                "data.py",
                at.PATIENTS_OF_TRAINING,
                "    inputs, labels = {name: a[:5] for name, a in inputs.items()}, labels[:5]\n",
            ),
        ),
        flags=("--last-batch", "pad", "--global-batch-size", "8"),
    ),
    Change(
        name="a U-Net with ReLU, max pooling and BatchNormalization as it comes",
        starter="segmentation",
        edits=in_model(
            ('padding="same", activation="swish"', 'padding="same", activation="relu"'),
            ("BatchNormalization(momentum=0.9, epsilon=0.1)", "BatchNormalization()"),
            ("layers.AveragePooling2D(2)", "layers.MaxPooling2D(2)"),
        ),
    ),
    Change(
        name="BatchNormalization in a classifier",
        edits=in_model((NORMALIZED, "x = layers.BatchNormalization()(x)")),
    ),
    Change(
        name="Gaussian noise on the images",
        edits=in_model(("    x = images\n", "    x = layers.GaussianNoise(0.2)(images)\n")),
    ),
    Change(
        name="stochastic depth in a layer of one's own",
        edits=(
            before("model.py", "# TODO(4)", STOCHASTIC_DEPTH),
            *in_model(
                (
                    at.HIDDEN,
                    '    branch = layers.Dense(x.shape[-1], activation="relu")(x)\n'
                    "    x = x + StochasticDepth(0.5)(branch)\n" + at.HIDDEN,
                )
            ),
        ),
    ),
    Change(
        name="noise from replica.seed in the train step",
        edits=(
            before(
                "steps.py",
                "    " + IN_TRAINING,
                "    noise = tf.random.stateless_normal(images.shape, replica.seed, stddev=0.1)\n"
                "    images += tf.cast(noise, images.dtype)\n",
            ),
        ),
    ),
    Change(
        name="whole channels are dropped",
        starter="segmentation",
        edits=in_model(
            (
                "        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)\n",
                "        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)\n"
                "        x = keras.layers.SpatialDropout2D(0.1)(x)\n",
            )
        ),
    ),
    Change(
        name="label smoothing",
        edits=(
            in_losses(
                "    smooth = keras.losses.CategoricalCrossentropy(\n"
                '        from_logits=True, label_smoothing=0.1, reduction="none"\n'
                "    )\n\n"
                "    def smoothed(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
                '        """Labels int (batch,), logits (batch, classes) -> (batch,)."""\n'
                "        return smooth(tf.one_hot(labels, logits.shape[-1]), logits)\n\n"
                f'    return {{"main": smoothed, "plain": {at.SPARSE}}}\n'
            ),
            Edit("steps.py", 'run.losses["main"]', 'run.losses["plain"]', "validation_step"),
        ),
    ),
    Change(
        name="class weights", edits=train_weights("    weights = np.where(labels < 3, 2.5, 0.5)\n")
    ),
    Change(
        name="weights of zero for a third of the examples",
        edits=train_weights("    weights = np.arange(len(labels)) % 3 > 0\n"),
    ),
    Change(
        name="a frozen backbone",
        edits=in_model(
            ("kernel_regularizer=l2)(x)", "trainable=False)(x)"),
            ("    l2 = keras.regularizers.L2(task.l2)\n", ""),
        ),
    ),
    Change(
        name="two learning rates in a MultiOptimizer",
        edits=(
            Edit(
                "optimizer.py",
                ADAM,
                "slow, fast = keras.optimizers.Adam(5e-4), keras.optimizers.Adam(schedule)\n"
                "    return keras.optimizers.MultiOptimizer(\n"
                '        lambda v: fast if v.path.startswith("logits/") else slow\n'
                "    )",
            ),
        ),
    ),
    Change(
        name="Lion",
        edits=(
            Edit("optimizer.py", ADAM, "return keras.optimizers.Lion(schedule, weight_decay=1e-2)"),
            Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 3e-4"),
        ),
    ),
    Change(
        name="Adafactor",
        starter="language_model",
        edits=(Edit("optimizer.py", ADAM, "return keras.optimizers.Adafactor(schedule)"),),
    ),
    Change(
        name="Muon",
        edits=(
            Edit(
                "optimizer.py",
                ADAM,
                "return keras.optimizers.Muon(\n"
                '        schedule, adam_lr_ratio=0.1, exclude_layers=["logits", "conv2d"]\n    )',
            ),
            Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 1e-2"),
        ),
    ),
    Change(
        name="SGD with momentum and a warm-up from zero",
        edits=(
            Edit(
                "optimizer.py",
                "keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)",
                "keras.optimizers.schedules.CosineDecay(\n"
                "        0.0, steps - steps // 20, warmup_target=0.1, warmup_steps=steps // 20\n    )",
            ),
            Edit(
                "optimizer.py",
                ADAM,
                "return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)",
            ),
        ),
    ),
    Change(
        name="a negative loss: the log-likelihood of labels in small units, with its own spread",
        starter="tabular_regression",
        edits=(
            *in_model(
                (
                    at.PREDICTION,
                    "    features = layers.Concatenate()([x, hidden])\n"
                    "    spread = layers.Dense(1, dtype=floatx)(hidden)  # log of it, (batch, 1)\n"
                    "    x = layers.Dense(1, dtype=floatx)(features)  # (batch, 1)\n",
                ),
                (
                    "keras.Model(inputs, unscale(x))",
                    "keras.Model(inputs, layers.Concatenate(dtype=floatx)([unscale(x), spread]))",
                ),
            ),
            Edit(
                "losses.py",
                STANDARDIZED,
                "error = squared_error(\n"
                "            labels / LABEL_DEVIATION, predictions[:, :1] / LABEL_DEVIATION\n"
                "        )\n"
                "        spread = predictions[:, 1]\n"
                "        # Of labels in units of 10,000.\n"
                "        return 0.5 * tf.exp(-2 * spread) * error + spread + "
                "float(np.log(LABEL_DEVIATION / 1e4))",
            ),
            after("losses.py", "import keras\n", "import numpy as np\n"),
            Edit(
                "steps.py",
                "update_state(labels, predictions, weights)",
                "update_state(labels, predictions[:, :1], weights)",
                "*",
            ),
            PICTURES,
        ),
    ),
    Change(
        name="Huber's loss of labels in the millions",
        starter="tabular_regression",
        edits=(
            Edit("data.py", "target[rows, np.newaxis]", "1e4 * target[rows, np.newaxis]"),
            Edit(
                "losses.py",
                "squared_error = keras.losses.MeanSquaredError(",
                "huber = keras.losses.Huber(delta=1e5, ",
            ),
            Edit("losses.py", STANDARDIZED, "return huber(labels, predictions) / 1e5"),
        ),
    ),
    Change(
        name="several labels for each image, sigmoids",
        edits=(
            before("data.py", at.ARRAYS, MULTI_LABEL),
            Edit("data.py", LABELS, 'properties(labels).astype("float32")'),
            *in_model(("CLASSES = 10", "CLASSES = 3")),
            in_losses(
                '    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, '
                'reduction="none")}\n'
            ),
            Edit(
                "metrics.py",
                "keras.metrics.SparseCategoricalAccuracy()",
                "keras.metrics.BinaryAccuracy(threshold=0.0)",
            ),
            PICTURES,
        ),
    ),
    Change(
        name="ordinal regression on nine thresholds",
        edits=(
            *in_model(("CLASSES = 10", "CLASSES = 9")),
            in_losses(ORDINAL),
            Edit("metrics.py", "keras.metrics.SparseCategoricalAccuracy()", "keras.metrics.Mean()"),
            Edit(
                "steps.py",
                UPDATE,
                "level = tf.math.count_nonzero(predictions > 0, axis=1)  # (batch,)\n"
                '    run.metrics["accuracy"].update_state(tf.cast(level == labels, weights.dtype), '
                "weights)",
                "*",
            ),
            PICTURES,
        ),
    ),
    Change(
        name="embeddings and a cosine loss",
        edits=(
            *in_model(("CLASSES = 10", "CLASSES = 16")),
            in_losses(COSINE),
            Edit("metrics.py", "keras.metrics.SparseCategoricalAccuracy()", "keras.metrics.Mean()"),
            Edit(
                "steps.py",
                UPDATE,
                'run.metrics["accuracy"].update_state(1 - per_example, weights)',
                "*",
            ),
            PICTURES,
        ),
    ),
    Change(
        name="triplets of the global batch",
        edits=(
            *in_model(("CLASSES = 10", "CLASSES = 16")),
            Edit("metrics.py", "keras.metrics.SparseCategoricalAccuracy()", "keras.metrics.Mean()"),
            *in_steps(TRIPLET),
            PICTURES,
        ),
    ),
    Change(
        name="one loss, two models, an optimizer for each",
        edits=(
            Edit("model.py", "", TWO_PARTS, "create_model"),
            Edit(
                "optimizer.py",
                ADAM,
                'return {"body": keras.optimizers.Adam(schedule), "head": keras.optimizers.SGD(0.1)}',
            ),
            *in_steps(TWO_PARTS_STEP),
            PICTURES,
        ),
    ),
    Change(
        name="an autoencoder whose labels are its inputs",
        edits=(
            Edit("data.py", LABELS, 'images.astype("float32")[..., np.newaxis]'),
            Edit("model.py", "", AUTOENCODER, "create_model"),
            in_losses(SUM_OF_SQUARES),
            Edit("metrics.py", at.ACCURACY, '{"error": keras.metrics.Mean()}'),
            *in_steps(AUTOENCODER_STEP),
            *LOWEST_LOSS,
            PICTURES,
        ),
        flags=("--shift", "0"),
    ),
    Change(
        name="training data as a stream",
        edits=with_arrays(
            '    stream = tf.data.Dataset.from_tensor_slices(arrays["train"])\n'
            + '    return arrays | {"train": stream}\n'
        ),
    ),
    Change(
        name="a category as strings, through StringLookup",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "        sex = data[rows, category].astype(np.int64)\n",
                '        sex = np.where(data[rows, category] == 1, "f", "m").astype(object)\n',
            ),
            *in_model(
                (
                    'keras.Input((), dtype="int64", name="sex")',
                    'keras.Input((), dtype="string", name="sex")',
                ),
                (
                    '    sex = layers.CategoryEncoding(categories, output_mode="one_hot")(inputs["sex"])\n',
                    '    lookup = layers.StringLookup(vocabulary=["f", "m"], output_mode="one_hot")\n'
                    '    sex = ops.cast(lookup(inputs["sex"]), floatx)\n',
                ),
            ),
            Edit("model.py", 'inputs["sex"].max() + 1', "2"),
            Edit("data.py", "np.unique(categories,", 'np.unique(categories.astype("U1"),'),
            PICTURES,
        ),
    ),
    Change(
        name="integer images, scaled in the model",
        edits=(
            Edit("data.py", 'images.astype("float32")', '(16 * images).astype("uint8")'),
            *in_model(
                (INPUT, 'keras.Input((8, 8, 1), dtype="uint8", name="images")'),
                ("    x = images\n", "    x = layers.Rescaling(1 / 16)(images)\n"),
            ),
        ),
        flags=("--shift", "0"),
    ),
    Change(
        name="a column that is constant and tiny",
        starter="tabular_regression",
        edits=(
            after(
                "data.py",
                at.NUMERIC,
                "        numeric[:, -1] = 3e-7  # an instrument that was off\n",
            ),
        ),
    ),
    Change(
        name="many equal rows, also in different splits, as people answer a survey",
        starter="tabular_regression",
        edits=(
            after(
                "data.py",
                at.NUMERIC,
                "        numeric[:, 2:] = 1  # asked nobody\n"
                "        numeric[:, :2] = np.round(numeric[:, :2] / 20)  # answers 1 to 4\n",
            ),
        ),
    ),
    Change(
        name="two of a hundred images are positive",
        edits=(
            before(
                "data.py",
                at.ARRAYS,
                "    kept = {s: (y != 0) | (np.arange(len(y)) % 5 == 0) for s, (_, y) in splits.items()}\n"
                "    splits = {s: (x[kept[s]], y[kept[s]] == 0) for s, (x, y) in splits.items()}\n",
            ),
            *in_model(("CLASSES = 10", "CLASSES = 2")),
        ),
    ),
    Change(
        name="dropout stays on in validation: the mean of four passes",
        edits=(
            Edit(
                "steps.py",
                "",
                "def validation_step(run: Run, batch: Batch, replica: Replica) "
                '-> dict[str, tf.Tensor]:\n    """The mean of four passes."""\n' + MC_DROPOUT,
                "validation_step",
            ),
        ),
    ),
    Change(
        name="weights of tokens: the year counts half, separators nothing",
        starter="language_model",
        edits=(
            Edit(
                "data.py",
                '    weights = (is_answer & (targets != 0)).astype("float32")\n',
                '    weights = (is_answer & (targets != 0) & (targets != ord("-"))).astype("float32")\n'
                "    written = np.cumsum(is_answer, axis=1)\n"
                "    weights[written <= 4] *= 0.5\n",
            ),
        ),
    ),
    Change(
        name="deep supervision: a second output at half the resolution",
        starter="segmentation",
        edits=(
            *in_model(
                (
                    "        x = _convolve_twice(x, task.width * 2**level)\n    # Full precision",
                    "        x = _convolve_twice(x, task.width * 2**level)\n"
                    "        if level == 1:\n"
                    "            early = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx())(x)\n"
                    "            early = layers.UpSampling2D(dtype=keras.config.floatx())(early)\n"
                    "    # Full precision",
                ),
                ("keras.Model(images, logits)", "keras.Model(images, [logits, early])"),
            ),
            Edit(
                "steps.py",
                "    logits = run.model(images, training=True)  # (batch, h, w, classes)\n",
                "    logits, early = run.model(images, training=True)  # each (batch, h, w, classes)\n",
            ),
            after(
                "steps.py",
                '    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)\n',
                '    per_pixel += 0.4 * run.losses["main"](labels, early)\n',
                "train_step",
            ),
            Edit(
                "steps.py",
                "    logits = run.model(images, training=False)  # (batch, h, w, classes)\n",
                "    logits, _ = run.model(images, training=False)  # (batch, h, w, classes)\n",
                "*",
            ),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, images)",
                "predict_in_parts(run.model, images)[0]",
            ),
        ),
    ),
    Change(
        name="a gradient penalty",
        starter="gan",
        edits=(
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n",
                PENALTY,
                "discriminator_step",
            ),
            after(
                "steps.py",
                'per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
                "    per_example += 5.0 * tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3])\n",
            ),
        ),
    ),
    Change(
        name="spectral normalization of the discriminator",
        starter="gan",
        edits=in_model(
            (
                'x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)',
                'convolution = layers.Conv2D(filters, 4, strides=2, padding="same")\n'
                "        x = layers.SpectralNormalization(convolution)(x)",
            )
        ),
    ),
    Change(
        name="mixup, with labels that are mixed too",
        edits=(
            Edit(
                "data.py",
                "        # A pixel (x, y) of the result comes from (x + dx, y + dy).\n"
                "        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)"
                "  # (batch, 8)\n"
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                MIXUP,
            ),
            in_losses(
                "    soft = keras.losses.CategoricalCrossentropy(from_logits=True, "
                'reduction="none")\n'
                f'    return {{"main": {at.SPARSE}, "soft": soft}}\n'
            ),
            Edit("steps.py", 'run.losses["main"]', 'run.losses["soft"]', "train_step"),
            Edit(
                "steps.py",
                UPDATE,
                UPDATE.replace("(labels,", "(tf.argmax(labels, axis=1),"),
                "train_step",
            ),
        ),
    ),
    Change(
        name="a recurrent model that masks padding",
        starter="language_model",
        edits=in_model(
            (
                at.TRANSFORMER,
                "    x = layers.Embedding(TOKENS, task.width, mask_zero=True)(tokens)\n"
                "    x = layers.GRU(task.width, return_sequences=True)(x)  # (batch, T, width)\n",
            )
        ),
    ),
    Change(
        name="focal loss",
        edits=(
            in_losses(
                "    focal = keras.losses.CategoricalFocalCrossentropy(from_logits=True, "
                'reduction="none")\n'
                '    return {"main": lambda y, p: focal(tf.one_hot(y, 10, dtype=p.dtype), p)}\n'
            ),
        ),
    ),
    Change(
        name="Dice's loss beside the cross-entropy",
        starter="segmentation",
        edits=(
            before("losses.py", "# TODO(10)", DICE),
            Edit("losses.py", "import IGNORED\n", "import CLASSES, IGNORED\n"),
            Edit("steps.py", at.LOSSES_IMPORT, at.LOSSES_IMPORT + ", dice"),
            after(
                "steps.py",
                "run.task.foreground_weight)  # (batch,)\n",
                "    per_example += dice(labels, logits)\n",
                "*",
            ),
        ),
    ),
)
